"""`dot`'s check: validates an instruction and chooses the way its product is computed (matmul.pyx names them)."""
from libc.limits cimport INT_MAX
from libc.stdint cimport int32_t, int64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc

from fgrad._kernels.abi cimport *
from fgrad._kernels.blas cimport NO_TRANS, TRANS
from fgrad._kernels.gemm cimport GEMM_MASKS, GEMM_MR, GEMM_NV, GEMM_PAIRS, GEMM_WIDE

cdef extern from "matmul.h" nogil:
    enum: GEMM_BYTES, gemm_f32_lanes, gemm_f64_lanes, FG_CHUNK, FG_SHORT16, FG_TINY_INT, FG_FETCH_TOTAL, FG_ACROSS_ROWS, FG_BLOCK_SIZE
    bint fg_distinct(const FgTensor *t)
    bint fg_few(int64_t B, int64_t M, int64_t N, int64_t K)


cdef enum:
    LONG_RUN = 24             # elements of 16-bit floats in a row
    BETWEEN = 1 << 16         # bytes of rows between each other from which their order counts
    LONG_ROW = 16             # elements of integers whose products are added up in a vector
    VECTORS = 2048            # elements of two vectors whose product is one number, without threads
    FAR = 1 << 23             # elements of an operand that is read from memory, not from a cache


cdef inline int64_t _abs(int64_t v) noexcept nogil:
    return -v if v < 0 else v


cdef bint _blas_layout(int64_t rows, int64_t cols, int64_t sr, int64_t sc, int32_t *trans, int64_t *ld) noexcept nogil:
    """Can BLAS read this matrix where it lies?"""
    if (cols == 1 or sc == 1) and (rows == 1 or sr >= cols):
        trans[0] = NO_TRANS
        ld[0] = cols if rows == 1 else sr
    elif (rows == 1 or sr == 1) and (cols == 1 or sc >= rows):
        trans[0] = TRANS
        ld[0] = rows if cols == 1 else sc
    else:
        return False
    return ld[0] <= INT_MAX


cdef bint _same_layout(const FgTensor *x, const FgTensor *y) noexcept nogil:
    for d in range(x.ndim):
        if x.shape[d] != y.shape[d] or (x.shape[d] > 1 and x.size and x.strides[d] != y.strides[d]):
            return False
    return x.dtype == y.dtype


cdef void _swap(FgDot *p) noexcept nogil:
    """Compute out^T = b^T a^T instead."""
    cdef int64_t t
    p.M, p.N = p.N, p.M
    p.a[0], p.b[0] = p.b[0], p.a[0]
    p.outer[0], p.outer[1] = p.outer[1], p.outer[0]
    t = p.a[1]
    p.a[1] = p.b[2]
    p.b[2] = t
    t = p.a[2]
    p.a[2] = p.b[1]
    p.b[1] = t
    p.c[1], p.c[2] = p.c[2], p.c[1]
    p.swapped ^= 1


cdef void _batch_axes(FgDot *p, const FgTensor *a, const FgTensor *b, const FgTensor *o) noexcept nogil:
    """Two batch axes: one, where they lie as one or an axis has one entry."""
    cdef int64_t inner = p.B, outer = a.shape[0]
    p.B *= outer
    p.outer[0], p.outer[1], p.outer[2] = a.strides[0], b.strides[0], o.strides[0]
    if inner == 1 or (p.outer[0] == inner * p.a[0] and p.outer[1] == inner * p.b[0] and p.outer[2] == inner * p.c[0]):
        if inner == 1:
            p.a[0], p.b[0], p.c[0] = p.outer[0], p.outer[1], p.outer[2]
    elif outer > 1:
        p.inner = inner


