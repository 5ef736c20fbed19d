"""What the rules of all primitives share: symbolic zeros, linear placeholders, batch helpers and makers of common rules."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import dtypes
from fgrad._kernels.elementwise import ARITY
from fgrad._kernels.operands import filled
from fgrad.config import config
from fgrad.core import Primitive, ShapedArray, context, eval_trace, from_scalar, get_aval, to_array
from fgrad.core.binding import jvp_of, nary_of, product_rules, sum_transpose, unary_of
from fgrad.core.ir import Linear, Zero
from fgrad.errors import ShapeError
from fgrad.ops.accuracy import check_accuracy

INEXACT = "fc"
NUMBER = "iufc"
ANY = "biufc"


def as_result(x):
    """An operand that is the result: numbers and NumPy's arrays become arrays."""
    return to_array(x) if isinstance(x, (np.ndarray, np.generic, int, float, complex)) else x


def is_linear(x):
    """Whether x stands for an argument that a transposed equation is linear in."""
    return type(x) is Linear


def zero_of(x):
    """The zero tangent of x."""
    return Zero(get_aval(x).tangent_aval())


def no_batch(dims):
    """Whether nothing has a batch axis."""
    return all(d is None for d in dims)


def nary_aval(name, avals, dtype=None):
    """Result aval of an elementwise primitive: operands have one shape, or are rank-0."""
    shape, weak = (), True
    for a in avals:
        if a.shape:
            if shape and a.shape != shape:
                raise ShapeError(_other_shapes(name, [a.shape for a in avals]))
            shape = a.shape
        weak = weak and a.weak_type
    return ShapedArray(shape, avals[0].dtype if dtype is None else dtype, weak)


def _other_shapes(name, shapes):
    text = f"{name} got incompatible shapes for broadcasting: {', '.join(map(str, shapes))}."
    if name == "clamp":
        text += " clamp requires min.shape == operand.shape or min.shape == (), and so of max."
    if name == "select":
        text += f" select `which` must be scalar or have the same shape as cases, got `which` shape {shapes[0]} but case shape {shapes[1]}."
    return text + " fgrad.lax functions got arrays of different shapes: they do not broadcast (fgrad.numpy's do)."


def same_dtypes(name, avals):
    for a in avals[1:]:
        if a.dtype != avals[0].dtype:
            raise TypeError(
                f"lax.{name} requires arguments to have the same dtypes, got {', '.join(a.dtype.name for a in avals)}. (Tip: jnp.{name} is "
                "a similar function that does automatic type promotion on inputs). Or convert one of them with astype."
            )


_PY = (bool, int, float, complex)


def unify(name, args):
    """Python scalars among `args` take the dtype of the arrays beside them; arrays, or scalars alone, must agree already."""
    avals = [get_aval(a) for a in args]
    first = avals[0].dtype
    for a in avals:
        if a.dtype is not first and a.dtype != first:
            break
    else:
        return args
    if name != "pow" and all(type(x) in _PY for x in args):
        same_dtypes(name, avals)
    dtype, _ = dtypes.promote([(a.dtype, a.weak_type) for a in avals])
    out = []
    for x, a in zip(args, avals):
        if a.dtype != dtype:
            if type(x) not in _PY:
                same_dtypes(name, avals)
            if isinstance(x, complex) and dtype.kind != "c" or isinstance(x, float) and dtype.kind in "iub":
                same_dtypes(name, avals)
            x = dtype.type(x)
        out.append(x)
    return out


def _check_dtype(name, aval, kinds):
    kind = dtypes.kind_of(aval.dtype)
    if kind not in kinds:
        words = {"f": "floating", "c": "complex", "i": "signed integer", "u": "unsigned integer", "b": "boolean"}
        raise TypeError(f"{name} does not accept dtype {aval.dtype.name}. Accepted dtypes are {', '.join(words[k] for k in kinds)}.")


def like(x, value):
    """A scalar constant of x's dtype."""
    return constant(get_aval(x).dtype, value)


def constant(dtype, value):
    """A scalar of exactly this dtype: an Array where a NumPy scalar counts as one of 32 bits (arrays of 64 bits outlive enable_x64)."""
    if dtype.itemsize < 8 or dtypes.canonicalize_dtype(dtype) is dtype:
        return dtype.type(value)
    return from_scalar(dtype.type(value).item(), dtype, False)


