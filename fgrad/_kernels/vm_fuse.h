/* Which operations of a plan run as one program of stages (vm_strip.h). */
#ifndef FG_VM_FUSE_H
#define FG_VM_FUSE_H
#include "vm_make.h"
#include "strip_machine.h"

enum { FG_WINDOW_ROW = 2048 };          /* elements of a row of which most tiles have an end */

/* Bytes of the lanes in which an op runs as a stage; 0 if it does not. */
static int fg_vm_lane(const FgVmPlan *p, const FgVmOp *op) {
    int lane = (int)fg_itemsize(op->type);
    if (op->rows) return 0;
    if ((lane != 4 && lane != 8) || !fg_stages[op->type][FG_OP_add][FG_FORM_V]) return 0;
    if (op->op == FG_OP_select) return lane;
    if (op->op == FG_OP_window) return op->joins ? lane : 0;
    if (op->op == FG_OP_cast) return fg_strip_casts[p->types[op->a]][op->type] ? lane : 0;
    if (op->op == FG_OP_clamp) return !fg_vm_is_real(op->type) || (fg_vm_is_number(p, op->a) && fg_vm_is_number(p, op->c)) ? lane : 0;
    if (op->op == FG_OP_div && !fg_vm_is_real(op->type))
        return fg_stages[op->type][FG_OP_div][FG_FORM_KNOWN] && fg_vm_is_const(p, op->b) && fg_vm_const_value(p, op->b) != 0 ? lane : 0;
    return fg_stages[op->type][op->op][FG_FORM_V] ? lane : 0;
}

/* Rows that are tiles although they are short (vm_each_row.h): of operands that are read and written where they lie, of which a tile of several
 * rows would need copies. A third of a strip may be in vain: copies cost as much. */
enum { FG_EACH_FREE = 256, FG_EACH_MOST = 2048 };         /* elements of a row that is a tile anyway; at most */
enum { FG_EACH_LEAST = 17 };                              /* of machine code, which does no more than there is of a row */
static int fg_vm_is_apart(const FgVmPlan *p, const int64_t *strides) {
    int64_t n = p->shape[p->ndim - 1];
    for (int d = p->ndim - 2; d >= 0; n *= p->shape[d--]) if (strides[d] != n) return strides[d] != 0;
    return 0;
}
/* One row for all: beside a column, which would be spread to rows as short as these. With AVX-512 tiles of several rows cost no more. */
#ifdef __AVX512F__
enum { FG_EACH_OUTER = 0 };
#else
enum { FG_EACH_OUTER = 1 };
#endif
static int fg_vm_is_one_row(const FgVmPlan *p, const int64_t *strides) {
    int columns = 0;
    for (int d = 0; d < p->ndim - 1; d++) if (strides[d]) return 0;
    for (int i = 0; i < p->n_in; i++) columns += p->in[i].strides[p->ndim - 1] == 0 && p->in[i].strides[p->ndim - 2] != 0;
    return columns > 0;
}
/* Logic on what comparisons have made joins their strip. */
static int fg_vm_joins_logic(const FgVmPlan *p, const FgVmOp *op) {
    const int made = p->n_in + p->n_const;
    return fg_vm_is_logic(op) && op->a >= made && op->b >= made && op->c >= made;
}
/* Results with gaps between rows, which a walk over the gaps (vm_gaps.h) copies where it has no masks to store them by: one operation is worth code then. */
static int fg_vm_stores_apart(const FgVmPlan *p) {
    int last = p->ndim - 1, apart = 0;
#ifndef __AVX512F__
    for (int o = 0; o < p->n_out && last > 0 && p->machine && !p->n_reduced; o++)
        apart |= p->out[o].strides[last] == 1 && p->out[o].strides[last - 1] > p->shape[last];
#endif
    return apart;
}
static void fg_vm_find_each_row(FgVmPlan *p, int short_ones) {
    int last = p->ndim - 1, lane = p->n_ops ? (int)fg_itemsize(p->ops[0].type) : 0, apart = 0;
    if (p->n_reduced || p->n_tables || last < 1 || p->n_ops < 2 - fg_vm_stores_apart(p) || p->n_ops > FG_STRIP_OPS) return;
    if (p->n < FG_FUSE_MIN || (lane != 4 && lane != 8)) return;
    int64_t row = p->shape[last], per = FG_STRIP / lane;
    if (row > FG_EACH_MOST) return;
    if (short_ones ? row < FG_EACH_LEAST : row < FG_EACH_FREE && row % per && row % per < per * 5 / 8) return;
    for (int k = 0; k < p->n_ops; k++) {
        FgVmOp *op = &p->ops[k];
        op->joins = op->op == FG_OP_window;
        if (fg_vm_lane(p, op) != lane && !fg_vm_joins_logic(p, op)) return;
        if (short_ones && op->op == FG_OP_div && !fg_vm_is_real(op->type)) return;      /* has no machine code */
    }
    for (int i = 0; i < p->n_in + p->n_out; i++) {
        const FgVmInput *in = &p->in[i];
        const FgVmOutput *out = &p->out[i - p->n_in];
        const int64_t *s = i < p->n_in ? in->strides : out->strides;
        if (i < p->n_in ? in->dtype != in->type : out->dtype != out->type || fg_itemsize(out->type) != lane) return;
        for (int d = 0; d < last; d++) if (s[d] < 0) return;
        if (s[last] == 1) apart += fg_vm_is_apart(p, s) || (short_ones && FG_EACH_OUTER && i < p->n_in && fg_vm_is_one_row(p, s));
        else if (s[last] || i >= p->n_in || in->guard >= 0) return;
    }
    p->by_rows = apart > 0;
}

