"""Fourier transforms of rows: two at a time, one that is left over, with every kind and length that a plan may choose."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("n", [64, 72, 96, 101, 128, 192, 200, 256, 509, 512, 1000, 1009, 1024, 1500, 2048, 3000])
def test_rows(n, single):
    rng = np.random.default_rng(n)
    for rows in (2, 3, 33):
        x = rng.standard_normal((rows, n)) + 1j * rng.standard_normal((rows, n))
        real = rng.standard_normal((rows, 2 * n))
        tolerance = 1e-5 if single else 1e-13
        with fgrad.enable_x64(not single):
            for name, given in (("fft", x), ("ifft", x), ("rfft", real), ("irfft", np.fft.rfft(real)), ("fft", real)):
                want = getattr(np.fft, name)(given)
                if single:
                    given = given.astype(np.complex64 if given.dtype.kind == "c" else np.float32)
                got = np.asarray(fgrad.jit(getattr(jnp.fft, name))(given))
                assert got.dtype.itemsize == want.dtype.itemsize // (2 if single else 1)
                assert np.abs(got - want).max() <= tolerance * np.sqrt(np.mean(np.abs(want) ** 2)) * 2


@pytest.mark.parametrize("n, rows", [(64, 40), (128, 40), (101, 40), (256, 40), (1009, 3)])
def test_a_row_does_not_depend_on_those_beside_it(n, rows):
    x = np.random.default_rng(0).standard_normal((rows, n, 2)).astype(np.float32).view(np.complex64)[..., 0]
    f = fgrad.jit(jnp.fft.fft)
    whole = np.asarray(f(x))
    order = np.random.default_rng(1).permutation(rows)
    np.testing.assert_array_equal(np.asarray(f(x[order])), whole[order])
    other = np.where(np.arange(rows)[:, None] % 2, np.nan, x).astype(np.complex64)
    np.testing.assert_array_equal(np.asarray(f(other))[::2], whole[::2])


def test_memory_that_no_cache_holds():
    x = np.random.default_rng(0).standard_normal((6001, 128)).astype(np.float32)
    got = np.asarray(fgrad.jit(jnp.fft.rfft)(x))
    np.testing.assert_allclose(got, np.fft.rfft(x.astype(np.float64)), atol=2e-5)
    np.testing.assert_allclose(np.asarray(fgrad.jit(jnp.fft.irfft)(got)), x, atol=1e-5)
