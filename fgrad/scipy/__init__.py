"""The jax.scipy surface."""

from fgrad.scipy import cluster, fft, integrate, linalg, ndimage, optimize, signal, special, stats

__all__ = ["cluster", "fft", "integrate", "linalg", "ndimage", "optimize", "signal", "special", "stats"]
