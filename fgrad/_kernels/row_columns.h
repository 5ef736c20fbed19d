/* Work down the columns of a tile, a vector of columns at a time, for the type T: w <= FG_TILE columns of n elements, `inner` apart.
 * Included once per type. */
#ifndef TILE_VECS
#define TILE_VECS (FG_TILE * (int)sizeof(T) / FG_VEC)
#define TILE_PART 128
#define TILE_USED ((w + (int)VEC_LANES - 1) / (int)VEC_LANES)
#define EACH_VEC for (int c = 0; c < TILE_USED; c++)
/* STATEMENT for every vector c of every row, `at` from the tile's start */
#define TILE_EACH(STATEMENT) for (int64_t k_ = 0; k_ < n; k_++) { int64_t at = k_ * inner; EACH_VEC { STATEMENT; } }
/* total[c] = the sum of EXPR over the rows, in parts of 128, so that its error does not grow with n */
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
/* Rows this narrow, where there are a few, are turned into columns, a tile of them at a time; so are blocks of few columns, which come to
 * lie side by side. */
#define NARROW (256 / (int64_t)sizeof(T))
#define IS_NARROW(c) (2 * (c)->inner < FG_TILE && (c)->n <= NARROW && (c)->outer > 1 && ((c)->outer * (c)->inner >= 8 || FEW_ROWS(c, 5, 4)))
/* of what keeps one number a row, and of norms */
#define FOLDS_NARROW(c) (IS_NARROW(c) || FEW_ROWS(c, 3, 8))
#define FEW_ROWS(c, least, most) ((c)->inner == 1 && (c)->outer >= least && (c)->n <= most)
/* Where rows go so, threads share whole tiles: the code of a tile's width may round its sums in a way of its own. */
#define WHOLE_TILES(narrow) do { if (narrow) { begin = fg_tile_start(c, begin); end = fg_tile_start(c, end); } } while (0)
#define TILE_ROWS \
    int64_t rows = group = end - u < FG_TILE / c->inner ? end - u : FG_TILE / c->inner; \
    int w = (int)(rows * c->inner)
#define TO_COLUMNS(columns, x) N(to_columns)(columns, x, rows, n, c->inner)
#define TO_ROWS(y, columns) N(to_rows)(y, columns, rows, n, c->inner)
/* The tile's code once more for a full width, and for one of a single vector, which the compiler then knows. */
#define BY_WIDTH(name, step, ...) do { \
    if (w == FG_TILE) N(name)(__VA_ARGS__, n, step, FG_TILE); \
    else if (w > 0 && w <= (int)VEC_LANES) N(name)(__VA_ARGS__, n, step, w); \
    else N(name)(__VA_ARGS__, n, step, w); \
} while (0)
#include "vec_part.h"
#ifdef FG_PART_BYTES
#define COLUMN_LOAD_PART(p, left) (N(vec))fg_load_bytes(p, (left) * (int)sizeof(T))
#define COLUMN_STORE_PART(p, left, v) fg_store_bytes(p, (left) * (int)sizeof(T), (__m256)(v))
#else
#define COLUMN_LOAD_PART(p, left) N(vec_load_part)(p, left)
#define COLUMN_STORE_PART(p, left, v) N(vec_store_part)(p, left, v)
#endif
#endif

static inline void N(to_columns)(T *columns, const T *x, int64_t rows, int64_t n, int64_t inner) {
    if (inner == 1) { (sizeof(T) == 4 ? fg_columns_4 : fg_columns_8)(columns, FG_TILE, x, rows, n); return; }
    int64_t item = sizeof(T), bytes = inner * item;
    for (int64_t k = 0; k < rows; k++)
        fg_copy_rows((char *)(columns + k * inner), (const char *)(x + k * n * inner), n, bytes, bytes, FG_TILE * item);
}
static inline void N(to_rows)(T *y, const T *columns, int64_t rows, int64_t n, int64_t inner) {
    if (inner == 1) { (sizeof(T) == 4 ? fg_rows_4 : fg_rows_8)(y, columns, FG_TILE, rows, n); return; }
    int64_t item = sizeof(T), bytes = inner * item;
    for (int64_t k = 0; k < rows; k++)
        fg_copy_rows((char *)(y + k * n * inner), (const char *)(columns + k * inner), n, bytes, FG_TILE * item, bytes);
}

/* The tile of columns of unit u: offset of its first element, and its width. */
static inline int64_t N(tile)(const FgRows *c, int64_t u, int *w) {
    int64_t j = u % c->tiles * FG_TILE;
    *w = (int)(c->inner - j < FG_TILE ? c->inner - j : FG_TILE);
    return u / c->tiles * c->n * c->inner + j;
}

/* Vector c of a row of w columns; the last one may be a part. */
FG_INLINE N(vec) N(column_load)(const T *p, int c, int w) {
    int left = w - c * (int)VEC_LANES;
    p += c * VEC_LANES;
    if (left >= VEC_LANES) return *(const N(vec_at) *)p;
    return COLUMN_LOAD_PART(p, left);
}
FG_INLINE void N(column_store)(T *p, int c, int w, N(vec) v) {
    int left = w - c * (int)VEC_LANES;
    p += c * VEC_LANES;
    if (left >= VEC_LANES) *(N(vec_at) *)p = v;
    else COLUMN_STORE_PART(p, left, v);
}
