/* The extremum of a row of floats, NaN where one is: the maximum passes NaN over, a sum beside it shows whether there was one.  (So does
 * a sum of infinities of both signs, or one that overflows to them: then the row is searched.)  And the extremum of numbers alone. */
#ifndef FG_EXTREMUM_H
#define FG_EXTREMUM_H
#include "vec.h"

/* Long rows are read at four places at once, a quarter of the row apart: one stream of loads leaves a third of what memory gives to a core unused
 * (Zen 3; vectors of 64 bytes were not measured). QUARTERS: bytes of a row that is long. */
#ifdef __AVX512F__
enum { FG_QUARTERS = 1 << 30 };
#else
enum { FG_QUARTERS = 16384 };
#endif
#define FG_QUARTER(n, T, L) ((n) * (int64_t)sizeof(T) < FG_QUARTERS ? 1 : (n) / (4 * (L)))      /* vectors from one to the next of the four that are read together */
#define FG_EXTREMUM(name, t, T, FIRST) \
static T fg_row_##name##_##t(const T *s, int64_t n) { \
    typedef vec_##t V __attribute__((aligned(sizeof(T)), may_alias)); \
    enum { L = FG_VEC / sizeof(T) }; \
    const V *v = (const V *)s; \
    int64_t i = 0, bad = 0; \
    T top = s[0]; \
    if (n >= 4 * L) { \
        const int64_t apart = FG_QUARTER(n, T, L), step = apart == 1 ? 4 : 1; \
        vec_##t a = v[0], b = v[apart], c = v[2 * apart], e = v[3 * apart], sa = a, sb = b, sc = c, se = e; \
        T lanes[L], sums[L]; \
        for (i = 4 * L, v += step; i + 4 * L <= n; i += 4 * L, v += step) { \
            vec_##t w = v[0], x = v[apart], y = v[2 * apart], z = v[3 * apart]; \
            a = vec_##name##_##t(w, a); b = vec_##name##_##t(x, b); c = vec_##name##_##t(y, c); e = vec_##name##_##t(z, e); \
            sa += w; sb += x; sc += y; se += z; \
        } \
        for (; i < n; i += L) {               /* the last one overlaps its neighbour */ \
            vec_##t w = *(const V *)(s + (i + L <= n ? i : n - L)); \
            a = vec_##name##_##t(w, a); sa += w; \
        } \
        a = vec_##name##_##t(vec_##name##_##t(a, b), vec_##name##_##t(c, e)); \
        sa = (sa + sb) + (sc + se); \
        memcpy(lanes, &a, FG_VEC); memcpy(sums, &sa, FG_VEC); \
        for (int h = L / 2; h > 0; h /= 2) \
            for (int j = 0; j < h; j++) { lanes[j] = lanes[j] FIRST lanes[j + h] ? lanes[j] : lanes[j + h]; sums[j] += sums[j + h]; } \
        top = lanes[0]; bad = sums[0] != sums[0]; \
    } \
    for (; i < n; i++) { top = s[i] FIRST top ? s[i] : top; bad |= s[i] != s[i]; } \
    if (bad || top != top) for (i = 0; i < n; i++) if (s[i] != s[i]) return (T)NAN; \
    return top; \
}
/* lanes of max(x, y) where y is a number, else those of x; x may be NaN too */
#ifdef __AVX512F__
#define FG_VEC_FMAX(name, t, S, W) FG_INLINE vec_##t vec_f##name##_##t(vec_##t x, vec_##t y) { \
    return (vec_##t)_mm512_mask_##name##_##S((W)x, _mm512_cmp_##S##_mask((W)y, (W)y, _CMP_ORD_Q), (W)x, (W)y); }
FG_VEC_FMAX(max, f32, ps, __m512) FG_VEC_FMAX(min, f32, ps, __m512) FG_VEC_FMAX(max, f64, pd, __m512d) FG_VEC_FMAX(min, f64, pd, __m512d)
#else
#define FG_VEC_FMAX(name, t) FG_INLINE vec_##t vec_f##name##_##t(vec_##t x, vec_##t y) { \
    fg_lanes_##t number = y == y; \
    return (vec_##t)(((fg_lanes_##t)vec_##name##_##t(x, y) & number) | ((fg_lanes_##t)x & ~number)); }
FG_VEC_FMAX(max, f32) FG_VEC_FMAX(min, f32) FG_VEC_FMAX(max, f64) FG_VEC_FMAX(min, f64)
#endif

/* The extremum of the numbers of a row; NaN where there is none. */
#define FG_NUMBERS(name, t, T, FIRST) \
static T fg_row_f##name##_##t(const T *s, int64_t n) { \
    typedef vec_##t V __attribute__((aligned(sizeof(T)), may_alias)); \
    enum { L = FG_VEC / sizeof(T) }; \
    T top = s[0]; \
    int64_t i = 1; \
    if (n >= 4 * L) { \
        const V *v = (const V *)s; \
        const int64_t apart = FG_QUARTER(n, T, L), step = apart == 1 ? 4 : 1; \
        vec_##t a = v[0], b = v[apart], c = v[2 * apart], e = v[3 * apart]; \
        T lanes[L]; \
        for (i = 4 * L, v += step; i + 4 * L <= n; i += 4 * L, v += step) { \
            a = vec_f##name##_##t(a, v[0]); b = vec_f##name##_##t(b, v[apart]); \
            c = vec_f##name##_##t(c, v[2 * apart]); e = vec_f##name##_##t(e, v[3 * apart]); \
        } \
        /* the last one overlaps its neighbour */ \
        for (; i < n; i += L) a = vec_f##name##_##t(a, *(const V *)(s + (i + L <= n ? i : n - L))); \
        a = vec_f##name##_##t(vec_f##name##_##t(a, b), vec_f##name##_##t(c, e)); \
        memcpy(lanes, &a, FG_VEC); \
        top = lanes[0]; \
        for (int j = 1; j < L; j++) top = !(lanes[j] != lanes[j]) && !(top FIRST lanes[j]) ? lanes[j] : top; \
    } \
    for (; i < n; i++) top = !(s[i] != s[i]) && !(top FIRST s[i]) ? s[i] : top; \
    return top; \
}
FG_NUMBERS(max, f32, float, >) FG_NUMBERS(max, f64, double, >)
FG_NUMBERS(min, f32, float, <) FG_NUMBERS(min, f64, double, <)
FG_EXTREMUM(max, f32, float, >) FG_EXTREMUM(max, f64, double, >)
FG_EXTREMUM(min, f32, float, <) FG_EXTREMUM(min, f64, double, <)
#endif
