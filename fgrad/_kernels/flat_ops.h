/* An instruction of flat code, and the interpreter of those in flat_list.h: direct-threaded, over values at fixed addresses.
 *
 * Arithmetic on single numbers, and on vectors of up to 64 bytes in places padded to that, is inline.  An op whose operand is the
 * result of the op before it takes it from a register (`am`: as its first operand, `ma`: as its second), since a load that waits
 * for a store costs as much as the arithmetic; up to three sums and products in a row are one op, since a jump does too.
 * To be compiled without contraction: each operation rounds, as it does in the VM. */
#ifndef FG_FLAT_OPS_H
#define FG_FLAT_OPS_H
#include "flat_fold.h"
#include "flat_items.h"
#include "half.h"
#include "program.h"
#include "turns.h"
#include "vm_plan.h"

struct FgFlatOp {
    const void *label;                  /* of the op; while code is emitted, its number */
    char *d;
    const char *a;
    union { const char *b; int64_t k; };
    union { const char *c; int64_t m; };
    union { int64_t n; char *f; };      /* elements, bytes, or how many ops to jump; */
    union { void *fn; char *e; };       /* e, f: where the results of a chain's first and second operation go */
    const char *g;                      /* of a call: bytes an element, at most; of a window: the bytes it moves in, or its second index (then n: those bytes) */
};

/* One component of where a window lies, which it moves by `step` bytes: a negative index is moved by `wrap`, and one beyond [0, top] is
 * bounded, or the window is left out. */
typedef struct { const char *index; int64_t wide, top, step, wrap, drop; } FgFlatStart;
static inline int64_t fg_flat_index(const char *index, int64_t wide) {
    int64_t v;
    int32_t narrow;
    if (wide) { memcpy(&v, index, 8); return v; }
    memcpy(&narrow, index, 4);
    return narrow;
}
static inline int fg_flat_offset(const FgFlatStart *s, int64_t n, int64_t *offset) {
    int there = 1;
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++, s++) {
        int64_t given = fg_flat_index(s->index, s->wide), v = given + ((given >> 63) & s->wrap), in = v < 0 ? 0 : v > s->top ? s->top : v;
        there &= in == v || !s->drop;
        sum += in * s->step;
    }
    *offset = sum;
    return there;
}

/* Up to 16 numbers of four bytes out of the vector `offset` bytes away: lane i, where the mask has its bit, takes number at[i]. */
typedef struct { int32_t at[16]; int64_t offset, mask; char rest[48]; } FgFlatWindow;

/* The same of bytes, of up to 64. */
typedef struct { uint8_t at[64]; int64_t offset; uint64_t mask; char rest[48]; } FgFlatPieces;
/* AVX2: of one half of a vector the bytes that the mask has, which lie side by side as those that begin `offset` away, or are all the one there (same). */
typedef struct { uint8_t mask[32]; int32_t offset, first, upper, same; char rest[16]; } FgFlatRun;

/* One step of a product of two matrices of up to 16 numbers: lane i adds number a[i] times number b[i]. */
typedef struct { int32_t a[16], b[16]; } FgFlatStep;
#if FG_FLAT_PERMUTES
FG_FOLD_CALL float fg_fold_dot(const char *a, const char *b, const FgFlatStep *s, int64_t n) {
    __m512 x = _mm512_loadu_ps(a), y = _mm512_loadu_ps(b), sum = _mm512_setzero_ps();
    for (int64_t i = 0; i < n; i++, s++)
        sum = _mm512_fmadd_ps(_mm512_permutexvar_ps(_mm512_load_si512(s->a), x), _mm512_permutexvar_ps(_mm512_load_si512(s->b), y), sum);
    return _mm512_cvtss_f32(sum);
}
/* Of two vectors whose numbers lie side by side: 16 products at a time, then lanes by halves. No step waits for the one before. */
FG_FOLD_CALL float fg_fold_line(const char *a, const char *b, int64_t n) {
    __m512 sum = _mm512_setzero_ps();
    for (int64_t i = 0; i < n; i += 16)
        sum = _mm512_mask3_fmadd_ps(_mm512_loadu_ps(a + 4 * i), _mm512_loadu_ps(b + 4 * i), sum, (__mmask16)(n - i < 16 ? (1 << (n - i)) - 1 : 0xffff));
    if (n > 8) sum = _mm512_add_ps(sum, _mm512_shuffle_f32x4(sum, sum, 0x4e));
    if (n > 4) sum = _mm512_add_ps(sum, _mm512_shuffle_f32x4(sum, sum, 0xb1));
    if (n > 2) sum = _mm512_add_ps(sum, _mm512_permute_ps(sum, 0x4e));
    return _mm512_cvtss_f32(_mm512_add_ps(sum, _mm512_permute_ps(sum, 0xb1)));
}
FG_FOLD_CALL double fg_fold_long_line(const char *a, const char *b, int64_t n) {
    __m512d sum = _mm512_setzero_pd();
    for (int64_t i = 0; i < n; i += 8)
        sum = _mm512_mask3_fmadd_pd(_mm512_loadu_pd(a + 8 * i), _mm512_loadu_pd(b + 8 * i), sum, (__mmask8)(n - i < 8 ? (1 << (n - i)) - 1 : 0xff));
    if (n > 4) sum = _mm512_add_pd(sum, _mm512_shuffle_f64x2(sum, sum, 0x4e));
    if (n > 2) sum = _mm512_add_pd(sum, _mm512_shuffle_f64x2(sum, sum, 0xb1));
    return _mm512_cvtsd_f64(_mm512_add_pd(sum, _mm512_permute_pd(sum, 0x55)));
}
#endif
/* The same of eight bytes: up to 16 numbers are two vectors. */
typedef struct { int64_t a[8], b[8]; } FgFlatLongStep;
#if FG_FLAT_PERMUTES
FG_FOLD_CALL __m512d fg_fold_long_dot(const char *a, const char *b, const FgFlatLongStep *s, int64_t n) {
    __m512d x = _mm512_loadu_pd(a), x2 = _mm512_loadu_pd(a + 64), y = _mm512_loadu_pd(b), y2 = _mm512_loadu_pd(b + 64), sum = _mm512_setzero_pd();
    for (int64_t i = 0; i < n; i++, s++)
        sum = _mm512_fmadd_pd(_mm512_permutex2var_pd(x, _mm512_load_si512(s->a), x2), _mm512_permutex2var_pd(y, _mm512_load_si512(s->b), y2), sum);
    return sum;
}
#endif

