"""Argument forms, error types and corner values that programs written against JAX rely on."""

import warnings

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax

X = np.arange(12.0, dtype=np.float32).reshape(4, 3)
EACH = [lambda f: f, fgrad.jit]


@pytest.mark.parametrize("through", EACH)
def test_static_integers_outside_an_axis_are_moved_inside(through):
    for index, want in [((9,), X[3]), ((-9,), X[0]), ((slice(None), 7), X[:, 2]), ((7, None, -7), X[3, 0:1])]:
        np.testing.assert_array_equal(through(lambda x, i=index: x[i])(jnp.array(X)), want)
    with pytest.raises(IndexError, match="axis 0 with size 0"):
        through(lambda x: x[0])(jnp.ones((0, 2)))
    np.testing.assert_array_equal(fgrad.vmap(lambda x: x[5])(jnp.array(X)), X[:, 2])


def test_an_index_outside_reads_the_last_element_without_a_gradient():
    rows = jnp.array([1, 9])
    want = np.zeros_like(X)
    want[1] = 1
    for read in (lambda x: x[rows], lambda x: x.at[rows].get(), lambda x: x.at[rows].get(mode="promise_in_bounds")):
        np.testing.assert_array_equal(read(jnp.array(X)), X[[1, 3]])
        np.testing.assert_array_equal(fgrad.grad(lambda x, f=read: f(x).sum())(jnp.array(X)), want)
    want[3] = 1
    np.testing.assert_array_equal(fgrad.grad(lambda x: x.at[rows].get(mode="clip").sum())(jnp.array(X)), want)
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    read = lambda x: lax.gather(x, jnp.array([[1], [9]]), numbers, (1,)).sum()
    np.testing.assert_array_equal(fgrad.grad(read)(jnp.ones(4)), [0, 1, 0, 0])


def test_updates_outside_are_dropped_unless_clipped():
    x = jnp.arange(3)
    for at in (5, jnp.array([5]), (jnp.array([5]),)):
        np.testing.assert_array_equal(x.at[at].set(9, mode="promise_in_bounds"), x)
        np.testing.assert_array_equal(x.at[at].set(9, mode="clip"), [0, 1, 9])
    at, numbers = jnp.array([[5]]), lax.ScatterDimensionNumbers((), (0,), (0,))
    np.testing.assert_array_equal(lax.scatter(x, at, jnp.array([9]), numbers, mode="promise_in_bounds"), x)


def test_updates_keep_the_arrays_type():
    half = jnp.arange(3).at[1].divide(2)
    np.testing.assert_array_equal(half, np.array([0, 0.5, 2]))
    assert half.dtype == np.float32
    assert jnp.asarray(3).at[()].set(4).weak_type and not jnp.asarray(np.int32(3)).at[()].set(4).weak_type


K = jnp.int32(2)
SINGLE = [(1, 2), (1,), (-1, -1), (7, 2), (slice(None), 2), (..., 1), (jnp.array([1]),), (K,), (K, K), (jnp.array([1, 1]),)]


@pytest.mark.parametrize("at", SINGLE, ids=str)
def test_divided_elements(at):
    x = jnp.arange(1.0, 13).reshape(3, 4)
    ones = jnp.ones_like(x).at[at].multiply(3)
    np.testing.assert_array_equal(x.at[at].divide(3), x / ones)
    np.testing.assert_allclose(fgrad.jit(lambda x: x.at[at].divide(3))(x), x / ones, rtol=1e-6)
    np.testing.assert_allclose(fgrad.grad(lambda x: (x.at[at].divide(3) ** 2).sum())(x), 2 * x / ones**2, rtol=1e-6)


def test_dividing_single_elements_divides_no_others():
    x = jnp.arange(1.0, 13).reshape(3, 4)
    divided = fgrad.make_jaxpr(lambda x, k: x.at[k, k].divide(x[0, 0]))(x, K)
    assert [e.outvars[0].aval.shape for e in divided.eqns if e.primitive.name == "div"] == [()]
    gradient = fgrad.grad(lambda v, x: x.at[jnp.array([5])].divide(v, mode="drop").sum())(3.0, x)
    np.testing.assert_array_equal(gradient, 0)


