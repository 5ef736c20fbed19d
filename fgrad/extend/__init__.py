"""What libraries that extend JAX import from jax.extend."""

from fgrad.extend import core, linear_util, source_info_util

__all__ = ["core", "linear_util", "source_info_util"]
