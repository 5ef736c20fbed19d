/* Dense convolutions of floats. Input rows are copied, padded with zeros and with their features last, into a block that stays in the
 * second cache; there, neighbouring outputs are rows of a matrix with a constant step, and gemm.h's register tiles run over it
 * without im2col. Included by conv_loops.h, once per type T; N(name) appends the type's suffix, G(name) gemm.h's prefix, and
 * CONV_MADD(sum, x, y) adds x times the vector y. With CONV_PAIRED elements are pairs of bfloat16 (conv_pairs.h). */

/* The tile of gemm.h, with k in n runs of kc: run t begins at a + t.x and b + t.w. */
GEMM_INLINE void N(conv_body)(const int R, const int NV, const FgTap *taps, int64_t n, int64_t kc, const T *a, int64_t ra, int64_t ca,
                              const T *b, int64_t ldb, T *c, int64_t ldc, int64_t tail, int add) {
    G(vec) sum[GEMM_MR][GEMM_NV], y[GEMM_NV];
    const int64_t step = ra * (int64_t)sizeof(T);
    GEMM_UNROLL for (int i = 0; i < R; i++) {
        GEMM_UNROLL for (int v = 0; v < NV; v++) sum[i][v] = (G(vec)){0};
    }
    for (int64_t t = 0; t < n; t++) {
        const T *bt = b + taps[t].w;
        const char *row[(GEMM_MR + 4) / 5];                        /* as in gemm_tile.h */
        GEMM_UNROLL for (int i = 0; i < R; i += 5) row[i / 5] = (const char *)(a + taps[t].x + i * ra);
        int64_t k = 0;
#if GEMM_BYTES == 32
        k = G(turns)(R, NV, kc, row, step, ca * (int64_t)sizeof(T), bt, ldb, sum);
        bt += k * ldb;
#endif
        for (; k < kc; k++, bt += ldb) {
            GEMM_UNROLL for (int v = 0; v + 1 < NV; v++) y[v] = *(const G(mem) *)(bt + v * G(lanes));
            y[NV - 1] = G(load)(bt + (NV - 1) * G(lanes), GEMM_MASKS ? tail : G(lanes));
            GEMM_UNROLL for (int i = 0; i < R; i++) {
                GEMM_UNROLL for (int v = 0; v < NV; v++) sum[i][v] = CONV_MADD(sum[i][v], *(const T *)(row[i / 5] + i % 5 * step), y[v]);
            }
            GEMM_UNROLL for (int i = 0; i < R; i += 5) row[i / 5] += ca * (int64_t)sizeof(T);
        }
    }
    GEMM_UNROLL for (int i = 0; i < R; i++, c += ldc) {
        GEMM_UNROLL for (int v = 0; v < NV; v++) {
            T *p = c + v * G(lanes);
            int64_t m = v + 1 < NV ? G(lanes) : tail;
            G(store)(p, add ? G(load)(p, m) + sum[i][v] : sum[i][v], m);
        }
    }
}

typedef void (*N(conv_kernel))(const FgTap *taps, int64_t n, int64_t kc, const T *a, int64_t step, const T *b, int64_t ldb, T *c,
                               int64_t ldc, int64_t tail, int add);
