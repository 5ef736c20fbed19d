"""Special functions against mpmath, their edges and derivatives; distributions against their definitions."""

import mpmath
import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from fgrad._kernels.elementwise import FUSED
from fgrad.scipy import special, stats
from tests.derivatives import check_derivatives
from tests.kernels.ulp_special import FUNCTIONS, A, B, X, exact, worst

WIDE = np.finfo(np.longdouble).nmant == 63  # x87: float64's special functions compute in it


@pytest.fixture
def x64():
    with fgrad.enable_x64():
        yield


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_ulp(name, dtype):
    *_, single, double = FUNCTIONS[name]
    error, args, _ = worst(name, dtype)
    assert error <= (single if dtype == np.float32 else double if WIDE else 400) + (not FUSED), f"{name}{args}: {error} ulp"


def test_gamma_derivatives(x64):
    """d igamma / da, and how a gamma sample moves with a."""
    a, x = A[:25], X[:25]
    slope = lambda a, x: mpmath.diff(lambda t: mpmath.gammainc(t, 0, x, regularized=True), a)
    density = lambda a, x: x ** (a - 1) * mpmath.exp(-x) / mpmath.gamma(a)
    np.testing.assert_allclose(lax.igamma_grad_a(a, x), exact(slope, a, x).astype(float), rtol=1e-12)
    want = exact(lambda a, x: -slope(a, x) / density(a, x), a, x).astype(float)
    np.testing.assert_allclose(lax.random_gamma_grad(a, x), want, rtol=1e-12)


def test_large_parameters(x64):
    """P(a, x) for a up to 1e10 by Gauss-Legendre quadrature of its integrand near x."""
    for a in (3e5, 2e6, 1e10):
        x = a + np.array([-3.0, -0.5, 0.0, 2.0]) * np.sqrt(a)
        root = mpmath.sqrt(a)
        density = lambda t, a=a: mpmath.exp((a - 1) * mpmath.log(t) - t - mpmath.loggamma(a))
        with mpmath.workdps(30):
            want = [float(mpmath.quad(density, [a - 14 * root, a - 7 * root, (a - 7 * root + v) / 2, v])) for v in x.tolist()]
        np.testing.assert_allclose(lax.igamma(np.full(4, a), x), want, rtol=1e-11)
        np.testing.assert_allclose(lax.igammac(np.full(4, a), x), 1 - np.array(want), rtol=1e-11)


def test_edges():
    inf, nan = np.inf, np.nan
    same = np.testing.assert_array_equal
    col = lambda *v: np.array(v, np.float32)
    same(lax.igamma(col(2, 2, 0, -1, 2, nan), col(0, inf, 1, 1, -1, 1)), col(0, 1, 1, nan, nan, nan))
    same(lax.igammac(col(2, 2, 0, -1, 2, nan), col(0, inf, 1, 1, -1, 1)), col(1, 0, 0, nan, nan, nan))
    same(lax.betainc(col(2, 2, 0, 2, 2, -1), col(3, 3, 3, 0, 3, 1), col(0, 1, 0.5, 0.5, 2, 0.5)), col(0, 1, 1, 0, nan, nan))
    same(lax.zeta(col(1, 0.5, 2, nan), col(1, 1, -1, 1)), col(inf, nan, inf, nan))
    same(lax.polygamma(col(1, 1.5, -1, 1), col(0, 1, 1, nan)), col(inf, nan, nan, nan))
    same(lax.bessel_i0e(col(0, inf, -inf, nan)), col(1, 0, 0, nan))
    same(lax.bessel_i1e(col(0, inf, nan)), col(0, 0, nan))


