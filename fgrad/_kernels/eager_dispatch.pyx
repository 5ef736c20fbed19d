"""The call path of eager operations: a program for the avals, strides and static arguments of a call, found without going through Python."""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItem
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport Py_TYPE, PyTypeObject
from cpython.ref cimport Py_INCREF, PyObject
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int64_t, uintptr_t
from libc.string cimport memcpy, memset

cdef extern from *:
    """
    #include <stddef.h>

    /* Instances are called with their arguments in a row, and as methods without an object that binds them. */
    static void fg_call_by_vector(PyTypeObject *type, Py_ssize_t offset) {
        type->tp_vectorcall_offset = offset;
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
        PyType_Modified(type);
    }
    """
    PyObject *PyTuple_GET_ITEM(object t, Py_ssize_t i)
    ctypedef PyObject *(*vectorcallfunc)(PyObject *, PyObject *const *, size_t, PyObject *)
    Py_ssize_t PyVectorcall_NARGS(size_t n)
    object PyMethod_New(object function, object instance)
    void fg_call_by_vector(PyTypeObject *type, Py_ssize_t offset)

from fgrad._kernels.abi cimport FG_I8, FG_I16, FG_U8, FG_U64
from fgrad._kernels.array cimport ArrayBase, set_calls
from fgrad._kernels.context cimport config_key, is_eval
from fgrad._kernels.dispatch cimport Entry, array_class, kinds_of, operand
from fgrad._kernels.operands cimport Scalar, as_array, is_numpy, is_numpy_scalar, is_scalar
from fgrad._kernels.window cimport View

from fgrad._kernels.creation import install_lasting as set_lasting

cdef object _traced = None               # (eager function, args, kwargs): what it gives while something is traced


_lasting = {}                   # by address: what stands for dtypes, and tuples, that are never freed


def install_lasting(things):
    """Objects that stay as long as the process, so that their addresses tell them apart."""
    set_lasting(_lasting)
    _lasting.update((id(x), x) for x in things)


def install_traced(traced):
    """Hand over what eager functions do while something is traced."""
    global _traced
    _traced = traced


cdef object _key_class = None            # of typed keys, whose `_words` are an array


def install_keys(key_class):
    """Hand over the class of typed keys."""
    global _key_class
    _key_class = key_class


cdef enum:
    NO_KEYS, TAKES_KEYS, GIVES_KEYS
    SLOTS = 8
    SHORT = 8                      # arguments of a call that a slot may know, each of a sequence counted
    MOST_STRINGS = 1000
    TWENTY_BITS = 1 << 20

# A call of few arguments that an entry is for: a word of each, the values of those that are static, the names of the last ones.
cdef struct Slot:
    int64_t[8] words, values, names
    int64_t config
    PyObject *entry                # an Entry or a View; borrowed: EagerDispatch.entries holds it


cdef dict _strings = {}            # names of arguments, and strings that are static ones: what is here has its address for a word


cdef bint keeps(str x) except -1:
    """True if a string's address is kept from now on."""
    return (x in _strings or len(_strings) < MOST_STRINGS) and _strings.setdefault(x, x) is x


cdef inline int64_t name_word(tuple names, int i) noexcept:
    return <int64_t><uintptr_t>PyTuple_GET_ITEM(names, i)


cdef inline bint small_ints(tuple x, int64_t *value) except -1:
    """True for up to three ints of 20 bits; *value is what tells them apart."""
    cdef int overflow = 0
    cdef int64_t i
    if len(x) > 3:
        return False
    for v in x:
        if type(v) is not int:
            return False
        i = PyLong_AsLongLongAndOverflow(v, &overflow)
        if overflow or not -TWENTY_BITS <= 2 * i < TWENTY_BITS:
            return False
        value[0] = value[0] << 20 | (i & (TWENTY_BITS - 1))
    return True


