"""Products in lax's signatures, integer arithmetic, random bits, and what stands for hardware choices elsewhere."""

import enum
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad import array_tree as tree
from fgrad import dtypes
from fgrad.control.callback import io_callback
from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import ShapeError
from fgrad.ops import dot as _dot
from fgrad.ops.conv import ConvDimensionNumbers
from fgrad.ops.elementwise import (
    add,
    bitcast_convert_type,
    bitwise_and,
    bitwise_xor,
    complex_,
    convert_element_type,
    integer_pow,
    like,
    lt,
    mul,
    select,
    shift_right_arithmetic,
    shift_right_logical,
    sub,
)
from fgrad.ops.elementwise import conj as _conj
from fgrad.ops.random import threefry2x32
from fgrad.ops.rules import Zero, as_result, broadcast_in_dim, broadcast_to
from fgrad.ops.shape import broadcasted_iota, concatenate, expand_dims, index_in_dim, iota, reshape, slice_in_dim
from fgrad.transforms.custom import custom_jvp_call
from fgrad.transforms.remat import optimization_barrier_p


class Precision(enum.Enum):
    """Accepted wherever JAX takes one. Products are always computed in full precision."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


class DotAlgorithm(NamedTuple):
    """How a product may be computed: accepted as `precision`, and all satisfied by full precision."""

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


DotAlgorithmPreset = enum.Enum(
    "DotAlgorithmPreset",
    """DEFAULT ANY_F8_ANY_F8_F32 ANY_F8_ANY_F8_F32_FAST_ACCUM ANY_F8_ANY_F8_ANY ANY_F8_ANY_F8_ANY_FAST_ACCUM F16_F16_F16 F16_F16_F32
    BF16_BF16_BF16 BF16_BF16_F32 BF16_BF16_F32_X3 BF16_BF16_F32_X6 BF16_BF16_F32_X9 TF32_TF32_F32 TF32_TF32_F32_X3 F32_F32_F32
    F64_F64_F64""",
    module=__name__,
)
DotAlgorithmPreset.__doc__ = "Names of common DotAlgorithms."
_PRECISIONS = {
    "default",
    "high",
    "highest",
    "bfloat16",
    "tensorfloat32",
    "float32",
    "fastest",
    "bfloat16_3x",
    *DotAlgorithmPreset.__members__,
}


def check_precision(precision):
    """Raise ValueError unless `precision` is None, one of JAX's names, a Precision, a DotAlgorithm, or a pair of these."""
    parts = precision if type(precision) in (tuple, list) and len(precision) == 2 else (precision,)
    for p in parts:
        if not (p is None or isinstance(p, (Precision, DotAlgorithm, DotAlgorithmPreset)) or (isinstance(p, str) and p in _PRECISIONS)):
            raise ValueError(
                f"Precision argument must be None, a Precision, one of {sorted(_PRECISIONS)} or a pair of these, got {precision!r}"
            )


def _promoted(lhs, rhs):
    """The operands of a product in one dtype."""
    a, b = get_aval(lhs), get_aval(rhs)
    if a.dtype == b.dtype:
        return lhs, rhs
    if {a.dtype, b.dtype}.issubset(dtypes.NARROW_FLOATS):  # which do not promote, but are multiplied
        return convert_element_type(lhs, dtypes.FLOAT32), convert_element_type(rhs, dtypes.FLOAT32)
    dtype = dtypes.promote([(a.dtype, a.weak_type), (b.dtype, b.weak_type)])[0]
    return convert_element_type(lhs, dtype), convert_element_type(rhs, dtype)


# What JAX's signatures call their arguments, for type hints.
PrecisionLike = None | str | Precision | tuple[str, str] | tuple[Precision, Precision]
DotDimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]
ConvGeneralDilatedDimensionNumbers = None | ConvDimensionNumbers | tuple[str, str, str]


