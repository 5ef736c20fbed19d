"""The atoms and equations of jaxprs, and the source lines that equations stem from."""
cimport cython
from cpython.object cimport PyObject

import os.path
import threading

cdef extern from "Python.h":
    ctypedef struct PyFrameObject
    ctypedef struct PyCodeObject
    PyFrameObject *PyEval_GetFrame()
    PyFrameObject *PyFrame_GetBack(PyFrameObject *frame)
    PyCodeObject *PyFrame_GetCode(PyFrameObject *frame)
    int PyFrame_GetLineNumber(PyFrameObject *frame)
    void Py_XINCREF(void *o)
    void Py_XDECREF(void *o)


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


class _Stage(threading.local):
    """`source`: the line that asked for the equation that is being interpreted, where one is."""

    source = None


_replaying = replaying = _Stage()
cdef str _PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
cdef list _excluded = [_PACKAGE]   # files that are nobody's program
cdef dict _inside = {}             # file name -> whether it is one of them


def exclude_sources(str path):
    """Equations are never said to come from files whose names start with `path`."""
    if path not in _excluded:
        _excluded.append(path)
        _inside.clear()


cdef object source_of_caller():
    """(file, line, function) of the nearest frame outside the excluded files, or of the equation that is being interpreted; or None."""
    cdef PyFrameObject *frame
    cdef PyFrameObject *back
    cdef PyCodeObject *code_object
    source = _replaying.source
    if source is not None:
        return source
    frame = PyEval_GetFrame()
    Py_XINCREF(frame)
    while frame != NULL:
        code_object = PyFrame_GetCode(frame)
        code = <object><PyObject *>code_object
        Py_XDECREF(code_object)
        name = code.co_filename
        inside = _inside.get(name)
        if inside is None:
            inside = _inside[name] = name.startswith(tuple(_excluded))
        if not inside:
            source = (name, PyFrame_GetLineNumber(frame), code.co_name)
            Py_XDECREF(frame)
            return source
        back = PyFrame_GetBack(frame)
        Py_XDECREF(frame)
        frame = back
    return None
