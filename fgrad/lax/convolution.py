"""Convolutions in jax.lax's signatures, over one primitive."""

import itertools
import math
import operator

from fgrad import dtypes
from fgrad.core import ShapedArray, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.conv import (
    ConvDimensionNumbers,
    conv_general_dilated_p,
    dilate,
    explicit_pads,
    padtype_to_pads,
)
from fgrad.ops.dot import dot_general
from fgrad.ops.elementwise import convert_element_type, eq
from fgrad.ops.rules import broadcast_in_dim, full
from fgrad.ops.shape import broadcasted_iota, concatenate, expand_dims, pad, reshape, rev, slice, transpose

__all__ = [
    "ConvDimensionNumbers",
    "conv",
    "conv_dimension_numbers",
    "conv_general_dilated",
    "conv_general_dilated_local",
    "conv_general_dilated_p",
    "conv_general_dilated_patches",
    "conv_general_permutations",
    "conv_general_shape_tuple",
    "conv_shape_tuple",
    "conv_transpose",
    "conv_transpose_shape_tuple",
    "conv_with_general_padding",
    "padtype_to_pads",
]

SLICES = 128  # of which patches are put together; from more, a convolution with a kernel of ones and zeros

_PAIRS = (("N", "C"), ("O", "I"), ("N", "C"))


def conv_general_permutations(dimension_numbers):
    """(lhs, rhs, out) axes in the order batch (or output feature), feature (or input feature), spatial, of three layout strings."""
    for i, (spec, pair) in enumerate(zip(dimension_numbers, _PAIRS)):
        if any(spec.count(c) != 1 for c in pair):
            raise TypeError(f"convolution dimension_numbers[{i}] must contain {pair[0]!r} and {pair[1]!r} exactly once, got {spec!r}")
        if len(set(spec)) != len(spec):
            raise TypeError(f"convolution dimension_numbers[{i}] must not repeat a character, got {spec!r}")
    spatial = [c for c in dimension_numbers[1] if c not in "OI"]
    for spec, pair in zip(dimension_numbers, _PAIRS):
        if set(spec) - set(pair) != set(spatial):
            raise TypeError(f"convolution dimension_numbers must each have the same spatial characters, got {tuple(dimension_numbers)}")
    return tuple(tuple(spec.index(c) for c in (*pair, *spatial)) for spec, pair in zip(dimension_numbers, _PAIRS))


def conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers):
    """The ConvDimensionNumbers that None (batch, feature, spatial...), three layout strings or a ConvDimensionNumbers stand for.

    >>> conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 16), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return ConvDimensionNumbers(*(tuple(map(operator.index, spec)) for spec in dimension_numbers))
    if len(lhs_shape) != len(rhs_shape):
        raise ShapeError(f"convolution requires lhs and rhs ndim to be equal, got shapes {tuple(lhs_shape)} and {tuple(rhs_shape)}")
    n = len(lhs_shape)
    if dimension_numbers is None:
        return ConvDimensionNumbers(*(tuple(range(n)),) * 3)
    if not isinstance(dimension_numbers, (list, tuple)) or len(dimension_numbers) != 3:
        raise TypeError(f"convolution dimension_numbers must be None, three strings or a ConvDimensionNumbers, got {dimension_numbers!r}")
    for i, spec in enumerate(dimension_numbers):
        if not isinstance(spec, str) or len(spec) != n:
            raise TypeError(
                f"convolution dimension_numbers[{i}] must be a string of length {n}, the ndim of lhs and rhs (shapes {tuple(lhs_shape)} "
                f"and {tuple(rhs_shape)}), got {spec!r}"
            )
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


def _sizes(shape, axes):
    return tuple(shape[a] for a in axes)


def conv_general_dilated(
    lhs,
    rhs,
    window_strides,
    padding,
    lhs_dilation=None,
    rhs_dilation=None,
    dimension_numbers=None,
    feature_group_count=1,
    batch_group_count=1,
    precision=None,
    preferred_element_type=None,
    out_sharding=None,
):
    """Convolution (in the sense of neural networks: the kernel is not reversed) of 0 to 3 spatial dimensions.

    lhs: (batch, features, spatial...), rhs: (output features, input features, spatial...), in the order of dimension_numbers:
    None for this one, three strings such as ("NHWC", "HWIO", "NHWC"), or a ConvDimensionNumbers. window_strides and the dilations have
    an entry for each spatial dimension, in the order of rhs's string; lhs_dilation spreads the input (a transposed convolution),
    rhs_dilation the kernel. padding: "SAME", "SAME_LOWER", "VALID", or a (low, high) pair for each, which may be negative.
    With feature_group_count = g the i-th g-th of the output features sees the i-th g-th of the input features only; with
    batch_group_count = g it sees the i-th g-th of the batch. preferred_element_type: the result's dtype. precision and out_sharding
    are accepted and ignored.

    Raises ShapeError, ValueError or TypeError where shapes, counts or dtypes do not fit.

    >>> import fgrad.numpy as jnp
    >>> conv_general_dilated(jnp.arange(5.0).reshape(1, 1, 5), jnp.ones((1, 1, 3)), (1,), "SAME")
    Array([[[1., 3., 6., 9., 7.]]], dtype=float32)
    """
    params = _conv_params(
        get_aval(lhs),
        get_aval(rhs),
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        feature_group_count,
        batch_group_count,
        preferred_element_type,
    )
    return conv_general_dilated_p.bind(lhs, rhs, **params)


def _conv_params(
    x,
    w,
    window_strides,
    padding,
    lhs_dilation,
    rhs_dilation,
    dimension_numbers,
    feature_group_count=1,
    batch_group_count=1,
    preferred_element_type=None,
):
    """The primitive's parameters for operands x and w (avals)."""
    dn = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    n = len(x.shape) - 2
    rhs_dilation = (1,) * n if rhs_dilation is None else _ints("rhs_dilation", rhs_dilation)
    window_strides = _ints("window_strides", window_strides)
    if lhs_dilation is None:
        lhs_dilation = (1,) * n
    else:
        lhs_dilation = _ints("lhs_dilation", lhs_dilation)
        if _is_name(padding) and any(d != 1 for d in lhs_dilation):
            raise ValueError(
                "conv_general_dilated: a string padding is not defined with lhs_dilation: give (low, high) pairs, or use conv_transpose"
            )
    if _is_name(padding):
        window = [dilate(k, d) for k, d in zip(_sizes(w.shape, dn.rhs_spec[2:]), rhs_dilation)]
        padding = padtype_to_pads(_sizes(x.shape, dn.lhs_spec[2:]), window, window_strides, padding)
    else:
        padding = explicit_pads("conv_general_dilated", padding)
    return {
        "window_strides": window_strides,
        "padding": tuple(padding),
        "lhs_dilation": lhs_dilation,
        "rhs_dilation": rhs_dilation,
        "dimension_numbers": dn,
        "feature_group_count": operator.index(feature_group_count),
        "batch_group_count": operator.index(batch_group_count),
        "preferred_element_type": None if preferred_element_type is None else dtypes.canonicalize_dtype(preferred_element_type),
    }


def _is_name(padding):
    return isinstance(padding, str) or hasattr(padding, "name")


def _ints(name, values):
    try:
        return tuple(map(operator.index, values))
    except TypeError:
        raise TypeError(f"conv_general_dilated: {name} must be a sequence of integers, got {values!r}") from None


def conv(lhs, rhs, window_strides, padding, precision=None, preferred_element_type=None):
    """conv_general_dilated of (batch, features, spatial...) and (output features, input features, spatial...) without dilation."""
    return conv_general_dilated(lhs, rhs, window_strides, padding, precision=precision, preferred_element_type=preferred_element_type)


def conv_with_general_padding(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, precision=None, preferred_element_type=None):
    """conv_general_dilated of (batch, features, spatial...) and (output features, input features, spatial...)."""
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, preferred_element_type=preferred_element_type
    )