class RandomAlgorithm(enum.IntEnum):
    """Algorithms of rng_bit_generator: all names stand for threefry."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


def dot(lhs, rhs, *, dimension_numbers=None, precision=None, preferred_element_type=None, out_sharding=None):
    """Vector-vector, matrix-vector and matrix-matrix products, or dot_general where dimension_numbers are given."""
    check_precision(precision)
    lhs, rhs = _promoted(lhs, rhs)
    if dimension_numbers is not None:
        return _dot.dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)
    return _dot.dot(lhs, rhs, precision, preferred_element_type)


def dot_general(lhs, rhs, dimension_numbers, precision=None, preferred_element_type=None, *, out_sharding=None):
    """Contraction over dimension_numbers = ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch)).

    The result's axes are the batch axes, then lhs's free axes, then rhs's. `precision` is accepted and ignored.
    Operands of different dtypes are promoted. Raises ShapeError where sizes differ, ValueError for an unknown precision.
    """
    check_precision(precision)
    lhs, rhs = _promoted(lhs, rhs)
    return _dot.dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs, rhs, precision=None):
    """Matrix products of the last two axes, over equal leading ones. Raises ShapeError where ranks differ or are below 2."""
    a, b = get_aval(lhs).ndim, get_aval(rhs).ndim
    if min(a, b) < 2 or a != b:
        raise ShapeError(
            f"batch_matmul takes two arrays of one rank, at least 2, got shapes {get_aval(lhs).shape} and {get_aval(rhs).shape}"
        )
    batch = tuple(range(a - 2))
    return _dot.dot_general(lhs, rhs, (((a - 1,), (a - 2,)), (batch, batch)), precision)


def conj(x):
    """The complex conjugate; that of a real array is complex too."""
    aval = get_aval(x)
    if dtypes.is_complex(aval.dtype):
        return _conj(x)
    zero = like(x, 0)
    return complex_(x, convert_element_type(zero, aval.dtype, True) if aval.weak_type else zero)


def reciprocal(x):
    """1 / x, for floats and complex numbers."""
    if not dtypes.is_inexact(get_aval(x).dtype):
        raise TypeError(f"reciprocal does not accept dtype {get_aval(x).dtype.name}. Accepted dtypes are floating and complex.")
    return integer_pow(x, -1)


def mulhi(x, y, /):
    """The high half of the product of two integers of one dtype."""
    aval = get_aval(x)
    if not dtypes.is_integer(aval.dtype) or get_aval(y).dtype != aval.dtype:
        raise TypeError(f"mulhi takes integers of one dtype, got {aval.dtype.name} and {get_aval(y).dtype.name}")
    bits, signed = 8 * aval.dtype.itemsize, dtypes.is_signed(aval.dtype)
    if bits < 32:
        product = mul(convert_element_type(x, np.int32), convert_element_type(y, np.int32))
        shift = shift_right_arithmetic if signed else shift_right_logical
        return convert_element_type(shift(product, np.int32(bits)), aval.dtype)
    unsigned = np.dtype(f"uint{bits}").type
    half, low = unsigned(bits // 2), unsigned(2 ** (bits // 2) - 1)
    ux, uy = (bitcast_convert_type(v, unsigned) if signed else v for v in (x, y))
    x1, x0, y1, y0 = (
        shift_right_logical(ux, half),
        bitwise_and(ux, low),
        shift_right_logical(uy, half),
        bitwise_and(uy, low),
    )
    # With h = 2^half nothing overflows: (h - 1)^2 + 2 (h - 1) < h^2.
    middle = add(mul(x1, y0), shift_right_logical(mul(x0, y0), half))
    carry = add(mul(x0, y1), bitwise_and(middle, low))
    high = add(add(mul(x1, y1), shift_right_logical(middle, half)), shift_right_logical(carry, half))
    if not signed:
        return high
    zero = like(x, 0)
    high = bitcast_convert_type(high, aval.dtype)
    return sub(sub(high, select(lt(x, zero), y, zero)), select(lt(y, zero), x, zero))


def rng_bit_generator(key, shape, dtype=np.uint32, algorithm=RandomAlgorithm.RNG_DEFAULT, *, out_sharding=None):
    """(new key, random bits of `shape`): a counter-based generator with an explicit state.

    key: uint32 of shape (4,) (or (2,)): two words of key and two of counter. The bits are threefry's, whatever the algorithm:
    they are the same everywhere, and not XLA's. dtype: an unsigned integer type.
    """
    aval, out = get_aval(key), dtypes.canonicalize_dtype(dtype)
    if aval.dtype != dtypes.UINT32 or aval.shape not in ((2,), (4,)):
        raise TypeError(f"rng_bit_generator: the key must be uint32 of shape (4,) or (2,), got {aval}")
    if out.kind != "u":
        raise TypeError(f"rng_bit_generator: dtype must be an unsigned integer type, got {out.name}")
    words = [index_in_dim(key, i, keepdims=False) for i in range(aval.shape[0])]
    k1, k2 = words[:2]
    low, high = words[2:] or (np.uint32(0), np.uint32(0))
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    n = ShapedArray(shape, out).size
    blocks = (n * out.itemsize + 7) // 8
    at = add(iota(np.uint32, blocks), broadcast_to(low, (blocks,)))
    carried = convert_element_type(lt(at, broadcast_to(low, (blocks,))), np.uint32)
    pair = threefry2x32(broadcast_to(k1, (blocks,)), broadcast_to(k2, (blocks,)), add(carried, broadcast_to(high, (blocks,))), at)
    bits = concatenate([reshape(w, (blocks,)) for w in pair], 0)
    if out.itemsize == 8:
        lo, hi = (convert_element_type(w, out) for w in pair)
        bits = bitwise_xor(mul(hi, out.type(2**32)), lo)
    elif out.itemsize < 4:
        parts = 4 // out.itemsize
        shifts = broadcasted_iota(np.uint32, (2 * blocks, parts), 1)
        wide = broadcast_in_dim(bits, (2 * blocks, parts), (0,))
        word = shift_right_logical(wide, mul(shifts, np.uint32(8 * out.itemsize)))
        bits = reshape(convert_element_type(bitwise_and(word, np.uint32(2 ** (8 * out.itemsize) - 1)), out), (2 * blocks * parts,))
    step = np.uint32(blocks)
    new_low = add(low, step)
    new_high = add(high, convert_element_type(lt(new_low, low), np.uint32))
    if aval.shape == (2,):  # no room for a counter: hash it into the key
        new = threefry2x32(k1, k2, new_high, new_low)
    else:
        new = [k1, k2, new_low, new_high]
    return concatenate([expand_dims(w, (0,)) for w in new], 0), reshape(slice_in_dim(bits, 0, n), tuple(shape))


@functools.cache
def _stateful():
    return np.random.default_rng()


def rng_uniform(a, b, shape):
    """Numbers in [a, b) from a hidden state, so that calls differ; fgrad.random is what programs should use."""
    aval = get_aval(a)
    if aval.shape or get_aval(b) != aval:
        raise TypeError(f"rng_uniform takes two scalars of one dtype, got {aval} and {get_aval(b)}")
    integer = dtypes.is_integer(aval.dtype)

    def draw(a, b):
        lo, hi = np.asarray(a), np.asarray(b)
        x = _stateful().integers(lo, hi, size=shape) if integer else _stateful().uniform(lo, hi, size=shape)
        return x.astype(aval.dtype)

    return io_callback(draw, ShapedArray(tuple(shape), aval.dtype), a, b)


def optimization_barrier(operand, /):
    """operand (a tree): what is computed from it is not merged with the same computation before it."""
    leaves, treedef = tree.flatten(operand)
    return tree.unflatten(treedef, optimization_barrier_p.bind(*leaves)) if leaves else operand


class _StopRule:
    """The derivative rule of stop_gradient: zero."""

    constant = True

    def __call__(self, primals, tangents):
        return [_stop(primals[0])], [Zero(get_aval(primals[0]).tangent_aval())]


_stop_rule = _StopRule()


def _stop(x):
    """A leaf without derivatives of any order: its rule stops the derivatives of the primal that it returns, too."""
    x = as_result(x)
    if not hasattr(x, "aval") or not dtypes.is_inexact(x.dtype):
        return x
    return custom_jvp_call(lambda v: [v], _stop_rule, [x], "stop_gradient")[0]


def stop_gradient(x):
    """x, seen by differentiation as a constant.

    >>> import fgrad
    >>> float(fgrad.grad(lambda x: x * fgrad.lax.stop_gradient(x))(3.0))
    3.0
    """
    return tree.map(_stop, x)


# What interpreters of jaxprs ask for by name. stop_gradient itself leaves no equation in a program.
stop_gradient_p = Primitive(
    "stop_gradient",
    abstract_eval=lambda x: x,
    jvp=lambda primals, tangents: (stop_gradient_p.bind(*primals), Zero(get_aval(primals[0]).tangent_aval())),
    batch=lambda axis, args, dims: (stop_gradient_p.bind(*args), dims[0]),
    lower=lambda ctx, ins, params, out_avals: ins[0],
    impl=lambda x: x,
    listed=False,
)


def composite(decomposition, name, version=0):
    """decomposition, as a function of arrays and keyword attributes. The name means nothing to this compiler."""

    def call(*args, **attributes):
        return decomposition(*args, **attributes)

    call.__name__ = call.__qualname__ = name
    return call


def platform_dependent(*args, default=None, **per_platform):
    """per_platform["cpu"](*args), or default(*args) where there is none. NotImplementedError where there is neither."""
    fun = per_platform.get("cpu", default)
    if fun is None:
        raise NotImplementedError(f"platform_dependent: no implementation for cpu among {sorted(per_platform)}, and no default")
    return fun(*args)


__all__ = [
    "ConvGeneralDilatedDimensionNumbers",
    "DotDimensionNumbers",
    "DotAlgorithm",
    "DotAlgorithmPreset",
    "Precision",
    "PrecisionLike",
    "RandomAlgorithm",
    "batch_matmul",
    "composite",
    "conj",
    "dot",
    "dot_general",
    "mulhi",
    "optimization_barrier",
    "platform_dependent",
    "reciprocal",
    "rng_bit_generator",
    "rng_uniform",
    "stop_gradient",
    "stop_gradient_p",
]
