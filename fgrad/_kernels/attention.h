/* Tiled attention with an online softmax: the plan both directions share, and their tiles for float and for double.
 * Sources: Milakov and Gimelshein 2018 (online softmax), Dao et al. 2022 (tiled attention and its backward pass). */
#ifndef FG_ATTENTION_H
#define FG_ATTENTION_H
#include <float.h>
#include <math.h>
#include "matmul.h"
#include "vec.h"

#define ATT_ROWS 64        /* query rows of a tile */

typedef struct {
    int64_t B, H, Hk, G, L, S, D, Dv;                       /* L queries, S keys; G = H / Hk query heads share one key head */
    int64_t q[4], k[4], v[4], o[4], lse[3], g[4], bias[4];  /* strides; g is the cotangent of o */
    int64_t dq[4], dk[4], dv[4];
    int64_t bs[4], db[4], slope[2];                        /* bias: its sizes, and dbias's strides, 0 on axes of size 1; slopes' strides */
    int32_t narrow;                                        /* forward: queries and output are stored as keys and values are */
    int32_t halves;                                        /* operands hold bfloat16, and products of pairs may round the others so */
    int32_t causal, has_bias, has_slopes, want_dbias, want_dslopes, dtype, stored;   /* stored: k's and v's, 16 bits if not dtype */
    int64_t window;
    double scale, softcap;
    int64_t heads, queries;                                 /* a forward tile's rows: heads of one group x queries */
    int64_t chunks, blocks;                                 /* groups of heads per key head, blocks of queries */
    int64_t keys, kblocks;                                  /* keys of a tile, tiles of keys */
    int64_t splits, split_keys;                             /* forward: parts the keys are cut into, and their length */
    int64_t few, few_keys, few_ld;                          /* forward: few rows of a block, or 0; keys of a tile; length of rows */
    int64_t parted;                                         /* rows lie in the order of chunks (stream16.h) */
    int64_t far;                                            /* keys and values come from memory */
    int64_t together;                                       /* key heads that lie beside each other and go through the keys together, or 1 */
    int64_t state, state_rows;                              /* elements of a block's outputs, maxima and sums, and its rows for one of the heads */
} FgAttn;

enum { ATT_DQ = 1, ATT_DKV = 2, ATT_DBIAS = 4 };

typedef struct {
    const FgAttn *p;
    const char *q, *k, *v, *bias, *slopes, *g;
    char *o, *lse, *dq, *dk, *dv, *dbias, *dslopes;  /* dslopes: a sum for each (b, h, tile of keys) */
    char *scratch, *part;
    int64_t per_thread;                                     /* bytes of scratch of a thread */
    int64_t next, units;                                    /* the queue of units, drained by the threads */
    int32_t want;                                           /* backward: which gradients this pass accumulates */
    int32_t parts;                                          /* of each operand on the tile unit, or 0 */
    int64_t group;                                          /* backward: blocks of queries, or tiles of keys, of a unit that is not a key head */
} FgAttnRun;

/* Some rows of queries: `heads` heads from h0 on, queries [t0, t0 + tb) of each.  Row r is head h0 + r / tb, query t0 + r % tb.
 * skip: rows are of one head, and what its mask hides of a tile need not be computed. */
typedef struct { int64_t b, h0, t0, tb, rows; int skip; } FgAttnRows;

/* The keys [lo, hi) that the queries [t0, t1) can see between them. */
static inline void att_range(const FgAttn *p, int64_t t0, int64_t t1, int64_t *lo, int64_t *hi) {
    int64_t off = p->S - p->L;
    *lo = p->window > 0 && t0 + off - p->window + 1 > 0 ? t0 + off - p->window + 1 : 0;
    *hi = p->causal && t1 + off < p->S ? t1 + off : p->S;
}

/* The forward pass's block i: the longest rows come first, which evens out the threads. */
static FgAttnRows att_block(const FgAttn *p, int64_t i) {
    FgAttnRows x;
    int64_t block = p->blocks - 1 - i % p->blocks, rest = i / p->blocks, first = rest % p->chunks * p->heads;   /* long rows first */
    x.b = rest / p->chunks / (p->Hk / p->together);
    x.h0 = rest / p->chunks % (p->Hk / p->together) * p->together * p->G + first;
    x.t0 = block * p->queries;
    x.tb = p->L - x.t0 < p->queries ? p->L - x.t0 : p->queries;
    x.rows = x.tb * (p->G - first < p->heads ? p->G - first : p->heads);
    x.skip = x.rows == x.tb;
    return x;
}

