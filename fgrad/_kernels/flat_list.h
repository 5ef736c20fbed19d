/* The list of flat code's instructions: families of name, kind, type, register and formula, from which their numbers, the interpreter (flat_ops.h)
 * and what machine code needs of them are made. */
#ifndef FG_FLAT_LIST_H
#define FG_FLAT_LIST_H

/* Chains: a first operation, and up to two more that take its result, each adding, subtracting (from either side) or multiplying.
 * Their numbers are computed: FG_CHAIN of a kind + first, + 7 + 4 first + second, + 35 + 4 (4 first + second) + third. */
enum { FG_STEP_ADD, FG_STEP_SUB, FG_STEP_RSUB, FG_STEP_MUL };
enum { FG_FIRST_MEMORY = 0, FG_FIRST_LAST = 3, FG_CHAIN = 7 + 28 + 112, FG_CHAINS = 5 * FG_CHAIN };
/* the first ones: add, sub, mul; or the steps from the last result */
#define FG_FIRSTS(X, ...) X(__VA_ARGS__, addm) X(__VA_ARGS__, subm) X(__VA_ARGS__, mulm) \
    X(__VA_ARGS__, add) X(__VA_ARGS__, sub) X(__VA_ARGS__, rsub) X(__VA_ARGS__, mul)
#define FG_SECONDS(X, ...) X(__VA_ARGS__, add) X(__VA_ARGS__, sub) X(__VA_ARGS__, rsub) X(__VA_ARGS__, mul)
#define FG_THIRDS(X, ...) X(__VA_ARGS__, add) X(__VA_ARGS__, sub) X(__VA_ARGS__, rsub) X(__VA_ARGS__, mul)
#define FG_CHAIN2_OF(X, t, T, acc, first) FG_SECONDS(X, t, T, acc, first)
#define FG_CHAIN3_OF(X, t, T, acc, first, second) FG_THIRDS(X, t, T, acc, first, second)
#define FG_CHAIN3_OF1(X, t, T, acc, first) FG_SECONDS(FG_CHAIN3_OF, X, t, T, acc, first)
#define FG_CHAINS_OF(ONE, TWO, THREE, t, T, acc) \
    FG_FIRSTS(ONE, t, T, acc) FG_FIRSTS(FG_CHAIN2_OF, TWO, t, T, acc) FG_FIRSTS(FG_CHAIN3_OF1, THREE, t, T, acc)
#define FG_ALL_CHAINS(ONE, TWO, THREE) FG_CHAINS_OF(ONE, TWO, THREE, f32, float, accf) FG_CHAINS_OF(ONE, TWO, THREE, f64, double, accd) \
    FG_CHAINS_OF(ONE, TWO, THREE, v32, fg_v32, accv) FG_CHAINS_OF(ONE, TWO, THREE, v64, fg_v64, accw) \
    FG_CHAINS_OF(ONE, TWO, THREE, i32, uint32_t, acci)

/* elements of y where the mask m has all bits, of z where it has none */
#define FG_FLAT_PICK(M, V, m, y, z) ((V)(((M)(y) & (m)) | ((M)(z) & ~(m))))
#define FG_FLAT_VECTOR_ORDER(X, t, V, acc, M) X(max, t, V, acc, FG_FLAT_PICK(M, V, (x > y) | (x != x), x, y)) \
    X(min, t, V, acc, FG_FLAT_PICK(M, V, (x < y) | (x != x), x, y))

#ifdef __AVX512F__
#define FG_FLAT_SQRT(x, t, n, f) (__typeof__(x))_mm512_sqrt_##t(x)
#else
#define FG_FLAT_SQRT(x, t, n, f) ({ __typeof__(x) r_ = x; for (int i_ = 0; i_ < n; i_++) r_[i_] = f(r_[i_]); r_; })
#endif

