"""What a convolution is and how its parts go: made by conv_plan's check, run by conv.pyx."""
from libc.stdint cimport int64_t, int32_t

from fgrad._kernels.abi cimport FgInst, FgTensor

cdef extern from "conv_plan.h" nogil:
    enum: CONV_PANELS, CONV_DENSE, CONV_FEW, CONV_SPANS, CONV_COLUMNS, CONV_SUMS, CONV_ALONG, CONV_WINOGRAD, CONV_LANES, CONV_LANE_SUMS, CONV_GROUPS
    enum: CONV_GROUP_SUMS
    enum: CONV_MIXED, CONV_NEAR, CONV_CLEAR, CONV_PLANES, CONV_PLANE_SUMS, CONV_TILES, CONV_TILE_SUMS, CONV_PLACE, CONV_PART, GEMM_BYTES, GEMM_NV, GEMM_PAIRS
    ctypedef void (*FgGemm)(int dtype, int ta, int tb, int64_t m, int64_t n, int64_t k, const char *a, int64_t lda, const char *b,
                            int64_t ldb, int add, char *c, int64_t ldc) noexcept nogil
    ctypedef struct FgDigit:
        int64_t n
    ctypedef struct FgSpan:
        int64_t off
    ctypedef struct FgTap:
        int64_t x, w
    ctypedef struct FgPairAxis:
        int64_t n
    ctypedef struct FgConv:
        int32_t dtype, ndim
        int64_t G, B, C, O
        int64_t xg, xb, xc
        int64_t xs[3]
        int64_t wg, wc, wo
        int64_t ws[3]
        int64_t og, ob, oo
        int64_t os[3]
        int64_t Q[3]
        int64_t R[3]
        int64_t L[3]
        int64_t stride[3]
        int64_t lo[3]
        int64_t ldil[3]
        int64_t rdil[3]
        int64_t phases[3]
        int64_t pairs, pair, wpair
        int32_t narrow, half
        FgPairAxis waxes[5]
        int undilate, single, reversed
        int64_t o0
    ctypedef struct FgConvPart:
        const FgConv *c
        int64_t Q[3]
        int64_t R[3]
        int algo, pack_w, scratch_out, failed, turned, beside
        int64_t s[3]
        int64_t x0
        int64_t M, K, mt, kt, mtiles, nk
        int64_t block[2]
        int64_t blocks[2]
        int64_t slices
        int64_t wg, ww, segments, images, b0
        int whole, phase, cut, in_place, amx, far
        char *tiles
        double tile
        int64_t x_size
        FgDigit m[4]
        const char *x
        const char *w
        char *out
        char *part
        FgGemm gemm
    int64_t conv_gcd(int64_t a, int64_t b)
    int64_t conv_ceil(int64_t a, int64_t b)
    void conv_part(const FgConv *c, int64_t index, FgConvPart *p)
    void conv_plan(FgConvPart *p, int64_t item)
    void conv_undilate(FgConv *c)
    void conv_singles(FgConv *c, int64_t item)
    int64_t conv_columns_rows(const FgConvPart *p)
    int conv_plan_joined(FgConvPart *parts, int64_t n, int64_t item)
    bint conv_same_kernel(const FgConvPart *a, const FgConvPart *b)
    bint conv_plans_half(const FgConvPart *p)
    void conv_pair_axes(FgConv *c, const int64_t *n, const int64_t *step, int64_t *to)

cdef int check_conv(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil
