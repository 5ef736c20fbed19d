/* QR of real matrices by blocks of reflectors, and the matrices that such reflectors multiply to.  A block's reflectors V (unit lower
 * trapezoid) multiply to I - V T V^T with T upper triangular; blocks are halved down to panels of FG_PANEL columns, whose rows are a few
 * vectors each, and everything else is products of matrices. */
#ifndef FG_LAPACK_QR_H
#define FG_LAPACK_QR_H
#include "lapack_large.h"

enum { FG_QR_BLOCK = 64, FG_QR_LEAST = 8, FG_QR_LONG = 100,          /* columns of a block; of a matrix of more rows than FG_QR_LONG, at least */
       FG_QR_THIN = 12 };                                              /* columns that are turned (lapack_thin.h), of such matrices, at most */

/* What one matrix takes: p a panel by rows, v a block's reflectors, minus its T, and room for products with them. */
typedef struct {
    FgTeam *w;
    char *p;
    FgPlace v, t, x, y, gram;
} FgQr;

/* T, Y and Gram of one block of reflectors, from `at` on. */
static void fg_qr_squares(FgQr *q, char *at, int64_t item) {
    FgPlace *const squares[3] = {&q->t, &q->y, &q->gram};
    for (int i = 0; i < 3; i++) *squares[i] = (FgPlace){at + i * FG_QR_BLOCK * FG_QR_BLOCK * item, FG_QR_BLOCK, 1};
}

/* c (m, n) = or += a (m, k) b (k, n); c's columns are neighbours. */
static void fg_qr_product(const FgQr *q, FgPlace c, FgPlace a, FgPlace b, int64_t m, int64_t n, int64_t k, int add) {
    GemmJob j;
    if (m <= 0 || n <= 0) return;
    memset(&j, 0, sizeof j);
    j.B = 1; j.inner = 0; j.M = m; j.N = n; j.K = k;
    j.ra = a.row; j.ca = a.column; j.rb = b.row; j.cb = b.column; j.ldc = c.row;
    j.f64 = q->w->t; j.add = add;
    j.a = a.at; j.b = b.at; j.c = c.at;
    if (k <= 0) { if (!add) for (int64_t i = 0; i < m; i++) memset(c.at + i * c.row * q->w->item, 0, (size_t)(n * q->w->item)); return; }
    if (q->w->product(&j) != FG_OK) q->w->failed = 1;
}

static void fg_qr_factor(const FgQr *q, FgPlace a, int m, int n, char *tau);
#define T float
#define N(x) x##_f32
#define GEMM_N(x) gemm_f32_##x
#define FG_QR_LITTLE 1e-30f
#define THIN_COLUMNS fg_columns_4
#define THIN_ROWS fg_rows_4
#include "lapack_reflect.h"
#include "lapack_thin.h"
#undef T
#undef N
#undef GEMM_N
#undef FG_QR_LITTLE
#undef THIN_COLUMNS
#undef THIN_ROWS
#define T double
#define N(x) x##_f64
#define GEMM_N(x) gemm_f64_##x
#define FG_QR_LITTLE 1e-280
#define THIN_COLUMNS fg_columns_8
#define THIN_ROWS fg_rows_8
#include "lapack_reflect.h"
#include "lapack_thin.h"
#undef T
#undef N
#undef GEMM_N
#undef FG_QR_LITTLE
#undef THIN_COLUMNS
#undef THIN_ROWS

/* -T of columns [0, n) of v from those of its halves: -T12 = T1 (V1^T V2) T2, V2 begins in row h. */
static void fg_qr_join(const FgQr *q, FgPlace v, FgPlace t, int m, int n, int h) {
    const FgTeam *w = q->w;
    const int r = n - h;
    FgPlace corner = fg_part(w, t, 0, h);
    fg_qr_product(q, q->gram, fg_turn(fg_part(w, v, h, 0)), fg_part(w, v, h, h), h, r, m - h, 0);
    fg_qr_product(q, q->y, t, q->gram, h, r, h, 0);
    fg_qr_product(q, corner, q->y, fg_part(w, t, h, h), h, r, r, 0);
    for (int i = 0; i < r; i++) memset(fg_part(w, t, h + i, 0).at, 0, (size_t)(h * w->item));
}