_TRANSPOSE_LAYOUTS = {
    2: ("NC", "IO", "NC"),
    3: ("NHC", "HIO", "NHC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NHWDC", "HWDIO", "NHWDC"),
}


def _transpose_padding(k, stride, padding):
    """(low, high) padding of a transposed convolution with (dilated) kernel size k, for the padding of the forward one."""
    if isinstance(padding, str):
        if padding == "SAME":
            total = k + stride - 2
            low = k - 1 if stride > k - 1 else -(-total // 2)
        elif padding == "VALID":
            total = k + stride - 2 + max(k - stride, 0)
            low = k - 1
        else:
            raise ValueError(f"conv_transpose: padding must be 'SAME', 'VALID' or pairs, got {padding!r}")
        return low, total - low
    low, high = padding
    return k - low - 1, k - high - 1


def conv_transpose(
    lhs,
    rhs,
    strides,
    padding,
    rhs_dilation=None,
    dimension_numbers=None,
    transpose_kernel=False,
    precision=None,
    preferred_element_type=None,
    use_consistent_padding=False,
):
    """Transposed (fractionally strided) convolution: the input is spread by `strides`.

    padding: "SAME" and "VALID" speak of the forward convolution whose transpose this is; (low, high) pairs pad the spread input, or, with
    use_consistent_padding, are the forward convolution's too (as in PyTorch). transpose_kernel reverses the kernel in space and exchanges
    its feature axes, so that the result is the gradient of the forward convolution with this kernel. Layout by default: NHWC, HWIO.
    """
    x, w = get_aval(lhs), get_aval(rhs)
    n = len(x.shape) - 2
    if dimension_numbers is None:
        if n + 2 not in _TRANSPOSE_LAYOUTS:
            raise ShapeError(f"conv_transpose: no default dimension_numbers for an input of shape {x.shape}")
        dimension_numbers = _TRANSPOSE_LAYOUTS[n + 2]
    dn = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    rhs_dilation = (1,) * n if rhs_dilation is None else tuple(rhs_dilation)
    if use_consistent_padding or padding in ("SAME", "VALID"):
        window = [dilate(k, d) for k, d in zip(_sizes(w.shape, dn.rhs_spec[2:]), rhs_dilation)]
        each = [padding] * n if isinstance(padding, str) else padding
        padding = tuple(_transpose_padding(k, s, p) for k, s, p in zip(window, strides, each))
    if transpose_kernel:
        rhs = rev(rhs, tuple(dn.rhs_spec[2:]))
        perm = list(range(n + 2))
        perm[dn.rhs_spec[0]], perm[dn.rhs_spec[1]] = dn.rhs_spec[1], dn.rhs_spec[0]
        rhs = transpose(rhs, perm)
    return conv_general_dilated(lhs, rhs, (1,) * n, padding, strides, rhs_dilation, dn, preferred_element_type=preferred_element_type)


def conv_general_dilated_patches(
    lhs,
    filter_shape,
    window_strides,
    padding,
    lhs_dilation=None,
    rhs_dilation=None,
    dimension_numbers=None,
    precision=None,
    preferred_element_type=None,
):
    """The windows that a convolution sees, laid out along the feature axis (im2col, unfold).

    filter_shape: the window's spatial shape. The result's features are (input feature, window...) flattened, in the order of
    dimension_numbers' rhs.

    >>> import fgrad.numpy as jnp
    >>> conv_general_dilated_patches(jnp.arange(4.0).reshape(1, 1, 4), (2,), (1,), "VALID")
    Array([[[0., 1., 2.],
            [1., 2., 3.]]], dtype=float32)
    """
    x, window, n = get_aval(lhs), tuple(filter_shape), len(get_aval(lhs).shape) - 2
    dn = conv_dimension_numbers(x.shape, (1, 1, *window), dimension_numbers)
    taps, features = math.prod(window), x.shape[dn.lhs_spec[1]]
    order = [sorted(dn.rhs_spec[2:]).index(a) for a in dn.rhs_spec[2:]]  # filter_shape's entry of each spatial dimension
    perm = [0] * len(dn.rhs_spec)
    for i, axis in enumerate((*dn.rhs_spec[:2], *sorted(dn.rhs_spec[2:]))):
        perm[axis] = i
    numbers = {
        "window_strides": window_strides,
        "padding": padding,
        "lhs_dilation": lhs_dilation,
        "rhs_dilation": rhs_dilation,
        "dimension_numbers": dn,
        "feature_group_count": features,
        "preferred_element_type": preferred_element_type,
    }
    kernel = ShapedArray(tuple((features * taps, 1, *window)[i] for i in perm), x.dtype)
    params = _conv_params(x, kernel, **numbers)
    out = conv_general_dilated_p.abstract_eval(x, kernel, **params)
    strides, reach = params["window_strides"], params["rhs_dilation"]
    sizes, counts = [window[i] for i in order], _sizes(out.shape, dn.out_spec[2:])
    blocks = any(s > 1 for s in strides) and all(r == 1 for r in reach)
    parts = math.prod(-(-k // s) for k, s in zip(sizes, strides)) if blocks else taps
    if parts > SLICES or 0 in x.shape or 0 in out.shape:
        square = (taps, taps)
        one_tap = convert_element_type(eq(broadcasted_iota("int32", square, 0), broadcasted_iota("int32", square, 1)), x.dtype)
        rhs = reshape(broadcast_in_dim(one_tap, (features, *square), (1, 2)), (features * taps, 1, *window))
        return conv_general_dilated(lhs, transpose(rhs, perm), **numbers)
    spread = [(lo, hi, d - 1) for (lo, hi), d in zip(params["padding"], params["lhs_dilation"])]
    cut = _windows_by_blocks if blocks else _windows_by_taps
    y = cut(transpose(lhs, dn.lhs_spec), spread, sizes, strides, reach, counts)  # (batch, feature, window..., place...)
    y = transpose(y, (0, 1, *(2 + order.index(i) for i in range(n)), *range(2 + n, 2 + 2 * n)))
    y = reshape(y, (y.shape[0], features * taps, *counts))
    y = transpose(y, [dn.out_spec.index(axis) for axis in range(n + 2)])
    return y if out.dtype == y.dtype else convert_element_type(y, out.dtype)


def _windows_by_taps(x, spread, sizes, strides, reach, counts):
    """The windows of x (batch, feature, spatial...), a slice for each of their positions side by side."""
    x, parts = pad(x, full((), 0, get_aval(x).dtype), [(0, 0, 0)] * 2 + spread), []
    shape = get_aval(x).shape[:2]
    for at in itertools.product(*map(range, sizes)):
        first = [i * r for i, r in zip(at, reach)]
        limits = [f + s * (m - 1) + 1 for f, s, m in zip(first, strides, counts)]
        parts.append(expand_dims(slice(x, (0, 0, *first), (*shape, *limits), (1, 1, *strides)), (2,)))
    return reshape(concatenate(parts, 2), (*shape, *sizes, *counts))


def _windows_by_blocks(x, spread, sizes, strides, reach, counts):
    """The same where windows overlap by whole strides at most: of blocks as long as a stride each window takes the next few, so that
    slices are as few, and so are the terms of each element's gradient."""
    n, shape = len(sizes), get_aval(x).shape
    taken = [-(-k // s) for k, s in zip(sizes, strides)]
    lengths = [m + q - 1 for m, q in zip(counts, taken)]
    margins = []
    for size, (lo, _, gap), length, s in zip(shape[2:], spread, lengths, strides):
        margins.append((lo, length * s - lo - dilate(size, gap + 1), gap))
    x = pad(x, full((), 0, get_aval(x).dtype), [(0, 0, 0)] * 2 + margins)
    x = reshape(x, (*shape[:2], *(v for pair in zip(lengths, strides) for v in pair)))
    x = transpose(x, (0, 1, *range(3, 2 * n + 3, 2), *range(2, 2 * n + 2, 2)))

    def windows(*at):
        d = len(at)
        if d == n:
            first = (0,) * (n + 2) + at
            within = [min(s, k - q * s) for q, s, k in zip(at, strides, sizes)]
            return slice(x, first, (*shape[:2], *within, *(q + m for q, m in zip(at, counts))))
        parts = [windows(*at, q) for q in range(taken[d])]
        return concatenate(parts, 2 + d) if len(parts) > 1 else parts[0]

    return windows()


def conv_general_dilated_local(
    lhs,
    rhs,
    window_strides,
    padding,
    filter_shape,
    lhs_dilation=None,
    rhs_dilation=None,
    dimension_numbers=None,
    precision=None,
):
    """A convolution with a kernel of its own at each output position (a locally connected layer).

    rhs's spatial axes are those of the output; its input feature axis holds (input feature, window...) as conv_general_dilated_patches
    lays them out.
    """
    patches = conv_general_dilated_patches(lhs, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers)
    dn = conv_dimension_numbers(get_aval(lhs).shape, (1, 1, *filter_shape), dimension_numbers)
    spatial = sorted(zip(dn.out_spec[2:], dn.rhs_spec[2:]))
    left, right = tuple(a for a, _ in spatial), tuple(b for _, b in spatial)
    out = dot_general(patches, rhs, (((dn.out_spec[1],), (dn.rhs_spec[1],)), (left, right)))
    n = len(get_aval(out).shape)
    perm = [i for i in range(n - 2)]  # spatial axes in the output's order; put batch and features where they belong
    for axis, source in sorted(zip(dn.out_spec[:2], (n - 2, n - 1))):
        perm.insert(axis, source)
    return transpose(out, perm)


# --- shapes -------------------------------------------------------------------------------------------------------------


def conv_shape_tuple(lhs_shape, rhs_shape, strides, pads, batch_group_count=1):
    """Shape of a convolution of (dilated) shapes in the order batch, feature, spatial."""
    if isinstance(pads, str):
        pads = padtype_to_pads(lhs_shape[2:], rhs_shape[2:], strides, pads)
    if len(pads) != len(lhs_shape) - 2:
        raise TypeError(f"Wrong number of explicit pads for convolution: expected {len(lhs_shape) - 2}, got {len(pads)}.")
    padded = [n + sum(p) for n, p in zip(lhs_shape[2:], pads)]
    if any(n < 0 for n in padded):
        raise ShapeError(f"negative padding {pads} is larger than the spatial sizes {lhs_shape[2:]}")
    spatial = [max(0, (n - k) // s + 1) for n, k, s in zip(padded, rhs_shape[2:], strides)]
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *spatial)


def _ordered(canonical, axes):
    out = [0] * len(axes)
    for n, axis in zip(canonical, axes):
        out[axis] = n
    return tuple(out)


def conv_general_shape_tuple(lhs_shape, rhs_shape, window_strides, padding, dimension_numbers):
    """Shape of a convolution of shapes in the order of three layout strings."""
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    return _ordered(conv_shape_tuple(_sizes(lhs_shape, lhs), _sizes(rhs_shape, rhs), window_strides, padding), out)


def conv_transpose_shape_tuple(lhs_shape, rhs_shape, window_strides, padding, dimension_numbers):
    """Shape of conv_transpose of shapes in the order of three layout strings; padding is "SAME", "VALID" or pairs for the spread input."""
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    x, w = _sizes(lhs_shape, lhs), _sizes(rhs_shape, rhs)
    if isinstance(padding, str):
        padding = [_transpose_padding(k, s, padding) for k, s in zip(w[2:], window_strides)]
    spatial = [(n - 1) * s - k + 2 + sum(p) for n, k, s, p in zip(x[2:], w[2:], window_strides, padding)]
    return _ordered((x[0], w[0], *spatial), out)
