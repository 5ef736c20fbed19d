import itertools

import ml_dtypes
import numpy as np
import pytest

from fgrad._kernels import index, parallel
from tests.kernels.harness import run_kernel
from tests.kernels.test_movement import DTYPES, in_place, same

KERNELS = index.KERNELS
NUMERIC = [d for d in DTYPES if d.kind != "b"]


def offsets_of(operand, indices, window_axes, dropped, index_map, batching, ibatching, small_ndim, slices, drop):
    """Yield (batch position in the small array's axes, slice of the operand or None)."""
    for b in itertools.product(*(range(n) for n in indices.shape[:-1])):
        start, ok = [0] * operand.ndim, True
        for c, d in enumerate(index_map):
            v, top = int(indices[(*b, c)]), operand.shape[d] - slices[d]
            start[d] = min(max(v, 0), top)
            ok &= start[d] == v or not drop
        for d, i in zip(batching, ibatching):
            start[d] = b[i]
        it = iter(b)
        at = tuple(slice(None) if d in window_axes else next(it) for d in range(small_ndim))
        yield at, tuple(slice(s, s + k) for s, k in zip(start, slices)) if ok else None


def gather_reference(operand, indices, offset_dims, collapsed, index_map, batching, ibatching, slices, fill):
    ndim = len(offset_dims) + indices.ndim - 1
    it_w, it_b = iter([s for d, s in enumerate(slices) if d not in collapsed and d not in batching]), iter(indices.shape[:-1])
    out = np.zeros([next(it_w) if d in offset_dims else next(it_b) for d in range(ndim)], operand.dtype)
    for at, where in offsets_of(operand, indices, offset_dims, collapsed, index_map, batching, ibatching, ndim, slices, fill is not None):
        out[at] = fill if where is None else np.squeeze(operand[where], tuple(collapsed) + tuple(batching))
    return out


