/* erf, its complement and the normal distribution function of float32 on a block of vectors at once, with AVX2 and fused multiply-add: the methods of
 * scalar_f32.h and vec_special.h, whose steps go over all vectors of the block as in vec_blocks.h. */
#ifndef FG_VEC_ERF_BLOCKS_H
#define FG_VEC_ERF_BLOCKS_H
#include "vec.h"
#include "vec_special.h"

#define FG_STEP(n, q, r, c) FG_EACH(n) q[j] = vec_fma_f32(r[j], q[j], FG_ALL_F32(c))
/* x (1 + a polynomial of x^2) below 1, and NaN; 1 - 2^-p(x) from there on, where an ulp of the power counts for a sixth and less */
FG_INLINE void vecs_erf_whole_f32(const int n, vec_f32 *x) {
    vec_f32 a[FG_BLOCK], p[FG_BLOCK], q[FG_BLOCK], t[FG_BLOCK];
    FG_EACH(n) a[j] = vec_min_f32(FG_ALL_F32(4.0f), vec_abs_f32(x[j]));                 /* NaN passes */
    FG_EACH(n) p[j] = vec_fma_f32(a[j], FG_ALL_F32(-0.000267724856f), FG_ALL_F32(0.0042409529f));
    FG_STEP(n, p, a, -0.0314584412f);
    FG_STEP(n, p, a, 0.14865157f);
    FG_STEP(n, p, a, 0.920764923f);
    FG_STEP(n, p, a, 1.62597513f);
    FG_STEP(n, p, a, 0.000510294107f);
    FG_EACH(n) t[j] = FG_MAGIC_F32 - p[j];
    FG_EACH(n) p[j] = (FG_MAGIC_F32 - t[j]) - p[j];
    FG_EACH(n) q[j] = vec_fma_f32(p[j], FG_ALL_F32(0.00132696179f), FG_ALL_F32(0.0096714953f));
    FG_STEP(n, q, p, 0.055507116f);
    FG_STEP(n, q, p, 0.240222439f);
    FG_STEP(n, q, p, 0.693147004f);
    FG_STEP(n, q, p, 1.0f);
    FG_EACH(n) t[j] = 1.0f - (vec_f32)((fg_lanes_f32)q[j] + ((fg_lanes_f32)t[j] << 23));
    FG_EACH(n) p[j] = x[j] * x[j];
    FG_EACH(n) q[j] = vec_fma_f32(p[j], FG_ALL_F32(7.88912512e-05f), FG_ALL_F32(-0.00080208428f));
    FG_STEP(n, q, p, 0.00518953567f);
    FG_STEP(n, q, p, -0.0268544443f);
    FG_STEP(n, q, p, 0.112836003f);
    FG_STEP(n, q, p, -0.37612626f);
    FG_STEP(n, q, p, 0.128379107f);
    FG_EACH(n) q[j] = vec_fma_f32(q[j], x[j], x[j]);
    FG_EACH(n) x[j] = vec_less_f32(FG_ALL_F32(0.99999994f), a[j], vec_sign_of_f32(t[j], x[j]), q[j]);
}
FG_INLINE int vecs_erf_ends_f32(const vec_f32 *x) { (void)x; return 0; }
FG_INLINE void vecs_erf_f32(vec_f32 *x) { vecs_erf_whole_f32(FG_BLOCK, x); }

/* e^-(h + l) R((u + ul) / 2) for h in [0, 105] and 0 <= u, with R(a) = e^(a^2) erfc(a) = P((a - 3) / (a + 3)) / (1 + 2a), in y but for a factor 2^k; k +
 * magic in t, and e^-(h + l) 2^-k in h. All roundings but those of the last polynomial's steps, and the last, are made up for by remainders. ul: NULL for 0 */
