/* Dense convolutions of floats whose outputs lie features first: vectors of neighbouring outputs by rows of output features, without a
 * transpose of x or of the outputs. Input rows are copied and padded, their columns by remainder modulo the stride, into a block that
 * stays in the second cache. Included by conv_loops.h after conv_dense.h. */

/* Units (g, panel of rows of O): W as (tap, c, o) of each panel. */
static void N(conv_span_w)(const FgConvPart *p, int64_t begin, int64_t end, const T *w, T *dst) {
    const FgConv *c = p->c;
    const int64_t panels = gemm_panels(c->O), sizes[3] = {p->R[0], p->R[1], p->R[2]}, taps = sizes[0] * sizes[1] * sizes[2];
    int64_t at[3];
    for (int64_t u = begin; u < end; u++) {
        int64_t g = u / panels, o = gemm_panel(c->O, u % panels), rows = gemm_panel(c->O, u % panels + 1) - o;
        for (int64_t t = 0; t < taps; t++) {
            conv_index(t, sizes, 3, at);
            const T *from = w + g * c->wg + o * c->wo + at[0] * p->wr[0] + at[1] * p->wr[1] + at[2] * p->wr[2];
            G(pack)(dst + g * p->wg + (o * taps + t * rows) * c->C, rows, from, rows, rows == 1 ? 1 : c->wo, c->wc, c->C);
        }
    }
}

/* n columns of a row of x, every `step`th from position p2 on; zeros outside [0, L). */
static void N(conv_spaced)(const T *x, int64_t p2, int64_t step, int64_t L, int64_t xs, int64_t n, T *to) {
    int64_t lo, hi;
    conv_inside(p2, step, L, n, &lo, &hi);
    memset(to, 0, (size_t)lo * sizeof(T));
    if (step * xs == 1) memcpy(to + lo, x + p2 + lo, (size_t)(hi - lo) * sizeof(T));
    else if (step * xs == 2) for (int64_t i = lo; i < hi; i++) to[i] = x[p2 * xs + 2 * i];        /* known steps are vectors */
    else if (step * xs == 4) for (int64_t i = lo; i < hi; i++) to[i] = x[p2 * xs + 4 * i];
    else for (int64_t i = lo; i < hi; i++) to[i] = x[(p2 + i * step) * xs];
    memset(to + hi, 0, (size_t)(n - hi) * sizeof(T));
}

/* A row of x from position p2 on: `pitch` columns of each remainder modulo the step. */
static void N(conv_span_row)(const FgConvPart *p, const T *x, int64_t p2, int64_t pitch, T *to) {
    for (int64_t r = 0; r < p->s[2]; r++) N(conv_spaced)(x, p2 + r, p->s[2], p->L[2], p->xs[2], pitch, to + r * pitch);
}

/* Units (g, b, q0, block of rows, block of columns).  `x` holds the block. */
static void N(conv_spans)(const FgConvPart *p, int64_t begin, int64_t end, T *x, FgTap *taps) {
    const FgConv *c = p->c;
    const int64_t sizes[5] = {c->G, c->B, p->Q[0], p->blocks[0], p->blocks[1]}, C = c->C, all = p->R[0] * p->R[1] * p->R[2];
    const int64_t cols = p->s[2] * p->pitch, os = p->os[2];
    int64_t at[5];
    T tile[GEMM_MR * G(nr)];
    for (int64_t u = begin; u < end; u++) {
        conv_index(u, sizes, 5, at);
        int64_t q1 = at[3] * p->block[0], q1end = conv_min(p->Q[1], q1 + p->block[0]), q2 = at[4] * p->block[1];
        int64_t n2 = conv_min(p->Q[2] - q2, p->block[1]), top = q1 * p->s[1] - p->lo[1], front = at[2] * p->s[0] - p->lo[0];
        int64_t high = (q1end - q1 - 1) * p->s[1] + (p->R[1] - 1) * p->d[1] + 1, plane = high * cols, feature = p->R[0] * plane;
        const T *image = (const T *)p->x + at[0] * c->xg + at[1] * c->xb;
        for (int64_t k = 0; k < C; k++) for (int64_t r0 = 0; r0 < p->R[0]; r0++) for (int64_t i = 0; i < high; i++) {
            int64_t p0 = front + r0 * p->d[0], p1 = top + i;
            if ((uint64_t)p0 >= (uint64_t)p->L[0] || (uint64_t)p1 >= (uint64_t)p->L[1]) continue;
            N(conv_span_row)(p, image + k * c->xc + p0 * p->xs[0] + p1 * p->xs[1], q2 * p->s[2] - p->lo[2], p->pitch,
                             x + k * feature + r0 * plane + i * cols);
        }
        for (int64_t q = q1; q < q1end; q++) for (int64_t t = 0, o = 0, next; o < c->O; t++, o = next) {
            T *out = (T *)p->out + p->o0 + at[0] * c->og + at[1] * c->ob + o * c->oo + at[2] * p->os[0] + q * p->os[1] + q2 * os;
            int64_t n = 0, rows;
            next = gemm_panel(c->O, t + 1);
            rows = next - o;
            for (int64_t r0 = 0; r0 < p->R[0]; r0++) for (int64_t r1 = 0; r1 < p->R[1]; r1++) {
                int64_t p0 = front + r0 * p->d[0], i = (q - q1) * p->s[1] + r1 * p->d[1];
                if ((uint64_t)p0 >= (uint64_t)p->L[0] || (uint64_t)(top + i) >= (uint64_t)p->L[1]) continue;
                for (int64_t r2 = 0; r2 < p->R[2]; r2++) {
                    int64_t col = r2 * p->d[2], place = r0 * plane + i * cols + col % p->s[2] * p->pitch + col / p->s[2];
                    taps[n++] = (FgTap){((r0 * p->R[1] + r1) * p->R[2] + r2) * C * rows, place};
                }
            }
            for (int64_t j = 0; j < n2; j += G(nr)) {
                int64_t nb = conv_min(G(nr), n2 - j), w = G(width)(nb);
                N(conv_table)[0][w > G(lanes)][rows - 1](taps, n, C, (const T *)p->w + at[0] * p->wg + o * all * C, rows, x + j, feature,
                                                         os == 1 ? out + j : tile, os == 1 ? c->oo : G(nr), nb - w + G(lanes), 0);
                if (os != 1) for (int64_t i = 0; i < rows; i++) for (int64_t k = 0; k < nb; k++)
                    out[i * c->oo + (j + k) * os] = tile[i * G(nr) + k];
            }
        }
    }
}
