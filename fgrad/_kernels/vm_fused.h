/* Loops of two or three operations in one pass over a tile: a store takes the time of two sums, so the second one comes for
 * free.  Each result is rounded, as in passes of its own (this is built without contraction).
 *
 *     pairs:     second(first(a, b), c)               sums, products, max and the like, a few functions of one operand
 *     triples:   third(second(first(a, b), c), d)     sums and products
 *     Horner's:  ((a x + s) x + t) x + u ...           two to five steps, for single s, t, u, ... and an array or a single value a
 *     choices:   x < y ? u : v                        and with <=, ==, !=
 *     ranges:    x < y ? u : (z < w ? p : q)          or x < y ? (z < w ? p : q) : u, and with <=, >, >=, ==, !=, for single y, u and w
 *
 * Operands are vectors of the tile or one value for all of it; each such form is a loop of its own. */
#ifndef FG_VM_FUSED_H
#define FG_VM_FUSED_H
#include "vec.h"
#include "vm_ops.h"

#define FG_FUSED_TYPE(t, T, B) \
    typedef T fg_w_##t __attribute__((vector_size(FG_VEC))); typedef B fg_m_##t __attribute__((vector_size(FG_VEC))); \
    typedef B fg_1_##t __attribute__((may_alias)); \
    typedef T fg_p_##t __attribute__((vector_size(FG_VEC), aligned(sizeof(T)), may_alias));
FG_FUSED_TYPE(f32, float, int32_t) FG_FUSED_TYPE(f64, double, int64_t) FG_FUSED_TYPE(i32, int32_t, int32_t)
FG_FUSED_TYPE(i64, int64_t, int64_t)
FG_FUSED_TYPE(u32, uint32_t, int32_t) FG_FUSED_TYPE(u64, uint64_t, int64_t)

/* m ? u : v by lanes; FG_WHERE(t, how, x, y, u, v) with how one of LT, LE, EQ, NE */
#define FG_LANES_LT(x, y) ((x) < (y))
#define FG_LANES_LE(x, y) ((x) <= (y))
#define FG_LANES_EQ(x, y) ((x) == (y))
#define FG_LANES_NE(x, y) ((x) != (y))
#define FG_WHERE_LANES(t, how, x, y, u, v) ({ \
    fg_m_##t m_ = FG_LANES_##how(x, y); (fg_w_##t)(((fg_m_##t)(u) & m_) | ((fg_m_##t)(v) & ~m_)); })
