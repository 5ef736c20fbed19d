/* Register tiles and packing for one element type T; included by gemm.h for each. GEMM_MADD(sum, x, y) adds x times the vector y. */

typedef T N(vec) __attribute__((vector_size(GEMM_BYTES)));
typedef T N(mem) __attribute__((vector_size(GEMM_BYTES), aligned(sizeof(T)), may_alias));
/* Vectors of at most 256 bits. */
typedef T N(narrow) __attribute__((vector_size(GEMM_BYTES > 32 ? 32 : GEMM_BYTES)));
typedef T N(narrow_mem) __attribute__((vector_size(GEMM_BYTES > 32 ? 32 : GEMM_BYTES), aligned(sizeof(T)), may_alias));
enum { N(lanes) = GEMM_BYTES / sizeof(T), N(nr) = GEMM_NV * GEMM_BYTES / sizeof(T) };

/* The first n elements of a vector, 0 <= n <= lanes; the others are zero and their memory is not touched. */
GEMM_INLINE N(vec) N(load)(const T *p, int64_t n) {
#if defined(__AVX512F__)
    return sizeof(T) == 4 ? (N(vec))_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p)
                          : (N(vec))_mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), p);
#elif defined(__AVX__)
    if (n >= N(lanes)) return *(const N(mem) *)p;
    const __m256i mask = _mm256_loadu_si256((const __m256i *)(gemm_mask + 8 - n * (int64_t)sizeof(T) / 4));
    return sizeof(T) == 4 ? (N(vec))_mm256_maskload_ps((const float *)p, mask) : (N(vec))_mm256_maskload_pd((const double *)p, mask);
#else
    if (n >= N(lanes)) return *(const N(mem) *)p;
    N(vec) v = {0};
    for (int64_t i = 0; i < n; i++) v[i] = p[i];
    return v;
#endif
}

GEMM_INLINE void N(store)(T *p, N(vec) v, int64_t n) {
#if defined(__AVX512F__)
    if (sizeof(T) == 4) _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
    else _mm512_mask_storeu_pd(p, (__mmask8)((1u << n) - 1), (__m512d)v);
#elif defined(__AVX__)
    if (n >= N(lanes)) { *(N(mem) *)p = v; return; }
    /* Halves: a masked store takes ten times as long on AMD's processors. */
    __m128 part = _mm256_castps256_ps128((__m256)v);
    n *= sizeof(T) / 4;
    char *to = (char *)p;
    if (n & 4) { _mm_storeu_ps((float *)to, part); part = _mm256_extractf128_ps((__m256)v, 1); to += 16; }
    if (n & 2) { _mm_storel_pi((__m64 *)to, part); part = _mm_movehl_ps(part, part); to += 8; }
    if (n & 1) _mm_store_ss((float *)to, part);
#else
    if (n >= N(lanes)) { *(N(mem) *)p = v; return; }
    for (int64_t i = 0; i < n; i++) p[i] = v[i];
#endif
}

/* ---- the tile ---- */

#if GEMM_BYTES == 32
/* Whole turns of k, added to the sums: nothing but loads and sums, for a processor's other thread takes half of what it can begin in a cycle.
 * Row i of a begins at row[i / 5] + i % 5 * step, its elements are `next` bytes apart; returns how many of k that was. */
GEMM_INLINE int64_t N(turns)(const int R, const int NV, int64_t kc, const char **row, int64_t step, int64_t next, const T *b, int64_t ldb,
                             N(vec) (*sum)[GEMM_NV]) {
    int64_t k = 0;
    for (; k + GEMM_TURNS <= kc; k += GEMM_TURNS) {
        GEMM_UNROLL for (int t = 0; t < GEMM_TURNS; t++, b += ldb) {
            N(vec) y[GEMM_NV];
            GEMM_UNROLL for (int v = 0; v < NV; v++) y[v] = *(const N(mem) *)(b + v * N(lanes));
            GEMM_UNROLL for (int i = 0; i < R; i++) {
                const N(vec) x = *(const T *)(row[i / 5] + i % 5 * step + t * next) - (N(vec)){0};
                GEMM_UNROLL for (int v = 0; v < NV; v++) GEMM_ADD(sum[i][v], x, y[v]);
            }
        }
        GEMM_UNROLL for (int i = 0; i < R; i += 5) row[i / 5] += GEMM_TURNS * next;
    }
    return k;
}
#endif

/* R rows by NV vectors, of whose last one `tail` elements count.  Element (i, k) of a is a[i * ra + k * ca].  What lies `ahead` elements
 * after b is fetched where a row is more than a vector, a line for each of them, `apart` elements from each other. */
