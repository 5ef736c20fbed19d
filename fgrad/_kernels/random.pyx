"""Threefry-2x32 random bits, bit for bit those of jax.random (with its default, partitionable, counters).

threefry2x32:   in k1, k2, x1, x2, uint32 of one shape and any strides; out y1, y2: the hash of (x1, x2) under key (k1, k2)
threefry_bits:  in key (..., 2) uint32, ip [bit_width]; out uint8, 16, 32 or 64 of shape (..., *shape): counter i, as two words
                (high, low), hashes to (a, b); 64 bits are a << 32 | b, fewer are the low bits of a ^ b
threefry_split: in key (..., 2) uint32; out (..., *shape, 2): new key i is the hash of counter i
random_gamma:   in key (..., 2) uint32 of any strides, d (...) float32 or float64, dense; out v like d: the gamma sampler's accepted
                proposals (random_gamma.h), of which d v are gamma floats of shape parameter d + 1/3, each from its own key
threefry_pick:  in key (..., 2) uint32 of any strides, logits (..., rows, n) float32, dense, whose leading axes are the key's or 1; out
                (..., draws, rows) int32: for each, the first position of the greatest of logits plus Gumbel noise (random_pick.h)

Leading axes of a key are a batch: each key counts from 0.
"""
from libc.stdint cimport int32_t, int64_t

from fgrad._kernels.abi cimport FG_EMEM, FG_F32, FG_F64, FG_I32, FG_OK, FG_U8, FG_U16, FG_U32, FG_U64, FgInst, FgTensor, fg_same_shape
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport parallel_for, range_body
from fgrad._kernels.row_check cimport fg_fail, row_counts, row_dense, row_dtype, row_operand, row_text

cdef extern from "random.h" nogil:
    enum:
        BITS_BLOCK
    ctypedef struct RandomPlan:
        const FgTensor *in_ "in"[4]
        void *out[2]
        int64_t size, per, blocks
        int width
    range_body random_threefry, random_bits, random_split

cdef extern from "random_gamma.h" nogil:
    enum:
        GAMMA_LANES
    ctypedef struct GammaPlan:
        const FgTensor *key
        const void *d
        void *out
        int64_t size
    range_body random_gamma_f32, random_gamma_f64

cdef extern from "random_pick.h" nogil:
    enum:
        PICK_CHUNK
    ctypedef struct PickPlan:
        const FgTensor *key
        const FgTensor *logits
        int32_t *out
        int64_t draws, rows, n, parts, part
        float *values
        int32_t *found
    range_body random_pick
    void random_pick_join(const PickPlan *c, int64_t units)

cdef enum:
    GRAIN = 64               # blocks: about 20 microseconds


