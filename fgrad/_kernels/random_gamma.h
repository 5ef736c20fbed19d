/* The accepted proposals of Marsaglia and Tsang's gamma sampler, each lane from a key of its own.  A block of lanes is drawn at
 * once in loops that the compiler vectorises; those rejected (few) are moved together and drawn again. */
#ifndef FG_RANDOM_GAMMA_H
#define FG_RANDOM_GAMMA_H
#include "random.h"
#include "scalar_sample.h"

#define GAMMA_LANES 256

typedef struct {
    const FgTensor *key;
    const void *d;
    void *out;
    int64_t size;
} GammaPlan;

FG_INLINE float random_unit_f32(uint32_t a, uint32_t b) { return fg_float((a ^ b) >> 9 | 0x3f800000u) - 1; }
FG_INLINE double random_unit_f64(uint32_t a, uint32_t b) {
    return fg_double(((uint64_t)a << 32 | b) >> 12 | 0x3ff0000000000000u) - 1;
}

/* normal: x = sqrt(2) erf_inv(u), u uniform from the float above -1 to 1.  A unit is a block of lanes. */
#define GAMMA_SAMPLER(t, T, LOWEST, F) \
typedef struct { uint32_t k1[GAMMA_LANES], k2[GAMMA_LANES]; T x[GAMMA_LANES], v[GAMMA_LANES], c[GAMMA_LANES]; int at[GAMMA_LANES]; } \
    GammaTries_##t; \
\
/* the first x of each lane's key with 1 + x c > 0, into x and v by number */ \
static void gamma_cubed_##t(GammaTries_##t *g, int n, T *x, T *v) { \
    while (n > 0) { \
        _Pragma("omp simd") \
        for (int i = 0; i < n; i++) { \
            uint32_t s1, s2, a, b, k1 = g->k1[i], k2 = g->k2[i]; \
            random_hash(k1, k2, 0, 0, &g->k1[i], &g->k2[i]); \
            random_hash(k1, k2, 0, 1, &s1, &s2); \
            random_hash(s1, s2, 0, 0, &a, &b); \
            T u = fg_fma_##t(random_unit_##t(a, b), 1 - (T)LOWEST, (T)LOWEST); \
            g->x[i] = u > (T)LOWEST ? u : (T)LOWEST; \
        } \
        GAMMA_LOOP_##t for (int i = 0; i < n; i++) { \
            g->x[i] = (T)1.4142135623730951 * fg_sample_erf_inv_##t(g->x[i]); \
            g->v[i] = 1 + g->x[i] * g->c[i]; \
        } \
        int left = 0; \
        for (int i = 0; i < n; i++) { \
            x[g->at[i]] = g->x[i]; \
            v[g->at[i]] = g->v[i]; \
            g->k1[left] = g->k1[i]; \
            g->k2[left] = g->k2[i]; \
            g->c[left] = g->c[i]; \
            g->at[left] = g->at[i]; \
            left += g->v[i] <= 0; \
        } \
        n = left; \
    } \
} \
\
static void gamma_block_##t(const uint32_t *keys, const T *source, T *out, int n) { \
    GammaTries_##t g; \
    uint32_t k1[GAMMA_LANES], k2[GAMMA_LANES]; \
    T d[GAMMA_LANES], x[GAMMA_LANES], v[GAMMA_LANES], u[GAMMA_LANES]; \
    int at[GAMMA_LANES], again[GAMMA_LANES], left = 0; \
    for (int i = 0; i < n; i++) {                        /* a nan or infinite d accepts at once */ \
        out[i] = 1; \
        k1[left] = keys[2 * i]; \
        k2[left] = keys[2 * i + 1]; \
        d[left] = source[i]; \
        at[left] = i; \
        left += fabs##F(source[i]) < INFINITY; \
    } \
    while (left > 0) { \
        n = left; \
        _Pragma("omp simd") \
        for (int i = 0; i < n; i++) { \
            uint32_t s1, s2, a, b, w1 = k1[i], w2 = k2[i]; \
            random_hash(w1, w2, 0, 0, &k1[i], &k2[i]); \
            random_hash(w1, w2, 0, 1, &g.k1[i], &g.k2[i]); \
            random_hash(w1, w2, 0, 2, &s1, &s2); \
            random_hash(s1, s2, 0, 0, &a, &b); \
            u[i] = random_unit_##t(a, b); \
            g.c[i] = (T)(1.0 / 3) / sqrt##F(d[i]); \
            g.at[i] = i; \
        } \
        gamma_cubed_##t(&g, n, x, v); \
        GAMMA_LOOP_##t for (int i = 0; i < n; i++) { \
            T x2 = x[i] * x[i], v3 = v[i] * v[i] * v[i], bound = x2 * (T)0.5 + d[i] * (1 - v3 + fg_sample_log_##t(v3)); \
            again[i] = (u[i] >= 1 - (T)0.0331 * (x2 * x2)) & (fg_sample_log_##t(u[i]) >= bound); \
            v[i] = v3; \
        } \
        left = 0; \
        for (int i = 0; i < n; i++) { \
            out[at[i]] = v[i]; \
            k1[left] = k1[i]; \
            k2[left] = k2[i]; \
            d[left] = d[i]; \
            at[left] = at[i]; \
            left += again[i]; \
        } \
    } \
} \
\
static void random_gamma_##t(void *ctx, int64_t begin, int64_t end, int tid) { \
    const GammaPlan *c = ctx; \
    uint32_t keys[2 * GAMMA_LANES]; \
    for (int64_t unit = begin; unit < end; unit++) { \
        int64_t first = unit * GAMMA_LANES, n = c->size - first < GAMMA_LANES ? c->size - first : GAMMA_LANES; \
        random_gather(c->key, 2 * first, 2 * n, keys); \
        gamma_block_##t(keys, (const T *)c->d + first, (T *)c->out + first, (int)n); \
    } \
}
#define GAMMA_LOOP_f32 _Pragma("omp simd")
#define GAMMA_LOOP_f64                                   /* libm */
GAMMA_SAMPLER(f32, float, -0x1.fffffep-1, f)
GAMMA_SAMPLER(f64, double, -0x1.fffffffffffffp-1, )
#endif