#include "vm_find_frame.h"
#include "vm_find_in_strips.h"

/* True if the box ends inside of short rows, so that all tiles have both sides of it. */
static int fg_vm_cuts_rows(const FgVmPlan *p, const FgVmBox *b) {
    int last = p->ndim - 1;
    return last > 0 && p->shape[last] < FG_WINDOW_ROW && (b->lo[last] > 0 || b->hi[last] < p->shape[last]);
}

/* Windows of what a stage makes, for stages and outputs, are stages, and those of which every tile would be put together. Others cost
 * nothing in tiles on one side of the box: the pointer to an operand's tile is theirs. */
static void fg_vm_find_windows(FgVmPlan *p, int *maker) {
    for (int r = 0; r < p->n_regs; r++) maker[r] = -1;
    for (int k = 0; k < p->n_ops; k++) maker[p->ops[k].dst] = k;
    for (int k = 0; k < p->n_ops; k++) {
        FgVmOp *op = &p->ops[k];
        if (p->framed) { op->joins = op->op == FG_OP_window && !fg_vm_picks(p, op, maker); continue; }
        op->joins = op->op == FG_OP_window && (p->by_rows ||
            fg_vm_cuts_rows(p, &p->boxes[op->box]) || (maker[op->a] >= 0 && fg_vm_lane(p, &p->ops[maker[op->a]])));
    }
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp *op = &p->ops[k];
        int args[3] = {op->a, op->b, op->c};
        for (int j = 0; j < 3; j++) {
            FgVmOp *made = maker[args[j]] < 0 ? 0 : &p->ops[maker[args[j]]];
            if (made && made->joins && op->op != FG_OP_window && !fg_vm_lane(p, op)) made->joins = 0;
        }
    }
}

/* True for an op that reads or makes 16-bit floats, which a stage widens and rounds in registers: worth a strip of its own. */
static int fg_vm_halves(const FgVmPlan *p, const FgVmOp *op) {
    int args[3] = {op->a, op->b, op->c}, arity = fg_vm_info[op->op].arity;
    if (!fg_half_loads[0] || !fg_vm_lane(p, op)) return 0;
    for (int j = 0; j < arity; j++) if (args[j] < p->n_in && p->in[args[j]].dtype != p->in[args[j]].type && !p->in[args[j]].scalar) return 1;
    for (int k = 0; k < p->n_out; k++) if (p->out[k].reg == op->dst && !p->out[k].reduce && p->out[k].dtype != p->out[k].type) return 1;
    return 0;
}

