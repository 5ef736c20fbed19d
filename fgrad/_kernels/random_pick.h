/* Categories drawn by the largest of logits plus Gumbel noise, -log(-log u), without the two logarithms of most: 1 - u bounds -log u from
 * below, and the bits of a float, read as an integer, its logarithm; so each element has an upper bound in three operations, and only those
 * are computed that may exceed the best one's lower bound.  What is chosen is what computing all of them would choose, ties and NaN too. */
#ifndef FG_RANDOM_PICK_H
#define FG_RANDOM_PICK_H
#include "random.h"
#include "scalar_sample.h"

enum { PICK_CHUNK = 1024, PICK_LANES = FG_VEC / 4 };
typedef float pick_floats __attribute__((vector_size(FG_VEC), aligned(4), may_alias));
typedef struct {
    const FgTensor *key, *logits;    /* (..., 2); (..., rows, n), whose leading axes are those of the keys or 1, dense but for these */
    int32_t *out;                    /* (..., draws, rows) */
    int64_t draws, rows, n, parts, part;
    float *values;                   /* of the best of each part of a row; NULL where rows are whole */
    int32_t *found;
} PickPlan;
typedef struct { float value, least; int64_t at; } PickBest;   /* least: below it an upper bound is worse than `value` for sure */

static float pick_value(uint32_t word, float logit) {
    float u = fg_float(word >> 9 | 0x3f800000u) - 1;
    return -fg_sample_log_f32(-fg_sample_log_f32(u > FLT_MIN ? u : FLT_MIN)) + logit;
}
/* How far rounding may move a value or a bound, many times over. */
static float pick_margin(float v) { return 1e-4f + 1e-6f * fabsf(v); }

static void pick_consider(PickBest *best, uint32_t word, float logit, int64_t at) {
    float v = pick_value(word, logit);
    if (v > best->value || (v != v && best->value == best->value) || best->at < 0) *best = (PickBest){v, v - pick_margin(v), at};
}

#ifdef __AVX512F__
FG_INLINE uint32_t pick_from(vec_f32 v, float least) { return _mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(least), _CMP_GE_OQ); }
FG_INLINE float pick_most(vec_f32 v) { return _mm512_reduce_max_ps((__m512)v); }
FG_INLINE int pick_some(fg_lanes_f32 m) { return _mm512_test_epi32_mask((__m512i)m, (__m512i)m) != 0; }
#else
FG_INLINE uint32_t pick_from(vec_f32 v, float least) { uint32_t bits = 0; for (int j = 0; j < PICK_LANES; j++) bits |= (uint32_t)(v[j] >= least) << j; return bits; }
FG_INLINE float pick_most(vec_f32 v) { float m = v[0]; for (int j = 1; j < PICK_LANES; j++) m = v[j] > m ? v[j] : m; return m; }
FG_INLINE int pick_some(fg_lanes_f32 m) { int any = 0; for (int j = 0; j < PICK_LANES; j++) any |= m[j]; return any != 0; }
#endif

