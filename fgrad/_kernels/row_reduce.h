/* Reductions over one row, for the type T (float or double); N(name) appends the type's suffix.  Included once per type.
 *
 * Sums run over blocks of 4,096 with vector accumulators, and the blocks are added in double: float32 sums keep about
 * 7 digits at any length. */
#define ROW_BLOCK 4096

#ifndef ROW_SUM
/* total = sum of E(i): four streams hide the latency of the adds. */
#define ROW_SUM(total, n, E) do { \
    for (int64_t b_ = 0; b_ < (n); b_ += ROW_BLOCK) { \
        int64_t len_ = (n) - b_ < ROW_BLOCK ? (n) - b_ : ROW_BLOCK, q_ = len_ / 64 * 16, e_ = b_ + len_; \
        T s0_ = 0, s1_ = 0, s2_ = 0, s3_ = 0; \
        _Pragma("omp simd reduction(+:s0_, s1_, s2_, s3_)") \
        for (int64_t i_ = b_; i_ < b_ + q_; i_++) { \
            s0_ += E(i_); s1_ += E(i_ + q_); s2_ += E(i_ + 2 * q_); s3_ += E(i_ + 3 * q_); \
        } \
        _Pragma("omp simd reduction(+:s0_)") \
        for (int64_t i_ = b_ + 4 * q_; i_ < e_; i_++) s0_ += E(i_); \
        (total) += (double)((s0_ + s1_) + (s2_ + s3_)); \
    } \
} while (0)
#endif

static inline T N(row_max)(const T *x, int64_t n) {
    T m = -INFINITY;                        /* NaN is passed over: it comes back through exp(x - m) */
    #pragma omp simd reduction(max:m)
    for (int64_t i = 0; i < n; i++) m = x[i] > m ? x[i] : m;
    return m;
}

static inline double N(row_sum)(const T *x, int64_t n) {
    double total = 0;
    #define E(i) x[i]
    ROW_SUM(total, n, E);
    #undef E
    return total;
}

static inline double N(row_dot)(const T *x, const T *t, int64_t n) {
    double total = 0;
    #define E(i) (x[i] * t[i])
    ROW_SUM(total, n, E);
    #undef E
    return total;
}

/* The sums of x - shift (returned through `first`) and of its square. */
static inline double N(row_spread)(const T *x, T shift, int64_t n, double *first) {
    double total = 0, total2 = 0;
    for (int64_t b = 0; b < n; b += ROW_BLOCK) {
        int64_t len = n - b < ROW_BLOCK ? n - b : ROW_BLOCK, q = len / 32 * 16, e = b + len;
        T s0 = 0, s1 = 0, p0 = 0, p1 = 0;
        #pragma omp simd reduction(+:s0, s1, p0, p1)
        for (int64_t i = b; i < b + q; i++) {
            T d0 = x[i] - shift, d1 = x[i + q] - shift;
            s0 += d0; s1 += d1; p0 += d0 * d0; p1 += d1 * d1;
        }
        #pragma omp simd reduction(+:s0, p0)
        for (int64_t i = b + 2 * q; i < e; i++) { T d = x[i] - shift; s0 += d; p0 += d * d; }
        total += (double)(s0 + s1);
        total2 += (double)(p0 + p1);
    }
    *first = total;
    return total2;
}

/* sum of exp(x - shift) * t */
static inline double N(row_exp_dot)(const T *x, T shift, const T *t, int64_t n) {
    double total = 0;
    for (int64_t b = 0; b < n; b += ROW_BLOCK) {
        int64_t e = n - b < ROW_BLOCK ? n : b + ROW_BLOCK;
        T s = 0;
        #pragma omp simd reduction(+:s)
        for (int64_t i = b; i < e; i++) s += N(row_exp)(x[i] - shift) * t[i];
        total += (double)s;
    }
    return total;
}

/* The largest element m and the sum of exp(x - m), in one pass over memory: a block's maximum rescales what came before.
 * Where m is infinite the sum is of exp(x), so that base + log(sum) is right for rows of all -inf and rows with +inf. */
static inline double N(row_max_expsum)(const T *x, int64_t n, T *m_out) {
    T m = -INFINITY, base = 0;
    double total = 0;
    for (int64_t b = 0; b < n; b += ROW_BLOCK) {
        int64_t e = n - b < ROW_BLOCK ? n : b + ROW_BLOCK;
        T bm = N(row_max)(x + b, e - b), s = 0;
        if (bm > m) {
            total *= (double)N(row_exp)(m - bm);
            m = bm;
            base = m == INFINITY ? 0 : m;
        }
        #pragma omp simd reduction(+:s)
        for (int64_t i = b; i < e; i++) s += N(row_exp)(x[i] - base);
        total += (double)s;
    }
    *m_out = m;
    return total;
}