GEMM_INLINE void N(body)(const int R, const int NV, int64_t kc, const T *a, int64_t ra, int64_t ca, const T *b, int64_t ldb,
                         T *c, int64_t ldc, int64_t tail, int add, int64_t ahead, int64_t apart) {
    N(vec) sum[GEMM_MR][GEMM_NV], y[GEMM_NV];
    GEMM_UNROLL for (int i = 0; i < R; i++) {
        GEMM_UNROLL for (int v = 0; v < NV; v++) sum[i][v] = (N(vec)){0};
    }
    if (kc >= 64) GEMM_UNROLL for (int i = 0; i < R; i++) {      /* c, which comes while k runs */
        GEMM_UNROLL for (int v = 0; v < NV; v++) __builtin_prefetch(c + i * ldc + v * N(lanes), 1, 3);
    }
    /* Every fifth row has a pointer: the four after it are 1 to 4 strides on, which an address can say without a register of its own. */
    const char *row[(GEMM_MR + 4) / 5];
    const int64_t step = ra * (int64_t)sizeof(T), next = ca * (int64_t)sizeof(T);
    int64_t k = 0;
    GEMM_UNROLL for (int i = 0; i < R; i += 5) row[i / 5] = (const char *)(a + i * ra);
#if GEMM_BYTES == 32
    if (!ahead) { k = N(turns)(R, NV, kc, row, step, next, b, ldb, sum); b += k * ldb; }
#endif
    for (; k < kc; k++, b += ldb) {
        GEMM_UNROLL for (int v = 0; v + 1 < NV; v++) y[v] = *(const N(mem) *)(b + v * N(lanes));
        y[NV - 1] = N(load)(b + (NV - 1) * N(lanes), GEMM_MASKS ? tail : N(lanes));
        if (NV > 1) GEMM_UNROLL for (int v = 0; v < NV; v++) __builtin_prefetch(b + ahead + v * apart + N(lanes) - 1);    /* its last line, if it is in two */
        GEMM_UNROLL for (int i = 0; i < R; i++) {
            GEMM_UNROLL for (int v = 0; v < NV; v++) sum[i][v] = GEMM_MADD(sum[i][v], *(const T *)(row[i / 5] + i % 5 * step), y[v]);
        }
        GEMM_UNROLL for (int i = 0; i < R; i += 5) row[i / 5] += next;
    }
    GEMM_UNROLL for (int i = 0; i < R; i++, c += ldc) {
        GEMM_UNROLL for (int v = 0; v < NV; v++) {
            T *p = c + v * N(lanes);
            int64_t n = v + 1 < NV ? N(lanes) : tail;
            N(store)(p, add ? N(load)(p, n) + sum[i][v] : sum[i][v], n);
        }
    }
}

/* One function for each number of rows and vectors, and for a's rows (`step` apart) or its columns lying contiguously. */
typedef void (*N(kernel))(int64_t kc, const T *a, int64_t step, const T *b, int64_t ldb, T *c, int64_t ldc, int64_t tail, int add,
                          int64_t ahead, int64_t apart);
