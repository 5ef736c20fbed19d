"""`dot_bytes`: products of int8 and uint8 with sums of 32 bits, and the products that become one."""

import itertools

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from fgrad._kernels import parallel
from fgrad._kernels.dot_bytes import KERNELS
from tests.kernels.harness import run_kernel

RNG = np.random.default_rng(0)
BYTES = np.int8, np.uint8
BORDERS = 1, 3, 4, 5, 15, 16, 17, 31, 33, 64, 65
LAYOUTS = {
    "rows": lambda b, m, n, d: values((b, m, n), d),
    "columns": lambda b, m, n, d: values((b, n, m), d).swapaxes(1, 2),
    "parts of rows": lambda b, m, n, d: values((b, m, n + 3), d)[:, :, 1:-2],
    "every second": lambda b, m, n, d: values((b, 2 * m, 2 * n), d)[:, ::2, ::2],
    "shared": lambda b, m, n, d: np.broadcast_to(values((1, m, n), d), (b, m, n)),
}


def values(shape, dtype):
    info = np.iinfo(dtype)
    x = RNG.integers(info.min, info.max, shape, dtype, endpoint=True)
    return np.where(RNG.random(shape) < 0.1, dtype(RNG.choice([info.min, info.max])), x)


def check(a, b, out=np.int32):
    want = (a.astype(np.int64) @ b.astype(np.int64)).astype(out)
    got = run_kernel(KERNELS["dot_bytes"], [a, b], [(want.shape, out)])[0]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("first, second", [*itertools.product(BYTES, BYTES)])
def test_sizes_around_the_borders(first, second):
    for m, n in itertools.product(BORDERS, BORDERS):
        k = int(RNG.choice([1, 2, 3, 4, 7, 63, 130]))
        check(values((1, m, k), first), values((1, k, n), second))
    for k in (511, 512, 513, 1030):
        check(values((1, 14, k), first), values((1, k, 70), second), np.uint32)


@pytest.mark.parametrize("first, second", [*itertools.product(LAYOUTS, LAYOUTS)])
def test_layouts_and_threads(first, second):
    before = parallel.get_num_threads()
    try:
        for threads in (1, 3):
            parallel.set_num_threads(threads)
            for b, m, n, k in ((1, 9, 40, 21), (3, 20, 33, 50), (2, 130, 1, 520), (2, 1, 130, 520), (1, 90, 300, 600)):
                check(LAYOUTS[first](b, m, k, np.int8), LAYOUTS[second](b, k, n, np.uint8))
                check(LAYOUTS[first](b, m, k, np.uint8), LAYOUTS[second](b, k, n, np.int8))
    finally:
        parallel.set_num_threads(before)


@pytest.mark.parametrize("b, m, n, k", [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 5), (2, 3, 4, 0)])
def test_empty(b, m, n, k):
    check(values((b, m, k), np.int8), values((b, k, n), np.int8))


def test_rejections():
    a, b = values((2, 3, 4), np.int8), values((2, 4, 5), np.uint8)
    check(a, b)
    for x, y, out, ip in (
        (a.astype(np.int16), b, ((2, 3, 5), np.int32), ()),
        (a, b.astype(np.int32), ((2, 3, 5), np.int32), ()),
        (a, b, ((2, 3, 5), np.int64), ()),
        (a[:1], b, ((2, 3, 5), np.int32), ()),
        (a[0], b[0], ((3, 5), np.int32), ()),
        (a[:, :, :3], b, ((2, 3, 5), np.int32), ()),
        (a, b, ((2, 5, 3), np.int32), ()),
        (a, b, ((2, 3, 5), np.int32, (2, 3, 5), (15, 1, 3)), ()),
        (a, b, ((2, 3, 5), np.int32), (1,)),
    ):
        with pytest.raises(ValueError, match="dot_bytes"):
            run_kernel(KERNELS["dot_bytes"], [x, y], [out], ip)


FORMS = {
    "preferred": lambda a, b: lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32),
    "widened": lambda a, b: a.astype(jnp.int32) @ b.astype(jnp.int32),
    "turned": lambda a, b: a.astype(jnp.int32) @ b.astype(jnp.int32).T.reshape(b.shape[::-1]).T,
    "of columns": lambda a, b: lax.dot_general(a.T, b, (((0,), (0,)), ((), ())), preferred_element_type=jnp.int32),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", BYTES)
def test_products_of_bytes(form, dtype):
    for m, n, k in ((40, 50, 60), (1, 300, 200), (300, 2, 100)):
        a, b = values((m, k), dtype), values((k, n), dtype)
        want = a.astype(np.int32) @ b.astype(np.int32)
        compiled = fgrad.jit(FORMS[form]).lower(a, b).compile()
        assert "dot_bytes" in " ".join(label for _, label in compiled.profile(a, b, repeat=1))
        np.testing.assert_array_equal(compiled(a, b), want)
        with fgrad.config.override("pass_simplify", False):
            np.testing.assert_array_equal(fgrad.jit(lambda *ab: FORMS[form](*ab))(a, b), want)


def test_a_reshape_of_widened_bytes_is_not_their_matrix():
    a, w = values((8, 512), np.int8), values((64, 64, 2), np.int8)
    whole = fgrad.jit(lambda a, w: a.astype(jnp.int32) @ w.astype(jnp.int32).reshape(512, 16))
    np.testing.assert_array_equal(whole(a, w), a.astype(np.int32) @ w.astype(np.int32).reshape(512, 16))