/* Bring a part's ops into runs: what is no stage as early as its operands are there, then all stages that are ready, in turn. */
static void fg_vm_group(FgVmPlan *p, const FgVmPart *part, FgVmOp *old, int *maker) {
    int n = part->op_end - part->op, done = 0;
    FgVmOp *ops = p->ops + part->op;
    memcpy(old, ops, n * sizeof *ops);
    for (int k = 0; k < n; k++) maker[old[k].dst] = 1;      /* 1: to come, 2: in the run, 0: done */
    while (done < n) {
        int begin = done, lane = 0;
        for (int stages = 0; stages < 2; stages++) {
            for (int k = 0; k < n; k++) {
                FgVmOp *op = &old[k];
                int wait = maker[op->a] == 1 || maker[op->b] == 1 || maker[op->c] == 1;
                if (maker[op->dst] != 1 || wait) continue;
                int mine = fg_vm_lane(p, op), run = mine;
                if (fg_vm_is_logic(op) && (maker[op->a] == 2 || maker[op->b] == 2 || maker[op->c] == 2)) run = lane;
                if (!stages && mine) continue;
                if (stages && (!run || (lane && run != lane) || done - begin >= FG_STRIP_OPS)) continue;
                if (stages) lane = run;
                maker[op->dst] = stages ? 2 : 0;
                ops[done++] = *op;
            }
            if (!stages) begin = done;
        }
        int alone = done - begin == 1 && (p->in_strips || (p->by_rows && p->n_ops == 1) || fg_vm_halves(p, &ops[begin]));
        if (done - begin >= 2 || alone) {
            FgVmStrip *strip = &p->strips[p->n_strips++];
            strip->lane = lane;
            strip->op = part->op + begin;
            strip->op_end = part->op + done;
        }
        for (int k = begin; k < done; k++) {
            if (done - begin >= 2 || alone) ops[k].strip = p->n_strips - 1;
            maker[ops[k].dst] = 0;
        }
    }
}

/* What a strip's ops make is kept if it is read outside; comparisons that only its selections read become part of these. */
static void fg_vm_find_kept(FgVmPlan *p, const FgVmStrip *strip, int *reads, int *others) {
    for (int r = 0; r < p->n_regs; r++) reads[r] = others[r] = 0;
    for (int k = 0; k < p->n_ops; k++) {
        FgVmOp *op = &p->ops[k];
        int inside = k >= strip->op && k < strip->op_end, arity = fg_vm_info[op->op].arity, args[3] = {op->a, op->b, op->c};
        for (int j = 0; j < arity; j++) {
            others[args[j]] += !inside;
            reads[args[j]] += inside && !(op->op == FG_OP_select && j == 0);
        }
    }
    for (int k = 0; k < p->n_out && !p->in_strips; k++) {
        others[p->out[k].reg]++;
        if (p->out[k].reg2 >= 0) others[p->out[k].reg2]++;
    }
    for (int k = strip->op; k < strip->op_end; k++) {
        FgVmOp *op = &p->ops[k];
        op->taken = !others[op->dst];
        op->folded = fg_vm_is_comparison(op->op) && fg_vm_is_real(op->type) && op->taken && !reads[op->dst];
    }
}

static void fg_vm_fuse(FgVmPlan *p, int *scratch, FgVmOp *old) {
    for (int k = 0; k < p->n_ops; k++) p->ops[k].strip = -1;
    if (p->n < FG_FUSE_MIN) return;
    fg_vm_find_windows(p, scratch);
    for (int r = 0; r < p->n_regs; r++) scratch[r] = 0;
    for (int k = 0; k < p->n_parts; k++) fg_vm_group(p, &p->parts[k], old, scratch);
    for (int k = 0; k < p->n_strips; k++) fg_vm_find_kept(p, &p->strips[k], scratch, scratch + p->n_regs);
}

/* True if an op can read register r as one value; `apply` makes it do so. */
static int fg_vm_read_one(FgVmOp *op, int r, int apply) {
    if (op->strip >= 0 || (op->a != r && op->b != r && op->c != r)) return 1;
    FgVmFn fn = op->scalar || op->a == op->b || op->op == FG_OP_window ? 0 : fg_vm_scalar_fn(op->op, op->type, op->b == r);
    if (!fn || !apply) return fn != 0;
    op->fn = fn;
    op->scalar = op->b == r ? 2 : 1;
    return 1;
}

