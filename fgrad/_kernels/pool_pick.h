/* Windows that may overlap: their largest (smallest) elements or sums, or elements of another array where the largest lie, by vectors of
 * windows, or of features where those lie last. The number of the tap that each selects is kept, and taps add the lanes that chose them, so
 * that nothing is gathered or scattered. Rows of neighbouring elements are held apart by their remainder modulo the stride, where a tap of
 * neighbouring windows is a run, several planes side by side. Included once per type by pool.h; N(name) appends the type's suffix. */

/* The taps of a row of windows: where each lies from the first, and its number. */
typedef struct { int64_t off[PICK_TAPS]; WHOLE number[PICK_TAPS]; int count; } N(FgPick);

typedef N(apart_wide) N(pick_vec);
typedef N(apart_wide_int) N(pick_place);
enum { N(pick_wide) = POOL_BYTES / sizeof(T) };

#ifdef __AVX512F__
#define PICK_OF_(name, type) _mm512_##name##_##type
#define PICK_OF(name, type) PICK_OF_(name, type)
typedef PICK_MASK N(pick_mask);
static inline __attribute__((always_inline)) N(pick_vec) N(pick_load)(const T *p, int64_t n) {
    if (n == N(pick_wide)) return *(const N(apart_wide_at) *)p;
    return (N(pick_vec))PICK_OF(maskz_loadu, PICK_FLOAT)((PICK_MASK)((1u << n) - 1), p);
}
static inline __attribute__((always_inline)) void N(pick_store)(T *p, N(pick_vec) v, int64_t n) {
    if (n == N(pick_wide)) *(N(apart_wide_at) *)p = v;
    else PICK_OF(mask_storeu, PICK_FLOAT)(p, (PICK_MASK)((1u << n) - 1), v);
}
/* Where v is taken instead of best: a NaN wins, the first one. */
static inline __attribute__((always_inline)) N(pick_mask) N(pick_better)(N(pick_vec) v, N(pick_vec) best, const int largest) {
    const PICK_MASK not_worse = largest ? PICK_OF(cmp, PICK_FLOAT_MASK)(v, best, _CMP_NLE_UQ) : PICK_OF(cmp, PICK_FLOAT_MASK)(v, best, _CMP_NGE_UQ);
    return PICK_OF(mask_cmp, PICK_FLOAT_MASK)(not_worse, best, best, _CMP_ORD_Q);
}
static inline N(pick_vec) N(pick_choose)(N(pick_mask) take, N(pick_vec) v, N(pick_vec) best) {
    return (N(pick_vec))PICK_OF(mask_mov, PICK_FLOAT)(best, take, v);
}
static inline N(pick_place) N(pick_note)(N(pick_mask) take, N(pick_place) number, N(pick_place) place) {
    return (N(pick_place))PICK_OF(mask_mov, PICK_INT)((__m512i)place, take, (__m512i)number);
}
static inline N(pick_vec) N(pick_there)(N(pick_vec) v, N(pick_place) place, N(pick_place) number) {
    return (N(pick_vec))PICK_OF(maskz_mov, PICK_FLOAT)(PICK_OF(cmpeq, PICK_INT_MASK)((__m512i)place, (__m512i)number), v);
}
#else
typedef N(apart_wide_int) N(pick_mask);
static inline __attribute__((always_inline)) N(pick_vec) N(pick_load)(const T *p, int64_t n) {
    N(pick_vec) v = {0};
    memcpy(&v, p, (size_t)n * sizeof(T));
    return v;
}
static inline __attribute__((always_inline)) void N(pick_store)(T *p, N(pick_vec) v, int64_t n) { memcpy(p, &v, (size_t)n * sizeof(T)); }
static inline __attribute__((always_inline)) N(pick_mask) N(pick_better)(N(pick_vec) v, N(pick_vec) best, const int largest) {
    return (largest ? ~(v <= best) : ~(v >= best)) & (best == best);
}
static inline N(pick_vec) N(pick_choose)(N(pick_mask) take, N(pick_vec) v, N(pick_vec) best) {
    return (N(pick_vec))(((N(pick_mask))v & take) | ((N(pick_mask))best & ~take));
}
static inline N(pick_place) N(pick_note)(N(pick_mask) take, N(pick_place) number, N(pick_place) place) { return (number & take) | (place & ~take); }
static inline N(pick_vec) N(pick_there)(N(pick_vec) v, N(pick_place) place, N(pick_place) number) {
    return (N(pick_vec))((N(pick_mask))v & (place == number));
}
#endif

/* A vector of n windows. `first` has the first tap of each, where some lie outside; without it that is the first of all. Their places go to
 * `place`, or they are used here: `out` is where a vector of windows lies, or for PICK_SCATTER the first tap's. */
