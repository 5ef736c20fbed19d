/* The instructions of flat code, and the interpreter: direct-threaded, over values at fixed addresses.
 *
 * Arithmetic on single numbers, and on vectors of up to 64 bytes in places padded to that, is inline.  An op whose operand is the
 * result of the op before it takes it from a register (`am`: as its first operand, `ma`: as its second), since a load that waits
 * for a store costs as much as the arithmetic; up to three sums and products in a row are one op, since a jump does too.
 * To be compiled without contraction: each operation rounds, as it does in the VM. */
#ifndef FG_FLAT_OPS_H
#define FG_FLAT_OPS_H
#include "flat_fold.h"
#include "flat_items.h"
#include "half.h"
#include "program.h"
#include "turns.h"
#include "vm_plan.h"

struct FgFlatOp {
    const void *label;                  /* of the op; while code is emitted, its number */
    char *d;
    const char *a;
    union { const char *b; int64_t k; };
    union { const char *c; int64_t m; };
    union { int64_t n; char *f; };      /* elements, bytes, or how many ops to jump; */
    union { void *fn; char *e; };       /* e, f: where the results of a chain's first and second operation go */
    const char *g;                      /* of a call: bytes an element, at most; of a window: the bytes it moves in, or its second index (then n: those bytes) */
};

/* One component of where a window lies, which it moves by `step` bytes: a negative index is moved by `wrap`, and one beyond [0, top] is
 * bounded, or the window is left out. */
typedef struct { const char *index; int64_t wide, top, step, wrap, drop; } FgFlatStart;
static inline int64_t fg_flat_index(const char *index, int64_t wide) {
    int64_t v;
    int32_t narrow;
    if (wide) { memcpy(&v, index, 8); return v; }
    memcpy(&narrow, index, 4);
    return narrow;
}
static inline int fg_flat_offset(const FgFlatStart *s, int64_t n, int64_t *offset) {
    int there = 1;
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++, s++) {
        int64_t given = fg_flat_index(s->index, s->wide), v = given + ((given >> 63) & s->wrap), in = v < 0 ? 0 : v > s->top ? s->top : v;
        there &= in == v || !s->drop;
        sum += in * s->step;
    }
    *offset = sum;
    return there;
}

/* Up to 16 numbers of four bytes out of the vector `offset` bytes away: lane i, where the mask has its bit, takes number at[i]. */
typedef struct { int32_t at[16]; int64_t offset, mask; char rest[48]; } FgFlatWindow;

/* The same of bytes, of up to 64. */
typedef struct { uint8_t at[64]; int64_t offset; uint64_t mask; char rest[48]; } FgFlatPieces;
/* AVX2: of one half of a vector the bytes that the mask has, which lie side by side as those that begin `offset` away, or are all the one there (same). */
typedef struct { uint8_t mask[32]; int32_t offset, first, upper, same; char rest[16]; } FgFlatRun;

/* One step of a product of two matrices of up to 16 numbers: lane i adds number a[i] times number b[i]. */
typedef struct { int32_t a[16], b[16]; } FgFlatStep;
#if FG_FLAT_PERMUTES
FG_FOLD_CALL float fg_fold_dot(const char *a, const char *b, const FgFlatStep *s, int64_t n) {
    __m512 x = _mm512_loadu_ps(a), y = _mm512_loadu_ps(b), sum = _mm512_setzero_ps();
    for (int64_t i = 0; i < n; i++, s++)
        sum = _mm512_fmadd_ps(_mm512_permutexvar_ps(_mm512_load_si512(s->a), x), _mm512_permutexvar_ps(_mm512_load_si512(s->b), y), sum);
    return _mm512_cvtss_f32(sum);
}
/* Of two vectors whose numbers lie side by side: 16 products at a time, then lanes by halves. No step waits for the one before. */
FG_FOLD_CALL float fg_fold_line(const char *a, const char *b, int64_t n) {
    __m512 sum = _mm512_setzero_ps();
    for (int64_t i = 0; i < n; i += 16)
        sum = _mm512_mask3_fmadd_ps(_mm512_loadu_ps(a + 4 * i), _mm512_loadu_ps(b + 4 * i), sum, (__mmask16)(n - i < 16 ? (1 << (n - i)) - 1 : 0xffff));
    if (n > 8) sum = _mm512_add_ps(sum, _mm512_shuffle_f32x4(sum, sum, 0x4e));
    if (n > 4) sum = _mm512_add_ps(sum, _mm512_shuffle_f32x4(sum, sum, 0xb1));
    if (n > 2) sum = _mm512_add_ps(sum, _mm512_permute_ps(sum, 0x4e));
    return _mm512_cvtss_f32(_mm512_add_ps(sum, _mm512_permute_ps(sum, 0xb1)));
}
FG_FOLD_CALL double fg_fold_long_line(const char *a, const char *b, int64_t n) {
    __m512d sum = _mm512_setzero_pd();
    for (int64_t i = 0; i < n; i += 8)
        sum = _mm512_mask3_fmadd_pd(_mm512_loadu_pd(a + 8 * i), _mm512_loadu_pd(b + 8 * i), sum, (__mmask8)(n - i < 8 ? (1 << (n - i)) - 1 : 0xff));
    if (n > 4) sum = _mm512_add_pd(sum, _mm512_shuffle_f64x2(sum, sum, 0x4e));
    if (n > 2) sum = _mm512_add_pd(sum, _mm512_shuffle_f64x2(sum, sum, 0xb1));
    return _mm512_cvtsd_f64(_mm512_add_pd(sum, _mm512_permute_pd(sum, 0x55)));
}
#endif
/* The same of eight bytes: up to 16 numbers are two vectors. */
typedef struct { int64_t a[8], b[8]; } FgFlatLongStep;
#if FG_FLAT_PERMUTES
FG_FOLD_CALL __m512d fg_fold_long_dot(const char *a, const char *b, const FgFlatLongStep *s, int64_t n) {
    __m512d x = _mm512_loadu_pd(a), x2 = _mm512_loadu_pd(a + 64), y = _mm512_loadu_pd(b), y2 = _mm512_loadu_pd(b + 64), sum = _mm512_setzero_pd();
    for (int64_t i = 0; i < n; i++, s++)
        sum = _mm512_fmadd_pd(_mm512_permutex2var_pd(x, _mm512_load_si512(s->a), x2), _mm512_permutex2var_pd(y, _mm512_load_si512(s->b), y2), sum);
    return sum;
}
#endif

