"""jax.memory: there is one."""

from fgrad.core.sharding import Space

__all__ = ["Space"]
