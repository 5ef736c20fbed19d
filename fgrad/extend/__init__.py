"""What libraries that extend JAX import from jax.extend, and the rules of HIPS autograd's extend."""

from importlib import import_module

from fgrad.extend import backend, core, linear_util, source_info_util
from fgrad.extend.own import defjvp, defvjp, primitive


def __getattr__(name):
    if name == "random":
        return import_module("fgrad.extend.random")
    raise AttributeError(f"module 'fgrad.extend' has no attribute {name!r}")


__all__ = ["backend", "core", "defjvp", "defvjp", "linear_util", "primitive", "source_info_util"]
