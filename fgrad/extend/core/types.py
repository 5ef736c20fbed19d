"""Types of values, and the jaxprs inside of equations."""

import numpy as np

from fgrad.core import Eqn, ShapedArray, Tracer, Var, concrete_or_none, get_aval, sub_jaxprs
from fgrad.errors import ConcretizationTypeError

__all__ = [
    "Effect",
    "Effects",
    "array_types",
    "concrete_or_error",
    "gensym",
    "jaxprs_in_params",
    "mapped_aval",
    "new_jaxpr_eqn",
    "no_effects",
    "primal_dtype_to_tangent_dtype",
    "subjaxprs",
    "unmapped_aval",
    "valid_jaxtype",
]

jaxprs_in_params = sub_jaxprs
no_effects: frozenset = frozenset()
array_types: set[type] = {np.ndarray, np.bool_} | {np.dtype(code).type for code in np.typecodes["AllInteger"] + "efdFD"}


class Effect:
    """Base of the effects that primitives of one's own declare."""


Effects = set[Effect]


def concrete_or_error(force, val, context=""):
    """`force(val)` (None: val itself) of a value that is known; ConcretizationTypeError, with `context` in its message, while it is traced.

    >>> concrete_or_error(int, 3.0)
    3
    """
    value = concrete_or_none(val)
    if value is None and val is not None or isinstance(value, Tracer):
        raise ConcretizationTypeError(f"a concrete value was expected, got {val._describe()}{val._origin()}. {context}")
    return value if force is None else force(value)


def gensym(suffix=""):
    """A function from types to new variables of a jaxpr. `suffix` has no effect: variables are named when a jaxpr is printed.

    >>> newvar = gensym()
    >>> newvar(ShapedArray((2,), "float32")).aval
    ShapedArray(float32[2])
    """
    return Var


def subjaxprs(jaxpr):
    """The jaxprs that the parameters of a jaxpr's equations hold (not those inside of them)."""
    for eqn in jaxpr.eqns:
        yield from sub_jaxprs(eqn.params)


def mapped_aval(size, axis, aval):
    """The type of one example of a batch along `axis` (None: of the whole). AssertionError where that axis has another size.

    >>> mapped_aval(3, 1, ShapedArray((2, 3), "float32"))
    ShapedArray(float32[2])
    """
    if axis is None:
        return aval
    assert aval.shape[axis] == size, f"axis {axis} of {aval.short()} is not of size {size}"
    return aval.update(shape=aval.shape[:axis] + aval.shape[axis + 1 :])


def unmapped_aval(size, axis, aval, explicit_mesh_axis=None):
    """The type of a batch of `size` values of this type along `axis` (None: of the value itself). `explicit_mesh_axis` has no effect.

    >>> unmapped_aval(3, 1, ShapedArray((2,), "float32"))
    ShapedArray(float32[2,3])
    """
    return aval if axis is None else aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))


def primal_dtype_to_tangent_dtype(dtype):
    """The dtype of tangents of values of `dtype`: itself where it is inexact, else float0."""
    return ShapedArray((), np.dtype(dtype)).tangent_aval().dtype


def valid_jaxtype(x):
    """Whether operations take x: an array, a tracer, a NumPy array or a number."""
    try:
        get_aval(x)
    except TypeError:
        return False
    return True


def new_jaxpr_eqn(invars, outvars, primitive, params, effects=no_effects, source_info=None, ctx=None):
    """An equation; its effects are those of the primitive."""
    return Eqn(primitive, list(invars), list(outvars), params)
