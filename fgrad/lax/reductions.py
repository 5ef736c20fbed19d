"""reduce and associative_scan for any function, and the reductions that no kernel has."""

import functools
import math

import numpy as np

from fgrad import array_tree as tree
from fgrad import dtypes
from fgrad.control.common import flat_fun, run, strong_leaf
from fgrad.core import ShapedArray, get_aval, stage, to_array
from fgrad.errors import ShapeError
from fgrad.numpy.transcendental import logaddexp
from fgrad.ops import cumulative
from fgrad.ops import elementwise as ew
from fgrad.ops.elementwise import bitwise_and, bitwise_or, bitwise_xor
from fgrad.ops.reduce import argaxis, reduce_max, reduce_min, reduce_prod, reduce_sum
from fgrad.ops.reduce import reduce_and as _bool_and
from fgrad.ops.reduce import reduce_or as _bool_or
from fgrad.ops.rules import broadcast_to, full
from fgrad.ops.shape import broadcasted_iota, concatenate, expand_dims, reshape, rev, slice_in_dim, transpose
from fgrad.ops.shape import slice as _slice
from fgrad.ops.sort import sort, top_k
from fgrad.transforms.vmap import Axis, batch_flat_front


def _axes(axes, ndim, what):
    out = tuple(a + ndim if a < 0 else a for a in map(int, axes))
    if len(set(out)) != len(out) or any(not 0 <= a < ndim for a in out):
        raise ShapeError(f"{what}: axes {tuple(axes)} must be distinct axes of an array of dimension {ndim}")
    return out


def _rows(x, axes):
    """x with `axes` merged in front: (product of their sizes, rest)."""
    shape = get_aval(x).shape
    rest = [i for i in range(len(shape)) if i not in axes]
    n = 1
    for a in axes:
        n *= shape[a]
    return reshape(transpose(x, (*sorted(axes), *rest)), (n, *[shape[i] for i in rest]))


def _every_other(x, start, stop, axis=0):
    """x[start:stop:2] along an axis."""
    shape = get_aval(x).shape
    lo, hi, step = [0] * len(shape), list(shape), [1] * len(shape)
    lo[axis], hi[axis], step[axis] = start, stop, 2
    return _slice(x, lo, hi, step)


def _fold(xs, combine):
    """Combine the rows of arrays (n > 0 of them) in pairs of neighbours until one is left."""
    n = get_aval(xs[0]).shape[0]
    while n > 1:
        even = n - n % 2
        pairs = combine([_every_other(x, 0, even) for x in xs], [_every_other(x, 1, even) for x in xs])
        xs = [concatenate([p, slice_in_dim(x, even, n)], 0) for p, x in zip(pairs, xs)] if n % 2 else pairs
        n = (n + 1) // 2
    return [reshape(x, get_aval(x).shape[1:]) for x in xs]


def _bitwise(name, op, identity, on_bool):
    def fun(operand, axes):
        aval = get_aval(operand)
        if dtypes.kind_of(aval.dtype) not in "biu":
            raise TypeError(f"{name} does not accept dtype {aval.dtype.name}. Accepted dtypes are boolean and integer.")
        axes = _axes(axes, aval.ndim, name)
        if aval.dtype.kind == "b" and on_bool is not None:
            return on_bool(operand, axes)
        rows = _rows(operand, axes)
        if get_aval(rows).shape[0] == 0:
            return full(get_aval(rows).shape[1:], np.array(identity).astype(aval.dtype), aval.dtype)
        return _fold([rows], lambda a, b: [op(a[0], b[0])])[0]

    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = f"""{op.__name__} of the elements along `axes`, for booleans and integers."""
    return fun


reduce_and = _bitwise("reduce_and", bitwise_and, -1, _bool_and)
reduce_or = _bitwise("reduce_or", bitwise_or, 0, _bool_or)
reduce_xor = _bitwise("reduce_xor", bitwise_xor, 0, None)
_KNOWN = {
    "add": reduce_sum,
    "mul": reduce_prod,
    "max": reduce_max,
    "min": reduce_min,
    "and": reduce_and,
    "or": reduce_or,
    "xor": reduce_xor,
}


