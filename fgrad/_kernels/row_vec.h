/* Vectors of the type T for the row kernels: loads, lanes, exp.  Included once per type, after row_math.h. */
#ifndef FG_VEC
#ifdef __AVX512F__
#include <immintrin.h>
#define FG_VEC 64                       /* bytes of a vector: what the machine's registers hold */
#elif defined(__AVX__)
#define FG_VEC 32
#else
#define FG_VEC 16
#endif
typedef int32_t fg_lanes_f32 __attribute__((vector_size(FG_VEC)));
typedef int64_t fg_lanes_f64 __attribute__((vector_size(FG_VEC)));
typedef float vec_f32 __attribute__((vector_size(FG_VEC)));
typedef double vec_f64 __attribute__((vector_size(FG_VEC)));

/* a > b ? a : b, so b where either is NaN */
#ifdef __AVX512F__
FG_INLINE vec_f32 vec_max_f32(vec_f32 a, vec_f32 b) { return (vec_f32)_mm512_max_ps((__m512)a, (__m512)b); }
FG_INLINE vec_f64 vec_max_f64(vec_f64 a, vec_f64 b) { return (vec_f64)_mm512_max_pd((__m512d)a, (__m512d)b); }
FG_INLINE vec_f32 vec_min_f32(vec_f32 a, vec_f32 b) { return (vec_f32)_mm512_min_ps((__m512)a, (__m512)b); }
FG_INLINE vec_f64 vec_min_f64(vec_f64 a, vec_f64 b) { return (vec_f64)_mm512_min_pd((__m512d)a, (__m512d)b); }
/* p 2^k for a whole k */
FG_INLINE vec_f32 vec_scale_f32(vec_f32 p, vec_f32 k) { return (vec_f32)_mm512_scalef_ps((__m512)p, (__m512)k); }
FG_INLINE vec_f64 vec_scale_f64(vec_f64 p, vec_f64 k) { return (vec_f64)_mm512_scalef_pd((__m512d)p, (__m512d)k); }
#else
#define FG_PICK_LANES(t, m, a, b) ((vec_##t)(((fg_lanes_##t)(a) & (m)) | ((fg_lanes_##t)(b) & ~(m))))
FG_INLINE vec_f32 vec_max_f32(vec_f32 a, vec_f32 b) { fg_lanes_f32 m = a > b; return FG_PICK_LANES(f32, m, a, b); }
FG_INLINE vec_f64 vec_max_f64(vec_f64 a, vec_f64 b) { fg_lanes_f64 m = a > b; return FG_PICK_LANES(f64, m, a, b); }
FG_INLINE vec_f32 vec_min_f32(vec_f32 a, vec_f32 b) { fg_lanes_f32 m = a < b; return FG_PICK_LANES(f32, m, a, b); }
FG_INLINE vec_f64 vec_min_f64(vec_f64 a, vec_f64 b) { fg_lanes_f64 m = a < b; return FG_PICK_LANES(f64, m, a, b); }
/* p 2^k for a whole k, in two factors: results underflow gradually, with one rounding */
FG_INLINE vec_f32 vec_scale_f32(vec_f32 p, vec_f32 k) {
    const vec_f32 magic = (vec_f32){0} + 12582912.0f;
    fg_lanes_f32 n = (fg_lanes_f32)(k + magic) - (fg_lanes_f32)magic, half = n >> 1;
    return p * (vec_f32)((half + 127) << 23) * (vec_f32)((n - half + 127) << 23);
}
FG_INLINE vec_f64 vec_scale_f64(vec_f64 p, vec_f64 k) {
    const vec_f64 magic = (vec_f64){0} + 6755399441055744.0, h = (k * 0.5 + magic) - magic;
    fg_lanes_f64 half = (fg_lanes_f64)(h + (magic + 1023)), rest = (fg_lanes_f64)((k - h) + (magic + 1023));
    return p * (vec_f64)(half << 52) * (vec_f64)(rest << 52);
}
#undef FG_PICK_LANES
#endif

