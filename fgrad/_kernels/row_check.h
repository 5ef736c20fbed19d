/* What the row kernels share: their plan, and the checks of operands with messages that name the kernel and the operand. */
#ifndef FG_ROW_CHECK_H
#define FG_ROW_CHECK_H
#include <stdio.h>
#include "fail.h"
#include "fetch.h"
#include "fg.h"

#define FG_TILE 64           /* columns handled together when the reduced axis is not the last */
#define FG_ROW_WORK 8192    /* elements that make a thread worth its start */

/* A contiguous tensor seen as (outer, n, inner), reduced over n.  A unit is a row, or one tile of columns. */
typedef struct {
    const void *in[5];
    void *out[3];
    int64_t outer, n, inner, tiles, units, grain;
    double eps;
    int label64;
} FgRows;

/* Short rows go in groups, one step after the other for the whole group: the long latencies of a row's horizontal sum, root or
 * quotient then overlap with those of its neighbours. This is how many rows of `bytes` stay in the first cache together. */
#define FG_ROW_GROUP 16
static inline int64_t row_group(int64_t left, int64_t bytes) {
    int64_t fit = 16384 / (bytes + 1);
    if (fit > FG_ROW_GROUP) fit = FG_ROW_GROUP;
    if (fit < 1) fit = 1;
    return left < fit ? left : fit;
}

/* The first row from u on that begins a tile of narrow rows, or the end. */
static inline int64_t fg_tile_start(const FgRows *c, int64_t u) {
    int64_t each = FG_TILE / c->inner, start = (u + each - 1) / each * each;
    return start < c->units ? start : c->units;
}

/* "float32(3, 4)", in one of four rotating buffers */
static const char *row_text(const FgTensor *t) {
    static __thread char text[4][96];
    static __thread int turn = 0;
    char *s = text[turn++ & 3];
    snprintf(s, sizeof text[0], "%s%s", fg_dtype_name(t->dtype), fg_shape_text(t));
    return s;
}

static inline const FgTensor *row_operand(const FgInst *inst, const FgTensor *slots, int k) { return &slots[inst->args[k]]; }

static int row_counts(const FgInst *inst, const char *name, int n_in, int n_out, int n_ip, int n_fp, char *msg) {
    if (inst->n_in == n_in && inst->n_out == n_out && inst->n_ip == n_ip && inst->n_fp == n_fp) return 0;
    return fg_fail(msg, "%s: %d inputs, %d outputs, %d integer and %d float parameters expected; got %d, %d, %d and %d",
                    name, n_in, n_out, n_ip, n_fp, inst->n_in, inst->n_out, inst->n_ip, inst->n_fp);
}

/* Operand k is contiguous and has dtype `dtype`; -1 stands for float32 or float64. */
static int row_dtype(const FgInst *inst, const FgTensor *slots, const char *name, int k, int dtype, char *msg) {
    const FgTensor *t = row_operand(inst, slots, k);
    if (dtype < 0 && t->dtype != FG_F32 && t->dtype != FG_F64)
        return fg_fail(msg, "%s: operand %d is %s; float32 or float64 expected", name, k, row_text(t));
    if (dtype >= 0 && t->dtype != dtype)
        return fg_fail(msg, "%s: operand %d is %s; %s expected", name, k, row_text(t), fg_dtype_name(dtype));
    return 0;
}

static int row_dense(const FgInst *inst, const FgTensor *slots, const char *name, int k, int dtype, char *msg) {
    const FgTensor *t = row_operand(inst, slots, k);
    if (row_dtype(inst, slots, name, k, dtype, msg)) return -1;
    if (!fg_is_contiguous(t)) return fg_fail(msg, "%s: operand %d, %s, must be contiguous", name, k, row_text(t));
    return 0;
}

/* Operand k is contiguous, with the dtype and shape of operand 0. */
static int row_like(const FgInst *inst, const FgTensor *slots, const char *name, int k, char *msg) {
    const FgTensor *x = row_operand(inst, slots, 0), *t = row_operand(inst, slots, k);
    if (row_dense(inst, slots, name, k, x->dtype, msg)) return -1;
    if (!fg_same_shape(x, t))
        return fg_fail(msg, "%s: operand %d is %s but operand 0 is %s", name, k, row_text(t), row_text(x));
    return 0;
}

/* Operand k is one dense row, the same for all rows, with the dtype and shape of operand 0. */
static int row_repeated(const FgInst *inst, const FgTensor *slots, const char *name, int k, char *msg) {
    const FgTensor *x = row_operand(inst, slots, 0), *t = row_operand(inst, slots, k);
    int repeated = fg_same_shape(x, t);
    if (row_dtype(inst, slots, name, k, x->dtype, msg)) return -1;
    for (int d = 0; repeated && x->size && d < t->ndim; d++) repeated = t->shape[d] == 1 || t->strides[d] == (d == t->ndim - 1);
    return repeated ? 0 : fg_fail(msg, "%s: operand %d, %s, must be one row that is repeated over %s", name, k, row_text(t), row_text(x));
}

/* Operand k is contiguous with dtype `dtype` and the shape of operand 0 without `axis`. */
static int row_reduced(const FgInst *inst, const FgTensor *slots, const char *name, int k, int dtype, int64_t axis, char *msg) {
    const FgTensor *x = row_operand(inst, slots, 0), *t = row_operand(inst, slots, k);
    int same = t->ndim == x->ndim - 1;
    if (row_dense(inst, slots, name, k, dtype, msg)) return -1;
    for (int d = 0; same && d < t->ndim; d++) same = t->shape[d] == x->shape[d < axis ? d : d + 1];
    if (!same) return fg_fail(msg, "%s: operand %d is %s; expected the shape of operand 0, %s, without axis %lld", name, k,
                               row_text(t), row_text(x), (long long)axis);
    return 0;
}

static int row_axis(const FgInst *inst, const FgTensor *slots, const char *name, int64_t axis, char *msg) {
    const FgTensor *x = row_operand(inst, slots, 0);
    if (axis >= 0 && axis < x->ndim) return 0;
    return fg_fail(msg, "%s: axis %lld is out of range for %s", name, (long long)axis, row_text(x));
}

static void row_plan(FgRows *c, const FgInst *inst, FgTensor *slots, int64_t axis) {
    const FgTensor *x = row_operand(inst, slots, 0);
    memset(c, 0, sizeof *c);
    for (int k = 0; k < inst->n_in; k++) c->in[k] = row_operand(inst, slots, k)->data;
    for (int k = 0; k < inst->n_out; k++) c->out[k] = row_operand(inst, slots, inst->n_in + k)->data;
    c->outer = c->inner = 1;
    c->n = x->shape[axis];
    for (int d = 0; d < axis; d++) c->outer *= x->shape[d];
    for (int d = (int)axis + 1; d < x->ndim; d++) c->inner *= x->shape[d];
    c->tiles = (c->inner + FG_TILE - 1) / FG_TILE;
    c->units = c->outer * c->tiles;
    int64_t each = c->n * (c->inner < FG_TILE ? c->inner : FG_TILE);
    c->grain = 1 + FG_ROW_WORK / (each + 1);
    c->eps = inst->n_fp ? inst->fp[0] : 0.0;
}
#endif
