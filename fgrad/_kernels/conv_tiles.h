/* Dense convolutions on the tile unit (amx.h). Input rows are filled into blocks as conv_dense.h fills them, float32 split into planes of its
 * parts; there 16 neighbouring outputs are a tile's rows, so that a tap is an offset and nothing is copied per window. A run of taps along a
 * row that lie side by side is cut into steps of 64 bytes; where it ends within one the kernel has zeros, and the block must be finite.
 * The kernel's panels (conv_pack_panels) are packed into tiles, once. A block of elements that the unit cannot take, and one under such a
 * kernel, is conv_dense's. Included by conv_body.h after the loops of both dtypes. */
#if CONV_TILED

/* A row of three tiles of parts whose pairs are neighbours: `n` <= 32 float32 */
AMX_CODE static inline void conv_split(char *to, int64_t plane, const float *from, int64_t n, AmxSeen *seen) {
    const __m512i upper = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    const __mmask32 m = n >= 32 ? 0xffffffffu : (1u << n) - 1;
    __m512 x = _mm512_maskz_loadu_ps((__mmask16)m, from), y = _mm512_maskz_loadu_ps((__mmask16)(m >> 16), from + 16);
    amx_see(seen, x);
    amx_see(seen, y);
    for (int part = 0; part < 3; part++, to += plane) {
        __m512i px = part < 2 ? amx_near(x) : _mm512_castps_si512(x), py = part < 2 ? amx_near(y) : _mm512_castps_si512(y);
        _mm512_mask_storeu_epi16(to, m, _mm512_permutex2var_epi16(px, upper, py));
        x = _mm512_sub_ps(x, _mm512_castsi512_ps(px));
        y = _mm512_sub_ps(y, _mm512_castsi512_ps(py));
    }
}

/* Is a bfloat16 infinite or not a number?  `n` pairs. */
AMX_CODE static int conv_tiles_finite(const char *from, int64_t n) {
    const __m512i most = _mm512_set1_epi16(0x7f80);
    __mmask32 bad = 0;
    for (int64_t i = 0; i < n; i += 16) {
        __m512i x = _mm512_maskz_loadu_epi32(amx_mask(n - i), from + 4 * i);
        bad |= _mm512_cmpge_epu16_mask(_mm512_and_si512(x, _mm512_set1_epi16(0x7fff)), most);
    }
    return bad == 0;
}

/* Has a position nothing but small elements, some of them tiny? */
static int conv_tiles_tiny(const float *row, int64_t features, int64_t n) { return amx_has_small_line(row, features, 1, n, features); }

static inline int64_t conv_tiles_plane(const FgConvPart *p) {       /* bytes of a plane of a block: a step may begin at its last element */
    return (p->x_size * (p->c->pairs ? 4 : 2) + 127) / 64 * 64;
}
static inline int64_t conv_tiles_line(const FgConvPart *p) { return p->flat ? (p->block[0] - 1) * p->pitch + p->block[1] : p->block[1]; }
static inline int64_t conv_tiles_steps(const FgConvPart *p) { return p->R[0] * p->R[1] * p->runs * p->steps; }

/* Units (g, panel of O): tiles of the kernel from its panels; 1 if there is what the unit cannot take. */
AMX_CODE static int conv_tiles_w(const FgConvPart *p, int64_t begin, int64_t end, const float *w, char *dst) {
    const FgConv *c = p->c;
    const int64_t panels = conv_ceil(c->O, AMX_LINES), parts = c->pairs ? 1 : 3, each = c->pairs ? 16 : 32, all = p->R[0] * p->R[1] * p->runs;
    const int64_t kc = p->R[2] / p->runs * c->C;
    AmxSeen seen = amx_seen();
    for (int64_t u = begin; u < end; u++) {
        const int64_t o = u % panels * AMX_LINES, n = conv_min(AMX_LINES, c->O - o), tiles = conv_ceil(n, 16), wide = 16 * tiles;
        const float *from = w + u / panels * p->wg + o * all * kc;
        char *to = dst + (u / panels * conv_ceil(c->O, 16) + o / 16) * all * p->steps * parts * AMX_TILE;
        for (int64_t t = 0; t < all; t++) for (int64_t k = 0; k < kc; k += each, to += parts * tiles * AMX_TILE) for (int64_t j = 0; j < tiles; j++) {
            const float *at = from + (t * kc + k) * wide + 16 * j;
            const int64_t left = conv_min(each, kc - k);
            char *tile = to + j * AMX_TILE;
            if (c->pairs) for (int i = 0; i < 16; i++) _mm512_store_si512(tile + 64 * i, i < left ? _mm512_loadu_si512(at + i * wide) : _mm512_setzero_si512());
            else for (int i = 0; i < 16; i++) {
                __m512 x = 2 * i < left ? _mm512_loadu_ps(at + 2 * i * wide) : _mm512_setzero_ps();
                __m512 y = 2 * i + 1 < left ? _mm512_loadu_ps(at + (2 * i + 1) * wide) : _mm512_setzero_ps();
                amx_split(tile + 64 * i, tiles * AMX_TILE, x, y, &seen);
            }
        }
    }
    if (c->pairs) return 0;
    if (amx_has_far(&seen)) return 1;
    if (amx_has_tiny(&seen)) for (int64_t u = begin; u < end; u++) {
        const int64_t o = u % panels * AMX_LINES, n = conv_min(AMX_LINES, c->O - o);
        if (amx_has_small_line(w + u / panels * p->wg + o * all * kc, 1, conv_ceil(n, 16) * 16, n, all * kc)) return 1;
    }
    return 0;
}

