"""What JAX users import from jax.experimental."""

from importlib import import_module

from fgrad.config import enable_x64
from fgrad.control.callback import io_callback
from fgrad.experimental import ode

__all__ = ["enable_x64", "io_callback", "ode"]


def __getattr__(name):
    if name in ("checkify", "colocated_python", "compute_on", "hijax", "jet", "sparse", "xla_metadata"):
        return import_module(f"fgrad.experimental.{name}")
    raise AttributeError(f"module 'fgrad.experimental' has no attribute {name!r}")
