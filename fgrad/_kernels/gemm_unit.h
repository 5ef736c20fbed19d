/* Units of a product for one element type T; included by gemm_job.h for each. */

GEMM_INLINE T *N(at)(const GemmJob *j, T *c, int64_t row, int64_t col) {
    return j->turned ? c + col * j->ldc + row : c + row * j->ldc + col;
}

/* A block of c (rows, n), its rows `from` apart, to where c lies with contiguous columns; `add` as for a tile. */
static void N(turn)(const T *tile, int64_t from, int64_t rows, int64_t n, T *c, int64_t ldc, int add) {
    const int64_t L = N(lanes);
    if (!add && rows == ldc && rows < 8) { N(rows_of)(c, tile, from, n, rows); return; }
    for (int64_t j = 0; j < n; j += L) for (int64_t i = 0; i < rows; i += L) {
        int64_t w = n - j < L ? n - j : L, h = rows - i < L ? rows - i : L;
        T *to = c + j * ldc + i;
        N(vec) x[N(lanes)];
        if (!add && w == L && h == L) { N(square)(to, ldc, tile + i * from + j, from); continue; }
        for (int64_t r = 0; r < L; r++) x[r] = r < h ? N(load)(tile + (i + r) * from + j, w) : (N(vec)){0};
#if GEMM_HAS_SHUFFLE
        N(transpose)(x);
        for (int64_t s = 0; s < w; s++) N(store)(to + s * ldc, add ? N(load)(to + s * ldc, h) + x[s] : x[s], h);
#else
        for (int64_t s = 0; s < w; s++) for (int64_t r = 0; r < h; r++) to[s * ldc + r] = x[r][s] + (add ? to[s * ldc + r] : 0);
#endif
    }
}

/* A tile of sums that were made elsewhere, its rows `from` apart, to c. */
static void N(bring)(const GemmJob *j, const T *tile, int64_t from, int64_t rows, int64_t n, T *to, int add) {
    if (j->turned) { N(turn)(tile, from, rows, n, to, j->ldc, add); return; }
    for (int64_t r = 0; r < rows; r++, tile += from) {
        if (j->narrow) {                         /* `to` counts in elements of c, whatever their size */
            if (sizeof(T) == 4) fg_narrow16(j->narrow, (const float *)tile, (uint16_t *)j->c + (to - (T *)j->c) + r * j->ldc, n);
        } else if (add) for (int64_t i = 0; i < n; i++) to[r * j->ldc + i] += tile[i];
        else memcpy(to + r * j->ldc, tile, (size_t)n * sizeof(T));
    }
}

/* Panels [p0, p1) of rows and n columns over the piece of K from k on; b at `b`, where it lies or packed, is followed by what lies at `then`.
 * `sums` has room for these rows and the job's width where sums are made apart. */
