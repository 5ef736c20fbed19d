/* Small real matrices of a batch, as many at a time as a vector of the type T has lanes: element e of all of them is one vector.
 * What is not finite, or fails, is left to LAPACK, matrix by matrix. */
#define V N(vec)
#define I N(fg_lanes)
#define L N(VEC_LANES_OF)
/* Lane l is matrix l, of `size` elements; lanes from `count` on repeat the last matrix. */
static void N(lanes_load)(V *x, const T *p, int64_t size, int count) {
    int64_t e = 0;
    for (; e + L <= size; e += L) {
        V a[L];
        FG_LANES_UNROLL for (int l = 0; l < L; l++) a[l] = *(const N(lanes_at) *)(p + (l < count ? l : count - 1) * size + e);
        N(lanes_transpose)(a);
        FG_LANES_UNROLL for (int l = 0; l < L; l++) x[e + l] = a[l];
    }
    for (; e < size; e++) for (int l = 0; l < L; l++) ((T *)&x[e])[l] = p[(l < count ? l : count - 1) * size + e];
}
static void N(lanes_store)(const V *x, T *p, int64_t size, int count) {
    int64_t e = 0;
    for (; e + L <= size; e += L) {
        V a[L];
        FG_LANES_UNROLL for (int l = 0; l < L; l++) a[l] = x[e + l];
        N(lanes_transpose)(a);
        FG_LANES_UNROLL for (int l = 0; l < L; l++) if (l < count) *(N(lanes_at) *)(p + l * size + e) = a[l];
    }
    for (; e < size; e++) for (int l = 0; l < count; l++) p[l * size + e] = ((const T *)&x[e])[l];
}
FG_INLINE V N(lanes_root)(V d) {
    T s[L];
    memcpy(s, &d, sizeof s);
    for (int l = 0; l < L; l++) s[l] = (T)sqrt((double)s[l]);
    memcpy(&d, s, sizeof s);
    return d;
}

/* The columns behind column c, reflected by what lies in it below the diagonal. */
FG_INLINE void N(lanes_reflect)(V *a, int m, int n, int c, V tau) {
    for (int j = c + 1; j < n; j++) {
        V w = a[c * n + j];
        for (int r = c + 1; r < m; r++) w += a[r * n + c] * a[r * n + j];
        w *= tau;
        a[c * n + j] -= w;
        for (int r = c + 1; r < m; r++) a[r * n + j] -= w * a[r * n + c];
    }
}

/* In place; lanes of the result are nonzero where a matrix is not positive definite. */
static I N(lanes_cholesky)(V *a, int n) {
    I bad = {0};
    for (int c = 0; c < n; c++) {
        V d = a[c * n + c];
        for (int k = 0; k < c; k++) d -= a[c * n + k] * a[c * n + k];
        bad |= ~(I)(d > 0);
        a[c * n + c] = d = N(lanes_root)(d);
        for (int r = c + 1; r < n; r++) {
            V s = a[r * n + c];
            for (int k = 0; k < c; k++) s -= a[r * n + k] * a[c * n + k];
            a[r * n + c] = s / d;
        }
        for (int r = 0; r < c; r++) a[r * n + c] = (V){0};
    }
    return bad;
}

/* In place, with row pivoting: row c was swapped with row pivot[c], the first with the largest element. */
static void N(lanes_lu)(V *a, int m, int n, I *pivot) {
    for (int c = 0; c < fg_least(m, n); c++) {
        V best = a[c * n + c];
        best = (V)((I)best & N(FG_LANES_ABS));
        I at = (I){0} + c;
        for (int r = c + 1; r < m; r++) {
            V v = (V)((I)a[r * n + c] & N(FG_LANES_ABS));
            I more = (I)(v > best);
            at = (at & ~more) | (((I){0} + r) & more);
            best = (V)(((I)best & ~more) | ((I)v & more));
        }
        pivot[c] = at;
        for (int r = c + 1; r < m; r++) {
            const I swap = (I)(at == r);
            for (int j = 0; j < n; j++) {
                I t = ((I)a[c * n + j] ^ (I)a[r * n + j]) & swap;
                a[c * n + j] = (V)((I)a[c * n + j] ^ t);
                a[r * n + j] = (V)((I)a[r * n + j] ^ t);
            }
        }
        const I zero = (I)(best == 0);                       /* then all below is zero, and stays so */
        const V p = (V)(((I)a[c * n + c] & ~zero) | ((I)((V){0} + 1) & zero));
        for (int r = c + 1; r < m; r++) {
            const V f = a[r * n + c] = a[r * n + c] / p;
            for (int j = c + 1; j < n; j++) a[r * n + j] -= f * a[c * n + j];
        }
    }
}

/* op(a) x = b in place of b, whose element i of side r is b[i di + r dr]; op(a)[i][j] = a[i ai + j aj], of which one triangle is read. */
static void N(lanes_solve)(const V *a, int64_t ai, int64_t aj, V *b, int64_t di, int64_t dr, int k, int sides, int lower, int unit) {
    for (int s = 0; s < k; s++) {
        const int i = lower ? s : k - 1 - s;
        V *x = b + i * di;
        for (int u = 0; u < s; u++) {
            const int j = lower ? u : k - 1 - u;
            const V f = a[i * ai + j * aj], *y = b + j * di;
            for (int r = 0; r < sides; r++) x[r * dr] -= f * y[r * dr];
        }
        if (!unit) for (int r = 0; r < sides; r++) x[r * dr] /= a[i * ai + i * aj];
    }
}

