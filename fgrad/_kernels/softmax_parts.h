/* softmax and its relatives along long axes, for the type T: a unit's rows go in parts of TILE_PART, so that the threads
 * share it, and all tiles of a part come before the next part, so that wide rows are read as they lie.  Each part leaves one state a column, its maximum m and the sum s of exp(x - m); one join combines a unit's states,
 * in an order that sizes alone decide; then each part is finished.  Narrow rows are folded: as many as fill a tile make one, and
 * the join combines the copies of a column.  The rows left over by folding are a part of their own.  Included once per type. */
#ifndef FG_SOFTMAX_PARTS
#define FG_SOFTMAX_PARTS
#ifndef WIDE_PARTS
#define WIDE_PARTS 4
#endif
/* Tiles side by side that are finished row by row: a tile's rows lie in as many pages of memory as it has. With AVX-512 it was not measured. */
#ifdef __AVX512F__
enum { FINISH_TILES = 1 };
#else
enum { FINISH_TILES = 16 };
#endif
typedef struct {
    FgRows rows;
    int64_t fold, step, parts;      /* rows that make one, the distance of those, and the parts of a unit */
    char *state;                    /* of each part, FG_TILE maxima and FG_TILE sums */
} FgSoftmaxParts;

/* Whether the rows go in parts: narrow ones, where a unit is worth its states, those of few units, where one is worth two threads, and wide
 * ones of which a tile leaves the second cache between its passes.  The sizes decide, never the number of threads. */
static inline int fg_softmax_parts(FgSoftmaxParts *c) {
    const FgRows *r = &c->rows;
    int narrow = r->inner > 1 && r->inner <= FG_TILE / 2;
    if (r->tiles > 1 ? r->n < WIDE_PARTS * TILE_PART : r->n * r->inner < (narrow ? 32 : 2 * TILE_PART) * FG_TILE) return 0;
    if (r->tiles == 1 && !narrow && r->units >= (r->inner == 1 ? 4 : 16)) return 0;
    c->fold = r->tiles > 1 ? 1 : FG_TILE / r->inner;
    c->step = c->fold * r->inner;
    c->parts = (r->n / c->fold + TILE_PART - 1) / TILE_PART + (r->n % c->fold != 0);
    return 1;
}
/* How many tiles from part i on are finished together, up to part `end`, and their columns. */
static inline int fg_softmax_beside(const FgSoftmaxParts *c, int64_t i, int64_t end, int *columns) {
    const int64_t at = i % c->rows.tiles, here = end - i < c->rows.tiles - at ? end - i : c->rows.tiles - at;
    const int tiles = here < FINISH_TILES ? (int)here : FINISH_TILES;
    const int64_t left = c->rows.inner - at * FG_TILE;
    *columns = left < tiles * FG_TILE ? (int)left : tiles * FG_TILE;
    return tiles;
}
#endif

/* Part i of the plan: its unit, where its state is, the offset of its first element, its rows, and their width. */
static inline int64_t N(part)(const FgSoftmaxParts *c, int64_t i, int64_t *unit, int64_t *p, int64_t *n, int *w) {
    int64_t k = i / c->rows.tiles % c->parts, first, start = k * TILE_PART, whole = c->rows.n / c->fold;
    *unit = i / c->rows.tiles / c->parts * c->rows.tiles + i % c->rows.tiles;
    *p = *unit * c->parts + k;
    first = N(tile)(&c->rows, *unit, w);
    *w *= (int)c->fold;
    if (start >= whole) {
        start = whole;
        *n = 1;
        *w = (int)(c->rows.n % c->fold * c->rows.inner);
    } else *n = whole - start < TILE_PART ? whole - start : TILE_PART;
    return first + start * c->step;
}
#define PART_STATE(c, p, which) ((T *)(c)->state + (2 * (p) + (which)) * FG_TILE)
#define EACH_PART(...) \
    const FgSoftmaxParts *c = ctx; \
    (void)tid; \
    for (int64_t i = begin; i < end; i++) { \
        int64_t unit, p, n; \
        int w; \
        int64_t first = N(part)(c, i, &unit, &p, &n, &w); \
        (void)p; \
        __VA_ARGS__; \
    }
#define STATE_VEC(p, c) (((N(vec_at) *)(p))[c])

