/* Tiles of attention for one element type T; included twice by attention.h. */

#include "attention_lanes.h"

/* Rows as products read them: where they lie, or copied to buf where a whole vector would reach beyond a row. */
static inline const T *N(att_rows)(const T *src, int64_t stride, int64_t rows, int64_t cols, T *buf, int64_t *ld) {
    *ld = stride;
    if (GEMM_MASKS || cols % G(lanes) == 0) return src;
    *ld = G(width)(cols);
    G(pack)(buf, *ld, src, cols, 1, stride, rows);
    return buf;
}

/* Keys or values as products read them: those stored in 16 bits (T is float) are widened. */
static inline const T *N(att_keys)(const FgAttn *p, const char *src, int64_t stride, int64_t rows, int64_t cols, T *buf, int64_t *ld) {
    if (p->stored == p->dtype) return N(att_rows)((const T *)src, stride, rows, cols, buf, ld);
    *ld = G(width)(cols);
    const int whole = stride == cols && *ld == cols;                 /* rows lie without gaps */
    for (int64_t r = 0, n = whole ? rows * cols : cols; r < (whole ? 1 : rows); r++) {
        T *row = buf + r * *ld;
        fg_widen16(p->stored, (const uint16_t *)src + r * stride, (float *)row, n);
        for (int64_t d = cols; d < *ld; d++) row[d] = 0;
    }
    return buf;
}

static inline T N(att_qscale)(const FgAttn *p) { return (T)(p->softcap > 0 ? p->scale / p->softcap : p->scale); }

/* Queries times f as rows; what meets 16-bit numbers lies in the order of their chunks, 0 beyond the last feature. */
static void N(att_pack_q)(const FgAttnRun *w, const FgAttnRows *x, T f, T *qs) {
    const FgAttn *p = w->p;
    for (int64_t r = 0; r < x->rows; r++) {
        const int64_t at = x->b * p->q[0] + (x->h0 + r / x->tb) * p->q[1] + (x->t0 + r % x->tb) * p->q[2];
        T *restrict d = qs + r * p->few_ld;
        if (p->narrow) fg_widen16(p->stored, (const uint16_t *)w->q + at, (float *)d, p->D);
        const T *s = p->narrow ? d : (const T *)w->q + at;
        for (int64_t i = 0; i < p->few_ld; i++) d[i] = i < p->D ? s[i] * f : 0;
        if (p->parted && p->stored == FG_BF16) fg_part((float *)d, p->few_ld);
    }
}

/* Scores of a tile of few rows become logits: softcap, bias and mask applied; masked entries are -inf. */
static void N(att_logits)(const FgAttnRun *w, const FgAttnRows *x, int64_t k0, int64_t nb, T *s, int64_t ld) {
    const FgAttn *p = w->p;
    int64_t off = p->S - p->L;
    for (int64_t r = 0; r < x->rows; r++) {
        int64_t t = x->t0 + r % x->tb;
        T *restrict row = s + r * ld;
        if (p->softcap > 0) {
            T cap = (T)p->softcap;
            for (int64_t j = 0; j < nb; j++) row[j] = cap * N(att_tanh)(row[j]);
        }
        if (p->has_bias) {
            int64_t sj = p->bias[3];
            const T *restrict b = (const T *)w->bias + x->b * p->bias[0] + (x->h0 + r / x->tb) * p->bias[1] + t * p->bias[2] + k0 * sj;
            if (sj == 1) for (int64_t j = 0; j < nb; j++) row[j] += b[j];
            else for (int64_t j = 0; j < nb; j++) row[j] += b[j * sj];
        }
        if (p->has_slopes) {                                         /* minus the slope times the distance of query and key */
            T m = ((const T *)w->slopes)[x->b * p->slope[0] + (x->h0 + r / x->tb) * p->slope[1]], d = (T)(t + off - k0);
            for (int32_t j = 0; j < (int32_t)nb; j++) { T e = d - (T)j; row[j] -= m * (e < 0 ? -e : e); }
        }
        if (p->causal && t + off + 1 < k0 + nb)
            for (int64_t j = t + off + 1 > k0 ? t + off + 1 - k0 : 0; j < nb; j++) row[j] = -(T)INFINITY;
        if (p->window > 0 && t + off - p->window >= k0) {
            int64_t end = t + off - p->window + 1 - k0 < nb ? t + off - p->window + 1 - k0 : nb;
            for (int64_t j = 0; j < end; j++) row[j] = -(T)INFINITY;
        }
    }
}

