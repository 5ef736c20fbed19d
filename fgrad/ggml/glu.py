"""Gated linear units: act(gate) * up, where gate and up are the halves of one array along ne0 (the last axis), or two arrays."""

import fgrad.numpy as jnp
from fgrad import nn
from fgrad.ggml.util import floats, need
from fgrad.ops.shape import slice_in_dim

__all__ = [
    "geglu",
    "geglu_erf",
    "geglu_erf_split",
    "geglu_erf_swapped",
    "geglu_quick",
    "geglu_quick_split",
    "geglu_quick_swapped",
    "geglu_split",
    "geglu_swapped",
    "glu",
    "glu_split",
    "reglu",
    "reglu_split",
    "reglu_swapped",
    "swiglu",
    "swiglu_oai",
    "swiglu_split",
    "swiglu_swapped",
]


def _split(name, a, swapped):
    a = floats(name, a)
    need(a.ndim > 0 and a.shape[-1] % 2 == 0, name, f"the last axis of shape {a.shape} must have an even size")
    half = a.shape[-1] // 2
    first, second = (slice_in_dim(a, k * half, (k + 1) * half, axis=a.ndim - 1) for k in (0, 1))
    return (second, first) if swapped else (first, second)


def _pair(name, a, b):
    a, b = floats(name, a, b)
    need(a.shape == b.shape, name, f"the two halves must have one shape, got {a.shape} and {b.shape}")
    return a, b


def _oai(gate, up, alpha, limit):
    gate, up = jnp.where(gate > limit, limit, gate), jnp.where(up > limit, limit, jnp.where(up < -limit, -limit, up))
    return gate * nn.sigmoid(alpha * gate) * (up + 1)


GLU = {
    "reglu": nn.reglu,
    "geglu": nn.geglu,
    "swiglu": nn.swiglu,
    "swiglu_oai": _oai,
    "geglu_erf": lambda gate, up: nn.geglu(gate, up, approximate=False),
    "geglu_quick": lambda gate, up: nn.gelu_quick(gate) * up,
}


def glu(a, op, swapped=False):
    """The op of that name (a string, with or without the prefix GGML_GLU_OP_) of the halves of a's last axis.

    The first half is the gate, or the second when `swapped`. swiglu_oai has parameters and a function of its own.
    """
    name = _name("glu", op)
    return GLU[name](*_split(name, a, swapped))


def glu_split(a, b, op):
    """The op of that name with the gate a and the other factor b."""
    name = _name("glu_split", op)
    return GLU[name](*_pair(name, a, b))


def _name(what, op):
    name = str(op).removeprefix("GGML_GLU_OP_").lower()
    if name not in GLU or name == "swiglu_oai":
        raise ValueError(f"ggml.{what}: there is no op {op!r}; it must be one of {', '.join(n for n in GLU if n != 'swiglu_oai')}")
    return name


def reglu(a):
    """relu(first half) * second half."""
    return glu(a, "reglu")


def reglu_swapped(a):
    """relu(second half) * first half."""
    return glu(a, "reglu", True)


def reglu_split(a, b):
    """relu(a) * b."""
    return glu_split(a, b, "reglu")


def geglu(a):
    """gelu(first half) * second half, gelu by its tanh formula."""
    return glu(a, "geglu")


def geglu_swapped(a):
    """gelu(second half) * first half."""
    return glu(a, "geglu", True)


def geglu_split(a, b):
    """gelu(a) * b."""
    return glu_split(a, b, "geglu")


def swiglu(a):
    """silu(first half) * second half."""
    return glu(a, "swiglu")


def swiglu_swapped(a):
    """silu(second half) * first half."""
    return glu(a, "swiglu", True)


def swiglu_split(a, b):
    """silu(a) * b."""
    return glu_split(a, b, "swiglu")


def geglu_erf(a):
    """gelu(first half) * second half, gelu by the error function."""
    return glu(a, "geglu_erf")


def geglu_erf_swapped(a):
    """gelu(second half) * first half, gelu by the error function."""
    return glu(a, "geglu_erf", True)


def geglu_erf_split(a, b):
    """gelu(a) * b, gelu by the error function."""
    return glu_split(a, b, "geglu_erf")


def geglu_quick(a):
    """gelu_quick(first half) * second half."""
    return glu(a, "geglu_quick")


def geglu_quick_swapped(a):
    """gelu_quick(second half) * first half."""
    return glu(a, "geglu_quick", True)


def geglu_quick_split(a, b):
    """gelu_quick(a) * b."""
    return glu_split(a, b, "geglu_quick")


def swiglu_oai(a, b, alpha, limit):
    """g * sigmoid(alpha g) * (u + 1) with g = min(a, limit) and u = b limited to [-limit, limit]."""
    return _oai(*_pair("swiglu_oai", a, b), alpha, limit)
