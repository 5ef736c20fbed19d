"""Pytrees, as jax.tree: a thin layer over optree with JAX's rules (None is a node, dicts sort by key)."""

import dataclasses
import functools
import operator
import warnings
from typing import Any

import optree

from fgrad.tree_keys import GetAttrKey, key_path, keyed_classes, keystr
from fgrad.tree_walk import Walk
from fgrad.tree_walk import unflatten as _unflatten

_NS = "fgrad"
ARRAYS_NS = "fgrad.arrays"  # of fgrad.array_tree
PyTreeDef = optree.PyTreeSpec
_walk = Walk(_NS)
array_walk = Walk(ARRAYS_NS)


def flatten(tree, is_leaf=None):
    """(leaves, treedef).

    >>> import fgrad
    >>> fgrad.tree.flatten({"b": 2, "a": [1, None]})[0]
    [1, 2]
    """
    return _walk.flatten(tree, is_leaf)


def unflatten(treedef, leaves):
    """The tree that `treedef` makes of `leaves`."""
    return _unflatten(treedef, leaves)


def leaves(tree, is_leaf=None):
    """The leaves of `tree`, in order. None is no leaf; is_leaf(x) stops the descent at x."""
    return _walk.leaves(tree, is_leaf)


def structure(tree, is_leaf=None):
    """The treedef of `tree`: what unflatten needs besides the leaves."""
    return _walk.structure(tree, is_leaf)


def map(f, tree, *rest, is_leaf=None):  # noqa: A001
    """f over corresponding leaves. Raises ValueError where structures differ.

    >>> import fgrad
    >>> fgrad.tree.map(lambda x, y: x + y, {"a": 1, "b": 2}, {"a": 10, "b": 20})
    {'a': 11, 'b': 22}
    """
    return _walk.map(f, tree, rest, is_leaf)


_MISSING: Any = object()


def reduce(function, tree, initializer=_MISSING, is_leaf=None):
    """Leaves combined from the left by `function`, starting with `initializer` if there is one.

    >>> import fgrad
    >>> fgrad.tree.reduce(lambda a, b: a + b, {"a": 1, "b": [2, 3]})
    6
    """
    xs = leaves(tree, is_leaf)
    return functools.reduce(function, xs) if initializer is _MISSING else functools.reduce(function, xs, initializer)


def reduce_associative(operation, tree, *, identity=_MISSING, is_leaf=None):
    """Leaves combined in pairs, pairs of pairs and so on: for an associative `operation`, a shorter chain than reduce's.

    Raises TypeError for a tree without leaves, unless there is an `identity`.
    """
    xs = leaves(tree, is_leaf)
    if not xs:
        if identity is _MISSING:
            raise TypeError("reduce_associative of a tree without leaves needs an identity")
        return identity
    while len(xs) > 1:
        xs = [operation(*xs[i : i + 2]) if i + 1 < len(xs) else xs[i] for i in range(0, len(xs), 2)]
    return xs[0]


def all(tree, *, is_leaf=None):  # noqa: A001
    """True if every leaf is true."""
    for x in leaves(tree, is_leaf):
        if not x:
            return False
    return True


def transpose(outer_treedef, inner_treedef, pytree_to_transpose):
    """A tree of trees turned inside out. inner_treedef None means: as the first of them.

    >>> import fgrad
    >>> pair, pairs = fgrad.tree.structure([0, 0]), {"a": [1, 2], "b": [3, 4]}
    >>> fgrad.tree.transpose(fgrad.tree.structure({"a": 0, "b": 0}), pair, pairs)
    [{'a': 1, 'b': 3}, {'a': 2, 'b': 4}]
    """
    if inner_treedef is None:
        subtrees = outer_treedef.flatten_up_to(pytree_to_transpose)
        if not subtrees:
            raise ValueError("tree.transpose: an inner_treedef of None needs an outer_treedef with a leaf")
        inner_treedef = structure(subtrees[0])
    xs, treedef = flatten(pytree_to_transpose)
    if treedef != outer_treedef.compose(inner_treedef):
        return optree.tree_transpose(outer_treedef, inner_treedef, pytree_to_transpose)  # says how they differ
    n = inner_treedef.num_leaves
    return unflatten(inner_treedef, [unflatten(outer_treedef, xs[i::n]) for i in range(n)])


