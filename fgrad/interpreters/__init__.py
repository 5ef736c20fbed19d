"""Where rules of primitives of one's own (fgrad.extend.core.Primitive) are set, under JAX's names."""

from fgrad.interpreters import ad, batching, mlir, partial_eval, pxla, xla

__all__ = ["ad", "batching", "mlir", "partial_eval", "pxla", "xla"]