FG_INLINE void N(expsum_state)(const T *x, T *m_out, T *s_out, int64_t n, int64_t inner, int w) {
    N(vec) m[TILE_VECS], base[TILE_VECS], sum[TILE_VECS];
    N(columns_max)(x, n, inner, w, m, base);
    TILE_SUM_EXP(sum, COLUMN_LOAD(x) - base[c], );
    EACH_VEC { STATE_VEC(m_out, c) = m[c]; STATE_VEC(s_out, c) = sum[c]; }
}
/* Columns past the part's width hold nothing: a maximum of -inf and a sum of 0. */
static inline void N(clear_state)(T *m, T *s, int w) {
    for (int j = w; j < FG_TILE; j++) { m[j] = -INFINITY; s[j] = 0; }
}
static void N(softmax_part)(void *ctx, int64_t begin, int64_t end, int tid) {
    EACH_PART({
        T *m = PART_STATE(c, p, 0), *s = PART_STATE(c, p, 1);
        BY_WIDTH(expsum_state, c->step, (const T *)c->rows.in[0] + first, m, s);
        N(clear_state)(m, s, w);
    })
}

/* The states of each unit become one, left in its first part for each copy of its columns; and logsumexp in lse, if not NULL. */
FG_INLINE void N(join_states)(const FgSoftmaxParts *c, int64_t begin, int64_t end, T *lse, int linear) {
    int64_t inner = 2 * FG_TILE, n = c->parts;
    for (int64_t u = begin; u < end; u++) {
        T *m_all = PART_STATE(c, u * n, 0), *s_all = PART_STATE(c, u * n, 1), top[FG_TILE], total[FG_TILE];
        enum { w = FG_TILE };
        N(vec) m[TILE_VECS], base[TILE_VECS], sum[TILE_VECS];
        int width;
        N(tile)(&c->rows, u, &width);
        if (linear) TILE_SUM(sum, COLUMN_LOAD(s_all));
        else {
            N(columns_max)(m_all, n, inner, w, m, base);
            TILE_SUM(sum, COLUMN_LOAD(s_all) * N(vec_exp)(COLUMN_LOAD(m_all) - base[c]));
            memcpy(top, m, sizeof top);
        }
        memcpy(total, sum, sizeof total);
        for (int j = 0; j < width; j++) {
            T most = -INFINITY, origin;
            double s = 0;
            for (int k = j; !linear && k < c->fold * width; k += width) most = top[k] > most ? top[k] : most;
            origin = most == INFINITY || most == -INFINITY ? 0 : most;
            for (int k = j; k < c->fold * width; k += width)
                s += linear || top[k] == most ? (double)total[k] : (double)total[k] * (double)N(row_exp)(top[k] - origin);
            for (int k = j; k < c->fold * width; k += width) { m_all[k] = most; s_all[k] = (T)s; }
            if (lse) lse[u / c->rows.tiles * c->rows.inner + u % c->rows.tiles * FG_TILE + j] = origin + N(row_log)((T)s);
        }
    }
}
static void N(softmax_join)(void *ctx, int64_t begin, int64_t end, int tid) {
    (void)tid;
    N(join_states)(ctx, begin, end, ((const FgSoftmaxParts *)ctx)->rows.out[1], 0);
}
static void N(logsumexp_join)(void *ctx, int64_t begin, int64_t end, int tid) {
    (void)tid;
    N(join_states)(ctx, begin, end, ((const FgSoftmaxParts *)ctx)->rows.out[0], 0);
}
static void N(sum_join)(void *ctx, int64_t begin, int64_t end, int tid) {
    (void)tid;
    N(join_states)(ctx, begin, end, NULL, 1);
}

