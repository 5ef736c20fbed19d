/* The plan that `check` hangs on an instruction, and the work of one tile.
 *
 * The iteration space is walked in a row-major order of possibly permuted and merged axes, as
 *     [outer kept axes] x [reduced axes] x [inner kept axes]   =   n_outer x n_red x n_inner
 * and a tile is a flat range of that walk.  Where short reduced rows lie inside kept axes, the inner kept axes are
 *     [kept axes] x [n_seg reduced elements] x [seg_width kept elements]
 * and a tile is reduced over its segments before it is added to what earlier tiles gave: memory is read in its own order. */
#ifndef FG_VM_PLAN_H
#define FG_VM_PLAN_H
#include "vm_reduce.h"
#include "vm_rows.h"
#include "vm_stage.h"

/* an operand is contiguous; the same in every tile; one value in each tile; anything else; read where it lies by an op of rows */
enum { FG_ACC_FULL, FG_ACC_CACHED, FG_ACC_ROW, FG_ACC_GENERAL, FG_ACC_PLACE };
/* at most: operations of a strip; tiles that each of them touches; stages of each: operands brought to scratch, what the strip held put
 * aside, an operand loaded, the result stored */
enum { FG_STRIP_OPS = 256, FG_EDGES_PER_OP = 4, FG_STAGES_PER_OP = 12, FG_IN_STRIPS_OUT = 8 };
enum { FG_MODE_FLAT, FG_MODE_SEGMENT, FG_MODE_WIDE, FG_MODE_COLUMNS };

typedef struct {
    int access, dtype, type, size;      /* memory dtype, register type, memory itemsize */
    int raw;                            /* 16-bit floats that strips widen as they load them: the register's tile is as memory */
    int scalar;                         /* read as one value, by loops made for it */
    int last_use;                       /* FG_TIME of the last read: by op, by n_ops for a reduction, n_ops + 1 + k for output k */
    int64_t buf;                        /* tile buffer, bytes into the thread's workspace */
    int64_t run;                        /* elements of the walk, from each multiple of it, that lie in one piece of memory: */
    int lies;                           /* all of a tile, always */
    int64_t strides[FG_MAXDIM];         /* in walk order */
    int source;                         /* the input that stands for all that read its array: the one furthest ahead */
    int guard;                          /* the box of the walk for which there is memory, -1 for all of it */
    int64_t shift, first, end;          /* the range that its memory spans; where the walk's origin would lie in that of a guarded one */
} FgVmInput;

/* A box of the walk. */
typedef struct {
    int64_t lo[FG_MAXDIM], hi[FG_MAXDIM];
    int marked;                         /* stages want marks of its elements, at buf in the thread's workspace */
    int64_t buf;
} FgVmBox;

#define FG_TIME(op, stage) ((op) * 4096 + (stage))
typedef struct { int reg, type, scalar; int64_t buf; char bits[16]; } FgVmConst;
/* buf < 0: -1 - k, written straight to output k.  strip >= 0: the op is part of that program of stages (vm_fuse.h), and if it is `taken`,
 * its result stays within it; `folded`: it is part of those that read it. */
typedef struct {
    FgVmFn fn;
    FgVmRowsFn rows;                    /* or NULL: of two inputs, a column and a row */
    int op, type, dst, a, b, c, scalar;
    int strip, taken, folded, next;     /* next: the first op from this one on of which a tile takes note */
    int box, patch;                     /* of a window; it may overwrite what lies outside, where its first operand ends with it */
    int table, wraps;                   /* of a take: among the tables; negative indices count from the end of axes, a bit each */
    int joins;                          /* a window that may be a stage */
    int64_t buf;
} FgVmOp;
/* Ops [op, op_end) as stages on lanes of `lane` bytes, run in the last one's place; the registers whose tiles they read or write. From
 * `some` on, as many stages that write as much of a strip as rows leave it at their ends (plan->by_rows), or the walk (plan->ends); -1: none.
 * code: the stages' machine code, which they have when they have been run often enough (heat). */
enum { FG_CODE_WHOLE, FG_CODE_SOME, FG_CODE_ROWS, FG_CODE_ROWS_APART };    /* apart: rows are written where none is read */
typedef struct { int lane, op, op_end, stage, stage_end, edge, n_edges, some, asked_some, asked_rows; int64_t heat; FgStripCode code, code_some, code_rows; } FgVmStrip;
typedef struct { int reg, size, written, masked; } FgVmEdge;

