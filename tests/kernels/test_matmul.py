"""`dot` against NumPy, over layouts, dtypes and the sizes at which it changes its way."""

import itertools
import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from fgrad._kernels import parallel
from fgrad._kernels.blas import openblas_config
from fgrad._kernels.gemm import WIDE
from fgrad._kernels.matmul import KERNELS
from tests.kernels.harness import contiguous, run_kernel

RNG = np.random.default_rng(0)
FLOATS = [np.float32, np.float64, np.complex64, np.complex128]
INTS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
HALVES = [np.float16, ml_dtypes.bfloat16]


@pytest.fixture(params=[1, 3], ids=["1thread", "3threads"])
def threads(request):
    before = parallel.get_num_threads()
    parallel.set_num_threads(request.param)
    yield request.param
    parallel.set_num_threads(before)


def values(shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return RNG.integers(info.min, info.max, shape, dtype, endpoint=True)
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape)).astype(dtype) if dtype.kind == "c" else x.astype(dtype)


def dot(a, b, out_dtype=None, c=None, transposed=False):
    (B, M, _), N = a.shape, b.shape[2]
    out_dtype = np.dtype(out_dtype or a.dtype)
    view = ((B, M, N), (M * N, 1, M)) if transposed else ((B, M, N), contiguous((B, M, N)))
    shape = (B, N, M) if transposed else (B, M, N)
    inputs = [a, b]
    if c is not None:
        inputs.append(np.swapaxes(np.ascontiguousarray(np.swapaxes(c, 1, 2)), 1, 2) if transposed else c)
    r = run_kernel(KERNELS["dot"], inputs, [(shape, out_dtype, *view)], ip=[] if c is None else [1])[0]
    return np.swapaxes(r, 1, 2) if transposed else r


def reference(a, b, out_dtype, c=None):
    out_dtype = np.dtype(out_dtype)
    if out_dtype.kind in "iu":
        r = np.einsum("bmk,bkn->bmn", a.astype(out_dtype), b.astype(out_dtype))
        return r if c is None else r + c
    wide = np.complex128 if out_dtype.kind == "c" else np.float64
    r = a.astype(wide) @ b.astype(wide)
    return r if c is None else r + c.astype(wide)


def check(a, b, out_dtype=None, c=None, transposed=False):
    out_dtype = np.dtype(out_dtype or a.dtype)
    got, want = dot(a, b, out_dtype, c, transposed), reference(a, b, out_dtype, c)
    assert got.shape == want.shape and got.dtype == out_dtype
    if out_dtype.kind in "iu":
        np.testing.assert_array_equal(got, want)
        return
    eps = float(ml_dtypes.finfo(out_dtype).eps)
    wide = np.complex128 if out_dtype.kind == "c" else np.float64
    size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64) + (0 if c is None else np.abs(c).astype(np.float64))
    narrow = np.dtype(out_dtype).itemsize == 2
    rounding = 8 + min(a.shape[2], 64)  # worst when every term rounds the same way
    bound = size * (rounding * float(np.finfo(np.float32).eps) + 2 * eps if narrow else rounding * eps) + 1e-6 * narrow
    assert np.all(np.abs(got.astype(wide) - want) <= bound)


