/* rms_norm and layer_norm over the last axis, and moments over any, for the type T.  Included once per type.
 * Rows go in groups where they are short (row_group), and narrow ones of layer_norm and moments as columns. */

#ifndef NORM_ROW
/* y[i] = VALUE, times the weights and plus the bias where there are such rows */
#define NORM_ROW(VALUE) do { \
    const T *weight = c->in[1], *bias = c->in[2]; \
    if (!weight) { _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] = VALUE; } \
    else if (!bias) { _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] = (VALUE) * weight[i]; } \
    else { _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] = (VALUE) * weight[i] + bias[i]; } \
} while (0)
#endif

/* Means of columns (rounded), and what is left of the sums of deviations from them and of their squares. */
FG_INLINE void N(columns_moments)(const T *x, int64_t n, int64_t inner, int w, N(vec) *mean, N(vec) *left, N(vec) *squares) {
    N(vec) d, count = (N(vec)){0} + (T)n;
    TILE_SUM(mean, COLUMN_LOAD(x));
    EACH_VEC { mean[c] /= count; left[c] = squares[c] = (N(vec)){0}; }
    for (int64_t k0 = 0; k0 < n; k0 += TILE_PART) {
        N(vec) part[TILE_VECS], part2[TILE_VECS];
        int64_t k1 = n - k0 < TILE_PART ? n : k0 + TILE_PART;
        EACH_VEC part[c] = part2[c] = (N(vec)){0};
        for (int64_t k = k0; k < k1; k++) { int64_t at = k * inner; EACH_VEC { d = COLUMN_LOAD(x) - mean[c]; part[c] += d; part2[c] += d * d; } }
        EACH_VEC { left[c] += part[c]; squares[c] += part2[c]; }
    }
    EACH_VEC { squares[c] -= left[c] * left[c] / count; left[c] /= count; }
}

FG_INLINE void N(moments_columns)(const T *x, T *mean, T *squares, int64_t n, int64_t inner, int w) {
    N(vec) m[TILE_VECS], left[TILE_VECS], s[TILE_VECS];
    N(columns_moments)(x, n, inner, w, m, left, s);
    EACH_VEC {
        for (int j = 0; j < VEC_LANES; j++) s[c][j] = s[c][j] < 0 ? 0 : s[c][j];
        N(column_store)(mean, c, w, m[c]);
        N(column_store)(squares, c, w, s[c]);
    }
}

/* The mean of each row or column, and the sum of squared deviations from it. */
static void N(moments)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n, inner = c->inner, group = 1;
    const int fetches = fg_fetches(n * sizeof(T), c->units * n * sizeof(T));
    T columns[FG_TILE * NARROW], *mean = (T *)c->out[0], *squares = (T *)c->out[1];
    WHOLE_TILES(FOLDS_NARROW(c));
    for (int64_t u = begin; u < end; u += group) {
        const T *x = (const T *)c->in[0] + (inner == 1 ? u * n : 0);
        if (FOLDS_NARROW(c)) {
            TILE_ROWS;
            TO_COLUMNS(columns, (const T *)c->in[0] + u * n * inner);
            BY_WIDTH(moments_columns, FG_TILE, columns, mean + u * inner, squares + u * inner);
        } else if (inner == 1) {
            T m[FG_ROW_GROUP];
            group = row_group(end - u, n * sizeof(T));
            for (int64_t k = 0; k < group; k++) m[k] = (T)(N(row_sum)(x + k * n, n) / (double)n);
            for (int64_t k = 0; k < group; k++) {
                double left, s;
                if (fetches) fg_fetch(x + (group + k) * n, n * sizeof(T));
                s = N(row_spread)(x + k * n, m[k], n, &left);
                s -= left * left / (double)n;
                mean[u + k] = m[k];
                squares[u + k] = (T)(s < 0 ? 0 : s);
            }
        } else {
            int w;
            int64_t first = N(tile)(c, u, &w), at = u / c->tiles * inner + u % c->tiles * FG_TILE;
            BY_WIDTH(moments_columns, inner, x + first, mean + at, squares + at);
        }
    }
}

/* Long rows go in parts, so that memory is read once and the threads share a row: of each its mean and its squared deviations from it, in
 * double; then the parts of a row become one.  So do long columns, by blocks of rows, all tiles of a block before the next: read as they lie. */
