/* Depthwise rows, features last, of windows of 2 to 7 neighbouring columns by steps of one or two: tiles of up to eight neighbours, and of
 * two rows where their windows share rows of x, each vector of which is loaded once for all taps that it meets. Columns beyond the image
 * are vectors of zeros, so that edges cost what the rest does. Included by conv_loops.h after conv_groups.h, which says what X is. */

/* K rows of J neighbours, S columns of x apart: sums over n rows of x and R columns each, of which [first, end) are inside the image.
 * What lies `ahead` of the last `fetched` rows is fetched. */
#define CONV_NEAR_TILE(K, J, R, S) \
static void N(conv_near_##K##J##R##S)(const X *x, int64_t pixel, const FgNear *rows, int64_t n, int64_t first, int64_t end, const T *w, \
                                      int64_t wk, int64_t fetched, int64_t ahead, X *out, int64_t orow, int64_t oj) { \
    N(wide) acc[K][J], v[(J - 1) * S + R]; \
    GEMM_UNROLL for (int a = 0; a < K; a++) { GEMM_UNROLL for (int j = 0; j < J; j++) acc[a][j] = (N(wide)){0}; } \
    for (int64_t t = 0; t < n; t++) { \
        const X *from = x + rows[t].x; \
        if (t + fetched >= n) { GEMM_UNROLL for (int k = 0; k < J * S; k++) __builtin_prefetch(from + ahead + k * pixel, 0, 2); } \
        CONV_UNROLL for (int k = 0; k < (J - 1) * S + R; k++, from += pixel) { \
            if ((k < R - 1 && k < first) || (k > (J - 1) * S && k >= end)) v[k] = (N(wide)){0}; \
            else v[k] = N(get_wide)(from); \
        } \
        GEMM_UNROLL for (int a = 0; a < K; a++) if (K == 1 || rows[t].w[a] != CONV_NO_TAP) { \
            const T *tap = w + rows[t].w[a]; \
            GEMM_UNROLL for (int r = 0; r < R; r++, tap += wk) { \
                N(wide) y = *(const N(wide) *)tap; \
                GEMM_UNROLL for (int j = 0; j < J; j++) acc[a][j] += v[j * S + r] * y; \
            } \
        } \
    } \
    GEMM_UNROLL for (int a = 0; a < K; a++) { GEMM_UNROLL for (int j = 0; j < J; j++) N(put_wide)(out + a * orow + j * oj, acc[a][j]); } \
}
#define CONV_UNROLL _Pragma("GCC unroll 32")
#define CONV_NEAR_ROW(K, R, S) CONV_NEAR_TILE(K, 4, R, S) CONV_NEAR_TILE(K, 5, R, S) CONV_NEAR_TILE(K, 6, R, S) CONV_NEAR_TILE(K, 7, R, S) \
    CONV_NEAR_TILE(K, 8, R, S)
#define CONV_NEAR_ONE(M) M(1, 2, 1) M(1, 3, 1) M(1, 4, 1) M(1, 5, 1) M(1, 7, 1) M(1, 3, 2) M(1, 5, 2) M(1, 7, 2)
#if GEMM_BYTES < 64
#define CONV_NEAR_ROWS(M) CONV_NEAR_ONE(M)
#elif defined(CONV_HALF)
#define CONV_NEAR_ROWS(M) CONV_NEAR_ONE(M) M(2, 2, 1) M(2, 3, 1) M(2, 4, 1) M(2, 5, 1) M(2, 7, 1)
#else
#define CONV_NEAR_ROWS(M) CONV_NEAR_ONE(M) M(2, 2, 1) M(2, 3, 1)
#endif
CONV_NEAR_ROWS(CONV_NEAR_ROW)
typedef void (*N(near_tile))(const X *x, int64_t pixel, const FgNear *rows, int64_t n, int64_t first, int64_t end, const T *w, int64_t wk,
                             int64_t fetched, int64_t ahead, X *out, int64_t orow, int64_t oj);

/* Units (b, o, q0, rows of outputs, block of tiles): all groups of a tile before the next, so that rows of x are walked as they lie.
 * Taps of bfloat16 are widened to `wide` first. */