typedef struct {
    int reg, reg2;                      /* reg2 >= 0: the products of the two are summed */
    int term;                           /* bytes of an element of reg */
    int reduce, dtype, type, size, access;
    int direct;                         /* the op that sets reg writes to the output itself, */
    int raw;                            /* a strip, which rounds to 16 bits as it stores */
    int masked;                         /* a strip, which leaves out the gaps of rows (vm_gaps.h) */
    int numbers;                        /* NaN is passed over */
    int write_time;
    int64_t count;                      /* elements of a reduced result */
    int64_t buf, buf2;                  /* accumulators (columns), results on their way to a 16-bit output, or a tile to stream */
    int64_t part;                       /* offset of its partial results */
    int64_t run;
    int lies;
    FgVmFn fn; FgVmSeg seg; FgVmTiles tiles;
    char identity[16];
    int64_t strides[FG_MAXDIM];
} FgVmOutput;

/* Ops that share no operand but scalars with the rest, with their inputs and outputs (ranges of in_order and out_order). */
typedef struct { int op, op_end, in, in_end, out, out_end; } FgVmPart;

typedef struct FgVmFrame FgVmFrame;
typedef struct FgVmPlan FgVmPlan;
struct FgVmPlan {
    int n_in, n_tables, n_const, n_ops, n_out, n_regs, ndim, mode, n_reduced, any_general;
    int n_boxes, box_at;                /* box_at: where they begin in the instruction's integers, in the order of its axes */
    int n_parts;                        /* flat: each part is walked on its own, so that few streams are open at a time */
    int prefetches;                     /* moves enough to fetch a tile's memory while the tile before is computed */
    int nears;                          /* moves as much: a strip that is all there is to do fetches what it reads soon */
    int turns, columns;                 /* outputs may lie between each other's elements; inputs may */
    int streams;                        /* moves more than the caches hold: results go past them */
    int machine;                        /* strips may become machine code, */
    int64_t hot;                        /* those of which so many stages have run */
    int quick;                          /* one tile, read and written where it lies (vm_quick.h) */
    int in_strips;                      /* 0, or how many rows one strip of stages reduces (vm_in_strips.h), `batch` of them in a unit; */
    int sums;                           /* the table of pointers' entries with where outputs' next ones go */
    int64_t batch;
    int framed;                         /* made for a run over all but a frame (vm_frame.h), */
    FgVmFrame *frame;                   /* which it has, or NULL */
    int by_rows;                        /* rows that are too short to be tiles otherwise are (vm_each_row.h) */
    int folds;                          /* segments with many rows of columns: folded by halves, for accuracy and long loops */
    int64_t cols;                       /* 0, or what a row of the walk has of an output: it goes on over the gap behind that (vm_gaps.h) */
    int masked;                         /* 0, or the entry of the table of pointers with the tile's bits of `masks` */
    int ends;                           /* strips end by masks (vm_gaps.h) */
    char *masks;                        /* a bit an element of a walk over gaps: 1 where there is none; before them what is last of strips */
    int64_t n, n_outer, n_red, n_inner;
    int64_t n_seg, seg_width;
    int sums_segments;                  /* a tile's segments are summed before they are added to others; else the sums' segments at the end */
    int64_t seg_buf;                    /* a tile's sums over its segments */
    int64_t row, step, chunks;          /* flat, segment, wide: rows of `row` elements cut in `chunks` tiles of at most `step` */
    int64_t tile_rows, blocks;          /* columns: `blocks` ranges of the reduced axis, tiles of tile_rows x step */
    int64_t group;                      /* columns: tiles that are computed, or read where they lie, together */
    int64_t units, grain, strip_grain;  /* strip_grain: strips of a run over all but a frame */
    int n_strips, n_stages, n_edges;
    int n_slots;                        /* of scratch that strips need: entries of the table of pointers behind the registers and boxes */
    int most_edges;
    int64_t slot_buf, edge_buf;         /* scratch, and the end of a tile that is no whole strip, of each edge */
    int64_t raw_buf;                    /* 16-bit values on their way to or from float32 */
    int64_t partial_bytes;              /* per run: partial results of wide rows or column blocks */
    int64_t tile_buf, work_bytes;       /* where tiles begin; per thread */
    int64_t shape[FG_MAXDIM];
    FgVmInput *in; FgVmConst *consts; FgVmOp *ops; FgVmOutput *out; FgVmBox *boxes;
    FgVmPart *parts;                    /* n_parts, then one of everything */
    FgVmStrip *strips; FgStage *stages; FgVmEdge *edges;
    int *types;                         /* of the registers */
    int *in_order, *out_order;
    int (*make_code)(const FgVmPlan *p, const FgVmStrip *s, int which, FgStripCode *code);   /* or NULL */
};

