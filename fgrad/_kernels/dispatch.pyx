"""The call path of jitted functions and eager operations: flatten, look up, run, wrap, without going through Python.

A signature is a string of bytes: the addresses of the arguments' avals (which are interned, and kept alive by the entry they lead to),
or of a Python scalar's type.  What this path does not know is left to the owner's `_prepare` and `_slow` methods.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uintptr_t

from fgrad._kernels.abi cimport FG_F32, FG_F64, FG_I8, FG_I16, FG_I32, FG_I64, FG_U8, FG_U64
from fgrad._kernels.array cimport ArrayBase, new_array
from fgrad._kernels.executor cimport Program

cdef object _context = None         # thread-local: .trace, .axis_env
cdef object _eval_trace = None
cdef object _config = None
cdef object _flatten = None
cdef object _to_array = None
cdef object _contiguous = None
cdef object _get_aval = None
cdef object _array_class = None
cdef object _shaped = None         # ShapedArray(shape, dtype, weak_type)


def install(context, eval_trace, config, flatten, get_aval, to_array, contiguous, array_class, shaped):
    """Hand over what lives in higher layers."""
    global _context, _eval_trace, _config, _flatten, _get_aval, _to_array, _contiguous, _array_class, _shaped
    _context, _eval_trace, _config, _flatten = context, eval_trace, config, flatten
    _get_aval, _to_array, _contiguous, _array_class, _shaped = get_aval, to_array, contiguous, array_class, shaped


cdef class Entry:
    """A program at one signature, with what is needed to wrap its results."""
    cdef Program program
    cdef list consts
    cdef tuple donated
    cdef object out_tree           # None: the result is one leaf
    cdef bint as_tuple             # the result is a flat tuple
    cdef object keep

    def __init__(self, Program program, list consts, tuple donated, out_tree, as_tuple, keep):
        self.program, self.consts, self.donated = program, consts, donated
        self.out_tree, self.as_tuple, self.keep = out_tree, as_tuple, keep

    cdef object run(self, list arrays):
        cdef list out = self.program.run_list(self.consts + arrays if self.consts else arrays)
        if self.donated:
            self.delete_donated(arrays)
        if self.out_tree is None:
            return out[0]
        if self.as_tuple:
            return tuple(out)
        return self.out_tree.unflatten(out)


    cdef int delete_donated(self, list leaves) except -1:
        cdef int i
        for i in self.donated:
            x = leaves[i - len(self.consts)]
            if type(x) is _array_class:
                (<ArrayBase>x).delete()
        return 0


cdef inline bint is_scalar(object t) noexcept:
    return t is float or t is int or t is bool or t is complex


cdef inline int64_t config_key() except? -1:
    return _config.key() if _config._local.values else _config._global_key


cdef class JitDispatch:
    """Base of jitted functions.

    `_prepare(args, kwargs, leaves)` traces and compiles: an Entry, or None for what `_slow(args, kwargs)` must do. `_split(args, kwargs)`
    takes static arguments out: (dynamic, kwargs, hashable static values).
    """
    cdef dict entries              # signature -> Entry; or (treedef, static values) -> {signature: Entry}
    cdef bint has_static

    def __init__(self, bint has_static):
        self.entries = {}
        self.has_static = has_static

    def clear_cache(self):
        """Forget all compiled programs."""
        self.entries.clear()

    def __call__(self, *args, **kwargs):
        cdef list leaves
        cdef dict table = self.entries
        cdef bytes key
        cdef Entry entry
        cdef bint flat = not kwargs and not self.has_static, convert = False
        if _context.trace is not _eval_trace or _context.axis_env:
            return self._slow(args, kwargs)
        if flat:
            for x in args:
                if type(x) is not _array_class and not is_scalar(type(x)):
                    flat = False
                    break
        if flat:
            leaves = list(args)
        else:
            dynamic, named, static = self._split(args, kwargs) if self.has_static else (args, kwargs, None)
            leaves, treedef = _flatten((dynamic, named))
            found = table.get((treedef, static))
            if found is None:
                found = table[(treedef, static)] = {}
            table = found
        try:
            key = signature(leaves, &convert)
        except TypeError:                # a leaf that is no array: _slow says which
            return self._slow(args, kwargs)
        entry = table.get(key)
        if entry is None:
            entry = self._prepare(args, kwargs, leaves)
            if entry is None:
                return self._slow(args, kwargs)
            table[key] = entry
        if not convert:
            return entry.run(leaves)
        out = entry.run(as_arrays(leaves))
        entry.delete_donated(leaves)
        return out


cdef bytes signature(list leaves, bint *convert):
    """What a program for these leaves depends on; *convert is set if some are not contiguous arrays yet."""
    cdef Py_ssize_t n = len(leaves), i
    cdef bytes out = PyBytes_FromStringAndSize(NULL, (n + 1) * sizeof(int64_t))
    cdef int64_t *words = <int64_t *>PyBytes_AS_STRING(out)
    cdef object t
    cdef object kind
    words[0] = config_key()
    for i in range(n):
        x = leaves[i]
        t = type(x)
        if t is _array_class:
            words[i + 1] = <int64_t><uintptr_t><PyObject *>(<ArrayBase>x).aval
            if (<ArrayBase>x).strides_or_none is not None:
                convert[0] = True
        else:
            convert[0] = True
            kind = t if is_scalar(t) else _get_aval(x)
            words[i + 1] = <int64_t><uintptr_t><PyObject *>kind
    return out


cdef int64_t _scalar_config = -1        # the settings under which the next three hold
cdef object _float_aval = None
cdef object _int_aval = None
cdef bint _wide = False


cdef object scalar_array(object x):
    """A Python scalar as a weakly typed array of rank 0."""
    global _scalar_config, _float_aval, _int_aval, _wide
    cdef ArrayBase a
    cdef int64_t value
    if config_key() != _scalar_config:
        _float_aval, _int_aval = _get_aval(0.0), _get_aval(0)
        _wide = _float_aval.dtype.itemsize == 8
        _scalar_config = config_key()
    if type(x) is float:
        a = new_array(_float_aval, FG_F64 if _wide else FG_F32, 1)
        if _wide:
            (<double *>a.data)[0] = x
        else:
            (<float *>a.data)[0] = <float><double>x
        return a
    if type(x) is int and -0x80000000 <= x <= 0x7fffffff:
        value = x
        a = new_array(_int_aval, FG_I64 if _wide else FG_I32, 1)
        if _wide:
            (<int64_t *>a.data)[0] = value
        else:
            (<int32_t *>a.data)[0] = <int32_t>value
        return a
    return _to_array(x)


cdef list as_arrays(list leaves):
    """The leaves as contiguous arrays."""
    cdef list out = []
    for x in leaves:
        if type(x) is not _array_class:
            x = scalar_array(x) if is_scalar(type(x)) else _to_array(x)
        if (<ArrayBase>x).strides_or_none is not None:
            x = settled(x)
        out.append(x)
    return out


def settled(ArrayBase x):
    """x with contiguous elements. A view that nobody else looks into becomes such an array itself, so that the next call finds it so.

    What it looked into stays alive with it: a program of another thread may be reading there.
    """
    cdef ArrayBase copy = _contiguous(x)
    if x.shared or x.owns or x.deleted or not copy.owns or copy.shared:
        return copy
    x.data, copy.data = copy.data, NULL
    x.owns, copy.owns = True, False
    x.strides_or_none = None
    return x


cdef class EagerDispatch:
    """Base of eager operations: one program per avals and strides of the arguments; scalars are arguments too.

    `_prepare(arrays, args, kwargs)` compiles the function at these arrays; arguments after the first `n_arrays`, and all keyword
    arguments, are static. `_slow` calls the function itself: while tracing, and for arguments of other kinds.
    """
    cdef dict entries
    cdef readonly int n_arrays

    def __init__(self, int n_arrays):
        self.entries = {}
        self.n_arrays = n_arrays

    def clear_cache(self):
        self.entries.clear()

    def __call__(self, *args, **kwargs):
        cdef int64_t words[64]
        cdef list arrays = []
        cdef int i = 1, n = len(args), j, narrow = 0, wide = 0
        cdef object x, key, entry
        cdef object t
        cdef tuple rest
        if _context.trace is not _eval_trace:
            return self._slow(*args, **kwargs)
        words[0] = config_key()
        if n > self.n_arrays:
            rest = args[self.n_arrays:]
            n = self.n_arrays
        else:
            rest = ()
        if n > 8:
            return self._slow(*args, **kwargs)
        for j in range(n):
            x = args[j]
            t = type(x)
            if t is _array_class:
                strides = (<ArrayBase>x).strides_or_none
                words[i] = <int64_t><uintptr_t><PyObject *>(<ArrayBase>x).aval
                if FG_I8 <= (<ArrayBase>x).code <= FG_I16 or FG_U8 <= (<ArrayBase>x).code <= FG_U64:
                    narrow = 1
                if strides is not None:
                    if i + len(strides) > 48:
                        return self._slow(*args, **kwargs)
                    words[i] |= 1
                    for s in strides:
                        i += 1
                        words[i] = s
            elif is_scalar(t):
                if t is int and not -1 < x < 128:
                    wide = 1
                words[i] = <int64_t><uintptr_t><PyObject *>t
                x = scalar_array(x)
            else:
                return self._slow(*args, **kwargs)
            arrays.append(x)
            i += 1
        if narrow and wide:          # an integer that may not fit: its value decides
            return self._slow(*args, **kwargs)
        key = PyBytes_FromStringAndSize(<char *>words, i * sizeof(int64_t))
        if rest or kwargs:
            try:
                key = (key, rest, tuple([type(v) for v in rest]), tuple(kwargs.items()))
                entry = self.entries.get(key)
            except TypeError:
                return self._slow(*args, **kwargs)
        else:
            entry = self.entries.get(key)
        if entry is None:
            entry = self._prepare(arrays, args, kwargs)
            if len(self.entries) > 4096:
                self.entries.clear()
            self.entries[key] = False if entry is None else entry
        if entry is None or entry is False:
            return self._slow(*args, **kwargs)
        return (<Entry>entry).run(arrays)


cdef class IndexDispatch:
    """x[idx] of concrete arrays: ints and slices inside the array's bounds give views; all else is `slow(x, idx)`."""
    cdef object slow

    def __init__(self, slow):
        self.slow = slow

    def __call__(self, x, idx):
        if _context.trace is _eval_trace and type(x) is _array_class:
            out = window(x, idx)
            if out is not None:
                return out
        return self.slow(x, idx)


