"""Scaled dot-product attention, forward and backward, in tiles: memory O(T), never a T x S matrix.

attention_fwd: q (B, H, T, D), k (B, Hk, S, D), v (B, Hk, S, Dv) [, bias] [, slopes] -> o (B, H, T, Dv), lse (B, H, T)
               k and v may be float16 or bfloat16 beside float32: they are widened by tiles, as they are read; q, k, v and o may be bfloat16
               (lse, bias and slopes are float32)
attention_bwd: q, k, v, o, lse, do [, bias] [, slopes] -> dq, dk, dv [, dbias] [, dslopes]
bias (B, H, T, S) or 1 on any axis, slopes (B, H) or (1, H); their gradients have their own shapes.
ip: causal, has_bias, window, has_slopes [, want_dbias, want_dslopes] [, halves]; fp: scale, softcap.  H is a multiple of Hk.  halves: 1 where q, k,
v and do hold what bfloat16 does, so that a tile unit may round probabilities and their cotangents so, too.  Query t sees the keys
t + (S - T) - window < s <= t + (S - T), the first bound if window > 0, the second if causal.
logits = softcap * tanh(scale * q.k / softcap) + bias - slope * |t + S - T - s|, without the tanh if softcap is 0.
A row that sees nothing has o = 0, lse = -inf and no gradient.

Threads draw blocks of queries (or of keys) from one queue, longest first.  Long keys under few queries (decoding) are cut into parts that are
merged in order, and heads that lie beside each other in a position go through them together.  Results do not depend on the number of threads.
"""
from libc.stdint cimport INT32_MAX, int32_t, int64_t
from libc.stdlib cimport calloc
from libc.string cimport memset

from fgrad._kernels.abi cimport *
from fgrad._kernels.gemm cimport amx_is_used
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport parallel_for, thread_count

cdef extern from "fail.h" nogil:
    int fg_fail(char *msg, const char *format, ...)
    const char *fg_shape_text(const FgTensor *t)

cdef extern from "attention.h" nogil:
    enum: ATT_ROWS, ATT_DQ, ATT_DKV, ATT_DBIAS, ATT_AMX_BACK
    bint fg_distinct(const FgTensor *t)
    ctypedef struct FgAttn:
        int64_t B, H, Hk, G, L, S, D, Dv
        int64_t q[4]
        int64_t k[4]
        int64_t v[4]
        int64_t o[4]
        int64_t lse[3]
        int64_t g[4]
        int64_t bias[4]
        int64_t dq[4]
        int64_t dk[4]
        int64_t dv[4]
        int64_t bs[4]
        int64_t db[4]
        int64_t slope[2]
        int32_t narrow, halves
        int32_t causal, has_bias, has_slopes, want_dbias, want_dslopes, dtype, stored
        int64_t window
        double scale, softcap
        int64_t heads, queries, chunks, blocks, keys, kblocks, splits, split_keys, few, few_keys, few_ld, parted, far, together, state, state_rows
    ctypedef struct FgAttnRun:
        const FgAttn *p
        char *q
        char *k
        char *v
        char *bias
        char *slopes
        char *g
        char *o
        char *lse
        char *dq
        char *dk
        char *dv
        char *dbias
        char *dslopes
        char *scratch
        char *part
        int64_t per_thread, next, units
        int32_t want, parts
        int64_t group
    int att_is_few(int64_t rows, int64_t Dv, int dtype)
    int64_t FG_CHUNK, FG_STREAM_TILE
    int64_t att_scratch(const FgAttn *p, int backward)
    void att_forward(FgAttnRun *w, int tid)
    bint att_amx_wants(const FgAttn *p, bint backward)
    int64_t att_amx_units(const FgAttn *p)
    int64_t att_amx_scratch(const FgAttn *p, int parts)
    int64_t att_amx_scratch_back(const FgAttn *p, int parts)
    void att_amx_forward(FgAttnRun *w, int tid)
    void att_combine(FgAttnRun *w, int64_t begin, int64_t end)
    void att_backward(FgAttnRun *w, int tid)


# ---------------------------------------------------------------- check

cdef int _operand(const FgTensor *t, const char *name, int dtype, int ndim, int64_t n0, int64_t n1, int64_t n2, int64_t n3,
                  int64_t *strides, char *msg) noexcept nogil:
    """Shape and dtype of an operand, and unit stride on its last axis when it has four (bias passes ndim 5 to skip that)."""
    cdef int nd = 4 if ndim == 5 else ndim, d
    if (t.ndim != nd or t.shape[0] != n0 or t.shape[1] != n1 or t.shape[2] != n2 or (nd == 4 and t.shape[3] != n3)):
        if nd == 3:
            return fg_fail(msg, "attention: %s must have shape (%lld, %lld, %lld), got %s", name, <long long>n0, <long long>n1,
                           <long long>n2, fg_shape_text(t))
        return fg_fail(msg, "attention: %s must have shape (%lld, %lld, %lld, %lld), got %s", name, <long long>n0, <long long>n1,
                       <long long>n2, <long long>n3, fg_shape_text(t))
    if t.dtype != dtype:
        return fg_fail(msg, "attention: every operand must be float32, or every one float64 (k and v of the forward pass also both "
                       "float16 or bfloat16 beside float32); %s is not", name)
    if ndim == 4 and t.size and t.shape[3] > 1 and t.strides[3] != 1:
        return fg_fail(msg, "attention: the last axis of %s must have stride 1, got %lld", name, <long long>t.strides[3])
    for d in range(nd):
        strides[d] = t.strides[d]
    return 0


cdef int _bias(const FgTensor *t, const char *name, FgAttn *p, int64_t *strides, char *msg) noexcept nogil:
    """bias or its gradient: the logits' shape, or 1 on any axis; strides are 0 there."""
    cdef int64_t full[4]
    cdef int d
    full[0], full[1], full[2], full[3] = p.B, p.H, p.L, p.S
    if t.dtype != p.dtype or t.ndim != 4:
        return fg_fail(msg, "attention: %s must have the dtype of q and 4 dimensions, got %s", name, fg_shape_text(t))
    for d in range(4):
        if t.shape[d] != full[d] and t.shape[d] != 1:
            return fg_fail(msg, "attention: %s must have shape (%lld, %lld, %lld, %lld) or 1 on some axes, got %s", name, <long long>p.B,
                           <long long>p.H, <long long>p.L, <long long>p.S, fg_shape_text(t))
        p.bs[d] = t.shape[d]
        strides[d] = t.strides[d] if t.shape[d] > 1 else 0
    return 0


cdef int _slopes(const FgTensor *t, const char *name, FgAttn *p, char *msg) noexcept nogil:
    if t.dtype != p.dtype or t.ndim != 2 or t.shape[1] != p.H or (t.shape[0] != p.B and t.shape[0] != 1):
        return fg_fail(msg, "attention: %s must have the dtype of q and shape (%lld, %lld) or (1, %lld), got %s", name, <long long>p.B,
                       <long long>p.H, <long long>p.H, fg_shape_text(t))
    p.slope[0] = t.strides[0] if t.shape[0] > 1 else 0
    p.slope[1] = t.strides[1]
    return 0


cdef int _output(const FgTensor *t, const char *name, int dtype, int64_t n0, int64_t n1, int64_t n2, int64_t n3, int64_t *strides,
                 char *msg) noexcept nogil:
    if _operand(t, name, dtype, 4, n0, n1, n2, n3, strides, msg):
        return -1
    if n2 <= 1 or t.size == 0:
        strides[2] = n3
    if t.size and not fg_distinct(t):
        return fg_fail(msg, "attention: %s must have positive strides and distinct elements", name)
    if t.size and not n3 <= strides[2] <= INT32_MAX:
        return fg_fail(msg, "attention: rows of %s must be at least %lld and less than 2^31 apart, got %lld", name, <long long>n3,
                       <long long>strides[2])
    return 0


