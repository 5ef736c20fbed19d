"""Eager calls beside operators: joined sequences, static arguments, NumPy scalars, indices."""

import sys
import warnings

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp


@pytest.mark.parametrize("join", ["concatenate", "stack", "vstack", "hstack", "dstack", "column_stack"])
def test_joining_concrete_arrays(join):
    ours, theirs = getattr(jnp, join), getattr(np, join)
    xs = [np.arange(6, dtype=np.float32).reshape(2, 3) + i for i in range(3)]
    for case in (xs, tuple(xs), xs[:1], [xs[0], xs[1].astype(np.int32)], xs * 30):
        arrays = type(case)(map(jnp.asarray, case))
        np.testing.assert_array_equal(ours(arrays), theirs(case))
        np.testing.assert_array_equal(ours([x.T for x in arrays]), theirs([x.T for x in case]))
        np.testing.assert_array_equal(ours(case), theirs(case))
    deep = [np.arange(24.0, dtype=np.float32).reshape(1, 2, 1, 3, 1, 4) for _ in range(60)]
    turned = [jnp.asarray(x).transpose(5, 4, 3, 2, 1, 0) for x in deep[:30]] + [jnp.asarray(x.T.copy()) for x in deep[30:]]
    np.testing.assert_array_equal(ours(turned), theirs([x.T for x in deep]))
    with pytest.raises(ValueError):
        ours([])


def test_creation_by_static_values():
    for n in (0, 3, 1 << 14, (1 << 14) + 1):
        np.testing.assert_array_equal(jnp.arange(n), np.arange(n))
        assert jnp.arange(n).dtype == np.int32 and jnp.arange(float(n)).dtype == np.float32
    assert jnp.arange(-3).shape == (0,)
    for _ in range(2):
        np.testing.assert_array_equal(jnp.eye(3), np.eye(3))
        np.testing.assert_array_equal(jnp.eye(2, 3, k=1), np.eye(2, 3, k=1))
        np.testing.assert_allclose(jnp.linspace(-1, 2, 7), np.linspace(-1, 2, 7), rtol=1e-6, atol=1e-7)
        points, step = jnp.linspace(0.0, 1.0, 4, endpoint=False, retstep=True)
        np.testing.assert_allclose(points, [0, 0.25, 0.5, 0.75])
        assert float(step) == 0.25


def test_masks_select():
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    y = jnp.asarray(x)
    for mask in (x > 5, x[..., 0] > 3, x[:, 0, 0] > 3, np.zeros((2, 3), bool)):
        np.testing.assert_array_equal(y[jnp.asarray(mask)], x[mask])
    assert y.astype(jnp.bfloat16)[y > 3].dtype == jnp.bfloat16
    assert (jnp.zeros(3) + 0)[jnp.ones(3, bool)].weak_type is False
    assert jnp.full(3, 2)[jnp.ones(3, bool)].weak_type
    with pytest.raises(IndexError):
        y[jnp.ones(3, bool)]


def test_compiled_programs_are_called_without_compiling_again(monkeypatch):
    compiled = fgrad.jit(lambda x, y: {"sum": x + y}).lower(jnp.ones(3), 2.0).compile()
    for module in ("fgrad.api.jit", "fgrad.control.jit"):
        monkeypatch.setattr(sys.modules[module], "compile_jaxpr", None)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(jnp.ones(3), 2.0)["sum"], np.full(3, 3.0))
    with pytest.raises(TypeError, match=r"argument x compiled with f32\[3\] and called with f32\[4\]"):
        compiled(jnp.ones(4), 2.0)


def test_numpy_scalars_are_operands():
    """A NumPy scalar keeps its dtype and its value is an argument, not part of the program."""
    x = jnp.asarray(np.arange(1, 6, dtype=np.float32))
    half = jnp.asarray(np.arange(1, 6, dtype=np.float16))
    double = fgrad.jit(lambda x, s: x * s)
    for value in (0.5, -2.0, np.inf, np.nan, 0.5):
        for scalar in (np.float32, np.float64, np.float16):
            s = scalar(value)
            for got in (x * s, s * x, jnp.multiply(x, s), double(x, s)):
                assert got.dtype == np.float32 and not got.weak_type
                np.testing.assert_array_equal(got, np.arange(1, 6, dtype=np.float32) * np.float32(value))
        assert (half * np.float32(value)).dtype == np.float32 and (half * np.float64(value)).dtype == np.float32
    with fgrad.enable_x64():
        for _ in range(3):
            assert (x * np.float64(0.1)).dtype == np.float64
            np.testing.assert_array_equal(x * np.float64(0.1), np.arange(1, 6) * 0.1)
            assert (x * np.float32(0.5)).dtype == np.float32
    for _ in range(3):
        assert (x * np.float64(0.1)).dtype == np.float32
        np.testing.assert_array_equal(jnp.add(np.float32(1), np.float32(2)), np.float32(3))


