/* The loops of a convolution over elements of type T; N(name) appends the type's suffix.  Included once per type.
 * Packing, clearing and scattering only move elements, so they exist once per size; the direct kernels compute. */

#ifdef CONV_MOVES
/* One run: `len` elements from x + off on, `step` apart, where the positions pos + t ps are inside [0, L); zeros elsewhere. */
static inline void N(conv_run)(const T *x, int64_t off, int64_t len, int64_t step, int64_t pos, int64_t ps, int64_t L, T *dst) {
    int64_t lo = 0, hi = len;
    if (ps == 1) {
        lo = pos < 0 ? conv_min(-pos, len) : 0;
        hi = conv_max(lo, conv_min(len, L - pos));
    } else if (ps) {
        lo = pos < 0 ? conv_min(conv_ceil(-pos, ps), len) : 0;
        hi = pos < L ? conv_max(lo, conv_min(len, conv_ceil(L - pos, ps))) : lo;
    }
    for (int64_t i = 0; i < lo; i++) dst[i] = N(zero);
    x += off;
    if (step == 1) for (int64_t i = lo; i < hi; i++) dst[i] = x[i];
    else for (int64_t i = lo; i < hi; i++) dst[i] = x[i * step];
    for (int64_t i = hi; i < len; i++) dst[i] = N(zero);
}

/* The panel of `outer` single positions by `inner` runs, rows ld apart. */
static void N(conv_pack)(const FgConvPart *p, const T *x, const FgSpan *outer, int64_t n_outer, const FgSpan *inner, int64_t n_inner,
                         const FgDigit *run, T *dst, int64_t ld) {
    int64_t step = run->x, ps = run->pos, L0 = p->L[0], L1 = p->L[1], L2 = p->L[2];
    for (int64_t i = 0; i < n_outer; i++) {
        const FgSpan *a = &outer[i];
        T *row = dst + i * ld;
        for (int64_t j = 0; j < n_inner; j++) {
            const FgSpan *b = &inner[j];
            int64_t p0 = a->pos[0] + b->pos[0], p1 = a->pos[1] + b->pos[1], p2 = a->pos[2] + b->pos[2];
            T *to = row + b->at;
            if ((uint64_t)p0 >= (uint64_t)L0 || (uint64_t)p1 >= (uint64_t)L1 || (!ps && (uint64_t)p2 >= (uint64_t)L2))
                for (int64_t t = 0; t < b->len; t++) to[t] = N(zero);
            else N(conv_run)(x, a->off + b->off, b->len, step, p2, ps, L2, to);
        }
    }
}

/* Rows [k0, k1) of W (K, O), contiguous. */
static void N(conv_pack_w)(const FgConvPart *p, const T *w, int64_t g, int64_t k0, int64_t k1, T *dst) {
    const FgConv *c = p->c;
    for (int64_t k = k0; k < k1; k++) {
        const T *src = w + g * c->wg + conv_y(p->k, k);
        T *d = dst + (g * p->K + k) * c->O;
        for (int64_t o = 0; o < c->O; o++) d[o] = src[o * c->wo];
    }
}

/* Rows [m0, m0 + n) of group g of out from contiguous rows of src. */
static void N(conv_scatter)(const FgConvPart *p, int64_t g, int64_t m0, int64_t n, const T *src, T *out) {
    const FgConv *c = p->c;
    int64_t idx[4], off = p->o0 + g * c->og + conv_y(p->m, m0);
    conv_decode(p->m, m0, idx);
    for (int64_t i = 0; i < n; i++) {
        T *to = out + off;
        for (int64_t o = 0; o < c->O; o++) to[o * c->oo] = src ? src[i * c->O + o] : N(zero);
        idx[3]++;
        off += p->m[3].y;
        for (int d = 3; d > 0 && idx[d] == p->m[d].n; d--) {
            off += p->m[d - 1].y - idx[d] * p->m[d].y;
            idx[d] = 0;
            idx[d - 1]++;
        }
    }
}
#else

