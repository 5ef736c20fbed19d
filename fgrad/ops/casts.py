"""Casts: between dtypes, of bits, to less precision; the next float, and copies."""

import numpy as np

from fgrad import dtypes
from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.core.binding import is_array
from fgrad.errors import ShapeError
from fgrad.ops.arithmetic import abs as abs_
from fgrad.ops.arithmetic import add, mul, sign, sub
from fgrad.ops.arithmetic import max as _larger
from fgrad.ops.arithmetic import min as _smaller
from fgrad.ops.logic import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    eq,
    ge,
    gt,
    is_finite,
    lt,
    select,
    shift_right_logical,
)
from fgrad.ops.rules import ANY, Zero, elementwise, like, linear_jvp, move_axis, nary, zero_jvp, zero_of

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
convert_element_type_p.transpose = lambda cts, x, *, new_dtype, weak_type: [cast_as(cts[0], x.aval.dtype)]


def convert_element_type(operand, new_dtype, weak_type=False):
    """operand cast to new_dtype. A float becomes an int by truncation, saturating; complex to real drops the imaginary part."""
    aval = get_aval(operand)
    if aval.dtype is new_dtype and new_dtype.itemsize < 8 and aval.weak_type == weak_type and is_array(operand):
        return operand
    dtype = dtypes.canonicalize_dtype(new_dtype)
    if type(operand) is complex and not dtypes.is_complex(dtype):
        raise TypeError(f"convert_element_type: {operand} is no real number, and does not become {dtype.name}; take its real part")
    return cast_as(operand, dtype, weak_type)


def cast_as(operand, dtype, weak_type=False):
    """convert_element_type to a dtype that an array has: of 64 bits too where it has outlived enable_x64."""
    aval = get_aval(operand)
    weak_type = bool(weak_type) and dtype != dtypes.BOOL
    if aval.dtype == dtype and aval.weak_type == weak_type and not isinstance(operand, (bool, int, float, complex, np.generic, np.ndarray)):
        return operand
    return convert_element_type_p.bind(operand, new_dtype=dtype, weak_type=weak_type)


