/* Convolutions with 3x3 windows and no strides by Winograd's F(2x2, 3x3): 16 products for 4 outputs instead of 36.
 * Tiles of 4x4 inputs become 16 matrices (tile, C), the kernel 16 matrices (C, O), and the products tiles of 2x2 outputs:
 * Y = A^T [(G g G^T) * (B^T d B)] A.  Its constants are 0, 1, -1 and 1/2. Included by conv_loops.h after conv_dense.h. */

/* Four numbers (or vectors) times B^T, G and A^T. */
#ifndef CONV_BT
#define CONV_BT(r, d0, d1, d2, d3) do { \
    r[0] = d0 - d2; r[1] = d1 + d2; r[2] = d2 - d1; r[3] = d1 - d3; } while (0)
#define CONV_GT(r, g0, g1, g2) do { \
    G(vec) s_ = (g0 + g2) * (T)0.5, h_ = g1 * (T)0.5; \
    r[0] = g0; r[1] = s_ + h_; r[2] = s_ - h_; r[3] = g2; } while (0)
#endif

/* Units (g, panel of O): the kernel's 16 matrices, in panels of columns, from panels of taps. */
static void N(conv_winograd_w)(const FgConvPart *p, int64_t begin, int64_t end, const T *w, T *dst) {
    const FgConv *c = p->c;
    const int64_t panels = conv_ceil(c->O, G(nr)), wide = G(width)(c->O);
    for (int64_t u = begin; u < end; u++) {
        int64_t g = u / panels, o = u % panels * G(nr), size = c->C * G(width)(conv_min(G(nr), c->O - o));
        const T *from = w + (g * wide + o) * c->C * 9;
        T *to = dst + (g * wide + o) * c->C * 16;
        for (int64_t i = 0; i < size; i += G(lanes)) {
            G(vec) t[3][4], r[4];
            GEMM_UNROLL for (int j = 0; j < 3; j++) {
                const T *tap = from + j * size + i;
                CONV_GT(t[j], *(const G(mem) *)tap, *(const G(mem) *)(tap + 3 * size), *(const G(mem) *)(tap + 6 * size));
            }
            GEMM_UNROLL for (int k = 0; k < 4; k++) {
                CONV_GT(r, t[0][k], t[1][k], t[2][k]);
                GEMM_UNROLL for (int j = 0; j < 4; j++) *(G(mem) *)(to + (k * 4 + j) * size + i) = r[j];
            }
        }
    }
}

/* The inputs' 16 matrices (rows x cols tiles, C), from rows of `wide` pixels. */
static void N(conv_winograd_x)(const T *x, int64_t wide, int64_t rows, int64_t cols, int64_t C, T *v) {
    int64_t size = rows * cols * C;
    for (int64_t i = 0; i < rows; i++) for (int64_t j = 0; j < cols; j++) for (int64_t k = 0; k < C; k += G(lanes)) {
        const T *from = x + (2 * i * wide + 2 * j) * C + k;
        T *to = v + (i * cols + j) * C + k;
        int64_t n = conv_min(G(lanes), C - k);
        G(vec) t[4][4], r[4];
        GEMM_UNROLL for (int b = 0; b < 4; b++) {
            const T *pixel = from + b * C;
            GEMM_UNROLL for (int a = 0; a < 4; a++) r[a] = G(load)(pixel + a * wide * C, n);
            CONV_BT(t[b], r[0], r[1], r[2], r[3]);
        }
        GEMM_UNROLL for (int a = 0; a < 4; a++) {
            CONV_BT(r, t[0][a], t[1][a], t[2][a], t[3][a]);
            GEMM_UNROLL for (int b = 0; b < 4; b++) G(store)(to + (a * 4 + b) * size, r[b], n);
        }
    }
}

