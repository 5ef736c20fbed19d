"""fgrad.nn, pooling, attention, resizing and padding beside PyTorch: values and gradients in float64."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import ggml, image, lax, nn

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")
F = torch.nn.functional

rng = np.random.default_rng(5)
X, SCALE, BIAS = rng.standard_normal((4, 6, 3, 5)), rng.standard_normal(6), rng.standard_normal(6)


def last_axis(f):
    """f, whose channels are the last axis, of an array whose channels are axis 1, as PyTorch's are."""
    return lambda x: jnp.moveaxis(f(jnp.moveaxis(x, 1, -1)), -1, 1)


CALLS = {
    "group": (lambda x, s, b: nn.group_norm(x, 3, s, b), lambda x, s, b: F.group_norm(x, 3, s, b)),
    "instance": (nn.instance_norm, lambda x, s, b: F.instance_norm(x, weight=s, bias=b)),
    "batch": (
        lambda x, s, b: nn.batch_norm(x, nn.batch_norm_state(6), s, b, training=True)[0],
        lambda x, s, b: F.batch_norm(x, None, None, s, b, training=True),
    ),
    "batch NHWC": (
        lambda x, s, b: last_axis(lambda y: nn.batch_norm(y, nn.batch_norm_state(6), s, b, training=True, channel_axis=-1)[0])(x),
        lambda x, s, b: F.batch_norm(x, None, None, s, b, training=True),
    ),
    "batch evaluated": (
        lambda x, s, b: nn.batch_norm(x, (s * 0.1, s * s + 1), s, b, training=False)[0],
        lambda x, s, b: (x - (s * 0.1)[:, None, None]) / torch.sqrt(s * s + 1 + 1e-5)[:, None, None] * s[:, None, None] + b[:, None, None],
    ),
    "group NHWC": (
        lambda x, s, b: jnp.moveaxis(nn.group_norm(jnp.moveaxis(x, 1, -1), 2, s, b, channel_axis=3), -1, 1),
        lambda x, s, b: F.group_norm(x, 2, s, b),
    ),
    "layer": (lambda x, s, b: nn.layer_norm(x.reshape(-1, 6), s, b), lambda x, s, b: F.layer_norm(x.reshape(-1, 6), (6,), s, b)),
    "rms": (lambda x, s, b: nn.rms_norm(x.reshape(-1, 6), s) + b, lambda x, s, b: F.rms_norm(x.reshape(-1, 6), (6,), s, 1e-6) + b),
    "normalize": (lambda x, s, b: nn.l2_normalize(x, axis=1) * s[0] + b[0], lambda x, s, b: F.normalize(x, dim=1) * s[0] + b[0]),
}


