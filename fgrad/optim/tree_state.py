"""Reading and replacing the named parts of an optimizer's state, under optax's names."""

from dataclasses import dataclass

from fgrad import tree as pytree
from fgrad.tree_util import DictKey, SequenceKey


class ParamsPlaceholder:
    """Where parameters stand in the state of an optimizer: a node without leaves."""


pytree.register_pytree_node(ParamsPlaceholder, lambda x: ((), None), lambda _, children: ParamsPlaceholder())


@dataclass(frozen=True)
class NamedTupleKey:
    """The place of a field in a named tuple: the tuple's class name and the field's."""

    tuple_name: str
    name: str

    def __str__(self):
        return f"{self.tuple_name}.{self.name}"


def tree_get_all_with_path(tree, key, filtering=None):
    """All (path, value)s under the dictionary key or named-tuple field `key`, and the named tuples of that class name.

    A path consists of DictKey, SequenceKey and NamedTupleKey. filtering(path, value) may choose among them.

    >>> import fgrad
    >>> [(path, value)] = fgrad.optim.tree_utils.tree_get_all_with_path(fgrad.optim.adam(0.1).init({"w": 1.0}), "count")
    >>> print(*path, value)
    [0] ScaleByAdamState.count 0
    """
    return [(path, value) for path, value in _found(tree, (), key) if filtering is None or filtering(path, value)]


def tree_get(tree, key, default=None, filtering=None):
    """The one value that tree_get_all_with_path finds; `default` without one. Raises KeyError where there are several.

    >>> import fgrad
    >>> fgrad.optim.tree_utils.tree_get(fgrad.optim.adam(0.1).init({"w": 1.0}), "count")
    Array(0, dtype=int32)
    """
    found = tree_get_all_with_path(tree, key, filtering)
    if len(found) > 1:
        places = ["".join(map(str, path)) for path, _ in found]
        raise KeyError(f"tree_get: {key!r} is in the tree {len(found)} times, at {places}; choose with filtering")
    return found[0][1] if found else default


def tree_set(tree, filtering=None, /, **kwargs):
    """The tree with the values of dictionary keys, named-tuple fields and named tuples replaced: tree_set(state, learning_rate=0.1).

    filtering(path, value) says which places count. Raises KeyError for a name that is nowhere.
    """
    missing = [key for key in kwargs if not tree_get_all_with_path(tree, key, filtering)]
    if missing:
        raise KeyError(f"tree_set: nothing in the tree is named {missing[0]!r}{'' if filtering is None else ' where filtering allows it'}")
    return _replaced(tree, (), kwargs, filtering)


def _is_named(node):
    return isinstance(node, tuple) and hasattr(node, "_fields")


def _children(node):
    """The (place, name, child)s of a container; none of a leaf."""
    if isinstance(node, dict):
        return [(DictKey(name), name, child) for name, child in node.items()]
    if _is_named(node):
        return [(NamedTupleKey(type(node).__name__, name), name, child) for name, child in zip(node._fields, node)]
    return [(SequenceKey(i), None, child) for i, child in enumerate(node)] if isinstance(node, (list, tuple)) else []


def _found(node, path, key):
    if _is_named(node) and type(node).__name__ == key:
        yield path, node
    for place, name, child in _children(node):
        if name is not None and name == key:
            yield (*path, place), child
        yield from _found(child, (*path, place), key)


def _replaced(node, path, values, filtering):
    def chosen(name, at, value):
        return isinstance(name, str) and name in values and (filtering is None or filtering(at, value))

    if _is_named(node) and chosen(type(node).__name__, path, node):
        return values[type(node).__name__]
    children = _children(node)
    if not children:
        return node
    new = []
    for place, name, child in children:
        here = (*path, place)
        new.append(values[name] if chosen(name, here, child) else _replaced(child, here, values, filtering))
    if isinstance(node, dict):
        return type(node)(zip(node, new))
    return type(node)(*new) if _is_named(node) else type(node)(new)