#define GEMM_KERNEL(NAME, R, NV, RA, CA) \
static void NAME(int64_t kc, const T *a, int64_t step, const T *b, int64_t ldb, T *c, int64_t ldc, int64_t tail, int add, int64_t ahead, \
                 int64_t apart) { \
    N(body)(R, NV, kc, a, RA, CA, b, ldb, c, ldc, tail, add, ahead, apart); \
}
#define GEMM_ROWS(R) \
    GEMM_KERNEL(N(cols1x##R), R, 1, 1, step) GEMM_KERNEL(N(cols2x##R), R, 2, 1, step) \
    GEMM_KERNEL(N(rows1x##R), R, 1, step, 1) GEMM_KERNEL(N(rows2x##R), R, 2, step, 1)
GEMM_EACH_ROWS(GEMM_ROWS)
#define GEMM_C1(R) N(cols1x##R),
#define GEMM_C2(R) N(cols2x##R),
#define GEMM_R1(R) N(rows1x##R),
#define GEMM_R2(R) N(rows2x##R),
static const N(kernel) N(cols)[2][GEMM_MR] = {{GEMM_EACH_ROWS(GEMM_C1)}, {GEMM_EACH_ROWS(GEMM_C2)}};
static const N(kernel) N(rows)[2][GEMM_MR] = {{GEMM_EACH_ROWS(GEMM_R1)}, {GEMM_EACH_ROWS(GEMM_R2)}};
#undef GEMM_KERNEL
#undef GEMM_ROWS
#undef GEMM_C1
#undef GEMM_C2
#undef GEMM_R1
#undef GEMM_R2

static inline int64_t N(width)(int64_t n) { return (n + N(lanes) - 1) / N(lanes) * N(lanes); }

/* c (rows, n) (+)= a b with 1 <= rows <= GEMM_MR, 1 <= n <= NR.  a is a panel of `rows` rows and b one of n columns. */
static inline void N(tile)(int rows, int64_t n, int64_t kc, const T *a, const T *b, T *c, int64_t ldc, int add) {
    int64_t w = N(width)(n);
    N(cols)[w > N(lanes)][rows - 1](kc, a, rows, b, w, c, ldc, n - w + N(lanes), add, 0, 0);
}

/* The same where a and b lie: a has a unit stride, along k or along its rows, and b along n.  Without masks (GEMM_MASKS)
 * whole vectors of b are read, so n must be a multiple of the vector's length or b a panel.  `ahead` and `apart` as above, 0 for
 * nothing. */
static inline void N(tile_strided)(int rows, int64_t n, int64_t kc, const T *a, int64_t ra, int64_t ca, const T *b, int64_t ldb,
                                   T *c, int64_t ldc, int add, int64_t ahead, int64_t apart) {
    int64_t w = N(width)(n), tail = n - w + N(lanes);
    if (ra == 1) N(cols)[w > N(lanes)][rows - 1](kc, a, ca, b, ldb, c, ldc, tail, add, ahead, apart);
    else N(rows)[w > N(lanes)][rows - 1](kc, a, ra, b, ldb, c, ldc, tail, add, ahead, apart);
}

#if GEMM_BYTES == 32
/* R rows by n columns, whole tiles, of a product whose K is so short that calls and what a tile begins with take longer than its sums; a is a
 * panel, tiles of b are `apart` elements from each other. Each sum is the chain that a tile makes. */
GEMM_INLINE void N(strip_body)(const int R, int64_t n, int64_t kc, const T *a, const T *b, int64_t ldb, int64_t apart, T *c, int64_t ldc) {
    for (int64_t t = 0; t < n; t += N(nr), b += apart) {
        N(vec) sum[GEMM_MR][GEMM_NV], y[GEMM_NV];
        const T *row = b;
        GEMM_UNROLL for (int i = 0; i < R; i++) {
            GEMM_UNROLL for (int v = 0; v < GEMM_NV; v++) sum[i][v] = (N(vec)){0};
        }
        for (int64_t k = 0; k < kc * R; k += R, row += ldb) {
            GEMM_UNROLL for (int v = 0; v < GEMM_NV; v++) y[v] = *(const N(mem) *)(row + v * N(lanes));
            GEMM_UNROLL for (int i = 0; i < R; i++) {
                GEMM_UNROLL for (int v = 0; v < GEMM_NV; v++) sum[i][v] = GEMM_MADD(sum[i][v], a[k + i], y[v]);
            }
        }
        GEMM_UNROLL for (int i = 0; i < R; i++) {
            GEMM_UNROLL for (int v = 0; v < GEMM_NV; v++) *(N(mem) *)(c + i * ldc + t + v * N(lanes)) = sum[i][v];
        }
    }
}
typedef void (*N(strip_kernel))(int64_t n, int64_t kc, const T *a, const T *b, int64_t ldb, int64_t apart, T *c, int64_t ldc);
#define GEMM_STRIP(R) \
static void N(strip##R)(int64_t n, int64_t kc, const T *a, const T *b, int64_t ldb, int64_t apart, T *c, int64_t ldc) { \
    N(strip_body)(R, n, kc, a, b, ldb, apart, c, ldc); \
}
GEMM_EACH_ROWS(GEMM_STRIP)
#define GEMM_S(R) N(strip##R),
static const N(strip_kernel) N(strips)[GEMM_MR] = {GEMM_EACH_ROWS(GEMM_S)};
#undef GEMM_STRIP
#undef GEMM_S
#endif

/* c (m, n) (+)= a b from what pack_a and pack_b wrote. */
static void N(block)(int64_t m, int64_t n, int64_t kc, const T *pa, const T *pb, T *c, int64_t ldc, int add) {
    for (int64_t j = 0; j < n; j += N(nr)) {
        int64_t nb = n - j < N(nr) ? n - j : N(nr);
        for (int64_t p = 0, i = 0, next; i < m; p++, i = next) {
            next = gemm_panel(m, p + 1);
            N(tile)((int)(next - i), nb, kc, pa + i * kc, pb + j * kc, c + i * ldc + j, ldc, add);
        }
    }
}

/* ---- rows against rows: c[m, n] += sum_k a[m, k] b[n, k], both contiguous along k ---- */

GEMM_INLINE T N(total)(N(vec) v) {
    T s = 0;
    GEMM_UNROLL for (int i = 0; i < N(lanes); i++) s += v[i];
    return s;
}

/* The totals of the first n of a vector's number of vectors, which are overwritten: a tree for all of them, not one each. */
#if GEMM_HAS_SHUFFLE
GEMM_INLINE void N(halve)(const int s, N(vec) *x) {
    if (s < N(lanes)) GEMM_UNROLL for (int i = 0; i < s; i++)
        x[i] = __builtin_shufflevector(x[i], x[i + s], GEMM_LO(T)) + __builtin_shufflevector(x[i], x[i + s], GEMM_HI(T));
}
#endif
GEMM_INLINE N(vec) N(totals)(const int n, N(vec) *x) {
#if GEMM_HAS_SHUFFLE
    GEMM_UNROLL for (int i = 0; i < N(lanes); i++) if (i >= n) x[i] = (N(vec)){0};
    N(halve)(8, x);              /* not a loop, which would keep the vectors in memory */
    N(halve)(4, x);
    N(halve)(2, x);
    N(halve)(1, x);
    return x[0];
#else
    N(vec) t = {0};
    GEMM_UNROLL for (int i = 0; i < N(lanes); i++) if (i < n) t[i] = N(total)(x[i]);
    return t;
#endif
}

/* C is GEMM_DOTS_COLS or 1: neighbours in a row of c are neighbours in the vector of totals. */
GEMM_INLINE void N(dots_body)(const int R, const int C, int64_t kc, const T *a, int64_t lda, const T *b, int64_t ldb, T *c, int64_t ldc) {
    enum { L = N(lanes), GROUP = L < GEMM_DOTS_COLS ? L : GEMM_DOTS_COLS };
    N(vec) sum[GEMM_DOTS_TILE * GEMM_DOTS_COLS + L], x[GEMM_DOTS_TILE];
    T total[L];
    int64_t k = 0;
    GEMM_UNROLL for (int i = 0; i < R * C; i++) sum[i] = (N(vec)){0};
    for (; k + L <= kc; k += L) {
        GEMM_UNROLL for (int i = 0; i < R; i++) {
            x[i] = *(const N(mem) *)(a + i * lda + k);
            GEMM_KEEP(x[i]);
        }
        GEMM_UNROLL for (int j = 0; j < C; j++) {
            N(vec) y = *(const N(mem) *)(b + j * ldb + k);
            GEMM_KEEP(y);
            GEMM_UNROLL for (int i = 0; i < R; i++) sum[i * C + j] += x[i] * y;
        }
    }
    if (k < kc) {
        GEMM_UNROLL for (int i = 0; i < R; i++) x[i] = N(load)(a + i * lda + k, kc - k);
        GEMM_UNROLL for (int j = 0; j < C; j++) {
            N(vec) y = N(load)(b + j * ldb + k, kc - k);
            GEMM_UNROLL for (int i = 0; i < R; i++) sum[i * C + j] += x[i] * y;
        }
    }
    GEMM_UNROLL for (int u = 0; u < R * C; u += L) {
        const int n = R * C - u < L ? R * C - u : L, group = C == 1 ? 1 : GROUP;
        N(vec) t = N(totals)(n, sum + u);
        memcpy(total, &t, sizeof t);
        GEMM_UNROLL for (int i = 0; i < n; i += group) {
            T *to = c + (u + i) / C * ldc + (u + i) % C;
            for (int g = 0; g < group; g++) to[g] += total[i + g];
        }
    }
}

/* One row against a vector's number of rows of b, each short. */
GEMM_INLINE void N(dots_short)(int64_t kc, const T *a, const T *b, int64_t ldb, T *c) {
    N(vec) x[N(lanes)];
    int64_t whole = kc / N(lanes) * N(lanes);
    N(vec) last = N(load)(a + whole, kc - whole);
    GEMM_UNROLL for (int i = 0; i < N(lanes); i++) {
        x[i] = kc > whole ? last * N(load)(b + i * ldb + whole, kc - whole) : (N(vec)){0};
        for (int64_t k = 0; k < whole; k += N(lanes)) x[i] += *(const N(mem) *)(a + k) * *(const N(mem) *)(b + i * ldb + k);
    }
    *(N(mem) *)c += N(totals)(N(lanes), x);
}

/* One row against R of b's, each in two sums: the even and the odd vectors. */
GEMM_INLINE void N(dots_rows)(const int R, int64_t kc, const T *a, const T *b, int64_t ldb, T *c) {
    const int64_t L = N(lanes);
    N(vec) sum[GEMM_DOTS_COLS + N(lanes)], odd[GEMM_DOTS_COLS], x, y;
    T total[N(lanes)];
    int64_t k = 0;
    GEMM_UNROLL for (int i = 0; i < R; i++) sum[i] = odd[i] = (N(vec)){0};
    for (; k + 2 * L <= kc; k += 2 * L) {
        x = *(const N(mem) *)(a + k);
        y = *(const N(mem) *)(a + k + L);
        GEMM_KEEP(x);
        GEMM_KEEP(y);
        GEMM_UNROLL for (int i = 0; i < R; i++) {
            sum[i] += x * *(const N(mem) *)(b + i * ldb + k);
            odd[i] += y * *(const N(mem) *)(b + i * ldb + k + L);
        }
    }
    for (; k < kc; k += L) {
        int64_t w = kc - k < L ? kc - k : L;
        x = N(load)(a + k, w);
        GEMM_UNROLL for (int i = 0; i < R; i++) {
            y = x * N(load)(b + i * ldb + k, w);
            GEMM_APART(y);                           /* or the compiler chooses by R */
            sum[i] += y;
        }
    }
    GEMM_UNROLL for (int i = 0; i < R; i++) sum[i] += odd[i];
    GEMM_UNROLL for (int i = 0; i < R; i += N(lanes)) {
        const int n = R - i < N(lanes) ? R - i : N(lanes);
        x = N(totals)(n, sum + i);
        memcpy(total, &x, sizeof x);
        GEMM_UNROLL for (int g = 0; g < n; g++) c[i + g] += total[g];
    }
}

/* One row: four of b's at a time share its loads. Where no vector of 512 bits crosses a line, one at a time comes faster out of a far cache.
 * What lies `ahead` elements after b is fetched, unless that is 0. */
static void N(dots_single)(int64_t n, int64_t kc, const T *a, const T *b, int64_t ldb, T *c, int64_t ahead) {
    const int64_t L = N(lanes);
    int whole = ((uintptr_t)a | (uintptr_t)b | (uint64_t)ldb * sizeof(T)) % GEMM_BYTES == 0;
    int64_t j = 0;
    if (kc <= 4 * L) for (; j + L <= n; j += L, b += L * ldb) {
        if (ahead) fg_fetch(b + ahead, L * ldb * (int64_t)sizeof(T));
        N(dots_short)(kc, a, b, ldb, c + j);
    }
    if (GEMM_BYTES == 32 || ahead || !whole || kc < 32 * L || kc > 128 * L) for (; j + 4 <= n; j += 4, b += 4 * ldb) {
        if (ahead) fg_fetch(b + ahead, 4 * ldb * (int64_t)sizeof(T));
        N(dots_rows)(4, kc, a, b, ldb, c + j);
    }
    for (; j < n; j++, b += ldb) N(dots_rows)(1, kc, a, b, ldb, c + j);
}

/* c (n) (+)= one row against n <= lanes rows of b, where a row is at most a vector: sums as dots_rows makes them, c is stored once. */
GEMM_INLINE void N(dots_few)(const int R, int64_t n, int64_t kc, const T *a, const T *b, int64_t ldb, T *c, int add) {
    N(vec) x[N(lanes)], row = N(load)(a, kc);
    GEMM_UNROLL for (int i = 0; i < R; i++) {
        x[i] = i < n ? row * N(load)(b + i * ldb, kc) : (N(vec)){0};
        GEMM_APART(x[i]);
    }
    row = N(totals)(R, x);
    N(store)(c, add ? N(load)(c, n) + row : row, n);
}
static void N(dots_one_vector)(int64_t n, int64_t kc, const T *a, const T *b, int64_t ldb, T *c, int add) {
    if (n <= 4 && N(lanes) > 4) N(dots_few)(4, n, kc, a, b, ldb, c, add);
    else if (n <= 8 && N(lanes) > 8) N(dots_few)(8, n, kc, a, b, ldb, c, add);
    else N(dots_few)(N(lanes), n, kc, a, b, ldb, c, add);
}

/* One number: four sums of vectors, which do not wait for each other. */
static void N(dot_one)(int64_t kc, const T *a, const T *b, T *c, int add) {
    enum { L = N(lanes) };
    N(vec) sum[L > 4 ? L : 4];
    int64_t k = 0;
    GEMM_UNROLL for (int i = 0; i < 4; i++) sum[i] = (N(vec)){0};
    for (; k + 4 * L <= kc; k += 4 * L)
        GEMM_UNROLL for (int i = 0; i < 4; i++) sum[i] += *(const N(mem) *)(a + k + i * L) * *(const N(mem) *)(b + k + i * L);
    for (; k + L <= kc; k += L) sum[0] += *(const N(mem) *)(a + k) * *(const N(mem) *)(b + k);
    if (k < kc) sum[1] += N(load)(a + k, kc - k) * N(load)(b + k, kc - k);
    sum[0] += sum[1] + (sum[2] + sum[3]);
    sum[0] = N(totals)(1, sum);
    *c = add ? *c + sum[0][0] : sum[0][0];
}

/* c (n) += a b, R of b's rows at a time, in vectors of type V: an element is one chain over k whichever. `ahead` as above. */
#define GEMM_AXPY(NAME, R, V, ALIGNED) \
static void NAME(int64_t n, int64_t kc, const T *a, const T *b, int64_t ldb, T *c, int64_t ahead) { \
    const int64_t L = sizeof(V) / sizeof(T); \
    for (int64_t k = 0; k < kc; k += R, b += R * ldb) { \
        T x[R]; \
        int64_t j = 0, last = kc - k < R ? kc - k : R; \
        if (ahead) fg_fetch(b + ahead, R * ldb * (int64_t)sizeof(T)); \
        for (int r = 0; r < R; r++) x[r] = r < last ? a[k + r] : 0; \
        if (last == R) for (; j + L <= n; j += L) { \
            V s = *(const ALIGNED *)(c + j); \
            GEMM_UNROLL for (int r = 0; r < R; r++) s += x[r] * *(const ALIGNED *)(b + r * ldb + j); \
            *(ALIGNED *)(c + j) = s; \
        } \
        for (; j < n; j++) for (int r = 0; r < last; r++) c[j] += x[r] * b[r * ldb + j]; \
    } \
}
GEMM_AXPY(N(axpy_near), 8, N(vec), N(mem))
GEMM_AXPY(N(axpy_far), 8, N(narrow), N(narrow_mem))
GEMM_AXPY(N(axpy_apart), 4, N(narrow), N(narrow_mem))
#undef GEMM_AXPY

/* A few vectors of columns, which stay in registers. */
GEMM_INLINE void N(axpy_few)(const int NV, int64_t tail, int64_t kc, const T *a, const T *b, int64_t ldb, T *c) {
    N(vec) sum[4];
    GEMM_UNROLL for (int v = 0; v < NV; v++) sum[v] = N(load)(c + v * N(lanes), v + 1 < NV ? N(lanes) : tail);
    for (int64_t k = 0; k < kc; k++, b += ldb)
        GEMM_UNROLL for (int v = 0; v < NV; v++) sum[v] += a[k] * N(load)(b + v * N(lanes), v + 1 < NV ? N(lanes) : tail);
    GEMM_UNROLL for (int v = 0; v < NV; v++) N(store)(c + v * N(lanes), sum[v], v + 1 < NV ? N(lanes) : tail);
}

/* c (n) += a b where b's rows are contiguous. What comes out of a far cache comes faster in vectors of 256 bits, and whole lines of it. */
static void N(axpy)(int64_t n, int64_t kc, const T *a, const T *b, int64_t ldb, T *c, int far, int64_t ahead) {
    const int64_t L = N(lanes), tail = (n - 1) % L + 1;
    int64_t head = -(int64_t)((uintptr_t)b / sizeof(T)) & (L - 1);
    if (n <= L) { N(axpy_few)(1, tail, kc, a, b, ldb, c); return; }
    if (n <= 2 * L) { N(axpy_few)(2, tail, kc, a, b, ldb, c); return; }
    if (n <= 4 * L) { N(axpy_few)(n <= 3 * L ? 3 : 4, tail, kc, a, b, ldb, c); return; }
    if (ldb % L || (uintptr_t)b % sizeof(T)) head = 0;
    else if (head) N(axpy_few)(1, head, kc, a, b, ldb, c);
    if (!far) N(axpy_near)(n - head, kc, a, b + head, ldb, c + head, ahead);
    else if (ldb % L) N(axpy_apart)(n, kc, a, b, ldb, c, ahead);
    else N(axpy_far)(n - head, kc, a, b + head, ldb, c + head, ahead);
}

typedef void (*N(dots_kernel))(int64_t kc, const T *a, int64_t lda, const T *b, int64_t ldb, T *c, int64_t ldc);
#define GEMM_DOTS(R) \
static void N(dots##R)(int64_t kc, const T *a, int64_t lda, const T *b, int64_t ldb, T *c, int64_t ldc) { \
    N(dots_body)(R, GEMM_DOTS_COLS, kc, a, lda, b, ldb, c, ldc); \
} \
static void N(dots_one##R)(int64_t kc, const T *a, int64_t lda, const T *b, int64_t ldb, T *c, int64_t ldc) { \
    N(dots_body)(R, 1, kc, a, lda, b, ldb, c, ldc); \
}
GEMM_EACH_DOTS(GEMM_DOTS)
#define GEMM_D(R) N(dots##R),
#define GEMM_D1(R) N(dots_one##R),
static const N(dots_kernel) N(dots_table)[2][GEMM_DOTS_TILE] = {{GEMM_EACH_DOTS(GEMM_D1)}, {GEMM_EACH_DOTS(GEMM_D)}};
#undef GEMM_DOTS
#undef GEMM_D
#undef GEMM_D1

/* c (m, n) += a b^T with 1 <= m <= GEMM_DOTS_ROWS. */
static void N(dots)(int64_t m, int64_t n, int64_t kc, const T *a, int64_t lda, const T *b, int64_t ldb, T *c, int64_t ldc, int64_t ahead) {
    if (m == 1) { N(dots_single)(n, kc, a, b, ldb, c, ahead); return; }
    for (int64_t j = 0, cols; j < n; j += cols) {
        cols = n - j < GEMM_DOTS_COLS ? 1 : GEMM_DOTS_COLS;
        for (int64_t i = 0; i < m; i += GEMM_DOTS_TILE) {
            int64_t rows = m - i < GEMM_DOTS_TILE ? m - i : GEMM_DOTS_TILE;
            N(dots_table)[cols > 1][rows - 1](kc, a + i * lda, lda, b + j * ldb, ldb, c + i * ldc + j, ldc);
        }
    }
}

/* ---- packing ---- */

/* Transpose a square of vectors: log2(lanes) times, interleave its first half with its second. */
#if GEMM_HAS_SHUFFLE
GEMM_INLINE void N(interleave)(const int s, N(vec) *x) {
    N(vec) y[N(lanes)];
    if (s >= N(lanes)) return;
    GEMM_UNROLL for (int i = 0; i < N(lanes) / 2; i++) {
        y[2 * i] = __builtin_shufflevector(x[i], x[i + N(lanes) / 2], GEMM_LO(T));
        y[2 * i + 1] = __builtin_shufflevector(x[i], x[i + N(lanes) / 2], GEMM_HI(T));
    }
    GEMM_UNROLL for (int i = 0; i < N(lanes); i++) x[i] = y[i];
}
GEMM_INLINE void N(transpose)(N(vec) *x) {
    N(interleave)(1, x);         /* not a loop, which would keep the vectors in memory */
    N(interleave)(2, x);
    N(interleave)(4, x);
    N(interleave)(8, x);
}
#endif

/* A whole square in registers: dst[k * w + l] = src[l * sl + k]. */
static __attribute__((noinline)) void N(square)(T *dst, int64_t w, const T *src, int64_t sl) {
#if GEMM_HAS_SHUFFLE
    N(vec) x[N(lanes)];
    GEMM_UNROLL for (int i = 0; i < N(lanes); i++) x[i] = *(const N(mem) *)(src + i * sl);
    N(transpose)(x);
    GEMM_UNROLL for (int i = 0; i < N(lanes); i++) *(N(mem) *)(dst + i * w) = x[i];
#else
    for (int64_t k = 0; k < N(lanes); k++) for (int64_t l = 0; l < N(lanes); l++) dst[k * w + l] = src[l * sl + k];
#endif
}

/* A whole vector, which may spill into what is written later, but not beyond the end. */
GEMM_INLINE void N(put)(T *p, N(vec) v, const T *end) {
    if (end - p >= N(lanes)) *(N(mem) *)p = v; else N(store)(p, v, end - p);
}

/* nl rows of nk elements as whole columns: no element of the array has a variable index, or all of it would be kept in memory. */
#if GEMM_HAS_SHUFFLE
static __attribute__((noinline)) void N(square_part)(T *dst, int64_t w, const T *src, int64_t sl, int64_t nl, int64_t nk, const T *end) {
    N(vec) x[N(lanes)];
    GEMM_UNROLL for (int i = 0; i < N(lanes); i++) x[i] = i < nl ? N(load)(src + i * sl, nk) : (N(vec)){0};
    N(transpose)(x);
    GEMM_UNROLL for (int i = 0; i < N(lanes); i++) if (i < nk) N(put)(dst + i * w, x[i], end);
}

/* The same of nk elements two apart: what lies between the first and the last of them is read, nothing beyond. */
static __attribute__((noinline)) void N(square_even)(T *dst, int64_t w, const T *src, int64_t sl, int64_t nl, int64_t nk, const T *end) {
    N(vec) x[N(lanes)];
    const int64_t L = N(lanes), n = 2 * nk - 1, low = n < L ? n : L, high = n < L ? 0 : n - L + 1;
    GEMM_UNROLL for (int i = 0; i < N(lanes); i++) {
        const T *s = src + i * sl;
        x[i] = i < nl ? __builtin_shufflevector(N(load)(s, low), N(load)(s + L - 1, high), GEMM_EVEN(T)) : (N(vec)){0};
    }
    N(transpose)(x);
    GEMM_UNROLL for (int i = 0; i < N(lanes); i++) if (i < nk) N(put)(dst + i * w, x[i], end);
}
#endif

/* dst[k * w + l] = src[l * sl + k * sk] for 0 <= l < lanes and 0 <= k < kc; zero for lanes <= l < w, where w - lanes < a vector.
 * `next` is the source of the next panel, fetched along the way, or NULL. */
static void N(pack_before)(const T *next, T *dst, int64_t w, const T *src, int64_t lanes, int64_t sl, int64_t sk, int64_t kc) {
    const int64_t L = N(lanes);
    const T *end = dst + w * kc;
    if (sk == 1 && sl == kc && kc < 8 && lanes == w) { N(columns)(dst, w, src, lanes, kc); return; }
    if (sl == 1) {
        for (int64_t k = 0; k < kc; k++) for (int64_t l = 0; l < lanes; l += L) {
            if (next) __builtin_prefetch(next + k * sk + l + L - 1, 0, 2);
            N(put)(dst + k * w + l, N(load)(src + k * sk + l, lanes - l < L ? lanes - l : L), end);
        }
        return;
    }
    /* Squares of vectors. A narrow one spills into the next k, so the lanes' last square goes first and k runs upwards. */
    for (int64_t k = 0; k < kc; k += L) {
        int64_t nk = kc - k < L ? kc - k : L;
        for (int64_t l = (lanes - 1) / L * L; l >= 0; l -= L) {
            int64_t nl = lanes - l < L ? lanes - l : L;
            const T *s = src + l * sl + k * sk;
#if GEMM_HAS_SHUFFLE
            if (sk == 1 && nl == L && nk == L && w % L == 0) { N(square)(dst + k * w + l, w, s, sl); continue; }
            if (sk == 1) { N(square_part)(dst + k * w + l, w, s, sl, nl, nk, end); continue; }
            if (sk == 2) { N(square_even)(dst + k * w + l, w, s, sl, nl, nk, end); continue; }
#endif
            for (int64_t i = 0; i < nk; i++) {
                N(vec) x = {0};
                for (int64_t j = 0; j < nl; j++) x[j] = s[j * sl + i * sk];
                N(put)(dst + (k + i) * w + l, x, end);
            }
        }
    }
}

static inline void N(pack)(T *dst, int64_t w, const T *src, int64_t lanes, int64_t sl, int64_t sk, int64_t kc) {
    N(pack_before)(NULL, dst, w, src, lanes, sl, sk, kc);
}

/* Panels of a (m, kc), element (i, k) at src[i * ra + k * ca]: m * kc elements. */
static void N(pack_a)(T *dst, const T *src, int64_t ra, int64_t ca, int64_t m, int64_t kc) {
    for (int64_t p = 0, i = 0, next; i < m; p++, i = next) {
        next = gemm_panel(m, p + 1);
        N(pack)(dst + i * kc, next - i, src + i * ra, next - i, ra, ca, kc);
    }
}

/* The same of rows of float64 that are long enough to be read as they lie: R of them over all panels. */
GEMM_INLINE void N(pack_long)(const int R, T *dst, const T *src, int64_t rb, int64_t kc, int64_t n, int64_t k) {
    int64_t j = 0;
    src += k * rb;
    for (; j + N(nr) <= n; j += N(nr)) {
        GEMM_UNROLL for (int r = 0; r < R; r++) {
            GEMM_UNROLL for (int v = 0; v < GEMM_NV; v++)
                *(N(mem) *)(dst + j * kc + (k + r) * N(nr) + v * N(lanes)) = *(const N(mem) *)(src + r * rb + j + v * N(lanes));
        }
    }
    const int64_t w = N(width)(n - j);
    for (int r = 0; r < R; r++) for (int64_t l = 0; l < w; l += N(lanes))
        *(N(mem) *)(dst + j * kc + (k + r) * w + l) = N(load)(src + r * rb + j + l, n - j - l < N(lanes) ? n - j - l : N(lanes));
}

/* Panels of b (kc, n), element (k, j) at src[k * rb + j * cb]: kc * width(n) elements.  `after` is the block that follows, or NULL. */
static void N(pack_b)(T *dst, const T *src, int64_t rb, int64_t cb, int64_t kc, int64_t n, const T *after) {
    if (sizeof(T) == 8 && cb == 1 && n * (int64_t)sizeof(T) >= GEMM_LONG_ROW) {
        int64_t k = 0;
        for (; k + 4 <= kc; k += 4) N(pack_long)(4, dst, src, rb, kc, n, k);
        for (; k < kc; k++) N(pack_long)(1, dst, src, rb, kc, n, k);
        return;
    }
    for (int64_t j = 0; j < n; j += N(nr)) {
        int64_t nb = n - j < N(nr) ? n - j : N(nr);
        N(pack_before)(j + N(nr) < n ? src + (j + N(nr)) * cb : after, dst + j * kc, N(width)(nb), src + j * cb, nb, cb, rb, kc);
    }
}