def test_repeat_pads_with_the_last_element_and_its_gradient():
    repeat = lambda x: jnp.repeat(x, np.array([1, 2]), total_repeat_length=5)
    np.testing.assert_array_equal(repeat(jnp.array([3.0, 4.0])), [3, 4, 4, 4, 4])
    np.testing.assert_array_equal(fgrad.grad(lambda x: repeat(x).sum())(jnp.ones(2)), [1, 4])


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ValueError, lambda: jnp.array(None)),
        (NotImplementedError, lambda: jnp.array(np.ones(2), order="F")),
        (TypeError, lambda: jnp.asarray(b"abc")),
        (ZeroDivisionError, lambda: jnp.arange(0, 5, 0)),
        (ValueError, lambda: jnp.arange(2j)),
        (TypeError, lambda: jnp.arange(2, dtype=bool)),
        (TypeError, lambda: jnp.linspace([0, 1], [2, 3], 3)),
        (TypeError, lambda: jnp.full(3, [1, 2, 3])),
        (TypeError, lambda: jnp.ix_([0, 1], [2])),
        (ValueError, lambda: jnp.round(jnp.array([True]))),
        (TypeError, lambda: jnp.array([1, 2]) == [1, 2]),
        (TypeError, lambda: jnp.array([1, 2]) != (1, 2)),
        (ValueError, lambda: jnp.result_type()),
        (ValueError, lambda: jnp.nonzero(jnp.array(3))),
        (ValueError, lambda: jnp.nonzero(jnp.eye(2), size=3, fill_value=[7])),
        (NotImplementedError, lambda: jnp.take(jnp.arange(3), 0, mode="raise")),
        (ValueError, lambda: jnp.take(jnp.arange(3), 1.5)),
        (ValueError, lambda: jnp.frombuffer(b"\0" * 4)),
        (TypeError, lambda: lax.gather(jnp.arange(5), jnp.array([[1]]), None, (1,))),
    ],
)
def test_refused(error, call):
    with pytest.raises(error):
        call()


def test_dtypes_and_weak_types_of_corner_forms():
    assert jnp.array([np.float16(1), 1]).dtype == np.float16
    assert jnp.round(1234.5, decimals=-2).weak_type and not jnp.rint(3).weak_type
    assert not jnp.choose(jnp.array([0, 1]), [1, 2], mode="clip").weak_type
    assert jnp.isdtype("float32", np.float32) and not jnp.isdtype("float32", np.float64)
    assert jnp.isscalar("text") and not jnp.isscalar([1])
    np.testing.assert_array_equal(jnp.frombuffer(np.arange(3.0).tobytes()), [0, 1, 2])
    assert np.isnan(jnp.linspace(0, 1, 1, retstep=True)[1])
    x = jnp.array([True, False])
    np.testing.assert_array_equal(lax.bitcast_convert_type(x, bool), x)


def test_lax_forms_of_complex_numbers_and_booleans():
    np.testing.assert_array_equal(lax.conj(jnp.ones(2)), np.ones(2, np.complex64))
    assert lax.conj(jnp.ones(2)).dtype == np.complex64 and jnp.conj(jnp.ones(2)).dtype == np.float32
    np.testing.assert_array_equal(lax.complex(jnp.ones((2, 3)), jnp.ones((1, 3))), np.full((2, 3), 1 + 1j))
    np.testing.assert_array_equal(lax.clamp(False, jnp.array([True, False]), True), [True, False])
    z = np.array([1j, 2, 1 - 1j, 2 + 3j, 0.5], np.complex64)
    np.testing.assert_array_equal(lax.cummax(jnp.array(z)), [1j, 2, 2, 2 + 3j, 2 + 3j])
    np.testing.assert_array_equal(lax.cummin(jnp.array(z), reverse=True), [1j, 0.5, 0.5, 0.5, 0.5])
    np.testing.assert_allclose(lax.cumlogsumexp(jnp.array(z)), np.log(np.cumsum(np.exp(z))), rtol=1e-5, atol=1e-6)
    x = jnp.array([[True, False], [False, False]])
    np.testing.assert_array_equal(jnp.einsum("ij->i", x), [True, False])
    assert bool(jnp.einsum("ii", x))


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16])
def test_triangular_solve_of_16_bits(dtype):
    a, b = jnp.array([[2, 0], [1, 4]], dtype), jnp.array([[1], [3]], dtype)
    out = lax.linalg.triangular_solve(a, b, left_side=True, lower=True)
    assert out.dtype == dtype
    np.testing.assert_array_equal(np.asarray(out, np.float32), [[0.5], [0.625]])


