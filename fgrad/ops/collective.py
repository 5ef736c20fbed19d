"""Collectives over the named axes that vmap binds: psum, pmean, pmax, pmin, all_gather, axis_index."""

import numpy as np

from fgrad.core import Primitive, ShapedArray, axis_size, get_aval
from fgrad.dtypes import BOOL, is_inexact
from fgrad.ops.elementwise import bitwise_not, convert_element_type, div, eq, like, mul, neg
from fgrad.ops.reduce import reduce_max, reduce_sum
from fgrad.ops.rules import bdim_at_front, broadcast_in_dim, jvp_by_args, zero_jvp
from fgrad.ops.shape import iota

_INDEX = np.dtype(np.int32)


def _unlowered(name):
    def lower(ctx, ins, params, out_avals):
        raise NameError(f"unbound axis name: {name} over {params['axis_name']!r} outside a vmap that binds it")

    return lower


def _collective(name, reduce, when_constant):
    """psum and pmax. The batch rule of another axis name passes the batch axis through."""

    def abstract_eval(x, *, axis_name):
        axis_size(axis_name)
        return x

    def batch(axis, args, dims, *, axis_name):
        (x,), (d,) = args, dims
        if axis.name != axis_name:
            return prim.bind(x, axis_name=axis_name), d
        if d is None:
            return when_constant(x, axis.size), None
        return reduce(x, (d,)), None

    prim = Primitive(name, abstract_eval=abstract_eval, batch=batch, kind="collective", lower=_unlowered(name))
    return prim


psum_p = _collective("psum", reduce_sum, lambda x, n: mul(x, like(x, n)))
psum_p.jvp = jvp_by_args(psum_p, lambda t, out, x, *, axis_name: psum_p.bind(t, axis_name=axis_name))
psum_p.transpose = lambda cts, x, *, axis_name: [psum_p.bind(cts[0], axis_name=axis_name)]
pmax_p = _collective("pmax", reduce_max, lambda x, n: x)


def _pmax_jvp(t, out, x, *, axis_name):
    """The mean of the tangents where the maximum is attained, as for reduce_max."""
    hit = convert_element_type(eq(x, out), get_aval(t).dtype)
    return div(psum_p.bind(mul(t, hit), axis_name=axis_name), psum_p.bind(hit, axis_name=axis_name))


pmax_p.jvp = jvp_by_args(pmax_p, _pmax_jvp)


def _gather_aval(x, *, axis_name):
    return ShapedArray((axis_size(axis_name), *x.shape), x.dtype, x.weak_type)


def _gather_batch(axis, args, dims, *, axis_name):
    (x,), (d,) = args, dims
    if axis.name != axis_name:
        return all_gather_p.bind(x, axis_name=axis_name), None if d is None else d + 1
    return bdim_at_front(x, d, axis.size), None


def _gather_transpose(cts, x, *, axis_name):
    """Each example's own row of the summed cotangents, taken as a masked sum."""
    ct = psum_p.bind(cts[0], axis_name=axis_name)
    aval = get_aval(ct)
    own = eq(iota(_INDEX, aval.shape[0]), axis_index_p.bind(axis_name=axis_name))
    mask = broadcast_in_dim(convert_element_type(own, aval.dtype), aval.shape, (0,))
    return [reduce_sum(mul(ct, mask), (0,))]


all_gather_p = Primitive(
    "all_gather",
    abstract_eval=_gather_aval,
    batch=_gather_batch,
    kind="collective",
    lower=_unlowered("all_gather"),
    transpose=_gather_transpose,
)
all_gather_p.jvp = jvp_by_args(all_gather_p, lambda t, out, x, *, axis_name: all_gather_p.bind(t, axis_name=axis_name))


def _index_aval(*, axis_name):
    axis_size(axis_name)
    return ShapedArray((), _INDEX)


def _index_batch(axis, args, dims, *, axis_name):
    if axis.name != axis_name:
        return axis_index_p.bind(axis_name=axis_name), None
    return iota(_INDEX, axis.size), 0


axis_index_p = Primitive("axis_index", abstract_eval=_index_aval, batch=_index_batch, kind="collective", lower=_unlowered("axis_index"))
axis_index_p.jvp = zero_jvp(axis_index_p)


def _names(axis_name):
    return axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,)


def psum_leaf(x, axis_name):
    """Sum over the named axes; the result is the same for every example."""
    if isinstance(x, (bool, int, float, complex)):
        for name in _names(axis_name):
            x = x * axis_size(name)
        return x
    if get_aval(x).dtype == BOOL:
        x = convert_element_type(x, _INDEX)
    for name in _names(axis_name):
        x = psum_p.bind(x, axis_name=name)
    return x


def pmax_leaf(x, axis_name):
    for name in _names(axis_name):
        x = pmax_p.bind(x, axis_name=name)
    return x


def pmin_leaf(x, axis_name):
    turned = neg if is_inexact(get_aval(x).dtype) else bitwise_not  # which turns the order of all integers around
    return turned(pmax_leaf(turned(x), axis_name))


def all_gather_leaf(x, axis_name):
    return all_gather_p.bind(x, axis_name=axis_name)


def axis_index(axis_name):
    """This example's position along the named axis, an int32 scalar."""
    return axis_index_p.bind(axis_name=axis_name)
