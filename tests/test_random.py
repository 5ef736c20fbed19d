"""Random numbers: golden values of jax.random 0.10 (partitionable threefry), keys, and the distributions' shapes and moments."""

import math
import zlib

import mpmath
import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import random
from fgrad.errors import ShapeError
from fgrad.ops.random import random_gamma_p, sample_log
from fgrad.random.gamma import _proposals

GOLDEN = {
    "bernoulli": [False, False, False, False, False, False, False, False],
    "bits": [2895194379, 4185947648, 1300703658],
    "categorical": [4, 4, 4, 4, 4, 4, 2, 4],
    "fold_in": [2796958904, 1911163382],
    "permutation": [4, 2, 3, 5, 0, 7, 6, 1],
    "randint": [-4, 43, 19, 60, 59, 59],
    "split": [[3625411723, 1954958720], [195045567, 4062205631]],
    "uniform": [0.6740899085998535, 0.9746168851852417, 0.3028435707092285],
    "poisson": [4, 1, 1, 3, 2, 7, 4, 2],
    "binomial": [8, 10, 6, 7, 5, 2, 6, 6],
    "geometric": [2, 1, 4, 3, 1, 2, 3, 3],
    "gamma": [2.6251301765441895, 1.2272989749908447, 1.315557837486267],
    "beta": [0.8561124801635742, 0.6647346019744873, 0.5641140341758728],
}
# float32: the first bits, and the CRC-32 of a million values
FLOATS = {
    "normal": ([0x3EE7084B, 0x3FFA0AAE, 0xBF042845, 0xBE1052A7, 0x3F1D9131, 0x3EAB2B88], 0x57A9D181),
    "exponential": ([0x3F8F8150, 0x406B1D6D, 0x3EB8B3A1, 0x3F163FE4, 0x3FA80402, 0x3F7F2C2E], 0xA1BEAD01),
    "gumbel": ([0x3F6E2F62, 0x406A4B41, 0xBE3606C4, 0x3E553900, 0x3F9479C0, 0x3F467AB7], 0xA0E3B7D5),
    "laplace": ([0xBEDB2110, 0xC03EC0EC, 0x3F005B33, 0x3DF375BB, 0xBF1E95EE, 0xBE9B742E], 0x7F380D50),
    "logistic": ([0x3F3A0BC4, 0x4069782E, 0xBF55737C, 0xBE6683B0, 0x3F7FC6AE, 0x3F0944DA], 0x37141E2E),
    "truncated_normal": ([0x3F018DBF, 0x3FDF96C2, 0xBEB0D0B2, 0xBCD06491, 0x3F27C545, 0x3ECCBF96], 0x128E1C3C),
}


def test_golden():
    k = random.key(7)
    np.testing.assert_array_equal(random.key_data(random.split(k, 2)), GOLDEN["split"])
    np.testing.assert_array_equal(random.key_data(random.fold_in(k, 11)), GOLDEN["fold_in"])
    np.testing.assert_array_equal(random.bits(k, (3,)), GOLDEN["bits"])
    np.testing.assert_array_equal(random.uniform(k, (3,)), np.array(GOLDEN["uniform"], np.float32))
    np.testing.assert_array_equal(random.randint(k, (6,), -5, 77), GOLDEN["randint"])
    np.testing.assert_array_equal(random.permutation(k, 8), GOLDEN["permutation"])
    np.testing.assert_array_equal(random.bernoulli(k, 0.3, (8,)), GOLDEN["bernoulli"])
    np.testing.assert_array_equal(random.categorical(k, jnp.arange(5.0), shape=(8,)), GOLDEN["categorical"])
    np.testing.assert_array_equal(random.poisson(k, 3.0, (8,)), GOLDEN["poisson"])
    np.testing.assert_array_equal(random.binomial(k, 20.0, 0.3, (8,)), GOLDEN["binomial"])
    np.testing.assert_array_equal(random.geometric(k, 0.3, (8,)), GOLDEN["geometric"])
    np.testing.assert_allclose(random.gamma(k, 2.5, (3,)), GOLDEN["gamma"], rtol=1e-6)
    np.testing.assert_allclose(random.beta(k, 2.5, 1.2, (3,)), GOLDEN["beta"], rtol=1e-6)


