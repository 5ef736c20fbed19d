"""Calls of a Python function that runs many small programs, split over threads as is fastest: each program by itself does not see what
arrays cost that move between cores from one to the next."""
from libc.stdint cimport int64_t, uint32_t

from fgrad._kernels.parallel cimport FG_SPLIT_NEVER, loop_count, set_split, thread_count

cdef extern from "pace.h" nogil:
    enum:
        FG_PACE_ROUND
    int64_t fg_pace_now()
    int64_t fg_pace_begins(FgPace *p, uint32_t loops, int threads)
    void fg_pace_ends(FgPace *p, int64_t began, uint32_t loops)
    void fg_pace_forget(FgPace *p)

cdef enum:
    FIRST = 3                     # calls that compile
    SLOW = 3                      # calls on one thread, each of twice the time, after which there is another trial: a function's arrays may grow


cdef class Pace:
    """begins() before a call, on its thread, and ends() after it, whatever happened."""

    cdef Turn begins(self) noexcept:
        cdef Turn turn = Turn(set_split(FG_SPLIT_NEVER), 0, 0)
        if turn.split == FG_SPLIT_NEVER:                        # a turn around this one decides
            return turn
        if self.calls < FIRST:
            self.calls += 1
        else:
            turn.began = fg_pace_begins(&self.pace, loop_count(), thread_count())
        if self.pace.split == FG_SPLIT_NEVER and not turn.began:
            turn.watched = fg_pace_now()
        set_split(self.pace.split)
        return turn

    cdef void ends(self, Turn turn) noexcept:
        set_split(turn.split)
        if turn.began:
            fg_pace_ends(&self.pace, turn.began, loop_count())
        elif turn.watched:
            if fg_pace_now() - turn.watched <= 2 * self.pace.best[FG_SPLIT_NEVER] // FG_PACE_ROUND:
                self.slow = 0
                return
            self.slow += 1
            if self.slow == SLOW:
                fg_pace_forget(&self.pace)
                self.slow = 0
