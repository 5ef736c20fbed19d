"""Small arrays are padded row by row, in one pass: NumPy's result for every shape, dtype and layout."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int16", "bool", "complex64", "complex128"])
@pytest.mark.parametrize(
    "shape, pads",
    [
        ((5, 33), 1),
        ((3, 16), ((0, 0), (0, 1))),
        ((3, 16), ((2, 0), (5, 0))),
        ((4, 8), ((0, 3), (17, 40))),
        ((20, 100), 2),
        ((1, 64), 1),
        ((2, 3, 9, 32), ((1, 0), (0, 1), (2, 2), (1, 3))),
        ((3, 4, 65), 1),
        ((6, 40), 0),
        ((200, 36), 1),
        ((37,), 3),
    ],
)
def test_padded_as_by_numpy(shape, pads, dtype):
    rng = np.random.RandomState(0)
    x = (rng.randn(*shape) * 50).astype(dtype)
    with fgrad.enable_x64("64" in dtype or dtype == "complex128"):
        for value in (0, 1):
            want = np.pad(x, pads, constant_values=value)
            pad = lambda x, value=value: jnp.pad(x, pads, constant_values=value)  # noqa: E731
            np.testing.assert_array_equal(fgrad.jit(pad)(x), want)
            np.testing.assert_array_equal(pad(jnp.asarray(x)), want)
            np.testing.assert_array_equal(fgrad.jit(lambda x, pad=pad: pad(x[..., ::-1]))(x[..., ::-1].copy()), want)
            wide = np.concatenate([x, x], -1)
            np.testing.assert_array_equal(fgrad.jit(lambda w, pad=pad: pad(w[..., : shape[-1]]))(wide), want)
            turned = np.swapaxes(x, 0, -1).copy()
            np.testing.assert_array_equal(fgrad.jit(lambda t, pad=pad: pad(jnp.swapaxes(t, 0, -1)))(turned), want)