/* One more tile of few rows: s becomes exp(s - max), the running maximum and sum advance, earlier output is rescaled. */
static void N(att_online)(int64_t rows, int64_t nb, int64_t ld, T *s, T *max, T *sum, T *out, int64_t Dv) {
    for (int64_t r = 0; r < rows; r++) {
        T *restrict row = s + r * ld, m = max[r], l = 0;
        #pragma omp simd reduction(max:m)
        for (int64_t j = 0; j < nb; j++) m = row[j] > m ? row[j] : m;
        T base = m == -(T)INFINITY ? 0 : m;
        #pragma omp simd reduction(+:l)
        for (int64_t j = 0; j < nb; j++) { T e = N(row_exp)(row[j] - base); row[j] = e; l += e; }
        if (m != max[r]) {
            T f = N(row_exp)(max[r] - base), *restrict o = out + r * Dv;
            sum[r] *= f;
            for (int64_t d = 0; d < Dv; d++) o[d] *= f;
            max[r] = m;
        }
        sum[r] += l;
    }
}

/* The output of some rows, whose sums of values `out` it may spoil, and their logsumexp. */
static void N(att_finish)(const FgAttnRun *w, const FgAttnRows *x, const T *max, const T *sum, T *out) {
    const FgAttn *p = w->p;
    for (int64_t r = 0; r < x->rows; r++) {
        int64_t h = x->h0 + r / x->tb, t = x->t0 + r % x->tb;
        const int64_t at = x->b * p->o[0] + h * p->o[1] + t * p->o[2];
        T *a = out + r * p->Dv, *o = p->narrow ? a : (T *)w->o + at, inv = sum[r] == 0 ? 0 : 1 / sum[r];
        #pragma omp simd
        for (int64_t d = 0; d < p->Dv; d++) o[d] = a[d] * inv;
        if (p->narrow) fg_narrow16(p->stored, (const float *)o, (uint16_t *)w->o + at, p->Dv);
        ((T *)w->lse)[(x->b * p->H + h) * p->L + t] = sum[r] == 0 ? -(T)INFINITY : max[r] + N(row_log)(sum[r]);
    }
}

/* A thread's buffers: queries scaled, turned and as rows; cotangents turned and as rows; keys and values as rows; tiles of scores, of their
 * cotangents, of tanh, and of turned bias; output, maxima and sums of a block, or logsumexp and delta. */
typedef struct { T *scaled, *qt, *q, *gt, *g, *k, *v, *s, *ds, *th, *turned, *state; } N(AttBuffers);

/* Cut from memory `at`, or NULL; returns their bytes. */
static int64_t N(att_buffers)(const FgAttn *p, int backward, char *at, N(AttBuffers) *to) {
    int64_t D = G(width)(p->D), Dv = G(width)(p->Dv), tile = ATT_ROWS * p->keys, used = 0;
    #define CUT(field, n) do { to->field = at ? (T *)(at + used) : NULL; used += ((n) * (int64_t)sizeof(T) + 63) / 64 * 64; } while (0)
    CUT(scaled, backward || !p->few ? ATT_ROWS * D : p->together * p->few * p->few_ld);
    CUT(qt, ATT_ROWS * D);
    CUT(k, p->keys * D);
    CUT(v, p->keys * Dv);
    CUT(s, backward || !p->few ? tile : p->together * p->few * p->few_keys);
    CUT(turned, p->has_bias ? tile : 0);
    CUT(state, backward ? ATT_ROWS * (p->Dv + 2) : p->state);
    if (backward) {
        CUT(q, ATT_ROWS * D);
        CUT(g, ATT_ROWS * Dv);
        CUT(gt, ATT_ROWS * Dv);
        CUT(ds, tile);
        CUT(th, p->softcap > 0 ? tile : 0);
    }
    #undef CUT
    return used;
}
static int64_t N(att_scratch)(const FgAttn *p, int backward) {
    N(AttBuffers) none;
    return N(att_buffers)(p, backward, NULL, &none);
}