/* Few rows of queries (decoding) meet each key once and wait for memory: scores lie in rows, as sums over keys where these lie. */
static int att_is_few(int64_t rows, int64_t Dv, int dtype) {
    return GEMM_WIDE && rows <= GEMM_DOTS_ROWS && rows <= GEMM_MR && (GEMM_MASKS || Dv % (dtype == FG_F32 ? gemm_f32_lanes : gemm_f64_lanes) == 0);
}

/* Rows that are needed next, in the order in which they lie; stride and width in bytes. A core holds some 40 requests, and stops at the
 * next one, so they are asked for a few at a time, beside a piece of the work. */
typedef struct { const char *row; int64_t stride, width, rows, at; } FgAttnAhead;
static inline void att_ahead(FgAttnAhead *f, int64_t bytes) {
    for (; bytes > 0 && f->rows > 0; bytes -= 64) {
        __builtin_prefetch(f->row + f->at, 0, 2);
        if ((f->at += 64) >= f->width) { f->row += f->stride; f->rows--; f->at = 0; }
    }
}
/* Keys that meet the queries between two requests: some 2 KB of them. */
static inline int64_t att_piece(const FgAttn *p, int64_t bytes, int64_t keys) {
    if (!p->parted && p->stored != p->dtype) return 16;              /* widened in the first cache */
    return !p->far ? keys : bytes > 512 ? 4 : bytes > 32 ? 2048 / bytes / 4 * 4 : 64;
}

static inline int64_t att_unit(FgAttnRun *w) { return __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED); }

/* tanh without libm: x + x^3 P(x^2) near 0, 1 - 2 / (exp(2x) + 1) elsewhere. */
FG_INLINE float att_tanh_f32(float x) {
    float a = fabsf(x), z = x * x;
    float P = -5.70498872745e-3f;
    P = P * z + 2.06390887954e-2f;
    P = P * z - 5.37397155531e-2f;
    P = P * z + 1.33314422036e-1f;
    P = P * z - 3.33332819422e-1f;
    float far = copysignf(1.0f - 2.0f / (row_exp_f32(2.0f * a) + 1.0f), x);
    return a < 0.625f ? x + x * z * P : far;
}
FG_INLINE double att_tanh_f64(double x) {
    double a = fabs(x), z = x * x;
    double P = (-9.64399179425052238628e-1 * z - 9.92877231001918586564e1) * z - 1.61468768441708447952e3;
    double Q = ((z + 1.12811678491632931402e2) * z + 2.23548839060100448583e3) * z + 4.84406305325125486048e3;
    double far = copysign(1.0 - 2.0 / (row_exp_f64(2.0 * a) + 1.0), x);
    return a < 0.625 ? x + x * z * P / Q : far;
}

/* Query blocks [q0, q1) of a head against the tiles [j0, j1) of keys, on the tile unit. */
static void att_amx_back(const FgAttnRun *w, int64_t b, int64_t h, int64_t q0, int64_t q1, int64_t j0, int64_t j1, char *scratch);

#define T float
#define N(name) name##_f32
#define G(name) gemm_f32_##name
#define ATT_LARGEST FLT_MAX
#include "attention_tiles.h"
#undef T
#undef N
#undef G
#undef ATT_LARGEST

#define T double
#define N(name) name##_f64
#define G(name) gemm_f64_##name
#define ATT_LARGEST DBL_MAX
#include "attention_tiles.h"
#undef T
#undef N
#undef G
#undef ATT_LARGEST

#include "attention_amx.h"

static int64_t att_scratch(const FgAttn *p, int backward) {
    return p->dtype == FG_F32 ? att_scratch_f32(p, backward) : att_scratch_f64(p, backward);
}
#define ATT_BY_DTYPE(NAME, ARGS, ...) \
    static void NAME ARGS { if (w->p->dtype == FG_F32) NAME##_f32(__VA_ARGS__); else NAME##_f64(__VA_ARGS__); }
ATT_BY_DTYPE(att_forward, (FgAttnRun *w, int tid), w, tid)
ATT_BY_DTYPE(att_combine, (FgAttnRun *w, int64_t begin, int64_t end), w, begin, end)
ATT_BY_DTYPE(att_backward, (FgAttnRun *w, int tid), w, tid)
#endif
