/* Depthwise convolutions whose columns follow each other in x, and in out but for a step (features first): vectors of neighbouring columns
 * of several rows of outputs, where they lie. Lanes beyond the image are masked: nothing is copied, nothing turned. Included by
 * conv_loops.h after conv_groups.h, which says what X is. With AVX2 neither bfloat16 nor outputs that have a step: there it takes a mask
 * of a vector, and no such vector is spread. */
#if GEMM_MASKS || (CONV_IN_PLANES && !defined(CONV_HALF))

/* Lanes [lo, hi) of a vector; those of a mask, the others zero and their memory not touched; the first n. */
#if !GEMM_MASKS
typedef __m256i N(conv_mask);
#define CONV_MASK_KEEP(mask) (void)(mask)
GEMM_INLINE __m256i N(conv_lanes_of)(int64_t lo, int64_t hi) {
    __typeof__((G(vec)){0} < (G(vec)){0}) at;
    GEMM_UNROLL for (int i = 0; i < G(lanes); i++) at[i] = i;
    return (__m256i)((at >= (__typeof__(at[0]))lo) & (at < (__typeof__(at[0]))hi));
}
GEMM_INLINE G(vec) N(conv_between)(const X *p, __m256i mask) {
    return sizeof(T) == 4 ? (G(vec))_mm256_maskload_ps((const float *)p, mask) : (G(vec))_mm256_maskload_pd((const double *)p, mask);
}
GEMM_INLINE void N(conv_to)(X *p, G(vec) v, int64_t n) { G(store)(p, v, n); }
#else
typedef __mmask16 N(conv_mask);
#define CONV_MASK_KEEP(mask) __asm__("" : "+Yk"(mask))             /* or it moves there again for every load */
GEMM_INLINE __mmask16 N(conv_lanes_of)(int64_t lo, int64_t hi) { return (__mmask16)(lo < hi ? (1ull << hi) - (1ull << lo) : 0); }
GEMM_INLINE G(vec) N(conv_between)(const X *p, __mmask16 mask) {
#ifdef CONV_HALF
    return (G(vec))_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, p)), 16);
#else
    return sizeof(T) == 4 ? (G(vec))_mm512_maskz_loadu_ps(mask, p) : (G(vec))_mm512_maskz_loadu_pd((__mmask8)mask, p);
#endif
}

GEMM_INLINE void N(conv_to)(X *p, G(vec) v, int64_t n) {
#ifdef CONV_HALF
    X line[G(lanes)];
    N(put_wide)(line, v);
    _mm256_mask_storeu_epi16(p, (__mmask16)((1u << n) - 1), _mm256_loadu_si256((const __m256i *)line));
#else
    G(store)(p, v, n);
#endif
}

/* The lanes of a and b, one after the other, that `at` names; those of a alone. */
GEMM_INLINE G(vec) N(conv_pick_both)(G(vec) a, __m512i at, G(vec) b) {
    return sizeof a[0] == 4 ? (G(vec))_mm512_permutex2var_ps((__m512)a, at, (__m512)b) : (G(vec))_mm512_permutex2var_pd((__m512d)a, at, (__m512d)b);
}
GEMM_INLINE G(vec) N(conv_pick)(G(vec) a, __m512i at) {
    return sizeof a[0] == 4 ? (G(vec))_mm512_permutexvar_ps(at, (__m512)a) : (G(vec))_mm512_permutexvar_pd(at, (__m512d)a);
}

/* Those of J rows, `apart` from each other; a call of its own, since its lanes go by memory. */
static __attribute__((noinline)) void N(conv_scatter)(X *p, int64_t step, const G(vec) *rows, int J, int64_t n, int64_t apart) {
    for (const G(vec) *v = rows; v < rows + J; v++, p += step) {
        X line[G(lanes)];
#ifdef CONV_HALF
        N(put_wide)(line, *v);
#else
        if (apart == 2) {
            __typeof__(*v < *v) half;
            GEMM_UNROLL for (int i = 0; i < G(lanes); i++) half[i] = i / 2;
            for (int64_t i = 0; i < n; i += G(lanes) / 2, half += G(lanes) / 2) {
                uint32_t mask = 0x5555u & (uint32_t)((1ull << 2 * conv_min(n - i, G(lanes) / 2)) - 1);
                G(vec) spread = N(conv_pick)(*v, (__m512i)half);
                if (sizeof(T) == 4) _mm512_mask_storeu_ps(p + 2 * i, (__mmask16)mask, (__m512)spread);
                else _mm512_mask_storeu_pd(p + 2 * i, (__mmask8)mask, (__m512d)spread);
            }
            continue;
        }
        memcpy(line, v, sizeof line);
#endif
        for (int64_t i = 0; i < n; i++) p[i * apart] = line[i];
    }
}
#endif