OPS = {"set": lambda a, b: b, "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def scatter_reference(operand, indices, updates, window, inserted, index_map, batching, ibatching, kind, drop):
    out = operand.copy()
    it = iter(updates.shape[d] for d in window)
    slices = [1 if d in inserted or d in batching else next(it) for d in range(operand.ndim)]
    for at, where in offsets_of(operand, indices, window, inserted, index_map, batching, ibatching, updates.ndim, slices, drop):
        if where is not None:
            out[where] = OPS[kind](out[where], updates[at].reshape(slices))
    return out


def random_case(rng, max_ndim=4):
    """Dimension numbers, an operand shape, slice sizes and an indices shape that fit together."""
    ndim = int(rng.integers(0, max_ndim + 1))
    shape = [int(n) for n in rng.integers(1, 6, ndim)]
    role = [int(r) for r in rng.integers(0, 3, ndim)]  # window, dropped, batching
    batching = [d for d in range(ndim) if role[d] == 2]
    dropped = [d for d in range(ndim) if role[d] == 1]
    window = [d for d in range(ndim) if role[d] == 0]
    slices = [1 if role[d] else int(rng.integers(1, shape[d] + 1)) for d in range(ndim)]
    candidates = [d for d in range(ndim) if role[d] != 2]
    index_map = [int(d) for d in rng.permutation(candidates)[: rng.integers(0, len(candidates) + 1)]]
    extra = [int(n) for n in rng.integers(1, 5, rng.integers(0, 3))]
    batch_shape = [shape[d] for d in batching] + extra
    order = rng.permutation(len(batch_shape))
    ibatching = [int(np.where(order == k)[0][0]) for k in range(len(batching))]
    ishape = [batch_shape[k] for k in order] + [len(index_map)]
    small_ndim = len(window) + len(batch_shape)
    offset_dims = sorted(int(d) for d in rng.permutation(small_ndim)[: len(window)])
    return shape, slices, ishape, offset_dims, dropped, index_map, batching, ibatching


def random_indices(rng, ishape, shape, dtype):
    return rng.integers(-2, max(shape, default=1) + 2, ishape).astype(dtype)


def noise(rng, shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    x = rng.normal(size=shape) * 3 if dtype.kind in "fV" else rng.integers(0, 7, shape)
    return np.asarray(x).astype(dtype)


def view(rng, x):
    """The same values through other strides."""
    perm = rng.permutation(x.ndim)
    y = np.array(x.transpose(perm), order="C").transpose(np.argsort(perm))
    return y[::-1][::-1] if not x.ndim or rng.integers(2) else np.array(y[::-1], order="K")[::-1]


def gather(operand, indices, offset_dims, dropped, index_map, batching, ibatching, slices, fill, shape, wraps=False):
    ip = index.gather_ip(offset_dims, dropped, index_map, batching, ibatching, slices, fill is not None, fill)
    ip[4] += wraps and index.WRAPS
    return run_kernel(KERNELS["gather"], [operand, indices], [(shape, operand.dtype)], ip)[0]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gather_random(dtype):
    rng = np.random.default_rng(0)
    for k in range(60):
        shape, slices, ishape, *dims = random_case(rng)
        operand = noise(rng, shape, dtype)
        if k % 2 and operand.ndim:
            operand = view(rng, operand)
        indices = random_indices(rng, ishape, shape, [np.int32, np.int64][k % 2])
        for fill in (None, noise(rng, (), dtype)):
            want = gather_reference(operand, indices, *dims, slices, fill)
            same(gather(operand, indices, *dims, slices, fill, want.shape), want)
            if indices.shape[-1] == 1:
                wrapped = np.where(indices < 0, indices + operand.shape[dims[2][0]], indices)
                want = gather_reference(operand, wrapped, *dims, slices, fill)
                same(gather(operand, indices, *dims, slices, fill, want.shape, wraps=True), want)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_gather_lines_wrap(dtype):
    rng = np.random.default_rng(2)
    x, idx = noise(rng, (30, 400), np.float32), rng.integers(-900, 900, (30, 500)).astype(dtype)
    at = np.where(idx < 0, idx + 400, idx)
    for fill in (None, np.float32(7)):
        want = np.take_along_axis(x, at.clip(0, 399), 1)
        want = want if fill is None else np.where((at < 0) | (at > 399), fill, want)
        same(gather(x, idx[..., None], [], [1], [1], [0], [0], [1, 1], fill, idx.shape, wraps=True), want)


@pytest.mark.parametrize("n", [1, 3, 4, 10, 100, 128, 129])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_short_lines(n, dtype):
    """Indices of neighbouring rows of a batch lie one after the other: blocks of them end within rows, and threads begin there."""
    rng = np.random.default_rng(3)
    for rows in (1, 7, 3001):
        x, idx = noise(rng, (2, rows, 33), np.float32), rng.integers(-40, 40, (2, rows, n)).astype(dtype)
        for fill in (None, np.float32(7)):
            want = np.take_along_axis(x, idx.clip(0, 32).astype(np.int64), 2)
            want = want if fill is None else np.where((idx < 0) | (idx > 32), fill, want)
            same(gather(x, idx[..., None], [], [2], [2], [0, 1], [0, 1], [1, 1, 1], fill, idx.shape), want)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 7, 8, 13, 16, 17, 33, 48, 49, 63, 64, 65, 80, 96, 97])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_short_rows(width, dtype):
    """Rows of bytes, of pairs and of 16 bytes, at places in and out of bounds, from the front, the back and a batch of tables."""
    rng = np.random.default_rng(4)
    extreme = np.iinfo(dtype)
    for item, step, n in itertools.product((np.uint8, np.float16, np.complex128), (1, -1), (5, 16, 300)):
        x, idx = noise(rng, (2, 40, width), np.dtype(item))[:, ::step], rng.integers(-50, 50, (2, n)).astype(dtype)
        idx[:, -2:] = extreme.min, extreme.max
        for fill in (None, np.dtype(item).type(7)):
            want = np.stack([x[b][idx[b].clip(0, 39)] for b in range(2)])
            want = want if fill is None else np.where(((idx < 0) | (idx > 39))[..., None], fill, want)
            same(gather(x, idx[..., None], [2], [1], [1], [0], [0], [1, 1, width], fill, want.shape), want)


