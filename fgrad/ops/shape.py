"""Shape primitives: broadcast, reshape, transpose, squeeze, slice, rev, concatenate, pad, iota.

Those that only relabel memory lower to views and cost nothing.
"""

import functools
import operator

import numpy as np

from fgrad import dtypes
from fgrad.config import config
from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.core.binding import install_broadcast
from fgrad.errors import AxisError, ShapeError
from fgrad.ops.elementwise import add, like, neg, select
from fgrad.ops.reduce import reduce_sum, set_prod_ops
from fgrad.ops.rules import (
    Zero,
    as_result,
    bdim_at_front,
    full,
    instantiate,
    is_linear,
    linear_jvp,
    move_axis,
    set_shape_ops,
    zero_of,
)


def canonical_shape(shape, what="shape"):
    """A shape argument as a tuple of non-negative ints."""
    if type(shape) is tuple and all([type(d) is int and d >= 0 for d in shape]):
        return shape
    try:
        out = tuple(map(operator.index, shape)) if np.iterable(shape) else (operator.index(shape),)
    except TypeError as e:
        raise TypeError(
            f"Shapes must be 1D sequences of concrete values of integer type, got {shape}: {what} must be integers known while tracing. {e}"
        ) from None
    for d in out:
        if d < 0:
            raise ShapeError(f"{what} must have non-negative sizes, got {out}")
    return out


# --- broadcast_in_dim -------------------------------------------------------------------------------------------------


@functools.lru_cache(10_000)
def _broadcast_aval(x, *, shape, broadcast_dimensions):
    dims = broadcast_dimensions
    if len(dims) != len(x.shape):
        raise ShapeError(f"broadcast_in_dim: {len(dims)} broadcast_dimensions for an operand of shape {x.shape}")
    for n, d in zip(x.shape, dims):
        if not 0 <= d < len(shape):
            raise ShapeError(f"broadcast_in_dim: dimension {d} is out of range for shape {shape}")
        if n != shape[d] and n != 1:
            raise ShapeError(f"broadcast_in_dim: operand {x.shape} does not broadcast to {shape} along dimensions {dims}")
    if any(a >= b for a, b in zip(dims, dims[1:])):
        raise ShapeError(f"broadcast_in_dim: broadcast_dimensions must be distinct and rise, got {dims}")
    return ShapedArray(shape, x.dtype, x.weak_type)


def _broadcast_batch(axis, args, dims, *, shape, broadcast_dimensions):
    x = move_axis(args[0], dims[0], 0)
    return broadcast_in_dim(x, (axis.size, *shape), (0, *[d + 1 for d in broadcast_dimensions])), 0


def _broadcast_transpose(cts, x, *, shape, broadcast_dimensions):
    ct = cts[0]
    new = [i for i in range(len(shape)) if i not in broadcast_dimensions]
    ones = [d for n, d in zip(x.aval.shape, broadcast_dimensions) if n == 1 and shape[d] != 1]
    out = reduce_sum(ct, tuple(sorted(new + ones)))
    return [reshape(out, x.aval.shape)]


broadcast_in_dim_p = Primitive(
    "broadcast_in_dim",
    abstract_eval=_broadcast_aval,
    batch=_broadcast_batch,
    transpose=_broadcast_transpose,
    kind="view",
    lower=lambda ctx, ins, params, out: ctx.broadcast(ins[0], params["shape"], params["broadcast_dimensions"]),
)
broadcast_in_dim_p.jvp = linear_jvp(broadcast_in_dim_p)
install_broadcast(broadcast_in_dim_p, config)


def broadcast_in_dim(operand, shape, broadcast_dimensions, *, out_sharding=None):
    """operand spread over `shape`; its axis i becomes axis broadcast_dimensions[i]."""
    aval = get_aval(operand)
    dims = tuple(broadcast_dimensions)
    if aval.shape == tuple(shape) and aval.shape != () and type(operand) is not np.ndarray and dims == tuple(range(aval.ndim)):
        return operand
    if any(a > b for a, b in zip(dims, dims[1:])):
        order = sorted(range(aval.ndim), key=dims.__getitem__) if len(dims) == aval.ndim else range(aval.ndim)
        operand, dims = transpose(operand, tuple(order)), tuple(sorted(dims))
    return broadcast_in_dim_p.bind(operand, shape=tuple(shape), broadcast_dimensions=dims)


