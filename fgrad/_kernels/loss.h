/* Softmax cross-entropy with integer labels, for the type T.  Included once per type.  A row whose label is outside
 * [0, V) is ignored: its loss, tangent and cotangent are 0. */

#ifndef LOSS_LABEL
#define LOSS_LABEL
static inline int64_t loss_label(const FgRows *c, const void *labels, int64_t u) {
    return c->label64 ? ((const int64_t *)labels)[u] : ((const int32_t *)labels)[u];
}
#endif

static void N(cross_entropy)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n;
    for (int64_t u = begin; u < end; u++) {
        const T *x = (const T *)c->in[0] + u * n;
        int64_t label = loss_label(c, c->in[1], u);
        T m, s = N(row_log)((T)N(row_max_expsum)(x, n, &m));
        T base = m == INFINITY || m == -INFINITY ? 0 : m;
        /* (m - x) + log(sum) rather than lse - x: a small loss next to large logits keeps its digits */
        ((T *)c->out[0])[u] = label >= 0 && label < n ? (base - x[label]) + s : 0;
        ((T *)c->out[1])[u] = base + s;
    }
}

/* in: logits, lse, labels, ct */
static void N(cross_entropy_cotangent)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n;
    for (int64_t u = begin; u < end; u++) {
        const T *x = (const T *)c->in[0] + u * n;
        T *out = (T *)c->out[0] + u * n, lse = ((const T *)c->in[1])[u], ct = ((const T *)c->in[3])[u];
        int64_t label = loss_label(c, c->in[2], u);
        if (label < 0 || label >= n) { memset(out, 0, (size_t)n * sizeof(T)); continue; }
        T at_label = x[label] - lse;
        N(row_exp_times)(out, x, lse, ct, n);
        out[label] = ct * (N(row_exp)(at_label) - 1);
    }
}

/* in: logits, lse, labels, t */
static void N(cross_entropy_tangent)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n;
    for (int64_t u = begin; u < end; u++) {
        const T *x = (const T *)c->in[0] + u * n, *t = (const T *)c->in[3] + u * n;
        int64_t label = loss_label(c, c->in[2], u);
        ((T *)c->out[0])[u] = label >= 0 && label < n ? (T)(N(row_exp_dot)(x, ((const T *)c->in[1])[u], t, n) - t[label]) : 0;
    }
}
