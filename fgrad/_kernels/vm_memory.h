/* Moving tiles between strided memory and contiguous buffers. */
#ifndef FG_VM_MEMORY_H
#define FG_VM_MEMORY_H
#include "copy_rows.h"
#include "fg.h"
#include "narrow.h"
#include "transposed.h"
#ifdef __SSE2__
#include <immintrin.h>
#endif

typedef struct { uint64_t lo, hi; } fg_u128;

#define FG_BY_SIZE(size, MACRO) switch (size) { \
    case 1: MACRO(uint8_t) break; case 2: MACRO(uint16_t) break; case 4: MACRO(uint32_t) break; \
    case 8: MACRO(uint64_t) break; default: MACRO(fg_u128) break; }

static void fg_vm_fill(char *dst, const void *value, int size, int64_t n) {
    #define M(T) { T v; memcpy(&v, value, sizeof(T)); T *d = (T *)dst; for (int64_t i = 0; i < n; i++) d[i] = v; }
    FG_BY_SIZE(size, M)
    #undef M
}

/* memcpy past the caches, where the machine can: the lines of dst are not read first. fg_vm_stream_end() makes it visible. */
static void fg_vm_stream(char *dst, const char *src, int64_t bytes) {
#ifdef __SSE2__
    int64_t head = (int64_t)(-(uintptr_t)dst & 63);
    if (head > bytes) head = bytes;
    memcpy(dst, src, head);
    dst += head; src += head; bytes -= head;
    for (; bytes >= 64; dst += 64, src += 64, bytes -= 64)
        for (int k = 0; k < 64; k += 16) _mm_stream_si128((__m128i *)(dst + k), _mm_loadu_si128((const __m128i *)(src + k)));
#endif
    memcpy(dst, src, bytes);
}
static void fg_vm_stream_end(void) {
#ifdef __SSE2__
    _mm_sfence();
#endif
}

