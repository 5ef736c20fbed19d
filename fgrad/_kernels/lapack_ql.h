/* Eigenvectors of a small symmetric matrix by the way of LAPACK's syevd, and so mostly with its signs, for the type T: reflectors make it
 * tridiagonal, rotations diagonal. Rows are vectors, an eigenvector each in the end; the numbers of the rotations are double, which has room for squares of T. */
#define V N(vec)
#define L N(VEC_LANES_OF)

/* c x + s y and c y - s x in the places of x and y. */
FG_INLINE void N(ql_turn)(V *x, V *y, int wide, T c, T s) {
    for (int v = 0; v < wide; v++) {
        const V a = x[v], b = y[v];
        x[v] = c * a + s * b;
        y[v] = c * b - s * a;
    }
}

/* The symmetric a (n rows of `wide` vectors) to its diagonal d and its neighbour e; z, the identity, to the transposed product of reflectors. */
static void N(ql_reflect)(V *a, int n, int wide, double *d, double *e, V *z) {
    V v[FG_QL_MOST], p[FG_QL_MOST];                           /* of `wide` vectors */
    T *const x = (T *)v, *const y = (T *)p;
    for (int i = 0; i + 1 < n; i++) {
        const T *row = (const T *)(a + i * wide);
        const double alpha = row[i + 1];
        double square = 0, dot = 0;
        d[i] = row[i];
        e[i] = alpha;
        for (int c = i + 2; c < n; c++) square += (double)row[c] * row[c];
        if (square == 0) continue;
        e[i] = -copysign(sqrt(alpha * alpha + square), alpha);
        const T tau = (T)((e[i] - alpha) / e[i]), scale = (T)(1 / (alpha - e[i]));
        for (int w = 0; w < wide; w++) v[w] = p[w] = (V){0};
        x[i + 1] = 1;
        for (int c = i + 2; c < n; c++) x[c] = row[c] * scale;
        for (int k = i + 1; k < n; k++) for (int w = 0; w < wide; w++) p[w] += x[k] * a[k * wide + w];
        for (int k = i + 1; k < n; k++) dot += (double)x[k] * y[k];
        const T half = (T)(-0.5 * tau * tau * dot);
        for (int w = 0; w < wide; w++) p[w] = tau * p[w] + half * v[w];
        for (int k = i + 1; k < n; k++) for (int w = 0; w < wide; w++) a[k * wide + w] -= x[k] * p[w] + y[k] * v[w];
        for (int w = 0; w < wide; w++) p[w] = (V){0};
        for (int k = i + 1; k < n; k++) for (int w = 0; w < wide; w++) p[w] += x[k] * z[k * wide + w];
        for (int k = i + 1; k < n; k++) for (int w = 0; w < wide; w++) z[k * wide + w] -= tau * x[k] * p[w];
    }
    d[n - 1] = ((const T *)(a + (n - 1) * wide))[n - 1];
}

/* Eigenvalues of (a, b; b, c) in the places of a and c, the larger by size first, and the rotation that belongs to them. */
FG_INLINE void N(ql_pair)(double *a, double b, double *c, double *cos, double *sin) {
    const double sum = *a + *c, gap = *a - *c, twice = b + b, root = sqrt(gap * gap + twice * twice), least = fabs(*a) > fabs(*c) ? *c : *a;
    const double most = fabs(*a) > fabs(*c) ? *a : *c, side = gap >= 0 ? gap + root : gap - root;
    double x, y;
    if (fabs(side) > fabs(twice)) { const double t = -twice / side; y = 1 / sqrt(1 + t * t); x = t * y; }
    else if (b == 0) { x = 1; y = 0; }
    else { const double t = -side / twice; x = 1 / sqrt(1 + t * t); y = t * x; }
    *cos = (sum < 0) == (gap < 0) ? -y : x;
    *sin = (sum < 0) == (gap < 0) ? x : y;
    *a = sum == 0 ? 0.5 * root : 0.5 * (sum + (sum < 0 ? -root : root));
    *c = sum == 0 ? -0.5 * root : most / *a * least - b / *a * b;
}

/* d and e to eigenvalues, in no order; rows of z are turned along. Steps go from the end of a block whose element is the smaller by size towards
 * the other (QL where that is the first, else QR). Whether that came to an end. */
