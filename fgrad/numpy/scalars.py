"""Dtype objects that make arrays when called (jnp.float32(3)) and stand for their dtype everywhere else."""

import builtins

import ml_dtypes
import numpy as np

from fgrad import dtypes
from fgrad._kernels.eager_dispatch import install_lasting
from fgrad.dtypes import result_type
from fgrad.numpy.creation import asarray

__all__ = [
    "bool", "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int_", "uint",
    "float16", "bfloat16", "float32", "float64", "single", "double", "float_",
    "complex64", "complex128", "csingle", "cdouble", "complex_", "result_type",
    "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu", "float4_e2m1fn", "int2", "int4", "uint2", "uint4",
]  # fmt: skip


class ScalarType(type):
    """A dtype that can be called; a class, from which programs derive (class Kind(jnp.int8)) and which annotations take."""

    def __call__(cls, x):
        if isinstance(x, str):
            if cls.dtype.num > 255:  # ml_dtypes' types end the process
                raise TypeError(f"{cls.__name__}: expected a number, got the string {x!r}")
            x = cls.dtype.type(x)
        return asarray(x, cls.dtype)

    def __eq__(cls, other):
        if other is int or other is float or other is complex or other is builtins.bool:
            return False  # whose dtype is weak
        try:
            return cls.dtype == np.dtype(other)
        except TypeError:
            return NotImplemented

    def __hash__(cls):
        return hash(cls.dtype.type)  # as JAX: a key of a dictionary stands for NumPy's scalar type

    def __instancecheck__(cls, x):
        return isinstance(x, cls.dtype.type)


def _make(meta, name, **attributes):
    return meta(name, (), {"__module__": "fgrad.numpy", "__doc__": f"The dtype {name}; called, an array of it.", **attributes})


def _scalar_type(scalar):
    dtype = np.dtype(scalar)
    return _make(ScalarType, dtype.name, dtype=dtype)


bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64 = map(
    _scalar_type, (np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
)
float16, bfloat16, float32, float64, complex64, complex128 = map(
    _scalar_type, (np.float16, dtypes.bfloat16, np.float32, np.float64, np.complex64, np.complex128)
)

_own = [bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64, complex64, complex128]
install_lasting([builtins.bool, int, float, *_own, *(t.dtype for t in _own), *(t.dtype.type for t in _own)])

# Of a byte an element, whatever their bits.
_NARROW = """
    float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu
    float4_e2m1fn int2 int4 uint2 uint4
""".split()
(
    float8_e3m4,
    float8_e4m3,
    float8_e4m3b11fnuz,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float4_e2m1fn,
    int2,
    int4,
    uint2,
    uint4,
) = [_scalar_type(getattr(ml_dtypes, name)) for name in _NARROW]

bool, single, double, csingle, cdouble = bool_, float32, float64, complex64, complex128


class DefaultType(ScalarType):
    """int_, uint, float_ and complex_: of 64 bits per part where those are enabled, else of 32."""

    wide: np.dtype

    @property
    def dtype(cls):
        return dtypes.canonicalize_dtype(cls.wide)


int_, uint, float_, complex_ = [
    _make(DefaultType, name, wide=np.dtype(wide))
    for name, wide in (("int_", np.int64), ("uint", np.uint64), ("float_", np.float64), ("complex_", np.complex128))
]
