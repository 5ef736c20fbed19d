/* Products of many tiny matrices of integers, an entry in each lane as in gemm_batch.h: T lies in memory, W is what is computed with (bytes
 * in words of 16 bits, which processors multiply), SIZE is T's bytes.  Included by matmul.h for each T. */
static void N(batch)(const FgDot *p, int64_t begin, int64_t end, const T *a, const T *b, T *c) {
    enum { L = GEMM_BYTES / sizeof(W) };
    typedef W vec __attribute__((vector_size(GEMM_BYTES)));
    typedef T mem __attribute__((vector_size(GEMM_BYTES / sizeof(W) * sizeof(T)), aligned(sizeof(T)), may_alias));
    vec v[FG_TINY_INT];
    T s[FG_TINY_INT * L];
    const int64_t na = p->M * p->K, nb = p->K * p->N, nc = p->M * p->N, cm = p->c[2] == 1 ? p->N : 1, cn = p->c[2] == 1 ? 1 : p->M;
    int64_t am, ak, bk, bn;
    T *z = s + (na + nb) * L;
    for (int64_t l = begin * L; l < p->B && l < end * L; l += L) {
        const int64_t count = p->B - l < L ? p->B - l : L;
        FG_JOIN(fg_batch_in_, SIZE)(s, L, a + l * p->a[0], count, p->M, p->K, p->a, &am, &ak);
        FG_JOIN(fg_batch_in_, SIZE)(s + na * L, L, b + l * p->b[0], count, p->K, p->N, p->b, &bk, &bn);
        for (int64_t e = 0; e < na + nb; e++) v[e] = __builtin_convertvector(*(const mem *)(s + e * L), vec);
        for (int64_t m = 0; m < p->M; m++) for (int64_t n = 0, w; n < p->N; n += w) {
            const vec *x = v + m * am, *y = v + na + n * bn;
            T *to = z + (m * cm + n * cn) * L;
            vec s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
            w = p->N - n < 4 ? 1 : 4;
            if (w == 1) for (int64_t k = 0; k < p->K; k++) s0 += x[k * ak] * y[k * bk];
            else for (int64_t k = 0; k < p->K; k++, x += ak, y += bk) { s0 += *x * y[0]; s1 += *x * y[bn]; s2 += *x * y[2 * bn]; s3 += *x * y[3 * bn]; }
            *(mem *)to = __builtin_convertvector(s0, mem);
            if (w == 1) continue;
            *(mem *)(to + cn * L) = __builtin_convertvector(s1, mem);
            *(mem *)(to + 2 * cn * L) = __builtin_convertvector(s2, mem);
            *(mem *)(to + 3 * cn * L) = __builtin_convertvector(s3, mem);
        }
        FG_JOIN(fg_rows_, SIZE)((char *)(c + l * nc), z, L, count, nc);
    }
}
