"""Floats of at most 8 bits and integers of less than 8 in programs: bytes (uint8) that are moved as they are.

What computes with them is lowered for float32 or int32, between what reads and what writes the bytes.
Each operation's result is rounded to its dtype, as if it stood in memory.
"""

import functools

import ml_dtypes
import numpy as np

from fgrad import dtypes
from fgrad.core import ShapedArray, to_array
from fgrad.errors import LoweringError
from fgrad.ops import arithmetic, casts, logic
from fgrad.ops.gather import take_rows

_U8, _U32 = np.dtype(np.uint8), np.dtype(np.uint32)
_MOVES = frozenset(
    """broadcast_in_dim reshape transpose slice rev split concatenate pad dynamic_slice dynamic_update_slice select scatter take_along
    put_along optimization_barrier stop_gradient copy diagonals surround""".split()
)
_CALLBACKS = ("pure_callback", "io_callback", "debug_callback")
_OF_BITS = ("clz", "population_count", "shift_right_logical")
_CALLS = ("call", "custom", "collective")


def wide(dtype):
    """What numbers of this dtype are computed in."""
    return dtype if dtype not in dtypes.NARROW else dtypes.INT32 if dtypes.is_integer(dtype) else dtypes.FLOAT32


def _widened(aval):
    return ShapedArray(aval.shape, wide(aval.dtype)) if aval.dtype in dtypes.NARROW else aval


def _stored(aval):
    return ShapedArray(aval.shape, _U8) if aval.dtype in dtypes.NARROW else aval


@functools.cache
def _numbers(dtype):
    """The float32 number of each byte."""
    return np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)


def read(x, dtype):
    """The numbers of bytes, as float32 or int32."""
    if not dtypes.is_integer(dtype):
        return take_rows(_numbers(dtype), casts.convert_element_type(x, np.int32))
    bits = dtypes.iinfo(dtype).bits
    x = logic.bitwise_and(x, np.uint8(2**bits - 1))
    if not dtypes.is_signed(dtype):
        return casts.convert_element_type(x, np.int32)
    sign = np.int32(2 ** (bits - 1))
    return arithmetic.sub(logic.bitwise_xor(casts.convert_element_type(x, np.int32), sign), sign)


@functools.cache
def _layout(dtype):
    """(bits of the fraction, exponent of the least normal number, bytes of the largest one, overflow and NaN, has it a sign, and -0)."""
    info, numbers = ml_dtypes.finfo(dtype), _numbers(dtype)
    with np.errstate(all="ignore"):
        over, nan, zero = np.array([np.inf, np.nan, -0.0], np.float32).astype(dtype).view(np.uint8)
    signed = bool((numbers < 0).any())
    first = numbers[: 2 ** (info.bits - signed)]
    most = int(np.flatnonzero(first == np.nanmax(np.where(np.isinf(first), np.nan, first)))[0])
    return info.nmant, info.minexp, most, int(over), int(nan), signed, int(zero) != 0


def write(x, dtype):
    """The bytes that numbers (float32, int32) round to, ties to even; integers wrap around."""
    if dtypes.is_integer(dtype):
        low = logic.bitwise_and(casts.convert_element_type(x, np.int32), np.int32(2 ** dtypes.iinfo(dtype).bits - 1))
        return casts.convert_element_type(low, np.uint8)
    fraction, least, most, over, nan, signed, minus_zero = _layout(dtype)
    bits = casts.bitcast_convert_type(x, np.uint32)
    size = logic.bitwise_and(bits, np.uint32(0x7FFFFFFF))
    drop = np.uint32(23 - fraction)
    if not signed:  # powers of two from 2**-127 on, the exponents of float32: halves go up
        half = logic.select(logic.lt(size, np.uint32(0x800000)), np.uint32(0x200000), np.uint32(0x400000))
        code = logic.shift_right_logical(arithmetic.add(size, half), drop)
        no_power = logic.bitwise_or(logic.gt(bits, np.uint32(0x7F3FFFFF)), logic.eq(bits, np.uint32(0)))
        return casts.convert_element_type(logic.select(no_power, np.uint32(nan), code), np.uint8)
    odd = logic.bitwise_and(logic.shift_right_logical(size, drop), np.uint32(1))
    rounded = logic.shift_right_logical(arithmetic.add(size, arithmetic.add(odd, np.uint32((1 << (22 - fraction)) - 1))), drop)
    code = arithmetic.sub(rounded, np.uint32((126 + least) << fraction))
    # below the normal numbers the bytes are multiples of the least one: a sum with what has this last place rounds to them
    step = np.ldexp(np.float32(1), 23 + least - fraction)
    near = casts.bitcast_convert_type(arithmetic.add(casts.bitcast_convert_type(size, np.float32), step), np.uint32)
    below = logic.lt(size, np.uint32((127 + least) << 23))
    code = logic.select(below, arithmetic.sub(near, step.view(np.uint32)), code)
    code = logic.select(logic.gt(code, np.uint32(most)), np.uint32(over), code)
    sign = logic.shift_left(logic.shift_right_logical(bits, np.uint32(31)), np.uint32(ml_dtypes.finfo(dtype).bits - 1))
    if not minus_zero:
        sign = logic.select(logic.eq(code, np.uint32(0)), np.uint32(0), sign)
    code = logic.bitwise_or(code, sign)
    code = logic.select(logic.gt(size, np.uint32(0x7F800000)), np.uint32(nan), code)
    return casts.convert_element_type(code, np.uint8)