static int fg_is_made(const FgVmPlan *p, const FgVmStrip *strip, int r) {
    for (int k = strip->op; k < strip->op_end; k++) if (p->ops[k].dst == r) return 1;
    return 0;
}
static int fg_stores_masked(FgStageFn fn) {
    for (int k = 0; k < 4; k++) if (fn && fn == fg_masked_stores[k / 2][k % 2]) return 1;
    return 0;
}
static int fg_stores(FgStageFn fn) {
    return fg_stores_masked(fn) || fn == stage_store || fn == stage_store_last || fn == stage_store_bool_4 || fn == stage_store_bool_8 ||
        (fn && (fn == fg_half_stores[0] || fn == fg_half_stores[1]));
}
static void fg_vm_read_at(FgVmPlan *p, int r, int time) {
    if (r >= 0 && r < p->n_in && p->in[r].last_use < time) p->in[r].last_use = time;
}
/* Bytes of an element of register r's tile. */
static int fg_tile_size(const FgVmPlan *p, int r) {
    if (r < p->n_in) return p->in[r].raw ? p->in[r].size : (int)fg_itemsize(p->types[r]);
    for (int k = 0; k < p->n_out; k++) if (p->out[k].raw && p->out[k].reg == r) return p->out[k].size;
    return (int)fg_itemsize(p->types[r]);
}
/* The tiles that a strip touches: a whole tile's registers that its stages read or write. */
static void fg_find_edges(FgVmPlan *p, FgVmStrip *strip) {
    strip->edge = p->n_edges;
    for (int k = strip->stage; k < p->n_stages; k++) {
        const FgStage *s = &p->stages[k];
        int regs[3] = {s->move_a ? s->a : -1, s->move_b ? s->b : -1, s->move_c ? s->c : -1};
        for (int j = 0; j < 3; j++) {
            int e = strip->edge;
            while (e < p->n_edges && p->edges[e].reg != regs[j]) e++;
            if (regs[j] < 0 || e < p->n_edges) continue;
            FgVmEdge edge = {regs[j], fg_tile_size(p, regs[j]), fg_is_made(p, strip, regs[j]), fg_stores_masked(s->fn)};
            p->edges[p->n_edges++] = edge;
        }
    }
    strip->n_edges = p->n_edges - strip->edge;
    if (strip->n_edges > p->most_edges) p->most_edges = strip->n_edges;
}

/* When inputs are read last and outputs are written, by stages: an output may take over an input's memory if it is written later. */
static void fg_vm_set_times(FgVmPlan *p) {
    for (int i = 0; i < p->n_in; i++) {              /* a window's result may be an operand's own tile */
        int windows = 0;
        for (int k = 0; k < p->n_ops; k++) windows += fg_vm_is_view(&p->ops[k]) && (p->ops[k].a == i || p->ops[k].b == i);
        p->in[i].last_use = windows ? FG_TIME(p->in[i].last_use, 4095) : -1;
    }
    for (int k = 0; k < p->n_out; k++) {
        FgVmOutput *o = &p->out[k];
        o->write_time = FG_TIME(p->n_ops + 1 + k, 0);
        int time = o->reduce ? FG_TIME(p->n_ops, 0) : o->write_time;
        fg_vm_read_at(p, o->reg, time);
        fg_vm_read_at(p, o->reg2, time);
    }
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp *op = &p->ops[k];
        const FgVmStrip *strip = op->strip < 0 ? 0 : &p->strips[op->strip];
        int regs[3] = {op->a, op->b, op->c}, stage = strip ? strip->stage : 0;
        for (int j = 0; j < 3 && !strip; j++) fg_vm_read_at(p, regs[j], FG_TIME(k, 0));
        if (op->buf < 0) p->out[-1 - op->buf].write_time = FG_TIME(k, 0);
        for (; strip && stage < strip->stage_end; stage++) {
            const FgStage *s = &p->stages[stage];
            int time = FG_TIME(strip->op_end - 1, stage - strip->stage), stores = s->a == op->dst && fg_stores(s->fn);
            if (op->buf < 0 && stores) p->out[-1 - op->buf].write_time = time;
            fg_vm_read_at(p, s->a, time); fg_vm_read_at(p, s->b, time); fg_vm_read_at(p, s->c, time);
        }
    }
}

/* The stages of a strip for the ends of rows. */
static void fg_vm_make_ends(FgVmPlan *p, FgVmStrip *strip) {
    strip->some = p->n_stages;
    for (int k = strip->stage; k < strip->stage_end; k++) {
        FgStage *s = &p->stages[p->n_stages++];
        *s = p->stages[k];
        if (!s->move_a || (s->fn != stage_store && s->fn != stage_store_last)) continue;
        s->fn = s->fn == stage_store ? stage_store_some : stage_store_some_last;
        s->b = (int32_t)(p->row % (FG_STRIP / strip->lane) * strip->lane);
    }
}