cdef void _collapse(FgDot *p) noexcept nogil:
    """A batch whose entries share one operand is one product with more rows (or columns)."""
    cdef int64_t total
    if p.B == 1 or p.inner:
        return
    total = p.B * p.M
    if p.b[0] == 0 and total <= INT_MAX and (p.M == 1 or (p.a[0] == p.M * p.a[1] and p.c[0] == p.M * p.c[1])):
        if p.M == 1:
            p.a[1] = p.a[0]
            p.c[1] = p.c[0]
        p.M = total
        p.B = 1
        return
    total = p.B * p.N
    if p.a[0] == 0 and total <= INT_MAX and (p.N == 1 or (p.b[0] == p.N * p.b[2] and p.c[0] == p.N * p.c[2])):
        if p.N == 1:
            p.b[2] = p.b[0]
            p.c[2] = p.c[0]
        p.N = total
        p.B = 1


cdef void _as_real(FgDot *p) noexcept nogil:
    """Make the complex products of a batch of tiny matrices products of real numbers (FgComplex)."""
    cdef FgComplex *z = &p.z
    if not GEMM_WIDE or p.work < FG_C64 or p.inner:
        return
    if p.c[2] != 1 and p.N > 1:
        _swap(p)
    if p.B < 16 or 4 * p.K * p.N > FG_TINY or 2 * p.M * max(p.K, p.N) > FG_TINY:
        return
    z.dtype, z.swapped, z.M, z.N, z.K = p.work, p.swapped, p.M, p.N, p.K
    for d in range(3):
        z.a[d], z.b[d] = p.a[d], p.b[d]
        p.a[d] *= 2
        p.c[d] *= 2
    z.pack_a = p.K > 1 and z.a[2] != 1
    z.columns = p.N == 1 or _abs(z.b[1]) < _abs(z.b[2])
    p.K *= 2
    p.N *= 2
    if z.pack_a:
        p.a[0], p.a[1] = 0 if p.B == 1 or z.a[0] == 0 else p.M * p.K, p.K
    p.b[0] = 0 if p.B == 1 or z.b[0] == 0 else p.K * p.N
    p.b[1], p.b[2] = 1 if z.columns else p.N, p.K if z.columns else 1
    p.a[2] = p.c[2] = 1
    p.in_dtype = p.out_dtype = p.work = FG_F32 if p.work == FG_C64 else FG_F64


