/* Running sums, products, maxima, minima and log-sum-exps.
 * The input is seen as (outer, n, inner), contiguous; inner == 1 is a row each, otherwise tiles of columns. */
#ifndef FG_CUMULATIVE_H
#define FG_CUMULATIVE_H
#include <math.h>
#include "keys.h"
#include "movement.h"
#include "narrow.h"

enum { FG_SUM, FG_PROD, FG_CUMMAX, FG_CUMMIN, FG_LOGSUMEXP, FG_NCUM };
enum { FG_TILE = 256, FG_SCAN_BLOCK = 16384, FG_SCAN_LONG = 131072, FG_TURN_COLUMNS = 64, FG_TURN_BYTES = 256 };     /* rows to turn into columns */

typedef struct { char bytes[16]; } __attribute__((aligned(16))) FgCarry;
typedef struct {
    void (*row)(const void *src, void *dst, int64_t n, int reverse, FgCarry *carry);   /* dst NULL: only the total */
    void (*tile)(const void *src, void *dst, int64_t n, int64_t inner, int64_t width, int reverse);
    void (*start)(FgCarry *carry);
    void (*combine)(FgCarry *carry, const FgCarry *next);
    void (*eight)(const void *src, void *dst, int64_t n, int reverse);                 /* of eight rows side by side, or NULL */
    int32_t ordered;                                                                   /* rows go in their order, whatever their length */
} FgScanOps;

typedef struct { FgCopyPlan copy; int32_t contiguous, reverse; int64_t outer, n, inner, item; const FgScanOps *ops; } FgAxisPlan;

#include "scan_rows.h"

#define FG_SAME(v) (v)
#define FG_ADD_OP(a, b) ((a) + (b))
#define FG_MUL_OP(a, b) ((a) * (b))
#define FG_MAX_OP(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define FG_MIN_OP(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#define FG_IMAX_OP(a, b) ((a) > (b) ? (a) : (b))
#define FG_IMIN_OP(a, b) ((a) < (b) ? (a) : (b))