static inline __attribute__((always_inline)) void N(pick_step)(const N(FgPick) *t, const int op, const int largest, const WHOLE *first,
                                                               const T *x, const T *a, T *out, WHOLE *places, int64_t n) {
    typedef WHOLE at __attribute__((vector_size(POOL_BYTES), aligned(sizeof(T)), may_alias));
    const N(pick_place) zero = {0};
    N(pick_vec) best = (N(pick_vec)){0};
    N(pick_place) place = zero;
    int k = 0;
    if (op != PICK_SUM && first) { best += largest ? (T)-INFINITY : (T)INFINITY; place = *(const at *)first; }
    else if (op != PICK_SUM) { best = N(pick_load)(x + t->off[0], n); place += t->number[0]; k = 1; }
    for (; k < t->count; k++) {
        const N(pick_vec) v = N(pick_load)(x + t->off[k], n);
        if (op == PICK_SUM) { best += v; continue; }
        const N(pick_mask) take = N(pick_better)(v, best, largest);
        best = N(pick_choose)(take, v, best);
        if (op != PICK_EXTREMUM) place = N(pick_note)(take, zero + t->number[k], place);
    }
    if (places) *(at *)places = place;
    else if (op == PICK_SCATTER) {
        const N(pick_vec) from = N(pick_load)(a, n);
        for (k = 0; k < t->count; k++) {
            T *to = out + t->off[k];
            N(pick_store)(to, N(pick_load)(to, n) + N(pick_there)(from, place, zero + t->number[k]), n);
        }
    } else {
        if (op == PICK_GATHER) {
            best = (N(pick_vec)){0};
            for (k = 0; k < t->count; k++) best += N(pick_there)(N(pick_load)(a + t->off[k], n), place, zero + t->number[k]);
        }
        N(pick_store)(out, best, n);
    }
}

/* n windows side by side; with `first` lanes beyond them, up to a whole vector, may be touched. */
static inline __attribute__((always_inline)) void N(pick_lanes)(const N(FgPick) *t, const int op, const int largest, const WHOLE *first,
                                                                const T *x, const T *a, T *out, WHOLE *places, int64_t n) {
    const int64_t L = N(pick_wide), whole = first ? (n + L - 1) / L * L : n;
    int64_t i = 0;
    for (; i + L <= whole; i += L) N(pick_step)(t, op, largest, first ? first + i : 0, x + i, a + i, out + i, places ? places + i : 0, L);
    if (i < whole) N(pick_step)(t, op, largest, 0, x + i, a + i, out + i, 0, whole - i);
}

static void N(pick_row)(const FgSelect *p, const N(FgPick) *t, const WHOLE *first, const T *x, const T *a, T *out, WHOLE *places, int64_t n) {
    #define PICK(OP) case OP: \
        if (p->largest && first) N(pick_lanes)(t, OP, 1, first, x, a, out, OP == PICK_SCATTER ? places : 0, n); \
        else if (p->largest) N(pick_lanes)(t, OP, 1, 0, x, a, out, 0, n); \
        else if (first) N(pick_lanes)(t, OP, 0, first, x, a, out, OP == PICK_SCATTER ? places : 0, n); \
        else N(pick_lanes)(t, OP, 0, 0, x, a, out, 0, n); \
        break;
    switch (p->op) { PICK(PICK_GATHER) PICK(PICK_SCATTER) PICK(PICK_EXTREMUM) default: PICK(PICK_SUM) }
    #undef PICK
}

/* Row `to` (in parts of elements) gets, for the row tap whose number is `number`, what windows with these places give to it: an element's
 * windows in the order of their taps reversed, which is their own. */
static void N(pick_give)(const FgSelect *p, const WHOLE *places, const T *a, T *to, int64_t part, int64_t lanes, WHOLE number) {
    const int last = p->nd - 1;
    const int64_t s = p->stride[last], d = p->wdil[last], L = N(pick_wide);
    typedef WHOLE at __attribute__((vector_size(POOL_BYTES), aligned(sizeof(T)), may_alias));
    int64_t back[PICK_TAPS];
    WHOLE which[PICK_TAPS];
    for (int64_t f = 0; f < s; f++, to += part) {
        int count = 0;
        for (int64_t r = p->window[last] - 1; r >= 0; r--)
            if (r * d % s == f) { back[count] = r * d / s; which[count++] = (WHOLE)(number + r); }
        for (int64_t i = 0; count && i < lanes + back[0]; i += L) {
            N(pick_vec) sum = N(pick_load)(to + i, L);
            for (int k = 0; k < count; k++)
                sum += N(pick_there)(N(pick_load)(a + i - back[k], L), *(const at *)(places + i - back[k]), (N(pick_place)){0} + which[k]);
            N(pick_store)(to + i, sum, L);
        }
    }
}

