/* Attention of float32 on the processor's tile unit (amx.h), or with one part for each operand where these are bfloat16.
 *
 * A unit is several blocks of queries of a key head, which go through the keys together: each packs its queries once, and a tile of keys and
 * values is packed once for all of them. A tile of scores lies as ever, a query in each lane, so that what makes logits of it is shared;
 * probabilities are packed as they are computed, and outputs are added up turned, a row for each feature.
 * Blocks that meet what the unit cannot take are computed by the other tiles. */
#ifndef FG_ATTENTION_AMX_H
#define FG_ATTENTION_AMX_H
#include "amx.h"

#define ATT_AMX_BLOCKS 8                  /* blocks of a unit, at most */
#define ATT_AMX_BACK 4                    /* backward */
#define ATT_AMX_SMALL 0x21800000          /* 2^-60: products of cotangents below it are the other tiles' */

/* Blocks of a unit: as many as leave units enough for many threads. */
static inline int64_t att_amx_group(const FgAttn *p) {
    int64_t each = p->chunks * p->blocks, n = p->B * p->Hk * each * p->splits / 32;
    n = n > ATT_AMX_BLOCKS ? ATT_AMX_BLOCKS : n < 1 ? 1 : n;
    return n > each ? each : n;
}
static inline int64_t att_amx_units(const FgAttn *p) {
    int64_t n = att_amx_group(p), each = p->chunks * p->blocks;
    return p->B * p->Hk * ((each + n - 1) / n) * p->splits;
}

#if FG_AMX && defined(__AVX512F__)
/* Are there rows enough to pack keys for, and whole tiles to fill? Blocks of the backward pass are of one head. */
static int att_amx_wants(const FgAttn *p, int backward) {
    return p->dtype == FG_F32 && !p->few && p->D >= 24 && p->Dv >= 24 && p->S >= 32 && p->G * p->L >= 64 && (backward ? p->L : p->queries * p->heads) > 16;
}

/* Keys of a tile: few where the mask hides a half of one. */
static inline int64_t att_amx_keys(const FgAttn *p) { return p->causal ? 64 : p->keys; }

#define ATT_STEPS(depth) (((depth) + 31) / 32)
static inline int64_t att_amx_size(int64_t lines, int64_t depth, int parts) { return (lines + 15) / 16 * ATT_STEPS(depth) * parts * AMX_TILE; }

/* Panels of `lines` rows of a, or columns of b, over `depth` of k: for each panel its steps, for each its parts, one or two tiles of each. */
AMX_CODE static void att_amx_pack(int parts, char *to, const float *src, int64_t line, int64_t k, int64_t lines, int64_t depth, int by_lines, AmxSeen *seen) {
    for (int64_t l = 0; l < lines; l += AMX_LINES) {
        const int64_t tiles = lines - l > 16 ? 2 : 1;
        for (int64_t d = 0; d < depth; d += 32, to += parts * tiles * AMX_TILE) for (int64_t t = 0; t < tiles; t++) {
            const int64_t n = lines - l - 16 * t, from = (l + 16 * t) * line + d * k;
            if (parts == 1) amx_pack_near(to + t * AMX_TILE, src + from, line, k, n < 16 ? n : 16, depth - d < 32 ? depth - d : 32, by_lines, seen);
            else amx_pack_split(to + t * AMX_TILE, tiles * AMX_TILE, src + from, line, k, n < 16 ? n : 16, depth - d < 32 ? depth - d : 32, by_lines, seen);
        }
    }
}
/* The same; 1 if there is what the unit cannot take. */
AMX_CODE static int att_amx_take(int parts, char *to, const float *src, int64_t line, int64_t k, int64_t lines, int64_t depth, int by_lines) {
    AmxSeen seen = amx_seen();
    att_amx_pack(parts, to, src, line, k, lines, depth, by_lines, &seen);
    return amx_has_far(&seen) || (parts > 1 && amx_has_tiny(&seen) && amx_has_small_line(src, line, k, lines, depth));
}

