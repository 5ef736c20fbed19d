"""Convolutions: conv.h says how they are computed.

conv: in lhs (N, C, spatial...) and rhs (O, I, spatial...) of any strides, already permuted to this order; out contiguous in an order of
its own.  ip: [spatial axes (0 to 3), feature groups, batch groups, out's batch axis, its feature axis, its spatial axes...,
(stride, low padding, lhs dilation, rhs dilation) of each spatial axis..., 1 if outputs are reversed along them].  int32, int64, float32, float64, complex64, complex128; where
PAIRS, without groups, also bfloat16 with a result in bfloat16 or float32; in groups bfloat16 where `in_halves` says so.
"""
from libc.stdint cimport INT32_MAX, int64_t, uint16_t
from libc.stdlib cimport calloc
from libc.string cimport memset

from fgrad._kernels.abi cimport *
from fgrad._kernels.blas cimport gemm
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport parallel_for
from fgrad._kernels.row_check cimport fg_fail, row_text

cdef extern from "conv_body.h" nogil:
    enum: CONV_PANELS, CONV_DENSE, CONV_FEW, CONV_SPANS, CONV_SUMS, CONV_WINOGRAD, CONV_LANES, CONV_LANE_SUMS, CONV_GROUPS
    enum: CONV_GROUP_SUMS
    enum: CONV_MIXED, CONV_CLEAR, CONV_PLANES, CONV_PLACE, GEMM_BYTES, GEMM_NV, GEMM_PAIRS
    ctypedef void (*FgGemm)(int dtype, int ta, int tb, int64_t m, int64_t n, int64_t k, const char *a, int64_t lda, const char *b,
                            int64_t ldb, int add, char *c, int64_t ldc) noexcept nogil
    ctypedef struct FgDigit:
        int64_t n
    ctypedef struct FgSpan:
        int64_t off
    ctypedef struct FgTap:
        int64_t x, w
    ctypedef struct FgPairAxis:
        int64_t n
    ctypedef struct FgConv:
        int32_t dtype, ndim
        int64_t G, B, C, O
        int64_t xg, xb, xc
        int64_t xs[3]
        int64_t wg, wc, wo
        int64_t ws[3]
        int64_t og, ob, oo
        int64_t os[3]
        int64_t Q[3]
        int64_t R[3]
        int64_t L[3]
        int64_t stride[3]
        int64_t lo[3]
        int64_t ldil[3]
        int64_t rdil[3]
        int64_t phases[3]
        int64_t pairs, pair, wpair
        int32_t narrow, half
        FgPairAxis waxes[5]
        int undilate, reversed
        int64_t o0
    ctypedef struct FgConvPart:
        const FgConv *c
        int64_t Q[3]
        int64_t R[3]
        int algo, pack_w, scratch_out, failed, turned
        int64_t s[3]
        int64_t x0
        int64_t M, K, mt, kt, mtiles, nk
        int64_t block[2]
        int64_t blocks[2]
        int64_t slices
        int64_t wg, ww, images
        FgDigit m[4]
        const char *x
        const char *w
        char *out
        char *part
        FgGemm gemm
    int64_t conv_gcd(int64_t a, int64_t b)
    int64_t conv_ceil(int64_t a, int64_t b)
    int64_t gemm_panels(int64_t m)
    void conv_part(const FgConv *c, int64_t index, FgConvPart *p)
    void conv_plan(FgConvPart *p, int64_t item)
    void conv_undilate(FgConv *c)
    void conv_singles(FgConv *c, int64_t item)
    bint conv_plans_half(const FgConvPart *p)
    void conv_pair_axes(FgConv *c, const int64_t *n, const int64_t *step, int64_t *to)
    void conv_pair_w(const FgConv *c, int64_t begin, int64_t end, const uint16_t *w, char *dst)
    void conv_pack_w(const FgConvPart *p, int64_t begin, int64_t end, const char *w, char *dst, int64_t item)
    void conv_panels(const FgConvPart *p, int64_t begin, int64_t end, char *panel, char *tile, FgSpan *spans, int64_t item)
    void conv_reduce(const FgConvPart *p, int64_t begin, int64_t end, int64_t item)
    void conv_clear(const FgConvPart *p, int64_t begin, int64_t end, int64_t item)
    void conv_rows(const FgConvPart *p, int64_t begin, int64_t end, char *row)
    void conv_groups(const FgConvPart *p, int64_t begin, int64_t end, char *space)
    void conv_mix_w(const FgConvPart *p, int64_t begin, int64_t end, const char *w, char *dst)
    void conv_pack_panels(const FgConvPart *p, int64_t begin, int64_t end, const char *w, char *dst)
    void conv_planes(const FgConvPart *parts, int64_t n, int64_t deep, int64_t begin, int64_t end)
    void conv_winograd_w(const FgConvPart *p, int64_t begin, int64_t end, const char *w, char *dst)
    int64_t conv_x_bytes(const FgConvPart *p, int64_t item)
    int64_t conv_w_bytes(const FgConvPart *p, int64_t item)
    int64_t conv_dense_taps(const FgConvPart *p)
    void conv_dense(const FgConvPart *p, int64_t begin, int64_t end, char *x, char *w, FgTap *taps)
    void conv_place(const FgConvPart *p, int64_t begin, int64_t end)
    int64_t conv_group_bytes(const FgConvPart *p, int64_t item)
    void conv_group_reduce(const FgConvPart *p, int64_t begin, int64_t end)

