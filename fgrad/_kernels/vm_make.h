/* Programs of stages for the strips of a plan: the order of operations, what waits in scratch, and which stages do the work of several. */
#ifndef FG_VM_MAKE_H
#define FG_VM_MAKE_H
#include "vm_plan.h"
#include "vm_strip_tables.h"
#include "vm_strip_folds.h"

static int fg_vm_is_comparison(int op) { return op >= FG_OP_eq && op <= FG_OP_ge; }
static int fg_vm_is_real(int type) { return type == FG_F32 || type == FG_F64; }
static int fg_vm_is_logic(const FgVmOp *op) {
    const int what = op->op;
    return op->type == FG_BOOL && (what == FG_OP_and || what == FG_OP_or || what == FG_OP_xor || what == FG_OP_not || what == FG_OP_select);
}
static double fg_vm_const_value(const FgVmPlan *p, int r) {
    const FgVmConst *c = &p->consts[r - p->n_in];
    if (c->type == FG_F64) { double v; memcpy(&v, c->bits, 8); return v; }
    if (c->type == FG_F32) { float v; memcpy(&v, c->bits, 4); return v; }
    if (c->type == FG_I32) { int32_t v; memcpy(&v, c->bits, 4); return v; }
    int64_t v = 0;
    memcpy(&v, c->bits, fg_itemsize(c->type));
    return (double)v;
}
static int fg_vm_is_number(const FgVmPlan *p, int r) { return fg_vm_is_const(p, r) && !isnan(fg_vm_const_value(p, r)); }

/* A program while it is made.  Of each register: how often it is still read, its slot of scratch + 1, whether an op of the strip makes it
 * (k + 1), whether its tile has it, whether its op is made by the one that reads it, whether it is a bound of
 * something (2: bounded before), or a range. */
typedef struct {
    FgVmPlan *p;
    FgVmStrip *strip;
    const int *types;                   /* the plan's */
    int held;                           /* the register in the strip, or -1 */
    const char *made;                   /* the strip's ops that are done, with the one at hand, `now` */
    int now, first;                     /* the op at hand, and the first one that is to come */
    int alone;                          /* the last stage of one operation, to which another may be added */
    int *left, *slot, *maker, *stored, *late, *bound, *range;
    int busy[FG_STRIP_OPS * 4];
    char folded[FG_IN_STRIPS_OUT];      /* outputs whose rows are reduced already (vm_in_strips.h) */
} FgMaking;

