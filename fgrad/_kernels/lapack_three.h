/* A symmetric matrix to three diagonals, and those to eigenvectors, for the type T; included by lapack_eigh.h for each. */
#define V N(vec)
#define L N(VEC_LANES_OF)

/* A step: a less v w + w v of the last one, whose row x this one takes. Parts of rows, four of which one thread or several take in turn, are sets of
 * every fourth four; sums are kept for each, so that they do not depend on the threads. */
typedef struct { T *a; int64_t ld; int n, first; const T *v, *w, *x; T *sums; } N(FgThreeStep);

/* Rows [i, i + R), and p plus their products with what they meet, x: all there is to do with an element at a time. */
FG_INLINE void N(three_rows)(const int R, const N(FgThreeStep) *s, int i, int from, T *p) {
    T vi[4], wi[4], xi[4];
    FG_LANES_UNROLL for (int r = 0; r < R; r++) { vi[r] = s->v[i + r]; wi[r] = s->w[i + r]; xi[r] = s->x[i + r]; }
    const int64_t ld = s->ld;
    T *a = s->a + i * ld;
    for (int c = from; c < ld; c += L) {
        const V vc = *(const V *)(s->v + c), wc = *(const V *)(s->w + c);
        V sum = *(V *)(p + c);
        FG_LANES_UNROLL for (int r = 0; r < R; r++) {
            V *at = (V *)(a + r * ld + c);
            const V y = *at - vi[r] * wc - wi[r] * vc;
            *at = y;
            sum += xi[r] * y;
        }
        *(V *)(p + c) = sum;
    }
}

static void N(three_range)(void *ctx, int64_t begin, int64_t end, int tid) {
    const N(FgThreeStep) *s = (const N(FgThreeStep) *)ctx;
    const int from = s->first / L * L;
    for (int64_t part = begin; part < end; part++) {
        T *p = s->sums + part * s->ld;
        memset(p + from, 0, (size_t)(s->ld - from) * sizeof(T));
        for (int i = s->first / 16 * 16 + 4 * (int)part; i < s->n; i += 16) {
            int r = i < s->first ? s->first : i;
            const int stop = i + 4 < s->n ? i + 4 : s->n;
            if (r + 4 == stop) N(three_rows)(4, s, r, from, p);
            else for (; r < stop; r++) N(three_rows)(1, s, r, from, p);
        }
    }
}

/* a (n, n), both triangles, rows ld apart and zero beyond n, to its diagonal d and its neighbour e by reflectors: row k becomes that of column k,
 * zeros before its leading one, with tau[k]. LAPACK's reflectors of a lower triangle. room: 7 ld elements. */
static void N(three_reflect)(FgTeam *team, T *a, int n, int64_t ld, T *d, T *e, T *tau, T *room) {
    T *w = room, *p = room + ld, *swap;
    const T *v = room + 2 * ld;
    const T *sums = room + 3 * ld;
    memset(room, 0, (size_t)(7 * ld) * sizeof(T));
    for (int k = 0; k < n; k++) {
        T *x = a + k * ld;
        const T vk = v[k], wk = w[k];
        double square = 0, dot = 0;
        for (int c = k; c < n; c++) x[c] -= vk * w[c] + wk * v[c];
        d[k] = x[k];
        if (k + 1 == n) return;
        const double alpha = x[k + 1];
        #pragma omp simd reduction(+:square)
        for (int c = k + 2; c < n; c++) square += (double)x[c] * x[c];
        memset(x, 0, (size_t)(k + 1) * sizeof(T));
        if (square < FG_THREE_NONE) {
            e[k] = (T)alpha;
            tau[k] = 0;
            for (int c = k + 1; c < n; c++) x[c] = 0;
        } else {
            const double beta = -copysign(sqrt(alpha * alpha + square), alpha);
            const T scale = (T)(1 / (alpha - beta));
            e[k] = (T)beta;
            tau[k] = (T)((beta - alpha) / beta);
            x[k + 1] = 1;
            for (int c = k + 2; c < n; c++) x[c] *= scale;
        }
        N(FgThreeStep) s = {a, ld, n, k + 1, v, w, x, room + 3 * ld};
        const int from = (k + 1) / L * L;
        if ((int64_t)(n - k) * (n - k) * (int64_t)sizeof(T) < FG_THREE_ALONE) N(three_range)(&s, 0, 4, 0);
        else team->each(4, 1, N(three_range), &s);
        for (int c = from; c < ld; c++) p[c] = (sums[c] + sums[ld + c]) + (sums[2 * ld + c] + sums[3 * ld + c]);
        #pragma omp simd reduction(+:dot)
        for (int c = k + 1; c < n; c++) dot += (double)x[c] * p[c];
        const T half = (T)(-0.5 * tau[k] * tau[k] * dot), factor = tau[k];
        for (int c = from; c < ld; c++) p[c] = factor * p[c] + half * x[c];
        for (int c = from; c <= k; c++) p[c] = 0;
        swap = w;
        w = p;
        p = swap;
        v = x;
    }
}