/* Two rows of outputs, `row` apart and each `step` from the next, from the products of a row of tiles: (16, size). */
static void N(conv_winograd_y)(const T *m, int64_t size, int64_t w, int64_t n, int64_t rows, int64_t cols, T *out, int64_t row,
                               int64_t step) {
    for (int64_t j = 0; j < cols; j += 2, m += w) for (int64_t k = 0; k < n; k += G(lanes)) {
        int64_t tail = conv_min(G(lanes), n - k);
        G(vec) s[4][2];
        GEMM_UNROLL for (int b = 0; b < 4; b++) {
            const T *at = m + b * size + k;
            G(vec) m0 = *(const G(mem) *)at, m1 = *(const G(mem) *)(at + 4 * size), m2 = *(const G(mem) *)(at + 8 * size);
            s[b][0] = m0 + m1 + m2;
            s[b][1] = m1 - m2 - *(const G(mem) *)(at + 12 * size);
        }
        GEMM_UNROLL for (int i = 0; i < 2; i++) {
            T *to = out + i * row + j * step + k;
            if (i < rows) G(store)(to, s[0][i] + s[1][i] + s[2][i], tail);
            if (i < rows && j + 1 < cols) G(store)(to + step, s[1][i] - s[2][i] - s[3][i], tail);
        }
    }
}

/* Units (g, b, q0, block of rows of tiles, of columns).  `x` holds a block's inputs and their matrices, `m` the products and two rows. */
static void N(conv_winograd)(const FgConvPart *p, int64_t begin, int64_t end, T *x, T *m) {
    const FgConv *c = p->c;
    const int64_t sizes[5] = {c->G, c->B, p->Q[0], p->blocks[0], p->blocks[1]}, wide = G(width)(c->O), C = c->C;
    const FgTap whole = {0, 0};
    int64_t at[5];
    for (int64_t u = begin; u < end; u++) {
        conv_index(u, sizes, 5, at);
        int64_t q1 = 2 * at[3] * p->block[0], q2 = 2 * at[4] * p->block[1], n2 = conv_min(p->Q[2] - q2, 2 * p->block[1]);
        int64_t rows = conv_min(p->block[0], conv_ceil(p->Q[1] - q1, 2)), cols = conv_ceil(n2, 2), tiles = rows * cols;
        FgFill f = {1, 2 * rows + 2, 2 * cols + 2, C, c->xc, at[2] * p->s[0] - p->lo[0], 1, q1 - p->lo[1], q2 - p->lo[2]};
        T *v = x + f.rows * f.cols * C + G(lanes), *two = m + 16 * tiles * G(nr);
        for (int64_t i = 0; i < f.rows; i++)
            if ((uint64_t)f.p0 >= (uint64_t)p->L[0] || (uint64_t)(f.p1 + i) >= (uint64_t)p->L[1])
                memset(x + i * f.cols * C, 0, (size_t)(f.cols * C) * sizeof(T));
        N(conv_fill)(p, &f, (const T *)p->x + at[0] * c->xg + at[1] * c->xb, x);
        N(conv_winograd_x)(x, f.cols, rows, cols, C, v);
        for (int64_t o = 0; o < c->O; o += G(nr)) {
            int64_t nb = conv_min(G(nr), c->O - o), w = G(width)(nb);
            const T *panel = (const T *)p->w + (at[0] * wide + o) * C * 16;
            T *out = (T *)p->out + p->o0 + at[0] * c->og + at[1] * c->ob + o * c->oo + at[2] * p->os[0] + q1 * p->os[1] + q2 * p->os[2];
            for (int64_t k = 0; k < 16; k++)
                N(conv_column)(tiles, nb, &whole, 1, C, v + k * tiles * C, C, 1, panel + k * C * w, w, m + k * tiles * w, w, 0);
            for (int64_t i = 0; i < rows; i++, out += 2 * p->os[1]) {
                int64_t left = conv_min(2, p->Q[1] - q1 - 2 * i);
                const T *from = m + i * cols * w;
                if (c->oo == 1) {
                    N(conv_winograd_y)(from, tiles * w, w, nb, left, n2, out, p->os[1], p->os[2]);
                    continue;
                }
                N(conv_winograd_y)(from, tiles * w, w, nb, left, n2, two, n2 * w, w);
                for (int64_t j = 0; j < left; j++)
                    N(conv_spread)(two + j * n2 * w, w, n2, nb, out + j * p->os[1], p->os[2], c->oo);
            }
        }
    }
}
