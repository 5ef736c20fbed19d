/* QR of long matrices of a few columns, and the products of such reflectors, for the type T: the matrix is turned, so that a column is a
 * run of neighbours and a reflector takes one pass over each column for its products and one for what they change. */

/* Columns begin on whole vectors, `ld` apart; what begins at row `from` is a part of a vector, then whole ones, which cross no line. */

/* The products of x with C columns of y from row `from` to m: two sums each, of the even and the odd vectors. */
GEMM_INLINE void N(thin_products)(const int C, const T *x, const T *y, int64_t ld, int64_t from, int64_t m, T *out) {
    const int64_t L = GEMM_N(lanes);
    GEMM_N(vec) sum[4], odd[4];
    int64_t i;
    T first[4] = {0};
    for (; from < m && from % L; from++) for (int c = 0; c < C; c++) first[c] += x[from] * y[c * ld + from];
    GEMM_UNROLL for (int c = 0; c < C; c++) sum[c] = odd[c] = (GEMM_N(vec)){0};
    for (i = from; i + 2 * L <= m; i += 2 * L) {
        const GEMM_N(vec) a = *(const GEMM_N(mem) *)(x + i), b = *(const GEMM_N(mem) *)(x + i + L);
        GEMM_UNROLL for (int c = 0; c < C; c++) {
            sum[c] += a * *(const GEMM_N(mem) *)(y + c * ld + i);
            odd[c] += b * *(const GEMM_N(mem) *)(y + c * ld + i + L);
        }
    }
    for (; i < m; i += L) {
        const int64_t w = m - i < L ? m - i : L;
        const GEMM_N(vec) a = GEMM_N(load)(x + i, w);
        GEMM_UNROLL for (int c = 0; c < C; c++) sum[c] += a * GEMM_N(load)(y + c * ld + i, w);
    }
    GEMM_UNROLL for (int c = 0; c < C; c++) out[c] = first[c] + GEMM_N(total)(sum[c] + odd[c]);
}
static void N(thin_dots)(const T *x, const T *y, int64_t ld, int64_t from, int64_t m, int columns, T *out) {
    int c = 0;
    for (; c + 4 <= columns; c += 4) N(thin_products)(4, x, y + c * ld, ld, from, m, out + c);
    if (columns - c == 3) N(thin_products)(3, x, y + c * ld, ld, from, m, out + c);
    else if (columns - c == 2) N(thin_products)(2, x, y + c * ld, ld, from, m, out + c);
    else if (columns - c == 1) N(thin_products)(1, x, y + c * ld, ld, from, m, out + c);
}
/* C columns of y less by[c] x each. */
GEMM_INLINE void N(thin_change)(const int C, T *y, int64_t ld, const T *x, const T *by, int64_t from, int64_t m) {
    const int64_t L = GEMM_N(lanes);
    int64_t i = from;
    for (; i < m && i % L; i++) for (int c = 0; c < C; c++) y[c * ld + i] -= by[c] * x[i];
    for (; i + L <= m; i += L) {
        const GEMM_N(vec) a = *(const GEMM_N(mem) *)(x + i);
        GEMM_UNROLL for (int c = 0; c < C; c++) *(GEMM_N(mem) *)(y + c * ld + i) -= by[c] * a;
    }
    for (; i < m; i++) for (int c = 0; c < C; c++) y[c * ld + i] -= by[c] * x[i];
}
static void N(thin_less)(T *y, int64_t ld, const T *x, const T *by, int64_t from, int64_t m, int columns) {
    int c = 0;
    for (; c + 4 <= columns; c += 4) N(thin_change)(4, y + c * ld, ld, x, by + c, from, m);
    if (columns - c == 3) N(thin_change)(3, y + c * ld, ld, x, by + c, from, m);
    else if (columns - c == 2) N(thin_change)(2, y + c * ld, ld, x, by + c, from, m);
    else if (columns - c == 1) N(thin_change)(1, y + c * ld, ld, x, by + c, from, m);
}
static inline int64_t N(thin_ld)(int64_t m) { return (m + GEMM_N(lanes) - 1) / GEMM_N(lanes) * GEMM_N(lanes); }

/* a (m, n) in place, m >= n: R and reflectors, of numbers near 1 as those of qr_panel; `columns` takes n of thin_ld elements. */
static void N(thin_factor)(T *a, int64_t m, int n, T *columns, T *tau) {
    const int64_t ld = N(thin_ld)(m);
    T dots[FG_QR_THIN];
    THIN_COLUMNS(columns, ld, a, m, n);
    for (int j = 0; j < n; j++) {
        T *x = columns + j * ld;
        N(thin_dots)(x, x, ld, j + 1, m, n - j, dots);
        tau[j] = 0;
        if (dots[0] > FG_QR_LITTLE) {
            const T alpha = x[j], norm = (T)sqrt((double)(alpha * alpha + dots[0])), beta = alpha > 0 ? -norm : norm, scale = 1 / (alpha - beta);
            tau[j] = (beta - alpha) / beta;
            for (int c = 1; c < n - j; c++) {
                const T t = tau[j] * (x[c * ld + j] + scale * dots[c]);
                x[c * ld + j] -= t;
                dots[c] = scale * t;
            }
            N(thin_less)(x + ld, ld, x, dots + 1, j + 1, m, n - j - 1);
            for (int64_t i = j + 1; i < m; i++) x[i] *= scale;
            x[j] = beta;
        } else for (int64_t i = j + 1; i < m; i++) x[i] = 0;
    }
    THIN_ROWS(a, columns, ld, m, n);
}

/* The first n columns, out, of the product of the k reflectors in a (m, n); `columns` takes 2 n of thin_ld elements. */
static void N(thin_expand)(const T *a, T *out, int64_t m, int n, int k, const T *tau, T *columns) {
    const int64_t ld = N(thin_ld)(m);
    T *own = columns + n * ld, dots[FG_QR_THIN];
    THIN_COLUMNS(columns, ld, a, m, n);
    memset(own, 0, (size_t)(n * ld) * sizeof(T));
    for (int c = 0; c < n; c++) own[c * ld + c] = 1;
    for (int j = k - 1; j >= 0; j--) {
        const T *x = columns + j * ld;
        T *y = own + j * ld;
        if (tau[j] == 0) continue;
        N(thin_dots)(x, y, ld, j + 1, m, n - j, dots);
        for (int c = 0; c < n - j; c++) {
            dots[c] = tau[j] * (y[c * ld + j] + dots[c]);
            y[c * ld + j] -= dots[c];
        }
        N(thin_less)(y, ld, x, dots, j + 1, m, n - j);
    }
    THIN_ROWS(out, own, ld, m, n);
}