/* row_exp_f32 and row_exp_f64, lane by lane and bit by bit */
FG_INLINE vec_f32 vec_exp_f32(vec_f32 x) {
    x = vec_max_f32((vec_f32){0} - 105.0f, x);
    x = vec_min_f32((vec_f32){0} + 90.0f, x);
    vec_f32 k = (x * 1.44269504088896341f + 12582912.0f) - 12582912.0f;
    vec_f32 r = x - k * 0.693145751953125f;
    r = r - k * 1.42860682031e-6f;
    vec_f32 q = r * 0.001392625083f + 0.008363232884f;
    q = q * r + 0.04166655421f;
    q = q * r + 0.1666657667f;
    q = q * r + 0.5f;
    return vec_scale_f32(1.0f + (r + r * r * q), k);
}
FG_INLINE vec_f64 vec_exp_f64(vec_f64 x) {
    x = vec_max_f64((vec_f64){0} - 746.0, x);
    x = vec_min_f64((vec_f64){0} + 710.0, x);
    vec_f64 k = (x * 1.4426950408889634074 + 6755399441055744.0) - 6755399441055744.0;
    vec_f64 r = x - k * 0.6931471805596629565116;
    r = r - k * 2.8235290563031577123e-13;
    vec_f64 q = r * 2.5100472505694996e-8 + 2.76202015910315488e-7;
    q = q * r + 2.75572682769056962e-6;
    q = q * r + 0.0000248015210578682052;
    q = q * r + 0.00019841269863171556;
    q = q * r + 0.00138888889173670806;
    q = q * r + 0.0083333333333300382;
    q = q * r + 0.0416666666666238205;
    q = q * r + 0.166666666666666675;
    q = q * r + 0.500000000000000103;
    return vec_scale_f64(1.0 + (r + r * r * q), k);
}

/* A term is written for a load L, which takes the lanes of a vector, or one element, from index i on; EXP(L) is its exp. */
#define LOAD_VEC(p) (*(const N(vec_at) *)((p) + i))
#define LOAD_ONE(p) ((p)[i])
#define LOAD_VEC_EXP(v) N(vec_exp)(v)
#define LOAD_ONE_EXP(v) N(row_exp)(v)
/* The double `total` grows by the sum of TERM over n elements: four chains hide the latency of the additions. */
#define ROW_SUM(total, n, TERM) do { \
    int64_t i = 0; \
    while (i < (n)) { \
        int64_t e_ = (n) - i < ROW_BLOCK ? (n) : i + ROW_BLOCK; \
        N(vec) s0_ = {0}, s1_ = {0}, s2_ = {0}, s3_ = {0}; \
        T rest_ = 0; \
        while (i + 4 * VEC_LANES <= e_) { \
            s0_ += TERM(LOAD_VEC); i += VEC_LANES; \
            s1_ += TERM(LOAD_VEC); i += VEC_LANES; \
            s2_ += TERM(LOAD_VEC); i += VEC_LANES; \
            s3_ += TERM(LOAD_VEC); i += VEC_LANES; \
        } \
        for (; i + VEC_LANES <= e_; i += VEC_LANES) s0_ += TERM(LOAD_VEC); \
        for (; i < e_; i++) rest_ += TERM(LOAD_ONE); \
        (total) += (double)(N(vec_sum)((s0_ + s1_) + (s2_ + s3_)) + rest_); \
    } \
} while (0)
#define VEC_LANES ((int64_t)(FG_VEC / sizeof(T)))
#endif

typedef T N(vec_at) __attribute__((vector_size(FG_VEC), aligned(sizeof(T)), may_alias));    /* anywhere in memory */

/* Lanes are added, and compared, by halves. */
static inline T N(vec_sum)(N(vec) v) {
    T a[FG_VEC / sizeof(T)];
    memcpy(a, &v, sizeof a);
    for (int h = FG_VEC / sizeof(T) / 2; h; h /= 2) for (int j = 0; j < h; j++) a[j] += a[j + h];
    return a[0];
}
static inline T N(vec_largest)(N(vec) v) {
    T a[FG_VEC / sizeof(T)];
    memcpy(a, &v, sizeof a);
    for (int h = FG_VEC / sizeof(T) / 2; h; h /= 2) {
        #pragma omp simd
        for (int j = 0; j < h; j++) { T p = a[j], q = a[j + h]; a[j] = p > q ? p : q; }
    }
    return a[0];
}
