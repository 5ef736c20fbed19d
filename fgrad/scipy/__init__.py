"""The jax.scipy surface."""

from fgrad.scipy import cluster, integrate, ndimage, optimize, signal, special, stats

__all__ = ["cluster", "integrate", "ndimage", "optimize", "signal", "special", "stats"]
