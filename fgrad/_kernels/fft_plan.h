/* Plans of Fourier transforms: factors, tables of roots of unity, and which of four methods an axis takes.
 *
 * Lanes: as many transforms as a vector has lanes run beside each other, element k of all of them in two vectors (real and imaginary
 * parts), so that butterflies are vertical and roots are scalars. Passes of radix 16, 8, 4, 2 and odd primes up to FFT_PRIME work in
 * place, one block of what an earlier pass left after the other, and the last one brings results into their order.
 * Rows: a row of n = n1 n2 contiguous elements in two steps (Bailey): its columns as lanes, n1 long, then times roots, then lanes n2 long.
 * Twins: two rows at a time by the same two steps (fft_twins.h), each in half of the lanes, so that n1 and n2 need only be half as long.
 * Lengths with a larger prime factor are convolutions with a chirp (Bluestein) of a length with small factors.
 * A plan and all its tables are one block, which belongs to the instruction. */
#ifndef FG_FFT_PLAN_H
#define FG_FFT_PLAN_H
#include <math.h>
#include "fail.h"

enum { FFT_C2C, FFT_R2C, FFT_C2R };
enum { FFT_PASSES = 40, FFT_PRIME = 61 };
#define FFT_WIDE ((int64_t)1 << 15)      /* rows from this length on are shared among threads one by one */
#define FFT_FIRST_CACHE (1 << 15)        /* bytes that all passes work on before the next ones */
#define FFT_TOGETHER 1024
#define FFT_GRAIN 4096                   /* elements that are worth a thread */
#define FFT_TABLE FFT_WIDE               /* rows up to this length have a table of all their roots */
#define FFT_ROOM(n) (((n) + 32) & ~(int64_t)31)                 /* complex numbers; more than n, and whole lines of the cache */

/* roots[m][r - 1]; cosines[r] of odd radices; of the last one where block b goes, and back */
typedef struct { int64_t r, m, s; const void *roots, *cosines; const int64_t *order, *blocks; } FftPass;
typedef struct FftLanes {
    int64_t n, room;                     /* room: vectors of real or imaginary parts that a buffer must hold */
    int n_pass;
    const struct FftLanes *conv;         /* Bluestein: a plan of its length */
    const void *chirp, *spectrum;        /* exp(-i pi k^2 / n); the transform of its conjugate, divided by conv->n */
    FftPass pass[FFT_PASSES];
} FftLanes;
typedef struct FftRow {
    int64_t n, n1, n2, room, scratch;    /* scratch: complex numbers */
    int twins;                           /* two rows at a time: n1 and n2 are at least half of the lanes */
    const FftLanes *first, *second;
    const void *roots;                          /* exp(-2 pi i k1 j / n) for each block of columns j, k1 and lane; NULL of long rows, which have: */
    const void *lane_roots, *block_roots;       /* exp(-2 pi i k1 l / n) for lanes l; exp(-2 pi i k1 j / n) for the first j of each block */
    const struct FftRow *conv;
    const void *chirp, *spectrum;
} FftRow;
typedef struct {
    int kind, inverse;
    int64_t outer, inner, n_in, n_out, n;       /* outer: of one image; n: length of the complex transform; n / 2 pairs for an even real one */
    int halved;                                 /* an even real transform, by one of half the length */
    const void *roots;                          /* halved: exp(-i pi k / n), real parts, then imaginary ones */
    double scale;
    const FftLanes *lanes;
    const FftRow *row;                          /* NULL: lanes */
} FftAxis;
typedef struct { int n_axis, dtype; int64_t images, group; FftAxis *axis; } FftPlan;        /* group: images that go through all axes together */
#define FFT_IMAGE (3 << 18)             /* bytes of the largest image of a group */
#define FFT_CLOSE (4 << 20)             /* bytes of all images that stay in second caches anyway */
#define FFT_GROUP (1 << 18)             /* bytes of a group of smaller ones */

/* The block: measured with base == NULL, then filled. */
typedef struct { char *base; int64_t used; int dtype, lanes, failed; } FftArena;

static void *fft_take(FftArena *a, int64_t bytes) {
    char *p = a->base ? a->base + a->used : NULL;
    a->used += (bytes + 63) & ~(int64_t)63;
    return p;
}
static int64_t fft_real_size(const FftArena *a) { return a->dtype == FG_C64 ? 4 : 8; }

