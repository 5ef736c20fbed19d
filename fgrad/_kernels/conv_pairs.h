/* Dense convolutions of bfloat16 by its own instruction: the tiles of conv_dense.h over pairs of input features (of images, where a
 * kernel's gradient sums over them), each in the place of a float32; the pair beyond an odd one has a zero. The kernel is copied as pairs
 * in the order in which it lies, inputs where blocks of rows are filled, and outputs are rounded a tile at a time.
 * Included by conv_body.h after the loops of float32. */
#if GEMM_PAIRS
#define conv_word fg_narrow4           /* may alias the tiles' float */

/* dst[i] = (lo[i step], hi[i step]), or (lo[i step], 0). */
static inline void conv_pair_row(conv_word *dst, const uint16_t *lo, const uint16_t *hi, int64_t step, int64_t n) {
    if (step == 1) for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 m = (__mmask16)((1u << conv_min(16, n - i)) - 1);
        __m512i pair = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, lo + i));
        if (hi) pair = _mm512_or_si512(pair, _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, hi + i)), 16));
        _mm512_mask_storeu_epi32(dst + i, m, pair);
    }
    else if (!hi) for (int64_t i = 0; i < n; i++) dst[i] = lo[i * step];
    else for (int64_t i = 0; i < n; i++) dst[i] = lo[i * step] | (uint32_t)hi[i * step] << 16;
}

/* n pairs of neighbours in memory, the last one without its second half where n > whole */
static inline void conv_pair_copy(conv_word *dst, const uint16_t *from, int64_t n, int64_t whole) {
    dst[n - 1] = 0;
    memcpy((char *)dst, from, (size_t)(n + conv_min(n, whole)) * 2);
}

/* Units: places of the three outer axes. */
static void conv_pair_w(const FgConv *c, int64_t begin, int64_t end, const uint16_t *w, char *dst) {
    const FgPairAxis *t = c->waxes;
    const int64_t sizes[3] = {t[0].n, t[1].n, t[2].n};
    int64_t at[3];
    for (int64_t u = begin; u < end; u++) {
        const uint16_t *from = w;
        conv_word *to = (conv_word *)dst;
        int odd = 0;
        conv_index(u, sizes, 3, at);
        for (int k = 0; k < 3; k++) {
            from += at[k] * t[k].from;
            to += at[k] * t[k].to;
            odd |= t[k].pair && 2 * at[k] + 1 == c->pairs;
        }
        for (int64_t i = 0; i < t[3].n; i++, from += t[3].from, to += t[3].to) {
            int single = odd || (t[3].pair && 2 * i + 1 == c->pairs);
            if (!t[4].pair) conv_pair_row(to, from, single ? 0 : from + c->wpair, t[4].from, t[4].n);
            else if (c->wpair == 1) conv_pair_copy(to, from, t[4].n, c->pairs / 2);
            else for (int64_t k = 0; k < t[4].n; k++)
                conv_pair_row(to + k, from + k * t[4].from, 2 * k + 1 == c->pairs ? 0 : from + k * t[4].from + c->wpair, 1, 1);
        }
    }
}

/* conv_pair_cells of features and positions that are not neighbours, by squares of vectors */
static __attribute__((noinline)) void conv_pair_squares(conv_word *to, int64_t n, int64_t whole, const uint16_t *from, int64_t stride,
                                                        int64_t step, int64_t pair, int64_t count) {
    conv_word rows[256] = {0}, cells[256];
    for (int64_t l = 0; l < n; l += 16) for (int64_t k = 0; k < count; k += 16) {
        int64_t nl = conv_min(16, n - l), nk = conv_min(16, count - k);
        for (int64_t i = 0; i < nl; i++) {
            const uint16_t *lo = from + (l + i) * stride + k * step;
            conv_pair_row(rows + 16 * i, lo, l + i < whole ? lo + pair : 0, step, nk);
        }
        if (nl == 16 && nk == 16) { gemm_f32_square((float *)(to + k * n + l), n, (const float *)rows, 16); continue; }
        gemm_f32_square((float *)cells, 16, (const float *)rows, 16);
        for (int64_t i = 0; i < nk; i++) memcpy((char *)(to + (k + i) * n + l), cells + 16 * i, (size_t)nl * 4);
    }
}

