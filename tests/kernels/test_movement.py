import itertools

import ml_dtypes
import numpy as np
import pytest

from fgrad._kernels import array, creation, executor, movement, parallel
from tests.kernels.harness import _Array, _Aval, contiguous, run_kernel

KERNELS = movement.KERNELS
DTYPES = [
    np.dtype(d)
    for d in (
        np.bool_,
        np.int8,
        np.int16,
        np.int32,
        np.int64,
        np.uint8,
        np.uint16,
        np.uint32,
        np.uint64,
        np.float16,
        ml_dtypes.bfloat16,
        np.float32,
        np.float64,
        np.complex64,
        np.complex128,
    )
]


def values(rng, shape, dtype):
    """Random bytes: movement must not care what they mean."""
    dtype = np.dtype(dtype)
    n = int(np.prod(shape, dtype=np.int64))
    raw = rng.integers(0, 2 if dtype.kind == "b" else 256, n * dtype.itemsize, dtype=np.uint8)
    return raw.view(dtype).reshape(shape)


def bits(x):
    x = np.array(x, order="C")
    return x.reshape(-1).view(np.uint8).tobytes(), x.shape, x.dtype


def same(got, want):
    assert bits(got) == bits(want)


def random_view(rng, dtype, max_ndim=5, max_dim=7):
    """An array with permuted, stepped, reversed and broadcast axes."""
    ndim = int(rng.integers(0, max_ndim + 1))
    x = values(rng, tuple(int(n) * 2 for n in rng.integers(1, max_dim + 1, ndim)), dtype)
    index = tuple(
        slice(*[(None, None, None), (None, None, -1), (1, None, 2), (None, None, -2), (0, 1, None)][rng.integers(5)]) for _ in range(ndim)
    )
    x = x[(*index, ...)].transpose(rng.permutation(ndim))
    if ndim and rng.integers(2):
        d = int(rng.integers(ndim))
        x = np.broadcast_to(np.take(x, [0], axis=d), (*x.shape[:d], int(rng.integers(1, 9)), *x.shape[d + 1 :]))
    return x


def in_place(kernel, inputs, ip=()):
    """Run with input 0 donated to the output: the result, which lies where the input lay."""
    if array.get_array_class() is None:
        array.set_array_class(_Array)
    arrays = [creation.from_numpy(x, _Aval(x.shape, x.dtype), True) for x in inputs]
    slots = [(a.code, a.aval.shape, contiguous(a.aval.shape), 1 + i, 0) for i, a in enumerate(arrays)]
    n = len(arrays)
    slots.append((arrays[0].code, arrays[0].aval.shape, contiguous(arrays[0].aval.shape), 1 + n, 0))
    inst = (0, kernel, list(range(n)), [n], list(ip), [], [], None)
    program = executor.Program(
        slots=slots,
        insts=[inst],
        in_avals=[a.aval for a in arrays],
        in_strides=[None] * n,
        in_codes=[a.code for a in arrays],
        consts=[],
        outs=[(arrays[0].aval, 0)],
        out_codes=[arrays[0].code],
        arena_bytes=0,
        donated=(0,),
    )
    return program.run(arrays)[0].numpy_view()