static int fg_is_one(const FgMaking *m, int r) {
    const FgVmPlan *p = m->p;
    return r < p->n_in ? p->in[r].scalar || p->in[r].access == FG_ACC_ROW : fg_vm_is_const(p, r) && p->consts[r - p->n_in].scalar;
}
/* The dtype of an input, or a result, whose tile has 16-bit floats for the strip's float32; -1 else. */
static int fg_half_in(const FgMaking *m, int r) { return r < m->p->n_in && m->p->in[r].raw ? m->p->in[r].dtype : -1; }
static int fg_half_out(const FgMaking *m, const FgVmOp *op) { return op->buf < 0 && m->p->out[-1 - op->buf].raw ? m->p->out[-1 - op->buf].dtype : -1; }
/* The banks of registers are the first slots of scratch, whose memory nobody uses then: 1 and on for what is in one of them. */
static int fg_in_bank(const FgMaking *m, int r) { return m->slot[r] <= FG_BANKS ? m->slot[r] : 0; }
static int fg_suits_bank(const FgMaking *m, int r);
/* True if a stage can take register r from memory, as a vector or as one value. */
static int fg_is_at_hand(const FgMaking *m, int r) {
    return m->slot[r] || (m->types[r] != FG_BOOL && fg_half_in(m, r) < 0 && (!m->maker[r] || m->stored[r]));
}
static FgStage *fg_put(FgMaking *m, FgStageFn fn) {
    FgStage *s = &m->p->stages[m->p->n_stages++];
    s->fn = fn;
    s->a = s->b = s->c = s->d = s->e = s->f = -1;
    s->move_a = s->move_b = s->move_c = 0;
    return s;
}
static void fg_operand(const FgMaking *m, int r, int32_t *index, int8_t *move) {
    *index = m->slot[r] ? m->p->n_regs + m->p->n_boxes + m->slot[r] - 1 : r;
    *move = m->slot[r] || fg_is_one(m, r) ? 0 : -1;
}
/* The last stage, a step of Horner's rule, becomes part of the one before it, if that has steps by the same x. */
static void fg_add_step(FgMaking *m, FgStage *before, const FgStage *last) {
    for (int wide = 0; wide < 2; wide++) for (int steps = 1; steps < FG_STEPS_MOST; steps++) {
        int32_t *room[] = {0, &before->c, &before->d, &before->e, &before->f};
        if (last->fn != fg_horners[wide][1] || before->fn != fg_horners[wide][steps]) continue;
        if (before->a != last->a || before->move_a != last->move_a) continue;
        *room[steps] = last->b;
        before->fn = fg_horners[wide][steps + 1];
        m->p->n_stages--;
        return;
    }
}
/* A stage with one operand from memory, or none (-1); it becomes one with the stage before it if that can be. */
static void fg_put_op(FgMaking *m, FgStageFn fn, int type, int r) {
    FgStage *last = &m->p->stages[m->p->n_stages - 1], *before = last - 1;
    FgStageFn pair = m->p->n_stages - 1 == m->alone ? fg_pair(last->fn, fn, type) : 0;
    if (pair) {
        last->fn = pair;
        m->alone = -1;
        if (r >= 0) fg_operand(m, r, &last->b, &last->move_b);
        if (m->p->n_stages - m->strip->stage > 1) fg_add_step(m, before, last);
        return;
    }
    FgStage *s = fg_put(m, fn);
    m->alone = m->p->n_stages - 1;
    if (r >= 0) fg_operand(m, r, &s->a, &s->move_a);
}
/* The strip's value goes to scratch. */
static void fg_put_aside(FgMaking *m) {
    int r = m->held, k = 0;
    while (k < FG_BANKS && m->busy[k]) k++;
    if (k < FG_BANKS && !fg_suits_bank(m, r)) k = FG_BANKS;
    while (m->busy[k]) k++;
    m->busy[k] = 1;
    m->slot[r] = k + 1;
    if (k >= m->p->n_slots) m->p->n_slots = k + 1;
    if (k < FG_BANKS) { fg_put(m, fg_keeps[k]); return; }
    FgStage *s = fg_put(m, stage_store);
    fg_operand(m, r, &s->a, &s->move_a);
}
/* Before the strip changes: what is read later is in memory. */
static void fg_keep(FgMaking *m) {
    if (m->held >= 0 && m->left[m->held] > 0 && !fg_is_at_hand(m, m->held)) fg_put_aside(m);
}
static void fg_load(FgMaking *m, int r) {
    int wide = m->strip->lane == 8;
    if (m->held == r) return;
    fg_keep(m);
    FgStageFn fn = stage_load;
    m->held = r;
    if (fg_in_bank(m, r)) { fg_put(m, fg_takes[fg_in_bank(m, r) - 1]); return; }
    if (m->types[r] == FG_BOOL && !m->slot[r]) {
        if (fg_is_one(m, r)) fn = wide ? stage_one_bool_8 : stage_one_bool_4;
        else fn = wide ? stage_load_bool_8 : stage_load_bool_4;
    } else if (fg_half_in(m, r) >= 0 && !m->slot[r]) fn = fg_half_loads[fg_half_in(m, r) == FG_BF16];
    else if (fg_narrow_loads[0][m->types[r]]) fn = fg_narrow_loads[fg_is_one(m, r)][m->types[r]];
    else if (fg_is_one(m, r)) fn = wide ? stage_one_8 : stage_one_4;
    FgStage *s = fg_put(m, fn);
    fg_operand(m, r, &s->a, &s->move_a);
}
/* Register r as an operand from memory; vector: not as one value. */
static void fg_ensure(FgMaking *m, int r, int vector) {
    if (m->slot[r] || (fg_is_at_hand(m, r) && !(vector && fg_is_one(m, r)))) return;
    fg_load(m, r);
    fg_put_aside(m);
}
/* Before the last stage of an op: its operands are read once less, and the strip's value is about to go. */
static void fg_use(FgMaking *m, int n, const int *args) {
    for (int j = 0; j < n; j++) m->left[args[j]]--;
    fg_keep(m);
}
#include "vm_make_folds.h"
/* After it: scratch of what nobody reads is free; the result is in the strip, and in its tile if somebody outside reads it. */
static void fg_made(FgMaking *m, const FgVmOp *op, int n, const int *args) {
    for (int j = 0; j < n; j++) {
        int r = args[j];
        if (m->left[r] > 0 || !m->slot[r]) continue;
        m->busy[m->slot[r] - 1] = 0;
        m->slot[r] = 0;
    }
    m->held = op->dst;
    fg_put_folds(m, op->dst);
    if (op->taken) return;
    if (op->buf < 0 && m->p->out[-1 - op->buf].masked) {          /* no vector to be read again: gaps are left out, also behind the end */
        FgStage *s = fg_put(m, fg_masked_stores[m->strip->lane == 8][0]);
        fg_operand(m, op->dst, &s->a, &s->move_a);
        s->b = m->p->masked;
        return;
    }
    int bytes = m->types[op->dst] == FG_BOOL, half = fg_half_out(m, op);
    FgStage *s = fg_put(m, half >= 0 ? fg_half_stores[half == FG_BF16] : !bytes ? stage_store : m->strip->lane == 8 ? stage_store_bool_8 : stage_store_bool_4);
    fg_operand(m, op->dst, &s->a, &s->move_a);
    m->stored[op->dst] = 1;
}

