"""The jax.scipy surface: special functions and distributions."""

from fgrad.scipy import special, stats