#ifndef FG_MOMENTS_PARTS
#define FG_MOMENTS_PARTS
enum { FG_MOMENTS_PART = 4096, FG_MOMENTS_ROWS = 256 };
typedef struct { FgRows rows; int64_t parts, part, lanes; double *state; } FgMomentsParts;     /* part: its length; lanes: of each of its two states */
/* Whether rows, or columns, go in parts: sizes decide, never the number of threads. */
static inline int fg_moments_parts(FgMomentsParts *c) {
    const int columns = c->rows.inner > 1;
    c->part = columns ? FG_MOMENTS_ROWS : FG_MOMENTS_PART;
    c->lanes = columns ? FG_TILE : 1;
    c->parts = (c->rows.n + c->part - 1) / c->part;
    return columns ? c->parts >= 4 && 2 * c->rows.inner >= FG_TILE : c->parts >= 16;
}
#endif
FG_INLINE void N(moments_state)(const T *x, double *state, int64_t n, int64_t inner, int w) {
    N(vec) m[TILE_VECS] = {0}, left[TILE_VECS] = {0}, s[TILE_VECS] = {0};
    N(columns_moments)(x, n, inner, w, m, left, s);
    T flat[3][FG_TILE];                                        /* converted in vectors */
    memcpy(flat[0], m, sizeof flat[0]); memcpy(flat[1], left, sizeof flat[1]); memcpy(flat[2], s, sizeof flat[2]);
    _Pragma("omp simd")
    for (int j = 0; j < FG_TILE; j++) {
        const double mean = (double)flat[0][j];
        state[j] = mean - mean == 0 ? mean + (double)flat[1][j] : mean;
        state[FG_TILE + j] = (double)flat[2][j];
    }
}
static void N(moments_part)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgMomentsParts *c = ctx;
    (void)tid;
    for (int64_t i = begin; i < end; i++) {
        int w;
        int64_t k = i / c->rows.tiles % c->parts, unit = i / c->rows.tiles / c->parts * c->rows.tiles + i % c->rows.tiles;
        int64_t n = c->rows.n - k * c->part < c->part ? c->rows.n - k * c->part : c->part;
        const T *x = (const T *)c->rows.in[0] + N(tile)(&c->rows, unit, &w) + k * c->part * c->rows.inner;
        double *state = c->state + (unit * c->parts + k) * 2 * c->lanes;
        if (c->lanes > 1) { BY_WIDTH(moments_state, c->rows.inner, x, state); continue; }
        T m = (T)(N(row_sum)(x, n) / (double)n);
        double left, s = N(row_spread)(x, m, n, &left);
        state[0] = (double)m - (double)m == 0 ? (double)m + left / (double)n : (double)m;
        state[1] = s - left * left / (double)n;
    }
}
static void N(moments_join)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgMomentsParts *c = ctx;
    const double count = (double)c->rows.n, last = count - (double)(c->parts - 1) * (double)c->part;
    (void)tid;
    for (int64_t u = begin; u < end; u++) {
        const double *state = c->state + 2 * u * c->parts * c->lanes;
        double mean[FG_TILE] = {0}, squares[FG_TILE] = {0};
        int w;
        N(tile)(&c->rows, u, &w);
        for (int64_t p = 0; p < c->parts; p++)
            for (int j = 0; j < w; j++) mean[j] += state[2 * p * c->lanes + j] * (p < c->parts - 1 ? (double)c->part : last);
        for (int j = 0; j < w; j++) mean[j] /= count;
        for (int64_t p = 0; p < c->parts; p++)
            for (int j = 0; j < w; j++) {
                double d = state[2 * p * c->lanes + j] - mean[j];
                squares[j] += state[(2 * p + 1) * c->lanes + j] + d * d * (p < c->parts - 1 ? (double)c->part : last);
            }
        const int64_t at = u / c->rows.tiles * c->rows.inner + u % c->rows.tiles * FG_TILE;
        for (int j = 0; j < w; j++) {
            ((T *)c->rows.out[0])[at + j] = (T)mean[j];
            ((T *)c->rows.out[1])[at + j] = (T)(squares[j] < 0 ? 0 : squares[j]);
        }
    }
}

/* y and r of columns that are narrow rows turned */
FG_INLINE void N(layer_norm_columns)(const T *x, T *y, T *r, double eps, int64_t n, int64_t inner, int w) {
    N(vec) m[TILE_VECS], left[TILE_VECS], s[TILE_VECS];
    T scale[FG_TILE];
    N(columns_moments)(x, n, inner, w, m, left, s);
    memcpy(scale, s, sizeof scale);
    _Pragma("omp simd")
    for (int j = 0; j < FG_TILE; j++) scale[j] = (T)(1 / sqrt((double)(scale[j] < 0 ? 0 : scale[j]) / (double)n + eps));
    memcpy(s, scale, sizeof scale);
    EACH_VEC { N(column_store)(r, c, w, s[c]); left[c] *= s[c]; }
    TILE_EACH(COLUMN_STORE(y, (COLUMN_LOAD(x) - m[c]) * s[c] - left[c]));
}