cdef inline int64_t static_value(object x, int64_t *value) except? -1:
    """The word of a static number, bool, None, a string that is kept, a tuple of up to three small ints, or a dtype or tuple that lasts, and
    its bits; 0 for anything else."""
    cdef int overflow = 0
    value[0] = 0
    if type(x) is float:
        (<double *>value)[0] = x
    elif type(x) is int:
        value[0] = PyLong_AsLongLongAndOverflow(x, &overflow)
        if overflow:
            return 0
    elif type(x) is tuple and small_ints(<tuple>x, value):
        return <int64_t><uintptr_t>Py_TYPE(x) + 1 + len(<tuple>x)
    elif type(x) is bool:
        value[0] = x is True
    elif type(x) is str:
        value[0] = <int64_t><uintptr_t><PyObject *>x
        if PyDict_GetItem(_strings, x) != <PyObject *>x:
            return 0
    elif x is not None:
        value[0] = <int64_t><uintptr_t><PyObject *>x
        return 1 if value[0] in _lasting else 0
    return <int64_t><uintptr_t>Py_TYPE(x)


cdef bint all_arrays(object xs, bint scalars) except -1:
    """True for a list or tuple of arrays, or with `scalars` of arrays and Python's numbers."""
    if type(xs) is not list and type(xs) is not tuple:
        return False
    for x in xs:
        if type(x) is not array_class and not is_numpy(x) and not (scalars and is_scalar(type(x))):
            return False
    return True


cdef tuple named_arrays(dict kwargs):
    """The names of keyword arguments that are arrays."""
    cdef list out = None
    for name, x in kwargs.items():
        if type(x) is array_class or is_numpy(x):
            out = out or []
            out.append(name)
    return () if out is None else tuple(out)