@pytest.mark.parametrize(
    "fun,args,argnum",
    [
        (lax.igamma, (2.3, 1.9), 0),
        (lax.igamma, (2.3, 1.9), 1),
        (lax.igammac, (2.3, 4.9), 0),
        (lax.igammac, (0.3, 1.9), 1),
        (lax.betainc, (2.3, 1.4, 0.3), 2),
        (lax.zeta, (2.3, 1.4), 0),
        (lax.zeta, (2.3, 1.4), 1),
        (lax.polygamma, (2.0, 1.4), 1),
        (lax.digamma, (1.4,), 0),
        (lax.digamma, (-1.4,), 0),
        (lax.lgamma, (-1.4,), 0),
        (lax.bessel_i0e, (1.3,), 0),
        (lax.bessel_i1e, (-1.3,), 0),
        (lax.bessel_i1e, (0.0,), 0),
        (special.ndtr, (0.4,), 0),
        (special.log_ndtr, (-40.0,), 0),
        (special.log_ndtr, (-3.0,), 0),
        (special.ndtri, (0.003,), 0),
        (special.betaln, (2.0, 3.0), 1),
        (special.xlogy, (2.0, 3.0), 0),
        (special.entr, (0.3,), 0),
        (special.rel_entr, (0.3, 0.4), 1),
        (special.multigammaln, (3.1, 2), 0),
        (special.i0, (1.2,), 0),
        (special.gamma, (2.6,), 0),
    ],
)
def test_derivatives(fun, args, argnum, x64):
    h = 1e-6
    at = lambda v: float(fun(*args[:argnum], v, *args[argnum + 1 :]))
    want = (at(args[argnum] + h) - at(args[argnum] - h)) / (2 * h)
    np.testing.assert_allclose(fgrad.grad(fun, argnum)(*args), want, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("fun", [jnp.i0, special.i0])
def test_i0_is_smooth_at_zero(fun, x64):
    for want in (0, 0.5, 0):
        fun = fgrad.grad(fun)
        assert float(fun(0.0)) == want


def test_i1_is_smooth_near_zero(x64):
    """Derivatives 0 to 4 against mpmath's; at 0 they are 0, 1/2, 0, 3/8, 0."""
    fun = special.i1
    for order in range(5):
        assert float(fun(0.0)) == (0, 0.5, 0, 0.375, 0)[order]
        for x in (1e-9, -1e-3, 0.1, 0.249999, 0.250001, -2.0):
            want = float(mpmath.diff(lambda t: mpmath.besseli(1, t), mpmath.mpf(x), order))
            np.testing.assert_allclose(fun(x), want, rtol=1e-9, atol=1e-12)
        fun = fgrad.grad(fun)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_zeta_of_large_exponents_ends(dtype):
    """Where the terms underflow, the sum is that of those before."""
    with fgrad.enable_x64():
        s = np.array([3e38, 3e38, 1e9, 1e5, 2e4, 2e4], dtype)
        np.testing.assert_array_equal(lax.zeta(s, np.array([1, 2, 1, 1e9, 5, 1], dtype)), [1, 0, 1, 0, 0, 1])
        lax.zeta(np.array([1e30], dtype), np.array([-2.5], dtype)), lax.polygamma(np.array([3e38], dtype), np.array([2], dtype))


def test_the_derivative_of_zeta_in_its_exponent():
    s, q = np.array([1.01, 1.5, 3.3, 15.0, 30.0]), np.array([0.3, 2.5, 0.01, 0.7, 1.2])
    with fgrad.enable_x64():
        slope = fgrad.grad(lambda s, q: lax.zeta(s, q).sum())
        np.testing.assert_allclose(slope(s, q), [float(mpmath.zeta(*at, 1)) for at in zip(s, q)], rtol=1e-14)
        bend = fgrad.grad(lambda s, q: slope(s, q).sum())
        np.testing.assert_allclose(bend(s, q), [float(mpmath.zeta(*at, 2)) for at in zip(s, q)], rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rare_arguments_among_common_ones(dtype, x64):
    """zeta and polygamma of float32 take whole blocks, in which some lanes need the general series."""
    n = 600
    s, q, order = np.full(n, 2.5, dtype), np.linspace(0.5, 9, n).astype(dtype), np.full(n, 2, dtype)
    zeta, polygamma = lax.zeta(s, q), lax.polygamma(order, q)
    rare = [0, 7, 300, n - 1]
    s[rare], q[rare], order[rare] = [2, 1, 0.5, np.inf], [-0.5, 3, 1, 1], [1, 0, 1.5, -1]
    want = [float(mpmath.zeta(2, -0.5)), np.inf, np.nan, 1]
    np.testing.assert_allclose(np.asarray(lax.zeta(s, q))[rare], want, rtol=1e-6)
    want = [float(mpmath.polygamma(1, -0.5)), float(mpmath.digamma(3)), np.nan, np.nan]
    np.testing.assert_allclose(np.asarray(lax.polygamma(order, q))[rare], want, rtol=1e-6)
    rest = np.setdiff1d(np.arange(n), rare)
    np.testing.assert_array_equal(np.asarray(lax.zeta(s, q))[rest], np.asarray(zeta)[rest])
    np.testing.assert_array_equal(np.asarray(lax.polygamma(order, q))[rest], np.asarray(polygamma)[rest])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_derivatives_of_digamma(dtype, x64):
    """Order 1 takes whole blocks, in which some lanes need the general series."""
    x = np.linspace(0.01, 90, 700).astype(dtype)
    x[:6] = [-0.5, 0, np.inf, np.nan, 1e-15, 1e25]
    got = np.asarray(fgrad.vmap(fgrad.grad(lax.digamma))(x))
    want = [float(mpmath.polygamma(1, v)) for v in (-0.5, *x[4:].astype(float).tolist())]
    np.testing.assert_allclose(got[[0, *range(4, 700)]], want, rtol=3 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(got[1:4], np.asarray(lax.polygamma(np.full(3, 1, dtype), x[1:4])))
    assert got[1] == np.inf and got[2] == 0 and np.isnan(got[3])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gamma_lgamma_digamma_over_the_line(dtype, x64):
    x = np.concatenate([np.linspace(-7.93, 30, 400), [1e-8, -1e-8, 1 - 1e-4, 2 + 1e-4, 1e5, 0.75, 2.25, 0.5]]).astype(dtype)
    for fun, ref in ((special.gammaln, lambda v: mpmath.log(abs(mpmath.gamma(v)))), (special.digamma, mpmath.digamma)):
        np.testing.assert_allclose(np.asarray(fun(x)), exact(ref, x.astype(float)).astype(float), rtol=4e-6, atol=4e-6)
    x = x[x < 33]
    np.testing.assert_allclose(
        np.asarray(special.gamma(x)), exact(mpmath.gamma, x.astype(float)).astype(float), rtol=4 * np.finfo(dtype).eps
    )
    inf, nan = np.inf, np.nan
    edges = np.array([0.0, -0.0, -1, -2, inf, -inf, nan, 40 if dtype == np.float32 else 180], dtype)
    np.testing.assert_array_equal(np.asarray(special.gamma(edges)), np.array([inf, -inf, nan, nan, inf, nan, nan, inf], dtype))


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nextafter(dtype, x64):
    tiny = np.finfo(dtype).smallest_subnormal
    values = np.array([0.0, -0.0, tiny, -tiny, 1, -1, np.finfo(dtype).max, np.inf, -np.inf, np.nan, 2, -0.5], dtype)
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    got, want = np.asarray(lax.nextafter(x, y)), np.nextafter(x, y)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_copysign_hypot_and_ldexp_at_the_edges(dtype, x64):
    info = np.finfo(dtype)
    tiny = info.smallest_subnormal
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, info.max, -info.max, info.tiny, tiny, -tiny, 3.7, info.tiny * 1.7], dtype)
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    with np.errstate(over="ignore", invalid="ignore"):
        for fun, ref in ((jnp.hypot, np.hypot), (jnp.copysign, np.copysign)):
            got, want = np.asarray(fun(x, y)), ref(x, y)
            np.testing.assert_allclose(got, want, rtol=2 * info.eps)
            np.testing.assert_array_equal(np.signbit(got)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)])
        rng = np.random.default_rng(0)
        values = np.concatenate([values, np.frombuffer(rng.bytes(400 * dtype().itemsize), dtype)])
        n = np.array([-3000, -1100, -160, -149, -140, -126, -30, 0, 1, 20, 127, 128, 160, 270, 1030, 2100, 2**31 - 1, -(2**31)], np.int32)
        x, y = (v.ravel() for v in np.meshgrid(values, n))
        np.testing.assert_array_equal(np.asarray(jnp.ldexp(x, y)), np.ldexp(x, y))


