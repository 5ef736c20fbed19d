/* Convolutions without strides by Winograd's F(2x2, 3x3): 16 products for 4 outputs instead of 36.
 * Tiles of 4x4 inputs become 16 matrices (tile, C), the kernel 16 matrices (C, O), and the products tiles of 2x2 outputs:
 * Y = A^T [(G g G^T) * (B^T d B)] A.  Its constants are 0, 1, -1 and 1/2. Rows of one tap are not transformed: tiles of 1x4 inputs,
 * 4 products for 2 outputs instead of 6. Larger windows are cut into segments of 3x3 taps, filled up with zeros, and each plane of a
 * window is one more; their products are summed before they become outputs. Included by conv_loops.h after conv_dense.h. */

/* Four numbers (or vectors) times B^T, G and A^T. */
#ifndef CONV_BT
#define CONV_BT(r, d0, d1, d2, d3) do { \
    r[0] = d0 - d2; r[1] = d1 + d2; r[2] = d2 - d1; r[3] = d1 - d3; } while (0)
#define CONV_GT(r, g0, g1, g2) do { \
    G(vec) s_ = (g0 + g2) * (T)0.5, h_ = g1 * (T)0.5; \
    r[0] = g0; r[1] = s_ + h_; r[2] = s_ - h_; r[3] = g2; } while (0)
#endif

/* Elements from one of the kernel's matrices to the next, of a panel. */
static int64_t N(conv_winograd_pitch)(const FgConvPart *p) { return (p->segments * p->c->C + 1) * G(nr); }

/* Units (g, panel of O, block of C): the kernel's matrices (of transformed taps, segment), in panels of columns; `part` holds the
 * block's taps. */
static void N(conv_winograd_w)(const FgConvPart *p, int64_t begin, int64_t end, const T *w, T *dst, T *part) {
    const FgConv *c = p->c;
    const int64_t panels = conv_ceil(c->O, G(nr)), blocks = conv_ceil(c->C, CONV_PART), S = p->segments, high = p->R[1] > 1;
    const int64_t cuts[3] = {p->R[0], conv_ceil(p->R[1], 3), conv_ceil(p->R[2], 3)}, all = N(conv_winograd_pitch)(p);
    const int sign = N(conv_sign)(p);
    int64_t at[3];
    for (int64_t u = begin; u < end; u++) for (int64_t s = 0; s < S; s++) {
        int64_t g = u / blocks / panels, o = u / blocks % panels * G(nr), first = u % blocks * CONV_PART, n = conv_min(CONV_PART, c->C - first);
        int64_t nb = conv_min(G(nr), c->O - o), wide = G(width)(nb), size = n * wide;
        if (!s) N(conv_pack_panel)(p, sign, w + g * c->wg + o * c->wo + first * c->wc, nb, n, part);
        conv_index(s, cuts, 3, at);
        const T *from = part + ((at[0] * p->R[1] + 3 * at[1]) * p->R[2] + 3 * at[2]) * size;
        T *to = dst + g * p->ww + o / G(nr) * (high ? 16 : 4) * all + (s * c->C + first) * wide;
        int64_t rows = conv_min(3, p->R[1] - 3 * at[1]), cols = conv_min(3, p->R[2] - 3 * at[2]);
        for (int64_t i = 0; i < size; i += G(lanes)) {
            G(vec) tap[3][3], t[3][4], r[4];
            GEMM_UNROLL for (int j = 0; j < 3; j++) {
                GEMM_UNROLL for (int k = 0; k < 3; k++)
                    tap[j][k] = j < rows && k < cols ? (G(vec))*(const G(mem) *)(from + (j * p->R[2] + k) * size + i) : (G(vec)){0};
                CONV_GT(t[j], tap[j][0], tap[j][1], tap[j][2]);
            }
            GEMM_UNROLL for (int k = 0; k < 4; k++) {
                if (!high) { *(G(mem) *)(to + k * all + i) = t[0][k]; continue; }
                CONV_GT(r, t[0][k], t[1][k], t[2][k]);
                GEMM_UNROLL for (int j = 0; j < 4; j++) *(G(mem) *)(to + (j * 4 + k) * all + i) = r[j];
            }
        }
    }
}

