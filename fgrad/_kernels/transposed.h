/* Square blocks of items, transposed on their way from memory to memory. */
#ifndef FG_TRANSPOSED_H
#define FG_TRANSPOSED_H
#include <stdint.h>
#include "square.h"

/* fg_transpose_T: N rows of N items, sb bytes apart, to columns, da bytes apart.  The vectors are as wide as the instruction set makes
 * one-instruction shuffles. */
#define FG_TRANSPOSER(T, U, N) \
typedef U fg_square_vec_##T __attribute__((vector_size(N * sizeof(U)), aligned(sizeof(U) > 4 ? 4 : sizeof(U)), may_alias)); \
FG_SQUARE(T, fg_square_vec_##T, N) \
static inline void fg_transpose_##T(char *dst, const char *src, int64_t sb, int64_t da) { \
    fg_square_vec_##T r[N]; \
    for (int i = 0; i < N; i++) r[i] = *(const fg_square_vec_##T *)(src + i * sb); \
    fg_square_##T(r); \
    for (int i = 0; i < N; i++) *(fg_square_vec_##T *)(dst + i * da) = r[i]; \
} \
enum { fg_transpose_side_##T = N };

FG_TRANSPOSER(fg_item1, uint8_t, 16)
#ifdef __AVX512BW__
FG_TRANSPOSER(fg_item2, uint16_t, 16)
FG_TRANSPOSER(fg_item4, uint32_t, 16)
FG_TRANSPOSER(fg_item8, uint64_t, 8)
#elif defined(__AVX2__)
FG_TRANSPOSER(fg_item2, uint16_t, 8)
FG_TRANSPOSER(fg_item4, uint32_t, 8)
FG_TRANSPOSER(fg_item8, uint64_t, 4)
#else
FG_TRANSPOSER(fg_item2, uint16_t, 8)
FG_TRANSPOSER(fg_item4, uint32_t, 4)
FG_TRANSPOSER(fg_item8, uint64_t, 2)
#endif
#endif
