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
#ifdef __AVX2__
/* Of four masks of eight lanes each. */
static inline __m256i fg_four_masks_bytes(__m256i a, __m256i b, __m256i c, __m256i d) {
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));      /* each half has the halves of all four */
    return _mm256_abs_epi8(_mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
}
#endif
#else
#define FG_MASK_PACKS 0
#endif
#endif
