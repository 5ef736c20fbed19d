"""The walk through a pytree: its leaves, and words that tell its structure from others, without optree's look-ups for each leaf.

A leaf's word is 0; a container's are its length and kind, then what else it is told by: the address of a dictionary's names (in ascending
order, which is also that of the dictionaries a treedef makes), of a class, of the auxiliary data of a registered node. Words are read in
order, so no two structures have the same ones, and a tree is made again of them and its leaves.
What this walk does not know (ordered dictionaries, keys that are no strings, data without a hash...) it leaves to optree.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport Py_INCREF, PyObject
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int64_t, uintptr_t
from libc.string cimport memcmp, memcpy

from builtins import map as builtin_map
from collections import defaultdict

import optree

cdef extern from *:
    PyObject **PySequence_Fast_ITEMS(object x)

cdef object _leaf = optree.treespec_leaf(none_is_leaf=False)

cdef enum:
    LEAF = 0, DICT = 1, LIST = 2, TUPLE = 3, NONE = 4, NAMED = 5, CUSTOM = 6, OTHER = 7
    DEEPEST = 64
    MOST_NAMES = 10000
    MOST_DATA = 1000
    MOST_STRUCTURES = 1000

cdef dict _CODES = {"DICT": DICT, "LIST": LIST, "TUPLE": TUPLE, "NONE": NONE, "NAMEDTUPLE": NAMED, "CUSTOM": CUSTOM}

# What has its address in words is never dropped.
cdef dict _names = {}                    # names of a dictionary in its own order -> (the one tuple of them ascending, if that is its own)
cdef dict _data = {}                     # auxiliary data of nodes -> the one object of those that are equal
cdef list _kinds = []
cdef dict _paths = {}                    # (namespace, words) -> what flatten_with_paths keeps

cdef dict _known = {}                    # address of a treedef -> (the treedef, its words, its number of leaves)

cdef object _leaf_type = None


def known_leaf(cls):
    """Name the class of most leaves."""
    global _leaf_type
    _leaf_type = cls


cdef void start(Words *w) noexcept:
    w.at, w.n, w.room, w.custom, w.unsorted = w.first, 0, 64, False, False


cdef void release(Words *w) noexcept:
    if w.at != w.first:
        PyMem_Free(w.at)


cdef int grow(Words *w) except -1:
    cdef int64_t *more = <int64_t *>PyMem_Malloc(2 * w.room * sizeof(int64_t))
    if more == NULL:
        raise MemoryError()
    memcpy(more, w.at, w.n * sizeof(int64_t))
    release(w)
    w.at, w.room = more, 2 * w.room
    return 0


cdef int push(Words *w, int64_t word) except -1:
    if w.n == w.room:
        grow(w)
    w.at[w.n] = word
    w.n += 1
    return 0


cdef inline int push_object(Words *w, object x) except -1:
    return push(w, <int64_t><uintptr_t><PyObject *>x)


cdef inline int push_container(Words *w, int code, Py_ssize_t n) except -1:
    return push(w, <int64_t>n << 3 | code)


cdef bytes bytes_of(Words *w):
    return PyBytes_FromStringAndSize(<char *>w.at, w.n * sizeof(int64_t))


cdef tuple names_of(dict d):
    """(the dictionary's names in ascending order, whether that is its own); None where they are not all strings."""
    cdef tuple own = tuple(d)
    cdef PyObject *found
    for key in own:
        if type(key) is not str:           # members of an enumeration may equal strings
            return None
    found = PyDict_GetItem(_names, own)
    if found != NULL:
        return <tuple>found
    if len(_names) >= MOST_NAMES:
        return None
    names = tuple(sorted(own))
    names = _names.setdefault(names, (names, True))[0]
    return _names.setdefault(own, (names, False))


def _ascending(one):
    """A treedef of one level, of a dictionary in ascending order if it is one's (but an ordered one's)."""
    if one.type is not dict and one.type is not defaultdict:
        return one
    names = {name: _leaf for name in one.entries()}
    if one.type is dict:
        return optree.treespec_dict(names, none_is_leaf=False, namespace=one.namespace)
    factory = one.unflatten(range(one.num_children)).default_factory
    return optree.treespec_defaultdict(factory, names, none_is_leaf=False, namespace=one.namespace)


def ascending(spec):
    """A treedef whose dictionaries are made in ascending order of their keys, as JAX does."""
    return spec.transform(_ascending)


cdef object made_of(const int64_t **words, PyObject ***leaves):
    """The next subtree, of words (none of a custom node) and leaves that it moves on past."""
    cdef int64_t word = words[0][0], n = word >> 3, i
    cdef int code = word & 7
    cdef object x, cls = None
    cdef dict d
    cdef list row
    cdef tuple items
    words[0] += 1
    if code == LEAF:
        leaves[0] += 1
        return <object>leaves[0][-1]
    if code == NONE:
        return None
    if code == DICT:
        d = {}
        items = <tuple><PyObject *><uintptr_t>words[0][0]
        words[0] += 1
        for x in items:
            d[x] = made_of(words, leaves)
        return d
    if code == LIST:
        row = PyList_New(n)
        for i in range(n):
            x = made_of(words, leaves)
            Py_INCREF(x)
            PyList_SET_ITEM(row, i, x)
        return row
    if code == NAMED:
        cls = <object><PyObject *><uintptr_t>words[0][0]
        words[0] += 1
    items = PyTuple_New(n)
    for i in range(n):
        x = made_of(words, leaves)
        Py_INCREF(x)
        PyTuple_SET_ITEM(items, i, x)
    return items if cls is None else cls(*items)


cdef object tree_of(const int64_t *words, object leaves):
    """The tree of these words and a list or tuple of as many leaves as they tell of."""
    cdef PyObject **first = PySequence_Fast_ITEMS(leaves)
    return made_of(&words, &first)


def unflatten(treedef, leaves):
    """The tree that a treedef makes of leaves. Raises ValueError for a wrong number of them."""
    cdef PyObject *found = PyDict_GetItem(_known, <uintptr_t><PyObject *>treedef)
    cdef bytes words
    cdef tuple row, known
    if found == NULL:
        return optree.tree_unflatten(treedef, leaves)
    known = <tuple>found                     # ours from here on: taking the leaves may run code that forgets it
    row = tuple(leaves)
    words = known[1]
    if len(row) != known[2]:
        return optree.tree_unflatten(treedef, row)           # says so
    return tree_of(<const int64_t *><const char *>words, row)


cdef class Kind:
    """What a class is in a tree."""

    def __init__(self, code, type, flatten):
        self.code, self.type, self.flatten = code, type, flatten
        if code == NAMED or code == CUSTOM:
            _kinds.append(self)


cdef class Walk:
    """The walks in one of optree's namespaces."""

    def __init__(self, str namespace):
        self.namespace = namespace
        self.kinds, self.structures = {}, {}

    def forget(self):
        """A class has been registered."""
        self.kinds = {}
        self.structures = {}
        _paths.clear()

    cdef Kind learn(self, t):
        entry = optree.register_pytree_node.get(t, namespace=self.namespace)
        code = LEAF if entry is None else _CODES.get(entry.kind.name, OTHER)
        kind = self.kinds[t] = Kind(code, t, entry.flatten_func if code == CUSTOM else None)
        return kind

    cdef int walk_dict(self, dict d, list leaves, Words *w, int depth) except -1:
        cdef tuple known = names_of(d)
        if known is None:
            return 0
        if not known[1]:
            w.unsorted = True
        push_container(w, DICT, len(d))
        push_object(w, known[0])
        for name in <tuple>known[0]:
            if not self.walk(d[name], leaves, w, depth):
                return 0
        return 1

    cdef int walk_custom(self, object x, Kind kind, list leaves, Words *w, int depth) except -1:
        flat = kind.flatten(x)
        if type(flat) is not tuple or not 2 <= len(flat) <= 3:
            return 0
        data = (<tuple>flat)[1]
        try:
            known = _data.get(data)
            if known is None:
                if len(_data) >= MOST_DATA:
                    return 0
                _data[data] = known = (data,)    # never None itself
        except Exception:                        # no hash, no plain ==
            return 0
        children = list((<tuple>flat)[0])
        w.custom = True
        push_container(w, CUSTOM, len(children))
        push_object(w, kind.type)
        push_object(w, known)
        for y in children:
            if not self.walk(y, leaves, w, depth):
                return 0
        return 1

    cdef int walk(self, object x, list leaves, Words *w, int depth) except -1:
        """Append the leaves and words of a tree; 0 where it holds what only optree knows."""
        cdef PyObject *found
        cdef Kind kind
        cdef int code
        cdef object t = type(x)
        if t is _leaf_type:
            push(w, LEAF)
            leaves.append(x)
            return 1
        found = PyDict_GetItem(self.kinds, t)
        kind = <Kind>found if found != NULL else self.learn(t)
        code = kind.code
        if code == LEAF:
            push(w, LEAF)
            leaves.append(x)
            return 1
        if code == NONE:
            push(w, NONE)
            return 1
        if code == OTHER or depth == DEEPEST:
            return 0
        if code == DICT:
            return self.walk_dict(x, leaves, w, depth + 1)
        if code == CUSTOM:
            return self.walk_custom(x, kind, leaves, w, depth + 1)
        push_container(w, code, len(x))
        if code == LIST:
            for y in <list>x:
                if not self.walk(y, leaves, w, depth + 1):
                    return 0
            return 1
        if code == NAMED:
            push_object(w, t)
        for y in <tuple>x:
            if not self.walk(y, leaves, w, depth + 1):
                return 0
        return 1

    cdef object structure_of(self, tree, Words *w):
        """The treedef of a tree whose words these are."""
        cdef bytes key
        if w.custom:                             # auxiliary data that are equal need not be the same
            spec = optree.tree_structure(tree, none_is_leaf=False, namespace=self.namespace)
            return ascending(spec) if w.unsorted else spec
        key = bytes_of(w)
        spec = self.structures.get(key)
        if spec is None:
            if len(self.structures) >= MOST_STRUCTURES:
                self.structures.clear()
            spec = self.structures[key] = ascending(optree.tree_structure(tree, none_is_leaf=False, namespace=self.namespace))
            if len(_known) >= MOST_STRUCTURES:
                _known.clear()
            _known[<uintptr_t><PyObject *>spec] = (spec, key, spec.num_leaves)
        return spec

    def flatten(self, tree, is_leaf=None):
        """(leaves, treedef)."""
        cdef Words w
        cdef list leaves = []
        if is_leaf is None:
            start(&w)
            try:
                if self.walk(tree, leaves, &w, 0):
                    return leaves, self.structure_of(tree, &w)
            finally:
                release(&w)
        xs, treedef = optree.tree_flatten(tree, is_leaf=is_leaf, none_is_leaf=False, namespace=self.namespace)
        return xs, ascending(treedef)

    def flatten_with_paths(self, tree, make, is_leaf=None):
        """(leaves, treedef, make(treedef)); the last is made once for all trees of one structure."""
        cdef Words w
        cdef list leaves = []
        cdef tuple key
        if is_leaf is None:
            start(&w)
            try:
                if self.walk(tree, leaves, &w, 0) and not w.custom:
                    treedef = self.structure_of(tree, &w)
                    key = (self.namespace, bytes_of(&w))
                    paths = _paths.get(key)
                    if paths is None:
                        if len(_paths) >= MOST_STRUCTURES:
                            _paths.clear()
                        paths = _paths[key] = make(treedef)
                    return leaves, treedef, paths
            finally:
                release(&w)
        xs, treedef = self.flatten(tree, is_leaf)
        return xs, treedef, make(treedef)

    def leaves(self, tree, is_leaf=None):
        """The leaves of `tree`, in order."""
        cdef Words w
        cdef list leaves = []
        if is_leaf is None:
            start(&w)
            try:
                if self.walk(tree, leaves, &w, 0):
                    return leaves
            finally:
                release(&w)
        return optree.tree_leaves(tree, is_leaf=is_leaf, none_is_leaf=False, namespace=self.namespace)

    def structure(self, tree, is_leaf=None):
        """The treedef of `tree`."""
        return self.flatten(tree, is_leaf)[1]

    cdef list columns(self, tree, tuple rest, Words *first):
        """A list of leaves per tree, for trees of one structure, whose words `first` becomes; otherwise None."""
        cdef Words other
        cdef list mine = [], columns = [mine], more
        start(&other)
        try:
            if not self.walk(tree, mine, first, 0):
                return None
            for r in rest:
                more = []
                other.n = 0
                if not self.walk(r, more, &other, 0) or other.n != first.n or memcmp(first.at, other.at, first.n * sizeof(int64_t)):
                    return None
                columns.append(more)
            return columns
        finally:
            release(&other)

    def map(self, f, tree, tuple rest, is_leaf=None):
        """f over corresponding leaves. Raises ValueError where structures differ."""
        cdef Words words
        cdef list columns = None, out
        if is_leaf is None:
            start(&words)
            try:
                columns = self.columns(tree, rest, &words)
                if columns is not None:
                    spec = self.structure_of(tree, &words) if words.custom else None
                    out = [f(x) for x in <list>columns[0]] if len(columns) == 1 else [f(*xs) for xs in zip(*columns)]
                    return tree_of(words.at, out) if spec is None else spec.unflatten(out)
            finally:
                release(&words)
        xs, treedef = self.flatten(tree, is_leaf)
        return treedef.unflatten(builtin_map(f, xs, *[treedef.flatten_up_to(r) for r in rest]))
