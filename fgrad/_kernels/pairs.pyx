"""pairs: sums over differences of all pairs of rows, batch by batch. Outputs are contiguous, all of one dtype, float32 or float64.

pair_distances: in x (b, m, k), y (b, n, k) and perhaps factors of the columns (b, 1, k); out (b, m, n); fp [a factor where these are not given];
                ip [1: absolute values, not squares, are added up; + 2: with factors before that, or + 4: after it]
pair_moments:   in w (b, m, n), x (b, m, k), y (b, n, k), rows of x and y contiguous; out (b, m, k); fp [what the sums are multiplied by]
"""
from libc.stdint cimport int64_t

from fgrad._kernels.abi cimport FG_F32, FG_F64, FG_IN, FG_OK, FG_OUT, FgInst, FgTensor, fg_is_contiguous
from fgrad._kernels.parallel cimport parallel_of, range_body

cdef extern from "fail.h" nogil:
    int fg_fail(char *msg, const char *format, ...)
    const char *fg_dtype_name(int d)
    const char *fg_shape_text(const FgTensor *t)

cdef extern from "pairs.h" nogil:
    enum:
        FG_PAIRS_TALL, FG_PAIRS_ROWS
    ctypedef struct FgPairs:
        const char *x
        const char *y
        const char *w
        char *out
        int64_t m, n, k, form
        int64_t xs[3]
        int64_t ys[3]
        int64_t ws[3]
        int64_t tall, wide
        double scale
    int64_t pairs_panel_f32, pairs_panel_f64
    range_body pairs_distances_f32, pairs_distances_f64, pairs_moments_f32, pairs_moments_f64


cdef int _operand(const FgTensor *t, const char *name, const char *which, const FgTensor *out, int64_t b, int64_t m, int64_t n, char *msg) noexcept nogil:
    if t.dtype != out.dtype or t.dtype not in (FG_F32, FG_F64) or t.ndim != 3 or t.shape[0] != b or t.shape[1] != m or t.shape[2] != n:
        return fg_fail(msg, "%s: %s is %s of %s; [%lld, %lld, %lld] of the output's dtype, float32 or float64, expected", name, which,
                       fg_shape_text(t), fg_dtype_name(t.dtype), <long long>b, <long long>m, <long long>n)
    return 0


cdef int distances_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *out
    if inst.n_in < 2 or inst.n_in > 3 or inst.n_out != 1 or inst.n_ip != 1 or inst.n_fp != 1 or inst.ip[0] < 0 or inst.ip[0] > 5:
        return fg_fail(msg, "pair_distances: got %d inputs, %d outputs, %d integers; expected 2 or 3, 1, 1 of 0 to 5", inst.n_in, inst.n_out, inst.n_ip)
    x = FG_IN(inst, slots, 0)
    out = FG_OUT(inst, slots, 0)
    if x.ndim != 3 or out.ndim != 3 or not fg_is_contiguous(out):
        return fg_fail(msg, "pair_distances: x is %s, the output %s; three axes, contiguous, expected", fg_shape_text(x), fg_shape_text(out))
    if (_operand(x, "pair_distances", "x", out, out.shape[0], out.shape[1], x.shape[2], msg)
            or _operand(FG_IN(inst, slots, 1), "pair_distances", "y", out, out.shape[0], out.shape[2], x.shape[2], msg)):
        return -1
    if inst.n_in == 3 and _operand(FG_IN(inst, slots, 2), "pair_distances", "factors", out, out.shape[0], 1, x.shape[2], msg):
        return -1
    if x.shape[2] < 1:
        return fg_fail(msg, "pair_distances: x is %s; a column or more expected", fg_shape_text(x))
    return 0


cdef int moments_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *w
    cdef const FgTensor *x
    cdef const FgTensor *y
    cdef const FgTensor *out
    if inst.n_in != 3 or inst.n_out != 1 or inst.n_ip or inst.n_fp != 1:
        return fg_fail(msg, "pair_moments: got %d inputs, %d outputs, %d integers; expected 3, 1, 0", inst.n_in, inst.n_out, inst.n_ip)
    w = FG_IN(inst, slots, 0)
    x = FG_IN(inst, slots, 1)
    y = FG_IN(inst, slots, 2)
    out = FG_OUT(inst, slots, 0)
    if w.ndim != 3 or out.ndim != 3 or not fg_is_contiguous(out) or w.shape[2] < 1:
        return fg_fail(msg, "pair_moments: w is %s, the output %s; three axes, contiguous, expected", fg_shape_text(w), fg_shape_text(out))
    if (_operand(w, "pair_moments", "w", out, out.shape[0], out.shape[1], w.shape[2], msg)
            or _operand(x, "pair_moments", "x", out, out.shape[0], out.shape[1], out.shape[2], msg)
            or _operand(y, "pair_moments", "y", out, out.shape[0], w.shape[2], out.shape[2], msg)):
        return -1
    if out.shape[2] > 1 and (x.strides[2] != 1 or y.strides[2] != 1):
        return fg_fail(msg, "pair_moments: rows of x and y have to be contiguous")
    return 0


cdef void _lay(FgPairs *p, const FgTensor *x, const FgTensor *y, FgTensor *out) noexcept nogil:
    cdef int d
    p.x, p.y, p.out = x.data, y.data, out.data
    p.m, p.n, p.k = x.shape[1], y.shape[1], x.shape[2]
    for d in range(3):
        p.xs[d], p.ys[d] = x.strides[d], y.strides[d]


cdef int distances_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgPairs p
    cdef FgTensor *out = FG_OUT(inst, slots, 0)
    cdef bint single = out.dtype == FG_F32
    cdef int64_t panel = pairs_panel_f32 if single else pairs_panel_f64
    if out.size == 0:
        return FG_OK
    _lay(&p, FG_IN(inst, slots, 0), FG_IN(inst, slots, 1), out)
    p.form, p.scale, p.w, p.ws[0], p.ws[2] = inst.ip[0], inst.fp[0], NULL, 0, 0
    if inst.n_in == 3:
        p.w, p.ws[0], p.ws[2] = FG_IN(inst, slots, 2).data, FG_IN(inst, slots, 2).strides[0], FG_IN(inst, slots, 2).strides[2]
    p.tall, p.wide = (p.m + FG_PAIRS_TALL - 1) // FG_PAIRS_TALL, (p.n + panel - 1) // panel
    parallel_of(out.shape[0] * p.tall * p.wide, 1, <double>out.size * p.k / (3e4 if single else 1.5e4),
                pairs_distances_f32 if single else pairs_distances_f64, &p)
    return FG_OK


cdef int moments_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgPairs p
    cdef FgTensor *w = FG_IN(inst, slots, 0)
    cdef FgTensor *out = FG_OUT(inst, slots, 0)
    cdef bint single = out.dtype == FG_F32
    cdef int d
    if out.size == 0:
        return FG_OK
    _lay(&p, FG_IN(inst, slots, 1), FG_IN(inst, slots, 2), out)
    p.w, p.scale = w.data, inst.fp[0]
    for d in range(3):
        p.ws[d] = w.strides[d]
    p.tall = (p.m + FG_PAIRS_ROWS - 1) // FG_PAIRS_ROWS
    parallel_of(out.shape[0] * p.tall, 1, <double>out.size * p.n / (3e4 if single else 1.5e4),
                pairs_moments_f32 if single else pairs_moments_f64, &p)
    return FG_OK


KERNELS = {
    "pair_distances": (<size_t><void *>distances_run, <size_t><void *>distances_check),
    "pair_moments": (<size_t><void *>moments_run, <size_t><void *>moments_check),
}
