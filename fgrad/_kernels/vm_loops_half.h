/* The VM's conversions between float32 and 16-bit floats. Part of vm_loops.h. */
#ifndef FG_VM_LOOPS_HALF_H
#define FG_VM_LOOPS_HALF_H
/* float32 <-> 16-bit floats: the machine's conversions where it has them, else branch-free integer arithmetic */
#ifdef __F16C__
#include <immintrin.h>
static inline float fg_h2f(uint16_t h) { return _cvtsh_ss(h); }
static inline uint16_t fg_f2h(float f) { return _cvtss_sh(f, 0); }
static void vm_load_f16(int64_t n, float *d, const uint16_t *a) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(a + i))));
    for (; i < n; i++) d[i] = fg_h2f(a[i]);
}
static void vm_store_f16(int64_t n, uint16_t *d, const float *a) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) _mm_storeu_si128((__m128i *)(d + i), _mm256_cvtps_ph(_mm256_loadu_ps(a + i), 0));
    for (; i < n; i++) d[i] = fg_f2h(a[i]);
}
FG_SIG(round_f16, f32) {
    float *d = (float *)d_; const float *a = (const float *)a_; int64_t i = 0; (void)b_; (void)c_;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_loadu_ps(a + i), 0)));
    for (; i < n; i++) d[i] = fg_h2f(fg_f2h(a[i]));
}
#else
#if defined(__aarch64__)
static inline float fg_h2f(uint16_t h) { __fp16 v; memcpy(&v, &h, 2); return (float)v; }
static inline uint16_t fg_f2h(float f) { __fp16 v = (__fp16)f; uint16_t h; memcpy(&h, &v, 2); return h; }
#else
#define fg_h2f fg_f16_to_f32
#define fg_f2h fg_f32_to_f16
#endif
static void vm_load_f16(int64_t n, float *d, const uint16_t *a) { FG_SIMD for (int64_t i = 0; i < n; i++) d[i] = fg_h2f(a[i]); }
static void vm_store_f16(int64_t n, uint16_t *d, const float *a) { FG_SIMD for (int64_t i = 0; i < n; i++) d[i] = fg_f2h(a[i]); }
VM_UN(round_f16, f32, float, float, fg_h2f(fg_f2h(x)))
#endif
static void vm_load_bf16(int64_t n, float *d, const uint16_t *a) { FG_SIMD for (int64_t i = 0; i < n; i++) d[i] = fg_bf16_to_f32(a[i]); }
#if defined(__AVX512BF16__) && defined(__AVX512DQ__)
/* The machine's own rounding takes subnormal numbers for 0: vectors with one are rounded as integers. */
#define FG_SUBNORMAL(v) __builtin_expect(_mm512_fpclass_ps_mask(v, 0x20) != 0, 0)
static void vm_store_bf16(int64_t n, uint16_t *d, const float *a) {
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const __m512 x = _mm512_loadu_ps(a + i), y = _mm512_loadu_ps(a + i + 16);
        if (FG_SUBNORMAL(x) || FG_SUBNORMAL(y)) for (int64_t j = i; j < i + 32; j++) d[j] = fg_f32_to_bf16(a[j]);
        else _mm512_storeu_si512(d + i, (__m512i)_mm512_cvtne2ps_pbh(y, x));
    }
    for (; i < n; i++) d[i] = fg_f32_to_bf16(a[i]);
}
static void vm_round_bf16_f32(int64_t n, void *d_, const void *a_, const void *b_, const void *c_) {
    float *d = (float *)d_; const float *a = (const float *)a_; int64_t i = 0; (void)b_; (void)c_;
    for (; i + 16 <= n; i += 16) {
        const __m512 x = _mm512_loadu_ps(a + i);
        if (FG_SUBNORMAL(x)) for (int64_t j = i; j < i + 16; j++) d[j] = fg_bf16_to_f32(fg_f32_to_bf16(a[j]));
        else _mm512_storeu_si512(d + i, _mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x)), 16));
    }
    for (; i < n; i++) d[i] = fg_bf16_to_f32(fg_f32_to_bf16(a[i]));
}
#undef FG_SUBNORMAL
#elif defined(__AVX2__) && !defined(__AVX512F__)
/* Rounded in integers, but for vectors with NaN: that those differ costs as much as all else if it is asked of each number. */
static inline __m256i fg_rounded_up(__m256i u) {
    return _mm256_add_epi32(u, _mm256_add_epi32(_mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1)), _mm256_set1_epi32(0x7fff)));
}
#define FG_ANY_NAN_OF(x, y) __builtin_expect(_mm256_movemask_ps(_mm256_cmp_ps(x, y, _CMP_UNORD_Q)) != 0, 0)
static void vm_store_bf16(int64_t n, uint16_t *d, const float *a) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m256 x = _mm256_loadu_ps(a + i), y = _mm256_loadu_ps(a + i + 8);
        if (FG_ANY_NAN_OF(x, y)) { for (int64_t j = i; j < i + 16; j++) d[j] = fg_f32_to_bf16(a[j]); continue; }
        const __m256i u = _mm256_srli_epi32(fg_rounded_up((__m256i)x), 16), v = _mm256_srli_epi32(fg_rounded_up((__m256i)y), 16);
        _mm256_storeu_si256((__m256i *)(d + i), _mm256_permute4x64_epi64(_mm256_packus_epi32(u, v), 0xd8));
    }
    for (; i < n; i++) d[i] = fg_f32_to_bf16(a[i]);
}
static void vm_round_bf16_f32(int64_t n, void *d_, const void *a_, const void *b_, const void *c_) {
    float *d = (float *)d_; const float *a = (const float *)a_; int64_t i = 0; (void)b_; (void)c_;
    const __m256i upper = _mm256_set1_epi32(-65536);
    for (; i + 16 <= n; i += 16) {
        const __m256 x = _mm256_loadu_ps(a + i), y = _mm256_loadu_ps(a + i + 8);
        if (FG_ANY_NAN_OF(x, y)) { for (int64_t j = i; j < i + 16; j++) d[j] = fg_bf16_to_f32(fg_f32_to_bf16(a[j])); continue; }
        _mm256_storeu_ps(d + i, (__m256)_mm256_and_si256(fg_rounded_up((__m256i)x), upper));
        _mm256_storeu_ps(d + i + 8, (__m256)_mm256_and_si256(fg_rounded_up((__m256i)y), upper));
    }
    for (; i < n; i++) d[i] = fg_bf16_to_f32(fg_f32_to_bf16(a[i]));
}
#undef FG_ANY_NAN_OF
#else
static void vm_store_bf16(int64_t n, uint16_t *d, const float *a) { FG_SIMD for (int64_t i = 0; i < n; i++) d[i] = fg_f32_to_bf16(a[i]); }
VM_UN(round_bf16, f32, float, float, fg_bf16_to_f32(fg_f32_to_bf16(x)))
#endif
#endif
