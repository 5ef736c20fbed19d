/* Stages: operations on a strip of eight vectors that stays in registers from one stage to the next.
 *
 * A program of stages runs over a tile strip by strip; its values are loaded once, a result is stored where it leaves the program or
 * has to wait in the first cache, and all else happens in registers while the next strip's memory is on its way. Each stage is a
 * function that ends by calling the next one with the same arguments, which the compiler makes a jump. Each result is rounded, as
 * in loops of one operation (this is built without contraction).
 *
 * The strip is a stage's first operand x; the second one, y, is a vector of the tile or of the strip's scratch, or one value:
 * forms V and ONE; in forms RV and R1 the strip is the second operand. Comparisons give lanes of all bits or none. */
#ifndef FG_VM_STRIP_H
#define FG_VM_STRIP_H
#include "mask_bytes.h"
#include "vec_special.h"
#include "vec_quotient.h"
#include "vm_stage.h"
#include "vm_ops.h"

/* A store takes two cycles a vector, a load one: what a strip reads twice waits in a bank of registers, where there are enough. Only the module
 * of the stages does without these registers. */
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
#define FG_BANKS 2
#include "vm_registers.h"
#else
#define FG_BANKS 0
#endif

#define FG_NEXT return s[1].fn(s + 1, ptr, at, r0, r1, r2, r3, r4, r5, r6, r7);
#define FG_EIGHT(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
/* one value in all lanes, by its bits */
#define FG_ALL_LANES(t, p) ((fg_w_##t)((fg_m_##t){0} + *(const fg_1_##t *)(p)))

