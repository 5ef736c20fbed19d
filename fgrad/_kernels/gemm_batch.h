/* Products of many tiny matrices: a vector holds one element of as many batch entries as it has lanes; included by matmul.h for each T. */

/* Element (i, j) of `count` <= lanes matrices, at src[l * step + i * si + j * sj], to the vector dst[i * di + j * dj]. */
static void N(batch_in)(T *dst, const T *src, int64_t count, int64_t step, int64_t rows, int64_t cols, int64_t si, int64_t sj,
                        int64_t *di, int64_t *dj) {
    const int64_t L = N(lanes);
    int turned = sj != 1 && si == 1;             /* the axis that lies contiguously goes last */
    int64_t outer = turned ? cols : rows, inner = turned ? rows : cols, so = turned ? sj : si, in = turned ? si : sj;
    *di = turned ? 1 : cols;
    *dj = turned ? rows : 1;
    if (so == inner && in == 1) { inner *= outer; outer = 1; }
    for (int64_t i = 0; i < outer; i++) N(pack)(dst + i * inner * L, L, src + i * so, count, step, in, inner);
}

/* `columns` neighbours in a row of c. */
GEMM_INLINE void N(batch_row)(const int columns, int64_t K, const N(vec) *a, int64_t ak, const N(vec) *b, int64_t bk, int64_t bn,
                              N(vec) *c, int64_t cn) {
    N(vec) sum[4];
    GEMM_UNROLL for (int j = 0; j < columns; j++) sum[j] = (N(vec)){0};
    for (int64_t k = 0; k < K; k++)
        GEMM_UNROLL for (int j = 0; j < columns; j++) sum[j] = GEMM_MADD(sum[j], a[k * ak], b[k * bk + j * bn]);
    GEMM_UNROLL for (int j = 0; j < columns; j++) c[j * cn] = sum[j];
}

/* Entries of c, by rows (c[2] is 1) or columns. */
static void N(batch_product)(const FgDot *p, const N(vec) *x, int64_t am, int64_t ak, const N(vec) *y, int64_t bk, int64_t bn, N(vec) *z) {
    const int64_t cm = p->c[2] == 1 ? p->N : 1, cn = p->c[2] == 1 ? 1 : p->M;
    for (int64_t m = 0; m < p->M; m++) {
        int64_t n = 0;
        for (; n + 4 <= p->N; n += 4) N(batch_row)(4, p->K, x + m * am, ak, y + n * bn, bk, bn, z + m * cm + n * cn, cn);
        if (p->N - n == 3) N(batch_row)(3, p->K, x + m * am, ak, y + n * bn, bk, bn, z + m * cm + n * cn, cn);
        else for (; n < p->N; n++) N(batch_row)(1, p->K, x + m * am, ak, y + n * bn, bk, bn, z + m * cm + n * cn, cn);
    }
}

/* c = a b for the vectors [begin, end) of entries; c's entries are contiguous and follow each other. */
static void N(batch)(const FgDot *p, int64_t begin, int64_t end, const T *a, const T *b, T *c) {
    N(vec) x[FG_TINY], y[FG_TINY], z[FG_TINY];
    int64_t am, ak, bk, bn, size = p->M * p->N;
    for (int64_t l = begin * N(lanes); l < p->B && l < end * N(lanes); l += N(lanes)) {
        const int64_t count = p->B - l < N(lanes) ? p->B - l : N(lanes);
        N(batch_in)((T *)x, a + l * p->a[0], count, p->a[0], p->M, p->K, p->a[1], p->a[2], &am, &ak);
        N(batch_in)((T *)y, b + l * p->b[0], count, p->b[0], p->K, p->N, p->b[1], p->b[2], &bk, &bn);
        N(batch_product)(p, x, am, ak, y, bk, bn, z);
        N(pack)(c + l * size, size, (const T *)z, size, N(lanes), 1, count);
    }
}