typedef float fg_v32 __attribute__((vector_size(64), may_alias));
typedef double fg_v64 __attribute__((vector_size(64), may_alias));
typedef int32_t fg_i32x16 __attribute__((vector_size(64), may_alias));
typedef int64_t fg_i64x8 __attribute__((vector_size(64), may_alias));
typedef int64_t fg_i64x4 __attribute__((vector_size(32), may_alias, aligned(1)));
typedef int16_t fg_i16x32 __attribute__((vector_size(64), may_alias));
typedef uint16_t fg_u16x32 __attribute__((vector_size(64), may_alias));
typedef uint8_t fg_u8x64 __attribute__((vector_size(64), may_alias));
typedef int8_t fg_i8x32 __attribute__((vector_size(32), may_alias));
typedef int8_t fg_i8x64 __attribute__((vector_size(64), may_alias));
typedef int8_t fg_i8x16 __attribute__((vector_size(16), may_alias));
typedef int8_t fg_i8x8 __attribute__((vector_size(8), may_alias));

/* Numbers of float32 rounded to 16 bits: n of them, one or a vector; calls, so that they keep no register of the interpreter's. */
static __attribute__((noinline)) void fg_flat_rounded(int dtype, float *d, const float *a, int64_t n) {
    uint16_t h[16];
    fg_narrow16(dtype, a, h, n);
    fg_widen16(dtype, h, d, n);
}
static __attribute__((noinline)) void fg_flat_widened(int dtype, float *d, const uint16_t *a, int64_t n) { fg_widen16(dtype, a, d, n); }
static __attribute__((noinline)) void fg_flat_narrowed(int dtype, uint16_t *d, const float *a, int64_t n) { fg_narrow16(dtype, a, d, n); }
#define FG_FLAT_ROUNDED(dtype, x, n) ({ __typeof__(x) r_ = x; fg_flat_rounded(dtype, (float *)&r_, (const float *)&r_, n); r_; })

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

#define FG_AT(T, p) (*(T __attribute__((may_alias)) *)(p))


