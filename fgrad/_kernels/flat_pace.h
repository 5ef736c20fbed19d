/* Turns of flat code that call kernels, split over threads as is fastest: at each turn's beginning stands a call of what ends the turn before it. */
#ifndef FG_FLAT_PACE_H
#define FG_FLAT_PACE_H
#include "flat_emit.h"
#include "flat_machine.h"

static int (*fg_flat_split)(int split);                                     /* of parallel.pxd */
static uint32_t (*fg_flat_loops)(void);
static int (*fg_flat_threads)(void);

static int fg_flat_turn(const FgInst *inst, FgTensor *code) {
    FgFlat *f = (FgFlat *)code;
    if (!f->paced || (f->steady && --f->pace.left > 0)) return FG_OK;
    if (f->began) fg_pace_ends(&f->pace, f->began, fg_flat_loops());
    f->began = fg_pace_begins(&f->pace, fg_flat_loops(), fg_flat_threads());
    f->steady = !f->began;                  /* until the next trial nothing changes in this run */
    fg_flat_split(f->pace.split);
    return FG_OK;
}
static const FgInst fg_flat_turns = {.run = fg_flat_turn};

/* Have the turns of a loop, whose code begins at `top`, tried if they call kernels and no loop inside of it has turns that are. */
static void fg_flat_pace(FgFlat *f, int top) {
    int calls = 0;
    for (int k = top; k < f->n_ops; k++) {
        if ((intptr_t)f->ops[k].label != FLAT_call) continue;
        if (f->ops[k].a == (const char *)&fg_flat_turns) return;
        calls = 1;
    }
    if (!calls) return;
    fg_flat_op(f, FLAT_call, 0, 0, 0, 0, 0, 0);
    if (f->failed) return;
    FgFlatOp turn = f->ops[f->n_ops - 1];
    turn.d = (char *)f;
    turn.a = (const char *)&fg_flat_turns;
    memmove(&f->ops[top + 1], &f->ops[top], (f->n_ops - 1 - top) * sizeof(FgFlatOp));
    f->ops[top] = turn;
}

/* Run flat code, whose turns decide for themselves unless one around them runs without threads. */
static int fg_flat_run_paced(FgFlat *f) {
    const int before = fg_flat_split(FG_SPLIT_USUAL);
    f->paced = before != FG_SPLIT_NEVER;
    f->began = f->steady = 0;
    if (!f->paced) fg_flat_split(before);
    const int rc = f->code ? fg_flat_run_machine(f) : fg_flat_run(f->ops, NULL);
    fg_flat_split(before);
    return rc;
}
#endif
