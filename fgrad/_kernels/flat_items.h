/* Flat code's gathers and scatters of several index vectors, each of which selects one run: table look-ups of a batch, mostly. */
#ifndef FG_FLAT_ITEMS_H
#define FG_FLAT_ITEMS_H
#include <string.h>
#include "flat_fold.h"
#include "index_plan.h"

enum { FG_FLAT_ITEMS = 64 };            /* index vectors, at most */

/* n runs of `run` bytes: the i-th lies at small[i] of one operand and, moved by the components of its index, at big[i] of the other; its index begins
 * at from[i] (all in bytes), components are `ki` apart. Component c is bounded to [0, top] and moves by step bytes; out of these, its run is left
 * out or, of a gather, `value`. */
typedef struct {
    const char *index;
    int64_t n, run, wide, nk, ki, wrap, drop, in_line;          /* in_line: of one component, all of four bytes that lie side by side */
    int64_t kind, dtype, indices;                               /* of a scatter; indices: the bytes in which they lie */
    int64_t top[FG_MAXDIM], step[FG_MAXDIM];
    int32_t big[FG_FLAT_ITEMS], small[FG_FLAT_ITEMS], from[FG_FLAT_ITEMS];
    char value[16];
} FgFlatItems;

/* How many bytes away the i-th run is, or FG_MISS. */
static inline int64_t fg_items_at(const FgFlatItems *t, int64_t i) {
    int64_t off = t->big[i];
    int there = 1;
    const char *index = t->index + t->from[i];
    for (int64_t c = 0; c < t->nk; c++, index += t->ki) {
        int32_t narrow;
        int64_t given;
        if (t->wide) memcpy(&given, index, 8);
        else { memcpy(&narrow, index, 4); given = narrow; }
        int64_t v = given + ((given >> 63) & t->wrap), in = v < 0 ? 0 : v > t->top[c] ? t->top[c] : v;
        there &= in == v || !t->drop;
        off += in * t->step[c];
    }
    return there ? off : FG_MISS;
}

#if FG_FLAT_PERMUTES
/* Places of up to 16 runs in line, in units of four bytes. */
#define FG_ITEMS_LANES(t, i, lanes, there, at) \
    const __mmask16 lanes = (__mmask16)((t)->n - (i) < 16 ? (1 << ((t)->n - (i))) - 1 : 0xffff); \
    __m512i v_ = _mm512_maskz_loadu_epi32(lanes, (t)->index + 4 * (i)); \
    v_ = _mm512_mask_add_epi32(v_, _mm512_movepi32_mask(v_), v_, _mm512_set1_epi32((int)(t)->wrap)); \
    const __m512i in_ = _mm512_min_epi32(_mm512_max_epi32(v_, _mm512_setzero_si512()), _mm512_set1_epi32((int)(t)->top[0])); \
    const __mmask16 there = (t)->drop ? _mm512_mask_cmpeq_epi32_mask(lanes, in_, v_) : lanes; \
    const __m512i at = _mm512_add_epi32(_mm512_mullo_epi32(in_, _mm512_set1_epi32((int)((t)->step[0] / 4))), \
                                        _mm512_srai_epi32(_mm512_loadu_si512((t)->big + (i)), 2));
#endif

static void fg_items_take(char *d, const char *a, const FgFlatItems *t) {
#if FG_FLAT_PERMUTES
    for (int64_t i = 0; t->in_line && i < t->n; i += 16) {
        FG_ITEMS_LANES(t, i, lanes, there, at)
        int32_t other;
        memcpy(&other, t->value, 4);
        _mm512_mask_storeu_epi32(d + 4 * i, lanes, _mm512_mask_i32gather_epi32(_mm512_set1_epi32(other), there, at, a, 4));
    }
    if (t->in_line) return;
#endif
    #define M(BYTES) for (int64_t i = 0; i < t->n; i++) { int64_t at = fg_items_at(t, i); memcpy(d + t->small[i], at == FG_MISS ? t->value : a + at, BYTES); }
    if (t->run == 4) M(4)
    else if (t->run == 8) M(8)
    else for (int64_t i = 0; i < t->n; i++) {
        int64_t at = fg_items_at(t, i);
        if (at != FG_MISS) memcpy(d + t->small[i], a + at, t->run);
        else for (int64_t k = 0; k < t->run; k += t->dtype) memcpy(d + t->small[i] + k, t->value, t->dtype);        /* there: an item's bytes */
    }
    #undef M
}

