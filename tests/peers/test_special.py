"""fgrad.scipy beside jax.scipy: values and derivatives."""

import numpy as np
import pytest

import fgrad
from fgrad.scipy import special, stats

pytestmark = pytest.mark.peers
jax = pytest.importorskip("jax")
jsp = pytest.importorskip("jax.scipy")

rng = np.random.default_rng(0)
A, B = (np.exp(rng.uniform(-1, 3, 40)).astype("f") for _ in range(2))
X = (A * np.exp(rng.normal(0, 0.4, 40))).astype("f")
U = rng.uniform(0.02, 0.98, 40).astype("f")
R = rng.uniform(-4, 4, 40).astype("f")
ONE, TWO = np.ones(40, "f"), np.full(40, 2, "f")

CASES = {  # name: (arguments, those that have a derivative in JAX)
    "gammaln": ((A,), (0,)),
    "gamma": ((A / 4,), (0,)),
    "digamma": ((A,), (0,)),
    "polygamma": ((TWO, A), (1,)),
    "gammainc": ((A, X), (0, 1)),
    "gammaincc": ((A, X), (0, 1)),
    "betainc": ((A, B, U), (2,)),
    "betaln": ((A, B), (0, 1)),
    "beta": ((A, B), ()),
    "zeta": ((1 + A, B), ()),
    "i0": ((R,), (0,)),
    "i0e": ((R,), (0,)),
    "i1": ((R,), (0,)),
    "i1e": ((R,), (0,)),
    "xlogy": ((A, B), (0, 1)),
    "xlog1py": ((A, B), (0, 1)),
    "entr": ((A,), (0,)),
    "rel_entr": ((A, B), (0, 1)),
    "kl_div": ((A, B), (0, 1)),
    "ndtr": ((R,), (0,)),
    "log_ndtr": ((5 * R,), (0,)),
    "ndtri": ((U,), (0,)),
    "erf": ((R,), (0,)),
    "erfc": ((R,), (0,)),
    "erfinv": ((U,), (0,)),
    "expit": ((R,), (0,)),
    "logit": ((U,), (0,)),
    "logsumexp": ((R,), (0,)),
    "softmax": ((R,), (0,)),
    "log_softmax": ((R,), (0,)),
    "factorial": ((A / 4,), ()),
    "gammasgn": ((R,), ()),
    "erfcx": ((R / 2,), (0,)),
    "dawsn": ((R,), (0,)),
    "expi": ((R,), (0,)),
    "spence": ((A,), ()),  # JAX's derivative is NaN for x > 2
    "loggamma": ((A,), (0,)),
    "boxcox": ((A, U), (0, 1)),
    "boxcox1p": ((A, U), (0, 1)),
    "comb": ((A + B, A), (0, 1)),
    "poch": ((A / 4, B / 4), (0, 1)),
    "hyp1f1": ((U, A, R), (0, 1, 2)),
    "hyp2f1": ((U, U + 0.2, 1 + U, U[::-1] * 0.8), (0, 1, 2, 3)),
    "owens_t": ((R, R[::-1]), (0, 1)),
}
DENSITIES = {
    "norm": (R, ONE, TWO),
    "uniform": (R, -TWO, 2 * TWO),
    "expon": (A, 0 * ONE, TWO),
    "laplace": (R, ONE, TWO),
    "logistic": (R, ONE, TWO),
    "cauchy": (R, ONE, TWO),
    "t": (R, A, ONE, TWO),
    "gamma": (X, A),
    "chi2": (X, A),
    "beta": (U, A, B),
    "bernoulli": (np.tile(np.float32([0, 1, 1, 0]), U.size // 4), U),
    "poisson": (np.float32([0, 1, 5, 9]), A[:4]),
}


def close(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=3e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_special(name):
    args, wrt = CASES[name]
    ours, theirs = getattr(special, name), getattr(jsp.special, name)
    if name == "polygamma":  # JAX wants its order as integers
        args = (args[0].astype(int), args[1])
    close(ours(*args), np.asarray(theirs(*args)))
    for i in wrt:
        want = jax.grad(lambda *a: theirs(*a).sum(), i)(*args)
        close(fgrad.grad(lambda *a: ours(*a).sum(), i)(*args), np.asarray(want))


@pytest.mark.parametrize("name", DENSITIES)
def test_distributions(name):
    args = DENSITIES[name]
    ours, theirs = getattr(stats, name), getattr(jsp.stats, name)
    for f in ("logpdf", "pdf", "logpmf", "pmf", "cdf", "sf", "logcdf", "logsf"):
        if hasattr(ours, f):
            close(getattr(ours, f)(*args), np.asarray(getattr(theirs, f)(*args)))
    for f in ("ppf", "isf"):
        if hasattr(ours, f):
            close(getattr(ours, f)(U, *args[1:]), np.asarray(getattr(theirs, f)(U, *args[1:])))


@pytest.mark.parametrize("name", ["gamma", "loggamma"])
def test_gamma_sample_gradients(name):
    f = lambda m: lambda a: getattr(m.random, name)(m.random.key(1), a).sum()
    np.testing.assert_allclose(fgrad.grad(f(fgrad))(A), jax.grad(f(jax))(A), rtol=2e-4)


K, COUNT = np.float32([0, 1, 3, 5, 9, 12]), np.float32([4, 4, 7, 9, 9, 12])
Q = U[:6]
MORE = {  # name: (arguments, those that have a derivative)
    "binom": ((K, COUNT, Q), (2,)),
    "betabinom": ((K, COUNT, A[:6], B[:6]), (2, 3)),
    "nbinom": ((K, COUNT, Q), (1, 2)),
    "geom": ((K, Q), (1,)),
    "gennorm": ((R, A), (0, 1)),
    "gumbel_r": ((R, ONE, TWO), ()),  # JAX's has no derivative of its density
    "gumbel_l": ((R / 2, ONE, TWO), ()),
    "pareto": ((1.5 + A, B, ONE / 2, TWO / 2), (0, 1, 2, 3)),
    "vonmises": ((R, A), (0, 1)),
    "wrapcauchy": ((abs(R), U), (0, 1)),
    "truncnorm": ((R / 4 + 0.5, -TWO, TWO * 2, ONE / 4, ONE), (0, 1, 2, 3, 4)),
    "expon": ((A, ONE / 2, TWO), (0, 1, 2)),
    "cauchy": ((R, ONE, TWO), (0, 1, 2)),
    "beta": ((U, A, B), (0,)),
    "chi2": ((X, A), (0,)),
}


@pytest.mark.parametrize("name", MORE)
def test_more_distributions(name):
    args, wrt = MORE[name]
    ours, theirs = getattr(stats, name), getattr(jsp.stats, name)
    for f in ("logpmf", "pmf", "logpdf", "pdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf"):
        assert hasattr(ours, f) >= hasattr(theirs, f), f
        if not hasattr(theirs, f):
            continue
        xs = (U[: len(args[0])], *args[1:]) if f in ("ppf", "isf") else args
        close(getattr(ours, f)(*xs), np.asarray(getattr(theirs, f)(*xs)))
        for i in wrt if f.startswith("log") else ():
            want = np.asarray(jax.grad(finite_sum(getattr(theirs, f), jax.numpy), i)(*xs))
            got = fgrad.grad(finite_sum(getattr(ours, f), fgrad.numpy), i)(*xs)
            np.testing.assert_allclose(got, want, rtol=3e-4, atol=3e-4, err_msg=f"{f} {i}")


def finite_sum(f, np_):
    """The sum of what is finite among f's results."""

    def fun(*args):
        y = f(*args)
        return np_.where(np_.isfinite(y), y, 0).sum()

    return fun


def test_dirichlet_and_poisson_entropy():
    x, alpha = np.float32([[0.2, 0.5], [0.3, 0.1], [0.5, 0.4]]), np.float32([0.5, 2, 3])
    for f in (stats.dirichlet.logpdf, stats.dirichlet.pdf):
        theirs = getattr(jsp.stats.dirichlet, f.__name__)
        close(f(x, alpha), np.asarray(theirs(x, alpha)))
        close(f(x[:2], alpha), np.asarray(theirs(x[:2], alpha)))
    grad = lambda m, f: m.grad(lambda a: f(x, a).sum())(alpha)
    close(grad(fgrad, stats.dirichlet.logpdf), np.asarray(grad(jax, jsp.stats.dirichlet.logpdf)))
    mu = np.float32([0, 0.3, 2, 9, 11, 70, 99, 150, 1e4])
    np.testing.assert_allclose(stats.poisson.entropy(mu), jsp.stats.poisson.entropy(mu), rtol=2e-3)  # JAX's own error
    close(stats.bernoulli.ppf(U, U[::-1].copy()), np.asarray(jsp.stats.bernoulli.ppf(U, U[::-1].copy())))


@pytest.mark.parametrize("axis", [0, 1, None])
def test_descriptive(axis):
    a = rng.integers(0, 4, (5, 6)).astype("f")
    for keep in (False, True):
        got, want = stats.mode(a, axis, keepdims=keep), jsp.stats.mode(a, axis, keepdims=keep)
        for g, w in zip(got, want):
            close(g, np.asarray(w))
        close(stats.sem(a, axis, keepdims=keep), np.asarray(jsp.stats.sem(a, axis, keepdims=keep)))
    for method in ("average", "min", "max", "dense", "ordinal"):
        close(stats.rankdata(a, method, axis=axis), np.asarray(jsp.stats.rankdata(a, method, axis=axis)))


@pytest.mark.parametrize("shape", [(9,), (2, 9)])
def test_gaussian_kde(shape):
    data, w = rng.standard_normal(shape).astype("f"), rng.uniform(0.5, 1, 9).astype("f")
    at = rng.standard_normal((*shape[:-1], 4)).astype("f")
    for method in (None, "silverman", 0.4):
        ours, theirs = stats.gaussian_kde(data, method, w), jsp.stats.gaussian_kde(data, method, w)
        for f in ("pdf", "logpdf"):
            close(getattr(ours, f)(at), np.asarray(getattr(theirs, f)(at)))
        close(ours.integrate_kde(ours), np.asarray(theirs.integrate_kde(theirs)))
        d = ours.d
        close(
            ours.integrate_gaussian(np.ones(d, "f"), np.eye(d, dtype="f")),
            np.asarray(theirs.integrate_gaussian(np.ones(d, "f"), np.eye(d, dtype="f"))),
        )
        if d == 1:
            close(ours.integrate_box_1d(-1.0, 0.5), np.asarray(theirs.integrate_box_1d(-1.0, 0.5)))
    got = fgrad.grad(lambda x: stats.gaussian_kde(x).logpdf(at).sum())(data)
    want = jax.grad(lambda x: jsp.stats.gaussian_kde(x).logpdf(at).sum())(data)
    np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3)
    assert ours.resample(fgrad.random.key(0), (3,)).shape == (d, 3)


def test_special_with_more_results():
    for name in ("sici", "fresnel"):
        for got, want in zip(getattr(special, name)(R), getattr(jsp.special, name)(R)):
            close(got, np.asarray(want))
    orders = np.float32([1, 2, 3, 7])
    close(special.expn(orders, A[:4]), np.asarray(jsp.special.expn(orders, A[:4])))
    close(special.exp1(A[:4]), np.asarray(jsp.special.exp1(A[:4])))
    large = 20 + R  # for smaller ones JAX's recurrence from order 50 overflows
    close(special.bessel_jn(large, v=3), np.asarray(jsp.special.bessel_jn(large, v=3)))
    close(special.bernoulli(8), np.asarray(jsp.special.bernoulli(8)))
    z = (R + 1j * A / 9).astype(np.complex64)
    for name in ("wofz", "loggamma", "gamma"):
        close(getattr(special, name)(z), np.asarray(getattr(jsp.special, name)(z)))
    n, m = np.array([0, 1, 2, 3]), np.array([0, -1, 2, 3])
    close(special.sph_harm_y(n, m, U[:4], A[:4]), np.asarray(jsp.special.sph_harm_y(n, m, U[:4], A[:4])))
