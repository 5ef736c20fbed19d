"""Windows.

window_fold: in x, contiguous; ip [kind (0 sum, 1 prod, 2 max, 3 min), axis, window, stride, low padding, base dilation, window dilation];
    out has x's shape but along `axis`.  Padding counts as the identity.  All dtypes but bool and 16-bit floats; complex only for sum and prod.
window_planes: as window_fold along two neighbouring axes; ip [kind, first of the two, (window, stride, low padding, window dilation) of both].
window_select: in a and x, contiguous float32 or float64; ip [what (0 gather, 1 scatter, 2 extremum, 3 sum), largest, (window, stride,
    low padding, base dilation, window dilation) of each axis].  Each window of x selects its largest (smallest) element, the first of
    equals.  Gather: a has x's shape, and out[window] = a[selected]; scatter: a has the windows' shape, and out, of x's shape, sums
    a[window] at [selected].  Extremum and sum: in x alone, out the windows; short ones, without base dilation, along the last axis too.
window_apart: windows of w1 x w2 elements side by side along two neighbouring axes, from their first elements on, contiguous float32 or
    float64; ip [what (0 sum, 1 extremum, 2 spread, 3 scatter, 4 gather), largest, first of the two axes, w1, w2].  Sum and extremum: in x,
    out the windows.  Spread: in the windows, out has them at each of their elements.  Scatter and gather: as window_select, in a and x.
    Elements in no window are 0.
"""
from libc.stdint cimport INT32_MAX, int64_t
from libc.stdlib cimport calloc

from fgrad._kernels.abi cimport *
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport parallel_for
from fgrad._kernels.row_check cimport fg_fail, row_dense, row_text

cdef extern from "pool.h" nogil:
    enum: POOL_TILE, POOL_PITCH, POOL_PROD, POOL_MIN, PICK_TAPS, PICK_GATHER, PICK_SCATTER, PICK_EXTREMUM, PICK_SUM
    ctypedef struct FgPool:
        int64_t outer, n, m, inner, tile, tiles, rows, pitch
        int64_t window, stride, lo, bdil, wdil
        int kind, blocks, dtype
    ctypedef struct FgPlanes:
        FgPool down, along
        int64_t rows, before
    ctypedef struct FgSelect:
        int64_t outer, inner, tiles, in_size, out_size, taps
        int64_t n[16]
        int64_t m[16]
        int64_t step[16]
        int64_t window[16]
        int64_t stride[16]
        int64_t lo[16]
        int64_t bdil[16]
        int64_t wdil[16]
        int64_t tile, planes, each, rows
        int nd, scatter, op, largest, dtype, pick
    enum: APART_SUM, APART_EXTREMUM, APART_SPREAD, APART_SCATTER, APART_GATHER, APART_TAPS
    ctypedef struct FgApart:
        int64_t outer, n1, m1, w1, n2, m2, w2, inner, rows
        int op, largest, dtype
    void pool_apart(const FgApart *p, const char *a, const char *x, char *out, int64_t begin, int64_t end, char *buf)
    void pool_fold(const FgPool *p, const char *x, char *out, int64_t begin, int64_t end, char *buf)
    void pool_planes(const FgPlanes *p, const char *x, char *out, int64_t begin, int64_t end, char *buf)
    int64_t pool_pick_size(const FgSelect *p)
    void pool_select(const FgSelect *p, const char *a, const char *x, char *out, int64_t begin, int64_t end, char *buf)

cdef struct Call:
    const void *plan
    const char *a
    const char *x
    char *out
    int failed


cdef void _fold_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef Call *k = <Call *>ctx
    cdef const FgPool *p = <const FgPool *>k.plan
    cdef char *buf = NULL
    if p.blocks or p.pitch:
        buf = pool_alloc((2 * ((p.m - 1) * p.stride + p.window) * p.tile if p.blocks else 3 * p.rows * p.pitch) * fg_itemsize(p.dtype))
        if buf == NULL:
            k.failed = 1
            return
    pool_fold(p, k.x, k.out, begin, end, buf)
    pool_free(buf)


