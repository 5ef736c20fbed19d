"""Complex numbers in programs stay in parts: the same numbers as where they lie side by side; loops carry parts."""

import mpmath
import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from fgrad.compile.passes import run_passes
from fgrad.config import config

PARTS = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -2.5, 1e-9, 1e9, np.inf, -np.inf, np.nan]
A, B = (np.tile(v.astype(np.float32), (3, 1)) for v in np.meshgrid(PARTS, PARTS))  # few numbers are not computed in parts

PROGRAMS = {
    "log": lambda a, b: jnp.log(a + 1j * b),
    "real of a square": lambda a, b: jnp.real((a + 1j * b) ** 2),
    "imag of a product": lambda a, b: jnp.imag((a + 1j * b) * (b - 2j)),
    "z conj z": lambda a, b: (a + 1j * b) * jnp.conj(a + 1j * b),
    "abs": lambda a, b: jnp.abs(lax.complex(a, b)),
    "polynomial": lambda a, b: (lax.complex(a, b) * 2 - 1j) * lax.complex(b, a) - lax.complex(a, b),
    "cube": lambda a, b: lax.complex(a, b) ** 3,
    "choice": lambda a, b: jnp.where(a < b, lax.complex(a, b), -lax.complex(b, b)),
    "equal": lambda a, b: (lax.complex(a, b) == lax.complex(b, a), lax.complex(a, b) != lax.complex(b, a)),
    "finite": lambda a, b: (jnp.isfinite(lax.complex(a, b)), jnp.isfinite(a + 0j)),
    "of a number": lambda a, b: lax.complex(a, b) * lax.complex(a[0, 2], b[3, 3]),
    "with an operand side by side": lambda a, b: jnp.exp(1j * b) * a + lax.complex(b, a),
    "cast": lambda a, b: lax.complex(a, b).astype(jnp.complex64) + a,
    "exp": lambda a, b: jnp.exp(lax.complex(a, b)),
    "sum": lambda a, b: jnp.sum(lax.complex(jnp.nan_to_num(a * 0), b * 0 + 1) * 2j, axis=0),
}


def alike(x, y, zeros=True, rtol=1e-6):
    """The same but for rounding (loops over complex numbers may fuse a product and a sum), zeros of the same sign where zeros=True."""
    x, y = np.asarray(x), np.asarray(y)
    assert x.dtype == y.dtype and x.shape == y.shape
    if x.dtype.kind not in "fc":
        return np.testing.assert_array_equal(x, y)
    size = np.maximum(abs(y), 1e-20)
    for u, v in ((x.real, y.real), (x.imag, y.imag)):
        with np.errstate(all="ignore"):
            near = (abs(u - v) <= rtol * size) | (u == v) | np.isnan(u) & np.isnan(v)
        assert near.all(), (x[~near], y[~near])
        both = (u == 0) & (v == 0) & zeros
        np.testing.assert_array_equal(np.signbit(u[both]), np.signbit(v[both]))


@pytest.mark.parametrize("name", PROGRAMS)
def test_parts_are_the_numbers(name):
    f = PROGRAMS[name]
    got = fgrad.jit(lambda a, b: f(a, b))(A, B)
    with config.override("pass_simplify", False):
        want = fgrad.jit(lambda a, b: f(a, b))(A, B)
    for x, y in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want)):
        alike(x, y, name not in ("z conj z", "polynomial", "cube"))


OF_NUMBERS = {
    "real of z conj z": lambda z: jnp.real(z * jnp.conj(z)),
    "real of conj z times z + z": lambda z: jnp.real(jnp.conj(z) * z + z),
    "turned": lambda z: jnp.real(z.reshape(3, -1).T * jnp.conj(z.reshape(3, -1).T)),
    "with a number": lambda z: jnp.real(jnp.conj(z) * z * z[14]),
    "both parts and the numbers": lambda z: (jnp.real(z) + jnp.imag(z), z * (1 - jnp.real(z)), jnp.conj(z) * jnp.real(z)),
    "gradient": fgrad.grad(lambda z: jnp.sum(jnp.real(z * jnp.conj(z)) ** 2)),
}


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_parts_are_taken_from_numbers(name):
    f, z = OF_NUMBERS[name], np.stack([A, B], -1).view(np.complex64).ravel()
    z[~np.isfinite(z) & (name == "gradient")] = 1
    got = fgrad.jit(lambda z: f(z))(z)
    with config.override("pass_simplify", False):
        want = fgrad.jit(lambda z: f(z))(z)
    for x, y in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want)):
        alike(x, y, zeros=False)


