"""Norms written out become the kernels of norms (pass_norms), and give what they give without them."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax, nn
from fgrad.compile import norms

ROWS, N = 96, 200
RNG = np.random.default_rng(0)
X = (RNG.standard_normal((ROWS, N)) * RNG.uniform(0.01, 30, (ROWS, 1)) + RNG.standard_normal((ROWS, 1))).astype(np.float32)
G, B = RNG.uniform(0.5, 2, N).astype(np.float32), RNG.standard_normal(N).astype(np.float32)
C = RNG.standard_normal((ROWS, N)).astype(np.float32)


def mean(x):
    return jnp.mean(x, -1, keepdims=True)


def var(x):
    return jnp.var(x, -1, keepdims=True)


def square(x):
    return mean(x * x)


LAYER = {
    "over sqrt": lambda x, g, b: (x - mean(x)) / jnp.sqrt(var(x) + 1e-5) * g + b,
    "weights first": lambda x, g, b: g * (x - mean(x)) / jnp.sqrt(var(x) + 1e-5) + b,
    "rsqrt": lambda x, g, b: (x - mean(x)) * lax.rsqrt(var(x) + 1e-6) * g + b,
    "power": lambda x, g, b: (x - mean(x)) * (var(x) + 1e-3) ** -0.5 * g + b,
    "of deviations": lambda x, g, b: (x - mean(x)) * lax.rsqrt(square(x - mean(x)) + 1e-5) * g + b,
    "without axes": lambda x, g, b: (x - x.mean(-1)[:, None]) / jnp.sqrt(x.var(-1)[:, None] + 1e-5) * g + b,
    "a row of factors": lambda x, g, b: (x - mean(x)) * (lax.rsqrt(var(x) + 1e-5) * g) + b,
    "two moments": lambda x, g, b: (x - mean(x)) * (lax.rsqrt(jnp.maximum(0, square(x) - mean(x) ** 2) + 1e-2) * g) + b,
    "no eps": lambda x, g, b: (x - mean(x)) / jnp.sqrt(var(x)) * (1 + g),
    "a sum": lambda x, g, b: (x - x.sum(-1, keepdims=True) / N) / jnp.sqrt(((x - mean(x)) ** 2).sum(-1, keepdims=True) / N + 1e-5) * g,
    "beside itself": lambda x, g, b: x * 2 + (x - mean(x)) / jnp.sqrt(var(x) + 1e-5) * g + b,
    "of rows": lambda x, g, b: fgrad.vmap(lambda x: (x - x.mean()) / jnp.sqrt(x.var() + 1e-5) * g + b)(x),
}
ROOT = {
    "rsqrt": lambda x, g, b: x * lax.rsqrt(mean(x**2) + 1e-6) * g,
    "over sqrt": lambda x, g, b: x / jnp.sqrt(mean(jnp.square(x)) + 1e-5) * g,
    "power": lambda x, g, b: x * (square(x) + 1e-6) ** -0.5 * (1 + g),
    "weights first": lambda x, g, b: g * (x * lax.rsqrt(square(x) + 1e-6)),
    "a row of factors": lambda x, g, b: x * (lax.rsqrt(square(x) + 1e-6) * g),
    "a sum": lambda x, g, b: x * lax.rsqrt(jnp.sum(x**2, -1, keepdims=True) / N + 1e-6) * g,
    "beside itself": lambda x, g, b: jnp.tanh(x) + x * lax.rsqrt(square(x) + 1e-6) * g,
}
OTHERS = {
    "eps outside": lambda x, g, b: (x - mean(x)) / (x.std(-1, keepdims=True) + 1e-5) * g,
    "length": lambda x, g, b: x / jnp.linalg.norm(x, axis=-1, keepdims=True) * g,
    "other mean": lambda x, g, b: (x - mean(2 * x)) * lax.rsqrt(var(x) + 1e-5) * g,
    "other number": lambda x, g, b: (x - mean(x)) * lax.rsqrt(var(jnp.tanh(x)) + 1e-5) * g,
    "one less": lambda x, g, b: (x - mean(x)) * lax.rsqrt(jnp.var(x, -1, keepdims=True, ddof=1) + 1e-5) * g,
    "the mean too": lambda x, g, b: (x - mean(x)) * lax.rsqrt(var(x) + 1e-5) * g + mean(x) ** 2,
    "the variance too": lambda x, g, b: (x - mean(x)) * lax.rsqrt(var(x) + 1e-5) * g + jnp.sin(var(x)),
    "columns": lambda x, g, b: (x - x.mean(0)) * lax.rsqrt(x.var(0) + 1e-5) * g,
    "held": lambda x, g, b: (x - mean(x)) * lax.rsqrt(lax.stop_gradient(var(x)) + 1e-5) * g,
    "held mean": lambda x, g, b: (x - lax.stop_gradient(mean(x))) * lax.rsqrt(var(x) + 1e-5) * g,
    "cut": lambda x, g, b: (x - mean(x)) * jnp.minimum(lax.rsqrt(var(x) + 1e-5), 1.5) * g,
    "least variance": lambda x, g, b: (x - mean(x)) / jnp.sqrt(jnp.maximum(var(x), 1e-9)) * g,
    "least root": lambda x, g, b: x / jnp.maximum(jnp.sqrt(square(x)), 1e-8) * g,
    "tiny eps outside": lambda x, g, b: (x - mean(x)) / (x.std(-1, keepdims=True) + 1e-8) * g,
    "least number": lambda x, g, b: x * lax.rsqrt(jnp.maximum(square(x), 1e-30)) * g,
    "a little more": lambda x, g, b: (x - 1.001 * mean(x)) * lax.rsqrt(var(x) + 1e-5) * g,
}
LIMITED = {
    "clipped": lambda x, g, b: LAYER["rsqrt"](jnp.clip(x, -1e4, 1e4), g, 0.0),
    "no NaN": lambda x, g, b: ROOT["rsqrt"](jnp.where(jnp.isnan(x), 0, x), g, b),
    "no infinity": lambda x, g, b: ROOT["rsqrt"](jnp.where(jnp.isinf(x), 0, x), g, b),
    "zeros are others": lambda x, g, b: ROOT["rsqrt"](jnp.where(x == 0, 1e-3, x), g, b),
}


def agree(fun, args, tol=2e-5, dtype=np.float64):
    """The names of the instructions of what gives the same as without the pass."""
    program = fgrad.jit(fun).lower(*args).compile()
    with fgrad.config.override("pass_norms", False):
        want = fgrad.tree.leaves(fgrad.jit(lambda *a: fun(*a))(*args))
    for a, b in zip(fgrad.tree.leaves(program(*args)), want, strict=True):
        a, b = np.asarray(a).astype(np.float64), np.asarray(b).astype(np.float64)
        finite = np.abs(b[np.isfinite(b)])
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol * (finite.max() if finite.size else 1))
    return " ".join(label for _, label in program.profile(*args, repeat=1))


def loss(fun, c=C):
    return lambda *args: (lambda y: jnp.sum(y * c + jnp.sin(y)))(fun(*args))


@pytest.fixture(autouse=True)
def not_tiled():
    with fgrad.config.override("pass_tile", False):  # labels name all that runs
        yield


@pytest.mark.parametrize("op, fun", [*[("layer_norm", f) for f in LAYER.values()], *[("rms_norm", f) for f in ROOT.values()]])
def test_value_and_gradient(op, fun):
    args = [jnp.asarray(x) for x in (X, G, B)]
    assert op in agree(fun, args)
    for argnums in (0, (0, 1, 2)):
        labels = agree(fgrad.value_and_grad(loss(fun), argnums), args)
        assert op + "_tangent" in labels and "moments" not in labels and "sqrt" not in labels
    agree(fgrad.grad(loss(fun), 1), args)


@pytest.mark.parametrize("fun", OTHERS.values())
def test_others_stay(fun):
    args = [jnp.asarray(x) for x in (X, G, B)]
    assert "norm" not in agree(fun, args) or fun in (OTHERS["held"], OTHERS["held mean"])
    assert "norm_tangent" not in agree(fgrad.value_and_grad(loss(fun), (0, 1, 2)), args)


@pytest.mark.parametrize("fun", [*LAYER.values(), *ROOT.values(), *OTHERS.values()])
def test_tangents_and_second_order(fun):
    args = [jnp.asarray(x[:, :40] if x.ndim == 2 else x[:40]) for x in (X, G, B)]
    small = lambda *a: loss(fun, C[:, :40])(*a)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(norms, "LEAST", 1)
        agree(lambda *a: fgrad.jvp(small, a, a), args, 2e-4)
        agree(lambda *a: fgrad.jvp(fgrad.grad(small), a, a), args, 2e-4)


@pytest.mark.parametrize("fun", [LAYER["over sqrt"], LAYER["a row of factors"], ROOT["rsqrt"]])
def test_special_rows(fun):
    x = X.copy()
    x[1, 3], x[2, 5], x[3], x[4], x[5] = np.nan, np.inf, 0, 7, 1e-20
    agree(fun, [jnp.asarray(x) for x in (x, G, B)], 1e-4)
    rows = lambda x, g, b: fgrad.grad(lambda x: loss(fun)(x, g, b))(x)
    agree(rows, [jnp.asarray(x) for x in (x, G, B)], 1e-3)


@pytest.mark.parametrize(
    "fun", [*LIMITED.values(), *(OTHERS[k] for k in ("least variance", "least root", "tiny eps outside", "least number"))]
)
def test_limits_hold(fun):
    x = X.copy()
    x[0, :3], x[1, 3], x[2, 5], x[3], x[4], x[5], x[6] = 0, np.nan, np.inf, 0, 7, X[5] * 1e-12, X[6] * 1e8
    args = [jnp.asarray(x) for x in (x, G, B)]
    agree(fun, args, 1e-4)
    agree(fgrad.grad(lambda *a: loss(fun)(*a)), args, 1e-3)


@pytest.mark.parametrize("name", ["over sqrt", "rsqrt"])
def test_float64_and_axes(name):
    with fgrad.enable_x64():
        args = [jnp.asarray(x.astype(np.float64)) for x in (X.reshape(8, 12, N), G, B)]
        for fun in (LAYER[name], ROOT[name]):
            assert "norm_tangent" in agree(fgrad.value_and_grad(loss(fun, C.reshape(8, 12, N)), (0, 1, 2)), args, 1e-12)


@pytest.mark.parametrize("upcast", [lambda x, y: y, lambda x, y: x])
def test_sixteen_bits(upcast):
    """Statistics in float32 of numbers that are multiplied as float32, or as they are."""

    def fun(x, g, b):
        wide = x.astype(jnp.float32)
        return (upcast(x, wide) * lax.rsqrt(square(wide) + 1e-6)).astype(x.dtype) * g

    args = [jnp.asarray(x).astype(jnp.bfloat16) for x in (X, G, B)]
    labels = agree(fgrad.value_and_grad(lambda *a: jnp.sum((fun(*a) * C.astype(jnp.bfloat16)).astype(jnp.float32)), (0, 1)), args, 2e-2)
    assert "rms_norm_tangent" in labels


def test_layers():
    """Blocks with residuals, where a norm's input has other cotangents as well."""
    rng = np.random.default_rng(1)
    w = [jnp.asarray((rng.standard_normal((N, N)) * 0.05).astype(np.float32)) for _ in range(3)]

    def net(w, g, x):
        for i, m in enumerate(w):
            norm = [LAYER["over sqrt"], ROOT["rsqrt"], LAYER["two moments"]][i]
            x = x + jnp.tanh(norm(x, g, 0.1) @ m)
        return jnp.sum(LAYER["rsqrt"](x, g, 0.0) * C)

    labels = agree(fgrad.value_and_grad(net, (0, 1, 2)), [w, jnp.asarray(G), jnp.asarray(X)], 1e-4)
    assert labels.count("norm_tangent") == 4 and "sqrt" not in labels


