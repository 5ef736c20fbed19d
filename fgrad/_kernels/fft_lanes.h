/* Transforms of lanes, for the type T.  A buffer holds element k of all lanes in two vectors: x[2 k] real parts, x[2 k + 1] imaginary.
 * A pass of radix r transforms elements m apart of blocks of r m, in place; those of a block of m that follow make blocks of the next pass.
 * The last one, of blocks of r, brings results into their order: element j of block b is element order[b] + s j, of s blocks.
 * The first pass may read lines of memory instead, the last one write them. */
#ifndef FFT_ENUM
#define FFT_ENUM
enum { FFT_BUFFER, FFT_LINES, FFT_TURNED, FFT_ROOTS };          /* turned: lines with real and imaginary parts exchanged */
#define FFT_UNROLL_ODD _Pragma("GCC unroll 8")                  /* all of radix 13 */
enum { FFT_SQUARES = 16 };                                      /* the largest radix that reads and writes lines and squares */
static int fft_reaches(const FftPass *f) { return f->r <= 8 || f->r == 16; }
typedef struct { int64_t begin, end, from, to, skip, step; const int64_t *blocks; } FftPart;   /* of a pass: blocks, butterflies, and where squares lie */
#endif
/* Lines of memory, steps of T apart, of lanes beside each other, the second half of which is `far` from the first; scale: of turned ones that are written. */
typedef struct { const T *p; int64_t step, far; int turned; } N(FftFrom);
typedef struct { T *p; int64_t step, far; int turned; T scale; } N(FftTo);

/* (re, im) times the scalar w */
FG_INLINE void N(fft_times)(V re, V im, const T *w, V *out) {
    out[0] = re * w[0] - im * w[1];
    out[1] = re * w[1] + im * w[0];
}
FG_INLINE void N(fft_get)(const V *x, const N(FftFrom) *l, int64_t k, const int from, V *re, V *im) {
    if (from == FFT_BUFFER) { *re = x[2 * k]; *im = x[2 * k + 1]; return; }
    const T *p = l->p + k * l->step;
    if (from == FFT_LINES) N(fft_apart_near)(AT_CONST(p), AT_CONST(p + l->far), re, im);
    else N(fft_apart_near)(AT_CONST(p), AT_CONST(p + l->far), im, re);
}
/* w: what element k is multiplied by, but in the last pass, whose roots are all 1 */
FG_INLINE void N(fft_set)(V *y, const N(FftTo) *l, int64_t k, const int to, V re, V im, const T *w) {
    V a, b;
    if (to == FFT_ROOTS) { N(fft_times)(re, im, w, y + 2 * k); return; }
    if (to == FFT_BUFFER) { y[2 * k] = re; y[2 * k + 1] = im; return; }
    T *p = l->p + k * l->step;
    if (to == FFT_LINES) N(fft_together_near)(re, im, &a, &b);
    else N(fft_together_near)(im * l->scale, re * l->scale, &a, &b);
    AT(p) = a; AT(p + l->far) = b;
}
/* Butterfly p of block b: GET and SET its elements. */
#define FFT_EACH(r) for (int64_t b = part.begin; b < part.end; b++) \
    for (int64_t p = part.from, last = to != FFT_ROOTS, m = last ? 1 : f->m, base = b * (r) * m, \
         at = last && part.blocks ? part.blocks[b] * (r) : base - part.skip, apart = last ? 1 : part.step, \
         put = !last ? base : part.blocks ? b - part.begin : f->order[b], next = !last ? m : part.blocks ? part.step : f->s; p < part.to; p++)
#define FFT_GET(j, re, im) N(fft_get)(x, in, at + p + apart * (j), from, re, im)
#define FFT_SET(r, j, re, im) N(fft_set)(y, out, put + p + next * (j), to, re, im, (const T *)f->roots + 2 * (((r) - 1) * p + (j) - 1))
#define FFT_FIRST(r, re, im) N(fft_set)(y, out, put + p, to == FFT_ROOTS ? FFT_BUFFER : to, re, im, NULL)
#define FFT_ARGS const FftPass *f, const FftPart part, const V *x, V *y, const N(FftFrom) *in, const N(FftTo) *out
#define FFT_PASS FFT_ARGS, const int from, const int to

