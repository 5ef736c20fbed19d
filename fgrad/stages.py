"""The stages of a jitted function, as types: what .trace(), .lower() and .compile() give."""

from fgrad.api.jit import Compiled, Lowered
from fgrad.api.jit import JitFunction as Wrapped

Traced = Lowered

__all__ = ["Compiled", "Lowered", "Traced", "Wrapped"]
