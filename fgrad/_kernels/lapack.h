/* Factorizations by LAPACK, one matrix of a batch after another.  Every operand is (*batch, core axes), contiguous, row-major.
 *
 * The routines are LAPACKE's, which transpose to LAPACK's column-major order where they must and bring their own workspace.  Where a
 * routine reports that it failed, the matrix's results are NaN; the rest of the batch is not touched by it. */
#ifndef FG_LAPACK_H
#define FG_LAPACK_H
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include "fail.h"
#include "vec.h"
#include "vec_order.h"

enum { FG_ROWS = 101, FG_COLUMNS = 102, FG_LA_MAXARGS = 8 };
enum { FG_POTRF, FG_GETRF, FG_GEQRF, FG_GEQP3, FG_ORGQR, FG_EVD, FG_GESDD, FG_GESDD_WORK, FG_GEEV, FG_GEES, FG_GEHRD, FG_TRD, FG_GTSV, FG_TRSM, FG_STEQR, FG_LAED1, FG_LAED2, FG_LAED3, FG_LAED4, FG_LAMRG, FG_STERF, FG_LARTG, FG_LASQ1, FG_LASDQ, FG_LASD1, FG_LASD2, FG_LASD3, FG_LASD4, FG_NLAPACK };
static void *fg_lapack[FG_NLAPACK][4];          /* by routine and type: float32, float64, complex64, complex128 */

typedef int (*FgFactor)(int, char, int, void *, int);                               /* potrf: layout, uplo, n, a, lda */
typedef int (*FgPivoted)(int, int, int, void *, int, int *);                        /* getrf: layout, m, n, a, lda, ipiv */
typedef int (*FgReflect)(int, int, int, void *, int, void *);                       /* geqrf: layout, m, n, a, lda, tau */
typedef int (*FgReflectPivoted)(int, int, int, void *, int, int *, void *);         /* geqp3: ..., jpvt, tau */
typedef int (*FgReflectors)(int, int, int, int, void *, int, const void *);         /* orgqr: layout, m, n, k, a, lda, tau */
typedef int (*FgSymmetric)(int, char, char, int, void *, int, void *);              /* syevd: layout, jobz, uplo, n, a, lda, w */
typedef int (*FgSingular)(int, char, int, int, void *, int, void *, void *, int, void *, int);     /* gesdd: ..., s, u, ldu, vt, ldvt */
typedef int (*FgSingularWork)(int, char, int, int, void *, int, void *, void *, int, void *, int, void *, int, int *);      /* ..., work, lwork, iwork */
typedef int (*FgEigenReal)(int, char, char, int, void *, int, void *, void *, void *, int, void *, int);
typedef int (*FgEigenComplex)(int, char, char, int, void *, int, void *, void *, int, void *, int);
typedef int (*FgSchurReal)(int, char, char, void *, int, void *, int, int *, void *, void *, void *, int);
typedef int (*FgSchurComplex)(int, char, char, void *, int, void *, int, int *, void *, void *, int);
typedef int (*FgHessenberg)(int, int, int, int, void *, int, void *);               /* gehrd: layout, n, ilo, ihi, a, lda, tau */
typedef int (*FgTridiagonal)(int, char, int, void *, int, void *, void *, void *);  /* sytrd: layout, uplo, n, a, lda, d, e, tau */
typedef int (*FgThreeBands)(int, int, int, void *, void *, void *, void *, int);    /* gtsv: layout, n, nrhs, dl, d, du, b, ldb */
typedef void (*FgTrsmReal32)(int, int, int, int, int, int, int, float, const void *, int, void *, int);
typedef void (*FgTrsmReal64)(int, int, int, int, int, int, int, double, const void *, int, void *, int);
typedef void (*FgTrsmComplex)(int, int, int, int, int, int, int, const void *, const void *, int, void *, int);

