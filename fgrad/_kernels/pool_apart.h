/* Windows of two neighbouring axes (or of one) that do not overlap, element type T; N(name) appends the type's suffix. Every tap is a run
 * of vectors, the elements of neighbouring windows side by side, so nothing is scattered or summed where it lies: each output is written
 * once. Included once per type by pool.h. */

#define APART_VEC(name, bytes) \
typedef T N(name) __attribute__((vector_size(bytes))); \
typedef T N(name##_at) __attribute__((vector_size(bytes), aligned(sizeof(T)), may_alias)); \
typedef WHOLE N(name##_int) __attribute__((vector_size(bytes)));
APART_VEC(apart_wide, POOL_BYTES)
APART_VEC(apart_half, 16)
APART_VEC(apart_one, sizeof(T))

/* Tap k of the windows is off[k] from x, and where outputs (or a's elements) are the taps' too, from those. */
#define APART_STEP(NAME, VEC) \
static inline __attribute__((always_inline)) void N(NAME)(const int op, const int taps, const int largest, const int64_t *off, const T *x, \
                                                          const T *a, T *out) { \
    typedef N(VEC) vec; \
    typedef N(VEC##_at) at; \
    typedef N(VEC##_int) whole; \
    vec best; \
    whole place = {0}, take, sum = {0}; \
    if (op == APART_SPREAD) { \
        best = *(const at *)a; \
        for (int k = 0; k < taps; k++) *(at *)(out + off[k]) = best; \
        return; \
    } \
    best = *(const at *)(x + off[0]); \
    for (int k = 1; k < taps; k++) { \
        const vec v = *(const at *)(x + off[k]); \
        if (op == APART_SUM) { best += v; continue; } \
        take = largest ? v > best : v < best; \
        if (op == APART_EXTREMUM) take |= v != v; \
        else take |= (v != v) & (best == best); \
        best = (vec)(((whole)v & take) | ((whole)best & ~take)); \
        if (op > APART_SPREAD) place = (((whole){0} + k) & take) | (place & ~take); \
    } \
    if (op == APART_SCATTER) { \
        const whole from = (whole)*(const at *)a; \
        for (int k = 0; k < taps; k++) *(at *)(out + off[k]) = (vec)(from & (place == k)); \
    } else if (op == APART_GATHER) { \
        for (int k = 0; k < taps; k++) sum |= (whole)*(const at *)(a + off[k]) & (place == k); \
        *(at *)out = (vec)sum; \
    } else *(at *)out = best; \
}
APART_STEP(apart_step_wide, apart_wide)
APART_STEP(apart_step_half, apart_half)
APART_STEP(apart_step_one, apart_one)

/* n windows side by side; the last vector of a row repeats some of those before it. */
static inline __attribute__((always_inline)) void N(apart_row)(const int op, const int taps, const int largest, const int64_t *off, const T *x,
                                                               const T *a, T *out, int64_t n) {
    #define APART_EACH(STEP, L) { \
        for (int64_t i = 0; i + L < n; i += L) N(STEP)(op, taps, largest, off, x + i, a + i, out + i); \
        N(STEP)(op, taps, largest, off, x + n - L, a + n - L, out + n - L); \
    }
    enum { WIDE = POOL_BYTES / sizeof(T), HALF = 16 / sizeof(T) };
    if (n >= WIDE) APART_EACH(apart_step_wide, WIDE)
    else if (n >= HALF) APART_EACH(apart_step_half, HALF)
    else for (int64_t i = 0; i < n; i++) N(apart_step_one)(op, taps, largest, off, x + i, a + i, out + i);
    #undef APART_EACH
}

/* `count` rows of windows. x, a and out begin with the first. */
static inline __attribute__((always_inline)) void N(apart_rows)(const FgApart *p, const int op, const int taps, const T *x, const T *a, T *out,
                                                                int64_t count, const int64_t *off, int64_t line, int64_t pixel) {
    const int64_t n = p->inner == 1 || p->w2 == 1 ? p->m2 * p->inner : p->inner, each = p->m2 * p->inner;
    const int big = op == APART_SCATTER || op == APART_SPREAD, both = op == APART_GATHER;
    for (int64_t j = 0; j < count; j++) for (int64_t q = 0; q < each; q += n) {
        const int64_t from = j * p->w1 * line + q / n * pixel, to = j * each + q;
        if (p->largest) N(apart_row)(op, taps, 1, off, x + from, a + (both ? from : to), out + (big ? from : to), n);
        else N(apart_row)(op, taps, 0, off, x + from, a + (both ? from : to), out + (big ? from : to), n);
    }
}

/* Rows of x where neighbours belong to one window: run r holds element r of each, `area` after the run before. */
static void N(apart_split)(const FgApart *p, const T *x, T *to, int64_t rows, int64_t area) {
    const int64_t whole = p->n2 == p->m2 * p->w2, n = whole ? rows * p->m2 : p->m2;
    for (int64_t i = 0; i < rows; i += whole ? rows : 1, x += p->n2, to += p->m2)
        for (int64_t r = 0; r < p->w2; r++)
            if (!fg_every(to + r * area, x + r, sizeof(T), p->w2, n)) for (int64_t j = 0; j < n; j++) to[r * area + j] = x[j * p->w2 + r];
}

static void N(apart_join)(const FgApart *p, const T *from, T *out, int64_t rows, int64_t area) {
    enum { L = POOL_BYTES / sizeof(T) };
    const int64_t whole = p->n2 == p->m2 * p->w2, n = whole ? rows * p->m2 : p->m2;
    for (int64_t i = 0; i < rows; i += whole ? rows : 1, out += p->n2, from += p->m2) {
        int64_t j = 0;
        if (p->w2 == 2) for (; j + L <= n; j += L) {
            const N(apart_wide) x = *(const N(apart_wide_at) *)(from + j), y = *(const N(apart_wide_at) *)(from + area + j);
            *(N(apart_wide_at) *)(out + 2 * j) = __builtin_shufflevector(x, y, APART_LOW);
            *(N(apart_wide_at) *)(out + 2 * j + L) = __builtin_shufflevector(x, y, APART_HIGH);
        }
        for (; j < n; j++) for (int64_t r = 0; r < p->w2; r++) out[j * p->w2 + r] = from[r * area + j];
    }
}

/* Units (outer, block of rows of windows). `buf` holds two blocks and its rows, where there are fewer elements side by side than a vector
 * has. There sums and extrema are those of columns first, then of what neighbours leave. */
static void N(pool_apart)(const FgApart *p, const T *as, const T *xs, T *outs, int64_t begin, int64_t end, T *buf) {
    const int64_t blocks = (p->m1 + p->rows - 1) / p->rows, line = p->n2 * p->inner, used = p->m2 * p->w2 * p->inner;
    const int turned = p->inner == 1 && p->w2 > 1, big = p->op == APART_SCATTER || p->op == APART_SPREAD;
    const int first = p->op <= APART_EXTREMUM && p->w1 > 1 && p->w2 > 1 && p->inner < 64 / (int64_t)sizeof(T);
    int64_t off[APART_TAPS];
    for (int64_t u = begin; u < end; u++) {
        const int64_t o = u / blocks, j = u % blocks * p->rows, large = (o * p->n1 + j * p->w1) * line, small = (o * p->m1 + j) * p->m2 * p->inner;
        const T *x = p->op == APART_SPREAD ? as + small : xs + large, *a = p->op == APART_GATHER ? as + large : p->op > APART_EXTREMUM ? as + small : x;
        T *to = outs + (big ? large : small), *out = to, *turn = buf + p->rows * line;
        int64_t count = p->m1 - j < p->rows ? p->m1 - j : p->rows, rows = count * p->w1, area;
        FgApart v = *p;
        #define APART_OF(OP) case OP: \
            if (taps == 4) N(apart_rows)(&v, OP, 4, x, a, out, count, off, turned ? v.m2 : line, v.w2 * v.inner); \
            else N(apart_rows)(&v, OP, taps, x, a, out, count, off, turned ? v.m2 : line, v.w2 * v.inner); \
            break;
        if (first) {
            for (int k = 0; k < p->w1; k++) off[k] = k * line;
            for (int64_t i = 0; i < count; i++) {
                const T *from = x + i * p->w1 * line;
                if (p->op == APART_SUM) N(apart_row)(APART_SUM, (int)p->w1, 1, off, from, from, buf + i * line, line);
                else N(apart_row)(APART_EXTREMUM, (int)p->w1, p->largest, off, from, from, buf + i * line, line);
            }
            x = a = buf;
            v.w1 = 1;
            rows = count;
        }
        area = rows * v.m2;
        if (turned && p->op != APART_SPREAD) { N(apart_split)(&v, x, turn, rows, area); x = turn; }
        if (turned && p->op == APART_GATHER) { N(apart_split)(&v, a, turn + p->w2 * area, rows, area); a = turn + p->w2 * area; }
        if (turned && big) out = turn + p->w2 * area;
        if (turned && v.w1 == 1) { v.m2 *= count; count = 1; }                /* all windows of the block lie side by side */
        for (int k = 0; k < v.w1 * v.w2; k++)
            off[k] = turned ? k % v.w2 * area + k / v.w2 * v.m2 : k / v.w2 * line + k % v.w2 * v.inner;
        const int taps = (int)(v.w1 * v.w2);
        switch (p->op) { APART_OF(APART_SUM) APART_OF(APART_EXTREMUM) APART_OF(APART_SPREAD) APART_OF(APART_SCATTER) default: APART_OF(APART_GATHER) }
        #undef APART_OF
        if (!big) continue;
        if (turned) N(apart_join)(p, out, to, rows, area);
        if (used < line) for (int64_t i = 0; i < rows; i++) memset(to + i * line + used, 0, (size_t)(line - used) * sizeof(T));
        if (j + p->rows >= p->m1) memset(to + rows * line, 0, (size_t)((p->n1 - p->m1 * p->w1) * line) * sizeof(T));
    }
}
#undef APART_VEC
#undef APART_STEP
