"""Reductions over axes: sum, prod, max, min, fmax and fmin (of numbers, NaN left out), and, or."""

import functools
import math
import operator

from fgrad import dtypes
from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import AxisError, ShapeError
from fgrad.ops.elementwise import convert_element_type, div, eq, like, max, mul
from fgrad.ops.rules import broadcast_in_dim, jvp_by_args, move_axis, named, set_shape_ops, zero_jvp

_FOLDS = {"sum": "add", "max": "max", "min": "min"}
_FOLDED = 4  # elements of an axis that is reduced by operations on its slices


def _fold_outer(ctx, kind, v, axes):
    """(v, axes) with short axes reduced that lie around kept ones, the last axis being reduced too: blocks of an image.

    The slices at each of their places are added as arrays within the reduction of the last axis, whose rows lie in order.
    """
    last = len(v.shape) - 1
    if kind not in _FOLDS or v.dtype.kind not in "iuf" or v.dtype.itemsize < 4 or last not in axes or 0 in v.shape:
        return v, axes
    outer = [a for a in axes if a + 1 not in axes and a < last and 1 < v.shape[a] <= _FOLDED]
    if not outer or v.shape[last] > _FOLDED or v.strides[last] != 1 or not all(v.strides):
        return v, axes
    for a in outer:
        shape, step = (*v.shape[:a], 1, *v.shape[a + 1 :]), v.strides[a]
        aval = ShapedArray(shape, v.dtype)
        parts = [ctx.view(v, shape, v.strides, i * step) for i in range(v.shape[a])]
        v = functools.reduce(lambda x, y: ctx.elementwise(_FOLDS[kind], [x, y], aval), parts)  # noqa: B023
    return v, axes


def _reducer(name, kind, kinds):
    @functools.lru_cache(10_000)
    def abstract_eval(x, *, axes):
        if dtypes.kind_of(x.dtype) not in kinds:
            raise TypeError(f"{name} does not accept dtype {x.dtype.name}")
        if len(set(axes)) != len(axes) or any(not 0 <= a < len(x.shape) for a in axes):
            raise ShapeError(f"{name}: axes {axes} must be distinct axes of shape {x.shape}")
        return ShapedArray(tuple(n for i, n in enumerate(x.shape) if i not in axes), x.dtype, x.weak_type)

    def batch(axis, args, dims, *, axes):
        d = dims[0]
        out = prim.bind(args[0], axes=tuple(a + (a >= d) for a in axes))
        return out, d - sum(a < d for a in axes)

    def lower(ctx, ins, params, out_avals):
        return ctx.reduce(kind, *_fold_outer(ctx, kind, ins[0], params["axes"]), out_avals[0])

    prim = Primitive(name, abstract_eval=abstract_eval, batch=batch, lower=lower, kind="reduce")

    def fun(operand, axes):
        axes = tuple(sorted(map(operator.index, axes)))
        return prim.bind(operand, axes=axes) if axes or isinstance(operand, (bool, int, float, complex)) else operand

    return prim, named(fun, prim, f"The {kind} of operand over `axes`, which leave the shape; the dtype stays.")


reduce_sum_p, reduce_sum = _reducer("reduce_sum", "sum", "iufc")
reduce_prod_p, reduce_prod = _reducer("reduce_prod", "prod", "iufc")
reduce_max_p, reduce_max = _reducer("reduce_max", "max", "biuf")
reduce_min_p, reduce_min = _reducer("reduce_min", "min", "biuf")
reduce_fmax_p, reduce_fmax = _reducer("reduce_fmax", "fmax", "f")
reduce_fmin_p, reduce_fmin = _reducer("reduce_fmin", "fmin", "f")
reduce_and_p, reduce_and = _reducer("reduce_and", "min", "b")
reduce_or_p, reduce_or = _reducer("reduce_or", "max", "b")
reduce_and_p.jvp, reduce_or_p.jvp = zero_jvp(reduce_and_p), zero_jvp(reduce_or_p)


def spread_back(x, shape, axes):
    """A reduced array broadcast back over the axes that were reduced."""
    return broadcast_in_dim(x, shape, tuple(i for i in range(len(shape)) if i not in axes))


reduce_sum_p.jvp = jvp_by_args(reduce_sum_p, lambda t, out, x, *, axes: reduce_sum(t, axes))
reduce_sum_p.transpose = lambda cts, x, *, axes: [spread_back(cts[0], x.aval.shape, axes)]


def _extremum_jvp(t, out, x, *, axes):
    """The mean of the tangents where the extremum is attained: ties share it evenly."""
    hit = convert_element_type(eq(x, spread_back(out, get_aval(x).shape, axes)), get_aval(t).dtype)
    return div(reduce_sum(mul(t, hit), axes), reduce_sum(hit, axes))


def _number_jvp(t, out, x, *, axes):
    """As that of an extremum; 0 where there is no number."""
    hit = convert_element_type(eq(x, spread_back(out, get_aval(x).shape, axes)), get_aval(t).dtype)
    return div(reduce_sum(mul(t, hit), axes), max(reduce_sum(hit, axes), like(t, 1)))


reduce_fmax_p.jvp = jvp_by_args(reduce_fmax_p, _number_jvp)
reduce_fmin_p.jvp = jvp_by_args(reduce_fmin_p, _number_jvp)
reduce_max_p.jvp = jvp_by_args(reduce_max_p, _extremum_jvp)
reduce_min_p.jvp = jvp_by_args(reduce_min_p, _extremum_jvp)


def _prod_jvp(t, out, x, *, axes):
    """Each tangent times the product of the other elements: exact where factors are zero, and differentiable again."""
    if not axes:
        return t
    shape = get_aval(x).shape
    if len(axes) > 1:  # joined to one axis, in front
        n, kept = math.prod(shape[a] for a in axes), tuple(d for i, d in enumerate(shape) if i not in axes)
        for k, a in enumerate(axes):
            x, t = move_axis(x, a, k), move_axis(t, a, k)
        x, t, axes = _prod_ops["reshape"](x, (n, *kept)), _prod_ops["reshape"](t, (n, *kept)), (0,)
    return reduce_sum(mul(t, _prod_ops["other_products"](x, axes[0])), axes)


_prod_ops: dict = {}
reduce_prod_p.jvp = jvp_by_args(reduce_prod_p, _prod_jvp)


def set_prod_ops(**ops):
    """Later modules hand over what the derivative of a product needs."""
    _prod_ops.update(ops)


def argaxis(x, axis):
    """An axis argument as a non-negative int."""
    n = len(get_aval(x).shape)
    axis = operator.index(axis)
    if not -n <= axis < n:
        raise AxisError(f"axis {axis} is out of bounds for array of dimension {n}")
    return axis % n


set_shape_ops(reduce_sum=reduce_sum)