typedef struct FgLaJob FgLaJob;
typedef int (*FgLaOne)(const FgLaJob *j, char **p);          /* one matrix; p: its part of every argument; nonzero: LAPACK's info */
struct FgLaJob {
    FgLaOne one;
    const int64_t *ip;
    int t, n_in, n_args, m, n;                               /* type; shape of the first argument's matrices */
    FgTensor *arg[FG_LA_MAXARGS];
    int64_t bytes[FG_LA_MAXARGS];                            /* of one matrix's part */
    int64_t item, batch;
    _Atomic int out_of_memory;
};

static inline int fg_la_type(int dtype) {
    return dtype == FG_F32 ? 0 : dtype == FG_F64 ? 1 : dtype == FG_C64 ? 2 : dtype == FG_C128 ? 3 : -1;
}
static inline int fg_la_real(int dtype) { return dtype == FG_C64 ? FG_F32 : dtype == FG_C128 ? FG_F64 : dtype; }
static inline int fg_la_complex(int dtype) { return dtype == FG_F32 ? FG_C64 : dtype == FG_F64 ? FG_C128 : dtype; }
static inline int fg_least(int a, int b) { return a < b ? a : b; }

static void fg_la_nan(const FgTensor *t, char *data, int64_t bytes) {
    int wide = t->dtype == FG_F64 || t->dtype == FG_C128;
    if (t->dtype < FG_F32) { memset(data, 0, (size_t)bytes); return; }
    if (wide) for (int64_t i = 0; i < bytes / 8; i++) ((double *)data)[i] = NAN;
    else for (int64_t i = 0; i < bytes / 4; i++) ((float *)data)[i] = NAN;
}

/* Where the operands and results of matrix i of a batch lie. */
static inline void fg_la_operands(const FgLaJob *j, int64_t i, char **p) {
    for (int k = 0; k < j->n_args; k++) p[k] = j->arg[k]->data + i * j->bytes[k];
}

static void fg_la_range(void *ctx, int64_t begin, int64_t end, int tid) {
    FgLaJob *j = (FgLaJob *)ctx;
    char *p[FG_LA_MAXARGS];
    for (int64_t i = begin; i < end; i++) {
        fg_la_operands(j, i, p);
        int info = j->one(j, p);
        if (info == -1010 || info == -1011) j->out_of_memory = 1;            /* LAPACKE found no workspace */
        if (info) for (int k = j->n_in; k < j->n_args; k++) fg_la_nan(j->arg[k], p[k], j->bytes[k]);
    }
}

/* Scratch of one matrix: `bytes` with the matrix `from` at its front (NULL: none). */
static char *fg_la_scratch(int64_t bytes, const char *from, int64_t size) {
    char *s = (char *)malloc(bytes > 0 ? (size_t)bytes : 1);
    if (s && from) memcpy(s, from, (size_t)size);
    return s;
}

/* --- square arrays of vectors, and matrices of middle size -------------------------------------------------------------------- */

enum { FG_PANEL = 16, FG_LEAF = 64, FG_BLOCKS_LEAST = 24, FG_BLOCKS_MOST = 400 };      /* columns of a panel; systems and unknowns of a block; rows and columns that panels serve */
/* Batches whose eigenvectors are found here: of so many matrices (few keep the signs that LAPACK's rounding gives float32), each of at most so
 * many rows (LAPACK takes rotations for them as well). */
enum { FG_QL_LEAST = 32, FG_QL_MOST = 24 };
#define FG_QL_EPS_f32 (FLT_EPSILON / 2)
#define FG_QL_EPS_f64 (DBL_EPSILON / 2)
#define FG_QL_LITTLE_f32 1e-15f                               /* largest elements that LAPACK does not scale */
#define FG_QL_LITTLE_f64 1e-120
#define FG_QL_MUCH_f32 1e15f
#define FG_QL_MUCH_f64 1e145
#ifdef __clang__
#define FG_LANES_UNROLL _Pragma("unroll")
#else
#define FG_LANES_UNROLL _Pragma("GCC unroll 16")
#endif
#define T float
#define N(name) name##_f32
#include "lapack_square.h"
#include "lapack_blocks.h"
#include "lapack_ql.h"
#undef T
#undef N
#define T double
#define N(name) name##_f64
#include "lapack_square.h"
#include "lapack_blocks.h"
#include "lapack_ql.h"
#undef T
#undef N

