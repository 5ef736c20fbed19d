/* The parallel bodies of a convolution: dispatch over element types and sizes. */
#ifndef FG_CONV_BODY_H
#define FG_CONV_BODY_H
#include "conv_plan.h"
#include "half.h"

typedef struct { uint64_t lo, hi; } fg_word128;
static const uint16_t zero_w2 = 0;
static const uint32_t zero_w4 = 0;
static const uint64_t zero_w8 = 0;
static const fg_word128 zero_w16 = {0, 0};

#define CONV_MOVES
#define T uint16_t
#define N(name) name##_w2
#include "conv_loops.h"
#undef T
#undef N
#define T uint32_t
#define N(name) name##_w4
#include "conv_loops.h"
#undef T
#undef N
#define T uint64_t
#define N(name) name##_w8
#include "conv_loops.h"
#undef T
#undef N
#define T fg_word128
#define N(name) name##_w16
#include "conv_loops.h"
#undef T
#undef N
#undef CONV_MOVES

#define CONV_MADD(sum, x, y) ((sum) + (x) * (y))
#define CONV_PRODUCT CONV_MADD
#define T float
#define N(name) name##_f32
#define G(name) gemm_f32_##name
#include "conv_loops.h"
#undef T
#undef N
#undef G
#define T double
#define N(name) name##_f64
#define G(name) gemm_f64_##name
#include "conv_loops.h"
#undef T
#undef N
#undef G
#undef CONV_MADD
#undef CONV_PRODUCT
#define CONV_HALF
#define T float
#define X uint16_t
#define CONV_RINGED
#define N(name) name##_ring
#define G(name) gemm_f32_##name
#include "conv_groups.h"
#undef CONV_RINGED
#undef N
#undef G
#define N(name) name##_half
#define G(name) gemm_f32_##name
#include "conv_groups.h"
#include "conv_near.h"
#include "conv_planes.h"
#include "conv_plane_sums.h"
#undef T
#undef X
#undef N
#undef G
#undef CONV_HALF
#include "conv_pairs.h"
#if GEMM_PAIRS
#define CONV_TILES_PAIR conv_fill_pair
#define CONV_TILES_PUT(p, ...) do { if ((p)->c->pairs) conv_put_pair(p, __VA_ARGS__); else conv_put_f32(p, __VA_ARGS__); } while (0)
#define CONV_TILES_OTHER(p, ...) do { if ((p)->c->pairs) conv_dense_pair(p, __VA_ARGS__); else conv_dense_f32(p, __VA_ARGS__); } while (0)
#else
#define CONV_TILES_PAIR(p, f, x, to) (void)(x)
#define CONV_TILES_PUT conv_put_f32
#define CONV_TILES_OTHER conv_dense_f32
#endif
#include "conv_tiles.h"
#include "conv_tile_sums.h"
#define T int32_t
#define N(name) name##_i32
#include "conv_loops.h"
#undef T
#undef N
#define T int64_t
#define N(name) name##_i64
#include "conv_loops.h"
#undef T
#undef N

#define CONV_SIZED(item, CALL) do { \
    switch (item) { \
    case 2: { typedef uint16_t T; CALL(w2); break; } \
    case 4: { typedef uint32_t T; CALL(w4); break; } \
    case 8: { typedef uint64_t T; CALL(w8); break; } \
    default: { typedef fg_word128 T; CALL(w16); } } } while (0)

static void conv_pack(const FgConvPart *p, const FgSpan *outer, int64_t n_outer, const FgSpan *inner, int64_t n_inner, const FgDigit *run,
                      int64_t g, char *dst, int64_t ld, int64_t item) {
    #define CALL(S) conv_pack_##S(p, (const T *)p->x + g * p->c->xg, outer, n_outer, inner, n_inner, run, (T *)dst, ld)
    CONV_SIZED(item, CALL);
    #undef CALL
}

static void conv_scatter(const FgConvPart *p, int64_t g, int64_t m0, int64_t n, const char *src, int64_t item) {
    #define CALL(S) conv_scatter_##S(p, g, m0, n, (const T *)src, (T *)p->out)
    CONV_SIZED(item, CALL);
    #undef CALL
}

/* Units (g, k): rows of W. */
static void conv_pack_w(const FgConvPart *p, int64_t begin, int64_t end, const char *w, char *dst, int64_t item) {
    while (begin < end) {
        int64_t g = begin / p->K, k0 = begin % p->K, k1 = conv_min(p->K, k0 + end - begin);
        #define CALL(S) conv_pack_w_##S(p, (const T *)w + p->w0, g, k0, k1, (T *)dst)
        CONV_SIZED(item, CALL);
        #undef CALL
        begin += k1 - k0;
    }
}