@pytest.mark.parametrize("n", [4, 16, 500, 4096, 4097])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_lines_of_several_windows(n, dtype):
    """The offsets of a line serve all window positions, those of one axis and of two, of which threads begin anywhere."""
    rng = np.random.default_rng(5)
    extreme = np.iinfo(dtype)
    for item, step in itertools.product((np.uint8, np.float16, np.float32, np.float64, np.complex128), (1, -1)):
        x = noise(rng, (3, 11, 40), np.dtype(item))[..., ::step]
        idx = rng.integers(-50, 50, (3, n)).astype(dtype)
        idx[:, -2:] = extreme.min, extreme.max
        for fill in (None, np.dtype(item).type(7)):
            want, missing = x[0][:, idx[0].clip(0, 39)], (idx < 0) | (idx > 39)
            want = want if fill is None else np.where(missing[0], fill, want)
            same(gather(x[0], idx[0][:, None], [0], [1], [1], [], [], [11, 1], fill, want.shape), want)
            want = np.stack([x[b][:, idx[b].clip(0, 39)] for b in range(3)], 1)
            want = want if fill is None else np.where(missing, fill, want)
            same(gather(x, idx[..., None], [0], [2], [2], [0], [0], [1, 11, 1], fill, want.shape), want)


def take(x, idx, axis, fill=None):
    """x.take(idx, axis) as dimension numbers."""
    slices = [1 if d == axis else n for d, n in enumerate(x.shape)]
    offset = [d if d < axis else d + idx.ndim - 1 for d in range(x.ndim) if d != axis]
    shape = (*x.shape[:axis], *idx.shape, *x.shape[axis + 1 :])
    return gather(x, idx[..., None], offset, [axis], [axis], [], [], slices, fill, shape)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_gather_large(threads):
    before = parallel.get_num_threads()
    parallel.set_num_threads(threads)
    try:
        rng = np.random.default_rng(1)
        for shape, axis, n in (
            ((1000, 96), 0, 5000),
            ((96, 1000), 1, 3000),
            ((30, 40, 50), 1, 700),
            ((100000,), 0, 70000),
            ((7, 300000), 0, 2),
            ((300, 400, 3), 2, 9),
            ((500, 300), 1, 4),
        ):
            x = noise(rng, shape, np.float32)
            idx = rng.integers(0, shape[axis], n)
            same(take(x, idx, axis), x.take(idx, axis))
            same(take(np.asfortranarray(x), idx.astype(np.int32), axis, np.float32(np.nan)), x.take(idx, axis))
            idx[::3] = shape[axis]
            want = x.take(idx, axis, mode="clip")
            same(take(x, idx, axis), want)
            want[(slice(None),) * axis + (slice(None, None, 3),)] = 5
            same(take(x, idx, axis, np.float32(5)), want)
        x, idx = noise(rng, (300, 400), np.float64), rng.integers(0, 400, (300, 500))
        same(gather(x, idx[..., None], [], [1], [1], [0], [0], [1, 1], None, idx.shape), np.take_along_axis(x, idx, 1))
    finally:
        parallel.set_num_threads(before)


@pytest.mark.parametrize("extreme", [np.iinfo(np.int64).min, np.iinfo(np.int64).max])
def test_extreme_indices(extreme):
    x, idx = np.arange(6, dtype=np.float32), np.array([1, extreme, 2])
    edge = x[0] if extreme < 0 else x[-1]
    same(take(x, idx, 0), np.array([1, edge, 2], np.float32))
    same(take(x, idx, 0, np.float32(9)), np.array([1, 9, 2], np.float32))
    want = x.copy()
    want[[1, 2]] += 10
    same(scatter(x, idx[:, None], np.full(3, 10, np.float32), [], [0], [0], [], [], "add", True), want)


