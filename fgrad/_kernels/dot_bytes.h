/* Products of bytes whose sums are 32 bits wide: c[m, n] = sum_k a[m, k] b[k, n] modulo 2^32, for int8 and uint8 in any combination.
 *
 * Neighbours along k that one lane of 32 bits multiplies and adds up at once are a group: four bytes where the processor has such an
 * instruction (VNNI), else two words of 16 bits, to which bytes are widened.  a is copied once, in rows of groups; b a block at a time, in
 * panels b[group * w + column] of w columns, w a multiple of a vector.
 *
 * VNNI multiplies signed by unsigned bytes: what is copied of a is signed, a' = a - za with za = 128 for uint8, of b unsigned,
 * b' = b + zb with zb = 128 for int8, and sum a b = sum a' b' - zb sum a + za sum b': the tile begins with the last two.  Beyond K, a' and b'
 * are 0.  Sums are exact whatever their order, so results depend on no block and no thread.
 */
#ifndef FG_DOT_BYTES_H
#define FG_DOT_BYTES_H
#include "fail.h"
#include "gemm.h"
#ifdef __SSE2__
#include <immintrin.h>
#endif

#if defined(__AVX512VNNI__) && GEMM_BYTES == 64 || defined(__AVXVNNI__) && GEMM_BYTES == 32
#define BYTES_GROUP 4
#else
#define BYTES_GROUP 2
#endif
typedef int32_t bytes_vec __attribute__((vector_size(GEMM_BYTES)));
typedef int32_t bytes_mem __attribute__((vector_size(GEMM_BYTES), aligned(1), may_alias));
typedef int32_t bytes_word __attribute__((aligned(1), may_alias));
enum { BYTES_LANES = GEMM_BYTES / 4, BYTES_NR = GEMM_NV * BYTES_LANES, BYTES_KC = 512, BYTES_WIDTH = 8 * BYTES_NR };

/* sum plus what the group x of a gives with each lane's group of b. */
GEMM_INLINE bytes_vec bytes_madd(bytes_vec sum, int32_t x, bytes_vec y) {
#if BYTES_GROUP == 4 && GEMM_BYTES == 64
    return (bytes_vec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)y, _mm512_set1_epi32(x));
#elif BYTES_GROUP == 4
    return (bytes_vec)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)y, _mm256_set1_epi32(x));
#elif defined(__AVX512BW__) && GEMM_BYTES == 64
    return sum + (bytes_vec)_mm512_madd_epi16((__m512i)y, _mm512_set1_epi32(x));
#elif defined(__AVX2__) && GEMM_BYTES == 32
    return sum + (bytes_vec)_mm256_madd_epi16((__m256i)y, _mm256_set1_epi32(x));
#elif defined(__SSE2__) && GEMM_BYTES == 16
    return sum + (bytes_vec)_mm_madd_epi16((__m128i)y, _mm_set1_epi32(x));
#else
    return sum + (y << 16 >> 16) * (int32_t)(int16_t)x + (y >> 16) * (x >> 16);
#endif
}

#if BYTES_GROUP == 4
/* sum plus each lane's signed bytes. */
GEMM_INLINE bytes_vec bytes_add(bytes_vec sum, bytes_vec x) {
#if GEMM_BYTES == 64
    return (bytes_vec)_mm512_dpbusd_epi32((__m512i)sum, _mm512_set1_epi8(1), (__m512i)x);
#else
    return (bytes_vec)_mm256_dpbusd_avx_epi32((__m256i)sum, _mm256_set1_epi8(1), (__m256i)x);
#endif
}
#endif

