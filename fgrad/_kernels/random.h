/* Threefry-2x32 with 20 rounds (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011): loops over blocks of
 * counters that the compiler vectorises. */
#ifndef FG_RANDOM_H
#define FG_RANDOM_H
#include "fg.h"
#include "vec.h"

#define BITS_BLOCK 256       /* divides 2^32: a block of counters that starts at its multiple shares one high word */

typedef struct {
    const FgTensor *in[4];
    void *out[2];
    int64_t size, per, blocks;       /* elements in all, elements of one key, blocks of one key */
    int width;
} RandomPlan;

FG_INLINE uint32_t random_rotate(uint32_t x, int r) { return (x << r) | (x >> (32 - r)); }

#define ROUND(r) a += b; b = random_rotate(b, r) ^ a;
#define FOUR(r0, r1, r2, r3, ka, kb, i) ROUND(r0) ROUND(r1) ROUND(r2) ROUND(r3) a += ka; b += kb + i;
FG_INLINE void random_hash(uint32_t k1, uint32_t k2, uint32_t x1, uint32_t x2, uint32_t *y1, uint32_t *y2) {
    uint32_t k3 = k1 ^ k2 ^ 0x1BD11BDAu, a = x1 + k1, b = x2 + k2;
    FOUR(13, 15, 26, 6, k2, k3, 1u)
    FOUR(17, 29, 16, 24, k3, k1, 2u)
    FOUR(13, 15, 26, 6, k1, k2, 3u)
    FOUR(17, 29, 16, 24, k2, k3, 4u)
    FOUR(13, 15, 26, 6, k3, k1, 5u)
    *y1 = a;
    *y2 = b;
}
#undef ROUND
#undef FOUR

/* Copy elements [first, first + count) of a strided tensor, in row-major order, to buf. */
static void random_gather(const FgTensor *t, int64_t first, int64_t count, uint32_t *buf) {
    const uint32_t *data = (const uint32_t *)t->data;
    int64_t shape[FG_MAXDIM] = {1}, stride[FG_MAXDIM] = {0}, index[FG_MAXDIM], at = 0, rest = first;
    int n = 0;
    for (int d = 0; d < t->ndim; d++) {                   /* merge axes that follow each other in memory */
        if (t->shape[d] == 1) continue;
        if (n && stride[n - 1] == t->strides[d] * t->shape[d]) { shape[n - 1] *= t->shape[d]; stride[n - 1] = t->strides[d]; }
        else { shape[n] = t->shape[d]; stride[n] = t->strides[d]; n++; }
    }
    if (n == 0) n = 1;
    for (int d = n - 1; d >= 0; d--) {
        index[d] = rest % shape[d];
        rest /= shape[d];
        at += index[d] * stride[d];
    }
    int64_t s = stride[n - 1];
    while (count > 0) {
        int64_t run = shape[n - 1] - index[n - 1];
        if (run > count) run = count;
        if (s == 1) memcpy(buf, data + at, (size_t)run * 4);
        else for (int64_t i = 0; i < run; i++) buf[i] = data[at + i * s];
        buf += run;
        count -= run;
        index[n - 1] += run;
        at += run * s;
        for (int d = n - 1; d > 0 && index[d] == shape[d]; d--) {
            at += stride[d - 1] - shape[d] * stride[d];
            index[d] = 0;
            index[d - 1]++;
        }
    }
}

/* k1, k2, x1, x2 -> y1, y2; units are blocks */
static void random_threefry(void *ctx, int64_t begin, int64_t end, int tid) {
    const RandomPlan *c = ctx;
    uint32_t in[4][BITS_BLOCK], *y1 = c->out[0], *y2 = c->out[1];
    for (int64_t u = begin; u < end; u++) {
        int64_t at = u * BITS_BLOCK, len = c->size - at < BITS_BLOCK ? c->size - at : BITS_BLOCK;
        for (int k = 0; k < 4; k++) random_gather(c->in[k], at, len, in[k]);
        #pragma omp simd
        for (int64_t i = 0; i < len; i++) random_hash(in[0][i], in[1][i], in[2][i], in[3][i], &y1[at + i], &y2[at + i]);
    }
}