/* J rows of outputs, rows of x that follow them by one where R > 1: each is loaded once for all of a window's R rows of taps. */
GEMM_INLINE void N(conv_plane_sums)(const int J, const int R, const FgConvPart *p, const X *x, const X *w, int64_t q0, int64_t q1,
                                    int64_t q2, int64_t n, G(vec) *sum) {
    G(vec) y[7];
    const int64_t step = R == 1 ? p->s[1] * p->xs[1] : p->xs[1], every = R == 1 ? p->s[1] : 1;
    GEMM_UNROLL for (int j = 0; j < J; j++) sum[j] = (G(vec)){0};
    for (int64_t r0 = 0; r0 < p->R[0]; r0++) for (int64_t r1 = 0; r1 < p->R[1]; r1 += R) {
        int64_t p0 = q0 * p->s[0] + r0 * p->d[0] - p->lo[0], p1 = q1 * p->s[1] + r1 * p->d[1] - p->lo[1], first, end;
        if ((uint64_t)p0 >= (uint64_t)p->L[0]) continue;
        conv_inside(p1, every, p->L[1], J + R - 1, &first, &end);
        const X *row = x + p0 * p->xs[0] + p1 * p->xs[1], *tap = w + r0 * p->wr[0] + r1 * p->wr[1];
        for (int64_t r2 = 0; r2 < p->R[2]; r2++, tap += p->wr[2]) {
            int64_t p2 = q2 + r2 * p->d[2] - p->lo[2], lo = conv_max(0, -p2), hi = conv_min(n, p->L[2] - p2);
            N(conv_mask) mask = N(conv_lanes_of)(lo, hi);
            const X *from = row + p2;
            CONV_MASK_KEEP(mask);
            GEMM_UNROLL for (int r = 0; r < R; r++) y[r] = (G(vec)){0} + N(get_single)(tap + r * p->wr[1]);
            #define CONV_PLANE_ROWS(INSIDE) \
                GEMM_UNROLL for (int i = 0; i < J + R - 1; i++, from += step) if (INSIDE) { \
                    G(vec) v = N(conv_between)(from, mask); \
                    GEMM_UNROLL for (int r = 0; r < R; r++) if (i - r >= 0 && i - r < J) sum[i - r] += v * y[r]; \
                }
            if (first == 0 && end == J + R - 1) { CONV_PLANE_ROWS(1) } else { CONV_PLANE_ROWS(i >= first && i < end) }
            #undef CONV_PLANE_ROWS
        }
    }
}

GEMM_INLINE void N(conv_plane_body)(const int J, const int R, const FgConvPart *p, const X *x, const X *w, int64_t q0, int64_t q1,
                                    int64_t q2, int64_t n, X *out) {
    G(vec) sum[8];
    N(conv_plane_sums)(J, R, p, x, w, q0, q1, q2, n, sum);
    if (!GEMM_MASKS || p->Q[2] == 1 || p->os[2] == 1) {
        GEMM_UNROLL for (int j = 0; j < J; j++) N(conv_to)(out + j * p->os[1], sum[j], n);
    }
#if GEMM_MASKS
    else {
        G(vec) rows[8];
        GEMM_UNROLL for (int j = 0; j < J; j++) rows[j] = sum[j];
        N(conv_scatter)(out, p->os[1], rows, J, n, p->os[2]);
    }
#endif
}
typedef void (*N(conv_plane))(const FgConvPart *p, const X *x, const X *w, int64_t q0, int64_t q1, int64_t q2, int64_t n, X *out);
#define CONV_PLANE(J, R) \
static void N(conv_plane_##J##R)(const FgConvPart *p, const X *x, const X *w, int64_t q0, int64_t q1, int64_t q2, int64_t n, X *out) { \
    N(conv_plane_body)(J, R, p, x, w, q0, q1, q2, n, out); \
}
#define CONV_PLANES_OF(R) CONV_PLANE(1, R) CONV_PLANE(2, R) CONV_PLANE(3, R) CONV_PLANE(4, R) \
    CONV_PLANE(5, R) CONV_PLANE(6, R) CONV_PLANE(7, R) CONV_PLANE(8, R)