/* --- eigenvectors of three diagonals, by LAPACK's divide and conquer: its leaves and joins on all threads, the last join here ---------------- */

typedef struct { const FgEigh *q; T *d, *e, *z; int n, parts; } N(FgThree);

/* Where part i of 2^levels equal parts of n begins, as LAPACK halves them. */
static int N(three_cut)(int n, int parts, int i) {
    int at = 0;
    for (; parts > 1; parts /= 2) {
        if (i >= parts / 2) { at += n / 2; n = (n + 1) / 2; i -= parts / 2; } else n /= 2;
    }
    return at + (i ? n : 0);
}

static void N(three_leaves)(void *ctx, int64_t begin, int64_t end, int tid) {
    const N(FgThree) *s = (const N(FgThree) *)ctx;
    for (int64_t u = begin; u < end; u++) {
        int at = N(three_cut)(s->n, s->parts, (int)u), size = N(three_cut)(s->n, s->parts, (int)u + 1) - at, ld = s->q->n, info = 0;
        ((FgSteqr)fg_lapack[FG_STEQR][s->q->w->t])("I", &size, s->d + at, s->e + at, s->z + (int64_t)at * (ld + 1), &ld, (T *)s->q->work + 2 * at, &info, 1);
        if (info) *s->q->failed = 1;
        for (int i = 0; i < size; i++) s->q->order[at + i] = i + 1;
    }
}

static void N(three_joins)(void *ctx, int64_t begin, int64_t end, int tid) {
    const N(FgThree) *s = (const N(FgThree) *)ctx;
    for (int64_t u = begin; u < end; u++) {
        int at = N(three_cut)(s->n, s->parts, (int)u), size = N(three_cut)(s->n, s->parts, (int)u + 1) - at, cut = size / 2, ld = s->q->n, info = 0;
        ((FgLaed1)fg_lapack[FG_LAED1][s->q->w->t])(&size, s->d + at, s->z + (int64_t)at * (ld + 1), &ld, s->q->order + at, s->e + at + cut - 1, &cut,
                                                   (T *)s->q->work + (int64_t)at * (ld + 4), s->q->ints + 4 * at, &info);
        if (info) *s->q->failed = 1;
    }
}

/* The secular equation of k roots with poles, whose differences from root i go to row i of u, ld apart. */
typedef struct {
    const FgEigh *q;
    int k;
    int64_t ld;
    T *poles, *w, *u, *roots, *sides, rho;
    const T *signs;
    const int *order;
} N(FgThreeRoots);

static void N(three_roots)(void *ctx, int64_t begin, int64_t end, int tid) {
    const N(FgThreeRoots) *s = (const N(FgThreeRoots) *)ctx;
    for (int64_t i = begin; i < end; i++) {
        int k = s->k, which = (int)i + 1, info = 0;
        T rho = s->rho;
        ((FgLaed4)fg_lapack[FG_LAED4][s->q->w->t])(&k, &which, s->poles, s->w, s->u + i * s->ld, &rho, s->roots + i, &info);
        if (info) *s->q->failed = 1;
    }
}

/* Elements [begin, end) of the w whose secular equation has those roots exactly (Gu and Eisenstat). */
static void N(three_again)(void *ctx, int64_t begin, int64_t end, int tid) {
    const N(FgThreeRoots) *s = (const N(FgThreeRoots) *)ctx;
    const T *poles = s->poles, *u = s->u;
    T *w = s->w;
    for (int64_t i = begin; i < end; i++) w[i] = s->u[i * (s->ld + 1)];
    for (int j = 0; j < s->k; j++, u += s->ld) {
        const T pole = poles[j];
        const int64_t middle = j < begin ? begin : j > end ? end : j, after = middle == j && j < end ? middle + 1 : middle;
        for (int64_t i = begin; i < middle; i++) w[i] *= u[i] / (poles[i] - pole);
        for (int64_t i = after; i < end; i++) w[i] *= u[i] / (poles[i] - pole);
    }
    for (int64_t i = begin; i < end; i++) w[i] = (T)copysign(sqrt(-(double)w[i]), (double)s->signs[i]);
}