/* The two words of key number b of a (..., 2) tensor. */
static inline void random_key(const FgTensor *t, int64_t b, uint32_t *k1, uint32_t *k2) {
    int64_t at = 0;
    for (int d = t->ndim - 2; d >= 0; d--) { at += b % t->shape[d] * t->strides[d]; b /= t->shape[d]; }
    *k1 = ((const uint32_t *)t->data)[at];
    *k2 = ((const uint32_t *)t->data)[at + t->strides[t->ndim - 1]];
}

/* Few numbers of each of many keys, begin to end: a vector is of several keys. 0 where a key has many, or is alone. */
static int random_across(const RandomPlan *c, int64_t begin, int64_t end, int split) {
    enum { FEW = 16 };
    if (c->blocks != 1 || c->per < 1 || c->per > FEW || end - begin < 2) return 0;
    uint32_t keys[2 * BITS_BLOCK], k1[BITS_BLOCK], k2[BITS_BLOCK], x[BITS_BLOCK], a[BITS_BLOCK], b[BITS_BLOCK];
    int64_t per = c->per, most = BITS_BLOCK / per;
    for (int64_t u = begin; u < end; u += most) {
        int64_t n = end - u < most ? end - u : most, len = n * per, at = u * per;
        random_gather(c->in[0], 2 * u, 2 * n, keys);
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = 0; i < per; i++) { k1[j * per + i] = keys[2 * j]; k2[j * per + i] = keys[2 * j + 1]; x[j * per + i] = (uint32_t)i; }
        #pragma omp simd
        for (int64_t i = 0; i < len; i++) random_hash(k1[i], k2[i], 0, x[i], &a[i], &b[i]);
        if (split) for (int64_t i = 0; i < len; i++) { ((uint32_t *)c->out[0])[2 * (at + i)] = a[i]; ((uint32_t *)c->out[0])[2 * (at + i) + 1] = b[i]; }
        else if (c->width == 8) for (int64_t i = 0; i < len; i++) ((uint8_t *)c->out[0])[at + i] = (uint8_t)(a[i] ^ b[i]);
        else if (c->width == 16) for (int64_t i = 0; i < len; i++) ((uint16_t *)c->out[0])[at + i] = (uint16_t)(a[i] ^ b[i]);
        else if (c->width == 32) for (int64_t i = 0; i < len; i++) ((uint32_t *)c->out[0])[at + i] = a[i] ^ b[i];
        else for (int64_t i = 0; i < len; i++) ((uint64_t *)c->out[0])[at + i] = (uint64_t)a[i] << 32 | b[i];
    }
    return 1;
}

/* The hashes of RANDOM_STEP counters from lo on, which share their high word: four vectors at once, since each step waits for the one before. */
typedef uint32_t random_lanes __attribute__((vector_size(FG_VEC), aligned(4), may_alias));
enum { RANDOM_LANES = FG_VEC / 4, RANDOM_ABREAST = 4, RANDOM_STEP = RANDOM_LANES * RANDOM_ABREAST };
#define ABREAST _Pragma("GCC unroll 4") for (int q = 0; q < RANDOM_ABREAST; q++)
#define ROUND(r) ABREAST { a[q] += b[q]; b[q] = (b[q] << r | b[q] >> (32 - r)) ^ a[q]; }
#define FOUR(r0, r1, r2, r3, ka, kb, i) ROUND(r0) ROUND(r1) ROUND(r2) ROUND(r3) ABREAST { a[q] += ka; b[q] += kb + i; }
FG_INLINE void random_step(uint32_t k1, uint32_t k2, uint32_t hi, uint32_t lo, random_lanes *a, random_lanes *b) {
    uint32_t k3 = k1 ^ k2 ^ 0x1BD11BDAu;
    random_lanes iota;
    for (int j = 0; j < RANDOM_LANES; j++) iota[j] = (uint32_t)j;
    ABREAST { a[q] = (random_lanes){0} + (hi + k1); b[q] = iota + (lo + (uint32_t)(q * RANDOM_LANES) + k2); }
    FOUR(13, 15, 26, 6, k2, k3, 1u)
    FOUR(17, 29, 16, 24, k3, k1, 2u)
    FOUR(13, 15, 26, 6, k1, k2, 3u)
    FOUR(17, 29, 16, 24, k2, k3, 4u)
    FOUR(13, 15, 26, 6, k3, k1, 5u)
}
#undef ROUND
#undef FOUR

