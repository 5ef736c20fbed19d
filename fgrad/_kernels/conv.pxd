"""What conv_body.h declares."""
from libc.stdint cimport int64_t, uint16_t

from fgrad._kernels.conv_plan cimport FgConv, FgConvPart, FgSpan, FgTap

cdef extern from "conv_body.h" nogil:
    int64_t gemm_panels(int64_t m)
    void conv_pair_w(const FgConv *c, int64_t begin, int64_t end, const uint16_t *w, char *dst)
    void conv_pack_w(const FgConvPart *p, int64_t begin, int64_t end, const char *w, char *dst, int64_t item)
    void conv_panels(const FgConvPart *p, int64_t begin, int64_t end, char *panel, char *tile, FgSpan *spans, int64_t item)
    void conv_reduce(const FgConvPart *p, int64_t begin, int64_t end, int64_t item)
    void conv_clear(const FgConvPart *p, int64_t begin, int64_t end, int64_t item)
    void conv_rows(const FgConvPart *p, int64_t begin, int64_t end, char *row)
    void conv_groups(const FgConvPart *p, int64_t begin, int64_t end, char *space)
    void conv_near(const FgConvPart *p, int64_t begin, int64_t end, char *space)
    void conv_mix_w(const FgConvPart *p, int64_t begin, int64_t end, const char *w, char *dst)
    void conv_pack_panels(const FgConvPart *p, int64_t begin, int64_t end, const char *w, char *dst)
    void conv_planes(const FgConvPart *parts, int64_t n, int64_t deep, int64_t begin, int64_t end)
    void conv_winograd_w(const FgConvPart *p, int64_t begin, int64_t end, const char *w, char *dst, char *part)
    int64_t conv_x_bytes(const FgConvPart *p, int64_t item)
    int64_t conv_w_bytes(const FgConvPart *p, int64_t item)
    int64_t conv_dense_taps(const FgConvPart *p)
    void conv_dense(const FgConvPart *p, int64_t begin, int64_t end, char *x, char *w, FgTap *taps)
    void conv_columns(const FgConvPart *p, int64_t n, int64_t begin, int64_t end, char *w, char *sums, FgTap *taps)
    bint conv_tiles_w(const FgConvPart *p, int64_t begin, int64_t end, const float *w, char *dst)
    int64_t conv_tiles_steps(const FgConvPart *p)
    int64_t conv_tiles_bytes(const FgConvPart *p, int which)
    void conv_tiles(const FgConvPart *p, int64_t begin, int64_t end, char *space)
    int64_t conv_tile_sums_bytes(const FgConvPart *p, int which)
    bint conv_tile_sums(const FgConvPart *p, int64_t begin, int64_t end, char *space)
    void conv_place(const FgConvPart *p, int64_t begin, int64_t end)
    int64_t conv_group_bytes(const FgConvPart *p, int64_t item)
    void conv_group_reduce(const FgConvPart *p, int64_t begin, int64_t end)
