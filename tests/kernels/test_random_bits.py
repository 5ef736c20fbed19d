"""Golden values are those of jax.random (JAX 0.10.2, jax_threefry_partitionable=True)."""

import numpy as np
import pytest

from fgrad._kernels import random as kernels
from tests.kernels.harness import run_kernel

K = kernels.KERNELS
ZERO = np.array([0, 0], np.uint32)  # jax.random.PRNGKey(0)
KEY = np.array([0x12345678, 0x9ABCDEF0], np.uint32)
UINT = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def bits(key, width, shape):
    return run_kernel(K["threefry_bits"], [key], [(shape, UINT[width])], ip=[width])[0]


def split(key, shape):
    return run_kernel(K["threefry_split"], [key], [((*key.shape[:-1], *shape, 2), np.uint32)])[0]


def threefry(k1, k2, x1, x2):
    args = np.broadcast_arrays(*(np.asarray(a, np.uint32) for a in (k1, k2, x1, x2)))
    return run_kernel(K["threefry2x32"], args, [(args[0].shape, np.uint32)] * 2)


def reference(k1, k2, x1, x2):
    """The published algorithm in Python integers, one element."""
    mask = 0xFFFFFFFF
    keys = (k1, k2, k1 ^ k2 ^ 0x1BD11BDA)
    a, b = (x1 + k1) & mask, (x2 + k2) & mask
    for group in range(5):
        for r in (13, 15, 26, 6) if group % 2 == 0 else (17, 29, 16, 24):
            a = (a + b) & mask
            b = ((b << r) | (b >> (32 - r))) & mask ^ a
        a = (a + keys[(group + 1) % 3]) & mask
        b = (b + keys[(group + 2) % 3] + group + 1) & mask
    return a, b


def test_known_answers():
    # the vectors of the Random123 distribution
    for k1, k2, x1, x2, y1, y2 in [
        (0, 0, 0, 0, 0x6B200159, 0x99BA4EFE),
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0x1CB996FC, 0xBB002BE7),
        (0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3, 0xC4923A9C, 0x483DF7A0),
    ]:
        assert [int(v) for v in threefry(k1, k2, x1, x2)] == [y1, y2]


GOLDEN = [
    (ZERO, 8, [0xA7, 0x92, 0x28, 0x35, 0xB7]),
    (ZERO, 16, [0x4FA7, 0x3692, 0x0E28, 0xA835, 0x3BB7]),
    (ZERO, 32, [0xF29A4FA7, 0xFA843692, 0x55110E28, 0x77FAA835, 0x91E43BB7]),
    (ZERO, 64, [0x6B20015999BA4EFE, 0x375F238FCDDB151D, 0xF71F4EA9A20E4081, 0x9312778BE4E8DFBE, 0x883FFEC119DBC576]),
    (KEY, 8, [0xBA, 0x9E, 0xB8, 0xD1, 0xB4]),
    (KEY, 16, [0x70BA, 0xC99E, 0xECB8, 0x39D1, 0x82B4]),
    (KEY, 32, [0x4D9370BA, 0x2510C99E, 0xC940ECB8, 0x8BFF39D1, 0x1B5D82B4]),
    (KEY, 64, [0xED280379A0BB73C3, 0x7C4D1FD5595DD64B, 0x612EE2FDA86E0E45, 0x2D7CCF79A683F6A8, 0xE3C87262F895F0D6]),
]


@pytest.mark.parametrize("key, width, want", GOLDEN)
def test_bits_are_those_of_jax(key, width, want):
    np.testing.assert_array_equal(bits(key, width, (5,)), np.array(want, UINT[width]))
    assert bits(key, width, ()) == want[0]


@pytest.mark.parametrize("key, total, xor", [(ZERO, 0x5D1466D6CF4, 0x41F01436), (KEY, 0x5D69A4BBB5A, 0x18972680)])
def test_a_larger_draw_is_that_of_jax(key, total, xor):
    b = bits(key, 32, (3, 1001))
    assert int(b.astype(np.uint64).sum()) == total and int(np.bitwise_xor.reduce(b.ravel())) == xor


def test_split_and_fold_in_are_those_of_jax():
    want = [[0x6B200159, 0x99BA4EFE], [0x375F238F, 0xCDDB151D], [0xF71F4EA9, 0xA20E4081]]
    np.testing.assert_array_equal(split(ZERO, (3,)), np.array(want, np.uint32))
    assert [int(v) for v in threefry(*ZERO, 0, 7)] == [0xA1EF7A4D, 0x116EB6B3]  # jax.random.fold_in(key, 7)
    assert [int(v) for v in threefry(*KEY, 0, 7)] == [0x3AB29D8E, 0x13E8830E]