/* exp(-2 pi i k / n), by octants, so that angles are small and quarter turns exact */
static void fft_root(int64_t k, int64_t n, double *re, double *im) {
    k %= n;
    if (k < 0) k += n;
    int64_t eighth = 8 * k / n, rest = 8 * k - eighth * n;                      /* angle 2 pi (eighth + rest / n) / 8 */
    int mirror = eighth & 1;
    double t = 0.785398163397448309616 * (double)(mirror ? n - rest : rest) / (double)n, c = cos(t), s = sin(t), x, y;
    int quarter = (int)((eighth + mirror) / 2) & 3;
    if (mirror) s = -s;
    if (quarter == 0) { x = c; y = s; } else if (quarter == 1) { x = -s; y = c; }
    else if (quarter == 2) { x = -c; y = -s; } else { x = s; y = -c; }
    *re = x; *im = -y;
}
static void fft_put(void *table, int dtype, int64_t i, double v) {
    if (dtype == FG_C64) ((float *)table)[i] = (float)v; else ((double *)table)[i] = v;
}
static void fft_put_root(const void *table, int dtype, int64_t i, int64_t k, int64_t n) {
    double re, im;
    fft_root(k, n, &re, &im);
    fft_put((void *)table, dtype, 2 * i, re);
    fft_put((void *)table, dtype, 2 * i + 1, im);
}

/* Which complex number of a line of them lane l holds: see fft_tile.h. */
static int fft_lane_order(int l, const FftArena *a) {
    const int block = 16 / (int)fft_real_size(a), half = block / 2;
    return l / block * half + l % half + (l % block < half ? 0 : a->lanes / 2);
}
/* exp(-2 pi i (k l + from) / n) for `lanes` lanes l, or these twice, as the pair of vectors number i */
static void fft_put_lanes(const void *table, const FftArena *a, int64_t i, int64_t k, int64_t from, int64_t n, int lanes) {
    for (int l = 0; l < a->lanes; l++) {
        double re, im;
        fft_root(k * (fft_lane_order(l, a) % lanes) + from, n, &re, &im);
        fft_put((void *)table, a->dtype, 2 * i * a->lanes + l, re);
        fft_put((void *)table, a->dtype, (2 * i + 1) * a->lanes + l, im);
    }
}

static int64_t fft_largest_prime(int64_t n) {
    int64_t p = 1;
    for (int64_t f = 2; f * f <= n; f++) while (n % f == 0) { p = f; n /= f; }
    return n > 1 ? n : p;
}
/* The radices of n, whose primes are at most FFT_PRIME: an odd one is the last, so that squares of the rows it writes fit. */
static int fft_factors(int64_t n, int64_t *r) {
    int k = 0, twos = 0;
    int64_t odd = 0;
    while (n % 2 == 0) { n /= 2; twos++; }
    for (int64_t f = 3; n > 1; f += 2) while (n % f == 0) { if (odd) r[k++] = f; else odd = f; n /= f; }
    while (twos % 3 && twos >= (twos % 3 == 1 ? 4 : 8)) { r[k++] = 16; twos -= 4; }
    if (twos % 3) { r[k++] = twos % 3 == 1 ? 2 : 4; twos -= twos % 3; }
    for (; twos > 0; twos -= 3) r[k++] = 8;
    if (odd) r[k++] = odd;
    return k;
}
/* The least length of small factors from `least` on. */
static int64_t fft_smooth(int64_t least) {
    int64_t best = 1;
    while (best < least) best *= 2;
    for (int64_t f3 = 1; f3 < best && f3 <= 27; f3 *= 3) for (int64_t n = f3; n < 2 * best; n *= 2) if (n >= least && n < best) best = n;
    return best;
}
/* What a lane of n elements costs, roughly, in operations of a vector. */
static double fft_cost(int64_t n, const FftArena *a) {
    int64_t r[FFT_PASSES];
    if (fft_largest_prime(n) > FFT_PRIME) {
        int64_t m = fft_smooth(2 * n - 1);
        return 2 * fft_cost(m, a) + 12.0 * (double)m;
    }
    int k = fft_factors(n, r);
    double c = 8;
    for (int i = 0; i < k; i++)
        c += r[i] == 2 ? 4 : r[i] == 4 ? 7 : r[i] == 3 ? 8 : r[i] == 8 || r[i] == 5 ? 10.5 : r[i] == 7 ? 13 : r[i] == 16 ? 14 : 4 + 2 * (double)r[i];
    const double bytes = 2.0 * (double)(n * a->lanes * fft_real_size(a));
    const double evicts = bytes > 3e4 && n % 128 == 0 ? 1.4 : 1;                /* elements of a pass share sets of a cache */
    return c * (double)n * evicts * (bytes > 1.5e6 ? 3 : bytes > 9e5 ? 1.9 : bytes > 4e5 ? 1.2 : 1);
}

