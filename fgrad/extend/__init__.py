"""What libraries that extend JAX import from jax.extend."""

from fgrad.extend import backend, core, linear_util, source_info_util

__all__ = ["backend", "core", "linear_util", "source_info_util"]
