/* softmax, log_softmax, logsumexp and their linear maps over rows, for the type T.  Included once per type. */
#define CACHED 65536         /* bytes of a row that is read again from cache rather than recomputed */

/* The tile of columns of unit u: offset of its first element, and its width. */
static inline int64_t N(tile)(const FgRows *c, int64_t u, int *w) {
    int64_t j = u % c->tiles * FG_TILE;
    *w = (int)(c->inner - j < FG_TILE ? c->inner - j : FG_TILE);
    return u / c->tiles * c->n * c->inner + j;
}

/* total[j] = sum over the rows of EXPR, which sees `at`, the offset of the row in the tile, and `j`. */
#define TILE_SUM(total, EXPR) do { \
    for (int j = 0; j < w; j++) (total)[j] = 0; \
    for (int64_t k0_ = 0; k0_ < n; k0_ += 128) { \
        T part_[FG_TILE] = {0}; \
        int64_t k1_ = n - k0_ < 128 ? n : k0_ + 128; \
        for (int64_t k_ = k0_; k_ < k1_; k_++) { \
            int64_t at = k_ * inner; \
            _Pragma("omp simd") \
            for (int j = 0; j < w; j++) part_[j] += EXPR; \
        } \
        for (int j = 0; j < w; j++) (total)[j] += part_[j]; \
    } \
} while (0)

#define TILE_EACH(STATEMENT) do { \
    for (int64_t k_ = 0; k_ < n; k_++) { \
        int64_t at = k_ * inner; \
        _Pragma("omp simd") \
        for (int j = 0; j < w; j++) { STATEMENT; } \
    } \
} while (0)

/* Column maxima m, and base = m, or 0 where m is infinite. */
static inline void N(tile_max)(const T *x, int64_t n, int64_t inner, int w, T *m, T *base) {
    for (int j = 0; j < w; j++) m[j] = -INFINITY;
    TILE_EACH(m[j] = x[at + j] > m[j] ? x[at + j] : m[j]);
    for (int j = 0; j < w; j++) base[j] = m[j] == INFINITY || m[j] == -INFINITY ? 0 : m[j];
}

/* softmax of `group` rows that stay in cache, and of one that does not */
static inline void N(softmax_rows)(const T *x, T *y, int64_t n, int64_t group) {
    T m[FG_ROW_GROUP], s[FG_ROW_GROUP];
    for (int64_t k = 0; k < group; k++) m[k] = N(row_max)(x + k * n, n);
    for (int64_t k = 0; k < group; k++) s[k] = N(row_exp_to)(y + k * n, x + k * n, m[k], n);
    for (int64_t k = 0; k < group; k++, y += n) {
        T scale = 1 / s[k];
        #pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] *= scale;
    }
}
static inline void N(softmax_long)(const T *x, T *y, int64_t n) {
    T m, scale = (T)(1 / N(row_max_expsum)(x, n, &m));
    N(row_exp_times)(y, x, m, m == INFINITY ? (T)NAN : scale, n);
}

