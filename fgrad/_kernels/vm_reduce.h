/* Segmented reductions: d[r, j] = reduction over k of s[r, k, j], or of s[r, k, j] * q[r, k, j], or of numbers alone. */
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
/* Lanes of four times `per` blocks, up to 16 times: read at four places at once, since one stream of loads leaves a third of what memory gives to a
 * core unused, a few vectors at each in turn; put together in the order of the blocks. Returns how many terms that was. */
#ifdef __AVX512F__
#define VM_SEG_APART(name, t, T, OP, AT) \
    static inline int64_t seg_apart_##name##_##t(T *acc, const T *s, const T *q, int64_t per) { (void)acc; (void)s; (void)q; (void)per; return 0; }
#else
#define VM_SEG_APART(name, t, T, OP, AT) \
    static int64_t seg_apart_##name##_##t(T *restrict acc, const T *s0, const T *q0, int64_t per) { \
        enum { L = FG_LANES(T), BLOCK = 64 * L, VISIT = 8 * L }; \
        T part[4][4 * L] __attribute__((aligned(64))), later[3 * 16][L] __attribute__((aligned(64))); \
        if (per < 2 || sizeof(T) < 4) return 0; \
        for (int64_t b = 0; b < per; b++) { \
            for (int64_t v = 0; v < BLOCK; v += VISIT) for (int p = 0; p < 4; p++) { \
                const T *s = s0 + (p * per + b) * BLOCK + v, *q = q0 + (p * per + b) * BLOCK + v; \
                T *a = part[p]; \
                (void)q; \
                if (v == 0) FG_SIMD for (int j = 0; j < 4 * L; j++) { T x = AT(j), y = AT(4 * L + j); a[j] = (T)OP(x, y); } \
                else FG_SIMD for (int j = 0; j < 4 * L; j++) { T x = a[j], y = AT(j); x = (T)OP(x, y); y = AT(4 * L + j); a[j] = (T)OP(x, y); } \
            } \
            for (int p = 0; p < 4; p++) { \
                T *a = part[p], *to = p ? later[(p - 1) * per + b] : acc; \
                FG_SIMD for (int j = 0; j < 2 * L; j++) { T x = a[j], y = a[2 * L + j]; a[j] = (T)OP(x, y); } \
                FG_SIMD for (int j = 0; j < L; j++) { T x = a[j], y = a[L + j]; a[j] = (T)OP(x, y); } \
                if (p || b == 0) FG_SIMD for (int j = 0; j < L; j++) to[j] = a[j]; \
                else FG_SIMD for (int j = 0; j < L; j++) { T x = acc[j], y = a[j]; acc[j] = (T)OP(x, y); } \
            } \
        } \
        for (int64_t b = 0; b < 3 * per; b++) FG_SIMD for (int j = 0; j < L; j++) { T x = acc[j], y = later[b][j]; acc[j] = (T)OP(x, y); } \
        return 4 * per * BLOCK; \
    }
