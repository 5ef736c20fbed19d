/* Rows of memory copied one by one. */
#ifndef FG_COPY_ROWS_H
#define FG_COPY_ROWS_H
#include <stdint.h>
#include <string.h>
#include "copy_permuted.h"

/* n bytes, stored in whole lines. From some KB on the C library's memcpy is one instruction, `rep movsb`, which takes 15 times as long on Zen 4
 * where dst lies just behind src modulo a page (a roll by some elements), and from memory often twice as long where dst is not aligned. */
static inline void fg_copy_bytes(char *restrict dst, const char *restrict src, int64_t n) {
    if (n <= 1024) { memcpy(dst, src, n); return; }
    memcpy(dst, src, 64);
    int64_t k = 64 - ((uintptr_t)dst & 63);
    for (; k + 256 <= n; k += 256)
        for (int j = 0; j < 256; j += 64) memcpy(dst + k + j, src + k + j, 64);
    for (; k + 64 < n; k += 64) memcpy(dst + k, src + k, 64);
    memcpy(dst + n - 64, src + n - 64, 64);
}

/* Rows of a few bytes, each as copies of which the last two overlap, or of some hundred, in vectors: a call of memcpy costs more than it copies. */
#define FG_ROWS_OF(N, k) { \
    for (int64_t i = 0; i < h; i++, dst += da, src += sa) { \
        for (int j = 0; j < k - 1; j++) memcpy(dst + j * N, src + j * N, N); \
        memcpy(dst + bytes - N, src + bytes - N, N); \
    } \
    return; \
}
static void fg_copy_rows(char *restrict dst, const char *restrict src, int64_t h, int64_t bytes, int64_t sa, int64_t da) {
    if (bytes > 1024) {
        for (int64_t i = 0; i < h; i++) fg_copy_bytes(dst + i * da, src + i * sa, bytes);
        return;
    }
    if (bytes > 256) {
        for (int64_t i = 0; i < h; i++, dst += da, src += sa) {
            for (int64_t k = 0; k + 64 < bytes; k += 64) memcpy(dst + k, src + k, 64);
            memcpy(dst + bytes - 64, src + bytes - 64, 64);
        }
        return;
    }
    if (bytes > 192) FG_ROWS_OF(64, 4)
    if (bytes > 128) FG_ROWS_OF(64, 3)
    if (bytes > 64) FG_ROWS_OF(64, 2)
    if (bytes == 64) FG_ROWS_OF(64, 1)
    if (bytes <= 16 && da == bytes) {                        /* an image turned left to right, some of its channels */
        const int64_t done = fg_copy_permuted_rows(dst, src, h, bytes, sa);
        h -= done; dst += done * da; src += done * sa;
    }
    if (bytes <= 16 && da == bytes && sa >= bytes) {         /* one copy a row: the next row overwrites what is too much */
        int64_t more = bytes <= 8 ? 8 - bytes : 16 - bytes, whole = h - (more + bytes - 1) / bytes;
        if (bytes <= 8) for (; h > 0 && whole > 0; h--, whole--, dst += da, src += sa) memcpy(dst, src, 8);
        else for (; h > 0 && whole > 0; h--, whole--, dst += da, src += sa) memcpy(dst, src, 16);
    }
    if (bytes >= 32) FG_ROWS_OF(32, 2)
    if (bytes >= 16) FG_ROWS_OF(16, 2)
    if (bytes >= 8) FG_ROWS_OF(8, 2)
    if (bytes >= 4) FG_ROWS_OF(4, 2)
    if (bytes >= 2) FG_ROWS_OF(2, 2)
    for (int64_t i = 0; i < h; i++) dst[i * da] = src[i * sa];
}
#undef FG_ROWS_OF
#endif
