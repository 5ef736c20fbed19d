/* The loops of pairs.h for T. */
enum { N(pairs_lanes) = FG_VEC / sizeof(T), N(pairs_panel) = FG_PAIRS_VECS * N(pairs_lanes) };
typedef T N(pairs_mem) __attribute__((vector_size(FG_VEC), aligned(sizeof(T)), may_alias));

/* Sums of `count` columns of HIGH rows of x and `vecs` vectors of rows of y, to or onto what lies at `to`; v: a factor of each column. */
FG_INLINE void N(pairs_meet)(const int vecs, const int form, const T *panel, const T *const *x, int64_t step, const T *v, int64_t next,
                             int64_t count, T *const *to, int64_t columns, int onto) {
    enum { L = N(pairs_lanes), W = N(pairs_panel) };
    N(vec) s[FG_PAIRS_HIGH][FG_PAIRS_VECS];
    for (int r = 0; r < FG_PAIRS_HIGH; r++) for (int j = 0; j < vecs; j++) s[r][j] = (N(vec)){0};
    for (int64_t c = 0; c < count; c++, panel += W) {
        const N(vec) f = (N(vec)){0} + (form & (FG_PAIRS_BEFORE | FG_PAIRS_AFTER) ? v[c * next] : 1);
        for (int r = 0; r < FG_PAIRS_HIGH; r++) {
            const N(vec) a = (N(vec)){0} + x[r][c * step];
            for (int j = 0; j < vecs; j++) {
                const N(vec) d = a - *(const N(pairs_mem) *)(panel + j * L), e = form & FG_PAIRS_BEFORE ? d * f : d;
                const N(vec) g = form & FG_PAIRS_ABSOLUTE ? N(vec_max)(e, -e) : form & FG_PAIRS_AFTER ? d * f : e;
                s[r][j] += !(form & FG_PAIRS_ABSOLUTE) ? g * e : form & FG_PAIRS_AFTER ? g * f : g;
            }
        }
    }
    for (int r = 0; r < FG_PAIRS_HIGH; r++) {
        T *o = to[r];
        if (columns == vecs * L) {
            for (int v = 0; v < vecs; v++) {
                N(pairs_mem) *at = (N(pairs_mem) *)(o + v * L);
                *at = onto ? s[r][v] + (N(vec))*at : s[r][v];
            }
            continue;
        }
        T rest[N(pairs_panel)];
        memcpy(rest, s[r], vecs * FG_VEC);
        for (int64_t j = 0; j < columns; j++) o[j] = onto ? o[j] + rest[j] : rest[j];
    }
}

FG_INLINE void N(pairs_rows)(const int form, const T *panel, const FgPairs *p, const T *x, const T *v, T *out, int64_t rows, int64_t columns,
                             int64_t count, int onto) {
    const int vecs = (int)((columns + N(pairs_lanes) - 1) / N(pairs_lanes));
    T spare[N(pairs_panel)];                  /* where the rows go that only fill up the last few */
    for (int64_t i = 0; i < rows; i += FG_PAIRS_HIGH) {
        const T *from[FG_PAIRS_HIGH];
        T *to[FG_PAIRS_HIGH];
        for (int r = 0; r < FG_PAIRS_HIGH; r++) {
            int64_t row = i + r < rows ? i + r : rows - 1;
            from[r] = x + row * p->xs[1];
            to[r] = i + r < rows ? out + row * p->n : memset(spare, 0, sizeof spare);
        }
        switch (vecs) {
            case 1: N(pairs_meet)(1, form, panel, from, p->xs[2], v, p->ws[2], count, to, columns, onto); break;
            case 2: N(pairs_meet)(2, form, panel, from, p->xs[2], v, p->ws[2], count, to, columns, onto); break;
            case 3: N(pairs_meet)(3, form, panel, from, p->xs[2], v, p->ws[2], count, to, columns, onto); break;
            default: N(pairs_meet)(4, form, panel, from, p->xs[2], v, p->ws[2], count, to, columns, onto);
        }
    }
}

