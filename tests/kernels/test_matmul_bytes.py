"""`dot` of a few rows of float32 against bytes, and the products that become one."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad._kernels import parallel
from fgrad._kernels.matmul import KERNELS
from tests.kernels.harness import run_kernel

RNG = np.random.default_rng(0)


def values(shape, dtype=np.float32):
    if np.dtype(dtype).kind == "f":
        return RNG.standard_normal(shape).astype(dtype)
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, dtype, endpoint=True)


def close(got, x, w):
    """Each element a sum of products, rounded as float32 may be."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    assert (np.abs(got - x @ w) <= 64 * 1.2e-7 * (np.abs(x) @ np.abs(w))).all()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("layout", ["rows", "columns", "every second row", "part"])
def test_bytes(layout, dtype):
    before = parallel.get_num_threads()
    try:
        small = (1, 2, 2), (1, 15, 17), (2, 64, 33), (3, 33, 5), (4, 100, 130), (5, 7, 1000)
        for m, k, n in (*small, (8, 600, 700), (1, 5000, 40), (1, 300, 5000), (7, 4100, 18)):
            if layout == "rows":
                w = values((1, k, n), dtype)
            elif layout == "columns":
                w = values((1, n, k), dtype).swapaxes(1, 2)
            elif layout == "every second row":
                w = values((1, 2 * k, n + 3), dtype)[:, ::2, 1 : n + 1]
            else:
                w = values((1, n, k + 5), dtype)[:, :, 2 : k + 2].swapaxes(1, 2)
            for x in (values((1, m, k)), values((1, k, m)).swapaxes(1, 2)):
                got = []
                for threads in (1, 3):
                    parallel.set_num_threads(threads)
                    got.append(run_kernel(KERNELS["dot"], [x, w], [((1, m, n), np.float32)])[0])
                close(got[0][0], x[0], w[0])
                np.testing.assert_array_equal(*got)
            turned = run_kernel(KERNELS["dot"], [x, w], [((1, n, m), np.float32, (1, m, n), (m * n, 1, m))])[0]
            np.testing.assert_array_equal(turned.swapaxes(1, 2), got[0])
    finally:
        parallel.set_num_threads(before)


def test_rejections():
    f, x, w = np.float32, values((1, 3, 4)), values((1, 4, 6), np.int8)
    run_kernel(KERNELS["dot"], [x, w], [((1, 3, 6), f)])
    for a, b, out, ip in (
        (values((1, 9, 4)), w, ((1, 9, 6), f), []),
        (values((2, 3, 4)), values((2, 4, 6), np.int8), ((2, 3, 6), f), []),
        (x, w, ((1, 3, 6), np.float64), []),
        (x, w[:, :, :1], ((1, 3, 1), f), []),
        (x[:, :, :1], w[:, :1], ((1, 3, 6), f), []),
        (x, values((1, 8, 12), np.int8)[:, ::2, ::2], ((1, 3, 6), f), []),
        (x, w, ((1, 3, 6), f, (1, 3, 6), (0, 0, 1)), []),
        (w, x.swapaxes(1, 2), ((1, 4, 3), f), []),
    ):
        with pytest.raises(Exception, match="dot"):
            run_kernel(KERNELS["dot"], [a, b], [out], ip=ip)


