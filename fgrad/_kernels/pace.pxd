from libc.stdint cimport int32_t, int64_t

cdef extern from "pace.h" nogil:
    ctypedef struct FgPace:
        int32_t split
        int64_t best[3]

cdef struct Turn:                 # one call
    int split                     # as it was before
    int64_t began                 # of a trial
    int64_t watched               # with one thread, beyond it

cdef class Pace:
    cdef object owner             # what is called
    cdef FgPace pace
    cdef int calls                # so far, of those in which programs are still made
    cdef int slow                 # in succession, that took longer than a trial's
    cdef Turn begins(self) noexcept
    cdef void ends(self, Turn turn) noexcept
