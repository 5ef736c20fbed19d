/* softmax and its relatives down the columns of a tile, a vector of columns at a time, for the type T.  Included once per type. */

/* What is subtracted from a row of maximum m: exp(x - origin) of a row with inf is inf there and 0 elsewhere, that of a row of -inf is 0. */
static inline T N(origin)(T m) {
    return m == INFINITY ? (sizeof(T) == 4 ? (T)FLT_MAX : (T)DBL_MAX) : m == -INFINITY ? 0 : m;
}

/* Column maxima m, NaN passed over, and their origins. */
FG_INLINE void N(columns_max)(const T *x, int64_t n, int64_t inner, int w, N(vec) *m, N(vec) *base) {
    EACH_VEC m[c] = (N(vec)){0} - (T)INFINITY;
    TILE_EACH(m[c] = N(vec_max)(COLUMN_LOAD(x), m[c]));
    EACH_VEC for (int j = 0; j < VEC_LANES; j++) base[c][j] = N(origin)(m[c][j]);
}

/* USE(e) of the exponentials of ARG for each vector c of a row; with AVX2 a block of vectors at a time. */
#ifndef EACH_EXP
#ifdef FG_VEC_BLOCKS_H
#define EACH_EXP(ARG, USE) do { \
    int c_ = 0; \
    for (; c_ + FG_BLOCK <= TILE_USED; c_ += FG_BLOCK) { \
        N(vec) e_[FG_BLOCK]; \
        FG_EACH(FG_BLOCK) { const int c = c_ + j; e_[j] = ARG; } \
        N(vecs_exp_of_any)(e_); \
        FG_EACH(FG_BLOCK) { const int c = c_ + j; const N(vec) e = e_[j]; USE; } \
    } \
    for (int c = c_; c < TILE_USED; c++) { const N(vec) e = N(vec_exp)(ARG); USE; } \
} while (0)
#else
#define EACH_EXP(ARG, USE) EACH_VEC { const N(vec) e = N(vec_exp)(ARG); USE; }
#endif
/* As TILE_SUM, of such exponentials. */
#define TILE_SUM_EXP(total, ARG, USE) do { \
    EACH_VEC (total)[c] = (N(vec)){0}; \
    for (int64_t k0_ = 0; k0_ < n; k0_ += TILE_PART) { \
        N(vec) part_[TILE_VECS]; \
        int64_t k1_ = n - k0_ < TILE_PART ? n : k0_ + TILE_PART; \
        EACH_VEC part_[c] = (N(vec)){0}; \
        for (int64_t k_ = k0_; k_ < k1_; k_++) { int64_t at = k_ * inner; EACH_EXP(ARG, part_[c] += e; USE); } \
        EACH_VEC (total)[c] += part_[c]; \
    } \
} while (0)
#endif

/* lse: the logarithm of each column's sum too, where it is not NULL; then y is its gradient, 0 for what is finite beside inf */
FG_INLINE void N(softmax_columns)(const T *x, T *y, T *lse, int64_t n, int64_t inner, int w) {
    N(vec) m[TILE_VECS], base[TILE_VECS], sum[TILE_VECS], e;
    N(columns_max)(x, n, inner, w, m, base);
    TILE_SUM_EXP(sum, COLUMN_LOAD(x) - base[c], COLUMN_STORE(y, e));
    if (lse) EACH_VEC {
        e = sum[c];
        for (int j = 0; j < VEC_LANES; j++) e[j] = base[c][j] + N(row_log)(e[j]);
        N(column_store)(lse, c, w, e);
    }
    EACH_VEC for (int j = 0; j < VEC_LANES; j++) sum[c][j] = lse || base[c][j] == m[c][j] ? 1 / sum[c][j] : (T)NAN;
    TILE_EACH(COLUMN_STORE(y, COLUMN_LOAD(y) * sum[c]));
}

FG_INLINE void N(log_softmax_columns)(const T *x, T *y, int64_t n, int64_t inner, int w) {
    N(vec) m[TILE_VECS], base[TILE_VECS], sum[TILE_VECS];
    N(columns_max)(x, n, inner, w, m, base);
    TILE_SUM_EXP(sum, COLUMN_LOAD(x) - base[c], );
    EACH_VEC for (int j = 0; j < VEC_LANES; j++) sum[c][j] = base[c][j] == m[c][j] ? N(row_log)(sum[c][j]) : (T)NAN;
    TILE_EACH(COLUMN_STORE(y, (COLUMN_LOAD(x) - base[c]) - sum[c]));
}

/* y: one value a column */
FG_INLINE void N(logsumexp_columns)(const T *x, T *y, int64_t n, int64_t inner, int w) {
    N(vec) m[TILE_VECS], base[TILE_VECS], sum[TILE_VECS];
    N(columns_max)(x, n, inner, w, m, base);
    TILE_SUM_EXP(sum, COLUMN_LOAD(x) - base[c], );
    EACH_VEC for (int j = 0; j < VEC_LANES; j++) sum[c][j] = base[c][j] + N(row_log)(sum[c][j]);
    EACH_VEC N(column_store)(y, c, w, sum[c]);
}

/* A linear map: the sum of TERM(a, b) over each column, then a row of what a, b and the sum give. */
#define COLUMNS_LINEAR(name, TERM, ROW) \
FG_INLINE void N(name##_columns)(const T *a, const T *b, T *out, int64_t n, int64_t inner, int w) { \
    N(vec) sum[TILE_VECS]; \
    TILE_SUM(sum, TERM(COLUMN_LOAD(a), COLUMN_LOAD(b))); \
    for (int64_t k = 0; k < n; k++) { int64_t at = k * inner; ROW; } \
}
COLUMNS_LINEAR(softmax_tangent, COLUMN_PRODUCT, SOFTMAX_ROW)
COLUMNS_LINEAR(log_softmax_tangent, COLUMN_EXP_PRODUCT, TANGENT_ROW)
COLUMNS_LINEAR(log_softmax_cotangent, COLUMN_SECOND, COTANGENT_ROW)
#undef COLUMNS_LINEAR