cdef struct PackW:
    const FgConv *c
    const FgConvPart *p
    const char *src
    char *dst


cdef void _pack_w_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef PackW *k = <PackW *>ctx
    conv_pack_w(k.p, begin, end, k.src, k.dst, fg_itemsize(k.p.c.dtype))


cdef void _pair_w_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef PackW *k = <PackW *>ctx
    conv_pair_w(k.c, begin, end, <const uint16_t *>k.src, k.dst)


cdef void _pack_panels_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef PackW *k = <PackW *>ctx
    conv_pack_panels(k.p, begin, end, k.src, k.dst)


cdef void _winograd_w_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef PackW *k = <PackW *>ctx
    conv_winograd_w(k.p, begin, end, k.src, k.dst)


cdef void _mix_w_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef PackW *k = <PackW *>ctx
    conv_mix_w(k.p, begin, end, k.src, k.dst)


cdef void _dense_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef FgConvPart *p = <FgConvPart *>ctx
    cdef int64_t item = fg_itemsize(p.c.dtype), x = conv_x_bytes(p, item), w = conv_w_bytes(p, item)
    cdef char *space = pool_alloc(x + w + conv_dense_taps(p) * <int64_t>sizeof(FgTap))
    if space == NULL:
        p.failed = 1
        return
    conv_dense(p, begin, end, space, space + x, <FgTap *>(space + x + w))
    pool_free(space)


cdef void _place_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    conv_place(<FgConvPart *>ctx, begin, end)


cdef void _panels_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef FgConvPart *p = <FgConvPart *>ctx
    cdef int64_t item = fg_itemsize(p.c.dtype)
    cdef int64_t panel = (p.mt * p.kt * item + 63) // 64 * 64, tile = (p.mt * p.c.O * item + 63) // 64 * 64 if p.scratch_out else 0
    cdef char *space = pool_alloc(panel + tile + (p.mt + p.kt) * <int64_t>sizeof(FgSpan))
    if space == NULL:
        p.failed = 1
        return
    conv_panels(p, begin, end, space, space + panel, <FgSpan *>(space + panel + tile), item)
    pool_free(space)


cdef void _reduce_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef FgConvPart *p = <FgConvPart *>ctx
    conv_reduce(p, begin, end, fg_itemsize(p.c.dtype))


cdef void _clear_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef FgConvPart *p = <FgConvPart *>ctx
    conv_clear(p, begin, end, 2 if p.c.narrow else fg_itemsize(p.c.dtype))


