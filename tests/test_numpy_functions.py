"""fgrad.numpy beyond single values: derivatives, vmap, sizes under jit, updates, ufuncs, padding, sharing, errors."""

import io
import itertools

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import errors, lax
from tests.derivatives import check_derivatives, check_vmap

R = np.random.default_rng(3)
A, B = R.normal(size=(3, 4)), R.normal(size=(3, 4))
V, W = R.normal(size=6), R.normal(size=3)
NAN = A.copy()
NAN[1, 2] = np.nan
XP = np.array([-3.0, -1.0, 0.2, 4.0])

DERIVATIVES = {
    "quantile": (lambda x: jnp.quantile(x, 0.3, axis=1), A),
    "median": (lambda x: jnp.median(x), A),
    "nanmean": (lambda x: jnp.nanmean(jnp.where(jnp.isnan(NAN), jnp.nan, x), axis=0), A),
    "nanvar": (lambda x: jnp.nanvar(jnp.where(jnp.isnan(NAN), jnp.nan, x), axis=1), A),
    "var where": (lambda x: jnp.var(x, axis=1, where=B > -1), A),
    "average": (lambda x, w: jnp.average(x, 1, w**2), A, B),
    "cumprod": (lambda x: jnp.cumprod(x, 1), A),
    "interp": (lambda x, fp: jnp.interp(x, XP, fp), V, R.normal(size=4)),
    "trapezoid": (lambda y, x: jnp.trapezoid(y, x), A, np.cumsum(B**2, 1)),
    "gradient": (lambda y, x: jnp.gradient(y, x, axis=1), A, np.cumsum(B[0] ** 2)),
    "convolve": (jnp.convolve, V, W),
    "correlate": (lambda a, v: jnp.correlate(a, v, "full"), W, V),
    "polyval": (jnp.polyval, W, V),
    "polydiv": (lambda u, v: jnp.polydiv(u, v), V, W + 3),
    "poly": (jnp.poly, W),
    "polyint": (lambda p: jnp.polyint(p, 2), V),
    "cov": (jnp.cov, A),
    "corrcoef": (jnp.corrcoef, A),
    "cross": (jnp.cross, A[:, :3], B[:, :3]),
    "kron": (jnp.kron, A, B[:2]),
    "vecdot": (jnp.vecdot, A, B),
    "pad reflect odd": (lambda x: jnp.pad(x, (3, 8), "reflect", reflect_type="odd"), V),
    "pad linear_ramp": (lambda x: jnp.pad(x, 2, "linear_ramp"), A),
    "pad mean": (lambda x: jnp.pad(x, 2, "mean", stat_length=2), A),
    "insert": (lambda x, v: jnp.insert(x, np.array([1, 3, 1]), v), V, W),
    "delete": (lambda x: jnp.delete(x, 2), V),
    "put_along_axis": (lambda x, v: jnp.put_along_axis(x, np.array([[1], [0], [3]]), v, 1, inplace=False), A, B[:, :1]),
    "fill_diagonal": (lambda x, v: jnp.fill_diagonal(x, v, inplace=False), A, W),
    "place": (lambda x, v: jnp.place(x, A > 0, v, inplace=False), A, W),
    "repeat": (lambda x: jnp.repeat(x, np.array([2, 0, 1, 3, 1, 1]), total_repeat_length=10), V),
    "sinc": (jnp.sinc, np.array([0.0, 0.01, 0.3, -1.4, 2.0])),
    "i0": (jnp.i0, np.array([0.0, 0.4, -2.0, 9.0, 21.0])),
    "frexp": (lambda x: jnp.frexp(x)[0], V),
    "ldexp": (lambda x: jnp.ldexp(x, np.arange(-2, 4)), V),
    "unwrap": (lambda x: jnp.unwrap(x * 5), V),
    "nan_to_num": (lambda x: jnp.nan_to_num(x) ** 2, A),
    "select": (lambda x, y: jnp.select([A > 0, B > 0], [x, y], x * y), A, B),
    "choose": (lambda x, y: jnp.choose(np.array([0, 1, 1, 0]), [x, y]), A, B),
    "piecewise": (lambda x: jnp.piecewise(x, [A > 0], [lambda v: v**2, lambda v: -v]), A),
    "histogram weights": (lambda w: jnp.histogram(np.linspace(0, 1, 6), 3, weights=w)[0], V),
    "bincount weights": (lambda w: jnp.bincount(np.array([0, 2, 1, 2, 7, -3]), w, length=4), V),
    "geomspace": (lambda a, b: jnp.geomspace(a, b, 5), np.array(1.5), np.array(7.0)),
    "norm": (jnp.linalg.norm, A),
    "norm 3": (lambda x: jnp.linalg.vector_norm(x, ord=3, axis=1), A),
    "matrix_power": (lambda x: jnp.linalg.matrix_power(x, 5), A[:, :3]),
    "multi_dot": (lambda a, b, c: jnp.linalg.multi_dot([a, b, c]), A, B.T, W),
    "at apply": (lambda x: jnp.asarray(x).at[np.array([0, 1, 1])].apply(jnp.sin), A),
    "at power": (lambda x, p: jnp.asarray(x).at[np.array([0, 2])].power(p), np.abs(A) + 0.5, np.array(1.7)),
    "at divide": (lambda x, p: jnp.asarray(x).at[1].divide(p), A, B[0] ** 2 + 1),
    "vectorize": (jnp.vectorize(lambda m, v: m @ v, signature="(n,m),(m)->(n)"), R.normal(size=(2, 3, 4)), R.normal(size=(5, 1, 4))),
    "apply_along_axis": (lambda x: jnp.apply_along_axis(lambda v: v / v.sum(), 0, x), np.abs(A)),
    "ufunc reduce": (lambda x: jnp.logaddexp.reduce(x, axis=1), A),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name):
    fun, *xs = DERIVATIVES[name]
    with fgrad.enable_x64():
        check_derivatives(fun, *xs, order=1, eps=1e-6, tol=2e-6, label=name)


