/* Matrix products of float32 and float64 on one thread: c[m, n] (+)= sum_k a[m, k] b[k, n].
 *
 * Everything rests on one register tile: up to GEMM_MR rows by up to GEMM_NV vectors of c stay in registers while k runs.
 * Its operands are read where they lie, or from packed panels, which are plain too:
 *
 *     a panel of r rows, 1 <= r <= GEMM_MR, is    a[k * r + i]
 *     a panel of n columns, n <= NR, is           b[k * w + j],    w = n rounded up to whole vectors, what is beyond n is zero
 *
 * where NR is gemm_f32_nr or gemm_f64_nr.  A kernel that can write such panels itself (convolution's patches) needs nothing else:
 *
 *     gemm_f32_tile(rows, n, kc, a, b, c, ldc, add)                         one tile of two panels
 *     gemm_f32_block(m, n, kc, pa, pb, c, ldc, add)                         all tiles of m rows and n columns
 *     gemm_f32_pack(dst, w, src, lanes, lane_stride, k_stride, kc)          one panel of either kind
 *     gemm_f32_dots(m, n, kc, a, lda, b, ldb, c, ldc, ahead)                a few rows against contiguous rows of b^T, added to c
 *     gemm_f32_pack_a, gemm_f32_pack_b                                      all panels of a block, as `block` expects them
 *
 * An element of c is always the same chain of multiply-adds over k, whatever tile it falls into, so that a result depends on how k is
 * cut into pieces of kc and on nothing else: not on blocks, threads, or whether an operand was packed.  `add` 0 never reads c.
 */
#ifndef FG_GEMM_H
#define FG_GEMM_H
#include <stdint.h>
#include <string.h>
#include "fetch.h"
#include "narrow.h"
#ifdef __AVX__
#include <immintrin.h>
#endif

/* The tile fills the registers: MR x NV sums, NV vectors of b, one element of a. */
#if defined(__AVX512F__)
#define GEMM_BYTES 64
#define GEMM_MR 14
#define GEMM_NV 2
#define GEMM_EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#elif defined(__AVX__)
#define GEMM_BYTES 32
#define GEMM_MR 6
#define GEMM_NV 2
#define GEMM_EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#elif defined(__aarch64__)
#define GEMM_BYTES 16
#define GEMM_MR 12
#define GEMM_NV 2
#define GEMM_EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#else
#define GEMM_BYTES 16
#define GEMM_MR 6
#define GEMM_NV 2
#define GEMM_EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#endif
#define GEMM_LONG_ROW 1024 /* bytes of a row of b that is packed as it lies */
#define GEMM_SLACK 64      /* bytes a kernel that writes panels itself may spill beyond the last one with whole vectors */
#define GEMM_WIDE (GEMM_BYTES > 16)      /* faster than OpenBLAS, which chooses its code at run time and so beats 128-bit code */
#ifdef __AVX512F__
#define GEMM_MASKS 1       /* part of a vector is read as fast as all of it */
#else
#define GEMM_MASKS 0
#endif
/* Sums of a few rows against as many of b: 32 registers hold 16 of them, 16 hold 8. */
#define GEMM_DOTS_COLS 4
#define GEMM_DOTS_ROWS 8
#if GEMM_BYTES == 64 || defined(__aarch64__)
#define GEMM_DOTS_TILE 4
#define GEMM_EACH_DOTS(X) X(1) X(2) X(3) X(4)
#else
#define GEMM_DOTS_TILE 2
#define GEMM_EACH_DOTS(X) X(1) X(2)
#endif
#define GEMM_INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define GEMM_UNROLL _Pragma("unroll")
#else
#define GEMM_UNROLL _Pragma("GCC unroll 16")
#endif

/* A vector used several times is loaded once, not by each use. */
#if defined(__AVX512F__)
#define GEMM_KEEP(v) __asm__("" : "+v"(v))
#elif defined(__AVX__)
#define GEMM_KEEP(v) __asm__("" : "+x"(v))
#else
#define GEMM_KEEP(v) (void)(v)
#endif

/* A product that is not fused with the sum that takes it. */
#if defined(__AVX512F__)
#define GEMM_APART(v) __asm__("" : "+v"(v))
#elif defined(__x86_64__)
#define GEMM_APART(v) __asm__("" : "+x"(v))
#elif defined(__aarch64__)
#define GEMM_APART(v) __asm__("" : "+w"(v))
#else
#define GEMM_APART(v) (void)(v)
#endif

