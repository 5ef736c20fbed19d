"""Sorting and searching."""

import numpy as np

from fgrad.ops import positions
from fgrad.ops import sort as ops
from tests.table.case import Case, bools, distinct, ints, of_kinds, typed


def _sort(shape, axis):
    fun = lambda x: ops.sort(x, axis)
    return Case(fun, (distinct(*shape),), lambda x: np.sort(x, axis), name=f"{shape} along {axis}", dtypes=of_kinds("fiubc"), ulps=0)


def _by_keys(k, v):
    order = np.argsort(k, 0, kind="stable")
    return np.take_along_axis(k, order, 0), np.take_along_axis(v, order, 0)


def _two_keys(a, b):
    out = np.sort(a + 1j * b, 1)
    return out.real.astype(a.dtype), out.imag


def _top_k(shape, k, axis):
    def ref(x):
        wide = x.astype(np.int64 if x.dtype.kind in "iub" else float)
        where = np.take(np.argsort(-wide, axis, kind="stable"), range(k), axis)
        return np.take_along_axis(x, where, axis), where.astype(np.int32)

    fun = lambda x: ops.top_k(x, k, axis=axis)
    title = f"{k} of {shape} along {axis}"
    return Case(fun, (distinct(*shape),), ref, name=title, dtypes=of_kinds("fiub"), out=("same", np.int32), ulps=0)


def _ranked(shape, ranks):
    at = np.broadcast_to(np.array(ranks, np.int32), (*shape[:-1], len(ranks)))
    fun = lambda x: ops.ranked(x, at)
    ref = lambda x: np.take_along_axis(np.sort(x, -1), at, -1)
    return Case(fun, (distinct(*shape),), ref, name=f"{ranks} of {shape}", dtypes=of_kinds("fiub"), ulps=0)


def _search(side, n, shape):
    """The table is made ascending inside the function, whatever is drawn."""

    def ref(a, v):
        return np.searchsorted(np.sort(a), v, side).astype(np.int32)

    fun = lambda a, v: ops.searchsorted(ops.sort(a), v, side)
    args = (typed(n), typed(*shape))
    return Case(fun, args, ref, name=f"{side} of {shape} in {n}", dtypes=of_kinds("fiu"), out=np.int32, wrt=())


def _positions(shape, size, index="int32"):
    def ref(x):
        rows = [np.append(np.flatnonzero(r), [shape[-1]] * size)[:size] for r in x.reshape(-1, shape[-1])]
        return np.array(rows).reshape(*shape[:-1], size).astype(index)

    fun = lambda x: positions.true_positions(x, size, np.dtype(index))
    return Case(fun, (bools(*shape),), ref, name=f"{size} of {shape} in {index}", dtypes=of_kinds("b"), out=np.dtype(index), wrt=())


ROWS = {
    "true_positions": [_positions(*s) for s in (((9,), 4), ((9,), 12), ((2, 3, 40), 20), ((2, 40), 17, "int64"), ((1,), 1))],
    "sort": [
        *[_sort(*s) for s in (((3, 4), 0), ((3, 4), 1), ((2, 3, 2), 1), ((5,), 0), ((1,), 0), ((0, 2), 0), ((2, 0), 0))],
        Case(
            lambda k, v: ops.sort_key_val(k, v, 0),
            (ints(4, 3, hi=3), typed(4, 3)),
            _by_keys,
            name="values by tied keys",
            out=(np.int32, "same"),
            ulps=0,
            linear=((1,),),
        ),
        Case(
            lambda k, v: ops.sort((k, v), 1, num_keys=2),
            (ints(2, 5, hi=3), distinct(2, 5)),
            _two_keys,
            name="by two keys",
            out=(np.int32, "same"),
            ulps=0,
        ),
    ],
    "ranked": [_ranked((3, 5), (2, 0)), _ranked((4,), (1, 1, 3)), _ranked((2, 2, 1), (0,)), _ranked((0, 3), (1,))],
    "top_k": [_top_k(*s) for s in (((3, 4), 2, 1), ((4, 3), 2, 0), ((5,), 5, 0), ((5,), 0, 0), ((1,), 1, 0), ((0, 3), 2, 1))],
    "searchsorted": [
        _search("left", 5, (3, 4)),
        _search("right", 5, (6,)),
        _search("left", 1, ()),
        _search("right", 0, (3,)),
        _search("right", 40, (2, 3)),
    ],
}
