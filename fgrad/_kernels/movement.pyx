"""Data movement: copy, iota, concatenate, pad, dynamic_slice, dynamic_update_slice.  All are runs of strided copy plans."""
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport malloc

from fgrad._kernels.abi cimport (FG_BOOL, FG_EDATA, FG_I32, FG_I64, FG_IN, FG_MAXDIM, FG_OK, FG_OUT, FgInst, FgTensor, fg_is_contiguous,
                                 fg_itemsize, fg_same_shape)
from fgrad._kernels.parallel cimport parallel_for, parallel_grains

cdef extern from "fail.h" nogil:
    int fg_fail(char *msg, const char *format, ...)
    const char *fg_dtype_name(int d)
    const char *fg_shape_text(const FgTensor *t)

cdef extern from "interleave.h" nogil:
    enum:
        FG_GRAIN_BYTES
    enum:
        FG_COPY_SPREAD
    ctypedef struct FgCopyPlan:
        int32_t kind
        int64_t soff, units, grain
    ctypedef struct FgCopyJob:
        const FgCopyPlan *plan
        const char *src
        char *dst
    ctypedef struct FgIota:
        char *out
        int32_t dtype
        int64_t n, inner
    void fg_copy_plan(FgCopyPlan *p, int item, int nd, const int64_t *shape, const int64_t *ss, const int64_t *ds,
                      int64_t soff, int64_t doff)
    void fg_copy_plan_of(FgCopyPlan *p, int item, int nd, const int64_t *shape, const int64_t *ss, const int64_t *ds,
                      int64_t soff, int64_t doff, int widens)
    void fg_copy_units(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_spread_units(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_iota_range(void *ctx, int64_t begin, int64_t end, int tid)
    ctypedef struct FgSideJob:
        const char *src[16]
        char *dst
        int64_t rows, row
    bint fg_side_of(const FgCopyPlan *plans, int n, FgSideJob *job)
    void fg_side_by_side(void *ctx, int64_t begin, int64_t end, int tid)


cdef extern from "pad_rows.h" nogil:
    bint fg_may_pad_rows(const FgTensor *x, const FgTensor *out, const int64_t *ip)
    void fg_pad_rows(const FgTensor *x, const FgTensor *out, const int64_t *ip, const char *value)


cdef inline void run_plan(const FgCopyPlan *plan, const char *src, char *dst) noexcept nogil:
    cdef FgCopyJob job
    if plan.units == 0:
        return
    job.plan, job.src, job.dst = plan, src, dst
    parallel_grains(plan.units, plan.grain, fg_spread_units if plan.kind == FG_COPY_SPREAD else fg_copy_units, &job)


cdef FgCopyPlan *new_plans(FgInst *inst, int64_t n, char *msg) noexcept nogil:
    """Room for n plans, hung on the instruction."""
    inst.extra = malloc(n * sizeof(FgCopyPlan))
    if inst.extra == NULL:
        fg_fail(msg, "no memory for %lld copy plans", <long long>n)
    return <FgCopyPlan *>inst.extra


cdef int check_counts(const char *name, const FgInst *inst, int n_in, int n_out, int n_ip, char *msg) noexcept nogil:
    if inst.n_in != n_in or inst.n_out != n_out or inst.n_ip != n_ip:
        return fg_fail(msg, "%s: got %d inputs, %d outputs, %d integers; expected %d, %d, %d", name,
                       inst.n_in, inst.n_out, inst.n_ip, n_in, n_out, n_ip)
    return 0


cdef int check_dtype(const char *name, const char *what, const FgTensor *t, const FgTensor *out, char *msg) noexcept nogil:
    if t.dtype != out.dtype:
        return fg_fail(msg, "%s: %s has dtype %s, the output %s", name, what, fg_dtype_name(t.dtype), fg_dtype_name(out.dtype))
    return 0


cdef int check_out(const char *name, const FgTensor *out, char *msg) noexcept nogil:
    if not fg_is_contiguous(out):
        return fg_fail(msg, "%s: the output of shape %s must be contiguous", name, fg_shape_text(out))
    return 0


# copy: x -> out of the same shape; out may have any non-zero strides that do not overlap.

cdef int copy_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *out
    cdef FgCopyPlan *plan
    cdef int d
    if check_counts("copy", inst, 1, 1, 0, msg):
        return -1
    x = FG_IN(inst, slots, 0)
    out = FG_OUT(inst, slots, 0)
    if check_dtype("copy", "x", x, out, msg):
        return -1
    if not fg_same_shape(x, out):
        return fg_fail(msg, "copy: x has shape %s, the output %s", fg_shape_text(x), fg_shape_text(out))
    for d in range(out.ndim):
        if out.shape[d] > 1 and out.strides[d] == 0:
            return fg_fail(msg, "copy: the output of shape %s has stride 0 on axis %d", fg_shape_text(out), d)
    plan = new_plans(inst, 1, msg)
    if plan == NULL:
        return -1
    fg_copy_plan_of(plan, <int>fg_itemsize(x.dtype), x.ndim, x.shape, x.strides, out.strides, 0, 0, 1)
    return 0


cdef int copy_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgTensor *x = FG_IN(inst, slots, 0)
    cdef FgTensor *out = FG_OUT(inst, slots, 0)
    if x.data != out.data or not fg_is_contiguous(x):      # the same memory holds the copy already
        run_plan(<FgCopyPlan *>inst.extra, x.data, out.data)
    return FG_OK


# iota: ip [axis].

cdef int iota_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *out
    if check_counts("iota", inst, 0, 1, 1, msg):
        return -1
    out = FG_OUT(inst, slots, 0)
    if out.dtype == FG_BOOL:
        return fg_fail(msg, "iota: the output must not be bool")
    if inst.ip[0] < 0 or inst.ip[0] >= out.ndim:
        return fg_fail(msg, "iota: axis %lld is out of range for shape %s", <long long>inst.ip[0], fg_shape_text(out))
    return check_out("iota", out, msg)


cdef int iota_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgTensor *out = FG_OUT(inst, slots, 0)
    cdef FgIota job
    cdef int d
    job.out, job.dtype, job.n, job.inner = out.data, out.dtype, out.shape[inst.ip[0]], 1
    for d in range(<int>inst.ip[0] + 1, out.ndim):
        job.inner *= out.shape[d]
    parallel_for(out.size, 65536, fg_iota_range, &job)
    return FG_OK


# concatenate: n inputs; ip [axis].

cdef int concatenate_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *out
    cdef FgCopyPlan *plans
    cdef int i, d
    cdef int64_t axis, at = 0
    if inst.n_in < 1 or inst.n_out != 1 or inst.n_ip != 1:
        return fg_fail(msg, "concatenate: got %d inputs, %d outputs, %d integers; expected at least 1, 1, 1",
                       inst.n_in, inst.n_out, inst.n_ip)
    out = FG_OUT(inst, slots, 0)
    axis = inst.ip[0]
    if axis < 0 or axis >= out.ndim:
        return fg_fail(msg, "concatenate: axis %lld is out of range for shape %s", <long long>axis, fg_shape_text(out))
    if check_out("concatenate", out, msg):
        return -1
    for i in range(inst.n_in):
        x = FG_IN(inst, slots, i)
        if check_dtype("concatenate", "an input", x, out, msg):
            return -1
        for d in range(out.ndim):
            if x.ndim != out.ndim or (d != axis and x.shape[d] != out.shape[d]):
                return fg_fail(msg, "concatenate: input %d has shape %s, which does not fit the output %s along axis %lld", i,
                               fg_shape_text(x), fg_shape_text(out), <long long>axis)
        at += x.shape[axis]
    if at != out.shape[axis]:
        return fg_fail(msg, "concatenate: the inputs hold %lld along axis %lld, the output has shape %s", <long long>at, <long long>axis,
                       fg_shape_text(out))
    plans = new_plans(inst, inst.n_in, msg)
    if plans == NULL:
        return -1
    at = 0
    for i in range(inst.n_in):
        x = FG_IN(inst, slots, i)
        fg_copy_plan(&plans[i], <int>fg_itemsize(x.dtype), x.ndim, x.shape, x.strides, out.strides, 0, at * out.strides[axis])
        at += x.shape[axis]
    return 0


cdef int concatenate_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgCopyPlan *plans = <FgCopyPlan *>inst.extra
    cdef char *out = FG_OUT(inst, slots, 0).data
    cdef int i
    cdef FgSideJob job
    if fg_side_of(plans, inst.n_in, &job):
        job.dst = out
        for i in range(inst.n_in):
            job.src[i] = FG_IN(inst, slots, i).data + plans[i].soff
        parallel_for(job.rows, 1 + FG_GRAIN_BYTES // job.row, fg_side_by_side, &job)
        return FG_OK
    for i in range(inst.n_in):
        run_plan(&plans[i], FG_IN(inst, slots, i).data, out)
    return FG_OK


# pad: x, pad value; ip: lo, hi, interior per axis.  Plan 0 copies x; then 2 * ndim + 1 plans fill, empty where not needed.

cdef int64_t padded_size(int64_t n, const int64_t *pad) noexcept nogil:
    return n + pad[0] + pad[1] + (n - 1 if n > 0 else 0) * pad[2]


cdef int pad_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *out
    cdef const int64_t *pad
    cdef FgCopyPlan *plans
    cdef int d, item, spread = 0
    cdef int64_t soff = 0, doff = 0, first, last, step
    cdef int64_t shape[16]
    cdef int64_t ds[16]
    cdef int64_t begin[16]
    if inst.n_in != 2 or inst.n_out != 1:
        return fg_fail(msg, "pad: got %d inputs and %d outputs, expected 2 and 1", inst.n_in, inst.n_out)
    x = FG_IN(inst, slots, 0)
    out = FG_OUT(inst, slots, 0)
    if check_counts("pad", inst, 2, 1, 3 * x.ndim, msg) or check_dtype("pad", "x", x, out, msg) or check_out("pad", out, msg):
        return -1
    if check_dtype("pad", "the pad value", FG_IN(inst, slots, 1), out, msg):
        return -1
    if FG_IN(inst, slots, 1).size != 1:
        return fg_fail(msg, "pad: the pad value has shape %s, expected one element", fg_shape_text(FG_IN(inst, slots, 1)))
    if x.ndim != out.ndim:
        return fg_fail(msg, "pad: x has shape %s, the output %s", fg_shape_text(x), fg_shape_text(out))
    for d in range(x.ndim):
        pad = inst.ip + 3 * d
        if pad[2] < 0:
            return fg_fail(msg, "pad: interior padding %lld on axis %d is negative", <long long>pad[2], d)
        if padded_size(x.shape[d], pad) != out.shape[d]:
            return fg_fail(msg, "pad: axis %d of size %lld padded by (%lld, %lld, %lld) is %lld long, the output has shape %s", d,
                           <long long>x.shape[d], <long long>pad[0], <long long>pad[1], <long long>pad[2],
                           <long long>padded_size(x.shape[d], pad), fg_shape_text(out))
        step = pad[2] + 1
        # source items first..last land inside the output
        first = (-pad[0] + step - 1) // step if pad[0] < 0 else 0
        last = (out.shape[d] - 1 - pad[0]) // step if out.shape[d] - 1 - pad[0] >= 0 else -1
        last = x.shape[d] - 1 if last > x.shape[d] - 1 else last
        shape[d] = last - first + 1 if last >= first else 0
        ds[d] = out.strides[d] * step
        begin[d] = pad[0] + first * step if shape[d] else 0
        soff += first * x.strides[d]
        doff += begin[d] * out.strides[d]
        if shape[d] > 1 and step > 1:
            spread = 1
    plans = new_plans(inst, 2 * x.ndim + 2, msg)
    if plans == NULL:
        return -1
    item = <int>fg_itemsize(x.dtype)
    fg_copy_plan(&plans[0], item, x.ndim, shape, x.strides, ds, soff, doff)
    plan_fill(plans + 1, item, out, shape, begin, spread or plans[0].units == 0)
    return 0


cdef void plan_fill(FgCopyPlan *plans, int item, const FgTensor *out, const int64_t *inner, const int64_t *begin,
                    bint everything) noexcept nogil:
    """Fill plans for `out` outside the box begin .. begin + inner: two slabs an axis, or one plan for everything."""
    cdef int64_t box[16]
    cdef int64_t none[16]
    cdef int64_t nothing = 0
    cdef int64_t off = 0
    cdef int d
    for d in range(out.ndim):
        box[d], none[d] = out.shape[d], 0
    if everything:
        fg_copy_plan(plans, item, out.ndim, box, none, out.strides, 0, 0)
    else:
        fg_copy_plan(plans, item, 1, &nothing, none, none, 0, 0)
    for d in range(out.ndim):
        box[d] = 0 if everything else begin[d]
        fg_copy_plan(&plans[1 + 2 * d], item, out.ndim, box, none, out.strides, 0, off)
        box[d] = 0 if everything else out.shape[d] - begin[d] - inner[d]
        fg_copy_plan(&plans[2 + 2 * d], item, out.ndim, box, none, out.strides, 0, off + (begin[d] + inner[d]) * out.strides[d])
        box[d] = inner[d]
        off += begin[d] * out.strides[d]


cdef bint in_its_place(const FgInst *inst, FgTensor *slots) noexcept nogil:
    """True if x is the part of the output that it is to become."""
    cdef const FgTensor *x = FG_IN(inst, slots, 0)
    cdef const FgTensor *out = FG_OUT(inst, slots, 0)
    cdef int64_t at = 0
    cdef int d
    for d in range(x.ndim):
        if inst.ip[3 * d + 2] or x.strides[d] != out.strides[d]:
            return False
        at += inst.ip[3 * d] * out.strides[d]
    return x.data == out.data + at * <int64_t>fg_itemsize(x.dtype)


cdef int pad_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgCopyPlan *plans = <FgCopyPlan *>inst.extra
    cdef FgTensor *x = FG_IN(inst, slots, 0)
    cdef char *out = FG_OUT(inst, slots, 0).data
    cdef bint placed = in_its_place(inst, slots)
    cdef int i
    if not placed and fg_may_pad_rows(x, FG_OUT(inst, slots, 0), inst.ip):
        fg_pad_rows(x, FG_OUT(inst, slots, 0), inst.ip, FG_IN(inst, slots, 1).data)
        return FG_OK
    for i in range(1, 2 * x.ndim + 2):
        run_plan(&plans[i], FG_IN(inst, slots, 1).data, out)
    if not placed:
        run_plan(&plans[0], x.data, out)
    return FG_OK


# diagonals: t operands of out's shape without axis p; ip: p, number of axes along, those axes, t offsets.  Zeros, and element j of
# operand k where the index of axis p is offsets[k] + j (j in row-major order of the axes along); what falls outside of p is left out.
# Plan 0 fills, plan 1 + k writes operand k.

cdef int diagonals_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *out
    cdef FgCopyPlan *plans
    cdef int d, k, m, p, n_along
    cdef int64_t size, lo, hi, off, soff, doff, start
    cdef int64_t shape[16]
    cdef int64_t ss[16]
    cdef int64_t ds[16]
    cdef int64_t step[16]
    if inst.n_out != 1 or inst.n_ip < 3 or inst.ip[1] < 1 or inst.ip[1] > FG_MAXDIM or inst.n_ip != 2 + inst.ip[1] + inst.n_in:
        return fg_fail(msg, "diagonals: got %d inputs, %d outputs and %d integers", inst.n_in, inst.n_out, inst.n_ip)
    out = FG_OUT(inst, slots, 0)
    if check_out("diagonals", out, msg):
        return -1
    if inst.ip[0] < 0 or inst.ip[0] >= out.ndim:
        return fg_fail(msg, "diagonals: axis %lld is out of range for shape %s", <long long>inst.ip[0], fg_shape_text(out))
    p, n_along = <int>inst.ip[0], <int>inst.ip[1]
    for d in range(out.ndim):
        step[d] = 0
    size = 1
    for k in range(n_along - 1, -1, -1):
        if inst.ip[2 + k] < 0 or inst.ip[2 + k] >= out.ndim or inst.ip[2 + k] == p or step[inst.ip[2 + k]] != 0:
            return fg_fail(msg, "diagonals: axis %lld is out of range, or given twice", <long long>inst.ip[2 + k])
        step[inst.ip[2 + k]] = size * out.strides[p]
        size *= out.shape[inst.ip[2 + k]]
    for k in range(inst.n_in):
        x = FG_IN(inst, slots, k)
        if check_dtype("diagonals", "an operand", x, out, msg):
            return -1
        if x.ndim != out.ndim - 1:
            return fg_fail(msg, "diagonals: an operand has shape %s, the output %s", fg_shape_text(x), fg_shape_text(out))
        for d in range(out.ndim):
            if d != p and x.shape[d - (d > p)] != out.shape[d]:
                return fg_fail(msg, "diagonals: an operand has shape %s, the output %s", fg_shape_text(x), fg_shape_text(out))
        off = inst.ip[2 + n_along + k]
        if n_along > 1 and out.size and (off < 0 or off > out.shape[p] - size):
            return fg_fail(msg, "diagonals: %lld elements from %lld on do not fit into axis %d of shape %s", <long long>size,
                           <long long>off, p, fg_shape_text(out))
    plans = new_plans(inst, inst.n_in + 1, msg)
    if plans == NULL:
        return -1
    for d in range(out.ndim):
        ss[d] = 0
    fg_copy_plan(&plans[0], <int>fg_itemsize(out.dtype), out.ndim, out.shape, ss, out.strides, 0, 0)
    for k in range(inst.n_in):
        x = FG_IN(inst, slots, k)
        off = inst.ip[2 + n_along + k]
        lo, hi = 0, size
        if off < 0:
            lo = -off if off > -size else size
        if off > out.shape[p] - size:
            hi = out.shape[p] - off if off < out.shape[p] else 0
        soff, doff, m = 0, 0, 0
        for d in range(out.ndim):
            if d == p:
                continue
            start, shape[m] = 0, out.shape[d] if out.size else 0
            if d == inst.ip[2] and n_along == 1:
                start, shape[m] = lo, (hi - lo if hi > lo else 0)
            ss[m], ds[m] = x.strides[m], out.strides[d] + step[d]
            soff += start * x.strides[m]
            doff += start * ds[m]
            m += 1
        doff += off * out.strides[p]
        fg_copy_plan(&plans[1 + k], <int>fg_itemsize(out.dtype), m, shape, ss, ds, soff, doff)
    return 0


cdef int diagonals_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgCopyPlan *plans = <FgCopyPlan *>inst.extra
    cdef char *out = FG_OUT(inst, slots, 0).data
    cdef char zero[16]
    cdef int i
    for i in range(16):
        zero[i] = 0
    run_plan(&plans[0], zero, out)
    for i in range(inst.n_in):
        run_plan(&plans[1 + i], FG_IN(inst, slots, i).data, out)
    return FG_OK


# dynamic_slice: x, ndim starts; dynamic_update_slice: x, update, ndim starts.  Starts are clamped so that the window fits.

cdef int check_starts(const char *name, const FgInst *inst, const FgTensor *slots, int first, char *msg) noexcept nogil:
    cdef const FgTensor *s
    cdef int i
    for i in range(first, inst.n_in):
        s = FG_IN(inst, slots, i)
        if s.size != 1 or (s.dtype != FG_I32 and s.dtype != FG_I64):
            return fg_fail(msg, "%s: start %d is %s%s, expected one int32 or int64", name, i - first,
                           fg_dtype_name(s.dtype), fg_shape_text(s))
    return 0


cdef int check_window(const char *name, const FgTensor *x, const FgTensor *window, char *msg) noexcept nogil:
    cdef int d
    for d in range(x.ndim):
        if window.ndim != x.ndim or window.shape[d] > x.shape[d]:
            return fg_fail(msg, "%s: a window of shape %s does not fit into x of shape %s", name, fg_shape_text(window), fg_shape_text(x))
    return 0


cdef int64_t start_offset(const FgInst *inst, FgTensor *slots, int first, const FgTensor *x, const FgTensor *window,
                          const FgTensor *strided) noexcept nogil:
    """Items from the origin of `strided` (x's shape) to the clamped start."""
    cdef int64_t off = 0, at, top
    cdef FgTensor *s
    cdef int d
    for d in range(x.ndim):
        s = FG_IN(inst, slots, first + d)
        at = (<int32_t *>s.data)[0] if s.dtype == FG_I32 else (<int64_t *>s.data)[0]
        top = x.shape[d] - window.shape[d]
        at = 0 if at < 0 else (top if at > top else at)
        off += at * strided.strides[d]
    return off


cdef int dynamic_slice_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *out
    cdef FgCopyPlan *plan
    if inst.n_in < 1 or inst.n_out != 1:
        return fg_fail(msg, "dynamic_slice: got %d inputs and %d outputs, expected x, its starts, and 1", inst.n_in, inst.n_out)
    x = FG_IN(inst, slots, 0)
    out = FG_OUT(inst, slots, 0)
    if check_counts("dynamic_slice", inst, 1 + x.ndim, 1, 0, msg) or check_dtype("dynamic_slice", "x", x, out, msg):
        return -1
    if x.ndim != out.ndim:
        return fg_fail(msg, "dynamic_slice: x has shape %s, the output %s", fg_shape_text(x), fg_shape_text(out))
    if check_out("dynamic_slice", out, msg) or check_window("dynamic_slice", x, out, msg):
        return -1
    if check_starts("dynamic_slice", inst, slots, 1, msg):
        return -1
    plan = new_plans(inst, 1, msg)
    if plan == NULL:
        return -1
    fg_copy_plan(plan, <int>fg_itemsize(x.dtype), x.ndim, out.shape, x.strides, out.strides, 0, 0)
    return 0


cdef int dynamic_slice_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgTensor *x = FG_IN(inst, slots, 0)
    cdef FgTensor *out = FG_OUT(inst, slots, 0)
    cdef int64_t off
    if out.size == 0:
        return FG_OK
    off = start_offset(inst, slots, 1, x, out, x)
    run_plan(<FgCopyPlan *>inst.extra, x.data + off * fg_itemsize(x.dtype), out.data)
    return FG_OK


cdef int dynamic_update_slice_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *update
    cdef const FgTensor *out
    cdef FgCopyPlan *plans
    cdef int item
    if inst.n_in < 2 or inst.n_out != 1:
        return fg_fail(msg, "dynamic_update_slice: got %d inputs and %d outputs, expected x, update, starts, and 1", inst.n_in, inst.n_out)
    x = FG_IN(inst, slots, 0)
    update = FG_IN(inst, slots, 1)
    out = FG_OUT(inst, slots, 0)
    if check_counts("dynamic_update_slice", inst, 2 + x.ndim, 1, 0, msg) or check_dtype("dynamic_update_slice", "x", x, out, msg):
        return -1
    if check_dtype("dynamic_update_slice", "update", update, out, msg) or check_out("dynamic_update_slice", out, msg):
        return -1
    if not fg_same_shape(x, out):
        return fg_fail(msg, "dynamic_update_slice: x has shape %s, the output %s", fg_shape_text(x), fg_shape_text(out))
    if update.ndim != x.ndim:
        return fg_fail(msg, "dynamic_update_slice: x has shape %s, update %s", fg_shape_text(x), fg_shape_text(update))
    if check_window("dynamic_update_slice", x, update, msg) or check_starts("dynamic_update_slice", inst, slots, 2, msg):
        return -1
    plans = new_plans(inst, 2, msg)
    if plans == NULL:
        return -1
    item = <int>fg_itemsize(x.dtype)
    fg_copy_plan(&plans[0], item, x.ndim, x.shape, x.strides, out.strides, 0, 0)
    fg_copy_plan(&plans[1], item, x.ndim, update.shape, update.strides, out.strides, 0, 0)
    return 0


cdef int dynamic_update_slice_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgTensor *x = FG_IN(inst, slots, 0)
    cdef FgTensor *update = FG_IN(inst, slots, 1)
    cdef FgTensor *out = FG_OUT(inst, slots, 0)
    cdef FgCopyPlan *plans = <FgCopyPlan *>inst.extra
    cdef int64_t off
    if x.data != out.data:
        run_plan(&plans[0], x.data, out.data)
    elif not fg_is_contiguous(x):
        return FG_EDATA                    # in place needs x to lie where out lies
    if update.size:
        off = start_offset(inst, slots, 2, x, update, out)
        run_plan(&plans[1], update.data, out.data + off * fg_itemsize(x.dtype))
    return FG_OK


KERNELS = {
    "copy": (<size_t><void *>copy_run, <size_t><void *>copy_check),
    "iota": (<size_t><void *>iota_run, <size_t><void *>iota_check),
    "concatenate": (<size_t><void *>concatenate_run, <size_t><void *>concatenate_check),
    "pad": (<size_t><void *>pad_run, <size_t><void *>pad_check),
    "diagonals": (<size_t><void *>diagonals_run, <size_t><void *>diagonals_check),
    "dynamic_slice": (<size_t><void *>dynamic_slice_run, <size_t><void *>dynamic_slice_check),
    "dynamic_update_slice": (<size_t><void *>dynamic_update_slice_run, <size_t><void *>dynamic_update_slice_check),
}
