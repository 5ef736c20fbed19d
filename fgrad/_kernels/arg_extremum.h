/* The position of a maximum or minimum; the input is seen as in cumulative.h.
 * Numbers are compared as they are, 16-bit floats by integer keys; a float beats another if it is first in the order
 * or NaN where the other is not.  The positions of numbers (nanargmax) leave NaN out; where there is no number, it is -1. */
#ifndef FG_ARG_EXTREMUM_H
#define FG_ARG_EXTREMUM_H
#include "cumulative.h"
#include "extremum.h"
#include "arg_rows.h"
#include "fetch.h"
#include "copy_rows.h"

#if FG_VEC == 32
enum { FG_ARG_STRIP = 128 };
#else
enum { FG_ARG_STRIP = 64 };
#endif
enum { FG_ARG_BLOCK = 512, FG_ARG_SEGMENT = 65536, FG_ARG_ROWS = 4, FG_ARG_NEAR = 32768, FG_ARG_LEAST = 256 };
/* STRIP: bytes of columns that registers hold at a time, two or four vectors whose comparisons do not wait for each other.
 * NEAR: bytes that the first cache has at hand, few strips one by one. LEAST: rows of few columns from which on joining those that lie side by side is worth it. */

#define FG_SAME_KEY(v) (v)
#define FG_BEATS_MAX(v, b) ((v) > (b))
#define FG_BEATS_MIN(v, b) ((v) < (b))
#define FG_EQUALS(v, b) ((v) == (b))
#define FG_FLOAT_BEATS_MAX(v, b) (!((v) <= (b)) & ((b) == (b)))
#define FG_FLOAT_BEATS_MIN(v, b) (!((v) >= (b)) & ((b) == (b)))
#define FG_NUMBER_BEATS_MAX(v, b) (!((v) <= (b)) & ((v) == (v)))
#define FG_NUMBER_BEATS_MIN(v, b) (!((v) >= (b)) & ((v) == (v)))
#define FG_NOT_NONE(b) 0
#define FG_IS_NAN(b) ((b) != (b))
#define FG_FLOAT_EQUALS(v, b) (((v) == (b)) | (((v) != (v)) & ((b) != (b))))

typedef struct {
    int64_t (*row)(const void *src, int64_t n);
    void (*tile)(const void *src, int64_t n, int64_t inner, int64_t width, int32_t *at);
    int (*before)(const void *src, int64_t i, int64_t j);      /* does item j beat item i? */
} FgArgOps;

