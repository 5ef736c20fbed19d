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
    "bernoulli": (np.float32([0, 1, 1, 0]), U[:4]),
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
