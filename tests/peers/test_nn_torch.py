"""fgrad.nn's norms beside PyTorch's: values, running statistics, gradients."""

import numpy as np
import pytest

import fgrad
from fgrad import nn

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")
F = torch.nn.functional

rng = np.random.default_rng(5)
X, SCALE, BIAS = rng.standard_normal((4, 6, 3, 5)), rng.standard_normal(6), rng.standard_normal(6)
CALLS = {
    "group": (lambda x, s, b: nn.group_norm(x, 3, s, b), lambda x, s, b: F.group_norm(x, 3, s, b)),
    "instance": (nn.instance_norm, lambda x, s, b: F.instance_norm(x, weight=s, bias=b)),
    "batch": (
        lambda x, s, b: nn.batch_norm(x, nn.batch_norm_state(6), s, b, training=True)[0],
        lambda x, s, b: F.batch_norm(x, None, None, s, b, training=True),
    ),
    "normalize": (lambda x, s, b: nn.l2_normalize(x, axis=1) * s[0] + b[0], lambda x, s, b: F.normalize(x, dim=1) * s[0] + b[0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_norms(name):
    ours, theirs = CALLS[name]
    ct = rng.standard_normal(X.shape)
    leaves = [torch.tensor(a, requires_grad=True) for a in (X, SCALE, BIAS)]
    want = theirs(*leaves)
    want.backward(torch.tensor(ct))
    with fgrad.enable_x64():
        out, pull = fgrad.vjp(ours, X, SCALE, BIAS)
        np.testing.assert_allclose(out, want.detach().numpy(), rtol=1e-9, atol=1e-11)
        for got, leaf in zip(pull(fgrad.numpy.asarray(ct)), leaves):
            np.testing.assert_allclose(got, leaf.grad.numpy(), rtol=1e-8, atol=1e-10)


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
