"""Corners of types, weak types and refusals that a differential search against JAX found."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax, nn
from fgrad.scipy import signal, special, stats


def test_logarithms_to_other_bases_and_angles_are_strongly_typed():
    for f in (jnp.log2, jnp.log10, jnp.angle):
        for x in (3, 3.0, jnp.asarray(3)):
            assert (f(x).dtype, f(x).weak_type) == (np.float32, False)
    assert (jnp.log2(2.0) * jnp.ones(1, jnp.bfloat16)).dtype == np.float32
    assert jnp.angle(1j).weak_type


def test_results_of_weak_operands_stay_weak():
    for out in (*jnp.divmod(5.0, 3), *jnp.modf(1.5), jnp.gcd(4, 6), jnp.lcm(4, 6)):
        assert out.weak_type
    weak = jnp.broadcast_to(1.0, (3,))
    assert lax.sort(weak).weak_type
    assert [x.weak_type for x in lax.sort((weak, jnp.arange(3)))] == [True, False]


def test_a_scalar_is_accumulated_as_one_element():
    for f in (jnp.cumsum, jnp.cumprod):
        np.testing.assert_array_equal(f(jnp.float32(3), axis=0), [3])
        np.testing.assert_array_equal(f(3.0), [3])


def test_axes_out_of_bounds_are_value_and_index_errors():
    x = jnp.ones((2, 3))
    for f in (lambda: jnp.swapaxes(x, 0, 5), lambda: jnp.std(x, 5), lambda: jnp.argmax(x, -3), lambda: jnp.unstack(x, axis=2)):
        for kind in (ValueError, IndexError):
            with pytest.raises(kind, match="out of bounds"):
                f()
    with pytest.raises(ValueError, match="axis 5"):
        lax.unstack(x, 5)
    with pytest.raises(TypeError, match="numbers of dimensions"):
        jnp.concatenate([jnp.ones(3), 1.0])
    with pytest.raises(NotImplementedError, match="immutable"):
        jnp.fill_diagonal(x, 1)
    with pytest.raises(ValueError, match="at least two"):
        jnp.rot90(jnp.ones(3))
    with pytest.raises(TypeError, match="complex"):
        jnp.argmax(jnp.array([1j]))


def test_parts_of_negative_size_and_fractional_diagonals_are_refused():
    for positions in ([2, 1], [2, 5], [-1]):
        with pytest.raises(ValueError, match="negative size"):
            jnp.split(jnp.ones((3, 2)), positions)
    with pytest.raises(ValueError, match="k must be an integer"):
        jnp.eye(2, k=1.0)
    np.testing.assert_array_equal(jnp.roll(jnp.arange(3), 1.5), [2, 0, 1])


def test_fill_values_that_are_floats_widen_positions():
    x = jnp.array([0, 1, 2])
    (found,) = jnp.nonzero(x, size=4, fill_value=np.float32(1.5))
    np.testing.assert_array_equal(found, np.float32([1, 2, 1.5, 1.5]))
    assert jnp.nonzero(x, fill_value=1.0)[0].dtype == np.float32
    assert jnp.flatnonzero(x, size=4, fill_value=np.int8(-1)).tolist() == [1, 2, -1, -1]


def test_transforms_of_nothing():
    assert jnp.fft.fftn(jnp.float32(1)).dtype == np.complex64
    assert jnp.fft.irfft(jnp.zeros(0)).shape == (0,)
    assert jnp.fft.irfftn(jnp.zeros((2, 0))).shape == (2, 0)
    assert jnp.fft.irfft2(jnp.zeros((0, 3))).shape == (0, 4)
    assert np.isnan(nn.logmeanexp(jnp.zeros(0))) and np.isnan(nn.logmeanexp(jnp.zeros((3, 0)), axis=1)).all()
    assert lax.rng_bit_generator(jnp.arange(4, dtype=jnp.uint32), 3)[1].shape == (3,)


@pytest.mark.parametrize("name", ["relu", "relu6", "hard_silu", "softplus", "log_sigmoid", "mish", "gelu"])
def test_activations_of_complex_numbers(name):
    z = np.complex64([1 + 1j, -0.5 + 2j, -3 - 1j])
    soft = np.log1p(np.exp(z.astype(complex)))
    six = np.where(z.real >= 6, 6, np.where(z.real <= 0, 0, z))
    shifted = np.where(z.real + 3 > 0, z + 3, 0)
    y = np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)
    expected = {
        "relu": np.where(z.real > 0, z, 0),
        "relu6": six,
        "hard_silu": z * shifted / 6,
        "softplus": soft,
        "log_sigmoid": -np.log1p(np.exp(-z.astype(complex))),
        "mish": z * np.tanh(soft),
        "gelu": z * (1 + np.tanh(y)) / 2,
    }[name]
    np.testing.assert_allclose(getattr(nn, name)(z), expected, rtol=1e-5, atol=1e-6)


def test_a_slope_that_is_an_integer_keeps_integers():
    out = nn.leaky_relu(jnp.array([-2, 3]), -1)
    assert out.dtype == np.int32 and out.tolist() == [2, 3]
    assert nn.leaky_relu(jnp.array([-2, 3])).dtype == np.float32


def test_tails_of_distributions_take_unsigned_integers():
    x = jnp.array([1, 205, 0], jnp.uint8)
    wide = x.astype(jnp.float32)
    for d in (stats.norm, stats.cauchy):
        for name in ("sf", "logsf"):
            np.testing.assert_allclose(getattr(d, name)(x, jnp.uint8(2)), getattr(d, name)(wide, 2.0), rtol=1e-6)
    np.testing.assert_allclose(stats.gumbel_l.logpdf(x), stats.gumbel_l.logpdf(wide), rtol=1e-6)
    np.testing.assert_allclose(stats.truncnorm.logsf(x, 0, 300), stats.truncnorm.logsf(wide, 0.0, 300.0), rtol=1e-6)


def test_modes_and_methods_of_convolutions_are_checked():
    x = jnp.ones(3)
    for f in (lambda: signal.fftconvolve(x, x, "foo"), lambda: signal.correlate(x, x, method="foo"), lambda: signal.convolve(x, x, "foo")):
        with pytest.raises(ValueError, match="must be"):
            f()
    with pytest.raises(ValueError, match="floating"):
        lax.approx_max_k(jnp.arange(8), 2)


def test_roots_are_differentiable_outside_jit():
    g = fgrad.grad(lambda p: jnp.sum(jnp.abs(jnp.roots(p))))(jnp.array([1.0, 3.0, 2.0]))
    np.testing.assert_allclose(g, [-3, 1, 0], atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_infinite_matrices_have_no_spectrum(dtype):
    """LAPACK's iteration over such a matrix does not end."""
    x = np.array([[-np.inf, 0, -1.5, 0.09], [0.37, 0, -1.8, 1], [2, -1.45, 0.08, 0.8], [-np.inf, 1e-30, 0.92, 1]], dtype)
    for out in (jnp.linalg.svd(x), jnp.linalg.eig(x), jnp.linalg.svdvals(x), fgrad.scipy.linalg.schur(x), jnp.linalg.cond(x)):
        for leaf in fgrad.tree.leaves(out):
            assert np.isnan(leaf).all()


