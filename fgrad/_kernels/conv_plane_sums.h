/* The kernel's gradient of a depthwise convolution, features first: sums of products of two planes, one of them shifted by each tap, where
 * they lie. Lanes follow the columns; a tile of rows of w meets all taps of a column of vectors. Included by conv_loops.h after conv_planes.h. */
#if GEMM_MASKS

/* K rows of W neighbouring taps: rows [a, b) of w (from a vector of columns on) by those of x that they meet, added to totals. */
GEMM_INLINE void N(conv_shifted_sums)(const int K, const int W, const FgConvPart *p, const X *x, const X *w, int64_t a, int64_t b, __mmask16 inside,
                                      const __mmask16 *shifted, G(vec) *total) {
    G(vec) sum[7][5], y[7];
    __mmask16 mask[5];
    const int64_t last = conv_min(p->L[1], b + K - 1 - p->lo[1]);
    int64_t i = conv_max(0, a - p->lo[1]);
    const X *from = x + i * p->xs[1], *row = w + (i + p->lo[1]) * p->wr[1];
    GEMM_UNROLL for (int j = 0; j < W; j++) mask[j] = shifted[j];
    GEMM_UNROLL for (int k = 0; k < K; k++) {
        GEMM_UNROLL for (int j = 0; j < W; j++) sum[k][j] = (G(vec)){0};
    }
    #define CONV_SHIFTED_ROWS(END, INSIDE) \
        for (; i < (END); i++, row += p->wr[1], from += p->xs[1]) { \
            GEMM_UNROLL for (int k = 0; k < K; k++) y[k] = N(conv_between)(row - k * p->wr[1], INSIDE); \
            GEMM_UNROLL for (int j = 0; j < W; j++) { \
                G(vec) v = N(conv_between)(from + j, mask[j]); \
                GEMM_UNROLL for (int k = 0; k < K; k++) sum[k][j] += v * y[k]; \
            } \
        }
    CONV_SHIFTED_ROWS(conv_min(last, a + K - 1 - p->lo[1]), (uint64_t)(i + p->lo[1] - k - a) < (uint64_t)(b - a) ? inside : 0)
    CONV_SHIFTED_ROWS(conv_min(last, b - p->lo[1]), inside)
    CONV_SHIFTED_ROWS(last, (uint64_t)(i + p->lo[1] - k - a) < (uint64_t)(b - a) ? inside : 0)
    #undef CONV_SHIFTED_ROWS
    GEMM_UNROLL for (int k = 0; k < K; k++) {
        GEMM_UNROLL for (int j = 0; j < W; j++) total[k * p->Q[2] + j] += sum[k][j];
    }
}
#define CONV_SHIFTED(K, W) \
static void N(conv_shifted_##K##W)(const FgConvPart *p, const X *x, const X *w, int64_t a, int64_t b, __mmask16 inside, const __mmask16 *shifted, \
                                   G(vec) *total) { N(conv_shifted_sums)(K, W, p, x, w, a, b, inside, shifted, total); }
CONV_SHIFTED(3, 1) CONV_SHIFTED(3, 3) CONV_SHIFTED(5, 1) CONV_SHIFTED(5, 5) CONV_SHIFTED(7, 1) CONV_SHIFTED(7, 3)
#undef CONV_SHIFTED