/* R rows by NV vectors over kc groups; c's last vector has `tail` columns. It begins with row[i] + col[column], or adds to c where row is NULL. */
GEMM_INLINE void bytes_body(const int R, const int NV, int64_t kc, const char *a, int64_t lda, const char *b, const int32_t *row, const int32_t *col,
                            int32_t *c, int64_t ldc, int64_t tail) {
    bytes_vec sum[GEMM_MR][GEMM_NV], y[GEMM_NV];
    GEMM_UNROLL for (int i = 0; i < R; i++) GEMM_UNROLL for (int v = 0; v < NV; v++) sum[i][v] = ((const bytes_mem *)col)[v] + (row ? row[i] : 0);
    const char *at[(GEMM_MR + 4) / 5];             /* as in gemm_tile.h */
    GEMM_UNROLL for (int i = 0; i < R; i += 5) at[i / 5] = a + i * lda;
    for (int64_t k = 0; k < kc; k++, b += NV * GEMM_BYTES) {
        GEMM_UNROLL for (int v = 0; v < NV; v++) y[v] = ((const bytes_mem *)b)[v];
        GEMM_UNROLL for (int i = 0; i < R; i++) GEMM_UNROLL for (int v = 0; v < NV; v++)
            sum[i][v] = bytes_madd(sum[i][v], *(const bytes_word *)(at[i / 5] + i % 5 * lda), y[v]);
        GEMM_UNROLL for (int i = 0; i < R; i += 5) at[i / 5] += 4;
    }
    GEMM_UNROLL for (int i = 0; i < R; i++, c += ldc) GEMM_UNROLL for (int v = 0; v < NV; v++) {
        float *p = (float *)c + v * BYTES_LANES;
        const int64_t n = v + 1 < NV ? BYTES_LANES : tail;
        if (!row) sum[i][v] += (bytes_vec)gemm_f32_load(p, n);
        gemm_f32_store(p, (gemm_f32_vec)sum[i][v], n);
    }
}
typedef void (*bytes_kernel)(int64_t kc, const char *a, int64_t lda, const char *b, const int32_t *row, const int32_t *col, int32_t *c, int64_t ldc, int64_t tail);
#define BYTES_ROWS(R) BYTES_TILE(R, 1) BYTES_TILE(R, 2)
#define BYTES_TILE(R, NV) \
static void bytes_tile##NV##x##R(int64_t kc, const char *a, int64_t lda, const char *b, const int32_t *row, const int32_t *col, int32_t *c, int64_t ldc, int64_t tail) { \
    bytes_body(R, NV, kc, a, lda, b, row, col, c, ldc, tail); \
}
GEMM_EACH_ROWS(BYTES_ROWS)
#define BYTES_1(R) bytes_tile1x##R,
#define BYTES_2(R) bytes_tile2x##R,
static const bytes_kernel bytes_tiles[2][GEMM_MR] = {{GEMM_EACH_ROWS(BYTES_1)}, {GEMM_EACH_ROWS(BYTES_2)}};

typedef struct {
    int64_t B, M, N, K;
    int64_t a[3], b[3];          /* strides of the batch and of both axes */
    int a_signed, b_signed;
    int64_t lda;                 /* bytes of a row of a's copy: whole groups */
    int64_t entries;             /* copies of a: 1 where the batch shares it */
    const char *pa, *pb;
    int32_t *c;
    char *rows;                  /* a's copy, and what its rows begin with */
    int32_t *first;
    char *scratch;               /* a block of b for each thread */
    int64_t width, row_parts, col_parts;
} BytesJob;

static inline int64_t bytes_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
static inline int bytes_min(int64_t a, int64_t b) { return (int)(a < b ? a : b); }
enum { BYTES_BLOCK = BYTES_KC * (4 / BYTES_GROUP) * BYTES_NR };

/* Copy one row of a, `i` of all of the batch's: groups of a', and -zb times the row's sum. */
static void bytes_pack_row(const BytesJob *j, int64_t i) {
    const uint8_t *src = (const uint8_t *)j->pa + i / j->M * j->a[0] + i % j->M * j->a[1];
    char *dst = j->rows + i * j->lda;
    int32_t sum = 0;
    memset(dst + j->lda - 4, 0, 4);
#if BYTES_GROUP == 4
    const uint8_t turn = j->a_signed ? 0 : 128;
    if (j->a[2] == 1) for (int64_t k = 0; k < j->K; k++) dst[k] = (char)(src[k] ^ turn);
    else for (int64_t k = 0; k < j->K; k++) dst[k] = (char)(src[k * j->a[2]] ^ turn);
    if (j->b_signed) {
        bytes_vec sums = {0};
        for (int64_t k = 0; k < j->lda; k += GEMM_BYTES) sums = bytes_add(sums, (bytes_vec)gemm_f32_load((const float *)(dst + k), bytes_min((j->lda - k) / 4, BYTES_LANES)));
        GEMM_UNROLL for (int i = 0; i < BYTES_LANES; i++) sum += sums[i];
        if (!j->a_signed) sum += 128 * (int32_t)j->K;
    }
#else
    int16_t *to = (int16_t *)dst;
    if (j->a_signed) for (int64_t k = 0; k < j->K; k++) to[k] = (int8_t)src[k * j->a[2]];
    else for (int64_t k = 0; k < j->K; k++) to[k] = src[k * j->a[2]];
#endif
    j->first[i] = -128 * sum;
}