SHORT = 1024  # floats along an axis whose associative scan goes in order: errors of 1e6 would be 1e-4 to 1e-2, those of a tree are 1e-7
_RUNNING = {"add": cumulative.cumsum, "mul": cumulative.cumprod, "max": cumulative.cummax, "min": cumulative.cummin}


def _monoid(jaxpr, known=_KNOWN):
    """The reduction of `known` that a computation on two arrays is, if it is one primitive applied to its two arguments."""
    if len(jaxpr.eqns) != 1 or len(jaxpr.invars) != 2:
        return None
    (eqn,) = jaxpr.eqns
    same = len(eqn.invars) == 2 and {*map(id, eqn.invars)} == {*map(id, jaxpr.invars)}
    return known.get(eqn.primitive.name) if same and jaxpr.outvars[0] is eqn.outvars[0] else None


def reduce(operands, init_values, computation, dimensions, out_sharding=None):
    """Reduce arrays along `dimensions` by computation(x, y), starting from init_values.

    operands, init_values: an array and a scalar, or trees of them; the arrays have one shape. computation takes two trees of
    scalars and gives one; it must be associative. add, mul, max, min, and, or and xor run as single reductions; other functions
    are applied to neighbours in pairs, in order, log2(n) times. Raises TypeError where computation changes structure or dtypes.

    >>> import fgrad.numpy as jnp
    >>> from fgrad import lax
    >>> lax.reduce(jnp.arange(6.).reshape(2, 3), 0., lax.add, (1,))
    Array([ 3., 12.], dtype=float32)
    """
    xs, treedef = tree.flatten(operands)
    inits, init_tree = tree.flatten(init_values)
    if not xs or treedef != init_tree:
        raise TypeError(f"reduce: operands and init_values must have one structure, got {treedef} and {init_tree}")
    xs = [strong_leaf(x) for x in xs]
    shape = get_aval(xs[0]).shape
    if any(get_aval(x).shape != shape for x in xs):
        raise ShapeError(f"reduce: operands must have one shape, got {', '.join(str(get_aval(x).shape) for x in xs)}")
    inits = [_init(i, x) for i, x in zip(inits, xs)]
    axes = _axes(dimensions, len(shape), "reduce")
    scalars = [ShapedArray((), get_aval(x).dtype) for x in xs]
    out_tree = [None]
    args_tree = tree.structure((operands, init_values))
    jaxpr = stage(flat_fun(computation, args_tree, out_tree), [*scalars, *scalars], "computation")
    if out_tree[0] != treedef or any((a.shape, a.dtype) != (s.shape, s.dtype) for a, s in zip(jaxpr.out_avals, scalars)):
        raise TypeError(
            f"reduce: computation must return scalars like its arguments, {', '.join(map(str, scalars))} in {treedef}, but it "
            f"returned {', '.join(map(str, jaxpr.out_avals))} in {out_tree[0]}"
        )

    def combine(a, b):
        """The computation over arrays, element by element."""
        outer = get_aval(a[0]).shape
        flat = [reshape(x, (get_aval(x).size,)) for x in (*a, *b)]
        out = batch_flat_front(lambda *s: run(jaxpr, *s), Axis(get_aval(flat[0]).size), [0] * len(flat), flat)
        return [reshape(o, outer) for o in out]

    known = _monoid(jaxpr.jaxpr)
    if known is not None:
        out = [known(xs[0], axes)]
    else:
        rows = [_rows(x, axes) for x in xs]
        out = _fold(rows, combine) if get_aval(rows[0]).shape[0] else None
    rest = tuple(n for i, n in enumerate(shape) if i not in axes)
    starts = [broadcast_to(i, rest) for i in inits]
    if out is None or not get_aval(out[0]).size:
        return tree.unflatten(treedef, starts)
    return tree.unflatten(treedef, combine(starts, out))


def _init(init, x):
    dtype = get_aval(x).dtype
    if get_aval(init).shape:
        raise ShapeError(f"reduce: init_values must be scalars, got {get_aval(init)}")
    if type(init) in (bool, int, float, complex):
        return to_array(dtype.type(init))
    if get_aval(init).dtype != dtype:
        raise TypeError(f"reduce: an init value of {get_aval(init).dtype.name} for an operand of {dtype.name}")
    return init