@pytest.mark.parametrize(("size", "k", "found"), [(10, 3, 10), (1025, 1, 1024), (1025, 3, 1025), (3000, 3, 2048)])
def test_candidates_of_approx_max_k(size, k, found):
    x = np.random.default_rng(0).permutation(size).astype(np.float32)
    values, at = lax.approx_max_k(jnp.array(x), k, aggregate_to_topk=False)
    np.testing.assert_array_equal(values, np.sort(x)[::-1][:found])
    np.testing.assert_array_equal(x[at], values)
    np.testing.assert_array_equal(lax.approx_min_k(jnp.array(x), k, aggregate_to_topk=False)[0], np.sort(x)[:found])


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ValueError, lambda: lax.broadcast_in_dim(jnp.ones((2, 3)), (2, 3), (1, 1))),
        (ValueError, lambda: lax.expand_dims(jnp.ones(3), (0, 0))),
        (TypeError, lambda: lax.select_n(jnp.array([0.0, 2]), jnp.ones(2), jnp.ones(2))),
        (NotImplementedError, lambda: jnp.ravel(jnp.ones(3), order="K")),
        (ValueError, lambda: jnp.rot90(jnp.ones((2, 2)), axes=(0, 0))),
        (TypeError, lambda: jnp.repeat(jnp.arange(3), -1)),
        (TypeError, lambda: jnp.sort(jnp.ones(2), order="a")),
        (ValueError, lambda: lax.pad(jnp.ones(2), 0.0, [(0, 0)])),
        (IndexError, lambda: jnp.ones(2)[object()]),
        (fgrad.errors.ConcretizationTypeError, lambda: fgrad.jit(lambda n: jnp.linspace(0, 1, n))(3)),
    ],
)
def test_refused_by_lax_and_movement(error, call):
    with pytest.raises(error):
        call()


def test_sizes_and_equality():
    x = jnp.ones((2, 3))
    assert jnp.size(x, axis=(0, 1)) == 6 and jnp.size(x, axis=-1) == 3
    assert jnp.array_equal(jnp.arange(3), [0, 1, 2]) and jnp.array_equiv([1, 1], jnp.ones((2, 2))) and not jnp.array_equal([1], [1, 2])


def test_integer_outputs_have_zero_columns_and_no_data_as_tangents():
    jac = fgrad.jacfwd(lambda x: (x.astype(int), 2 * x))(jnp.ones(2))
    assert jac[0].dtype == np.int32 and not jac[0].any() and jac[1].sum() == 4
    assert jnp.zeros((2,), fgrad.dtypes.float0).shape == (2,)


def test_forms_of_distributions():
    import inspect

    from fgrad.scipy import special, stats

    assert list(inspect.signature(stats.norm.pdf).parameters) == ["x", "loc", "scale"]
    assert list(inspect.signature(stats.chi2.logsf).parameters) == ["x", "df", "loc", "scale"]
    np.testing.assert_allclose(stats.logistic.ppf(x=0.3), -stats.logistic.isf(x=0.3), rtol=1e-5)
    z = jnp.array([0.5 + 0.1j, -2j, 3.0])
    np.testing.assert_allclose(special.logit(z), np.log(np.array(z) / (1 - np.array(z))), rtol=1e-5, atol=1e-6)
    assert special.logit(0.5).weak_type and special.logit(jnp.float32(0.25)).dtype == np.float32
    with fgrad.enable_x64():
        assert stats.mode(jnp.array([1, 1, 2])).count.dtype == np.int64
    assert stats.mode(jnp.array([1, 1, 2])).count.dtype == np.int32


