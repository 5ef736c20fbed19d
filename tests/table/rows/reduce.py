"""Reductions and the positions of extrema."""

import numpy as np

from fgrad.ops import argreduce
from fgrad.ops import reduce as ops
from tests.table.case import F32, F64, Case, bools, distinct, of_kinds, typed

SHAPES = [((3, 4), (0,)), ((3, 4), (1,)), ((2, 3, 4), (0, 2)), ((2, 3), (0, 1)), ((5,), (0,)), ((1, 3), (0,)), ((0, 3), (1,)), ((3,), ())]
EMPTY = ((0, 3), (0,))


REDUCERS = {}  # name -> case(shape, axes)


def _reducer(name, ref, kinds, sample=typed, **kw):
    prim = getattr(ops, f"{name}_p")

    def case(shape, axes):
        def reference(x):
            return ref(x, axes)

        fun = lambda x: prim.bind(x, axes=axes)
        # the extremum of an empty axis is infinite: it has no derivative
        modes = () if sample is distinct and (shape, axes) == EMPTY else ("fwd", "rev")
        return Case(fun, (sample(*shape),), reference, name=f"{shape} over {axes}", dtypes=of_kinds(kinds), modes=modes, **kw)

    REDUCERS[name] = case
    return [case(*s) for s in (*SHAPES, EMPTY)]


def np_sum(x, axes):
    return np.sum(x, axes, dtype=x.dtype)


def np_prod(x, axes):
    return np.prod(x, axes, dtype=x.dtype)


def _extremum(pick, sign):
    """Of an empty axis: the least (greatest) value of the dtype."""

    def ref(x, axes):
        if x.dtype.kind == "f":
            empty = -sign * np.inf
        elif x.dtype.kind == "b":
            empty = sign < 0
        else:
            empty = np.iinfo(x.dtype).min if sign > 0 else np.iinfo(x.dtype).max
        return pick(x, axes, initial=empty)

    return ref


def _numbers(pick):
    """Of no number: NaN."""
    return lambda x, axes: pick(x, axes, initial=np.nan)


def _with_zeros(fun, ref, zeros):
    """The product where factors are zero: multiplied in, so that their derivative is not lost."""

    def mask(x):
        m = np.ones(x.shape)
        m[zeros] = 0
        return m.astype(x.dtype)

    return Case(
        lambda x: fun(x * mask(x)), (typed(3, 4),), lambda x: ref(x * mask(x), (0,)), name=f"zero factors at {zeros}", dtypes=(F64, F32)
    )


def _arg(name, ref, types=None):
    prim = getattr(argreduce, f"{name}_p")

    def case(shape, axis, index, sample=typed):
        fun = lambda x: prim.bind(x, axis=axis, index_dtype=np.dtype(index))
        reference = lambda x: ref(x, axis).astype(index)
        title = f"{shape} along {axis} in {index}"
        return Case(fun, (sample(*shape),), reference, name=title, dtypes=types or of_kinds("fiub"), out=index, wrt=())

    return [
        case((3, 4), 0, "int32"),
        case((2, 3, 4), 1, "int32"),
        case((5,), 0, "uint8"),
        case((1, 2), 0, "int32"),
        case((0, 3), 1, "int32"),
    ]


ROWS = {
    "reduce_sum": _reducer("reduce_sum", np_sum, "fiuc", linear=((0,),)),
    "reduce_prod": [
        *_reducer("reduce_prod", np_prod, "fiuc", ulps=16),
        _with_zeros(lambda x: ops.reduce_prod(x, (0,)), np_prod, ([0, 1], [0, 0])),
        _with_zeros(lambda x: ops.reduce_prod(x, (0,)), np_prod, ([0, 2, 1], [0, 1, 3])),
    ],
    "reduce_max": _reducer("reduce_max", _extremum(np.max, 1), "fiub", distinct, ulps=0),
    "reduce_min": _reducer("reduce_min", _extremum(np.min, -1), "fiub", distinct, ulps=0),
    "reduce_fmax": _reducer("reduce_fmax", _numbers(np.fmax.reduce), "f", distinct, ulps=0),
    "reduce_fmin": _reducer("reduce_fmin", _numbers(np.fmin.reduce), "f", distinct, ulps=0),
    "reduce_and": _reducer("reduce_and", np.all, "b", lambda *s: bools(*s), wrt=()),
    "reduce_or": _reducer("reduce_or", np.any, "b", lambda *s: bools(*s), wrt=()),
    "argmax": _arg("argmax", np.argmax),
    "argmin": _arg("argmin", np.argmin),
    "nanargmax": _arg("nanargmax", np.argmax, (F32, F64)),
    "nanargmin": _arg("nanargmin", np.argmin, (F32, F64)),
}