cdef class EagerDispatch:
    """Base of eager operations: one program per avals and strides of the arguments; scalars are arguments too.

    `_prepare(arrays, args, kwargs, names)` compiles the function at these arrays, the last of which are keyword arguments `names`; arguments
    after the first `n_arrays`, and keyword arguments that are no arrays (`kwargs`), are static. With `n_arrays` -1 the first argument is a list or tuple of arrays, with
    -2 of arrays and scalars. `_slow` calls the function itself: while tracing, and for arguments of other kinds. keyed: the first argument may be a typed
    key, of which it is given the words ("takes"), and its words are made a key again ("gives").
    """
    cdef dict entries
    cdef vectorcallfunc by_vector
    cdef Slot *slots               # recent calls of a few arguments; NULL before the first that fits
    cdef readonly int n_arrays
    cdef int keyed

    def __cinit__(self):
        self.by_vector = <vectorcallfunc>call_by_vector

    def __dealloc__(self):
        PyMem_Free(self.slots)

    def __init__(self, int n_arrays, keyed=None):
        self.entries = {}
        self.n_arrays = n_arrays
        self.keyed = {None: NO_KEYS, "takes": TAKES_KEYS, "gives": GIVES_KEYS}[keyed]

    def clear_cache(self):
        if self.slots != NULL:
            memset(self.slots, 0, SLOTS * sizeof(Slot))
        self.entries.clear()

    cdef object recent(self, PyObject **given, int n, tuple names, object learn):
        """The result of a call of n arguments that a slot knows, or None; names: of the last ones, or None. With `learn`, make its slot one
        for this entry."""
        cdef PyObject *row[SHORT]
        cdef int i, listed
        if self.slots == NULL and learn is None:
            return None
        if self.n_arrays > 0:
            return self.recent_row(given, n, names, self.n_arrays, learn)
        sequence = <object>given[0]
        if type(sequence) is not list and type(sequence) is not tuple:
            return None
        if len(sequence) == 0 or len(sequence) + n - 1 > SHORT:
            return None
        listed = <int>len(sequence)
        for i in range(listed):
            row[i] = <PyObject *>(<list>sequence)[i] if type(sequence) is list else <PyObject *>(<tuple>sequence)[i]
        for i in range(1, n):
            row[listed + i - 1] = given[i]
        return self.recent_row(row, listed + n - 1, names, listed, learn)

    cdef object recent_row(self, PyObject **given, int n, tuple names, int arrays, object learn):
        """As `recent`, of arguments of which the first `arrays` are arrays or scalars."""
        cdef Scalar[SHORT] scalars
        cdef char *data[SHORT]
        cdef int64_t words[SHORT]
        cdef int64_t values[SHORT]
        cdef bint narrow = False, wide = False
        cdef int64_t config = (config_key() << 4 | n) << 4 | arrays, mixed = 0
        cdef Slot *s
        cdef int i, named = 0 if names is None else <int>len(names)
        arrays = min(arrays, n - named)
        for i in range(n):
            values[i] = 0
            if i < arrays:
                words[i] = operand(<object>given[i], &scalars[i], &data[i], &narrow, &wide)
            else:
                words[i] = static_value(<object>given[i], &values[i])
            if words[i] == 0:
                return None
            mixed ^= words[i] >> (5 + i) ^ values[i] ^ values[i] >> 20
        if narrow and wide:
            return None
        for i in range(named):
            mixed ^= name_word(names, i) >> 4
        if learn is not None and self.slots == NULL:
            self.slots = <Slot *>PyMem_Calloc(SLOTS, sizeof(Slot))
            if self.slots == NULL:
                raise MemoryError()
        s = &self.slots[mixed & (SLOTS - 1)]
        if learn is not None:
            memcpy(s.words, words, n * sizeof(int64_t))
            memcpy(s.values, values, n * sizeof(int64_t))
            memset(s.names, 0, sizeof(s.names))
            for i in range(named):
                s.names[i] = name_word(names, i)
            s.config, s.entry = config, <PyObject *>learn
            return None
        if s.config != config or s.entry == NULL:
            return None
        for i in range(n):
            if s.words[i] != words[i] or s.values[i] != values[i]:
                return None
        if s.names[0] or named:
            for i in range(SHORT):
                if s.names[i] != (name_word(names, i) if i < named else 0):
                    return None
        if type(<object>s.entry) is View:
            return (<View><object>s.entry).of(<object>given[0]) if type(<object>given[0]) is array_class else None
        return (<Entry>s.entry).program.run_one(data)

    def __get__(self, instance, owner):
        return self if instance is None else PyMethod_New(self, instance)

    def __call__(self, *args, **kwargs):
        return self.call(args, kwargs)

    cdef object call(self, tuple args, dict kwargs):
        """The result of a call that no slot knows."""
        cdef list arrays = []
        cdef Py_ssize_t n = len(args)
        cdef bint short = 0 < n and n + len(kwargs) <= SHORT
        if not is_eval():
            return _traced(self, args, kwargs)
        entry = self.find(args, kwargs, arrays)
        if entry is None:
            return self._slow(*args, **kwargs)
        if type(entry) is View:
            if short and type(args[0] if self.n_arrays > 0 else args[0][0]) is array_class:
                self.learn(args, kwargs, entry)
            return (<View>entry).of(arrays[0])
        if short and (<Entry>entry).direct:
            self.learn(args, kwargs, entry)
        return (<Entry>entry).run(arrays)

    cdef int learn(self, tuple args, dict kwargs, object entry) except -1:
        """Make a slot know a short call."""
        cdef PyObject *given[SHORT]
        cdef tuple row = (*args, *kwargs.values()) if kwargs else args
        cdef int i, n = <int>len(row)
        for name in kwargs:
            if not keeps(name):
                return 0
        for i in range(n):
            if type(row[i]) is str and not keeps(row[i]):
                return 0
            given[i] = <PyObject *>row[i]
        self.recent(given, n, tuple(kwargs) if kwargs else None, entry)
        return 0

    def with_body(self, tuple args, dict kwargs):
        """(result, body) of a call that can be written down as one; else None. Nothing may be traced."""
        cdef list arrays = []
        entry = None if named_arrays(kwargs) else self.find(args, kwargs, arrays)
        if entry is None or entry.body is None:
            return None
        return (<View>entry).of(arrays[0]) if type(entry) is View else (<Entry>entry).run(arrays), entry.body

    cdef object find(self, tuple args, dict kwargs, list arrays):
        """The Entry or View of a call, and the arrays that it takes; None where the function itself must run."""
        cdef int64_t words[64]
        cdef int i = 1, n = len(args), j
        cdef bint narrow = False, wide = False
        cdef object x, key, entry
        cdef object t
        cdef tuple rest
        cdef tuple given = args, names = ()
        words[0] = config_key()
        if self.n_arrays < 0:
            if n == 0 or not all_arrays(args[0], self.n_arrays < -1):
                return None
            given, rest = tuple(args[0]), args[1:]
            n = len(given)
        elif n > self.n_arrays:
            rest = args[self.n_arrays:]
            n = self.n_arrays
        else:
            rest = ()
        if kwargs and (names := named_arrays(kwargs)):
            given = given[:n] + tuple([kwargs[name] for name in names])
            n = len(given)
            kwargs = {name: v for name, v in kwargs.items() if name not in names}
        for j in range(n):
            if i > 48:
                return None
            x = given[j]
            if is_numpy(x) or is_numpy_scalar(x):
                try:
                    x = as_array(x, True)
                except TypeError:
                    return None
            t = type(x)
            arrays.append(x)
            if t is array_class:
                strides = (<ArrayBase>x).strides_or_none
                words[i] = <int64_t><uintptr_t><PyObject *>(<ArrayBase>x).aval
                if FG_I8 <= (<ArrayBase>x).code <= FG_I16 or FG_U8 <= (<ArrayBase>x).code <= FG_U64:
                    narrow = True
                if strides is not None:
                    if i + len(strides) > 48:
                        return None
                    words[i] |= 1
                    for s in strides:
                        i += 1
                        words[i] = s
            elif is_scalar(t):
                if t is int and not -1 < x < 128:
                    wide = True
                words[i] = <int64_t><uintptr_t><PyObject *>t
            else:
                return None
            i += 1
        if narrow and wide:          # an integer that may not fit: its value decides
            return None
        arrays[:] = [x if type(x) is array_class else as_array(x, True) for x in arrays]
        key = PyBytes_FromStringAndSize(<char *>words, i * sizeof(int64_t))
        if rest or kwargs or names:
            try:
                key = (key, rest, kinds_of(rest), tuple(kwargs.items()), kinds_of(tuple(kwargs.values())), names) if kwargs or names else (key, rest, kinds_of(rest))
                entry = self.entries.get(key)
            except TypeError:
                return None
        else:
            entry = self.entries.get(key)
        if entry is None:
            entry = self._prepare(arrays, args, kwargs, names)
            if len(self.entries) > 4096:
                self.clear_cache()
            entry = self.entries.setdefault(key, False if entry is None else entry)
        return None if entry is False else entry


