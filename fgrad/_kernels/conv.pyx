"""Convolutions: conv.h says how they are computed."""
from libc.stdint cimport int64_t, uint16_t

from fgrad._kernels.abi cimport *
from fgrad._kernels.blas cimport gemm
from fgrad._kernels.conv_plan cimport *
from fgrad._kernels.gemm cimport amx_is_used
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport parallel_for

cdef int64_t TOGETHER = 640 << 10        # outputs of a stride's gradient whose parts are computed together: larger ones gain nothing

cdef struct PackW:
    const FgConv *c
    const FgConvPart *p
    const char *src
    char *dst
    int failed


cdef void _pack_w_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef PackW *k = <PackW *>ctx
    conv_pack_w(k.p, begin, end, k.src, k.dst, fg_itemsize(k.p.c.dtype))


cdef void _pair_w_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef PackW *k = <PackW *>ctx
    conv_pair_w(k.c, begin, end, <const uint16_t *>k.src, k.dst)


cdef void _pack_panels_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef PackW *k = <PackW *>ctx
    conv_pack_panels(k.p, begin, end, k.src, k.dst)


cdef void _winograd_w_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef PackW *k = <PackW *>ctx
    cdef char *taps = pool_alloc(k.p.R[0] * k.p.R[1] * k.p.R[2] * CONV_PART * GEMM_NV * GEMM_BYTES)
    if taps == NULL:
        k.failed = 1
        return
    conv_winograd_w(k.p, begin, end, k.src, k.dst, taps)
    pool_free(taps)


cdef void _mix_w_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef PackW *k = <PackW *>ctx
    conv_mix_w(k.p, begin, end, k.src, k.dst)


cdef void _dense_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef FgConvPart *p = <FgConvPart *>ctx
    cdef int64_t item = fg_itemsize(p.c.dtype), x = conv_x_bytes(p, item), w = conv_w_bytes(p, item)
    cdef char *space = pool_alloc(x + w + conv_dense_taps(p) * <int64_t>sizeof(FgTap))
    if space == NULL:
        p.failed = 1
        return
    conv_dense(p, begin, end, space, space + x, <FgTap *>(space + x + w))
    pool_free(space)


cdef void _tiles_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef FgConvPart *p = <FgConvPart *>ctx
    cdef char *space = pool_alloc(conv_tiles_bytes(p, 6))
    if space == NULL:
        p.failed = 1
        return
    conv_tiles(p, begin, end, space)
    pool_free(space)


cdef void _tiles_w_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef FgConvPart *p = <FgConvPart *>ctx
    if conv_tiles_w(p, begin, end, <const float *>p.w, p.tiles):
        p.far = 1


cdef void _tile_sums_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef FgConvPart *p = <FgConvPart *>ctx
    cdef char *space = pool_alloc(conv_tile_sums_bytes(p, 5))
    if space == NULL:
        p.failed = 1
    elif not p.far and not conv_tile_sums(p, begin, end, space):
        p.far = 1
    pool_free(space)


cdef void _place_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    conv_place(<FgConvPart *>ctx, begin, end)


cdef void _panels_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef FgConvPart *p = <FgConvPart *>ctx
    cdef int64_t item = fg_itemsize(p.c.dtype)
    cdef int64_t panel = (p.mt * p.kt * item + 63) // 64 * 64, tile = (p.mt * p.c.O * item + 63) // 64 * 64 if p.scratch_out else 0
    cdef char *space = pool_alloc(panel + tile + (p.mt + p.kt) * <int64_t>sizeof(FgSpan))
    if space == NULL:
        p.failed = 1
        return
    conv_panels(p, begin, end, space, space + panel, <FgSpan *>(space + panel + tile), item)
    pool_free(space)


cdef void _reduce_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef FgConvPart *p = <FgConvPart *>ctx
    conv_reduce(p, begin, end, fg_itemsize(p.c.dtype))


cdef void _clear_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef FgConvPart *p = <FgConvPart *>ctx
    conv_clear(p, begin, end, 2 if p.c.narrow else fg_itemsize(p.c.dtype))


cdef void _rows_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef FgConvPart *p = <FgConvPart *>ctx
    cdef char *row = pool_alloc(p.Q[2] * fg_itemsize(p.c.dtype))
    if row == NULL:
        p.failed = 1
        return
    conv_rows(p, begin, end, row)
    pool_free(row)