BATCHED = {
    "quantile": lambda x: jnp.quantile(x, jnp.abs(jnp.sin(x[0])), axis=0),
    "nanmedian": lambda x: jnp.nanmedian(jnp.where(x > 1, jnp.nan, x)),
    "unique": lambda x: jnp.unique(jnp.round(x), size=4, return_counts=True, return_inverse=True)[0],
    "nonzero": lambda x: jnp.nonzero(x > 0, size=3, fill_value=-1),
    "intersect1d": lambda x: jnp.intersect1d(jnp.round(x), jnp.arange(-2, 3), size=3),
    "histogram": lambda x: jnp.histogram(x, 3),
    "interp": lambda x: jnp.interp(x, XP, x),
    "convolve": lambda x: jnp.convolve(x, x[:2]),
    "searchsorted": lambda x: jnp.searchsorted(jnp.sort(x), x),
    "isin": lambda x: jnp.isin(jnp.round(x), jnp.array([1.0, 0.0])),
    "pad": lambda x: jnp.pad(x, 2, "median"),
    "insert": lambda x: jnp.insert(x, jnp.argmax(x)[None], 7.0),
    "place": lambda x: jnp.place(x, x > 0, jnp.arange(3.0), inplace=False),
    "roll": lambda x: jnp.roll(x, jnp.argmin(x)),
    "corrcoef": lambda x: jnp.corrcoef(x, x[::-1]),
    "packbits": lambda x: jnp.packbits(x > 0),
    "frexp": jnp.frexp,
    "polyval": lambda x: jnp.polyval(x, x),
    "piecewise": lambda x: jnp.piecewise(x, [x > 0], [lambda v: v**2, 1.0]),
    "at": lambda x: jnp.asarray(x).at[jnp.argmax(x)].apply(jnp.exp),
}


@pytest.mark.parametrize("name", BATCHED)
def test_vmap_and_jit(name):
    fun = BATCHED[name]
    xs = A.astype(np.float32)
    flat = lambda x: tuple(v if v.dtype != bool else v.astype(int) for v in fgrad.tree.leaves(fun(x)))
    check_vmap(flat, xs, in_axes=(0,), rtol=1e-5)
    for got, want in zip(fgrad.jit(flat)(jnp.asarray(xs[0])), flat(jnp.asarray(xs[0]))):
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-5)


D, E = np.array([3, 1, 3, 2, 2, 9], np.int32), np.array([2, 5, 3], np.int32)
SIZED = [
    (lambda d: jnp.unique(d, size=3), [1, 2, 3]),
    (lambda d: jnp.unique(d, size=6), [1, 2, 3, 9, 1, 1]),
    (lambda d: jnp.unique(d, size=5, fill_value=-1), [1, 2, 3, 9, -1]),
    (lambda d: jnp.unique(d, size=5, return_counts=True)[1], [1, 2, 2, 1, 0]),
    (lambda d: jnp.unique(d, size=4, return_index=True)[1], [1, 3, 0, 5]),
    (lambda d: jnp.union1d(d, E, size=6), [1, 2, 3, 5, 9, 1]),
    (lambda d: jnp.intersect1d(d, E, size=4), [2, 3, 2, 2]),
    (lambda d: jnp.intersect1d(d, E, size=3, fill_value=0, return_indices=True)[1], [3, 0, 6]),
    (lambda d: jnp.intersect1d(d, E, size=3, return_indices=True)[2], [0, 2, 3]),
    (lambda d: jnp.setdiff1d(d, E, size=3), [1, 9, 0]),
    (lambda d: jnp.setxor1d(d, E, size=4, fill_value=-1), [1, 5, 9, -1]),
    (lambda d: jnp.nonzero(d > 2, size=4, fill_value=7)[0], [0, 2, 5, 7]),
    (lambda d: jnp.where(d > 2, size=2)[0], [0, 2]),
    (lambda d: jnp.argwhere(d > 8, size=2, fill_value=-1)[:, 0], [5, -1]),
    (lambda d: jnp.bincount(d, length=4), [0, 1, 2, 2]),
    (lambda d: jnp.extract(d > 2, d, size=4, fill_value=-5), [3, 3, 9, -5]),
    (lambda d: jnp.repeat(d, d % 3, total_repeat_length=5), [1, 2, 2, 2, 2]),
    (lambda d: jnp.repeat(d, d % 3, total_repeat_length=3), [1, 2, 2]),
    (lambda d: jnp.delete(d, d[:1] - 3, assume_unique_indices=True), [1, 3, 2, 2, 9]),
]


@pytest.mark.parametrize("i", range(len(SIZED)))
def test_sizes_under_jit(i):
    fun, want = SIZED[i]
    np.testing.assert_array_equal(fun(jnp.asarray(D)), want)
    np.testing.assert_array_equal(fgrad.jit(fun)(jnp.asarray(D)), want)