def test_golden_of_the_older_counters():
    with fgrad.threefry_partitionable(False):
        k = random.key(7)
        assert random.key_data(random.split(k, 3)).tolist() == [[276534068, 861967409], [1905761346, 1641862660], [2900896126, 1402713516]]
        assert random.bits(k, (5,)).tolist() == [276534068, 861967409, 2793701230, 1641862660, 2900896126]
        assert random.bits(k, (5,), "uint8").tolist() == [191, 40, 160, 11, 191]
        assert random.bits(k, (3,), "uint16").tolist() == [10431, 2976, 22207]
        assert random.uniform(k, (3,)).tolist() == [0.2249845266342163, 0.4261603355407715, 0.4536093473434448]
        assert random.permutation(k, 8).tolist() == [5, 0, 2, 4, 7, 1, 6, 3]
        np.testing.assert_allclose(random.gamma(k, 2.5, (3,)), [1.6199045, 3.1840203, 2.2853267], rtol=1e-6)
        keys = random.split(k, 4)
        each = fgrad.vmap(lambda k: random.normal(k, (3,)))(keys)
        np.testing.assert_array_equal(each[2], random.normal(keys[2], (3,)))
    assert random.bits(k, (3,)).tolist() == GOLDEN["bits"]


def test_small_and_large_rates():
    """Rates of which some, all or none are drawn by rejection."""
    k, few = random.key(3), np.arange(64) % 3 > 0
    lam, n = np.where(few, 3.0, 50.0).astype(np.float32), np.where(few, 20.0, 900.0).astype(np.float32)
    counts, hits = random.poisson(k, lam), random.binomial(k, n, 0.3)
    np.testing.assert_array_equal(np.asarray(counts)[few], np.asarray(random.poisson(k, 3.0, (64,)))[few])
    np.testing.assert_array_equal(np.asarray(hits)[few], np.asarray(random.binomial(k, 20.0, 0.3, (64,)))[few])
    assert 35 < np.asarray(counts)[~few].mean() < 65 and 240 < np.asarray(hits)[~few].mean() < 300
    keys, rates = random.split(k, 2), jnp.asarray([3.0, 50.0])
    both = fgrad.vmap(lambda k, r: random.poisson(k, r, (9,)))(keys, rates)
    np.testing.assert_array_equal(both, [random.poisson(k, r, (9,)) for k, r in zip(keys, (3.0, 50.0))])


def test_binomial_ends_for_probabilities_and_counts_at_the_edge():
    k = random.key(0)
    n = jnp.array([5.0, 5.0, 5.0, np.inf, np.inf, np.inf, np.nan])
    p = jnp.array([-0.0, 0.0, 1.0, 0.0, 0.5, 1.0, 0.5])
    np.testing.assert_array_equal(random.binomial(k, n, p), [0, 0, 5, np.inf, np.inf, np.inf, np.nan])


@pytest.mark.parametrize("name", FLOATS)
def test_floats_bit_for_bit(name):
    bounds = (-1.3, 2.1) if name == "truncated_normal" else ()
    bits, crc = FLOATS[name]
    draw = lambda shape: np.asarray(getattr(random, name)(random.key(7), *bounds, shape))
    np.testing.assert_array_equal(draw((6,)).view(np.uint32), np.array(bits, np.uint32))
    assert zlib.crc32(draw((1_000_000,)).tobytes()) == crc


def test_other_widths_bit_for_bit():
    with fgrad.enable_x64():
        got = np.asarray(random.normal(random.key(7), (4,))).view(np.uint64)
    np.testing.assert_array_equal(
        got, np.array([0x3FF02F070D8BD9D2, 0xBFFB0E95E22CCC17, 0xBFE82CC7A417F69A, 0xBFF84DAEA4A150CC], np.uint64)
    )
    got = np.asarray(random.normal(random.key(7), (6,), jnp.bfloat16)).view(np.uint16)
    np.testing.assert_array_equal(got, [0xBFDE, 0xC039, 0x3EDB, 0xBF61, 0x3D82, 0xBE5A])