/* Butterflies in place, of a[2 j] and a[2 j + 1] */
FG_INLINE void N(fft_two)(V *a, V *b) {
    V re = a[0], im = a[1];
    a[0] = re + b[0]; a[1] = im + b[1];
    b[0] = re - b[0]; b[1] = im - b[1];
}
FG_INLINE void N(fft_four)(V *a) {
    V ar = a[0] + a[4], ai = a[1] + a[5], br = a[0] - a[4], bi = a[1] - a[5];
    V cr = a[2] + a[6], ci = a[3] + a[7], dr = a[2] - a[6], di = a[3] - a[7];
    a[0] = ar + cr; a[1] = ai + ci; a[2] = br + di; a[3] = bi - dr;
    a[4] = ar - cr; a[5] = ai - ci; a[6] = br - di; a[7] = bi + dr;
}
FG_INLINE void N(fft_quarter)(V *a) { V t = a[1]; a[1] = -a[0]; a[0] = t; }                 /* times -i */
FG_INLINE void N(fft_eighth)(V *a) {                                                        /* times exp(-i pi / 4) */
    const T half = (T)0.707106781186547524401;
    V t = (a[0] + a[1]) * half; a[1] = (a[1] - a[0]) * half; a[0] = t;
}
FG_INLINE void N(fft_three_eighths)(V *a) {
    const T half = (T)0.707106781186547524401;
    V t = (a[1] - a[0]) * half; a[1] = -(a[0] + a[1]) * half; a[0] = t;
}
FG_INLINE void N(fft_turn)(V *a, T c, T s) { V t = a[0] * c + a[1] * s; a[1] = a[1] * c - a[0] * s; a[0] = t; }      /* times c - i s */

FG_INLINE void N(fft_by2)(FFT_PASS) {
    FFT_EACH(2) {
        V u[2], v[2];
        FFT_GET(0, u, u + 1); FFT_GET(1, v, v + 1);
        N(fft_two)(u, v);
        FFT_FIRST(2, u[0], u[1]); FFT_SET(2, 1, v[0], v[1]);
    }
}
FG_INLINE void N(fft_by4)(FFT_PASS) {
    FFT_EACH(4) {
        V a[8];
        FFT_UNROLL for (int j = 0; j < 4; j++) FFT_GET(j, a + 2 * j, a + 2 * j + 1);
        N(fft_four)(a);
        FFT_FIRST(4, a[0], a[1]);
        FFT_UNROLL for (int j = 1; j < 4; j++) FFT_SET(4, j, a[2 * j], a[2 * j + 1]);
    }
}
FG_INLINE void N(fft_by8)(FFT_PASS) {
    FFT_EACH(8) {
        V e[8], o[8];                                     /* sums and differences of elements 4 apart */
        FFT_UNROLL for (int j = 0; j < 4; j++) {
            FFT_GET(j, e + 2 * j, e + 2 * j + 1); FFT_GET(j + 4, o + 2 * j, o + 2 * j + 1);
            N(fft_two)(e + 2 * j, o + 2 * j);
        }
        N(fft_eighth)(o + 2); N(fft_quarter)(o + 4); N(fft_three_eighths)(o + 6);
        N(fft_four)(e); N(fft_four)(o);
        FFT_FIRST(8, e[0], e[1]); FFT_SET(8, 1, o[0], o[1]);
        FFT_UNROLL for (int j = 1; j < 4; j++) { FFT_SET(8, 2 * j, e[2 * j], e[2 * j + 1]); FFT_SET(8, 2 * j + 1, o[2 * j], o[2 * j + 1]); }
    }
}
/* Fours of elements 4 apart, then fours of one element of each. */
FG_INLINE void N(fft_by16)(FFT_PASS) {
    const T c = (T)0.923879532511286756128, s = (T)0.382683432365089771728;
    FFT_EACH(16) {
        V a[4][8];
        FFT_UNROLL for (int j = 0; j < 4; j++) {
            FFT_UNROLL for (int i = 0; i < 4; i++) FFT_GET(j + 4 * i, a[j] + 2 * i, a[j] + 2 * i + 1);
            N(fft_four)(a[j]);
        }
        N(fft_turn)(a[1] + 2, c, s); N(fft_eighth)(a[1] + 4); N(fft_turn)(a[1] + 6, s, c);
        N(fft_eighth)(a[2] + 2); N(fft_quarter)(a[2] + 4); N(fft_three_eighths)(a[2] + 6);
        N(fft_turn)(a[3] + 2, s, c); N(fft_three_eighths)(a[3] + 4); N(fft_turn)(a[3] + 6, -c, -s);
        FFT_UNROLL for (int k = 0; k < 4; k++) {
            V t[8];
            FFT_UNROLL for (int j = 0; j < 4; j++) { t[2 * j] = a[j][2 * k]; t[2 * j + 1] = a[j][2 * k + 1]; }
            N(fft_four)(t);
            if (k == 0) FFT_FIRST(16, t[0], t[1]); else FFT_SET(16, k, t[0], t[1]);
            FFT_UNROLL for (int j = 1; j < 4; j++) FFT_SET(16, k + 4 * j, t[2 * j], t[2 * j + 1]);
        }
    }
}

