"""Random bits: the published threefry-2x32 (Salmon et al., 2011) in Python integers, and how keys count."""

import math
from statistics import NormalDist

import numpy as np

from fgrad.ops import random as ops
from tests.table.case import Case, Sample

U32, F32 = np.dtype(np.uint32), np.dtype(np.float32)
WORD = 0xFFFFFFFF


def threefry(k1, k2, x1, x2):
    """One hash."""
    keys = (k1, k2, k1 ^ k2 ^ 0x1BD11BDA)
    a, b = (x1 + k1) & WORD, (x2 + k2) & WORD
    for group in range(5):
        for r in (13, 15, 26, 6) if group % 2 == 0 else (17, 29, 16, 24):
            a = (a + b) & WORD
            b = ((b << r) | (b >> (32 - r))) & WORD ^ a
        a = (a + keys[(group + 1) % 3]) & WORD
        b = (b + keys[(group + 2) % 3] + group + 1) & WORD
    return a, b


def np_hash(*words):
    words = np.broadcast_arrays(*words)
    pairs = [threefry(*map(int, w)) for w in zip(*[x.ravel() for x in words])]
    out = np.array(pairs, np.uint32).reshape(-1, 2)
    return out[:, 0].reshape(words[0].shape), out[:, 1].reshape(words[0].shape)


def np_count(draw, shape, dtype):
    """draw(hash words) of the counters 0, 1, ... for every key of an array of keys."""

    def ref(keys):
        n = int(np.prod(shape))
        each = [[draw(*threefry(int(k[0]), int(k[1]), i >> 32, i & WORD)) for i in range(n)] for k in keys.reshape(-1, 2)]
        return np.array(each, dtype)

    return ref


def _bits(keys, shape, width):
    def draw(a, b):
        return a << 32 | b if width == 64 else (a ^ b) & ((1 << width) - 1)

    dtype = np.dtype(f"uint{width}")

    def ref(k):
        return np_count(draw, shape, dtype)(k).reshape((*k.shape[:-1], *shape))

    fun = lambda k: ops.threefry_bits_p.bind(k, shape=shape, bit_width=width)
    return Case(fun, (words(*keys, 2),), ref, name=f"{width} bits {shape} from {keys}", dtypes=(U32,), out=dtype, wrt=())


def _split(keys, shape):
    def ref(k):
        return np_count(lambda a, b: (a, b), shape, np.uint32)(k).reshape((*k.shape[:-1], *shape, 2))

    fun = lambda k: ops.threefry_split_p.bind(k, shape=shape)
    return Case(fun, (words(*keys, 2),), ref, name=f"{shape} from {keys}", dtypes=(U32,), wrt=())


def words(*shape):
    return Sample(shape, 0, 2**32, U32)


def np_gamma(keys, d):
    """Marsaglia and Tsang's accepted v, one lane after another."""
    out = np.ones(d.shape, np.float64)
    for i in np.ndindex(d.shape):
        key, c = keys[i], 1 / 3 / math.sqrt(d[i])
        while True:
            key, x_key, u_key = np_count(lambda a, b: (a, b), (3,), np.uint32)(key).reshape(3, 2)
            v = -1
            while v <= 0:
                x_key, sub = np_count(lambda a, b: (a, b), (2,), np.uint32)(x_key).reshape(2, 2)
                x = NormalDist().inv_cdf((np_unit(sub) * 2 - 1 + 2**-24) / 2 + 0.5)
                v = 1 + x * c
            v, u = v**3, np_unit(u_key)
            if u < 1 - 0.0331 * x**4 or u == 0 or math.log(u) < x * x / 2 + d[i] * (1 - v + math.log(v)):
                break
        out[i] = v
    return out.astype(d.dtype)


def np_unit(key):
    return int(np_count(lambda a, b: a ^ b, (), np.uint32)(key).reshape(())) // 512 / 2**23


def _pick(keys, logits, draws):
    def ref(k, x):
        u = np_count(lambda a, b: (a ^ b) >> 9, (draws, *x.shape[-2:]), np.uint32)(k).reshape((*k.shape[:-1], draws, *x.shape[-2:]))
        return (x[..., None, :, :] - np.log(-np.log(np.maximum(u / 2**23, np.finfo(F32).tiny)))).argmax(-1).astype(np.int32)

    fun = lambda k, x: ops.threefry_pick_p.bind(k, x, draws=draws)
    args = words(*keys, 2), Sample(logits, -2, 2, F32)
    return Case(fun, args, ref, name=f"{draws} of {logits} from {keys}", dtypes=(F32,), out=np.dtype(np.int32), wrt=())


ROWS = {
    "random_gamma": [
        Case(
            ops.random_gamma_p.bind,
            (words(*shape, 2), Sample(shape, 0.7, 9, F32)),
            np_gamma,
            name=f"shape {shape}",
            dtypes=(F32,),
            wrt=(),
            ulps=400,
        )
        for shape in ((), (600,), (2, 5), (0, 3))
    ],
    "threefry2x32": [
        Case(ops.threefry2x32, (words(5),) * 4, np_hash, dtypes=(U32,), wrt=()),
        Case(ops.threefry2x32, (words(), words(), words(2, 3), words(2, 3)), np_hash, name="one key", dtypes=(U32,), wrt=()),
        Case(ops.threefry2x32, (words(0),) * 4, np_hash, name="empty", dtypes=(U32,), wrt=()),
    ],
    "threefry_bits": [_bits((), (5,), 32), _bits((2,), (2, 3), 64), _bits((), (3,), 8), _bits((), (), 16), _bits((), (0, 2), 32)],
    "threefry_pick": [
        *(_pick((), (2, n), 3) for n in (1, 15, 16, 17, 1025)),
        *(_pick((), (1, 40), d) for d in (0, 5)),
        *(_pick((2, 3), lead + (2, 70), 2) for lead in ((2, 3), (1, 3), (1, 1))),
        _pick((0,), (1, 4, 5), 1),
    ],
    "threefry_split": [_split((), (3,)), _split((2,), (2, 2)), _split((), (0,))],
}
