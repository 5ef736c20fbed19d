"""dot_general."""

import string

import numpy as np

from fgrad.ops.dot import dot_general
from tests.table.case import BF16, F16, F32, Case, of_kinds, typed


def np_dot_general(a, b, dims):
    (lc, rc), (lb, rb) = dims
    names = iter(string.ascii_letters)
    left, right = [next(names) for _ in a.shape], [next(names) for _ in b.shape]
    for i, j in zip((*lc, *lb), (*rc, *rb)):
        right[j] = left[i]
    out = [left[i] for i in lb]
    out += [n for i, n in enumerate(left) if i not in (*lc, *lb)]
    out += [n for j, n in enumerate(right) if j not in (*rc, *rb)]
    if a.dtype == bool:
        return np_dot_general(a.astype(int), b.astype(int), dims) > 0
    return np.einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", a, b).astype(a.dtype)


def contraction(left, right, dims, name="", **kw):
    fun = lambda a, b: dot_general(a, b, dims)
    kw = dict(dtypes=of_kinds("fiucb"), linear=((0,), (1,)), name=name or f"{left} {right} {dims}", ulps=8) | kw
    return Case(fun, (typed(*left), typed(*right)), lambda a, b: np_dot_general(a, b, dims), **kw)


MATMUL = (((1,), (0,)), ((), ()))


def _preferred(dtype, k=4):
    return Case(
        lambda a, b: dot_general(a, b, MATMUL, preferred_element_type=dtype),
        (typed(3, k), typed(k, 2)),
        lambda a, b: a @ b,
        name=f"sums of {k} into {dtype.name}",
        dtypes=(BF16, F16, F32),
        out=dtype,
        ulps=8,
        modes=(),
    )


ROWS = {
    "dot_general": [
        contraction((3, 4), (4, 2), MATMUL),
        contraction((4,), (4,), (((0,), (0,)), ((), ()))),
        contraction((3,), (2,), (((), ()), ((), ()))),
        contraction((2, 3, 4), (2, 4, 5), (((2,), (1,)), ((0,), (0,)))),
        contraction((3, 2, 4), (4, 5, 3), (((0, 2), (2, 0)), ((), ()))),
        contraction((3, 2, 4, 2), (2, 4, 3, 5), (((2,), (1,)), ((1, 0), (0, 2)))),
        contraction((3, 4, 2), (4, 2, 3), (((1,), (0,)), ((2, 0), (1, 2))), "numbers of a batch"),
        contraction((3, 0), (0, 2), MATMUL, "empty contraction"),
        contraction((0, 3), (3, 2), MATMUL, "no rows"),
        contraction((1, 1), (1, 1), MATMUL, "size 1"),
        contraction((3, 1, 2), (1, 3, 4), (((1,), (0,)), ((0,), (1,))), "outer products of a batch"),
        _preferred(F32),
        _preferred(F32, 1),
    ]
}