def test_indices_that_came_before_show_the_right_elements():
    """Views are remembered by the kinds of an index's items; its ints, the array's aval and its memory may differ from call to call."""
    numbers = np.random.default_rng(5)
    a, b, c = (
        np.arange(24.0, dtype="float32").reshape(2, 3, 4),
        numbers.standard_normal((2, 3, 4)).astype("float32"),
        np.zeros((0, 3, 4), "float32"),
    )
    arrays = [(x, jnp.asarray(x)) for x in (a, b, c, a.astype(int), a.T, a[:, 1:], a[::-1])]
    parts = [0, 1, -1, -2, slice(None), slice(1, None), slice(None, -1), slice(None, None, -1), slice(0, 2, 2), slice(2, 1), None, ...]
    taken = 0
    for _ in range(3000):
        x, y = arrays[numbers.integers(len(arrays))]
        idx = tuple(parts[i] for i in numbers.integers(len(parts), size=numbers.integers(1, 5)))
        idx = idx if len(idx) > 1 or numbers.integers(2) else idx[0]
        try:
            want = x[idx]
        except IndexError:
            continue
        if x.shape[0] == 0 and want.size:
            continue
        got = y[idx]
        assert got.shape == want.shape and got.dtype == y.dtype, idx
        np.testing.assert_array_equal(got, want, str(idx))
        taken += 1
    assert taken > 1500


def test_remembered_indices_keep_bounds_and_donations():
    x = jnp.arange(12.0).reshape(3, 4)
    assert [float(x[i, j]) for i in (0, 2, -3, -1) for j in (3, -4)] == [3, 0, 11, 8, 3, 0, 11, 8]
    assert float(x[5, 1]) == float(x[2, 1])  # clamped, as in JAX
    y = x[1, ::2]
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        x[1, ::2]
    np.testing.assert_array_equal(y, [4, 6])


def test_static_arguments_that_came_before_are_told_apart():
    a = np.arange(24.0, dtype="float32").reshape(2, 3, 4)
    calls = [
        *[
            lambda m, x, s=s: m.reshape(x, s)
            for s in ((24,), 24, (4, 6), (6, 4), (-1, 6), (1, 24), (24, 1), -1, (2, 12), (1, 1, 24), (3, 2, 2, 2))
        ],
        *[lambda m, x, p=p: m.transpose(x, p) for p in (None, (0, 1, 2), (2, 1, 0), (1, 0, 2), (-1, 0, 1))],
        *[lambda m, x, i=i, j=j: m.swapaxes(x, i, j) for i in (0, 1, -1) for j in (0, 2)],
        *[lambda m, x, i=i: m.expand_dims(x, i) for i in (0, 1, -1, (0, 1), (0, -1))],
        *[lambda m, x, i=i: x.sum(i) for i in (None, 0, 1, -1, (0, 1))],
        lambda m, x: x.T,
        lambda m, x: x.ravel(),
        lambda m, x: m.broadcast_to(x, (5, 2, 3, 4)),
    ]
    rng = np.random.default_rng(0)
    for x in (a, a + 1, a[::-1]):
        y = jnp.asarray(x)
        for i in rng.permutation(4 * len(calls)):
            call = calls[i % len(calls)]
            want = call(np, x)
            for got in (call(jnp, y), call(jnp, x)) if i % 2 else (call(jnp, y),):
                assert got.shape == want.shape
                np.testing.assert_array_equal(got, want)
    with pytest.raises(TypeError):
        jnp.reshape(y, (5, 5))
    big = jnp.zeros((2**20, 1), "int8")
    assert big.reshape(1, 2**20).shape == (1, 2**20) and big.reshape(2**10, 2**10).shape == (2**10, 2**10)


def test_dtypes_as_static_arguments_are_told_apart():
    x = jnp.array([0.5, 1.5])
    for _ in range(3):
        for dtype in (jnp.int32, int, jnp.float32, bool, np.dtype("int32"), "int32", np.int8, jnp.int8):
            assert x.astype(dtype).dtype == np.dtype("int32" if dtype is int else dtype)
    with fgrad.enable_x64():
        assert x.astype(int).dtype == np.int64
    assert x.astype(int).dtype == np.int32