/* Each of n rows of a tile times its weight, plus its bias; either may be absent. */
static void N(weigh_columns)(T *x, const T *weight, const T *bias, int64_t n) {
    for (int64_t k = 0; weight && k < n; k++, x += FG_TILE) {
        T scale = weight[k], shift = bias ? bias[k] : 0;
        _Pragma("omp simd")
        for (int j = 0; j < FG_TILE; j++) x[j] = bias ? x[j] * scale + shift : x[j] * scale;
    }
}

static void N(rms_norm)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n, group;
    for (int64_t u = begin; u < end; u += group) {
        const T *x = (const T *)c->in[0] + u * n;
        T *y = (T *)c->out[0] + u * n, *r = (T *)c->out[1] + u;
        double squares[FG_ROW_GROUP];
        group = row_group(end - u, n * sizeof(T));
        for (int64_t k = 0; k < group; k++) squares[k] = N(row_dot)(x + k * n, x + k * n, n);
        for (int64_t k = 0; k < group; k++) r[k] = (T)(1 / sqrt(squares[k] / (double)n + c->eps));
        for (int64_t k = 0; k < group; k++, x += n, y += n) {
            T scale = r[k];
            NORM_ROW(x[i] * scale);
        }
    }
}

static void N(rms_norm_tangent)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n;
    for (int64_t u = begin; u < end; u++) {
        const T *x = (const T *)c->in[0] + u * n, *t = (const T *)c->in[2] + u * n;
        T *out = (T *)c->out[0] + u * n, r = ((const T *)c->in[1])[u];
        T along = (T)(N(row_dot)(x, t, n) / (double)n * r * r);
        #pragma omp simd
        for (int64_t i = 0; i < n; i++) out[i] = r * (t[i] - x[i] * along);
    }
}

static void N(layer_norm)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n, group;
    WHOLE_TILES(FOLDS_NARROW(c));
    for (int64_t u = begin; u < end; u += group) {
        const T *x = (const T *)c->in[0] + u * n;
        T *y = (T *)c->out[0] + u * n, *r = (T *)c->out[1] + u, mean[FG_ROW_GROUP], shift[FG_ROW_GROUP];
        double left[FG_ROW_GROUP], spread[FG_ROW_GROUP];
        if (FOLDS_NARROW(c)) {
            T columns[FG_TILE * NARROW];
            TILE_ROWS;
            TO_COLUMNS(columns, x);
            BY_WIDTH(layer_norm_columns, FG_TILE, columns, columns, r, c->eps);
            N(weigh_columns)(columns, c->in[1], c->in[2], n);
            TO_ROWS(y, columns);
            continue;
        }
        group = row_group(end - u, n * sizeof(T));
        for (int64_t k = 0; k < group; k++) mean[k] = (T)(N(row_sum)(x + k * n, n) / (double)n);
        /* `mean` is rounded: what is left of the deviations corrects the variance and the result */
        for (int64_t k = 0; k < group; k++) spread[k] = N(row_spread)(x + k * n, mean[k], n, &left[k]);
        for (int64_t k = 0; k < group; k++) {
            double rest = left[k] / (double)n, var = spread[k] / (double)n - rest * rest, r1 = 1 / sqrt((var < 0 ? 0 : var) + c->eps);
            r[k] = (T)r1;
            shift[k] = (T)(rest * r1);
        }
        for (int64_t k = 0; k < group; k++, x += n, y += n) {
            T m = mean[k], scale = r[k], off = shift[k];
            NORM_ROW((x[i] - m) * scale - off);
        }
    }
}

static void N(layer_norm_tangent)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n;
    for (int64_t u = begin; u < end; u++) {
        const T *y = (const T *)c->in[0] + u * n, *t = (const T *)c->in[2] + u * n;
        T *out = (T *)c->out[0] + u * n, r = ((const T *)c->in[1])[u];
        T mean = (T)(N(row_sum)(t, n) / (double)n), along = (T)(N(row_dot)(y, t, n) / (double)n);
        #pragma omp simd
        for (int64_t i = 0; i < n; i++) out[i] = r * ((t[i] - mean) - y[i] * along);
    }
}