/* The queries of a block times f, turned: qt[d * W + r]. */
static void N(att_turn_q)(const FgAttnRun *w, const FgAttnRows *x, T f, const N(AttBuffers) *m) {
    N(att_pack_q)(w, x, f, m->scaled);
    G(pack)(m->qt, G(width)(x->rows), m->scaled, x->rows, w->p->few_ld, 1, w->p->D);
}

/* Few rows of queries, in the order in which the keys lie: a tile of keys meets the queries of all heads that lie beside each other in a
 * position, then the tile of values does. Each takes some keys at a time; meanwhile the tile that comes next is fetched, a few lines
 * for each line that is read. 16-bit keys and values are widened in registers (`parted`), or a piece at a time where more rows meet them. */
static void N(att_few_keys)(const FgAttn *p, int64_t rows, const T *q, const char *k, int64_t nb, T *s, const N(AttBuffers) *m, FgAttnAhead *next) {
    const int64_t item = fg_itemsize(p->stored), piece = att_piece(p, p->D * item, nb);
    for (int64_t j = 0; j < nb; j += piece) {
        int64_t n = nb - j < piece ? nb - j : piece, ld;
        const char *at = k + j * p->k[2] * item;
        if (p->parted) fg_dots16(p->stored, rows, n, p->D, (const float *)q, p->few_ld, (const uint16_t *)at, p->k[2], (float *)s + j, p->few_keys, 0);
        else {
            const T *lie = N(att_keys)(p, at, p->k[2], n, p->D, m->k, &ld);
            G(dots)(rows, n, p->D, q, p->few_ld, lie, ld, s + j, p->few_keys, 0);
        }
        att_ahead(next, n * p->D * item);
    }
}
static void N(att_few_values)(const FgAttn *p, int64_t rows, const T *s, const char *v, int64_t nb, T *out, const N(AttBuffers) *m, FgAttnAhead *next) {
    const int64_t item = fg_itemsize(p->stored), Dv = p->Dv;
    const int64_t piece = !p->parted && (p->far || p->stored != p->dtype) ? 16 : p->far ? FG_STREAM_ROWS : nb;
    for (int64_t j = 0; j < nb; j += piece) {
        int64_t n = nb - j < piece ? nb - j : piece, ld;
        const char *at = v + j * p->v[2] * item;
        if (p->parted) {
            fg_axpy16_split(p->stored, rows, Dv, n, (const float *)s + j, p->few_keys, (const uint16_t *)at, p->v[2], (float *)out, Dv);
            att_ahead(next, n * Dv * item);
            continue;
        }
        const T *lie = N(att_keys)(p, at, p->v[2], n, Dv, m->v, &ld);
        if (rows == 1) { G(axpy)(Dv, n, s + j, lie, ld, out, p->far, 0); att_ahead(next, n * Dv * item); continue; }
        for (int64_t c = 0, w; c < Dv; c += w) {
            w = Dv - c < G(nr) ? Dv - c : G(nr);
            G(tile_strided)((int)rows, w, n, s + j, p->few_keys, 1, lie + c, ld, out + c, Dv, 1, 0, 0);
            att_ahead(next, n * w * item);
        }
    }
}
static void N(att_forward_few)(const FgAttnRun *w, const FgAttnRows *first, int64_t lo, int64_t hi, const N(AttBuffers) *m, T *state) {
    const FgAttn *p = w->p;
    const int64_t item = fg_itemsize(p->stored), step = p->state / p->together, most = p->state_rows, wide = p->few * p->few_ld, tile = p->few * p->few_keys;
    const char *kh = w->k + (first->b * p->k[0] + first->h0 / p->G * p->k[1]) * item, *vh = w->v + (first->b * p->v[0] + first->h0 / p->G * p->v[1]) * item;
    const int64_t across_k = ((p->together - 1) * p->k[1] + p->D) * item, across_v = ((p->together - 1) * p->v[1] + p->Dv) * item;
    FgAttnRows x = *first;
    for (int64_t h = 0; h < p->together; h++, x.h0 += p->G) N(att_pack_q)(w, &x, N(att_qscale)(p), m->scaled + h * wide);
    for (int64_t k0 = lo, nb; k0 < hi; k0 += nb) {
        nb = hi - k0 < p->few_keys ? hi - k0 : p->few_keys;
        const char *ks = kh + k0 * p->k[2] * item, *vs = vh + k0 * p->v[2] * item;
        int64_t after = hi - k0 - nb < p->few_keys ? hi - k0 - nb : p->few_keys;
        FgAttnAhead values = {vs, p->v[2] * item, across_v, p->far ? nb : 0, 0}, keys = {ks + nb * p->k[2] * item, p->k[2] * item, across_k, p->far ? after : 0, 0};
        memset(m->s, 0, (size_t)(p->together * tile) * sizeof(T));
        for (int64_t h = 0; h < p->together; h++)
            N(att_few_keys)(p, first->rows, m->scaled + h * wide, ks + h * p->k[1] * item, nb, m->s + h * tile, m, &values);
        x.h0 = first->h0;
        for (int64_t h = 0; h < p->together; h++, x.h0 += p->G) {
            T *s = m->s + h * tile, *out = state + h * step;
            N(att_logits)(w, &x, k0, nb, s, p->few_keys);
            N(att_online)(first->rows, nb, p->few_keys, s, out + most * p->Dv, out + most * (p->Dv + 1), out, p->Dv);
            N(att_few_values)(p, first->rows, s, vs + h * p->v[1] * item, nb, out, m, &keys);
        }
    }
    if (p->parted && p->stored == FG_BF16)
        for (int64_t h = 0; h < p->together; h++) for (int64_t r = 0; r < first->rows; r++) fg_join((float *)(state + h * step) + r * p->Dv, p->Dv);
}

