/* Plans of windows: a fold along one axis, and the selection of the largest or smallest element of windows over any axes. */
#ifndef FG_POOL_H
#define FG_POOL_H
#include <complex.h>
#include <math.h>
#include "fg.h"
#include "steps.h"
#ifdef __AVX512F__
#include <immintrin.h>
#endif

/* Bytes of a vector: generic ones of more than a register has live in memory, and are compared element by element. */
#if defined(__AVX512F__)
#define POOL_BYTES 64
#define POOL_LOW_float 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define POOL_HIGH_float 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define POOL_LOW_double 0, 8, 1, 9, 2, 10, 3, 11
#define POOL_HIGH_double 4, 12, 5, 13, 6, 14, 7, 15
#elif defined(__AVX2__)
#define POOL_BYTES 32
#define POOL_LOW_float 0, 8, 1, 9, 2, 10, 3, 11
#define POOL_HIGH_float 4, 12, 5, 13, 6, 14, 7, 15
#define POOL_LOW_double 0, 4, 1, 5
#define POOL_HIGH_double 2, 6, 3, 7
#else
#define POOL_BYTES 16
#define POOL_LOW_float 0, 4, 1, 5
#define POOL_HIGH_float 2, 6, 3, 7
#define POOL_LOW_double 0, 2
#define POOL_HIGH_double 1, 3
#endif
#define POOL_TILE 64
#define POOL_PITCH 16384   /* elements of the longest row that is folded as one, four times those of rows together */
enum { POOL_SUM, POOL_PROD, POOL_MAX, POOL_MIN };

/* x (outer, n, inner) to out (outer, m, inner): out[j] folds x at positions j stride + r wdil - lo, of which every bdil-th holds an
 * element.  blocks: windows are long and dense, and are folded by blocks.  pitch: short windows without inner elements, `rows` of them
 * together, each in so many elements; otherwise 0, and rows is 1. */
typedef struct {
    int64_t outer, n, m, inner, tile, tiles, rows, pitch;
    int64_t window, stride, lo, bdil, wdil;
    int32_t kind, blocks, dtype;
} FgPool;

/* Folds along two neighbouring axes, without base dilation, of short windows. rows: of windows that are a unit. `along` reads rows that begin
 * with `before` padded elements, and end with others. */
typedef struct { FgPool down, along; int64_t rows, before; } FgPlanes;

/* Outputs j, j + step, ... that tap r reaches, and the inputs pos, pos + xstep, ... that it reads for them. */
typedef struct { int64_t j, step, pos, xstep, count; } FgPoolRun;

static inline int64_t pool_gcd(int64_t a, int64_t b) { while (b) { int64_t t = a % b; a = b; b = t; } return a; }

static FgPoolRun pool_run(const FgPool *p, int64_t r) {
    FgPoolRun run = {0, p->bdil / pool_gcd(p->stride, p->bdil), 0, 0, 0};
    int64_t at = r * p->wdil - p->lo, last = (p->n - 1) * p->bdil;
    if (p->n == 0) return run;
    if (at < 0) run.j = (-at + p->stride - 1) / p->stride;         /* the first output whose position is not negative */
    for (int64_t k = 0; k < run.step && run.j < p->m && (run.j * p->stride + at) % p->bdil; k++) run.j++;
    at += run.j * p->stride;
    if (at % p->bdil || at > last || run.j >= p->m) return run;
    run.pos = at / p->bdil;
    run.xstep = run.step * p->stride / p->bdil;
    run.count = (last - at) / (run.step * p->stride) + 1;
    int64_t most = (p->m - 1 - run.j) / run.step + 1;
    if (run.count > most) run.count = most;
    return run;
}

/* (outer, middle axes, inner): windows over the middle axes, nd of them; steps are those of x in units of inner.  pick: by vectors
 * (pool_pick.h), `planes` of outer together where inner is 1, each in `rows` rows, an element of every stride in `each` elements. */
