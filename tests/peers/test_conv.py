"""Convolutions, windows, pooling and resizing against JAX and PyTorch: values and gradients over layouts, strides, dilations, groups."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import image, lax, nn

pytestmark = pytest.mark.peers
LAYOUTS = {
    1: [("NCH", "OIH", "NCH"), ("NHC", "HIO", "NHC"), ("HNC", "IHO", "CHN")],
    2: [("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC"), ("HWNC", "IOWH", "CWHN"), ("NHWC", "OIHW", "NCHW")],
    3: [("NCHWD", "OIHWD", "NCHWD"), ("NHWDC", "HWDIO", "NHWDC")],
}


def gradients(vjp, fun, args, ct):
    out, pull = vjp(fun, *args)
    return [out, *pull(ct)]


def compare(ours, theirs, *args, tol=2e-5):
    """fun(*args) and its gradients, ours against JAX's."""
    jax = pytest.importorskip("jax")
    shape = jax.eval_shape(theirs, *args).shape
    ct = np.cos(np.arange(np.prod(shape))).reshape(shape).astype(args[0].dtype)
    got = gradients(fgrad.vjp, ours, list(map(jnp.array, args)), jnp.array(ct))
    want = gradients(jax.vjp, theirs, args, ct)
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=tol, atol=tol * max(1, np.abs(w).max(initial=0)))


def random_convolution(seed):
    """(lhs, rhs, keywords) of a random valid convolution."""
    rng = np.random.default_rng(seed)
    pick = lambda *v: v[rng.integers(len(v))]
    n = pick(1, 2, 2, 2, 3)
    layout = LAYOUTS[n][rng.integers(len(LAYOUTS[n]))]
    groups, kind = pick(2, 3, 9), pick("none", "none", "feature_group_count", "batch_group_count")
    groups = 1 if kind == "none" else groups
    spatial = [c for c in layout[1] if c not in "OI"]
    window = {c: pick(1, 2, 3, 5) for c in spatial}
    rhs_dilation = [pick(1, 1, 2, 3) for _ in spatial]
    size = {c: pick(4, 7, 12, 21) for c in spatial}
    kw = dict(
        window_strides=[pick(1, 1, 2, 3) for _ in spatial],
        padding=[((window[c] - 1) * d - min(size[c], 2), pick(0, 1, 3)) for c, d in zip(spatial, rhs_dilation)],
        lhs_dilation=[pick(1, 1, 1, 2, 3) for _ in spatial],
        rhs_dilation=rhs_dilation,
        dimension_numbers=layout,
    )
    if kind != "none":
        kw[kind] = groups
    features = pick(1, 2, 5, 17)
    inputs, batch = (features, groups) if kind == "batch_group_count" else (features * groups, 1)
    x = dict(size, N=pick(1, 2, 3) * batch, C=inputs)
    w = dict(window, I=features, O=pick(1, 2, 3, 8) * groups)
    return [rng.standard_normal([d[c] for c in spec]).astype(np.float32) for d, spec in ((x, layout[0]), (w, layout[1]))], kw


@pytest.mark.parametrize("seed", range(40))
def test_conv_general_dilated(seed):
    jax = pytest.importorskip("jax")
    (x, w), kw = random_convolution(seed)
    compare(lambda x, w: lax.conv_general_dilated(x, w, **kw), lambda x, w: jax.lax.conv_general_dilated(x, w, **kw), x, w)


@pytest.mark.parametrize("padding", ["SAME", "VALID", "SAME_LOWER", "same"])
@pytest.mark.parametrize("strides", [(1, 1), (2, 3)])
def test_named_padding(padding, strides):
    jax = pytest.importorskip("jax")
    x, w = np.random.default_rng(0).standard_normal((2, 3, 8, 9)), np.random.default_rng(1).standard_normal((4, 3, 3, 2))
    x, w = x.astype(np.float32), w.astype(np.float32)
    compare(lambda x, w: lax.conv(x, w, strides, padding), lambda x, w: jax.lax.conv(x, w, strides, padding), x, w)


@pytest.mark.parametrize("transpose_kernel", [False, True])
@pytest.mark.parametrize("consistent", [False, True])
@pytest.mark.parametrize("padding", ["SAME", "VALID", ((1, 2), (0, 1))])
@pytest.mark.parametrize("strides, dilation", [((1, 1), None), ((2, 3), None), ((3, 2), (2, 1))])
def test_conv_transpose(strides, dilation, padding, consistent, transpose_kernel):
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 5, 4, 3)).astype(np.float32), rng.standard_normal((3, 2, 3, 3)).astype(np.float32)
    kw = dict(rhs_dilation=dilation, transpose_kernel=transpose_kernel, use_consistent_padding=consistent)
    compare(
        lambda x, w: lax.conv_transpose(x, w, strides, padding, **kw),
        lambda x, w: jax.lax.conv_transpose(x, w, strides, padding, **kw),
        x,
        w,
    )


