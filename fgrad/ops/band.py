"""band: weighted sums of a few neighbours along one axis, with weights that are known."""

import functools
import itertools

import numpy as np

from fgrad import dtypes
from fgrad.core import Primitive, ShapedArray
from fgrad.errors import ShapeError
from fgrad.ops.casts import convert_element_type
from fgrad.ops.rules import linear_jvp

# first: of each element along the axis of the result, its first neighbour; weights: of each, those of its neighbours from there on.


def _aval(x, *, axis, first, weights):
    if not 0 <= axis < len(x.shape) or len(first) != len(weights):
        raise ShapeError(f"band: axis {axis} of shape {x.shape}, {len(first)} neighbours, {len(weights)} weights")
    n = x.shape[axis]
    if any(not 0 <= k <= n - len(w) for k, w in zip(first, weights)):
        raise ShapeError(f"band: there are neighbours outside of axis {axis} of shape {x.shape}")
    if not dtypes.is_float(x.dtype):
        raise TypeError(f"band: x must be of floats, got {x.dtype.name}")
    return ShapedArray((*x.shape[:axis], len(first), *x.shape[axis + 1 :]), x.dtype, x.weak_type)


def _lower(ctx, ins, params, out):
    aval = out[0]
    if aval.dtype.itemsize < 4:
        f32 = dtypes.FLOAT32
        return ctx.compose(lambda x: [convert_element_type(band_p.bind(convert_element_type(x, f32), **params), aval.dtype)], ins)[0]
    weights = params["weights"]
    ip = (params["axis"], *params["first"], *[len(w) for w in weights])
    return ctx.kernel("band", ins, out, ip=ip, fp=tuple(itertools.chain(*weights)))[0]


@functools.lru_cache(256)
def _transposed(n, first, weights):
    """The same of n elements that a band is of."""
    matrix = np.zeros((n, len(first)))
    for j, (k, w) in enumerate(zip(first, weights)):
        matrix[k : k + len(w), j] = w
    return of_matrix(matrix)


def of_matrix(matrix):
    """(first, weights) of the rows of a matrix, from the first to the last one that is not zero."""
    first, weights = [], []
    for row in np.asarray(matrix, np.float64):
        used = np.flatnonzero(row)
        begin, end = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 0)
        first.append(begin)
        weights.append(tuple(row[begin:end].tolist()))
    return tuple(first), tuple(weights)


def _transpose(cts, x, *, axis, first, weights):
    return [band(cts[0], axis, *_transposed(x.aval.shape[axis], first, weights))]


def _batch(size, args, dims, *, axis, first, weights):
    return band(args[0], axis + (dims[0] <= axis), first, weights), dims[0]


band_p = Primitive("band", abstract_eval=_aval, lower=_lower, transpose=_transpose, batch=_batch)
band_p.jvp = linear_jvp(band_p)


def band(x, axis, first, weights):
    """Along an axis, element j is the sum of weights[j][t] * x[first[j] + t].

    >>> import fgrad.numpy as jnp
    >>> band(jnp.array([1.0, 2.0, 4.0]), 0, (0, 1), ((0.5, 0.5), (1.0, -1.0)))
    Array([ 1.5, -2. ], dtype=float32)
    """
    return band_p.bind(x, axis=axis, first=first, weights=weights)
