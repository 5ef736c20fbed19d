"""`conv`'s check: validates an instruction and makes its plan (conv_plan.h), which conv.pyx runs.

conv: in lhs (N, C, spatial...) and rhs (O, I, spatial...) of any strides, already permuted to this order; out contiguous in an order of
its own.  ip: [spatial axes (0 to 3), feature groups, batch groups, out's batch axis, its feature axis, its spatial axes...,
(stride, low padding, lhs dilation, rhs dilation) of each spatial axis..., 1 if outputs are reversed along them].  int32, int64, float32, float64, complex64, complex128; where
PAIRS, also bfloat16 with a result in bfloat16 or float32, in groups of 16 features and more; in other groups bfloat16 where `in_halves` says so.
"""
from libc.stdint cimport INT32_MAX, int64_t
from libc.stdlib cimport calloc
from libc.string cimport memset

from math import prod

from fgrad._kernels.abi cimport *
from fgrad._kernels.row_check cimport fg_fail, row_text

cdef int64_t TURNED = 6 << 20            # bytes of image and result, at most, that gain by being turned and turned back
cdef int64_t TURNED_HALVES = 12 << 20    # of bfloat16, which is widened otherwise


cdef bint _word(int64_t v) noexcept nogil:
    """Small enough that products of two are safe."""
    return -INT32_MAX <= v <= INT32_MAX