/* One segment's part of the inputs' matrices, `size` apart, (rows x cols tiles, C), from rows of `wide` pixels; H rows of outputs
 * a tile. */
GEMM_INLINE void N(conv_winograd_tiles)(const int H, const T *x, int64_t wide, int64_t rows, int64_t cols, int64_t C, T *v, int64_t size) {
    for (int64_t i = 0; i < rows; i++) for (int64_t j = 0; j < cols; j++) for (int64_t k = 0; k < C; k += G(lanes)) {
        const T *from = x + (H * i * wide + 2 * j) * C + k;
        T *to = v + (i * cols + j) * C + k;
        int64_t n = conv_min(G(lanes), C - k);
        G(vec) t[4][4], r[4];
        GEMM_UNROLL for (int b = 0; b < 4; b++) {
            const T *pixel = from + b * C;
            if (H == 1) { t[b][0] = G(load)(pixel, n); continue; }
            GEMM_UNROLL for (int a = 0; a < 4; a++) r[a] = G(load)(pixel + a * wide * C, n);
            CONV_BT(t[b], r[0], r[1], r[2], r[3]);
        }
        GEMM_UNROLL for (int a = 0; a < 4; a++) {
            if (H == 1 && a) break;
            CONV_BT(r, t[0][a], t[1][a], t[2][a], t[3][a]);
            GEMM_UNROLL for (int b = 0; b < 4; b++) G(store)(to + (a * 4 + b) * size, r[b], n);
        }
    }
}

/* H rows of outputs, `row` apart and each `step` from the next, from the products of a row of tiles, `size` apart. */
GEMM_INLINE void N(conv_winograd_outputs)(const int H, const T *m, int64_t size, int64_t w, int64_t n, int64_t rows, int64_t cols, T *out,
                                          int64_t row, int64_t step) {
    for (int64_t j = 0; j < cols; j += 2, m += w) for (int64_t k = 0; k < n; k += G(lanes)) {
        int64_t tail = conv_min(G(lanes), n - k);
        G(vec) s[4][2];
        GEMM_UNROLL for (int b = 0; b < 4; b++) {
            const T *at = m + b * size + k;
            s[b][0] = *(const G(mem) *)at;
            if (H == 1) continue;
            G(vec) m1 = *(const G(mem) *)(at + 4 * size), m2 = *(const G(mem) *)(at + 8 * size);
            s[b][0] = s[b][0] + m1 + m2;
            s[b][1] = m1 - m2 - *(const G(mem) *)(at + 12 * size);
        }
        GEMM_UNROLL for (int i = 0; i < H; i++) {
            T *to = out + i * row + j * step + k;
            if (i < rows) G(store)(to, s[0][i] + s[1][i] + s[2][i], tail);
            if (i < rows && j + 1 < cols) G(store)(to + step, s[1][i] - s[2][i] - s[3][i], tail);
        }
    }
}

static void N(conv_winograd_x)(int64_t high, const T *x, int64_t wide, int64_t rows, int64_t cols, int64_t C, T *v, int64_t size) {
    if (high == 1) N(conv_winograd_tiles)(1, x, wide, rows, cols, C, v, size);
    else N(conv_winograd_tiles)(2, x, wide, rows, cols, C, v, size);
}

static void N(conv_winograd_y)(int64_t high, const T *m, int64_t size, int64_t w, int64_t n, int64_t rows, int64_t cols, T *out,
                               int64_t row, int64_t step) {
    if (high == 1) N(conv_winograd_outputs)(1, m, size, w, n, rows, cols, out, row, step);
    else N(conv_winograd_outputs)(2, m, size, w, n, rows, cols, out, row, step);
}

