"""Integrals, hypergeometric functions, harmonics and combinatorics of fgrad.scipy.special against mpmath, their edges and derivatives."""

import math

import mpmath
import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad.scipy import special
from tests.derivatives import check_derivatives

rng = np.random.default_rng(0)
N = 60
POS = np.concatenate([np.exp(rng.uniform(-8, 4, N)), rng.uniform(0.01, 12, N)])
BOTH = np.concatenate([POS, -POS])
SMALL = BOTH[abs(BOTH) < 25]


def uniform(lo, hi):
    return rng.uniform(lo, hi, N)


def many_digits(f):
    """f where its factors are as large as exp(x^2)."""

    def wrapped(x):
        with mpmath.workdps(40 + int(x * x)):
            return f(x)

    return wrapped


def mp_owens_t(h, a):
    end = min(abs(a), 12 / abs(h))
    density = lambda x: mpmath.exp(-h * h * (1 + x * x) / 2) / (1 + x * x)
    return mpmath.sign(a) * mpmath.quad(density, mpmath.linspace(0, end, 6)) / (2 * mpmath.pi)


def multiples(lo, hi):
    return np.round(8 * uniform(lo, hi)) / 8


def signed_exp(f, sign):
    return many_digits(lambda x: mpmath.exp(sign * x * x) * f(x))


A8, B8 = multiples(0.1, 4), multiples(0.1, 4) + 0.125
D8 = rng.integers(-1, 4, N)
# name: (function, mpmath's, arguments, largest error in ULP)
FUNCTIONS = {
    "erfcx": (special.erfcx, signed_exp(mpmath.erfc, 1), (np.concatenate([POS[POS < 25], uniform(-5, 0)]),), 6),
    "dawsn": (special.dawsn, many_digits(lambda x: mpmath.exp(-x * x) * mpmath.erfi(x) * mpmath.sqrt(mpmath.pi) / 2), (SMALL,), 4),
    "exp1": (special.exp1, mpmath.e1, (POS,), 4),
    "expi": (special.expi, mpmath.ei, (np.concatenate([BOTH, 0.3725 + uniform(-0.01, 0.01)]),), 6),
    "expn": (special.expn, lambda n, x: mpmath.expint(int(n), x), (rng.integers(0, 30, 2 * N), POS), 60),
    "si": (lambda x: special.sici(x)[0], mpmath.si, (BOTH,), 4),
    "ci": (
        lambda x: special.sici(x)[1],
        mpmath.ci,
        (np.concatenate([uniform(0.01, 3), uniform(4, 20), 0.6165 + uniform(-0.01, 0.01)]),),
        60,
    ),
    "fresnel_s": (lambda x: special.fresnel(x)[0], mpmath.fresnels, (BOTH,), 6),
    "fresnel_c": (lambda x: special.fresnel(x)[1], mpmath.fresnelc, (BOTH,), 6),
    "spence": (special.spence, lambda x: mpmath.re(mpmath.polylog(2, 1 - x)), (POS,), 6),
    "owens_t": (special.owens_t, mp_owens_t, (uniform(-5, 5), rng.normal(0, 2, N)), 100),
    "poch": (special.poch, mpmath.rf, (uniform(0.1, 20), uniform(0, 9)), 100),
    "hyp1f1": (special.hyp1f1, mpmath.hyp1f1, (uniform(0.1, 5), uniform(0.5, 5), uniform(-30, 30)), 200),
    "hyp1f1_far": (special.hyp1f1, mpmath.hyp1f1, (uniform(0.1, 3), uniform(0.5, 5), uniform(-900, -100)), 400),
    "hyp1f1_polynomial": (special.hyp1f1, mpmath.hyp1f1, (-np.floor(uniform(0, 5)), uniform(0.5, 5), uniform(-5, 0)), 20),
    "hyp2f1": (special.hyp2f1, mpmath.hyp2f1, (uniform(0.1, 4), uniform(0.1, 4), uniform(0.5, 8), uniform(0, 0.9)), 40),
    "hyp2f1_below": (special.hyp2f1, mpmath.hyp2f1, (uniform(0.1, 2), uniform(0.1, 2), uniform(2, 8), uniform(-9, 0)), 400),
    "hyp2f1_near_1": (special.hyp2f1, mpmath.hyp2f1, (uniform(0.1, 4), uniform(0.1, 4), uniform(0.5, 8), uniform(0.9, 0.99)), 2000),
    "hyp2f1_whole": (special.hyp2f1, mpmath.hyp2f1, (A8, B8, A8 + B8 + D8, uniform(0.9, 0.9999)), 100),
    "hyp2f1_polynomial": (special.hyp2f1, mpmath.hyp2f1, (-np.floor(uniform(0, 5)), uniform(0.5, 4), uniform(0.5, 4), uniform(-3, 0)), 20),
    "comb": (special.comb, mpmath.binomial, (np.floor(uniform(0, 50)), np.floor(uniform(0, 10))), 8),
    "boxcox": (special.boxcox, lambda x, k: (x**k - 1) / k, (uniform(0.1, 5), uniform(-3, 3)), 12),
    "boxcox1p": (special.boxcox1p, lambda x, k: ((1 + x) ** k - 1) / k, (uniform(-0.9, 5), uniform(-3, 3)), 12),
}


