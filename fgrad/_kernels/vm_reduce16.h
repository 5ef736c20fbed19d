/* Reductions of 16-bit floats that widen as they read, so that no tile of float32 is written and read again. */
#ifndef FG_VM_REDUCE16_H
#define FG_VM_REDUCE16_H
#include "half.h"
#include "vm_plan.h"

enum { FG_W = FG_VEC / 4, FG_WIDE_BLOCK = 2048, FG_WIDE_ROW = 128, FG_WIDE_COLUMNS = 64 };
typedef uint32_t fg_words __attribute__((vector_size(FG_VEC)));
typedef uint16_t fg_halves __attribute__((vector_size(FG_VEC / 2)));

/* FG_W numbers at p */
FG_INLINE vec_f32 fg_wide_bf16(const uint16_t *p) {
#if defined(__AVX512F__)
    return (vec_f32)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16);
#else
    fg_halves h;
    memcpy(&h, p, sizeof h);
    return (vec_f32)(__builtin_convertvector(h, fg_words) << 16);
#endif
}
FG_INLINE vec_f32 fg_wide_f16(const uint16_t *p) {
#if defined(__AVX512F__)
    return (vec_f32)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#elif defined(__F16C__) && defined(__AVX__)
    return (vec_f32)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#else
    float f[FG_W]; vec_f32 v;
    for (int j = 0; j < FG_W; j++) f[j] = fg_half(p[j]);
    memcpy(&v, f, sizeof v);
    return v;
#endif
}
/* 2 FG_W numbers at p, in the order that costs least */
FG_INLINE void fg_pair_bf16(const uint16_t *p, vec_f32 *v) {
    fg_words w;
    memcpy(&w, p, sizeof w);
    v[0] = (vec_f32)(w << 16);
    v[1] = (vec_f32)(w & 0xffff0000u);
}
FG_INLINE void fg_pair_f16(const uint16_t *p, vec_f32 *v) { v[0] = fg_wide_f16(p); v[1] = fg_wide_f16(p + FG_W); }

#define FG_ONE_WIDE_bf16(h) fg_bf16_to_f32(h)
#define FG_ONE_WIDE_f16(h) fg_half(h)
#define FG_DTYPE_bf16 FG_BF16
#define FG_DTYPE_f16 FG_F16
/* a term: of one operand, or of two, whose product float32 holds (all of it, so that fused additions give the same) */
#define FG_ALONE(x, y) (x)
#define FG_TIMES(x, y) ((x) * (y))
#define FG_NO_NAN(bad, a, b) ((void)bad)

