/* The SwiGLU gate silu(g) * u and its transpose, for the type T.  Included once per type. */

/* 1 / (1 + exp(-x)) from exp(-|x|), which cannot overflow: exact to the last places at both ends */
static inline __attribute__((always_inline)) T N(sigmoid)(T x) {
    T e = N(row_exp)(x < 0 ? x : -x);
    return (x < 0 ? e : 1) / (1 + e);
}

static void N(swiglu)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    const T *g = c->in[0], *u = c->in[1];
    T *y = c->out[0];
    #pragma omp simd
    for (int64_t i = begin; i < end; i++) y[i] = g[i] * N(sigmoid)(g[i]) * u[i];
}

/* in: g, u, ct; out: dg, du */
static void N(swiglu_cotangent)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    const T *g = c->in[0], *u = c->in[1], *ct = c->in[2];
    T *dg = c->out[0], *du = c->out[1];
    #pragma omp simd
    for (int64_t i = begin; i < end; i++) {
        T x = g[i], s = N(sigmoid)(x), t = ct[i], v = u[i];
        dg[i] = t * v * (s + x * s * N(sigmoid)(-x));
        du[i] = t * (x * s);
    }
}
