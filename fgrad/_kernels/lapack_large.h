/* Large real matrices: halves with a product on all threads between them, down to blocks that one thread takes.  How they are
 * halved depends on shapes alone, and so do the results. */
#ifndef FG_LAPACK_LARGE_H
#define FG_LAPACK_LARGE_H
#include "gemm_job.h"
#include "lapack.h"

enum { FG_LARGE_LEAST = 320, FG_LARGE_ALONE = 160, FG_LARGE_SIDES = 32, FG_CHOLESKY_LEAF = 128, FG_LU_LEAF = 16, FG_SWAP_CHUNK = 256 };

typedef void (*FgBody)(void *ctx, int64_t begin, int64_t end, int tid);
typedef struct {
    int (*product)(GemmJob *job);
    void (*each)(int64_t n, int64_t grain, FgBody body, void *ctx);
    int t, failed;
    int64_t item, ld;                                /* ld: elements of a line of `space`, for two panels */
    char *scratch, *space;                           /* scratch: half as large as the largest operand */
} FgTeam;

/* A matrix: strides in elements, of which one is 1. */
typedef struct { char *at; int64_t row, column; } FgPlace;

static FgPlace fg_part(const FgTeam *w, FgPlace x, int64_t i, int64_t j) {
    return (FgPlace){x.at + (i * x.row + j * x.column) * w->item, x.row, x.column};
}
static FgPlace fg_turn(FgPlace x) { return (FgPlace){x.at, x.column, x.row}; }
static int fg_halved(int n) { return (n / 2 + 15) / 16 * 16; }

/* -x (m, n) in scratch, in x's order. */
static FgPlace fg_negated(const FgTeam *w, FgPlace x, int64_t m, int64_t n) {
    const int64_t lines = x.column == 1 ? m : n, length = x.column == 1 ? n : m, step = x.column == 1 ? x.row : x.column;
    for (int64_t l = 0; l < lines; l++) {
        if (w->t) for (int64_t i = 0; i < length; i++) ((double *)w->scratch)[l * length + i] = -((const double *)x.at)[l * step + i];
        else for (int64_t i = 0; i < length; i++) ((float *)w->scratch)[l * length + i] = -((const float *)x.at)[l * step + i];
    }
    return x.column == 1 ? (FgPlace){w->scratch, length, 1} : (FgPlace){w->scratch, 1, length};
}

/* c (m, n) -= a (m, k) b (k, n) */
static void fg_subtract(FgTeam *w, FgPlace c, FgPlace a, FgPlace b, int64_t m, int64_t n, int64_t k) {
    GemmJob j;
    if (c.column != 1) { fg_subtract(w, fg_turn(c), fg_turn(b), fg_turn(a), n, m, k); return; }
    if (m < n) a = fg_negated(w, a, m, k); else b = fg_negated(w, b, k, n);
    memset(&j, 0, sizeof j);
    j.B = 1; j.inner = 0; j.M = m; j.N = n; j.K = k;
    j.ra = a.row; j.ca = a.column; j.rb = b.row; j.cb = b.column; j.ldc = c.row;
    j.f64 = w->t; j.add = 1;
    j.a = a.at; j.b = b.at; j.c = c.at;
    if (w->product(&j) != FG_OK) w->failed = 1;
}

/* --- triangular systems a x = b with many right-hand sides, in place ------------------------------------------------------- */

typedef struct { const FgTeam *w; FgPlace x; int n, sides, back; } FgSides;

static void fg_solve_sides(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgSides *s = (const FgSides *)ctx;
    const int turned = s->x.column != 1;
    const int64_t lx = turned ? s->x.column : s->x.row;
    for (int64_t u = begin; u < end; u++) {
        const int from = (int)u * FG_LEAF, count = fg_least(FG_LEAF, s->sides - from);
        char *x = fg_part(s->w, s->x, 0, from).at;
        if (s->w->t) blocks_sides_f64((const double *)s->w->scratch, (double *)x, lx, s->n, count, turned, s->back);
        else blocks_sides_f32((const float *)s->w->scratch, (float *)x, lx, s->n, count, turned, s->back);
    }
}

