/* Loops over integers of 8 and 16 bits and unsigned ones of 32, with AVX2, which has no shifts and upper halves of products for their lanes, so that compilers
 * widen: shifts by as many numbers, and quotients by one divisor. Even and odd lanes stay where they are. Part of vm_loops_int.h. */
#ifndef FG_VEC_SMALL_INTS_H
#define FG_VEC_SMALL_INTS_H
#include "vec_quotient.h"
#ifdef FG_DIVISORS

/* Lanes of 16 bits, whose halves are bytes; and of 32. */
FG_INLINE __m256i fg_low_bytes(__m256i x) { return _mm256_and_si256(x, _mm256_set1_epi16(0xff)); }
FG_INLINE __m256i fg_bytes_of(__m256i even, __m256i odd) { return _mm256_or_si256(fg_low_bytes(even), _mm256_andnot_si256(_mm256_set1_epi16(0xff), odd)); }
FG_INLINE __m256i fg_pairs_of(__m256i even, __m256i odd) { return _mm256_blend_epi16(even, odd, 0xaa); }

/* Bytes are shifted by products with powers of two: TABLE has them for shifts of 0 to 15. */
#define FG_POWERS(TABLE) _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_setr_epi8 TABLE), _mm256_min_epu8(y, _mm256_set1_epi8(15)))
FG_INLINE __m256i fg_shl_u8(__m256i x, __m256i y) {
    const __m256i p = FG_POWERS((1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0));
    return fg_bytes_of(_mm256_mullo_epi16(x, fg_low_bytes(p)), _mm256_mullo_epi16(_mm256_andnot_si256(_mm256_set1_epi16(0xff), x), _mm256_srli_epi16(p, 8)));
}
#define FG_SHR_U8(TABLE, EVEN, ODD) \
    const __m256i p = FG_POWERS(TABLE); \
    return fg_bytes_of(_mm256_srli_epi16(_mm256_mullo_epi16(EVEN, fg_low_bytes(p)), 7), _mm256_slli_epi16(_mm256_mullo_epi16(ODD, _mm256_srli_epi16(p, 8)), 1));
FG_INLINE __m256i fg_shr_logical_u8(__m256i x, __m256i y) {
    FG_SHR_U8((-128, 64, 32, 16, 8, 4, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0), fg_low_bytes(x), _mm256_srli_epi16(x, 8))
}
FG_INLINE __m256i fg_shr_arith_u8(__m256i x, __m256i y) {
    FG_SHR_U8((-128, 64, 32, 16, 8, 4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1), _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8), _mm256_srai_epi16(x, 8))
}
#undef FG_SHR_U8
#undef FG_POWERS
/* Of 16 bits in lanes of 32, whose shifts by 32 and more give 0. */
FG_INLINE __m256i fg_low_pairs(__m256i x) { return _mm256_and_si256(x, _mm256_set1_epi32(0xffff)); }
FG_INLINE __m256i fg_shl_u16(__m256i x, __m256i y) {
    const __m256i high = _mm256_andnot_si256(_mm256_set1_epi32(0xffff), x);
    return fg_pairs_of(_mm256_sllv_epi32(x, fg_low_pairs(y)), _mm256_sllv_epi32(high, _mm256_srli_epi32(y, 16)));
}
FG_INLINE __m256i fg_shr_logical_u16(__m256i x, __m256i y) {
    return fg_pairs_of(_mm256_srlv_epi32(fg_low_pairs(x), fg_low_pairs(y)), _mm256_srlv_epi32(x, _mm256_srli_epi32(y, 16)));
}
FG_INLINE __m256i fg_shr_arith_u16(__m256i x, __m256i y) {
    y = _mm256_min_epu16(y, _mm256_set1_epi16(15));
    const __m256i low = _mm256_srai_epi32(_mm256_slli_epi32(x, 16), 16);
    return fg_pairs_of(_mm256_srav_epi32(low, fg_low_pairs(y)), _mm256_srav_epi32(x, _mm256_srli_epi32(y, 16)));
}

