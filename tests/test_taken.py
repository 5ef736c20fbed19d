"""Gathers of single items within elementwise groups: as NumPy's, whatever the table, the indices and what surrounds them."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from tests.kernels import vm_builder as vb
from tests.kernels.harness import run_kernel

rng = np.random.default_rng(0)


def units(f, *args):
    """What the instructions of a program do."""
    return [label for _, label in fgrad.jit(f).lower(*args).compile().profile(*args, repeat=1)]


def table(n, dtype):
    x = rng.integers(0, 100, n) if np.dtype(dtype).kind in "iub" else rng.standard_normal(n)
    return (x + 1j * x[::-1]).astype(dtype) if np.dtype(dtype).kind == "c" else x.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int16", "int32", "bool", "complex64", "float16", "bfloat16"])
@pytest.mark.parametrize("mode", ["clip", "wrap", "fill", None])
def test_items(dtype, mode):
    dtype = jnp.dtype(dtype)
    x, i = table(700, dtype), rng.integers(-1000, 1000, (3, 1111)).astype(np.int32)
    got = fgrad.jit(lambda x, i: jnp.take(x, i // 2 + 100, mode=mode))(x, i)
    at = i // 2 + 100
    want = x[np.clip(at, 0, 699)] if mode == "clip" else x[at % 700]
    if mode in (None, "fill"):
        outside = (at >= 700) | (at < -700)
        fill = {"f": np.nan, "c": np.nan, "V": np.nan, "b": True, "u": 255}.get(dtype.kind)
        fill = np.iinfo(dtype).min if fill is None else fill
        want = np.where(outside, np.asarray(fill, dtype), want)
    np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex128", "float32"])
def test_wide_items_at_wide_indices(dtype):
    with fgrad.enable_x64():
        x, i = table(5000, dtype), rng.integers(-9000, 9000, 3001)
        for f in (lambda m, x, i: m.take(x, i * 2, mode="clip") * 2, lambda m, x, i: m.take(x[::-2], i - 1, mode="clip")):
            np.testing.assert_array_equal(np.asarray(fgrad.jit(lambda x, i, f=f: f(jnp, x, i))(x, i)), f(np, x, i))


def bilinear(m, image, y, x):
    top, left = m.floor(y).astype(np.int32), m.floor(x).astype(np.int32)
    v, u = y - top, x - left
    across = lambda i: image[i, left] * (1 - u) + image[i, m.clip(left + 1, 0, image.shape[1] - 1)] * u  # noqa: E731
    return across(top) * (1 - v) + across(m.clip(top + 1, 0, image.shape[0] - 1)) * v


def test_sampling_is_one_pass():
    image = rng.standard_normal((50, 70)).astype(np.float32)
    y, x = rng.uniform(0, 49, (61, 67)).astype(np.float32), rng.uniform(0, 69, (61, 67)).astype(np.float32)
    f = lambda *args: bilinear(jnp, *args)  # noqa: E731
    assert len(units(f, image, y, x)) == 1
    np.testing.assert_allclose(fgrad.jit(f)(image, y, x), bilinear(np, image, y, x), rtol=1e-5, atol=1e-6)
    grads = fgrad.jit(fgrad.grad(lambda *args: (f(*args) ** 2).sum(), (0, 1)))(image, y, x)
    fgrad.test_util.check_grads(lambda image: f(image, y, x), (image,), 1, modes=("rev",), eps=0.5)  # linear: a large step loses no digits
    eager = fgrad.grad(lambda *args: (f(*args) ** 2).sum(), (0, 1))(image, y, x)
    for a, b in zip(grads, eager):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)


def test_tables_that_a_group_of_the_shape_makes():
    x, i = table(2000, "float32"), rng.integers(0, 2000, 2000).astype(np.int32)
    f = lambda m, x, i: (x * 2 + 1)[(i + 7) % 2000] - x * 2  # noqa: E731
    np.testing.assert_allclose(fgrad.jit(lambda x, i: f(jnp, x, i))(x, i), f(np, x, i), rtol=1e-6)
    g = lambda m, x, i: ((x + 1)[i] * 2)[(i * 3) % 2000] + 1  # noqa: E731
    np.testing.assert_allclose(fgrad.jit(lambda x, i: g(jnp, x, i))(x, i), g(np, x, i), rtol=1e-6)


def test_a_table_is_not_written_over():
    x, i = table(3000, "float32"), rng.integers(0, 3000, 3000).astype(np.int32)
    want = x[i[::-1]] + x
    f = fgrad.jit(lambda x, i: x[i[::-1] + 0] + x, donate_argnums=(0, 1))
    np.testing.assert_array_equal(f(jnp.array(x), jnp.array(i)), want)
    got = fgrad.jit(lambda x, i: fgrad.lax.fori_loop(0, 3, lambda _, x: x[i] - x, x))(x, i)
    for _ in range(3):
        x = x[i] - x
    np.testing.assert_array_equal(got, x)


def test_a_reduction_of_items():
    x, i = table(1000, "float32"), rng.integers(0, 1000, (40, 500)).astype(np.int32)
    np.testing.assert_allclose(fgrad.jit(lambda x, i: (x[i] * 2).sum(1))(x, i), (x[i] * 2).sum(1), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(fgrad.jit(lambda x, i: x[i].max(0))(x, i), x[i].max(0))


def test_a_table_larger_than_caches():
    x, i = np.arange(3_000_000, dtype=np.float32), rng.integers(0, 3_000_000, 10_007).astype(np.int32)
    np.testing.assert_array_equal(fgrad.jit(lambda x, i: x[i] + 1)(x, i), x[i] + 1)
    np.testing.assert_array_equal(fgrad.jit(lambda x, i: x[i])(x, i), x[i])


def test_vmapped_tables_are_left_to_the_gather():
    x, i = rng.standard_normal((4, 500)).astype(np.float32), rng.integers(0, 500, (4, 2000)).astype(np.int32)
    got = fgrad.jit(fgrad.vmap(lambda x, i: x[i + 0] * 2))(x, i)
    np.testing.assert_array_equal(got, np.take_along_axis(x, i, 1) * 2)


@pytest.mark.parametrize("args", [(0, 1, 0), (0, -1, 0), (0, 0, 2), (0, 0, -1)])
def test_check_refuses_what_is_no_table_or_mode(args):
    x, i = table(50, "float32"), np.zeros(10, np.int32)
    with pytest.raises(ValueError, match="takes from table"):
        run_kernel(vb.KERNEL, [i, x], [((10,), "float32")], vb.encode(1, [], [("take", "float32", *args)], [(1, "none")]))


@pytest.mark.parametrize("x", [table(50, "float64"), table(50, "float32").reshape(5, 10), table(0, "float32")])
def test_check_refuses_other_tables(x):
    with pytest.raises(ValueError, match="no vector of type"):
        ip = vb.encode(1, [], [("take", "float32", 0, 0, 0)], [(1, "none")])
        run_kernel(vb.KERNEL, [np.zeros(10, np.int32), x], [((10,), "float32")], ip)


@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_check_refuses_other_indices(dtype):
    with pytest.raises(ValueError, match="operand 0 of take has type"):
        ip = vb.encode(1, [], [("take", "float32", 0, 0, 0)], [(1, "none")])
        run_kernel(vb.KERNEL, [np.zeros(10, dtype), table(50, "float32")], [((10,), "float32")], ip)