@pytest.fixture
def x64():
    with fgrad.enable_x64():
        yield


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name, dtype, x64):
    fun, exact, args, bound = FUNCTIONS[name]
    args = [a.astype(dtype) for a in args]
    with mpmath.workdps(40):
        want = np.array([float(exact(*map(mpmath.mpf, map(float, row)))) for row in zip(*args)])
    kept = abs(want) < np.finfo(dtype).max / 4
    got = np.asarray(fun(*args))
    assert got.dtype == dtype
    want, got = want[kept], got[kept].astype(float)
    error = abs(got - want) / np.spacing(np.maximum(abs(want), np.finfo(dtype).tiny).astype(dtype)).astype(float)
    assert np.max(error) <= bound, [a[kept][error.argmax()] for a in args]


def test_complex(x64):
    z = rng.normal(size=80) * 5 + 1j * rng.normal(size=80) * 3
    with mpmath.workdps(80):
        zs = [mpmath.mpc(v) for v in z.tolist()]
        w = np.array([complex(mpmath.exp(-v * v) * mpmath.erfc(-1j * v)) for v in zs])
        log = np.array([complex(mpmath.loggamma(v)) for v in zs])
        slope = np.array([complex(mpmath.digamma(v)) for v in zs])
        gamma = np.array([complex(mpmath.gamma(v)) for v in zs])
    np.testing.assert_allclose(special.wofz(z), w, rtol=1e-12)
    np.testing.assert_allclose(special.erfcx(-1j * z), w, rtol=1e-12)
    np.testing.assert_allclose(special.loggamma(z), log, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(special.gamma(z), gamma, rtol=1e-12)
    np.testing.assert_allclose(fgrad.vmap(fgrad.grad(special.loggamma, holomorphic=True))(z), slope, rtol=1e-12, atol=1e-13)
    want = -2 * z * w + 2j / np.sqrt(np.pi)
    np.testing.assert_allclose(fgrad.vmap(fgrad.grad(special.wofz, holomorphic=True))(z), want, rtol=1e-10, atol=1e-13)
    cut = special.loggamma(np.array([complex(-2.5, 0.0), complex(-2.5, -0.0)]))
    assert np.array_equal(cut[0].conj(), cut[1]) and special.wofz(np.float32(1)).dtype == np.complex64
    assert np.isnan(special.loggamma(np.array([0.0, -3]) + 0j).real).all()


def test_edges():
    inf, nan = np.inf, np.nan
    same = lambda got, want: np.testing.assert_array_equal(got, np.float32(want))
    x = np.float32([0, inf, -inf, nan])
    same(special.erfcx(x), [1, 0, inf, nan])
    same(special.dawsn(x), [0, 0, -0.0, nan])
    same(special.exp1(x), [inf, 0, nan, nan])
    same(special.expi(x), [-inf, inf, -0.0, nan])
    same(special.sici(x)[0], [0, np.pi / 2, -np.pi / 2, nan])
    same(special.sici(x)[1], [-inf, 0, nan, nan])
    same(special.fresnel(x), [[0, 0.5, -0.5, nan]] * 2)
    same(special.spence(np.float32([0, 1, inf, -1])), [np.pi**2 / 6, 0, -inf, nan])
    same(special.expn(np.float32([0, 1, 2, 3, -1, 2]), np.float32([0, 0, 0, inf, 1, -1])), [inf, inf, 1, 0, nan, nan])
    same(special.owens_t(np.float32([inf, 1, 0, nan]), np.float32([1, 0, inf, 1])), [0, 0, 0.25, nan])
    same(special.loggamma(np.float32([-1.5, 1, nan])), [nan, 0, nan])
    same(special.hyp1f1(np.float32([0, 1, 2]), np.float32([0, 0, 2]), np.float32([1, 1, 0])), [1, inf, 1])
    same(special.hyp2f1(1.0, 1.0, np.float32([2, 2, 3, 0]), np.float32([0, 2, 1, 0.5])), [1, inf, 2, inf])
    same(special.poch(np.float32([2, 0]), np.float32([0, 0])), [1, 1])
    same(special.comb(np.float32([3, 5, -1, 0]), np.float32([5, -1, 0, 0])), [0, 0, 0, 1])
    same(special.comb(np.float32([3, 0]), np.float32([2, 0]), repetition=True), [6, 1])
    same(special.boxcox(np.float32([1, 0, -1]), np.float32([0, 0, 0.5])), [0, -inf, nan])


def test_operands():
    for dtype in (jnp.bfloat16, jnp.float16):
        x = jnp.full(3, 0.5, dtype)
        for fun in (special.erfcx, special.dawsn, special.exp1, special.expi, special.owens_t):
            out = fun(x, x) if fun is special.owens_t else fun(x)
            assert out.dtype == dtype
            np.testing.assert_allclose(out.astype("f"), fun(*[x.astype("f")] * (2 if fun is special.owens_t else 1)), rtol=1e-2)
    assert special.hyp2f1(1, np.ones((3, 1)), 2, np.zeros(4)).shape == (3, 4)
    with pytest.raises(TypeError, match="not supported"):
        special.spence(1)
    for fun in (special.expi, special.exp1, special.dawsn):
        with pytest.raises(ValueError, match="complex"):
            fun(1j)
    with pytest.raises(ValueError, match="non-negative"):
        special.bernoulli(-1)
    with pytest.raises(NotImplementedError, match="diff_n"):
        special.sph_harm_y(1, 0, 0.1, 0.2, diff_n=1)


ARGUMENTS = [
    ("erfcx", 0.7),
    ("erfcx", -0.7),
    ("dawsn", 1.7),
    ("exp1", 0.7),
    ("expi", 0.7),
    ("expi", -1.7),
    ("spence", 0.7),
    ("spence", 1.0),
    ("owens_t", 0.7, 1.4),
    ("owens_t", -0.7, 0.4),
    ("loggamma", 2.7),
    ("boxcox", 0.7, 0.0),
    ("boxcox", 0.7, 1.5),
    ("boxcox1p", 0.7, 1.5),
    ("comb", 7.5, 2.25),
    ("poch", 2.3, 1.2),
    ("sici", 1.7),
    ("sici", 7.7),
    ("fresnel", 1.1),
    ("fresnel", -2.1),
]


@pytest.mark.parametrize("name,args", [(n, a) for n, *a in ARGUMENTS])
def test_derivatives(name, args, x64):
    check_derivatives(getattr(special, name), *map(np.float64, args), order=2)


@pytest.mark.parametrize(
    "name,args",
    [
        ("hyp1f1", (1.3, 2.2, 3.0)),
        ("hyp1f1", (1.3, 2.2, -3.0)),
        ("hyp1f1", (2.0, 2.0, 1.0)),
        ("hyp1f1", (-2.0, 1.5, 2.0)),
        ("hyp1f1", (1.3, 2.2, -900.0)),
        ("hyp2f1", (1.3, 0.7, 2.2, 0.4)),
        ("hyp2f1", (1.3, 0.7, 2.2, -2.0)),
        ("hyp2f1", (1.3, 0.7, 2.2, 0.95)),
        ("hyp2f1", (0.5, 0.5, 1.0, 0.95)),
        ("hyp2f1", (2.5, 1.5, 3.0, 0.95)),
        ("hyp2f1", (-2.0, 1.5, 3.0, 0.7)),
        ("hyp2f1", (1.0, 2.0, 2.0, 0.5)),
    ],
)
def test_hypergeometric_derivatives(name, args, x64):
    """In the parameters too, also where the function itself is computed by a formula for whole numbers."""
    for i in range(len(args)):
        with mpmath.workdps(40):
            want = float(mpmath.diff(getattr(mpmath, name), args, tuple(int(i == j) for j in range(len(args)))))
        np.testing.assert_allclose(fgrad.grad(getattr(special, name), i)(*args), want, rtol=1e-11)


def test_expn_derivative(x64):
    np.testing.assert_allclose(fgrad.grad(special.expn, 1)(3.0, 0.7), -special.expn(2, 0.7), rtol=1e-14)
    assert float(fgrad.grad(special.expn, 0)(3.0, 0.7)) == 0


def test_bessel_jn(x64):
    x = np.linspace(-12, 12, 9)
    want = np.array([[float(mpmath.besselj(k, v)) for v in x] for k in range(5)])
    np.testing.assert_allclose(special.bessel_jn(x, v=4), want, atol=1e-14)
    np.testing.assert_allclose(fgrad.grad(lambda x: special.bessel_jn(x, v=0)[0])(2.0), -float(mpmath.besselj(1, 2)), rtol=1e-13)
    with fgrad.enable_x64(False):  # no overflow on the way down from order 50
        np.testing.assert_allclose(special.bessel_jn(jnp.float32(1e-30), v=2), np.float32([1, 5e-31, 0]))


def test_spherical_harmonics(x64):
    """Against Legendre functions of mpmath, orthonormality of the whole set by quadrature, and the derivative in theta."""
    pairs = [(n, m) for n in range(5) for m in range(-n, n + 1)]
    n, m = map(np.array, zip(*pairs))
    for i, (l, k) in enumerate(pairs):
        want = complex(mpmath.spherharm(l, k, 0.7, 0.4))
        np.testing.assert_allclose(special.sph_harm_y(n[i], m[i], np.array([0.7]), np.array([0.4]))[0], want, rtol=1e-12, atol=1e-14)
    nodes, weights = np.polynomial.legendre.leggauss(8)
    theta, phi = (g.ravel() for g in np.meshgrid(np.arccos(nodes), np.arange(16) * np.pi / 8, indexing="ij"))
    y = np.asarray(special.sph_harm_y(n[:, None], m[:, None], theta, phi))
    gram = (y * np.repeat(weights, 16) * np.pi / 8) @ y.conj().T
    np.testing.assert_allclose(gram, np.eye(len(n)), atol=1e-13)
    check_derivatives(lambda t: special.sph_harm_y(n, m, t, 0.4 + 0 * t, n_max=4).real, np.full(n.size, 0.7), order=1)


def test_bernoulli(x64):
    want = [float(mpmath.bernoulli(k)) for k in range(31)]
    want[1] = -0.5
    np.testing.assert_allclose(special.bernoulli(30), want, rtol=1e-15)
    assert special.bernoulli(10**5).tolist()[-4:] == [0, np.inf, 0, -np.inf]


def test_under_transformations():
    x = np.linspace(0.2, 3, 7).astype("f")
    for fun in (special.erfcx, special.expi, lambda x: special.hyp2f1(0.5, x, 1.5, 0.3), lambda x: special.sici(x)[1]):
        value = fun(x)
        np.testing.assert_allclose(fgrad.jit(fun)(x), value, rtol=1e-6)
        np.testing.assert_allclose(fgrad.vmap(fun)(x), value, rtol=1e-6)
        slope = np.array([fgrad.grad(fun)(v) for v in x])
        np.testing.assert_allclose(fgrad.jit(fgrad.vmap(fgrad.grad(fun)))(x), slope, rtol=1e-5)


def test_derivatives_at_zeros_infinities_and_nan():
    each = lambda f, *argnums: fgrad.jit(fgrad.vmap(fgrad.grad(f, argnums or 0)))  # noqa: E731
    y = jnp.array([0.5, 2.0, 1e30])
    for f, log in ((special.xlogy, np.log), (special.xlog1py, np.log1p)):
        dx, dy = each(f, 0, 1)(jnp.zeros(3), y)
        np.testing.assert_allclose(dx, log(np.asarray(y)), rtol=1e-6)
        np.testing.assert_array_equal(dy, 0)
    np.testing.assert_array_equal(special.xlogy(0.0, jnp.array([0.0, -1.0, np.inf])), 0)
    np.testing.assert_array_equal(special.xlog1py(0.0, jnp.array([-1.0, -2.0, np.inf])), 0)
    assert np.isfinite(each(jnp.sinc)(jnp.array([0.0, 1e-30, 1e30]))).all()
    assert np.isnan(each(jnp.hypot)(jnp.array([np.nan]), jnp.ones(1))).all()
    assert each(fgrad.grad(jnp.cbrt))(jnp.zeros(1)).tolist() == [-np.inf]
    large = jnp.array([10.0, 20.0, 88.0, 1e30, np.inf] * 4)
    np.testing.assert_array_equal(jnp.tanh(large), 1)
    np.testing.assert_array_equal(each(fgrad.nn.mish)(large[:4]), 1)


def test_special_functions_are_one_cached_program_outside_of_jit():
    """With the dtypes, weak types, derivatives and errors of the function itself."""
    x = jnp.array([0.2, 0.7])
    one, two = (special.erf, special.entr, special.gamma), (special.xlogy, special.kl_div)
    for f, args in [(f, (x,)) for f in one] + [(f, (x, x + 1)) for f in two] + [(special.xlogy, (x, 2))]:
        for given in (args, tuple(map(np.asarray, args)), (1.5,) * len(args)):
            assert type(f).__name__ == "EagerFunction"
            out, jitted = f(*given), fgrad.jit(f)(*given)
            assert (out.dtype, out.weak_type, out.shape) == (jitted.dtype, jitted.weak_type, jitted.shape)
            np.testing.assert_allclose(out, jitted, rtol=1e-6)
        total = lambda *xs, f=f: f(*xs).sum()  # noqa: E731
        np.testing.assert_allclose(fgrad.grad(total)(*args), fgrad.jit(fgrad.grad(total))(*args), rtol=1e-5)
        with pytest.raises(TypeError):
            f([1.0], *args[1:])
    np.testing.assert_array_equal(special.xlogy(x, y=x), special.xlogy(x, x))


def test_associated_legendre_functions():
    z = np.array([0.1, -0.5, 0.9], np.float32)
    p, d = special.lpmn(3, 4, z)
    assert p.shape == d.shape == (4, 5, 3)
    s = np.sqrt(1 - z.astype(float) ** 2)
    np.testing.assert_allclose(p[2, 2], 3 * s**2, 1e-6)
    np.testing.assert_allclose(p[1, 3], -1.5 * (5 * z**2 - 1) * s, 1e-5)
    np.testing.assert_allclose(d[0, 3], 7.5 * z**2 - 1.5, 1e-5, 1e-6)
    np.testing.assert_allclose(d[1, 2], -3 * s + 3 * z**2 / s, 1e-5, 1e-6)
    np.testing.assert_array_equal(p[3, :3], 0)
    np.testing.assert_allclose(special.lpmn(2, 2, jnp.array([1.0, -1.0]))[1], [[[0, 0], [1, 1], [3, -3]], [[0, 0], [np.inf, -np.inf], [np.inf, np.inf]], [[0, 0], [0, 0], [-6, 6]]])  # fmt: skip  # noqa: E501
    normalized = special.lpmn_values(3, 3, z, True)
    for k in range(4):
        for n in range(k, 4):
            factor = math.sqrt((2 * n + 1) / (4 * math.pi) * math.factorial(n - k) / math.factorial(n + k))
            np.testing.assert_allclose(normalized[k, n], p[k, n] * factor, 1e-5, 1e-7)
    for call, error, match in (
        (lambda: special.lpmn(2, 2, jnp.float32(0.5)), ValueError, "1D"),
        (lambda: special.lpmn(2, 2, jnp.ones(1, complex)), TypeError, "float32 and float64"),
        (lambda: special.lpmn(-1, 2, jnp.ones(1)), ValueError, "negative"),
    ):
        with pytest.raises(error, match=match):
            call()
