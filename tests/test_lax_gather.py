"""gather and scatter against a reference in Python loops, and their derivatives against finite differences."""

import itertools

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from fgrad.compile.program import compile_jaxpr
from tests.derivatives import check_derivatives, check_vmap

RNG = np.random.default_rng(0)

# name: operand shape, indices, numbers (as for gather), slice sizes
CASES = {
    "rows": ((5, 3), [[4], [0], [7], [-1]], ((1,), (0,), (0,)), (1, 3)),
    "columns_of_windows": ((4, 6), [[0, 5], [3, 1], [1, 2]], ((1, 2), (), (0, 1)), (2, 3)),
    "swapped_map": ((4, 6), [[5, 0], [2, 1], [2, 1]], ((0,), (1,), (1, 0)), (2, 1)),
    "scalars": ((7,), [[[0], [6]], [[3], [9]]], ((), (0,), (0,)), (1,)),
    "batching": ((3, 4, 2), [[[1], [3]], [[0], [0]], [[2], [5]]], ((2,), (1,), (1,), (0,), (0,)), (1, 1, 2)),
    "many_columns": ((4, 6), [[k] for k in (0, 5, -1, 7, 3, 3, 2, 1, 4)], ((1,), (1,), (1,)), (4, 1)),
    "many_parts_of_columns": ((5, 6, 2), [[k % 4, k % 7] for k in range(24)], ((1, 2), (2,), (0, 1)), (3, 2, 1)),
    "many_columns_in_batches": ((2, 3, 4), [[[k % m] for k in range(9)] for m in (5, 3)], ((2,), (2,), (2,), (0,), (0,)), (1, 3, 1)),
    "batching_transposed": ((3, 4, 2), [[[1], [3], [0]], [[0], [2], [1]]], ((1,), (1,), (1,), (0,), (1,)), (1, 1, 2)),
}


def case(name):
    shape, indices, numbers, sizes = CASES[name]
    numbers = lax.GatherDimensionNumbers(*numbers)
    return RNG.standard_normal(shape), np.array(indices, np.int32), numbers, sizes


def windows(x_shape, indices, d, sizes, clip):
    """For each index vector: (its position, operand slices or None where it is outside)."""
    for at in itertools.product(*map(range, indices.shape[:-1])):
        start = [0] * len(x_shape)
        for axis, i in zip(d.start_index_map, indices[at]):
            start[axis] = int(i)
        for axis, i in zip(d.operand_batching_dims, d.start_indices_batching_dims):
            start[axis] = at[i]
        if clip:
            start = [min(max(s, 0), n - k) for s, n, k in zip(start, x_shape, sizes)]
        inside = all(0 <= s <= n - k for s, n, k in zip(start, x_shape, sizes))
        yield at, tuple(slice(s, s + k) for s, k in zip(start, sizes)) if inside else None


def place(at, d, rank):
    """The position of an index vector's window in the gathered array."""
    batch = iter(at)
    return tuple(slice(None) if a in d.offset_dims else next(batch) for a in range(rank))


def reference_gather(x, indices, d, sizes, clip, fill):
    kept = [k for a, k in enumerate(sizes) if a not in d.collapsed_slice_dims + d.operand_batching_dims]
    rank = len(kept) + indices.ndim - 1
    window, batch = iter(kept), iter(indices.shape[:-1])
    out = np.full([next(window) if a in d.offset_dims else next(batch) for a in range(rank)], fill, x.dtype)
    for at, box in windows(x.shape, indices, d, sizes, clip):
        if box is not None:
            out[place(at, d, rank)] = x[box].reshape(kept)
    return out


