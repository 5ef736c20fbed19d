"""Factorizations and triangular systems of batches of matrices, by LAPACK and BLAS.  Types: float32, float64, complex64, complex128.

cholesky            x (*b, n, n), of which the lower triangle is read -> L; NaN where x is not positive definite
lu                  x (*b, m, n) -> L and U in one (*b, m, n), int32 pivots (*b, k), int32 permutation (*b, m); k = min(m, n)
lu_permutation      int32 pivots (*b, k) -> int32 permutation (*b, m), m >= k
geqrf               x (*b, m, n) -> R and reflectors (*b, m, n), taus (*b, k)
geqp3               x (*b, m, n) -> R and reflectors, int32 permutation of columns (*b, n), taus (*b, k)
householder         a (*b, m, n), m >= n, taus (*b, k), k <= n -> Q (*b, m, n)
eigh                x (*b, n, n) -> vectors (*b, n, n), real ascending values (*b, n); ip [lower]
eigvalsh            x (*b, n, n) -> values; ip [lower]
svd                 x (*b, m, n) -> s (*b, k); with ip[0] == 1 also u (*b, m, k), vh (*b, k, n); with 2 u (*b, m, m), vh (*b, n, n)
eig                 x (*b, n, n) -> complex values (*b, n), then left and right vectors (*b, n, n) as ip [left, right] tells
schur               x (*b, n, n) -> T (*b, n, n), and the vectors where ip[0]
hessenberg          x (*b, n, n) -> H and reflectors (*b, n, n), taus (*b, n - 1)
tridiagonal         x (*b, n, n) -> reflectors (*b, n, n), real d (*b, n), real e (*b, n - 1), taus (*b, n - 1); ip [lower]
tridiagonal_solve   dl, d, du (*b, m), rhs (*b, m, k) -> (*b, m, k); dl[0] and du[m - 1] are not read
triangular_solve    a (*b, k, k), rhs (*b, m, n) -> (*b, m, n); ip [left, lower, transpose (2: and conjugate), unit diagonal]
Matrices without elements give zeros.
"""
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from fgrad._kernels.abi cimport FG_EMEM, FG_I32, FG_IN, FG_OK, FG_OUT, FgInst, FgTensor, fg_itemsize
from fgrad._kernels.blas cimport blas_symbol
from fgrad._kernels.gemm cimport GemmJob, gemm_run
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport parallel_for, range_body, thread_count

cdef extern from "fail.h" nogil:
    int fg_fail(char *msg, const char *format, ...)
    const char *fg_shape_text(const FgTensor *t)