/* The rows of x that windows q (of all axes but the last) meet: where each begins, in rows, and its number among all. */
static int N(pick_rows)(const FgSelect *p, const int64_t *q, int64_t *row, int *number) {
    const int last = p->nd - 1;
    int64_t r[FG_MAXDIM] = {0}, rows = p->taps / p->window[last];
    int count = 0;
    for (int64_t k = 0; k < rows; k++) {
        int64_t at = 0, ok = 1;
        for (int d = 0; d < last; d++) {
            int64_t pos = q[d] * p->stride[d] + r[d] * p->wdil[d] - p->lo[d];
            ok &= (uint64_t)pos < (uint64_t)p->n[d];
            at = at * p->n[d] + pos;
        }
        if (ok) { row[count] = at; number[count++] = (int)k; }
        for (int d = last - 1; d >= 0 && ++r[d] == p->window[d]; d--) r[d] = 0;
    }
    return count;
}

/* Rows of `planes` planes between where they lie (`back`: to there) and `rows`, where those of all planes of the same place follow each
 * other, p->each times the stride elements apart. */
static void N(pick_copy)(const FgSelect *p, T *x, T *rows, int64_t planes, const int back) {
    const int last = p->nd - 1;
    const int64_t pitch = p->each * p->stride[last], lo = p->lo[last], n = p->n[last], begin = lo < 0 ? -lo : 0;
    const int64_t end = n + lo < pitch ? n : pitch - lo;
    for (int64_t i = 0; i < planes; i++) for (int64_t j = 0; j < p->rows; j++) {
        T *row = x + (i * p->rows + j) * n, *to = rows + (j * p->planes + i) * pitch + lo;
        if (back && (begin || end < n)) memset(row, 0, (size_t)n * sizeof(T));
        if (begin < end) memcpy((back ? row : to) + begin, (back ? to : row) + begin, (size_t)(end - begin) * sizeof(T));
    }
}

/* Elements s * i + f of a row of s * n become (`back`: are) element i of its f-th part. */
static void N(pick_part)(T *row, T *parts, int64_t s, int64_t n, const int back) {
    const int64_t L = N(pick_wide);
    int64_t i = 0;
    if (!back) {
        for (int64_t f = 0; f < s; f++)
            if (!fg_every(parts + f * n, row + f, sizeof(T), s, n)) for (i = 0; i < n; i++) parts[f * n + i] = row[i * s + f];
        return;
    }
    if (s == 2) for (; i + L <= n; i += L) {
        const N(apart_wide) v = *(const N(apart_wide_at) *)(parts + i), w = *(const N(apart_wide_at) *)(parts + n + i);
        *(N(apart_wide_at) *)(row + 2 * i) = __builtin_shufflevector(v, w, APART_LOW);
        *(N(apart_wide_at) *)(row + 2 * i + L) = __builtin_shufflevector(v, w, APART_HIGH);
    }
    for (; i < n; i++) for (int64_t f = 0; f < s; f++) row[i * s + f] = parts[f * n + i];
}