/* The inputs' matrices of images [begin, end) of a block; `x` holds an image's inputs. */
static void N(conv_winograd_inputs)(const FgConvPart *p, const FgTiles *t, int64_t begin, int64_t end, T *x, T *v) {
    const FgConv *c = p->c;
    const int64_t cuts[3] = {p->R[0], conv_ceil(p->R[1], 3), conv_ceil(p->R[2], 3)}, H = p->R[1] > 1 ? 2 : 1, C = c->C;
    FgFill f = {p->R[0], H * t->rows + (H > 1) * (3 * cuts[1] - 1), 2 * t->cols + 3 * cuts[2] - 1, C, c->xc, t->q0 * p->s[0] - p->lo[0],
                p->d[0], t->q1 - p->lo[1], t->q2 - p->lo[2]};
    int64_t cut[3];
    for (int64_t i = 0; i < f.planes * f.rows; i++)
        if ((uint64_t)(f.p0 + i / f.rows * f.step) >= (uint64_t)p->L[0] || (uint64_t)(f.p1 + i % f.rows) >= (uint64_t)p->L[1])
            memset(x + i * f.cols * C, 0, (size_t)(f.cols * C) * sizeof(T));
    for (int64_t b = begin; b < end; b++) {
        N(conv_fill)(p, &f, (const T *)p->x + t->g * c->xg + (t->b + b) * c->xb, x);
        for (int64_t s = 0; s < p->segments; s++) {
            conv_index(s, cuts, 3, cut);
            N(conv_winograd_x)(H, x + ((cut[0] * f.rows + 3 * cut[1]) * f.cols + 3 * cut[2]) * C, f.cols, t->rows, t->cols, C,
                               v + (s * t->tiles + b * t->rows * t->cols) * C, t->size);
        }
    }
}

/* The product of matrices k for output features [o, o + nb) of one panel: to m, by rows of whole vectors. */
static void N(conv_winograd_product)(const FgConvPart *p, const FgTiles *t, int64_t k, int64_t o, int64_t nb, const T *v, T *m, FgTap *taps) {
    const int64_t C = p->c->C, w = G(width)(nb), A = p->R[1] > 1 ? 16 : 4;
    const T *panel = (const T *)p->w + t->g * p->ww + (o / G(nr) * A + k) * N(conv_winograd_pitch)(p);
    for (int64_t s = 0; s < p->segments; s++) taps[s] = (FgTap){s * t->tiles * C, s * C * w};
    N(conv_column)(t->tiles, nb, taps, p->segments, C, v + k * t->size, C, 1, panel, w, m + k * t->step, w, 0);
}

/* Outputs of rows of tiles [begin, end), numbered image by image, from the products of a panel; `two` holds two rows. */
static void N(conv_winograd_rows)(const FgConvPart *p, const FgTiles *t, int64_t o, int64_t nb, int64_t begin, int64_t end, const T *m, T *two) {
    const FgConv *c = p->c;
    const int64_t w = G(width)(nb), H = p->R[1] > 1 ? 2 : 1;
    T *first = (T *)p->out + p->o0 + t->g * c->og + t->b * c->ob + o * c->oo + t->q0 * p->os[0] + t->q1 * p->os[1] + t->q2 * p->os[2];
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i % t->rows, left = conv_min(H, p->Q[1] - t->q1 - H * row);
        const T *from = m + i * t->cols * w;
        T *out = first + i / t->rows * c->ob + row * H * p->os[1];
        if (c->oo == 1) {
            N(conv_winograd_y)(H, from, t->step, w, nb, left, t->n2, out, p->os[1], p->os[2]);
            continue;
        }
        N(conv_winograd_y)(H, from, t->step, w, nb, left, t->n2, two, t->n2 * w, w);
        for (int64_t j = 0; j < left; j++) N(conv_spread)(two + j * t->n2 * w, w, t->n2, nb, out + j * p->os[1], p->os[2], c->oo);
    }
}

/* Where the kernel is larger than all tiles together, each of its matrices is read once. Units of phase 1: (g, b), the inputs' matrices;
 * of 2: (g, matrix, panel of O), products; of 3: (g, b, panel), outputs. */