/* Groups of up to BYTES_NR columns out of rows of b as they lie along n: G rows, of which those beyond K are `none`. */
GEMM_INLINE void bytes_group(const uint8_t *const *r, int64_t n, int is_signed, int32_t *dst) {
    int64_t l = 0;
#if BYTES_GROUP == 4
    const int32_t turn = is_signed ? (int32_t)0x80808080 : 0;
    for (; l + 16 <= n; l += 16) {
        const __m128i x0 = _mm_loadu_si128((const __m128i *)(r[0] + l)), x1 = _mm_loadu_si128((const __m128i *)(r[1] + l));
        const __m128i x2 = _mm_loadu_si128((const __m128i *)(r[2] + l)), x3 = _mm_loadu_si128((const __m128i *)(r[3] + l));
        const __m128i lo = _mm_unpacklo_epi8(x0, x1), hi = _mm_unpackhi_epi8(x0, x1), lo2 = _mm_unpacklo_epi8(x2, x3), hi2 = _mm_unpackhi_epi8(x2, x3);
        const __m128i s = _mm_set1_epi32(turn);
        __m128i *to = (__m128i *)(dst + l);
        _mm_storeu_si128(to, _mm_xor_si128(s, _mm_unpacklo_epi16(lo, lo2)));
        _mm_storeu_si128(to + 1, _mm_xor_si128(s, _mm_unpackhi_epi16(lo, lo2)));
        _mm_storeu_si128(to + 2, _mm_xor_si128(s, _mm_unpacklo_epi16(hi, hi2)));
        _mm_storeu_si128(to + 3, _mm_xor_si128(s, _mm_unpackhi_epi16(hi, hi2)));
    }
    for (; l < n; l++) dst[l] = (int32_t)(r[0][l] | r[1][l] << 8 | r[2][l] << 16 | (uint32_t)r[3][l] << 24) ^ turn;
#else
    if (is_signed) for (; l < n; l++) dst[l] = (int32_t)((uint16_t)(int8_t)r[0][l] | (uint32_t)(uint16_t)(int8_t)r[1][l] << 16);
    else for (; l < n; l++) dst[l] = (int32_t)(r[0][l] | (uint32_t)r[1][l] << 16);
#endif
}

/* A panel of n columns over kc of K, and za times the sums of its columns. */
static void bytes_pack_panel(const BytesJob *j, const uint8_t *src, int64_t kc, int64_t n, char *panel, int32_t *col) {
    enum { G = BYTES_GROUP };
    const int64_t w = bytes_up(n, BYTES_LANES), groups = (kc + G - 1) / G;
    const uint8_t none = G == 4 && j->b_signed ? 128 : 0;
    int32_t *dst = (int32_t *)panel;
    uint8_t rest[G][BYTES_NR];
    if (n < w) memset(panel, 0, (size_t)(groups * w * 4));
    if (j->b[2] == 1) for (int64_t g = 0; g < groups; g++, dst += w) {
        const uint8_t *r[G];
        for (int i = 0; i < G; i++) {
            r[i] = src + (g * G + i) * j->b[1];
            if (g * G + i >= kc) r[i] = memset(rest[i], none, BYTES_NR);
        }
        bytes_group(r, n, j->b_signed, dst);
    } else {                     /* columns, from which groups are taken as they lie where k is contiguous */
        for (int64_t l = 0; l < n; l++) {
            const uint8_t *s = src + l * j->b[2];
            for (int64_t g = 0; g < groups; g++) {
                uint8_t x[G];
                for (int i = 0; i < G; i++) x[i] = g * G + i < kc ? s[(g * G + i) * j->b[1]] : none;
                const uint8_t *r[G];
                for (int i = 0; i < G; i++) r[i] = x + i;
                bytes_group(r, 1, j->b_signed, dst + g * w + l);
            }
        }
    }
    memset(col, 0, BYTES_NR * 4);
#if BYTES_GROUP == 4
    if (!j->a_signed) for (int64_t l = 0; l < w; l += BYTES_LANES) {
        bytes_vec sum = {0};
        for (int64_t g = 0; g < groups; g++) sum = bytes_madd(sum, 0x01010101, *(const bytes_mem *)((const int32_t *)panel + g * w + l));
        *(bytes_mem *)(col + l) = sum * 128;
    }
#endif
}

