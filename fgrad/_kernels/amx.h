/* Products on the processor's tile unit (Intel AMX), of bytes and bfloat16 as they are and of float32 as a sum of three bfloat16.
 *
 * A tile is 16 rows of 64 bytes. One instruction adds to a tile of c, 16 x 16 float32, the products of 16 x 32 bfloat16 of a and 32 x 16 of
 * b, in pairs along k. A float32 is the sum of three bfloat16, its `parts`, each the nearest of what the ones before left: 24 bits in all.
 * Of their nine products the six largest are summed; what is left out is below 2^-24 of |a||b|, and sums over 32 of k are rounded before they
 * are added, so that results are as near as those of a chain of multiply-adds, or nearer.
 *
 * Panels are what the products read: for each step along k its parts, for each part one or two tiles (32 rows of a, 32 columns of b).
 * Within a step of float32, pair i of a tile's row is (k + i, k + 16 + i) for both operands; of bfloat16 (k + 2i, k + 2i + 1).
 *
 * The unit takes denormal numbers for zeros, and infinities would meet their own parts: packing tells (AMX_FAR) where a row of a, or a column
 * of b, has elements beyond 2^62 or, beside nothing larger than 2^-80, elements below 2^-100. Such products take another way.
 * Source of the splitting: Henry, Tang and Heinecke 2019, Leveraging the bfloat16 artificial intelligence datatype for higher-precision computations. */
#ifndef FG_AMX_H
#define FG_AMX_H
#include <stdint.h>
#include <string.h>
#define AMX_TILE 1024                     /* bytes */
#define AMX_LINES 32                      /* rows of a, or columns of b, in a panel: two tiles */
#define AMX_DEPTH 16                      /* pairs in a step along k */
/* What is multiplied: bfloat16, three parts of float32 (the numbers are those of parts), or bytes of a and b that are signed or not, whose sums are integers. */
enum { AMX_BF16 = 1, AMX_F32 = 3, AMX_SS, AMX_SU, AMX_US, AMX_UU };

#if defined(__x86_64__) && defined(__linux__) && (defined(__clang__) ? __clang_major__ >= 14 : __GNUC__ >= 11)
#define FG_AMX 1
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AMX_CODE __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

/* May this process use the tiles? */
static int amx_ask(void) {
    unsigned a, b, c, d, lo, hi;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d >> 22 & 0xd) != 0xd) return 0;                        /* AMX-BF16, AMX-TILE, AMX-INT8 */
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a >> 5 & 1)) return 0;                                /* AVX512-BF16 */
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return 0;                                        /* OSXSAVE */
    __asm__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    if ((lo & 0x600e6) != 0x600e6) return 0;                                                                /* vectors, masks and tiles */
    return syscall(SYS_arch_prctl, 0x1023, 18) == 0;                                                        /* ARCH_REQ_XCOMP_PERM */
}
static int amx_supported(void) {
    static int known = -1;
    if (known < 0) known = amx_ask();
    return known;
}

/* A thread configures its tiles before it uses them, and gives them back, so that a switch of threads need not keep them. */
static inline void amx_begin(void) {
    struct { uint8_t palette, start, reserved[14]; uint16_t bytes[16]; uint8_t rows[16]; } config __attribute__((aligned(64)));
    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int i = 0; i < 8; i++) { config.bytes[i] = 64; config.rows[i] = 16; }
    __asm__ volatile("ldtilecfg %0" :: "m"(config));
}
static inline void amx_end(void) { __asm__ volatile("tilerelease" ::: "memory"); }

#define AMX_LOAD(t, from, step) __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t :: "r"(from), "r"((int64_t)(step)) : "memory")
#define AMX_STORE(t, to, step) __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" :: "r"(to), "r"((int64_t)(step)) : "memory")
#define AMX_ZERO(t) __asm__ volatile("tilezero %%tmm" #t ::: "memory")
#define AMX_MADD(OP, c, a, b) __asm__ volatile(#OP " %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::: "memory")      /* c += a b */

/* A store of a tile takes some 1000 cycles more if there was none for about 2000: a spare one, of any tile, every so many steps avoids that. */
#define AMX_AWAKE(t, spare, step, parts) if ((step) % ((parts) == 1 ? 20 : 3) == 0) AMX_STORE(t, spare, 64)

