/* The VM's loops over integers, bool and the bits of 16-bit floats. Part of vm_loops.h. */
#ifndef FG_VM_LOOPS_INT_H
#define FG_VM_LOOPS_INT_H
#include "vec_small_ints.h"
#define VM_SHIFTS(BIN, t, U, S, W) \
    BIN(shl, t, U, U, y < W ? (U)(x << (y & (W - 1))) : 0) VM_BIN_SCALAR(shr_logical, t, U, U, y < W ? (U)(x >> (y & (W - 1))) : 0) \
    BIN(shr_arith, t, U, U, (S)x >> (y < W ? y : W - 1))
#define VM_SHIFTS_BY_ONE(t, U, S, W) \
    VM_BIN_SECOND(shl, t, U, U, y < W ? (U)(x << (y & (W - 1))) : 0) VM_BIN_SECOND(shr_logical, t, U, U, y < W ? (U)(x >> (y & (W - 1))) : 0) \
    VM_BIN_SECOND(shr_arith, t, U, U, (S)x >> (y < W ? y : W - 1))
#define VM_SHIFTS_32(t, U, S) VM_SHIFTS(VM_BIN_SCALAR, t, U, S, 32)
#define VM_SHIFTS_64(t, U, S) VM_SHIFTS(VM_BIN_SCALAR, t, U, S, 64)
#ifdef FG_DIVISORS
#define VM_SHIFTS_16(t, U, S) VM_SHIFTED_ALL(t, U) VM_SHIFTS_BY_ONE(t, U, S, 16)
#else
#define VM_SHIFTS_16(t, U, S) VM_SHIFTS(VM_BIN_SCALAR, t, U, S, 16)
#endif
#ifdef __AVX512F__
#define VM_SHIFTS_8(t, U, S) VM_SHIFTS(VM_BIN_SCALAR, t, U, S, 8)
#else
/* Of bytes by one number: products with a power of two, in lanes of 16 bits. Shifts by what is not known when this is compiled are of lanes of 32. */
#define VM_SHIFT_BYTES(name, t, before, expr) FG_SIG(name##_second, t) { \
    uint8_t *d = (uint8_t *)d_; const uint8_t *a = (const uint8_t *)a_; const int y = *(const uint8_t *)b_; (void)c_; \
    before; \
    FG_SIMD for (int64_t i = 0; i < n; i++) { const uint8_t x = a[i]; d[i] = (uint8_t)(expr); } }
#ifdef FG_DIVISORS
#define VM_SHIFTS_OF_8(t, U, S) VM_SHIFTED_ALL(t, U) VM_BIN_SECOND(shr_logical, t, U, U, y < 8 ? (U)(x >> (y & 7)) : 0)
#else
#define VM_SHIFTS_OF_8(t, U, S) VM_SHIFTS(VM_BIN_FIRST, t, U, S, 8)
#endif
#define VM_SHIFTS_8(t, U, S) VM_SHIFTS_OF_8(t, U, S) \
    VM_SHIFT_BYTES(shl, t, const uint8_t m = (uint8_t)(y < 8 ? 1 << y : 0), x * m) \
    VM_SHIFT_BYTES(shr_arith, t, const int16_t m = (int16_t)(256 >> (y < 7 ? y : 7)), (int16_t)((S)x * m) >> 8)
#endif
/* Integers.  What does not depend on the sign exists once, on the unsigned type U of W bits. */
#define VM_INT_BITS(t, U, S, W, POP, CLZ) \
    VM_BIN_SCALAR(add, t, U, U, x + y) VM_BIN_SCALAR(sub, t, U, U, x - y) VM_BIN_SCALAR(mul, t, U, U, (U)((uint64_t)x * y)) VM_UN(neg, t, U, U, 0 - x) \
    VM_UN(square, t, U, U, (U)((uint64_t)x * x)) VM_TERN(fma, t, U, (U)((uint64_t)x * y + z)) \
    VM_BIN_SCALAR(and, t, U, U, x & y) VM_BIN_SCALAR(or, t, U, U, x | y) VM_BIN_SCALAR(xor, t, U, U, x ^ y) VM_UN(not, t, U, U, ~x) \
    VM_SHIFTS_##W(t, U, S) VM_UN(popcount, t, U, U, POP) VM_UN(clz, t, U, U, CLZ) \
    VM_EQUAL(t, U) VM_SELECT(t, U)
