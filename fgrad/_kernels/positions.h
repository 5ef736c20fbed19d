/* The positions of true in rows of booleans: each chunk of a row is counted, then written from where those before it end. */
#ifndef FG_POSITIONS_H
#define FG_POSITIONS_H
#include "fg.h"
#if defined(__AVX512BW__) && defined(__AVX512VL__)
#include <immintrin.h>
#endif

enum { FG_POSITIONS_CHUNK = 16384, FG_POSITIONS_BLOCK = 256 };

/* x: rows of n; out: rows of `size`, int64 if wide; at: of each chunk, how many are true, then where its positions begin. */
typedef struct { const uint8_t *x; char *out; int64_t n, size, chunks; int64_t *at; int32_t wide; } FgPositions;

static inline int64_t fg_positions_len(const FgPositions *p, int64_t u) {
    int64_t left = p->n - u % p->chunks * FG_POSITIONS_CHUNK;
    return left < FG_POSITIONS_CHUNK ? left : FG_POSITIONS_CHUNK;
}
static inline const uint8_t *fg_positions_from(const FgPositions *p, int64_t u) {
    return p->x + u / p->chunks * p->n + u % p->chunks * FG_POSITIONS_CHUNK;
}

static void fg_positions_count(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgPositions *p = (const FgPositions *)ctx;
    (void)tid;
    for (int64_t u = begin; u < end; u++) {
        const uint8_t *x = fg_positions_from(p, u);
        int32_t n = (int32_t)fg_positions_len(p, u), count = 0;
        for (int32_t i = 0; i < n; i++) count += x[i] != 0;
        p->at[u] = count;
    }
}

/* From counts to beginnings. */
static void fg_positions_begin(const FgPositions *p, int64_t rows) {
    for (int64_t r = 0; r < rows; r++) {
        int64_t sum = 0;
        for (int64_t c = 0; c < p->chunks; c++) { int64_t k = p->at[r * p->chunks + c]; p->at[r * p->chunks + c] = sum; sum += k; }
    }
}

/* The positions of true among n elements, at most a block; `found` has room for a vector more. */
static inline int32_t fg_positions_of(const uint8_t *x, int32_t n, int32_t *found) {
    int32_t m = 0, i = 0;
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    __m512i at = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), sixteen = _mm512_set1_epi32(16);
    for (; i + 16 <= n; i += 16, at = _mm512_add_epi32(at, sixteen)) {
        __m128i v = _mm_loadu_si128((const __m128i *)(x + i));
        __mmask16 in = _mm_test_epi8_mask(v, v);
        _mm512_storeu_si512(found + m, _mm512_maskz_compress_epi32(in, at));
        m += __builtin_popcount(in);
    }
#endif
    for (; i < n; i++) { found[m] = i; m += x[i] != 0; }
    return m;
}

/* At most `size` positions of a row; n where there are no more. */
static void fg_positions_write(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgPositions *p = (const FgPositions *)ctx;
    int32_t found[FG_POSITIONS_BLOCK + 16];
    (void)tid;
    for (int64_t u = begin; u < end; u++) {
        const uint8_t *x = fg_positions_from(p, u);
        int64_t n = fg_positions_len(p, u), k = p->at[u], first = u % p->chunks * FG_POSITIONS_CHUNK, row = u / p->chunks * p->size;
        int32_t *narrow = (int32_t *)p->out + row;
        int64_t *wide = (int64_t *)p->out + row;
        for (int64_t i = 0; i < n && k < p->size; i += FG_POSITIONS_BLOCK) {
            int64_t m = fg_positions_of(x + i, (int32_t)(n - i < FG_POSITIONS_BLOCK ? n - i : FG_POSITIONS_BLOCK), found);
            if (m > p->size - k) m = p->size - k;
            if (p->wide) for (int64_t j = 0; j < m; j++) wide[k + j] = first + i + found[j];
            else for (int64_t j = 0; j < m; j++) narrow[k + j] = (int32_t)(first + i) + found[j];
            k += m;
        }
        if (u % p->chunks < p->chunks - 1) continue;
        if (p->wide) for (; k < p->size; k++) wide[k] = p->n;
        else for (; k < p->size; k++) narrow[k] = (int32_t)p->n;
    }
}
#endif
