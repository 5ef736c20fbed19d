/* Few positions and a large kernel (one image of a late layer): units are panels of output features, each with all positions, so that the
 * kernel is read once, packed by blocks of input features that stay in the second cache. All inputs are copied first, padded, features
 * last, unless they lie so. Included by conv_dense.h; N(name) and G(name) are its. */

#ifdef CONV_PAIRED
#define CONV_WORDS(name) name##_f32           /* pairs are moved as float32 */
#else
#define CONV_WORDS(name) N(name)
#endif

/* Inputs of all positions. */
static FgFill N(conv_inputs)(const FgConvPart *p) {
    const FgConv *c = p->c;
    return (FgFill){(p->Q[0] - 1) * p->s[0] + (p->R[0] - 1) * p->d[0] + 1, (p->Q[1] - 1) * p->s[1] + (p->R[1] - 1) * p->d[1] + 1,
                    (p->Q[2] - 1) * p->s[2] + (p->R[2] - 1) * p->d[2] + 1, c->C, c->C == 1 ? 1 : c->xc, -p->lo[0], 1, -p->lo[1], -p->lo[2],
                    c->pairs / 2};
}

/* Units (g, b, plane, row): inputs to p->part. */
static void N(conv_columns_fill)(const FgConvPart *p, int64_t begin, int64_t end) {
    const FgConv *c = p->c;
    const FgFill all = N(conv_inputs)(p);
    const int64_t sizes[4] = {c->G, c->B, all.planes, all.rows};
    int64_t at[4];
    for (int64_t u = begin; u < end; u++) {
        FgFill f = all;
        conv_index(u, sizes, 4, at);
        f.planes = f.rows = 1;
        f.p0 += at[2];
        f.p1 += at[3];
        N(conv_fill)(p, &f, (const N(conv_input) *)p->x + at[0] * c->xg + at[1] * c->xb, (T *)p->part + u * all.cols * c->C);
    }
}

/* Units (g, panel of O) of n parts, of which several share the whole kernel. `w` holds a block of a panel, `sums` those of all positions,
 * rows of whole vectors. */
static void N(conv_columns)(const FgConvPart *parts, int64_t n, int64_t begin, int64_t end, T *w, T *sums, FgTap *taps) {
    const FgConv *c = parts->c;
    const int64_t panels = conv_ceil(c->O, G(nr)), blocks = conv_ceil(c->C, parts->kt);
    FgConvPart all = *parts;                              /* of which the kernel is packed */
    if (n > 1) {
        memcpy(all.R, c->R, sizeof all.R);
        memcpy(all.wr, c->ws, sizeof all.wr);
        all.w0 = 0;
    }
    const int sign = CONV_WORDS(conv_sign)(&all);
    int64_t at[3];
    for (int64_t u = begin; u < end; u++) {
        const int64_t g = u / panels, o = u % panels * G(nr), nb = conv_min(G(nr), c->O - o), wide = G(width)(nb);
        for (int64_t k = 0; k < blocks; k++) {
            const int64_t first = c->C * k / blocks, C = c->C * (k + 1) / blocks - first;
            T *to = sums;
            CONV_WORDS(conv_pack_panel)(&all, sign, (const T *)all.w + all.w0 + g * c->wg + o * c->wo + first * c->wc, nb, C, w);
            for (const FgConvPart *p = parts; p < parts + n; p++) {
                const FgFill f = N(conv_inputs)(p);
                const int64_t rows[3] = {c->B, p->Q[0], p->Q[1]};
                const int64_t pixel = p->in_place ? p->xs[2] : c->C, line = p->in_place ? p->xs[1] : f.cols * c->C;
                const int64_t plane = p->in_place ? p->xs[0] : f.rows * line, image = p->in_place ? c->xb : f.planes * plane;
                const T *from = p->in_place ? (const T *)p->x + g * c->xg - p->lo[0] * plane - p->lo[1] * line - p->lo[2] * pixel
                                            : (const T *)p->part + g * c->B * image;
                const int64_t none[3] = {0, 0, 0}, one[3] = {1, 1, 1}, *r0 = n > 1 ? p->r0 : none, *rs = n > 1 ? p->rs : one;
                for (int64_t i = 0; i < c->B * p->Q[0] * p->Q[1]; i++, to += p->Q[2] * wide) {
                    int64_t count = 0;
                    conv_index(i, rows, 3, at);
                    for (int64_t t = 0; t < p->R[0] * p->R[1]; t++) {
                        int64_t t0 = t / p->R[1], t1 = t % p->R[1], p0 = at[1] * p->s[0] + t0 * p->d[0], p1 = at[2] * p->s[1] + t1 * p->d[1];
                        if ((uint64_t)(p0 - p->lo[0]) >= (uint64_t)p->L[0] || (uint64_t)(p1 - p->lo[1]) >= (uint64_t)p->L[1]) continue;
                        const int64_t tap = ((r0[0] + t0 * rs[0]) * all.R[1] + r0[1] + t1 * rs[1]) * all.R[2] + r0[2];
                        for (int64_t r = 0; r < p->R[2]; r++)
                            taps[count++] = (FgTap){at[0] * image + p0 * plane + p1 * line + r * p->d[2] * pixel + first, (tap + r * rs[2]) * C * wide};
                    }
                    N(conv_column)(p->Q[2], nb, taps, count, C, from, p->s[2] * pixel, 1, w, wide, to, wide, k > 0);
                }
            }
        }
        const T *from = sums;
        for (const FgConvPart *p = parts; p < parts + n; p++) {
            const int64_t rows[3] = {c->B, p->Q[0], p->Q[1]};
            for (int64_t i = 0; i < c->B * p->Q[0] * p->Q[1]; i++, from += p->Q[2] * wide) {
                conv_index(i, rows, 3, at);
                N(conv_put)(p, from, wide, p->Q[2], nb,
                            p->o0 + g * c->og + at[0] * c->ob + o * c->oo + at[1] * p->os[0] + at[2] * p->os[1], p->os[2], c->oo);
            }
        }
    }
}
#undef CONV_WORDS