def copy(x, *view):
    return run_kernel(KERNELS["copy"], [x], [(x.shape, x.dtype, *view)])[0]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copy_random_views(dtype):
    rng = np.random.default_rng(0)
    for _ in range(40):
        x = random_view(rng, dtype)
        same(copy(x), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copy_narrow_rows(dtype):
    """Rows backwards and items repeated, shorter and longer than a vector, from whole arrays and from inside of larger ones."""
    rng = np.random.default_rng(3)
    for w in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 65):
        for h in (1, 2, 37):
            x = values(rng, (h + 2, w + 3), dtype)
            for y in (x[:, ::-1], x[::-1, ::-1], x[1:-1, 2:-1][:, ::-1], np.ascontiguousarray(x[1:-1, 2:-1])[:, ::-1]):
                same(copy(y), y)
            y = np.broadcast_to(x[1:-1, 1:2], (h, w))
            same(copy(y), y)
            y = np.broadcast_to(x[..., None], (*x.shape, w))
            same(copy(y), y)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copy_turns_narrow_rows(dtype):
    rng = np.random.default_rng(4)
    for n in range(1, 13):
        for rows in (2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 130):
            x = values(rng, (rows, n), dtype)
            same(copy(x.T), x.T)
            y = np.ascontiguousarray(x.T)
            same(copy(y.T), y.T)
            z = values(rng, (3, rows, n), dtype).transpose(0, 2, 1)
            same(copy(z), z)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copy_of_rows_that_come_several_times(dtype):
    """Nearest upsampling: short rows, and lines of them again, from whole arrays, from inside of larger ones and backwards."""
    rng = np.random.default_rng(5)
    for c in (1, 2, 3, 4, 5, 7, 16, 33, 130):
        for n, h, w, times in ((1, 2, 1, 2), (2, 3, 5, 2), (1, 3, 40, 3), (3, 2, 9, 5), (1, 2, 700, 2)):
            x = values(rng, (n, h + 1, w + 2, c + 1), dtype)
            for y in (np.ascontiguousarray(x[:, 1:, 1:-1, 1:]), x[:, 1:, 1:-1, 1:], x[:, ::-1, ::-1, :c]):
                k, m, o, p = y.shape
                same(
                    copy(np.broadcast_to(y[:, :, None, :, None], (k, m, times, o, times, p))),
                    y.repeat(times, 1).repeat(times, 2).reshape(k, m, times, o, times, p),
                )
                same(copy(np.broadcast_to(y[:, :, :, None], (k, m, o, times, p))), y.repeat(times, 2).reshape(k, m, o, times, p))
                same(copy(np.broadcast_to(y[:, :, None], (k, m, times, o, p))), y.repeat(times, 1).reshape(k, m, times, o, p))


def test_copy_every_transposition():
    rng = np.random.default_rng(1)
    for dtype in (np.int8, np.float16, np.float32, np.float64, np.complex128):
        x = values(rng, (3, 18, 1, 33), dtype)
        for perm in itertools.permutations(range(4)):
            same(copy(x.transpose(perm)), x.transpose(perm))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copy_of_every_few_elements(dtype):
    """Short axes that leave the inside of a row for the outside, as in a pixel shuffle: rows of every second to fifth element."""
    rng = np.random.default_rng(4)
    for n in (1, 15, 16, 17, 33, 70):
        for a, b in ((1, 2), (2, 2), (1, 3), (2, 1), (1, 4), (5, 1), (3, 2)):
            x = values(rng, (2, 3, n, a, b), dtype)
            for perm in ((0, 3, 1, 4, 2), (0, 4, 1, 3, 2), (3, 4, 0, 1, 2)):
                same(copy(x.transpose(perm)), x.transpose(perm))
                same(copy(x[:, 1:].transpose(perm)), x[:, 1:].transpose(perm))


@pytest.mark.parametrize("shape", [(1000, 700), (700, 1000), (65, 129), (16, 16), (2, 300000), (300000, 2), (5, 300, 301)])
@pytest.mark.parametrize("threads", [1, 2])
def test_copy_large(shape, threads):
    before = parallel.get_num_threads()
    parallel.set_num_threads(threads)
    try:
        x = values(np.random.default_rng(2), shape, np.float32)
        for view in (x, x.T, x[::-1], x[..., ::-1], x.swapaxes(-1, -2), np.broadcast_to(x[..., :1], shape)):
            same(copy(view), view)
    finally:
        parallel.set_num_threads(before)


@pytest.mark.parametrize("n", [1023, 1024, 1025, 1087, 1088, 1089, 1280, 1344, 1345, 5000])
def test_long_rows_of_any_alignment(n):
    x = values(np.random.default_rng(4), (3 * n,), np.uint8)
    for ahead in (1, 4, 63, 64, 65):
        parts = [x[:ahead], x[ahead + 5 : ahead + 5 + n], x[7 : 7 + n]]
        same(run_kernel(KERNELS["concatenate"], parts, [((ahead + 2 * n,), x.dtype)], [0])[0], np.concatenate(parts))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("run", [1, 2, 3, 4, 8])