/* Part i % splits of the keys against block i / splits. */
static void N(att_forward_unit)(const FgAttnRun *w, int64_t i, const N(AttBuffers) *m) {
    const FgAttn *p = w->p;
    FgAttnRows x = att_block(p, i / p->splits);
    int64_t part = i % p->splits, item = fg_itemsize(p->stored), step = p->state / p->together, lo, hi, ldk, ldv;
    T *state = p->splits > 1 ? (T *)w->part + i * p->state : m->state;     /* of each head: output, maxima, sums */
    T *max = state + p->state_rows * p->Dv, *sum = max + p->state_rows;
    att_range(p, x.t0, x.t0 + x.tb, &lo, &hi);
    if (lo < part * p->split_keys) lo = part * p->split_keys;
    if (hi > (part + 1) * p->split_keys) hi = (part + 1) * p->split_keys;
    for (int64_t h = 0; h < p->together; h++) {
        memset(state + h * step, 0, (size_t)(x.rows * p->Dv) * sizeof(T));
        for (int64_t r = 0; r < p->state_rows; r++) { max[h * step + r] = -(T)INFINITY; sum[h * step + r] = 0; }
    }
    if (p->few) N(att_forward_few)(w, &x, lo, hi, m, state);
    else {
        N(att_turn_q)(w, &x, N(att_qscale)(p), m);
        const char *kh = w->k + (x.b * p->k[0] + x.h0 / p->G * p->k[1]) * item, *vh = w->v + (x.b * p->v[0] + x.h0 / p->G * p->v[1]) * item;
        for (int64_t k0 = lo, nb; k0 < hi; k0 += nb) {
            nb = hi - k0 < p->keys ? hi - k0 : p->keys;
            const T *v, *k = N(att_keys)(p, kh + k0 * p->k[2] * item, p->k[2], nb, p->D, m->k, &ldk);
            N(att_scores)(p, &x, k, ldk, p->D, m->qt, k0, nb, m->s);
            N(att_to_logits)(w, &x, k0, nb, m->s, NULL, m->turned);
            N(att_online_lanes)(p, &x, k0, nb, m->s, max, sum, state);
            v = N(att_keys)(p, vh + k0 * p->v[2] * item, p->v[2], nb, p->Dv, m->v, &ldv);
            N(att_to_queries)(p, &x, m->s, k0, nb, v, ldv, p->Dv, state, p->Dv);
        }
    }
    if (p->splits == 1) for (int64_t h = 0; h < p->together; h++, x.h0 += p->G)
        N(att_finish)(w, &x, max + h * step, sum + h * step, state + h * step);
}

