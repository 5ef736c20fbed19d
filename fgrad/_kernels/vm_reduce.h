/* Segmented reductions: d[r, j] = reduction over k of s[r, k, j], or of s[r, k, j] * q[r, k, j]. */
#ifndef FG_VM_REDUCE_H
#define FG_VM_REDUCE_H
#include "extremum.h"
#include "narrow.h"
#include "vec_order.h"
#include "vm_table.h"

/* A row is reduced in LANES independent partial results, long rows by halves, so that a float32 sum's error grows like
 * log(k) and the loop is limited by loads, not by the latency of an addition. */
#define FG_LANES(T) (sizeof(T) >= 4 ? 64 / sizeof(T) : 32)
#define FG_HALVE(h, OP, T) if (L > h) FG_SIMD for (int j = 0; j < h; j++) { T x = acc[j], y = acc[j + h]; acc[j] = (T)OP(x, y); }
/* Short rows are turned into columns, FG_NARROW_ROWS of them at a time, and reduced in vectors of rows, each in its own order. */
enum { FG_NARROW_ROWS = 64, FG_NARROW_LONG = 64, FG_NARROW_BYTES = 128 };
#define FG_COLUMNS(d, s, rows, k, size) ((size) == 1 ? fg_columns_1 : (size) == 2 ? fg_columns_2 : (size) == 4 ? fg_columns_4 \
    : fg_columns_8)(d, FG_NARROW_ROWS, s, rows, k)
#define VM_SEG_NARROW(name, t, T, OP, AT) \
    static void seg_narrow_##name##_##t(T *d, const T *s, const T *q, int64_t rows, int64_t k) { \
        enum { L = FG_LANES(T) < FG_NARROW_ROWS ? FG_LANES(T) : FG_NARROW_ROWS }; \
        T columns[FG_NARROW_ROWS * FG_NARROW_BYTES / sizeof(T)], row[FG_NARROW_ROWS * FG_NARROW_BYTES / sizeof(T)]; \
        for (int64_t r = 0; r < rows; r += FG_NARROW_ROWS, s += FG_NARROW_ROWS * k, q += FG_NARROW_ROWS * k) { \
            int64_t m = rows - r < FG_NARROW_ROWS ? rows - r : FG_NARROW_ROWS; \
            FG_COLUMNS(columns, AT##_ROWS(row, m * k), m, k, sizeof(T)); \
            for (int64_t b = 0; b < m; b += L) { \
                T acc[L]; \
                for (int j = 0; j < L; j++) acc[j] = columns[b + j]; \
                for (int64_t i = 1; i < k; i++) \
                    FG_SIMD for (int j = 0; j < L; j++) { T x = acc[j], y = columns[i * FG_NARROW_ROWS + b + j]; acc[j] = (T)OP(x, y); } \
                memcpy(d + r + b, acc, (m - b < L ? m - b : L) * sizeof(T)); \
            } \
        } \
    }
