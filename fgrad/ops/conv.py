"""Convolution: one primitive for all strides, dilations, groups and layouts, and the numbers that describe one."""

import math
import operator
from typing import NamedTuple

import numpy as np

from fgrad import dtypes
from fgrad._kernels.conv_plan import PAIRS, cuts, in_halves, single
from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.elementwise import convert_element_type
from fgrad.ops.rules import full, is_linear, jvp_by_args
from fgrad.ops.shape import reshape, rev, transpose

MAX_SPATIAL = 3


class ConvDimensionNumbers(NamedTuple):
    """Which axes of a convolution's operands are what.

    lhs_spec, out_spec: (batch axis, feature axis, spatial axes...); rhs_spec: (output feature axis, input feature axis, spatial axes...).
    """

    lhs_spec: tuple
    rhs_spec: tuple
    out_spec: tuple


# --- padding and sizes --------------------------------------------------------------------------------------------------


def dilate(n, dilation):
    """Size of an axis with dilation - 1 holes between its elements."""
    return 0 if n == 0 else (n - 1) * dilation + 1


def strided(n, window, stride):
    """How many windows begin every `stride` elements of an axis of n."""
    return max(0, (n - window) // stride + 1)


def padtype_to_pads(in_shape, window_shape, window_strides, padding):
    """(low, high) padding of each axis for "VALID", "SAME" or "SAME_LOWER" (any case).

    SAME gives ceil(size / stride) windows, with the larger half of an odd padding at the high end; SAME_LOWER at the low end.

    >>> padtype_to_pads((5, 4), (3, 2), (2, 1), "SAME")
    [(1, 1), (0, 1)]
    """
    kind = str(getattr(padding, "name", padding)).upper()
    if kind == "VALID":
        return [(0, 0)] * len(in_shape)
    if kind not in ("SAME", "SAME_LOWER"):
        raise RuntimeError(f"unknown padding type {padding!r}: expected 'VALID', 'SAME' or 'SAME_LOWER'")
    strides = window_strides or (1,) * len(in_shape)
    if any(s < 1 for s in strides):
        raise ValueError(f"window strides must be positive, got {tuple(strides)}")
    pads = []
    for n, k, s in zip(in_shape, window_shape, strides, strict=True):
        total = max(0, (-(-n // s) - 1) * s + k - n)
        small, large = total // 2, total - total // 2
        pads.append((small, large) if kind == "SAME" else (large, small))
    return pads


def explicit_pads(what, padding):
    """padding as a tuple of (low, high) pairs of ints."""
    try:
        return tuple((operator.index(lo), operator.index(hi)) for lo, hi in padding)
    except (TypeError, ValueError):
        raise ValueError(f"padding argument to {what} should be a string or a sequence of (low, high) pairs, got {padding}") from None


def transposed_pads(in_shape, window, strides, out_shape, padding, in_dilation, window_dilation):
    """Padding of the convolution that is the transpose of one in its input."""
    pads = []
    for n, k, s, m, (lo, _), ld, rd in zip(in_shape, window, strides, out_shape, padding, in_dilation, window_dilation):
        n, k, m = dilate(n, ld), dilate(k, rd), dilate(m, s)
        low = k - 1 - lo
        pads.append((low, n + k - 1 - m - low))
    return tuple(pads)


def _kernel_pads(in_shape, window, strides, out_shape, padding, in_dilation, window_dilation):
    """Padding of the convolution that is the transpose of one in its kernel."""
    pads = []
    for n, k, s, m, (lo, _), ld, rd in zip(in_shape, window, strides, out_shape, padding, in_dilation, window_dilation):
        pads.append((lo, dilate(m, s) - dilate(n, ld) + dilate(k, rd) - lo - 1))
    return tuple(pads)


# --- the primitive ------------------------------------------------------------------------------------------------------


def _take(shape, axes):
    return tuple(shape[a] for a in axes)


def _check_groups(lhs, rhs, dn, feature_group_count, batch_group_count):
    what = "conv_general_dilated"
    if feature_group_count < 1 or batch_group_count < 1:
        raise ValueError(f"{what}: group counts must be positive, got feature_group_count={feature_group_count}, {batch_group_count=}")
    if feature_group_count > 1 and batch_group_count > 1:
        raise ValueError(
            f"{what}: at most one of the group counts may be > 1, got feature_group_count={feature_group_count}, {batch_group_count=}"
        )
    features, inputs, outputs = lhs.shape[dn.lhs_spec[1]], rhs.shape[dn.rhs_spec[1]], rhs.shape[dn.rhs_spec[0]]
    if features != inputs * feature_group_count:
        raise ShapeError(
            f"{what}: lhs of shape {lhs.shape} has {features} features on axis {dn.lhs_spec[1]}, but rhs of shape {rhs.shape} takes "
            f"{inputs} (axis {dn.rhs_spec[1]}) in each of {feature_group_count} feature groups"
        )
    if outputs % (feature_group_count * batch_group_count):
        raise ShapeError(
            f"{what}: rhs of shape {rhs.shape} has {outputs} output features, not a multiple of the number of groups, "
            f"{feature_group_count * batch_group_count}"
        )
    if lhs.shape[dn.lhs_spec[0]] % batch_group_count:
        raise ShapeError(f"{what}: {batch_group_count=} does not divide the batch of lhs, shape {lhs.shape}, axis {dn.lhs_spec[0]}")


def _conv_aval(
    lhs,
    rhs,
    *,
    window_strides,
    padding,
    lhs_dilation,
    rhs_dilation,
    dimension_numbers,
    feature_group_count,
    batch_group_count,
    preferred_element_type,
):
    what, dn = "conv_general_dilated", dimension_numbers
    if len(lhs.shape) != len(rhs.shape) or len(lhs.shape) < 2:
        raise ShapeError(f"{what}: lhs and rhs must have the same number of dimensions, at least 2, got {lhs.shape} and {rhs.shape}")
    n = len(lhs.shape) - 2
    if n > MAX_SPATIAL:
        raise ShapeError(f"{what}: at most {MAX_SPATIAL} spatial dimensions are supported, got {n} (lhs {lhs.shape})")
    for name, spec in dn._asdict().items():
        if sorted(spec) != list(range(n + 2)):
            raise ShapeError(f"{what}: {name} {spec} of dimension_numbers must be a permutation of the {n + 2} axes")
    given = {"window_strides": window_strides, "padding": padding, "lhs_dilation": lhs_dilation, "rhs_dilation": rhs_dilation}
    for name, value in given.items():
        if len(value) != n:
            raise ShapeError(f"{what}: {name} must have one entry for each of the {n} spatial dimensions, got {value}")
        if name != "padding" and any(v < 1 for v in value):
            raise ValueError(f"{what}: {name} must be positive, got {value}")
    _check_groups(lhs, rhs, dn, feature_group_count, batch_group_count)
    if lhs.dtype != rhs.dtype:
        raise TypeError(f"{what} requires operands of one dtype, got {lhs.dtype.name} and {rhs.dtype.name}")
    x, k, spatial = _take(lhs.shape, dn.lhs_spec[2:]), _take(rhs.shape, dn.rhs_spec[2:]), []
    for d in range(n):
        size = dilate(x[d], lhs_dilation[d]) + sum(padding[d])
        if size < 0:
            raise ShapeError(f"{what}: negative padding {padding} is larger than the spatial size {x[d]} (lhs {lhs.shape})")
        spatial.append(strided(size, dilate(k[d], rhs_dilation[d]), window_strides[d]))
    canonical = (lhs.shape[dn.lhs_spec[0]] // batch_group_count, rhs.shape[dn.rhs_spec[0]], *spatial)
    shape = [0] * (n + 2)
    for size, axis in zip(canonical, dn.out_spec):
        shape[axis] = size
    return ShapedArray(
        tuple(shape), preferred_element_type or lhs.dtype, preferred_element_type is None and lhs.weak_type and rhs.weak_type
    )


def _work_dtype(dtype):
    """The dtype in which the kernel computes a result of `dtype`."""
    if dtype in (dtypes.FLOAT16, dtypes.BFLOAT16):
        return dtypes.FLOAT32
    if dtype.kind in "biu":
        return np.dtype(np.int64 if dtype.itemsize == 8 else np.int32)
    return dtype


def _in_pairs(x, w, dtype, params):
    """Does the kernel take these bfloat16 operands as they are, two input features (or images) in one step?"""
    groups = params["feature_group_count"] * params["batch_group_count"]
    return PAIRS and x.dtype == dtypes.BFLOAT16 and dtype in (dtypes.BFLOAT16, dtypes.FLOAT32) and groups == 1 and w.shape[1] > 1


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


def _conv_lower(ctx, ins, params, out_avals):
    dn, aval = params["dimension_numbers"], out_avals[0]
    dtype = aval.dtype
    x, w = (ctx.transpose(v, spec) for v, spec in zip(ins, (dn.lhs_spec, dn.rhs_spec)))
    ip = [len(x.shape) - 2, params["feature_group_count"], params["batch_group_count"], *dn.out_spec]
    for s, (lo, _), ld, rd in zip(*(params[k] for k in ("window_strides", "padding", "lhs_dilation", "rhs_dilation"))):
        ip += [s, lo, ld, rd]
    ip.append(0)
    out = _as_product(ctx, x, w, params, _take(aval.shape, dn.out_spec)) if x.dtype == dtype and dtypes.is_inexact(dtype) else None
    if out is None and not _in_pairs(x, w, dtype, params) and not _in_halves(x, w, aval, ip):
        dtype = _work_dtype(dtype)
        x, w = ctx.cast(x, dtype), ctx.cast(w, dtype)
        out = _as_product(ctx, x, w, params, _take(aval.shape, dn.out_spec)) if dtype.kind in "fc" and x.dtype != aval.dtype else None
    if out is None:
        if dtype.kind in "fV" and _gains_exchanged(x, w, params, _take(aval.shape, dn.out_spec)):
            x, w, ip = w, x, _exchanged_ip(x, w, params, _take(aval.shape, dn.out_spec))
        elif dtype.kind == "f":
            x, w = _features_last(ctx, x, w, params, aval, ip)
        out = ctx.kernel("conv", [x, w], [ShapedArray(aval.shape, dtype)], ip=ip, contiguous=False)[0]
    else:
        out = ctx.transpose(out, _inverse(dn.out_spec))
    if aval.dtype == dtypes.BOOL:
        zero = ctx.broadcast(ctx.scalar(0, dtype), aval.shape, ())
        return ctx.elementwise("ne", [out, zero], aval)
    return ctx.cast(out, aval.dtype)


def _as_product(ctx, x, w, params, shape):
    """The (batch, feature, spatial...) result of a convolution that is one product of matrices where its operands lie, or from patches
    of an image of few features, or None."""
    if params["feature_group_count"] > 1 or params["batch_group_count"] > 1 or 0 in x.shape or 0 in w.shape or 0 in shape:
        return None
    if any(p != (0, 0) for p in params["padding"]) or any(d > 1 for d in params["lhs_dilation"]):
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
    if c < 16 and math.prod(window) >= 64 and x.strides[1] != 1 and dilations == ones and _fit(space, window, strides):
        rows = _patches(ctx, x, shape[2:], window)
        area, k = math.prod(shape[2:]), c * math.prod(window)
        kernel = ctx.broadcast(ctx.reshape(w, (o, k)), (b, o, k), (1, 2))
        return ctx.reshape(product(kernel, ctx.transpose(ctx.reshape(rows, (b, area, k)), (0, 2, 1)), o, area, b), shape)
    if b < 16 and math.prod(shape[2:]) >= 64 and strides == ones and _fit(space, shape[2:], dilations):  # the gradient of that kernel
        rows = _patches(ctx, ctx.transpose(x, (1, 0, *spatial)), window, shape[2:])
        area, k = c * math.prod(window), b * math.prod(shape[2:])
        out = product(ctx.reshape(w, (1, o, area)), ctx.reshape(rows, (1, area, k)), o, k)
        return ctx.transpose(ctx.reshape(out, (o, b, *shape[2:])), (1, 0, *spatial))
    if tuple(window) == tuple(space) and all(d == 1 for d in params["rhs_dilation"]):  # the window is the image
        for axes in ((1, *spatial), (*spatial, 1)):
            k = c * int(np.prod(space, dtype=np.int64))
            left, right = viewed(x, (0, *axes), (1, b, k)), viewed(w, (*axes, 0), (1, k, o))
            if left is not None and right is not None:
                return ctx.reshape(product(left, right, b, o), shape)
    return None


def _fit(space, patch, steps):
    """Do patches, each a step from the next, fill the image?"""
    return tuple(patch) == tuple(steps) and all(i % k == 0 for i, k in zip(space, patch))


def _patches(ctx, x, counts, window):
    """x (b, c, spatial...) as (b, number of patches..., c, positions of one...)."""
    split = ctx.reshape(x, (*x.shape[:2], *(n for pair in zip(counts, window) for n in pair)))
    axes = range(2, len(split.shape))
    return ctx.transpose(split, (0, *axes[::2], 1, *axes[1::2]))


def _reshape_into(src, dst, x):
    """x with axis src folded into axis dst (numbered without src), src outermost."""
    shape = get_aval(x).shape
    perm = [i for i in range(len(shape)) if i != src]
    sizes = [shape[i] for i in perm]
    perm.insert(dst, src)
    sizes[dst] *= shape[src]
    return reshape(transpose(x, perm), sizes)


def _split_axis(axis, size, x):
    """x with an axis split in two, the first of `size`."""
    shape = list(get_aval(x).shape)
    shape[axis : axis + 1] = [size, shape[axis] // size]
    return reshape(x, shape)


def _reshape_inside(src, dst, groups, x):
    """x with axis src folded into each of the groups of axis dst (numbered without src), which stay outermost."""
    x = _split_axis(dst + (src <= dst), groups, x)
    return _reshape_into(dst, dst, _reshape_into(src + (dst < src), dst + 1, x))


def _swap(spec):
    return (spec[1], spec[0], *spec[2:])


def _conv_transpose_rule(cts, lhs, rhs, **params):
    if is_linear(lhs):
        return [_transpose_lhs(cts[0], lhs.aval, rhs, **params), None]
    return [None, _transpose_rhs(cts[0], lhs, rhs.aval, **params)]


def _transpose_lhs(
    ct,
    x,
    rhs,
    *,
    window_strides,
    padding,
    lhs_dilation,
    rhs_dilation,
    dimension_numbers,
    feature_group_count,
    batch_group_count,
    preferred_element_type,
):
    """[m, gk] [k, gj] -> [m, gj]: a convolution with the reversed kernel, strides and input dilation exchanged."""
    dn, g, w = dimension_numbers, get_aval(ct), get_aval(rhs)
    if 0 in g.shape or 0 in w.shape or 0 in x.shape:
        return full(x.shape, 0, x.dtype)
    groups = max(feature_group_count, batch_group_count)
    if groups > 1:  # groups move from the kernel's output features to its input features
        rhs = _reshape_into(dn.rhs_spec[0], dn.rhs_spec[1], _split_axis(dn.rhs_spec[0], groups, rhs))
    pads = transposed_pads(
        _take(x.shape, dn.lhs_spec[2:]),
        _take(w.shape, dn.rhs_spec[2:]),
        window_strides,
        _take(g.shape, dn.out_spec[2:]),
        padding,
        lhs_dilation,
        rhs_dilation,
    )
    out = conv_general_dilated_p.bind(
        ct,
        convert_element_type(rev(rhs, tuple(dn.rhs_spec[2:])), g.dtype),
        window_strides=lhs_dilation,
        padding=pads,
        lhs_dilation=window_strides,
        rhs_dilation=rhs_dilation,
        dimension_numbers=ConvDimensionNumbers(dn.out_spec, _swap(dn.rhs_spec), dn.lhs_spec),
        feature_group_count=groups,
        batch_group_count=1,
        preferred_element_type=preferred_element_type,
    )
    if batch_group_count > 1:
        out = _reshape_into(dn.lhs_spec[1], dn.lhs_spec[0], _split_axis(dn.lhs_spec[1], batch_group_count, out))
    return convert_element_type(out, x.dtype)


def _transpose_rhs(
    ct,
    lhs,
    w,
    *,
    window_strides,
    padding,
    lhs_dilation,
    rhs_dilation,
    dimension_numbers,
    feature_group_count,
    batch_group_count,
    preferred_element_type,
):
    """[j, m] [m, k] -> [j, k]: a convolution whose batch are the input features, strides and kernel dilation exchanged."""
    dn, g, x = dimension_numbers, get_aval(ct), get_aval(lhs)
    if 0 in g.shape or 0 in w.shape or 0 in x.shape:
        return full(w.shape, 0, w.dtype)
    pads = _kernel_pads(
        _take(x.shape, dn.lhs_spec[2:]),
        _take(w.shape, dn.rhs_spec[2:]),
        window_strides,
        _take(g.shape, dn.out_spec[2:]),
        padding,
        lhs_dilation,
        rhs_dilation,
    )
    out = conv_general_dilated_p.bind(
        convert_element_type(lhs, g.dtype),
        ct,
        window_strides=rhs_dilation,
        padding=pads,
        lhs_dilation=lhs_dilation,
        rhs_dilation=window_strides,
        dimension_numbers=ConvDimensionNumbers(_swap(dn.lhs_spec), _swap(dn.out_spec), _swap(dn.rhs_spec)),
        feature_group_count=batch_group_count,
        batch_group_count=feature_group_count,
        preferred_element_type=preferred_element_type,
    )
    return convert_element_type(out, w.dtype)


def _conv_batch(axis, args, dims, *, dimension_numbers, feature_group_count, batch_group_count, **params):
    """The new axis goes to the batch, to the output features, or, where both operands have it, to groups."""
    (lhs, rhs), (dl, dr), dn, size = args, dims, dimension_numbers, axis.size
    (n, c, *_), (o, _, *_), (on, oc, *_) = dn

    def conv(lhs, rhs, features=feature_group_count, batches=batch_group_count):
        return conv_general_dilated_p.bind(
            lhs, rhs, dimension_numbers=dn, feature_group_count=features, batch_group_count=batches, **params
        )

    if size == 0:
        unbatched = [a.update(shape=tuple(s for i, s in enumerate(a.shape) if i != d)) for a, d in zip(map(get_aval, args), dims)]
        out = _conv_aval(
            *unbatched,
            dimension_numbers=dn,
            feature_group_count=feature_group_count,
            batch_group_count=batch_group_count,
            **params,
        )
        return full((0, *out.shape), 0, out.dtype), 0
    if dl is not None and dr is not None:
        rhs = _reshape_into(dr, o, rhs)
        if batch_group_count > 1:
            out = conv(_reshape_into(dl, n, lhs), rhs, batches=batch_group_count * size)
        else:
            out = conv(_reshape_into(dl, c, lhs), rhs, features=feature_group_count * size)
        return _split_axis(oc, size, out), oc
    groups = max(feature_group_count, batch_group_count)
    if dl is not None and batch_group_count == 1:
        return _split_axis(on, size, conv(_reshape_into(dl, n, lhs), rhs)), on
    if dl is not None:
        return _split_axis(on, size, conv(_reshape_inside(dl, n, batch_group_count, lhs), rhs)), on
    if groups == 1:
        return _split_axis(oc, size, conv(lhs, _reshape_into(dr, o, rhs))), oc
    out = _split_axis(oc, groups, conv(lhs, _reshape_inside(dr, o, groups, rhs)))
    out = _split_axis(oc + 1, size, out)
    return _reshape_into(oc, oc + 1, out), oc


conv_general_dilated_p = Primitive(
    "conv_general_dilated", abstract_eval=_conv_aval, lower=_conv_lower, batch=_conv_batch, transpose=_conv_transpose_rule
)
conv_general_dilated_p.jvp = jvp_by_args(
    conv_general_dilated_p,
    lambda t, out, x, w, **kw: conv_general_dilated_p.bind(t, w, **kw),
    lambda t, out, x, w, **kw: conv_general_dilated_p.bind(x, t, **kw),
)


def correlation(x, kernel, padding, preferred_element_type=None):
    """Sums of products of `kernel` with the windows of x, arrays of one rank, 1 to 3; padding: a (low, high) pair for each axis."""
    n = len(padding)
    axes = tuple(range(n + 2))
    out = conv_general_dilated_p.bind(
        reshape(x, (1, 1, *get_aval(x).shape)),
        reshape(kernel, (1, 1, *get_aval(kernel).shape)),
        window_strides=(1,) * n,
        padding=tuple(padding),
        lhs_dilation=(1,) * n,
        rhs_dilation=(1,) * n,
        dimension_numbers=ConvDimensionNumbers(axes, axes, axes),
        feature_group_count=1,
        batch_group_count=1,
        preferred_element_type=preferred_element_type,
    )
    return reshape(out, get_aval(out).shape[2:])
