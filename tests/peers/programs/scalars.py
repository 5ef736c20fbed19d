"""Scalar functions, broadcasting, dtypes, points where derivatives are a matter of convention."""

import numpy as np

from tests.peers.registry import FORWARD, REVERSE, VALUE, normal, positive, program


@program(normal(()))
def polynomial(jax, x):
    return 3 * x**3 - 2 * x**2 + x / 2 - 1


@program(positive(()))
def transcendental_chain(jax, x):
    jnp = jax.numpy
    return jnp.log1p(jnp.exp(jnp.sin(x) * jnp.tanh(x))) / jnp.sqrt(x) + jnp.arctan2(x, 2.0) + jnp.expm1(-x) * jnp.cosh(x)


@program(positive((4,)))
def inverse_functions(jax, x):
    jnp = jax.numpy
    u = x / 3
    return jnp.arcsin(u) + jnp.arccos(u) + jnp.arctan(x) + jnp.arcsinh(x) + jnp.arccosh(1 + x) + jnp.arctanh(u)


@program(positive((4,)))
def special_functions(jax, x):
    lax = jax.lax
    return lax.erf(x) + lax.lgamma(x) + lax.digamma(x) + lax.erfc(x) + lax.erf_inv(x / 3) + lax.logistic(x) + lax.rsqrt(x) + lax.cbrt(x)


@program(lambda r: (2.5,), without=("vjp", "grad_jvp"))  # JAX's pullback forgets that a Python scalar is weakly typed, its grad does not
def python_scalar(jax, x):
    return {"square": x * x, "constant": 3, "sin": jax.numpy.sin(x)}


@program(normal((3, 1), (1, 4), (4,)), diff=(0, 1, 2))
def broadcasting_chain(jax, a, b, c):
    jnp = jax.numpy
    return jnp.mean((a + b) * c - a / (1 + b**2), axis=0) + jnp.sum(a * c, keepdims=True)[0]


@program(lambda r: (np.array([-1.0, 0.0, 2.0]), np.array([-1.0, 0.0, 3.0])), diff=(0, 1))
def ties_of_max_and_min(jax, x, y):
    jnp = jax.numpy
    return jnp.maximum(x, y) * 2 + jnp.minimum(x, y) + jnp.max(jnp.stack([x, y, x])) + jnp.min(jnp.array([1.0, 1.0]) * x[1])


@program(lambda r: (np.array([-2.0, 0.0, -0.0, 3.0]),))
def abs_and_sign_at_zero(jax, x):
    jnp = jax.numpy
    return jnp.abs(x) + jnp.sign(x) * x + jnp.fabs(x) + jax.nn.relu(x) + jax.nn.relu6(x)


@program(lambda r: (np.array([-2.0, -1.0, 0.5, 1.0, 4.0]),))
def clip_at_its_bounds(jax, x):
    jnp = jax.numpy
    return jnp.clip(x, -1.0, 1.0) + jnp.clip(x, min=0.5) + jnp.clip(x, max=jnp.ones(5)) + jax.lax.clamp(-1.0, x, 1.0)


@program(lambda r: (np.array([-1.0, 0.0, 2.0]),))
def double_where(jax, x):
    jnp = jax.numpy
    safe = jnp.where(x > 0, x, 1.0)
    return jnp.where(x > 0, jnp.log(safe) * jnp.sqrt(safe), 0.0)


@program(lambda r: (np.array([-1.0, 0.0, 4.0]),), without=("hessian", "jvp_grad", "grad_jvp"))
def single_where_has_nans(jax, x):
    jnp = jax.numpy
    return jnp.where(x > 0, jnp.sqrt(x), 0.0)


@program(lambda r: (np.array([[3.0, 4.0], [1.0, -2.0]]),))
def norms(jax, x):
    jnp = jax.numpy
    return jnp.sqrt(jnp.sum(x**2, axis=-1)), jnp.sqrt(jnp.vdot(x, x)), jnp.max(jnp.abs(x), axis=0)


@program(lambda r: (np.zeros(3),), without=("hessian", "jvp_grad", "grad_jvp"))
def norm_at_zero(jax, x):
    jnp = jax.numpy
    return jnp.sqrt(jnp.sum(x**2))