def test_sizes_are_asked_for_under_jit():
    calls = [
        jnp.unique,
        jnp.nonzero,
        jnp.argwhere,
        jnp.bincount,
        lambda x: jnp.union1d(x, x),
        lambda x: jnp.setdiff1d(x, x),
        jnp.trim_zeros,
    ]
    for f in calls:
        with pytest.raises(errors.ConcretizationTypeError):
            fgrad.jit(f)(jnp.asarray(D))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_empty_arrays(shape):
    x = jnp.zeros(shape)
    none = np.zeros(shape, np.float32)
    for name in "sort argsort cumsum ravel flip sum prod any all nonzero unique".split():
        got, want = getattr(jnp, name)(x), getattr(np, name)(none)
        for g, w in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, want))):
            assert g.shape == w.shape, name
    assert jnp.isin(x, jnp.ones(2)).shape == shape and jnp.where(x > 0, x, 1).shape == shape
    assert jnp.append(x, x).size == 0 and jnp.resize(x, (2, 2)).shape == (2, 2)
    assert jnp.searchsorted(jnp.ones(3), x).shape == shape and jnp.clip(x, 0, 1).shape == shape
    assert jnp.concatenate([x, x]).shape == (2 * shape[0], *shape[1:]) and jnp.packbits(x > 0).shape == (0,)
    assert jnp.unique(x, size=2, fill_value=5.0).tolist() == [5.0, 5.0]


def test_take_clips_negative_positions_to_the_first():
    x = jnp.arange(5.0)
    np.testing.assert_array_equal(jnp.take(x, jnp.array([-1, -9, 2, 9]), mode="clip"), [0, 0, 2, 4])
    np.testing.assert_array_equal(jnp.take(x, jnp.array([-1, -9, 2, 9]), mode="fill"), [4, np.nan, 2, np.nan])


def test_updates():
    x, at = jnp.arange(5.0), np.array([1, 1, 7])
    np.testing.assert_array_equal(x.at[at].apply(lambda v: v * 2), [0, 4, 2, 3, 4])
    np.testing.assert_array_equal(fgrad.jit(lambda x, at: x.at[at].apply(lambda v: v * 2))(x, at), [0, 4, 2, 3, 4])
    np.testing.assert_array_equal(x.at[np.array([3, 3])].power(2.0), [0, 1, 2, 81, 4])
    np.testing.assert_array_equal(x.at[7].set(1.0), x)
    np.testing.assert_array_equal(x.at[at].set(9.0, mode="clip"), [0, 9, 2, 3, 9])
    np.testing.assert_array_equal(x.at[np.array([-1])].set(9.0, wrap_negative_indices=False), x)
    assert float(x[7]) == 4 and np.isnan(x.at[7].get(mode="fill")) and float(x.at[7].get(mode="fill", fill_value=2)) == 2
    np.testing.assert_array_equal(fgrad.grad(lambda x: (x.at[at].multiply(3.0) ** 2).sum())(x), 2 * np.array([1, 81, 1, 1, 1]) * x)
    with pytest.raises(IndexError):
        jnp.zeros((0,))[0]


def test_jit_takes_captured_views():
    view = jnp.asarray(np.arange(12, dtype=np.float32).reshape(3, 4)[:, :3])
    np.testing.assert_array_equal(fgrad.jit(lambda x: x * view)(jnp.ones((3, 3))), np.asarray(view))


def test_ufuncs():
    a = A.astype(np.float32)
    for name in "add multiply maximum minimum logaddexp subtract".split():
        ours, theirs = getattr(jnp, name), getattr(np, name)
        assert isinstance(ours, jnp.ufunc)
        np.testing.assert_allclose(ours.reduce(a, axis=1), theirs.reduce(a, axis=1), rtol=1e-5)
        np.testing.assert_allclose(ours.accumulate(a, axis=1), theirs.accumulate(a, axis=1), rtol=1e-5)
        np.testing.assert_allclose(ours.outer(a[0], a[:, 0]), theirs.outer(a[0], a[:, 0]), rtol=1e-5)
        np.testing.assert_allclose(ours.reduceat(a[0], [0, 2, 1]), theirs.reduceat(a[0], [0, 2, 1]), rtol=1e-5)
    np.testing.assert_array_equal(jnp.add.at(jnp.zeros(3), np.array([0, 0]), 2.0, inplace=False), [4, 0, 0])
    np.testing.assert_allclose(jnp.logaddexp.at(jnp.zeros(2), np.array([0, 0]), 0.0, inplace=False), [np.log(3), 0], rtol=1e-6)
    gcd = jnp.frompyfunc(lambda x, y: x * 10 + y, 2, 1)
    np.testing.assert_array_equal(gcd(np.arange(3), 4), [4, 14, 24])
    np.testing.assert_array_equal(gcd.reduce(np.arange(1, 4)), 123)
    with pytest.raises(NotImplementedError):
        jnp.add(1, 2, where=True)


def test_vectorize():
    f = jnp.vectorize(lambda x, y: jnp.where(x > y, x, -y))
    np.testing.assert_allclose(f(A, B[0]), np.where(A > B[0], A, -B[0]), rtol=1e-6)
    g = jnp.vectorize(lambda a, k, b: a.sum() * b + k, excluded={1}, signature="(n),()->()")
    np.testing.assert_allclose(g(A, 2, B[:, 0]), A.sum(1) * B[:, 0] + 2, rtol=1e-5)
    h = jnp.vectorize(lambda a: (a.max(), a - 1), signature="(n)->(),(n)")
    assert [o.shape for o in h(np.ones((2, 1, 3)))] == [(2, 1), (2, 1, 3)]
    with pytest.raises(ValueError, match="inconsistent size"):
        jnp.vectorize(jnp.dot, signature="(n),(n)->()")(np.ones(2), np.ones(3))
    longer = jnp.vectorize(lambda v: jnp.append(v, v[:1]), signature="(2)->(3)")  # a number is a name, as NumPy and JAX have it
    assert longer(jnp.ones((4, 2))).shape == (4, 3) and longer(jnp.ones((4, 5))).shape == (4, 6)
    with pytest.raises(ValueError, match="signature"):
        jnp.vectorize(jnp.dot, signature="n,n->")


