"""Every elementary function of the VM stays within its bound in ULP, edges included."""

import mpmath
import numpy as np
import pytest

from fgrad._kernels.elementwise import FUSED
from fgrad._kernels.isa import supported
from tests.kernels import ulp
from tests.kernels.vm_builder import apply, run

SLACK = 0 if np.finfo(np.longdouble).nmant >= 63 and FUSED else 1  # of the references, of the functions
TYPES = [np.float32, np.float64]


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", [*ulp.FUNCTIONS, *ulp.SLOW_REFERENCE])
def test_error_in_ulp(name, dtype):
    bound = {**ulp.FUNCTIONS, **ulp.SLOW_REFERENCE}[name][2 if dtype == np.float32 else 3]
    err, x, got = ulp.unary(name, dtype, 20000 if name in ulp.FUNCTIONS else 200)
    assert err <= bound + SLACK, f"{name}({x!r}) = {got!r}: {err} ulp"


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", list(ulp.BINARY))
def test_binary_error_in_ulp(name, dtype):
    err, x, got = ulp.binary(name, dtype, 20000)
    assert err <= ulp.BINARY[name][1 if dtype == np.float32 else 2] + SLACK, f"{name}{x!r} = {got!r}: {err} ulp"


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("power", [0.5, 1.5, -0.5, 2.5, -1.5, 1.0, -1.0, 2.0, 3.0, 0.7])
def test_powers_by_one_number(power, dtype):
    """Roots and products stand in for some of them: one rounding more, and the same zeros, infinities and NaN."""
    rng = np.random.default_rng(0)
    x = np.concatenate([[0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, -2.5, 1e-40, 3e38], rng.lognormal(0, 9, 3000)]).astype(dtype)
    (got,) = run([x], [("pow", dtype, 0, 1)], [(2, dtype)], [(power, dtype)])
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.longdouble), np.longdouble(np.asarray(power, dtype)))
    err = ulp.ulp_errors(got, want)
    assert err.max() <= (2 if power == 2.5 else 1.5) + SLACK, f"{x[err.argmax()]!r} ** {power} = {got[err.argmax()]!r}: {err.max()} ulp"


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("base", [2.0, -2.0, 10.0, 0.3, 0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])
def test_powers_of_one_number(base, dtype):
    rng = np.random.default_rng(0)
    y = np.concatenate([[0.0, -0.0, np.inf, -np.inf, np.nan], np.arange(-30.0, 30.0), rng.uniform(-40, 40, 300)]).astype(dtype)
    (got,) = run([y], [("pow", dtype, 1, 0)], [(2, dtype)], [(base, dtype)])
    with np.errstate(all="ignore"):
        err = ulp.ulp_errors(got, np.power(np.longdouble(np.asarray(base, dtype)), y.astype(np.longdouble)))
    assert err.max() <= 1 + SLACK, f"{base} ** {y[err.argmax()]!r} = {got[err.argmax()]!r}: {err.max()} ulp"