/* FACTOR of a column's sum, and EACH that stores what x - max and the factor give; NaN where the maximum is infinite, unless the rows are a gradient */
#define PART_FINISH(name, FACTOR, EACH) \
FG_INLINE void N(name##_finish_columns)(const T *x, T *y, const T *m, const T *s, int gradient, int64_t n, int64_t inner, int w) { \
    N(vec) base[TILE_VECS], factor[TILE_VECS]; \
    EACH_VEC { \
        base[c] = STATE_VEC(m, c); \
        factor[c] = STATE_VEC(s, c); \
        for (int j = 0; j < VEC_LANES; j++) { \
            T origin = N(origin)(base[c][j]); \
            factor[c][j] = gradient || base[c][j] == origin ? FACTOR(factor[c][j]) : (T)NAN; \
            base[c][j] = origin; \
        } \
    } \
    for (int64_t k = 0; k < n; k++, x += inner, y += inner) EACH(N(column_load)(x, c, w) - base[c], factor[c]); \
} \
/* several tiles side by side, from the states of their units */ \
static void N(name##_finish_tiles)(const FgSoftmaxParts *p, const T *x, T *y, int64_t unit, int tiles, int gradient, int64_t n, int w) { \
    T bases[FINISH_TILES * FG_TILE], factors[FINISH_TILES * FG_TILE]; \
    for (int i = 0; i < tiles; i++) { \
        const T *m = PART_STATE(p, (unit + i) * p->parts, 0), *s = PART_STATE(p, (unit + i) * p->parts, 1); \
        for (int j = 0; j < FG_TILE; j++) { \
            const T origin = N(origin)(m[j]); \
            bases[i * FG_TILE + j] = origin; \
            factors[i * FG_TILE + j] = gradient || m[j] == origin ? FACTOR(s[j]) : (T)NAN; \
        } \
    } \
    for (int64_t k = 0; k < n; k++, x += p->step, y += p->step) \
        EACH(N(column_load)(x, c, w) - STATE_VEC(bases, c), STATE_VEC(factors, c)); \
} \
static void N(name##_finish)(void *ctx, int64_t begin, int64_t end, int tid) { \
    EACH_PART({ \
        const T *m = PART_STATE(c, unit * c->parts, 0), *s = PART_STATE(c, unit * c->parts, 1); \
        int columns; \
        const int tiles = fg_softmax_beside(c, i, end, &columns); \
        if (tiles > 1) { \
            N(name##_finish_tiles)(c, (const T *)c->rows.in[0] + first, (T *)c->rows.out[0] + first, unit, tiles, c->rows.out[1] != NULL, n, columns); \
            i += tiles - 1; \
            continue; \
        } \
        BY_WIDTH(name##_finish_columns, c->step, (const T *)c->rows.in[0] + first, (T *)c->rows.out[0] + first, m, s, c->rows.out[1] != NULL); \
    }) \
}
#define FACTOR_INVERSE(s) (1 / (s))
#define EACH_PROBABILITY(d, f) EACH_EXP(d, N(column_store)(y, c, w, e * (f)))
#define EACH_DIFFERENCE(d, f) EACH_VEC N(column_store)(y, c, w, (d) - (f))
PART_FINISH(softmax, FACTOR_INVERSE, EACH_PROBABILITY)
PART_FINISH(log_softmax, N(row_log), EACH_DIFFERENCE)

/* A linear map: the sum of TERM(a, b) over each column, then a row of what a, b and the sum give. */
#define PART_LINEAR(name, TERM, ROW) \
FG_INLINE void N(name##_state)(const T *a, const T *b, T *s_out, int64_t n, int64_t inner, int w) { \
    N(vec) sum[TILE_VECS]; \
    TILE_SUM(sum, TERM(COLUMN_LOAD(a), COLUMN_LOAD(b))); \
    EACH_VEC STATE_VEC(s_out, c) = sum[c]; \
} \
FG_INLINE void N(name##_finish_columns)(const T *a, const T *b, T *out, const T *s, int64_t n, int64_t inner, int w) { \
    N(vec) sum[TILE_VECS]; \
    EACH_VEC sum[c] = STATE_VEC(s, c); \
    for (int64_t k = 0; k < n; k++) { int64_t at = k * inner; ROW; } \
} \
static void N(name##_part)(void *ctx, int64_t begin, int64_t end, int tid) { \
    EACH_PART({ \
        T *s = PART_STATE(c, p, 1); \
        BY_WIDTH(name##_state, c->step, (const T *)c->rows.in[0] + first, (const T *)c->rows.in[1] + first, s); \
        N(clear_state)(PART_STATE(c, p, 0), s, w); \
    }) \
} \
static void N(name##_finish)(void *ctx, int64_t begin, int64_t end, int tid) { \
    EACH_PART({ \
        const T *s = PART_STATE(c, unit * c->parts, 1); \
        BY_WIDTH(name##_finish_columns, c->step, (const T *)c->rows.in[0] + first, (const T *)c->rows.in[1] + first, \
                 (T *)c->rows.out[0] + first, s); \
    }) \
}
PART_LINEAR(softmax_tangent, COLUMN_PRODUCT, SOFTMAX_ROW)
PART_LINEAR(log_softmax_tangent, COLUMN_EXP_PRODUCT, TANGENT_ROW)
PART_LINEAR(log_softmax_cotangent, COLUMN_SECOND, COTANGENT_ROW)
#undef PART_STATE
#undef EACH_PART
#undef STATE_VEC
#undef PART_FINISH
#undef FACTOR_INVERSE
#undef EACH_PROBABILITY
#undef EACH_DIFFERENCE
#undef PART_LINEAR