def test_values_at_the_ends():
    with fgrad.enable_x64():
        for dtype in (np.float32, np.float64):
            x = jnp.array([np.inf, -np.inf, 7, -7] * 5, dtype)
            np.testing.assert_array_equal(special.erf(x), np.array([1, -1, 1, -1] * 5, dtype))
            y = jnp.arctan2(jnp.ones(20, dtype), jnp.full(20, -0.0, dtype))
            np.testing.assert_array_equal(y, np.full(20, np.pi / 2, dtype))


def test_narrow_integers_become_float32_with_x64_and_wide_ones_float64():
    functions = (jnp.sin, jnp.mean, jnp.var, jnp.linalg.norm, lambda x: x / x, special.gammaln, lambda x: jnp.median(x), jnp.nanmean)
    with fgrad.enable_x64():
        for name in ("bool", "int8", "uint16", "int32", "uint32", "int64", "uint64"):
            x = jnp.ones(3, name)
            want = np.float64 if x.dtype.itemsize == 8 else np.float32
            assert [f(x).dtype for f in functions] == [want] * len(functions), name
            assert jnp.fft.fft(x).dtype == (np.complex128 if want == np.float64 else np.complex64)
        assert (jnp.sin(3).dtype, (jnp.ones(3, np.int32) * 1.5).dtype) == (np.float64, np.float64)
        assert jnp.left_shift(jnp.ones(3, bool), jnp.ones(3, bool)).dtype == np.int32


