"""The jax.scipy.cluster surface."""

from fgrad.scipy.cluster import vq

__all__ = ["vq"]
