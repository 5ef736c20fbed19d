/* softmax and its relatives down the columns of a tile, a vector of columns at a time, for the type T: w <= FG_TILE columns of n
 * elements, `inner` apart.  A term is summed in parts of 128, so that a sum's error does not grow with n.  Included once per type. */
#ifndef TILE_VECS
#define TILE_VECS (FG_TILE * (int)sizeof(T) / FG_VEC)
#define TILE_PART 128
#define TILE_USED ((w + (int)VEC_LANES - 1) / (int)VEC_LANES)
#define EACH_VEC for (int c = 0; c < TILE_USED; c++)
/* STATEMENT for every vector c of every row, `at` from the tile's start */
#define TILE_EACH(STATEMENT) for (int64_t k_ = 0; k_ < n; k_++) { int64_t at = k_ * inner; EACH_VEC { STATEMENT; } }
/* total[c] = the sum of EXPR over the rows */
#define TILE_SUM(total, EXPR) do { \
    EACH_VEC (total)[c] = (N(vec)){0}; \
    for (int64_t k0_ = 0; k0_ < n; k0_ += TILE_PART) { \
        N(vec) part_[TILE_VECS]; \
        int64_t k1_ = n - k0_ < TILE_PART ? n : k0_ + TILE_PART; \
        EACH_VEC part_[c] = (N(vec)){0}; \
        for (int64_t k_ = k0_; k_ < k1_; k_++) { int64_t at = k_ * inner; EACH_VEC part_[c] += EXPR; } \
        EACH_VEC (total)[c] += part_[c]; \
    } \
} while (0)
#define COLUMN_LOAD(p) N(column_load)((p) + at, c, w)
#define COLUMN_STORE(p, v) N(column_store)((p) + at, c, w, v)
#endif

/* Vector c of a row of w columns; the last one may be a part. */
FG_INLINE N(vec) N(column_load)(const T *p, int c, int w) {
    int left = w - c * (int)VEC_LANES;
    p += c * VEC_LANES;
    if (left >= VEC_LANES) return *(const N(vec_at) *)p;
    return N(vec_load_part)(p, left);
}
FG_INLINE void N(column_store)(T *p, int c, int w, N(vec) v) {
    int left = w - c * (int)VEC_LANES;
    p += c * VEC_LANES;
    if (left >= VEC_LANES) *(N(vec_at) *)p = v;
    else N(vec_store_part)(p, left, v);
}

/* Column maxima m, NaN passed over, and base = m, or 0 where m is infinite. */
FG_INLINE void N(columns_max)(const T *x, int64_t n, int64_t inner, int w, N(vec) *m, N(vec) *base) {
    EACH_VEC m[c] = (N(vec)){0} - (T)INFINITY;
    TILE_EACH(m[c] = N(vec_max)(COLUMN_LOAD(x), m[c]));
    EACH_VEC for (int j = 0; j < VEC_LANES; j++) base[c][j] = m[c][j] == INFINITY || m[c][j] == -INFINITY ? 0 : m[c][j];
}

FG_INLINE void N(softmax_columns)(const T *x, T *y, int64_t n, int64_t inner, int w) {
    N(vec) m[TILE_VECS], base[TILE_VECS], sum[TILE_VECS], e;
    N(columns_max)(x, n, inner, w, m, base);
    TILE_SUM(sum, (e = N(vec_exp)(COLUMN_LOAD(x) - base[c]), COLUMN_STORE(y, e), e));
    EACH_VEC for (int j = 0; j < VEC_LANES; j++) sum[c][j] = base[c][j] == m[c][j] ? 1 / sum[c][j] : (T)NAN;
    TILE_EACH(COLUMN_STORE(y, COLUMN_LOAD(y) * sum[c]));
}

FG_INLINE void N(log_softmax_columns)(const T *x, T *y, int64_t n, int64_t inner, int w) {
    N(vec) m[TILE_VECS], base[TILE_VECS], sum[TILE_VECS];
    N(columns_max)(x, n, inner, w, m, base);
    TILE_SUM(sum, N(vec_exp)(COLUMN_LOAD(x) - base[c]));
    EACH_VEC for (int j = 0; j < VEC_LANES; j++) sum[c][j] = base[c][j] == m[c][j] ? N(row_log)(sum[c][j]) : (T)NAN;
    TILE_EACH(COLUMN_STORE(y, (COLUMN_LOAD(x) - base[c]) - sum[c]));
}

/* y: one value a column */
FG_INLINE void N(logsumexp_columns)(const T *x, T *y, int64_t n, int64_t inner, int w) {
    N(vec) m[TILE_VECS], base[TILE_VECS], sum[TILE_VECS];
    N(columns_max)(x, n, inner, w, m, base);
    TILE_SUM(sum, N(vec_exp)(COLUMN_LOAD(x) - base[c]));
    EACH_VEC for (int j = 0; j < VEC_LANES; j++) sum[c][j] = base[c][j] + N(row_log)(sum[c][j]);
    EACH_VEC N(column_store)(y, c, w, sum[c]);
}

/* A linear map: the sum of TERM(a, b) over each column, then RESULT(a, b, sum). */
#define COLUMNS_LINEAR(name, TERM, RESULT) \
FG_INLINE void N(name##_columns)(const T *a, const T *b, T *out, int64_t n, int64_t inner, int w) { \
    N(vec) sum[TILE_VECS]; \
    TILE_SUM(sum, TERM(COLUMN_LOAD(a), COLUMN_LOAD(b))); \
    TILE_EACH(COLUMN_STORE(out, RESULT(COLUMN_LOAD(a), COLUMN_LOAD(b), sum[c]))); \
}
COLUMNS_LINEAR(softmax_tangent, COLUMN_PRODUCT, SOFTMAX_MAP)
COLUMNS_LINEAR(log_softmax_tangent, COLUMN_EXP_PRODUCT, TANGENT_MAP)
COLUMNS_LINEAR(log_softmax_cotangent, COLUMN_SECOND, COLUMN_COTANGENT_MAP)
#undef COLUMNS_LINEAR
