/* Squares of vectors of the type T. */
#define V N(vec)
#define L N(VEC_LANES_OF)
typedef T N(lanes_at) __attribute__((vector_size(FG_VEC), aligned(sizeof(T)), may_alias));

/* Transpose L vectors: log2(L) times, interleave the first half with the second. */
FG_INLINE void N(lanes_transpose)(V *x) {
    V y[L];
    FG_LANES_UNROLL for (int s = 1; s < L; s *= 2) {
        FG_LANES_UNROLL for (int i = 0; i < L / 2; i++) {
            y[2 * i] = __builtin_shufflevector(x[i], x[i + L / 2], VEC_ORDER(VEC_LO, L));
            y[2 * i + 1] = __builtin_shufflevector(x[i], x[i + L / 2], VEC_ORDER(VEC_HI, L));
        }
        FG_LANES_UNROLL for (int i = 0; i < L; i++) x[i] = y[i];
    }
}
#undef V
#undef L