def test_booleans_are_positions_and_numbers_of_repetitions():
    x = jnp.array([3.0, 4.0, 5.0])
    for mask in (np.array([True, False]), jnp.array([True, False])):
        np.testing.assert_array_equal(jnp.take(x, mask), [4, 3])
    np.testing.assert_array_equal(jnp.repeat(x, np.array([True, False, True])), [3, 5])
    np.testing.assert_array_equal(jnp.unravel_index(np.array([True, False]), (2, 2)), [[0, 0], [1, 0]])


@pytest.mark.parametrize("through", EACH)
def test_updates_have_no_more_axes_than_what_they_replace(through):
    for index, values in ((0, (1,)), (slice(0, 2), (1, 2)), (jnp.array([0, 1]), (1, 1)), (np.array([True, False, True]), (1, 1))):
        with pytest.raises(ValueError, match="Incompatible shapes"):
            through(lambda v, i=index: jnp.zeros(3).at[i].set(v))(jnp.ones(values))


@pytest.mark.parametrize("through", EACH)
def test_updates_that_a_cast_would_change_are_warned_of(through):
    update = lambda dtype, values, kind="set": through(lambda x: getattr(x.at[0], kind)(values))(jnp.zeros((3, 2), dtype))
    for dtype, values, kind in (
        ("int32", 1.5, "set"), ("float16", jnp.float32(1), "add"), ("float32", 1j, "set"), ("bool", 1, "set"), ("int8", [1.0, 2.0], "max"),
        ("float32", np.complex64(1), "min"), ("uint8", jnp.arange(2), "multiply"), ("int32", 1.5, "power"),
    ):  # fmt: skip
        with pytest.warns(FutureWarning, match="scatter inputs have incompatible types"):
            assert update(dtype, values, kind).dtype == dtype
    for dtype, values in (
        ("int8", 300),
        ("float16", 1.5),
        ("float32", jnp.float16(1)),
        ("complex64", 1.5),
        ("float32", [1, 2]),
        ("bool", True),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            update(dtype, values)


def test_an_array_of_no_axes_is_divided_in_place():
    np.testing.assert_array_equal(jnp.float32(3).at[()].divide(2.0), 1.5)


def test_spacing_is_constant():
    assert jnp.spacing(jnp.float32(3)) == np.spacing(np.float32(3)) and fgrad.grad(jnp.spacing)(3.0) == 0


def test_what_the_array_api_asks_of_a_namespace():
    x, info = jnp.ones(3), jnp.__array_namespace_info__()
    assert x.__array_namespace__() is jnp is x.__array_namespace__(api_version=jnp.__array_api_version__)
    with pytest.raises(ValueError, match="1999.12"):
        x.__array_namespace__(api_version="1999.12")
    assert info.devices() == [None, *fgrad.devices()] and info.default_device() is None
    assert info.capabilities()["data-dependent shapes"] is False
    assert info.default_dtypes() == {"real floating": "float32", "complex floating": "complex64", "integral": "int32", "indexing": "int32"}
    assert list(info.dtypes(kind="real floating")) == ["float32"] and info.dtypes(kind="bool") == {"bool": np.dtype(bool)}
    assert info.dtypes(kind=("bool", "unsigned integer")).keys() == {"bool", "uint8", "uint16", "uint32"}
    with pytest.raises(KeyError):
        info.dtypes(kind="strings")
    with fgrad.enable_x64():
        assert {"int64", "uint64", "float64", "complex128"} <= info.dtypes().keys() and info.default_dtypes()[
            "complex floating"
        ] == "complex128"


@pytest.mark.parametrize("through", EACH)
def test_broadcast_dimensions_in_any_order(through):
    spread = through(lambda x: lax.broadcast_in_dim(x, (3, 2, 4), (2, 0)))
    np.testing.assert_array_equal(spread(X), np.broadcast_to(X.T[:, None], (3, 2, 4)))
    np.testing.assert_array_equal(fgrad.grad(lambda x: (spread(x) ** 2).sum())(jnp.array(X)), 4 * X)
    np.testing.assert_array_equal(fgrad.vmap(spread)(jnp.stack([X, -X]))[1], -np.broadcast_to(X.T[:, None], (3, 2, 4)))


def test_piecewise_takes_one_condition_for_the_whole_array():
    x = jnp.arange(-4, 5)
    functions = [lambda v: v * 0, lambda v: v * 10, lambda v: v * 100]
    np.testing.assert_array_equal(jnp.piecewise(x, jnp.array([False, True, False]), functions), np.arange(-4, 5) * 10)
    np.testing.assert_array_equal(jnp.piecewise(x, x < 0, functions[1:]), np.where(np.arange(-4, 5) < 0, 10, 100) * np.arange(-4, 5))
    with pytest.raises(ValueError, match="shapes"):
        jnp.piecewise(x, jnp.array([False, True, False]), functions[:1])


def test_polyadd_adds_to_the_last_rows():
    two = jnp.array([[5, 7, 9], [8, 6, 4]])
    np.testing.assert_array_equal(jnp.polyadd(two, jnp.array([2])), [[5, 7, 9], [10, 8, 6]])
    with pytest.raises(ValueError, match="shape"):
        jnp.polyadd(jnp.array([1, 3, 5]), two)


def test_windows_by_ds():
    x, y, i = jnp.arange(10), jnp.arange(30).reshape(5, 6), jnp.array(8)
    at = lambda start, size: slice(start, start + size)
    for through in EACH:
        read = through(lambda i, x: x[fgrad.ds(i, 2)])
        for start, first in [(4, 4), (8, 8), (9, 8), (-2, 8), (-12, 0)]:  # moved inside
            np.testing.assert_array_equal(read(start, x), np.arange(10)[at(first, 2)])
            want = np.arange(10)
            if start in (4, 8):  # dropped elsewhere
                want[at(start, 2)] += [7, 9]
            np.testing.assert_array_equal(through(lambda i, x: x.at[fgrad.ds(i, 2)].add(jnp.array([7, 9])))(start, x), want)
    np.testing.assert_array_equal(x[fgrad.ds(1, 3, 2)], [1, 3, 5])
    np.testing.assert_array_equal(x[fgrad.ds(3)], [0, 1, 2])
    assert x[fgrad.ds(2, 0)].shape == (0,) and fgrad.ds(None) == slice(None)
    np.testing.assert_array_equal(x.at[fgrad.ds(i, 4)].get(mode="fill", fill_value=-1), [-1] * 4)
    np.testing.assert_array_equal(y[jnp.array([0, 2]), fgrad.ds(1, 2)], [[1, 2], [13, 14]])
    np.testing.assert_array_equal(y[None, fgrad.ds(1, 2), ..., ::2], [[[6, 8, 10], [12, 14, 16]]])
    np.testing.assert_array_equal(y.at[fgrad.ds(1, 2), jnp.array([0, 2])].power(2)[1:3, :3], [[36, 7, 64], [144, 13, 196]])
    np.testing.assert_array_equal(fgrad.vmap(lambda i: x[fgrad.ds(i, 3)])(jnp.array([0, 9])), [[0, 1, 2], [7, 8, 9]])
    np.testing.assert_array_equal(fgrad.grad(lambda x: (x[fgrad.ds(i, 2)] ** 2).sum())(x * 1.0), [0] * 8 + [16, 18])
    np.testing.assert_array_equal(fgrad.jit(lambda x, d: x[d])(x, fgrad.ds(jnp.array(2), 3)), [2, 3, 4])
    for error, index in [(TypeError, fgrad.ds(1, 12)), (TypeError, fgrad.ds(1.5, 2)), (IndexError, (0, fgrad.ds(1, 2)))]:
        with pytest.raises(error):
            x[index]
    with pytest.raises(ValueError, match="stride"):
        fgrad.ds(1, 2, -1)