#ifdef __AVX512F__
#define FG_CMP_LT _CMP_LT_OQ
#define FG_CMP_LE _CMP_LE_OQ
#define FG_CMP_EQ _CMP_EQ_OQ
#define FG_CMP_NE _CMP_NEQ_UQ
#define FG_WHERE_f32(how, x, y, u, v) \
    (fg_w_f32)_mm512_mask_blend_ps(_mm512_cmp_ps_mask((__m512)(x), (__m512)(y), FG_CMP_##how), (__m512)(v), (__m512)(u))
#define FG_WHERE_f64(how, x, y, u, v) \
    (fg_w_f64)_mm512_mask_blend_pd(_mm512_cmp_pd_mask((__m512d)(x), (__m512d)(y), FG_CMP_##how), (__m512d)(v), (__m512d)(u))
#define FG_WHERE_i32(how, x, y, u, v) \
    (fg_w_i32)_mm512_mask_blend_epi32(_mm512_cmp_epi32_mask((__m512i)(x), (__m512i)(y), _MM_CMPINT_##how), (__m512i)(v), (__m512i)(u))
#define FG_WHERE_i64(how, x, y, u, v) \
    (fg_w_i64)_mm512_mask_blend_epi64(_mm512_cmp_epi64_mask((__m512i)(x), (__m512i)(y), _MM_CMPINT_##how), (__m512i)(v), (__m512i)(u))
#define FG_SQRT_f32(x) (fg_w_f32)_mm512_sqrt_ps((__m512)(x))
#define FG_SQRT_f64(x) (fg_w_f64)_mm512_sqrt_pd((__m512d)(x))
#else
#define FG_WHERE_f32(how, x, y, u, v) FG_WHERE_LANES(f32, how, x, y, u, v)
#define FG_WHERE_f64(how, x, y, u, v) FG_WHERE_LANES(f64, how, x, y, u, v)
#define FG_WHERE_i32(how, x, y, u, v) FG_WHERE_LANES(i32, how, x, y, u, v)
#define FG_WHERE_i64(how, x, y, u, v) FG_WHERE_LANES(i64, how, x, y, u, v)
#define FG_SQRT_LANES(t, x, f) ({ fg_w_##t r_ = (x); for (int l_ = 0; l_ < (int)(FG_VEC / sizeof r_[0]); l_++) r_[l_] = f(r_[l_]); r_; })
#define FG_SQRT_f32(x) FG_SQRT_LANES(f32, x, sqrtf)
#define FG_SQRT_f64(x) FG_SQRT_LANES(f64, x, sqrt)
#endif

/* One result: x and y are what the operation takes, of lanes t.  max and min: the first operand if it is NaN, as FG_MAX. */
#define FG_DO_add(t, x, y) ((x) + (y))
#define FG_DO_sub(t, x, y) ((x) - (y))
#define FG_DO_rsub(t, x, y) ((y) - (x))
#define FG_DO_mul(t, x, y) ((x) * (y))
#define FG_DO_div(t, x, y) ((x) / (y))
#define FG_DO_rdiv(t, x, y) ((y) / (x))
#define FG_DO_max(t, x, y) ({ fg_w_##t p_ = (x), q_ = (y); FG_WHERE_##t(NE, p_, p_, p_, vec_max_##t(p_, q_)); })
#define FG_DO_min(t, x, y) ({ fg_w_##t p_ = (x), q_ = (y); FG_WHERE_##t(NE, p_, p_, p_, vec_min_##t(p_, q_)); })
#define FG_DO_rmax(t, x, y) FG_DO_max(t, y, x)
#define FG_DO_rmin(t, x, y) FG_DO_min(t, y, x)
#define FG_DO_square(t, x, y) ({ fg_w_##t p_ = (x); p_ * p_; })
#define FG_DO_neg(t, x, y) (-(x))
#define FG_DO_abs(t, x, y) ((fg_w_##t)((fg_m_##t)(x) & ~FG_SIGN_LANES_##t))
#define FG_DO_sqrt(t, x, y) FG_SQRT_##t(x)
#define FG_DO_and(t, x, y) ((x) & (y))
#define FG_DO_or(t, x, y) ((x) | (y))
#define FG_DO_xor(t, x, y) ((x) ^ (y))
#define FG_DO_not(t, x, y) (~(x))
#define FG_SIGN_LANES_f32 ((fg_m_f32){0} + INT32_MIN)
#define FG_SIGN_LANES_f64 ((fg_m_f64){0} + INT64_MIN)

/* an integer's arithmetic shift by fewer bits than it has */
#define FG_DO_shr_arith(t, x, y) ({ \
    fg_m_##t s_ = (fg_m_##t)(y), w_ = (fg_m_##t){0} + (int)(8 * sizeof s_[0] - 1), far_ = (y) > (fg_w_##t)w_; \
    (fg_w_##t)((fg_m_##t)(x) >> ((w_ & far_) | (s_ & ~far_))); })
/* one value in all lanes, by its bits: a choice also takes other types of its size */
#define FG_ALL_LANES(t, p) ((fg_w_##t)((fg_m_##t){0} + *(const fg_1_##t *)(p)))

/* Forms: which of the operands is one value.  Sums and the like that are the same both ways have theirs second. */
#define FG_ONE_FORM(M, name, ...) M(name, 0, 0, __VA_ARGS__)
#define FG_FORMS2(M, name, ...) M(name, 0, 0, __VA_ARGS__) M(name, 0, 1, __VA_ARGS__)
#define FG_FORMS3(M, name, ...) M(name, 0, 0, __VA_ARGS__) M(name, 1, 0, __VA_ARGS__) M(name, 0, 1, __VA_ARGS__)
#define FG_FIRSTS_float(M, ...) FG_FORMS2(M, add, __VA_ARGS__) FG_FORMS3(M, sub, __VA_ARGS__) FG_FORMS2(M, mul, __VA_ARGS__) \
    FG_FORMS3(M, div, __VA_ARGS__) FG_FORMS3(M, max, __VA_ARGS__) FG_FORMS3(M, min, __VA_ARGS__) \
    FG_ONE_FORM(M, square, __VA_ARGS__) FG_ONE_FORM(M, neg, __VA_ARGS__) FG_ONE_FORM(M, abs, __VA_ARGS__) FG_ONE_FORM(M, sqrt, __VA_ARGS__)
#define FG_SECOND_FORMS(M, name, ...) M(name, 0, __VA_ARGS__) M(name, 1, __VA_ARGS__)
#define FG_SECONDS_float(M, ...) \
    FG_SECOND_FORMS(M, add, __VA_ARGS__) FG_SECOND_FORMS(M, sub, __VA_ARGS__) FG_SECOND_FORMS(M, rsub, __VA_ARGS__) \
    FG_SECOND_FORMS(M, mul, __VA_ARGS__) FG_SECOND_FORMS(M, div, __VA_ARGS__) FG_SECOND_FORMS(M, rdiv, __VA_ARGS__) \
    FG_SECOND_FORMS(M, max, __VA_ARGS__) FG_SECOND_FORMS(M, rmax, __VA_ARGS__) FG_SECOND_FORMS(M, min, __VA_ARGS__) \
    FG_SECOND_FORMS(M, rmin, __VA_ARGS__) \
    M(square, 0, __VA_ARGS__) M(neg, 0, __VA_ARGS__) M(abs, 0, __VA_ARGS__) M(sqrt, 0, __VA_ARGS__)
#define FG_FIRSTS_int(M, ...) FG_FORMS2(M, add, __VA_ARGS__) FG_FORMS3(M, sub, __VA_ARGS__) FG_FORMS2(M, mul, __VA_ARGS__) \
    FG_FORMS2(M, and, __VA_ARGS__) FG_FORMS2(M, or, __VA_ARGS__) FG_FORMS2(M, xor, __VA_ARGS__) \
    FG_ONE_FORM(M, square, __VA_ARGS__) FG_ONE_FORM(M, neg, __VA_ARGS__) FG_ONE_FORM(M, not, __VA_ARGS__) M(shr_arith, 0, 1, __VA_ARGS__)
#define FG_SECONDS_int(M, ...) \
    FG_SECOND_FORMS(M, add, __VA_ARGS__) FG_SECOND_FORMS(M, sub, __VA_ARGS__) FG_SECOND_FORMS(M, rsub, __VA_ARGS__) \
    FG_SECOND_FORMS(M, mul, __VA_ARGS__) FG_SECOND_FORMS(M, and, __VA_ARGS__) FG_SECOND_FORMS(M, or, __VA_ARGS__) \
    FG_SECOND_FORMS(M, xor, __VA_ARGS__) M(square, 0, __VA_ARGS__) M(neg, 0, __VA_ARGS__) M(not, 0, __VA_ARGS__)

#define FG_FIRSTS_sum(M, ...) FG_FORMS2(M, add, __VA_ARGS__) FG_FORMS3(M, sub, __VA_ARGS__) FG_FORMS2(M, mul, __VA_ARGS__) \
    FG_ONE_FORM(M, square, __VA_ARGS__) FG_ONE_FORM(M, neg, __VA_ARGS__)
#define FG_THIRDS_sum(M, ...) FG_SECOND_FORMS(M, add, __VA_ARGS__) FG_SECOND_FORMS(M, sub, __VA_ARGS__) \
    FG_SECOND_FORMS(M, rsub, __VA_ARGS__) FG_SECOND_FORMS(M, mul, __VA_ARGS__)
/* the same once more, since a macro does not expand inside of itself */
#define FG_MIDDLE_FORMS(M, name, ...) M(name, 0, __VA_ARGS__) M(name, 1, __VA_ARGS__)
#define FG_SECONDS_sum(M, ...) FG_MIDDLE_FORMS(M, add, __VA_ARGS__) FG_MIDDLE_FORMS(M, sub, __VA_ARGS__) \
    FG_MIDDLE_FORMS(M, rsub, __VA_ARGS__) FG_MIDDLE_FORMS(M, mul, __VA_ARGS__) M(square, 0, __VA_ARGS__)

#define FG_ARG(t, k, one) (one ? s##k : (fg_w_##t)g##k[i])
#define FG_UNUSED __attribute__((unused))          /* a form of a loop reads vectors or single values, not both */
#define FG_ARG_OF(t, k) FG_UNUSED const fg_p_##t *g##k = (const fg_p_##t *)g[k]; FG_UNUSED const fg_w_##t s##k = FG_ALL_LANES(t, g[k]);

#define FG_PAIR(second, cs, first, as, bs, t) \
    static void pair_##t##_##first##as##bs##_##second##cs(int64_t n, void *d_, const void *const *g) { \
        fg_p_##t *d = (fg_p_##t *)d_; FG_ARG_OF(t, 0) FG_ARG_OF(t, 1) FG_ARG_OF(t, 2) \
        for (int64_t i = 0; i < n; i++) \
            d[i] = FG_DO_##second(t, FG_DO_##first(t, FG_ARG(t, 0, as), FG_ARG(t, 1, bs)), FG_ARG(t, 2, cs)); }
#define FG_PAIRS_float(first, as, bs, t) FG_SECONDS_float(FG_PAIR, first, as, bs, t)
#define FG_PAIRS_int(first, as, bs, t) FG_SECONDS_int(FG_PAIR, first, as, bs, t)
#define FG_TRIPLE(third, ds, second, cs, first, as, bs, t) \
    static void triple_##t##_##first##as##bs##_##second##cs##_##third##ds(int64_t n, void *d_, const void *const *g) { \
        fg_p_##t *d = (fg_p_##t *)d_; FG_ARG_OF(t, 0) FG_ARG_OF(t, 1) FG_ARG_OF(t, 2) FG_ARG_OF(t, 3) \
        for (int64_t i = 0; i < n; i++) { \
            fg_w_##t x = FG_DO_##second(t, FG_DO_##first(t, FG_ARG(t, 0, as), FG_ARG(t, 1, bs)), FG_ARG(t, 2, cs)); \
            d[i] = FG_DO_##third(t, x, FG_ARG(t, 3, ds)); } }
#define FG_TRIPLES_OF(second, cs, first, as, bs, t) FG_THIRDS_sum(FG_TRIPLE, second, cs, first, as, bs, t)
#define FG_TRIPLES(first, as, bs, t) FG_SECONDS_sum(FG_TRIPLES_OF, first, as, bs, t)
#define FG_HORNER(steps, as, t) \
    static void horner_##t##_##steps##as(int64_t n, void *d_, const void *const *g) { \
        fg_p_##t *d = (fg_p_##t *)d_; const fg_p_##t *g0 = (const fg_p_##t *)g[0], *g1 = (const fg_p_##t *)g[1]; \
        const fg_w_##t s0 = FG_ALL_LANES(t, g[0]); fg_w_##t s[steps]; \
        for (int k = 0; k < steps; k++) s[k] = FG_ALL_LANES(t, g[2 + k]); \
        for (int64_t i = 0; i < n; i++) { \
            fg_w_##t x = g1[i], y = FG_ARG(t, 0, as) * x + s[0]; \
            for (int k = 1; k < steps; k++) y = y * x + s[k]; \
            d[i] = y; } }
#define FG_HORNERS_OF(M, as, t) M(2, as, t) M(3, as, t) M(4, as, t) M(5, as, t)
#define FG_HORNERS(M, t) FG_HORNERS_OF(M, 0, t) FG_HORNERS_OF(M, 1, t)
#define FG_CHOICE(how, xs, ys, us, vs, t) \
    static void choice_##t##_##how##xs##ys##us##vs(int64_t n, void *d_, const void *const *g) { \
        fg_p_##t *d = (fg_p_##t *)d_; FG_ARG_OF(t, 0) FG_ARG_OF(t, 1) FG_ARG_OF(t, 2) FG_ARG_OF(t, 3) \
        for (int64_t i = 0; i < n; i++) { \
            fg_w_##t x = FG_ARG(t, 0, xs), y = FG_ARG(t, 1, ys), u = FG_ARG(t, 2, us), v = FG_ARG(t, 3, vs); \
            d[i] = FG_WHERE_##t(how, x, y, u, v); } }
#define FG_CHOICES_XY(M, how, us, vs, t) M(how, 0, 0, us, vs, t) M(how, 1, 0, us, vs, t) M(how, 0, 1, us, vs, t)
#define FG_CHOICES_OF(M, how, t) FG_CHOICES_XY(M, how, 0, 0, t) FG_CHOICES_XY(M, how, 1, 0, t) \
    FG_CHOICES_XY(M, how, 0, 1, t) FG_CHOICES_XY(M, how, 1, 1, t)
#define FG_CHOICES(M, t) FG_CHOICES_OF(M, LT, t) FG_CHOICES_OF(M, LE, t) FG_CHOICES_OF(M, EQ, t) FG_CHOICES_OF(M, NE, t)

#define FG_WHERE_GT(t, x, y, u, v) FG_WHERE_##t(LT, y, x, u, v)
#define FG_WHERE_GE(t, x, y, u, v) FG_WHERE_##t(LE, y, x, u, v)
#define FG_WHERE_LT(t, x, y, u, v) FG_WHERE_##t(LT, x, y, u, v)
#define FG_WHERE_LE(t, x, y, u, v) FG_WHERE_##t(LE, x, y, u, v)
#define FG_WHERE_EQ(t, x, y, u, v) FG_WHERE_##t(EQ, x, y, u, v)
#define FG_WHERE_NE(t, x, y, u, v) FG_WHERE_##t(NE, x, y, u, v)
#define FG_RANGE(ps, qs, how2, how, first, t) \
    static void range_##t##_##how##first##_##how2##ps##qs(int64_t n, void *d_, const void *const *g) { \
        fg_p_##t *d = (fg_p_##t *)d_; FG_ARG_OF(t, 0) FG_ARG_OF(t, 1) FG_ARG_OF(t, 2) FG_ARG_OF(t, 3) \
        FG_ARG_OF(t, 4) FG_ARG_OF(t, 5) FG_ARG_OF(t, 6) \
        for (int64_t i = 0; i < n; i++) { \
            fg_w_##t x = g0[i], z = g3[i], in = FG_WHERE_##how2(t, z, s4, FG_ARG(t, 5, ps), FG_ARG(t, 6, qs)); \
            if (first) d[i] = FG_WHERE_##how(t, x, s1, in, s2); \
            else d[i] = FG_WHERE_##how(t, x, s1, s2, in); } }
#define FG_RANGES_PQ(M, how2, how, first, t) M(0, 0, how2, how, first, t) M(1, 0, how2, how, first, t) \
    M(0, 1, how2, how, first, t) M(1, 1, how2, how, first, t)
#define FG_RANGES_IN(M, how, first, t) FG_RANGES_PQ(M, LT, how, first, t) FG_RANGES_PQ(M, LE, how, first, t) \
    FG_RANGES_PQ(M, GT, how, first, t) FG_RANGES_PQ(M, GE, how, first, t) FG_RANGES_PQ(M, EQ, how, first, t) \
    FG_RANGES_PQ(M, NE, how, first, t)
#define FG_RANGES_OF(M, how, t) FG_RANGES_IN(M, how, 0, t) FG_RANGES_IN(M, how, 1, t)
#define FG_RANGES(M, t) FG_RANGES_OF(M, LT, t) FG_RANGES_OF(M, LE, t) FG_RANGES_OF(M, GT, t) FG_RANGES_OF(M, GE, t) \
    FG_RANGES_OF(M, EQ, t) FG_RANGES_OF(M, NE, t)

FG_HORNERS(FG_HORNER, f32) FG_HORNERS(FG_HORNER, f64)
FG_RANGES(FG_RANGE, f32) FG_RANGES(FG_RANGE, f64)
FG_FIRSTS_sum(FG_TRIPLES, f32) FG_FIRSTS_sum(FG_TRIPLES, f64)
FG_FIRSTS_float(FG_PAIRS_float, f32) FG_FIRSTS_float(FG_PAIRS_float, f64)
FG_FIRSTS_int(FG_PAIRS_int, u32) FG_FIRSTS_int(FG_PAIRS_int, u64)
FG_CHOICES(FG_CHOICE, f32) FG_CHOICES(FG_CHOICE, f64) FG_CHOICES(FG_CHOICE, i32) FG_CHOICES(FG_CHOICE, i64)

/* Tables by the numbers of the forms. */
#define FG_FIRST_NAME(kind) FG_FIRST_##kind
#define FG_E(name, as, bs, kind) FG_FIRST_##kind##_##name##as##bs,
enum { FG_FIRSTS_float(FG_E, float) FG_FIRST_float_N };
enum { FG_FIRSTS_int(FG_E, int) FG_FIRST_int_N };
enum { FG_FIRSTS_sum(FG_E, sum) FG_FIRST_sum_N };
#undef FG_E
#define FG_E(name, cs, kind) FG_SECOND_##kind##_##name##cs,
enum { FG_SECONDS_float(FG_E, float) FG_SECOND_float_N };
enum { FG_SECONDS_int(FG_E, int) FG_SECOND_int_N };
enum { FG_SECONDS_sum(FG_E, sum) FG_SECOND_sum_N };
#undef FG_E
#define FG_E(name, ds, kind) FG_THIRD_##kind##_##name##ds,
enum { FG_THIRDS_sum(FG_E, sum) FG_THIRD_sum_N };
#undef FG_E
#define FG_CELL(second, cs, first, as, bs, t) pair_##t##_##first##as##bs##_##second##cs,
#define FG_LINE_float(first, as, bs, t) {FG_SECONDS_float(FG_CELL, first, as, bs, t)},
#define FG_LINE_int(first, as, bs, t) {FG_SECONDS_int(FG_CELL, first, as, bs, t)},
static const FgVmFused fg_pairs_f32[FG_FIRST_float_N][FG_SECOND_float_N] = {FG_FIRSTS_float(FG_LINE_float, f32)};
static const FgVmFused fg_pairs_f64[FG_FIRST_float_N][FG_SECOND_float_N] = {FG_FIRSTS_float(FG_LINE_float, f64)};
static const FgVmFused fg_pairs_u32[FG_FIRST_int_N][FG_SECOND_int_N] = {FG_FIRSTS_int(FG_LINE_int, u32)};
static const FgVmFused fg_pairs_u64[FG_FIRST_int_N][FG_SECOND_int_N] = {FG_FIRSTS_int(FG_LINE_int, u64)};
#define FG_CELL3(third, ds, second, cs, first, as, bs, t) triple_##t##_##first##as##bs##_##second##cs##_##third##ds,
#define FG_LINE3(second, cs, first, as, bs, t) {FG_THIRDS_sum(FG_CELL3, second, cs, first, as, bs, t)},
#define FG_PLANE3(first, as, bs, t) {FG_SECONDS_sum(FG_LINE3, first, as, bs, t)},
static const FgVmFused fg_triples_f32[FG_FIRST_sum_N][FG_SECOND_sum_N][FG_THIRD_sum_N] = {FG_FIRSTS_sum(FG_PLANE3, f32)};
static const FgVmFused fg_triples_f64[FG_FIRST_sum_N][FG_SECOND_sum_N][FG_THIRD_sum_N] = {FG_FIRSTS_sum(FG_PLANE3, f64)};
enum { FG_HOW_LT, FG_HOW_LE, FG_HOW_EQ, FG_HOW_NE, FG_HOW_GT, FG_HOW_GE, FG_HOW_N };
#define FG_CELLR(ps, qs, how2, how, first, t) [FG_HOW_##how][first][FG_HOW_##how2][ps + 2 * qs] = range_##t##_##how##first##_##how2##ps##qs,
static const FgVmFused fg_ranges[2][FG_HOW_N][2][FG_HOW_N][4] = {{FG_RANGES(FG_CELLR, f32)}, {FG_RANGES(FG_CELLR, f64)}};
enum { FG_STEPS = 5 };
#define FG_CELLH(steps, as, t) [as][steps] = horner_##t##_##steps##as,
static const FgVmFused fg_horners[2][2][FG_STEPS + 1] = {{FG_HORNERS(FG_CELLH, f32)}, {FG_HORNERS(FG_CELLH, f64)}};
#define FG_CELL4(how, xs, ys, us, vs, t) [FG_HOW_##how][xs + 2 * ys + 4 * us + 8 * vs] = choice_##t##_##how##xs##ys##us##vs,
static const FgVmFused fg_choices[4][4][16] = {
    {FG_CHOICES(FG_CELL4, f32)}, {FG_CHOICES(FG_CELL4, f64)}, {FG_CHOICES(FG_CELL4, i32)}, {FG_CHOICES(FG_CELL4, i64)}};

enum { FG_KIND_FLOAT, FG_KIND_INT, FG_KIND_SUM };
/* The number of a first operation whose operands a and b are one value (bits 0 and 1 of `ones`), or -1. */
static int fg_first_number(int kind, int op, int ones) {
    #define FG_E(name, as, bs, kind) if (op == FG_OP_##name && ones == as + 2 * bs) return FG_FIRST_##kind##_##name##as##bs;
    if (kind == FG_KIND_INT) { FG_FIRSTS_int(FG_E, int) }
    else if (kind == FG_KIND_SUM) { FG_FIRSTS_sum(FG_E, sum) } else { FG_FIRSTS_float(FG_E, float) }
    #undef FG_E
    return -1;
}
enum { FG_OP_rsub = -2, FG_OP_rdiv = -3, FG_OP_rmax = -4, FG_OP_rmin = -5 };
static int fg_turned(int op, int turned) {
    return !turned ? op : op == FG_OP_sub ? FG_OP_rsub : op == FG_OP_div ? FG_OP_rdiv :
           op == FG_OP_max ? FG_OP_rmax : op == FG_OP_min ? FG_OP_rmin : op;
}
/* The number of a second operation; turned: the first one's result is its second operand.  As the third one of a triple. */
static int fg_second_number(int kind, int op, int turned, int one) {
    op = fg_turned(op, turned);
    #define FG_E(name, cs, kind) if (op == FG_OP_##name && one == cs) return FG_SECOND_##kind##_##name##cs;
    if (kind == FG_KIND_INT) { FG_SECONDS_int(FG_E, int) }
    else if (kind == FG_KIND_SUM) { FG_SECONDS_sum(FG_E, sum) } else { FG_SECONDS_float(FG_E, float) }
    #undef FG_E
    return -1;
}
static int fg_third_number(int op, int turned, int one) {
    op = fg_turned(op, turned);
    #define FG_E(name, ds, kind) if (op == FG_OP_##name && one == ds) return FG_THIRD_##kind##_##name##ds;
    FG_THIRDS_sum(FG_E, sum)
    #undef FG_E
    return -1;
}
static int fg_fused_kind(int type) {    /* 0, 1: float32, float64; 2, 3: integers of 32 and 64 bits; -1: none */
    return type == FG_F32 ? 0 : type == FG_F64 ? 1 : type == FG_I32 || type == FG_U32 ? 2 : type == FG_I64 || type == FG_U64 ? 3 : -1;
}
static FgVmFused fg_pair(int type, int first, int second) {
    int kind = fg_fused_kind(type);
    if (kind < 0 || first < 0 || second < 0) return 0;
    return kind == 0 ? fg_pairs_f32[first][second] : kind == 1 ? fg_pairs_f64[first][second] :
           kind == 2 ? fg_pairs_u32[first][second] : fg_pairs_u64[first][second];
}
static FgVmFused fg_triple(int type, int first, int second, int third) {
    if ((type != FG_F32 && type != FG_F64) || first < 0 || second < 0 || third < 0) return 0;
    return type == FG_F32 ? fg_triples_f32[first][second][third] : fg_triples_f64[first][second][third];
}
static FgVmFused fg_choice(int type, int how, int ones) {
    int kind = fg_fused_kind(type);
    return kind < 0 || (type == FG_U32 || type == FG_U64) ? 0 : fg_choices[kind][how][ones];
}
#endif
