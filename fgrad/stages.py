"""The stages of a jitted function, as types: what .trace(), .lower() and .compile() give."""

from fgrad.api.jit import JitFunction as Wrapped
from fgrad.api.stages import ArgInfo, Compiled, Lowered, Stage, Traced

__all__ = ["ArgInfo", "Compiled", "Lowered", "Stage", "Traced", "Wrapped"]
