/* Eigenvalues and singular values, without vectors (whose signs are LAPACK's), of small matrices in lanes, by Jacobi's rotations.
 * A lane whose elements off the diagonal are negligible is not rotated any more, so that a matrix does not see its neighbours. */
#define V N(vec)
#define I N(fg_lanes)
#define L N(VEC_LANES_OF)
#define ABS(v) ((V)((I)(v) & N(FG_LANES_ABS)))
#define WHERE(m, a, b) ((V)(((I)(a) & (m)) | ((I)(b) & ~(m))))

static int N(lanes_any)(I m) {
    int any = 0;
    for (int l = 0; l < L; l++) any |= m[l] != 0;
    return any;
}
/* The tangent of the rotation by at most 45 degrees under which g vanishes between p and q; 0 where not `turn`. */
FG_INLINE V N(jacobi_tangent)(V p, V q, V g, I turn) {
    const V one = (V){0} + 1, zeta = (q - p) / WHERE(turn, 2 * g, one), t = one / (ABS(zeta) + N(lanes_root)(zeta * zeta + 1));
    return (V)(((I)t | ((I)zeta & ~N(FG_LANES_ABS))) & turn);
}
/* Ascending, or descending. */
static void N(jacobi_sort)(V *w, int n, int descending) {
    for (int s = 0; s < n; s++) for (int i = s & 1; i + 1 < n; i += 2) {
        const V a = w[i], b = w[i + 1];
        const I turn = descending ? (I)(a < b) : (I)(a > b);
        w[i] = WHERE(turn, b, a);
        w[i + 1] = WHERE(turn, a, b);
    }
}

/* Eigenvalues w of the symmetric a (n, n), of which the upper triangle (j >= i at a[i * n + j]) is read and overwritten; lanes of the
 * result are nonzero where there are too many rotations. */
static I N(jacobi_eigenvalues)(V *a, int n, V *w) {
    V most = {0};
    I turning = {0};
    for (int i = 0; i < n; i++) for (int j = i; j < n; j++) { const V v = ABS(a[i * n + j]); most = WHERE((I)(v > most), v, most); }
    const V none = most * (N(FG_JACOBI_EPS) / 16);
    for (int sweep = 0; sweep < FG_JACOBI_SWEEPS; sweep++) {
        turning = (I){0};
        for (int p = 0; p < n - 1; p++) for (int q = p + 1; q < n; q++) {
            const V g = a[p * n + q];
            const I turn = (I)(ABS(g) > none);
            if (!N(lanes_any)(turn)) continue;
            const V t = N(jacobi_tangent)(a[p * n + p], a[q * n + q], g, turn), c = 1 / N(lanes_root)(t * t + 1), s = t * c, tau = s / (1 + c);
            turning |= turn;
            a[p * n + p] -= t * g;
            a[q * n + q] += t * g;
            a[p * n + q] = WHERE(turn, (V){0}, g);
            for (int r = 0; r < n; r++) {
                if (r == p || r == q) continue;
                V *x = r < p ? a + r * n + p : a + p * n + r, *y = r < q ? a + r * n + q : a + q * n + r;
                const V u = *x, v = *y;
                *x = u - s * (v + u * tau);
                *y = v + s * (u - v * tau);
            }
        }
        if (!N(lanes_any)(turning)) break;
    }
    for (int i = 0; i < n; i++) w[i] = a[i * n + i];
    N(jacobi_sort)(w, n, 0);
    return turning;
}

/* Singular values w of `count` columns of `rows` elements, element r of column c at a[r * dr + c * dc]: columns are turned until they are
 * orthogonal, or negligible. Lanes of the result are nonzero where squares leave the range of T, or there are too many rotations. */
static I N(jacobi_singular_values)(V *a, int rows, int count, int dr, int dc, V *w) {
    V most = {0}, total = {0};
    I turning = {0};
    for (int e = 0; e < rows * count; e++) { const V v = ABS(a[e]); most = WHERE((I)(v > most), v, most); }
    const I bad = ~((I)(most > N(FG_JACOBI_LITTLE)) & (I)(most < N(FG_JACOBI_MUCH)));
    for (int e = 0; e < rows * count; e++) total += a[e] * a[e];
    const T eps = N(FG_JACOBI_EPS);
    const V none = total * (eps * eps / 16);
    for (int sweep = 0; sweep < FG_JACOBI_SWEEPS; sweep++) {
        turning = (I){0};
        for (int p = 0; p < count - 1; p++) for (int q = p + 1; q < count; q++) {
            V *x = a + p * dc, *y = a + q * dc, xx = {0}, yy = {0}, xy = {0};
            for (int r = 0; r < rows; r++) {
                const V u = x[r * dr], v = y[r * dr];
                xx += u * u;
                yy += v * v;
                xy += u * v;
            }
            const I turn = (I)(xx > none) & (I)(yy > none) & (I)(ABS(xy) > eps * N(lanes_root)(xx) * N(lanes_root)(yy)) & ~bad;
            if (!N(lanes_any)(turn)) continue;
            const V t = N(jacobi_tangent)(xx, yy, xy, turn), c = 1 / N(lanes_root)(t * t + 1), s = t * c, tau = s / (1 + c);
            turning |= turn;
            for (int r = 0; r < rows; r++) {
                const V u = x[r * dr], v = y[r * dr];
                x[r * dr] = u - s * (v + u * tau);           /* c u - s v, rounded like a small change of u */
                y[r * dr] = v + s * (u - v * tau);
            }
        }
        if (!N(lanes_any)(turning)) break;
    }
    for (int i = 0; i < count; i++) {
        V sum = {0};
        for (int r = 0; r < rows; r++) sum += a[r * dr + i * dc] * a[r * dr + i * dc];
        w[i] = N(lanes_root)(sum);
    }
    N(jacobi_sort)(w, count, 1);
    return turning | bad;
}

/* Matrices `first` to first + count of x, which are loaded; redo[] as in lanes_factor. */
static void N(jacobi_values)(const FgLaJob *j, int64_t first, int count, V *x, int *redo) {
    const int m = j->m, n = j->n, k = fg_least(m, n);
    V w[FG_LANES_MOST];
    I failed;
    if (j->one == fg_one_eigvalsh) {
        if (j->ip[0]) for (int r = 0; r < n; r++) for (int c = r + 1; c < n; c++) x[r * n + c] = x[c * n + r];
        failed = N(jacobi_eigenvalues)(x, n, w);
    } else failed = N(jacobi_singular_values)(x, m < n ? n : m, k, m < n ? 1 : n, m < n ? n : 1, w);
    for (int l = 0; l < L; l++) redo[l] |= failed[l] != 0;
    N(lanes_store)(w, (T *)j->arg[1]->data + first * k, k, count);
}
#undef V
#undef I
#undef L
#undef ABS
#undef WHERE