#endif
#define VM_SEG_OF(name, t, T, OP, AT) \
    VM_SEG_NARROW(name, t, T, OP, AT) \
    /* lanes of the first n terms, a multiple of 4 L: four chains hide the latency of OP */ \
    static inline __attribute__((always_inline)) void seg_lanes_##name##_##t(T *acc, const T *s, const T *q, int64_t n) { \
        enum { L = FG_LANES(T) }; \
        T b[L], c[L], e[L]; \
        for (int j = 0; j < L; j++) { acc[j] = AT(j); b[j] = AT(L + j); c[j] = AT(2 * L + j); e[j] = AT(3 * L + j); } \
        for (int64_t i = 4 * L; i < n; i += 4 * L) { \
            FG_SIMD for (int j = 0; j < L; j++) { T x = acc[j], y = AT(i + j); acc[j] = (T)OP(x, y); } \
            FG_SIMD for (int j = 0; j < L; j++) { T x = b[j], y = AT(i + L + j); b[j] = (T)OP(x, y); } \
            FG_SIMD for (int j = 0; j < L; j++) { T x = c[j], y = AT(i + 2 * L + j); c[j] = (T)OP(x, y); } \
            FG_SIMD for (int j = 0; j < L; j++) { T x = e[j], y = AT(i + 3 * L + j); e[j] = (T)OP(x, y); } \
        } \
        FG_SIMD for (int j = 0; j < L; j++) { T x = acc[j], y = c[j]; acc[j] = (T)OP(x, y); } \
        FG_SIMD for (int j = 0; j < L; j++) { T x = b[j], y = e[j]; b[j] = (T)OP(x, y); } \
        FG_SIMD for (int j = 0; j < L; j++) { T x = acc[j], y = b[j]; acc[j] = (T)OP(x, y); } \
    } \
    VM_SEG_APART(name, t, T, OP, AT) \
    static T seg_row_##name##_##t(const T *s, const T *q, int64_t k) { \
        enum { L = FG_LANES(T), BLOCK = 64 * L }; \
        T acc[L]; int64_t i; \
        if (k > 64 * BLOCK) { int64_t h = k / 2; \
            T x = seg_row_##name##_##t(s, q, h), y = seg_row_##name##_##t(s + h, q + h, k - h); return (T)OP(x, y); } \
        if (k > 2 * BLOCK) {     /* lanes of blocks, which do not wait for each other, then the rest */ \
            i = seg_apart_##name##_##t(acc, s, q, k / (4 * BLOCK)); \
            if (i == 0) { seg_lanes_##name##_##t(acc, s, q, BLOCK); i = BLOCK; } \
            for (; i + BLOCK <= k; i += BLOCK) { \
                T b[L]; \
                seg_lanes_##name##_##t(b, s + i, q + i, BLOCK); \
                FG_SIMD for (int j = 0; j < L; j++) { T x = acc[j], y = b[j]; acc[j] = (T)OP(x, y); } \
            } \
            FG_HALVE(16, OP, T) FG_HALVE(8, OP, T) FG_HALVE(4, OP, T) FG_HALVE(2, OP, T) FG_HALVE(1, OP, T) \
            if (i == k) return acc[0]; \
            T x = acc[0], y = seg_row_##name##_##t(s + i, q + i, k - i); return (T)OP(x, y); \
        } \
        if (k < L) { T x = AT(0); for (i = 1; i < k; i++) { T y = AT(i); x = (T)OP(x, y); } return x; } \
        if (k >= 8 * L) { i = k / (4 * L) * (4 * L); seg_lanes_##name##_##t(acc, s, q, i); } \
        else { for (int j = 0; j < L; j++) acc[j] = AT(j); i = L; } \
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
 * eight tiles a pass, so that d is loaded and stored once for eight of them. */
#define FG_REDUCE_AT(OP, AT, T, r) y = AT(j + r * stride); x = (T)OP(x, y);
#define FG_REDUCE_3(OP, AT, T) FG_REDUCE_AT(OP, AT, T, 1) FG_REDUCE_AT(OP, AT, T, 2) FG_REDUCE_AT(OP, AT, T, 3)
#define FG_REDUCE_7(OP, AT, T) FG_REDUCE_3(OP, AT, T) FG_REDUCE_AT(OP, AT, T, 4) FG_REDUCE_AT(OP, AT, T, 5) FG_REDUCE_AT(OP, AT, T, 6) FG_REDUCE_AT(OP, AT, T, 7)
#define VM_TILES(name, t, T, OP, AT) \
    static void vm_tiles_##name##_##t(void *d_, const void *s_, const void *q_, int64_t tiles, int64_t n, int64_t stride, int empty) { \
        T *d = (T *)d_; const T *s = (const T *)s_, *q = (const T *)q_; (void)q; \
        if (empty && tiles >= 8) { \
            FG_SIMD for (int64_t j = 0; j < n; j++) { T x = AT(j), y; FG_REDUCE_7(OP, AT, T) d[j] = x; } \
            s += 8 * stride; q += 8 * stride; tiles -= 8; \
        } else if (empty) { FG_SIMD for (int64_t j = 0; j < n; j++) d[j] = AT(j); s += stride; q += stride; tiles--; } \
        for (; tiles >= 8; tiles -= 8, s += 8 * stride, q += 8 * stride) \
            FG_SIMD for (int64_t j = 0; j < n; j++) { T x = d[j], y = AT(j); x = (T)OP(x, y); FG_REDUCE_7(OP, AT, T) d[j] = x; } \
        if (tiles >= 4) { \
            FG_SIMD for (int64_t j = 0; j < n; j++) { T x = d[j], y = AT(j); x = (T)OP(x, y); FG_REDUCE_3(OP, AT, T) d[j] = x; } \
            s += 4 * stride; q += 4 * stride; tiles -= 4; \
        } \
        for (; tiles > 0; tiles--, s += stride, q += stride) \
            FG_SIMD for (int64_t j = 0; j < n; j++) { T x = d[j], y = AT(j); d[j] = (T)OP(x, y); } \
    }
/* Whether a or b, or c or e, is NaN in some lane is added to `bad`. */
#ifdef __AVX512F__
typedef __mmask16 fg_nan_f32; typedef __mmask8 fg_nan_f64;
#define FG_ADD_NAN_f32(bad, a, b) (bad |= _mm512_cmp_ps_mask((__m512)(a), (__m512)(b), _CMP_UNORD_Q))
#define FG_ADD_NAN_f64(bad, a, b) (bad |= _mm512_cmp_pd_mask((__m512d)(a), (__m512d)(b), _CMP_UNORD_Q))
#define FG_ANY_NAN(t, bad) ((bad) != 0)
#else
typedef vec_f32 fg_nan_f32; typedef vec_f64 fg_nan_f64;
#define FG_ADD_NAN_f32(bad, a, b) (bad = (vec_f32)((fg_lanes_f32)(bad) | (((a) != (a)) | ((b) != (b)))))        /* all bits: NaN */
#define FG_ADD_NAN_f64(bad, a, b) (bad = (vec_f64)((fg_lanes_f64)(bad) | (((a) != (a)) | ((b) != (b)))))
#define FG_ANY_NAN(t, bad) fg_has_nan_##t(bad)
#endif
#define FG_HAS_NAN(t) \
FG_INLINE int fg_has_nan_##t(vec_##t x) { \
    fg_lanes_##t bad = x != x; \
    int64_t word[FG_VEC / 8], any = 0; \
    memcpy(word, &bad, FG_VEC); \
    for (int j = 0; j < FG_VEC / 8; j++) any |= word[j]; \
    return any != 0; \
}
FG_HAS_NAN(f32) FG_HAS_NAN(f64)

/* The same for the extremum of floats: a pass keeps NaN that is in d and passes over that in s; where there was one, the tiles go through
 * the general loop as well. */
#define FG_EXTREMUM_TILES(name, t, T, OP) \
static void vm_tiles_##name##_##t(void *d_, const void *s_, const void *q, int64_t tiles, int64_t n, int64_t stride, int empty) { \
    typedef vec_##t V __attribute__((aligned(sizeof(T)), may_alias)); \
    enum { L = FG_VEC / sizeof(T) }; \
    T *d = (T *)d_; const T *s = (const T *)s_; (void)q; \
    for (int64_t left; tiles > 0; tiles -= left, s += left * stride, empty = 0) { \
        int64_t j = 0, again; \
        const T *first = empty ? s : d; \
        fg_nan_##t bad = {0}; \
        left = tiles >= 8 ? 8 : tiles >= 4 ? 4 : tiles; \
        if (left >= 4) for (; j + L <= n; j += L) { \
            const T *p = s + j; \
            vec_##t x = *(const V *)(first + j); \
            for (int h = 0; h < (left == 8 ? 2 : 1); h++, p += 4 * stride) { \
                vec_##t a = *(const V *)p, b = *(const V *)(p + stride); \
                vec_##t c = *(const V *)(p + 2 * stride), e = *(const V *)(p + 3 * stride); \
                FG_ADD_NAN_##t(bad, a, b); FG_ADD_NAN_##t(bad, c, e); \
                x = vec_##name##_##t(vec_##name##_##t(vec_##name##_##t(a, b), vec_##name##_##t(c, e)), x); \
            } \
            *(V *)(d + j) = x; \
        } \
        again = FG_ANY_NAN(t, bad) ? 0 : j; \
        if (empty) memcpy(d + j, s + j, (n - j) * sizeof(T)); \
        for (int64_t r = 0; r < left; r++) { \
            const T *row = s + r * stride; \
            FG_SIMD for (int64_t k = again; k < n; k++) { T x = d[k], y = row[k]; d[k] = OP(x, y); } \
        } \
    } \
}
FG_EXTREMUM_TILES(max, f32, float, FG_MAX) FG_EXTREMUM_TILES(max, f64, double, FG_MAX)
FG_EXTREMUM_TILES(min, f32, float, FG_MIN) FG_EXTREMUM_TILES(min, f64, double, FG_MIN)
#define FG_PLAIN(i) (s[i])
#define FG_PRODUCT(i) FG_ONCE(s[i] * q[i])
/* n such terms side by side: where they lie, or in `row` */
#define FG_PLAIN_ROWS(row, n) ((void)row, (void)q, s)
#define FG_PRODUCT_ROWS(row, n) ({ FG_SIMD for (int64_t i = 0; i < (n); i++) row[i] = FG_PRODUCT(i); (const void *)row; })
/* sums and products that pass NaN over */
#define FG_NUMBER(x, else) ({ __typeof__(x) x_ = (x); x_ == x_ ? x_ : (__typeof__(x))(else); })
#define FG_OR_0(i) FG_NUMBER(s[i], 0)
#define FG_OR_1(i) FG_NUMBER(s[i], 1)
#define FG_OR_0_ROWS(row, n) ({ (void)q; FG_SIMD for (int64_t i = 0; i < (n); i++) row[i] = FG_OR_0(i); (const void *)row; })
#define FG_OR_1_ROWS(row, n) ({ (void)q; FG_SIMD for (int64_t i = 0; i < (n); i++) row[i] = FG_OR_1(i); (const void *)row; })
#define VM_SEG(name, t, T, OP) VM_SEG_OF(name, t, T, OP, FG_PLAIN) VM_TILES(name, t, T, OP, FG_PLAIN)
/* Sums of products: each product is rounded, as if it had gone through a tile of its own. */
#if defined(__clang__) || __GNUC__ >= 12
#define FG_ONCE(x) FG_ROUNDED(x)
#else
#define FG_ONCE(x) (x)
#endif
#define FG_ADD(x, y) (x + y)
#define FG_MUL(x, y) (x * y)
#define FG_CMUL(x, y) ({ /* as the operation mul: C's own product asks whether it is NaN */ \
    __typeof__(x) x_ = (x), y_ = (y); \
    __builtin_complex(__real__ x_ * __real__ y_ - __imag__ x_ * __imag__ y_, __real__ x_ * __imag__ y_ + __imag__ x_ * __real__ y_); })
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
    VM_SEG_EXTREMUM(max, t, T, FG_MAX) VM_SEG_EXTREMUM(min, t, T, FG_MIN) \
    VM_SEG_EXTREMUM(fmax, t, T, FG_FMAX) VM_SEG_EXTREMUM(fmin, t, T, FG_FMIN) \
    VM_TILES(fmax, t, T, FG_FMAX, FG_PLAIN) VM_TILES(fmin, t, T, FG_FMIN, FG_PLAIN) \
    VM_SEG_OF(nansum, t, T, FG_ADD, FG_OR_0) VM_TILES(nansum, t, T, FG_ADD, FG_OR_0) \
    VM_SEG_OF(nanprod, t, T, FG_MUL, FG_OR_1) VM_TILES(nanprod, t, T, FG_MUL, FG_OR_1)
