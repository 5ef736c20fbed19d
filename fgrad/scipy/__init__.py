"""The jax.scipy surface."""

from fgrad.scipy import cluster, integrate, linalg, ndimage, optimize, signal, special, stats

__all__ = ["cluster", "integrate", "linalg", "ndimage", "optimize", "signal", "special", "stats"]