#define VM_SEG_OF(name, t, T, OP, AT) \
    VM_SEG_NARROW(name, t, T, OP, AT) \
    static T seg_row_##name##_##t(const T *s, const T *q, int64_t k) { \
        enum { L = FG_LANES(T) }; \
        T acc[L]; int64_t i; \
        if (k > 2048) { int64_t h = k / 2; \
            T x = seg_row_##name##_##t(s, q, h), y = seg_row_##name##_##t(s + h, q + h, k - h); return (T)OP(x, y); } \
        if (k < L) { T x = AT(0); for (i = 1; i < k; i++) { T y = AT(i); x = (T)OP(x, y); } return x; } \
        for (int j = 0; j < L; j++) acc[j] = AT(j); \
        i = L; \
        if (k >= 8 * L) {        /* four chains hide the latency of OP */ \
            T b[L], c[L], e[L]; \
            for (int j = 0; j < L; j++) { b[j] = AT(L + j); c[j] = AT(2 * L + j); e[j] = AT(3 * L + j); } \
            for (i = 4 * L; i + 4 * L <= k; i += 4 * L) { \
                FG_SIMD for (int j = 0; j < L; j++) { T x = acc[j], y = AT(i + j); acc[j] = (T)OP(x, y); } \
                FG_SIMD for (int j = 0; j < L; j++) { T x = b[j], y = AT(i + L + j); b[j] = (T)OP(x, y); } \
                FG_SIMD for (int j = 0; j < L; j++) { T x = c[j], y = AT(i + 2 * L + j); c[j] = (T)OP(x, y); } \
                FG_SIMD for (int j = 0; j < L; j++) { T x = e[j], y = AT(i + 3 * L + j); e[j] = (T)OP(x, y); } \
            } \
            FG_SIMD for (int j = 0; j < L; j++) { T x = acc[j], y = c[j]; acc[j] = (T)OP(x, y); } \
            FG_SIMD for (int j = 0; j < L; j++) { T x = b[j], y = e[j]; b[j] = (T)OP(x, y); } \
            FG_SIMD for (int j = 0; j < L; j++) { T x = acc[j], y = b[j]; acc[j] = (T)OP(x, y); } \
        } \
        for (; i + L <= k; i += L) FG_SIMD for (int j = 0; j < L; j++) { T x = acc[j], y = AT(i + j); acc[j] = (T)OP(x, y); } \
        FG_HALVE(16, OP, T) FG_HALVE(8, OP, T) FG_HALVE(4, OP, T) FG_HALVE(2, OP, T) FG_HALVE(1, OP, T) \
        T r = acc[0]; \
        if (i < k) { T x = AT(i); for (i++; i < k; i++) { T y = AT(i); x = (T)OP(x, y); } T y = r; r = (T)OP(x, y); } \
        return r; \
    } \
    static void vm_seg_##name##_##t(void *d_, const void *s_, const void *q_, int64_t rows, int64_t k, int64_t width) { \
        T *d = (T *)d_; const T *s = (const T *)s_, *q = (const T *)q_; \
        if (width == 1 && k > 1 && k <= FG_NARROW_LONG && k * (int64_t)sizeof(T) <= FG_NARROW_BYTES && sizeof(T) <= 8 && rows >= 16) { \
            seg_narrow_##name##_##t(d, s, q, rows, k); return; } \
        if (width == 1) { for (int64_t r = 0; r < rows; r++) d[r] = seg_row_##name##_##t(s + r * k, q + r * k, k); return; } \
        for (int64_t r = 0; r < rows; r++, d += width) { \
            FG_SIMD for (int64_t j = 0; j < width; j++) d[j] = AT(j); \
            s += width; q += width; \
            for (int64_t i = 1; i < k; i++, s += width, q += width) \
                FG_SIMD for (int64_t j = 0; j < width; j++) { T x = d[j], y = AT(j); d[j] = (T)OP(x, y); } \
        } \
    }
/* d[j] = reduction of d[j] (unless it is empty) and of the n terms at j of `tiles` tiles, `stride` elements apart, one after the other:
 * four tiles a pass, so that d is loaded and stored once for four of them. */
#define VM_TILES(name, t, T, OP, AT) \
    static void vm_tiles_##name##_##t(void *d_, const void *s_, const void *q_, int64_t tiles, int64_t n, int64_t stride, int empty) { \
        T *d = (T *)d_; const T *s = (const T *)s_, *q = (const T *)q_; (void)q; \
        if (empty) { FG_SIMD for (int64_t j = 0; j < n; j++) d[j] = AT(j); s += stride; q += stride; tiles--; } \
        for (; tiles >= 4; tiles -= 4, s += 4 * stride, q += 4 * stride) \
            FG_SIMD for (int64_t j = 0; j < n; j++) { \
                T x = d[j], y = AT(j); x = (T)OP(x, y); \
                y = AT(j + stride); x = (T)OP(x, y); \
                y = AT(j + 2 * stride); x = (T)OP(x, y); \
                y = AT(j + 3 * stride); d[j] = (T)OP(x, y); \
            } \
        for (; tiles > 0; tiles--, s += stride, q += stride) \
            FG_SIMD for (int64_t j = 0; j < n; j++) { T x = d[j], y = AT(j); d[j] = (T)OP(x, y); } \
    }
