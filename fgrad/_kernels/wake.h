/* Workers that sleep are woken on other cores than their caller's.
 *
 * Left alone, Linux often puts a thread that another one wakes on the waker's core, though others are idle, and it takes some
 * milliseconds until one of the two moves: a program that runs after a pause ran on one core. So the caller takes its core from what the
 * sleeping worker may use, and the worker, awake, puts it back. Who cannot be moved wakes where it wakes. */
#ifndef FG_WAKE_H
#define FG_WAKE_H
#ifdef __linux__
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FG_WORKERS = 1024 };
typedef struct { pid_t tid; int asleep, moved; cpu_set_t cores; } FgWorker;    /* cores: what to put back, where moved */
static FgWorker fg_worker[FG_WORKERS];
static int fg_known_workers = 0;

/* All four are called by who holds the mutex of the sleepers, except fg_worker_awake. */
static FgWorker *fg_worker_begins(void) {
    if (fg_known_workers >= FG_WORKERS) return 0;
    FgWorker *w = &fg_worker[fg_known_workers++];
    w->tid = (pid_t)syscall(SYS_gettid);
    return w;
}

static void fg_worker_sleeps(FgWorker *w) { if (w) w->asleep = 1; }

static void fg_wake_elsewhere(void) {
    int core = sched_getcpu();
    if (core < 0 || core >= CPU_SETSIZE) return;
    for (int i = 0; i < fg_known_workers; i++) {
        FgWorker *w = &fg_worker[i];
        if (!w->asleep) continue;
        w->asleep = 0;
        if (w->moved || sched_getaffinity(w->tid, sizeof w->cores, &w->cores) != 0 || !CPU_ISSET(core, &w->cores)) continue;
        cpu_set_t others = w->cores;
        CPU_CLR(core, &others);
        w->moved = CPU_COUNT(&others) > 0 && sched_setaffinity(w->tid, sizeof others, &others) == 0;
    }
}

/* By the worker itself: gives back what was taken. */
static void fg_worker_awake(FgWorker *w) {
    if (!w || !w->moved) return;
    sched_setaffinity(0, sizeof w->cores, &w->cores);
    w->moved = 0;
}
#else
typedef int FgWorker;
static FgWorker *fg_worker_begins(void) { return 0; }
static void fg_worker_sleeps(FgWorker *w) { (void)w; }
static void fg_wake_elsewhere(void) {}
static void fg_worker_awake(FgWorker *w) { (void)w; }
#endif
#endif
