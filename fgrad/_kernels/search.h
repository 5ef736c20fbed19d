/* searchsorted: binary searches, many in step. They share their lengths, so there is no branch to mispredict and the loads overlap.
 *
 * Where queries outnumber the sorted elements, those are copied as integer keys, and a grid of equal cells between the least and the
 * greatest of them says where to begin: the elements of lower cells lie before a query, those of higher ones behind it, and only
 * as many steps are left as the fullest cell takes. */
#ifndef FG_SEARCH_H
#define FG_SEARCH_H
#include "movement.h"
#include "keys.h"

enum { FG_LANES = 256, FG_CELLS_MAX = 1 << 16 };

typedef struct {
    const void *sorted, *queries;
    void *out;
    int64_t n;
    int32_t right, wide;
    void *keys;                                           /* n, then as many that no query exceeds as a search may look past them; or NULL */
    int32_t *table;                                       /* (cells + 1): how many elements lie in lower cells */
    int64_t cells, most;                                  /* most: elements of the fullest cell */
    double lo, scale;
} FgSearchJob;

/* One turn for each halving of `len`: a[:at] lies before v, a[at + len:] does not. */
#define FG_HALVE(I, BEFORE) \
    for (I left = (I)len; left > 0; ) { \
        I half = left > 1 ? left / 2 : 1; \
        for (int l = 0; l < m; l++) at[l] += (BEFORE) ? half : 0; \
        left -= half; \
    }
#define FG_SEARCH_PUT(LIMIT) \
    if (j->wide) for (int l = 0; l < m; l++) ((int64_t *)j->out)[i + l] = fg_min64(at[l], LIMIT); \
    else for (int l = 0; l < m; l++) ((int32_t *)j->out)[i + l] = (int32_t)fg_min64(at[l], LIMIT);

/* The elements where they lie: KEY once a query and once a step. */
#define FG_SEARCH(NAME, T, K, KEY, LESS) \
static void fg_search_##NAME(const FgSearchJob *j, int64_t begin, int64_t end) { \
    const T *a = (const T *)j->sorted, *q = (const T *)j->queries; \
    int64_t at[FG_LANES], len = j->n; \
    K v[FG_LANES]; \
    for (int64_t i = begin; i < end; i += FG_LANES) { \
        int m = (int)fg_min64(FG_LANES, end - i); \
        for (int l = 0; l < m; l++) { v[l] = KEY(q[i + l]); at[l] = 0; } \
        if (j->right) FG_HALVE(int64_t, !(LESS(v[l], KEY(a[at[l] + half - 1])))) \
        else FG_HALVE(int64_t, LESS(KEY(a[at[l] + half - 1]), v[l])) \
        FG_SEARCH_PUT(len) \
    } \
}
/* The cell of a number, which must not fall where the number rises: a difference and a product keep the order; NaN is greatest. */
#define FG_GRID(NAME, T, K, F, KEY, NUMBER) \
static inline int32_t fg_cell_##NAME(T x, F lo, F scale, F top) { \
    F t = (NUMBER(x) - lo) * scale; \
    return (int32_t)(t < top ? (t > 0 ? t : 0) : top); \
} \
static int fg_grid_##NAME(FgSearchJob *j) { \
    const T *a = (const T *)j->sorted; \
    K *keys = (K *)j->keys; \
    F lo, hi, top = (F)(j->cells - 1); \
    int64_t first = 0, last = j->n - 1; \
    while (first < last && !(NUMBER(a[first]) - NUMBER(a[first]) == 0)) first++;          /* infinities and NaN lie at the ends */ \
    while (last > first && !(NUMBER(a[last]) - NUMBER(a[last]) == 0)) last--; \
    lo = NUMBER(a[first]); hi = NUMBER(a[last]); \
    F scale = (F)j->cells / (hi - lo); \
    if (!(scale > 0) || !(hi - lo <= (sizeof(F) == 4 ? 3.4e38 : 1.7e308)) || !(scale <= (sizeof(F) == 4 ? 3.4e38 : 1.7e308))) return 0; \
    j->lo = lo; j->scale = scale; \
    for (int64_t i = 0; i < j->n; i++) keys[i] = KEY(a[i]); \
    for (int64_t i = 0; i < j->n; i++) j->table[1 + fg_cell_##NAME(a[i], lo, scale, top)]++; \
    return 1; \
} \
static void fg_fill_##NAME(FgSearchJob *j, int64_t pad) { \
    K *keys = (K *)j->keys + j->n, top = (K)-1 > 0 ? (K)-1 : (K)(((uint64_t)1 << (8 * sizeof(K) - 1)) - 1); \
    for (int64_t i = 0; i < pad; i++) keys[i] = top; \
} \
static void fg_find_##NAME(const FgSearchJob *j, int64_t begin, int64_t end) { \
    const T *q = (const T *)j->queries; \
    const K *a = (const K *)j->keys; \
    const int32_t *table = j->table; \
    F lo = (F)j->lo, scale = (F)j->scale, top = (F)(j->cells - 1); \
    int32_t at[FG_LANES], len = (int32_t)j->most; \
    K v[FG_LANES]; \
    for (int64_t i = begin; i < end; i += FG_LANES) { \
        int m = (int)fg_min64(FG_LANES, end - i); \
        for (int l = 0; l < m; l++) at[l] = fg_cell_##NAME(q[i + l], lo, scale, top); \
        for (int l = 0; l < m; l++) v[l] = KEY(q[i + l]); \
        for (int l = 0; l < m; l++) at[l] = table[at[l]]; \
        if (j->right) FG_HALVE(int32_t, a[at[l] + half - 1] <= v[l]) \
        else FG_HALVE(int32_t, a[at[l] + half - 1] < v[l]) \
        FG_SEARCH_PUT(j->n) \
    } \
}
#define FG_SELF(x) (x)
#define FG_KEY_F16(x) fg_key_f16(x, 0)
#define FG_KEY_BF16(x) fg_key_bf16(x, 0)
#define FG_KEY_F32(x) fg_key_f32(x, 0)
#define FG_KEY_F64(x) fg_key_f64(x, 0)
#define FG_LESS(a, b) ((a) < (b))
#define FG_LESS_C64(a, b) (FG_KEY_F32((a).re) < FG_KEY_F32((b).re) || \
    (FG_KEY_F32((a).re) == FG_KEY_F32((b).re) && FG_KEY_F32((a).im) < FG_KEY_F32((b).im)))
