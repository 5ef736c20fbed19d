/* Rows that are read twice, or with much to do at their end, leave memory idle meanwhile: the next ones are fetched while they are computed,
 * where all of them are more than the caches hold. Longer rows are fetched by the machine itself, shorter ones are computed for longer than they take to come. */
#ifndef FG_FETCH_H
#define FG_FETCH_H
#include <stdint.h>

enum { FG_FETCH_TOTAL = 16 << 20, FG_FETCH_SHORT = 1024, FG_FETCH_LONG = 8192 };
static inline int fg_fetches(int64_t row, int64_t total) { return total >= FG_FETCH_TOTAL && row >= FG_FETCH_SHORT && row <= FG_FETCH_LONG; }
/* Addresses behind the last row may be asked for: a fetch does not fault. */
static inline void fg_fetch(const void *at, int64_t bytes) {
    for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch((const char *)at + b, 0, 3);
}
/* How many bytes ahead matrices of a batch, `step` bytes apart, are fetched that one row each is multiplied by: several of their short rows
 * are read side by side, which the machine does not see coming. 0 where they have gaps, or long rows, or may be in a cache. */
static inline int64_t fg_batch_ahead(int64_t step, int64_t entry, int64_t row, int64_t entries) {
    const int64_t group = 8 * row;
    if (entries == 1 || step != entry || row >= FG_FETCH_LONG || entry * entries < FG_FETCH_TOTAL) return 0;
    return group * ((FG_FETCH_LONG / 2 + group - 1) / group);
}
#endif
