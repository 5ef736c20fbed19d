"""Eager gradients run the function first and differentiate what it did afterwards: the same results, whatever the function does."""

import gc

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax, nn
from fgrad.api import backward
from fgrad.scipy import special
from fgrad.transforms.recorded import Recorded

X = np.linspace(-1.5, 2.0, 8).astype(np.float32)


@pytest.fixture(autouse=True)
def fresh():
    fgrad.clear_caches()


@fgrad.custom_jvp
def doubled(x):
    return x * x


doubled.defjvp(lambda primals, tangents: (doubled(*primals), 2 * primals[0] * tangents[0] + 1))


def branches(x):
    y = x * 2
    return jnp.sum(y * y) if y[0] < 0 else jnp.sum(y)


def integers(x):
    order = jnp.argsort(x)
    return jnp.sum(x[order][:3] * jnp.arange(3.0)) + x[jnp.argmax(x)]


def halves(x):
    low, high = jnp.split(jnp.sin(x), 2)
    return jnp.sum(jnp.concatenate([high, low * 3]) * x)


FUNCTIONS = {
    "plain": lambda x: jnp.mean((jnp.tanh(x) - 0.5) ** 2),
    "branches": branches,
    "integers": integers,
    "halves": halves,
    "custom": lambda x: jnp.sum(jnp.sin(doubled(jnp.cos(x))) * x),
    "jit": lambda x: jnp.sum(fgrad.jit(lambda y: y * y)(jnp.exp(x)) * x),
    "scan": lambda x: lax.scan(lambda c, v: (c * 0.5 + v, c), jnp.sum(jnp.sin(x)), x * x)[0],
    "floor": lambda x: jnp.sum(jnp.floor(x) * x + np.asarray(jnp.floor(x))),
    "nested": lambda x: jnp.sum(fgrad.grad(lambda y: jnp.sum(jnp.sin(y) * x))(x * x)),
    "vmap": lambda x: jnp.sum(fgrad.vmap(lambda v: v * jnp.sin(v))(x) * x),
    "norm": lambda x: jnp.sum(nn.softmax(x) * jnp.max(x) + nn.relu(x) * jnp.where(x > 0, x, 0)),
    "constant": lambda x: jnp.sum(jnp.ones(3)),
    "view": lambda x: jnp.sum(x.reshape(2, 4).T @ jnp.arange(2.0)),
    "rows": lambda x: jnp.sum(jnp.sin(x.reshape(4, 2))[jnp.arange(4), jnp.array([0, 1, 1, 0])] * x[jnp.array([1, 1, 7, -1])]),
    "statistics": lambda x: jnp.std(x * 2) * jnp.mean(x * x, axis=0) + jnp.var(x.reshape(2, 4), axis=1, ddof=1)[0] * jnp.ptp(x),
    "several": lambda x: sum(jnp.sum(y * y) * (i + 1) for i, y in enumerate(jnp.unstack(x.reshape(2, 4)) + jnp.modf(x))),
    "powers": lambda x: jnp.sum(x**3) + jnp.sum(jnp.exp(x) ** 0.5) + jnp.hypot(x[0], jnp.float32(2)) + jnp.sum(jnp.logaddexp(x, x * x)),
    "taken": lambda x: jnp.sum(jnp.take(x * x, jnp.array([3, 3, 0])) * jnp.where(x[:3] > 0, 2.0, jnp.linalg.norm(x))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_agrees_with_jit(name):
    fun = FUNCTIONS[name]
    x = jnp.asarray(X)
    inner = (lambda y: jnp.sum((y * 2) ** 2)) if name == "branches" else fun  # jit cannot branch: x[0] < 0 here
    if name == "floor":
        inner = lambda x: jnp.sum(jnp.floor(x) * x + lax.stop_gradient(jnp.floor(x)))
    want_value, want = fgrad.jit(fgrad.value_and_grad(inner))(x)
    for _ in range(5):  # differentiated twice, then compiled
        value, got = fgrad.value_and_grad(fun)(x)
        np.testing.assert_allclose(value, want_value, rtol=1e-5)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_functions_are_recorded_whole():
    """A function of several operations is one entry of the recording, and its derivatives nest."""
    x = jnp.asarray(X)
    run = Recorded(lambda x: [jnp.mean(x[jnp.arange(4)] * 2)], [x])
    assert [r[0].name for r in run.trace.recording.records] == ["composite", "mul", "composite"]

    def loss(x):
        return jnp.mean(jnp.sin(x)[jnp.array([0, 0, 5])]) * jnp.var(x)

    for _ in range(4):
        got = fgrad.grad(lambda x: jnp.sum(fgrad.grad(loss)(x) * x))(x)
        np.testing.assert_allclose(got, fgrad.jit(fgrad.grad(lambda x: jnp.sum(fgrad.grad(loss)(x) * x)))(x), rtol=1e-4, atol=1e-6)
        pushed = fgrad.jvp(fgrad.grad(loss), (x,), (x,))[1]
        np.testing.assert_allclose(pushed, fgrad.jit(fgrad.hessian(loss))(x) @ x, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(fgrad.vmap(fgrad.grad(loss))(x[None])[0], fgrad.grad(loss)(x), rtol=1e-5)


def test_a_function_recorded_whole_tells_its_arguments_apart():
    x = jnp.asarray(X)
    for rows in ([0, 1, 2], [7, 7, 7]):
        for axis in (0, -1):
            for _ in range(4):
                got = fgrad.grad(lambda x, r=rows, a=axis: jnp.mean(x[jnp.array(r)] * jnp.array([1.0, 2.0, 3.0]), axis=a))(x)
                want = np.zeros(8)
                np.add.at(want, rows, np.array([1, 2, 3]) / 3)
                np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_branch_is_another_recording():
    g = fgrad.grad(branches)
    for _ in range(4):
        np.testing.assert_allclose(g(jnp.asarray(X)), 8 * X, rtol=1e-6)
        np.testing.assert_allclose(g(jnp.asarray(-X)), np.full(8, 2.0))


def test_captured_arrays_and_numbers_are_told_apart():
    x = jnp.asarray(X)
    for scale in (2.0, 3.0):
        for a in (jnp.arange(8.0), jnp.ones(8)):
            for _ in range(4):
                got = fgrad.grad(lambda x, a=a, s=scale: jnp.sum(x * x * a) * s)(x)
                np.testing.assert_allclose(got, 2 * X * np.asarray(a) * scale, rtol=1e-6)


def test_large_results_are_not_kept():
    x = jnp.ones((1 << 23,))  # 32 MB
    g = fgrad.grad(lambda x: jnp.sum(jnp.sin(x) * jnp.cos(x) * jnp.exp(x) * x * x))
    want = fgrad.jit(g)(x[:4])
    np.testing.assert_allclose(g(x)[:4], want, rtol=1e-5)


def test_errors_and_leaks():
    with pytest.raises(TypeError, match="scalar-output"):
        fgrad.grad(lambda x: x * 2)(jnp.asarray(X))
    with pytest.raises(fgrad.errors.NotDifferentiableError):
        fgrad.grad(lambda x: jnp.sum(special.betainc(x, 2.0, 0.5)))(jnp.asarray(X) + 3)
    kept = []
    for _ in range(4):
        fgrad.grad(lambda x: kept.append(x * 2) or jnp.sum(x))(jnp.asarray(X))
        with pytest.raises(fgrad.errors.UnexpectedTracerError):
            fgrad.jit(lambda: kept[-1] + 1)()


def test_recordings_are_no_garbage():
    """What a recording holds is freed with it: arrays do not wait for the garbage collector."""
    g = fgrad.grad(lambda x: jnp.sum(jnp.sin(x) * x))
    x = jnp.asarray(X)
    for _ in range(5):
        g(x)
    assert sum(type(v) is tuple for v in backward._passes.values()) == 1
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            g(x)
        assert not [v for v in gc.get_objects() if type(v).__name__ in ("Recording", "JVPTrace", "Recorded")]
    finally:
        gc.enable()


def test_jitted_calls_are_recorded_whole():
    """A jitted call of a few operations is one entry, whatever it captures or is given besides."""
    x, w = jnp.asarray(X), jnp.asarray(X[::-1].copy())
    scaled = fgrad.jit(lambda x, w: jnp.where(x > 0, x * w, 0.5 * w))
    run = Recorded(lambda x: [jnp.sum(scaled(nn.relu(x), w))], [x])
    assert [r[0].name for r in run.trace.recording.records][:2] == ["composite", "composite"]

    captured = fgrad.jit(lambda x: x * w)
    static = fgrad.jit(lambda x, n: x**n, static_argnums=1)
    pair = fgrad.jit(lambda x: (jnp.sin(x), jnp.cos(x)))
    custom = fgrad.jit(doubled)

    def loss(x):
        a, b = pair(scaled(x, w) + captured(nn.relu(x)))
        return jnp.sum(a * static(b, 2) + static(b, 3) + custom(x) + scaled(x=x, w=x))

    want = fgrad.jit(fgrad.grad(loss))(x)
    for _ in range(5):
        np.testing.assert_allclose(fgrad.grad(loss)(x), want, rtol=1e-5, atol=1e-6)
        fgrad.jit(lambda x: x)(x)
    hessian = fgrad.jit(fgrad.hessian(loss))(x)
    np.testing.assert_allclose(fgrad.hessian(loss)(x), hessian, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [8, 1 << 19])
def test_jitted_calls_with_options_and_trees_are_recorded_whole(size):
    """At every size, with static arguments, numbers and dictionaries, and with calls inside of them."""
    x = jnp.linspace(-1.5, 2.0, size)
    both = fgrad.jit(lambda p: {"a": jnp.sin(p["x"]) * p["y"], "b": p["x"] + 1})
    swish = fgrad.jit(lambda x: x * nn.hard_sigmoid(x) + 1)

    def loss(x):
        parts = both({"x": nn.elu(x, alpha=0.5), "y": nn.gelu(x, approximate=False)})
        return jnp.mean(parts["a"] * parts["b"] + swish(x) + nn.leaky_relu(x, 0.1))

    records = Recorded(lambda x: [loss(x)], [x]).trace.recording.records
    wholes = ["composite", "gelu_exact", "composite", "mul", "composite", "add", "composite", "add", "composite"]
    assert [r[0].name for r in records] == wholes
    for f in (loss, lambda x: jnp.mean(fgrad.grad(loss)(x) * x)):
        want = fgrad.jit(fgrad.grad(f))(x)
        for _ in range(4):
            np.testing.assert_allclose(fgrad.grad(f)(x), want, rtol=1e-4, atol=1e-6 / size)


def test_a_number_given_to_a_jitted_call_is_no_part_of_its_recording():
    x = jnp.asarray(X)
    for _ in range(2):
        for slope in (0.1, 0.1, 0.1, 0.25, 2):
            want = np.where(X >= 0, 1, slope)
            np.testing.assert_allclose(fgrad.grad(lambda x, s=slope: jnp.sum(nn.leaky_relu(x, s)))(x), want, rtol=1e-6)


def test_a_jitted_call_is_recorded_per_settings_and_types():
    f = fgrad.jit(lambda x: jnp.sin(x) * 2)
    for dtype in (np.float32, np.float16, np.complex64):
        x = jnp.asarray(X.astype(dtype))
        for _ in range(4):
            got = fgrad.grad(lambda x: jnp.sum(jnp.real(f(x)).astype(jnp.float32)))(x)
            assert got.dtype == dtype
            np.testing.assert_allclose(got, 2 * np.cos(X.astype(dtype)), rtol=2e-3)
    with fgrad.enable_x64():
        got = fgrad.grad(lambda x: jnp.sum(f(x)))(jnp.asarray(X, np.float64))
        np.testing.assert_allclose(got, 2 * np.cos(X.astype(np.float64)), rtol=1e-12)
