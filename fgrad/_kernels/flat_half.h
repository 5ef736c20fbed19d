/* Flat code of 16-bit floats: what computes reads them as float32 in places of their own, and its results are rounded where they lie. See flat.h. */
#ifndef FG_FLAT_HALF_H
#define FG_FLAT_HALF_H
#include "flat_emit.h"
#include "vm_reduce16.h"

static int fg_flat_is_half(int dtype) { return dtype == FG_BF16 || dtype == FG_F16; }
/* The type that flat code computes with: also of reductions and changes of sign, which the VM reads as 16 bits. */
static int fg_flat_wide_type(int type) { return fg_flat_is_half(type) ? FG_F32 : type; }
/* 1 if a group is more than a copy. */
static int fg_flat_computes(const FgVmPlan *p) {
    int computes = p->n_ops + p->n_reduced > 0;
    for (int i = 0; i < p->n_in; i++) computes |= p->in[i].dtype != p->in[i].type;
    return computes;
}
/* 1 unless a group of 16-bit floats is so long that the VM, whose stages widen and round in registers, is as fast; the interpreter calls what widens and rounds. */
static int fg_flat_few_halves(const FgFlat *f, const FgVmPlan *p) {
    int halves = 0;
    for (int i = 0; i < p->n_in; i++) halves |= fg_flat_is_half(p->in[i].dtype);
    for (int o = 0; o < p->n_out; o++) halves |= fg_flat_is_half(p->out[o].dtype);
    return !halves || p->n <= (f->machine ? FG_FLAT_ELEMENTS : FG_FLAT_ELEMENTS / 2);
}
/* 1 if an output adds up or orders 16-bit floats as the VM does rows of float32, see vm_seg_wide in vm_reduce16.h. */
static int fg_flat_short_rows(const FgVmPlan *p, const FgVmOutput *out) {
    return out->numbers == 0 && p->n_red * p->n_inner <= FG_WIDE_BLOCK && (p->n_inner == 1 ? p->n_red < FG_WIDE_ROW : p->n_inner < FG_WIDE_COLUMNS);
}

/* n 16-bit floats at a to float32 at d, which takes whole vectors. */
static void fg_flat_widen(FgFlat *f, int dtype, int64_t n, char *d, const char *a) {
    const int t = dtype == FG_F16;
    if (n == 1) { fg_flat_op(f, FLAT_widen1_bf16 + t, d, a, 0, 0, 0, 0); return; }
    if (a < f->memory || a + (n + 15) / 16 * 32 > f->memory + FG_FLAT_MEMORY) {         /* whole vectors are read */
        char *copy = fg_flat_room(f, n, 2);
        fg_flat_copy(f, copy, a, 2 * n);
        a = copy;
    }
    for (int64_t i = 0; i < n; i += 16) fg_flat_op(f, FLAT_widen_bf16 + t, d + 4 * i, a + 2 * i, 0, 0, 0, 0);
}
/* The same to a place of their own. */
static char *fg_flat_widened_at(FgFlat *f, int dtype, int64_t n, const char *a) {
    char *d = fg_flat_room(f, n, 4);
    if (!f->failed) fg_flat_widen(f, dtype, n, d, a);
    return d;
}
/* And back. */
static void fg_flat_narrow_to(FgFlat *f, int dtype, int64_t n, char *d, const char *a) {
    const int t = dtype == FG_F16;
    char *to = d;
    if (n == 1) { fg_flat_op(f, FLAT_narrow1_bf16 + t, d, a, 0, 0, 0, 0); return; }
    for (int64_t i = 0; i < 2 * n && to == d; i += 64) if (!fg_flat_padded(f, d + i)) to = fg_flat_room(f, n, 2);
    for (int64_t i = 0; i < n && !f->failed; i += 16) fg_flat_op(f, FLAT_narrow_bf16 + t, to + 2 * i, a + 4 * i, 0, 0, 0, 0);
    if (to != d) fg_flat_copy(f, d, to, 2 * n);
}
#endif
