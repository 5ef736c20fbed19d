"""Collectives over the axes that vmap names, on trees. An axis name may be a tuple: the axes together, the first one slowest."""

import math

import numpy as np

from fgrad import array_tree as tree
from fgrad.core import axis_size as _one_axis_size
from fgrad.core import get_aval
from fgrad.ops.collective import all_gather_leaf, pmax_leaf, pmin_leaf, psum_leaf
from fgrad.ops.collective import axis_index as _one_axis_index
from fgrad.ops.elementwise import add, mul
from fgrad.ops.gather import take_rows
from fgrad.ops.index import dynamic_index_in_dim
from fgrad.ops.rules import move_axis
from fgrad.ops.shape import reshape


def _names(axis_name):
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def _no_groups(groups):
    if groups is not None:
        raise NotImplementedError("axis_index_groups is not supported: use one vmap axis for each kind of group")


def axis_size(axis_name):
    """The number of examples along the named axis (or axes), a Python int. NameError where no vmap binds it."""
    return math.prod(_one_axis_size(n) for n in _names(axis_name))


def axis_index(axis_name):
    """This example's position along the named axis (or axes), an int32 scalar.

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.vmap(lambda x: x + fgrad.lax.axis_index("i"), axis_name="i")(jnp.zeros(3, int))
    Array([0, 1, 2], dtype=int32)
    """
    names = _names(axis_name)
    out = _one_axis_index(names[0])
    for n in names[1:]:
        out = add(mul(out, np.int32(_one_axis_size(n))), _one_axis_index(n))
    return out


def psum(x, axis_name, *, axis_index_groups=None):
    """Sum over the named axes of the enclosing vmaps, leaf by leaf.

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.vmap(lambda x: x / fgrad.lax.psum(x, "i"), axis_name="i")(jnp.array([1., 3.]))
    Array([0.25, 0.75], dtype=float32)
    """
    _no_groups(axis_index_groups)
    return tree.map(lambda v: psum_leaf(v, axis_name), x)


def pmean(x, axis_name, *, axis_index_groups=None):
    """Mean over the named axes of the enclosing vmaps."""
    _no_groups(axis_index_groups)
    n = axis_size(axis_name)
    return tree.map(lambda v: psum_leaf(v, axis_name) / n, x)


def pmax(x, axis_name, *, axis_index_groups=None):
    """Maximum over the named axes of the enclosing vmaps."""
    _no_groups(axis_index_groups)
    return tree.map(lambda v: pmax_leaf(v, axis_name), x)


def pmin(x, axis_name, *, axis_index_groups=None):
    """Minimum over the named axes of the enclosing vmaps."""
    _no_groups(axis_index_groups)
    return tree.map(lambda v: pmin_leaf(v, axis_name), x)


def _gathered(x, axis_name):
    """Every example's x along a new axis 0."""
    names = _names(axis_name)
    for n in reversed(names):
        x = all_gather_leaf(x, n)
    return reshape(x, (axis_size(names), *get_aval(x).shape[len(names) :])) if len(names) > 1 else x


def _merged(x, source, axis):
    """x with axis `source` moved in front of `axis` of the others, and merged with it."""
    x = move_axis(x, source, axis)
    shape = get_aval(x).shape
    return reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def _axis(axis, ndim):
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} is out of bounds for an array of dimension {ndim}")
    return axis % ndim


def all_gather(x, axis_name, *, axis_index_groups=None, axis=0, tiled=False, to="varying"):
    """Every example's value, stacked along a new axis (at `axis`), or with tiled=True concatenated along it."""
    _no_groups(axis_index_groups)

    def leaf(v):
        ndim = get_aval(v).ndim
        out = _gathered(v, axis_name)
        return _merged(out, 0, _axis(axis, ndim)) if tiled else move_axis(out, 0, _axis(axis, ndim + 1))

    return tree.map(leaf, x)


def _own(stacked, axis_name, axis):
    """This example's slice of an array that is the same for all."""
    return dynamic_index_in_dim(stacked, axis_index(axis_name), axis, keepdims=False)