cdef void _select_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef Call *k = <Call *>ctx
    cdef const FgSelect *p = <const FgSelect *>k.plan
    cdef char *buf = NULL
    if p.pick and p.inner == 1:
        buf = pool_alloc(pool_pick_size(p) * fg_itemsize(p.dtype))
        if buf == NULL:
            k.failed = 1
            return
    pool_select(p, k.a, k.x, k.out, begin, end, buf)
    pool_free(buf)


cdef int run_fold(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef const FgPool *p = <const FgPool *>inst.extra
    cdef Call k
    if FG_OUT(inst, slots, 0).size == 0:
        return FG_OK
    k.plan, k.failed = p, 0
    k.x, k.out = FG_IN(inst, slots, 0).data, FG_OUT(inst, slots, 0).data
    parallel_for((p.outer + p.rows - 1) // p.rows * p.tiles, 1 + 30000 // (p.rows * p.m * min(p.window, <int64_t>8) * p.tile + 1), _fold_body, &k)
    return FG_EMEM if k.failed else FG_OK


cdef int check_fold(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *o
    cdef FgPool *p
    cdef int64_t axis, length
    cdef int d
    if inst.n_in != 1 or inst.n_out != 1 or inst.n_ip != 7 or inst.n_fp != 0:
        return fg_fail(msg, "window_fold: 1 input, 1 output and 7 integer parameters expected")
    x = FG_IN(inst, slots, 0)
    o = FG_OUT(inst, slots, 0)
    axis = inst.ip[1]
    if not 0 <= inst.ip[0] <= POOL_MIN or x.dtype in (FG_BOOL, FG_F16, FG_BF16) or (x.dtype >= FG_C64 and inst.ip[0] > POOL_PROD):
        return fg_fail(msg, "window_fold: kind %lld of %s is not known", <long long>inst.ip[0], row_text(x))
    if row_dense(inst, slots, "window_fold", 0, x.dtype, msg) or row_dense(inst, slots, "window_fold", 1, x.dtype, msg):
        return -1
    if not 0 <= axis < x.ndim or o.ndim != x.ndim:
        return fg_fail(msg, "window_fold: axis %lld of %s into %s", <long long>axis, row_text(x), row_text(o))
    for d in range(x.ndim):
        if d != axis and o.shape[d] != x.shape[d]:
            return fg_fail(msg, "window_fold: %s into %s must differ along axis %lld only", row_text(x), row_text(o), <long long>axis)
    for d in range(2, 7):
        if not -INT32_MAX <= inst.ip[d] <= INT32_MAX or (d != 4 and inst.ip[d] < 1):
            return fg_fail(msg, "window_fold: window, stride and dilations must be positive and below 2^31")
    if x.shape[axis] > INT32_MAX or o.shape[axis] > INT32_MAX:
        return fg_fail(msg, "window_fold: axis %lld of %s is too long", <long long>axis, row_text(x))
    p = <FgPool *>calloc(1, sizeof(FgPool))
    if p == NULL:
        return fg_fail(msg, "window_fold: no memory for a plan")
    inst.extra = p
    p.kind, p.dtype, p.n, p.m = <int>inst.ip[0], x.dtype, x.shape[axis], o.shape[axis]
    p.window, p.stride, p.lo, p.bdil, p.wdil = inst.ip[2], inst.ip[3], inst.ip[4], inst.ip[5], inst.ip[6]
    p.outer = p.inner = 1
    for d in range(x.ndim):
        if d < axis:
            p.outer *= x.shape[d]
        elif d > axis:
            p.inner *= x.shape[d]
    length = (p.m - 1) * p.stride + p.window
    p.blocks = p.window >= 12 and p.bdil == 1 and p.wdil == 1 and p.window * p.m > 4 * length and length <= INT32_MAX
    p.rows = 1
    length = ((p.m - 1) * p.stride + (p.window - 1) * p.wdil + p.stride) // p.stride * p.stride
    if p.inner == 1 and not p.blocks and 0 < length <= min(<int64_t>POOL_PITCH, 2 * p.m * p.stride):      # what lies between windows is computed too
        p.pitch = length
        p.rows = max(<int64_t>1, min(p.outer, POOL_PITCH // 4 // length))
    p.tile = max(<int64_t>1, min(p.inner, <int64_t>(16 if p.blocks else 512)))
    p.tiles = (p.inner + p.tile - 1) // p.tile
    return 0


cdef void _planes_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef Call *k = <Call *>ctx
    cdef const FgPlanes *p = <const FgPlanes *>k.plan
    cdef char *buf = pool_alloc(p.along.n * p.along.inner * fg_itemsize(p.down.dtype))
    if buf == NULL:
        k.failed = 1
        return
    pool_planes(p, k.x, k.out, begin, end, buf)
    pool_free(buf)


cdef int run_planes(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef const FgPlanes *p = <const FgPlanes *>inst.extra
    cdef Call k
    if FG_OUT(inst, slots, 0).size == 0:
        return FG_OK
    k.plan, k.failed = p, 0
    k.x, k.out = FG_IN(inst, slots, 0).data, FG_OUT(inst, slots, 0).data
    parallel_for(p.down.outer * ((p.down.m + p.rows - 1) // p.rows),
                 1 + 30000 // (p.rows * (min(p.down.window, <int64_t>8) * p.down.inner + min(p.along.window, <int64_t>8) * p.along.m * p.along.inner) + 1),
                 _planes_body, &k)
    return FG_EMEM if k.failed else FG_OK


cdef int check_planes(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *o
    cdef FgPlanes *p
    cdef FgPool *each
    cdef int64_t axis, length
    cdef int d, k
    if inst.n_in != 1 or inst.n_out != 1 or inst.n_ip != 10 or inst.n_fp != 0:
        return fg_fail(msg, "window_planes: 1 input, 1 output and 10 integer parameters expected")
    x = FG_IN(inst, slots, 0)
    o = FG_OUT(inst, slots, 0)
    axis = inst.ip[1]
    if not 0 <= inst.ip[0] <= POOL_MIN or x.dtype in (FG_BOOL, FG_F16, FG_BF16) or (x.dtype >= FG_C64 and inst.ip[0] > POOL_PROD):
        return fg_fail(msg, "window_planes: kind %lld of %s is not known", <long long>inst.ip[0], row_text(x))
    if row_dense(inst, slots, "window_planes", 0, x.dtype, msg) or row_dense(inst, slots, "window_planes", 1, x.dtype, msg):
        return -1
    if not 0 <= axis < x.ndim - 1 or o.ndim != x.ndim:
        return fg_fail(msg, "window_planes: axis %lld and the next of %s into %s", <long long>axis, row_text(x), row_text(o))
    for d in range(x.ndim):
        if d != axis and d != axis + 1 and o.shape[d] != x.shape[d]:
            return fg_fail(msg, "window_planes: %s into %s must differ along two axes only", row_text(x), row_text(o))
        if x.shape[d] > INT32_MAX or o.shape[d] > INT32_MAX:
            return fg_fail(msg, "window_planes: %s into %s is too long", row_text(x), row_text(o))
    for d in range(2, 10):
        if not -INT32_MAX <= inst.ip[d] <= INT32_MAX or (d != 4 and d != 8 and inst.ip[d] < 1):
            return fg_fail(msg, "window_planes: window, stride and dilation must be positive and below 2^31")
    p = <FgPlanes *>calloc(1, sizeof(FgPlanes))
    if p == NULL:
        return fg_fail(msg, "window_planes: no memory for a plan")
    inst.extra = p
    for k in range(2):
        each = &p.down if k == 0 else &p.along
        each.kind, each.dtype, each.n, each.m = <int>inst.ip[0], x.dtype, x.shape[axis + k], o.shape[axis + k]
        each.window, each.stride, each.lo, each.wdil = inst.ip[2 + 4 * k], inst.ip[3 + 4 * k], inst.ip[4 + 4 * k], inst.ip[5 + 4 * k]
        each.outer = each.inner = each.bdil = 1
        for d in range(x.ndim):
            if d < axis:
                each.outer *= x.shape[d]
            elif d > axis + k:
                each.inner *= x.shape[d]
    p.rows = max(<int64_t>1, min(p.down.m, 4096 // max(<int64_t>1, p.down.inner)))
    each = &p.along
    length = (each.m - 1) * each.stride + (each.window - 1) * each.wdil + 1 - each.lo
    if length > INT32_MAX:
        return fg_fail(msg, "window_planes: windows of %s reach too far", row_text(x))
    p.before = max(<int64_t>0, each.lo)
    each.n = p.before + max(each.n, length)
    each.lo -= p.before
    return 0


cdef int run_select(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef const FgSelect *p = <const FgSelect *>inst.extra
    cdef Call k
    if FG_OUT(inst, slots, 0).size == 0:
        return FG_OK
    k.plan, k.failed = p, 0
    k.a, k.x, k.out = FG_IN(inst, slots, 0).data, FG_IN(inst, slots, inst.n_in - 1).data, FG_OUT(inst, slots, 0).data
    parallel_for((p.outer + p.planes - 1) // p.planes * p.tiles,
                 1 + 20000 * (16 if p.pick else 1) // (p.planes * p.out_size * min(p.taps, <int64_t>1000) * min(p.inner, p.tile) + 1), _select_body, &k)
    return FG_EMEM if k.failed else FG_OK


cdef int check_select(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *a
    cdef const FgTensor *x
    cdef const FgTensor *o
    cdef const FgTensor *windows
    cdef const int64_t *w
    cdef FgSelect *p
    cdef int d, k, op, first, last
    cdef int64_t step = 1
    if inst.n_ip < 2 or inst.n_out != 1 or inst.n_fp != 0 or not PICK_GATHER <= inst.ip[0] <= PICK_SUM:
        return fg_fail(msg, "window_select: 1 output and integer parameters expected")
    op = <int>inst.ip[0]
    if inst.n_in != (2 if op <= PICK_SCATTER else 1):
        return fg_fail(msg, "window_select: %d inputs are not those of operation %d", inst.n_in, op)
    a = FG_IN(inst, slots, 0)
    x = FG_IN(inst, slots, inst.n_in - 1)
    o = FG_OUT(inst, slots, 0)
    if row_dense(inst, slots, "window_select", 0, -1, msg):
        return -1
    for k in range(1, inst.n_in + 1):
        if row_dense(inst, slots, "window_select", k, a.dtype, msg):
            return -1
    windows = a if op == PICK_SCATTER else o
    if inst.n_ip != 2 + 5 * x.ndim or windows.ndim != x.ndim:
        return fg_fail(msg, "window_select: %s, %s and %s must have one number of axes, with 5 parameters each",
                       row_text(a), row_text(x), row_text(o))
    if not fg_same_shape(x, o if op == PICK_SCATTER else a):
        return fg_fail(msg, "window_select: %s and %s must have one shape", row_text(x), row_text(o if op == PICK_SCATTER else a))
    for d in range(x.ndim):
        if x.shape[d] > INT32_MAX or windows.shape[d] > INT32_MAX:
            return fg_fail(msg, "window_select: %s is too long", row_text(x))
        for k in range(5):
            if not -INT32_MAX <= inst.ip[2 + 5 * d + k] <= INT32_MAX or (k != 2 and inst.ip[2 + 5 * d + k] < 1):
                return fg_fail(msg, "window_select: windows, strides and dilations must be positive and below 2^31")
    p = <FgSelect *>calloc(1, sizeof(FgSelect))
    if p == NULL:
        return fg_fail(msg, "window_select: no memory for a plan")
    inst.extra = p
    p.scatter, p.op, p.largest, p.dtype = op == PICK_SCATTER, op, inst.ip[1] != 0, x.dtype
    first, last = 0, x.ndim
    while first < last and _is_free(inst.ip + 2 + 5 * first, x.shape[first], windows.shape[first]):
        first += 1
    while last > first and _is_free(inst.ip + 2 + 5 * (last - 1), x.shape[last - 1], windows.shape[last - 1]):
        last -= 1
    p.outer = p.inner = p.in_size = p.out_size = p.taps = 1
    for d in range(x.ndim):
        if d < first:
            p.outer *= x.shape[d]
        elif d >= last:
            p.inner *= x.shape[d]
    p.nd = last - first
    for d in range(last - 1, first - 1, -1):
        k = d - first
        w = inst.ip + 2 + 5 * d
        p.n[k], p.m[k], p.step[k] = x.shape[d], windows.shape[d], step
        p.window[k], p.stride[k], p.lo[k], p.bdil[k], p.wdil[k] = w[0], w[1], w[2], w[3], w[4]
        step *= p.n[k]
        p.in_size *= p.n[k]
        p.out_size *= p.m[k]
        if p.taps > INT32_MAX // p.window[k]:
            return fg_fail(msg, "window_select: windows must have fewer than 2^31 elements")
        p.taps *= p.window[k]
    _plan_pick(p)
    if op >= PICK_EXTREMUM and p.out_size > 0 and p.outer > 0 and (not p.pick or p.inner > 1):
        return fg_fail(msg, "window_select: windows of %s do not run along its last axis, or are too long", row_text(x))
    p.tiles = (p.inner + p.tile - 1) // p.tile
    return 0


cdef void _plan_pick(FgSelect *p) noexcept nogil:
    """Are elements selected by vectors, and how many lanes go together?"""
    cdef int d, last = p.nd - 1
    cdef int64_t size
    p.tile, p.planes, p.each, p.rows = POOL_TILE, 1, 1, 1
    if p.nd == 0 or p.taps > PICK_TAPS or p.out_size == 0 or p.outer == 0:
        return
    for d in range(p.nd):
        if p.bdil[d] != 1:
            return
        if d < last:
            p.rows *= p.n[d]
    p.each = ((p.m[last] - 1) * p.stride[last] + (p.window[last] - 1) * p.wdil[last]) // p.stride[last] + 1
    size = max(<int64_t>1, p.rows) * p.stride[last] * p.each
    p.pick = 1
    if p.inner > 1:
        if p.outer * ((p.inner + POOL_TILE - 1) // POOL_TILE) < 8:
            p.tile = 16
    elif size > 1 << 24 or p.each > 4 * p.m[last] + 64:           # padded or spread over much more than the image
        p.pick = 0
    else:
        p.planes = max(<int64_t>1, min(min(256 // p.each, 65536 // size), p.outer // 8))


cdef bint _is_free(const int64_t *w, int64_t n, int64_t m) noexcept nogil:
    """Windows of one element along this axis."""
    return n == m and w[0] == 1 and w[1] == 1 and w[2] == 0 and w[3] == 1


cdef void _apart_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef Call *k = <Call *>ctx
    cdef const FgApart *p = <const FgApart *>k.plan
    cdef char *buf = NULL
    if p.inner < 16 and p.w2 > 1:
        buf = pool_alloc((p.rows * p.n2 * p.inner + (2 * p.rows * p.w1 * p.w2 * p.m2 if p.inner == 1 else 0)) * fg_itemsize(p.dtype))
        if buf == NULL:
            k.failed = 1
            return
    pool_apart(p, k.a, k.x, k.out, begin, end, buf)
    pool_free(buf)


cdef int run_apart(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef const FgApart *p = <const FgApart *>inst.extra
    cdef Call k
    if FG_OUT(inst, slots, 0).size == 0:
        return FG_OK
    k.plan, k.failed = p, 0
    k.a = k.x = FG_IN(inst, slots, 0).data
    if inst.n_in == 2:
        k.x = FG_IN(inst, slots, 1).data
    k.out = FG_OUT(inst, slots, 0).data
    parallel_for(p.outer * ((p.m1 + p.rows - 1) // p.rows), 1 + 60000 // (p.rows * p.w1 * p.n2 * p.inner + 1), _apart_body, &k)
    return FG_EMEM if k.failed else FG_OK


cdef int check_apart(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *windows
    cdef const FgTensor *o
    cdef FgApart *p
    cdef int64_t axis, size
    cdef int d, op
    if inst.n_ip != 5 or inst.n_out != 1 or inst.n_fp != 0 or not 0 <= inst.ip[0] <= APART_GATHER:
        return fg_fail(msg, "window_apart: 1 output and 5 integer parameters expected")
    op = <int>inst.ip[0]
    if inst.n_in != (2 if op >= APART_SCATTER else 1):
        return fg_fail(msg, "window_apart: %d inputs are not those of operation %d", inst.n_in, op)
    o = FG_OUT(inst, slots, 0)
    x = o if op == APART_SPREAD else FG_IN(inst, slots, inst.n_in - 1)
    windows = FG_IN(inst, slots, 0) if op == APART_SPREAD or op == APART_SCATTER else o
    if row_dense(inst, slots, "window_apart", 0, -1, msg):
        return -1
    for d in range(1, inst.n_in + 1):
        if row_dense(inst, slots, "window_apart", d, FG_IN(inst, slots, 0).dtype, msg):
            return -1
    if op >= APART_SCATTER and not fg_same_shape(x, o if op == APART_SCATTER else FG_IN(inst, slots, 0)):
        return fg_fail(msg, "window_apart: %s and %s must have one shape", row_text(x), row_text(o if op == APART_SCATTER else FG_IN(inst, slots, 0)))
    axis = inst.ip[2]
    if x.ndim != windows.ndim or not 0 <= axis < x.ndim - 1:
        return fg_fail(msg, "window_apart: windows %s over axis %lld and the next of %s", row_text(windows), <long long>axis, row_text(x))
    for d in range(x.ndim):
        if d < axis or d > axis + 1:
            if x.shape[d] != windows.shape[d]:
                return fg_fail(msg, "window_apart: %s and windows %s must differ along two axes only", row_text(x), row_text(windows))
        elif not (1 <= inst.ip[3 + d - axis] <= APART_TAPS and 1 <= windows.shape[d] <= x.shape[d] // inst.ip[3 + d - axis]):
            return fg_fail(msg, "window_apart: windows %s of %lld elements do not lie side by side in %s", row_text(windows),
                           <long long>inst.ip[3 + d - axis], row_text(x))
    if inst.ip[3] * inst.ip[4] > APART_TAPS:
        return fg_fail(msg, "window_apart: windows must have at most %d elements", APART_TAPS)
    p = <FgApart *>calloc(1, sizeof(FgApart))
    if p == NULL:
        return fg_fail(msg, "window_apart: no memory for a plan")
    inst.extra = p
    p.op, p.largest, p.dtype, p.w1, p.w2 = op, inst.ip[1] != 0, x.dtype, inst.ip[3], inst.ip[4]
    p.n1, p.m1, p.n2, p.m2 = x.shape[axis], windows.shape[axis], x.shape[axis + 1], windows.shape[axis + 1]
    p.outer = p.inner = 1
    for d in range(x.ndim):
        if d < axis:
            p.outer *= x.shape[d]
        elif d > axis + 1:
            p.inner *= x.shape[d]
    if p.n1 == p.m1 * p.w1:                      # planes that follow each other are one
        p.n1 *= p.outer
        p.m1 *= p.outer
        p.outer = 1
    size = p.w1 * p.n2 * p.inner
    p.rows = max(<int64_t>1, min(p.m1, 2048 // max(<int64_t>1, size)))
    return 0


KERNELS = {
    "window_apart": (<size_t><void *>run_apart, <size_t><void *>check_apart),
    "window_fold": (<size_t><void *>run_fold, <size_t><void *>check_fold),
    "window_planes": (<size_t><void *>run_planes, <size_t><void *>check_planes),
    "window_select": (<size_t><void *>run_select, <size_t><void *>check_select),
}