/* One thread's view of a run. */
typedef struct {
    const FgVmPlan *p;
    const FgInst *inst;
    FgTensor *slots;
    char **ptr;                         /* register -> its values for the current tile; then boxes and the slots of scratch */
    char *work;
    int64_t work_bytes;
    const FgVmPart *part;               /* what is computed now */
    const char *streamed;               /* output -> 1: written past the caches */
    const int16_t (*mates)[FG_VM_MATES]; /* output -> itself and those that lie between its elements; FG_VM_ALONE, or FG_VM_MATE of another */
    const int16_t (*read)[FG_VM_MATES]; /* likewise of inputs, if plan->columns */
    const char *copied;                 /* input -> 1: must be copied, since an output that aliases it is written before its last use */
} FgVmThread;

enum { FG_VM_ALONE = -1, FG_VM_MATE = -2 };
#define FG_MEM(t, i) ((t)->slots[(t)->inst->args[i]].data)
#define FG_RESULT(t, o) FG_MEM(t, (t)->inst->n_in + (o))

/* float32 register <- raw values of a 16-bit float */
static void fg_vm_widen(int dtype, int64_t n, char *dst, const char *src) {
    if (dtype == FG_F16) vm_load_f16(n, (float *)dst, (const uint16_t *)src);
    else vm_load_bf16(n, (float *)dst, (const uint16_t *)src);
}
static void fg_vm_narrow(int dtype, int64_t n, char *dst, const char *src) {
    if (dtype == FG_F16) vm_store_f16(n, (uint16_t *)dst, (const float *)src);
    else vm_store_bf16(n, (uint16_t *)dst, (const float *)src);
}

#include "vm_gaps.h"
#include "vm_window.h"
#include "vm_take.h"
#include "vm_mates.h"

/* Input i for flat range [start, start + len): a pointer into memory where that is possible, else a copy. */
static void fg_vm_fetch(FgVmThread *t, int i, const int64_t *coord, int64_t start, int64_t len) {
    const FgVmPlan *p = t->p;
    const FgVmInput *in = &p->in[i];
    char *mem = FG_MEM(t, i), *dst = t->work + in->buf;
    int widen = in->dtype != in->type && !in->raw;
    const char *src = 0;
    if (p->columns && t->read[i][0] != FG_VM_ALONE) {
        if (t->read[i][0] != FG_VM_MATE) fg_vm_fetch_mates(t, i, coord, len);
        return;
    }
    if (in->guard >= 0) {
        src = fg_vm_guarded(p, in, mem, coord, start, len, widen ? t->work + p->raw_buf : dst);
        if (in->access == FG_ACC_ROW) len = 1;
    } else if (in->access == FG_ACC_FULL) src = mem + start * in->size;
    else if (in->access == FG_ACC_ROW) { src = mem + fg_vm_offset(p->ndim, coord, in->strides) * in->size; len = 1; }
    else if (in->lies || start % in->run + len <= in->run)
        src = mem + fg_vm_offset(p->ndim, coord, in->strides) * in->size;
    if (!src) {
        char *raw = widen ? t->work + p->raw_buf : dst;
        fg_vm_gather(p, in, raw, mem, coord, len);
        if (widen) fg_vm_widen(in->dtype, len, dst, raw);
    } else if (widen) fg_vm_widen(in->dtype, len, dst, src);
    else if (t->copied[i] && src != dst) memcpy(dst, src, len * in->size);
    else { t->ptr[i] = (char *)src; return; }
    t->ptr[i] = dst;
}

/* A tile of an op of a column, or a number, and a row: runs of rows along the last but one axis. */
static void fg_vm_run_op_rows(FgVmThread *t, const FgVmOp *op, const int64_t *coord, int64_t len) {
    const FgVmPlan *p = t->p;
    int last = p->ndim - 1, turned = op->a < p->n_in && p->in[op->a].strides[last] != 0;
    int i = turned ? op->b : op->a, k = turned ? op->a : op->b, number = i >= p->n_in || p->in[i].access != FG_ACC_PLACE;
    const FgVmInput *x = number ? 0 : &p->in[i], *y = &p->in[k];
    int64_t c[FG_MAXDIM + 1], cols = p->shape[last], xs = last && !number ? x->strides[last - 1] : 0, ys = last ? y->strides[last - 1] : 0;
    const int64_t size = fg_itemsize(p->types[op->dst]);
    char *dst = t->ptr[op->dst];
    memcpy(c, coord, p->ndim * sizeof(int64_t));
    while (len > 0) {
        int64_t rows = 1, width = cols - c[last];
        if (width > len) width = len;
        if (width == cols && last) {
            rows = len / cols;
            if (rows > p->shape[last - 1] - c[last - 1]) rows = p->shape[last - 1] - c[last - 1];
        }
        op->rows(rows, width, dst, number ? t->ptr[i] : FG_MEM(t, i) + fg_vm_offset(p->ndim, c, x->strides) * x->size, xs,
                 FG_MEM(t, k) + fg_vm_offset(p->ndim, c, y->strides) * y->size, ys);
        dst += rows * width * size; len -= rows * width;
        c[last] = 0;
        if (!last) continue;
        c[last - 1] += rows;
        for (int d = last - 1; d > 0 && c[d] == p->shape[d]; d--) { c[d] = 0; c[d - 1]++; }
    }
}