@pytest.mark.usefixtures("denormals")
def test_incomplete_integrals_of_float32_agree_with_float64(x64):
    """Blocks of lanes take series, continued fractions or, one by one, the general code."""
    rng = np.random.default_rng(0)
    a, x, b = (np.exp(rng.uniform(-9, 8, 3000)).astype(np.float32) for _ in range(3))
    a[:40] = [0, 1e-8, 2e4, 1e7, np.inf, np.nan, -1, 3] * 5
    x[:40] = np.repeat([0, 1e-30, 3e4, np.inf, 2.5], 8)
    p = rng.uniform(0, 1, 3000).astype(np.float32)
    p[:40:3] = 0
    p[1:40:3] = 1
    wide = lambda *v: [t.astype(np.float64) for t in v]
    for fun, args in ((lax.igamma, (a, x)), (lax.igammac, (a, x)), (lax.betainc, (a, b, p)), (special.betaln, (a, x))):
        want = np.asarray(fun(*wide(*args)))
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(np.asarray(fun(*args)), want.astype(np.float32), rtol=3e-7, atol=1e-44)


def test_derivatives_of_hypot_and_copysign():
    grads = lambda f, *at: [float(g) for g in fgrad.grad(f, (0, 1))(*at)]
    np.testing.assert_allclose(grads(jnp.hypot, 3.0, -4.0), [0.6, -0.8], rtol=1e-6)
    assert grads(jnp.hypot, 0.0, 0.0) == [0.5, 0.5]
    assert np.isnan(grads(jnp.hypot, 1.0, np.inf)).all()
    assert grads(jnp.copysign, -3.0, 2.0) == [-1, 0]
    assert grads(jnp.copysign, 3.0, -0.0) == [-1, 0]


