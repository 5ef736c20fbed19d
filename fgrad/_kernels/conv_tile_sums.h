/* Sums over positions (the gradient with respect to the kernel) on the tile unit: pairs along k are those of two images, so that a tap is an
 * offset here as well. A tile of the image is 16 positions of 16 features of x, in blocks [part][16 features][row][column]; one of the other
 * operand 16 features of 16 positions, packed for each block, with zeros between rows where those are one line (`flat`) and beyond their
 * end. Sums of a unit stay in its scratch until its chunk of blocks is done. Included by conv_body.h. */
#if CONV_TILED

/* Positions of x that a block of r1 x r2 taps needs, with columns that fit lines. */
static void conv_tile_cells(const FgConvPart *p, int64_t r1, int64_t r2, int64_t *rows, int64_t *cols) {
    *rows = (p->Q[1] - 1) * p->s[1] + (r1 - 1) * p->d[1] + 1;
    *cols = (p->Q[2] - 1) * p->s[2] + (r2 - 1) * p->d[2] + 1;
    if (p->flat) *cols = conv_ceil(*cols, p->d[2]) * p->d[2];
}
/* Steps along k of a block. */
static int64_t conv_tile_steps(const FgConvPart *p, int64_t r1, int64_t r2) {
    int64_t rows, cols;
    conv_tile_cells(p, r1, r2, &rows, &cols);
    return p->flat ? conv_ceil((r1 - 1) * (p->d[1] * cols / p->d[2]) + r2, 16) : r1 * conv_ceil(r2, 16);
}

/* One row of a block's panel of n <= 16 features as words of parts. */
AMX_CODE static void conv_tile_split(char *to, int64_t plane, const float *x, const float *y, int64_t n, AmxSeen *seen) {
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 m = amx_mask(n - i);
        char tile[192] __attribute__((aligned(64)));
        amx_split(tile, 64, _mm512_maskz_loadu_ps(m, x + i), _mm512_maskz_loadu_ps(m, y + i), seen);
        for (int part = 0; part < 3; part++) _mm512_mask_storeu_epi32(to + part * plane + 4 * i, m, _mm512_load_si512(tile + 64 * part));
    }
}

/* The block's positions, panel by panel; 0 where the unit cannot take them. `row` holds two of float32. */
static int conv_tile_fill(const FgConvPart *p, const FgFill *f, const char *x, int last, char *block, int64_t plane, float *row) {
    const FgConv *c = p->c;
    const int64_t cells = f->planes * f->rows * f->cols;
    AmxSeen seen = amx_seen();
    for (int64_t b = 0; b < c->B; b += 16) {
        const int64_t n = conv_min(16, c->B - b), line = f->cols * n;
        for (int64_t i = 0; i < f->planes; i++) for (int64_t j = 0; j < f->rows; j++) {
            FgFill one = {1, 1, f->cols, n, n == 1 ? 1 : c->xb, f->p0 + i * f->step, 0, f->p1 + j, f->p2, last ? 0 : n};
            char *to = block + (cells * b + (i * f->rows + j) * line) * 4;
            if ((uint64_t)one.p0 >= (uint64_t)p->L[0] || (uint64_t)one.p1 >= (uint64_t)p->L[1]) {
                for (int64_t k = 0; k < (c->pairs ? 1 : 3); k++) memset(to + k * plane, 0, (size_t)line * 4);
                continue;
            }
            if (c->pairs) { CONV_TILES_PAIR(p, &one, (const uint16_t *)x + b * c->xb, (float *)to); continue; }
            conv_fill_f32(p, &one, (const float *)x + b * c->xb, row);
            if (last) memset(row + line, 0, (size_t)line * 4); else conv_fill_f32(p, &one, (const float *)x + b * c->xb + c->xc, row + line);
            conv_tile_split(to, plane, row, row + line, line, &seen);
        }
    }
    for (int64_t k = 0; k < (c->pairs ? 1 : 3); k++) memset(block + k * plane + cells * c->B * 4, 0, (size_t)(16 * p->d[2] * 64));
    return c->pairs ? conv_tiles_finite(block, cells * c->B) : !amx_has_far(&seen) && !amx_has_tiny(&seen);
}

/* Tiles (step, part, 16 features) of the other operand, `n` <= 32 features of r1 x r2 positions at w; 0 as above. `rows` holds 16 features
 * (of two images) of all steps. */
