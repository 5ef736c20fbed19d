"""What libraries that extend JAX import from jax.extend, and the rules of HIPS autograd's extend."""

from fgrad.extend import backend, core, linear_util, source_info_util
from fgrad.extend.own import defjvp, defvjp, primitive

__all__ = ["backend", "core", "defjvp", "defvjp", "linear_util", "primitive", "source_info_util"]