/* Quotients by one divisor other than 0, as in vec_quotient.h */
typedef struct { __m256i inverse, turn, by; __m128i first, second; } FgSmallDivisor;
FG_INLINE int fg_divisor_bits(uint32_t size) { return size < 2 ? 0 : 32 - __builtin_clz(size - 1); }
FG_INLINE FgSmallDivisor fg_divisor_of_i16(int16_t y) {
    const int32_t size = y < 0 ? -y : y, l = fg_divisor_bits(size), bits = l > 1 ? l : 1;
    return (FgSmallDivisor){_mm256_set1_epi16((int16_t)(1 + (1 << (15 + bits)) / size)), _mm256_set1_epi16(y < 0 ? -1 : 0), _mm256_set1_epi16(y),
                            _mm_cvtsi32_si128(bits - 1), _mm_setzero_si128()};
}
FG_INLINE __m256i fg_quotients_i16(__m256i x, FgSmallDivisor d) {
    const __m256i high = _mm256_add_epi16(_mm256_mulhi_epi16(x, d.inverse), x);
    const __m256i q = _mm256_sub_epi16(_mm256_sra_epi16(high, d.first), _mm256_srai_epi16(x, 15));
    return _mm256_sub_epi16(_mm256_xor_si256(q, d.turn), d.turn);
}
FG_INLINE FgSmallDivisor fg_divisor_of_u16(uint16_t y) {
    const int l = fg_divisor_bits(y), first = l < 1 ? l : 1;
    return (FgSmallDivisor){_mm256_set1_epi16((int16_t)((((uint32_t)1 << 16) * (((uint32_t)1 << l) - y)) / y + 1)), _mm256_setzero_si256(), _mm256_set1_epi16((int16_t)y),
                            _mm_cvtsi32_si128(first), _mm_cvtsi32_si128(l - first)};
}
FG_INLINE __m256i fg_quotients_u16(__m256i x, FgSmallDivisor d) {
    const __m256i high = _mm256_mulhi_epu16(x, d.inverse);
    return _mm256_srl_epi16(_mm256_add_epi16(high, _mm256_srl_epi16(_mm256_sub_epi16(x, high), d.first)), d.second);
}
FG_INLINE FgSmallDivisor fg_divisor_of_u32(uint32_t y) {
    const int l = fg_divisor_bits(y), first = l < 1 ? l : 1;
    return (FgSmallDivisor){_mm256_set1_epi64x((uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << l) - y)) / y + 1)), _mm256_setzero_si256(), _mm256_set1_epi32((int32_t)y),
                            _mm_cvtsi32_si128(first), _mm_cvtsi32_si128(l - first)};
}
FG_INLINE __m256i fg_quotients_u32(__m256i x, FgSmallDivisor d) {
    const __m256i even = _mm256_mul_epu32(x, d.inverse), odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), d.inverse);
    const __m256i high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    return _mm256_srl_epi32(_mm256_add_epi32(high, _mm256_srl_epi32(_mm256_sub_epi32(x, high), d.first)), d.second);
}
FG_INLINE __m256i fg_rests_i16(__m256i x, FgSmallDivisor d) { return _mm256_sub_epi16(x, _mm256_mullo_epi16(fg_quotients_i16(x, d), d.by)); }
FG_INLINE __m256i fg_rests_u16(__m256i x, FgSmallDivisor d) { return _mm256_sub_epi16(x, _mm256_mullo_epi16(fg_quotients_u16(x, d), d.by)); }
FG_INLINE __m256i fg_rests_u32(__m256i x, FgSmallDivisor d) { return _mm256_sub_epi32(x, _mm256_mullo_epi32(fg_quotients_u32(x, d), d.by)); }
/* bytes as numbers of 16 bits: -128 / -1 is 128, whose byte is -128 */
FG_INLINE FgSmallDivisor fg_divisor_of_i8(int8_t y) { return fg_divisor_of_i16(y); }
#define FG_OF_BYTES(f) fg_bytes_of(f(_mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8), d), _mm256_slli_epi16(f(_mm256_srai_epi16(x, 8), d), 8))
FG_INLINE __m256i fg_quotients_i8(__m256i x, FgSmallDivisor d) { return FG_OF_BYTES(fg_quotients_i16); }
FG_INLINE __m256i fg_rests_i8(__m256i x, FgSmallDivisor d) { return FG_OF_BYTES(fg_rests_i16); }
#undef FG_OF_BYTES