/* Room for two panels of a matrix that is worth it, of a real type; *ld: elements of a column. */
static void *fg_blocks_room(const FgLaJob *j, int64_t *ld) {
    const int most = j->m > j->n ? j->m : j->n;
    void *p = NULL;
    *ld = ((most + 31) & ~31) + 32;                           /* tiles read beyond the edge */
    if (j->t > 1 || most > FG_BLOCKS_MOST || fg_least(j->m, j->n) < FG_BLOCKS_LEAST) return NULL;
    return posix_memalign(&p, 64, (size_t)(2 * FG_PANEL * *ld * j->item)) ? NULL : p;
}

/* --- what is done to one matrix ------------------------------------------------------------------------------------------ */

static int fg_one_cholesky(const FgLaJob *j, char **p) {
    int n = j->n;
    int64_t ld;
    void *space = fg_blocks_room(j, &ld);
    memcpy(p[1], p[0], (size_t)j->bytes[0]);
    int done = space && !(j->t == 0 ? blocks_cholesky_f32((float *)p[1], n, n, (float *)space, ld)
                                    : blocks_cholesky_f64((double *)p[1], n, n, (double *)space, ld));
    free(space);
    if (space && !done) memcpy(p[1], p[0], (size_t)j->bytes[0]);              /* LAPACK says how it fails */
    /* The lower triangle by rows is the upper one by columns, of the conjugate: U = L^T in the same memory. */
    int info = done ? 0 : ((FgFactor)fg_lapack[FG_POTRF][j->t])(FG_COLUMNS, 'U', n, p[1], n);
    if (info) fg_la_nan(j->arg[1], p[1], j->bytes[1]);
    for (int r = 0; r < n; r++) memset(p[1] + ((int64_t)r * n + r + 1) * j->item, 0, (size_t)((n - r - 1) * j->item));
    return 0;
}

static void fg_permutation(const int *pivots, int k, int *perm, int m) {
    for (int i = 0; i < m; i++) perm[i] = i;
    for (int i = 0; i < k; i++) {
        int with = pivots[i];
        if (with < 0 || with >= m) continue;
        int swap = perm[i]; perm[i] = perm[with]; perm[with] = swap;
    }
}

static int fg_one_lu(const FgLaJob *j, char **p) {
    int k = fg_least(j->m, j->n), *pivots = (int *)p[2];
    memcpy(p[1], p[0], (size_t)j->bytes[0]);
    const int64_t size = (int64_t)j->m * j->n;
    int64_t ld;
    void *space = fg_blocks_room(j, &ld);
    if (space && (j->t == 0 ? blocks_finite_f32((float *)p[0], size) : blocks_finite_f64((double *)p[0], size))) {
        if (j->t == 0) blocks_lu_f32((float *)p[1], j->n, j->m, j->n, pivots, (float *)space, ld);
        else blocks_lu_f64((double *)p[1], j->n, j->m, j->n, pivots, (double *)space, ld);
        free(space);
        fg_permutation(pivots, k, (int *)p[3], j->m);
        return 0;
    }
    free(space);
    int info = ((FgPivoted)fg_lapack[FG_GETRF][j->t])(FG_ROWS, j->m, j->n, p[1], j->n, pivots);
    for (int i = 0; i < k; i++) pivots[i]--;
    fg_permutation(pivots, k, (int *)p[3], j->m);
    return info < 0 ? info : 0;                              /* a zero on U's diagonal is no failure */
}

static int fg_one_permutation(const FgLaJob *j, char **p) {
    fg_permutation((const int *)p[0], j->n, (int *)p[1], (int)(j->bytes[1] / 4));
    return 0;
}

static int fg_one_geqrf(const FgLaJob *j, char **p) {
    memcpy(p[1], p[0], (size_t)j->bytes[0]);
    return ((FgReflect)fg_lapack[FG_GEQRF][j->t])(FG_ROWS, j->m, j->n, p[1], j->n, p[2]);
}