def test_grids():
    np.testing.assert_array_equal(jnp.mgrid[0:2, 1:7:2], np.mgrid[0:2, 1:7:2])
    for g, w in zip(jnp.ogrid[0:2, 0:1:3j], np.ogrid[0:2, 0:1:3j]):
        np.testing.assert_allclose(g, w)
    np.testing.assert_array_equal(jnp.r_[np.array([1, 2]), 0, 3:6], np.r_[np.array([1, 2]), 0, 3:6])
    np.testing.assert_array_equal(jnp.r_["0,2,0", [1, 2], [3, 4]], np.r_["0,2,0", [1, 2], [3, 4]])
    np.testing.assert_array_equal(jnp.c_[np.array([1, 2]), np.array([3, 4])], np.c_[np.array([1, 2]), np.array([3, 4])])


def test_sharing_and_files(tmp_path):
    x = np.arange(6, dtype=np.float32)
    a = fgrad.dlpack.from_dlpack(x)
    assert a.numpy_view().ctypes.data == x.ctypes.data == np.from_dlpack(a).ctypes.data
    assert jnp.from_dlpack(x, copy=True).numpy_view().ctypes.data != x.ctypes.data
    with pytest.raises(ValueError, match="float64"):
        jnp.from_dlpack(np.zeros(2), copy=False)
    with pytest.raises(TypeError, match="__dlpack__"):
        jnp.from_dlpack([1.0])
    for value in (a, a.astype(jnp.bfloat16), jnp.arange(3)):
        buffer = io.BytesIO()
        jnp.save(buffer, value)
        buffer.seek(0)
        back = jnp.load(buffer)
        assert back.dtype == value.dtype and bool((back == value).all())
    jnp.savez(tmp_path / "two.npz", a=a, b=jnp.ones(2))
    assert sorted(jnp.load(tmp_path / "two.npz")) == ["a", "b"]


def test_dtype_objects():
    assert jnp.int_(3).dtype == jnp.int32 and jnp.float_ == jnp.float32 and jnp.double(1).dtype == jnp.float32
    with fgrad.enable_x64():
        assert jnp.int_(3).dtype == jnp.int64 and jnp.float_ == jnp.float64
    assert jnp.isdtype(jnp.bfloat16, "real floating") and not jnp.isdtype(jnp.int8, ("bool", "unsigned integer"))
    assert jnp.can_cast(jnp.int8, jnp.int32) and not jnp.can_cast("float32", "int32")
    assert jnp.isscalar(jnp.float32(1)) and not jnp.isscalar(jnp.ones(1)) and jnp.iterable([1]) and not jnp.iterable(jnp.float32(1))


ERRORS = [
    (ValueError, "inplace", lambda: jnp.put(np.ones(3), 0, 1.0)),
    (ValueError, "one operand", lambda: jnp.einsum("ij")),
    (ValueError, "complex", lambda: jnp.arange(2j)),
    (ValueError, "unique", lambda: jnp.squeeze(np.ones((1, 2)), (0, -2))),
    (ValueError, "dtype", lambda: jnp.sum(np.ones(3), where=np.ones(3))),
    (ValueError, "identity", lambda: jnp.max(np.zeros((0,)))),
    (ValueError, "initial", lambda: jnp.max(np.ones(3), where=np.ones(3, bool))),
    (ValueError, "method", lambda: jnp.quantile(np.ones(3), 0.5, method="cubic")),
    (ValueError, "complex", lambda: jnp.quantile(np.ones(3, np.complex64), 0.5)),
    (NotImplementedError, "mode", lambda: jnp.pad(np.ones(3), 1, "spiral")),
    (ValueError, "negative", lambda: jnp.pad(np.ones(3), -1)),
    (ValueError, "stat_length", lambda: jnp.pad(np.ones(3), 1, "constant", stat_length=2)),
    (NotImplementedError, "out", lambda: jnp.sum(np.ones(3), out=np.ones(()))),
    (TypeError, "integer", lambda: jnp.bincount(np.ones(3))),
    (ValueError, "1-dimensional", lambda: jnp.convolve(np.ones((2, 2)), np.ones(2))),
    (ValueError, "Invalid order '3'", lambda: jnp.linalg.norm(np.ones((2, 2)), 3)),
    (TypeError, "square", lambda: jnp.linalg.matrix_power(np.ones((2, 3)), 2)),
    (TypeError, "list", lambda: jnp.median([1, 2])),
    (ValueError, "too small", lambda: jnp.gradient(np.ones(1))),
    (ValueError, "coordinates", lambda: jnp.ravel_multi_index((np.array([3]),), (2,))),
    (NotImplementedError, "side effect", lambda: jnp.fromiter(iter([1]), int)),
]


@pytest.mark.parametrize("i", range(len(ERRORS)))
def test_errors(i):
    kind, word, call = ERRORS[i]
    with pytest.raises(kind, match=word):
        call()


def test_put_clips_and_arange_counts_in_complex_numbers():
    assert jnp.put(jnp.zeros(3), jnp.array([0, 9, -5]), jnp.array([1.0, 2.0, 3.0]), inplace=False).tolist() == [3, 0, 2]
    assert jnp.arange(1, 3, 0.5, dtype=complex).tolist() == [1, 1.5, 2, 2.5]
    assert not hasattr(jnp.linalg, "matrix_norm_of")