static void fg_items_set(char *d, const char *a, const FgFlatItems *t) {
#if FG_FLAT_PERMUTES
    for (int64_t i = 0; t->in_line && i < t->n; i += 16) {          /* of two to one place, the later one stays */
        FG_ITEMS_LANES(t, i, lanes, there, at)
        _mm512_mask_i32scatter_epi32(d, there, at, _mm512_maskz_loadu_epi32(lanes, a + 4 * i), 4);
    }
    if (t->in_line) return;
#endif
    for (int64_t i = 0; i < t->n; i++) {
        int64_t at = fg_items_at(t, i);
        if (at == FG_MISS) continue;
        if (t->run == 4) memcpy(d + at, a + t->small[i], 4);
        else memcpy(d + at, a + t->small[i], t->run);
    }
}

/* Sums and products, one vector after the other. */
#define FG_ITEMS_TYPES(X) X(FG_F32, float) X(FG_F64, double) X(FG_I32, uint32_t) X(FG_U32, uint32_t) X(FG_I64, uint64_t) X(FG_U64, uint64_t)
static int fg_items_compute(int dtype, int kind) {
    #define M(D, T) if (dtype == D) return kind == FG_ADD || kind == FG_MUL;
    FG_ITEMS_TYPES(M)
    #undef M
    return 0;
}
static void fg_items_update(char *d, const char *a, const FgFlatItems *t) {
    for (int64_t i = 0; i < t->n; i++) {
        int64_t at = fg_items_at(t, i);
        if (at == FG_MISS) continue;
        #define M(D, T) case D: { \
            T __attribute__((may_alias)) *to = (T *)(d + at); \
            const T __attribute__((may_alias)) *by = (const T *)(a + t->small[i]); \
            if (t->kind == FG_ADD) for (int64_t k = 0; k < t->run / (int64_t)sizeof(T); k++) to[k] += by[k]; \
            else for (int64_t k = 0; k < t->run / (int64_t)sizeof(T); k++) to[k] *= by[k]; \
            break; }
        switch (t->dtype) { FG_ITEMS_TYPES(M) }
        #undef M
    }
}

/* What it takes for a plan that walks these; 0 where it is none. `small` lies in one piece. */
static int fg_items_of(FgFlatItems *t, const FgIndexPlan *g, const char *index, int64_t reach, int take) {
    int64_t coord[FG_MAXDIM] = {0}, pieces = 1;
    memset(t, 0, sizeof *t);
    t->index = index; t->n = g->n; t->run = g->run * g->item; t->wide = g->wide; t->nk = g->nk; t->wrap = g->wrap; t->drop = g->drop;
    t->kind = g->kind; t->dtype = take ? g->item : g->dtype;
    const int64_t wide = g->wide ? 8 : 4;
    t->ki = g->ki * wide;
    if (g->n < 2 || g->n > FG_FLAT_ITEMS || g->p != 1 || g->by_plan || g->only >= 0 || g->nk < 1 || reach > INT32_MAX) return 0;
    if (g->run != 1 && (g->run_b != 1 || g->run_s != 1)) return 0;
    memcpy(t->value, g->value, sizeof t->value);
    for (int c = 0; c < g->nk; c++) { t->top[c] = g->top[c]; t->step[c] = g->kb[c] * g->item; }
    for (int64_t i = 0; i < g->n; i++) {
        int64_t big = g->b0, small = g->s0, from = g->i0;
        for (int d = 0; d < g->nb; d++) { big += coord[d] * g->bb[d]; small += coord[d] * g->bs[d]; from += coord[d] * g->bi[d]; }
        for (int d = g->nb - 1; d >= 0 && ++coord[d] == g->shape[d]; d--) coord[d] = 0;
        big *= g->item; small *= g->item; from *= wide;
        if (big < 0 || small < 0 || from < 0 || big > INT32_MAX || small > INT32_MAX || from > INT32_MAX) return 0;
        t->big[i] = (int32_t)big; t->small[i] = (int32_t)small; t->from[i] = (int32_t)from;
        if (from + (g->nk - 1) * t->ki + wide > t->indices) t->indices = from + (g->nk - 1) * t->ki + wide;
        pieces &= big % 4 == 0 && small == 4 * i && from == 4 * i;
    }
    t->in_line = pieces && t->run == 4 && !t->wide && t->nk == 1 && t->step[0] % 4 == 0 && t->top[0] < INT32_MAX && t->wrap <= INT32_MAX;
    return 1;
}
#endif