VM_SEG_BITS(u8, uint8_t) VM_SEG_BITS(u16, uint16_t) VM_SEG_BITS(u32, uint32_t) VM_SEG_BITS(u64, uint64_t)
VM_SEG_ORDER(u8, uint8_t) VM_SEG_ORDER(u16, uint16_t) VM_SEG_ORDER(u32, uint32_t) VM_SEG_ORDER(u64, uint64_t)
VM_SEG_ORDER(i8, int8_t) VM_SEG_ORDER(i16, int16_t) VM_SEG_ORDER(i32, int32_t) VM_SEG_ORDER(i64, int64_t)
VM_SEG_FLOAT(f32, float) VM_SEG_FLOAT(f64, double)
VM_SEG_OF(dot, f32, float, FG_ADD, FG_PRODUCT) VM_SEG_OF(dot, f64, double, FG_ADD, FG_PRODUCT)
VM_TILES(dot, f32, float, FG_ADD, FG_PRODUCT) VM_TILES(dot, f64, double, FG_ADD, FG_PRODUCT)
VM_SEG(sum, c64, float _Complex, FG_ADD) VM_SEG(prod, c64, float _Complex, FG_CMUL)
VM_SEG(sum, c128, double _Complex, FG_ADD) VM_SEG(prod, c128, double _Complex, FG_CMUL)