static void N(att_forward)(FgAttnRun *w, int tid) {
    N(AttBuffers) m;
    N(att_buffers)(w->p, 0, w->scratch + tid * w->per_thread, &m);
    for (int64_t i; (i = att_unit(w)) < w->units;) N(att_forward_unit)(w, i, &m);
}

/* Merge the parts of blocks [begin, end) into the first part, in order, and write the output. */
static void N(att_combine)(FgAttnRun *w, int64_t begin, int64_t end) {
    const FgAttn *p = w->p;
    const int64_t step = p->state / p->together, most = p->state_rows;
    for (int64_t i = begin; i < end; i++) {
        FgAttnRows x = att_block(p, i / p->together);
        T *a = (T *)w->part + i / p->together * p->splits * p->state + i % p->together * step, *amax = a + most * p->Dv, *asum = amax + most;
        x.h0 += i % p->together * p->G;
        for (int64_t s = 1; s < p->splits; s++) {
            const T *b = a + s * p->state, *bmax = b + most * p->Dv, *bsum = bmax + most;
            for (int64_t r = 0; r < x.rows; r++) {
                T m = bmax[r] > amax[r] ? bmax[r] : amax[r], base = m == -(T)INFINITY ? 0 : m;
                T fa = amax[r] == m ? 1 : N(row_exp)(amax[r] - base), fb = bmax[r] == m ? 1 : N(row_exp)(bmax[r] - base);
                for (int64_t d = 0; d < p->Dv; d++) a[r * p->Dv + d] = fa * a[r * p->Dv + d] + fb * b[r * p->Dv + d];
                asum[r] = fa * asum[r] + fb * bsum[r];
                amax[r] = m;
            }
        }
        N(att_finish)(w, &x, amax, asum, a);
    }
}