static void N(conv_winograd_phase)(const FgConvPart *p, int64_t begin, int64_t end, T *x, T *two, FgTap *taps) {
    const FgConv *c = p->c;
    const int64_t A = p->R[1] > 1 ? 16 : 4, panels = conv_ceil(c->O, G(nr)), images = conv_min(p->images, c->B - p->b0);
    const int64_t sizes[3] = {c->G, p->phase == 2 ? A : images, p->phase == 1 ? 1 : panels};
    FgTiles t = {0, p->b0, images, 0, 0, 0, p->block[0], p->block[1], p->Q[2], images * p->block[0] * p->block[1]};
    int64_t at[3];
    t.size = p->segments * t.tiles * c->C + G(nr);
    t.step = (t.tiles + 1) * G(nr);
    for (int64_t u = begin; u < end; u++) {
        conv_index(u, sizes, 3, at);
        int64_t o = at[2] * G(nr), nb = conv_min(G(nr), c->O - o);
        T *v = (T *)p->part + at[0] * A * t.size, *m = (T *)p->part + c->G * A * t.size + (at[0] * panels + at[2]) * A * t.step;
        t.g = at[0];
        if (p->phase == 1) N(conv_winograd_inputs)(p, &t, at[1], at[1] + 1, x, v);
        else if (p->phase == 2) N(conv_winograd_product)(p, &t, at[1], o, nb, v, m, taps);
        else N(conv_winograd_rows)(p, &t, o, nb, at[1] * t.rows, (at[1] + 1) * t.rows, m, two);
    }
}

/* Units (g, block of images, q0, block of rows of tiles, of columns).  `x` holds an image's inputs and the matrices of all, `m` the
 * products of a pass and two rows: a panel of features, or, where the inputs' matrices leave the second cache, as many as such a matrix
 * serves before the next. */
static void N(conv_winograd)(const FgConvPart *p, int64_t begin, int64_t end, T *x, T *m, FgTap *taps) {
    const FgConv *c = p->c;
    const int64_t sizes[5] = {c->G, conv_ceil(c->B, p->images), p->Q[0], p->blocks[0], p->blocks[1]};
    const int64_t H = p->R[1] > 1 ? 2 : 1, A = H == 2 ? 16 : 4;
    const int64_t high = H * p->block[0] + (H > 1) * (3 * conv_ceil(p->R[1], 3) - 1), wide = 2 * p->block[1] + 3 * conv_ceil(p->R[2], 3) - 1;
    const int64_t features = conv_min(p->pass, conv_ceil(c->O, G(nr)) * G(nr)), tiles = p->images * p->block[0] * p->block[1];
    T *v = x + p->R[0] * high * wide * c->C + G(lanes), *two = m + A * (tiles + 1) * features;
    int64_t at[5];
    for (int64_t u = begin; u < end; u++) {
        conv_index(u, sizes, 5, at);
        FgTiles t = {at[0], at[1] * p->images, 0, at[2], H * at[3] * p->block[0], 2 * at[4] * p->block[1]};
        t.images = conv_min(p->images, c->B - t.b);
        t.n2 = conv_min(p->Q[2] - t.q2, 2 * p->block[1]);
        t.rows = conv_min(p->block[0], conv_ceil(p->Q[1] - t.q1, H));
        t.cols = conv_ceil(t.n2, 2);
        t.tiles = t.images * t.rows * t.cols;
        t.size = p->segments * t.tiles * c->C + G(lanes);
        t.step = (t.tiles + 1) * G(nr);
        N(conv_winograd_inputs)(p, &t, 0, t.images, x, v);
        for (int64_t o = 0, stop; o < c->O; o = stop) {
            stop = conv_min(c->O, o + p->pass);
            for (int64_t k = 0; k < A; k++) for (int64_t j = o; j < stop; j += G(nr))
                N(conv_winograd_product)(p, &t, k, j, conv_min(G(nr), stop - j), v, m + (j - o) / G(nr) * A * t.step, taps);
            for (int64_t j = o; j < stop; j += G(nr))
                N(conv_winograd_rows)(p, &t, j, conv_min(G(nr), stop - j), 0, t.images * t.rows, m + (j - o) / G(nr) * A * t.step, two);
        }
    }
}