/* -T of the reflectors in v (m, n), of factors tau. */
static void fg_qr_triangle(const FgQr *q, FgPlace v, FgPlace t, int m, int n, const char *tau) {
    const FgTeam *w = q->w;
    if (n <= FG_PANEL) {
        fg_qr_product(q, q->gram, fg_turn(v), v, n, n, m, 0);
        if (w->t) qr_leaf_triangle_f64((const double *)q->gram.at, q->gram.row, (const double *)tau, n, (double *)t.at, t.row);
        else qr_leaf_triangle_f32((const float *)q->gram.at, q->gram.row, (const float *)tau, n, (float *)t.at, t.row);
        return;
    }
    const int h = fg_halved(n);
    fg_qr_triangle(q, v, t, m, h, tau);
    fg_qr_triangle(q, fg_part(w, v, h, h), fg_part(w, t, h, h), m - h, n - h, tau + h * w->item);
    fg_qr_join(q, v, t, m, n, h);
}

/* c (m, n) = (I - V T V^T)^T c of k reflectors; x takes k rows of n. */
static void fg_qr_apply(const FgQr *q, FgPlace v, FgPlace t, FgPlace c, int m, int n, int k) {
    const int64_t wide = (n + 15) / 16 * 16;
    FgPlace x = {q->x.at, wide, 1}, y = {q->x.at + FG_QR_BLOCK * wide * q->w->item, wide, 1};
    fg_qr_product(q, x, fg_turn(v), c, k, n, m, 0);
    fg_qr_product(q, y, fg_turn(t), x, k, n, k, 0);
    fg_qr_product(q, c, v, y, m, n, k, 1);
}

/* Columns [0, n) of a (m, n): R and reflectors in place, the reflectors again in v, -T in t. */
static void fg_qr_columns(const FgQr *q, FgPlace a, FgPlace v, FgPlace t, int m, int n, char *tau) {
    const FgTeam *w = q->w;
    if (n <= FG_PANEL) {
        if (w->t) qr_panel_f64((double *)a.at, a.row, m, n, (double *)q->p, (double *)tau, (double *)v.at, v.row);
        else qr_panel_f32((float *)a.at, a.row, m, n, (float *)q->p, (float *)tau, (float *)v.at, v.row);
        fg_qr_triangle(q, v, t, m, n, tau);
        return;
    }
    const int h = fg_halved(n);
    FgPlace right = fg_part(w, a, 0, h);
    fg_qr_columns(q, a, v, t, m, h, tau);
    fg_qr_apply(q, v, t, right, m, n - h, h);
    fg_qr_columns(q, fg_part(w, right, h, 0), fg_part(w, v, h, h), fg_part(w, t, h, h), m - h, n - h, tau + h * w->item);
    for (int i = 0; i < h; i++) memset(fg_part(w, v, i, h).at, 0, (size_t)((n - h) * w->item));
    fg_qr_join(q, v, t, m, n, h);
}

/* a (m, n) in place: R and reflectors. */
static void fg_qr_factor(const FgQr *q, FgPlace a, int m, int n, char *tau) {
    const FgTeam *w = q->w;
    const int k = fg_least(m, n);
    for (int c = 0; c < k; c += FG_QR_BLOCK) {
        const int b = fg_least(FG_QR_BLOCK, k - c);
        FgPlace at = fg_part(w, a, c, c);
        fg_qr_columns(q, at, q->v, q->t, m - c, b, tau + c * w->item);
        fg_qr_apply(q, q->v, q->t, fg_part(w, at, 0, b), m - c, n - c - b, b);
    }
}

/* The first n columns, out, of the product of k reflectors in a (m, n). */
static void fg_qr_expand(const FgQr *q, FgPlace a, FgPlace out, int m, int n, int k, const char *tau) {
    const FgTeam *w = q->w;
    memset(out.at, 0, (size_t)((int64_t)m * n * w->item));
    if (w->t) for (int i = 0; i < n; i++) ((double *)out.at)[i * (out.row + 1)] = 1;
    else for (int i = 0; i < n; i++) ((float *)out.at)[i * (out.row + 1)] = 1;
    for (int c = (k - 1) / FG_QR_BLOCK * FG_QR_BLOCK; c >= 0; c -= FG_QR_BLOCK) {
        const int b = fg_least(FG_QR_BLOCK, k - c), rest = n - c - b;
        const int64_t wide = (n - c + 15) / 16 * 16;
        FgPlace at = fg_part(w, out, c, c), x = {q->x.at, wide, 1}, y = {q->x.at + FG_QR_BLOCK * wide * w->item, wide, 1};
        if (w->t) qr_reflectors_f64((const double *)fg_part(w, a, c, c).at, a.row, m - c, b, (double *)q->v.at, q->v.row);
        else qr_reflectors_f32((const float *)fg_part(w, a, c, c).at, a.row, m - c, b, (float *)q->v.at, q->v.row);
        fg_qr_triangle(q, q->v, q->t, m - c, b, tau + c * w->item);
        /* Its own columns are those of the identity; the others are zero in its rows. */
        fg_qr_product(q, fg_part(w, x, 0, b), fg_turn(fg_part(w, q->v, b, 0)), fg_part(w, at, b, b), b, rest, m - c - b, 0);
        fg_qr_product(q, fg_part(w, y, 0, b), q->t, fg_part(w, x, 0, b), b, rest, b, 0);
        fg_qr_product(q, y, q->t, fg_turn(q->v), b, b, b, 0);
        fg_qr_product(q, at, q->v, y, m - c, n - c, b, 1);
    }
}