def _as_bytes(params, avals):
    """A callback's parameters where the program passes it bytes and takes them back."""
    callback, results = params["callback"], params["result_avals"]

    def call(*args):
        outs = callback(*[to_array(np.asarray(x).view(a.dtype)) if a.dtype in dtypes.NARROW else x for x, a in zip(args, avals)])
        outs = [np.asarray(x) if a.dtype in dtypes.NARROW else x for x, a in zip(outs, results)]
        return [x.view(_U8) if a.dtype in dtypes.NARROW and x.dtype == a.dtype else x for x, a in zip(outs, results)]

    return {"callback": call, "result_avals": [_stored(a) for a in results]}


def _clamped(x, limits):
    return arithmetic.min(arithmetic.max(x, np.float32(limits.min)), np.float32(limits.max))


def lower_narrow(ctx, prim, ins, params, in_avals, out_avals):
    """prim.lower where an operand or a result has such a dtype; `ins` have their bytes."""

    def opened(v, aval):
        return ctx.compose(lambda x: [read(x, aval.dtype)], [v])[0] if aval.dtype in dtypes.NARROW else v

    def closed(v, aval):
        if aval.dtype not in dtypes.NARROW:
            return v
        return ctx.compose(lambda x: [write(x, aval.dtype)], [ctx.cast(v, wide(aval.dtype))])[0]

    if prim.name in _MOVES or prim.kind in _CALLS and prim.name not in _CALLBACKS:
        return prim.lower(ctx, ins, params, [_stored(a) for a in out_avals])
    if prim is casts.convert_element_type_p:
        x = opened(ins[0], in_avals[0])
        if dtypes.is_integer(out_avals[0].dtype) and dtypes.is_float(x.dtype) and out_avals[0].dtype in dtypes.NARROW:
            x = ctx.compose(lambda x: [_clamped(x, dtypes.iinfo(out_avals[0].dtype))], [ctx.cast(x, np.float32)])[0]
        return closed(x, out_avals[0]) if out_avals[0].dtype in dtypes.NARROW else ctx.cast(x, out_avals[0].dtype)
    if prim is casts.bitcast_convert_type_p:
        for a in (*in_avals, *out_avals):
            if dtypes.itemsize_bits(a.dtype) < 8:
                raise LoweringError(f"bitcast_convert_type: {a.dtype.name} has a byte of memory for each element, not its bits alone")
        return prim.lower(ctx, ins, params, [_stored(a) for a in out_avals])
    if prim.name in _OF_BITS:
        field = np.int32(2 ** dtypes.itemsize_bits(in_avals[0].dtype) - 1)
        if prim is logic.clz_p:
            spare = np.int32(32 - dtypes.itemsize_bits(in_avals[0].dtype))
            x = ctx.compose(lambda x: [arithmetic.sub(logic.clz(logic.bitwise_and(read(x, in_avals[0].dtype), field)), spare)], ins)[0]
            return closed(x, out_avals[0])
        ins = [ctx.compose(lambda x: [logic.bitwise_and(read(x, in_avals[0].dtype), field)], [ins[0]])[0], *ins[1:]]
        in_avals = [ShapedArray(in_avals[0].shape, dtypes.INT32), *in_avals[1:]]
    if prim.name in _CALLBACKS:
        return prim.lower(ctx, ins, {**params, **_as_bytes(params, in_avals)}, [_stored(a) for a in out_avals])
    params = {k: wide(p) if isinstance(p, np.dtype) else p for k, p in params.items()}
    outs = prim.lower(ctx, [opened(v, a) for v, a in zip(ins, in_avals)], params, [_widened(a) for a in out_avals])
    if not prim.multiple_results:
        return closed(outs, out_avals[0])
    return [closed(v, a) for v, a in zip(outs, out_avals)]