/* Up to 32 outputs by up to 32 features: sums over n steps, whose tiles of inputs begin at a + t.x, 16 rows `step` bytes apart, parts `plane`
 * apart, and those of the kernel at b + t.w. */
#define CONV_TILES_A(M, p) AMX_LOAD(4, at + (p) * plane, step); if (M > 1) AMX_LOAD(5, at + (p) * plane + 16 * step, step);
#define CONV_TILES_KERNEL(M, N) \
static void conv_tiles_##M##N(int parts, const FgTap *taps, int64_t n, const char *a, int64_t step, int64_t plane, const char *panel, float *c, int64_t ldc) { \
    char spare[AMX_TILE] __attribute__((aligned(64))); \
    AMX_EACH_C(M, N, AMX_CLEAR, 0) \
    if (parts == 1) for (int64_t t = 0; t < n; t++) { \
        const char *at = a + taps[t].x, *b = panel + taps[t].w; \
        AMX_B(N, 0) CONV_TILES_A(M, 0) AMX_PRODUCTS(tdpbf16ps, M, N) \
        AMX_AWAKE(6, spare, t + 1, 1); \
    } else for (int64_t t = 0; t < n; t++) { \
        const char *at = a + taps[t].x, *b = panel + taps[t].w; \
        CONV_TILES_A(M, 2) AMX_B(N, 0) AMX_PRODUCTS(tdpbf16ps, M, N)      /* as in amx.h */ \
        CONV_TILES_A(M, 1) AMX_PRODUCTS(tdpbf16ps, M, N) \
        CONV_TILES_A(M, 0) AMX_PRODUCTS(tdpbf16ps, M, N) \
        AMX_B(N, 2) AMX_PRODUCTS(tdpbf16ps, M, N) \
        AMX_B(N, 1) AMX_PRODUCTS(tdpbf16ps, M, N) \
        CONV_TILES_A(M, 1) AMX_PRODUCTS(tdpbf16ps, M, N) \
        AMX_AWAKE(6, spare, t + 1, 3); \
    } \
    AMX_EACH_C(M, N, AMX_STORE, 4 * ldc) \
}
CONV_TILES_KERNEL(1, 1) CONV_TILES_KERNEL(1, 2) CONV_TILES_KERNEL(2, 1) CONV_TILES_KERNEL(2, 2)

/* The sums of a line of m outputs, by pieces of taps that are summed before they are added. */
static void conv_tiles_sums(int64_t m, int64_t nb, int parts, const FgTap *taps, int64_t n, const char *a, int64_t step, int64_t plane, const char *panel, float *c) {
    const int64_t most = parts == 1 ? 48 : 16, pieces = conv_max(1, conv_ceil(n, most));
    float more[AMX_LINES * AMX_LINES] __attribute__((aligned(64)));
    for (int64_t i = 0; i < m; i += AMX_LINES) {
        const int two = m - i > 16;
        for (int64_t k = 0; k < pieces; k++) {
            const int64_t first = n * k / pieces, count = n * (k + 1) / pieces - first;
            float *to = k ? more : c + i * AMX_LINES;
            (two ? nb > 16 ? conv_tiles_22 : conv_tiles_21 : nb > 16 ? conv_tiles_12 : conv_tiles_11)(parts, taps + first, count, a + i * step, step, plane, panel, to, AMX_LINES);
            if (k) for (int64_t j = 0; j < (two ? 32 : 16) * AMX_LINES; j++) c[i * AMX_LINES + j] += more[j];
        }
    }
}