/* --- batches --------------------------------------------------------------------------------------------------------------------- */

typedef struct { const FgLaJob *job; FgTeam team; char *rooms; int64_t room; } FgQrJob;        /* a room of `room` bytes for each thread */

/* Long and narrow matrices would leave most of a panel's row empty. */
static int fg_qr_is_thin(const FgLaJob *j) { return j->m > FG_QR_LONG && j->n <= FG_QR_THIN; }
static int fg_qr_fits(const FgLaJob *j) {
    const int k = fg_least(j->m, j->n);
    return GEMM_WIDE && j->t < 2 && (j->one == fg_one_geqrf || j->one == fg_one_reflectors)
        && (fg_qr_is_thin(j) || k >= (j->m > FG_QR_LONG ? FG_QR_LEAST : FG_QR_LEAST / 2));
}

/* Places in the room of one matrix; returns its size. */
static int64_t fg_qr_room(FgQr *q, const FgLaJob *j, char *room) {
    const int64_t item = j->item, m = j->m, B = FG_QR_BLOCK, width = fg_least(B, (fg_least(j->m, j->n) + 15) / 16 * 16), wide = (j->n + 15) / 16 * 16;
    const int64_t squares = (m * (FG_PANEL + width) + 2 * B * wide) * item;
    if (fg_qr_is_thin(j)) {
        if (room) q->p = room;
        return 2 * j->n * ((m * item + 63) / 64 * 64);
    }
    if (!room) return (squares + 3 * B * B * item + 63) / 64 * 64;
    q->p = room;
    q->v = (FgPlace){room + m * FG_PANEL * item, width, 1};
    q->x = (FgPlace){room + m * (FG_PANEL + width) * item, wide, 1};
    fg_qr_squares(q, room + squares, item);
    return 0;
}

/* Matrices [begin, end) of a batch; what is not finite goes to LAPACK. */
static void fg_qr_range(void *ctx, int64_t begin, int64_t end, int tid) {
    FgQrJob *job = (FgQrJob *)ctx;
    FgLaJob *j = (FgLaJob *)job->job;
    FgTeam team = job->team;
    const int64_t item = j->item, m = j->m, n = j->n;
    char *p[FG_LA_MAXARGS];
    FgQr q = {.w = &team};
    fg_qr_room(&q, j, job->rooms + tid * job->room);
    for (int64_t i = begin; i < end; i++) {
        fg_la_operands(j, i, p);
        int finite = fg_la_finite(j, p[0]);
        if (j->one == fg_one_reflectors) {
            const int k = (int)(j->bytes[1] / item);
            finite = finite && (j->t ? blocks_finite_f64((const double *)p[1], k) : blocks_finite_f32((const float *)p[1], k));
            if (finite && fg_qr_is_thin(j)) {
                if (j->t) thin_expand_f64((const double *)p[0], (double *)p[2], m, (int)n, k, (const double *)p[1], (double *)q.p);
                else thin_expand_f32((const float *)p[0], (float *)p[2], m, (int)n, k, (const float *)p[1], (float *)q.p);
            } else if (finite) fg_qr_expand(&q, (FgPlace){p[0], n, 1}, (FgPlace){p[2], n, 1}, (int)m, (int)n, k, p[1]);
        } else if (finite && j->t) qr_matrix_f64(&q, (double *)p[1], (const double *)p[0], j->m, j->n, (double *)p[2]);
        else if (finite) qr_matrix_f32(&q, (float *)p[1], (const float *)p[0], j->m, j->n, (float *)p[2]);
        if (!finite) fg_la_range(j, i, i + 1, tid);
    }
    if (team.failed) j->out_of_memory = 1;
}
#endif
