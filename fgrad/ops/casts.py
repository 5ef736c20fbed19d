"""Casts: between dtypes, of bits, to less precision; the next float, and copies."""

import numpy as np

from fgrad import dtypes
from fgrad.core import ShapedArray, get_aval
from fgrad.ops.arithmetic import add
from fgrad.ops.logic import bitwise_or, eq, gt, ne, select
from fgrad.ops.rules import ANY, Zero, elementwise, like, linear_jvp, nary, zero_jvp, zero_of

# --- casts ----------------------------------------------------------------------------------------------------------


def _cast_aval(x, *, new_dtype, weak_type):
    return ShapedArray(x.shape, new_dtype, weak_type)


convert_element_type_p = elementwise("convert_element_type", same=False, op="cast")
convert_element_type_p.abstract_eval = _cast_aval


def _cast_jvp(primals, tangents, *, new_dtype, weak_type):
    (x,), (t,) = primals, tangents
    out = convert_element_type_p.bind(x, new_dtype=new_dtype, weak_type=weak_type)
    if not dtypes.is_inexact(new_dtype) or type(t) is Zero:
        return out, zero_of(out)
    return out, convert_element_type(t, new_dtype)


convert_element_type_p.jvp = _cast_jvp
convert_element_type_p.transpose = lambda cts, x, *, new_dtype, weak_type: [convert_element_type(cts[0], x.aval.dtype)]


def convert_element_type(x, new_dtype, weak_type=False):
    """x cast to new_dtype. A float becomes an int by truncation, saturating; complex to real drops the imaginary part."""
    dtype = dtypes.canonicalize_dtype(new_dtype)
    aval = get_aval(x)
    weak_type = bool(weak_type) and dtype != dtypes.BOOL
    if aval.dtype == dtype and aval.weak_type == weak_type and not isinstance(x, (bool, int, float, complex, np.generic, np.ndarray)):
        return x
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak_type)


def _bitcast_dtype(x, *, new_dtype):
    if x.dtype.itemsize != new_dtype.itemsize or dtypes.BOOL in (x.dtype, new_dtype):
        raise TypeError(f"bitcast_convert_type: {x.dtype.name} and {new_dtype.name} must have the same number of bits (and not be bool)")
    return new_dtype


bitcast_convert_type_p = elementwise(
    "bitcast_convert_type",
    same=False,
    result=_bitcast_dtype,
    lower=lambda ctx, ins, params, out_avals: ctx.bitcast(ins[0], params["new_dtype"]),
)
bitcast_convert_type_p.jvp = zero_jvp(bitcast_convert_type_p)


def bitcast_convert_type(x, new_dtype):
    """x's bits read as a dtype of the same width."""
    return bitcast_convert_type_p.bind(x, new_dtype=dtypes.canonicalize_dtype(new_dtype))


# --- the next float -------------------------------------------------------------------------------------------------


def _next16(x, y):
    """nextafter of 16-bit floats on their bits: a step away from 0 adds one to them, a step towards it takes one."""
    dtype = get_aval(x).dtype
    up, zero = gt(y, x), eq(x, like(x, 0))
    bits = bitcast_convert_type(x, np.int16)
    step = select(eq(up, gt(x, like(x, 0))), np.int16(1), np.int16(-1))
    least = select(up, np.int16(1), np.int16(-0x7FFF))
    moved = bitcast_convert_type(select(zero, least, add(bits, step)), dtype)
    return [select(eq(x, y), y, select(bitwise_or(ne(x, x), ne(y, y)), add(x, y), moved))]


def _lower_nextafter(ctx, ins, params, out_avals):
    if out_avals[0].dtype.itemsize > 2:
        return ctx.elementwise("nextafter", ins, out_avals[0])
    return ctx.compose(_next16, [v if v.shape else ctx.broadcast(v, out_avals[0].shape, ()) for v in ins])[0]


nextafter_p = elementwise("nextafter", "f", lower=_lower_nextafter)
nextafter_p.jvp = zero_jvp(nextafter_p)
nextafter = nary(nextafter_p, "The float next to x toward y.")


# --- less precision, copies -----------------------------------------------------------------------------------------


# Rounding to another float format and back, without leaving the dtype.
def _lower_reduce_precision(ctx, ins, params, out_avals):
    kind = (params["exponent_bits"], params["mantissa_bits"])
    if out_avals[0].dtype == dtypes.FLOAT32 and kind in ((5, 10), (8, 7)):
        return ctx.elementwise("round_f16" if kind == (5, 10) else "round_bf16", ins, out_avals[0])
    if out_avals[0].dtype == dtypes.FLOAT32 and kind == (8, 23):
        return ins[0]
    raise NotImplementedError(f"reduce_precision of {out_avals[0].dtype.name} to {kind}: float32 to float16 or bfloat16 is supported")


reduce_precision_p = elementwise("reduce_precision", "f", lower=_lower_reduce_precision)
reduce_precision_p.jvp = linear_jvp(reduce_precision_p)
reduce_precision_p.transpose = lambda cts, x, **kw: [reduce_precision_p.bind(cts[0], **kw)]


def reduce_precision(x, exponent_bits, mantissa_bits):
    """x rounded as if stored in a float format of these bits, in its own dtype."""
    return reduce_precision_p.bind(x, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)


copy_p = elementwise("copy", ANY, op="copy", lower=lambda ctx, ins, params, out_avals: ctx.fresh_copy(ins[0]))
copy_p.jvp = linear_jvp(copy_p)
copy_p.transpose = lambda cts, x: [cts[0]]