/* The best of `len` elements, from number `at` of their row on; alone: of all of the row, so that its value is not asked for. */
static void pick_among(const uint32_t *words, const float *logits, int64_t len, int64_t at, int alone, PickBest *best) {
    vec_f32 upper[PICK_CHUNK / PICK_LANES + 1], top = (vec_f32){0} - INFINITY;
    uint32_t among[PICK_CHUNK / PICK_LANES + 1];
    fg_lanes_f32 where = {0}, lane, now, odd = {0};
    for (int j = 0; j < PICK_LANES; j++) lane[j] = j;
    now = lane;
    int64_t vectors = 0;
    for (int64_t i = 0; i < len; i += PICK_LANES) {
        const int rest = len - i < PICK_LANES ? (int)(len - i) : PICK_LANES;
        vec_f32 l;
        if (rest == PICK_LANES) l = (vec_f32)*(const pick_floats *)(logits + i);
        else { fg_lanes_f32 in = lane < rest; l = (vec_f32)(((fg_lanes_f32)vec_load_part_f32(logits + i, rest) & in) | ((fg_lanes_f32)((vec_f32){0} - INFINITY) & ~in)); }
        random_lanes w = *(const random_lanes *)(words + i);                   /* there is room behind the last */
        vec_f32 d = 2 - (vec_f32)(w >> 9 | 0x3f800000u);                        /* 1 - u */
        /* -log d <= (127 - bits / 2^23) log 2 */
        vec_f32 u = __builtin_convertvector((fg_lanes_f32)d, vec_f32) * -8.2629582e-8f + (88.029692f + l);
        upper[vectors++] = u;
        fg_lanes_f32 more = u > top;
        top = vec_max_f32(u, top);
        where = (now & more) | (where & ~more);
        odd |= u != u;
        now += PICK_LANES;
    }
    const float most = pick_most(top);
    if (pick_some(odd) || !(most < INFINITY && most > -INFINITY)) {
        for (int64_t i = 0; i < len; i++) pick_consider(best, words[i], logits[i], at + i);
        return;
    }
    if (most < best->least) return;
    const int64_t p = where[__builtin_ctz(pick_from(top, most))];
    float d = 2 - fg_float(words[p] >> 9 | 0x3f800000u), least = most - 0.06f - d / (1 - d) - pick_margin(most);   /* -log u <= (1 - u) / u */
    if (least < best->least) least = best->least;
    int count = 0;
    for (int64_t v = 0; v < vectors; v++) { among[v] = pick_from(upper[v], least); count += __builtin_popcount(among[v]); }
    if (alone && count == 1) { best->at = at + p; return; }
    for (int64_t v = 0; v < vectors; v++) {
        for (uint32_t bits = among[v]; bits; bits &= bits - 1) {
            const int64_t i = v * PICK_LANES + __builtin_ctz(bits);
            if (i < len) pick_consider(best, words[i], logits[i], at + i);
        }
    }
}

/* Row r of the logits of key number k. */
static const float *pick_row(const PickPlan *c, int64_t k, int64_t r) {
    const FgTensor *t = c->logits;
    int64_t at = r * c->n;
    for (int d = c->key->ndim - 2; d >= 0; d--) {
        at += t->shape[d] == 1 ? 0 : k % c->key->shape[d] * t->strides[d];
        k /= c->key->shape[d];
    }
    return (const float *)t->data + at;
}

/* Units are rows of one draw of one key, or parts of them. */
static void random_pick(void *ctx, int64_t begin, int64_t end, int tid) {
    const PickPlan *c = ctx;
    uint32_t words[PICK_CHUNK + PICK_LANES] = {0};
    const int64_t each = c->draws * c->rows, together = c->n < PICK_CHUNK ? PICK_CHUNK / c->n : 1;
    (void)tid;
    for (int64_t u = begin; u < end; ) {
        int64_t unit = u / c->parts, from = u % c->parts * c->part, to = from + c->part < c->n ? from + c->part : c->n;
        int64_t key = unit / each, in_key = unit % each;
        uint32_t k1, k2;
        random_key(c->key, key, &k1, &k2);
        if (c->n <= PICK_CHUNK) {                                    /* whole rows, whose counters follow each other */
            int64_t count = together;
            if (count > end - u) count = end - u;
            if (count > each - in_key) count = each - in_key;
            random_words(k1, k2, (uint64_t)(in_key * c->n), count * c->n, words);
            for (int64_t j = 0; j < count; j++) {
                PickBest best = {-INFINITY, -INFINITY, -1};
                pick_among(words + j * c->n, pick_row(c, key, (in_key + j) % c->rows), c->n, 0, 1, &best);
                c->out[u + j] = (int32_t)best.at;
            }
            u += count;
            continue;
        }
        const float *logits = pick_row(c, key, in_key % c->rows);
        PickBest best = {-INFINITY, -INFINITY, -1};
        for (int64_t at = from; at < to; at += PICK_CHUNK) {
            int64_t len = to - at < PICK_CHUNK ? to - at : PICK_CHUNK;
            random_words(k1, k2, (uint64_t)(in_key * c->n + at), len, words);
            pick_among(words, logits + at, len, at, 0, &best);
        }
        if (c->values) { c->values[u] = best.value; c->found[u] = (int32_t)best.at; }
        else c->out[u] = (int32_t)best.at;
        u++;
    }
}

/* The best of each row's parts. */
static void random_pick_join(const PickPlan *c, int64_t units) {
    for (int64_t u = 0; u < units; u++) {
        const float *v = c->values + u * c->parts;
        int64_t best = 0;
        for (int64_t p = 1; p < c->parts; p++) if (v[p] > v[best] || (v[p] != v[p] && v[best] == v[best])) best = p;
        c->out[u] = c->found[u * c->parts + best];
    }
}
#endif