@pytest.mark.parametrize("layout", [None, ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIWH", "CNHW")])
def test_patches_and_local(layout):
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 6, 5, 3) if layout and layout[0] == "NHWC" else (2, 3, 6, 5)).astype(np.float32)
    args = (2, 3), (2, 1), "SAME"
    kw = dict(dimension_numbers=layout)
    compare(lambda x: lax.conv_general_dilated_patches(x, *args, **kw), lambda x: jax.lax.conv_general_dilated_patches(x, *args, **kw), x)
    names = (layout or ("NCHW", "OIHW", "NCHW"))[1]
    size = dict(O=4, I=18, H=3, W=5) if names != "OIWH" else dict(O=4, I=18, W=5, H=2)
    args = (2, 3) if names != "OIWH" else (3, 2), (2, 1), "SAME"
    out = jax.eval_shape(lambda x: jax.lax.conv_general_dilated_patches(x, args[0], args[1], args[2], **kw), x).shape
    spec = (layout or ("NCHW", "OIHW", "NCHW"))[2]
    size |= {c: out[spec.index(c)] for c in "HW"}
    w = rng.standard_normal([size[c] for c in names]).astype(np.float32)
    local = lambda l: lambda x, w: l.conv_general_dilated_local(x, w, args[1], args[2], args[0], **kw)
    compare(local(lax), local(jax.lax), x, w)


def test_dtypes():
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(0)
    for dtype, preferred in (("int8", "int32"), ("int32", None), ("bfloat16", "float32"), ("float16", None), ("complex64", None)):
        x, w = (np.asarray(rng.integers(-9, 9, s)).astype(jax.numpy.dtype(dtype)) for s in ((2, 3, 8), (4, 3, 3)))
        got = lax.conv(jnp.array(x), jnp.array(w), (1,), "SAME", preferred_element_type=preferred)
        want = jax.lax.conv(x, w, (1,), "SAME", preferred_element_type=preferred)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(np.asarray(got).astype(complex), np.asarray(want).astype(complex), rtol=1e-2)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("stride, padding, dilation, groups", [(1, 1, 1, 1), (2, 0, 1, 1), (1, 2, 2, 2), (2, 1, 1, 6), (3, 1, 2, 3)])
def test_torch_conv2d(order, stride, padding, dilation, groups):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 6, 9, 10)).astype(np.float32), rng.standard_normal((12, 6 // groups, 3, 3)).astype(np.float32)
    tx, tw = (torch.tensor(v, requires_grad=True) for v in (x, w))
    out = torch.nn.functional.conv2d(tx, tw, stride=stride, padding=padding, dilation=dilation, groups=groups)
    ct = np.cos(np.arange(out.numel())).reshape(out.shape).astype(np.float32)
    want = [out.detach(), *torch.autograd.grad(out, (tx, tw), torch.tensor(ct))]

    def ours(x, w):
        layout = (order, "OIHW" if order == "NCHW" else "HWIO", order)
        x, w = (x, w) if order == "NCHW" else (x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0))
        out = lax.conv_general_dilated(x, w, (stride,) * 2, ((padding,) * 2,) * 2, None, (dilation,) * 2, layout, groups)
        return out if order == "NCHW" else out.transpose(0, 3, 1, 2)

    for got, expected in zip(gradients(fgrad.vjp, ours, (jnp.array(x), jnp.array(w)), jnp.array(ct)), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-4)


@pytest.mark.parametrize("stride, padding, output_padding, groups", [(1, 0, 0, 1), (2, 1, 1, 1), (3, 1, 2, 2)])
def test_torch_conv_transpose2d(stride, padding, output_padding, groups):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 4, 5, 6)).astype(np.float32), rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    tx, tw = (torch.tensor(v, requires_grad=True) for v in (x, w))
    out = torch.nn.functional.conv_transpose2d(tx, tw, stride=stride, padding=padding, output_padding=output_padding, groups=groups)
    ct = np.cos(np.arange(out.numel())).reshape(out.shape).astype(np.float32)
    want = [out.detach(), *torch.autograd.grad(out, (tx, tw), torch.tensor(ct))]

    def ours(x, w):
        """PyTorch's kernel is (in, out / groups, ...): the forward convolution's, reversed, with features exchanged in each group."""
        i, o = w.shape[0] // groups, w.shape[1]
        w = jnp.flip(w, (2, 3)).reshape(groups, i, o, 3, 3).swapaxes(1, 2).reshape(groups * o, i, 3, 3)
        pads = ((2 - padding, 2 - padding + output_padding),) * 2
        return lax.conv_general_dilated(x, w, (1, 1), pads, (stride, stride), feature_group_count=groups)

    for got, expected in zip(gradients(fgrad.vjp, ours, (jnp.array(x), jnp.array(w)), jnp.array(ct)), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-4)


# --- windows and pooling ------------------------------------------------------------------------------------------------