/* to[k n + l] = the pair of feature l at position k < count, of n features of which `whole` have two. */
static void conv_pair_cells(conv_word *to, int64_t n, int64_t whole, const uint16_t *from, int64_t stride, int64_t step, int64_t pair,
                            int64_t count) {
    if (n == 1) conv_pair_row(to, from, whole ? from + pair : 0, step, count);
    else if (pair == 1 && stride == 2) {
        if (step == 2 * n && whole == n) memcpy((char *)to, from, (size_t)(count * n) * 4);
        else for (int64_t k = 0; k < count; k++) conv_pair_copy(to + k * n, from + k * step, n, whole);
    } else if (stride == 1 && (whole == 0 || whole == n))
        for (int64_t k = 0; k < count; k++) conv_pair_row(to + k * n, from + k * step, whole ? from + k * step + pair : 0, 1, n);
    else conv_pair_squares(to, n, whole, from, stride, step, pair, count);
}

/* conv_fill of pairs */
static void conv_fill_pair(const FgConvPart *p, const FgFill *f, const uint16_t *x, float *dst) {
    int64_t lo = conv_min(f->cols, conv_max(0, -f->p2)), hi = conv_max(lo, conv_min(f->cols, p->L[2] - f->p2)), n = f->features;
    for (int64_t i = 0; i < f->planes; i++) for (int64_t j = 0; j < f->rows; j++) {
        int64_t p0 = f->p0 + i * f->step, p1 = f->p1 + j;
        conv_word *to = (conv_word *)dst + (i * f->rows + j) * f->cols * n;
        if ((uint64_t)p0 >= (uint64_t)p->L[0] || (uint64_t)p1 >= (uint64_t)p->L[1]) continue;
        memset((char *)to, 0, (size_t)(lo * n) * 4);
        conv_pair_cells(to + lo * n, n, conv_min(n, f->whole), x + p0 * p->xs[0] + p1 * p->xs[1] + (f->p2 + lo) * p->xs[2], f->stride,
                        p->xs[2], p->c->pair, hi - lo);
        memset((char *)(to + hi * n), 0, (size_t)((f->cols - hi) * n) * 4);
    }
}

/* The first n <= 16 of 16 floats. The instruction for products has made denormal sums zero, as the one for rounding would. */
static inline void conv_round(const float *src, uint16_t *out, int64_t n) {
    _mm256_mask_storeu_epi16(out, (__mmask16)((1u << n) - 1), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(src)));
}

/* out[i si + j sj] = src[i ld + j] as bfloat16, where whole vectors of src's rows can be read */
static void conv_narrow(const float *src, int64_t ld, int64_t m, int64_t n, uint16_t *out, int64_t si, int64_t sj) {
    float block[256];
    uint16_t line[16];
    if (sj == 1 || n == 1) for (int64_t i = 0; i < m; i++) for (int64_t j = 0; j < n; j += 16)
        conv_round(src + i * ld + j, out + i * si + j, conv_min(16, n - j));
    else for (int64_t i = 0; i < m; i += 16) for (int64_t j = 0; j < n; j += 16) {
        int64_t ni = conv_min(16, m - i), nj = conv_min(16, n - j);
        conv_spread_f32(src + i * ld + j, ld, ni, nj, block, 1, 16);
        for (int64_t k = 0; k < nj; k++) {
            uint16_t *to = out + i * si + (j + k) * sj;
            if (si == 1) { conv_round(block + 16 * k, to, ni); continue; }
            conv_round(block + 16 * k, line, ni);
            for (int64_t t = 0; t < ni; t++) to[t * si] = line[t];
        }
    }
}

#define CONV_PAIRED
#define CONV_MADD(sum, x, y) ((gemm_f32_vec)_mm512_dpbf16_ps((__m512)(sum), (__m512bh)_mm512_set1_ps(x), (__m512bh)(y)))
#define CONV_PRODUCT(sum, x, y) ((gemm_f32_vec)_mm512_dpbf16_ps((__m512)(sum), (__m512bh)(x), (__m512bh)(y)))
#define T float
#define N(name) name##_pair
#define G(name) gemm_f32_##name
#include "conv_dense.h"
#undef T
#undef N
#undef G
#undef CONV_PAIRED
#undef CONV_MADD
#undef CONV_PRODUCT
#else
static void conv_pair_w(const FgConv *c, int64_t begin, int64_t end, const uint16_t *w, char *dst) {}
#endif