@pytest.mark.parametrize("shape, axis", [((6, 3), 1), ((6, 100), 1), ((2, 30000), 1), ((100, 40), 0), ((6000, 3), 0), ((1, 100000), 1)])
def test_gradient_of_logsumexp_beside_infinities(shape, axis, x64):
    for dtype in ("float32", "float64"):
        x = np.random.default_rng(0).normal(0, 50, shape).astype(dtype)
        rows = np.moveaxis(x, axis, -1)
        rows[0, 1] = np.inf
        if len(rows) > 1:
            rows[1] = -np.inf
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            out = np.log(np.exp(rows - np.where(np.isfinite(m := rows.max(-1, keepdims=True)), m, 0)).sum(-1, keepdims=True)) + m
            want = np.exp(rows - out)
        assert np.isnan(want[0]).sum() == 1
        total, grad = fgrad.value_and_grad(lambda x: (y := fgrad.nn.logsumexp(x, axis), jnp.sum(y))[1])(x)
        np.testing.assert_allclose(np.moveaxis(np.asarray(grad), axis, -1), want, rtol=1e-5, atol=1e-30)
        values = fgrad.vjp(lambda x: fgrad.nn.logsumexp(x, axis), x)[0]
        np.testing.assert_allclose(values, out[..., 0], rtol=1e-6)
        assert np.isnan(np.moveaxis(np.asarray(fgrad.nn.softmax(x, axis)), axis, -1)[:2]).all()


def test_kl_div(x64):
    want = exact(lambda p, q: p * mpmath.log(p / q) - p + q, A, B).astype(float)
    np.testing.assert_allclose(special.kl_div(A, B), want, rtol=1e-13, atol=1e-14)


def test_special_edges():
    same = np.testing.assert_array_equal
    same(special.xlogy(jnp.zeros(2), jnp.array([0.0, np.inf])), [0, 0])
    for f in (special.xlogy, special.xlog1py):
        same(f(0.0, jnp.array([np.nan, -2.0])), [np.nan, 0])
    same(special.entr(jnp.array([0.0, -1.0])), [0, -np.inf])
    same([fgrad.grad(special.entr)(0.0), fgrad.jacfwd(special.entr)(1.0)], [np.inf, -1])
    same(special.rel_entr(jnp.array([0.0, 1.0, -1.0]), jnp.array([0.0, 0.0, 1.0])), [0, np.inf, np.inf])
    same(special.logit(jnp.array([0.0, 1.0, 0.5, -1.0, -1e-40, 2.0])), [-np.inf, np.inf, 0, np.nan, np.nan, np.nan])
    same(special.ndtri(jnp.array([0.0, 1.0, 0.5])), [-np.inf, np.inf, 0])
    same(special.ndtr(jnp.array([-np.inf, np.inf])), [0, 1])
    same(special.gammasgn(jnp.array([-0.5, -1.5, 2.0, -1.0, np.nan])), [-1, 1, 1, np.nan, np.nan])
    assert float(fgrad.grad(special.xlogy)(0.0, 0.0)) == 0
    with pytest.raises(TypeError):
        special.gammaln(jnp.ones(2, jnp.complex64))