/* A row of the logits' cotangent, added to that of the bias, which may be broadcast along it. */
static inline void N(att_add_bias)(const FgAttn *p, T *restrict d, const T *restrict dr, int64_t nb) {
    if (p->db[3]) { for (int64_t j = 0; j < nb; j++) d[j] += dr[j]; return; }
    T sum = 0;
    #pragma omp simd reduction(+:sum)
    for (int64_t j = 0; j < nb; j++) sum += dr[j];
    *d += sum;
}
/* Does nothing but the scale stand between the cotangents of probabilities and products? */
static inline int N(att_is_plain)(const FgAttnRun *w) {
    return !(w->p->want_dslopes && (w->want & ATT_DKV)) && !(w->want & ATT_DBIAS) && w->p->softcap <= 0;
}
/* What follows from the logits' cotangents ds of a tile: those of bias and slopes; ds becomes the products' cotangent. */
static void N(att_beyond)(const FgAttnRun *w, const FgAttnRows *x, int64_t k0, int64_t nb, const N(AttBuffers) *m) {
    const FgAttn *p = w->p;
    int64_t W = G(width)(x->rows), wide = G(width)(nb), at = p->S - p->L + x->t0 - k0, a, b;
    int with_slopes = p->want_dslopes && (w->want & ATT_DKV);
    T scale = N(att_qscale)(p), cap = (T)p->softcap, distances = 0;
    if (w->want & ATT_DBIAS) {
        G(pack)(m->turned, wide, m->ds, nb, W, 1, x->rows);
        for (int64_t r = 0; r < x->rows; r++)
            N(att_add_bias)(p, (T *)w->dbias + x->b * p->db[0] + x->h0 * p->db[1] + (x->t0 + r) * p->db[2] + k0 * p->db[3],
                            m->turned + r * wide, nb);
    }
    for (int64_t j = 0; j < nb; j++) {
        T *restrict dr = m->ds + j * W, *restrict y = m->th + j * W, d = (T)(at - j);
        N(att_seen)(p, x, k0 + j, k0 + j, &a, &b);
        if (with_slopes) {                                           /* products with the distances of query and key */
            T sum = 0;
            #pragma omp simd reduction(+:sum)
            for (int32_t r = (int32_t)a; r < (int32_t)b; r++) { T e = d + (T)r; sum += dr[r] * (e < 0 ? -e : e); }
            distances += sum;
        }
        if (p->softcap > 0) for (int64_t r = a; r < b; r++) dr[r] *= scale * cap * (1 - y[r] * y[r]);
        else for (int64_t r = a; r < b; r++) dr[r] *= scale;
    }
    if (with_slopes) ((T *)w->dslopes)[(x->b * p->H + x->h0) * p->kblocks + k0 / p->keys] -= distances;
}
/* Products of a tile with the rows of keys, queries and cotangents, added to the gradients. */
static void N(att_gradients)(const FgAttnRun *w, const FgAttnRows *x, int64_t k0, int64_t nb, const T *s, const T *ds, const T *k, int64_t ldk,
                             const T *q, int64_t ldq, const T *g, int64_t ldg) {
    const FgAttn *p = w->p;
    int64_t hk = x->h0 / p->G;
    if (w->want & ATT_DQ)
        N(att_to_queries)(p, x, ds, k0, nb, k, ldk, p->D, (T *)w->dq + x->b * p->dq[0] + x->h0 * p->dq[1] + x->t0 * p->dq[2], p->dq[2]);
    if (w->want & ATT_DKV) {
        N(att_to_keys)(p, x, s, k0, nb, g, ldg, p->Dv, (T *)w->dv + x->b * p->dv[0] + hk * p->dv[1] + k0 * p->dv[2], p->dv[2]);
        N(att_to_keys)(p, x, ds, k0, nb, q, ldq, p->D, (T *)w->dk + x->b * p->dk[0] + hk * p->dk[1] + k0 * p->dk[2], p->dk[2]);
    }
}
/* One tile of the backward pass: the block x, whose queries and cotangents lie in m, against keys [k0, k0 + nb) of its key head. */
static void N(att_tile_back)(const FgAttnRun *w, const FgAttnRows *x, int64_t k0, int64_t nb, const N(AttBuffers) *m, const T *q, int64_t ldq,
                             const T *g, int64_t ldg) {
    const FgAttn *p = w->p;
    int64_t hk = x->h0 / p->G, ldk, ldv;
    const T *k = (const T *)w->k + x->b * p->k[0] + hk * p->k[1] + k0 * p->k[2];
    const T *v = (const T *)w->v + x->b * p->v[0] + hk * p->v[1] + k0 * p->v[2];
    k = N(att_rows)(k, p->k[2], nb, p->D, m->k, &ldk);
    v = N(att_rows)(v, p->v[2], nb, p->Dv, m->v, &ldv);
    N(att_scores)(p, x, k, ldk, p->D, m->qt, k0, nb, m->s);
    N(att_to_logits)(w, x, k0, nb, m->s, p->softcap > 0 ? m->th : NULL, m->turned);
    N(att_scores)(p, x, v, ldv, p->Dv, m->gt, k0, nb, m->ds);
    N(att_probabilities)(p, x, k0, nb, m->s, m->ds, m->state, m->state + ATT_ROWS, N(att_is_plain)(w) ? N(att_qscale)(p) : 1);
    if (!N(att_is_plain)(w)) N(att_beyond)(w, x, k0, nb, m);
    N(att_gradients)(w, x, k0, nb, m->s, m->ds, k, ldk, q, ldq, g, ldg);
}