cdef extern from "lapack.h" nogil:
    enum:
        FG_POTRF, FG_GETRF, FG_GEQRF, FG_GEQP3, FG_ORGQR, FG_EVD, FG_GESDD, FG_GESDD_WORK, FG_GEEV, FG_GEES, FG_GEHRD, FG_TRD, FG_GTSV, FG_TRSM, FG_STEQR, FG_LAED1, FG_LAED2, FG_LAED3, FG_LAED4, FG_LAMRG, FG_STERF, FG_LARTG, FG_LASQ1, FG_LASDQ, FG_LASD1, FG_LASD2, FG_LASD3, FG_LASD4
        FG_TRSM_CHUNK
    void *fg_lapack[17][4]
    ctypedef int (*FgLaOne)(const FgLaJob *j, char **p)
    ctypedef struct FgLaJob:
        FgLaOne one
        const int64_t *ip
        int t, n_in, n_args, m, n
        FgTensor *arg[8]
        int64_t bytes[8]
        int64_t item, batch
        int out_of_memory
    ctypedef struct FgTrsmJob:
        const FgInst *inst
        char *a
        char *b
        int t, m, n, k
        int64_t chunks, item, batch
        int out_of_memory
    int fg_one_cholesky(const FgLaJob *j, char **p)
    int fg_one_lu(const FgLaJob *j, char **p)
    int fg_one_permutation(const FgLaJob *j, char **p)
    int fg_one_geqrf(const FgLaJob *j, char **p)
    int fg_one_geqp3(const FgLaJob *j, char **p)
    int fg_one_reflectors(const FgLaJob *j, char **p)
    int fg_one_eigh(const FgLaJob *j, char **p)
    int fg_one_eigvalsh(const FgLaJob *j, char **p)
    int fg_one_svd(const FgLaJob *j, char **p)
    int fg_one_eig(const FgLaJob *j, char **p)
    int fg_one_schur(const FgLaJob *j, char **p)
    int fg_one_hessenberg(const FgLaJob *j, char **p)
    int fg_one_tridiagonal(const FgLaJob *j, char **p)
    int fg_one_tridiagonal_solve(const FgLaJob *j, char **p)
    void fg_la_range(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_trsm_range(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_lanes_range(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_lanes_triangles(void *ctx, int64_t begin, int64_t end, int tid)
    int fg_lanes_of(int t)
    bint fg_in_lanes(const FgLaJob *j)
    bint fg_lanes_fit(int t, int64_t batch, int m, int n)
    int fg_la_type(int dtype)
    int fg_la_real(int dtype)
    int fg_la_complex(int dtype)
    int fg_la_begin(const FgInst *inst, const FgTensor *slots, char *msg, const char *name, int n_in, int n_out, int n_ip, int core)
    int fg_la_inexact(char *msg, const char *name, const FgTensor *x)
    int fg_la_fits(char *msg, const char *name, const FgTensor *x, int core, const FgTensor *t, int dtype, int nd, int64_t d0, int64_t d1)
    int fg_la_square(char *msg, const char *name, const FgTensor *x)

cdef extern from "lapack_large.h" nogil:
    enum:
        FG_LARGE_SIDES, FG_FEW_SIDES
    ctypedef struct FgTeam:
        int (*product)(GemmJob *job) noexcept nogil
        void (*each)(int64_t n, int64_t grain, range_body body, void *ctx) noexcept nogil
        int t, failed
        int64_t item
        char *scratch
    bint fg_is_large(int t, int n)
    bint fg_is_large_triangle(int t, int n, int64_t batch)
    int64_t fg_large_room(FgTeam *w, int64_t m, int64_t n)
    void fg_large_factors(FgTeam *w, const FgLaJob *j, int lu)
    void fg_large_triangles(FgTeam *w, const FgTrsmJob *j)
    void fg_few_sides_range(void *ctx, int64_t begin, int64_t end, int tid)

cdef extern from "lapack_qr.h" nogil:
    ctypedef struct FgQrJob:
        const FgLaJob *job
        FgTeam team
        char *rooms
        int64_t room
    ctypedef struct FgQr:
        pass
    int64_t fg_qr_room(FgQr *q, const FgLaJob *j, char *room)
    bint fg_qr_fits(const FgLaJob *j)
    void fg_qr_range(void *ctx, int64_t begin, int64_t end, int tid)

cdef extern from "lapack_eigh.h" nogil:
    ctypedef struct FgEigh:
        pass
    bint fg_eigh_fits(const FgLaJob *j)
    int64_t fg_eigh_room(FgEigh *q, const FgLaJob *j, char *room)
    void fg_eigh_range(void *ctx, int64_t begin, int64_t end, int tid)

cdef extern from "lapack_svd.h" nogil:
    ctypedef struct FgSvd:
        pass
    bint fg_svd_fits(const FgLaJob *j)
    int64_t fg_svd_room(FgSvd *q, const FgLaJob *j, char *room)
    void fg_svd_range(void *ctx, int64_t begin, int64_t end, int tid)


# --- running: large matrices on all threads ------------------------------------------------------------------------------------

cdef int large(const FgLaJob *factors, const FgTrsmJob *triangles, int64_t m, int64_t n) noexcept nogil:
    """The factorizations, or else the triangular systems, of matrices of at most m rows and n columns."""
    cdef FgTeam team
    cdef char *memory
    team.product, team.each, team.scratch = gemm_run, parallel_for, NULL
    if factors != NULL:
        team.t, team.item = factors.t, factors.item
    else:
        team.t, team.item = triangles.t, triangles.item
    memory = pool_alloc(fg_large_room(&team, m, n))
    if memory == NULL:
        return FG_EMEM
    team.scratch = memory
    fg_large_room(&team, m, n)
    if factors != NULL:
        fg_large_factors(&team, factors, factors.one == <FgLaOne>fg_one_lu)
    else:
        fg_large_triangles(&team, triangles)
    pool_free(memory)
    return FG_EMEM if team.failed or (factors != NULL and factors.out_of_memory) else FG_OK


cdef int in_rooms(FgLaJob *job, int64_t room, range_body body) noexcept nogil:
    """QR, the products of its reflectors, eigenvectors or singular vectors: a matrix on all threads, or as many at a time, each in a room of its own."""
    cdef FgQrJob qr
    cdef int threads = thread_count()
    qr.job, qr.room = job, room
    qr.rooms = pool_alloc(room * (1 if job.batch < threads else threads))
    if qr.rooms == NULL:
        return FG_EMEM
    qr.team.product, qr.team.each, qr.team.scratch = gemm_run, parallel_for, NULL
    qr.team.t, qr.team.item, qr.team.failed = job.t, job.item, 0
    if job.batch < threads:
        body(&qr, 0, job.batch, 0)
    else:
        parallel_for(job.batch, 1 + 4000 // (<int64_t>job.m * job.n + 1), body, &qr)
    pool_free(qr.rooms)
    return FG_EMEM if job.out_of_memory else FG_OK


# --- running: one matrix after another ---------------------------------------------------------------------------------------

cdef int run(const FgInst *inst, FgTensor *slots, FgLaOne one, int core) noexcept nogil:
    """`one` for every matrix of the batch, in parallel over the batch; core: axes of the first argument that are no batch."""
    cdef FgLaJob job
    cdef FgTensor *x = FG_IN(inst, slots, 0)
    cdef FgTensor *t
    cdef int64_t batch = 1, work
    cdef int d, k
    for d in range(x.ndim - core):
        batch *= x.shape[d]
    if x.size == 0:
        for k in range(inst.n_out):
            t = FG_OUT(inst, slots, k)
            memset(t.data, 0, t.size * fg_itemsize(t.dtype))
        return FG_OK
    job.one, job.ip, job.out_of_memory = one, inst.ip, 0
    job.t, job.n_in, job.n_args, job.item = fg_la_type(x.dtype), inst.n_in, inst.n_in + inst.n_out, fg_itemsize(x.dtype)
    job.n = <int>x.shape[x.ndim - 1]
    job.m = <int>x.shape[x.ndim - 2] if core == 2 else 1
    for k in range(job.n_args):
        t = &slots[inst.args[k]]
        job.arg[k], job.bytes[k] = t, t.size // batch * fg_itemsize(t.dtype)
    job.batch = batch
    work = <int64_t>job.m * job.n * (job.m if job.m < job.n else job.n)
    if fg_in_lanes(&job):
        parallel_for((batch - 1) // fg_lanes_of(job.t) + 1, 1 + 20000 // (4 * work + 1), fg_lanes_range, &job)
        return FG_EMEM if job.out_of_memory else FG_OK
    if (one == <FgLaOne>fg_one_cholesky or one == <FgLaOne>fg_one_lu) and fg_is_large(job.t, min(job.m, job.n)):
        return large(&job, NULL, job.m, job.n)
    if fg_qr_fits(&job):
        return in_rooms(&job, fg_qr_room(NULL, &job, NULL), fg_qr_range)
    if fg_eigh_fits(&job):
        return in_rooms(&job, fg_eigh_room(NULL, &job, NULL), fg_eigh_range)
    if fg_svd_fits(&job):
        return in_rooms(&job, fg_svd_room(NULL, &job, NULL), fg_svd_range)
    parallel_for(batch, 1 + 20000 // (4 * work + 100 if core == 2 else work + 1), fg_la_range, &job)     # a call of LAPACK is dear whatever the size
    return FG_EMEM if job.out_of_memory else FG_OK


cdef int cholesky_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, <FgLaOne>fg_one_cholesky, 2)

cdef int lu_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, <FgLaOne>fg_one_lu, 2)

cdef int lu_permutation_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, <FgLaOne>fg_one_permutation, 1)

cdef int geqrf_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, <FgLaOne>fg_one_geqrf, 2)

cdef int geqp3_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, <FgLaOne>fg_one_geqp3, 2)

cdef int householder_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, <FgLaOne>fg_one_reflectors, 2)