def test_squares_of_sizes_make_no_product_of_numbers():
    z = np.ones(1000, np.complex64)
    labels = [what for _, what in fgrad.jit(OF_NUMBERS["real of z conj z"]).lower(z).compile().profile(z)]
    assert len(labels) == 1 and "conj" not in labels[0]


def test_quotients_by_real_numbers():
    """By their parts, as the division of complex numbers has them where one of them is 0, infinite or NaN."""
    c = np.array([2.0, -3.0, 0.0, -0.0, 1e-20, np.inf, np.nan], np.float32)
    f = lambda a, b, c: lax.complex(a, b)[..., None] / c
    got = np.asarray(fgrad.jit(f)(A, B, c))
    with config.override("pass_simplify", False):
        want = np.asarray(fgrad.jit(lambda a, b, c: f(a, b, c))(A, B, c))
    np.testing.assert_allclose(got.real, want.real, rtol=3e-7)
    np.testing.assert_allclose(got.imag, want.imag, rtol=3e-7)
    z = np.array([3 + 4j, 1e30 - 1j, 0], np.complex64)
    np.testing.assert_allclose(fgrad.jit(lambda z: z / (1 + jnp.abs(z)))(z), z / (1 + np.abs(z).astype("float64")), rtol=3e-7)
    np.testing.assert_allclose(fgrad.jit(lambda z: z / 3.0)(z), z / 3, rtol=3e-7)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_logarithms_near_and_far_from_size_one(dtype):
    """log |z| keeps its digits where |z| is nearly 1, and does not overflow."""
    rng, eps, far = np.random.default_rng(0), np.finfo(dtype).eps, 36 if dtype == "complex64" else 300
    size = np.concatenate([1 + rng.uniform(-1, 1, 100) * 10.0 ** rng.uniform(-15, 0, 100), 10.0 ** rng.uniform(-far, far, 100)])
    z = np.concatenate(
        [size * np.exp(1j * rng.uniform(-np.pi, np.pi, 200)), 1 + 1j * 10.0 ** -np.arange(18), [0.6 + 0.8j, 0.5**0.5 * (1 + 1j)]]
    )
    z = z.astype(dtype)
    with fgrad.enable_x64(True):
        got = np.asarray(jnp.log(z))
    with mpmath.workprec(300):
        want = [mpmath.log(mpmath.mpc(complex(v))) for v in z]
        for x, y, v in zip(got, want, z):
            assert abs(mpmath.mpf(float(x.real)) - y.real) <= 2 * eps * abs(y.real), v
            assert abs(mpmath.mpf(float(x.imag)) - y.imag) <= 2 * eps * abs(y.imag), v


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", "log exp sin cos tan sinh cosh tanh sqrt".split())
def test_functions_at_corners(name, dtype):
    z = np.array([complex(a, b) for a in PARTS for b in PARTS], dtype)
    with np.errstate(all="ignore"), fgrad.enable_x64(True):
        want, got = getattr(np, name)(z), np.asarray(getattr(jnp, name)(z))
    for x, y in ((got.real, want.real), (got.imag, want.imag)):
        np.testing.assert_allclose(x, y, rtol=1e-5)
        known = ~np.isnan(y)
        np.testing.assert_array_equal(np.signbit(x[known]), np.signbit(y[known]))


def _escapes(z, c):
    def step(_, s):
        z, k = s
        w = z * z + c
        near = jnp.real(w) ** 2 + jnp.imag(w) ** 2 < 4
        return jnp.where(near, w, z), k + near

    return lax.fori_loop(0, 5, step, (z, jnp.zeros(z.shape, jnp.int32)))


def _while(z, c):
    return lax.while_loop(lambda s: (jnp.max(jnp.abs(s[0])) < 100) & (s[1] < 4), lambda s: (s[0] ** 2 + c, s[1] + 1), (z, 0))


def _steps(z, c):
    return lax.scan(lambda z, x: (jnp.conj(z) * x + c[0], jnp.abs(z)), z, c)


@pytest.mark.parametrize("f", [_escapes, _while, _steps])
@pytest.mark.parametrize("shape", [(), (7,), (30, 50)])
def test_loops_carry_parts(f, shape):
    rng = np.random.default_rng(0)
    z = (rng.standard_normal((2, *shape)) + 1j * rng.standard_normal((2, *shape))).astype(np.complex64)
    z, c = (z[0], np.stack([z[1], z[0]]) if f is _steps else z[1])
    got = fgrad.jit(f)(z, c)
    with config.override("pass_simplify", False), config.override("pass_motion", False):
        want = fgrad.jit(lambda z, c: f(z, c))(z, c)
    for x, y in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want)):
        alike(x, y, False, 1e-3)
    loops = [e for e in run_passes(fgrad.make_jaxpr(f)(z, c)).eqns if e.primitive.name in ("scan", "while")]
    assert loops and all(v.aval.dtype.kind != "c" for e in loops for v in e.outvars) == (len(shape) == 2)


