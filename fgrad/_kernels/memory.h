/* A pool of 64-byte-aligned blocks in size classes (four per power of two).  Freed blocks are kept for reuse, so a
 * program in its steady state meets no fresh pages; above `fg_pool_limit` idle bytes they go back to the system. */
#ifndef FG_MEMORY_H
#define FG_MEMORY_H
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#define FG_CLASSES 256
typedef struct FgBlock { struct FgBlock *next; int64_t size; int64_t cls; int64_t pad[5]; } FgBlock;  /* 64 bytes */

static FgBlock *fg_free_list[FG_CLASSES];
static int64_t fg_idle = 0, fg_live = 0, fg_peak = 0, fg_pool_limit = (int64_t)4 << 30;
static pthread_mutex_t fg_pool_lock = PTHREAD_MUTEX_INITIALIZER;

static void fg_pool_prepare(void) { pthread_mutex_lock(&fg_pool_lock); }
static void fg_pool_release(void) { pthread_mutex_unlock(&fg_pool_lock); }
static void fg_pool_init(void) { pthread_atfork(fg_pool_prepare, fg_pool_release, fg_pool_release); }

static int fg_class(int64_t n, int64_t *size) {
    if (n <= 64) { *size = 64; return 0; }
    int e = 63 - __builtin_clzll((unsigned long long)(n - 1));     /* 2^e < n <= 2^(e+1) */
    int64_t step = (int64_t)1 << (e - 2), base = (int64_t)1 << e;
    int64_t k = (n - base + step - 1) / step;                      /* 1..4 */
    *size = base + k * step;
    return (e - 5) * 4 + (int)k;
}

/* A fresh block. Large ones ask for huge pages: fewer faults at first touch, fewer TLB misses ever after. */
#define FG_HUGE ((int64_t)2 << 20)
static FgBlock *fg_fresh(int64_t bytes) {
    void *p = 0;
    if (posix_memalign(&p, bytes >= 2 * FG_HUGE ? FG_HUGE : 64, (size_t)bytes) != 0) return 0;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (bytes >= 2 * FG_HUGE) madvise(p, (size_t)bytes, MADV_HUGEPAGE);
#endif
    return (FgBlock *)p;
}

static char *fg_pool_alloc(int64_t n) {
    int64_t size; 
    if (n < 0 || n > ((int64_t)1 << 46)) return NULL;
    int c = fg_class(n, &size);
    pthread_mutex_lock(&fg_pool_lock);
    FgBlock *b = fg_free_list[c];
    if (b) { fg_free_list[c] = b->next; fg_idle -= size; }
    fg_live += size;
    if (fg_live > fg_peak) fg_peak = fg_live;
    pthread_mutex_unlock(&fg_pool_lock);
    if (!b) {
        if (!(b = fg_fresh(size + 64))) {
            pthread_mutex_lock(&fg_pool_lock); fg_live -= size; pthread_mutex_unlock(&fg_pool_lock);
            return NULL;
        }
        b->size = size; b->cls = c;
    }
    return (char *)b + 64;
}

static void fg_pool_free(char *p) {
    if (!p) return;
    FgBlock *b = (FgBlock *)(p - 64);
    pthread_mutex_lock(&fg_pool_lock);
    fg_live -= b->size;
    int keep = fg_idle + b->size <= fg_pool_limit;
    if (keep) { b->next = fg_free_list[b->cls]; fg_free_list[b->cls] = b; fg_idle += b->size; }
    pthread_mutex_unlock(&fg_pool_lock);
    if (!keep) free(b);
}

static void fg_pool_trim(void) {
    pthread_mutex_lock(&fg_pool_lock);
    for (int c = 0; c < FG_CLASSES; c++) {
        while (fg_free_list[c]) { FgBlock *b = fg_free_list[c]; fg_free_list[c] = b->next; fg_idle -= b->size; free(b); }
    }
    pthread_mutex_unlock(&fg_pool_lock);
}
#endif
