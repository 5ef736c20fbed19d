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


ROWS = {
    "cumsum": _row("cumsum", np.cumsum, "fiuc", linear=((0,),)),
    "cumprod": _row("cumprod", np.cumprod, "fiuc", ulps=8),
    "cummax": _row("cummax", np.maximum.accumulate, "fiub", distinct, ulps=0),
    "cummin": _row("cummin", np.minimum.accumulate, "fiub", distinct, ulps=0),
    "cumlogsumexp": _row("cumlogsumexp", np.logaddexp.accumulate, "f", ulps=8),
}
