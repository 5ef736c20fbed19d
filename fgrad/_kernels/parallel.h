/* The one door to threads: a team that lives in one OpenMP region, opened at the first parallel loop.
 *
 * A loop is a number of ranges that are claimed one by one, by the caller as by the workers, each its own first. The caller never waits for a worker
 * that has not begun: where another process holds a core, it does all the work itself. Idle workers spin for a fifth of a
 * millisecond, so that the loops of one program find them awake, and then sleep.
 * Included by parallel.pyx only, so that its state exists once in the process. */
#ifndef FG_PARALLEL_H
#define FG_PARALLEL_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE                            /* cpu_set_t */
#endif
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#include "flush.h"
#include "split.h"
#include "wake.h"

typedef void (*FgBody)(void *ctx, int64_t begin, int64_t end, int tid);

#define FG_SPINS 4000                          /* of a pause instruction: 40 to 200 microseconds */
#define FG_AWAKE 200000                        /* ns for which an idle worker looks for the next loop */

static int fg_threads = 1;
static int fg_workers = 0;                     /* started so far */
static int fg_forked = 0;                      /* the team does not survive fork(): a child runs serially */
static __thread int fg_nested = 0;
static __thread int fg_finely = 0;             /* this thread's ranges may be shorter */
static __thread uint32_t fg_opened = 0;        /* loops that this thread has begun to share, or would have */
static pthread_mutex_t fg_team = PTHREAD_MUTEX_INITIALIZER;      /* held by the loop that runs */
static pthread_mutex_t fg_sleep = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t fg_wake = PTHREAD_COND_INITIALIZER;

#define FG_MOST 1024                           /* threads */

/* The loop that runs: (its number << 32 | ranges). fg_taken tells of each range in which loop it was claimed last, and only grows: a claim
 * succeeds only in the loop it was read from, and a loop ends only when all its ranges are done, so the other fields are stable for
 * whoever holds a range. A thread begins with the range of its own number, whose arrays its core's cache holds since the loop before. */
static _Atomic uint64_t fg_loop = 0;
static _Atomic uint32_t fg_taken[FG_MOST];
static _Atomic int fg_numbers = 0;             /* of workers, from 1 on */
static _Atomic int fg_left = 0;                /* ranges that are not done */
static _Atomic int fg_sleepers = 0;            /* may somebody sleep whom no loop has woken? */
static FgBody fg_body;
static void *fg_ctx;
static int64_t fg_n;
static uint64_t fg_mode;                       /* the caller's, of denormal numbers */

static inline void fg_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

static int64_t fg_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

/* Run what nobody has claimed yet. */
static void fg_help(int number) {
    const uint64_t now = atomic_load_explicit(&fg_loop, memory_order_acquire);
    const uint32_t loop = (uint32_t)(now >> 32);
    const int ranges = (int)(now & 0xffff);
    for (int i = 0; i < ranges; i++) {
        const int k = (number + i) % ranges;
        uint32_t last = atomic_load_explicit(&fg_taken[k], memory_order_relaxed);
        while ((int32_t)(loop - last) > 0) {
            if (!atomic_compare_exchange_weak_explicit(&fg_taken[k], &last, loop, memory_order_acq_rel, memory_order_relaxed)) continue;
            fg_flush_end(fg_mode);
            int64_t b = fg_n * k / ranges, e = fg_n * (k + 1) / ranges;
            if (e > b) fg_body(fg_ctx, b, e, k);
            atomic_fetch_sub_explicit(&fg_left, 1, memory_order_release);
            break;
        }
    }
}

static void fg_serve(void) {
    uint64_t seen = 0;                         /* the loop served last */
    const int number = atomic_fetch_add(&fg_numbers, 1) + 1;
    fg_nested = 1;
    pthread_mutex_lock(&fg_sleep);
    FgWorker *self = fg_worker_begins();
    pthread_mutex_unlock(&fg_sleep);
    for (;;) {
        int spins = 0;
        int64_t since = 0;
        while ((atomic_load_explicit(&fg_loop, memory_order_acquire) >> 32) == seen) {
            if (++spins % 64) { fg_pause(); continue; }
            const int64_t now = fg_now();
            if (!since) since = now;
            if (now - since < FG_AWAKE) continue;
            pthread_mutex_lock(&fg_sleep);
            for (;;) {
                atomic_store(&fg_sleepers, 1);
                if ((atomic_load(&fg_loop) >> 32) != seen) break;
                fg_worker_sleeps(self);
                pthread_cond_wait(&fg_wake, &fg_sleep);
            }
            pthread_mutex_unlock(&fg_sleep);
            fg_worker_awake(self);
        }
        seen = atomic_load_explicit(&fg_loop, memory_order_acquire) >> 32;
        fg_help(number);
    }
}

