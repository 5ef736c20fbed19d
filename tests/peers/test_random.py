"""fgrad.random against jax.random: bit for bit where the arithmetic is integer, uniform, log, log1p, erf or erf_inv."""

import numpy as np
import pytest

import fgrad
from fgrad import random

pytestmark = pytest.mark.peers
jax = pytest.importorskip("jax")

EXACT = [
    ("bits", (...,), {}),
    ("uniform", (...,), {}),
    ("uniform", (...,), {"minval": -3.3, "maxval": 7.7}),
    ("normal", (...,), {}),
    ("truncated_normal", (-1.3, 2.1, ...), {}),
    ("truncated_normal", (-1.93, 0.77, ...), {}),
    ("exponential", (...,), {}),
    ("gumbel", (...,), {}),
    ("laplace", (...,), {}),
    ("logistic", (...,), {}),
    ("rayleigh", (2.3, ...), {}),
    ("triangular", (-1.0, 0.3, 2.0, ...), {}),
    ("rademacher", (...,), {}),
    ("bernoulli", (0.3, ...), {}),
    ("geometric", (0.17, ...), {}),
    ("randint", (..., -5, 1000), {}),
]
HIGH = [("gumbel", (...,), {"mode": "high"}), ("gumbel", (...,), {"mode": "highest"})]
CLOSE = {
    "cauchy": (...,),
    "maxwell": (...,),
    "lognormal": (0.7, ...),
    "pareto": (2.3, ...),
    "weibull_min": (2.3, 1.7, ...),
    "wald": (2.3, ...),
    "gamma": (2.7, ...),
    "loggamma": (0.3, ...),
    "beta": (1.2, 2.4, ...),
    "chisquare": (3.0, ...),
    "t": (4.5, ...),
    "f": (3.0, 5.0, ...),
    "generalized_normal": (1.5, ...),
}
FLOATS = ("bits", "rademacher", "bernoulli", "geometric", "randint")


def draw(module, name, args, shape, /, **kw):
    return np.asarray(getattr(module, name)(module.key(11), *[shape if a is ... else a for a in args], **kw))


def both(name, args, shape, /, **kw):
    return draw(random, name, args, shape, **kw), draw(jax.random, name, args, shape, **kw)


@pytest.fixture
def x64():
    with fgrad.enable_x64(), jax.enable_x64(True):
        yield


@pytest.mark.parametrize("shape", [(1_000_000,), (3, 5), ()])
@pytest.mark.parametrize("name,args,kw", EXACT + HIGH)
def test_bit_for_bit(name, args, kw, shape):
    np.testing.assert_array_equal(*both(name, args, shape, **kw))


@pytest.mark.parametrize("name,args,kw", EXACT + HIGH)
def test_bit_for_bit_float64(name, args, kw, x64):
    np.testing.assert_array_equal(*both(name, args, (100_000,), **kw))


def fuses_halves():
    """True where JAX rounds a product and a sum of float16 once, as processors with instructions for them let it."""
    e = np.float16(2**-10)
    return float(jax.jit(lambda x, y: x * y - 1)(1 + e, 1 - e)) != 0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name,args,kw", [row for row in EXACT if row[0] not in FLOATS])
def test_bit_for_bit_16(name, args, kw, dtype):
    got, want = both(name, args, (100_000,), dtype=dtype, **kw)
    assert got.dtype == want.dtype
    got, want = got.astype(np.float32), want.astype(np.float32)
    if dtype == "float16" and name in ("uniform", "truncated_normal") and fuses_halves():
        np.testing.assert_allclose(got, want, rtol=0, atol=2.0**-7)
    else:
        np.testing.assert_array_equal(got, want)


def test_complex_normal():
    got, want = both("normal", (...,), (1000,), dtype=np.complex64)
    np.testing.assert_allclose(got, want, rtol=3e-7)


@pytest.mark.parametrize("name", CLOSE)
def test_close(name):
    got, want = both(name, CLOSE[name], (5000,))
    np.testing.assert_allclose(got, want, rtol=2e-5 if name != "wald" else 1e-3, atol=1e-6)