static void fft_transform_chirp(FftArena *a, const FftLanes *lanes, const FftRow *row, void *spectrum);

static void fft_fill_chirp(void *chirp, void *spectrum, int64_t n, int64_t m, int dtype) {
    memset(spectrum, 0, (size_t)(2 * m * (dtype == FG_C64 ? 4 : 8)));
    for (int64_t k = 0; k < n; k++) {
        double re, im;
        fft_root((int64_t)((unsigned __int128)k * (uint64_t)k % (uint64_t)(2 * n)), 2 * n, &re, &im);
        fft_put(chirp, dtype, 2 * k, re);
        fft_put(chirp, dtype, 2 * k + 1, im);
        for (int side = 0; side < 2; side++) {
            int64_t at = side && k ? m - k : k;
            fft_put(spectrum, dtype, 2 * at, re / (double)m);
            fft_put(spectrum, dtype, 2 * at + 1, -im / (double)m);
        }
    }
}

static const FftLanes *fft_make_lanes(FftArena *a, int64_t n) {
    FftLanes local, *taken = (FftLanes *)fft_take(a, sizeof local), *p = taken ? taken : &local;
    memset(p, 0, sizeof *p);
    p->n = p->room = n;
    if (fft_largest_prime(n) > FFT_PRIME) {
        int64_t m = fft_smooth(2 * n - 1);
        p->conv = fft_make_lanes(a, m);
        p->room = m;
        p->chirp = fft_take(a, 2 * n * fft_real_size(a));
        p->spectrum = fft_take(a, 2 * m * fft_real_size(a));
        if (a->base) {
            fft_fill_chirp((void *)p->chirp, (void *)p->spectrum, n, m, a->dtype);
            fft_transform_chirp(a, p->conv, NULL, (void *)p->spectrum);
        }
        return taken;
    }
    int64_t r[FFT_PASSES], left = n, s = 1;
    p->n_pass = fft_factors(n, r);
    for (int i = 0; i < p->n_pass; i++) {
        FftPass *q = &p->pass[i];
        q->r = r[i]; q->m = left / r[i]; q->s = s;
        q->roots = fft_take(a, 2 * q->m * (q->r - 1) * fft_real_size(a));
        if (q->r % 2) q->cosines = fft_take(a, 2 * q->r * fft_real_size(a));
        if (a->base) {
            for (int64_t j = 0; j < q->m; j++) for (int64_t k = 1; k < q->r; k++)
                fft_put_root(q->roots, a->dtype, j * (q->r - 1) + k - 1, j * k, left);
            if (q->r % 2) for (int64_t k = 0; k < q->r; k++) fft_put_root(q->cosines, a->dtype, k, k, q->r);
        }
        left = q->m;
        if (left == 1) {
            int64_t *order = (int64_t *)fft_take(a, s * (int64_t)sizeof(int64_t));
            int64_t *blocks = (int64_t *)fft_take(a, s * (int64_t)sizeof(int64_t));
            q->order = order; q->blocks = blocks;
            if (a->base) for (int64_t b = 0; b < s; b++) {
                int64_t rest = b, at = 0;
                for (int e = i - 1; e >= 0; e--) { at += rest % r[e] * p->pass[e].s; rest /= r[e]; }
                order[b] = at; blocks[at] = b;
            }
        }
        s *= q->r;
    }
    return taken;
}

