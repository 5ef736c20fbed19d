/* The one OpenMP door.  Included by parallel.pyx only, so that its state exists once in the process. */
#ifndef FG_PARALLEL_H
#define FG_PARALLEL_H
#include <omp.h>
#include <pthread.h>
#include <stdint.h>

typedef void (*FgBody)(void *ctx, int64_t begin, int64_t end, int tid);

static int fg_threads = 1;
static int fg_forked = 0;                      /* libgomp's team does not survive fork(): a child runs serially */
static __thread int fg_nested = 0;
static pthread_mutex_t fg_team = PTHREAD_MUTEX_INITIALIZER;

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

/* Run body over [0, n) in at most one contiguous range per thread, each of at least `grain` items.  Nested calls,
 * calls while another Python thread holds the team, and small n run on the caller. */
static void fg_parallel_for(int64_t n, int64_t grain, FgBody body, void *ctx) {
    if (n <= 0) return;
    int64_t want = grain > 0 ? n / grain : n;
    int t = fg_get_threads();
    if (want < t) t = (int)want;
    if (t <= 1 || fg_nested || pthread_mutex_trylock(&fg_team) != 0) { body(ctx, 0, n, 0); return; }
    #pragma omp parallel num_threads(t)
    {
        int k = omp_get_thread_num(), got = omp_get_num_threads();
        fg_nested = 1;
        int64_t b = n * k / got, e = n * (k + 1) / got;
        if (e > b) body(ctx, b, e, k);
        fg_nested = 0;
    }
    pthread_mutex_unlock(&fg_team);
}
#endif