/* What is needed next, fetched by the way: at each step so many lines of a panel, to the second cache, and rows of c. */
typedef struct { const char *panel; int64_t lines; float *c; int64_t ldc, rows, left; } AmxAhead;
static inline __attribute__((always_inline)) void amx_ahead(AmxAhead *f) {
    for (int64_t i = 0; i < f->lines; i++, f->panel += 64) __builtin_prefetch(f->panel, 0, 2);
    for (int64_t i = 0; i < f->rows && f->left > 0; i++, f->left--, f->c += f->ldc) {
        __builtin_prefetch(f->c, 1, 3);
        __builtin_prefetch(f->c + 16, 1, 3);
    }
}

/* ---- c = a b of one panel of each: tiles of c are 0 to 3, by rows, those of a 4 and 5, those of b 6 and 7 ---- */

#define AMX_A(M, p) AMX_LOAD(4, a + (p) * M * AMX_TILE, 64); if (M > 1) AMX_LOAD(5, a + ((p) * M + 1) * AMX_TILE, 64);
#define AMX_B(N, p) AMX_LOAD(6, b + (p) * N * AMX_TILE, 64); if (N > 1) AMX_LOAD(7, b + ((p) * N + 1) * AMX_TILE, 64);
#define AMX_PRODUCTS(OP, M, N) \
    AMX_MADD(OP, 0, 4, 6); if (N > 1) AMX_MADD(OP, 1, 4, 7); if (M > 1) AMX_MADD(OP, 2, 5, 6); if (M > 1 && N > 1) AMX_MADD(OP, 3, 5, 7);
#define AMX_STEPS(CASE, OP, M, N) \
    case CASE: for (; steps > 0; steps--, a += M * AMX_TILE, b += N * AMX_TILE) { \
        amx_ahead(next); \
        AMX_A(M, 0) AMX_B(N, 0) AMX_PRODUCTS(OP, M, N) \
        AMX_AWAKE(6, spare, steps, 1); \
    } break;
#define AMX_EACH_C(M, N, X, step) \
    X(0, c, step); if (N > 1) X(1, c + 16, step); if (M > 1) X(2, c + 16 * ldc, step); if (M > 1 && N > 1) X(3, c + 16 * ldc + 16, step);
#define AMX_CLEAR(t, at, step) AMX_ZERO(t)
#define AMX_KERNEL(M, N) \
static void amx_panel_##M##N(int kind, int64_t steps, const char *a, const char *b, float *c, int64_t ldc, AmxAhead *next) { \
    char spare[AMX_TILE] __attribute__((aligned(64))); \
    AMX_EACH_C(M, N, AMX_CLEAR, 0) \
    switch (kind) { \
    AMX_STEPS(AMX_BF16, tdpbf16ps, M, N) \
    AMX_STEPS(AMX_SS, tdpbssd, M, N) \
    AMX_STEPS(AMX_SU, tdpbsud, M, N) \
    AMX_STEPS(AMX_US, tdpbusd, M, N) \
    AMX_STEPS(AMX_UU, tdpbuud, M, N) \
    default: for (; steps > 0; steps--, a += 3 * M * AMX_TILE, b += 3 * N * AMX_TILE) { \
        amx_ahead(next); \
        AMX_A(M, 2) AMX_B(N, 0) AMX_PRODUCTS(tdpbf16ps, M, N)      /* each product but the first changes one operand */ \
        AMX_A(M, 1) AMX_PRODUCTS(tdpbf16ps, M, N) \
        AMX_A(M, 0) AMX_PRODUCTS(tdpbf16ps, M, N) \
        AMX_B(N, 2) AMX_PRODUCTS(tdpbf16ps, M, N) \
        AMX_B(N, 1) AMX_PRODUCTS(tdpbf16ps, M, N) \
        AMX_A(M, 1) AMX_PRODUCTS(tdpbf16ps, M, N) \
        AMX_AWAKE(6, spare, steps, 3); \
    }} \
    AMX_EACH_C(M, N, AMX_STORE, 4 * ldc) \
}
AMX_KERNEL(1, 1) AMX_KERNEL(1, 2) AMX_KERNEL(2, 1) AMX_KERNEL(2, 2)