/* Lanes of y, but NaN where one of the five operands is. */
#ifdef __AVX512F__
#define FG_NAN_OF(t, T, S, M) \
FG_INLINE vec_##t fg_nan_of_##t(vec_##t y, vec_##t a, vec_##t b, vec_##t c, vec_##t e, vec_##t x) { \
    M bad = _mm512_cmp_##S##_mask(a, b, _CMP_UNORD_Q) | _mm512_cmp_##S##_mask(c, e, _CMP_UNORD_Q); \
    bad |= _mm512_cmp_##S##_mask(x, x, _CMP_UNORD_Q); \
    return (vec_##t)_mm512_mask_mov_##S(y, bad, (vec_##t){0} + (T)NAN); \
}
FG_NAN_OF(f32, float, ps, __mmask16) FG_NAN_OF(f64, double, pd, __mmask8)
#else
#define FG_NAN_OF(t, T) \
FG_INLINE vec_##t fg_nan_of_##t(vec_##t y, vec_##t a, vec_##t b, vec_##t c, vec_##t e, vec_##t x) { \
    return (vec_##t)((fg_lanes_##t)y | (a != a) | (b != b) | (c != c) | (e != e) | (x != x)); \
}
FG_NAN_OF(f32, float) FG_NAN_OF(f64, double)
#endif

/* d[j] = extremum of d[j] (unless it is empty) and of the elements at j of `tiles` tiles, `stride` elements apart. */
#define FG_EXTREMUM_TILES(name, t, T, OP) \
static void vm_tiles_##name##_##t(void *d_, const void *s_, const void *q, int64_t tiles, int64_t n, int64_t stride, int empty) { \
    typedef vec_##t V __attribute__((aligned(sizeof(T)), may_alias)); \
    enum { L = FG_VEC / sizeof(T) }; \
    T *d = (T *)d_; const T *s = (const T *)s_; (void)q; \
    if (empty) { memcpy(d, s, n * sizeof(T)); s += stride; tiles--; } \
    for (; tiles >= 4; tiles -= 4, s += 4 * stride) { \
        int64_t j = 0; \
        for (; j + L <= n; j += L) { \
            const T *p = s + j; \
            vec_##t x = *(V *)(d + j), a = *(const V *)p, b = *(const V *)(p + stride), c = *(const V *)(p + 2 * stride), \
                e = *(const V *)(p + 3 * stride), y = vec_##name##_##t(vec_##name##_##t(a, b), vec_##name##_##t(c, e)); \
            *(V *)(d + j) = fg_nan_of_##t(vec_##name##_##t(y, x), a, b, c, e, x); \
        } \
        for (; j < n; j++) for (int r = 0; r < 4; r++) { T x = d[j], y = s[j + r * stride]; d[j] = OP(x, y); } \
    } \
    for (; tiles > 0; tiles--, s += stride) FG_SIMD for (int64_t j = 0; j < n; j++) { T x = d[j], y = s[j]; d[j] = OP(x, y); } \
}
FG_EXTREMUM_TILES(max, f32, float, FG_MAX) FG_EXTREMUM_TILES(max, f64, double, FG_MAX)
FG_EXTREMUM_TILES(min, f32, float, FG_MIN) FG_EXTREMUM_TILES(min, f64, double, FG_MIN)
#define FG_PLAIN(i) (s[i])
#define FG_PRODUCT(i) FG_ONCE(s[i] * q[i])
/* n such terms side by side: where they lie, or in `row` */
#define FG_PLAIN_ROWS(row, n) ((void)row, (void)q, s)
#define FG_PRODUCT_ROWS(row, n) ({ FG_SIMD for (int64_t i = 0; i < (n); i++) row[i] = FG_PRODUCT(i); (const void *)row; })
#define VM_SEG(name, t, T, OP) VM_SEG_OF(name, t, T, OP, FG_PLAIN) VM_TILES(name, t, T, OP, FG_PLAIN)
/* Sums of products: each product is rounded, as if it had gone through a tile of its own. */
#if defined(__clang__) || __GNUC__ >= 12
#define FG_ONCE(x) FG_ROUNDED(x)
#else
#define FG_ONCE(x) (x)
#endif
#define FG_ADD(x, y) (x + y)
#define FG_MUL(x, y) (x * y)
#define FG_IMUL(x, y) ((uint64_t)x * y)
#define FG_IMAX(x, y) (x > y ? x : y)
#define FG_IMIN(x, y) (x < y ? x : y)
#define VM_SEG_BITS(t, T) VM_SEG(sum, t, T, FG_ADD) VM_SEG(prod, t, T, FG_IMUL)
#define VM_SEG_ORDER(t, T) VM_SEG(max, t, T, FG_IMAX) VM_SEG(min, t, T, FG_IMIN)
#define VM_SEG_EXTREMUM(name, t, T, OP) VM_SEG_OF(short_##name, t, T, OP, FG_PLAIN) \
    static void vm_seg_##name##_##t(void *d, const void *s, const void *q, int64_t rows, int64_t k, int64_t width) { \
        if (width != 1 || k < 64) vm_seg_short_##name##_##t(d, s, q, rows, k, width); \
        else for (int64_t r = 0; r < rows; r++) ((T *)d)[r] = fg_row_##name##_##t((const T *)s + r * k, k); \
    }
