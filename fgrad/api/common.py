"""What the transformations share: flat functions, checks of arguments, tangents at the border."""

import functools
import inspect
import math
import operator

import numpy as np

from fgrad import array_tree as tree
from fgrad import dtypes
from fgrad.core import Array, ShapedArray, get_aval, to_array
from fgrad.core.binding import is_array
from fgrad.core.float0 import flatten_live
from fgrad.core.refs import any_refs, refs_in
from fgrad.ops.elementwise import convert_element_type
from fgrad.ops.rules import Zero, instantiate


class ShapeDtypeStruct:
    """Shape and dtype of an array, without its values.

    >>> import fgrad
    >>> fgrad.ShapeDtypeStruct((2, 3), "float32").size
    6
    """

    __slots__ = ("shape", "dtype", "weak_type", "sharding")

    def __new__(cls, shape, dtype, **options):
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified.")
        return dtype.struct(shape) if hasattr(dtype, "struct") else super().__new__(cls)  # typed keys have words in place of numbers

    def __init__(self, shape, dtype, *, sharding=None, weak_type=False, manual_axis_type=None, is_ref=False):
        self.shape, self.dtype, self.weak_type, self.sharding = tuple(shape), np.dtype(dtype), weak_type, sharding

    def update(self, **changes):
        """The same with other values of shape, dtype, weak_type or sharding."""
        return ShapeDtypeStruct(**{**{name: getattr(self, name) for name in self.__slots__}, **changes})

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def str_short(self):
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"

    is_ref = False
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: math.prod(self.shape))

    def __reduce__(self):
        return functools.partial(ShapeDtypeStruct, sharding=self.sharding, weak_type=self.weak_type), (self.shape, self.dtype)

    def __repr__(self):
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{weak})"

    def __eq__(self, other):
        return isinstance(other, ShapeDtypeStruct) and self._key() == other._key()

    def __hash__(self):
        return hash(self._key())

    def _key(self):
        return self.shape, self.dtype, self.weak_type


def check_callable(fun):
    """Raise TypeError where a transformation is given something that cannot be called."""
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun!r:.80}")


def fun_name(fun):
    name = getattr(fun, "__name__", None)
    return name if isinstance(name, str) else type(fun).__name__


def arg_names(fun):
    """Names of the positional parameters of `fun`, without those that bind_static has bound."""
    static = getattr(fun.func if isinstance(fun, functools.partial) else fun, "static_positions", ())
    try:
        params = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return []
    names = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [n for i, n in enumerate(names) if i not in static]


def arg_name(fun, i):
    """How messages name positional argument i of `fun`."""
    return _argument(arg_names(fun), i)


def _argument(names, i):
    return f"argument {names[i] if i < len(names) else f'args[{i}]'}"


def arg_paths(fun, treedef):
    """How messages name each leaf of (args, kwargs): "argument x['w']", or "argument args[0]['w']" where the name is not known."""
    names = arg_names(fun)  # once: a signature takes 20 us
    first = lambda kind, key: f"argument {key}" if kind == 1 else _argument(names, key)
    return [first(kind, key) + tree.keystr(path) for kind, key, *path in treedef.paths()]


def flatten_result(out):
    """(leaves, treedef) of a function's result, as flatten_live gives them."""
    if is_array(out):
        return [out], LEAF
    if any_refs() and (refs := refs_in(out)):
        raise ValueError(f"a traced function returned a mutable array reference of type {refs[0].aval}: references cannot be returned")
    return flatten_live(out)


LEAF = tree.structure(0)


def flat_fun(fun, treedef, out_tree):
    """fun as a flat function; the structure of its result goes to out_tree[0]."""

    def flat(*leaves):
        args, kwargs = tree.unflatten(treedef, leaves)
        leaves_out, out_tree[0] = flatten_result(fun(*args, **kwargs))
        return [x if is_array(x) else checked_leaf(x, fun) for x in leaves_out]

    flat.__wrapped__, flat.arg_paths = fun, lambda: arg_paths(fun, treedef)
    return flat


def checked_leaf(x, fun):
    try:
        get_aval(x)
    except TypeError as e:
        raise TypeError(
            f"{fun_name(fun)} returned a value of type {type(x)}, which is not a valid JAX type; it is not an array: {e}"
        ) from None
    return x


def check_args(leaves, treedef, fun, what):
    for i, x in enumerate(leaves):
        try:
            get_aval(x)
        except TypeError as e:
            path = arg_paths(fun, treedef)[i]
            raise TypeError(
                f"Error interpreting argument to {fun} as an abstract array. The problematic value is of type {type(x)} and was passed to "
                f"the function at path {path.removeprefix('argument ')}. {what} of {fun_name(fun)}, {path}: {e}"
            ) from None