/* Pieces of rows that lie apart: what fetches memory ahead by itself stops at their ends. */
#define FG_FETCH_NEXT(s, d, step, width) for (int64_t j = 0; j < (width); j += 64 / (int64_t)sizeof *(s)) { \
    __builtin_prefetch((const char *)(s) + (2 * (step) + j) * (int64_t)sizeof *(s)); \
    __builtin_prefetch((const char *)(d) + (2 * (step) + j) * (int64_t)sizeof *(d), 1); \
}
/* T is stored, A accumulates.  VROW handles as much of a row as it can in vectors and moves k on (scan_rows.h). */
#define FG_SCAN(NAME, T, A, LOAD, STORE, INIT, OP, VROW) \
FG_SCAN_ROW(NAME, T, A, LOAD, STORE, OP, VROW) FG_SCAN_TILE(NAME, T, A, LOAD, STORE, INIT, OP) FG_SCAN_ENDS(NAME, A, INIT, OP)
#define FG_SCAN_ROW(NAME, T, A, LOAD, STORE, OP, ...) \
static void fg_row_##NAME(const void *src, void *dst, int64_t n, int reverse, FgCarry *carry) { \
    const T *s = (const T *)src; T *d = (T *)dst; \
    A acc; \
    int64_t k = 0, step = reverse ? -1 : 1; \
    memcpy(&acc, carry, sizeof acc); \
    if (reverse) s += n - 1; \
    if (reverse && d) d += n - 1; \
    __VA_ARGS__ \
    if (d) for (; k < n; k++) { A v = LOAD(s[k * step]); acc = OP(acc, v); d[k * step] = STORE(acc); } \
    else for (; k < n; k++) { A v = LOAD(s[k * step]); acc = OP(acc, v); } \
    memcpy(carry, &acc, sizeof acc); \
}
/* columns that stay in registers: through memory, a row would wait for the one before */
#define FG_SCAN_FEW(T, A, LOAD, STORE, INIT, OP, W) { \
    A few[W]; \
    for (int j = 0; j < W; j++) few[j] = INIT; \
    for (int64_t k = 0; k < n; k++) { \
        int64_t at = (reverse ? n - 1 - k : k) * inner; \
        for (int j = 0; j < W; j++) { A v = LOAD(s[at + j]), r = OP(few[j], v); few[j] = r; d[at + j] = STORE(r); } \
    } \
    return; \
}
#define FG_SCAN_TILE(NAME, T, A, LOAD, STORE, INIT, OP) \
static void fg_tile_scan_##NAME(const void *src, void *dst, int64_t n, int64_t inner, int64_t width, int reverse) { \
    const T *s = (const T *)src; T *d = (T *)dst; \
    A acc[FG_TILE]; \
    if (width == 2) FG_SCAN_FEW(T, A, LOAD, STORE, INIT, OP, 2) \
    if (width == 3) FG_SCAN_FEW(T, A, LOAD, STORE, INIT, OP, 3) \
    if (width == 4) FG_SCAN_FEW(T, A, LOAD, STORE, INIT, OP, 4) \
    for (int64_t j = 0; j < width; j++) acc[j] = INIT; \
    for (int64_t k = 0; k < n; k++) { \
        int64_t at = (reverse ? n - 1 - k : k) * inner; \
        const T *sk = s + at; T *dk = d + at; \
        if (n > 16) FG_FETCH_NEXT(sk, dk, reverse ? -inner : inner, width) \
        for (int64_t j = 0; j < width; j++) { A v = LOAD(sk[j]), r = OP(acc[j], v); acc[j] = r; dk[j] = STORE(r); } \
    } \
}
/* Rows one number after the other, each of which waits for the one before: eight at once, in the time of one. */
#define FG_SCAN_EIGHT(NAME, T, INIT, OP) \
static void fg_eight_##NAME(const void *src, void *dst, int64_t n, int reverse) { \
    const T *s = (const T *)src; T *d = (T *)dst, acc[8]; \
    for (int j = 0; j < 8; j++) acc[j] = INIT; \
    for (int64_t k = 0; k < n; k++) { \
        const int64_t at = reverse ? n - 1 - k : k; \
        _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) d[at + j * n] = acc[j] = OP(acc[j], s[at + j * n]); \
    } \
}
#define FG_SCAN_ENDS(NAME, A, INIT, OP) \
static void fg_start_##NAME(FgCarry *carry) { A a = INIT; memcpy(carry, &a, sizeof a); } \
static void fg_combine_##NAME(FgCarry *carry, const FgCarry *next) { \
    A a, b; \
    memcpy(&a, carry, sizeof a); memcpy(&b, next, sizeof b); \
    a = OP(a, b); \
    memcpy(carry, &a, sizeof a); \
}

#define FG_VROW_float(NEUTRAL, VOP, OP) FG_VROW(float, int32_t, NEUTRAL, VOP, OP)
#define FG_VROW_double(NEUTRAL, VOP, OP) FG_VROW_WIDE(double, int64_t, NEUTRAL, VOP, OP)
#define FG_VROW_int32_t(NEUTRAL, VOP, OP) FG_VROW(int32_t, int32_t, NEUTRAL, VOP, OP)
#define FG_VROW_int64_t(NEUTRAL, VOP, OP) FG_VROW_WIDE(int64_t, int64_t, NEUTRAL, VOP, OP)
#define FG_VROW_uint32_t(NEUTRAL, VOP, OP) FG_VROW(uint32_t, uint32_t, NEUTRAL, VOP, OP)
#define FG_VROW_uint64_t(NEUTRAL, VOP, OP) FG_VROW_WIDE(uint64_t, uint64_t, NEUTRAL, VOP, OP)
#define FG_VROW_NO(NEUTRAL, VOP, OP)