/* What finds a row's extremum, or its block, and those of columns. */
#define FG_NO_FINDER(s, n, best, where) 0
#define FG_NO_COLUMNS(s, n, inner, width, best, where) 0
#if FG_ARG_LANES
#define FG_FINDER(NAME) fg_arg_find_##NAME
#define FG_COLUMN_FINDER(NAME) fg_arg_columns_##NAME
#else
#define FG_FINDER(NAME) FG_NO_FINDER
#define FG_COLUMN_FINDER(NAME) FG_NO_COLUMNS
#endif
/* K is the type that is compared.  Rows: extrema of blocks, TOP(b, m), then one search in the winning block. */
#define FG_ARG(NAME, T, K, KEY, BEATS, EQUALS, TOP) FG_ARG_OF(NAME, T, K, KEY, BEATS, EQUALS, TOP, FG_NOT_NONE, FG_NO_FINDER, FG_NO_COLUMNS)
#define FG_ARG_OF(NAME, T, K, KEY, BEATS, EQUALS, TOP, NONE, FIND, COLUMNS) \
static int64_t fg_arg_row_##NAME(const void *src, int64_t n) { \
    const T *s = (const T *)src; \
    int64_t where = 0; \
    K best = (K)KEY(s[0]); \
    const int found = FIND(s, n, &best, &where); \
    if (found == 2) return where; \
    if (!found) for (int64_t first = 0; first < n; first += FG_ARG_BLOCK) { \
        K top = TOP(T, K, KEY, BEATS, s + first, fg_min64(FG_ARG_BLOCK, n - first)); \
        if (BEATS(top, best)) { best = top; where = first; } \
    } \
    if (NONE(best)) return -1; \
    while (n >= 64) { \
        int32_t at = 64; \
        if (where + 64 > n) where = n - 64;         /* overlaps its neighbour, where it is not */ \
        _Pragma("omp simd reduction(min:at)") \
        for (int32_t j = 0; j < 64; j++) { K v = (K)KEY(s[where + j]); int32_t k = EQUALS(v, best) ? j : 64; at = k < at ? k : at; } \
        if (at < 64) return where + at; \
        where += 64; \
    } \
    for (; ; where++) { K v = (K)KEY(s[where]); if (EQUALS(v, best)) return where; } \
} \
static void fg_arg_tile_##NAME(const void *src, int64_t n, int64_t inner, int64_t width, int32_t *at) { \
    enum { L = FG_ARG_STRIP / sizeof(K) }; \
    const T *s = (const T *)src; \
    typedef __typeof__(__builtin_choose_expr(sizeof(K) == 8, (int64_t)0, (int32_t)0)) I; \
    K best[FG_TILE]; I where[FG_TILE]; \
    int64_t first = width < L ? 0 : width; \
    const int found = COLUMNS(s, n, inner, width, best, where); \
    _Pragma("omp simd") for (int64_t j = 0; j < (found ? 0 : first); j++) { best[j] = (K)KEY(s[j]); where[j] = 0; } \
    const int64_t rows = (width < 4 * L || L * sizeof(K) > 64) && n * inner * (int64_t)sizeof(T) <= FG_ARG_NEAR ? n : FG_ARG_ROWS;      /* four strips wait for each other less */ \
    for (int64_t r = found ? n : 1; r < n; r += rows) for (int64_t strip = 0; strip < first; strip += L) {      /* of a block: in registers */ \
        int64_t c = fg_min64(strip, width - L);         /* the last overlaps the one before */ \
        K b[L]; I w[L]; \
        memcpy(b, best + c, sizeof b); memcpy(w, where + c, sizeof w); \
        for (int64_t k = r; k < fg_min64(n, r + rows); k++) { \
            const T *sk = s + k * inner + c; \
            __builtin_prefetch((const char *)sk + FG_ARG_ROWS * inner * (int64_t)sizeof(T)); \
            _Pragma("omp simd") for (int j = 0; j < L; j++) { \
                K v = (K)KEY(sk[j]); \
                int take = BEATS(v, b[j]); \
                b[j] = take ? v : b[j]; w[j] = take ? (I)k : w[j]; \
            } \
        } \
        memcpy(best + c, b, sizeof b); memcpy(where + c, w, sizeof w); \
    } \
    const int64_t whole = width < L && width == inner ? (n * inner - L) / inner + 1 : 0;     /* narrow rows: a vector reads on into those that follow */ \
    if (n * inner >= L && whole > 1) { \
        K b[L]; I w[L]; T end[L] = {0}; \
        _Pragma("omp simd") for (int j = 0; j < L; j++) { b[j] = (K)KEY(s[j]); w[j] = 0; } \
        for (int64_t k = 1; k < n; k++) { \
            const T *sk = s + k * inner; \
            if (k >= whole) { memcpy(end, sk, width * sizeof(T)); sk = end; } \
            _Pragma("omp simd") for (int j = 0; j < L; j++) { \
                K v = (K)KEY(sk[j]); \
                int take = BEATS(v, b[j]); \
                b[j] = take ? v : b[j]; w[j] = take ? (I)k : w[j]; \
            } \
        } \
        memcpy(best, b, sizeof b); memcpy(where, w, sizeof w); \
        first = width; \
    } \
    for (int64_t j = 0; j < first; j++) at[j] = NONE(best[j]) ? -1 : (int32_t)where[j]; \
    for (int64_t j = first; j < width; j++) { \
        K best = (K)KEY(s[j]); \
        at[j] = 0; \
        for (int64_t k = 1; k < n; k++) { K v = (K)KEY(s[k * inner + j]); if (BEATS(v, best)) { best = v; at[j] = (int32_t)k; } } \
        if (NONE(best)) at[j] = -1; \
    } \
} \
static int fg_arg_before_##NAME(const void *src, int64_t i, int64_t j) { \
    K b = (K)KEY(((const T *)src)[i]), v = (K)KEY(((const T *)src)[j]); \
    return BEATS(v, b); \
}
#define FG_TOP(T, K, KEY, BEATS, s, n) \
    ({ const T *b_ = (s); int64_t n_ = (n); K top_ = (K)KEY(b_[0]); \
       for (int64_t j = 0; j < n_; j++) { K v_ = (K)KEY(b_[j]); top_ = BEATS(v_, top_) ? v_ : top_; } top_; })
