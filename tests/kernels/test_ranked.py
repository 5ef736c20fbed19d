"""Elements by their rank: values and positions as those of a stable sort, for every real dtype."""

import numpy as np
import pytest

from fgrad._kernels import parallel, ranked
from tests.kernels.harness import run_kernel
from tests.kernels.test_movement import same
from tests.kernels.test_sort import REAL, noise, reference_order

KERNEL = ranked.KERNELS["ranked"]


def run_ranked(x, ranks, positions=True):
    outs = [(ranks.shape, x.dtype), (ranks.shape, np.int32)]
    return run_kernel(KERNEL, [x, ranks], outs if positions else outs[:1])


def check(x, ranks):
    at = np.take_along_axis(reference_order([x], -1), np.clip(ranks, 0, x.shape[-1] - 1), -1)
    values, positions = run_ranked(x, ranks)
    same(positions, at.astype(np.int32))
    same(values, np.take_along_axis(x, at, -1))
    same(run_ranked(x, ranks, False)[0], values)


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 64), (2, 3, 400), (2, 1025), (5000,), (2, 20_011)])
def test_ranked(shape, dtype):
    rng = np.random.default_rng(3)
    for ties in (True, False):
        x = noise(rng, shape, dtype, ties)
        for k in (0, 1, 2, 9):
            check(x, rng.integers(-2, shape[-1] + 2, (*shape[:-1], k)).astype(np.int32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("data", ["equal", "two", "up", "down", "organ", "greatest"])
def test_rows_that_are_hard_to_part(data, dtype):
    n = 30_000
    ramp = np.arange(n)
    greatest = np.iinfo(np.int32).max
    x = {
        "equal": ramp * 0,
        "two": ramp % 2,
        "up": ramp,
        "down": -ramp,
        "organ": np.minimum(ramp, n - ramp),
        "greatest": ramp * 0 + greatest,
    }[data]
    check(x.astype(dtype), np.array([n // 2, 0, n - 1, n // 3, n // 2 + 1, n // 2], np.int32))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads(threads):
    before = parallel.get_num_threads()
    try:
        parallel.set_num_threads(threads)
        x = noise(np.random.default_rng(0), (9, 4000), np.float32)
        check(x, np.tile(np.array([1999, 2000], np.int32), (9, 1)))
    finally:
        parallel.set_num_threads(before)


def test_ranked_rejects():
    x, i = np.zeros((2, 3), np.float32), np.zeros((2, 1), np.int32)
    out = ((2, 1), np.float32)
    for inputs, outs in (
        ([x], [out]),
        ([x, i.astype(np.int64)], [out]),
        ([x.astype(np.complex64), i], [((2, 1), np.complex64)]),
        ([x, i[:1]], [((1, 1), np.float32)]),
        ([x, i[0]], [((1,), np.float32)]),
        ([np.zeros((3, 2), np.float32).T, i], [out]),
        ([x[:, :0], i], [out]),
        ([x, i], [((2, 2), np.float32)]),
        ([x, i], [((2, 1), np.float64)]),
        ([x, i], [out, ((2, 1), np.int64)]),
        ([np.float32(0), np.int32(0)], [((), np.float32)]),
    ):
        with pytest.raises(ValueError, match="ranked"):
            run_kernel(KERNEL, [np.asarray(v) for v in inputs], outs)
