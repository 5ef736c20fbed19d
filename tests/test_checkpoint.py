"""checkpoint changes memory, not values."""

import numpy as np

import fgrad as api
from fgrad.control.loops import scan
from fgrad.core import to_array
from fgrad.ops.elementwise import mul, sin
from fgrad.transforms.remat import checkpoint


def test_checkpoint_grad_vmap_and_in_scan():
    x = to_array(np.float32([0.3, 0.7]))
    f = checkpoint(lambda x: mul(sin(sin(x)), x))
    want = np.sin(np.sin(x)) + x * np.cos(np.sin(x)) * np.cos(x)
    np.testing.assert_allclose(api.vmap(api.grad(f))(x), want, rtol=1e-5)
    np.testing.assert_allclose(api.jit(api.grad(f))(to_array(np.float32(0.3))), np.asarray(want)[0], rtol=1e-5)

    def loop(body):
        return api.vmap(api.grad(lambda x: scan(lambda c, _: (body(c), None), x, None, length=3)[0]))(x)

    np.testing.assert_allclose(loop(f), loop(lambda x: mul(sin(sin(x)), x)), rtol=1e-5)


def test_second_derivative():
    f = checkpoint(lambda x: mul(sin(x), x))
    np.testing.assert_allclose(api.grad(api.grad(f))(to_array(np.float32(0.3))), 2 * np.cos(0.3) - 0.3 * np.sin(0.3), rtol=1e-5)