#define VM_INT_ORDER(t, T) \
    VM_COMPARE(t, T) VM_BIN(max, t, T, T, x > y ? x : y) VM_BIN(min, t, T, T, x < y ? x : y) \
    VM_TERN(clamp, t, T, (x > y ? x : y) < z ? (x > y ? x : y) : z)

/* Powers by squaring, on blocks until all exponents of one are done; C is what products are computed in, no less than 32 bits. A negative power is truncated:
 * x^-n is 0 unless |x| = 1 (XLA's rule for x = 0 too). */
#define VM_IPOW(t, T, U, C) FG_SIG(pow, t) { \
    enum { N = 256 / sizeof(C) }; \
    T *d = (T *)d_; const T *a = (const T *)a_, *b = (const T *)b_; C r[N], x[N], y[N], live; (void)c_; \
    for (int64_t k = 0; k < n; k += N) { \
        const int64_t m = n - k < N ? n - k : N; \
        live = 0; \
        for (int64_t i = 0; i < m; i++) { \
            const T u = a[k + i], v = b[k + i]; \
            const C least = u == 1 ? 1 : u == (T)-1 ? (v & 1 ? (C)-1 : 1) : 0; \
            r[i] = v < 0 ? least : 1; x[i] = (C)u; y[i] = v < 0 ? 0 : (C)(U)v; live |= y[i]; } \
        for (; live; live >>= 1) \
            FG_SIMD for (int64_t i = 0; i < m; i++) { const C s = x[i]; r[i] *= y[i] & 1 ? s : 1; x[i] = s * s; y[i] >>= 1; } \
        FG_SIMD for (int64_t i = 0; i < m; i++) d[k + i] = (T)r[i]; } }
/* Division up to 32 bits goes through floats F whose mantissa holds twice the bits of T, or nearly so: it vectorises, and a quotient that is
 * not whole is further from a whole number than F's rounding (2^-32 of 2^-53, 2^-16 of 2^-24), so truncation is exact.  W holds -min: it wraps. */
#define VM_DIVIDE_NARROW(t, T, F, W) \
    VM_BIN(div, t, T, T, y == 0 ? (T)-1 : (T)(W)((F)x / (F)(y == 0 ? 1 : y))) \
    VM_BIN(rem, t, T, T, y == 0 ? x : (T)(x - (W)((F)x / (F)(y == 0 ? 1 : y)) * (W)y))
/* By one divisor of 32 bits: a product with its inverse, whose upper half is shifted (Granlund and Montgomery, 1994). */
static inline int fg_bits_of(uint32_t d) { return d < 2 ? 0 : 32 - __builtin_clz(d - 1); }       /* the least l with d <= 2^l */
#if defined(__AVX2__) && !defined(__AVX512F__)
#define VM_DIVIDE_BY_i32(name, expr) FG_SIG(name##_second, i32) { \
    enum { L = FG_VEC / 4 }; \
    int32_t *d = (int32_t *)d_; const int32_t *a = (const int32_t *)a_, y = *(const int32_t *)b_; fg_lanes_f32 x; (void)c_; \
    if (y == 0) { vm_##name##_zero_i32(n, d, a); return; } \
    const FgDivisor by = fg_divisor_of(y); \
    for (; n >= L; n -= L, a += L, d += L) { memcpy(&x, a, FG_VEC); const fg_lanes_f32 q = fg_quotients(x, by); x = expr; memcpy(d, &x, FG_VEC); } \
    if (n) { x = (fg_lanes_f32)vm_part_f32((const float *)a, n); const fg_lanes_f32 q = fg_quotients(x, by); vm_put_part_f32((float *)d, (vec_f32)(expr), n); } }