def test_gather_empty():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    same(take(x, np.zeros((0,), np.int32), 0), x[:0])
    same(gather(x[:, :0], np.zeros((2, 1), np.int32), [1], [0], [0], [], [], [1, 0], None, (2, 0)), np.zeros((2, 0), np.float32))
    same(take(x[:0], np.zeros((0,), np.int32), 0), x[:0])
    same(gather(x, np.zeros((0,), np.int32), [0, 1], [], [], [], [], [3, 4], None, (3, 4)), x)


def scatter(operand, indices, updates, window, inserted, index_map, batching, ibatching, kind, drop, donate=False):
    ip = index.scatter_ip(window, inserted, index_map, batching, ibatching, kind, drop)
    if donate:
        return in_place(KERNELS["scatter"], [np.array(a, order="C") for a in (operand, indices, updates)], ip)
    return run_kernel(KERNELS["scatter"], [operand, indices, updates], [(operand.shape, operand.dtype)], ip)[0]


@pytest.mark.parametrize("kind", OPS)
@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
def test_scatter_random(dtype, kind):
    rng = np.random.default_rng(2)
    if dtype.kind == "c" and kind in ("min", "max"):
        rng = np.random.default_rng(3)  # NumPy orders complex numbers lexicographically too
    for k in range(25):
        shape, slices, ishape, window, inserted, index_map, batching, ibatching = random_case(rng)
        operand = noise(rng, shape, dtype)
        it_w, it_b = iter([s for d, s in enumerate(slices) if d not in inserted and d not in batching]), iter(ishape[:-1])
        updates = noise(rng, [next(it_w) if d in window else next(it_b) for d in range(len(window) + len(ishape) - 1)], dtype)
        indices = random_indices(rng, ishape, shape, [np.int32, np.int64][k % 2])
        dims = window, inserted, index_map, batching, ibatching
        for drop in (False, True):
            with np.errstate(over="ignore"):
                want = scatter_reference(operand, indices, updates, *dims, kind, drop)
            got = scatter(operand, indices, updates, *dims, kind, drop)
            if dtype.kind == "c" and kind == "mul":  # compilers may fuse a complex product differently
                np.testing.assert_allclose(got, want, rtol=1e-4)
            else:
                same(got, want)
            same(scatter(operand, indices, updates, *dims, kind, drop, donate=True), got)
            if operand.ndim and updates.ndim:
                same(scatter(view(rng, operand), view(rng, indices), view(rng, updates), *dims, kind, drop), got)


@pytest.mark.parametrize("width", [0, 1, 3])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_threads_share_a_large_output_by_places(dtype, width):
    rng = np.random.default_rng(4)
    size, count, row = 300_001, 20_003, (width,) if width else ()
    x, v, i = (
        np.zeros((size, *row), np.float32),
        rng.integers(1, 9, (count, *row)).astype(np.float32),
        rng.integers(-50, size + 50, count, dtype),
    )
    before = parallel.get_num_threads()
    for threads, drop in itertools.product((1, 2, 3), (False, True)):
        parallel.set_num_threads(threads)
        got, want = scatter(x, i[:, None], v, [1] if width else [], [0], [0], [], [], "add", drop), x.copy()
        inside = (i >= 0) & (i < size) if drop else np.full(count, True)
        np.add.at(want, np.clip(i, 0, size - 1)[inside], v[inside])
        same(got, want)
    parallel.set_num_threads(before)


def test_scatter_bool():
    x, idx, u = np.array([False, True, False, True]), np.array([[0], [1], [1], [3]]), np.array([True, True, False, False])
    for kind, want in (("add", [1, 1, 0, 1]), ("mul", [0, 0, 0, 0]), ("min", [0, 0, 0, 0]), ("max", [1, 1, 0, 1]), ("set", [1, 0, 0, 0])):
        same(scatter(x, idx, u, [], [0], [0], [], [], kind, True), np.array(want, bool))