typedef float fg_v32 __attribute__((vector_size(64), may_alias));
typedef double fg_v64 __attribute__((vector_size(64), may_alias));
typedef int32_t fg_i32x16 __attribute__((vector_size(64), may_alias));
typedef int64_t fg_i64x8 __attribute__((vector_size(64), may_alias));
typedef int64_t fg_i64x4 __attribute__((vector_size(32), may_alias, aligned(1)));
typedef int16_t fg_i16x32 __attribute__((vector_size(64), may_alias));
typedef uint16_t fg_u16x32 __attribute__((vector_size(64), may_alias));
typedef uint8_t fg_u8x64 __attribute__((vector_size(64), may_alias));
typedef int8_t fg_i8x32 __attribute__((vector_size(32), may_alias));
typedef int8_t fg_i8x64 __attribute__((vector_size(64), may_alias));
typedef int8_t fg_i8x16 __attribute__((vector_size(16), may_alias));
typedef int8_t fg_i8x8 __attribute__((vector_size(8), may_alias));

/* Numbers of float32 rounded to 16 bits: n of them, one or a vector; calls, so that they keep no register of the interpreter's. */
static __attribute__((noinline)) void fg_flat_rounded(int dtype, float *d, const float *a, int64_t n) {
    uint16_t h[16];
    fg_narrow16(dtype, a, h, n);
    fg_widen16(dtype, h, d, n);
}
static __attribute__((noinline)) void fg_flat_widened(int dtype, float *d, const uint16_t *a, int64_t n) { fg_widen16(dtype, a, d, n); }
static __attribute__((noinline)) void fg_flat_narrowed(int dtype, uint16_t *d, const float *a, int64_t n) { fg_narrow16(dtype, a, d, n); }
#define FG_FLAT_ROUNDED(dtype, x, n) ({ __typeof__(x) r_ = x; fg_flat_rounded(dtype, (float *)&r_, (const float *)&r_, n); r_; })

#include "flat_list.h"

#define FG_AT(T, p) (*(T __attribute__((may_alias)) *)(p))

