"""Windows of an axis within an index: x[ds(start, size)], whose start may be traced, and x.at[ds(start, size)]."""

import dataclasses
from typing import Any

from fgrad.core import to_array
from fgrad.numpy.util import as_array
from fgrad.ops import elementwise as E
from fgrad.ops.index import dynamic_slice, update_box
from fgrad.tree import register_pytree_node_class


@register_pytree_node_class
@dataclasses.dataclass(slots=True)
class Slice:
    """The places start, start + stride ... of an axis, `size` of them: see dslice. A start that is an array is a leaf, the rest static."""

    start: Any
    size: int
    stride: int = 1

    def __post_init__(self):
        if self.stride < 1:
            raise ValueError(f"dslice: stride must be at least 1, got {self.stride}")

    def tree_flatten(self):
        leaf = not isinstance(self.start, int)
        return ((self.start,) if leaf else ()), (None if leaf else self.start, self.size, self.stride)

    @classmethod
    def tree_unflatten(cls, static, leaves):
        out = object.__new__(cls)
        out.start, out.size, out.stride = (*leaves, *static[1:]) if leaves else static
        return out


def dslice(start, size=None, stride=None):
    """An index of `size` places of an axis from `start` on, which may be a traced integer: start:start + size; one argument is the size.

    A window that would leave the axis is moved inside where it is read, and its update is dropped.
    Raises TypeError where the window is longer than the axis or its start no integer scalar, ValueError where stride is less than 1.

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.jit(lambda x, i: x[fgrad.ds(i, 2)])(jnp.arange(10), 4)
    Array([4, 5], dtype=int32)
    """
    if start is None:
        return slice(None)
    start, size = (0, start) if size is None else (start, size)
    return Slice(start, size, 1 if stride is None else stride)


def has_slices(idx):
    """Whether a Slice is part of an index."""
    return any(type(i) is Slice for i in idx) if type(idx) is tuple else type(idx) is Slice


class Window:
    """The Slices of an index of x: where the window is that they make, and the index of places within it. used: as by axes_used."""

    def __init__(self, x, idx, used):
        idx = idx if isinstance(idx, tuple) else (idx,)
        self.x, self.sizes, self.starts, self.index = x, list(x.shape), [0] * x.ndim, []
        axis, rest = 0, x.ndim - sum(used)
        for i, n in zip(idx, used):
            if type(i) is Slice:
                if axis >= x.ndim:
                    raise IndexError(f"Too many indices: array is {x.ndim}-dimensional, but {sum(used)} were indexed")
                self._take(axis, i)
                i = slice(None, None, i.stride)
            self.index.append(i)
            axis += rest if i is Ellipsis else n
        self.index = tuple(self.index)

    def _take(self, axis, i):
        reach = (i.size - 1) * i.stride + 1 if i.size else 0
        if reach > self.x.shape[axis]:
            raise TypeError(f"dslice: {i.size} places by {i.stride} do not fit axis {axis} of an array of shape {self.x.shape}")
        start = as_array("dslice", i.start)
        if start.ndim or start.dtype.kind not in "iu":
            raise TypeError(f"dslice: start must be an integer, got {start.dtype.name} of shape {start.shape}")
        self.starts[axis], self.sizes[axis] = start, reach

    def read(self):
        """The window's elements."""
        return dynamic_slice(self.x, self.starts, self.sizes)

    def is_inside(self):
        """Whether all of the window lies in x, as a boolean scalar; a negative start does not count from the end here, as in JAX."""
        inside = to_array(True)
        for start, n, size in zip(self.starts, self.x.shape, self.sizes):
            if type(start) is not int:
                inside = E.bitwise_and(inside, E.bitwise_and(E.ge(start, E.like(start, 0)), E.le(start, E.like(start, n - size))))
        return inside

    def updated(self, update):
        """x with update(window) in the window's place, or x as it is where a part of the window lies outside."""
        old = self.read()
        new = E.select(E.broadcast_to(self.is_inside(), old.shape), update(old), old)
        return update_box(self.x, new, self.starts)
