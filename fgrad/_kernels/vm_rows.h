/* Operations of a column and a row: d[r, j] = x[r] op y[r, j], for rows of a few vectors that a tile has many of.
 *
 * Neither operand is spread to a tile of its own: it would be stored and loaded once more for each element. Rows are whole vectors, of
 * which the next row overwrites what is too much; those at the end go element by element. */
#ifndef FG_VM_ROWS_H
#define FG_VM_ROWS_H
#include "mask_bytes.h"
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

#define VM_ROWS(name, t, T, EXPR) VM_ROWS_BY(name##_##t##_16, 16, T, T, EXPR, EXPR) VM_ROWS_BY(name##_##t##_all, FG_VEC, T, T, EXPR, EXPR) \
VM_ROWS_WHOLE(name##_##t##_whole, T, EXPR) \
static void vm_rows_##name##_##t(int64_t rows, int64_t cols, void *d_, const void *x_, int64_t xs, const void *y_, int64_t ys) { \
    T *d = (T *)d_; const T *x = (const T *)x_, *y = (const T *)y_; \
    int64_t done = vm_rows_##name##_##t##_whole(rows, cols, d, x, xs, y, ys); \
    rows -= done; d += done * cols; x += done * xs; y += done * ys; \
    if (rows) (cols * sizeof(T) <= 16 ? vm_rows_##name##_##t##_16 : vm_rows_##name##_##t##_all)(rows, cols, d, x, xs, y, ys); \
}
/* The same with a result of another type R: EXPR for one number, FEW and ALL for vectors of 16 bytes and whole ones. */
#define VM_ROWS_TO(name, t, T, R, EXPR, FEW, ALL) \
VM_ROWS_BY(name##_##t##_16, 16, T, R, EXPR, FEW) VM_ROWS_BY(name##_##t##_all, FG_VEC, T, R, EXPR, ALL) \
static void vm_rows_##name##_##t(int64_t rows, int64_t cols, void *d, const void *x, int64_t xs, const void *y, int64_t ys) { \
    (cols * sizeof(T) <= 16 ? vm_rows_##name##_##t##_16 : vm_rows_##name##_##t##_all)(rows, cols, d, x, xs, y, ys); \
}
#define VM_ROWS_BY(name, BYTES, T, R, EXPR, LANES) \
static void vm_rows_##name(int64_t rows, int64_t cols, void *d_, const void *x_, int64_t xs, const void *y_, int64_t ys) { \
    typedef T V __attribute__((vector_size(BYTES))); \
    typedef T U __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias)); \
    enum { L = BYTES / sizeof(T) }; \
    typedef R W __attribute__((vector_size(L * sizeof(R)), aligned(sizeof(R)), may_alias)); \
    R *d = (R *)d_; T once[2 * FG_ROWS_LONG + L]; const T *s = (const T *)x_, *q = (const T *)y_; \
    int64_t r = 0, n = rows * cols, whole = (cols + L - 1) / L * L; \
    if (ys == 0 && rows > 1) {                                          /* one row for all: with room behind it */ \
        memcpy(once, q, cols * sizeof(T)); \
        for (int64_t j = cols; j < whole; j++) once[j] = 0; \
        q = once; \
    } \
    for (; r * cols + whole <= n; r++, d += cols, s += xs, q += ys) { \
        V x = *s - (V){0}; \
        for (int64_t j = 0; j < cols; j += L) { V y = *(const U *)(q + j); *(W *)(d + j) = (W)(LANES); } \
    } \
    for (; r < rows; r++, d += cols, s += xs, q += ys) { \
        T x = *s; \
        for (int64_t j = 0; j < cols; j++) { T y = q[j]; d[j] = EXPR; } \
    } \
}
#define VM_ROWS_OF(t, T) VM_ROWS(add, t, T, x + y) VM_ROWS(mul, t, T, x * y) VM_ROWS(sub, t, T, x - y) VM_ROWS(rsub, t, T, y - x)
#define VM_ROWS_FLOAT(t, T) VM_ROWS_OF(t, T) VM_ROWS(div, t, T, x / y) VM_ROWS(rdiv, t, T, y / x)
VM_ROWS_FLOAT(f32, float) VM_ROWS_FLOAT(f64, double) VM_ROWS_OF(u32, uint32_t) VM_ROWS_OF(u64, uint64_t)
/* Comparisons of vectors x and y give bytes, with AVX-512 by way of a mask. */
#if FG_MASK_PACKS
#define VM_ROWS_BYTES(expr) ({ typedef uint8_t B_ __attribute__((vector_size(L))); const __typeof__(expr) m_ = expr; B_ b_; \
    fg_mask_bytes(&b_, &m_, sizeof m_, sizeof m_[0]); b_; })
