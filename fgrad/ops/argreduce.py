"""argmax and argmin: the first position of an extremum along an axis."""

import numpy as np

from fgrad import dtypes
from fgrad.core import Primitive, ShapedArray
from fgrad.errors import ShapeError
from fgrad.ops.reduce import argaxis
from fgrad.ops.rules import zero_jvp


def _arg_reducer(name, is_max, numbers=False):
    def abstract_eval(x, *, axis, index_dtype):
        if numbers and x.dtype not in (dtypes.FLOAT32, dtypes.FLOAT64):
            raise TypeError(f"{name} takes float32 and float64, not {x.dtype.name}")
        if x.dtype.kind == "c":
            raise TypeError(f"{name} does not accept dtype {x.dtype.name}: complex numbers have no order")
        if not dtypes.is_integer(index_dtype):
            raise TypeError(f"{name}: index_dtype must be an integer type, got {np.dtype(index_dtype).name}")
        if not 0 <= axis < len(x.shape):
            raise ShapeError(f"{name}: axis {axis} is out of bounds for shape {x.shape}")
        if x.shape[axis] == 0:
            raise ValueError(f"attempt to get {name} of an empty sequence: axis {axis} of shape {x.shape} is empty, which has no extremum")
        return ShapedArray(x.shape[:axis] + x.shape[axis + 1 :], index_dtype)

    def lower(ctx, ins, params, out_avals):
        aval = out_avals[0]
        run = aval.update(dtype=dtypes.INT64 if aval.dtype.itemsize == 8 else dtypes.INT32)
        out = ctx.kernel("argreduce", ins, [run], ip=(int(is_max), params["axis"], int(numbers)), contiguous=False)[0]
        return out if run.dtype == aval.dtype else ctx.cast(out, aval.dtype)

    def batch(axis_, args, dims, *, axis, index_dtype):
        d = dims[0]
        return prim.bind(args[0], axis=axis + (axis >= d), index_dtype=index_dtype), d - (axis < d)

    prim = Primitive(name, abstract_eval=abstract_eval, lower=lower, batch=batch)
    prim.jvp = zero_jvp(prim)

    def fun(operand, axis, index_dtype=np.int32):
        return prim.bind(operand, axis=argaxis(operand, axis), index_dtype=dtypes.canonicalize_dtype(index_dtype))

    nan = "NaN is left out; -1 where there is nothing else" if numbers else "of the first NaN, if there is one"
    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = (
        f"Position of the first {'greatest' if is_max else 'least'} element along `axis` ({nan}), "
        f"as integers of index_dtype.\n\n    operand: any real or boolean array. Raises ValueError where the axis is empty.\n    "
    )
    return prim, fun


argmax_p, argmax = _arg_reducer("argmax", True)
argmin_p, argmin = _arg_reducer("argmin", False)
nanargmax_p, nanargmax = _arg_reducer("nanargmax", True, numbers=True)
nanargmin_p, nanargmin = _arg_reducer("nanargmin", False, numbers=True)