#define VM_SEG_FLOAT(t, T) VM_SEG(sum, t, T, FG_ADD) VM_SEG(prod, t, T, FG_MUL) \
    VM_SEG_EXTREMUM(max, t, T, FG_MAX) VM_SEG_EXTREMUM(min, t, T, FG_MIN)
VM_SEG_BITS(u8, uint8_t) VM_SEG_BITS(u16, uint16_t) VM_SEG_BITS(u32, uint32_t) VM_SEG_BITS(u64, uint64_t)
VM_SEG_ORDER(u8, uint8_t) VM_SEG_ORDER(u16, uint16_t) VM_SEG_ORDER(u32, uint32_t) VM_SEG_ORDER(u64, uint64_t)
VM_SEG_ORDER(i8, int8_t) VM_SEG_ORDER(i16, int16_t) VM_SEG_ORDER(i32, int32_t) VM_SEG_ORDER(i64, int64_t)
VM_SEG_FLOAT(f32, float) VM_SEG_FLOAT(f64, double)
VM_SEG_OF(dot, f32, float, FG_ADD, FG_PRODUCT) VM_SEG_OF(dot, f64, double, FG_ADD, FG_PRODUCT)
VM_TILES(dot, f32, float, FG_ADD, FG_PRODUCT) VM_TILES(dot, f64, double, FG_ADD, FG_PRODUCT)
VM_SEG(sum, c64, float _Complex, FG_ADD) VM_SEG(prod, c64, float _Complex, FG_MUL)
VM_SEG(sum, c128, double _Complex, FG_ADD) VM_SEG(prod, c128, double _Complex, FG_MUL)

/* Rows of a few vectors each, as many at a time as a vector has lanes: every row is folded to one vector, whose lanes behind its end
 * hold the identity, and then two vectors to one by interleaving their halves, until the lanes are rows.  Returns how many rows are
 * done: loads run past a row's end, into the next one.  SUSPECT: whether the sum of all that was read tells of a NaN. */