#else
#define VM_ROWS_BYTES(expr) ({ typedef uint8_t B_ __attribute__((vector_size(L))); __builtin_convertvector(expr, B_) & 1; })
#endif
#ifdef __AVX512BW__
#define VM_ROWS_MASK(mask) _mm_maskz_mov_epi8(mask, _mm_set1_epi8(1))
#define VM_ROWS_IS_f32(expr, f, i) VM_ROWS_MASK(_mm512_cmp_ps_mask((__m512)x, (__m512)y, f))
#define VM_ROWS_IS_i32(expr, f, i) VM_ROWS_MASK(_mm512_cmp_epi32_mask((__m512i)x, (__m512i)y, i))
#define VM_ROWS_IS_u32(expr, f, i) VM_ROWS_MASK(_mm512_cmp_epu32_mask((__m512i)x, (__m512i)y, i))
#else
#define VM_ROWS_IS_f32(expr, f, i) VM_ROWS_BYTES(expr)
#define VM_ROWS_IS_i32(expr, f, i) VM_ROWS_BYTES(expr)
#define VM_ROWS_IS_u32(expr, f, i) VM_ROWS_BYTES(expr)
#endif
#define VM_ROWS_IS_f64(expr, f, i) VM_ROWS_BYTES(expr)
#define VM_ROWS_IS_i64(expr, f, i) VM_ROWS_BYTES(expr)
#define VM_ROWS_IS_u64(expr, f, i) VM_ROWS_BYTES(expr)
#define VM_ROWS_IF(name, t, T, expr, f, i) VM_ROWS_TO(name, t, T, uint8_t, expr, VM_ROWS_BYTES(expr), VM_ROWS_IS_##t(expr, f, i))
#define VM_ROWS_EQUAL(t, T) VM_ROWS_IF(eq, t, T, x == y, _CMP_EQ_OQ, _MM_CMPINT_EQ) VM_ROWS_IF(ne, t, T, x != y, _CMP_NEQ_UQ, _MM_CMPINT_NE)
#define VM_ROWS_ORDER(t, T) \
    VM_ROWS_IF(lt, t, T, x < y, _CMP_LT_OQ, _MM_CMPINT_LT) VM_ROWS_IF(le, t, T, x <= y, _CMP_LE_OQ, _MM_CMPINT_LE) \
    VM_ROWS_IF(gt, t, T, x > y, _CMP_GT_OQ, _MM_CMPINT_NLE) VM_ROWS_IF(ge, t, T, x >= y, _CMP_GE_OQ, _MM_CMPINT_NLT)
VM_ROWS_EQUAL(f32, float) VM_ROWS_EQUAL(f64, double) VM_ROWS_EQUAL(u32, uint32_t) VM_ROWS_EQUAL(u64, uint64_t)
VM_ROWS_ORDER(f32, float) VM_ROWS_ORDER(f64, double) VM_ROWS_ORDER(i32, int32_t) VM_ROWS_ORDER(i64, int64_t)
VM_ROWS_ORDER(u32, uint32_t) VM_ROWS_ORDER(u64, uint64_t)

/* The loop of an operation, NULL if there is none; turned: the column is its second operand. */
static FgVmRowsFn fg_vm_rows_fn(int op, int t, int turned) {
    #define OF(t) switch (op) { \
        case FG_OP_add: return vm_rows_add_##t; case FG_OP_mul: return vm_rows_mul_##t; \
        case FG_OP_sub: return turned ? vm_rows_rsub_##t : vm_rows_sub_##t; default: break; }
    #define EQUAL(t) switch (op) { case FG_OP_eq: return vm_rows_eq_##t; case FG_OP_ne: return vm_rows_ne_##t; default: break; }
    #define ORDER(t) switch (op) { \
        case FG_OP_lt: return turned ? vm_rows_gt_##t : vm_rows_lt_##t; case FG_OP_le: return turned ? vm_rows_ge_##t : vm_rows_le_##t; \
        case FG_OP_gt: return turned ? vm_rows_lt_##t : vm_rows_gt_##t; case FG_OP_ge: return turned ? vm_rows_le_##t : vm_rows_ge_##t; \
        default: break; }
    #define QUOTIENT(t) if (op == FG_OP_div) return turned ? vm_rows_rdiv_##t : vm_rows_div_##t;
    switch (t) {
        case FG_F32: OF(f32) QUOTIENT(f32) EQUAL(f32) ORDER(f32) break;
        case FG_F64: OF(f64) QUOTIENT(f64) EQUAL(f64) ORDER(f64) break;
        case FG_I32: OF(u32) EQUAL(u32) ORDER(i32) break;
        case FG_U32: OF(u32) EQUAL(u32) ORDER(u32) break;
        case FG_I64: OF(u64) EQUAL(u64) ORDER(i64) break;
        case FG_U64: OF(u64) EQUAL(u64) ORDER(u64) break;
        default: break;
    }
    #undef OF
    #undef QUOTIENT
    #undef EQUAL
    #undef ORDER
    return NULL;
}
#endif
