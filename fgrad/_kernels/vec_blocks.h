/* exp, tanh, the logistic function and logarithms on a block of vectors at once, with AVX2 and fused multiply-add. Each step goes over all vectors of the
 * block: of a chain of instructions that wait for each other a core's scheduler holds but two or three. A block without numbers at the ends of a function's
 * range is scaled by an addition to exponents; one with such numbers goes through the whole function (vecs_..._whole), whose other lanes have the same
 * bits. Part of vec.h; errors are bounded in tests/kernels/ulp.py. */
#ifndef FG_VEC_BLOCKS_H
#define FG_VEC_BLOCKS_H

enum { FG_BLOCK = 4 };
#define FG_EACH(n) _Pragma("GCC unroll 4") for (int j = 0; j < (n); j++)
#define FG_ALL_F64(c) ((vec_f64){0} + (c))

/* a b + c and c - a b, rounded once */
FG_INLINE vec_f32 vec_fma_f32(vec_f32 a, vec_f32 b, vec_f32 c) { return (vec_f32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
FG_INLINE vec_f64 vec_fma_f64(vec_f64 a, vec_f64 b, vec_f64 c) { return (vec_f64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c); }
FG_INLINE vec_f32 vec_less_fma_f32(vec_f32 a, vec_f32 b, vec_f32 c) { return (vec_f32)_mm256_fnmadd_ps((__m256)a, (__m256)b, (__m256)c); }
FG_INLINE vec_f64 vec_less_fma_f64(vec_f64 a, vec_f64 b, vec_f64 c) { return (vec_f64)_mm256_fnmadd_pd((__m256d)a, (__m256d)b, (__m256d)c); }
/* -a b - c */
FG_INLINE vec_f32 vec_neither_f32(vec_f32 a, vec_f32 b, vec_f32 c) { return (vec_f32)_mm256_fnmsub_ps((__m256)a, (__m256)b, (__m256)c); }
FG_INLINE vec_f64 vec_neither_f64(vec_f64 a, vec_f64 b, vec_f64 c) { return (vec_f64)_mm256_fnmsub_pd((__m256d)a, (__m256d)b, (__m256d)c); }
/* x < y ? a : b, and a with the sign of x as well */
FG_INLINE vec_f64 vec_less_f64(vec_f64 x, vec_f64 y, vec_f64 a, vec_f64 b) {
    return (vec_f64)_mm256_blendv_pd((__m256d)b, (__m256d)a, _mm256_cmp_pd((__m256d)x, (__m256d)y, _CMP_LT_OQ));
}
FG_INLINE vec_f64 vec_sign_of_f64(vec_f64 a, vec_f64 x) { return (vec_f64)((fg_lanes_f64)a | ((fg_lanes_f64)x & INT64_MIN)); }

/* 1 if the block has a number beyond `most` in size, or NaN; if it has one that is not positive, normal and
 * finite (whose bits less those of the least normal number are `most` or more, as of negative ones and subnormals). Of float64 by the upper halves' bits. */
FG_INLINE int vecs_beyond_f32(const vec_f32 *x, float most) {
    __m256i m = _mm256_setzero_si256();
    FG_EACH(FG_BLOCK) m = _mm256_max_epi32(m, _mm256_and_si256((__m256i)x[j], _mm256_set1_epi32(INT32_MAX)));
    return _mm256_movemask_ps((__m256)_mm256_cmpgt_epi32(m, (__m256i)_mm256_set1_ps(most))) != 0;
}
FG_INLINE int vecs_beyond_f64(const vec_f64 *x, double most) {
    __m256i m = _mm256_setzero_si256();
    FG_EACH(FG_BLOCK) m = _mm256_max_epi32(m, _mm256_and_si256((__m256i)x[j], _mm256_set1_epi64x(INT64_MAX)));
    return _mm256_movemask_pd((__m256d)_mm256_cmpgt_epi32(m, (__m256i)_mm256_set1_pd(most))) != 0;
}
/* 1 if a number is below `least`, which is negative: negative numbers' bits are the greatest of whole numbers without a sign. */
FG_INLINE int vecs_below_f32(const vec_f32 *x, float least) {
    const __m256i from = _mm256_add_epi32((__m256i)_mm256_set1_ps(least), _mm256_set1_epi32(1));
    __m256i m = _mm256_setzero_si256();
    FG_EACH(FG_BLOCK) m = _mm256_max_epu32(m, (__m256i)x[j]);
    return _mm256_movemask_ps((__m256)_mm256_cmpeq_epi32(m, _mm256_max_epu32(m, from))) != 0;
}
FG_INLINE int vecs_below_f64(const vec_f64 *x, double least) {
    const __m256i from = _mm256_add_epi32((__m256i)_mm256_set1_pd(least), _mm256_set1_epi32(1));
    __m256i m = _mm256_setzero_si256();
    FG_EACH(FG_BLOCK) m = _mm256_max_epu32(m, (__m256i)x[j]);
    return _mm256_movemask_pd((__m256d)_mm256_cmpeq_epi32(m, _mm256_max_epu32(m, from))) != 0;
}
/* 1 if a number is above `most`, which is positive */
FG_INLINE int vecs_above_f32(const vec_f32 *x, float most) {
    __m256i m = (__m256i)x[0];
    FG_EACH(FG_BLOCK) m = _mm256_max_epi32(m, (__m256i)x[j]);
    return _mm256_movemask_ps((__m256)_mm256_cmpgt_epi32(m, (__m256i)_mm256_set1_ps(most))) != 0;
}
FG_INLINE int vecs_above_f64(const vec_f64 *x, double most) {
    __m256i m = (__m256i)x[0];
    FG_EACH(FG_BLOCK) m = _mm256_max_epi32(m, (__m256i)x[j]);
    return _mm256_movemask_pd((__m256d)_mm256_cmpgt_epi32(m, (__m256i)_mm256_set1_pd(most))) != 0;
}
FG_INLINE int vecs_unlogged_f32(const vec_f32 *x, int32_t most) {
    __m256i m = _mm256_setzero_si256();
    FG_EACH(FG_BLOCK) m = _mm256_max_epu32(m, _mm256_sub_epi32((__m256i)x[j], _mm256_set1_epi32(0x800000)));
    return _mm256_movemask_ps((__m256)_mm256_cmpeq_epi32(m, _mm256_max_epu32(m, _mm256_set1_epi32(most)))) != 0;
}
FG_INLINE int vecs_unlogged_f64(const vec_f64 *x, int32_t most) {
    __m256i m = _mm256_setzero_si256();
    FG_EACH(FG_BLOCK) m = _mm256_max_epu32(m, _mm256_sub_epi32((__m256i)x[j], _mm256_set1_epi64x((int64_t)0x100000 << 32)));
    return _mm256_movemask_pd((__m256d)_mm256_cmpeq_epi32(m, _mm256_max_epu32(m, _mm256_set1_epi64x((int64_t)most << 32)))) != 0;
}

/* x, or (turned) -x, is k log 2 + r: r in x, k + magic in t, (e^r - 1 - r) / r^2 in q */
#define FG_MAGIC_F32 12582912.0f
#define FG_MAGIC_F64 6755399441055744.0
FG_INLINE void vecs_exp_begin_f32(const int n, vec_f32 *x, vec_f32 *t, vec_f32 *q, const float magic, const int turned) {
    FG_EACH(n) t[j] = vec_fma_f32(x[j], FG_ALL_F32(turned ? -1.44269504088896341f : 1.44269504088896341f), FG_ALL_F32(magic));
    FG_EACH(n) q[j] = t[j] - magic;
    FG_EACH(n) x[j] = turned ? vec_neither_f32(q[j], FG_ALL_F32(0.693145751953125f), x[j]) : vec_less_fma_f32(q[j], FG_ALL_F32(0.693145751953125f), x[j]);
    FG_EACH(n) x[j] = vec_less_fma_f32(q[j], FG_ALL_F32(1.42860682031e-6f), x[j]);
    FG_EACH(n) q[j] = vec_fma_f32(x[j], FG_ALL_F32(0.0013950508f), FG_ALL_F32(0.008368901f));
    FG_EACH(n) q[j] = vec_fma_f32(x[j], q[j], FG_ALL_F32(0.041666206f));
    FG_EACH(n) q[j] = vec_fma_f32(x[j], q[j], FG_ALL_F32(0.16666518f));
    FG_EACH(n) q[j] = vec_fma_f32(x[j], q[j], FG_ALL_F32(0.5f));
}
FG_INLINE void vecs_expq_f64(const int n, const vec_f64 *r, vec_f64 *q) {
    static const double c[] = {2.5109044893179733e-08, 2.7557242747080409e-07, 2.7557244181877631e-06, 2.4801587360570644e-05, 0.00019841269886158622,
        0.001388888888886683, 0.0083333333333216152, 0.041666666666666699, 0.16666666666666677, 0.5};
    FG_EACH(n) q[j] = vec_fma_f64(r[j], FG_ALL_F64(2.0924447259855354e-09), FG_ALL_F64(c[0]));
    _Pragma("GCC unroll 9") for (int k = 1; k < 10; k++) FG_EACH(n) q[j] = vec_fma_f64(r[j], q[j], FG_ALL_F64(c[k]));
}
FG_INLINE void vecs_exp_begin_f64(const int n, vec_f64 *x, vec_f64 *t, vec_f64 *q, const double magic, const int turned) {
    FG_EACH(n) t[j] = vec_fma_f64(x[j], FG_ALL_F64(turned ? -1.44269504088896340736 : 1.44269504088896340736), FG_ALL_F64(magic));
    FG_EACH(n) q[j] = t[j] - magic;
    FG_EACH(n) x[j] = turned ? vec_neither_f64(q[j], FG_ALL_F64(6.93147180369123816490e-01), x[j])
                             : vec_less_fma_f64(q[j], FG_ALL_F64(6.93147180369123816490e-01), x[j]);
    FG_EACH(n) x[j] = vec_less_fma_f64(q[j], FG_ALL_F64(1.90821492927058770002e-10), x[j]);
    vecs_expq_f64(n, x, q);
}

/* e^x; of a block for |x| <= 87 or 708 */
FG_INLINE void vecs_exp_of_f32(const int n, vec_f32 *x, vec_f32 *t, const float magic) {
    vec_f32 q[FG_BLOCK];
    vecs_exp_begin_f32(n, x, t, q, magic, 0);
    FG_EACH(n) q[j] = vec_fma_f32(x[j], q[j], FG_ALL_F32(1.0f));
    FG_EACH(n) x[j] = vec_fma_f32(x[j], q[j], FG_ALL_F32(1.0f));
}
FG_INLINE void vecs_exp_of_f64(const int n, vec_f64 *x, vec_f64 *t, const double magic) {
    vec_f64 q[FG_BLOCK];
    vecs_exp_begin_f64(n, x, t, q, magic, 0);
    FG_EACH(n) q[j] = vec_fma_f64(x[j] * x[j], q[j], x[j]);
    FG_EACH(n) x[j] = 1.0 + q[j];
}
FG_INLINE int vecs_exp_ends_f32(const vec_f32 *x) { return vecs_beyond_f32(x, 87.0f); }
FG_INLINE int vecs_exp_ends_f64(const vec_f64 *x) { return vecs_beyond_f64(x, 708.0); }
FG_INLINE void vecs_exp_f32(vec_f32 *x) {
    vec_f32 t[FG_BLOCK];
    vecs_exp_of_f32(FG_BLOCK, x, t, FG_MAGIC_F32);
    FG_EACH(FG_BLOCK) x[j] = (vec_f32)((fg_lanes_f32)x[j] + ((fg_lanes_f32)t[j] << 23));
}
FG_INLINE void vecs_exp_f64(vec_f64 *x) {
    vec_f64 t[FG_BLOCK];
    vecs_exp_of_f64(FG_BLOCK, x, t, FG_MAGIC_F64);
    FG_EACH(FG_BLOCK) x[j] = (vec_f64)((fg_lanes_f64)x[j] + ((fg_lanes_f64)t[j] << 52));
}
/* with two factors, as vec_scale_f32 has them; and of a block of any numbers */
FG_INLINE void vecs_exp_whole_f32(const int n, vec_f32 *x) {
    vec_f32 t[FG_BLOCK];
    FG_EACH(n) x[j] = vec_min_f32(FG_ALL_F32(90.0f), vec_max_f32(FG_ALL_F32(-105.0f), x[j]));
    vecs_exp_of_f32(n, x, t, FG_MAGIC_F32 + 254);
    FG_EACH(n) {
        const fg_lanes_f32 half = (fg_lanes_f32)t[j] >> 1;
        x[j] = x[j] * (vec_f32)(half << 23) * (vec_f32)(((fg_lanes_f32)t[j] - half) << 23);
    }
}
FG_INLINE void vecs_exp_whole_f64(const int n, vec_f64 *x) {
    vec_f64 t[FG_BLOCK];
    FG_EACH(n) x[j] = vec_min_f64(FG_ALL_F64(720.0), vec_max_f64(FG_ALL_F64(-760.0), x[j]));
    vecs_exp_of_f64(n, x, t, FG_MAGIC_F64 + 2046);
    FG_EACH(n) {
        const __m256i half = _mm256_srli_epi64((__m256i)t[j], 1);
        x[j] = x[j] * (vec_f64)_mm256_slli_epi64(half, 52) * (vec_f64)_mm256_slli_epi64(_mm256_sub_epi64((__m256i)t[j], half), 52);
    }
}
#define FG_EXP_OF_ANY(t) \
FG_INLINE vec_##t vec_exp_##t(vec_##t x) { vecs_exp_whole_##t(1, &x); return x; } \
static __attribute__((noinline)) void vecs_exp_apart_##t(vec_##t *x) { vecs_exp_whole_##t(FG_BLOCK, x); } \
FG_INLINE void vecs_exp_of_any_##t(vec_##t *x) { \
    if (__builtin_expect(!vecs_exp_ends_##t(x), 1)) { vecs_exp_##t(x); return; } \
    vec_##t y[FG_BLOCK];                                /* a copy: x stays in registers */ \
    FG_EACH(FG_BLOCK) y[j] = x[j]; \
    vecs_exp_apart_##t(y); \
    FG_EACH(FG_BLOCK) x[j] = y[j]; }
FG_EXP_OF_ANY(f32)
FG_EXP_OF_ANY(f64)
#undef FG_EXP_OF_ANY

/* With e^u - 1 = -f for u = -2|x|, tanh |x| is f / (2 - f); 2 - f is rounded apart, so that no error counts twice. */
FG_INLINE void vecs_tanh_whole_f32(const int n, vec_f32 *x) {
    vec_f32 t[FG_BLOCK], q[FG_BLOCK], r[FG_BLOCK];
    FG_EACH(n) r[j] = vec_min_f32(FG_ALL_F32(10.0f), vec_abs_f32(x[j]));
    FG_EACH(n) t[j] = vec_fma_f32(r[j], FG_ALL_F32(-2.88539008177792681f), FG_ALL_F32(FG_MAGIC_F32 + 127));
    FG_EACH(n) q[j] = t[j] - (FG_MAGIC_F32 + 127);
    FG_EACH(n) r[j] = vec_neither_f32(q[j], FG_ALL_F32(0.693147182f), r[j] + r[j]);        /* what the number lacks counts no more than 1e-9 */
    FG_EACH(n) q[j] = vec_fma_f32(r[j], FG_ALL_F32(0.0013724156f), FG_ALL_F32(0.00836626f));
    FG_EACH(n) q[j] = vec_fma_f32(r[j], q[j], FG_ALL_F32(0.041669644f));
    FG_EACH(n) q[j] = vec_fma_f32(r[j], q[j], FG_ALL_F32(0.16666546f));
    FG_EACH(n) q[j] = vec_fma_f32(r[j], q[j], FG_ALL_F32(0.4999999f));
    FG_EACH(n) r[j] = vec_fma_f32(q[j], r[j] * r[j], r[j]);
    FG_EACH(n) t[j] = (vec_f32)((fg_lanes_f32)t[j] << 23);
    FG_EACH(n) q[j] = vec_fma_f32(t[j], r[j], t[j] + 1.0f);
    FG_EACH(n) r[j] = vec_less_fma_f32(t[j], r[j], 1.0f - t[j]);
    FG_EACH(n) r[j] = r[j] / q[j];
    FG_EACH(n) x[j] = (vec_f32)((fg_lanes_f32)r[j] | ((fg_lanes_f32)x[j] & INT32_MIN));
}
FG_INLINE void vecs_tanh_whole_f64(const int n, vec_f64 *x) {
    vec_f64 t[FG_BLOCK], q[FG_BLOCK], r[FG_BLOCK], h[FG_BLOCK];
    FG_EACH(n) h[j] = vec_min_f64(FG_ALL_F64(20.0), vec_abs_f64(x[j]));
    FG_EACH(n) t[j] = vec_fma_f64(h[j], FG_ALL_F64(-2 * 1.44269504088896340736), FG_ALL_F64(FG_MAGIC_F64 + 1023));
    FG_EACH(n) q[j] = t[j] - (FG_MAGIC_F64 + 1023);
    FG_EACH(n) h[j] = vec_neither_f64(q[j], FG_ALL_F64(6.93147180369123816490e-01), h[j] + h[j]);
    FG_EACH(n) r[j] = vec_less_fma_f64(q[j], FG_ALL_F64(1.90821492927058770002e-10), h[j]);
    FG_EACH(n) h[j] = vec_less_fma_f64(q[j], FG_ALL_F64(1.90821492927058770002e-10), h[j] - r[j]);        /* what r lacks */
    vecs_expq_f64(n, r, q);
    FG_EACH(n) r[j] = vec_fma_f64(q[j], r[j] * r[j], h[j]) + r[j];
    FG_EACH(n) t[j] = (vec_f64)((fg_lanes_f64)t[j] << 52);
    FG_EACH(n) q[j] = vec_fma_f64(t[j], r[j], t[j] + 1.0);
    FG_EACH(n) r[j] = vec_less_fma_f64(t[j], r[j], 1.0 - t[j]);
    FG_EACH(n) r[j] = r[j] / q[j];
    FG_EACH(n) x[j] = vec_sign_of_f64(r[j], x[j]);
}
FG_INLINE int vecs_tanh_ends_f32(const vec_f32 *x) { (void)x; return 0; }
FG_INLINE int vecs_tanh_ends_f64(const vec_f64 *x) { (void)x; return 0; }
FG_INLINE void vecs_tanh_f32(vec_f32 *x) { vecs_tanh_whole_f32(FG_BLOCK, x); }
FG_INLINE void vecs_tanh_f64(vec_f64 *x) { vecs_tanh_whole_f64(FG_BLOCK, x); }

/* 1 / (1 + e^-x) for x >= -87 or -708: s (e^r - 1) + 1 is rounded and then s added, which keeps the 1 where s is large. */
FG_INLINE void vecs_logistic_of_f32(const int n, vec_f32 *x) {
    vec_f32 t[FG_BLOCK], q[FG_BLOCK];
    FG_EACH(n) x[j] = vec_min_f32(FG_ALL_F32(87.0f), x[j]);
    vecs_exp_begin_f32(n, x, t, q, FG_MAGIC_F32 + 127, 1);
    FG_EACH(n) x[j] = vec_fma_f32(q[j], x[j] * x[j], x[j]);
    FG_EACH(n) t[j] = (vec_f32)((fg_lanes_f32)t[j] << 23);
    FG_EACH(n) q[j] = vec_fma_f32(t[j], x[j], FG_ALL_F32(1.0f)) + t[j];
    FG_EACH(n) x[j] = 1.0f / q[j];
}
FG_INLINE void vecs_logistic_of_f64(const int n, vec_f64 *x) {
    vec_f64 t[FG_BLOCK], q[FG_BLOCK];
    FG_EACH(n) x[j] = vec_min_f64(FG_ALL_F64(708.0), x[j]);
    vecs_exp_begin_f64(n, x, t, q, FG_MAGIC_F64 + 1023, 1);
    FG_EACH(n) x[j] = vec_fma_f64(q[j], x[j] * x[j], x[j]);
    FG_EACH(n) t[j] = (vec_f64)((fg_lanes_f64)t[j] << 52);
    FG_EACH(n) q[j] = vec_fma_f64(t[j], x[j], FG_ALL_F64(1.0)) + t[j];
    FG_EACH(n) x[j] = 1.0 / q[j];
}
FG_INLINE int vecs_logistic_ends_f32(const vec_f32 *x) { return vecs_below_f32(x, -87.0f); }
FG_INLINE int vecs_logistic_ends_f64(const vec_f64 *x) { return vecs_below_f64(x, -708.0); }
FG_INLINE void vecs_logistic_f32(vec_f32 *x) { vecs_logistic_of_f32(FG_BLOCK, x); }
FG_INLINE void vecs_logistic_f64(vec_f64 *x) { vecs_logistic_of_f64(FG_BLOCK, x); }
#define FG_LOGISTIC_WHOLE(t, LEAST) \
FG_INLINE void vecs_logistic_whole_##t(const int n, vec_##t *x) { \
    const vec_##t least = (vec_##t){0} + LEAST; \
    vec_##t e[FG_BLOCK], low[FG_BLOCK]; \
    FG_EACH(n) { low[j] = (vec_##t)(x[j] < least); e[j] = x[j]; x[j] = vec_max_##t(least, x[j]); } \
    vecs_logistic_of_##t(n, x); \
    vecs_exp_whole_##t(n, e); \
    FG_EACH(n) x[j] = (vec_##t)(((fg_lanes_##t)e[j] & (fg_lanes_##t)low[j]) | ((fg_lanes_##t)x[j] & ~(fg_lanes_##t)low[j])); }
FG_LOGISTIC_WHOLE(f32, -87.0f)
FG_LOGISTIC_WHOLE(f64, -708.0)
#undef FG_LOGISTIC_WHOLE

/* log of positive normal numbers 2^k (1 + f), with 1 + f in [sqrt(1/2), sqrt(2)): a polynomial by its even and odd parts. `low` is what f lacks, and
 * counts in first order; rest: 1 if there is such. */
#define FG_SQRT_HALF ((fg_lanes_f32){0} + 0x3f3504f3)
#define FG_EXPONENT ((fg_lanes_f32){0} + -0x800000)
FG_INLINE void vecs_log_end_f32(const int n, vec_f32 *k, const vec_f32 *f, const vec_f32 *low, const int rest) {
    vec_f32 z[FG_BLOCK], p[FG_BLOCK], q[FG_BLOCK];
    FG_EACH(n) z[j] = f[j] * f[j];
    FG_EACH(n) p[j] = vec_fma_f32(z[j], FG_ALL_F32(0.0691553056f), FG_ALL_F32(0.118729264f));
    FG_EACH(n) q[j] = vec_fma_f32(z[j], FG_ALL_F32(-0.117898561f), FG_ALL_F32(-0.123843372f));
    FG_EACH(n) p[j] = vec_fma_f32(z[j], p[j], FG_ALL_F32(0.142186642f));
    FG_EACH(n) q[j] = vec_fma_f32(z[j], q[j], FG_ALL_F32(-0.16669251f));
    FG_EACH(n) p[j] = vec_fma_f32(z[j], p[j], FG_ALL_F32(0.200022265f));
    FG_EACH(n) q[j] = vec_fma_f32(z[j], q[j], FG_ALL_F32(-0.249999866f));
    FG_EACH(n) p[j] = vec_fma_f32(z[j], p[j], FG_ALL_F32(0.333333105f));
    FG_EACH(n) q[j] = vec_fma_f32(z[j], q[j], FG_ALL_F32(-0.5f));
    FG_EACH(n) p[j] = vec_fma_f32(f[j], p[j], q[j]);
    FG_EACH(n) q[j] = rest ? vec_fma_f32(k[j], FG_ALL_F32(-2.12194440e-4f), low[j]) : k[j] * -2.12194440e-4f;
    FG_EACH(n) p[j] = vec_fma_f32(z[j], p[j], q[j]) + f[j];
    FG_EACH(n) k[j] = vec_fma_f32(k[j], FG_ALL_F32(0.693359375f), p[j]);
}
/* less: what k is too large by, of numbers that have been scaled; NULL: nothing */
FG_INLINE void vecs_log_of_f32(const int n, vec_f32 *x, const vec_f32 *less) {
    vec_f32 f[FG_BLOCK];
    FG_EACH(n) {
        const fg_lanes_f32 t = (fg_lanes_f32)x[j] - FG_SQRT_HALF;
        f[j] = (vec_f32)((fg_lanes_f32)x[j] - (t & FG_EXPONENT)) - 1.0f;
        x[j] = __builtin_convertvector(t >> 23, vec_f32);
        if (less) x[j] -= less[j];
    }
    vecs_log_end_f32(n, x, f, f, 0);
}
/* log(1 + x + low): the logarithm of u = 1 + x = 2^k m, and c = 1 + x - u, which is exact below 2^24 and beyond makes no difference. low: NULL for 0,
 * where u is less than 2^126. */
FG_INLINE void vecs_log1p_of_f32(const int n, vec_f32 *x, const vec_f32 *low) {
    vec_f32 k[FG_BLOCK], f[FG_BLOCK], lost[FG_BLOCK];
    FG_EACH(n) {
        const vec_f32 u = 1.0f + x[j];
        const fg_lanes_f32 t = (fg_lanes_f32)u - FG_SQRT_HALF, e = t & FG_EXPONENT;
        vec_f32 c = x[j] - (u - 1.0f), unit = (vec_f32)(0x3f800000 - e);
        if (low) { c += low[j]; unit = vec_max_f32(unit, FG_ALL_F32(0.0f)); }              /* 2^-k, or 0 where that is no normal number */
        c *= unit;
        f[j] = (vec_f32)((fg_lanes_f32)u - e) - 1.0f;
        lost[j] = f[j];
        f[j] += c;
        lost[j] = (lost[j] - f[j]) + c;
        k[j] = __builtin_convertvector(t >> 23, vec_f32);
    }
    vecs_log_end_f32(n, k, f, lost, 1);
    FG_EACH(n) x[j] = (vec_f32)((fg_lanes_f32)k[j] | ((fg_lanes_f32)x[j] & INT32_MIN));
}
FG_INLINE int vecs_log_ends_f32(const vec_f32 *x) { return vecs_unlogged_f32(x, 0x7f000000); }
FG_INLINE int vecs_log1p_ends_f32(const vec_f32 *x) {
    vec_f32 u[FG_BLOCK];
    FG_EACH(FG_BLOCK) u[j] = 1.0f + x[j];
    return vecs_unlogged_f32(u, 0x7e000000);
}
FG_INLINE void vecs_log_f32(vec_f32 *x) { vecs_log_of_f32(FG_BLOCK, x, 0); }
FG_INLINE void vecs_log1p_f32(vec_f32 *x) { for (int i = 0; i < FG_BLOCK; i += 2) vecs_log1p_of_f32(2, x + i, 0); }      /* of four, registers hold too little */

/* of float64, by the method of fg_log_f64: log(1 + f) + k log 2 in f; rest: `low` is what f lacks */
#define FG_BELOW_ONE_F64 (0x3ff0000000000000 - 0x3fe6a09e667f3bcd)       /* of bits: 1 less sqrt(1/2) */
FG_INLINE vec_f64 vec_log_split_f64(vec_f64 x, vec_f64 *k) {             /* f */
    const __m256i t = _mm256_add_epi64((__m256i)x, _mm256_set1_epi64x(FG_BELOW_ONE_F64));
    *k = (vec_f64)_mm256_or_si256(_mm256_srli_epi64(t, 52), _mm256_set1_epi64x(0x4330000000000000)) - (4503599627370496.0 + 1023.0);
    const __m256i m = _mm256_and_si256(t, _mm256_set1_epi64x(0x000fffffffffffff));
    return (vec_f64)_mm256_add_epi64(m, _mm256_set1_epi64x(0x3fe6a09e667f3bcd)) - 1.0;
}
FG_INLINE void vecs_log_end_f64(const int n, const vec_f64 *k, vec_f64 *f, const vec_f64 *low, const int rest) {
    static const double c[] = {0.15314021247266493, 0.18183565402410531, 0.22222198553875094, 0.28571428742561306, 0.39999999999413965, 0.6666666666666734};
    vec_f64 s[FG_BLOCK], h[FG_BLOCK], p[FG_BLOCK], z[FG_BLOCK];
    FG_EACH(n) s[j] = f[j] / (2.0 + f[j]);
    FG_EACH(n) h[j] = 0.5 * f[j] * f[j];
    FG_EACH(n) z[j] = s[j] * s[j];
    FG_EACH(n) p[j] = vec_fma_f64(z[j], FG_ALL_F64(0.14796259832450306), FG_ALL_F64(c[0]));
    _Pragma("GCC unroll 5") for (int i = 1; i < 6; i++) FG_EACH(n) p[j] = vec_fma_f64(z[j], p[j], FG_ALL_F64(c[i]));
    FG_EACH(n) p[j] = vec_fma_f64(z[j], p[j], h[j]);
    FG_EACH(n) p[j] = vec_less_fma_f64(s[j], p[j], h[j]);                                   /* f - log(1 + f) */
    FG_EACH(n) if (rest) p[j] = p[j] - low[j];
    FG_EACH(n) p[j] = f[j] - vec_less_fma_f64(k[j], FG_ALL_F64(1.90821492927058770002e-10), p[j]);
    FG_EACH(n) f[j] = vec_fma_f64(k[j], FG_ALL_F64(6.93147180369123816490e-01), p[j]);
}
FG_INLINE void vecs_log_of_f64(const int n, vec_f64 *x, const vec_f64 *less) {
    vec_f64 k[FG_BLOCK];
    FG_EACH(n) { x[j] = vec_log_split_f64(x[j], &k[j]); if (less) k[j] -= less[j]; }
    vecs_log_end_f64(n, k, x, x, 0);
}
/* log(1 + x): as of float32; any: u may be beyond 2^1022 */
FG_INLINE void vecs_log1p_of_f64(const int n, vec_f64 *x, const int any) {
    vec_f64 k[FG_BLOCK], f[FG_BLOCK], lost[FG_BLOCK];
    FG_EACH(n) {
        const vec_f64 u = 1.0 + x[j], f0 = vec_log_split_f64(u, &k[j]);
        const __m256i e = _mm256_and_si256(_mm256_add_epi64((__m256i)u, _mm256_set1_epi64x(FG_BELOW_ONE_F64)), _mm256_set1_epi64x(0x7ff0000000000000));
        vec_f64 unit = (vec_f64)_mm256_sub_epi64(_mm256_set1_epi64x((int64_t)2046 << 52), e);
        if (any) unit = vec_max_f64(unit, FG_ALL_F64(0.0));
        const vec_f64 c = (x[j] - (u - 1.0)) * unit;
        f[j] = f0 + c;
        lost[j] = (f0 - f[j]) + c;
    }
    vecs_log_end_f64(n, k, f, lost, 1);
    FG_EACH(n) {
        const vec_f64 y = vec_less_f64(vec_abs_f64(x[j]), FG_ALL_F64(1e-16), x[j], f[j]);
        x[j] = y;
    }
}
FG_INLINE int vecs_log1p_ends_f64(const vec_f64 *x) {
    vec_f64 u[FG_BLOCK];
    FG_EACH(FG_BLOCK) u[j] = 1.0 + x[j];
    return vecs_unlogged_f64(u, 0x7fd00000);
}
FG_INLINE void vecs_log1p_f64(vec_f64 *x) { for (int i = 0; i < FG_BLOCK; i += 2) vecs_log1p_of_f64(2, x + i, 0); }
FG_INLINE int vecs_log_ends_f64(const vec_f64 *x) { return vecs_unlogged_f64(x, 0x7fe00000); }
FG_INLINE void vecs_log_f64(vec_f64 *x) { vecs_log_of_f64(FG_BLOCK, x, 0); }
/* y = log x where x is positive and finite; the logarithms of all other x */
FG_INLINE vec_f64 vec_log_edges_f64(vec_f64 x, vec_f64 y) {
    const vec_f64 zero = {0}, infinite = zero + INFINITY, low = vec_less_f64(x, zero, zero + NAN, -infinite);
    return vec_less_f64(zero, x, vec_less_f64(x, infinite, y, x), vec_less_f64(x, zero + 1.0, low, x));
}
FG_INLINE void vecs_log_whole_f64(const int n, vec_f64 *x) {
    const vec_f64 least = FG_ALL_F64(2.2250738585072014e-308);
    vec_f64 y[FG_BLOCK], less[FG_BLOCK];
    FG_EACH(n) y[j] = vec_less_f64(x[j], least, x[j] * 18014398509481984.0, x[j]);          /* subnormals times 2^54 */
    FG_EACH(n) less[j] = vec_less_f64(x[j], least, FG_ALL_F64(54.0), FG_ALL_F64(0.0));
    vecs_log_of_f64(n, y, less);
    FG_EACH(n) x[j] = vec_log_edges_f64(x[j], y[j]);
}
FG_INLINE void vecs_log1p_whole_f64(const int n, vec_f64 *x) {
    vec_f64 y[FG_BLOCK];
    FG_EACH(n) y[j] = x[j];
    vecs_log1p_of_f64(n, y, 1);
    FG_EACH(n) x[j] = vec_sign_of_f64(vec_log_edges_f64(1.0 + x[j], y[j]), x[j]);
}
#endif