WINDOWS = [
    ((1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
    ((1, 3, 3, 1), (1, 2, 1, 1), "SAME"),
    ((1, 3, 2, 2), (1, 2, 3, 1), "SAME_LOWER"),
    ((1, 4, 4, 1), None, ((0, 0), (1, 2), (0, 3), (0, 0))),
]


@pytest.mark.parametrize("window, strides, padding", WINDOWS)
@pytest.mark.parametrize("name, init", [("add", 0.0), ("max", -np.inf), ("min", np.inf)])
def test_reduce_window(name, init, window, strides, padding):
    jax = pytest.importorskip("jax")
    x = np.random.default_rng(0).permutation(np.arange(2 * 7 * 6 * 3)).reshape(2, 7, 6, 3).astype(np.float32) / 10
    fun = lambda l: lambda x: l.reduce_window(x, init, getattr(l, name), window, strides, padding)
    compare(fun(lax), fun(jax.lax), x)
    if name == "add":
        return
    second = lambda grad, jvp, f: lambda x: jvp(grad(lambda x: (f(x) ** 2).sum()), (x,), (np.sin(x),))[1]
    np.testing.assert_allclose(second(fgrad.grad, fgrad.jvp, fun(lax))(x), second(jax.grad, jax.jvp, fun(jax.lax))(x), rtol=1e-2)


@pytest.mark.parametrize("base, dilation", [((1, 1), (2, 3)), ((3, 2), (1, 1)), ((2, 3), (2, 2))])
def test_dilated_windows(base, dilation):
    jax = pytest.importorskip("jax")
    x = np.random.default_rng(0).standard_normal((7, 8)).astype(np.float32)
    for name, init in (("add", 0.0), ("max", -np.inf)):
        fun = lambda l, name=name, init=init: (
            lambda x: l.reduce_window(x, init, getattr(l, name), (2, 3), (2, 1), ((1, 1), (2, 0)), base, dilation)
        )
        if name == "add":
            compare(fun(lax), fun(jax.lax), x)
        else:  # JAX has no gradient here
            np.testing.assert_array_equal(fun(lax)(x), fun(jax.lax)(x))


@pytest.mark.parametrize("k, stride, padding", [(2, 2, 0), (3, 2, 1), (3, 1, 1)])
def test_torch_pooling(k, stride, padding):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 7)).astype(np.float32)
    f = torch.nn.functional
    pads = ((padding, padding),) * 2
    cases = [
        (lambda t: f.max_pool2d(t, k, stride, padding), lambda x: nn.max_pool(x, (k, k), (stride, stride), pads)),
        (lambda t: f.avg_pool2d(t, k, stride, padding), lambda x: nn.avg_pool(x, (k, k), (stride, stride), pads)),
        (
            lambda t: f.avg_pool2d(t, k, stride, padding, count_include_pad=False),
            lambda x: nn.avg_pool(x, (k, k), (stride, stride), pads, count_include_pad=False),
        ),
    ]
    if not padding:
        cases.append((lambda t: f.lp_pool2d(t, 2, k, stride), lambda x: nn.lp_pool(x, 2, (k, k), (stride, stride))))
    for theirs, ours in cases:
        t = torch.tensor(x, requires_grad=True)
        out = theirs(t)
        ct = np.cos(np.arange(out.numel())).reshape(out.shape).astype(np.float32)
        (want,) = torch.autograd.grad(out, t, torch.tensor(ct))
        value, pull = fgrad.vjp(lambda x, ours=ours: ours(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2), jnp.array(x))
        np.testing.assert_allclose(value, out.detach(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(pull(jnp.array(ct))[0], want, rtol=1e-5, atol=1e-5)


# --- images -------------------------------------------------------------------------------------------------------------

METHODS = ["nearest", "linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5", "area"]


@pytest.mark.parametrize("shape", [(2, 9, 14, 3), (2, 3, 4, 3), (2, 5, 20, 3), (2, 6, 7, 3)])
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_resize(method, antialias, shape):
    jax = pytest.importorskip("jax")
    x = np.random.default_rng(0).standard_normal((2, 6, 7, 3)).astype(np.float32)
    fun = lambda m: lambda x: m.resize(x, shape, method, antialias)
    compare(fun(image), fun(jax.image), x, tol=1e-5)


@pytest.mark.parametrize("method", METHODS[1:])
def test_scale_and_translate(method):
    jax = pytest.importorskip("jax")
    x = np.random.default_rng(0).standard_normal((6, 2, 7)).astype(np.float32)
    args = np.array([1.7, 0.6], np.float32), np.array([-0.3, 1.1], np.float32)
    fun = lambda m: lambda x, s, t: m.scale_and_translate(x, (8, 2, 5), (0, 2), s, t, method)
    compare(fun(image), fun(jax.image), x, *args, tol=1e-4)


def test_torch_interpolate():
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal((2, 3, 6, 7)).astype(np.float32)
    for ours, theirs in (("linear", "bilinear"), ("cubic-pytorch", "bicubic")):
        for size in ((12, 15), (4, 3)):
            for antialias in (False, True):
                want = torch.nn.functional.interpolate(torch.tensor(x), size, mode=theirs, antialias=antialias)
                np.testing.assert_allclose(image.resize(x, (2, 3, *size), ours, antialias), want, rtol=1e-4, atol=1e-5)
