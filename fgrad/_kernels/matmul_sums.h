/* In which order a product's elements are summed, for code that has to have the same bits; included by matmul.pyx. */
#ifndef FG_MATMUL_SUMS_H
#define FG_MATMUL_SUMS_H

/* OTHER: unknown. CHAINS: each is one sum in the order of k, rounded once a step; ROUNDED: the same, whose products are rounded too;
 * ROWS: as gemm_tile.h's dots_few has it. */
enum { FG_SUMS_OTHER, FG_SUMS_CHAINS, FG_SUMS_ROWS, FG_SUMS_ROUNDED };
enum { FG_SUMS_MOST = 1024 };           /* numbers of an operand that is tried */

/* Of a register tile: whether it fuses is the compiler's choice, by how many sums there are, so one is computed and compared. */
#define FG_SUMS_OF_TILE(T, fma) { \
    T a[FG_SUMS_MOST], b[FG_SUMS_MOST], c[FG_SUMS_MOST]; \
    int chains = 1, rounded = 1; \
    for (int64_t i = 0; i < FG_SUMS_MOST; i++) { a[i] = (T)(i * 37 % 101) / 17 - 3; b[i] = (T)(i * 53 % 89) / 13 - 3; } \
    fg_single(p, (const char *)a, (const char *)b, (char *)c); \
    for (int64_t m = 0; m < p->M; m++) for (int64_t n = 0; n < p->N; n++) { \
        T sum = 0, other = 0, made = c[m * p->c[1] + n * p->c[2]]; \
        for (int64_t k = 0; k < p->K; k++) { \
            const T x = a[m * p->a[1] + k * p->a[2]], y = b[k * p->b[1] + n * p->b[2]]; \
            volatile T product = x * y; \
            sum = FG_MADD(fma, sum, x, y); \
            other += product; \
        } \
        chains &= sum == made; \
        rounded &= other == made; \
    } \
    return chains ? FG_SUMS_CHAINS : rounded ? FG_SUMS_ROUNDED : FG_SUMS_OTHER; }
static int fg_sums_of_single(const FgDot *p) {
    const int64_t *const strides[] = {p->a, p->b, p->c}, rows[] = {p->M, p->K, p->M}, cols[] = {p->K, p->N, p->N};
    if (p->M * p->N == 1) return FG_SUMS_OTHER;
    if (p->b[2] != 1) return FG_SUMS_ROWS;
    for (int i = 0; i < 3; i++) if ((rows[i] - 1) * strides[i][1] + (cols[i] - 1) * strides[i][2] >= FG_SUMS_MOST || strides[i][1] < 0 || strides[i][2] < 0) return FG_SUMS_OTHER;
    if (p->work == FG_F64) FG_SUMS_OF_TILE(double, __builtin_fma) else FG_SUMS_OF_TILE(float, __builtin_fmaf)
}
#endif
