"""Products of groups of elements with their tangents: exact where factors are zero, and differentiable again."""

import numpy as np

from fgrad.core import get_aval
from fgrad.ops.along import take_along
from fgrad.ops.elementwise import add, eq, like, mul, select
from fgrad.ops.shape import iota, pad
from fgrad.ops.sort import sort_key_val


def grouped_products(groups, x, t):
    """(sorted groups, running products of x within each group, their tangents), all of shape (n,).

    groups: integers of 0 or more; the last element of a group has the product of all its elements. Pairs (product, tangent) of
    one group are combined over distances 1, 2, 4, ... (Hillis and Steele, Data parallel algorithms, 1986).
    """
    groups, order = sort_key_val(groups, iota(np.int32, get_aval(groups).size))
    x, t = take_along(x, order, 0), take_along(t, order, 0)
    step = 1
    while step < get_aval(groups).size:
        same = eq(_shifted(groups, step, -1), groups)
        before = select(same, _shifted(x, step, 1), like(x, 1))
        t_before = select(same, _shifted(t, step, 0), like(t, 0))
        x, t = mul(before, x), add(mul(t_before, x), mul(before, t))
        step *= 2
    return groups, x, t


def _shifted(x, step, fill):
    return pad(x, like(x, fill), ((step, -step, 0),))
