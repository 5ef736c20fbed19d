/* Lanes between memory and buffers, for the type T: memory holds complex numbers as pairs, buffers real and imaginary parts apart.
 * sw: 1 exchanges real and imaginary parts, which turns a transform into its inverse; steps are counted in elements of T. */
#define V N(vec)
#ifndef FFT_UNROLL
#ifdef __clang__
#define FFT_UNROLL _Pragma("unroll")
#else
#define FFT_UNROLL _Pragma("GCC unroll 64")
#endif
#endif
#define L N(VEC_LANES_OF)
#define U (N(VEC_LANES_OF) / 2)                                    /* complex numbers in a vector */
typedef T N(fft_at) __attribute__((vector_size(FG_VEC), aligned(sizeof(T)), may_alias));
#define AT(p) (*(N(fft_at) *)(p))
#define AT_CONST(p) ((V)*(const N(fft_at) *)(p))

FG_INLINE void N(fft_apart)(V a, V b, V *re, V *im) {
    *re = __builtin_shufflevector(a, b, VEC_ORDER(VEC_EVEN, L));
    *im = __builtin_shufflevector(a, b, VEC_ORDER(VEC_ODD, L));
}
FG_INLINE void N(fft_together)(V re, V im, V *a, V *b) {
    *a = __builtin_shufflevector(re, im, VEC_ORDER(VEC_LO, L));
    *b = __builtin_shufflevector(re, im, VEC_ORDER(VEC_HI, L));
}
/* The same by faster instructions, with lanes in an order of their own: lane l is complex number fft_order(l). */
FG_INLINE int N(fft_order)(int l) {
    const int block = 16 / sizeof(T), half = block / 2;
    return l / block * half + l % half + (l % block < half ? 0 : U);
}
FG_INLINE void N(fft_apart_near)(V a, V b, V *re, V *im) {
    *re = __builtin_shufflevector(a, b, N(VEC_NEAR_EVEN));
    *im = __builtin_shufflevector(a, b, N(VEC_NEAR_ODD));
}
FG_INLINE void N(fft_together_near)(V re, V im, V *a, V *b) {
    *a = __builtin_shufflevector(re, im, N(VEC_NEAR_LO));
    *b = __builtin_shufflevector(re, im, N(VEC_NEAR_HI));
}

/* Transpose the blocks of 128 bits of vectors w apart: log2 times, even ones of neighbours to the first half and odd ones to the second. */
FG_INLINE void N(fft_blocks)(V *x, const int w) {
#ifdef VEC_BLOCK_EVEN
    enum { B = FG_VEC / 16 };
    FFT_UNROLL for (int c = 0; c < w; c++) {
        vec_f64 a[B], b[B];
        FFT_UNROLL for (int i = 0; i < B; i++) a[i] = (vec_f64)x[i * w + c];
        FFT_UNROLL for (int s = 1; s < B; s *= 2) {
            FFT_UNROLL for (int i = 0; i < B / 2; i++) {
                b[i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], VEC_BLOCK_EVEN);
                b[i + B / 2] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], VEC_BLOCK_ODD);
            }
            FFT_UNROLL for (int i = 0; i < B; i++) a[i] = b[i];
        }
        FFT_UNROLL for (int i = 0; i < B; i++) x[i * w + c] = (V)a[i];
    }
#endif
}
/* Interleave the doubles of two vectors, within blocks. */
FG_INLINE void N(fft_doubles)(V *a, V *b) {
    vec_f64 x = (vec_f64)*a, y = (vec_f64)*b;
    *a = (V)__builtin_shufflevector(x, y, VEC_NEAR_LO_f64);
    *b = (V)__builtin_shufflevector(x, y, VEC_NEAR_HI_f64);
}
/* Transpose U vectors of U complex numbers. */
FG_INLINE void N(fft_transpose)(V *x) {
    if (sizeof(T) == 4) FFT_UNROLL for (int i = 0; i < U; i += 2) N(fft_doubles)(x + i, x + i + 1);
    N(fft_blocks)(x, 8 / sizeof(T));
}
/* Transpose U vectors of which each half of the lanes, U columns in the order of fft_order, belongs to a row of its own. */
FG_INLINE void N(fft_cross_twins)(V *x) {
    if (sizeof(T) == 4)
        FFT_UNROLL for (int i = 0; i < U; i += 2) {
            vec_f32 a = (vec_f32)x[i], b = (vec_f32)x[i + 1];
            x[i] = (V)__builtin_shufflevector(a, b, VEC_TURN_EVEN_f32); x[i + 1] = (V)__builtin_shufflevector(a, b, VEC_TURN_ODD_f32);
        }
    N(fft_blocks)(x, 8 / sizeof(T));
}
/* Transpose L vectors. */
FG_INLINE void N(fft_cross)(V *x) {
    if (sizeof(T) == 4)
        FFT_UNROLL for (int i = 0; i < L; i += 4) {
            V a = x[i], b = x[i + 1], c = x[i + 2], d = x[i + 3];
            x[i] = __builtin_shufflevector(a, b, N(VEC_NEAR_LO)); x[i + 2] = __builtin_shufflevector(a, b, N(VEC_NEAR_HI));
            x[i + 1] = __builtin_shufflevector(c, d, N(VEC_NEAR_LO)); x[i + 3] = __builtin_shufflevector(c, d, N(VEC_NEAR_HI));
        }
    FFT_UNROLL for (int i = 0; i < L; i += 2) N(fft_doubles)(x + i, x + i + 1);
    N(fft_blocks)(x, 16 / sizeof(T));
}

