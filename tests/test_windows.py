"""reduce_window and convolutions as users call them: paddings, computations without a kernel, errors."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax

X = np.arange(24, dtype=np.float32).reshape(4, 6) % 7 - 2


@pytest.mark.parametrize("padding", ["VALID", "SAME", "SAME_LOWER", ((1, 2), (0, 1))])
@pytest.mark.parametrize("strides", [None, (2, 3)])
def test_any_computation_is_the_kernel(padding, strides):
    """A computation that is not recognised gives what the kernel gives."""
    for op, init in ((lax.add, 0.0), (lax.max, -np.inf), (lax.min, np.inf)):
        args = ((2, 3), strides, padding, (1, 2), (2, 1))
        want = lax.reduce_window(X, init, op, *args)
        got = lax.reduce_window(X, init, lambda a, b, op=op: op(a, b), *args)
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_initial_values():
    """Windows begin from the initial value, and padding holds it too."""
    got = lax.reduce_window(X, 10.0, lax.add, (2, 2), (2, 2), ((0, 0), (1, 1)))
    padded = np.pad(X, ((0, 0), (1, 1)), constant_values=10)
    np.testing.assert_allclose(got, padded.reshape(2, 2, 4, 2).sum((1, 3)) + 10)
    assert lax.reduce_window(jnp.arange(5), 2, lax.max, (2,)).tolist() == [2, 2, 3, 4]


def test_products_and_trees():
    got = lax.reduce_window(X, 1.0, lax.mul, (1, 2))
    np.testing.assert_allclose(got, X[:, :-1] * X[:, 1:])
    gradient = fgrad.grad(lambda x: lax.reduce_window(x, 1.0, lax.mul, (3,)).sum())(jnp.array([2.0, 0.0, 3.0, 5.0]))
    np.testing.assert_allclose(gradient, [0.0, 6.0 + 15.0, 0.0, 0.0])

    def larger(a, b):
        take = a["v"] >= b["v"]
        return {"v": jnp.where(take, a["v"], b["v"]), "i": jnp.where(take, a["i"], b["i"])}

    x = jnp.array([3.0, 1.0, 4.0, 1.0, 5.0])
    out = lax.reduce_window({"v": x, "i": jnp.arange(5)}, {"v": -jnp.inf, "i": -1}, larger, (2,), (1,), "SAME")
    assert out["i"].tolist() == [0, 2, 2, 4, 4]


def test_integers_and_bools():
    x = np.array([200, 100, 255, 3], np.uint8)
    assert lax.reduce_window(x, 0, lax.add, (2,)).tolist() == [44, 99, 2]
    assert lax.reduce_window(x, 255, lax.min, (2,), None, "SAME").tolist() == [100, 100, 3, 3]
    b = np.array([True, False, False])
    assert lax.reduce_window(b, False, lax.max, (2,)).tolist() == [True, False]
    assert lax.reduce_window(b, True, lax.min, (2,), None, ((2, 2),)).dtype == bool


def test_nan_and_ties():
    x = jnp.array([1.0, np.nan, 2.0, 2.0, 2.0])
    pool = lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2,))
    np.testing.assert_array_equal(pool(x), [np.nan, np.nan, 2, 2])
    np.testing.assert_array_equal(fgrad.grad(lambda x: pool(x)[2:].sum())(x), [0, 0, 1, 1, 0])  # the first of equals
    np.testing.assert_array_equal(fgrad.vjp(pool, x)[1](jnp.ones(4))[0], [0, 2, 1, 1, 0])


def test_long_windows_are_exact():
    """Sums of long windows do not run: a large element leaves no error behind it."""
    x = np.ones(200, np.float32)
    x[50] = 1e9
    got = np.asarray(lax.reduce_window(x, 0.0, lax.add, (20,)))
    assert (got[51:] == 20).all() and (got[:31] == 20).all()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: lax.reduce_window(X, 0.0, lax.add, (2,)), "window_dimensions"),
        (lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), (1,)), "window_strides"),
        (lambda: lax.reduce_window(X, 0.0, lax.add, (0, 2)), "must be positive"),
        (lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), None, ((-9, 0), (0, 0))), "negative padding"),
        (lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), None, "FULL"), "unknown padding type"),
        (lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), None, 3), "sequence of \\(low, high\\) pairs"),
        (lambda: lax.reduce_window(X, np.int32(0), lax.add, (2, 2)), "init_value of int32"),
        (lambda: lax.reduce_window((X, X), (0.0,), lambda a, b: a, (2, 2)), "one structure"),
        (lambda: lax.reduce_window((X, X), (0.0, 0.0), lambda a, b: a[0], (2, 2)), "structure of operand"),
        (lambda: lax.select_and_gather_add_p.bind(X, X, select_prim=lax.add_p, **{}), "select_prim"),
    ],
)
def test_errors(call, message):
    with pytest.raises((TypeError, ValueError, RuntimeError), match=message):
        call()


IMAGE, KERNEL = np.ones((1, 3, 5, 5), np.float32), np.ones((2, 3, 2, 2), np.float32)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: lax.conv(IMAGE, KERNEL[0], (1, 1), "SAME"), "ndim to be equal"),
        (lambda: lax.conv(IMAGE, KERNEL[:, :2], (1, 1), "SAME"), "has 3 features on axis 1"),
        (lambda: lax.conv(IMAGE, KERNEL, (1,), "VALID"), "window_strides must have one entry"),
        (lambda: lax.conv(IMAGE, KERNEL, (0, 1), ((0, 0), (0, 0))), "window_strides must be positive"),
        (lambda: lax.conv(IMAGE, KERNEL, (1, 1), ((-9, 0), (0, 0))), "negative padding"),
        (lambda: lax.conv(IMAGE, KERNEL.astype(np.float16), (1, 1), "SAME"), "one dtype, got float32 and float16"),
        (lambda: lax.conv_general_dilated(IMAGE, KERNEL, (1, 1), "SAME", (2, 1)), "string padding"),
        (lambda: lax.conv_general_dilated(IMAGE, KERNEL, (1, 1), "SAME", feature_group_count=0), "must be positive"),
        (lambda: lax.conv_general_dilated(IMAGE, KERNEL[:, :1], (1, 1), "SAME", feature_group_count=3), "not a multiple of"),
        (lambda: lax.conv_general_dilated(IMAGE, KERNEL, (1, 1), "SAME", batch_group_count=2), "does not divide the batch"),
        (lambda: lax.conv_general_dilated(IMAGE, KERNEL, (1, 1), "SAME", None, None, ("NCHW", "OIHW")), "three strings"),
        (lambda: lax.conv_general_dilated(IMAGE, KERNEL, (1, 1), "SAME", None, None, ("NCHW", "OIXY", "NCHW")), "same spatial"),
        (lambda: lax.conv_general_dilated(IMAGE, KERNEL, (1, 1), "SAME", None, None, ("NCHW", "OOHW", "NCHW")), "exactly once"),
        (lambda: lax.conv(np.ones((1,) * 6), np.ones((1,) * 6), (1,) * 4, "SAME"), "at most 3 spatial"),
    ],
)
def test_convolution_errors(call, message):
    with pytest.raises((TypeError, ValueError, RuntimeError), match=message):
        call()


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(
    "window, stride, pads", [((2, 2), (2, 2), ((0, 0), (0, 0))), ((3, 3), (2, 1), ((1, 1), (2, 0))), ((1, 4), (1, 3), ((0, 0), (0, 5)))]
)
def test_rows_of_windows_select_as_rows_of_features(largest, window, stride, pads):
    """Windows along the last axis go together, as features do where those are last: with ties and NaNs the same elements are taken."""
    x = np.random.default_rng(0).integers(0, 4, (2, 3, 7, 301)).astype(np.float32)
    x[0, 1, 3, 50:60] = np.nan
    x[1, 2, :, 200] = -np.inf
    f = lax.reduce_window_max_p if largest else lax.reduce_window_min_p

    def pool(x, at):
        def full(v, rest):
            return tuple(v[at.index(d)] if d in at else rest for d in range(4))

        kw = dict(window_dimensions=full(window, 1), window_strides=full(stride, 1), padding=full(pads, (0, 0)))
        return f.bind(x, base_dilation=(1,) * 4, window_dilation=(1,) * 4, **kw)

    last = jnp.array(np.moveaxis(x, 1, 3))
    out, pull = fgrad.vjp(lambda x: pool(x, (2, 3)), jnp.array(x))
    want, pull_last = fgrad.vjp(lambda x: pool(x, (1, 2)), last)
    np.testing.assert_array_equal(out, np.moveaxis(np.asarray(want), 3, 1))
    ct = np.random.default_rng(1).standard_normal(out.shape).astype(np.float32)
    grad = np.asarray(pull_last(jnp.array(np.moveaxis(ct, 1, 3)))[0])
    np.testing.assert_array_equal(pull(jnp.array(ct))[0], np.moveaxis(grad, 3, 1))
    tangent = fgrad.jvp(lambda x: pool(x, (2, 3)), (jnp.array(x),), (jnp.array(x) + 1,))[1]
    np.testing.assert_array_equal(tangent, fgrad.jvp(lambda x: pool(x, (1, 2)), (last,), (last + 1,))[1].transpose(0, 3, 1, 2))


@pytest.mark.parametrize(
    "shape, window, dtype",
    [
        ((9,), (2,), "float32"),
        ((6, 9), (3, 1), "float32"),
        ((6, 9), (3, 2), "bfloat16"),
        ((4, 7, 9), (1, 3, 2), "float64"),
        ((2, 4, 7, 9), (1, 2, 3, 4), "float32"),
        ((3, 6, 2, 8), (3, 1, 1, 4), "float32"),
        ((5, 2, 17, 13, 6), (1, 2, 8, 9, 1), "float32"),
    ],
)
def test_windows_that_do_not_overlap(shape, window, dtype):
    """Along any number of axes: what windows of the axes' own reshapes give, with tangents and gradients."""
    rng = np.random.default_rng(0)
    with fgrad.enable_x64(dtype == "float64"):
        x, t = (jnp.array(rng.permutation(np.prod(shape)).reshape(shape) / 8.0 - 9, dtype=dtype) for _ in range(2))

        def blocks(x):
            for d, (n, w) in enumerate(zip(shape, window)):
                x = lax.slice_in_dim(x, 0, n // w * w, axis=d)
            x = x.reshape([k for n, w in zip(shape, window) for k in (n // w, w)])
            return x, tuple(range(1, x.ndim, 2))

        for op, init, name in ((lax.add, 0.0, "sum"), (lax.max, -jnp.inf, "max"), (lax.min, jnp.inf, "min")):

            def pool(x, op=op, init=init):
                return lax.reduce_window(x, init, op, window, window, "VALID")

            def reference(x, name=name):
                x, axes = blocks(x)
                return getattr(jnp, name)(x, axes)

            kw = dict(rtol=1e-6 if dtype != "bfloat16" else 3e-2, atol=1e-4)
            for got, want in zip(fgrad.jvp(pool, (x,), (t,)), fgrad.jvp(reference, (x,), (t,))):
                np.testing.assert_allclose(got.astype("float32"), want.astype("float32"), **kw)
            ct = pool(t)
            for wrap in (lambda f: f, fgrad.jit):
                got, want = (wrap(lambda x, ct, f=f: fgrad.vjp(f, x)[1](ct)[0])(x, ct) for f in (pool, reference))
                np.testing.assert_array_equal(got.astype("float32"), want.astype("float32"))
