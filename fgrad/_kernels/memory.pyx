"""Pooled, 64-byte-aligned memory for arrays and program arenas, and which bytes of it an array reaches."""
from libc.stdint cimport int64_t

from fgrad._kernels.abi cimport FG_MAXDIM, FG_NDTYPES, fg_itemsize
from fgrad._kernels.container import bytes_allowed

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object x, int *overflow) except? -1

cdef extern from "memory.h" nogil:
    int64_t fg_idle, fg_live, fg_peak, fg_pool_limit
    void fg_pool_init()
    char *fg_pool_alloc(int64_t n)
    char *fg_pool_borrow(int64_t n)
    bint fg_roams(int64_t n)
    void fg_pool_free(char *p)
    void fg_pool_trim()


cdef char *pool_alloc(int64_t nbytes) noexcept nogil:
    return fg_pool_alloc(nbytes)


cdef char *pool_borrow(int64_t nbytes) noexcept nogil:
    return fg_pool_borrow(nbytes)


cdef bint roams(int64_t nbytes) noexcept nogil:
    return fg_roams(nbytes)


cdef void pool_free(char *p) noexcept nogil:
    fg_pool_free(p)


def memory_stats():
    """Bytes held by live arrays and arenas (`live`), their highest sum so far (`peak`), and bytes kept for reuse (`idle`).

    Arenas of 1 MB and more are held while their program runs; smaller ones, and those of loops' bodies, stay with it.
    """
    return {"live": fg_live, "peak": fg_peak, "idle": fg_idle, "limit": fg_pool_limit}


def trim_memory():
    """Give all idle blocks back to the system."""
    fg_pool_trim()


MAX_BYTES = 1 << 60
cdef int64_t FAR = 1 << 48
cdef double NEAR = 2.0**50             # such sums of products are exact in doubles


cdef bint near(x, int64_t *out) except -1:
    """True if x is an int of at most 48 bits, which is then `out`."""
    cdef int overflow = 0
    if type(x) is not int:
        return False
    out[0] = PyLong_AsLongLongAndOverflow(x, &overflow)
    return not overflow and -FAR < out[0] < FAR


cdef bint near_span(double item, tuple shape, tuple strides, offset, int64_t *first, int64_t *end) except -1:
    """True with the span of numbers whose sums and products doubles hold exactly; False of others."""
    cdef double n = 1, lo = 0, hi = 0
    cdef int64_t size, step, start
    cdef Py_ssize_t i
    if not near(offset, &start):
        return False
    for i in range(len(shape)):
        if not near(shape[i], &size) or size < 0:
            return False
        n *= size
        if strides is not None:
            if not near(strides[i], &step):
                return False
            if step < 0:
                lo += <double>(size - 1) * step
            else:
                hi += <double>(size - 1) * step
    first[0] = end[0] = 0
    if n == 0:
        return True
    if strides is None:
        hi = n - 1
    if not (n * item < NEAR and -NEAR < lo * item and hi * item < NEAR):
        return False
    first[0], end[0] = <int64_t>(start + lo * item), <int64_t>(start + (hi + 1) * item)
    return True


cdef int span_of(code, shape, strides, offset, int64_t *begin, int64_t *stop) except -1:
    """The bytes that an array reaches, from `begin` on and before `stop`; strides None for contiguous. Raises ValueError for what no array
    can be."""
    if not 0 <= code < FG_NDTYPES or len(shape) > FG_MAXDIM or (strides is not None and len(strides) != len(shape)):
        raise ValueError(f"dtype code {code}, shape {shape}, strides {strides}: at most {FG_MAXDIM} axes, {FG_NDTYPES} dtypes, a stride an axis")
    if type(shape) is tuple and (strides is None or type(strides) is tuple):
        if near_span(fg_itemsize(code), shape, strides, offset, begin, stop):
            return 0
    begin[0] = stop[0] = 0
    item, n, lo, hi = fg_itemsize(code), 1, 0, 0
    for d in shape:
        if d < 0:
            raise ValueError(f"negative size in shape {shape}")
        n *= d
    if not n:
        return 0
    if strides is None:
        hi = n - 1
    else:
        for d, s in zip(shape, strides):
            if s < 0:
                lo += (d - 1) * s
            else:
                hi += (d - 1) * s
    first, end = offset + lo * item, offset + (hi + 1) * item
    if n * item > MAX_BYTES or first < -MAX_BYTES or end > MAX_BYTES:
        raise ValueError(f"shape {shape} with strides {strides} reaches too far")
    begin[0], stop[0] = first, end
    return 0


cdef int64_t size_of(shape) except -1:
    cdef int64_t n = 1, d
    for d in shape:
        n *= d
    return n


fg_pool_init()
fg_pool_limit = min(fg_pool_limit, (bytes_allowed() or MAX_BYTES) // 4)
