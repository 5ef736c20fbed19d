/* Stages that load, store and round 16-bit floats. Part of vm_strip.h. */
#ifndef FG_VM_STRIP_HALVES_H
#define FG_VM_STRIP_HALVES_H

/* 16-bit floats as lanes of float32, rounded as vm_store_f16 and vm_store_bf16 do it; no instruction set that widens them: no stages. */
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define FG_HALVES 1
typedef __m256i fg_halves;
#define FG_HALVES_AT(p) _mm256_loadu_si256((const __m256i *)(p))
#define FG_HALVES_TO(p, h) _mm256_storeu_si256((__m256i *)(p), h)
#define FG_WIDE_f16(h) (fg_m_i32)_mm512_cvtph_ps(h)
#define FG_WIDE_bf16(h) (fg_m_i32)_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16)
#define FG_HALF_f16(v) _mm512_cvtps_ph((__m512)(v), _MM_FROUND_TO_NEAREST_INT)
#define FG_LOW_HALVES(v) _mm512_cvtepi32_epi16((__m512i)(v))
#elif defined(__AVX2__) && defined(__F16C__)
#define FG_HALVES 1
typedef __m128i fg_halves;
#define FG_HALVES_AT(p) _mm_loadu_si128((const __m128i *)(p))
#define FG_HALVES_TO(p, h) _mm_storeu_si128((__m128i *)(p), h)
#define FG_WIDE_f16(h) (fg_m_i32)_mm256_cvtph_ps(h)
#define FG_WIDE_bf16(h) (fg_m_i32)_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16)
#define FG_HALF_f16(v) _mm256_cvtps_ph((__m256)(v), _MM_FROUND_TO_NEAREST_INT)
#define FG_LOW_HALVES(v) ({ __m256i l_ = (__m256i)(v); _mm_packus_epi32(_mm256_castsi256_si128(l_), _mm256_extracti128_si256(l_, 1)); })
#else
#define FG_HALVES 0
#endif
#if FG_HALVES
static inline fg_halves fg_round_bf16(fg_m_i32 v) {      /* half of the last bit kept, or less by one where that is even, carries over */
    const fg_w_u32 u = (fg_w_u32)v, up = (u + 0x7fff + (u >> 16 & 1)) >> 16, quiet = u >> 16 | 0x40;
    const fg_m_i32 nan = (v & INT32_MAX) > 0x7f800000;
    return FG_LOW_HALVES(((fg_m_i32)up & ~nan) | ((fg_m_i32)quiet & nan));
}
#define FG_HALF_bf16(v) fg_round_bf16(v)
#define FG_WIDE_LOAD(t, k) r##k = FG_WIDE_##t(FG_HALVES_AT(p + k * FG_VEC / 4));
#define FG_HALF_STORE(t, k) FG_HALVES_TO(p + k * FG_VEC / 4, FG_HALF_##t(r##k));
#define FG_HALF_ROUND(t, k) r##k = FG_WIDE_##t(FG_HALF_##t(r##k)); FG_SETTLE(r##k)
#define FG_HALF_STAGES(t) \
    static void stage_load_##t(FG_STAGE_ARGS) { const uint16_t *p = (const uint16_t *)(ptr[s->a] + ((at & s->move_a) >> 1)); \
        FG_OF_EIGHT(FG_WIDE_LOAD, t) FG_NEXT } \
    static void stage_store_##t(FG_STAGE_ARGS) { uint16_t *p = (uint16_t *)(ptr[s->a] + ((at & s->move_a) >> 1)); \
        FG_FAST_##t(FG_HALF_STORE) FG_OF_EIGHT(FG_HALF_STORE, t) FG_NEXT } \
    static void stage_round_##t##_V_f32(FG_STAGE_ARGS) { FG_FAST_##t(FG_HALF_ROUND) FG_OF_EIGHT(FG_HALF_ROUND, t) FG_NEXT }
#define FG_FAST_f16(M)
#ifdef __AVX512BF16__                                    /* the machine's own rounding takes subnormal numbers for 0 */
#define FG_HALF_machine(v) (__m256i)_mm512_cvtneps_pbh((__m512)(v))
#define FG_WIDE_machine(h) FG_WIDE_bf16(h)
#define FG_TINY(k) tiny |= _mm512_fpclass_ps_mask((__m512)r##k, 0x20);
#define FG_FAST_bf16(M) { __mmask16 tiny = 0; FG_EIGHT(FG_TINY) \
    if (__builtin_expect(!tiny, 1)) { FG_OF_EIGHT(M, machine) s[1].fn(s + 1, ptr, at, r0, r1, r2, r3, r4, r5, r6, r7); return; } }
#else
#define FG_FAST_bf16(M)
#endif
FG_HALF_STAGES(f16) FG_HALF_STAGES(bf16)
static const FgStageFn fg_half_loads[2] = {stage_load_f16, stage_load_bf16}, fg_half_stores[2] = {stage_store_f16, stage_store_bf16};
#define FG_HALVES_ONE(M, t) M(round_f16, t) M(round_bf16, t)
#else
static const FgStageFn fg_half_loads[2] = {0}, fg_half_stores[2] = {0};
#define FG_HALVES_ONE(M, t)
#endif
#endif