def test_scatter_nan_and_order():
    x, idx = np.array([1, np.nan, 3], np.float32), np.array([[0], [1], [2], [2]])
    u = np.array([np.nan, 0, 7, 1], np.float32)
    same(scatter(x, idx, u, [], [0], [0], [], [], "max", True), np.array([np.nan, np.nan, 7], np.float32))
    same(scatter(x, idx, u, [], [0], [0], [], [], "min", True), np.array([np.nan, np.nan, 1], np.float32))
    same(scatter(x, idx, u, [], [0], [0], [], [], "set", True), np.array([np.nan, 0, 1], np.float32))


def lines(rng, dtype, wide):
    """Cases whose vectors have one component and lie in long lines: (operand, indices, updates' shape, dimension numbers)."""
    itype = np.int64 if wide else np.int32
    some = lambda n, *shape: rng.integers(-2, n + 2, (*shape, 1)).astype(itype)  # noqa: E731
    return [
        (noise(rng, (70,), dtype), some(70, 300), (300,), [], [0], [0], [], []),
        (noise(rng, (10,), dtype), np.sort(some(10, 300), 0), (300,), [], [0], [0], [], []),
        (noise(rng, (40, 3), dtype), some(40, 90), (90, 3), [1], [0], [0], [], []),
        (noise(rng, (5, 60), dtype), some(60, 5, 33), (5, 33), [], [1], [1], [0], [0]),
        (noise(rng, (60, 17), dtype), some(60, 33, 17), (33, 17), [], [0], [0], [1], [1]),
        (noise(rng, (4, 50), dtype), some(50, 2, 40), (4, 2, 40), [0], [1], [1], [], []),
    ]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_lines(dtype, wide):
    rng = np.random.default_rng(11)
    for x, idx, shape, window, dropped, index_map, batching, ibatching in lines(rng, dtype, wide):
        dims = (window, dropped, index_map, batching, ibatching)
        slices = [1 if d in dropped or d in batching else n for d, n in enumerate(x.shape)]
        for fill in (None, noise(rng, (), dtype)):
            want = gather_reference(x, idx, *dims, slices, fill)
            same(gather(x, idx, *dims, slices, fill, want.shape), want)
        u = noise(rng, shape, dtype)
        for kind in ("set", "add", "min", "max") if dtype.kind not in "bc" else ("set", "add"):
            for drop in (False, True):
                same(scatter(x, idx, u, *dims, kind, drop), scatter_reference(x, idx, u, *dims, kind, drop))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("width, rows, n", [(2, 30, 9000), (5, 40, 40000), (33, 1500, 1600), (1, 30, 40000)])
def test_scatter_set_keeps_the_last(width, rows, n, wide):
    """Which update of a row is the last one is found first where there are many, by ranges of them; others keep what they were."""
    rng = np.random.default_rng(n)
    before = parallel.get_num_threads()
    idx = rng.integers(-2, rows + 2, (n, 1)).astype(np.int64 if wide else np.int32)
    idx[idx == 7] = rows
    idx[idx == 9] = -1
    x, u = noise(rng, (rows, width), np.float32), noise(rng, (n, width), np.float32)
    try:
        for drop in (False, True):
            want = x.copy()
            at = idx[:, 0] if drop else np.clip(idx[:, 0], 0, rows - 1)
            for i in np.flatnonzero((at >= 0) & (at < rows)):
                want[at[i]] = u[i]
            for threads in (1, 2, 3):
                parallel.set_num_threads(threads)
                for donate in (False, True):
                    same(scatter(x, idx, u, [1], [0], [0], [], [], "set", drop, donate=donate), want)
    finally:
        parallel.set_num_threads(before)


BY_COPIES = [(d, k) for d in NUMERIC for k in ("add", "mul", "min", "max") if d.kind != "c" or k == "add"]