static int fg_one_geqp3(const FgLaJob *j, char **p) {
    int *pivots = (int *)p[2];
    memcpy(p[1], p[0], (size_t)j->bytes[0]);
    memset(pivots, 0, (size_t)j->bytes[2]);
    int info = ((FgReflectPivoted)fg_lapack[FG_GEQP3][j->t])(FG_ROWS, j->m, j->n, p[1], j->n, pivots, p[3]);
    for (int i = 0; i < j->n; i++) pivots[i] = info ? i : pivots[i] - 1;
    if (info) { fg_la_nan(j->arg[1], p[1], j->bytes[1]); fg_la_nan(j->arg[3], p[3], j->bytes[3]); }
    return 0;
}

static int fg_one_reflectors(const FgLaJob *j, char **p) {
    memcpy(p[2], p[0], (size_t)j->bytes[0]);
    return ((FgReflectors)fg_lapack[FG_ORGQR][j->t])(FG_ROWS, j->m, j->n, (int)(j->bytes[1] / j->item), p[2], j->n, p[1]);
}

static int fg_one_eigh(const FgLaJob *j, char **p) {
    const int many = j->batch >= FG_QL_LEAST && j->n <= FG_QL_MOST && j->t < 2 && j->ip[0];
    if (many && (j->t == 0 ? ql_eigh_f32((float *)p[0], j->n, (float *)p[1], (float *)p[2])
                           : ql_eigh_f64((double *)p[0], j->n, (double *)p[1], (double *)p[2]))) return 0;
    memcpy(p[1], p[0], (size_t)j->bytes[0]);
    return ((FgSymmetric)fg_lapack[FG_EVD][j->t])(FG_ROWS, 'V', j->ip[0] ? 'L' : 'U', j->n, p[1], j->n, p[2]);
}

static int fg_one_eigvalsh(const FgLaJob *j, char **p) {
    char *a = fg_la_scratch(j->bytes[0], p[0], j->bytes[0]);
    if (!a) return -1010;
    int info = ((FgSymmetric)fg_lapack[FG_EVD][j->t])(FG_ROWS, 'N', j->ip[0] ? 'L' : 'U', j->n, a, j->n, p[1]);
    free(a);
    return info;
}

/* LAPACK's iterations over a matrix with an infinity may never end: what is not finite has no eigenvalues or singular values. */
static int fg_la_finite(const FgLaJob *j, const char *a) {
    int64_t size = j->bytes[0] / (j->t & 1 ? 8 : 4);
    return j->t & 1 ? blocks_finite_f64((const double *)a, size) : blocks_finite_f32((const float *)a, size);
}

/* to (columns, rows) = the transpose of from (rows, columns). */
static void fg_la_turn(char *to, const char *from, int rows, int columns, int64_t item) {
    for (int c = 0; c < columns; c++) for (int r = 0; r < rows; r++) {
        if (item == 4) ((float *)to)[c * rows + r] = ((const float *)from)[r * columns + c];
        else ((double *)to)[c * rows + r] = ((const double *)from)[r * columns + c];
    }
}
enum { FG_SVD_SMALL = 64 };
/* A small real matrix, with one room for all that LAPACKE asks and allocates one by one: u has nu columns, vh nv rows. */
static int fg_svd_small(const FgLaJob *j, char **p, char vectors, int nu, int nv) {
    const int m = j->m, n = j->n, k = fg_least(m, n), lwork = 4 * k * k + 8 * k + 64 * (m + n);     /* blocks of 32, and more than any way through takes */
    char *a = fg_la_scratch(((int64_t)m * n + m * nu + nv * n + lwork) * j->item + 8 * k * (int64_t)sizeof(int), NULL, 0);
    if (!a) return -1010;
    char *u = a + (int64_t)m * n * j->item, *vh = u + (int64_t)m * nu * j->item, *work = vh + (int64_t)nv * n * j->item;
    fg_la_turn(a, p[0], m, n, j->item);
    int info = ((FgSingularWork)fg_lapack[FG_GESDD_WORK][j->t])(FG_COLUMNS, vectors, m, n, a, m, p[1], u, m, vh, nv ? nv : 1, work, lwork,
                                                               (int *)(work + lwork * j->item));
    if (nu) fg_la_turn(p[2], u, nu, m, j->item);
    if (nv) fg_la_turn(p[3], vh, n, nv, j->item);
    free(a);
    return info;
}