/* `m` rows and `n` columns of c, at most AMX_LINES each, of panels of as many tiles as they need; c's whole tiles are written. */
static inline void amx_panel(int64_t m, int64_t n, int kind, int64_t steps, const char *a, const char *b, float *c, int64_t ldc, AmxAhead *next) {
    if (m > 16) (n > 16 ? amx_panel_22 : amx_panel_21)(kind, steps, a, b, c, ldc, next);
    else (n > 16 ? amx_panel_12 : amx_panel_11)(kind, steps, a, b, c, ldc, next);
}

/* ---- packing ---- */

/* What packing has met: the largest of the elements' bits without their sign, the least one of those that are not zero, less 1. */
typedef struct { __m512i most, least; } AmxSeen;
#define AMX_FAR 0x5e800000                /* 2^62 */
#define AMX_TINY 0x0d800000               /* 2^-100 */
#define AMX_SMALL 0x17800000              /* 2^-80 */
AMX_CODE static inline AmxSeen amx_seen(void) { return (AmxSeen){_mm512_setzero_si512(), _mm512_set1_epi32(-1)}; }
AMX_CODE static inline int amx_has_far(const AmxSeen *s) { return _mm512_cmpge_epu32_mask(s->most, _mm512_set1_epi32(AMX_FAR)) != 0; }
AMX_CODE static inline int amx_has_tiny(const AmxSeen *s) { return _mm512_cmplt_epu32_mask(s->least, _mm512_set1_epi32(AMX_TINY - 1)) != 0; }

/* The bfloat16 next to x, as a float32, halves away from zero. */
AMX_CODE static inline __m512i amx_near(__m512 x) {
    return _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000)), _mm512_set1_epi32((int)0xffff0000));
}
/* Pairs (x, y) of bfloat16 in the upper halves of two vectors. */
AMX_CODE static inline __m512i amx_pair(__m512i x, __m512i y) {      /* y's upper halves, x's below them: (x >> 16) | (y & mask) */
    return _mm512_ternarylogic_epi32(_mm512_srli_epi32(x, 16), y, _mm512_set1_epi32((int)0xffff0000), 0xf8);
}
AMX_CODE static inline void amx_see(AmxSeen *s, __m512 x) {
    __m512i bits = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
    s->most = _mm512_max_epu32(s->most, bits);
    s->least = _mm512_min_epu32(s->least, _mm512_sub_epi32(bits, _mm512_set1_epi32(1)));
}
/* A row of each of three tiles, `next` bytes apart, from the first and the second halves of a step. */
AMX_CODE static inline void amx_split(char *to, int64_t next, __m512 x, __m512 y, AmxSeen *seen) {
    __m512i px = amx_near(x), py = amx_near(y);
    amx_see(seen, x);
    amx_see(seen, y);
    _mm512_store_si512(to, amx_pair(px, py));
    x = _mm512_sub_ps(x, _mm512_castsi512_ps(px));
    y = _mm512_sub_ps(y, _mm512_castsi512_ps(py));
    px = amx_near(x);
    py = amx_near(y);
    _mm512_store_si512(to + next, amx_pair(px, py));
    x = _mm512_sub_ps(x, _mm512_castsi512_ps(px));
    y = _mm512_sub_ps(y, _mm512_castsi512_ps(py));
    _mm512_store_si512(to + 2 * next, amx_pair(_mm512_castps_si512(x), _mm512_castps_si512(y)));
}

/* A square of 16 x 16 words, turned. */
AMX_CODE static inline __attribute__((always_inline)) void amx_turn(__m512i *v) {
    __m512i t[16];
    #pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
    }
    #pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        v[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        v[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        v[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        v[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    #pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(v[i], v[4 + i], 0x88);
        t[4 + i] = _mm512_shuffle_i32x4(v[i], v[4 + i], 0xdd);
        t[8 + i] = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0x88);
        t[12 + i] = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0xdd);
    }
    #pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        v[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
        v[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
        v[4 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0x88);
        v[12 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0xdd);
    }
}

AMX_CODE static inline __mmask16 amx_mask(int64_t n) { return n >= 16 ? 0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1); }