@program(lambda r: (np.array([0.0, 1.0, 2.0]), np.array([2.0, 0.0, 3.0])), diff=(0, 1), without=("hessian", "jvp_grad", "grad_jvp"))
def powers(jax, x, p):
    jnp = jax.numpy
    return x**p, x**2, x**0, 2.0**p, jnp.power(x, 3), jnp.float_power(x + 1, 0.5), x**-1.5


@program(lambda r: (np.array([7.5, -7.5, 3.25]), np.array([2.0, 2.0, -1.5])), diff=(0, 1))
def remainders(jax, x, y):
    jnp = jax.numpy
    return x % y, x // y, jnp.fmod(x, y), jnp.floor(x) + jnp.ceil(x) + jnp.round(x), jnp.divmod(x, y), jnp.hypot(x, y)


@program(lambda r: (r.standard_normal(3), np.arange(3), np.array([True, False, True])), diff=(0, 1, 2), without=("hessian",))
def integer_and_bool_inputs(jax, x, i, m):
    jnp = jax.numpy
    return jnp.where(m, x * i, x), i + 1, m & True, jnp.sum(m)


@program(lambda r: (np.arange(5), np.array([3, -2, 7, 0, 1])), transforms=VALUE, diff=(0, 1))
def integer_arithmetic(jax, i, j):
    jnp = jax.numpy
    bits = (i & j, i | j, i ^ j, ~i, i << 2, j >> 1)
    return bits, i // (jnp.abs(j) + 1), j % 3, i**2, jnp.sum(i), jnp.prod(j), i / 2, jnp.mean(j), jnp.cumsum(j), -j, i > j


@program(lambda r: (r.standard_normal((3, 2)),), rtol=2e-2)
def bfloat16_layer(jax, x):
    jnp = jax.numpy
    h = jnp.tanh(x.astype(jnp.bfloat16) @ jnp.ones((2, 2), jnp.bfloat16))
    return h, h.astype(jnp.float32).sum(), h * 2.0, h + jnp.float32(1)


@program(lambda r: (r.standard_normal(4).astype(np.float16),), rtol=1e-2)
def float16_chain(jax, x):
    jnp = jax.numpy
    return jnp.exp(x) * 0.5, jnp.sum(x * x), (x + jnp.float32(2)).mean(), x * 2


@program(normal((3,)))
def weak_types_stay_weak(jax, x):
    jnp = jax.numpy
    w = jnp.asarray(2.0)
    weak = jnp.where(x[0] > 0, 1.0, 2.0)
    return x * w, weak, weak + 1, jnp.sin(1.0), jnp.full((), 3), jnp.full_like(x, 2), jnp.abs(-2), jnp.maximum(1, 2.0)


@program(normal((3,)))
def mixed_dtypes(jax, x):
    jnp = jax.numpy
    i, b, h = jnp.arange(3), jnp.array([True, False, True]), jnp.array([1, 2, 3], jnp.bfloat16)
    return x + i, x * b, x + h, h + i, h * 2.5, i * 2.5, b + 1, b * 1.5, i / i.size, jnp.int8(3) + i.astype(jnp.uint8)


@program(lambda r: (r.standard_normal(3) + 1j * r.standard_normal(3),), without=("hessian",))
def complex_real_loss(jax, z):
    jnp = jax.numpy
    return jnp.abs(z) ** 2 + jnp.real(z * jnp.conj(z) + jnp.exp(1j * jnp.imag(z))) + jnp.angle(z)


@program(lambda r: (r.standard_normal(3) + 1j * r.standard_normal(3),), transforms=VALUE + FORWARD + REVERSE)
def complex_functions(jax, z):
    jnp = jax.numpy
    return jnp.exp(z), jnp.sin(z) * jnp.cos(z), z**2 / (1 + z), jnp.sqrt(z), jnp.log(z), jnp.tanh(z), jnp.sum(z), z @ jnp.conj(z)


@program(lambda r: (r.standard_normal((2, 3)), r.standard_normal((2, 3))), diff=(0, 1))
def complex_from_parts(jax, a, b):
    jnp = jax.numpy
    z = jax.lax.complex(a, b)
    y = jnp.cumsum(z * (1 + 2j), axis=1) @ jnp.ones((3, 2))
    return y.real + y.imag**2, jnp.mean(jnp.abs(z))


@program(lambda r: (r.standard_normal(3),))
def holomorphic_grad_inside(jax, x):
    z = jax.lax.complex(x, x * 2)
    g = jax.grad(lambda z: (z**3).sum(), holomorphic=True)(z)
    return g.real + g.imag