/* s = the products of nb packed keys with the packed queries of a block, but for panels that the mask hides. */
static void att_amx_scores(const FgAttn *p, const FgAttnRows *x, int parts, const char *k, const char *q, int64_t depth, int64_t k0, int64_t nb, float *s) {
    const int64_t W = gemm_f32_width(x->rows), steps = ATT_STEPS(depth);
    AmxAhead none = {0};
    for (int64_t i = 0; i < nb; i += AMX_LINES) {
        int64_t m = nb - i < AMX_LINES ? nb - i : AMX_LINES, a, b;
        att_lanes_f32(p, x, k0 + i, k0 + i + m - 1, &a, &b);
        for (a -= a % AMX_LINES; a < b; a += AMX_LINES)
            amx_panel(m, W - a, parts, steps, k + i / 16 * steps * parts * AMX_TILE, q + a / 16 * steps * parts * AMX_TILE, s + i * W + a, W, &none);
    }
}

/* Queries are scaled before they are packed, but for those of one part whose scale is no power of two: their products are. */
static int att_amx_scales_late(const FgAttn *p, int parts) {
    int exponent;
    return parts == 1 && fabsf(frexpf(att_qscale_f32(p), &exponent)) != 0.5f;
}
AMX_CODE static void att_amx_scale(const FgAttn *p, const FgAttnRows *x, int64_t nb, float *s) {
    const __m512 f = _mm512_set1_ps(att_qscale_f32(p));
    for (int64_t i = 0, n = nb * gemm_f32_width(x->rows); i < n; i += 16) _mm512_storeu_ps(s + i, _mm512_mul_ps(_mm512_loadu_ps(s + i), f));
}

/* Steps along nb keys that the queries [c, c + AMX_LINES) of a block see. */
static inline void att_amx_steps(const FgAttn *p, const FgAttnRows *x, int64_t k0, int64_t nb, int64_t c, int64_t *first, int64_t *end) {
    int64_t at = p->S - p->L + x->t0 - k0, n = x->rows - c < AMX_LINES ? x->rows - c : AMX_LINES, lo = 0, hi = nb;
    if (x->skip && p->causal && at + c + n < hi) hi = at + c + n;
    if (x->skip && p->window > 0 && at + c + 1 - p->window > 0) lo = at + c + 1 - p->window;
    *first = lo / 32;
    *end = lo < hi ? ATT_STEPS(hi) : *first;
}

/* e^x, but 0 below 2^-99: no part of it is a denormal number, which takes a hundred times as long. */
FG_INLINE vec_f32 att_amx_exp(vec_f32 x) {
    const __m512 least = _mm512_set1_ps(-69.0f);
    const __mmask16 seen = _mm512_cmp_ps_mask((__m512)x, least, _CMP_NLT_UQ);
    x = (vec_f32)_mm512_max_ps(least, (__m512)x);
    FG_CELL_POWER(x, 0, u, k, power, p);
    return (vec_f32)_mm512_maskz_scalef_ps(seen, (__m512)(power * p + power), (__m512)k);
}

/* One more tile of logits: exp(s - max) goes to panels of b, the running maxima and sums advance, and `before` tells what earlier output
 * is multiplied by. */
