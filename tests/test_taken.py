"""Gathers of single items within elementwise groups: as NumPy's, whatever the table, the indices and what surrounds them."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad.compile import program
from fgrad.compile.taken import take_items
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


def takes2(f, *args):
    """How many gathers of a program find their items by two indices."""
    found = []

    def noted(nodes, outs):
        nodes = take_items(nodes, outs)
        found.extend(n for n in nodes if n.op == "take2")
        return nodes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "take_items", noted)
        got = fgrad.jit(f)(*args)
    return len(found), np.asarray(got)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "int16", "complex64", "float64", "int64", "complex128"])
@pytest.mark.parametrize("mode", ["clip", "fill", "promise_in_bounds", None])
@pytest.mark.parametrize("wide", [False, True])
def test_items_of_two_axes(dtype, mode, wide):
    """Negative indices count from the end, others outside move to the next item or give the fill value."""
    with fgrad.enable_x64():
        x = table(37 * 23, dtype).reshape(37, 23)
        i, j = (rng.integers(-60, 60, (31, 53)).astype(np.int64 if wide else np.int32) for _ in range(2))
        kw = {"fill_value": 1} if mode == "fill" else {}
        n, got = takes2(lambda x, i, j: jnp.asarray(x).at[i, j].get(mode=mode, **kw), x, i, j)
    assert n == (mode != "fill")
    at = [np.where(k < 0, k + size, k) for k, size in zip((i, j), x.shape)]
    want = x[np.clip(at[0], 0, 36), np.clip(at[1], 0, 22)]
    if mode == "fill":
        want = np.where((at[0] < 0) | (at[0] >= 37) | (at[1] < 0) | (at[1] >= 23), np.asarray(1, dtype), want)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("n", [1024, 1025, 1279, 2049, 300_007])
def test_lengths_of_items_of_two_axes(n):
    x, far = table(63, "float32").reshape(9, 7), table(3_000_000, "float32").reshape(3000, 1000)
    for t in (x, far, x[:1], x[:, :1]):
        i, j = (rng.integers(-size, size, n).astype(np.int32) for size in t.shape)
        for f in (lambda x, i, j: x[i, j], lambda x, i, j: x[i, j] * 2 + x[j % x.shape[0], i % x.shape[1]]):
            np.testing.assert_array_equal(takes2(f, t, i, j)[1], f(t, i, j))


def test_which_gathers_have_two_indices():
    x, y = rng.standard_normal((20, 30)).astype(np.float32), rng.standard_normal((10, 12, 5)).astype(np.float32)
    i, j = (rng.integers(-10, 10, (40, 50)).astype(np.int32) for _ in range(2))
    k = rng.integers(-5, 5, (40, 50)).astype(np.int32)
    for count, f, args in (
        (1, lambda x, i, j: x[i, j], (x, i, j)),
        (1, lambda x, i, j: x[i % 20, 3 + i // 10] + 1, (x, i, j)),  # bounds are known
        (1, lambda y, i, j, k: y[i, j, k], (y, i, j, k)),  # the first index of two is made of two
        (0, lambda x, i, j: x[i, 3], (x, i, j)),  # rows of one column
        (0, lambda x, i, j: x.reshape(-1)[i * 30 + j + 300] * 2, (x, i, j)),  # which no bounds keep apart
        (1, lambda x, i, j: x[i[:, :1], j], (x, i, j)),
        (1, lambda x, i, j: x[i, j[:1]], (x, i, j)),
        (1, lambda x, i, j: x[i[:, :1], j[:1]], (x, i, j)),
        (2, lambda x, i, j: x[i, j] - x[i, j + 1], (x, i, j)),
        (1, lambda x, i, j: x.T[i, j], (x, i, j)),
        (1, lambda x, i, j: x[i, j].sum(1), (x, i, j)),
    ):
        n, got = takes2(f, *args)
        assert n == count, (n, count)
        np.testing.assert_allclose(got, f(*args), rtol=1e-5, atol=1e-5)
    n, got = takes2(fgrad.grad(lambda x, i, j: (x[i, j] ** 2).sum()), x, i, j)  # the scatter reads the places, too
    want = np.zeros_like(x)
    np.add.at(want, (i, j), 2 * x[i, j])
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("turned", [False, True])
def test_pairs_of_indices_in_place(turned):
    """A result may take the memory of its indices."""
    x, i, j = rng.integers(0, 50, (50, 50)).astype(np.int32), *(rng.integers(0, 50, 3000).astype(np.int32) for _ in range(2))
    f = (lambda x, i, j: x[j, i]) if turned else (lambda x, i, j: x[i, j])
    np.testing.assert_array_equal(fgrad.jit(f, donate_argnums=1)(x, jnp.array(i), j), f(x, i, j))
    got = fgrad.jit(lambda x, i, j: fgrad.lax.fori_loop(0, 3, lambda _, i: f(x, i, j), i))(x, i, j)
    for _ in range(3):
        i = f(x, i, j)
    np.testing.assert_array_equal(got, i)


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


@pytest.mark.parametrize("dtype", ["float32", "int16", "complex64", "float64"])
@pytest.mark.parametrize("mode", ["clip", "fill", "wrap", None])
def test_items_of_rows(dtype, mode):
    """Rows with indices each of their own are operations of a group; several rows at the same ones are left to the gather."""
    with fgrad.enable_x64():
        x = table(6 * 5 * 70, dtype).reshape(6, 5, 70)
        own, few = (rng.integers(-150, 150, s).astype(np.int32) for s in ((6, 5, 211), (6, 211)))
        at = lambda x, i: jnp.asarray(x).at[i].get(mode=mode, **({"fill_value": 1} if mode == "fill" else {})) * 2
        by_row, by_channel = fgrad.vmap(fgrad.vmap(at)), fgrad.vmap(fgrad.vmap(at, (0, None)))
        both = [takes2(by_row, x, own), takes2(by_channel, x, few)]
    assert [n for n, _ in both] == [1, 0]
    for (_, got), i in zip(both, (own, np.broadcast_to(few[:, None], own.shape))):
        i = i % 70 if mode == "wrap" else np.where(i < 0, i + 70, i)
        want = np.take_along_axis(x, np.clip(i, 0, 69), 2)
        if mode == "fill":
            want = np.where((i < 0) | (i >= 70), np.asarray(1, dtype), want)
        np.testing.assert_array_equal(got, want * np.asarray(2, dtype))


def test_batches_of_sampled_images_are_one_pass():
    x, y = rng.standard_normal((3, 20, 30)).astype(np.float32), rng.uniform(0, 18, (2, 3, 40, 50)).astype(np.float32)
    sample = fgrad.vmap(lambda x, y: bilinear(jnp, x, y[0], y[1]))
    want = np.stack([bilinear(np, a, *b) for a, b in zip(x, y.swapaxes(0, 1))])
    np.testing.assert_allclose(fgrad.jit(sample)(x, y.swapaxes(0, 1)), want, rtol=1e-5, atol=1e-6)
    assert not any("gather" in u for u in units(sample, jnp.asarray(x), jnp.asarray(y.swapaxes(0, 1))))


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


def run_take2(indices, x, c=0):
    ip = vb.encode(2, [], [("take2", "float32", 0, 1, c)], [(2, "none")])
    return run_kernel(vb.KERNEL, [*indices, x], [(indices[0].shape, "float32")], ip)[0]


def test_kernel_keeps_pairs_within_a_matrix():
    x = table(60, "float32").reshape(5, 12)
    extreme = np.iinfo(np.int64).max
    i = np.array([0, 4, 5, -1, -5, -6, 2**31 - 1, -(2**31), 3] * 31)
    for dtype, more in ((np.int32, 0), (np.int64, [0, 0, 0, 0, 0, 0, extreme - 2**31 + 1, -extreme + 2**31, 0] * 31)):
        a, b = (i + more).astype(dtype), (i + more)[::-1].astype(dtype)
        for c in range(4):
            at = [np.where(k < 0, k + n, k) if c >> d & 1 else k for d, (k, n) in enumerate(((a, 5), (b, 12)))]
            for t in (x, x[::-1], np.asfortranarray(x), x[:1], x[:, ::3]):
                if c == 0 or t.shape == x.shape:
                    want = t[np.clip(at[0], 0, t.shape[0] - 1), np.clip(at[1], 0, t.shape[1] - 1)]
                    np.testing.assert_array_equal(run_take2((a, b), t, c), want)


def test_check_refuses_what_is_no_matrix_or_pair():
    x, i = table(60, "float32").reshape(5, 12), np.zeros(10, np.int32)
    for c in (4, -1):
        with pytest.raises(ValueError, match="takes from table"):
            run_take2((i, i), x, c)
    for t in (x[0], x[:0], x[None], x.astype("float64")):
        with pytest.raises(ValueError, match="no matrix of type"):
            run_take2((i, i), t)
    for pair in ((i, i.astype(np.int64)), (i.astype(np.int64), i), (i.astype("float32"), i), (i, i.astype("int16"))):
        with pytest.raises(ValueError, match="of take2 has type"):
            run_take2(pair, x)


@pytest.mark.parametrize("mode", ["fill", "clip"])
@pytest.mark.parametrize("width", [65, 100, 128, 200, 256])
def test_rows_of_a_table_that_caches_do_not_hold(width, mode):
    x = np.random.default_rng(0).standard_normal((3000, width)).astype(np.float32)
    i = np.random.default_rng(1).integers(-3000, 3000, 1001).astype(np.int32)
    i[[0, 7, 996, 1000]] = 3000, -3001, 10**9, -(10**9)
    got = np.asarray(fgrad.jit(lambda x, i: jnp.take(x, i, axis=0, mode=mode))(x, i))
    want = x[np.clip(i, 0, 2999)] if mode == "clip" else np.where(((i >= -3000) & (i < 3000))[:, None], x[np.clip(i, -3000, 2999)], np.nan)
    np.testing.assert_array_equal(got, want)