SHAPES = [
    (1, 4, 8, 3),
    (1, 1, 1, 1),
    (1, 1, 700, 1),
    (1, 1, 33, 900),
    (1, 900, 33, 1),
    (1, 700, 1, 600),
    (2, 3, 40, 70),
    (1, 4, 600, 1100),
    (1, 64, 64, 64),
    (1, 300, 200, 260),
    (5, 17, 9, 33),
    (40, 5, 6, 7),
    (3, 130, 120, 110),
    (1, 1, 300000, 1),
    (1, 2, 70000, 3),
    (2, 1, 3000, 200),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
def test_shapes(shape, dtype, threads):
    B, M, K, N = shape
    check(values((B, M, K), dtype), values((B, K, N), dtype))


def layouts(shape, dtype):
    """The same shape in every kind of memory layout."""
    B, R, C = shape
    yield "rows", values(shape, dtype)
    yield "cols", np.swapaxes(values((B, C, R), dtype), 1, 2)
    yield "interleaved", np.swapaxes(values((R, B, C), dtype), 0, 1)
    yield "stepped", values((B, R, 2 * C), dtype)[:, :, ::2]
    yield "reversed", values(shape, dtype)[::-1, ::-1, ::-1]
    yield "padded", values((B, R + 3, C + 5), dtype)[:, 1 : R + 1, 2 : C + 2]
    yield "shared", np.broadcast_to(values((R, C), dtype), shape)
    yield "one row", np.broadcast_to(values((B, 1, C), dtype), shape)
    yield "one column", np.broadcast_to(values((B, R, 1), dtype), shape)
    yield "scalar", np.broadcast_to(values((1, 1, 1), dtype), shape)


@pytest.mark.parametrize(
    "shape",
    [
        (2, 19, 35, 21),
        (3, 1, 20, 31),
        (3, 31, 20, 1),
        (2, 3, 50, 9),
        (3, 4, 1, 6),
        (1, 70, 90, 80),
        (2, 1, 40, 1),
        (18, 3, 2, 2),
        (70, 3, 4, 1),
        (1, 77, 3, 5),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.int16, ml_dtypes.bfloat16])
def test_layouts(shape, dtype):
    B, M, K, N = shape
    for (na, a), (nb, b) in itertools.product(layouts((B, M, K), dtype), layouts((B, K, N), dtype)):
        for transposed in (False, True):
            c = values((B, M, N), dtype) if transposed else None
            try:
                check(a, b, c=c, transposed=transposed)
            except AssertionError as e:
                raise AssertionError(f"a {na}, b {nb}, out transposed {transposed}") from e


@pytest.mark.parametrize("dtype", INTS)
def test_integers_wrap_and_widen(dtype, threads):
    for shape in [(1, 5, 7, 3), (2, 40, 33, 600), (1, 700, 20, 3), (3, 1, 9, 1)]:
        B, M, K, N = shape
        a, b = values((B, M, K), dtype), values((B, K, N), dtype)
        check(a, b)
        check(a, b, c=values((B, M, N), dtype))
        for wide in INTS:
            if np.dtype(wide).itemsize > np.dtype(dtype).itemsize:
                check(a, np.swapaxes(np.ascontiguousarray(np.swapaxes(b, 1, 2)), 1, 2), wide)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 700, 500),
        (1, 1, 2000, 900),
        (2, 6, 33, 70),
        (1, 40, 50, 60),
        (3, 20, 30, 40),
        (1, 600, 5000, 2),
        (1, 16, 9000, 70),
        (67, 4, 4, 4),
        (131, 1, 3, 2),
        (1, 999, 8, 8),
    ],
    ids=str,
)
def test_sixteen_bit(dtype, shape, threads):
    B, M, K, N = shape
    a, b = values((B, M, K), dtype), values((B, K, N), dtype)
    bt = np.swapaxes(np.ascontiguousarray(np.swapaxes(b, 1, 2)), 1, 2)
    for y in (b, bt):
        for out in (dtype, np.float32):
            check(a, y, out)
            check(a, y, out, c=values((B, M, N), out))


@pytest.mark.parametrize("dtype", HALVES)
def test_sixteen_bit_views(dtype, threads):
    """Operands whose elements cannot be read in pairs where they lie: odd K, odd strides, odd offsets, transposes, shared ones."""
    x = values((2, 61, 83), dtype)
    y = values((2, 83, 45), dtype)
    for a, b in (
        (x, y),
        (x[:, :, 1:], y[:, 1:]),
        (x[:, :, 1:82], y[:, :81, ::2]),
        (np.swapaxes(x, 1, 2)[:, :60], np.swapaxes(y, 1, 2)[:, :, :40].repeat(2, 1)[:, :61]),
        (x[:1].repeat(2, 0)[:, ::-1], np.broadcast_to(y[:1], y.shape)),
        (np.broadcast_to(x[1:, :, :64], (2, 61, 64)), y[:, 19:, 3:]),
    ):
        check(a, b, dtype)
        check(a, b, np.float32, c=values((2, a.shape[1], b.shape[2]), np.float32))