cdef bint _in_pairs(const FgTensor *x, const FgTensor *w, int64_t fg, int64_t bg) noexcept nogil:
    """Are these operands of bfloat16 taken in pairs of input features?  In groups where those fill vectors."""
    cdef int64_t features = x.shape[0] // bg if bg > 1 else w.shape[1]
    if not GEMM_PAIRS or x.dtype != FG_BF16 or fg < 1 or bg < 1:
        return False
    return fg * bg == 1 or (w.shape[0] // (fg * bg) >= 16 and features >= 16 and w.shape[1] > 1)


cdef int _whole(const FgConv *c, int d) noexcept nogil:
    """1 where windows have one element along an axis, and outputs are where inputs are; 2 where the one window is the image; else 0."""
    if c.L[d] < 2 or c.lo[d] or c.stride[d] > 1 or c.ldil[d] > 1 or c.rdil[d] > 1:
        return 0
    if c.R[d] == 1 and c.Q[d] == c.L[d]:
        return 1
    return 2 if c.Q[d] == 1 and c.R[d] == c.L[d] else 0


cdef void _join_axes(FgConv *c) noexcept nogil:
    """Neighbouring axes that are one in memory and to the windows become one, so that rows are long."""
    cdef int d = 1, k
    while d >= 0:
        k = _whole(c, d)
        if k == 0 or k != _whole(c, d + 1) or c.xs[d] != c.xs[d + 1] * c.L[d + 1] or (
            c.os[d] != c.os[d + 1] * c.Q[d + 1] if k == 1 else c.ws[d] != c.ws[d + 1] * c.R[d + 1]):
            d -= 1
            continue
        c.L[d + 1] *= c.L[d]
        c.Q[d + 1] *= c.Q[d]
        c.R[d + 1] *= c.R[d]
        for k in range(d, -1, -1):           # those before it move up
            c.L[k] = c.L[k - 1] if k else 1
            c.Q[k] = c.Q[k - 1] if k else 1
            c.R[k] = c.R[k - 1] if k else 1
            c.xs[k] = c.xs[k - 1] if k else 0
            c.os[k] = c.os[k - 1] if k else 0
            c.ws[k] = c.ws[k - 1] if k else 0
            c.lo[k] = c.lo[k - 1] if k else 0
            c.stride[k] = c.stride[k - 1] if k else 1
            c.ldil[k] = c.ldil[k - 1] if k else 1
            c.rdil[k] = c.rdil[k - 1] if k else 1
            c.phases[k] = c.phases[k - 1] if k else 1


cdef void _describe(FgConv *c, const FgTensor *x, const FgTensor *w, const FgTensor *o, const int64_t *ip) noexcept nogil:
    """Sizes and steps from operands that fit each other."""
    cdef int64_t D = ip[0], fg = ip[1], bg = ip[2]
    cdef const int64_t *axes = ip + 3
    cdef int64_t sizes[5]
    cdef int64_t steps[5]
    cdef int64_t to[5]
    cdef int d, k
    cdef bint pairs = _in_pairs(x, w, fg, bg), half = x.dtype == FG_BF16 and not pairs
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
    _join_axes(c)
    if pairs:
        sizes[0], sizes[1], steps[0], steps[1] = c.G * c.O, c.C, c.wo, c.wc
        for d in range(3):
            sizes[2 + d], steps[2 + d] = c.R[d], c.ws[d]
        conv_pair_axes(c, sizes, steps, to)
        c.pairs, c.pair, c.wpair, c.narrow = c.C, c.xc, c.wc, o.dtype == FG_BF16
        c.C, c.xc = (c.C + 1) // 2, 2 * c.xc
        c.wo, c.wc, c.wg = to[0], to[1], c.O * to[0]
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
    pairs = w.dtype == FG_BF16 and o.dtype in (FG_BF16, FG_F32) and _in_pairs(x, w, ip[1], ip[2])
    half = x.dtype == w.dtype == o.dtype == FG_BF16 and not _in_pairs(x, w, ip[1], ip[2]) and (ip[1] > 1 or ip[2] > 1)
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


cdef void _described(FgConv *c, x, w, out, ip):
    """The plan of a convolution of x and w, (dtype's code, shape, strides) each, into a contiguous `out` (shape)."""
    cdef FgTensor t[3]
    cdef int64_t params[21]
    cdef int64_t size = 1
    cdef int i, k
    memset(t, 0, sizeof(t))
    memset(c, 0, sizeof(FgConv))
    for i, (dtype, shape, strides) in enumerate((x, w)):
        t[i].dtype, t[i].ndim = dtype, len(shape)
        for k in range(len(shape)):
            t[i].shape[k], t[i].strides[k] = shape[k], strides[k]
    for k in reversed(range(len(out))):
        t[2].shape[k], t[2].strides[k] = out[k], size
        size *= out[k]
    for k in range(len(ip)):
        params[k] = ip[k]
    _describe(c, &t[0], &t[1], &t[2], params)


def in_halves(x, w, out, ip):
    """Does the kernel take bfloat16 operands in groups as they lie?  x, w: (shape, strides) each; out: a shape."""
    cdef FgConv c
    _described(&c, (FG_BF16, *x), (FG_BF16, *w), out, ip)
    return _all_half(&c)


def _strides(shape, order):
    """Those of an array whose axes lie in this order, from the innermost on."""
    strides, size = [0] * len(shape), 1
    for axis in order:
        strides[axis], size = size, size * shape[axis]
    return strides


def gains_last(x, w, out, ip, half):
    """Would a float32 depthwise convolution, or its kernel's gradient, that turns its groups into vectors gain if they were last?

    `half`: operands of bfloat16, which lie last as they are and are cast to float32 otherwise."""
    cdef FgConv c
    cdef FgConvPart p
    cdef bint parts, sums
    D = ip[0]
    _described(&c, (FG_F32, *x), (FG_F32, *w), out, ip)
    conv_part(&c, 0, &p)
    conv_plan(&p, 4)
    if p.algo not in (CONV_LANES, CONV_LANE_SUMS):
        return False
    sums = p.algo == CONV_LANE_SUMS
    spatial = range(D + 1, 1, -1)
    turned = [ip[0], ip[1], ip[2], 0, D + 1, *range(1, D + 1), *ip[5 + D:]]
    shape = (out[ip[3]], *(out[ip[5 + k]] for k in range(D)), out[ip[4]])
    _described(&c, (FG_F32, x[0], _strides(x[0], (1, *spatial, 0) if ip[1] > 1 else (0, *spatial, 1))), (FG_F32, w[0], _strides(w[0], (0, *spatial, 1))), shape, turned)
    conv_part(&c, 0, &p)
    conv_plan(&p, 4)
    if sums:
        return bool(p.algo == CONV_GROUP_SUMS and (p.R[2] <= 8 or (half and p.Q[2] <= 3)))
    if (prod(x[0]) + prod(out)) * (2 if half else 4) > (TURNED_HALVES if half else TURNED):
        return False
    parts = c.phases[0] * c.phases[1] * c.phases[2] > 1
    return bool(p.algo == CONV_NEAR or (parts and p.algo == CONV_GROUPS))


def cuts(shape, w, out, ip):
    """Would the kernel read a float32 image of `shape` where it lies and cut its rows, if its features were last?"""
    cdef FgConv c
    cdef FgConvPart p
    strides = _strides(shape, (1, *reversed(range(2, len(shape))), 0))
    _described(&c, (FG_F32, shape, strides), (FG_F32, *w), out, ip)
    conv_part(&c, 0, &p)
    conv_plan(&p, 4)
    return bool(p.cut)


def single(x, w, out, ip):
    """Is every output of this float32 convolution a sum of its own?"""
    cdef FgConv c
    _described(&c, (FG_F32, *x), (FG_F32, *w), out, ip)
    return bool(c.single)


PAIRS = bool(GEMM_PAIRS)