def test_copy_of_pieces(run, dtype):
    """Rows of a few elements that lie side by side change places: items of up to 16 bytes, also where memory begins anywhere."""
    rng = np.random.default_rng(run)
    for p, q in ((2, 5), (3, 40), (17, 33), (70, 2)):
        x = values(rng, (p, 2, q * run + 1), dtype)[..., 1:].reshape(p, 2, q, run) if run == 3 else values(rng, (p, 2, q, run), dtype)
        for view in (x.transpose(0, 2, 1, 3), x.transpose(2, 1, 0, 3), x[:, ::-1].transpose(2, 0, 1, 3), x[::2, :, 1:, :]):
            same(run_kernel(KERNELS["copy"], [view], [(view.shape, dtype)])[0], view)
    wide = values(rng, (9, 2, 11 * run + 1), dtype)
    view = np.lib.stride_tricks.as_strided(
        wide[..., 1:], (9, 11, 2, run), [wide.strides[k] * s for k, s in ((0, 1), (2, run), (1, 1), (2, 1))]
    )
    same(run_kernel(KERNELS["copy"], [view], [(view.shape, dtype)])[0], view)


def test_copy_into_strided_output():
    rng = np.random.default_rng(3)
    x = values(rng, (4, 5, 6), np.int16)
    for perm in itertools.permutations(range(3)):
        base = tuple(np.array(x.shape)[list(perm)])
        strides = np.empty(3, int)
        strides[list(perm)] = contiguous(base)
        got = run_kernel(KERNELS["copy"], [x[::-1]], [(base, x.dtype, x.shape, tuple(int(s) for s in strides))])[0]
        same(got, x[::-1].transpose(perm))


def test_copy_empty_and_scalar():
    same(copy(np.zeros((0, 3), np.float32)), np.zeros((0, 3), np.float32))
    same(copy(np.zeros((3, 0), np.float32).T), np.zeros((0, 3), np.float32))
    same(copy(np.array(3.5)), np.array(3.5))


def test_copy_rejects():
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(ValueError, match="float32.*float64"):
        run_kernel(KERNELS["copy"], [x], [((2, 3), np.float64)])
    with pytest.raises(ValueError, match=r"\(2, 3\).*\(3, 2\)"):
        run_kernel(KERNELS["copy"], [x], [((3, 2), np.float32)])
    with pytest.raises(ValueError, match="stride 0"):
        run_kernel(KERNELS["copy"], [x], [((2, 3), np.float32, (2, 3), (0, 1))])
    with pytest.raises(ValueError, match="inputs"):
        run_kernel(KERNELS["copy"], [x, x], [((2, 3), np.float32)])


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_iota(dtype):
    for shape in ((300,), (3, 4, 5), (2, 70000), (70000, 2), (0, 3), (1,)):
        for axis in range(len(shape)):
            with np.errstate(over="ignore"):
                ramp = np.arange(shape[axis]).astype(dtype)
            want = np.broadcast_to(ramp.reshape([-1 if d == axis else 1 for d in range(len(shape))]), shape)
            same(run_kernel(KERNELS["iota"], [], [(shape, dtype)], [axis])[0], want)


def test_iota_rejects():
    with pytest.raises(ValueError, match="bool"):
        run_kernel(KERNELS["iota"], [], [((3,), np.bool_)], [0])
    for axis in (-1, 1):
        with pytest.raises(ValueError, match="axis"):
            run_kernel(KERNELS["iota"], [], [((3,), np.int32)], [axis])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_concatenate(dtype):
    rng = np.random.default_rng(4)
    for shape in ((5,), (3, 4), (2, 3, 4)):
        for axis in range(len(shape)):
            parts = []
            for n in (2, 0, 1, 7):
                x = values(rng, (*shape[:axis], n, *shape[axis + 1 :]), dtype)
                parts += [x, x[::-1], np.ascontiguousarray(x.T).T, np.broadcast_to(x[(0,) * x.ndim] if x.size else x, x.shape)]
            want = np.concatenate(parts, axis)
            same(run_kernel(KERNELS["concatenate"], parts, [(want.shape, dtype)], [axis])[0], want)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [2, 3, 4, 7, 8, 13, 16, 17])
def test_columns_side_by_side(columns, dtype):
    rng = np.random.default_rng(4)
    for rows in (1, 2, 127, 128, 129, 1000, 40000):
        parts = [values(rng, (rows, 1), dtype) for _ in range(columns)]
        want = np.concatenate(parts, 1)
        same(run_kernel(KERNELS["concatenate"], parts, [(want.shape, dtype)], [1])[0], want)


