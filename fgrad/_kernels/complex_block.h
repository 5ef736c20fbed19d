/* One block of a streamed product of complex numbers, computed as one of real numbers: b is read where it lies. Included by matmul.h for each T.
 *
 * Rows against rows: a row x + iy becomes two, (x, -y) and (y, x), whose products with a row of b are its real and its imaginary part.
 * One row against columns: x and y multiply b's rows apart, and what they give, u and v, is added up as u + iv. */

/* y (2M, nb) += a few rows x, each as two, against nb rows of b. */
static void N(complex_dots)(int64_t M, int64_t nk, int64_t nb, const T *x, int64_t ldx, const T *b, int64_t ldb, T *y) {
    T rows[FG_XMAX];
    const int64_t step = FG_XMAX / (4 * M);
    for (int64_t k0 = 0; k0 < nk; k0 += step) {
        const int64_t kc = nk - k0 < step ? nk - k0 : step;
        for (int64_t m = 0; m < M; m++) COMPLEX_SPREAD(x + 2 * (m * ldx + k0), kc, rows + 4 * m * kc, rows + (4 * m + 2) * kc);
        N(dots)(2 * M, nb, 2 * kc, rows, 2 * kc, b + 2 * k0, 2 * ldb, y, nb, 0);
    }
}

/* y (2, 2nb) += the real and the imaginary parts of one row x by b's rows, as many at a time as stay in the first cache between them. */
static void N(complex_axpy)(int64_t nk, int64_t nb, const T *x, const T *b, int64_t ldb, T *y, int far, int64_t ahead) {
    enum { MOST = 256, ROWS = 8 };
    T re[MOST], im[MOST];
    int64_t step = FG_XMAX / (2 * nb) / ROWS * ROWS;
    step = step < ROWS ? ROWS : step > MOST ? MOST : step;
    for (int64_t k0 = 0; k0 < nk; k0 += step) {
        const int64_t kc = nk - k0 < step ? nk - k0 : step;
        for (int64_t k = 0; k < kc; k++) { re[k] = x[2 * (k0 + k)]; im[k] = x[2 * (k0 + k) + 1]; }
        N(axpy)(2 * nb, kc, re, b + 2 * k0 * ldb, 2 * ldb, y, far, 2 * ahead);
        N(axpy)(2 * nb, kc, im, b + 2 * k0 * ldb, 2 * ldb, y + 2 * nb, 0, 0);
    }
}

/* Sizes and strides in complex elements; M is at most FG_MB / 2, or 1 against columns, of which nb is at most FG_NB. */
static void N(complex_block)(int way, int64_t M, int64_t nk, int64_t nb, const T *x, int64_t ldx, const T *b, int64_t ldb, int64_t ahead,
                             T *out, int64_t sm, int64_t sn, int mode) {
    T y[FG_BLOCK_SIZE];
    const int dots = way >= FG_DOTS;
    memset(y, 0, (size_t)((dots ? 2 * M : 4) * nb) * sizeof(T));
    if (dots) N(complex_dots)(M, nk, nb, x, ldx, b, ldb, y);
    else N(complex_axpy)(nk, nb, x, b, ldb, y, way == FG_FAR, ahead);
    for (int64_t m = 0; m < M; m++) {
        const T *u = y + 2 * m * nb, *v = u + (dots ? nb : 2 * nb);
        for (int64_t j = 0; j < nb; j++) {
            const T re = dots ? u[j] : u[2 * j] - v[2 * j + 1], im = dots ? v[j] : u[2 * j + 1] + v[2 * j];
            T *o = out + 2 * (m * sm + j * sn);
            o[0] = mode ? o[0] + re : re;
            o[1] = mode ? o[1] + im : im;
        }
    }
}
