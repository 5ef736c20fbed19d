"""jax.tree_util's names: see fgrad.tree."""

from fgrad.tree import *  # noqa: F403