/* Up to FG_MIDDLE_LONG rows that are reduced into one, in registers, by four chains; rows shorter than a vector are read, and written but
 * for the last, beyond their end.  TERM: the vector of terms at `at`. */
#define VM_MIDDLE(name, t, T, V, L, OP, SUSPECT, TERM) \
static inline V middle_lanes_##name##_##t(const T *s, const T *q, int64_t k, int64_t width, int *bad) { \
    typedef V U __attribute__((aligned(sizeof(T)), may_alias)); \
    int64_t i = 1, at = 0; \
    V a = TERM, sums = a, y; \
    (void)q; (void)sums; \
    if (k >= 4) { \
        V b, c, e; \
        at = width; b = TERM; sums += b; at += width; c = TERM; sums += c; at += width; e = TERM; sums += e; \
        for (i = 4; i + 4 <= k; i += 4) { \
            at += width; y = TERM; sums += y; a = OP(y, a); at += width; y = TERM; sums += y; b = OP(y, b); \
            at += width; y = TERM; sums += y; c = OP(y, c); at += width; y = TERM; sums += y; e = OP(y, e); \
        } \
        y = OP(c, a); c = OP(e, b); a = OP(c, y); \
    } \
    for (; i < k; i++) { at += width; y = TERM; sums += y; a = OP(y, a); } \
    *bad |= SUSPECT(sums); \
    return a; \
} \
static void middle_##name##_##t(T *d, const T *s, const T *q, int64_t rows, int64_t k, int64_t width) { \
    typedef V U __attribute__((aligned(sizeof(T)), may_alias)); \
    for (int64_t r = 0; r < rows; r++, d += width, s += k * width, q += k * width) { \
        int bad = 0; \
        if (width >= L) { \
            for (int64_t j = 0; j < width; j += L) { \
                if (j + L > width) j = width - L; \
                *(U *)(d + j) = middle_lanes_##name##_##t(s + j, q + j, k, width, &bad); \
            } \
        } else if (r * width + L <= rows * width) *(U *)d = middle_lanes_##name##_##t(s, q, k, width, &bad); \
        else { \
            T ends[2][FG_MIDDLE_LONG * L]; \
            const T *from[2] = {s, q}; \
            for (int side = 0; side <= (q != s); side++) { \
                memcpy(ends[side], from[side], k * width * sizeof(T)); \
                memset(ends[side] + k * width, 0, (L - width) * sizeof(T)); \
            } \
            V a = middle_lanes_##name##_##t(ends[0], ends[q != s], k, width, &bad); \
            memcpy(d, &a, width * sizeof(T)); \
        } \
        if (bad) vm_seg_##name##_##t(d, s, q, 1, k, width); \
    } \
}
/* What is read soon: interleaving a block's rows takes so many instructions that a core holds too few loads of the next block by itself. */
#define FG_FEW_NEXT(at) __builtin_prefetch((const char *)(at) + 12288, 0, 3)
/* Rows of a few vectors each, as many at a time as a vector has lanes: every row is folded to one vector, whose lanes behind its end
 * hold the identity, and then two vectors to one by interleaving their halves, until the lanes are rows.  Returns how many rows are
 * done: loads run past a row's end, into the next one.  SUSPECT: whether the sum of all that was read tells of a NaN.
 * READ(x): what counts. */