/* Vectors [begin, end) of the matrix that the last join leaves, in rows of `sides`, k apart, in the halves' order. */
static void N(three_sides)(void *ctx, int64_t begin, int64_t end, int tid) {
    const N(FgThreeRoots) *s = (const N(FgThreeRoots) *)ctx;
    const int k = s->k;
    for (int64_t i = begin; i < end; i++) {
        T *u = s->u + i * s->ld, *to = s->sides + i * k;
        double square = 0;
        for (int j = 0; j < k; j++) u[j] = s->w[j] / u[j];
        #pragma omp simd reduction(+:square)
        for (int j = 0; j < k; j++) square += (double)u[j] * u[j];
        const T length = (T)sqrt(square);
        for (int j = 0; j < k; j++) to[j] = u[s->order[j] - 1] / length;
    }
}

/* The join of two halves of n rows into all of it: LAPACK's laed1 with its equations and products on all threads. */
static void N(three_last)(const FgEigh *q, T *d, T *e, T *z, int n) {
    int cut = n / 2, rest = n - cut, ld = q->n, k = 0, info = 0;
    T *row = (T *)q->work, *poles = row + n, *w = poles + n, *signs = w + n, *q2 = signs + n, *sides = q2 + (int64_t)n * n;
    int *idx = q->ints, *idxc = idx + n, *kinds = idxc + n, *idxp = kinds + n;
    T rho = e[cut - 1];
    for (int i = 0; i < n; i++) row[i] = z[(int64_t)i * ld + (i < cut ? cut - 1 : cut)];
    ((FgLaed2)fg_lapack[FG_LAED2][q->w->t])(&k, &n, &cut, d, z, &ld, q->order, &rho, row, poles, w, q2, idx, idxc, idxp, kinds, &info);
    if (info) { *q->failed = 1; return; }
    if (k == 0) { for (int i = 0; i < n; i++) q->order[i] = i + 1; return; }
    const int first = kinds[0], second = kinds[1], both = kinds[2];          /* columns of the upper half, of both, of the lower one */
    const int64_t upper = first + second, lower = second + both;
    if (k < FG_THREE_SECULAR) {
        ((FgLaed3)fg_lapack[FG_LAED3][q->w->t])(&k, &n, &cut, d, z, &ld, &rho, poles, q2, idxc, kinds, w, sides, &info);
        if (info) { *q->failed = 1; return; }
    } else {
        N(FgThreeRoots) s = {q, k, ld, poles, w, z, d, sides, rho, signs, idxc};
        memcpy(signs, w, (size_t)k * sizeof(T));
        q->w->each(k, 8, N(three_roots), &s);
        if (*q->failed) return;
        q->w->each(k, 32, N(three_again), &s);
        q->w->each(k, 8, N(three_sides), &s);
        const FgPlace v = {(char *)z, ld, 1}, by = {(char *)sides, k, 1};
        fg_qr_product(&q->qr, fg_part(q->w, v, 0, cut), fg_part(q->w, by, 0, first), (FgPlace){(char *)(q2 + upper * cut), rest, 1}, k, rest, lower, 0);
        fg_qr_product(&q->qr, v, by, (FgPlace){(char *)q2, cut, 1}, k, cut, upper, 0);
    }
    int up = 1, down = -1, deflated = n - k;
    ((FgLamrg)fg_lapack[FG_LAMRG][q->w->t])(&k, &deflated, d, &up, &down, q->order);
}

/* A block of n rows none of whose neighbours of the diagonal vanishes; vectors in rows of z, as they come, and their order. */
static void N(three_block)(const FgEigh *q, T *d, T *e, T *z, int n) {
    N(FgThree) s = {q, d, e, z, n, 1};
    const int ld = q->n;
    T most = 0, *copy = (T *)q->work;
    while ((n + s.parts - 1) / s.parts > FG_THREE_LEAF) s.parts *= 2;
    if (s.parts == 1) { N(three_leaves)(&s, 0, 1, 0); return; }
    for (int i = 0; i < n; i++) {
        if (most < (d[i] < 0 ? -d[i] : d[i])) most = d[i] < 0 ? -d[i] : d[i];
        if (i + 1 < n && most < (e[i] < 0 ? -e[i] : e[i])) most = e[i] < 0 ? -e[i] : e[i];
    }
    for (int i = 0; i < n; i++) { d[i] /= most; if (i + 1 < n) e[i] /= most; }
    for (int i = 1; i < s.parts; i++) {
        const int at = N(three_cut)(n, s.parts, i);
        const T size = e[at - 1] < 0 ? -e[at - 1] : e[at - 1];
        d[at - 1] -= size;
        d[at] -= size;
    }
    q->w->each(s.parts, 1, N(three_leaves), &s);
    while (s.parts > 2) {
        s.parts /= 2;
        q->w->each(s.parts, 1, N(three_joins), &s);
    }
    if (*q->failed) return;
    N(three_last)(q, d, e, z, n);
    if (*q->failed) return;
    for (int i = 0; i < n; i++) copy[i] = d[q->order[i] - 1] * most;
    memcpy(d, copy, (size_t)n * sizeof(T));
    for (int i = 0; i < n; i++) memcpy(copy + (int64_t)i * n, z + (int64_t)(q->order[i] - 1) * ld, (size_t)n * sizeof(T));
    for (int i = 0; i < n; i++) memcpy(z + (int64_t)i * ld, copy + (int64_t)i * n, (size_t)n * sizeof(T));
}