static void N(pairs_distances)(void *ctx, int64_t begin, int64_t end, int tid) {
    enum { W = N(pairs_panel) };
    const FgPairs *p = (const FgPairs *)ctx;
    T panel[FG_PAIRS_CHUNK * W] __attribute__((aligned(FG_VEC)));
    (void)tid;
    for (int64_t u = begin; u < end; u++) {
        const int64_t i = u % p->tall * FG_PAIRS_TALL, j = u / p->tall % p->wide * W, b = u / p->tall / p->wide;
        const int64_t rows = p->m - i < FG_PAIRS_TALL ? p->m - i : FG_PAIRS_TALL, columns = p->n - j < W ? p->n - j : W;
        const T *x = (const T *)p->x + b * p->xs[0] + i * p->xs[1], *y = (const T *)p->y + b * p->ys[0] + j * p->ys[1];
        const T number = (T)p->scale, *v = p->w ? (const T *)p->w + b * p->ws[0] : &number;
        T *out = (T *)p->out + (b * p->m + i) * p->n + j;
        if (columns < W) memset(panel, 0, sizeof panel);
        for (int64_t c = 0; c < p->k; c += FG_PAIRS_CHUNK) {
            const int64_t count = p->k - c < FG_PAIRS_CHUNK ? p->k - c : FG_PAIRS_CHUNK;
            for (int64_t r = 0; r < columns; r++) for (int64_t e = 0; e < count; e++) panel[e * W + r] = y[r * p->ys[1] + (c + e) * p->ys[2]];
            const T *at = x + c * p->xs[2], *f = v + c * p->ws[2];
            switch (p->form) {
                case 0: N(pairs_rows)(0, panel, p, at, f, out, rows, columns, count, c > 0); break;
                case 1: N(pairs_rows)(1, panel, p, at, f, out, rows, columns, count, c > 0); break;
                case 2: N(pairs_rows)(2, panel, p, at, f, out, rows, columns, count, c > 0); break;
                case 3: N(pairs_rows)(3, panel, p, at, f, out, rows, columns, count, c > 0); break;
                case 4: N(pairs_rows)(4, panel, p, at, f, out, rows, columns, count, c > 0); break;
                default: N(pairs_rows)(5, panel, p, at, f, out, rows, columns, count, c > 0);
            }
        }
    }
}

/* Moments of `vecs` vectors of columns of HIGH rows over `terms` rows of y that lie `step` apart. */
FG_INLINE void N(pairs_pull)(const int vecs, const T *const *x, const T *y, int64_t step, const T *const *w, int64_t next, int64_t terms, T scale,
                             T *const *to, int onto) {
    enum { L = N(pairs_lanes) };
    N(vec) s[FG_PAIRS_HIGH][2], a[FG_PAIRS_HIGH][2];
    for (int r = 0; r < FG_PAIRS_HIGH; r++) for (int v = 0; v < vecs; v++) {
        s[r][v] = (N(vec)){0};
        a[r][v] = *(const N(pairs_mem) *)(x[r] + v * L);
    }
    for (int64_t j = 0; j < terms; j++, y += step) {
        for (int v = 0; v < vecs; v++) {
            const N(vec) b = *(const N(pairs_mem) *)(y + v * L);
            for (int r = 0; r < FG_PAIRS_HIGH; r++) s[r][v] += (a[r][v] - b) * w[r][j * next];
        }
    }
    for (int r = 0; r < FG_PAIRS_HIGH; r++) for (int v = 0; v < vecs; v++) {
        N(pairs_mem) *at = (N(pairs_mem) *)(to[r] + v * L);
        s[r][v] *= scale;
        *at = onto ? s[r][v] + (N(vec))*at : s[r][v];
    }
}

