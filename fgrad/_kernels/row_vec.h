/* Loads, lanes and sums of vectors of the type T for the row kernels.  Included once per type. */
#include "vec.h"
#ifndef LOAD_VEC
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
