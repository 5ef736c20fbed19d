/* Orders of a vector's lanes, for what puts some of them in front of the others. */
#ifndef FG_LANES_H
#define FG_LANES_H
#include <immintrin.h>
#include <stdint.h>

/* Vectors of at most eight lanes: the lanes that a byte's bits name, then the others. */
static uint8_t fg_lanes_of[256][8], fg_halves_of[16][8];                /* of 64-bit lanes as pairs of 32-bit ones */
__attribute__((constructor)) static void fg_lanes_fill(void) {
    for (int m = 0; m < 256; m++) for (int j = 0, set = 0, clear = __builtin_popcount(m); j < 8; j++)
        fg_lanes_of[m][m >> j & 1 ? set++ : clear++] = (uint8_t)j;
    for (int m = 0; m < 16; m++) for (int j = 0, set = 0, clear = __builtin_popcount(m); j < 4; j++) {
        uint8_t *pair = fg_halves_of[m] + 2 * (m >> j & 1 ? set++ : clear++);
        pair[0] = (uint8_t)(2 * j); pair[1] = (uint8_t)(2 * j + 1);
    }
}
#define FG_LANES(table, m) _mm_loadl_epi64((const __m128i *)table[m])
#define FG_LOAD_256(p) _mm256_loadu_si256((const __m256i *)(p))
#define FG_STORE_256(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#endif
