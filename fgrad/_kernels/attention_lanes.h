/* Tiles of scores with a query in each lane, for one element type T; included by attention_tiles.h.  Element (query r, key j) of a tile is
 * s[j * W + r], W the queries rounded up to whole vectors: keys lie as their products with the queries need them, a tile of probabilities
 * as those with the values do, and maxima and sums of queries are those of lanes, so that nothing but the queries is ever transposed.
 * Where the mask hides a part of a tile, panels and vectors of it that no query sees are left out. */

/* The queries of a block that see a key of [first, last]: [*a, *b).  All of its rows where they are of several heads. */
static inline void N(att_seen)(const FgAttn *p, const FgAttnRows *x, int64_t first, int64_t last, int64_t *a, int64_t *b) {
    int64_t at = p->S - p->L + x->t0;                       /* the first query's place among the keys */
    *a = 0; *b = x->rows;
    if (!x->skip) return;
    if (p->causal && first > at) *a = first - at < x->rows ? first - at : x->rows;
    if (p->window > 0 && last + p->window - at < x->rows) *b = last + p->window - at;
    if (*b < *a) *b = *a;
}
/* In whole vectors. */
static inline void N(att_lanes)(const FgAttn *p, const FgAttnRows *x, int64_t first, int64_t last, int64_t *a, int64_t *b) {
    N(att_seen)(p, x, first, last, a, b);
    *a -= *a % G(lanes);
    *b = G(width)(*b);
}

/* s = the products of keys (or values) with the turned queries qt (or cotangents), kc features. */
static void N(att_scores)(const FgAttn *p, const FgAttnRows *x, const T *k, int64_t ldk, int64_t kc, const T *qt, int64_t k0, int64_t nb, T *s) {
    int64_t W = G(width)(x->rows);
    for (int64_t i = 0, n = 0, next, a, b; i < nb; i = next) {
        next = gemm_panel(nb, ++n);
        N(att_lanes)(p, x, k0 + i, k0 + next - 1, &a, &b);
        for (; a < b; a += G(nr))
            G(tile_strided)((int)(next - i), b - a < G(nr) ? b - a : G(nr), kc, k + i * ldk, ldk, 1, qt + a, W, s + i * W + a, W, 0, 0, 0);
    }
}

/* c, a row of n for each query, += s^T b: b a row for each key. */
static void N(att_to_queries)(const FgAttn *p, const FgAttnRows *x, const T *s, int64_t k0, int64_t nb, const T *b, int64_t ldb, int64_t n,
                              T *c, int64_t ldc) {
    int64_t W = G(width)(x->rows), at = p->S - p->L + x->t0 - k0;
    for (int64_t j = 0; j < n; j += G(nr)) for (int64_t i = 0, m = 0, next; i < x->rows; i = next) {
        int64_t cols = n - j < G(nr) ? n - j : G(nr), lo = 0, hi = nb;
        next = gemm_panel(x->rows, ++m);
        if (x->skip && p->causal && at + next < hi) hi = at + next;
        if (x->skip && p->window > 0 && at + i + 1 - p->window > 0) lo = at + i + 1 - p->window;
        if (lo < hi) G(tile_strided)((int)(next - i), cols, hi - lo, s + lo * W + i, 1, W, b + lo * ldb + j, ldb, c + i * ldc + j, ldc, 1, 0, 0);
    }
}

/* c, a row of n for each key, += s b: b a row for each query. */
static void N(att_to_keys)(const FgAttn *p, const FgAttnRows *x, const T *s, int64_t k0, int64_t nb, const T *b, int64_t ldb, int64_t n,
                           T *c, int64_t ldc) {
    int64_t W = G(width)(x->rows);
    for (int64_t j = 0; j < n; j += G(nr)) for (int64_t i = 0, m = 0, next, lo, hi; i < nb; i = next) {
        int64_t cols = n - j < G(nr) ? n - j : G(nr);
        next = gemm_panel(nb, ++m);
        N(att_seen)(p, x, k0 + i, k0 + next - 1, &lo, &hi);
        if (lo < hi) G(tile_strided)((int)(next - i), cols, hi - lo, s + i * W + lo, W, 1, b + lo * ldb + j, ldb, c + i * ldc + j, ldc, 1, 0, 0);
    }
}

/* Zeros beside the vectors [a, b) of a key, as far as a panel of rows reaches. */
static inline void N(att_beside)(T *row, int64_t W, int64_t a, int64_t b) {
    for (int64_t r = a > GEMM_MR ? a - GEMM_MR : 0; r < a; r++) row[r] = 0;
    for (int64_t r = b; r < W && r < b + GEMM_MR; r++) row[r] = 0;
}

/* Products to logits: softcap, bias and mask applied; masked entries are -inf.  th, when given, receives tanh for the backward pass;
 * turned is room for a tile of bias. */