/* v = 4 FG_W terms of what lies at p and, of products, at r */
#define FG_WIDE_TERMS(t, factors, v, p, r) { \
    fg_pair_##t(p, v); fg_pair_##t(p + 2 * FG_W, v + 2); \
    if (factors == 2) { \
        vec_f32 w_[4]; \
        fg_pair_##t(r, w_); fg_pair_##t(r + 2 * FG_W, w_ + 2); \
        _Pragma("GCC unroll 4") for (int j_ = 0; j_ < 4; j_++) v[j_] *= w_[j_]; \
    } \
}
#define FG_WIDE_PASS(m, t, OP_, ID, CHECK_, TERM_) \
    for (j = 0; j + FG_W <= n; j += FG_W) { \
        vec_f32 x; \
        if (empty) x = (ID) - (vec_f32){0}; else memcpy(&x, d + j, sizeof x); \
        _Pragma("GCC unroll 8") for (int64_t r = 0; r < (m); r++) { \
            vec_f32 y = TERM_(fg_wide_##t(s + r * stride + j), fg_wide_##t(q + r * stride + j)); \
            CHECK_(bad, y, y); \
            x = OP_(y, x); \
        } \
        memcpy(d + j, &x, sizeof x); \
    }

/* name: the reduction; OP, ONE: of vectors and of numbers; ID: its identity as a number, and HALF as 16 bits; CHECK: notes NaN, which
 * OP passes over. */
#define VM_WIDE(name, t, OP_, ONE, ID, HALF, CHECK_, FACTORS_, TERM_) \
static float wide_row_##name##_##t(const uint16_t *s, const uint16_t *q, int64_t k) { \
    enum { L = 4 * FG_W }; \
    if (k > FG_WIDE_BLOCK) { \
        int64_t h = k / 2; \
        float x = wide_row_##name##_##t(s, q, h), y = wide_row_##name##_##t(s + h, q + h, k - h); \
        return ONE(x, y); \
    } \
    uint16_t last[L], last_q[L]; \
    vec_f32 acc[4], v[4]; \
    fg_nan_f32 bad = {0}; \
    int64_t i = L; \
    FG_WIDE_TERMS(t, FACTORS_, acc, s, q) \
    CHECK_(bad, acc[0], acc[1]); CHECK_(bad, acc[2], acc[3]); \
    for (; i < k; i += L) { \
        const uint16_t *a = s + i, *b = q + i; \
        if (k - i < L) { \
            for (int j = 0; j < L; j++) last[j] = last_q[j] = HALF; \
            memcpy(last, a, (k - i) * 2); \
            if (FACTORS_ == 2) { memset(last_q, 0, sizeof last_q); memcpy(last_q, b, (k - i) * 2); } \
            a = last; b = last_q; \
        } \
        FG_WIDE_TERMS(t, FACTORS_, v, a, b) \
        CHECK_(bad, v[0], v[1]); CHECK_(bad, v[2], v[3]); \
        _Pragma("GCC unroll 4") for (int j = 0; j < 4; j++) acc[j] = OP_(v[j], acc[j]); \
    } \
    acc[0] = OP_(acc[1], acc[0]); acc[2] = OP_(acc[3], acc[2]); acc[0] = OP_(acc[2], acc[0]); \
    float f[FG_W]; \
    memcpy(f, acc, sizeof f); \
    for (int h = FG_W / 2; h > 0; h /= 2) for (int j = 0; j < h; j++) { float x = f[j], y = f[j + h]; f[j] = ONE(x, y); } \
    return FG_ANY_NAN(f32, bad) ? NAN : f[0]; \
} \
/* 8 tiles a pass; where there was a NaN, they go through the loop over numbers as well */ \
static void vm_tiles_wide_##name##_##t(void *d_, const void *s_, const void *q_, int64_t tiles, int64_t n, int64_t stride, int empty) { \
    float *d = (float *)d_; const uint16_t *s = (const uint16_t *)s_, *q = (const uint16_t *)q_; \
    for (int64_t m; tiles > 0; tiles -= m, s += m * stride, q += m * stride, empty = 0) { \
        int64_t j, again; \
        fg_nan_f32 bad = {0}; \
        m = tiles < 8 ? tiles : 8; \
        if (m == 8) FG_WIDE_PASS(8, t, OP_, ID, CHECK_, TERM_) else FG_WIDE_PASS(m, t, OP_, ID, CHECK_, TERM_) \
        again = FG_ANY_NAN(f32, bad) ? 0 : j; \
        for (; empty && j < n; j++) d[j] = ID; \
        for (int64_t r = 0; r < m; r++) \
            for (j = again; j < n; j++) { \
                float x = d[j], y = TERM_(FG_ONE_WIDE_##t(s[r * stride + j]), FG_ONE_WIDE_##t(q[r * stride + j])); \
                d[j] = ONE(x, y); \
            } \
    } \
} \
static void vm_seg_wide_##name##_##t(void *d_, const void *s_, const void *q_, int64_t rows, int64_t k, int64_t width) { \
    float *d = (float *)d_; const uint16_t *s = (const uint16_t *)s_, *q = (const uint16_t *)q_; \
    int64_t per = k * width, m; \
    if (per <= FG_WIDE_BLOCK && (width == 1 ? k < FG_WIDE_ROW : width < FG_WIDE_COLUMNS)) {      /* short rows: as float32 */ \
        float wide[FG_WIDE_BLOCK], wide_q[FACTORS_ == 2 ? FG_WIDE_BLOCK : 1]; \
        FgVmSeg seg = FACTORS_ == 2 ? vm_seg_dot_f32 : fg_vm_seg[FG_WIDE_##name][FG_F32]; \
        for (; rows > 0; rows -= m, d += m * width, s += m * per, q += m * per) { \
            m = rows < FG_WIDE_BLOCK / per ? rows : FG_WIDE_BLOCK / per; \
            fg_vm_widen(FG_DTYPE_##t, m * per, (char *)wide, (const char *)s); \
            if (FACTORS_ == 2) fg_vm_widen(FG_DTYPE_##t, m * per, (char *)wide_q, (const char *)q); \
            seg(d, wide, FACTORS_ == 2 ? wide_q : wide, m, k, width); \
        } \
        return; \
    } \
    for (int64_t r = 0; r < rows; r++, d += width, s += per, q += per) { \
        if (width == 1) *d = wide_row_##name##_##t(s, q, k); \
        else vm_tiles_wide_##name##_##t(d, s, q, k, width, width, 1); \
    } \
}
#define VM_WIDE_TYPE(t, ONE_BITS, INF) \
    VM_WIDE(sum, t, FG_ADD, FG_ADD, -0.0f, 0x8000, FG_NO_NAN, 1, FG_ALONE) \
    VM_WIDE(dot, t, FG_ADD, FG_ADD, -0.0f, 0x8000, FG_NO_NAN, 2, FG_TIMES) \
    VM_WIDE(prod, t, FG_MUL, FG_MUL, 1.0f, ONE_BITS, FG_NO_NAN, 1, FG_ALONE) \
    VM_WIDE(max, t, vec_max_f32, FG_MAX, -INFINITY, 0x8000 | INF, FG_ADD_NAN_f32, 1, FG_ALONE) \
    VM_WIDE(min, t, vec_min_f32, FG_MIN, INFINITY, INF, FG_ADD_NAN_f32, 1, FG_ALONE)
enum { FG_WIDE_sum = FG_RED_SUM, FG_WIDE_dot = FG_RED_SUM, FG_WIDE_prod = FG_RED_PROD, FG_WIDE_max = FG_RED_MAX, FG_WIDE_min = FG_RED_MIN };
VM_WIDE_TYPE(bf16, 0x3f80, 0x7f80)
VM_WIDE_TYPE(f16, 0x3c00, 0x7c00)

/* The loops that reduce a 16-bit dtype, or its products; NULL where there are none. */
static inline FgVmSeg fg_vm_seg_wide(int reduce, int dot, int dtype) {
    static const FgVmSeg seg[2][FG_RED_COUNT] = {
        {[FG_RED_SUM] = vm_seg_wide_sum_bf16, [FG_RED_PROD] = vm_seg_wide_prod_bf16, [FG_RED_MAX] = vm_seg_wide_max_bf16,
         [FG_RED_MIN] = vm_seg_wide_min_bf16},
        {[FG_RED_SUM] = vm_seg_wide_sum_f16, [FG_RED_PROD] = vm_seg_wide_prod_f16, [FG_RED_MAX] = vm_seg_wide_max_f16,
         [FG_RED_MIN] = vm_seg_wide_min_f16}};
    if (dtype != FG_BF16 && dtype != FG_F16) return 0;
    return dot ? (dtype == FG_F16 ? vm_seg_wide_dot_f16 : vm_seg_wide_dot_bf16) : seg[dtype == FG_F16][reduce];
}
static inline FgVmTiles fg_vm_tiles_wide(int reduce, int dot, int dtype) {
    static const FgVmTiles tiles[2][FG_RED_COUNT] = {
        {[FG_RED_SUM] = vm_tiles_wide_sum_bf16, [FG_RED_PROD] = vm_tiles_wide_prod_bf16, [FG_RED_MAX] = vm_tiles_wide_max_bf16,
         [FG_RED_MIN] = vm_tiles_wide_min_bf16},
        {[FG_RED_SUM] = vm_tiles_wide_sum_f16, [FG_RED_PROD] = vm_tiles_wide_prod_f16, [FG_RED_MAX] = vm_tiles_wide_max_f16,
         [FG_RED_MIN] = vm_tiles_wide_min_f16}};
    return dot ? (dtype == FG_F16 ? vm_tiles_wide_dot_f16 : vm_tiles_wide_dot_bf16) : tiles[dtype == FG_F16][reduce];
}
#endif