AMX_CODE static int conv_tile_pack(const FgConvPart *p, const uint32_t *w, int64_t n, int64_t r1, int64_t r2, int last, char *to, uint32_t *rows) {
    const FgConv *c = p->c;
    const int64_t steps = conv_tile_steps(p, r1, r2), tiles = conv_ceil(n, 16), parts = c->pairs ? 1 : 3, images = c->pairs ? 1 : 2;
    const int64_t line = p->wr[2] == 1 ? steps * 16 : 1, k = p->wr[2] == 1 ? 1 : 16, size = steps * 256;
    int64_t high, cols, step;
    AmxSeen seen = amx_seen();
    conv_tile_cells(p, r1, r2, &high, &cols);
    step = p->flat ? p->d[1] * cols / p->d[2] : conv_ceil(r2, 16) * 16;
    for (int64_t j = 0; j < tiles; j++) {
        const int64_t lines = conv_min(16, n - 16 * j);
        memset(rows, 0, (size_t)(images * size) * 4);
        for (int64_t image = 0; image < images - (last && images > 1); image++) for (int64_t r = 0; r < r1; r++) {
            const uint32_t *from = w + image * c->wc + 16 * j * c->wo + r * p->wr[1];
            uint32_t *at = rows + image * size + r * step * k;
            if (k == 1) for (int64_t l = 0; l < lines; l++) memcpy(at + l * line, from + l * c->wo, (size_t)r2 * 4);
            else if (c->wo == 1 || lines == 1) for (int64_t i = 0; i < r2; i++)
                _mm512_mask_storeu_epi32(at + 16 * i, amx_mask(lines), _mm512_maskz_loadu_epi32(amx_mask(lines), from + i * p->wr[2]));
            else for (int64_t i = 0; i < r2; i++) for (int64_t l = 0; l < lines; l++) at[16 * i + l] = from[i * p->wr[2] + l * c->wo];
        }
        for (int64_t s = 0; s < steps; s++) {
            char *tile = to + (s * parts * tiles + j) * AMX_TILE;
            if (c->pairs) { amx_pack_pairs(tile, rows + 16 * s * k, line, k, 16, 16, 1); continue; }
            __m512i x[16], y[16];
            amx_read(x, rows + 16 * s * k, line, k, 16, 16);
            amx_read(y, rows + size + 16 * s * k, line, k, 16, 16);
            for (int i = 0; i < 16; i++) amx_split(tile + 64 * i, tiles * AMX_TILE, _mm512_castsi512_ps(x[i]), _mm512_castsi512_ps(y[i]), &seen);
        }
    }
    return c->pairs || (!amx_has_far(&seen) && !amx_has_tiny(&seen));
}

/* c = sums over n steps; the image's tiles begin at x + t.x, rows `step` bytes apart, those of its second panel `next` bytes further. */
#define CONV_TILE_B(N, p) AMX_LOAD(6, at + (p) * plane, step); if (N > 1) AMX_LOAD(7, at + (p) * plane + next, step);
#define CONV_TILE_KERNEL(M, N) \
static void conv_tile_##M##N(int parts, const FgTap *taps, int64_t n, const char *panel, const char *x, int64_t step, int64_t next, int64_t plane, float *c) { \
    enum { ldc = AMX_LINES }; \
    char spare[AMX_TILE] __attribute__((aligned(64))); \
    AMX_EACH_C(M, N, AMX_CLEAR, 0) \
    if (parts == 1) for (int64_t t = 0; t < n; t++) { \
        const char *at = x + taps[t].x, *a = panel + taps[t].w; \
        AMX_A(M, 0) CONV_TILE_B(N, 0) AMX_PRODUCTS(tdpbf16ps, M, N) \
        AMX_AWAKE(6, spare, t + 1, 1); \
    } else for (int64_t t = 0; t < n; t++) { \
        const char *at = x + taps[t].x, *a = panel + taps[t].w; \
        AMX_A(M, 2) CONV_TILE_B(N, 0) AMX_PRODUCTS(tdpbf16ps, M, N)      /* as in amx.h */ \
        AMX_A(M, 1) AMX_PRODUCTS(tdpbf16ps, M, N) \
        AMX_A(M, 0) AMX_PRODUCTS(tdpbf16ps, M, N) \
        CONV_TILE_B(N, 2) AMX_PRODUCTS(tdpbf16ps, M, N) \
        CONV_TILE_B(N, 1) AMX_PRODUCTS(tdpbf16ps, M, N) \
        AMX_A(M, 1) AMX_PRODUCTS(tdpbf16ps, M, N) \
        AMX_AWAKE(6, spare, t + 1, 3); \
    } \
    AMX_EACH_C(M, N, AMX_STORE, 4 * ldc) \
}
CONV_TILE_KERNEL(1, 1) CONV_TILE_KERNEL(1, 2) CONV_TILE_KERNEL(2, 1) CONV_TILE_KERNEL(2, 2)