static void N(att_to_logits)(const FgAttnRun *w, const FgAttnRows *x, int64_t k0, int64_t nb, T *s, T *th, T *turned) {
    const FgAttn *p = w->p;
    int64_t W = G(width)(x->rows), at = p->S - p->L + x->t0 - k0, a, b, wide = G(width)(x->tb);
    if (p->softcap > 0) for (int64_t j = 0; j < nb; j++) {
        T cap = (T)p->softcap, *restrict row = s + j * W, *restrict y = th ? th + j * W : row;
        N(att_lanes)(p, x, k0 + j, k0 + j, &a, &b);
        for (int64_t r = a; r < b; r++) { T t = N(att_tanh)(row[r]); if (th) y[r] = t; row[r] = cap * t; }
    }
    for (int64_t h = 0; h < x->rows / x->tb; h++) {
        T *sh = s + h * x->tb;
        if (p->has_bias) {
            const T *from = (const T *)w->bias + x->b * p->bias[0] + (x->h0 + h) * p->bias[1] + x->t0 * p->bias[2] + k0 * p->bias[3];
            if (p->bias[2]) G(pack)(turned, wide, from, x->tb, p->bias[2], p->bias[3], nb);
            for (int64_t j = 0; j < nb; j++) {
                T *restrict row = sh + j * W;
                const T *restrict more = turned + j * wide;
                if (p->bias[2]) for (int64_t r = 0; r < x->tb; r++) row[r] += more[r];
                else for (int64_t r = 0; r < x->tb; r++) row[r] += from[j * p->bias[3]];
            }
        }
        if (p->has_slopes) {                                         /* minus the slope times the distance of query and key */
            T m = ((const T *)w->slopes)[x->b * p->slope[0] + (x->h0 + h) * p->slope[1]];
            for (int64_t j = 0; j < nb; j++) {
                T d = (T)(at - j), *restrict row = sh + j * W;
                for (int32_t r = 0; r < (int32_t)x->tb; r++) { T e = d + (T)r; row[r] -= m * (e < 0 ? -e : e); }
            }
        }
        for (int64_t j = 0; j < nb && (p->causal || p->window > 0); j++) {
            int64_t low = p->causal && j > at ? j - at : 0, high = p->window > 0 && j - at + p->window < x->tb ? j - at + p->window : x->tb;
            low = low < x->tb ? low : x->tb;
            for (int64_t r = x->skip ? low - low % G(lanes) : 0; r < low; r++) sh[j * W + r] = -(T)INFINITY;
            for (int64_t r = high > 0 ? high : 0; r < x->tb; r++) sh[j * W + r] = -(T)INFINITY;
        }
    }
}

/* One more tile of logits: s becomes exp(s - max), the running maxima and sums advance, earlier output is rescaled. */
static void N(att_online_lanes)(const FgAttn *p, const FgAttnRows *x, int64_t k0, int64_t nb, T *s, T *max, T *sum, T *out) {
    enum { L = G(lanes) };
    const N(vec) lowest = (N(vec)){0} - ATT_LARGEST;                 /* for lanes that have seen nothing */
    int64_t W = G(width)(x->rows), a, b;
    N(vec) m[ATT_ROWS / L], l[ATT_ROWS / L];
    T before[ATT_ROWS];
    for (int64_t r = 0; r < W; r += L) m[r / L] = *(const G(mem) *)(max + r);
    for (int64_t j = 0; j < nb; j++) {
        N(att_lanes)(p, x, k0 + j, k0 + j, &a, &b);
        for (int64_t r = a; r < b; r += L) m[r / L] = N(vec_max)(*(const G(mem) *)(s + j * W + r), m[r / L]);
    }
    for (int64_t r = 0; r < W; r += L) {
        N(vec) old = *(const G(mem) *)(max + r), base = N(vec_max)(m[r / L], lowest);
        *(G(mem) *)(before + r) = N(vec_exp)(old - base);
        *(G(mem) *)(max + r) = m[r / L];
        m[r / L] = base;
        l[r / L] = (N(vec)){0};
    }
    for (int64_t j = 0; j < nb; j++) {
        N(att_lanes)(p, x, k0 + j, k0 + j, &a, &b);
        N(att_beside)(s + j * W, W, a, b);
        for (int64_t r = a; r < b; r += L) {
            N(vec) e = N(vec_exp)(*(const G(mem) *)(s + j * W + r) - m[r / L]);
            *(G(mem) *)(s + j * W + r) = e;
            l[r / L] += e;
        }
    }
    for (int64_t r = 0; r < W; r += L) *(G(mem) *)(sum + r) = *(const G(mem) *)(sum + r) * *(const G(mem) *)(before + r) + l[r / L];
    for (int64_t r = 0; r < x->rows; r++) if (before[r] != 1) {
        T *restrict o = out + r * p->Dv;
        for (int64_t d = 0; d < p->Dv; d++) o[d] *= before[r];
    }
}

/* Logits s to probabilities, and ds, the probabilities' cotangent, to that of the logits times `scale`; lse and delta of each lane. */
static void N(att_probabilities)(const FgAttn *p, const FgAttnRows *x, int64_t k0, int64_t nb, T *s, T *ds, const T *lse, const T *delta, T scale) {
    int64_t W = G(width)(x->rows), a, b;
    for (int64_t j = 0; j < nb; j++) {
        N(att_lanes)(p, x, k0 + j, k0 + j, &a, &b);
        N(att_beside)(s + j * W, W, a, b);
        N(att_beside)(ds + j * W, W, a, b);
        for (int64_t r = a; r < b; r += G(lanes)) {
            G(mem) *to = (G(mem) *)(ds + j * W + r);
            N(vec) e = N(vec_exp)(*(const G(mem) *)(s + j * W + r) - *(const G(mem) *)(lse + r));
            *(G(mem) *)(s + j * W + r) = e;
            *to = e * scale * (*to - *(const G(mem) *)(delta + r));
        }
    }
}
