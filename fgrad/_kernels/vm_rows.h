/* Operations of a column and a row: d[r, j] = x[r] op y[r, j], for rows of a few vectors that a tile has many of.
 *
 * Neither operand is spread to a tile of its own: it would be stored and loaded once more for each element. Rows are whole vectors, of
 * which the next row overwrites what is too much; those at the end go element by element. */
#ifndef FG_VM_ROWS_H
#define FG_VM_ROWS_H
#include "vm_memory.h"
#include "vec.h"
#ifdef __AVX512F__
#include <immintrin.h>
#endif

/* Elements: such rows have tiles of their own, in which x is one value; where they are reduced, rows of twice as many. */
enum { FG_ROWS_LONG = 256 };
/* Strides of rows in elements, that of y 0 or at least `cols`. */
typedef void (*FgVmRowsFn)(int64_t rows, int64_t cols, void *d, const void *x, int64_t xs, const void *y, int64_t ys);

/* Rows of which a vector holds several, side by side as their column is: a vector of the column is spread to `cols` of them, and each
 * result is stored once, where rows that overwrite each other cost a store and a turn of a loop each. Returns how many rows are done. */
#if defined(__AVX512F__) && !defined(__clang__)                  /* which has no shuffle by a variable vector */
#define VM_ROWS_WHOLE(name, T, EXPR) \
static int64_t vm_rows_##name(int64_t rows, int64_t cols, void *d_, const void *x_, int64_t xs, const void *y_, int64_t ys) { \
    typedef T V __attribute__((vector_size(FG_VEC))); \
    typedef T U __attribute__((vector_size(FG_VEC), aligned(sizeof(T)), may_alias)); \
    typedef __typeof__((V){0} < (V){0}) M; \
    enum { L = FG_VEC / sizeof(T) }; \
    T *d = (T *)d_; const T *s = (const T *)x_, *q = (const T *)y_; \
    int64_t r = 0; \
    if (rows < L || cols < 2 || cols >= L || L % cols || xs != 1 || (ys && ys != cols)) return 0; \
    int shift = __builtin_ctzll(cols); \
    M lanes; V y = sizeof(T) == 4 ? (V)_mm512_maskz_loadu_epi32((1u << cols) - 1, q) : (V)_mm512_maskz_loadu_epi64((1u << cols) - 1, q); \
    for (int i = 0; i < L; i++) lanes[i] = i; \
    const M first = lanes >> shift, by = (lanes - lanes) + (__typeof__(lanes[0]))(L >> shift); \
    if (!ys) y = __builtin_shuffle(y, lanes & (__typeof__(lanes[0]))(cols - 1)); \
    for (; r + L <= rows; r += L) { \
        V column = *(const U *)(s + r); M at = first; \
        for (int64_t k = 0; k < cols; k++, at += by, d += L, q += L) { \
            V x = __builtin_shuffle(column, at); \
            if (ys) y = *(const U *)q; \
            *(U *)d = EXPR; \
        } \
    } \
    return r; \
}
#else
#define VM_ROWS_WHOLE(name, T, EXPR) \
static int64_t vm_rows_##name(int64_t rows, int64_t cols, void *d, const void *x, int64_t xs, const void *y, int64_t ys) { return 0; }
#endif

#define VM_ROWS(name, t, T, EXPR) VM_ROWS_BY(name##_##t##_16, 16, T, EXPR) VM_ROWS_BY(name##_##t##_all, FG_VEC, T, EXPR) \
VM_ROWS_WHOLE(name##_##t##_whole, T, EXPR) \
static void vm_rows_##name##_##t(int64_t rows, int64_t cols, void *d_, const void *x_, int64_t xs, const void *y_, int64_t ys) { \
    T *d = (T *)d_; const T *x = (const T *)x_, *y = (const T *)y_; \
    int64_t done = vm_rows_##name##_##t##_whole(rows, cols, d, x, xs, y, ys); \
    rows -= done; d += done * cols; x += done * xs; y += done * ys; \
    if (rows) (cols * sizeof(T) <= 16 ? vm_rows_##name##_##t##_16 : vm_rows_##name##_##t##_all)(rows, cols, d, x, xs, y, ys); \
}
#define VM_ROWS_BY(name, BYTES, T, EXPR) \
static void vm_rows_##name(int64_t rows, int64_t cols, void *d_, const void *x_, int64_t xs, const void *y_, int64_t ys) { \
    typedef T V __attribute__((vector_size(BYTES))); \
    typedef T U __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias)); \
    enum { L = BYTES / sizeof(T) }; \
    T *d = (T *)d_, once[2 * FG_ROWS_LONG + L]; const T *s = (const T *)x_, *q = (const T *)y_; \
    int64_t r = 0, n = rows * cols, whole = (cols + L - 1) / L * L; \
    if (ys == 0 && rows > 1) {                                          /* one row for all: with room behind it */ \
        memcpy(once, q, cols * sizeof(T)); \
        for (int64_t j = cols; j < whole; j++) once[j] = 0; \
        q = once; \
    } \
    for (; r * cols + whole <= n; r++, d += cols, s += xs, q += ys) { \
        V x = *s - (V){0}; \
        for (int64_t j = 0; j < cols; j += L) { V y = *(const U *)(q + j); *(U *)(d + j) = EXPR; } \
    } \
    for (; r < rows; r++, d += cols, s += xs, q += ys) { \
        T x = *s; \
        for (int64_t j = 0; j < cols; j++) { T y = q[j]; d[j] = EXPR; } \
    } \
}
#define VM_ROWS_OF(t, T) VM_ROWS(add, t, T, x + y) VM_ROWS(mul, t, T, x * y) VM_ROWS(sub, t, T, x - y) VM_ROWS(rsub, t, T, y - x)
#define VM_ROWS_FLOAT(t, T) VM_ROWS_OF(t, T) VM_ROWS(div, t, T, x / y) VM_ROWS(rdiv, t, T, y / x)
VM_ROWS_FLOAT(f32, float) VM_ROWS_FLOAT(f64, double) VM_ROWS_OF(u32, uint32_t) VM_ROWS_OF(u64, uint64_t)

/* The loop of an operation, NULL if there is none; turned: the column is its second operand. */
static FgVmRowsFn fg_vm_rows_fn(int op, int t, int turned) {
    #define OF(t) switch (op) { \
        case FG_OP_add: return vm_rows_add_##t; case FG_OP_mul: return vm_rows_mul_##t; \
        case FG_OP_sub: return turned ? vm_rows_rsub_##t : vm_rows_sub_##t; default: break; }
    #define QUOTIENT(t) if (op == FG_OP_div) return turned ? vm_rows_rdiv_##t : vm_rows_div_##t;
    switch (t) {
        case FG_F32: OF(f32) QUOTIENT(f32) break;
        case FG_F64: OF(f64) QUOTIENT(f64) break;
        case FG_I32: case FG_U32: OF(u32) break;
        case FG_I64: case FG_U64: OF(u64) break;
        default: break;
    }
    #undef OF
    #undef QUOTIENT
    return NULL;
}
#endif
