"""The pieces of programs: for interpreters of jaxprs and for primitives of one's own."""

from fgrad.core import ClosedJaxpr, Jaxpr, Literal, Primitive, ShapedArray, Var, check_jaxpr
from fgrad.core import Eqn as JaxprEqn
from fgrad.core import closed_as_fun as jaxpr_as_fun

__all__ = ["ClosedJaxpr", "Jaxpr", "JaxprEqn", "Literal", "Primitive", "ShapedArray", "Var", "check_jaxpr", "jaxpr_as_fun"]
