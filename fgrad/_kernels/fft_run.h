/* Transforms along an axis, for the type T: tiles of lanes, or rows in two steps. */

/* Element 0 of lane q of an array whose axis has n elements, each of `parts` numbers. */
FG_INLINE T *N(fft_lane)(const void *base, int64_t q, int64_t n, int64_t inner, int parts) {
    return (T *)base + (q / inner * n * inner + q % inner) * parts;
}

/* Lanes q to q + count of an axis; `whole`: L lanes beside each other in memory. */
static void N(fft_tile)(const FftJob *j, int64_t q, int count, int whole, V *x, V *y) {
    const FftAxis *a = j->axis;
    const int64_t inner = a->inner, h = a->n;
    const int in_parts = a->kind == FFT_R2C ? 1 : 2, out_parts = a->kind == FFT_C2R ? 1 : 2, rows = inner == 1;
    int sw = a->inverse;
    T *in[L], *out[L], scale = (T)a->scale;
    for (int l = 0; l < count; l++) {
        in[l] = N(fft_lane)(j->src, q + l, a->n_in, inner, in_parts);
        out[l] = N(fft_lane)(j->dst, q + l, a->n_out, inner, out_parts);
    }
    const FftLanes *const lanes = a->lanes;
    const FftPass *const end = &lanes->pass[lanes->n_pass - 1];
    const int pairs = rows && (a->halved || a->kind == FFT_C2C) && lanes->n_pass > 1       /* rows of complex numbers, or of pairs */
        && h * 2 * (int64_t)sizeof(V) >= FFT_FIRST_CACHE / 2;
    const int read = pairs && a->kind != FFT_C2R && fft_reaches(lanes->pass) && lanes->pass[0].m >= U;
    const int write = pairs && a->kind != FFT_R2C && fft_reaches(end) && end->s >= U;
    if (rows && q + count + L <= j->count * a->outer)
        fft_ahead(in[0] + L * in_parts * a->n_in, L * in_parts * a->n_in * (int64_t)sizeof(T), out[0] + L * out_parts * a->n_out,
                  L * out_parts * a->n_out * (int64_t)sizeof(T));
    N(FftFrom) from = {in[0], 2 * inner, L, 0}, *lines = NULL;
    const N(FftTo) to = {out[0], 2 * inner, L, sw, scale};
    if (read) N(fft_first_rows)(lanes, in, count, a->kind == FFT_C2C ? sw : 0, x);
    else if (a->kind == FFT_R2C) {
        const int64_t step = a->halved ? 2 * inner : inner, im = a->halved ? inner : 0;
        if (whole) N(fft_load_pairs)(x, in[0], h, step, im, 0);
        else if (rows && a->halved) N(fft_load_rows)(x, in, count, h, 0);
        else N(fft_load_any)(x, in, count, h, step, im, 0);
    } else {
        const int64_t n = a->n_in;
        const int now = a->kind == FFT_C2R ? 0 : sw;
        from.turned = now;
        if (whole && a->kind == FFT_C2C) lines = &from;
        else if (whole) N(fft_load_lines)(x, in[0], n, 2 * inner, L, now, 1);
        else if (rows) N(fft_load_rows)(x, in, count, n, now);
        else N(fft_load_any)(x, in, count, n, 2 * inner, 1, now);
    }
    if (a->kind == FFT_C2R && a->halved) N(fft_fold)(x, h, (const T *)a->roots);
    else if (a->kind == FFT_C2R)                            /* the other half is conjugate; parts exchanged */
        for (int64_t k = 0; k < a->n_in; k++) {
            V re = x[2 * k], im = k ? x[2 * k + 1] : (V){0};
            x[2 * k] = im; x[2 * k + 1] = re;
            if (k) { x[2 * (h - k)] = -im; x[2 * (h - k) + 1] = re; }
        }
    if (whole && a->kind == FFT_C2C) { N(fft_lanes)(lanes, lines, x, y, &to); return; }
    if (write) {
        N(fft_passes)(lanes, read, lanes->n_pass - 1, 0, read ? lanes->pass[0].r : 1, NULL, x, y, NULL);
        N(fft_last_rows)(lanes, x, out, count, sw, scale);
        return;
    }
    V *z = y;
    if (read) N(fft_passes)(lanes, 1, lanes->n_pass, 0, lanes->pass[0].r, NULL, x, y, NULL);
    else z = N(fft_lanes)(lanes, lines, x, y, NULL);
    if (a->kind == FFT_C2R) {
        const int64_t step = a->halved ? 2 * inner : inner, im = a->halved ? inner : 0;
        if (whole) N(fft_store_pairs)(z, out[0], h, step, im, 1, scale);
        else if (rows && a->halved) N(fft_store_rows)(z, out, count, h, 1, scale);
        else N(fft_store_any)(z, out, count, h, step, im, 1, scale);
        return;
    }
    if (a->kind == FFT_R2C && a->halved) {
        N(fft_unfold)(z, h, (const T *)a->roots);
        for (int64_t k = h + 1; k < a->n_out; k++) { z[2 * k] = z[2 * (2 * h - k)]; z[2 * k + 1] = -z[2 * (2 * h - k) + 1]; }
    }
    if (whole) N(fft_store_lines)(z, out[0], a->n_out, 2 * inner, L, sw, scale, 1);
    else if (rows) N(fft_store_rows)(z, out, count, a->n_out, sw, scale);
    else N(fft_store_any)(z, out, count, a->n_out, 2 * inner, 1, sw, scale);
}

