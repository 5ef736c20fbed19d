/* Reductions over one row, for the type T (float or double); N(name) appends the type's suffix.  Included once per type.
 *
 * Sums run over blocks of 4,096 with vector accumulators, and the blocks are added in double: float32 sums keep about
 * 7 digits at any length. */
#define ROW_BLOCK 4096

static inline T N(row_max)(const T *x, int64_t n) {    /* NaN is passed over: it comes back through exp(x - m) */
    N(vec) m0 = (N(vec)){0} - (T)INFINITY, m1 = m0, m2 = m0, m3 = m0;
    T m = -INFINITY;
    int64_t i = 0;
    for (; i + 4 * VEC_LANES <= n; i += 4 * VEC_LANES) {
        m0 = N(vec_max)(LOAD_VEC(x), m0); m1 = N(vec_max)(LOAD_VEC(x + VEC_LANES), m1);
        m2 = N(vec_max)(LOAD_VEC(x + 2 * VEC_LANES), m2); m3 = N(vec_max)(LOAD_VEC(x + 3 * VEC_LANES), m3);
    }
    for (; i + VEC_LANES <= n; i += VEC_LANES) m0 = N(vec_max)(LOAD_VEC(x), m0);
    for (; i < n; i++) m = x[i] > m ? x[i] : m;
    T r = N(vec_largest)(N(vec_max)(N(vec_max)(m0, m1), N(vec_max)(m2, m3)));
    return r > m ? r : m;
}

static inline double N(row_sum)(const T *x, int64_t n) {
    double total = 0;
    #define TERM(L) L(x)
    ROW_SUM(total, n, TERM);
    #undef TERM
    return total;
}

static inline double N(row_dot)(const T *x, const T *t, int64_t n) {
    double total = 0;
    #define TERM(L) (L(x) * L(t))
    ROW_SUM(total, n, TERM);
    #undef TERM
    return total;
}

/* The sums of x - shift (returned through `first`) and of its square. */
static inline double N(row_spread)(const T *x, T shift, int64_t n, double *first) {
    double total = 0, total2 = 0;
    for (int64_t i = 0; i < n;) {
        int64_t e = n - i < ROW_BLOCK ? n : i + ROW_BLOCK;
        N(vec) s0 = {0}, s1 = {0}, p0 = {0}, p1 = {0};
        T s = 0, p = 0;
        for (; i + 2 * VEC_LANES <= e; i += 2 * VEC_LANES) {
            N(vec) d0 = LOAD_VEC(x) - shift, d1 = LOAD_VEC(x + VEC_LANES) - shift;
            s0 += d0; s1 += d1; p0 += d0 * d0; p1 += d1 * d1;
        }
        for (; i + VEC_LANES <= e; i += VEC_LANES) { N(vec) d0 = LOAD_VEC(x) - shift; s0 += d0; p0 += d0 * d0; }
        for (; i < e; i++) { T d = x[i] - shift; s += d; p += d * d; }
        total += (double)(N(vec_sum)(s0 + s1) + s);
        total2 += (double)(N(vec_sum)(p0 + p1) + p);
    }
    *first = total;
    return total2;
}

#ifdef FG_VEC_BLOCKS_H
/* v = exp(x - shift), a block from index i on */
#define ROW_EXP_BLOCK(v) N(vec) v[FG_BLOCK]; FG_EACH(FG_BLOCK) v[j] = LOAD_VEC(x + j * VEC_LANES) - shift; N(vecs_exp_of_any)(v)
#define ROW_BLOCK_LANES (FG_BLOCK * VEC_LANES)
#endif
/* sum of exp(x - shift) */
static inline double N(row_exp_sum)(const T *x, T shift, int64_t n) {
    double total = 0;
#ifdef FG_VEC_BLOCKS_H
    for (int64_t b = 0; b < n; b += ROW_BLOCK) {
        const int64_t e = n - b < ROW_BLOCK ? n : b + ROW_BLOCK;
        N(vec) s[FG_BLOCK] = {{0}};
        T rest = 0;
        int64_t i = b;
        for (; i + ROW_BLOCK_LANES <= e; i += ROW_BLOCK_LANES) { ROW_EXP_BLOCK(v); FG_EACH(FG_BLOCK) s[j] += v[j]; }
        for (; i + VEC_LANES <= e; i += VEC_LANES) s[0] += N(vec_exp)(LOAD_VEC(x) - shift);
        for (; i < e; i++) rest += N(row_exp)(x[i] - shift);
        total += (double)(N(vec_sum)((s[0] + s[1]) + (s[2] + s[3])) + rest);
    }
#else
    #define TERM(L) L##_EXP(L(x) - shift)
    ROW_SUM(total, n, TERM);
    #undef TERM
#endif
    return total;
}

/* sum of exp(x - shift) * t */
static inline double N(row_exp_dot)(const T *x, T shift, const T *t, int64_t n) {
    double total = 0;
    #define TERM(L) (L##_EXP(L(x) - shift) * L(t))
    ROW_SUM(total, n, TERM);
    #undef TERM
    return total;
}

