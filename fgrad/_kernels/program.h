/* Programs as the executor runs them, the state of one run, and the kinds of instructions. */
#ifndef FG_PROGRAM_H
#define FG_PROGRAM_H
#include "fg.h"
#include "pace.h"

enum { KIND_KERNEL = 0, KIND_WHILE = 1, KIND_SCAN = 2, KIND_COND = 3, KIND_CALLBACK = 4, KIND_TILES = 5, KIND_MEMBERS = 6 };

typedef struct FgProg {
    int32_t n_slots, n_inst, n_args, n_consts, n_outs, n_children;
    int32_t flat;                /* loops of small values may run as flat code, see flat.h */
    FgTensor *slots;             /* templates; data unset */
    int32_t *slot_base;          /* 0: arena, then args, consts, outs */
    int64_t *slot_offset;        /* bytes */
    FgInst *insts;
    int64_t arena_bytes;
    char **const_data;
    struct FgProg **children;
    int32_t *inst_child;         /* first child of each instruction */
} FgProg;

typedef struct FgFlatOp FgFlatOp;
typedef struct { char *fixed; int operand; int64_t bytes; } FgFlatIo;    /* bytes < 0: `fixed` gets the operand's address */
typedef struct { char **at; int operand; int64_t offset; } FgFlatMoving; /* a pointer into a large operand of the loop */

typedef struct FgFlat {
    FgFlatOp *ops;
    int n_ops, cap, start;              /* no op before `start` may be joined with what follows: a jump leads there */
    int failed;
    char *memory;
    uint8_t padded[2048];               /* of each 64 bytes of the memory: whether a place that begins there is padded to them */
    uint8_t between[2048];              /* of each 64 bytes: 1 where a place begins that operations of one group write first and read then, nobody else; 2 where it goes on */
    int64_t used;
    FgFlatIo *ins, *outs;               /* of the loop that the code is for */
    int n_ins, n_outs;
    FgFlatMoving *moving;               /* of each large operand, one after the other */
    int n_moving, moving_cap;
    char **bases;                       /* where the large operands were in the last run; NULL: not a large one */
    int paced, steady;                  /* turns that call kernels are tried, see flat_pace.h; none is just now */
    int64_t began;                      /* when the turn that runs did, if it is part of a trial */
    FgPace pace;
    int machine;                        /* it is to be machine code, whose registers hold more than the interpreter's */
    const void *code;                   /* NULL: the interpreter runs the ops */
    size_t code_bytes;
    FgFlatOp *apart;                    /* ops of that code which the interpreter runs */
} FgFlat;

static inline int fg_flat_count(const FgFlat *f) { return f ? f->n_ops : 0; }

typedef struct FgState {
    FgProg *prog;
    struct FgState *next;        /* among the idle states of a program */
    FgTensor *slots;
    char **bases;
    char *arena;
    struct FgState **children;
    struct FgFlat **flat;        /* of each instruction: its flat code, once it has run */
    void *error;                 /* owned PyObject of an exception raised in a callback */
} FgState;

/* Point a state's slots at its bases. */
static inline void fg_bind_slots(FgState *st) {
    FgProg *p = st->prog;
    for (int i = 0; i < p->n_slots; i++) st->slots[i].data = st->bases[p->slot_base[i]] + p->slot_offset[i];
}
#endif
