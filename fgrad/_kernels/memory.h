/* A pool of 64-byte-aligned blocks in size classes (four per power of two).  Freed blocks are kept for reuse, so a program in its
 * steady state meets no fresh pages; above `fg_pool_limit` idle bytes, or where the system has no more, they go back to it. */
#ifndef FG_MEMORY_H
#define FG_MEMORY_H
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

#define FG_CLASSES 256
typedef struct FgBlock {        /* 64 bytes. cut: it lies in a stretch; empty: and its pages are the system's again, it does not count as idle */
    struct FgBlock *next;
    int64_t size, cls, cut, empty, pad[3];
} FgBlock;

static FgBlock *fg_free_list[FG_CLASSES];
static int64_t fg_idle = 0, fg_live = 0, fg_peak = 0, fg_pool_limit = (int64_t)4 << 30;

/* What it guards takes a few instructions, so it spins: in a process of several threads a free mutex takes twice as long. */
static int fg_pool_held = 0;
static inline void fg_pool_unlock(void) { __atomic_store_n(&fg_pool_held, 0, __ATOMIC_RELEASE); }
static inline void fg_pool_lock(void) {
    while (__builtin_expect(__atomic_exchange_n(&fg_pool_held, 1, __ATOMIC_ACQUIRE), 0)) sched_yield();
}
static void fg_pool_init(void) {
    pthread_atfork(fg_pool_lock, fg_pool_unlock, fg_pool_unlock);
#if defined(__linux__)
    int64_t quarter = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 4;       /* small machines keep less for reuse */
    if (quarter > 0 && quarter < fg_pool_limit) fg_pool_limit = quarter;
#endif
}

static int fg_class(int64_t n, int64_t *size) {
    if (n <= 64) { *size = 64; return 0; }
    int e = 63 - __builtin_clzll((unsigned long long)(n - 1));     /* 2^e < n <= 2^(e+1) */
    int64_t step = (int64_t)1 << (e - 2), base = (int64_t)1 << e;
    int64_t k = (n - base + step - 1) / step;                      /* 1..4 */
    *size = base + k * step;
    return (e - 5) * 4 + (int)k;
}

/* A fresh block. Large ones are mappings of their own: the heap would keep the holes that they leave among blocks that stay. They start
 * at a huge page and ask for such: fewer faults at first touch, fewer TLB misses ever after. */