/* Lanes beside each other in memory; plain: in their order. */
FG_INLINE void N(fft_load_lines)(V *x, const T *p, int64_t n, int64_t step, int64_t far, int sw, const int plain) {
    for (int64_t k = 0; k < n; k++, p += step) {
        V *re = &x[2 * k + sw], *im = &x[2 * k + 1 - sw];
        __builtin_prefetch(p + 2 * L);                          /* of the next lanes */
        __builtin_prefetch(p + 3 * L);
        if (plain) N(fft_apart)(AT_CONST(p), AT_CONST(p + far), re, im); else N(fft_apart_near)(AT_CONST(p), AT_CONST(p + far), re, im);
    }
}
FG_INLINE void N(fft_store_lines)(const V *x, T *p, int64_t n, int64_t step, int64_t far, int sw, T scale, const int plain) {
    for (int64_t k = 0; k < n; k++, p += step) {
        V a, b, re = x[2 * k + sw] * scale, im = x[2 * k + 1 - sw] * scale;
        if (plain) N(fft_together)(re, im, &a, &b); else N(fft_together_near)(re, im, &a, &b);
        AT(p) = a; AT(p + far) = b;
    }
}
/* Real and imaginary parts are lines of their own: those of a pair are `im` apart. */
static void N(fft_load_pairs)(V *x, const T *p, int64_t n, int64_t step, int64_t im, int sw) {
    for (int64_t k = 0; k < n; k++, p += step) {
        x[2 * k + sw] = AT_CONST(p);
        x[2 * k + 1 - sw] = im ? AT_CONST(p + im) : (V){0};
    }
}
static void N(fft_store_pairs)(const V *x, T *p, int64_t n, int64_t step, int64_t im, int sw, T scale) {
    for (int64_t k = 0; k < n; k++, p += step) {
        AT(p) = x[2 * k + sw] * scale;
        if (im) AT(p + im) = x[2 * k + 1 - sw] * scale;
    }
}
/* One element of each of `count` lanes, anywhere; im == 0: no imaginary parts. */
FG_INLINE void N(fft_load_some)(V *x, T *const *lane, int count, int64_t from, int64_t to, int64_t step, int64_t im, int sw) {
    for (int64_t k = from; k < to; k++) {
        T re[L] = {0}, imag[L] = {0};
        for (int l = 0; l < L; l++) {
            const int at = N(fft_order)(l);
            if (at >= count) continue;
            re[l] = lane[at][k * step];
            if (im) imag[l] = lane[at][k * step + im];
        }
        memcpy(&x[2 * k + sw], re, sizeof re);
        memcpy(&x[2 * k + 1 - sw], imag, sizeof imag);
    }
}
FG_INLINE void N(fft_store_some)(const V *x, T *const *lane, int count, int64_t from, int64_t to, int64_t step, int64_t im, int sw, T scale) {
    for (int64_t k = from; k < to; k++) {
        T re[L], imag[L];
        memcpy(re, &x[2 * k + sw], sizeof re);
        memcpy(imag, &x[2 * k + 1 - sw], sizeof imag);
        for (int l = 0; l < L; l++) {
            const int at = N(fft_order)(l);
            if (at >= count) continue;
            lane[at][k * step] = re[l] * scale;
            if (im) lane[at][k * step + im] = imag[l] * scale;
        }
    }
}
static void N(fft_load_any)(V *x, T *const *lane, int count, int64_t n, int64_t step, int64_t im, int sw) {
    N(fft_load_some)(x, lane, count, 0, n, step, im, sw);
}
static void N(fft_store_any)(const V *x, T *const *lane, int count, int64_t n, int64_t step, int64_t im, int sw, T scale) {
    N(fft_store_some)(x, lane, count, 0, n, step, im, sw, scale);
}
/* Lanes are rows of complex numbers: squares of U by U, from element k on, are transposed. Only what is turned is scaled.
 * Lanes from `count` on repeat the last one. */