def compare(ours, theirs, *args):
    """Values and the gradients of a weighted sum in every argument."""
    leaves = [torch.tensor(a, requires_grad=True) for a in args]
    want = theirs(*leaves)
    ct = np.cos(np.arange(want.numel())).reshape(want.shape)
    want.backward(torch.tensor(ct))
    with fgrad.enable_x64():
        out, pull = fgrad.vjp(ours, *args)
        np.testing.assert_allclose(out, want.detach().numpy(), rtol=1e-9, atol=1e-11)
        for got, leaf in zip(pull(jnp.asarray(ct)), leaves):
            np.testing.assert_allclose(got, leaf.grad.numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", CALLS)
def test_norms(name):
    compare(*CALLS[name], X, SCALE, BIAS)


IMAGE = rng.standard_normal((2, 3, 7, 8))
PIXELS = {
    "max_pool": (last_axis(lambda x: nn.max_pool(x, (2, 3), (2, 1))), lambda x: F.max_pool2d(x, (2, 3), (2, 1))),
    "avg_pool": (last_axis(lambda x: nn.avg_pool(x, (3, 2), (1, 2), ((1, 1), (1, 1)))), lambda x: F.avg_pool2d(x, (3, 2), (1, 2), 1)),
    "avg_pool of elements": (
        last_axis(lambda x: nn.avg_pool(x, (3, 2), (1, 2), ((1, 1), (1, 1)), count_include_pad=False)),
        lambda x: F.avg_pool2d(x, (3, 2), (1, 2), 1, count_include_pad=False),
    ),
    "lp_pool 2": (last_axis(lambda x: nn.lp_pool(x, 2, (2, 2), (2, 2))), lambda x: torch.sqrt(F.avg_pool2d(x * x, 2) * 4)),
    "lp_pool 3": (
        last_axis(lambda x: nn.lp_pool(x, 3, (2, 3), (1, 2))),
        lambda x: (F.avg_pool2d(x.abs() ** 3, (2, 3), (1, 2)) * 6) ** (1 / 3),
    ),
    "nearest": (lambda x: ggml.upscale(x, 2, ggml.SCALE_MODE_NEAREST), lambda x: F.interpolate(x, scale_factor=2, mode="nearest")),
    "bilinear": (lambda x: ggml.upscale(x, 3, ggml.SCALE_MODE_BILINEAR), lambda x: F.interpolate(x, scale_factor=3, mode="bilinear")),
    "bicubic": (lambda x: ggml.upscale(x, 2, ggml.SCALE_MODE_BICUBIC), lambda x: F.interpolate(x, scale_factor=2, mode="bicubic")),
    "resize": (lambda x: image.resize(x, (2, 3, 9, 20), "bilinear"), lambda x: F.interpolate(x, (9, 20), mode="bilinear")),
    "reflect": (lambda x: jnp.pad(x, ((0, 0), (0, 0), (2, 1), (3, 2)), "reflect"), lambda x: F.pad(x, (3, 2, 2, 1), "reflect")),
    "edge": (lambda x: jnp.pad(x, ((0, 0), (0, 0), (2, 1), (3, 2)), "edge"), lambda x: F.pad(x, (3, 2, 2, 1), "replicate")),
    "wrap": (lambda x: jnp.pad(x, ((0, 0), (0, 0), (2, 1), (3, 2)), "wrap"), lambda x: F.pad(x, (3, 2, 2, 1), "circular")),
    "constant": (lambda x: jnp.pad(x, ((0, 0), (0, 0), (2, 1), (3, 2))), lambda x: F.pad(x, (3, 2, 2, 1))),
    "roll": (lambda x: jnp.roll(x, (2, -3), (2, 3)), lambda x: torch.roll(x, (2, -3), (2, 3))),
    "unfold": (
        lambda x: lax.conv_general_dilated_patches(x, (3, 2), (1, 2), ((1, 1), (0, 0)), rhs_dilation=(2, 1)).reshape(2, 18, -1),
        lambda x: F.unfold(x, (3, 2), (2, 1), (1, 0), (1, 2)),
    ),
}


@pytest.mark.parametrize("name", PIXELS)
def test_pixels(name):
    compare(*PIXELS[name], IMAGE)


ROWS, TARGET = rng.standard_normal((5, 7)), rng.integers(0, 7, 5)
SOFT = np.exp(rng.standard_normal((5, 7)))
SOFT /= SOFT.sum(-1, keepdims=True)
ONE_HOT = np.eye(7)[TARGET]
LOSSES = {
    "cross entropy": (
        lambda x: nn.softmax_cross_entropy_with_integer_labels(x, TARGET),
        lambda x: F.cross_entropy(x, torch.tensor(TARGET), reduction="none"),
    ),
    "soft labels": (lambda x: nn.softmax_cross_entropy(x, SOFT), lambda x: F.cross_entropy(x, torch.tensor(SOFT), reduction="none")),
    "label smoothing": (
        lambda x: nn.softmax_cross_entropy(x, nn.smooth_labels(ONE_HOT, 0.1)),
        lambda x: F.cross_entropy(x, torch.tensor(TARGET), reduction="none", label_smoothing=0.1),
    ),
    "binary": (
        lambda x: nn.sigmoid_binary_cross_entropy(x, SOFT),
        lambda x: F.binary_cross_entropy_with_logits(x, torch.tensor(SOFT), reduction="none"),
    ),
    "huber": (lambda x: nn.huber_loss(x, SOFT, 0.7), lambda x: F.huber_loss(x, torch.tensor(SOFT), reduction="none", delta=0.7)),
    "squared": (lambda x: nn.squared_error(x, SOFT), lambda x: F.mse_loss(x, torch.tensor(SOFT), reduction="none")),
    "gelu_quick": (nn.gelu_quick, lambda x: x * torch.sigmoid(1.702 * x)),
    "gelu exact": (lambda x: nn.gelu(x, approximate=False), F.gelu),
    "mish": (nn.mish, F.mish),
    "swiglu": (lambda x: nn.swiglu(x, SOFT), lambda x: F.silu(x) * torch.tensor(SOFT)),
    "geglu": (lambda x: nn.geglu(x, SOFT), lambda x: F.gelu(x, approximate="tanh") * torch.tensor(SOFT)),
    "reglu": (lambda x: nn.reglu(x, SOFT), lambda x: F.relu(x) * torch.tensor(SOFT)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_activations(name):
    compare(*LOSSES[name], ROWS)


def scores(q, k, cap=0.0):
    raw = torch.einsum("btnh,bsnh->bnts", q, k.repeat_interleave(2, 2)) / q.shape[3] ** 0.5
    return cap * torch.tanh(raw / cap) if cap else raw


def attend(s, v):
    return torch.einsum("bnts,bsnh->btnh", torch.softmax(s, -1), v.repeat_interleave(2, 2))


T, S = 6, 9
DISTANCE = (torch.arange(T)[:, None] + S - T - torch.arange(S)).double()
SEEN = torch.where((DISTANCE >= 0) & (DISTANCE < 4), 0.0, -torch.inf).double()
ATTENTION = {
    "bias": (lambda q, k, v, b, m: nn.attention_ext(q, k, v, b), lambda q, k, v, b, m: attend(scores(q, k) + b, v)),
    "alibi": (
        lambda q, k, v, b, m: nn.attention_ext(q, k, v, slopes=m, is_causal=True),
        lambda q, k, v, b, m: attend(scores(q, k) - m[:, None, None] * DISTANCE + torch.where(DISTANCE >= 0, 0.0, -torch.inf), v),
    ),
    "all": (
        lambda q, k, v, b, m: nn.attention_ext(q, k, v, b, slopes=m, is_causal=True, window=4, softcap=2.0),
        lambda q, k, v, b, m: attend(scores(q, k, 2.0) + b - m[:, None, None] * DISTANCE.abs() + SEEN, v),
    ),
    "sinks": (
        lambda q, k, v, b, m: nn.attention_ext(q, k, v, sinks=m),
        lambda q, k, v, b, m: attend(torch.cat([scores(q, k), m[:, None, None].expand(2, 4, T, 1)], -1), torch.cat([v, 0 * v[:, :1]], 1)),
    ),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name):
    ours, theirs = ATTENTION[name]
    q, k, v = (rng.standard_normal(s) for s in ((2, T, 4, 8), (2, S, 2, 8), (2, S, 2, 8)))
    used = lambda f: lambda q, k, v, b, m: f(q, k, v, b, m) + 0 * b.sum() + 0 * m.sum()  # PyTorch gives no gradient to what is not used
    compare(used(ours), used(theirs), q, k, v, rng.standard_normal((1, 4, 1, S)), np.array([0.5, 0.2, 0.1, 0.05]))


def test_running_statistics():
    layer = torch.nn.BatchNorm2d(6, dtype=torch.float64)
    with fgrad.enable_x64():
        state = nn.batch_norm_state(6)
        for k in range(3):
            x = X * (k + 1) + k
            layer(torch.tensor(x))
            _, state = nn.batch_norm(x, state, training=True)
        np.testing.assert_allclose(state[0], layer.running_mean.numpy(), rtol=1e-12)
        np.testing.assert_allclose(state[1], layer.running_var.numpy(), rtol=1e-12)
        y, _ = nn.batch_norm(X, state, training=False)
        np.testing.assert_allclose(y, layer.eval()(torch.tensor(X)).detach().numpy(), rtol=1e-9)
