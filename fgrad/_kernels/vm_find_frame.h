/* Which plans with boxes run over all of a grid at once, but for its frame (vm_frame.h): part of vm_fuse.h. */
#ifndef FG_VM_FIND_FRAME_H
#define FG_VM_FIND_FRAME_H

/* elements of a grid: at least, at most; of so many there may be one in the frame */
enum { FG_FRAME_LEAST = 512, FG_FRAME_MOST = 40000, FG_FRAME_SHARE = 4 };

/* True if a window's operands lie in memory, or are numbers: it needs no stage then. */
static int fg_vm_picks(const FgVmPlan *p, const FgVmOp *op, const int *maker) {
    int args[2] = {op->a, op->b};
    for (int j = 0; j < 2; j++) {
        const FgVmOp *made = maker[args[j]] < 0 ? 0 : &p->ops[maker[args[j]]];
        if (made && (made->op != FG_OP_window || made->joins)) return 0;
    }
    return 1;
}

/* True if no stage makes register r: windows of operands give it, or it is one. */
static int fg_vm_only_moves(const FgVmPlan *p, int r) {
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp *op = &p->ops[k];
        if (op->dst == r) return op->op == FG_OP_window && fg_vm_only_moves(p, op->a) && fg_vm_only_moves(p, op->b);
    }
    return 1;
}

/* True if windows read register r, a number, as well as stages do: it would be a tile. */
static int fg_vm_is_spread(const FgVmPlan *p, int r) {
    int windows = 0, stages = 0;
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp *op = &p->ops[k];
        int arity = fg_vm_info[op->op].arity, reads = op->a == r || (arity > 1 && op->b == r) || (arity > 2 && op->c == r);
        if (op->op == FG_OP_window) windows |= reads; else stages |= reads;
    }
    return windows && stages;
}

static void fg_vm_find_frame(FgVmPlan *p) {
    int64_t lo[FG_MAXDIM], hi[FG_MAXDIM], middle = 1;
    int stages = 0, lane = 0;
    if (!p->n_boxes || p->n_reduced || p->n_tables || p->n < FG_FRAME_LEAST || p->n > FG_FRAME_MOST || p->n_ops > FG_STRIP_OPS) return;
    fg_vm_middle(p, lo, hi);
    for (int d = 0; d < p->ndim; d++) middle *= hi[d] - lo[d];
    if (FG_FRAME_SHARE * (p->n - middle) > p->n) return;
    for (int k = 0; k < p->n_ops; k++) {
        FgVmOp *op = &p->ops[k];
        op->joins = op->op == FG_OP_window;         /* its lane, whatever it will be */
        int own = fg_vm_lane(p, op);
        op->joins = 0;
        if (fg_vm_is_logic(op)) continue;
        if (!own || (lane && own != lane)) return;
        lane = own;
        stages += op->op != FG_OP_window;
    }
    for (int i = 0; i < p->n_in; i++) {
        const FgVmInput *in = &p->in[i];
        int apart = 0;                      /* it has memory for a part of the middle at most */
        if (in->dtype != in->type || (in->size != lane && in->dtype != FG_BOOL && !in->scalar)) return;
        for (int d = 0; d < p->ndim && in->guard >= 0; d++) apart |= p->boxes[in->guard].lo[d] > lo[d] || p->boxes[in->guard].hi[d] < hi[d];
        if (in->scalar && fg_vm_is_spread(p, i)) return;
        if (!in->scalar && !apart && !fg_vm_is_whole(p, in->strides)) return;
    }
    for (int k = 0; k < p->n_const; k++) if (fg_vm_is_spread(p, p->consts[k].reg)) return;
    for (int k = 0; k < p->n_out; k++)
        if (fg_vm_only_moves(p, p->out[k].reg) || p->out[k].dtype != p->out[k].type || fg_itemsize(p->out[k].type) != lane || !fg_vm_is_whole(p, p->out[k].strides)) return;
    p->framed = stages > 1;
}
#endif