def test_concatenate_rejects():
    x = np.zeros((2, 3), np.float32)
    for inputs, shape, axis in (
        ([x, x], (4, 3), 1),
        ([x, x], (5, 3), 0),
        ([x, x[0]], (3, 3), 0),
        ([x, x], (4, 3), 2),
        ([x], (2, 3), -1),
        ([], (2,), 0),
    ):
        with pytest.raises(ValueError, match="concatenate"):
            run_kernel(KERNELS["concatenate"], inputs, [(shape, np.float32)], [axis])
    with pytest.raises(ValueError, match="dtype"):
        run_kernel(KERNELS["concatenate"], [x, x.astype(np.int32)], [((4, 3), np.float32)], [0])


def pad_reference(x, value, config):
    for d, (lo, hi, interior) in enumerate(config):
        x = np.moveaxis(x, d, 0)
        n = len(x)
        spread = np.full((n + max(n - 1, 0) * interior, *x.shape[1:]), value, x.dtype)
        spread[:: interior + 1] = x
        sides = [np.full((max(k, 0), *x.shape[1:]), value, x.dtype) for k in (lo, hi)]
        spread = np.concatenate([sides[0], spread, sides[1]])
        x = np.moveaxis(spread[max(-lo, 0) : len(spread) - max(-hi, 0)], 0, d)
    return x


@pytest.mark.parametrize("dtype", [np.bool_, np.int16, ml_dtypes.bfloat16, np.float32, np.complex64, np.complex128], ids=str)
def test_pad(dtype):
    rng = np.random.default_rng(5)
    value = values(rng, (), dtype)
    done = 0
    while done < 150:
        x = random_view(rng, dtype, 3, 3)
        config = [tuple(int(v) for v in (*rng.integers(-3, 4, 2), rng.integers(0, 3))) for _ in range(x.ndim)]
        if any(n + lo + hi + max(n - 1, 0) * k < 0 for n, (lo, hi, k) in zip(x.shape, config)):
            continue
        want = pad_reference(x, value, config)
        same(run_kernel(KERNELS["pad"], [x, value], [(want.shape, dtype)], [v for c in config for v in c])[0], want)
        done += 1


def test_pad_edges():
    one = np.float32(1)[None]
    row, plane = np.arange(3, dtype=np.float32), np.zeros((600, 700), np.float32)
    for x, config in (
        (row, [(-5, 6, 0)]),
        (row, [(5, -6, 0)]),
        (row, [(-2, 9, 4)]),
        (row[:0], [(2, 3, 5)]),
        (row[:0], [(0, 0, 0)]),
        (row, [(10**6, 3, 0)]),
        (plane, [(1, 2, 0), (3, 4, 0)]),
        (plane, [(-1, 2, 1), (3, -4, 2)]),
    ):
        want = pad_reference(x, 1, config)
        same(run_kernel(KERNELS["pad"], [x, one], [(want.shape, np.float32)], [v for c in config for v in c])[0], want)


def test_pad_rejects():
    x, v = np.zeros((2, 3), np.float32), np.zeros((), np.float32)
    for inputs, shape, ip in (
        ([x, v], (2, 3), [0] * 5),
        ([x, v], (2, 4), [0] * 6),
        ([x, v], (2, 3), [0, 0, -1, 0, 0, 0]),
        ([x], (2, 3), [0] * 6),
        ([x, x], (2, 3), [0] * 6),
        ([x, v], (2,), [0] * 6),
        ([x, v.astype(np.int32)], (2, 3), [0] * 6),
    ):
        with pytest.raises(ValueError, match="pad"):
            run_kernel(KERNELS["pad"], inputs, [(shape, np.float32)], ip)


def starts_for(rng, ndim):
    return [np.array(rng.integers(-3, 12), [np.int32, np.int64][rng.integers(2)]) for _ in range(ndim)]