#if GEMM_BYTES == 32
#define GEMM_TURNS 4       /* of k in one turn of a tile's loop */
/* Adds to a register where it is: the compiler renames sums from turn to turn, and then keeps some in memory. */
#ifdef __FMA__
#define GEMM_ADD(sum, x, y) do { \
    if (sizeof(T) == 4) __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(x), "x"(y)); \
    else __asm__("vfmadd231pd %2, %1, %0" : "+x"(sum) : "x"(x), "x"(y)); \
} while (0)
#else
#define GEMM_ADD(sum, x, y) ((sum) += (x) * (y))
#endif
#endif

/* Interleave two vectors: their first halves, their last halves. Or take the first one's even elements and the second one's odd ones. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define GEMM_HAS_SHUFFLE 1
#endif
#endif
#if GEMM_BYTES == 64
#define GEMM_LO_float 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define GEMM_HI_float 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define GEMM_LO_double 0, 8, 1, 9, 2, 10, 3, 11
#define GEMM_HI_double 4, 12, 5, 13, 6, 14, 7, 15
#define GEMM_EVEN_float 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31
#define GEMM_EVEN_double 0, 2, 4, 6, 9, 11, 13, 15
#elif GEMM_BYTES == 32
#define GEMM_LO_float 0, 8, 1, 9, 2, 10, 3, 11
#define GEMM_HI_float 4, 12, 5, 13, 6, 14, 7, 15
#define GEMM_LO_double 0, 4, 1, 5
#define GEMM_HI_double 2, 6, 3, 7
#define GEMM_EVEN_float 0, 2, 4, 6, 9, 11, 13, 15
#define GEMM_EVEN_double 0, 2, 5, 7
#else
#define GEMM_LO_float 0, 4, 1, 5
#define GEMM_HI_float 2, 6, 3, 7
#define GEMM_LO_double 0, 2
#define GEMM_HI_double 1, 3
#define GEMM_EVEN_float 0, 2, 5, 7
#define GEMM_EVEN_double 0, 3
#endif
#define GEMM_CAT(a, b) a##b
#define GEMM_LO(T) GEMM_CAT(GEMM_LO_, T)
#define GEMM_HI(T) GEMM_CAT(GEMM_HI_, T)
#define GEMM_EVEN(T) GEMM_CAT(GEMM_EVEN_, T)

/* Panels of equal height, so that no tile is left with few rows: where panel p of m rows begins. */
static inline int64_t gemm_panels(int64_t m) { return (m + GEMM_MR - 1) / GEMM_MR; }
static inline int64_t gemm_panel(int64_t m, int64_t p) { return m * p / gemm_panels(m); }

/* Rows of a few elements to columns and back, by the size of an element. */
#define gemm_f32_columns fg_columns_4
#define gemm_f32_rows_of fg_rows_4
#define gemm_f64_columns fg_columns_8
#define gemm_f64_rows_of fg_rows_8
#define gemm_pair_columns fg_columns_4
#define gemm_pair_rows_of fg_rows_4

#if GEMM_BYTES == 32
static const int32_t gemm_mask[16] = {-1, -1, -1, -1, -1, -1, -1, -1};        /* from 8 - n on: of n words */
#endif

#define GEMM_MADD(sum, x, y) ((sum) + (x) * (y))
#define T float
#define N(x) gemm_f32_##x
#include "gemm_tile.h"
#undef T
#undef N
#define T double
#define N(x) gemm_f64_##x
#include "gemm_tile.h"
#undef T
#undef N
#undef GEMM_MADD

/* Pairs of bfloat16 along k, each in the place of a float32: c is float32. */
#ifdef __AVX512BF16__
#define GEMM_PAIRS 1
#define GEMM_MADD(sum, x, y) ((gemm_f32_vec)_mm512_dpbf16_ps((__m512)(sum), (__m512bh)_mm512_set1_ps(x), (__m512bh)(y)))
#define T float
#define N(x) gemm_pair_##x
#include "gemm_tile.h"
#undef T
#undef N
#undef GEMM_MADD
#else
#define GEMM_PAIRS 0
#endif
#endif