static void N(fft_load_square)(V *x, T *const *lane, int count, int64_t k, int sw) {
    V a[U], b[U];
    FFT_UNROLL for (int l = 0; l < U; l++) a[l] = AT_CONST(lane[l < count ? l : count - 1] + 2 * k);
    FFT_UNROLL for (int l = 0; l < U; l++) b[l] = AT_CONST(lane[l + U < count ? l + U : count - 1] + 2 * k);
    N(fft_transpose)(a);
    N(fft_transpose)(b);
    FFT_UNROLL for (int j = 0; j < U; j++) N(fft_apart_near)(a[j], b[j], &x[2 * j + sw], &x[2 * j + 1 - sw]);
}
static void N(fft_store_square)(const V *x, T *const *lane, int count, int64_t k, int sw, T scale) {
    V a[U], b[U];
    if (sw) FFT_UNROLL for (int j = 0; j < U; j++) N(fft_together_near)(x[2 * j + 1] * scale, x[2 * j] * scale, &a[j], &b[j]);
    else FFT_UNROLL for (int j = 0; j < U; j++) N(fft_together_near)(x[2 * j], x[2 * j + 1], &a[j], &b[j]);
    N(fft_transpose)(a);
    N(fft_transpose)(b);
    FFT_UNROLL for (int l = 0; l < U; l++) if (l < count) AT(lane[l] + 2 * k) = a[l];
    FFT_UNROLL for (int l = 0; l < U; l++) if (l + U < count) AT(lane[l + U] + 2 * k) = b[l];
}
/* The last squares lie over the ones before them. */
static void N(fft_load_rows)(V *x, T *const *lane, int count, int64_t n, int sw) {
    if (n < U) N(fft_load_some)(x, lane, count, 0, n, 2, 1, sw);
    else for (int64_t u = 0, k; u < n; u += U) { k = u + U <= n ? u : n - U; N(fft_load_square)(x + 2 * k, lane, count, k, sw); }
}
static void N(fft_store_rows)(const V *x, T *const *lane, int count, int64_t n, int sw, T scale) {
    if (n < U) N(fft_store_some)(x, lane, count, 0, n, 2, 1, sw, scale);
    else for (int64_t u = 0, k; u < n; u += U) { k = u + U <= n ? u : n - U; N(fft_store_square)(x + 2 * k, lane, count, k, sw, scale); }
}

/* --- real transforms of even length n = 2 h, by complex ones of half of it: z[k] = x[2 k] + i x[2 k + 1] --------------------- */

#ifndef FFT_UNFOLD
/* With E = (Z[k] + conj Z[h - k]) / 2 and O = -i (Z[k] - conj Z[h - k]) / 2, X[k] = E + w O; X[h - k] is the conjugate of E - w O. */
#define FFT_UNFOLD(V, ar, ai, br, bi, wr, wi) do { \
    V er = ((ar) + (br)) * (T)0.5, ei = ((ai) - (bi)) * (T)0.5, or = ((ai) + (bi)) * (T)0.5, oi = ((br) - (ar)) * (T)0.5; \
    V tr = or * (wr) - oi * (wi), ti = or * (wi) + oi * (wr); \
    ar = er + tr; ai = ei + ti; br = er - tr; bi = ti - ei; \
} while (0)
/* The inverse, times 2, with real and imaginary parts of the result exchanged. */
#define FFT_FOLD(V, ar, ai, br, bi, wr, wi) do { \
    V er = (ar) + (br), ei = (ai) - (bi), tr = (ar) - (br), ti = (ai) + (bi); \
    V or = tr * (wr) + ti * (wi), oi = ti * (wr) - tr * (wi); \
    ar = ei + or; ai = er - oi; br = or - ei; bi = er + oi; \
} while (0)
#endif