AMX_CODE static void att_amx_online(const FgAttn *p, const FgAttnRows *x, int parts, int64_t k0, int64_t nb, const float *s, float *max, float *sum,
                                    float *before, char *to) {
    const vec_f32 lowest = (vec_f32){0} - FLT_MAX, none = {0};
    const int64_t W = gemm_f32_width(x->rows), steps = ATT_STEPS(nb);
    vec_f32 m[ATT_ROWS / 16], l[ATT_ROWS / 16];
    uint8_t from[256], end[256];
    AmxSeen unread = amx_seen();
    for (int64_t r = 0; r < W; r += 16) m[r / 16] = *(const gemm_f32_mem *)(max + r);
    for (int64_t j = 0; j < 32 * steps; j++) {
        int64_t a = 0, b = 0;
        if (j < nb) att_lanes_f32(p, x, k0 + j, k0 + j, &a, &b);
        from[j] = (uint8_t)a;
        end[j] = (uint8_t)b;
        for (int64_t r = a; r < b; r += 16) m[r / 16] = vec_max_f32(*(const gemm_f32_mem *)(s + j * W + r), m[r / 16]);
    }
    for (int64_t r = 0; r < W; r += 16) {
        vec_f32 old = *(const gemm_f32_mem *)(max + r), base = vec_max_f32(m[r / 16], lowest);
        *(gemm_f32_mem *)(before + r) = vec_exp_f32(old - base);
        *(gemm_f32_mem *)(max + r) = m[r / 16];
        m[r / 16] = base;
        l[r / 16] = none;
    }
    for (int64_t c = 0; c < W; c += AMX_LINES) {
        const int64_t tiles = W - c > 16 ? 2 : 1;
        char *panel = to + c / 16 * steps * parts * AMX_TILE;
        int64_t first, last;
        att_amx_steps(p, x, k0, nb, c, &first, &last);
        for (int64_t i = first; i < last; i++) for (int64_t t = 0; t < tiles; t++) {
            const int64_t r = c + 16 * t;
            const float *row = s + 32 * i * W + r;
            char *tile = panel + (i * parts * tiles + t) * AMX_TILE;
            vec_f32 base = m[r / 16], total = l[r / 16];
            for (int64_t j = 32 * i; j < 32 * i + 16; j++, row += W, tile += 64) {
                vec_f32 e = none, f = none;
                if (from[j] <= r && r < end[j]) e = att_amx_exp(*(const gemm_f32_mem *)row - base);
                if (from[j + 16] <= r && r < end[j + 16]) f = att_amx_exp(*(const gemm_f32_mem *)(row + 16 * W) - base);
                total += e + f;
                if (parts == 1) _mm512_store_si512(tile, amx_pair(amx_near((__m512)e), amx_near((__m512)f)));
                else amx_split(tile, tiles * AMX_TILE, (__m512)e, (__m512)f, &unread);
            }
            l[r / 16] = total;
        }
    }
    for (int64_t r = 0; r < W; r += 16) *(gemm_f32_mem *)(sum + r) = *(const gemm_f32_mem *)(sum + r) * *(const gemm_f32_mem *)(before + r) + l[r / 16];
}

/* c, a row of queries for each of n features, = c * before + the products of packed a (a line for each feature) and b (one for each
 * query) along nb keys; `before` may be NULL for ones. */
AMX_CODE static void att_amx_turned(const FgAttn *p, const FgAttnRows *x, int parts, const char *a, const char *b, int64_t k0, int64_t nb, int64_t n,
                                    const float *before, float *c) {
    const int64_t W = gemm_f32_width(x->rows), steps = ATT_STEPS(nb);
    float sums[AMX_LINES * AMX_LINES] __attribute__((aligned(64)));
    AmxAhead none = {0};
    for (int64_t r = 0; r < W; r += AMX_LINES) {
        const int64_t tiles = W - r > 16 ? 2 : 1;
        int64_t first, last;
        att_amx_steps(p, x, k0, nb, r, &first, &last);
        if (first >= last) continue;
        for (int64_t f = 0; f < n; f += AMX_LINES) {
            const int64_t m = n - f < AMX_LINES ? n - f : AMX_LINES, high = m > 16 ? 2 : 1;
            amx_panel(m, W - r, parts, last - first, a + (f / 16 * steps + first * high) * parts * AMX_TILE,
                      b + (r / 16 * steps + first * tiles) * parts * AMX_TILE, sums, AMX_LINES, &none);
            for (int64_t t = 0; t < tiles; t++) {
                __m512 factor = before ? _mm512_loadu_ps(before + r + 16 * t) : _mm512_set1_ps(1);
                for (int64_t d = 0; d < m; d++) {
                    float *at = c + (f + d) * W + r + 16 * t;
                    _mm512_storeu_ps(at, _mm512_fmadd_ps(_mm512_loadu_ps(at), factor, _mm512_load_ps(sums + d * AMX_LINES + 16 * t)));
                }
            }
        }
    }
}

/* A thread's memory beside the buffers of the other tiles: packed keys, values and probabilities; of each block its packed queries, its
 * turned output, maxima and sums. */
