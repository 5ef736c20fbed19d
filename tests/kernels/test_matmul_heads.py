"""`dot` of two batch axes, and of matrices whose rows lie between each other, as heads inside a position do."""

import ml_dtypes
import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad._kernels import parallel
from fgrad._kernels.matmul import KERNELS
from tests.kernels.harness import contiguous, run_kernel

RNG = np.random.default_rng(0)
DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.complex64, np.int32, np.int8]


def values(shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        return RNG.integers(-9, 9, shape).astype(dtype)
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape)).astype(dtype) if dtype.kind == "c" else x.astype(dtype)


def laid(shape, order, dtype):
    """An array of that shape whose axes lie in memory in the given order."""
    return values([shape[i] for i in order], dtype).transpose(np.argsort(order))


def check(a, b, out_dtype=None, c=None):
    out_dtype = np.dtype(out_dtype or a.dtype)
    shape = (*a.shape[:-1], b.shape[-1])
    inputs = [a, b] if c is None else [a, b, c]
    got = run_kernel(KERNELS["dot"], inputs, [(shape, out_dtype, shape, contiguous(shape))], ip=[] if c is None else [1])[0]
    wide = np.complex128 if out_dtype.kind == "c" else np.int64 if out_dtype.kind == "i" else np.float64
    want = np.matmul(a.astype(wide), b.astype(wide)) + (0 if c is None else c.astype(wide))
    if out_dtype.kind == "i":
        np.testing.assert_array_equal(got, want.astype(out_dtype))
        return got
    size = np.matmul(np.abs(a).astype(np.float64), np.abs(b).astype(np.float64)) + (0 if c is None else np.abs(c).astype(np.float64))
    eps = float(ml_dtypes.finfo(out_dtype).eps)
    narrow = out_dtype.itemsize == 2
    bound = size * (80 * 1.2e-7 + 2 * eps if narrow else 80 * eps) + 1e-6 * narrow
    assert (np.abs(got.astype(wide) - want) <= bound).all()
    return got


