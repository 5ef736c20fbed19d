/* Outputs of so few features that lanes of features would be empty: lanes of taps instead, whose totals are the outputs.
 * Included by conv_dense.h; CONV_PRODUCT(sum, x, y) adds products of vectors. */

/* J outputs, `step` apart in x, by O features: c[j ldc + o] = total of x[t.x + j step + k] w[t.w + o wo + k] over n runs of kc elements. */
GEMM_INLINE void N(conv_few_body)(const int J, const int O, const FgTap *taps, int64_t n, int64_t kc, const T *x, int64_t step, const T *w,
                                  int64_t wo, T *c, int64_t ldc) {
    G(vec) sum[4 * G(lanes)], y[4];
    if (J * O > G(lanes)) return;
    GEMM_UNROLL for (int i = 0; i < J * O; i++) sum[i] = (G(vec)){0};
    for (int64_t t = 0; t < n; t++) {
        const T *xt = x + taps[t].x, *wt = w + taps[t].w;
        int64_t k = 0;
        for (; k + G(lanes) <= kc; k += G(lanes)) {
            GEMM_UNROLL for (int o = 0; o < O; o++) y[o] = *(const G(mem) *)(wt + o * wo + k);
            GEMM_UNROLL for (int j = 0; j < J; j++) {
                G(vec) v = *(const G(mem) *)(xt + j * step + k);
                GEMM_UNROLL for (int o = 0; o < O; o++) sum[j * O + o] = CONV_PRODUCT(sum[j * O + o], v, y[o]);
            }
        }
        if (k == kc) continue;
        GEMM_UNROLL for (int o = 0; o < O; o++) y[o] = G(load)(wt + o * wo + k, kc - k);
        GEMM_UNROLL for (int j = 0; j < J; j++) {
            G(vec) v = G(load)(xt + j * step + k, kc - k);
            GEMM_UNROLL for (int o = 0; o < O; o++) sum[j * O + o] = CONV_PRODUCT(sum[j * O + o], v, y[o]);
        }
    }
    G(vec) total = G(totals)(J * O, sum);
    GEMM_UNROLL for (int i = 0; i < J * O; i++) c[i / O * ldc + i % O] = total[i];
}

typedef void (*N(conv_few_kernel))(const FgTap *taps, int64_t n, int64_t kc, const T *x, int64_t step, const T *w, int64_t wo, T *c,
                                   int64_t ldc);
#define CONV_FEW_OF(J, O) \
static void N(conv_few##O##x##J)(const FgTap *taps, int64_t n, int64_t kc, const T *x, int64_t step, const T *w, int64_t wo, T *c, \
                                 int64_t ldc) { \
    N(conv_few_body)(J, O, taps, n, kc, x, step, w, wo, c, ldc); \
}
#define CONV_FEW4(M, O) M(1, O) M(2, O) M(3, O) M(4, O)
#define CONV_FEW8(M, O) CONV_FEW4(M, O) M(5, O) M(6, O) M(7, O) M(8, O)
#define CONV_FEW16(M, O) CONV_FEW8(M, O) M(9, O) M(10, O) M(11, O) M(12, O) M(13, O) M(14, O) M(15, O) M(16, O)
CONV_FEW16(CONV_FEW_OF, 1) CONV_FEW8(CONV_FEW_OF, 2) CONV_FEW4(CONV_FEW_OF, 3) CONV_FEW4(CONV_FEW_OF, 4)
#undef CONV_FEW_OF
#define CONV_FEW_OF(J, O) N(conv_few##O##x##J),
/* [features - 1][outputs - 1] */
static const N(conv_few_kernel) N(conv_few_table)[4][16] = {{CONV_FEW16(CONV_FEW_OF, 1)}, {CONV_FEW8(CONV_FEW_OF, 2)},
                                                            {CONV_FEW4(CONV_FEW_OF, 3)}, {CONV_FEW4(CONV_FEW_OF, 4)}};
#undef CONV_FEW_OF
#undef CONV_FEW4
#undef CONV_FEW8
#undef CONV_FEW16

/* c (m, O): a row of outputs, in tiles of equal width. */
static void N(conv_few_row)(int64_t m, int64_t O, const FgTap *taps, int64_t n, int64_t kc, const T *x, int64_t step, const T *w, int64_t wo,
                            T *c, int64_t ldc) {
    int64_t most = O == 3 ? G(lanes) / 4 : G(lanes) / O, tiles = conv_ceil(m, most);
    for (int64_t t = 0, i = 0, next; t < tiles; t++, i = next) {
        next = m * (t + 1) / tiles;
        N(conv_few_table)[O - 1][next - i - 1](taps, n, kc, x + i * step, step, w, wo, c + i * ldc, ldc);
    }
}

/* Units: groups.  W as (o, tap, c). */
static void N(conv_few_w)(const FgConvPart *p, int64_t begin, int64_t end, const T *w, T *dst) {
    const FgConv *c = p->c;
    const int64_t sizes[4] = {c->O, p->R[0], p->R[1], p->R[2]};
    int64_t at[4];
    for (int64_t g = begin; g < end; g++) for (int64_t i = 0; i < c->O * p->R[0] * p->R[1] * p->R[2]; i++) {
        conv_index(i, sizes, 4, at);
        const T *from = w + g * c->wg + at[0] * c->wo + at[1] * p->wr[0] + at[2] * p->wr[1] + at[3] * p->wr[2];
        T *to = dst + g * p->wg + i * c->C;
        for (int64_t k = 0; k < c->C; k++) to[k] = from[k * c->wc];
    }
}
