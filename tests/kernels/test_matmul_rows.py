"""A few rows against a large matrix, read once where it lies: 16-bit floats widened in registers, matrices that no cache holds."""

import ml_dtypes
import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad._kernels import parallel

DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}


def operands(rows, k, n, dtype, turned, seed=0):
    rng = np.random.default_rng(seed)
    shape = (n, k) if turned else (k, n)
    return [rng.standard_normal(s, np.float32).astype(DTYPES[dtype]) for s in ((rows, k), shape)]


def check(x, w, turned, preferred=None):
    value = fgrad.jit(lambda x, w: jnp.matmul(x, w.T if turned else w, preferred_element_type=preferred))(x, w)
    x, w = x.astype(np.float64), w.astype(np.float64)
    w = w.T if turned else w
    assert value.dtype == (preferred or value.dtype)
    eps = float(jnp.finfo(value.dtype).eps)
    np.testing.assert_array_less(np.abs(np.asarray(value, np.float64) - x @ w), 2e-6 * (np.abs(x) @ np.abs(w)) + eps * np.abs(x @ w) + 1e-6)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("k, n", [(1, 40), (7, 33), (31, 1000), (32, 64), (65, 3), (500, 129), (2100, 70), (9000, 17)])
def test_rows_against_16_bits(k, n, dtype, turned):
    for rows in (1, 2, 3, 4, 5, 8):
        x, w = operands(rows, k, n, dtype, turned)
        check(x, w, turned)
        check(x, w, turned, jnp.float32)


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_16_bit_value_is_widened(dtype):
    """Each number times one, alone in its sum, along k and along n: subnormal numbers, infinities and NaNs as well."""
    numbers = np.arange(1 << 16, dtype=np.uint16).view(DTYPES[dtype]).reshape(1024, 64)
    one = np.eye(1, dtype=DTYPES[dtype])
    for w, turned in ((numbers.reshape(-1, 1), True), (numbers.reshape(1, -1), False)):
        value = fgrad.jit(lambda x, w, turned=turned: jnp.matmul(x, w.T if turned else w, preferred_element_type=jnp.float32))(one, w)
        np.testing.assert_array_equal(np.asarray(value).ravel(), numbers.astype(np.float32).ravel())


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rows", [3, 14, 15, 24, 25, 40])
def test_rows_against_a_matrix_beyond_the_caches(rows, turned):
    x, w = operands(rows, 521, 8210, "float32", turned)
    check(x, w, turned)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k, n", [(24, 40), (100, 70), (129, 33), (256, 17), (700, 130), (5000, 12)])
def test_some_rows_against_rows(k, n, dtype):
    """Sums of products of rows, or register tiles: either side of where one becomes the other, with the same bits on one thread and two."""
    rng = np.random.default_rng(0)
    before = parallel.get_num_threads()
    for rows in (9, 10, 12, 16, 18, 24, 27, 32, 33):
        x, w = (rng.standard_normal(s).astype(dtype) for s in ((rows, k), (n, k)))
        bound, got = np.finfo(dtype).eps * 20 * (np.abs(x) @ np.abs(w).T), []
        try:
            for threads in (1, 2):
                parallel.set_num_threads(threads)
                with fgrad.enable_x64():
                    got.append([np.asarray(v) for v in fgrad.jit(lambda x, w: (x @ w.T, w @ x.T))(x, w)])
        finally:
            parallel.set_num_threads(before)
        for value in (got[0][0], got[0][1].T):
            assert value.dtype == dtype
            np.testing.assert_array_less(np.abs(value.astype(np.float64) - x.astype(np.float64) @ w.T.astype(np.float64)), bound)
        for one, two in zip(*got):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows, k, n", [(3, 127, 3), (3, 128, 3), (2, 129, 2), (8, 1000, 8), (9, 500, 15), (15, 4099, 4), (8, 17000, 5)])
