/* Tiles of attention for one element type T; included twice by attention.h. */

#include "attention_lanes.h"

/* Few rows of queries meet each key once: their scores lie in rows, as sums over keys where these lie. */
static inline int N(att_few)(int64_t rows, int64_t cols) {
    return GEMM_WIDE && rows <= GEMM_DOTS_ROWS && rows <= GEMM_MR && (GEMM_MASKS || cols % G(lanes) == 0);
}

/* c[m, n] = a b^T, or c += a b, of att_few rows. */
static void N(att_few_logits)(int64_t m, int64_t n, int64_t k, const T *a, int64_t lda, const T *b, int64_t ldb, T *c, int64_t ldc) {
    for (int64_t i = 0; i < m; i++) memset(c + i * ldc, 0, (size_t)n * sizeof(T));
    G(dots)(m, n, k, a, lda, b, ldb, c, ldc, 0);
}
static void N(att_few_values)(int64_t m, int64_t n, int64_t k, const T *a, int64_t lda, const T *b, int64_t ldb, T *c, int64_t ldc) {
    for (int64_t j = 0; j < n; j += G(nr)) {
        int64_t w = n - j < G(nr) ? n - j : G(nr);
        G(tile_strided)((int)m, w, k, a, lda, 1, b + j, ldb, c + j, ldc, 1, 0);
    }
}

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

static void N(att_pack_q)(const FgAttnRun *w, const FgAttnRows *x, T *qs) {
    const FgAttn *p = w->p;
    T f = N(att_qscale)(p);
    for (int64_t r = 0; r < x->rows; r++) {
        const T *restrict s = (const T *)w->q + x->b * p->q[0] + (x->h0 + r / x->tb) * p->q[1] + (x->t0 + r % x->tb) * p->q[2];
        T *restrict d = qs + r * p->D;
        for (int64_t i = 0; i < p->D; i++) d[i] = s[i] * f;
    }
}

