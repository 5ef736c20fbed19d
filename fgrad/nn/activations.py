"""Activation functions, with jax.nn's names, defaults and behaviour at their corners.

Those of several ops are jitted, so that a call outside jit is one pass over memory too.
"""

import functools
import math

import fgrad.numpy as jnp
from fgrad import dtypes
from fgrad.api import jit
from fgrad.errors import ShapeError
from fgrad.numpy.ufunc_kinds import typed_as
from fgrad.numpy.util import as_array, axis_index, binary, unary
from fgrad.ops import activation, elementwise


def _float(name, x):
    """x as a float array: integers and bools become the default float."""
    return unary(name, x, inexact=True)


def _weak_float(name, x):
    """As _float, but integers and bools become a weakly typed float, as where a Python float meets them."""
    x = as_array(name, x)
    return x if dtypes.is_inexact(x.dtype) else elementwise.convert_element_type(x, dtypes.float_dtype(), True)


def identity(x):
    """x itself, as an array."""
    return as_array("identity", x)


@jit
def relu(x):
    """max(x, 0), with derivative 0 at 0 (https://dl.acm.org/doi/10.5555/3540261.3540297).

    x: array of any shape and real dtype; the result has both.

    >>> import fgrad.nn, fgrad.numpy as jnp
    >>> fgrad.nn.relu(jnp.array([-1., 0., 2.]))
    Array([0., 0., 2.], dtype=float32)
    """
    x = as_array("relu", x)
    if x.dtype == dtypes.BOOL:  # as where 0 meets it
        x = elementwise.convert_element_type(x, dtypes.int_dtype(), True)
    zero = elementwise.like(x, 0)
    return typed_as(elementwise.select(jnp.less_equal(x, zero), zero, x), x, x)


@jit
def relu6(x):
    """min(max(x, 0), 6), with derivative 0 at 0 and at 6."""
    x = _weak_float("relu6", x)
    zero, six = elementwise.like(x, 0), elementwise.like(x, 6)
    inside = elementwise.select(jnp.greater_equal(x, six), six, x)
    return typed_as(elementwise.select(jnp.less_equal(x, zero), zero, inside), x, x)


@jit
def squareplus(x, b=4):
    """(x + sqrt(x^2 + b)) / 2 (Barron, https://arxiv.org/abs/2112.11687)."""
    x = _float("squareplus", x)
    return (x + jnp.sqrt(jnp.square(x) + b)) / 2


def softplus(x):
    """log(1 + exp(x)), exact far from 0 on both sides."""
    return _softplus(_float("softplus", x))


def _softplus(x):
    return jnp.logaddexp(x, 0) if x.dtype.kind == "c" else activation.softplus(x)


@jit
def sparse_plus(x):
    """0 below -1, (x + 1)^2 / 4 between -1 and 1, x above 1: a softplus that reaches its asymptotes."""
    x = _weak_float("sparse_plus", x)
    return jnp.where(x <= -1.0, 0.0, jnp.where(x >= 1.0, x, jnp.square(x + 1.0) / 4))


@jit
def soft_sign(x):
    """x / (|x| + 1)."""
    x = _float("soft_sign", x)
    return x / (jnp.abs(x) + 1)


def sigmoid(x):
    """1 / (1 + exp(-x)). Raises TypeError for integers and booleans, as silu and glu do."""
    return elementwise.logistic(as_array("sigmoid", x))


@jit
def sparse_sigmoid(x):
    """(x + 1) / 2 clipped to [0, 1]: the derivative of sparse_plus (https://arxiv.org/abs/1901.02324, section 6.2)."""
    return 0.5 * jnp.clip(_weak_float("sparse_sigmoid", x) + 1.0, 0.0, 2.0)


@jit
def silu(x):
    """x * sigmoid(x), also called swish (https://arxiv.org/abs/1702.03118)."""
    x = as_array("silu", x)
    return x * elementwise.logistic(x)


swish = silu


@jit
def mish(x):
    """x * tanh(softplus(x)) (https://arxiv.org/abs/1908.08681)."""
    x = _float("mish", x)
    return x * jnp.tanh(_softplus(x))


@jit
def log_sigmoid(x):
    """log(sigmoid(x)) = -softplus(-x)."""
    return -_softplus(-_float("log_sigmoid", x))


@jit
def log1mexp(x):
    """log(1 - exp(-x)) for x > 0, without cancellation on either side of log(2) (M. Maechler, the Rmpfr package's note, 2012).

    >>> from fgrad import nn
    >>> round(float(nn.log1mexp(1e-3)), 4)
    -6.9083
    """
    x = _float("log1mexp", x)
    near = x <= math.log(2)
    return jnp.where(near, jnp.log(-jnp.expm1(-jnp.where(near, x, 1))), jnp.log1p(-jnp.exp(-jnp.where(near, 1, x))))


def tanh(x):
    """The hyperbolic tangent."""
    return jnp.tanh(x)