static void N(piece)(const GemmJob *j, const T *a, const T *b, T *c, int64_t k, int64_t kc, int64_t p0, int64_t p1, int64_t n, const T *then, T *sums) {
    int64_t m0 = gemm_job_panel(j, p0), tiles = (n + N(nr) - 1) / N(nr), panels = p1 - p0;
#if GEMM_BYTES == 32
    if (j->strips) {
        const int64_t whole = n - n % N(nr), all = gemm_job_panels(j);
        for (int64_t p = p0, i = 0, end; p < p1; p++, i = end) {
            end = j->M * (p + 1) / all - m0;
            const int64_t rows = end - i, step = j->pack_b ? N(width)(n - whole) : j->rb;
            const T *panel = a + i * kc;
            T turned[GEMM_MR * GEMM_SHORT];
            if (!j->pack_a) { N(pack)(turned, rows, a + i * j->ra, rows, j->ra, j->ca, kc); panel = turned; }
            N(strips)[rows - 1](whole, kc, panel, b, j->pack_b ? N(nr) : j->rb, j->pack_b ? N(nr) * kc : N(nr), c + i * j->ldc, j->ldc);
            if (whole < n) N(tile_strided)((int)rows, n - whole, kc, panel, 1, rows, j->pack_b ? b + whole * kc : b + whole, step, c + i * j->ldc + whole, j->ldc, 0, 0, 0);
        }
        return;
    }
#endif
    const int own = j->apart || j->turned || j->narrow, last = !j->apart || k + kc >= j->K, more = j->apart ? k > 0 : !own && (j->add || k);
    for (int64_t u = 0; u < panels * tiles; u++) {
        int64_t p = p0 + (j->rows_first ? u / tiles : u % panels), t = (j->rows_first ? u % tiles : u / panels) * N(nr);
        int64_t i = gemm_job_panel(j, p) - m0, rows = gemm_job_panel(j, p + 1) - m0 - i, nb = n - t < N(nr) ? n - t : N(nr);
        T tile[GEMM_MR * N(nr)], *to = N(at)(j, c, i, t), *sum = j->apart ? sums + i * j->width + t * rows : own ? tile : to;
        /* The next tile comes while this one is used: in its first two panels, a line of each row in either, for both at once take longer than a panel. */
        int64_t next = t + N(nr) < n ? N(nr) : then - (b + t), ldc = own ? N(nr) : j->ldc;
        int fetches = j->fetch && p - p0 < (panels > 1 ? 2 : 1);
#ifndef GEMM_REAL
        if (j->cplx) N(complex_tile)((int)rows, nb, kc, a + i * j->ra, j->ra, j->ca, b + (j->pack_b ? t * kc : t), j->pack_b ? N(width)(nb) : j->rb, sum, ldc,
                                     more, fetches && p == p0 ? next : 0);
        else
#endif
        N(tile_strided)((int)rows, nb, kc, j->pack_a ? a + i * kc : a + i * j->ra, j->pack_a ? 1 : j->ra, j->pack_a ? rows : j->ca,
                        j->pack_b ? b + t * kc : b + t, j->pack_b ? N(width)(nb) : j->rb, sum, ldc, more,
                        j->pack_b ? (kc < GEMM_UNFETCHED ? GEMM_AHEAD * N(width)(nb) : 0) : fetches ? next + (p - p0) * N(lanes) : 0, j->pack_b || panels == 1 ? N(lanes) : 0);
        if (own && last) N(bring)(j, sum, N(nr), rows, nb, to, j->add || (!j->apart && k));
    }
}

/* Q panels of a whose rows are contiguous, panel q of rows [from[q], from[q + 1]), from column d on: lines that hold parts of several are read once,
 * and whole vectors spill into what is written later; returns where that would be too much. */
GEMM_INLINE int64_t N(pack_spilling)(const int Q, T *dst, const T *src, int64_t ca, int64_t kc, const int64_t *from) {
    int64_t d = 0;
    for (; d + GEMM_SPILL < kc; d++, src += ca) {
        __builtin_prefetch(src + GEMM_ROWS_AHEAD * ca + from[0]);
        if (Q > 1) __builtin_prefetch(src + GEMM_ROWS_AHEAD * ca + from[Q] - 1);
        GEMM_UNROLL for (int q = 0; q < Q; q++) {
            T *to = dst + from[q] * kc + d * (from[q + 1] - from[q]);
            __builtin_prefetch(to + 4 * GEMM_SPILL, 1);
            GEMM_UNROLL for (int l = 0; l < GEMM_MR; l += N(lanes)) *(N(mem) *)(to + l) = *(const N(mem) *)(src + from[q] + l);
        }
    }
    return d;
}

/* The same of up to GEMM_TOGETHER panels and all columns; `most` elements of a row may be read. */
static void N(pack_across)(T *dst, const T *src, int64_t ca, int64_t kc, const int64_t *from, int panels, int64_t most) {
    const int64_t L = N(lanes);
    for (int q = 0; q < panels; q++) {
        int64_t d = 0;
        int count = 1;
        if (panels - q >= GEMM_TOGETHER && from[q + GEMM_TOGETHER] + GEMM_SPILL <= most) d = N(pack_spilling)(count = GEMM_TOGETHER, dst, src, ca, kc, from + q);
        else if (from[q] + GEMM_SPILL <= most) d = N(pack_spilling)(1, dst, src, ca, kc, from + q);
        for (; d < kc; d++) for (int p = q; p < q + count; p++) {
            const int64_t rows = from[p + 1] - from[p];
            for (int64_t l = 0; l < rows; l += L)
                N(put)(dst + from[p] * kc + d * rows + l, N(load)(src + d * ca + from[p] + l, rows - l < L ? rows - l : L), dst + from[p + 1] * kc);
        }
        q += count - 1;
    }
}