static void N(softmax)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n, inner = c->inner, group = 1;
    T m[FG_TILE], base[FG_TILE], sum[FG_TILE];
    for (int64_t u = begin; u < end; u += group) {
        if (inner == 1) {
            const T *x = (const T *)c->in[0] + u * n;
            T *y = (T *)c->out[0] + u * n;
            group = row_group(end - u, n * sizeof(T));
            if (n * (int64_t)sizeof(T) <= CACHED) N(softmax_rows)(x, y, n, group);
            else N(softmax_long)(x, y, n);
        } else {
            int w;
            int64_t first = N(tile)(c, u, &w);
            const T *x = (const T *)c->in[0] + first;
            T *y = (T *)c->out[0] + first;
            N(tile_max)(x, n, inner, w, m, base);
            TILE_SUM(sum, (y[at + j] = N(row_exp)(x[at + j] - base[j])));
            for (int j = 0; j < w; j++) sum[j] = base[j] == m[j] ? 1 / sum[j] : NAN;
            TILE_EACH(y[at + j] *= sum[j]);
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
    T m[FG_TILE], base[FG_TILE], sum[FG_TILE];
    for (int64_t u = begin; u < end; u += group) {
        if (inner == 1) {
            group = row_group(end - u, n * sizeof(T));
            N(log_softmax_rows)((const T *)c->in[0] + u * n, (T *)c->out[0] + u * n, n, group);
        } else {
            int w;
            int64_t first = N(tile)(c, u, &w);
            const T *x = (const T *)c->in[0] + first;
            T *y = (T *)c->out[0] + first;
            N(tile_max)(x, n, inner, w, m, base);
            TILE_SUM(sum, N(row_exp)(x[at + j] - base[j]));
            for (int j = 0; j < w; j++) sum[j] = base[j] == m[j] ? N(row_log)(sum[j]) : NAN;
            TILE_EACH(y[at + j] = (x[at + j] - base[j]) - sum[j]);
        }
    }
}

static void N(logsumexp)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n, inner = c->inner;
    T m[FG_TILE], base[FG_TILE], sum[FG_TILE];
    for (int64_t u = begin; u < end; u++) {
        if (inner == 1) {
            T m1, s = (T)N(row_max_expsum)((const T *)c->in[0] + u * n, n, &m1);
            ((T *)c->out[0])[u] = (m1 == INFINITY || m1 == -INFINITY ? 0 : m1) + N(row_log)(s);
        } else {
            int w;
            int64_t first = N(tile)(c, u, &w);
            const T *x = (const T *)c->in[0] + first;
            T *y = (T *)c->out[0] + u / c->tiles * inner + u % c->tiles * FG_TILE;
            N(tile_max)(x, n, inner, w, m, base);
            TILE_SUM(sum, N(row_exp)(x[at + j] - base[j]));
            for (int j = 0; j < w; j++) y[j] = base[j] + N(row_log)(sum[j]);
        }
    }
}

/* The three linear maps: a sum s of each row of (a, b), then a map of (a, b, s). */
#define LINEAR(name, ROW_TOTAL, TILE_TERM, RESULT) \
static void N(name)(void *ctx, int64_t begin, int64_t end, int tid) { \
    const FgRows *c = ctx; \
    int64_t n = c->n, inner = c->inner; \
    for (int64_t u = begin; u < end; u++) { \
        int w = 1; \
        int64_t first = inner == 1 ? u * n : N(tile)(c, u, &w); \
        const T *a = (const T *)c->in[0] + first, *b = (const T *)c->in[1] + first; \
        T *out = (T *)c->out[0] + first; \
        if (inner == 1) { \
            T s = (T)(ROW_TOTAL); \
            _Pragma("omp simd") \
            for (int64_t i = 0; i < n; i++) out[i] = RESULT(a[i], b[i], s); \
        } else { \
            T sum[FG_TILE]; \
            TILE_SUM(sum, TILE_TERM(a[at + j], b[at + j])); \
            TILE_EACH(out[at + j] = RESULT(a[at + j], b[at + j], sum[j])); \
        } \
    } \
}
#define PRODUCT(a, b) ((a) * (b))
#define EXP_PRODUCT(a, b) (N(row_exp)(a) * (b))
#define SECOND(a, b) (b)
#define SOFTMAX_MAP(y, t, s) ((y) * ((t) - (s)))
#define TANGENT_MAP(y, t, s) ((t) - (s))
#define COTANGENT_MAP(y, t, s) ((t) - N(row_exp)(y) * (s))
LINEAR(softmax_tangent, N(row_dot)(a, b, n), PRODUCT, SOFTMAX_MAP)
LINEAR(log_softmax_tangent, N(row_exp_dot)(a, 0, b, n), EXP_PRODUCT, TANGENT_MAP)
LINEAR(log_softmax_cotangent, N(row_sum)(b, n), SECOND, COTANGENT_MAP)
#undef PRODUCT
#undef EXP_PRODUCT
#undef SECOND
#undef SOFTMAX_MAP
#undef TANGENT_MAP
#undef COTANGENT_MAP
#undef LINEAR
#undef TILE_SUM
#undef TILE_EACH
#undef CACHED