def reference_scatter(kind, x, indices, updates, d, sizes, clip):
    out = x.copy()
    combine = {"set": lambda a, b: b, "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[kind]
    for at, box in windows(x.shape, indices, d, sizes, clip):
        if box is not None:
            out[box] = combine(out[box], updates[place(at, d, updates.ndim)].reshape(out[box].shape))
    return out


SCATTER = {"set": lax.scatter, "add": lax.scatter_add, "mul": lax.scatter_mul, "min": lax.scatter_min, "max": lax.scatter_max}


@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("name", CASES)
def test_gather(name, mode):
    x, indices, d, sizes = case(name)

    def f(x):
        return lax.gather(x, indices, d, sizes, mode=mode, fill_value=0)

    with fgrad.enable_x64():
        np.testing.assert_array_equal(f(x), reference_gather(x, indices, d, sizes, mode == "clip", 0))
        check_derivatives(f, x)
        xs, many = RNG.standard_normal((3, *x.shape)), np.stack([indices, indices[::-1], indices])
        if not d.operand_batching_dims:
            check_vmap(lambda x, i: lax.gather(x, i, d, sizes, mode=mode, fill_value=0), x, many, in_axes=(None, 0))
        check_vmap(f, xs, in_axes=(0,))
        check_vmap(lambda x, i: lax.gather(x, i, d, sizes, mode=mode, fill_value=0), np.moveaxis(xs, 0, 1), many, in_axes=(1, 0))


@pytest.mark.parametrize("mode", ["clip", "drop"])
@pytest.mark.parametrize("kind", SCATTER)
@pytest.mark.parametrize("name", CASES)
def test_scatter(name, kind, mode):
    x, indices, d, sizes = case(name)
    numbers = lax.ScatterDimensionNumbers(*d)
    updates = RNG.standard_normal(reference_gather(x, indices, d, sizes, True, 0).shape)

    def f(x, u):
        return SCATTER[kind](x, indices, u, numbers, mode=mode)

    with fgrad.enable_x64():
        np.testing.assert_allclose(f(x, updates), reference_scatter(kind, x, indices, updates, d, sizes, mode == "clip"), rtol=1e-12)
        check_derivatives(f, x, updates, order=2)
        us, xs = RNG.standard_normal((3, *updates.shape)), RNG.standard_normal((3, *x.shape))
        check_vmap(f, x, us, in_axes=(None, 0))
        many = np.stack([indices, indices[::-1], indices])
        check_vmap(lambda x, i, u: SCATTER[kind](x, i, u, numbers, mode=mode), xs, many, us, in_axes=(0, 0, 0))


def test_scatter_mul_at_zeros():
    """d(x * u0 * u1)/du0 is x * u1, also where u0 or u1 is zero."""
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    index = jnp.array([[0], [0], [1], [2], [2]])
    x, u = jnp.array([2.0, 3.0, 5.0]), jnp.array([0.0, 7.0, 0.0, 0.0, 0.0])
    got = fgrad.grad(lambda u: lax.scatter_mul(x, index, u, numbers).sum())(u)
    np.testing.assert_allclose(got, [14.0, 0.0, 3.0, 0.0, 0.0])


def test_scatter_apply_repeats():
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    out = lax.scatter_apply(jnp.arange(4.0), jnp.array([[1], [3], [1], [8]]), lambda x: x * 10, numbers)
    np.testing.assert_array_equal(out, [0.0, 100.0, 2.0, 30.0])
    got = fgrad.grad(lambda x: lax.scatter_apply(x, jnp.array([[1]]), jnp.sin, numbers, unique_indices=True).sum())(jnp.arange(3.0))
    np.testing.assert_allclose(got, [1.0, np.cos(1.0), 1.0], rtol=1e-6)


def test_fill_values():
    numbers, out = lax.GatherDimensionNumbers((), (0,), (0,)), jnp.array([[9]])
    for dtype, want in ((np.float32, np.nan), (np.int32, np.iinfo(np.int32).min), (np.uint8, 255), (bool, True)):
        np.testing.assert_array_equal(lax.gather(jnp.zeros(3, dtype), out, numbers, (1,), mode="fill"), np.array([want], dtype))


@pytest.mark.parametrize(
    "numbers, sizes, words",
    [
        (((0,), (0,), (0,)), (1, 3), "offset_dims"),
        (((1,), (0,), (0, 1)), (1, 3), "start_index_map"),
        (((1,), (0,), (0,)), (2, 3), "collapsed"),
        (((1,), (0,), (0,)), (1, 4), "slice_sizes"),
        (((1,), (5,), (0,)), (1, 3), "collapsed_slice_dims"),
        (((5,), (0,), (0,)), (1, 3), "offset_dims"),
    ],
)
def test_errors_name_the_field(numbers, sizes, words):
    if numbers == ((0,), (0,), (0,)):
        sizes, numbers = (1, 3), ((), (0,), (0,))
    with pytest.raises((TypeError, ValueError), match=words):
        lax.gather(jnp.zeros((5, 3)), jnp.zeros((2, 1), int), lax.GatherDimensionNumbers(*numbers), sizes)


def test_scatter_errors():
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    with pytest.raises(TypeError, match="float16.*float32"):
        lax.scatter_add(jnp.zeros((5, 3)), jnp.zeros((2, 1), int), jnp.zeros((2, 3), jnp.float16), numbers)
    with pytest.raises(TypeError, match="updates"):
        lax.scatter(jnp.zeros((5, 3)), jnp.zeros((2, 1), int), jnp.zeros((3, 3)), numbers)
    with pytest.raises(ValueError, match="mode"):
        lax.scatter(jnp.zeros((5, 3)), jnp.zeros((2, 1), int), jnp.zeros((2, 3)), numbers, mode="what")


@pytest.mark.parametrize("base", ["operand", "zeros", "donated"])
@pytest.mark.parametrize("kind", ["set", "add"])
@pytest.mark.parametrize("crowded", [False, True])
def test_scatter_into_many_blocks(base, kind, crowded):
    """Large windows are sorted by blocks of the output, unless most fall into one; updates keep the order of the indices."""
    rng = np.random.default_rng(0)
    shape, n = (20_001, 5, 17), 3000
    x = rng.normal(size=shape).astype(np.float32) if base != "zeros" else np.zeros(shape, np.float32)
    rows = np.where(crowded & (rng.random(n) < 0.9), 7, rng.integers(-shape[0] - 9, shape[0] + 9, n)).astype(np.int32)
    rows[100:200] = rows[:100]
    updates = rng.normal(size=(n, *shape[1:])).astype(np.float32)
    expect = x.copy()
    for r, u in zip(rows, updates):
        if -shape[0] <= r < shape[0]:
            expect[r] = u if kind == "set" else expect[r] + u
    if base == "zeros":
        got = fgrad.jit(lambda r, u: getattr(jnp.zeros(shape).at[r], kind)(u))(rows, updates)
    else:
        f = fgrad.jit(lambda x, r, u: getattr(x.at[r], kind)(u), donate_argnums=(0,) if base == "donated" else ())
        got = f(jnp.array(x), rows, updates)
    np.testing.assert_array_equal(np.asarray(got), expect)


@pytest.mark.parametrize("in_axes", [(None, 0), (0, 0), (1, 0), (0, None)])
def test_windows_of_a_batch_are_gathered_from_where_they_lie(in_axes):
    """Starts move inside, negative ones count from the end; nothing of the operand's size is made for each example."""
    x, starts = np.arange(25.0, dtype=np.float32).reshape(5, 5), np.array([-2, 0, 3, 4, 9], np.int32)
    cut = lambda x, i: lax.dynamic_slice(x, (i,) * x.ndim, (2,) * x.ndim)  # noqa: E731
    got = fgrad.vmap(cut, in_axes)(x, starts if in_axes[1] == 0 else 3)
    rows = [x if in_axes[0] is None else np.take(x, k, in_axes[0]) for k in range(5)]
    at = starts if in_axes[1] == 0 else [3] * 5
    want = []
    for r, i in zip(rows, at):
        box = tuple(slice(j, j + 2) for j in (min(max(i + n * (i < 0), 0), n - 2) for n in r.shape))
        want.append(r[box])
    np.testing.assert_array_equal(got, np.stack(want[: len(got)]))
    if in_axes[0] is None:
        big = fgrad.jit(fgrad.vmap(lambda i: jnp.asarray(np.ones((3000, 300), np.float32))[i]))
        assert big.lower(np.zeros(500, np.int32)).compile().memory_analysis().temp_size_in_bytes < 10**6


OUTSIDE = {
    "int8": [-128, -5, 127],
    "int16": [-32768, -200, 299],
    "uint16": [65535, 299],
    "uint32": [2**32 - 1, 2**31, 1],
    "int64": [-(2**63), -(2**32) + 1, 2**32 + 1, 2**40, -1],
    "uint64": [2**64 - 1, 2**63, 2**32 + 1, 299],
}


def _place(i, n, size=1):
    return min(max(i + n * (i < 0), 0), n - size)


def _updated(x, i, rows, value):
    y = x.copy()
    y[rows(i)] = value
    return y


OF_ANY_INDEX = {
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, i), (2, 2)), lambda x, i: x[_place(i, 300, 2) :][:2, _place(i, 3, 2) :][:, :2]),
    "dynamic_update_slice": (
        lambda x, i: lax.dynamic_update_slice(x, jnp.ones((2, 3)), (i, 0)),
        lambda x, i: _updated(x, i, lambda i: slice(_place(i, 300, 2), _place(i, 300, 2) + 2), 1.0),
    ),
    "scalar": (lambda x, i: x[i], lambda x, i: x[_place(i, 300)]),
    "second_axis": (lambda x, i: x[2:, i], lambda x, i: x[2:, _place(i, 3)]),
    "array": (lambda x, i: x[jnp.stack([i, i])], lambda x, i: x[[_place(i, 300)] * 2]),
    "arrays": (lambda x, i: x[jnp.stack([i]), jnp.stack([i])], lambda x, i: x[[_place(i, 300)], [_place(i, 3)]]),
    "wrap": (lambda x, i: jnp.take(x, i, 0, mode="wrap"), lambda x, i: x[i % 300]),
    "fill": (lambda x, i: x.at[i].get(mode="fill", fill_value=-7), lambda x, i: x[i] if -300 <= i < 300 else np.full(3, -7.0)),
    "set": (lambda x, i: x.at[i].set(5), lambda x, i: _updated(x, i, lambda i: i, 5) if -300 <= i < 300 else x),
    "gather": (
        lambda x, i: lax.gather(x, i[None], lax.GatherDimensionNumbers((0,), (0,), (0,)), (1, 3), mode="clip"),
        lambda x, i: x[min(max(i, 0), 299)],
    ),
    "scatter_add": (
        lambda x, i: lax.scatter_add(x, i[None], jnp.ones(3), lax.ScatterDimensionNumbers((0,), (0,), (0,)), mode="clip"),
        lambda x, i: _updated(x, i, lambda i: min(max(i, 0), 299), x[min(max(i, 0), 299)] + 1),
    ),
    "set_clip": (lambda x, i: x.at[i].set(5, mode="clip"), lambda x, i: _updated(x, i, lambda i: _place(i, 300), 5)),
}