typedef struct { char *k, *v, *p, *q; float *o, *max, *sum; int64_t q_size, o_size; } AttAmx;
static int64_t att_amx_buffers(const FgAttn *p, int parts, char *at, AttAmx *to) {
    const int64_t n = att_amx_group(p);
    int64_t used = 0;
    to->q_size = att_amx_size(ATT_ROWS, p->D, parts);
    to->o_size = ATT_ROWS * p->Dv;
#define CUT(field, bytes) do { to->field = at ? (void *)(at + used) : NULL; used += ((bytes) + 63) / 64 * 64; } while (0)
    CUT(k, att_amx_size(att_amx_keys(p), p->D, parts));
    CUT(v, att_amx_size(p->Dv, att_amx_keys(p), parts));
    CUT(p, att_amx_size(ATT_ROWS, att_amx_keys(p), parts));
    CUT(q, n * to->q_size);
    CUT(o, n * to->o_size * 4);
    CUT(max, n * ATT_ROWS * 4);
    CUT(sum, n * ATT_ROWS * 4);
    return used;
}
static int64_t att_amx_scratch(const FgAttn *p, int parts) {
    AttAmx none;
    return att_amx_buffers(p, parts, NULL, &none);
}

/* Blocks [i0, i1) of a key head against a part of its keys; 0 where these have what the unit cannot take. */
static int att_amx_blocks(const FgAttnRun *w, int64_t i0, int64_t i1, int64_t part, const AttBuffers_f32 *m, const AttAmx *to) {
    const FgAttn *p = w->p;
    const int parts = w->parts;
    const int64_t item = fg_itemsize(p->stored), none = INT64_MAX, keys = att_amx_keys(p);
    FgAttnRows x[ATT_AMX_BLOCKS];
    int64_t lo[ATT_AMX_BLOCKS], hi[ATT_AMX_BLOCKS], low = none, high = 0, ldk, ldv;
    float before[ATT_ROWS];
    for (int64_t i = i0, n = 0; i < i1; i++, n++) {
        x[n] = att_block(p, i);
        const int64_t W = gemm_f32_width(x[n].rows);
        att_range(p, x[n].t0, x[n].t0 + x[n].tb, &lo[n], &hi[n]);
        if (lo[n] < part * p->split_keys) lo[n] = part * p->split_keys;
        if (hi[n] > (part + 1) * p->split_keys) hi[n] = (part + 1) * p->split_keys;
        low = lo[n] < low ? lo[n] : low;
        high = hi[n] > high ? hi[n] : high;
        att_turn_q_f32(w, &x[n], att_amx_scales_late(p, parts) ? 1 : att_qscale_f32(p), m);
        if (att_amx_take(parts, to->q + n * to->q_size, m->qt, 1, W, W, p->D, 0)) return 0;
        memset(to->o + n * to->o_size, 0, (size_t)(W * p->Dv) * 4);
        for (int64_t r = 0; r < ATT_ROWS; r++) { to->max[n * ATT_ROWS + r] = -INFINITY; to->sum[n * ATT_ROWS + r] = 0; }
    }
    const char *kh = w->k + (x[0].b * p->k[0] + x[0].h0 / p->G * p->k[1]) * item, *vh = w->v + (x[0].b * p->v[0] + x[0].h0 / p->G * p->v[1]) * item;
    for (int64_t k0 = low, nb; k0 < high; k0 += nb) {
        nb = high - k0 < keys ? high - k0 : keys;
        const float *k = att_keys_f32(p, kh + k0 * p->k[2] * item, p->k[2], nb, p->D, m->k, &ldk);
        const float *v = att_keys_f32(p, vh + k0 * p->v[2] * item, p->v[2], nb, p->Dv, m->v, &ldv);
        if (att_amx_take(parts, to->k, k, ldk, 1, nb, p->D, 1) || att_amx_take(parts, to->v, v, 1, ldv, p->Dv, nb, 1)) return 0;
        for (int64_t n = 0; n < i1 - i0; n++) {
            if (k0 >= hi[n] || k0 + nb <= lo[n]) continue;
            float *max = to->max + n * ATT_ROWS, *sum = to->sum + n * ATT_ROWS;
            att_amx_scores(p, &x[n], parts, to->k, to->q + n * to->q_size, p->D, k0, nb, m->s);
            if (att_amx_scales_late(p, parts)) att_amx_scale(p, &x[n], nb, m->s);
            att_to_logits_f32(w, &x[n], k0, nb, m->s, NULL, m->turned);
            att_amx_online(p, &x[n], parts, k0, nb, m->s, max, sum, before, to->p);
            att_amx_turned(p, &x[n], parts, to->v, to->p, k0, nb, p->Dv, before, to->o + n * to->o_size);
        }
    }
    for (int64_t i = i0, n = 0; i < i1; i++, n++) {
        float *state = p->splits > 1 ? (float *)w->part + (i * p->splits + part) * p->state : m->state;
        gemm_f32_pack(state, p->Dv, to->o + n * to->o_size, p->Dv, gemm_f32_width(x[n].rows), 1, x[n].rows);
        memcpy(state + p->state_rows * p->Dv, to->max + n * ATT_ROWS, ATT_ROWS * 4);
        memcpy(state + p->state_rows * (p->Dv + 1), to->sum + n * ATT_ROWS, ATT_ROWS * 4);
        if (p->splits == 1) att_finish_f32(w, &x[n], to->max + n * ATT_ROWS, to->sum + n * ATT_ROWS, state);
    }
    return 1;
}