/* Once per thread: constants, inputs that are the same in every tile, and the registers' buffers. */
static void fg_vm_prepare(FgVmThread *t) {
    const FgVmPlan *p = t->p;
    int64_t zero[FG_MAXDIM] = {0}, width = p->step * p->tile_rows * p->group * p->n_seg;
    if (width > p->n) width = p->n;
    for (int k = 0; k < p->n_const; k++) {
        const FgVmConst *c = &p->consts[k];
        if (c->scalar) { t->ptr[c->reg] = (char *)c->bits; continue; }
        t->ptr[c->reg] = t->work + c->buf;
        fg_vm_fill(t->ptr[c->reg], c->bits, (int)fg_itemsize(c->type), width);
    }
    for (int i = 0; i < p->n_in; i++) if (p->in[i].access == FG_ACC_CACHED) {
        const FgVmInput *in = &p->in[i];
        char *mem = FG_MEM(t, i), *dst = t->work + in->buf, *raw = in->dtype != in->type ? t->work + p->raw_buf : dst;
        int64_t len = in->scalar ? 1 : width;
        fg_vm_gather(p, in, raw, mem, zero, len);
        if (in->dtype != in->type) fg_vm_widen(in->dtype, len, dst, raw);
        t->ptr[i] = dst;
    }
    for (int k = 0; k < p->n_ops; k++) if (p->ops[k].buf >= 0) t->ptr[p->ops[k].dst] = t->work + p->ops[k].buf;
    for (int k = 0; k < p->n_slots; k++) t->ptr[p->n_regs + p->n_boxes + k] = t->work + p->slot_buf + k * FG_STRIP;
}

enum { FG_FUSE_MIN = 256 };             /* elements from which a pass less is felt */
static int fg_vm_is_const(const FgVmPlan *p, int r) { return r >= p->n_in && r < p->n_in + p->n_const; }
/* The machine code of a strip that is about to run on so many bytes of each operand: there is some once its stages have taken as long as that takes to
 * be made. A thread that finds another at work on some asks again the next time. */