cdef int _common(FgInst *inst, const FgTensor *slots, const char *name, int n_in, int n_out, int n_ip, char *msg) noexcept nogil:
    """Counts, parameters and q, k, v; leaves a plan in inst.extra."""
    cdef FgAttn *p
    cdef const FgTensor *q
    cdef const FgTensor *k
    cdef const FgTensor *v
    cdef int bias, slopes, dbias = 0, dslopes = 0, extra, want
    cdef int64_t tasks, bytes, unit
    if ((inst.n_ip != n_ip and inst.n_ip != n_ip + 1) or inst.n_fp != 2 or (inst.n_ip > n_ip and not 0 <= inst.ip[n_ip] <= 1) or not 0 <= inst.ip[0] <= 1 or not 0 <= inst.ip[1] <= 1 or inst.ip[2] < 0
            or not 0 <= inst.ip[3] <= 1):
        return fg_fail(msg, "%s: expected ip [causal 0/1, has_bias 0/1, window >= 0, has_slopes 0/1%s] (halves 0/1 after them) and fp [scale, softcap]", name,
                       b", want_dbias 0/1, want_dslopes 0/1" if n_ip == 6 else b"")
    bias = inst.ip[1]
    slopes = inst.ip[3]
    if n_ip == 6:
        if not 0 <= inst.ip[4] <= bias or not 0 <= inst.ip[5] <= slopes:
            return fg_fail(msg, "%s: want_dbias and want_dslopes must be 0, or 1 with a bias and with slopes", name)
        dbias = inst.ip[4]
        dslopes = inst.ip[5]
    extra = bias + slopes
    want = dbias + dslopes
    if not (inst.fp[1] >= 0 and inst.fp[1] <= 1e30) or not (-1e30 <= inst.fp[0] <= 1e30):
        return fg_fail(msg, "%s: scale must be finite and softcap finite and at least 0, got %g and %g", name, inst.fp[0], inst.fp[1])
    if inst.n_in != n_in + extra or inst.n_out != n_out + want:
        return fg_fail(msg, "%s: expected %d inputs and %d outputs, got %d and %d", name, n_in + extra, n_out + want, inst.n_in, inst.n_out)
    q = FG_IN(inst, slots, 0)
    k = FG_IN(inst, slots, 1)
    v = FG_IN(inst, slots, 2)
    if q.ndim != 4 or k.ndim != 4 or v.ndim != 4:
        return fg_fail(msg, "%s: q, k and v must have 4 dimensions (batch, head, position, feature), got %s, %s, %s", name,
                       fg_shape_text(q), fg_shape_text(k), fg_shape_text(v))
    p = <FgAttn *>calloc(1, sizeof(FgAttn))
    if p == NULL:
        return fg_fail(msg, "%s: no memory for a plan", name)
    inst.extra = p
    p.B = q.shape[0]
    p.H = q.shape[1]
    p.L = q.shape[2]
    p.D = q.shape[3]
    p.Hk = k.shape[1]
    p.S = k.shape[2]
    p.Dv = v.shape[3]
    p.narrow = n_ip == 4 and q.dtype == FG_BF16
    p.dtype = FG_F32 if p.narrow else q.dtype
    p.stored = q.dtype
    if n_ip == 4 and q.dtype == FG_F32 and k.dtype in (FG_F16, FG_BF16):
        p.stored = k.dtype
    p.halves = inst.n_ip > n_ip and inst.ip[n_ip]
    p.causal = inst.ip[0]
    p.has_bias = bias
    p.has_slopes = slopes
    p.window = inst.ip[2]
    p.want_dbias = dbias
    p.want_dslopes = dslopes
    p.scale = inst.fp[0]
    p.softcap = inst.fp[1]
    if (p.Hk == 0 and p.H) or (p.Hk and p.H % p.Hk):
        return fg_fail(msg, "%s: %lld query heads are not a multiple of %lld key heads", name, <long long>p.H, <long long>p.Hk)
    if p.D > 1 << 20 or p.Dv > 1 << 20 or p.S >= (<int64_t>1 << 40) or p.L >= (<int64_t>1 << 40) or p.window >= (<int64_t>1 << 40):
        return fg_fail(msg, "%s: heads are limited to 2^20 features, sequences and windows to 2^40 positions", name)
    p.G = p.H // p.Hk if p.Hk else 0
    if _operand(q, b"q", q.dtype if q.dtype == FG_F64 or p.narrow else FG_F32, 4, p.B, p.H, p.L, p.D, p.q, msg) \
            or _operand(k, b"k", p.stored, 4, p.B, p.Hk, p.S, p.D, p.k, msg) \
            or _operand(v, b"v", p.stored, 4, p.B, p.Hk, p.S, p.Dv, p.v, msg):
        return -1
    if bias and _bias(FG_IN(inst, slots, n_in), b"bias", p, p.bias, msg):
        return -1
    if slopes and _slopes(FG_IN(inst, slots, n_in + bias), b"slopes", p, msg):
        return -1
    p.queries = max(<int64_t>1, min(<int64_t>ATT_ROWS, p.L))
    p.heads = max(<int64_t>1, min(p.G, ATT_ROWS // p.queries))
    p.blocks = (p.L + p.queries - 1) // p.queries
    p.chunks = (p.G + p.heads - 1) // p.heads
    p.keys = 128 if n_ip == 4 and max(p.D, p.Dv) <= 96 else 64
    p.kblocks = (p.S + p.keys - 1) // p.keys
    p.splits = p.together = 1
    p.split_keys = max(p.S, <int64_t>1)
    p.few_ld = p.D
    p.state_rows = ATT_ROWS
    p.state = ATT_ROWS * (p.Dv + 2)
    if n_ip == 4:
        _few(p)
    tasks = p.B * p.Hk // p.together * p.chunks * p.blocks
    if p.blocks == 1 and 0 < tasks < 32 and (p.S >= 1024 or p.few):
        p.splits = min((32 + tasks - 1) // tasks, p.S // 512)
        if p.few:
            bytes = p.together * (p.D + p.Dv) * fg_itemsize(p.stored)
            p.splits = max(<int64_t>1, min(min((16 + tasks - 1) // tasks, p.S // 64), p.S * bytes >> 17))
        unit = p.few_keys if p.few else p.keys
        p.split_keys = max(unit, ((p.S + p.splits - 1) // p.splits + unit - 1) // unit * unit)
        p.splits = max(<int64_t>1, (p.S + p.split_keys - 1) // p.split_keys)
    return 0


cdef void _few(FgAttn *p) noexcept nogil:
    """The plan of few rows of queries. Heads that lie inside a position go together, up to 8 KB of them; a tile of keys takes 128 KB."""
    cdef int64_t rows = p.heads * p.queries, item = fg_itemsize(p.stored), n, width = max(max(p.D, p.Dv), <int64_t>1) * item
    if not att_is_few(rows, p.Dv, p.dtype):
        return
    p.few = rows
    p.parted = p.stored != p.dtype and rows <= FG_STREAM_TILE
    if p.parted:
        p.few_ld = (p.D + FG_CHUNK - 1) // FG_CHUNK * FG_CHUNK
    if p.D <= p.k[1] < p.k[2] and p.Dv <= p.v[1] < p.v[2]:
        for n in range(1, p.Hk + 1):
            if n * width > 8192:
                break
            if p.Hk % n == 0:
                p.together = n
    p.few_keys = min(max(131072 // (p.together * width), <int64_t>16), p.keys) // 16 * 16
    p.far = p.B * p.Hk * p.S * (p.D + p.Dv) * item >= 16 << 20
    p.state_rows = rows
    p.state = p.together * rows * (p.Dv + 2)


cdef int fwd_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef FgAttn *p
    cdef const FgTensor *lse
    if _common(inst, slots, b"attention_fwd", 3, 2, 4, msg):
        return -1
    p = <FgAttn *>inst.extra
    if _output(FG_OUT(inst, slots, 0), b"o", FG_BF16 if p.narrow else p.dtype, p.B, p.H, p.L, p.Dv, p.o, msg):
        return -1
    lse = FG_OUT(inst, slots, 1)
    if _operand(lse, b"lse", p.dtype, 3, p.B, p.H, p.L, 0, p.lse, msg):
        return -1
    if not fg_is_contiguous(lse):
        return fg_fail(msg, "attention_fwd: lse must be contiguous")
    return 0


cdef int bwd_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef FgAttn *p
    cdef const FgTensor *dbias
    cdef const FgTensor *dslopes
    cdef int d
    if _common(inst, slots, b"attention_bwd", 6, 3, 6, msg):
        return -1
    p = <FgAttn *>inst.extra
    if _operand(FG_IN(inst, slots, 3), b"o", p.dtype, 4, p.B, p.H, p.L, p.Dv, p.o, msg) \
            or _operand(FG_IN(inst, slots, 4), b"lse", p.dtype, 3, p.B, p.H, p.L, 0, p.lse, msg) \
            or _operand(FG_IN(inst, slots, 5), b"do", p.dtype, 4, p.B, p.H, p.L, p.Dv, p.g, msg) \
            or _output(FG_OUT(inst, slots, 0), b"dq", p.dtype, p.B, p.H, p.L, p.D, p.dq, msg) \
            or _output(FG_OUT(inst, slots, 1), b"dk", p.dtype, p.B, p.Hk, p.S, p.D, p.dk, msg) \
            or _output(FG_OUT(inst, slots, 2), b"dv", p.dtype, p.B, p.Hk, p.S, p.Dv, p.dv, msg):
        return -1
    if p.want_dbias:
        dbias = FG_OUT(inst, slots, 3)
        for d in range(4):
            if dbias.ndim != 4 or dbias.shape[d] != p.bs[d]:
                return fg_fail(msg, "attention_bwd: dbias must have the shape of bias, got %s", fg_shape_text(dbias))
        if _bias(dbias, b"dbias", p, p.db, msg):
            return -1
        if not fg_is_contiguous(dbias):
            return fg_fail(msg, "attention_bwd: dbias must be contiguous")
    if p.want_dslopes:
        dslopes = FG_OUT(inst, slots, 3 + p.want_dbias)
        if dslopes.dtype != p.dtype or not fg_same_shape(dslopes, FG_IN(inst, slots, 6 + p.has_bias)) or not fg_is_contiguous(dslopes):
            return fg_fail(msg, "attention_bwd: dslopes must be contiguous and have the shape and dtype of slopes, got %s",
                           fg_shape_text(dslopes))
    return 0


# ---------------------------------------------------------------- run

cdef int64_t _threads(const FgAttn *p, int64_t units, double per_pair) noexcept nogil:
    """Threads worth waking: one for every 30 microseconds.  per_pair: matrix columns met by a query-key pair."""
    cdef double ns = 0.02 * per_pair * p.B * p.H * p.L * p.S * (0.6 if p.causal and p.L > 1 else 1.0) * (1 if p.dtype == FG_F32 else 2)
    # few queries wait for keys and values, some 33 bytes a nanosecond, and as long for those that are widened
    ns = max(ns, 0.03 * p.B * p.Hk * p.S * (p.D + p.Dv) * fg_itemsize(p.dtype))
    return <int64_t>max(1.0, min(min(ns / 15000, <double>units), <double>thread_count()))


cdef void _forward_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    if (<FgAttnRun *>ctx).parts:
        att_amx_forward(<FgAttnRun *>ctx, tid)
    else:
        att_forward(<FgAttnRun *>ctx, tid)


cdef void _combine_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    att_combine(<FgAttnRun *>ctx, begin, end)


cdef void _backward_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    att_backward(<FgAttnRun *>ctx, tid)


cdef int fwd_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgAttn *p = <FgAttn *>inst.extra
    cdef FgAttnRun w
    cdef int64_t tasks = p.B * (p.Hk // p.together) * p.chunks * p.blocks, threads, item = fg_itemsize(p.dtype)
    cdef int status = FG_EMEM
    if tasks == 0:
        return FG_OK
    memset(&w, 0, sizeof(w))
    w.p = p
    w.q = FG_IN(inst, slots, 0).data
    w.k = FG_IN(inst, slots, 1).data
    w.v = FG_IN(inst, slots, 2).data
    if p.has_bias:
        w.bias = FG_IN(inst, slots, 3).data
    if p.has_slopes:
        w.slopes = FG_IN(inst, slots, 3 + p.has_bias).data
    w.o = FG_OUT(inst, slots, 0).data
    w.lse = FG_OUT(inst, slots, 1).data
    w.parts = 0 if not amx_is_used() or not att_amx_wants(p, 0) else 1 if p.halves else 3
    w.units = att_amx_units(p) if w.parts else tasks * p.splits
    w.per_thread = att_scratch(p, 0) + (att_amx_scratch(p, w.parts) if w.parts else 0)
    threads = _threads(p, w.units, p.D + p.Dv + 40)
    w.scratch = pool_alloc(threads * w.per_thread)
    if p.splits > 1:
        w.part = pool_alloc(tasks * p.splits * p.state * item)
    if w.scratch != NULL and (w.part != NULL or p.splits == 1):
        parallel_for(threads, 1, _forward_body, &w)
        if p.splits > 1:
            parallel_for(tasks * p.together, max(<int64_t>1, 100000 // (p.splits * p.heads * p.queries * (p.Dv + 1))), _combine_body, &w)
        status = FG_OK
    pool_free(w.scratch)
    pool_free(w.part)
    return status


cdef void _clear(FgTensor *t, int64_t *strides) noexcept nogil:
    """Zero a (b, h, rows, cols) output whose rows are contiguous."""
    cdef int64_t i, j, r, item = fg_itemsize(t.dtype)
    if t.size == 0:
        return
    if fg_is_contiguous(t):
        memset(t.data, 0, t.size * item)
        return
    for i in range(t.shape[0]):
        for j in range(t.shape[1]):
            for r in range(t.shape[2]):
                memset(t.data + (i * strides[0] + j * strides[1] + r * strides[2]) * item, 0, t.shape[3] * item)


cdef void _pass(FgAttnRun *w, int64_t threads, int want, int64_t units) noexcept nogil:
    w.want = want
    w.units = units
    w.next = 0
    parallel_for(min(threads, units), 1, _backward_body, w)


cdef void _sum_slopes(const FgAttn *p, const FgAttnRun *w, FgTensor *out) noexcept nogil:
    """dslopes[b or 0, h] from the sums of batches, heads and tiles of keys, in order."""
    cdef int64_t i, j, to
    cdef double total
    for i in range(p.B * p.H):
        total = 0
        for j in range(p.kblocks):
            total += (<float *>w.dslopes)[i * p.kblocks + j] if p.dtype == FG_F32 else (<double *>w.dslopes)[i * p.kblocks + j]
        to = i if out.shape[0] > 1 else i % p.H
        if p.dtype == FG_F32:
            (<float *>out.data)[to] += <float>total
        else:
            (<double *>out.data)[to] += total


cdef int bwd_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgAttn *p = <FgAttn *>inst.extra
    cdef FgAttnRun w
    cdef int64_t heads = p.B * p.Hk, nq = (p.L + ATT_ROWS - 1) // ATT_ROWS, threads
    cdef int with_dkv = 0, i
    for i in range(3, inst.n_out):
        memset(FG_OUT(inst, slots, i).data, 0, FG_OUT(inst, slots, i).size * fg_itemsize(p.dtype))
    if heads * p.G * nq * p.kblocks == 0:
        _clear(FG_OUT(inst, slots, 0), p.dq)
        _clear(FG_OUT(inst, slots, 1), p.dk)
        _clear(FG_OUT(inst, slots, 2), p.dv)
        return FG_OK
    memset(&w, 0, sizeof(w))
    w.p = p
    w.q = FG_IN(inst, slots, 0).data
    w.k = FG_IN(inst, slots, 1).data
    w.v = FG_IN(inst, slots, 2).data
    w.o = FG_IN(inst, slots, 3).data
    w.lse = FG_IN(inst, slots, 4).data
    w.g = FG_IN(inst, slots, 5).data
    if p.has_bias:
        w.bias = FG_IN(inst, slots, 6).data
    if p.has_slopes:
        w.slopes = FG_IN(inst, slots, 6 + p.has_bias).data
    w.dq = FG_OUT(inst, slots, 0).data
    w.dk = FG_OUT(inst, slots, 1).data
    w.dv = FG_OUT(inst, slots, 2).data
    if p.want_dbias:
        w.dbias = FG_OUT(inst, slots, 3).data
    w.parts = 0 if not amx_is_used() or not att_amx_wants(p, 1) else 1 if p.halves else 3
    w.group = ATT_AMX_BACK if w.parts else 1
    w.per_thread = att_scratch(p, 1) + (att_amx_scratch_back(p, w.parts) if w.parts else 0)
    threads = _threads(p, heads * p.G * nq * p.kblocks, 2.5 * (p.D + p.Dv) + 60)
    w.scratch = pool_alloc(threads * w.per_thread)
    if p.want_dslopes:
        w.dslopes = pool_alloc(p.B * p.H * p.kblocks * fg_itemsize(p.dtype))
    if w.scratch == NULL or (p.want_dslopes and w.dslopes == NULL):
        pool_free(w.scratch)
        pool_free(w.dslopes)
        return FG_EMEM
    if p.want_dslopes:
        memset(w.dslopes, 0, p.B * p.H * p.kblocks * fg_itemsize(p.dtype))
    # a block of keys of one head has a part of dbias to itself, unless heads, batches or keys share it
    if p.want_dbias and p.bs[0] == p.B and p.bs[1] == p.H and p.bs[3] == p.S:
        with_dkv = ATT_DBIAS
    if heads >= 3 * threads or heads % threads == 0:       # whole key heads: every tile is computed once
        _pass(&w, threads, ATT_DQ | ATT_DKV | with_dkv, heads)
    else:                                                  # 7 products a tile instead of 5, but work for every thread
        _pass(&w, threads, ATT_DKV | with_dkv, heads * ((p.kblocks + w.group - 1) // w.group))
        _pass(&w, threads, ATT_DQ, heads * p.G * ((nq + w.group - 1) // w.group))
    if p.want_dbias and not with_dkv:
        _pass(&w, threads, ATT_DBIAS, p.bs[0] * p.bs[1] * (p.kblocks if p.bs[3] > 1 else 1))
    if p.want_dslopes:
        _sum_slopes(p, &w, FG_OUT(inst, slots, 3 + p.want_dbias))
    pool_free(w.scratch)
    pool_free(w.dslopes)
    return FG_OK


KERNELS = {"attention_fwd": (<size_t><void *>fwd_run, <size_t><void *>fwd_check),
           "attention_bwd": (<size_t><void *>bwd_run, <size_t><void *>bwd_check)}
