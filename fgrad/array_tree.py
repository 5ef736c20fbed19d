"""Pytrees as transformations flatten them: as fgrad.tree does, but typed keys (leaves there) are nodes over their words."""

import optree

from fgrad.tree import ARRAYS_NS, array_walk, difference, keystr, paths, register_in, unflatten

_OPTIONS = dict(none_is_leaf=False, namespace=ARRAYS_NS)


def flatten(tree, is_leaf=None):
    """(leaves, treedef)."""
    return array_walk.flatten(tree, is_leaf)


def leaves(tree, is_leaf=None):
    """The leaves of `tree`, in order."""
    return array_walk.leaves(tree, is_leaf)


def structure(tree, is_leaf=None):
    """The treedef of `tree`."""
    return array_walk.structure(tree, is_leaf)


def map(f, tree, *rest, is_leaf=None):  # noqa: A001
    """f over corresponding leaves. Raises ValueError where structures differ."""
    return array_walk.map(f, tree, rest, is_leaf)


def flatten_with_entries(tree):
    """([(entries, leaf)...], treedef): plain keys and indices, for messages; cheaper than key paths."""
    entries, xs, _ = optree.tree_flatten_with_path(tree, **_OPTIONS)
    return list(zip(entries, xs)), structure(tree)


def broadcast_prefix(prefix, tree, is_leaf=None):
    """The leaves of `prefix` (a tree prefix of `tree`), each repeated for the leaves of `tree` below it."""
    return optree.broadcast_prefix(prefix, tree, is_leaf=is_leaf, **_OPTIONS)


def prefix_leaves(prefix, treedef):
    """The leaves of `prefix`, None among them, each repeated for the leaves that a tree of structure `treedef` has below it.

    Nothing is unflattened, so that classes of users see no stand-ins of arrays. Raises ValueError where it is no prefix.
    """
    if prefix is None or type(prefix) is int:
        return [prefix] * treedef.num_leaves
    parts, spec = flatten(prefix, is_leaf=lambda x: x is not prefix)
    if spec.is_leaf():
        return [prefix] * treedef.num_leaves
    level = treedef.one_level()
    if spec != level:
        raise ValueError(f"{spec} is no prefix of {treedef}{difference(level or treedef, spec)}")
    return [x for part, below in zip(parts, treedef.children()) for x in prefix_leaves(part, below)]


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
    "prefix_leaves",
    "register_array_node",
    "structure",
    "unflatten",
]