enum { FG_STRIP_ASKED = -1 };           /* heat: nothing more is counted */
static inline FgStripCode fg_strip_code_of(const FgVmPlan *p, FgVmStrip *s, int64_t bytes) {
    FgStripCode code = __atomic_load_n(&s->code, __ATOMIC_ACQUIRE);
    if (!code && p->make_code) {
        int64_t heat = __atomic_load_n(&s->heat, __ATOMIC_RELAXED), now = heat + (bytes + FG_STRIP - 1) / FG_STRIP * (s->stage_end - s->stage);
        if (heat < 0) return NULL;
        if (now >= p->hot && p->make_code(p, s, FG_CODE_WHOLE, &code)) {
            now = FG_STRIP_ASKED;
            __atomic_store_n(&s->code, code, __ATOMIC_RELEASE);
        }
        __atomic_store_n(&s->heat, now, __ATOMIC_RELAXED);
    }
    return code;
}
/* True where a strip whose code has been asked for gets more of it, once. */
static inline int fg_more_code(const FgVmPlan *p, const FgVmStrip *s, int *asked, int which, FgStripCode *code) {
    if (!p->make_code || __atomic_load_n(&s->heat, __ATOMIC_RELAXED) != FG_STRIP_ASKED || __atomic_load_n(asked, __ATOMIC_RELAXED)) return 0;
    if (!p->make_code(p, s, which, code)) return 0;
    __atomic_store_n(asked, 1, __ATOMIC_RELAXED);
    return 1;
}
/* Where rows are folded, a row's last strip has code of its own, which is made when the others' is. */
static inline void fg_run_some(const FgVmPlan *p, FgVmStrip *s, char *const *ptr, int64_t at, int64_t end) {
    FgStripCode code = __atomic_load_n(&s->code_some, __ATOMIC_ACQUIRE);
    if (!code && fg_more_code(p, s, &s->asked_some, FG_CODE_SOME, &code)) __atomic_store_n(&s->code_some, code, __ATOMIC_RELEASE);
    if (code) code(ptr, at, end); else fg_run_stages(p->stages + s->some, ptr, at, end);
}
/* So have rows (vm_each_row.h); which: of the first ones that ask. */
static inline FgStripCode fg_rows_code_of(const FgVmPlan *p, FgVmStrip *s, int which) {
    FgStripCode code = __atomic_load_n(&s->code_rows, __ATOMIC_ACQUIRE);
    if (!code && fg_more_code(p, s, &s->asked_rows, which, &code)) __atomic_store_n(&s->code_rows, code, __ATOMIC_RELEASE);
    return code;
}
static inline void fg_run_strip(const FgVmPlan *p, FgVmStrip *s, char *const *ptr, int64_t at, int64_t end) {
    FgStripCode code = fg_strip_code_of(p, s, end - at);
    if (code) code(ptr, at, end); else fg_run_stages(p->stages + s->stage, ptr, at, end);
}
/* True if op k is one of a strip that runs later, in its last one's place. */
static inline int fg_vm_waits(const FgVmPlan *p, int k) { return p->ops[k].strip >= 0 && k + 1 < p->strips[p->ops[k].strip].op_end; }
/* A strip runs in its last op's place; of the others those count that set where their result goes. */
static void fg_vm_find_next(FgVmPlan *p) {
    for (int k = p->n_ops - 1; k >= 0; k--) p->ops[k].next = fg_vm_waits(p, k) && p->ops[k].buf >= 0 ? p->ops[k + 1].next : k;
}
static inline int fg_vm_next(const FgVmPlan *p, int k, int end) { return k < end ? p->ops[k].next : end; }
/* True for a window that is no stage: its tile may be that of an operand. */
static inline int fg_vm_is_view(const FgVmOp *op) { return op->op == FG_OP_window && op->strip < 0; }
/* What comes closer of the part's next tile while one is computed, so that memory works all the while: equal shares of each input, `turns`
 * of them a loop, no more lines at once than a core keeps in flight; `done` have come. No loops: none. */
enum { FG_FETCH_LINES = 40, FG_FETCH_WEIGHT = 10 };
/* Where a strip is all there is to do, each turn of it fetches `step` bytes of each input that is read where it lies, FG_NEAR ahead: a strip
 * takes so many instructions that a core holds too few loads at once by itself. */
enum { FG_NEAR = 4096, FG_NEAR_INPUTS = 8 };
typedef struct { const char *at; int64_t step; } FgVmNear;
typedef struct { int loops, turns, done; int64_t start, len; } FgVmAhead;

static FgVmAhead fg_vm_ahead(const FgVmThread *t, int64_t start, int64_t len) {
    FgVmAhead a = {0, 1, 0, start + len, len};
    int64_t bytes = 0;
    for (int k = t->part->op, end = t->part->op_end; (k = fg_vm_next(t->p, k, end)) < end; k++) a.loops += !fg_vm_waits(t->p, k);
    for (int j = t->part->in; j < t->part->in_end; j++) {
        const FgVmInput *in = &t->p->in[t->p->in_order[j]];
        if (in->access == FG_ACC_FULL && in->source == t->p->in_order[j]) bytes += len * in->size;
    }
    if (a.loops) a.turns = (int)(1 + bytes / (64 * FG_FETCH_LINES * a.loops));
    return a;
}
static void fg_vm_prefetch(FgVmThread *t, FgVmAhead *a) {
    const FgVmPlan *p = t->p;
    int n = a->loops * a->turns, k = a->done++;
    if (!a->loops) return;
    for (int j = t->part->in; j < t->part->in_end; j++) {
        const FgVmInput *in = &p->in[p->in_order[j]];
        if (in->access != FG_ACC_FULL || in->source != p->in_order[j]) continue;
        const char *src = FG_MEM(t, p->in_order[j]) + a->start * in->size;
        int64_t end = a->len * in->size * (k + 1) / n;
        for (int64_t b = (a->len * in->size * k / n + 63) & -64; b < end; b += 64) __builtin_prefetch(src + b, 0, 3);
    }
}

/* True if no tile that a strip writes lies on one that it reads: then elements can be computed twice. */
static inline int fg_vm_repeats(const FgVmThread *t, const FgVmStrip *s, int64_t n) {
    const FgVmEdge *edges = t->p->edges + s->edge;
    for (int k = 0; k < s->n_edges; k++) for (int j = 0; edges[k].written && j < s->n_edges; j++) {
        const char *to = t->ptr[edges[k].reg], *from = t->ptr[edges[j].reg];
        if (!edges[j].written && to < from + n * edges[j].size && from < to + n * edges[k].size) return 0;
    }
    return 1;
}

