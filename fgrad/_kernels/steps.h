/* Every second, third or fourth element of a row, side by side: whole vectors of the row and permutations of two of them, where a loop of
 * elements loads and inserts one at a time. */
#ifndef FG_STEPS_H
#define FG_STEPS_H
#include <stdint.h>

#if defined(__AVX512VBMI__)
#define FG_STEP_VEC_1 64
#else
#define FG_STEP_VEC_1 0                 /* no permutation of bytes: the compiler's own loop */
#endif
#if defined(__AVX512BW__)
#define FG_STEP_VEC_2 64
#else
#define FG_STEP_VEC_2 0
#endif
#if defined(__AVX512F__)
#define FG_STEP_VEC_4 64
#define FG_STEP_VEC_8 64
#elif defined(__AVX2__)
#define FG_STEP_VEC_4 32
#define FG_STEP_VEC_8 32
#else
#define FG_STEP_VEC_4 0
#define FG_STEP_VEC_8 0
#endif

/* d[j] = s[j * step], the plain loop by a constant step */
#define FG_STEP_LOOP(W, T, N) \
static inline void fg_step##N##_##W(T *d, const T *s, int64_t n) { for (int64_t j = 0; j < n; j++) d[j] = s[j * N]; }

/* lanes 0, 1, ... of a permutation: the result's lane j is element j * N of a row, in vector j * N / L of it; `v` is the k-th vector and
 * `x` has what lies in those before it, or is the first one */
#define FG_STEP_LANE(j, N, L, k) ((j) * N / L == k ? L + (j) * N % L : k == 1 && (j) * N / L == 0 ? (j) * N : (j))
#define FG_STEP_4(M, j, ...) M(j, __VA_ARGS__), M(j + 1, __VA_ARGS__), M(j + 2, __VA_ARGS__), M(j + 3, __VA_ARGS__)
#define FG_STEP_LANES_4(N, L, k) FG_STEP_4(FG_STEP_LANE, 0, N, L, k)
#define FG_STEP_LANES_8(N, L, k) FG_STEP_4(FG_STEP_LANE, 0, N, L, k), FG_STEP_4(FG_STEP_LANE, 4, N, L, k)
#define FG_STEP_16(j, N, L, k) FG_STEP_4(FG_STEP_LANE, j, N, L, k), FG_STEP_4(FG_STEP_LANE, j + 4, N, L, k), \
    FG_STEP_4(FG_STEP_LANE, j + 8, N, L, k), FG_STEP_4(FG_STEP_LANE, j + 12, N, L, k)
#define FG_STEP_LANES_16(N, L, k) FG_STEP_16(0, N, L, k)
#define FG_STEP_LANES_32(N, L, k) FG_STEP_16(0, N, L, k), FG_STEP_16(16, N, L, k)
#define FG_STEP_LANES_64(N, L, k) FG_STEP_LANES_32(N, L, k), FG_STEP_16(32, N, L, k), FG_STEP_16(48, N, L, k)

#define FG_STEP_NEXT(W, N, L, k) if (N > k) { \
    const fg_step_vec_##W y = *(const fg_step_at_##W *)(from + k * L); \
    x = __builtin_shufflevector(x, y, FG_STEP_LANES_##L(N, L, k)); \
}
/* whole vectors of the row end before the element behind the last one that is taken */
#define FG_STEP(W, T, N, L) \
static inline void fg_step##N##_##W(T *d, const T *s, int64_t n) { \
    int64_t j = 0; \
    for (; j + L < n; j += L) { \
        const T *from = s + j * N; \
        fg_step_vec_##W x = *(const fg_step_at_##W *)from; \
        FG_STEP_NEXT(W, N, L, 1) FG_STEP_NEXT(W, N, L, 2) FG_STEP_NEXT(W, N, L, 3) \
        *(fg_step_at_##W *)(d + j) = x; \
    } \
    for (; j < n; j++) d[j] = s[j * N]; \
}
#define FG_STEPS(W, T, L, B) \
typedef T fg_step_vec_##W __attribute__((vector_size(B))); \
typedef T fg_step_at_##W __attribute__((vector_size(B), aligned(1), may_alias)); \
FG_STEP(W, T, 2, L) FG_STEP(W, T, 3, L) FG_STEP(W, T, 4, L)
#define FG_STEP_LOOPS(W, T) FG_STEP_LOOP(W, T, 2) FG_STEP_LOOP(W, T, 3) FG_STEP_LOOP(W, T, 4)
#if FG_STEP_VEC_1
FG_STEPS(1, uint8_t, 64, 64)
#else
FG_STEP_LOOPS(1, uint8_t)
#endif
#if FG_STEP_VEC_2
FG_STEPS(2, uint16_t, 32, 64)
#else
FG_STEP_LOOPS(2, uint16_t)
#endif
#if FG_STEP_VEC_4 == 64
FG_STEPS(4, uint32_t, 16, 64)
FG_STEPS(8, uint64_t, 8, 64)
#elif FG_STEP_VEC_4 == 32
FG_STEPS(4, uint32_t, 8, 32)
FG_STEPS(8, uint64_t, 4, 32)
#else
FG_STEP_LOOPS(4, uint32_t)
FG_STEP_LOOPS(8, uint64_t)
#endif

/* Items of `size` bytes, `step` of them apart, side by side; 0 if there is no loop for them. */
static inline int fg_every(void *d, const void *s, int64_t size, int64_t step, int64_t n) {
    #define FG_EVERY_OF(W, T) case W: \
        if (step == 2) fg_step2_##W((T *)d, (const T *)s, n); \
        else if (step == 3) fg_step3_##W((T *)d, (const T *)s, n); \
        else fg_step4_##W((T *)d, (const T *)s, n); \
        return 1;
    if (step < 2 || step > 4) return 0;
    switch (size) { FG_EVERY_OF(1, uint8_t) FG_EVERY_OF(2, uint16_t) FG_EVERY_OF(4, uint32_t) FG_EVERY_OF(8, uint64_t) default: return 0; }
    #undef FG_EVERY_OF
}
#endif