@pytest.mark.parametrize("dtype", OUTSIDE)
@pytest.mark.parametrize("name", OF_ANY_INDEX)
def test_indices_of_every_dtype(name, dtype):
    """An axis may be longer than the dtype counts, and an index further out than int32 counts: alone, compiled and in a batch."""
    f, model = OF_ANY_INDEX[name]
    x, at = np.arange(900.0).reshape(300, 3), np.array(OUTSIDE[dtype], dtype)
    want = np.stack([model(x, int(i)) for i in OUTSIDE[dtype]])
    with fgrad.enable_x64(True):
        of_x = lambda i: f(jnp.asarray(x), i)  # noqa: E731
        np.testing.assert_array_equal(np.stack([of_x(jnp.asarray(i)) for i in at]), want)
        np.testing.assert_array_equal(np.stack([fgrad.jit(of_x)(i) for i in at]), want)
        np.testing.assert_array_equal(fgrad.vmap(of_x)(jnp.asarray(at)), want)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_rows_of_all_lengths(dtype):
    """Short ones are copies of vectors that may overlap, none of which may reach beyond a row."""
    at = RNG.integers(-15, 16, 37)
    at[[3, 36]] = 12, -1  # the last row ends where the array does
    outside = (at < -13) | (at >= 13)
    for width in range(1, 140 // np.dtype(dtype).itemsize + 1):
        x = RNG.integers(1, 200, (13, width)).astype(dtype)
        for index in (at.astype(np.int32), at):
            with fgrad.enable_x64():
                filled, clipped = (
                    jnp.take(jnp.asarray(x), jnp.asarray(index), axis=0, mode=mode, fill_value=7) for mode in ("fill", "clip")
                )
                assert filled.dtype == dtype
            np.testing.assert_array_equal(filled, np.where(outside[:, None], dtype(7), x[np.where(outside, 0, at)]))
            np.testing.assert_array_equal(clipped, x[np.clip(at, 0, 12)])


@pytest.mark.parametrize("name", ["updates", "rows", "window", "last", "long"])
def test_positions_beyond_int32_are_int64(name):
    """Positions in an operand of more than 2^31 elements, here only traced."""
    big = fgrad.ShapeDtypeStruct((2**16, 2**16), np.int8)
    i, box = fgrad.ShapeDtypeStruct((3,), np.int32), fgrad.ShapeDtypeStruct((2**16, 2), np.int8)
    starts = fgrad.ShapeDtypeStruct((2**16,), np.int32)
    fun, args = {
        "updates": (fgrad.vmap(lambda x, u, j: lax.dynamic_update_slice(x, u, (j,))), (big, box, starts)),
        "rows": (lambda x, i: x[i, i], (big, i)),
        "window": (lambda x, i: x.at[::2, i].add(1), (big, i)),
        "long": (lambda x, i: x.at[i].add(x[i[0]]), (fgrad.ShapeDtypeStruct((2**32,), np.int8), i)),
        "last": (lambda x: x.at[-1].set(1), (fgrad.ShapeDtypeStruct((2**32,), np.int8),)),
    }[name]
    closed = fgrad.make_jaxpr(fun)(*args)
    text = str(closed)
    assert ("i64[" in text or name == "updates") and "i32[4294967296]" not in text  # boxes begin at positions along axes
    compile_jaxpr(closed)  # unoptimised: a position may be a constant in memory


@pytest.mark.parametrize("kind", ["min", "max"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_extrema_of_complex_numbers(dtype, kind):
    """They are ordered by real part, then by imaginary part, as max and min order them."""
    with fgrad.enable_x64(dtype == "complex128"):
        x = (RNG.integers(-2, 3, 60) + 1j * RNG.integers(-2, 3, 60)).astype(dtype)
        ids = RNG.integers(0, 7, 60)
        pick = {"min": min, "max": max}[kind]
        order = lambda v: (v.real, v.imag)
        want = [pick(x[ids == i], key=order) for i in range(7)]
        got = getattr(fgrad.ops, f"segment_{kind}")
        np.testing.assert_array_equal(got(x, ids, 7), want)
        np.testing.assert_array_equal(got(x, ids, 7, bucket_size=8), want)
        np.testing.assert_array_equal(
            fgrad.jit(lambda x, ids: getattr(jnp.full(7, x[0]).at[ids], kind)(x))(x, ids), [pick(w, x[0], key=order) for w in want]
        )


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("where", [(17,), (300,), (5000,), (20, 7), (3, 5)])
@pytest.mark.parametrize("mode", ["fill", "clip"])
def test_rows_of_a_batch_share_their_indices(dtype, where, mode):
    """Offsets are made once for many rows, in parts of long lines, whichever rows a thread begins and ends with."""
    rng = np.random.default_rng(0)
    threads = fgrad.get_num_threads()
    with fgrad.enable_x64():
        x = rng.integers(0, 100, (3, 37, 50)).astype(dtype)
        i = rng.integers(-80, 80, (3, *where)).astype(np.int32)
        kw = {"fill_value": 1} if mode == "fill" else {}
        take = fgrad.jit(fgrad.vmap(lambda x, i: jnp.asarray(x).at[:, i].get(mode=mode, **kw)))
        at = np.where(i < 0, i + 50, i).reshape(3, 1, -1)
        want = np.take_along_axis(x, np.broadcast_to(np.clip(at, 0, 49), (3, 37, at.shape[-1])), 2)
        if mode == "fill":
            want = np.where((at < 0) | (at >= 50), np.asarray(1, dtype), want)
        try:
            for n in (1, 2, 3):
                fgrad.set_num_threads(n)
                np.testing.assert_array_equal(take(x, i), want.reshape(3, 37, *where))
        finally:
            fgrad.set_num_threads(threads)
