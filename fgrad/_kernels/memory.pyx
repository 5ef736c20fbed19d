"""Pooled, 64-byte-aligned memory for arrays and program arenas."""
from libc.stdint cimport int64_t

cdef extern from "memory.h" nogil:
    int64_t fg_idle, fg_live, fg_peak, fg_pool_limit
    void fg_pool_init()
    char *fg_pool_alloc(int64_t n)
    void fg_pool_free(char *p)
    void fg_pool_trim()


cdef char *pool_alloc(int64_t nbytes) noexcept nogil:
    return fg_pool_alloc(nbytes)


cdef void pool_free(char *p) noexcept nogil:
    fg_pool_free(p)


def memory_stats():
    """Bytes held by live arrays and arenas (`live`), their highest sum so far (`peak`), and bytes kept for reuse (`idle`)."""
    return {"live": fg_live, "peak": fg_peak, "idle": fg_idle, "limit": fg_pool_limit}


def trim_memory():
    """Give all idle blocks back to the system."""
    fg_pool_trim()


fg_pool_init()