def test_vectors():
    for name, args, kw in [
        ("double_sided_maxwell", (0.5, 2.0, (50,)), {}),
        ("dirichlet", (np.array([0.3, 2.0, 5.0], "f"), (50,)), {}),
        ("ball", (3,), {"p": 1.5, "shape": (50,)}),
    ]:
        got, want = both(name, args, None, **kw)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name,args", [("poisson", (3.0, ...)), ("poisson", (40.0, ...)), ("binomial", (20.0, 0.3, ...)), ("binomial", (500.0, 0.7, ...))]
)
def test_counts(name, args):
    """A rejection that turns on the last bit of a logarithm may differ; it is rare."""
    got, want = both(name, args, (5000,))
    assert got.dtype == want.dtype
    assert np.mean(got != want) < 1e-3


def test_multinomial():
    p = np.array([0.2, 0.5, 0.3], "f")
    got, want = (np.asarray(m.multinomial(m.key(3), np.float32(100), p)) for m in (random, jax.random))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_randint_dtypes(dtype):
    lo, hi = np.iinfo(dtype).min, np.iinfo(dtype).max
    wide = [(lo, int(hi) + 1)] if np.dtype(dtype).itemsize < 4 else []
    limits = (np.array(lo, dtype), np.array(hi, dtype))  # Python's 2**32 - 1 is no int32 to JAX
    for bounds in [(0, 100), limits, (5, 5), (7, 3), *wide]:
        got, want = both("randint", (..., *bounds), (1000,), dtype=dtype)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_randint_array_bounds():
    lo = np.arange(-3, 3)
    np.testing.assert_array_equal(*both("randint", (..., lo, lo[:, None] + 9), (6, 6)))


A = np.arange(24.0, dtype="f").reshape(4, 6)


@pytest.mark.parametrize(
    "name,args,kw",
    [
        ("permutation", (A,), {"axis": 1}),
        ("permutation", (A,), {"axis": 1, "independent": True}),
        ("permutation", (A,), {"independent": True}),
        ("permutation", (17,), {}),
        ("choice", (7, (5,)), {}),
        ("choice", (7, (5,)), {"replace": False}),
        ("choice", (A, (2, 3)), {"axis": 1}),
        ("choice", (A, (3,)), {"axis": 1, "replace": False}),
        ("choice", (A, (3,)), {"p": np.array([0.1, 0.2, 0.3, 0.4], "f")}),
        ("choice", (4, (3,)), {"p": np.array([0.1, 0.2, 0.3, 0.4], "f"), "replace": False}),
        ("categorical", (A,), {"axis": 0}),
        ("categorical", (A,), {"shape": (7, 4)}),
        ("categorical", (A,), {"shape": (3, 4), "replace": False}),
        ("bernoulli", (np.float32(0.3), (1000,)), {"mode": "high"}),
    ],
)
def test_sampling(name, args, kw):
    got, want = both(name, args, None, **kw)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_keys():
    ours, theirs = random.key(7), jax.random.key(7)
    assert repr(ours) == repr(theirs) and str(ours.dtype) == str(theirs.dtype) and ours.shape == theirs.shape
    for f in (
        lambda m, k: m.key_data(m.split(k, (2, 3))),
        lambda m, k: m.key_data(m.split(k, 5)[2:4]),
        lambda m, k: m.key_data(m.fold_in(k, 2**32 - 1)),
        lambda m, k: m.split(m.PRNGKey(3)),
        lambda m, k: m.key_data(m.wrap_key_data(m.PRNGKey(-3))),
        lambda m, k: m.key_data(m.split(k, (2, 3)).reshape(3, 2)[:, 1]),
        lambda m, k: m.key_data(m.split(k, (2, 3)).T),
        lambda m, k: m.key_data(m.clone(k)),
    ):
        np.testing.assert_array_equal(f(random, ours), f(jax.random, theirs))
    assert repr(random.split(ours, (2,))) == repr(jax.random.split(theirs, (2,)))
    assert random.key_impl(ours) == str(jax.random.key_impl(theirs))
