/* Which function runs an opcode on a type; NULL where the opcode does not accept the type. */
#ifndef FG_VM_TABLE_H
#define FG_VM_TABLE_H
#include "vm_cast.h"

#define ROW_F(op) [FG_F32] = vm_##op##_f32, [FG_F64] = vm_##op##_f64
#define ROW_C(op) [FG_C64] = vm_##op##_c64, [FG_C128] = vm_##op##_c128
#define ROW_I(op) [FG_I8] = vm_##op##_i8, [FG_I16] = vm_##op##_i16, [FG_I32] = vm_##op##_i32, [FG_I64] = vm_##op##_i64, \
    [FG_U8] = vm_##op##_u8, [FG_U16] = vm_##op##_u16, [FG_U32] = vm_##op##_u32, [FG_U64] = vm_##op##_u64
#define ROW_BITS(op) [FG_I8] = vm_##op##_u8, [FG_I16] = vm_##op##_u16, [FG_I32] = vm_##op##_u32, [FG_I64] = vm_##op##_u64, \
    [FG_U8] = vm_##op##_u8, [FG_U16] = vm_##op##_u16, [FG_U32] = vm_##op##_u32, [FG_U64] = vm_##op##_u64
#define F(op) [FG_OP_##op] = {ROW_F(op)}
#define FC(op) [FG_OP_##op] = {ROW_F(op), ROW_C(op)}
#define ARITH(op) [FG_OP_##op] = {ROW_BITS(op), ROW_F(op), ROW_C(op)}
#define NUMERIC(op) [FG_OP_##op] = {ROW_I(op), ROW_F(op), ROW_C(op)}
#define REALS(op) [FG_OP_##op] = {[FG_BOOL] = vm_##op##_u8, ROW_I(op), ROW_F(op)}
#define BITS(op) [FG_OP_##op] = {[FG_BOOL] = vm_##op##_u8, ROW_BITS(op)}
#define INTS(op) [FG_OP_##op] = {ROW_BITS(op)}
#define ANY(op) [FG_OP_##op] = {[FG_BOOL] = vm_##op##_u8, ROW_BITS(op), ROW_F(op), ROW_C(op)}

static const FgVmFn fg_vm_table[FG_OP_COUNT][FG_NDTYPES] = {
    [FG_OP_add] = {[FG_BOOL] = vm_or_u8, ROW_BITS(add), ROW_F(add), ROW_C(add)}, ARITH(sub),
    [FG_OP_mul] = {[FG_BOOL] = vm_and_u8, ROW_BITS(mul), ROW_F(mul), ROW_C(mul)}, NUMERIC(div),
    [FG_OP_rem] = {ROW_I(rem), ROW_F(rem)}, NUMERIC(pow),
    ARITH(neg), NUMERIC(abs), NUMERIC(sign), F(floor), F(ceil), F(round_away), F(round_even), F(trunc),
    FC(exp), F(exp2), FC(expm1), FC(log), FC(log1p), F(log2), F(log10), FC(sqrt), FC(rsqrt), F(cbrt), ARITH(square), FC(recip),
    FC(sin), FC(cos), FC(tan), F(asin), F(acos), F(atan), F(atan2), FC(sinh), FC(cosh), FC(tanh), F(asinh), F(acosh), F(atanh),
    FC(logistic), [FG_OP_logistic_times] = {[FG_F32] = vm_logistic_times_f32}, F(erf), F(erfc), F(erf_inv), F(sample_log), F(sample_log1p),
    F(sample_erf), F(sample_erf_inv), F(lgamma), F(digamma), F(gamma), F(betaln), F(beta), F(ndtr), F(log_ndtr), F(ndtri),
    F(polygamma), F(zeta), F(igamma), F(igammac), F(igamma_grad_a), F(random_gamma_grad), F(betainc), F(bessel_i0e), F(bessel_i1e),
    REALS(max), REALS(min), F(fmax), F(fmin), BITS(and), BITS(or), BITS(xor),
    [FG_OP_not] = {[FG_BOOL] = vm_not_bool, ROW_BITS(not)}, INTS(shl), INTS(shr_logical), INTS(shr_arith), INTS(popcount), INTS(clz),
    [FG_OP_gcd] = {ROW_I(gcd)},
    ANY(eq), ANY(ne), REALS(lt), REALS(le), REALS(gt), REALS(ge), ANY(select), [FG_OP_clamp] = {ROW_I(clamp), ROW_F(clamp)},
    F(copysign), F(hypot), F(log_hypot), F(ldexp), F(logit), F(rel_entr), F(gelu), F(gelu_slope), F(gelu_exact), F(gelu_exact_slope),
    FC(is_finite), F(nextafter), [FG_OP_real] = {ROW_C(real)}, [FG_OP_imag] = {ROW_C(imag)}, F(complex), [FG_OP_conj] = {ROW_C(conj)},
    [FG_OP_round_f16] = {[FG_F32] = vm_round_f16_f32}, [FG_OP_round_bf16] = {[FG_F32] = vm_round_bf16_f32},
    [FG_OP_fma] = {ROW_BITS(fma), ROW_F(fma)},
};
#undef F
#undef FC
#undef ANY

