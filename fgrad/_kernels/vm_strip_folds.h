/* Stages that reduce rows: a strip's vectors become one for each row that it has, which waits with those of other rows until the lanes of all of
 * them are reduced together (vm_in_strips.h). Rows of 8, 4 or 2 vectors; of what is no whole strip, the lanes that bits c to f name. Part of
 * vm_make.h. */
#ifndef FG_VM_STRIP_FOLDS_H
#define FG_VM_STRIP_FOLDS_H
#include <stddef.h>
#include "vm_strip_tables.h"

/* what is reduced: the strip's x, |x|, x * x, or x by an operand */
#define FG_TERM_plain(t, k) (fg_w_##t)r##k
#define FG_TERM_abs(t, k) FG_DO_abs(t, r##k, 0)
#define FG_TERM_square(t, k) ((fg_w_##t)r##k * (fg_w_##t)r##k)
#define FG_TERM_mul(t, k) ((fg_w_##t)r##k * p[k])
#define FG_TERM_LOCAL_plain(t)
#define FG_TERM_LOCAL_abs(t)
#define FG_TERM_LOCAL_square(t)
#define FG_TERM_LOCAL_mul(t) const fg_p_##t *p = (const fg_p_##t *)FG_AT(a);

/* how; sizes are ordered as their bits are, NaN last */
#define FG_BITS_OF_f32 i32
#define FG_BITS_OF_f64 i64
#define FG_GREATER_BITS_(b, x, y) FG_GREATER_##b((fg_w_##b)(x), (fg_w_##b)(y))
#define FG_GREATER_BITS(b, x, y) FG_GREATER_BITS_(b, x, y)
#define FG_BY_sum(t, x, y) ((x) + (y))
#define FG_BY_max(t, x, y) vec_max_##t(x, y)
#define FG_BY_min(t, x, y) vec_min_##t(x, y)
#define FG_BY_size(t, x, y) (fg_w_##t)FG_GREATER_BITS(FG_BITS_OF_##t, x, y)
#define FG_EXACT_max(t, x, y) FG_GREATER_##t(x, y)
#define FG_EXACT_min(t, x, y) FG_LESSER_##t(x, y)
#define FG_FOLD_START_sum(t) (-(fg_w_##t){0})
#define FG_FOLD_START_max(t) ((fg_w_##t){0} - (__typeof__((fg_w_##t){0}[0]))INFINITY)
#define FG_FOLD_START_min(t) ((fg_w_##t){0} + (__typeof__((fg_w_##t){0}[0]))INFINITY)
#define FG_FOLD_START_size(t) ((fg_w_##t){0})

