/* Segmented maxima and minima of booleans: any and all. Part of vm_reduce.h. */
#ifndef FG_VM_REDUCE_BOOL_H
#define FG_VM_REDUCE_BOOL_H
#include "copy_permuted.h"

/* Rows of up to 7 booleans: of the k bytes from each of 16 places on one vector has what they give together, of which every k-th is a row's. How many
 * rows are done so: those in front, of which vectors neither read nor write beyond the last one. */
#if defined(FG_PERMUTE16) && !defined(__AVX512F__)
FG_INLINE int64_t vm_places_bool(uint8_t *d, const uint8_t *s, int64_t rows, const int64_t k, const int all) {
    typedef fg_few_u8 A __attribute__((aligned(1), may_alias));
    const int64_t per = 15 / k + 1;
    fg_few_u8 take;
    int64_t r = 0;
    for (int i = 0; i < 16; i++) take[i] = (uint8_t)(i < per ? i * k : 255);
    for (; r + 8 <= rows && r * k + 15 + k <= rows * k; r += per) {
        fg_few_u8 v = *(const A *)(s + r * k);
        for (int64_t i = 1; i < k; i++) { const fg_few_u8 w = *(const A *)(s + r * k + i); v = all ? v & w : v | w; }
        v = (fg_few_u8)FG_PERMUTE16(v, take) & 1;
        memcpy(d + r, &v, 8);
    }
    return r;
}
static int64_t vm_vectors_bool(uint8_t *d, const uint8_t *s, int64_t rows, int64_t k, int all) {
    switch (k * 2 + all) {
    #define VM_PLACES(k) case 2 * k: return vm_places_bool(d, s, rows, k, 0); case 2 * k + 1: return vm_places_bool(d, s, rows, k, 1);
    VM_PLACES(2) VM_PLACES(3) VM_PLACES(4) VM_PLACES(5) VM_PLACES(6) VM_PLACES(7)
    #undef VM_PLACES
    }
    return 0;
}
#else
static inline int64_t vm_vectors_bool(uint8_t *d, const uint8_t *s, int64_t rows, int64_t k, int all) { (void)d; (void)s; (void)rows; (void)k; (void)all; return 0; }
#endif
/* What is left of them, and rows of 8: a row is a word, read into the next row. */
static void vm_word_bool(uint8_t *d, const uint8_t *s, int64_t rows, int64_t k, uint64_t flip) {
    const uint64_t ones = 0x0101010101010101u & (~(uint64_t)0 >> (64 - 8 * k));
    int64_t r = vm_vectors_bool(d, s, rows, k, flip != 0);
    flip &= ones;
    for (; r * k + 8 <= rows * k; r++) {
        uint64_t w;
        memcpy(&w, s + r * k, 8);
        d[r] = (((w ^ flip) & ones) != 0) ^ (flip != 0);
    }
    for (; r < rows; r++) {
        uint8_t any = 0;
        for (int64_t i = 0; i < k; i++) any |= s[r * k + i] ^ (flip != 0);
        d[r] = any ^ (flip != 0);
    }
}
/* Rows of 9 to 16: two words. */
static void vm_words_bool(uint8_t *d, const uint8_t *s, int64_t rows, int64_t k, uint64_t flip) {
    const uint64_t ones = 0x0101010101010101u, more = ones & (~(uint64_t)0 >> (128 - 8 * k));
    int64_t r = 0;
    for (; r * k + 16 <= rows * k; r++) {
        uint64_t w, v;
        memcpy(&w, s + r * k, 8); memcpy(&v, s + r * k + 8, 8);
        d[r] = ((((w ^ flip) & ones) | ((v ^ flip) & more)) != 0) ^ (flip != 0);
    }
    for (; r < rows; r++) {
        uint8_t any = 0;
        for (int64_t i = 0; i < k; i++) any |= s[r * k + i] ^ (flip != 0);
        d[r] = any ^ (flip != 0);
    }
}
#ifdef __AVX512F__
enum { FG_WORD_BOOLS = 8 };                          /* whole vectors of rows are faster */
#else
enum { FG_WORD_BOOLS = 16 };
#endif
#define VM_BOOL(name, FLIP) \
static void vm_bool_##name(void *d, const void *s, const void *q, int64_t rows, int64_t k, int64_t width) { \
    if (width == 1 && k >= 1 && k <= 8) vm_word_bool((uint8_t *)d, (const uint8_t *)s, rows, k, FLIP); \
    else if (width == 1 && k > 8 && k <= FG_WORD_BOOLS) vm_words_bool((uint8_t *)d, (const uint8_t *)s, rows, k, FLIP); \
    else vm_few_##name##_u8(d, s, q, rows, k, width); \
}
VM_BOOL(max, 0) VM_BOOL(min, ~(uint64_t)0)
#endif
