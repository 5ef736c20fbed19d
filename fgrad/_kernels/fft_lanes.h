/* Transforms of lanes, for the type T.  A buffer holds element k of all lanes in two vectors: x[2 k] real parts, x[2 k + 1] imaginary.
 * A pass of radix r over sequences of r m elements, of which there are s beside each other, reads its inputs m s apart. */
#define V N(vec)
#ifndef FFT_UNROLL
#ifdef __clang__
#define FFT_UNROLL _Pragma("unroll")
#else
#define FFT_UNROLL _Pragma("GCC unroll 64")
#endif
#endif

/* (re, im) times the scalar w */
FG_INLINE void N(fft_times)(V re, V im, const T *w, V *out) {
    out[0] = re * w[0] - im * w[1];
    out[1] = re * w[1] + im * w[0];
}
/* The same, but in the last pass, whose roots are all 1 */
FG_INLINE void N(fft_turn)(V re, V im, const T *w, V *out, const int last) {
    if (last) { out[0] = re; out[1] = im; } else N(fft_times)(re, im, w, out);
}

FG_INLINE void N(fft_by2)(const FftPass *f, const V *x, V *y, const int last) {
    int64_t s2 = 2 * f->s;
    const T *w = (const T *)f->roots;
    for (int64_t p = 0; p < f->m; p++, w += 2) {
        const V *a = x + s2 * p, *b = a + s2 * f->m;
        V *out = y + 2 * s2 * p;
        for (int64_t q = 0; q < s2; q += 2) {
            V ar = a[q], ai = a[q + 1], br = b[q], bi = b[q + 1];
            out[q] = ar + br; out[q + 1] = ai + bi;
            N(fft_turn)(ar - br, ai - bi, w, out + s2 + q, last);
        }
    }
}

FG_INLINE void N(fft_by4)(const FftPass *f, const V *x, V *y, const int last) {
    int64_t s2 = 2 * f->s, step = s2 * f->m;
    const T *w = (const T *)f->roots;
    for (int64_t p = 0; p < f->m; p++, w += 6) {
        const V *in = x + s2 * p;
        V *out = y + 4 * s2 * p;
        for (int64_t q = 0; q < s2; q += 2, in += 2) {
            V ar = in[0] + in[2 * step], ai = in[1] + in[2 * step + 1], br = in[0] - in[2 * step], bi = in[1] - in[2 * step + 1];
            V cr = in[step] + in[3 * step], ci = in[step + 1] + in[3 * step + 1];
            V dr = in[step] - in[3 * step], di = in[step + 1] - in[3 * step + 1];
            out[q] = ar + cr; out[q + 1] = ai + ci;
            N(fft_turn)(br + di, bi - dr, w, out + s2 + q, last);
            N(fft_turn)(ar - cr, ai - ci, w + 2, out + 2 * s2 + q, last);
            N(fft_turn)(br - di, bi + dr, w + 4, out + 3 * s2 + q, last);
        }
    }
}

/* Four points in place, a[2 j] and a[2 j + 1]. */
FG_INLINE void N(fft_four)(V *a) {
    V ar = a[0] + a[4], ai = a[1] + a[5], br = a[0] - a[4], bi = a[1] - a[5];
    V cr = a[2] + a[6], ci = a[3] + a[7], dr = a[2] - a[6], di = a[3] - a[7];
    a[0] = ar + cr; a[1] = ai + ci; a[2] = br + di; a[3] = bi - dr;
    a[4] = ar - cr; a[5] = ai - ci; a[6] = br - di; a[7] = bi + dr;
}

FG_INLINE void N(fft_by8)(const FftPass *f, const V *x, V *y, const int last) {
    int64_t s2 = 2 * f->s, step = s2 * f->m;
    const T *w = (const T *)f->roots, half = (T)0.707106781186547524401;
    for (int64_t p = 0; p < f->m; p++, w += 14) {
        const V *in = x + s2 * p;
        V *out = y + 8 * s2 * p;
        for (int64_t q = 0; q < s2; q += 2, in += 2) {
            V e[8], o[8];                                     /* sums and differences of elements 4 apart */
            FFT_UNROLL for (int j = 0; j < 4; j++) {
                V ur = in[j * step], ui = in[j * step + 1], vr = in[(j + 4) * step], vi = in[(j + 4) * step + 1];
                e[2 * j] = ur + vr; e[2 * j + 1] = ui + vi;
                o[2 * j] = ur - vr; o[2 * j + 1] = ui - vi;
            }
            V t = (o[2] + o[3]) * half; o[3] = (o[3] - o[2]) * half; o[2] = t;          /* times exp(-i pi / 4) */
            t = o[5]; o[5] = -o[4]; o[4] = t;                                           /* times -i */
            t = (o[7] - o[6]) * half; o[7] = -(o[6] + o[7]) * half; o[6] = t;           /* times exp(-3 i pi / 4) */
            N(fft_four)(e);
            N(fft_four)(o);
            out[q] = e[0]; out[q + 1] = e[1];
            N(fft_turn)(o[0], o[1], w, out + s2 + q, last);
            FFT_UNROLL for (int k = 1; k < 4; k++) {
                N(fft_turn)(e[2 * k], e[2 * k + 1], w + 4 * k - 2, out + 2 * k * s2 + q, last);
                N(fft_turn)(o[2 * k], o[2 * k + 1], w + 4 * k, out + (2 * k + 1) * s2 + q, last);
            }
        }
    }
}