static void *fg_host(void *count) {
    #pragma omp parallel num_threads((int)(intptr_t)count)
    fg_serve();
    return 0;
}

static void fg_grow(int workers) {
    pthread_t host;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&host, &detached, fg_host, (void *)(intptr_t)(workers - fg_workers)) == 0) fg_workers = workers;
    pthread_attr_destroy(&detached);
}

static void fg_after_fork_child(void) {
    fg_forked = 1;
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    fg_team = fresh;
}

static void fg_parallel_init(int n) {
    static int once = 0;
    fg_threads = n;
    if (!once) { once = 1; pthread_atfork(0, 0, fg_after_fork_child); }
}

static int fg_get_threads(void) { return fg_forked ? 1 : fg_threads; }

static uint32_t fg_loop_count(void) { return fg_opened; }

/* How this thread's loops are split; returns how they were before. */
static int fg_set_split(int split) {
    int before = fg_nested ? FG_SPLIT_NEVER : fg_finely ? FG_SPLIT_FINELY : FG_SPLIT_USUAL;
    fg_nested = split == FG_SPLIT_NEVER;
    fg_finely = split == FG_SPLIT_FINELY;
    return before;
}

/* Waking workers takes the caller some 20 microseconds, and they come some 40 later. */
#define FG_WAKE_WORTH 40000                    /* ns of work */
#define FG_WAKE_GAP 300000                     /* ns without a loop, after which work that came before does not count */

/* Whether a loop of so much work shall wake workers that sleep: it does if it is long, or not the first one. By who holds the team. */
static int fg_worth_waking(int64_t work) {
    static int64_t missed = 0, last = 0;
    const int64_t now = fg_now();
    missed = now - last > FG_WAKE_GAP ? work : missed + work;
    last = now;
    return missed >= FG_WAKE_WORTH;
}

/* Run body over [0, n) in at most one contiguous range per thread, each of at least `grain` items; `tid` is the number of the
 * range. `work`: ns that one thread takes, roughly. Nested calls, calls while another Python thread holds the team, and small n run on
 * the caller. */
static void fg_parallel_of(int64_t n, int64_t grain, int64_t work, FgBody body, void *ctx) {
    if (n <= 0) return;
    int64_t want = grain > 0 ? (fg_finely ? FG_FINE * n : n) / grain : n;
    if (want > n) want = n;
    int t = fg_get_threads();
    if (want < t) t = (int)want;
    if (t <= 1 || fg_nested) { body(ctx, 0, n, 0); return; }
    fg_opened++;
    if (pthread_mutex_trylock(&fg_team) != 0) { body(ctx, 0, n, 0); return; }
    if (work < FG_WAKE_WORTH && atomic_load(&fg_sleepers) && !fg_worth_waking(work)) {
        pthread_mutex_unlock(&fg_team);
        body(ctx, 0, n, 0);
        return;
    }
    if (fg_workers < t - 1) fg_grow(fg_threads - 1);
    fg_nested = 1;
    fg_body = body; fg_ctx = ctx; fg_n = n; fg_mode = fg_flush_now();
    atomic_store_explicit(&fg_left, t, memory_order_relaxed);
    uint64_t loop = (atomic_load_explicit(&fg_loop, memory_order_relaxed) >> 32) + 1;
    atomic_store(&fg_loop, (loop & 0xffffffff) << 32 | (uint64_t)t);
    if (atomic_load(&fg_sleepers)) {
        pthread_mutex_lock(&fg_sleep);
        atomic_store(&fg_sleepers, 0);         /* they are on their way: the next loop need not call them again */
        fg_wake_elsewhere();
        pthread_mutex_unlock(&fg_sleep);
        pthread_cond_broadcast(&fg_wake);
    }
    fg_help(0);
    for (int spins = 0; atomic_load_explicit(&fg_left, memory_order_acquire) > 0;) {
        if (++spins < FG_SPINS) fg_pause(); else sched_yield();
    }
    fg_nested = 0;
    pthread_mutex_unlock(&fg_team);
}

/* Where nothing is known of the work but that it is worth threads. */
static void fg_parallel_for(int64_t n, int64_t grain, FgBody body, void *ctx) { fg_parallel_of(n, grain, FG_WAKE_WORTH, body, ctx); }
#endif
