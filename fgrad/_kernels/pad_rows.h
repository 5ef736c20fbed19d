/* Small arrays are padded in one pass over the result: a row, what lies between it and the next one, the next row. A plan of copies for each side of
 * the array takes longer to begin than the array does. */
#ifndef FG_PAD_ROWS_H
#define FG_PAD_ROWS_H
#include "fg.h"

enum { FG_PAD_BYTES = 32768, FG_PAD_ROW = 32 };         /* of a result at most, of a row at least */

static int fg_may_pad_rows(const FgTensor *x, const FgTensor *out, const int64_t *ip) {
    const int64_t item = fg_itemsize(x->dtype);
    const int last = x->ndim - 1;
    if (last < 1 || !x->size || item > 8 || out->size * item > FG_PAD_BYTES || !fg_is_contiguous(out)) return 0;
    for (int d = 0; d <= last; d++) if (ip[3 * d] < 0 || ip[3 * d + 1] < 0 || ip[3 * d + 2]) return 0;
    return (x->shape[last] == 1 || x->strides[last] == 1) && x->shape[last] * item >= FG_PAD_ROW;
}
static inline void fg_pad_copy(char *restrict dst, const char *restrict src, int64_t n) {
    if (n >= 64) {
        for (int64_t k = 0; k + 64 < n; k += 64) memcpy(dst + k, src + k, 64);
        memcpy(dst + n - 64, src + n - 64, 64);
    } else {
        memcpy(dst, src, 32);
        memcpy(dst + n - 32, src + n - 32, 32);
    }
}
/* n bytes of a pattern of 64, or some more, up to `end`, which what follows is written over. */
static inline void fg_pad_fill(char *dst, const char *pattern, int64_t n, const char *end) {
    if (n <= 8 && dst + 8 <= end) { memcpy(dst, pattern, 8); return; }
    if (n <= 16 && dst + 16 <= end) { memcpy(dst, pattern, 16); return; }
    int64_t k = 0;
    for (; k < n && dst + k + 64 <= end; k += 64) memcpy(dst + k, pattern, 64);
    if (k < n) memcpy(dst + k, pattern, n - k);
}
static void fg_pad_rows(const FgTensor *x, const FgTensor *out, const int64_t *ip, const char *value) {
    const int last = x->ndim - 1;
    const int64_t item = fg_itemsize(x->dtype), row = x->shape[last], bytes = row * item, inner = x->shape[last - 1];
    const int64_t step = x->strides[last - 1] * item, moves = out->strides[last - 1] * item, blocks = x->size / (row * inner);
    char pattern[64], *done = out->data, *end = done + out->size * item, *first = done;
    const char *from = x->data;
    int64_t at[FG_MAXDIM] = {0};
    for (int64_t k = 0; k < 64; k += item) memcpy(pattern + k, value, item);
    for (int d = 0; d <= last; d++) first += ip[3 * d] * out->strides[d] * item;
    for (int64_t b = 0; b < blocks; b++) {
        for (int64_t r = 0; r < inner; r++) {
            char *dst = first + r * moves;
            fg_pad_fill(done, pattern, dst - done, end);
            fg_pad_copy(dst, from + r * step, bytes);
            done = dst + bytes;
        }
        for (int d = last - 2; d >= 0; d--) {
            from += x->strides[d] * item;
            first += out->strides[d] * item;
            if (++at[d] < x->shape[d]) break;
            from -= at[d] * x->strides[d] * item;
            first -= at[d] * out->strides[d] * item;
            at[d] = 0;
        }
    }
    fg_pad_fill(done, pattern, end - done, end);
}
#endif