/* Run code up to its `end`.  With ip NULL nothing runs: *labels is where the ops begin. */
static __attribute__((aligned(64))) int fg_flat_run(const FgFlatOp *ip, const void *const **labels) {
    #define FG_FLAT_L2(name, t, ...) &&L_##name##_##t##_mm, &&L_##name##_##t##_am, &&L_##name##_##t##_ma,
    #define FG_CHAIN_L1(t, T, acc, first) &&L_##t##_##first,
    #define FG_CHAIN_L2(t, T, acc, first, second) &&L_##t##_##first##_##second,
    #define FG_CHAIN_L3(t, T, acc, first, second, third) &&L_##t##_##first##_##second##_##third,
    #define FG_FLAT_L1(name, t, ...) &&L_##name##_##t##_m, &&L_##name##_##t##_a,
    #define FG_FLAT_LC(name, t, ...) &&L_##name##_##t,
    #define FG_FLAT_LU(name, t, ...) &&L_unless_##name##_##t,
    #define FG_FLAT_LA(name, t, ...) &&L_again_##name##_##t,
    #define FG_FLAT_LW(name, t, ...) &&L_where_##name##_##t,
    #define FG_FLAT_LV(name, t, expr, T, s, ...) &&L_where_##name##_##t##_##s,
    #define FG_FLAT_LS(t, ...) &&L_select_##t,
    #define FG_FLAT_LK(s, S, t, T) &&L_cast_##s##_##t,
    #define FG_FLAT_LO(name) &&L_##name,
    static const void *const table[FLAT_COUNT] = {
        FG_ALL_CHAINS(FG_CHAIN_L1, FG_CHAIN_L2, FG_CHAIN_L3) FG_FLAT_BIN(FG_FLAT_L2) FG_FLAT_UN(FG_FLAT_L1) FG_FLAT_COMPARE(FG_FLAT_LC)
        FG_FLAT_VECTOR_COMPARE(FG_FLAT_LC) FG_FLAT_BYTES(FG_FLAT_LC) FG_FLAT_WHERE(FG_FLAT_LW) FG_FLAT_VECTOR_SELECT(FG_FLAT_LS) FG_FLAT_SELECT(FG_FLAT_LS) FG_FLAT_CAST(FG_FLAT_LK)
        FG_FLAT_WHERE_ONE(FG_FLAT_LV) FG_FLAT_NARROW(FG_FLAT_LC) FG_FLAT_NARROW_COMPARE(FG_FLAT_LC) FG_FLAT_NARROW_CAST(FG_FLAT_LK) &&L_select_h1,
        FG_FLAT_TINY(FG_FLAT_LC) FG_FLAT_TINY_COMPARE(FG_FLAT_LC) &&L_select_q8, &&L_select_q16, FG_FLAT_HALF(FG_FLAT_LO)
        FG_FLAT_OTHER(FG_FLAT_LO) FG_FLAT_COMPARE_ONE(FG_FLAT_LU) FG_FLAT_COMPARE_ONE(FG_FLAT_LA)
        &&L_step, &&L_step_held};
    float accf = 0;
    double accd = 0;
    uint32_t acci = 0;
    uint64_t accl = 0;
    fg_v32 accv = {0};
    fg_v64 accw = {0};
    FgTurns turns = {32, 32, 0};
    int64_t until = turns.left, left = 0;   /* turns until the next look at the clock; those left of an innermost loop */
    const FgFlatOp *top = ip;               /* where its turns begin: an address that is loaded makes each turn wait for the one before */
    if (!ip) { *labels = table; return 0; }
#ifdef __x86_64__
    __asm__ volatile(".skip 32, 0x90");     /* where ops lie within lines decides how fast they are: measured at 0, 16, 32 and 48 */
#endif
    #define FG_GO goto *ip->label;
    #define FG_NEXT { ip++; FG_GO }
    #define FG_JUMP(by) { ip += (by); FG_GO }
    FG_GO
    #define M(name, t, T, acc, expr) \
        L_##name##_##t##_mm: { T x = FG_AT(T, ip->a), y = FG_AT(T, ip->b); acc = expr; FG_AT(T, ip->d) = acc; FG_NEXT } \
        L_##name##_##t##_am: { T x = acc, y = FG_AT(T, ip->b); acc = expr; FG_AT(T, ip->d) = acc; FG_NEXT } \
        L_##name##_##t##_ma: { T x = FG_AT(T, ip->a), y = acc; acc = expr; FG_AT(T, ip->d) = acc; FG_NEXT }
    FG_FLAT_BIN_FIRST(M)
    #undef M
    /* each result is stored before the next operand is read: they may be one */
    #define FG_DO_addm(T, acc) acc = FG_AT(T, ip->a) + FG_AT(T, ip->b);
    #define FG_DO_subm(T, acc) acc = FG_AT(T, ip->a) - FG_AT(T, ip->b);
    #define FG_DO_mulm(T, acc) acc = FG_AT(T, ip->a) * FG_AT(T, ip->b);
    #define FG_STEP_add(T, acc, z) acc = acc + FG_AT(T, z);
    #define FG_STEP_sub(T, acc, z) acc = acc - FG_AT(T, z);
    #define FG_STEP_rsub(T, acc, z) acc = FG_AT(T, z) - acc;
    #define FG_STEP_mul(T, acc, z) acc = acc * FG_AT(T, z);
    #define FG_DO_add(T, acc) FG_STEP_add(T, acc, ip->b)
    #define FG_DO_sub(T, acc) FG_STEP_sub(T, acc, ip->b)
    #define FG_DO_rsub(T, acc) FG_STEP_rsub(T, acc, ip->b)
    #define FG_DO_mul(T, acc) FG_STEP_mul(T, acc, ip->b)
    #define M1(t, T, acc, first) L_##t##_##first: FG_DO_##first(T, acc) FG_AT(T, ip->d) = acc; FG_NEXT
    #define M2(t, T, acc, first, second) L_##t##_##first##_##second: \
        FG_DO_##first(T, acc) FG_AT(T, ip->e) = acc; FG_STEP_##second(T, acc, ip->c) FG_AT(T, ip->d) = acc; FG_NEXT
    #define M3(t, T, acc, first, second, third) L_##t##_##first##_##second##_##third: \
        FG_DO_##first(T, acc) FG_AT(T, ip->e) = acc; FG_STEP_##second(T, acc, ip->c) FG_AT(T, ip->f) = acc; \
        FG_STEP_##third(T, acc, ip->g) FG_AT(T, ip->d) = acc; FG_NEXT
    FG_ALL_CHAINS(M1, M2, M3)
    #undef M1
    #undef M2
    #undef M3
    #define M(name, t, T, acc, expr) \
        L_##name##_##t##_m: { T x = FG_AT(T, ip->a); acc = expr; FG_AT(T, ip->d) = acc; FG_NEXT } \
        L_##name##_##t##_a: { T x = acc; acc = expr; FG_AT(T, ip->d) = acc; FG_NEXT }
    FG_FLAT_UN_FIRST(M)
    #undef M
    #define M(name, t, expr, T) L_##name##_##t: { T x = FG_AT(T, ip->a), y = FG_AT(T, ip->b); (void)y; *(uint8_t *)ip->d = (uint8_t)(expr); FG_NEXT }
    FG_FLAT_COMPARE(M)
    #undef M
    #define M(name, t, expr, T) L_##name##_##t: { T x = FG_AT(T, ip->a), y = FG_AT(T, ip->b); (void)y; FG_AT(T, ip->d) = (T)(expr); FG_NEXT }
    FG_FLAT_BYTES(M)
    #undef M
    #define M(name, t, expr, V, I, acc) L_where_##name##_##t: { V x = FG_AT(V, ip->a), y = FG_AT(V, ip->b); \
        acc = FG_FLAT_PICK(I, V, (I)(expr), FG_AT(I, ip->c), FG_AT(I, ip->g)); FG_AT(V, ip->d) = acc; FG_NEXT }
    FG_FLAT_WHERE(M)
    #undef M
    #define M(name, t, expr, V) L_##name##_##t: { V x = FG_AT(V, ip->a), y = FG_AT(V, ip->b); \
        FG_AT(FG_FLAT_BYTES_##t, ip->d) = __builtin_convertvector(expr, FG_FLAT_BYTES_##t) & 1; FG_NEXT }
    FG_FLAT_VECTOR_COMPARE_FIRST(M)
    #undef M
    #define M(t, V, acc) L_select_##t: { V m = __builtin_convertvector(FG_AT(FG_FLAT_BYTES_##t, ip->a), V) != 0; \
        acc = FG_FLAT_PICK(V, __typeof__(acc), m, FG_AT(V, ip->b), FG_AT(V, ip->c)); FG_AT(__typeof__(acc), ip->d) = acc; FG_NEXT }
    FG_FLAT_VECTOR_SELECT(M)
    #undef M
    #define M(t, T) L_select_##t: { T y = FG_AT(T, ip->b), z = FG_AT(T, ip->c); FG_AT(T, ip->d) = *(const uint8_t *)ip->a ? y : z; FG_NEXT }
    FG_FLAT_SELECT(M)
    #undef M
    #define M(s, S, t, T) L_cast_##s##_##t: { S x = FG_AT(S, ip->a); FG_AT(T, ip->d) = (T)x; FG_NEXT }
    FG_FLAT_CAST(M)
    #undef M
    /* numbers are moved as integers, for which there is a conditional move */
    #define M(name, t, expr, T, s, U, acc) L_where_##name##_##t##_##s: { T x = FG_AT(T, ip->a), y = FG_AT(T, ip->b); \
        U u = FG_AT(U, ip->c), v = FG_AT(U, ip->g); u = (expr) ? u : v; memcpy(&acc, &u, sizeof u); FG_AT(U, ip->d) = u; FG_NEXT }
    FG_FLAT_WHERE_ONE(M)
    #undef M
    L_choose: accv = FG_AT(fg_v32, *(const uint8_t *)ip->a ? ip->b : ip->c); FG_AT(fg_v32, ip->d) = accv; FG_NEXT   /* a whole vector by one bool */
    #define M(t, T) L_clamp_##t: { T x = FG_AT(T, ip->a), y = FG_AT(T, ip->b), z = FG_AT(T, ip->c); y = x > y ? x : y; FG_AT(T, ip->d) = y < z ? y : z; FG_NEXT }
    M(i32, int32_t) M(i64, int64_t)
    #undef M
    L_end: return FG_OK;
    L_fn: ((FgVmFn)ip->fn)(ip->n, ip->d, ip->a, ip->b, ip->c); FG_NEXT
    L_seg: ((FgVmSeg)ip->fn)(ip->d, ip->a, ip->a, ip->n, ip->k, ip->m); FG_NEXT
    L_sum_f32: {
        float x = FG_AT(float, ip->a);
        for (int64_t i = 1; i < ip->k; i++) x += FG_AT(float, ip->a + 4 * i);
        FG_AT(float, ip->d) = x;
        FG_NEXT
    }
    L_call: {
        const FgInst *inst = (const FgInst *)ip->a;
        int rc = inst->run(inst, (FgTensor *)ip->d);
        if (rc != FG_OK) return rc;
        FG_NEXT
    }
    /* m: the largest index, e: the bytes it moves the window by */
    #define FG_BOUND(end) int64_t at = FG_AT(int32_t, ip->b); end at = (at < 0 ? 0 : at > ip->m ? ip->m : at) * (intptr_t)ip->e;
    #define M(size, count) \
        L_take##size: { FG_BOUND() memcpy(ip->d, ip->a + at, count); FG_NEXT } \
        L_take##size##_end: { FG_BOUND(at += at >> 63 & (ip->m + 1);) memcpy(ip->d, ip->a + at, count); FG_NEXT } \
        L_put##size: { FG_BOUND() memcpy(ip->d + at, ip->a, count); FG_NEXT } \
        L_put##size##_in: { \
            int64_t at = FG_AT(int32_t, ip->b); \
            if ((uint64_t)at <= (uint64_t)ip->m) memcpy(ip->d + at * (intptr_t)ip->e, ip->a, count); \
            FG_NEXT } \
        L_takes##size: {                /* b: m starts; e: the plan, whose value is taken in place of a window that is left out */ \
            int64_t at; \
            const FgIndexPlan *g = (const FgIndexPlan *)ip->e; \
            if (fg_flat_offset((const FgFlatStart *)ip->b, ip->m, &at)) memcpy(ip->d, ip->a + at, count); \
            else for (int64_t i = 0; i < ip->n; i += g->item) memcpy(ip->d + i, g->value, g->item); \
            FG_NEXT } \
        L_puts##size: { \
            int64_t at; \
            if (fg_flat_offset((const FgFlatStart *)ip->b, ip->m, &at)) memcpy(ip->d + at, ip->a, count); \
            FG_NEXT }
    M(1, 1)
    M(4, 4)
    M(8, 8)
    M(, ip->n)
    #undef M
    #define FG_BOUND_SUM int64_t at = (int32_t)(FG_AT(uint32_t, ip->b) + FG_AT(uint32_t, ip->g)); at = (at < 0 ? 0 : at > ip->m ? ip->m : at) * (intptr_t)ip->e;
    #define M(size) \
        L_take##size##_sum: { FG_BOUND_SUM memcpy(ip->d, ip->a + at, size); FG_NEXT } \
        L_put##size##_sum: { FG_BOUND_SUM memcpy(ip->d + at, ip->a, size); FG_NEXT }
    M(4)
    M(8)
    #undef M
    #define M(t, T, acc) \
        L_take4_##t: { FG_BOUND() acc = FG_AT(T, ip->a + at); FG_AT(T, ip->d) = acc; FG_NEXT } \
        L_take4_sum_##t: { FG_BOUND_SUM acc = FG_AT(T, ip->a + at); FG_AT(T, ip->d) = acc; FG_NEXT } \
        L_put4_##t: { FG_BOUND() FG_AT(T, ip->d + at) = acc; FG_NEXT } \
        L_put4_in_##t: { \
            int64_t at = FG_AT(int32_t, ip->b); \
            if ((uint64_t)at <= (uint64_t)ip->m) FG_AT(T, ip->d + at * (intptr_t)ip->e) = acc; \
            FG_NEXT } \
        L_put4_sum_##t: { FG_BOUND_SUM FG_AT(T, ip->d + at) = acc; FG_NEXT }
    M(f32, float, accf)
    M(i32, uint32_t, acci)
    #undef M
    L_pack: {                       /* four single numbers of four bytes to a vector */
        uint32_t x = FG_AT(uint32_t, ip->a), y = FG_AT(uint32_t, ip->b), z = FG_AT(uint32_t, ip->c), w = FG_AT(uint32_t, ip->g);
        accv = (fg_v32)(fg_i32x16){(int)x, (int)y, (int)z, (int)w};
        FG_AT(fg_v32, ip->d) = accv;
        FG_NEXT
    }
    L_long_pack: {                  /* of eight bytes */
        int64_t x = FG_AT(int64_t, ip->a), y = FG_AT(int64_t, ip->b), z = FG_AT(int64_t, ip->c), w = FG_AT(int64_t, ip->g);
        accw = (fg_v64)(fg_i64x8){x, y, z, w};
        FG_AT(fg_v64, ip->d) = accw;
        FG_NEXT
    }
    L_lanes: {                      /* b: how many bytes away each of 16 numbers of four bytes is */
        const int32_t *at = (const int32_t *)ip->b;
        #define M(i) FG_AT(int32_t, ip->a + at[i])
        accv = (fg_v32)(fg_i32x16){M(0), M(1), M(2), M(3), M(4), M(5), M(6), M(7), M(8), M(9), M(10), M(11), M(12), M(13), M(14), M(15)};
        #undef M
        FG_AT(fg_v32, ip->d) = accv;
        FG_NEXT
    }
    L_permute: {                    /* as lanes, from n vectors */
#if FG_FLAT_PERMUTES
        const FgFlatWindow *w = (const FgFlatWindow *)ip->b;
        __m512i x = _mm512_setzero_si512();
        for (int64_t i = 0; i < ip->n; i++, w++)
            x = _mm512_mask_permutexvar_epi32(x, (__mmask16)w->mask, _mm512_load_si512(w->at), _mm512_load_si512(ip->a + w->offset));
        accv = (fg_v32)x;
        FG_AT(fg_v32, ip->d) = accv;
#endif
        FG_NEXT
    }
    L_dot: {                        /* products of numbers of the vectors at a and b, added up in the order of g, n steps */
#if FG_FLAT_PERMUTES
        const FgFlatStep *s = (const FgFlatStep *)ip->g;
        __m512 x = _mm512_loadu_ps(ip->a), y = _mm512_loadu_ps(ip->b), sum = _mm512_setzero_ps();
        for (int64_t i = 0; i < ip->n; i++, s++)
            sum = _mm512_fmadd_ps(_mm512_permutexvar_ps(_mm512_load_si512(s->a), x), _mm512_permutexvar_ps(_mm512_load_si512(s->b), y), sum);
        accv = (fg_v32)sum;
        FG_AT(fg_v32, ip->d) = accv;
#endif
        FG_NEXT
    }
    L_splat1: FG_AT(fg_i8x64, ip->d) = (fg_i8x64){0} + *(const int8_t *)ip->a; FG_NEXT
    L_splat4: accv = (fg_v32)((fg_i32x16){0} + FG_AT(int32_t, ip->a)); FG_AT(fg_v32, ip->d) = accv; FG_NEXT
    L_splat8: accw = (fg_v64)((fg_i64x8){0} + FG_AT(int64_t, ip->a)); FG_AT(fg_v64, ip->d) = accw; FG_NEXT
    L_copy1: *ip->d = *ip->a; FG_NEXT
    L_copy4: FG_AT(uint32_t, ip->d) = FG_AT(uint32_t, ip->a); FG_NEXT
    L_copy8: FG_AT(uint64_t, ip->d) = FG_AT(uint64_t, ip->a); FG_NEXT
    /* the first and the last 16 or 32 of n bytes */
    #define FG_ENDS(size, to, from) { char u[size], v[size]; const char *q = (from); char *r = (to); \
        memcpy(u, q, size); memcpy(v, q + ip->n - size, size); memcpy(r, u, size); memcpy(r + ip->n - size, v, size); }
    L_copy16: FG_ENDS(16, ip->d, ip->a) FG_NEXT
    L_copy32: FG_ENDS(32, ip->d, ip->a) FG_NEXT
    L_copy64: FG_AT(fg_v32, ip->d) = FG_AT(fg_v32, ip->a); FG_NEXT
    L_copy: if (ip->d != ip->a) memcpy(ip->d, ip->a, ip->n); FG_NEXT       /* a large operand may be where its result is */
    /* what a turn finds in a register, before the first one */
    L_hold_f32: accf = FG_AT(float, ip->a); FG_NEXT
    L_hold_f64: accd = FG_AT(double, ip->a); FG_NEXT
    L_hold_v32: accv = FG_AT(fg_v32, ip->a); FG_NEXT
    L_hold_v64: accw = FG_AT(fg_v64, ip->a); FG_NEXT
    L_hold_i32: acci = FG_AT(uint32_t, ip->a); FG_NEXT
    L_hold_i64: accl = FG_AT(uint64_t, ip->a); FG_NEXT
    L_gather: {                     /* m: itemsize; b: where each of n items is, in items */
        const int32_t *at = (const int32_t *)ip->b;
        #define M(T) for (int64_t i = 0; i < ip->n; i++) ((T *)ip->d)[i] = ((const T *)ip->a)[at[i]];
        FG_BY_SIZE(ip->m, M)
        #undef M
        FG_NEXT
    }
    L_scatter: {
        const int32_t *at = (const int32_t *)ip->b;
        #define M(T) for (int64_t i = 0; i < ip->n; i++) ((T *)ip->d)[at[i]] = ((const T *)ip->a)[i];
        FG_BY_SIZE(ip->m, M)
        #undef M
        FG_NEXT
    }
    L_items: ((void (*)(char *, const char *, const FgFlatItems *))ip->fn)(ip->d, ip->a, (const FgFlatItems *)ip->b); FG_NEXT   /* a, d: n and g bytes */
    /* every turn of a loop passes one of these */
    #define FG_TURN(by) { ip += (by); if (__builtin_expect(--until <= 0, 0)) goto look; FG_GO }
    look: if (fg_turns_look(&turns)) return FG_EPYTHON; until = turns.left; FG_GO
    L_jump: FG_TURN(ip->n)
    L_unless: FG_JUMP(*(const uint8_t *)ip->a ? 1 : ip->n)
    /* a comparison that only decides here; m: to the turn of a loop, or to a branch */
    #define M(name, t, expr, T) L_unless_##name##_##t: { T x = FG_AT(T, ip->a), y = FG_AT(T, ip->b); FG_TURN((expr) ? ip->m : ip->n) }
    FG_FLAT_COMPARE_ONE(M)
    #undef M
    L_branch: {                     /* a: the index; b: n jumps */
        int64_t i = FG_AT(int32_t, ip->a);
        FG_JUMP(((const int32_t *)ip->b)[i < 0 ? 0 : i >= ip->n ? ip->n - 1 : i])
    }
    L_branch2: FG_JUMP(((const int32_t *)ip->b)[*(const uint8_t *)ip->a != 0])
    L_set: FG_AT(int64_t, ip->d) = ip->n; FG_NEXT
    L_point: FG_AT(char *, ip->d) = FG_AT(char *, ip->a) + ip->n; FG_NEXT
    L_loop: FG_TURN(--FG_AT(int64_t, ip->d) ? ip->n : ip->k)     /* k: to behind the loop */
    /* of a loop without loops inside: k, n: to its first turn */
    #define FG_AGAIN(goes_on) { if (goes_on) ip = top; else ip += ip->n; if (__builtin_expect(--until <= 0, 0)) goto look; FG_GO }
    L_count: left = ip->n; top = ip + ip->k; FG_NEXT
    L_again: FG_AGAIN(--left)
    L_enter: top = ip + ip->n; FG_NEXT
    L_back: FG_AGAIN(1)
    #define M(name, t, expr, T) L_again_##name##_##t: { T x = FG_AT(T, ip->a), y = FG_AT(T, ip->b); FG_AGAIN(expr) }
    FG_FLAT_COMPARE_ONE(M)
    #undef M
    /* a sum, then again while that is less than c */
    #define FG_STEP(x) { acci = (x) + FG_AT(uint32_t, ip->b); FG_AT(uint32_t, ip->d) = acci; FG_AGAIN((int32_t)acci < FG_AT(int32_t, ip->c)) }
    L_step: FG_STEP(FG_AT(uint32_t, ip->a))
    L_step_held: FG_STEP(acci)
    /* from and to the row that a pointer is at, which moves on by k bytes */
    #define FG_MOVE(cell) { char *at = FG_AT(char *, cell); FG_AT(char *, cell) = at + ip->k;
    L_load4: FG_MOVE(ip->a) FG_AT(uint32_t, ip->d) = FG_AT(uint32_t, at); } FG_NEXT
    L_load8: FG_MOVE(ip->a) memcpy(ip->d, at, 8); } FG_NEXT
    /* as whole vectors: what reads one would wait long for a store of less */
    L_loadv8: { FG_MOVE(ip->a) int64_t x; memcpy(&x, at, 8); FG_AT(fg_i64x8, ip->d) = (fg_i64x8){x}; } FG_NEXT }
    L_loadv12: { FG_MOVE(ip->a) int64_t x; uint32_t y; memcpy(&x, at, 8); memcpy(&y, at + 8, 4);
        FG_AT(fg_i64x8, ip->d) = (fg_i64x8){x, y}; } FG_NEXT }
    L_loadv16: { FG_MOVE(ip->a) int64_t x, y; memcpy(&x, at, 8); memcpy(&y, at + 8, 8); FG_AT(fg_i64x8, ip->d) = (fg_i64x8){x, y}; } FG_NEXT }
    L_loadv32: { FG_MOVE(ip->a) fg_i64x4 u = *(const fg_i64x4 *)at, z = {0};
        FG_AT(fg_i64x8, ip->d) = __builtin_shufflevector(u, z, 0, 1, 2, 3, 4, 5, 6, 7); } FG_NEXT }
    L_loadv: {                      /* n bytes; m: which numbers of the last vector */
#if FG_FLAT_PERMUTES
        int64_t i = 0;
        FG_MOVE(ip->a)
            for (; i + 64 < ip->n; i += 64) _mm512_store_si512(ip->d + i, _mm512_loadu_si512(at + i));
            _mm512_store_si512(ip->d + i, _mm512_maskz_loadu_epi32((__mmask16)ip->m, at + i)); }
