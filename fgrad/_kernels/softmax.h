/* softmax, log_softmax, logsumexp and their linear maps over rows, for the type T.  Included once per type. */
#include <float.h>
#define CACHED 65536         /* bytes of a row that is read again from cache rather than recomputed */

#define COLUMN_PRODUCT(a, b) ((a) * (b))
#define COLUMN_SECOND(a, b) (b)
#define SOFTMAX_MAP(y, t, s) ((y) * ((t) - (s)))
#define TANGENT_MAP(y, t, s) ((t) - (s))
#define COTANGENT_MAP(y, t, s) ((t) - N(row_exp)(y) * (s))
#define COLUMN_EXP_PRODUCT(a, b) (N(vec_exp)(a) * (b))
#define SOFTMAX_ROW EACH_VEC COLUMN_STORE(out, SOFTMAX_MAP(COLUMN_LOAD(a), COLUMN_LOAD(b), sum[c]))
#define TANGENT_ROW EACH_VEC COLUMN_STORE(out, TANGENT_MAP(COLUMN_LOAD(a), COLUMN_LOAD(b), sum[c]))
#define COTANGENT_ROW EACH_EXP(COLUMN_LOAD(a), COLUMN_STORE(out, COLUMN_LOAD(b) - e * sum[c]))
#include "softmax_columns.h"

/* softmax of `group` rows that stay in cache, and of one that does not; as softmax_columns, where lse is not NULL */
static inline void N(softmax_rows)(const T *x, T *y, T *lse, int64_t n, int64_t group) {
    T m[FG_ROW_GROUP], s[FG_ROW_GROUP];
#ifdef __AVX512F__
    for (int64_t k = 0; n <= VEC_LANES && k < group; k++, x += n, y += n) {
        const N(vec) v = N(row_part)(x, n, -INFINITY);
        const T most = N(part_max)(v), from = lse ? N(origin)(most) : most;
        const N(vec) e = N(row_keep)(N(vec_exp)(v - from), n);
        const T sum = N(part_sum)(e), scale = 1 / sum;
        if (lse) lse[k] = from + N(row_log)(sum);
        N(part_store)(y, n, e * scale);
    }
    if (n <= VEC_LANES) return;
#endif
    for (int64_t k = 0; k < group; k++) m[k] = N(row_max)(x + k * n, n);
    for (int64_t k = 0; lse && k < group; k++) m[k] = N(origin)(m[k]);
    for (int64_t k = 0; k < group; k++) s[k] = N(row_exp_to)(y + k * n, x + k * n, m[k], n);
    for (int64_t k = 0; lse && k < group; k++) lse[k] = m[k] + N(row_log)(s[k]);
    for (int64_t k = 0; k < group; k++, y += n) {
        T scale = 1 / s[k];
        #pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] *= scale;
    }
}
static inline void N(softmax_long)(const T *x, T *y, T *lse, int64_t n) {
    T m, sum = (T)N(row_max_expsum)(x, n, &m), scale = 1 / sum;
    if (lse) *lse = N(origin)(m) + N(row_log)(sum);
    N(row_exp_times)(y, x, N(origin)(m), !lse && m == INFINITY ? (T)NAN : scale, n);
}

static void N(softmax)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n, inner = c->inner, group = 1;
    T columns[FG_TILE * NARROW];
    WHOLE_TILES(IS_NARROW(c));
    for (int64_t u = begin; u < end; u += group) {
        if (IS_NARROW(c)) {
            TILE_ROWS;
            TO_COLUMNS(columns, (const T *)c->in[0] + u * n * inner);
            BY_WIDTH(softmax_columns, FG_TILE, columns, columns, c->out[1] ? (T *)c->out[1] + u * inner : NULL);
            TO_ROWS((T *)c->out[0] + u * n * inner, columns);
        } else if (inner == 1) {
            const T *x = (const T *)c->in[0] + u * n;
            T *y = (T *)c->out[0] + u * n, *lse = c->out[1] ? (T *)c->out[1] + u : NULL;
            group = row_group(end - u, n * sizeof(T));
            if (n * (int64_t)sizeof(T) <= CACHED) N(softmax_rows)(x, y, lse, n, group);
            else N(softmax_long)(x, y, lse, n);
        } else {
            int w;
            int64_t first = N(tile)(c, u, &w);
            T *lse = c->out[1] ? (T *)c->out[1] + u / c->tiles * inner + u % c->tiles * FG_TILE : NULL;
            BY_WIDTH(softmax_columns, inner, (const T *)c->in[0] + first, (T *)c->out[0] + first, lse);
        }
    }
}