#else
#define VM_DIVIDE_BY_i32(name, expr) FG_SIG(name##_second, i32) { \
    int32_t *d = (int32_t *)d_; const int32_t *a = (const int32_t *)a_, y = *(const int32_t *)b_; (void)c_; \
    if (y == 0) { vm_##name##_zero_i32(n, d, a); return; } \
    uint32_t size = y < 0 ? 0 - (uint32_t)y : (uint32_t)y; \
    int l = fg_bits_of(size) > 1 ? fg_bits_of(size) : 1; \
    int64_t m = (int32_t)(1 + ((uint64_t)1 << (31 + l)) / size), turn = y < 0 ? -1 : 0; \
    FG_SIMD for (int64_t i = 0; i < n; i++) { \
        int32_t x = a[i], q = (((int32_t)((m * x) >> 32) + x) >> (l - 1)) - (x >> 31); \
        q = (q ^ (int32_t)turn) - (int32_t)turn; d[i] = expr; } }
#endif
#ifdef FG_DIVISORS
VM_DIVIDED_BOTH(u32, uint32_t) VM_DIVIDED_BOTH(i16, int16_t) VM_DIVIDED_BOTH(u16, uint16_t) VM_DIVIDED_BOTH(i8, int8_t)
#endif
#define VM_DIVIDE_BY_u32(name, expr) FG_SIG(name##_second, u32) { \
    uint32_t *d = (uint32_t *)d_; const uint32_t *a = (const uint32_t *)a_, y = *(const uint32_t *)b_; (void)c_; \
    if (y == 0) { vm_##name##_zero_i32(n, (int32_t *)d, (const int32_t *)a); return; } \
    int l = fg_bits_of(y), s = l < 1 ? l : 1, r = l > 1 ? l - 1 : 0; \
    uint64_t m = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << l) - y)) / y + 1); \
    FG_SIMD for (int64_t i = 0; i < n; i++) { \
        uint32_t x = a[i], h = (uint32_t)((m * x) >> 32), q = (h + ((x - h) >> s)) >> r; d[i] = expr; } }
static void vm_div_zero_i32(int64_t n, int32_t *d, const int32_t *a) { (void)a; for (int64_t i = 0; i < n; i++) d[i] = -1; }
static void vm_rem_zero_i32(int64_t n, int32_t *d, const int32_t *a) { memmove(d, a, n * 4); }
VM_DIVIDE_BY_i32(div, q) VM_DIVIDE_BY_i32(rem, x - q * y)
#ifndef FG_DIVISORS
VM_DIVIDE_BY_u32(div, q) VM_DIVIDE_BY_u32(rem, x - q * y)
#endif
/* By one divisor of 16 bits: a product with an inverse that is too large by 2^-21 of it, more than rounding takes away and less than the 2^-16
 * that a quotient lacks which is not whole.  By one of 8 bits: the upper half of a product of 16 bits. */
#define VM_DIVIDE_BY_16(t, T, name, expr, ZERO) FG_SIG(name##_second, t) { \
    T *d = (T *)d_; const T *a = (const T *)a_, y = *(const T *)b_; float inverse = 1 / (float)y * (1 + 0x1p-21f); (void)c_; \
    if (y == 0) FG_SIMD for (int64_t i = 0; i < n; i++) { T x = a[i]; (void)x; d[i] = (T)(ZERO); } \
    else FG_SIMD for (int64_t i = 0; i < n; i++) { T x = a[i]; int32_t q = (int32_t)((float)x * inverse); d[i] = (T)(expr); } }
#define VM_DIVIDE_BY_8(t, T, name, expr, ZERO) FG_SIG(name##_second, t) { \
    T *d = (T *)d_; const T *a = (const T *)a_, y = *(const T *)b_; uint16_t size = y < 0 ? -y : y, inverse = size < 2 ? 0 : 65536 / size + 1; (void)c_; \
    if (y == 0) FG_SIMD for (int64_t i = 0; i < n; i++) { T x = a[i]; (void)x; d[i] = (T)(ZERO); } \
    else if (size == 1) FG_SIMD for (int64_t i = 0; i < n; i++) { T x = a[i], q = (T)(y < 0 ? 0 - x : x); d[i] = (T)(expr); } \
    else FG_SIMD for (int64_t i = 0; i < n; i++) { \
        T x = a[i]; uint16_t h = x < 0 ? 0 - x : x, q = (uint16_t)(((uint32_t)h * inverse) >> 16); \
        q = (x < 0) != (y < 0) ? (uint16_t)(0 - q) : q; d[i] = (T)(expr); } }