/* Panels [p0, p1) of the entry `a` over the piece of K from k on. */
static void N(pack_rows)(const GemmJob *j, const T *a, int64_t p0, int64_t p1, int64_t k, int64_t kc, T *dst) {
    const int64_t m0 = gemm_job_panel(j, p0);
    a += k * j->ca;
    for (int64_t p = p0; p < p1; p += GEMM_TOGETHER) {
        const int count = p1 - p < GEMM_TOGETHER ? (int)(p1 - p) : GEMM_TOGETHER;
        const int64_t m = gemm_job_panel(j, p);
        int64_t from[GEMM_TOGETHER + 1];
        for (int q = 0; q <= count; q++) from[q] = gemm_job_panel(j, p + q) - m;
        if (j->ra == 1) N(pack_across)(dst + (m - m0) * kc, a + m, j->ca, kc, from, count, j->M - m);
        else for (int q = 0; q < count; q++)
            N(pack)(dst + (m - m0 + from[q]) * kc, from[q + 1] - from[q], a + (m + from[q]) * j->ra, from[q + 1] - from[q], j->ra, j->ca, kc);
    }
}

static void N(unit)(const GemmJob *j, int64_t unit, T *scratch) {
    int64_t parts = j->row_parts * j->col_parts, batch = unit / parts, r = unit % parts / j->col_parts, s = unit % j->col_parts;
    int64_t panels = gemm_job_panels(j), tiles = gemm_tiles(j), width = j->width;
    int64_t p0 = panels * r / j->row_parts, p1 = panels * (r + 1) / j->row_parts;
    int64_t n0 = tiles * s / j->col_parts * N(nr), n1 = tiles * (s + 1) / j->col_parts * N(nr);
    if (n1 > j->N) n1 = j->N;
    const T *a = (const T *)j->a + gemm_entry(j, batch, j->a1, j->a0);
    const int64_t b0 = gemm_entry(j, batch, j->b1, j->b0), blocks = n1 - n0 <= width ? 1 : gemm_up(n1 - n0, width);
    const T *b = (const T *)j->b + b0;
    T *c = (T *)j->c + gemm_entry(j, batch, j->c1, j->c0), *packed = scratch + j->block_size / (int64_t)sizeof(T);
    /* What is packed of a is a piece of K that all blocks of b meet, or all of K where sums stay in scratch. */
    const int by_k = j->pack_a && !j->apart;
    const int64_t outer = by_k ? j->nk : blocks, inner = by_k ? blocks : j->nk;
    for (int64_t h0 = p0, h1; h0 < p1; h0 = h1) {
        h1 = j->pack_a && p1 - h0 > j->tall ? h0 + j->tall : p1;
        const int64_t m0 = gemm_job_panel(j, h0), rows = gemm_job_panel(j, h1) - m0, height = j->rows_first ? h1 - h0 : GEMM_ROWS_BLOCK;
        if (j->pack_a && j->apart) for (int64_t k = 0; k < j->K; k += j->kc)
            N(pack_rows)(j, a, h0, h1, k, j->K - k < j->kc ? j->K - k : j->kc, packed + k * rows);
        for (int64_t o = 0; o < outer; o++) for (int64_t i = 0; i < inner; i++) {
            const int64_t k = (by_k ? o : i) * j->kc, n = n0 + (by_k ? i : o) * width;
            const int64_t kc = j->K - k < j->kc ? j->K - k : j->kc, nb = n1 - n < width ? n1 - n : width;
            const int64_t o1 = i + 1 < inner ? o : o + 1, i1 = i + 1 < inner ? i + 1 : 0;
            const T *from = b + k * j->rb + n * j->cb;
            const T *then = o1 == outer ? b + (n + nb) * j->cb : b + (by_k ? o1 : i1) * j->kc * j->rb + (n0 + (by_k ? i1 : o1) * width) * j->cb;
            if (by_k && i == 0) N(pack_rows)(j, a, h0, h1, k, kc, packed);
            if (j->halves) gemm_pack_halves((uint32_t *)scratch, (const uint16_t *)j->b + b0 + 2 * k * j->rb + n, j->rb, j->depth - 2 * k, kc, nb);
#ifndef GEMM_REAL
            else if (j->cplx && j->cb != 1) N(complex_pack)(scratch, from, j->rb, j->cb, kc, nb);
#endif
            else if (j->pack_b) N(pack_b)(scratch, from, j->rb, j->cb, kc, nb, then);
            if (j->pack_b) from = scratch;
            for (int64_t p = h0; p < h1; p += height) {
                const int64_t m = gemm_job_panel(j, p), q = h1 - p < height ? h1 : p + height;
                const T *top = !j->pack_a ? a + m * j->ra + k * j->ca : packed + (j->apart ? k * rows : 0) + (m - m0) * kc;
                N(piece)(j, top, from, N(at)(j, c, m, n), k, kc, p, q, nb, q < h1 ? from : then, scratch + (m - m0) * width);
            }
        }
    }
}
