"""What libraries that extend JAX import from jax.extend."""

from fgrad.extend import core

__all__ = ["core"]
