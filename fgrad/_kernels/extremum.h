/* The extremum of a row of floats, NaN where one is: the maximum passes NaN over, a sum beside it shows whether there was one.  (So does
 * a sum of infinities of both signs, or one that overflows to them: then the row is searched.) */
#ifndef FG_EXTREMUM_H
#define FG_EXTREMUM_H
#include "vec.h"

#define FG_EXTREMUM(name, t, T, FIRST) \
static T fg_row_##name##_##t(const T *s, int64_t n) { \
    typedef vec_##t V __attribute__((aligned(sizeof(T)), may_alias)); \
    enum { L = FG_VEC / sizeof(T) }; \
    const V *v = (const V *)s; \
    int64_t i = 0, bad = 0; \
    T top = s[0]; \
    if (n >= 4 * L) { \
        vec_##t a = v[0], b = v[1], c = v[2], e = v[3], sa = a, sb = b, sc = c, se = e; \
        T lanes[L], sums[L]; \
        for (i = 4 * L, v += 4; i + 4 * L <= n; i += 4 * L, v += 4) { \
            vec_##t w = v[0], x = v[1], y = v[2], z = v[3]; \
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
FG_EXTREMUM(max, f32, float, >) FG_EXTREMUM(max, f64, double, >)
FG_EXTREMUM(min, f32, float, <) FG_EXTREMUM(min, f64, double, <)
#endif