@pytest.mark.parametrize("dtype, kind", BY_COPIES, ids=str)
def test_scatter_by_copies(dtype, kind):
    """Many updates of a small output go to copies of it, whose number does not depend on the threads."""
    rng = np.random.default_rng(12)
    before = parallel.get_num_threads()
    n, m = 80_000, 50
    idx = rng.integers(-1, m + 1, (n, 1))
    ok = (idx[:, 0] >= 0) & (idx[:, 0] < m)
    combine = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[kind]
    wide = {"i": np.int64, "u": np.uint64, "c": np.complex128}.get(dtype.kind, np.float64)
    for n, tail in ((80_000, ()), (80_000, (3,)), (5_000, (2, 37))):
        idx, ok = idx[:n], ok[:n]
        x, u = noise(rng, (m, *tail), dtype), np.full((n, *tail), kind != "add", dtype)
        u[:200] = noise(rng, (200, *tail), dtype)
        if kind in ("min", "max") and dtype.kind not in "iu":
            u[:3], x[:2] = np.nan, -0.0
        out = []
        try:
            for threads in (1, 2, 3):
                parallel.set_num_threads(threads)
                out.append(scatter(x, idx, u, list(range(1, x.ndim)), [0], [0], [], [], kind, True))
        finally:
            parallel.set_num_threads(before)
        same(out[1], out[0])
        same(out[2], out[0])
        want = x.astype(wide)
        with np.errstate(over="ignore", invalid="ignore"):
            combine.at(want, idx[ok, 0], u[ok].astype(wide))
            want = want.astype(dtype).astype(wide)
        close = {"rtol": 0.05, "atol": 0.2} if dtype.itemsize == 2 and dtype.kind not in "iu" else {"rtol": 1e-4, "atol": 1e-5}
        np.testing.assert_allclose(out[0].astype(wide), want, **close)


@pytest.mark.parametrize("kind", ["set", "add", "mul", "min", "max"])
@pytest.mark.parametrize("width", [2, 3, 8, 17, 61, 130])
def test_scatter_rows_of_any_width(width, kind):
    """Rows are vectors that overlap or that are longer than rows; nothing beside them is touched, nothing beyond the updates counts."""
    rng = np.random.default_rng(width)
    for dtype in (np.int8, np.int32, np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.bool_):
        for rows, n in ((40, 70), (7, 90), (2, 180)):
            for ordered in (False, True):
                idx = rng.integers(-1, rows + 1, (n, 1)).astype(np.int32)
                idx = np.sort(idx, 0) if ordered else idx
                x, u = (rng.integers(-2, 3, (m, width)).astype(dtype) for m in (rows, n))
                if kind in ("min", "max") and np.dtype(dtype).kind == "f":
                    u[::7, 1] = np.nan
                if kind == "mul":
                    u = rng.integers(-1, 2, u.shape).astype(dtype)
                want = scatter_reference(x, idx, u, [1], [0], [0], [], [], kind, ordered)
                same(scatter(x, idx, u, [1], [0], [0], [], [], kind, ordered), want)
                same(scatter(x, idx, u, [1], [0], [0], [], [], kind, ordered, donate=True), want)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16], ids=str)
def test_scatter_does_not_depend_on_threads(dtype):
    rng = np.random.default_rng(4)
    before = parallel.get_num_threads()
    cases = []
    for shape, idx_shape, window in (
        ((50, 96), (3000,), [1]),
        ((50000,), (200000,), []),
        ((600000,), (70000,), []),
        ((40, 20, 30), (500,), [1, 2]),
    ):
        idx = rng.integers(-1, shape[0] + 1, idx_shape)[:, None]
        cases.append((noise(rng, shape, dtype), idx, noise(rng, (*idx_shape, *shape[1:]), dtype), window, [0], [0], [], []))
    cases.append((cases[2][0], cases[2][1].astype(np.int32), *cases[2][2:]))
    cases.append((noise(rng, (90, 1000), dtype), rng.integers(0, 1000, 700)[:, None], noise(rng, (90, 700), dtype), [0], [1], [1], [], []))
    cases.append((noise(rng, (90, 1000), dtype), rng.integers(0, 1000, (90, 700, 1)), noise(rng, (90, 700), dtype), [], [1], [1], [0], [0]))
    cases.append(
        (noise(rng, (400, 300), dtype), rng.integers(0, 300, (600, 2)), noise(rng, (600, 40, 20), dtype), [1, 2], [], [0, 1], [], [])
    )
    try:
        for case in cases:
            for kind in ("add", "set"):
                for drop in (False, True):
                    parallel.set_num_threads(1)
                    want = scatter(*case, kind, drop)
                    for threads in (2, 3):
                        parallel.set_num_threads(threads)
                        same(scatter(*case, kind, drop), want)
                if kind == "set" or dtype == np.float32 and case[2].size < 2 * case[0].size:  # more are summed by ranges
                    same(want, scatter_reference(*case, kind, True))
    finally:
        parallel.set_num_threads(before)


