/* Softmax cross-entropy with integer labels, for the type T.  Included once per type.  A row whose label is outside
 * [0, V) is ignored: its loss, tangent and cotangent are 0. */

#ifndef LOSS_LABEL
#define LOSS_LABEL
static inline int64_t loss_label(const FgRows *c, const void *labels, int64_t u) {
    return c->label64 ? ((const int64_t *)labels)[u] : ((const int32_t *)labels)[u];
}
#endif

/* row_max_expsum of `group` rows, one step after the other for all */
static inline void N(rows_max_expsum)(const T *x, int64_t n, int64_t group, T *m, T *s) {
    if (group == 1) { s[0] = (T)N(row_max_expsum)(x, n, m); return; }
    for (int64_t k = 0; k < group; k++) m[k] = N(row_max)(x + k * n, n);
    for (int64_t k = 0; k < group; k++) s[k] = (T)N(row_exp_sum)(x + k * n, m[k] - m[k] == 0 ? m[k] : 0, n);
}

static void N(cross_entropy)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n, group;
    (void)tid;
    for (int64_t u = begin; u < end; u += group) {
        const T *x = (const T *)c->in[0] + u * n;
        T m[FG_ROW_GROUP], s[FG_ROW_GROUP];
        group = row_group(end - u, n * sizeof(T));
        N(rows_max_expsum)(x, n, group, m, s);
        for (int64_t k = 0; k < group; k++, x += n) {
            int64_t label = loss_label(c, c->in[1], u + k);
            T logs = N(row_log)(s[k]), base = m[k] == INFINITY || m[k] == -INFINITY ? 0 : m[k];
            /* (m - x) + log(sum) rather than lse - x: a small loss next to large logits keeps its digits */
            ((T *)c->out[0])[u + k] = label >= 0 && label < n ? (base - x[label]) + logs : 0;
            ((T *)c->out[1])[u + k] = base + logs;
        }
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

/* The largest element of each row, and the sum of exp(x - that); both are NaN where a row has one, the sum too where the largest is infinite */
static void N(max_expsum)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n, group;
    (void)tid;
    for (int64_t u = begin; u < end; u += group) {
        T *m = (T *)c->out[0] + u, *s = (T *)c->out[1] + u;
        group = row_group(end - u, n * sizeof(T));
        N(rows_max_expsum)((const T *)c->in[0] + u * n, n, group, m, s);
        for (int64_t k = 0; k < group; k++) {
            if (s[k] != s[k]) m[k] = (T)NAN;
            else if (m[k] - m[k] != 0) s[k] = (T)NAN;
        }
    }
}

/* in: logits, shift, ct, and maybe labels, more */
static void N(exp_cotangent)(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgRows *c = ctx;
    int64_t n = c->n;
    (void)tid;
    for (int64_t u = begin; u < end; u++) {
        T *out = (T *)c->out[0] + u * n;
        N(row_exp_times)(out, (const T *)c->in[0] + u * n, ((const T *)c->in[1])[u], ((const T *)c->in[2])[u], n);
        if (!c->in[3]) continue;
        int64_t label = loss_label(c, c->in[3], u);
        if (label >= 0 && label < n) out[label] += ((const T *)c->in[4])[u];
    }
}