#define CONV_KERNEL(NAME, R, NV, RA, CA) \
static void NAME(const FgTap *taps, int64_t n, int64_t kc, const T *a, int64_t step, const T *b, int64_t ldb, T *c, int64_t ldc, \
                 int64_t tail, int add) { \
    N(conv_body)(R, NV, taps, n, kc, a, RA, CA, b, ldb, c, ldc, tail, add); \
}
#define CONV_KERNELS(R) \
    CONV_KERNEL(N(conv_cols1x##R), R, 1, 1, step) CONV_KERNEL(N(conv_cols2x##R), R, 2, 1, step) \
    CONV_KERNEL(N(conv_rows1x##R), R, 1, step, 1) CONV_KERNEL(N(conv_rows2x##R), R, 2, step, 1)
GEMM_EACH_ROWS(CONV_KERNELS)
#define CONV_C1(R) N(conv_cols1x##R),
#define CONV_C2(R) N(conv_cols2x##R),
#define CONV_R1(R) N(conv_rows1x##R),
#define CONV_R2(R) N(conv_rows2x##R),
/* [columns of a are contiguous, rows are][vectors - 1][rows - 1] */
static const N(conv_kernel) N(conv_table)[2][2][GEMM_MR] = {{{GEMM_EACH_ROWS(CONV_C1)}, {GEMM_EACH_ROWS(CONV_C2)}},
                                                            {{GEMM_EACH_ROWS(CONV_R1)}, {GEMM_EACH_ROWS(CONV_R2)}}};
#undef CONV_KERNEL
#undef CONV_KERNELS
#undef CONV_C1
#undef CONV_C2
#undef CONV_R1
#undef CONV_R2

/* c (m, nb <= NR) (+)= the tile's sums; a's rows are ra apart (1: its columns are `step`). */
static void N(conv_column)(int64_t m, int64_t nb, const FgTap *taps, int64_t n, int64_t kc, const T *a, int64_t ra, int64_t step,
                           const T *b, int64_t ldb, T *c, int64_t ldc, int add) {
    int64_t w = G(width)(nb), tail = nb - w + G(lanes);
    for (int64_t t = 0, i = 0, next; i < m; t++, i = next) {
        next = gemm_panel(m, t + 1);
        N(conv_table)[ra != 1][w > G(lanes)][next - i - 1](taps, n, kc, a + i * ra, ra == 1 ? step : ra, b, ldb, c + i * ldc, ldc, tail,
                                                           add);
    }
}

#ifdef CONV_PAIRED
typedef uint16_t N(conv_input);

static void N(conv_put)(const FgConvPart *p, const T *src, int64_t ld, int64_t m, int64_t n, int64_t at, int64_t si, int64_t sj) {
    if (p->c->narrow) conv_narrow(src, ld, m, n, (uint16_t *)p->out + at, si, sj);
    else conv_spread_f32(src, ld, m, n, (T *)p->out + at, si, sj);
}
#else
typedef T N(conv_input);

/* Copy f->planes x f->rows x f->cols positions of `f->features` features, zeros outside the image; rows outside are left as they are. */
static void N(conv_fill)(const FgConvPart *p, const FgFill *f, const T *x, T *dst) {
    int64_t lo = conv_min(f->cols, conv_max(0, -f->p2)), hi = conv_max(lo, conv_min(f->cols, p->L[2] - f->p2)), n = f->features;
    for (int64_t i = 0; i < f->planes; i++) for (int64_t j = 0; j < f->rows; j++) {
        int64_t p0 = f->p0 + i * f->step, p1 = f->p1 + j;
        T *to = dst + (i * f->rows + j) * f->cols * n;
        const T *from = x + p0 * p->xs[0] + p1 * p->xs[1] + (f->p2 + lo) * p->xs[2];
        if ((uint64_t)p0 >= (uint64_t)p->L[0] || (uint64_t)p1 >= (uint64_t)p->L[1]) continue;
        memset(to, 0, (size_t)(lo * n) * sizeof(T));
        to += lo * n;
        if (f->stride == 1 && p->xs[2] == n) memcpy(to, from, (size_t)((hi - lo) * n) * sizeof(T));
        else if (f->stride == 1)
            for (int64_t k = lo; k < hi; k++) memcpy(to + (k - lo) * n, from + (k - lo) * p->xs[2], (size_t)n * sizeof(T));
        else G(pack)(to, n, from, n, f->stride, p->xs[2], hi - lo);
        memset(to + (hi - lo) * n, 0, (size_t)((f->cols - hi) * n) * sizeof(T));
    }
}

/* Panel `to` (taps, C, wide) from w (nb, C, taps), whose inner two axes are contiguous: squares of vectors, then rows to their places. */
static void N(conv_pack_taps)(T *to, int64_t wide, const T *w, int64_t nb, int64_t wo, int64_t C, int64_t taps) {
    enum { PIECE = 4 * G(lanes) };
    T rows[PIECE * G(nr)];
    for (int64_t k = 0, f = 0, t = 0; k < C * taps; k += PIECE) {
        int64_t n = conv_min(PIECE, C * taps - k);
        G(pack)(rows, wide, w + k, nb, wo, 1, n);
        for (int64_t i = 0; i < n; i++) {
            memcpy(to + (t * C + f) * wide, rows + i * wide, (size_t)wide * sizeof(T));
            if (++t == taps) { t = 0; f++; }
        }
    }
}

/* The same from w (C, nb, taps), the taps in their order (`sign` 1) or the reverse (-1, w is the last one). */
static void N(conv_pack_lanes)(T *to, int64_t wide, const T *w, int64_t nb, int64_t wc, int64_t C, int64_t taps, int sign) {
    int64_t step = C * wide;
    if (nb < wide) memset(to, 0, (size_t)(taps * step) * sizeof(T));
    if (sign < 0) { to += (taps - 1) * step; step = -step; w -= taps - 1; }
    for (int64_t f = 0; f < C; f++) G(columns)(to + f * wide, step, w + f * wc, nb, taps);
}

/* 1 where the window's taps follow each other in memory, -1 where they do so in the reverse order; else 0. */
static int N(conv_sign)(const FgConvPart *p) {
    for (int sign = 1; sign >= -1; sign -= 2)
        if ((p->R[2] == 1 || p->wr[2] == sign) && (p->R[1] == 1 || p->wr[1] == sign * p->R[2])
            && (p->R[0] == 1 || p->wr[0] == sign * p->R[1] * p->R[2])) return sign;
    return 0;
}

/* Panel `to` (taps, C, width of nb) of W, from nb outputs and C inputs at w; `sign` is conv_sign's. */
static void N(conv_pack_panel)(const FgConvPart *p, int sign, const T *w, int64_t nb, int64_t C, T *to) {
    const FgConv *c = p->c;
    int64_t taps = p->R[0] * p->R[1] * p->R[2], wide = G(width)(nb);
    if (sign > 0 && c->wc == taps) { N(conv_pack_taps)(to, wide, w, nb, c->wo, C, taps); return; }
    if (sign && c->wo == taps) { N(conv_pack_lanes)(to, wide, w, nb, c->wc, C, taps, sign); return; }
    for (int64_t t = 0; t < taps; t++) {
        int64_t r2 = t % p->R[2], r1 = t / p->R[2] % p->R[1], r0 = t / p->R[2] / p->R[1];
        G(pack)(to + t * C * wide, wide, w + r0 * p->wr[0] + r1 * p->wr[1] + r2 * p->wr[2], nb, c->wo, c->wc, C);
    }
}

/* Units (g, panel of O): W as panels of columns, taps outermost. */
static void N(conv_pack_panels)(const FgConvPart *p, int64_t begin, int64_t end, const T *w, T *dst) {
    const FgConv *c = p->c;
    int64_t panels = conv_ceil(c->O, G(nr)), taps = p->R[0] * p->R[1] * p->R[2];
    int sign = N(conv_sign)(p);
    for (int64_t u = begin; u < end; u++) {
        int64_t g = u / panels, o = u % panels * G(nr);
        N(conv_pack_panel)(p, sign, w + g * c->wg + o * c->wo, conv_min(G(nr), c->O - o), c->C, dst + g * p->wg + o * taps * c->C);
    }
}

/* out[i si + j sj] = src[i ld + j] */
static void N(conv_spread)(const T *src, int64_t ld, int64_t m, int64_t n, T *out, int64_t si, int64_t sj) {
    const int64_t L = G(lanes);
    if (sj == 1) {
        for (int64_t i = 0; i < m; i++) for (int64_t j = 0; j < n; j++) out[i * si + j] = src[i * ld + j];
        return;
    }
#if GEMM_HAS_SHUFFLE
    for (int64_t i = 0; i < m; i += L) for (int64_t j = 0; j < n; j += L) {
        int64_t ni = conv_min(L, m - i), nj = conv_min(L, n - j);
        G(vec) x[G(lanes)];
        if (si == 1 && ni == L && nj == L) { G(square)(out + i + j * sj, sj, src + i * ld + j, ld); continue; }
        GEMM_UNROLL for (int k = 0; k < G(lanes); k++) x[k] = k < ni ? G(load)(src + (i + k) * ld + j, nj) : (G(vec)){0};
        G(transpose)(x);
        for (int64_t k = 0; k < nj; k++) {
            T *to = out + i * si + (j + k) * sj;
            if (si == 1) G(store)(to, x[k], ni);
            else for (int64_t t = 0; t < ni; t++) to[t * si] = x[k][t];
        }
    }
#else
    for (int64_t j = 0; j < n; j++) for (int64_t i = 0; i < m; i++) out[i * si + j * sj] = src[i * ld + j];
#endif
}

/* Outputs at + i si + j sj are src[i ld + j]. */
static void N(conv_put)(const FgConvPart *p, const T *src, int64_t ld, int64_t m, int64_t n, int64_t at, int64_t si, int64_t sj) {
    N(conv_spread)(src, ld, m, n, (T *)p->out + at, si, sj);
}
#endif

/* Rows of inputs that lie far apart are fetched into the second cache while the block before theirs is computed: the machine does not see
 * them coming, and memory is idle meanwhile. Where outputs go that lie so is fetched while their sums are computed. */
enum { N(conv_near) = 4 };                    /* neighbours in a row are at most so many elements apart */

static void N(conv_fetch_out)(const FgConvPart *p, int64_t at, int64_t n, int64_t cols) {
    const int64_t item = p->c->narrow ? 2 : sizeof(T), bytes = ((cols - 1) * p->os[2] + 1) * item;
    if (p->os[2] < 1 || p->os[2] > N(conv_near) || p->c->oo < cols) return;
    for (int64_t j = 0; j < n; j++) conv_fetch_row((const char *)p->out + (at + j * p->c->oo) * item, bytes, 1);
}

/* How many rows that lie far apart conv_fill reads, or 0, also where all inputs may be in the second cache; and [begin, end) of them
 * fetched, of an image x. */
static int64_t N(conv_far)(const FgConvPart *p, const FgFill *f) {
    const FgConv *c = p->c;
    const int64_t all = c->G * c->B * c->C * p->L[0] * p->L[1] * p->L[2] * (int64_t)sizeof(T);
    if (p->xs[2] < 1 || p->xs[2] > N(conv_near) || f->stride < f->cols || all < FG_CONV_FAR) return 0;
    return f->planes * f->rows * f->features;
}
static void N(conv_fetch)(const FgConvPart *p, const FgFill *f, const N(conv_input) *x, int64_t begin, int64_t end) {
    const int64_t lo = conv_min(f->cols, conv_max(0, -f->p2)), hi = conv_max(lo, conv_min(f->cols, p->L[2] - f->p2));
    const int64_t bytes = ((hi - lo - 1) * p->xs[2] + 1) * (int64_t)sizeof *x;
    if (hi == lo) return;
    for (int64_t i = begin; i < end; i++) {
        int64_t p0 = f->p0 + i / f->rows / f->features * f->step, p1 = f->p1 + i % f->rows;
        if ((uint64_t)p0 >= (uint64_t)p->L[0] || (uint64_t)p1 >= (uint64_t)p->L[1]) continue;
        const N(conv_input) *from = x + i / f->rows % f->features * f->stride + p0 * p->xs[0] + p1 * p->xs[1] + (f->p2 + lo) * p->xs[2];
        conv_fetch_row(from, bytes, 0);
        if (p->c->pairs) conv_fetch_row(from + p->c->pair, bytes, 0);
    }
}

/* The inputs of a block of outputs; `at` are its digits. */
static FgFill N(conv_block)(const FgConvPart *p, const int64_t *at) {
    const FgConv *c = p->c;
    int64_t q1 = at[3] * p->block[0], q2 = at[4] * p->block[1];
    return (FgFill){p->R[0], (conv_min(p->Q[1] - q1, p->block[0]) - 1) * p->s[1] + (p->R[1] - 1) * p->d[1] + 1,
                    (conv_min(p->Q[2] - q2, p->block[1]) - 1) * p->s[2] + (p->R[2] - 1) * p->d[2] + 1, c->C, c->C == 1 ? 1 : c->xc,
                    at[2] * p->s[0] - p->lo[0], p->d[0], q1 * p->s[1] - p->lo[1], q2 * p->s[2] - p->lo[2], c->pairs / 2};
}

#include "conv_few.h"
#include "conv_columns.h"

/* Units (g, b, q0, block of rows, block of columns).  `x` holds the block, `row` its columns times a panel's. */
static void N(conv_dense)(const FgConvPart *p, int64_t begin, int64_t end, T *x, T *row, FgTap *taps) {
    const FgConv *c = p->c;
    const int64_t sizes[5] = {c->G, c->B, p->Q[0], p->blocks[0], p->blocks[1]};
    const int there = c->oo == 1 && !c->narrow, few = p->algo == CONV_FEW;
    int64_t C = c->C, runs = p->d[2] == 1 && !p->cut ? 1 : p->R[2], kc = p->R[2] / runs * C, all = p->R[0] * p->R[1], at[5];
    for (int64_t u = begin; u < end; u++) {
        conv_index(u, sizes, 5, at);
        int64_t g = at[0], b = at[1], q0 = at[2], q1 = at[3] * p->block[0], q2 = at[4] * p->block[1];
        int64_t q1end = conv_min(p->Q[1], q1 + p->block[0]), n2 = conv_min(p->Q[2] - q2, p->block[1]);
        const N(conv_input) *image = (const N(conv_input) *)p->x + g * c->xg + b * c->xb, *ahead = 0;
        FgFill f = N(conv_block)(p, at), next;
        int64_t step = 0, steps = conv_ceil(c->O, G(nr)) * (q1end - q1), far = 0;
        int64_t plane = f.rows * f.cols * C, line = f.cols * C, pixel = C;      /* steps in the block, or in x */
        const T *from = x;
        if (p->in_place) {
            from = (const T *)image + f.p0 * p->xs[0] + f.p1 * p->xs[1] + f.p2 * p->xs[2];
            plane = p->d[0] * p->xs[0], line = p->xs[1], pixel = p->xs[2];
        } else {
            N(conv_fill)(p, &f, image, x);
            if (u + 1 < end) {
                conv_index(u + 1, sizes, 5, at);
                next = N(conv_block)(p, at);
                ahead = (const N(conv_input) *)p->x + at[0] * c->xg + at[1] * c->xb;
                far = N(conv_far)(p, &next);
            }
        }
        for (int64_t o = 0; o < c->O; o += G(nr)) {
            int64_t nb = conv_min(G(nr), c->O - o), w = few ? 1 : G(width)(nb), ldc = there ? p->os[2] : few ? nb : w;
            const T *wo = (const T *)p->w + g * p->wg + o * all * p->R[2] * C;
            for (int64_t q = q1; q < q1end; q++) {
                int64_t to = p->o0 + g * c->og + b * c->ob + o * c->oo + q0 * p->os[0] + q * p->os[1] + q2 * p->os[2];
                T *sums = there ? (T *)p->out + to : row;
                if (far) N(conv_fetch)(p, &next, ahead, far * step / steps, far * (step + 1) / steps);
                step++;
                if (!there) N(conv_fetch_out)(p, to, nb, n2);
                for (int64_t i = 0, stop, n = 0; i < n2; i = stop, n = 0) {
                    stop = p->cut ? conv_alike(p, 2, q2 + i, q2 + n2) - q2 : n2;
                    for (int64_t t = 0; t < all; t++) {
                        int64_t r0 = t / p->R[1], r1 = t % p->R[1], p0 = f.p0 + r0 * f.step, p1 = q * p->s[1] + r1 * p->d[1] - p->lo[1];
                        if ((uint64_t)p0 >= (uint64_t)p->L[0] || (uint64_t)p1 >= (uint64_t)p->L[1]) continue;
                        for (int64_t r = 0; r < runs; r++) {
                            if (p->cut && (uint64_t)((q2 + i) * p->s[2] + r * p->d[2] - p->lo[2]) >= (uint64_t)p->L[2]) continue;
                            taps[n++] = (FgTap){r0 * plane + (p1 - f.p1) * line + r * p->d[2] * pixel, (t * p->R[2] + r) * C * w};
                        }
                    }
                    const T *at_i = from + i * p->s[2] * pixel;
                    if (few) N(conv_few_row)(stop - i, nb, taps, n, kc, at_i, p->s[2] * pixel, wo, all * p->R[2] * C, sums + i * ldc, ldc);
                    else N(conv_column)(stop - i, nb, taps, n, kc, at_i, p->s[2] * pixel, 1, wo, w, sums + i * ldc, ldc, 0);
                }
                if (!there) N(conv_put)(p, row, ldc, n2, nb, to, p->os[2], c->oo);
            }
        }
    }
}

/* The sums of few outputs over many taps (the gradient with respect to the kernel): M runs along the batch, or (q2, b) where those
 * follow each other, and blocks of taps stay in the cache for all outputs.  Units (chunk, g, panel of O, q0, q1, run of M); partial
 * sums (chunk, g, q0, q1, q2, b, O).  `x` and `w` hold blocks, `w` where it must be packed. */
static void N(conv_sums)(const FgConvPart *p, int64_t begin, int64_t end, T *x, T *w, FgTap *taps) {
    const FgConv *c = p->c;
    const int64_t blocks[4] = {c->C, p->R[0], p->blocks[0], p->blocks[1]};
    int64_t each = p->s[2] == 1 ? 1 : p->Q[2], m = p->Q[2] / each * c->B, all = blocks[0] * blocks[1] * blocks[2] * blocks[3], at[4], q[4];
    const int64_t sizes[4] = {conv_ceil(c->O, G(nr)), p->Q[0], p->Q[1], each};
    int64_t per = sizes[0] * sizes[1] * sizes[2] * each, ldw = p->pack_w ? G(width)(c->O) : p->wr[2];
    for (int64_t cg = begin / per; cg * per < end; cg++) {
        int64_t g = cg % c->G, first = all * (cg / c->G) / p->nk, last = all * (cg / c->G + 1) / p->nk;
        for (int64_t k = first; k < last; k++) {
            conv_index(k, blocks, 4, at);
            int64_t r1 = at[2] * p->block[0], r1end = conv_min(p->R[1], r1 + p->block[0]);
            int64_t r2 = at[3] * p->block[1], kc = conv_min(p->R[2] - r2, p->block[1]), wrow = p->pack_w ? kc * ldw : p->wr[1];
            const T *wk = (const T *)p->w + p->w0 + g * c->wg + at[0] * c->wc + at[1] * p->wr[0] + r1 * p->wr[1] + r2 * p->wr[2];
            FgFill f = {p->Q[0], (p->Q[1] - 1) * p->s[1] + (r1end - r1 - 1) * p->d[1] + 1, (p->Q[2] - 1) * p->s[2] + (kc - 1) * p->d[2] + 1,
                        c->B, c->B == 1 ? 1 : c->xb, at[1] * p->d[0] - p->lo[0], p->s[0], r1 * p->d[1] - p->lo[1], r2 * p->d[2] - p->lo[2],
                        2 * at[0] + 1 < c->pairs ? c->B : 0};
            N(conv_fill)(p, &f, (const N(conv_input) *)p->x + g * c->xg + at[0] * c->xc, x);
            if (p->pack_w) for (int64_t i = r1; i < r1end; i++)
                G(pack)(w + (i - r1) * wrow, ldw, wk + (i - r1) * p->wr[1], c->O, c->O == 1 ? 1 : c->wo, p->wr[2], kc);
            for (int64_t u = conv_max(begin, cg * per); u < conv_min(end, (cg + 1) * per); u++) {
                conv_index(u, sizes, 4, q);
                int64_t o = q[0] * G(nr), n = 0;
                T *to = (T *)p->part + (((cg * p->Q[0] + q[1]) * p->Q[1] + q[2]) * p->Q[2] + q[3]) * c->B * c->O + o;
                for (int64_t i = r1; i < r1end; i++) {
                    int64_t p0 = f.p0 + q[1] * f.step, p1 = q[2] * p->s[1] + i * p->d[1] - p->lo[1];
                    if ((uint64_t)p0 >= (uint64_t)p->L[0] || (uint64_t)p1 >= (uint64_t)p->L[1]) continue;
                    taps[n++] = (FgTap){((q[1] * f.rows + p1 - f.p1) * f.cols + q[3] * p->s[2]) * c->B, (i - r1) * wrow};
                }
                if (n || k == first)
                    N(conv_column)(m, conv_min(G(nr), c->O - o), taps, n, kc, x, 1, p->d[2] * c->B, (p->pack_w ? w : wk) + o, ldw, to, c->O,
                                   k > first);
            }
        }
    }
}

/* Units (g, block of b, q0, q1, q2): partial sums to where they belong. Neighbouring outputs, of one b, may share a line of the cache. */
static void N(conv_place)(const FgConvPart *p, int64_t begin, int64_t end) {
    const FgConv *c = p->c;
    const int64_t sizes[5] = {c->G, conv_ceil(c->B, CONV_PLACE), p->Q[0], p->Q[1], p->Q[2]};
    int64_t step = c->G * p->Q[0] * p->Q[1] * p->Q[2] * c->B * c->O, at[5];
    for (int64_t u = begin; u < end; u++) {
        conv_index(u, sizes, 5, at);
        int64_t b = at[1] * CONV_PLACE, m = conv_min(CONV_PLACE, c->B - b);
        T *part = (T *)p->part + ((((at[0] * p->Q[0] + at[2]) * p->Q[1] + at[3]) * p->Q[2] + at[4]) * c->B + b) * c->O;
        for (int64_t k = 1; k < p->nk; k++) for (int64_t i = 0; i < m * c->O; i++) part[i] += part[k * step + i];
        N(conv_put)(p, part, c->O, m, c->O,
                    p->o0 + at[0] * c->og + b * c->ob + at[2] * p->os[0] + at[3] * p->os[1] + at[4] * p->os[2], c->ob, c->oo);
    }
}

/* Units (g, vector of O): the same where a feature's row of (b, q0, q1, q2) is contiguous, by squares of vectors. */
static void N(conv_place_turned)(const FgConvPart *p, int64_t begin, int64_t end) {
    const FgConv *c = p->c;
    const int64_t L = G(lanes), vectors = conv_ceil(c->O, L), taps = p->Q[0] * p->Q[1] * p->Q[2], row = c->B * taps;
    const int64_t step = c->G * row * c->O;
    const int64_t start = p->o0 - (c->reversed ? taps - 1 : 0);
    T rows[G(lanes) * G(lanes)];
    for (int64_t u = begin; u < end; u++) {
        int64_t g = u / vectors, o = u % vectors * L, n = conv_min(L, c->O - o), b = 0, t = 0;
        for (int64_t k = 0; k < row; k += L) {
            int64_t m = conv_min(L, row - k);
            for (int64_t i = 0; i < m; i++) {
                const T *part = (T *)p->part + ((g * taps + (c->reversed ? taps - 1 - t : t)) * c->B + b) * c->O + o;
                G(vec) sum = G(load)(part, n);
                for (int64_t chunk = 1; chunk < p->nk; chunk++) sum += G(load)(part + chunk * step, n);
                *(G(mem) *)(rows + i * L) = sum;
                if (++t == taps) { t = 0; b++; }
            }
            N(conv_put)(p, rows, L, m, n, start + g * c->og + o * c->oo + k, 1, c->oo);
        }
    }
}

/* Units (g, b): the same where an output feature's positions are contiguous, and features of an image follow each other. */
static void N(conv_place_beside)(const FgConvPart *p, int64_t begin, int64_t end) {
    const FgConv *c = p->c;
    const int64_t taps = p->Q[0] * p->Q[1] * p->Q[2], size = c->B * c->O, step = c->G * taps * size;
    for (int64_t u = begin; u < end; u++) {
        int64_t g = u / c->B, b = u % c->B, to = p->o0 + g * c->og + b * c->ob - (c->reversed ? taps - 1 : 0);
        T *part = (T *)p->part + g * taps * size + b * c->O;
        for (int64_t k = 1; k < p->nk; k++) for (int64_t t = 0; t < taps; t++) for (int64_t o = 0; o < c->O; o++)
            part[t * size + o] += part[k * step + t * size + o];
        if (c->reversed) part += (taps - 1) * size;
        G(pack)((T *)p->out + to, taps, part, taps, c->reversed ? -size : size, 1, c->O);
    }
}
