/* Parts of vectors of some words of 4 bytes, with AVX2: loads by masks, and stores of what a mask would take 18 steps for. */
#ifndef FG_VEC_PART_H
#define FG_VEC_PART_H
#if defined(__AVX2__) && !defined(__AVX512F__)
#define FG_PART_BYTES 1
#include <immintrin.h>
#include <stdint.h>
static const int32_t fg_part_mask[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
static inline __m256 fg_load_bytes(const void *p, int bytes) {
    return _mm256_maskload_ps((const float *)p, _mm256_loadu_si256((const __m256i *)(fg_part_mask + 8 - bytes / 4)));
}
static inline void fg_store_bytes(void *p, int bytes, __m256 v) {
    char *to = (char *)p;
    __m128 x = _mm256_castps256_ps128(v);
    if (bytes & 16) { _mm_storeu_ps((float *)to, x); to += 16; x = _mm256_extractf128_ps(v, 1); }
    if (bytes & 8) { _mm_storel_pi((__m64 *)to, x); to += 8; x = _mm_movehl_ps(x, x); }
    if (bytes & 4) _mm_store_ss((float *)to, x);
}
#endif
#endif
