"""jax.experimental.pjit: what jit was called where it took shardings."""

from fgrad.api.jit import jit as pjit

__all__ = ["pjit"]