#define VM_DIVIDE_BY_SMALL(BITS, t, T) VM_DIVIDE_BY_##BITS(t, T, div, q, -1) VM_DIVIDE_BY_##BITS(t, T, rem, x - q * y, x)
VM_DIVIDE_BY_SMALL(8, u8, uint8_t)
#ifndef FG_DIVISORS
VM_DIVIDE_BY_SMALL(8, i8, int8_t) VM_DIVIDE_BY_SMALL(16, i16, int16_t) VM_DIVIDE_BY_SMALL(16, u16, uint16_t)
#endif
#define VM_SIGNED(t, T) VM_INT_ORDER(t, T) \
    VM_UN(abs, t, T, T, x < 0 ? (T)(0 - (uint64_t)x) : x) VM_UN(sign, t, T, T, (x > 0) - (x < 0))
#define VM_UNSIGNED(t, T) VM_INT_ORDER(t, T) \
    VM_UN(abs, t, T, T, x) VM_UN(sign, t, T, T, x > 0)

/* without an instruction for it, sums of neighbours' bits in numbers of their own width, of which a vector has more than of 32 bits */
#ifdef __AVX512F__
#define FG_POP_8(x) __builtin_popcount(x)
#define FG_POP_16(x) __builtin_popcount(x)
#else
#define FG_POP_8(x) ({ const uint8_t a_ = (x) - ((x) >> 1 & 0x55), b_ = (a_ & 0x33) + (a_ >> 2 & 0x33); (uint8_t)((b_ + (b_ >> 4)) & 0xf); })
#define FG_POP_16(x) ({ const uint16_t a_ = (x) - ((x) >> 1 & 0x5555), b_ = (a_ & 0x3333) + (a_ >> 2 & 0x3333), c_ = (b_ + (b_ >> 4)) & 0xf0f; \
    (uint16_t)((c_ + (c_ >> 8)) & 0x1f); })
#endif
VM_INT_BITS(u8, uint8_t, int8_t, 8, FG_POP_8(x), x ? __builtin_clz(x) - 24 : 8)
VM_INT_BITS(u16, uint16_t, int16_t, 16, FG_POP_16(x), x ? __builtin_clz(x) - 16 : 16)
VM_INT_BITS(u32, uint32_t, int32_t, 32, __builtin_popcount(x), x ? __builtin_clz(x) : 32)
VM_INT_BITS(u64, uint64_t, int64_t, 64, __builtin_popcountll(x), x ? __builtin_clzll(x) : 64)
VM_SIGNED(i8, int8_t) VM_SIGNED(i16, int16_t) VM_SIGNED(i32, int32_t) VM_SIGNED(i64, int64_t)
VM_UNSIGNED(u8, uint8_t) VM_UNSIGNED(u16, uint16_t) VM_UNSIGNED(u32, uint32_t) VM_UNSIGNED(u64, uint64_t)
VM_IPOW(i8, int8_t, uint8_t, uint32_t) VM_IPOW(i16, int16_t, uint16_t, uint32_t) VM_IPOW(i32, int32_t, uint32_t, uint32_t) VM_IPOW(i64, int64_t, uint64_t, uint64_t)
VM_IPOW(u8, uint8_t, uint8_t, uint32_t) VM_IPOW(u16, uint16_t, uint16_t, uint32_t) VM_IPOW(u32, uint32_t, uint32_t, uint32_t)
VM_IPOW(u64, uint64_t, uint64_t, uint64_t)
VM_DIVIDE_NARROW(i8, int8_t, float, int32_t) VM_DIVIDE_NARROW(i16, int16_t, float, int32_t) VM_DIVIDE_NARROW(i32, int32_t, double, int64_t)
VM_DIVIDE_NARROW(u8, uint8_t, float, int32_t) VM_DIVIDE_NARROW(u16, uint16_t, float, int32_t) VM_DIVIDE_NARROW(u32, uint32_t, double, int64_t)
/* Division of 64 bits: numbers below 2^51 are doubles by way of the bits of 1.5 * 2^52 plus them; a quotient of two that is not whole is further
 * from a whole number than rounding moves it, and its product with the divisor is exact. Blocks with a larger number ask the machine. */
