"""The call path of jitted functions (and what that of eager ones shares with it): flatten, look up, run, wrap, without going through Python.

A signature is a string of bytes: the settings, the words of the arguments' structure (see fgrad.tree_walk), then for each leaf the address of
its aval (which is interned, and kept alive by the entry it leads to), or of a Python scalar's type.
What this path does not know is left to the owner's `_prepare` and `_slow` methods.
"""
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uintptr_t

from fgrad._kernels.array cimport ArrayBase
from fgrad._kernels.context cimport config_key, has_axes, is_eval
from fgrad._kernels.executor cimport Program
from fgrad._kernels.operands cimport Scalar, as_array, get_aval, is_numpy, is_numpy_scalar, is_scalar, numpy_aval
from fgrad.tree_walk cimport Walk, Words, bytes_of, push, release, start

from fgrad.tree_walk import known_leaf

cdef Walk _walk = None
cdef object array_class = None


def install(Walk walk, cls):
    """Hand over what lives in higher layers."""
    global _walk, array_class
    _walk, array_class = walk, cls
    known_leaf(cls)


cdef enum:
    FEW = 8                        # leaves of a call that goes from their memory straight to the program


cdef class Entry:
    """A program at one signature, with what is needed to wrap its results."""
    def __init__(self, Program program, list consts, tuple donated, out_tree, as_tuple, keep):
        self.program, self.consts, self.donated = program, consts, donated
        self.out_tree, self.as_tuple, self.keep = out_tree, as_tuple, keep
        self.direct = program.direct and out_tree is None and not consts

    cdef object run(self, list arrays):
        cdef list out = self.program.run_list(self.consts + arrays if self.consts else arrays)
        if self.donated:
            self.delete_donated(arrays)
        if self.out_tree is None:
            return out[0]
        if self.as_tuple:
            return tuple(out)
        return self.out_tree.unflatten(out)

    cdef object run_direct(self, list leaves):
        """The result from the leaves' memory alone; None where that cannot be."""
        cdef Scalar[8] scalars
        cdef char *data[8]
        cdef bint narrow = False, wide = False
        cdef Py_ssize_t i, n = len(leaves)
        if not self.direct or n > FEW:
            return None
        for i in range(n):
            if operand(leaves[i], &scalars[i], &data[i], &narrow, &wide) == 0:
                return None
        return self.program.run_one(data)

    cdef object run_any(self, list leaves):
        """As run, of leaves that need not be contiguous arrays."""
        cdef bint copy = self.program.returns_args or bool(self.donated)
        out = self.run([as_array(x, copy) for x in leaves])
        self.delete_donated(leaves)
        return out

    cdef int delete_donated(self, list leaves) except -1:
        cdef int i
        for i in self.donated:
            x = leaves[i - len(self.consts)]
            if type(x) is array_class:
                (<ArrayBase>x).delete()
        return 0


cdef object kind_of(object v):
    """What tells apart values that are equal and hash alike: 1, 1.0 and True, 0.0 and -0.0, also within tuples and slices. None for a plain one."""
    t = type(v)
    if t is int or v is None or t is str:
        return None
    if t is float:
        return t if v else repr(v)
    if isinstance(v, tuple):
        return kinds_of(<tuple>v)
    if t is slice:
        return kinds_of((v.start, v.stop, v.step))
    if t is complex or is_numpy_scalar(v):
        return t, repr(v)
    return t


cdef object kinds_of(tuple values):
    cdef list out = None
    cdef Py_ssize_t i
    for i in range(len(values)):
        kind = kind_of(values[i])
        if kind is not None:
            if out is None:
                out = [None] * len(values)
            out[i] = kind
    return None if out is None else tuple(out)


cdef class JitDispatch:
    """Base of jitted functions.

    `_prepare(args, kwargs, leaves)` traces and compiles: an Entry, or None for what `_slow(args, kwargs)` must do. `_split(args, kwargs)`
    takes static arguments out: (dynamic, kwargs, hashable static values).
    """
    cdef dict entries              # signature -> Entry; or static values, or (structure, static values) -> {signature: Entry}
    cdef tuple static_nums         # positions of static arguments
    cdef frozenset static_names

    def __init__(self, tuple static_nums, frozenset static_names, dict entries=None):
        self.entries = {} if entries is None else entries
        self.static_nums, self.static_names = static_nums, static_names

    def clear_cache(self):
        """Forget all compiled programs."""
        self.entries.clear()

    cdef int flat_arguments(self, tuple args, dict kwargs, list leaves, list static, Words *w) except -1:
        """Append leaves and words of the arguments; 0 where they hold what only the owner's methods know."""
        cdef Py_ssize_t i, n = len(args)
        push(w, n)
        for i in range(n):
            if self.static_nums and (i in self.static_nums or i - n in self.static_nums):
                static.append((i, type(args[i]), args[i]))
            elif not _walk.walk(args[i], leaves, w, 0):
                return 0
        if not kwargs:
            return 1
        if self.static_names:
            static += [(k, type(v), v) for k, v in kwargs.items() if k in self.static_names]
            kwargs = {k: v for k, v in kwargs.items() if k not in self.static_names}
        return _walk.walk_dict(kwargs, leaves, w, 0)

    def __call__(self, *args, **kwargs):
        cdef list leaves = [], static = []
        cdef dict table = self.entries
        cdef bytes key
        cdef Entry entry
        cdef bint convert = False
        cdef Words words
        if not is_eval() or has_axes():
            return self._slow(args, kwargs)
        start(&words)
        try:
            if self.flat_arguments(args, kwargs, leaves, static, &words):
                if static:
                    table = self.table_of(tuple(static))
            else:
                dynamic, named, given = self._split(args, kwargs) if self.static_nums or self.static_names else (args, kwargs, None)
                leaves, treedef = _walk.flatten((dynamic, named))
                table = self.table_of((treedef, given))
                words.n = 0
            push(&words, config_key())
            leaf_words(leaves, &words, &convert)
            key = bytes_of(&words)
        except TypeError:                # a leaf that is no array, a static value without a hash: _slow says which
            return self._slow(args, kwargs)
        finally:
            release(&words)
        entry = table.get(key)
        if entry is None:
            entry = self._prepare(args, kwargs, leaves)
            if entry is None:
                return self._slow(args, kwargs)
            table[key] = entry
        out = entry.run_direct(leaves)
        if out is not None:
            return out
        return entry.run_any(leaves) if convert else entry.run(leaves)

    cdef dict table_of(self, tuple key):
        found = self.entries.get(key)
        if found is None:
            found = self.entries[key] = {}
        return found


cdef int leaf_words(list leaves, Words *w, bint *convert) except -1:
    """A word per leaf for what a program depends on; *convert is set if some are not contiguous arrays yet."""
    cdef object t, kind
    for x in leaves:
        t = type(x)
        if t is array_class:
            kind = (<ArrayBase>x).aval
            if (<ArrayBase>x).strides_or_none is not None:
                convert[0] = True
        else:
            convert[0] = True
            kind = t if is_scalar(t) else numpy_aval(x) if is_numpy(x) else get_aval(x)
        push(w, <int64_t><uintptr_t><PyObject *>kind)
    return 0
