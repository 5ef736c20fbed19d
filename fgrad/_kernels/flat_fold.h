/* Flat code's reductions of up to 16 rows, columns or planes side by side: each step brings one term of every result to a lane of its own, by permutations
 * of the vectors that the terms lie in (AVX-512), or of the one that a register holds. Sums and extrema are the VM's bit for bit: in the order of its rows or of its columns. */
#ifndef FG_FLAT_FOLD_H
#define FG_FLAT_FOLD_H
#include "machine_code.h"
#include "vm_plan.h"
#ifdef __AVX512F__
#include <immintrin.h>
#define FG_FLAT_PERMUTES 1
#else
#define FG_FLAT_PERMUTES 0
#endif
/* 1 where permutations, small products and folds are ops: machine code has them by AVX2 too, the interpreter by AVX-512 alone. */
#define FG_FLAT_INLINES(f) (FG_FLAT_PERMUTES || (FG_MACHINE_CODE == 1 && (f)->machine))
#ifdef __AVX512VBMI__
#define FG_FLAT_PERMUTES_BYTES FG_FLAT_PERMUTES
#else
#define FG_FLAT_PERMUTES_BYTES 0
#endif
/* 1 where machine code collects bytes from all over to whole vectors: by permutations, or by AVX2 as runs of bytes. */
#define FG_FLAT_COLLECTS_BYTES (FG_FLAT_PERMUTES_BYTES || FG_MACHINE_CODE == 1)
/* Lane i takes number at[i] of the two vectors that begin first and second bytes away; of four, those of the latter two where first has its bit. */
typedef struct { int32_t at[16]; int64_t first, second; char rest[48]; } FgFlatTerm;
/* rows, k, width: as the VM's function sees it; chains: it keeps four partial results; last: where the last vector begins. The terms follow. */
typedef struct { int64_t rows, k, width, chains, last; char rest[24]; } FgFlatFold;
enum { FG_FOLD_SUM, FG_FOLD_MAX, FG_FOLD_MIN };

