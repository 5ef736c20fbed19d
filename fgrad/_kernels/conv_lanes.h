/* Many groups of few features, however they lie: for a vector of groups after the other, blocks of input rows are copied with the groups
 * last, and tiles of outputs by output features run over them. Included by conv_loops.h after conv_dense.h. */

/* J outputs by O features: sums over runs of kc taps of x[t.x + k xk + j xj] w[t.w + k wk + o wo]. */
GEMM_INLINE void N(conv_lane_body)(const int J, const int O, const FgTap *taps, int64_t n, int64_t kc, const T *x, int64_t xk, int64_t xj,
                                   const T *w, int64_t wk, int64_t wo, T *out, int64_t oj, int64_t oo, int add) {
    G(vec) sum[4][4], y[4];
    GEMM_UNROLL for (int j = 0; j < J; j++) {
        GEMM_UNROLL for (int o = 0; o < O; o++) sum[j][o] = add ? (G(vec))*(const G(mem) *)(out + j * oj + o * oo) : (G(vec)){0};
    }
    for (int64_t t = 0; t < n; t++) {
        const T *xt = x + taps[t].x, *wt = w + taps[t].w;
        for (int64_t k = 0; k < kc; k++, xt += xk, wt += wk) {
            GEMM_UNROLL for (int o = 0; o < O; o++) y[o] = *(const G(mem) *)(wt + o * wo);
            GEMM_UNROLL for (int j = 0; j < J; j++) {
                G(vec) v = *(const G(mem) *)(xt + j * xj);
                GEMM_UNROLL for (int o = 0; o < O; o++) sum[j][o] += v * y[o];
            }
        }
    }
    GEMM_UNROLL for (int j = 0; j < J; j++) {
        GEMM_UNROLL for (int o = 0; o < O; o++) *(G(mem) *)(out + j * oj + o * oo) = sum[j][o];
    }
}
#define CONV_LANE(J, O) \
static void N(conv_lane_##J##O)(const FgTap *taps, int64_t n, int64_t kc, const T *x, int64_t xk, int64_t xj, const T *w, int64_t wk, \
                                int64_t wo, T *out, int64_t oj, int64_t oo, int add) { \
    N(conv_lane_body)(J, O, taps, n, kc, x, xk, xj, w, wk, wo, out, oj, oo, add); \
}
#define CONV_LANE4(J) CONV_LANE(J, 1) CONV_LANE(J, 2) CONV_LANE(J, 3) CONV_LANE(J, 4)
CONV_LANE4(1) CONV_LANE4(2) CONV_LANE4(3) CONV_LANE4(4)
#undef CONV_LANE4
typedef void (*N(conv_lane))(const FgTap *taps, int64_t n, int64_t kc, const T *x, int64_t xk, int64_t xj, const T *w, int64_t wk,
                             int64_t wo, T *out, int64_t oj, int64_t oo, int add);
#define CONV_LANE4(J) {N(conv_lane_##J##1), N(conv_lane_##J##2), N(conv_lane_##J##3), N(conv_lane_##J##4)},
static const N(conv_lane) N(conv_lane_table)[4][4] = {CONV_LANE4(1) CONV_LANE4(2) CONV_LANE4(3) CONV_LANE4(4)};
#undef CONV_LANE
#undef CONV_LANE4

/* m outputs by n features in tiles, of one vector of groups */
static void N(conv_lane_tiles)(int64_t m, int64_t features, const FgTap *taps, int64_t n, int64_t kc, const T *x, int64_t xk, int64_t xj,
                               const T *w, int64_t wk, int64_t wo, T *out, int64_t oj, int64_t oo, int add) {
    for (int64_t o = 0; o < features; o += 4) for (int64_t j = 0; j < m; j += 4)
        N(conv_lane_table)[conv_min(4, m - j) - 1][conv_min(4, features - o) - 1](taps, n, kc, x + j * xj, xk, xj, w + o * wo, wk, wo,
                                                                                 out + j * oj + o * oo, oj, oo, add);
}

/* `n` positions, `step` apart, of `features`, `fs` apart, of `groups`, `gs` apart: groups last, a vector each. */
static void N(conv_lane_copy)(const T *from, int64_t groups, int64_t gs, int64_t features, int64_t fs, int64_t n, int64_t step, T *to) {
    int64_t each = features * G(lanes);
    if (step == 1) for (int64_t k = 0; k < features; k++) G(pack)(to + k * G(lanes), each, from + k * fs, groups, gs, 1, n);
    else for (int64_t i = 0; i < n; i++) G(pack)(to + i * each, G(lanes), from + i * step, groups, gs, fs, features);
}