/* Rows [a, b) of a plane of w, whose products with one of x are added to the totals of (q1, q2). */
static void N(conv_shifted_tile)(const FgConvPart *p, const X *x, const X *w, int64_t a, int64_t b, int64_t r2, G(vec) *total) {
    const int64_t n = conv_min(G(lanes), p->R[2] - r2), wide = p->Q[1] == 5 ? 5 : 3;
    __mmask16 shifted[CONV_SHIFTS], inside = (__mmask16)((1ull << n) - 1);
    for (int64_t j = 0; j < p->Q[2]; j++) {
        const int64_t p2 = r2 + j - p->lo[2], lo = conv_max(0, -p2), hi = conv_min(n, p->L[2] - p2);
        shifted[j] = (__mmask16)(lo < hi ? (1ull << hi) - (1ull << lo) : 0);
    }
    for (int64_t j = 0, many; j < p->Q[2]; j += many) {
        const X *from = x + r2 + j - p->lo[2], *to = w + r2;
        #define CONV_CASE(K, W) if (p->Q[1] == K && many == W) N(conv_shifted_##K##W)(p, from, to, a, b, inside, shifted + j, total + j)
        many = j + wide <= p->Q[2] ? wide : 1;
        CONV_CASE(3, 3); else CONV_CASE(5, 5); else CONV_CASE(7, 3); else CONV_CASE(3, 1); else CONV_CASE(5, 1); else CONV_CASE(7, 1);
        #undef CONV_CASE
    }
}

/* Units (g, o): all taps of a kernel. Of the plane or tile after the one that is summed a part is fetched for each column of vectors. */
static void N(conv_plane_sums_w)(const FgConvPart *p, int64_t begin, int64_t end) {
    enum { L = G(lanes) };
    const FgConv *c = p->c;
    const int64_t tiles = conv_ceil(p->R[1], CONV_TALL), each = c->C * p->R[0] * tiles, taps = p->Q[1] * p->Q[2], columns = conv_ceil(p->R[2], L);
    const int64_t sizes[3] = {c->C, p->R[0], tiles};
    const int far = c->G * c->C * c->L[0] * c->L[1] * c->L[2] * (int64_t)sizeof(X) >= FG_CONV_FAR && p->xs[1] > 0 && p->xs[1] <= 2 * p->L[2]
        && p->wr[1] > 0 && p->wr[1] <= 2 * p->R[2];
    G(vec) total[7 * CONV_SHIFTS + L];
    int64_t at[3];
    for (int64_t u = begin; u < end; u++) for (int64_t q0 = 0; q0 < p->Q[0]; q0++) {
        const X *x = (const X *)p->x + u / c->O * c->xg, *w = (const X *)p->w + p->w0 + u / c->O * c->wg + u % c->O * c->wo;
        X *out = (X *)p->out + p->o0 + u / c->O * c->og + u % c->O * c->oo + q0 * p->os[0];
        memset(total, 0, (size_t)(conv_ceil(taps, L) * L) * sizeof *total);
        for (int64_t t = 0; t < each; t++) {
            conv_index(t, sizes, 3, at);
            const int64_t p0 = q0 * p->s[0] + at[1] * p->d[0] - p->lo[0], a = p->R[1] * at[2] / tiles, b = p->R[1] * (at[2] + 1) / tiles;
            const X *plane = x + at[0] * c->xc + p0 * p->xs[0], *other = w + at[0] * c->wc + at[1] * p->wr[0];
            const int64_t xnext = tiles > 1 ? b * p->xs[1] : t + 1 < each ? c->xc : c->xg - (c->C - 1) * c->xc;
            const int64_t wnext = tiles > 1 ? b * p->wr[1] : t + 1 < each ? c->wc : c->wg - (c->C - 1) * c->wc;
            if ((uint64_t)p0 >= (uint64_t)p->L[0]) continue;
            for (int64_t k = 0; k < columns; k++) {
                const int64_t from = (b - a) * k / columns, rows = (b - a) * (k + 1) / columns - from;
                if (far) conv_fetch_row(plane + xnext + from * p->xs[1], rows * p->xs[1] * (int64_t)sizeof(X), 0);
                if (far) conv_fetch_row(other + wnext + from * p->wr[1], rows * p->wr[1] * (int64_t)sizeof(X), 0);
                N(conv_shifted_tile)(p, plane, other, a, b, k * L, total);
            }
        }
        for (int64_t i = 0; i < taps; i += L) {
            T sums[L];
            *(G(mem) *)sums = G(totals)(L, total + i);
            for (int64_t k = i; k < conv_min(taps, i + L); k++) N(put_single)(out + k / p->Q[2] * p->os[1] + k % p->Q[2] * p->os[2], sums[k - i]);
        }
    }
}
#endif