@pytest.mark.parametrize("dtype", HALVES)
def test_rounding_to_sixteen_bits(dtype):
    """Every number comes back from float32, in whole vectors and beside them (bfloat16's subnormal ones may be 0); sums round to even."""
    bits = np.arange(65536, dtype=np.uint16)
    every, rows = bits.view(dtype)[None, :, None], np.ones((1, 1, 19), dtype)
    out = dot(every, rows, dtype)
    wide = every.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(out.astype(np.float32)), np.broadcast_to(np.isnan(wide), out.shape))
    keep = np.isfinite(wide[0, :, 0]) & (np.abs(wide[0, :, 0]) >= np.finfo(np.float32).tiny)
    np.testing.assert_array_equal(out[0, keep].view(np.uint16), np.repeat(bits[keep, None], 19, 1))
    half = float(ml_dtypes.finfo(dtype).eps) / 2
    halfway = np.stack([np.ones((1, 40)), np.full((1, 40), half)], 2).astype(dtype)
    np.testing.assert_array_equal(dot(halfway, np.ones((1, 2, 40), dtype), dtype).astype(np.float32), 1)


def test_half_conversion_is_exact():
    every = np.arange(65536, dtype=np.uint16).view(np.float16)[None, :, None]
    one = np.ones((1, 1, 1), np.float16)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(dot(every, one, np.float32), every.astype(np.float32))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("transposed", [False, True])
def test_accumulate(shape, transposed, threads):
    B, M, K, N = shape
    check(values((B, M, K), np.float32), values((B, K, N), np.float32), c=values((B, M, N), np.float32), transposed=transposed)


@pytest.mark.parametrize("dtype", [*FLOATS, *HALVES, np.int32])
def test_empty(dtype):
    for B, M, K, N in [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 4, 0), (2, 3, 0, 5), (1, 0, 0, 0)]:
        a, b, c = values((B, M, K), dtype), values((B, K, N), dtype), values((B, M, N), dtype)
        assert not np.any(dot(a, b))
        np.testing.assert_array_equal(dot(a, b, c=c), c if K == 0 else c * 0)
        np.testing.assert_array_equal(dot(a, b, c=c, transposed=True), c if K == 0 else c * 0)


@pytest.mark.parametrize("shape", [(1, 1, 40, 50), (1, 3, 5, 7), (1, 33, 34, 35)], ids=str)
def test_nan_and_inf(shape):
    B, M, K, N = shape
    a, b = np.ones((B, M, K), np.float32), np.ones((B, K, N), np.float32)
    a[0, 0, 1], b[0, 2, 1], b[0, 1, 2] = np.inf, np.nan, 0
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(dot(a, b), a @ b)


