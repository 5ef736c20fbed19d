/* Programs of stages that reduce rows (vm_in_strips.h): part of vm_make.h. */
#ifndef FG_VM_MAKE_FOLDS_H
#define FG_VM_MAKE_FOLDS_H

/* The stage that reduces what the strip holds, register r: output o's terms, or with those of another register products. */
static void fg_put_fold(FgMaking *m, int o, int r) {
    const FgVmOutput *out = &m->p->out[o];
    const int wide = m->strip->lane == 8, dot = out->reg2 >= 0, other = out->reg == r ? out->reg2 : out->reg;
    const FgStage *last = &m->p->stages[m->p->n_stages - 1];
    int kind = dot ? (other == r ? FG_FOLD_sum_square : FG_FOLD_sum_mul) :
        out->reduce == FG_RED_SUM ? FG_FOLD_sum_plain : out->reduce == FG_RED_MAX ? FG_FOLD_max_plain : FG_FOLD_min_plain;
    m->left[r]--;
    if (dot && other != r) m->left[other]--;
    if (fg_vm_is_real(out->type) && m->p->n_stages - 1 == m->alone && last->fn == fg_stages[out->type][FG_OP_abs][FG_FORM_V] && !m->left[r] && kind != FG_FOLD_min_plain && !dot) {
        kind = kind == FG_FOLD_sum_plain ? FG_FOLD_sum_abs : FG_FOLD_size_abs;
        m->p->n_stages--;                            /* nobody else wants the sign to be gone */
    }
    FgStage *s = fg_put(m, fg_folds[wide][kind][m->p->in_strips == 4 ? 2 : m->p->in_strips - 1]);
    if (kind == FG_FOLD_sum_mul) fg_operand(m, other, &s->a, &s->move_a);
    s->b = m->p->sums + o;
    m->folded[o] = 1;
}
/* The outputs that can be reduced now that the strip holds register r. */
static void fg_put_folds(FgMaking *m, int r) {
    for (int o = 0; m->p->in_strips && o < m->p->n_out; o++) {
        const FgVmOutput *out = &m->p->out[o];
        const int other = out->reg == r ? out->reg2 : out->reg;
        if (m->folded[o] || (out->reg != r && out->reg2 != r)) continue;
        if (out->reg2 < 0 || other == r || fg_is_at_hand(m, other)) fg_put_fold(m, o, r);
    }
}
#endif