static inline int64_t conv_tile_plane(const FgConvPart *p) { return (p->x_size + 16 * p->d[2] * 16 + 16) * 4 / 64 * 64; }

static inline int64_t conv_tile_features(const FgConvPart *p) { return p->joined ? p->Q[2] * p->c->B : p->c->B; }
static inline int64_t conv_tile_taps(const FgConvPart *p) { return p->Q[0] * p->Q[1] * (p->joined ? 1 : p->Q[2]); }

/* Bytes of what conv_tile_sums needs: a block, rows of it (or of the other operand), tiles, sums, steps. */
static int64_t conv_tile_sums_bytes(const FgConvPart *p, int which) {
    const int64_t steps = conv_tile_steps(p, p->block[0], p->block[1]), parts = p->c->pairs ? 1 : 3;
    const int64_t sums = conv_tile_taps(p) * p->slice * conv_ceil(conv_tile_features(p), AMX_LINES) * AMX_LINES;
    const int64_t sizes[5] = {parts * conv_tile_plane(p) + 4096 * p->d[2], conv_max(32 * (p->pitch + 32), steps * 512) * 4, steps * parts * p->slice / 16 * AMX_TILE,
                              sums * 4, steps * (int64_t)sizeof(FgTap)};
    int64_t sum = 0;
    for (int i = 0; i < which; i++) sum += (sizes[i] + 63) / 64 * 64;
    return sum;
}