/* The softmax's inner product of output and cotangent: sum_d g * o. */
static T N(att_delta)(const FgAttnRun *w, int64_t b, int64_t h, int64_t t) {
    const FgAttn *p = w->p;
    const T *o = (const T *)w->o + b * p->o[0] + h * p->o[1] + t * p->o[2], *g = (const T *)w->g + b * p->g[0] + h * p->g[1] + t * p->g[2];
    N(vec) sum = {0};
    for (int64_t d = 0; d < p->Dv; d += G(lanes)) {
        int64_t n = p->Dv - d < G(lanes) ? p->Dv - d : G(lanes);
        sum += G(load)(o + d, n) * G(load)(g + d, n);
    }
    return G(total)(sum);
}

/* Query block q of head h of batch b, and those of the tiles [*j0, *j1) of keys that its mask does not hide. */
static FgAttnRows N(att_block_rows)(const FgAttnRun *w, int64_t b, int64_t h, int64_t q, int64_t *j0, int64_t *j1) {
    const FgAttn *p = w->p;
    FgAttnRows x = {.b = b, .h0 = h, .t0 = q * ATT_ROWS, .skip = !(w->want & ATT_DBIAS)};
    int64_t lo, hi;
    x.tb = x.rows = p->L - x.t0 < ATT_ROWS ? p->L - x.t0 : ATT_ROWS;
    att_range(p, x.t0, x.t0 + x.tb, &lo, &hi);
    if (*j0 < lo / p->keys) *j0 = lo / p->keys;
    if (*j1 > (hi + p->keys - 1) / p->keys) *j1 = (hi + p->keys - 1) / p->keys;
    return x;
}
/* logsumexp and delta of a block's queries, ATT_ROWS of each. */
static void N(att_block_state)(const FgAttnRun *w, const FgAttnRows *x, T *state) {
    const FgAttn *p = w->p;
    const T *lse = (const T *)w->lse + x->b * p->lse[0] + x->h0 * p->lse[1] + x->t0 * p->lse[2];
    for (int64_t r = 0; r < ATT_ROWS; r++) {
        T l = r < x->rows ? lse[r * p->lse[2]] : -(T)INFINITY;
        state[r] = l == -(T)INFINITY ? (T)INFINITY : l;              /* a row that sees nothing has no gradient */
        state[ATT_ROWS + r] = r < x->rows ? N(att_delta)(w, x->b, x->h0, x->t0 + r) : 0;
    }
}
static const T *N(att_block_q)(const FgAttnRun *w, const FgAttnRows *x) {
    return (const T *)w->q + x->b * w->p->q[0] + x->h0 * w->p->q[1] + x->t0 * w->p->q[2];
}
static const T *N(att_block_g)(const FgAttnRun *w, const FgAttnRows *x) {
    return (const T *)w->g + x->b * w->p->g[0] + x->h0 * w->p->g[1] + x->t0 * w->p->g[2];
}

