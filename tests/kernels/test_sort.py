import ml_dtypes
import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad._kernels import parallel, search, sort
from tests.kernels.harness import run_kernel
from tests.kernels.test_movement import DTYPES, same

KERNELS = {**sort.KERNELS, **search.KERNELS}
FLOATS = [np.dtype(t) for t in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)]
REAL = [d for d in DTYPES if d.kind != "c"]


def noise(rng, shape, dtype, ties=True):
    """Values with ties, zeros of both signs, infinities and NaNs."""
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        part = np.float32 if dtype.itemsize == 8 else np.float64
        return np.stack([noise(rng, shape, part), noise(rng, shape, part)], -1).view(dtype)[..., 0]
    if dtype.kind not in "fV":
        if dtype.kind == "b":
            return rng.integers(0, 2, shape).astype(bool)
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
        return np.where(rng.integers(0, 2, shape, dtype=bool), x, x % 5).astype(dtype)
    x = rng.normal(size=shape) * 10
    x = (np.round(x) if ties else x).astype(dtype)
    pick = rng.integers(0, 20, shape)
    for k, v in enumerate((-0.0, 0.0, np.inf, -np.inf, np.nan, -np.nan)):
        x[pick == k] = v
    return x


def ranks(x, reverse=False):
    """Integers in the order that sort uses."""
    if x.dtype.kind == "c":
        return [ranks(x.real, reverse)[0], ranks(x.imag, reverse)[0]]
    if x.dtype in FLOATS:
        x = x.astype(np.float64) + 0.0  # one zero
    r = np.unique(x, return_inverse=True)[1].reshape(x.shape)  # NaNs are one value and last
    return [-r if reverse else r]


def reference_order(keys, axis, reverse=False):
    """The stable permutation along `axis`."""
    ks = [np.moveaxis(r, axis, -1) for k in keys for r in ranks(k, reverse)]
    return np.moveaxis(np.lexsort([k for k in reversed(ks)], axis=-1), -1, axis)


def run_sort(operands, axis, num_keys=1, reverse=False):
    return run_kernel(KERNELS["sort"], operands, [(x.shape, x.dtype) for x in operands], [axis, num_keys, 1, int(reverse)])


def check(operands, axis, num_keys=1, reverse=False):
    perm = reference_order(operands[:num_keys], axis, reverse)
    for got, x in zip(run_sort(operands, axis, num_keys, reverse), operands):
        same(got, np.take_along_axis(x, perm, axis))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sort_one(dtype):
    rng = np.random.default_rng(0)
    for shape in ((1,), (2,), (30,), (48,), (49,), (1000,), (9000,), (3, 60), (5, 7, 9), (40, 3), (3, 200, 2)):
        x = noise(rng, shape, dtype)
        for axis in range(x.ndim):
            for reverse in (False, True):
                check([x], axis, reverse=reverse)
                check([x[::-1]], axis, reverse=reverse)
                check([np.array(x.T, order="C").T], axis, reverse=reverse)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_many_rows(dtype):
    """Rows that are sorted side by side, in the lanes of vectors, and those that are left over."""
    rng = np.random.default_rng(5)
    for rows, n in ((2, 40), (3, 5), (16, 9), (17, 1), (37, 10), (50, 17), (20, 130), (5, 1024), (4, 1025)):
        x = noise(rng, (rows, n), dtype)
        iota = np.broadcast_to(np.arange(n, dtype=np.int32), x.shape).copy()
        for reverse in (False, True):
            check([x], 1, reverse=reverse)
            check([x.T.copy()], 0, reverse=reverse)
            check([x, iota, noise(rng, x.shape, np.complex128)], 1, reverse=reverse)
            check([np.round(x), iota] if x.dtype.kind == "f" else [x, iota], 1, 2, reverse)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_row_lengths(dtype):
    """One row at the lengths where its number of vectors changes, and where it is sorted otherwise."""
    rng = np.random.default_rng(6)
    for n in (24, 25, 31, 33, 63, 64, 65, 127, 129, 255, 256, 257, 400, 511, 513, 600, 1023, 1024, 1025):
        x = noise(rng, (n,), dtype)
        for reverse in (False, True):
            check([x], 0, reverse=reverse)
            check([x, np.arange(n)], 0, reverse=reverse)
            check([noise(rng, (n,), bool), x], 0, 2, reverse)


