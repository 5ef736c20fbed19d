/* Rows of a few elements each times a small matrix: blocks of rows are turned into columns, two vectors of rows meet b's elements one by one, and
 * blocks of sums are turned back; included by matmul.h for each T. */

/* c = a b for the blocks [begin, end) of FG_THIN_ROWS rows; the rows of a and of c follow each other. Sums are chains over k as in a tile. */
static void N(thin)(const FgDot *p, int64_t begin, int64_t end, const T *a, const T *b, T *c) {
    T x[FG_THIN * FG_THIN_ROWS] __attribute__((aligned(64))), y[FG_THIN * FG_THIN_ROWS] __attribute__((aligned(64)));
    const int64_t L = N(lanes);
    for (int64_t r0 = begin * FG_THIN_ROWS; r0 < p->M && r0 < end * FG_THIN_ROWS; r0 += FG_THIN_ROWS) {
        const int64_t rows = p->M - r0 < FG_THIN_ROWS ? p->M - r0 : FG_THIN_ROWS;
        N(columns)(x, FG_THIN_ROWS, a + r0 * p->K, rows, p->K);
        for (int64_t k = 0; k < p->K; k++) for (int64_t r = rows; r % (2 * L); r++) x[k * FG_THIN_ROWS + r] = 0;
        for (int64_t r = 0; r < rows; r += 2 * L) for (int64_t n = 0; n < p->N; n++) {
            const T *row = x + r, *with = b + n * p->b[2];
            N(vec) sum = {0}, other = {0};
            for (int64_t k = 0; k < p->K; k++, row += FG_THIN_ROWS, with += p->b[1]) {
                const N(vec) one = *with - (N(vec)){0};
                sum = GEMM_MADD(sum, one, *(const N(vec) *)row);
                other = GEMM_MADD(other, one, *(const N(vec) *)(row + L));
            }
            *(N(vec) *)(y + n * FG_THIN_ROWS + r) = sum;
            *(N(vec) *)(y + n * FG_THIN_ROWS + r + L) = other;
        }
        N(rows_of)(c + r0 * p->N, y, FG_THIN_ROWS, rows, p->N);
    }
}
