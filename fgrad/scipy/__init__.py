"""The jax.scipy surface. Its modules are imported when they are asked for."""

from importlib import import_module

__all__ = [
    "cluster",
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
]


def __getattr__(name):
    if name in __all__:
        return import_module(f"fgrad.scipy.{name}")
    raise AttributeError(f"module 'fgrad.scipy' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