def spreads(rng, n):
    """Distributions that cells of equal ranges would divide badly, or not at all."""
    yield rng.normal(size=n)
    yield np.full(n, 3)
    yield np.arange(n)
    yield -np.arange(n)
    yield rng.integers(0, 5, n)
    yield np.maximum(rng.normal(size=n) * 100, 0)
    yield np.where(rng.random(n) < 0.95, 1000 + rng.random(n), rng.normal(size=n) * 20000)
    yield np.where(rng.random(n) < 0.5, rng.random(n), 30000 * rng.random(n))
    yield np.exp(10 * rng.random(n))
    yield 2.0 ** rng.integers(0, 15, n)
    yield np.where(np.arange(n) == n // 2, -30000, 7)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("dtype", [d for d in REAL if d.itemsize > 1], ids=str)
def test_spread(dtype, threads):
    """Long rows, whose keys are spread over cells."""
    rng, before = np.random.default_rng(7), parallel.get_num_threads()
    parallel.set_num_threads(threads)
    try:
        for n in (4095, 4096, 4097, 20_000) if threads == 1 else (32_767, 40_000):
            values = [y.clip(-60_000, 60_000) for y in spreads(rng, n)]
            for k, x in enumerate([noise(rng, (n,), dtype), *(y.astype(dtype) for y in values)]):
                order = np.arange(n, dtype=np.int32)
                check([x, order], 0, reverse=bool(k % 2))
                check([x % dtype.type(3) if dtype.kind in "iu" else x, rng.permutation(x), order], 0, 2)
    finally:
        parallel.set_num_threads(before)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float64, np.complex64], ids=lambda d: np.dtype(d).name)
def test_spread_wide(dtype):
    """Keys of which 32 bits do not tell the order: many alike in the upper ones, some of these not in the lower ones, ends of the range."""
    rng, n = np.random.default_rng(8), 30_000
    low, high = rng.integers(0, 3, n), rng.integers(0, 2000, n)
    bits = [
        high << 40 | low,
        high << 52 | low << 31,
        low << 62 | high,
        np.where(low == 0, high, -1 - high),
        np.where(high < 3, -high, 1 << 40),
    ]
    for b in bits:
        x = b.astype(np.int64).view(dtype)
        check([x, np.arange(n, dtype=np.int32)], 0)
        check([low, x, np.arange(n, dtype=np.int32)], 0, 2, reverse=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_argsort(dtype):
    rng = np.random.default_rng(1)
    for shape in ((1,), (40,), (2000,), (6000,), (3, 70), (70, 3)):
        x = noise(rng, shape, dtype)
        for axis in range(x.ndim):
            iota = np.moveaxis(np.broadcast_to(np.arange(shape[axis], dtype=np.int32), (*np.delete(shape, axis), shape[axis])), -1, axis)
            for reverse in (False, True):
                check([x, iota], axis, reverse=reverse)


def test_sort_several_keys():
    rng = np.random.default_rng(2)
    for shape in ((30,), (700,), (5000,), (20, 40)):
        for _ in range(6):
            dtypes = [DTYPES[k] for k in rng.integers(0, len(DTYPES), 4)]
            operands = [noise(rng, shape, d) if rng.integers(2) else noise(rng, shape, bool).astype(d) for d in dtypes]
            for num_keys in range(1, 5):
                for reverse in (False, True):
                    check(operands, len(shape) - 1, num_keys, reverse)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_sort_large(threads):
    before = parallel.get_num_threads()
    parallel.set_num_threads(threads)
    try:
        rng = np.random.default_rng(3)
        for n in (131072, 200001):
            for dtype in (np.float32, np.int8, np.float64, np.complex64):
                x = noise(rng, (n,), dtype, ties=False)
                check([x], 0)
                check([x, np.arange(n, dtype=np.int32)], 0, reverse=True)
            check([noise(rng, (n,), np.int8), noise(rng, (n,), np.float16), np.arange(n)], 0, 2)
    finally:
        parallel.set_num_threads(before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint64, np.int16])
