"""How a convolution is lowered: one product of matrices, or the kernel `conv` on operands as it takes them."""

import math
import operator

import numpy as np

from fgrad import dtypes
from fgrad._kernels.conv_plan import PAIRS, cuts, gains_last, in_halves, single
from fgrad.core import ShapedArray
from fgrad.ops.dot import dot_lower

TAPS = 9  # of a kernel over images of one feature, at most, that is a sum of shifted images
ALONE = 25  # of one over a single such image, at most, but
SHARED = range(6000, 30000)  # of results where the kernel's threads are as fast
POINTS = 64  # of a result that is
TAKEN = 16  # of a patch's positions, from which copies of patches for one product of matrices cost less than they save
LARGE = 1 << 20  # elements of a result that leaves the second cache, to which each image was added; half as many of a kernel
WINDOWS = 128  # of all images, at most, that are copied for one product with a large kernel
FEATURES = 48  # of both sides of a window as large as its images, from which copies that make it one product cost less than they save


def take(shape, axes):
    return tuple(shape[a] for a in axes)


def _work_dtype(dtype):
    """The dtype in which the kernel computes a result of `dtype`."""
    if dtype in (dtypes.FLOAT16, dtypes.BFLOAT16):
        return dtypes.FLOAT32
    if dtype.kind in "biu":
        return np.dtype(np.int64 if dtype.itemsize == 8 else np.int32)
    return dtype