def check_scalar(outs, out_tree, fun, holomorphic):
    """Raise TypeError unless a function's results are one scalar of the kind that has a gradient."""
    if len(outs) != 1 or (out_tree is not LEAF and out_tree != LEAF):
        raise TypeError(f"Gradient only defined for scalar-output functions. Output was {tree.unflatten(out_tree, outs)}.")
    aval = get_aval(outs[0])
    if aval.shape != ():
        raise TypeError(f"Gradient only defined for scalar-output functions. Output had shape: {aval.shape}.")
    if holomorphic:
        if not dtypes.is_complex(aval.dtype):
            raise TypeError(
                f"grad with holomorphic=True requires outputs with a dtype that is a sub-dtype of np.complexfloating, but got "
                f"{aval.dtype.name}."
            )
    elif not dtypes.is_float(aval.dtype):
        raise TypeError(
            f"grad requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got {aval.dtype.name}. "
            "For holomorphic differentiation, pass holomorphic=True."
        )


def argnums_tuple(argnums, n, what, error=TypeError):
    if type(argnums) is int and 0 <= argnums < n:
        return (argnums,)
    nums = (operator.index(argnums),) if hasattr(argnums, "__index__") else tuple(map(operator.index, argnums))
    if not nums:
        raise ValueError(f"{what}: argnums is empty, there is no argument to differentiate in")
    for i in nums:
        if not -n <= i < n:
            raise error(f"{what}: argnums {argnums} asks for argument {i}, but the function was called with {n} positional arguments")
    nums = tuple(i % n for i in nums)
    if len(set(nums)) < len(nums):
        raise TypeError(f"{what}: argnums {argnums} names an argument twice")
    return nums


def abstractify(x):
    if isinstance(x, ShapeDtypeStruct) or (
        not hasattr(x, "aval") and hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, (np.ndarray, np.generic))
    ):
        return ShapedArray(tuple(x.shape), dtypes.canonicalize_dtype(x.dtype), getattr(x, "weak_type", False))
    return get_aval(x)


def bind_static(fun, args, static):
    if not static:
        return fun, args
    static = {i % len(args) for i in static if -len(args) <= i < len(args)}

    def f(*dynamic, **kwargs):
        it = iter(dynamic)
        return fun(*[a if i in static else next(it) for i, a in enumerate(args)], **kwargs)

    f.__wrapped__, f.static_positions = fun, static
    return f, tuple(a for i, a in enumerate(args) if i not in static)


def float0_zeros(aval):
    return np.zeros(aval.shape, dtypes.float0)


def with_weak_type(t, weak_type):
    """A tangent or cotangent, weakly typed just where its primal is (as the derivative of a Python scalar is)."""
    aval = get_aval(t) if type(t) is not Zero else t.aval
    if aval.dtype == dtypes.float0 or aval.weak_type == weak_type:
        return t
    return convert_element_type(instantiate(t), aval.dtype, weak_type)


def tangent_out(t):
    if type(t) is Zero:
        return float0_zeros(t.aval) if t.aval.dtype == dtypes.float0 else instantiate(t)
    return t


def as_arrays(outs):
    return [x if is_array(x) else to_array(x) for x in outs]


def check_grad_inputs(arg, fun, i, holomorphic, allow_int, what="grad"):
    """Raise TypeError for a leaf of argument i that has no derivative of the kind asked for."""
    if type(arg) is Array and not holomorphic and dtypes.is_inexact(arg.dtype):
        return
    for k, x in enumerate(tree.leaves(arg)):
        problem = _grad_problem(x, holomorphic, allow_int)
        if problem is not None:
            path = tree.flatten_with_entries(arg)[0][k][0]
            where, (before, after) = f"{arg_name(fun, i)}{tree.keystr(path)}", problem
            raise TypeError(f"{what}{before} ({where}). {after}".rstrip() if before else f"{what}: {where}: {after}")


def _grad_problem(x, holomorphic, allow_int):
    """(what is wrong, what to do) of a leaf; ("", why) where it is no array; None."""
    try:
        dtype = get_aval(x).dtype
    except TypeError as e:
        return "", str(e)
    if holomorphic and not dtypes.is_complex(dtype):
        return f" with holomorphic=True requires inputs with complex dtype, but got {dtype.name}", ""
    if dtypes.is_inexact(dtype) or allow_int or (not holomorphic and dtypes.is_complex(dtype)):
        return None
    return (
        f" requires real- or complex-valued inputs (input dtype that is a sub-dtype of np.inexact), but got {dtype.name}",
        "If you want to use Boolean- or integer-valued inputs, use vjp or set allow_int to True.",
    )
