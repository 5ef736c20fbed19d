/* Rows in two steps, two at a time, for the type T: each fills half of the lanes, so that steps need only be as long as a half. */

/* Elements k to k + U of a unit of columns, times roots, transposed: column j of both rows, with k as its lanes, to to[2 j]. */
FG_INLINE void N(fft_lay)(const V *z, const V *roots, int64_t k, V *to) {
    V re[U], im[U];
    FFT_UNROLL for (int i = 0; i < U; i++) {
        const V a = z[2 * (k + i)], b = z[2 * (k + i) + 1], c = roots[2 * (k + i)], s = roots[2 * (k + i) + 1];
        re[i] = a * c - b * s;
        im[i] = a * s + b * c;
    }
    N(fft_cross_twins)(re); N(fft_cross_twins)(im);
    FFT_UNROLL for (int i = 0; i < U; i++) { to[2 * i] = re[i]; to[2 * i + 1] = im[i]; }
}
#define FFT_UNITS for (int64_t p = 0; p < pairs; p++) for (int64_t b = 0; b < units; b++)
#define FFT_ASK(l, write) { __builtin_prefetch(l.p + at, write, 2); __builtin_prefetch(l.p + at + l.far, write, 2); }
/* Steps of one pass stay in registers. */
static const FftPart N(fft_whole) = {0, 1, 0, 1, 0, 1, fft_none};
/* The first step of so many pairs of rows, `apart` from each other: columns, to tmp. ahead: ask for those of the next pairs. */
static void N(fft_twin_columns)(const FftRow *r, N(FftFrom) in, int64_t apart, int64_t pairs, int ahead, V *tmp, V *x) {
    const FftPass *f = r->first->pass;
    const int64_t n1 = r->n1, n2 = r->n2, units = (n2 + U - 1) / U, room = r->scratch / U, alone = r->first->n_pass == 1;
    const V *const all = (const V *)r->roots;
    const T *const from = in.p;
#define FFT_UNIT \
        const int64_t j = fft_start(b, n2, U); \
        const V *const roots = all + 2 * b * n1; \
        V *const to = tmp + p * room + 2 * j; \
        in.p = from + p * apart + 2 * j; \
        for (int64_t k = 0, at = pairs * apart; ahead && k < n1; k++, at += in.step) FFT_ASK(in, 0)
#define FFT_LAY(BY, n) FFT_UNITS { \
        FFT_UNIT \
        V z[2 * (n)]; \
        if (in.turned) N(BY)(f, N(fft_whole), NULL, z, &in, NULL, FFT_TURNED, FFT_BUFFER); \
        else N(BY)(f, N(fft_whole), NULL, z, &in, NULL, FFT_LINES, FFT_BUFFER); \
        FFT_UNROLL for (int k = 0; k < (n); k += U) N(fft_lay)(z, roots, k, to + 2 * k / U * n2); \
    }
    if (alone && n1 == 8 && 8 % U == 0) FFT_LAY(fft_by8, 8)
    else if (alone && n1 == 16 && 16 % U == 0) FFT_LAY(fft_by16, 16)
    else FFT_UNITS {
        FFT_UNIT
        const V *z = N(fft_lanes)(r->first, &in, x, x + 2 * r->room, NULL);
        for (int64_t k = 0; k * U < n1; k++) N(fft_lay)(z, roots, fft_start(k, n1, U), to + 2 * k * n2);
    }
#undef FFT_LAY
#undef FFT_UNIT
}
/* The second one, from tmp. */
static void N(fft_twin_rows)(const FftRow *r, N(FftTo) out, int64_t apart, int64_t pairs, int ahead, V *tmp, V *x) {
    const FftLanes *l = r->second;
    const FftPass *f = l->pass;
    const int64_t n1 = r->n1, n2 = r->n2, units = (n1 + U - 1) / U, alone = l->n_pass == 1;
    T *const to = out.p;
#define FFT_UNIT \
        V *const from = tmp + 2 * (p * units + b) * n2; out.p = to + p * apart + 2 * fft_start(b, n1, U); \
        for (int64_t k = 0, at = pairs * apart; ahead && k < n2; k++, at += out.step) FFT_ASK(out, 1)
#define FFT_LAY(BY) FFT_UNITS { \
        FFT_UNIT \
        if (out.turned) N(BY)(f, N(fft_whole), from, NULL, NULL, &out, FFT_BUFFER, FFT_TURNED); \
        else N(BY)(f, N(fft_whole), from, NULL, NULL, &out, FFT_BUFFER, FFT_LINES); \
    }
    if (alone && n2 == 8) FFT_LAY(fft_by8)
    else if (alone && n2 == 16) FFT_LAY(fft_by16)
    else FFT_UNITS { FFT_UNIT N(fft_lanes)(l, NULL, from, x, &out); }