typedef struct {
    int64_t outer, inner, tiles, in_size, out_size, taps;
    int64_t n[FG_MAXDIM], m[FG_MAXDIM], step[FG_MAXDIM];
    int64_t window[FG_MAXDIM], stride[FG_MAXDIM], lo[FG_MAXDIM], bdil[FG_MAXDIM], wdil[FG_MAXDIM];
    int64_t tile, planes, each, rows;
    int32_t nd, scatter, op, largest, dtype, pick;
} FgSelect;
#define PICK_TAPS 128
enum { PICK_GATHER, PICK_SCATTER, PICK_EXTREMUM, PICK_SUM };

/* (outer, n1, n2, inner): windows of w1 x w2 that lie side by side from the first element on, m1 x m2 of them; what lies behind them belongs
 * to none. */
enum { APART_SUM, APART_EXTREMUM, APART_SPREAD, APART_SCATTER, APART_GATHER };
#define APART_TAPS 64
typedef struct {
    int64_t outer, n1, m1, w1, n2, m2, w2, inner, rows;
    int32_t op, largest, dtype;
} FgApart;

#define POOL_FOLDS
#define T uint8_t
#define N(name) name##_u8
#define POOL_LOWEST 0
#define POOL_HIGHEST UINT8_MAX
#include "pool_loops.h"
#undef T
#undef N
#undef POOL_HIGHEST
#define T uint16_t
#define N(name) name##_u16
#define POOL_HIGHEST UINT16_MAX
#include "pool_loops.h"
#undef T
#undef N
#undef POOL_HIGHEST
#define T uint32_t
#define N(name) name##_u32
#define POOL_HIGHEST UINT32_MAX
#include "pool_loops.h"
#undef T
#undef N
#undef POOL_HIGHEST
#define T uint64_t
#define N(name) name##_u64
#define POOL_HIGHEST UINT64_MAX
#include "pool_loops.h"
#undef T
#undef N
#undef POOL_HIGHEST
#undef POOL_LOWEST
#define T int8_t
#define N(name) name##_i8
#define POOL_LOWEST INT8_MIN
#define POOL_HIGHEST INT8_MAX
#include "pool_loops.h"
#undef T
#undef N
#undef POOL_HIGHEST
#undef POOL_LOWEST
#define T int16_t
#define N(name) name##_i16
#define POOL_LOWEST INT16_MIN
#define POOL_HIGHEST INT16_MAX
#include "pool_loops.h"
#undef T
#undef N
#undef POOL_HIGHEST
#undef POOL_LOWEST
#define T int32_t
#define N(name) name##_i32
#define POOL_LOWEST INT32_MIN
#define POOL_HIGHEST INT32_MAX
#include "pool_loops.h"
#undef T
#undef N
#undef POOL_HIGHEST
#undef POOL_LOWEST
#define T int64_t
#define N(name) name##_i64
#define POOL_LOWEST INT64_MIN
#define POOL_HIGHEST INT64_MAX
#include "pool_loops.h"
#undef T
#undef N
#undef POOL_HIGHEST
#undef POOL_LOWEST
#define POOL_LOWEST -INFINITY
#define POOL_HIGHEST INFINITY
#define T float
#define N(name) name##_f32
#include "pool_loops.h"
#undef T
#undef N
#define T double
#define N(name) name##_f64
#include "pool_loops.h"
#undef T
#undef N
#define POOL_COMPLEX
#define T float _Complex
#define N(name) name##_c64
#include "pool_loops.h"
#undef T
#undef N
#define T double _Complex
#define N(name) name##_c128
#include "pool_loops.h"
#undef T
#undef N
#undef POOL_COMPLEX
#undef POOL_FOLDS

#define T float
#define WHOLE int32_t
#define N(name) name##_f32
#define PICK_FLOAT ps
#define PICK_FLOAT_MASK ps_mask
#define PICK_INT epi32
#define PICK_INT_MASK epi32_mask
#define PICK_MASK __mmask16
#define APART_LOW POOL_LOW_float
#define APART_HIGH POOL_HIGH_float
#include "pool_loops.h"
#include "pool_apart.h"
#include "pool_pick.h"
#undef T
#undef WHOLE
#undef N
#undef APART_LOW
#undef PICK_FLOAT
#undef PICK_FLOAT_MASK
#undef PICK_INT
#undef PICK_INT_MASK
#undef PICK_MASK
#undef APART_HIGH
#define T double
#define WHOLE int64_t
#define N(name) name##_f64
#define PICK_FLOAT pd
#define PICK_FLOAT_MASK pd_mask
#define PICK_INT epi64
#define PICK_INT_MASK epi64_mask
#define PICK_MASK __mmask8
#define APART_LOW POOL_LOW_double
#define APART_HIGH POOL_HIGH_double
#include "pool_loops.h"
#include "pool_apart.h"
#include "pool_pick.h"
#undef T
#undef WHOLE
#undef N