FG_INLINE void vecs_erfc_tail_f32(const int n, const vec_f32 *u, const vec_f32 *ul, vec_f32 *h, const vec_f32 *l, vec_f32 *t, vec_f32 *y, const float magic) {
    const vec_f32 one = FG_ALL_F32(1.0f);
    vec_f32 e[FG_BLOCK], el[FG_BLOCK], q[FG_BLOCK], p[FG_BLOCK], z[FG_BLOCK], d[FG_BLOCK], r[FG_BLOCK];
    FG_EACH(n) t[j] = vec_fma_f32(h[j], FG_ALL_F32(-1.44269504088896341f), FG_ALL_F32(magic));
    FG_EACH(n) q[j] = t[j] - magic;
    FG_EACH(n) r[j] = vec_neither_f32(q[j], FG_ALL_F32(0.693145751953125f), h[j]);
    FG_EACH(n) r[j] = vec_less_fma_f32(q[j], FG_ALL_F32(1.42860682031e-6f), r[j]) - l[j];
    FG_EACH(n) q[j] = vec_fma_f32(r[j], FG_ALL_F32(0.00137514086f), FG_ALL_F32(0.00836892147f));
    FG_STEP(n, q, r, 0.0416695327f);
    FG_STEP(n, q, r, 0.166665182f);
    FG_STEP(n, q, r, 0.499999881f);
    FG_EACH(n) e[j] = 1.0f + r[j];
    FG_EACH(n) el[j] = vec_fma_f32(r[j] * r[j], q[j], (1.0f - e[j]) + r[j]);
    FG_EACH(n) h[j] = e[j] + el[j];

    FG_EACH(n) {
        const vec_f32 w = u[j] + 6.0f, top = u[j] * 2.0f;
        d[j] = 1.0f + u[j];
        const vec_f32 inverse = 1.0f / (d[j] * w);
        r[j] = inverse * w;                             /* 1 / d */
        z[j] = top * (inverse * d[j]);                  /* t + 1 */
    }
    /* P in odd and even powers of t */
    FG_EACH(n) {
        const vec_f32 v = z[j], w = v - 1.0f;
        z[j] = w; y[j] = v - (w + 1.0f);                /* what t lacks, where P has a slope of about 1 */
    }
    FG_EACH(n) p[j] = z[j] * z[j];
    FG_EACH(n) q[j] = vec_fma_f32(p[j], FG_ALL_F32(-9.25446875e-05f), FG_ALL_F32(0.00187507807f));
    FG_STEP(n, q, p, -0.0237635765f);
    FG_STEP(n, q, p, -0.119275272f);
    FG_STEP(n, q, p, -0.0475621596f);
    FG_EACH(n) y[j] = vec_fma_f32(q[j], p[j], y[j] + 4.86242928e-08f);                    /* what 1.25300801f lacks */
    FG_EACH(n) q[j] = vec_fma_f32(p[j], FG_ALL_F32(7.73089123e-05f), FG_ALL_F32(-0.000726450351f));
    FG_STEP(n, q, p, 0.00249911379f);
    FG_STEP(n, q, p, 0.0683165714f);
    FG_STEP(n, q, p, 0.129644111f);
    FG_STEP(n, q, p, -0.135621071f);
    FG_EACH(n) q[j] = vec_fma_f32(q[j], z[j], y[j]);
    FG_EACH(n) p[j] = 1.25300801f + q[j];
    FG_EACH(n) q[j] = (1.25300801f - p[j]) + q[j];

    FG_EACH(n) z[j] = e[j] * p[j];
    FG_EACH(n) q[j] = vec_fma_f32(e[j], q[j], vec_fma_f32(el[j], p[j], vec_product_rest_f32(e[j], p[j], z[j])));
    FG_EACH(n) y[j] = z[j] * r[j];
    FG_EACH(n) q[j] -= vec_product_rest_f32(y[j], d[j], z[j]);
    FG_EACH(n) {
        const vec_f32 top = vec_max_f32(one, u[j]), dl = ((top - d[j]) + vec_min_f32(one, u[j])) + (ul ? ul[j] : (vec_f32){0});
        q[j] = vec_less_fma_f32(y[j], dl, q[j]);
    }
    FG_EACH(n) y[j] = vec_fma_f32(q[j], r[j], y[j]);
}
/* Numbers times 2^k, where that is normal; and in two factors, where t has twice the exponents' bias more */
FG_INLINE vec_f32 fg_scaled_f32(vec_f32 x, vec_f32 t) { return (vec_f32)((fg_lanes_f32)x + ((fg_lanes_f32)t << 23)); }
FG_INLINE vec_f32 fg_scaled_whole_f32(vec_f32 x, vec_f32 t) {
    const fg_lanes_f32 half = (fg_lanes_f32)t >> 1;
    return x * (vec_f32)(half << 23) * (vec_f32)(((fg_lanes_f32)t - half) << 23);
}
/* A block beyond MOST in size has results, or powers, that may not be normal. */
#define FG_NORMAL_BLOCKS(name, MOST) \
FG_INLINE int vecs_##name##_ends_f32(const vec_f32 *x) { return vecs_beyond_f32(x, MOST); } \
FG_INLINE void vecs_##name##_whole_f32(const int n, vec_f32 *x) { vecs_##name##_of_f32(n, x, 254, fg_scaled_whole_f32); } \
FG_INLINE void vecs_##name##_f32(vec_f32 *x) { vecs_##name##_of_f32(FG_BLOCK, x, 0, fg_scaled_f32); }
typedef vec_f32 FgScaled_f32(vec_f32, vec_f32);
FG_INLINE void vecs_erfc_of_f32(const int n, vec_f32 *x, const float bias, FgScaled_f32 scaled) {
    vec_f32 u[FG_BLOCK], h[FG_BLOCK], l[FG_BLOCK], t[FG_BLOCK], y[FG_BLOCK];
    FG_EACH(n) {
        const vec_f32 a = vec_min_f32(FG_ALL_F32(10.2f), vec_abs_f32(x[j]));
        h[j] = a * a; l[j] = vec_product_rest_f32(a, a, h[j]); u[j] = 2.0f * a;
    }
    vecs_erfc_tail_f32(n, u, 0, h, l, t, y, FG_MAGIC_F32 + bias);
    FG_EACH(n) { const vec_f32 w = scaled(y[j], t[j]); x[j] = vec_less_f32(x[j], FG_ALL_F32(0.0f), 2.0f - w, w); }
}
FG_NORMAL_BLOCKS(erfc, 9.0f)
/* erfc(-x / sqrt(2)) / 2, whose half is one less in k; slope: with x times the density added. */
FG_INLINE void vecs_normal_of_f32(const int n, vec_f32 *x, const float bias, FgScaled_f32 scaled, const int slope) {
    vec_f32 u[FG_BLOCK], ul[FG_BLOCK], h[FG_BLOCK], l[FG_BLOCK], t[FG_BLOCK], y[FG_BLOCK];
    FG_EACH(n) {
        const vec_f32 a = vec_min_f32(FG_ALL_F32(14.4f), vec_abs_f32(x[j])), square = a * a;
        l[j] = 0.5f * vec_product_rest_f32(a, a, square); h[j] = 0.5f * square; u[j] = vec_root_2_times_f32(a, &ul[j]);
    }
    vecs_erfc_tail_f32(n, u, ul, h, l, t, y, FG_MAGIC_F32 - 1 + bias);
    FG_EACH(n) {
        vec_f32 w = scaled(y[j], t[j]);
        w = vec_less_f32(FG_ALL_F32(0.0f), x[j], 1.0f - w, w);
        x[j] = slope ? vec_fma_f32(vec_within_30_f32(x[j]) * 0.797884560802865356f, scaled(h[j], t[j]), w) : w;
    }
}
#define vecs_ndtr_of_f32(n, x, bias, scaled) vecs_normal_of_f32(n, x, bias, scaled, 0)
#define vecs_gelu_exact_slope_of_f32(n, x, bias, scaled) vecs_normal_of_f32(n, x, bias, scaled, 1)
FG_NORMAL_BLOCKS(ndtr, 12.5f)
FG_NORMAL_BLOCKS(gelu_exact_slope, 12.5f)
#undef FG_NORMAL_BLOCKS
#undef FG_STEP

