"""What a program is: abstract values, arrays, jaxprs, primitives, traces, the checker and the printer."""

import warnings
from importlib import import_module

from fgrad.core.array import (
    Array,
    canonicalize_dtype_handlers,
    from_numpy,
    from_scalar,
    get_aval,
    pytype_aval_mappings,
    stands_for,
    to_array,
    unmasked,
)
from fgrad.core.aval import AbstractValue, OverlayAval, OverlayType, ShapedArray, typematch
from fgrad.core.check import check_jaxpr
from fgrad.core.context import axis_size, context, extended_axis_env, using_trace
from fgrad.core.dimensions import dim_max as max_dim
from fgrad.core.dimensions import dim_min as min_dim
from fgrad.core.jaxpr import Atom, ClosedJaxpr, DebugInfo, DropVar, Eqn, Jaxpr, Literal, Var, function_text, source_text, sub_jaxprs, wraps
from fgrad.core.pretty import pp_jaxpr
from fgrad.core.primitive import Primitive, registry
from fgrad.core.trace import (
    StageTrace,
    StageTracer,
    Trace,
    Tracer,
    closed_as_fun,
    concrete_or_none,
    convert_constvars,
    ensure_compile_time_eval,
    eval_jaxpr,
    eval_trace,
    is_tracer,
    set_apply,
    stage,
)

__all__ = [
    "AbstractValue",
    "Array",
    "Atom",
    "ClosedJaxpr",
    "DebugInfo",
    "DropVar",
    "Eqn",
    "Jaxpr",
    "Literal",
    "OverlayAval",
    "OverlayType",
    "Primitive",
    "ShapedArray",
    "StageTrace",
    "StageTracer",
    "Trace",
    "Tracer",
    "Var",
    "axis_size",
    "canonicalize_dtype_handlers",
    "check_jaxpr",
    "closed_as_fun",
    "concrete_or_none",
    "context",
    "ensure_compile_time_eval",
    "convert_constvars",
    "eval_jaxpr",
    "eval_trace",
    "extended_axis_env",
    "from_numpy",
    "from_scalar",
    "function_text",
    "wraps",
    "get_aval",
    "is_tracer",
    "max_dim",
    "min_dim",
    "pp_jaxpr",
    "pytype_aval_mappings",
    "registry",
    "set_apply",
    "source_text",
    "stage",
    "stands_for",
    "sub_jaxprs",
    "to_array",
    "unmasked",
    "typematch",
    "using_trace",
]


def __getattr__(name):
    """What JAX keeps, deprecated, under jax.core."""
    extended = import_module("fgrad.extend.core")
    if name.startswith("_") or name not in extended.__all__:
        raise AttributeError(f"module 'fgrad.core' has no attribute {name!r}")
    warnings.warn(f"fgrad.core.{name} is deprecated. Use fgrad.extend.core.{name}.", DeprecationWarning, stacklevel=2)
    return getattr(extended, name)