cdef object call_by_vector(object function, PyObject **given, size_t n_given, PyObject *names):
    """function(*given), the last of them called `names`."""
    cdef EagerDispatch self = <EagerDispatch>function
    cdef Py_ssize_t n = PyVectorcall_NARGS(n_given), i
    cdef tuple args
    cdef PyObject *row[SHORT]
    cdef Py_ssize_t all = n if names == NULL else n + len(<tuple>names)
    if self.keyed != NO_KEYS and 0 < n and all <= SHORT and type(<object>given[0]) is _key_class and is_eval():
        words = (<object>given[0])._words
        if type(words) is array_class:
            memcpy(row, given, all * sizeof(PyObject *))
            row[0] = <PyObject *>words
            out = call_by_vector(function, row, n, names)
            return _key_class(out) if self.keyed == GIVES_KEYS else out
    if 0 < n and all <= SHORT and is_eval():
        out = self.recent(given, <int>all, None if names == NULL else <tuple>names, None)
        if out is not None:
            return out
    args = row_of(given, n)
    return self.call(args, {} if names == NULL else {name: <object>given[n + i] for i, name in enumerate(<tuple>names)})


cdef tuple row_of(PyObject **given, Py_ssize_t n):
    cdef tuple out = PyTuple_New(n)
    cdef Py_ssize_t i
    for i in range(n):
        Py_INCREF(<object>given[i])
        PyTuple_SET_ITEM(out, i, <object>given[i])
    return out


def called_by_vector(type cls):
    """Have the instances of EagerDispatch, or of a class derived from it, called without packing their arguments."""
    cdef EagerDispatch one = EagerDispatch.__new__(EagerDispatch)
    fg_call_by_vector(<PyTypeObject *>cls, <char *>&one.by_vector - <char *><PyObject *>one)


called_by_vector(EagerDispatch)


cdef object call1(object op, object a):
    cdef PyObject *given
    if isinstance(op, EagerDispatch) and is_eval():
        given = <PyObject *>a
        out = (<EagerDispatch>op).recent(&given, 1, None, None)
        if out is not None:
            return out
    return op(a)


cdef object call2(object op, object a, object b):
    cdef PyObject *given[2]
    if isinstance(op, EagerDispatch) and is_eval():
        given[0], given[1] = <PyObject *>a, <PyObject *>b
        out = (<EagerDispatch>op).recent(given, 2, None, None)
        if out is not None:
            return out
    return op(a, b)


set_calls(call1, call2)            # what the operators of arrays go through
