"""Functions that bring their own batching rule."""

from fgrad.api import custom_vmap, sequential_vmap

__all__ = ["custom_vmap", "sequential_vmap"]