static void att_amx_forward(FgAttnRun *w, int tid) {
    const FgAttn *p = w->p;
    const int64_t n = att_amx_group(p), each = p->chunks * p->blocks, groups = (each + n - 1) / n;
    char *scratch = w->scratch + tid * w->per_thread;
    AttBuffers_f32 m;
    AttAmx to;
    att_amx_buffers(p, w->parts, scratch + att_buffers_f32(p, 0, scratch, &m), &to);
    amx_begin();
    for (int64_t u; (u = att_unit(w)) < w->units;) {
        const int64_t part = u % p->splits, head = u / p->splits / groups, i0 = head * each + u / p->splits % groups * n;
        const int64_t i1 = i0 + n < (head + 1) * each ? i0 + n : (head + 1) * each;
        if (!att_amx_blocks(w, i0, i1, part, &m, &to))
            for (int64_t i = i0; i < i1; i++) att_forward_unit_f32(w, i * p->splits + part, &m);
    }
    amx_end();
}
/* ---- backward ---- */

/* Logits s to probabilities, and ds, the probabilities' cotangent, to that of the logits times `scale`; zeros where nothing is seen. 1 if
 * probabilities are what the unit cannot take. */
AMX_CODE static int att_amx_probabilities(const FgAttn *p, const FgAttnRows *x, int64_t k0, int64_t nb, float *s, float *ds, const float *state, float scale) {
    const int64_t W = gemm_f32_width(x->rows);
    const vec_f32 none = {0};
    __m512 most = _mm512_setzero_ps();
    for (int64_t j = 0; j < nb; j++) {
        int64_t a, b;
        att_lanes_f32(p, x, k0 + j, k0 + j, &a, &b);
        for (int64_t r = 0; r < W; r += 16) {
            gemm_f32_mem *at = (gemm_f32_mem *)(s + j * W + r), *to = (gemm_f32_mem *)(ds + j * W + r);
            if (r < a || r >= b) { *at = none; *to = none; continue; }
            vec_f32 e = att_amx_exp(*at - *(const gemm_f32_mem *)(state + r));
            most = _mm512_castsi512_ps(_mm512_max_epu32(_mm512_castps_si512(most), (__m512i)e));
            *at = e;
            *to = e * scale * (*to - *(const gemm_f32_mem *)(state + ATT_ROWS + r));
        }
    }
    return _mm512_cmpge_epu32_mask(_mm512_castps_si512(most), _mm512_set1_epi32(AMX_FAR)) != 0;
}

