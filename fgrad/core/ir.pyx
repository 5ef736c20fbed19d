"""The atoms and equations of jaxprs, and the source lines that equations stem from."""
cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.string cimport memset

import os.path

from fgrad.errors import ShapeError

cdef extern from *:
    """
    static __thread PyObject *fg_replayed = 0;     /* owned; the line that asked for the equation that is being interpreted, or NULL */
    """
    PyObject *fg_replayed

cdef extern from "Python.h":
    ctypedef struct PyFrameObject
    ctypedef struct PyCodeObject
    PyFrameObject *PyEval_GetFrame()
    PyFrameObject *PyFrame_GetBack(PyFrameObject *frame)
    PyCodeObject *PyFrame_GetCode(PyFrameObject *frame)
    int PyFrame_GetLasti(PyFrameObject *frame)
    int PyFrame_GetLineNumber(PyFrameObject *frame)
    void Py_XINCREF(void *o)
    void Py_XDECREF(void *o)
    void PyObject_GC_UnTrack(PyObject *o)


cdef class AvalBase:
    """What an abstract value of an array has, where compiled code reads it without a dictionary: see fgrad.core.aval."""

    def set_fields(self, tuple shape, dtype, bint weak_type):
        """Say what it is, once."""
        self.shape, self.dtype, self.weak_type = shape, dtype, weak_type
        size = 1
        for d in shape:
            size *= d
        if size > 1 << 56:                     # of 16 bytes each: counts and distances in bytes fit 64 bits wherever they are multiplied
            raise ShapeError(f"an array of shape {shape} would have {size} elements: at most 2**56 are supported")
        self.size = size
        self.hash = hash((shape, dtype, weak_type))

    def __eq__(self, other):
        cdef AvalBase aval
        if self is other:
            return True
        if type(other) is not type(self):
            return False
        aval = other
        return self.shape == aval.shape and self.dtype == aval.dtype and self.weak_type == aval.weak_type

    def __hash__(self):
        return self.hash


@cython.no_gc                      # it refers to nothing that refers to it
@cython.freelist(256)
cdef class Var:
    """A variable of a jaxpr: it has a type, and is itself alone."""

    def __init__(self, aval):
        self.aval = aval

    def __repr__(self):
        return f"Var({id(self) & 0xFFFF:x}:{self.aval.short()})"


cdef class DropVar(Var):
    """An output that nobody reads."""


@cython.no_gc
cdef class Literal:
    """A scalar constant inside an equation."""

    def __init__(self, val, aval):
        self.val, self.aval = val, aval

    def __repr__(self):
        return f"{self.val}:{self.aval.short()}"


@cython.freelist(256)
cdef class Eqn:
    """outvars = primitive[params] invars; `source` is the user's line that asked for it."""

    def __init__(self, primitive, list invars, list outvars, params, source=None):
        self.primitive, self.invars, self.outvars, self.params, self.source = primitive, invars, outvars, params, source

    @property
    def effects(self):
        return self.primitive.effects_of(self.params)

    def replace(self, *, primitive=None, invars=None, outvars=None, params=None):
        """The equation with other parts."""
        return Eqn(
            self.primitive if primitive is None else primitive,
            self.invars if invars is None else list(invars),
            self.outvars if outvars is None else list(outvars),
            self.params if params is None else params,
            self.source,
        )

    def __repr__(self):
        return f"{self.outvars} = {self.primitive} {self.invars}"


cdef Var new_var(aval):
    """Var(aval), without a call of Python."""
    cdef Var var = Var.__new__(Var)
    var.aval = aval
    return var


cdef Eqn new_eqn(primitive, list invars, list outvars, params, source, bint plain):
    """Eqn(...), without a call of Python, of lists of variables and literals that nobody appends to. plain: it has no parameters, and a primitive
    of this package."""
    cdef Eqn eqn = Eqn.__new__(Eqn)
    PyObject_GC_UnTrack(<PyObject *>invars)      # what they hold refers to nothing that refers to them: no collection need walk them
    PyObject_GC_UnTrack(<PyObject *>outvars)
    if plain:
        PyObject_GC_UnTrack(<PyObject *>eqn)
    eqn.primitive, eqn.invars, eqn.outvars, eqn.params, eqn.source = primitive, invars, outvars, params, source
    return eqn


