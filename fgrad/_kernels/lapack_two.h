/* A matrix to two diagonals, and those to singular vectors, for the type T; included by lapack_svd.h for each. */
#define V N(vec)
#define L N(VEC_LANES_OF)

/* A step: the last one's a less v y + x u, and what this one takes of it. Parts of rows, four of which one thread or several take in turn, are sets of
 * every fourth four; sums of columns are kept for each, so that they do not depend on the threads. */
typedef struct {
    T *a;
    int64_t ld;
    int m, i;
    const T *v, *y, *x, *u, *next;           /* of the last step, and this one's column */
    const T *along;                          /* this one's row */
    T *sums, *out, *column;
    T factor, dot;
} N(FgTwo);

/* Rows [r, r + R) as the last step leaves them, and p plus their products with this step's column. */
FG_INLINE void N(two_down)(const int R, const N(FgTwo) *s, int r, int64_t from, T *p) {
    T v[4], x[4], w[4];
    FG_LANES_UNROLL for (int k = 0; k < R; k++) { v[k] = s->v[r + k]; x[k] = s->x[r + k]; w[k] = s->next[r + k]; }
    T *a = s->a + r * s->ld;
    for (int64_t c = from; c < s->ld; c += L) {
        const V y = *(const V *)(s->y + c), u = *(const V *)(s->u + c);
        V sum = *(V *)(p + c);
        FG_LANES_UNROLL for (int k = 0; k < R; k++) {
            V *at = (V *)(a + k * s->ld + c);
            const V z = *at - v[k] * y - x[k] * u;
            *at = z;
            sum += w[k] * z;
        }
        *(V *)(p + c) = sum;
    }
}

/* What rows [r, r + R) come to with this step's row, which the column has changed them for, and their elements in the next column. */
FG_INLINE void N(two_across)(const int R, const N(FgTwo) *s, int r, int64_t from) {
    V sum[4];
    FG_LANES_UNROLL for (int k = 0; k < R; k++) sum[k] = (V){0};
    const T *a = s->a + r * s->ld;
    for (int64_t c = from; c < s->ld; c += L) {
        const V u = *(const V *)(s->along + c);
        FG_LANES_UNROLL for (int k = 0; k < R; k++) sum[k] += *(const V *)(a + k * s->ld + c) * u;
    }
    FG_LANES_UNROLL for (int k = 0; k < R; k++) {
        T t = 0;
        for (int l = 0; l < L; l++) t += sum[k][l];
        s->out[r + k] = s->factor * (t - s->next[r + k] * s->dot);
        s->column[r + k] = a[k * s->ld + s->i + 1];
    }
}

/* Parts [begin, end) of the rows from step i on (down) or below it (across). */
static void N(two_range)(const N(FgTwo) *s, int begin, int end, int across) {
    const int64_t from = (s->i + 1) / L * L;
    const int first = s->i + across;
    for (int part = begin; part < end; part++) {
        T *p = s->sums + part * s->ld;
        if (!across) memset(p + from, 0, (size_t)(s->ld - from) * sizeof(T));
        for (int r = first / 16 * 16 + 4 * part; r < s->m; r += 16) {
            int k = r < first ? first : r;
            const int stop = r + 4 < s->m ? r + 4 : s->m;
            if (across) {
                if (k + 4 == stop) N(two_across)(4, s, k, from);
                else for (; k < stop; k++) N(two_across)(1, s, k, from);
            } else if (k + 4 == stop) N(two_down)(4, s, k, from, p);
            else for (; k < stop; k++) N(two_down)(1, s, k, from, p);
        }
    }
}
static void N(two_down_range)(void *ctx, int64_t begin, int64_t end, int tid) { N(two_range)((const N(FgTwo) *)ctx, (int)begin, (int)end, 0); }
static void N(two_across_range)(void *ctx, int64_t begin, int64_t end, int tid) { N(two_range)((const N(FgTwo) *)ctx, (int)begin, (int)end, 1); }

/* A reflector of x (n) that leaves its first element, which is returned: x becomes 1 and what follows, *tau its factor (0: it is the identity). */
static T N(two_reflector)(T *x, int n, T *tau) {
    double square = 0;
    #pragma omp simd reduction(+:square)
    for (int c = 1; c < n; c++) square += (double)x[c] * x[c];
    const double alpha = x[0];
    x[0] = 1;
    if (square < FG_TWO_NONE) {
        *tau = 0;
        for (int c = 1; c < n; c++) x[c] = 0;
        return (T)alpha;
    }
    const double beta = -copysign(sqrt(alpha * alpha + square), alpha);
    const T scale = (T)(1 / (alpha - beta));
    *tau = (T)((beta - alpha) / beta);
    for (int c = 1; c < n; c++) x[c] *= scale;
    return (T)beta;
}