def broadcast(operand, sizes, *, out_sharding=None):
    """New leading axes of `sizes`."""
    shape = get_aval(operand).shape
    sizes = canonical_shape(sizes)
    return broadcast_in_dim(operand, (*sizes, *shape), tuple(range(len(sizes), len(sizes) + len(shape))))


# --- reshape, squeeze, expand_dims ------------------------------------------------------------------------------------


@functools.lru_cache(10_000)
def _reshape_aval(x, *, new_sizes):
    out = ShapedArray(new_sizes, x.dtype, x.weak_type)
    if out.size != x.size:
        raise ShapeError(f"reshape total size must be unchanged: got {x.shape} ({x.size} elements) to {new_sizes} ({out.size} elements)")
    return out


reshape_p = Primitive(
    "reshape",
    abstract_eval=_reshape_aval,
    kind="view",
    lower=lambda ctx, ins, params, out: ctx.reshape(ins[0], params["new_sizes"]),
    batch=lambda axis, args, dims, *, new_sizes: (reshape(move_axis(args[0], dims[0], 0), (axis.size, *new_sizes)), 0),
    transpose=lambda cts, x, *, new_sizes: [reshape(cts[0], x.aval.shape)],
)
reshape_p.jvp = linear_jvp(reshape_p)


def reshape(operand, new_sizes, dimensions=None, *, out_sharding=None):
    """operand with shape new_sizes, in row-major order."""
    if dimensions is not None:
        operand = transpose(operand, dimensions)
    new_sizes = canonical_shape(new_sizes)
    if get_aval(operand).shape == new_sizes:
        return as_result(operand)
    return reshape_p.bind(operand, new_sizes=new_sizes)


def squeeze(array, dimensions):
    """array without the size-1 axes `dimensions`."""
    shape = get_aval(array).shape
    dims = {_axis(d, len(shape), "squeeze") for d in dimensions}
    if len(dims) != len(tuple(dimensions)):
        raise ValueError(f"squeeze: dimensions are not unique: {tuple(dimensions)}")
    for d in dims:
        if shape[d] != 1:
            raise ShapeError(
                f"cannot select an axis to squeeze out which has size not equal to one, got shape={shape} and "
                f"dimensions={tuple(dimensions)}"
            )
    return reshape(array, tuple(n for i, n in enumerate(shape) if i not in dims))


def expand_dims(array, dimensions):
    """array with new axes of size 1 at `dimensions` of the result."""
    shape = list(get_aval(array).shape)
    n = len(shape) + len(tuple(dimensions))
    dims = sorted(_axis(d, n, "expand_dims") for d in dimensions)
    if len(set(dims)) != len(dims):
        raise ValueError(f"repeated axis in lax.expand_dims: {tuple(dimensions)}")
    for d in dims:
        shape.insert(d, 1)
    return reshape(array, tuple(shape))


def _axis(d, n, what):
    d = operator.index(d)
    if not -n <= d < n:
        raise AxisError(f"{what}: axis {d} is out of bounds for array of dimension {n}")
    return d % n


# --- transpose --------------------------------------------------------------------------------------------------------


@functools.lru_cache(10_000)
def _transpose_aval(x, *, permutation):
    if sorted(permutation) != list(range(len(x.shape))):
        raise ShapeError(
            f"transpose permutation isn't a permutation of operand dimensions, got permutation {permutation} for operand shape {x.shape}."
        )
    return ShapedArray(tuple(x.shape[p] for p in permutation), x.dtype, x.weak_type)


transpose_p = Primitive(
    "transpose",
    abstract_eval=_transpose_aval,
    kind="view",
    lower=lambda ctx, ins, params, out: ctx.transpose(ins[0], params["permutation"]),
)
transpose_p.jvp = linear_jvp(transpose_p)
transpose_p.transpose = lambda cts, x, *, permutation: [transpose(cts[0], tuple([permutation.index(i) for i in range(len(permutation))]))]


def _transpose_batch(axis, args, dims, *, permutation):
    d = dims[0]
    return transpose(args[0], (d, *[p + (p >= d) for p in permutation])), 0


transpose_p.batch = _transpose_batch


def transpose(operand, permutation):
    """operand with its axes permuted: axis i of the result is axis permutation[i] of operand."""
    if type(permutation) is not tuple or not all([type(p) is int for p in permutation]):
        permutation = tuple(map(operator.index, permutation))
    if permutation == tuple(range(len(get_aval(operand).shape))):
        return as_result(operand)
    return transpose_p.bind(operand, permutation=permutation)