CONTINUOUS = {  # distribution: (shape parameters, interval)
    "norm": ((), (-4, 5)),
    "uniform": ((), (-1, 3)),
    "expon": ((), (0.5, 6)),
    "laplace": ((), (-4, 5)),
    "logistic": ((), (-4, 5)),
    "cauchy": ((), (-4, 5)),
    "gamma": ((2.3,), (0.6, 8)),
    "chi2": ((3.0,), (0.6, 8)),
    "beta": ((2.3, 1.4), (0.6, 2.3)),
    "gumbel_r": ((), (-3, 6)),
    "gumbel_l": ((), (-6, 4)),
    "pareto": ((2.3,), (2.6, 8)),
    "truncnorm": ((-1.5, 2.0), (-2.4, 4.4)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_cdf_is_the_integral_of_pdf(name, x64):
    params, (lo, hi) = CONTINUOUS[name]
    dist, loc, scale = getattr(stats, name), 0.5, 2.0
    nodes, weights = np.polynomial.legendre.leggauss(60)
    cuts = np.linspace(lo, hi, 9)
    cuts = np.unique(np.concatenate([cuts, [c for c in (0.5, 2.5) if lo < c < hi]]))
    total = sum(
        (b - a) / 2 * weights @ np.asarray(dist.pdf((b - a) / 2 * nodes + (a + b) / 2, *params, loc, scale)) for a, b in zip(cuts, cuts[1:])
    )
    np.testing.assert_allclose(dist.cdf(hi, *params, loc, scale) - dist.cdf(lo, *params, loc, scale), total, rtol=1e-6)
    for inverse, of in (("ppf", "cdf"), ("isf", "sf")):
        if hasattr(dist, inverse):
            q = np.array([0.1, 0.5, 0.93])
            at = getattr(dist, inverse)(q, *params, loc, scale)
            np.testing.assert_allclose(getattr(dist, of)(at, *params, loc, scale), q, rtol=1e-10)
    inside = np.linspace(lo, hi, 11)[1:-1]
    inside = inside[np.isfinite(dist.logpdf(inside, *params, loc, scale)) & (abs(inside - loc) > 0.05)]  # off the edges and kinks
    for f in (dist.logpdf, dist.cdf):
        check_derivatives(lambda x, s, f=f: f(x, *params, loc, s), inside, np.full(inside.size, scale), order=1)


def test_more_densities_add_up(x64):
    nodes, weights = np.polynomial.legendre.leggauss(200)
    for dist, a, b, args in (
        (stats.vonmises, -np.pi, np.pi, (2.5,)),
        (stats.wrapcauchy, 0, 2 * np.pi, (0.3,)),
        (stats.gennorm, -9, 9, (2.0,)),
    ):
        np.testing.assert_allclose((b - a) / 2 * weights @ np.asarray(dist.pdf((b - a) / 2 * nodes + (a + b) / 2, *args)), 1, rtol=1e-9)
        check_derivatives(dist.logpdf, np.array([0.4, 1.7]), np.full(2, args[0]), order=1)
    np.testing.assert_allclose(stats.gennorm.cdf(0.7, 2.0), stats.norm.cdf(0.7, 0, 0.5**0.5), rtol=1e-13)
    k = np.arange(400.0)
    for dist, args in ((stats.binom, (9, 0.3)), (stats.betabinom, (9, 2.0, 0.7)), (stats.nbinom, (3.5, 0.4)), (stats.geom, (0.2,))):
        np.testing.assert_allclose(dist.pmf(k, *args).sum(), 1, rtol=1e-12)
        check_derivatives(lambda p, dist=dist, args=args: dist.logpmf(k[1:5], *args[:-1], p), np.float64(args[-1]), order=1)
    np.testing.assert_allclose(
        stats.dirichlet.pdf(np.array([[0.3], [0.7]]), np.array([2.3, 1.4])), stats.beta.pdf(np.array([0.3]), 2.3, 1.4)
    )
    for mu in (0.2, 4.2, 99.9, 100.1):
        logs = np.asarray(stats.poisson.logpmf(k, mu))
        np.testing.assert_allclose(stats.poisson.entropy(mu), -(np.exp(logs) * logs).sum(), rtol=1e-8)


def test_discrete(x64):
    k = np.arange(40.0)
    p = np.asarray(stats.poisson.pmf(k, 4.2))
    np.testing.assert_allclose(p.sum(), 1)
    np.testing.assert_allclose(stats.poisson.cdf(k, 4.2), np.cumsum(p))
    np.testing.assert_allclose(stats.bernoulli.pmf(np.array([0, 1, 2]), 0.3), [0.7, 0.3, 0])
    np.testing.assert_allclose(stats.bernoulli.cdf(np.array([-1.0, 0, 1]), 0.3), [0, 0.7, 1])
    counts = np.array([[i, j, 4 - i - j] for i in range(5) for j in range(5 - i)])
    np.testing.assert_allclose(stats.multinomial.pmf(counts, 4, np.array([0.2, 0.3, 0.5])).sum(), 1)
    assert float(stats.multinomial.logpmf(np.array([1, 1]), 4, np.array([0.5, 0.5]))) == -np.inf
    x = np.linspace(-3, 3, 7)
    np.testing.assert_allclose(stats.t.pdf(x, 1.0), stats.cauchy.pdf(x), rtol=1e-12)


def test_edges_in_vectors(x64):
    """float64: numbers that leave the vectors of common ones, and where the vectors' formulas meet."""
    inf, nan = np.inf, np.nan
    x = np.array([0.0, -0.0, inf, -inf, nan, -1.0, 1.0, 2.0, 3.0, 171.7, 1e308, 5e-324, -0.5])
    np.testing.assert_array_equal(lax.lgamma(x)[:9], [inf, inf, inf, inf, nan, inf, 0, 0, np.log(2)])
    np.testing.assert_array_equal(lax.digamma(x)[:6], [-inf, inf, inf, nan, nan, nan])
    np.testing.assert_array_equal(special.gamma(x)[:12], [inf, -inf, inf, nan, nan, nan, 1, 1, 2, inf, inf, inf])
    meet = np.array([0.8, 1, 1.8, 3.8, 8, 1e-300, 5e-301, 1e300, 171.6])
    meet = np.concatenate([meet, np.nextafter(meet, 0), np.nextafter(meet, inf)])
    for ours, theirs in ((lax.lgamma, mpmath.loggamma), (lax.digamma, mpmath.digamma)):
        np.testing.assert_allclose(ours(meet), exact(theirs, meet).astype(float), rtol=5e-16, atol=1e-16)
    meet = meet[(meet > 1e-290) & (meet < 172)]
    np.testing.assert_allclose(special.gamma(meet), exact(mpmath.gamma, meet).astype(float), rtol=5e-16)
    s, q = np.array([1 + 1e-10, 20, 20.5, 1, 2, 2, 3, inf]), np.array([2.0, 0.1, 0.1, 3, 1e11, -0.5, nan, 2])
    got = np.asarray(lax.zeta(s, q))
    np.testing.assert_allclose(got[:5], exact(mpmath.zeta, s[:5] + [0, 0, 0, 1, 0], q[:5]).astype(float) + [0, 0, 0, inf, 0], rtol=1e-15)
    np.testing.assert_array_equal(got[6:], [nan, 0])


def test_multigammaln_is_not_weakly_typed():
    assert not special.multigammaln(5.0, 2).weak_type and not special.multigammaln(5.0, 1).weak_type
    assert special.multigammaln(jnp.full(2, 3, jnp.bfloat16), 2).dtype == jnp.bfloat16


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_logarithms_to_other_bases_of_16_bits(dtype):
    x = jnp.array([-1, 0.5, 3, 8], dtype)
    exact = np.asarray(x, np.float64)
    both = jnp.logaddexp2(x, x[::-1])
    assert both.dtype == dtype and jnp.logaddexp2(x[:1], x[:1]) == 0
    np.testing.assert_allclose(np.asarray(both, np.float64), np.logaddexp2(exact, exact[::-1]), rtol=float(jnp.finfo(dtype).eps))
    large = jnp.array(6e4, dtype)
    for f, base in ((jnp.log2, 2), (jnp.log10, 10)):
        np.testing.assert_allclose(float(fgrad.grad(f)(large)), 1 / (float(large) * np.log(base)), rtol=0.02)


@pytest.mark.parametrize("fun", [lax.erf_inv, special.ndtri])
def test_values_do_not_depend_on_their_neighbours(fun):
    x = np.linspace(0.01, 0.999, 64, dtype=np.float32)
    among = np.asarray(fun(jnp.array(np.stack([x, np.full_like(x, 1e-6), np.full_like(x, 0.99999)], -1).ravel())))[::3]
    np.testing.assert_array_equal(among, np.asarray(fun(jnp.array(x))))