/* d and e (n) to ascending eigenvalues and z (n, n) to vectors, an eigenvector in each row. */
static void N(three_vectors)(const FgEigh *q, T *d, T *e, T *z, T *values) {
    const int n = q->n;
    int blocks = 0;
    memset(z, 0, (size_t)n * n * sizeof(T));
    for (int begin = 0, end; begin < n; begin = end + 1, blocks++) {
        for (end = begin; end + 1 < n && fabs((double)e[end]) > sqrt(fabs((double)d[end])) * sqrt(fabs((double)d[end + 1])) * N(FG_QL_EPS); end++) {}
        if (end == begin) z[(int64_t)begin * (n + 1)] = 1;
        else N(three_block)(q, d + begin, e + begin, z + (int64_t)begin * (n + 1), end + 1 - begin);
    }
    memcpy(values, d, (size_t)n * sizeof(T));
    if (blocks == 1) return;
    for (int i = 0; i + 1 < n; i++) {                     /* of several blocks: by choosing the least, as LAPACK does */
        int k = i;
        T *one = z + (int64_t)i * n, *two;
        for (int j = i + 1; j < n; j++) if (values[j] < values[k]) k = j;
        if (k == i) continue;
        two = z + (int64_t)k * n;
        const T value = values[k];
        values[k] = values[i];
        values[i] = value;
        for (int c = 0; c < n; c++) { const T t = one[c]; one[c] = two[c]; two[c] = t; }
    }
}

/* Eigenvalues (n) of x, and in columns of `vectors` its eigenvectors unless that is NULL; 0 where that is left to LAPACK. */
static int N(three_matrix)(const FgEigh *q, const T *x, T *vectors, T *values) {
    const int n = q->n;
    const int64_t ld = q->ld;
    T *a = (T *)q->a, *d = (T *)q->d, *e = d + ld, *tau = e + ld, *z = (T *)q->z, most = 0;
    for (int r = 0; r < n; r++) {
        memset(a + r * ld + n, 0, (size_t)(ld - n) * sizeof(T));
        for (int c = 0; c <= r; c++) {
            const T t = x[(int64_t)r * n + c], size = t < 0 ? -t : t;
            a[r * ld + c] = a[c * ld + r] = t;
            if (size > most) most = size;
        }
    }
    if (!(most <= N(FG_QL_MUCH) && most >= N(FG_QL_LITTLE))) return 0;
    N(three_reflect)(q->w, a, n, ld, d, e, tau, tau + ld);
    if (!vectors) {
        int size = n, info = 0;
        ((FgSterf)fg_lapack[FG_STERF][q->w->t])(&size, d, e, &info);
        memcpy(values, d, (size_t)n * sizeof(T));
        return info == 0;
    }
    N(three_vectors)(q, d, e, z, values);
    if (*q->failed) return 0;
    for (int k = (n - 2) / FG_QR_BLOCK * FG_QR_BLOCK; k >= 0; k -= FG_QR_BLOCK) {
        const int b = fg_least(FG_QR_BLOCK, n - 1 - k), m = n - k - 1;
        const FgPlace v = {(char *)(a + k * ld + k + 1), 1, ld}, rows = {(char *)(z + k + 1), n, 1};
        const FgPlace one = {q->work, FG_QR_BLOCK, 1}, two = {q->work + (int64_t)n * FG_QR_BLOCK * sizeof(T), FG_QR_BLOCK, 1};
        fg_qr_triangle(&q->qr, v, q->qr.t, m, b, (const char *)(tau + k));
        fg_qr_product(&q->qr, one, rows, v, n, b, m, 0);
        fg_qr_product(&q->qr, two, one, fg_turn(q->qr.t), n, b, b, 0);
        fg_qr_product(&q->qr, rows, two, fg_turn(v), n, m, b, 1);
    }
    G(pack)(vectors, n, z, n, n, 1, n);
    return 1;
}
#undef V
#undef L