#undef FFT_LAY
#undef FFT_UNIT
}
#undef FFT_UNITS
#undef FFT_ASK
typedef struct { T *p; int64_t row; int turned; } N(FftRows);       /* rows, `row` from each other */
/* The transforms of so many rows, two at a time, one alone as both. read, write: ask for those of the next ones. */
static void N(fft_twin_steps)(const FftRow *r, N(FftRows) in, N(FftRows) out, int64_t rows, int read, int write, T scale, V *tmp, V *x) {
    const int64_t pairs = (rows + 1) / 2, two = rows > 1;
    N(fft_twin_columns)(r, (N(FftFrom)){in.p, 2 * r->n2, two * in.row, in.turned}, 2 * in.row, pairs, read, tmp, x);
    N(fft_twin_rows)(r, (N(FftTo)){out.p, 2 * r->n1, two * out.row, out.turned, scale}, 2 * out.row, pairs, write, tmp, x);
}
/* The same by convolution with a chirp; u: rows of the length of that. */
static void N(fft_twin_chirps)(const FftRow *r, N(FftRows) in, N(FftRows) out, int64_t rows, T scale, T *u, V *tmp, V *x) {
    const int64_t m = r->conv->n, room = 2 * FFT_ROOM(m);
    const N(FftRows) there = {u, room, 0}, back = {u, room, 1};
    for (int64_t i = 0; i < rows; i++) {
        N(fft_product)(in.p + i * in.row, (const T *)r->chirp, u + i * room, r->n, in.turned, 0, 1);
        memset(u + i * room + 2 * r->n, 0, (size_t)(2 * (m - r->n)) * sizeof(T));
    }
    N(fft_twin_steps)(r->conv, there, there, rows, 0, 0, 1, tmp, x);
    for (int64_t i = 0; i < rows; i++) N(fft_product)(u + i * room, (const T *)r->spectrum, u + i * room, m, 0, 0, 1);
    N(fft_twin_steps)(r->conv, back, back, rows, 0, 0, 1, tmp, x);
    for (int64_t i = 0; i < rows; i++) N(fft_product)(u + i * room, (const T *)r->chirp, out.p + i * out.row, r->n, 0, out.turned, scale);
}
/* Rows q to q + rows of an axis; tmp: what their pairs need, u: room for rows of their length and of the chirp's. */
static void N(fft_twins)(const FftJob *j, int64_t q, int64_t rows, V *tmp, T *u, V *x) {
    const FftAxis *a = j->axis;
    const FftRow *r = a->row;
    const int64_t n = a->n, room = 2 * FFT_ROOM(n), all = j->count * a->outer;
    const int64_t in_row = (a->kind == FFT_R2C ? 1 : 2) * a->n_in, out_row = (a->kind == FFT_C2R ? 1 : 2) * a->n_out;
    const int fold = a->kind == FFT_C2R, unfold = a->kind == FFT_R2C;
    const int ahead = j->far && q + 2 * rows <= all;
    T *in = (T *)j->src + q * in_row, *out = (T *)j->dst + q * out_row;
    const N(FftRows) from = {fold ? u : in, fold ? room : in_row, fold ? 0 : a->inverse};
    const N(FftRows) to = {unfold ? u : out, unfold ? room : out_row, fold ? 1 : a->inverse};
    for (int64_t i = 0; fold && i < rows; i++) {
        if (ahead) fft_ahead(in + (i + rows) * in_row, in_row * (int64_t)sizeof(T), NULL, 0);
        N(fft_fold_row)(in + i * in_row, u + i * room, n, (const T *)a->roots);
    }
    if (r->conv) N(fft_twin_chirps)(r, from, to, rows, (T)a->scale, u + rows * room, tmp, x);
    else N(fft_twin_steps)(r, from, to, rows, ahead && !fold, ahead && !unfold, (T)a->scale, tmp, x);
    for (int64_t i = 0; unfold && i < rows; i++) {
        if (ahead) fft_ahead(NULL, 0, out + (i + rows) * out_row, out_row * (int64_t)sizeof(T));
        N(fft_unfold_row)(u + i * room, out + i * out_row, n, (const T *)a->roots);
        if (a->n_out > n + 1) N(fft_mirror_row)(out + i * out_row, a->n_out);
    }
}
/* Pairs of rows begin to end; a row that is left over fills both halves. */
static void N(fft_each_pair)(void *ctx, int64_t begin, int64_t end, int tid) {
    FftJob *j = (FftJob *)ctx;
    const FftRow *r = j->axis->row, *inner = r->conv ? r->conv : r;
    const int64_t rows = j->count * j->axis->outer, most = fft_pairs(inner->n), buffers = 4 * inner->room * (int64_t)sizeof(V);
    const int64_t tmp = 2 * most * inner->scratch * (int64_t)sizeof(T);
    const int64_t u = 4 * most * (FFT_ROOM(r->n) + (r->conv ? FFT_ROOM(inner->n) : 0)) * (int64_t)sizeof(T);
    char *p = j->alloc(buffers + tmp + u);
    if (!p) { j->out_of_memory = 1; return; }
    for (int64_t q = 2 * begin, last = 2 * end < rows ? 2 * end : rows; q < last; ) {
        const int64_t left = last - q, now = left < 2 ? left : left < 2 * most ? left & ~(int64_t)1 : 2 * most;
        N(fft_twins)(j, q, now, (V *)(p + buffers), (T *)(p + buffers + tmp), (V *)p);
        q += now;
    }
    j->release(p);
}