#if FG_FLAT_PERMUTES
typedef struct { __m512 x[4]; const char *a; } FgFlatFrom;
#define FG_FOLD_INLINE static inline __attribute__((always_inline))
FG_FOLD_INLINE FgFlatFrom fg_fold_from(int vectors, __m512 held, const char *a, int64_t last) {
    FgFlatFrom from = {.x = {held}, .a = a};
    if (vectors == 4) for (int i = 0; i < 4; i++) from.x[i] = _mm512_load_ps(a + (64 * i < last ? 64 * i : last));
    return from;
}
FG_FOLD_INLINE __m512 fg_fold_term(int vectors, const FgFlatFrom *f, const FgFlatTerm *t) {
    const __m512i at = _mm512_load_si512(t->at);
    if (vectors == 1) return _mm512_permutexvar_ps(at, f->x[0]);
    if (vectors == 2) return _mm512_permutex2var_ps(_mm512_load_ps(f->a + t->first), at, _mm512_load_ps(f->a + t->second));
    return _mm512_mask_blend_ps((__mmask16)t->first, _mm512_permutex2var_ps(f->x[0], at, f->x[1]), _mm512_permutex2var_ps(f->x[2], at, f->x[3]));
}
FG_FOLD_INLINE __m512 fg_fold_op(int how, __m512 x, __m512 y) {
    return how == FG_FOLD_SUM ? _mm512_add_ps(x, y) : how == FG_FOLD_MAX ? _mm512_max_ps(x, y) : _mm512_min_ps(x, y);
}
/* *all: the sum of all terms, which tells of a NaN. */
FG_FOLD_INLINE __m512 fg_fold_lanes(int vectors, int how, __m512 held, const char *a, const FgFlatFold *g, __m512 *all) {
    const FgFlatTerm *t = (const FgFlatTerm *)(g + 1);
    const FgFlatFrom from = fg_fold_from(vectors, held, a, g->last);
    __m512 x = fg_fold_term(vectors, &from, t), y, sums = x;
    int64_t i = 1;
    #define FG_TERM(i) (y = fg_fold_term(vectors, &from, t + (i)), sums = how ? _mm512_add_ps(sums, y) : sums, y)
    if (g->chains && g->k >= 4) {
        __m512 b = FG_TERM(1), c = FG_TERM(2), e = FG_TERM(3);
        for (i = 4; i + 4 <= g->k; i += 4) {
            x = fg_fold_op(how, FG_TERM(i), x); b = fg_fold_op(how, FG_TERM(i + 1), b);
            c = fg_fold_op(how, FG_TERM(i + 2), c); e = fg_fold_op(how, FG_TERM(i + 3), e);
        }
        y = fg_fold_op(how, c, x); c = fg_fold_op(how, e, b); x = fg_fold_op(how, c, y);
    }
    if (g->chains) for (; i < g->k; i++) x = fg_fold_op(how, FG_TERM(i), x);
    else for (; i < g->k; i++) x = fg_fold_op(how, x, FG_TERM(i));
    #undef FG_TERM
    *all = sums;
    return x;
}
/* The positions of the first extrema, or of the first NaN. */
FG_FOLD_INLINE __m512i fg_fold_positions(int vectors, int how, __m512 held, const char *a, const FgFlatFold *g) {
    const FgFlatTerm *t = (const FgFlatTerm *)(g + 1);
    const FgFlatFrom from = fg_fold_from(vectors, held, a, g->last);
    __m512 x = fg_fold_term(vectors, &from, t);
    __m512i at = _mm512_setzero_si512();
    for (int64_t i = 1; i < g->k; i++) {
        const __m512 y = fg_fold_term(vectors, &from, t + i);
        const __mmask16 ordered = _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q);
        const __mmask16 beats = how == FG_FOLD_MAX ? _mm512_mask_cmp_ps_mask(ordered, y, x, _CMP_NLE_UQ) : _mm512_mask_cmp_ps_mask(ordered, y, x, _CMP_NGE_UQ);
        x = _mm512_mask_mov_ps(x, beats, y);
        at = _mm512_mask_mov_epi32(at, beats, _mm512_set1_epi32((int)i));
    }
    return at;
}
/* That of k numbers of up to four vectors. */
FG_FOLD_INLINE int32_t fg_fold_position(int how, const char *a, int64_t k) {
    const float none = how == FG_FOLD_MAX ? -__builtin_inff() : __builtin_inff();
    const int64_t vectors = (k + 15) / 16;
    __m512 x[4], top;
    uint64_t found = 0;
    for (int64_t i = 0; i < vectors; i++) {
        const __mmask16 in = (__mmask16)(i < vectors - 1 ? 0xffff : (1u << (k - 16 * i)) - 1);
        x[i] = _mm512_mask_mov_ps(_mm512_set1_ps(none), in, _mm512_load_ps(a + 64 * i));
        found |= (uint64_t)_mm512_cmp_ps_mask(x[i], x[i], _CMP_UNORD_Q) << 16 * i;
        top = i ? fg_fold_op(how, top, x[i]) : x[i];
    }
    if (found) return (int32_t)__builtin_ctzll(found);
    top = fg_fold_op(how, top, _mm512_shuffle_f32x4(top, top, 0x4e));
    top = fg_fold_op(how, top, _mm512_shuffle_f32x4(top, top, 0xb1));
    top = fg_fold_op(how, top, _mm512_permute_ps(top, 0x4e));
    top = fg_fold_op(how, top, _mm512_permute_ps(top, 0xb1));
    for (int64_t i = 0; i < vectors; i++) found |= (uint64_t)_mm512_cmp_ps_mask(x[i], top, _CMP_EQ_OQ) << 16 * i;
    return (int32_t)__builtin_ctzll(found);
}
/* The interpreter calls these: what they keep in registers would leave it fewer for all other ops. */
#define FG_FOLD_CALL static __attribute__((noinline))
#define M(name, vectors, how) \
FG_FOLD_CALL __m512 fg_fold_##name##vectors(__m512 held, const char *a, const FgFlatFold *g, FgVmSeg exact, char *d) { \
    __m512 all, x = fg_fold_lanes(vectors, how, held, a, g, &all); \
    if (!how || !_mm512_cmp_ps_mask(all, all, _CMP_UNORD_Q)) return x; \
    exact(d, a, a, g->rows, g->k, g->width); \
    return _mm512_load_ps(d); \
}
M(sums, 1, FG_FOLD_SUM) M(sums, 2, FG_FOLD_SUM) M(sums, 4, FG_FOLD_SUM)
M(maxima, 1, FG_FOLD_MAX) M(maxima, 2, FG_FOLD_MAX) M(maxima, 4, FG_FOLD_MAX)
M(minima, 1, FG_FOLD_MIN) M(minima, 2, FG_FOLD_MIN) M(minima, 4, FG_FOLD_MIN)
#undef M
#define M(name, vectors, how) FG_FOLD_CALL __m512 fg_fold_##name##vectors(__m512 held, const char *a, const FgFlatFold *g) \
    { return (__m512)fg_fold_positions(vectors, how, held, a, g); }
M(argmaxima, 1, FG_FOLD_MAX) M(argmaxima, 2, FG_FOLD_MAX) M(argmaxima, 4, FG_FOLD_MAX)
M(argminima, 1, FG_FOLD_MIN) M(argminima, 2, FG_FOLD_MIN) M(argminima, 4, FG_FOLD_MIN)
#undef M
FG_FOLD_CALL int32_t fg_fold_argmax(const char *a, int64_t k) { return fg_fold_position(FG_FOLD_MAX, a, k); }
FG_FOLD_CALL int32_t fg_fold_argmin(const char *a, int64_t k) { return fg_fold_position(FG_FOLD_MIN, a, k); }
#endif
#endif