def _chunks(x, axis, n, what):
    """x with `axis` split into (n, rest)."""
    shape = get_aval(x).shape
    if shape[axis] % n:
        raise ValueError(f"{what}: axis {axis} of shape {shape} does not divide into the {n} examples of the named axis")
    return reshape(x, (*shape[:axis], n, shape[axis] // n, *shape[axis + 1 :]))


def all_to_all(x, axis_name, split_axis, concat_axis, *, axis_index_groups=None, tiled=False):
    """Example i gets slice i of split_axis of every example, stacked along a new axis at concat_axis.

    split_axis must have the size of the named axis, and disappears. With tiled=True it is cut into that many chunks, which are
    concatenated along concat_axis. Raises ValueError where sizes do not fit.
    """
    _no_groups(axis_index_groups)
    n = axis_size(axis_name)

    def leaf(v):
        shape = get_aval(v).shape
        split, concat = _axis(split_axis, len(shape)), _axis(concat_axis, len(shape))
        if tiled:
            v = _chunks(v, split, n, "all_to_all")
        elif shape[split] != n:
            raise ValueError(f"all_to_all: axis {split} of shape {shape} must have the size of the named axis, {n} (or use tiled=True)")
        out = _own(_gathered(v, axis_name), axis_name, split + 1)
        return _merged(out, 0, concat) if tiled else move_axis(out, 0, concat)

    return tree.map(leaf, x)


def pswapaxes(x, axis_name, axis, *, axis_index_groups=None):
    """The named axis swapped with `axis`, which must have its size."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def ppermute(x, axis_name, perm):
    """Example `target` gets the value of `source` for each (source, target) of perm; the others get zeros.

    Raises ValueError where a source or target repeats or is out of range.
    """
    n, perm = axis_size(axis_name), [tuple(map(int, p)) for p in perm]
    sources, targets = [s for s, _ in perm], [t for _, t in perm]
    if len(set(sources)) != len(perm) or len(set(targets)) != len(perm):
        raise ValueError(f"ppermute: sources and destinations must be unique, got {perm}")
    if any(not 0 <= i < n for i in (*sources, *targets)):
        raise ValueError(f"ppermute: {perm} asks for examples outside [0, {n})")
    table = np.full(n, n, np.int32)
    table[targets] = sources
    source = dynamic_index_in_dim(table, axis_index(axis_name), 0, keepdims=False)
    return tree.map(lambda v: take_rows(_gathered(v, axis_name), source, 0), x)


def pshuffle(x, axis_name, perm):
    """Example i gets the value of example perm[i]; perm must be a permutation."""
    if sorted(perm) != list(range(len(perm))) or len(perm) != axis_size(axis_name):
        raise ValueError(f"pshuffle: perm must be a permutation of the {axis_size(axis_name)} examples, got {perm}")
    return ppermute(x, axis_name, list(zip(perm, range(len(perm)))))


def psum_scatter(x, axis_name, *, scatter_dimension=0, axis_index_groups=None, tiled=False):
    """The sum over the named axis, of which example i keeps slice i of scatter_dimension (with tiled=True: chunk i)."""
    _no_groups(axis_index_groups)
    n = axis_size(axis_name)

    def leaf(v):
        axis = _axis(scatter_dimension, get_aval(v).ndim)
        if tiled:
            v = _chunks(v, axis, n, "psum_scatter")
        elif get_aval(v).shape[axis] != n:
            raise ValueError(f"psum_scatter: axis {axis} of shape {get_aval(v).shape} must have the size of the named axis, {n}")
        return _own(psum_leaf(v, axis_name), axis_name, axis)

    return tree.map(leaf, x)


def pbroadcast(x, axis_name, source):
    """Every example gets the value of example `source`."""
    n = axis_size(axis_name)
    if not 0 <= source < n:
        raise ValueError(f"pbroadcast: source {source} is outside [0, {n})")
    return tree.map(lambda v: dynamic_index_in_dim(_gathered(v, axis_name), source, 0, keepdims=False), x)


def pcast(x, axis_name, *, to):
    """x: values need no cast between varying and invariant here."""
    return x


__all__ = [
    "all_gather",
    "all_to_all",
    "axis_index",
    "axis_size",
    "pbroadcast",
    "pcast",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "pshuffle",
    "psum",
    "psum_scatter",
    "pswapaxes",
]
