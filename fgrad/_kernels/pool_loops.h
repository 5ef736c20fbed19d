/* Windows over elements of type T; N(name) appends the type's suffix.  Included once per type.
 * First the folds (POOL_FOLDS), then what selects an element of each window. */

#ifdef POOL_FOLDS
/* The folds of one kind: POOL_FOLD(name, identity, folded value of a and v). */
#define POOL_FOLD(KIND, ID, EXPR) \
static void N(pool_##KIND##_tap)(const T *restrict x, T *restrict out, int64_t n) { \
    for (int64_t i = 0; i < n; i++) { T a = out[i], v = x[i]; out[i] = EXPR; } \
} \
/* n outputs, each folded with its elements of 1 to 3 taps; `more` if they have been folded before */ \
static void N(pool_##KIND##_taps)(const T *const *x, int taps, int more, T *restrict out, int64_t n) { \
    const T *x0 = x[0], *x1 = taps > 1 ? x[1] : x0, *x2 = taps > 2 ? x[2] : x0; \
    if (more) for (int k = 0; k < taps; k++) N(pool_##KIND##_tap)(x[k], out, n); \
    else if (taps == 1) for (int64_t i = 0; i < n; i++) { T a = ID, v = x0[i]; out[i] = EXPR; } \
    else if (taps == 2) for (int64_t i = 0; i < n; i++) { T a = ID, v = x0[i]; a = EXPR; v = x1[i]; out[i] = EXPR; } \
    else for (int64_t i = 0; i < n; i++) { T a = ID, v = x0[i]; a = EXPR; v = x1[i]; a = EXPR; v = x2[i]; out[i] = EXPR; } \
} \
/* n neighbouring outputs from the window's elements that lie inside, the first of them at x[start] */ \
static void N(pool_##KIND##_window)(const FgPool *p, const T *x, int64_t start, T *out, int64_t n) { \
    const T *from[3]; \
    int k = 0, more = 0; \
    int64_t beyond = p->bdil > 1 ? (start % p->bdil + p->bdil) % p->bdil : 0, step = p->bdil > 1 ? p->wdil % p->bdil : 0; \
    for (int64_t r = 0, at = start; r < p->window; r++, at += p->wdil) { \
        int64_t gap = beyond, i = at; \
        beyond += step; \
        if (beyond >= p->bdil) beyond -= p->bdil; \
        if (gap || at < 0) continue; \
        if (p->bdil > 1) i /= p->bdil; \
        if (i >= p->n) break; \
        from[k++] = x + i * p->inner; \
        if (k == 3) { N(pool_##KIND##_taps)(from, 3, more, out, n); k = 0; more = 1; } \
    } \
    if (k) N(pool_##KIND##_taps)(from, k, more, out, n); \
    else if (!more) for (int64_t i = 0; i < n; i++) out[i] = ID; \
} \
/* A row of windows one element apart, without base dilation: those that lie inside are one run, blocks of it at a time */ \
static void N(pool_##KIND##_run)(const FgPool *p, const T *x, T *out) { \
    enum { BLOCK = 4096 / sizeof(T) }; \
    const int64_t in = p->inner, first = p->lo < 0 ? 0 : p->lo < p->m ? p->lo : p->m; \
    int64_t last = p->n + p->lo - (p->window - 1) * p->wdil; \
    last = last < first ? first : last < p->m ? last : p->m; \
    for (int64_t j = 0; j < first; j++) N(pool_##KIND##_window)(p, x, j - p->lo, out + j * in, in); \
    for (int64_t i = first * in; i < last * in; i += BLOCK) { \
        const T *at = x + i - p->lo * in, *from[3]; \
        int64_t n = last * in - i < BLOCK ? last * in - i : BLOCK; \
        int k = 0, more = 0; \
        for (int64_t r = 0; r < p->window; r++, at += p->wdil * in) { \
            from[k++] = at; \
            if (k == 3) { N(pool_##KIND##_taps)(from, 3, more, out + i, n); k = 0; more = 1; } \
        } \
        if (k) N(pool_##KIND##_taps)(from, k, more, out + i, n); \
    } \
    for (int64_t j = last; j < p->m; j++) N(pool_##KIND##_window)(p, x, j - p->lo, out + j * in, in); \
} \
/* Units (plane, block of rows of windows): each row of windows is folded down columns to `row`, with what is padded beside it, and from \
 * there along it */ \
static void N(pool_##KIND##_planes)(const FgPlanes *p, const char *xs, char *outs, int64_t begin, int64_t end, char *buf) { \
    const FgPool *down = &p->down, *along = &p->along; \
    const int64_t blocks = (down->m + p->rows - 1) / p->rows; \
    T *pad = (T *)buf, *row = pad + p->before * along->inner; \
    for (int64_t i = 0; i < along->n * along->inner; i++) pad[i] = ID; \
    for (int64_t u = begin; u < end; u++) { \
        int64_t o = u / blocks, j = u % blocks * p->rows, stop = j + p->rows < down->m ? j + p->rows : down->m; \
        const T *x = (const T *)xs + o * down->n * down->inner; \
        for (; j < stop; j++) { \
            T *out = (T *)outs + (o * down->m + j) * along->m * along->inner; \
            N(pool_##KIND##_window)(down, x, j * down->stride - down->lo, row, down->inner); \
            if (along->stride == 1) N(pool_##KIND##_run)(along, pad, out); \
            else for (int64_t i = 0; i < along->m; i++) \
                N(pool_##KIND##_window)(along, pad, i * along->stride - along->lo, out + i * along->inner, along->inner); \
        } \
    } \
} \
/* Neighbouring rows without inner elements as one: each lies at a pitch that fits all its windows, as many elements of it as the stride \
 * side by side, so that every tap is one run of elements.  `buf` holds 3 * rows * pitch elements. */ \
static void N(pool_##KIND##_rows)(const FgPool *p, const T *x, T *out, int64_t rows, T *buf) { \
    const int64_t s = p->stride, pitch = p->pitch, each = pitch / s, length = (rows - 1) * each + p->m; \
    const T *at = x, *from[3]; \
    T *apart = buf + rows * pitch, *to = each == p->m ? out : apart + rows * pitch; \
    int k = 0, more = 0; \
    if (p->lo || p->bdil > 1 || p->n != pitch) { \
        int64_t i0 = p->lo < 0 ? (-p->lo + p->bdil - 1) / p->bdil : 0, i1 = p->lo < pitch ? (pitch - p->lo - 1) / p->bdil + 1 : 0; \
        if (i1 > p->n) i1 = p->n; \
        for (int64_t i = 0; i < rows * pitch; i++) buf[i] = ID; \
        for (int64_t q = 0; q < rows; q++) { \
            T *row = buf + q * pitch + p->lo; \
            const T *in = x + q * p->n; \
            if (p->bdil == 1) for (int64_t i = i0; i < i1; i++) row[i] = in[i]; \
            else for (int64_t i = i0; i < i1; i++) row[i * p->bdil] = in[i]; \
        } \
        at = buf; \
    } \
    for (int64_t d = 0; d < s && s > 1; d++) \
        if (!fg_every(apart + d * rows * each, at + d, sizeof(T), s, rows * each)) \
            for (int64_t i = 0; i < rows * each; i++) apart[d * rows * each + i] = at[d + i * s]; \
    for (int64_t r = 0; r < p->window; r++) { \
        from[k++] = s > 1 ? apart + r * p->wdil % s * rows * each + r * p->wdil / s : at + r * p->wdil; \
        if (k == 3) { N(pool_##KIND##_taps)(from, 3, more, to, length); k = 0; more = 1; } \
    } \
    if (k) N(pool_##KIND##_taps)(from, k, more, to, length); \
    for (int64_t q = 0; q < rows && to != out; q++) for (int64_t j = 0; j < p->m; j++) out[q * p->m + j] = to[q * each + j]; \
} \
/* count outputs, from element j0 on and `step` apart, each folded with the input `xstep` apart: rows without inner elements */ \
static void N(pool_##KIND##_row)(const T *restrict x, int64_t xstep, T *restrict out, int64_t step, int64_t count) { \
    if (step == 1 && xstep == 1) for (int64_t i = 0; i < count; i++) { T a = out[i], v = x[i]; out[i] = EXPR; } \
    else if (step == 1 && xstep == 2) for (int64_t i = 0; i < count; i++) { T a = out[i], v = x[2 * i]; out[i] = EXPR; } \
    else for (int64_t i = 0; i < count; i++) { T a = out[i * step], v = x[i * xstep]; out[i * step] = EXPR; } \
} \
/* Long dense windows (van Herk, 1992): folds from the start of each block of `window` elements and to its end; a window is the end \
 * of one block and the start of the next.  `buf` holds 2 * length * n elements. */ \
static void N(pool_##KIND##_blocks)(const FgPool *p, const T *x, int64_t stride, T *out, int64_t ostride, int64_t n, T *buf) { \
    int64_t len = (p->m - 1) * p->stride + p->window, w = p->window; \
    T *head = buf, *tail = buf + len * n; \
    for (int64_t k = 0; k < len; k++) { \
        int64_t pos = k - p->lo; \
        T *h = head + k * n; \
        if ((uint64_t)pos < (uint64_t)p->n) memcpy(h, x + pos * stride, (size_t)n * sizeof(T)); \
        else for (int64_t i = 0; i < n; i++) h[i] = ID; \
    } \
    memcpy(tail, head, (size_t)(len * n) * sizeof(T)); \
    for (int64_t k = 1; k < len; k++) if (k % w) N(pool_##KIND##_tap)(head + (k - 1) * n, head + k * n, n); \
    for (int64_t k = len - 2; k >= 0; k--) if ((k + 1) % w) N(pool_##KIND##_tap)(tail + (k + 1) * n, tail + k * n, n); \
    for (int64_t j = 0; j < p->m; j++) { \
        int64_t k = j * p->stride; \
        memcpy(out + j * ostride, head + (k + w - 1) * n, (size_t)n * sizeof(T)); \
        if (k % w) N(pool_##KIND##_tap)(tail + k * n, out + j * ostride, n); \
    } \
} \
static void N(pool_##KIND)(const FgPool *p, const char *xs, char *outs, int64_t begin, int64_t end, char *buf) { \
    for (int64_t u = begin; u < end; u++) { \
        int64_t t = u % p->tiles, o = u / p->tiles * p->rows, i0 = t * p->tile, n = p->inner - i0 < p->tile ? p->inner - i0 : p->tile; \
        const T *x = (const T *)xs + o * p->n * p->inner + i0; \
        T *out = (T *)outs + o * p->m * p->inner + i0; \
        if (p->blocks) N(pool_##KIND##_blocks)(p, x, p->inner, out, p->inner, n, (T *)buf); \
        else if (p->pitch) N(pool_##KIND##_rows)(p, x, out, p->outer - o < p->rows ? p->outer - o : p->rows, (T *)buf); \
        else if (p->stride == 1 && p->bdil == 1 && p->tiles == 1) N(pool_##KIND##_run)(p, x, out); \
        else if (p->inner > 1) for (int64_t j = 0; j < p->m; j++) N(pool_##KIND##_window)(p, x, j * p->stride - p->lo, out + j * p->inner, n); \
        else { \
            for (int64_t j = 0; j < p->m; j++) out[j] = ID; \
            for (int64_t r = 0; r < p->window; r++) { \
                FgPoolRun run = pool_run(p, r); \
                N(pool_##KIND##_row)(x + run.pos, run.xstep, out + run.j, run.step, run.count); \
            } \
        } \
    } \
}
POOL_FOLD(sum, 0, a + v)
POOL_FOLD(prod, 1, a * v)
#ifndef POOL_COMPLEX
POOL_FOLD(max, POOL_LOWEST, (v > a) | (v != v) ? v : a)
POOL_FOLD(min, POOL_HIGHEST, (v < a) | (v != v) ? v : a)
#endif
#undef POOL_FOLD
#else

/* best[i] and its place for n elements at v, `step` apart */
static inline __attribute__((always_inline)) void N(pool_each)(const T *v, int64_t step, int64_t at, int64_t n, int largest, T *best,
                                                                int64_t *place) {
    for (int64_t i = 0; i < n; i++) {
        T x = v[i * step];
        int better = largest ? x > best[i] : x < best[i];
        int take = place[i] < 0 || better || (x != x && best[i] == best[i]);
        best[i] = take ? x : best[i];
        place[i] = take ? at : place[i];
    }
}

static void N(pool_take)(const T *v, int64_t step, int64_t at, int64_t n, int largest, T *best, int64_t *place) {
    if (step == 1) N(pool_each)(v, 1, at, n, largest, best, place);
    else if (step == 2) N(pool_each)(v, 2, at, n, largest, best, place);
    else N(pool_each)(v, step, at, n, largest, best, place);
}

/* Units (outer, tile of inner elements): all windows of the middle axes, of neighbouring inner elements or, where there is one, of
 * windows that follow each other along the last axis and lie inside.  The first of equals is selected. */
static void N(pool_select)(const FgSelect *p, const char *as, const char *xs, char *outs, int64_t begin, int64_t end) {
    const int last = p->nd - 1, rows = p->inner == 1 && last >= 0;
    const int64_t hop = rows ? p->stride[last] : 1;                  /* from a lane's elements to the next one's */
    for (int64_t u = begin; u < end; u++) {
        int64_t t = u % p->tiles, o = u / p->tiles, i0 = t * POOL_TILE, n = p->inner - i0 < POOL_TILE ? p->inner - i0 : POOL_TILE;
        int64_t q[FG_MAXDIM] = {0}, r[FG_MAXDIM], place[POOL_TILE];
        T best[POOL_TILE];
        const T *x = (const T *)xs + o * p->in_size * p->inner + i0;
        const T *a = (const T *)as + o * (p->scatter ? p->out_size : p->in_size) * p->inner + i0;
        T *out = (T *)outs + o * (p->scatter ? p->in_size : p->out_size) * p->inner + i0;
        if (p->scatter && n == p->inner) memset(out, 0, (size_t)(p->in_size * n) * sizeof(T));
        else if (p->scatter) for (int64_t k = 0; k < p->in_size; k++) memset(out + k * p->inner, 0, (size_t)n * sizeof(T));
        for (int64_t w = 0; w < p->out_size; w += rows ? n : 1) {
            int inside = 1;
            int64_t start = 0;
            for (int d = 0; d < p->nd; d++) {
                int64_t from = q[d] * p->stride[d] - p->lo[d];
                inside &= from >= 0 && from + (p->window[d] - 1) * p->wdil[d] < p->n[d] && p->bdil[d] == 1;
                start += from * p->step[d];
                r[d] = 0;
            }
            if (rows) {
                int64_t room = p->n[last] - 1 - (p->window[last] - 1) * p->wdil[last] - q[last] * p->stride[last] + p->lo[last];
                n = !inside ? 1 : room / p->stride[last] + 1;
                if (n > p->m[last] - q[last]) n = p->m[last] - q[last];
                if (n > POOL_TILE) n = POOL_TILE;
            }
            for (int64_t i = 0; i < n; i++) { place[i] = -1; best[i] = 0; }
            for (int64_t k = 0; k < p->taps; k++) {
                int64_t at = start, ok = 1;
                if (inside) for (int d = 0; d < p->nd; d++) at += r[d] * p->wdil[d] * p->step[d];
                else {
                    at = 0;
                    for (int d = 0; d < p->nd; d++) {
                        int64_t pos = q[d] * p->stride[d] + r[d] * p->wdil[d] - p->lo[d];
                        ok &= pos >= 0 && pos % p->bdil[d] == 0 && pos / p->bdil[d] < p->n[d];
                        at += pos / p->bdil[d] * p->step[d];
                    }
                }
                if (ok) N(pool_take)(x + at * p->inner, hop, at, n, p->largest, best, place);
                for (int d = p->nd - 1; d >= 0 && ++r[d] == p->window[d]; d--) r[d] = 0;
            }
            for (int64_t i = 0; i < n; i++) {
                int64_t at = place[i] * p->inner + i * hop;
                if (p->scatter) { if (place[i] >= 0) out[at] += a[w * p->inner + i]; }
                else out[w * p->inner + i] = place[i] >= 0 ? a[at] : 0;
            }
            if (rows) q[last] += n - 1;
            for (int d = p->nd - 1; d >= 0 && ++q[d] == p->m[d]; d--) q[d] = 0;
        }
    }
}
#endif