ENDS = [0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1e308, -1e308]
AT_ENDS = {
    "erf": [0, -0.0, 0.84270079294971487, -0.84270079294971487, 0.99532226501895273, 1, -1, np.nan, 5e-324, -1.1283791670955e-310, 1, -1],
    "erfc": [1, 1, 0.15729920705028513, 1.8427007929497149, 0.0046777349810472658, 0, 2, np.nan, 1, 1, 0, 2],
    "erf_inv": [0, -0.0, np.inf, -np.inf, np.nan, np.nan, np.nan, np.nan, 5e-324, -8.8622692545276e-311, np.nan, np.nan],
    "ndtr": [0.5, 0.5, 0.84134474606854295, 0.15865525393145705, 0.97724986805182079, 1, 0, np.nan, 0.5, 0.5, 1, 0],
    "logit": [-np.inf, np.nan, np.inf, np.nan, np.nan, np.nan, np.nan, np.nan, -744.44007192138127, np.nan, np.nan, np.nan],
    "ndtri": [-np.inf, -np.inf, np.inf, np.nan, np.nan, np.nan, np.nan, np.nan, -38.467405617144344, np.nan, np.nan, np.nan],
    "asin": [0, -0.0, np.pi / 2, -np.pi / 2, np.nan, np.nan, np.nan, np.nan, 5e-324, -1e-310, np.nan, np.nan],
    "acos": [np.pi / 2, np.pi / 2, 0, np.pi, np.nan, np.nan, np.nan, np.nan, np.pi / 2, np.pi / 2, np.nan, np.nan],
    "cbrt": [0, -0.0, 1, -1, 1.259921049894873, np.inf, -np.inf, np.nan, 1.7031839360032603e-108, -4.641588833612779e-104,
             4.641588833612779e102, -4.641588833612779e102],
}  # fmt: skip


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("name", list(AT_ENDS))
def test_float64_at_the_ends_of_a_function(name):
    got = apply(name, np.float64, np.array(ENDS))
    np.testing.assert_allclose(got, AT_ENDS[name], rtol=1e-13)
    zeros = np.equal(AT_ENDS[name], 0)
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(np.array(AT_ENDS[name])[zeros]))


@pytest.mark.parametrize(
    "name, reference, x",
    [
        ("logit", lambda p: mpmath.log(p / (1 - p)), np.linspace(0.2, 0.8, 1501)),
        ("erf_inv", ulp.mp_erf_inv, np.linspace(-0.95, 0.95, 301)),
        ("erfc", mpmath.erfc, np.linspace(-1, 26.5, 1501)),
        ("ndtr", mpmath.ncdf, np.linspace(-37, 5, 1501)),
        ("ndtri", lambda p: mpmath.sqrt(2) * ulp.mp_erf_inv(2 * p - 1), np.linspace(0.01, 0.99, 301)),
    ],
)
def test_float64_of_cells(name, reference, x):
    """From one cell to the next."""
    with mpmath.workdps(40):
        exact = [reference(mpmath.mpf(v)) for v in x.tolist()]
        want = np.array([ulp.L(float(v)) + ulp.L(float(v - float(v))) for v in exact])
    assert ulp.ulp_errors(apply(name, np.float64, x), want).max() <= 2 + SLACK


@pytest.mark.parametrize("dtype", TYPES)
def test_exact_gelu_to_the_end_of_its_tail(dtype):
    x = np.concatenate([np.linspace(-12, 9, 1501), [1e-30, -1e-30, 0.0, 40.0]]).astype(dtype)
    with mpmath.workdps(40):
        below = [mpmath.ncdf(mpmath.mpf(v)) for v in x.tolist()]
        want = np.array([float(v * p) for v, p in zip(x.tolist(), below, strict=True)])
        slope = np.array([float(p + v * mpmath.npdf(mpmath.mpf(v))) for v, p in zip(x.tolist(), below, strict=True)])
    np.testing.assert_allclose(apply("gelu_exact", dtype, x), want, rtol=3 * np.finfo(dtype).eps)
    np.testing.assert_allclose(apply("gelu_exact_slope", dtype, x), slope, rtol=0, atol=3 * np.finfo(dtype).eps)