/* Run code up to its `end`.  With ip NULL nothing runs: *labels is where the ops begin. */
static __attribute__((aligned(64))) int fg_flat_run(const FgFlatOp *ip, const void *const **labels) {
    #define FG_FLAT_L2(name, t, ...) &&L_##name##_##t##_mm, &&L_##name##_##t##_am, &&L_##name##_##t##_ma,
    #define FG_CHAIN_L1(t, T, acc, first) &&L_##t##_##first,
    #define FG_CHAIN_L2(t, T, acc, first, second) &&L_##t##_##first##_##second,
    #define FG_CHAIN_L3(t, T, acc, first, second, third) &&L_##t##_##first##_##second##_##third,
    #define FG_FLAT_L1(name, t, ...) &&L_##name##_##t##_m, &&L_##name##_##t##_a,
    #define FG_FLAT_LC(name, t, ...) &&L_##name##_##t,
    #define FG_FLAT_LU(name, t, ...) &&L_unless_##name##_##t,
    #define FG_FLAT_LA(name, t, ...) &&L_again_##name##_##t,
    #define FG_FLAT_LW(name, t, ...) &&L_where_##name##_##t,
    #define FG_FLAT_LV(name, t, expr, T, s, ...) &&L_where_##name##_##t##_##s,
    #define FG_FLAT_LS(t, ...) &&L_select_##t,
    #define FG_FLAT_LK(s, S, t, T) &&L_cast_##s##_##t,
    #define FG_FLAT_LO(name) &&L_##name,
    static const void *const table[FLAT_COUNT] = {
        FG_ALL_CHAINS(FG_CHAIN_L1, FG_CHAIN_L2, FG_CHAIN_L3) FG_FLAT_BIN(FG_FLAT_L2) FG_FLAT_UN(FG_FLAT_L1) FG_FLAT_COMPARE(FG_FLAT_LC)
        FG_FLAT_VECTOR_COMPARE(FG_FLAT_LC) FG_FLAT_BYTES(FG_FLAT_LC) FG_FLAT_WHERE(FG_FLAT_LW) FG_FLAT_VECTOR_SELECT(FG_FLAT_LS) FG_FLAT_SELECT(FG_FLAT_LS) FG_FLAT_CAST(FG_FLAT_LK)
        FG_FLAT_WHERE_ONE(FG_FLAT_LV) FG_FLAT_NARROW(FG_FLAT_LC) FG_FLAT_NARROW_COMPARE(FG_FLAT_LC) FG_FLAT_NARROW_CAST(FG_FLAT_LK) &&L_select_h1,
        FG_FLAT_TINY(FG_FLAT_LC) FG_FLAT_TINY_COMPARE(FG_FLAT_LC) &&L_select_q8, &&L_select_q16, FG_FLAT_HALF(FG_FLAT_LO)
        FG_FLAT_OTHER(FG_FLAT_LO) FG_FLAT_COMPARE_ONE(FG_FLAT_LU) FG_FLAT_COMPARE_ONE(FG_FLAT_LA)
        &&L_step, &&L_step_held};
    float accf = 0;
    double accd = 0;
    uint32_t acci = 0;
    uint64_t accl = 0;
    fg_v32 accv = {0};
    fg_v64 accw = {0};
    FgTurns turns = {32, 32, 0};
    int64_t until = turns.left, left = 0;   /* turns until the next look at the clock; those left of an innermost loop */
    const FgFlatOp *top = ip;               /* where its turns begin: an address that is loaded makes each turn wait for the one before */
    if (!ip) { *labels = table; return 0; }
#ifdef __x86_64__
    __asm__ volatile(".skip 32, 0x90");     /* where ops lie within lines decides how fast they are: measured at 0, 16, 32 and 48 */
#endif
    #define FG_GO goto *ip->label;
    #define FG_NEXT { ip++; FG_GO }
    #define FG_JUMP(by) { ip += (by); FG_GO }
    FG_GO
    #define M(name, t, T, acc, expr) \
        L_##name##_##t##_mm: { T x = FG_AT(T, ip->a), y = FG_AT(T, ip->b); acc = expr; FG_AT(T, ip->d) = acc; FG_NEXT } \
        L_##name##_##t##_am: { T x = acc, y = FG_AT(T, ip->b); acc = expr; FG_AT(T, ip->d) = acc; FG_NEXT } \
        L_##name##_##t##_ma: { T x = FG_AT(T, ip->a), y = acc; acc = expr; FG_AT(T, ip->d) = acc; FG_NEXT }
    FG_FLAT_BIN_FIRST(M)
    #undef M
    /* each result is stored before the next operand is read: they may be one */
    #define FG_DO_addm(T, acc) acc = FG_AT(T, ip->a) + FG_AT(T, ip->b);
    #define FG_DO_subm(T, acc) acc = FG_AT(T, ip->a) - FG_AT(T, ip->b);
    #define FG_DO_mulm(T, acc) acc = FG_AT(T, ip->a) * FG_AT(T, ip->b);
    #define FG_STEP_add(T, acc, z) acc = acc + FG_AT(T, z);
    #define FG_STEP_sub(T, acc, z) acc = acc - FG_AT(T, z);
    #define FG_STEP_rsub(T, acc, z) acc = FG_AT(T, z) - acc;
    #define FG_STEP_mul(T, acc, z) acc = acc * FG_AT(T, z);
    #define FG_DO_add(T, acc) FG_STEP_add(T, acc, ip->b)
    #define FG_DO_sub(T, acc) FG_STEP_sub(T, acc, ip->b)
    #define FG_DO_rsub(T, acc) FG_STEP_rsub(T, acc, ip->b)
    #define FG_DO_mul(T, acc) FG_STEP_mul(T, acc, ip->b)
    #define M1(t, T, acc, first) L_##t##_##first: FG_DO_##first(T, acc) FG_AT(T, ip->d) = acc; FG_NEXT
    #define M2(t, T, acc, first, second) L_##t##_##first##_##second: \
        FG_DO_##first(T, acc) FG_AT(T, ip->e) = acc; FG_STEP_##second(T, acc, ip->c) FG_AT(T, ip->d) = acc; FG_NEXT
    #define M3(t, T, acc, first, second, third) L_##t##_##first##_##second##_##third: \
        FG_DO_##first(T, acc) FG_AT(T, ip->e) = acc; FG_STEP_##second(T, acc, ip->c) FG_AT(T, ip->f) = acc; \
        FG_STEP_##third(T, acc, ip->g) FG_AT(T, ip->d) = acc; FG_NEXT
    FG_ALL_CHAINS(M1, M2, M3)
    #undef M1
    #undef M2
    #undef M3
    #define M(name, t, T, acc, expr) \
        L_##name##_##t##_m: { T x = FG_AT(T, ip->a); acc = expr; FG_AT(T, ip->d) = acc; FG_NEXT } \
        L_##name##_##t##_a: { T x = acc; acc = expr; FG_AT(T, ip->d) = acc; FG_NEXT }
    FG_FLAT_UN_FIRST(M)
    #undef M
    #define M(name, t, expr, T) L_##name##_##t: { T x = FG_AT(T, ip->a), y = FG_AT(T, ip->b); (void)y; *(uint8_t *)ip->d = (uint8_t)(expr); FG_NEXT }
    FG_FLAT_COMPARE(M)
    #undef M
    #define M(name, t, expr, T) L_##name##_##t: { T x = FG_AT(T, ip->a), y = FG_AT(T, ip->b); (void)y; FG_AT(T, ip->d) = (T)(expr); FG_NEXT }
    FG_FLAT_BYTES(M)
    #undef M
    #define M(name, t, expr, V, I, acc) L_where_##name##_##t: { V x = FG_AT(V, ip->a), y = FG_AT(V, ip->b); \
        acc = FG_FLAT_PICK(I, V, (I)(expr), FG_AT(I, ip->c), FG_AT(I, ip->g)); FG_AT(V, ip->d) = acc; FG_NEXT }
    FG_FLAT_WHERE(M)
    #undef M
    #define M(name, t, expr, V) L_##name##_##t: { V x = FG_AT(V, ip->a), y = FG_AT(V, ip->b); \
        FG_AT(FG_FLAT_BYTES_##t, ip->d) = __builtin_convertvector(expr, FG_FLAT_BYTES_##t) & 1; FG_NEXT }
    FG_FLAT_VECTOR_COMPARE_FIRST(M)
    #undef M
    #define M(t, V, acc) L_select_##t: { V m = __builtin_convertvector(FG_AT(FG_FLAT_BYTES_##t, ip->a), V) != 0; \
        acc = FG_FLAT_PICK(V, __typeof__(acc), m, FG_AT(V, ip->b), FG_AT(V, ip->c)); FG_AT(__typeof__(acc), ip->d) = acc; FG_NEXT }
    FG_FLAT_VECTOR_SELECT(M)
    #undef M
    #define M(t, T) L_select_##t: { T y = FG_AT(T, ip->b), z = FG_AT(T, ip->c); FG_AT(T, ip->d) = *(const uint8_t *)ip->a ? y : z; FG_NEXT }
    FG_FLAT_SELECT(M)
    #undef M
    #define M(s, S, t, T) L_cast_##s##_##t: { S x = FG_AT(S, ip->a); FG_AT(T, ip->d) = (T)x; FG_NEXT }
    FG_FLAT_CAST(M)
    #undef M
    /* numbers are moved as integers, for which there is a conditional move */
    #define M(name, t, expr, T, s, U, acc) L_where_##name##_##t##_##s: { T x = FG_AT(T, ip->a), y = FG_AT(T, ip->b); \
        U u = FG_AT(U, ip->c), v = FG_AT(U, ip->g); u = (expr) ? u : v; memcpy(&acc, &u, sizeof u); FG_AT(U, ip->d) = u; FG_NEXT }
    FG_FLAT_WHERE_ONE(M)
    #undef M
    L_choose: accv = FG_AT(fg_v32, *(const uint8_t *)ip->a ? ip->b : ip->c); FG_AT(fg_v32, ip->d) = accv; FG_NEXT   /* a whole vector by one bool */
    #define M(t, T) L_clamp_##t: { T x = FG_AT(T, ip->a), y = FG_AT(T, ip->b), z = FG_AT(T, ip->c); y = x > y ? x : y; FG_AT(T, ip->d) = y < z ? y : z; FG_NEXT }
    M(i32, int32_t) M(i64, int64_t)
    #undef M
    L_end: return FG_OK;
    L_fn: ((FgVmFn)ip->fn)(ip->n, ip->d, ip->a, ip->b, ip->c); FG_NEXT
    L_seg: ((FgVmSeg)ip->fn)(ip->d, ip->a, ip->a, ip->n, ip->k, ip->m); FG_NEXT
    L_sum_f32: {
        float x = FG_AT(float, ip->a);
        for (int64_t i = 1; i < ip->k; i++) x += FG_AT(float, ip->a + 4 * i);
        FG_AT(float, ip->d) = x;
        FG_NEXT
    }
    L_call: {
        const FgInst *inst = (const FgInst *)ip->a;
        int rc = inst->run(inst, (FgTensor *)ip->d);
        if (rc != FG_OK) return rc;
        FG_NEXT
    }
    /* m: the largest index, e: the bytes it moves the window by */
    #define FG_BOUND(end) int64_t at = FG_AT(int32_t, ip->b); end at = (at < 0 ? 0 : at > ip->m ? ip->m : at) * (intptr_t)ip->e;
    #define M(size, count) \
        L_take##size: { FG_BOUND() memcpy(ip->d, ip->a + at, count); FG_NEXT } \
        L_take##size##_end: { FG_BOUND(at += at >> 63 & (ip->m + 1);) memcpy(ip->d, ip->a + at, count); FG_NEXT } \
        L_put##size: { FG_BOUND() memcpy(ip->d + at, ip->a, count); FG_NEXT } \
        L_put##size##_in: { \
            int64_t at = FG_AT(int32_t, ip->b); \
            if ((uint64_t)at <= (uint64_t)ip->m) memcpy(ip->d + at * (intptr_t)ip->e, ip->a, count); \
            FG_NEXT } \
        L_takes##size: {                /* b: m starts; e: the plan, whose value is taken in place of a window that is left out */ \
            int64_t at; \
            const FgIndexPlan *g = (const FgIndexPlan *)ip->e; \
            if (fg_flat_offset((const FgFlatStart *)ip->b, ip->m, &at)) memcpy(ip->d, ip->a + at, count); \
            else for (int64_t i = 0; i < ip->n; i += g->item) memcpy(ip->d + i, g->value, g->item); \
            FG_NEXT } \
        L_puts##size: { \
            int64_t at; \
            if (fg_flat_offset((const FgFlatStart *)ip->b, ip->m, &at)) memcpy(ip->d + at, ip->a, count); \
            FG_NEXT }
    M(1, 1)
    M(4, 4)
    M(8, 8)
    M(, ip->n)
    #undef M
    #define FG_BOUND_SUM int64_t at = (int32_t)(FG_AT(uint32_t, ip->b) + FG_AT(uint32_t, ip->g)); at = (at < 0 ? 0 : at > ip->m ? ip->m : at) * (intptr_t)ip->e;
    #define M(size) \
        L_take##size##_sum: { FG_BOUND_SUM memcpy(ip->d, ip->a + at, size); FG_NEXT } \
        L_put##size##_sum: { FG_BOUND_SUM memcpy(ip->d + at, ip->a, size); FG_NEXT }
    M(4)
    M(8)
    #undef M
    #define M(t, T, acc) \
        L_take4_##t: { FG_BOUND() acc = FG_AT(T, ip->a + at); FG_AT(T, ip->d) = acc; FG_NEXT } \
        L_take4_sum_##t: { FG_BOUND_SUM acc = FG_AT(T, ip->a + at); FG_AT(T, ip->d) = acc; FG_NEXT } \
        L_put4_##t: { FG_BOUND() FG_AT(T, ip->d + at) = acc; FG_NEXT } \
        L_put4_in_##t: { \
            int64_t at = FG_AT(int32_t, ip->b); \
            if ((uint64_t)at <= (uint64_t)ip->m) FG_AT(T, ip->d + at * (intptr_t)ip->e) = acc; \
            FG_NEXT } \
        L_put4_sum_##t: { FG_BOUND_SUM FG_AT(T, ip->d + at) = acc; FG_NEXT }
    M(f32, float, accf)
    M(i32, uint32_t, acci)
    #undef M
    L_pack: {                       /* four single numbers of four bytes to a vector */
        uint32_t x = FG_AT(uint32_t, ip->a), y = FG_AT(uint32_t, ip->b), z = FG_AT(uint32_t, ip->c), w = FG_AT(uint32_t, ip->g);
        accv = (fg_v32)(fg_i32x16){(int)x, (int)y, (int)z, (int)w};
        FG_AT(fg_v32, ip->d) = accv;
        FG_NEXT
    }
    L_long_pack: {                  /* of eight bytes */
        int64_t x = FG_AT(int64_t, ip->a), y = FG_AT(int64_t, ip->b), z = FG_AT(int64_t, ip->c), w = FG_AT(int64_t, ip->g);
        accw = (fg_v64)(fg_i64x8){x, y, z, w};
        FG_AT(fg_v64, ip->d) = accw;
        FG_NEXT
    }
    L_lanes: {                      /* b: how many bytes away each of 16 numbers of four bytes is */
        const int32_t *at = (const int32_t *)ip->b;
        #define M(i) FG_AT(int32_t, ip->a + at[i])
        accv = (fg_v32)(fg_i32x16){M(0), M(1), M(2), M(3), M(4), M(5), M(6), M(7), M(8), M(9), M(10), M(11), M(12), M(13), M(14), M(15)};
        #undef M
        FG_AT(fg_v32, ip->d) = accv;
        FG_NEXT
    }
    L_permute: {                    /* as lanes, from n vectors */
#if FG_FLAT_PERMUTES
        const FgFlatWindow *w = (const FgFlatWindow *)ip->b;
        __m512i x = _mm512_setzero_si512();
        for (int64_t i = 0; i < ip->n; i++, w++)
            x = _mm512_mask_permutexvar_epi32(x, (__mmask16)w->mask, _mm512_load_si512(w->at), _mm512_load_si512(ip->a + w->offset));
        accv = (fg_v32)x;
        FG_AT(fg_v32, ip->d) = accv;
#endif
        FG_NEXT
    }
    L_dot: {                        /* products of numbers of the vectors at a and b, added up in the order of g, n steps */
#if FG_FLAT_PERMUTES
        const FgFlatStep *s = (const FgFlatStep *)ip->g;
        __m512 x = _mm512_loadu_ps(ip->a), y = _mm512_loadu_ps(ip->b), sum = _mm512_setzero_ps();
        for (int64_t i = 0; i < ip->n; i++, s++)
            sum = _mm512_fmadd_ps(_mm512_permutexvar_ps(_mm512_load_si512(s->a), x), _mm512_permutexvar_ps(_mm512_load_si512(s->b), y), sum);
        accv = (fg_v32)sum;
        FG_AT(fg_v32, ip->d) = accv;
#endif
        FG_NEXT
    }
    L_splat1: FG_AT(fg_i8x64, ip->d) = (fg_i8x64){0} + *(const int8_t *)ip->a; FG_NEXT
    L_splat4: accv = (fg_v32)((fg_i32x16){0} + FG_AT(int32_t, ip->a)); FG_AT(fg_v32, ip->d) = accv; FG_NEXT
    L_splat8: accw = (fg_v64)((fg_i64x8){0} + FG_AT(int64_t, ip->a)); FG_AT(fg_v64, ip->d) = accw; FG_NEXT
    L_copy1: *ip->d = *ip->a; FG_NEXT
    L_copy4: FG_AT(uint32_t, ip->d) = FG_AT(uint32_t, ip->a); FG_NEXT
    L_copy8: FG_AT(uint64_t, ip->d) = FG_AT(uint64_t, ip->a); FG_NEXT
    /* the first and the last 16 or 32 of n bytes */
    #define FG_ENDS(size, to, from) { char u[size], v[size]; const char *q = (from); char *r = (to); \
        memcpy(u, q, size); memcpy(v, q + ip->n - size, size); memcpy(r, u, size); memcpy(r + ip->n - size, v, size); }
    L_copy16: FG_ENDS(16, ip->d, ip->a) FG_NEXT
    L_copy32: FG_ENDS(32, ip->d, ip->a) FG_NEXT
    L_copy64: FG_AT(fg_v32, ip->d) = FG_AT(fg_v32, ip->a); FG_NEXT
    L_copy: if (ip->d != ip->a) memcpy(ip->d, ip->a, ip->n); FG_NEXT       /* a large operand may be where its result is */
    /* what a turn finds in a register, before the first one */
    L_hold_f32: accf = FG_AT(float, ip->a); FG_NEXT
    L_hold_f64: accd = FG_AT(double, ip->a); FG_NEXT
    L_hold_v32: accv = FG_AT(fg_v32, ip->a); FG_NEXT
    L_hold_v64: accw = FG_AT(fg_v64, ip->a); FG_NEXT
    L_hold_i32: acci = FG_AT(uint32_t, ip->a); FG_NEXT
    L_hold_i64: accl = FG_AT(uint64_t, ip->a); FG_NEXT
    L_gather: {                     /* m: itemsize; b: where each of n items is, in items */
        const int32_t *at = (const int32_t *)ip->b;
        #define M(T) for (int64_t i = 0; i < ip->n; i++) ((T *)ip->d)[i] = ((const T *)ip->a)[at[i]];
        FG_BY_SIZE(ip->m, M)
        #undef M
        FG_NEXT
    }
    L_scatter: {
        const int32_t *at = (const int32_t *)ip->b;
        #define M(T) for (int64_t i = 0; i < ip->n; i++) ((T *)ip->d)[at[i]] = ((const T *)ip->a)[i];
        FG_BY_SIZE(ip->m, M)
        #undef M
        FG_NEXT
    }
    L_items: ((void (*)(char *, const char *, const FgFlatItems *))ip->fn)(ip->d, ip->a, (const FgFlatItems *)ip->b); FG_NEXT   /* a, d: n and g bytes */
    /* every turn of a loop passes one of these */
    #define FG_TURN(by) { ip += (by); if (__builtin_expect(--until <= 0, 0)) goto look; FG_GO }
    look: if (fg_turns_look(&turns)) return FG_EPYTHON; until = turns.left; FG_GO
    L_jump: FG_TURN(ip->n)
    L_unless: FG_JUMP(*(const uint8_t *)ip->a ? 1 : ip->n)
    /* a comparison that only decides here; m: to the turn of a loop, or to a branch */
    #define M(name, t, expr, T) L_unless_##name##_##t: { T x = FG_AT(T, ip->a), y = FG_AT(T, ip->b); FG_TURN((expr) ? ip->m : ip->n) }
    FG_FLAT_COMPARE_ONE(M)
    #undef M
    L_branch: {                     /* a: the index; b: n jumps */
        int64_t i = FG_AT(int32_t, ip->a);
        FG_JUMP(((const int32_t *)ip->b)[i < 0 ? 0 : i >= ip->n ? ip->n - 1 : i])
    }
    L_branch2: FG_JUMP(((const int32_t *)ip->b)[*(const uint8_t *)ip->a != 0])
    L_set: FG_AT(int64_t, ip->d) = ip->n; FG_NEXT
    L_point: FG_AT(char *, ip->d) = FG_AT(char *, ip->a) + ip->n; FG_NEXT
    L_loop: FG_TURN(--FG_AT(int64_t, ip->d) ? ip->n : ip->k)     /* k: to behind the loop */
    /* of a loop without loops inside: k, n: to its first turn */
    #define FG_AGAIN(goes_on) { if (goes_on) ip = top; else ip += ip->n; if (__builtin_expect(--until <= 0, 0)) goto look; FG_GO }
    L_count: left = ip->n; top = ip + ip->k; FG_NEXT
    L_again: FG_AGAIN(--left)
    L_enter: top = ip + ip->n; FG_NEXT
    L_back: FG_AGAIN(1)
    #define M(name, t, expr, T) L_again_##name##_##t: { T x = FG_AT(T, ip->a), y = FG_AT(T, ip->b); FG_AGAIN(expr) }
    FG_FLAT_COMPARE_ONE(M)
    #undef M
    /* a sum, then again while that is less than c */
    #define FG_STEP(x) { acci = (x) + FG_AT(uint32_t, ip->b); FG_AT(uint32_t, ip->d) = acci; FG_AGAIN((int32_t)acci < FG_AT(int32_t, ip->c)) }
    L_step: FG_STEP(FG_AT(uint32_t, ip->a))
    L_step_held: FG_STEP(acci)
    /* from and to the row that a pointer is at, which moves on by k bytes */
    #define FG_MOVE(cell) { char *at = FG_AT(char *, cell); FG_AT(char *, cell) = at + ip->k;
    L_load4: FG_MOVE(ip->a) FG_AT(uint32_t, ip->d) = FG_AT(uint32_t, at); } FG_NEXT
    L_load8: FG_MOVE(ip->a) memcpy(ip->d, at, 8); } FG_NEXT
    /* as whole vectors: what reads one would wait long for a store of less */
    L_loadv8: { FG_MOVE(ip->a) int64_t x; memcpy(&x, at, 8); FG_AT(fg_i64x8, ip->d) = (fg_i64x8){x}; } FG_NEXT }
    L_loadv12: { FG_MOVE(ip->a) int64_t x; uint32_t y; memcpy(&x, at, 8); memcpy(&y, at + 8, 4);
        FG_AT(fg_i64x8, ip->d) = (fg_i64x8){x, y}; } FG_NEXT }
    L_loadv16: { FG_MOVE(ip->a) int64_t x, y; memcpy(&x, at, 8); memcpy(&y, at + 8, 8); FG_AT(fg_i64x8, ip->d) = (fg_i64x8){x, y}; } FG_NEXT }
    L_loadv32: { FG_MOVE(ip->a) fg_i64x4 u = *(const fg_i64x4 *)at, z = {0};
        FG_AT(fg_i64x8, ip->d) = __builtin_shufflevector(u, z, 0, 1, 2, 3, 4, 5, 6, 7); } FG_NEXT }
    L_loadv: {                      /* n bytes; m: which numbers of the last vector */
#if FG_FLAT_PERMUTES
        int64_t i = 0;
        FG_MOVE(ip->a)
            for (; i + 64 < ip->n; i += 64) _mm512_store_si512(ip->d + i, _mm512_loadu_si512(at + i));
            _mm512_store_si512(ip->d + i, _mm512_maskz_loadu_epi32((__mmask16)ip->m, at + i)); }
