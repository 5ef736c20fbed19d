"""The jax.scipy surface."""

from fgrad.scipy import cluster, fft, integrate, linalg, ndimage, optimize, signal, sparse, special, stats

__all__ = ["cluster", "fft", "integrate", "linalg", "ndimage", "optimize", "signal", "sparse", "special", "stats"]