def test_normal_distribution_where_its_methods_meet():
    """float32 of cells and of an exponential, at either side of -5.44, in whatever order; and beyond all of them."""
    x = np.random.default_rng(0).uniform(-7, 6, 4001).astype(np.float32)
    x[:4] = -5.44, -5.4400005, -14.3, 5.44
    below = np.array([float(mpmath.ncdf(mpmath.mpf(float(v)))) for v in x])
    assert ulp.ulp_errors(apply("ndtr", np.float32, x), below).max() <= 2 + SLACK
    got = apply("gelu_exact", np.float32, x)
    assert ulp.ulp_errors(got, x * below).max() <= 3 + SLACK
    np.testing.assert_array_equal(apply("gelu_exact", np.float32, np.sort(x)), got[np.argsort(x)])
    ends = np.array([0.0, -0.0, np.inf, 1e30, -1e30, np.nan, -np.inf], np.float32)
    np.testing.assert_array_equal(apply("ndtr", np.float32, ends), [0.5, 0.5, 1, 1, 0, np.nan, 0])
    got = apply("gelu_exact", np.float32, ends)
    np.testing.assert_array_equal(got, np.array([0, 0, np.inf, 1e30, 0, np.nan, np.nan], np.float32))
    np.testing.assert_array_equal(np.signbit(got[:5]), [False, True, False, False, True])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "name",
    [
        "exp",
        "logistic",
        "gelu",
        "gelu_slope",
        "gelu_exact",
        "gelu_exact_slope",
        "erf",
        "erfc",
        "erf_inv",
        "ndtr",
        "logit",
        "pow",
        "log2",
        "asin",
        "acos",
        "sin",
        "cos",
        "tan",
    ],
)
def test_values_do_not_depend_on_their_place(name, dtype):
    """A last part of a vector, and one number alone, are computed as the others are."""
    x = np.random.default_rng(1).uniform(0.1, 0.9 if name in ("erf_inv", "ndtri", "logit", "asin", "acos") else 3, 77).astype(dtype)
    args = (x, x[::-1].copy()) if name in ulp.BINARY else (x,)
    whole = apply(name, dtype, *args)
    for n in (1, 2, 3, 7, 9, 15, 17, 33, 65):
        np.testing.assert_array_equal(apply(name, dtype, *(a[:n].copy() for a in args)), whole[:n])


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("name", ["erf", "erfc", "ndtr", "gelu_exact", "gelu_exact_slope", "logit", "log2", "pow", "rel_entr"])
def test_values_do_not_depend_on_their_neighbours(name):
    """Among numbers at the ends of a function's range, float32's others are what they are among their like; and so are the former."""
    rng = np.random.default_rng(2)
    x, y = rng.uniform(0.1, 0.9, (2, 320)).astype(np.float32)
    ends = np.array([0, -0.0, 1, -1, 2, 13, -13, 14.3, -9.1, 1e-30, 1e-40, -1e-45, 3e38, -3e38, np.inf, -np.inf, np.nan], np.float32)
    both = lambda a, b: apply(name, np.float32, *((a, b) if name in ("pow", "rel_entr") else (a,)))
    mixed, other = x.copy(), y.copy()
    mixed[7:300:17] = ends[np.arange(18) % ends.size]
    other[12:300:19] = ends[np.arange(16) * 5 % ends.size]
    got, kept = both(mixed, other), (mixed == x) & (other == y)
    np.testing.assert_array_equal(got[kept], both(x, y)[kept])
    np.testing.assert_array_equal(got, np.concatenate([both(mixed[i : i + 1].copy(), other[i : i + 1].copy()) for i in range(x.size)]))


