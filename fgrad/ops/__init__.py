"""Primitives by family, with their rules; and jax.ops' names, the reductions over segments."""

from fgrad.ops.segment import segment_max, segment_min, segment_prod, segment_sum

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]