cdef int eigh_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, <FgLaOne>fg_one_eigh, 2)

cdef int eigvalsh_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, <FgLaOne>fg_one_eigvalsh, 2)

cdef int svd_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, <FgLaOne>fg_one_svd, 2)

cdef int eig_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, <FgLaOne>fg_one_eig, 2)

cdef int schur_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, <FgLaOne>fg_one_schur, 2)

cdef int hessenberg_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, <FgLaOne>fg_one_hessenberg, 2)

cdef int tridiagonal_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, <FgLaOne>fg_one_tridiagonal, 2)

cdef int tridiagonal_solve_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    if FG_OUT(inst, slots, 0).size == 0:
        return FG_OK
    return run(inst, slots, <FgLaOne>fg_one_tridiagonal_solve, 1)


cdef int triangular_solve_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgTrsmJob job
    cdef FgTensor *a = FG_IN(inst, slots, 0)
    cdef FgTensor *b = FG_IN(inst, slots, 1)
    cdef FgTensor *out = FG_OUT(inst, slots, 0)
    cdef int64_t batch, work
    if out.size == 0:
        return FG_OK
    memcpy(out.data, b.data, out.size * fg_itemsize(out.dtype))
    job.inst, job.a, job.b, job.t, job.item = inst, a.data, out.data, fg_la_type(a.dtype), fg_itemsize(a.dtype)
    job.k, job.m, job.n = <int>a.shape[a.ndim - 1], <int>b.shape[b.ndim - 2], <int>b.shape[b.ndim - 1]
    batch = out.size // job.m // job.n
    job.batch, job.out_of_memory = batch, 0
    if fg_lanes_fit(job.t, batch, job.m, job.n):
        parallel_for((batch - 1) // fg_lanes_of(job.t) + 1, 1 + 20000 // (4 * job.m * job.n * job.k + 1), fg_lanes_triangles, &job)
        return FG_EMEM if job.out_of_memory else FG_OK
    if job.t < 2 and (job.n if inst.ip[0] else job.m) <= FG_FEW_SIDES:
        parallel_for(batch, 1 + 20000 // (<int64_t>job.m * job.n * job.k // 8 + 1), fg_few_sides_range, &job)
        return FG_EMEM if job.out_of_memory else FG_OK
    if fg_is_large_triangle(job.t, job.k, batch) and (job.n if inst.ip[0] else job.m) >= FG_LARGE_SIDES:
        return large(NULL, &job, max(job.m, job.k), max(job.n, job.k))
    job.chunks = ((job.n if inst.ip[0] else job.m) + FG_TRSM_CHUNK - 1) // FG_TRSM_CHUNK
    work = <int64_t>job.m * job.n * job.k // job.chunks
    parallel_for(batch * job.chunks, 1 + 50000 // (work + 1), fg_trsm_range, &job)
    return FG_OK


# --- checks ------------------------------------------------------------------------------------------------------------------

cdef inline int64_t rows(const FgTensor *x) noexcept nogil:
    return x.shape[x.ndim - 2]

cdef inline int64_t columns(const FgTensor *x) noexcept nogil:
    return x.shape[x.ndim - 1]

cdef inline int64_t one_less(const FgTensor *x) noexcept nogil:
    """How many elements stand beside the diagonal."""
    return columns(x) - 1 if columns(x) > 0 else 0

cdef inline int64_t shorter(const FgTensor *x) noexcept nogil:
    return rows(x) if rows(x) < columns(x) else columns(x)

cdef int begin(const FgInst *inst, const FgTensor *slots, char *msg, const char *name, int n_in, int n_out, int n_ip,
               bint square) noexcept nogil:
    """Counts, layouts, and a first argument of matrices of an inexact dtype."""
    if fg_la_begin(inst, slots, msg, name, n_in, n_out, n_ip, 2) or fg_la_inexact(msg, name, FG_IN(inst, slots, 0)):
        return -1
    return fg_la_square(msg, name, FG_IN(inst, slots, 0)) if square else 0


cdef int cholesky_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    if begin(inst, slots, msg, b"cholesky", 1, 1, 0, True):
        return -1
    x = FG_IN(inst, slots, 0)
    return fg_la_fits(msg, b"cholesky", x, 2, FG_OUT(inst, slots, 0), x.dtype, 2, rows(x), columns(x))


cdef int lu_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    if begin(inst, slots, msg, b"lu", 1, 3, 0, False):
        return -1
    x = FG_IN(inst, slots, 0)
    if (fg_la_fits(msg, b"lu", x, 2, FG_OUT(inst, slots, 0), x.dtype, 2, rows(x), columns(x))
            or fg_la_fits(msg, b"lu", x, 2, FG_OUT(inst, slots, 1), FG_I32, 1, shorter(x), 0)):
        return -1
    return fg_la_fits(msg, b"lu", x, 2, FG_OUT(inst, slots, 2), FG_I32, 1, rows(x), 0)


cdef int lu_permutation_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *out
    if fg_la_begin(inst, slots, msg, b"lu_permutation", 1, 1, 0, 1):
        return -1
    x, out = FG_IN(inst, slots, 0), FG_OUT(inst, slots, 0)
    if x.dtype != FG_I32 or out.ndim < 1 or columns(out) < columns(x):
        return fg_fail(msg, "lu_permutation: pivots of shape %s (int32) do not fit a permutation of shape %s", fg_shape_text(x),
                       fg_shape_text(out))
    return fg_la_fits(msg, b"lu_permutation", x, 1, out, FG_I32, 1, columns(out), 0)


cdef int geqrf_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    if begin(inst, slots, msg, b"geqrf", 1, 2, 0, False):
        return -1
    x = FG_IN(inst, slots, 0)
    if fg_la_fits(msg, b"geqrf", x, 2, FG_OUT(inst, slots, 0), x.dtype, 2, rows(x), columns(x)):
        return -1
    return fg_la_fits(msg, b"geqrf", x, 2, FG_OUT(inst, slots, 1), x.dtype, 1, shorter(x), 0)


cdef int geqp3_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    if begin(inst, slots, msg, b"geqp3", 1, 3, 0, False):
        return -1
    x = FG_IN(inst, slots, 0)
    if (fg_la_fits(msg, b"geqp3", x, 2, FG_OUT(inst, slots, 0), x.dtype, 2, rows(x), columns(x))
            or fg_la_fits(msg, b"geqp3", x, 2, FG_OUT(inst, slots, 1), FG_I32, 1, columns(x), 0)):
        return -1
    return fg_la_fits(msg, b"geqp3", x, 2, FG_OUT(inst, slots, 2), x.dtype, 1, shorter(x), 0)


cdef int householder_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *taus
    if begin(inst, slots, msg, b"householder", 2, 1, 0, False):
        return -1
    x, taus = FG_IN(inst, slots, 0), FG_IN(inst, slots, 1)
    if taus.ndim < 1 or columns(taus) > columns(x) or columns(x) > rows(x):
        return fg_fail(msg, "householder: reflectors of shape %s and taus of shape %s do not fit", fg_shape_text(x), fg_shape_text(taus))
    if fg_la_fits(msg, b"householder", x, 2, taus, x.dtype, 1, columns(taus), 0):
        return -1
    return fg_la_fits(msg, b"householder", x, 2, FG_OUT(inst, slots, 0), x.dtype, 2, rows(x), columns(x))


cdef int eigh_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    if begin(inst, slots, msg, b"eigh", 1, 2, 1, True):
        return -1
    x = FG_IN(inst, slots, 0)
    if fg_la_fits(msg, b"eigh", x, 2, FG_OUT(inst, slots, 0), x.dtype, 2, rows(x), columns(x)):
        return -1
    return fg_la_fits(msg, b"eigh", x, 2, FG_OUT(inst, slots, 1), fg_la_real(x.dtype), 1, columns(x), 0)


cdef int eigvalsh_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    if begin(inst, slots, msg, b"eigvalsh", 1, 1, 1, True):
        return -1
    x = FG_IN(inst, slots, 0)
    return fg_la_fits(msg, b"eigvalsh", x, 2, FG_OUT(inst, slots, 0), fg_la_real(x.dtype), 1, columns(x), 0)


cdef int svd_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef bint full
    if inst.n_ip != 1 or inst.ip[0] < 0 or inst.ip[0] > 2:
        return fg_fail(msg, "svd: one integer expected: 0 values only, 1 reduced, 2 full")
    if begin(inst, slots, msg, b"svd", 1, 3 if inst.ip[0] else 1, 1, False):
        return -1
    x, full = FG_IN(inst, slots, 0), inst.ip[0] == 2
    if fg_la_fits(msg, b"svd", x, 2, FG_OUT(inst, slots, 0), fg_la_real(x.dtype), 1, shorter(x), 0):
        return -1
    if inst.ip[0] == 0:
        return 0
    if fg_la_fits(msg, b"svd", x, 2, FG_OUT(inst, slots, 1), x.dtype, 2, rows(x), rows(x) if full else shorter(x)):
        return -1
    return fg_la_fits(msg, b"svd", x, 2, FG_OUT(inst, slots, 2), x.dtype, 2, columns(x) if full else shorter(x), columns(x))


cdef int eig_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef int k, vectors
    if inst.n_ip != 2:
        return fg_fail(msg, "eig: two integers expected: left vectors, right vectors")
    vectors = (inst.ip[0] != 0) + (inst.ip[1] != 0)
    if begin(inst, slots, msg, b"eig", 1, 1 + vectors, 2, True):
        return -1
    x = FG_IN(inst, slots, 0)
    for k in range(vectors):
        if fg_la_fits(msg, b"eig", x, 2, FG_OUT(inst, slots, 1 + k), fg_la_complex(x.dtype), 2, rows(x), columns(x)):
            return -1
    return fg_la_fits(msg, b"eig", x, 2, FG_OUT(inst, slots, 0), fg_la_complex(x.dtype), 1, columns(x), 0)


cdef int schur_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef int k
    if inst.n_ip != 1:
        return fg_fail(msg, "schur: one integer expected: vectors")
    if begin(inst, slots, msg, b"schur", 1, 2 if inst.ip[0] else 1, 1, True):
        return -1
    x = FG_IN(inst, slots, 0)
    for k in range(inst.n_out):
        if fg_la_fits(msg, b"schur", x, 2, FG_OUT(inst, slots, k), x.dtype, 2, rows(x), columns(x)):
            return -1
    return 0


cdef int hessenberg_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    if begin(inst, slots, msg, b"hessenberg", 1, 2, 0, True):
        return -1
    x = FG_IN(inst, slots, 0)
    if fg_la_fits(msg, b"hessenberg", x, 2, FG_OUT(inst, slots, 0), x.dtype, 2, rows(x), columns(x)):
        return -1
    return fg_la_fits(msg, b"hessenberg", x, 2, FG_OUT(inst, slots, 1), x.dtype, 1, one_less(x), 0)


cdef int tridiagonal_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef int k
    if begin(inst, slots, msg, b"tridiagonal", 1, 4, 1, True):
        return -1
    x = FG_IN(inst, slots, 0)
    for k in range(1, 4):
        if fg_la_fits(msg, b"tridiagonal", x, 2, FG_OUT(inst, slots, k), x.dtype if k == 3 else fg_la_real(x.dtype), 1,
                      one_less(x) if k > 1 else columns(x), 0):
            return -1
    return fg_la_fits(msg, b"tridiagonal", x, 2, FG_OUT(inst, slots, 0), x.dtype, 2, rows(x), columns(x))


cdef int tridiagonal_solve_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *b
    cdef int k
    if fg_la_begin(inst, slots, msg, b"tridiagonal_solve", 4, 1, 0, 1) or fg_la_inexact(msg, b"tridiagonal_solve", FG_IN(inst, slots, 0)):
        return -1
    x, b = FG_IN(inst, slots, 0), FG_IN(inst, slots, 3)
    if b.ndim < 2:
        return fg_fail(msg, "tridiagonal_solve: right-hand sides of shape %s are no matrices", fg_shape_text(b))
    for k in range(1, 3):
        if fg_la_fits(msg, b"tridiagonal_solve", x, 1, FG_IN(inst, slots, k), x.dtype, 1, columns(x), 0):
            return -1
    if fg_la_fits(msg, b"tridiagonal_solve", x, 1, b, x.dtype, 2, columns(x), columns(b)):
        return -1
    return fg_la_fits(msg, b"tridiagonal_solve", x, 1, FG_OUT(inst, slots, 0), x.dtype, 2, columns(x), columns(b))


cdef int triangular_solve_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *a
    cdef const FgTensor *b
    if begin(inst, slots, msg, b"triangular_solve", 2, 1, 4, True):
        return -1
    a, b = FG_IN(inst, slots, 0), FG_IN(inst, slots, 1)
    if inst.ip[2] < 0 or inst.ip[2] > 2:
        return fg_fail(msg, "triangular_solve: transpose is %lld, expected 0, 1 or 2", <long long>inst.ip[2])
    if b.ndim < 2 or columns(a) != (rows(b) if inst.ip[0] else columns(b)):
        return fg_fail(msg, "triangular_solve: matrices of shape %s and right-hand sides of shape %s do not fit", fg_shape_text(a),
                       fg_shape_text(b))
    if fg_la_fits(msg, b"triangular_solve", a, 2, b, a.dtype, 2, rows(b), columns(b)):
        return -1
    return fg_la_fits(msg, b"triangular_solve", a, 2, FG_OUT(inst, slots, 0), a.dtype, 2, rows(b), columns(b))


# --- routines ------------------------------------------------------------------------------------------------------------------

cdef int load(int which, str real, str complex_) except -1:
    """Look up a routine of four types, by its name for real and for complex matrices; None: there is none."""
    cdef int i
    for i in range(2 if complex_ is None else 4):
        fg_lapack[which][i] = blas_symbol((real if i < 2 else complex_).replace("?", "sdcz"[i]))
    return 0


# The _work forms of two need no workspace, and do not look for NaN: an LU of NaN goes through, as it does in LAPACK.
load(FG_POTRF, "LAPACKE_?potrf_work", "LAPACKE_?potrf_work")
load(FG_GETRF, "LAPACKE_?getrf_work", "LAPACKE_?getrf_work")
load(FG_GEQRF, "LAPACKE_?geqrf", "LAPACKE_?geqrf")
load(FG_GEQP3, "LAPACKE_?geqp3", "LAPACKE_?geqp3")
load(FG_ORGQR, "LAPACKE_?orgqr", "LAPACKE_?ungqr")
load(FG_EVD, "LAPACKE_?syevd", "LAPACKE_?heevd")
load(FG_GESDD, "LAPACKE_?gesdd", "LAPACKE_?gesdd")
load(FG_GESDD_WORK, "LAPACKE_?gesdd_work", "LAPACKE_?gesdd_work")
load(FG_GEEV, "LAPACKE_?geev", "LAPACKE_?geev")
load(FG_GEES, "LAPACKE_?gees", "LAPACKE_?gees")
load(FG_GEHRD, "LAPACKE_?gehrd", "LAPACKE_?gehrd")
load(FG_TRD, "LAPACKE_?sytrd", "LAPACKE_?hetrd")
load(FG_GTSV, "LAPACKE_?gtsv", "LAPACKE_?gtsv")
load(FG_TRSM, "cblas_?trsm", "cblas_?trsm")
load(FG_STEQR, "?steqr_", None)
load(FG_LAED1, "?laed1_", None)
load(FG_LAED2, "?laed2_", None)
load(FG_LAED3, "?laed3_", None)
load(FG_LAED4, "?laed4_", None)
load(FG_LAMRG, "?lamrg_", None)
load(FG_STERF, "?sterf_", None)
load(FG_LARTG, "?lartg_", None)
load(FG_LASQ1, "?lasq1_", None)
load(FG_LASDQ, "?lasdq_", None)
load(FG_LASD1, "?lasd1_", None)
load(FG_LASD2, "?lasd2_", None)
load(FG_LASD3, "?lasd3_", None)
load(FG_LASD4, "?lasd4_", None)

KERNELS = {
    "cholesky": (<size_t><void *>cholesky_run, <size_t><void *>cholesky_check),
    "lu": (<size_t><void *>lu_run, <size_t><void *>lu_check),
    "lu_permutation": (<size_t><void *>lu_permutation_run, <size_t><void *>lu_permutation_check),
    "geqrf": (<size_t><void *>geqrf_run, <size_t><void *>geqrf_check),
    "geqp3": (<size_t><void *>geqp3_run, <size_t><void *>geqp3_check),
    "householder": (<size_t><void *>householder_run, <size_t><void *>householder_check),
    "eigh": (<size_t><void *>eigh_run, <size_t><void *>eigh_check),
    "eigvalsh": (<size_t><void *>eigvalsh_run, <size_t><void *>eigvalsh_check),
    "svd": (<size_t><void *>svd_run, <size_t><void *>svd_check),
    "eig": (<size_t><void *>eig_run, <size_t><void *>eig_check),
    "schur": (<size_t><void *>schur_run, <size_t><void *>schur_check),
    "hessenberg": (<size_t><void *>hessenberg_run, <size_t><void *>hessenberg_check),
    "tridiagonal": (<size_t><void *>tridiagonal_run, <size_t><void *>tridiagonal_check),
    "tridiagonal_solve": (<size_t><void *>tridiagonal_solve_run, <size_t><void *>tridiagonal_solve_check),
    "triangular_solve": (<size_t><void *>triangular_solve_run, <size_t><void *>triangular_solve_check),
}