def test_a_loop_that_transforms_carries_numbers():
    z = np.arange(8, dtype=np.complex64)
    f = lambda z: lax.fori_loop(0, 3, lambda i, z: jnp.fft.fft(z) / 2, z)
    np.testing.assert_allclose(fgrad.jit(f)(z), np.fft.fft(np.fft.fft(np.fft.fft(z))) / 8, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", ["log", "real of a square", "z conj z", "abs", "polynomial", "cube"])
def test_gradients(name):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 5)).astype(np.float32)
    loss = lambda a, b: jnp.sum(jnp.abs(PROGRAMS[name](a, b)) ** 2)
    got = fgrad.jit(fgrad.grad(loss, (0, 1)))(np.tile(a, 64), np.tile(b, 64))
    with fgrad.enable_x64(True):
        for k, g in enumerate(got):
            for i in range(5):
                h = np.zeros((2, 5))
                h[k, i] = 1e-5
                want = (loss(a + h[0], b + h[1]) - loss(a - h[0], b - h[1])) / 2e-5
                np.testing.assert_allclose(g[i], want, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float16", "bfloat16", "float32"])
def test_real_numbers_of_any_dtype(dtype):
    x, y = jnp.asarray(np.arange(330) % 4, dtype), np.linspace(-1, 1, 330, dtype=np.float32)
    f = lambda x, y: (x.astype(jnp.complex64) * lax.complex(y, y), lax.complex(y, y) / x.astype(jnp.complex64), jnp.abs(1j * x))
    number = np.asarray(x.astype("float32"))
    z = y + 1j * y
    with np.errstate(all="ignore"):
        for got, want in zip(fgrad.jit(f)(x, y), (number * z, z / number, number)):
            np.testing.assert_allclose(got[1:4], want[1:4], rtol=1e-6)
    np.testing.assert_array_equal(fgrad.jit(lambda x: jnp.real(x.astype(jnp.complex64)))(x), number)


def test_precisions_and_empty_arrays():
    x, y = np.full(400, 0.1, np.float32), np.full(400, 0.2, np.float32)
    with fgrad.enable_x64(True):
        z = fgrad.jit(lambda a, b: lax.complex(a, b).astype(jnp.complex128) * 2 + lax.complex(a, b))(x, y)
        assert z.dtype == np.complex128 and abs(z[0] - 3 * complex(np.float32(0.1), np.float32(0.2))) < 1e-15
        assert fgrad.jit(lambda a: lax.complex(a, a).astype(jnp.float32))(np.ones(400)).dtype == np.float32
    assert fgrad.jit(lambda a: jnp.log(a + 1j * a) / (1 + jnp.abs(a)))(np.ones((0, 3), np.float32)).shape == (0, 3)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("n", [0, 1, 7, 65, 4000])
def test_which_complex_numbers_are_finite(dtype, n):
    z = np.empty(n, dtype)
    z.real, z.imag = np.resize(A, n), np.resize(B, n)  # NaN beside an infinity too
    with fgrad.enable_x64():
        for x in (z, z[::-1]):
            want = np.isfinite(x)
            for got in (
                jnp.isfinite(x),
                fgrad.jit(jnp.isfinite)(x),
                fgrad.vmap(jnp.isfinite)(x),
                fgrad.jit(lambda x: jnp.isfinite(x[::-1]))(x)[::-1],
            ):
                np.testing.assert_array_equal(got, want)
                assert got.dtype == bool
            np.testing.assert_array_equal(fgrad.jit(lambda x: jnp.where(jnp.isfinite(x), x, 0))(x), np.where(want, x, 0))
            grad = fgrad.jit(fgrad.grad(lambda x: jnp.sum(jnp.where(jnp.isfinite(x), jnp.real(x), 0))))(x)
            np.testing.assert_array_equal(grad, want.astype(dtype))


def test_loops_ask_whether_parts_are_finite():
    z = np.asarray(lax.complex(A, B))
    f = lambda z: lax.fori_loop(0, 3, lambda i, z: jnp.where(jnp.isfinite(z), z * 2, z), z)
    want = z
    for _ in range(3):
        with np.errstate(all="ignore"):
            want = np.where(np.isfinite(want), want.real * np.float32(2) + 1j * (want.imag * np.float32(2)), want)
    alike(np.where(np.isfinite(z), fgrad.jit(f)(z), 0), np.where(np.isfinite(z), want, 0), zeros=False)
    with pytest.raises(TypeError, match="complex64"):
        lax.is_finite(z)