/* a (m, n), m >= n, rows ld apart and zero beyond n, to its diagonal d and the one above, e, by reflectors in turn of columns, kept in rows of `left`
 * (lm apart, zero before their leading one), and of rows, kept in a's, with taus. LAPACK's reflectors. room: 5 lm and 8 ld elements. */
static void N(two_reflect)(FgTeam *w, T *a, int m, int n, int64_t ld, T *left, int64_t lm, T *d, T *e, T *taus_left, T *taus_right, T *room) {
    T *x = room, *next_x = x + lm, *column = x + 2 * lm, *kept = x + 3 * lm;
    T *y = room + 5 * lm, *next_y = y + ld, *u = y + 2 * ld, *next_u = y + 3 * ld, *sums = y + 4 * ld, *swap;
    const T *v = kept + lm;
    memset(room, 0, (size_t)(5 * lm + 8 * ld) * sizeof(T));
    for (int r = 0; r < m; r++) column[r] = a[r * ld];
    for (int i = 0; i < n; i++) {
        T *next = left ? left + i * lm : kept + (i & 1) * lm;
        const T yi = y[i], ui = u[i];
        memset(next, 0, (size_t)i * sizeof(T));
        for (int r = i; r < m; r++) next[r] = column[r] - v[r] * yi - x[r] * ui;
        d[i] = N(two_reflector)(next + i, m - i, taus_left + i);
        if (i + 1 == n) break;
        N(FgTwo) s = {a, ld, m, i, v, y, x, u, next, next_u, sums, next_x, column, 0, 0};
        const int alone = (int64_t)(m - i) * (n - i) * (int64_t)sizeof(T) < FG_TWO_ALONE;
        if (alone) N(two_range)(&s, 0, 4, 0); else w->each(4, 1, N(two_down_range), &s);
        const T factor = taus_left[i];
        T *row = a + i * ld;
        for (int c = i + 1; c < n; c++) {
            next_y[c] = factor * ((sums[c] + sums[ld + c]) + (sums[2 * ld + c] + sums[3 * ld + c]));
            next_u[c] = row[c] - next_y[c];
        }
        for (int c = (i + 1) / L * L; c <= i; c++) next_y[c] = next_u[c] = 0;
        e[i] = N(two_reflector)(next_u + i + 1, n - i - 1, taus_right + i);
        memset(row, 0, (size_t)(i + 1) * sizeof(T));
        memcpy(row + i + 1, next_u + i + 1, (size_t)(n - i - 1) * sizeof(T));
        double dot = 0;
        #pragma omp simd reduction(+:dot)
        for (int c = i + 1; c < n; c++) dot += (double)next_u[c] * next_y[c];
        s.factor = taus_right[i];
        s.dot = (T)dot;
        if (alone) N(two_range)(&s, 0, 4, 1); else w->each(4, 1, N(two_across_range), &s);
        v = next;
        swap = x; x = next_x; next_x = swap;
        swap = y; y = next_y; next_y = swap;
        swap = u; u = next_u; next_u = swap;
    }
}

/* --- singular vectors of two diagonals, by LAPACK's divide and conquer: its leaves and joins on all threads, the last join here -------------- */

typedef struct { const FgSvd *q; T *d, *e, *u, *vh; int n, parts; } N(FgHalves);

/* Part i of `parts` equal ones of n rows, as LAPACK halves them: there is a row between two parts. */
static int N(two_cut)(int n, int parts, int i, int *size) {
    int at = 0;
    for (; parts > 1; parts /= 2) {
        if (i < parts / 2) { n /= 2; continue; }
        at += n / 2 + 1;
        n -= n / 2 + 1;
        i -= parts / 2;
    }
    *size = n;
    return at;
}