def test_softmax_is_no_norm():
    args = [jnp.asarray(x) for x in (X, G, B)]
    assert "norm" not in agree(fgrad.value_and_grad(loss(lambda x, g, b: nn.softmax(x) / jnp.sqrt(jnp.sum(g**2)) * g)), args)


@pytest.mark.parametrize("shape", [(0, 200), (1, 20000), (300, 64), (64, 1), (64, 64), (1, 2, 300, 33)])
def test_sizes(shape):
    x = jnp.asarray(np.random.default_rng(3).standard_normal(shape).astype(np.float32))
    g = jnp.ones(shape[-1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(norms, "LEAST", 1)
        for fun in (LAYER["over sqrt"], ROOT["rsqrt"]):
            agree(fgrad.value_and_grad(lambda x, g, fun=fun: jnp.sum(jnp.sin(fun(x, g, 0.0))), (0, 1)), [x, g])


@pytest.mark.parametrize("shape, found", [((8, 3 << 14), True), ((9, 40009), False), ((2, 3 << 14), False), ((16, 5 * 1021), True)])
def test_long_rows_are_evaluated_by_a_part_that_they_repeat(shape, found):
    """Rows of more than 32768 numbers too (images by groups of channels), where a divisor of their length is small and they are not few."""
    x = jnp.asarray(np.random.default_rng(3).standard_normal(shape).astype(np.float32) + 1)
    g = jnp.asarray(np.random.default_rng(4).uniform(0.5, 2, shape[-1:]).astype(np.float32))
    for op, fun in (("layer_norm", LAYER["over sqrt"]), ("rms_norm", ROOT["rsqrt"])):
        labels = agree(fgrad.value_and_grad(lambda x, g, fun=fun: jnp.sum(jnp.sin(fun(x, g, 0.0))), (0, 1)), [x, g])
        assert (op + "_tangent" in labels) == found