/* Any odd radix: sums of elements j and r - j meet cosines, their differences sines. */
FG_INLINE void N(fft_odd)(FFT_PASS, const int64_t r) {
    const int64_t half = r / 2;
    const T *c = (const T *)f->cosines;
    FFT_EACH(r) {
        V sum[FFT_PRIME], dif[FFT_PRIME], xr, xi, zr, zi;
        FFT_GET(0, &xr, &xi);
        zr = xr; zi = xi;
        FFT_UNROLL_ODD for (int64_t j = 0; j < half; j++) {
            FFT_GET(j + 1, sum + 2 * j, sum + 2 * j + 1); FFT_GET(r - 1 - j, dif + 2 * j, dif + 2 * j + 1);
            N(fft_two)(sum + 2 * j, dif + 2 * j);
            zr += sum[2 * j]; zi += sum[2 * j + 1];
        }
        FFT_FIRST(r, zr, zi);
        FFT_UNROLL_ODD for (int64_t k = 1; k <= half; k++) {
            V ar = xr, ai = xi, br = {0}, bi = {0};
            int64_t turn = 0;
            FFT_UNROLL_ODD for (int64_t j = 0; j < half; j++) {
                turn += k;
                if (turn >= r) turn -= r;
                ar += sum[2 * j] * c[2 * turn]; ai += sum[2 * j + 1] * c[2 * turn];
                br += dif[2 * j] * c[2 * turn + 1]; bi += dif[2 * j + 1] * c[2 * turn + 1];
            }
            FFT_SET(r, k, ar - bi, ai + br); FFT_SET(r, r - k, ar + bi, ai - br);
        }
    }
}
#define FFT_DO(BY, FROM, TO, ...) N(BY)(f, part, x, y, in, out, FROM, TO __VA_ARGS__)
#define FFT_ENDS(NAME, BY, ...) \
static void N(NAME)(FFT_ARGS) { \
    const int last = f->m == 1; \
    if (in && last) { if (in->turned) FFT_DO(BY, FFT_TURNED, FFT_BUFFER, __VA_ARGS__); else FFT_DO(BY, FFT_LINES, FFT_BUFFER, __VA_ARGS__); } \
    else if (in) { if (in->turned) FFT_DO(BY, FFT_TURNED, FFT_ROOTS, __VA_ARGS__); else FFT_DO(BY, FFT_LINES, FFT_ROOTS, __VA_ARGS__); } \
    else if (!last) FFT_DO(BY, FFT_BUFFER, FFT_ROOTS, __VA_ARGS__); \
    else if (!out) FFT_DO(BY, FFT_BUFFER, FFT_BUFFER, __VA_ARGS__); \
    else if (out->turned) FFT_DO(BY, FFT_BUFFER, FFT_TURNED, __VA_ARGS__); \
    else FFT_DO(BY, FFT_BUFFER, FFT_LINES, __VA_ARGS__); \
}
#define FFT_COMMA ,
FFT_ENDS(fft_pass2, fft_by2)
FFT_ENDS(fft_pass4, fft_by4)
FFT_ENDS(fft_pass8, fft_by8)
FFT_ENDS(fft_pass16, fft_by16)
FFT_ENDS(fft_pass3, fft_odd, FFT_COMMA 3)
FFT_ENDS(fft_pass5, fft_odd, FFT_COMMA 5)
FFT_ENDS(fft_pass7, fft_odd, FFT_COMMA 7)
static void N(fft_pass_odd)(FFT_ARGS) {
    if (f->m == 1) FFT_DO(fft_odd, FFT_BUFFER, FFT_BUFFER, FFT_COMMA f->r);
    else if (f->r == 11) FFT_DO(fft_odd, FFT_BUFFER, FFT_ROOTS, FFT_COMMA 11);
    else if (f->r == 13) FFT_DO(fft_odd, FFT_BUFFER, FFT_ROOTS, FFT_COMMA 13);
    else FFT_DO(fft_odd, FFT_BUFFER, FFT_ROOTS, FFT_COMMA f->r);
}
#undef FFT_DO
#undef FFT_ENDS
#undef FFT_COMMA
#undef FFT_EACH
#undef FFT_GET
#undef FFT_SET
#undef FFT_FIRST
#undef FFT_PASS