static void N(fft_tiles)(void *ctx, int64_t begin, int64_t end, int tid) {
    FftJob *j = (FftJob *)ctx;
    const FftAxis *a = j->axis;
    const int64_t most = a->n_out > a->n ? a->n_out : a->n + 1, room = 2 * (a->lanes->room > most ? a->lanes->room : most);
    const int64_t total = j->count * a->outer * a->inner;
    V *x = (V *)j->alloc(2 * room * (int64_t)sizeof(V));
    if (!x) { j->out_of_memory = 1; return; }
    const int64_t blocks = (a->inner + L - 1) / L;
    for (int64_t u = begin; u < end; u++) {
        int64_t q = u * L, limit = total;
        if (a->inner >= L) { q = u / blocks * a->inner + u % blocks * L; limit = (u / blocks + 1) * a->inner; }
        int count = limit - q < L ? (int)(limit - q) : L;
        N(fft_tile)(j, q, count, a->inner >= L && count == L, x, x + room);
    }
    j->release((char *)x);
}

/* --- one row ------------------------------------------------------------------------------------------------------------- */

/* Columns of a block as lanes of length n1, times roots, to tmp, transposed: blocks of L transforms as lanes, of their n2 columns. */
static void N(fft_columns)(const FftRow *r, const T *src, V *tmp, int64_t block, int sw, V *x, V *y) {
    const int64_t from = fft_start(block, r->n2, L), groups = (r->n1 + L - 1) / L;
    const int count = r->n2 < L ? (int)r->n2 : L;
    const N(FftFrom) in = {src + 2 * from, 2 * r->n2, L, sw};
    if (count < L) {
        T *lane[L];
        for (int l = 0; l < count; l++) lane[l] = (T *)src + 2 * (from + l);
        N(fft_load_any)(x, lane, count, r->n1, in.step, 1, sw);
    }
    const V *z = N(fft_lanes)(r->first, count == L ? &in : NULL, x, y, NULL);
    for (int64_t g = 0; g < groups; g++) {
        const int64_t k = fft_start(g, r->n1, L);
        V *to = tmp + 2 * (g * r->n2 + from), re[L], im[L];
        const V *roots = (const V *)r->roots + 2 * (block * r->n1 + k), *lanes = (const V *)r->lane_roots + 2 * k;
        const T *w = (const T *)r->block_roots + 2 * (block * r->n1 + k);
        FFT_UNROLL for (int i = 0; i < L; i++) {
            const int64_t e = k + N(fft_order)(i) < r->n1 ? N(fft_order)(i) : 0;
            V t[2], a = z[2 * (k + e)], b = z[2 * (k + e) + 1];
            if (r->roots) { t[0] = roots[2 * e]; t[1] = roots[2 * e + 1]; }
            else N(fft_times)(lanes[2 * e], lanes[2 * e + 1], w + 2 * e, t);
            re[i] = a * t[0] - b * t[1];
            im[i] = a * t[1] + b * t[0];
        }
        N(fft_cross)(re); N(fft_cross)(im);
        FFT_UNROLL for (int i = 0; i < L; i++) if (N(fft_order)(i) < count) { to[2 * N(fft_order)(i)] = re[i]; to[2 * N(fft_order)(i) + 1] = im[i]; }
    }
}
/* A group of L transforms of length n2: element k of the one of row k1 is element k n1 + k1. */
static void N(fft_rows)(const FftRow *r, V *tmp, T *dst, int64_t block, int sw, T scale, V *y) {
    const int64_t from = fft_start(block, r->n1, L);
    const N(FftTo) out = {dst + 2 * from, 2 * r->n1, L, sw, scale};
    V *x = tmp + 2 * block * r->n2;
    if (r->n1 >= L) { N(fft_lanes)(r->second, NULL, x, y, &out); return; }
    T *lane[L];
    for (int l = 0; l < r->n1; l++) lane[l] = dst + 2 * l;
    N(fft_store_any)(N(fft_lanes)(r->second, NULL, x, y, NULL), lane, (int)r->n1, r->n2, out.step, 1, sw, scale);
}

