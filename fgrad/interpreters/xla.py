"""What primitives of one's own are run by outside of jit."""

from fgrad.compile.eager import apply

__all__ = ["apply_primitive"]


def apply_primitive(prim, *args, **params):
    """The result of `prim` as a program of its own, by its lowering: for def_impl(functools.partial(apply_primitive, prim))."""
    return apply(prim, args, params)