#define POOL_ALL(NAME, S) do { switch (kind) { \
    case POOL_SUM: pool_sum##NAME##_##S(p, x, out, begin, end, buf); break; \
    case POOL_PROD: pool_prod##NAME##_##S(p, x, out, begin, end, buf); break; \
    case POOL_MAX: pool_max##NAME##_##S(p, x, out, begin, end, buf); break; \
    default: pool_min##NAME##_##S(p, x, out, begin, end, buf); } } while (0)
#define POOL_TWO(NAME, S) do { if (kind == POOL_SUM) pool_sum##NAME##_##S(p, x, out, begin, end, buf); \
    else pool_prod##NAME##_##S(p, x, out, begin, end, buf); } while (0)
#define POOL_OF(NAME) \
    switch (dtype) { \
    case FG_U8: POOL_ALL(NAME, u8); break; \
    case FG_U16: POOL_ALL(NAME, u16); break; \
    case FG_U32: POOL_ALL(NAME, u32); break; \
    case FG_U64: POOL_ALL(NAME, u64); break; \
    case FG_I8: POOL_ALL(NAME, i8); break; \
    case FG_I16: POOL_ALL(NAME, i16); break; \
    case FG_I32: POOL_ALL(NAME, i32); break; \
    case FG_I64: POOL_ALL(NAME, i64); break; \
    case FG_F32: POOL_ALL(NAME, f32); break; \
    case FG_F64: POOL_ALL(NAME, f64); break; \
    case FG_C64: POOL_TWO(NAME, c64); break; \
    default: POOL_TWO(NAME, c128); \
    }

/* Units (outer, tile of inner).  `buf` holds what long windows need. */
static void pool_fold(const FgPool *p, const char *x, char *out, int64_t begin, int64_t end, char *buf) {
    const int kind = p->kind, dtype = p->dtype;
    POOL_OF()
}

/* `buf` holds a row. */
static void pool_planes(const FgPlanes *p, const char *x, char *out, int64_t begin, int64_t end, char *buf) {
    const int kind = p->down.kind, dtype = p->down.dtype;
    POOL_OF(_planes)
}
#undef POOL_ALL
#undef POOL_TWO
#undef POOL_OF

/* Elements that pick_planes needs room for. */
static inline int64_t pool_pick_size(const FgSelect *p) {
    const int last = p->nd - 1;
    return p->planes * p->each * (3 * p->rows * p->stride[last] + 4) + 6 * (p->window[last] * p->wdil[last] + 64) + 64;
}

static void pool_select(const FgSelect *p, const char *a, const char *x, char *out, int64_t begin, int64_t end, char *buf) {
    #define OF(S, T) do { if (!p->pick) pool_select_##S(p, a, x, out, begin, end); \
        else if (buf) pick_planes_##S(p, (const T *)a, (const T *)x, (T *)out, begin, end, (T *)buf); \
        else pick_features_##S(p, (const T *)a, (const T *)x, (T *)out, begin, end); } while (0)
    if (p->dtype == FG_F32) OF(f32, float);
    else OF(f64, double);
    #undef OF
}

static void pool_apart(const FgApart *p, const char *a, const char *x, char *out, int64_t begin, int64_t end, char *buf) {
    if (p->dtype == FG_F32) pool_apart_f32(p, (const float *)a, (const float *)x, (float *)out, begin, end, (float *)buf);
    else pool_apart_f64(p, (const double *)a, (const double *)x, (double *)out, begin, end, (double *)buf);
}
#endif
