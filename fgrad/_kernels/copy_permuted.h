/* Rows of a few items, some places apart and each perhaps backwards, put side by side: several to a vector, by one permutation. */
#ifndef FG_COPY_PERMUTED_H
#define FG_COPY_PERMUTED_H
#include <stdint.h>
#if defined(__SSSE3__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { FG_PERMUTED_LEAST = 64 };        /* bytes of rows that are worth a permutation */
/* The core reads ahead too little where a tile's results are computed and stored after each few rows, and hardly where these go backwards, those of an
 * image's next line being further up. */
#if defined(__AVX2__) && !defined(__AVX512F__)
enum { FG_PERMUTED_AHEAD = 2048 };
#define FG_PERMUTED_FETCH(at) __builtin_prefetch(at, 0, 3)
#else
enum { FG_PERMUTED_AHEAD = 0 };
#define FG_PERMUTED_FETCH(at) (void)(at)
#endif

/* How many of `rows` rows of w items of `size` bytes are copied: those in front, of which vectors neither read nor write beyond the last one. sa: bytes
 * from a row to the next; src: the first row's first item, from which its others go backwards in memory if `back`. A vector begins with a row, or
 * ends with it where the next ones lie in front of it; what it stores too much the next one overwrites. U: of indices, LANE bytes each, in N bytes. */
#define FG_PERMUTED(NAME, T, U, N, PERMUTE) \
static inline int64_t NAME(char *restrict dst, const char *restrict src, int64_t rows, int64_t w, int64_t sa, int size, int back) { \
    enum { LANE = sizeof(T), LANES = N / LANE }; \
    typedef T V __attribute__((vector_size(N))); \
    typedef V A __attribute__((aligned(1), may_alias)); \
    typedef U I __attribute__((vector_size(LANES * sizeof(U)))); \
    const int64_t bytes = w * size, step = sa < 0 ? -sa : sa; \
    if (bytes > N || !step || rows * bytes < FG_PERMUTED_LEAST || (!back && step > N - bytes)) return 0; \
    const int32_t fit = N / (int32_t)bytes, reach = step > N - bytes ? 1 : step == bytes ? fit : (int32_t)(N - bytes) / (int32_t)step + 1; \
    const int64_t k = reach < fit ? reach : fit, last = rows - 1 - (reach < fit ? fit : reach); \
    if ((k < 2 && !back) || last < 0) return 0; \
    const int wide = size / LANE, log = __builtin_ctz(wide); \
    I lane; \
    for (int i = 0; i < LANES; i++) lane[i] = (U)i; \
    const I item = lane >> log, row = item * (U)(256 / (int32_t)w + 1) >> 8, at = item - row * (U)w; \
    const I from = row * (U)(sa / size) + (back ? (U)(w - 1) - at : at) + (U)(sa < 0 ? LANES / wide - w : 0); \
    const V take = __builtin_convertvector(((from << log) + (lane & (U)(wide - 1))) & (LANES - 1), V); \
    const int64_t moves = k * sa, fills = k * bytes; \
    const char *s = src - (back ? bytes - size : 0) + (sa < 0 ? bytes - N : 0); \
    const int64_t ahead = sa > 0 ? FG_PERMUTED_AHEAD : rows * step; \
    int64_t i = 0; \
    for (; i <= last; i += k, s += moves, dst += fills) { \
        FG_PERMUTED_FETCH(s + ahead); \
        *(A *)dst = (V)PERMUTE(*(const A *)s, take); \
    } \
    return i; \
}
#if defined(__SSSE3__)
#define FG_PERMUTE16(v, take) _mm_shuffle_epi8((__m128i)(v), (__m128i)(take))
#elif defined(__aarch64__)
#define FG_PERMUTE16(v, take) vqtbl1q_u8((uint8x16_t)(v), (uint8x16_t)(take))
#endif
#ifdef FG_PERMUTE16
FG_PERMUTED(fg_permuted16, uint8_t, uint16_t, 16, FG_PERMUTE16)
#endif
#ifdef __AVX2__
#define FG_PERMUTE32(v, take) _mm256_permutevar8x32_epi32((__m256i)(v), (__m256i)(take))
FG_PERMUTED(fg_permuted32, uint32_t, uint32_t, 32, FG_PERMUTE32)
#endif

static inline int64_t fg_copy_permuted(char *restrict dst, const char *restrict src, int64_t rows, int64_t w, int64_t sa, int size, int back) {
#ifdef __AVX2__
    if (size == 4 || size == 8) return fg_permuted32(dst, src, rows, w, sa, size, back);
#endif
#ifdef FG_PERMUTE16
    if (size <= 8) return fg_permuted16(dst, src, rows, w, sa, size, back);
#endif
    return 0;
}
/* Rows of `bytes` as they are, whose items are as large as they may be. */
static inline int64_t fg_copy_permuted_rows(char *restrict dst, const char *restrict src, int64_t rows, int64_t bytes, int64_t sa) {
    const int64_t odd = bytes | sa;
    const int size = odd % 4 == 0 ? 4 : odd % 2 == 0 ? 2 : 1;
    return fg_copy_permuted(dst, src, rows, bytes / size, sa, size, 0);
}
#endif
