"""jax.experimental.compilation_cache."""

from fgrad.experimental.compilation_cache import compilation_cache

__all__ = ["compilation_cache"]
