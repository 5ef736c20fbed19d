"""scipy.signal, ndimage, optimize, integrate, cluster.vq and experimental.ode against NumPy's formulas."""

import numpy as np
import pytest

import fgrad as jax
import fgrad.numpy as jnp
from fgrad.experimental.ode import odeint
from fgrad.scipy import integrate, ndimage, optimize, signal, stats
from fgrad.scipy.cluster.vq import vq
from fgrad.test_util import check_grads

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((5, 6)).astype(np.float32), RNG.standard_normal((3, 2)).astype(np.float32)


def full_convolution(a, b):
    out = np.zeros([n + m - 1 for n, m in zip(a.shape, b.shape)], np.result_type(a, b))
    for i in np.ndindex(b.shape):
        out[tuple(slice(j, j + n) for j, n in zip(i, a.shape))] += a * b[i]
    return out


def part(full, a, b, mode):
    if mode == "full":
        return full
    starts = [(m - 1) // 2 if mode == "same" else m - 1 for m in b.shape]
    sizes = a.shape if mode == "same" else [n - m + 1 for n, m in zip(a.shape, b.shape)]
    return full[tuple(slice(i, i + n) for i, n in zip(starts, sizes))]


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolve_and_correlate(mode):
    want = part(full_convolution(A, B), A, B, mode)
    for f in (signal.convolve, signal.convolve2d, signal.fftconvolve, jax.jit(signal.convolve, static_argnums=2)):
        np.testing.assert_allclose(f(A, B, mode), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(signal.convolve(A, B, mode, method="fft"), want, rtol=1e-4, atol=1e-5)
    z = (A[0] + 1j * A[1]).astype(np.complex64)
    np.testing.assert_allclose(signal.correlate(z, z[:3], mode), np.correlate(z, z[:3], mode), rtol=1e-4, atol=1e-5)
    check_grads(lambda a, b: signal.correlate(a, b, mode), (A, B), 1, eps=1e-2)


def test_valid_swaps_and_refuses():
    want = part(full_convolution(A, B), A, B, "valid")
    np.testing.assert_allclose(signal.convolve(B, A, "valid"), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(signal.correlate(B, A, "valid"), np.flip(signal.correlate(A, B, "valid")), rtol=1e-5)
    with pytest.raises(ValueError, match="at least as large"):
        signal.convolve(A, B.T.repeat(4, 1), "valid")
    with pytest.raises(ValueError, match="number of dimensions"):
        signal.convolve(A, B[0])
    with pytest.raises(NotImplementedError, match="boundary"):
        signal.convolve2d(A, B, boundary="wrap")


def test_correlate2d_same_of_even_size():
    """SciPy centres an even kernel one further than correlate does."""
    full = full_convolution(A, B[::-1, ::-1])
    np.testing.assert_allclose(signal.correlate2d(A, B, "same"), full[1:6, 1:7], rtol=1e-4, atol=1e-5)


def padded(x, mode):
    return np.pad(x, 9, {"constant": "constant", "nearest": "edge", "wrap": "wrap", "mirror": "reflect", "reflect": "symmetric"}[mode])


@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap", "mirror", "reflect"])
@pytest.mark.parametrize("order", [0, 1])
def test_map_coordinates(mode, order):
    y, x = (RNG.uniform(-4, 9, 20).astype(np.float32) for _ in range(2))
    big = padded(A, mode)
    if order == 0:
        want = big[np.round(y).astype(int) + 9, np.round(x).astype(int) + 9]
    else:
        i, j = np.floor(y).astype(int) + 9, np.floor(x).astype(int) + 9
        u, v = y - np.floor(y), x - np.floor(x)
        want = (1 - u) * ((1 - v) * big[i, j] + v * big[i, j + 1]) + u * ((1 - v) * big[i + 1, j] + v * big[i + 1, j + 1])
    np.testing.assert_allclose(ndimage.map_coordinates(A, [y, x], order, mode), want, rtol=1e-4, atol=1e-5)
    if order == 1:
        check_grads(lambda a: ndimage.map_coordinates(a, [y, x], 1, mode), (A,), 1, eps=1e-2)


def test_map_coordinates_refuses():
    with pytest.raises(NotImplementedError, match="order<=1"):
        ndimage.map_coordinates(A, [A, A], 3)
    with pytest.raises(ValueError, match="1 != 2"):
        ndimage.map_coordinates(A, [A], 1)
    assert ndimage.map_coordinates(np.array([0, 3]), [np.array([0.5, 0.9])], 1).tolist() == [2, 3]


def test_fftconvolve_along_one_axis():
    a, b = np.ones((2, 5), np.float32), np.arange(4, dtype=np.float32).reshape(2, 2)
    want = [np.convolve(x, y) for x, y in zip(a, b)]
    np.testing.assert_allclose(signal.fftconvolve(a, b, axes=1), want, atol=1e-5)


@pytest.mark.parametrize("n, k", [(33, 1), (60, 40), (1000, 33), (997, 997)])
def test_fftconvolve_pads_to_fast_sizes(n, k):
    r = np.random.default_rng(0)
    a, b = r.standard_normal(n).astype(np.float32), r.standard_normal(k).astype(np.float32)
    for mode in ("full", "same", "valid"):
        want = np.convolve(a.astype(float), b.astype(float), mode)
        np.testing.assert_allclose(signal.fftconvolve(a, b, mode), want, atol=3e-4)
    z = signal.fftconvolve(a + 1j * a[::-1], b + 0j)
    np.testing.assert_allclose(z, np.convolve(a + 1j * a[::-1], b), atol=3e-4)
    two = signal.fftconvolve(np.stack([a, 2 * a]), np.stack([b, b]))
    np.testing.assert_allclose(two[1], 3 * np.convolve(a, b), atol=1e-3)


def rosenbrock(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def test_bfgs():
    result = optimize.minimize(rosenbrock, jnp.array([-1.2, 1.0, 0.5]), method="BFGS")
    assert bool(result.success) and int(result.status) == 0 and 20 < int(result.nit) < 80
    np.testing.assert_allclose(result.x, 1, rtol=1e-4)
    short = optimize.minimize(rosenbrock, jnp.array([-1.2, 1.0]), method="BFGS", options={"maxiter": 3})
    assert not bool(short.success) and int(short.status) == 1 and int(short.nit) == 3
    scales = jnp.array([1.0, 10.0])
    solve = lambda c: optimize.minimize(lambda x, c: jnp.sum(scales * (x - c) ** 4 + (x - c) ** 2), jnp.zeros(2), (c,), method="BFGS").x  # noqa: E731
    np.testing.assert_allclose(jax.jit(jax.vmap(solve))(jnp.arange(3.0)), np.arange(3.0)[:, None] * [1, 1], atol=1e-3)


def test_limited_memory_bfgs():
    method = "l-bfgs-experimental-do-not-rely-on-this"
    with jax.enable_x64():
        result = optimize.minimize(rosenbrock, jnp.zeros(20), method=method, options={"ftol": 0, "gtol": 1e-8, "maxcor": 5})
        assert bool(result.success) and int(result.status) == 0 and result.hess_inv is None and int(result.nit) < 200
        np.testing.assert_allclose(result.x, 1, rtol=1e-8)
    target = jnp.array([1 + 2j, -3j, 4])
    result = optimize.minimize(lambda z: jnp.real(jnp.vdot(z - target, z - target)), jnp.zeros(3, complex), method=method)
    np.testing.assert_allclose(result.x, target, rtol=1e-5)
    for status, options in ((1, {"maxiter": 3}), (2, {"maxfun": 3}), (3, {"maxgrad": 3}), (4, {"ftol": np.inf})):
        result = optimize.minimize(rosenbrock, jnp.zeros(5), method=method, options=options)
        assert not bool(result.success) and int(result.status) == status


def test_bfgs_ends_where_the_value_is_flat_to_rounding():
    a = np.random.default_rng(0).normal(size=(200, 12)).astype(np.float32)
    b = (a[:, 0] + 0.5 * np.random.default_rng(1).normal(size=200) > 0).astype(np.float32)
    loss = lambda x: jnp.mean(jnp.logaddexp(0, a @ x) - b * (a @ x))  # noqa: E731
    found = optimize.minimize(loss, jnp.zeros(12), method="BFGS", options={"gtol": 1e-9})
    assert int(found.status) == 3 and not found.success and int(found.nit) < 100 and int(found.nfev) < 300
    assert np.abs(found.jac).max() < 1e-4


def test_minimize_refuses():
    with pytest.raises(ValueError, match="'BFGS'"):
        optimize.minimize(rosenbrock, jnp.zeros(2), method="CG")
    with pytest.raises(ValueError, match="steps"):
        optimize.minimize(rosenbrock, jnp.zeros(2), method="BFGS", options={"steps": 3})
    with pytest.raises(TypeError, match="vector"):
        optimize.minimize(lambda x: x, 1.0, method="BFGS")


def test_trapezoid_and_vq():
    np.testing.assert_allclose(integrate.trapezoid(A, dx=0.5), np.trapezoid(A, dx=0.5), rtol=1e-5)
    codes, distances = vq(A, A[[1, 3]])
    want = np.linalg.norm(A[:, None] - A[None, [1, 3]], axis=-1)
    np.testing.assert_array_equal(codes, want.argmin(1))
    np.testing.assert_allclose(distances, want.min(1), rtol=1e-5)
    assert vq(np.array([0.0, 4.0]), np.array([1.0, 5.0]))[0].tolist() == [0, 1]
    with pytest.raises(ValueError, match="features"):
        vq(A, B)


def test_odeint():
    t = jnp.array([0.0, 0.3, 1.0, 2.5])
    with jax.enable_x64():
        solve = lambda k, y0, t: odeint(lambda y, t, k: {"a": -k * y["a"] + 0 * t, "b": y["a"]}, {"a": y0, "b": 0.0 * y0}, t, k)  # noqa: E731
        y = solve(0.7, jnp.array([1.0, 2.0]), jnp.asarray(t, "float64"))
        decay = np.exp(-0.7 * np.asarray(t, "float64"))[:, None] * [1, 2]
        np.testing.assert_allclose(y["a"], decay, rtol=1e-7)
        np.testing.assert_allclose(y["b"], ([1, 2] - decay) / 0.7, rtol=1e-6, atol=1e-8)
        loss = lambda *xs: jnp.sum(solve(*xs)["b"] ** 2) + solve(*xs)["a"][1, 0]  # noqa: E731
        check_grads(loss, (0.7, jnp.array([1.0, 2.0]), jnp.asarray(t, "float64")), 1, modes=["rev"], atol=1e-5, rtol=1e-5)


def test_odeint_closes_over_what_it_differentiates():
    def end(w):
        return odeint(lambda y, t: jnp.sin(t) * w * y, 1.0, jnp.linspace(0.0, 1.0, 3), rtol=1e-6, atol=1e-6)[-1]

    area = 1 - np.cos(1.0)
    np.testing.assert_allclose(end(2.0), np.exp(2 * area), rtol=1e-5)
    np.testing.assert_allclose(jax.jit(jax.grad(end))(2.0), area * np.exp(2 * area), rtol=1e-4)
    np.testing.assert_allclose(jax.vmap(end)(jnp.array([0.0, 2.0])), [1, np.exp(2 * area)], rtol=1e-5)
    with pytest.raises(TypeError, match="vector of times"):
        odeint(lambda y, t: y, 1.0, 2.0)


def test_geom_of_nan_is_nan():
    got = jax.scipy.stats.geom.logpmf(np.array([np.nan, 0, 2]), 0.5)
    np.testing.assert_allclose(got, [np.nan, -np.inf, 2 * np.log(0.5)], rtol=1e-6)


def test_distributions_pass_nan_on():
    nan = np.float32(np.nan)
    for name, *args in (
        ("gamma.logpdf", 2.0), ("chi2.pdf", 2.0), ("beta.logpdf", 1.0, 2.0), ("expon.logcdf",), ("betabinom.logpmf", 3, 1.0, 2.0),
        ("nbinom.logpmf", 3, 0.5), ("binom.logpmf", 3, 0.5), ("pareto.pdf", 2.0), ("pareto.cdf", 2.0), ("pareto.sf", 2.0),
        ("truncnorm.cdf", -1.0, 1.0), ("truncnorm.sf", -1.0, 1.0), ("poisson.logpmf", 2.0), ("wrapcauchy.pdf", 0.3),
        ("bernoulli.logpmf", 0.5), ("uniform.cdf",), ("geom.logpmf", 0.5), ("expon.logpdf",), ("expon.cdf",),
    ):  # fmt: skip
        distribution, function = name.split(".")
        assert np.isnan(getattr(getattr(stats, distribution), function)(nan, *args)), name
    for value in (stats.gamma.logpdf(np.inf, 3.0), stats.nbinom.logpmf(np.inf, 3, 0.5), stats.poisson.logpmf(np.inf, 2)):
        assert float(value) == -np.inf
    assert float(stats.gamma.sf(-1.0, 0.0)) == 1 and stats.poisson.entropy(2.0, jnp.zeros((4, 1))).shape == (4, 1)


def test_convolution_of_scalars_is_their_product():
    for f in (signal.convolve, signal.correlate, signal.fftconvolve):
        assert f(jnp.array(2.0), jnp.array(3.0)).shape == () and float(f(2.0, 3.0)) == 6
