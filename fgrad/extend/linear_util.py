"""Functions in the wrapper that JAX's libraries pass between transformations."""

import functools

__all__ = ["WrappedFun", "wrap_init"]


class WrappedFun:
    """A function: `call_wrapped` calls it, `f` is it."""

    def __init__(self, f):
        self.f, self.call_wrapped = f, f
        self.__name__ = getattr(f, "__name__", type(f).__name__)


def wrap_init(f, params=None, *, debug_info=None):
    """A function as a WrappedFun, with keyword arguments `params` bound."""
    return WrappedFun(functools.partial(f, **params) if params else f)