/* Units (g, tile of M, chunk of K).  `panel` holds mt x kt elements, `tile` mt x O, `spans` mt + kt runs. */
static void conv_panels(const FgConvPart *p, int64_t begin, int64_t end, char *panel, char *tile, FgSpan *spans, int64_t item) {
    const FgConv *c = p->c;
    const int64_t none[3] = {0, 0, 0}, per = conv_ceil(p->Mi, p->mt);
    FgSpan *ms = spans, *ks = spans + p->mt;
    for (int64_t u = begin; u < end; u++) {
        int64_t chunk = u % p->nk, t = u / p->nk % p->mtiles, g = u / p->nk / p->mtiles;
        int64_t m0 = t / per * p->Mi + t % per * p->mt, n = conv_min(p->mt, p->Mi - t % per * p->mt);
        int64_t k = chunk * p->kc, k1 = conv_min(p->K, k + p->kc), ldc, nm, nk, len;
        int add = 0, out_trans = 0;
        char *to;
        if (p->nk > 1) { to = p->part + ((chunk * c->G + g) * p->M + m0) * c->O * item; ldc = c->O; }
        else if (p->scratch_out) { to = tile; ldc = c->O; }
        else {
            to = p->out + (p->o0 + g * c->og + conv_y(p->m, m0)) * item;
            out_trans = p->out_trans;
            ldc = out_trans ? p->uo : p->um;
        }
        if (out_trans ? c->O == 1 : n == 1) ldc = out_trans ? n : c->O;       /* BLAS wants a leading dimension even of one row */
        nm = conv_runs(p, p->m, p->lo, m0, n, !p->inner_m, ms);
        for (; k < k1; k += len, add = 1) {
            const char *w;
            int wt = p->w_trans;
            int64_t ldw, ldx;
            len = conv_min(conv_min(p->kt, k1 - k), p->Ki - k % p->Ki);
            nk = conv_runs(p, p->k, none, k, len, p->inner_m, ks);
            if (p->inner_m) conv_pack(p, ks, nk, ms, nm, &p->m[3], g, panel, ldx = n, item);
            else conv_pack(p, ms, nm, ks, nk, &p->k[3], g, panel, ldx = len, item);
            if (p->pack_w) w = p->w + (g * p->wg + k * c->O) * item;
            else w = p->w + (p->w0 + g * p->wg + conv_y(p->k, k)) * item;
            ldw = wt ? p->wo : p->wk;
            if (wt ? c->O == 1 : len == 1) ldw = wt ? len : c->O;
            /* 111 and 112 are BLAS's words for an operand as it lies, and transposed */
            if (out_trans) p->gemm(c->dtype, 111 + !wt, 111 + !p->inner_m, c->O, n, len, w, ldw, panel, ldx, add, to, ldc);
            else p->gemm(c->dtype, 111 + p->inner_m, 111 + wt, n, c->O, len, panel, ldx, w, ldw, add, to, ldc);
        }
        if (p->nk == 1 && p->scratch_out) conv_scatter(p, g, m0, n, tile, item);
    }
}

/* Units (g, m): rows of the summed chunks. */
static void conv_reduce(const FgConvPart *p, int64_t begin, int64_t end, int64_t item) {
    const FgConv *c = p->c;
    while (begin < end) {
        int64_t g = begin / p->M, m0 = begin % p->M, n = conv_min(end - begin, p->M - m0);
        int parts = c->dtype >= FG_C64 ? 2 : 1;
        if (c->dtype == FG_F32 || c->dtype == FG_C64) conv_reduce_f32(p, g, m0, n, parts, (float *)p->part);
        else conv_reduce_f64(p, g, m0, n, parts, (double *)p->part);
        conv_scatter(p, g, m0, n, p->part + (g * p->M + m0) * c->O * item, item);
        begin += n;
    }
}

/* Units (g, m): rows of zeros. */
static void conv_clear(const FgConvPart *p, int64_t begin, int64_t end, int64_t item) {
    while (begin < end) {
        int64_t g = begin / p->M, m0 = begin % p->M, n = conv_min(end - begin, p->M - m0);
        conv_scatter(p, g, m0, n, 0, item);
        begin += n;
    }
}

#define CONV_TYPED(p, CALL) do { \
    switch ((p)->c->dtype) { \
    case FG_F32: CALL(f32, float); break; \
    case FG_F64: CALL(f64, double); break; \
    case FG_I32: CALL(i32, int32_t); break; \
    default: CALL(i64, int64_t); } } while (0)