/* Householder reflectors of the columns in place, as LAPACK's geqr2; lanes of the result are nonzero where squares left the range of T. */
static I N(lanes_reflectors)(V *a, int m, int n, V *tau) {
    const V one = (V){0} + 1;
    I bad = {0};
    for (int c = 0; c < fg_least(m, n); c++) {
        V sum = {0}, most = {0};
        for (int r = c + 1; r < m; r++) {
            const V x = a[r * n + c], size = (V)((I)x & N(FG_LANES_ABS));
            const I more = (I)(size > most);
            most = (V)(((I)most & ~more) | ((I)size & more));
            sum += x * x;
        }
        const V alpha = a[c * n + c], square = sum + alpha * alpha, norm = N(lanes_root)(square);
        const I none = (I)(most == 0);                       /* nothing to reflect */
        bad |= ~none & ~((I)(sum > N(FG_LANES_LITTLE)) & (I)(square < N(FG_LANES_MUCH)));
        const V beta = (V)((I)norm | (~(I)alpha & ~N(FG_LANES_ABS)));
        tau[c] = (V)((I)((beta - alpha) / beta) & ~none);
        const V scale = (V)(((I)(alpha - beta) & ~none) | ((I)one & none));
        a[c * n + c] = (V)(((I)beta & ~none) | ((I)alpha & none));
        for (int r = c + 1; r < m; r++) a[r * n + c] /= scale;
        N(lanes_reflect)(a, m, n, c, tau[c]);
    }
    return bad;
}

/* The first n columns of the product of k reflectors, in their place: LAPACK's org2r. */
static void N(lanes_product)(V *a, int m, int n, int k, const V *tau) {
    for (int c = k; c < n; c++) for (int r = 0; r < m; r++) a[r * n + c] = (V){0} + (T)(r == c);
    for (int c = k - 1; c >= 0; c--) {
        N(lanes_reflect)(a, m, n, c, tau[c]);
        for (int r = 0; r < c; r++) a[r * n + c] = (V){0};
        a[c * n + c] = 1 - tau[c];
        for (int r = c + 1; r < m; r++) a[r * n + c] *= -tau[c];
    }
}

/* Whether an element of x is not finite. */
static void N(lanes_wild)(const V *x, int64_t size, int *redo) {
    V sum = {0};
    for (int64_t e = 0; e < size; e++) sum += x[e] * 0;
    for (int l = 0; l < L; l++) redo[l] |= sum[l] != 0;
}

static void N(jacobi_values)(const FgLaJob *j, int64_t first, int count, V *x, int *redo);
/* Matrices `first` to first + count; whether LAPACK must do one of them again is in redo[]. */
static void N(lanes_factor)(const FgLaJob *j, int64_t first, int count, V *x, int *redo) {
    const int64_t size = (int64_t)j->m * j->n, k = fg_least(j->m, j->n);
    const T *from = (const T *)j->arg[0]->data + first * size;
    T bad[L];
    N(lanes_load)(x, from, size, count);
    if (j->one == fg_one_cholesky) {
        I failed = N(lanes_cholesky)(x, j->n);
        memcpy(bad, &failed, sizeof bad);
        for (int l = 0; l < count; l++) { T none = 0; redo[l] = memcmp(&bad[l], &none, sizeof none) != 0; }
        N(lanes_store)(x, (T *)j->arg[1]->data + first * size, size, count);
        return;
    }
    for (int l = 0; l < L; l++) redo[l] = 0;
    N(lanes_wild)(x, size, redo);
    if (j->one == fg_one_eigvalsh || j->one == fg_one_svd) {
        N(jacobi_values)(j, first, count, x, redo);
        return;
    }
    if (j->one == fg_one_geqrf) {
        V tau[FG_LANES_MOST];
        I failed = N(lanes_reflectors)(x, j->m, j->n, tau);
        for (int l = 0; l < L; l++) redo[l] |= failed[l] != 0;
        N(lanes_store)(x, (T *)j->arg[1]->data + first * size, size, count);
        N(lanes_store)(tau, (T *)j->arg[2]->data + first * k, k, count);
        return;
    }
    if (j->one == fg_one_reflectors) {
        V tau[FG_LANES_MOST];
        const int taus = (int)(j->bytes[1] / j->item);
        N(lanes_load)(tau, (const T *)j->arg[1]->data + first * taus, taus, count);
        N(lanes_wild)(tau, taus, redo);
        N(lanes_product)(x, j->m, j->n, taus, tau);
        N(lanes_store)(x, (T *)j->arg[2]->data + first * size, size, count);
        return;
    }
    I pivot[FG_LANES_MOST];
    N(lanes_lu)(x, j->m, j->n, pivot);
    N(lanes_store)(x, (T *)j->arg[1]->data + first * size, size, count);
    for (int l = 0; l < count; l++) {
        int *p = (int *)j->arg[2]->data + (first + l) * k, *perm = (int *)j->arg[3]->data + (first + l) * j->m;
        for (int c = 0; c < k; c++) p[c] = (int)pivot[c][l];
        fg_permutation(p, (int)k, perm, j->m);
    }
}

static void N(lanes_triangle)(const FgTrsmJob *j, int64_t first, int count, V *x) {
    const int64_t *ip = j->inst->ip, size = (int64_t)j->m * j->n, ka = (int64_t)j->k * j->k;
    V *b = x + ka;
    const int left = ip[0] != 0, turned = (ip[2] != 0) ^ !left, lower = (ip[1] != 0) ^ turned;       /* X A = B is A^T X^T = B^T */
    T *out = (T *)j->b + first * size;
    N(lanes_load)(x, (const T *)j->a + first * ka, ka, count);
    N(lanes_load)(b, out, size, count);
    N(lanes_solve)(x, turned ? 1 : j->k, turned ? j->k : 1, b, left ? j->n : 1, left ? 1 : j->n, j->k, left ? j->n : j->m, lower, ip[3] != 0);
    N(lanes_store)(b, out, size, count);
}
#undef V
#undef I
#undef L