#define VM_FEW(name, t, T, V, I, L, OP, ID, SUSPECT, READ) \
static int64_t few_##name##_##t(T *d, const T *s, int64_t rows, int64_t k) { \
    typedef V U __attribute__((aligned(sizeof(T)), may_alias)); \
    int64_t r = 0, whole = (k + L - 1) / L * L, last = whole - L; \
    I lanes; V id; \
    for (int j = 0; j < L; j++) { lanes[j] = last + j < k ? -1 : 0; id[j] = (T)(ID); } \
    for (; (r + L - 1) * k + whole <= rows * k; r += L, s += L * k) { \
        V v[L], sums = {0}; \
        _Pragma("GCC unroll 16") for (int i = 0; i < L; i++) { \
            const T *p = s + i * k; \
            V x = id; \
            for (int64_t c = 0; c < last; c += L) { FG_FEW_NEXT(p + c); V y = READ(*(const U *)(p + c)); sums += y; x = OP(x, y); } \
            V y = READ(*(const U *)(p + last));              /* in the order of memory, which comes faster from afar */ \
            y = (V)(((I)y & lanes) | ((I)id & ~lanes)); \
            sums += y; \
            v[i] = OP(x, y); \
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
VM_MIDDLE(name, t, T, V, L, OP, SUSPECT, READ(*(const U *)(s + at))) \
static void vm_few_##name##_##t(void *d, const void *s, const void *q, int64_t rows, int64_t k, int64_t width) { \
    int64_t done = 0; \
    if (width > 1 && k <= FG_MIDDLE_LONG) { middle_##name##_##t((T *)d, (const T *)s, (const T *)q, rows, k, width); return; } \
    if (width == 1 && rows >= L && k <= FG_FEW_LONG && k * (int64_t)sizeof(T) > (sizeof(T) == 1 ? 7 : 32)) \
        done = few_##name##_##t((T *)d, (const T *)s, rows, k); \
    if (done < rows) vm_seg_##name##_##t((T *)d + done, (const T *)s + done * k, (const T *)q + done * k, rows - done, k, width); \
}
enum { FG_FEW_LONG = 256, FG_MIDDLE_LONG = 128 };
#define FG_NEVER(x) 0
#define FG_AS_IS(x) (x)
/* lanes of y where they are numbers, else those of x */
#ifdef __AVX512F__
#define FG_NUMBERS_f32(x, y) ({ __m512 y_ = (__m512)(y); \
    (vec_f32)_mm512_mask_mov_ps((__m512)(x), _mm512_cmp_ps_mask(y_, y_, _CMP_ORD_Q), y_); })
#define FG_NUMBERS_f64(x, y) ({ __m512d y_ = (__m512d)(y); \
    (vec_f64)_mm512_mask_mov_pd((__m512d)(x), _mm512_cmp_pd_mask(y_, y_, _CMP_ORD_Q), y_); })
