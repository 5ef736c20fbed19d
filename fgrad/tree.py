"""Pytrees, as jax.tree: a thin layer over optree with JAX's rules (None is a node, dicts sort by key)."""

import dataclasses
import functools
import operator

import optree

_NS = "fgrad"
PyTreeDef = optree.PyTreeSpec


def flatten(tree, is_leaf=None):
    """(leaves, treedef).

    >>> import fgrad
    >>> fgrad.tree.flatten({"b": 2, "a": [1, None]})[0]
    [1, 2]
    """
    leaves, treedef = optree.tree_flatten(tree, is_leaf=is_leaf, none_is_leaf=False, namespace=_NS)
    return leaves, treedef


def unflatten(treedef, leaves):
    """The tree that `treedef` makes of `leaves`."""
    return optree.tree_unflatten(treedef, leaves)


def leaves(tree, is_leaf=None):
    """The leaves of `tree`, in order. None is no leaf; is_leaf(x) stops the descent at x."""
    return optree.tree_leaves(tree, is_leaf=is_leaf, none_is_leaf=False, namespace=_NS)


def structure(tree, is_leaf=None):
    """The treedef of `tree`: what unflatten needs besides the leaves."""
    return optree.tree_structure(tree, is_leaf=is_leaf, none_is_leaf=False, namespace=_NS)


def map(f, tree, *rest, is_leaf=None):  # noqa: A001
    """f over corresponding leaves. Raises ValueError where structures differ.

    >>> import fgrad
    >>> fgrad.tree.map(lambda x, y: x + y, {"a": 1, "b": 2}, {"a": 10, "b": 20})
    {'a': 11, 'b': 22}
    """
    return optree.tree_map(f, tree, *rest, is_leaf=is_leaf, none_is_leaf=False, namespace=_NS)


def reduce(f, tree, initializer=None, is_leaf=None):
    """Leaves combined from the left by f, starting with `initializer` if there is one.

    >>> import fgrad
    >>> fgrad.tree.reduce(lambda a, b: a + b, {"a": 1, "b": [2, 3]})
    6
    """
    xs = leaves(tree, is_leaf)
    return functools.reduce(f, xs) if initializer is None else functools.reduce(f, xs, initializer)


def all(tree, *, is_leaf=None):  # noqa: A001
    """True if every leaf is true."""
    for x in leaves(tree, is_leaf):
        if not x:
            return False
    return True


def transpose(outer_treedef, inner_treedef, tree):
    """A tree of trees turned inside out."""
    return optree.tree_transpose(outer_treedef, inner_treedef, tree)


def flatten_with_path(tree, is_leaf=None):
    """([(key path, leaf)...], treedef)."""
    paths, xs, treedef = optree.tree_flatten_with_path(tree, is_leaf=is_leaf, none_is_leaf=False, namespace=_NS)
    return list(zip(paths, xs)), treedef


def map_with_path(f, tree, *rest, is_leaf=None):
    """f(key path, leaf, ...) over the leaves."""
    return optree.tree_map_with_path(f, tree, *rest, is_leaf=is_leaf, none_is_leaf=False, namespace=_NS)


def leaves_with_path(tree, is_leaf=None):
    """A list of (key path, leaf)."""
    return flatten_with_path(tree, is_leaf)[0]


def keystr(path):
    """A key path as text: ('w', 0) -> "['w'][0]"."""
    return "".join(f"[{k!r}]" for k in path)


def paths(treedef):
    """The key path of each leaf of a structure."""
    return treedef.paths()


def difference(want, got, skip=0):
    """Where two structures differ, as the end of a message; `skip` leaves out the first keys of each path."""
    a, b = want.paths(), got.paths()
    gone = [keystr(p[skip:]) or "a leaf" for p in a if p not in b]
    extra = [keystr(p[skip:]) or "a leaf" for p in b if p not in a]
    parts = [f"{word} {', '.join(ps[:3])}" for word, ps in (("it lacks", gone), ("it has in excess", extra)) if ps]
    return f" ({' and '.join(parts)})" if parts else ""


def num_leaves(treedef):
    """How many leaves a treedef has."""
    return treedef.num_leaves


def broadcast_prefix(prefix, tree, is_leaf=None):
    """The leaves of `prefix` (a tree prefix of `tree`), each repeated for the leaves of `tree` below it."""
    return optree.broadcast_prefix(prefix, tree, is_leaf=is_leaf, none_is_leaf=False, namespace=_NS)


def register_pytree_node(cls, flatten_func, unflatten_func):
    """Make a class a pytree node: flatten_func(x) -> (children, aux), unflatten_func(aux, children) -> x."""
    optree.register_pytree_node(cls, lambda x: (*flatten_func(x)[:2], None), unflatten_func, namespace=_NS)
    return cls


def register_pytree_node_class(cls):
    """Class decorator: uses the class's tree_flatten method and tree_unflatten class method."""
    register_pytree_node(cls, operator.methodcaller("tree_flatten"), cls.tree_unflatten)
    return cls


def register_dataclass(cls, data_fields=None, meta_fields=None, drop_fields=()):
    """Make a dataclass a pytree node with `data_fields` as children and `meta_fields` as static data.

    >>> import dataclasses, fgrad
    >>> @fgrad.tree.register_dataclass
    ... @dataclasses.dataclass
    ... class Layer:
    ...     w: float
    ...     name: str = dataclasses.field(default="", metadata=dict(static=True))
    >>> fgrad.tree.map(lambda w: 2 * w, Layer(1.5, "first"))
    Layer(w=3.0, name='first')
    """
    if data_fields is None:
        fields = [f for f in dataclasses.fields(cls) if f.init]
        meta_fields = [f.name for f in fields if f.metadata.get("static")]
        data_fields = [f.name for f in fields if not f.metadata.get("static")]
    data_fields, meta_fields = tuple(data_fields), tuple(meta_fields or ())
    return register_pytree_node(
        cls,
        lambda x: ([getattr(x, n) for n in data_fields], tuple(getattr(x, n) for n in meta_fields)),
        lambda aux, children: cls(**dict(zip(data_fields, children)), **dict(zip(meta_fields, aux))),
    )


tree_flatten, tree_unflatten, tree_leaves, tree_structure, tree_map, tree_reduce, tree_all, tree_transpose = (
    flatten,
    unflatten,
    leaves,
    structure,
    map,
    reduce,
    all,
    transpose,
)
tree_flatten_with_path, tree_map_with_path, tree_leaves_with_path = flatten_with_path, map_with_path, leaves_with_path
