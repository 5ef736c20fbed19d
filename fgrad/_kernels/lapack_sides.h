/* Triangular systems with a few right-hand sides, for the type T: blocks of unknowns number by number, what is known of them by rows against
 * rows, or by rows that are added up, whichever way the triangle lies. Included by lapack_large.h for each type. */

/* Unknowns [i, i + n) of one side from their own equations; a at the block's first element. */
static void N(few_block)(const T *a, int64_t row, int64_t column, int n, int unit, int back, T *x) {
    for (int s = 0; s < n; s++) {
        const int t = back ? n - 1 - s : s;
        const T *below = a + t * column, known = unit ? x[t] : (x[t] = x[t] / below[t * row]);
        if (back) for (int r = 0; r < t; r++) x[r] -= below[r * row] * known;
        else for (int r = t + 1; r < n; r++) x[r] -= below[r * row] * known;
    }
}

/* x (sides, n), its rows step apart, becomes the solutions; equation r has a[r row + t column] of unknown t, one stride is 1, and all
 * t <= r, or t >= r where `back`. */
static void N(few_solve)(const T *a, int64_t row, int64_t column, int n, int unit, int back, T *x, int64_t step, int sides) {
    for (int done = 0, count; done < n; done += count) {
        count = fg_least(FG_FEW_BLOCK, n - done);
        const int i = back ? n - done - count : done, known = back ? i + count : 0, rest = back ? 0 : i + count, left = n - done - count;
        if (column == 1 && done) {
            T sum[FG_FEW_SIDES * FG_FEW_BLOCK] = {0};
            G(dots)(sides, count, done, x + known, step, a + i * row + known, row, sum, FG_FEW_BLOCK, 0);
            for (int s = 0; s < sides; s++) for (int r = 0; r < count; r++) x[s * step + i + r] -= sum[s * FG_FEW_BLOCK + r];
        }
        for (int s = 0; s < sides; s++) N(few_block)(a + i * (row + column), row, column, count, unit, back, x + s * step + i);
        if (column != 1 && left) for (int s = 0; s < sides; s++) {
            T less[FG_FEW_BLOCK];
            for (int t = 0; t < count; t++) less[t] = -x[s * step + i + t];
            G(axpy)(left, count, less, a + rest + i * column, column, x + s * step + rest, 0, 0);
        }
    }
}

/* The systems of matrix u; nonzero without memory. */
static int N(few_sides)(const FgTrsmJob *j, int64_t u) {
    const int64_t *ip = j->inst->ip;
    const int k = j->k, sides = ip[0] ? j->n : j->m, turned = !!ip[2] ^ !ip[0], lower = !!ip[1] ^ turned;
    const T *a = (const T *)j->a + u * k * k;
    T *b = (T *)j->b + u * j->m * j->n, *x = b;
    const int copied = ip[0] && sides > 1;
    if (copied) {
        x = (T *)malloc((size_t)sides * k * sizeof(T));
        if (!x) return 1;
        for (int r = 0; r < k; r++) for (int s = 0; s < sides; s++) x[(int64_t)s * k + r] = b[(int64_t)r * sides + s];
    }
    N(few_solve)(a, turned ? 1 : k, turned ? k : 1, k, ip[3] != 0, !lower, x, k, sides);
    if (copied) {
        for (int r = 0; r < k; r++) for (int s = 0; s < sides; s++) b[(int64_t)r * sides + s] = x[(int64_t)s * k + r];
        free(x);
    }
    return 0;
}