/* ip[0]: 0 singular values only, 1 reduced, 2 full */
static int fg_one_svd(const FgLaJob *j, char **p) {
    int k = fg_least(j->m, j->n), full = j->ip[0] == 2, vectors = j->ip[0] != 0;
    const char job = full ? 'A' : vectors ? 'S' : 'N';
    if (!fg_la_finite(j, p[0])) return -4;
    if (j->t < 2 && j->m <= FG_SVD_SMALL && j->n <= FG_SVD_SMALL)
        return fg_svd_small(j, p, job, full ? j->m : vectors ? k : 0, full ? j->n : vectors ? k : 0);
    char *a = fg_la_scratch(j->bytes[0], p[0], j->bytes[0]);
    if (!a) return -1010;
    int info = ((FgSingular)fg_lapack[FG_GESDD][j->t])(FG_ROWS, job, j->m, j->n, a, j->n, p[1],
                                                       vectors ? p[2] : NULL, full ? j->m : k, vectors ? p[3] : NULL, j->n);
    free(a);
    return info;
}

/* LAPACK stores the vectors of a conjugate pair of eigenvalues as real part, imaginary part. */
#define FG_UNPACK(T) \
static void fg_unpack_##T(int n, const T *wr, const T *wi, const T *v, T *w, T *out) { \
    for (int c = 0; c < n; c++) { \
        w[2 * c] = wr[c]; w[2 * c + 1] = wi[c]; \
        if (!out) continue; \
        int first = wi[c] > 0 && c + 1 < n, second = wi[c] < 0 && c > 0; \
        for (int r = 0; r < n; r++) { \
            const T *row = v + (int64_t)r * n; T *o = out + 2 * ((int64_t)r * n + c); \
            o[0] = row[second ? c - 1 : c]; \
            o[1] = first ? row[c + 1] : second ? -row[c] : 0; \
        } \
    } \
}
FG_UNPACK(float)
FG_UNPACK(double)

/* ip: left, right */
static int fg_one_eig(const FgLaJob *j, char **p) {
    int n = j->n, left = j->ip[0] != 0, right = j->ip[1] != 0;
    char *out_left = left ? p[2] : NULL, *out_right = right ? p[2 + left] : NULL;
    int64_t size = j->bytes[0], vec = n * j->item;
    if (!fg_la_finite(j, p[0])) return -4;
    char *a = fg_la_scratch(3 * size + 2 * vec, p[0], size);
    if (!a) return -1010;
    char *vl = a + size, *vr = vl + size, *wr = vr + size, *wi = wr + vec;
    int info;
    if (j->t >= 2)
        info = ((FgEigenComplex)fg_lapack[FG_GEEV][j->t])(FG_ROWS, left ? 'V' : 'N', right ? 'V' : 'N', n, a, n, p[1], out_left, n,
                                                          out_right, n);
    else {
        info = ((FgEigenReal)fg_lapack[FG_GEEV][j->t])(FG_ROWS, left ? 'V' : 'N', right ? 'V' : 'N', n, a, n, wr, wi, vl, n, vr, n);
        if (!info && j->t == 0) {
            fg_unpack_float(n, (float *)wr, (float *)wi, (float *)vl, (float *)p[1], (float *)out_left);
            if (right) fg_unpack_float(n, (float *)wr, (float *)wi, (float *)vr, (float *)p[1], (float *)out_right);
        } else if (!info) {
            fg_unpack_double(n, (double *)wr, (double *)wi, (double *)vl, (double *)p[1], (double *)out_left);
            if (right) fg_unpack_double(n, (double *)wr, (double *)wi, (double *)vr, (double *)p[1], (double *)out_right);
        }
    }
    free(a);
    return info;
}