static void conv_rows(const FgConvPart *p, int64_t begin, int64_t end, char *row) {
    #define CALL(S, T) conv_rows_##S(p, begin, end, p->algo == CONV_DOTS, (T *)row)
    CONV_TYPED(p, CALL);
    #undef CALL
}

#define CONV_FLOATS(p, CALL) do { if ((p)->c->dtype == FG_F32) CALL(f32, float); else CALL(f64, double); } while (0)

/* Bytes of the rows of x that meet a row of outputs or two. */
static int64_t conv_near_bytes(const FgConvPart *p) {
    return (p->c->C * p->R[0] * (p->R[1] + 1) * (int64_t)sizeof(FgNear) + 63) / 64 * 64;
}

/* Bytes of a ring of padded rows, and of it with the taps and insides of a row. */
static int64_t conv_ring_bytes(const FgConvPart *p, int64_t item) { return (p->x_size * item + 63) / 64 * 64; }
static int64_t conv_group_bytes(const FgConvPart *p, int64_t item) {
    if (p->algo == CONV_NEAR) return conv_near_bytes(p) + (p->c->half ? p->c->O * p->c->C * p->c->G * p->R[0] * p->R[1] * p->R[2] * 4 : 0);
    return conv_ring_bytes(p, item) + (p->c->C * p->R[0] * p->R[1] + p->Q[2]) * (int64_t)sizeof(FgTap);
}

static void conv_groups(const FgConvPart *p, int64_t begin, int64_t end, char *space) {
    char *ring = p->x_size ? space : 0;
    FgTap *taps = (FgTap *)(space + conv_ring_bytes(p, fg_itemsize(p->c->dtype)));
    const FgGroupSpace m = {taps + p->Q[2], taps};
    for (int64_t j = 0; j < p->Q[2]; j++) {
        taps[j] = (FgTap){0, p->R[2]};
        if (!ring) conv_inside(j * p->s[2] - p->lo[2], p->d[2], p->L[2], p->R[2], &taps[j].x, &taps[j].w);
    }
    #define CALL(S, T) do { if (p->algo == CONV_GROUP_SUMS) conv_group_sums_##S(p, begin, end, &m); \
                            else conv_groups_##S(p, begin, end, &m, (T *)ring); } while (0)
    if (p->c->half) CALL(half, float);
    else CONV_TYPED(p, CALL);
    #undef CALL
}

static void conv_near(const FgConvPart *p, int64_t begin, int64_t end, char *space) {
    #define CALL(S, T) conv_near_rows_##S(p, begin, end, (FgNear *)space, (T *)(space + conv_near_bytes(p)))
    if (p->c->half) CALL(half, float);
    else CONV_FLOATS(p, CALL);
    #undef CALL
}

static void conv_group_reduce(const FgConvPart *p, int64_t begin, int64_t end) {
    #define CALL(S, T) conv_group_reduce_##S(p, begin, end)
    if (p->c->half) CALL(half, uint16_t);
    else CONV_TYPED(p, CALL);
    #undef CALL
}

/* Units: panels of O in each group, or taps where groups go together. */
static void conv_pack_panels(const FgConvPart *p, int64_t begin, int64_t end, const char *w, char *dst) {
    #define CALL(S, T) do { if (p->algo == CONV_LANES) conv_lane_w_##S(p, begin, end, (const T *)w + p->w0, (T *)dst); \
                            else if (p->algo == CONV_SPANS) conv_span_w_##S(p, begin, end, (const T *)w + p->w0, (T *)dst); \
                            else if (p->algo == CONV_FEW) conv_few_w_##S(p, begin, end, (const T *)w + p->w0, (T *)dst); \
                            else conv_pack_panels_##S(p, begin, end, (const T *)w + p->w0, (T *)dst); } while (0)
    CONV_FLOATS(p, CALL);
    #undef CALL
}

#if CONV_MIX
static void conv_mix_w(const FgConvPart *p, int64_t begin, int64_t end, const char *w, char *dst) {
    #define CALL(S, T) conv_mix_w_##S(p, begin, end, (const T *)w + p->w0, (T *)dst)
    if (p->c->half) conv_mix_w_half(p, begin, end, (const uint16_t *)w + p->w0, (float *)dst);
    else CONV_FLOATS(p, CALL);
    #undef CALL
}
#else
static void conv_mix_w(const FgConvPart *p, int64_t begin, int64_t end, const char *w, char *dst) {}
#endif

static void conv_planes(const FgConvPart *parts, int64_t n, int64_t deep, int64_t begin, int64_t end) {
#if CONV_IN_PLANES
    #define CALL(S, T) conv_planes_##S(parts, n, deep, begin, end)
#if GEMM_MASKS
    if (parts->c->half) CALL(half, uint16_t);
    else
#endif
    CONV_FLOATS(parts, CALL);
    #undef CALL
#endif
}