def _spread_ones(args):
    """Operands of one rank whose axes of size 1 are broadcast to the others'; None if that is not what differs."""
    shapes = [get_aval(x).shape for x in args]
    if len({len(s) for s in shapes}) != 1:
        return None
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        return None
    return tuple(x if s == shape else broadcast_in_dim(x, shape, range(len(shape))) for x, s in zip(args, shapes))


def nary(prim: Primitive, doc: str, operands: tuple = ("x", "y")) -> Callable[..., Any]:
    """The function of a primitive of several operands: one shape and dtype, or rank-0, or Python scalars."""

    fun = nary_of(prim, unify, _spread_ones, operands)
    fun.__signature__ = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in operands])  # type: ignore[attr-defined]
    return named(fun, prim, doc)


def unary(prim: Primitive, doc: str) -> Callable[[Any], Any]:
    """The function of a primitive of one operand."""
    return named(unary_of(prim), prim, doc)


def elementary(prim: Primitive, doc: str) -> Callable[..., Any]:
    """The function of a primitive of one operand that takes JAX's `accuracy`, which every result satisfies."""

    def fun(x, *, accuracy=None):
        if accuracy is not None:
            check_accuracy(prim.name, accuracy)
        return prim.bind(x)

    return named(fun, prim, doc)


def named(fun, prim, doc):
    fun.__name__ = fun.__qualname__ = prim.name
    fun.__doc__ = doc
    return fun


def elementwise(name, kinds="iufc", *, result=None, op=None, lower=None, same=True):
    """A primitive whose abstract eval, batching and lowering are those of any elementwise op.

    kinds: dtype kinds it accepts ("biufc"); result: None, "bool", "real" or a function of the operands' avals;
    op: its opcode in the elementwise VM (its name by default).
    """

    opcode = op or name
    arity = ARITY.get(opcode, 1)

    def abstract_eval(*avals, **params):
        if len(avals) != arity:
            raise TypeError(f"{name} takes {arity} operands, got {len(avals)}")
        if same:
            same_dtypes(name, avals)
            _check_dtype(name, avals[0], kinds)
        dtype = None
        if result == "bool":
            return nary_aval(name, avals, dtypes.BOOL)
        if result == "real":
            dtype = dtypes.to_real(avals[0].dtype)
        elif result is not None:
            dtype = result(*avals, **params)
        return nary_aval(name, avals, dtype)

    prim = Primitive(name, abstract_eval=abstract_eval, kind="elementwise")

    def batch(axis, args, dims, **params):
        args, dim = align_batch(args, dims)
        return prim.bind(*args, **params), dim

    prim.batch = batch
    prim.opcode = opcode if lower is None else None
    prim.lower = lower or (lambda ctx, ins, params, out_avals: ctx.elementwise(opcode, ins, out_avals[0]))
    return prim


def align_batch(args, dims):
    """Bring the batch axes of elementwise operands together: (args, batch dim of the result)."""
    from_shape = None
    for x, d in zip(args, dims):
        if d is not None:
            shape = get_aval(x).shape
            if from_shape is None:
                from_shape, from_dim = shape, d
            elif shape != from_shape or d != from_dim:
                break
    else:
        if all(d is not None or not get_aval(x).shape for x, d in zip(args, dims)) and (
            len(from_shape) > 1 or all(d is not None or not get_aval(x).shape for x, d in zip(args, dims))
        ):
            return args, from_dim
    size = from_shape[from_dim]
    inner = ()
    for x, d in zip(args, dims):
        s = get_aval(x).shape
        s = s if d is None else s[:d] + s[d + 1 :]
        if s:
            inner = s
    out = []
    for x, d in zip(args, dims):
        s = get_aval(x).shape
        if d is None:
            out.append(broadcast_in_dim(x, (size, *inner), tuple(range(1, 1 + len(inner)))) if s else x)
        else:
            x = move_axis(x, d, 0)
            if len(s) == 1 and inner:
                x = broadcast_in_dim(x, (size, *inner), (0,))
            out.append(x)
    return out, 0


