"""ArrayBase: an immutable strided view of pooled or foreign memory.  `fgrad.core.array.Array` adds the methods."""
cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE, PyBUF_C_CONTIGUOUS, PyBUF_F_CONTIGUOUS, PyBUF_ANY_CONTIGUOUS
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy

from fgrad._kernels.abi cimport (FG_BF16, FG_BOOL, FG_C64, FG_F16, FG_F32, FG_F64, FG_I8, FG_I16, FG_I32, FG_I64, FG_MAXDIM, FG_NDTYPES,
                                 FG_U8, FG_U16, FG_U32, FG_U64, FgTensor, fg_itemsize)
from fgrad._kernels.memory cimport pool_alloc, pool_free

cimport numpy as cnp

cdef extern from *:
    """
    /* cls.__new__(cls), without looking for it */
    static PyObject *fg_new(PyObject *cls, PyObject *nothing) { return ((PyTypeObject *)cls)->tp_new((PyTypeObject *)cls, nothing, NULL); }

    /* What a class of Python's lacks beside its base in C. Operators of two operands are methods to it, each looked up by its name and called: here they
     * are called at once. And its instances are the garbage collector's, though they refer only to an aval, strides and the owner of their memory. */
    static void fg_inherit(PyObject *cls) {
        PyTypeObject *type = (PyTypeObject *)cls, *base = type->tp_base;
        PyNumberMethods *to = type->tp_as_number, *from = base->tp_as_number;
    #define FG_INHERIT(slot) to->slot = from->slot
        FG_INHERIT(nb_add); FG_INHERIT(nb_subtract); FG_INHERIT(nb_multiply); FG_INHERIT(nb_true_divide); FG_INHERIT(nb_floor_divide);
        FG_INHERIT(nb_remainder); FG_INHERIT(nb_divmod); FG_INHERIT(nb_matrix_multiply); FG_INHERIT(nb_and); FG_INHERIT(nb_or); FG_INHERIT(nb_xor);
        FG_INHERIT(nb_lshift); FG_INHERIT(nb_rshift);
    #undef FG_INHERIT
        if (PyType_IS_GC(type) && !PyType_IS_GC(base) && type->tp_free == PyObject_GC_Del && type->tp_basicsize == base->tp_basicsize) {
            type->tp_flags &= ~Py_TPFLAGS_HAVE_GC;
            type->tp_free = PyObject_Free;
            PyType_Modified(type);
        }
    }
    """
    void fg_inherit(object cls)
    ArrayBase fg_new(object cls, tuple nothing)

cdef extern from "fg.h" nogil:
    float fg_f16_to_f32(uint16_t h)
    float fg_bf16_to_f32(uint16_t h)

import ml_dtypes
import numpy as np

cnp.import_array()

DTYPES = tuple(np.dtype(t) for t in (
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64, np.complex128))
# ml_dtypes' floats of 8 bits and less and integers of less than 8 are bytes to kernels.
BYTES = tuple(np.dtype(getattr(ml_dtypes, name)) for name in dir(ml_dtypes) if name.startswith(("float4", "float8", "int2", "int4", "uint2", "uint4")))
CODES = {dtype: code for code, dtype in enumerate(DTYPES)} | dict.fromkeys(BYTES, FG_U8)
MAX_NDIM = FG_MAXDIM

cdef tuple _dtypes = DTYPES
cdef int[15] _typenums
cdef list _formats = []
for _i, _d in enumerate(DTYPES):
    _typenums[_i] = np.dtype(np.uint16).num if _i == FG_BF16 else _d.num
    _formats.append(b"" if _i == FG_BF16 else (b"Z" + (b"f" if _d.itemsize == 8 else b"d") if _d.kind == "c" else _d.char.encode()))

cdef object _array_class = None        # a type whose metaclass is not plain `type`


def set_array_class(cls):
    """Name the subclass of ArrayBase that new arrays are made of, whose first base it is."""
    global _array_class
    if cls.__base__ is not ArrayBase or any([name in cls.__dict__ for name in OPERATORS[:28]]):
        raise TypeError(f"{cls} is not derived from ArrayBase alone, or has operators of its own")
    fg_inherit(cls)
    _array_class = cls