def test_arrays_of_arrays_and_numbers():
    s, v = jnp.float32(2), jnp.arange(3)
    np.testing.assert_array_equal(jnp.array([s, 1.0, s]), [2, 1, 2])
    assert jnp.array([v, v]).dtype == np.int32 and jnp.array([v, v * 0.5]).dtype == np.float32
    assert jnp.array([jnp.array(1), 2.5]).dtype == np.float32
    with pytest.raises(ValueError, match="different shapes"):
        jnp.array([v, 1.0])
    with pytest.raises(ValueError, match="different shapes"):
        jnp.array([v, v[:2]])
    np.testing.assert_array_equal(fgrad.grad(lambda a: (jnp.array([a, a * a]) * jnp.array([1.0, 3.0])).sum())(2.0), 13)
    assert jnp.arange(2, 7.0).dtype == np.float32 and jnp.arange(7, 2).shape == (0,)


def test_arrays_of_indices_beside_slices():
    a = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
    x, i, j = jnp.asarray(a), np.array([2, 0, -1]), np.array([[1], [0]])
    cases = [
        (i, slice(1, 3)),
        (slice(None, 2), i),
        (i, slice(None), slice(None, None, -2)),
        (slice(1, None), i, 2),
        (Ellipsis, slice(2), i),
    ]
    cases += [(None, i, slice(3)), (j, slice(None, None, 2), i[:1]), (i, None, slice(4, 1, -1)), (slice(5, 9), i)]
    for idx in cases:
        given = tuple(jnp.asarray(k) if isinstance(k, np.ndarray) else k for k in idx)
        np.testing.assert_array_equal(x[given], a[idx])
        np.testing.assert_array_equal(x[idx], a[idx])
        want = np.zeros_like(a)
        np.add.at(want, idx, 1)
        np.testing.assert_array_equal(fgrad.grad(lambda x, given=given: x[given].sum())(x), want)
    with pytest.raises(IndexError):
        x[:2, jnp.array([0]), :1, 0]