def associative_scan(fn, elems, reverse=False, axis=0):
    """All running combinations of the slices of `elems` along `axis` under the associative fn(a, b), in O(log n) steps.

    elems: a tree of arrays of one size along `axis`; fn takes and gives such trees, and works on many slices at once.
    reverse: from the end, the later slices as fn's first argument. Sums, products, maxima and minima of one array are cumsum, cumprod,
    cummax and cummin (whose gradients share evenly where there are ties), of floats along axes of up to 1024.
    Raises TypeError where fn is no function, ValueError where sizes differ.

    >>> import fgrad.numpy as jnp
    >>> associative_scan(jnp.multiply, jnp.arange(1., 5.))
    Array([ 1.,  2.,  6., 24.], dtype=float32)
    """
    if not callable(fn):
        raise TypeError("lax.associative_scan: fn argument should be callable.")
    xs, treedef = tree.flatten(elems)
    xs = [strong_leaf(x) for x in xs]
    if not xs:
        return elems
    axes = [argaxis(x, axis) for x in xs]
    sizes = [get_aval(x).shape[a] for x, a in zip(xs, axes)]
    if len(set(sizes)) > 1:
        shapes = [get_aval(x).shape for x in xs]
        raise ValueError(f"Array inputs to associative_scan must have the same first dimension, along axis {axis}. (saw: {shapes})")

    def combine(a, b):
        out, out_tree = tree.flatten(fn(tree.unflatten(treedef, a), tree.unflatten(treedef, b)))
        if len(out) != len(a):  # as in JAX, a tuple does for a named one
            raise TypeError(f"associative_scan: fn must return as many arrays as its arguments have, {treedef}, got {out_tree}")
        return out

    running = _running_monoid(combine, xs[0], axes[0]) if len(xs) == 1 else None
    if running is not None:
        return tree.unflatten(treedef, [running(xs[0], axes[0], reverse)])
    if reverse:
        xs = [rev(x, (a,)) for x, a in zip(xs, axes)]
    out = _running(xs, axes, combine)
    if reverse:
        out = [rev(x, (a,)) for x, a in zip(out, axes)]
    return tree.unflatten(treedef, out)


