"""Derivatives outside of jit: a backward pass that comes again runs compiled, and gives what the first ones gave."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax, nn
from fgrad.api import backward
from fgrad.test_util import check_grads


@pytest.fixture(autouse=True)
def fresh():
    fgrad.clear_caches()


def compiled():
    return sum(type(v) is tuple for v in backward._passes.values())


def repeated(fun, *args, times=6):
    """The results of many calls, all equal."""
    out = [fgrad.tree_util.tree_leaves(fun(*args)) for _ in range(times)]
    for later in out[1:]:
        for a, b in zip(out[0], later, strict=True):
            assert a.dtype == b.dtype and a.weak_type == b.weak_type
            np.testing.assert_allclose(a, b, rtol=1e-6)
    return out[0]


def test_the_third_pass_is_compiled():
    g = fgrad.grad(lambda x: jnp.sum(jnp.sin(x) * x))
    x = jnp.arange(5.0)
    g(x), g(x)
    assert compiled() == 0
    (got,) = repeated(g, x)
    assert compiled() == 1
    np.testing.assert_allclose(got, np.cos(np.arange(5.0)) * np.arange(5.0) + np.sin(np.arange(5.0)), rtol=1e-5)
    (got,) = repeated(g, 2 * x)  # the same program at other values
    assert compiled() == 1
    np.testing.assert_allclose(got, np.cos(2 * np.arange(5.0)) * 2 * np.arange(5.0) + np.sin(2 * np.arange(5.0)), rtol=1e-5)
    repeated(g, jnp.arange(6.0))
    assert compiled() == 2


def test_constants_and_structure_tell_passes_apart():
    x = jnp.arange(1.0, 4.0)
    for k in (2.0, 3.0, -0.0, 0.0):
        (got,) = repeated(fgrad.grad(lambda x, k=k: jnp.sum(x * x * k)), x)
        np.testing.assert_array_equal(got, 2 * k * np.arange(1, 4.0))
    for axis, want in ((0, [[0, 1], [0, 0]]), (1, [[0, 0], [1, 0]])):
        (got,) = repeated(fgrad.grad(lambda x, a=axis: jnp.sum(jnp.max(x, axis=a) * jnp.arange(2.0))), jnp.array([[1.0, 5.0], [3.0, 2.0]]))
        np.testing.assert_array_equal(got, want)
    a, b = repeated(fgrad.grad(lambda x, y: jnp.sum(x * y - y), argnums=(0, 1)), x, x.reshape(3))
    np.testing.assert_array_equal(a, x)
    np.testing.assert_array_equal(b, x - 1)


def test_control_flow_in_python_is_followed():
    def f(x):
        return jnp.sum(x * x) if float(x[0]) > 0 else jnp.sum(3 * x)

    g = fgrad.grad(f)
    for _ in range(5):
        np.testing.assert_array_equal(g(jnp.ones(2)), [2, 2])
        np.testing.assert_array_equal(g(-jnp.ones(2)), [3, 3])


def test_strided_residuals_weak_types_and_unused_arguments():
    m = jnp.arange(6.0).reshape(2, 3)
    (got,) = repeated(fgrad.grad(lambda x: jnp.sum(x.T * m.T)), jnp.ones((2, 3)))
    np.testing.assert_array_equal(got, m)
    (got,) = repeated(fgrad.grad(lambda x: x**3), 2.0)
    assert float(got) == 12 and got.weak_type
    a, b = repeated(fgrad.grad(lambda x, y: jnp.sum(x) * 2.0, argnums=(0, 1)), jnp.ones(2), jnp.ones(3))
    np.testing.assert_array_equal(a, [2, 2])
    np.testing.assert_array_equal(b, [0, 0, 0])
    got = repeated(fgrad.grad(lambda p: p["a"] * p["a"] + p["b"][1]), {"a": 3.0, "b": [1.0, 2.0]})
    assert [float(v) for v in got] == [6, 0, 1]


def test_user_rules_and_calls_run_as_they_are():
    calls = []

    @fgrad.custom_vjp
    def f(x):
        return x * 2

    f.defvjp(lambda x: (x * 2, None), lambda _, ct: (calls.append(1) or ct * 5,))
    for _ in range(5):
        assert float(fgrad.grad(lambda x: f(x))(1.0)) == 5
    assert len(calls) == 5
    (got,) = repeated(fgrad.grad(lambda x: lax.fori_loop(0, 3, lambda i, x: x * x, x)), 1.1)
    np.testing.assert_allclose(got, 8 * 1.1**7, rtol=1e-5)
    (got,) = repeated(fgrad.grad(fgrad.jit(lambda x: jnp.sum(jnp.tanh(x)))), jnp.zeros(3))
    np.testing.assert_array_equal(got, 1)
    assert compiled() == 1  # of the few operations of the jitted call


def test_higher_derivatives_and_settings():
    (got,) = repeated(fgrad.grad(fgrad.grad(lambda x: x**4)), 2.0)
    assert float(got) == 48
    (got,) = repeated(fgrad.vmap(fgrad.grad(lambda x: x * x)), jnp.arange(3.0))
    np.testing.assert_array_equal(got, [0, 2, 4])
    with fgrad.enable_x64():
        (got,) = repeated(fgrad.grad(lambda x: jnp.sum(x * x)), jnp.arange(3.0))
        assert got.dtype == np.float64
    (got,) = repeated(fgrad.grad(lambda x: jnp.sum(x * x)), jnp.arange(3.0))
    assert got.dtype == np.float32
    g = fgrad.grad(lambda x: jnp.sum(jnp.sqrt(x)))
    repeated(g, jnp.ones(2))
    with fgrad.debug_nans(), pytest.raises(FloatingPointError):
        g(-jnp.ones(2))
    value, pullback = fgrad.vjp(lambda x: jnp.sin(x) * x, jnp.arange(3.0))
    (got,) = repeated(pullback, jnp.ones(3))
    np.testing.assert_allclose(got, np.cos(np.arange(3.0)) * np.arange(3.0) + np.sin(np.arange(3.0)), rtol=1e-6)


def test_small_jitted_calls_and_random_numbers_are_recorded(monkeypatch):
    from fgrad.transforms.jvp import JVPTrace

    key = fgrad.random.key(0)

    def loss(w, x):
        h = nn.gelu(x @ w) + fgrad.random.normal(key, (3, 4))
        h = nn.hard_swish(nn.silu(h)) * lax.stop_gradient(h) * jnp.take(h, jnp.array([2, 0, 5]), axis=0)
        return jnp.nansum(nn.selu(nn.relu(h)) + nn.leaky_relu(h))

    w, x = jnp.linspace(-1, 1, 8).reshape(2, 4), jnp.linspace(0, 2, 6).reshape(3, 2)
    want = fgrad.jit(fgrad.grad(loss))(w, x)
    for _ in range(3):
        np.testing.assert_allclose(fgrad.grad(loss)(w, x), want, rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(JVPTrace, "settle", None)  # from the third time on nothing is differentiated anew
    np.testing.assert_allclose(fgrad.grad(loss)(w, x), want, rtol=1e-5, atol=1e-6)


def test_large_jitted_calls_run_as_programs():
    f = fgrad.jit(lambda x: jnp.sum(jnp.sin(x) * x))
    x = jnp.linspace(0, 1, 300_000)
    for _ in range(4):
        np.testing.assert_allclose(fgrad.grad(lambda x: f(x))(x), jnp.cos(x) * x + jnp.sin(x), rtol=1e-5)


def test_programs_of_recordings_are_not_those_of_pullbacks():
    x = jnp.float32(2)
    for _ in range(4):  # compiled by now
        assert float(fgrad.grad(lambda x: x)(x)) == 1
    for _ in range(4):
        _, pullback = fgrad.vjp(lambda x: x.astype(int), x)
        assert float(pullback(np.zeros((), fgrad.dtypes.float0))[0]) == 0


def _rows(x):
    return x[0] @ x[1] + (x[2] ** 2 * x[1]).sum() + (x[4:] ** 3).sum() + (x[0] ** 2).sum()


def _elements(x):
    return x[0, 0] * x[1, 1] - x[0, 1] * x[1, 0] ** 2 + x[2, 2] * x[1, 1]


def _overlapping(x):
    return ((x[2:] - 2 * x[1:-1] + x[:-2]) ** 2).sum() + x[:, 1:3].sum() + (x**3).sum()


def _strided(x):
    return (x[::2, 1] * x[1::2, 0]).sum() + (x[:0] * 2).sum() + (x[:, ::-1] * x).sum()


def _combs(x):
    """By steps: all that fall between each other, some that overlap, some that leave places out, and one that ends before the axis."""
    n = len(x) // 3 * 3
    return (
        sum(((x[i:n:3, j::2] ** (2 + j)).sum() for i in (0, 1, 2, 3, 4) for j in (0, 1)), (x[1:-2:2] * x[2:-1:2]).sum())
        + x[::4, :3:2].sum()
    )


@pytest.mark.parametrize("shape", [(6, 4), (80, 64)], ids=str)
@pytest.mark.parametrize("fun", [_rows, _elements, _overlapping, _strided, _combs], ids=lambda f: f.__name__)
def test_cotangents_of_slices(fun, shape):
    """They are added and joined by place: as what finite differences say, staged or not, also of vmap and of second order."""
    x = np.random.default_rng(0).standard_normal(shape)
    with fgrad.config.override("enable_x64", True):
        check_grads(fun, (jnp.array(x),), order=2, modes=["rev"])
        eager = fgrad.grad(fun)(jnp.array(x))
        np.testing.assert_allclose(fgrad.jit(fgrad.grad(fun))(x), eager, rtol=1e-12, atol=1e-12)
        both = fgrad.jit(fgrad.vmap(fgrad.grad(fun)))(np.stack([x, -x]))
        np.testing.assert_allclose(both[0], eager, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(both[1], fgrad.grad(fun)(-x), rtol=1e-12, atol=1e-12)


def test_slices_give_one_concatenation():
    def fun(x):
        return x[0] * x[1] + jnp.sin(x[2]) * x[0] - x[1] ** 2

    text = str(fgrad.make_jaxpr(fgrad.grad(fun))(jnp.ones(3)))
    assert text.count("concatenate") == 1 and "pad" not in text
    text = str(fgrad.make_jaxpr(fgrad.grad(lambda xs: sum((xs[t] ** 2).sum() for t in range(50))))(jnp.ones((50, 3))))
    assert text.count("concatenate") == 1 and "pad" not in text


def test_slices_by_steps_are_put_together():
    """One concatenation for each axis and what lies along it, not an array of the whole size for each slice."""

    def patches(x):
        return jnp.stack([x[i::4, j::4] for i in range(4) for j in range(4)])

    x = jnp.array(np.random.default_rng(0).standard_normal((8, 12)), jnp.float32)
    text = str(fgrad.make_jaxpr(lambda x, g: fgrad.vjp(patches, x)[1](g))(x, patches(x)))
    backward = text[text.rindex("slice[") :]
    assert backward.count("concatenate") == 5 and "pad" not in backward
    np.testing.assert_array_equal(fgrad.vjp(patches, x)[1](patches(x))[0], x)
