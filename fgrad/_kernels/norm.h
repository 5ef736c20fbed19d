/* rms_norm and layer_norm over the last axis, for the type T.  Included once per type.
 * Rows go in groups where they are short (row_group). */

static void N(rms_norm)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n, group;
    for (int64_t u = begin; u < end; u += group) {
        const T *x = (const T *)c->in[0] + u * n;
        T *y = (T *)c->out[0] + u * n, *r = (T *)c->out[1] + u;
        double squares[FG_ROW_GROUP];
        group = row_group(end - u, n * sizeof(T));
        for (int64_t k = 0; k < group; k++) squares[k] = N(row_dot)(x + k * n, x + k * n, n);
        for (int64_t k = 0; k < group; k++) r[k] = (T)(1 / sqrt(squares[k] / (double)n + c->eps));
        for (int64_t k = 0; k < group; k++, x += n, y += n) {
            T scale = r[k];
            #pragma omp simd
            for (int64_t i = 0; i < n; i++) y[i] = x[i] * scale;
        }
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
    int64_t n = c->n, group;
    for (int64_t u = begin; u < end; u += group) {
        const T *x = (const T *)c->in[0] + u * n;
        T *y = (T *)c->out[0] + u * n, *r = (T *)c->out[1] + u, mean[FG_ROW_GROUP], shift[FG_ROW_GROUP];
        double left[FG_ROW_GROUP], spread[FG_ROW_GROUP];
        group = row_group(end - u, n * sizeof(T));
        for (int64_t k = 0; k < group; k++) mean[k] = (T)(N(row_sum)(x + k * n, n) / (double)n);
        /* `mean` is rounded: what is left of the deviations corrects the variance and the result */
        for (int64_t k = 0; k < group; k++) spread[k] = N(row_spread)(x + k * n, mean[k], n, &left[k]);
        for (int64_t k = 0; k < group; k++) {
            double rest = left[k] / (double)n, var = spread[k] / (double)n - rest * rest, r1 = 1 / sqrt((var < 0 ? 0 : var) + c->eps);
            r[k] = (T)r1;
            shift[k] = (T)(rest * r1);
        }
        for (int64_t k = 0; k < group; k++, x += n, y += n) {
            T m = mean[k], scale = r[k], off = shift[k];
            #pragma omp simd
            for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m) * scale - off;
        }
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