cdef void _rows_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef FgConvPart *p = <FgConvPart *>ctx
    cdef char *row = pool_alloc(p.Q[2] * fg_itemsize(p.c.dtype))
    if row == NULL:
        p.failed = 1
        return
    conv_rows(p, begin, end, row)
    pool_free(row)


cdef void _groups_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef FgConvPart *p = <FgConvPart *>ctx
    cdef char *space = pool_alloc(conv_group_bytes(p, fg_itemsize(p.c.dtype)))
    if space == NULL:
        p.failed = 1
        return
    conv_groups(p, begin, end, space)
    pool_free(space)


cdef void _group_reduce_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    conv_group_reduce(<FgConvPart *>ctx, begin, end)


cdef struct Planes:
    FgConvPart *parts
    int64_t n, deep


cdef void _planes_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef Planes *k = <Planes *>ctx
    conv_planes(k.parts, k.n, k.deep, begin, end)


cdef void _run_panels(FgConvPart *p) noexcept nogil:
    cdef const FgConv *c = p.c
    cdef int64_t item = fg_itemsize(c.dtype), cost = p.mt * p.K // p.nk * (2 * c.O + 30) // 60 + 500       # nanoseconds, roughly
    cdef char *packed = NULL
    cdef PackW k
    if p.pack_w:
        packed = pool_alloc(c.G * p.K * c.O * item)
        if packed == NULL:
            p.failed = 1
            return
        k.p, k.src, k.dst = p, p.w, packed
        parallel_for(c.G * p.K, 1 + 20000 // c.O, _pack_w_body, &k)
        p.w = packed
    if p.nk > 1:
        p.part = pool_alloc(p.nk * c.G * p.M * c.O * item)
        p.failed |= p.part == NULL
    if not p.failed:
        parallel_for(c.G * p.mtiles * p.nk, 1 + 30000 // cost, _panels_body, p)
        if p.nk > 1 and not p.failed:
            parallel_for(c.G * p.M, 1 + 50000 // (p.nk * c.O), _reduce_body, p)
    pool_free(p.part)
    pool_free(packed)


cdef void _run_dense(FgConvPart *p) noexcept nogil:
    """Blocks of rows in register tiles: what is packed or summed is in `space`."""
    cdef const FgConv *c = p.c
    cdef bint together = p.algo in (CONV_LANES, CONV_LANE_SUMS), sums = p.algo in (CONV_SUMS, CONV_LANE_SUMS)
    cdef int64_t item = fg_itemsize(c.dtype), lanes = GEMM_BYTES // item, taps = p.R[0] * p.R[1] * p.R[2]
    cdef int64_t groups = conv_ceil(c.G, lanes) if together else c.G, features = c.O * lanes if together else c.O
    cdef int64_t pieces = groups * (taps if together else conv_ceil(c.O, GEMM_NV * lanes))
    cdef int64_t positions = p.Q[0] * p.Q[1] * p.Q[2], packed = groups * p.wg * item, size, units, cost
    cdef double work
    cdef PackW k
    if p.algo == CONV_SPANS:
        pieces = groups * gemm_panels(c.O)
    cdef char *space
    if sums:
        size = p.nk * groups * positions * c.B * features * item
    else:
        size = packed + groups * p.ww * item if p.algo == CONV_WINOGRAD else packed
    space = pool_alloc(size + 64)
    if space == NULL:
        p.failed = 1
        return
    if sums:
        p.part = space
        units = p.nk * groups if together else p.nk * pieces * p.Q[0] * p.Q[1] * (1 if p.s[2] == 1 else p.Q[2])
    else:
        k.p, k.src, k.dst = p, p.w, space
        parallel_for(pieces, 1 + 30000 * pieces // (c.G * taps * c.C * c.O + 1), _pack_panels_body, &k)
        p.w = space
        if p.algo == CONV_WINOGRAD:
            k.src, k.dst = space, space + packed
            parallel_for(pieces, 1 + 30000 * pieces // (c.G * taps * c.C * c.O + 1), _winograd_w_body, &k)
            p.w = k.dst
        units = groups * (conv_ceil(c.B, p.images) if p.algo == CONV_WINOGRAD else c.B) * p.Q[0] * p.blocks[0] * p.blocks[1]
    work = <double>groups * positions * c.B * taps * c.C * conv_ceil(features, 16)
    cost = <int64_t>(work / units / 3)                                   # nanoseconds of a unit, roughly
    parallel_for(units, 1 + 30000 // (cost + 100), _dense_body, p)
    if sums and not p.failed:
        units = groups * (conv_ceil(c.O, lanes) if p.turned else positions * (c.B if together else conv_ceil(c.B, CONV_PLACE)))
        parallel_for(units, 1 + units * 30000 // (positions * p.nk * c.B * c.O * c.G + 1), _place_body, p)
    pool_free(space)


cdef void _run_direct(FgConvPart *p) noexcept nogil:
    cdef const FgConv *c = p.c
    cdef int64_t rows = p.Q[0] * p.Q[1], outputs = c.B * c.O * rows * p.Q[2], cost = c.C * p.R[0] * p.R[1] * p.R[2]
    if p.algo == CONV_GROUPS:
        parallel_for(c.B * c.O * rows * p.slices * p.blocks[1], 1 + 30000 // (p.block[1] * (cost * c.G // p.slices // 16 + 20)), _groups_body, p)
    elif p.algo == CONV_GROUP_SUMS:
        p.part = pool_alloc(p.nk * outputs * c.G * fg_itemsize(c.dtype))
        if p.part == NULL:
            p.failed = 1
            return
        parallel_for(p.nk, 1 + 30000 * p.nk // (outputs * (cost * c.G // 16 + 20)), _groups_body, p)
        parallel_for(outputs, 1 + 30000 // c.G, _group_reduce_body, p)
        pool_free(p.part)
    else:
        parallel_for(c.G * c.B * c.O * rows, 1 + 30000 // (cost * p.Q[2] // 8 + 50), _rows_body, p)


cdef void _run_mixed(FgConvPart *p) noexcept nogil:
    """Rows of groups that lanes of a vector share, the kernel packed for them."""
    cdef const FgConv *c = p.c
    cdef int64_t lanes = GEMM_BYTES // fg_itemsize(c.dtype), vectors = c.G * c.O // lanes, taps = p.R[0] * p.R[1] * p.R[2]
    cdef PackW k
    k.p, k.src = p, p.w
    k.dst = pool_alloc(vectors * p.wg * fg_itemsize(c.dtype))
    if k.dst == NULL:
        p.failed = 1
        return
    parallel_for(vectors * taps, 1 + 10000 // (c.C * lanes), _mix_w_body, &k)
    p.w = k.dst
    parallel_for(c.B * p.Q[0] * p.Q[1] * p.blocks[1], 1 + 30000 // (p.block[1] * vectors * taps * c.C // 2 + 100), _groups_body, p)
    pool_free(k.dst)


cdef void _plan(const FgConv *c, int64_t index, const char *x, const char *w, char *out, FgConvPart *p) noexcept nogil:
    conv_part(c, index, p)
    p.x = x + p.x0 * (2 if c.pairs or c.half else fg_itemsize(c.dtype))
    p.w = w
    p.out = out
    p.gemm = gemm
    conv_plan(p, fg_itemsize(c.dtype))


cdef void _run_planes(FgConvPart *parts, int64_t n) noexcept nogil:
    """Planes of outputs, all parts of one before the next."""
    cdef const FgConv *c = parts.c
    cdef Planes k
    cdef FgConvPart *p
    cdef int64_t i, cost = 20
    k.parts, k.n, k.deep = parts, n, 1
    for i in range(n):
        p = parts + i
        k.deep = max(k.deep, p.Q[0])
        cost += p.Q[1] * (p.Q[2] // 16 + 1) * p.R[0] * p.R[1] * p.R[2] // 3
    parallel_for(c.G * c.B * c.O * k.deep, 1 + 30000 // cost, _planes_body, &k)


cdef bint _all_planes(const FgConv *c, const char *x, const char *w, char *out) noexcept nogil:
    """Parts that are planes, some of them perhaps of zeros: True if that is what they are, and done."""
    cdef int64_t i, parts = c.phases[0] * c.phases[1] * c.phases[2], planes = 0, zeros = 0
    cdef FgConvPart *p
    if parts == 1 or c.G < 2 or c.C > 1:
        return False
    p = <FgConvPart *>pool_alloc(parts * <int64_t>sizeof(FgConvPart))
    if p == NULL:
        return False
    for i in range(parts):
        _plan(c, i, x, w, out, p + i)
        planes += p[i].algo == CONV_PLANES
        zeros += p[i].algo == CONV_CLEAR
        if planes + zeros <= i:
            break
    if planes > 0 and planes + zeros == parts:
        _run_planes(p, parts)
    else:
        planes = 0
    pool_free(<char *>p)
    return planes > 0


cdef char *_pair_kernel(const FgConv *c, const char *w) noexcept nogil:
    """A copy of a kernel of bfloat16 as pairs, or NULL without memory for it."""
    cdef const FgPairAxis *t = c.waxes
    cdef int64_t units = t[0].n * t[1].n * t[2].n, each = t[3].n * t[4].n
    cdef PackW k
    k.c, k.src, k.dst = c, w, pool_alloc(4 * units * each + 64)
    if k.dst != NULL:
        parallel_for(units, 1 + 30000 // (each + 10), _pair_w_body, &k)
    return k.dst


cdef int run_conv(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef const FgConv *c = <const FgConv *>inst.extra
    cdef char *paired = NULL
    cdef int failed
    if FG_OUT(inst, slots, 0).size == 0:
        return FG_OK
    if c.pairs:
        paired = _pair_kernel(c, FG_IN(inst, slots, 1).data)
        if paired == NULL:
            return FG_EMEM
    failed = _run_parts(c, FG_IN(inst, slots, 0).data, paired if c.pairs else FG_IN(inst, slots, 1).data, FG_OUT(inst, slots, 0).data)
    pool_free(paired)
    return FG_EMEM if failed else FG_OK


cdef bint _run_parts(const FgConv *c, const char *x, const char *w, char *out) noexcept nogil:
    cdef FgConvPart p
    cdef int64_t i
    if _all_planes(c, x, w, out):
        return False
    for i in range(c.phases[0] * c.phases[1] * c.phases[2]):
        _plan(c, i, x, w, out, &p)
        if p.algo == CONV_PANELS:
            _run_panels(&p)
        elif p.algo in (CONV_DENSE, CONV_FEW, CONV_SPANS, CONV_SUMS, CONV_WINOGRAD, CONV_LANES, CONV_LANE_SUMS):
            _run_dense(&p)
        elif p.algo == CONV_MIXED:
            _run_mixed(&p)
        elif p.algo == CONV_PLANES:
            _run_planes(&p, 1)
        elif p.algo == CONV_CLEAR:
            parallel_for(c.G * p.M, 1 + 50000 // c.O, _clear_body, &p)
        else:
            _run_direct(&p)
        if p.failed:
            return True
    return False


cdef bint _word(int64_t v) noexcept nogil:
    """Small enough that products of two are safe."""
    return -INT32_MAX <= v <= INT32_MAX


cdef void _describe(FgConv *c, const FgTensor *x, const FgTensor *w, const FgTensor *o, const int64_t *ip) noexcept nogil:
    """Sizes and steps from operands that fit each other."""
    cdef int64_t D = ip[0], fg = ip[1], bg = ip[2]
    cdef const int64_t *axes = ip + 3
    cdef int64_t sizes[5]
    cdef int64_t steps[5]
    cdef int64_t to[5]
    cdef int d, k
    cdef bint pairs = x.dtype == FG_BF16 and fg == 1 and bg == 1, half = x.dtype == FG_BF16 and not pairs
    c.dtype, c.ndim = FG_F32 if pairs or half else x.dtype, <int>D
    c.G = fg * bg
    c.reversed = ip[5 + 5 * D] != 0
    c.half = half
    c.B = x.shape[0] // bg
    c.C = w.shape[1]
    c.O = w.shape[0] // c.G
    c.xb, c.xc = x.strides[0], x.strides[1]
    c.xg = c.C * c.xc if fg > 1 else c.B * c.xb
    c.wo, c.wc = w.strides[0], w.strides[1]
    c.wg = c.O * c.wo
    c.ob, c.oo = o.strides[axes[0]], o.strides[axes[1]]
    c.og = c.O * c.oo
    for d in range(3):
        k = d - 3 + <int>D               # spatial axis; missing ones come first, with one element
        c.Q[d] = c.R[d] = c.L[d] = c.stride[d] = c.ldil[d] = c.rdil[d] = c.phases[d] = 1
        c.os[d] = 0
        if k < 0:
            continue
        c.xs[d], c.L[d] = x.strides[2 + k], x.shape[2 + k]
        c.ws[d], c.R[d] = w.strides[2 + k], w.shape[2 + k]
        c.os[d], c.Q[d] = o.strides[axes[2 + k]], o.shape[axes[2 + k]]
        c.stride[d], c.lo[d] = ip[5 + D + 4 * k], ip[6 + D + 4 * k]
        c.ldil[d], c.rdil[d] = ip[7 + D + 4 * k], ip[8 + D + 4 * k]
        if c.reversed:
            c.o0 += (c.Q[d] - 1) * c.os[d]
            c.os[d] = -c.os[d]
        c.phases[d] = max(1, min(c.ldil[d] // conv_gcd(c.stride[d], c.ldil[d]), c.Q[d]))
    if pairs:
        sizes[0], sizes[1], steps[0], steps[1] = c.O, c.C, c.wo, c.wc
        for d in range(3):
            sizes[2 + d], steps[2 + d] = c.R[d], c.ws[d]
        conv_pair_axes(c, sizes, steps, to)
        c.pairs, c.pair, c.wpair, c.narrow = c.C, c.xc, c.wc, o.dtype == FG_BF16
        c.C, c.xc = (c.C + 1) // 2, 2 * c.xc
        c.wo, c.wc = to[0], to[1]
        for d in range(3):
            c.ws[d] = to[2 + d]
    else:
        c.narrow = half
        conv_undilate(c)
    conv_singles(c, fg_itemsize(c.dtype))


cdef bint _all_half(const FgConv *c) noexcept nogil:
    cdef FgConvPart p
    cdef int64_t i, parts = c.phases[0] * c.phases[1] * c.phases[2]
    for i in range(parts):
        conv_part(c, i, &p)
        conv_plan(&p, 4)
        if not conv_plans_half(&p):
            return False
    return True


cdef int check_conv(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *w
    cdef const FgTensor *o
    cdef const int64_t *ip = inst.ip
    cdef const int64_t *axes
    cdef int64_t D, fg, bg, seen = 0
    cdef int d, k
    cdef bint pairs, half
    cdef FgConv *c
    if inst.n_in != 2 or inst.n_out != 1 or inst.n_fp != 0 or inst.n_ip < 1:
        return fg_fail(msg, "conv: 2 inputs, 1 output and integer parameters expected")
    D = ip[0]
    if not 0 <= D <= 3 or inst.n_ip != 6 + 5 * D:
        return fg_fail(msg, "conv: 0 to 3 spatial axes with %lld parameters expected, got %lld axes and %d parameters",
                       <long long>(6 + 5 * D), <long long>D, inst.n_ip)
    x = FG_IN(inst, slots, 0)
    w = FG_IN(inst, slots, 1)
    o = FG_OUT(inst, slots, 0)
    if x.ndim != D + 2 or w.ndim != D + 2 or o.ndim != D + 2:
        return fg_fail(msg, "conv: lhs %s, rhs %s and out %s must have %lld axes", row_text(x), row_text(w), row_text(o), <long long>(D + 2))
    pairs = GEMM_PAIRS and x.dtype == w.dtype == FG_BF16 and o.dtype in (FG_BF16, FG_F32) and ip[1] == 1 and ip[2] == 1
    half = x.dtype == w.dtype == o.dtype == FG_BF16 and not pairs and (ip[1] > 1 or ip[2] > 1)
    if not pairs and not half and not (x.dtype == w.dtype == o.dtype and x.dtype in (FG_I32, FG_I64, FG_F32, FG_F64, FG_C64, FG_C128)):
        return fg_fail(msg, "conv: lhs %s, rhs %s and out %s must have one dtype: int32, int64, float32, float64 or complex",
                       row_text(x), row_text(w), row_text(o))
    if not fg_is_contiguous(o):
        return fg_fail(msg, "conv: out %s must be contiguous", row_text(o))
    fg, bg, axes = ip[1], ip[2], ip + 3
    for d in range(D + 2):
        if not 0 <= axes[d] < D + 2 or seen >> axes[d] & 1:
            return fg_fail(msg, "conv: out's axes must be a permutation")
        seen |= 1 << axes[d]
        if x.shape[d] > INT32_MAX or w.shape[d] > INT32_MAX or o.shape[d] > INT32_MAX:
            return fg_fail(msg, "conv: sizes must be below 2^31, got lhs %s, rhs %s", row_text(x), row_text(w))
    if fg < 1 or bg < 1 or (fg > 1 and bg > 1) or w.shape[0] % (fg * bg) or x.shape[1] != w.shape[1] * fg or x.shape[0] % bg:
        return fg_fail(msg, "conv: lhs %s and rhs %s do not fit %lld feature groups and %lld batch groups",
                       row_text(x), row_text(w), <long long>fg, <long long>bg)
    if o.shape[axes[0]] != x.shape[0] // bg or o.shape[axes[1]] != w.shape[0]:
        return fg_fail(msg, "conv: out %s does not fit lhs %s and rhs %s", row_text(o), row_text(x), row_text(w))
    for d in range(D):
        for k in range(4):
            if not _word(ip[5 + D + 4 * d + k]) or (k != 1 and ip[5 + D + 4 * d + k] < 1):
                return fg_fail(msg, "conv: strides and dilations must be positive and below 2^31")
    c = <FgConv *>calloc(1, sizeof(FgConv))
    if c == NULL:
        return fg_fail(msg, "conv: no memory for a plan")
    inst.extra = c
    _describe(c, x, w, o, ip)
    if half and not _all_half(c):
        return fg_fail(msg, "conv: lhs %s and rhs %s in groups must be float32", row_text(x), row_text(w))
    return 0


def in_halves(x, w, out, ip):
    """Does the kernel take bfloat16 operands in groups as they lie?  x, w: (shape, strides) each; out: a shape."""
    cdef FgTensor t[3]
    cdef FgConv c
    cdef int64_t params[21]
    cdef int64_t size = 1
    cdef int i, k
    memset(t, 0, sizeof(t))
    memset(&c, 0, sizeof(c))
    for i, (shape, strides) in enumerate((x, w)):
        t[i].dtype, t[i].ndim = FG_BF16, len(shape)
        for k in range(len(shape)):
            t[i].shape[k], t[i].strides[k] = shape[k], strides[k]
    for k in reversed(range(len(out))):
        t[2].shape[k], t[2].strides[k] = out[k], size
        size *= out[k]
    for k in range(len(ip)):
        params[k] = ip[k]
    _describe(&c, &t[0], &t[1], &t[2], params)
    return _all_half(&c)


PAIRS = bool(GEMM_PAIRS)
KERNELS = {"conv": (<size_t><void *>run_conv, <size_t><void *>check_conv)}