static void fg_solve(FgTeam *w, FgPlace a, FgPlace x, int n, int sides, int lower, int unit) {
    if (n <= FG_LEAF) {
        FgSides s = {w, x, n, sides, !lower};
        FgPlace first = lower ? a : fg_part(w, a, n - 1, n - 1);       /* an upper triangle is a lower one from its end */
        const int64_t way = lower ? 1 : -1;
        if (w->t) blocks_triangle_f64((const double *)first.at, way * a.row, way * a.column, n, unit, (double *)w->scratch);
        else blocks_triangle_f32((const float *)first.at, way * a.row, way * a.column, n, unit, (float *)w->scratch);
        w->each((sides + FG_LEAF - 1) / FG_LEAF, 1 + 100000 / ((int64_t)n * n * FG_LEAF), fg_solve_sides, &s);
        return;
    }
    const int h = fg_halved(n), rest = n - h;
    FgPlace end = fg_part(w, a, h, h), below = fg_part(w, x, h, 0);
    if (lower) {
        fg_solve(w, a, x, h, sides, lower, unit);
        fg_subtract(w, below, fg_part(w, a, h, 0), x, rest, sides, h);
        fg_solve(w, end, below, rest, sides, lower, unit);
    } else {
        fg_solve(w, end, below, rest, sides, lower, unit);
        fg_subtract(w, x, fg_part(w, a, 0, h), below, h, sides, rest);
        fg_solve(w, a, x, h, sides, lower, unit);
    }
}

/* --- Cholesky ---------------------------------------------------------------------------------------------------------------- */

/* c (n, n) -= a a^T, on and below the diagonal at least; a (n, k) */
static void fg_subtract_square(FgTeam *w, FgPlace c, FgPlace a, int n, int k) {
    if (n <= FG_CHOLESKY_LEAF) { fg_subtract(w, c, a, fg_turn(a), n, n, k); return; }
    const int h = fg_halved(n);
    FgPlace below = fg_part(w, a, h, 0);
    fg_subtract_square(w, c, a, h, k);
    fg_subtract(w, fg_part(w, c, h, 0), below, fg_turn(a), n - h, h, k);
    fg_subtract_square(w, fg_part(w, c, h, h), below, n - h, k);
}

/* The lower triangle of a (n, n) in place: 0, or -1 where a is not positive definite. */
static int fg_large_cholesky(FgTeam *w, FgPlace a, int n) {
    if (n <= FG_CHOLESKY_LEAF) return w->t ? blocks_cholesky_f64((double *)a.at, a.row, n, (double *)w->space, w->ld)
                                           : blocks_cholesky_f32((float *)a.at, a.row, n, (float *)w->space, w->ld);
    const int h = fg_halved(n);
    FgPlace below = fg_part(w, a, h, 0), end = fg_part(w, a, h, h);
    if (fg_large_cholesky(w, a, h)) return -1;
    fg_solve(w, a, fg_turn(below), h, n - h, 1, 0);
    fg_subtract_square(w, end, below, n - h, h);
    return fg_large_cholesky(w, end, n - h);
}

/* --- LU ------------------------------------------------------------------------------------------------------------------------ */

typedef struct { const FgTeam *w; FgPlace a; const int *pivots; int count, columns; } FgSwaps;

static void fg_swap_columns(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgSwaps *s = (const FgSwaps *)ctx;
    for (int64_t u = begin; u < end; u++) for (int i = 0; i < s->count; i++) {
        const int from = (int)u * FG_SWAP_CHUNK, n = fg_least(FG_SWAP_CHUNK, s->columns - from);
        char *x = fg_part(s->w, s->a, i, from).at, *y = fg_part(s->w, s->a, s->pivots[i], from).at;
        if (x == y) continue;
        if (s->w->t) blocks_swap_f64((double *)x, (double *)y, n); else blocks_swap_f32((float *)x, (float *)y, n);
    }
}
/* Rows i and pivots[i] of a's columns change places, for i < count. */
static void fg_swap(const FgTeam *w, FgPlace a, const int *pivots, int count, int columns) {
    FgSwaps s = {w, a, pivots, count, columns};
    w->each((columns + FG_SWAP_CHUNK - 1) / FG_SWAP_CHUNK, 1 + 64 / (count + 1), fg_swap_columns, &s);
}

