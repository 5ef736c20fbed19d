"""Many rows of a few elements times a small matrix: turned into columns by blocks where vectors have 256 bits."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp

ROWS = (256, 257, 300, 383, 1001)


@pytest.fixture(autouse=True)
def x64():
    with fgrad.enable_x64(True):
        yield


def drawn(dtype, *shape):
    return np.random.RandomState(sum(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 9])
def test_rows_and_columns(dtype, n, k):
    tolerance = dict(rtol=1e-4, atol=1e-5) if dtype == "float32" else dict(rtol=1e-12, atol=1e-13)
    for rows in ROWS:
        a, b = drawn(dtype, rows, k), drawn(dtype, k, n)
        whole = fgrad.jit(jnp.matmul)(a, b)
        assert whole.dtype == dtype
        np.testing.assert_allclose(whole, a @ b, **tolerance)
        np.testing.assert_array_equal(whole[:4], jnp.matmul(a[:4], b))  # the same chain over k
        np.testing.assert_allclose(fgrad.jit(lambda a, c: a @ c.T)(a, b.T.copy()), a @ b, **tolerance)
        np.testing.assert_allclose(fgrad.jit(lambda a, b: jnp.einsum("kn,rk->rn", b, a))(a, b), a @ b, **tolerance)
        np.testing.assert_allclose(fgrad.jit(lambda a, b: jnp.matmul(b.T, a.T))(a, b), (a @ b).T, **tolerance)


def test_what_is_not_finite_stays_in_its_row():
    a, b = drawn("float32", 300, 3), drawn("float32", 3, 3)
    expected = np.array(jnp.matmul(a, b))
    a[131] = np.nan
    a[299, 1] = np.inf
    with np.errstate(invalid="ignore"):
        expected[[131, 299]] = a[[131, 299]] @ b
    np.testing.assert_allclose(fgrad.jit(jnp.matmul)(a, b), expected, rtol=1e-5)


def test_batches_that_share_a_matrix():
    points, turn = drawn("float32", 7, 90, 3), drawn("float32", 3, 3)
    np.testing.assert_allclose(fgrad.jit(fgrad.vmap(lambda p: p @ turn))(points), points @ turn, rtol=1e-4, atol=1e-5)
    value, gradient = fgrad.jit(fgrad.value_and_grad(lambda t: jnp.sum((points @ t) ** 2)))(turn)
    np.testing.assert_allclose(gradient, 2 * np.einsum("bri,brj->ij", points, points @ turn), rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [2, 3, 8, 17, 32, 33])
def test_short_sums_of_many_columns(dtype, k):
    tolerance = dict(rtol=1e-4, atol=2e-5) if dtype == "float32" else dict(rtol=1e-12, atol=1e-12)
    for m in (3, 6, 7, 20, 61):
        for n in (16, 32, 33, 40, 100, 257, 1100):
            a, b = drawn(dtype, m, k), drawn(dtype, k, n)
            np.testing.assert_allclose(fgrad.jit(jnp.matmul)(a, b), a @ b, **tolerance)
            np.testing.assert_allclose(fgrad.jit(lambda a, b: a.T @ b)(a.T.copy(), b), a @ b, **tolerance)
            np.testing.assert_allclose(fgrad.jit(lambda a, b: a @ b.T)(a, b.T.copy()), a @ b, **tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_short_sums_do_not_depend_on_the_rows_beside_them(dtype):
    a, b = drawn(dtype, 61, 8), drawn(dtype, 8, 520)
    whole = np.array(fgrad.jit(jnp.matmul)(a, b))
    for rows in (5, 6, 12, 23, 36, 60):
        np.testing.assert_array_equal(fgrad.jit(jnp.matmul)(a[:rows], b), whole[:rows])
    batch = drawn(dtype, 5, 61, 8)
    out = fgrad.jit(lambda x: jnp.matmul(x, b))(batch)
    each = fgrad.jit(lambda x: jnp.einsum("bmk,bkn->bmn", x, jnp.broadcast_to(b, (5, 8, 520))))(batch)
    np.testing.assert_array_equal(out, np.stack([jnp.matmul(x, b) for x in batch]))
    np.testing.assert_array_equal(each, out)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_rows_against_long_rows(dtype):
    tolerance = dict(rtol=1e-4, atol=2e-4) if dtype == "float32" else dict(rtol=1e-12, atol=1e-11)
    for m in (2, 3, 4, 5, 8):
        for k in (64, 100, 1000, 1003):
            a, b = drawn(dtype, m, k), drawn(dtype, 77, k)
            np.testing.assert_allclose(fgrad.jit(lambda a, b: a @ b.T)(a, b), a @ b.T, **tolerance)
            np.testing.assert_allclose(fgrad.jit(lambda a, b: a @ b.T)(b, a), b @ a.T, **tolerance)
