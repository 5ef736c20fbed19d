"""What JAX users import from jax.experimental."""

from fgrad.config import enable_x64
from fgrad.control.callback import io_callback
from fgrad.experimental import ode

__all__ = ["enable_x64", "io_callback", "ode"]
