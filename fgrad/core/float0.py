"""float0 arrays, the tangents of integers, among the leaves of trees: a matter of structure."""

import numpy as np

from fgrad import array_tree as tree
from fgrad import dtypes


class _NoTangent:
    """A node without children in place of a float0 array: its shape is a matter of structure, it has no data to compute with."""

    def __init__(self, shape):
        self.shape = shape


tree.register_array_node(_NoTangent, lambda x: ((), x.shape), lambda shape, _: np.zeros(shape, dtypes.float0))


def is_float0(x):
    return isinstance(x, np.ndarray) and x.dtype == dtypes.float0


def flatten_live(values):
    """(leaves, treedef), with float0 arrays as part of the treedef: unflattening makes them again."""
    leaves, treedef = tree.flatten(values)
    if any(map(is_float0, leaves)):
        return tree.flatten(tree.unflatten(treedef, [_NoTangent(x.shape) if is_float0(x) else x for x in leaves]))
    return leaves, treedef


def flatten_live_with_entries(values):
    """flatten_with_entries, with float0 arrays as part of the treedef."""
    paths, treedef = tree.flatten_with_entries(values)
    if any(is_float0(x) for _, x in paths):
        return tree.flatten_with_entries(tree.unflatten(treedef, [_NoTangent(x.shape) if is_float0(x) else x for _, x in paths]))
    return paths, treedef


def unflatten_stacked(treedef, leaves, length):
    """A tree of rows of arrays; the float0 arrays in the treedef become so many rows too."""
    out = tree.unflatten(treedef, leaves)
    if any(map(is_float0, tree.leaves(out))):
        return tree.map(lambda x: np.zeros((length, *x.shape), x.dtype) if is_float0(x) else x, out)
    return out


__all__ = ["flatten_live", "flatten_live_with_entries", "is_float0", "unflatten_stacked"]
