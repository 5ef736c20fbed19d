"""The primitives of programs, under JAX's names: those of fgrad.lax, calls, and functions with rules of their own."""

from fgrad import lax
from fgrad.control.jit import jit_p
from fgrad.core import Primitive
from fgrad.transforms.checkpoint_policies import name_p
from fgrad.transforms.custom import custom_jvp_call_p, custom_vjp_call_p
from fgrad.transforms.remat import remat_p

_OWN = {name: getattr(module, name) for module in (lax, lax.linalg) for name in dir(module) if name.endswith("_p")}
globals().update(_OWN)

# Calls without a program of their own are in no program here: interpreters may set rules for them all the same.
call_p = Primitive("call", multiple_results=True, listed=False)
closed_call_p = Primitive("closed_call", multiple_results=True, listed=False)

__all__ = ["call_p", "closed_call_p", "custom_jvp_call_p", "custom_vjp_call_p", "jit_p", "name_p", "remat_p"]
__all__ += _OWN