/* ip[0]: whether the vectors are wanted */
static int fg_one_schur(const FgLaJob *j, char **p) {
    int n = j->n, found = 0, info;
    char job = j->ip[0] ? 'V' : 'N', *vs = j->ip[0] ? p[2] : NULL;
    if (!fg_la_finite(j, p[0])) return -4;
    char *w = fg_la_scratch(2 * n * j->item, NULL, 0);
    if (!w) return -1010;
    memcpy(p[1], p[0], (size_t)j->bytes[0]);
    if (j->t >= 2) info = ((FgSchurComplex)fg_lapack[FG_GEES][j->t])(FG_ROWS, job, 'N', NULL, n, p[1], n, &found, w, vs, n);
    else info = ((FgSchurReal)fg_lapack[FG_GEES][j->t])(FG_ROWS, job, 'N', NULL, n, p[1], n, &found, w, w + n * j->item, vs, n);
    free(w);
    return info;
}

static int fg_one_hessenberg(const FgLaJob *j, char **p) {
    memcpy(p[1], p[0], (size_t)j->bytes[0]);
    return ((FgHessenberg)fg_lapack[FG_GEHRD][j->t])(FG_ROWS, j->n, 1, j->n, p[1], j->n, p[2]);
}

static int fg_one_tridiagonal(const FgLaJob *j, char **p) {
    memcpy(p[1], p[0], (size_t)j->bytes[0]);
    return ((FgTridiagonal)fg_lapack[FG_TRD][j->t])(FG_ROWS, j->ip[0] ? 'L' : 'U', j->n, p[1], j->n, p[2], p[3], p[4]);
}

static int fg_one_tridiagonal_solve(const FgLaJob *j, char **p) {
    int m = (int)(j->bytes[0] / j->item), k = (int)(j->bytes[3] / j->bytes[0]);
    int64_t band = j->bytes[0];
    char *bands = fg_la_scratch(3 * band, NULL, 0);
    if (!bands) return -1010;
    memcpy(bands, p[0] + j->item, (size_t)(band - j->item));
    memcpy(bands + band, p[1], (size_t)band);
    memcpy(bands + 2 * band, p[2], (size_t)band);
    memcpy(p[4], p[3], (size_t)j->bytes[3]);
    int info = ((FgThreeBands)fg_lapack[FG_GTSV][j->t])(FG_ROWS, m, k, bands, bands + band, bands + 2 * band, p[4], k);
    free(bands);
    return info;
}

/* --- triangular systems: BLAS, and the right-hand sides are shared among threads ------------------------------------------- */

enum { FG_TRSM_CHUNK = 64 };
typedef struct { const FgInst *inst; char *a, *b; int t, m, n, k; int64_t chunks, item, batch; _Atomic int out_of_memory; } FgTrsmJob;

/* ip: left, lower, transpose (0 no, 1 yes, 2 with conjugation), unit diagonal; b (m, n), a (k, k) */
static void fg_trsm_range(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgTrsmJob *j = (const FgTrsmJob *)ctx;
    const int64_t *ip = j->inst->ip;
    int side = ip[0] ? 141 : 142, uplo = ip[1] ? 122 : 121, trans = 111 + (int)ip[2], diag = ip[3] ? 132 : 131;
    int sides = ip[0] ? j->n : j->m;
    static const float one32[2] = {1, 0};
    static const double one64[2] = {1, 0};
    for (int64_t u = begin; u < end; u++) {
        int from = (int)(u % j->chunks) * FG_TRSM_CHUNK, count = fg_least(FG_TRSM_CHUNK, sides - from);
        char *a = j->a + u / j->chunks * j->k * j->k * j->item, *b = j->b + u / j->chunks * j->m * j->n * j->item;
        int m = ip[0] ? j->m : count, n = ip[0] ? count : j->n;
        b += (ip[0] ? from : (int64_t)from * j->n) * j->item;
        void *f = fg_lapack[FG_TRSM][j->t];
        if (j->t == 0) ((FgTrsmReal32)f)(FG_ROWS, side, uplo, trans, diag, m, n, 1, a, j->k, b, j->n);
        else if (j->t == 1) ((FgTrsmReal64)f)(FG_ROWS, side, uplo, trans, diag, m, n, 1, a, j->k, b, j->n);
        else ((FgTrsmComplex)f)(FG_ROWS, side, uplo, trans, diag, m, n, j->t == 2 ? (void *)one32 : (void *)one64, a, j->k, b, j->n);
    }
}

