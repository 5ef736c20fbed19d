/* LU and Cholesky of a matrix of middle size, for the type T, in place and by rows: panels of FG_PANEL columns, transposed, so that
 * vectors run along their rows, then a product of the panel with what lies beside it. */
#define V N(vec)
#define L N(VEC_LANES_OF)
#define AT(p) (*(N(lanes_at) *)(p))

/* p[c ld + r] = a[r n + c] for r < rows, c < columns, or back. */
static void N(blocks_panel)(T *a, int64_t n, T *p, int64_t ld, int rows, int columns, int back) {
    int r = 0;
    for (; r + L <= rows; r += L) {
        int c = 0;
        for (; c + L <= columns; c += L) {
            V x[L];
            FG_LANES_UNROLL for (int i = 0; i < L; i++) x[i] = back ? AT(p + (c + i) * ld + r) : AT(a + (r + i) * n + c);
            N(lanes_transpose)(x);
            FG_LANES_UNROLL for (int i = 0; i < L; i++) if (back) AT(a + (r + i) * n + c) = x[i]; else AT(p + (c + i) * ld + r) = x[i];
        }
        for (; c < columns; c++) for (int i = r; i < r + L; i++) { if (back) a[i * n + c] = p[c * ld + i]; else p[c * ld + i] = a[i * n + c]; }
    }
    for (; r < rows; r++) for (int c = 0; c < columns; c++) { if (back) a[r * n + c] = p[c * ld + r]; else p[c * ld + r] = a[r * n + c]; }
}

/* c[r ldc + j] -= sum_t p[t ld + r] b[t ldb + j] for 4 rows and `wide` vectors, 1 or 2, t < w. */
FG_INLINE void N(blocks_tile)(T *c, int64_t ldc, const T *p, int64_t ld, const T *b, int64_t ldb, int w, const int wide) {
    V s[4][2];
    FG_LANES_UNROLL for (int r = 0; r < 4; r++) FG_LANES_UNROLL for (int v = 0; v < wide; v++) s[r][v] = AT(c + r * ldc + v * L);
    for (int t = 0; t < w; t++) {
        V x[2];
        FG_LANES_UNROLL for (int v = 0; v < wide; v++) x[v] = AT(b + t * ldb + v * L);
        FG_LANES_UNROLL for (int r = 0; r < 4; r++) FG_LANES_UNROLL for (int v = 0; v < wide; v++) s[r][v] -= p[t * ld + r] * x[v];
    }
    FG_LANES_UNROLL for (int r = 0; r < 4; r++) FG_LANES_UNROLL for (int v = 0; v < wide; v++) AT(c + r * ldc + v * L) = s[r][v];
}
/* The same for m rows and n columns, at the edges beside c; of a lower triangle only what is on or below the diagonal matters. */
static void N(blocks_update)(T *c, int64_t ldc, const T *p, int64_t ld, const T *b, int64_t ldb, int m, int n, int w, int lower) {
    T edge[4 * L] __attribute__((aligned(64))) = {0};
    for (int r = 0; r < m; r += 4) {
        const int most = lower && r + 4 < n ? r + 4 : n, rows = fg_least(4, m - r);
        int j = 0;
        if (rows == 4) {
            for (; j < most && j + 2 * L <= n; j += 2 * L) N(blocks_tile)(c + r * ldc + j, ldc, p + r, ld, b + j, ldb, w, 2);
            for (; j < most && j + L <= n; j += L) N(blocks_tile)(c + r * ldc + j, ldc, p + r, ld, b + j, ldb, w, 1);
        }
        for (; j < most; j += L) {
            T *at = c + r * ldc + j;
            const size_t bytes = (size_t)fg_least(L, n - j) * sizeof(T);
            for (int i = 0; i < rows; i++) memcpy(edge + L * i, at + i * ldc, bytes);
            N(blocks_tile)(edge, L, p + r, ld, b + j, ldb, w, 1);
            for (int i = 0; i < rows; i++) memcpy(at + i * ldc, edge + L * i, bytes);
        }
    }
}