#define FG_LESS_C128(a, b) (FG_KEY_F64((a).re) < FG_KEY_F64((b).re) || \
    (FG_KEY_F64((a).re) == FG_KEY_F64((b).re) && FG_KEY_F64((a).im) < FG_KEY_F64((b).im)))
static inline float fg_bits_f32(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
static inline double fg_bits_f64(uint64_t u) { double f; memcpy(&f, &u, 8); return f; }
typedef struct { uint32_t re, im; } __attribute__((may_alias)) fg_pair32;
typedef struct { uint64_t re, im; } __attribute__((may_alias)) fg_pair64;

#define FG_SEARCH_REAL(NAME, T, K, F, KEY, NUMBER) FG_SEARCH(NAME, T, K, KEY, FG_LESS) FG_GRID(NAME, T, K, F, KEY, NUMBER)
#define FG_SEARCH_INT(NAME, T, F) FG_SEARCH_REAL(NAME, T, T, F, FG_SELF, (F))
FG_SEARCH_INT(i8, int8_t, float) FG_SEARCH_INT(i16, int16_t, float) FG_SEARCH_INT(i32, int32_t, float) FG_SEARCH_INT(i64, int64_t, double)
FG_SEARCH_INT(u8, uint8_t, float) FG_SEARCH_INT(u16, uint16_t, float) FG_SEARCH_INT(u32, uint32_t, float) FG_SEARCH_INT(u64, uint64_t, double)
FG_SEARCH_REAL(f16, uint16_t, int16_t, float, FG_KEY_F16, fg_f16_to_f32)
FG_SEARCH_REAL(bf16, uint16_t, int16_t, float, FG_KEY_BF16, fg_bf16_to_f32)
FG_SEARCH_REAL(f32, uint32_t, int32_t, float, FG_KEY_F32, fg_bits_f32)
FG_SEARCH_REAL(f64, uint64_t, int64_t, double, FG_KEY_F64, fg_bits_f64)
FG_SEARCH(c64, fg_pair32, fg_pair32, FG_SELF, FG_LESS_C64)
FG_SEARCH(c128, fg_pair64, fg_pair64, FG_SELF, FG_LESS_C128)

typedef struct {
    void (*search)(const FgSearchJob *, int64_t, int64_t);
    int (*grid)(FgSearchJob *);
    void (*fill)(FgSearchJob *, int64_t);
    void (*find)(const FgSearchJob *, int64_t, int64_t);
} FgSearch;
#define FG_SEARCH_ROW(NAME) {fg_search_##NAME, fg_grid_##NAME, fg_fill_##NAME, fg_find_##NAME}
static const FgSearch fg_searches[FG_NDTYPES] = {
    FG_SEARCH_ROW(u8), FG_SEARCH_ROW(i8), FG_SEARCH_ROW(i16), FG_SEARCH_ROW(i32), FG_SEARCH_ROW(i64), FG_SEARCH_ROW(u8), FG_SEARCH_ROW(u16),
    FG_SEARCH_ROW(u32), FG_SEARCH_ROW(u64), FG_SEARCH_ROW(f16), FG_SEARCH_ROW(bf16), FG_SEARCH_ROW(f32), FG_SEARCH_ROW(f64),
    {fg_search_c64, 0, 0, 0}, {fg_search_c128, 0, 0, 0}};

enum { FG_SEARCH_GRAIN = 2048 };                          /* queries that are worth a thread */
typedef struct {
    FgSearchJob job;
    int64_t queries;                                      /* of a row */
    int32_t dtype;
} FgSearchLoop;

/* Bytes of keys and table; 0 where a grid does not pay. The keys have room for n more. */
static int64_t fg_grid_bytes(FgSearchJob *j, int dtype, int64_t queries) {
    if (!fg_searches[dtype].grid || j->n < 4 || j->n > INT32_MAX / 2 || queries < 1024 || queries < 2 * j->n) return 0;
    j->cells = 16;
    while (j->cells < 2 * j->n && j->cells < FG_CELLS_MAX) j->cells *= 2;
    return 2 * j->n * fg_itemsize(dtype) + 64 + (j->cells + 1) * (int64_t)sizeof(int32_t);
}

/* Keys and table in `space`, zeroed; 0 where the elements crowd into few cells (or are all equal, or not finite). */
static int fg_grid_build(FgSearchJob *j, int dtype, char *space) {
    int64_t below = 0;
    j->table = (int32_t *)space;
    j->keys = space + ((j->cells + 1) * (int64_t)sizeof(int32_t) + 63) / 64 * 64;
    if (!fg_searches[dtype].grid(j)) return 0;
    j->most = 0;
    for (int64_t c = 0; c <= j->cells; c++) {
        j->most = fg_max64(j->most, j->table[c]);
        below += j->table[c];
        j->table[c] = (int32_t)below;
    }
    if (j->most * j->most > j->n) return 0;               /* it would save less than half of the steps */
    fg_searches[dtype].fill(j, j->most);
    return 1;
}

static void fg_search_range(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgSearchLoop *s = (const FgSearchLoop *)ctx;
    (void)tid;
    (s->job.keys ? fg_searches[s->dtype].find : fg_searches[s->dtype].search)(&s->job, begin, end);
}

/* s for a row, without a grid; s->job is of the first. */
static FgSearchLoop fg_search_row(const FgSearchLoop *s, int64_t row) {
    FgSearchLoop r = *s;
    r.job.sorted = (const char *)s->job.sorted + row * s->job.n * fg_itemsize(s->dtype);
    r.job.queries = (const char *)s->job.queries + row * s->queries * fg_itemsize(s->dtype);
    r.job.out = (char *)s->job.out + row * s->queries * (s->job.wide ? 8 : 4);
    r.job.keys = 0;
    return r;
}

static void fg_search_rows(void *ctx, int64_t begin, int64_t end, int tid) {
    for (int64_t row = begin; row < end; row++) {
        FgSearchLoop r = fg_search_row((const FgSearchLoop *)ctx, row);
        fg_search_range(&r, 0, r.queries, tid);
    }
}
#endif