static void N(conv_lane_fill)(const FgConvPart *p, const FgFill *f, int64_t groups, const T *x, T *dst) {
    int64_t lo = conv_min(f->cols, conv_max(0, -f->p2)), hi = conv_max(lo, conv_min(f->cols, p->L[2] - f->p2)), n = f->features * G(lanes);
    for (int64_t i = 0; i < f->planes; i++) for (int64_t j = 0; j < f->rows; j++) {
        int64_t p0 = f->p0 + i * f->step, p1 = f->p1 + j;
        T *to = dst + (i * f->rows + j) * f->cols * n;
        const T *from = x + p0 * p->xs[0] + p1 * p->xs[1] + (f->p2 + lo) * p->xs[2];
        if ((uint64_t)p0 >= (uint64_t)p->L[0] || (uint64_t)p1 >= (uint64_t)p->L[1]) continue;
        memset(to, 0, (size_t)(lo * n) * sizeof(T));
        N(conv_lane_copy)(from, groups, p->c->xg, f->features, f->stride, hi - lo, p->xs[2], to + lo * n);
        memset(to + hi * n, 0, (size_t)((f->cols - hi) * n) * sizeof(T));
    }
}

/* Units (vector of groups, tap): W as (vector, tap, c, o, lane). */
static void N(conv_lane_w)(const FgConvPart *p, int64_t begin, int64_t end, const T *w, T *dst) {
    const FgConv *c = p->c;
    const int64_t sizes[4] = {conv_ceil(c->G, G(lanes)), p->R[0], p->R[1], p->R[2]};
    int64_t at[4];
    for (int64_t u = begin; u < end; u++) {
        conv_index(u, sizes, 4, at);
        int64_t g = at[0] * G(lanes), groups = conv_min(G(lanes), c->G - g);
        const T *from = w + g * c->wg + at[1] * p->wr[0] + at[2] * p->wr[1] + at[3] * p->wr[2];
        for (int64_t k = 0; k < c->C; k++)
            G(pack)(dst + (u * c->C + k) * c->O * G(lanes), G(lanes), from + k * c->wc, groups, c->wg, c->wo, c->O);
    }
}

/* A row of n outputs (q2, o, lane) to where it belongs. */
static void N(conv_lane_place)(const FgConvPart *p, const T *row, int64_t groups, int64_t n, T *out) {
    const FgConv *c = p->c;
    const int64_t L = G(lanes);
    if (p->os[2] < c->og)
        for (int64_t o = 0; o < c->O; o++) N(conv_spread)(row + o * L, c->O * L, n, groups, out + o * c->oo, p->os[2], c->og);
    else for (int64_t i = 0; i < n; i++) N(conv_spread)(row + i * c->O * L, L, c->O, groups, out + i * p->os[2], c->oo, c->og);
}

/* Units (b, vector of groups, q0, block of rows, block of columns).  `x` holds the block, `row` a row of its outputs. */
static void N(conv_lanes)(const FgConvPart *p, int64_t begin, int64_t end, T *x, T *row, FgTap *taps) {
    const FgConv *c = p->c;
    const int64_t L = G(lanes), sizes[5] = {c->B, conv_ceil(c->G, L), p->Q[0], p->blocks[0], p->blocks[1]};
    int64_t runs = p->d[2] == 1 ? 1 : p->R[2], kc = p->R[2] / runs * c->C, all = p->R[0] * p->R[1] * p->R[2], at[5];
    for (int64_t u = begin; u < end; u++) {
        conv_index(u, sizes, 5, at);
        int64_t q1 = at[3] * p->block[0], q1end = conv_min(p->Q[1], q1 + p->block[0]), q2 = at[4] * p->block[1];
        int64_t n2 = conv_min(p->Q[2] - q2, p->block[1]), g = at[1] * L, groups = conv_min(L, c->G - g);
        const T *w = (const T *)p->w + at[1] * all * c->C * c->O * L;
        T *out = (T *)p->out + p->o0 + at[0] * c->ob + g * c->og + at[2] * p->os[0] + q2 * p->os[2];
        FgFill f = {p->R[0], (q1end - q1 - 1) * p->s[1] + (p->R[1] - 1) * p->d[1] + 1, (n2 - 1) * p->s[2] + (p->R[2] - 1) * p->d[2] + 1,
                    c->C, c->xc, at[2] * p->s[0] - p->lo[0], p->d[0], q1 * p->s[1] - p->lo[1], q2 * p->s[2] - p->lo[2]};
        N(conv_lane_fill)(p, &f, groups, (const T *)p->x + at[0] * c->xb + g * c->xg, x);
        for (int64_t q = q1; q < q1end; q++) {
            int64_t n = 0;
            for (int64_t r0 = 0; r0 < p->R[0]; r0++) for (int64_t r1 = 0; r1 < p->R[1]; r1++) {
                int64_t p0 = f.p0 + r0 * f.step, p1 = q * p->s[1] + r1 * p->d[1] - p->lo[1];
                if ((uint64_t)p0 >= (uint64_t)p->L[0] || (uint64_t)p1 >= (uint64_t)p->L[1]) continue;
                for (int64_t r = 0; r < runs; r++) {
                    int64_t pixel = (r0 * f.rows + p1 - f.p1) * f.cols + r * p->d[2];
                    taps[n++] = (FgTap){pixel * c->C * L, ((r0 * p->R[1] + r1) * p->R[2] + r) * c->C * c->O * L};
                }
            }
            N(conv_lane_tiles)(n2, c->O, taps, n, kc, x, L, p->s[2] * c->C * L, w, c->O * L, L, row, c->O * L, L, 0);
            N(conv_lane_place)(p, row, groups, n2, out + q * p->os[1]);
        }
    }
}