static void N(pairs_moments)(void *ctx, int64_t begin, int64_t end, int tid) {
    enum { L = N(pairs_lanes) };
    const FgPairs *p = (const FgPairs *)ctx;
    const int64_t rest = p->k % L, whole = p->k - rest;
    T last[FG_PAIRS_TERMS * L] __attribute__((aligned(FG_VEC)));      /* columns of y that fill no vector */
    T weights[FG_PAIRS_HIGH * FG_PAIRS_TERMS], ends[FG_PAIRS_HIGH][2 * L], spare[2 * L];
    (void)tid;
    if (rest) memset(last, 0, sizeof last);
    memset(ends, 0, sizeof ends);
    for (int64_t u = begin; u < end; u++) {
        const int64_t b = u / p->tall, first = u % p->tall * FG_PAIRS_ROWS, stop = first + FG_PAIRS_ROWS < p->m ? first + FG_PAIRS_ROWS : p->m;
        for (int64_t j = 0; j < p->n; j += FG_PAIRS_TERMS) {
            const int64_t terms = p->n - j < FG_PAIRS_TERMS ? p->n - j : FG_PAIRS_TERMS;
            const T *y = (const T *)p->y + b * p->ys[0] + j * p->ys[1];
            for (int64_t e = 0; rest && e < terms; e++) memcpy(last + e * L, y + e * p->ys[1] + whole, rest * sizeof(T));
            for (int64_t i = first; i < stop; i += FG_PAIRS_HIGH) {
                const T *x[FG_PAIRS_HIGH], *w[FG_PAIRS_HIGH], *from[FG_PAIRS_HIGH];
                T *out[FG_PAIRS_HIGH], *to[FG_PAIRS_HIGH];
                int64_t next = p->ws[2];
                for (int r = 0; r < FG_PAIRS_HIGH; r++) {
                    const int64_t row = i + r < stop ? i + r : stop - 1;
                    x[r] = (const T *)p->x + b * p->xs[0] + row * p->xs[1];
                    w[r] = (const T *)p->w + b * p->ws[0] + row * p->ws[1] + j * next;
                    out[r] = i + r < stop ? (T *)p->out + (b * p->m + row) * p->k : NULL;
                }
                if (next != 1) {              /* rows of weights that lie across: each line is read once for all */
                    for (int64_t e = 0; e < terms; e++) for (int r = 0; r < FG_PAIRS_HIGH; r++) weights[r * FG_PAIRS_TERMS + e] = w[r][e * next];
                    for (int r = 0; r < FG_PAIRS_HIGH; r++) w[r] = weights + r * FG_PAIRS_TERMS;
                    next = 1;
                }
                for (int64_t c = 0; c < whole;) {
                    const int vecs = whole - c >= 2 * L ? 2 : 1;
                    for (int r = 0; r < FG_PAIRS_HIGH; r++) {
                        from[r] = x[r] + c;
                        to[r] = out[r] ? out[r] + c : memset(spare, 0, sizeof spare);
                    }
                    if (vecs == 2) N(pairs_pull)(2, from, y + c, p->ys[1], w, next, terms, (T)p->scale, to, j > 0);
                    else N(pairs_pull)(1, from, y + c, p->ys[1], w, next, terms, (T)p->scale, to, j > 0);
                    c += vecs * L;
                }
                if (!rest) continue;
                for (int r = 0; r < FG_PAIRS_HIGH; r++) {
                    memcpy(ends[r], x[r] + whole, rest * sizeof(T));
                    memset(ends[r] + L, 0, FG_VEC);
                    from[r] = ends[r];
                    to[r] = ends[r] + L;
                }
                N(pairs_pull)(1, from, last, L, w, next, terms, (T)p->scale, to, 0);
                for (int r = 0; r < FG_PAIRS_HIGH; r++) for (int64_t c = 0; out[r] && c < rest; c++) {
                    out[r][whole + c] = j > 0 ? out[r][whole + c] + to[r][c] : to[r][c];
                }
            }
        }
    }
}