/* Loops over whole vectors; what is left goes by way of memory that has a whole one. */
#define VM_WHOLE(T, X, Y, result) \
    enum { L = 32 / sizeof(T) }; \
    for (; n >= L; n -= L, a += L, d += L) { const __m256i x = _mm256_loadu_si256((const __m256i *)(X)); Y _mm256_storeu_si256((__m256i *)d, result); }
#define VM_SHIFTED(name, t, U) \
    FG_SIG(name, t) { \
        U *d = (U *)d_, u[32 / sizeof(U)] = {0}, v[32 / sizeof(U)] = {0}; const U *a = (const U *)a_, *b = (const U *)b_; (void)c_; \
        VM_WHOLE(U, a, const __m256i y = _mm256_loadu_si256((const __m256i *)b); b += L;, fg_##name##_##t(x, y)) \
        if (n) { \
            memcpy(u, a, n * sizeof(U)); memcpy(v, b, n * sizeof(U)); \
            const __m256i r = fg_##name##_##t(_mm256_loadu_si256((const __m256i *)u), _mm256_loadu_si256((const __m256i *)v)); \
            _mm256_storeu_si256((__m256i *)u, r); memcpy(d, u, n * sizeof(U)); } } \
    FG_SIG(name##_first, t) { \
        U *d = (U *)d_, v[32 / sizeof(U)] = {0}; const U *a = (const U *)b_; const __m256i y_ = fg_spread_##t(*(const U *)a_); (void)c_; \
        VM_WHOLE(U, a, , fg_##name##_##t(y_, x)) \
        if (n) { \
            memcpy(v, a, n * sizeof(U)); \
            const __m256i r = fg_##name##_##t(y_, _mm256_loadu_si256((const __m256i *)v)); \
            _mm256_storeu_si256((__m256i *)v, r); memcpy(d, v, n * sizeof(U)); } }
#define fg_spread_u8(x) _mm256_set1_epi8((char)(x))
#define fg_spread_u16(x) _mm256_set1_epi16((short)(x))
#define VM_DIVIDED(t, T, name, f, ZERO) FG_SIG(name##_second, t) { \
    T *d = (T *)d_, u[32 / sizeof(T)] = {0}; const T *a = (const T *)a_, by = *(const T *)b_; (void)c_; \
    if (by == 0) { for (int64_t i = 0; i < n; i++) { const T x = a[i]; (void)x; d[i] = (T)(ZERO); } return; } \
    const FgSmallDivisor y = fg_divisor_of_##t(by); \
    VM_WHOLE(T, a, , f##_##t(x, y)) \
    if (n) { \
        memcpy(u, a, n * sizeof(T)); \
        const __m256i r = f##_##t(_mm256_loadu_si256((const __m256i *)u), y); \
        _mm256_storeu_si256((__m256i *)u, r); memcpy(d, u, n * sizeof(T)); } }
#define VM_DIVIDED_BOTH(t, T) VM_DIVIDED(t, T, div, fg_quotients, -1) VM_DIVIDED(t, T, rem, fg_rests, x)
#define VM_SHIFTED_ALL(t, U) VM_SHIFTED(shl, t, U) VM_SHIFTED(shr_logical, t, U) VM_SHIFTED(shr_arith, t, U)
#endif
#endif