def _running_monoid(combine, x, axis):
    """The running reduction that an associative scan of one array is, or None: one pass instead of slices, twice log2(n) of them."""
    aval = get_aval(x)
    n = aval.shape[axis]
    if n < 2 or aval.dtype.kind == "b" or n > SHORT and dtypes.is_inexact(aval.dtype):
        return None
    half = ShapedArray((*aval.shape[:axis], n // 2, *aval.shape[axis + 1 :]), aval.dtype)
    try:
        jaxpr = stage(lambda a, b: combine([a], [b]), [half, half], "fn")
    except Exception:  # what fn does with numbers, or wrongly, it does in the scan
        return None
    if jaxpr.consts or [(a.shape, a.dtype) for a in jaxpr.out_avals] != [(half.shape, half.dtype)]:
        return None
    running = _monoid(jaxpr.jaxpr, _RUNNING)
    ordered = running in (cumulative.cummax, cumulative.cummin)
    return None if ordered and dtypes.is_complex(aval.dtype) else running  # complex numbers have no kernel that orders them


def _running(xs, axes, combine):
    """Combine neighbours, scan those (half as many), and fill in the positions between them."""
    n = get_aval(xs[0]).shape[axes[0]]
    if n < 2:
        return xs
    even = n - n % 2
    odd = _running(
        combine([_every_other(x, 0, even, a) for x, a in zip(xs, axes)], [_every_other(x, 1, even, a) for x, a in zip(xs, axes)]),
        axes,
        combine,
    )
    first = [slice_in_dim(x, 0, 1, axis=a) for x, a in zip(xs, axes)]
    if n > 2:
        k = (n - 1) // 2
        before = [slice_in_dim(x, 0, k, axis=a) for x, a in zip(odd, axes)]
        rest = combine(before, [_every_other(x, 2, n, a) for x, a in zip(xs, axes)])
        first = [concatenate([f, r], a) for f, r, a in zip(first, rest, axes)]
    return [_interleave(e, o, a) for e, o, a in zip(first, odd, axes)]


def _interleave(x, y, axis):
    """x[0], y[0], x[1], y[1], ... along an axis; x may have one more."""
    m = get_aval(y).shape[axis]
    shape = list(get_aval(y).shape)
    shape[axis] = 2 * m
    pairs = concatenate([expand_dims(slice_in_dim(x, 0, m, axis=axis), (axis + 1,)), expand_dims(y, (axis + 1,))], axis + 1)
    out = reshape(pairs, tuple(shape))
    return out if get_aval(x).shape[axis] == m else concatenate([out, slice_in_dim(x, m, m + 1, axis=axis)], axis)


def _with_complex(real, combine):
    """A running reduction that complex numbers take as an associative scan."""

    @functools.wraps(real)
    def fun(operand, axis=0, reverse=False):
        dtype = get_aval(operand).dtype
        if dtype == dtypes.BOOL:
            raise TypeError(f"{real.__name__} does not accept dtype bool. Accepted dtypes are numbers.")
        if dtypes.is_complex(dtype):
            return associative_scan(combine, operand, reverse=bool(reverse), axis=argaxis(operand, axis))
        return real(operand, axis, reverse)

    return fun


cummax = _with_complex(cumulative.cummax, ew.max)
cummin = _with_complex(cumulative.cummin, ew.min)
cumlogsumexp = _with_complex(cumulative.cumlogsumexp, logaddexp)


def _check_floats(name, operand):
    if not dtypes.is_float(get_aval(operand).dtype):
        raise ValueError(f"{name}: operand must be of a floating type, got {get_aval(operand).dtype.name}")


def _candidates(shape, axis, k, recall, override):
    """How many candidates along an axis JAX hands on to a last selection of k: at most one from each of so many buckets as the recall
    asks for, in whole tiles."""
    n, tile = shape[axis], 1024 if len(shape) == 1 else 128
    if n <= tile:
        return n
    if k == 1:
        return tile
    size = override if override >= 0 else n
    buckets = min(max(int((1 - k) / math.log(recall)) if recall < 1 else size, tile), size)
    halvings = (size // buckets).bit_length() - 1
    if not halvings:
        return n
    halvings = min(halvings, (n // tile - 1).bit_length())
    return math.ceil(math.ceil(n / tile) / (1 << halvings)) * tile


def approx_max_k(operand, k, reduction_dimension=-1, recall_target=0.95, reduction_input_size_override=-1, aggregate_to_topk=True):
    """(values, positions) of the k greatest elements along reduction_dimension, in descending order. It is exact: recall is 1.

    Without aggregate_to_topk there are more than k of them, as many as JAX gives for recall_target and the size.
    """
    _check_floats("approx_max_k", operand)
    if not aggregate_to_topk:
        axis, shape = argaxis(operand, reduction_dimension), get_aval(operand).shape
        k = min(_candidates(shape, axis, k, recall_target, reduction_input_size_override), shape[axis])
    return top_k(operand, k, axis=reduction_dimension)


def approx_min_k(operand, k, reduction_dimension=-1, recall_target=0.95, reduction_input_size_override=-1, aggregate_to_topk=True):
    """(values, positions) of the k least elements along reduction_dimension, in ascending order; otherwise as approx_max_k."""
    _check_floats("approx_min_k", operand)
    axis, shape = argaxis(operand, reduction_dimension), get_aval(operand).shape
    if not aggregate_to_topk:
        k = min(_candidates(shape, axis, k, recall_target, reduction_input_size_override), shape[axis])
    if not 0 <= k <= shape[axis]:
        raise ValueError(f"approx_min_k: k must be between 0 and the size of axis {axis} of shape {shape}, got {k}")
    ordered = sort((operand, broadcasted_iota(np.int32, shape, axis)), axis, num_keys=1)
    return tuple(slice_in_dim(x, 0, k, axis=axis) for x in ordered)


__all__ = [
    "approx_max_k", "approx_min_k", "associative_scan", "cumlogsumexp", "cummax", "cummin", "reduce", "reduce_and", "reduce_or",
    "reduce_xor",
]  # fmt: skip