static void N(two_leaves)(void *ctx, int64_t begin, int64_t end, int tid) {
    const N(FgHalves) *s = (const N(FgHalves) *)ctx;
    for (int64_t p = begin; p < end; p++) {
        int n, at = N(two_cut)(s->n, s->parts, (int)p, &n), more = p + 1 < s->parts, wide = n + more, ld = s->q->n, none = 0, info = 0;
        T *u = s->u + (int64_t)at * (ld + 1), *vh = s->vh + (int64_t)at * (ld + 1);
        ((FgLasdq)fg_lapack[FG_LASDQ][s->q->w->t])("U", &more, &n, &wide, &n, &none, s->d + at, s->e + at, vh, &ld, u, &ld, u, &ld,
                                                   (T *)s->q->work + 4 * at, &info, 1);
        if (info) *s->q->failed = 1;
        for (int i = 0; i < n; i++) s->q->order[at + i] = i + 1;
    }
}

static void N(two_joins)(void *ctx, int64_t begin, int64_t end, int tid) {
    const N(FgHalves) *s = (const N(FgHalves) *)ctx;
    const int64_t most = s->n / s->parts + 2, room = 3 * most * most + 2 * most;
    for (int64_t p = begin; p < end; p++) {
        int n, at = N(two_cut)(s->n, s->parts, (int)p, &n), more = p + 1 < s->parts, left = n / 2, right = n - left - 1, ld = s->q->n, info = 0;
        T alpha = s->d[at + left], beta = s->e[at + left];
        ((FgLasd1)fg_lapack[FG_LASD1][s->q->w->t])(&left, &right, &more, s->d + at, &alpha, &beta, s->u + (int64_t)at * (ld + 1), &ld,
                                                   s->vh + (int64_t)at * (ld + 1), &ld, s->q->order + at, s->q->ints + 4 * at,
                                                   (T *)s->q->work + p * room, &info);
        if (info) *s->q->failed = 1;
    }
}

/* The secular equation of k roots with poles, whose differences from and sums with root i go to columns i of u and v, ld apart. */
typedef struct {
    const FgSvd *q;
    int k;
    int64_t ld;
    T *poles, *z, *u, *v, *roots, *q_left, *q_right, rho;
    const T *signs;
    const int *order;
} N(FgSecular);

static void N(two_roots)(void *ctx, int64_t begin, int64_t end, int tid) {
    const N(FgSecular) *s = (const N(FgSecular) *)ctx;
    for (int64_t i = begin; i < end; i++) {
        int k = s->k, which = (int)i + 1, info = 0;
        ((FgLasd4)fg_lapack[FG_LASD4][s->q->w->t])(&k, &which, s->poles, s->z, s->u + i * s->ld, &s->rho, s->roots + i, s->v + i * s->ld, &info);
        if (info) *s->q->failed = 1;
    }
}

/* Elements [begin, end) of the z whose secular equation has those roots exactly (Gu and Eisenstat). */
static void N(two_again)(void *ctx, int64_t begin, int64_t end, int tid) {
    const N(FgSecular) *s = (const N(FgSecular) *)ctx;
    const int k = s->k;
    const T *u = s->u, *v = s->v, *poles = s->poles;
    T *z = s->z;
    for (int64_t i = begin; i < end; i++) z[i] = u[(k - 1) * s->ld + i] * v[(k - 1) * s->ld + i];
    for (int j = 0; j + 1 < k; j++, u += s->ld, v += s->ld) {
        const int64_t middle = j + 1 < begin ? begin : j + 1 > end ? end : j + 1;
        const T before = poles[j + 1], after = poles[j];
        for (int64_t i = begin; i < middle; i++) z[i] *= u[i] * v[i] / (poles[i] - before) / (poles[i] + before);
        for (int64_t i = middle; i < end; i++) z[i] *= u[i] * v[i] / (poles[i] - after) / (poles[i] + after);
    }
    for (int64_t i = begin; i < end; i++) z[i] = (T)copysign(sqrt(fabs((double)z[i])), (double)s->signs[i]);
}

/* Vectors [begin, end) of the matrix that the last join leaves, in rows of q_left and q_right, k apart, in the halves' order. */
static void N(two_sides)(void *ctx, int64_t begin, int64_t end, int tid) {
    const N(FgSecular) *s = (const N(FgSecular) *)ctx;
    const int k = s->k;
    for (int64_t i = begin; i < end; i++) {
        T *u = s->u + i * s->ld, *v = s->v + i * s->ld, *left = s->q_left + i * k, *right = s->q_right + i * k;
        double one = 1, two = 0;
        for (int j = 0; j < k; j++) v[j] = s->z[j] / u[j] / v[j];
        for (int j = 1; j < k; j++) u[j] = s->poles[j] * v[j];
        u[0] = -1;
        #pragma omp simd reduction(+:one)
        for (int j = 1; j < k; j++) one += (double)u[j] * u[j];
        #pragma omp simd reduction(+:two)
        for (int j = 0; j < k; j++) two += (double)v[j] * v[j];
        const T short_u = (T)sqrt(one), short_v = (T)sqrt(two);
        left[0] = u[0] / short_u;
        right[0] = v[0] / short_v;
        for (int j = 1; j < k; j++) {
            const int c = s->order[j] - 1;
            left[j] = u[c] / short_u;
            right[j] = v[c] / short_v;
        }
    }
}

