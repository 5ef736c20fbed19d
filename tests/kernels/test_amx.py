"""Products on the tile unit, beside the same products without it: values, what the unit cannot take, layouts, threads."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from tests.kernels.harness import without_tiles

pytestmark = pytest.mark.usefixtures("tile_unit")
rng = np.random.default_rng(7)


def product(spec="mk,kn->mn"):
    return fgrad.jit(lambda a, b: jnp.einsum(spec, a, b))


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


SHAPES = [
    (256, 256, 256),
    (97, 300, 161),
    (640, 40, 33),
    (33, 1000, 640),
    (1000, 513, 1001),
    (17, 4096, 2048),
    (300, 2000, 300),
    (2048, 8, 2048),
    (256, 8192, 256),
]


@pytest.mark.parametrize("m,k,n", SHAPES)
@pytest.mark.parametrize("spec,ta,tb", [("mk,kn->mn", 0, 0), ("km,kn->mn", 1, 0), ("mk,nk->mn", 0, 1), ("km,nk->nm", 1, 1)])
def test_as_near_as_a_chain_of_multiply_adds(m, k, n, spec, ta, tb):
    a, b = normal(*((k, m) if ta else (m, k))), normal(*((n, k) if tb else (k, n)))
    exact = np.einsum(spec, a.astype(np.float64), b.astype(np.float64))
    f = product(spec)
    error = np.abs(np.asarray(f(jnp.asarray(a), jnp.asarray(b))) - exact).max()
    assert error <= 48 * np.sqrt(k) * 2.0**-23, error
    assert error <= 2 * np.abs(np.asarray(without_tiles(f, a, b)) - exact).max() + 1e-6


@pytest.mark.parametrize("out", ["bfloat16", "float32"])
@pytest.mark.parametrize("m,k,n", [*SHAPES, (64, 31, 64), (64, 33, 200), (300, 7, 300), (256, 8, 512), (640, 11, 64), (77, 13, 1000)])
def test_bfloat16(m, k, n, out):
    a, b = jnp.asarray(normal(m, k), "bfloat16"), jnp.asarray(normal(k, n), "bfloat16")
    exact = np.asarray(a, np.float64) @ np.asarray(b, np.float64)
    got = np.asarray(jnp.matmul(a, b, preferred_element_type=out), np.float64)
    np.testing.assert_allclose(got, exact, rtol=2.0**-8 if out == "bfloat16" else 0, atol=1e-5 * np.sqrt(k))
    turned = jnp.asarray(np.asarray(a).T)
    np.testing.assert_allclose(
        np.asarray(jnp.matmul(turned.T, b, preferred_element_type=out), np.float64), got, rtol=2.0**-7, atol=1e-5 * np.sqrt(k)
    )


BATCHES = [
    ("bmk,bkn->bmn", (20, 100, 96), (20, 96, 120)),
    ("bmk,kn->bmn", (6, 150, 200), (200, 300)),
    ("mk,bkn->bmn", (200, 150), (6, 150, 300)),
    ("bhmk,bhnk->bhmn", (2, 3, 130, 64), (2, 3, 200, 64)),
    ("bmhk,bnhk->bhmn", (2, 130, 3, 64), (2, 200, 3, 64)),
]


@pytest.mark.parametrize("specs", BATCHES)
def test_batches(specs):
    spec, first, second = specs
    a, b = normal(*first), normal(*second)
    np.testing.assert_allclose(np.asarray(product(spec)(a, b)), np.einsum(spec, a.astype(np.float64), b.astype(np.float64)), atol=2e-4)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38, 1e20])
@pytest.mark.parametrize("where", [(0, (5, 7)), (1, (200, 3)), (0, (511, 511)), (1, (0, 0))])
def test_values_that_have_no_parts(value, where):
    operands = [normal(512, 512), normal(512, 512)]
    operands[where[0]][where[1]] = value
    f = product()
    got, want = np.asarray(f(*operands)), np.asarray(without_tiles(f, *operands))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4 * max(1, abs(value) * 1e-3 if np.isfinite(value) else 1))


def test_infinity_meets_only_its_row():
    a, b = normal(512, 512), np.abs(normal(512, 512)) + 1
    a[100, 9] = np.inf
    got = np.asarray(product()(a, b))
    assert np.isposinf(got[100]).all() and np.isfinite(np.delete(got, 100, 0)).all()


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("scale", [1e-25, 1e-30, 1e-34, 1e-37])
def test_rows_of_tiny_numbers_keep_their_digits(scale):
    a, b = normal(512, 512), normal(512, 512)
    a[3] *= np.float32(scale)
    b[:, 70] *= np.float32(scale)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    got = np.asarray(product()(a, b))
    np.testing.assert_allclose(got[3, :70] / scale, exact[3, :70] / scale, atol=2e-4)
    np.testing.assert_allclose(got[10:, 70] / scale, exact[10:, 70] / scale, atol=2e-4)


def test_added_to_what_is_there_with_and_without_such_values():
    x, y, c = normal(400, 600), normal(600, 500), normal(400, 500)
    f = fgrad.jit(lambda c, x, y: c + x @ y)
    np.testing.assert_allclose(np.asarray(f(c, x, y)), c + x.astype(np.float64) @ y, atol=2e-4)
    x[9, 9] = np.inf
    np.testing.assert_allclose(np.asarray(f(c, x, y)), without_tiles(f, c, x, y), atol=2e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("m,k,n", [(512, 512, 512), (1000, 700, 90), (48, 3000, 2000)])
def test_bits_do_not_depend_on_threads(m, k, n, dtype):
    a, b = jnp.asarray(normal(m, k), dtype), jnp.asarray(normal(k, n), dtype)
    threads = fgrad.get_num_threads()
    results = []
    try:
        for count in (1, 2, 3, 5):
            fgrad.set_num_threads(count)
            results.append(np.asarray(product()(a, b)))
    finally:
        fgrad.set_num_threads(threads)
    for r in results[1:]:
        np.testing.assert_array_equal(r, results[0])


@pytest.mark.parametrize("first", ["int8", "uint8"])
@pytest.mark.parametrize("second", ["int8", "uint8"])
@pytest.mark.parametrize("m,k,n", [(256, 256, 256), (100, 1001, 77), (33, 5000, 640), (640, 63, 129), (64, 9000, 64)])
def test_bytes(first, second, m, k, n):
    draw = lambda dtype, *shape: rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)  # noqa: E731
    a, b = draw(first, m, k), draw(second, k, n)
    want = a.astype(np.int64) @ b.astype(np.int64)
    f = fgrad.jit(lambda a, b: jnp.matmul(a, b, preferred_element_type="int32"))
    for x, y in ((a, b), (np.asfortranarray(a), b), (a, np.asfortranarray(b)), (np.repeat(a, 2, 1)[:, ::2], np.repeat(b, 2, 1)[:, ::2])):
        np.testing.assert_array_equal(np.asarray(f(x, y)), want)
    turned = fgrad.jit(lambda a, b: jnp.matmul(a.T, b.T, preferred_element_type="int32"))
    np.testing.assert_array_equal(np.asarray(turned(a.T.copy(), b.T.copy())), want)
    batch = fgrad.jit(lambda a, b: jnp.einsum("bmk,bkn->bmn", a, b, preferred_element_type="int32"))
    np.testing.assert_array_equal(np.asarray(batch(np.stack([a, a[::-1]]), np.stack([b, b]))), np.stack([want, want[::-1]]))


@pytest.mark.parametrize("m,k,n", [(300, 200, 260), (200, 400, 140)])
@pytest.mark.parametrize("turned", [False, True])
def test_complex_numbers(m, k, n, turned):
    draw = lambda *shape: normal(*shape) + 1j * normal(*shape)  # noqa: E731
    a, b, c = draw(m, k), draw(k, n), draw(m, n)
    f = fgrad.jit(lambda a, b: a @ (b.T if turned else b))
    other = b.T.copy() if turned else b
    np.testing.assert_allclose(np.asarray(f(a, other)), a.astype(complex) @ b, atol=3e-4)
    added = fgrad.jit(lambda a, b, c: c + a @ (b.T if turned else b))
    np.testing.assert_allclose(np.asarray(added(a, other, c)), c + a.astype(complex) @ b, atol=3e-4)
    a[7, 3] = complex(np.inf, 1)
    np.testing.assert_array_equal(np.isfinite(np.asarray(f(a, other))), np.isfinite(without_tiles(f, a, other)))
    batch = fgrad.jit(lambda a, b: jnp.einsum("bmk,bkn->bmn", a, b))
    x, y = draw(3, m, k), draw(3, k, n)
    np.testing.assert_allclose(np.asarray(batch(x, y)), np.einsum("bmk,bkn->bmn", x.astype(complex), y), atol=3e-4)


@pytest.mark.parametrize("k", [7, 8, 9, 12, 15, 16, 17])
def test_many_short_sums_of_bfloat16(k):
    """What the unit takes since storing them is most of either way; bits are those without it where all sums are exact."""
    a, b = (jnp.asarray(rng.integers(-8, 9, (24, 64, k)), "bfloat16"), jnp.asarray(rng.integers(-8, 9, (24, k, 80)), "bfloat16"))
    f = fgrad.jit(lambda a, b: jnp.matmul(a, b, preferred_element_type="float32"))
    np.testing.assert_array_equal(np.asarray(f(a, b)), np.asarray(a, np.float32) @ np.asarray(b, np.float32))
    np.testing.assert_array_equal(np.asarray(fgrad.jit(jnp.matmul)(a, b)), np.asarray(without_tiles(fgrad.jit(jnp.matmul), a, b)))
