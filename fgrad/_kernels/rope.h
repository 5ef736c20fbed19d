/* Rotary embedding of one row, for the type T.  Included once per type.  sx is x's last stride, sc and ss those of cos and sin. */

/* Pairs (x[i], x[i + half]) or, interleaved, (x[2i], x[2i + 1]); the D - 2 half components that follow are copied.  Second components have
   cos and sin of their own `wide` elements on; the inverse is the transpose, which reads each sine where the other component is. */
static inline void N(rope_row)(const T *x, int64_t sx, const T *co, int64_t sc, const T *si, int64_t ss, T *y,
                               int64_t half, int64_t D, int interleaved, int inverse, int64_t wide) {
    const T *co2 = co + wide * sc, *si2 = inverse ? si : si + wide * ss;
    const T sign = inverse ? -1 : 1;
    if (inverse) si += wide * ss;
    if (sx == 1 && sc == 1 && ss == 1) {
        if (interleaved) {
            #pragma omp simd
            for (int64_t i = 0; i < half; i++) {
                T a = x[2 * i], b = x[2 * i + 1], s = sign * si[i];
                y[2 * i] = a * co[i] - b * s;
                y[2 * i + 1] = b * co[i] + a * s;
            }
        } else {
            #pragma omp simd
            for (int64_t i = 0; i < half; i++) {
                T a = x[i], b = x[i + half];
                y[i] = a * co[i] - b * (sign * si[i]);
                y[i + half] = b * co2[i] + a * (sign * si2[i]);
            }
        }
    } else {
        for (int64_t i = 0; i < half; i++) {
            int64_t p = interleaved ? 2 * i : i, q = interleaved ? 2 * i + 1 : i + half;
            T a = x[p * sx], b = x[q * sx];
            y[p] = a * co[i * sc] - b * (sign * si[i * ss]);
            y[q] = b * co2[i * sc] + a * (sign * si2[i * ss]);
        }
    }
    for (int64_t i = 2 * half; i < D; i++) y[i] = x[i * sx];
}

static void N(rope)(void *ctx, int64_t begin, int64_t end, int tid) {
    const RopePlan *c = ctx;
    const FgTensor *x = c->x, *co = c->co, *si = c->si;
    int last = x->ndim - 1;
    int64_t D = x->shape[last], half = c->wide ? D / 2 : co->shape[last], index[FG_MAXDIM], ox = 0, oc = 0, os = 0, rest = begin;
    for (int d = last - 1; d >= 0; d--) {
        index[d] = rest % x->shape[d];
        rest /= x->shape[d];
        ox += index[d] * x->strides[d];
        oc += index[d] * co->strides[d];
        os += index[d] * si->strides[d];
    }
    for (int64_t u = begin; u < end; u++) {
        N(rope_row)((const T *)x->data + ox, x->strides[last], (const T *)co->data + oc, co->strides[last],
                    (const T *)si->data + os, si->strides[last], (T *)c->out + u * D, half, D, c->interleaved, c->inverse, c->wide ? half : 0);
        for (int d = last - 1; d >= 0; d--) {
            ox += x->strides[d];
            oc += co->strides[d];
            os += si->strides[d];
            if (++index[d] < x->shape[d]) break;
            ox -= x->shape[d] * x->strides[d];
            oc -= x->shape[d] * co->strides[d];
            os -= x->shape[d] * si->strides[d];
            index[d] = 0;
        }
    }
}
