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
                        j->pack_b ? GEMM_AHEAD * N(width)(nb) : fetches ? next + (p - p0) * N(lanes) : 0, j->pack_b || panels == 1 ? N(lanes) : 0);
        if (own && last) N(bring)(j, sum, N(nr), rows, nb, to, j->add || (!j->apart && k));
    }
}

static void N(unit)(const GemmJob *j, int64_t unit, T *scratch) {
    int64_t parts = j->row_parts * j->col_parts, batch = unit / parts, r = unit % parts / j->col_parts, s = unit % j->col_parts;
    int64_t panels = gemm_job_panels(j), tiles = gemm_tiles(j);
    int64_t p0 = panels * r / j->row_parts, p1 = panels * (r + 1) / j->row_parts;
    int64_t n0 = tiles * s / j->col_parts * N(nr), n1 = tiles * (s + 1) / j->col_parts * N(nr);
    const T *a = j->pack_a ? (const T *)j->panels + (gemm_packed_entries(j) > 1 ? batch : 0) * j->M * j->K
                                 : (const T *)j->a + gemm_entry(j, batch, j->a1, j->a0);
    const int64_t b0 = gemm_entry(j, batch, j->b1, j->b0);
    const T *b = (const T *)j->b + b0;
    T *c = (T *)j->c + gemm_entry(j, batch, j->c1, j->c0);
    int64_t width = j->width, height = j->rows_first ? p1 - p0 : GEMM_ROWS_BLOCK;
    if (n1 > j->N) n1 = j->N;
    for (int64_t n = n0; n < n1; n += width) {
        int64_t nb = n1 - n < width ? n1 - n : width;
        for (int64_t k = 0; k < j->K; k += j->kc) {
            int64_t kc = j->K - k < j->kc ? j->K - k : j->kc;
            const T *from = b + k * j->rb + n * j->cb, *then = k + kc < j->K ? from + kc * j->rb : b + (n + nb) * j->cb;
            const uint16_t *rows = (const uint16_t *)j->b + b0 + 2 * k * j->rb + n;
            if (j->halves) gemm_pack_halves((uint32_t *)scratch, rows, j->rb, j->depth - 2 * k, kc, nb);
#ifndef GEMM_REAL
            else if (j->cplx && j->cb != 1) N(complex_pack)(scratch, from, j->rb, j->cb, kc, nb);
#endif
            else if (j->pack_b) N(pack_b)(scratch, from, j->rb, j->cb, kc, nb, then);
            if (j->pack_b) from = scratch;
            for (int64_t p = p0; p < p1; p += height) {
                int64_t m = gemm_job_panel(j, p), q = p1 - p < height ? p1 : p + height;
                const T *top = j->pack_a ? a + k * j->M + m * kc : a + m * j->ra + k * j->ca;
                N(piece)(j, top, from, N(at)(j, c, m, n), k, kc, p, q, nb, q < p1 ? from : then, scratch + (m - gemm_job_panel(j, p0)) * j->width);
            }
        }
    }
}

static void N(prepack)(const GemmJob *j, int64_t begin, int64_t end) {
    int64_t panels = gemm_job_panels(j);
    for (int64_t i = begin; i < end; i++) {
        int64_t p = i / j->nk % panels, k = i % j->nk * j->kc, batch = i / j->nk / panels, m = gemm_job_panel(j, p);
        int64_t kc = j->K - k < j->kc ? j->K - k : j->kc;
        N(pack)((T *)j->panels + batch * j->M * j->K + k * j->M + m * kc, gemm_job_panel(j, p + 1) - m,
                (const T *)j->a + gemm_entry(j, batch, j->a1, j->a0) + m * j->ra + k * j->ca, gemm_job_panel(j, p + 1) - m, j->ra, j->ca, kc);
    }
}