def test_same_result_for_any_number_of_threads_when_k_is_split():
    before = parallel.get_num_threads()
    for M, K, N in [(1, 500000, 1), (2, 90000, 30), (40, 70000, 50)]:
        a, b = values((1, M, K), np.float32), values((1, K, N), np.float32)
        results = []
        for n in (1, 2, 5):
            parallel.set_num_threads(n)
            results.append(dot(a, b))
        np.testing.assert_array_equal(results[0], results[1])
        np.testing.assert_array_equal(results[0], results[2])
    parallel.set_num_threads(before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "shape", [(1, 37, 13), (1, 300, 33), (1, 1030, 50), (1, 700, 600), (1, 129, 70), (1, 2100, 64), (1, 640, 1024)], ids=str
)
def test_one_row_gives_the_same_bits_wherever_memory_lies(shape, dtype):
    M, K, N = shape
    a, b = values((1, M, K), dtype), values((1, K, N), dtype)

    def moved(x, by):
        """A copy that begins so many elements after a multiple of 64 bytes."""
        room = np.zeros(x.size + 64, x.dtype)
        start = -room.ctypes.data % 64 // x.itemsize + by
        room[start : start + x.size] = x.ravel()
        return room[start : start + x.size].reshape(x.shape)

    for other in (b, np.swapaxes(np.ascontiguousarray(np.swapaxes(b, 1, 2)), 1, 2)):
        turned = other is not b
        results = []
        for by in (0, 1, 4, 7):
            y = np.swapaxes(moved(np.swapaxes(other, 1, 2), by), 1, 2) if turned else moved(other, by)
            results.append(dot(moved(a, by), y))
        np.testing.assert_allclose(results[0], reference(a, b, dtype), rtol=1e-4 if dtype == np.float32 else 1e-12, atol=1e-3)
        for r in results[1:]:
            np.testing.assert_array_equal(r, results[0])


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("shape", [(1, 77, 9), (1, 16, 4), (1, 5, 3), (1, 1030, 41), (1, 9000, 6)], ids=str)
def test_one_row_against_rows_of_sixteen_bits(shape, dtype, threads):
    M, K, N = shape
    a, b = values((1, M, K), dtype), np.swapaxes(values((1, N, K), dtype), 1, 2)
    for out in (np.float32, dtype):
        check(a, b, out_dtype=out)
        check(np.swapaxes(b, 1, 2), np.swapaxes(a, 1, 2), out_dtype=out)
    odd = np.swapaxes(values((1, N, K + 1), dtype)[:, :, 1:], 1, 2)  # rows that begin between words
    check(a, odd, out_dtype=np.float32)


def test_grid_of_panels():
    before = parallel.get_num_threads()
    parallel.set_num_threads(6)
    for M, K, N in [(250, 210, 300), (40, 300, 1000), (1000, 300, 40)]:
        for dtype in (np.float32, np.complex64):
            check(values((1, M, K), dtype), values((1, K, N), dtype))
            check(values((2, M, K), dtype), values((2, K, N), dtype), c=values((2, M, N), dtype), transposed=True)
    parallel.set_num_threads(before)


# sizes around the register tile (1 to 14 rows, 1 to 2 vectors of up to 16 elements), the pieces of K and the packed blocks
TILES = [1, 2, 3, 5, 6, 7, 12, 13, 14, 15, 16, 17, 28, 29, 31, 33, 48, 67]


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_tile(dtype):
    for M, N in itertools.product(TILES, TILES):
        check(values((1, M, 37), dtype), values((1, 37, N), dtype))


PACKED = [
    (1, 130, 1030, 90),
    (1, 90, 2048, 1024),
    (1, 420, 700, 520),
    (1, 60, 1024, 256),
    (3, 50, 515, 300),
    (1, 13, 600, 3000),
    (1, 2, 520, 900),
    (1, 16, 1000, 1000),
    (1, 33, 500, 1203),
    (1, 100, 490, 1024),
    (1, 150, 260, 1500),
    (2, 20, 700, 1024),
]
PACKED = [*itertools.product([np.float32, np.float64], PACKED), (np.complex64, (1, 60, 1024, 256)), (np.complex128, (3, 50, 515, 300))]
PACKED.append((np.complex64, (1, 9, 333, 700)))


