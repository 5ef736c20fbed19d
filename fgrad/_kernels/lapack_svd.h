/* Singular values and vectors of real matrices of middle size by the way of LAPACK's gesdd, and with its signs: reflectors of columns and rows in
 * turn leave two diagonals, each in two passes over what is left, divide and conquer solves those, its halves and its last join on all threads, and
 * blocks of reflectors by products turn the vectors back. */
#ifndef FG_LAPACK_SVD_H
#define FG_LAPACK_SVD_H
#include "lapack_qr.h"

enum { FG_SVD_LEAST = 26, FG_TWO_LEAF = 25, FG_TWO_SECULAR = 32, FG_TWO_ALONE = 600000 };
                            /* of the shorter side; of a leaf at most; roots that we find; bytes that one thread goes over */
typedef void (*FgLartg)(const void *, const void *, void *, void *, void *);        /* f, g, cs, sn, r */
typedef void (*FgLasq1)(const int *, void *, void *, void *, int *);           /* n, d, e, work, info */
typedef void (*FgLasdq)(const char *, const int *, const int *, const int *, const int *, const int *, void *, void *, void *, const int *, void *, const int *,
                        void *, const int *, void *, int *, size_t);         /* uplo, sqre, n, ncvt, nru, ncc, d, e, vt, ldvt, u, ldu, c, ldc, work, info */
typedef void (*FgLasd1)(const int *, const int *, const int *, void *, void *, void *, void *, const int *, void *, const int *, int *, int *, void *, int *);
typedef void (*FgLasd2)(const int *, const int *, const int *, int *, void *, void *, const void *, const void *, void *, const int *, void *, const int *,
                        void *, void *, const int *, void *, const int *, int *, int *, int *, int *, int *, int *);
typedef void (*FgLasd3)(const int *, const int *, const int *, const int *, void *, void *, const int *, void *, void *, const int *, void *, const int *,
                        void *, const int *, void *, const int *, const int *, const int *, void *, int *);
typedef void (*FgLasd4)(const int *, const int *, const void *, const void *, void *, const void *, void *, void *, int *);     /* n, i, d, z, delta, rho, sigma, work, info */

/* What one matrix takes: a its copy, d the diagonals, taus and vectors of its reduction, left the reflectors of its columns, u and vh the vectors of two
 * diagonals, work and ints LAPACK's, order of the values. */
typedef struct {
    FgTeam *w;
    FgQr qr;
    int m, n, *failed, *order, *ints;                       /* the longer side and the shorter one */
    int64_t ld, lm;
    char *a, *left, *d, *u, *vh, *work;
} FgSvd;

/* c (m, n) = the product of k reflectors, in columns of v, and c. */
static void fg_svd_turn(const FgSvd *q, FgPlace v, FgPlace c, int m, int n, int k, const char *tau) {
    const FgTeam *w = q->w;
    const int turned = c.column != 1;
    for (int from = (k - 1) / FG_QR_BLOCK * FG_QR_BLOCK; from >= 0; from -= FG_QR_BLOCK) {
        const int b = fg_least(FG_QR_BLOCK, k - from), rows = m - from;
        const FgPlace at = fg_part(w, v, from, from), part = fg_part(w, c, from, 0), t = q->qr.t;
        const FgPlace one = {q->work, turned ? FG_QR_BLOCK : n, 1}, two = {q->work + (int64_t)n * FG_QR_BLOCK * w->item, one.row, 1};
        fg_qr_triangle(&q->qr, at, t, rows, b, tau + from * w->item);
        if (turned) {                                         /* results are written by rows */
            fg_qr_product(&q->qr, one, fg_turn(part), at, n, b, rows, 0);
            fg_qr_product(&q->qr, two, one, fg_turn(t), n, b, b, 0);
            fg_qr_product(&q->qr, fg_turn(part), two, fg_turn(at), n, rows, b, 1);
        } else {
            fg_qr_product(&q->qr, one, fg_turn(at), part, b, n, rows, 0);
            fg_qr_product(&q->qr, two, t, one, b, n, b, 0);
            fg_qr_product(&q->qr, part, at, two, rows, n, b, 1);
        }
    }
}

