/* Squares of items transposed in vector registers, for transposed.h (blocks of a matrix) and narrow.h (rows of few elements). */
#ifndef FG_SQUARE_H
#define FG_SQUARE_H

#define FG_LO2 0, 2
#define FG_HI2 1, 3
#define FG_LO4 0, 4, 1, 5
#define FG_HI4 2, 6, 3, 7
#define FG_LO8 0, 8, 1, 9, 2, 10, 3, 11
#define FG_HI8 4, 12, 5, 13, 6, 14, 7, 15
#define FG_LO16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define FG_HI16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

/* With AVX2 alone, an interleaving of vectors of 32 bytes is two instructions: there halves are exchanged first, and the rest stays within them,
 * which is half the instructions. */
#define FG_IN_HALVES_2(V)
#define FG_IN_HALVES_16(V)
#if defined(__AVX2__) && !defined(__AVX512F__)
#define FG_IN_HALVES_4(V) \
    if (sizeof(V) == 32) { \
        for (int i = 0; i < 2; i++) { \
            q[i] = __builtin_shufflevector(r[i], r[i + 2], 0, 1, 4, 5); \
            q[i + 2] = __builtin_shufflevector(r[i], r[i + 2], 2, 3, 6, 7); \
        } \
        for (int i = 0; i < 4; i += 2) { \
            r[i] = __builtin_shufflevector(q[i], q[i + 1], 0, 4, 2, 6); \
            r[i + 1] = __builtin_shufflevector(q[i], q[i + 1], 1, 5, 3, 7); \
        } \
        return; \
    }
#define FG_IN_HALVES_8(V) \
    if (sizeof(V) == 32) { \
        for (int i = 0; i < 4; i++) { \
            q[i] = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11); \
            q[i + 4] = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15); \
        } \
        for (int i = 0; i < 8; i += 4) { \
            V a = __builtin_shufflevector(q[i], q[i + 1], 0, 8, 1, 9, 4, 12, 5, 13), b = __builtin_shufflevector(q[i], q[i + 1], 2, 10, 3, 11, 6, 14, 7, 15); \
            V c = __builtin_shufflevector(q[i + 2], q[i + 3], 0, 8, 1, 9, 4, 12, 5, 13), d = __builtin_shufflevector(q[i + 2], q[i + 3], 2, 10, 3, 11, 6, 14, 7, 15); \
            r[i] = __builtin_shufflevector(a, c, 0, 1, 8, 9, 4, 5, 12, 13); r[i + 1] = __builtin_shufflevector(a, c, 2, 3, 10, 11, 6, 7, 14, 15); \
            r[i + 2] = __builtin_shufflevector(b, d, 0, 1, 8, 9, 4, 5, 12, 13); r[i + 3] = __builtin_shufflevector(b, d, 2, 3, 10, 11, 6, 7, 14, 15); \
        } \
        return; \
    }
#else
#define FG_IN_HALVES_4(V)
#define FG_IN_HALVES_8(V)
#endif

/* fg_square_NAME(r): r, N vectors V of N items each, becomes its transpose by log2 N rounds that interleave row i with row i + N / 2. */
#define FG_SQUARE(NAME, V, N) \
static inline __attribute__((always_inline)) void fg_square_##NAME(V *r) { \
    V q[N]; \
    FG_IN_HALVES_##N(V) \
    for (int s = 1; s < N; s *= 2) { \
        for (int i = 0; i < N / 2; i++) { \
            q[2 * i] = __builtin_shufflevector(r[i], r[i + N / 2], FG_LO##N); \
            q[2 * i + 1] = __builtin_shufflevector(r[i], r[i + N / 2], FG_HI##N); \
        } \
        for (int i = 0; i < N; i++) r[i] = q[i]; \
    } \
}
#endif
