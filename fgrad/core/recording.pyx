"""What a function did on concrete arguments, written down to be differentiated afterwards."""
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uintptr_t
from libc.string cimport memcpy

import numpy as np

from fgrad._kernels.array cimport ArrayBase
from fgrad._kernels.context cimport config_key

from fgrad.dtypes import NARROW_FLOATS

cdef object _generic = np.generic
cdef frozenset _byte_floats = frozenset(NARROW_FLOATS)


cdef bint is_byte_float(object dtype) except -1:
    return dtype in _byte_floats


cdef class Recording:
    """Primitives that ran on concrete arguments, in order: enough to differentiate them afterwards.

    `values` has the arguments, results and captured arrays in the order in which they came; `records` are
    (primitive, operands, their numbers in `values` (-1: a number of Python), params, results' numbers); `key` tells recordings
    of different structure apart.
    """

    def __init__(self, list args):
        cdef ArrayBase x
        self.values, self.records, self.tracers, self.known = args, [], [], {}
        self.n_args = len(args)
        self.key = [config_key(), self.n_args]
        for x in args:
            self.describe(x)

    cdef int describe(self, ArrayBase x) except -1:
        """What a program depends on of an array from outside."""
        self.key.append(<int64_t><uintptr_t><PyObject *>x.aval)
        if x.strides_or_none is not None:
            self.key.append(x.strides_or_none)
        return 0

    cdef Py_ssize_t number_of(self, x) except -2:
        """The number of an operand without a tracer, which becomes part of the key; -1 for a scalar."""
        cdef int64_t bits = 0
        cdef double d
        if isinstance(x, ArrayBase):
            known = self.known.get(id(x))
            if known is None:
                known = self.known[id(x)] = len(self.values)
                self.values.append(x)
                self.key.append(-1)
                self.describe(x)
            self.key.append(known)
            return known
        self.key.append(type(x))
        if type(x) is float:
            d = x
            memcpy(&bits, &d, 8)
            self.key.append(bits)
        elif type(x) is int or type(x) is bool:
            self.key.append(x)
        elif isinstance(x, _generic):
            self.key.append(x.tobytes())
        else:
            self.key.append(repr(x))
        return -1