/* Roundings to whole numbers. */
#ifdef __AVX512F__
#define FG_FLAT_WHOLE(x, t, how, n, f) (__typeof__(x))_mm512_roundscale_##t(x, how | _MM_FROUND_NO_EXC)
#else
#define FG_FLAT_WHOLE(x, t, how, n, f) ({ __typeof__(x) r_ = x; for (int i_ = 0; i_ < n; i_++) r_[i_] = f(r_[i_]); r_; })
#endif
#define FG_FLAT_WHOLES(X, name, F, how) \
    X(name, f32, float, accf, F##f(x)) X(name, v32, fg_v32, accv, FG_FLAT_WHOLE(x, ps, how, 16, F##f)) \
    X(name, f64, double, accd, F(x)) X(name, v64, fg_v64, accw, FG_FLAT_WHOLE(x, pd, how, 8, F))
/* The larger or smaller of two numbers, or x if it is no number: by a mask, since a branch on numbers that are not sorted is mispredicted. */
typedef float fg_f32x4 __attribute__((vector_size(16)));
typedef double fg_f64x2 __attribute__((vector_size(16)));
typedef int32_t fg_i32x4 __attribute__((vector_size(16)));
typedef int64_t fg_i64x2 __attribute__((vector_size(16)));
#define FG_FLAT_ONE(M, V, order) ({ V u_ = {x}, v_ = {y}; FG_FLAT_PICK(M, V, (u_ order v_) | (u_ != u_), u_, v_)[0]; })

/* Vectors of integers of four bytes, as lanes of the register of floats; a shift by 32 or more leaves nothing, or the sign. */
typedef uint32_t fg_u32x16 __attribute__((vector_size(64), may_alias));
#ifdef __AVX512F__
#define FG_FLAT_SHIFT(x, y, how, op) ((fg_u32x16)_mm512_##how##_epi32((__m512i)(x), (__m512i)(y)))
#define FG_FLAT_SHIFT_SIGNED(x, y) ((fg_u32x16)_mm512_srav_epi32((__m512i)(x), (__m512i)(y)))
#else
#define FG_FLAT_SHIFT(x, y, how, op) (((fg_u32x16)(x) op ((fg_u32x16)(y) & 31)) & (fg_u32x16)((fg_u32x16)(y) < 32))
#define FG_FLAT_SHIFT_SIGNED(x, y) ((fg_u32x16)((fg_i32x16)(x) >> (fg_i32x16)FG_FLAT_PICK(fg_u32x16, fg_u32x16, (fg_u32x16)((fg_u32x16)(y) < 32), (fg_u32x16)(y), (fg_u32x16){0} + 31)))
#endif
#define FG_FLAT_WHOLE_OP(X, name, op) X(name, w32, fg_v32, accv, (fg_v32)((fg_u32x16)x op (fg_u32x16)y))
/* not of the VM: a shift, and the exclusive or of what it shifts and its result */
enum { FG_OP_shl_xor = FG_OP_COUNT, FG_OP_shr_logical_xor };
#define FG_FLAT_INTEGERS(X) FG_FLAT_WHOLE_OP(X, add, +) FG_FLAT_WHOLE_OP(X, sub, -) FG_FLAT_WHOLE_OP(X, mul, *) \
    FG_FLAT_WHOLE_OP(X, and, &) FG_FLAT_WHOLE_OP(X, or, |) FG_FLAT_WHOLE_OP(X, xor, ^) \
    X(shl, w32, fg_v32, accv, (fg_v32)FG_FLAT_SHIFT(x, y, sllv, <<)) X(shr_logical, w32, fg_v32, accv, (fg_v32)FG_FLAT_SHIFT(x, y, srlv, >>)) \
    X(shr_arith, w32, fg_v32, accv, (fg_v32)FG_FLAT_SHIFT_SIGNED(x, y)) \
    X(shl_xor, w32, fg_v32, accv, (fg_v32)((fg_u32x16)x ^ FG_FLAT_SHIFT(x, y, sllv, <<))) \
    X(shr_logical_xor, w32, fg_v32, accv, (fg_v32)((fg_u32x16)x ^ FG_FLAT_SHIFT(x, y, srlv, >>))) \
    X(max, w32, fg_v32, accv, (fg_v32)FG_FLAT_PICK(fg_i32x16, fg_i32x16, (fg_i32x16)x > (fg_i32x16)y, (fg_i32x16)x, (fg_i32x16)y)) \
    X(min, w32, fg_v32, accv, (fg_v32)FG_FLAT_PICK(fg_i32x16, fg_i32x16, (fg_i32x16)x < (fg_i32x16)y, (fg_i32x16)x, (fg_i32x16)y)) \
    X(shr_arith, i32, uint32_t, acci, (uint32_t)((int32_t)x >> (y < 32 ? y : 31))) \
    X(shl_xor, i32, uint32_t, acci, x ^ (y < 32 ? x << (y & 31) : 0)) X(shr_logical_xor, i32, uint32_t, acci, x ^ (y < 32 ? x >> (y & 31) : 0))

/* Single integers of eight bytes: counters and indices of whoever has 64-bit types on. */
#define FG_FLAT_LONG_OP(X, name, op) X(name, i64, uint64_t, accl, x op y)
#define FG_FLAT_LONGS(X) FG_FLAT_LONG_OP(X, add, +) FG_FLAT_LONG_OP(X, sub, -) FG_FLAT_LONG_OP(X, mul, *) \
    FG_FLAT_LONG_OP(X, and, &) FG_FLAT_LONG_OP(X, or, |) FG_FLAT_LONG_OP(X, xor, ^) \
    X(shl, i64, uint64_t, accl, y < 64 ? x << (y & 63) : 0) X(shr_logical, i64, uint64_t, accl, y < 64 ? x >> (y & 63) : 0) \
    X(shr_arith, i64, uint64_t, accl, (uint64_t)((int64_t)x >> (y < 64 ? y : 63))) \
    X(max, i64, uint64_t, accl, (int64_t)x > (int64_t)y ? x : y) X(min, i64, uint64_t, accl, (int64_t)x < (int64_t)y ? x : y) \
    X(div, i64, uint64_t, accl, y == 0 ? -1ull : y == -1ull ? -x : (uint64_t)((int64_t)x / (int64_t)y)) \
    X(rem, i64, uint64_t, accl, y == 0 ? x : y == -1ull ? 0 : (uint64_t)((int64_t)x % (int64_t)y))

/* name, kind, type, register, formula; those of vectors of integers and of single ones of eight bytes stand behind all others in the code */
#define FG_FLAT_BIN(X) FG_FLAT_BIN_FIRST(X) FG_FLAT_INTEGERS(X) FG_FLAT_LONGS(X)
#define FG_FLAT_BIN_FIRST(X) \
    X(div, f32, float, accf, x / y) X(max, f32, float, accf, FG_FLAT_ONE(fg_i32x4, fg_f32x4, >)) \
    X(min, f32, float, accf, FG_FLAT_ONE(fg_i32x4, fg_f32x4, <)) \
    X(div, f64, double, accd, x / y) X(max, f64, double, accd, FG_FLAT_ONE(fg_i64x2, fg_f64x2, >)) \
    X(min, f64, double, accd, FG_FLAT_ONE(fg_i64x2, fg_f64x2, <)) \
    X(div, v32, fg_v32, accv, x / y) X(div, v64, fg_v64, accw, x / y) \
    FG_FLAT_VECTOR_ORDER(X, v32, fg_v32, accv, fg_i32x16) FG_FLAT_VECTOR_ORDER(X, v64, fg_v64, accw, fg_i64x8) \
    X(and, i32, uint32_t, acci, x & y) X(or, i32, uint32_t, acci, x | y) X(xor, i32, uint32_t, acci, x ^ y) \
    X(shl, i32, uint32_t, acci, y < 32 ? x << (y & 31) : 0) X(shr_logical, i32, uint32_t, acci, y < 32 ? x >> (y & 31) : 0) \
    X(max, i32, uint32_t, acci, (int32_t)x > (int32_t)y ? x : y) X(min, i32, uint32_t, acci, (int32_t)x < (int32_t)y ? x : y) \
    X(div, i32, uint32_t, acci, y == 0 ? -1u : y == -1u ? -x : (uint32_t)((int32_t)x / (int32_t)y)) \
    X(rem, i32, uint32_t, acci, y == 0 ? x : y == -1u ? 0 : (uint32_t)((int32_t)x % (int32_t)y))
#define FG_FLAT_UN(X) FG_FLAT_UN_FIRST(X) FG_FLAT_ROUND(X)
#define FG_FLAT_ROUND(X) \
    X(round_bf16, f32, float, accf, FG_FLAT_ROUNDED(FG_BF16, x, 1)) X(round_f16, f32, float, accf, FG_FLAT_ROUNDED(FG_F16, x, 1)) \
    X(round_bf16, v32, fg_v32, accv, FG_FLAT_ROUNDED(FG_BF16, x, 16)) X(round_f16, v32, fg_v32, accv, FG_FLAT_ROUNDED(FG_F16, x, 16))
#define FG_FLAT_UN_FIRST(X) \
    X(neg, f32, float, accf, -x) X(abs, f32, float, accf, fabsf(x)) X(square, f32, float, accf, x * x) X(sqrt, f32, float, accf, sqrtf(x)) \
    X(neg, v32, fg_v32, accv, -x) X(square, v32, fg_v32, accv, x * x) X(neg, v64, fg_v64, accw, -x) X(square, v64, fg_v64, accw, x * x) \
    X(abs, v32, fg_v32, accv, (fg_v32)((fg_i32x16)x & INT32_MAX)) X(abs, v64, fg_v64, accw, (fg_v64)((fg_i64x8)x & INT64_MAX)) \
    X(neg, f64, double, accd, -x) X(abs, f64, double, accd, fabs(x)) X(square, f64, double, accd, x * x) X(sqrt, f64, double, accd, sqrt(x)) \
    X(recip, f32, float, accf, 1 / x) X(recip, f64, double, accd, 1 / x) X(recip, v32, fg_v32, accv, 1 / x) X(recip, v64, fg_v64, accw, 1 / x) \
    X(sqrt, v32, fg_v32, accv, FG_FLAT_SQRT(x, ps, 16, sqrtf)) X(sqrt, v64, fg_v64, accw, FG_FLAT_SQRT(x, pd, 8, sqrt)) \
    FG_FLAT_WHOLES(X, floor, floor, _MM_FROUND_TO_NEG_INF) FG_FLAT_WHOLES(X, ceil, ceil, _MM_FROUND_TO_POS_INF) \
    FG_FLAT_WHOLES(X, trunc, trunc, _MM_FROUND_TO_ZERO) FG_FLAT_WHOLES(X, round_even, rint, _MM_FROUND_TO_NEAREST_INT)
#define FG_FLAT_COMPARE_OF(X, t, ...) X(lt, t, x < y, __VA_ARGS__) X(le, t, x <= y, __VA_ARGS__) X(gt, t, x > y, __VA_ARGS__) \
    X(ge, t, x >= y, __VA_ARGS__) X(eq, t, x == y, __VA_ARGS__) X(ne, t, x != y, __VA_ARGS__)
#define FG_FLAT_BOOL_OF(X, t, T) X(and, t, x & y, T) X(or, t, x | y, T) X(xor, t, x ^ y, T) X(not, t, x ^ 1, T) X(ne, t, x ^ y, T) \
    X(eq, t, x ^ y ^ 1, T)
#define FG_FLAT_BOOL(X) FG_FLAT_BOOL_OF(X, b1, uint8_t)
#define FG_FLAT_COMPARE_ONE(X) FG_FLAT_COMPARE_OF(X, f32, float) FG_FLAT_COMPARE_OF(X, f64, double) FG_FLAT_COMPARE_OF(X, i32, int32_t) \
    FG_FLAT_COMPARE_OF(X, i64, int64_t)
#define FG_FLAT_COMPARE(X) FG_FLAT_COMPARE_ONE(X) FG_FLAT_BOOL(X)
/* Vectors of floats, to and by vectors of bytes of 0 and 1; those among each other; and selections by a comparison of the operands at a and
 * b, which wait for no bytes. */
#define FG_FLAT_BYTES(X) FG_FLAT_BOOL_OF(X, b16, fg_i8x16)
#define FG_FLAT_WHERE(X) FG_FLAT_COMPARE_OF(X, v32, fg_v32, fg_i32x16, accv) FG_FLAT_COMPARE_OF(X, v64, fg_v64, fg_i64x8, accw)
#define FG_FLAT_VECTOR_COMPARE_FIRST(X) FG_FLAT_COMPARE_OF(X, v32, fg_v32) FG_FLAT_COMPARE_OF(X, v64, fg_v64)
#define FG_FLAT_VECTOR_COMPARE(X) FG_FLAT_VECTOR_COMPARE_FIRST(X) FG_FLAT_COMPARE_OF(X, w32, fg_i32x16)
#define FG_FLAT_VECTOR_SELECT(X) X(v32, fg_i32x16, accv) X(v64, fg_i64x8, accw)
#define FG_FLAT_BYTES_v32 fg_i8x16
#define FG_FLAT_BYTES_v64 fg_i8x8
#define FG_FLAT_BYTES_w32 fg_i8x16
#define FG_FLAT_SELECT(X) X(b1, uint8_t) X(f32, uint32_t) X(f64, uint64_t)       /* by size */
#define FG_FLAT_CAST(X) X(bool, uint8_t, i32, int32_t) X(bool, uint8_t, f32, float) X(bool, uint8_t, f64, double) X(i32, int32_t, f32, float) \
    X(i32, int32_t, f64, double) X(f32, float, f64, double) X(f64, double, f32, float) \
    X(bool, uint8_t, i64, int64_t) X(i32, int32_t, i64, int64_t) X(i64, int64_t, i32, int32_t) X(i64, int64_t, f32, float) X(i64, int64_t, f64, double)
/* Selections between single numbers by a comparison of the numbers at a and b: kind of these, what is selected, its bits, its register. */
#define FG_FLAT_WHERE_OF(X, t, T) FG_FLAT_COMPARE_OF(X, t, T, f32, uint32_t, accf) FG_FLAT_COMPARE_OF(X, t, T, f64, uint64_t, accd) \
    FG_FLAT_COMPARE_OF(X, t, T, i32, uint32_t, acci) FG_FLAT_COMPARE_OF(X, t, T, i64, uint64_t, accl)
#define FG_FLAT_WHERE_ONE(X) FG_FLAT_WHERE_OF(X, f32, float) FG_FLAT_WHERE_OF(X, f64, double) FG_FLAT_WHERE_OF(X, i32, int32_t) FG_FLAT_WHERE_OF(X, i64, int64_t)
/* Single integers of one and two bytes, which no register of the interpreter's holds; of a bool, as a number, the same. */
#define FG_FLAT_NARROW_OF(X, t, T, S, U, bits) X(add, t, x + y, T) X(sub, t, x - y, T) X(mul, t, (U)x * (uint32_t)(U)y, T) X(and, t, x & y, T) X(or, t, x | y, T) \
    X(xor, t, x ^ y, T) X(max, t, x > y ? x : y, T) X(min, t, x < y ? x : y, T) X(shl, t, (U)y < bits ? (U)x << (U)y : 0, T) \
    X(shr_logical, t, (U)y < bits ? (U)x >> (U)y : 0, T) X(shr_arith, t, (S)x >> ((U)y < bits ? (U)y : bits - 1), T) \
    X(div, t, y == 0 ? -1 : x / y, T) X(rem, t, y == 0 ? x : x % y, T) X(neg, t, -x, T) X(abs, t, x < 0 ? -x : x, T) X(not, t, ~x, T) X(popcount, t, __builtin_popcount((U)x), T)
#define FG_FLAT_NARROW(X) FG_FLAT_NARROW_OF(X, i8, int8_t, int8_t, uint8_t, 8) FG_FLAT_NARROW_OF(X, u8, uint8_t, int8_t, uint8_t, 8) \
    FG_FLAT_NARROW_OF(X, i16, int16_t, int16_t, uint16_t, 16) FG_FLAT_NARROW_OF(X, u16, uint16_t, int16_t, uint16_t, 16)
#define FG_FLAT_NARROW_COMPARE(X) FG_FLAT_COMPARE_OF(X, i8, int8_t) FG_FLAT_COMPARE_OF(X, u8, uint8_t) FG_FLAT_COMPARE_OF(X, i16, int16_t) FG_FLAT_COMPARE_OF(X, u16, uint16_t)
#define FG_FLAT_NARROW_CAST_TO(X, s, S) X(s, S, u8, uint8_t) X(s, S, u16, uint16_t)          /* to integers: by size */
#define FG_FLAT_NARROW_CAST_OF(X, s, S) FG_FLAT_NARROW_CAST_TO(X, s, S) X(s, S, i32, int32_t) X(s, S, i64, int64_t) X(s, S, f32, float) X(s, S, f64, double)
#define FG_FLAT_NARROW_CAST(X) FG_FLAT_NARROW_CAST_OF(X, u8, uint8_t) FG_FLAT_NARROW_CAST_OF(X, i8, int8_t) FG_FLAT_NARROW_CAST_OF(X, u16, uint16_t) \
    FG_FLAT_NARROW_CAST_OF(X, i16, int16_t) FG_FLAT_NARROW_CAST_TO(X, i32, int32_t) FG_FLAT_NARROW_CAST_TO(X, i64, int64_t)
/* Vectors of 64 bytes of such integers: q what does not depend on a sign, and without one; s: with a sign; b: bools. */
#define FG_FLAT_TINY_OF(X, t, V) X(add, t, x + y, V) X(sub, t, x - y, V) X(and, t, x & y, V) X(or, t, x | y, V) X(xor, t, x ^ y, V) X(neg, t, -x, V) X(not, t, ~x, V)
#define FG_FLAT_TINY_ORDER(X, t, V) X(max, t, FG_FLAT_PICK(V, V, (V)(x > y), x, y), V) X(min, t, FG_FLAT_PICK(V, V, (V)(x < y), x, y), V)
#define FG_FLAT_TINY(X) FG_FLAT_TINY_NUMBERS(X) X(not, b8, x ^ 1, fg_u8x64)
#define FG_FLAT_TINY_NUMBERS(X) FG_FLAT_TINY_OF(X, q8, fg_u8x64) FG_FLAT_TINY_ORDER(X, q8, fg_u8x64) FG_FLAT_TINY_ORDER(X, s8, fg_i8x64) \
    X(shl, q8, (x << (y & 7)) & (fg_u8x64)(y < 8), fg_u8x64) X(shr_logical, q8, (x >> (y & 7)) & (fg_u8x64)(y < 8), fg_u8x64) \
    FG_FLAT_TINY_OF(X, q16, fg_u16x32) FG_FLAT_TINY_ORDER(X, q16, fg_u16x32) FG_FLAT_TINY_ORDER(X, s16, fg_i16x32) X(mul, q16, x * y, fg_u16x32) \
    X(shl, q16, (x << (y & 15)) & (fg_u16x32)(y < 16), fg_u16x32) X(shr_logical, q16, (x >> (y & 15)) & (fg_u16x32)(y < 16), fg_u16x32) \
    X(shr_arith, q16, (fg_i16x32)x >> (fg_i16x32)((y & 15) | (15 & ~(fg_u16x32)(y < 16))), fg_u16x32)
#define FG_FLAT_TINY_COMPARE(X) FG_FLAT_COMPARE_OF(X, q8, fg_u8x64) FG_FLAT_COMPARE_OF(X, s8, fg_i8x64) FG_FLAT_COMPARE_OF(X, q16, fg_u16x32) FG_FLAT_COMPARE_OF(X, s16, fg_i16x32)
/* 16-bit floats at a to float32 at d, and back: 16 of them, or one. What computes with them computes with float32. */
#define FG_FLAT_HALF(X) X(widen_bf16) X(widen_f16) X(widen1_bf16) X(widen1_f16) X(narrow_bf16) X(narrow_f16) X(narrow1_bf16) X(narrow1_f16)
/* A window of 1, 4, 8 or n bytes that moves with the index at b: bounded, bounded after a negative one has counted from the end, or of a
 * put that is left out beyond the bounds; with the sum of those at b and g; or with several indices. Of four bytes also by a register. */
#define FG_FLAT_WINDOWS(X) X(take1) X(take4) X(take8) X(take) X(take1_end) X(take4_end) X(take8_end) X(take_end) X(take4_sum) X(take8_sum) \
    X(take4_f32) X(take4_i32) X(take4_sum_f32) X(take4_sum_i32) \
    X(takes1) X(takes4) X(takes8) X(takes) X(put1) X(put4) X(put8) X(put) X(put1_in) X(put4_in) X(put8_in) X(put_in) X(put4_sum) X(put8_sum) \
    X(put4_f32) X(put4_i32) X(put4_in_f32) X(put4_in_i32) X(put4_sum_f32) X(put4_sum_i32) \
    X(puts1) X(puts4) X(puts8) X(puts)
/* Reductions of terms in the vectors at a, see flat_fold.h: g bytes; b: the fold; fn: the VM's function. Positions of one extremum: n numbers.
 * One vector: the last result, in a register. */
#define FG_FLAT_FOLDS(X) X(permute1) X(sums1) X(maxima1) X(minima1) X(argmaxima1) X(argminima1) X(sums2) X(sums4) X(maxima2) X(maxima4) X(minima2) X(minima4) X(argmaxima2) X(argmaxima4) X(argminima2) X(argminima4) X(argmax) X(argmin)
#define FG_FLAT_OTHER(X) X(clamp_i32) X(clamp_i64) X(choose) X(end) X(fn) X(seg) X(sum_f32) X(call) FG_FLAT_WINDOWS(X) X(pack) X(long_pack) X(lanes) X(bytes) X(permute) FG_FLAT_FOLDS(X) X(dot1) X(dot) X(long_dot1) X(long_dot) X(splat1) X(splat2) X(splat4) X(splat8) \
    X(copy1) X(copy4) X(copy8) X(copy16) X(copy32) X(copy64) X(copy) X(hold_f32) X(hold_f64) X(hold_v32) X(hold_v64) X(hold_i32) X(hold_i64) X(gather) X(scatter) X(items) \
    X(jump) X(unless) X(branch) X(branch2) X(set) X(point) X(loop) X(count) X(again) X(enter) X(back) \
    X(load4) X(load8) X(loadv8) X(loadv12) X(loadv16) X(loadv32) X(loadv) X(load16) X(load32) X(load) X(store4) X(store8) X(storev) X(store)

#define FG_FLAT_E2(name, t, ...) FLAT_##name##_##t##_mm, FLAT_##name##_##t##_am, FLAT_##name##_##t##_ma,
#define FG_FLAT_E1(name, t, ...) FLAT_##name##_##t##_m, FLAT_##name##_##t##_a,
#define FG_FLAT_EC(name, t, ...) FLAT_##name##_##t,
#define FG_FLAT_EU(name, t, ...) FLAT_unless_##name##_##t,
#define FG_FLAT_EA(name, t, ...) FLAT_again_##name##_##t,
#define FG_FLAT_EW(name, t, ...) FLAT_where_##name##_##t,
#define FG_FLAT_EV(name, t, expr, T, s, ...) FLAT_where_##name##_##t##_##s,
#define FG_FLAT_ES(t, ...) FLAT_select_##t,
#define FG_FLAT_EK(s, S, t, T) FLAT_cast_##s##_##t,
#define FG_FLAT_EO(name) FLAT_##name,
enum { FLAT_CHAINS_END = FG_CHAINS - 1, FG_FLAT_BIN(FG_FLAT_E2) FG_FLAT_UN(FG_FLAT_E1) FG_FLAT_COMPARE(FG_FLAT_EC) FG_FLAT_VECTOR_COMPARE(FG_FLAT_EC)
    FG_FLAT_BYTES(FG_FLAT_EC) FG_FLAT_WHERE(FG_FLAT_EW) FG_FLAT_VECTOR_SELECT(FG_FLAT_ES) FG_FLAT_SELECT(FG_FLAT_ES) FG_FLAT_CAST(FG_FLAT_EK)
    FG_FLAT_WHERE_ONE(FG_FLAT_EV) FG_FLAT_NARROW(FG_FLAT_EC) FG_FLAT_NARROW_COMPARE(FG_FLAT_EC) FG_FLAT_NARROW_CAST(FG_FLAT_EK) FLAT_select_h1,
    FG_FLAT_TINY(FG_FLAT_EC) FG_FLAT_TINY_COMPARE(FG_FLAT_EC) FLAT_select_q8, FLAT_select_q16, FG_FLAT_HALF(FG_FLAT_EO)
    FG_FLAT_OTHER(FG_FLAT_EO)
    FG_FLAT_COMPARE_ONE(FG_FLAT_EU) FG_FLAT_COMPARE_ONE(FG_FLAT_EA)
    FLAT_step, FLAT_step_held, FLAT_COUNT };
#endif