/* The form of a stage whose second operand is register r; turned: the strip is its second operand. */
static int fg_form(const FgMaking *m, const FgVmOp *op, int r, int turned) {
    if (fg_in_bank(m, r)) return (turned ? FG_FORM_RBANK0 : FG_FORM_BANK0) + fg_in_bank(m, r) - 1;
    if (!fg_is_one(m, r)) return turned ? FG_FORM_RV : FG_FORM_V;
    if (fg_vm_is_number(m->p, r)) {
        double v = fg_vm_const_value(m->p, r);
        int shift = op->op == FG_OP_shl || op->op == FG_OP_shr_logical || op->op == FG_OP_shr_arith;
        if (shift && !turned && v >= 0 && v < 8 * m->strip->lane) return FG_FORM_KNOWN;
        if ((op->op == FG_OP_max || op->op == FG_OP_min) && fg_vm_is_real(op->type)) {
            if (turned || v != 0) return FG_FORM_KNOWN;      /* equal operands: the second, which differs from the first in a zero's sign */
            if (!signbit(v)) return FG_FORM_ZERO;
        }
    }
    return turned ? FG_FORM_R1 : FG_FORM_ONE;
}
/* The stage of an op whose operands are all in memory before the strip's program begins, if it may be part of the one that reads it: its
 * vector operand in *x, the other one in *y. */
