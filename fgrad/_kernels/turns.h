/* Loops ask now and then whether a signal waits, so that Ctrl-C ends them: every ten milliseconds or so, by a count of turns that
 * follows the time they take, since a clock in each turn would cost what a small loop does. */
#ifndef FG_TURNS_H
#define FG_TURNS_H
#include <Python.h>
#include <time.h>
#include "fg.h"

enum { FG_TURNS_NS = 10000000 };
typedef struct { int64_t left, step, last; } FgTurns;       /* turns until the next look at the clock, the count it began with, ns */

/* FG_EPYTHON, with the exception set, if a signal's handler raised one. With or without the GIL; other threads than Python's first
 * one handle no signals. */
static __attribute__((cold, noinline)) int fg_turns_look(FgTurns *t) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ns = now.tv_sec * (int64_t)1000000000 + now.tv_nsec, took = t->last ? ns - t->last : 0;
    int rc = FG_OK;
    if (!t->last) t->step = 1;                              /* a turn may take seconds: nothing is known yet */
    else if (took < FG_TURNS_NS) t->step *= took < FG_TURNS_NS / 4 ? 4 : 2;
    else {
        PyGILState_STATE gil = PyGILState_Ensure();
        if (PyErr_CheckSignals()) rc = FG_EPYTHON;
        PyGILState_Release(gil);
        if (took > 4 * (int64_t)FG_TURNS_NS && t->step > 1) t->step /= 2;
    }
    if (took >= FG_TURNS_NS || !t->last) t->last = ns;
    t->left = t->step;
    return rc;
}
static inline int fg_turn(FgTurns *t) { return --t->left > 0 ? FG_OK : fg_turns_look(t); }
#endif
