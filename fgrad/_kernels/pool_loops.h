/* Windows over elements of type T; N(name) appends the type's suffix.  Included once per type.
 * First the folds (POOL_FOLDS), then what selects an element of each window. */

#ifdef POOL_FOLDS
/* The folds of one kind: POOL_FOLD(name, identity, folded value of a and v). */
#define POOL_FOLD(KIND, ID, EXPR) \
static void N(pool_##KIND##_tap)(const T *restrict x, T *restrict out, int64_t n) { \
    for (int64_t i = 0; i < n; i++) { T a = out[i], v = x[i]; out[i] = EXPR; } \
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
    FgPoolRun runs[POOL_RUNS]; \
    for (int64_t r = 0; r < POOL_RUNS && r < p->window; r++) runs[r] = pool_run(p, r); \
    for (int64_t u = begin; u < end; u++) { \
        int64_t t = u % p->tiles, o = u / p->tiles, i0 = t * p->tile, n = p->inner - i0 < p->tile ? p->inner - i0 : p->tile; \
        const T *x = (const T *)xs + o * p->n * p->inner + i0; \
        T *out = (T *)outs + o * p->m * p->inner + i0; \
        if (p->blocks) { N(pool_##KIND##_blocks)(p, x, p->inner, out, p->inner, n, (T *)buf); continue; } \
        for (int64_t j = 0; j < p->m; j++) for (int64_t i = 0; i < n; i++) out[j * p->inner + i] = ID; \
        for (int64_t r = 0; r < p->window; r++) { \
            FgPoolRun run = r < POOL_RUNS ? runs[r] : pool_run(p, r); \
            if (p->inner == 1) N(pool_##KIND##_row)(x + run.pos, run.xstep, out + run.j, run.step, run.count); \
            else for (int64_t k = 0; k < run.count; k++) \
                N(pool_##KIND##_tap)(x + (run.pos + k * run.xstep) * p->inner, out + (run.j + k * run.step) * p->inner, n); \
        } \
    } \
}
POOL_FOLD(sum, 0, a + v)
POOL_FOLD(prod, 1, a * v)
#ifndef POOL_COMPLEX
POOL_FOLD(max, POOL_LOWEST, v > a || v != v ? v : a)
POOL_FOLD(min, POOL_HIGHEST, v < a || v != v ? v : a)
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