/* y = exp(x - shift); returns the sum */
static inline T N(row_exp_to)(T *y, const T *x, T shift, int64_t n) {
    N(vec) s0 = {0}, s1 = {0};
    T s = 0;
    int64_t i = 0;
#ifdef FG_VEC_BLOCKS_H
    for (; i + ROW_BLOCK_LANES <= n; i += ROW_BLOCK_LANES) {
        ROW_EXP_BLOCK(v);
        FG_EACH(FG_BLOCK) *(N(vec_at) *)(y + i + j * VEC_LANES) = v[j];
        s0 += v[0] + v[2]; s1 += v[1] + v[3];
    }
#endif
    for (; i + 2 * VEC_LANES <= n; i += 2 * VEC_LANES) {
        N(vec) a = N(vec_exp)(LOAD_VEC(x) - shift), b = N(vec_exp)(LOAD_VEC(x + VEC_LANES) - shift);
        *(N(vec_at) *)(y + i) = a; *(N(vec_at) *)(y + i + VEC_LANES) = b;
        s0 += a; s1 += b;
    }
    for (; i + VEC_LANES <= n; i += VEC_LANES) { N(vec) a = N(vec_exp)(LOAD_VEC(x) - shift); *(N(vec_at) *)(y + i) = a; s0 += a; }
    for (; i < n; i++) { T a = N(row_exp)(x[i] - shift); y[i] = a; s += a; }
    return N(vec_sum)(s0 + s1) + s;
}

/* y = exp(x - shift) * scale */
static inline void N(row_exp_times)(T *y, const T *x, T shift, T scale, int64_t n) {
    int64_t i = 0;
#ifdef FG_VEC_BLOCKS_H
    for (; i + ROW_BLOCK_LANES <= n; i += ROW_BLOCK_LANES) { ROW_EXP_BLOCK(v); FG_EACH(FG_BLOCK) *(N(vec_at) *)(y + i + j * VEC_LANES) = v[j] * scale; }
#endif
    for (; i + VEC_LANES <= n; i += VEC_LANES) *(N(vec_at) *)(y + i) = N(vec_exp)(LOAD_VEC(x) - shift) * scale;
    for (; i < n; i++) y[i] = N(row_exp)(x[i] - shift) * scale;
}

#ifdef __AVX512F__
/* Rows of at most a vector, in one: what lies behind them is `fill`. */
FG_INLINE unsigned N(row_lanes)(int64_t n) { return (1u << n) - 1; }
FG_INLINE N(vec) N(row_part)(const T *x, int64_t n, T fill) {
    const N(vec) all = (N(vec)){0} + fill;
    return sizeof(T) == 4 ? (N(vec))_mm512_mask_loadu_ps((__m512)all, (__mmask16)N(row_lanes)(n), x)
                          : (N(vec))_mm512_mask_loadu_pd((__m512d)all, (__mmask8)N(row_lanes)(n), x);
}
FG_INLINE N(vec) N(row_keep)(N(vec) v, int64_t n) {
    return sizeof(T) == 4 ? (N(vec))_mm512_maskz_mov_ps((__mmask16)N(row_lanes)(n), (__m512)v)
                          : (N(vec))_mm512_maskz_mov_pd((__mmask8)N(row_lanes)(n), (__m512d)v);
}
FG_INLINE T N(part_max)(N(vec) v) {                     /* NaN is passed over */
    const N(vec) none = (N(vec)){0} - (T)INFINITY;
    return sizeof(T) == 4 ? (T)_mm512_reduce_max_ps(_mm512_max_ps((__m512)v, (__m512)none)) : (T)_mm512_reduce_max_pd(_mm512_max_pd((__m512d)v, (__m512d)none));
}
FG_INLINE T N(part_sum)(N(vec) v) { return sizeof(T) == 4 ? (T)_mm512_reduce_add_ps((__m512)v) : (T)_mm512_reduce_add_pd((__m512d)v); }
FG_INLINE void N(part_store)(T *y, int64_t n, N(vec) v) {
    if (sizeof(T) == 4) _mm512_mask_storeu_ps(y, (__mmask16)N(row_lanes)(n), (__m512)v);
    else _mm512_mask_storeu_pd(y, (__mmask8)N(row_lanes)(n), (__m512d)v);
}
#endif

/* The largest element m and the sum of exp(x - m), in one pass over memory: a block's maximum rescales what came before.
 * Where m is infinite the sum is of exp(x), so that base + log(sum) is right for rows of all -inf and rows with +inf. */
static inline double N(row_max_expsum)(const T *x, int64_t n, T *m_out) {
    T m = -INFINITY, base = 0;
    double total = 0;
#ifdef __AVX512F__
    if (n <= VEC_LANES) {
        const N(vec) v = N(row_part)(x, n, -INFINITY);
        *m_out = m = N(part_max)(v);
        return (double)N(part_sum)(N(row_keep)(N(vec_exp)(v - (m - m == 0 ? m : 0)), n));
    }
#endif
    for (int64_t b = 0; b < n; b += ROW_BLOCK) {
        int64_t len = n - b < ROW_BLOCK ? n - b : ROW_BLOCK;
        T bm = N(row_max)(x + b, len);
        if (bm > m) {
            total *= (double)N(row_exp)(m - bm);
            m = bm;
            base = m == INFINITY ? 0 : m;
        }
        total += N(row_exp_sum)(x + b, base, len);
    }
    *m_out = m;
    return total;
}
