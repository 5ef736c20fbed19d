"""The Fourier kernel against NumPy in double precision."""

import numpy as np
import pytest

from fgrad._kernels import fft, parallel
from tests.kernels.harness import run_kernel

KERNEL = fft.KERNELS["fft"]
TYPES = [(np.float32, np.complex64), (np.float64, np.complex128)]
SMALL = [*range(1, 34), 49, 60, 61, 64, 67, 81, 100, 121, 122, 127, 128, 134, 169, 243, 256, 257, 343, 360]
LONG = [509, 512, 625, 1000, 1009, 1021 * 2, 1024, 2048, 2187, 4096, 5000, 10007, 16384, 30030, 32768, 40000, 65537]


def transform(x, kind, inverse, axes, out_shape):
    real, cplx = next(t for t in TYPES if x.dtype in t)
    return run_kernel(KERNEL, [x], [(out_shape, real if kind == 2 else cplx)], [kind, inverse, *axes])[0]


def near(got, want, n):
    """Errors relative to the root of the mean square, which grow with the logarithm of the length."""
    eps = np.finfo(got.dtype).eps
    scale = np.sqrt(np.mean(np.abs(want) ** 2)) + 1e-300
    assert np.abs(got - want).max() <= eps * scale * (6 + 2 * np.log2(n)), np.abs(got - want).max() / eps / scale


def noise(rng, shape, real):
    return rng.standard_normal(shape).astype(real)