def test_closeness_and_equality_are_strong_booleans():
    for f in (jnp.isclose, jnp.allclose, jnp.array_equal, jnp.array_equiv):
        out = f(1.0, 1.0)
        assert (bool(out), out.dtype, out.weak_type) == (True, np.bool_, False)


def test_dtypes_that_do_not_fit_are_refused():
    floats, bools = np.ones(2, np.float32), np.array([True, False])
    for fun in (lax.cummax, lax.cummin):
        with pytest.raises(TypeError, match="bool"):
            fun(bools)
    for bad in (
        lambda: lax.clamp(0, floats, 1),
        lambda: lax.pad(floats, 0, [(1, 1, 0)]),
        lambda: lax.convert_element_type(1j, np.float32),
        lambda: jnp.asarray(1j, dtype=np.float32),
        lambda: jnp.var(floats, dtype=bool),
        lambda: fgrad.random.randint(fgrad.random.key(0), (2,), 0, 3, np.float32),
    ):
        with pytest.raises(TypeError):
            bad()
    for bad in (
        lambda: jnp.std(floats, dtype=np.int8),
        lambda: fgrad.random.poisson(fgrad.random.key(0), 3.0, dtype=np.float32),
        lambda: fgrad.random.geometric(fgrad.random.key(0), 0.3, dtype=np.float32),
    ):
        with pytest.raises(ValueError, match="dtype"):
            bad()
    assert jnp.var(np.array([1, 2, 5]), dtype=np.int8).dtype == np.float32


def test_lax_functions_of_complex_scalars_stay_weak():
    for fun in (lax.asin, lax.acos, lax.atan, lax.asinh, lax.acosh, lax.atanh, lax.exp2):
        assert fun(1j).weak_type and not fun(np.complex64(1j)).weak_type
    assert lax.conj(1.0).weak_type and not lax.conj(np.float32(1)).weak_type
    assert lax.pow(2.5, jnp.asarray(3)).weak_type
    x = np.array([[1j, 2], [2 - 1j, 0]], np.complex64)
    np.testing.assert_array_equal(lax.reduce_max(x, (1,)), x[[0, 1], [1, 0]])
    np.testing.assert_array_equal(lax.reduce_min(x, (1,)), x[[0, 1], [0, 1]])


def test_reduceat_keeps_the_dtype_and_fills_beyond_the_end():
    out = jnp.add.reduceat(np.arange(5, dtype=np.int8), np.array([0, 2]))
    assert out.dtype == np.int8 and out.tolist() == [1, 9]
    np.testing.assert_array_equal(jnp.add.reduceat(np.arange(5.0), np.array([0, 9])), [10, np.nan])
    assert jnp.median(2.5, keepdims=True).shape == (1,)


def test_take_at_no_indices_and_forms_of_at():
    assert jnp.take(jnp.arange(3), jnp.array([])).shape == (0,)
    assert repr(jnp.arange(2).at[0]) == "_IndexUpdateRef(Array([0, 1], dtype=int32), 0)"
    assert repr(jnp.arange(2).at) == "_IndexUpdateHelper(Array([0, 1], dtype=int32))"