/* c, a row of n for each of nb keys, += the products of packed a (a line for each key) and b (one for each feature) along the queries. */
AMX_CODE static void att_amx_to_keys(const FgAttn *p, const FgAttnRows *x, int parts, const char *a, const char *b, int64_t k0, int64_t nb, int64_t n,
                                     float *c, int64_t ldc) {
    const int64_t steps = ATT_STEPS(x->rows);
    float sums[AMX_LINES * AMX_LINES] __attribute__((aligned(64)));
    AmxAhead none = {0};
    for (int64_t i = 0; i < nb; i += AMX_LINES) {
        const int64_t m = nb - i < AMX_LINES ? nb - i : AMX_LINES, high = m > 16 ? 2 : 1;
        int64_t lo, hi;
        att_seen_f32(p, x, k0 + i, k0 + i + m - 1, &lo, &hi);
        if (lo >= hi) continue;
        lo /= 32;
        hi = ATT_STEPS(hi);
        for (int64_t f = 0; f < n; f += AMX_LINES) {
            const int64_t cols = n - f < AMX_LINES ? n - f : AMX_LINES, tiles = cols > 16 ? 2 : 1;
            amx_panel(m, cols, parts, hi - lo, a + (i / 16 * steps + lo * high) * parts * AMX_TILE, b + (f / 16 * steps + lo * tiles) * parts * AMX_TILE,
                      sums, AMX_LINES, &none);
            for (int64_t d = 0; d < cols; d += 16) {
                const __mmask16 mask = amx_mask(cols - d);
                for (int64_t r = 0; r < m; r++) {
                    float *at = c + (i + r) * ldc + f + d;
                    _mm512_mask_storeu_ps(at, mask, _mm512_add_ps(_mm512_maskz_loadu_ps(mask, at), _mm512_load_ps(sums + r * AMX_LINES + d)));
                }
            }
        }
    }
}

/* A thread's memory: a tile's packed keys, by keys and by features, and values; its packed probabilities, and the products' cotangents by
 * keys and by queries; of each block its packed queries and cotangents, by queries and by features, the turned gradient of its queries,
 * and logsumexp and delta. */
typedef struct { char *k, *kt, *v, *p, *ds, *dst, *q, *qt, *g, *gt; float *dq, *state; int64_t q_size, g_size; } AttAmxBack;
static int64_t att_amx_back_buffers(const FgAttn *p, int parts, char *at, AttAmxBack *to) {
    int64_t used = 0;
    to->q_size = att_amx_size(ATT_ROWS, p->D, parts) > att_amx_size(p->D, ATT_ROWS, parts) ? att_amx_size(ATT_ROWS, p->D, parts) : att_amx_size(p->D, ATT_ROWS, parts);
    to->g_size = att_amx_size(ATT_ROWS, p->Dv, parts) > att_amx_size(p->Dv, ATT_ROWS, parts) ? att_amx_size(ATT_ROWS, p->Dv, parts) : att_amx_size(p->Dv, ATT_ROWS, parts);
    CUT(k, att_amx_size(p->keys, p->D, parts));
    CUT(kt, att_amx_size(p->D, p->keys, parts));
    CUT(v, att_amx_size(p->keys, p->Dv, parts));
    CUT(p, att_amx_size(p->keys, ATT_ROWS, parts));
    CUT(ds, att_amx_size(p->keys, ATT_ROWS, parts));
    CUT(dst, att_amx_size(ATT_ROWS, p->keys, parts));
    CUT(q, ATT_AMX_BACK * to->q_size);
    CUT(qt, ATT_AMX_BACK * to->q_size);
    CUT(g, ATT_AMX_BACK * to->g_size);
    CUT(gt, ATT_AMX_BACK * to->g_size);
    CUT(dq, ATT_AMX_BACK * ATT_ROWS * p->D * 4);
    CUT(state, ATT_AMX_BACK * 2 * ATT_ROWS * 4);
    return used;
}
static int64_t att_amx_scratch_back(const FgAttn *p, int parts) {
    AttAmxBack none;
    return att_amx_back_buffers(p, parts, NULL, &none);
}