#define FG_FOLD_8(by, t) by(t, by(t, by(t, x0, x1), by(t, x2, x3)), by(t, by(t, x4, x5), by(t, x6, x7)))
#define FG_FOLDED_8(by, t) d[0] = FG_FOLD_8(by, t);
#define FG_FOLDED_4(by, t) d[0] = by(t, by(t, x0, x1), by(t, x2, x3)); d[1] = by(t, by(t, x4, x5), by(t, x6, x7));
#define FG_FOLDED_2(by, t) d[0] = by(t, x0, x1); d[1] = by(t, x2, x3); d[2] = by(t, x4, x5); d[3] = by(t, x6, x7);
/* extrema pass NaN on: where there is one, the general way */
#define FG_FOLDED_NUMBERS(how, per, t) { \
    fg_nan_##t bad_ = {0}; \
    FG_ADD_NAN_##t(bad_, x0, x1); FG_ADD_NAN_##t(bad_, x2, x3); FG_ADD_NAN_##t(bad_, x4, x5); FG_ADD_NAN_##t(bad_, x6, x7); \
    if (__builtin_expect(FG_ANY_NAN(t, bad_), 0)) { FG_FOLDED_##per(FG_EXACT_##how, t) } \
    else { FG_FOLDED_##per(FG_BY_##how, t) } }
#define FG_FOLDED_sum(per, t) FG_FOLDED_##per(FG_BY_sum, t)
#define FG_FOLDED_size(per, t) FG_FOLDED_##per(FG_BY_size, t)
#define FG_FOLDED_max(per, t) FG_FOLDED_NUMBERS(max, per, t)
#define FG_FOLDED_min(per, t) FG_FOLDED_NUMBERS(min, per, t)

#define FG_ALL_OF(term, t, k, start) const fg_w_##t x##k = FG_TERM_##term(t, k);
#ifdef __AVX512F__
#define FG_ONLY_f32(bits, x, y) (fg_w_f32)_mm512_mask_mov_ps((__m512)(y), (__mmask16)(bits), (__m512)(x))
#define FG_ONLY_f64(bits, x, y) (fg_w_f64)_mm512_mask_mov_pd((__m512d)(y), (__mmask8)(bits), (__m512d)(x))
#else
#define FG_ONLY_LANES(t, bits, x, y) ({ fg_m_##t m_; for (int l_ = 0; l_ < (int)(FG_VEC / sizeof m_[0]); l_++) m_[l_] = -(int)((bits) >> l_ & 1); FG_PICKED(t, m_, x, y); })
#define FG_ONLY_f32(bits, x, y) FG_ONLY_LANES(f32, bits, x, y)
#define FG_ONLY_f64(bits, x, y) FG_ONLY_LANES(f64, bits, x, y)
#endif
#define FG_FOLD_LANES(t) ((int)(FG_VEC / sizeof((fg_m_##t){0}[0])))
#define FG_SOME_OF(term, t, k, start) const fg_w_##t x##k = FG_ONLY_##t(bits[k * FG_FOLD_LANES(t) / 64] >> k * FG_FOLD_LANES(t) % 64, \
    FG_TERM_##term(t, k), start);
#define FG_FOLD_EIGHT(M, term, t, start) M(term, t, 0, start) M(term, t, 1, start) M(term, t, 2, start) M(term, t, 3, start) \
    M(term, t, 4, start) M(term, t, 5, start) M(term, t, 6, start) M(term, t, 7, start)
#define FG_FOLD(per, how, term, t) static void fold_##how##_##term##_##per##_##t(FG_STAGE_ARGS) { \
    fg_p_##t *d = (fg_p_##t *)(ptr[s->b] + at / per); FG_TERM_LOCAL_##term(t) \
    FG_FOLD_EIGHT(FG_ALL_OF, term, t, 0) FG_FOLDED_##how(per, t) FG_NEXT }
/* the last strip of a row, which may begin before the strip that it stands for */
#define FG_FOLD_SOME(how, term, t) static void fold_##how##_##term##_some_##t(FG_STAGE_ARGS) { \
    fg_p_##t *d = (fg_p_##t *)(ptr[s->b] + (at + FG_STRIP - 1) / FG_STRIP * FG_VEC); FG_TERM_LOCAL_##term(t) \
    uint64_t bits[2]; memcpy(bits, (const char *)s + offsetof(FgStage, c), sizeof bits); \
    FG_FOLD_EIGHT(FG_SOME_OF, term, t, FG_FOLD_START_##how(t)) FG_FOLDED_##how(8, t) FG_NEXT }
_Static_assert(offsetof(FgStage, f) - offsetof(FgStage, c) == 12, "sixteen bytes of bits");
#define FG_FOLDS_OF(M, t) M(sum, plain, t) M(sum, abs, t) M(sum, square, t) M(sum, mul, t) M(max, plain, t) M(min, plain, t) M(size, abs, t)
#define FG_FOLD_ALL(how, term, t) FG_FOLD(8, how, term, t) FG_FOLD(4, how, term, t) FG_FOLD(2, how, term, t) FG_FOLD_SOME(how, term, t)
FG_FOLDS_OF(FG_FOLD_ALL, f32) FG_FOLDS_OF(FG_FOLD_ALL, f64)

/* by kind; rows of 8, 4 and 2 vectors, and what is no whole strip */
#define FG_FOLD_KIND(how, term, t) FG_FOLD_##how##_##term,
enum { FG_FOLDS_OF(FG_FOLD_KIND, ) FG_FOLD_KINDS };
enum { FG_FOLD_SOME_OF = 3 };
#define FG_CELL_FOLD(how, term, t) [FG_FOLD_##how##_##term] = {fold_##how##_##term##_8_##t, fold_##how##_##term##_4_##t, fold_##how##_##term##_2_##t, \
    fold_##how##_##term##_some_##t},
static const FgStageFn fg_folds[2][FG_FOLD_KINDS][4] = {{FG_FOLDS_OF(FG_CELL_FOLD, f32)}, {FG_FOLDS_OF(FG_CELL_FOLD, f64)}};
#endif