/* The stages of a strip for the end of a walk: they store what no whole strip has. Not to tiles, which are read next: that would wait. */
static void fg_vm_make_tail(FgVmPlan *p, FgVmStrip *strip) {
    int all = 1;
    for (int k = strip->op; k < strip->op_end; k++) if (!p->ops[k].taken && p->ops[k].buf >= 0) return;
    for (int k = strip->stage; k < strip->stage_end; k++) {
        const FgStage *s = &p->stages[k];
        if (!s->move_a || !fg_stores(s->fn) || fg_stores_masked(s->fn)) continue;
        if (s->fn != stage_store && s->fn != stage_store_last) return;
        all = 0;
    }
    strip->some = all ? strip->stage : p->n_stages;
    for (int k = strip->stage; !all && k < strip->stage_end; k++) {
        FgStage *s = &p->stages[p->n_stages++];
        *s = p->stages[k];
        if (!s->move_a || (s->fn != stage_store && s->fn != stage_store_last)) continue;
        s->fn = fg_masked_stores[strip->lane == 8][s->fn == stage_store_last];
        s->b = p->masked;
    }
}

/* How often register r is read: by ops that are stages, and by all else. */
static void fg_vm_count_reads(const FgVmPlan *p, int r, int *stages, int *others) {
    *stages = *others = 0;
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp *op = &p->ops[k];
        int args[3] = {op->a, op->b, op->c};
        for (int j = 0; j < fg_vm_info[op->op].arity; j++)
            if (args[j] == r) ++*(op->strip >= 0 && op->op != FG_OP_window && !fg_vm_takes(op->op) ? stages : others);
    }
    for (int k = 0; k < p->n_out; k++) *others += (p->out[k].reg == r) + (p->out[k].reg2 == r);
}
/* Inputs of 16-bit floats that only stages read stay as they are. */
static void fg_vm_find_raw(FgVmPlan *p) {
    int stages, others;
    for (int i = 0; i < p->n_in && fg_half_loads[0]; i++) {
        FgVmInput *in = &p->in[i];
        if (in->dtype == in->type || in->scalar || in->guard >= 0 || (in->access != FG_ACC_FULL && in->access != FG_ACC_GENERAL)) continue;
        fg_vm_count_reads(p, i, &stages, &others);
        in->raw = stages > 0 && !others;
    }
}
/* Outputs of 16-bit floats that a stage may round and write: nobody else reads what its op makes. */
static void fg_vm_find_rounded(FgVmPlan *p) {
    int stages, others;
    for (int k = 0; k < p->n_ops && fg_half_loads[0]; k++) for (int o = 0; o < p->n_out; o++) {
        FgVmOutput *out = &p->out[o];
        if (out->reg != p->ops[k].dst || out->reduce || out->dtype == out->type || p->ops[k].strip < 0 || p->ops[k].op == FG_OP_window) continue;
        fg_vm_count_reads(p, out->reg, &stages, &others);
        out->raw = !stages && others == 1;
    }
}

/* The programs of all strips, when it is known what is read as one value. */
static void fg_vm_make_strips(FgVmPlan *p, int *scratch) {
    fg_vm_find_raw(p);
    int64_t rest = p->n % (FG_STRIP / 4);
    p->ends = p->n_strips && fg_masked_stores[0][0] && p->mode == FG_MODE_FLAT && !p->n_boxes && !p->n_tables && rest && p->n > FG_STRIP / 4 &&
        (p->masked || (!p->cols && p->row == p->n && p->chunks == 1));
    p->masked |= p->ends;
    for (int k = 0; k < p->n_out; k++) p->out[k].raw &= p->out[k].direct;
    for (int k = 0; k < p->n_strips; k++) {
        p->strips[k].some = -1;
        fg_make_strip(p, &p->strips[k], scratch);
        fg_find_edges(p, &p->strips[k]);
        if (p->in_strips) fg_vm_end_rows(p, &p->strips[k]);
        if (p->by_rows && p->row % (FG_STRIP / p->strips[k].lane)) fg_vm_make_ends(p, &p->strips[k]);
        if (p->ends && p->n % (FG_STRIP / p->strips[k].lane)) fg_vm_make_tail(p, &p->strips[k]);
    }
    fg_vm_set_times(p);
    p->make_code = p->machine ? fg_strip_code : NULL;
}
#endif
