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

/* fg_square_NAME(r): r, N vectors V of N items each, becomes its transpose by log2 N rounds that interleave row i with row i + N / 2. */
#define FG_SQUARE(NAME, V, N) \
static inline __attribute__((always_inline)) void fg_square_##NAME(V *r) { \
    V q[N]; \
    for (int s = 1; s < N; s *= 2) { \
        for (int i = 0; i < N / 2; i++) { \
            q[2 * i] = __builtin_shufflevector(r[i], r[i + N / 2], FG_LO##N); \
            q[2 * i + 1] = __builtin_shufflevector(r[i], r[i + N / 2], FG_HI##N); \
        } \
        for (int i = 0; i < N; i++) r[i] = q[i]; \
    } \
}
#endif