OPERATORS = (
    "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__",
    "__floordiv__", "__rfloordiv__", "__mod__", "__rmod__", "__matmul__", "__rmatmul__", "__and__", "__rand__",
    "__or__", "__ror__", "__xor__", "__rxor__", "__lshift__", "__rlshift__", "__rshift__", "__rrshift__",
    "__divmod__", "__rdivmod__", "__pow__", "__rpow__", "__eq__", "__ne__", "__lt__", "__le__",
    "__gt__", "__ge__", "__neg__", "__pos__", "__abs__", "__invert__", "__getitem__", "pow_static")
cdef list _operators = []              # a callable for each of OPERATORS


cdef object plain1(object op, object a):
    return op(a)


cdef object plain2(object op, object a, object b):
    return op(a, b)


cdef Call1 _call1 = plain1
cdef Call2 _call2 = plain2
cdef Call2 _call_index = plain2


cdef void set_calls(Call1 one, Call2 two) noexcept:
    """Say how the operators of arrays call theirs, of one and of two operands."""
    global _call1, _call2
    _call1, _call2 = one, two


cdef void set_index_call(Call2 call) noexcept:
    """Say how x[idx] calls its operator."""
    global _call_index
    _call_index = call


def set_operators(table):
    """Say what the operators of arrays call: a dictionary from each name of OPERATORS to a function.

    pow_static is `**` with an exponent that is no array.
    """
    global _operators
    _operators = [table[name] for name in OPERATORS]


def get_array_class():
    return _array_class


cdef bint is_narrow(ArrayBase x):
    """Whether its bytes stand for numbers of ml_dtypes' narrow types."""
    return x.code == FG_U8 and x.aval.dtype is not _dtypes[FG_U8]