/* Sum nk partial products: rows [m0, m0 + n) of group g, of numbers of one or two parts.  The first chunk's memory takes the sums. */
static void N(conv_reduce)(const FgConvPart *p, int64_t g, int64_t m0, int64_t n, int parts, T *part) {
    const FgConv *c = p->c;
    int64_t row = c->O * parts, step = c->G * p->M * row, len = n * row;
    T *to = part + (g * p->M + m0) * row;
    for (int64_t k = 1; k < p->nk; k++) for (int64_t i = 0; i < len; i++) to[i] += to[k * step + i];
}

#define X T
#ifdef G
#include "conv_dense.h"
#include "conv_spans.h"
#include "conv_along.h"
#include "conv_winograd.h"
#include "conv_lanes.h"
#endif
#include "conv_groups.h"
#ifdef G
#include "conv_near.h"
#include "conv_planes.h"
#include "conv_plane_sums.h"
#endif
#undef X

/* Units (g, b, o, q0, q1): a row of outputs, a tap after the other; or, `dots`, each output of it as a sum of dot products. */
static void N(conv_rows)(const FgConvPart *p, int64_t begin, int64_t end, int dots, T *row) {
    const FgConv *c = p->c;
    const T *x = (const T *)p->x, *w = (const T *)p->w + p->w0;
    int64_t nq = p->Q[2], nr = p->R[2], q[2], lo, hi, xstep = p->s[2] * p->xs[2], kstep = p->d[2] * p->xs[2], wstep = p->wr[2];
    for (int64_t u = begin; u < end; u++) {
        int64_t rest = u, g, b, o;
        for (int d = 1; d >= 0; d--) { q[d] = rest % p->Q[d]; rest /= p->Q[d]; }
        o = rest % c->O;
        rest /= c->O;
        b = rest % c->B;
        g = rest / c->B;
        memset(row, 0, (size_t)nq * sizeof(T));
        for (int64_t f = 0; f < c->C; f++) for (int64_t r0 = 0; r0 < p->R[0]; r0++) {
            int64_t p0 = q[0] * p->s[0] + r0 * p->d[0] - p->lo[0];
            if ((uint64_t)p0 >= (uint64_t)p->L[0]) continue;
            for (int64_t r1 = 0; r1 < p->R[1]; r1++) {
                int64_t p1 = q[1] * p->s[1] + r1 * p->d[1] - p->lo[1];
                if ((uint64_t)p1 >= (uint64_t)p->L[1]) continue;
                const T *xl = x + g * c->xg + b * c->xb + f * c->xc + p0 * p->xs[0] + p1 * p->xs[1] - p->lo[2] * p->xs[2];
                const T *wl = w + g * c->wg + o * c->wo + f * c->wc + r0 * p->wr[0] + r1 * p->wr[1];
                if (dots) for (int64_t j = 0; j < nq; j++) {
                    const T *xv = xl + j * xstep;
                    T s = 0;
                    conv_inside(j * p->s[2] - p->lo[2], p->d[2], p->L[2], nr, &lo, &hi);
                    if (kstep == 1 && wstep == 1) {
                        _Pragma("omp simd reduction(+:s)")
                        for (int64_t i = lo; i < hi; i++) s += xv[i] * wl[i];
                    } else {
                        _Pragma("omp simd reduction(+:s)")
                        for (int64_t i = lo; i < hi; i++) s += xv[i * kstep] * wl[i * wstep];
                    }
                    row[j] += s;
                } else for (int64_t i = 0; i < nr; i++) {
                    const T *xv = xl + i * kstep;
                    T v = wl[i * wstep];
                    conv_inside(i * p->d[2] - p->lo[2], p->s[2], p->L[2], nq, &lo, &hi);
                    if (xstep == 1) for (int64_t j = lo; j < hi; j++) row[j] += v * xv[j];
                    else for (int64_t j = lo; j < hi; j++) row[j] += v * xv[j * xstep];
                }
            }
        }
        T *to = (T *)p->out + p->o0 + g * c->og + b * c->ob + o * c->oo + q[0] * p->os[0] + q[1] * p->os[1];
        for (int64_t j = 0; j < nq; j++) to[j * p->os[2]] = row[j];
    }
}
#endif