/* Column-major c (m, k, ldc) = or += a (m, n, lda) times the transpose of b, whose rows (k) of n are ldb apart. */
static void N(two_product)(const FgSvd *q, T *c, int64_t ldc, const T *a, int64_t lda, const T *b, int64_t ldb, int m, int k, int n, int add) {
    fg_qr_product(&q->qr, (FgPlace){(char *)c, ldc, 1}, (FgPlace){(char *)b, ldb, 1}, (FgPlace){(char *)a, lda, 1}, k, m, n, add);
}

/* The join of two halves of n rows into all of it: LAPACK's lasd1 with its equations and products on all threads. */
static void N(two_last)(const FgSvd *q, T *d, T *e, T *u, T *vh, int n) {
    int left = n / 2, right = n - left - 1, ld = q->n, none = 0, k = 0, info = 0;
    T *z = (T *)q->work, *poles = z + n, *signs = poles + n, *u2 = signs + n, *vh2 = u2 + (int64_t)n * n, *rest = vh2 + (int64_t)n * n;
    int *idx = q->ints, *idxc = idx + n, *kinds = idxc + n, *idxp = kinds + n;
    T alpha = d[left], beta = e[left], most = fabs((double)alpha) > fabs((double)beta) ? (T)fabs((double)alpha) : (T)fabs((double)beta);
    d[left] = 0;
    for (int i = 0; i < n; i++) if (fabs((double)d[i]) > most) most = (T)fabs((double)d[i]);
    for (int i = 0; i < n; i++) d[i] /= most;
    alpha /= most;
    beta /= most;
    ((FgLasd2)fg_lapack[FG_LASD2][q->w->t])(&left, &right, &none, &k, d, z, &alpha, &beta, u, &ld, vh, &ld, poles, u2, &n, vh2, &n, idxp, idx, idxc,
                                            q->order, kinds, &info);
    if (info) { *q->failed = 1; return; }
    if (k < FG_TWO_SECULAR) {
        ((FgLasd3)fg_lapack[FG_LASD3][q->w->t])(&left, &right, &none, &k, d, rest, &k, poles, u, &ld, u2, &n, vh, &ld, vh2, &n, idxc, kinds, z, &info);
        if (info) { *q->failed = 1; return; }
    } else {
        /* Columns of u and v, n apart, take what the roots leave; products then need what LAPACK keeps in place of u and vh. */
        T *roots = rest, *sums = roots + (int64_t)k * k;
        double square = 0;
        for (int i = 0; i < k; i++) square += (double)z[i] * z[i];
        const T rho = (T)sqrt(square);
        for (int i = 0; i < k; i++) { signs[i] = z[i]; z[i] /= rho; }
        N(FgSecular) s = {q, k, ld, poles, z, u, vh, d, roots, sums, rho * rho, signs, idxc};
        q->w->each(k, 8, N(two_roots), &s);
        if (*q->failed) return;
        q->w->each(k, 32, N(two_again), &s);
        q->w->each(k, 8, N(two_sides), &s);
        /* Columns of u2 of rows of the left half only, of the right one only, and of both; the first one, of neither but the row between. */
        const int first = kinds[0], second = kinds[1], both = kinds[2];
        const int64_t dense = 1 + first + second;
        if (first) N(two_product)(q, u, ld, u2 + n, n, roots + 1, k, left, k, first, 0);
        if (both) N(two_product)(q, u, ld, u2 + dense * n, n, roots + dense, k, left, k, both, first > 0);
        if (!first && !both) for (int i = 0; i < k; i++) memcpy(u + (int64_t)i * ld, u2 + (int64_t)i * n, (size_t)left * sizeof(T));
        for (int i = 0; i < k; i++) u[(int64_t)i * ld + left] = roots[(int64_t)i * k];
        N(two_product)(q, u + left + 1, ld, u2 + (1 + first) * (int64_t)n + left + 1, n, roots + 1 + first, k, right, k, second + both, 0);
        /* vh (k, columns) = sums (k, kinds) vh2 (kinds, columns), columns first in memory. */
        const FgPlace v = {(char *)vh, ld, 1}, v2 = {(char *)vh2, n, 1}, by = {(char *)sums, 1, k};
        fg_qr_product(&q->qr, v, v2, by, left + 1, k, 1 + first, 0);
        fg_qr_product(&q->qr, v, fg_part(q->w, v2, 0, dense), fg_part(q->w, by, dense, 0), left + 1, k, both, 1);
        if (first) {
            for (int i = 0; i < k; i++) sums[(int64_t)i * k + first] = sums[(int64_t)i * k];
            for (int i = left + 1; i < n; i++) vh2[(int64_t)i * n + first] = vh2[(int64_t)i * n];
        }
        fg_qr_product(&q->qr, fg_part(q->w, v, left + 1, 0), fg_part(q->w, v2, left + 1, first), fg_part(q->w, by, first, 0), right, k,
                      1 + second + both, 0);
    }
    for (int i = 0; i < n; i++) d[i] *= most;
}