/* Pointers to marks of a tile's elements move on by n. */
static inline void fg_vm_move_marks(FgVmThread *t, int64_t n) {
    for (int b = 0; b < t->p->n_boxes; b++) {
        char **at = &t->ptr[t->p->n_regs + b];
        if (t->p->boxes[b].marked && *at != FG_BOX_INSIDE && *at != FG_BOX_OUTSIDE) *at += n;
    }
}

/* True if a strip is all that a part has to do. */
static int fg_vm_is_alone(const FgVmPlan *p, const FgVmPart *part) {
    int last = part->op_end - 1;
    if (last < part->op || p->ops[last].strip < 0) return 0;
    for (int k = part->op; (k = fg_vm_next(p, k, last)) < last; k++) if (!fg_vm_waits(p, k) && !fg_vm_is_view(&p->ops[k])) return 0;
    return 1;
}
/* What the part's only strip reads where it lies. */
static int fg_vm_near(const FgVmThread *t, FgVmNear *near) {
    const FgVmPlan *p = t->p;
    int n = 0, last = t->part->op_end - 1;
    if (!fg_vm_is_alone(p, t->part)) return 0;
    for (int j = t->part->in; j < t->part->in_end && n < FG_NEAR_INPUTS; j++) {
        int i = p->in_order[j];
        const FgVmInput *in = &p->in[i];
        if (in->source != i || (in->access != FG_ACC_FULL && in->access != FG_ACC_GENERAL) || t->ptr[i] == t->work + in->buf) continue;
        near[n++] = (FgVmNear){t->ptr[i] + FG_NEAR, FG_STRIP / p->strips[p->ops[last].strip].lane * in->size};
    }
    return n;
}

/* Bytes [0, end) of each operand of a strip, fetching ahead in between. */
static void fg_vm_run_stages(FgVmThread *t, FgVmStrip *s, int64_t end, FgVmAhead *ahead) {
    int64_t strips = end / FG_STRIP, at = 0;
    FgVmNear near[FG_NEAR_INPUTS];
    int n_near = t->p->nears ? fg_vm_near(t, near) : 0;
    if (n_near) {
        for (int64_t at = 0; at < end; at += FG_STRIP) {
            for (int j = 0; j < n_near; j++) {
                const char *x = near[j].at;
                if (near[j].step == FG_STRIP) { _Pragma("GCC unroll 8") for (int b = 0; b < FG_STRIP; b += 64) __builtin_prefetch(x + b, 0, 3); }
                else for (int64_t b = 0; b < near[j].step; b += 64) __builtin_prefetch(x + b, 0, 3);
                near[j].at += near[j].step;
            }
            fg_run_strip(t->p, s, t->ptr, at, at + FG_STRIP);
        }
        return;
    }
    for (int k = 1, n = ahead->turns; k < n; k++) {
        int64_t next = strips * k / n * FG_STRIP;
        fg_vm_prefetch(t, ahead);
        fg_run_strip(t->p, s, t->ptr, at, next);
        at = next;
    }
    fg_vm_prefetch(t, ahead);
    fg_run_strip(t->p, s, t->ptr, at, end);
}
/* A loop over n elements, likewise if it takes long and its results are as large as its operands. */
static void fg_vm_run_loop(FgVmThread *t, const FgVmOp *op, int64_t n, FgVmAhead *ahead) {
    int even = !op->scalar && (op->type == FG_F32 || op->type == FG_F64) && fg_vm_info[op->op].arity == 1 &&
        fg_vm_info[op->op].weight >= FG_FETCH_WEIGHT;
    int64_t size = fg_itemsize(op->type), at = 0;
    for (int k = 1; k <= ahead->turns; k++) {
        int64_t end = k == ahead->turns ? n : even ? n * k / ahead->turns & -64 : 0;
        fg_vm_prefetch(t, ahead);
        if (end > at) op->fn(end - at, t->ptr[op->dst] + at * size, t->ptr[op->a] + at * size, t->ptr[op->b], t->ptr[op->c]);
        at = end;
    }
}

/* True if memory goes on where a strip that begins in a tile of n elements reads beyond them. */
static int fg_vm_goes_on(const FgVmThread *t, const FgVmStrip *s, int64_t n) {
    const FgVmPlan *p = t->p;
    const FgVmEdge *edges = p->edges + s->edge;
    for (int k = 0; k < s->n_edges; k++) {
        const char *at = t->ptr[edges[k].reg];
        if (edges[k].written || (uint64_t)(at - t->work) < (uint64_t)t->work_bytes) continue;   /* behind a tile there are strips for edges */
        const FgVmInput *in = &p->in[edges[k].reg];
        if (edges[k].reg >= p->n_in || at + n * in->size > FG_MEM(t, edges[k].reg) + in->end * in->size) return 0;
    }
    return 1;
}

