"""Rules of vmap.

primitive_batchers[p] = rule(args, dims, **params) -> (result, its batch axis); dims are not_mapped where an argument has no batch axis.
fancy_primitive_batchers[p] = rule(axis, args, dims, **params) is told the axis (its size and name); of axis_primitive_batchers[p] the first
three arguments are its size, its name and None.
"""

from fgrad.core import get_aval
from fgrad.interpreters.rules import Rules
from fgrad.ops.rules import align_batch, bdim_at_front, move_axis

__all__ = [
    "axis_primitive_batchers",
    "bdim_at_front",
    "broadcast",
    "defbroadcasting",
    "defvectorized",
    "fancy_primitive_batchers",
    "moveaxis",
    "not_mapped",
    "primitive_batchers",
]

not_mapped = None

primitive_batchers = Rules("batch", lambda prim, rule: lambda axis, args, dims, **params: rule(args, dims, **params))
fancy_primitive_batchers = Rules("batch", lambda prim, rule: lambda axis, args, dims, **params: rule(axis, args, dims, **params))
axis_primitive_batchers = Rules(
    "batch", lambda prim, rule: lambda axis, args, dims, **params: rule(axis.size, axis.name, None, args, dims, **params)
)


def moveaxis(x, source, destination):
    """x with axis `source` at `destination`."""
    return move_axis(x, source % get_aval(x).ndim, destination % get_aval(x).ndim)


def broadcast(x, size, axis):
    """x repeated `size` times along a new axis."""
    return moveaxis(bdim_at_front(x, None, size), 0, axis)


def defvectorized(prim):
    """Set the rule of an elementwise primitive of one argument, or of several that are all batched alike."""
    primitive_batchers[prim] = lambda args, dims, **params: (prim.bind(*args, **params), dims[0])


def defbroadcasting(prim):
    """Set the rule of an elementwise primitive of several arguments: they are given one batch axis."""

    def rule(args, dims, **params):
        args, dim = align_batch(args, dims)
        return prim.bind(*args, **params), dim

    primitive_batchers[prim] = rule
