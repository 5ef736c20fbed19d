/* Short rows stored several times each, and rows of them again as a whole: what repeats and nearest upsampling copy.
 *
 * The last five axes of a plan are (lines, again, rows, times, row): a line of `rows` short rows, each `times` times, comes `again` times. */
#ifndef FG_COPY_SPREAD_H
#define FG_COPY_SPREAD_H
#include "copy_plan.h"
#include "copy_rows.h"

enum { FG_SPREAD_ROW = 512, FG_SPREAD_UNIT = 16384, FG_SPREAD_GRAIN = 65536 };

/* Row-major where it repeats: 1 if the n merged axes of p end in rows that are repeated, and are planned so. */
static int fg_plan_spread(FgCopyPlan *p, int n) {
    int64_t shape[5] = {1, 1, 1, 1, 1}, ss[5] = {0}, ds[5] = {0}, item = p->item;
    int d = n - 1, narrow = 0;
    shape[4] = 1; ss[4] = ds[4] = item;
    if (d >= 0 && p->ss[d] == item && p->ds[d] == item) { shape[4] = p->shape[d]; d--; }
    else if (d < 0 || p->ss[d] || p->ds[d] != item) return 0;
    else narrow = 1;                                                          /* single items */
    if (d < 0 || p->ss[d] || shape[4] * item > FG_SPREAD_ROW) return 0;
    shape[3] = p->shape[d]; ss[3] = 0; ds[3] = p->ds[d]; d--;
    if (d < 0 || !p->ss[d]) return 0;                                         /* one row many times is filled, or copied, as before */
    shape[2] = p->shape[d]; ss[2] = p->ss[d]; ds[2] = p->ds[d]; d--;
    if (d >= 0 && !p->ss[d]) { shape[1] = p->shape[d]; ss[1] = 0; ds[1] = p->ds[d]; d--; }
    else if (narrow && (d < 0 || shape[2] * shape[3] * item > 1024)) return 0;
    if (d >= 0) { shape[0] = p->shape[d]; ss[0] = p->ss[d]; ds[0] = p->ds[d]; d--; }
    for (int k = 0; k < 5; k++) { p->shape[d + 1 + k] = shape[k]; p->ss[d + 1 + k] = ss[k]; p->ds[d + 1 + k] = ds[k]; }
    int64_t row = shape[3] * shape[4] * item, line = row * shape[2] * shape[1];
    p->nd = d + 6;
    p->kind = FG_COPY_SPREAD;
    p->ra = line >= FG_SPREAD_UNIT ? 1 : FG_SPREAD_UNIT / line;               /* lines and rows of a unit */
    if (p->ra > shape[0]) p->ra = shape[0];
    p->ca = row * shape[2] <= FG_SPREAD_UNIT ? shape[2] : 1 + FG_SPREAD_UNIT / row;
    p->na = (shape[0] + p->ra - 1) / p->ra;
    p->nb = (shape[2] + p->ca - 1) / p->ca;
    p->units = p->na * p->nb;
    for (int k = 0; k <= d; k++) p->units *= p->shape[k];
    p->grain = 1 + FG_SPREAD_GRAIN / (p->ra * shape[1] * p->ca * row + 16);
    return 1;
}

/* One row of b bytes, `times` times, dt bytes apart. */
static inline void fg_spread_row(char *restrict d, const char *restrict s, int64_t times, int64_t b, int64_t dt) {
    fg_copy_rows(d, s, times, b, 0, dt);
}

/* h rows of b <= N bytes, each `times` times, without gaps: N bytes at once, of which what follows overwrites what is too much. */
#define FG_SPREAD_OF(N) \
static inline void fg_spread_##N(char *restrict d, const char *restrict s, int64_t h, int64_t times, int64_t b, int64_t sa) { \
    int64_t more = N - b, whole = h, i = 0; \
    if (more) { \
        int64_t read = sa >= b ? (more + sa - 1) / sa : h, write = (more + times * b - 1) / (times * b); \
        whole = h - (read > write ? read : write); \
    } \
    if (times == 2) \
        for (; i < whole; i++, s += sa, d += 2 * b) { \
            char v[N]; \
            memcpy(v, s, N); memcpy(d, v, N); memcpy(d + b, v, N); \
        } \
    else for (; i < whole; i++, s += sa) { \
        char v[N]; \
        memcpy(v, s, N); \
        for (int64_t k = 0; k < times; k++, d += b) memcpy(d, v, N); \
    } \
    for (; i < h; i++, s += sa, d += times * b) fg_spread_row(d, s, times, b, b); \
}
FG_SPREAD_OF(8) FG_SPREAD_OF(16) FG_SPREAD_OF(32) FG_SPREAD_OF(64)
#undef FG_SPREAD_OF