def test_narrow_dtypes_and_strings_as_scalars():
    assert jnp.promote_types("int4", "int4") == "int4" and jnp.issubdtype("int4", jnp.signedinteger)
    assert not jnp.issubdtype("uint4", jnp.signedinteger) and jnp.issubdtype(jnp.float8_e5m2, jnp.floating)
    assert not jnp.issubdtype(jnp.float8_e5m2, np.float16) and jnp.issubdtype(jnp.bfloat16, jnp.bfloat16)
    for a, b in (("int4", "int8"), (jnp.float8_e4m3fn, jnp.float32), (jnp.float8_e4m3fn, jnp.float8_e5m2)):
        with pytest.raises(fgrad.errors.TypePromotionError, match="promotion path"):
            jnp.promote_types(a, b)
    assert jnp.float32("3.5") == 3.5 and jnp.int8("-3") == -3
    with pytest.raises(ValueError, match="could not convert"):
        jnp.float32("x")


def test_promote_types_of_dtypes_that_equal_python_types():
    """np.dtype("float64") == float, but only Python's float is weak."""
    with fgrad.enable_x64():
        assert jnp.promote_types(np.dtype("float64"), "float32") == np.float64
        assert jnp.promote_types(float, "float32") == np.float32
        assert jnp.promote_types(np.dtype("float64"), "complex64") == np.complex128
        assert jnp.promote_types(np.dtype("int64"), "int8") == jnp.promote_types("int8", "uint32") == np.int64


def test_promote_types_knows_64_bits_without_x64():
    assert jnp.promote_types("int8", "uint32") == jnp.promote_types("uint32", "int32") == "int32"
    for a, b, want in (("int8", "int64", "int64"), (bool, int, "int64"), ("uint64", "int8", "float64"), (int, "float16", "float16")):
        assert jnp.promote_types(a, b) == want == jnp.promote_types(b, a)


