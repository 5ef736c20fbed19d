# Cython's view of vm_plan.h, and of the module that makes the plans.
from libc.stdint cimport int64_t

from fgrad._kernels.abi cimport FgInst, FgTensor

cdef extern from "vm_plan.h" nogil:
    enum:
        FG_OP_COUNT, FG_OP_mul, FG_OP_square, FG_OP_select, FG_OP_cast, FG_OP_window, FG_OP_take, FG_OP_take2, FG_RED_NONE, FG_RED_SUM, FG_RED_COUNT
        FG_ACC_FULL, FG_ACC_CACHED, FG_ACC_ROW, FG_ACC_GENERAL, FG_ACC_PLACE
        FG_ROWS_LONG
        FG_STRIP, FG_VEC, FG_STAGES_PER_OP, FG_EDGES_PER_OP
        FG_MODE_FLAT, FG_MODE_SEGMENT, FG_MODE_WIDE, FG_MODE_COLUMNS
        FG_VM_MATES
    ctypedef void (*FgVmFn)(int64_t n, void *d, const void *a, const void *b, const void *c) noexcept nogil
    ctypedef void (*FgVmSeg)(void *d, const void *s, const void *q, int64_t rows, int64_t k, int64_t width) noexcept nogil
    ctypedef void (*FgVmTiles)(void *d, const void *s, const void *q, int64_t tiles, int64_t n, int64_t stride, int empty) noexcept nogil
    ctypedef void (*FgVmRowsFn)(int64_t rows, int64_t cols, void *d, const void *x, int64_t xs, const void *y, int64_t ys) noexcept nogil
    FgVmRowsFn fg_vm_rows_fn(int op, int t, bint turned)
    ctypedef struct FgVmInfo:
        const char *name
        int arity
        char result
        int weight
    const FgVmInfo *fg_vm_info
    const FgVmFn fg_vm_table[100][15]
    const FgVmFn fg_vm_cast[15][15]
    const FgVmSeg fg_vm_seg[7][15]
    const FgVmTiles fg_vm_tiles[7][15]
    int fg_vm_supports(int op, int t)
    bint fg_vm_takes(int op)
    int fg_vm_result_type(int op, int t)
    FgVmFn fg_vm_scalar_fn(int op, int t, int side)
    FgVmFn fg_vm_reducer(int reduce, int t)
    FgVmSeg fg_vm_seg_dot(int t)
    FgVmTiles fg_vm_tiles_dot(int t)
    bint fg_vm_seg_is_short(int t, int term, int64_t k)
    void fg_vm_identity(int reduce, int t, void *out)
    void fg_vm_fill(char *dst, const void *value, int size, int64_t n)

    ctypedef struct FgVmInput:
        int access, dtype, type, size, raw, scalar, last_use
        int64_t buf, run, shift, first, end
        int source, guard, lies
        int64_t strides[16]
    ctypedef struct FgVmBox:
        int64_t lo[16]
        int64_t hi[16]
        bint marked
        int64_t buf
    ctypedef struct FgVmConst:
        int reg, type, scalar
        int64_t buf
        char bits[16]
    ctypedef struct FgVmOp:
        FgVmFn fn
        FgVmRowsFn rows
        int op, type, dst, a, b, c, scalar, strip, taken, folded, box, patch, joins, table, wraps
        int64_t buf
    ctypedef struct FgVmOutput:
        int reg, reg2, term, reduce, dtype, type, size, access, direct, raw, masked, write_time, lies
        int64_t count, buf, buf2, part, run
        FgVmFn fn
        FgVmSeg seg
        FgVmTiles tiles
        char identity[16]
        int64_t strides[16]
    ctypedef struct FgVmPart:
        int op, op_end
        int in_ "in"
        int in_end, out, out_end
    ctypedef struct FgVmStrip:
        int lane, op, op_end
    ctypedef struct FgStage:
        int a
    ctypedef struct FgVmEdge:
        int reg
    ctypedef struct FgVmFrame:
        int64_t strips
        int parts
        size_t size
    ctypedef struct FgVmPlan:
        int n_in, n_tables, n_const, n_ops, n_out, n_regs, ndim, mode, n_reduced, any_general, folds, n_parts, prefetches, streams, turns, n_boxes, box_at
        int64_t hot
        int n_strips, n_stages, n_slots, most_edges, nears, columns, framed, by_rows, in_strips, masked, machine, quick
        FgVmFrame *frame
        char *masks
        int64_t cols, n, n_outer, n_red, n_inner, n_seg, seg_width, seg_buf, slot_buf, edge_buf, row, step, chunks, tile_rows, blocks, group
        int sums_segments
        int64_t units, grain, strip_grain, batch
        int64_t raw_buf, partial_bytes, tile_buf, work_bytes
        int64_t shape[16]
        FgVmInput *in_ "in"
        FgVmConst *consts
        FgVmOp *ops
        FgVmOutput *out
        FgVmBox *boxes
        FgVmPart *parts
        FgVmStrip *strips
        FgStage *stages
        FgVmEdge *edges
        int *types
        int *in_order
        int *out_order
    ctypedef struct FgVmThread:
        const FgVmPlan *p
        const FgInst *inst
        FgTensor *slots
        char **ptr
        char *work
        int64_t work_bytes
        const FgVmPart *part
        const char *streamed
        const char *copied
    void fg_vm_lengthen(FgVmPlan *p, bint all)
    bint fg_vm_may_mask(const FgVmPlan *p, const FgVmOutput *out)
    int64_t fg_vm_mask_bytes(const FgVmPlan *p)
    void fg_vm_make_masks(FgVmPlan *p, char *memory)
    bint fg_vm_is_view(const FgVmOp *op)
    void fg_vm_find_next(FgVmPlan *p)
    void fg_vm_stream_end()
    bint fg_vm_is_column(const FgVmPlan *p, const FgVmInput *x)
    void fg_vm_find_mates(FgVmThread *t, void *room)
    void fg_vm_find_columns(FgVmThread *t, void *room)
    void fg_vm_prepare(FgVmThread *t)
    void fg_vm_run_rows(FgVmThread *t, char *partials, int64_t begin, int64_t end)
    void fg_vm_run_columns(FgVmThread *t, char *partials, int64_t begin, int64_t end)
    void fg_vm_finish_wide(FgVmThread *t, char *partials)
    void fg_vm_finish_columns(FgVmThread *t, char *partials)

# What is known of each register while a plan is made.
cdef struct Reg:
    int type         # compute type, -1 while unset
    int first        # time of definition: -1 for inputs and constants
    int last         # time of last use
    int slot         # tile buffer among those of its size, -1 for none
    int shared       # the same in every tile
    int part         # label of its part while parts are found, then the part's number; -1 for constants and scalars

cdef inline int64_t align(int64_t n) noexcept nogil:
    return (n + 63) // 64 * 64

cdef inline bint is_scalar(const FgTensor *t) noexcept nogil:
    """True if all elements are one."""
    cdef int d
    for d in range(t.ndim):
        if t.shape[d] != 1 and t.strides[d] != 0:
            return False
    return True

cdef void make_plan(FgVmPlan *p, FgInst *inst, const FgTensor *slots, Reg *regs, int64_t *scratch) noexcept nogil