static inline void fg_vm_put_edge(char *dst, const char *src, int64_t bytes) {
    if (bytes < 64) { memcpy(dst, src, bytes); return; }
    for (int64_t k = 0; k + 64 < bytes; k += 64) memcpy(dst + k, src + k, 64);
    memcpy(dst + bytes - 64, src + bytes - 64, 64);
}

/* A strip's program over n elements; at the end, what is no whole strip is part of one that begins before it or ends behind it, or runs
 * on copies. */
static void fg_vm_run_strip(FgVmThread *t, FgVmStrip *s, int64_t n, FgVmAhead *ahead) {
    const FgVmPlan *p = t->p;
    const FgVmEdge *edges = p->edges + s->edge;
    int64_t per = FG_STRIP / (unsigned)s->lane, whole = n & -per, rest = n - whole;      /* lanes are powers of two */
    char *tiles[FG_EDGES_PER_OP * FG_STRIP_OPS];
    FgStripCode code = fg_strip_code_of(p, s, n * s->lane);
    FgVmNear near[FG_NEAR_INPUTS];
    if (code && p->nears && fg_vm_near(t, near)) whole = 0, rest = n;        /* the code fetches by itself */
    else if (code && !p->nears && ahead->turns == 1) whole = 0, rest = n, fg_vm_prefetch(t, ahead);
    if (whole) fg_vm_run_stages(t, s, whole * s->lane, ahead);
    if (!rest) return;
    if (code) { code(t->ptr, whole * s->lane, n * s->lane); return; }
    if (whole && p->ends && s->some >= 0) {
        char **masks = &t->ptr[p->masked], *kept = *masks;
        *masks = fg_vm_end_mask(p, s->lane) - (n - per) / 8;
        fg_run_stages(p->stages + s->some, t->ptr, (n - per) * s->lane, n * s->lane);
        *masks = kept;
        return;
    }
    int over_gaps = p->cols && p->masked;
    if (whole && !over_gaps && fg_vm_repeats(t, s, n)) { fg_run_strip(p, s, t->ptr, (n - per) * s->lane, n * s->lane); return; }
    int goes_on = fg_vm_goes_on(t, s, whole + per);
    int64_t before = goes_on ? whole : 0;                    /* what lies before the edges' beginnings */
    for (int k = 0; k < s->n_edges; k++) {
        char *end = t->work + p->edge_buf + k * FG_STRIP, **at = &t->ptr[edges[k].reg];
        tiles[k] = *at;
        if (edges[k].written && !edges[k].masked) *at = end - before * edges[k].size;
        else if (!goes_on && edges[k].masked) *at += whole * edges[k].size;
        else if (!goes_on) {
            memcpy(end, *at + whole * edges[k].size, rest * edges[k].size);
            memset(end + rest * edges[k].size, 0, (per - rest) * edges[k].size);
            *at = end;
        }
    }
    if (!goes_on) fg_vm_move_marks(t, whole);
    if (!goes_on && over_gaps) t->ptr[p->masked] += whole / 8;
    fg_run_strip(p, s, t->ptr, before * s->lane, before * s->lane + FG_STRIP);
    if (!goes_on) fg_vm_move_marks(t, -whole);
    if (!goes_on && over_gaps) t->ptr[p->masked] -= whole / 8;
    for (int k = 0; k < s->n_edges; k++) {
        char *end = t->work + p->edge_buf + k * FG_STRIP;
        if (edges[k].written && !edges[k].masked) fg_vm_put_edge(tiles[k] + whole * edges[k].size, end, rest * edges[k].size);
        t->ptr[edges[k].reg] = tiles[k];
    }
}

#include "vm_pick.h"

/* Load, compute and store flat range [start, start + len).  Reduced outputs are left to the caller, who calls
 * fg_vm_store afterwards. */