static const int64_t fft_none[1] = {0};
/* Pairs of rows of n that go through each step together: loops are entered less often, what is between them stays in a first cache. */
static int64_t fft_pairs(int64_t n) { return n < FFT_TOGETHER ? FFT_TOGETHER / n : 1; }
/* Where a block of lanes begins, of n: the last one ends with n, and does a part of the one before it again. */
static int64_t fft_start(int64_t block, int64_t n, int64_t lanes) {
    int64_t from = block * lanes;
    return from + lanes <= n ? from : n < lanes ? 0 : n - lanes;
}

/* A step of one pass of these radices stays in registers. */
static int fft_is_short(int64_t n, const FftArena *a) { return (n == 8 || n == 16) && 2 * n >= a->lanes; }
/* n = n1 n2 for the row method, of one row or of two, with the least cost a row, which is returned; n1 == 0 where there is none. */
static double fft_split(const FftArena *a, int64_t n, int twins, int64_t *n1, int64_t *n2) {
    const int64_t lanes = twins ? a->lanes / 2 : a->lanes;
    double best = 0;
    *n1 = *n2 = 0;
    for (int64_t d = 2; d * d <= n; d++) {
        if (n % d || (twins && d < lanes)) continue;
        for (int turn = 0; turn < 2; turn++) {
            int64_t x = turn ? n / d : d, y = n / x;
            double first = fft_cost(x, a) + 4.0 * (double)x, second = fft_cost(y, a) + 4.0 * (double)y;
            if (twins) {                                            /* measured: two rows take so much of what two of one row do */
                first = (first + (fft_is_short(x, a) ? 0 : 250)) * 0.3;
                second = (second + (fft_is_short(y, a) ? 0 : 250)) * 0.3;
            }
            double c = (double)((y + lanes - 1) / lanes) * first + (double)((x + lanes - 1) / lanes) * second
                     + (y < lanes ? 5.0 * (double)n : 0) + (x < lanes ? 3.0 * (double)n : 0);    /* lanes one by one */
            if (!*n1 || c < best) { best = c; *n1 = x; *n2 = y; }
        }
    }
    return best;
}
/* The longest rows that go two at a time. far: what is read and written is not in second caches and passes through the first one too.
 * Vectors of 256 bits leave only four lanes to a row's steps, which are then worth more than what does not fit. */
static int64_t fft_most_of_twins(const FftArena *a, int far) {
    const int64_t most = FFT_FIRST_CACHE / 4 / fft_real_size(a);
    return FG_VEC == 32 ? 2 * most - 1 : far ? most / 3 : most;
}
/* The cost of the row method, of one row or of two of at most so many elements, or -1 where it does not apply. */
static double fft_row_cost(const FftArena *a, int64_t n, int twins, int64_t most) {
    int64_t n1, n2;
    if (fft_largest_prime(n) > FFT_PRIME) {
        int64_t m = fft_smooth(2 * n - 1);
        double c = fft_split(a, m, twins, &n1, &n2);
        return n1 && (!twins || m <= most) ? 2 * c + 8.0 * (double)m / a->lanes + (twins ? 400 : 0) : -1;
    }
    double c = fft_split(a, n, twins, &n1, &n2);
    return n1 && (!twins || n <= most) ? c : -1;
}