static int N(ql_rotate)(int n, double *d, double *e, V *z, int wide) {
    const double eps = N(FG_QL_EPS);
    int steps = 30 * n;
    for (int begin = 0, end; begin < n; begin = end + 1) {
        for (end = begin; end + 1 < n && fabs(e[end]) > sqrt(fabs(d[end])) * sqrt(fabs(d[end + 1])) * eps; end++) {}
        if (end + 1 < n) e[end] = 0;
        const int up = !(fabs(d[end]) < fabs(d[begin])), by = up ? 1 : -1, last = up ? end : begin;
#define FG_BESIDE(i) e[up ? (i) : (i) - 1]                    /* between i and i + by */
        for (int l = up ? begin : end; up ? l <= last : l >= last;) {
            int m = l;
            for (; m != last; m += by)
                if (FG_BESIDE(m) * FG_BESIDE(m) <= eps * eps * fabs(d[m]) * fabs(d[m + by]) + DBL_MIN) { FG_BESIDE(m) = 0; break; }
            double c = 1, s = 1, p = 0;
            if (m == l) { l += by; continue; }
            if (m == l + by) {
                const int i = up ? l : m;
                N(ql_pair)(&d[i], e[i], &d[i + 1], &c, &s);
                N(ql_turn)(z + i * wide, z + (i + 1) * wide, wide, (T)c, (T)s);
                e[i] = 0;
                l += 2 * by;
                continue;
            }
            if (steps-- == 0) return 0;
            double g = (d[l + by] - d[l]) / (2 * FG_BESIDE(l));
            g = d[m] - d[l] + FG_BESIDE(l) / (g + copysign(sqrt(g * g + 1), g));
            for (int i = m; i != l; i -= by) {
                const double f = s * FG_BESIDE(i - by), b = c * FG_BESIDE(i - by), root = sqrt(f * f + g * g), r = copysign(root, g);
                if (f == 0) { c = 1; s = 0; }
                else if (g == 0) { c = 0; s = copysign(1, f); }
                else { c = fabs(g) / root; s = f / r; }
                if (i != m) FG_BESIDE(i) = f == 0 ? g : g == 0 ? fabs(f) : r;
                g = d[i] - p;
                const double q = (d[i - by] - g) * s + 2 * c * b;
                p = s * q;
                d[i] = g + p;
                g = c * q - b;
                N(ql_turn)(z + i * wide, z + (i - by) * wide, wide, (T)c, (T)s);
            }
            d[l] -= p;
            FG_BESIDE(l) = g;
        }
#undef FG_BESIDE
    }
    return 1;
}

/* Vectors (n, n), in columns, and ascending values (n) of x, of which the lower triangle is read; 0 where that is left to LAPACK. */
static int N(ql_eigh)(const T *x, int n, T *vectors, T *values) {
    V a[FG_QL_MOST * (FG_QL_MOST / L + 1)], z[FG_QL_MOST * (FG_QL_MOST / L + 1)];
    const int wide = (n + L - 1) / L, ld = wide * L;
    T *const full = (T *)a, *const rows = (T *)z;
    T most = 0, wild = 0;
    double d[FG_QL_MOST], e[FG_QL_MOST];
    for (int i = 0; i < n * wide; i++) a[i] = z[i] = (V){0};
    for (int r = 0; r < n; r++) {
        rows[r * ld + r] = 1;
        for (int c = 0; c <= r; c++) {
            const T t = x[r * n + c], size = t < 0 ? -t : t;
            full[r * ld + c] = full[c * ld + r] = t;
            wild += t * 0;
            if (size > most) most = size;
        }
    }
    if (wild != 0 || most > N(FG_QL_MUCH) || (most > 0 && most < N(FG_QL_LITTLE))) return 0;
    N(ql_reflect)(a, n, wide, d, e, z);
    if (!N(ql_rotate)(n, d, e, z, wide)) return 0;
    for (int i = 0; i < n; i++) {
        int k = i;
        for (int j = i + 1; j < n; j++) if (d[j] < d[k]) k = j;
        for (int r = 0; r < n; r++) {
            vectors[r * n + i] = rows[k * ld + r];
            rows[k * ld + r] = rows[i * ld + r];
        }
        values[i] = (T)d[k];
        d[k] = d[i];
    }
    return 1;
}
#undef V
#undef L