/* d[r * cols + j] = s[r * rs] for narrow rows: whole vectors, of which the next row overwrites what is too much, but at the end. */
#define FG_VM_SPREAD_BY(T, bytes) \
static void fg_vm_spread##bytes##_##T(T *d, const T *s, int64_t rows, int64_t cols, int64_t rs) { \
    typedef T V __attribute__((vector_size(bytes), aligned(1), may_alias)); \
    enum { L = bytes / sizeof(T) }; \
    int64_t r = 0, n = rows * cols, whole = (cols + L - 1) / L * L; \
    if (whole == L) for (; r * cols + L <= n; r++, d += cols, s += rs) *(V *)d = (V){0} + *s; \
    for (; r * cols + whole <= n; r++, d += cols, s += rs) { \
        V v = (V){0} + *s; \
        for (int64_t j = 0; j < cols; j += L) *(V *)(d + j) = v; \
    } \
    for (; r < rows; r++, d += cols, s += rs) for (int64_t j = 0; j < cols; j++) d[j] = *s; \
}
#define FG_VM_SPREAD(T) FG_VM_SPREAD_BY(T, 16) FG_VM_SPREAD_BY(T, 64) \
static void fg_vm_spread_##T(T *d, const T *s, int64_t rows, int64_t cols, int64_t rs) { \
    (cols * (int64_t)sizeof(T) < 64 ? fg_vm_spread16_##T : fg_vm_spread64_##T)(d, s, rows, cols, rs); }
FG_VM_SPREAD(uint8_t) FG_VM_SPREAD(uint16_t) FG_VM_SPREAD(uint32_t) FG_VM_SPREAD(uint64_t)
static void fg_vm_spread_fg_u128(fg_u128 *d, const fg_u128 *s, int64_t rows, int64_t cols, int64_t rs) {
    for (int64_t r = 0; r < rows; r++, d += cols, s += rs) for (int64_t j = 0; j < cols; j++) d[j] = *s;
}

/* rows of `bytes`, ss and ds bytes apart */
static void fg_vm_copy(char *dst, const char *src, int64_t rows, int64_t bytes, int64_t ss, int64_t ds) {
    if (rows == 1 || (ss == bytes && ds == bytes)) memcpy(dst, src, rows * bytes);
    else fg_copy_rows(dst, src, rows, bytes, ss, ds);
}

/* `blocks` of `rows` copies of a row of at most 64 bytes, rows `step` bytes apart: whole vectors, of which what follows overwrites what is
 * too much; a block that has too little behind it, on either side, goes row by row. */
#define FG_VM_REPEAT(NAME, W) \
static void NAME(char *dst, const char *src, int64_t blocks, int64_t rows, int64_t bytes, int64_t step) { \
    typedef uint64_t V __attribute__((vector_size(16), aligned(1), may_alias)); \
    const int64_t block = rows * bytes, spill = 16 * W - bytes; \
    for (int64_t i = 0; i < blocks; i++, src += step, dst += block) { \
        if ((blocks - 1 - i) * (block < step ? block : step) < spill) { for (int64_t r = 0; r < rows; r++) memcpy(dst + r * bytes, src, (size_t)bytes); continue; } \
        V v[W]; \
        for (int w = 0; w < W; w++) v[w] = *(const V *)(src + 16 * w); \
        for (int64_t r = 0; r < rows; r++) for (int w = 0; w < W; w++) *(V *)(dst + r * bytes + 16 * w) = v[w]; \
    } \
}
FG_VM_REPEAT(fg_vm_repeat16, 1) FG_VM_REPEAT(fg_vm_repeat32, 2) FG_VM_REPEAT(fg_vm_repeat64, 4)

/* Columns as rows, rows x cols of them, each `cs` from the next in memory; false where they make no whole block. */
#define FG_VM_TRANSPOSE(size, ITEM, T) \
static int fg_vm_transpose##size(char *dst, const char *src, int64_t rows, int64_t cols, int64_t cs) { \
    enum { N = fg_transpose_side_##ITEM }; \
    int64_t h = rows & -N, w = cols & -N; \
    if (!h || !w) return 0; \
    for (int64_t j = 0; j < w; j += N) \
        for (int64_t i = 0; i < h; i += N) fg_transpose_##ITEM(dst + (i * cols + j) * size, src + (i + j * cs) * size, cs * size, cols * size); \
    T *d = (T *)dst; const T *s = (const T *)src; \
    for (int64_t i = 0; i < h; i++) for (int64_t j = w; j < cols; j++) d[i * cols + j] = s[i + j * cs]; \
    for (int64_t i = h; i < rows; i++) for (int64_t j = 0; j < cols; j++) d[i * cols + j] = s[i + j * cs]; \
    return 1; \
}
FG_VM_TRANSPOSE(4, fg_item4, uint32_t) FG_VM_TRANSPOSE(8, fg_item8, uint64_t)

/* Rows backwards. The core reads ahead too little while the results of a tile are computed and stored: what comes next is fetched, of long rows some
 * lines further down, of others in the next row. */
#if defined(__AVX2__) && !defined(__AVX512F__)
enum { FG_VM_BACKWARDS = 1, FG_VM_BEHIND = 2048 };
static void fg_vm_backwards(uint32_t *d, const uint32_t *s, int64_t rows, int64_t cols, int64_t rs) {
    typedef uint32_t V __attribute__((vector_size(32), aligned(4), may_alias));
    const int64_t ahead = cols > FG_VM_BEHIND / 4 * 2 ? -FG_VM_BEHIND : rs * 4;
    for (int64_t r = 0; r < rows; r++, d += cols, s += rs) {
        int64_t j = 0;
        for (; j + 16 <= cols; j += 16) {
            const V a = *(const V *)(s - j - 7), b = *(const V *)(s - j - 15);
            __builtin_prefetch((const char *)(s - j) + ahead, 0, 3);
            *(V *)(d + j) = __builtin_shufflevector(a, a, 7, 6, 5, 4, 3, 2, 1, 0);
            *(V *)(d + j + 8) = __builtin_shufflevector(b, b, 7, 6, 5, 4, 3, 2, 1, 0);
        }
        for (; j < cols; j++) d[j] = s[-j];
    }
}
#else
enum { FG_VM_BACKWARDS = 0 };
static inline void fg_vm_backwards(uint32_t *d, const uint32_t *s, int64_t rows, int64_t cols, int64_t rs) { (void)d; (void)s; (void)rows; (void)cols; (void)rs; }
#endif

/* rows x cols elements from src with strides (rs, cs) into contiguous dst */
static void fg_vm_gather2(char *dst, const char *src, int size, int64_t rows, int64_t cols, int64_t rs, int64_t cs) {
    if (cs == 1) { fg_vm_copy(dst, src, rows, cols * size, rs * size, cols * size); return; }
    if (rs == 1 && (size == 4 || size == 8)) {                          /* a few columns side by side, or rows of few elements taken apart */
        if (cols > 1 && cols < 8 && rows > cols) { (size == 4 ? fg_rows_4 : fg_rows_8)(dst, src, cs, rows, cols); return; }
        if (rows > 1 && rows < 8 && rows == cs) { (size == 4 ? fg_columns_4 : fg_columns_8)(dst, cols, src, cols, rows); return; }
    }
    if (rs == 1 && cs > 1 && size == 4 && fg_vm_transpose4(dst, src, rows, cols, cs)) return;
    if (rs == 1 && cs > 1 && size == 8 && fg_vm_transpose8(dst, src, rows, cols, cs)) return;
    if (cs == -1 && cols > 1 && cols <= 32) {
        const int64_t done = fg_copy_permuted(dst, src, rows, cols, rs * size, size, 1);
        rows -= done; dst += done * cols * size; src += done * rs * size;
    }
    if (cs == -1 && size == 4 && FG_VM_BACKWARDS) { fg_vm_backwards((uint32_t *)dst, (const uint32_t *)src, rows, cols, rs); return; }
    #define M(T) { T *d = (T *)dst; const T *s = (const T *)src; \
        if (cs == 0 && cols <= 256) fg_vm_spread_##T(d, s, rows, cols, rs); \
        else if (cs == 0) for (int64_t r = 0; r < rows; r++, d += cols, s += rs) { \
            T v = s[0]; \
            for (int64_t j = 0; j < cols; j++) d[j] = v; \
        } \
        else for (int64_t r = 0; r < rows; r++, d += cols, s += rs) { \
            if (cs == -1) { FG_EVERY(-1) } else if (cs == 2) { FG_EVERY(2) } else if (cs == 3) { FG_EVERY(3) } else if (cs == 4) { FG_EVERY(4) } else { FG_EVERY(cs) } } }
    #define FG_EVERY(step) for (int64_t j = 0; j < cols; j++) d[j] = s[j * step];        /* by a constant step: in vectors */
    FG_BY_SIZE(size, M)
    #undef FG_EVERY
    #undef M
}
static void fg_vm_scatter2(char *dst, const char *src, int size, int64_t rows, int64_t cols, int64_t rs, int64_t cs) {
    if (cs == 1) { fg_vm_copy(dst, src, rows, cols * size, cols * size, rs * size); return; }
    #define M(T) { T *d = (T *)dst; const T *s = (const T *)src; \
        for (int64_t r = 0; r < rows; r++, d += rs, s += cols) for (int64_t j = 0; j < cols; j++) d[j * cs] = s[j]; }
    FG_BY_SIZE(size, M)
    #undef M
}

