"""Derivatives of running extrema and running logarithms of sums, and the recurrences that they are, of short rows too."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from fgrad.ops.cumulative import linear_recurrence

rng = np.random.default_rng(3)


@pytest.mark.parametrize("n", [*range(1, 11), 33])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lag", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_recurrences_along_rows(n, reverse, lag, dtype):
    a, b = rng.standard_normal((2, 21, n)).astype(dtype)
    got = fgrad.jit(linear_recurrence, static_argnums=(2, 3, 4))(a, b, 1, reverse, lag)
    order = range(n)[::-1] if reverse else range(n)
    want, before = b.copy(), None
    for k in order:
        if before is not None:
            want[:, k] += a[:, before if lag else k] * want[:, before]
        before = k
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_ties_of_running_extrema(name, reverse, axis):
    x, t = rng.integers(0, 4, (5, 6, 7)).astype(np.float32), rng.standard_normal((5, 6, 7)).astype(np.float32)
    f = lambda x: getattr(lax, name)(x, axis=axis, reverse=reverse)
    y, dy = fgrad.jit(lambda x, t: fgrad.jvp(f, (x,), (t,)))(x, t)
    flip = lambda v: np.flip(v, axis) if reverse else v
    line = lambda v: np.moveaxis(flip(np.asarray(v)), axis, -1)
    ties = (line(x)[..., None, :] == line(y)[..., :, None]) & np.tri(x.shape[axis], dtype=bool)
    np.testing.assert_allclose(line(dy), (ties * line(t)[..., None, :]).sum(-1) / ties.sum(-1), rtol=1e-5, atol=1e-6)
    w = rng.standard_normal(x.shape).astype(np.float32)
    g = fgrad.grad(lambda x: jnp.sum(f(x) * w))(x)
    np.testing.assert_allclose(np.sum(np.asarray(g) * t), np.sum(np.asarray(dy) * w), rtol=1e-4)


def test_running_maxima_end_at_a_nan():
    x = np.array([1, 2, np.nan, 5], np.float32)
    np.testing.assert_array_equal(fgrad.jvp(lax.cummax, (x,), (np.ones(4, np.float32),))[1], [1, 1, 0, 0])
    np.testing.assert_array_equal(fgrad.grad(lambda x: jnp.sum(lax.cummax(x) * jnp.arange(1.0, 5)))(x), [1, 2, 0, 0])


@pytest.mark.parametrize("reverse", [False, True])
def test_running_logarithms_of_sums(reverse):
    x = (rng.standard_normal((4, 300)) * 30).astype(np.float32)
    w = rng.standard_normal((4, 300)).astype(np.float32)
    got = fgrad.grad(lambda x: jnp.sum(lax.cumlogsumexp(x, axis=1, reverse=reverse) * w))(x)
    z, g = (np.flip(v, 1).astype(float) if reverse else v.astype(float) for v in (x, w))
    shares = np.exp(z[:, None, :] - np.logaddexp.accumulate(z, 1)[:, :, None]) * np.tri(300)
    want = np.einsum("bk,bki->bi", g, shares)
    np.testing.assert_allclose(got, np.flip(want, 1) if reverse else want, rtol=1e-3, atol=1e-5)


def test_shares_of_infinities():
    slope = lambda x, k: np.asarray(fgrad.grad(lambda x: lax.cumlogsumexp(x)[k])(np.array(x, np.float32)))
    np.testing.assert_array_equal(slope([-np.inf, -np.inf, -np.inf], 2), [0, 0, 0])
    np.testing.assert_array_equal(slope([np.inf, 1, np.inf, 2], 3), [0.5, 0, 0.5, 0])
    np.testing.assert_array_equal(slope([1, -np.inf, np.inf, 88], 1), [1, 0, 0, 0])