/* Of lanes, in place; w: real parts of exp(-i pi k / h) for k < h, then imaginary ones. */
static void N(fft_unfold)(V *z, int64_t h, const T *w) {
    V re = z[0], im = z[1];
    z[0] = re + im; z[1] = (V){0};
    for (int64_t k = 1; 2 * k <= h; k++) {
        V *a = z + 2 * k, *b = z + 2 * (h - k), ar = a[0], ai = a[1], br = b[0], bi = b[1];
        FFT_UNFOLD(V, ar, ai, br, bi, w[k], w[h + k]);
        a[0] = ar; a[1] = ai; b[0] = br; b[1] = bi;
    }
    z[2 * h] = re - im; z[2 * h + 1] = (V){0};
}
static void N(fft_fold)(V *z, int64_t h, const T *w) {          /* imaginary parts of X[0] and X[h] are not read */
    V first = z[0], last = z[2 * h];
    z[0] = first - last; z[1] = first + last;
    for (int64_t k = 1; 2 * k <= h; k++) {
        V *a = z + 2 * k, *b = z + 2 * (h - k), ar = a[0], ai = a[1], br = b[0], bi = b[1];
        FFT_FOLD(V, ar, ai, br, bi, w[k], w[h + k]);
        a[0] = ar; a[1] = ai; b[0] = br; b[1] = bi;
    }
}
/* The same of one row of complex numbers, from src to dst elsewhere: vectors from the front meet vectors from the back, the last ones lie over those before. */
#define FFT_ROW(NAME, STEP) \
static void N(NAME)(const T *src, T *dst, int64_t h, const T *w) { \
    int64_t k = 1; \
    for (const int64_t half = h / 2; half >= L && k <= half; k += L) { \
        if (k + L - 1 > half) k = half - L + 1; \
        const int64_t back = 2 * (h - k - L + 1); \
        V ar, ai, br, bi, p, q; \
        N(fft_apart)(AT_CONST(src + 2 * k), AT_CONST(src + 2 * (k + U)), &ar, &ai); \
        N(fft_apart)(AT_CONST(src + back), AT_CONST(src + back + L), &p, &q); \
        br = __builtin_shufflevector(p, p, VEC_ORDER(VEC_BACK, L)); \
        bi = __builtin_shufflevector(q, q, VEC_ORDER(VEC_BACK, L)); \
        V wr = AT_CONST(w + k), wi = AT_CONST(w + h + k); \
        STEP(V, ar, ai, br, bi, wr, wi); \
        N(fft_together)(ar, ai, &p, &q); \
        AT(dst + 2 * k) = p; AT(dst + 2 * (k + U)) = q; \
        br = __builtin_shufflevector(br, br, VEC_ORDER(VEC_BACK, L)); \
        bi = __builtin_shufflevector(bi, bi, VEC_ORDER(VEC_BACK, L)); \
        N(fft_together)(br, bi, &p, &q); \
        AT(dst + back) = p; AT(dst + back + L) = q; \
    } \
    for (; 2 * k <= h; k++) { \
        const int64_t c = h - k; \
        T ar = src[2 * k], ai = src[2 * k + 1], br = src[2 * c], bi = src[2 * c + 1]; \
        STEP(T, ar, ai, br, bi, w[k], w[h + k]); \
        dst[2 * k] = ar; dst[2 * k + 1] = ai; dst[2 * c] = br; dst[2 * c + 1] = bi; \
    } \
}
FFT_ROW(fft_unfold_rest, FFT_UNFOLD)
FFT_ROW(fft_fold_rest, FFT_FOLD)
#undef FFT_ROW
static void N(fft_unfold_row)(const T *z, T *x, int64_t h, const T *w) {
    x[0] = z[0] + z[1]; x[1] = 0;
    x[2 * h] = z[0] - z[1]; x[2 * h + 1] = 0;
    N(fft_unfold_rest)(z, x, h, w);
}
/* The upper half of the spectrum of n real numbers: conjugates of the lower one, backwards. */
static void N(fft_mirror_row)(T *x, int64_t n) {
    int64_t k = 1;
    for (; 2 * (k + L) <= n; k += L) {
        V re, im, a, b;
        N(fft_apart)(AT_CONST(x + 2 * k), AT_CONST(x + 2 * (k + U)), &re, &im);
        re = __builtin_shufflevector(re, re, VEC_ORDER(VEC_BACK, L));
        im = __builtin_shufflevector(im, im, VEC_ORDER(VEC_BACK, L));
        N(fft_together)(re, -im, &a, &b);
        T *at = x + 2 * (n - k - L + 1);
        AT(at) = a; AT(at + L) = b;
    }
    for (; 2 * k < n; k++) { x[2 * (n - k)] = x[2 * k]; x[2 * (n - k) + 1] = -x[2 * k + 1]; }
}
static void N(fft_fold_row)(const T *x, T *z, int64_t h, const T *w) {
    T first = x[0], last = x[2 * h];
    z[0] = first - last; z[1] = first + last;
    N(fft_fold_rest)(x, z, h, w);
}
