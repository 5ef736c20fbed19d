/* Register tiles of complex products for one element type T of their parts; included by gemm_job.h for each.
 *
 * A row x + iy of a is two rows of real numbers that lie between each other; both multiply rows of b as the real numbers they are, and what
 * they give, u and v, is put together as u + iv when a tile is stored. Sizes of rows are complex, strides and columns count real numbers. */

/* Neighbours exchanged, the first of two negative: v becomes iv. */
GEMM_INLINE N(vec) N(times_i)(N(vec) v) {
    N(vec) sign, x;
    GEMM_UNROLL for (int i = 0; i < N(lanes); i++) sign[i] = i % 2 ? 1 : -1;
#if GEMM_HAS_SHUFFLE
    x = __builtin_shufflevector(v, v, GEMM_MATES(T));
#else
    for (int i = 0; i < N(lanes); i++) x[i] = v[i ^ 1];
#endif
    return sign * x;
}

/* As `body` in gemm_tile.h, of R complex rows. */
GEMM_INLINE void N(complex_body)(const int R, const int NV, int64_t kc, const T *a, int64_t ra, int64_t ca, const T *b, int64_t ldb,
                                 T *c, int64_t ldc, int64_t tail, int add, int64_t ahead) {
    N(vec) u[GEMM_MR / 2][GEMM_NV], w[GEMM_MR / 2][GEMM_NV], y[GEMM_NV];
    GEMM_UNROLL for (int i = 0; i < R; i++) {
        GEMM_UNROLL for (int v = 0; v < NV; v++) u[i][v] = w[i][v] = (N(vec)){0};
    }
    if (kc >= 32) GEMM_UNROLL for (int i = 0; i < R; i++) {
        GEMM_UNROLL for (int v = 0; v < NV; v++) __builtin_prefetch(c + i * ldc + v * N(lanes), 1, 3);
    }
    const char *row[(GEMM_MR / 2 + 4) / 5];
    const int64_t step = ra * (int64_t)sizeof(T), next = ca * (int64_t)sizeof(T);
    int64_t k = 0;
    GEMM_UNROLL for (int i = 0; i < R; i += 5) row[i / 5] = (const char *)(a + i * ra);
#if GEMM_BYTES == 32
    if (!ahead) for (; k + GEMM_TURNS <= kc; k += GEMM_TURNS) {
        GEMM_UNROLL for (int t = 0; t < GEMM_TURNS; t++, b += ldb) {
            GEMM_UNROLL for (int v = 0; v < NV; v++) y[v] = *(const N(mem) *)(b + v * N(lanes));
            GEMM_UNROLL for (int i = 0; i < R; i++) {
                const T *x = (const T *)(row[i / 5] + i % 5 * step + t * next);
                const N(vec) real = x[0] - (N(vec)){0}, imaginary = x[1] - (N(vec)){0};
                GEMM_UNROLL for (int v = 0; v < NV; v++) GEMM_ADD(u[i][v], real, y[v]);
                GEMM_UNROLL for (int v = 0; v < NV; v++) GEMM_ADD(w[i][v], imaginary, y[v]);
            }
        }
        GEMM_UNROLL for (int i = 0; i < R; i += 5) row[i / 5] += GEMM_TURNS * next;
    }
#endif
    for (; k < kc; k++, b += ldb) {
        GEMM_UNROLL for (int v = 0; v + 1 < NV; v++) y[v] = *(const N(mem) *)(b + v * N(lanes));
        y[NV - 1] = N(load)(b + (NV - 1) * N(lanes), GEMM_MASKS ? tail : N(lanes));
        if (NV > 1) GEMM_UNROLL for (int v = 0; v < NV; v++) __builtin_prefetch(b + ahead + (v + 1) * N(lanes) - 1);
        GEMM_UNROLL for (int i = 0; i < R; i++) {
            const T *x = (const T *)(row[i / 5] + i % 5 * step);
            GEMM_UNROLL for (int v = 0; v < NV; v++) u[i][v] += x[0] * y[v];
            GEMM_UNROLL for (int v = 0; v < NV; v++) w[i][v] += x[1] * y[v];
        }
        GEMM_UNROLL for (int i = 0; i < R; i += 5) row[i / 5] += next;
    }
    GEMM_UNROLL for (int i = 0; i < R; i++, c += ldc) {
        GEMM_UNROLL for (int v = 0; v < NV; v++) {
            T *p = c + v * N(lanes);
            int64_t n = v + 1 < NV ? N(lanes) : tail;
            N(vec) sum = u[i][v] + N(times_i)(w[i][v]);
            N(store)(p, add ? N(load)(p, n) + sum : sum, n);
        }
    }
}

typedef void (*N(complex_kernel))(int64_t kc, const T *a, int64_t ra, int64_t ca, const T *b, int64_t ldb, T *c, int64_t ldc, int64_t tail,
                                  int add, int64_t ahead);
#define GEMM_KERNEL(R, NV) \
static void N(complex##NV##x##R)(int64_t kc, const T *a, int64_t ra, int64_t ca, const T *b, int64_t ldb, T *c, int64_t ldc, int64_t tail, \
                                 int add, int64_t ahead) { \
    N(complex_body)(R, NV, kc, a, ra, ca, b, ldb, c, ldc, tail, add, ahead); \
}
#define GEMM_BOTH(R) GEMM_KERNEL(R, 1) GEMM_KERNEL(R, 2)
GEMM_EACH_HALF(GEMM_BOTH)
#define GEMM_C1(R) N(complex1x##R),
#define GEMM_C2(R) N(complex2x##R),
static const N(complex_kernel) N(complexes)[2][GEMM_MR / 2] = {{GEMM_EACH_HALF(GEMM_C1)}, {GEMM_EACH_HALF(GEMM_C2)}};
#undef GEMM_KERNEL
#undef GEMM_BOTH
#undef GEMM_C1
#undef GEMM_C2

static inline void N(complex_tile)(int rows, int64_t n, int64_t kc, const T *a, int64_t ra, int64_t ca, const T *b, int64_t ldb,
                                   T *c, int64_t ldc, int add, int64_t ahead) {
    int64_t w = N(width)(n);
    N(complexes)[w > N(lanes)][rows - 1](kc, a, ra, ca, b, ldb, c, ldc, n - w + N(lanes), add, ahead);
}

/* Panels as pack_b makes them of n columns that lie apart, complex numbers cb of them apart. */
static void N(complex_pack)(T *dst, const T *src, int64_t rb, int64_t cb, int64_t kc, int64_t n) {
    if (sizeof(T) == 4) { gemm_f64_pack_b((double *)dst, (const double *)src, rb / 2, cb, kc, n / 2, NULL); return; }
    for (int64_t j = 0; j < n; j += N(nr)) {
        int64_t nb = n - j < N(nr) ? n - j : N(nr), w = N(width)(nb);
        T *d = dst + j * kc;
        for (int64_t l = 0; l < w; l += 2) for (int64_t k = 0; k < kc; k++) {
            const T *s = src + k * rb + (j + l) * cb;
            d[k * w + l] = l < nb ? s[0] : 0;
            d[k * w + l + 1] = l < nb ? s[1] : 0;
        }
    }
}
