"""vmap: a function mapped over an axis of its arguments."""

import functools
import operator

from fgrad import tree
from fgrad.api.common import as_arrays, check_args, flat_fun, fun_name
from fgrad.core import get_aval
from fgrad.ops.rules import bdim_at_front, move_axis
from fgrad.transforms.vmap import Axis, batch_flat


def _axes_leaves(axes, value, what):
    """The axis of each leaf of `value`, from a tree prefix of ints and None."""
    try:
        return tree.broadcast_prefix(_Axes.wrap(axes), value, is_leaf=lambda x: isinstance(x, _Axes) or x is None)
    except ValueError as e:
        raise ValueError(
            f"vmap {what} specification must be a tree prefix of the corresponding value, got specification {axes} "
            f"for value tree structure {tree.structure(value)}: {e}"
        ) from None


class _Axes:
    """A leaf that stands for an int or None, so that None is a leaf in axis specifications."""

    __slots__ = ("axis",)

    def __init__(self, axis):
        self.axis = axis

    @staticmethod
    def wrap(axes):
        return tree.map(_Axes, axes, is_leaf=lambda x: x is None)


def vmap(fun, in_axes=0, out_axes=0, axis_name=None, axis_size=None, spmd_axis_name=None):
    """`fun` mapped over an axis of its arguments. in_axes, out_axes: ints or None, or pytrees of them (prefixes).

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.vmap(jnp.dot, in_axes=(0, None))(jnp.ones((3, 2)), jnp.ones(2))
    Array([2., 2., 2.], dtype=float32)
    """
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)

    @functools.wraps(fun)
    def wrapped(*args, **kwargs):
        leaves, treedef = tree.flatten((args, kwargs))
        check_args(leaves, f"vmap of {fun_name(fun)}")
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                f"vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments passed to "
                "the function, "
                f"but got len(in_axes)={len(in_axes)}, len(args)={len(args)}"
            )
        axes = [a.axis for a in _axes_leaves(in_axes, args, "in_axes")] + [0] * len(tree.leaves(kwargs))
        dims, size = _map_sizes(leaves, axes, axis_size, fun)
        out_tree = [None]
        outs, out_dims = batch_flat(flat_fun(fun, treedef, out_tree), Axis(size, axis_name), dims, leaves)
        result = tree.unflatten(out_tree[0], [Slot(i) for i in range(len(outs))])
        want = [a.axis for a in _axes_leaves(out_axes, result, "out_axes")]
        final = []
        for o, d, w in zip(outs, out_dims, want):
            if w is None:
                if d is not None:
                    raise ValueError("vmap has mapped output but out_axes is None")
                final.append(o)
            else:
                front = bdim_at_front(o, d, size)
                final.append(move_axis(front, 0, w))
        return tree.unflatten(out_tree[0], as_arrays(final))

    return wrapped


class Slot:
    __slots__ = ("i",)

    def __init__(self, i):
        self.i = i


def _map_sizes(leaves, axes, axis_size, fun):
    dims, sizes = [], {}
    for x, a in zip(leaves, axes):
        if a is None:
            dims.append(None)
            continue
        shape = get_aval(x).shape
        a = operator.index(a)
        if not -len(shape) <= a < len(shape):
            raise ValueError(
                f"vmap was requested to map its argument along axis {a}, which implies that its rank should be at least "
                f"{a + 1 if a >= 0 else -a}, but is only {len(shape)} (its shape is {shape})"
            )
        dims.append(a % len(shape))
        sizes.setdefault(shape[a], shape)
    if axis_size is not None:
        sizes.setdefault(axis_size, None)
    if not sizes:
        raise ValueError(f"vmap of {fun_name(fun)} must have at least one non-None value in in_axes, or axis_size")
    if len(sizes) > 1:
        raise ValueError(
            f"vmap got inconsistent sizes for array axes to be mapped: {sorted(sizes)} (argument shapes "
            f"{[get_aval(x).shape for x in leaves]})"
        )
    return dims, next(iter(sizes))