def broadcast(prefix_tree, full_tree, is_leaf=None):
    """A tree of full_tree's structure whose leaves are those of prefix_tree, each repeated for what full_tree has below it.

    >>> import fgrad
    >>> fgrad.tree.broadcast({"a": 1, "b": 2}, {"a": [0, 0], "b": 0})
    {'a': [1, 1], 'b': 2}
    """
    return unflatten(structure(full_tree, is_leaf), broadcast_prefix(prefix_tree, full_tree, is_leaf))


class _Stop:
    """A subtree that an is_leaf which takes paths has made a leaf."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


def _stopped(tree, is_leaf, path=()):
    """`tree` with each subtree for which is_leaf(path, subtree) holds in a _Stop."""
    if is_leaf(path, tree):
        return _Stop(tree)
    spec = structure(tree, is_leaf=lambda x: x is not tree)
    if spec.is_leaf():
        return tree
    keys = [key_path(a) for a in spec.accessors()]
    return unflatten(spec, [_stopped(x, is_leaf, path + k) for k, x in zip(keys, spec.flatten_up_to(tree))])


def _with_paths(tree, is_leaf, is_leaf_takes_path):
    """(leaves, treedef, key paths)."""
    if is_leaf is None or not is_leaf_takes_path:
        return _walk.flatten_with_paths(tree, paths, is_leaf)
    xs, treedef, keys = _walk.flatten_with_paths(_stopped(tree, is_leaf), paths)
    return [x.value if type(x) is _Stop else x for x in xs], treedef, keys


def flatten_with_path(tree, is_leaf=None, is_leaf_takes_path=False):
    """([(key path, leaf)...], treedef); is_leaf is called as is_leaf(key path, x) with is_leaf_takes_path."""
    xs, treedef, keys = _with_paths(tree, is_leaf, is_leaf_takes_path)
    return list(zip(keys, xs)), treedef


def map_with_path(f, tree, *rest, is_leaf=None, is_leaf_takes_path=False):
    """f(key path, leaf, ...) over the leaves.

    >>> import fgrad
    >>> fgrad.tree.map_with_path(lambda path, x: fgrad.tree_util.keystr(path), {"a": [0, 0]})
    {'a': ["['a'][0]", "['a'][1]"]}
    """
    xs, treedef, keys = _with_paths(tree, is_leaf, is_leaf_takes_path)
    columns = [treedef.flatten_up_to(r) for r in rest]
    return unflatten(treedef, [f(*given) for given in zip(keys, xs, *columns)])


def leaves_with_path(tree, is_leaf=None, is_leaf_takes_path=False):
    """A list of (key path, leaf)."""
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def paths(treedef):
    """The key path of each leaf of a structure."""
    return [key_path(a) for a in treedef.accessors()]


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


def register_pytree_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func=None):
    """Make a class a pytree node: flatten_func(x) -> (children, aux), unflatten_func(aux, children) -> x.

    flatten_with_keys_func(x) -> ([(key, child)...], aux) names the children in key paths.
    """
    if flatten_with_keys_func is None:
        flatten_entries = lambda x: (*flatten_func(x)[:2], None)  # noqa: E731
    else:
        keyed_classes.add(nodetype)
        flatten_entries = functools.partial(_flatten_entries, flatten_with_keys_func)
    register_in((_NS, ARRAYS_NS), nodetype, flatten_entries, unflatten_func)
    return nodetype


def register_in(namespaces, nodetype, flatten_entries, unflatten_func):
    """Make a class a node in optree's `namespaces`."""
    with warnings.catch_warnings():  # optree's, that a named tuple is a pytree without being registered
        warnings.filterwarnings("ignore", "PyTree type .* is a subclass of", UserWarning)
        for namespace in namespaces:
            try:
                optree.register_pytree_node(nodetype, flatten_entries, unflatten_func, namespace=namespace)
            except ValueError as e:
                raise ValueError(f"Duplicate custom PyTreeDef type registration for {nodetype}. {e}") from None
    _walk.forget()
    array_walk.forget()