#define FG_TWO_NONE 1e-60
#define T float
#define N(name) name##_f32
#define G(name) gemm_f32_##name
#include "lapack_two.h"
#undef T
#undef N
#undef G
#undef FG_TWO_NONE
#define FG_TWO_NONE 1e-290
#define T double
#define N(name) name##_f64
#define G(name) gemm_f64_##name
#include "lapack_two.h"
#undef T
#undef N
#undef G
#undef FG_TWO_NONE

/* Small ones of a batch have LAPACK's calls in one room (fg_svd_small), bit for bit those of one matrix. */
static int fg_svd_fits(const FgLaJob *j) {
    return GEMM_WIDE && j->t < 2 && j->one == fg_one_svd && fg_least(j->m, j->n) >= FG_SVD_LEAST && (j->m > FG_SVD_SMALL || j->n > FG_SVD_SMALL);
}

/* Places in the room of one matrix; returns its size. */
static int64_t fg_svd_room(FgSvd *q, const FgLaJob *j, char *room) {
    const int64_t n = fg_least(j->m, j->n), m = j->m > j->n ? j->m : j->n, ld = (n + 15) / 16 * 16, lm = (m + 15) / 16 * 16, item = j->item, B = FG_QR_BLOCK;
    const int with = j->ip[0] != 0;
    const int64_t a = m * ld * item, left = with ? n * lm * item : 0, d = (12 * ld + 5 * lm) * item, z = with ? (n * n * item + 63) / 64 * 64 : 0;
    const int64_t vectors = with ? 4 * n * n + 8 * n : 8 * n, turn = with ? 2 * B * m : 0;
    const int64_t work = ((vectors > turn ? vectors : turn) * item + 63) / 64 * 64, ints = (6 * n * 4 + 63) / 64 * 64;
    if (!room) return a + left + d + 2 * z + work + ints + 3 * B * B * item;
    q->m = (int)m;
    q->n = (int)n;
    q->ld = ld;
    q->lm = lm;
    q->a = room; q->left = q->a + a; q->d = q->left + left; q->u = q->d + d; q->vh = q->u + z; q->work = q->vh + z;
    q->ints = (int *)(q->work + work); q->order = q->ints + 4 * n;
    q->qr.w = q->w;
    fg_qr_squares(&q->qr, q->work + work + ints, item);
    return 0;
}

/* Matrices [begin, end) of a batch; what is not finite, or far from 1, goes to LAPACK. */
static void fg_svd_range(void *ctx, int64_t begin, int64_t end, int tid) {
    FgQrJob *job = (FgQrJob *)ctx;
    FgLaJob *j = (FgLaJob *)job->job;
    FgTeam team = job->team;
    const int with = j->ip[0] != 0, wide = j->m < j->n;
    char *p[FG_LA_MAXARGS] = {0};
    for (int64_t i = begin; i < end; i++) {
        int failed = 0, done = 0;
        FgSvd q = {.w = &team, .failed = &failed};
        fg_svd_room(&q, j, job->rooms + tid * job->room);
        const int count = j->ip[0] == 2 ? q.m : q.n;
        fg_la_operands(j, i, p);
        if (fg_la_finite(j, p[0])) {
            if (j->t) done = two_matrix_f64(&q, (const double *)p[0], wide, (double *)p[1], with ? (double *)p[2] : NULL, (double *)p[3], count);
            else done = two_matrix_f32(&q, (const float *)p[0], wide, (float *)p[1], with ? (float *)p[2] : NULL, (float *)p[3], count);
        }
        if (!done) fg_la_range(j, i, i + 1, tid);
    }
    if (team.failed) j->out_of_memory = 1;
}
#endif