def window(x, sizes, starts):
    at = [int(np.clip(s, 0, n - k)) for s, n, k in zip(starts, x.shape, sizes)]
    return tuple(slice(a, a + k) for a, k in zip(at, sizes))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dynamic_slice(dtype):
    rng = np.random.default_rng(6)
    for _ in range(60):
        x = random_view(rng, dtype)
        sizes = tuple(int(rng.integers(0 if rng.integers(8) == 0 else 1, n + 1)) for n in x.shape)
        starts = starts_for(rng, x.ndim)
        same(run_kernel(KERNELS["dynamic_slice"], [x, *starts], [(sizes, dtype)])[0], x[window(x, sizes, starts)])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dynamic_update_slice(dtype):
    rng = np.random.default_rng(7)
    for _ in range(60):
        x, update = random_view(rng, dtype), random_view(rng, dtype)
        if update.ndim != x.ndim:
            update = np.broadcast_to(update[(0,) * update.ndim], x.shape)
        update = update[(*(slice(0, n) for n in x.shape), ...)]
        starts = starts_for(rng, x.ndim)
        want = x.copy()
        want[window(x, update.shape, starts)] = update
        same(run_kernel(KERNELS["dynamic_update_slice"], [x, update, *starts], [(x.shape, dtype)])[0], want)
        same(in_place(KERNELS["dynamic_update_slice"], [np.array(x, order="C"), np.array(update, order="C"), *starts]), want)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64, np.complex128], ids=lambda d: d.__name__)
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 8, 16, 17, 64])
def test_short_rows_backwards(dtype, channels):
    """Images turned left to right, and their channels in reverse: vectors reach no further than the array."""
    rng = np.random.default_rng(channels)
    for width in (1, 2, 3, 5, 6, 7, 11, 16, 33, 64):
        x = values(rng, (3, width, channels), dtype)
        part = x[:, ::-1, : channels // 2 + 1]
        for view in (x[:, ::-1], x[:, :, ::-1], x[::-1, ::-1], x[::-1, ::-1, ::-1], part, x[0, ::-1], x[0, :, ::-1]):
            same(run_kernel(KERNELS["copy"], [view], [(view.shape, dtype)])[0], view)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64, np.complex128], ids=lambda d: d.__name__)
def test_quarter_turns(dtype):
    rng = np.random.default_rng(7)
    for shape in ((5, 40), (16, 16), (40, 5), (64, 128), (130, 70), (33, 257)):
        x = values(rng, (3, *shape), dtype)
        for k in (1, 2, 3):
            for view in (np.rot90(x[0], k), np.rot90(x, k, (1, 2)), np.rot90(x, k, (0, 2))):
                same(run_kernel(KERNELS["copy"], [view], [(view.shape, dtype)])[0], view)


@pytest.mark.parametrize("start", [np.iinfo(np.int64).min, np.iinfo(np.int64).max])
def test_extreme_starts(start):
    x, s = np.arange(10, dtype=np.float32), np.array(start)
    same(run_kernel(KERNELS["dynamic_slice"], [x, s], [((4,), np.float32)])[0], x[window(x, (4,), [start])])
    want = x.copy()
    want[window(x, (4,), [start])] = 0
    same(run_kernel(KERNELS["dynamic_update_slice"], [x, x[:4] * 0, s], [((10,), np.float32)])[0], want)


def test_dynamic_rejects():
    x, s = np.zeros((2, 3), np.float32), np.zeros((), np.int32)
    for inputs, shape in (
        ([x, s], (1, 1)),
        ([x, s, s], (3, 3)),
        ([x, s, s], (1,)),
        ([x, s, np.zeros(2, np.int32)], (1, 1)),
        ([x, s, np.zeros((), np.float32)], (1, 1)),
        ([x.astype(np.int32), s, s], (1, 1)),
        ([], (1,)),
    ):
        with pytest.raises(ValueError, match="dynamic_slice"):
            run_kernel(KERNELS["dynamic_slice"], inputs, [(shape, np.float32)])
    for inputs, shape in (
        ([x, x, s], (2, 3)),
        ([x, np.zeros((3, 3), np.float32), s, s], (2, 3)),
        ([x, x[0], s, s], (2, 3)),
        ([x, x, s, s], (3, 2)),
        ([x, x.astype(np.int32), s, s], (2, 3)),
        ([x], (2, 3)),
    ):
        with pytest.raises(ValueError, match="dynamic_update_slice"):
            run_kernel(KERNELS["dynamic_update_slice"], inputs, [(shape, np.float32)])
