/* rms_norm and layer_norm over the last axis, for the type T.  Included once per type. */

static void N(rms_norm)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n;
    for (int64_t u = begin; u < end; u++) {
        const T *x = (const T *)c->in[0] + u * n;
        T *y = (T *)c->out[0] + u * n, r = (T)(1 / sqrt(N(row_dot)(x, x, n) / (double)n + c->eps));
        #pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = x[i] * r;
        ((T *)c->out[1])[u] = r;
    }
}

static void N(rms_norm_tangent)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n;
    for (int64_t u = begin; u < end; u++) {
        const T *x = (const T *)c->in[0] + u * n, *t = (const T *)c->in[2] + u * n;
        T *out = (T *)c->out[0] + u * n, r = ((const T *)c->in[1])[u];
        T along = (T)(N(row_dot)(x, t, n) / (double)n * r * r);
        #pragma omp simd
        for (int64_t i = 0; i < n; i++) out[i] = r * (t[i] - x[i] * along);
    }
}

static void N(layer_norm)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n;
    for (int64_t u = begin; u < end; u++) {
        const T *x = (const T *)c->in[0] + u * n;
        T *y = (T *)c->out[0] + u * n, mean = (T)(N(row_sum)(x, n) / (double)n);
        /* `mean` is rounded: what is left of the deviations corrects the variance and the result */
        double left, spread = N(row_spread)(x, mean, n, &left);
        left /= (double)n;
        double var = spread / (double)n - left * left, r1 = 1 / sqrt((var < 0 ? 0 : var) + c->eps);
        T r = (T)r1, shift = (T)(left * r1);
        #pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * r - shift;
        ((T *)c->out[1])[u] = r;
    }
}

static void N(layer_norm_tangent)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n;
    for (int64_t u = begin; u < end; u++) {
        const T *y = (const T *)c->in[0] + u * n, *t = (const T *)c->in[2] + u * n;
        T *out = (T *)c->out[0] + u * n, r = ((const T *)c->in[1])[u];
        T mean = (T)(N(row_sum)(t, n) / (double)n), along = (T)(N(row_dot)(y, t, n) / (double)n);
        #pragma omp simd
        for (int64_t i = 0; i < n; i++) out[i] = r * ((t[i] - mean) - y[i] * along);
    }
}