#endif
        FG_NEXT
    }
    L_load16: FG_MOVE(ip->a) FG_ENDS(16, ip->d, at) } FG_NEXT
    L_load32: FG_MOVE(ip->a) FG_ENDS(32, ip->d, at) } FG_NEXT
    L_load: FG_MOVE(ip->a) memcpy(ip->d, at, ip->n); } FG_NEXT
    L_store4: FG_MOVE(ip->d) FG_AT(uint32_t, at) = FG_AT(uint32_t, ip->a); } FG_NEXT
    L_store8: FG_MOVE(ip->d) memcpy(at, ip->a, 8); } FG_NEXT
    L_storev: {                     /* as loadv, from whole vectors: no call for a few bytes */
#if FG_FLAT_PERMUTES
        int64_t i = 0;
        FG_MOVE(ip->d)
            for (; i + 64 < ip->n; i += 64) _mm512_storeu_si512(at + i, _mm512_loadu_si512(ip->a + i));
            _mm512_mask_storeu_epi32(at + i, (__mmask16)ip->m, _mm512_loadu_si512(ip->a + i)); }
#endif
        FG_NEXT
    }
    L_store: FG_MOVE(ip->d) memcpy(at, ip->a, ip->n); } FG_NEXT
    /* behind the others, whose places in the code decide how fast they are */
    #define M(name, t, T, acc, expr) \
        L_##name##_##t##_mm: { T x = FG_AT(T, ip->a), y = FG_AT(T, ip->b); acc = expr; FG_AT(T, ip->d) = acc; FG_NEXT } \
        L_##name##_##t##_am: { T x = acc, y = FG_AT(T, ip->b); acc = expr; FG_AT(T, ip->d) = acc; FG_NEXT } \
        L_##name##_##t##_ma: { T x = FG_AT(T, ip->a), y = acc; acc = expr; FG_AT(T, ip->d) = acc; FG_NEXT }
    FG_FLAT_INTEGERS(M) FG_FLAT_LONGS(M)
    #undef M
    #define M(name, t, expr, V) L_##name##_##t: { V x = FG_AT(V, ip->a), y = FG_AT(V, ip->b); \
        FG_AT(FG_FLAT_BYTES_##t, ip->d) = __builtin_convertvector(expr, FG_FLAT_BYTES_##t) & 1; FG_NEXT }
    FG_FLAT_COMPARE_OF(M, w32, fg_i32x16)
    #undef M
    #define M(name, t, expr, T) L_##name##_##t: { T x = FG_AT(T, ip->a), y = FG_AT(T, ip->b); (void)y; FG_AT(T, ip->d) = (T)(expr); FG_NEXT }
    FG_FLAT_NARROW(M)
    #undef M
    #define M(name, t, expr, T) L_##name##_##t: { T x = FG_AT(T, ip->a), y = FG_AT(T, ip->b); *(uint8_t *)ip->d = (uint8_t)(expr); FG_NEXT }
    FG_FLAT_NARROW_COMPARE(M)
    #undef M
    #define M(s, S, t, T) L_cast_##s##_##t: { S x = FG_AT(S, ip->a); FG_AT(T, ip->d) = (T)x; FG_NEXT }
    FG_FLAT_NARROW_CAST(M)
    #undef M
    L_select_h1: { uint16_t y = FG_AT(uint16_t, ip->b), z = FG_AT(uint16_t, ip->c); FG_AT(uint16_t, ip->d) = *(const uint8_t *)ip->a ? y : z; FG_NEXT }
    #define M(name, t, expr, V) L_##name##_##t: { V x = FG_AT(V, ip->a), y = FG_AT(V, ip->b); (void)y; FG_AT(V, ip->d) = (V)(expr); FG_NEXT }
    FG_FLAT_TINY(M)
    #undef M
    #define FG_TINY_q8(m) FG_AT(fg_i8x64, ip->d) = (fg_i8x64)(m) & 1;
    #define FG_TINY_s8(m) FG_TINY_q8(m)
    #define FG_TINY_q16(m) FG_AT(fg_i8x32, ip->d) = __builtin_convertvector((fg_i16x32)(m), fg_i8x32) & 1;
    #define FG_TINY_s16(m) FG_TINY_q16(m)
    #define M(name, t, expr, V) L_##name##_##t: { V x = FG_AT(V, ip->a), y = FG_AT(V, ip->b); FG_TINY_##t(expr) FG_NEXT }
    FG_FLAT_TINY_COMPARE(M)
    #undef M
    #undef FG_TINY_q8
    #undef FG_TINY_s8
    #undef FG_TINY_q16
    #undef FG_TINY_s16
    L_select_q8: { fg_i8x64 m = FG_AT(fg_i8x64, ip->a) != 0; FG_AT(fg_i8x64, ip->d) = FG_FLAT_PICK(fg_i8x64, fg_i8x64, m, FG_AT(fg_i8x64, ip->b), FG_AT(fg_i8x64, ip->c)); FG_NEXT }
    L_select_q16: { fg_i16x32 m = __builtin_convertvector(FG_AT(fg_i8x32, ip->a), fg_i16x32) != 0;
        FG_AT(fg_i16x32, ip->d) = FG_FLAT_PICK(fg_i16x32, fg_i16x32, m, FG_AT(fg_i16x32, ip->b), FG_AT(fg_i16x32, ip->c)); FG_NEXT }
    #define M(name, t, T, acc, expr) \
        L_##name##_##t##_m: { T x = FG_AT(T, ip->a); acc = expr; FG_AT(T, ip->d) = acc; FG_NEXT } \
        L_##name##_##t##_a: { T x = acc; acc = expr; FG_AT(T, ip->d) = acc; FG_NEXT }
    FG_FLAT_ROUND(M)
    #undef M
    #define M(t, T) \
        L_widen_##t: fg_flat_widened(T, (float *)ip->d, (const uint16_t *)ip->a, 16); accv = FG_AT(fg_v32, ip->d); FG_NEXT \
        L_widen1_##t: fg_flat_widened(T, (float *)ip->d, (const uint16_t *)ip->a, 1); accf = FG_AT(float, ip->d); FG_NEXT \
        L_narrow_##t: fg_flat_narrowed(T, (uint16_t *)ip->d, (const float *)ip->a, 16); FG_NEXT \
        L_narrow1_##t: fg_flat_narrowed(T, (uint16_t *)ip->d, (const float *)ip->a, 1); FG_NEXT
    M(bf16, FG_BF16) M(f16, FG_F16)
    #undef M
    L_bytes: {                      /* as permute, of bytes */
#if FG_FLAT_PERMUTES_BYTES
        const FgFlatPieces *w = (const FgFlatPieces *)ip->b;
        __m512i x = _mm512_setzero_si512();
        for (int64_t i = 0; i < ip->n; i++, w++)
            x = _mm512_mask_permutexvar_epi8(x, (__mmask64)w->mask, _mm512_load_si512(w->at), _mm512_load_si512(ip->a + w->offset));
        _mm512_store_si512(ip->d, x);
#endif
        FG_NEXT
    }
    L_splat2: FG_AT(fg_i16x32, ip->d) = (fg_i16x32){0} + FG_AT(int16_t, ip->a); FG_NEXT
#if FG_FLAT_PERMUTES
    #define M(name) L_##name: \
        accv = (fg_v32)fg_fold_##name((__m512)accv, ip->a, (const FgFlatFold *)ip->b, (FgVmSeg)ip->fn, ip->d); FG_AT(fg_v32, ip->d) = accv; FG_NEXT
    M(sums1) M(sums2) M(sums4) M(maxima1) M(maxima2) M(maxima4) M(minima1) M(minima2) M(minima4)
    #undef M
    #define M(name) L_##name: accv = (fg_v32)fg_fold_##name((__m512)accv, ip->a, (const FgFlatFold *)ip->b); FG_AT(fg_v32, ip->d) = accv; FG_NEXT
    M(argmaxima1) M(argmaxima2) M(argmaxima4) M(argminima1) M(argminima2) M(argminima4)
    #undef M
    L_permute1: {
        const FgFlatWindow *w = (const FgFlatWindow *)ip->b;
        accv = (fg_v32)_mm512_maskz_permutexvar_ps((__mmask16)w->mask, _mm512_load_si512(w->at), (__m512)accv);
        FG_AT(fg_v32, ip->d) = accv;
        FG_NEXT
    }
    L_argmax: acci = (uint32_t)fg_fold_argmax(ip->a, ip->n); FG_AT(uint32_t, ip->d) = acci; FG_NEXT
    L_argmin: acci = (uint32_t)fg_fold_argmin(ip->a, ip->n); FG_AT(uint32_t, ip->d) = acci; FG_NEXT
    L_dot1: accf = ip->g ? fg_fold_dot(ip->a, ip->b, (const FgFlatStep *)ip->g, ip->n) : fg_fold_line(ip->a, ip->b, ip->n);   /* as dot, of one number */
        FG_AT(float, ip->d) = accf; FG_NEXT
    L_long_dot1: accd = ip->g ? _mm512_cvtsd_f64(fg_fold_long_dot(ip->a, ip->b, (const FgFlatLongStep *)ip->g, ip->n)) : fg_fold_long_line(ip->a, ip->b, ip->n);
        FG_AT(double, ip->d) = accd; FG_NEXT
    L_long_dot: accw = (fg_v64)fg_fold_long_dot(ip->a, ip->b, (const FgFlatLongStep *)ip->g, ip->n); FG_AT(fg_v64, ip->d) = accw; FG_NEXT
#else
    #define M(name) L_##name:
    FG_FLAT_FOLDS(M) M(long_dot1) M(long_dot) L_dot1: FG_NEXT
    #undef M
#endif
}
#endif
