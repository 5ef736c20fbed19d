"""Integrals of samples."""

import fgrad.numpy as jnp

__all__ = ["trapezoid"]


def trapezoid(y, x=None, dx=1.0, axis=-1):
    """The integral of y along an axis by the trapezoidal rule, at points x or dx apart. See fgrad.numpy.trapezoid."""
    return jnp.trapezoid(y, x, dx, axis)