/* Units: blocks of planes, of one element each at a time. */
static void N(pick_planes)(const FgSelect *p, const T *as, const T *xs, T *outs, int64_t begin, int64_t end, T *buf) {
    const int last = p->nd - 1, scatter = p->op == PICK_SCATTER;
    const int64_t s = p->stride[last], run = p->planes * p->each, area = p->rows * s * run, m = p->m[last], windows = p->out_size / m;
    const int64_t reach = (p->window[last] - 1) * p->wdil[last] / s;
    T *split = buf, *other = split + area + 64, *rows = s > 1 ? other + area + 64 : split, *line = other + (s > 1 ? 2 : 1) * (area + 64) + reach;
    WHOLE *first = (WHOLE *)(line + run + reach + 64), *now = first + run, *places = now + run + 64 + reach;
    const T beyond = p->op == PICK_SUM ? 0 : p->largest ? (T)-INFINITY : (T)INFINITY;
    N(FgPick) taps;
    int64_t row[PICK_TAPS];
    int number[PICK_TAPS];
    for (int64_t i = 0; i < area + 64; i++) { split[i] = rows[i] = beyond; other[i] = 0; }
    for (int64_t i = -reach; i < run + reach + 64; i++) { line[i] = 0; places[i] = -1; }
    for (int64_t i = 0; i < run + 64; i++) now[i] = -1;
    for (int64_t i = 0; i < run; i++) {
        first[i] = -1;
        for (int64_t r = p->window[last] - 1; r >= 0; r--)
            if (i % p->each < m && (uint64_t)(i % p->each * s + r * p->wdil[last] - p->lo[last]) < (uint64_t)p->n[last]) first[i] = (WHOLE)r;
    }
    for (int64_t u = begin; u < end; u++) {
        const int64_t o = u * p->planes, planes = p->outer - o < p->planes ? p->outer - o : p->planes, lanes = (planes - 1) * p->each + m;
        const T *a = as + o * (scatter ? p->out_size : p->in_size);
        T *out = outs + o * (scatter ? p->in_size : p->out_size);
        int64_t q[FG_MAXDIM] = {0};
        if (p->op == PICK_GATHER) {
            N(pick_copy)(p, (T *)a, s > 1 ? split : other, planes, 0);
            if (s > 1) N(pick_part)(split, other, s, p->rows * run, 0);
        } else if (scatter) memset(other, 0, (size_t)area * sizeof(T));
        N(pick_copy)(p, (T *)xs + o * p->in_size, rows, planes, 0);
        if (s > 1) N(pick_part)(rows, split, s, p->rows * run, 0);
        for (int64_t w = 0; w < windows; w++) {
            const int count = N(pick_rows)(p, q, row, number);
            taps.count = 0;
            for (int k = 0; k < count; k++) for (int64_t r = 0; r < p->window[last]; r++) {
                taps.off[taps.count] = (r * p->wdil[last] % s * p->rows + row[k]) * run + r * p->wdil[last] / s;
                taps.number[taps.count++] = (WHOLE)(number[k] * p->window[last] + r);
            }
            if (p->op <= PICK_SCATTER)
                for (int64_t i = 0; i < run; i++) now[i] = count && first[i] >= 0 ? first[i] + (WHOLE)(number[0] * p->window[last]) : -1;
            N(pick_row)(p, &taps, now, split, other, line, places, lanes);
            for (int64_t i = 0; i < planes; i++) {
                if (scatter) memcpy(line + i * p->each, a + i * p->out_size + w * m, (size_t)m * sizeof(T));
                else memcpy(out + i * p->out_size + w * m, line + i * p->each, (size_t)m * sizeof(T));
            }
            if (scatter) for (int k = 0; k < count; k++)
                N(pick_give)(p, places, line, other + row[k] * run, p->rows * run, lanes, (WHOLE)(number[k] * p->window[last]));
            for (int d = last - 1; d >= 0 && ++q[d] == p->m[d]; d--) q[d] = 0;
        }
        if (scatter && s > 1) N(pick_part)(split, other, s, p->rows * run, 1);
        if (scatter) N(pick_copy)(p, out, s > 1 ? split : other, planes, 1);
    }
}

/* Units (outer, tile of inner elements). */
static void N(pick_features)(const FgSelect *p, const T *as, const T *xs, T *outs, int64_t begin, int64_t end) {
    const int last = p->nd - 1, scatter = p->op == PICK_SCATTER;
    const int64_t m = p->m[last], windows = p->out_size / m, n = p->n[last], inner = p->inner, dil = p->wdil[last];
    N(FgPick) taps;
    int64_t row[PICK_TAPS];
    int number[PICK_TAPS];
    for (int64_t u = begin; u < end; u++) {
        const int64_t o = u / p->tiles, i0 = u % p->tiles * p->tile, lanes = inner - i0 < p->tile ? inner - i0 : p->tile;
        const T *x = xs + o * p->in_size * inner + i0, *a = as + o * (scatter ? p->out_size : p->in_size) * inner + i0;
        T *out = outs + o * (scatter ? p->in_size : p->out_size) * inner + i0;
        int64_t q[FG_MAXDIM] = {0};
        if (scatter && lanes == inner) memset(out, 0, (size_t)(p->in_size * lanes) * sizeof(T));
        else if (scatter) for (int64_t k = 0; k < p->in_size; k++) memset(out + k * inner, 0, (size_t)lanes * sizeof(T));
        for (int64_t w = 0; w < windows; w++) {
            const int count = N(pick_rows)(p, q, row, number);
            for (int64_t j = 0; j < m; j++) {
                const int64_t at = j * p->stride[last] - p->lo[last], to = (w * m + j) * inner;
                taps.count = 0;
                for (int k = 0; k < count; k++) for (int64_t r = 0; r < p->window[last]; r++) {
                    if ((uint64_t)(at + r * dil) >= (uint64_t)n) continue;
                    taps.off[taps.count] = (row[k] * n + at + r * dil) * inner;
                    taps.number[taps.count++] = (WHOLE)(number[k] * p->window[last] + r);
                }
                if (taps.count) N(pick_row)(p, &taps, 0, x, scatter ? a + to : a, scatter ? out : out + to, 0, lanes);
                else if (!scatter) memset(out + to, 0, (size_t)lanes * sizeof(T));
            }
            for (int d = last - 1; d >= 0 && ++q[d] == p->m[d]; d--) q[d] = 0;
        }
    }
}
#ifdef __AVX512F__
#undef PICK_OF
#undef PICK_OF_
#endif
