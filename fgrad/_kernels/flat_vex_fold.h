/* Machine code by AVX2 of flat code's permutations, small products and reductions. See flat_native.h; flat_native_fold.h has AVX-512's. */
#ifndef FG_FLAT_VEX_FOLD_H
#define FG_FLAT_VEX_FOLD_H
#include "flat_native_ops.h"
#if FG_MACHINE_CODE == 1

static void nat_permute(FgNat *n, const FgFlatOp *o) { (void)o; n->failed = 1; }
static void nat_dot(FgNat *n, const FgFlatOp *o, int one) { (void)o; (void)one; n->failed = 1; }
static void nat_long_dot(FgNat *n, const FgFlatOp *o, int one) { (void)o; (void)one; n->failed = 1; }
static void nat_line(FgNat *n, const FgFlatOp *o, int wide) { (void)o; (void)wide; n->failed = 1; }
static void nat_fold(FgNat *n, const FgFlatOp *o, int how, int four, FgFlatOp *exact) { (void)o; (void)how; (void)four; (void)exact; n->failed = 1; }
static void nat_positions(FgNat *n, const FgFlatOp *o, int how, int four) { (void)o; (void)how; (void)four; n->failed = 1; }
static void nat_position(FgNat *n, const FgFlatOp *o, int how) { (void)o; (void)how; n->failed = 1; }
#endif
#endif