static void N(conv_near_rows)(const FgConvPart *p, int64_t begin, int64_t end, FgNear *rows, T *wide) {
    #define CONV_CASE(k, r, s) {k, r, s, {N(conv_near_##k##4##r##s), N(conv_near_##k##5##r##s), N(conv_near_##k##6##r##s), \
                                          N(conv_near_##k##7##r##s), N(conv_near_##k##8##r##s)}},
    static const struct { int64_t K, R, S; N(near_tile) tile[5]; } table[] = {CONV_NEAR_ROWS(CONV_CASE)};
    #undef CONV_CASE
    const FgConv *c = p->c;
#ifdef CONV_HALF
    const int64_t w2 = c->G, w1 = p->R[2] * w2, w0 = p->R[1] * w1, wc = p->R[0] * w0, wo = c->C * wc, taps[5] = {c->O, c->C, p->R[0], p->R[1], p->R[2]};
    for (int64_t i = 0, t[5]; i < c->O * wo; i += c->G) {
        conv_index(i / c->G, taps, 5, t);
        N(conv_widen)(wide + i, (const X *)p->w + p->w0 + t[0] * c->wo + t[1] * c->wc + t[2] * p->wr[0] + t[3] * p->wr[1] + t[4] * p->wr[2], c->G);
    }
#else
    const int64_t w2 = p->wr[2], w1 = p->wr[1], w0 = p->wr[0], wc = c->wc, wo = c->wo;
    wide = (T *)p->w + p->w0;
#endif
    const int64_t sizes[5] = {c->B, c->O, p->Q[0], p->blocks[0], p->blocks[1]}, lanes = sizeof(N(wide)) / sizeof(T);
    const int64_t tiles = conv_ceil(p->Q[2], 8), far = c->G * c->B * c->C * p->L[0] * p->L[1] * p->L[2] * (int64_t)sizeof(X) >= FG_CONV_FAR;
    int64_t at[5], kinds[3] = {0, 0, 0};
    for (int64_t K = 1; K <= p->block[0]; K++)
        while (table[kinds[K]].K != K || table[kinds[K]].R != p->R[2] || table[kinds[K]].S != p->s[2]) kinds[K]++;
    for (int64_t u = begin; u < end; u++) {
        conv_index(u, sizes, 5, at);
        int64_t q1 = at[3] * p->block[0], K = conv_min(p->block[0], p->Q[1] - q1), n = 0;
        const X *x = (const X *)p->x + at[0] * c->xb;
        const T *w = wide + at[1] * wo;
        X *out = (X *)p->out + p->o0 + at[0] * c->ob + at[1] * c->oo + at[2] * p->os[0] + q1 * p->os[1];
        for (int64_t k = 0; k < c->C; k++) for (int64_t r0 = 0; r0 < p->R[0]; r0++) for (int64_t r1 = 0; r1 < p->R[1] + K - 1; r1++) {
            int64_t p0 = at[2] * p->s[0] + r0 * p->d[0] - p->lo[0], p1 = q1 * p->s[1] + r1 * p->d[1] - p->lo[1];
            int64_t tap = k * wc + r0 * w0 + r1 * w1;
            if ((uint64_t)p0 >= (uint64_t)p->L[0] || (uint64_t)p1 >= (uint64_t)p->L[1]) continue;
            rows[n++] = (FgNear){k * c->xc + p0 * p->xs[0] + p1 * p->xs[1], {r1 < p->R[1] ? tap : CONV_NO_TAP, r1 ? tap - w1 : CONV_NO_TAP}};
        }
        for (int64_t t = tiles * at[4] / p->blocks[1]; t < tiles * (at[4] + 1) / p->blocks[1]; t++) {
            int64_t q2 = p->Q[2] * t / tiles, J = p->Q[2] * (t + 1) / tiles - q2, p2 = q2 * p->s[2] - p->lo[2];
            for (int64_t g = 0; g < c->G; g += lanes) {
                int64_t i = conv_min(g, c->G - lanes);               /* the last vector may overlap */
                table[kinds[K]].tile[J - 4](x + i + p2 * p->xs[2], p->xs[2], rows, n, -p2, p->L[2] - p2, w + i, w2,
                                            far ? K * p->s[1] : 0, K * p->s[1] * p->xs[1], out + i + q2 * p->os[2], p->os[1], p->os[2]);
            }
        }
    }
}
#undef CONV_UNROLL
#undef CONV_NEAR_ROWS
#undef CONV_NEAR_ONE
#undef CONV_NEAR_ROW
#undef CONV_NEAR_TILE
