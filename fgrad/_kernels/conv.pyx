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

cdef struct PackW:
    const FgConv *c
    const FgConvPart *p
    const char *src
    char *dst
    int failed


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
    cdef char *taps = pool_alloc(k.p.R[0] * k.p.R[1] * k.p.R[2] * CONV_PART * GEMM_NV * GEMM_BYTES)
    if taps == NULL:
        k.failed = 1
        return
    conv_winograd_w(k.p, begin, end, k.src, k.dst, taps)
    pool_free(taps)


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


cdef bint _together(const FgConvPart *p) noexcept nogil:
    return p.algo == CONV_LANES or p.algo == CONV_LANE_SUMS


cdef int64_t _panels(const FgConvPart *p) noexcept nogil:
    """Into how many pieces the kernel of register tiles falls."""
    cdef int64_t lanes = GEMM_BYTES // fg_itemsize(p.c.dtype)
    if _together(p):
        return conv_ceil(p.c.G, lanes) * p.R[0] * p.R[1] * p.R[2]
    return p.c.G * (gemm_panels(p.c.O) if p.algo == CONV_SPANS else conv_ceil(p.c.O, GEMM_NV * lanes))


cdef char *_pack_kernel(FgConvPart *p) noexcept nogil:
    """The kernel as register tiles read it, or NULL without memory for it."""
    cdef const FgConv *c = p.c
    cdef int64_t item = fg_itemsize(c.dtype), pieces = _panels(p), taps = p.R[0] * p.R[1] * p.R[2], blocks = conv_ceil(c.C, CONV_PART)
    cdef int64_t groups = conv_ceil(c.G, GEMM_BYTES // item) if _together(p) else c.G, each = c.G * taps * c.C * c.O + 1
    cdef PackW k
    k.p, k.src, k.failed = p, p.w, 0
    k.dst = pool_alloc(groups * (p.ww if p.algo == CONV_WINOGRAD else p.wg) * item + 64)
    if k.dst == NULL:
        return NULL
    if p.algo != CONV_WINOGRAD:
        parallel_for(pieces, 1 + 30000 * pieces // each, _pack_panels_body, &k)
        return k.dst
    parallel_for(pieces * blocks, 1 + 15000 * pieces * blocks // each, _winograd_w_body, &k)
    if k.failed:
        pool_free(k.dst)
        return NULL
    return k.dst


cdef void _run_whole(FgConvPart *p) noexcept nogil:
    """Winograd's phases over all tiles of some images, then of the next: inputs' matrices, products, outputs."""
    cdef const FgConv *c = p.c
    cdef int64_t nr = GEMM_NV * GEMM_BYTES // 4, panels = conv_ceil(c.O, nr), matrices = 16 if p.R[1] > 1 else 4
    cdef int64_t image = p.block[0] * p.block[1], tiles = image * p.images, inputs = p.segments * c.C
    p.part = pool_alloc(4 * c.G * matrices * (inputs * tiles + nr + panels * (tiles + 1) * nr))
    p.failed = p.part == NULL
    while p.b0 < c.B and not p.failed:
        p.phase = 1
        parallel_for(c.G * p.images, 1 + 30000 // (matrices * image * inputs // 8 + 50), _dense_body, p)
        p.phase = 2
        if not p.failed:
            parallel_for(c.G * matrices * panels, 1 + 30000 // (tiles * inputs * GEMM_NV // 3 + 50), _dense_body, p)
        p.phase = 3
        if not p.failed:
            parallel_for(c.G * p.images * panels, 1 + 30000 // (matrices * image * nr // 8 + 50), _dense_body, p)
        p.b0 += p.images
        p.images = min(p.images, c.B - p.b0)
    pool_free(p.part)


cdef void _run_dense(FgConvPart *p) noexcept nogil:
    """Blocks of rows in register tiles, whose kernel is packed, or sums."""
    cdef const FgConv *c = p.c
    cdef bint together = _together(p), sums = p.algo in (CONV_SUMS, CONV_LANE_SUMS)
    cdef int64_t item = fg_itemsize(c.dtype), lanes = GEMM_BYTES // item, taps = p.R[0] * p.R[1] * p.R[2], units, cost
    cdef int64_t groups = conv_ceil(c.G, lanes) if together else c.G, features = c.O * lanes if together else c.O
    cdef int64_t positions = p.Q[0] * p.Q[1] * p.Q[2]
    cdef double work = <double>groups * positions * c.B * taps * c.C * conv_ceil(features, 16)
    if sums:
        p.part = pool_alloc(p.nk * groups * positions * c.B * features * item + 64)
        if p.part == NULL:
            p.failed = 1
            return
        units = p.nk * groups if together else p.nk * _panels(p) * p.Q[0] * p.Q[1] * (1 if p.s[2] == 1 else p.Q[2])
    else:
        units = groups * p.Q[0] * p.blocks[0] * p.blocks[1] * (conv_ceil(c.B, p.images) if p.algo == CONV_WINOGRAD else c.B)
    cost = <int64_t>(work / units / 3)                                   # nanoseconds of a unit, roughly
    parallel_for(units, 1 + 30000 // (cost + 100), _dense_body, p)
    if sums and not p.failed:
        units = groups * (conv_ceil(c.O, lanes) if p.turned else positions * (c.B if together else conv_ceil(c.B, CONV_PLACE)))
        parallel_for(units, 1 + units * 30000 // (positions * p.nk * c.B * c.O * c.G + 1), _place_body, p)
    pool_free(p.part)


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
    """Part by part; those that read the same kernel pack it once. True without memory for it."""
    cdef FgConvPart p, before
    cdef char *packed = NULL
    cdef int64_t i
    if _all_planes(c, x, w, out):
        return False
    for i in range(c.phases[0] * c.phases[1] * c.phases[2]):
        _plan(c, i, x, w, out, &p)
        if p.algo == CONV_PANELS:
            _run_panels(&p)
        elif p.algo in (CONV_DENSE, CONV_FEW, CONV_SPANS, CONV_WINOGRAD, CONV_LANES):
            if packed == NULL or not conv_same_kernel(&p, &before):
                pool_free(packed)
                packed = _pack_kernel(&p)
            before = p
            p.w = packed
            p.failed = packed == NULL
            if not p.failed and p.whole:
                _run_whole(&p)
            elif not p.failed:
                _run_dense(&p)
        elif p.algo in (CONV_SUMS, CONV_LANE_SUMS):
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
            break
    pool_free(packed)
    return p.failed


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