/* The words of counters first to first + count of a key. */
static void random_words(uint32_t k1, uint32_t k2, uint64_t first, int64_t count, uint32_t *out) {
    while (count > 0) {
        uint32_t hi = (uint32_t)(first >> 32), lo = (uint32_t)first;
        int64_t len = (int64_t)((UINT64_C(1) << 32) - lo), i = 0;
        if (len > count) len = count;
        for (; i + RANDOM_STEP <= len; i += RANDOM_STEP) {
            random_lanes a[RANDOM_ABREAST], b[RANDOM_ABREAST];
            random_step(k1, k2, hi, lo + (uint32_t)i, a, b);
            ABREAST *(random_lanes *)(out + i + q * RANDOM_LANES) = a[q] ^ b[q];
        }
        #pragma omp simd
        for (int64_t j = i; j < len; j++) { uint32_t a, b; random_hash(k1, k2, hi, lo + (uint32_t)j, &a, &b); out[j] = a ^ b; }
        out += len; first += (uint64_t)len; count -= len;
    }
}

/* Both hashes of a block of counters, up to BITS_BLOCK, which share their high word. */
static void random_pairs(uint32_t k1, uint32_t k2, uint32_t hi, uint32_t lo, int64_t len, uint32_t *y1, uint32_t *y2) {
    int64_t i = 0;
    for (; i + RANDOM_STEP <= len; i += RANDOM_STEP) {
        random_lanes a[RANDOM_ABREAST], b[RANDOM_ABREAST];
        random_step(k1, k2, hi, lo + (uint32_t)i, a, b);
        ABREAST { *(random_lanes *)(y1 + i + q * RANDOM_LANES) = a[q]; *(random_lanes *)(y2 + i + q * RANDOM_LANES) = b[q]; }
    }
    #pragma omp simd
    for (int64_t j = i; j < len; j++) random_hash(k1, k2, hi, lo + (uint32_t)j, &y1[j], &y2[j]);
}
#undef ABREAST

/* A unit is one block of one key's counters: `at` its first output, `count` its first counter. */
static void random_bits(void *ctx, int64_t begin, int64_t end, int tid) {
    const RandomPlan *c = ctx;
    if (random_across(c, begin, end, 0)) return;
    for (int64_t u = begin; u < end; u++) {
        int64_t key = u / c->blocks, count = u % c->blocks * BITS_BLOCK, at = key * c->per + count;
        int64_t len = c->per - count < BITS_BLOCK ? c->per - count : BITS_BLOCK;
        uint32_t k1, k2, a[BITS_BLOCK], b[BITS_BLOCK];
        random_key(c->in[0], key, &k1, &k2);
        if (c->width == 32) { random_words(k1, k2, (uint64_t)count, len, (uint32_t *)c->out[0] + at); continue; }
        if (c->width == 64) {
            uint64_t *out = (uint64_t *)c->out[0] + at;
            random_pairs(k1, k2, (uint32_t)((uint64_t)count >> 32), (uint32_t)count, len, a, b);
            for (int64_t i = 0; i < len; i++) out[i] = (uint64_t)a[i] << 32 | b[i];
            continue;
        }
        random_words(k1, k2, (uint64_t)count, len, a);
        if (c->width == 8) { uint8_t *out = (uint8_t *)c->out[0] + at; for (int64_t i = 0; i < len; i++) out[i] = (uint8_t)a[i]; }
        else { uint16_t *out = (uint16_t *)c->out[0] + at; for (int64_t i = 0; i < len; i++) out[i] = (uint16_t)a[i]; }
    }
}

static void random_split(void *ctx, int64_t begin, int64_t end, int tid) {
    const RandomPlan *c = ctx;
    if (random_across(c, begin, end, 1)) return;
    for (int64_t u = begin; u < end; u++) {
        int64_t key = u / c->blocks, count = u % c->blocks * BITS_BLOCK;
        int64_t len = c->per - count < BITS_BLOCK ? c->per - count : BITS_BLOCK;
        uint32_t k1, k2, *out = (uint32_t *)c->out[0] + 2 * (key * c->per + count), a[BITS_BLOCK], b[BITS_BLOCK];
        random_key(c->in[0], key, &k1, &k2);
        random_pairs(k1, k2, (uint32_t)((uint64_t)count >> 32), (uint32_t)count, len, a, b);
        for (int64_t i = 0; i < len; i++) { out[2 * i] = a[i]; out[2 * i + 1] = b[i]; }
    }
}
#endif
