/* Weighted sums of a few neighbours along one axis, as a resized image has: a product with a matrix of which each row has some numbers side by
 * side that are not zero. Arrays are (outer, along, inner), inner elements side by side; a unit of work is one row of `inner` of the result. */
#ifndef FG_BAND_H
#define FG_BAND_H
#include "fg.h"

enum { FG_BAND_BYTES = 32768 };

typedef struct {
    int32_t is_double;
    int64_t n, m, outer, inner;
    int64_t weights;              /* bytes from the lists to the weights, in the result's type */
    int64_t lists[];              /* of each of m: the first neighbour; then m + 1 places in the weights */
} FgBandPlan;

typedef struct {
    const FgBandPlan *plan;
    const char *src;
    char *dst;
} FgBandJob;

/* `block` elements from *r on, as long as there are so many: sums in registers. */
#define FG_BAND_BLOCKS(T, block) \
    for (; r + block <= inner; r += block) { \
        T sum[block]; \
        for (int i = 0; i < block; i++) sum[i] = w[0] * s[r + i]; \
        for (int64_t t = 1; t < count; t++) \
            for (int i = 0; i < block; i++) sum[i] += w[t] * s[t * inner + r + i]; \
        for (int i = 0; i < block; i++) d[r + i] = sum[i]; \
    }

#define FG_BAND(T, name) \
static void name(const FgBandPlan *p, const T *restrict src, T *restrict dst, int64_t begin, int64_t end) { \
    const T *weights = (const T *)((const char *)p->lists + p->weights); \
    int64_t inner = p->inner, m = p->m; \
    const T *limit = src + p->outer * p->n * inner; \
    for (int64_t u = begin; u < end; u++) { \
        int64_t j = u % m, r = 0, at = p->lists[m + j], count = p->lists[m + j + 1] - at; \
        const T *s = src + (u / m * p->n + p->lists[j]) * inner, *w = weights + at; \
        T *d = dst + u * inner; \
        if ((inner == 2 || inner == 3) && count && u + 1 < end && s + count * inner + 2 <= limit) { \
            T sum[4];                                  /* of four, the last ones are the next unit's */ \
            for (int i = 0; i < 4; i++) sum[i] = w[0] * s[i]; \
            for (int64_t t = 1; t < count; t++) \
                for (int i = 0; i < 4; i++) sum[i] += w[t] * s[t * inner + i]; \
            if (u + 2 < end) for (int i = 0; i < 4; i++) d[i] = sum[i]; \
            else memcpy(d, sum, inner * sizeof(T)); \
            continue; \
        } \
        if (!count) { memset(d, 0, inner * sizeof(T)); continue; } \
        FG_BAND_BLOCKS(T, 64) \
        FG_BAND_BLOCKS(T, 16) \
        FG_BAND_BLOCKS(T, 4) \
        FG_BAND_BLOCKS(T, 1) \
    } \
}
FG_BAND(float, fg_band_f32)
FG_BAND(double, fg_band_f64)
#undef FG_BAND
#undef FG_BAND_BLOCKS

static void fg_band_units(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgBandJob *job = (const FgBandJob *)ctx;
    (void)tid;
    if (job->plan->is_double) fg_band_f64(job->plan, (const double *)job->src, (double *)job->dst, begin, end);
    else fg_band_f32(job->plan, (const float *)job->src, (float *)job->dst, begin, end);
}

/* A plan along an axis resized from n to m; of each of m, the first neighbour and how many there are, and all weights one after the other. */
static FgBandPlan *fg_band_plan(int is_double, int64_t n, int64_t m, const int64_t *first, const int64_t *counts, const double *fp, int64_t n_fp) {
    int64_t lists = (2 * m + 1) * sizeof(int64_t);
    FgBandPlan *p = (FgBandPlan *)malloc(sizeof *p + lists + n_fp * (is_double ? 8 : 4));
    if (!p) return NULL;
    p->is_double = is_double; p->n = n; p->m = m; p->weights = lists;
    memcpy(p->lists, first, m * sizeof(int64_t));
    p->lists[m] = 0;
    for (int64_t j = 0; j < m; j++) p->lists[m + j + 1] = p->lists[m + j] + counts[j];
    char *w = (char *)p->lists + lists;
    for (int64_t k = 0; k < n_fp; k++) {
        if (is_double) ((double *)w)[k] = fp[k];
        else ((float *)w)[k] = (float)fp[k];
    }
    return p;
}
#endif
