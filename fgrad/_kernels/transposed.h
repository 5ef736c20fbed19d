/* Square blocks of items, transposed on their way from memory to memory. */
#ifndef FG_TRANSPOSED_H
#define FG_TRANSPOSED_H
#include <stdint.h>

/* N x N items transposed in vector registers: log2 N rounds that interleave row i with row i + N / 2.  The vectors are as
 * wide as the instruction set makes one-instruction shuffles. */
#define FG_LO2 0, 2
#define FG_HI2 1, 3
#define FG_LO4 0, 4, 1, 5
#define FG_HI4 2, 6, 3, 7
#define FG_LO8 0, 8, 1, 9, 2, 10, 3, 11
#define FG_HI8 4, 12, 5, 13, 6, 14, 7, 15
#define FG_LO16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define FG_HI16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define FG_TRANSPOSER(T, U, N, LO, HI) \
static inline void fg_transpose_##T(char *dst, const char *src, int64_t sb, int64_t da) { \
    typedef U V __attribute__((vector_size(N * sizeof(U)), aligned(sizeof(U) > 4 ? 4 : sizeof(U)), may_alias)); \
    V r[N], q[N]; \
    for (int i = 0; i < N; i++) r[i] = *(const V *)(src + i * sb); \
    for (int s = 1; s < N; s *= 2) { \
        for (int i = 0; i < N / 2; i++) { \
            q[2 * i] = __builtin_shufflevector(r[i], r[i + N / 2], LO); \
            q[2 * i + 1] = __builtin_shufflevector(r[i], r[i + N / 2], HI); \
        } \
        for (int i = 0; i < N; i++) r[i] = q[i]; \
    } \
    for (int i = 0; i < N; i++) *(V *)(dst + i * da) = r[i]; \
} \
enum { fg_transpose_side_##T = N };

FG_TRANSPOSER(fg_item1, uint8_t, 16, FG_LO16, FG_HI16)
#ifdef __AVX512BW__
FG_TRANSPOSER(fg_item2, uint16_t, 16, FG_LO16, FG_HI16)
FG_TRANSPOSER(fg_item4, uint32_t, 16, FG_LO16, FG_HI16)
FG_TRANSPOSER(fg_item8, uint64_t, 8, FG_LO8, FG_HI8)
#elif defined(__AVX2__)
FG_TRANSPOSER(fg_item2, uint16_t, 8, FG_LO8, FG_HI8)
FG_TRANSPOSER(fg_item4, uint32_t, 8, FG_LO8, FG_HI8)
FG_TRANSPOSER(fg_item8, uint64_t, 4, FG_LO4, FG_HI4)
#else
FG_TRANSPOSER(fg_item2, uint16_t, 8, FG_LO8, FG_HI8)
FG_TRANSPOSER(fg_item4, uint32_t, 4, FG_LO4, FG_HI4)
FG_TRANSPOSER(fg_item8, uint64_t, 2, FG_LO2, FG_HI2)
#endif
#endif