#if BYTES_GROUP == 4
/* The same of columns that are contiguous along k: squares of groups are transposed as floats' are. */
static void bytes_turn_panel(const BytesJob *j, const uint8_t *src, int64_t kc, int64_t n, char *panel, int32_t *col) {
    const int64_t w = bytes_up(n, BYTES_LANES), whole = kc / 4;
    const int32_t turn = j->b_signed ? (int32_t)0x80808080 : 0;
    int32_t *words = (int32_t *)panel;
    for (int64_t l = 0; l < n; l += BYTES_LANES) {
        const int64_t nl = n - l < BYTES_LANES ? n - l : BYTES_LANES;
        for (int64_t g = 0; g < whole; g += BYTES_LANES) {
            const int64_t ng = whole - g < BYTES_LANES ? whole - g : BYTES_LANES;
            bytes_vec x[BYTES_LANES];
            GEMM_UNROLL for (int i = 0; i < BYTES_LANES; i++)
                x[i] = i < nl ? (bytes_vec)gemm_f32_load((const float *)(src + (l + i) * j->b[2] + 4 * g), ng) ^ turn : (bytes_vec){0};
            gemm_f32_transpose((gemm_f32_vec *)x);
            GEMM_UNROLL for (int i = 0; i < BYTES_LANES; i++) if (i < ng) *(bytes_mem *)(words + (g + i) * w + l) = x[i];
        }
        if (kc > 4 * whole) for (int64_t i = 0; i < BYTES_LANES; i++) {
            uint32_t x = 0;
            if (i < nl) for (int64_t k = 4 * whole; k < kc; k++) x |= (uint32_t)(src[(l + i) * j->b[2] + k] ^ (uint8_t)turn) << 8 * (k - 4 * whole);
            words[whole * w + l + i] = (int32_t)x;
        }
    }
    memset(col, 0, BYTES_NR * 4);
    if (!j->a_signed) for (int64_t l = 0; l < w; l += BYTES_LANES) {
        bytes_vec sum = {0};
        for (int64_t g = 0; g < (kc + 3) / 4; g++) sum = bytes_madd(sum, 0x01010101, *(const bytes_mem *)(words + g * w + l));
        *(bytes_mem *)(col + l) = sum * 128;
    }
}
#endif

/* One part of c: blocks of columns, for each of them pieces of K, of which b is copied. */
static void bytes_unit(const BytesJob *j, int64_t unit, char *block) {
    const int64_t parts = j->row_parts * j->col_parts, batch = unit / parts, r = unit % parts / j->col_parts, s = unit % j->col_parts;
    const int64_t panels = gemm_panels(j->M), p0 = panels * r / j->row_parts, p1 = panels * (r + 1) / j->row_parts;
    const int64_t n0 = s * j->width, n1 = n0 + j->width < j->N ? n0 + j->width : j->N, top = j->entries > 1 ? batch * j->M : 0;
    int32_t col[BYTES_NR];
    for (int64_t k = 0; k < j->K; k += BYTES_KC) {
        const int64_t kc = j->K - k < BYTES_KC ? j->K - k : BYTES_KC, groups = (kc + BYTES_GROUP - 1) / BYTES_GROUP;
        for (int64_t n = n0; n < n1; n += BYTES_NR) {
            const int64_t nb = n1 - n < BYTES_NR ? n1 - n : BYTES_NR, w = bytes_up(nb, BYTES_LANES);
            const uint8_t *src = (const uint8_t *)j->pb + batch * j->b[0] + k * j->b[1] + n * j->b[2];
#if BYTES_GROUP == 4
            if (j->b[1] == 1 && j->b[2] != 1) bytes_turn_panel(j, src, kc, nb, block, col); else
#endif
            bytes_pack_panel(j, src, kc, nb, block, col);
            for (int64_t p = p0; p < p1; p++) {
                const int64_t m = gemm_panel(j->M, p), rows = gemm_panel(j->M, p + 1) - m;
                bytes_tiles[w > BYTES_LANES][rows - 1](groups, j->rows + (top + m) * j->lda + k * (4 / BYTES_GROUP), j->lda, block, k ? NULL : j->first + top + m, col,
                                                       j->c + (batch * j->M + m) * j->N + n, j->N, nb - w + BYTES_LANES);
            }
        }
    }
}