@pytest.mark.parametrize("dtype, shape", PACKED, ids=str)
def test_packed_and_direct_operands(shape, dtype):
    """Pieces of K, rows a page apart (packed), transposes and accumulation, on one thread and on two: the same bits."""
    B, M, K, N = shape
    before = parallel.get_num_threads()
    a, b, c = values((B, M, K), dtype), values((B, K, N), dtype), values((B, M, N), dtype)
    for x, y in itertools.product((a, a.swapaxes(1, 2).copy().swapaxes(1, 2)), (b, b.swapaxes(1, 2).copy().swapaxes(1, 2))):
        for acc, transposed in itertools.product((None, c), (False, True)):
            check(x, y, c=acc, transposed=transposed)
            results = []
            for n in (1, 2, 5) if WIDE else (1, 1, 1):
                parallel.set_num_threads(n)
                results.append(dot(x, y, c=acc, transposed=transposed))
            parallel.set_num_threads(before)
            np.testing.assert_array_equal(results[0], results[1])
            np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_more_rows_than_are_packed_at_once(dtype, threads):
    a, b = values((1, 3300, 700), dtype), values((1, 700, 517), dtype)
    check(a, b)
    check(a.swapaxes(1, 2).copy().swapaxes(1, 2), b)
    check(values((1, 700, 1400), dtype)[:, ::2, ::2], b)


@pytest.mark.parametrize("shape", [(1, 30, 40, 50), (1, 64, 1024, 1024), (1, 3, 600, 700)], ids=str)
def test_output_is_never_read_unless_accumulated(shape):
    """Garbage in the output's memory, a NaN say, must not reach the result, and infinities stay in their row and column."""
    B, M, K, N = shape
    a, b = values((B, M, K), np.float32), values((B, K, N), np.float32)
    a[0, 1, 2] = np.inf
    b[0, 5, 7] = np.nan
    with np.errstate(invalid="ignore"):
        got, want = dot(a, b), reference(a, b, np.float32)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", list(itertools.product(itertools.permutations(range(3)), repeat=2)), ids=str)
def test_tiny_batches(layout, dtype, threads):
    """An entry in each lane: every order of the axes of either operand, batches that leave lanes empty, results by rows and by columns."""
    for batch, m, k, n in ((16, 4, 4, 4), (37, 3, 5, 7), (100, 1, 4, 3), (61, 8, 2, 1), (19, 1, 9, 1), (23, 5, 1, 2), (3, 5, 1, 2)):
        operands = []
        for shape, order in zip(((batch, m, k), (batch, k, n)), layout):
            stored = values(tuple(shape[i] for i in order), dtype)
            operands.append(np.transpose(stored, np.argsort(order)))
        check(*operands)
        check(*operands, transposed=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(9, 40, 100), (16, 100, 2000), (128, 1030, 300), (5, 600, 700), (2, 17, 33)], ids=str)
def test_few_rows_against_rows(shape, dtype, threads):
    """x @ y.T, whose tiles are computed with y's rows and stored turned."""
    m, k, n = shape
    x, y = values((1, m, k), dtype), values((1, n, k), dtype)
    check(x, np.swapaxes(y, 1, 2))
    check(y, np.swapaxes(x, 1, 2), transposed=True)
    check(x, np.swapaxes(y, 1, 2), c=values((1, m, n), dtype))