def _flatten_entries(flatten_with_keys, x):
    pairs, aux = flatten_with_keys(x)
    pairs = list(pairs)
    return [child for _, child in pairs], aux, [key for key, _ in pairs]


def register_pytree_with_keys(nodetype, flatten_with_keys, unflatten_func, flatten_func=None):
    """Make a class a pytree node whose children have keys: flatten_with_keys(x) -> ([(key, child)...], aux)."""
    return register_pytree_node(nodetype, flatten_func, unflatten_func, flatten_with_keys)


def register_pytree_node_class(cls):
    """Class decorator: uses the class's tree_flatten method and tree_unflatten class method."""
    return register_pytree_node(cls, operator.methodcaller("tree_flatten"), cls.tree_unflatten)


def register_pytree_with_keys_class(cls):
    """Class decorator: uses the class's tree_flatten_with_keys method and tree_unflatten class method."""
    return register_pytree_with_keys(cls, operator.methodcaller("tree_flatten_with_keys"), cls.tree_unflatten)


def register_static(cls):
    """Class decorator: instances are nodes without leaves, part of the structure; they need a hash and ==."""
    return register_pytree_node(cls, lambda x: ((), x), lambda x, _: x)


def static(**kwargs):
    """dataclasses.field(...) for a field that register_dataclass keeps as static data."""
    return dataclasses.field(**{**kwargs, "metadata": {**kwargs.get("metadata", {}), "static": True}})


def _dataclass_fields(cls, data_fields, meta_fields, drop_fields):
    """(data fields, meta fields), checked against the dataclass."""
    if (data_fields is None) != (meta_fields is None):
        raise TypeError("register_dataclass: give both data_fields and meta_fields, or neither")
    if data_fields is None:
        if not dataclasses.is_dataclass(cls):
            raise TypeError(f"register_dataclass: {cls} is not a dataclass, so it needs data_fields and meta_fields")
        fields = [f for f in dataclasses.fields(cls) if f.init and f.name not in drop_fields]
        meta_fields = [f.name for f in fields if f.metadata.get("static")]
        data_fields = [f.name for f in fields if not f.metadata.get("static")]
    elif both := {*data_fields} & {*meta_fields}:
        raise ValueError(f"register_dataclass: data_fields and meta_fields must not overlap; both have {sorted(both)}")
    elif dataclasses.is_dataclass(cls):
        have, given = {f.name for f in dataclasses.fields(cls) if f.init}, {*data_fields, *meta_fields}
        if have - {*drop_fields} != given:
            raise ValueError(
                "data_fields and meta_fields must include all dataclass fields with ``init=True`` and only them. "
                f"Missing fields: {sorted(have - given - {*drop_fields})}. Unexpected fields: {sorted(given - have)}. drop_fields leaves "
                f"fields of {cls.__name__} out."
            )
    return tuple(data_fields), tuple(meta_fields)


def register_dataclass(nodetype, data_fields=None, meta_fields=None, drop_fields=()):
    """Make a dataclass a pytree node with `data_fields` as children and `meta_fields` as static data.

    By default the fields made with tree.static() are static, all others children. Raises ValueError for a field that
    is in neither (drop_fields keeps one out of the tree: it gets its default again).

    >>> import dataclasses, fgrad
    >>> @fgrad.tree_util.register_dataclass
    ... @dataclasses.dataclass
    ... class Layer:
    ...     w: float
    ...     name: str = fgrad.tree.static(default="")
    >>> fgrad.tree.map(lambda w: 2 * w, Layer(1.5, "first"))
    Layer(w=3.0, name='first')
    """
    data, meta = _dataclass_fields(nodetype, data_fields, meta_fields, drop_fields)
    keys = [GetAttrKey(n) for n in data]
    return register_pytree_with_keys(
        nodetype,
        lambda x: ([(k, getattr(x, k.name)) for k in keys], tuple(getattr(x, n) for n in meta)),
        lambda aux, children: nodetype(**dict(zip(data, children)), **dict(zip(meta, aux))),
    )


__all__ = [
    "PyTreeDef",
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "keystr",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "register_dataclass",
    "static",
    "structure",
    "transpose",
    "unflatten",
]