static void bytes_describe(const FgInst *inst, FgTensor *slots, BytesJob *j) {
    const FgTensor *a = FG_IN(inst, slots, 0), *b = FG_IN(inst, slots, 1), *o = FG_OUT(inst, slots, 0);
    j->B = a->shape[0]; j->M = a->shape[1]; j->K = a->shape[2]; j->N = b->shape[2];
    for (int d = 0; d < 3; d++) { j->a[d] = a->strides[d]; j->b[d] = b->strides[d]; }
    if (j->N == 1) j->b[2] = 1 + (j->b[1] == 1);     /* a column is read along k where it can */
    j->a_signed = a->dtype == FG_I8; j->b_signed = b->dtype == FG_I8;
    j->pa = a->data; j->pb = b->data; j->c = (int32_t *)o->data;
    j->entries = j->B > 1 && j->a[0] ? j->B : 1;
    j->lda = (j->K + BYTES_GROUP - 1) / BYTES_GROUP * 4;
}

/* Parts for all threads: narrower ones, then fewer rows, as long as those pay for copies of b of their own. */
static void bytes_cut(BytesJob *j, int64_t threads) {
    int64_t want = (double)j->B * j->M * j->N * j->K < 300000 ? 1 : 2 * threads;
    j->width = bytes_up(j->N < BYTES_WIDTH ? j->N : BYTES_WIDTH, BYTES_NR);
    while (j->width > BYTES_NR && j->B * ((j->N + j->width - 1) / j->width) < want) j->width = bytes_up(j->width / 2, BYTES_NR);
    j->col_parts = (j->N + j->width - 1) / j->width;
    for (j->row_parts = 1; j->B * j->col_parts * j->row_parts < want && j->M / (2 * j->row_parts) >= 4 * GEMM_MR;) j->row_parts *= 2;
}

static int bytes_check(FgInst *inst, const FgTensor *slots, char *msg) {
    if (inst->n_in != 2 || inst->n_out != 1 || inst->n_ip || inst->n_fp)
        return fg_fail(msg, "dot_bytes: expected 2 inputs, 1 output and no parameters, got %d, %d and %d", inst->n_in, inst->n_out, inst->n_ip + inst->n_fp);
    const FgTensor *a = FG_IN(inst, slots, 0), *b = FG_IN(inst, slots, 1), *o = FG_OUT(inst, slots, 0);
    if ((a->dtype != FG_I8 && a->dtype != FG_U8) || (b->dtype != FG_I8 && b->dtype != FG_U8) || (o->dtype != FG_I32 && o->dtype != FG_U32))
        return fg_fail(msg, "dot_bytes: int8 or uint8 give int32 or uint32, not %s and %s %s", fg_dtype_name(a->dtype), fg_dtype_name(b->dtype), fg_dtype_name(o->dtype));
    if (a->ndim != 3 || b->ndim != 3 || o->ndim != 3 || a->shape[0] != b->shape[0] || a->shape[0] != o->shape[0] || a->shape[2] != b->shape[1]
        || o->shape[1] != a->shape[1] || o->shape[2] != b->shape[2])
        return fg_fail(msg, "dot_bytes: expected a (B, M, K), b (B, K, N), out (B, M, N), got %s, %s and %s", fg_shape_text(a), fg_shape_text(b), fg_shape_text(o));
    if (!fg_is_contiguous(o)) return fg_fail(msg, "dot_bytes: the output must be contiguous");
    return 0;
}
#endif