/* Block n of a unit, packed, against a packed tile of keys. */
AMX_CODE static void att_amx_tile_back(const FgAttnRun *w, const FgAttnRows *x, int64_t n, int64_t k0, int64_t nb, const float *k, const AttBuffers_f32 *m,
                                       const AttAmxBack *to) {
    const FgAttn *p = w->p;
    const int parts = w->parts, plain = att_is_plain_f32(w);
    const int64_t W = gemm_f32_width(x->rows), hk = x->h0 / p->G;
    att_amx_scores(p, x, parts, to->k, to->q + n * to->q_size, p->D, k0, nb, m->s);
    if (att_amx_scales_late(p, parts)) att_amx_scale(p, x, nb, m->s);
    att_to_logits_f32(w, x, k0, nb, m->s, p->softcap > 0 ? m->th : NULL, m->turned);
    att_amx_scores(p, x, parts, to->v, to->g + n * to->g_size, p->Dv, k0, nb, m->ds);
    int far = att_amx_probabilities(p, x, k0, nb, m->s, m->ds, to->state + n * 2 * ATT_ROWS, plain ? att_qscale_f32(p) : 1);
    if (!plain) att_beyond_f32(w, x, k0, nb, m);
    AmxSeen seen = amx_seen(), known = amx_seen();
    if (w->want & ATT_DQ) att_amx_pack(parts, to->dst, m->ds, 1, W, W, nb, 0, &seen);
    if (w->want & ATT_DKV) att_amx_pack(parts, to->ds, m->ds, W, 1, nb, W, 1, &seen);
    const uint32_t most = _mm512_reduce_max_epu32(seen.most);
    if (far || most >= AMX_FAR || (most && most < ATT_AMX_SMALL)) {
        att_gradients_f32(w, x, k0, nb, m->s, m->ds, k, p->k[2], att_block_q_f32(w, x), p->q[2], att_block_g_f32(w, x), p->g[2]);
        return;
    }
    if (w->want & ATT_DQ) att_amx_turned(p, x, parts, to->kt, to->dst, k0, nb, p->D, NULL, to->dq + n * ATT_ROWS * p->D);
    if (w->want & ATT_DKV) {
        att_amx_pack(parts, to->p, m->s, W, 1, nb, W, 1, &known);
        att_amx_to_keys(p, x, parts, to->p, to->gt + n * to->g_size, k0, nb, p->Dv, (float *)w->dv + x->b * p->dv[0] + hk * p->dv[1] + k0 * p->dv[2], p->dv[2]);
        att_amx_to_keys(p, x, parts, to->ds, to->qt + n * to->q_size, k0, nb, p->D, (float *)w->dk + x->b * p->dk[0] + hk * p->dk[1] + k0 * p->dk[2], p->dk[2]);
    }
}

/* Pack a block's queries and cotangents; 1 where they have what the unit cannot take. */
static int att_amx_take_block(const FgAttnRun *w, const FgAttnRows *x, int64_t n, const AttBuffers_f32 *m, const AttAmxBack *to) {
    const FgAttn *p = w->p;
    const int parts = w->parts;
    const int64_t W = gemm_f32_width(x->rows);
    char *q = to->q + n * to->q_size, *qt = to->qt + n * to->q_size, *g = to->g + n * to->g_size, *gt = to->gt + n * to->g_size;
    att_turn_q_f32(w, x, att_amx_scales_late(p, parts) ? 1 : att_qscale_f32(p), m);
    gemm_f32_pack(m->gt, W, att_block_g_f32(w, x), x->rows, p->g[2], 1, p->Dv);
    int far = att_amx_take(parts, q, m->qt, 1, W, W, p->D, 0) | att_amx_take(parts, g, m->gt, 1, W, W, p->Dv, 0);
    if (w->want & ATT_DKV) {
        far |= att_amx_take(parts, qt, att_block_q_f32(w, x), 1, p->q[2], p->D, x->rows, 0);
        far |= att_amx_take(parts, gt, att_block_g_f32(w, x), 1, p->g[2], p->Dv, x->rows, 0);
    }
    return far;
}