@pytest.mark.parametrize("name", FLOATS)
def test_a_value_does_not_depend_on_its_position(name):
    """Vector tails, strides and fusion leave the bits alone: each value alone equals the value in its array."""
    bounds = (-1.3, 2.1) if name == "truncated_normal" else ()
    draw = getattr(random, name)
    keys = random.split(random.key(3), 37)
    batch = fgrad.vmap(lambda k: draw(k, *bounds, ()))(keys)
    np.testing.assert_array_equal(batch, np.stack([draw(k, *bounds, ()) for k in keys]))
    whole = np.asarray(draw(random.key(1), *bounds, (100,)))
    for n in (1, 2, 3, 5, 7, 15, 17, 33):
        np.testing.assert_array_equal(draw(random.key(1), *bounds, (n,)), whole[:n])


def test_under_transformations():
    k = random.key(0)
    np.testing.assert_array_equal(fgrad.jit(lambda k: random.uniform(k, (5,)))(k), random.uniform(k, (5,)))
    keys = random.split(k, 4)
    batched = fgrad.vmap(lambda k: random.normal(k, (5,)))(keys)
    np.testing.assert_array_equal(batched, np.stack([random.normal(q, (5,)) for q in keys]))
    last, xs = fgrad.lax.scan(lambda k, _: (lambda ks: (ks[0], random.uniform(ks[1])))(random.split(k)), k, None, length=3)
    assert isinstance(last, random.KeyArray) and xs.shape == (3,)


def test_truncated_normal_gradient():
    k, h = random.key(2), 1e-2
    f = lambda lo, hi: random.truncated_normal(k, lo, hi, (64,)).sum()
    got = fgrad.grad(f, argnums=(0, 1))(-1.0, 1.5)
    want = [(f(-1.0 + h, 1.5) - f(-1.0 - h, 1.5)) / (2 * h), (f(-1.0, 1.5 + h) - f(-1.0, 1.5 - h)) / (2 * h)]
    np.testing.assert_allclose(got, want, rtol=2e-2)