/* v[i][l] = src[i si + l sl] of words for i < rows and l < lanes, else 0; one of the strides is 1 unless there is little to read. */
AMX_CODE static inline __attribute__((always_inline)) void amx_read(__m512i *v, const uint32_t *src, int64_t si, int64_t sl, int64_t rows, int64_t lanes) {
    if (sl == 1 && rows >= 16) {
        __mmask16 m = amx_mask(lanes);
        #pragma GCC unroll 16
        for (int i = 0; i < 16; i++) v[i] = _mm512_maskz_loadu_epi32(m, src + i * si);
    } else if (sl == 1) {
        __mmask16 m = amx_mask(lanes);
        #pragma GCC unroll 16
        for (int i = 0; i < 16; i++) v[i] = _mm512_maskz_loadu_epi32(i < rows ? m : 0, src + (i < rows ? i * si : 0));
    } else if (si == 1) {
        __mmask16 m = amx_mask(rows);
        #pragma GCC unroll 16
        for (int i = 0; i < 16; i++) v[i] = _mm512_maskz_loadu_epi32(i < lanes ? m : 0, src + (i < lanes ? i * sl : 0));
        amx_turn(v);
    } else {
        uint32_t block[256] __attribute__((aligned(64))) = {0};
        for (int64_t i = 0; i < rows && i < 16; i++) for (int64_t l = 0; l < lanes && l < 16; l++) block[16 * i + l] = src[i * si + l * sl];
        for (int i = 0; i < 16; i++) v[i] = _mm512_load_si512(block + 16 * i);
    }
}

/* Both halves of a step. */
AMX_CODE static inline __attribute__((always_inline)) void amx_read_step(__m512i *x, __m512i *y, const uint32_t *src, int64_t line, int64_t k, int64_t lines,
                                                                       int64_t depth, int by_lines) {
    if (by_lines) {
        amx_read(x, src, line, k, lines, depth);
        amx_read(y, src + 16 * k, line, k, depth > 16 ? lines : 0, depth - 16);
    } else {
        amx_read(x, src, k, line, depth, lines);
        amx_read(y, src + 16 * k, k, line, depth - 16, lines);
    }
}

/* One tile of each part of 16 lines (rows of a, columns of b; `lines` of them are there) of float32 over `depth` of k: tiles' rows are
 * lines where `by_lines`, as those of a, else pairs of k, as those of b. `next` bytes between parts. */
AMX_CODE static __attribute__((noinline)) void amx_pack_split(char *to, int64_t next, const float *src, int64_t line, int64_t k, int64_t lines, int64_t depth,
                                                            int by_lines, AmxSeen *seen) {
    const int64_t step = by_lines ? line : k, next_half = 16 * k, rows = by_lines ? lines : depth < 16 ? depth : 16;
    const int64_t late = by_lines ? depth > 16 ? lines : 0 : depth - 16;      /* rows of the second half */
    AmxSeen s = *seen;
    if ((by_lines ? k : line) == 1) {
        const __mmask16 m = amx_mask(by_lines ? depth : lines), n = amx_mask(by_lines ? depth - 16 : lines);
        for (int64_t i = 0; i < 16; i++, to += 64)
            amx_split(to, next, _mm512_maskz_loadu_ps(i < rows ? m : 0, src + (i < rows ? i * step : 0)),
                      _mm512_maskz_loadu_ps(i < late ? n : 0, src + (i < late ? i * step + next_half : 0)), &s);
    } else {
        __m512i x[16], y[16];
        amx_read_step(x, y, (const uint32_t *)src, line, k, lines, depth, by_lines);
        for (int i = 0; i < 16; i++) amx_split(to + 64 * i, next, _mm512_castsi512_ps(x[i]), _mm512_castsi512_ps(y[i]), &s);
    }
    *seen = s;
}

/* The same of the first part alone, which is all of what bfloat16 holds. */
AMX_CODE static __attribute__((noinline)) void amx_pack_near(char *to, const float *src, int64_t line, int64_t k, int64_t lines, int64_t depth,
                                                           int by_lines, AmxSeen *seen) {
    __m512i x[16], y[16];
    AmxSeen s = *seen;
    amx_read_step(x, y, (const uint32_t *)src, line, k, lines, depth, by_lines);
    for (int i = 0; i < 16; i++) {
        amx_see(&s, _mm512_castsi512_ps(x[i]));
        amx_see(&s, _mm512_castsi512_ps(y[i]));
        _mm512_store_si512(to + 64 * i, amx_pair(amx_near(_mm512_castsi512_ps(x[i])), amx_near(_mm512_castsi512_ps(y[i]))));
    }
    *seen = s;
}

