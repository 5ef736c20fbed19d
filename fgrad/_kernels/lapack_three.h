/* A symmetric matrix to three diagonals, and those to eigenvectors, for the type T; included by lapack_eigh.h for each. */
#define V N(vec)
#define L N(VEC_LANES_OF)

/* Rows [i, i + R) of a less v_i w + w_i v, and p plus their products with what they meet, x: all there is to do with an element at a time. */
FG_INLINE void N(three_rows)(const int R, T *a, int64_t ld, int i, int from, const T *v, const T *w, const T *x, T *p) {
    T vi[4], wi[4], xi[4];
    FG_LANES_UNROLL for (int r = 0; r < R; r++) { vi[r] = v[i + r]; wi[r] = w[i + r]; xi[r] = x[i + r]; }
    a += i * ld;
    for (int c = from; c < ld; c += L) {
        const V vc = *(const V *)(v + c), wc = *(const V *)(w + c);
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

/* a (n, n), both triangles, rows ld apart and zero beyond n, to its diagonal d and its neighbour e by reflectors: row k becomes that of column k,
 * zeros before its leading one, with tau[k]. LAPACK's reflectors of a lower triangle. room: 3 ld elements. */
static void N(three_reflect)(T *a, int n, int64_t ld, T *d, T *e, T *tau, T *room) {
    T *w = room, *p = room + ld, *swap;
    const T *v = room + 2 * ld;
    memset(room, 0, (size_t)(3 * ld) * sizeof(T));
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
        const int from = (k + 1) / L * L;
        for (int c = from; c < ld; c++) p[c] = 0;
        int i = k + 1;
        for (; i + 4 <= n; i += 4) N(three_rows)(4, a, ld, i, from, v, w, x, p);
        for (; i < n; i++) N(three_rows)(1, a, ld, i, from, v, w, x, p);
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

/* --- eigenvectors of three diagonals, by LAPACK's divide and conquer, with its leaves and joins on all threads --------------------------- */

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
    while (s.parts > 1) {
        s.parts /= 2;
        q->w->each(s.parts, 1, N(three_joins), &s);
    }
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
    int info = 0;
    for (int r = 0; r < n; r++) {
        memset(a + r * ld + n, 0, (size_t)(ld - n) * sizeof(T));
        for (int c = 0; c <= r; c++) {
            const T t = x[(int64_t)r * n + c], size = t < 0 ? -t : t;
            a[r * ld + c] = a[c * ld + r] = t;
            if (size > most) most = size;
        }
    }
    if (!(most <= N(FG_QL_MUCH) && most >= N(FG_QL_LITTLE))) return 0;
    if (n * ld * (int64_t)sizeof(T) <= FG_THREE_BYTES) N(three_reflect)(a, n, ld, d, e, tau, tau + ld);
    else {
        info = ((FgTridiagonal)fg_lapack[FG_TRD][q->w->t])(FG_COLUMNS, 'L', n, a, (int)ld, d, e, tau);
        for (int k = 0; k + 1 < n; k++) {
            memset(a + k * ld, 0, (size_t)(k + 1) * sizeof(T));
            a[k * ld + k + 1] = 1;
        }
    }
    if (info) return 0;
    if (!vectors) {
        int size = n;
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
