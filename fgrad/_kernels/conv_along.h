/* The gradient of a kernel, features first: sums of products of rows of x and of w, lanes along the rows, where both lie so. Neither is
 * turned: a block of rows of x is copied, padded, its rows and columns by remainder modulo the dilation, so that what a tap meets is one
 * run, as long as the rows of w with the same gaps. Included by conv_loops.h after conv_spans.h. */

enum { N(along_rows) = 4, N(along_cols) = GEMM_MASKS ? 6 : 2 };

/* to[i] for each of along_rows rows of w (`lda` apart) and run x + at[j]: sums over `planes` times n elements. */
static void N(conv_along_tile)(int64_t planes, int64_t n, const T *w, int64_t lda, int64_t wstep, const T *x, const int64_t *at, int64_t xstep,
                               T *to) {
    enum { R = N(along_rows), C = N(along_cols), L = G(lanes) };
    G(vec) sum[R * C + G(lanes)], y[R];
    const T *from[C];
    GEMM_UNROLL for (int i = 0; i < R * C; i++) sum[i] = (G(vec)){0};
    for (; planes > 0; planes--, w += wstep, x += xstep) {
        int64_t k = 0;
        GEMM_UNROLL for (int j = 0; j < C; j++) from[j] = x + at[j];
        for (; k + L <= n; k += L) {
            GEMM_UNROLL for (int i = 0; i < R; i++) { y[i] = *(const G(mem) *)(w + i * lda + k); GEMM_KEEP(y[i]); }
            GEMM_UNROLL for (int j = 0; j < C; j++) {
                G(vec) v = *(const G(mem) *)(from[j] + k);
                GEMM_KEEP(v);
                GEMM_UNROLL for (int i = 0; i < R; i++) sum[i * C + j] += v * y[i];
            }
        }
        if (k == n) continue;
        GEMM_UNROLL for (int i = 0; i < R; i++) y[i] = G(load)(w + i * lda + k, n - k);
        GEMM_UNROLL for (int j = 0; j < C; j++) {
            G(vec) v = G(load)(from[j] + k, n - k);
            GEMM_UNROLL for (int i = 0; i < R; i++) sum[i * C + j] += v * y[i];
        }
    }
    GEMM_UNROLL for (int u = 0; u < R * C; u += L) {
        G(vec) total = G(totals)(R * C - u < L ? R * C - u : L, sum + u);
        *(G(mem) *)(to + u) = total;
    }
}

/* `high` rows of w of n columns from `w` on, at a pitch with zeros between. */
static void N(conv_along_w)(const FgConvPart *p, const T *w, int64_t high, int64_t n, T *to) {
    for (int64_t i = 0; i < high; i++, to += p->pitch) {
        memcpy(to, w + i * p->wr[1], (size_t)n * sizeof(T));
        if (i + 1 < high) memset(to + n, 0, (size_t)(p->pitch - n) * sizeof(T));
    }
}

/* Part `j` of n of what the next panel's rows of w are, `no` of them and so many planes, fetched while this one's sums are made. */
static void N(conv_along_fetch)(const FgConvPart *p, const T *w, int64_t no, int64_t a0, int64_t planes, int64_t len, int64_t j, int64_t n) {
    const int64_t from = len * j / n, bytes = (len * (j + 1) / n - from) * (int64_t)sizeof(T);
    if (bytes > 0) for (int64_t a = 0; a < planes; a++) for (int64_t i = 0; i < no; i++) {
        const int64_t c0 = (a0 + a) / p->R[0] - a0 / p->R[0], r0 = (a0 + a) % p->R[0] - a0 % p->R[0];
        conv_fetch_row(w + i * p->c->wo + c0 * p->c->wc + r0 * p->wr[0] + from, bytes, 0);
    }
}

/* Units (chunk, g, slice of B, range of panels of O); chunks but the first sum into memory of their own, laid out as `out` is.
 * `x` and `w` hold a slice's block and a panel's, `at` where the runs of the slice's taps begin, and their outputs. */