@pytest.mark.parametrize("n", [1, 255, 256, 257, 70000])
def test_bits_agree_with_the_hash(n):
    a, b = threefry(KEY[0], KEY[1], 0, np.arange(n))
    np.testing.assert_array_equal(bits(KEY, 32, (n,)), a ^ b)
    np.testing.assert_array_equal(bits(KEY, 16, (n,)), (a ^ b).astype(np.uint16))
    np.testing.assert_array_equal(bits(KEY, 64, (n,)), a.astype(np.uint64) << np.uint64(32) | b)
    np.testing.assert_array_equal(split(KEY, (n,)), np.stack([a, b], -1))
    for i in {0, n // 2, n - 1}:
        assert (int(a[i]), int(b[i])) == reference(int(KEY[0]), int(KEY[1]), 0, i)


def test_hash_of_strided_and_broadcast_operands():
    rng = np.random.default_rng(0)
    k1, k2, x1, x2 = (rng.integers(0, 2**32, (7, 33, 5), dtype=np.uint32) for _ in range(4))
    views = [
        (k1, k2, x1, x2),
        (k1[:, :1], k2[:1, :, :1], x1[::-1], x2[..., ::-1]),
        (k1[0, 0, 0], k2[0, 0, 0], x1.transpose(2, 1, 0)[:, ::3], x2.transpose(2, 1, 0)[:, ::3]),
        (k1[:, ::2, ::2], k2[:, ::2, ::2], x1[:, ::-2, ::-2], 3),
        (k1[:, 0], k2[:, 0], x1[:, 1], np.uint32(0)),
    ]
    for view in views:
        y1, y2 = threefry(*view)
        for at in [(0,) * y1.ndim, tuple(s - 1 for s in y1.shape), tuple(s // 2 for s in y1.shape)]:
            operands = [int(a[at]) for a in np.broadcast_arrays(*(np.asarray(v, np.uint32) for v in view))]
            assert (int(y1[at]), int(y2[at])) == reference(*operands)
        dense = threefry(*(np.ascontiguousarray(a) for a in np.broadcast_arrays(*(np.asarray(v, np.uint32) for v in view))))
        np.testing.assert_array_equal(y1, dense[0])
        np.testing.assert_array_equal(y2, dense[1])


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_batches_of_keys(width):
    keys = split(KEY, (3, 2))
    for key in (keys, keys[::-1].transpose(1, 0, 2), np.broadcast_to(keys[:, :1], (3, 4, 2)), keys[..., ::-1]):
        got, halves = bits(key, width, (*key.shape[:2], 5, 60)), split(key, (2,))
        for i in np.ndindex(key.shape[:2]):
            np.testing.assert_array_equal(got[i], bits(np.ascontiguousarray(key[i]), width, (5, 60)))
            np.testing.assert_array_equal(halves[i], split(np.ascontiguousarray(key[i]), (2,)))


def test_empty():
    empty = np.zeros((0, 3), np.uint32)
    assert threefry(empty, empty, empty, empty)[0].shape == (0, 3)
    assert bits(KEY, 32, (4, 0)).shape == (4, 0) and split(KEY, (0,)).shape == (0, 2)
    assert bits(np.zeros((0, 2), np.uint32), 64, (0, 7)).shape == (0, 7)


def test_rejected():
    with pytest.raises(ValueError, match="bit width must be 8, 16, 32 or 64, got 24"):
        run_kernel(K["threefry_bits"], [KEY], [((3,), np.uint32)], ip=[24])
    with pytest.raises(ValueError, match="uint16 expected"):
        run_kernel(K["threefry_bits"], [KEY], [((3,), np.uint32)], ip=[16])
    with pytest.raises(ValueError, match=r"the key is uint32\(3\)"):
        bits(np.zeros(3, np.uint32), 32, (3,))
    with pytest.raises(ValueError, match="operand 0 is int32"):
        bits(KEY.astype(np.int32), 32, (3,))
    with pytest.raises(ValueError, match="leading axes"):
        bits(np.zeros((4, 2), np.uint32), 32, (3,))
    with pytest.raises(ValueError, match="threefry_split: the output"):
        run_kernel(K["threefry_split"], [KEY], [((3, 3), np.uint32)])
    with pytest.raises(ValueError, match="threefry2x32: operand 1 is uint32"):
        run_kernel(K["threefry2x32"], [KEY, KEY[:1], KEY, KEY], [((2,), np.uint32)] * 2)
    with pytest.raises(ValueError, match="threefry2x32: operand 5 is uint64"):
        run_kernel(K["threefry2x32"], [KEY] * 4, [((2,), np.uint32), ((2,), np.uint64)])


@pytest.mark.parametrize("per", [1, 2, 3, 15, 16, 17])  # up to 16 numbers of a key: vectors are of several keys
@pytest.mark.parametrize("n", [1, 2, 5, 86, 300])
def test_few_numbers_of_many_keys(n, per):
    keys = split(KEY, (2 * n,))
    for view in (keys[:n], keys[::2], keys.reshape(2, n, 2).transpose(1, 0, 2), keys[:n, ::-1]):
        flat = np.ascontiguousarray(view).reshape(-1, 2)
        for width in UINT:
            got = bits(view, width, (*view.shape[:-1], per)).reshape(-1, per)
            np.testing.assert_array_equal(got, np.stack([bits(key, width, (per,)) for key in flat]))
        np.testing.assert_array_equal(split(view, (per,)).reshape(-1, per, 2), np.stack([split(key, (per,)) for key in flat]))


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_blocks_of_counters_at_their_borders(width):
    whole = bits(KEY, width, (1111,))
    for n in (1, 3, 15, 16, 17, 63, 64, 65, 127, 255, 256, 257, 320, 600):
        np.testing.assert_array_equal(bits(KEY, width, (n,)), whole[:n])
        np.testing.assert_array_equal(split(KEY, (n,)), split(KEY, (1111,))[:n])
    at = [0, 63, 64, 255, 256, 1023, 1110]
    words = [reference(int(KEY[0]), int(KEY[1]), 0, i) for i in at]
    np.testing.assert_array_equal(whole[at], [(a << 32 | b) if width == 64 else (a ^ b) & (1 << width) - 1 for a, b in words])


def pick(key, logits, draws):
    return run_kernel(K["threefry_pick"], [key, logits], [((*key.shape[:-1], draws, logits.shape[-2]), np.int32)])[0]


def picked(key, logits, draws):
    """Computed in float64: the position of the greatest, how much greater it is than the next, and the largest number."""
    rows, n = logits.shape
    u = ((bits(key, 32, (draws, rows, n)) >> 9).astype(np.float64) / 2**23).clip(1e-38)
    noisy = logits - np.log(-np.log(u))
    last = np.sort(noisy, -1)
    return noisy.argmax(-1), last[..., -1] - last[..., -2], np.abs(last[..., -1])


@pytest.mark.parametrize("n", [2, 15, 16, 17, 40, 100, 511, 1023, 1024, 1025, 2500, 17000])
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
def test_pick_is_the_greatest_of_all(n, scale):
    rng = np.random.default_rng(n)
    rows, draws = (3, 40) if n < 2000 else (2, 3)
    logits = (scale * rng.standard_normal((rows, n))).astype(np.float32)
    logits[0, : n // 2] = -np.inf
    want, lead, size = picked(KEY, logits, draws)
    sure = lead > 1e-4 + 1e-6 * size
    assert sure.mean() > 0.9
    np.testing.assert_array_equal(pick(KEY, logits, draws)[sure], want[sure])


def test_pick_of_odd_numbers_takes_the_first():
    for n in (20, 1000, 3000, 20000):
        logits = np.zeros((4, n), np.float32)
        logits[0, n // 2 :] = np.nan
        logits[1, [5, n - 1]] = np.inf
        logits[2, :] = -np.inf
        logits[3, [n - 2, n - 1]] = np.float32(3e38)
        np.testing.assert_array_equal(pick(KEY, logits, 3), [[n // 2, 5, 0, n - 2]] * 3)


def test_pick_of_several_keys_shares_logits():
    rng = np.random.default_rng(0)
    keys = split(KEY, (2, 3))
    for lead in [(2, 3), (1, 3), (2, 1), (1, 1)]:
        logits = rng.standard_normal((*lead, 2, 70)).astype(np.float32)
        out = pick(keys, logits, 5)
        for i in range(2):
            for j in range(3):
                np.testing.assert_array_equal(out[i, j], pick(keys[i, j], logits[i % lead[0], j % lead[1]], 5))


def test_pick_is_checked():
    logits = np.zeros((2, 50), np.float32)
    good = [((3, 2), np.int32)]
    for key, x, out in [
        (KEY, logits[0], good),
        (KEY, logits.astype(np.float64), good),
        (KEY, logits[:, ::2], good),
        (KEY, logits, [((3, 3), np.int32)]),
        (KEY, logits, [((3, 2), np.int64)]),
        (KEY, logits[:, :0], good),
        (split(KEY, (4,)), np.zeros((3, 2, 50), np.float32), [((4, 3, 2), np.int32)]),
    ]:
        with pytest.raises(Exception, match="threefry_pick"):
            run_kernel(K["threefry_pick"], [key, x], out)
