"""Running reductions."""

import numpy as np

from fgrad.ops import cumulative as ops
from tests.table.case import Case, distinct, of_kinds, typed

SHAPES = [
    ((3, 4), 0, False),
    ((3, 4), 1, True),
    ((2, 3, 2), 1, False),
    ((5,), 0, True),
    ((1,), 0, False),
    ((0, 2), 0, False),
    ((2, 0), 0, True),
]


def _row(name, ref, kinds, sample=typed, **kw):
    fun = getattr(ops, name)

    def case(shape, axis, reverse):
        def reference(x):
            flip = (slice(None),) * axis + (slice(None, None, -1 if reverse else 1),)
            return ref(x[flip], axis=axis)[flip].astype(x.dtype)

        title = f"{shape} along {axis}{' reversed' if reverse else ''}"
        return Case(lambda x: fun(x, axis, reverse), (sample(*shape),), reference, name=title, dtypes=of_kinds(kinds), **kw)

    return [case(*s) for s in SHAPES]


def _np_recurrence(a, b, axis, reverse, lag):
    a, b = (np.moveaxis(v, axis, 0)[:: -1 if reverse else 1] for v in (a, b))
    s = np.array(b)
    for k in range(1, len(s)):
        s[k] = a[k - lag] * s[k - 1] + b[k]
    return np.moveaxis(s[:: -1 if reverse else 1], 0, axis)


def _recurrence(shape, axis, reverse, lag):
    fun = lambda a, b: ops.linear_recurrence(a, b, axis, reverse, lag)
    reference = lambda a, b: _np_recurrence(a, b, axis, reverse, lag)
    title = f"{shape} along {axis}{' reversed' if reverse else ''}{' lagging' if lag else ''}"
    return Case(fun, (typed(*shape), typed(*shape)), reference, name=title, dtypes=of_kinds("fc"), linear=((1,),), ulps=16)


def _others(shape, axis, zeros=()):
    def keep(x):
        m = np.ones(shape)
        for at in zeros:
            m[at] = 0
        return m.astype(x.dtype)

    def reference(x):
        x = np.moveaxis(x * keep(x), axis, 0)
        parts = [np.prod(np.delete(x, k, 0), 0) for k in range(len(x))]
        return np.moveaxis(np.array(parts, x.dtype).reshape(x.shape), 0, axis)

    title = f"{shape} along {axis}{f' with zeros at {zeros}' if zeros else ''}"
    fun = lambda x: ops.other_products(x * keep(x), axis)
    return Case(fun, (typed(*shape),), reference, name=title, dtypes=of_kinds("fc"), ulps=16)


ROWS = {
    "linear_recurrence": [_recurrence(*s, lag) for s in SHAPES for lag in (False, True)],
    "other_products": [
        *[_others(*s[:2]) for s in SHAPES],
        _others((9, 4), 1),
        _others((4, 3), 0, ((0, 0), (1, 1), (2, 1))),
    ],
    "cumsum": _row("cumsum", np.cumsum, "fiuc", linear=((0,),)),
    "cumprod": _row("cumprod", np.cumprod, "fiuc", ulps=8),
    "cummax": _row("cummax", np.maximum.accumulate, "fiub", distinct, ulps=0),
    "cummin": _row("cummin", np.minimum.accumulate, "fiub", distinct, ulps=0),
    "cumlogsumexp": _row("cumlogsumexp", np.logaddexp.accumulate, "f", ulps=8),
}