/* log_softmax of `group` rows, each at most a block of row_max_expsum where there is more than one */
static inline void N(log_softmax_rows)(const T *x, T *y, int64_t n, int64_t group) {
    T m[FG_ROW_GROUP], rest[FG_ROW_GROUP];
    if (group == 1) rest[0] = (T)N(row_max_expsum)(x, n, m);
    else {
        for (int64_t k = 0; k < group; k++) m[k] = N(row_max)(x + k * n, n);
        for (int64_t k = 0; k < group; k++) rest[k] = (T)N(row_exp_sum)(x + k * n, m[k], n);
    }
    for (int64_t k = 0; k < group; k++) rest[k] = m[k] == INFINITY ? (T)NAN : N(row_log)(rest[k]);
    for (int64_t k = 0; k < group; k++, x += n, y += n) {
        T a = m[k], b = rest[k];
        #pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - a) - b;
    }
}

static void N(log_softmax)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n, inner = c->inner, group = 1;
    T columns[FG_TILE * NARROW];
    WHOLE_TILES(IS_NARROW(c));
    for (int64_t u = begin; u < end; u += group) {
        if (IS_NARROW(c)) {
            TILE_ROWS;
            TO_COLUMNS(columns, (const T *)c->in[0] + u * n * inner);
            BY_WIDTH(log_softmax_columns, FG_TILE, columns, columns);
            TO_ROWS((T *)c->out[0] + u * n * inner, columns);
        } else if (inner == 1) {
            group = row_group(end - u, n * sizeof(T));
            N(log_softmax_rows)((const T *)c->in[0] + u * n, (T *)c->out[0] + u * n, n, group);
        } else {
            int w;
            int64_t first = N(tile)(c, u, &w);
            BY_WIDTH(log_softmax_columns, inner, (const T *)c->in[0] + first, (T *)c->out[0] + first);
        }
    }
}

static void N(logsumexp)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n, inner = c->inner, group = 1;
    T columns[FG_TILE * NARROW], *out = (T *)c->out[0];
    WHOLE_TILES(FOLDS_NARROW(c));
    for (int64_t u = begin; u < end; u += group) {
        const T *x = (const T *)c->in[0] + (inner == 1 ? u * n : 0);
        if (FOLDS_NARROW(c)) {
            TILE_ROWS;
            TO_COLUMNS(columns, (const T *)c->in[0] + u * n * inner);
            BY_WIDTH(logsumexp_columns, FG_TILE, columns, out + u * inner);
        } else if (inner == 1) {
            T m, s = (T)N(row_max_expsum)(x, n, &m);
            out[u] = (m == INFINITY || m == -INFINITY ? 0 : m) + N(row_log)(s);
        } else {
            int w;
            int64_t first = N(tile)(c, u, &w);
            BY_WIDTH(logsumexp_columns, inner, x + first, out + u / c->tiles * inner + u % c->tiles * FG_TILE);
        }
    }
}

/* The three linear maps: a sum s of each row of (a, b), then a map of (a, b, s). */
#define LINEAR(name, ROW_TOTAL, RESULT) \
static void N(name)(void *ctx, int64_t begin, int64_t end, int tid) { \
    const FgRows *c = ctx; \
    int64_t n = c->n, inner = c->inner, group = 1; \
    (void)tid; \
    WHOLE_TILES(IS_NARROW(c)); \
    for (int64_t u = begin; u < end; u += group) { \
        int width = 1; \
        int64_t first = IS_NARROW(c) ? u * n * inner : inner == 1 ? u * n : N(tile)(c, u, &width); \
        const T *a = (const T *)c->in[0] + first, *b = (const T *)c->in[1] + first; \
        T *out = (T *)c->out[0] + first; \
        if (IS_NARROW(c)) { \
            T left[FG_TILE * NARROW], right[FG_TILE * NARROW]; \
            TILE_ROWS; \
            TO_COLUMNS(left, a); TO_COLUMNS(right, b); \
            BY_WIDTH(name##_columns, FG_TILE, left, right, left); \
            TO_ROWS(out, left); \
        } else if (inner == 1) { \
            T s = (T)(ROW_TOTAL); \
            _Pragma("omp simd") \
            for (int64_t i = 0; i < n; i++) out[i] = RESULT(a[i], b[i], s); \
        } else { int w = width; BY_WIDTH(name##_columns, inner, a, b, out); } \
    } \
}
LINEAR(softmax_tangent, N(row_dot)(a, b, n), SOFTMAX_MAP)
LINEAR(log_softmax_tangent, N(row_exp_dot)(a, 0, b, n), TANGENT_MAP)
LINEAR(log_softmax_cotangent, N(row_sum)(b, n), COTANGENT_MAP)
#include "softmax_parts.h"
#undef SOFTMAX_MAP
#undef TANGENT_MAP
#undef COTANGENT_MAP
#undef COLUMN_PRODUCT
#undef COLUMN_EXP_PRODUCT
#undef COLUMN_SECOND
#undef SOFTMAX_ROW
#undef TANGENT_ROW
#undef COTANGENT_ROW
#undef LINEAR
#undef CACHED