/* The inputs of a block, and zeros beyond the image; 0 where the unit cannot take them. `row` holds one of float32. */
static int conv_tiles_fill(const FgConvPart *p, const FgFill *f, const char *x, char *block, float *row) {
    const FgConv *c = p->c;
    const int64_t plane = conv_tiles_plane(p), line = f->cols * c->C, item = c->pairs ? 4 : 2, parts = c->pairs ? 1 : 3;
    for (int64_t i = 0; i < f->planes; i++) for (int64_t j = 0; j < f->rows; j++) {
        FgFill one = *f;
        char *to = block + (i * f->rows + j) * line * item;
        one.planes = one.rows = 1;
        one.p0 += i * f->step;
        one.p1 += j;
        if ((uint64_t)one.p0 >= (uint64_t)p->L[0] || (uint64_t)one.p1 >= (uint64_t)p->L[1]) {
            for (int64_t k = 0; k < parts; k++) memset(to + k * plane, 0, (size_t)(line * item));
            continue;
        }
        if (c->pairs) { CONV_TILES_PAIR(p, &one, (const uint16_t *)x, (float *)to); continue; }
        conv_fill_f32(p, &one, (const float *)x, row);
        AmxSeen here = amx_seen();
        for (int64_t k = 0; k < line; k += 32) conv_split(to + 2 * k, plane, row + k, line - k, &here);
        if (amx_has_far(&here) || (amx_has_tiny(&here) && conv_tiles_tiny(row, c->C, f->cols))) return 0;
    }
    for (int64_t k = 0, all = f->planes * f->rows * line * item; k < parts; k++) memset(block + k * plane + all, 0, 64);
    return !c->pairs || p->R[2] / p->runs * c->C % 16 == 0 || conv_tiles_finite(block, f->planes * f->rows * line);
}

/* Bytes of what conv_tiles needs: a block, a row of it, a line of sums, steps; and what conv_dense does. */
static int64_t conv_tiles_bytes(const FgConvPart *p, int which) {
    const int64_t parts = p->c->pairs ? 1 : 3, beyond = AMX_LINES * p->s[2] * p->c->C * 4 + 256, taps = p->R[0] * p->R[1] * p->R[2];
    const int64_t sizes[6] = {parts * conv_tiles_plane(p) + beyond, p->x_size * 4 + 64, (conv_tiles_line(p) + AMX_LINES) * AMX_LINES * 4,
                              conv_tiles_steps(p) * (int64_t)sizeof(FgTap), p->w_size * 4 + 64, taps * (int64_t)sizeof(FgTap)};
    int64_t sum = 0;
    for (int i = 0; i < which; i++) sum += (sizes[i] + 63) / 64 * 64;
    return sum;
}

/* A block of outputs: its digits, sizes and inputs. */
typedef struct { int64_t at[5], q1, q2, rows, n2; FgFill f; } FgTileBlock;
static FgTileBlock conv_tiles_block(const FgConvPart *p, int64_t u) {
    const FgConv *c = p->c;
    const int64_t sizes[5] = {c->G, c->B, p->Q[0], p->blocks[0], p->blocks[1]};
    FgTileBlock k;
    conv_index(u, sizes, 5, k.at);
    k.q1 = k.at[3] * p->block[0];
    k.q2 = k.at[4] * p->block[1];
    k.rows = conv_min(p->Q[1] - k.q1, p->block[0]);
    k.n2 = conv_min(p->Q[2] - k.q2, p->block[1]);
    k.f = conv_block_f32(p, k.at);
    if (p->flat) k.f.cols = p->pitch * p->s[2] / p->s[1];
    return k;
}
static inline int64_t conv_tiles_blocks(const FgConvPart *p) { return p->c->B * p->Q[0] * p->blocks[0] * p->blocks[1]; }      /* of a group */
static inline int64_t conv_tiles_size(const FgConvPart *p) { return conv_tiles_bytes(p, 1); }                           /* bytes of one */

/* Fill block u; where the unit cannot take it, compute its outputs the other way, and 0. */
static int conv_tiles_ready(const FgConvPart *p, int64_t u, const FgTileBlock *k, char *block, char *space) {
    const FgConv *c = p->c;
    float *x = (float *)(space + conv_tiles_bytes(p, 1));
    if (!p->far && conv_tiles_fill(p, &k->f, p->x + (k->at[0] * c->xg + k->at[1] * c->xb) * (c->pairs ? 2 : 4), block, x)) return 1;
    CONV_TILES_OTHER(p, u, u + 1, x, (float *)(space + conv_tiles_bytes(p, 4)), (FgTap *)(space + conv_tiles_bytes(p, 5)));
    return 0;
}