K, N = 160, 200
PRODUCTS = {
    "plain": (lambda x, w, s, t: x @ w.astype(jnp.float32), True),
    "scaled columns": (lambda x, w, s, t: x @ (w.astype(jnp.float32) * s), True),
    "scaled rows": (lambda x, w, s, t: x @ (t[:, None] * w.astype(jnp.float32)), True),
    "one scale": (lambda x, w, s, t: x @ (w.astype(jnp.float32) * 0.25), True),
    "from the other side": (lambda x, w, s, t: (w.astype(jnp.float32) * s).T @ x.T, True),
    "turned and scaled": (lambda x, w, s, t: x @ (w.T.astype(jnp.float32) * s[:, None]).T, True),
    "of more axes": (lambda x, w, s, t: jnp.einsum("abk,kn->abn", x[None], w.astype(jnp.float32) * s), True),
    "a vector": (lambda x, w, s, t: (w.astype(jnp.float32) * s).T @ x[0], True),
    "two readers": (lambda x, w, s, t: (x @ (w.astype(jnp.float32) * s), w.astype(jnp.float32) * s), True),
    "scales of blocks of rows": (
        lambda x, w, s, t: x @ (w.astype(jnp.float32).reshape(8, -1, N) * (s + t[:8, None])[:, None]).reshape(K, N),
        False,
    ),
    "scales of every element": (lambda x, w, s, t: x @ (w.astype(jnp.float32) * (s + t[:, None])), False),
    "many rows": (lambda x, w, s, t: jnp.tile(x, (6, 1)) @ (w.astype(jnp.float32) * s), False),
    "words": (lambda x, w, s, t: x @ w.astype(jnp.int16).astype(jnp.float32), False),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_widened_and_scaled_bytes_are_read_as_bytes(name, dtype):
    f, as_bytes = PRODUCTS[name]
    args = values((3, K)), values((K, N), dtype), values(N), values(K)
    jitted = fgrad.jit(f)
    got, want = jitted(*args), f(*map(jnp.asarray, args))
    for g, v in zip(*map(fgrad.tree.leaves, (got, want))):
        np.testing.assert_allclose(g, v, rtol=1e-4, atol=1e-4 * float(jnp.abs(v).max()))
    labels = [label for _, label in jitted.lower(*args).compile().profile(*args, repeat=1)]
    assert any(text.startswith("dot") for text in labels)
    if name != "two readers":
        assert (len([text for text in labels if "cast" in text]) == 0) == as_bytes
    before = fgrad.config.pass_simplify
    fgrad.config.update("pass_simplify", False)
    try:
        off = fgrad.jit(lambda *xs: f(*xs))(*args)
    finally:
        fgrad.config.update("pass_simplify", before)
    for g, v in zip(*map(fgrad.tree.leaves, (off, want))):
        np.testing.assert_allclose(g, v, rtol=1e-4, atol=1e-4 * float(jnp.abs(v).max()))


def test_gradients_of_rows_against_bytes():
    x, w, s = values((2, K)), values((K, N), np.int8), values(N)
    gx, gs = fgrad.jit(fgrad.grad(lambda x, s: jnp.sum(jnp.sin(x @ (w.astype(jnp.float32) * s))), (0, 1)))(x * 1e-3, s)
    wide = w.astype(np.float64)
    c = np.cos(x * 1e-3 @ (wide * s))
    np.testing.assert_allclose(gx, c @ (wide * s).T, rtol=1e-3, atol=1e-3 * np.abs(gx).max())
    np.testing.assert_allclose(gs, (c * (x * 1e-3 @ wide)).sum(0), rtol=1e-3, atol=1e-3 * np.abs(gs).max())


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    "stored, scales, matrix",
    [
        ((8, 64, 64), (8, 1, 64), (512, 64)),
        ((64, 8, 64), (64, 8, 1), (64, 512)),
        ((64, 512), (64, 1), (512, 64)),
        ((512, 64), (512, 1), (64, 512)),
        ((512, 64), (64,), (256, 128)),
        ((512, 64), (), (256, 128)),
        ((1, 512, 64), (1, 1, 64), (512, 64)),
    ],
)
def test_blocks_of_bytes_with_scales_are_reshaped_first(stored, scales, matrix, turned):
    w, s = values(stored, np.int8), RNG.random(scales).astype(np.float32)
    for m in (1, 4):
        x = values((m, matrix[turned]))

        def product(x, w, s):
            scaled = (w.astype(np.float32) * s).reshape(matrix)
            return x @ (scaled.T if turned else scaled)

        np.testing.assert_allclose(fgrad.jit(product)(x, w, s), product(x, w, s), rtol=1e-4, atol=1e-2)
