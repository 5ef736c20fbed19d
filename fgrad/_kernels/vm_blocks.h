/* The VM's loops over functions that vec_blocks.h computes a block of vectors at a time. Part of vm_loops.h. */
#ifndef FG_VM_BLOCKS_H
#define FG_VM_BLOCKS_H
#include "vec_erf_blocks.h"
#include "vec_power_blocks.h"

/* name of x at a_ and y at `other`: with z = before(x), after(x, y, f(z)). What is no whole block, or has numbers at the ends of f's range, goes through
 * the whole f, by a function apart: it needs registers that the loop over blocks has not. */
#define VM_BLOCK_OF(t, before, f, after, N) \
    for (; n >= (N) * L; n -= (N) * L, a += (N) * L, o += (N) * L, d += (N) * L) { \
        FG_EACH(N) { memcpy(&x, a + j * L, FG_VEC); z[j] = before(x); } \
        vecs_##f##_whole_##t(N, z); \
        FG_EACH(N) { \
            memcpy(&x, a + j * L, FG_VEC); memcpy(&y, o + j * L, FG_VEC); \
            const vec_##t w = after(x, y, z[j]); \
            memcpy(d + j * L, &w, FG_VEC); } }
#define VM_BLOCKS_OF(name, t, T, f, other, before, after) \
static __attribute__((noinline)) void vm_##name##_ends_##t(int64_t n, T *d, const T *a, const T *o) { \
    enum { L = FG_VEC / sizeof(T) }; vec_##t x, y, z[FG_BLOCK]; (void)y; \
    VM_BLOCK_OF(t, before, f, after, FG_BLOCK) \
    VM_BLOCK_OF(t, before, f, after, 1) \
    if (n) { \
        x = vm_part_##t(a, n); y = vm_part_##t(o, n); z[0] = before(x); \
        vecs_##f##_whole_##t(1, z); \
        vm_put_part_##t(d, after(x, y, z[0]), n); } } \
FG_SIG(name, t) { \
    enum { L = FG_VEC / sizeof(T), N = FG_BLOCK }; \
    T *d = (T *)d_; const T *a = (const T *)a_, *o = (const T *)other; int64_t i = 0; (void)b_; (void)c_; \
    for (; i + N * L <= n; i += N * L) { \
        vec_##t x, y, z[N]; (void)y; \
        FG_EACH(N) { memcpy(&x, a + i + j * L, FG_VEC); z[j] = before(x); } \
        if (__builtin_expect(vecs_##f##_ends_##t(z), 0)) { vm_##name##_ends_##t(N * L, d + i, a + i, o + i); continue; } \
        vecs_##f##_##t(z); \
        FG_EACH(N) { \
            memcpy(&x, a + i + j * L, FG_VEC); memcpy(&y, o + i + j * L, FG_VEC); \
            const vec_##t w = after(x, y, z[j]); \
            memcpy(d + i + j * L, &w, FG_VEC); } } \
    if (i < n) vm_##name##_ends_##t(n - i, d + i, a + i, o + i); }
#define VM_ITSELF(x) x
#define VM_ALONE(x, y, z) z
#define VM_BLOCKS(name, t, T) VM_BLOCKS_OF(name, t, T, name, a_, VM_ITSELF, VM_ALONE)

#define VM_TIMES_Y(x, y, z) ((y) * (z))
#define VM_TIMES_X(x, y, z) ((x) * (z))
#define VM_GELU_OF(t, T, x) ((x) * vec_fma_##t((vec_##t){0} + (T)FG_GELU_B, (x) * (x), (vec_##t){0} + (T)FG_GELU_A))
#define VM_WITHIN_30(t, x) vec_max_##t((vec_##t){0} - 30, vec_min_##t((vec_##t){0} + 30, x))      /* beyond, the slope is 0 and 1 */
#define VM_GELU_BLOCKS(t, T) \
FG_INLINE vec_##t vec_gelu_begin_##t(vec_##t x) { return VM_GELU_OF(t, T, x); } \
FG_INLINE vec_##t vec_gelu_slope_begin_##t(vec_##t x) { x = VM_WITHIN_30(t, x); return VM_GELU_OF(t, T, x); } \
FG_INLINE vec_##t vec_gelu_slope_end_##t(vec_##t x, vec_##t y, vec_##t s) { \
    (void)y; x = VM_WITHIN_30(t, x); \
    return vec_fma_##t(x * vec_fma_##t((vec_##t){0} + (T)(3 * FG_GELU_B), x * x, (vec_##t){0} + (T)FG_GELU_A), vec_less_fma_##t(s, s, s), s); } \
VM_BLOCKS_OF(gelu, t, T, logistic, a_, vec_gelu_begin_##t, VM_TIMES_X) \
VM_BLOCKS_OF(gelu_slope, t, T, logistic, a_, vec_gelu_slope_begin_##t, vec_gelu_slope_end_##t)

FG_INLINE vec_f64 vm_part_f64(const double *p, int64_t n) {
    return n == 1 ? (vec_f64)_mm256_zextpd128_pd256(_mm_load_sd(p)) : (vec_f64)fg_load_bytes(p, 8 * (int)n);
}
FG_INLINE void vm_put_part_f64(double *p, vec_f64 x, int64_t n) { fg_store_bytes(p, 8 * (int)n, (__m256)x); }
/* e^x - 1 = s (e^r - 1) + (s - 1), for x <= 87 or 708; -1 where x is less than -20 or -40 */
FG_INLINE void vecs_expm1_of_f32(const int n, vec_f32 *x) {
    vec_f32 t[FG_BLOCK], q[FG_BLOCK], r[FG_BLOCK];
    FG_EACH(n) r[j] = vec_max_f32(FG_ALL_F32(-20.0f), x[j]);
    vecs_exp_begin_f32(n, r, t, q, FG_MAGIC_F32 + 127, 0);
    FG_EACH(n) r[j] = vec_fma_f32(q[j], r[j] * r[j], r[j]);
    FG_EACH(n) t[j] = (vec_f32)((fg_lanes_f32)t[j] << 23);
    FG_EACH(n) x[j] = vec_sign_of_f32(vec_fma_f32(t[j], r[j], t[j] - 1.0f), x[j]);
}
FG_INLINE void vecs_expm1_of_f64(const int n, vec_f64 *x) {
    vec_f64 t[FG_BLOCK], q[FG_BLOCK], r[FG_BLOCK];
    FG_EACH(n) r[j] = vec_max_f64(FG_ALL_F64(-40.0), x[j]);
    vecs_exp_begin_f64(n, r, t, q, FG_MAGIC_F64 + 1023, 0);
    FG_EACH(n) r[j] = vec_fma_f64(q[j], r[j] * r[j], r[j]);
    FG_EACH(n) t[j] = (vec_f64)((fg_lanes_f64)t[j] << 52);
    FG_EACH(n) x[j] = vec_sign_of_f64(vec_fma_f64(t[j], r[j], t[j] - 1.0), x[j]);
}
#define VM_EXPM1_BLOCKS(t, T, MOST) \
FG_INLINE int vecs_expm1_ends_##t(const vec_##t *x) { return vecs_above_##t(x, MOST); } \
FG_INLINE void vecs_expm1_##t(vec_##t *x) { vecs_expm1_of_##t(FG_BLOCK, x); } \
FG_INLINE void vecs_expm1_whole_##t(const int n, vec_##t *x) { \
    const vec_##t most = (vec_##t){0} + MOST; \
    vec_##t e[FG_BLOCK], y[FG_BLOCK]; \
    FG_EACH(n) { e[j] = x[j]; y[j] = vec_min_##t(most, x[j]); } \
    vecs_expm1_of_##t(n, y); \
    vecs_exp_whole_##t(n, e); \
    FG_EACH(n) x[j] = vec_less_##t(most, x[j], e[j], y[j]); } \
VM_BLOCKS(expm1, t, T)
VM_EXPM1_BLOCKS(f32, float, 87.0f)
VM_EXPM1_BLOCKS(f64, double, 708.0)
FG_INLINE void vecs_log1p_whole_f32(const int n, vec_f32 *x) { FG_EACH(n) x[j] = vec_log1p_f32(x[j]); }
VM_BLOCKS(exp, f32, float) VM_BLOCKS(tanh, f32, float) VM_BLOCKS(log, f32, float) VM_BLOCKS(log1p, f32, float) VM_BLOCKS(logistic, f32, float)
VM_BLOCKS_OF(logistic_times, f32, float, logistic, b_, VM_ITSELF, VM_TIMES_Y)
VM_GELU_BLOCKS(f32, float)
VM_BLOCKS(log2, f32, float) VM_BLOCKS(erf, f32, float) VM_BLOCKS(erfc, f32, float) VM_BLOCKS(ndtr, f32, float) VM_BLOCKS(logit, f32, float)
VM_BLOCKS_OF(gelu_exact, f32, float, ndtr, a_, VM_ITSELF, VM_TIMES_X) VM_BLOCKS(gelu_exact_slope, f32, float)
VM_BLOCKS(exp, f64, double) VM_BLOCKS(tanh, f64, double) VM_BLOCKS(log, f64, double) VM_BLOCKS(log1p, f64, double) VM_BLOCKS(logistic, f64, double)
VM_GELU_BLOCKS(f64, double)
#undef VM_BLOCK_OF
#undef VM_BLOCKS_OF
#undef VM_BLOCKS
#undef VM_GELU_BLOCKS
#endif