FEW = [(100, 3, 3), (300, 256, 4), (50, 24, 2), (65, 40, 8), (40, 1000, 10), (33, 1030, 9), (9000, 17, 5), (1000, 1100, 6)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", FEW, ids=str)
def test_few_columns(shape, dtype):
    """Whichever of the operands and of the result is transposed; bits do not depend on the number of threads."""
    m, k, n = shape
    c, before = values((1, m, n), dtype), parallel.get_num_threads()
    for x_turned, y_turned, transposed in itertools.product([False, True], repeat=3):
        x = np.swapaxes(values((1, k, m), dtype), 1, 2) if x_turned else values((1, m, k), dtype)
        y = np.swapaxes(values((1, n, k), dtype), 1, 2) if y_turned else values((1, k, n), dtype)
        check(x, y, transposed=transposed)
        check(x, y, c=c, transposed=transposed)
        results = []
        for threads in (1, 2, 5):
            parallel.set_num_threads(threads)
            results.append(dot(x, y, transposed=transposed))
        parallel.set_num_threads(before)
        np.testing.assert_array_equal(results[0], results[1])
        np.testing.assert_array_equal(results[0], results[2])


COMPLEX = [(1, 8, 33, 17), (2, 40, 5, 1), (1, 9, 70, 8), (20, 3, 5, 2), (3, 64, 20, 130)]
COMPLEX += [(1, 7, 3, 4), (100, 6, 20, 6), (1, 2, 300, 33), (1, 8, 20000, 8), (1, 5, 4100, 6)]
COMPLEX += [(30, 78, 35, 1), (20, 3, 118, 1), (1, 3, 600, 40), (1, 1200, 13, 1), (1, 2, 1, 1), (1, 4, 9000, 3), (1, 1300, 70, 1)]


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("shape", COMPLEX, ids=str)
def test_complex_operands(shape, dtype, threads):
    """Rows and columns that lie either way, accumulated too; an infinity stays in its row."""
    B, M, K, N = shape
    a, b, c = values((B, M, K), dtype), values((B, K, N), dtype), values((B, M, N), dtype)
    for x in (a, np.swapaxes(np.ascontiguousarray(np.swapaxes(a, 1, 2)), 1, 2), values((B, M, 2 * K), dtype)[:, :, ::2]):
        for y in (b, np.swapaxes(np.ascontiguousarray(np.swapaxes(b, 1, 2)), 1, 2), values((B, 2 * K, 3 * N), dtype)[:, ::2, ::3]):
            check(x, y)
            check(x, y, transposed=True)
            check(x, y, c=c)
    b[:] = 1
    a[:, 0, 0] = complex(np.inf, 0)
    with np.errstate(invalid="ignore"):
        out = dot(a, b)
    assert not np.isfinite(out[:, 0]).any() and np.isfinite(out[:, 1:]).all()


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("shape", [(70, 21, 8, 2), (33, 6, 15, 20), (16, 1, 3, 5), (100, 7, 1, 4), (40, 16, 10, 13)], ids=str)
def test_tiny_batches_of_integers(shape, dtype, threads):
    B, M, K, N = shape
    a, b = values((B, M, K), dtype), values((B, K, N), dtype)
    for x in (a, np.swapaxes(np.ascontiguousarray(np.swapaxes(a, 1, 2)), 1, 2), values((B, M + 1, 2 * K), dtype)[:, 1:, ::2]):
        check(x, b)
        check(x, b, transposed=True)
    check(a, b, c=values((B, M, N), dtype))


@pytest.mark.parametrize("dtype", [*HALVES, np.int8, np.int32])
@pytest.mark.parametrize("shape", [(30, 106, 2, 1), (3, 78, 31, 1), (2, 600, 33, 1), (40, 45, 17, 3), (1, 530, 8, 7)], ids=str)
def test_few_columns_against_short_rows(shape, dtype, threads):
    """Rows that follow each other, and rows that lie apart; accumulated too."""
    B, M, K, N = shape
    b = values((B, K, N), dtype)
    for a in (values((B, M, K), dtype), values((B, M, K + 3), dtype)[:, :, :K]):
        check(a, b)
        check(a, b, c=values((B, M, N), dtype))
        check(a, b, np.float32 if dtype in HALVES else np.int64)


def test_interleaved_output():
    """Heads beside each other in memory: the batch stride is smaller than the row stride."""
    B, M, K, N = 3, 20, 8, 16
    a, b = values((B, M, K), np.float32), values((B, K, N), np.float32)
    r = run_kernel(KERNELS["dot"], [a, b], [((M, B, N), np.float32, (B, M, N), (N, B * N, 1))])[0]
    np.testing.assert_allclose(np.swapaxes(r, 0, 1), a @ b, rtol=1e-5, atol=1e-5)


def run(a, b, out, ip=(), extra=()):
    return run_kernel(KERNELS["dot"], [a, b, *extra], [out], ip=ip)


def test_rejections():
    f = np.float32
    a, b = np.zeros((2, 3, 4), f), np.zeros((2, 4, 5), f)
    good = ((2, 3, 5), f)
    run(a, b, good)
    bad = [
        (dict(a=a[0], b=b, out=good), "dimensions"),
        (dict(a=a, b=b[:1], out=good), "shapes do not fit"),
        (dict(a=a, b=b[:, :3], out=good), "shapes do not fit"),
        (dict(a=a, b=b, out=((2, 3, 4), f)), "shapes do not fit"),
        (dict(a=a, b=b.astype(np.float64), out=good), "dtype"),
        (dict(a=a > 0, b=b > 0, out=((2, 3, 5), np.bool_)), "bool"),
        (dict(a=a, b=b, out=((2, 3, 5), np.float64)), "output"),
        (dict(a=a.astype(np.int32), b=b.astype(np.int32), out=((2, 3, 5), np.int16)), "output"),
        (dict(a=a, b=b, out=good, ip=[1]), "inputs"),
        (dict(a=a, b=b, out=good, ip=[2]), "parameter"),
        (dict(a=a, b=b, out=good, ip=[1], extra=[np.zeros((2, 5, 3), f).swapaxes(1, 2)]), "accumulated"),
        (dict(a=a, b=b, out=((2, 3, 5), f, (2, 3, 5), (0, 5, 1))), "distinct"),
        (dict(a=a, b=b, out=((2, 3, 10), f, (2, 3, 5), (30, 10, 2))), "strides must be 1"),
    ]
    for kwargs, message in bad:
        with pytest.raises(Exception, match=message):
            run(**kwargs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_single_tiles_and_rows(dtype):
    """Small products in every layout, beside sizes and strides that take another way."""
    for m, k, n in itertools.product((1, 2, 4, 14, 15), (1, 3, 4, 8, 16, 17, 65), (1, 2, 4, 5, 8, 16, 17, 33)):
        a, b, c = values((1, m, k), dtype), values((1, k, n), dtype), values((1, m, n), dtype)
        turned_a, turned_b = (np.swapaxes(np.ascontiguousarray(np.swapaxes(x, 1, 2)), 1, 2) for x in (a, b))
        check(a, b)
        check(turned_a, turned_b, c=c)
        check(a, turned_b, transposed=True)
        check(turned_a[:, ::-1], b[:, :, ::-1], c=c)
        check(np.broadcast_to(a[:, :, :1], a.shape), np.broadcast_to(b[:, :1], b.shape))


def test_openblas_is_loaded_without_a_pool():
    assert "OpenBLAS" in openblas_config()
    code = (
        "import os, numpy\nn = len(os.listdir('/proc/self/task'))\nimport fgrad._kernels.blas\n"
        "assert len(os.listdir('/proc/self/task')) == n\nassert 'OPENBLAS_NUM_THREADS' not in os.environ"
    )
    if os.path.isdir("/proc/self/task"):
        env = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
        subprocess.run([sys.executable, "-c", code], check=True, env=env)


def test_products_after_fork():
    code = (
        "import os, numpy as np\nfrom tests.kernels.test_matmul import dot\n"
        "a = np.ones((1, 300, 300), np.float32)\ndot(a, a)\npid = os.fork()\n"
        "if pid == 0:\n    os._exit(0 if (dot(a, a) == 300).all() else 1)\nassert os.waitpid(pid, 0)[1] == 0\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_missing_openblas_says_what_to_install():
    code = (
        "import importlib.util as u\nfind = u.find_spec\nu.find_spec = lambda n, *a: None if n == 'scipy_openblas32' else find(n, *a)\n"
        "try:\n    import fgrad._kernels.blas\nexcept ImportError as e:\n"
        "    assert 'pip install scipy-openblas32' in str(e)\nelse:\n    raise SystemExit(1)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