static void fg_vm_compute(FgVmThread *t, int64_t *coord, int64_t start, int64_t len) {
    const FgVmPlan *p = t->p;
    FgVmAhead ahead = p->prefetches ? fg_vm_ahead(t, start, len) : (FgVmAhead){0, 1, 0, 0, 0};
    if (p->any_general) fg_vm_coords(p->ndim, p->shape, start, coord);
    if (p->masked) t->ptr[p->masked] = p->masks + start / 8;
    if (p->n_ops == 1 && p->ops[0].op == FG_OP_select && fg_vm_pick(t, coord, start, len)) return;
    for (int b = 0; b < p->n_boxes; b++) if (p->boxes[b].marked) t->ptr[p->n_regs + b] = fg_vm_mark(p, &p->boxes[b], t->work, coord, len);
    for (int j = t->part->in; j < t->part->in_end; j++) {
        int i = p->in_order[j];
        if (p->in[i].access != FG_ACC_CACHED && p->in[i].access != FG_ACC_PLACE) fg_vm_fetch(t, i, coord, start, len);
    }
    for (int k = t->part->op, last = t->part->op_end; (k = fg_vm_next(p, k, last)) < last; k++) {
        const FgVmOp *op = &p->ops[k];
        int waits = fg_vm_waits(p, k), takes = fg_vm_takes(op->op), whole = fg_vm_is_view(op) || op->rows || takes;
        for (int j = 0; whole && j < ahead.turns; j++) fg_vm_prefetch(t, &ahead);
        if (op->buf < 0) {
            int o = (int)(-1 - op->buf);
            const FgVmOutput *out = &p->out[o];
            int64_t at = out->access == FG_ACC_FULL ? start : fg_vm_offset(p->ndim, coord, out->strides);
            t->ptr[op->dst] = t->streamed[o] ? t->work + out->buf : FG_RESULT(t, o) + at * out->size;
        }
        if (fg_vm_is_view(op)) fg_vm_window(p, op, t->ptr, t->work, coord, len);
        else if (op->rows) fg_vm_run_op_rows(t, op, coord, len);
        else if (takes) (op->op == FG_OP_take ? fg_vm_take : fg_vm_take2)(t, op, len);
        else if (op->strip < 0) fg_vm_run_loop(t, op, len, &ahead);
        else if (!waits) fg_vm_run_strip(t, &p->strips[op->strip], len, &ahead);
    }
}
static void fg_vm_store(FgVmThread *t, const int64_t *coord, int64_t start, int64_t len) {
    const FgVmPlan *p = t->p;
    for (int j = t->part->out; j < t->part->out_end; j++) {
        int o = p->out_order[j];
        const FgVmOutput *out = &p->out[o];
        if (out->reduce || (out->direct && !t->streamed[o]) || t->mates[o][0] == FG_VM_MATE) continue;
        if (t->mates[o][0] != FG_VM_ALONE) { fg_vm_store_mates(t, o, coord, len); continue; }
        char *mem = FG_RESULT(t, o), *src = t->ptr[out->reg];
        int narrow = out->dtype != out->type && !out->raw;
        if (out->access == FG_ACC_FULL) {
            char *dst = mem + start * out->size;
            if (narrow && t->streamed[o]) { fg_vm_narrow(out->dtype, len, t->work + out->buf, src); src = t->work + out->buf; }
            if (t->streamed[o]) fg_vm_stream(dst, src, len * out->size);
            else if (narrow) fg_vm_narrow(out->dtype, len, dst, src);
            else if (dst != src) memcpy(dst, src, len * out->size);
            continue;
        }
        if (narrow) { fg_vm_narrow(out->dtype, len, t->work + p->raw_buf, src); src = t->work + p->raw_buf; }
        if (p->cols) fg_vm_store_cols(p, out, src, mem, coord, len);
        else if (out->lies || start % out->run + len <= out->run) memcpy(mem + fg_vm_offset(p->ndim, coord, out->strides) * out->size, src, len * out->size);
        else fg_vm_walk(src, mem, out->size, p->ndim, p->shape, out->strides, coord, len, 1);
    }
}

/* Put `n` finished values of a reduced output at index `at` of its memory. */
static void fg_vm_put(FgVmThread *t, int o, int64_t at, int64_t n, const char *src) {
    const FgVmOutput *out = &t->p->out[o];
    char *dst = FG_RESULT(t, o) + at * out->size;
    if (out->dtype != out->type) fg_vm_narrow(out->dtype, n, dst, src);
    else if (dst != src) memcpy(dst, src, n * out->size);
}

/* rows x width values -> width values in place, halving: the last half of the rows is folded onto the first. */
static void fg_vm_fold(FgVmFn fn, char *acc, int64_t rows, int64_t width, int64_t size) {
    while (rows > 1) {
        int64_t h = rows / 2;
        char *hi = acc + (rows - h) * width * size;
        fn(h * width, acc, acc, hi, hi);
        rows -= h;
    }
}

#include "vm_each_row.h"
#include "vm_in_strips.h"
#include "vm_tiles.h"

#include "vm_columns.h"
#endif