@jit
def elu(x, alpha=1.0):
    """x above 0, alpha * (exp(x) - 1) below (https://arxiv.org/abs/1511.07289)."""
    x = _weak_float("elu", x)
    return jnp.where(x > 0, x, alpha * jnp.expm1(jnp.where(x > 0, 0.0, x)))


@jit
def leaky_relu(x, negative_slope=1e-2):
    """x from 0 up, negative_slope * x below."""
    x = as_array("leaky_relu", x)
    return jnp.where(x >= 0, x, negative_slope * x)


@jit
def hard_tanh(x):
    """x limited to [-1, 1], with derivative 1 at both ends."""
    x = as_array("hard_tanh", x)
    return jnp.where(x > 1, 1, jnp.where(x < -1, -1, x))


@jit
def celu(x, alpha=1.0):
    """max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1) (https://arxiv.org/abs/1704.07483)."""
    x = _weak_float("celu", x)
    return jnp.maximum(x, 0.0) + alpha * jnp.expm1(jnp.minimum(x, 0.0) / alpha)


@jit
def selu(x):
    """Scaled elu, with the constants that keep activations normalised (https://arxiv.org/abs/1706.02515)."""
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


@functools.partial(jit, static_argnames=("approximate",))
def gelu(x, approximate=True):
    """x times the normal distribution's cumulative function at x (https://arxiv.org/abs/1606.08415).

    approximate: (1 + tanh(y)) / 2 = sigmoid(2 y) for y = sqrt(2 / pi) (x + 0.044715 x^3), else exactly.

    >>> import fgrad.nn, fgrad.numpy as jnp
    >>> fgrad.nn.gelu(jnp.array([0., 3.]))
    Array([0.       , 2.9963627], dtype=float32)
    """
    x = _float("gelu", x)
    if x.dtype.kind == "c" and approximate:
        return x * elementwise.logistic(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    return activation.gelu(elementwise.convert_element_type(x, x.dtype), approximate)  # a Python scalar loses its weak type, as in JAX


@functools.partial(jit, static_argnames=("axis",))
def glu(x, axis=-1):
    """The first half of x along `axis` times the sigmoid of the second half (https://arxiv.org/abs/1612.08083)."""
    x = as_array("glu", x)
    if x.shape[axis_index(axis, x.ndim)] % 2:
        raise ShapeError(f"glu: axis {axis} of shape {x.shape} must have an even size")
    a, b = jnp.split(x, 2, axis)
    return a * sigmoid(b)


def swiglu(gate, up):
    """silu(gate) * up in one fused pass, and one for both gradients (https://arxiv.org/abs/2002.05202).

    gate, up: float arrays that broadcast to one shape.
    """
    gate, up = binary("swiglu", gate, up, inexact=True)
    gate, up = jnp.broadcast_arrays(gate, up)
    if not dtypes.is_float(gate.dtype):
        raise TypeError(f"swiglu takes real arrays, got {gate.dtype.name}")
    return activation.swiglu(gate, up)


@jit
def hard_sigmoid(x):
    """relu6(x + 3) / 6."""
    return relu6(_weak_float("hard_sigmoid", x) + 3.0) / 6.0


@jit
def hard_silu(x):
    """x * hard_sigmoid(x), also called hard_swish."""
    x = _weak_float("hard_silu", x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


@jit
def step(x):
    """1 where x > 0, else 0; its derivative is 0 everywhere."""
    x = _float("step", x)
    return jnp.where(x > 0, elementwise.like(x, 1), elementwise.like(x, 0))


@jit
def gelu_quick(x):
    """x * sigmoid(1.702 x): gelu's approximation by a logistic (https://arxiv.org/abs/1606.08415, section 2)."""
    x = _float("gelu_quick", x)
    return x * elementwise.logistic(1.702 * x)


@jit
def xielu(x, alpha_p=0.8, alpha_n=0.8, beta=0.5, eps=-1e-6):
    """The expanded integral of elu (https://arxiv.org/abs/2411.13010), alpha_p and alpha_n before their softplus.

    softplus(alpha_p) x^2 + beta x above 0, (beta + softplus(alpha_n)) (exp(min(x, eps)) - 1 - x) + beta x below.
    """
    x = _float("xielu", x)
    p, n = (activation.softplus(jnp.asarray(a, x.dtype)) for a in (alpha_p, alpha_n))
    low = jnp.where(x < eps, x, eps)
    return jnp.where(x > 0, p * jnp.square(x), (beta + n) * (jnp.expm1(low) - x)) + beta * x


def _gate_and_up(name, gate, up):
    return jnp.broadcast_arrays(*binary(name, gate, up, inexact=True))


@jit
def reglu(gate, up):
    """relu(gate) * up (https://arxiv.org/abs/2002.05202)."""
    gate, up = _gate_and_up("reglu", gate, up)
    return relu(gate) * up


@functools.partial(jit, static_argnames=("approximate",))
def geglu(gate, up, approximate=True):
    """gelu(gate) * up (https://arxiv.org/abs/2002.05202)."""
    gate, up = _gate_and_up("geglu", gate, up)
    return gelu(gate, approximate) * up