static void N(fft_pass)(FFT_ARGS) {
    (f->r == 2 ? N(fft_pass2) : f->r == 4 ? N(fft_pass4) : f->r == 8 ? N(fft_pass8) : f->r == 16 ? N(fft_pass16) : f->r == 3 ? N(fft_pass3)
     : f->r == 5 ? N(fft_pass5) : f->r == 7 ? N(fft_pass7) : N(fft_pass_odd))(f, part, x, y, in, out);
}
#undef FFT_ARGS
/* Passes i to `stop` of blocks begin to end: of one block after the other as long as these are larger than what a first cache holds. */
static void N(fft_passes)(const FftLanes *p, int i, int stop, int64_t begin, int64_t end, const N(FftFrom) *in, V *x, V *y, const N(FftTo) *out) {
    for (; i < stop; i++) {
        const FftPass *f = &p->pass[i];
        const int last = f->m == 1;
        const FftPart part = {begin, end, 0, last ? 1 : f->m, 0, f->m, NULL};
        N(fft_pass)(f, part, x, last ? y : x, i ? NULL : in, last ? out : NULL);
        begin *= f->r; end *= f->r;
        if ((end - begin) * f->m * 2 * (int64_t)sizeof(V) > FFT_FIRST_CACHE && f->m > FFT_PRIME) {
            for (int64_t b = begin; b < end; b++) N(fft_passes)(p, i + 1, stop, b, b + 1, NULL, x, y, out);
            return;
        }
    }
}
/* The first pass reads rows, or the last one writes them, by squares, which `square` holds. */
static void N(fft_first_rows)(const FftLanes *p, T *const *lane, int count, int sw, V *x) {
    const FftPass *f = &p->pass[0];
    V square[FFT_SQUARES * L];
    for (int64_t u = 0; u < f->m; u += U) {
        const int64_t from = u + U <= f->m ? u : f->m - U;
        const FftPart part = {0, 1, from, from + U, from, U, NULL};
        for (int64_t j = 0; j < f->r; j++) N(fft_load_square)(square + j * L, lane, count, from + f->m * j, sw);
        N(fft_pass)(f, part, square, x, NULL, NULL);
    }
}
static void N(fft_last_rows)(const FftLanes *p, const V *x, T *const *lane, int count, int sw, T scale) {
    const FftPass *f = &p->pass[p->n_pass - 1];
    V square[FFT_SQUARES * L];
    for (int64_t u = 0; u < f->s; u += U) {
        const int64_t from = u + U <= f->s ? u : f->s - U;
        const FftPart part = {from, from + U, 0, 1, 0, U, f->blocks};
        N(fft_pass)(f, part, x, square, NULL, NULL);
        for (int64_t j = 0; j < f->r; j++) N(fft_store_square)(square + j * L, lane, count, from + f->s * j, sw, scale);
    }
}
/* The transform of x, or of lines, to lines or to where the result is: x or y, both of p->room elements; x is scratch. */
static V *N(fft_lanes)(const FftLanes *p, const N(FftFrom) *in, V *x, V *y, const N(FftTo) *out) {
    const int some = p->n_pass > 0, store = out && !(some && fft_reaches(&p->pass[p->n_pass - 1]));
    if (in && !(some && fft_reaches(p->pass) && (p->n_pass > 1 || !out || store))) {
        N(fft_load_lines)(x, in->p, p->n, in->step, in->far, in->turned, 0);
        in = NULL;
    }
    V *z = some ? y : x;
    if (p->conv) {
        const T *c = (const T *)p->chirp, *b = (const T *)p->spectrum;
        for (int64_t k = 0; k < p->n; k++) N(fft_times)(x[2 * k], x[2 * k + 1], c + 2 * k, x + 2 * k);
        memset(x + 2 * p->n, 0, (size_t)(2 * (p->room - p->n)) * sizeof(V));
        V t[2];
        z = N(fft_lanes)(p->conv, NULL, x, y, NULL);
        for (int64_t k = 0; k < p->room; k++) {                  /* the inverse transform is that of the conjugate, conjugated */
            N(fft_times)(z[2 * k], z[2 * k + 1], b + 2 * k, t);
            z[2 * k] = t[0]; z[2 * k + 1] = -t[1];
        }
        z = N(fft_lanes)(p->conv, NULL, z, z == x ? y : x, NULL);
        for (int64_t k = 0; k < p->n; k++) N(fft_times)(z[2 * k], -z[2 * k + 1], c + 2 * k, z + 2 * k);
    }
    N(fft_passes)(p, 0, p->n_pass, 0, 1, in, x, y, store ? NULL : out);
    if (store) N(fft_store_lines)(z, out->p, p->n, out->step, out->far, out->turned, out->scale, 0);
    return z;
}