static void N(conv_along)(const FgConvPart *p, int64_t begin, int64_t end, T *x, T *w, FgTap *at) {
    enum { R = N(along_rows), C = N(along_cols) };
    const FgConv *c = p->c;
    const int64_t ranges = conv_ceil(conv_ceil(c->O, R), p->mt), all = c->C * p->R[0], size = c->G * p->M * c->O;
    const int64_t units[4] = {p->nk, c->G, p->slices, ranges}, sizes[3] = {conv_ceil(all, p->images), p->blocks[0], p->blocks[1]};
    const int64_t blocks = sizes[0] * sizes[1] * sizes[2], high = p->block[0] + (p->Q[1] - 1) * p->s[1] / p->d[1], run = high * p->pitch;
    const int64_t feature = p->in_place ? c->xb : p->Q[0] * p->d[1] * p->d[2] * run, row = conv_ceil(p->block[0] * p->pitch, 16) * 16 + 16;
    int64_t u4[4], b3[3], place[C], q[4];
    T sums[N(along_rows) * N(along_cols) + G(lanes)];
    for (int64_t u = begin; u < end; u++) {
        conv_index(u, units, 4, u4);
        int64_t b0 = u4[2] * p->slice, nb = conv_min(p->slice, c->B - b0), o0 = u4[3] * p->mt * R, o1 = conv_min(c->O, o0 + p->mt * R), n = 0;
        const int64_t first = blocks * u4[0] / p->nk, last = blocks * (u4[0] + 1) / p->nk, runs[4] = {nb, p->Q[0], p->Q[1], p->Q[2]};
        const T *xg = (const T *)p->x + u4[1] * c->xg + b0 * c->xb, *wg = (const T *)p->w + p->w0 + u4[1] * c->wg;
        T *out = (u4[0] ? (T *)p->part + (u4[0] - 1) * size : (T *)p->out) + p->o0 + u4[1] * c->og + b0 * c->ob;
        for (; n < nb * p->Q[0] * p->Q[1] * p->Q[2]; n++) {
            conv_index(n, runs, 4, q);
            int64_t r = q[2] * p->s[1], k = q[3] * p->s[2], part = (q[1] * p->d[1] + r % p->d[1]) * p->d[2] + k % p->d[2];
            at[n] = (FgTap){q[0] * feature + (p->in_place ? 0 : part * run + r / p->d[1] * p->pitch + k / p->d[2]),
                            q[0] * c->ob + q[1] * p->os[0] + q[2] * p->os[1] + q[3] * p->os[2]};
        }
        for (int64_t block = first; block < last; block++) {
            conv_index(block, sizes, 3, b3);
            int64_t a0 = b3[0] * p->images, planes = conv_min(p->images, all - a0), r1 = b3[1] * p->block[0], r2 = b3[2] * p->block[1];
            int64_t rows = conv_min(p->block[0], p->R[1] - r1), cols = conv_min(p->block[1], p->R[2] - r2), len = (rows - 1) * p->pitch + cols;
            const int gaps = (rows > 1 && (p->pitch != cols || p->wr[1] != cols)) || (planes > 1 && p->R[0] > 1);
            const int64_t whole = (rows - 1) * p->wr[1] + cols;
            const T *from = x;
            int64_t step = nb * feature;
            if (p->in_place) { from = xg + a0 * c->xc + r2; step = c->xc; }
            else for (int64_t a = 0; a < planes; a++) for (int64_t b = 0; b < nb; b++) for (int64_t k = 0; k < p->Q[0] * p->d[1] * p->d[2]; k++) {
                int64_t f2 = k % p->d[2], f1 = k / p->d[2] % p->d[1], q0 = k / p->d[2] / p->d[1], r0 = (a0 + a) % p->R[0];
                int64_t p0 = r0 * p->d[0] + q0 * p->s[0] - p->lo[0], wide = cols + (p->Q[2] - 1) * p->s[2] / p->d[2];
                T *to = x + a * step + b * feature + k * run;
                for (int64_t i = 0; i < rows + high - p->block[0]; i++, to += p->pitch) {
                    int64_t p1 = (r1 + i) * p->d[1] + f1 - p->lo[1], p2 = r2 * p->d[2] + f2 - p->lo[2];
                    if ((uint64_t)p0 >= (uint64_t)p->L[0] || (uint64_t)p1 >= (uint64_t)p->L[1]) memset(to, 0, (size_t)wide * sizeof(T));
                    else N(conv_spaced)(xg + b * c->xb + (a0 + a) / p->R[0] * c->xc + p0 * p->xs[0] + p1 * p->xs[1], p2, p->d[2], p->L[2],
                                        p->xs[2], wide, to);
                }
            }
            for (int64_t o = o0; o < o1; o += R) {
                const T *wo = wg + o * c->wo + a0 / p->R[0] * c->wc + a0 % p->R[0] * p->wr[0] + r1 * p->wr[1] + r2, *tile = wo;
                int64_t lda = c->wo, wstep = c->wc, no = conv_min(R, o1 - o);
                if (gaps || no < R) {
                    for (int64_t a = 0; a < planes; a++) for (int64_t i = 0; i < R; i++) {
                        const int64_t c0 = (a0 + a) / p->R[0] - a0 / p->R[0], r0 = (a0 + a) % p->R[0] - a0 % p->R[0];
                        if (i < no) N(conv_along_w)(p, wo + i * c->wo + c0 * c->wc + r0 * p->wr[0], rows, cols, w + (a * R + i) * row);
                        else memset(w + (a * R + i) * row, 0, (size_t)len * sizeof(T));
                    }
                    tile = w, lda = row, wstep = R * row;
                }
                for (int64_t j = 0; j < n; j += C) {
                    for (int64_t k = 0; k < C; k++) place[k] = at[conv_min(j + k, n - 1)].x;
                    N(conv_along_fetch)(p, wo + R * c->wo, conv_min(R, o1 - o - R), a0, planes, whole, j / C, conv_ceil(n, C));
                    N(conv_along_tile)(planes, len, tile, lda, wstep, from, place, step, sums);
                    for (int64_t i = 0; i < no; i++) for (int64_t k = 0; k < conv_min(C, n - j); k++) {
                        T *to = out + (o + i) * c->oo + at[j + k].w;
                        *to = block > first ? *to + sums[i * C + k] : sums[i * C + k];
                    }
                }
            }
        }
    }
}

/* Elements of `out`: the sums of all chunks. */
static void N(conv_along_place)(const FgConvPart *p, int64_t begin, int64_t end) {
    const int64_t size = p->c->G * p->M * p->c->O;
    T *out = (T *)p->out;
    for (int64_t k = 0; k + 1 < p->nk; k++) {
        const T *part = (const T *)p->part + k * size;
        for (int64_t i = begin; i < end; i++) out[i] += part[i];
    }
}
