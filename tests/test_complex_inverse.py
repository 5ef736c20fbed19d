"""Complex inverse functions beside NumPy's of twice the precision: in the plane, on the cuts, at poles and far out."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp

NAMES = ("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh")


@pytest.mark.parametrize("name", [*NAMES, "log2", "log10"])
def test_values_in_the_plane(name):
    rng = np.random.default_rng(0)
    size = 10.0 ** rng.uniform(-6, 12, 2000)
    z = (size * np.exp(2j * np.pi * rng.uniform(size=2000))).astype(np.complex64)
    got, want = np.asarray(getattr(jnp, name)(z)), getattr(np, name)(z.astype(np.complex128))
    np.testing.assert_allclose(got.real, want.real, rtol=3e-5, atol=3e-6)
    np.testing.assert_allclose(got.imag, want.imag, rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize("name", NAMES)
def test_sides_of_cuts_and_zeros(name):
    line = [0.0, 0.5, 1.0, 2.0, 1e10, -0.5, -1.0, -2.0, -1e10]
    z = np.array([complex(a, b) for a in line for b in (0.0, -0.0)] + [complex(a, b) for b in line for a in (0.0, -0.0)])
    with np.errstate(all="ignore"):
        want = getattr(np, name)(z)
    got = np.asarray(getattr(jnp, name)(z.astype(np.complex64)))
    np.testing.assert_allclose(got.real, want.real, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(got.imag, want.imag, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives(name):
    f, h = getattr(jnp, name), 1e-6
    z = np.array([0.3 + 0.4j, -2 + 0.5j, 2 - 3j, -0.1 - 5j, 1e-3 + 1e-3j])
    want = (getattr(np, name)(z + h) - getattr(np, name)(z - h)) / (2 * h)
    got = fgrad.vmap(fgrad.grad(f, holomorphic=True))(jnp.asarray(z, "complex64"))
    np.testing.assert_allclose(got, want, rtol=1e-4)
    np.testing.assert_allclose(
        fgrad.jit(fgrad.jvp, static_argnums=0)(f, (jnp.asarray(z, "complex64"),), (jnp.ones(5, "complex64"),))[1], want, rtol=1e-4
    )
    twice = fgrad.grad(fgrad.grad(f, holomorphic=True), holomorphic=True)(jnp.complex64(z[0]))
    g = fgrad.grad(f, holomorphic=True)
    np.testing.assert_allclose(twice, (g(jnp.complex64(z[0] + 1e-2)) - g(jnp.complex64(z[0] - 1e-2))) / 2e-2, rtol=1e-2)


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", NAMES)
def test_far_out_and_beside_poles(name, dtype):
    """Infinite and huge parts, whose squares and products overflow; y whose square vanishes beside a pole."""
    most = float(np.finfo(dtype).max)
    line = [0.0, 1.0, -2.5, 1e-30, 1e20, -1e9, np.inf, most]
    line += [-v for v in line]
    z = np.array([complex(a, b) for a in line for b in line] + [complex(np.inf, np.nan), complex(np.nan, -np.inf)]).astype(dtype)
    with np.errstate(all="ignore"), fgrad.enable_x64(True):
        want = getattr(np, name)(z.astype(np.clongdouble)).astype(dtype)[:-2]
        got = np.asarray(getattr(jnp, name)(z))
    assert np.isnan(got[-2:]).any(axis=0)
    for a, b in ((got.real[:-2], want.real), (got.imag[:-2], want.imag)):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=0)
        np.testing.assert_array_equal(np.signbit(a), np.signbit(b))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_squares_that_overflow(dtype):
    """The real part alone is infinite: twice a part would be too, and infinity times zero NaN."""
    most = float(np.finfo(dtype).max)
    z = np.array([most, complex(0, most), complex(most, 1e-30), 3 + 4j], dtype)
    with np.errstate(all="ignore"), fgrad.enable_x64(True):
        np.testing.assert_allclose(jnp.square(z), np.square(z), rtol=1e-6)
