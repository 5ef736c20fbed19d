/* Eigenvalues and eigenvectors of symmetric matrices of middle size by the way of LAPACK's syevd, and with its signs: reflectors make them
 * tridiagonal, a row at a time in one pass that changes it and multiplies it, divide and conquer solves what is left, its halves and its last join
 * on all threads, and blocks of reflectors by products turn the vectors back. */
#ifndef FG_LAPACK_EIGH_H
#define FG_LAPACK_EIGH_H
#include "lapack_qr.h"

enum { FG_EIGH_LEAST = 26, FG_THREE_LEAF = 25, FG_THREE_SECULAR = 32, FG_THREE_ALONE = 600000 };
                            /* rows; of a leaf at most; roots that we find; bytes that one thread goes over */
typedef void (*FgSteqr)(const char *, const int *, void *, void *, void *, const int *, void *, int *, size_t);      /* compz, n, d, e, z, ldz, work, info */
typedef void (*FgLaed1)(const int *, void *, void *, const int *, int *, void *, const int *, void *, int *, int *);    /* n, d, q, ldq, indxq, rho, cut, work, iwork, info */
typedef void (*FgLaed2)(int *, const int *, const int *, void *, void *, const int *, int *, void *, void *, void *, void *, void *, int *, int *, int *, int *, int *);
typedef void (*FgLaed3)(const int *, const int *, const int *, void *, void *, const int *, const void *, void *, void *, const int *, const int *, void *, void *, int *);
typedef void (*FgLaed4)(const int *, const int *, const void *, const void *, void *, const void *, void *, int *);      /* n, i, d, z, delta, rho, dlam, info */
typedef void (*FgLamrg)(const int *, const int *, const void *, const int *, const int *, int *);
typedef void (*FgSterf)(const int *, void *, void *, int *);                   /* n, d, e, info */

/* What one matrix of n rows takes: a its copy, d three diagonals of ld, z vectors, work and ints LAPACK's, order of the values. */
typedef struct {
    FgTeam *w;
    FgQr qr;
    int n, *failed, *order, *ints;
    int64_t ld;
    char *a, *d, *z, *work;
} FgEigh;

#define FG_THREE_NONE 1e-60
#define T float
#define N(name) name##_f32
#define G(name) gemm_f32_##name
#include "lapack_three.h"
#undef T
#undef N
#undef G
#undef FG_THREE_NONE
#define FG_THREE_NONE 1e-290
#define T double
#define N(name) name##_f64
#define G(name) gemm_f64_##name
#include "lapack_three.h"
#undef T
#undef N
#undef G

static int fg_eigh_fits(const FgLaJob *j) {
    return GEMM_WIDE && j->t < 2 && (j->one == fg_one_eigh || j->one == fg_one_eigvalsh) && j->n >= FG_EIGH_LEAST && j->ip[0];
}

/* Places in the room of one matrix; returns its size. */
static int64_t fg_eigh_room(FgEigh *q, const FgLaJob *j, char *room) {
    const int64_t n = j->n, ld = (n + 15) / 16 * 16, item = j->item, B = FG_QR_BLOCK;
    const int64_t a = n * ld * item, d = 10 * ld * item, z = (n * n * item + 63) / 64 * 64, more = 2 * n + 4 > 2 * B ? 2 * n + 4 : 2 * B;
    const int64_t work = (n * more * item + 63) / 64 * 64, ints = (5 * n * 4 + 63) / 64 * 64;
    if (!room) return a + d + z + work + ints + 3 * B * B * item;
    q->n = (int)n;
    q->ld = ld;
    q->a = room; q->d = q->a + a; q->z = q->d + d; q->work = q->z + z;
    q->ints = (int *)(q->work + work); q->order = q->ints + 4 * n;
    q->qr.w = q->w;
    fg_qr_squares(&q->qr, q->work + work + ints, item);
    return 0;
}

/* Matrices [begin, end) of a batch; what is not finite, or far from 1, goes to LAPACK. */
static void fg_eigh_range(void *ctx, int64_t begin, int64_t end, int tid) {
    FgQrJob *job = (FgQrJob *)ctx;
    FgLaJob *j = (FgLaJob *)job->job;
    FgTeam team = job->team;
    const int with = j->one == fg_one_eigh;
    char *p[FG_LA_MAXARGS];
    for (int64_t i = begin; i < end; i++) {
        int failed = 0, done = 0;
        FgEigh q = {.w = &team, .failed = &failed};
        fg_eigh_room(&q, j, job->rooms + tid * job->room);
        fg_la_operands(j, i, p);
        if (fg_la_finite(j, p[0])) {
            if (j->t) done = three_matrix_f64(&q, (const double *)p[0], with ? (double *)p[1] : NULL, (double *)p[1 + with]);
            else done = three_matrix_f32(&q, (const float *)p[0], with ? (float *)p[1] : NULL, (float *)p[1 + with]);
        }
        if (!done) fg_la_range(j, i, i + 1, tid);
    }
    if (team.failed) j->out_of_memory = 1;
}
#endif
