"""The one OpenMP door: every kernel splits its work through `parallel_for`."""
from libc.stdint cimport int64_t, uint32_t

import os

from fgrad._kernels.container import cores_allowed

cdef extern from "parallel.h" nogil:
    enum:
        FG_MOST
    void fg_parallel_init(int n)
    int fg_get_threads()
    uint32_t fg_loop_count()
    int fg_set_split(int split)
    void fg_parallel_for(int64_t n, int64_t grain, range_body body, void *ctx)
    void fg_parallel_of(int64_t n, int64_t grain, int64_t work, range_body body, void *ctx)


cdef void parallel_for(int64_t n, int64_t grain, range_body body, void *ctx) noexcept nogil:
    fg_parallel_for(n, grain, body, ctx)


cdef void parallel_of(int64_t n, int64_t grain, double work, range_body body, void *ctx) noexcept nogil:
    """Work of so many microseconds, for which workers that sleep may not be worth waking."""
    fg_parallel_of(n, grain, <int64_t>(1000 * min(work, 1e6)), body, ctx)


cdef void parallel_grains(int64_t n, int64_t grain, range_body body, void *ctx) noexcept nogil:
    """The same where a grain is about 10 microseconds."""
    fg_parallel_of(n, grain, <int64_t>(10000 * min(<double>n / grain, 100.0)), body, ctx)


cdef int thread_count() noexcept nogil:
    return fg_get_threads()


cdef uint32_t loop_count() noexcept nogil:
    """Loops that this thread has begun to share, or would have if the workers had been awake or free."""
    return fg_loop_count()


cdef int set_split(int split) noexcept nogil:
    """How this thread's loops are split from now on, see split.h; returns how they were before."""
    return fg_set_split(split)


def loops_begun():
    """loop_count, for tests."""
    return fg_loop_count()


def set_num_threads(int n):
    """Set how many threads kernels may use (1 or more)."""
    if n < 1:
        raise ValueError(f"set_num_threads: expected a count of at least 1, got {n}")
    fg_parallel_init(min(n, FG_MOST))


def get_num_threads():
    """How many threads kernels may use."""
    return fg_get_threads()


def most_threads():
    """How many threads a program that is compiled now may meet: as many as are set, or as there are cores to set them to later."""
    return max(fg_get_threads(), _cores())


def _cores():
    """Cores that this process may use: threads beyond a container's quota only use it up sooner, and then all of them wait."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, cores_allowed() or cores))


def _default_threads():
    for name in ("FGRAD_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "").split(",")[0].strip()
        if text:
            if not text.isdigit() or int(text) < 1:
                raise ValueError(f"{name}={text!r}: expected a whole number of at least 1")
            return int(text)
    return _cores()


set_num_threads(_default_threads())
