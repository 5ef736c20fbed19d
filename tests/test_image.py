"""Pooling and resizing against NumPy."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import image, nn
from tests.derivatives import check_derivatives

X = np.random.default_rng(0).standard_normal((2, 6, 4, 3)).astype(np.float32)


def blocks(x):
    """(batch, rows, columns, features, elements) of windows of 2 x 2."""
    return x.reshape(2, 3, 2, 2, 2, 3).transpose(0, 1, 3, 5, 2, 4).reshape(2, 3, 2, 3, 4)


def test_pooling():
    args = (2, 2), (2, 2)
    np.testing.assert_array_equal(nn.max_pool(X, *args), blocks(X).max(-1))
    np.testing.assert_array_equal(nn.min_pool(X, *args), blocks(X).min(-1))
    np.testing.assert_allclose(nn.avg_pool(X, *args), blocks(X).mean(-1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(nn.lp_pool(X, 2, *args), np.sqrt((blocks(X) ** 2).sum(-1)), rtol=1e-5)
    np.testing.assert_allclose(nn.lp_pool(X, 3, *args), (np.abs(blocks(X)) ** 3).sum(-1) ** (1 / 3), rtol=1e-5)
    np.testing.assert_allclose(
        nn.avg_pool(X, (3, 3), (1, 1), "SAME", count_include_pad=False)[0, 0, 0], X[0, :2, :2].mean((0, 1)), rtol=1e-5
    )
    np.testing.assert_allclose(nn.avg_pool(X, (3, 3), (1, 1), ((1, 1), (1, 1)))[0, 0, 0], X[0, :2, :2].sum((0, 1)) / 9, rtol=1e-5)
    np.testing.assert_array_equal(nn.max_pool(X[0], *args), nn.max_pool(X, *args)[0])
    assert nn.max_pool(np.arange(6, dtype=np.int8).reshape(6, 1), (3,), (1,), "SAME").ravel().tolist() == [1, 2, 3, 4, 5, 5]


def test_pooling_derivatives():
    with fgrad.enable_x64():
        x = np.random.default_rng(1).permutation(np.linspace(-1, 1, 40)).reshape(1, 5, 4, 2)
        check_derivatives(lambda x: nn.max_pool(x, (3, 2), (2, 1), "SAME"), x)
        check_derivatives(lambda x: nn.avg_pool(x, (3, 2), (2, 1), "SAME", count_include_pad=False), x)
        check_derivatives(lambda x: nn.lp_pool(x, 2, (3, 2), (2, 1)), x)
    assert not np.asarray(fgrad.grad(lambda x: nn.lp_pool(x, 2, (2,)).sum())(jnp.zeros((4, 1)))).any()


@pytest.mark.parametrize(
    "call",
    [
        lambda: nn.max_pool(X, (2, 2), (1,)),
        lambda: nn.max_pool(X, (2, 2), (1, 1), ((1, 1),)),
        lambda: nn.max_pool(X[0, 0, 0], (2, 2)),
        lambda: image.resize(X, (3, 4), "linear"),
        lambda: image.resize(X, X.shape, "best"),
        lambda: image.scale_and_translate(X, X.shape, (1,), np.ones(1), np.zeros(1), "nearest"),
        lambda: image.scale_and_translate(X, X.shape, (1,), np.ones(2), np.zeros(1), "linear"),
        lambda: image.scale_and_translate(X, (2, 6, 9, 3), (1,), np.ones(1), np.zeros(1), "linear"),
        lambda: image.scale_and_translate(X, X.shape, (7,), np.ones(1), np.zeros(1), "linear"),
    ],
)
def test_errors(call):
    with pytest.raises((TypeError, ValueError)):
        call()


METHODS = ["linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5", "area"]


@pytest.mark.parametrize("method", METHODS)
def test_resize_keeps_constants_and_itself(method):
    for shape in ((2, 13, 9, 3), (2, 3, 2, 3), (2, 3, 9, 3)):
        np.testing.assert_allclose(image.resize(np.full_like(X, 3), shape, method), np.full(shape, 3), rtol=1e-5)
    np.testing.assert_array_equal(image.resize(X, X.shape, method), X)


def test_linear_between_pixels():
    y = np.array([1.0, 4.0, 2.0], np.float32)
    places = (np.arange(7) + 0.5) * 3 / 7 - 0.5
    np.testing.assert_allclose(image.resize(y, (7,), "linear"), np.interp(places, np.arange(3), y), rtol=1e-5)
    np.testing.assert_allclose(image.resize(y, (2,), "linear", antialias=False), np.interp([0.25, 1.75], np.arange(3), y), rtol=1e-5)
    np.testing.assert_allclose(image.resize(np.arange(6.0, dtype=np.float32), (3,), "area"), [0.5, 2.5, 4.5], rtol=1e-6)
    assert image.resize(np.arange(3), (6,), "nearest").tolist() == [0, 0, 1, 1, 2, 2]
    assert image.resize(np.arange(9), (3,), "nearest").tolist() == [1, 4, 7]
    assert image.resize(np.arange(3), (5,), "nearest").tolist() == [0, 0, 1, 2, 2]
    assert image.resize(np.arange(3), (6,), image.ResizeMethod.LINEAR).dtype == np.float32


def test_translation():
    y = np.array([1.0, 4.0, 2.0, 5.0], np.float32)
    moved = image.scale_and_translate(y, (4,), (0,), np.ones(1), np.array([1.0]), "linear")
    np.testing.assert_allclose(moved, [0, 1, 4, 2])
    shift = lambda t: image.scale_and_translate(y, (4,), (0,), np.ones(1, np.float32), jnp.array([t]), "linear")[1]
    assert float(fgrad.grad(shift)(0.5)) == pytest.approx(-3.0, rel=1e-4)  # the slope between the pixels 1.0 and 4.0


def test_resize_derivatives():
    with fgrad.enable_x64():
        x = np.random.default_rng(2).standard_normal((5, 2))
        for method in ("nearest", *METHODS):
            check_derivatives(lambda x, method=method: image.resize(x, (8, 2), method, False), x, order=1)


@pytest.mark.parametrize("method", ["linear", "cubic", "lanczos3"])
@pytest.mark.parametrize("n, m", [(40, 80), (64, 100), (100, 30), (9, 5), (1, 6), (33, 200), (70, 210)])
@pytest.mark.parametrize("row", [(3,), (), (2, 64)])
def test_few_neighbours_equal_the_matrix_of_weights(method, n, m, row):
    """resize adds few neighbours one by one, or interleaves sums of shifted rows; scale_and_translate multiplies by all weights."""
    x = np.random.default_rng(0).standard_normal((2, n, *row))
    for antialias in (True, False):
        got = image.resize(x, (2, m, *row), method, antialias)
        want = image.scale_and_translate(x, (2, m, *row), (1,), jnp.array([m / n]), jnp.zeros(1), method, antialias)
        np.testing.assert_allclose(got, want, atol=5e-5)
        f = lambda x: (image.resize(x, (2, m, *row), method, antialias) ** 2).sum()  # noqa: B023, E731
        g = lambda x: (image.scale_and_translate(x, (2, m, *row), (1,), jnp.array([m / n]), jnp.zeros(1), method, antialias) ** 2).sum()  # noqa: B023, E731
        np.testing.assert_allclose(fgrad.grad(f)(jnp.asarray(x)), fgrad.grad(g)(jnp.asarray(x)), atol=2e-3)


@pytest.mark.parametrize(
    "shape, to", [((2, 20, 30, 3), (2, 40, 45, 3)), ((20, 30, 16), (9, 64, 16)), ((40, 33, 2), (66, 50, 2)), ((3, 70, 9), (3, 99, 9))]
)
@pytest.mark.parametrize("method", ["linear", "cubic", "lanczos3"])
def test_rows_are_added_for_a_few_neighbours(method, shape, to):
    """Numbers side by side: the sums are those of a row alone, at any number of threads, and a NaN reaches its neighbours only."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    f = fgrad.jit(lambda x: image.resize(x, to, method))
    got, threads = np.asarray(f(x)), fgrad.get_num_threads()
    try:
        fgrad.set_num_threads(1)
        assert np.asarray(f(x)).tobytes() == got.tobytes()
    finally:
        fgrad.set_num_threads(threads)
    alone = np.stack([np.asarray(image.resize(x[..., c], to[:-1], method)) for c in range(shape[-1])], -1)
    np.testing.assert_allclose(got, alone, rtol=1e-5, atol=2e-5)
    assert "band" in " ".join([name for _, name in f.lower(x).compile().profile(x, repeat=1)])
    ct = np.random.default_rng(1).standard_normal(to).astype(np.float32)
    (pulled,) = fgrad.vjp(f, x)[1](ct)
    np.testing.assert_allclose(np.vdot(pulled, x), np.vdot(got, ct), rtol=1e-3, atol=1e-2)