# Filled in by ops.shape, which declares these: every family's rules use them.
def broadcast_in_dim(x, shape, dims):
    return _shape_ops["broadcast_in_dim"](x, shape, dims)


def move_axis(x, src, dst):
    """x with axis `src` moved to position `dst`."""
    n = len(get_aval(x).shape)
    src, dst = src % n, dst % n
    if src == dst:
        return x
    perm = [i for i in range(n) if i != src]
    perm.insert(dst, src)
    return _shape_ops["transpose"](x, tuple(perm))


_shape_ops: dict = {}


def set_shape_ops(**ops):
    """Hand over the functions of higher modules that rules need."""
    _shape_ops.update(ops)


def bdim_at_front(x, dim, size):
    """x with its batch axis at 0, broadcast to one where it has none."""
    shape = get_aval(x).shape
    if dim is None:
        return broadcast_in_dim(x, (size, *shape), tuple(range(1, len(shape) + 1)))
    return move_axis(x, dim, 0)


_FILLED = 1 << 14  # elements of a constant that is memory at once; larger ones are one element, broadcast


def full(shape, value, dtype):
    """An array of `shape` filled with a Python scalar."""
    if context.trace is eval_trace and type(value) is int and type(shape) is tuple:
        plan = _plan(shape, value, dtype, config.enable_x64)
    else:
        plan = _make_plan(tuple(shape), value, dtype)
    aval, word = plan
    if context.trace is eval_trace and aval is not None:
        return filled(aval, word)
    dtype = np.dtype(dtype)
    return broadcast_in_dim(constant(dtype, value), tuple(shape), ())


def _make_plan(shape, value, dtype, x64=None):
    """(aval, one element's bytes) of a constant that is memory at once; (None, None) of others."""
    dtype = np.dtype(dtype)
    value = dtype.type(value)
    if not all(type(d) is int and d >= 0 for d in shape) or dtypes.canonicalize_dtype(dtype) != dtype:
        return None, None
    aval = ShapedArray(shape, dtype)
    return (aval, value.tobytes()) if aval.size <= _FILLED else (None, None)


_plan = functools.lru_cache(10_000)(_make_plan)


def zeros(aval):
    """An array of zeros of this aval."""
    return full(aval.shape, 0, aval.dtype)


def instantiate(t):
    """A symbolic zero as an array of zeros; other values as they are."""
    return zeros(t.aval) if type(t) is Zero else t


def broadcast_to(x, shape):
    """Rank-0 values spread over `shape`; others have it already."""
    return broadcast_in_dim(x, shape, ()) if get_aval(x).shape != shape else x


def unbroadcast(ct, aval):
    """Sum a cotangent down to a rank-0 operand that an elementwise op spread."""
    shape = get_aval(ct).shape
    if shape != aval.shape:
        return _shape_ops["reduce_sum"](ct, tuple(range(len(shape))))
    return ct


def linear_jvp(prim):
    """jvp of a primitive that is linear in its one argument: apply it to the tangent."""

    def jvp(primals, tangents, **params):
        (x,), (t,) = primals, tangents
        out = prim.bind(x, **params)
        return out, prim.bind(t, **params)

    return jvp


def jvp_by_args(prim, *rules):
    """jvp that sums one rule per argument: rule(t, out, *primals, **params), or None where it has no derivative."""
    return jvp_of(prim, rules, _shape_ops)


def transpose_of_sum(negative=None):
    """The transpose of x + y, or with `negative`, the function that gives -ct, of x - y."""
    return sum_transpose(_shape_ops, negative)


def bilinear(prim, multiply):
    """Give a primitive, which `multiply` binds, the derivatives of a product of two operands."""
    rules, prim.transpose = product_rules(multiply, _shape_ops)
    prim.jvp = jvp_of(prim, rules, _shape_ops)


def zero_jvp(prim):
    """jvp of a function that is constant wherever it is differentiable (floor, sign, comparisons)."""

    def jvp(primals, tangents, **params):
        out = prim.bind(*primals, **params)
        if prim.multiple_results:
            return out, [zero_of(o) for o in out]
        return out, zero_of(out)

    prim.constant = True
    return jvp