/* Row-major coordinates of flat index `start`. */
static void fg_vm_coords(int ndim, const int64_t *shape, int64_t start, int64_t *coord) {
    if (!start) { for (int d = 0; d < ndim; d++) coord[d] = 0; return; }    /* a small walk's only tile: divisions take long */
    for (int d = ndim - 1; d > 0; d--) { coord[d] = start % shape[d]; start /= shape[d]; }
    if (ndim > 0) coord[0] = start;
}
static inline int64_t fg_vm_offset(int ndim, const int64_t *coord, const int64_t *strides) {
    int64_t off = 0;
    for (int d = 0; d < ndim; d++) off += coord[d] * strides[d];
    return off;
}

/* The axes along which strided memory lies, innermost first, at least two, and the coordinates there: neighbours that it walks as one are one. */
static inline int fg_vm_axes(int ndim, const int64_t *shape, const int64_t *strides, const int64_t *coord, int64_t *n, int64_t *s, int64_t *c) {
    int m = -1;
    for (int d = ndim - 1; d >= 0; d--) {
        if (m >= 0 && strides[d] == s[m] * n[m]) { c[m] += coord[d] * n[m]; n[m] *= shape[d]; continue; }
        n[++m] = shape[d]; s[m] = strides[d]; c[m] = coord[d];
    }
    for (m++; m < 2; m++) { n[m] = 1; s[m] = c[m] = 0; }
    return m;
}

/* `len` elements of the row-major walk over `shape` from `coord`, between strided memory and a contiguous buffer: a
 * partial row, whole rows in runs along the last but one axis, a partial row.  store = 0 gathers, 1 scatters. */