/* One tile of 16 lines of pairs of bfloat16, `depth` of them along k. */
AMX_CODE static __attribute__((noinline)) void amx_pack_pairs(char *to, const uint32_t *src, int64_t line, int64_t k, int64_t lines, int64_t depth, int by_lines) {
    __m512i x[16];
    if (by_lines) amx_read(x, src, line, k, lines, depth); else amx_read(x, src, k, line, depth, lines);
    for (int i = 0; i < 16; i++) _mm512_store_si512(to + 64 * i, x[i]);
}

/* The same from rows of single bfloat16, `k` apart, of which `depth` are left: a tile of b. */
AMX_CODE static __attribute__((noinline)) void amx_pack_halves(char *to, const uint16_t *src, int64_t k, int64_t lines, int64_t depth) {
    __mmask16 m = amx_mask(lines);
    for (int i = 0; i < 16; i++) {
        __m512i pair = _mm512_setzero_si512();
        if (2 * i < depth) pair = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, src + 2 * i * k));
        if (2 * i + 1 < depth) pair = _mm512_or_si512(pair, _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, src + (2 * i + 1) * k)), 16));
        _mm512_store_si512(to + 64 * i, pair);
    }
}

/* One tile of 16 lines of bytes over `depth` of k, 64 at most: rows of groups of four of k. */
AMX_CODE static __attribute__((noinline)) void amx_pack_bytes(char *to, const uint8_t *src, int64_t line, int64_t k, int64_t lines, int64_t depth, int by_lines) {
    __m512i x[16];
    if (k == 1) {
        const __mmask64 m = depth >= 64 ? ~0ull : (1ull << depth) - 1;
        for (int i = 0; i < 16; i++) x[i] = _mm512_maskz_loadu_epi8(i < lines ? m : 0, src + (i < lines ? i * line : 0));
    } else if (line == 1) {
        const __mmask16 m = amx_mask(lines);
        for (int i = 0; i < 16; i++) {
            __m128i r[4], lo, hi;
            for (int t = 0; t < 4; t++) r[t] = _mm_maskz_loadu_epi8(4 * i + t < depth ? m : 0, src + (4 * i + t < depth ? (4 * i + t) * k : 0));
            lo = _mm_unpacklo_epi8(r[0], r[1]);
            hi = _mm_unpackhi_epi8(r[0], r[1]);
            r[0] = _mm_unpacklo_epi8(r[2], r[3]);
            r[1] = _mm_unpackhi_epi8(r[2], r[3]);
            x[i] = _mm512_inserti32x4(_mm512_inserti32x4(_mm512_inserti32x4(_mm512_castsi128_si512(_mm_unpacklo_epi16(lo, r[0])), _mm_unpackhi_epi16(lo, r[0]), 1),
                                                         _mm_unpacklo_epi16(hi, r[1]), 2), _mm_unpackhi_epi16(hi, r[1]), 3);
        }
    } else {
        uint8_t block[1024] __attribute__((aligned(64))) = {0};
        for (int64_t l = 0; l < lines; l++) for (int64_t i = 0; i < depth; i++) block[64 * l + i] = src[l * line + i * k];
        for (int i = 0; i < 16; i++) x[i] = _mm512_load_si512(block + 64 * i);
    }
    if ((k == 1 || line != 1) != by_lines) amx_turn(x);               /* rows are lines, or groups of k */
    for (int i = 0; i < 16; i++) _mm512_store_si512(to + 64 * i, x[i]);
}

/* Has a line of float32 nothing but small elements, some of them tiny? Asked where packing has seen any that is tiny. */
static int amx_has_small_line(const float *src, int64_t line, int64_t k, int64_t lines, int64_t depth) {
    for (int64_t l = 0; l < lines; l++) {
        uint32_t most = 0, least = UINT32_MAX;
        for (int64_t i = 0; i < depth; i++) {
            uint32_t bits;
            memcpy(&bits, src + l * line + i * k, 4);
            bits &= 0x7fffffff;
            most = bits > most ? bits : most;
            least = bits - 1 < least ? bits - 1 : least;
        }
        if (most < AMX_SMALL && least < AMX_TINY - 1) return 1;
    }
    return 0;
}
#else
#define FG_AMX 0
#endif
#endif
