"""Functions of one array, element by element: ggml's unary ops, and those that have an op of their own."""

import math

import fgrad.numpy as jnp
from fgrad import nn
from fgrad.ggml.util import floats
from fgrad.ops.elementwise import RoundingMethod
from fgrad.ops.elementwise import round as round_op

__all__ = [
    "abs",
    "ceil",
    "clamp",
    "cos",
    "elu",
    "exp",
    "expm1",
    "fill",
    "floor",
    "gelu",
    "gelu_erf",
    "gelu_quick",
    "hardsigmoid",
    "hardswish",
    "leaky_relu",
    "log",
    "neg",
    "relu",
    "round",
    "scale",
    "scale_bias",
    "sgn",
    "sigmoid",
    "silu",
    "silu_back",
    "sin",
    "softcap",
    "softplus",
    "sqr",
    "sqrt",
    "step",
    "tanh",
    "trunc",
    "unary",
    "xielu",
]


def abs(a):
    """|a|, with derivative sign(a), which is 0 at 0."""
    return jnp.abs(floats("abs", a))


def sgn(a):
    """-1, 0 or 1 by the sign of a; its derivative is 0."""
    return jnp.sign(floats("sgn", a))


def neg(a):
    """-a."""
    return -floats("neg", a)


def step(a):
    """1 where a > 0, else 0; its derivative is 0."""
    return nn.step(floats("step", a))


def tanh(a):
    """The hyperbolic tangent."""
    return jnp.tanh(floats("tanh", a))


def elu(a):
    """a above 0, exp(a) - 1 below."""
    return nn.elu(floats("elu", a))


def relu(a):
    """max(a, 0), with derivative 0 at 0."""
    return nn.relu(floats("relu", a))


def leaky_relu(a, negative_slope, inplace=False):
    """a from 0 up, negative_slope * a below. Arrays do not change, so `inplace` has no effect."""
    return nn.leaky_relu(floats("leaky_relu", a), negative_slope)


def sigmoid(a):
    """1 / (1 + exp(-a))."""
    return nn.sigmoid(floats("sigmoid", a))


def gelu(a):
    """gelu by its tanh formula."""
    return nn.gelu(floats("gelu", a), approximate=True)


def gelu_erf(a):
    """gelu by the error function."""
    return nn.gelu(floats("gelu_erf", a), approximate=False)


def gelu_quick(a):
    """a * sigmoid(1.702 a)."""
    return nn.gelu_quick(floats("gelu_quick", a))


def silu(a):
    """a * sigmoid(a)."""
    return nn.silu(floats("silu", a))


def silu_back(a, b):
    """The cotangent of silu's argument b for a cotangent a of its result."""
    a, b = floats("silu_back", a, b)
    s = nn.sigmoid(b)
    return a * s * (1 + b * (1 - s))


def hardswish(a):
    """a * hardsigmoid(a)."""
    return nn.hard_swish(floats("hardswish", a))


def hardsigmoid(a):
    """(a + 3) / 6 limited to [0, 1]."""
    return nn.hard_sigmoid(floats("hardsigmoid", a))


def exp(a):
    """e to the power a."""
    return jnp.exp(floats("exp", a))


def expm1(a):
    """exp(a) - 1, exact near 0."""
    return jnp.expm1(floats("expm1", a))


def softplus(a):
    """log(1 + exp(a))."""
    return nn.softplus(floats("softplus", a))


def xielu(a, alpha_n, alpha_p, beta, eps):
    """The expanded integral of elu (https://arxiv.org/abs/2411.13010), with ggml's raw parameters; see nn.xielu."""
    return nn.xielu(floats("xielu", a), alpha_p, alpha_n, beta, eps)


def floor(a):
    """The largest integer up to a; its derivative is 0."""
    return jnp.floor(floats("floor", a))


def ceil(a):
    """The smallest integer from a up; its derivative is 0."""
    return jnp.ceil(floats("ceil", a))


def round(a):
    """The nearest integer, halves away from 0 as C's roundf; its derivative is 0."""
    return round_op(floats("round", a), RoundingMethod.AWAY_FROM_ZERO)


def trunc(a):
    """a without its fraction; its derivative is 0."""
    return jnp.trunc(floats("trunc", a))


UNARY = {
    f.__name__: f
    for f in (
        *(abs, sgn, neg, step, tanh, elu, relu, sigmoid, gelu, gelu_quick, silu, hardswish, hardsigmoid, exp, expm1, softplus),
        *(gelu_erf, xielu, floor, ceil, round, trunc),
    )
}


def unary(a, op, *parameters):
    """The unary op of that name (a string, with or without the prefix GGML_UNARY_OP_) of a."""
    name = str(op).removeprefix("GGML_UNARY_OP_").lower()
    if name not in UNARY:
        raise ValueError(f"ggml.unary: there is no op {op!r}; it must be one of {', '.join(UNARY)}")
    return UNARY[name](a, *parameters)


# --- ops of their own ----------------------------------------------------------------------------------------------------


def sqr(a):
    """a * a."""
    return jnp.square(floats("sqr", a))


def sqrt(a):
    """The square root."""
    return jnp.sqrt(floats("sqrt", a))


def log(a):
    """The natural logarithm."""
    return jnp.log(floats("log", a))


def sin(a):
    """The sine."""
    return jnp.sin(floats("sin", a))


def cos(a):
    """The cosine."""
    return jnp.cos(floats("cos", a))


def clamp(a, min, max):
    """a limited to [min, max]; its derivative is 1 inside and 0 outside."""
    a = floats("clamp", a)
    if min > max:
        raise ValueError(f"ggml.clamp: min {min} is above max {max}")
    return jnp.where(a < min, min, jnp.where(a > max, max, a))


def scale(a, s):
    """s * a."""
    return floats("scale", a) * s


def scale_bias(a, s, b):
    """s * a + b."""
    return floats("scale_bias", a) * s + b


def fill(a, c):
    """An array of a's shape and dtype that holds c everywhere."""
    return jnp.full_like(floats("fill", a), c)


def softcap(a, cap):
    """cap * tanh(a / cap)."""
    if not (cap > 0 and math.isfinite(cap)):
        raise ValueError(f"ggml.softcap: cap must be positive, got {cap}")
    return jnp.tanh(floats("softcap", a) / cap) * cap