/* At most ATT_AMX_BACK blocks. Whether a block meets a tile of keys on the unit depends on nothing but these two. */
static void att_amx_blocks_back(const FgAttnRun *w, int64_t b, int64_t h, int64_t q0, int64_t q1, int64_t j0, int64_t j1, const AttBuffers_f32 *m, const AttAmxBack *to) {
    const FgAttn *p = w->p;
    const int parts = w->parts;
    FgAttnRows x[ATT_AMX_BACK];
    int64_t first[ATT_AMX_BACK], last[ATT_AMX_BACK];
    int far[ATT_AMX_BACK];
    for (int64_t n = 0; n < q1 - q0; n++) {
        first[n] = j0;
        last[n] = j1;
        x[n] = att_block_rows_f32(w, b, h, q0 + n, &first[n], &last[n]);
        if (first[n] >= last[n]) continue;
        far[n] = att_amx_take_block(w, &x[n], n, m, to);
        att_block_state_f32(w, &x[n], to->state + n * 2 * ATT_ROWS);
        memset(to->dq + n * ATT_ROWS * p->D, 0, (size_t)(ATT_ROWS * p->D) * 4);
    }
    for (int64_t j = j0; j < j1; j++) {
        const int64_t k0 = j * p->keys, nb = p->S - k0 < p->keys ? p->S - k0 : p->keys, hk = h / p->G;
        const float *k = (const float *)w->k + b * p->k[0] + hk * p->k[1] + k0 * p->k[2], *v = (const float *)w->v + b * p->v[0] + hk * p->v[1] + k0 * p->v[2];
        int packed = 0, far_keys = 0;
        for (int64_t n = 0; n < q1 - q0; n++) {
            if (j < first[n] || j >= last[n]) continue;
            if (!packed) {
                packed = 1;
                far_keys = att_amx_take(parts, to->k, k, p->k[2], 1, nb, p->D, 1) | att_amx_take(parts, to->v, v, p->v[2], 1, nb, p->Dv, 1);
                if (w->want & ATT_DQ) far_keys |= att_amx_take(parts, to->kt, k, 1, p->k[2], p->D, nb, 1);
            }
            if (far[n] || far_keys) att_block_back_f32(w, b, h, q0 + n, j, j + 1, m);
            else att_amx_tile_back(w, &x[n], n, k0, nb, k, m, to);
        }
    }
    for (int64_t n = 0; n < q1 - q0 && (w->want & ATT_DQ); n++) {
        if (first[n] >= last[n]) continue;
        float *dq = (float *)w->dq + b * p->dq[0] + h * p->dq[1] + x[n].t0 * p->dq[2];
        gemm_f32_pack(m->scaled, p->D, to->dq + n * ATT_ROWS * p->D, p->D, gemm_f32_width(x[n].rows), 1, x[n].rows);
        for (int64_t r = 0; r < x[n].rows; r++) for (int64_t d = 0; d < p->D; d++) dq[r * p->dq[2] + d] += m->scaled[r * p->D + d];
    }
}
static void att_amx_back(const FgAttnRun *w, int64_t b, int64_t h, int64_t q0, int64_t q1, int64_t j0, int64_t j1, char *scratch) {
    AttBuffers_f32 m;
    AttAmxBack to;
    att_amx_back_buffers(w->p, w->parts, scratch + att_buffers_f32(w->p, 1, scratch, &m), &to);
    amx_begin();
    for (; q0 < q1; q0 += ATT_AMX_BACK) att_amx_blocks_back(w, b, h, q0, q0 + ATT_AMX_BACK < q1 ? q0 + ATT_AMX_BACK : q1, j0, j1, &m, &to);
    amx_end();
}
#undef CUT
#else
static int att_amx_wants(const FgAttn *p, int backward) { return 0; }
static int64_t att_amx_scratch(const FgAttn *p, int parts) { return 0; }
static int64_t att_amx_scratch_back(const FgAttn *p, int parts) { return 0; }
static void att_amx_back(const FgAttnRun *w, int64_t b, int64_t h, int64_t q0, int64_t q1, int64_t j0, int64_t j1, char *scratch) {}
static void att_amx_forward(FgAttnRun *w, int tid) {}
#endif
#endif