static void N(blocks_swap)(T *x, T *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) { T t = x[i]; x[i] = y[i]; y[i] = t; }
}

/* Columns j of the panel, of m rows: pivots are rows of the panel. */
static void N(blocks_lu_panel)(T *p, int64_t ld, int m, int w, int *pivot) {
    for (int j = 0; j < w; j++) {
        T *x = p + j * ld, best = -1;
        #pragma omp simd reduction(max:best)
        for (int r = j; r < m; r++) { T v = x[r] < 0 ? -x[r] : x[r]; best = v > best ? v : best; }
        int at = j;
        while (at < m && x[at] != best && x[at] != -best) at++;
        if (at == m) at = j;                                  /* overflow made NaN of them */
        pivot[j] = at;
        if (at != j) for (int t = 0; t < w; t++) { T v = p[t * ld + j]; p[t * ld + j] = p[t * ld + at]; p[t * ld + at] = v; }
        const T d = x[j];
        if (d != 0) for (int r = j + 1; r < m; r++) x[r] /= d;
        for (int t = j + 1; t < w; t++) {
            T *y = p + t * ld;
            const T f = y[j];
            for (int r = j + 1; r < m; r++) y[r] -= f * x[r];
        }
    }
}

/* a (m, n) of finite numbers, rows lda apart; space: 2 FG_PANEL rows of ld elements, max(m, n) and 32 more. */
static void N(blocks_lu)(T *a, int64_t lda, int m, int n, int *pivot, T *space, int64_t ld) {
    T *p = space, *b = space + FG_PANEL * ld;
    const int k = fg_least(m, n);
    for (int c = 0; c < k; c += FG_PANEL) {
        const int w = fg_least(FG_PANEL, k - c), rows = m - c, rest = n - c - w;
        T *at = a + c * lda + c;
        N(blocks_panel)(at, lda, p, ld, rows, w, 0);
        N(blocks_lu_panel)(p, ld, rows, w, pivot + c);
        for (int j = 0; j < w; j++) {
            const int64_t to = (c + pivot[c + j]) * lda, from = (c + j) * lda;
            pivot[c + j] += c;
            if (to == from) continue;
            N(blocks_swap)(a + from, a + to, c);
            N(blocks_swap)(a + from + c + w, a + to + c + w, rest);
        }
        N(blocks_panel)(at, lda, p, ld, rows, w, 1);
        if (!rest) continue;
        for (int j = 0; j < w; j++) {                         /* what is right of the panel, solved, and beside each other in b */
            T *x = b + j * ld;
            memcpy(x, at + j * lda + w, (size_t)rest * sizeof(T));
            for (int t = 0; t < j; t++) { const T f = p[t * ld + j], *y = b + t * ld; for (int q = 0; q < rest; q++) x[q] -= f * y[q]; }
            memcpy(at + j * lda + w, x, (size_t)rest * sizeof(T));
        }
        N(blocks_update)(at + w * lda + w, lda, p + w, ld, b, ld, rows - w, rest, w, 0);
    }
}

/* The lower triangle of a (n, n) in place: 0, or -1 where a is not positive definite. */
static int N(blocks_cholesky)(T *a, int64_t lda, int n, T *space, int64_t ld) {
    T *p = space;
    for (int c = 0; c < n; c += FG_PANEL) {
        const int w = fg_least(FG_PANEL, n - c), rows = n - c;
        T *at = a + c * lda + c;
        N(blocks_panel)(at, lda, p, ld, rows, w, 0);
        for (int j = 0; j < w; j++) {
            T *x = p + j * ld;
            if (!(x[j] > 0)) return -1;
            const T d = (T)sqrt((double)x[j]);
            x[j] = d;
            for (int r = j + 1; r < rows; r++) x[r] /= d;
            for (int t = j + 1; t < w; t++) {
                T *y = p + t * ld;
                const T f = x[t];
                for (int r = t; r < rows; r++) y[r] -= f * x[r];
            }
        }
        N(blocks_panel)(at, lda, p, ld, rows, w, 1);
        N(blocks_update)(at + w * lda + w, lda, p + w, ld, p + w, ld, rows - w, rows - w, w, 1);
    }
    return 0;
}