/* A block of n rows none of whose elements above the diagonal vanishes; u and vh begin as identities. */
static void N(two_block)(const FgSvd *q, T *d, T *e, T *u, T *vh, int n) {
    N(FgHalves) s = {q, d, e, u, vh, n, 1};
    if (n > FG_TWO_LEAF) s.parts = 1 << ((int)(log((double)((float)n / (FG_TWO_LEAF + 1))) / log(2.0)) + 1);
    q->w->each(s.parts, 1, N(two_leaves), &s);
    while (s.parts > 2) {
        s.parts /= 2;
        q->w->each(s.parts, 1, N(two_joins), &s);
    }
    if (s.parts == 2 && !*q->failed) N(two_last)(q, d, e, u, vh, n);
}

/* d and e (n) to singular values, their order to q->order, from 0; columns of u and rows of vh (column-major both) to their vectors. */
static void N(two_vectors)(const FgSvd *q, T *d, T *e, T *u, T *vh) {
    const int n = q->n;
    const T eps = N(FG_QL_EPS);
    T most = 0;
    memset(u, 0, (size_t)n * n * sizeof(T));
    memset(vh, 0, (size_t)n * n * sizeof(T));
    for (int i = 0; i < n; i++) {
        u[(int64_t)i * (n + 1)] = vh[(int64_t)i * (n + 1)] = 1;
        if (fabs((double)d[i]) > most) most = (T)fabs((double)d[i]);
        if (i + 1 < n && fabs((double)e[i]) > most) most = (T)fabs((double)e[i]);
    }
    for (int i = 0; i < n; i++) {
        d[i] /= most;
        if (i + 1 < n) e[i] /= most;
        if (fabs((double)d[i]) < eps) d[i] = (T)copysign(eps, (double)d[i]);
    }
    for (int begin = 0, end; begin < n && !*q->failed; begin = end + 1) {
        for (end = begin; end + 1 < n && fabs((double)e[end]) >= eps; end++) {}
        T *at = u + (int64_t)begin * (n + 1);
        if (end == begin && end + 1 == n && n > 1) {
            *at = (T)copysign(1, (double)d[end]);
            d[end] = (T)fabs((double)d[end]);
        } else N(two_block)(q, d + begin, e + begin, at, vh + (int64_t)begin * (n + 1), end + 1 - begin);
    }
    for (int i = 0; i < n; i++) { d[i] *= most; q->order[i] = i; }
    for (int i = 0; i + 1 < n; i++) {                        /* by choosing the largest, as LAPACK does */
        int k = i;
        for (int j = i + 1; j < n; j++) if (d[j] > d[k]) k = j;
        const T value = d[k];
        const int from = q->order[k];
        d[k] = d[i];
        d[i] = value;
        q->order[k] = q->order[i];
        q->order[i] = from;
    }
}

/* Rotations that made a lower pair of diagonals an upper one, (1, n) cosines and sines, applied to vectors [begin, end), which are rows of u. */
typedef struct { const FgSvd *q; const T *cosines, *sines; T *u; } N(FgLower);
static void N(two_lower)(void *ctx, int64_t begin, int64_t end, int tid) {
    const N(FgLower) *s = (const N(FgLower) *)ctx;
    const int n = s->q->n;
    for (int64_t i = begin; i < end; i++) {
        T *u = s->u + i * n, low = u[n - 1];
        for (int j = n - 2; j >= 0; j--) {
            const T high = u[j], c = s->cosines[j], r = s->sines[j];
            u[j + 1] = c * low + r * high;
            low = c * high - r * low;
        }
        u[0] = low;
    }
}