@pytest.mark.parametrize("name", ["gamma", "loggamma"])
def test_gamma_gradient(name):
    """At a fixed key a sample moves with its parameter as its quantile does."""
    a = 2.5
    k = random.key(2)
    f = lambda a: getattr(random, name)(k, a)
    x = mpmath.mpf(float(random.gamma(k, a) if name == "gamma" else np.exp(random.loggamma(k, a))))
    cdf = lambda a, x: mpmath.gammainc(a, 0, x, regularized=True)
    want = -mpmath.diff(lambda t: cdf(t, x), a) / mpmath.diff(lambda t: cdf(a, t), x)
    want = float(want if name == "gamma" else want / x)
    np.testing.assert_allclose(fgrad.grad(f)(a), want, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gamma_kernel(dtype):
    """The kernel accepts the very proposals that the same steps written as loops do; nan and infinity end at once."""
    with fgrad.enable_x64():
        d = np.append(np.random.default_rng(0).gamma(1, 3, 2000) + 0.1, [np.nan, np.inf, 1e-30, 1e30, -3]).astype(dtype)
        keys = random.key_data(random.split(random.key(1), d.size))
        np.testing.assert_array_equal(random_gamma_p.bind(keys, jnp.asarray(d)), fgrad.vmap(_proposals)(keys, jnp.asarray(d)))
        with pytest.raises(ShapeError, match="a key for each element"):
            random_gamma_p.bind(keys[1:], jnp.asarray(d))


def test_typed_keys():
    k = random.key(7)
    assert repr(k) == "Array((), dtype=key<fry>) overlaying:\n[0 7]"
    assert k.shape == () and k.ndim == 0 and str(k.dtype) == "key<fry>" and jnp.issubdtype(k.dtype, fgrad.dtypes.prng_key)
    struct = fgrad.ShapeDtypeStruct((), k.dtype)
    assert (k == struct) is False and (k != struct) is True and struct == fgrad.ShapeDtypeStruct((), k.dtype)
    keys = random.split(k, (2, 3))
    words = np.asarray(random.key_data(keys))
    assert keys.shape == (2, 3) and words.shape == (2, 3, 2) and len(keys) == 2 and len(list(keys)) == 2
    np.testing.assert_array_equal(random.key_data(keys[1, 2]), words[1, 2])
    np.testing.assert_array_equal(random.key_data(keys[..., 0]), words[:, 0])
    np.testing.assert_array_equal(random.key_data(keys.T), words.transpose(1, 0, 2))
    np.testing.assert_array_equal(random.key_data(keys.reshape(-1)[np.array([4, 0])]), words.reshape(6, 2)[[4, 0]])
    assert bool((keys == random.wrap_key_data(words)).all()) and not bool((keys != keys).any())
    assert random.PRNGKey(7).dtype == np.uint32 and random.split(random.PRNGKey(7)).shape == (2, 2)
    np.testing.assert_array_equal(random.normal(random.PRNGKey(7), (3,)), random.normal(k, (3,)))
    assert random.key_impl(k) == "threefry2x32" == random.default_prng_impl()


def test_errors():
    k = random.key(0)
    for error, call in [
        (ValueError, lambda: random.normal(random.split(k), (3,))),
        (TypeError, lambda: random.normal(jnp.zeros(3), (3,))),
        (TypeError, lambda: random.key(jnp.zeros(2, jnp.int32))),
        (ValueError, lambda: random.key(0, impl="rbg")),
        (ValueError, lambda: random.uniform(k, (3,), jnp.int32)),
        (ValueError, lambda: random.truncated_normal(k, jnp.zeros(4), 1.0, (3,))),
        (ValueError, lambda: random.choice(k, 3, (4,), replace=False)),
        (TypeError, lambda: np.asarray(k)),
        (IndexError, lambda: k[0]),
        (TypeError, lambda: len(k)),
    ]:
        with pytest.raises(error):
            call()


MOMENTS = {  # (arguments, mean, variance)
    "normal": ((), 0, 1),
    "exponential": ((), 1, 1),
    "gumbel": ((), np.euler_gamma, np.pi**2 / 6),
    "laplace": ((), 0, 2),
    "logistic": ((), 0, np.pi**2 / 3),
    "gamma": ((2.5,), 2.5, 2.5),
    "beta": ((2.0, 3.0), 0.4, 0.04),
    "chisquare": ((3.0,), 3, 6),
    "t": ((9.0,), 0, 9 / 7),
    "f": ((4.0, 12.0), 1.2, 2 * 144 * 14 / (4 * 100 * 8)),
    "poisson": ((4.5,), 4.5, 4.5),
    "binomial": ((30.0, 0.6), 18, 7.2),
    "geometric": ((0.25,), 4, 12),
    "rademacher": ((), 0, 1),
    "rayleigh": ((2.0,), 2 * np.sqrt(np.pi / 2), (4 - np.pi) / 2 * 4),
    "maxwell": ((), 2 * np.sqrt(2 / np.pi), 3 - 8 / np.pi),
    "lognormal": ((0.4,), np.exp(0.08), (np.exp(0.16) - 1) * np.exp(0.16)),
    "pareto": ((5.0,), 5 / 4, 5 / (16 * 3)),
    "weibull_min": ((2.0, 1.0), 2, 4),
    "wald": ((0.7,), 0.7, 0.343),
    "triangular": ((0.0, 1.0, 2.0), 1, 1 / 6),
    "generalized_normal": ((2.0,), 0, 0.5),
    "truncated_normal": ((-1.0, 1.0), 0, 0.29112509),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_moments(name):
    params, mean, variance = MOMENTS[name]
    n = 40_000
    x = np.asarray(getattr(random, name)(random.key(5), *params, shape=(n,)), np.float64)
    spread = np.sqrt(variance)
    assert abs(x.mean() - mean) < 5 * spread / np.sqrt(n)
    assert abs(x.var() - variance) < 12 * np.sqrt(np.mean((x - x.mean()) ** 4) / n)


def test_vectors():
    x = np.asarray(random.ball(random.key(0), 3, 1.5, (500,)))
    assert x.shape == (500, 3) and (np.abs(x) ** 1.5).sum(-1).max() <= 1
    x = np.asarray(random.dirichlet(random.key(0), jnp.array([1.0, 2.0, 3.0]), (500,)))
    np.testing.assert_allclose(x.sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(x.mean(0), [1 / 6, 1 / 3, 1 / 2], atol=0.03)
    x = np.asarray(random.multinomial(random.key(0), 50.0, jnp.array([0.2, 0.3, 0.5])))
    assert x.sum() == 50 and x.shape == (3,)
    assert random.double_sided_maxwell(random.key(0), 1.0, jnp.ones(3), (2,)).shape == (2, 3)


def test_sampling():
    k = random.key(4)
    x = np.arange(20).reshape(4, 5)
    p = np.asarray(random.permutation(k, x, axis=1, independent=True))
    np.testing.assert_array_equal(np.sort(p, 1), x)
    assert sorted(random.permutation(k, x, axis=0)[:, 0].tolist()) == [0, 5, 10, 15]
    assert sorted(random.choice(k, 6, (6,), replace=False).tolist()) == list(range(6))
    assert random.choice(k, x, (2, 3), axis=1).shape == (4, 2, 3)
    draws = np.asarray(random.choice(k, 3, (20_000,), p=jnp.array([0.1, 0.0, 0.9])))
    assert abs((draws == 0).mean() - 0.1) < 0.01 and not (draws == 1).any()
    assert len(set(random.categorical(k, jnp.zeros(7), shape=(7,), replace=False).tolist())) == 7


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_truncated_normal_reaches_both_bounds(dtype):
    x = np.asarray(random.truncated_normal(random.key(0), -1.3, 2.1, (20_000,), dtype)).astype(np.float32)
    assert -1.3 < x.min() < -1.25 and 1.9 < x.max() < 2.1


def test_types_of_keys():
    k = random.split(random.key(0), 3)
    assert str(k.aval) == str(fgrad.typeof(k)) == "key<fry>[3]" and (k.aval.shape, k.aval.dtype) == ((3,), k.dtype)
    zeros = jnp.zeros((2,), k.dtype)
    assert zeros.dtype == k.dtype and zeros.shape == (2,) and not random.key_data(zeros).any()


def test_ball_of_no_norm_is_nan():
    out = random.ball(random.key(0), 3, 0, (2,))
    assert out.shape == (2, 3) and np.isnan(out).all()


@pytest.mark.parametrize("n", [39, 40, 41, 100, 1025, 20000])
def test_categorical_is_the_argmax_of_logits_and_noise(n):
    key, logits = random.key(n), 3 * random.normal(random.key(1), (3, n))
    want = jnp.argmax(logits + random.gumbel(key, (2, 3, n)), -1)
    draw = lambda key, logits: random.categorical(key, logits, shape=(2, 3))  # noqa: E731
    for f in (draw, fgrad.jit(draw)):
        np.testing.assert_array_equal(f(key, logits), want)
    keys = random.split(key, 4)
    for axes in [(0, None), (None, 1), (0, 1)]:
        many = jnp.stack([logits + i for i in range(4)], 1)
        got = fgrad.vmap(draw, axes)(keys if axes[0] == 0 else key, many if axes[1] else logits)
        for i in range(4):
            np.testing.assert_array_equal(got[i], draw(keys[i] if axes[0] == 0 else key, many[:, i] if axes[1] else logits))
    np.testing.assert_array_equal(
        fgrad.vmap(fgrad.vmap(draw, (0, None)), (None, 0))(keys, many.swapaxes(0, 1))[2, 1], draw(keys[1], many[:, 2])
    )
    np.testing.assert_array_equal(random.categorical(key, logits.T, 0), jnp.argmax(logits.T + random.gumbel(key, (n, 3)), 0))
    slope = fgrad.grad(lambda x: jnp.sum(x * draw(key, x).sum()))(logits)
    np.testing.assert_array_equal(slope, jnp.full((3, n), want.sum(), jnp.float32))
    with fgrad.enable_x64():
        assert random.categorical(key, logits).dtype == jnp.int64
    with pytest.raises(ValueError, match="categorical: mode must be"):
        random.categorical(key, logits, mode="middle")


def test_compositions_outside_of_jit_are_those_of_jit():
    k, n = random.key(3), (33,)
    for draw in [
        lambda k: random.gamma(k, 2.5, n),
        lambda k: random.loggamma(k, jnp.arange(1.0, 34.0)),
        lambda k: random.beta(k, 0.5, 3, n),
        lambda k: random.dirichlet(k, jnp.array([1.0, 2.0, 3.0]), n),
        lambda k: random.chisquare(k, 3, n),
        lambda k: random.t(k, 3.0, n),
        lambda k: random.cauchy(k, n),
        lambda k: random.maxwell(k, n),
        lambda k: random.pareto(k, 2, n),
        lambda k: random.lognormal(k, 0.5, n),
        lambda k: random.rayleigh(k, jnp.ones(33)),
        lambda k: random.wald(k, 2.0, n),
        lambda k: random.triangular(k, 0, 0.5, jnp.ones(33)),
        lambda k: random.geometric(k, 0.3, n),
        lambda k: random.multivariate_normal(k, jnp.zeros(3), jnp.eye(3), n),
        lambda k: random.choice(k, 10, n, p=jnp.arange(10.0)),
        lambda k: random.choice(k, 40, n, replace=False, p=jnp.arange(40.0)),
        lambda k: random.randint(k, n, 0, 100_000),
        lambda k: random.randint(k, n, -(2**31), 2**31 - 1),
        lambda k: random.key_data(random.fold_in(k, 2**32 - 1)),
    ]:
        got, want = draw(k), fgrad.jit(draw)(k)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=2e-6)
    a = jnp.array([0.7, 2.0])
    slope = fgrad.grad(lambda a: random.gamma(k, a, dtype=jnp.float32).sum())
    np.testing.assert_allclose(slope(a), fgrad.jit(slope)(a), rtol=1e-6)
    np.testing.assert_array_equal(fgrad.vmap(lambda a: random.gamma(k, a))(a)[1], random.gamma(k, a[1]))


@pytest.mark.parametrize("n", [1, 1000, 1625, 1626, 5000, 32_767, 32_768])
def test_permutation_sorts_by_words(n):
    """One round or two, side by side or one after the other: stable sorts by random words, as JAX does it."""
    k, x = random.key(n), np.arange(n)
    for _ in range(int(np.ceil(3 * np.log(n) / np.log(2**32 - 1)))):
        k, sub = random.split(k)
        x = x[np.argsort(np.asarray(random.bits(sub, (n,), np.uint32)), kind="stable")]
    np.testing.assert_array_equal(random.permutation(random.key(n), n), x)
    np.testing.assert_array_equal(random.permutation(random.key(n), jnp.arange(n) * 0.5), x * 0.5)


def test_logarithms_of_float64_numbers_are_those_of_libm():
    """What is drawn equals jax.random bit for bit only if each of them does, in vectors and alone."""
    rng = np.random.default_rng(0)
    u = rng.random(20_000)
    for x in (
        u,
        -np.log(u),
        1 + (u - 0.5) / 8,
        1 + (u - 0.5) / 4096,
        np.exp(1400 * (u - 0.5)),
        np.array([0.0, np.inf, 1.0, 5e-300, 2.0**-1022]),
    ):
        with fgrad.enable_x64():
            got, alone = np.asarray(fgrad.jit(sample_log)(x)), [float(sample_log(v)) for v in x[:100]]
        want = np.array([math.log(v) if v else -np.inf for v in x])
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(alone, want[:100])


def test_float64_numbers_do_not_depend_on_how_many_there_are():
    with fgrad.enable_x64():
        for draw in (random.normal, random.gumbel, random.exponential, random.laplace, random.logistic):
            keys = random.split(random.key(3), 37)
            one = np.array([float(draw(k, (), "float64")) for k in keys])
            np.testing.assert_array_equal(fgrad.vmap(lambda k, draw=draw: draw(k, (), "float64"))(keys), one)
            many = np.asarray(draw(random.key(4), (1003,), "float64"))
            assert np.isfinite(many).all() and len(np.unique(many)) == 1003