def test_few_long_rows_against_as_few(rows, k, n, dtype):
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((m, k)).astype(dtype) for m in (rows, n))
    with fgrad.enable_x64():
        got = np.asarray(fgrad.jit(lambda x, w: x @ w.T)(x, w), np.float64)
    x, w = x.astype(float), w.astype(float)
    assert (np.abs(got - x @ w.T) <= 8 * np.finfo(dtype).eps * (np.abs(x) @ np.abs(w.T))).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows, k, n", [(10000, 10, 3), (9999, 9, 5), (5003, 17, 2), (20001, 31, 7)])
def test_many_rows_of_a_few_elements(rows, k, n, dtype):
    """Packed by parts of squares, and shared among threads for what packing costs: with the same bits on one."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((rows, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    before, got = parallel.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            parallel.set_num_threads(threads)
            with fgrad.enable_x64():
                got.append([np.asarray(v) for v in fgrad.jit(lambda x, w: (x @ w, w.T @ x.T))(x, w)])
    finally:
        parallel.set_num_threads(before)
    for values in got:
        np.testing.assert_array_equal(values[0], got[0][0])
        np.testing.assert_array_equal(values[1], got[0][1])
    exact = x.astype(float) @ w.astype(float)
    bound = 8 * np.finfo(dtype).eps * (np.abs(x).astype(float) @ np.abs(w)) + 1e-30
    assert (np.abs(got[0][0] - exact) <= bound).all() and (np.abs(got[0][1].T - exact) <= bound).all()


@pytest.mark.parametrize("rows", [9, 15, 47, 48])
def test_rows_of_bfloat16_in_pairs(rows):
    check(*operands(rows, 333, 700, "bfloat16", False), False)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows, k, n", [(8, 300, 2048), (16, 600, 1024), (40, 130, 4096), (200, 128, 3072), (20, 1100, 700)])
def test_rows_that_meet_in_few_cache_sets(rows, k, n, dtype):
    rng = np.random.default_rng(1)
    a = rng.integers(-4, 5, (rows, 4096)).astype(dtype)[:, :k]  # sums of such integers are exact, and rows lie pages apart
    b = rng.integers(-4, 5, (k, n)).astype(dtype)
    with fgrad.enable_x64(True):
        np.testing.assert_array_equal(
            fgrad.jit(lambda a, b: a[:, :k] @ b)(jnp.asarray(np.pad(a, ((0, 0), (0, 4096 - k)))), jnp.asarray(b)), a @ b
        )


@pytest.mark.parametrize("rows, heads, width", [(1, 4, 40), (3, 2, 33), (8, 1, 64)])
def test_attention_of_few_queries(rows, heads, width):
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal((2, n, heads, width)).astype("f4") for n in (rows, 700, 700))
    logits = np.einsum("bthd,bshd->bhts", q, k, dtype="f8") / width**0.5
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    expected = np.einsum("bhts,bshd->bthd", weights / weights.sum(-1, keepdims=True), v)
    np.testing.assert_allclose(fgrad.nn.dot_product_attention(q, k, v), expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("spec", ["bmk,bk->bm", "bkm,bk->bm"])
@pytest.mark.parametrize("dtype, m, k", [("float32", 100, 33), ("float32", 9, 70), ("float32", 64, 300), ("float64", 95, 89)])
def test_a_vector_against_each_matrix_of_a_large_batch(dtype, m, k, spec):
    """A batch that comes from memory is fetched ahead: the same bits as of its parts, which are not."""
    rng = np.random.default_rng(0)
    batch = (17 << 20) // (m * k * np.dtype(dtype).itemsize)
    with fgrad.enable_x64():
        x, y = (jnp.array(rng.standard_normal(s), dtype) for s in ((batch, m, k) if spec.startswith("bmk") else (batch, k, m), (batch, k)))
        product = fgrad.jit(lambda x, y: jnp.einsum(spec, x, y))
        whole, parts = product(x, y), [product(x[i : i + 100], y[i : i + 100]) for i in range(0, batch, 100)]
        np.testing.assert_array_equal(whole, np.concatenate(parts))
        np.testing.assert_allclose(whole, np.einsum(spec, x, y), atol=1e-3)