static void N(fft_step)(void *ctx, int64_t begin, int64_t end, int tid) {
    FftStep *s = (FftStep *)ctx;
    const FftRow *r = s->row;
    V *x = s->x ? (V *)s->x : (V *)s->job->alloc(4 * r->room * (int64_t)sizeof(V));
    if (!x) { s->job->out_of_memory = 1; return; }
    for (int64_t b = begin; b < end; b++) {
        if (s->ahead) fft_ahead_by(s->ahead, (s->second ? 0 : (r->n1 + L - 1) / L) + end - b);
        if (s->second) N(fft_rows)(r, (V *)s->tmp, (T *)s->dst, b, s->sw, (T)s->scale, x);
        else N(fft_columns)(r, (const T *)s->src, (V *)s->tmp, b, s->sw, x, x + 2 * r->room);
    }
    if (!s->x) s->job->release((char *)x);
}

/* out = x w scale, of n complex numbers; real and imaginary parts exchanged before (sw_in) and after (sw_out); out may be x. */
static void N(fft_product)(const T *x, const T *w, T *out, int64_t n, int sw_in, int sw_out, T scale) {
    int64_t k = 0;
    for (; k + L <= n; k += L) {
        V a[2], b[2], c[2], p, q;
        N(fft_apart_near)(AT_CONST(x + 2 * k), AT_CONST(x + 2 * k + L), a + sw_in, a + 1 - sw_in);
        N(fft_apart_near)(AT_CONST(w + 2 * k), AT_CONST(w + 2 * k + L), b, b + 1);
        c[sw_out] = (a[0] * b[0] - a[1] * b[1]) * scale;
        c[1 - sw_out] = (a[0] * b[1] + a[1] * b[0]) * scale;
        N(fft_together_near)(c[0], c[1], &p, &q);
        AT(out + 2 * k) = p; AT(out + 2 * k + L) = q;
    }
    for (; k < n; k++) {
        const T re = x[2 * k + sw_in], im = x[2 * k + 1 - sw_in], c = w[2 * k], s = w[2 * k + 1];
        out[2 * k + sw_out] = (re * c - im * s) * scale;
        out[2 * k + 1 - sw_out] = (re * s + im * c) * scale;
    }
}
/* The transform of n complex numbers; real and imaginary parts exchanged before (sw_in) and after (sw_out); x: buffers of lanes, or
 * NULL to share the blocks among threads; scratch: r->scratch complex numbers. src and dst may be one. */
