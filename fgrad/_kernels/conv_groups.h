/* Groups of few features that are neighbours in memory (depthwise, features last): vectors of groups, tiles of outputs along a row.
 * Included by conv_loops.h, once per type T; N(name) appends the type's suffix. */

/* Tiles of J outputs, xj and oj apart: out (+)= sum over taps t, and r in [lo, hi), of x[t.x + r xk] w[t.w + r wk].
 * `ahead` is where the next row of x begins, which is prefetched. */
#define CONV_TILE(V, J) \
static void N(conv_tile_##V##J)(const T *x, const T *w, const FgTap *taps, int64_t n, int64_t lo, int64_t hi, int64_t xk, int64_t wk, \
                                int64_t xj, int64_t ahead, T *out, int64_t oj, int add) { \
    N(V) acc[J]; \
    _Pragma("GCC unroll 8") for (int j = 0; j < J; j++) __builtin_prefetch(x + ahead + j * xj, 0, 2); \
    _Pragma("GCC unroll 8") for (int j = 0; j < J; j++) acc[j] = add ? *(const N(V) *)(out + j * oj) : (N(V)){0}; \
    for (int64_t t = 0; t < n; t++) for (int64_t r = lo; r < hi; r++) { \
        const T *xt = x + taps[t].x + r * xk; \
        N(V) v = *(const N(V) *)(w + taps[t].w + r * wk); \
        _Pragma("GCC unroll 8") for (int j = 0; j < J; j++) acc[j] += *(const N(V) *)(xt + j * xj) * v; \
    } \
    _Pragma("GCC unroll 8") for (int j = 0; j < J; j++) *(N(V) *)(out + j * oj) = acc[j]; \
}
#define CONV_TILES(V) CONV_TILE(V, 1) CONV_TILE(V, 2) CONV_TILE(V, 3) CONV_TILE(V, 4) CONV_TILE(V, 8) \
static void N(conv_tiles_##V)(int64_t j, const T *x, const T *w, const FgTap *taps, int64_t n, int64_t lo, int64_t hi, int64_t xk, \
                                 int64_t wk, int64_t xj, int64_t ahead, T *out, int64_t oj, int add) { \
    switch (j) { \
    case 1: N(conv_tile_##V##1)(x, w, taps, n, lo, hi, xk, wk, xj, ahead, out, oj, add); break; \
    case 2: N(conv_tile_##V##2)(x, w, taps, n, lo, hi, xk, wk, xj, ahead, out, oj, add); break; \
    case 3: N(conv_tile_##V##3)(x, w, taps, n, lo, hi, xk, wk, xj, ahead, out, oj, add); break; \
    case 4: N(conv_tile_##V##4)(x, w, taps, n, lo, hi, xk, wk, xj, ahead, out, oj, add); break; \
    default: N(conv_tile_##V##8)(x, w, taps, n, lo, hi, xk, wk, xj, ahead, out, oj, add); \
    } \
}
typedef T N(wide) __attribute__((vector_size(GEMM_BYTES), aligned(sizeof(T)), may_alias));
typedef T N(narrow) __attribute__((vector_size(16), aligned(sizeof(T)), may_alias));
typedef T N(single);
CONV_TILES(wide)
CONV_TILES(narrow)
CONV_TILES(single)
#undef CONV_TILE
#undef CONV_TILES

/* A row of outputs in all groups: a vector of groups after the other, so that x and out are walked in the same direction. */
static void N(conv_group_row)(const FgConvPart *p, const T *x, const T *w, const FgGroupSpace *m, int64_t n, int64_t ahead,
                              T *out, int64_t oj, int add) {
    const FgConv *c = p->c;
    int64_t wide = sizeof(N(wide)) / sizeof(T), narrow = sizeof(N(narrow)) / sizeof(T), lanes;
    int64_t xk = p->d[2] * p->xs[2], wk = p->wr[2], xj = p->s[2] * p->xs[2], x0 = -p->lo[2] * p->xs[2];
    #define TILE(J, at, lo, hi, add) do { \
        const T *xt = x + g + x0 + (at) * xj; \
        if (lanes == 1) N(conv_tiles_single)(J, xt, w + g, m->taps, n, lo, hi, xk, wk, xj, ahead, out + g + (at) * oj, oj, add); \
        else if (lanes == wide) N(conv_tiles_wide)(J, xt, w + g, m->taps, n, lo, hi, xk, wk, xj, ahead, out + g + (at) * oj, oj, add); \
        else N(conv_tiles_narrow)(J, xt, w + g, m->taps, n, lo, hi, xk, wk, xj, ahead, out + g + (at) * oj, oj, add); } while (0)
    for (int64_t g = 0; g < c->G; g += lanes) {
        lanes = c->G - g >= wide ? wide : c->G - g >= narrow ? narrow : 1;
        for (int64_t j = 0, J; j < p->Q[2]; j += J) {
            int64_t from = 0, to = p->R[2];
            J = p->Q[2] - j >= 8 ? 8 : conv_min(p->Q[2] - j, 4);
            for (int64_t i = j; i < j + J; i++) {
                from = conv_max(from, m->inside[i].x);
                to = conv_min(to, m->inside[i].w);
            }
            to = conv_max(from, to);
            TILE(J, j, from, to, add);
            if (from > 0 || to < p->R[2]) for (int64_t i = j; i < j + J; i++) {     /* taps that not all of the tile have */
                FgTap in = m->inside[i];
                if (in.x < from) TILE(1, i, in.x, conv_min(in.w, from), 1);
                if (in.w > to) TILE(1, i, conv_max(in.x, to), in.w, 1);
            }
        }
    }
    #undef TILE
}

/* Units (b, o, q0, q1): rows of outputs.  */
static void N(conv_groups)(const FgConvPart *p, int64_t begin, int64_t end, const FgGroupSpace *m) {
    const FgConv *c = p->c;
    for (int64_t u = begin; u < end; u++) {
        int64_t q1 = u % p->Q[1], q0 = u / p->Q[1] % p->Q[0], o = u / p->Q[1] / p->Q[0] % c->O, b = u / p->Q[1] / p->Q[0] / c->O, n = 0;
        for (int64_t f = 0; f < c->C; f++) for (int64_t r0 = 0; r0 < p->R[0]; r0++) for (int64_t r1 = 0; r1 < p->R[1]; r1++) {
            int64_t p0 = q0 * p->s[0] + r0 * p->d[0] - p->lo[0], p1 = q1 * p->s[1] + r1 * p->d[1] - p->lo[1];
            if ((uint64_t)p0 < (uint64_t)p->L[0] && (uint64_t)p1 < (uint64_t)p->L[1])
                m->taps[n++] = (FgTap){f * c->xc + p0 * p->xs[0] + p1 * p->xs[1], f * c->wc + r0 * p->wr[0] + r1 * p->wr[1]};
        }
        N(conv_group_row)(p, (const T *)p->x + b * c->xb, (const T *)p->w + p->w0 + o * c->wo, m, n,
                          n ? m->taps[n - 1].x + p->s[1] * p->xs[1] : 0,
                          (T *)p->out + p->o0 + b * c->ob + o * c->oo + q0 * p->os[0] + q1 * p->os[1], p->os[2], 0);
    }
}

/* Units are chunks of the rows of taps (f, r0, r1), which are longer than the rows of outputs (the gradient with respect to w): each
 * row is read once for all outputs, whose sums stay in the cache.  Partial sums (chunk, b, o, q, g). */
static void N(conv_group_sums)(const FgConvPart *p, int64_t begin, int64_t end, const FgGroupSpace *m) {
    const FgConv *c = p->c;
    const T *x = (const T *)p->x, *w = (const T *)p->w + p->w0;
    int64_t rows = c->C * p->R[0] * p->R[1], row = p->Q[2] * c->G, size = c->B * c->O * p->Q[0] * p->Q[1] * row;
    for (int64_t u = begin; u < end; u++) {
        T *part = (T *)p->part + u * size;
        memset(part, 0, (size_t)size * sizeof(T));
        for (int64_t t = rows * u / p->nk; t < rows * (u + 1) / p->nk; t++) {
            int64_t r1 = t % p->R[1], r0 = t / p->R[1] % p->R[0], f = t / p->R[1] / p->R[0];
            for (int64_t b = 0; b < c->B; b++) for (int64_t o = 0; o < c->O; o++) for (int64_t q0 = 0; q0 < p->Q[0]; q0++)
                for (int64_t q1 = 0; q1 < p->Q[1]; q1++) {
                    int64_t p0 = q0 * p->s[0] + r0 * p->d[0] - p->lo[0], p1 = q1 * p->s[1] + r1 * p->d[1] - p->lo[1];
                    int64_t xat = b * c->xb + f * c->xc + p0 * p->xs[0] + p1 * p->xs[1];
                    *m->taps = (FgTap){xat, o * c->wo + f * c->wc + r0 * p->wr[0] + r1 * p->wr[1]};
                    if ((uint64_t)p0 < (uint64_t)p->L[0] && (uint64_t)p1 < (uint64_t)p->L[1])
                        N(conv_group_row)(p, x, w, m, 1, xat + p->d[1] * p->xs[1],
                                          part + (((b * c->O + o) * p->Q[0] + q0) * p->Q[1] + q1) * row, c->G, 1);
                }
        }
    }
}

/* Units (b, o, q0, q1, q2): the sums of the chunks. */
static void N(conv_group_reduce)(const FgConvPart *p, int64_t begin, int64_t end) {
    const FgConv *c = p->c;
    int64_t size = c->B * c->O * p->Q[0] * p->Q[1] * p->Q[2] * c->G, q[3];
    for (int64_t u = begin; u < end; u++) {
        int64_t rest = u;
        for (int d = 2; d >= 0; d--) { q[d] = rest % p->Q[d]; rest /= p->Q[d]; }
        T *to = (T *)p->out + p->o0 + rest / c->O * c->ob + rest % c->O * c->oo + q[0] * p->os[0] + q[1] * p->os[1] + q[2] * p->os[2];
        const T *part = (const T *)p->part + u * c->G;
        memcpy(to, part, (size_t)c->G * sizeof(T));
        for (int64_t k = 1; k < p->nk; k++) for (int64_t g = 0; g < c->G; g++) to[g] += part[k * size + g];
    }
}
