/* Sums over differences of all pairs of rows of x (m x k) and y (n x k), of which no array is made.
 *
 * distances: out[i, j] = sum over c of (x[i, c] - y[j, c])^2, or of the absolute values, with a factor of each column before or after that;
 *            lanes are rows of y, which are laid in columns.
 * moments:   out[i, c] = scale * sum over j of w[i, j] (x[i, c] - y[j, c]); lanes are columns.
 * Long sums are sums of sums of CHUNK terms.  Every result is added in one order, however the work is cut. */
#ifndef FG_PAIRS_H
#define FG_PAIRS_H
#include "fg.h"
#include "vec.h"

enum { FG_PAIRS_ABSOLUTE = 1, FG_PAIRS_BEFORE = 2, FG_PAIRS_AFTER = 4 };      /* the form of distances; not both of the last two */
enum {
    FG_PAIRS_CHUNK = 128,         /* columns whose differences are added up at once; a panel of them takes 32 KB */
    FG_PAIRS_VECS = 4,            /* vectors of rows of y in a panel */
    FG_PAIRS_TALL = 256,          /* rows of x that meet a panel: it takes as long to lay as some twenty take to meet it */
    FG_PAIRS_ROWS = 16,           /* rows of the moments that read y together */
    FG_PAIRS_TERMS = 256,         /* rows of y whose moments are added up at once: 64 KB at 64 columns */
};
#ifdef __AVX512F__
enum { FG_PAIRS_HIGH = 4 };       /* rows at once: sums and what they need fill the registers */
#else
enum { FG_PAIRS_HIGH = 2 };
#endif

typedef struct {
    const char *x, *y, *w;        /* w of distances: factors of columns, or NULL for `scale` */
    char *out;
    int64_t m, n, k, form;
    int64_t xs[3], ys[3], ws[3];  /* strides of a batch's matrix, rows and columns */
    int64_t tall, wide;           /* units of each matrix: blocks of rows, panels */
    double scale;
} FgPairs;

#define T float
#define N(name) name##_f32
#include "pairs_loops.h"
#undef T
#undef N
#define T double
#define N(name) name##_f64
#include "pairs_loops.h"
#undef T
#undef N
#endif