/* Units (chunk, g, slice of O); sums as conv_sums'. 0 where there is what the unit cannot take. */
static int conv_tile_sums(const FgConvPart *p, int64_t begin, int64_t end, char *space) {
    const FgConv *c = p->c;
    const int64_t pairs = c->pairs ? c->C : conv_ceil(c->C, 2), parts = c->pairs ? 1 : 3, blocks[4] = {pairs, p->R[0], p->blocks[0], p->blocks[1]};
    const int64_t all = blocks[0] * blocks[1] * blocks[2] * blocks[3], taps = conv_tile_taps(p), plane = conv_tile_plane(p);
    const int64_t features = conv_tile_features(p), panels = conv_ceil(features, AMX_LINES), most = 16, across = p->joined ? 1 : p->Q[2];
    float *row = (float *)(space + conv_tile_sums_bytes(p, 1)), *sums = (float *)(space + conv_tile_sums_bytes(p, 3));
    char *tiles = space + conv_tile_sums_bytes(p, 2);
    FgTap *steps = (FgTap *)(space + conv_tile_sums_bytes(p, 4));
    float more[AMX_LINES * AMX_LINES] __attribute__((aligned(64)));
    int64_t at[4];
    for (int64_t u = begin; u < end; u++) {
        const int64_t cg = u / p->slices, g = cg % c->G, o0 = u % p->slices * p->slice, o1 = conv_min(c->O, o0 + p->slice);
        const int64_t first = all * (cg / c->G) / p->nk, end_k = all * (cg / c->G + 1) / p->nk;
        for (int64_t k = first; k < end_k; k++) {
            conv_index(k, blocks, 4, at);
            const int64_t r1 = at[2] * p->block[0], n1 = conv_min(p->R[1] - r1, p->block[0]), r2 = at[3] * p->block[1], n2 = conv_min(p->R[2] - r2, p->block[1]);
            const int64_t image = c->pairs ? at[0] : 2 * at[0], total = conv_tile_steps(p, n1, n2);
            const int last = 2 * at[0] + 1 >= (c->pairs ? c->pairs : c->C);
            FgFill f = {p->Q[0], 0, 0, c->B, 1, at[1] * p->d[0] - p->lo[0], p->s[0], r1 * p->d[1] - p->lo[1], r2 * p->d[2] - p->lo[2], 0};
            conv_tile_cells(p, n1, n2, &f.rows, &f.cols);
            if (!conv_tile_fill(p, &f, p->x + (g * c->xg + image * c->xc) * (c->pairs ? 2 : 4), last, space, plane, row)) return 0;
            const uint32_t *w = (const uint32_t *)p->w + p->w0 + g * c->wg + image * c->wc + at[1] * p->wr[0] + r1 * p->wr[1] + r2 * p->wr[2];
            for (int64_t o = o0; o < o1; o += AMX_LINES)
                if (!conv_tile_pack(p, w + o * c->wo, conv_min(AMX_LINES, o1 - o), n1, n2, last, tiles + (o - o0) / 16 * total * parts * AMX_TILE, (uint32_t *)row)) return 0;
            amx_begin();
            for (int64_t s0 = 0; s0 < total; s0 += most) for (int64_t o = o0; o < o1; o += AMX_LINES) {
                const int64_t m = conv_min(AMX_LINES, o1 - o), n = conv_min(most, total - s0), tile = conv_ceil(m, 16) * parts * AMX_TILE;
                const char *panel = tiles + (o - o0) / 16 * total * parts * AMX_TILE;
                for (int64_t b = 0; b < features; b += AMX_LINES) {
                    const int64_t nb = conv_min(AMX_LINES, features - b), w1 = conv_min(16, nb), cells = f.planes * f.rows * f.cols, per = conv_ceil(n2, 16);
                    const int two = nb > 16, w2 = (int)(nb - 16);
                    for (int64_t h = 0; h < (two && w2 < 16 && !p->joined ? 2 : 1); h++) {       /* a narrower second panel has rows of its own step */
                        const int64_t wide = p->joined ? c->B : h ? w2 : w1, first_b = p->joined ? b : cells * (b + 16 * h);
                        for (int64_t s = s0; s < s0 + n; s++)
                            steps[s - s0] = (FgTap){(p->flat ? 16 * s * p->d[2] : s / per * p->d[1] * f.cols + s % per * 16 * p->d[2]) * wide * 4, s * tile};
                        for (int64_t t = 0; t < taps; t++) {
                            const int64_t q2 = t % across, q1 = t / across % p->Q[1], q0 = t / across / p->Q[1];
                            const char *x = space + (first_b + ((q0 * f.rows + q1 * p->s[1]) * f.cols + q2 * p->s[2]) * wide) * 4;
                            float *c0 = sums + (((o - o0) / AMX_LINES * panels + b / AMX_LINES) * taps + t) * AMX_LINES * AMX_LINES + 16 * h;
                            const int once = k == first && s0 == 0, wider = two && (w2 == 16 || p->joined);
                            float *to = once ? c0 : more;
                            (m > 16 ? wider ? conv_tile_22 : conv_tile_21 : wider ? conv_tile_12 : conv_tile_11)((int)parts, steps, n, panel, x, p->d[2] * wide * 4, p->joined ? 64 : cells * 64, plane, to);
                            if (once) continue;
                            for (int64_t i = 0; i < (m > 16 ? 32 : 16); i++) for (int64_t l = 0; l < (wider ? 32 : 16); l++) c0[i * AMX_LINES + l] += more[i * AMX_LINES + l];
                        }
                    }
                }
            }
            amx_end();
        }
        for (int64_t o = o0; o < o1; o += AMX_LINES) for (int64_t b = 0; b < features; b += AMX_LINES) for (int64_t t = 0; t < taps; t++)
            conv_spread_f32(sums + (((o - o0) / AMX_LINES * panels + b / AMX_LINES) * taps + t) * AMX_LINES * AMX_LINES, AMX_LINES, conv_min(AMX_LINES, o1 - o), conv_min(AMX_LINES, features - b),
                            (float *)p->part + ((cg * taps + t) * features + b) * c->O + o, 1, c->O);
    }
    return 1;
}
#else
static int64_t conv_tile_sums_bytes(const FgConvPart *p, int which) { return 0; }
static int conv_tile_sums(const FgConvPart *p, int64_t begin, int64_t end, char *space) { return 0; }
#endif