static void fg_vm_walk(char *buf, char *mem, int size, int ndim, const int64_t *shape, const int64_t *strides,
                       const int64_t *coord, int64_t len, int store) {
    int64_t n[FG_MAXDIM + 2], s[FG_MAXDIM + 2], c[FG_MAXDIM + 2];
    int m = fg_vm_axes(ndim, shape, strides, coord, n, s, c);
    while (len > 0) {
        char *at = mem;
        int64_t rows = 1, width = n[0] - c[0];
        for (int d = 0; d < m; d++) at += c[d] * s[d] * size;
        if (!store && m > 2 && s[0] == 1 && s[1] == 0 && n[0] * size <= 64 && c[0] == 0 && c[1] == 0 && len >= 2 * n[0] * n[1]) {      /* short rows, each several times */
            const int64_t bytes = n[0] * size, blocks = len / (n[0] * n[1]) < n[2] - c[2] ? len / (n[0] * n[1]) : n[2] - c[2];
            (bytes <= 16 ? fg_vm_repeat16 : bytes <= 32 ? fg_vm_repeat32 : fg_vm_repeat64)(buf, at, blocks, n[1], bytes, s[2] * size);
            buf += blocks * n[1] * bytes; len -= blocks * n[0] * n[1];
            c[2] += blocks;
            for (int d = 2; d < m - 1 && c[d] == n[d]; d++) { c[d] = 0; c[d + 1]++; }
            continue;
        }
        if (width > len) width = len;
        if (width == n[0]) { rows = len / width; if (rows > n[1] - c[1]) rows = n[1] - c[1]; }
        if (store) fg_vm_scatter2(at, buf, size, rows, width, s[1], s[0]);
        else fg_vm_gather2(buf, at, size, rows, width, s[1], s[0]);
        buf += rows * width * size; len -= rows * width;
        c[0] = 0; c[1] += rows;
        for (int d = 1; d < m - 1 && c[d] == n[d]; d++) { c[d] = 0; c[d + 1]++; }
    }
}

/* d[i * k + j] = v[j][i]: two to four buffers turned to the columns of one (store), or its columns to buffers */
enum { FG_VM_MATES = 4 };
static void fg_vm_turn(char *d_, char *const *v, int k, int size, int64_t at, int64_t n, int store) {
#if FG_NARROW_VECTORS
    #define TURNED(W) do { \
        fg_narrow##W *to[FG_VM_MATES]; \
        for (int j = 0; j < k; j++) to[j] = (fg_narrow##W *)v[j] + at; \
        if (store && k == 3) { fg_rows_odd3_##W((fg_narrow##W *)d_, (const fg_narrow##W *const *)to, n); return; } \
        if (!store) { (k == 2 ? fg_columns_two_##W : k == 3 ? fg_columns_odd3_##W : fg_columns_four_##W)(to, (const fg_narrow##W *)d_, n); return; } \
    } while (0)
    if (size == 4) TURNED(4);
    if (size == 8) TURNED(8);
    #undef TURNED
#endif
    #define M(T) { T *restrict d = (T *)d_; \
        T *restrict x = (T *)v[0] + at, *restrict y = (T *)v[1] + at, *restrict z = (T *)v[2] + at, *restrict w = (T *)v[3] + at; \
        if (store) { \
            if (k == 2) for (int64_t i = 0; i < n; i++) { d[2 * i] = x[i]; d[2 * i + 1] = y[i]; } \
            else if (k == 3) for (int64_t i = 0; i < n; i++) { d[3 * i] = x[i]; d[3 * i + 1] = y[i]; d[3 * i + 2] = z[i]; } \
            else for (int64_t i = 0; i < n; i++) { d[4 * i] = x[i]; d[4 * i + 1] = y[i]; d[4 * i + 2] = z[i]; d[4 * i + 3] = w[i]; } \
        } else { \
            if (k == 2) for (int64_t i = 0; i < n; i++) { x[i] = d[2 * i]; y[i] = d[2 * i + 1]; } \
            else if (k == 3) for (int64_t i = 0; i < n; i++) { x[i] = d[3 * i]; y[i] = d[3 * i + 1]; z[i] = d[3 * i + 2]; } \
            else for (int64_t i = 0; i < n; i++) { x[i] = d[4 * i]; y[i] = d[4 * i + 1]; z[i] = d[4 * i + 2]; w[i] = d[4 * i + 3]; } \
        } }
    FG_BY_SIZE(size, M)
    #undef M
}
static void fg_vm_walk_turned(char *const *v, int k, char *mem, int size, int ndim, const int64_t *shape, const int64_t *strides,
                              const int64_t *coord, int64_t len, int store) {
    int64_t n[FG_MAXDIM + 2], s[FG_MAXDIM + 2], c[FG_MAXDIM + 2], width;
    int m = fg_vm_axes(ndim, shape, strides, coord, n, s, c);
    for (int64_t at = 0; at < len; at += width) {
        char *d = mem;
        for (int i = 0; i < m; i++) d += c[i] * s[i] * size;
        width = n[0] - c[0] < len - at ? n[0] - c[0] : len - at;
        fg_vm_turn(d, v, k, size, at, width, store);
        c[0] = 0; c[1]++;
        for (int i = 1; i < m - 1 && c[i] == n[i]; i++) { c[i] = 0; c[i + 1]++; }
    }
}
#endif