static FgStageFn fg_link_of(const FgMaking *m, const FgVmOp *op, int *x, int *y) {
    int unary = fg_vm_info[op->op].arity == 1, turned = !unary && fg_is_one(m, op->a);
    *x = turned ? op->b : op->a;
    *y = unary ? -1 : turned ? op->a : op->b;
    if (m->maker[op->a] || m->maker[op->b] || m->types[op->a] != op->type || fg_is_one(m, *x)) return 0;
    if (fg_half_in(m, op->a) >= 0 || (!unary && fg_half_in(m, op->b) >= 0)) return 0;
    FgStageFn fn = fg_stages[op->type][op->op][unary ? FG_FORM_V : fg_form(m, op, *y, turned)];
    return fg_link(fn, op->type) < 0 ? 0 : fn;
}
/* Ops that are made by the one that reads them, if that joins them with something that the strip makes. */
static void fg_find_late(FgMaking *m) {
    int x, y;
    for (int k = m->strip->op; k < m->strip->op_end; k++) {
        FgVmOp *op = &m->p->ops[k];
        for (int side = 0; side < 2 && fg_vm_info[op->op].arity == 2 && op->a != op->b && op->type != FG_BOOL; side++) {
            int r = side ? op->b : op->a, other = side ? op->a : op->b;
            FgVmOp *late = m->maker[r] ? &m->p->ops[m->maker[r] - 1] : 0;
            if (!late || !late->taken || m->left[r] != 1 || late->type != op->type || !m->maker[other] || m->late[other]) continue;
            FgStageFn link = fg_link_of(m, late, &x, &y);
            if (link && fg_side(link, fg_stages[op->type][op->op][side ? FG_FORM_V : FG_FORM_RV], op->type)) m->late[r] = 1;
        }
    }
}
/* An op that joins the strip, its operand `mine`, with what a late one makes of memory. */
static void fg_joined(FgMaking *m, const FgVmOp *op, int mine, const FgVmOp *late) {
    int args[4] = {mine, late->dst, late->a, late->b}, x, y;
    FgStageFn link = fg_link_of(m, late, &x, &y);
    fg_load(m, mine);
    fg_use(m, fg_vm_info[late->op].arity + 2, args);
    FgStage *s = fg_put(m, fg_side(link, fg_stages[op->type][op->op][mine == op->a ? FG_FORM_V : FG_FORM_RV], op->type));
    fg_operand(m, x, &s->a, &s->move_a);
    if (y >= 0) fg_operand(m, y, &s->b, &s->move_b);
    fg_made(m, op, fg_vm_info[late->op].arity + 2, args);
}
/* The type of the lanes that an op of two operands works on. */
static int fg_lanes(const FgMaking *m, const FgVmOp *op) { return op->type != FG_BOOL ? op->type : m->strip->lane == 8 ? FG_I64 : FG_I32; }
static void fg_binary(FgMaking *m, const FgVmOp *op) {
    int type = fg_lanes(m, op), a = op->a, b = op->b, args[2] = {a, b};
    if (m->late[a] || m->late[b]) {
        fg_joined(m, op, m->late[a] ? b : a, &m->p->ops[m->maker[m->late[a] ? a : b] - 1]);
        return;
    }
    int turned = m->held == b && m->held != a;
    if (m->held != a && m->held != b) turned = fg_is_one(m, a) && !fg_is_one(m, b);
    fg_ensure(m, args[!turned], op->type == FG_BOOL);
    fg_load(m, args[turned]);
    int form = fg_form(m, op, args[!turned], turned);
    fg_use(m, 2, args);
    fg_put_op(m, fg_stages[type][op->op][form], type, form >= FG_FORM_BANK0 ? -1 : args[!turned]);
    fg_made(m, op, 2, args);
}
static void fg_unary(FgMaking *m, const FgVmOp *op) {
    int type = op->type == FG_BOOL ? FG_I32 : op->type;
    fg_load(m, op->a);
    fg_use(m, 1, &op->a);
    fg_put_op(m, op->op == FG_OP_cast ? fg_strip_casts[m->types[op->a]][type] : fg_stages[type][op->op][FG_FORM_V], type, -1);
    fg_made(m, op, 1, &op->a);
}
/* An integer by a constant. */
static void fg_divide(FgMaking *m, const FgVmOp *op) {
    int args[2] = {op->a, op->b};
    fg_load(m, op->a);
    fg_use(m, 2, args);
    fg_put(m, fg_stages[op->type][FG_OP_div][FG_FORM_KNOWN])->a = op->b;
    fg_made(m, op, 2, args);
}
/* One operand inside of a box, another outside. */
static void fg_windowed(FgMaking *m, const FgVmOp *op) {
    int args[2] = {op->a, op->b};
    fg_ensure(m, op->b, 0);
    fg_load(m, op->a);
    fg_use(m, 2, args);
    FgStage *s = fg_put(m, fg_windows[m->strip->lane == 8][fg_is_one(m, op->b)]);
    s->a = m->p->n_regs + op->box;
    fg_operand(m, op->b, &s->b, &s->move_b);
    m->p->boxes[op->box].marked = 1;
    fg_made(m, op, 2, args);
}
static void fg_clamp(FgMaking *m, const FgVmOp *op) {
    int args[3] = {op->b, op->a, op->c};
    fg_ensure(m, op->a, 0);
    fg_ensure(m, op->c, 0);
    fg_load(m, op->b);
    fg_use(m, 3, args);
    for (int j = 1; j < 3; j++) {
        int form = fg_vm_is_real(op->type) ? FG_FORM_KNOWN : fg_is_one(m, args[j]) ? FG_FORM_ONE : FG_FORM_V;
        fg_put_op(m, fg_stages[op->type][j == 1 ? FG_OP_max : FG_OP_min][form], op->type, args[j]);
    }
    fg_made(m, op, 3, args);
}
static void fg_select(FgMaking *m, const FgVmOp *op) {
    int args[3] = {op->a, op->b, op->c}, side = FG_SIDE_M;
    for (int k = 1; k < 3; k++) if (m->held == args[k] && m->held != args[0] && m->slot[op->a] && (k == 1 || op->b != op->c)) side = k;
    int first = side == FG_SIDE_M ? op->b : op->a, second = side == FG_SIDE_V ? op->b : op->c;
    if (side == FG_SIDE_M) fg_ensure(m, first, 0);
    fg_ensure(m, second, 0);
    fg_load(m, args[side]);             /* again, where the strip has been in use for another operand */
    int first_is_one = side == FG_SIDE_M && fg_is_one(m, first);      /* a mask in scratch fills it, also where it is one value */
    FgStageFn fn = fg_selects[m->strip->lane == 8][side][first_is_one][fg_is_one(m, second)];
    fg_use(m, 3, args);
    FgStage *s = fg_put(m, fn);
    fg_operand(m, first, &s->a, &s->move_a);
    fg_operand(m, second, &s->b, &s->move_b);
    fg_made(m, op, 3, args);
}
static int fg_how(int op) {
    return op == FG_OP_eq ? FG_HOW_EQ : op == FG_OP_ne ? FG_HOW_NE : op == FG_OP_lt ? FG_HOW_LT : op == FG_OP_le ? FG_HOW_LE :
           op == FG_OP_gt ? FG_HOW_GT : FG_HOW_GE;
}
/* The comparison of y and x that is one of x and y. */
static const int fg_swapped[FG_HOW_N] = {FG_HOW_GT, FG_HOW_GE, FG_HOW_EQ, FG_HOW_NE, FG_HOW_LT, FG_HOW_LE};
/* A selection with the comparison that makes its mask. */
static void fg_choice(FgMaking *m, const FgVmOp *op, const FgVmOp *cmp) {
    int args[4] = {cmp->a, cmp->b, op->b, op->c}, how = fg_how(cmp->op), x = cmp->a, y = cmp->b;
    if (fg_is_one(m, x) && fg_is_one(m, y)) fg_ensure(m, x, 1);
    int turned = m->held == op->c && m->held != op->b;
    if (m->held != op->b && m->held != op->c) turned = fg_is_one(m, op->b) && !fg_is_one(m, op->c);
    int mine = turned ? op->c : op->b, other = turned ? op->b : op->c;
    if (fg_is_one(m, x) || (y == mine && !fg_is_one(m, y))) { x = cmp->b; y = cmp->a; how = fg_swapped[how]; }
    int in_strip = x == mine;
    if (!in_strip) fg_ensure(m, x, 1);
    fg_ensure(m, y, 0);
    fg_ensure(m, other, 0);
    fg_load(m, mine);
    int at = fg_in_bank(m, x) && !in_strip ? FG_X_AT_BANK0 + fg_in_bank(m, x) - 1 : in_strip ? FG_X_AT_STRIP : FG_X_AT_MEMORY;
    FgStageFn fn = fg_choices[cmp->type == FG_F64][how][turned][at][fg_is_one(m, y)][fg_is_one(m, other)];
    fg_use(m, 4, args);
    FgStage *s = fg_put(m, fn);
    if (at == FG_X_AT_MEMORY) fg_operand(m, x, &s->a, &s->move_a);
    fg_operand(m, y, &s->b, &s->move_b);
    fg_operand(m, other, &s->c, &s->move_c);
    fg_made(m, op, 4, args);
}