/* --- small matrices: a tile has a matrix in each lane of a vector ------------------------------------------------------------ */

enum { FG_LANES_MOST = 32, FG_LANES_LEAST = 4 };         /* rows and columns at most; matrices of a batch at least */
enum { FG_JACOBI_MOST = 16, FG_JACOBI_SWEEPS = 24 };     /* rows or columns, whichever are fewer, where rotations pay */
#define FG_JACOBI_EPS_f32 1.1920929e-7f
#define FG_JACOBI_EPS_f64 2.220446049250313e-16
#define FG_JACOBI_LITTLE_f32 1e-8f                       /* largest elements whose squares, and those of what is left beside them, stay in range */
#define FG_JACOBI_LITTLE_f64 1e-120
#define FG_JACOBI_MUCH_f32 1e16f
#define FG_JACOBI_MUCH_f64 1e150
#define FG_LANES_ABS_f32 0x7fffffff
#define FG_LANES_ABS_f64 0x7fffffffffffffff
#define FG_LANES_LITTLE_f32 1e-30f                       /* squares of numbers that lose no digits, and do not overflow */
#define FG_LANES_LITTLE_f64 1e-280
#define FG_LANES_MUCH_f32 1e37f
#define FG_LANES_MUCH_f64 1e300
#define T float
#define N(name) name##_f32
#include "lapack_lanes.h"
#include "lapack_jacobi.h"
#undef T
#undef N
#define T double
#define N(name) name##_f64
#include "lapack_lanes.h"
#include "lapack_jacobi.h"
#undef T
#undef N

static int fg_lanes_of(int t) { return t == 0 ? VEC_LANES_OF_f32 : VEC_LANES_OF_f64; }
static int fg_lanes_fit(int t, int64_t batch, int m, int n) {
    return t < 2 && batch >= FG_LANES_LEAST && m <= FG_LANES_MOST && n <= FG_LANES_MOST;
}
static int fg_in_lanes(const FgLaJob *j) {
    const int factors = j->one == fg_one_cholesky || j->one == fg_one_lu || j->one == fg_one_geqrf || j->one == fg_one_reflectors;
    const int values = j->one == fg_one_eigvalsh || (j->one == fg_one_svd && j->ip[0] == 0);
    return (factors || (values && fg_least(j->m, j->n) <= FG_JACOBI_MOST)) && fg_lanes_fit(j->t, j->batch, j->m, j->n);
}
static void *fg_lanes_room(int64_t vectors) {
    void *p = NULL;
    return posix_memalign(&p, 64, (size_t)vectors * FG_VEC) ? NULL : p;
}

static void fg_lanes_range(void *ctx, int64_t begin, int64_t end, int tid) {
    FgLaJob *j = (FgLaJob *)ctx;
    void *x = fg_lanes_room((int64_t)j->m * j->n);
    int redo[VEC_LANES_OF_f32] = {0};
    const int64_t lanes = fg_lanes_of(j->t);
    if (!x) { j->out_of_memory = 1; return; }
    for (int64_t u = begin; u < end; u++) {
        const int64_t first = u * lanes;
        const int count = (int)(j->batch - first < lanes ? j->batch - first : lanes);
        if (j->t == 0) lanes_factor_f32(j, first, count, (vec_f32 *)x, redo); else lanes_factor_f64(j, first, count, (vec_f64 *)x, redo);
        for (int l = 0; l < count; l++) if (redo[l]) fg_la_range(ctx, first + l, first + l + 1, tid);
    }
    free(x);
}