#define FG_SCANS_INT(NAME, T, LOW, HIGH, VROW) \
FG_SCAN(NAME##_sum, T, T, FG_SAME, FG_SAME, 0, FG_ADD_OP, VROW(0, FG_VADD, FG_ADD_OP)) \
FG_SCAN(NAME##_prod, T, T, FG_SAME, FG_SAME, 1, FG_MUL_OP, VROW(1, FG_VMUL, FG_MUL_OP)) \
FG_SCAN(NAME##_max, T, T, FG_SAME, FG_SAME, LOW, FG_IMAX_OP, VROW(LOW, FG_VMAX, FG_IMAX_OP)) \
FG_SCAN(NAME##_min, T, T, FG_SAME, FG_SAME, HIGH, FG_IMIN_OP, VROW(HIGH, FG_VMIN, FG_IMIN_OP))
#define FG_SCANS_FLOAT(NAME, T, STORE, VROW) \
FG_SCAN(NAME##_sum, T, T, FG_SAME, STORE, -0.0f, FG_ADD_OP, VROW(-0.0f, FG_VADD, FG_ADD_OP)) \
FG_SCAN(NAME##_prod, T, T, FG_SAME, STORE, 1, FG_MUL_OP, ) /* in their order: parts may overflow where the whole does not */ \
FG_SCAN_EIGHT(NAME##_sum, T, -0.0f, FG_ADD_OP) FG_SCAN_EIGHT(NAME##_prod, T, 1, FG_MUL_OP) \
FG_SCAN(NAME##_max, T, T, FG_SAME, STORE, -INFINITY, FG_MAX_OP, VROW(-INFINITY, FG_VMAX, FG_MAX_OP)) \
FG_SCAN(NAME##_min, T, T, FG_SAME, STORE, INFINITY, FG_MIN_OP, VROW(INFINITY, FG_VMIN, FG_MIN_OP)) \
FG_LSE_TILE(NAME##_lse, T, FG_SAME, STORE) FG_SCAN_ENDS(NAME##_lse, double, -INFINITY, fg_logaddexp)
#define FG_SCAN_HALF(NAME, KIND, DTYPE, UP, INIT, OP) \
FG_HALF_ROW(NAME##_##KIND, DTYPE, UP, fg_row_f32_##KIND) FG_HALF_TILE(NAME##_##KIND, DTYPE, UP, INIT, OP) \
FG_SCAN_ENDS(NAME##_##KIND, float, INIT, OP)
#define FG_SCANS_HALF(NAME, DTYPE, UP, LOAD, STORE) \
FG_SCAN_HALF(NAME, sum, DTYPE, UP, -0.0f, FG_ADD_OP) FG_SCAN_HALF(NAME, prod, DTYPE, UP, 1, FG_MUL_OP) \
FG_SCAN_HALF(NAME, max, DTYPE, UP, -INFINITY, FG_MAX_OP) FG_SCAN_HALF(NAME, min, DTYPE, UP, INFINITY, FG_MIN_OP) \
FG_LSE_TILE(NAME##_lse, uint16_t, LOAD, STORE) FG_SCAN_ENDS(NAME##_lse, double, -INFINITY, fg_logaddexp)

static inline uint16_t fg_f64_to_bf16(double v) { return fg_f32_to_bf16((float)v); }
FG_SCAN(bool_max, uint8_t, uint8_t, FG_SAME, FG_SAME, 0, FG_IMAX_OP, )
FG_SCAN(bool_min, uint8_t, uint8_t, FG_SAME, FG_SAME, 1, FG_IMIN_OP, )
FG_SCANS_INT(i8, int8_t, INT8_MIN, INT8_MAX, FG_VROW_NO)
FG_SCANS_INT(i16, int16_t, INT16_MIN, INT16_MAX, FG_VROW_NO)
FG_SCANS_INT(i32, int32_t, INT32_MIN, INT32_MAX, FG_VROW_int32_t)
FG_SCANS_INT(i64, int64_t, INT64_MIN, INT64_MAX, FG_VROW_int64_t)
FG_SCANS_INT(u8, uint8_t, 0, UINT8_MAX, FG_VROW_NO)
FG_SCANS_INT(u16, uint16_t, 0, UINT16_MAX, FG_VROW_NO)
FG_SCANS_INT(u32, uint32_t, 0, UINT32_MAX, FG_VROW_uint32_t)
FG_SCANS_INT(u64, uint64_t, 0, UINT64_MAX, FG_VROW_uint64_t)
FG_SCANS_FLOAT(f32, float, (float), FG_VROW_float)
FG_SCANS_FLOAT(f64, double, FG_SAME, FG_VROW_double)
FG_SCANS_HALF(f16, FG_F16, fg_half, fg_f16_to_f32, fg_f32_to_f16)
FG_SCANS_HALF(bf16, FG_BF16, fg_bf16_to_f32, fg_bf16_to_f32, fg_f64_to_bf16)

FG_LSE_ROW(f16_lse, uint16_t, fg_f16_to_f32, fg_f32_to_f16)
FG_LSE_ROW(bf16_lse, uint16_t, fg_bf16_to_f32, fg_f64_to_bf16)
FG_LSE_ROW(f32_lse, float, FG_SAME, (float))
FG_SCAN_ROW(f64_lse, double, double, FG_SAME, FG_SAME, fg_logaddexp, )        /* sums relative to a later number would lose digits */

static inline fg_c128 fg_c64_up(fg_c64 v) { return (fg_c128){v.re, v.im}; }
static inline fg_c64 fg_c64_down(fg_c128 v) { return (fg_c64){(float)v.re, (float)v.im}; }
static inline fg_c128 fg_cadd(fg_c128 a, fg_c128 b) { return (fg_c128){a.re + b.re, a.im + b.im}; }
static inline fg_c128 fg_cmul(fg_c128 a, fg_c128 b) { return (fg_c128){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
static inline fg_c128 fg_cmax(fg_c128 a, fg_c128 b) {
    return (a.re == b.re ? a.im > b.im : a.re > b.re) || a.re != a.re || a.im != a.im ? a : b;
}
static inline fg_c128 fg_cmin(fg_c128 a, fg_c128 b) {
    return (a.re == b.re ? a.im < b.im : a.re < b.re) || a.re != a.re || a.im != a.im ? a : b;
}
#define FG_SCANS_COMPLEX(NAME, T, LOAD, STORE) \
FG_SCAN(NAME##_sum, T, fg_c128, LOAD, STORE, ((fg_c128){-0.0, -0.0}), fg_cadd, ) \
FG_SCAN(NAME##_prod, T, fg_c128, LOAD, STORE, ((fg_c128){1, 0}), fg_cmul, ) \
FG_SCAN(NAME##_max, T, fg_c128, LOAD, STORE, ((fg_c128){-INFINITY, -INFINITY}), fg_cmax, ) \
FG_SCAN(NAME##_min, T, fg_c128, LOAD, STORE, ((fg_c128){INFINITY, INFINITY}), fg_cmin, )
FG_SCANS_COMPLEX(c64, fg_c64, fg_c64_up, fg_c64_down)
FG_SCANS_COMPLEX(c128, fg_c128, FG_SAME, FG_SAME)

#define FG_OPS(NAME) {fg_row_##NAME, fg_tile_scan_##NAME, fg_start_##NAME, fg_combine_##NAME, NULL, 0}
#define FG_OPS_EIGHT(NAME, ORDERED) {fg_row_##NAME, fg_tile_scan_##NAME, fg_start_##NAME, fg_combine_##NAME, fg_eight_##NAME, ORDERED}
#define FG_OPS_FLOAT(NAME) FG_OPS_EIGHT(NAME##_sum, 0), FG_OPS_EIGHT(NAME##_prod, 1), \
    FG_OPS(NAME##_max), FG_OPS(NAME##_min), FG_OPS(NAME##_lse)
#define FG_OPS4(NAME) FG_OPS(NAME##_sum), FG_OPS(NAME##_prod), FG_OPS(NAME##_max), FG_OPS(NAME##_min)
static const FgScanOps fg_scan_ops[FG_NDTYPES][FG_NCUM] = {
    {{0}, {0}, FG_OPS(bool_max), FG_OPS(bool_min)},
    {FG_OPS4(i8)}, {FG_OPS4(i16)}, {FG_OPS4(i32)}, {FG_OPS4(i64)}, {FG_OPS4(u8)}, {FG_OPS4(u16)}, {FG_OPS4(u32)}, {FG_OPS4(u64)},
    {FG_OPS4(f16), FG_OPS(f16_lse)}, {FG_OPS4(bf16), FG_OPS(bf16_lse)}, {FG_OPS_FLOAT(f32)}, {FG_OPS_FLOAT(f64)},
    {FG_OPS4(c64)}, {FG_OPS4(c128)}};

static const FgScanOps *fg_scan_find(int dtype, int64_t kind) { return fg_scan_ops[dtype][kind].row ? &fg_scan_ops[dtype][kind] : NULL; }

typedef struct { const FgAxisPlan *plan; const char *src; char *dst; FgCarry *carries; int64_t blocks; } FgScanJob;

/* Narrow rows, turned into columns and back. */
static int64_t fg_scan_narrow(const FgScanJob *job, int64_t begin, int64_t end) {
    const FgAxisPlan *p = job->plan;
    char columns[FG_TURN_COLUMNS * FG_TURN_BYTES];
    for (; begin < end; begin += FG_TURN_COLUMNS) {
        int64_t rows = fg_min64(FG_TURN_COLUMNS, end - begin), at = begin * p->n * p->item;
        (p->item == 1 ? fg_columns_1 : p->item == 2 ? fg_columns_2 : p->item == 4 ? fg_columns_4 : fg_columns_8)
            (columns, FG_TURN_COLUMNS, job->src + at, rows, p->n);
        p->ops->tile(columns, columns, p->n, FG_TURN_COLUMNS, rows, p->reverse);
        (p->item == 1 ? fg_rows_1 : p->item == 2 ? fg_rows_2 : p->item == 4 ? fg_rows_4 : fg_rows_8)
            (job->dst + at, columns, FG_TURN_COLUMNS, rows, p->n);
    }
    return end;
}
static void fg_scan_rows(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgScanJob *job = (const FgScanJob *)ctx;
    const FgAxisPlan *p = job->plan;
    (void)tid;
    const int narrow = p->n > 1 && p->n * p->item <= FG_TURN_BYTES && p->item <= 8;
    /* rows of up to four numbers turn in less time */
    for (; p->ops->eight && ((narrow && p->n > 4) || p->ops->ordered) && begin + 8 <= end; begin += 8)
        p->ops->eight(job->src + begin * p->n * p->item, job->dst + begin * p->n * p->item, p->n, p->reverse);
    if (narrow && p->outer > 1) begin = fg_scan_narrow(job, begin, end);
    for (int64_t r = begin; r < end; r++) {
        FgCarry carry;
        p->ops->start(&carry);
        p->ops->row(job->src + r * p->n * p->item, job->dst + r * p->n * p->item, p->n, p->reverse, &carry);
    }
}

/* Long rows in blocks: first every block's total, then (after the carries are summed up) the blocks from their carries.
 * The blocks do not depend on the number of threads. */
static void fg_scan_block(const FgScanJob *job, int64_t u, char *dst) {
    const FgAxisPlan *p = job->plan;
    int64_t r = u / job->blocks, b = u % job->blocks, n = fg_min64(FG_SCAN_BLOCK, p->n - b * FG_SCAN_BLOCK);
    int64_t at = (r * p->n + (p->reverse ? p->n - b * FG_SCAN_BLOCK - n : b * FG_SCAN_BLOCK)) * p->item;
    if (!dst) p->ops->start(&job->carries[u]);
    p->ops->row(job->src + at, dst ? dst + at : NULL, n, p->reverse, &job->carries[u]);
}
static void fg_scan_totals(void *ctx, int64_t begin, int64_t end, int tid) {
    (void)tid;
    for (int64_t u = begin; u < end; u++) fg_scan_block((const FgScanJob *)ctx, u, NULL);
}
static void fg_scan_blocks(void *ctx, int64_t begin, int64_t end, int tid) {
    (void)tid;
    for (int64_t u = begin; u < end; u++) fg_scan_block((const FgScanJob *)ctx, u, ((const FgScanJob *)ctx)->dst);
}
static void fg_scan_carries(const FgScanJob *job) {
    for (int64_t r = 0; r < job->plan->outer; r++) {
        FgCarry sum, total;
        job->plan->ops->start(&sum);
        for (int64_t b = 0; b < job->blocks; b++) {
            total = job->carries[r * job->blocks + b];
            job->carries[r * job->blocks + b] = sum;
            job->plan->ops->combine(&sum, &total);
        }
    }
}

static void fg_scan_tiles(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgScanJob *job = (const FgScanJob *)ctx;
    const FgAxisPlan *p = job->plan;
    int64_t tiles = (p->inner + FG_TILE - 1) / FG_TILE;
    (void)tid;
    for (int64_t u = begin; u < end; u++) {
        int64_t j = u % tiles * FG_TILE, at = (u / tiles * p->n * p->inner + j) * p->item;
        p->ops->tile(job->src + at, job->dst + at, p->n, p->inner, fg_min64(FG_TILE, p->inner - j), p->reverse);
    }
}
#endif