#define VM_FEW(name, t, T, V, I, L, OP, ID, SUSPECT) \
static int64_t few_##name##_##t(T *d, const T *s, int64_t rows, int64_t k) { \
    typedef V U __attribute__((aligned(sizeof(T)), may_alias)); \
    int64_t r = 0, whole = (k + L - 1) / L * L, last = whole - L; \
    I lanes; V id; \
    for (int j = 0; j < L; j++) { lanes[j] = last + j < k ? -1 : 0; id[j] = (T)(ID); } \
    for (; (r + L - 1) * k + whole <= rows * k; r += L, s += L * k) { \
        V v[L], sums = {0}; \
        _Pragma("GCC unroll 16") for (int i = 0; i < L; i++) { \
            const T *p = s + i * k; \
            V x = *(const U *)(p + last); \
            x = (V)(((I)x & lanes) | ((I)id & ~lanes)); \
            sums += x; \
            for (int64_t c = 0; c < last; c += L) { V y = *(const U *)(p + c); sums += y; x = OP(x, y); } \
            v[i] = x; \
        } \
        _Pragma("GCC unroll 4") for (int h = L / 2; h > 0; h /= 2) \
            _Pragma("GCC unroll 8") for (int i = 0; i < h; i++) { \
                V x = __builtin_shufflevector(v[i], v[i + h], VEC_ORDER(VEC_LO, L)); \
                V y = __builtin_shufflevector(v[i], v[i + h], VEC_ORDER(VEC_HI, L)); \
                v[i] = OP(x, y); \
            } \
        if (SUSPECT(sums)) { \
            T exact[L];                         /* d may lie in s */ \
            for (int i = 0; i < L; i++) vm_seg_##name##_##t(exact + i, s + i * k, s + i * k, 1, k, 1); \
            memcpy(d + r, exact, sizeof exact); \
        } else *(U *)(d + r) = v[0]; \
    } \
    return r; \
} \
static void vm_few_##name##_##t(void *d, const void *s, const void *q, int64_t rows, int64_t k, int64_t width) { \
    int64_t done = 0; \
    if (width == 1 && rows >= L && k <= FG_FEW_LONG && k * (int64_t)sizeof(T) > (sizeof(T) == 1 ? 7 : 32)) \
        done = few_##name##_##t((T *)d, (const T *)s, rows, k); \
    if (done < rows) vm_seg_##name##_##t((T *)d + done, (const T *)s + done * k, (const T *)q + done * k, rows - done, k, width); \
}
enum { FG_FEW_LONG = 256 };
#define FG_NEVER(x) 0
#define FG_HAS_NAN(t) \
FG_INLINE int fg_has_nan_##t(vec_##t x) { \
    fg_lanes_##t bad = x != x; \
    int64_t word[FG_VEC / 8], any = 0; \
    memcpy(word, &bad, FG_VEC); \
    for (int j = 0; j < FG_VEC / 8; j++) any |= word[j]; \
    return any != 0; \
}
FG_HAS_NAN(f32) FG_HAS_NAN(f64)
#define VM_FEW_FLOAT(t, T, L) \
    VM_FEW(sum, t, T, vec_##t, fg_lanes_##t, L, FG_ADD, -0.0, FG_NEVER) \
    VM_FEW(max, t, T, vec_##t, fg_lanes_##t, L, vec_max_##t, -INFINITY, fg_has_nan_##t) \
    VM_FEW(min, t, T, vec_##t, fg_lanes_##t, L, vec_min_##t, INFINITY, fg_has_nan_##t)
VM_FEW_FLOAT(f32, float, VEC_LANES_OF_f32)
VM_FEW_FLOAT(f64, double, VEC_LANES_OF_f64)
typedef uint8_t fg_few_u8 __attribute__((vector_size(16)));
typedef uint32_t fg_few_u32 __attribute__((vector_size(FG_VEC)));
#define FG_FEW_MAX(x, y) ({ fg_few_u8 first = (fg_few_u8)((x) > (y)); ((x) & first) | ((y) & ~first); })
#define FG_FEW_MIN(x, y) ({ fg_few_u8 first = (fg_few_u8)((x) < (y)); ((x) & first) | ((y) & ~first); })
VM_FEW(sum, u32, uint32_t, fg_few_u32, fg_few_u32, VEC_LANES_OF_f32, FG_ADD, 0, FG_NEVER)
VM_FEW(max, u8, uint8_t, fg_few_u8, fg_few_u8, 16, FG_FEW_MAX, 0, FG_NEVER)
VM_FEW(min, u8, uint8_t, fg_few_u8, fg_few_u8, 16, FG_FEW_MIN, 255, FG_NEVER)

static const FgVmSeg fg_vm_seg[FG_RED_COUNT][FG_NDTYPES] = {
    [FG_RED_SUM] = {[FG_I8] = vm_seg_sum_u8, [FG_U8] = vm_seg_sum_u8, [FG_I16] = vm_seg_sum_u16, [FG_U16] = vm_seg_sum_u16,
                    [FG_I32] = vm_few_sum_u32, [FG_U32] = vm_few_sum_u32, [FG_I64] = vm_seg_sum_u64, [FG_U64] = vm_seg_sum_u64,
                    ROW_F(few_sum), ROW_C(seg_sum)},
    [FG_RED_PROD] = {ROW_BITS(seg_prod), ROW_F(seg_prod), ROW_C(seg_prod)},
    [FG_RED_MAX] = {[FG_BOOL] = vm_few_max_u8, ROW_I(seg_max), ROW_F(few_max)},
    [FG_RED_MIN] = {[FG_BOOL] = vm_few_min_u8, ROW_I(seg_min), ROW_F(few_min)},
};

static const FgVmTiles fg_vm_tiles[FG_RED_COUNT][FG_NDTYPES] = {
    [FG_RED_SUM] = {ROW_BITS(tiles_sum), ROW_F(tiles_sum), ROW_C(tiles_sum)},
    [FG_RED_PROD] = {ROW_BITS(tiles_prod), ROW_F(tiles_prod), ROW_C(tiles_prod)},
    [FG_RED_MAX] = {[FG_BOOL] = vm_tiles_max_u8, ROW_I(tiles_max), ROW_F(tiles_max)},
    [FG_RED_MIN] = {[FG_BOOL] = vm_tiles_min_u8, ROW_I(tiles_min), ROW_F(tiles_min)},
};

/* Of sums of products. */
static inline FgVmSeg fg_vm_seg_dot(int t) { return t == FG_F32 ? vm_seg_dot_f32 : t == FG_F64 ? vm_seg_dot_f64 : 0; }
static inline FgVmTiles fg_vm_tiles_dot(int t) { return t == FG_F32 ? vm_tiles_dot_f32 : vm_tiles_dot_f64; }

/* The identity of a reduction, as raw bits of the type. */
static void fg_vm_identity(int reduce, int t, void *out) {
    memset(out, 0, 16);
    int64_t w = fg_itemsize(t);
    int is_signed = t >= FG_I8 && t <= FG_I64, is_unsigned = t >= FG_U8 && t <= FG_U64;
    if (reduce == FG_RED_PROD) {
        float f = 1; double d = 1; int64_t one = 1;
        if (t == FG_F32 || t == FG_C64) memcpy(out, &f, 4);
        else memcpy(out, t == FG_F64 || t == FG_C128 ? (void *)&d : (void *)&one, 8);
    } else if (reduce == FG_RED_MAX || reduce == FG_RED_MIN) {
        int max = reduce == FG_RED_MAX;
        float f = max ? -INFINITY : INFINITY; double d = f;
        int64_t lowest = -((int64_t)1 << (8 * w - 1 < 63 ? 8 * w - 1 : 63)), v;
        if (w == 8) lowest = INT64_MIN;
        if (t == FG_F32) { memcpy(out, &f, 4); return; }
        if (t == FG_F64) { memcpy(out, &d, 8); return; }
        v = is_signed ? (max ? lowest : ~lowest) : is_unsigned ? (max ? 0 : -1) : (max ? 0 : 1);
        memcpy(out, &v, w);
    }
}
#endif