/* A block against the tiles [j0, j1) of the keys, but those that the mask hides. */
static void N(att_block_back)(const FgAttnRun *w, int64_t b, int64_t h, int64_t q, int64_t j0, int64_t j1, const N(AttBuffers) *m) {
    const FgAttn *p = w->p;
    FgAttnRows x = N(att_block_rows)(w, b, h, q, &j0, &j1);
    int64_t ldq, ldg;
    if (j0 >= j1) return;
    N(att_turn_q)(w, &x, N(att_qscale)(p), m);
    G(pack)(m->gt, G(width)(x.rows), N(att_block_g)(w, &x), x.rows, p->g[2], 1, p->Dv);
    N(att_block_state)(w, &x, m->state);
    const T *qs = N(att_rows)(N(att_block_q)(w, &x), p->q[2], x.rows, p->D, m->q, &ldq);
    const T *gs = N(att_rows)(N(att_block_g)(w, &x), p->g[2], x.rows, p->Dv, m->g, &ldg);
    for (int64_t j = j0; j < j1; j++) {
        int64_t k0 = j * p->keys;
        N(att_tile_back)(w, &x, k0, p->S - k0 < p->keys ? p->S - k0 : p->keys, m, qs, ldq, gs, ldg);
    }
}

static void N(att_clear)(char *to, const int64_t *strides, int64_t b, int64_t h, int64_t begin, int64_t end, int64_t cols) {
    for (int64_t r = begin; r < end; r++) memset((T *)to + b * strides[0] + h * strides[1] + r * strides[2], 0, (size_t)cols * sizeof(T));
}

/* Units by what the pass wants: dk and dv a block of keys, dq a block of queries, all three a whole key head; dbias alone (where heads
 * or batches share it, or all keys do) what one of its heads owns of a block of keys.  Each gradient adds up its tiles in the same
 * order every way, so the result depends neither on the way nor on the threads. */
static void N(att_backward)(FgAttnRun *w, int tid) {
    const FgAttn *p = w->p;
    N(AttBuffers) m;
    N(att_buffers)(p, 1, w->scratch + tid * w->per_thread, &m);
    int64_t nq = (p->L + ATT_ROWS - 1) / ATT_ROWS, nj = p->kblocks, group = w->group;
    int64_t groups = (nq + group - 1) / group, cuts = (nj + group - 1) / group;
    for (int64_t i; (i = att_unit(w)) < w->units;) {
        int64_t head = i, q0 = 0, q1 = nq, j0 = 0, j1 = nj, g0 = 0, g1 = p->G;
        if (w->want == ATT_DBIAS) {
            if (p->bs[3] > 1) { head = i / nj; j0 = i % nj; j1 = j0 + 1; }
            int64_t h = head % p->bs[1], b = head / p->bs[1];
            int64_t h1 = p->bs[1] > 1 ? h + 1 : p->H, b1 = p->bs[0] > 1 ? b + 1 : p->B;
            for (; b < b1; b++) for (int64_t n = h; n < h1; n++) for (int64_t q = 0; q < nq; q++) N(att_block_back)(w, b, n, q, j0, j1, &m);
            continue;
        }
        if (!(w->want & ATT_DQ)) { head = i / cuts; j0 = i % cuts * group; j1 = j0 + group < nj ? j0 + group : nj; }
        if (w->want == ATT_DQ) {
            q0 = (groups - 1 - i % groups) * group; q1 = q0 + group < nq ? q0 + group : nq;
            g0 = i / groups % p->G; g1 = g0 + 1; head = i / groups / p->G;
        }
        int64_t b = head / p->Hk, hk = head % p->Hk, k0 = j0 * p->keys, k1 = j1 * p->keys < p->S ? j1 * p->keys : p->S;
        int64_t t0 = q0 * ATT_ROWS, t1 = q1 * ATT_ROWS < p->L ? q1 * ATT_ROWS : p->L;
        if (w->want & ATT_DKV) {
            N(att_clear)(w->dk, p->dk, b, hk, k0, k1, p->D);
            N(att_clear)(w->dv, p->dv, b, hk, k0, k1, p->Dv);
        }
        for (int64_t h = hk * p->G + g0; h < hk * p->G + g1; h++) {
            if (w->want & ATT_DQ) N(att_clear)(w->dq, p->dq, b, h, t0, t1, p->D);
            if (w->parts) att_amx_back(w, b, h, q0, q1, j0, j1, w->scratch + tid * w->per_thread);
            else for (int64_t q = q0; q < q1; q++) N(att_block_back)(w, b, h, q, j0, j1, &m);
        }
    }
}
