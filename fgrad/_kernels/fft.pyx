"""Discrete Fourier transforms.

fft   x -> out, both contiguous, complex64 and complex128 or their real counterparts; ip [kind, inverse, axes...].
      kind 0: complex to complex; 1: from real numbers to all frequencies or the first n // 2 + 1 of the last axis listed, as the
      output's shape tells; 2: from n // 2 + 1 frequencies to real numbers.
      Inverse transforms are divided by the number of elements. Results do not depend on the number of threads.
"""
from libc.stdint cimport int64_t

from fgrad._kernels.abi cimport FgInst, FgTensor
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport parallel_for, thread_count

cdef extern from "fft.h" nogil:
    ctypedef void (*FftBody)(void *ctx, int64_t begin, int64_t end, int tid)
    ctypedef struct FftJob:
        void (*parallel)(int64_t n, int64_t grain, FftBody body, void *ctx) noexcept
        char *(*alloc)(int64_t nbytes) noexcept
        void (*release)(char *p) noexcept
        int threads, shared, out_of_memory
    int fft_check_all(FgInst *inst, const FgTensor *slots, char *msg)
    int fft_run_all(const FgInst *inst, FgTensor *slots, FftJob *job)


cdef int fft_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    return fft_check_all(inst, slots, msg)


cdef int fft_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FftJob job
    job.parallel, job.alloc, job.release = <void (*)(int64_t, int64_t, FftBody, void *) noexcept>parallel_for, pool_alloc, pool_free
    job.threads, job.shared, job.out_of_memory = thread_count(), 0, 0
    return fft_run_all(inst, slots, &job)


KERNELS = {"fft": (<size_t><void *>fft_run, <size_t><void *>fft_check)}