static const FftRow *fft_make_row(FftArena *a, int64_t n, int twins) {
    FftRow local, *taken = (FftRow *)fft_take(a, sizeof local), *p = taken ? taken : &local;
    memset(p, 0, sizeof *p);
    p->n = n;
    if (fft_largest_prime(n) > FFT_PRIME) {
        int64_t m = fft_smooth(2 * n - 1);
        p->twins = twins;
        p->conv = fft_make_row(a, m, twins);
        p->chirp = fft_take(a, 2 * n * fft_real_size(a));
        p->spectrum = fft_take(a, 2 * m * fft_real_size(a));
        if (a->base) {
            p->room = p->conv->room;
            p->scratch = 2 * FFT_ROOM(m) + p->conv->scratch;
            fft_fill_chirp((void *)p->chirp, (void *)p->spectrum, n, m, a->dtype);
            fft_transform_chirp(a, NULL, p->conv, (void *)p->spectrum);
        }
        return taken;
    }
    const int lanes = twins ? a->lanes / 2 : a->lanes;
    p->twins = twins;
    fft_split(a, n, twins, &p->n1, &p->n2);
    p->scratch = (p->n1 + lanes - 1) / lanes * a->lanes * p->n2;
    p->first = fft_make_lanes(a, p->n1);
    p->second = fft_make_lanes(a, p->n2);
    p->room = p->n1 > p->n2 ? p->n1 : p->n2;
    int64_t blocks = (p->n2 + lanes - 1) / lanes;
    if (n <= FFT_TABLE) {
        p->roots = fft_take(a, 2 * p->n1 * blocks * a->lanes * fft_real_size(a));
        if (a->base)
            for (int64_t b = 0; b < blocks; b++) for (int64_t k = 0; k < p->n1; k++)
                fft_put_lanes(p->roots, a, b * p->n1 + k, k, k * fft_start(b, p->n2, lanes), n, lanes);
        return taken;
    }
    p->lane_roots = fft_take(a, 2 * p->n1 * a->lanes * fft_real_size(a));
    p->block_roots = fft_take(a, 2 * p->n1 * blocks * fft_real_size(a));
    if (a->base)
        for (int64_t k = 0; k < p->n1; k++) {
            fft_put_lanes(p->lane_roots, a, k, k, 0, n, lanes);
            for (int64_t b = 0; b < blocks; b++) fft_put_root(p->block_roots, a->dtype, b * p->n1 + k, k * fft_start(b, p->n2, a->lanes), n);
        }
    return taken;
}

static void fft_make_axis(FftArena *a, FftAxis *x, int64_t images) {
    int64_t whole = x->kind == FFT_R2C ? x->n_in : x->n_out, outer = images * x->outer, lanes = outer * x->inner;
    x->halved = x->kind != FFT_C2C && whole % 2 == 0;
    x->n = x->halved ? whole / 2 : whole;
    x->scale = x->inverse ? 1.0 / (double)whole : 1.0;
    if (x->halved) {
        x->roots = fft_take(a, 2 * x->n * fft_real_size(a));
        if (a->base) for (int64_t k = 0; k < x->n; k++) {
            double re, im;
            fft_root(k, whole, &re, &im);
            fft_put((void *)x->roots, a->dtype, k, re);
            fft_put((void *)x->roots, a->dtype, x->n + k, im);
        }
    }
    int64_t tiles = x->inner < a->lanes
        ? (lanes + a->lanes - 1) / a->lanes : outer * ((x->inner + a->lanes - 1) / a->lanes);
    double gather = x->inner == 1 ? 6 : x->inner < a->lanes ? 4.0 * a->lanes : 0;
    double by_lanes = (double)tiles * (fft_cost(x->n, a) + gather * (double)x->n), by_row = fft_row_cost(a, x->n, 0, 0);
    const int shared = lanes * x->n >= 2 * FFT_GRAIN;
    if (x->inner == 1 && shared) by_lanes *= 1 + 1 / (double)tiles;           /* threads share few tiles badly */
    if (by_row >= 0 && x->inner > 1) by_row += 8.0 * (double)x->n;
    int row = by_row >= 0 && by_row * (double)lanes < by_lanes, twins = 0;
    if (x->inner == 1 && lanes > 1 && (x->halved || x->kind == FFT_C2C)) {
        double by_twins = fft_row_cost(a, x->n, 1, fft_most_of_twins(a, 4 * lanes * x->n * fft_real_size(a) > FFT_CLOSE));
        if (by_twins >= 0 && x->kind == FFT_C2R) by_twins += (FG_VEC == 32 ? 3.5 : 1.0) * (double)x->n;      /* folded before, row by row */
        by_twins *= (double)(lanes + (shared ? 2 : lanes & 1));
        if (by_twins >= 0 && FG_VEC == 32) row = twins = by_twins < by_lanes;           /* one at a time took longer than two of all lengths */
        else if (by_twins >= 0 && by_twins < (row ? by_row * (double)lanes : by_lanes)) row = twins = 1;
    }
    const void *plan = row ? (const void *)fft_make_row(a, x->n, twins) : (const void *)fft_make_lanes(a, x->n);
    x->row = row ? (const FftRow *)plan : NULL;
    x->lanes = row ? NULL : (const FftLanes *)plan;
}
#endif