# Layouts of b (B, H, K, N): heads inside a position, along n (values) or along k (keys), the same of one outer entry, plain ones.
LAYOUTS = {"values": (0, 2, 1, 3), "keys": (0, 3, 1, 2), "batch inside": (2, 1, 0, 3), "plain": (0, 1, 2, 3), "turned": (0, 1, 3, 2)}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_two_batch_axes(dtype, layout):
    """Rows below, at and above what is streamed; K and N around vectors, chunks of 16-bit numbers and blocks of positions."""
    for B, H, M, K, N in (
        (2, 3, 1, 64, 100), (3, 2, 1, 100, 64), (2, 5, 3, 33, 17), (1, 4, 1, 40, 300), (4, 1, 2, 40, 300), (2, 16, 1, 64, 130),
        (2, 16, 8, 130, 64), (2, 7, 4, 128, 65), (2, 3, 9, 40, 33), (3, 2, 20, 16, 8), (2, 3, 16, 31, 64), (2, 20, 1, 600, 16),
        (2, 4, 1, 1000, 24),
    ):  # fmt: skip
        b = laid((B, H, K, N), LAYOUTS[layout], dtype)
        check(values((B, H, M, K), dtype), b)
        check(laid((B, H, M, K), (0, 2, 1, 3), dtype), b)
        check(np.broadcast_to(values((H, M, K), dtype), (B, H, M, K)), b, c=values((B, H, M, N), dtype))
        check(laid((B, H, M, K), (1, 3, 0, 2), dtype), b[:, ::-1, ::-1])
        if np.dtype(dtype).itemsize == 2:
            check(values((B, H, M, K), dtype), b, np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("M", [1, 2, 5, 8])
def test_heads_inside_a_position(dtype, M):
    """One batch axis and two, groups of heads, parts of K, positions that are no whole block; the same bits on one thread and on three."""
    before = parallel.get_num_threads()
    try:
        for B, H, T, d in ((1, 12, 301, 64), (2, 9, 150, 48), (1, 40, 130, 72), (1, 3, 5000, 33)):
            keys, queries = laid((B, H, d, T), (0, 3, 1, 2), dtype), values((B, H, M, d), dtype)
            held, weights = laid((B, H, T, d), (0, 2, 1, 3), dtype), values((B, H, M, T), dtype)
            for a, b in ((queries, keys), (weights, held)):
                parallel.set_num_threads(1)
                one = check(a[0], b[0]) if B == 1 else check(a, b)
                check(a, b, c=values((B, H, M, b.shape[3]), dtype))
                parallel.set_num_threads(3)
                np.testing.assert_array_equal(one, check(a[0], b[0]) if B == 1 else check(a, b))
    finally:
        parallel.set_num_threads(before)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_far_sixteen_bit_values(dtype):
    """From 16 MB on rows of 16 bits are added up in the order of memory, too."""
    check(values((16, 1, 4300), dtype), laid((16, 4300, 128), (1, 0, 2), dtype))
    check(values((16, 2, 4300), dtype), laid((16, 4300, 127), (1, 0, 2), dtype), np.float32)


def test_rejections():
    f = np.float32
    a, b = np.zeros((2, 3, 4, 5), f), np.zeros((2, 3, 5, 6), f)
    run_kernel(KERNELS["dot"], [a, b], [((2, 3, 4, 6), f)])
    for x, y, out, message in (
        (a, b[0], (2, 3, 4, 6), "dimensions"), (a, b, (3, 4, 6), "dimensions"), (a[None], b[None], (1, 2, 3, 4, 6), "dimensions"),
        (a, b[:1], (2, 3, 4, 6), "do not fit"), (a, b[:, :2], (2, 3, 4, 6), "do not fit"), (a, b, (2, 2, 4, 6), "do not fit"),
        (a, b[:, :, :4], (2, 3, 4, 6), "do not fit"), (a, b, (2, 3, 4, 5), "do not fit"),
    ):  # fmt: skip
        with pytest.raises(Exception, match=message):
            run_kernel(KERNELS["dot"], [x, y], [(out, f)])
    with pytest.raises(Exception, match="distinct"):
        run_kernel(KERNELS["dot"], [a, b], [((2, 3, 4, 6), f, (2, 3, 4, 6), (0, 24, 6, 1))])


@pytest.mark.parametrize(
    ("spec", "shapes", "copies"),
    [
        ("bhd,bthd->bht", ((2, 4, 32), (2, 50, 4, 32)), 0),
        ("bht,bthd->bhd", ((2, 4, 50), (2, 50, 4, 32)), 0),
        ("bkgd,btkd->bkgt", ((2, 4, 3, 32), (2, 50, 4, 32)), 0),
        ("bqhd,bkhd->bhqk", ((2, 4, 4, 32), (2, 50, 4, 32)), 0),
        ("bqhd,bkhd->bhqk", ((2, 20, 4, 32), (2, 50, 4, 32)), 2),  # many rows: copies, whose products go head by head
        ("bhqk,bkhd->bqhd", ((2, 4, 4, 50), (2, 50, 4, 32)), 0),
        ("bhqk,bkhd->bqhd", ((2, 4, 20, 50), (2, 50, 4, 32)), 2),
        ("abcij,cbajk->abcik", ((2, 3, 4, 4, 8), (4, 3, 2, 8, 9)), 1),  # three axes: the second operand's become one
    ],
)
def test_einsum_reads_heads_where_they_lie(spec, shapes, copies):
    a, b = (values(s, np.float32) for s in shapes)
    f = fgrad.jit(lambda a, b: jnp.einsum(spec, a, b))
    np.testing.assert_allclose(f(a, b), np.einsum(spec, a.astype(np.float64), b.astype(np.float64)), rtol=1e-4, atol=1e-4)
    labels = [label for _, label in f.lower(a, b).compile().profile(a, b, repeat=1)]
    assert sum(text.startswith("copy") for text in labels) == copies