static void fg_lanes_triangles(void *ctx, int64_t begin, int64_t end, int tid) {
    FgTrsmJob *j = (FgTrsmJob *)ctx;
    void *x = fg_lanes_room((int64_t)j->k * j->k + (int64_t)j->m * j->n);
    const int64_t lanes = fg_lanes_of(j->t);
    if (!x) { j->out_of_memory = 1; return; }
    for (int64_t u = begin; u < end; u++) {
        const int64_t first = u * lanes;
        const int count = (int)(j->batch - first < lanes ? j->batch - first : lanes);
        if (j->t == 0) lanes_triangle_f32(j, first, count, (vec_f32 *)x); else lanes_triangle_f64(j, first, count, (vec_f64 *)x);
    }
    free(x);
}

/* --- checks -------------------------------------------------------------------------------------------------------------- */

/* Counts, and first argument: (*batch, m, n) of an inexact dtype (core 2), or (*batch, n) (core 1). */
static int fg_la_begin(const FgInst *inst, const FgTensor *slots, char *msg, const char *name, int n_in, int n_out, int n_ip, int core) {
    if (inst->n_in != n_in || inst->n_out != n_out || inst->n_ip != n_ip)
        return fg_fail(msg, "%s: got %d inputs, %d outputs, %d integers; expected %d, %d, %d", name, inst->n_in, inst->n_out, inst->n_ip,
                       n_in, n_out, n_ip);
    const FgTensor *x = FG_IN(inst, slots, 0);
    if (x->ndim < core) return fg_fail(msg, "%s: x of shape %s has fewer than %d axes", name, fg_shape_text(x), core);
    for (int i = 0; i < n_in + n_out; i++) {
        const FgTensor *t = &slots[inst->args[i]];
        if (!fg_is_contiguous(t)) return fg_fail(msg, "%s: argument %d of shape %s must be contiguous", name, i, fg_shape_text(t));
        int64_t size = 1;
        for (int d = t->ndim < 2 ? 0 : t->ndim - 2; d < t->ndim; d++) size *= t->shape[d] > INT_MAX ? (int64_t)INT_MAX + 1 : t->shape[d];
        if (size > INT_MAX) return fg_fail(msg, "%s: matrices of shape %s have more than 2^31 - 1 elements", name, fg_shape_text(t));
    }
    return 0;
}

static int fg_la_inexact(char *msg, const char *name, const FgTensor *x) {
    if (fg_la_type(x->dtype) >= 0) return 0;
    return fg_fail(msg, "%s: x is %s, expected float32, float64, complex64 or complex128", name, fg_dtype_name(x->dtype));
}

/* Argument t is (*batch of x, d0[, d1]) of `dtype`; core: how many of x's axes are no batch. */
static int fg_la_fits(char *msg, const char *name, const FgTensor *x, int core, const FgTensor *t, int dtype, int nd, int64_t d0, int64_t d1) {
    int batch = x->ndim - core, fits = t->dtype == dtype && t->ndim == batch + nd;
    for (int d = 0; fits && d < batch; d++) fits = t->shape[d] == x->shape[d];
    if (fits) fits = t->shape[batch] == d0 && (nd < 2 || t->shape[batch + 1] == d1);
    if (fits) return 0;
    return fg_fail(msg, "%s: beside x of shape %s, an argument is %s%s; expected %s with last axes (%lld, %lld)", name, fg_shape_text(x),
                   fg_dtype_name(t->dtype), fg_shape_text(t), fg_dtype_name(dtype), (long long)d0, (long long)(nd < 2 ? 0 : d1));
}

static int fg_la_square(char *msg, const char *name, const FgTensor *x) {
    if (x->shape[x->ndim - 1] == x->shape[x->ndim - 2]) return 0;
    return fg_fail(msg, "%s: x of shape %s must have square matrices", name, fg_shape_text(x));
}
#endif
