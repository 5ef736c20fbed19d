"""Pytrees as transformations flatten them: as fgrad.tree does, but typed keys (leaves there) are nodes over their words."""

import optree

from fgrad.tree import ARRAYS_NS, difference, keystr, paths, register_in, unflatten

_OPTIONS = dict(none_is_leaf=False, namespace=ARRAYS_NS)


def flatten(tree, is_leaf=None):
    """(leaves, treedef)."""
    return optree.tree_flatten(tree, is_leaf=is_leaf, none_is_leaf=False, namespace=ARRAYS_NS)


def leaves(tree, is_leaf=None):
    """The leaves of `tree`, in order."""
    return optree.tree_leaves(tree, is_leaf=is_leaf, **_OPTIONS)


def structure(tree, is_leaf=None):
    """The treedef of `tree`."""
    return optree.tree_structure(tree, is_leaf=is_leaf, **_OPTIONS)


def map(f, tree, *rest, is_leaf=None):  # noqa: A001
    """f over corresponding leaves. Raises ValueError where structures differ."""
    return optree.tree_map(f, tree, *rest, is_leaf=is_leaf, **_OPTIONS)


def flatten_with_entries(tree):
    """([(entries, leaf)...], treedef): plain keys and indices, for messages; cheaper than key paths."""
    entries, xs, treedef = optree.tree_flatten_with_path(tree, **_OPTIONS)
    return list(zip(entries, xs)), treedef


def broadcast_prefix(prefix, tree, is_leaf=None):
    """The leaves of `prefix` (a tree prefix of `tree`), each repeated for the leaves of `tree` below it."""
    return optree.broadcast_prefix(prefix, tree, is_leaf=is_leaf, **_OPTIONS)


def register_array_node(nodetype, flatten_func, unflatten_func):
    """Make a class a node here, where it is a leaf of fgrad.tree."""
    register_in((ARRAYS_NS,), nodetype, flatten_func, unflatten_func)


__all__ = [
    "broadcast_prefix",
    "difference",
    "flatten",
    "flatten_with_entries",
    "keystr",
    "leaves",
    "map",
    "paths",
    "register_array_node",
    "structure",
    "unflatten",
]