/* Few outputs, long sums: units (chunk of them, vector of groups); partial sums (chunk, vector, q0, q1, q2, b, o, lane).
 * `x` and `w` hold blocks. */
static void N(conv_lane_sums)(const FgConvPart *p, int64_t begin, int64_t end, T *x, T *w, FgTap *taps) {
    const FgConv *c = p->c;
    const int64_t L = G(lanes), B = c->B * L, O = c->O * L, vectors = conv_ceil(c->G, L);
    const int64_t blocks[4] = {c->C, p->R[0], p->blocks[0], p->blocks[1]}, all = blocks[0] * blocks[1] * blocks[2] * blocks[3];
    int64_t each = p->s[2] == 1 ? 1 : p->Q[2], m = p->Q[2] / each * c->B, at[4];
    for (int64_t u = begin; u < end; u++) {
        int64_t g = u % vectors * L, groups = conv_min(L, c->G - g), first = all * (u / vectors) / p->nk;
        for (int64_t k = first; k < all * (u / vectors + 1) / p->nk; k++) {
            conv_index(k, blocks, 4, at);
            int64_t r1 = at[2] * p->block[0], r1end = conv_min(p->R[1], r1 + p->block[0]);
            int64_t r2 = at[3] * p->block[1], kc = conv_min(p->R[2] - r2, p->block[1]);
            const T *wk = (const T *)p->w + p->w0 + g * c->wg + at[0] * c->wc + at[1] * p->wr[0] + r2 * p->wr[2];
            FgFill f = {p->Q[0], (p->Q[1] - 1) * p->s[1] + (r1end - r1 - 1) * p->d[1] + 1, (p->Q[2] - 1) * p->s[2] + (kc - 1) * p->d[2] + 1,
                        c->B, c->xb, at[1] * p->d[0] - p->lo[0], p->s[0], r1 * p->d[1] - p->lo[1], r2 * p->d[2] - p->lo[2]};
            N(conv_lane_fill)(p, &f, groups, (const T *)p->x + at[0] * c->xc + g * c->xg, x);
            for (int64_t i = r1; i < r1end; i++)
                N(conv_lane_copy)(wk + i * p->wr[1], groups, c->wg, c->O, c->wo, kc, p->wr[2], w + (i - r1) * kc * O);
            for (int64_t q0 = 0; q0 < p->Q[0]; q0++) for (int64_t q1 = 0; q1 < p->Q[1]; q1++) {
                T *to = (T *)p->part + ((u * p->Q[0] + q0) * p->Q[1] + q1) * p->Q[2] * c->B * O;
                int64_t n = 0;
                for (int64_t i = r1; i < r1end; i++) {
                    int64_t p0 = f.p0 + q0 * f.step, p1 = q1 * p->s[1] + i * p->d[1] - p->lo[1];
                    if ((uint64_t)p0 >= (uint64_t)p->L[0] || (uint64_t)p1 >= (uint64_t)p->L[1]) continue;
                    taps[n++] = (FgTap){(q0 * f.rows + p1 - f.p1) * f.cols * B, (i - r1) * kc * O};
                }
                for (int64_t q2 = 0; q2 < each; q2++)
                    N(conv_lane_tiles)(m, c->O, taps, n, kc, x + q2 * p->s[2] * B, p->d[2] * B, L, w, O, L, to + q2 * B * c->O, O, L,
                                       k > first);
            }
        }
    }
}

/* Units (vector of groups, q0, q1, q2, b): the sums of the chunks, to where they belong. */
static void N(conv_lane_reduce)(const FgConvPart *p, int64_t begin, int64_t end) {
    const FgConv *c = p->c;
    const int64_t L = G(lanes), sizes[5] = {conv_ceil(c->G, L), p->Q[0], p->Q[1], p->Q[2], c->B};
    int64_t size = c->O * L, step = sizes[0] * p->Q[0] * p->Q[1] * p->Q[2] * c->B * size, at[5];
    for (int64_t u = begin; u < end; u++) {
        T *part = (T *)p->part + u * size, *out = (T *)p->out + p->o0;
        conv_index(u, sizes, 5, at);
        for (int64_t k = 1; k < p->nk; k++) for (int64_t i = 0; i < size; i++) part[i] += part[k * step + i];
        out += at[0] * L * c->og + at[1] * p->os[0] + at[2] * p->os[1] + at[3] * p->os[2] + at[4] * c->ob;
        N(conv_spread)(part, L, c->O, conv_min(L, c->G - at[0] * L), out, c->oo, c->og);
    }
}