def test_scatter_broadcast_updates_and_empty():
    x = np.zeros((5, 4), np.float32)
    idx = np.array([[1], [3]])
    one = np.broadcast_to(np.float32(1), (2, 4))
    want = x.copy()
    want[[1, 3]] = 1
    same(scatter(x, idx, one, [1], [0], [0], [], [], "set", True), want)
    same(scatter(x, idx[:0], one[:0], [1], [0], [0], [], [], "add", True), x)
    same(scatter(x[:0], idx, one, [1], [0], [0], [], [], "add", True), x[:0])


def test_rejects():
    x, idx = np.zeros((3, 4), np.float32), np.zeros((5, 1), np.int32)
    good = dict(
        offset_dims=[1],
        collapsed_slice_dims=[0],
        start_index_map=[0],
        operand_batching_dims=[],
        start_indices_batching_dims=[],
        slice_sizes=[1, 4],
        fill=False,
    )
    out = [((5, 4), np.float32)]
    run_kernel(KERNELS["gather"], [x, idx], out, index.gather_ip(**good))
    for bad in (
        dict(offset_dims=[2]),
        dict(offset_dims=[0]),
        dict(offset_dims=[0, 1]),
        dict(collapsed_slice_dims=[2]),
        dict(start_index_map=[2]),
        dict(start_index_map=[0, 1]),
        dict(slice_sizes=[1, 3]),
        dict(slice_sizes=[2, 4]),
        dict(slice_sizes=[1]),
        dict(collapsed_slice_dims=[]),
        dict(collapsed_slice_dims=[], operand_batching_dims=[0], start_indices_batching_dims=[0]),
        dict(operand_batching_dims=[1], start_indices_batching_dims=[0]),
        dict(collapsed_slice_dims=[0, 0], offset_dims=[]),
    ):
        with pytest.raises(ValueError, match="gather"):
            run_kernel(KERNELS["gather"], [x, idx], out, index.gather_ip(**{**good, **bad}))
    ip = index.gather_ip(**good)
    for inputs, outputs, params in (
        ([x], out, ip),
        ([x, idx.astype(np.float32)], out, ip),
        ([x, idx], [((5, 4), np.float64)], ip),
        ([x, idx], [((6, 4), np.float32)], ip),
        ([x, idx], out, ip[:-1]),
        ([x, idx], out, []),
        ([x, idx], out, [-1, *ip[1:]]),
        ([x, idx], out, [*ip[:4], 4, *ip[5:]]),
        ([x[:0], idx], out, ip),
        ([x, idx[:, 0]], out, ip),
    ):
        with pytest.raises(ValueError, match="gather"):
            run_kernel(KERNELS["gather"], inputs, outputs, params)
    ip = index.scatter_ip([1], [0], [0], [], [], "add", True)
    u = np.zeros((5, 4), np.float32)
    out = [(x.shape, np.float32)]
    run_kernel(KERNELS["scatter"], [x, idx, u], out, ip)
    for inputs, outputs, params in (
        ([x, idx], out, ip),
        ([x, idx, u], [((3, 3), np.float32)], ip),
        ([x, idx, u[:4]], out, ip),
        ([x, idx, np.zeros((5, 5), np.float32)], out, ip),
        ([x, idx, u.astype(np.int32)], out, ip),
        ([x, idx, u], out, ip[:-1]),
        ([x, idx, u], out, [*ip[:5], 5, *ip[6:]]),
    ):
        with pytest.raises(ValueError, match="scatter"):
            run_kernel(KERNELS["scatter"], inputs, outputs, params)
