"""ggml's view, acc and repeat."""

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fgrad.ops import movement_nn as ops
from tests.table.case import Case, of_kinds, typed

EVERY = of_kinds("fiubc")
NUMBERS = of_kinds("fiuc")
WINDOWS = [
    ((3, 5), (3, 2), (4, 3), 1),
    ((3, 4, 5), (3, 2, 2), (4, 1, 1), 1),
    ((3, 4), (3, 2), (-3, 0), 9),
    ((5,), (), (), 2),
    ((3,), (0, 2), (1, 1), 0),
    ((1,), (1,), (1,), 0),
]


def _window(x, shape, strides, offset):
    return as_strided(x.reshape(-1)[offset:], shape, [s * x.itemsize for s in strides]).copy()


def _view(shape, window, strides, offset):
    fun = lambda x: ops.view(x, window, strides, offset)
    ref = lambda x: _window(x, window, strides, offset)
    title = f"{window} at {offset} by {strides} in {shape}"
    return Case(fun, (typed(*shape),), ref, name=title, dtypes=EVERY, linear=((0,),), ulps=0)


def _acc(shape, window, strides, offset):
    def ref(x, y):
        out = x.reshape(-1).copy()
        for i in np.ndindex(window):
            out[offset + sum(a * b for a, b in zip(i, strides))] += y[i]
        return out.reshape(x.shape)

    fun = lambda x, y: ops.acc(x, y, strides, offset)
    title = f"{window} at {offset} by {strides} into {shape}"
    return Case(fun, (typed(*shape), typed(*window)), ref, name=title, dtypes=NUMBERS, linear=((0, 1),), ulps=16)


REPS = [((2, 3), (2, 2)), ((2, 1, 3), (1, 3, 2)), ((4,), (1,)), ((), ())]


def _repeat(shape, reps):
    fun = lambda x: ops.repeat(x, reps)
    return Case(fun, (typed(*shape),), lambda x: np.tile(x, reps), name=f"{shape} by {reps}", dtypes=EVERY, linear=((0,),), ulps=0)


def _repeat_back(shape, reps):
    def ref(x):
        split = x.reshape([n for r, m in zip(reps, shape) for n in (r, m)])
        return split.sum(tuple(range(0, 2 * len(reps), 2)), dtype=x.dtype)

    tiled = tuple(n * r for n, r in zip(shape, reps))
    fun = lambda x: ops.repeat_back(x, reps)
    return Case(fun, (typed(*tiled),), ref, name=f"{tiled} by {reps}", dtypes=NUMBERS, linear=((0,),))


ROWS = {
    "view": [_view(*w) for w in WINDOWS],
    "acc": [_acc(*w) for w in WINDOWS],
    "repeat": [*[_repeat(*r) for r in REPS], _repeat((2, 3), (0, 2)), _repeat((0, 3), (2, 2))],
    "repeat_back": [*[_repeat_back(*r) for r in REPS], _repeat_back((0, 3), (2, 2))],
}