@pytest.mark.parametrize("density", [0.0, 0.001, 0.5, 1.0])
@pytest.mark.parametrize("shape", [(1,), (15,), (16,), (257,), (16384,), (16385,), (40000,), (300, 211)])
def test_nonzero_of_a_given_size(shape, density):
    """Chunks that begin and end anywhere; fewer positions than there are, as many, and more."""
    mask = np.random.default_rng(0).random(shape) < density
    want = np.nonzero(mask)
    for size in {0, 1, len(want[0]), len(want[0]) // 2, mask.size + 3}:
        padded = [np.append(w, [-1] * size)[:size] for w in want]
        for run in (fgrad.jit, lambda f: f):
            for got, expected in zip(run(lambda m, k=size: jnp.nonzero(m, size=k, fill_value=-1))(mask), padded):
                np.testing.assert_array_equal(got, expected)
        fill = (jnp.asarray(-1),) * mask.ndim  # an array is not part of a key
        for got, expected in zip(jnp.nonzero(jnp.asarray(mask), size=size, fill_value=fill), padded):
            np.testing.assert_array_equal(got, expected)
    if mask.ndim == 2:
        rows = fgrad.jit(fgrad.vmap(lambda m: jnp.flatnonzero(m, size=100, fill_value=-1)))(mask)
        for row, got in zip(mask, rows):
            np.testing.assert_array_equal(got, np.append(np.flatnonzero(row), [-1] * 100)[:100])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_nan_to_num_and_heaviside_at_their_corners(dtype):
    info = np.finfo(dtype)
    x = np.array([0, -0.0, 1, -1, np.nan, np.inf, -np.inf, info.max, info.min, info.tiny, -info.tiny] * 40, dtype)
    for options in ({}, {"nan": 2.0}, {"posinf": 7.0}, {"neginf": -5.0, "nan": np.nan}, {"posinf": np.inf, "neginf": -np.inf}):
        for run in (lambda f: f, fgrad.jit):
            got, want = np.asarray(run(lambda x, o=options: jnp.nan_to_num(x, **o))(x)), np.nan_to_num(x, **options)
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    y = np.roll(x, 1)
    np.testing.assert_array_equal(np.asarray(fgrad.jit(jnp.heaviside)(x, y)), np.heaviside(x, y))
    slope = fgrad.grad(lambda x: jnp.nan_to_num(x).sum())(jnp.asarray(x))
    np.testing.assert_array_equal(np.asarray(slope), np.isfinite(x).astype(dtype))


def test_einsum_plans_three_operands_and_ellipses_as_opt_einsum():
    """Without it: importing opt_einsum costs more than most programs take to compile."""
    import opt_einsum

    from fgrad.numpy.products import _order_of_three

    for spec in ("ij,jk,k->i", "ij,jk,kl->il", "bi,ij,bj->b", "a,b,c->abc", "bhq,bkh,kd->bqd", "abc,cd,bd->a"):
        ins, out = spec.split("->")
        for _ in range(20):
            sizes = dict(zip("abcdhijklq", R.integers(1, 9, 10).tolist()))
            shapes = [tuple(sizes[c] for c in t) for t in ins.split(",")]
            path = opt_einsum.contract_path(spec, *shapes, shapes=True)[0]
            assert _order_of_three(ins.split(","), out, shapes) == [tuple(p) for p in path], (spec, shapes)

    x, y, z = R.normal(size=(2, 3, 4)), R.normal(size=(5, 1, 4, 6)), R.normal(size=(6, 3))
    for spec, *ops in (
        ("...ij,...jk->...ik", x, y),
        ("...ij,...jk", x, y),
        ("b i j , k i", x, z),
        ("i...->...", x),
        ("...,...", x, x[0]),
        ("a...b,bi,...b->a...i", x, y[0, 0].repeat(1, 0), x[0]),
    ):
        np.testing.assert_allclose(jnp.einsum(spec, *[jnp.asarray(v) for v in ops]), np.einsum(spec, *ops), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError):
        jnp.einsum("ijkl...->i", x)


@pytest.mark.parametrize("dtype", ("int8", "uint8", "int16", "uint16"))
def test_narrow_integers_by_one_divisor(dtype):
    info = np.iinfo(dtype)
    x = np.arange(info.min, info.max + 1)
    divisors = x if x.size == 256 else [info.min, info.max, -1, 1, 2, 3, 7, 255, 256, 257, 1000, 32767]
    div, rem = fgrad.jit(lax.div), fgrad.jit(lax.rem)
    for y in divisors:
        if y < info.min or not y:
            continue
        quotient = np.abs(x) // abs(y) * np.sign(x) * np.sign(y)
        a, b = jnp.asarray(x.astype(dtype)), jnp.asarray(np.array(y, dtype))
        for divisor in (b, jnp.broadcast_to(b, a.shape) + 0):
            np.testing.assert_array_equal(div(a, divisor), quotient.astype(dtype), err_msg=str(y))
            np.testing.assert_array_equal(rem(a, divisor), (x - quotient * y).astype(dtype), err_msg=str(y))


@pytest.mark.parametrize("divisor", [1, -1, 2, 3, -5, 7, 641, 2**16, -(2**30) - 1, 2**31 - 1, -(2**31)])
def test_int32_by_one_divisor(divisor):
    """Alone, and among operations that are one loop with it."""
    rng = np.random.default_rng(0)
    ends = [-(2**31), -(2**31) + 1, -1, 0, 1, 2**31 - 1]
    x = np.concatenate([ends, rng.integers(-(2**31), 2**31, 1000), rng.integers(-9, 9, 37), np.arange(-20, 20) * divisor]).astype(np.int64)
    x = x[np.abs(x + 0.5) < 2**31]
    a = jnp.asarray(x.astype("int32"))
    with np.errstate(over="ignore"):
        quotient, floored = np.trunc(x / np.float64(divisor)).astype(np.int64), x // divisor
        for n in (5, 64, len(x)):
            np.testing.assert_array_equal(fgrad.jit(lax.div)(a[:n], jnp.int32(divisor)), quotient[:n].astype("int32"))
            np.testing.assert_array_equal(fgrad.jit(lax.rem)(a[:n], jnp.int32(divisor)), (x - quotient * divisor)[:n].astype("int32"))
            np.testing.assert_array_equal(fgrad.jit(lambda v: v // divisor * 3 + 1)(a[:n]), (floored * 3 + 1)[:n].astype("int32"))
            np.testing.assert_array_equal(fgrad.jit(lambda v: (v ^ 5) % divisor)(a[:n]), ((x ^ 5) % divisor)[:n].astype("int32"))


@pytest.mark.parametrize("n", [13, 32, 45, 1000])
def test_float32_to_bytes_saturates(n):
    edge = np.float32([np.nan, np.inf, -np.inf, 255, 256, 255.9, -1, -0.9, 0.9, 1e-45, 3e9, -3e38, 127.5])
    x = np.concatenate([edge, np.random.default_rng(0).uniform(-100, 400, n - len(edge)).astype(np.float32)])
    want = np.clip(np.nan_to_num(x, nan=0), 0, 255).astype(np.uint8)
    for f in (lambda v: v.astype("uint8"), fgrad.jit(lambda v: v.astype("uint8"))):
        np.testing.assert_array_equal(f(jnp.asarray(x)), want)


def test_einsum_without_sums_in_any_order_of_axes():
    """Each order of the result's axes: values, both derivatives, a second pair to follow, one element stretched, and letters that go."""
    rng = np.random.default_rng(0)
    sizes = dict(a=2, b=3, c=4, d=5)
    for ins in ("ab,cd", "abc,bd", "ab,ba", "abcd,db", "bca,ca", "a,b"):
        x, y = [rng.standard_normal([sizes[c] for c in t]).astype("float32") for t in ins.split(",")]
        for order in itertools.permutations(sorted(set(ins) - {","})):
            spec = f"{ins}->{''.join(order)}"
            want, at = np.einsum(spec, x, y), rng.standard_normal(())
            np.testing.assert_allclose(jnp.einsum(spec, x, y), want, rtol=1e-6, err_msg=spec)
            pull = fgrad.grad(lambda x, y, spec=spec, at=at: jnp.sum(jnp.einsum(spec, x, y) ** 2) * at, (0, 1))(x, y)
            for got, t, other, u in zip(pull, ins.split(","), (y, x), ins.split(",")[::-1]):
                back = np.einsum(f"{''.join(order)},{u}->{t}", want, other) * 2 * at
                np.testing.assert_allclose(got, back, rtol=1e-4, atol=1e-5, err_msg=spec)
    z = rng.standard_normal(4).astype("float32")
    x, y = rng.standard_normal((2, 3)).astype("float32"), rng.standard_normal((4, 1)).astype("float32")
    np.testing.assert_allclose(jnp.einsum("ab,ca,c->cba", x[:1], y, z), np.einsum("ab,ca,c->cba", x[:1], y, z), rtol=1e-5)
    np.testing.assert_allclose(jnp.einsum("ab,ca->bca", x, y), np.einsum("ab,ca->bca", x, y.repeat(2, 1)), rtol=1e-6)
    np.testing.assert_allclose(jnp.einsum("ab,cd,c->dab", x, y, z), np.einsum("ab,cd,c->dab", x, y, z), rtol=1e-4, atol=1e-5)
    assert jnp.einsum("ab,cd->dcba", x > 0, y > 0).dtype == bool


def test_einsum_takes_diagonals():
    rng = np.random.default_rng(0)
    for spec, shape in (
        ("ii->", (5, 5)),
        ("iji->j", (4, 3, 4)),
        ("ijij->ji", (3, 4, 3, 4)),
        ("iii->i", (3, 3, 3)),
        ("iiki->k", (3, 3, 2, 3)),
    ):
        x = rng.standard_normal(shape).astype("float32")
        np.testing.assert_allclose(jnp.einsum(spec, x), np.einsum(spec, x), rtol=1e-5, atol=1e-5)
    pull = fgrad.grad(lambda x: jnp.einsum("ii,ij->j", x, np.ones((3, 2), "float32")).sum())
    np.testing.assert_array_equal(pull(jnp.ones((3, 3))), 2 * np.eye(3))


def test_insert_and_delete_one():
    x = np.arange(60, dtype="float32").reshape(3, 4, 5)
    for axis in (None, 0, 1, -1):
        n = 60 if axis is None else x.shape[axis]
        for at in (0, 1, n - 1, -1, -n):
            np.testing.assert_array_equal(jnp.delete(x, at, axis), np.delete(x, at, axis))
            np.testing.assert_array_equal(fgrad.jit(lambda a, i: jnp.insert(a, i, 7.0, axis))(x, at), np.insert(x, at, 7.0, axis))  # noqa: B023


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_insert_and_delete_at_a_constant_are_copies(axis):
    """In a program, a position that is known makes parts that are joined; no element selects."""
    x = np.arange(60, dtype="float32").reshape(3, 4, 5)
    n = 60 if axis is None else x.shape[axis]
    for at in (0, 1, n - 1, -1, -n):
        assert "select" not in str(fgrad.make_jaxpr(lambda a: jnp.delete(a, at, axis))(x))  # noqa: B023
        np.testing.assert_array_equal(fgrad.jit(lambda a: jnp.delete(a, at, axis))(x), np.delete(x, at, axis))  # noqa: B023
        assert "select" not in str(fgrad.make_jaxpr(lambda a: jnp.insert(a, at, 7.0, axis))(x))  # noqa: B023
        for given in (at, [at], np.int64(at)):
            for values in (7.0, np.arange(2.0)) if axis is None else (7.0,):
                put = lambda a: jnp.insert(a, given, values, axis)  # noqa: B023, E731
                np.testing.assert_array_equal(fgrad.jit(put)(x), np.insert(x, given, values, axis))
    np.testing.assert_array_equal(
        fgrad.jit(lambda a: jnp.insert(a, n, a[..., 0, 0].sum(), axis))(x), np.insert(x, n, x[..., 0, 0].sum(), axis)
    )
    for at in ([1, 0], [n, 0, -1, 1], slice(0, 2), slice(None, None, -1)):
        plain = lambda a: jnp.insert(a, at, 7.0, axis)  # noqa: B023, E731
        assert "sort" not in str(fgrad.make_jaxpr(plain)(x))
        np.testing.assert_array_equal(fgrad.jit(plain)(x), np.insert(x, at, 7.0, axis))
        at = np.array(at) % n if isinstance(at, list) else at
        np.testing.assert_array_equal(fgrad.jit(lambda a: jnp.delete(a, at, axis))(x), np.delete(x, at, axis))  # noqa: B023
    slope = fgrad.grad(lambda a: (jnp.delete(jnp.insert(a, 1, a[0, 0, 0], axis), 0, axis) ** 2).sum())
    np.testing.assert_array_equal(fgrad.jit(slope)(x), slope(x))
    assert fgrad.jit(lambda a: jnp.delete(a, 0))(jnp.ones(1)).shape == (0,)
    assert fgrad.jit(lambda a: jnp.insert(a, 0, 3.0))(jnp.zeros(0)).tolist() == [3.0]
    many = np.arange(0, 60, 1 if axis is None else 60)[::-1]
    put = lambda a: jnp.insert(a, many, np.arange(float(many.size)) if axis is None else 7.0, axis)  # noqa: E731
    np.testing.assert_array_equal(fgrad.jit(put)(x), put(x))
    np.testing.assert_array_equal(fgrad.jit(lambda a: jnp.delete(a, np.arange(0, n, 2), axis))(x), np.delete(x, np.arange(0, n, 2), axis))


def test_ranges_of_whole_numbers_and_signs():
    same = np.testing.assert_array_equal
    with fgrad.enable_x64(True):
        for n in (22, 23, 39, 44, 1000):  # n * (k / n) may be just below k
            same(jnp.linspace(0, n, n + 1, dtype=int), np.arange(n + 1))
    same(jnp.linspace(-3.7, -1.2, 3, dtype=int), [-4, -3, -2])
    whole, step = jnp.linspace(0, 3, 5, retstep=True, dtype=int)
    assert whole.dtype == "int32" and float(step) == 0.75
    np.testing.assert_allclose(jnp.geomspace(-1, 1, 3, dtype=complex), [-1, 1j, 1], atol=1e-6)
    for dtype in ("float32", "float16", "bfloat16"):
        same(jnp.signbit(jnp.array([-1, -0.0, 0, np.nan, np.copysign(np.nan, -1)], dtype)), [True, True, False, False, True])
    same(jnp.hanning(np.float32(3)), [0, 1, 0])
    with pytest.raises(ValueError, match="number of parts"):
        jnp.split(jnp.ones(4), -1)
    slopes = fgrad.vmap(fgrad.grad(jnp.logaddexp, (0, 1)))(jnp.array([np.nan, 2, np.inf, np.inf]), jnp.array([1, 2, np.inf, 1]))
    same(slopes, [[np.nan, 0.5, 0.5, 1], [np.nan, 0.5, 0.5, 0]])


def test_unravel_index_of_a_number_is_weakly_typed():
    assert [i.weak_type for at in (5, np.int32(5), jnp.arange(3)) for i in jnp.unravel_index(at, (2, 3))] == [True] * 2 + [False] * 4


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint16", "int32", "uint32"])
def test_unravel_index_of_narrow_integers(dtype):
    at = np.array([0, 9, 39, 100, 127], dtype)
    for shape in ((5, 8), (50, 80), (2, 300)):  # sizes above and below the greatest number of the dtype
        want = np.unravel_index(np.minimum(at.astype(int), np.prod(shape) - 1), shape)
        got = jnp.unravel_index(at, shape)
        assert all(part.dtype == dtype for part in got)
        np.testing.assert_array_equal(np.stack(got), np.stack(want))
    if dtype[0] == "i":
        np.testing.assert_array_equal(np.stack(jnp.unravel_index(np.array([-3, -1], dtype), (3, 20))), [[2, 2], [17, 19]])


def test_numbers_give_arrays():
    for x in (2, 2.0, np.float32(2), np.ones(3)):
        for out in (jnp.power(x, 0), jnp.power(x, 1), fgrad.lax.integer_pow(x, 0), fgrad.lax.rev(x, ()), fgrad.lax.select_n(0, x)):
            assert isinstance(out, fgrad.Array) and out.aval.weak_type == isinstance(x, (int, float))
            assert out.dtype == jnp.asarray(x).dtype
    np.testing.assert_array_equal(fgrad.scipy.linalg.hadamard(np.int32(2)), [[1, 1], [1, -1]])


def test_searchsorted_outside_of_jit_is_what_it_is_inside():
    a, v = jnp.array([1.0, 2.0, 2.0, 5.0]), jnp.array([[2.0, 0.0], [5.5, 5.0]])
    for side in ("left", "right"):
        for x in (v, np.asarray(v), 2, 2.5):
            want = np.searchsorted(np.asarray(a), np.asarray(x), side)
            np.testing.assert_array_equal(jnp.searchsorted(a, x, side=side), want)
            np.testing.assert_array_equal(fgrad.jit(lambda a, x, side=side: jnp.searchsorted(a, x, side))(a, x), want)
            np.testing.assert_array_equal(jnp.searchsorted(a[::-1], x, side, jnp.arange(3, -1, -1)), want)
    with pytest.raises(ValueError, match="side must be"):
        jnp.searchsorted(a, v, "middle")


@pytest.mark.parametrize(
    "shift", [np.int64(2**33 + 1), np.int64(-(2**33) - 1), np.uint32(2**32 - 1), np.uint64(2**64 - 1), np.int8(-7), np.uint8(255)]
)
@pytest.mark.parametrize("n", [5, 300])
def test_traced_shifts_of_every_dtype(shift, n):
    x = np.arange(n)
    with fgrad.enable_x64(True):
        np.testing.assert_array_equal(fgrad.jit(jnp.roll)(x, shift), np.roll(x, int(shift)))


def test_roll_by_a_tuple_of_traced_shifts():
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    want = np.roll(x, (1, -1), (0, 1))
    np.testing.assert_array_equal(fgrad.jit(lambda x, c: jnp.roll(x, (c[0], c[1]), (0, 1)))(x, jnp.array([1, -1])), want)
    np.testing.assert_array_equal(fgrad.vmap(lambda c: jnp.roll(x, [c, -1], (0, 1)))(jnp.array([1, 2]))[0], want)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int8])
def test_updates_by_a_complex_number_take_its_real_part(dtype):
    for run in (lambda f: f, fgrad.jit):
        out = run(lambda x: x.at[0].add(2 + 1j))(jnp.ones(2, dtype))
        assert out.dtype == dtype and out.tolist() == [3, 1]


@pytest.mark.parametrize("array", [np.arange, jnp.arange])
def test_axes_as_an_array(array):
    assert jnp.moveaxis(jnp.ones((2, 3, 4)), (1, 2), array(2)).shape == (3, 4, 2)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint32, np.bool_], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize(
    "n, bins", [(0, 3), (8, 1), (7, 1), (2000, 250), (2000, 251), (20_000, 2), (20_000, 1024), (20_000, 1025), (70_000, 5)]
)
def test_scatters_into_few_bins(dtype, n, bins):
    """Updates of integers, which interleaved copies of the output take, some of them out of bounds."""
    rng = np.random.default_rng(n + bins)
    drawn = rng.integers(0, bins + 2, n).astype(np.int32)
    for at in (drawn, np.sort(drawn), drawn % np.int32(min(bins, 2))):
        x, start = rng.integers(0, 100, n).astype(dtype), rng.integers(0, 100, bins).astype(dtype)
        inside = at < bins
        for name, ufunc in (("add", np.add), ("multiply", np.multiply), ("min", np.minimum), ("max", np.maximum)):
            if dtype == np.bool_ and name in ("min", "max"):
                continue
            want = start.copy()
            ufunc.at(want, at[inside], x[inside])
            np.testing.assert_array_equal(getattr(jnp.asarray(start).at[at], name)(jnp.asarray(x), mode="drop"), want, err_msg=name)
