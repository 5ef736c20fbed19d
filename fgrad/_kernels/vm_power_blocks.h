/* The VM's loops over powers and relative entropies of float32 by vec_power_blocks.h, as vm_blocks.h has those of one operand. Part of vm_loops.h. */
#ifndef FG_VM_POWER_BLOCKS_H
#define FG_VM_POWER_BLOCKS_H
#include "vec_power_blocks.h"

/* in all lanes, -0 too, which a sum with 0 is not */
FG_INLINE vec_f32 vm_one_value_f32(const float *p) { return (vec_f32)_mm256_set1_ps(*p); }
/* of any numbers; by_x, by_y: steps through the operands, 0 for one value */
static __attribute__((noinline)) void vm_pow_ends_f32(int64_t n, float *d, const float *a, int by_x, const float *b, int by_y) {
    enum { L = FG_VEC / 4 };
    vec_f32 x[FG_BLOCK], y[FG_BLOCK];
    FG_EACH(FG_BLOCK) { x[j] = vm_one_value_f32(a); y[j] = vm_one_value_f32(b); }
    for (; n >= FG_BLOCK * L; n -= FG_BLOCK * L, a += by_x * FG_BLOCK * L, b += by_y * FG_BLOCK * L, d += FG_BLOCK * L) {
        FG_EACH(FG_BLOCK) {
            if (by_x) memcpy(&x[j], a + j * L, FG_VEC); else x[j] = vm_one_value_f32(a);
            if (by_y) memcpy(&y[j], b + j * L, FG_VEC);
        }
        vecs_power_whole_f32(FG_BLOCK, x, y);
        FG_EACH(FG_BLOCK) memcpy(d + j * L, &x[j], FG_VEC);
    }
    for (; n >= L; n -= L, a += by_x * L, b += by_y * L, d += L) {
        if (by_x) memcpy(x, a, FG_VEC); else x[0] = vm_one_value_f32(a);
        if (by_y) memcpy(y, b, FG_VEC);
        vecs_power_whole_f32(1, x, y);
        memcpy(d, x, FG_VEC);
    }
    if (n) {
        x[0] = by_x ? vm_part_f32(a, n) : vm_one_value_f32(a);
        if (by_y) y[0] = vm_part_f32(b, n);
        vecs_power_whole_f32(1, x, y);
        vm_put_part_f32(d, x[0], n);
    }
}
/* Where an operand is one value, its lanes are made once; so is its logarithm, of which all vectors of a block are one. */
#define VM_POWER_BLOCKS(form, by_x, by_y) FG_SIG(pow##form, f32) { \
    enum { L = FG_VEC / 4, N = FG_BLOCK }; \
    float *d = (float *)d_; const float *a = (const float *)a_, *b = (const float *)b_; int64_t i = 0; (void)c_; \
    vec_f32 x[N], y[N], high[N], low[N], h[N], l[N]; int odd = 0; \
    if (n >= N * L && !(by_x)) { FG_EACH(N) x[j] = vm_one_value_f32(a); odd = vecs_unlogged_f32(x, 0x7f000000); vecs_log2_parts_f32(1, x, 0, high, low); } \
    if (!(by_y)) FG_EACH(N) y[j] = vm_one_value_f32(b); \
    for (; i + N * L <= n; i += N * L) { \
        if (by_x) { \
            FG_EACH(N) memcpy(&x[j], a + i + j * L, FG_VEC); \
            odd = vecs_unlogged_f32(x, 0x7f000000); \
            vecs_log2_parts_f32(N, x, 0, high, low); \
        } \
        if (by_y) FG_EACH(N) memcpy(&y[j], b + i + j * L, FG_VEC); \
        FG_EACH(N) { h[j] = high[(by_x) ? j : 0]; l[j] = low[(by_x) ? j : 0]; } \
        vecs_power_log_f32(N, y, h, l); \
        if (__builtin_expect(odd | vecs_beyond_f32(h, FG_POWER_WITHIN), 0)) { \
            vm_pow_ends_f32(N * L, d + i, a + (by_x) * i, by_x, b + (by_y) * i, by_y); continue; } \
        vecs_power_f32(N, h, l, h); \
        FG_EACH(N) memcpy(d + i + j * L, &h[j], FG_VEC); } \
    if (i < n) vm_pow_ends_f32(n - i, d + i, a + (by_x) * i, by_x, b + (by_y) * i, by_y); }
VM_POWER_BLOCKS(, 1, 1) VM_POWER_BLOCKS(_first, 0, 1) VM_POWER_BLOCKS(_other, 1, 0)
VM_POWER_SECOND(f32, float, f, vm_pow_other_f32(n, d_, a_, b_, c_);)
#undef VM_POWER_BLOCKS

static __attribute__((noinline)) void vm_rel_entr_ends_f32(int64_t n, float *d, const float *a, const float *b) {
    enum { L = FG_VEC / 4 };
    vec_f32 x, y;
    for (; n >= L; n -= L, a += L, b += L, d += L) {
        memcpy(&x, a, FG_VEC); memcpy(&y, b, FG_VEC);
        vecs_rel_entr_whole_f32(1, &x, &y);
        memcpy(d, &x, FG_VEC);
    }
    if (n) { x = vm_part_f32(a, n); y = vm_part_f32(b, n); vecs_rel_entr_whole_f32(1, &x, &y); vm_put_part_f32(d, x, n); }
}
FG_SIG(rel_entr, f32) {
    enum { L = FG_VEC / 4, N = FG_BLOCK };
    float *d = (float *)d_; const float *a = (const float *)a_, *b = (const float *)b_; int64_t i = 0; vec_f32 x[N], y[N]; (void)c_;
    for (; i + N * L <= n; i += N * L) {
        FG_EACH(N) { memcpy(&x[j], a + i + j * L, FG_VEC); memcpy(&y[j], b + i + j * L, FG_VEC); }
        if (__builtin_expect(vecs_rel_entr_ends_f32(x, y), 0)) { vm_rel_entr_ends_f32(N * L, d + i, a + i, b + i); continue; }
        vecs_rel_entr_f32(N, x, y);
        FG_EACH(N) memcpy(d + i + j * L, &x[j], FG_VEC);
    }
    if (i < n) vm_rel_entr_ends_f32(n - i, d + i, a + i, b + i);
}
#endif