static void N(fft_row)(FftJob *j, const FftRow *r, const T *src, T *dst, T *scratch, int sw_in, int sw_out, double scale, V *x, FftAhead *ahead) {
    if (r->conv) {
        const int64_t m = r->conv->n;
        T *u = scratch, *v = u + 2 * FFT_ROOM(m), *rest = v + 2 * FFT_ROOM(m);
        N(fft_product)(src, (const T *)r->chirp, u, r->n, sw_in, 0, 1);
        memset(u + 2 * r->n, 0, (size_t)(2 * (m - r->n)) * sizeof(T));
        N(fft_row)(j, r->conv, u, v, rest, 0, 0, 1, x, NULL);
        N(fft_product)(v, (const T *)r->spectrum, v, m, 0, 0, 1);
        N(fft_row)(j, r->conv, v, u, rest, 1, 1, 1, x, NULL);                /* spectrum is divided by m */
        N(fft_product)(u, (const T *)r->chirp, dst, r->n, 0, sw_out, (T)scale);
        return;
    }
    FftStep s = {j, r, 0, sw_in, scale, src, dst, scratch, x, ahead};
    const int64_t first = (r->n2 + L - 1) / L, second = (r->n1 + L - 1) / L;
    if (x) N(fft_step)(&s, 0, first, 0); else j->parallel(first, 1 + FFT_GRAIN / (r->n1 * L), N(fft_step), &s);
    s.second = 1; s.sw = sw_out;
    if (x) N(fft_step)(&s, 0, second, 0); else j->parallel(second, 1 + FFT_GRAIN / (r->n2 * L), N(fft_step), &s);
}

/* Copy n elements of `parts` numbers each between steps. */
FG_INLINE void N(fft_copy)(const T *src, int64_t src_step, T *dst, int64_t dst_step, int64_t n, int parts) {
    for (int64_t k = 0; k < n; k++) for (int c = 0; c < parts; c++) dst[k * dst_step + c] = src[k * src_step + c];
}

/* Lane q of the axis; scratch: two rows of n + 1 complex numbers, then what the row method needs. */
static void N(fft_one)(FftJob *j, int64_t q, T *scratch, V *x) {
    const FftAxis *a = j->axis;
    const int64_t inner = a->inner, n = a->n;
    const int in_parts = a->kind == FFT_R2C ? 1 : 2, out_parts = a->kind == FFT_C2R ? 1 : 2;
    T *u = scratch, *v = u + 2 * FFT_ROOM(n), *rest = v + 2 * FFT_ROOM(a->n_out > n ? a->n_out : n);
    const T *in = N(fft_lane)(j->src, q, a->n_in, inner, in_parts), *from = in;
    T *out = N(fft_lane)(j->dst, q, a->n_out, inner, out_parts), *to = inner == 1 ? out : v;
    FftAhead ahead[2] = {{NULL, 0}, {NULL, 0}};
    if (inner == 1 && x && q + 1 < j->count * a->outer)
        ahead[0] = (FftAhead){(const char *)(in + in_parts * a->n_in), in_parts * a->n_in * (int64_t)sizeof(T)},
        ahead[1] = (FftAhead){(const char *)(out + out_parts * a->n_out), out_parts * a->n_out * (int64_t)sizeof(T)};
    if (inner > 1 && (a->kind != FFT_R2C || a->halved)) {
        N(fft_copy)(in, in_parts * inner, v, in_parts, a->n_in, in_parts);
        from = v;
    }
    if (a->kind == FFT_C2C) N(fft_row)(j, a->row, from, to, rest, a->inverse, a->inverse, a->scale, x, ahead);
    else if (a->kind == FFT_R2C && a->halved) {
        N(fft_row)(j, a->row, from, u, rest, 0, 0, 1, x, ahead);
        N(fft_unfold_row)(u, to, n, (const T *)a->roots);
        if (a->n_out > n + 1) N(fft_mirror_row)(to, a->n_out);
    } else if (a->kind == FFT_R2C) {
        for (int64_t k = 0; k < n; k++) { u[2 * k] = in[k * inner]; u[2 * k + 1] = 0; }
        N(fft_row)(j, a->row, u, to = v, rest, 0, 0, 1, x, ahead);
    } else if (a->halved) {
        N(fft_fold_row)(from, u, n, (const T *)a->roots);
        N(fft_row)(j, a->row, u, to, rest, 0, 1, a->scale, x, ahead);
    } else {
        for (int64_t k = 0; k < a->n_in; k++) {
            T re = from[2 * k], im = k ? from[2 * k + 1] : 0;
            u[2 * k] = re; u[2 * k + 1] = im;
            if (k) { u[2 * (n - k)] = re; u[2 * (n - k) + 1] = -im; }
        }
        N(fft_row)(j, a->row, u, v, rest, 1, 1, a->scale, x, ahead);
        N(fft_copy)(v, 2, out, inner, a->n_out, 1);
        return;
    }
    if (to != out) N(fft_copy)(to, out_parts, out, out_parts * inner, a->n_out, out_parts);
}