cdef int run_threefry2x32(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef RandomPlan c
    cdef int k
    for k in range(4):
        c.in_[k] = row_operand(inst, slots, k)
    for k in range(2):
        c.out[k] = row_operand(inst, slots, 4 + k).data
    c.size = row_operand(inst, slots, 4).size
    parallel_for((c.size + BITS_BLOCK - 1) // BITS_BLOCK, GRAIN, random_threefry, &c)
    return FG_OK


cdef inline int run_keys(const FgInst *inst, FgTensor *slots, int64_t words, int width, range_body body) noexcept nogil:
    cdef RandomPlan c
    cdef const FgTensor *out = row_operand(inst, slots, 1)
    cdef int64_t keys
    if out.size == 0:
        return FG_OK
    c.in_[0] = row_operand(inst, slots, 0)
    c.out[0] = out.data
    keys = c.in_[0].size // 2
    c.per = out.size // words // keys
    c.blocks = (c.per + BITS_BLOCK - 1) // BITS_BLOCK
    c.width = width
    parallel_for(keys * c.blocks, 1 + GRAIN * BITS_BLOCK // min(c.per, <int64_t>BITS_BLOCK), body, &c)
    return FG_OK


cdef int run_threefry_bits(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run_keys(inst, slots, 1, <int>inst.ip[0], random_bits)


cdef int run_threefry_split(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run_keys(inst, slots, 2, 32, random_split)


cdef int run_random_gamma(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef GammaPlan c
    cdef const FgTensor *d = row_operand(inst, slots, 1)
    c.key = row_operand(inst, slots, 0)
    c.d = d.data
    c.out = row_operand(inst, slots, 2).data
    c.size = d.size
    parallel_for((c.size + GAMMA_LANES - 1) // GAMMA_LANES, 2, random_gamma_f32 if d.dtype == FG_F32 else random_gamma_f64, &c)
    return FG_OK


cdef int run_threefry_pick(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef PickPlan c
    cdef const FgTensor *out = row_operand(inst, slots, 2)
    cdef int64_t units = out.size
    cdef char *room
    if units == 0:
        return FG_OK
    c.key, c.logits, c.out = row_operand(inst, slots, 0), row_operand(inst, slots, 1), <int32_t *>out.data
    c.draws, c.rows, c.n = out.shape[out.ndim - 2], out.shape[out.ndim - 1], c.logits.shape[c.logits.ndim - 1]
    c.parts, c.part, c.values, c.found = 1, c.n, NULL, NULL
    if units < 8 and c.n >= 16 * PICK_CHUNK:             # parts of rows for several threads
        c.part = max(<int64_t>4, c.n // (8 * PICK_CHUNK)) * PICK_CHUNK
        c.parts = (c.n + c.part - 1) // c.part
        room = pool_alloc(8 * units * c.parts)
        if room == NULL:
            return FG_EMEM
        c.values, c.found = <float *>room, <int32_t *>room + units * c.parts
        parallel_for(units * c.parts, 4, random_pick, &c)
        random_pick_join(&c, units)
        pool_free(room)
        return FG_OK
    parallel_for(units, 1 + GRAIN * BITS_BLOCK // c.n, random_pick, &c)
    return FG_OK


cdef int check_threefry2x32(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef int k
    if row_counts(inst, "threefry2x32", 4, 2, 0, 0, msg):
        return -1
    for k in range(6):
        if row_dtype(inst, slots, "threefry2x32", k, FG_U32, msg) if k < 4 else row_dense(inst, slots, "threefry2x32", k, FG_U32, msg):
            return -1
        if not fg_same_shape(row_operand(inst, slots, 0), row_operand(inst, slots, k)):
            return fg_fail(msg, "threefry2x32: operand %d is %s but operand 0 is %s", k,
                            row_text(row_operand(inst, slots, k)), row_text(row_operand(inst, slots, 0)))
    return 0


cdef int check_keys(FgInst *inst, const FgTensor *slots, const char *name, int n_ip, char *msg) noexcept nogil:
    cdef const FgTensor *key
    cdef const FgTensor *out
    cdef int d
    cdef bint same
    if row_counts(inst, name, 1, 1, n_ip, 0, msg) or row_dtype(inst, slots, name, 0, FG_U32, msg):
        return -1
    key = row_operand(inst, slots, 0)
    out = row_operand(inst, slots, 1)
    if key.ndim < 1 or key.shape[key.ndim - 1] != 2:
        return fg_fail(msg, "%s: the key is %s; (..., 2) expected", name, row_text(key))
    same = out.ndim >= key.ndim - 1
    for d in range(key.ndim - 1):
        same = same and out.shape[d] == key.shape[d]
    if not same:
        return fg_fail(msg, "%s: the output is %s; its leading axes must be those of the key, %s", name,
                        row_text(out), row_text(key))
    return 0


cdef int check_threefry_bits(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef int dtype = -1
    if check_keys(inst, slots, "threefry_bits", 1, msg):
        return -1
    if inst.ip[0] == 8:
        dtype = FG_U8
    elif inst.ip[0] == 16:
        dtype = FG_U16
    elif inst.ip[0] == 32:
        dtype = FG_U32
    elif inst.ip[0] == 64:
        dtype = FG_U64
    else:
        return fg_fail(msg, "threefry_bits: the bit width must be 8, 16, 32 or 64, got %lld", <long long>inst.ip[0])
    return row_dense(inst, slots, "threefry_bits", 1, dtype, msg)


cdef int check_threefry_split(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *out
    if check_keys(inst, slots, "threefry_split", 0, msg) or row_dense(inst, slots, "threefry_split", 1, FG_U32, msg):
        return -1
    out = row_operand(inst, slots, 1)
    if out.ndim < row_operand(inst, slots, 0).ndim or out.shape[out.ndim - 1] != 2:
        return fg_fail(msg, "threefry_split: the output is %s; the key's leading axes, then (..., 2) expected", row_text(out))
    return 0


cdef int check_random_gamma(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *key
    cdef const FgTensor *d
    cdef int axis, dtype
    cdef bint same
    if row_counts(inst, "random_gamma", 2, 1, 0, 0, msg) or row_dtype(inst, slots, "random_gamma", 0, FG_U32, msg):
        return -1
    key = row_operand(inst, slots, 0)
    d = row_operand(inst, slots, 1)
    dtype = FG_F64 if d.dtype == FG_F64 else FG_F32
    same = key.ndim == d.ndim + 1 and key.shape[key.ndim - 1] == 2
    if same:
        for axis in range(d.ndim):
            same = same and key.shape[axis] == d.shape[axis]
    if not same:
        return fg_fail(msg, "random_gamma: the key is %s; one of two words for each element of %s expected", row_text(key), row_text(d))
    if row_dense(inst, slots, "random_gamma", 1, dtype, msg) or row_dense(inst, slots, "random_gamma", 2, dtype, msg):
        return -1
    if not fg_same_shape(d, row_operand(inst, slots, 2)):
        return fg_fail(msg, "random_gamma: the output is %s; %s expected", row_text(row_operand(inst, slots, 2)), row_text(d))
    return 0


cdef int check_threefry_pick(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *key
    cdef const FgTensor *logits
    cdef const FgTensor *out
    cdef int axis
    cdef bint fits
    if row_counts(inst, "threefry_pick", 2, 1, 0, 0, msg) or row_dtype(inst, slots, "threefry_pick", 0, FG_U32, msg):
        return -1
    if row_dense(inst, slots, "threefry_pick", 1, FG_F32, msg) or row_dense(inst, slots, "threefry_pick", 2, FG_I32, msg):
        return -1
    key, logits, out = row_operand(inst, slots, 0), row_operand(inst, slots, 1), row_operand(inst, slots, 2)
    fits = key.ndim >= 1 and key.shape[key.ndim - 1] == 2 and logits.ndim == key.ndim + 1 and out.ndim == key.ndim + 1
    if fits:
        for axis in range(key.ndim - 1):
            fits = fits and out.shape[axis] == key.shape[axis] and (logits.shape[axis] == 1 or logits.shape[axis] == key.shape[axis])
        fits = fits and out.shape[out.ndim - 1] == logits.shape[key.ndim - 1]
        fits = fits and (0 < logits.shape[key.ndim] <= 0x7fffffff or out.size == 0)
    if not fits:
        return fg_fail(msg, "threefry_pick: the key is %s, the logits are %s, the output is %s; (..., 2), (..., rows, n) and (..., draws, rows) expected",
                       row_text(key), row_text(logits), row_text(out))
    return 0


KERNELS = {
    "threefry2x32": (<size_t><void *>run_threefry2x32, <size_t><void *>check_threefry2x32),
    "threefry_bits": (<size_t><void *>run_threefry_bits, <size_t><void *>check_threefry_bits),
    "threefry_split": (<size_t><void *>run_threefry_split, <size_t><void *>check_threefry_split),
    "random_gamma": (<size_t><void *>run_random_gamma, <size_t><void *>check_random_gamma),
    "threefry_pick": (<size_t><void *>run_threefry_pick, <size_t><void *>check_threefry_pick),
}
