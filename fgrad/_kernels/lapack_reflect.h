/* Panels of reflectors for the type T: rows of FG_PANEL elements, which are a few vectors. */
#define V GEMM_N(vec)
#define AT(p) (*(GEMM_N(mem) *)(p))
enum { N(QR_VECS) = FG_PANEL * sizeof(T) / GEMM_BYTES };

/* p's rows [from, m) -= x (their element j) times u; returns in `dots` the sums, over these rows, of element `next` times the row. */
GEMM_INLINE void N(qr_pass)(T *p, int from, int m, int j, const T *u, int next, T *dots) {
    enum { NV = N(QR_VECS), L = GEMM_N(lanes), ROWS = NV > 2 ? 1 : 4 / NV };
    V sum[ROWS][NV], by[NV];
    GEMM_UNROLL for (int v = 0; v < NV; v++) by[v] = AT(u + v * L);
    GEMM_UNROLL for (int r = 0; r < ROWS; r++) GEMM_UNROLL for (int v = 0; v < NV; v++) sum[r][v] = (V){0};
    const T one = u[next];
    int i = from;
    for (; i + ROWS <= m; i += ROWS) GEMM_UNROLL for (int r = 0; r < ROWS; r++) {
        T *row = p + (int64_t)(i + r) * FG_PANEL;
        const T x = row[j], y = row[next] - x * one;
        GEMM_UNROLL for (int v = 0; v < NV; v++) {
            const V z = AT(row + v * L) - x * by[v];
            AT(row + v * L) = z;
            sum[r][v] += y * z;
        }
    }
    for (; i < m; i++) {
        T *row = p + (int64_t)i * FG_PANEL;
        const T x = row[j], y = row[next] - x * one;
        GEMM_UNROLL for (int v = 0; v < NV; v++) {
            const V z = AT(row + v * L) - x * by[v];
            AT(row + v * L) = z;
            sum[0][v] += y * z;
        }
    }
    GEMM_UNROLL for (int v = 0; v < NV; v++) {
        GEMM_UNROLL for (int r = 1; r < ROWS; r++) sum[0][v] += sum[r][v];
        AT(dots + v * L) = sum[0][v];
    }
}

/* Columns [0, n) of a (m, n), n <= FG_PANEL, become R and reflectors, which are written to v (m, n) as well. Numbers are near 1 (qr_scaled):
 * what is below FG_QR_LITTLE in squares is less than their rounding, and left out. */
static void N(qr_panel)(T *a, int64_t lda, int m, int n, T *p, T *tau, T *v, int64_t ldv) {
    T scale[FG_PANEL] __attribute__((aligned(64))), u[FG_PANEL] __attribute__((aligned(64))) = {0}, dots[FG_PANEL] __attribute__((aligned(64)));
    for (int i = 0; i < m; i++) {
        memcpy(p + (int64_t)i * FG_PANEL, a + i * lda, (size_t)n * sizeof(T));
        for (int c = n; c < FG_PANEL; c++) p[(int64_t)i * FG_PANEL + c] = 0;
    }
    N(qr_pass)(p, 1, m, 0, u, 0, dots);
    for (int j = 0; j < n; j++) {
        T *top = p + (int64_t)j * FG_PANEL;
        tau[j] = scale[j] = 0;
        for (int c = 0; c < FG_PANEL; c++) u[c] = 0;
        if (j < m && dots[j] > FG_QR_LITTLE) {
            const T alpha = top[j], norm = (T)sqrt((double)(alpha * alpha + dots[j])), beta = alpha > 0 ? -norm : norm;
            tau[j] = (beta - alpha) / beta;
            scale[j] = 1 / (alpha - beta);
            for (int c = j + 1; c < n; c++) {
                const T t = tau[j] * (top[c] + scale[j] * dots[c]);
                top[c] -= t;
                u[c] = scale[j] * t;
            }
            top[j] = beta;
        }
        if (j + 1 >= n) break;
        if (j + 1 < m) {                                      /* the next column's own row */
            T *row = top + FG_PANEL;
            const T x = row[j];
            for (int c = j + 1; c < n; c++) row[c] -= x * u[c];
        }
        N(qr_pass)(p, j + 2, m, j, u, j + 1, dots);
    }
    for (int i = 0; i < m; i++) {
        const T *row = p + (int64_t)i * FG_PANEL;
        T *to = a + i * lda, *reflector = v + i * ldv;
        if (i >= n) for (int c = 0; c < n; c++) to[c] = reflector[c] = row[c] * scale[c];
        else for (int c = 0; c < n; c++) {
            to[c] = c < i ? row[c] * scale[c] : row[c];
            reflector[c] = c < i ? to[c] : c == i;
        }
    }
}

/* The reflectors below the diagonal of a (m, n), with their ones and zeros. */
static void N(qr_reflectors)(const T *a, int64_t lda, int m, int n, T *v, int64_t ldv) {
    for (int i = 0; i < m; i++) {
        const int own = i < n ? i : n;
        memcpy(v + i * ldv, a + i * lda, (size_t)own * sizeof(T));
        for (int c = own; c < n; c++) v[i * ldv + c] = c == i;
    }
}

/* -T (n, n) of n <= FG_PANEL reflectors from their products with each other. */
static void N(qr_leaf_triangle)(const T *gram, int64_t ldg, const T *tau, int n, T *t, int64_t ldt) {
    for (int i = 0; i < n; i++) for (int r = 0; r < n; r++) {
        T sum = 0;
        for (int c = r; c < i; c++) sum += t[r * ldt + c] * gram[i * ldg + c];
        t[r * ldt + i] = r < i ? tau[i] * sum * -1 : r == i ? -tau[i] : 0;
    }
}

/* to = from times 2^power, in two steps, as powers beyond those of normal numbers take. */
static void N(qr_times)(T *to, const T *from, int64_t size, int power) {
    const T half = (T)ldexp(1, power / 2), rest = (T)ldexp(1, power - power / 2);
    for (int64_t i = 0; i < size; i++) to[i] = from[i] * half * rest;
}

/* to = from times 2^-power, which is returned: 0 where squares of its numbers neither overflow nor are lost, or they are near 1. */
static int N(qr_scaled)(T *to, const T *from, int64_t size) {
    T most = 0;
    #pragma omp simd reduction(max:most)
    for (int64_t i = 0; i < size; i++) { const T x = from[i] < 0 ? -from[i] : from[i]; most = x > most ? x : most; }
    const int far = sizeof(T) == 4 ? 20 : 300;
    int power;
    frexp((double)most, &power);
    if (most == 0 || (power > -far && power < far)) power = 0;
    if (power) N(qr_times)(to, from, size, -power); else memcpy(to, from, (size_t)size * sizeof(T));
    return power;
}

static void N(thin_factor)(T *a, int64_t m, int n, T *columns, T *tau);
/* a (m, n) in place, of finite numbers. */
static void N(qr_matrix)(const FgQr *q, T *a, const T *from, int m, int n, T *tau) {
    const int power = N(qr_scaled)(a, from, (int64_t)m * n);
    if (m > FG_QR_LONG && n <= FG_QR_THIN) N(thin_factor)(a, m, n, (T *)q->p, tau);
    else fg_qr_factor(q, (FgPlace){(char *)a, n, 1}, m, n, (char *)tau);
    for (int r = 0; power && r < fg_least(m, n); r++) N(qr_times)(a + (int64_t)r * (n + 1), a + (int64_t)r * (n + 1), n - r, power);
}
#undef V
#undef AT