@pytest.mark.parametrize("kind", ["set", "add", "multiply", "min", "max"])
def test_updates_at_a_mask(kind):
    combine = {"set": lambda _, v: v, "add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}[kind]
    a = np.array([[1.0, np.nan, -2.0], [4.0, np.inf, 6.0]], np.float32)
    for mask in (a > 1, np.array([False, True]), np.zeros((2, 3), bool)):
        for value in (2, 0.5, np.float32(3), np.array([1.0, 2.0, 3.0], np.float32)):
            if np.ndim(value) and mask.ndim == 2:
                continue  # its size must be the number of elements
            want = a.copy()
            want[mask] = combine(want[mask], value)
            got = getattr(jnp.asarray(a).at[jnp.asarray(mask)], kind)(jnp.asarray(value) if np.ndim(value) else value)
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(getattr(jnp.asarray(a).at[mask], kind)(value), want)
            np.testing.assert_array_equal(fgrad.jit(lambda x, v, m=mask: getattr(x.at[m], kind)(v))(a, value), want)
    ints = jnp.arange(4).at[jnp.arange(4) > 1]
    np.testing.assert_array_equal(getattr(ints, kind)(2), getattr(jnp.arange(4).at[jnp.array([2, 3])], kind)(2))
    with pytest.raises(ValueError, match="Incompatible shapes"):
        jnp.asarray(a).at[jnp.array([False, True])].set(jnp.ones(2))


def test_piecewise_of_one_number_calls_the_chosen_function_alone():
    f = lambda x: jnp.piecewise(x, [x < 0, x > 1], [lambda v: -v, 5.0, lambda v: jnp.log(v)])
    np.testing.assert_allclose(fgrad.grad(f)(-1.0), -1)
    np.testing.assert_allclose(fgrad.grad(f)(0.0), np.inf)
    x = np.array([-1.0, 0.5, 2.0, 1.0], np.float32)
    np.testing.assert_allclose(f(jnp.asarray(x)), np.piecewise(x, [x < 0, x > 1], [lambda v: -v, 5.0, np.log]), rtol=1e-6)
    np.testing.assert_array_equal(jnp.piecewise(x, [x < 0], [3]), np.piecewise(x, [x < 0], [3]))


def test_a_view_that_a_jitted_function_captured_may_be_passed_to_others():
    view = jnp.arange(32.0).reshape(4, 8)[:, :4]
    captures, takes = fgrad.jit(lambda x: x + view), fgrad.jit(lambda x: x * 2)
    want = np.arange(32.0).reshape(4, 8)[:, :4]
    np.testing.assert_array_equal(captures(1.0), want + 1)
    np.testing.assert_array_equal(takes(view), want * 2)  # which makes it contiguous
    np.testing.assert_array_equal(captures(1.0), want + 1)


def test_arrays_of_one_number_that_came_before_are_told_apart():
    for _ in range(2):
        for shape in (3, (2, 3), (), (0, 2), (1 << 15,)):
            for value in (0, 1, True, 1.0, 0.0, -0.0, 2.5):
                for dtype in (None, np.int32, "float32", jnp.float16, bool):
                    got, want = jnp.full(shape, value, dtype), np.full(shape, value, dtype)
                    np.testing.assert_array_equal(got, want)
                    np.testing.assert_array_equal(np.signbit(np.asarray(got, np.float32)), np.signbit(want.astype(np.float32)))
                    assert got.dtype == (want.dtype if dtype else jnp.asarray(value).dtype)
                    assert got.weak_type == (dtype is None and type(value) is not bool)
            assert jnp.zeros(shape).dtype == np.float32 and not jnp.ones(shape).weak_type
        x = jnp.arange(3)
        assert jnp.zeros_like(x).dtype == np.int32 and jnp.ones_like(x * 1.5).dtype == np.float32 and jnp.zeros_like(2.0 * x).weak_type
        with fgrad.enable_x64(True):
            assert jnp.zeros(3).dtype == np.float64 and jnp.full(3, 1).dtype == np.int64
        for bad in ((2.0,), 2.0):
            with pytest.raises(TypeError):
                jnp.zeros(bad)
    a = jnp.zeros(3)
    a.delete()
    np.testing.assert_array_equal(jnp.zeros(3), np.zeros(3))


def test_nested_lists_of_numbers():
    cases = (
        [1, 2],
        [1.5, 2],
        [[1, 2.5], [3, -4]],
        ((1, 2), [3, 4]),
        [[[1]], [[2]]],
        [True, 2],
        [1, 2j],
        [np.float32(1), 2.0],
        [-0.0],
        2,
        3.5,
    )
    for case in cases:
        want = np.array(case)
        for dtype in (None, np.float32, np.int32, np.float16, np.complex64):
            if dtype is not None and want.dtype.kind == "c" and dtype != np.complex64:
                continue
            got = jnp.array(case, dtype)
            np.testing.assert_array_equal(got, want.astype(dtype or got.dtype))
            assert got.dtype == (dtype or {"i": np.int32, "f": np.float32, "c": np.complex64}[want.dtype.kind])
    for bad in ([[1, 2], [3]], [[1, 2], 3], [[1], [[2]]], [1, None]):
        with pytest.raises((ValueError, TypeError)):
            jnp.array(bad)
    with pytest.raises(OverflowError):
        jnp.array([1, 1 << 31])
    with fgrad.enable_x64(True):
        assert jnp.array([1, (1 << 62) + 1]).tolist() == [1, (1 << 62) + 1] and jnp.array([0.1]).tolist() == [0.1]


def test_numpy_arrays_of_64_bits_are_narrowed():
    f = fgrad.jit(lambda x: x + 0)
    wide = np.array([0.1, -np.inf, np.nan, 1e-50, 1 / 3])
    whole = np.array([1, -2, (1 << 31) - 1, -(1 << 31)])
    for x in (
        wide,
        wide[::2],
        wide.astype(">f8"),
        np.stack([wide, wide]).T,
        wide[:0],
        wide[0],
        whole,
        whole.astype(">i8"),
        whole[1:],
        whole[1],
    ):
        for got in (f(x), jnp.asarray(x), jnp.array(x), jnp.negative(jnp.negative(x))):
            want = np.asarray(x).astype(np.float32 if x.dtype.kind == "f" else np.int32)
            assert got.dtype == want.dtype and not got.weak_type
            np.testing.assert_array_equal(got, want)
    with fgrad.enable_x64(True):
        assert f(wide).dtype == jnp.asarray(wide).dtype == f(wide[0]).dtype == np.float64
        np.testing.assert_array_equal(f(wide), wide)
    source = np.array([1.5, 2.5])
    kept = jnp.asarray(source)
    source[0] = 7
    np.testing.assert_array_equal(kept, [1.5, 2.5])


@pytest.mark.parametrize("shape", [(0,), (7,), (300,), (5, 4), (3, 0), (3, 4, 5)])
@pytest.mark.parametrize("share", [0, 0.05, 0.5, 1])
@pytest.mark.parametrize("dtype", ["float32", "int8", "float16", "complex64", "bool"])
def test_masks_select_and_place_as_numpy(shape, share, dtype):
    r = np.random.RandomState(0)
    mask = r.rand(*shape) < share
    m = jnp.asarray(mask)
    for tail in ((), (3,)):
        x = (r.rand(*shape, *tail) * 9).astype(dtype)
        values = (r.rand(mask.sum(), *tail) * 9).astype(dtype)
        placed = x.copy()
        placed[mask] = values
        assert np.array_equal(jnp.asarray(x)[m], x[mask]) and jnp.asarray(x)[m].dtype == x.dtype
        assert np.array_equal(jnp.asarray(x).at[m].set(values), placed)
        if dtype == "float32":
            placed = x.copy()
            placed[mask] += values
            assert np.array_equal(jnp.asarray(x).at[mask].add(jnp.asarray(values)), placed)
    x = jnp.asarray(x)[..., 0]
    assert all(np.array_equal(a, b) for a, b in zip(jnp.nonzero(x), np.nonzero(np.asarray(x)), strict=True))
    assert np.array_equal(jnp.argwhere(m.T), np.argwhere(mask.T)) and np.array_equal(jnp.extract(m, x), np.asarray(x)[mask])
    assert np.array_equal(x.T[m.T], np.asarray(x).T[mask.T])


def test_a_mask_is_given_as_many_values_as_hold():
    with pytest.raises(ValueError, match="Incompatible shapes"):
        jnp.zeros(4).at[jnp.array([True, False, True, False])].set(jnp.zeros(3))
    mask = jnp.array([True, False, True])
    assert fgrad.grad(lambda v: (jnp.zeros(3).at[mask].set(v) * jnp.arange(3.0)).sum())(jnp.ones(2)).tolist() == [0, 2]


def test_integers_in_arrays_index_as_ints():
    x = jnp.arange(24.0).reshape(4, 6)
    n = np.asarray(x)
    i, j = jnp.array(2), np.int64(-1)
    assert x[i].tolist() == n[2].tolist() and x[i, j] == n[2, -1] and x[:, j].tolist() == n[:, -1].tolist()
    assert x[i, None, 1:4:2].tolist() == n[2, None, 1:4:2].tolist() and x.T[i, ...].tolist() == n.T[2].tolist()
    assert x[jnp.array(9)].tolist() == n[3].tolist() and x[jnp.array(-9), 0] == n[0, 0]  # moved inside, as in compiled programs
    assert x[jnp.array(1, "uint8"), i] == n[1, 2]


def test_functions_of_numbers_give_fresh_arrays_each_time():
    calls = [
        lambda: jnp.arange(2, 9, 3), lambda: jnp.linspace(-0.0, 1, 5), lambda: jnp.eye(3, k=1, dtype=jnp.int8), lambda: jnp.mgrid[0:2, 0:3],
        lambda: jnp.tril_indices(3), lambda: jnp.unravel_index(5, (3, 4)), lambda: jnp.fft.fftfreq(6, 0.5), lambda: jnp.hanning(5),
    ]  # fmt: skip
    for call in calls:
        for x64 in (False, True, False):
            with fgrad.enable_x64(x64):
                first, second = fgrad.tree.leaves(call()), fgrad.tree.leaves(call())
                for a, b, c in zip(first, second, fgrad.tree.leaves(fgrad.jit(call)()), strict=True):
                    assert a is not b and a.dtype == b.dtype == c.dtype and np.allclose(a, b) and np.allclose(a, c)
    assert jnp.arange(3).dtype == np.int32 and jnp.arange(3.0).dtype == np.float32
    for _ in range(2):
        with pytest.warns(UserWarning, match="float64"):
            jnp.arange(3, dtype="float64")


def test_lists_of_bools():
    assert jnp.array([True, False]).dtype == bool and jnp.array([[True], [False]]).tolist() == [[True], [False]]
    assert jnp.array([True, 2]).dtype == np.int32 and jnp.array([True, False], dtype=float).tolist() == [1.0, 0.0]
    assert jnp.array([1.5, True]).tolist() == [1.5, 1.0]


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_insert_and_delete_at_a_number(axis):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    n = x.size if axis is None else x.shape[axis]
    for i in (0, 1, n - 1, -1, -n):
        assert np.array_equal(jnp.delete(jnp.asarray(x), i, axis), np.delete(x, i, axis))
        assert np.array_equal(jnp.insert(jnp.asarray(x), i, 2.5, axis), np.insert(x, i, 2.5, axis))
        assert np.array_equal(fgrad.jit(lambda x, i: jnp.insert(x, i, 2.5, axis))(x, i), np.insert(x, i, 2.5, axis))
    with pytest.raises(IndexError):
        jnp.delete(jnp.asarray(x), n, axis)


def test_randint_by_ints_and_by_arrays_agree():
    key = fgrad.random.key(1)
    for lo, hi in ((0, 5), (-7, 100), (6, 2), (-(2**31), 2**31 - 1)):
        by_arrays = fgrad.random.randint(key, (20,), jnp.asarray(lo), jnp.asarray(hi))
        assert fgrad.random.randint(key, (20,), lo, hi).tolist() == by_arrays.tolist()


@pytest.mark.parametrize("kind", ["set", "add", "max"])
def test_windows_of_one_size_are_updated_by_one_program(kind, monkeypatch):
    from fgrad.compile import eager

    compiled = []
    compile_jaxpr = eager.compile_jaxpr
    monkeypatch.setattr(eager, "compile_jaxpr", lambda *args: compiled.append(1) or compile_jaxpr(*args))
    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    update = {"set": lambda a, v: v, "add": np.add, "max": np.maximum}[kind]
    places = [
        lambda i: i, lambda i: (i, -i - 1), lambda i: (..., i), lambda i: (slice(i, i + 2), slice(1, 3)),
        lambda i: (slice(None), slice(-7 + i, i - 4)), lambda i: (i, ..., -1), lambda i: slice(i, i + 2), lambda i: (slice(3, 2), i),
    ]  # fmt: skip
    for at in places:
        for i in range(4):
            expected = x.copy()
            expected[at(i)] = update(x[at(i)], np.float32(9))
            assert np.array_equal(getattr(jnp.asarray(x).at[at(i)], kind)(9.0), expected)
            assert i or compiled.clear() is None
        assert not compiled
    assert jnp.asarray(x).at[9].set(0.0).tolist() == x.tolist()
    assert fgrad.grad(lambda v: (jnp.asarray(x).at[1, 2].set(v) * 3).sum())(1.0) == 3


def test_exponents_that_change_are_arguments_of_one_program(monkeypatch):
    from fgrad.compile import eager

    x, compiled = jnp.asarray([0.5, 1.25, 3.0]), []
    compile_jaxpr = eager.compile_jaxpr
    monkeypatch.setattr(eager, "compile_jaxpr", lambda *args: compiled.append(1) or compile_jaxpr(*args))
    for power in (lambda n: 0.9 ** jnp.asarray(n), lambda n: x ** (n + 0.3), lambda n: 3 ** jnp.asarray(n), lambda n: x ** jnp.asarray(n)):
        power(5)
        compiled.clear()
        for n in range(6, 16):
            power(n)
        assert not compiled
    for n in (0, 2, 3, 7, 19):
        np.testing.assert_allclose(0.9 ** jnp.asarray(n), 0.9**n, rtol=1e-6)
        assert (3 ** jnp.asarray(n)).tolist() == 3**n and (jnp.int8(3) ** jnp.asarray(n)) == np.int8(3**n % 256 - 256 * (3**n % 256 > 127))
        assert (0.9 ** jnp.asarray(n)).weak_type and (2 ** jnp.asarray(n)).weak_type and not (x ** (n + 0.5)).weak_type
    assert ((2 ** jnp.asarray(70)).tolist(), (3 ** jnp.asarray(70)).tolist()) == (0, 3**70 % 2**32 - 2**32)
    np.testing.assert_allclose(fgrad.grad(lambda v: jnp.sum(v ** jnp.asarray(5) + v**2.5))(x), 5 * x**4 + 2.5 * x**1.5, rtol=1e-5)


def test_python_numbers_keep_the_signs_of_their_zeros():
    for numbers in ((0.0, -0.0), (complex(1, 0.0), complex(1, -0.0)), (complex(0.0, 1), complex(-0.0, 1))):
        for x in numbers * 2:
            assert repr(complex(np.asarray(fgrad.device_put(x)))) == repr(complex(x))


def test_calls_of_lists_are_told_apart():
    """Recent calls of functions of lists: by their number, what they hold, and what follows them."""
    x, y = jnp.arange(3.0), jnp.arange(3.0, 6.0)
    one, two = jnp.float32(1), jnp.float32(2)
    nx, ny, n1, n2 = np.arange(3.0, dtype="f4"), np.arange(3.0, 6.0, dtype="f4"), np.float32(1), np.float32(2)
    for _ in range(3):
        np.testing.assert_array_equal(jnp.concatenate([x, y]), np.concatenate([nx, ny]))
        np.testing.assert_array_equal(jnp.concatenate((y, x)), np.concatenate([ny, nx]))
        np.testing.assert_array_equal(jnp.concatenate([x, y, x]), np.concatenate([nx, ny, nx]))
        np.testing.assert_array_equal(jnp.concatenate([nx, ny]), np.concatenate([nx, ny]))
        np.testing.assert_array_equal(jnp.concatenate([x] * 9), np.concatenate([nx] * 9))  # more than a slot has room for
        np.testing.assert_array_equal(jnp.stack([x, y]), np.stack([nx, ny]))
        np.testing.assert_array_equal(jnp.stack([x, y], 1), np.stack([nx, ny], 1))
        np.testing.assert_array_equal(jnp.stack([x, y], axis=-1), np.stack([nx, ny], -1))
        np.testing.assert_array_equal(jnp.array([one, two]), np.array([n1, n2]))
        np.testing.assert_array_equal(jnp.array([one, 3.0]), np.array([n1, 3]))
        np.testing.assert_array_equal(jnp.array([one, 4.0]), np.array([n1, 4]))
        np.testing.assert_array_equal(jnp.array([4.0, one]), np.array([4, n1]))
        assert jnp.array([one, 4]).dtype == jnp.array([one, jnp.arange(2)[1]]).dtype == np.float32
        for i in range(3):
            for v in (0.0, 7.0, 7):
                want = nx.copy()
                want[i] = v
                np.testing.assert_array_equal(x.at[i].set(v), want)
                want[i] += v
                np.testing.assert_array_equal(x.at[i].set(v).at[i].add(v), want)
        np.testing.assert_array_equal(jnp.hstack([x[::2], y[:2]]), np.hstack([nx[::2], ny[:2]]))  # a view has no slot
    with pytest.raises(ValueError, match="shapes"):
        jnp.array([x, one])
    gone = x + 1
    gone.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        jnp.concatenate([gone, y])
    assert fgrad.grad(lambda v: jnp.sum(jnp.concatenate([v, v])[:4]))(x).tolist() == [2.0, 1.0, 1.0]
    with fgrad.enable_x64():
        assert jnp.concatenate([jnp.arange(2.0), jnp.arange(2.0)]).dtype == np.float64


def test_arrays_given_by_name():
    """Keyword arguments that are arrays are operands of the program: their values are not kept in it."""
    x, w = jnp.arange(4.0), jnp.arange(4.0) + 1
    for shift in range(4):
        mask = jnp.roll(jnp.array([True, False, True, False]), shift)
        keep = np.asarray(mask)
        for m in (mask, keep):
            assert jnp.sum(x, where=m) == np.arange(4.0)[keep].sum()
            assert jnp.max(x, where=m, initial=-1.0) == max(-1.0, np.arange(4.0)[keep].max())
        assert fgrad.jit(lambda m: jnp.sum(x, where=m))(mask) == jnp.sum(x, where=mask)
        np.testing.assert_array_equal(fgrad.grad(lambda v, m=mask: jnp.sum(v * v, where=m))(x), 2 * np.arange(4.0) * keep)
    np.testing.assert_array_equal(fgrad.grad(lambda low: jnp.sum(jnp.clip(x, min=low)))(w), [1, 1, 1, 1])
    np.testing.assert_array_equal(fgrad.vmap(lambda low: jnp.clip(x, min=low))(jnp.eye(4)), np.maximum(np.arange(4.0), np.eye(4)))
    np.testing.assert_array_equal(x.clip(min=w, max=2.0), np.minimum(np.maximum(np.arange(4.0), np.arange(1.0, 5.0)), 2))
    np.testing.assert_array_equal(jnp.take(x, indices=jnp.array([3, 0])), [3, 0])
    assert jnp.sum(x, axis=jnp.array(0)) == 6  # one that must be known
    with pytest.raises(TypeError):
        jnp.clip(x, nothing=w)


def test_promoted_types_follow_the_settings():
    assert jnp.promote_types("int32", "float32") == jnp.result_type(np.int32, jnp.arange(2.0)) == np.float32
    assert jnp.result_type(jnp.arange(2), 1.0) == jnp.result_type(int, float) == np.float32
    assert jnp.result_type(np.float16, 1.0) == jnp.result_type(np.float16, float) == np.float16
    assert jnp.result_type(np.float16, np.float64(1)) == np.float32
    with fgrad.enable_x64():
        assert jnp.result_type(jnp.arange(2), 1.0) == np.float64
    with fgrad.numpy_dtype_promotion("strict"), pytest.raises(fgrad.errors.TypePromotionError):
        jnp.promote_types("int32", "float32")
    with pytest.raises(TypeError):
        jnp.promote_types(1.0, "float32")


@pytest.mark.parametrize("index", [0, 2, -1, 7, -9, np.int32(1), jnp.int32(-2)])
def test_items_along_an_axis(index):
    """Of an index as a number, as an array and while tracing; indices beyond the ends are moved inside."""
    x, row = jnp.arange(12.0).reshape(3, 4), jnp.full(4, -1.0)
    i = int(index) + 3 * (int(index) < 0)
    at = min(max(i, 0), 2)
    want = np.arange(12.0).reshape(3, 4)
    new = want.copy()
    new[at] = -1
    lax = fgrad.lax
    for run in (lambda f: f, fgrad.jit):
        np.testing.assert_array_equal(run(lambda x, i: lax.dynamic_index_in_dim(x, i, 0, keepdims=False))(x, index), want[at])
        np.testing.assert_array_equal(run(lambda x, i: lax.dynamic_index_in_dim(x, i))(x, index), want[at : at + 1])
        np.testing.assert_array_equal(run(lambda x, i: lax.dynamic_update_index_in_dim(x, row, i, 0))(x, index), new)
    low = min(max(i, 0), 1)
    np.testing.assert_array_equal(lax.dynamic_slice_in_dim(x, index, 2), want[low : low + 2])
    np.testing.assert_array_equal(lax.dynamic_slice_in_dim(x, start_index=index, slice_size=2, axis=0), want[low : low + 2])
    new = want.copy()
    new[low : low + 2] = 5
    np.testing.assert_array_equal(lax.dynamic_update_slice_in_dim(x, jnp.full((2, 4), 5.0), index, 0), new)
    np.testing.assert_array_equal(fgrad.grad(lambda x: lax.dynamic_index_in_dim(x, index).sum())(x)[at], np.ones(4))


@pytest.mark.parametrize("dtype", ["float32", "int32", "float16", "uint8", "bool"])
@pytest.mark.parametrize("value", [0, -0.0, 2, 2.5, True, 1 << 24, (1 << 24) + 1, -(1 << 31), np.inf, np.nan, np.float32(3), 1e39])
def test_a_number_at_a_mask(dtype, value):
    """Masks over all axes or leading ones, of arrays and views: as the path of all other updates has it."""
    r = np.random.default_rng(0)
    for shape, own in (((10,), (10,)), ((4, 5), (4,)), ((4, 5), (4, 5)), ((3, 2, 2), (3, 2)), ((0, 3), (0,))):
        x, mask = jnp.asarray(r.integers(0, 9, shape), dtype), jnp.asarray(r.integers(0, 2, own), bool)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for a, m in ((x, mask), (x.T.T, mask), (jnp.flip(x, 0)[::-1], mask)):
                out = a.at[m].set(value)
                want = a.at[m].set(value, mode="drop")
                assert out.aval == want.aval and out is not a
                np.testing.assert_array_equal(out, want)
                np.testing.assert_array_equal(np.signbit(out), np.signbit(want))
        kept = np.asarray(x)
        np.testing.assert_array_equal(np.asarray(out)[~np.asarray(mask)], kept[~np.asarray(mask)])


def test_a_number_at_a_mask_of_a_deleted_array():
    x = jnp.ones(4)
    mask = x > 0
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        x.at[mask].set(0)


@pytest.mark.parametrize("x64", [False, True])
def test_counts_of_few_integers(x64, monkeypatch):
    from fgrad.numpy import statistics

    with fgrad.enable_x64(x64):
        for n in (np.array([3, 1, 1, 0, 7], np.int32), np.array([5], np.int32), np.arange(40, dtype=np.int32)[::4]):
            for least in (0, 4, 20):
                x, want = jnp.asarray(n), np.bincount(n, minlength=least)
                got = jnp.bincount(x, minlength=least)
                np.testing.assert_array_equal(got, want)
                assert got.aval == fgrad.jit(lambda x, k=want.size: jnp.bincount(x, length=k))(x).aval
        assert jnp.bincount(jnp.array([-2, 1, -1])).tolist() == [2, 1]
        assert jnp.bincount(jnp.array([100_000])).size == 100_001
        assert jnp.bincount(jnp.arange(3)[1:] + 2, minlength=1).tolist() == [0, 0, 0, 1, 1]
        monkeypatch.setattr(statistics, "_counts", None)  # few ones are counted at once
        assert jnp.bincount(jnp.arange(3, dtype=np.int32)).tolist() == [1, 1, 1]
        with pytest.raises(fgrad.errors.ConcretizationTypeError):
            fgrad.jit(jnp.bincount)(jnp.arange(3))
