/* Masks, lanes of all bits or none, as bytes of 1 and 0. GCC converts vectors to narrower ones number by number where no instruction does it
 * at once, as those of AVX-512 do. */
#ifndef FG_MASK_BYTES_H
#define FG_MASK_BYTES_H
#include <stdint.h>
#include <string.h>
#if defined(__SSSE3__) && !defined(__AVX512F__)
#define FG_MASK_PACKS 1
#include <immintrin.h>
/* A mask of `bytes`, 16 or 32, whose lanes have `item`, 4 or 8: bytes / item bytes are written. */
static inline __attribute__((always_inline)) void fg_mask_bytes(void *to, const void *mask, int bytes, int item) {
    const __m128i x = _mm_loadu_si128((const __m128i *)mask), y = bytes == 32 ? _mm_loadu_si128((const __m128i *)mask + 1) : x;
    __m128i b = item == 8 ? _mm_castps_si128(_mm_shuffle_ps(_mm_castsi128_ps(x), _mm_castsi128_ps(y), 0x88)) : _mm_packs_epi32(x, y);
    b = item == 8 ? _mm_packs_epi32(b, b) : b;
    b = _mm_abs_epi8(_mm_packs_epi16(b, b));
    memcpy(to, &b, bytes / item);
}
#else
#define FG_MASK_PACKS 0
#endif
#endif