@pytest.mark.usefixtures("denormals")
def test_relative_entropies_at_the_ends():
    x = np.array([0, 0, -0.0, 0, -1, 1, 1, np.nan, 1, 1e-40, 2.0**-61, 3e38, 1, 0.5], np.float32)
    y = np.array([1, 0, 0, -1, 1, 0, -1, 1, np.nan, 1e-42, 2.0**60, 1e-3, 1, 0.5], np.float32)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64) * np.log(x.astype(np.float64) / y.astype(np.float64))
    want = np.where((x > 0) & (y > 0), wide, np.where((x == 0) & (y >= 0), 0, np.inf))
    for n in (1, 14, 40):
        got = apply("rel_entr", np.float32, np.resize(x, n), np.resize(y, n))
        np.testing.assert_allclose(got, np.resize(want, n).astype(np.float32), rtol=3e-7)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_trigonometry_of_huge_arguments(name, dtype):
    x = np.array([1e6, -3e7, 1e10, 2.0**100, -1e38, 7.0, np.inf, -np.inf, np.nan], dtype)
    with mpmath.workdps(80):
        want = [float(getattr(mpmath, name)(mpmath.mpf(float(v)))) for v in x[:6]]
    got = apply(name, dtype, x)
    np.testing.assert_allclose(got[:6], want, rtol=4 * np.finfo(dtype).eps)
    assert np.isnan(got[6:]).all()


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_trigonometry_of_tiles_with_huge_arguments(name):
    """Of every size, and 2^72 times the integer that comes nearest to a multiple of pi/2; the others are those of a tile without."""
    rng = np.random.default_rng(0)
    far = rng.integers(0x47C35001, 0x7F800000, 5000).astype(np.uint32).view(np.float32) * rng.choice([-1, 1], 5000).astype(np.float32)
    far[0] = 16367173 * 2.0**72
    near = rng.uniform(-1e5, 1e5, 5000).astype(np.float32)
    got = apply(name, np.float32, np.stack([far, near], 1).ravel()).reshape(-1, 2)
    want = getattr(np, name)(far.astype(np.float64))
    assert np.max(np.abs(got[:, 0] - want) / np.spacing(np.abs(want).astype(np.float32))) < 1
    np.testing.assert_allclose(got[:, 1], apply(name, np.float32, near), rtol=2e-7)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_trigonometry_of_tiles_with_huge_float64(name):
    """Of every exponent, and 2^797 times the integer that comes nearest to a multiple of pi/2; the others are those of a tile without."""
    rng = np.random.default_rng(0)
    exponents = rng.permutation(np.resize(np.arange(1043, 2047), 1500)).astype(np.uint64) << np.uint64(52)
    far = (exponents | rng.integers(0, 2**52, 1500, dtype=np.uint64)).view(np.float64) * rng.choice([-1, 1], 1500)
    far[0] = 6381956970095103 * 2.0**797
    near = rng.uniform(-1e6, 1e6, 1500)
    got = apply(name, np.float64, np.stack([far, near], 1).ravel()).reshape(-1, 2)
    with mpmath.workprec(1300):
        want = [getattr(mpmath, name)(mpmath.mpf(float(v))) for v in far]
        error = [abs(mpmath.mpf(float(g)) - w) / np.spacing(abs(float(w))) for g, w in zip(got[:, 0], want)]
    assert max(error[0 if FUSED and supported() else 1 :]) < 1  # without gathers libm is asked, whose cos errs by 8 ulp at the first
    np.testing.assert_allclose(got[:, 1], apply(name, np.float64, near), rtol=3e-16)


@pytest.mark.parametrize("dtype", TYPES)
def test_lgamma_and_digamma(dtype):
    x = np.array([0.1, 0.5, 1.0, 1.4616, 1.5, 2.0, 3.3, 10.0, 171.5, 1e5, -0.5, -1.3, -7.7, 1e-9, -1e-9], dtype)
    tol = 4 * np.finfo(dtype).eps
    with mpmath.workdps(40):
        lgamma = np.array([float(mpmath.re(mpmath.loggamma(mpmath.mpf(float(v))))) for v in x])
        digamma = np.array([float(mpmath.digamma(mpmath.mpf(float(v)))) for v in x])
    np.testing.assert_allclose(apply("lgamma", dtype, x), lgamma, rtol=tol, atol=tol)
    np.testing.assert_allclose(apply("digamma", dtype, x), digamma, rtol=tol, atol=tol)
    edges = apply("digamma", dtype, np.array([0.0, -0.0, -1.0, -2.0, np.inf, -np.inf, np.nan], dtype))
    np.testing.assert_array_equal(edges, np.array([-np.inf, np.inf, np.nan, np.nan, np.inf, np.nan, np.nan], dtype))
    np.testing.assert_array_equal(apply("lgamma", dtype, np.array([0.0, -1.0, np.inf, -np.inf], dtype)), np.full(4, np.inf, dtype))
