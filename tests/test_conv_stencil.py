"""Convolutions of images of one feature with small kernels are sums of shifted images, part of what is computed around them."""

import itertools

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax


def convolved(x, w, margins, apart):
    """(n, ...) by NumPy, in float64."""
    x = np.pad(x.astype(np.float64), [(0, 0), *[(max(lo, 0), max(hi, 0)) for lo, hi in margins]])
    x = x[(slice(None), *(slice(max(-lo, 0), n - max(-hi, 0)) for n, (lo, hi) in zip(x.shape[1:], margins)))]
    size = [n - (k - 1) * d for n, k, d in zip(x.shape[1:], w.shape, apart)]
    out = np.zeros((len(x), *size))
    for at in itertools.product(*map(range, w.shape)):
        out += w[at] * x[(slice(None), *(slice(i * d, i * d + n) for i, d, n in zip(at, apart, size)))]
    return out


def by_lax(x, w, margins, apart):
    return lax.conv_general_dilated(x[:, None], w[None, None], (1,) * w.ndim, margins, rhs_dilation=apart)[:, 0]


CASES = [
    ((1, 70), (3,), ((1, 1),), (1,)),
    ((1, 1000), (9,), ((0, 8),), (1,)),
    ((3, 300), (2,), ((0, 0),), (1,)),
    ((1, 64, 64), (3, 3), ((1, 1), (1, 1)), (1, 1)),
    ((1, 33, 129), (1, 5), ((0, 0), (2, 2)), (1, 1)),
    ((1, 150, 130), (3, 3), ((0, 0), (0, 0)), (1, 1)),
    ((8, 40, 50), (3, 3), ((1, 1), (1, 1)), (1, 1)),
    ((1, 40, 50), (2, 3), ((3, 0), (-2, 4)), (1, 1)),
    ((2, 40, 50), (3, 3), ((2, 2), (3, 3)), (2, 3)),
    ((1, 20, 20, 20), (2, 2, 2), ((1, 0), (0, 1), (0, 0)), (1, 1, 1)),
    ((1, 3, 3), (3, 3), ((1, 1), (1, 1)), (1, 1)),
    ((1, 40, 50), (5, 5), ((2, 2), (2, 2)), (1, 1)),
    ((1, 300, 120), (4, 5), ((0, 3), (2, 2)), (1, 2)),
    ((0, 40, 50), (3, 3), ((1, 1), (1, 1)), (1, 1)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape, window, margins, apart", CASES, ids=str)
def test_values_and_gradients(shape, window, margins, apart, dtype):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(shape).astype(dtype), rng.standard_normal(window).astype(dtype)
    want = convolved(x, w, margins, apart)
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype == "float32" else {"rtol": 1e-12, "atol": 1e-12}
    with fgrad.enable_x64(dtype == "float64"):
        got = fgrad.jit(lambda x, w: by_lax(x, w, margins, apart))(x, w)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, want, **close)
        t = rng.standard_normal(want.shape).astype(dtype)
        gx, gw = fgrad.jit(fgrad.grad(lambda x, w: (by_lax(x, w, margins, apart) * t).sum(), (0, 1)))(x, w)
    u, v = rng.standard_normal(shape), rng.standard_normal(window)
    np.testing.assert_allclose((gx * u).sum(), (convolved(u, w, margins, apart) * t).sum(), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose((gw * v).sum(), (convolved(x, v, margins, apart) * t).sum(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("size, apart", [(64, True), (128, False), (256, True)])
def test_larger_kernels_over_one_image(size, apart):
    x, w = np.ones((1, size, size), np.float32), np.ones((5, 5), np.float32)
    f = fgrad.jit(lambda x: 1 / by_lax(x, w, ((2, 2), (2, 2)), (1, 1)))
    assert apart != any("conv" in name for _, name in f.lower(x).compile().profile(x, repeat=1))


def test_it_joins_what_is_around_it():
    w = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]], np.float32)
    x = np.random.default_rng(0).standard_normal((1, 200, 200)).astype(np.float32)

    def step(x):
        return x + 0.1 * by_lax(x, w, ((1, 1), (1, 1)), (1, 1))

    names = [name for _, name in fgrad.jit(step).lower(x).compile().profile(x, repeat=1)]
    assert not any("conv" in name for name in names), names
    got = fgrad.jit(lambda x: lax.fori_loop(0, 3, lambda _, x: step(x), x))(x)
    want = x
    for _ in range(3):
        want = want + 0.1 * convolved(want, w, ((1, 1), (1, 1)), (1, 1))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_eager_and_batched():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 40, 50)).astype(np.float32), rng.standard_normal((3, 3)).astype(np.float32)
    want = convolved(x, w, ((1, 1), (1, 1)), (1, 1))
    np.testing.assert_allclose(by_lax(x, w, ((1, 1), (1, 1)), (1, 1)), want, rtol=1e-4, atol=1e-5)
    one = fgrad.vmap(lambda x: by_lax(x[None], w, ((1, 1), (1, 1)), (1, 1))[0])
    np.testing.assert_allclose(fgrad.jit(one)(x), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jnp.convolve(x[0, 0], w[0], mode="same"), np.convolve(x[0, 0], w[0], mode="same"), rtol=1e-4, atol=1e-5)