/* logit of numbers in (1e-30, 1): as vec_logit_f32, which serves for all others but 0 and 1 */
FG_INLINE int vecs_logit_beyond_f32(const int n, const vec_f32 *x) {
    const __m256i least = (__m256i)_mm256_set1_ps(1e-30f), range = _mm256_sub_epi32((__m256i)_mm256_set1_ps(1.0f), least);
    __m256i m = _mm256_setzero_si256();
    FG_EACH(n) m = _mm256_max_epu32(m, _mm256_sub_epi32((__m256i)x[j], least));
    return _mm256_movemask_ps((__m256)_mm256_cmpeq_epi32(m, _mm256_max_epu32(m, range))) != 0;
}
FG_INLINE int vecs_logit_ends_f32(const vec_f32 *x) { return vecs_logit_beyond_f32(FG_BLOCK, x); }
FG_INLINE void vecs_logit_of_f32(const int n, vec_f32 *x) {
    vec_f32 q[FG_BLOCK], low[FG_BLOCK];
    FG_EACH(n) {
        const vec_f32 size = vec_abs_f32(1.0f - 2.0f * x[j]), side = vec_min_f32(x[j], 1.0f - x[j]), inverse = 1.0f / side;
        q[j] = size * inverse;
        low[j] = -vec_product_rest_f32(q[j], side, size) * inverse;
    }
    if (n == 1) vecs_log1p_of_f32(1, q, low);
    else for (int i = 0; i < n; i += 2) vecs_log1p_of_f32(2, q + i, low + i);
    FG_EACH(n) x[j] = vec_less_f32(x[j], FG_ALL_F32(0.5f), -q[j], q[j]);
}
FG_INLINE void vecs_logit_f32(vec_f32 *x) { vecs_logit_of_f32(FG_BLOCK, x); }
/* 0 and 1, of which blocks may have some, stand aside as 1/2. */
FG_INLINE void vecs_logit_whole_f32(const int n, vec_f32 *x) {
    const __m256i one = (__m256i)_mm256_set1_ps(1.0f), none = _mm256_setzero_si256();
    vec_f32 in[FG_BLOCK];
    FG_EACH(n) {
        const __m256i end = _mm256_or_si256(_mm256_cmpeq_epi32((__m256i)x[j], none), _mm256_cmpeq_epi32((__m256i)x[j], one));
        in[j] = (vec_f32)_mm256_blendv_ps((__m256)x[j], _mm256_set1_ps(0.5f), (__m256)end);
    }
    if (vecs_logit_beyond_f32(n, in)) { FG_EACH(n) x[j] = vec_logit_f32(x[j]); return; }
    vecs_logit_of_f32(n, in);
    FG_EACH(n) {
        const vec_f32 high = vec_less_f32(x[j], FG_ALL_F32(1.0f), in[j], FG_ALL_F32(INFINITY));
        x[j] = vec_less_f32(FG_ALL_F32(0.0f), x[j], high, FG_ALL_F32(-INFINITY));
    }
}
#endif