#endif
        FG_NEXT
    }
    L_load16: FG_MOVE(ip->a) FG_ENDS(16, ip->d, at) } FG_NEXT
    L_load32: FG_MOVE(ip->a) FG_ENDS(32, ip->d, at) } FG_NEXT
    L_load: FG_MOVE(ip->a) memcpy(ip->d, at, ip->n); } FG_NEXT
    L_store4: FG_MOVE(ip->d) FG_AT(uint32_t, at) = FG_AT(uint32_t, ip->a); } FG_NEXT
    L_store8: FG_MOVE(ip->d) memcpy(at, ip->a, 8); } FG_NEXT
    L_storev: {                     /* as loadv, from whole vectors: no call for a few bytes */
#if FG_FLAT_PERMUTES
        int64_t i = 0;
        FG_MOVE(ip->d)
            for (; i + 64 < ip->n; i += 64) _mm512_storeu_si512(at + i, _mm512_loadu_si512(ip->a + i));
            _mm512_mask_storeu_epi32(at + i, (__mmask16)ip->m, _mm512_loadu_si512(ip->a + i)); }
#endif
        FG_NEXT
    }
    L_store: FG_MOVE(ip->d) memcpy(at, ip->a, ip->n); } FG_NEXT
    /* behind the others, whose places in the code decide how fast they are */
    #define M(name, t, T, acc, expr) \
        L_##name##_##t##_mm: { T x = FG_AT(T, ip->a), y = FG_AT(T, ip->b); acc = expr; FG_AT(T, ip->d) = acc; FG_NEXT } \
        L_##name##_##t##_am: { T x = acc, y = FG_AT(T, ip->b); acc = expr; FG_AT(T, ip->d) = acc; FG_NEXT } \
        L_##name##_##t##_ma: { T x = FG_AT(T, ip->a), y = acc; acc = expr; FG_AT(T, ip->d) = acc; FG_NEXT }
    FG_FLAT_INTEGERS(M) FG_FLAT_LONGS(M)
    #undef M
    #define M(name, t, expr, V) L_##name##_##t: { V x = FG_AT(V, ip->a), y = FG_AT(V, ip->b); \
        FG_AT(FG_FLAT_BYTES_##t, ip->d) = __builtin_convertvector(expr, FG_FLAT_BYTES_##t) & 1; FG_NEXT }
    FG_FLAT_COMPARE_OF(M, w32, fg_i32x16)
    #undef M
    #define M(name, t, expr, T) L_##name##_##t: { T x = FG_AT(T, ip->a), y = FG_AT(T, ip->b); (void)y; FG_AT(T, ip->d) = (T)(expr); FG_NEXT }
    FG_FLAT_NARROW(M)
    #undef M
    #define M(name, t, expr, T) L_##name##_##t: { T x = FG_AT(T, ip->a), y = FG_AT(T, ip->b); *(uint8_t *)ip->d = (uint8_t)(expr); FG_NEXT }
    FG_FLAT_NARROW_COMPARE(M)
    #undef M
    #define M(s, S, t, T) L_cast_##s##_##t: { S x = FG_AT(S, ip->a); FG_AT(T, ip->d) = (T)x; FG_NEXT }
    FG_FLAT_NARROW_CAST(M)
    #undef M
    L_select_h1: { uint16_t y = FG_AT(uint16_t, ip->b), z = FG_AT(uint16_t, ip->c); FG_AT(uint16_t, ip->d) = *(const uint8_t *)ip->a ? y : z; FG_NEXT }
    #define M(name, t, expr, V) L_##name##_##t: { V x = FG_AT(V, ip->a), y = FG_AT(V, ip->b); (void)y; FG_AT(V, ip->d) = (V)(expr); FG_NEXT }
    FG_FLAT_TINY(M)
    #undef M
    #define FG_TINY_q8(m) FG_AT(fg_i8x64, ip->d) = (fg_i8x64)(m) & 1;
    #define FG_TINY_s8(m) FG_TINY_q8(m)
    #define FG_TINY_q16(m) FG_AT(fg_i8x32, ip->d) = __builtin_convertvector((fg_i16x32)(m), fg_i8x32) & 1;
    #define FG_TINY_s16(m) FG_TINY_q16(m)
    #define M(name, t, expr, V) L_##name##_##t: { V x = FG_AT(V, ip->a), y = FG_AT(V, ip->b); FG_TINY_##t(expr) FG_NEXT }
    FG_FLAT_TINY_COMPARE(M)
    #undef M
    #undef FG_TINY_q8
    #undef FG_TINY_s8
    #undef FG_TINY_q16
    #undef FG_TINY_s16
    L_select_q8: { fg_i8x64 m = FG_AT(fg_i8x64, ip->a) != 0; FG_AT(fg_i8x64, ip->d) = FG_FLAT_PICK(fg_i8x64, fg_i8x64, m, FG_AT(fg_i8x64, ip->b), FG_AT(fg_i8x64, ip->c)); FG_NEXT }
    L_select_q16: { fg_i16x32 m = __builtin_convertvector(FG_AT(fg_i8x32, ip->a), fg_i16x32) != 0;
        FG_AT(fg_i16x32, ip->d) = FG_FLAT_PICK(fg_i16x32, fg_i16x32, m, FG_AT(fg_i16x32, ip->b), FG_AT(fg_i16x32, ip->c)); FG_NEXT }
    #define M(name, t, T, acc, expr) \
        L_##name##_##t##_m: { T x = FG_AT(T, ip->a); acc = expr; FG_AT(T, ip->d) = acc; FG_NEXT } \
        L_##name##_##t##_a: { T x = acc; acc = expr; FG_AT(T, ip->d) = acc; FG_NEXT }
    FG_FLAT_ROUND(M)
    #undef M
    #define M(t, T) \
        L_widen_##t: fg_flat_widened(T, (float *)ip->d, (const uint16_t *)ip->a, 16); accv = FG_AT(fg_v32, ip->d); FG_NEXT \
        L_widen1_##t: fg_flat_widened(T, (float *)ip->d, (const uint16_t *)ip->a, 1); accf = FG_AT(float, ip->d); FG_NEXT \
        L_narrow_##t: fg_flat_narrowed(T, (uint16_t *)ip->d, (const float *)ip->a, 16); FG_NEXT \
        L_narrow1_##t: fg_flat_narrowed(T, (uint16_t *)ip->d, (const float *)ip->a, 1); FG_NEXT
    M(bf16, FG_BF16) M(f16, FG_F16)
    #undef M
    L_bytes: {                      /* as permute, of bytes */
#if FG_FLAT_PERMUTES_BYTES
        const FgFlatPieces *w = (const FgFlatPieces *)ip->b;
        __m512i x = _mm512_setzero_si512();
        for (int64_t i = 0; i < ip->n; i++, w++)
            x = _mm512_mask_permutexvar_epi8(x, (__mmask64)w->mask, _mm512_load_si512(w->at), _mm512_load_si512(ip->a + w->offset));
        _mm512_store_si512(ip->d, x);
#endif
        FG_NEXT
    }
    L_splat2: FG_AT(fg_i16x32, ip->d) = (fg_i16x32){0} + FG_AT(int16_t, ip->a); FG_NEXT
#if FG_FLAT_PERMUTES
    #define M(name) L_##name: \
        accv = (fg_v32)fg_fold_##name((__m512)accv, ip->a, (const FgFlatFold *)ip->b, (FgVmSeg)ip->fn, ip->d); FG_AT(fg_v32, ip->d) = accv; FG_NEXT
    M(sums1) M(sums2) M(sums4) M(maxima1) M(maxima2) M(maxima4) M(minima1) M(minima2) M(minima4)
    #undef M
    #define M(name) L_##name: accv = (fg_v32)fg_fold_##name((__m512)accv, ip->a, (const FgFlatFold *)ip->b); FG_AT(fg_v32, ip->d) = accv; FG_NEXT
    M(argmaxima1) M(argmaxima2) M(argmaxima4) M(argminima1) M(argminima2) M(argminima4)
    #undef M
    L_permute1: {
        const FgFlatWindow *w = (const FgFlatWindow *)ip->b;
        accv = (fg_v32)_mm512_maskz_permutexvar_ps((__mmask16)w->mask, _mm512_load_si512(w->at), (__m512)accv);
        FG_AT(fg_v32, ip->d) = accv;
        FG_NEXT
    }
    L_argmax: acci = (uint32_t)fg_fold_argmax(ip->a, ip->n); FG_AT(uint32_t, ip->d) = acci; FG_NEXT
    L_argmin: acci = (uint32_t)fg_fold_argmin(ip->a, ip->n); FG_AT(uint32_t, ip->d) = acci; FG_NEXT
    L_dot1: accf = ip->g ? fg_fold_dot(ip->a, ip->b, (const FgFlatStep *)ip->g, ip->n) : fg_fold_line(ip->a, ip->b, ip->n);   /* as dot, of one number */
        FG_AT(float, ip->d) = accf; FG_NEXT
    L_long_dot1: accd = ip->g ? _mm512_cvtsd_f64(fg_fold_long_dot(ip->a, ip->b, (const FgFlatLongStep *)ip->g, ip->n)) : fg_fold_long_line(ip->a, ip->b, ip->n);
        FG_AT(double, ip->d) = accd; FG_NEXT
    L_long_dot: accw = (fg_v64)fg_fold_long_dot(ip->a, ip->b, (const FgFlatLongStep *)ip->g, ip->n); FG_AT(fg_v64, ip->d) = accw; FG_NEXT
#else
    #define M(name) L_##name:
    FG_FLAT_FOLDS(M) M(long_dot1) M(long_dot) L_dot1: FG_NEXT
    #undef M
#endif
}
#endif
