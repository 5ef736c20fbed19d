"""Calls of a Python function that runs many small programs, with threads or without, as is faster: each program by itself does not see what
arrays cost that move between cores from one to the next."""
from libc.stdint cimport int64_t, uint32_t, uintptr_t

from fgrad._kernels.parallel cimport thread_count

from fgrad._kernels import parallel

cdef extern from "pace.h" nogil:
    enum:
        FG_PACE_ROUND
        FG_PACE_WARM
    int64_t fg_pace_now()
    int64_t fg_pace_begins(FgPace *p, uint32_t loops, int threads)
    void fg_pace_ends(FgPace *p, int64_t began, uint32_t loops)

cdef enum:
    FIRST = 3                     # calls that compile
    SLOW = 3                      # calls on one thread, each of twice the time, after which there is another trial: a function's arrays may grow

cdef uint32_t (*loop_count)() noexcept nogil
cdef int (*set_alone)(int alone) noexcept nogil
loop_count = <uint32_t (*)() noexcept nogil><uintptr_t>parallel.PACE[0]
set_alone = <int (*)(int alone) noexcept nogil><uintptr_t>parallel.PACE[1]


cdef class Pace:
    """begins() before a call, on its thread, and ends() after it, whatever happened."""

    cdef Turn begins(self) noexcept:
        cdef Turn turn = Turn(set_alone(1), 0, 0)
        if turn.alone:            # a turn around this one decides
            return turn
        if self.calls < FIRST:
            self.calls += 1
        else:
            turn.began = fg_pace_begins(&self.pace, loop_count(), thread_count())
        if self.pace.alone and not turn.began:
            turn.watched = fg_pace_now()
        set_alone(self.pace.alone)
        return turn

    cdef void ends(self, Turn turn) noexcept:
        set_alone(turn.alone)
        if turn.began:
            fg_pace_ends(&self.pace, turn.began, loop_count())
        elif turn.watched:
            if fg_pace_now() - turn.watched <= 2 * self.pace.best[1] // (FG_PACE_ROUND - FG_PACE_WARM):
                self.slow = 0
                return
            self.slow += 1
            if self.slow == SLOW:
                self.pace = FgPace(alone=0)
                self.slow = 0
