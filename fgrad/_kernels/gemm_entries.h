/* Products of many small matrices whose rows along c's lie side by side, one after the other: vectors of b's rows meet a's elements one by one, and
 * nothing is turned; included by matmul.h for each T. Sums are chains over k as in a tile. */

/* R rows of c in V vectors each: what is loaded and stored beyond a row is what follows it. */
GEMM_INLINE void N(entry_rows)(const int R, const int V, int64_t K, const T *a, int64_t am, int64_t ak, const T *b, int64_t bk, T *c, int64_t cm) {
    N(vec) sum[R * V], y[V];
    GEMM_UNROLL for (int i = 0; i < R * V; i++) sum[i] = (N(vec)){0};
    for (int64_t k = 0; k < K; k++, a += ak, b += bk) {
        GEMM_UNROLL for (int v = 0; v < V; v++) y[v] = *(const N(mem) *)(b + v * N(lanes));
        GEMM_UNROLL for (int i = 0; i < R; i++) {
            const N(vec) x = a[i * am] - (N(vec)){0};
            GEMM_UNROLL for (int v = 0; v < V; v++) sum[i * V + v] = GEMM_MADD(sum[i * V + v], x, y[v]);
        }
    }
    GEMM_UNROLL for (int i = 0; i < R; i++, c += cm) GEMM_UNROLL for (int v = 0; v < V; v++) *(N(mem) *)(c + v * N(lanes)) = sum[i * V + v];
}

/* An entry that nothing follows, or what is not ours. */
static void N(entry_last)(const FgDot *p, const T *a, const T *b, T *c) {
    for (int64_t m = 0; m < p->M; m++) for (int64_t n = 0; n < p->N; n += N(lanes)) {
        const int64_t count = p->N - n < N(lanes) ? p->N - n : N(lanes);
        const T *x = a + m * p->a[1], *y = b + n;
        N(vec) sum = {0};
        for (int64_t k = 0; k < p->K; k++, x += p->a[2], y += p->b[1]) sum = GEMM_MADD(sum, *x - (N(vec)){0}, N(load)(y, count));
        N(store)(c + m * p->N + n, sum, count);
    }
}

/* c = a b for the entries [begin, end): those whose vectors end within b and what is ours of c first. */
#define GEMM_ENTRIES(V, R) \
static void N(entries##V)(const FgDot *p, int64_t begin, int64_t end, const T *a, const T *b, T *c) { \
    const int64_t rows = p->M, cols = p->N, am = p->a[1], ak = p->a[2], size = rows * cols, over = V * N(lanes) - cols; \
    const int64_t written = end - (over + size - 1) / size, read = p->B - (over + p->b[0] - 1) / p->b[0], whole = written < read ? written : read; \
    int64_t l = begin; \
    for (; l < whole; l++) { \
        const T *x = a + l * p->a[0], *y = b + l * p->b[0]; \
        T *z = c + l * size; \
        int64_t m = 0; \
        for (; m + R <= rows; m += R) N(entry_rows)(R, V, p->K, x + m * am, am, ak, y, p->b[1], z + m * cols, cols); \
        if (R > 2 && rows - m == 3) N(entry_rows)(3, V, p->K, x + m * am, am, ak, y, p->b[1], z + m * cols, cols); \
        else if (R > 2 && rows - m == 2) N(entry_rows)(2, V, p->K, x + m * am, am, ak, y, p->b[1], z + m * cols, cols); \
        else if (rows > m) N(entry_rows)(1, V, p->K, x + m * am, am, ak, y, p->b[1], z + m * cols, cols); \
    } \
    for (; l < end; l++) N(entry_last)(p, a + l * p->a[0], b + l * p->b[0], c + l * size); \
}
GEMM_ENTRIES(1, 4) GEMM_ENTRIES(2, 4) GEMM_ENTRIES(3, 2) GEMM_ENTRIES(4, 2)
#undef GEMM_ENTRIES
static void N(entries)(const FgDot *p, int64_t begin, int64_t end, const T *a, const T *b, T *c) {
    switch ((p->N + N(lanes) - 1) / N(lanes)) {
    case 1: N(entries1)(p, begin, end, a, b, c); break;
    case 2: N(entries2)(p, begin, end, a, b, c); break;
    case 3: N(entries3)(p, begin, end, a, b, c); break;
    default: N(entries4)(p, begin, end, a, b, c);
    }
}
