/* Rows of 16-bit floats to float32 and back. */
#ifndef FG_HALF_H
#define FG_HALF_H
#include "fg.h"
#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

/* Branch-free, so that it vectorises; no step has a denormal float32, which counts as zero (flush.h). */
static inline float fg_half(uint16_t h) {
    uint32_t em = h & 0x7fffu, s = (uint32_t)(h & 0x8000u) << 16, small, u;
    float f = (float)(int32_t)em * 5.9604644775390625e-8f;        /* 2^-24: of subnormal ones */
    memcpy(&small, &f, 4);
    u = (em << 13) + 0x38000000u;
    u = (em < 0x400u ? small : em >= 0x7c00u ? (em << 13) | 0x7f800000u : u) | s;
    memcpy(&f, &u, 4);
    return f;
}

/* 16 bits to float32. */
static inline void fg_widen16(int dtype, const uint16_t *restrict src, float *restrict dst, int64_t n) {
    int64_t i = 0;
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    for (; i < n; i += 16) {
        const __mmask16 rest = (__mmask16)(n - i < 16 ? (1u << (n - i)) - 1 : 0xffff);
        const __m256i h = _mm256_maskz_loadu_epi16(rest, src + i);
        const __m512i bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16);
        _mm512_mask_storeu_ps(dst + i, rest, dtype == FG_BF16 ? _mm512_castsi512_ps(bits) : _mm512_cvtph_ps(h));
    }
    return;
#endif
    if (dtype == FG_BF16) for (; i < n; i++) dst[i] = fg_bf16_to_f32(src[i]);
#ifdef __F16C__
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src + i))));
#endif
    for (; i < n; i++) dst[i] = fg_half(src[i]);
}

/* float32 to 16 bits, rounded as fg_f32_to_f16 and fg_f32_to_bf16 do it. */
static inline void fg_narrow16(int dtype, const float *restrict src, uint16_t *restrict dst, int64_t n) {
    int64_t i = 0;
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    for (; i < n; i += 16) {                                      /* short rows too are vectors */
        const __mmask16 rest = (__mmask16)(n - i < 16 ? (1u << (n - i)) - 1 : 0xffff);
        const __m512i u = _mm512_maskz_loadu_epi32(rest, src + i), high = _mm512_srli_epi32(u, 16), one = _mm512_set1_epi32(1);
        if (dtype == FG_BF16) {
            const __mmask16 nan = _mm512_cmpgt_epi32_mask(_mm512_and_epi32(u, _mm512_set1_epi32(0x7fffffff)), _mm512_set1_epi32(0x7f800000));
            __m512i v = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), _mm512_and_epi32(high, one)), 16);
            _mm512_mask_cvtepi32_storeu_epi16(dst + i, rest, _mm512_mask_or_epi32(v, nan, high, _mm512_set1_epi32(0x40)));
        } else _mm256_mask_storeu_epi16(dst + i, rest, _mm512_cvtps_ph(_mm512_castsi512_ps(u), _MM_FROUND_TO_NEAREST_INT));
    }
    return;
#endif
    if (dtype == FG_BF16) for (; i < n; i++) {
        uint32_t u; memcpy(&u, src + i, 4);
        uint32_t quiet = u >> 16 | 0x40u, rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
        dst[i] = (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
    }
#ifdef __F16C__
    for (; i + 8 <= n; i += 8) _mm_storeu_si128((__m128i *)(dst + i), _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++) dst[i] = fg_f32_to_f16(src[i]);
}
#endif
