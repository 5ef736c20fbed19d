"""What primitives of one's own are run by outside of jit, and what values of one's own types are there.

`canonicalize_dtype_handlers[kind]` is the function from a value of such a type to the NumPy array or array that it stands for;
`fgrad.core.pytype_aval_mappings[kind]` is the one to its abstract value. With both, values of the type are arguments everywhere.
"""

from fgrad.compile.eager import apply
from fgrad.core import canonicalize_dtype_handlers

__all__ = ["apply_primitive", "canonicalize_dtype_handlers"]


def apply_primitive(prim, *args, **params):
    """The result of `prim` as a program of its own, by its lowering: for def_impl(functools.partial(apply_primitive, prim))."""
    return apply(prim, args, params)