/* Vectors of two diagonals, rows of `from` by columns of a matrix, or in its columns, to the first n vectors of `to` (components, vectors), in order. */
static void N(two_order)(const FgSvd *q, const T *from, int columns, FgPlace to) {
    const int n = q->n;
    const int64_t step = to.column == 1 ? n : to.column;
    T *rows = (T *)q->work, *at = to.column == 1 ? rows + (int64_t)n * n : (T *)to.at;
    if (columns) {
        G(pack)(rows, n, from, n, n, 1, n);
        from = rows;
    }
    for (int i = 0; i < n; i++) memcpy(at + i * step, from + (int64_t)q->order[i] * n, (size_t)n * sizeof(T));
    if (to.column == 1) G(pack)((T *)to.at, to.row, at, n, n, 1, n);
}

/* Singular values of x, whose longer side has m, and unless u is NULL their vectors, `count` of the longer side; 0: left to LAPACK. */
static int N(two_matrix)(const FgSvd *q, const T *x, int wide, T *values, T *u, T *vh, int count) {
    const int m = q->m, n = q->n;
    const int64_t ld = q->ld, lm = q->lm;
    T *a = (T *)q->a, *left = u ? (T *)q->left : NULL, *d = (T *)q->d, *e = d + ld, *taus = e + ld, *taus_right = taus + ld, *room = taus_right + ld;
    T *small_u = (T *)q->u, *small_v = (T *)q->vh, most = 0;
    #pragma omp simd reduction(max:most)
    for (int64_t i = 0; i < (int64_t)m * n; i++) { const T size = x[i] < 0 ? -x[i] : x[i]; most = size > most ? size : most; }
    if (!(most <= N(FG_QL_MUCH) && most >= N(FG_QL_LITTLE))) return 0;
    if (wide) G(pack)(a, ld, x, n, m, 1, m);
    for (int r = 0; r < m; r++) {
        if (!wide) memcpy(a + r * ld, x + (int64_t)r * n, (size_t)n * sizeof(T));
        memset(a + r * ld + n, 0, (size_t)(ld - n) * sizeof(T));
    }
    N(two_reflect)(q->w, a, m, n, ld, left, lm, d, e, taus, taus_right, room);
    if (!u) {
        int size = n, info = 0;
        ((FgLasq1)fg_lapack[FG_LASQ1][q->w->t])(&size, d, e, q->work, &info);
        memcpy(values, d, (size_t)n * sizeof(T));
        return info == 0;
    }
    T *cosines = room, *sines = room + ld;
    if (wide) for (int i = 0; i + 1 < n; i++) {              /* LAPACK's diagonals of a wide matrix are the lower ones */
        T one = d[i], other = e[i];
        ((FgLartg)fg_lapack[FG_LARTG][q->w->t])(&one, &other, cosines + i, sines + i, d + i);
        e[i] = sines[i] * d[i + 1];
        d[i + 1] *= cosines[i];
    }
    N(two_vectors)(q, d, e, small_u, small_v);
    if (*q->failed) return 0;
    memcpy(values, d, (size_t)n * sizeof(T));
    if (wide) {
        N(FgLower) s = {q, cosines, sines, small_u};
        q->w->each(n, 16, N(two_lower), &s);
    }
    const FgPlace longer = wide ? (FgPlace){(char *)vh, 1, m} : (FgPlace){(char *)u, count, 1};
    const FgPlace shorter = wide ? (FgPlace){(char *)u, n, 1} : (FgPlace){(char *)vh, 1, n};
    memset(longer.at, 0, (size_t)((int64_t)m * count) * sizeof(T));
    for (int i = n; i < count; i++) *(T *)fg_part(q->w, longer, i, i).at = 1;
    N(two_order)(q, wide ? small_v : small_u, wide, longer);
    N(two_order)(q, wide ? small_u : small_v, !wide, shorter);
    fg_svd_turn(q, (FgPlace){(char *)left, 1, lm}, longer, m, count, n, (const char *)taus);
    fg_svd_turn(q, (FgPlace){(char *)(a + 1), 1, ld}, fg_part(q->w, shorter, 1, 0), n - 1, n, n - 1, (const char *)taus_right);
    return 1;
}
#undef V
#undef L