# --- slice and rev ----------------------------------------------------------------------------------------------------


@functools.lru_cache(10_000)
def _slice_aval(x, *, start_indices, limit_indices, strides):
    n = len(x.shape)
    if not len(start_indices) == len(limit_indices) == len(strides) == n:
        raise ShapeError(
            f"slice: start_indices {start_indices}, limit_indices {limit_indices} and strides {strides} must each have one "
            f"entry per axis of {x.shape}"
        )
    for size, lo, hi, st in zip(x.shape, start_indices, limit_indices, strides):
        if not 0 <= lo <= hi <= size or st < 1:
            raise ShapeError(f"slice: [{lo}:{hi}:{st}] is not inside an axis of size {size} (shape {x.shape})")
    return ShapedArray(tuple(-(-(hi - lo) // st) for lo, hi, st in zip(start_indices, limit_indices, strides)), x.dtype, x.weak_type)


def _slice_lower(ctx, ins, params, out):
    x = ins[0]
    offset = sum(lo * s for lo, s in zip(params["start_indices"], x.strides))
    return ctx.view(x, out[0].shape, tuple(s * k for s, k in zip(x.strides, params["strides"])), offset if out[0].size else 0)


def _slice_batch(axis, args, dims, *, start_indices, limit_indices, strides):
    d = dims[0]

    def put(t, v):
        return (*t[:d], v, *t[d:])

    return slice_p.bind(
        args[0], start_indices=put(start_indices, 0), limit_indices=put(limit_indices, axis.size), strides=put(strides, 1)
    ), d


def _slice_transpose(cts, x, *, start_indices, limit_indices, strides):
    ct, config = cts[0], []
    for size, lo, n, st in zip(x.aval.shape, start_indices, get_aval(ct).shape, strides):
        end = lo + (n - 1) * st + 1 if n else lo
        config.append((lo, size - end, st - 1))
    return [pad(ct, like(ct, 0), tuple(config))]


slice_p = Primitive("slice", abstract_eval=_slice_aval, lower=_slice_lower, batch=_slice_batch, transpose=_slice_transpose, kind="view")
slice_p.jvp = linear_jvp(slice_p)


def slice(operand, start_indices, limit_indices, strides=None):
    """The box [start, limit) of operand, every strides[i]-th element of axis i."""
    shape = get_aval(operand).shape
    strides = (1,) * len(shape) if strides is None else tuple(strides)
    start_indices, limit_indices = tuple(map(operator.index, start_indices)), tuple(map(operator.index, limit_indices))
    if limit_indices == shape and not any(start_indices) and all(s == 1 for s in strides):
        return as_result(operand)
    return slice_p.bind(operand, start_indices=start_indices, limit_indices=limit_indices, strides=strides)


def slice_in_dim(operand, start_index, limit_index, stride=1, axis=0):
    """Python's operand[start:limit:stride] along one axis (None and negative indices as in Python)."""
    shape = get_aval(operand).shape
    axis = _axis(axis, len(shape), "slice_in_dim")
    n = shape[axis]
    lo = 0 if start_index is None else operator.index(start_index)
    hi = n if limit_index is None else operator.index(limit_index)
    lo, hi = lo + n * (lo < 0), hi + n * (hi < 0)
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], limits[axis], strides[axis] = lo, hi, operator.index(stride)
    return slice(operand, starts, limits, strides)


def index_in_dim(operand, index, axis=0, keepdims=True):
    """operand[index] along one axis for a static index."""
    shape = get_aval(operand).shape
    axis = _axis(axis, len(shape), "index_in_dim")
    i = operator.index(index)
    if not -shape[axis] <= i < shape[axis]:
        raise IndexError(f"index {i} is out of bounds for axis {axis} with size {shape[axis]}")
    i %= shape[axis]
    out = slice_in_dim(operand, i, i + 1, axis=axis)
    return out if keepdims else squeeze(out, (axis,))


def _rev_aval(x, *, dimensions):
    if len(set(dimensions)) != len(dimensions) or any(not 0 <= d < len(x.shape) for d in dimensions):
        raise ShapeError(f"rev: dimensions {dimensions} must be distinct axes of shape {x.shape}")
    return x


rev_p = Primitive(
    "rev",
    abstract_eval=_rev_aval,
    lower=lambda ctx, ins, params, out: ctx.reversed(ins[0], params["dimensions"]),
    kind="view",
    transpose=lambda cts, x, *, dimensions: [rev(cts[0], dimensions)],
    batch=lambda axis, args, dims, *, dimensions: (rev(args[0], tuple(d + (d >= dims[0]) for d in dimensions)), dims[0]),
)
rev_p.jvp = linear_jvp(rev_p)


def rev(operand, dimensions):
    """operand reversed along `dimensions`."""
    return rev_p.bind(operand, dimensions=tuple(dimensions)) if dimensions else as_result(operand)


# --- concatenate ------------------------------------------------------------------------------------------------------


def _concat_aval(*avals, dimension):
    first = avals[0]
    if not 0 <= dimension < len(first.shape):
        raise ShapeError(f"concatenate dimension out of bounds: dimension {dimension} for shapes {', '.join(str(a.shape) for a in avals)}.")
    for a in avals:
        if a.dtype != first.dtype:
            names = ", ".join(x.dtype.name for x in avals)
            raise TypeError(f"lax.concatenate requires arguments to have the same dtypes, got {names}.")
        if len(a.shape) != len(first.shape):
            shapes = ", ".join(str(x.shape) for x in avals)
            raise ShapeError(f"Cannot concatenate arrays with different numbers of dimensions: got {shapes}.")
        if a.shape[:dimension] + a.shape[dimension + 1 :] != first.shape[:dimension] + first.shape[dimension + 1 :]:
            raise ShapeError(
                "Cannot concatenate arrays with shapes that differ in dimensions other than the one being concatenated: concatenating "
                f"along dimension {dimension} for shapes {', '.join(str(x.shape) for x in avals)}."
            )
    size = sum(a.shape[dimension] for a in avals)
    return ShapedArray((*first.shape[:dimension], size, *first.shape[dimension + 1 :]), first.dtype, all(a.weak_type for a in avals))


def _concat_jvp(primals, tangents, *, dimension):
    out = concatenate_p.bind(*primals, dimension=dimension)
    if all(type(t) is Zero for t in tangents):
        return out, zero_of(out)
    return out, concatenate_p.bind(*[instantiate(t) for t in tangents], dimension=dimension)


def _concat_transpose(cts, *args, dimension):
    out, at = [], 0
    for x in args:
        n = (x.aval if is_linear(x) else get_aval(x)).shape[dimension]
        out.append(slice_in_dim(cts[0], at, at + n, axis=dimension) if is_linear(x) else None)
        at += n
    return out


def _concat_batch(axis, args, dims, *, dimension):
    return concatenate_p.bind(*[bdim_at_front(x, d, axis.size) for x, d in zip(args, dims)], dimension=dimension + 1), 0


concatenate_p = Primitive(
    "concatenate",
    abstract_eval=_concat_aval,
    jvp=_concat_jvp,
    transpose=_concat_transpose,
    batch=_concat_batch,
    lower=lambda ctx, ins, params, out: ctx.kernel("concatenate", ins, out, ip=(params["dimension"],), contiguous=False)[0],
)


def concatenate(operands, dimension):
    """Arrays joined along an existing axis."""
    operands = list(operands)
    if not operands:
        raise ValueError("concatenate requires a non-empty sequences of arrays")
    return as_result(operands[0]) if len(operands) == 1 else concatenate_p.bind(*operands, dimension=operator.index(dimension))


# --- pad --------------------------------------------------------------------------------------------------------------


def _pad_aval(x, value, *, padding_config):
    if x.dtype != value.dtype:
        raise TypeError(f"lax.pad requires arguments to have the same dtypes, got {x.dtype.name}, {value.dtype.name}.")
    if value.shape != () or len(padding_config) != len(x.shape):
        raise ShapeError(
            "length of padding_config must equal the number of axes of operand, and the value be a scalar, "
            f"got {padding_config}, {x.shape} and {value.shape}"
        )
    shape = []
    for n, (lo, hi, inner) in zip(x.shape, padding_config):
        size = lo + hi + n + (n - 1) * inner if n else lo + hi
        if size < 0 or inner < 0:
            raise ShapeError(
                f"Dimension size after padding is not at least 0: pad of shape {x.shape} with padding_config {padding_config}."
            )
        shape.append(size)
    return ShapedArray(tuple(shape), x.dtype, x.weak_type and value.weak_type)


def _pad_lower(ctx, ins, params, out):
    config = params["padding_config"]
    return ctx.kernel("pad", ins, out, ip=[v for axis in config for v in axis], contiguous=False)[0] if config else ins[0]


def _pad_jvp(primals, tangents, *, padding_config):
    out = pad_p.bind(*primals, padding_config=padding_config)
    if all(type(t) is Zero for t in tangents):
        return out, zero_of(out)
    return out, pad_p.bind(*[instantiate(t) for t in tangents], padding_config=padding_config)


def _pad_transpose(cts, x, value, *, padding_config):
    ct = cts[0]
    lo, hi, inner = zip(*padding_config) if padding_config else ((), (), ())
    crop = None
    if is_linear(x) or is_linear(value):
        unpadded = pad(ct, like(ct, 0), tuple((-a, -b, 0) for a, b in zip(lo, hi)))
        crop = slice(unpadded, (0,) * len(lo), get_aval(unpadded).shape, tuple(i + 1 for i in inner))
    total = None
    if is_linear(value):
        axes = tuple(range(len(lo)))
        total = add(reduce_sum(ct, axes), neg(reduce_sum(crop, axes)))
    return [crop if is_linear(x) else None, total]


def _pad_batch(axis, args, dims, *, padding_config):
    x, value = args
    if dims[1] is None:
        d = dims[0]
        return pad_p.bind(x, value, padding_config=(*padding_config[:d], (0, 0, 0), *padding_config[d:])), d
    # One padding value per example: pad with zeros, then put the values where a padded mask says so.
    x = bdim_at_front(x, dims[0], axis.size)
    config = ((0, 0, 0), *padding_config)
    inside = pad(full(get_aval(x).shape, True, dtypes.BOOL), np.bool_(False), config)
    out = pad(x, like(x, 0), config)
    shape = get_aval(out).shape
    return select(inside, out, broadcast_in_dim(value, shape, (0,))), 0


pad_p = Primitive("pad", abstract_eval=_pad_aval, jvp=_pad_jvp, transpose=_pad_transpose, batch=_pad_batch, lower=_pad_lower)


_KINDS_OF = {bool: "b", int: "iu", float: "fV", complex: "c"}


def pad(operand, padding_value, padding_config):
    """operand with (lo, hi, interior) padding per axis; negative lo or hi crop."""
    config = tuple((operator.index(lo), operator.index(hi), operator.index(interior)) for lo, hi, interior in padding_config)
    aval = get_aval(operand)
    if not any(any(c) for c in config) and len(config) == len(aval.shape):
        return as_result(operand)
    if aval.dtype.kind in _KINDS_OF.get(type(padding_value), ""):
        padding_value = aval.dtype.type(padding_value)
    return pad_p.bind(operand, padding_value, padding_config=config)


# --- iota -------------------------------------------------------------------------------------------------------------


def _iota_aval(*, dtype, shape, dimension):
    if not 0 <= dimension < len(shape):
        raise ShapeError(f"iota: dimension {dimension} is out of range for shape {shape}")
    if dtype == dtypes.BOOL:
        raise TypeError("iota does not accept dtype bool")
    return ShapedArray(shape, dtype)


def _iota_lower(ctx, ins, params, out_avals):
    """One axis in memory, spread over the others: what is computed of it reads a row or a column."""
    aval, axis = out_avals[0], params["dimension"]
    row = ctx.kernel("iota", [], [aval.update(shape=(aval.shape[axis],))], ip=(0,))[0]
    return ctx.broadcast(row, aval.shape, (axis,))


iota_p = Primitive(
    "iota",
    abstract_eval=_iota_aval,
    lower=_iota_lower,
)
iota_p.jvp = lambda primals, tangents, **params: (lambda out: (out, zero_of(out)))(iota_p.bind(**params))
iota_p.batch = lambda axis, args, dims, **params: (iota_p.bind(**params), None)


def broadcasted_iota(dtype, shape, dimension, *, out_sharding=None):
    """Counts 0, 1, 2, ... along one axis of `shape`."""
    return iota_p.bind(dtype=dtypes.canonicalize_dtype(dtype), shape=canonical_shape(shape), dimension=operator.index(dimension))


def iota(dtype, size):
    """0, 1, ..., size - 1."""
    return broadcasted_iota(dtype, (size,), 0)


set_shape_ops(broadcast_in_dim=broadcast_in_dim, transpose=transpose)
set_prod_ops(reshape=reshape)
