/* Quotients of a vector of int32 by one divisor, with AVX2: the upper halves of products with its inverse, of even and of odd lanes, are shifted (Granlund and
 * Montgomery, 1994). A compiler's own widening of 32 bits to 64 moves lanes there and back. */
#ifndef FG_VEC_QUOTIENT_H
#define FG_VEC_QUOTIENT_H
#include "vec.h"
#if defined(__AVX2__) && !defined(__AVX512F__)
#define FG_DIVISORS 1
typedef struct { __m256i inverse, turn; __m128i shift; } FgDivisor;
/* of a divisor other than 0 */
FG_INLINE FgDivisor fg_divisor_of(int32_t y) {
    const uint32_t size = y < 0 ? 0 - (uint32_t)y : (uint32_t)y;
    const int bits = size < 3 ? 1 : 32 - __builtin_clz(size - 1);
    return (FgDivisor){_mm256_set1_epi64x((int32_t)(1 + ((uint64_t)1 << (31 + bits)) / size)), _mm256_set1_epi32(y < 0 ? -1 : 0), _mm_cvtsi32_si128(bits - 1)};
}
FG_INLINE fg_lanes_f32 fg_quotients(fg_lanes_f32 given, FgDivisor d) {
    const __m256i x = (__m256i)given, even = _mm256_mul_epi32(x, d.inverse), odd = _mm256_mul_epi32(_mm256_srli_epi64(x, 32), d.inverse);
    const __m256i high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    const __m256i q = _mm256_sub_epi32(_mm256_sra_epi32(_mm256_add_epi32(high, x), d.shift), _mm256_srai_epi32(x, 31));
    return (fg_lanes_f32)_mm256_sub_epi32(_mm256_xor_si256(q, d.turn), d.turn);
}
#endif
#endif