static void fg_large_lu(FgTeam *w, FgPlace a, int m, int n, int *pivots) {
    const int k = fg_least(m, n), h = fg_halved(k);
    if (k <= FG_LU_LEAF) {
        if (w->t) blocks_lu_f64((double *)a.at, a.row, m, n, pivots, (double *)w->space, w->ld);
        else blocks_lu_f32((float *)a.at, a.row, m, n, pivots, (float *)w->space, w->ld);
        return;
    }
    FgPlace right = fg_part(w, a, 0, h), below = fg_part(w, a, h, 0), end = fg_part(w, a, h, h);
    fg_large_lu(w, a, m, h, pivots);
    fg_swap(w, right, pivots, h, n - h);
    fg_solve(w, a, right, h, n - h, 1, 1);
    fg_subtract(w, end, below, right, m - h, n - h, h);
    fg_large_lu(w, end, m - h, n - h, pivots + h);
    fg_swap(w, below, pivots + h, k - h, h);
    for (int i = h; i < k; i++) pivots[i] += h;
}

/* --- batches --------------------------------------------------------------------------------------------------------------------- */

static int fg_is_large(int t, int n) { return GEMM_WIDE && t < 2 && n >= FG_LARGE_LEAST; }
/* Triangles: a batch has one for each thread, however many there are, so that only one alone is shared among them earlier. */
static int fg_is_large_triangle(int t, int n, int64_t batch) { return fg_is_large(t, n) || (GEMM_WIDE && t < 2 && batch == 1 && n >= FG_LARGE_ALONE); }

/* Bytes of scratch and space together for operands of at most m rows and n columns. */
static int64_t fg_large_room(FgTeam *w, int64_t m, int64_t n) {
    const int64_t half = (m * n / 2 + 16 * (m + n) + FG_LEAF * FG_LEAF) * w->item / 64 * 64 + 64;
    w->failed = 0;
    w->ld = ((m > n ? m : n) + 31) / 32 * 32 + 32;                    /* tiles read beyond the edge */
    w->space = w->scratch + half;
    return half + 2 * FG_PANEL * w->ld * w->item;
}

/* Cholesky (`lu` 0) or LU of every matrix; what is not positive definite or not finite goes to LAPACK. */
static void fg_large_factors(FgTeam *w, const FgLaJob *j, int lu) {
    char *p[FG_LA_MAXARGS];
    for (int64_t i = 0; i < j->batch; i++) {
        fg_la_operands(j, i, p);
        FgPlace a = {p[1], j->n, 1};
        int done = !lu || fg_la_finite(j, p[0]);
        if (done) memcpy(p[1], p[0], (size_t)j->bytes[0]);
        if (done && lu) {
            fg_large_lu(w, a, j->m, j->n, (int *)p[2]);
            fg_permutation((const int *)p[2], fg_least(j->m, j->n), (int *)p[3], j->m);
        } else if (done && (done = !fg_large_cholesky(w, a, j->n)))
            for (int r = 0; r < j->n; r++) memset(p[1] + ((int64_t)r * j->n + r + 1) * j->item, 0, (size_t)((j->n - r - 1) * j->item));
        if (!done) fg_la_range((void *)j, i, i + 1, 0);
    }
}

/* The systems of a job whose right-hand sides lie in its b. */
static void fg_large_triangles(FgTeam *w, const FgTrsmJob *j) {
    const int64_t *ip = j->inst->ip;
    const int left = ip[0] != 0, turned = left == (ip[2] != 0);        /* of x op(a) = b, the transposed system is solved */
    for (int64_t i = 0; i < j->batch; i++) {
        FgPlace a = {j->a + i * j->k * j->k * j->item, j->k, 1}, x = {j->b + i * j->m * j->n * j->item, j->n, 1};
        if (!left) x = fg_turn(x);
        if (turned) a = fg_turn(a);
        fg_solve(w, a, x, j->k, left ? j->n : j->m, (ip[1] != 0) != turned, ip[3] != 0);
    }
}

/* --- triangular systems with a few right-hand sides ------------------------------------------------------------------------- */

enum { FG_FEW_SIDES = GEMM_DOTS_ROWS };
#define FG_FEW_BLOCK 16                          /* unknowns that are found number by number */
#define T float
#define N(name) name##_f32
#define G(name) gemm_f32_##name
#include "lapack_sides.h"
#undef T
#undef N
#undef G
#define T double
#define N(name) name##_f64
#define G(name) gemm_f64_##name
#include "lapack_sides.h"
#undef T
#undef N
#undef G
static void fg_few_sides_range(void *ctx, int64_t begin, int64_t end, int tid) {
    FgTrsmJob *j = (FgTrsmJob *)ctx;
    for (int64_t u = begin; u < end; u++) if (j->t ? few_sides_f64(j, u) : few_sides_f32(j, u)) j->out_of_memory = 1;
}
#endif