/* Outputs of 32 features from o on, of a block. */
static void conv_tiles_panel(const FgConvPart *p, const FgTileBlock *k, int64_t o, const char *block, char *space) {
    const FgConv *c = p->c;
    const FgFill *f = &k->f;
    const int64_t parts = c->pairs ? 1 : 3, pixel = c->C * (c->pairs ? 4 : 2), plane = conv_tiles_plane(p), total = conv_tiles_steps(p);
    const int64_t nb = conv_min(AMX_LINES, c->O - o), tile = conv_ceil(nb, 16) * parts * AMX_TILE, lines = p->flat ? k->rows : 1;
    const char *w = p->tiles + (k->at[0] * conv_ceil(c->O, 16) + o / 16) * total * parts * AMX_TILE;
    float *sums = (float *)(space + conv_tiles_bytes(p, 2));
    FgTap *taps = (FgTap *)(space + conv_tiles_bytes(p, 3));
    for (int64_t q = 0; q < k->rows; q += lines) {
        int64_t n = 0;
        for (int64_t t = 0; t < p->R[0] * p->R[1]; t++) {
            const int64_t r0 = t / p->R[1], r1 = t % p->R[1], p0 = f->p0 + r0 * f->step, p1 = q * p->s[1] + r1 * p->d[1];
            if (!p->flat && ((uint64_t)p0 >= (uint64_t)p->L[0] || (uint64_t)(f->p1 + p1) >= (uint64_t)p->L[1])) continue;
            for (int64_t r = 0; r < p->runs; r++) for (int64_t s = 0; s < p->steps; s++)
                taps[n++] = (FgTap){((r0 * f->rows + p1) * f->cols + r * p->d[2]) * pixel + 64 * s, ((t * p->runs + r) * p->steps + s) * tile};
        }
        conv_tiles_sums((lines - 1) * p->pitch + k->n2, nb, (int)parts, taps, n, block, p->s[2] * pixel, plane, w, sums);
        for (int64_t i = 0; i < lines; i++) {
            const int64_t to = p->o0 + k->at[0] * c->og + k->at[1] * c->ob + o * c->oo + k->at[2] * p->os[0] + (k->q1 + q + i) * p->os[1] + k->q2 * p->os[2];
            CONV_TILES_PUT(p, sums + i * p->pitch * AMX_LINES, AMX_LINES, k->n2, nb, to, p->os[2], c->oo);
        }
    }
}

/* Units as conv_dense's. In phase 1 they fill their blocks only; units of phase 2 are panels of O, (g, o), of all blocks. */
static void conv_tiles(const FgConvPart *p, int64_t begin, int64_t end, char *space) {
    const int64_t panels = conv_ceil(p->c->O, AMX_LINES), blocks = conv_tiles_blocks(p), size = conv_tiles_size(p);
    char *ready = p->part + p->c->G * blocks * size;
    for (int64_t u = begin; u < end; u++) {
        if (p->phase == 2) {
            amx_begin();
            for (int64_t i = u / panels * blocks; i < (u / panels + 1) * blocks; i++) if (ready[i]) {
                const FgTileBlock k = conv_tiles_block(p, i);
                conv_tiles_panel(p, &k, u % panels * AMX_LINES, p->part + i * size, space);
            }
            amx_end();
            continue;
        }
        const FgTileBlock k = conv_tiles_block(p, u);
        if (p->phase == 1) { ready[u] = (char)conv_tiles_ready(p, u, &k, p->part + u * size, space); continue; }
        if (!conv_tiles_ready(p, u, &k, space, space)) continue;
        amx_begin();
        for (int64_t o = 0; o < p->c->O; o += AMX_LINES) conv_tiles_panel(p, &k, o, space, space);
        amx_end();
    }
}
#else
static int conv_tiles_w(const FgConvPart *p, int64_t begin, int64_t end, const float *w, char *dst) { return 1; }
static int64_t conv_tiles_steps(const FgConvPart *p) { return 0; }
static int64_t conv_tiles_bytes(const FgConvPart *p, int which) { return 0; }
static int64_t conv_tiles_blocks(const FgConvPart *p) { return 0; }
static int64_t conv_tiles_size(const FgConvPart *p) { return 0; }
static void conv_tiles(const FgConvPart *p, int64_t begin, int64_t end, char *space) {}
#endif
