/* The stages of vm_strip.h by what they do, and which of them become one. */
#ifndef FG_VM_STRIP_TABLES_H
#define FG_VM_STRIP_TABLES_H
#include "vm_strip.h"

/* Tables: the stages of an operation by form, the operations' types by what they do with bits. */
enum { FG_FORM_V, FG_FORM_ONE, FG_FORM_RV, FG_FORM_R1, FG_FORM_KNOWN, FG_FORM_ZERO, FG_FORM_ELSE, FG_FORM_BANK0, FG_FORM_BANK1, FG_FORM_RBANK0, FG_FORM_RBANK1, FG_FORMS };
#if FG_BANKS
#define FG_CELL_BANK(op, t) [FG_OP_##op][FG_FORM_BANK0] = stage_##op##_BANK0_##t, [FG_OP_##op][FG_FORM_BANK1] = stage_##op##_BANK1_##t,
#define FG_CELL_EVEN_BANK(op, t) FG_CELL_BANK(op, t) \
    [FG_OP_##op][FG_FORM_RBANK0] = stage_##op##_BANK0_##t, [FG_OP_##op][FG_FORM_RBANK1] = stage_##op##_BANK1_##t,
#define FG_CELL_BOTH_BANK(op, t) FG_CELL_BANK(op, t) \
    [FG_OP_##op][FG_FORM_RBANK0] = stage_##op##_RBANK0_##t, [FG_OP_##op][FG_FORM_RBANK1] = stage_##op##_RBANK1_##t,
#else
#define FG_CELL_EVEN_BANK(op, t)
#define FG_CELL_BOTH_BANK(op, t)
#endif
#define FG_CELL_UNARY(op, t) [FG_OP_##op][FG_FORM_V] = stage_##op##_V_##t,
#define FG_CELL_BINARY(op, t) FG_CELL_UNARY(op, t) [FG_OP_##op][FG_FORM_ONE] = stage_##op##_ONE_##t, \
    [FG_OP_##op][FG_FORM_RV] = stage_##op##_V_##t, [FG_OP_##op][FG_FORM_R1] = stage_##op##_ONE_##t, FG_CELL_EVEN_BANK(op, t)
#define FG_CELL_BOTH(op, t) FG_CELL_UNARY(op, t) [FG_OP_##op][FG_FORM_ONE] = stage_##op##_ONE_##t, \
    [FG_OP_##op][FG_FORM_RV] = stage_##op##_RV_##t, [FG_OP_##op][FG_FORM_R1] = stage_##op##_R1_##t, FG_CELL_BOTH_BANK(op, t)
#define FG_CELL_KNOWN(op, t) [FG_OP_##op][FG_FORM_KNOWN] = stage_##op##_known_ONE_##t,
#define FG_CELL_ZERO(op, t) FG_CELL_KNOWN(op, t) [FG_OP_##op][FG_FORM_ZERO] = stage_##op##_zero_ONE_##t, \
    [FG_OP_##op][FG_FORM_ELSE] = stage_##op##_else_ONE_##t,
#define FG_ROW_FLOATS(t) FG_FLOATS_EVEN(FG_CELL_BINARY, t) FG_FLOATS_TWO(FG_CELL_BOTH, t) FG_FLOATS_ONE(FG_CELL_UNARY, t) \
    FG_CELL_ZERO(max, t) FG_CELL_ZERO(min, t)
#define FG_ROW_INTS(u, t) FG_BITS_EVEN(FG_CELL_BINARY, u) FG_BITS_TWO(FG_CELL_BOTH, u) FG_BITS_ONE(FG_CELL_UNARY, u) \
    FG_CELL_KNOWN(shl, u) FG_CELL_KNOWN(shr_logical, u) FG_CELL_KNOWN(shr_arith, u) \
    FG_ORDER_EVEN(FG_CELL_BINARY, t) FG_ORDER_TWO(FG_CELL_BOTH, t)
#ifdef __AVX2__
#define FG_CELL_DIVIDE [FG_OP_div][FG_FORM_KNOWN] = stage_div_known_i32,
#else
#define FG_CELL_DIVIDE
#endif
static const FgStageFn fg_stages[FG_NDTYPES][FG_OP_COUNT][FG_FORMS] = {
    [FG_F32] = {FG_ROW_FLOATS(f32) FG_HALVES_ONE(FG_CELL_UNARY, f32)}, [FG_F64] = {FG_ROW_FLOATS(f64)},
    [FG_I32] = {FG_ROW_INTS(u32, i32) FG_SIGNED_ONE(FG_CELL_UNARY, i32) FG_CELL_DIVIDE}, [FG_I64] = {FG_ROW_INTS(u64, i64) FG_SIGNED_ONE(FG_CELL_UNARY, i64)},
    [FG_U32] = {FG_ROW_INTS(u32, u32)}, [FG_U64] = {FG_ROW_INTS(u64, u64)}};
/* The links' numbers and their pairs. */
#define FG_LINK_NUMBER(op, form, Y, turn, kind) FG_LINK_##kind##_##op##_##form,
enum { FG_LINKS_float(FG_LINK_NUMBER, float) FG_LINKS_float_N };
enum { FG_LINKS_int(FG_LINK_NUMBER, int) FG_LINKS_int_N };
#define FG_CELL_PAIR(op2, form2, Z, turn2, op, form, Y, turn, kind, t) \
    [FG_LINK_##kind##_##op##_##form][FG_LINK_##kind##_##op2##_##form2] = pair_##op##_##form##_##op2##_##form2##_##t,
#define FG_CELLS_WITH(op, form, Y, turn, kind, t) FG_AGAIN_##kind FG_EMPTY() ()(FG_CELL_PAIR, op, form, Y, turn, kind, t)
static const FgStageFn fg_pairs_float[2][FG_LINKS_float_N][FG_LINKS_float_N] = {
    {FG_EXPAND(FG_LINKS_float(FG_CELLS_WITH, float, f32))}, {FG_EXPAND(FG_LINKS_float(FG_CELLS_WITH, float, f64))}};
static const FgStageFn fg_pairs_int[2][FG_LINKS_int_N][FG_LINKS_int_N] = {
    {FG_EXPAND(FG_LINKS_int(FG_CELLS_WITH, int, u32))}, {FG_EXPAND(FG_LINKS_int(FG_CELLS_WITH, int, u64))}};
#define FG_JOIN_NUMBER(op, form, turn, kind) FG_JOIN_##kind##_##op##_##form,
enum { FG_JOINS_float(FG_JOIN_NUMBER, float) FG_JOINS_float_N };
enum { FG_JOINS_int(FG_JOIN_NUMBER, int) FG_JOINS_int_N };
#define FG_CELL_SIDE(op2, form2, turn2, op, form, Y, turn, kind, t) \
    [FG_LINK_##kind##_##op##_##form][FG_JOIN_##kind##_##op2##_##form2] = side_##op##_##form##_##op2##_##form2##_##t,
#define FG_CELLS_OF_SIDES(op, form, Y, turn, kind, t) FG_JOINS_##kind(FG_CELL_SIDE, op, form, Y, turn, kind, t)
static const FgStageFn fg_sides_float[2][FG_LINKS_float_N][FG_JOINS_float_N] = {
    {FG_LINKS_float(FG_CELLS_OF_SIDES, float, f32)}, {FG_LINKS_float(FG_CELLS_OF_SIDES, float, f64)}};
static const FgStageFn fg_sides_int[2][FG_LINKS_int_N][FG_JOINS_int_N] = {
    {FG_LINKS_int(FG_CELLS_OF_SIDES, int, u32)}, {FG_LINKS_int(FG_CELLS_OF_SIDES, int, u64)}};
/* The number of a stage among the links of its kind, or -1. */
static int fg_link(FgStageFn fn, int type) {
    #define FG_IS_LINK(op, form, Y, turn, kind, t) if (fn == stage_##op##_##form##_##t) return FG_LINK_##kind##_##op##_##form;
    if (type == FG_F32) { FG_LINKS_float(FG_IS_LINK, float, f32) }
    else if (type == FG_F64) { FG_LINKS_float(FG_IS_LINK, float, f64) }
    else if (type == FG_I32 || type == FG_U32) { FG_LINKS_int(FG_IS_LINK, int, u32) }
    else if (type == FG_I64 || type == FG_U64) { FG_LINKS_int(FG_IS_LINK, int, u64) }
    return -1;
}
static int fg_join(FgStageFn fn, int type) {
    #define FG_IS_JOIN(op, form, turn, kind, t) if (fn == stage_##op##_##form##_##t) return FG_JOIN_##kind##_##op##_##form;
    if (type == FG_F32) { FG_JOINS_float(FG_IS_JOIN, float, f32) }
    else if (type == FG_F64) { FG_JOINS_float(FG_IS_JOIN, float, f64) }
    else if (type == FG_I32 || type == FG_U32) { FG_JOINS_int(FG_IS_JOIN, int, u32) }
    else if (type == FG_I64 || type == FG_U64) { FG_JOINS_int(FG_IS_JOIN, int, u64) }
    return -1;
}
/* The stage that joins the strip with what a link gives, or NULL. */
static FgStageFn fg_side(FgStageFn link, FgStageFn join, int type) {
    int a = fg_link(link, type), b = fg_join(join, type), wide = fg_itemsize(type) == 8;
    return a < 0 || b < 0 ? 0 : type == FG_F32 || type == FG_F64 ? fg_sides_float[wide][a][b] : fg_sides_int[wide][a][b];
}
/* The stage that does the work of two, or NULL. */
static FgStageFn fg_pair(FgStageFn first, FgStageFn second, int type) {
    int a = fg_link(first, type), b = fg_link(second, type), wide = fg_itemsize(type) == 8;
    return a < 0 || b < 0 ? 0 : type == FG_F32 || type == FG_F64 ? fg_pairs_float[wide][a][b] : fg_pairs_int[wide][a][b];
}
/* Stores that leave out gaps: of 4 or 8 bytes, in the middle of a program or at its end. */
#ifdef __AVX512F__
static const FgStageFn fg_masked_stores[2][2] = {{stage_store_masked_4, stage_store_masked_last_4}, {stage_store_masked_8, stage_store_masked_last_8}};
#else
static const FgStageFn fg_masked_stores[2][2] = {{0}};
#endif
enum { FG_SIDE_M, FG_SIDE_U, FG_SIDE_V };
#define FG_CELL_SELECT(side, Y, Z, t) [FG_SIDE_##side][FG_FORM_##Y][FG_FORM_##Z] = stage_select_##side##_##Y##_##Z##_##t,
static const FgStageFn fg_selects[2][3][2][2] = {{FG_SELECTS(FG_CELL_SELECT, i32)}, {FG_SELECTS(FG_CELL_SELECT, i64)}};
#if FG_BANKS
static const FgStageFn fg_keeps[] = {stage_keep0, stage_keep1}, fg_takes[] = {stage_take0, stage_take1};
#else
static const FgStageFn fg_keeps[] = {0}, fg_takes[] = {0};
#endif
static const FgStageFn fg_windows[2][2] = {{stage_window_V_4, stage_window_ONE_4}, {stage_window_V_8, stage_window_ONE_8}};
enum { FG_HOW_LT, FG_HOW_LE, FG_HOW_EQ, FG_HOW_NE, FG_HOW_GT, FG_HOW_GE, FG_HOW_N };
enum { FG_X_AT_MEMORY, FG_X_AT_STRIP, FG_X_AT_BANK0, FG_X_AT_BANK1, FG_X_AT_N };
#define FG_CELL_CHOICE(how, side, X, Z, W, t) \
    [FG_HOW_##how][FG_SIDE_##side - 1][FG_X_AT_##X][FG_FORM_##Z][FG_FORM_##W] = stage_choice_##how##_##side##_##X##_##Z##_##W##_##t,
static const FgStageFn fg_choices[2][FG_HOW_N][2][FG_X_AT_N][2][2] = {{FG_CHOICES(FG_CELL_CHOICE, f32)}, {FG_CHOICES(FG_CELL_CHOICE, f64)}};
#define FG_CELL_RANGE(first, how2, how, t) [FG_HOW_##how][FG_HOW_##how2][first] = stage_range_##how##_##how2##_##first##_##t,
static const FgStageFn fg_ranges[2][FG_HOW_N][FG_HOW_N][2] = {{FG_RANGES(FG_CELL_RANGE, f32)}, {FG_RANGES(FG_CELL_RANGE, f64)}};
enum { FG_STEPS_MOST = 5 };
static const FgStageFn fg_horners[2][FG_STEPS_MOST + 1] = {
    {0, pair_mul_V_add_ONE_f32, stage_horner2_f32, stage_horner3_f32, stage_horner4_f32, stage_horner5_f32},
    {0, pair_mul_V_add_ONE_f64, stage_horner2_f64, stage_horner3_f64, stage_horner4_f64, stage_horner5_f64}};
#ifdef __AVX2__
#define FG_FROM_NARROW {[FG_F32] = stage_cast_i32_f32, [FG_I32] = stage_cast_i32_i32, [FG_U32] = stage_cast_i32_i32}
#else
#define FG_FROM_NARROW {0}
#endif
static const FgStageFn fg_strip_casts[FG_NDTYPES][FG_NDTYPES] = {
    [FG_U8] = FG_FROM_NARROW, [FG_I8] = FG_FROM_NARROW, [FG_U16] = FG_FROM_NARROW, [FG_I16] = FG_FROM_NARROW,
    [FG_F32] = {[FG_I32] = stage_cast_f32_i32}, [FG_I32] = {[FG_F32] = stage_cast_i32_f32}, [FG_I64] = {[FG_F64] = stage_cast_i64_f64},
    [FG_BOOL] = {[FG_F32] = stage_cast_i32_mask_f32, [FG_F64] = stage_cast_i32_mask_f64, [FG_I32] = stage_cast_i32_mask_i32,
                 [FG_U32] = stage_cast_i32_mask_i32, [FG_I64] = stage_cast_i32_mask_i64, [FG_U64] = stage_cast_i32_mask_i64}};
#endif