cdef void _groups_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef FgConvPart *p = <FgConvPart *>ctx
    cdef char *space = pool_alloc(conv_group_bytes(p, fg_itemsize(p.c.dtype)))
    if space == NULL:
        p.failed = 1
        return
    if p.algo == CONV_NEAR:
        conv_near(p, begin, end, space)
    else:
        conv_groups(p, begin, end, space)
    pool_free(space)


cdef void _group_reduce_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    conv_group_reduce(<FgConvPart *>ctx, begin, end)


cdef struct Planes:
    FgConvPart *parts
    int64_t n, deep


cdef void _planes_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef Planes *k = <Planes *>ctx
    conv_planes(k.parts, k.n, k.deep, begin, end)


cdef void _plane_sums_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    conv_plane_sums(<FgConvPart *>ctx, begin, end)


cdef struct Parts:
    FgConvPart *parts
    int64_t n, units


cdef void _run_panels(FgConvPart *p) noexcept nogil:
    cdef const FgConv *c = p.c
    cdef int64_t item = fg_itemsize(c.dtype), cost = p.mt * p.K // p.nk * (2 * c.O + 30) // 60 + 500       # nanoseconds, roughly
    cdef char *packed = NULL
    cdef PackW k
    if p.pack_w:
        packed = pool_alloc(c.G * p.K * c.O * item)
        if packed == NULL:
            p.failed = 1
            return
        k.p, k.src, k.dst = p, p.w, packed
        parallel_for(c.G * p.K, 1 + 20000 // c.O, _pack_w_body, &k)
        p.w = packed
    if p.nk > 1:
        p.part = pool_alloc(p.nk * c.G * p.M * c.O * item)
        p.failed |= p.part == NULL
    if not p.failed:
        parallel_for(c.G * p.mtiles * p.nk, 1 + 30000 // cost, _panels_body, p)
        if p.nk > 1 and not p.failed:
            parallel_for(c.G * p.M, 1 + 50000 // (p.nk * c.O), _reduce_body, p)
    pool_free(p.part)
    pool_free(packed)


cdef bint _together(const FgConvPart *p) noexcept nogil:
    return p.algo == CONV_LANES or p.algo == CONV_LANE_SUMS


cdef int64_t _panels(const FgConvPart *p) noexcept nogil:
    """Into how many pieces the kernel of register tiles falls."""
    cdef int64_t lanes = GEMM_BYTES // fg_itemsize(p.c.dtype)
    if _together(p):
        return conv_ceil(p.c.G, lanes) * p.R[0] * p.R[1] * p.R[2]
    return p.c.G * (gemm_panels(p.c.O) if p.algo == CONV_SPANS else conv_ceil(p.c.O, GEMM_NV * lanes))


cdef char *_pack_kernel(FgConvPart *p) noexcept nogil:
    """The kernel as register tiles read it, or NULL without memory for it."""
    cdef const FgConv *c = p.c
    cdef int64_t item = fg_itemsize(c.dtype), pieces = _panels(p), taps = p.R[0] * p.R[1] * p.R[2], blocks = conv_ceil(c.C, CONV_PART)
    cdef int64_t groups = conv_ceil(c.G, GEMM_BYTES // item) if _together(p) else c.G, each = c.G * taps * c.C * c.O + 1
    cdef PackW k
    k.p, k.src, k.failed = p, p.w, 0
    k.dst = pool_alloc(groups * (p.ww if p.algo == CONV_WINOGRAD else p.wg) * item + 64)
    if k.dst == NULL:
        return NULL
    if p.algo != CONV_WINOGRAD:
        parallel_for(pieces, 1 + 30000 * pieces // each, _pack_panels_body, &k)
        return k.dst
    parallel_for(pieces * blocks, 1 + 15000 * pieces * blocks // each, _winograd_w_body, &k)
    if k.failed:
        pool_free(k.dst)
        return NULL
    return k.dst


cdef void _pack_tiles(FgConvPart *p) noexcept nogil:
    """The kernel's panels as tiles."""
    cdef int64_t units = p.c.G * conv_ceil(p.c.O, 32), steps = conv_tiles_steps(p), parts = 1 if p.c.pairs else 3
    p.tiles = pool_alloc(p.c.G * conv_ceil(p.c.O, 16) * steps * parts * 1024)
    if p.tiles == NULL:
        p.failed = 1
    else:
        parallel_for(units, 1 + 30000 // (steps * parts * 50), _tiles_w_body, p)


cdef void _run_tiles_whole(FgConvPart *p) noexcept nogil:
    """All blocks, then panels of output features of all of them: a large kernel is read once."""
    cdef const FgConv *c = p.c
    cdef int64_t blocks = c.G * conv_tiles_blocks(p), panels = c.G * conv_ceil(c.O, 32)
    p.part = pool_alloc(blocks * (conv_tiles_size(p) + 1))
    p.failed = p.part == NULL
    if not p.failed:
        p.phase = 1
        parallel_for(blocks, 1, _tiles_body, p)
    if not p.failed:
        p.phase = 2
        parallel_for(panels, 1, _tiles_body, p)
    pool_free(p.part)


cdef void _run_whole(FgConvPart *p) noexcept nogil:
    """Winograd's phases over all tiles of some images, then of the next: inputs' matrices, products, outputs."""
    cdef const FgConv *c = p.c
    cdef int64_t nr = GEMM_NV * GEMM_BYTES // 4, panels = conv_ceil(c.O, nr), matrices = 16 if p.R[1] > 1 else 4
    cdef int64_t image = p.block[0] * p.block[1], tiles = image * p.images, inputs = p.segments * c.C
    p.part = pool_alloc(4 * c.G * matrices * (inputs * tiles + nr + panels * (tiles + 1) * nr))
    p.failed = p.part == NULL
    while p.b0 < c.B and not p.failed:
        p.phase = 1
        parallel_for(c.G * p.images, 1 + 30000 // (matrices * image * inputs // 8 + 50), _dense_body, p)
        p.phase = 2
        if not p.failed:
            parallel_for(c.G * matrices * panels, 1 + 30000 // (tiles * inputs * GEMM_NV // 3 + 50), _dense_body, p)
        p.phase = 3
        if not p.failed:
            parallel_for(c.G * p.images * panels, 1 + 30000 // (matrices * image * nr // 8 + 50), _dense_body, p)
        p.b0 += p.images
        p.images = min(p.images, c.B - p.b0)
    pool_free(p.part)


cdef void _run_dense(FgConvPart *p) noexcept nogil:
    """Blocks of rows in register tiles, whose kernel is packed, or sums."""
    cdef const FgConv *c = p.c
    cdef bint together = _together(p), sums = p.algo in (CONV_SUMS, CONV_LANE_SUMS)
    cdef int64_t item = fg_itemsize(c.dtype), lanes = GEMM_BYTES // item, taps = p.R[0] * p.R[1] * p.R[2], units, cost
    cdef int64_t groups = conv_ceil(c.G, lanes) if together else c.G, features = c.O * lanes if together else c.O
    cdef int64_t positions = p.Q[0] * p.Q[1] * p.Q[2]
    cdef double work = <double>groups * positions * c.B * taps * c.C * conv_ceil(features, 16)
    if sums:
        p.part = pool_alloc(p.nk * groups * positions * c.B * features * item + 64)
        if p.part == NULL:
            p.failed = 1
            return
        units = p.nk * groups if together else p.nk * _panels(p) * p.Q[0] * p.Q[1] * (1 if p.s[2] == 1 else p.Q[2])
    else:
        units = groups * p.Q[0] * p.blocks[0] * p.blocks[1] * (conv_ceil(c.B, p.images) if p.algo == CONV_WINOGRAD else c.B)
    if p.algo == CONV_TILES:
        parallel_for(units, 1 + <int64_t>(30000 * units / p.tile), _tiles_body, p)
    else:
        cost = <int64_t>(work / units / 3 * (5 if together and sums else 1))            # nanoseconds of a unit, roughly: lanes are gathered
        parallel_for(units, 1 + 30000 // (cost + 100), _dense_body, p)
    if sums and not p.failed:
        units = groups * (conv_ceil(c.O, lanes) if p.turned else c.B if p.beside else positions * (c.B if together else conv_ceil(c.B, CONV_PLACE)))
        parallel_for(units, 1 + units * 30000 // (positions * p.nk * c.B * c.O * c.G + 1), _place_body, p)
    pool_free(p.part)


cdef void _run_tile_sums(FgConvPart *p) noexcept nogil:
    """Sums on the tile unit, by the other way if there is what it cannot take."""
    cdef const FgConv *c = p.c
    cdef int64_t positions = p.Q[0] * p.Q[1] * p.Q[2], units
    p.part = pool_alloc(4 * p.nk * c.G * positions * c.B * c.O + 64)
    if p.part == NULL:
        p.failed = 1
        return
    parallel_for(p.nk * c.G * p.slices, 1, _tile_sums_body, p)
    if not p.failed and not p.far:
        units = c.G * (conv_ceil(c.O, GEMM_BYTES // 4) if p.turned else c.B if p.beside else positions * conv_ceil(c.B, CONV_PLACE))
        parallel_for(units, 1 + units * 30000 // (positions * p.nk * c.B * c.O * c.G + 1), _place_body, p)
    pool_free(p.part)


cdef void _run_along(FgConvPart *p) noexcept nogil:
    """Sums of products of rows, in chunks, and the sum of those."""
    cdef const FgConv *c = p.c
    cdef int64_t size = c.G * p.M * c.O
    if p.nk > 1:
        p.part = pool_alloc((p.nk - 1) * size * fg_itemsize(c.dtype))
        p.failed = p.part == NULL
    if not p.failed:
        parallel_for(p.nk * c.G * p.slices * conv_ceil(conv_ceil(c.O, 4), p.mt), 1, _dense_body, p)
        if p.nk > 1 and not p.failed:
            parallel_for(size, 1 + 30000 // p.nk, _place_body, p)
    pool_free(p.part)


cdef void _columns_fill_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    conv_columns(<FgConvPart *>ctx, 1, begin, end, NULL, NULL, NULL)


cdef void _columns_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef Parts *k = <Parts *>ctx
    cdef FgConvPart *p = k.parts
    cdef const FgConv *c = p.c
    cdef int64_t item = fg_itemsize(c.dtype), w = conv_w_bytes(p, item), sums = 64, i
    cdef char *space
    for i in range(k.n):
        sums += c.B * p[i].Q[0] * p[i].Q[1] * p[i].Q[2] * GEMM_NV * GEMM_BYTES
    space = pool_alloc(w + sums + c.R[0] * c.R[1] * c.R[2] * <int64_t>sizeof(FgTap))
    if space == NULL:
        p.failed = 1
        return
    conv_columns(p, k.n, begin, end, space, space + w, <FgTap *>(space + w + sums))
    pool_free(space)


cdef bint _run_columns(FgConvPart *parts, int64_t n) noexcept nogil:
    """Inputs of all positions, then panels of output features. False without memory."""
    cdef const FgConv *c = parts.c
    cdef FgConvPart *p
    cdef int64_t item = fg_itemsize(c.dtype), rows, i
    cdef Parts k
    k.parts, k.n = parts, n
    for i in range(n):
        p = parts + i
        if not p.in_place and not parts.failed:
            rows = conv_columns_rows(p)
            p.part = pool_alloc(p.x_size * item + 128)
            if p.part == NULL:
                parts.failed = 1
            else:
                parallel_for(rows, 1 + 30000 // (p.x_size // rows // 4 + 20), _columns_fill_body, p)
    if not parts.failed:
        parallel_for(c.G * conv_ceil(c.O, GEMM_NV * GEMM_BYTES // item), 1, _columns_body, &k)
    for i in range(n):
        pool_free(parts[i].part)
    return not parts.failed


cdef void _run_direct(FgConvPart *p) noexcept nogil:
    cdef const FgConv *c = p.c
    cdef int64_t rows = p.Q[0] * p.Q[1], units, outputs = c.B * c.O * rows * p.Q[2], cost = c.C * p.R[0] * p.R[1] * p.R[2]
    if p.algo == CONV_GROUPS:
        parallel_for(_group_units(p), 1 + 30000 // (p.block[1] * (cost * c.G // p.slices // 16 + 20)), _groups_body, p)
    elif p.algo == CONV_NEAR:
        units = _group_units(p)
        parallel_for(units, 1 + 30000 * units // (outputs * (cost * c.G // 16 + 20)), _groups_body, p)
    elif p.algo == CONV_GROUP_SUMS:
        p.part = pool_alloc(p.nk * outputs * c.G * fg_itemsize(c.dtype))
        if p.part == NULL:
            p.failed = 1
            return
        parallel_for(p.nk, 1 + 30000 * p.nk // (outputs * (cost * c.G // 16 + 20)), _groups_body, p)
        parallel_for(outputs, 1 + 30000 // c.G, _group_reduce_body, p)
        pool_free(p.part)
    else:
        parallel_for(c.G * c.B * c.O * rows, 1 + 30000 // (cost * p.Q[2] // 8 + 50), _rows_body, p)


cdef void _run_mixed(FgConvPart *p) noexcept nogil:
    """Rows of groups that lanes of a vector share, the kernel packed for them."""
    cdef const FgConv *c = p.c
    cdef int64_t lanes = GEMM_BYTES // fg_itemsize(c.dtype), vectors = c.G * c.O // lanes, taps = p.R[0] * p.R[1] * p.R[2]
    cdef PackW k
    k.p, k.src = p, p.w
    k.dst = pool_alloc(vectors * p.wg * fg_itemsize(c.dtype))
    if k.dst == NULL:
        p.failed = 1
        return
    parallel_for(vectors * taps, 1 + 10000 // (c.C * lanes), _mix_w_body, &k)
    p.w = k.dst
    parallel_for(c.B * p.Q[0] * p.Q[1] * p.blocks[1], 1 + 30000 // (p.block[1] * vectors * taps * c.C // 2 + 100), _groups_body, p)
    pool_free(k.dst)


cdef void _plan(const FgConv *c, int64_t index, const char *x, const char *w, char *out, FgConvPart *p, bint amx) noexcept nogil:
    conv_part(c, index, p)
    p.x = x + p.x0 * (2 if c.pairs or c.half else fg_itemsize(c.dtype))
    p.w = w
    p.out = out
    p.gemm = gemm
    p.amx = amx
    conv_plan(p, fg_itemsize(c.dtype))


cdef void _run_planes(FgConvPart *parts, int64_t n) noexcept nogil:
    """Planes of outputs, all parts of one before the next."""
    cdef const FgConv *c = parts.c
    cdef Planes k
    cdef FgConvPart *p
    cdef int64_t i, cost = 20
    k.parts, k.n, k.deep = parts, n, 1
    for i in range(n):
        p = parts + i
        k.deep = max(k.deep, p.Q[0])
        cost += p.Q[1] * (p.Q[2] // 16 + 1) * p.R[0] * p.R[1] * p.R[2] // 3
    parallel_for(c.G * c.B * c.O * k.deep, 1 + 30000 // cost, _planes_body, &k)


cdef int64_t _group_units(const FgConvPart *p) noexcept nogil:
    cdef int64_t each = p.c.B * p.c.O * p.Q[0] * p.blocks[1]
    return each * p.blocks[0] if p.algo == CONV_NEAR else each * p.Q[1] * p.slices


cdef void _parts_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef Parts *k = <Parts *>ctx
    cdef int64_t u, i, units
    for u in range(begin, end):
        for i in range(k.n):
            units = _group_units(k.parts + i)
            _groups_body(k.parts + i, units * u // k.units, units * (u + 1) // k.units, tid)


cdef bint _run_group_parts(FgConvPart *parts, int64_t n) noexcept nogil:
    """Rows of groups, features last: all parts of some rows before the next, so that threads meet once. False without memory."""
    cdef const FgConv *c = parts.c
    cdef Parts k
    cdef int64_t rows = max(<int64_t>1, 65536 // (parts.Q[2] * c.G)), i, cost = 0
    k.parts, k.n, k.units = parts, n, c.B * c.O * parts.Q[0] * conv_ceil(parts.Q[1], rows)
    for i in range(n):
        cost += parts[i].Q[2] * (c.C * parts[i].R[0] * parts[i].R[1] * parts[i].R[2] * c.G // 16 + 20)
    parallel_for(k.units, 1 + 30000 // (rows * cost), _parts_body, &k)
    for i in range(n):
        if parts[i].failed:
            return False
    return True


cdef int _all_alike(const FgConv *c, const char *x, const char *w, char *out) noexcept nogil:
    """Parts that are planes, some of them perhaps of zeros, rows of groups, or columns of one kernel: 1 if that is what they are, and done;
    -1 without memory."""
    cdef int64_t i, parts = c.phases[0] * c.phases[1] * c.phases[2], planes = 0, zeros = 0, groups = 0, columns = 0, outputs = 0
    cdef int done = 0
    cdef FgConvPart *p
    if parts == 1 or parts > 64 or c.single:
        return 0
    p = <FgConvPart *>pool_alloc(parts * <int64_t>sizeof(FgConvPart))
    if p == NULL:
        return -1
    for i in range(parts):
        _plan(c, i, x, w, out, p + i, amx_is_used())
        if c.G > 1 and c.C == 1:
            planes += p[i].algo == CONV_PLANES
            zeros += p[i].algo == CONV_CLEAR
            groups += p[i].algo == CONV_NEAR or (p[i].algo == CONV_GROUPS and p[i].x_size == 0)
        columns += p[i].algo == CONV_COLUMNS or p[i].algo == CONV_DENSE
        outputs += p[i].Q[0] * p[i].Q[1] * p[i].Q[2] * c.B * c.O * c.G
        if planes + zeros <= i and groups <= i and columns <= i:
            break
    if columns == parts and conv_plan_joined(p, parts, fg_itemsize(c.dtype)):
        done = 1 if _run_columns(p, parts) else -1
    elif planes > 0 and planes + zeros == parts:
        _run_planes(p, parts)
        done = 1
    elif groups == parts and outputs <= TOGETHER:
        done = 1 if _run_group_parts(p, parts) else -1
    pool_free(<char *>p)
    return done


cdef char *_pair_kernel(const FgConv *c, const char *w) noexcept nogil:
    """A copy of a kernel of bfloat16 as pairs, or NULL without memory for it."""
    cdef const FgPairAxis *t = c.waxes
    cdef int64_t units = t[0].n * t[1].n * t[2].n, each = t[3].n * t[4].n
    cdef PackW k
    k.c, k.src, k.dst = c, w, pool_alloc(4 * units * each + 64)
    if k.dst != NULL:
        parallel_for(units, 1 + 30000 // (each + 10), _pair_w_body, &k)
    return k.dst


cdef int run_conv(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef const FgConv *c = <const FgConv *>inst.extra
    cdef char *paired = NULL
    cdef int failed
    if FG_OUT(inst, slots, 0).size == 0:
        return FG_OK
    if c.pairs:
        paired = _pair_kernel(c, FG_IN(inst, slots, 1).data)
        if paired == NULL:
            return FG_EMEM
    failed = _run_parts(c, FG_IN(inst, slots, 0).data, paired if c.pairs else FG_IN(inst, slots, 1).data, FG_OUT(inst, slots, 0).data)
    pool_free(paired)
    return FG_EMEM if failed else FG_OK


cdef bint _run_parts(const FgConv *c, const char *x, const char *w, char *out) noexcept nogil:
    """Part by part; those that read the same kernel pack it once. True without memory for it."""
    cdef FgConvPart p, before
    cdef char *packed = NULL
    cdef char *tiles = NULL
    cdef int64_t i
    cdef int alike = _all_alike(c, x, w, out)
    if alike:
        return alike < 0
    for i in range(c.phases[0] * c.phases[1] * c.phases[2]):
        _plan(c, i, x, w, out, &p, amx_is_used())
        if p.algo == CONV_TILE_SUMS:
            _run_tile_sums(&p)
            if p.far:
                _plan(c, i, x, w, out, &p, False)
        if p.algo == CONV_TILE_SUMS:
            pass
        elif p.algo == CONV_PANELS:
            _run_panels(&p)
        elif p.algo in (CONV_DENSE, CONV_FEW, CONV_SPANS, CONV_WINOGRAD, CONV_LANES, CONV_TILES):
            if packed == NULL or not conv_same_kernel(&p, &before):
                pool_free(packed)
                pool_free(tiles)
                p.w = packed = _pack_kernel(&p)
                p.failed = packed == NULL
                if not p.failed and p.algo == CONV_TILES:
                    _pack_tiles(&p)
                tiles = p.tiles
            else:
                p.w, p.tiles, p.far = packed, tiles, before.far
            before = p
            if not p.failed and p.whole and p.algo == CONV_TILES:
                _run_tiles_whole(&p)
            elif not p.failed and p.whole:
                _run_whole(&p)
            elif not p.failed:
                _run_dense(&p)
        elif p.algo == CONV_COLUMNS:
            _run_columns(&p, 1)
        elif p.algo == CONV_ALONG:
            _run_along(&p)
        elif p.algo in (CONV_SUMS, CONV_LANE_SUMS):
            _run_dense(&p)
        elif p.algo == CONV_MIXED:
            _run_mixed(&p)
        elif p.algo == CONV_PLANES:
            _run_planes(&p, 1)
        elif p.algo == CONV_PLANE_SUMS:
            parallel_for(c.G * c.O, 1 + 30000 // (c.C * p.R[0] * p.R[1] * (p.R[2] // 16 + 1) * p.Q[0] * p.Q[1] * p.Q[2] // 5 + 20), _plane_sums_body, &p)
        elif p.algo == CONV_CLEAR:
            parallel_for(c.G * p.M, 1 + 50000 // c.O, _clear_body, &p)
        else:
            _run_direct(&p)
        if p.failed:
            break
    pool_free(tiles)
    pool_free(packed)
    return p.failed


KERNELS = {"conv": (<size_t><void *>run_conv, <size_t><void *>check_conv)}
