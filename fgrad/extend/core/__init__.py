"""The pieces of programs: for interpreters of jaxprs and for primitives of one's own."""

import functools

from fgrad.core import ClosedJaxpr, DebugInfo, DropVar, Jaxpr, Literal, ShapedArray, Var, check_jaxpr
from fgrad.core import Eqn as JaxprEqn
from fgrad.core import Primitive as _Primitive
from fgrad.core import closed_as_fun as _closed_as_fun
from fgrad.errors import InconclusiveDimensionOperation, JaxprTypeError
from fgrad.extend.core import primitives
from fgrad.extend.core.traces import (
    find_top_trace,
    get_opaque_trace_state,
    nonempty_axis_env_DO_NOT_USE,
    set_current_trace,
    take_current_trace,
    unsafe_am_i_under_a_jit_DO_NOT_USE,
    unsafe_am_i_under_a_vmap_DO_NOT_USE,
    unsafe_get_axis_names_DO_NOT_USE,
)
from fgrad.extend.core.types import (
    Effect,
    Effects,
    array_types,
    concrete_or_error,
    gensym,
    jaxprs_in_params,
    mapped_aval,
    new_jaxpr_eqn,
    no_effects,
    primal_dtype_to_tangent_dtype,
    subjaxprs,
    unmapped_aval,
    valid_jaxtype,
)


def jaxpr_as_fun(closed_jaxpr, *args):
    """The flat function that a ClosedJaxpr is: of arrays, to a list of its results; args: its first arguments."""
    return functools.partial(_closed_as_fun(closed_jaxpr), *args) if args else _closed_as_fun(closed_jaxpr)


__all__ = [
    "ClosedJaxpr",
    "DebugInfo",
    "DropVar",
    "Effect",
    "Effects",
    "InconclusiveDimensionOperation",
    "Jaxpr",
    "JaxprEqn",
    "JaxprTypeError",
    "Literal",
    "Primitive",
    "ShapedArray",
    "Var",
    "array_types",
    "check_jaxpr",
    "concrete_or_error",
    "find_top_trace",
    "gensym",
    "get_opaque_trace_state",
    "jaxpr_as_fun",
    "jaxprs_in_params",
    "mapped_aval",
    "new_jaxpr_eqn",
    "no_effects",
    "nonempty_axis_env_DO_NOT_USE",
    "primal_dtype_to_tangent_dtype",
    "primitives",
    "set_current_trace",
    "subjaxprs",
    "take_current_trace",
    "unmapped_aval",
    "unsafe_am_i_under_a_jit_DO_NOT_USE",
    "unsafe_am_i_under_a_vmap_DO_NOT_USE",
    "unsafe_get_axis_names_DO_NOT_USE",
    "valid_jaxtype",
]


class _AnyPrimitive(type):
    """fgrad's own primitives are instances of the class that others derive from, as in JAX."""

    def __instancecheck__(cls, x):
        return isinstance(x, _Primitive) if cls is Primitive else type.__instancecheck__(cls, x)


class Primitive(_Primitive, metaclass=_AnyPrimitive):
    """An operation of one's own: its rules are set by `def_impl`, `def_abstract_eval` and those of fgrad.interpreters.

    A rule that is asked for and was not set raises NotImplementedError.

    >>> import fgrad
    >>> from fgrad.interpreters import ad
    >>> square = Primitive("square_of_mine")
    >>> _ = square.def_impl(lambda x: x * x)
    >>> _ = square.def_abstract_eval(lambda x: x)
    >>> ad.defjvp(square, lambda t, x: 2 * x * t)
    >>> float(fgrad.grad(square.bind)(3.0))
    6.0
    """

    def __init__(self, name, *, multiple_results=False):
        super().__init__(
            name, multiple_results=multiple_results, abstract_eval=self._missing("Abstract evaluation"), kind="custom", listed=False
        )
        self.lower = self._no_lowering
        self.impl = self._missing("Evaluation rule")

    def _no_lowering(self, ctx, ins, params, out_avals):
        raise NotImplementedError(
            f"MLIR translation rule for primitive '{self.name}' not found: set a lowering with fgrad.interpreters.mlir.register_lowering"
        )

    def _missing(self, rule):
        def missing(*args, **params):
            raise NotImplementedError(f"{rule} for '{self.name}' not implemented")

        return missing

    def def_impl(self, impl):
        """Set what runs outside of jit: impl(*args, **params)."""
        self.impl = impl
        return impl

    def def_abstract_eval(self, abstract_eval):
        """Set the rule that gives the result's ShapedArray (a list with multiple_results) from those of the operands."""
        self.abstract_eval = abstract_eval
        return abstract_eval