@cython.no_gc
cdef class Zero:
    """A tangent or cotangent known to be zero."""

    def __init__(self, aval):
        self.aval = aval

    def __repr__(self):
        return f"Zero({self.aval})"


@cython.no_gc
cdef class Linear:
    """Stands for an argument that a transposed equation is linear in."""

    def __init__(self, aval):
        self.aval = aval


cdef object replayed_source():
    """The line that asked for the equation that is being interpreted in this thread, or None."""
    return None if fg_replayed == NULL else <object>fg_replayed


cdef int set_replayed_source(source) except -1:
    global fg_replayed
    cdef PyObject *old = fg_replayed
    if source is None:
        fg_replayed = NULL
    else:
        Py_INCREF(source)
        fg_replayed = <PyObject *>source
    if old != NULL:
        Py_DECREF(<object>old)
    return 0


cdef class Replaying:
    """`source`, of each thread: the line that asked for the equation that is being interpreted, where one is."""

    @property
    def source(self):
        return replayed_source()

    @source.setter
    def source(self, source):
        set_replayed_source(source)


replaying = Replaying()
cdef struct Code:
    PyObject *code                 # kept by `_lines`, or NULL
    PyObject *lines                # its lines there; NULL of functions in excluded files


cdef enum:
    CODES_KEPT = 1000
    CODES_SEEN = 512               # a power of two
cdef dict _lines = {}              # id(code) -> (code, {instruction -> the line as equations keep it})
cdef str _PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
cdef list _excluded = [_PACKAGE]   # files that are nobody's program
cdef dict _inside = {}             # file name -> whether it is one of them
cdef Code _seen[CODES_SEEN]        # of `_lines`, by address: a trace asks for the same few, all frames of a library's among them


def exclude_sources(str path):
    """Equations are never said to come from files whose names start with `path`."""
    if path not in _excluded:
        _excluded.append(path)
        _inside.clear()
        forget_lines()


cdef void forget_lines():
    memset(_seen, 0, sizeof(_seen))
    _lines.clear()


cdef PyObject *lines_of(PyObject *address) except? NULL:
    """What is known of the lines of a function; NULL of functions in excluded files."""
    cdef Code *seen = &_seen[(<size_t>address >> 5) & (CODES_SEEN - 1)]
    cdef tuple known
    if seen.code == address:
        return seen.lines
    code = <object>address
    known = _lines.get(<size_t>address)
    if known is None:
        name = code.co_filename
        inside = _inside.get(name)
        if inside is None:
            inside = _inside[name] = name.startswith(tuple(_excluded))
        if len(_lines) >= CODES_KEPT:
            forget_lines()
        known = _lines[<size_t>address] = (code, None if inside else {})
    seen.code, seen.lines = address, NULL if known[1] is None else <PyObject *>known[1]
    return seen.lines


cdef object source_of_caller():
    """(file, line, function) of the nearest frame outside the excluded files, or of the equation that is being interpreted; or None."""
    cdef PyFrameObject *frame
    cdef PyFrameObject *back
    cdef PyCodeObject *code_object
    cdef PyObject *known
    if fg_replayed != NULL:
        return <object>fg_replayed
    frame = PyEval_GetFrame()
    Py_XINCREF(frame)
    while frame != NULL:
        code_object = PyFrame_GetCode(frame)
        Py_XDECREF(code_object)                # the frame keeps it
        known = lines_of(<PyObject *>code_object)
        if known != NULL:
            lines = <dict>known
            at = PyFrame_GetLasti(frame)
            source = lines.get(at)
            if source is None:
                code = <object><PyObject *>code_object
                source = lines[at] = (code.co_filename, PyFrame_GetLineNumber(frame), code.co_name)
            Py_XDECREF(frame)
            return source
        back = PyFrame_GetBack(frame)
        Py_XDECREF(frame)
        frame = back
    return None
