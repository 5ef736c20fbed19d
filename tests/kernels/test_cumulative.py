import ml_dtypes
import numpy as np
import pytest

from fgrad._kernels import cumulative, parallel
from tests.kernels.harness import run_kernel
from tests.kernels.test_movement import DTYPES, same

KERNELS = cumulative.KERNELS
KINDS = ["sum", "prod", "max", "min", "logsumexp"]
UFUNC = [np.add, np.multiply, np.maximum, np.minimum, np.logaddexp]
FLOATS = [np.dtype(t) for t in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)]
EPS = {2: 2.0**-8, 4: 2.0**-23, 8: 2.0**-52}


def noise(rng, shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    x = rng.normal(size=shape) * 1.5 if dtype.kind in "fV" else rng.integers(-100 if dtype.kind == "i" else 0, 100, shape)
    return np.asarray(x).astype(dtype)


def scan(x, kind, axis, reverse=False):
    return run_kernel(KERNELS["cumulative"], [x], [(x.shape, x.dtype)], [KINDS.index(kind), axis, reverse])[0]


def reference(x, kind, axis, reverse):
    wide = x.astype(np.float64) if x.dtype in FLOATS else x.astype(np.complex128) if x.dtype.kind == "c" else x
    wide = np.flip(wide, axis) if reverse else wide
    with np.errstate(all="ignore"):
        out = UFUNC[KINDS.index(kind)].accumulate(wide, axis, dtype=wide.dtype)
        return np.flip(out, axis) if reverse else out


def check(x, kind, axis, reverse, tol=None):
    got, want = scan(x, kind, axis, reverse), reference(x, kind, axis, reverse)
    if x.dtype.kind not in "fVc" or kind in ("max", "min"):
        same(got, want.astype(x.dtype))
    else:
        terms = {"sum": "sum", "logsumexp": "max"}.get(kind)  # what a result near zero is made of
        scale = np.maximum(np.abs(want), reference(np.abs(x), terms, axis, reverse) if terms else 0)
        eps = EPS[x.dtype.itemsize // (2 if x.dtype.kind == "c" else 1)]
        with np.errstate(all="ignore"):
            wide = got.astype(want.dtype)
            assert (np.abs(wide - want) <= (tol or 2 * x.shape[axis] + 4) * eps * scale + 1e-40).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_cumulative(dtype, kind):
    if kind == "logsumexp" and dtype not in FLOATS:
        with pytest.raises(ValueError, match="does not take"):
            scan(np.zeros(3, dtype), kind, 0)
        return
    rng = np.random.default_rng(0)
    for shape in ((1,), (7,), (40,), (3, 5), (2, 9, 3), (4, 1, 6), (2, 6, 300)):
        x = noise(rng, shape, dtype)
        if kind == "prod" and dtype.kind in "fVc":
            x = (rng.uniform(0.97, 1.03, shape) * x / (np.abs(x) + 1e-6)).astype(dtype)  # stay in range
        for axis in range(x.ndim):
            for reverse in (False, True):
                for view in (x, x[::-1], np.array(x.T, order="C").T, np.broadcast_to(x[..., :1], shape)):
                    check(view, kind, axis, reverse)


def test_cumulative_bool():
    x = np.array([False, True, False])
    same(scan(x, "max", 0), np.array([False, True, True]))
    same(scan(x, "min", 0, True), np.array([False, False, False]))
    with pytest.raises(ValueError, match="bool"):
        scan(x, "sum", 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.float16, ml_dtypes.bfloat16, np.complex64], ids=str)
def test_cumulative_long_rows(dtype):
    rng = np.random.default_rng(1)
    before = parallel.get_num_threads()
    x = noise(rng, (2, 200001), dtype)
    try:
        for reverse in (False, True):
            parallel.set_num_threads(1)
            want = scan(x, "sum", 1, reverse)
            check(x, "sum", 1, reverse, tol=60)
            check(x, "max", 1, reverse)
            for threads in (2, 3):
                parallel.set_num_threads(threads)
                same(scan(x, "sum", 1, reverse), want)
            check(x[:, :50000].T, "sum", 0, reverse, tol=60)
    finally:
        parallel.set_num_threads(before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [3, 8, 21])
@pytest.mark.parametrize("length, kinds", [(3, "sum prod"), (5, "sum prod"), (10, "sum prod"), (31, "sum prod"), (131, "prod")])
def test_rows_one_number_after_the_other(dtype, rows, length, kinds):
    """Rows go eight at a time, the others turned into columns or alone: all with the bits that they have alone."""
    x = np.random.default_rng(4).uniform(0.9, 1.1, (rows, length)).astype(dtype)
    x[0, 2], x[rows - 1, 1], x[rows // 2, 0] = 0, np.nan, -0.0
    for kind in kinds.split():
        for reverse in (False, True):
            want = UFUNC[KINDS.index(kind)].accumulate(x[:, ::-1] if reverse else x, axis=1, dtype=dtype)
            same(scan(x, kind, 1, reverse), want[:, ::-1] if reverse else want)


def test_cumulative_special_values():
    nan, inf = np.nan, np.inf
    for dtype in FLOATS:
        x = np.array([1, 2, nan, 3, inf] + [0] * 12).astype(dtype)
        tail = [nan] * 15
        same(scan(x, "max", 0), np.array([1, 2] + tail).astype(dtype))
        same(scan(x, "min", 0), np.array([1, 1] + tail).astype(dtype))
        same(np.isnan(scan(x, "sum", 0)), np.array([0, 0] + [1] * 15, bool))
        same(scan(np.array([1, inf, 2, 3] * 5).astype(dtype), "sum", 0), np.array([1] + [inf] * 19).astype(dtype))
        same(scan(np.array([-inf, -inf, inf, 5]).astype(dtype), "logsumexp", 0), np.array([-inf, -inf, inf, inf]).astype(dtype))
        same(np.isnan(scan(np.array([0, nan, inf]).astype(dtype), "logsumexp", 0)), np.array([0, 1, 1], bool))
        same(scan(np.full(20, -0.0).astype(dtype), "sum", 0), np.full(20, -0.0).astype(dtype))
        same(np.signbit(scan(np.full((3, 2), -0.0).astype(dtype), "sum", 0)), np.ones((3, 2), bool))


@pytest.mark.parametrize("shape", [(400,), (3, 400), (70, 9), (400, 3)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logsumexp_of_distant_numbers(dtype, shape):
    """Infinities, NaN and numbers whose exponentials have no common scale, in rows, narrow rows and columns."""
    rng = np.random.default_rng(4)
    for reach in (1, 300, 5000):
        for odd in ((), (-np.inf,), (-np.inf, -np.inf, np.inf), (np.nan,)):
            x = (rng.normal(size=shape) * reach).astype(dtype)
            for value in odd:
                x[rng.random(shape) < 0.1] = value
            for axis in range(x.ndim):
                got, want = scan(x, "logsumexp", axis), reference(x, "logsumexp", axis, False)
                np.testing.assert_allclose(got, want, rtol=64 * np.finfo(dtype).eps, atol=64 * np.finfo(dtype).eps * reach)


@pytest.mark.parametrize("dtype", [d for d in DTYPES[1:] if d.kind in "iu"], ids=str)
def test_integers_wrap_in_vectors(dtype):
    """Rows of several vectors and narrow rows, against NumPy's running operations in the same dtype."""
    rng = np.random.default_rng(5)
    info = np.iinfo(dtype)
    for shape in ((61,), (5, 33), (130, 5), (2, 8)):
        x = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
        for kind in ("sum", "prod", "max", "min"):
            for reverse in (False, True):
                check(x, kind, x.ndim - 1, reverse)


def test_half_accumulates_wide():
    x = np.ones(5000, ml_dtypes.bfloat16)
    same(scan(x, "sum", 0), np.arange(1, 5001).astype(ml_dtypes.bfloat16))
    same(scan(np.stack([x, x], 1), "sum", 0)[:, 1], np.arange(1, 5001).astype(ml_dtypes.bfloat16))


def test_cumulative_empty_and_rejects():
    for shape, axis in (((0,), 0), ((0, 3), 0), ((3, 0), 0), ((3, 0), 1)):
        x = np.zeros(shape, np.float32)
        same(scan(x, "sum", axis), x)
    x = np.zeros((2, 3), np.float32)
    for inputs, out, ip in (
        ([x], x, [5, 0, 0]),
        ([x], x, [-1, 0, 0]),
        ([x], x, [0, 2, 0]),
        ([x], x, [0, -1, 0]),
        ([x], x, [0, 0]),
        ([x, x], x, [0, 0, 0]),
        ([x], x.T, [0, 0, 0]),
        ([x], x.astype(np.float64), [0, 0, 0]),
    ):
        with pytest.raises(ValueError, match="cumulative"):
            run_kernel(KERNELS["cumulative"], inputs, [(out.shape, out.dtype)], ip)


def arg(x, is_max, axis, dtype=np.int32, numbers=0):
    return run_kernel(KERNELS["argreduce"], [x], [(x.shape[:axis] + x.shape[axis + 1 :], dtype)], [is_max, axis, numbers])[0]


def arg_reference(x, is_max, axis, dtype=np.int32):
    x = x.astype(np.float64) if x.dtype in FLOATS else x
    return (np.argmax if is_max else np.argmin)(x, axis).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_argreduce(dtype):
    rng = np.random.default_rng(2)
    for shape in (
        (1,),
        (33,),
        (5000,),
        (6, 70),
        (3, 4, 5),
        (16, 10, 10),
        (2, 31, 13),
        (3, 2, 14),
        (50, 9, 3),
        (7, 64, 31),
        (5, 33, 32),
        (4, 50, 300),
        (2, 3000, 2),
        (7001, 5),
        (2, 2003, 40),
        (1500, 100),
        (9, 100),
        (37, 300),
        (21, 800),
        (2, 255, 24),
        (256, 48),
        (24, 33),
    ):
        x = noise(rng, shape, dtype)
        if dtype.kind in "fVc":
            x = np.round(np.real(x) * 4).astype(dtype)  # ties
            x[x == 0] *= -1
        for k in range(3):
            if k == 2 and dtype.kind in "fVc":
                x[rng.random(shape) < 0.002] = np.nan
            for axis in range(x.ndim):
                for is_max in (True, False):
                    for out in (np.int32, np.int64):
                        want = np.asarray(arg_reference(x, is_max, axis, out))
                        same(arg(x, is_max, axis, out), want)
                        if k == 1:
                            y = np.array(x.T, order="C").T
                            same(arg(y[::-1], is_max, axis, out), np.asarray(arg_reference(y[::-1], is_max, axis, out)))


@pytest.mark.parametrize("threads", [1, 2])
def test_argreduce_long(threads):
    before = parallel.get_num_threads()
    parallel.set_num_threads(threads)
    try:
        rng = np.random.default_rng(3)
        for dtype in (np.float32, np.int8, np.float16):
            x = noise(rng, (2, 300001), dtype)
            for is_max in (True, False):
                same(arg(x, is_max, 1), arg_reference(x, is_max, 1))
            if dtype != np.int8:
                x[0, 250000:250003] = np.nan
                x[1, 0] = np.nan
                same(arg(x, True, 1), np.array([250000, 0], np.int32))
                same(arg(x, False, 1), np.array([250000, 0], np.int32))
    finally:
        parallel.set_num_threads(before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_argreduce_of_numbers(dtype):
    """NaN is left out; -1 where there is nothing else."""
    rng = np.random.default_rng(4)
    for shape in ((1,), (5000,), (2, 300001), (6, 70), (90, 7), (7001, 5), (4, 50, 300), (1500, 100)):
        for share in (0.001, 0.5, 1):
            x = np.round(rng.normal(size=shape) * 4).astype(dtype)
            x[rng.random(shape) < share] = np.nan
            for axis in range(x.ndim):
                for is_max in (True, False):
                    filled = np.where(np.isnan(x), -np.inf if is_max else np.inf, x)
                    want = np.where(np.isnan(x).all(axis), -1, (np.argmax if is_max else np.argmin)(filled, axis))
                    for out in (np.int32, np.int64):
                        same(arg(x, is_max, axis, out, 1), np.asarray(want, out))


def test_argreduce_special_values():
    nan, inf = np.nan, np.inf
    for dtype in FLOATS:
        for values, hi, lo in (
            ([-inf, -inf], 0, 0),
            ([inf, 1, inf], 0, 1),
            ([0.0, -0.0], 0, 0),
            ([-0.0, 0.0], 0, 0),
            ([inf, nan, nan], 1, 1),
            ([-nan, inf, 3], 0, 0),
            ([1, 2, -inf, -nan], 3, 3),
        ):
            x = np.array(values).astype(dtype)
            for view in (x, np.stack([x, x], 1)):
                assert (arg(view, True, 0) == hi).all() and (arg(view, False, 0) == lo).all()


def test_argreduce_empty_and_rejects():
    same(arg(np.zeros((0, 3), np.float32), True, 1), np.zeros(0, np.int32))
    x = np.zeros((2, 3), np.float32)
    for inputs, shape, dtype, ip in (
        ([x], (2,), np.float32, [1, 1, 0]),
        ([x], (3,), np.int32, [1, 1, 0]),
        ([x], (2,), np.int32, [1, 2, 0]),
        ([x], (2,), np.int32, [1, -1, 0]),
        ([x], (2,), np.int32, [1, 1]),
        ([x.astype(np.int32)], (2,), np.int32, [1, 1, 1]),
        ([x[:, :0]], (2,), np.int32, [1, 1, 0]),
        ([], (2,), np.int32, [1, 1, 0]),
    ):
        with pytest.raises(ValueError, match="argreduce"):
            run_kernel(KERNELS["argreduce"], inputs, [(shape, dtype)], ip)