@cython.no_gc                      # nothing that it refers to refers to it
cdef class ArrayBase:
    def __cinit__(self):
        self.data = NULL
        self.owns = False
        self.shared = False
        self.deleted = False

    def __dealloc__(self):
        if self.owns:
            pool_free(self.data)

    cdef int fill_tensor(self, FgTensor *t) except -1:
        cdef tuple shape = self.aval.shape
        cdef int d, n = len(shape)
        cdef int64_t acc = 1
        if n > FG_MAXDIM:
            raise ValueError(f"array of rank {n}: at most {FG_MAXDIM} axes are supported")
        t.data = self.data
        t.dtype = self.code
        t.ndim = n
        t.size = self.size
        for d in range(n - 1, -1, -1):
            t.shape[d] = shape[d]
            t.strides[d] = acc if self.strides_or_none is None else <int64_t>self.strides_or_none[d]
            acc *= t.shape[d]
        return 0

    # As HasAval has them, without a frame of Python.
    @property
    def shape(self):
        return self.aval.shape

    @property
    def dtype(self):
        return self.aval.dtype

    @property
    def ndim(self):
        return len(<tuple>self.aval.shape)

    @property
    def weak_type(self):
        return self.aval.weak_type

    def __len__(self):
        cdef tuple shape = self.aval.shape
        if not shape:
            raise TypeError("len() of unsized object")
        return shape[0]

    @property
    def pointer(self):
        """Address of the first element."""
        return <uintptr_t>self.data

    @property
    def owns_memory(self):
        return self.owns

    def mark_kept(self):
        """Have it stand for a number that is handed out again: nothing takes over its memory or deletes it."""
        self.kept = self.shared = True

    def fresh(self):
        """A contiguous array's numbers in memory of their own."""
        alive(self)
        if self.strides_or_none is not None:
            raise ValueError("fresh: the array is not contiguous")
        cdef ArrayBase out = new_array(self.aval, self.code, self.size)
        memcpy(out.data, self.data, self.size * fg_itemsize(self.code))
        return out

    def delete(self):
        """Give the memory back now; any later use of this array raises."""
        if not self.deleted and not self.kept:
            self.deleted = True
            if self.owns and not self.shared:
                pool_free(self.data)
                self.data = NULL
                self.owns = False

    def check_alive(self):
        if self.deleted:
            raise RuntimeError(f"Array has been deleted with shape={self.aval.dtype}[{','.join(map(str, self.aval.shape))}]. "
                               "It was donated to a jitted function or deleted. Use that function's result instead.")

    cdef ArrayBase make_view(self, aval, tuple strides, int64_t offset):
        """A view of this memory: `strides` in elements (None for C-contiguous), `offset` in elements, both inside it."""
        alive(self)
        cdef int64_t lo = 0, hi = 0, n = 1, dim, stride, own_lo = 0, own_hi = 0, acc
        cdef tuple shape = aval.shape, own = self.aval.shape
        cdef Py_ssize_t i
        if strides is not None and len(strides) != len(shape):
            raise ValueError(f"{len(strides)} strides for a view of {aval}")
        for dim in shape:
            n *= dim
        if n:
            acc = 1
            for i in range(len(shape) - 1, -1, -1):
                stride = acc if strides is None else <int64_t>strides[i]
                acc *= <int64_t>shape[i]
                if stride < 0:
                    lo += (<int64_t>shape[i] - 1) * stride
                else:
                    hi += (<int64_t>shape[i] - 1) * stride
            acc = 1
            for i in range(len(own) - 1, -1, -1):
                stride = acc if self.strides_or_none is None else <int64_t>self.strides_or_none[i]
                acc *= <int64_t>own[i]
                if stride < 0:
                    own_lo += (<int64_t>own[i] - 1) * stride
                else:
                    own_hi += (<int64_t>own[i] - 1) * stride
            if self.size == 0 or lo + offset < own_lo or hi + offset > own_hi:
                raise ValueError("view reaches outside its array")
        else:
            offset = 0
        self.shared = True
        return wrap_memory(aval, self.code, n, self.data + offset * fg_itemsize(self.code),
                           self if self.base is None or self.owns else self.base, strides)

    def __getbuffer__(self, Py_buffer *view, int flags):
        alive(self)
        cdef int d, n = len(self.aval.shape)
        cdef Py_ssize_t item = fg_itemsize(self.code)
        cdef Py_ssize_t *dims
        cdef FgTensor t
        if self.code == FG_BF16 or is_narrow(self):
            raise BufferError(f"the buffer protocol has no format for {self.aval.dtype}: use numpy.asarray(x)")
        if flags & PyBUF_WRITABLE:
            raise BufferError("fgrad arrays are immutable: no writable buffer")
        if self.strides_or_none is not None and (not (flags & PyBUF_STRIDES) == PyBUF_STRIDES or
                (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS or (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS
                or (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS):
            raise BufferError("this array is a strided view, not contiguous")
        if (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS and n > 1:
            raise BufferError("this array is C-contiguous, not Fortran-contiguous")
        self.fill_tensor(&t)
        dims = <Py_ssize_t *>PyMem_Malloc(sizeof(Py_ssize_t) * (2 * n + 1))
        if dims == NULL:
            raise MemoryError()
        for d in range(n):
            dims[d] = t.shape[d]
            dims[n + d] = t.strides[d] * item
        self.shared = True
        view.buf = self.data
        view.obj = self
        view.len = self.size * item
        view.itemsize = item
        view.readonly = 1
        view.ndim = n
        view.format = <char *>(<bytes>_formats[self.code]) if flags & PyBUF_FORMAT else NULL
        view.shape = dims if flags & PyBUF_ND else NULL
        view.strides = dims + n if (flags & PyBUF_STRIDES) == PyBUF_STRIDES else NULL
        view.suboffsets = NULL
        view.internal = dims

    def __releasebuffer__(self, Py_buffer *view):
        PyMem_Free(view.internal)

    def numpy_view(self, bint writeable=False):
        """A NumPy view of this memory, read-only unless a fresh private buffer is being filled."""
        alive(self)
        cdef cnp.npy_intp dims[16]
        cdef cnp.npy_intp strides[16]
        cdef FgTensor t
        cdef int d
        self.fill_tensor(&t)
        for d in range(t.ndim):
            dims[d] = t.shape[d]
            strides[d] = t.strides[d] * fg_itemsize(t.dtype)
        out = cnp.PyArray_New(cnp.ndarray, t.ndim, dims, _typenums[self.code], strides, self.data, 0,
                              cnp.NPY_ARRAY_WRITEABLE if writeable else 0, <object>NULL)
        Py_INCREF(self)
        cnp.PyArray_SetBaseObject(out, self)
        self.shared = True
        if self.code == FG_BF16 or is_narrow(self):
            out = out.view(self.aval.dtype)
            out.flags.writeable = writeable
        return out

    cdef object scalar(self):
        """The one element as a Python scalar; None where there are more."""
        cdef double *pair = <double *>self.data
        alive(self)
        if self.size != 1:
            return None
        if self.code == FG_F32:
            return <double>(<float *>self.data)[0]
        if self.code == FG_F64:
            return pair[0]
        if self.code == FG_I32:
            return (<int32_t *>self.data)[0]
        if self.code == FG_BOOL:
            return (<uint8_t *>self.data)[0] != 0
        if self.code == FG_I64:
            return (<int64_t *>self.data)[0]
        if self.code == FG_U32:
            return (<uint32_t *>self.data)[0]
        if self.code == FG_U64:
            return (<uint64_t *>self.data)[0]
        if self.code == FG_I16:
            return (<int16_t *>self.data)[0]
        if self.code == FG_U16:
            return (<uint16_t *>self.data)[0]
        if self.code == FG_I8:
            return (<int8_t *>self.data)[0]
        if self.code == FG_U8:
            return self.numpy_view().reshape(()).item() if is_narrow(self) else (<uint8_t *>self.data)[0]
        if self.code == FG_F16:
            return <double>fg_f16_to_f32((<uint16_t *>self.data)[0])
        if self.code == FG_BF16:
            return <double>fg_bf16_to_f32((<uint16_t *>self.data)[0])
        if self.code == FG_C64:
            return complex((<float *>self.data)[0], (<float *>self.data)[1])
        return complex(pair[0], pair[1])

    def as_scalar(self):
        """The one element as a Python scalar; None where there are more, or none."""
        return self.scalar()

    def __bool__(self):
        value = self.scalar()
        return bool(self.numpy_view() if value is None else value)

    def __float__(self):
        return float(self.scalar_for("float"))

    def __int__(self):
        return int(self.scalar_for("int"))

    def __complex__(self):
        return complex(self.scalar_for("complex"))

    def __index__(self):
        if not FG_I8 <= self.code <= FG_U64 or (is_narrow(self) and "int" not in self.aval.dtype.name):
            raise TypeError(f"Only integer scalar arrays can be converted to a scalar index, got {self.aval}")
        return self.scalar_for("index")

    cdef object scalar_for(self, str kind):
        """The value of an array of shape ()."""
        cdef tuple shape = self.aval.shape
        value = self.scalar()
        if value is None or shape:
            raise TypeError(f"Only scalar arrays can be converted to Python scalars; got arr.ndim={len(shape)}, shape {shape}")
        if type(value) is complex and kind != "complex":
            raise TypeError(f"A complex array cannot be converted to {kind}; take its real part first")
        return value

    def __add__(self, other):
        return _call2(_operators[0], self, other)

    def __radd__(self, other):
        return _call2(_operators[1], self, other)

    def __sub__(self, other):
        return _call2(_operators[2], self, other)

    def __rsub__(self, other):
        return _call2(_operators[3], self, other)

    def __mul__(self, other):
        return _call2(_operators[4], self, other)

    def __rmul__(self, other):
        return _call2(_operators[5], self, other)

    def __truediv__(self, other):
        return _call2(_operators[6], self, other)

    def __rtruediv__(self, other):
        return _call2(_operators[7], self, other)

    def __floordiv__(self, other):
        return _call2(_operators[8], self, other)

    def __rfloordiv__(self, other):
        return _call2(_operators[9], self, other)

    def __mod__(self, other):
        return _call2(_operators[10], self, other)

    def __rmod__(self, other):
        return _call2(_operators[11], self, other)

    def __matmul__(self, other):
        return _call2(_operators[12], self, other)

    def __rmatmul__(self, other):
        return _call2(_operators[13], self, other)

    def __and__(self, other):
        return _call2(_operators[14], self, other)

    def __rand__(self, other):
        return _call2(_operators[15], self, other)

    def __or__(self, other):
        return _call2(_operators[16], self, other)

    def __ror__(self, other):
        return _call2(_operators[17], self, other)

    def __xor__(self, other):
        return _call2(_operators[18], self, other)

    def __rxor__(self, other):
        return _call2(_operators[19], self, other)

    def __lshift__(self, other):
        return _call2(_operators[20], self, other)

    def __rlshift__(self, other):
        return _call2(_operators[21], self, other)

    def __rshift__(self, other):
        return _call2(_operators[22], self, other)

    def __rrshift__(self, other):
        return _call2(_operators[23], self, other)

    def __divmod__(self, other):
        return _call2(_operators[24], self, other)

    def __rdivmod__(self, other):
        return _call2(_operators[25], self, other)

    def __pow__(self, other, modulus):
        if modulus is not None:
            return NotImplemented
        # A float is an argument of the program as an array is: exponents may change from call to call, where integers are few.
        dynamic = type(other) is _array_class or (type(other) is float and FG_F16 <= self.code <= FG_F64)
        return _call2(_operators[26 if dynamic else 39], self, other)

    def __rpow__(self, other, modulus):
        if modulus is not None:
            return NotImplemented
        return _call2(_operators[27], self, other)

    def __eq__(self, other):
        return _call2(_operators[28], self, other)

    def __ne__(self, other):
        return _call2(_operators[29], self, other)

    def __lt__(self, other):
        return _call2(_operators[30], self, other)

    def __le__(self, other):
        return _call2(_operators[31], self, other)

    def __gt__(self, other):
        return _call2(_operators[32], self, other)

    def __ge__(self, other):
        return _call2(_operators[33], self, other)

    def __neg__(self):
        return _call1(_operators[34], self)

    def __pos__(self):
        return _call1(_operators[35], self)

    def __abs__(self):
        return _call1(_operators[36], self)

    def __invert__(self):
        return _call1(_operators[37], self)

    def __getitem__(self, idx):
        return _call_index(_operators[38], self, idx)

    def reset_shared(self):
        """For the maker of a fresh array that has let go of its writeable view."""
        self.shared = False


cdef ArrayBase new_array(object aval, int32_t code, int64_t size):
    if _array_class is None:
        raise RuntimeError("set_array_class has not been called")
    cdef ArrayBase a = fg_new(_array_class, ())
    a.data = pool_alloc(size * fg_itemsize(code))
    if a.data == NULL:
        raise MemoryError(f"no memory for an array of shape {aval.shape} and dtype {aval.dtype}")
    a.owns = True
    a.aval = aval
    a.code = code
    a.size = size
    return a


cdef ArrayBase wrap_memory(object aval, int32_t code, int64_t size, char *data, object base, tuple strides):
    if _array_class is None:
        raise RuntimeError("set_array_class has not been called")
    cdef ArrayBase a = fg_new(_array_class, ())
    a.data = data
    a.base = base
    a.aval = aval
    a.code = code
    a.size = size
    a.strides_or_none = strides
    return a


cdef extern from *:
    """
    typedef struct {                       /* the head of DLPack's DLTensor, which an unversioned capsule begins with */
        void *data;
        int32_t device[2], ndim;
        uint8_t code, bits;
        uint16_t lanes;
    } FgDlTensor;
    typedef struct { uint32_t version[2]; void *context, *deleter; uint64_t flags; FgDlTensor tensor; } FgDlVersioned;
    """
    ctypedef struct FgDlTensor:
        uint8_t code, bits
        uint16_t lanes
    ctypedef struct FgDlVersioned:
        FgDlTensor tensor


def recode_dlpack(object capsule, uint8_t code, uint8_t new):
    """Give a DLPack capsule of 16-bit elements of one type code another code (1 unsigned, 4 bfloat16), since NumPy knows no bfloat16;
    False where it has other elements."""
    cdef FgDlTensor *t
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        t = &(<FgDlVersioned *>PyCapsule_GetPointer(capsule, "dltensor_versioned")).tensor
    else:
        t = <FgDlTensor *>PyCapsule_GetPointer(capsule, "dltensor")
    if t.code != code or t.bits != 16 or t.lanes != 1:
        return False
    t.code = new
    return True