cdef object window(ArrayBase x, idx):
    """The view that a static index shows, or None."""
    cdef tuple shape = x.aval.shape
    cdef tuple given = idx if type(idx) is tuple else (idx,)
    cdef int ndim = len(shape), used = 0, axis = 0, k, d
    cdef int64_t own[16]
    cdef int64_t acc = 1, n, i, offset = 0, lo, step
    cdef list out_shape = [], strides = []
    cdef bint ellipsis = False, contiguous = True
    for d in range(ndim - 1, -1, -1):
        own[d] = acc if x.strides_or_none is None else <int64_t>x.strides_or_none[d]
        acc *= <int64_t>shape[d]
    for item in given:
        if item is Ellipsis:
            if ellipsis:
                return None
            ellipsis = True
        elif type(item) is int or type(item) is slice:
            used += 1
        elif item is not None:
            return None
    if used > ndim:
        return None
    for item in given:
        if item is None:
            out_shape.append(1)
            strides.append(0)
        elif item is Ellipsis:
            for k in range(ndim - used):
                out_shape.append(shape[axis])
                strides.append(own[axis])
                axis += 1
        elif type(item) is int:
            n = shape[axis]
            if not -n <= item < n:
                return None
            i = item
            offset += (i + n if i < 0 else i) * own[axis]
            axis += 1
        else:
            n = shape[axis]
            try:
                lo, stop, step = item.indices(n)
            except TypeError:
                return None
            k = len(range(lo, stop, step))
            out_shape.append(k)
            strides.append(step * own[axis])
            if k:
                offset += lo * own[axis]
            axis += 1
    while axis < ndim:
        out_shape.append(shape[axis])
        strides.append(own[axis])
        axis += 1
    if len(out_shape) > 16:
        return None
    acc = 1
    for d in range(len(out_shape) - 1, -1, -1):
        n = out_shape[d]
        if n != 1 and <int64_t>strides[d] != acc:
            contiguous = False
        acc *= n
    return x.view(_shaped(tuple(out_shape), x.aval.dtype, x.aval.weak_type), None if contiguous or acc == 0 else tuple(strides), offset)
