/* One AdamW step, for the type T.  Included once per type.  Outputs may be the inputs' own memory: each element is read
 * before it is written. */
static void N(adamw)(void *ctx, int64_t begin, int64_t end, int tid) {
    const AdamPlan *c = ctx;
    const T *p = c->in[0], *g = c->in[1], *m = c->in[2], *v = c->in[3];
    T *p1 = c->out[0], *m1 = c->out[1], *v1 = c->out[2];
    const T lr = *(const T *)c->in[4], gs = *(const T *)c->in[7], m_scale = 1 / *(const T *)c->in[5], v_scale = 1 / *(const T *)c->in[6];
    const T b1 = (T)c->b1, b2 = (T)c->b2, n1 = (T)(1 - c->b1), n2 = (T)(1 - c->b2), eps = (T)c->eps;
    const T outside = c->decoupled ? (T)c->decay : 0, inside = c->decoupled ? 0 : (T)c->decay;
    #pragma omp simd
    for (int64_t i = begin; i < end; i++) {
        T x = p[i], d = g[i] * gs + (inside != 0 ? inside * x : 0);      /* no 0 * inf */
        T mi = b1 * m[i] + n1 * d, vi = b2 * v[i] + n2 * (d * d);
        m1[i] = mi;
        v1[i] = vi;
        p1[i] = x - lr * (mi * m_scale / (N(root)(vi * v_scale) + eps) + (outside != 0 ? outside * x : 0));
    }
}