CONV_PLANES_OF(1) CONV_PLANES_OF(3) CONV_PLANES_OF(5) CONV_PLANES_OF(7)
#undef CONV_PLANE
#undef CONV_PLANES_OF
#define CONV_PLANES_OF(R) {N(conv_plane_1##R), N(conv_plane_2##R), N(conv_plane_3##R), N(conv_plane_4##R), \
                           N(conv_plane_5##R), N(conv_plane_6##R), N(conv_plane_7##R), N(conv_plane_8##R)}
static const N(conv_plane) N(conv_plane_table)[4][8] = {CONV_PLANES_OF(1), CONV_PLANES_OF(3), CONV_PLANES_OF(5), CONV_PLANES_OF(7)};
#undef CONV_PLANES_OF

#if GEMM_MASKS
/* J rows of the outputs of two parts, whose columns alternate: the second's are one element after the first's. */
GEMM_INLINE void N(conv_woven_body)(const int J, const FgConvPart *p, const X *x, const X *w0, const X *w1, int64_t q0, int64_t q1, int64_t q2,
                                    X *out) {
    enum { L = G(lanes) };
    G(vec) even[8], odd[8];
    const int64_t n0 = conv_min(L, p->Q[2] - q2), n1 = conv_max(0, conv_min(L, p[1].Q[2] - q2)), n = n0 + n1;
    __typeof__(even[0] < even[0]) low, high;
    GEMM_UNROLL for (int i = 0; i < L; i++) { low[i] = i / 2 + i % 2 * L; high[i] = low[i] + L / 2; }
    N(conv_plane_sums)(J, 1, p, x, w0, q0, q1, q2, n0, even);
    N(conv_plane_sums)(J, 1, p + 1, x - p->x0 + p[1].x0, w1, q0, q1, q2, n1, odd);
    GEMM_UNROLL for (int j = 0; j < J; j++, out += p->os[1]) {
        N(conv_to)(out, N(conv_pick_both)(even[j], (__m512i)low, odd[j]), conv_min(n, L));
        if (n > L) N(conv_to)(out + L, N(conv_pick_both)(even[j], (__m512i)high, odd[j]), n - L);
    }
}
typedef void (*N(conv_woven))(const FgConvPart *p, const X *x, const X *w0, const X *w1, int64_t q0, int64_t q1, int64_t q2, X *out);
#define CONV_WOVEN(J) \
static void N(conv_woven_##J)(const FgConvPart *p, const X *x, const X *w0, const X *w1, int64_t q0, int64_t q1, int64_t q2, X *out) { \
    N(conv_woven_body)(J, p, x, w0, w1, q0, q1, q2, out); \
}
CONV_WOVEN(1) CONV_WOVEN(2) CONV_WOVEN(3) CONV_WOVEN(4) CONV_WOVEN(5) CONV_WOVEN(6) CONV_WOVEN(7) CONV_WOVEN(8)
#undef CONV_WOVEN
static const N(conv_woven) N(conv_woven_table)[8] = {N(conv_woven_1), N(conv_woven_2), N(conv_woven_3), N(conv_woven_4),
                                                     N(conv_woven_5), N(conv_woven_6), N(conv_woven_7), N(conv_woven_8)};
#endif

/* What tile `i` of so many in a plane reads and writes, fetched: processors do not see it coming where a tile goes down rows of several
 * vectors (short ones follow each other soon enough, and the fetch costs a quarter of their time). */
static void N(conv_plane_fetch)(const FgConvPart *p, const int64_t *at, int64_t i, int64_t tiles) {
    const FgConv *c = p->c;
    const int64_t q1 = p->Q[1] * i / tiles, end = p->Q[1] * (i + 1) / tiles, reach = (p->R[1] - 1) * p->d[1] - p->lo[1] + 1;
    const int64_t p0 = conv_min(p->L[0] - 1, conv_max(0, at[3] * p->s[0] + (p->R[0] - 1) * p->d[0] - p->lo[0]));
    const int64_t from = q1 ? conv_max(0, (q1 - 1) * p->s[1] + reach) : 0, to = conv_min(p->L[1], (end - 1) * p->s[1] + reach);
    const X *x = (const X *)p->x + at[0] * c->xb + at[1] * c->xg + p0 * p->xs[0];
    const X *out = (const X *)p->out + p->o0 + at[0] * c->ob + at[1] * c->og + at[2] * c->oo + at[3] * p->os[0];
    if (from < to) conv_fetch_row(x + from * p->xs[1], (to - from) * p->xs[1] * (int64_t)sizeof(X), 0);
    conv_fetch_row(out + q1 * p->os[1], (end - q1) * p->os[1] * (int64_t)sizeof(X), 1);
}

enum { N(conv_ahead) = 3 };                   /* tiles between its fetch and a tile: memory takes as long as one or two */

/* Units (b, g, o, q0): planes of outputs, of n parts one after the other while they are in the first cache. */
static void N(conv_planes)(const FgConvPart *parts, int64_t n, int64_t deep, int64_t begin, int64_t end) {
    const FgConv *c = parts->c;
    const int64_t sizes[4] = {c->B, c->G, c->O, deep};
    const int far = c->G * c->B * c->L[0] * c->L[1] * c->L[2] * (int64_t)sizeof(X) >= FG_CONV_FAR && c->xs[1] > 0 && c->xs[1] <= 2 * c->L[2] && c->os[1] > 0;
    int64_t at[4], next[4];
    for (int64_t u = begin; u < end; u++) {
        conv_index(u, sizes, 4, at);
        conv_index(conv_min(u + 1, end - 1), sizes, 4, next);
        for (const FgConvPart *p = parts; p < parts + n; p++) {
            const int64_t high = p->s[1] == 1 && p->d[1] == 1 && p->R[1] % 2 && p->R[1] <= 7 ? p->R[1] / 2 : 0;
            const int64_t tiles = conv_ceil(p->Q[1], GEMM_BYTES == 64 || high < 3 ? 8 : 6);       /* sums and taps in registers */
#if GEMM_MASKS
            const int woven = n > 1 && c->phases[2] == 2 && p->os[2] == 2 && c->os[2] == 1 && (p - parts) % 2 == 0;
#else
            const int woven = 0;
#endif
            const X *x = (const X *)p->x + at[0] * c->xb + at[1] * c->xg, *w = (const X *)p->w + p->w0 + at[1] * c->wg + at[2] * c->wo;
            X *plane = (X *)p->out + p->o0 + at[0] * c->ob + at[1] * c->og + at[2] * c->oo + at[3] * p->os[0];
            if (at[3] >= p->Q[0]) continue;
            for (int64_t q1 = 0, i = 0, rows; q1 < p->Q[1]; q1 += rows) {
                rows = p->Q[1] * ++i / tiles - q1;               /* of equal height */
                if (far && p == parts && p->Q[2] > 2 * G(lanes)) N(conv_plane_fetch)(p, i + N(conv_ahead) > tiles ? next : at, (i - 1 + N(conv_ahead)) % tiles, tiles);
                for (int64_t q2 = 0; q2 < p->Q[2]; q2 += G(lanes)) {
                    if (!GEMM_MASKS) q2 = conv_max(0, conv_min(q2, p->Q[2] - G(lanes)));        /* the last vector is a whole one */
#if GEMM_MASKS
                    if (woven) N(conv_woven_table)[rows - 1](p, x, w, w + p[1].w0 - p->w0, at[3], q1, q2, plane + q1 * p->os[1] + 2 * q2);
                    else
#endif
                    N(conv_plane_table)[high][rows - 1](p, x, w, at[3], q1, q2, conv_min(G(lanes), p->Q[2] - q2),
                                                        plane + q1 * p->os[1] + q2 * p->os[2]);
                }
            }
            p += woven;
        }
    }
}
#undef CONV_MASK_KEEP
#endif