def _in_pairs(x, w, dtype, params):
    """Does the kernel take these bfloat16 operands as they are, two input features (or images) in one step?"""
    if not PAIRS or x.dtype != dtypes.BFLOAT16 or dtype not in (dtypes.BFLOAT16, dtypes.FLOAT32) or w.shape[1] < 2:
        return False
    images = params["batch_group_count"]
    groups = params["feature_group_count"] * images
    return groups == 1 or min(w.shape[0] // groups, x.shape[0] // images if images > 1 else w.shape[1]) >= 16


def _in_halves(x, w, out, ip):
    """Does the kernel take these bfloat16 operands, in groups, as they lie?"""
    if not x.dtype == w.dtype == out.dtype == dtypes.BFLOAT16 or ip[1] * ip[2] == 1 or 0 in (*x.shape, *w.shape, *out.shape):
        return False
    return in_halves((x.shape, x.strides), (w.shape, w.strides), out.shape, ip)


def _features_last(ctx, x, w, params, out, ip):
    """Operands of a convolution of floats, features (in a kernel's gradient, batches) last where windows with gaps are read in place."""
    gaps = max((*params["window_strides"], *params["rhs_dilation"]), default=1) > 1
    if not gaps or ip[1] * ip[2] > 1 or 0 in (*x.shape, *w.shape, *out.shape):
        return x, w
    if x.strides[1] != 1 and cuts(x.shape, (w.shape, w.strides), out.shape, ip):
        return _moved_last(ctx, x, 1), w
    if (x.strides[0] != 1 or w.strides[0] != 1) and single((x.shape, x.strides), (w.shape, w.strides), out.shape, ip):
        return _moved_last(ctx, x, 0), _moved_last(ctx, w, 0)
    return x, w


def _moved_last(ctx, v, axis):
    """The same value with an axis (0 or 1) innermost in memory, the other of the two outermost."""
    order = (1 - axis, *range(2, len(v.shape)), axis)
    return ctx.transpose(ctx.contiguous(ctx.transpose(v, order)), _inverse(order))


def _gains_exchanged(x, w, params, out):
    """Is a sum over many positions (a kernel's gradient) better with the kernel as the image?  Few output features, which fill no vector,
    become a batch; and where the image is dilated, as that of a transposed convolution is, a dilated kernel makes one part of what were
    parts for each remainder, which would write every n-th neighbour."""
    if params["feature_group_count"] * params["batch_group_count"] > 1 or 0 in x.shape or 0 in w.shape or 0 in out:
        return False
    if any(d > 1 for d in params["rhs_dilation"]) or min(math.prod(x.shape[2:]), math.prod(w.shape[2:])) <= 5 * math.prod(out[2:]):
        return False
    last = params["dimension_numbers"].out_spec.index(len(out) - 1)
    return w.shape[0] < min(8, x.shape[0]) or (last >= 2 and params["lhs_dilation"][last - 2] > 1)


def _exchanged_ip(x, w, params, out):
    """Parameters of the same convolution with its operands exchanged, which has its outputs in the reverse order."""
    ip = [len(out) - 2, 1, 1, params["dimension_numbers"].out_spec[1], params["dimension_numbers"].out_spec[0]]
    ip += params["dimension_numbers"].out_spec[2:]
    for n, s, (lo, _), ld, rd in zip(out[2:], *(params[k] for k in ("window_strides", "padding", "lhs_dilation", "rhs_dilation"))):
        ip += [s, (n - 1) * s - lo, rd, ld]
    return [*ip, 1]


def _inverse(perm):
    return tuple(int(i) for i in np.argsort(perm))


def _turns(x, w, out, ip):
    """Does a depthwise convolution, or its kernel's gradient, features first, gain by features last there and back?"""
    if not x.dtype == w.dtype == out.dtype or out.dtype not in (dtypes.FLOAT32, dtypes.BFLOAT16) or 0 in (*x.shape, *w.shape, *out.shape):
        return False
    groups, axis = max(ip[1], ip[2]), int(ip[1] > 1)
    if groups == 1 or groups != x.shape[axis] or x.strides[axis] == 1:
        return False
    return gains_last((x.shape, x.strides), (w.shape, w.strides), out.shape, ip, out.dtype == dtypes.BFLOAT16)


def conv_lower(ctx, ins, params, out_avals):
    """`conv_general_dilated` as kernels."""
    dn, aval = params["dimension_numbers"], out_avals[0]
    dtype = aval.dtype
    x, w = (ctx.transpose(v, spec) for v, spec in zip(ins, (dn.lhs_spec, dn.rhs_spec)))
    ip = [len(x.shape) - 2, params["feature_group_count"], params["batch_group_count"], *dn.out_spec]
    for s, (lo, _), ld, rd in zip(*(params[k] for k in ("window_strides", "padding", "lhs_dilation", "rhs_dilation"))):
        ip += [s, lo, ld, rd]
    ip.append(0)
    if _turns(x, w, aval, ip):
        n, shape = ip[0], take(aval.shape, dn.out_spec)
        x, w = _moved_last(ctx, x, int(ip[1] > 1)), _moved_last(ctx, w, 0)
        ip[3 : 5 + n] = [0, n + 1, *range(1, n + 1)]
        out = ctx.kernel("conv", [x, w], [ShapedArray((shape[0], *shape[2:], shape[1]), aval.dtype)], ip=ip, contiguous=False)[0]
        return ctx.contiguous(ctx.transpose(out, [(0, n + 1, *range(1, n + 1))[i] for i in _inverse(dn.out_spec)]))
    out = None
    if x.dtype == dtype and dtypes.is_inexact(dtype):
        out = _as_stencil(ctx, x, w, params, take(aval.shape, dn.out_spec)) or _as_product(ctx, x, w, params, take(aval.shape, dn.out_spec))
    if out is None and not _in_pairs(x, w, dtype, params) and not _in_halves(x, w, aval, ip):
        dtype = _work_dtype(dtype)
        x, w = ctx.cast(x, dtype), ctx.cast(w, dtype)
        out = _as_product(ctx, x, w, params, take(aval.shape, dn.out_spec)) if dtype.kind in "fc" and x.dtype != aval.dtype else None
    if out is None:
        if dtype.kind in "fV" and _gains_exchanged(x, w, params, take(aval.shape, dn.out_spec)):
            x, w, ip = w, x, _exchanged_ip(x, w, params, take(aval.shape, dn.out_spec))
        elif dtype.kind == "f":
            x, w = _features_last(ctx, x, w, params, aval, ip)
        out = ctx.kernel("conv", [x, w], [ShapedArray(aval.shape, dtype)], ip=ip, contiguous=False)[0]
    else:
        out = ctx.transpose(out, _inverse(dn.out_spec))
    if aval.dtype == dtypes.BOOL:
        zero = ctx.broadcast(ctx.scalar(0, dtype), aval.shape, ())
        return ctx.elementwise("ne", [out, zero], aval)
    return ctx.cast(out, aval.dtype)


def _as_stencil(ctx, x, w, params, shape):
    """The (batch, feature, spatial...) result of a small kernel over images of one feature as a sum of shifted images, part of the
    elementwise operations around it, or None."""
    (b, c, *space), (o, _, *window) = x.shape, w.shape
    taps = math.prod(window)
    if (
        c != 1
        or o != 1
        or not 1 < taps <= (ALONE if b == 1 and math.prod(shape) not in SHARED else TAPS)
        or x.dtype not in (dtypes.FLOAT32, dtypes.FLOAT64)
        or math.prod(shape) < POINTS
        or 0 in x.shape
    ):
        return None
    if params["feature_group_count"] * params["batch_group_count"] > 1 or any(
        d > 1 for d in (*params["window_strides"], *params["lhs_dilation"])
    ):
        return None
    lead = (b,) * (b > 1)
    x = _padded(ctx, ctx.reshape(x, (*lead, *space)), params["padding"])
    part, total = ShapedArray((*lead, *shape[2:]), x.dtype), None
    for at in np.ndindex(*window):
        factor = ctx.view(w, part.shape, (0,) * len(part.shape), sum(i * s for i, s in zip(at, w.strides[2:])))
        start = sum(i * d * s for i, d, s in zip(at, params["rhs_dilation"], x.strides[len(lead) :]))
        term = ctx.elementwise("mul", [ctx.view(x, part.shape, x.strides, start), factor], part)
        total = term if total is None else ctx.elementwise("add", [total, term], part)
    return ctx.reshape(total, shape)


def _as_product(ctx, x, w, params, shape):
    """The (batch, feature, spatial...) result of a convolution that is one product of matrices where its operands lie, or from patches
    of an image of few features, or None."""
    if params["feature_group_count"] > 1 or params["batch_group_count"] > 1 or 0 in x.shape or 0 in w.shape or 0 in shape:
        return None
    if any(d > 1 for d in params["lhs_dilation"]):
        out = _spread_patches(ctx, x, w, params, shape)
        if out is None and _gains_exchanged(x, w, params, shape):
            return None
        return _spread_blocks(ctx, x, w, params, shape) if out is None else out
    if (out := _windows_copied(ctx, x, w, params, shape)) is not None:
        return out
    if any(p != (0, 0) for p in params["padding"]):
        return None
    n, (b, c, *space), (o, _, *window) = len(x.shape) - 2, x.shape, w.shape
    spatial = tuple(range(2, n + 2))
    last = (0, *spatial, 1)

    def product(left, right, m, size, batch=1):
        return ctx.kernel("dot", [left, right], [ShapedArray((batch, m, size), x.dtype)], contiguous=False)[0]

    def viewed(v, axes, new):
        return ctx.reshaped_view(ctx.transpose(v, axes), new)

    if all(k == 1 for k in window) and all(s == 1 for s in params["window_strides"]):
        area = int(np.prod(space, dtype=np.int64))
        kernel = viewed(w, (0, 1, *spatial), (1, o, c))
        rows = viewed(x, last, (1, b * area, c))
        if kernel is not None and rows is not None and (x.strides[1] == 1 or c == 1):
            out = product(rows, ctx.transpose(kernel, (0, 2, 1)), b * area, o)
            return ctx.transpose(ctx.reshape(out, (b, *space, o)), (0, n + 1, *range(1, n + 1)))
        planes = viewed(x, (0, 1, *spatial), (b, c, area))
        if kernel is not None and planes is not None:
            out = product(ctx.broadcast(kernel, (b, o, c), (0, 1, 2)), planes, o, area, b)
            return ctx.reshape(out, shape)
    strides, dilations, ones = params["window_strides"], params["rhs_dilation"], (1,) * n
    apart, half = x.strides[1] != 1, x.dtype == dtypes.BFLOAT16  # pairs of few features are half empty: those gain earlier
    if c < 16 and (apart or half) and math.prod(window) >= (TAKEN if apart else 64) and dilations == ones and _fit(space, window, strides):
        rows = _patches(ctx, x, shape[2:], window)
        area, k = math.prod(shape[2:]), c * math.prod(window)
        kernel = ctx.broadcast(ctx.reshape(w, (o, k)), (b, o, k), (1, 2))
        return ctx.reshape(product(kernel, ctx.transpose(ctx.reshape(rows, (b, area, k)), (0, 2, 1)), o, area, b), shape)
    # the gradient of that kernel, whose features are a batch; image by image where those are large
    if b < 16 and math.prod(shape[2:]) >= (TAKEN if x.strides[0] != 1 else 64) and strides == ones and _fit(space, shape[2:], dilations):
        area, k = math.prod(window), b * math.prod(shape[2:])
        rows = ctx.reshape(_patches(ctx, ctx.transpose(x, (1, 0, *spatial)), window, shape[2:]), (c, area, k))
        sums = {"dimension_numbers": (((1, 2), (0, 1)), ((), ()))}
        out = dot_lower(ctx, [ctx.reshape(w, (o, c, area)), rows], sums, [ShapedArray((o, k), x.dtype)])
        return ctx.transpose(ctx.reshape(out, (o, b, *shape[2:])), (1, 0, *spatial))
    if tuple(window) == tuple(space) and all(d == 1 for d in params["rhs_dilation"]):  # the window is the image
        for axes in ((1, *spatial), (*spatial, 1)):
            k = c * int(np.prod(space, dtype=np.int64))
            left, right = viewed(x, (0, *axes), (1, b, k)), viewed(w, (*axes, 0), (1, k, o))
            if left is not None and right is not None:
                return ctx.reshape(product(left, right, b, o), shape)
        if min(b, o) >= FEATURES and x.dtype in (dtypes.FLOAT32, dtypes.FLOAT64):  # sums over images, of a kernel's gradient
            spec, numbers = params["dimension_numbers"].out_spec, {"dimension_numbers": (((1, *spatial), (1, *spatial)), ((), ()))}
            if spec[0] < spec[1]:
                return ctx.reshape(dot_lower(ctx, [x, w], numbers, [ShapedArray((b, o), x.dtype)]), shape)
            out = dot_lower(ctx, [w, x], numbers, [ShapedArray((o, b), x.dtype)])
            return ctx.reshape(ctx.transpose(out, (1, 0)), shape)
    return None


def _windows_copied(ctx, x, w, params, shape):
    """The result of a large kernel over few windows, or a large result of few positions (the gradient of such a kernel), as a product
    with a copy of all windows; None: copies cost more. Either way what is large is read, or written, once and where it lies."""
    (b, c, *space), (o, _, *window), spatial = x.shape, w.shape, tuple(range(2, len(x.shape)))
    places, positions, steps, reach = math.prod(shape[2:]), math.prod(window), params["window_strides"], params["rhs_dilation"]
    if x.dtype not in (dtypes.FLOAT32, dtypes.FLOAT64) or positions == 1:
        return None
    limit = WINDOWS
    if set(window) == {3} and max(*steps, *reach) == 1:  # Winograd's products are fewer, but its kernel is larger
        limit = min(limit, w.size >> 14) if places <= 16 else 0
    few = b * places <= limit and 2 * w.size >= LARGE and o >= WINDOWS and positions <= POINTS  # a first layer's gradient has large windows
    small = positions <= 32 or (positions <= 64 and positions * places <= math.prod(space))
    inside = x.strides[0] < x.strides[1]  # a kernel's gradient, whose batch are features: many images lie the other way
    gradient = small and b > c and inside and 1 < places <= 64 and o >= WINDOWS and math.prod(shape) >= LARGE
    if not few and not gradient:
        return None
    first = x.strides[1 if few else 0] != 1
    kept, summed = ((0, *spatial), (1, *spatial)) if first else ((*spatial, 0), (*spatial, 1))
    kernel, k, m = ctx.transpose(w, (0, *summed)), c * positions, b * places
    kernel = ctx.reshaped_view(kernel, (1, o, k)) if few else ctx.reshape(kernel, (1, o, k))
    if kernel is None:
        return None
    x = _padded(ctx, x, params["padding"])
    outputs = [(shape[i], steps[i - 2] * x.strides[i]) if i else (b, x.strides[0]) for i in kept]
    terms = [(w.shape[i], reach[i - 2] * x.strides[i]) if i > 1 else (c, x.strides[1]) for i in summed]
    sizes, strides = zip(*(outputs + terms if few else terms + outputs))  # neighbours in memory lie innermost either way
    rows = ctx.reshape(ctx.view(x, sizes, strides), (1, m, k) if few else (1, k, m))
    rows = ctx.transpose(rows, (0, 2, 1)) if few else rows
    sizes = [size for size, _ in outputs]
    if first:
        out = ctx.kernel("dot", [kernel, rows], [ShapedArray((1, o, m), x.dtype)], contiguous=False)[0]
        return ctx.transpose(ctx.reshape(out, (o, *sizes)), _inverse((1, *kept)))
    turned = [ctx.transpose(v, (0, 2, 1)) for v in (rows, kernel)]
    out = ctx.kernel("dot", turned, [ShapedArray((1, m, o), x.dtype)], contiguous=False)[0]
    return ctx.transpose(ctx.reshape(out, (*sizes, o)), _inverse((*kept, 1)))


def _padded(ctx, x, padding):
    """x with zeros around its last axes."""
    if all(p == (0, 0) for p in padding):
        return x
    margins = [(0, 0)] * (len(x.shape) - len(padding)) + list(padding)
    grown = tuple(lo + n + hi for n, (lo, hi) in zip(x.shape, margins))
    ip = [m for lo, hi in margins for m in (lo, hi, 0)]
    return ctx.kernel("pad", [x, ctx.scalar(0, x.dtype)], [ShapedArray(grown, x.dtype)], ip=ip, contiguous=False)[0]


def _spread_patches(ctx, x, w, params, shape):
    """The result of a convolution whose outputs are patches side by side, one for each position of x (the gradient of patches of an image
    of few features), or None: positions times the kernel's matrix, then patches to their places."""
    n, (b, c, *space), (o, _, *window), spec = len(x.shape) - 2, x.shape, w.shape, params["dimension_numbers"].out_spec
    steps = zip(params["lhs_dilation"], params["window_strides"], params["rhs_dilation"], params["padding"], window)
    if any((ld, s, rd, pads) != (k, 1, 1, (k - 1, k - 1)) for ld, s, rd, pads, k in steps) or o >= 16 or math.prod(window) < 16:
        return None
    last = spec[1] == n + 1  # features of the result: they go innermost, or before a patch's positions
    offset = sum((k - 1) * step for k, step in zip(window, w.strides[2:]))
    taps = ctx.view(w, w.shape, (*w.strides[:2], *(-step for step in w.strides[2:])), offset)  # output i of a patch is tap k - 1 - i
    inner = (*range(2, n + 2), 0) if last else (0, *range(2, n + 2))
    size = o * math.prod(window)
    kernel = ctx.reshape(ctx.transpose(taps, (1, *inner)), (1, c, size))
    rows = ctx.reshape(ctx.transpose(x, (0, *range(2, n + 2), 1)), (1, b * math.prod(space), c))
    out = ctx.kernel("dot", [rows, kernel], [ShapedArray((1, b * math.prod(space), size), x.dtype)], contiguous=False)[0]
    out = ctx.reshape(out, (b, *space, *(taps.shape[i] for i in inner)))
    at = {spec[0]: [0], spec[1]: [n + 1 + inner.index(0)]}
    at |= {spec[d + 2]: [d + 1, n + 1 + inner.index(d + 2)] for d in range(n)}
    moved = ctx.transpose(out, [i for axis in sorted(at) for i in at[axis]])
    placed = ctx.reshape(moved, tuple(shape[spec.index(axis)] for axis in sorted(at)))
    return ctx.transpose(placed, spec)


def _spread_blocks(ctx, x, w, params, shape):
    """The result of a convolution to few features of an image with gaps (the gradient of a first layer with strides), or None: as many
    outputs as the gaps are wide are features of one without gaps, whose window is as much shorter, and then go to their places."""
    n, (b, c, *space), (o, _, *window), gaps = len(x.shape) - 2, x.shape, w.shape, params["lhs_dilation"]
    block, out_spec = math.prod(gaps), params["dimension_numbers"].out_spec
    first, counts, pads, taps = [], [], [], [-(-k // s) for k, s in zip(window, gaps)]
    if o >= 16 or any(s > 1 for s in (*params["window_strides"], *params["rhs_dilation"])):
        return None
    if c > 1 and x.strides[1] == 1 and (o > 8 or block < 4 or (x.dtype == dtypes.BFLOAT16 and math.prod(taps) >= 16)):
        return None  # features last, parts of rows are vectors already
    for k, s, t, size, (low, _), length in zip(window, gaps, taps, shape[2:], params["padding"], space):
        before = k - 1 - low  # outputs that an element reaches before those that are wanted
        at = before // s  # in blocks
        counts.append((before + size - 1) // s - at + 1)
        pads.append((t - 1 - at, counts[-1] - length + at))
        first.append(before - at * s)
    axes, even, odd = tuple(range(n + 2)), range(2, 2 * n + 2, 2), range(3, 2 * n + 3, 2)
    grown = (o, c, *(t * s for t, s in zip(taps, gaps)))
    if w.shape != grown:
        w = _padded(ctx, w, [(more, 0) for more in map(operator.sub, grown, w.shape)])
    w = ctx.reshape(w, (o, c, *(v for pair in zip(taps, gaps) for v in pair)))
    steps = [-t if i in odd else t for i, t in enumerate(w.strides)]  # the last output of a block is its element's first tap
    w = ctx.view(w, w.shape, steps, sum((s - 1) * w.strides[i] for s, i in zip(gaps, odd)))
    kernel = ctx.reshape(ctx.transpose(w, (0, *odd, 1, *even)), (o * block, c, *taps))
    spec = params["dimension_numbers"]._replace(lhs_spec=axes, rhs_spec=axes, out_spec=axes)
    dense = dict(params, window_strides=(1,) * n, lhs_dilation=(1,) * n, padding=tuple(pads), dimension_numbers=spec)
    out = conv_lower(ctx, [x, kernel], dense, [ShapedArray((b, o * block, *counts), x.dtype)])
    out = ctx.reshape(out, (b, o, *gaps, *counts))
    at = {out_spec[0]: [0], out_spec[1]: [1]} | {out_spec[d + 2]: [2 + n + d, 2 + d] for d in range(n)}
    whole = {out_spec[0]: b, out_spec[1]: o} | {out_spec[d + 2]: counts[d] * gaps[d] for d in range(n)}
    out = ctx.reshape(ctx.transpose(out, [i for axis in axes for i in at[axis]]), tuple(whole[axis] for axis in axes))
    out = ctx.transpose(out, out_spec)
    return ctx.view(out, shape, out.strides, sum(f * t for f, t in zip(first, out.strides[2:])))


def _fit(space, patch, steps):
    """Do patches, each a step from the next, fill the image?"""
    return tuple(patch) == tuple(steps) and all(i % k == 0 for i, k in zip(space, patch))


def _patches(ctx, x, counts, window):
    """x (b, c, spatial...) as (b, number of patches..., c, positions of one...)."""
    split = ctx.reshape(x, (*x.shape[:2], *(n for pair in zip(counts, window) for n in pair)))
    axes = range(2, len(split.shape))
    return ctx.transpose(split, (0, *axes[::2], 1, *axes[1::2]))
