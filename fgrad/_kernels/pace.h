/* Loops, programs that are called again and again, and gradients outside of jit find out by the clock how their turns are split over threads.
 *
 * What a kernel estimates for itself is not what it costs in a turn: where some steps of a turn are split and others are not, arrays move from
 * one core's cache to the other's and back in each turn, which may take longer than the steps do; and where workers are awake anyway, steps of
 * two microseconds are worth them. So a turn whose kernels open parallel loops runs some times of a trial with ranges of the usual length,
 * some with shorter ones and some without threads, keeps what was fastest, and looks again after some thousand turns. No value depends on it. */
#ifndef FG_PACE_H
#define FG_PACE_H
#include <stdint.h>
#include <time.h>
#include "split.h"

/* A round is six turns after two that do not count, in which arrays move, or after those of a quarter of a millisecond, where workers that sleep
 * have to come first; the best of three rounds counts, but where one round shows that threads are worth a quarter. Turns of a millisecond and a
 * half and more stay with threads as estimated. */
enum { FG_PACE_ROUND = 6, FG_PACE_WARM = 2, FG_PACE_ROUNDS = 3, FG_PACE_LASTS = 10000, FG_PACE_LONG = 1500000, FG_PACE_WAKE = 250000 };

typedef struct {
    int32_t split, trying, left;            /* left: turns until the next trial */
    int32_t rounds, turns, counted;         /* rounds of the trial; turns of this round, and how many of them counted */
    int32_t threads;                        /* that there were when the trial began; of another number it tells nothing */
    uint32_t loops;                         /* parallel loops that the thread had opened when the trial began */
    int64_t since, took, best[FG_SPLITS];   /* when this round began; ns of its turns that counted, and of the best round of each split */
} FgPace;

static inline int64_t fg_pace_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

/* When this turn begins if it is part of a trial, else 0. */
static inline int64_t fg_pace_begins(FgPace *p, uint32_t loops, int threads) {
    if (!p->trying || p->threads != threads) {
        if (p->threads == threads && --p->left > 0) return 0;
        *p = (FgPace){.trying = threads > 1, .threads = threads, .left = FG_PACE_LASTS, .loops = loops, .split = FG_SPLIT_FINELY,
                      .best = {INT64_MAX, INT64_MAX, INT64_MAX}};
        if (threads == 1) return 0;
    }
    return fg_pace_now();
}

/* Tell nothing of what has been found: the next turn begins a trial. */
static inline void fg_pace_forget(FgPace *p) { *p = (FgPace){0}; }

/* One thread has to be faster by a sixteenth, and shorter ranges by a thirty-second. */
static inline void fg_pace_ends(FgPace *p, int64_t began, uint32_t loops) {
    static const int32_t next[FG_SPLITS] = {[FG_SPLIT_FINELY] = FG_SPLIT_USUAL, [FG_SPLIT_USUAL] = FG_SPLIT_NEVER, [FG_SPLIT_NEVER] = FG_SPLIT_FINELY};
    if (!p->turns) p->since = began;
    const int warm = p->turns++ < FG_PACE_WARM || (p->split == FG_SPLIT_FINELY && began - p->since < FG_PACE_WAKE);
    if (warm) { p->took = p->counted = 0; return; }
    p->took += fg_pace_now() - began;
    if (++p->counted < FG_PACE_ROUND) return;
    p->turns = 0;
    p->rounds++;
    if (p->took < p->best[p->split]) p->best[p->split] = p->took;
    p->split = next[p->split];
    const int64_t usual = p->best[FG_SPLIT_USUAL], finely = p->best[FG_SPLIT_FINELY], alone = p->best[FG_SPLIT_NEVER];
    const int64_t shared = finely < usual - usual / 32 ? finely : usual;
    const int first = p->rounds == 1 && (loops == p->loops || p->took > FG_PACE_ROUND * (int64_t)FG_PACE_LONG);
    const int clear = p->rounds == FG_SPLITS && alone - alone / 5 > shared;
    if (!first && !clear && p->rounds < FG_SPLITS * FG_PACE_ROUNDS) return;
    p->split = first ? FG_SPLIT_USUAL : alone < shared - shared / 16 ? FG_SPLIT_NEVER : shared == finely ? FG_SPLIT_FINELY : FG_SPLIT_USUAL;
    p->trying = 0;
    p->left = FG_PACE_LASTS;
}
#endif