#define FG_DOUBLE_BITS 0x4338000000000000
static inline double fg_to_double(uint64_t x) { x += FG_DOUBLE_BITS; double d; memcpy(&d, &x, 8); return d - 0x1.8p52; }
static inline int64_t fg_from_double(double d) { uint64_t x; d += 0x1.8p52; memcpy(&x, &d, 8); return (int64_t)(x - FG_DOUBLE_BITS); }
#define FG_IS_LARGE_i64(x) (((uint64_t)(x) + ((uint64_t)1 << 51)) >> 52)
#define FG_IS_LARGE_u64(x) ((x) >> 51)
#define VM_DIVIDE_WIDE(name, t, T, small, large) FG_SIG(name, t) { \
    T *d = (T *)d_; const T *a = (const T *)a_, *b = (const T *)b_; (void)c_; \
    for (int64_t k = 0; k < n; k += 256) { \
        const int64_t end = n - k < 256 ? n : k + 256; uint64_t far = 0; \
        for (int64_t i = k; i < end; i++) far |= FG_IS_LARGE_##t(a[i]) | FG_IS_LARGE_##t(b[i]); \
        if (far) for (int64_t i = k; i < end; i++) { T x = a[i], y = b[i]; d[i] = large; } \
        else FG_SIMD for (int64_t i = k; i < end; i++) { \
            const T x = a[i], y = b[i]; \
            const double u = fg_to_double((uint64_t)x), v = fg_to_double((uint64_t)(y == 0 ? 1 : y)), q = trunc(u / v); \
            d[i] = y == 0 ? (T)small(x) : (T)fg_from_double(small##_OF(u, v, q)); } } }
#define FG_QUOTIENT_64(x) -1
#define FG_QUOTIENT_64_OF(u, v, q) q
#define FG_REMAINDER_64(x) x
#define FG_REMAINDER_64_OF(u, v, q) u - q * v
VM_DIVIDE_WIDE(div, i64, int64_t, FG_QUOTIENT_64, y == 0 ? -1 : y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y)
VM_DIVIDE_WIDE(rem, i64, int64_t, FG_REMAINDER_64, y == 0 ? x : y == -1 ? 0 : x % y)
VM_DIVIDE_WIDE(div, u64, uint64_t, FG_QUOTIENT_64, y == 0 ? (uint64_t)-1 : x / y)
VM_DIVIDE_WIDE(rem, u64, uint64_t, FG_REMAINDER_64, y == 0 ? x : x % y)
/* By one divisor of 64 bits: as of 32, of the numbers' sizes. */
static inline uint64_t fg_upper_half(uint64_t x, uint64_t y) {
    const uint64_t low = 0xffffffff, a = x >> 32, b = x & low, c = y >> 32, e = y & low;
    const uint64_t mid = a * e + (b * e >> 32), more = b * c + (mid & low);
    return a * c + (mid >> 32) + (more >> 32);
}
#define VM_DIVIDE_BY_64(t, T, name, expr, ZERO) FG_SIG(name##_second, t) { \
    T *d = (T *)d_; const T *a = (const T *)a_, y = *(const T *)b_; (void)c_; \
    if (y == 0) { for (int64_t i = 0; i < n; i++) { T x = a[i]; (void)x; d[i] = (T)(ZERO); } return; } \
    const uint64_t size = y < 0 ? 0 - (uint64_t)y : (uint64_t)y, turn = y < 0 ? ~(uint64_t)0 : 0; \
    const int l = size < 2 ? 0 : 64 - __builtin_clzll(size - 1), s = l < 1 ? l : 1, r = l > 1 ? l - 1 : 0; \
    const uint64_t m = (uint64_t)((((unsigned __int128)(l < 64 ? (uint64_t)1 << l : 0) - size) << 64) / size) + 1; \
    FG_SIMD for (int64_t i = 0; i < n; i++) { \
        const T x = a[i]; const uint64_t sign = (x < 0 ? ~(uint64_t)0 : 0), w = ((uint64_t)x ^ sign) - sign, h = fg_upper_half(m, w); \
        uint64_t q = (h + ((w - h) >> s)) >> r; const uint64_t other = sign ^ turn; \
        q = (q ^ other) - other; d[i] = (T)(expr); } }
VM_DIVIDE_BY_64(i64, int64_t, div, q, -1) VM_DIVIDE_BY_64(i64, int64_t, rem, (uint64_t)x - q * (uint64_t)y, x)
VM_DIVIDE_BY_64(u64, uint64_t, div, q, -1) VM_DIVIDE_BY_64(u64, uint64_t, rem, x - q * y, x)
/* Greatest common divisors, Stein's algorithm on blocks until all of one are done: of two odd numbers the lesser and the odd part of the difference. */
#define FG_TWOS(U, POP, x) POP((U)(((x) & (U)(0 - (x))) - 1))        /* of a number that is not 0: the zeros at its end */
#define VM_GCD(t, T, U, POP) FG_SIG(gcd, t) { \
    T *d = (T *)d_; const T *a = (const T *)a_, *b = (const T *)b_; U u[64], v[64], low[64], live; (void)c_; \
    for (int64_t k = 0; k < n; k += 64) { \
        const int64_t m = n - k < 64 ? n - k : 64; \
        FG_SIMD for (int64_t i = 0; i < m; i++) { \
            U x = a[k + i] < 0 ? (U)(0 - (U)a[k + i]) : (U)a[k + i], y = b[k + i] < 0 ? (U)(0 - (U)b[k + i]) : (U)b[k + i], z = x | y; \
            low[i] = z & (U)(0 - z); x = x ? x : y ? y : 1; y = y ? y : x; \
            u[i] = (U)(x >> FG_TWOS(U, POP, x)); v[i] = (U)(y >> FG_TWOS(U, POP, y)); } \
        do { \
            live = 0; \
            for (int64_t i = 0; i < m; i++) { \
                const U x = u[i], y = v[i], least = x < y ? x : y, r = (U)((x > y ? x : y) - least), s = r ? r : least; \
                live |= r; u[i] = (U)(s >> FG_TWOS(U, POP, s)); v[i] = least; } \
        } while (live); \
        FG_SIMD for (int64_t i = 0; i < m; i++) d[k + i] = (T)((uint64_t)v[i] * low[i]); } }
VM_GCD(i8, int8_t, uint8_t, __builtin_popcount) VM_GCD(i16, int16_t, uint16_t, __builtin_popcount) VM_GCD(i32, int32_t, uint32_t, __builtin_popcount)
VM_GCD(u8, uint8_t, uint8_t, __builtin_popcount) VM_GCD(u16, uint16_t, uint16_t, __builtin_popcount) VM_GCD(u32, uint32_t, uint32_t, __builtin_popcount)
VM_GCD(i64, int64_t, uint64_t, __builtin_popcountll) VM_GCD(u64, uint64_t, uint64_t, __builtin_popcountll)
/* Signs of 16-bit floats, by their bits */
VM_UN(neg, half, uint16_t, uint16_t, x ^ 0x8000) VM_UN(abs, half, uint16_t, uint16_t, x & 0x7fff)
VM_BIN(copysign, half, uint16_t, uint16_t, (x & 0x7fff) | (y & 0x8000))

/* bool: bytes that are 0 or 1; and, or, xor, eq, ne, select and the comparisons are those of u8 */
VM_UN(not, bool, uint8_t, uint8_t, x ^ 1)
#endif
