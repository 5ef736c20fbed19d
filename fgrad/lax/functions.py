"""Functions of lax that are more than a primitive: of complex numbers, and powers of mixed types."""

import functools

from fgrad import dtypes
from fgrad.compile.eager import eager
from fgrad.core import get_aval
from fgrad.numpy import reductions
from fgrad.numpy import transcendental as of_numpy
from fgrad.numpy.util import user_dtype
from fgrad.ops import elementwise as ops
from fgrad.ops import index, reduce

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "exp2", "mul", "pow", "reduce_max", "reduce_min", "reduce_sum",
    "dynamic_index_in_dim", "dynamic_slice_in_dim", "dynamic_update_index_in_dim", "dynamic_update_slice_in_dim",
]  # fmt: skip


_STATIC = {"axis", "keepdims", "slice_size"}


def mul(x, y, *, out_dtype=None):
    """x * y. out_dtype: what the operands are converted to first, and the dtype of the product."""
    if out_dtype is not None:
        out_dtype = user_dtype(out_dtype)
        x, y = (ops.cast_as(v, out_dtype, get_aval(v).weak_type) for v in (x, y))
    return ops.mul(x, y)


def reduce_sum(operand, axes, *, out_sharding=None):
    """The sum of operand over `axes`, which leave the shape; the dtype stays. out_sharding is ignored: there is one device."""
    return reduce.reduce_sum(operand, axes)


def _eagerly(n_arrays, fun):
    """fun, whose first arguments are arrays or where to begin: one cached program outside of tracing."""
    cached = eager(n_arrays)(fun)

    @functools.wraps(fun)
    def wrapped(*args, **options):
        return (cached if options.keys() <= _STATIC else fun)(*args, **options)

    return wrapped


dynamic_index_in_dim = _eagerly(2, index.dynamic_index_in_dim)
dynamic_slice_in_dim = _eagerly(2, index.dynamic_slice_in_dim)
dynamic_update_index_in_dim = _eagerly(3, index.dynamic_update_index_in_dim)
dynamic_update_slice_in_dim = _eagerly(3, index.dynamic_update_slice_in_dim)


def _also_complex(fun, of_complex):
    """fun, with of_complex for complex operands."""

    @functools.wraps(fun)
    def wrapped(x, **options):
        aval = get_aval(x)
        return ops.cast_as(of_complex(x), aval.dtype, aval.weak_type) if dtypes.is_complex(aval.dtype) else fun(x, **options)

    return wrapped


asin = _also_complex(ops.asin, of_numpy.arcsin)
acos = _also_complex(ops.acos, of_numpy.arccos)
atan = _also_complex(ops.atan, of_numpy.arctan)
asinh = _also_complex(ops.asinh, of_numpy.arcsinh)
acosh = _also_complex(ops.acosh, of_numpy.arccosh)
atanh = _also_complex(ops.atanh, of_numpy.arctanh)
exp2 = _also_complex(ops.exp2, of_numpy.exp2)


def _also_complex_extremum(fun, of_complex):
    @functools.wraps(fun)
    def wrapped(operand, axes, **options):
        return of_complex(operand, axis=axes) if dtypes.is_complex(get_aval(operand).dtype) else fun(operand, axes, **options)

    return wrapped


reduce_max = _also_complex_extremum(reduce.reduce_max, reductions.max)
reduce_min = _also_complex_extremum(reduce.reduce_min, reductions.min)


def pow(x, y):  # noqa: A001
    """x ** y, elementwise. y is of x's dtype, or x inexact and y of integers."""
    a, b = get_aval(x), get_aval(y)
    if dtypes.is_inexact(a.dtype) and dtypes.is_integer(b.dtype) and b.dtype != a.dtype:
        if type(y) is int:
            return ops.integer_pow(x, y)
        y = ops.convert_element_type(y, a.dtype, b.weak_type)
    return ops.pow(x, y)