#define FG_HUGE ((int64_t)2 << 20)
#if defined(__linux__) && defined(MADV_HUGEPAGE)
#define FG_MAPPED(size) ((size) + 64 >= 2 * FG_HUGE)
static FgBlock *fg_map(int64_t bytes) {
    char *p = (char *)mmap(NULL, (size_t)(bytes + FG_HUGE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == (char *)MAP_FAILED) return NULL;
    int64_t before = (int64_t)(-(uintptr_t)p & (uintptr_t)(FG_HUGE - 1)), page = sysconf(_SC_PAGESIZE), end = (bytes + page - 1) & -page;
    if (before) munmap(p, (size_t)before);
    if (before + end < bytes + FG_HUGE) munmap(p + before + end, (size_t)(bytes + FG_HUGE - before - end));
    madvise(p + before, (size_t)end, MADV_HUGEPAGE);
    return (FgBlock *)(p + before);
}
static void fg_unmap(FgBlock *b) { munmap(b, (size_t)(b->size + 64)); }
static void fg_empty(FgBlock *b) {       /* the whole pages of its data go back */
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = ((uintptr_t)b + 64 + page - 1) & -page, end = ((uintptr_t)b + 64 + b->size) & -page;
    if (first < end) madvise((void *)first, end - first, MADV_DONTNEED);
}
#else
#define FG_MAPPED(size) 0
static FgBlock *fg_map(int64_t bytes) { (void)bytes; return NULL; }
static void fg_unmap(FgBlock *b) { (void)b; }
static void fg_empty(FgBlock *b) { (void)b; }
#endif

/* Blocks in between are cut from stretches of huge pages once others have filled half of one: its 2 MB are 512 faults in small pages, one
 * in a huge one. They stay where they are for good; pages that nobody needs go back to the system without them. */
#define FG_CUT_LEAST ((int64_t)32 << 10)
#define FG_STRETCH ((int64_t)16 << 20)
static FgBlock *fg_cut(int64_t bytes) {
    static char *at = NULL, *end = NULL;
    static int64_t from_heap = 0;
    FgBlock *b = NULL;
    if (!FG_MAPPED(FG_STRETCH)) return NULL;
    fg_pool_lock();
    if (from_heap < FG_HUGE / 2) from_heap += bytes;
    else {
        if (end - at < bytes && (at = end = (char *)fg_map(FG_STRETCH))) end += FG_STRETCH;
        if (end - at >= bytes) { b = (FgBlock *)at; at += bytes; }
    }
    fg_pool_unlock();
    return b;
}

static FgBlock *fg_fresh(int64_t size) {
    FgBlock *b = NULL;
    int64_t cut = 0;
    if (FG_MAPPED(size)) b = fg_map(size + 64);
    else {
        if (size >= FG_CUT_LEAST) cut = (b = fg_cut(size + 64)) != NULL;
        if (!b && posix_memalign((void **)&b, 64, (size_t)(size + 64))) b = NULL;
    }
    if (b) { b->size = size; b->cut = cut; b->empty = 0; }
    return b;
}

static void fg_keep(FgBlock *b) { b->next = fg_free_list[b->cls]; fg_free_list[b->cls] = b; }

/* A block that is in no list goes back to the system; of one that is cut only the pages go, and it to its list. */
static void fg_return(FgBlock *b) {
    if (b->cut) {
        fg_empty(b);
        fg_pool_lock();
        b->empty = 1;
        fg_keep(b);
        fg_pool_unlock();
    } else if (FG_MAPPED(b->size)) fg_unmap(b);
    else free(b);
}

static void fg_pool_trim(void) {
    FgBlock *all = NULL, *b;
    fg_pool_lock();
    for (int c = 0; c < FG_CLASSES; c++) {
        FgBlock **at = &fg_free_list[c];
        while ((b = *at)) {
            if (b->empty) { at = &b->next; continue; }
            *at = b->next;
            fg_idle -= b->size;
            b->next = all;
            all = b;
        }
    }
    fg_pool_unlock();
    while ((b = all)) { all = b->next; fg_return(b); }
}

/* The first block of a list, under the lock. */
static FgBlock *fg_take(int c) {
    FgBlock *b = fg_free_list[c];
    if (b) {
        fg_free_list[c] = b->next;
        if (!b->empty) fg_idle -= b->size;
        b->empty = 0;
    }
    return b;
}

static void fg_count(int64_t size) {
    fg_live += size;
    if (fg_live > fg_peak) fg_peak = fg_live;
}

static char *fg_pool_alloc(int64_t n) {
    int64_t size;
    if (n < 0 || n > ((int64_t)1 << 46)) return NULL;
    int c = fg_class(n, &size);
    fg_pool_lock();
    FgBlock *b = fg_take(c);
    fg_count(size);
    fg_pool_unlock();
    if (!b) {
        if (!(b = fg_fresh(size))) { fg_pool_trim(); b = fg_fresh(size); }     /* what is idle may be what lacks */
        if (!b) {
            fg_pool_lock(); fg_live -= size; fg_pool_unlock();
            return NULL;
        }
        b->cls = c;
    }
    return (char *)b + 64;
}

/* Memory for the time of a run, from `n` = FG_ROAMING bytes on: an idle block of up to four times the size will do, its pages are warm. */
#define FG_ROAMING ((int64_t)1 << 20)
static char *fg_pool_borrow(int64_t n) {
    int64_t size;
    FgBlock *b = NULL;
    int c = fg_class(n, &size);
    fg_pool_lock();
    for (int k = c; k <= c + 8 && k < FG_CLASSES && !b; k++) {
        if ((b = fg_take(k))) fg_count(b->size);
    }
    fg_pool_unlock();
    return b ? (char *)b + 64 : fg_pool_alloc(n);
}

/* Programs with arenas of such sizes borrow them for each run. Larger ones keep theirs: the pool might give it back to the system. */
static int fg_roams(int64_t n) { return n >= FG_ROAMING && n <= fg_pool_limit / 4; }

static void fg_pool_free(char *p) {
    if (!p) return;
    FgBlock *b = (FgBlock *)(p - 64);
    fg_pool_lock();
    fg_live -= b->size;
    int keep = fg_idle + b->size <= fg_pool_limit;
    if (keep) { fg_keep(b); fg_idle += b->size; }
    fg_pool_unlock();
    if (!keep) fg_return(b);
}

#endif