/* Logits of a tile of few rows: softcap, bias and mask applied; masked entries are -inf. */
static void N(att_logits)(const FgAttnRun *w, const FgAttnRows *x, const T *qs, const T *k, int64_t ldk, int64_t k0, int64_t nb, T *s) {
    const FgAttn *p = w->p;
    int64_t ld = p->keys, off = p->S - p->L;
    N(att_few_logits)(x->rows, nb, p->D, qs, p->D, k, ldk, s, ld);
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

static void N(att_finish)(const FgAttnRun *w, const FgAttnRows *x, const T *max, const T *sum, const T *out) {
    const FgAttn *p = w->p;
    for (int64_t r = 0; r < x->rows; r++) {
        int64_t h = x->h0 + r / x->tb, t = x->t0 + r % x->tb;
        T *restrict o = (T *)w->o + x->b * p->o[0] + h * p->o[1] + t * p->o[2];
        const T *restrict a = out + r * p->Dv;
        T inv = sum[r] == 0 ? 0 : 1 / sum[r];
        for (int64_t d = 0; d < p->Dv; d++) o[d] = a[d] * inv;
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
    CUT(scaled, ATT_ROWS * D);
    CUT(qt, ATT_ROWS * D);
    CUT(k, p->keys * D);
    CUT(v, p->keys * Dv);
    CUT(s, tile);
    CUT(turned, p->has_bias ? tile : 0);
    CUT(state, ATT_ROWS * (p->Dv + 2));
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

/* The scaled queries of a block, turned: qt[d * W + r]. */
static void N(att_turn_q)(const FgAttnRun *w, const FgAttnRows *x, const N(AttBuffers) *m) {
    N(att_pack_q)(w, x, m->scaled);
    G(pack)(m->qt, G(width)(x->rows), m->scaled, x->rows, w->p->D, 1, w->p->D);
}

static void N(att_forward)(FgAttnRun *w, int tid) {
    const FgAttn *p = w->p;
    N(AttBuffers) m;
    N(att_buffers)(p, 0, w->scratch + tid * w->per_thread, &m);
    for (int64_t i; (i = att_unit(w)) < w->units;) {
        FgAttnRows x = att_block(p, i / p->splits);
        int64_t part = i % p->splits, item = fg_itemsize(p->stored), lo, hi, ldk, ldv;
        T *state = p->splits > 1 ? (T *)w->part + i * ATT_ROWS * (p->Dv + 2) : m.state;     /* output, maxima, sums */
        T *max = state + ATT_ROWS * p->Dv, *sum = max + ATT_ROWS;
        int few = N(att_few)(x.rows, p->Dv);
        att_range(p, x.t0, x.t0 + x.tb, &lo, &hi);
        if (lo < part * p->split_keys) lo = part * p->split_keys;
        if (hi > (part + 1) * p->split_keys) hi = (part + 1) * p->split_keys;
        memset(state, 0, (size_t)(x.rows * p->Dv) * sizeof(T));
        for (int64_t r = 0; r < ATT_ROWS; r++) { max[r] = -(T)INFINITY; sum[r] = 0; }
        if (few) N(att_pack_q)(w, &x, m.scaled); else N(att_turn_q)(w, &x, &m);
        const char *kh = w->k + (x.b * p->k[0] + x.h0 / p->G * p->k[1]) * item, *vh = w->v + (x.b * p->v[0] + x.h0 / p->G * p->v[1]) * item;
        for (int64_t k0 = lo, nb; k0 < hi; k0 += nb) {
            nb = hi - k0 < p->keys ? hi - k0 : p->keys;
            const char *next = kh + (k0 + nb) * p->k[2] * item, *vs = vh + k0 * p->v[2] * item;
            const T *v, *k = N(att_keys)(p, kh + k0 * p->k[2] * item, p->k[2], nb, p->D, m.k, &ldk);
            if (!few) {
                N(att_scores)(p, &x, k, ldk, p->D, m.qt, k0, nb, m.s);
                N(att_to_logits)(w, &x, k0, nb, m.s, NULL, m.turned);
                N(att_online_lanes)(p, &x, k0, nb, m.s, max, sum, state);
                v = N(att_keys)(p, vs, p->v[2], nb, p->Dv, m.v, &ldv);
                N(att_to_queries)(p, &x, m.s, k0, nb, v, ldv, p->Dv, state, p->Dv);
                continue;
            }
            att_fetch(vs, p->v[2] * item, nb, p->Dv * item);
            N(att_logits)(w, &x, m.scaled, k, ldk, k0, nb, m.s);
            if (k0 + nb < hi) att_fetch(next, p->k[2] * item, hi - k0 - nb < nb ? hi - k0 - nb : nb, p->D * item);
            N(att_online)(x.rows, nb, p->keys, m.s, max, sum, state, p->Dv);
            v = N(att_keys)(p, vs, p->v[2], nb, p->Dv, m.v, &ldv);
            N(att_few_values)(x.rows, p->Dv, nb, m.s, p->keys, v, ldv, state, p->Dv);
        }
        if (p->splits == 1) N(att_finish)(w, &x, max, sum, state);
    }
}

/* Merge the parts of blocks [begin, end) into the first part, in order, and write the output. */
static void N(att_combine)(FgAttnRun *w, int64_t begin, int64_t end) {
    const FgAttn *p = w->p;
    int64_t step = ATT_ROWS * (p->Dv + 2);
    for (int64_t i = begin; i < end; i++) {
        FgAttnRows x = att_block(p, i);
        T *a = (T *)w->part + i * p->splits * step, *amax = a + ATT_ROWS * p->Dv, *asum = amax + ATT_ROWS;
        for (int64_t s = 1; s < p->splits; s++) {
            const T *b = a + s * step, *bmax = b + ATT_ROWS * p->Dv, *bsum = bmax + ATT_ROWS;
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
/* One tile of the backward pass: the block x, whose queries and cotangents lie in m, against keys [k0, k0 + nb) of its key head. */
static void N(att_tile_back)(FgAttnRun *w, const FgAttnRows *x, int64_t k0, int64_t nb, const N(AttBuffers) *m, const T *q, int64_t ldq,
                             const T *g, int64_t ldg) {
    const FgAttn *p = w->p;
    int64_t hk = x->h0 / p->G, W = G(width)(x->rows), wide = G(width)(nb), at = p->S - p->L + x->t0 - k0, ldk, ldv, a, b;
    int with_slopes = p->want_dslopes && (w->want & ATT_DKV), plain = !with_slopes && !(w->want & ATT_DBIAS) && p->softcap <= 0;
    const T *k = (const T *)w->k + x->b * p->k[0] + hk * p->k[1] + k0 * p->k[2];
    const T *v = (const T *)w->v + x->b * p->v[0] + hk * p->v[1] + k0 * p->v[2];
    T scale = N(att_qscale)(p), cap = (T)p->softcap, distances = 0;
    k = N(att_rows)(k, p->k[2], nb, p->D, m->k, &ldk);
    v = N(att_rows)(v, p->v[2], nb, p->Dv, m->v, &ldv);
    N(att_scores)(p, x, k, ldk, p->D, m->qt, k0, nb, m->s);
    N(att_to_logits)(w, x, k0, nb, m->s, p->softcap > 0 ? m->th : NULL, m->turned);
    N(att_scores)(p, x, v, ldv, p->Dv, m->gt, k0, nb, m->ds);
    N(att_probabilities)(p, x, k0, nb, m->s, m->ds, m->state, m->state + ATT_ROWS, plain ? scale : 1);
    if (w->want & ATT_DBIAS) {
        G(pack)(m->turned, wide, m->ds, nb, W, 1, x->rows);
        for (int64_t r = 0; r < x->rows; r++)
            N(att_add_bias)(p, (T *)w->dbias + x->b * p->db[0] + x->h0 * p->db[1] + (x->t0 + r) * p->db[2] + k0 * p->db[3],
                            m->turned + r * wide, nb);
    }
    for (int64_t j = 0; j < nb && !plain; j++) {
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
    if (w->want & ATT_DQ)
        N(att_to_queries)(p, x, m->ds, k0, nb, k, ldk, p->D, (T *)w->dq + x->b * p->dq[0] + x->h0 * p->dq[1] + x->t0 * p->dq[2], p->dq[2]);
    if (w->want & ATT_DKV) {
        N(att_to_keys)(p, x, m->s, k0, nb, g, ldg, p->Dv, (T *)w->dv + x->b * p->dv[0] + hk * p->dv[1] + k0 * p->dv[2], p->dv[2]);
        N(att_to_keys)(p, x, m->ds, k0, nb, q, ldq, p->D, (T *)w->dk + x->b * p->dk[0] + hk * p->dk[1] + k0 * p->dk[2], p->dk[2]);
    }
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

/* Query block q of head h of batch b against the tiles [j0, j1) of the keys, but those that the mask hides. */
static void N(att_block_back)(FgAttnRun *w, int64_t b, int64_t h, int64_t q, int64_t j0, int64_t j1, const N(AttBuffers) *m) {
    const FgAttn *p = w->p;
    FgAttnRows x = {.b = b, .h0 = h, .t0 = q * ATT_ROWS, .skip = !(w->want & ATT_DBIAS)};
    int64_t lo, hi, ldq, ldg;
    x.tb = x.rows = p->L - x.t0 < ATT_ROWS ? p->L - x.t0 : ATT_ROWS;
    att_range(p, x.t0, x.t0 + x.tb, &lo, &hi);
    if (j0 < lo / p->keys) j0 = lo / p->keys;
    if (j1 > (hi + p->keys - 1) / p->keys) j1 = (hi + p->keys - 1) / p->keys;
    if (j0 >= j1) return;
    const T *qs = (const T *)w->q + b * p->q[0] + h * p->q[1] + x.t0 * p->q[2], *gs = (const T *)w->g + b * p->g[0] + h * p->g[1] + x.t0 * p->g[2];
    const T *lse = (const T *)w->lse + b * p->lse[0] + h * p->lse[1] + x.t0 * p->lse[2];
    N(att_turn_q)(w, &x, m);
    G(pack)(m->gt, G(width)(x.rows), gs, x.rows, p->g[2], 1, p->Dv);
    for (int64_t r = 0; r < ATT_ROWS; r++) {
        T l = r < x.rows ? lse[r * p->lse[2]] : -(T)INFINITY;
        m->state[r] = l == -(T)INFINITY ? (T)INFINITY : l;           /* a row that sees nothing has no gradient */
        m->state[ATT_ROWS + r] = r < x.rows ? N(att_delta)(w, b, h, x.t0 + r) : 0;
    }
    qs = N(att_rows)(qs, p->q[2], x.rows, p->D, m->q, &ldq);
    gs = N(att_rows)(gs, p->g[2], x.rows, p->Dv, m->g, &ldg);
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
    int64_t nq = (p->L + ATT_ROWS - 1) / ATT_ROWS, nj = p->kblocks;
    for (int64_t i; (i = att_unit(w)) < w->units;) {
        int64_t head = i, q0 = 0, q1 = nq, j0 = 0, j1 = nj, g0 = 0, g1 = p->G;
        if (w->want == ATT_DBIAS) {
            if (p->bs[3] > 1) { head = i / nj; j0 = i % nj; j1 = j0 + 1; }
            int64_t h = head % p->bs[1], b = head / p->bs[1];
            int64_t h1 = p->bs[1] > 1 ? h + 1 : p->H, b1 = p->bs[0] > 1 ? b + 1 : p->B;
            for (; b < b1; b++) for (int64_t n = h; n < h1; n++) for (int64_t q = 0; q < nq; q++) N(att_block_back)(w, b, n, q, j0, j1, &m);
            continue;
        }
        if (!(w->want & ATT_DQ)) { head = i / nj; j0 = i % nj; j1 = j0 + 1; }
        if (w->want == ATT_DQ) { q0 = nq - 1 - i % nq; q1 = q0 + 1; g0 = i / nq % p->G; g1 = g0 + 1; head = i / nq / p->G; }
        int64_t b = head / p->Hk, hk = head % p->Hk, k0 = j0 * p->keys, k1 = j1 * p->keys < p->S ? j1 * p->keys : p->S;
        int64_t t0 = q0 * ATT_ROWS, t1 = q1 * ATT_ROWS < p->L ? q1 * ATT_ROWS : p->L;
        if (w->want & ATT_DKV) {
            N(att_clear)(w->dk, p->dk, b, hk, k0, k1, p->D);
            N(att_clear)(w->dv, p->dv, b, hk, k0, k1, p->Dv);
        }
        for (int64_t h = hk * p->G + g0; h < hk * p->G + g1; h++) {
            if (w->want & ATT_DQ) N(att_clear)(w->dq, p->dq, b, h, t0, t1, p->D);
            for (int64_t q = q0; q < q1; q++) N(att_block_back)(w, b, h, q, j0, j1, &m);
        }
    }
}