#else
#define FG_NUMBER_LANES(t, x, y) ({ vec_##t y_ = (y); fg_lanes_##t m_ = y_ == y_; \
    (vec_##t)(((fg_lanes_##t)y_ & m_) | ((fg_lanes_##t)(x) & ~m_)); })
#define FG_NUMBERS_f32(x, y) FG_NUMBER_LANES(f32, x, y)
#define FG_NUMBERS_f64(x, y) FG_NUMBER_LANES(f64, x, y)
#endif
#define FG_LANES_OR_0_f32(y) FG_NUMBERS_f32((vec_f32){0}, y)
#define FG_LANES_OR_1_f32(y) FG_NUMBERS_f32((vec_f32){0} + 1, y)
#define FG_LANES_OR_0_f64(y) FG_NUMBERS_f64((vec_f64){0}, y)
#define FG_LANES_OR_1_f64(y) FG_NUMBERS_f64((vec_f64){0} + 1, y)
#define VM_FEW_FLOAT(t, T, L) \
    VM_FEW(sum, t, T, vec_##t, fg_lanes_##t, L, FG_ADD, -0.0, FG_NEVER, FG_AS_IS) \
    VM_FEW(prod, t, T, vec_##t, fg_lanes_##t, L, FG_MUL, 1, FG_NEVER, FG_AS_IS) \
    VM_FEW(nansum, t, T, vec_##t, fg_lanes_##t, L, FG_ADD, -0.0, FG_NEVER, FG_LANES_OR_0_##t) \
    VM_FEW(nanprod, t, T, vec_##t, fg_lanes_##t, L, FG_MUL, 1, FG_NEVER, FG_LANES_OR_1_##t) \
    VM_FEW(fmax, t, T, vec_##t, fg_lanes_##t, L, vec_fmax_##t, NAN, FG_NEVER, FG_AS_IS) \
    VM_FEW(fmin, t, T, vec_##t, fg_lanes_##t, L, vec_fmin_##t, NAN, FG_NEVER, FG_AS_IS) \
    VM_FEW(max, t, T, vec_##t, fg_lanes_##t, L, vec_max_##t, -INFINITY, fg_has_nan_##t, FG_AS_IS) \
    VM_FEW(min, t, T, vec_##t, fg_lanes_##t, L, vec_min_##t, INFINITY, fg_has_nan_##t, FG_AS_IS)
VM_FEW_FLOAT(f32, float, VEC_LANES_OF_f32)
VM_FEW_FLOAT(f64, double, VEC_LANES_OF_f64)
typedef uint8_t fg_few_u8 __attribute__((vector_size(16)));
typedef uint32_t fg_few_u32 __attribute__((vector_size(FG_VEC)));
#define FG_FEW_MAX(x, y) ({ fg_few_u8 first = (fg_few_u8)((x) > (y)); ((x) & first) | ((y) & ~first); })
#define FG_FEW_MIN(x, y) ({ fg_few_u8 first = (fg_few_u8)((x) < (y)); ((x) & first) | ((y) & ~first); })
VM_FEW(sum, u32, uint32_t, fg_few_u32, fg_few_u32, VEC_LANES_OF_f32, FG_ADD, 0, FG_NEVER, FG_AS_IS)
VM_FEW(max, u8, uint8_t, fg_few_u8, fg_few_u8, 16, FG_FEW_MAX, 0, FG_NEVER, FG_AS_IS)
VM_FEW(min, u8, uint8_t, fg_few_u8, fg_few_u8, 16, FG_FEW_MIN, 255, FG_NEVER, FG_AS_IS)
#include "vm_reduce_bool.h"

static const FgVmSeg fg_vm_seg[FG_RED_COUNT][FG_NDTYPES] = {
    [FG_RED_SUM] = {[FG_I8] = vm_seg_sum_u8, [FG_U8] = vm_seg_sum_u8, [FG_I16] = vm_seg_sum_u16, [FG_U16] = vm_seg_sum_u16,
                    [FG_I32] = vm_few_sum_u32, [FG_U32] = vm_few_sum_u32, [FG_I64] = vm_seg_sum_u64, [FG_U64] = vm_seg_sum_u64,
                    ROW_F(few_sum), ROW_C(seg_sum)},
    [FG_RED_PROD] = {ROW_BITS(seg_prod), ROW_F(few_prod), ROW_C(seg_prod)},
    [FG_RED_MAX] = {[FG_BOOL] = vm_bool_max, ROW_I(seg_max), ROW_F(few_max)},
    [FG_RED_MIN] = {[FG_BOOL] = vm_bool_min, ROW_I(seg_min), ROW_F(few_min)},
    [FG_RED_FMAX] = {ROW_F(few_fmax)}, [FG_RED_FMIN] = {ROW_F(few_fmin)},
};

static const FgVmTiles fg_vm_tiles[FG_RED_COUNT][FG_NDTYPES] = {
    [FG_RED_SUM] = {ROW_BITS(tiles_sum), ROW_F(tiles_sum), ROW_C(tiles_sum)},
    [FG_RED_PROD] = {ROW_BITS(tiles_prod), ROW_F(tiles_prod), ROW_C(tiles_prod)},
    [FG_RED_MAX] = {[FG_BOOL] = vm_tiles_max_u8, ROW_I(tiles_max), ROW_F(tiles_max)},
    [FG_RED_MIN] = {[FG_BOOL] = vm_tiles_min_u8, ROW_I(tiles_min), ROW_F(tiles_min)},
    [FG_RED_FMAX] = {ROW_F(tiles_fmax)}, [FG_RED_FMIN] = {ROW_F(tiles_fmin)},
};

/* Of sums of products. */
#define VM_DOT(t, T) \
VM_MIDDLE(dot, t, T, vec_##t, VEC_LANES_OF_##t, FG_ADD, FG_NEVER, FG_ONCE(*(const U *)(s + at) * *(const U *)(q + at))) \
static void vm_few_dot_##t(void *d, const void *s, const void *q, int64_t rows, int64_t k, int64_t width) { \
    if (width > 1 && k <= FG_MIDDLE_LONG) middle_dot_##t((T *)d, (const T *)s, (const T *)q, rows, k, width); \
    else vm_seg_dot_##t(d, s, q, rows, k, width); \
}
VM_DOT(f32, float) VM_DOT(f64, double)
static inline FgVmSeg fg_vm_seg_dot(int t) { return t == FG_F32 ? vm_few_dot_f32 : t == FG_F64 ? vm_few_dot_f64 : 0; }
/* True if many rows of columns are reduced in registers. */
static inline int fg_vm_seg_is_short(int t, int term, int64_t k) { return (t == FG_F32 || t == FG_F64) && term == fg_itemsize(t) && k <= FG_MIDDLE_LONG; }
static inline FgVmTiles fg_vm_tiles_dot(int t) { return t == FG_F32 ? vm_tiles_dot_f32 : vm_tiles_dot_f64; }

/* How many of rows' bytes are 1 (0 otherwise), as numbers of type T: up to 255 rows are counted in bytes. */
#define VM_COUNT(t, T, SUM) \
/* of rows that are one word or two, read into the next row; returns how many are done */ \
static int64_t vm_word_counts_##t(T *d, const uint8_t *s, int64_t rows, int64_t k) { \
    const uint64_t first = ~(uint64_t)0 >> (k < 8 ? 64 - 8 * k : 0), second = k > 8 ? ~(uint64_t)0 >> (128 - 8 * k) : 0; \
    int64_t r = 0; \
    for (; r * k + 16 <= rows * k; r++) { \
        uint64_t w, v; \
        memcpy(&w, s + r * k, 8); memcpy(&v, s + r * k + 8, 8); \
        d[r] = (T)(uint32_t)__builtin_popcountll((w & first) | (v & second) << 1); \
    } \
    return r; \
} \
static void vm_tiles_count_##t(void *d_, const void *s_, const void *q, int64_t tiles, int64_t n, int64_t stride, int empty) { \
    T *d = (T *)d_; const uint8_t *s = (const uint8_t *)s_; (void)q; \
    if (empty) memset(d, 0, n * sizeof(T)); \
    for (int64_t m; tiles > 0; tiles -= m, s += m * stride) { \
        m = tiles < 255 ? tiles : 255; \
        for (int64_t first = 0; first < n; first += 512) { \
            uint8_t sums[512]; \
            int64_t w = n - first < 512 ? n - first : 512; \
            if (m == 1) { FG_SIMD for (int64_t j = 0; j < w; j++) d[first + j] += s[first + j]; continue; } \
            vm_tiles_sum_u8(sums, s + first, s, m, w, stride, 1); \
            FG_SIMD for (int64_t j = 0; j < w; j++) d[first + j] += sums[j]; \
        } \
    } \
} \
static void vm_seg_count_##t(void *d_, const void *s_, const void *q, int64_t rows, int64_t k, int64_t width) { \
    T *d = (T *)d_; const uint8_t *s = (const uint8_t *)s_; \
    for (int64_t r = 0; r < rows && width > 1; r++) vm_tiles_count_##t(d + r * width, s + r * k * width, q, k, width, width, 1); \
    if (width > 1) return; \
    if (k > 1 && k <= FG_WORD_BOOLS && FG_WORD_BOOLS > 8) { const int64_t done = vm_word_counts_##t(d, s, rows, k); d += done; s += done * k; rows -= done; } \
    for (int64_t left = k < 128 ? rows : 0, m; left > 0; left -= m, rows -= m, d += m, s += m * k) {      /* short rows: as numbers */ \
        T wide[2048]; \
        m = left < 2048 / k ? left : 2048 / k; \
        FG_SIMD for (int64_t j = 0; j < m * k; j++) wide[j] = s[j]; \
        SUM(d, wide, wide, m, k, 1); \
    } \
    for (int64_t r = 0; r < rows; r++, s += k) { \
        int64_t total = 0; \
        for (int64_t i = 0; i < k; ) { \
            uint64_t words[8] = {0}, all = 0; \
            int64_t m = (k - i) / 64 < 255 ? (k - i) / 64 : 255; \
            for (int64_t b = 0; b < m; b++, i += 64) \
                for (int j = 0; j < 8; j++) { uint64_t w; memcpy(&w, s + i + 8 * j, 8); words[j] += w; } \
            for (int j = 0; j < 8; j++) for (int h = 0; h < 8; h++) all += words[j] >> (8 * h) & 255; \
            total += (int64_t)all; \
            if (m < 255) for (; i < k; i++) total += s[i]; \
        } \
        d[r] = (T)total; \
    } \
}
VM_COUNT(u32, uint32_t, vm_few_sum_u32) VM_COUNT(u64, uint64_t, vm_seg_sum_u64)
VM_COUNT(f32, float, vm_few_sum_f32) VM_COUNT(f64, double, vm_few_sum_f64)
static inline FgVmSeg fg_vm_seg_count(int t) {
    static const FgVmSeg seg[FG_NDTYPES] = {[FG_I32] = vm_seg_count_u32, [FG_U32] = vm_seg_count_u32, [FG_I64] = vm_seg_count_u64,
                                            [FG_U64] = vm_seg_count_u64, ROW_F(seg_count)};
    return seg[t];
}
static inline FgVmTiles fg_vm_tiles_count(int t) {
    static const FgVmTiles tiles[FG_NDTYPES] = {[FG_I32] = vm_tiles_count_u32, [FG_U32] = vm_tiles_count_u32, [FG_I64] = vm_tiles_count_u64,
                                                [FG_U64] = vm_tiles_count_u64, ROW_F(tiles_count)};
    return tiles[t];
}

/* Of sums and products that pass NaN over. */
static inline FgVmSeg fg_vm_seg_numbers(int reduce, int t) {
    static const FgVmSeg seg[FG_RED_COUNT][FG_NDTYPES] = {[FG_RED_SUM] = {ROW_F(few_nansum)}, [FG_RED_PROD] = {ROW_F(few_nanprod)}};
    return seg[reduce][t];
}
static inline FgVmTiles fg_vm_tiles_numbers(int reduce, int t) {
    static const FgVmTiles tiles[FG_RED_COUNT][FG_NDTYPES] = {[FG_RED_SUM] = {ROW_F(tiles_nansum)}, [FG_RED_PROD] = {ROW_F(tiles_nanprod)}};
    return tiles[reduce][t];
}

/* The identity of a reduction, as raw bits of the type. */
static void fg_vm_identity(int reduce, int t, void *out) {
    static const uint16_t narrow[FG_RED_COUNT][2] = {[FG_RED_PROD] = {0x3c00, 0x3f80}, [FG_RED_MAX] = {0xfc00, 0xff80},
        [FG_RED_MIN] = {0x7c00, 0x7f80}, [FG_RED_FMAX] = {0x7e00, 0x7fc0}, [FG_RED_FMIN] = {0x7e00, 0x7fc0}};
    memset(out, 0, 16);
    if (t == FG_F16 || t == FG_BF16) { memcpy(out, &narrow[reduce][t == FG_BF16], 2); return; }
    int64_t w = fg_itemsize(t);
    int is_signed = t >= FG_I8 && t <= FG_I64, is_unsigned = t >= FG_U8 && t <= FG_U64;
    if (reduce == FG_RED_PROD) {
        float f = 1; double d = 1; int64_t one = 1;
        if (t == FG_F32 || t == FG_C64) memcpy(out, &f, 4);
        else memcpy(out, t == FG_F64 || t == FG_C128 ? (void *)&d : (void *)&one, 8);
    } else if (reduce == FG_RED_FMAX || reduce == FG_RED_FMIN) {
        float f = NAN; double d = NAN;
        if (t == FG_F32) memcpy(out, &f, 4); else memcpy(out, &d, 8);
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
