"""Convolution: one primitive for all strides, dilations, groups and layouts, and the numbers that describe one."""

import operator
from typing import NamedTuple

from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.conv_lower import conv_lower, take
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
            f"{what} lhs feature dimension size divided by feature_group_count must equal the rhs input feature dimension size: "
            f"lhs of shape {lhs.shape} has {features} features on axis {dn.lhs_spec[1]}, but rhs of shape {rhs.shape} takes "
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
    x, k, spatial = take(lhs.shape, dn.lhs_spec[2:]), take(rhs.shape, dn.rhs_spec[2:]), []
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
        take(x.shape, dn.lhs_spec[2:]),
        take(w.shape, dn.rhs_spec[2:]),
        window_strides,
        take(g.shape, dn.out_spec[2:]),
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
        take(x.shape, dn.lhs_spec[2:]),
        take(w.shape, dn.rhs_spec[2:]),
        window_strides,
        take(g.shape, dn.out_spec[2:]),
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
    "conv_general_dilated", abstract_eval=_conv_aval, lower=conv_lower, batch=_conv_batch, transpose=_conv_transpose_rule
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
