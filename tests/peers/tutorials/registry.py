"""The table of tutorials: programs of one argument, the library (jax or fgrad), that give a tree of results."""

from typing import Any, NamedTuple

TUTORIALS: dict[str, "Tutorial"] = {}


class Tutorial(NamedTuple):
    fun: Any
    rtol: float


def tutorial(fun=None, *, rtol=1e-4):
    """Put a program in the table; rtol: how far the libraries may differ, relative to the largest element of an array."""
    if fun is None:
        return lambda f: tutorial(f, rtol=rtol)
    TUTORIALS[fun.__name__] = Tutorial(fun, rtol)
    return fun
