"""Short rows, strided columns and pieces of rows: copies and concatenations beside NumPy's."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp

DTYPES = (np.uint8, np.int16, np.float32, np.complex64, np.bool_)
ROWS = (2, 3, 5, 17, 128, 129, 20_001)
WIDTHS = ((1, 1), (3, 3), (10, 3), (1, 2, 3), (2, 2, 2, 2), (4, 1, 1, 7, 3), (1,) * 5, (17, 33), (0, 3, 2))
PROGRAMS = {
    "whole": lambda m, widths, *xs: m.concatenate([x[:, 3:] for x in xs], 1),
    "columns of larger arrays": lambda m, widths, *xs: m.concatenate([x[:, 1 : 1 + w] for x, w in zip(xs, widths)], 1),
    "every second row": lambda m, widths, *xs: m.concatenate([x[::2, :w] for x, w in zip(xs, widths)], 1),
    "backwards": lambda m, widths, *xs: m.concatenate([x[::-1, :w] for x, w in zip(xs, widths)], 1),
    "one row repeated": lambda m, widths, *xs: m.concatenate([m.broadcast_to(x[:1], x.shape) for x in xs], 1),
    "stacked columns": lambda m, widths, *xs: m.stack([x[:, 0] for x in xs], -1),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_pieces_of_rows(name, dtype):
    rng = np.random.default_rng(0)
    for rows in ROWS:
        for widths in WIDTHS:
            xs = [(rng.random((rows, w + 3)) * 100).astype(dtype) for w in widths]
            got = fgrad.jit(lambda *xs, widths=widths: PROGRAMS[name](jnp, widths, *xs))(*xs)
            np.testing.assert_array_equal(np.asarray(got), PROGRAMS[name](np, widths, *xs))


@pytest.mark.parametrize("dtype", (*DTYPES, np.float16, np.int32))
@pytest.mark.parametrize("step", (2, 3, 4, 5))
def test_every_step_of_a_row(step, dtype):
    rng = np.random.default_rng(0)
    for shape in ((1, 7), (3, 64), (5, 129), (2, 130), (1, 5000), (30, 333)):
        x = (rng.random(shape) * 100).astype(dtype)
        for start in (0, 1, step):
            got = fgrad.jit(lambda x, start=start: x[:, start::step])(x)
            np.testing.assert_array_equal(np.asarray(got), x[:, start::step])


@pytest.mark.parametrize("dtype", DTYPES)
def test_short_rows_out_of_longer_ones(dtype):
    x = (np.random.default_rng(0).random((1001, 21)) * 100).astype(dtype)
    for width in range(1, 21):
        for start in (0, 21 - width):
            got = fgrad.jit(lambda x, s=slice(start, start + width): x[:, s])(x)
            np.testing.assert_array_equal(np.asarray(got), x[:, start : start + width])