/* The factors of a lower triangle a of n rows (strides row and column, elements): p[t FG_LEAF + r] for row r and unknown t, the inverse of
 * the diagonal; beyond n those of equations without unknowns. */
static void N(blocks_triangle)(const T *a, int64_t row, int64_t column, int n, int unit, T *p) {
    memset(p, 0, FG_LEAF * FG_LEAF * sizeof(T));
    for (int r = 0; r < n; r++) for (int t = 0; t < r; t++) p[t * FG_LEAF + r] = a[r * row + t * column];
    for (int r = 0; r < FG_LEAF; r++) p[r * FG_LEAF + r] = r < n && !unit ? 1 / a[r * (row + column)] : 1;
}

/* FG_LEAF systems with such factors: right-hand sides x, n rows `step` apart and up to 3 behind them, become their solutions. */
static void N(blocks_solve)(const T *p, T *x, int64_t step, int n) {
    enum { W = FG_VEC == 64 ? 4 : 2 };
    for (int first = 0; first < FG_LEAF; first += W * L) for (int r = 0; r < n; r += 4) {
        T *at = x + first + r * step;
        V s[4][W];
        FG_LANES_UNROLL for (int i = 0; i < 4; i++) FG_LANES_UNROLL for (int v = 0; v < W; v++) s[i][v] = AT(at + i * step + v * L);
        for (int t = 0; t < r; t++) {
            const T *f = p + t * FG_LEAF + r, *y = x + first + t * step;
            V z[W];
            FG_LANES_UNROLL for (int v = 0; v < W; v++) z[v] = AT(y + v * L);
            FG_LANES_UNROLL for (int i = 0; i < 4; i++) FG_LANES_UNROLL for (int v = 0; v < W; v++) s[i][v] -= f[i] * z[v];
        }
        FG_LANES_UNROLL for (int i = 0; i < 4; i++) {
            const T *f = p + r * FG_LEAF + r + i;
            FG_LANES_UNROLL for (int t = 0; t < i; t++) FG_LANES_UNROLL for (int v = 0; v < W; v++) s[i][v] -= f[t * FG_LEAF] * s[t][v];
            FG_LANES_UNROLL for (int v = 0; v < W; v++) AT(at + i * step + v * L) = s[i][v] = s[i][v] * f[i * FG_LEAF];
        }
    }
}

/* Solutions of `count` systems of n unknowns in place: x's rows are unknowns, lx apart, or (`turned`) systems. The last unknown comes first
 * where `back`. */
static void N(blocks_sides)(const T *p, T *x, int64_t lx, int n, int count, int turned, int back) {
    T room[(FG_LEAF + 8) * FG_LEAF] __attribute__((aligned(64))), *y = room + 4 * FG_LEAF;
    memset(room, 0, sizeof room);
    if (turned) N(blocks_panel)(x, lx, y, FG_LEAF, count, n, 0);
    else for (int r = 0; r < n; r++) memcpy(y + r * FG_LEAF, x + r * lx, count * sizeof(T));
    N(blocks_solve)(p, back ? y + (n - 1) * FG_LEAF : y, back ? -FG_LEAF : FG_LEAF, n);
    if (turned) N(blocks_panel)(x, lx, y, FG_LEAF, count, n, 1);
    else for (int r = 0; r < n; r++) memcpy(x + r * lx, y + r * FG_LEAF, count * sizeof(T));
}

/* Whether all elements are finite. */
static int N(blocks_finite)(const T *a, int64_t size) {
    T sum = 0;
    #pragma omp simd reduction(+:sum)
    for (int64_t i = 0; i < size; i++) sum += a[i] * 0;
    return sum == 0;
}
#undef V
#undef L
#undef AT
