"""Key paths of pytrees, in JAX's notation: what tree.flatten_with_path gives and keystr prints."""

import dataclasses
from typing import Any

import optree


@dataclasses.dataclass(frozen=True)
class DictKey:
    """The key of a child of a dictionary."""

    key: Any

    def __str__(self):
        return f"[{self.key!r}]"


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """The index of a child of a list or tuple."""

    idx: int

    def __str__(self):
        return f"[{self.idx!r}]"


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """The attribute that holds a child of a named tuple, dataclass or class with keys."""

    name: str

    def __str__(self):
        return f".{self.name}"


@dataclasses.dataclass(frozen=True)
class FlattenedIndexKey:
    """The number of a child of a class that was registered without keys."""

    key: int

    def __str__(self):
        return f"[<flat index {self.key}>]"


KeyEntry = DictKey | SequenceKey | GetAttrKey | FlattenedIndexKey
KeyPath = tuple[Any, ...]
keyed_classes: set = set()  # registered with keys of their own: their entries are keys already


def key_path(accessor) -> KeyPath:
    """The key path of an optree accessor."""
    return tuple(map(_key, accessor))


def _key(entry):
    if entry.type in keyed_classes:
        return entry.entry
    if isinstance(entry, optree.NamedTupleEntry):
        return GetAttrKey(entry.field)
    if isinstance(entry, optree.SequenceEntry):
        return SequenceKey(entry.entry)
    if isinstance(entry, optree.MappingEntry):
        return DictKey(entry.entry)
    return FlattenedIndexKey(entry.entry)


def _simple(key):
    for name in ("name", "idx", "key"):
        if hasattr(key, name):
            return str(getattr(key, name))
    return str(key)


def keystr(keys, *, simple=False, separator=""):
    """A key path as text; `simple` leaves brackets, dots and quotes out.

    Entries that are no keys (those of treedef.paths()) count as indices.

    >>> import fgrad
    >>> (path, _), = fgrad.tree.leaves_with_path({"w": [1.0]})
    >>> fgrad.tree_util.keystr(path), fgrad.tree_util.keystr(path, simple=True, separator="/")
    ("['w'][0]", 'w/0')
    """
    text = _simple if simple else lambda k: f"[{k!r}]" if isinstance(k, (str, int)) else str(k)
    return separator.join(map(text, keys))
