"""Softmaxes written out become the kernels of softmax (pass_simplify), and give what they give without them."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax, nn

X = np.random.default_rng(0).standard_normal((7, 40, 300)).astype(np.float32) * 3


def written_out(x, axis=-1):
    e = jnp.exp(x - jnp.max(x, axis, keepdims=True))
    return e / jnp.sum(e, axis, keepdims=True)


def held(x, axis=-1):
    e = jnp.exp(x - lax.stop_gradient(jnp.max(x, axis, keepdims=True)))
    return e / jnp.sum(e, axis, keepdims=True)


def logarithm(x, axis=-1):
    z = x - jnp.max(x, axis, keepdims=True)
    return z - jnp.log(jnp.sum(jnp.exp(z), axis, keepdims=True))


def held_logarithm(x, axis=-1):
    z = x - lax.stop_gradient(jnp.max(x, axis, keepdims=True))
    return z - jnp.log(jnp.sum(jnp.exp(z), axis, keepdims=True))


def compiled(fun, *args):
    program = fgrad.jit(fun).lower(*args).compile()
    return fgrad.tree.leaves(program(*args)), [label.split(" [")[0] for _, label in program.profile(*args, repeat=1)]


def names(fun, x):
    """The names of the instructions of what gives the same as without the pass."""
    got, labels = compiled(fun, x)
    with fgrad.config.override("pass_simplify", False):
        want, _ = compiled(lambda x: fun(x), x)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6 * float(jnp.abs(b).max()))
    return " ".join(labels)


@pytest.mark.parametrize("softmax", [written_out, held])
@pytest.mark.parametrize("axis", [-1, 1, 0])
def test_value_and_gradient(softmax, axis):
    x = jnp.asarray(X)
    assert names(lambda x: softmax(x, axis), x) == "softmax"
    got = names(fgrad.grad(lambda x: jnp.sum(jnp.sin(softmax(x, axis)) * x)), x)
    assert "softmax_tangent" in got and "exp" not in got


@pytest.mark.parametrize("log_softmax", [logarithm, held_logarithm])
@pytest.mark.parametrize("axis", [-1, 1, 0])
def test_logarithms(log_softmax, axis):
    x = jnp.asarray(X)
    assert names(lambda x: log_softmax(x, axis), x) == "log_softmax"
    got = names(fgrad.grad(lambda x: jnp.sum(jnp.sin(log_softmax(x, axis)))), x)
    assert "log_softmax_cotangent" in got and "exp" not in got


def test_cross_entropy():
    x, labels = jnp.asarray(X[0]), jnp.arange(40) * 3
    for loss in (
        lambda x: -jnp.mean(jnp.take_along_axis(logarithm(x), labels[:, None], 1)),
        lambda x: -jnp.mean(jnp.sum(logarithm(x) * fgrad.nn.one_hot(labels, 300), -1)),
    ):
        found = names(fgrad.value_and_grad(loss), x)
        assert "cross_entropy_cotangent" in found or "log_softmax_cotangent" in found


@pytest.mark.parametrize("softmax", [written_out, held])
def test_what_else_reads_the_exponentials_keeps_them(softmax):
    def both(x):
        e = jnp.exp(x - jnp.max(x, -1, keepdims=True))
        return e / jnp.sum(e, -1, keepdims=True), jnp.sqrt(e)

    def other_maximum(x):
        e = jnp.exp(x - jnp.max(x * 2, -1, keepdims=True))
        return e / jnp.sum(e, -1, keepdims=True)

    def other_axis(x):
        e = jnp.exp(x - jnp.max(x, -1, keepdims=True))
        return e / jnp.sum(e, 1, keepdims=True)

    def other_sum(x):
        z = x - jnp.max(x, -1, keepdims=True)
        return z - jnp.log(jnp.sum(jnp.exp(z * 2), -1, keepdims=True))

    x = jnp.asarray(X)
    for fun in (both, other_maximum, other_axis, other_sum):
        assert "softmax" not in names(fun, x)
        names(fgrad.grad(lambda x, fun=fun: sum(jnp.sum(jnp.sin(y)) for y in fgrad.tree.leaves(fun(x)))), x)
    names(lambda x: fgrad.jvp(softmax, (x,), (jnp.cos(x),)), x)
    names(fgrad.grad(lambda x: jnp.sum(fgrad.grad(lambda x: jnp.sum(softmax(x) ** 3))(x) ** 2)), x[0])


def test_rows_of_infinities():
    x = jnp.asarray([[-np.inf, -np.inf], [np.inf, 0], [-np.inf, 1], [np.nan, 0]], jnp.float32)
    np.testing.assert_array_equal(fgrad.jit(written_out)(x), written_out(x))


def test_float64_and_two_in_a_row():
    with fgrad.enable_x64():
        x = jnp.asarray(X[0].astype(np.float64))
        twice = lambda x: written_out(written_out(x) * 5, 0)
        assert names(twice, x).count("softmax") == 2
        assert names(fgrad.grad(lambda x: jnp.sum(twice(x) ** 2)), x).count("softmax_tangent") == 2


@pytest.mark.parametrize("width", [1, 3, 8, 15, 16, 17, 33])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_columns(width, dtype):
    """A tile of one vector or less has code of its own."""
    with fgrad.enable_x64():
        x = X[0, :, :width].astype(dtype)
        x[3, width // 2] = 50
        wide = np.exp(x.astype(np.float64) - x.max(0))
        want, total = wide / wide.sum(0), np.log(wide.sum(0)) + x.max(0)
        close = dict(rtol=1e-5, atol=1e-6) if dtype == "float32" else dict(rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(fgrad.nn.softmax(jnp.asarray(x), 0), want, **close)
        np.testing.assert_allclose(fgrad.nn.log_softmax(jnp.asarray(x), 0), x - total, **close)
        np.testing.assert_allclose(fgrad.nn.logsumexp(jnp.asarray(x), axis=0), total, **close)
        np.testing.assert_allclose(fgrad.nn.softmax(jnp.asarray(x.T), 1), want.T, **close)


@pytest.mark.parametrize("rows", [3, 4, 5, 7])
@pytest.mark.parametrize("n", [1, 2, 4, 5, 8, 9])
def test_few_short_rows(rows, n):
    """Short rows become columns from three or five on: each gives what it gives among many."""
    x = X[0, :rows, :n].copy()
    x[1, 0], x[2, -1] = np.inf, -np.inf
    x[0] = np.nan if n == 4 else x[0]
    many = jnp.asarray(np.concatenate([x, np.zeros((20, n), np.float32)]))
    for fun in (fgrad.nn.softmax, fgrad.nn.log_softmax, fgrad.nn.logsumexp, fgrad.nn.standardize):
        few, wide = fun(jnp.asarray(x), axis=-1), fun(many, axis=-1)[:rows]
        np.testing.assert_allclose(few, wide, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [*range(1, 19), 33])
def test_one_short_row(n, dtype):
    """Of every length around a vector's, alone and few, with infinities and NaN."""
    rng = np.random.RandomState(n)
    with fgrad.enable_x64(dtype == "float64"), np.errstate(all="ignore"):
        for rows in (1, 2):
            for special in (None, np.inf, -np.inf, np.nan, "all"):
                x = rng.randn(rows, n) * 5
                if special == "all":
                    x[:] = -np.inf
                elif special is not None:
                    x[:, n // 2] = special
                most = x.max(-1, keepdims=True)
                e = np.exp(x - most)
                lse = np.where(np.isinf(most), most, most + np.log(e.sum(-1, keepdims=True)))[:, 0]
                tol = dict(rtol=1e-5, atol=1e-6) if dtype == "float32" else dict(rtol=1e-13, atol=1e-14)
                x = x.astype(dtype)
                np.testing.assert_allclose(fgrad.jit(lambda x: nn.logsumexp(x, -1))(x), lse, **tol)
                np.testing.assert_allclose(fgrad.jit(lambda x: nn.softmax(x))(x), e / e.sum(-1, keepdims=True), **tol)
                np.testing.assert_allclose(
                    fgrad.jit(lambda x: nn.log_softmax(x))(x), np.log(e / e.sum(-1, keepdims=True)), **{**tol, "rtol": 1e-4}
                )