def _bitcast_aval(x, *, new_dtype):
    old, new, shape = x.dtype.itemsize, new_dtype.itemsize, x.shape
    if dtypes.BOOL in (x.dtype, new_dtype) and x.dtype != new_dtype:
        raise TypeError(f"bitcast_convert_type: {x.dtype.name} to {new_dtype.name}: bool has no bits to convert")
    if old > new:
        shape = (*shape, old // new)
    elif old < new:
        if not shape or shape[-1] != new // old:
            raise ShapeError(
                f"bitcast_convert_type: {x.dtype.name} to {new_dtype.name} needs a last axis of size {new // old}, got shape {shape}"
            )
        shape = shape[:-1]
    return ShapedArray(shape, new_dtype)


def _bitcast_batch(axis, args, dims, *, new_dtype):
    return bitcast_convert_type_p.bind(move_axis(args[0], dims[0], 0), new_dtype=new_dtype), 0


bitcast_convert_type_p = Primitive(
    "bitcast_convert_type",
    abstract_eval=_bitcast_aval,
    batch=_bitcast_batch,
    lower=lambda ctx, ins, params, out_avals: ctx.bitcast(ins[0], out_avals[0]),
)
bitcast_convert_type_p.jvp = zero_jvp(bitcast_convert_type_p)


def bitcast_convert_type(operand, new_dtype):
    """operand's bits read as another dtype: a narrower one gives the parts along a new last axis, a wider one joins the last axis."""
    return bitcast_convert_type_p.bind(operand, new_dtype=dtypes.canonicalize_dtype(new_dtype))


# --- the next float -------------------------------------------------------------------------------------------------


def _next16(x, y):
    """nextafter of 16-bit floats by their bits as integers, which are ordered as they are; float32 would take subnormal numbers for 0."""
    dtype = get_aval(x).dtype
    infinite, quiet = (0x7F80, 0x7FC0) if dtype == dtypes.BFLOAT16 else (0x7C00, 0x7E00)
    n = np.int32  # whose operations are stages of one pass
    a, b = (convert_element_type(bitcast_convert_type(v, np.int16), n) for v in (x, y))
    size, other = bitwise_and(a, n(0x7FFF)), bitwise_and(b, n(0x7FFF))
    at, to = (select(lt(v, n(0)), sub(n(0), s), s) for v, s in ((a, size), (b, other)))  # both zeros are 0
    moved = abs_(add(at, _larger(_smaller(sub(to, at), n(1)), n(-1))))
    signed = bitwise_or(moved, bitwise_and(select(eq(size, n(0)), b, a), n(0x8000)))
    missing = gt(_larger(size, other), n(infinite))
    return [bitcast_convert_type(convert_element_type(select(missing, n(quiet), signed), np.int16), dtype)]


def _lower_nextafter(ctx, ins, params, out_avals):
    if out_avals[0].dtype.itemsize > 2:
        return ctx.elementwise("nextafter", ins, out_avals[0])
    return ctx.compose(_next16, [v if v.shape else ctx.broadcast(v, out_avals[0].shape, ()) for v in ins])[0]


nextafter_p = elementwise("nextafter", "f", lower=_lower_nextafter)
nextafter_p.jvp = zero_jvp(nextafter_p)
nextafter = nary(nextafter_p, "The float next to x1 toward x2.", ("x1", "x2"))


# --- less precision, copies -----------------------------------------------------------------------------------------


# Rounding to another float format and back, without leaving the dtype.
def _lower_reduce_precision(ctx, ins, params, out_avals):
    kind = (params["exponent_bits"], params["mantissa_bits"])
    if out_avals[0].dtype == dtypes.FLOAT32 and kind in ((5, 10), (8, 7)):
        return ctx.elementwise("round_f16" if kind == (5, 10) else "round_bf16", ins, out_avals[0])
    if out_avals[0].dtype == dtypes.FLOAT32 and kind == (8, 23):
        return ins[0]
    return ctx.compose(lambda x: [_rounded_to(x, *kind)], ins)[0]


def _rounded_to(x, exponent_bits, mantissa_bits):
    """x rounded to nearest even on its bits; beyond the format's range infinite, below its smallest normal number zero."""
    dtype = get_aval(x).dtype
    if dtype.itemsize == 2:
        return convert_element_type(_rounded_to(convert_element_type(x, dtypes.FLOAT32), exponent_bits, mantissa_bits), dtype)
    bits, info = np.dtype(f"uint{8 * dtype.itemsize}"), np.finfo(dtype)
    u, y, drop = bitcast_convert_type(x, bits), x, info.nmant - mantissa_bits
    if drop > 0:
        odd = bitwise_and(shift_right_logical(u, like(u, drop)), like(u, 1))
        u = bitwise_and(add(u, add(odd, like(u, (1 << (drop - 1)) - 1))), bitwise_not(like(u, (1 << drop) - 1)))
        y = bitcast_convert_type(u, dtype)
    if exponent_bits < info.nexp:
        bias, size = (1 << (exponent_bits - 1)) - 1, abs_(y)
        y = select(ge(size, like(x, 2.0 ** (bias + 1))), mul(like(x, np.inf), sign(y)), y)
        y = select(lt(size, like(x, 2.0 ** (1 - bias))), mul(like(x, 0), sign(y)), y)
    return select(is_finite(x), y, x)


reduce_precision_p = elementwise("reduce_precision", "f", lower=_lower_reduce_precision)
reduce_precision_p.jvp = linear_jvp(reduce_precision_p)
reduce_precision_p.transpose = lambda cts, x, **kw: [reduce_precision_p.bind(cts[0], **kw)]


def reduce_precision(operand, exponent_bits, mantissa_bits):
    """operand rounded as if stored in a float format of these bits, in its own dtype."""
    return reduce_precision_p.bind(operand, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)


copy_p = elementwise("copy", ANY, op="copy", lower=lambda ctx, ins, params, out_avals: ctx.fresh_copy(ins[0]))
copy_p.jvp = linear_jvp(copy_p)
copy_p.transpose = lambda cts, x: [cts[0]]
