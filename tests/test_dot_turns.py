"""Products that sum over axes which do not lie as one, part after part, and kernels' gradients that are such products."""

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import lax


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64"])
@pytest.mark.parametrize(
    "spec", ["bop,bcp->oc", "bop,bcp->co", "bpo,bcp->oc", "bpo,bpc->oc", "obp,bpc->oc", "bohw,bchw->oc", "xbop,bcpx->oc"]
)
@pytest.mark.parametrize(
    "b, o, c, p", [(2, 16, 24, 128), (5, 33, 17, 200), (3, 40, 16, 130), (1, 20, 20, 150), (70, 16, 16, 128), (4, 16, 130, 20)]
)
def test_sums_over_axes_apart(b, o, c, p, spec, dtype):
    rng, sizes = np.random.default_rng(0), {"b": b, "o": o, "c": c, "p": p, "h": 2, "w": p // 2, "x": 2}
    left, right = ([sizes[k] for k in part] for part in spec.split("->")[0].split(","))
    with fg.enable_x64(dtype == "float64"):
        x, y = (fnp.asarray(rng.standard_normal(s), dtype) for s in (left, right))
        got = np.asarray(fg.jit(lambda x, y: fnp.einsum(spec, x, y))(x, y))
        want = np.einsum(spec, *(np.asarray(a).astype(complex if dtype == "complex64" else float) for a in (x, y)))
        eps = 2e-6 if dtype in ("float32", "complex64") else 1e-14 if dtype == "float64" else 1e-2
        np.testing.assert_allclose(got.astype(want.dtype), want, rtol=eps, atol=eps * np.abs(want).max() * 4)


def test_nothing_is_copied():
    x, y = np.ones((4, 64, 300), np.float32), np.ones((4, 32, 300), np.float32)
    program = fg.jit(lambda x, y: fnp.einsum("bop,bcp->oc", x, y)).lower(x, y).compile()
    assert program.memory_analysis().temp_size_in_bytes <= 64 * 32 * 4


def test_parts_follow_each_other_in_place():
    """A result that is read again, in a loop, beside its derivative."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((3, 20, 128)).astype(np.float32), rng.standard_normal((3, 24, 128)).astype(np.float32)

    def f(x, y):
        def turn(total, k):
            return total + fnp.einsum("bop,bcp->oc", x * k, y), fnp.einsum("bop,bcp->co", x, y + total.sum())

        return lax.scan(turn, fnp.zeros((20, 24)), fnp.arange(1.0, 4.0))

    with fg.disable_jit():
        want = f(x, y)
    for a, b in zip(fg.jit(f)(x, y), want):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-3)
    g = fg.jit(fg.grad(lambda x, y: fnp.sum(fnp.einsum("bop,bcp->oc", x, y) ** 2)))(x, y)
    np.testing.assert_allclose(g, 2 * np.einsum("oc,bcp->bop", np.einsum("bop,bcp->oc", x, y), y), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "batch, size, inputs, outputs", [(3, (9, 8), 48, 50), (2, (12, 12), 64, 49), (2, (5,), 48, 48), (2, (3, 4, 5), 50, 48)]
)
def test_gradient_of_a_kernel_of_one_tap(batch, size, inputs, outputs, dtype):
    rng, n = np.random.default_rng(0), len(size)
    with fg.enable_x64(dtype == "float64"):
        x, ct = (fnp.asarray(rng.standard_normal((batch, k, *size)), dtype) for k in (inputs, outputs))
        w = fnp.zeros((outputs, inputs, *(1,) * n), dtype)
        conv = lambda w: lax.conv_general_dilated(x, w, (1,) * n, [(0, 0)] * n)  # noqa: E731
        got = np.asarray(fg.jit(lambda w, ct: fg.vjp(conv, w)[1](ct)[0])(w, ct))
    a, b = (np.asarray(v).astype(float).reshape(batch, v.shape[1], -1) for v in (ct, x))
    want = np.einsum("bop,bcp->oc", a, b).reshape(w.shape)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4 if dtype == "float32" else 1e-11)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_two_vectors_of_every_length(dtype):
    """Numbers, as they lie and backwards, alone and added to what there is, also past the lengths that one thread takes at once."""
    rng = np.random.RandomState(0)
    with fg.enable_x64(dtype == "float64"):
        for n in [*range(1, 140), 255, 1000, 2047, 2048, 2049, 5000]:
            x, y = rng.randn(n).astype(dtype), rng.randn(n).astype(dtype)
            want, eps = float(x.astype("f8") @ y.astype("f8")), np.finfo(dtype).eps * np.sqrt(n) * np.linalg.norm(x) * np.linalg.norm(y)
            for a in (fnp.dot(x, y), fg.jit(lambda x, y: x @ y)(x, y), fg.jit(lambda x, y: x[::-1] @ y[::-1])(x, y)):
                assert abs(float(a) - want) <= eps
            assert abs(float(fg.jit(lambda x, y: lax.fori_loop(0, 3, lambda i, s: s + x @ y, 1.0))(x, y)) - 1 - 3 * want) <= 8 * eps + 1e-5
            assert abs(float(fg.jit(lambda x, y: x[None] @ y[:, None])(x, y)[0, 0]) - want) <= eps