static void N(fft_each)(void *ctx, int64_t begin, int64_t end, int tid) {
    FftJob *j = (FftJob *)ctx;
    const FftAxis *a = j->axis;
    const FftRow *r = a->row;
    const int64_t buffers = j->shared ? 0 : 4 * r->room * (int64_t)sizeof(V);
    char *p = j->alloc(buffers + (r->scratch + FFT_ROOM(a->n) + FFT_ROOM(a->n_out > a->n ? a->n_out : a->n)) * 2 * (int64_t)sizeof(T));
    if (!p) { j->out_of_memory = 1; return; }
    for (int64_t q = begin; q < end; q++) N(fft_one)(j, q, (T *)(p + buffers), j->shared ? NULL : (V *)p);
    j->release(p);
}

#include "fft_twins.h"

static void N(fft_axis)(FftJob *j) {
    const FftAxis *a = j->axis;
    const int64_t outer = j->count * a->outer, lanes = outer * a->inner;
    if (!a->row) {
        const int64_t tiles = a->inner < L ? (lanes + L - 1) / L : outer * ((a->inner + L - 1) / L);
        j->parallel(tiles, 1 + FFT_GRAIN / (a->n * L), N(fft_tiles), j);
    } else if (a->row->twins) j->parallel((lanes + 1) / 2, 1 + FFT_GRAIN / 2 / a->n, N(fft_each_pair), j);
    else if ((j->shared = a->n >= FFT_WIDE)) N(fft_each)(j, 0, lanes, 0);
    else j->parallel(lanes, 1 + FFT_GRAIN / a->n, N(fft_each), j);
}

/* The transform of a chirp, in place, when a plan is made; 0, or -1 where there is no memory. */
static int N(fft_spectrum)(const FftLanes *lanes, const FftRow *row, T *spectrum) {
    const int64_t n = lanes ? lanes->n : row->n, room = lanes ? lanes->room : row->room;
    void *p = NULL;
    if (posix_memalign(&p, 64, (size_t)(4 * room) * sizeof(V) + (size_t)(row ? 2 * row->scratch : 0) * sizeof(T))) return -1;
    V *x = (V *)p;
    if (row && row->twins) {
        const N(FftRows) one = {spectrum, 0, 0};
        N(fft_twin_steps)(row, one, one, 1, 0, 0, 1, x + 4 * room, x);
    } else if (row) N(fft_row)(NULL, row, spectrum, spectrum, (T *)(x + 4 * room), 0, 0, 1, x, NULL);
    else {
        T *lane[1] = {spectrum};
        N(fft_load_any)(x, lane, 1, n, 2, 1, 0);
        N(fft_store_any)(N(fft_lanes)(lanes, NULL, x, x + 2 * room, NULL), lane, 1, n, 2, 1, 0, 1);
    }
    free(p);
    return 0;
}
#undef L
#undef U
#undef V
#undef AT
#undef AT_CONST