/* Any odd radix: sums of elements j and r - j meet cosines, their differences sines. */
FG_INLINE void N(fft_odd)(const FftPass *f, const V *x, V *y, const int64_t r, const int last) {
    const int64_t s2 = 2 * f->s, step = s2 * f->m, half = r / 2;
    const T *w = (const T *)f->roots, *c = (const T *)f->cosines;
    for (int64_t p = 0; p < f->m; p++, w += 2 * (r - 1)) {
        const V *in = x + s2 * p;
        V *out = y + r * s2 * p;
        for (int64_t q = 0; q < s2; q += 2, in += 2) {
            V sum[FFT_PRIME], dif[FFT_PRIME], zr = in[0], zi = in[1];
            FFT_UNROLL for (int64_t j = 0; j < half; j++) {
                const V *a = in + (j + 1) * step, *b = in + (r - 1 - j) * step;
                sum[2 * j] = a[0] + b[0]; sum[2 * j + 1] = a[1] + b[1];
                dif[2 * j] = a[0] - b[0]; dif[2 * j + 1] = a[1] - b[1];
                zr += sum[2 * j]; zi += sum[2 * j + 1];
            }
            out[q] = zr; out[q + 1] = zi;
            FFT_UNROLL for (int64_t k = 1; k <= half; k++) {
                V ar = in[0], ai = in[1], br = {0}, bi = {0};
                int64_t turn = 0;
                FFT_UNROLL for (int64_t j = 0; j < half; j++) {
                    turn += k;
                    if (turn >= r) turn -= r;
                    ar += sum[2 * j] * c[2 * turn]; ai += sum[2 * j + 1] * c[2 * turn];
                    br += dif[2 * j] * c[2 * turn + 1]; bi += dif[2 * j + 1] * c[2 * turn + 1];
                }
                N(fft_turn)(ar - bi, ai + br, w + 2 * (k - 1), out + k * s2 + q, last);
                N(fft_turn)(ar + bi, ai - br, w + 2 * (r - k - 1), out + (r - k) * s2 + q, last);
            }
        }
    }
}
#define FFT_BOTH(BY, ...) do { if (f->m == 1) N(BY)(__VA_ARGS__, 1); else N(BY)(__VA_ARGS__, 0); } while (0)
static void N(fft_pass2)(const FftPass *f, const V *x, V *y) { FFT_BOTH(fft_by2, f, x, y); }
static void N(fft_pass4)(const FftPass *f, const V *x, V *y) { FFT_BOTH(fft_by4, f, x, y); }
static void N(fft_pass8)(const FftPass *f, const V *x, V *y) { FFT_BOTH(fft_by8, f, x, y); }
static void N(fft_pass3)(const FftPass *f, const V *x, V *y) { FFT_BOTH(fft_odd, f, x, y, 3); }
static void N(fft_pass5)(const FftPass *f, const V *x, V *y) { FFT_BOTH(fft_odd, f, x, y, 5); }
static void N(fft_pass7)(const FftPass *f, const V *x, V *y) { FFT_BOTH(fft_odd, f, x, y, 7); }
static void N(fft_pass_odd)(const FftPass *f, const V *x, V *y) { FFT_BOTH(fft_odd, f, x, y, f->r); }
#undef FFT_BOTH

/* The transform of x, with y for scratch, both of p->room elements: where the result is. */
static V *N(fft_lanes)(const FftLanes *p, V *x, V *y) {
    if (p->conv) {
        const T *c = (const T *)p->chirp, *b = (const T *)p->spectrum;
        for (int64_t k = 0; k < p->n; k++) N(fft_times)(x[2 * k], x[2 * k + 1], c + 2 * k, x + 2 * k);
        memset(x + 2 * p->n, 0, (size_t)(2 * (p->room - p->n)) * sizeof(V));
        V *z = N(fft_lanes)(p->conv, x, y), t[2];
        for (int64_t k = 0; k < p->room; k++) {                  /* the inverse transform is that of the conjugate, conjugated */
            N(fft_times)(z[2 * k], z[2 * k + 1], b + 2 * k, t);
            z[2 * k] = t[0]; z[2 * k + 1] = -t[1];
        }
        z = N(fft_lanes)(p->conv, z, z == x ? y : x);
        for (int64_t k = 0; k < p->n; k++) N(fft_times)(z[2 * k], -z[2 * k + 1], c + 2 * k, z + 2 * k);
        return z;
    }
    for (int i = 0; i < p->n_pass; i++) {
        const FftPass *f = &p->pass[i];
        (f->r == 2 ? N(fft_pass2) : f->r == 4 ? N(fft_pass4) : f->r == 8 ? N(fft_pass8) : f->r == 3 ? N(fft_pass3)
         : f->r == 5 ? N(fft_pass5) : f->r == 7 ? N(fft_pass7) : N(fft_pass_odd))(f, x, y);
        V *t = x; x = y; y = t;
    }
    return x;
}
