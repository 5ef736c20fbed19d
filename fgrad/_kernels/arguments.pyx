"""The leaves of a call's arguments, and the words that tell calls apart, without going through Python.

An array's word is the address of its aval, which is interned, a Python scalar's that of its type; containers have negative words, and a
dictionary's is followed by the address of its sorted names. Words are read in order, so no two structures have the same ones.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uintptr_t
from libc.string cimport memcpy

from fgrad._kernels.array cimport ArrayBase
from fgrad._kernels.operands cimport is_numpy, is_scalar, numpy_aval

cdef object _array_class = None
cdef object _wrapper_class = None
cdef object _unwrap = None

cdef enum:
    DICT = 1, LIST = 2, TUPLE = 3, NONE = 4, WRAPPER = 5
    DEEPEST = 64
    KNOWN_NAMES = 10000

cdef dict _sorted = {}                   # names of a dictionary in its own order -> in ascending order
cdef dict _interned = {}                 # sorted names -> the one tuple of them, whose address is a word: none is ever dropped


def install_wrapper(cls, unwrap):
    """Name the pytree node of one leaf that calls take without flattening their arguments, and what gives its leaf."""
    global _wrapper_class, _unwrap
    _wrapper_class, _unwrap = cls, unwrap


def install_leaves(array_class):
    """Hand over the class of arrays."""
    global _array_class
    _array_class = array_class


cdef void start(Words *w) noexcept:
    w.at, w.n, w.room = w.first, 0, 64


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


cdef bytes signature_of(Words *w):
    return PyBytes_FromStringAndSize(<char *>w.at, w.n * sizeof(int64_t))


cdef tuple sorted_names(dict d):
    """The names of a dictionary in ascending order, as the one tuple of them; None for keys that are not all strings."""
    cdef tuple own = tuple(d), names
    found = _sorted.get(own)
    if found is not None:
        return <tuple>found
    for key in own:
        if type(key) is not str:
            return None
    if len(_sorted) >= KNOWN_NAMES:
        return None
    names = tuple(sorted(own))
    names = _interned.setdefault(names, names)
    _sorted[own] = names
    return names


cdef int flatten_dict(dict d, list leaves, Words *w, bint *convert, int depth) except -1:
    cdef tuple names = sorted_names(d)
    if names is None:
        return 0
    push(w, -(<int64_t>len(names) << 3 | DICT))
    push(w, <int64_t><uintptr_t><PyObject *>names)
    for name in names:
        if not flatten(d[name], leaves, w, convert, depth):
            return 0
    return 1


cdef int flatten(object x, list leaves, Words *w, bint *convert, int depth) except -1:
    """Append the leaves and words of a tree; 0 where it holds what only fgrad.tree knows. *convert is set if a leaf is no contiguous array."""
    cdef object t = type(x)
    if t is _array_class:
        if (<ArrayBase>x).strides_or_none is not None:
            convert[0] = True
        push(w, <int64_t><uintptr_t><PyObject *>(<ArrayBase>x).aval)
    elif is_scalar(t):
        convert[0] = True
        push(w, <int64_t><uintptr_t><PyObject *>t)
    elif is_numpy(x):
        convert[0] = True
        aval = numpy_aval(x)
        push(w, <int64_t><uintptr_t><PyObject *>aval)
    elif depth == DEEPEST:
        return 0
    elif t is dict:
        return flatten_dict(x, leaves, w, convert, depth + 1)
    elif t is list or t is tuple:
        push(w, -(<int64_t>len(x) << 3 | (LIST if t is list else TUPLE)))
        for y in (<list>x if t is list else <tuple>x):
            if not flatten(y, leaves, w, convert, depth + 1):
                return 0
        return 1
    elif x is None:
        push(w, -NONE)
        return 1
    elif t is _wrapper_class:
        x = _unwrap(x)
        if type(x) is not _array_class:
            return 0
        push(w, -WRAPPER)
        return flatten(x, leaves, w, convert, depth)
    else:
        return 0
    leaves.append(x)
    return 1
