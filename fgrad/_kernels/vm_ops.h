/* The opcodes of the elementwise VM: X(name, arity, result, weight).
 *
 * result: S same type as the operands, B bool, R the real part's type, C complex of the operands' type, K cast (the op's
 * own type).  weight: rough cost in units of one float32 addition, used to decide how many threads a run is worth.
 * window, take and take2 have no loop: vm_window.h and vm_take.h run them.
 * The order fixes the numbers; Python reads them by name, so rows may be added anywhere. */
#ifndef FG_VM_OPS_H
#define FG_VM_OPS_H
#include "fg.h"

#define FG_VM_OPCODES(X) \
    X(add, 2, S, 1) X(sub, 2, S, 1) X(mul, 2, S, 1) X(div, 2, S, 4) X(rem, 2, S, 40) X(pow, 2, S, 40) \
    X(neg, 1, S, 1) X(abs, 1, R, 1) X(sign, 1, S, 2) X(floor, 1, S, 1) X(ceil, 1, S, 1) X(round_away, 1, S, 2) \
    X(round_even, 1, S, 1) X(trunc, 1, S, 1) X(exp, 1, S, 10) X(exp2, 1, S, 10) X(expm1, 1, S, 12) X(log, 1, S, 12) \
    X(log1p, 1, S, 14) X(log2, 1, S, 12) X(log10, 1, S, 12) X(sqrt, 1, S, 5) X(rsqrt, 1, S, 8) X(cbrt, 1, S, 30) X(square, 1, S, 1) \
    X(recip, 1, S, 4) X(sin, 1, S, 14) X(cos, 1, S, 14) X(tan, 1, S, 30) X(asin, 1, S, 16) X(acos, 1, S, 16) \
    X(atan, 1, S, 12) X(atan2, 2, S, 24) X(sinh, 1, S, 20) X(cosh, 1, S, 20) X(tanh, 1, S, 16) X(asinh, 1, S, 24) \
    X(acosh, 1, S, 22) X(atanh, 1, S, 20) X(logistic, 1, S, 14) X(logistic_times, 2, S, 15) X(erf, 1, S, 20) X(erfc, 1, S, 40) X(erf_inv, 1, S, 30) \
    X(sample_log, 1, S, 14) \
    X(sample_log1p, 1, S, 24) X(sample_erf, 1, S, 14) X(sample_erf_inv, 1, S, 40) X(lgamma, 1, S, 400) X(digamma, 1, S, 400) \
    X(gamma, 1, S, 400) X(betaln, 2, S, 1500) X(beta, 2, S, 1500) X(ndtr, 1, S, 50) X(log_ndtr, 1, S, 100) X(ndtri, 1, S, 60) \
    X(polygamma, 2, S, 1000) X(zeta, 2, S, 1000) X(igamma, 2, S, 1000) X(igammac, 2, S, 1000) X(igamma_grad_a, 2, S, 2000) \
    X(random_gamma_grad, 2, S, 2000) X(betainc, 3, S, 2000) X(bessel_i0e, 1, S, 400) X(bessel_i1e, 1, S, 400) \
    X(max, 2, S, 1) X(min, 2, S, 1) X(fmax, 2, S, 1) X(fmin, 2, S, 1) X(and, 2, S, 1) X(or, 2, S, 1) \
    X(xor, 2, S, 1) X(not, 1, S, 1) X(shl, 2, S, 1) X(shr_logical, 2, S, 1) X(shr_arith, 2, S, 1) X(popcount, 1, S, 3) \
    X(clz, 1, S, 3) X(gcd, 2, S, 200) X(eq, 2, B, 1) X(ne, 2, B, 1) X(lt, 2, B, 1) X(le, 2, B, 1) X(gt, 2, B, 1) X(ge, 2, B, 1) \
    X(select, 3, S, 1) X(clamp, 3, S, 2) X(is_finite, 1, B, 1) X(nextafter, 2, S, 6) X(copysign, 2, S, 1) X(hypot, 2, S, 8) X(log_hypot, 2, S, 30) X(ldexp, 2, S, 10) \
    X(logit, 1, S, 20) X(rel_entr, 2, S, 40) X(gelu, 1, S, 16) X(gelu_slope, 1, S, 20) X(gelu_exact, 1, S, 24) X(gelu_exact_slope, 1, S, 28) \
    X(real, 1, R, 1) X(imag, 1, R, 1) \
    X(complex, 2, C, 1) X(conj, 1, S, 1) X(cast, 1, K, 1) X(window, 2, S, 1) \
    X(round_f16, 1, S, 2) X(round_bf16, 1, S, 2) X(fma, 3, S, 1) X(take, 1, K, 8) X(take2, 2, K, 40)

#define FG_VM_ENUM(name, arity, result, weight) FG_OP_##name,
enum { FG_VM_OPCODES(FG_VM_ENUM) FG_OP_COUNT };

typedef struct { const char *name; int arity; char result; int weight; } FgVmInfo;
#define FG_VM_INFO(name, arity, result, weight) {#name, arity, #result[0], weight},
static const FgVmInfo fg_vm_info[FG_OP_COUNT] = { FG_VM_OPCODES(FG_VM_INFO) };

/* n elements: d[i] = op(a[i], b[i], c[i]); d may be one of the operands. */
typedef void (*FgVmFn)(int64_t n, void *d, const void *a, const void *b, const void *c);
/* n whole vectors of two operations in one: d[i] = f(args[0][i], args[1][i], ...) */
typedef void (*FgVmFused)(int64_t n, void *d, const void *const *args);
/* d[r, j] = reduction over k of s[r, k, j], for s of shape [rows, k, width], k >= 1. */
typedef void (*FgVmSeg)(void *d, const void *s, const void *q, int64_t rows, int64_t k, int64_t width);
typedef void (*FgVmTiles)(void *d, const void *s, const void *q, int64_t tiles, int64_t n, int64_t stride, int empty);
enum { FG_RED_NONE = 0, FG_RED_SUM, FG_RED_PROD, FG_RED_MAX, FG_RED_MIN, FG_RED_FMAX, FG_RED_FMIN, FG_RED_COUNT };

static inline int fg_vm_takes(int op) { return op == FG_OP_take || op == FG_OP_take2; }
static inline int fg_vm_real_type(int t) { return t == FG_C64 ? FG_F32 : t == FG_C128 ? FG_F64 : t; }
static inline int fg_vm_result_type(int op, int t) {
    switch (fg_vm_info[op].result) {
        case 'B': return FG_BOOL;
        case 'R': return fg_vm_real_type(t);
        case 'C': return t == FG_F32 ? FG_C64 : FG_C128;
        default: return t;
    }
}
#endif