/* The comparison that is part of op, a selection, or NULL. */
static const FgVmOp *fg_part_of(const FgMaking *m, const FgVmOp *op) {
    const FgVmOp *cmp = op->op == FG_OP_select && m->maker[op->a] ? &m->p->ops[m->maker[op->a] - 1] : NULL;
    return cmp && cmp->folded ? cmp : NULL;
}
/* A selection that is a bound: x < c ? c : x and the like, for a constant c; or so with something else in the place of the last x. */
typedef struct { int x, c, kept, upper, form; double value; } FgBound;
static int fg_is_bound(const FgMaking *m, const FgVmOp *op, FgBound *b) {
    const FgVmOp *cmp = fg_part_of(m, op);
    if (!cmp || cmp->type != op->type) return 0;
    int turned = fg_vm_is_const(m->p, cmp->a), how = turned ? fg_swapped[fg_how(cmp->op)] : fg_how(cmp->op);
    b->x = turned ? cmp->b : cmp->a;
    b->c = turned ? cmp->a : cmp->b;
    if (how == FG_HOW_EQ || how == FG_HOW_NE || !fg_vm_is_number(m->p, b->c) || !fg_is_one(m, b->c) || fg_is_one(m, b->x)) return 0;
    const char *bits = m->p->consts[b->c - m->p->n_in].bits;
    int here = fg_vm_is_const(m->p, op->b) && !memcmp(bits, m->p->consts[op->b - m->p->n_in].bits, m->strip->lane);      /* c is chosen */
    int other = here ? op->b : op->c;
    if (!here && !(fg_vm_is_const(m->p, other) && !memcmp(bits, m->p->consts[other - m->p->n_in].bits, m->strip->lane))) return 0;
    int strict = how == FG_HOW_LT || how == FG_HOW_GT, greater = how == FG_HOW_GT || how == FG_HOW_GE;
    b->kept = here ? op->c : op->b;
    b->value = fg_vm_const_value(m->p, b->c);
    b->upper = here == greater;
    b->form = here ? FG_FORM_KNOWN : FG_FORM_ELSE;
    if (!strict && b->value == 0) {                  /* equal operands may be zeros of two signs */
        if (!here || signbit(b->value)) return 0;
        b->form = FG_FORM_ZERO;
    }
    return 1;
}
/* Find bounds x < c ? c : x, and upper after lower bounds (or the reverse) of the same x: those read the first one's result only. */
static void fg_find_bounds(FgMaking *m) {
    FgBound b, first;
    for (int k = m->strip->op; k < m->strip->op_end; k++) {
        const FgVmOp *op = &m->p->ops[k];
        if (!fg_is_bound(m, op, &b)) continue;
        if (b.kept == b.x) { m->bound[op->dst] = 1; continue; }
        if (!m->maker[b.kept] || m->bound[b.kept] != 1 || b.form == FG_FORM_ELSE) continue;
        fg_is_bound(m, &m->p->ops[m->maker[b.kept] - 1], &first);
        int apart = b.upper ? first.value <= b.value : first.value >= b.value;
        if (first.x == b.x && first.upper != b.upper && apart && first.form != FG_FORM_ELSE) m->bound[op->dst] = 2;
    }
}
static void fg_bounded(FgMaking *m, const FgVmOp *op) {
    FgBound b;
    fg_is_bound(m, op, &b);
    int args[2] = {b.kept, b.c};
    fg_load(m, b.kept);
    fg_use(m, 2, args);
    fg_put_op(m, fg_stages[op->type][b.upper ? FG_OP_min : FG_OP_max][b.form], op->type, b.c);
    fg_made(m, op, 2, args);
}
/* A selection by x how y, for a single y, of two cases of which `one` is a single value: 1 for the first one, 2 for both. */
typedef struct { int x, y, how, first, one, other; } FgCase;
static int fg_is_case(const FgMaking *m, const FgVmOp *op, FgCase *c) {
    const FgVmOp *cmp = fg_part_of(m, op);
    if (!cmp || cmp->type != op->type || fg_is_one(m, cmp->a) == fg_is_one(m, cmp->b)) return 0;
    int turned = fg_is_one(m, cmp->a);
    c->x = turned ? cmp->b : cmp->a;
    c->y = turned ? cmp->a : cmp->b;
    c->how = turned ? fg_swapped[fg_how(cmp->op)] : fg_how(cmp->op);
    c->first = !fg_is_one(m, op->b);
    c->one = c->first ? op->c : op->b;
    c->other = c->first ? op->b : op->c;
    return !fg_is_one(m, c->one) ? 0 : fg_is_one(m, c->other) ? 2 : 1;
}
/* Find ranges: a single value or, by another comparison of the same x, one of two others. */
static void fg_find_ranges(FgMaking *m) {
    FgCase outer, inner;
    for (int k = m->strip->op; k < m->strip->op_end; k++) {
        const FgVmOp *op = &m->p->ops[k];
        if (fg_is_case(m, op, &outer) != 1 || !m->maker[outer.other] || m->left[outer.other] != 1) continue;
        const FgVmOp *in = &m->p->ops[m->maker[outer.other] - 1];
        if (!in->taken || in->op != FG_OP_select || in->type != op->type || m->bound[in->dst] || fg_is_case(m, in, &inner) != 2) continue;
        if (inner.x == outer.x) { m->range[op->dst] = 1; m->late[in->dst] = 1; }
    }
}
static int fg_range_reads(const FgMaking *m, const FgVmOp *op, int *args) {
    FgCase outer, inner;
    fg_is_case(m, op, &outer);
    const FgVmOp *in = &m->p->ops[m->maker[outer.other] - 1];
    fg_is_case(m, in, &inner);
    args[0] = outer.x; args[1] = outer.y; args[2] = outer.one; args[3] = inner.y; args[4] = in->b; args[5] = in->c;
    return 6;
}
static void fg_range(FgMaking *m, const FgVmOp *op) {
    FgCase outer, inner;
    int args[6], n = fg_range_reads(m, op, args);
    fg_is_case(m, op, &outer);
    fg_is_case(m, &m->p->ops[m->maker[outer.other] - 1], &inner);
    fg_load(m, outer.x);
    fg_use(m, n, args);
    FgStage *s = fg_put(m, fg_ranges[op->type == FG_F64][outer.how][inner.how][outer.first]);
    s->a = args[1]; s->b = args[2]; s->c = args[3]; s->d = args[4]; s->e = args[5];
    fg_made(m, op, n, args);
}
/* The registers that an op reads in the strip; their number. */
static int fg_reads(const FgMaking *m, const FgVmOp *op, int *args) {
    const FgVmOp *cmp = fg_part_of(m, op);
    FgBound b;
    if (m->range[op->dst]) return fg_range_reads(m, op, args);
    if (m->bound[op->dst]) { fg_is_bound(m, op, &b); args[0] = b.kept; args[1] = b.c; return 2; }
    if (cmp) { args[0] = cmp->a; args[1] = cmp->b; args[2] = op->b; args[3] = op->c; return 4; }
    args[0] = op->a; args[1] = op->b; args[2] = op->c;
    return fg_vm_info[op->op].arity;
}
/* True if all that is still to read register r, the op at hand included, can take it from the bank. */
static int fg_suits_bank(const FgMaking *m, int r) {
    int args[6];
    if (fg_is_one(m, r)) return 0;
    for (int o = 0; m->p->in_strips && o < m->p->n_out; o++) if (m->p->out[o].reg2 >= 0 && (m->p->out[o].reg == r || m->p->out[o].reg2 == r)) return 0;
    for (int k = m->strip->op; k < m->strip->op_end; k++) {
        const FgVmOp *op = &m->p->ops[k], *cmp = fg_part_of(m, op);
        int type = fg_lanes(m, op), reads = 0;
        if (op->folded || m->late[op->dst] || (m->made[k - m->strip->op] && k != m->now)) continue;
        for (int j = fg_reads(m, op, args); j > 0; j--) reads += args[j - 1] == r;
        if (!reads || m->range[op->dst] || m->bound[op->dst] || fg_vm_info[op->op].arity == 1) continue;
        if (op->op == FG_OP_window) { if (r == op->b) return 0; continue; }
        if (cmp) {                                   /* compared with one value, and no more */
            if (reads != 1 || r == op->b || r == op->c || !fg_is_one(m, cmp->a == r ? cmp->b : cmp->a)) return 0;
        } else if (op->op == FG_OP_select) return 0;
        else if (op->op == FG_OP_clamp || (op->op == FG_OP_div && !fg_vm_is_real(op->type))) {
            if (reads != 1 || r != (op->op == FG_OP_clamp ? op->b : op->a)) return 0;
        } else if (!m->late[op->a] && !m->late[op->b] && !fg_stages[type][op->op][FG_FORM_BANK0]) return 0;
    }
    return 1;
}
/* The op to come next: one that is ready, best one that takes what the strip holds and is the last to do so. */
static int fg_next(FgMaking *m) {
    int best = -1, most = -1, args[6];
    while (m->first < m->strip->op_end && (m->made[m->first - m->strip->op] || m->p->ops[m->first].folded || m->late[m->p->ops[m->first].dst])) m->first++;
    for (int k = m->first; k < m->strip->op_end; k++) {
        const FgVmOp *op = &m->p->ops[k];
        int score = 0, takes = 0;
        if (op->folded || m->late[op->dst] || m->made[k - m->strip->op]) continue;
        for (int j = fg_reads(m, op, args) - 1; j >= 0 && score >= 0; j--) {
            if (m->maker[args[j]] && !m->late[args[j]] && !m->made[m->maker[args[j]] - 1 - m->strip->op]) score = -1;
            else if (args[j] == m->held) { score += m->left[args[j]] == 1 ? 2 : 1; takes++; }
        }
        if (score > most) { most = score; best = k; }
        if (score > 0 && takes == m->left[m->held]) break;               /* nobody else takes it */
    }
    return best;
}
/* How often the strip's ops read each register; what late ones read is read by those that they are part of. */
static void fg_count(FgMaking *m) {
    int args[6];
    for (int r = 0; r < m->p->n_regs; r++) m->left[r] = 0;
    for (int k = m->strip->op; k < m->strip->op_end; k++) {
        const FgVmOp *op = &m->p->ops[k];
        for (int j = op->folded || m->late[op->dst] ? 0 : fg_reads(m, op, args); j > 0; j--) m->left[args[j - 1]]++;
    }
    for (int o = 0; m->p->in_strips && o < m->p->n_out; o++) {
        m->left[m->p->out[o].reg]++;
        if (m->p->out[o].reg2 >= 0 && m->p->out[o].reg2 != m->p->out[o].reg) m->left[m->p->out[o].reg2]++;
    }
}
static void fg_make_strip(FgVmPlan *p, FgVmStrip *strip, int *scratch) {
    FgMaking m = {.p = p, .strip = strip, .types = p->types, .held = -1, .alone = -1, .first = strip->op};
    char made[FG_STRIP_OPS] = {0};
    int k;
    memset(scratch, 0, 7 * p->n_regs * sizeof(int));
    int **arrays[7] = {&m.left, &m.slot, &m.maker, &m.stored, &m.late, &m.bound, &m.range};
    for (k = 0; k < 7; k++) *arrays[k] = scratch + k * p->n_regs;
    for (k = strip->op; k < strip->op_end; k++) m.maker[p->ops[k].dst] = k + 1;
    fg_count(&m);
    fg_find_bounds(&m);
    fg_find_ranges(&m);
    fg_count(&m);
    fg_find_late(&m);
    if (p->masked) {                                 /* a slot that holds the masks' address */
        m.busy[FG_BANKS] = 1;
        p->masked = p->n_regs + p->n_boxes + FG_BANKS;
        if (p->n_slots <= FG_BANKS) p->n_slots = FG_BANKS + 1;
    }
    if (p->in_strips) {                              /* slots that hold where outputs' sums go next */
        for (int o = 0; o < p->n_out; o++) m.busy[FG_BANKS + o] = 1;
        p->sums = p->n_regs + p->n_boxes + FG_BANKS;
        if (p->n_slots < FG_BANKS + p->n_out) p->n_slots = FG_BANKS + p->n_out;
    }
    strip->stage = p->n_stages;
    m.made = made;
    while ((k = fg_next(&m)) >= 0) {
        const FgVmOp *op = &p->ops[k], *cmp = fg_part_of(&m, op);
        made[k - strip->op] = 1;
        m.now = k;
        if (m.range[op->dst]) fg_range(&m, op);
        else if (m.bound[op->dst]) fg_bounded(&m, op);
        else if (cmp) fg_choice(&m, op, cmp);
        else if (op->op == FG_OP_select) fg_select(&m, op);
        else if (op->op == FG_OP_window) fg_windowed(&m, op);
        else if (op->op == FG_OP_clamp) fg_clamp(&m, op);
        else if (op->op == FG_OP_div && !fg_vm_is_real(op->type)) fg_divide(&m, op);
        else if (fg_vm_info[op->op].arity == 2) fg_binary(&m, op);
        else fg_unary(&m, op);
    }
    for (int o = 0; p->in_strips && o < p->n_out; o++) if (!m.folded[o]) {      /* of inputs alone */
        fg_load(&m, p->out[o].reg);
        fg_put_fold(&m, o, p->out[o].reg);
    }
    FgStage *last = &p->stages[p->n_stages - 1];
    int wide = strip->lane == 8;
    if (last->fn == stage_store) last->fn = stage_store_last;
    else if (p->masked && last->fn == fg_masked_stores[wide][0]) last->fn = fg_masked_stores[wide][1];
    else fg_put(&m, stage_end);
    strip->stage_end = p->n_stages;
}
#endif