def test_rows_that_are_parted(dtype):
    """Orders, periods and repetitions that are hard on the pivots of a quicksort, and on the ranges that threads sort."""
    rng = np.random.default_rng(7)
    for n in (1500, 9001, 140000):
        i = np.arange(n)
        mixed = np.where(i % 10, 3, rng.integers(0, 9999, n))
        for x in (i, -i, i % 17, i // (n // 3), np.minimum(i, i[::-1]), np.zeros(n), mixed, rng.integers(0, 2, n)):
            x = x.astype(dtype)
            check([x], 0)
            check([x, i.astype(np.int32)], 0, reverse=True)


def test_sort_keeps_bits():
    x = np.array([0x7FC00001, 0xFFC00002, 0x80000000, 0, 0x80000000, 0x7F800000, 0xFF800000], np.uint32).view(np.float32)
    want = np.array([0xFF800000, 0x80000000, 0, 0x80000000, 0x7F800000, 0x7FC00001, 0xFFC00002], np.uint32).view(np.float32)
    same(run_sort([x], 0)[0], want)


def test_sort_empty_and_rejects():
    for shape, axis in (((0,), 0), ((0, 3), 0), ((0, 3), 1), ((3, 0), 1)):
        same(run_sort([np.zeros(shape, np.float32)], axis)[0], np.zeros(shape, np.float32))
    x = np.zeros((2, 3), np.float32)
    for ins, outs, ip in (
        ([x], [x], [2, 1, 1]),
        ([x], [x], [-1, 1, 1]),
        ([x], [x], [0, 0, 1]),
        ([x], [x], [0, 2, 1]),
        ([x], [x], [0, 1]),
        ([x], [x, x], [0, 1, 1]),
        ([x, x.T], [x, x], [0, 1, 1]),
        ([x], [x.astype(np.int32)], [0, 1, 1]),
        ([], [], [0, 1, 1]),
    ):
        with pytest.raises(ValueError, match="sort"):
            run_kernel(KERNELS["sort"], ins, [(o.shape, o.dtype) for o in outs], ip)


def top_k(x, k):
    shape = (*x.shape[:-1], k)
    return run_kernel(KERNELS["top_k"], [x], [(shape, x.dtype), (shape, np.int32)], [k])


def check_top_k(x, k):
    order = reference_order([x], x.ndim - 1, reverse=True)[..., :k]
    values, indices = top_k(x, k)
    same(indices, order.astype(np.int32))
    same(values, np.take_along_axis(x, order, -1))


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_top_k(dtype):
    rng = np.random.default_rng(4)
    for shape in ((1,), (20,), (3, 50), (2, 3, 400), (5000,)):
        x = noise(rng, shape, dtype)
        for k in {k for k in (0, 1, 2, 5, 12, 16, 17, 40, shape[-1] // 2, shape[-1]) if k <= shape[-1]}:
            check_top_k(x, k)
    ramp = np.arange(3000).astype(dtype)
    check_top_k(ramp, 7), check_top_k(ramp, 50)
    check_top_k(ramp[::-1].copy(), 7), check_top_k(ramp[::-1].copy(), 50)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_top_k_large(threads):
    before = parallel.get_num_threads()
    parallel.set_num_threads(threads)
    try:
        rng = np.random.default_rng(5)
        for dtype in (np.float32, np.float64, np.int8):
            x = noise(rng, (2, 200001), dtype, ties=False)
            for k in (1, 40, 3000, 100000):
                check_top_k(x, k)
    finally:
        parallel.set_num_threads(before)


def test_top_k_rejects():
    x, i = np.zeros((2, 3), np.float32), np.int32
    for inputs, outs, k in (
        ([x], [((2, 4), np.float32), ((2, 4), i)], [4]),
        ([x], [((2, 2), np.float32), ((2, 2), i)], [-1]),
        ([x], [((2, 2), np.float32), ((2, 2), np.int64)], [2]),
        ([x], [((2, 2), np.float64), ((2, 2), i)], [2]),
        ([x], [((2, 1), np.float32), ((2, 2), i)], [2]),
        ([x.T], [((3, 1), np.float32), ((3, 1), i)], [1]),
        ([x.astype(np.complex64)], [((2, 1), np.complex64), ((2, 1), i)], [1]),
        ([x], [((2, 1), np.float32)], [1]),
        ([np.zeros(())], [((), np.float64), ((), i)], [1]),
    ):
        with pytest.raises(ValueError, match="top_k"):
            run_kernel(KERNELS["top_k"], inputs, outs, k)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_searchsorted(dtype):
    rng = np.random.default_rng(6)
    for n in (0, 1, 7, 300):
        a = noise(rng, (n,), dtype)
        a = a[reference_order([a], 0)]
        v = np.concatenate([a[rng.integers(0, n, 50)] if n else a, noise(rng, (150,), dtype)])
        v = v[: len(v) // 2 * 2].reshape(2, -1)
        both = ranks(np.concatenate([a, v.reshape(-1)]))
        rank = both[0] if len(both) == 1 else both[0] * (both[1].max() + 1) + both[1]
        for side in ("left", "right"):
            want = np.searchsorted(rank[:n], rank[n:], side).reshape(v.shape)
            for out in (np.int32, np.int64):
                same(run_kernel(KERNELS["searchsorted"], [a, v], [(v.shape, out)], [int(side == "right")])[0], want.astype(out))


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("n", [4, 40, 700])
def test_searchsorted_many_queries(dtype, n):
    """Queries that outnumber the elements begin at a grid's cell: spread out, in clusters, and with what no cell holds."""
    rng = np.random.default_rng(n)
    for power in (1, 9):
        x = rng.uniform(-1, 1, 5 * n + 2000) ** power * 100
        x = np.abs(x) if dtype.kind in "ub" else x
        x = x.astype(dtype)
        if dtype.kind not in "iub":
            x[::97], x[1::89], x[2::83], x[3::79] = np.nan, np.inf, -np.inf, -0.0
        a = x[:n][reference_order([x[:n]], 0)]
        rank = ranks(np.concatenate([a, x]))[0]
        for side in ("left", "right"):
            want = np.searchsorted(rank[:n], rank[n:], side).astype(np.int32)
            same(run_kernel(KERNELS["searchsorted"], [a, x], [(x.shape, np.int32)], [int(side == "right")])[0], want)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64], ids=str)
@pytest.mark.parametrize(
    ("rows", "n", "sought"), [((3,), 7, (5,)), ((2, 40), 30, ()), ((3,), 60, (25, 100)), ((70,), 0, (3,)), ((0,), 4, (2,))]
)
def test_searchsorted_in_rows(dtype, rows, n, sought):
    rng = np.random.default_rng(n)
    a, v = [rng.uniform(-50, 50, (*rows, *s)).astype(dtype) for s in ((n,), sought)]
    a = np.sort(a, -1)
    for side in ("left", "right"):
        want = np.array(
            [np.searchsorted(x, y, side) for x, y in zip(a.reshape(np.prod(rows), n), v.reshape(np.prod(rows), *sought))]
        ).reshape(v.shape)
        for out in (np.int32, np.int64):
            same(run_kernel(KERNELS["searchsorted"], [a, v], [(v.shape, out)], [int(side == "right")])[0], want.astype(out))


def test_searchsorted_unsorted_stays_inside():
    """Positions in what is not sorted mean nothing, but they are positions."""
    rng = np.random.default_rng(0)
    a, v = rng.normal(size=300).astype(np.float32), rng.normal(size=5000).astype(np.float32)
    out = run_kernel(KERNELS["searchsorted"], [a, v], [(v.shape, np.int32)], [0])[0]
    assert out.min() >= 0 and out.max() <= 300


def test_searchsorted_rejects():
    a, v = np.zeros(3, np.float32), np.zeros((2, 2), np.float32)
    for inputs, shape, dtype, ip in (
        ([a, v], (2, 2), np.float32, [0]),
        ([a, v], (4,), np.int32, [0]),
        ([np.zeros((3, 2), np.float32), v], (2, 2), np.int32, [0]),
        ([np.zeros((2, 2, 3), np.float32), np.zeros(2, np.float32)], (2,), np.int32, [0]),
        ([np.zeros((), np.float32), v], (2, 2), np.int32, [0]),
        ([a, v.astype(np.float64)], (2, 2), np.int32, [0]),
        ([a, v], (2, 2), np.int32, []),
        ([a[::-1], v], (2, 2), np.int32, [0]),
        ([a], (2, 2), np.int32, [0]),
    ):
        with pytest.raises(ValueError, match="searchsorted"):
            run_kernel(KERNELS["searchsorted"], inputs, [(shape, dtype)], ip)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32", "uint8"])
@pytest.mark.parametrize(("rows", "n", "k"), [(16, 10, 3), (37, 33, 1), (50, 33, 33), (19, 300, 17), (33, 310, 16), (16, 400, 20)])
def test_top_k_of_many_short_rows(dtype, rows, n, k):
    """Ties by position, NaN greatest, zeros of both signs as they are."""
    with fgrad.enable_x64():
        x = np.random.default_rng(n).integers(0, 60, (rows, n)).astype(np.float64)
        if "float" in dtype:
            x = x - 30
            x[0, 2] = x[3, n - 1] = np.nan
            x[1, ::3] = -0.0
        a = jnp.asarray(x, dtype=dtype)
        values, at = fgrad.lax.top_k(a, k)
        expected = np.argsort(np.where(np.isnan(x), -np.inf, -x), axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(at, expected)
        found, wanted = np.asarray(values, np.float64), np.take_along_axis(x, expected, 1)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