def check(shape, axis, real, cplx):
    rng = np.random.default_rng(0)
    n = shape[axis]
    half = tuple(n // 2 + 1 if d == axis else m for d, m in enumerate(shape))
    z = (noise(rng, shape, real) + 1j * noise(rng, shape, real)).astype(cplx)
    near(transform(z, 0, 0, [axis], shape), np.fft.fft(z.astype(np.complex128), axis=axis), n)
    near(transform(z, 0, 1, [axis], shape), np.fft.ifft(z.astype(np.complex128), axis=axis), n)
    x = noise(rng, shape, real)
    near(transform(x, 1, 0, [axis], half), np.fft.rfft(x.astype(np.float64), axis=axis), n)
    near(transform(x, 1, 0, [axis], shape), np.fft.fft(x.astype(np.float64), axis=axis), n)
    h = np.ascontiguousarray(z[tuple(slice(m) for m in half)])
    near(transform(h, 2, 1, [axis], shape), np.fft.irfft(h.astype(np.complex128), n, axis), n)


@pytest.mark.parametrize("real, cplx", TYPES, ids=["float32", "float64"])
def test_small(real, cplx):
    for n in SMALL:
        for shape, axis in (((n,), 0), ((3, n), 1), ((37, n), 1), ((n, 3), 0), ((n, 21), 0), ((2, n, 33), 1), ((5, n, 4), 1)):
            check(shape, axis, real, cplx)


@pytest.mark.parametrize("n", LONG)
def test_long(n):
    for real, cplx in TYPES:
        check((n,), 0, real, cplx)
        if n < 3000:
            check((17, n), 1, real, cplx)
            check((n, 3), 0, real, cplx)
            check((n, 17), 0, real, cplx)


@pytest.mark.parametrize("real, cplx", TYPES, ids=["float32", "float64"])
@pytest.mark.parametrize("n", [128, 130, 250, 396, 750, 1000, 1001, 1300])
def test_many_rows(n, real, cplx):
    """Rows as lanes, read and written by squares: the last squares lie over others, the last rows are few."""
    check((101, n), 1, real, cplx)


def test_exact_roots():
    """Impulses give products of a few roots of unity, and exact ones at quarter turns, but for what a fused multiply-add keeps."""
    for n in (8, 12, 64, 4096):
        x = np.zeros(n, np.complex128)
        x[1] = 1
        k = np.arange(n)
        angle = 2 * np.longdouble("3.14159265358979323846264338327950288") * k / n
        want = np.cos(angle) - 1j * np.sin(angle)
        assert np.abs(transform(x, 0, 0, [0], (n,)) - want).max() <= 1e-15
        assert abs(transform(x, 0, 0, [0], (n,))[n // 4] + 1j) <= 1e-17


@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (2,), (0, 1, 2), (2, 0)])
def test_several_axes(axes):
    rng = np.random.default_rng(1)
    for shape in ((4, 6, 5), (3, 40, 34), (16, 16, 16)):
        for real, cplx in TYPES:
            x = noise(rng, shape, real)
            z, n, last = (x + 1j * noise(rng, shape, real)).astype(cplx), x.size, axes[-1]
            half = tuple(m // 2 + 1 if d == last else m for d, m in enumerate(shape))
            near(transform(z, 0, 0, axes, shape), np.fft.fftn(z.astype(np.complex128), axes=axes), n)
            near(transform(z, 0, 1, axes, shape), np.fft.ifftn(z.astype(np.complex128), axes=axes), n)
            near(transform(x, 1, 0, axes, half), np.fft.rfftn(x.astype(np.float64), axes=axes), n)
            near(transform(x, 1, 0, axes, shape), np.fft.fftn(x.astype(np.float64), axes=axes), n)
            h = np.fft.rfftn(x.astype(np.float64), axes=axes).astype(cplx)
            near(transform(h, 2, 1, axes, shape), x.astype(np.float64), n)


@pytest.mark.parametrize("shape", [(211, 64, 48), (2100, 16, 18), (13, 200, 240), (5, 7, 33, 512), (3, 400, 500)])
def test_groups_of_images(shape):
    """Images in groups, the last one of fewer, on fewer and more threads than groups; the last shape's images are too large."""
    rng, axes, before = np.random.default_rng(3), (len(shape) - 2, len(shape) - 1), parallel.get_num_threads()
    x = noise(rng, shape, np.float32)
    z, half = (x + 1j * noise(rng, shape, np.float32)).astype(np.complex64), (*shape[:-1], shape[-1] // 2 + 1)
    h, n, results = np.fft.rfft2(x.astype(np.float64)).astype(np.complex64), shape[-1] * shape[-2], []
    try:
        for threads in (1, 2, 7):
            parallel.set_num_threads(threads)
            outs = [transform(z, 0, 0, axes, shape), transform(z, 0, 1, axes, shape)]
            outs += [transform(x, 1, 0, axes, half), transform(h, 2, 1, axes, shape)]
            results.append(b"".join(out.tobytes() for out in outs))
    finally:
        parallel.set_num_threads(before)
    assert len(set(results)) == 1
    z = z.astype(np.complex128)
    for out, want in zip(outs, (np.fft.fft2(z), np.fft.ifft2(z), h, x.astype(np.float64))):
        near(out, want, n)


def test_inf_and_nan_stay_in_their_row():
    x = np.ones((40, 64), np.complex64)
    x[3, 5], x[20, 1] = np.inf, np.nan
    out = transform(x, 0, 0, [1], x.shape)
    bad = ~np.isfinite(out).all(1)
    assert bad.nonzero()[0].tolist() == [3, 20]


def test_threads_make_no_difference():
    rng = np.random.default_rng(2)
    before = parallel.get_num_threads()
    for shape, axis in (((100, 1000), 1), ((1 << 17,), 0), ((200, 100), 0), ((1, 10007), 1)):
        x = (noise(rng, shape, np.float32) + 1j * noise(rng, shape, np.float32)).astype(np.complex64)
        results = []
        try:
            for threads in (1, 2, 5):
                parallel.set_num_threads(threads)
                results.append(transform(x, 0, 0, [axis], shape).tobytes())
        finally:
            parallel.set_num_threads(before)
        assert len(set(results)) == 1


def test_empty():
    assert transform(np.zeros((0, 4), np.complex64), 0, 0, [1], (0, 4)).shape == (0, 4)
    assert transform(np.zeros((3, 0), np.float32), 1, 0, [1], (3, 1)).tolist() == [[0], [0], [0]]
    assert transform(np.zeros((3, 1), np.complex64), 2, 1, [1], (3, 0)).shape == (3, 0)


@pytest.mark.parametrize(
    "x, out, ip, message",
    [
        (np.zeros(4, np.float32), ((4,), np.complex64), [0, 0, 0], "does not take"),
        (np.zeros(4, np.complex64), ((4,), np.complex128), [0, 0, 0], "does not take"),
        (np.zeros(4, np.complex64), ((5,), np.complex64), [0, 0, 0], "does not give"),
        (np.zeros(5, np.float32), ((4,), np.complex64), [1, 0, 0], "does not give"),
        (np.zeros(4, np.float32), ((3,), np.complex64), [1, 1, 0], "direction"),
        (np.zeros(4, np.complex64), ((4,), np.complex64), [3, 0, 0], "kind"),
        (np.zeros(4, np.complex64), ((4,), np.complex64), [0, 0, 1], "out of range"),
        (np.zeros((4, 4), np.complex64), ((4, 4), np.complex64), [0, 0, 1, 1], "repeated"),
        (np.zeros((4, 4), np.complex64).T[:, :2], ((4, 2), np.complex64), [0, 0, 0], "contiguous"),
        (np.zeros(4, np.complex64), ((4,), np.complex64), [0, 0], "integers"),
    ],
)
def test_refused(x, out, ip, message):
    with pytest.raises(ValueError, match=message):
        run_kernel(KERNEL, [x], [out], ip)