/* Rows that are eight bytes or fewer when they are repeated: a product puts the copies side by side. */
static inline void fg_spread_word(char *restrict d, const char *restrict s, int64_t h, int64_t times, int64_t b, int64_t sa) {
    uint64_t ones = 0, mask = ((uint64_t)1 << 8 * b) - 1;
    int64_t n = times * b, read = sa >= b ? (8 - b + sa - 1) / sa : h, write = (8 - n + n - 1) / n, i = 0;
    for (int64_t k = 0; k < times; k++) ones |= (uint64_t)1 << 8 * b * k;
    int64_t whole = h - (read > write ? read : write);
    for (; i < whole; i++, s += sa, d += n) {
        uint64_t v;
        memcpy(&v, s, 8);
        v = (v & mask) * ones;
        memcpy(d, &v, 8);
    }
    for (; i < h; i++, s += sa, d += n) fg_spread_row(d, s, times, b, b);
}

#define FG_TWICE(T, b) { \
    typedef T __attribute__((may_alias, aligned(1))) loose; \
    loose *restrict e = (loose *)d; const loose *restrict x = (const loose *)s; \
    for (int64_t i = 0; i < h; i++) e[2 * i] = e[2 * i + 1] = x[i]; \
    return; \
}
static void fg_spread_line(char *restrict d, const char *restrict s, int64_t h, int64_t times, int64_t b, int64_t sa) {
    if (times == 2 && sa == b) switch (b) {                /* in vectors */
        case 1: FG_TWICE(uint8_t, 1)
        case 2: FG_TWICE(uint16_t, 2)
        case 4: FG_TWICE(uint32_t, 4)
        case 8: FG_TWICE(uint64_t, 8)
        default: break;
    }
    if (b * times <= 8) fg_spread_word(d, s, h, times, b, sa);
    else if (b <= 8) fg_spread_8(d, s, h, times, b, sa);
    else if (b <= 16) fg_spread_16(d, s, h, times, b, sa);
    else if (b <= 32) fg_spread_32(d, s, h, times, b, sa);
    else if (b <= 64) fg_spread_64(d, s, h, times, b, sa);
    else for (int64_t i = 0; i < h; i++) fg_spread_row(d + i * times * b, s + i * sa, times, b, b);
}
#undef FG_TWICE

static void fg_spread_units(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgCopyJob *job = (const FgCopyJob *)ctx;
    const FgCopyPlan *p = job->plan;
    const int at = p->nd - 5;
    const int64_t *shape = p->shape + at, *ss = p->ss + at, *ds = p->ds + at, b = shape[4] * p->item, times = shape[3];
    const int dense = ds[3] == b && ds[2] == times * b;
    (void)tid;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t u = unit, j = u % p->nb * p->ca, i = (u /= p->nb) % p->na * p->ra;
        const char *src = job->src + p->soff + j * ss[2];
        char *dst = job->dst + p->doff + j * ds[2];
        u /= p->na;
        for (int x = at - 1; x >= 0; x--) {
            int64_t k = u % p->shape[x];
            u /= p->shape[x];
            src += k * p->ss[x]; dst += k * p->ds[x];
        }
        int64_t h = shape[2] - j < p->ca ? shape[2] - j : p->ca, last = shape[0] - i < p->ra ? shape[0] : i + p->ra;
        for (; i < last; i++) {
            const char *s = src + i * ss[0];
            char *d = dst + i * ds[0];
            if (dense) {
                fg_spread_line(d, s, h, times, b, ss[2]);
                if (shape[1] > 1) fg_copy_rows(d + ds[1], d, shape[1] - 1, h * times * b, 0, ds[1]);
            } else for (int64_t k = 0; k < shape[1]; k++)
                for (int64_t r = 0; r < h; r++) fg_spread_row(d + k * ds[1] + r * ds[2], s + r * ss[2], times, b, ds[3]);
        }
    }
}
#endif