/* m ? u : v by lanes; FG_WHERE_t(how, x, y, u, v) with how one of LT, LE, EQ, NE */
#define FG_LANES_LT(x, y) ((x) < (y))
#define FG_LANES_LE(x, y) ((x) <= (y))
#define FG_LANES_EQ(x, y) ((x) == (y))
#define FG_LANES_NE(x, y) ((x) != (y))
#define FG_PICKED(t, m, u, v) ((fg_w_##t)(((fg_m_##t)(u) & (m)) | ((fg_m_##t)(v) & ~(m))))
#define FG_WHERE_LANES(t, how, x, y, u, v) ({ fg_m_##t m_ = FG_LANES_##how(x, y); FG_PICKED(t, m_, u, v); })
#ifdef __AVX512F__
#define FG_CMP_LT _CMP_LT_OQ
#define FG_CMP_LE _CMP_LE_OQ
#define FG_CMP_EQ _CMP_EQ_OQ
#define FG_CMP_NE _CMP_NEQ_UQ
#define FG_WHERE_f32(how, x, y, u, v) \
    (fg_w_f32)_mm512_mask_blend_ps(_mm512_cmp_ps_mask((__m512)(x), (__m512)(y), FG_CMP_##how), (__m512)(v), (__m512)(u))
#define FG_WHERE_f64(how, x, y, u, v) \
    (fg_w_f64)_mm512_mask_blend_pd(_mm512_cmp_pd_mask((__m512d)(x), (__m512d)(y), FG_CMP_##how), (__m512d)(v), (__m512d)(u))
#define FG_EXTREME(t, f, x, y) (fg_w_##t)f((__m512i)(x), (__m512i)(y))
#define FG_GREATER_i32(x, y) FG_EXTREME(i32, _mm512_max_epi32, x, y)
#define FG_GREATER_u32(x, y) FG_EXTREME(u32, _mm512_max_epu32, x, y)
#define FG_GREATER_i64(x, y) FG_EXTREME(i64, _mm512_max_epi64, x, y)
#define FG_GREATER_u64(x, y) FG_EXTREME(u64, _mm512_max_epu64, x, y)
#define FG_LESSER_i32(x, y) FG_EXTREME(i32, _mm512_min_epi32, x, y)
#define FG_LESSER_u32(x, y) FG_EXTREME(u32, _mm512_min_epu32, x, y)
#define FG_LESSER_i64(x, y) FG_EXTREME(i64, _mm512_min_epi64, x, y)
#define FG_LESSER_u64(x, y) FG_EXTREME(u64, _mm512_min_epu64, x, y)
#define FG_SQRT_f32(x) (fg_w_f32)_mm512_sqrt_ps((__m512)(x))
#define FG_RSQRT_f32(x) vec_rsqrt_f32((vec_f32)(x))
#define FG_SQRT_f64(x) (fg_w_f64)_mm512_sqrt_pd((__m512d)(x))
#define FG_ROUND_f32(x, mode, f) (fg_w_f32)_mm512_roundscale_ps((__m512)(x), mode)
#define FG_ROUND_f64(x, mode, f) (fg_w_f64)_mm512_roundscale_pd((__m512d)(x), mode)
#else
#define FG_WHERE_f32(how, x, y, u, v) FG_WHERE_LANES(f32, how, x, y, u, v)
#define FG_WHERE_f64(how, x, y, u, v) FG_WHERE_LANES(f64, how, x, y, u, v)
#define FG_GREATER_OF(t, x, y) ({ fg_w_##t p_ = (x), q_ = (y); fg_m_##t m_ = p_ > q_; FG_PICKED(t, m_, p_, q_); })
#define FG_LESSER_OF(t, x, y) ({ fg_w_##t p_ = (x), q_ = (y); fg_m_##t m_ = p_ < q_; FG_PICKED(t, m_, p_, q_); })
#define FG_GREATER_i32(x, y) FG_GREATER_OF(i32, x, y)
#define FG_GREATER_u32(x, y) FG_GREATER_OF(u32, x, y)
#define FG_GREATER_i64(x, y) FG_GREATER_OF(i64, x, y)
#define FG_GREATER_u64(x, y) FG_GREATER_OF(u64, x, y)
#define FG_LESSER_i32(x, y) FG_LESSER_OF(i32, x, y)
#define FG_LESSER_u32(x, y) FG_LESSER_OF(u32, x, y)
#define FG_LESSER_i64(x, y) FG_LESSER_OF(i64, x, y)
#define FG_LESSER_u64(x, y) FG_LESSER_OF(u64, x, y)
#ifdef __AVX__
#define FG_SQRT_f32(x) (fg_w_f32)_mm256_sqrt_ps((__m256)(x))
#define FG_SQRT_f64(x) (fg_w_f64)_mm256_sqrt_pd((__m256d)(x))
#define FG_ROUND_f32(x, mode, f) (fg_w_f32)_mm256_round_ps((__m256)(x), mode)
#define FG_ROUND_f64(x, mode, f) (fg_w_f64)_mm256_round_pd((__m256d)(x), mode)
#else
#define FG_BY_LANES(t, x, f) ({ fg_w_##t r_ = (x); for (int l_ = 0; l_ < (int)(FG_VEC / sizeof r_[0]); l_++) r_[l_] = f(r_[l_]); r_; })
#define FG_SQRT_f32(x) FG_BY_LANES(f32, x, sqrtf)
#define FG_SQRT_f64(x) FG_BY_LANES(f64, x, sqrt)
#endif
#define FG_RSQRT_f32(x) (1 / FG_SQRT_f32(x))
#endif
#define FG_GREATER_f32(x, y) FG_WHERE_f32(NE, x, x, x, vec_max_f32(x, y))          /* x where it is NaN, as FG_MAX */
#define FG_GREATER_f64(x, y) FG_WHERE_f64(NE, x, x, x, vec_max_f64(x, y))
#define FG_LESSER_f32(x, y) FG_WHERE_f32(NE, x, x, x, vec_min_f32(x, y))
#define FG_LESSER_f64(x, y) FG_WHERE_f64(NE, x, x, x, vec_min_f64(x, y))

/* What an operation computes from x and y, of lanes t. */
#define FG_DO_add(t, x, y) ((x) + (y))
#define FG_DO_sub(t, x, y) ((x) - (y))
#define FG_DO_mul(t, x, y) ((x) * (y))
#define FG_DO_div(t, x, y) ((x) / (y))
#define FG_DO_max(t, x, y) FG_GREATER_##t(x, y)
#define FG_DO_min(t, x, y) FG_LESSER_##t(x, y)
/* with a constant y that is not NaN: x where they are equal or x is NaN; _zero: y = +0 where x is -0 */
#define FG_DO_max_known(t, x, y) vec_max_##t(y, x)
#define FG_DO_min_known(t, x, y) vec_min_##t(y, x)
/* _else: y where they are equal or x is NaN */
#define FG_DO_max_else(t, x, y) vec_max_##t(x, y)
#define FG_DO_min_else(t, x, y) vec_min_##t(x, y)
#define FG_DO_max_zero(t, x, y) (vec_max_##t(y, x) + (y))
#define FG_DO_min_zero(t, x, y) (vec_min_##t(y, x) + (y))
#define FG_DO_square(t, x, y) ((x) * (x))
#define FG_DO_neg(t, x, y) (-(x))
#define FG_ABS_f32(x) ((fg_w_f32)((fg_m_f32)(x) & ~FG_SIGN_LANES_f32))
#define FG_ABS_f64(x) ((fg_w_f64)((fg_m_f64)(x) & ~FG_SIGN_LANES_f64))
#define FG_ABS_i32(x) FG_GREATER_i32(x, -(x))
#define FG_ABS_i64(x) FG_GREATER_i64(x, -(x))
#define FG_DO_abs(t, x, y) FG_ABS_##t(x)
#define FG_DO_recip(t, x, y) (1 / (x))
#define FG_DO_sqrt(t, x, y) FG_SQRT_##t(x)
#define FG_RSQRT_f64(x) (1 / FG_SQRT_f64(x))
#define FG_DO_rsqrt(t, x, y) FG_RSQRT_##t(x)
#define FG_DO_floor(t, x, y) FG_ROUND_##t(x, 9, floor)
#define FG_DO_ceil(t, x, y) FG_ROUND_##t(x, 10, ceil)
#define FG_DO_trunc(t, x, y) FG_ROUND_##t(x, 11, trunc)
#define FG_DO_round_even(t, x, y) FG_ROUND_##t(x, 8, rint)
#define FG_DO_copysign(t, x, y) \
    ((fg_w_##t)(((fg_m_##t)(x) & ~FG_SIGN_LANES_##t) | ((fg_m_##t)(y) & FG_SIGN_LANES_##t)))
#define FG_DO_sign(t, x, y) \
    FG_WHERE_##t(LT, (fg_w_##t){0}, x, (fg_w_##t){0} + 1, FG_WHERE_##t(LT, x, (fg_w_##t){0}, (fg_w_##t){0} - 1, x))
#define FG_DO_is_finite(t, x, y) (FG_DO_abs(t, x, y) < (fg_w_##t){0} + (__typeof__((x)[0]))INFINITY)
#define FG_DO_lt(t, x, y) ((x) < (y))
#define FG_DO_le(t, x, y) ((x) <= (y))
#define FG_DO_gt(t, x, y) ((x) > (y))
#define FG_DO_ge(t, x, y) ((x) >= (y))
#define FG_DO_eq(t, x, y) ((x) == (y))
#define FG_DO_ne(t, x, y) ((x) != (y))
#define FG_DO_and(t, x, y) ((x) & (y))
#define FG_DO_or(t, x, y) ((x) | (y))
#define FG_DO_xor(t, x, y) ((x) ^ (y))
#define FG_DO_not(t, x, y) (~(x))
/* shifts by as many bits as there are, or more, shift all out */
#define FG_BITS_LESS_1(t) ((fg_m_##t){0} + (int)(8 * sizeof((fg_m_##t){0}[0]) - 1))
#define FG_TOO_FAR_u32(y) ((fg_m_u32)((y) > (fg_w_u32)FG_BITS_LESS_1(u32)))
#define FG_TOO_FAR_u64(y) ((fg_m_u64)((y) > (fg_w_u64)FG_BITS_LESS_1(u64)))
#define FG_DO_shl(t, x, y) ((fg_w_##t)((fg_m_##t)((x) << ((y) & (fg_w_##t)FG_BITS_LESS_1(t))) & ~FG_TOO_FAR_##t(y)))
#define FG_DO_shr_logical(t, x, y) ((fg_w_##t)((fg_m_##t)((x) >> ((y) & (fg_w_##t)FG_BITS_LESS_1(t))) & ~FG_TOO_FAR_##t(y)))
#define FG_DO_shr_arith(t, x, y) ({ \
    fg_m_##t s_ = (fg_m_##t)(y), far_ = FG_TOO_FAR_##t(y); \
    (fg_w_##t)((fg_m_##t)(x) >> ((FG_BITS_LESS_1(t) & far_) | (s_ & ~far_))); })
/* by a constant that is less than the number of bits */
#define FG_DO_shl_known(t, x, y) ((x) << (y))
#define FG_DO_shr_logical_known(t, x, y) ((x) >> (y))
#define FG_DO_shr_arith_known(t, x, y) ((fg_m_##t)(x) >> (fg_m_##t)(y))
#define FG_SIGN_LANES_f32 ((fg_m_f32){0} + INT32_MIN)
#define FG_SIGN_LANES_f64 ((fg_m_f64){0} + INT64_MIN)

/* A step's result is there before the next step begins: with all of eight comparisons first, there are too few mask registers. */
#ifdef __AVX512F__
#define FG_SETTLE(r) __asm__ volatile("" : "+v"(r));
#else
#define FG_SETTLE(r)
#endif
/* Stages: a step for each of the eight vectors.  Y: where the second operand comes from. */
#define FG_Y_NONE(t, k) ((fg_w_##t){0})
#define FG_Y_V(t, k) p[k]
#define FG_Y_ONE(t, k) one
#define FG_Y_BANK0(t, k) ((fg_w_##t)fg_bank0##k)
#define FG_Y_BANK1(t, k) ((fg_w_##t)fg_bank1##k)
#define FG_STEP(op, t, k, Y) { FG_UNUSED fg_w_##t x = (fg_w_##t)r##k, y = Y(t, k); r##k = (fg_m_i32)(FG_DO_##op(t, x, y)); FG_SETTLE(r##k) }
#define FG_TURN(op, t, k, Y) { fg_w_##t x = Y(t, k), y = (fg_w_##t)r##k; r##k = (fg_m_i32)(FG_DO_##op(t, x, y)); FG_SETTLE(r##k) }
#define FG_STEPS(M, op, t, Y) M(op, t, 0, Y) M(op, t, 1, Y) M(op, t, 2, Y) M(op, t, 3, Y) M(op, t, 4, Y) M(op, t, 5, Y) M(op, t, 6, \
    Y) M(op, t, 7, Y)
#define FG_UNUSED __attribute__((unused))
#define FG_LOCAL_NONE(t)
#define FG_LOCAL_BANK0(t)
#define FG_LOCAL_BANK1(t)
#define FG_LOCAL_V(t) const fg_p_##t *p = (const fg_p_##t *)FG_AT(a);
#define FG_LOCAL_ONE(t) const fg_w_##t one = FG_ALL_LANES(t, ptr[s->a]);
#define FG_AT(k) (ptr[s->k] + (at & s->move_##k))
#define FG_STAGE(M, op, form, Y, t) static void stage_##op##_##form##_##t(FG_STAGE_ARGS) { FG_LOCAL_##Y(t) FG_STEPS(M, op, t, \
    FG_Y_##Y) FG_NEXT }
#if FG_BANKS
#define FG_BANKED(op, t) FG_STAGE(FG_STEP, op, BANK0, BANK0, t) FG_STAGE(FG_STEP, op, BANK1, BANK1, t)
#define FG_BANKED_TURNED(op, t) FG_STAGE(FG_TURN, op, RBANK0, BANK0, t) FG_STAGE(FG_TURN, op, RBANK1, BANK1, t)
#else
#define FG_BANKED(op, t)
#define FG_BANKED_TURNED(op, t)
#endif
#define FG_UNARY(op, t) FG_STAGE(FG_STEP, op, V, NONE, t)
#define FG_BINARY(op, t) FG_STAGE(FG_STEP, op, V, V, t) FG_STAGE(FG_STEP, op, ONE, ONE, t) FG_BANKED(op, t)
#define FG_BOTH_WAYS(op, t) FG_BINARY(op, t) FG_STAGE(FG_TURN, op, RV, V, t) FG_STAGE(FG_TURN, op, R1, ONE, t) \
    FG_BANKED_TURNED(op, t)
#define FG_KNOWN(op, t) FG_STAGE(FG_STEP, op, ONE, ONE, t)

/* The operations of each kind: symmetric in their operands, others of two, of one. */
#define FG_FLOATS_EVEN(M, t) M(add, t) M(mul, t) M(eq, t) M(ne, t)
#define FG_FLOATS_TWO(M, t) M(sub, t) M(div, t) M(max, t) M(min, t) M(copysign, t) M(lt, t) M(le, t) M(gt, t) M(ge, t)
#define FG_FLOATS_EXACT(M, t) M(square, t) M(neg, t) M(abs, t) M(recip, t) M(sign, t) M(is_finite, t) M(sqrt, t) M(rsqrt, t)
#ifdef __AVX__
#define FG_FLOATS_ONE(M, t) FG_FLOATS_EXACT(M, t) M(floor, t) M(ceil, t) M(trunc, t) M(round_even, t)
#else
#define FG_FLOATS_ONE(M, t) FG_FLOATS_EXACT(M, t)
#endif
#define FG_BITS_EVEN(M, t) M(add, t) M(mul, t) M(and, t) M(or, t) M(xor, t) M(eq, t) M(ne, t)
#define FG_BITS_TWO(M, t) M(sub, t) M(shl, t) M(shr_logical, t) M(shr_arith, t)
#define FG_BITS_ONE(M, t) M(square, t) M(neg, t) M(not, t)
#define FG_SIGNED_ONE(M, t) M(abs, t)
#define FG_ORDER_EVEN(M, t) M(max, t) M(min, t)
#define FG_ORDER_TWO(M, t) M(lt, t) M(le, t) M(gt, t) M(ge, t)
#define FG_FLOAT_STAGES(t) FG_FLOATS_EVEN(FG_BINARY, t) FG_FLOATS_TWO(FG_BOTH_WAYS, t) FG_FLOATS_ONE(FG_UNARY, t) \
    FG_KNOWN(max_known, t) FG_KNOWN(min_known, t) FG_KNOWN(max_zero, t) FG_KNOWN(min_zero, t) FG_KNOWN(max_else, t) FG_KNOWN(min_else, t)
#define FG_BIT_STAGES(t) FG_BITS_EVEN(FG_BINARY, t) FG_BITS_TWO(FG_BOTH_WAYS, t) FG_BITS_ONE(FG_UNARY, t) \
    FG_KNOWN(shl_known, t) FG_KNOWN(shr_logical_known, t) FG_KNOWN(shr_arith_known, t)
#define FG_ORDER_STAGES(t) FG_ORDER_EVEN(FG_BINARY, t) FG_ORDER_TWO(FG_BOTH_WAYS, t)
FG_FLOAT_STAGES(f32) FG_FLOAT_STAGES(f64) FG_BIT_STAGES(u32) FG_BIT_STAGES(u64)
FG_ORDER_STAGES(i32) FG_ORDER_STAGES(i64) FG_ORDER_STAGES(u32) FG_ORDER_STAGES(u64) FG_SIGNED_ONE(FG_UNARY, i32) FG_SIGNED_ONE(FG_UNARY, i64)

/* Two stages in one, of the operations that take a cycle a vector: a stage costs three more on top. Links: operation, form. */
#define FG_LINKS_float(M, ...) M(add, V, V, 0, __VA_ARGS__) M(add, ONE, ONE, 0, __VA_ARGS__) M(mul, V, V, 0, __VA_ARGS__) M(mul, ONE, \
    ONE, 0, __VA_ARGS__) \
    M(sub, V, V, 0, __VA_ARGS__) M(sub, ONE, ONE, 0, __VA_ARGS__) M(sub, RV, V, 1, __VA_ARGS__) M(sub, R1, ONE, 1, __VA_ARGS__) \
    M(square, V, NONE, 0, __VA_ARGS__) M(max_known, ONE, ONE, 0, __VA_ARGS__) M(min_known, ONE, ONE, 0, __VA_ARGS__)
#define FG_LINKS_int(M, ...) M(add, V, V, 0, __VA_ARGS__) M(add, ONE, ONE, 0, __VA_ARGS__) M(mul, V, V, 0, __VA_ARGS__) M(mul, ONE, \
    ONE, 0, __VA_ARGS__) \
    M(sub, V, V, 0, __VA_ARGS__) M(sub, RV, V, 1, __VA_ARGS__) M(and, V, V, 0, __VA_ARGS__) M(and, ONE, ONE, 0, __VA_ARGS__) \
    M(or, V, V, 0, __VA_ARGS__) M(xor, V, V, 0, __VA_ARGS__) M(xor, ONE, ONE, 0, __VA_ARGS__) \
    M(shl_known, ONE, ONE, 0, __VA_ARGS__) M(shr_logical_known, ONE, ONE, 0, __VA_ARGS__) M(shr_arith_known, ONE, ONE, 0, __VA_ARGS__)
#define FG_Z_NONE(t, k) ((fg_w_##t){0})
#define FG_Z_V(t, k) q[k]
#define FG_Z_ONE(t, k) other
#define FG_LOCAL2_NONE(t)
#define FG_LOCAL2_V(t) const fg_p_##t *q = (const fg_p_##t *)FG_AT(b);
#define FG_LOCAL2_ONE(t) const fg_w_##t other = FG_ALL_LANES(t, ptr[s->b]);
#define FG_DO_0(op, t, x, y) (fg_w_##t)FG_DO_##op(t, x, y)
#define FG_DO_1(op, t, x, y) (fg_w_##t)FG_DO_##op(t, y, x)
#define FG_BOTH(op, Y, turn, op2, Z, turn2, t, k) { FG_UNUSED fg_w_##t x = (fg_w_##t)r##k, y = Y(t, k), z = Z(t, k), w = \
    FG_DO_##turn(op, t, x, y); \
    r##k = (fg_m_i32)FG_DO_##turn2(op2, t, w, z); }
#define FG_PAIR(op2, form2, Z, turn2, op, form, Y, turn, t) static void pair_##op##_##form##_##op2##_##form2##_##t(FG_STAGE_ARGS) { \
    FG_LOCAL_##Y(t) FG_LOCAL2_##Z(t) \
    FG_BOTH(op, FG_Y_##Y, turn, op2, FG_Z_##Z, turn2, t, 0) FG_BOTH(op, FG_Y_##Y, turn, op2, FG_Z_##Z, turn2, t, 1) \
    FG_BOTH(op, FG_Y_##Y, turn, op2, FG_Z_##Z, turn2, t, 2) FG_BOTH(op, FG_Y_##Y, turn, op2, FG_Z_##Z, turn2, t, 3) \
    FG_BOTH(op, FG_Y_##Y, turn, op2, FG_Z_##Z, turn2, t, 4) FG_BOTH(op, FG_Y_##Y, turn, op2, FG_Z_##Z, turn2, t, 5) \
    FG_BOTH(op, FG_Y_##Y, turn, op2, FG_Z_##Z, turn2, t, 6) FG_BOTH(op, FG_Y_##Y, turn, op2, FG_Z_##Z, turn2, t, 7) FG_NEXT }
/* a list of lists: the inner one is expanded when the outer one is done, since a macro does not expand inside of itself */
#define FG_EXPAND(...) __VA_ARGS__
#define FG_EMPTY()
#define FG_AGAIN_float() FG_LINKS_float
#define FG_AGAIN_int() FG_LINKS_int
#define FG_PAIRS_WITH(op, form, Y, turn, kind, t) FG_AGAIN_##kind FG_EMPTY() ()(FG_PAIR, op, form, Y, turn, t)
FG_EXPAND(FG_LINKS_float(FG_PAIRS_WITH, float, f32)) FG_EXPAND(FG_LINKS_float(FG_PAIRS_WITH, float, f64))
FG_EXPAND(FG_LINKS_int(FG_PAIRS_WITH, int, u32)) FG_EXPAND(FG_LINKS_int(FG_PAIRS_WITH, int, u64))

/* r = r op2 (p op q): what the strip is joined with comes from memory, by way of a link; the strip is first, or second in form RV. */
#define FG_JOINS_float(M, ...) M(add, V, 0, __VA_ARGS__) M(mul, V, 0, __VA_ARGS__) M(sub, V, 0, __VA_ARGS__) M(sub, RV, 1, __VA_ARGS__)
#define FG_JOINS_int(M, ...) FG_JOINS_float(M, __VA_ARGS__) M(and, V, 0, __VA_ARGS__) M(or, V, 0, __VA_ARGS__) M(xor, V, 0, __VA_ARGS__)
#define FG_JOINED(op, Y, turn, op2, turn2, t, k) { FG_UNUSED fg_w_##t x = p[k], y = Y(t, k), w = FG_DO_##turn(op, t, x, y), z = \
    (fg_w_##t)r##k; \
    r##k = (fg_m_i32)FG_DO_##turn2(op2, t, z, w); }
#define FG_SIDE(op2, form2, turn2, op, form, Y, turn, t) static void side_##op##_##form##_##op2##_##form2##_##t(FG_STAGE_ARGS) { \
    FG_LOCAL_V(t) FG_LOCAL2_##Y(t) \
    FG_JOINED(op, FG_Z_##Y, turn, op2, turn2, t, 0) FG_JOINED(op, FG_Z_##Y, turn, op2, turn2, t, 1) \
    FG_JOINED(op, FG_Z_##Y, turn, op2, turn2, t, 2) FG_JOINED(op, FG_Z_##Y, turn, op2, turn2, t, 3) \
    FG_JOINED(op, FG_Z_##Y, turn, op2, turn2, t, 4) FG_JOINED(op, FG_Z_##Y, turn, op2, turn2, t, 5) \
    FG_JOINED(op, FG_Z_##Y, turn, op2, turn2, t, 6) FG_JOINED(op, FG_Z_##Y, turn, op2, turn2, t, 7) FG_NEXT }
#define FG_SIDES_WITH(op, form, Y, turn, kind, t) FG_JOINS_##kind(FG_SIDE, op, form, Y, turn, t)
FG_LINKS_float(FG_SIDES_WITH, float, f32) FG_LINKS_float(FG_SIDES_WITH, float, f64)
FG_LINKS_int(FG_SIDES_WITH, int, u32) FG_LINKS_int(FG_SIDES_WITH, int, u64)

/* Steps of Horner's rule in one, for an x that is loaded once: ((r x + s) x + t) x + ... */
#define FG_LOCAL3_V(t) const fg_p_##t *w = (const fg_p_##t *)FG_AT(c);
#define FG_LOCAL3_ONE(t) const fg_w_##t rest = FG_ALL_LANES(t, ptr[s->c]);
#define FG_HORNER_X(t, k) const fg_w_##t x##k = p[k];
#define FG_HORNER_Y(t, k) r##k = (fg_m_i32)((fg_w_##t)r##k * x##k + c_); FG_SETTLE(r##k)
#define FG_OF_EIGHT(M, t) M(t, 0) M(t, 1) M(t, 2) M(t, 3) M(t, 4) M(t, 5) M(t, 6) M(t, 7)
#define FG_HORNER(steps, t) static void stage_horner##steps##_##t(FG_STAGE_ARGS) { FG_LOCAL_V(t) \
    const int32_t at_[5] = {s->b, s->c, s->d, s->e, s->f}; \
    FG_OF_EIGHT(FG_HORNER_X, t) \
    for (int j_ = 0; j_ < steps; j_++) { const fg_w_##t c_ = FG_ALL_LANES(t, ptr[at_[j_]]); FG_OF_EIGHT(FG_HORNER_Y, t) } \
    FG_NEXT }
#define FG_HORNERS(t) FG_HORNER(2, t) FG_HORNER(3, t) FG_HORNER(4, t) FG_HORNER(5, t)
FG_HORNERS(f32) FG_HORNERS(f64)

/* Memory: values as they are, one value, bools (a byte an element) as lanes of all bits or none. */
#define FG_LOAD(k) r##k = (fg_m_i32)p[k]; FG_SETTLE(r##k)
static void stage_load(FG_STAGE_ARGS) { const fg_p_i32 *p = (const fg_p_i32 *)FG_AT(a); FG_EIGHT(FG_LOAD) FG_NEXT }
#undef FG_LOAD
#define FG_STORE(k) p[k] = r##k;
static void stage_store(FG_STAGE_ARGS) { fg_p_i32 *p = (fg_p_i32 *)FG_AT(a); FG_EIGHT(FG_STORE) FG_NEXT }
#if FG_BANKS
#define FG_KEEP0(k) fg_bank0##k = r##k;
#define FG_TAKE0(k) r##k = fg_bank0##k;
#define FG_KEEP1(k) fg_bank1##k = r##k;
#define FG_TAKE1(k) r##k = fg_bank1##k;
static void stage_keep0(FG_STAGE_ARGS) { FG_EIGHT(FG_KEEP0) FG_NEXT }
static void stage_take0(FG_STAGE_ARGS) { FG_EIGHT(FG_TAKE0) FG_NEXT }
static void stage_keep1(FG_STAGE_ARGS) { FG_EIGHT(FG_KEEP1) FG_NEXT }
static void stage_take1(FG_STAGE_ARGS) { FG_EIGHT(FG_TAKE1) FG_NEXT }
#endif
#define FG_SPREAD(k) r##k = (fg_m_i32)one;
/* GCC widens bytes by four one by one */
#ifdef __AVX512F__
#define FG_WIDEN_4(p) (fg_m_i32)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(p)))
#define FG_WIDEN_8(p) (fg_m_i64)_mm512_cvtepi8_epi64(_mm_loadl_epi64((const __m128i *)(p)))
#elif defined(__AVX2__)
#define FG_WIDEN_4(p) (fg_m_i32)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p)))
#define FG_WIDEN_8(p) (fg_m_i64)_mm256_cvtepi8_epi64(_mm_loadu_si32(p))
#else
#define FG_WIDEN_4(p) ({ fg_bytes_4 b_; memcpy(&b_, p, sizeof b_); __builtin_convertvector(b_, fg_m_i32); })
#define FG_WIDEN_8(p) ({ fg_bytes_8 b_; memcpy(&b_, p, sizeof b_); __builtin_convertvector(b_, fg_m_i64); })
#endif
#define FG_LOAD_BYTES(k) r##k = (fg_m_i32)-FG_WIDEN(p + k * sizeof(fg_b_i8));
#if FG_MASK_PACKS
#define FG_STORE_BYTES(k) fg_mask_bytes(p + k * sizeof(fg_b_i8), &r##k, sizeof r##k, sizeof(((FG_M)r##k)[0]));
#else
#define FG_STORE_BYTES(k) { fg_b_i8 b = __builtin_convertvector((FG_M)r##k, fg_b_i8) & 1; memcpy(p + k * sizeof b, &b, sizeof b); }
#endif
#define FG_MOVES(size, T, t) \
    typedef int8_t fg_bytes_##size __attribute__((vector_size(FG_VEC / size))); \
    static void stage_one_##size(FG_STAGE_ARGS) { const fg_w_##t one = FG_ALL_LANES(t, ptr[s->a]); FG_EIGHT(FG_SPREAD) FG_NEXT } \
    static void stage_one_bool_##size(FG_STAGE_ARGS) { const fg_w_##t one = (fg_w_##t){0} - *(const uint8_t *)ptr[s->a]; \
    FG_EIGHT(FG_SPREAD) FG_NEXT }
FG_MOVES(4, int32_t, i32) FG_MOVES(8, int64_t, i64)
#define FG_M fg_m_i32
#define FG_WIDEN FG_WIDEN_4
#define fg_b_i8 fg_bytes_4
static void stage_load_bool_4(FG_STAGE_ARGS) { const char *p = ptr[s->a] + ((at & s->move_a) >> 2); FG_EIGHT(FG_LOAD_BYTES) FG_NEXT }
static void stage_store_bool_4(FG_STAGE_ARGS) { char *p = ptr[s->a] + ((at & s->move_a) >> 2); FG_EIGHT(FG_STORE_BYTES) FG_NEXT }
#undef FG_M
#undef FG_WIDEN
#undef fg_b_i8
#define FG_M fg_m_i64
#define FG_WIDEN FG_WIDEN_8
#define fg_b_i8 fg_bytes_8
static void stage_load_bool_8(FG_STAGE_ARGS) { const char *p = ptr[s->a] + ((at & s->move_a) >> 3); FG_EIGHT(FG_LOAD_BYTES) FG_NEXT }
static void stage_store_bool_8(FG_STAGE_ARGS) { char *p = ptr[s->a] + ((at & s->move_a) >> 3); FG_EIGHT(FG_STORE_BYTES) FG_NEXT }
#undef FG_M
#undef FG_WIDEN
#undef fg_b_i8
/* Integers of 8 and 16 bits as lanes of 32, for casts */
#ifdef __AVX2__
#ifdef __AVX512F__
#define FG_LANES_OF_u8(p) _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(p)))
#define FG_LANES_OF_i8(p) _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(p)))
#define FG_LANES_OF_u16(p) _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(p)))
#define FG_LANES_OF_i16(p) _mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)(p)))
#else
#define FG_LANES_OF_u8(p) _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p)))
#define FG_LANES_OF_i8(p) _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p)))
#define FG_LANES_OF_u16(p) _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p)))
#define FG_LANES_OF_i16(p) _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(p)))
#endif
#define FG_NARROW_LANES(t, T) \
    static void stage_load_##t(FG_STAGE_ARGS) { const T *p = (const T *)(ptr[s->a] + ((at & s->move_a) / (int64_t)(4 / sizeof(T)))); \
        FG_LANES_EIGHT(t) FG_NEXT } \
    static void stage_one_##t(FG_STAGE_ARGS) { const fg_w_i32 one = (fg_w_i32){0} + *(const T *)ptr[s->a]; FG_EIGHT(FG_SPREAD) FG_NEXT }
#define FG_LANES_STEP(t, k) r##k = (fg_m_i32)FG_LANES_OF_##t(p + k * (FG_VEC / 4));
#define FG_LANES_EIGHT(t) FG_OF_EIGHT(FG_LANES_STEP, t)
FG_NARROW_LANES(u8, uint8_t) FG_NARROW_LANES(i8, int8_t) FG_NARROW_LANES(u16, uint16_t) FG_NARROW_LANES(i16, int16_t)
#define FG_NARROW_LOADS(load) {[FG_U8] = stage_##load##_u8, [FG_I8] = stage_##load##_i8, [FG_U16] = stage_##load##_u16, \
    [FG_I16] = stage_##load##_i16}
#else
#define FG_NARROW_LOADS(load) {0}
#endif
static const FgStageFn fg_narrow_loads[2][FG_NDTYPES] = {FG_NARROW_LOADS(load), FG_NARROW_LOADS(one)};      /* a vector; one value */
#include "vm_strip_halves.h"
/* Windows: the strip inside of box a, operand b outside. */
/* 1: n marks are all inside, -1: all outside, 0: some are. Of a row's strips, its ends alone are neither. */
static inline __attribute__((unused)) int fg_side_of_marks(const char *m, int n) {
    uint64_t all = ~(uint64_t)0, any = 0, w;
    for (int k = 0; k < n; k += 8) { memcpy(&w, m + k, 8); all &= w; any |= w; }
    return all == ~(uint64_t)0 ? 1 : any ? 0 : -1;
}
#if defined(__AVX512BW__) && defined(__AVX512VL__)           /* a vector's marks are one mask: to ask about all takes longer */
#define FG_INSIDE_4(p, z, x) _mm512_mask_blend_epi32(_mm_movepi8_mask(_mm_loadu_si128((const __m128i *)(p))), z, x)
#define FG_INSIDE_8(p, z, x) _mm512_mask_blend_epi64((__mmask8)_mm_movepi8_mask(_mm_loadl_epi64((const __m128i *)(p))), z, x)
#define FG_WINDOWED(k, t, size, Z) \
    r##k = (fg_m_i32)FG_INSIDE_##size(m + k * (FG_VEC / size), (__m512i)(fg_w_##t)FG_Z_##Z(t, k), (__m512i)r##k);
#define FG_ONE_SIDE(m, n) 0
#else
#define FG_WINDOWED(k, t, size, Z) { const fg_m_##t in = FG_WIDEN_##size(m + k * (FG_VEC / size)); \
    r##k = (fg_m_i32)FG_PICKED(t, in, (fg_w_##t)r##k, FG_Z_##Z(t, k)); }
#define FG_ONE_SIDE(m, n) fg_side_of_marks(m, n)
#endif
#define FG_REPLACED(k, t, size, Z) r##k = (fg_m_i32)FG_Z_##Z(t, k);
#define FG_WINDOW(Z, size, t) \
static void stage_outside_##Z##_##size(FG_STAGE_ARGS) { FG_LOCAL2_##Z(t) FG_OF_BOX(FG_REPLACED, t, size, Z) FG_NEXT } \
static void stage_partly_##Z##_##size(FG_STAGE_ARGS) { \
    const char *m = ptr[s->a] + at / size; \
    const int side = FG_ONE_SIDE(m, FG_STRIP / size); \
    if (side > 0) FG_NEXT \
    if (side < 0) return stage_outside_##Z##_##size(s, ptr, at, r0, r1, r2, r3, r4, r5, r6, r7); \
    FG_LOCAL2_##Z(t) FG_OF_BOX(FG_WINDOWED, t, size, Z) FG_NEXT } \
static void stage_window_##Z##_##size(FG_STAGE_ARGS) { \
    if (__builtin_expect(ptr[s->a] == FG_BOX_INSIDE, 1)) FG_NEXT \
    if (ptr[s->a] == FG_BOX_OUTSIDE) return stage_outside_##Z##_##size(s, ptr, at, r0, r1, r2, r3, r4, r5, r6, r7); \
    return stage_partly_##Z##_##size(s, ptr, at, r0, r1, r2, r3, r4, r5, r6, r7); }
#define FG_OF_BOX(M, t, size, Z) M(0, t, size, Z) M(1, t, size, Z) M(2, t, size, Z) M(3, t, size, Z) M(4, t, size, Z) M(5, t, size, Z) \
    M(6, t, size, Z) M(7, t, size, Z)
FG_WINDOW(V, 4, i32) FG_WINDOW(ONE, 4, i32) FG_WINDOW(V, 8, i64) FG_WINDOW(ONE, 8, i64)
static void stage_store_last(FG_STAGE_ARGS) { fg_p_i32 *p = (fg_p_i32 *)FG_AT(a); FG_EIGHT(FG_STORE) }
/* Of a walk over gaps: what is none, by bits of b. */
#ifdef __AVX512F__
#define FG_STORE_MASKED_4(k) { uint16_t b; memcpy(&b, m + 2 * k, 2); _mm512_mask_storeu_epi32(p + k, b, (__m512i)r##k); }
#define FG_STORE_MASKED_8(k) _mm512_mask_storeu_epi64(p + k, (uint8_t)m[k], (__m512i)r##k);
#define FG_MASKED(size) fg_p_i32 *p = (fg_p_i32 *)FG_AT(a); const char *m = ptr[s->b] + at / (8 * size); FG_EIGHT(FG_STORE_MASKED_##size)
static void stage_store_masked_4(FG_STAGE_ARGS) { FG_MASKED(4) FG_NEXT }
static void stage_store_masked_8(FG_STAGE_ARGS) { FG_MASKED(8) FG_NEXT }
static void stage_store_masked_last_4(FG_STAGE_ARGS) { FG_MASKED(4) }
static void stage_store_masked_last_8(FG_STAGE_ARGS) { FG_MASKED(8) }
#endif
/* Of a strip that ends behind its row: so many bytes of it. */
static inline void fg_store_some(char *p, fg_m_i32 v, int64_t n) {
#ifdef __AVX512F__
    _mm512_mask_storeu_epi32(p, (__mmask16)((1u << n / 4) - 1), (__m512i)v);
#else
    for (int64_t i = 0; i < n; i += 4) memcpy(p + i, (const char *)&v + i, 4);
#endif
}
#define FG_STORE_SOME(k) \
    if (n < (k + 1) * FG_VEC) { if (n > k * FG_VEC) fg_store_some((char *)(p + k), r##k, n - k * FG_VEC); break; } \
    p[k] = r##k;
#define FG_STORES_SOME { fg_p_i32 *p = (fg_p_i32 *)FG_AT(a); const int64_t n = s->b; do { FG_EIGHT(FG_STORE_SOME) } while (0); }
static void stage_store_some(FG_STAGE_ARGS) { FG_STORES_SOME FG_NEXT }
static void stage_store_some_last(FG_STAGE_ARGS) FG_STORES_SOME
static void stage_end(FG_STAGE_ARGS) {
    (void)s; (void)ptr; (void)at; (void)r0; (void)r1; (void)r2; (void)r3; (void)r4; (void)r5; (void)r6; (void)r7;
}

/* Selections m ? u : v: the strip is m, u or v, the other two are operands a and b in this order; each is a vector or one value. */
#define FG_BY_M(t, k, Y, Z) { fg_m_##t m = (fg_m_##t)r##k; fg_w_##t u = Y(t, k), v = Z(t, k); r##k = (fg_m_i32)FG_PICKED(t, m, u, v); \
    FG_SETTLE(r##k) }
#define FG_BY_U(t, k, Y, Z) { fg_m_##t m = (fg_m_##t)Y(t, k); fg_w_##t u = (fg_w_##t)r##k, v = Z(t, k); r##k = (fg_m_i32)FG_PICKED(t, \
    m, u, v); FG_SETTLE(r##k) }
#define FG_BY_V(t, k, Y, Z) { fg_m_##t m = (fg_m_##t)Y(t, k); fg_w_##t v = (fg_w_##t)r##k, u = Z(t, k); r##k = (fg_m_i32)FG_PICKED(t, \
    m, u, v); FG_SETTLE(r##k) }
#define FG_STEPS2(M, t, Y, Z) M(t, 0, Y, Z) M(t, 1, Y, Z) M(t, 2, Y, Z) M(t, 3, Y, Z) M(t, 4, Y, Z) M(t, 5, Y, Z) M(t, 6, Y, Z) M(t, \
    7, Y, Z)
#define FG_SELECT(side, Y, Z, t) static void stage_select_##side##_##Y##_##Z##_##t(FG_STAGE_ARGS) { \
    FG_LOCAL_##Y(t) FG_LOCAL2_##Z(t) FG_STEPS2(FG_BY_##side, t, FG_Y_##Y, FG_Z_##Z) FG_NEXT }
#define FG_SELECTS(DO, t) DO(M, V, V, t) DO(M, V, ONE, t) DO(M, ONE, V, t) DO(M, ONE, ONE, t) DO(U, V, V, t) DO(U, V, ONE, t) \
    DO(V, V, V, t) DO(V, V, ONE, t)
FG_SELECTS(FG_SELECT, i32) FG_SELECTS(FG_SELECT, i64)

/* Choices (x how y) ? u : v: the strip is u or v, or also x; operands are x, y and the other case. */
#define FG_CHOOSE_LT(t, x, y, u, v) FG_WHERE_##t(LT, x, y, u, v)
#define FG_CHOOSE_LE(t, x, y, u, v) FG_WHERE_##t(LE, x, y, u, v)
#define FG_CHOOSE_EQ(t, x, y, u, v) FG_WHERE_##t(EQ, x, y, u, v)
#define FG_CHOOSE_NE(t, x, y, u, v) FG_WHERE_##t(NE, x, y, u, v)
#define FG_CHOOSE_GT(t, x, y, u, v) FG_WHERE_##t(LT, y, x, u, v)
#define FG_CHOOSE_GE(t, x, y, u, v) FG_WHERE_##t(LE, y, x, u, v)
#define FG_X_MEMORY(t, k) p[k]
#define FG_X_STRIP(t, k) (fg_w_##t)r##k
#define FG_X_BANK0(t, k) ((fg_w_##t)fg_bank0##k)
#define FG_X_BANK1(t, k) ((fg_w_##t)fg_bank1##k)
#define FG_LOCAL_X_MEMORY(t) FG_LOCAL_V(t)
#define FG_LOCAL_X_STRIP(t)
#define FG_LOCAL_X_BANK0(t)
#define FG_LOCAL_X_BANK1(t)
#define FG_W_V(t, k) w[k]
#define FG_W_ONE(t, k) rest
#define FG_CASE_U(how, t, k, X, Z, W) r##k = (fg_m_i32)FG_CHOOSE_##how(t, X(t, k), Z(t, k), (fg_w_##t)r##k, W(t, k)); FG_SETTLE(r##k)
#define FG_CASE_V(how, t, k, X, Z, W) r##k = (fg_m_i32)FG_CHOOSE_##how(t, X(t, k), Z(t, k), W(t, k), (fg_w_##t)r##k); FG_SETTLE(r##k)
#define FG_STEPS3(M, how, t, X, Z, W) M(how, t, 0, X, Z, W) M(how, t, 1, X, Z, W) M(how, t, 2, X, Z, W) M(how, t, 3, X, Z, W) \
    M(how, t, 4, X, Z, W) M(how, t, 5, X, Z, W) M(how, t, 6, X, Z, W) M(how, t, 7, X, Z, W)
#define FG_CHOICE(how, side, X, Z, W, t) static void stage_choice_##how##_##side##_##X##_##Z##_##W##_##t(FG_STAGE_ARGS) { \
    FG_LOCAL_X_##X(t) FG_LOCAL2_##Z(t) FG_LOCAL3_##W(t) FG_STEPS3(FG_CASE_##side, how, t, FG_X_##X, FG_Z_##Z, FG_W_##W) FG_NEXT }
#define FG_CHOICES_Z(M, how, side, X, t) M(how, side, X, V, V, t) M(how, side, X, V, ONE, t) M(how, side, X, ONE, V, t) M(how, side, \
    X, ONE, ONE, t)
#if FG_BANKS
#define FG_CHOICES_OF(M, how, bank, t) M(how, U, bank, ONE, V, t) M(how, U, bank, ONE, ONE, t) M(how, V, bank, ONE, V, t) M(how, V, bank, ONE, ONE, t)
#define FG_CHOICES_BANK(M, how, t) FG_CHOICES_OF(M, how, BANK0, t) FG_CHOICES_OF(M, how, BANK1, t)
#else
#define FG_CHOICES_BANK(M, how, t)
#endif
#define FG_CHOICES_X(M, how, t) FG_CHOICES_Z(M, how, U, MEMORY, t) FG_CHOICES_Z(M, how, V, MEMORY, t) \
    FG_CHOICES_Z(M, how, U, STRIP, t) FG_CHOICES_Z(M, how, V, STRIP, t) FG_CHOICES_BANK(M, how, t)
#define FG_CHOICES(M, t) FG_CHOICES_X(M, LT, t) FG_CHOICES_X(M, LE, t) FG_CHOICES_X(M, EQ, t) FG_CHOICES_X(M, NE, t) \
    FG_CHOICES_X(M, GT, t) FG_CHOICES_X(M, GE, t)
FG_CHOICES(FG_CHOICE, f32) FG_CHOICES(FG_CHOICE, f64)

/* Ranges, for the strip x and single values: x how y ? u : (x how2 z ? p : q), or x how y ? (x how2 z ? p : q) : u */
#define FG_RANGE_STEP(how, how2, t, k, first) { const fg_w_##t x = (fg_w_##t)r##k; fg_w_##t in = FG_CHOOSE_##how2(t, x, z, p, q); \
    r##k = (fg_m_i32)(first ? FG_CHOOSE_##how(t, x, y, in, u) : FG_CHOOSE_##how(t, x, y, u, in)); FG_SETTLE(r##k) }
#define FG_RANGE(first, how2, how, t) static void stage_range_##how##_##how2##_##first##_##t(FG_STAGE_ARGS) { \
    const fg_w_##t y = FG_ALL_LANES(t, ptr[s->a]), u = FG_ALL_LANES(t, ptr[s->b]), z = FG_ALL_LANES(t, ptr[s->c]), \
        p = FG_ALL_LANES(t, ptr[s->d]), q = FG_ALL_LANES(t, ptr[s->e]); \
    FG_RANGE_STEP(how, how2, t, 0, first) FG_RANGE_STEP(how, how2, t, 1, first) FG_RANGE_STEP(how, how2, t, 2, first) \
    FG_RANGE_STEP(how, how2, t, 3, first) FG_RANGE_STEP(how, how2, t, 4, first) FG_RANGE_STEP(how, how2, t, 5, first) \
    FG_RANGE_STEP(how, how2, t, 6, first) FG_RANGE_STEP(how, how2, t, 7, first) FG_NEXT }
#define FG_RANGES_IN(M, how, t) M(0, LT, how, t) M(0, LE, how, t) M(0, EQ, how, t) M(0, NE, how, t) M(0, GT, how, t) M(0, GE, how, t) \
    M(1, LT, how, t) M(1, LE, how, t) M(1, EQ, how, t) M(1, NE, how, t) M(1, GT, how, t) M(1, GE, how, t)
#define FG_RANGES(M, t) FG_RANGES_IN(M, LT, t) FG_RANGES_IN(M, LE, t) FG_RANGES_IN(M, EQ, t) FG_RANGES_IN(M, NE, t) \
    FG_RANGES_IN(M, GT, t) FG_RANGES_IN(M, GE, t)
FG_RANGES(FG_RANGE, f32) FG_RANGES(FG_RANGE, f64)

/* Quotients of int32 by one divisor that is not 0, as vm_div_second_i32: products with its inverse, their upper halves shifted. */
#ifdef __AVX512F__
#define FG_QUOTIENT(k) { __m512i x = (__m512i)r##k, even = _mm512_mul_epi32(x, m), odd = _mm512_mul_epi32(_mm512_srli_epi64(x, 32), m); \
    __m512i high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd); \
    __m512i q = _mm512_sub_epi32(_mm512_sra_epi32(_mm512_add_epi32(high, x), shift), _mm512_srai_epi32(x, 31)); \
    r##k = (fg_m_i32)_mm512_sub_epi32(_mm512_xor_si512(q, turn), turn); }
static void stage_div_known_i32(FG_STAGE_ARGS) {
    const int32_t y = *(const int32_t *)ptr[s->a];
    const uint32_t size = y < 0 ? 0 - (uint32_t)y : (uint32_t)y;
    const int bits = size < 3 ? 1 : 32 - __builtin_clz(size - 1);
    const __m512i m = _mm512_set1_epi64((int32_t)(1 + ((uint64_t)1 << (31 + bits)) / size)), turn = _mm512_set1_epi32(y < 0 ? -1 : 0);
    const __m128i shift = _mm_cvtsi32_si128(bits - 1);
    FG_EIGHT(FG_QUOTIENT) FG_NEXT
}
#elif defined(__AVX2__)
#define FG_QUOTIENT(k) r##k = (fg_m_i32)fg_quotients((fg_lanes_f32)r##k, by);
static void stage_div_known_i32(FG_STAGE_ARGS) {
    const FgDivisor by = fg_divisor_of(*(const int32_t *)ptr[s->a]);
    FG_EIGHT(FG_QUOTIENT) FG_NEXT
}
#endif

/* Casts of one size; from lanes of a bool. */
#define FG_CONVERT(from, to, k, e) { fg_w_##from x = (fg_w_##from)r##k; r##k = (fg_m_i32)(e); FG_SETTLE(r##k) }
#define FG_CAST(from, to, e) static void stage_cast_##from##_##to(FG_STAGE_ARGS) { \
    FG_CONVERT(from, to, 0, e) FG_CONVERT(from, to, 1, e) FG_CONVERT(from, to, 2, e) FG_CONVERT(from, to, 3, e) \
    FG_CONVERT(from, to, 4, e) FG_CONVERT(from, to, 5, e) FG_CONVERT(from, to, 6, e) FG_CONVERT(from, to, 7, e) FG_NEXT }
FG_CAST(i32, i32, x) FG_CAST(i32, f32, __builtin_convertvector(x, fg_w_f32)) FG_CAST(i64, f64, __builtin_convertvector(x, fg_w_f64))
/* saturating, NaN to 0, as vm_cast.h */
#ifdef __AVX512F__
#define FG_SATURATED(x) ({ \
    const __m512 x_ = (__m512)(x); \
    (fg_w_i32)_mm512_mask_mov_epi32(_mm512_maskz_cvttps_epi32(_mm512_cmp_ps_mask(x_, x_, _CMP_ORD_Q), x_), \
                                    _mm512_cmp_ps_mask(x_, _mm512_set1_ps(0x1p31f), _CMP_GE_OQ), _mm512_set1_epi32(INT32_MAX)); })
#else
#define FG_SATURATED(x) ({ \
    const fg_m_f32 high_ = (x) >= 0x1p31f, low_ = (x) < -0x1p31f, in_ = ((x) == (x)) & ~(high_ | low_); \
    __builtin_convertvector((fg_w_f32)((fg_m_f32)(x) & in_), fg_w_i32) | (fg_w_i32)((high_ & INT32_MAX) | (low_ & INT32_MIN)); })
#endif
FG_CAST(f32, i32, FG_SATURATED(x))
#define FG_FROM_MASK(t) FG_CAST(i32, mask_##t, (fg_m_##t)x & (fg_m_##t)((fg_w_##t){0} + 1))
FG_FROM_MASK(f32) FG_FROM_MASK(f64) FG_FROM_MASK(i32) FG_FROM_MASK(i64)

#endif
