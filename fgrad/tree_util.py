"""jax.tree_util's names: the functions of fgrad.tree with tree_ before them, key paths, registration, Partial."""

import functools

import optree

from fgrad import tree as _tree
from fgrad.tree import (
    _NS,
    PyTreeDef,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
)
from fgrad.tree import all as tree_all
from fgrad.tree import broadcast as tree_broadcast
from fgrad.tree import flatten as tree_flatten
from fgrad.tree import flatten_with_path as tree_flatten_with_path
from fgrad.tree import leaves as tree_leaves
from fgrad.tree import leaves_with_path as tree_leaves_with_path
from fgrad.tree import map as tree_map
from fgrad.tree import map_with_path as tree_map_with_path
from fgrad.tree import reduce as tree_reduce
from fgrad.tree import reduce_associative as tree_reduce_associative
from fgrad.tree import structure as tree_structure
from fgrad.tree import transpose as tree_transpose
from fgrad.tree import unflatten as tree_unflatten
from fgrad.tree_keys import DictKey, FlattenedIndexKey, GetAttrKey, KeyEntry, KeyPath, SequenceKey, keystr


class Partial(functools.partial):
    """functools.partial as a pytree: its arguments are the children, its function is static.

    >>> import fgrad
    >>> double = fgrad.tree_util.Partial(lambda w, x: w * x, 2.0)
    >>> float(fgrad.jit(lambda f, x: f(x))(double, 3.0))
    6.0
    """

    def __new__(cls, func, /, *args, **kw):
        if isinstance(func, functools.partial):  # functools.partial would take its arguments over, and they would become children
            func = _Whole(func)
        return super().__new__(cls, func, *args, **kw)


class _Whole:
    """A functools.partial as a function that keeps its arguments to itself; equal to one of equal parts."""

    __slots__ = ("partial",)

    def __init__(self, partial):
        self.partial = partial

    def __call__(self, *args, **kw):
        return self.partial(*args, **kw)

    def _parts(self):
        return self.partial.func, self.partial.args, self.partial.keywords

    def __eq__(self, other):
        if type(other) is not _Whole:
            return False
        (f, args, kw), (g, others, others_kw) = self._parts(), other._parts()
        pairs = [(f, g), *zip(args, others), *((x, others_kw.get(name)) for name, x in kw.items())]
        return len(args) == len(others) and kw.keys() == others_kw.keys() and all(x is y or (x == y) is True for x, y in pairs)

    def __hash__(self):
        return hash((self.partial.func, len(self.partial.args)))


register_pytree_node(Partial, lambda p: ((p.args, p.keywords), p.func), lambda func, children: Partial(func, *children[0], **children[1]))


def all_leaves(iterable, is_leaf=None):
    """Whether no element of `iterable` has a structure of its own."""
    return optree.all_leaves(iterable, is_leaf=is_leaf, none_is_leaf=False, namespace=_NS)


def is_tree_node(typ):
    """Whether instances of the class `typ` are nodes: None, containers and what was registered."""
    return typ is type(None) or optree.register_pytree_node.get(typ, namespace=_NS) is not None


def flatten_one_level(tree):
    """(children, static data) of the node at the top. Raises ValueError for a leaf."""
    if _tree.structure(tree, is_leaf=lambda x: x is not tree).is_leaf():
        raise ValueError(f"can't tree-flatten a leaf of type: {type(tree)}")
    children, metadata, _, _ = optree.tree_flatten_one_level(tree, none_is_leaf=False, namespace=_NS)
    return tuple(children), tuple(metadata) if isinstance(metadata, list) else metadata


def flatten_one_level_with_keys(tree):
    """([(key, child)...], static data) of the node at the top. Raises ValueError for a leaf."""
    children, metadata = flatten_one_level(tree)
    keys = _tree.paths(_tree.structure(tree, is_leaf=lambda x: x is not tree))
    return tuple((path[0], child) for path, child in zip(keys, children)), metadata


class _Registry:
    """The node types, as an object with the functions of this module; those of one level give None for a leaf."""

    flatten = staticmethod(tree_flatten)
    flatten_with_path = staticmethod(tree_flatten_with_path)
    register_node = staticmethod(register_pytree_node)

    def is_node(self, typ):
        return isinstance(typ, type) and is_tree_node(typ)

    def flatten_one_level(self, tree):
        return None if all_leaves([tree]) else flatten_one_level(tree)

    def flatten_one_level_with_keys(self, tree):
        return None if all_leaves([tree]) else flatten_one_level_with_keys(tree)


default_registry = _Registry()


def treedef_children(treedef):
    """The treedefs of the children of the node at the top."""
    return list(treedef.children())


def treedef_is_leaf(treedef):
    """Whether a treedef is a single node: a leaf, or a node without children."""
    return treedef.num_nodes == 1


def treedef_tuple(treedefs):
    """The treedef of a tuple whose elements have the given ones."""
    return optree.treespec_tuple(treedefs, none_is_leaf=False, namespace=_NS)


__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "default_registry",
    "flatten_one_level",
    "flatten_one_level_with_keys",
    "is_tree_node",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]