def test_truncnorm_has_its_whole_slope_at_the_bounds():
    slope = fgrad.vmap(fgrad.grad(lambda x: stats.truncnorm.logpdf(x, -1.0, 1.0)))(jnp.array([-1.0, 0.5, 1.0, 2.0]))
    np.testing.assert_allclose(slope, [1, -0.5, -1, 0])


def test_arange_of_arrays_and_of_a_step_without_a_stop():
    assert jnp.arange(5, step=2).tolist() == jnp.arange(5, None, 2).tolist() == [0, 2, 4]
    assert jnp.arange(5, None, -1).shape == (0,)
    for args, dtype in (
        ((jnp.int8(5),), np.int8),
        ((0, jnp.float16(3)), np.float16),
        ((2, None, jnp.int8(1)), np.int8),
        ((jnp.asarray(3.0),), np.float32),
    ):
        np.testing.assert_array_equal(jnp.arange(*args), np.arange(*[None if v is None else np.asarray(v) for v in args]))
        assert jnp.arange(*args).dtype == dtype
    with pytest.raises(ValueError, match="must be scalars"):
        jnp.arange(jnp.array([5]))


def test_array_refuses_numbers_its_dtype_cannot_hold_and_full_wraps_them():
    for values, dtype, error in (
        (np.nan, int, ValueError),
        ([np.nan], int, ValueError),
        (-2.7, np.uint8, OverflowError),
        ([300.0], np.int8, OverflowError),
        ([1 + 2j], np.float32, TypeError),
    ):
        with pytest.raises(error):
            jnp.array(values, dtype=dtype)
    np.testing.assert_array_equal(jnp.array([1.5, 2], dtype=int), [1, 2])
    np.testing.assert_array_equal(jnp.array(bytearray(b"ab")), np.frombuffer(b"ab", np.uint8))
    assert jnp.full(2, -1, np.uint32).tolist() == [2**32 - 1] * 2
    assert jnp.full_like(jnp.ones(1, np.int8), -300).item() == -44
    assert [jnp.full((), v, np.int32).item() for v in (np.nan, 1e20, -1e20, 2.7)] == [0, 2**31 - 1, -(2**31), 2]


def test_an_array_of_weak_arrays_is_strong_and_inverse_functions_of_complex_scalars_are_weak():
    weak = jnp.asarray(2.0)
    assert weak.weak_type and not jnp.array([weak, 1]).weak_type and not jnp.array([[weak]]).weak_type
    for f in (jnp.arcsin, jnp.arccos, jnp.arctan, jnp.arcsinh, jnp.arccosh, jnp.arctanh, jnp.exp2):
        assert f(1 + 2j).weak_type and not f(np.complex64(1 + 2j)).weak_type


def test_small_corners_of_movement():
    np.testing.assert_array_equal(jnp.pad(jnp.array([True, False]), 1, "maximum"), [True, True, False, True])
    for bad in (
        lambda: jnp.choose(jnp.array([0]), []),
        lambda: jnp.put(jnp.ones(2), 0, 1, mode="foo", inplace=False),
        lambda: jnp.block(((1, 2),)),
    ):
        with pytest.raises(ValueError):
            bad()
    with pytest.raises(TypeError, match="integer type"):
        jnp.take_along_axis(jnp.ones((2, 2)), jnp.zeros((2, 1), bool), 1)


def test_integer_arguments_of_jacrev_and_leaves_that_are_no_arrays():
    of_int, of_float = fgrad.jacrev(lambda n, x: n * x, argnums=(0, 1), allow_int=True)(jnp.arange(2), jnp.ones(2))
    np.testing.assert_array_equal(of_int, np.zeros((2, 2), np.int32))
    np.testing.assert_array_equal(of_float, np.diag([0.0, 1.0]))
    got = fgrad.device_get({"a": jnp.ones(2), "b": "name", "c": 3})
    assert type(got["a"]) is np.ndarray and (got["b"], got["c"]) == ("name", 3)
    counts = fgrad.random.multinomial(fgrad.random.key(0), 5, jnp.array([0.2, 0.8]), dtype=np.int32, unroll=2)
    assert counts.dtype == np.int32 and int(counts.sum()) == 5