static void conv_plane_sums(const FgConvPart *p, int64_t begin, int64_t end) {
#if GEMM_MASKS
    #define CALL(S, T) conv_plane_sums_w_##S(p, begin, end)
    if (p->c->half) CALL(half, uint16_t);
    else CONV_FLOATS(p, CALL);
    #undef CALL
#endif
}

static void conv_winograd_w(const FgConvPart *p, int64_t begin, int64_t end, const char *w, char *dst, char *part) {
    conv_winograd_w_f32(p, begin, end, (const float *)w + p->w0, (float *)dst, (float *)part);
}

/* Bytes of a block of x, of w (or of a row of outputs), and number of taps, that the bodies below need each. */
static int64_t conv_x_bytes(const FgConvPart *p, int64_t item) { return (p->x_size * item + 2 * GEMM_SLACK) / 64 * 64; }
static int64_t conv_w_bytes(const FgConvPart *p, int64_t item) { return (p->w_size * item + 2 * GEMM_SLACK) / 64 * 64; }
static int64_t conv_dense_taps(const FgConvPart *p) {
    if (p->algo == CONV_ALONG) return p->slice * p->Q[0] * p->Q[1] * p->Q[2];
    return p->algo == CONV_SUMS || p->algo == CONV_LANE_SUMS ? p->block[0] : p->R[0] * p->R[1] * p->R[2];
}

static void conv_dense(const FgConvPart *p, int64_t begin, int64_t end, char *x, char *w, FgTap *taps) {
#if GEMM_PAIRS
    if (p->c->pairs) {
        if (p->algo == CONV_SUMS) conv_sums_pair(p, begin, end, (float *)x, (float *)w, taps);
        else conv_dense_pair(p, begin, end, (float *)x, (float *)w, taps);
        return;
    }
#endif
    #define CALL(S, T) do { switch (p->algo) { \
        case CONV_DENSE: case CONV_FEW: conv_dense_##S(p, begin, end, (T *)x, (T *)w, taps); break; \
        case CONV_SPANS: conv_spans_##S(p, begin, end, (T *)x, taps); break; \
        case CONV_SUMS: conv_sums_##S(p, begin, end, (T *)x, (T *)w, taps); break; \
        case CONV_ALONG: conv_along_##S(p, begin, end, (T *)x, (T *)w, taps); break; \
        case CONV_LANES: conv_lanes_##S(p, begin, end, (T *)x, (T *)w, taps); break; \
        case CONV_LANE_SUMS: conv_lane_sums_##S(p, begin, end, (T *)x, (T *)w, taps); break; \
        default: \
            if (p->whole) conv_winograd_phase_##S(p, begin, end, (T *)x, (T *)w, taps); \
            else conv_winograd_##S(p, begin, end, (T *)x, (T *)w, taps); } } while (0)
    CONV_FLOATS(p, CALL);
    #undef CALL
}

/* Inputs of all positions (of one part); then, where `w` is given, columns of outputs of n parts. */
static void conv_columns(const FgConvPart *p, int64_t n, int64_t begin, int64_t end, char *w, char *sums, FgTap *taps) {
#if GEMM_PAIRS
    if (p->c->pairs) {
        if (w) conv_columns_pair(p, n, begin, end, (float *)w, (float *)sums, taps);
        else conv_columns_fill_pair(p, begin, end);
        return;
    }
#endif
    #define CALL(S, T) do { if (w) conv_columns_##S(p, n, begin, end, (T *)w, (T *)sums, taps); else conv_columns_fill_##S(p, begin, end); } while (0)
    CONV_FLOATS(p, CALL);
    #undef CALL
}

static void conv_place(const FgConvPart *p, int64_t begin, int64_t end) {
#if GEMM_PAIRS
    if (p->c->pairs) {
        if (p->turned) conv_place_turned_pair(p, begin, end);
        else conv_place_pair(p, begin, end);
        return;
    }
#endif
    #define CALL(S, T) do { if (p->algo == CONV_ALONG) conv_along_place_##S(p, begin, end); \
                            else if (p->beside) conv_place_beside_##S(p, begin, end); \
                            else if (p->turned) conv_place_turned_##S(p, begin, end); \
                            else if (p->algo == CONV_SUMS || p->algo == CONV_TILE_SUMS) conv_place_##S(p, begin, end); \
                            else conv_lane_reduce_##S(p, begin, end); } while (0)
    CONV_FLOATS(p, CALL);
    #undef CALL
}
#endif
