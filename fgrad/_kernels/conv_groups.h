/* Groups of few features that are neighbours in memory (depthwise, features last): vectors of groups, tiles of outputs along a row.
 * Included by conv_loops.h, once per type T; N(name) appends the type's suffix. X is the type of x, w and out: T, or with CONV_HALF that
 * of bfloat16, which is widened as it is loaded; with CONV_RINGED as well x is a ring of T, and there are rows only. */
typedef T N(wide) __attribute__((vector_size(GEMM_BYTES), aligned(sizeof(T)), may_alias));
typedef T N(narrow) __attribute__((vector_size(16), aligned(sizeof(T)), may_alias));
typedef T N(single);
#ifdef CONV_HALF
#define CONV_ACCESS(V, SIZE) \
typedef uint16_t N(half_##V) __attribute__((vector_size(SIZE / 2), aligned(2), may_alias)); \
typedef uint32_t N(bits_##V) __attribute__((vector_size(SIZE))); \
GEMM_INLINE N(V) N(get_##V)(const X *p) { return (N(V))(__builtin_convertvector(*(const N(half_##V) *)p, N(bits_##V)) << 16); } \
GEMM_INLINE void N(round_##V)(X *p, N(V) v) { \
    N(bits_##V) u = (N(bits_##V))v, nan = (N(bits_##V))((u & 0x7fffffffu) > 0x7f800000u); \
    *(N(half_##V) *)p = __builtin_convertvector(((u >> 16 | 0x40u) & nan) | ((u + 0x7fffu + (u >> 16 & 1u)) >> 16 & ~nan), N(half_##V)); \
}
CONV_ACCESS(wide, GEMM_BYTES)
CONV_ACCESS(narrow, 16)
#undef CONV_ACCESS
GEMM_INLINE void N(put_narrow)(X *p, N(narrow) v) { N(round_narrow)(p, v); }
#if GEMM_PAIRS
GEMM_INLINE void N(put_wide)(X *p, N(wide) v) { _mm256_storeu_si256((__m256i *)p, (__m256i)_mm512_cvtneps_pbh((__m512)v)); }
#else
GEMM_INLINE void N(put_wide)(X *p, N(wide) v) { N(round_wide)(p, v); }
#endif
static inline T N(get_single)(const X *p) { return fg_bf16_to_f32(*p); }
static inline void N(put_single)(X *p, T v) { *p = fg_f32_to_bf16(v); }
#else
#define CONV_ACCESS(V) \
static inline N(V) N(get_##V)(const X *p) { return *(const N(V) *)p; } \
static inline void N(put_##V)(X *p, N(V) v) { *(N(V) *)p = v; }
CONV_ACCESS(wide)
CONV_ACCESS(narrow)
CONV_ACCESS(single)
#undef CONV_ACCESS
#endif
#ifdef CONV_RINGED
typedef T N(input);
#define CONV_READ(V, p) (*(const N(V) *)(p))
#else
typedef X N(input);
#define CONV_READ(V, p) N(get_##V)(p)
#endif

/* Tiles of J outputs, xj and oj apart: out = sum over taps t, and r in [lo, hi), of x[t.x + r xk] w[t.w + r wk]; `add`: that is added to
 * sums of type T. `ahead` is where the next row of x begins, which is prefetched. */
#define CONV_SUMS_TO(V, J) \
    if (add) _Pragma("GCC unroll 8") for (int j = 0; j < J; j++) *(N(V) *)((T *)out + j * oj) = acc[j]; \
    else _Pragma("GCC unroll 8") for (int j = 0; j < J; j++) N(put_##V)((X *)out + j * oj, acc[j]);
#define CONV_TILE(V, J) \
static void N(conv_tile_##V##J)(const N(input) *x, const X *w, const FgTap *taps, int64_t n, int64_t lo, int64_t hi, int64_t xk, int64_t wk, \
                                int64_t xj, int64_t ahead, void *out, int64_t oj, int add) { \
    N(V) acc[J]; \
    _Pragma("GCC unroll 8") for (int j = 0; j < J; j++) __builtin_prefetch(x + ahead + j * xj, 0, 2); \
    _Pragma("GCC unroll 8") for (int j = 0; j < J; j++) acc[j] = add ? *(const N(V) *)((T *)out + j * oj) : (N(V)){0}; \
    for (int64_t t = 0; t < n; t++) for (int64_t r = lo; r < hi; r++) { \
        const N(input) *xt = x + taps[t].x + r * xk; \
        N(V) v = N(get_##V)(w + taps[t].w + r * wk); \
        _Pragma("GCC unroll 8") for (int j = 0; j < J; j++) acc[j] += CONV_READ(V, xt + j * xj) * v; \
    } \
    CONV_SUMS_TO(V, J) \
}
#define CONV_TILES(V) CONV_TILE(V, 1) CONV_TILE(V, 2) CONV_TILE(V, 3) CONV_TILE(V, 4) CONV_TILE(V, 8) \
static void N(conv_tiles_##V)(int64_t j, const N(input) *x, const X *w, const FgTap *taps, int64_t n, int64_t lo, int64_t hi, int64_t xk, \
                                 int64_t wk, int64_t xj, int64_t ahead, void *out, int64_t oj, int add) { \
    switch (j) { \
    case 1: N(conv_tile_##V##1)(x, w, taps, n, lo, hi, xk, wk, xj, ahead, out, oj, add); break; \
    case 2: N(conv_tile_##V##2)(x, w, taps, n, lo, hi, xk, wk, xj, ahead, out, oj, add); break; \
    case 3: N(conv_tile_##V##3)(x, w, taps, n, lo, hi, xk, wk, xj, ahead, out, oj, add); break; \
    case 4: N(conv_tile_##V##4)(x, w, taps, n, lo, hi, xk, wk, xj, ahead, out, oj, add); break; \
    default: N(conv_tile_##V##8)(x, w, taps, n, lo, hi, xk, wk, xj, ahead, out, oj, add); \
    } \
}
CONV_TILES(wide)
CONV_TILES(narrow)
CONV_TILES(single)
#undef CONV_TILE
#undef CONV_TILES

#undef CONV_SUMS_TO

/* How many outputs in [j, end), at most 8, have the same taps inside the image. */
static int64_t N(conv_alike)(const FgTap *inside, int64_t j, int64_t end) {
    int64_t n = 1;
    while (n < 8 && j + n < end && inside[j + n].x == inside[j].x && inside[j + n].w == inside[j].w) n++;
    return n == 8 ? 8 : conv_min(n, 4);
}

/* `cols` outputs of a row in so many groups: a vector of them after the other, so that x and out are walked in the same direction.
 * The tiles fetch of the row at `ahead` what they read themselves of theirs. */
static void N(conv_group_row)(const FgConvPart *p, int64_t groups, const N(input) *x, int64_t pixel, const X *w, const FgGroupSpace *m, int64_t n,
                              int64_t cols, int64_t ahead, void *out, int64_t oj, int add) {
    int64_t wide = sizeof(N(wide)) / sizeof(T), narrow = sizeof(N(narrow)) / sizeof(T), lanes;
    int64_t xk = p->d[2] * pixel, wk = p->wr[2], xj = p->s[2] * pixel;
    for (int64_t g = 0; g < groups; g += lanes) {
        lanes = groups - g >= wide ? wide : groups - g >= narrow ? narrow : 1;
        for (int64_t j = 0, J; j < cols; j += J) {
            const N(input) *xt = x + g + j * xj;
            int64_t lo = m->inside[j].x, hi = m->inside[j].w;
            J = N(conv_alike)(m->inside, j, cols);
            void *to = (char *)out + (g + j * oj) * (int64_t)(add ? sizeof(T) : sizeof(X));
            if (lanes == 1) N(conv_tiles_single)(J, xt, w + g, m->taps, n, lo, hi, xk, wk, xj, ahead, to, oj, add);
            else if (lanes == wide) N(conv_tiles_wide)(J, xt, w + g, m->taps, n, lo, hi, xk, wk, xj, ahead, to, oj, add);
            else N(conv_tiles_narrow)(J, xt, w + g, m->taps, n, lo, hi, xk, wk, xj, ahead, to, oj, add);
        }
    }
}

#if CONV_MIX && defined(G)
typedef __typeof__((G(vec)){0} < (G(vec)){0}) N(lane);

/* The first n lanes of a vector, the others zero. */
GEMM_INLINE G(vec) N(conv_some)(const N(input) *p, int64_t n) {
#if defined(CONV_HALF) && !defined(CONV_RINGED)
    X part[G(lanes)] = {0};
    if (n == G(lanes)) return N(get_wide)(p);
    memcpy(part, p, (size_t)n * sizeof(X));
    return N(get_wide)(part);
#else
    return G(load)(p, n);
#endif
}

/* Groups of O features from C <= O, where O divides the vector: its lanes read their group's inputs out of a vector of x.
 * J outputs; w is (tap, c, lane). */
#define CONV_MIX_TILE(J) \
static void N(conv_mix##J)(int64_t C, const N(lane) *pick, int64_t span, const N(input) *x, const T *w, const FgTap *taps, int64_t n, int64_t lo, \
                           int64_t hi, int64_t xk, int64_t xj, X *out, int64_t oj) { \
    G(vec) acc[J], v[J]; \
    GEMM_UNROLL for (int j = 0; j < J; j++) acc[j] = (G(vec)){0}; \
    for (int64_t t = 0; t < n; t++) for (int64_t r = lo; r < hi; r++) { \
        const N(input) *xt = x + taps[t].x + r * xk; \
        const T *wt = w + taps[t].w + r * C * G(lanes); \
        GEMM_UNROLL for (int j = 0; j < J; j++) v[j] = N(conv_some)(xt + j * xj, span); \
        for (int64_t k = 0; k < C; k++) { \
            G(vec) y = *(const G(mem) *)(wt + k * G(lanes)); \
            GEMM_UNROLL for (int j = 0; j < J; j++) acc[j] += __builtin_shuffle(v[j], pick[k]) * y; \
        } \
    } \
    GEMM_UNROLL for (int j = 0; j < J; j++) N(put_wide)(out + j * oj, acc[j]); \
}
CONV_MIX_TILE(1) CONV_MIX_TILE(2) CONV_MIX_TILE(3) CONV_MIX_TILE(4) CONV_MIX_TILE(8)
#undef CONV_MIX_TILE

static void N(conv_mix_row)(const FgConvPart *p, const N(input) *x, int64_t pixel, const T *w, const FgGroupSpace *m, int64_t n,
                            int64_t cols, X *out, int64_t oj) {
    const FgConv *c = p->c;
    const int64_t L = G(lanes), span = L / c->O * c->C, xk = p->d[2] * pixel, xj = p->s[2] * pixel;
    N(lane) pick[GEMM_BYTES / sizeof(T)];
    for (int64_t k = 0; k < c->C; k++) for (int64_t l = 0; l < L; l++) pick[k][l] = l / c->O * c->C + k;
    for (int64_t v = 0; v * L < c->G * c->O; v++) for (int64_t j = 0, J; j < cols; j += J) {
        const N(input) *xt = x + v * span + j * xj;
        const T *wt = w + v * p->wg;
        int64_t lo = m->inside[j].x, hi = m->inside[j].w;
        X *to = out + v * L + j * oj;
        J = N(conv_alike)(m->inside, j, cols);
        switch (J) {
        case 1: N(conv_mix1)(c->C, pick, span, xt, wt, m->taps, n, lo, hi, xk, xj, to, oj); break;
        case 2: N(conv_mix2)(c->C, pick, span, xt, wt, m->taps, n, lo, hi, xk, xj, to, oj); break;
        case 3: N(conv_mix3)(c->C, pick, span, xt, wt, m->taps, n, lo, hi, xk, xj, to, oj); break;
        case 4: N(conv_mix4)(c->C, pick, span, xt, wt, m->taps, n, lo, hi, xk, xj, to, oj); break;
        default: N(conv_mix8)(c->C, pick, span, xt, wt, m->taps, n, lo, hi, xk, xj, to, oj);
        }
    }
}

#ifndef CONV_RINGED
/* Units (vector of outputs, tap): W as (vector, tap, c, lane). */
static void N(conv_mix_w)(const FgConvPart *p, int64_t begin, int64_t end, const X *w, T *dst) {
    const FgConv *c = p->c;
    const int64_t L = G(lanes), sizes[4] = {c->G * c->O / L, p->R[0], p->R[1], p->R[2]};
    int64_t at[4];
    for (int64_t u = begin; u < end; u++) {
        conv_index(u, sizes, 4, at);
        const X *from = w + at[1] * p->wr[0] + at[2] * p->wr[1] + at[3] * p->wr[2];
        for (int64_t k = 0; k < c->C; k++) for (int64_t l = 0; l < L; l++) {
            int64_t o = at[0] * L + l;
            dst[(u * c->C + k) * L + l] = N(get_single)(from + o / c->O * c->wg + o % c->O * c->wo + k * c->wc);
        }
    }
}
#endif
#endif

#ifndef CONV_RINGED
#ifdef G
/* n elements, widened. */
GEMM_INLINE void N(conv_widen)(T *to, const X *from, int64_t n) {
#ifdef CONV_HALF
    for (int64_t i = 0; i < n; i++) to[i] = fg_bf16_to_f32(from[i]);
#else
    memcpy(to, from, (size_t)n * sizeof(T));
#endif
}

/* A row of `cols` positions from x at p2 on, `all` features each, zeros where it lies outside. */
static void N(conv_ring_row)(const FgConvPart *p, const X *x, int64_t p2, int64_t cols, int64_t all, T *to) {
    int64_t lo = conv_min(cols, conv_max(0, -p2)), hi = conv_max(lo, conv_min(cols, p->L[2] - p2));
    memset(to, 0, (size_t)(lo * all) * sizeof(T));
    if (p->xs[2] == all) N(conv_widen)(to + lo * all, x + (p2 + lo) * all, (hi - lo) * all);
    else for (int64_t i = lo; i < hi; i++) N(conv_widen)(to + i * all, x + (p2 + i) * p->xs[2], all);
    memset(to + hi * all, 0, (size_t)((cols - hi) * all) * sizeof(T));
}
#endif

#ifdef CONV_HALF
#define CONV_OF_RING(name) name##_ring
#else
#define CONV_OF_RING(name) N(name)
#endif

/* Units (b, o, q0, slice of the groups, block of columns, q1): rows of outputs.  Where windows reach beyond the image, rows of x are
 * copied into a ring, with zeros around them. */
static void N(conv_groups)(const FgConvPart *p, int64_t begin, int64_t end, const FgGroupSpace *m, T *ring) {
    const FgConv *c = p->c;
    const int64_t mix = p->algo == CONV_MIXED, features = mix ? c->C : 1, each = mix ? 1 : c->O;
    const int64_t sizes[6] = {c->B, each, p->Q[0], p->slices, p->blocks[1], p->Q[1]};
    const int64_t span = (p->R[1] - 1) * p->d[1], whole = ((p->block[1] - 1) * p->s[2] + (p->R[2] - 1) * p->d[2] + 1) * p->slice;
    int64_t at[6];
#ifdef G
    int64_t next = 0, image = -1;        /* rows of the ring's image from `next` on are still to be copied */
#endif
    for (int64_t u = begin; u < end; u++) {
        conv_index(u, sizes, 6, at);
        int64_t n = 0, top = at[5] * p->s[1] - p->lo[1], q2 = at[4] * p->block[1], cols = conv_min(p->block[1], p->Q[2] - q2);
        int64_t g = at[3] * p->slice, all = conv_min(p->slice, c->G * features - g), pixel = ring ? all : p->xs[2];
        const FgGroupSpace here = {m->taps, m->inside + q2};
        const X *x = (const X *)p->x + at[0] * c->xb + g;
        X *out = (X *)p->out + p->o0 + at[0] * c->ob + at[1] * c->oo + at[2] * p->os[0] + at[5] * p->os[1] + q2 * p->os[2] + g;
#ifdef G
        if (ring) {
            int64_t p0 = at[2] * p->s[0] - p->lo[0];
            if (image != u / p->Q[1]) next = top;
            image = u / p->Q[1];
            for (int64_t p1 = conv_max(next, top); p1 <= top + span; p1++)
                if ((uint64_t)p0 < (uint64_t)p->L[0] && (uint64_t)p1 < (uint64_t)p->L[1])
                    N(conv_ring_row)(p, x + p0 * p->xs[0] + p1 * p->xs[1], q2 * p->s[2] - p->lo[2],
                                     (cols - 1) * p->s[2] + (p->R[2] - 1) * p->d[2] + 1, all, ring + conv_mod(p1, span + 1) * whole);
            next = top + span + 1;
        }
#endif
        for (int64_t k = 0; k < (mix ? 1 : c->C); k++) for (int64_t r0 = 0; r0 < p->R[0]; r0++) for (int64_t r1 = 0; r1 < p->R[1]; r1++) {
            int64_t p0 = at[2] * p->s[0] + r0 * p->d[0] - p->lo[0], p1 = top + r1 * p->d[1];
            if ((uint64_t)p0 >= (uint64_t)p->L[0] || (uint64_t)p1 >= (uint64_t)p->L[1]) continue;
            int64_t place = k * c->xc + p0 * p->xs[0] + p1 * p->xs[1] + (q2 * p->s[2] - p->lo[2]) * p->xs[2];
            int64_t tap = (r0 * p->R[1] + r1) * p->R[2] * c->C * (int64_t)(GEMM_BYTES / sizeof(T));
            m->taps[n++] = (FgTap){ring ? conv_mod(p1, span + 1) * whole : place, mix ? tap : k * c->wc + r0 * p->wr[0] + r1 * p->wr[1]};
        }
        int64_t ahead = n == 0 ? 0 : m->taps[n - 1].x + p->s[1] * p->xs[1], oj = p->os[2];
        const X *w = (const X *)p->w + p->w0 + at[1] * c->wo + g;
#if CONV_MIX && defined(G)
        if (mix && ring) CONV_OF_RING(conv_mix_row)(p, ring, pixel, (const T *)p->w, &here, n, cols, out, oj);
        else if (mix) N(conv_mix_row)(p, x, pixel, (const T *)p->w, &here, n, cols, out, oj);
        if (mix) continue;
#endif
        if (ring) CONV_OF_RING(conv_group_row)(p, all, ring, pixel, w, &here, n, cols, 0, out, oj, 0);
        else N(conv_group_row)(p, all, x, pixel, w, &here, n, cols, ahead, out, oj, 0);
    }
}

/* K rows of J neighbouring sums over a long row of taps, which is read once: those that all have inside the image, then each its own. */
#define CONV_WINDOW(K, J) \
static void N(conv_window_##K##J)(const X *x, int64_t xrow, const X *w, const FgTap *inside, int64_t xk, int64_t wk, int64_t xj, T *out, \
                                  int64_t orow, int64_t oj) { \
    N(wide) acc[K][J]; \
    int64_t lo = inside->x, hi = inside->w; \
    for (int64_t j = 1; j < J; j++) { lo = conv_max(lo, inside[j].x); hi = conv_min(hi, inside[j].w); } \
    hi = conv_max(lo, hi); \
    _Pragma("GCC unroll 8") for (int k = 0; k < K; k++) \
        _Pragma("GCC unroll 8") for (int j = 0; j < J; j++) acc[k][j] = *(const N(wide) *)(out + k * orow + j * oj); \
    for (int64_t r = lo; r < hi; r++) { \
        N(wide) y = N(get_wide)(w + r * wk); \
        _Pragma("GCC unroll 8") for (int k = 0; k < K; k++) \
            _Pragma("GCC unroll 8") for (int j = 0; j < J; j++) acc[k][j] += N(get_wide)(x + k * xrow + j * xj + r * xk) * y; \
    } \
    _Pragma("GCC unroll 8") for (int j = 0; j < J; j++) for (int64_t r = inside[j].x; r < inside[j].w; r++) { \
        if (r == lo) r = hi; \
        if (r >= inside[j].w) break; \
        N(wide) y = N(get_wide)(w + r * wk); \
        _Pragma("GCC unroll 8") for (int k = 0; k < K; k++) acc[k][j] += N(get_wide)(x + k * xrow + j * xj + r * xk) * y; \
    } \
    _Pragma("GCC unroll 8") for (int k = 0; k < K; k++) \
        _Pragma("GCC unroll 8") for (int j = 0; j < J; j++) *(N(wide) *)(out + k * orow + j * oj) = acc[k][j]; \
}
#define CONV_WINDOWS(M) M(1, 3) M(3, 3) M(1, 5) M(1, 7)
CONV_WINDOWS(CONV_WINDOW)

/* K rows of such sums in whole vectors of groups: the number of groups that are done, 0 where there is no such window. */
static int64_t N(conv_group_window)(const FgConvPart *p, int64_t K, const X *x, const X *w, const FgTap *inside, T *out) {
    const int64_t lanes = sizeof(N(wide)) / sizeof(T), groups = p->c->G, xk = p->d[2] * p->xs[2], xj = p->s[2] * p->xs[2];
    int64_t g = 0;
    #define CONV_CASE(k, j) if (K == k && p->Q[2] == j) \
        for (; g + lanes <= groups; g += lanes) \
            N(conv_window_##k##j)(x + g, p->s[1] * p->xs[1], w + g, inside, xk, p->wr[2], xj, out + g, p->Q[2] * groups, groups);
    CONV_WINDOWS(CONV_CASE)
    #undef CONV_CASE
    return g;
}
#undef CONV_WINDOWS
#undef CONV_WINDOW

/* Units are chunks of the rows of taps (f, r0, r1), which are longer than the rows of outputs (the gradient with respect to w): each
 * row is read once for all outputs, whose sums stay in the cache.  Partial sums (chunk, b, o, q, g). */
static void N(conv_group_sums)(const FgConvPart *p, int64_t begin, int64_t end, const FgGroupSpace *m) {
    const FgConv *c = p->c;
    const X *x = (const X *)p->x, *w = (const X *)p->w + p->w0;
    int64_t rows = c->C * p->R[0] * p->R[1], row = p->Q[2] * c->G, size = c->B * c->O * p->Q[0] * p->Q[1] * row;
    for (int64_t u = begin; u < end; u++) {
        T *part = (T *)p->part + u * size;
        memset(part, 0, (size_t)size * sizeof(T));
        for (int64_t t = rows * u / p->nk; t < rows * (u + 1) / p->nk; t++) {
            int64_t r1 = t % p->R[1], r0 = t / p->R[1] % p->R[0], f = t / p->R[1] / p->R[0];
            for (int64_t b = 0; b < c->B; b++) for (int64_t o = 0; o < c->O; o++) for (int64_t q0 = 0; q0 < p->Q[0]; q0++) {
                int64_t p0 = q0 * p->s[0] + r0 * p->d[0] - p->lo[0], top = r1 * p->d[1] - p->lo[1], K;
                if ((uint64_t)p0 >= (uint64_t)p->L[0]) continue;
                for (int64_t q1 = 0; q1 < p->Q[1]; q1 += K) {
                    int64_t p1 = q1 * p->s[1] + top, xat = b * c->xb + f * c->xc + p0 * p->xs[0] + p1 * p->xs[1] - p->lo[2] * p->xs[2];
                    int64_t wat = o * c->wo + f * c->wc + r0 * p->wr[0] + r1 * p->wr[1], g;
                    T *to = part + (((b * c->O + o) * p->Q[0] + q0) * p->Q[1] + q1) * row;
                    K = q1 + 3 <= p->Q[1] && p->Q[2] == 3 && p1 >= 0 && p1 + 2 * p->s[1] < p->L[1] ? 3 : 1;
                    if ((uint64_t)p1 >= (uint64_t)p->L[1]) continue;
                    g = N(conv_group_window)(p, K, x + xat, w + wat, m->inside, to);
                    for (int64_t k = 0; k < K && g < c->G; k++) {
                        *m->taps = (FgTap){xat + k * p->s[1] * p->xs[1], wat};
                        N(conv_group_row)(p, c->G - g, x + g, p->xs[2], w + g, m, 1, p->Q[2], m->taps->x + p->d[1] * p->xs[1],
                                          to + k * row + g, c->G, 1);
                    }
                }
            }
        }
    }
}

/* Units (b, o, q0, q1, q2): the sums of the chunks. */
static void N(conv_group_reduce)(const FgConvPart *p, int64_t begin, int64_t end) {
    const FgConv *c = p->c;
    int64_t size = c->B * c->O * p->Q[0] * p->Q[1] * p->Q[2] * c->G, q[3];
    for (int64_t u = begin; u < end; u++) {
        int64_t rest = u;
        for (int d = 2; d >= 0; d--) { q[d] = rest % p->Q[d]; rest /= p->Q[d]; }
        X *to = (X *)p->out + p->o0 + rest / c->O * c->ob + rest % c->O * c->oo + q[0] * p->os[0] + q[1] * p->os[1] + q[2] * p->os[2];
        T *part = (T *)p->part + u * c->G;
        for (int64_t k = 1; k < p->nk; k++) for (int64_t g = 0; g < c->G; g++) part[g] += part[k * size + g];
#ifdef CONV_HALF
        fg_narrow16(FG_BF16, part, to, c->G);
#else
        memcpy(to, part, (size_t)c->G * sizeof(T));
#endif
    }
}
#undef CONV_OF_RING
#endif
#undef CONV_READ