/* The loops whose first (side 0) or second (side 1) operand is one value; NULL where there is none. */
#define S(op, side) [FG_OP_##op] = {ROW_F(op##_##side)}
#define SB(op, side) [FG_OP_##op] = {ROW_BITS(op##_##side), ROW_F(op##_##side)}
#define SI(op, side) [FG_OP_##op] = {ROW_BITS(op##_##side)}
#define SR(op, side) [FG_OP_##op] = {ROW_I(op##_##side), ROW_F(op##_##side)}
#define SIDE(side) SB(add, side), SB(sub, side), SB(mul, side), S(max, side), S(min, side), SI(and, side), SI(or, side), SI(xor, side), \
    SI(shl, side), SI(shr_logical, side), SI(shr_arith, side), SB(eq, side), SB(ne, side), \
    SR(lt, side), SR(le, side), SR(gt, side), SR(ge, side)
#ifdef __AVX512F__
#define POW_first [FG_OP_pow] = {ROW_F(pow_first)}
#define POW_second [FG_OP_pow] = {ROW_F(pow_second)}
#elif defined(FG_VM_POWER_BLOCKS_H)
#define POW_first [FG_OP_pow] = {[FG_F32] = vm_pow_first_f32}
#define POW_second [FG_OP_pow] = {ROW_F(pow_second)}
#else
#define POW_first [FG_OP_pow] = {0}
#define POW_second [FG_OP_pow] = {[FG_F64] = vm_pow_second_f64}
#endif
#define EACH_INT(op) \
    [FG_I8] = vm_##op##_second_i8, [FG_I16] = vm_##op##_second_i16, [FG_I32] = vm_##op##_second_i32, \
    [FG_U8] = vm_##op##_second_u8, [FG_U16] = vm_##op##_second_u16, [FG_U32] = vm_##op##_second_u32, \
    [FG_I64] = vm_##op##_second_i64, [FG_U64] = vm_##op##_second_u64
static const FgVmFn fg_vm_scalar_table[2][FG_OP_COUNT][FG_NDTYPES] = {
    {SIDE(first), S(div, first), POW_first},
    {SIDE(second), POW_second, [FG_OP_div] = {ROW_F(div_second), EACH_INT(div)}, [FG_OP_rem] = {[FG_F32] = vm_rem_second_f32, EACH_INT(rem)}}};
#undef EACH_INT
#undef S
#undef SB
#undef SI
#undef SR
#undef SIDE
#undef POW_first
#undef POW_second
static inline FgVmFn fg_vm_scalar_fn(int op, int t, int side) { return fg_vm_scalar_table[side][op][t]; }

/* casts are supported to every compute type; fg_vm_cast gives the function */
static inline int fg_vm_supports(int op, int t) {
    if (op < 0 || op >= FG_OP_COUNT || t < 0 || t >= FG_NDTYPES) return 0;
    return op == FG_OP_cast ? fg_vm_cast[FG_F32][t] != 0 : fg_vm_table[op][t] != 0;
}

/* bool sums and products have no meaning here (cast first); complex numbers have no order */
static inline FgVmFn fg_vm_reducer(int reduce, int t) {
    static const int ops[FG_RED_COUNT] = {-1, FG_OP_add, FG_OP_mul, FG_OP_max, FG_OP_min, FG_OP_fmax, FG_OP_fmin};
    if (t == FG_BOOL && reduce < FG_RED_MAX) return 0;
    return reduce <= 0 || reduce >= FG_RED_COUNT ? 0 : fg_vm_table[ops[reduce]][t];
}
#endif