cdef void _group(FgDot *p, int64_t item) noexcept nogil:
    """Stream entries whose rows lie between each other together: as many as have 8 KB of one place, and whose sums stay in the first cache."""
    cdef int64_t entries = p.inner if p.inner else p.B, sums = p.M * (FG_ACROSS_ROWS if p.algo == DOTS else p.N), most, parts
    if entries == 1 or p.pack_b or p.bytes or p.M > FG_MB or p.work not in (FG_F32, FG_F64) or not 0 < p.b[0] < p.ldb:
        return
    if p.B * p.K * p.N * item < BETWEEN or (p.in_dtype != p.work and (p.K < FG_SHORT16 if p.algo == DOTS else p.B * p.K * p.N * item < FG_FETCH_TOTAL)):
        return                                # 16-bit rows that are added up close by: sums that come and go cost more
    most = min(max(8192 // (p.b[0] * item), <int64_t>1), FG_BLOCK_SIZE // sums)
    if most > 1:
        parts = (entries + most - 1) // most
        p.group = (entries + parts - 1) // parts


cdef void _plan_stream(FgDot *p) noexcept nogil:
    cdef int64_t tasks, item = 1 if p.bytes else fg_itemsize(p.in_dtype)
    cdef bint integer = p.work <= FG_U64
    if not p.bytes and (p.N < p.M) if not integer else (p.N < 16 and p.N < p.M):
        _swap(p)
    p.pack_a = PACK_ROWS if p.in_dtype != p.work or (p.a[2] != 1 and p.K > 1) else 0
    p.algo = AXPY
    if integer and p.b[1] == 1 != p.b[2] and p.M <= FG_MB and p.K >= LONG_ROW:
        p.algo = DOTS
        p.pack_b = PACK_COLS if p.in_dtype != p.work else 0
    elif integer:
        p.pack_b = PACK_ROWS if p.in_dtype != p.work or (p.b[2] != 1 and p.N > 1) else 0
    elif p.b[1] == 1 and p.K > 1 and (p.b[2] != 1 or p.N == 1):
        p.algo = DOTS
    elif p.N == 1 and p.K > 1:
        p.algo = DOTS
        p.pack_b = PACK_COLS
    elif p.N > 1 and p.b[2] != 1:
        p.pack_b = PACK_ROWS
    if p.algo == DOTS and p.in_dtype != p.work and not p.pack_b and p.K >= FG_SHORT16:
        p.pack_a = PACK_SPLIT
    p.lda = (p.K + FG_CHUNK - 1) // FG_CHUNK * FG_CHUNK if p.pack_a == PACK_SPLIT else p.K if p.pack_a else p.a[1]
    if p.algo == DOTS:
        p.ldb = p.K if p.pack_b else p.b[2]
    else:
        p.ldb = p.N if p.pack_b else p.b[1]
    p.nk = 1
    p.kc = p.K
    _group(p, item)
    if p.group and p.algo == DOTS:
        return
    tasks = (p.B + p.group - 1) // p.group if p.group else p.B * ((p.M + FG_MB - 1) // FG_MB) * ((p.N + FG_NB - 1) // FG_NB)
    if not integer and tasks < 32 and p.B * p.K * p.N * item >= 1 << 18:
        while p.nk * tasks < 32 and p.nk * (8192 if p.algo == DOTS else 128) <= p.K:       # halves, so that threads have equal shares
            p.nk *= 2
        p.kc = ((p.K + p.nk - 1) // p.nk + 31) // 32 * 32             # whole chunks
        p.nk = (p.K + p.kc - 1) // p.kc


cdef int32_t _operand(FgDot *p, int64_t rows, int64_t cols, const int64_t *s, int32_t *trans, int64_t *ld) noexcept nogil:
    """How BLAS shall see this operand; returns how to pack it, 0 for not at all."""
    if p.in_dtype == p.work and _blas_layout(rows, cols, s[1], s[2], trans, ld):
        return 0
    if _abs(s[2]) <= _abs(s[1]):
        trans[0] = NO_TRANS
        ld[0] = cols
        return PACK_ROWS
    trans[0] = TRANS
    ld[0] = rows
    return PACK_COLS


cdef int64_t _cost(const FgDot *p, bint turned) noexcept nogil:
    """Cycles, roughly, of register tiles whose vectors lie along c's columns, or along its rows where `turned`: of vectors computed,
    packed by squares of vectors unless they lie along b (16 elements of K are one square), and stored, after another square where turned."""
    cdef int64_t lanes = gemm_f64_lanes if p.work == FG_F64 else gemm_f32_lanes, square = 6 * lanes
    cdef int64_t m = p.N if turned else p.M, n = p.M if turned else p.N, vectors = (n + lanes - 1) // lanes
    cdef int64_t stride = p.a[1] if turned else p.b[2], cost
    cost = m * vectors * (p.K + 4)
    if stride != 1 and n > 1:
        cost += vectors * (p.K * 6 if p.K < 8 else (p.K + lanes - 1) // lanes * square)
    if turned:
        cost += vectors * (m * 6 if m < 8 else (m + lanes - 1) // lanes * square) * ((p.K + 511) // 512)
    return cost


cdef inline bint _packs_better(const FgDot *p) noexcept nogil:
    """Is a long, by columns and far away? As rows of b they are packed as they lie, once, where tiles of a take a line of each: worth it where
    sums are long enough to pay for turning them, and the other operand stays in a cache."""
    return p.a[1] == 1 and p.a[2] > 1 and p.M * p.K >= FAR and p.M > p.N and p.K >= 512 and p.N <= 2048


cdef void _plan_gemm(FgDot *p) noexcept nogil:
    p.algo = GEMM
    p.pairs = GEMM_PAIRS and p.in_dtype == FG_BF16
    if p.in_dtype != p.work and not p.pairs:
        p.pack_a = PACK_ROWS if _abs(p.a[2]) <= _abs(p.a[1]) else PACK_COLS
        p.pack_b = PACK_ROWS if _abs(p.b[2]) <= _abs(p.b[1]) else PACK_COLS
    if p.work > FG_F64 and p.a[2] != 1 and p.M * p.K >= 1 << 15 and p.N >= 64:       # complex tiles read rows of a number by number
        p.pack_a = PACK_ROWS
    p.nk = 1
    p.kc = p.K
    if p.B == 1 and p.M * p.N <= 2048 and p.K >= 4096 and not p.pairs:          # too few tiles to share among threads
        p.nk = min(16, p.K // 1024)
        p.kc = ((p.K + p.nk - 1) // p.nk + 15) // 16 * 16
        p.nk = (p.K + p.kc - 1) // p.kc
    if p.nk == 1 and p.in_dtype == p.work == p.out_dtype and p.work <= FG_F64 and (_packs_better(p) or _cost(p, True) < _cost(p, False)):
        _swap(p)
        p.turned = 1


cdef int _plan_blas(FgDot *p, char *msg) noexcept nogil:
    if p.c[2] != 1 and p.N > 1:
        _swap(p)
    if GEMM_WIDE:
        _plan_gemm(p)
        return 0
    if p.M > INT_MAX or p.N > INT_MAX or p.K > INT_MAX or (p.M > 1 and p.c[1] > INT_MAX):
        snprintf(msg, FG_MSG, "dot: BLAS takes sizes and row strides below 2^31, got (%lld, %lld) @ (%lld, %lld)",
                 <long long>p.M, <long long>p.K, <long long>p.K, <long long>p.N)
        return -1
    p.algo = BLAS
    p.pack_a = _operand(p, p.M, p.K, p.a, &p.ta, &p.lda)
    p.pack_b = _operand(p, p.K, p.N, p.b, &p.tb, &p.ldb)
    p.nk = 1
    p.kc = p.K
    if (p.B == 1 and p.work <= FG_F64 and p.M * p.N <= 1 << 16 and p.K >= 4096 and p.K >= 8 * max(p.M, p.N)
            and p.M * p.N * p.K >= 1 << 23):
        p.nk = min(16, p.K // 1024)
        p.kc = ((p.K + p.nk - 1) // p.nk + 15) // 16 * 16
        p.nk = (p.K + p.kc - 1) // p.kc
    return 0


cdef bint _dots_better(const FgDot *p, int64_t few, int64_t many) noexcept nogil:
    """Sums of products of rows, each with its total to add up, against register tiles whose vectors lie along the few rows, which are packed and
    may leave part of a vector unused: cycles for each of the many rows. What comes from memory comes better to tiles."""
    cdef int64_t lanes = gemm_f64_lanes if p.work == FG_F64 else gemm_f32_lanes, vectors = (few + lanes - 1) // lanes
    cdef int64_t dots = few * ((p.K + lanes - 1) // lanes + 5), tiles = vectors * (p.K + 6 * p.K // many) + 30
    return (dots + dots // 3 if many * p.K >= FAR else dots) < tiles


cdef bint _streams(FgDot *p) noexcept nogil:
    """Is the product better streamed than cut into tiles?"""
    cdef int64_t few = min(p.M, p.N), many = max(p.M, p.N)
    cdef bint swap = p.N < p.M
    cdef int64_t k = p.a[2] if swap else p.b[1], n = p.a[1] if swap else p.b[2]
    if p.work <= FG_U64:
        return True
    if p.work > FG_F64:                       # a vector, or rows against rows
        return few == 1 or (p.K > 1 and k == 1 != n and few <= FG_MB // 2)
    if few == 1:
        return p.K > 1
    if p.in_dtype != p.work:                  # halves are read once where they lie, if in long runs
        return few <= FG_MB and ((n == 1 and many >= LONG_RUN) or (k == 1 and p.K >= LONG_RUN))
    if k != 1 or n == 1 or p.K < 24 or (many < 16 and p.K < 128):
        return False
    return few <= (FG_MB if p.K >= 64 else 4) or (GEMM_MASKS and few <= 4 * FG_MB and _dots_better(p, few, many))        # rows against rows


cdef bint _tiny(FgDot *p) noexcept nogil:
    """Are these many matrices so small that vectors are better filled with elements of several?  Of 16-bit floats, rows against one small
    matrix are such a batch."""
    cdef int64_t largest = max(p.M * p.K, max(p.K * p.N, p.M * p.N))
    cdef int64_t least = 16
    cdef bint halves = p.work == FG_F32 and p.in_dtype != FG_F32
    if p.acc or p.inner or p.work > FG_F64 or (p.work <= FG_U64 and p.in_dtype != p.work):
        return False
    if halves and p.B == 1 and p.M < 16 <= p.N and p.c[2] != 1:
        _swap(p)
    if halves and p.B == 1 and p.M >= 16 and p.K * p.N <= FG_TINY and p.N > 1 and p.c[2] == 1 and p.c[1] == p.N:
        p.B, p.M = p.M, 1
        p.a[0], p.b[0], p.c[0] = p.a[1], 0, p.c[1]
        return True
    if (p.M * p.K + p.K * p.N + p.M * p.N > FG_TINY_INT) if p.work <= FG_U64 else largest > FG_TINY:
        return False
    # with vectors of 256 bits a few entries are faster in lanes than one after the other, the smaller the matrices the fewer
    if gemm_f32_lanes == 8 and p.work >= FG_F32 and not halves:
        least = 4 if largest <= 16 else 8 if p.work == FG_F32 else 16
    if p.B < least or p.a[0] == 0 or p.b[0] == 0 or p.c[0] != p.M * p.N:
        return False
    if p.N == 1:                              # whichever stride is not used says that entries are contiguous
        return p.M == 1 or p.c[1] == 1
    return p.c[2] == 1 and (p.M == 1 or p.c[1] == p.N) or (p.M == 1 or p.c[1] == 1) and p.c[2] == p.M


cdef bint _single(FgDot *p) noexcept nogil:
    """Is the product one tile of operands as they lie, or one row against rows of at most a vector?  The strides are made those it reads by."""
    cdef int64_t lanes = gemm_f64_lanes if p.work == FG_F64 else gemm_f32_lanes
    cdef int64_t most = VECTORS if p.M == 1 == p.N and p.a[2] == 1 == p.b[1] else 64
    if p.B != 1 or p.z.dtype or p.K > most or p.in_dtype != p.work or p.out_dtype != p.work or p.work not in (FG_F32, FG_F64) or not GEMM_WIDE:
        return False
    if max(p.M, p.N) > GEMM_NV * lanes or (p.N == 1 < p.M and p.c[1] != 1) or (p.N > 1 and p.c[2] != 1):
        return False
    if p.N == 1 < p.M:
        _swap(p)
    if p.M == 1:
        p.a[1] = 1                            # no rows to step over; neither are there where an axis has one element
        if p.K == 1:
            p.a[2] = 1
        if p.N > 1 and p.b[2] != 1:
            return p.N <= lanes and 1 < p.K <= lanes and p.b[1] == p.a[2] == 1
    if p.N == 1:
        p.b[2] = 1
    return p.M <= GEMM_MR and p.b[2] == 1 and (p.a[1] == 1 or p.a[2] == 1) and (GEMM_MASKS or p.N % lanes == 0)


cdef bint _rows_follow(int64_t rows, int64_t cols, const int64_t *s) noexcept nogil:
    return (cols == 1 or s[2] == 1) and (rows == 1 or s[1] == cols)


cdef bint _thin(FgDot *p) noexcept nogil:
    """Are these many rows of a few elements, one after the other, times a small matrix?  Longer ones are better off in tiles, and vectors of
    512 bits have masks for tiles of few columns."""
    cdef bint swap = p.M < p.N
    if GEMM_BYTES != 32 or p.B != 1 or p.acc or p.z.dtype or p.in_dtype != p.work or p.out_dtype != p.work or p.work not in (FG_F32, FG_F64):
        return False
    if max(p.M, p.N) < 2 * FG_THIN_ROWS or p.K > FG_THIN or min(p.M, p.N) == 1 or min(p.M, p.N) * fg_itemsize(p.work) > FG_THIN_BYTES:
        return False
    if swap:
        _swap(p)
    if _rows_follow(p.M, p.K, p.a) and _rows_follow(p.M, p.N, p.c):
        return True
    if swap:
        _swap(p)
    return False


cdef bint _by_entries(const FgDot *p) noexcept nogil:
    """Do rows of b lie along those of c, which follow each other, and are they few and short?"""
    cdef int64_t lanes = gemm_f64_lanes if p.work == FG_F64 else gemm_f32_lanes
    if not 1 < p.N <= FG_ENTRY_VECTORS * lanes or max(p.M * p.K, p.K * p.N) > FG_ENTRY or p.M * p.N > FG_ENTRY:
        return False
    return p.b[2] == 1 == p.c[2] and (p.M == 1 or p.c[1] == p.N) and p.c[0] == p.M * p.N and p.b[0] > 0 and (p.b[1] > 0 or p.K == 1)


cdef bint _entries(FgDot *p) noexcept nogil:
    """Are these matrices of a batch that need no turning? Vectors of 512 bits would be too wide for most."""
    if GEMM_BYTES != 32 or p.B < 2 or p.acc or p.inner or p.z.dtype or p.in_dtype != p.work or p.out_dtype != p.work or p.work not in (FG_F32, FG_F64):
        return False
    if _by_entries(p):
        return True
    _swap(p)
    if _by_entries(p):
        return True
    _swap(p)
    return False


cdef int _bytes_check(FgInst *inst, const FgTensor *a, const FgTensor *b, const FgTensor *o, int acc, char *msg) noexcept nogil:
    """A few rows of float32 against a matrix of bytes, read where it lies."""
    cdef FgDot *p
    if acc or a.ndim != 3 or a.shape[0] != 1 or o.dtype != FG_F32 or not 1 <= a.shape[1] <= FG_MB or a.shape[2] < 2 or b.shape[2] < 2:
        snprintf(msg, FG_MSG, "dot: a matrix of bytes, 2 x 2 at least, is multiplied by 1 to %d rows, without parameters, giving float32", <int>FG_MB)
        return -1
    if not (b.strides[1] == 1 or b.strides[2] == 1) or not fg_distinct(o):
        snprintf(msg, FG_MSG, "dot: rows or columns of bytes must be contiguous, and the output's elements distinct")
        return -1
    p = <FgDot *>calloc(1, sizeof(FgDot))
    if p == NULL:
        snprintf(msg, FG_MSG, "dot: no memory for a plan")
        return -1
    inst.extra = p
    p.B, p.M, p.K, p.N = 1, a.shape[1], a.shape[2], b.shape[2]
    for d in range(3):
        p.a[d] = a.strides[d]
        p.b[d] = b.strides[d]
        p.c[d] = o.strides[d]
    p.in_dtype = p.out_dtype = p.work = FG_F32
    p.bytes = b.dtype
    _plan_stream(p)
    return 0


cdef int dot_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *a
    cdef const FgTensor *b
    cdef const FgTensor *o
    cdef FgDot *p
    cdef int acc = inst.n_ip == 1 and inst.ip[0] == 1, f, d
    if inst.n_ip > 1 or inst.n_fp or (inst.n_ip == 1 and not 0 <= inst.ip[0] <= 1):
        snprintf(msg, FG_MSG, "dot: expected no parameter or [accumulate], 0 or 1")
        return -1
    if inst.n_in != 2 + acc or inst.n_out != 1:
        snprintf(msg, FG_MSG, "dot: expected %d inputs and 1 output, got %d and %d", 2 + acc, inst.n_in, inst.n_out)
        return -1
    a = FG_IN(inst, slots, 0)
    b = FG_IN(inst, slots, 1)
    o = FG_OUT(inst, slots, 0)
    if not 3 <= a.ndim <= 4 or b.ndim != a.ndim or o.ndim != a.ndim:
        snprintf(msg, FG_MSG, "dot: expected a (B, M, K), b (B, K, N), out (B, M, N), or two batch axes, got %d, %d and %d dimensions",
                 a.ndim, b.ndim, o.ndim)
        return -1
    f = a.ndim - 3                                # the last batch axis
    if (a.shape[0] != b.shape[0] or a.shape[0] != o.shape[0] or a.shape[f] != b.shape[f] or a.shape[f] != o.shape[f]
            or a.shape[f + 2] != b.shape[f + 1] or o.shape[f + 1] != a.shape[f + 1] or o.shape[f + 2] != b.shape[f + 2]):
        snprintf(msg, FG_MSG, "dot: shapes do not fit: a (%lld, %lld, %lld), b (%lld, %lld, %lld), out (%lld, %lld, %lld)",
                 <long long>a.shape[f], <long long>a.shape[f + 1], <long long>a.shape[f + 2], <long long>b.shape[f], <long long>b.shape[f + 1],
                 <long long>b.shape[f + 2], <long long>o.shape[f], <long long>o.shape[f + 1], <long long>o.shape[f + 2])
        return -1
    if a.dtype == FG_F32 and b.dtype in (FG_I8, FG_U8):
        return _bytes_check(inst, a, b, o, acc, msg)
    if a.dtype != b.dtype or a.dtype == FG_BOOL:
        snprintf(msg, FG_MSG, "dot: a and b must have one dtype other than bool, got codes %d and %d", a.dtype, b.dtype)
        return -1
    if not (o.dtype == a.dtype or (a.dtype in (FG_F16, FG_BF16) and o.dtype == FG_F32)
            or (a.dtype <= FG_U64 and FG_I8 <= o.dtype <= FG_U64 and fg_itemsize(o.dtype) > fg_itemsize(a.dtype))):
        snprintf(msg, FG_MSG, "dot: inputs of dtype code %d cannot give an output of code %d", a.dtype, o.dtype)
        return -1
    if acc and not _same_layout(FG_IN(inst, slots, 2), o):
        snprintf(msg, FG_MSG, "dot: the accumulated input must have the output's shape, strides and dtype")
        return -1
    if o.size and not fg_distinct(o):
        snprintf(msg, FG_MSG, "dot: the output's strides must be positive and its elements distinct")
        return -1
    if o.size and not (o.shape[f + 1] == 1 or o.shape[f + 2] == 1 or o.strides[f + 1] == 1 or o.strides[f + 2] == 1):
        snprintf(msg, FG_MSG, "dot: one of the output's last two strides must be 1, got %lld and %lld",
                 <long long>o.strides[f + 1], <long long>o.strides[f + 2])
        return -1
    p = <FgDot *>calloc(1, sizeof(FgDot))
    if p == NULL:
        snprintf(msg, FG_MSG, "dot: no memory for a plan")
        return -1
    inst.extra = p
    p.B = a.shape[f]
    p.M = a.shape[f + 1]
    p.K = a.shape[f + 2]
    p.N = b.shape[f + 2]
    for d in range(3):
        p.a[d] = a.strides[f + d]
        p.b[d] = b.strides[f + d]
        p.c[d] = o.strides[f + d]
    if f:
        _batch_axes(p, a, b, o)
    p.in_dtype = a.dtype
    p.out_dtype = o.dtype
    p.work = FG_F32 if a.dtype in (FG_F16, FG_BF16) else o.dtype
    p.acc = acc
    if o.size == 0:
        p.algo = EMPTY
        return 0
    if p.K == 0:
        p.algo = CLEAR
        return 0
    _collapse(p)
    _as_real(p)
    if _entries(p):
        p.algo = ENTRIES
        return 0
    if _tiny(p):
        p.algo = TINY
        if p.N == 1:
            p.c[2] = 1
        return 0
    if not acc and p.in_dtype == p.work == p.out_dtype and p.work in (FG_F32, FG_F64) and not p.z.dtype and fg_few(p.B, p.M, p.N, p.K):
        p.algo = FEW
        return 0
    if _single(p):
        p.algo = SINGLE
        return 0
    if _thin(p):
        p.algo = THIN
        return 0
    if _streams(p):
        _plan_stream(p)
        return 0
    return _plan_blas(p, msg)