#define FG_TOP_MAX_F32(T, K, KEY, BEATS, s, n) fg_row_max_f32(s, n)
#define FG_TOP_MIN_F32(T, K, KEY, BEATS, s, n) fg_row_min_f32(s, n)
#define FG_TOP_MAX_F64(T, K, KEY, BEATS, s, n) fg_row_max_f64(s, n)
#define FG_TOP_MIN_F64(T, K, KEY, BEATS, s, n) fg_row_min_f64(s, n)
#define FG_ARGS(NAME, T, K, KEY) \
    FG_ARG(NAME##_min, T, K, KEY, FG_BEATS_MIN, FG_EQUALS, FG_TOP) FG_ARG(NAME##_max, T, K, KEY, FG_BEATS_MAX, FG_EQUALS, FG_TOP)
#define FG_ARG_INT(NAME, T) FG_ARGS(NAME, T, T, FG_SAME_KEY)
#define FG_ARG_BYTE(NAME, T) \
    FG_ARG_OF(NAME##_min, T, T, FG_SAME_KEY, FG_BEATS_MIN, FG_EQUALS, FG_TOP, FG_NOT_NONE, FG_NO_FINDER, FG_COLUMN_FINDER(NAME##_min)) \
    FG_ARG_OF(NAME##_max, T, T, FG_SAME_KEY, FG_BEATS_MAX, FG_EQUALS, FG_TOP, FG_NOT_NONE, FG_NO_FINDER, FG_COLUMN_FINDER(NAME##_max))
#define FG_ARG_FLOAT(NAME, T, F) \
    FG_ARG_OF(NAME##_min, T, T, FG_SAME_KEY, FG_FLOAT_BEATS_MIN, FG_FLOAT_EQUALS, FG_TOP_MIN_##F, FG_NOT_NONE, FG_FINDER(NAME##_min), FG_COLUMN_FINDER(NAME##_min)) \
    FG_ARG_OF(NAME##_max, T, T, FG_SAME_KEY, FG_FLOAT_BEATS_MAX, FG_FLOAT_EQUALS, FG_TOP_MAX_##F, FG_NOT_NONE, FG_FINDER(NAME##_max), FG_COLUMN_FINDER(NAME##_max))
FG_ARG_BYTE(i8, int8_t) FG_ARG_INT(i16, int16_t) FG_ARG_INT(i32, int32_t) FG_ARG_INT(i64, int64_t)
FG_ARG_BYTE(u8, uint8_t) FG_ARG_INT(u16, uint16_t) FG_ARG_INT(u32, uint32_t) FG_ARG_INT(u64, uint64_t)
FG_ARG_FLOAT(f32, float, F32) FG_ARG_FLOAT(f64, double, F64)
#define FG_TOP_FMAX_F32(T, K, KEY, BEATS, s, n) fg_row_fmax_f32(s, n)
#define FG_TOP_FMIN_F32(T, K, KEY, BEATS, s, n) fg_row_fmin_f32(s, n)
#define FG_TOP_FMAX_F64(T, K, KEY, BEATS, s, n) fg_row_fmax_f64(s, n)
#define FG_TOP_FMIN_F64(T, K, KEY, BEATS, s, n) fg_row_fmin_f64(s, n)
#define FG_ARG_NUMBER(NAME, T, F) \
    FG_ARG_OF(NAME##_min, T, T, FG_SAME_KEY, FG_NUMBER_BEATS_MIN, FG_FLOAT_EQUALS, FG_TOP_FMIN_##F, FG_IS_NAN, FG_NO_FINDER, FG_NO_COLUMNS) \
    FG_ARG_OF(NAME##_max, T, T, FG_SAME_KEY, FG_NUMBER_BEATS_MAX, FG_FLOAT_EQUALS, FG_TOP_FMAX_##F, FG_IS_NAN, FG_NO_FINDER, FG_NO_COLUMNS)
FG_ARG_NUMBER(n32, float, F32) FG_ARG_NUMBER(n64, double, F64)
/* keys order NaN last; turned ones, for the minimum, do so too */
#define FG_KEY_F16_MAX(v) fg_key_f16(v, 0)
#define FG_KEY_F16_MIN(v) fg_key_f16(v, 1)
#define FG_KEY_BF16_MAX(v) fg_key_bf16(v, 0)
#define FG_KEY_BF16_MIN(v) fg_key_bf16(v, 1)
FG_ARG(f16_max, uint16_t, int16_t, FG_KEY_F16_MAX, FG_BEATS_MAX, FG_EQUALS, FG_TOP)
FG_ARG(f16_min, uint16_t, int16_t, FG_KEY_F16_MIN, FG_BEATS_MAX, FG_EQUALS, FG_TOP)
FG_ARG(bf16_max, uint16_t, int16_t, FG_KEY_BF16_MAX, FG_BEATS_MAX, FG_EQUALS, FG_TOP)
FG_ARG(bf16_min, uint16_t, int16_t, FG_KEY_BF16_MIN, FG_BEATS_MAX, FG_EQUALS, FG_TOP)

/* Complex numbers are ordered by real, then imaginary part. */
#define FG_ARG_COMPLEX(NAME, T, LESS) \
static int fg_arg_before_##NAME(const void *src, int64_t i, int64_t j) { \
    T b = ((const T *)src)[i], v = ((const T *)src)[j]; \
    if (b.re != b.re || b.im != b.im) return 0; \
    return v.re != v.re || v.im != v.im || (v.re == b.re ? b.im LESS v.im : b.re LESS v.re); \
} \
static int64_t fg_arg_row_##NAME(const void *src, int64_t n) { \
    int64_t where = 0; \
    for (int64_t k = 1; k < n; k++) if (fg_arg_before_##NAME(src, where, k)) where = k; \
    return where; \
} \
static void fg_arg_tile_##NAME(const void *src, int64_t n, int64_t inner, int64_t width, int32_t *at) { \
    for (int64_t j = 0; j < width; j++) { \
        at[j] = 0; \
        for (int64_t k = 1; k < n; k++) if (fg_arg_before_##NAME(src, at[j] * inner + j, k * inner + j)) at[j] = (int32_t)k; \
    } \
}
FG_ARG_COMPLEX(c64_max, fg_c64, <) FG_ARG_COMPLEX(c64_min, fg_c64, >)
FG_ARG_COMPLEX(c128_max, fg_c128, <) FG_ARG_COMPLEX(c128_min, fg_c128, >)

#define FG_ARG_OPS(NAME) {{fg_arg_row_##NAME##_min, fg_arg_tile_##NAME##_min, fg_arg_before_##NAME##_min}, \
                          {fg_arg_row_##NAME##_max, fg_arg_tile_##NAME##_max, fg_arg_before_##NAME##_max}}
static const FgArgOps fg_arg_numbers[2][2] = {FG_ARG_OPS(n32), FG_ARG_OPS(n64)};
static const FgArgOps fg_arg_ops[FG_NDTYPES][2] = {
    FG_ARG_OPS(u8), FG_ARG_OPS(i8), FG_ARG_OPS(i16), FG_ARG_OPS(i32), FG_ARG_OPS(i64), FG_ARG_OPS(u8), FG_ARG_OPS(u16), FG_ARG_OPS(u32),
    FG_ARG_OPS(u64), FG_ARG_OPS(f16), FG_ARG_OPS(bf16), FG_ARG_OPS(f32), FG_ARG_OPS(f64), FG_ARG_OPS(c64), FG_ARG_OPS(c128)};

typedef struct {
    const FgAxisPlan *plan; const FgArgOps *ops;
    const char *src; char *out;
    int64_t *part; int64_t segments, length; int32_t wide;
} FgArgJob;

/* How many rows go side by side. */
static inline int64_t fg_arg_side(int64_t inner) { return inner < 64 ? (64 + inner - 1) / inner : 1; }
/* Rows of a segment where columns are few and long; 0 where they are not. */
static inline int64_t fg_arg_length(const FgAxisPlan *p) {
    int64_t side = fg_arg_side(p->inner), rows = fg_max64(fg_max64(FG_ARG_SEGMENT / p->inner, p->n / 16), 1) / side * side;
    if (p->inner >= 64 ? p->outer * p->inner >= 3 * FG_TILE || p->n * p->inner < 2 * FG_ARG_SEGMENT : p->n < FG_ARG_LEAST) return 0;
    return fg_max64(rows, 8 * side);
}

static inline void fg_arg_store(const FgArgJob *job, int64_t i, int64_t v) {
    if (job->wide) ((int64_t *)job->out)[i] = v;
    else ((int32_t *)job->out)[i] = (int32_t)v;
}
/* Positions in `width` columns, put from index i of the result on. */
static inline void fg_arg_columns(const FgArgJob *job, const void *src, int64_t n, int64_t inner, int64_t width, int64_t i) {
    int32_t at[FG_TILE];
    if (!job->wide) { job->ops->tile(src, n, inner, width, (int32_t *)job->out + i); return; }
    job->ops->tile(src, n, inner, width, at);
    for (int64_t j = 0; j < width; j++) ((int64_t *)job->out)[i + j] = at[j];
}
/* Narrow rows, turned into columns, and blocks of few columns, put side by side. */
static int fg_arg_is_narrow(const FgAxisPlan *p) {
    return p->n > 1 && p->n * p->item <= FG_TURN_BYTES && p->item <= 8 && (p->inner == 1 || (p->outer > 1 && 2 * p->inner <= FG_TURN_COLUMNS));
}
static int64_t fg_arg_narrow(const FgArgJob *job, int64_t begin, int64_t end) {
    const FgAxisPlan *p = job->plan;
    char columns[FG_TURN_COLUMNS * FG_TURN_BYTES];
    const int64_t room = FG_TURN_COLUMNS * FG_TURN_BYTES / (p->n * p->item);
    const int64_t most = FG_ARG_LANES && p->inner == 1 && p->item <= 4 && room >= FG_TILE ? FG_TILE : FG_TURN_COLUMNS;
    for (int64_t inner = p->inner, bytes = inner * p->item, rows; begin < end; begin += rows) {
        rows = fg_min64(most / inner, end - begin);
        const char *src = job->src + begin * p->n * bytes;
        if (inner == 1)
            (p->item == 1 ? fg_columns_1 : p->item == 2 ? fg_columns_2 : p->item == 4 ? fg_columns_4 : fg_columns_8)
                (columns, most, src, rows, p->n);
        else
            for (int64_t k = 0; k < rows; k++)
                fg_copy_rows(columns + k * bytes, src + k * p->n * bytes, p->n, bytes, bytes, most * p->item);
        fg_arg_columns(job, columns, p->n, most, rows * inner, begin * inner);
    }
    return end;
}
static void fg_arg_blocks(void *ctx, int64_t begin, int64_t end, int tid) {
    (void)tid;
    fg_arg_narrow((const FgArgJob *)ctx, begin, end);
}
static void fg_arg_rows(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgArgJob *job = (const FgArgJob *)ctx;
    const FgAxisPlan *p = job->plan;
    (void)tid;
    if (fg_arg_is_narrow(p)) begin = fg_arg_narrow(job, begin, end);
    const int64_t bytes = p->n * p->item;
    const int fetches = fg_fetches(bytes, p->outer * bytes);
    for (int64_t r = begin; r < end; r++) {
        const char *row = job->src + r * bytes;
        if (fetches) fg_fetch(row + bytes, bytes);
        fg_arg_store(job, r, job->ops->row(row, p->n));
    }
}
/* The better of rows a and b of column j, the first of equals; -1 is none. */
static int64_t fg_arg_better(const FgArgJob *job, const char *src, int64_t j, int64_t a, int64_t b) {
    int64_t inner = job->plan->inner, x = a * inner + j, y = b * inner + j;
    if (a < 0 || b < 0) return a < 0 ? b : a;
    return job->ops->before(src, x, y) || (b < a && !job->ops->before(src, y, x)) ? b : a;
}
/* Few columns: several rows side by side are one row of more columns, and long columns are cut in segments. */
static void fg_arg_pieces(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgArgJob *job = (const FgArgJob *)ctx;
    const FgAxisPlan *p = job->plan;
    int64_t inner = p->inner, side = fg_arg_side(inner);
    (void)tid;
    for (int64_t u = begin; u < end; u++) {
        int64_t r = u / job->segments, first = u % job->segments * job->length, n = fg_min64(job->length, p->n - first);
        const char *src = job->src + r * p->n * inner * p->item, *at = src + first * inner * p->item;
        int64_t *best = job->part + u * inner, whole = n / side;
        int32_t found[FG_TILE];
        for (int64_t j = 0; j < inner; j++) best[j] = -1;
        for (int64_t c = 0; c < inner * side && whole; c += FG_TILE) {
            int64_t width = fg_min64(FG_TILE, inner * side - c);
            job->ops->tile(at + c * p->item, whole, inner * side, width, found);
            for (int64_t i = 0; i < width; i++) {
                int64_t row = found[i] < 0 ? -1 : first + found[i] * side + (c + i) / inner, j = (c + i) % inner;
                best[j] = fg_arg_better(job, src, j, best[j], row);
            }
        }
        for (int64_t k = whole * side; k < n; k++) {
            for (int64_t c = 0; c < inner; c += FG_TILE) {
                job->ops->tile(at + (k * inner + c) * p->item, 1, inner, fg_min64(FG_TILE, inner - c), found);
                for (int64_t j = c; j < fg_min64(inner, c + FG_TILE); j++)
                    best[j] = fg_arg_better(job, src, j, best[j], found[j - c] < 0 ? -1 : first + k);
            }
        }
    }
}
static void fg_arg_join(const FgArgJob *job) {
    const FgAxisPlan *p = job->plan;
    for (int64_t r = 0; r < p->outer; r++)
        for (int64_t j = 0; j < p->inner; j++) {
            const int64_t *best = job->part + r * job->segments * p->inner + j;
            const char *src = job->src + r * p->n * p->inner * p->item;
            int64_t where = -1;
            for (int64_t b = 0; b < job->segments; b++) where = fg_arg_better(job, src, j, where, best[b * p->inner]);
            fg_arg_store(job, r * p->inner + j, where);
        }
}
/* Segments of long rows, then one comparison per segment. */
static void fg_arg_segments(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgArgJob *job = (const FgArgJob *)ctx;
    const FgAxisPlan *p = job->plan;
    (void)tid;
    for (int64_t u = begin; u < end; u++) {
        int64_t k = u % job->segments * FG_ARG_SEGMENT, r = u / job->segments;
        int64_t at = job->ops->row(job->src + (r * p->n + k) * p->item, fg_min64(FG_ARG_SEGMENT, p->n - k));
        job->part[u] = at < 0 ? -1 : k + at;
    }
}
static void fg_arg_tiles(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgArgJob *job = (const FgArgJob *)ctx;
    const FgAxisPlan *p = job->plan;
    int64_t tiles = (p->inner + FG_TILE - 1) / FG_TILE;
    (void)tid;
    for (int64_t u = begin; u < end; u++) {
        int64_t r = u / tiles, j = u % tiles * FG_TILE, w = fg_min64(FG_TILE, p->inner - j);
        fg_arg_columns(job, job->src + (r * p->n * p->inner + j) * p->item, p->n, p->inner, w, r * p->inner + j);
    }
}
#endif
