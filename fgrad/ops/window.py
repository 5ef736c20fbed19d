"""Reductions over windows, and the selection of each window's extremum.

The sum over windows is linear; the maximum's tangent is gathered at the selected elements, and the transpose of that scatters there.
"""

import math

import numpy as np

from fgrad import dtypes
from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.conv import dilate, strided, transposed_pads
from fgrad.ops.elementwise import ge_p, le_p
from fgrad.ops.rules import Zero, bdim_at_front, full, jvp_by_args, zero_of

_KINDS = {"reduce_window_sum": 0, "reduce_window_max": 2, "reduce_window_min": 3}
_REDUCTIONS = {0: "sum", 2: "max", 3: "min"}


def window_shape(what, shape, window_dimensions, window_strides, padding, base_dilation, window_dilation):
    """Shape of the windows over an array of `shape`; ShapeError or ValueError where the parameters do not fit it."""
    given = {
        "window_dimensions": window_dimensions,
        "window_strides": window_strides,
        "padding": padding,
        "base_dilation": base_dilation,
        "window_dilation": window_dilation,
    }
    for name, value in given.items():
        if len(value) != len(shape):
            raise ShapeError(f"{what}: {name} must have one entry for each axis of the operand, shape {shape}, got {value}")
        if name != "padding" and any(v < 1 for v in value):
            raise ValueError(f"{what}: {name} must be positive, got {value}")
    out = []
    for n, w, s, pads, bd, wd in zip(shape, *given.values()):
        size = dilate(n, bd) + sum(pads)
        if size < 0:
            raise ShapeError(f"{what}: negative padding {padding} is larger than the operand's shape {shape}")
        out.append(strided(size, dilate(w, wd), s))
    return tuple(out)


_NAMES = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")
_TRIVIAL = (1, 1, (0, 0), 1, 1)


def _with_axis(params, at):
    """The parameters of windows of one element along a new axis."""
    return {**params, **{k: (*params[k][:at], v, *params[k][at:]) for k, v in zip(_NAMES, _TRIVIAL)}}


def _wide(ctx, v):
    """16-bit floats as float32, bools as uint8."""
    return ctx.cast(v, np.uint8) if v.dtype == dtypes.BOOL else ctx.f32(v)


# --- reductions ---------------------------------------------------------------------------------------------------------


def _axis_windows(shape, out_shape, params):
    """(axis, window, stride, low, base dilation, window dilation) of the axes that windows change, the ones that shrink most first."""
    each = []
    for axis, (w, s, (lo, _), bd, wd) in enumerate(zip(*(params[k] for k in _NAMES))):
        if not (w == s == bd == 1 and lo == 0 and shape[axis] == out_shape[axis]):
            each.append((axis, w, s, lo, bd, wd))
    return sorted(each, key=lambda e: out_shape[e[0]] / max(1, shape[e[0]]))


def _is_whole(shape, out_shape, axis, w, s, lo, bd, wd):
    """Whether the one window along an axis is the axis."""
    return out_shape[axis] == 1 and w == shape[axis] and lo == 0 and bd == 1 and wd == 1


_APART = {"reduce_window_sum": 0, "reduce_window_max": 1, "reduce_window_min": 1}
_SPREAD, _SCATTER, _GATHER = 2, 3, 4
_APART_TAPS = 64


def _side_by_side(n, m, w, s, lo, bd, wd):
    """Whether m windows of w elements lie side by side along an axis of n elements, from its first element on."""
    return w == s <= _APART_TAPS and lo == 0 and bd == wd == 1 and 1 <= m and m * w <= n


def _spreads(n, m, w, s, lo, bd, wd):
    """Whether each of n elements becomes w of m: the transpose of sums over windows side by side."""
    return w == bd <= _APART_TAPS and lo == w - 1 and s == wd == 1 and 1 <= n and n * w <= m


def _pairs(each, fits, shape, out_shape):
    """Those of `each` (as _axis_windows has them) that fit, one or two neighbours at a time: (axes, first of two, their windows)."""
    sizes = {axis: w for axis, w, *rest in each if fits(shape[axis], out_shape[axis], w, *rest)}
    while sizes:
        axis = max(sizes)
        w = sizes.pop(axis)
        if w * sizes.get(axis - 1, _APART_TAPS + 1) <= _APART_TAPS:
            yield (axis - 1, axis), axis - 1, (sizes.pop(axis - 1), w)
        elif axis:
            yield (axis,), axis - 1, (1, w)
        elif len(shape) > 1:
            yield (axis,), axis, (w, 1)


_EXTREMUM, _SUM = 2, 3


def _short_rows(windows, shape, out_shape):
    """Whether windows along several axes, the last one too, of rows that are short go by vectors of all taps at once (window_select)."""
    if len(windows) < 2 or max(e[0] for e in windows) != len(shape) - 1 or shape[-1] >= 32:
        return False
    first = min(e[0] for e in windows)
    taps = math.prod(w for _, w, *_ in windows)
    near = all(bd == wd == 1 for *_, bd, wd in windows)
    return near and taps <= 9 and math.prod(shape[:first]) >= 8 and 1 <= math.prod(shape[first:-1]) <= 4096 and 0 not in out_shape


_FOLDED = 11  # elements of the longest window that is not folded by blocks
_ROW = 40  # elements of a row without features that is folded as one


def _planes(windows):
    """Two neighbouring axes whose windows are folded together, row by row: the inner ones that there are; else None."""
    each = {axis: rest for axis, *rest in windows}
    for axis in sorted(each, reverse=True):
        if axis - 1 in each and all(each[i][3] == 1 and each[i][0] <= _FOLDED for i in (axis - 1, axis)):
            return axis - 1, each[axis - 1], each[axis]
    return None


def _reduce_window(name, kinds):
    def abstract_eval(x, **params):
        if dtypes.kind_of(x.dtype) not in kinds:
            raise TypeError(f"{name} does not accept dtype {x.dtype.name}")
        return ShapedArray(window_shape(name, x.shape, **params), x.dtype, x.weak_type)

    def lower(ctx, ins, params, out_avals):
        """A fold along one axis after the other; whole axes are plain reductions."""
        aval, kind, v = out_avals[0], _KINDS[name], _wide(ctx, ins[0])
        shape = list(v.shape)
        windows = _axis_windows(tuple(shape), aval.shape, params)
        whole = [e[0] for e in windows if _is_whole(shape, aval.shape, *e)] if v.size and kind in _REDUCTIONS else []
        if whole:
            kept = tuple(n for i, n in enumerate(shape) if i not in whole)
            v = ctx.reduce(_REDUCTIONS[kind], v, whole, ShapedArray(kept, v.dtype))
            for axis in whole:
                shape[axis] = 1
            v = ctx.reshape(v, shape)
        windows = [e for e in windows if e[0] not in whole]
        ways = [(_side_by_side, _APART[name])] if kind in _REDUCTIONS else []
        for fits, what in ways + [(_spreads, _SPREAD)] * (kind == 0) if v.dtype in (np.float32, np.float64) else []:
            for axes, first, sizes in _pairs(windows, fits, tuple(shape), aval.shape):
                for axis in axes:
                    shape[axis] = aval.shape[axis]
                windows = [e for e in windows if e[0] not in axes]
                v = ctx.kernel("window_apart", [v], [ShapedArray(tuple(shape), v.dtype)], ip=(what, kind == 2, first, *sizes))[0]
        if ways and v.dtype in (np.float32, np.float64) and _short_rows(windows, tuple(shape), aval.shape):
            ip = [_SUM if kind == 0 else _EXTREMUM, kind == 2]
            each = {axis: rest for axis, *rest in windows}
            for axis in range(len(shape)):
                ip += each.get(axis, (1, 1, 0, 1, 1))
            v = ctx.kernel("window_select", [v], [ShapedArray(aval.shape, v.dtype)], ip=ip)[0]
            windows = []
        pair = _planes(windows) if 0 not in aval.shape else None
        if pair is not None and (math.prod(shape[pair[0] + 2 :]) > 1 or (pair[2][1] == 1 and shape[pair[0] + 1] >= _ROW)):
            first, *sizes = pair
            ip = [kind, first]
            for i, (w, s, lo, _, wd) in enumerate(sizes):
                shape[first + i] = aval.shape[first + i]
                ip += [w, s, lo, wd]
            windows = [e for e in windows if e[0] not in (first, first + 1)]
            v = ctx.kernel("window_planes", [v], [ShapedArray(tuple(shape), v.dtype)], ip=ip)[0]
        for axis, w, s, lo, bd, wd in windows:
            shape[axis] = aval.shape[axis]
            v = ctx.kernel("window_fold", [v], [ShapedArray(tuple(shape), v.dtype)], ip=(kind, axis, w, s, lo, bd, wd))[0]
        return ctx.cast(v, aval.dtype)

    prim = Primitive(name, abstract_eval=abstract_eval, lower=lower)
    prim.batch = lambda axis, args, dims, **params: (prim.bind(*args, **_with_axis(params, dims[0])), dims[0])
    return prim


reduce_window_sum_p = _reduce_window("reduce_window_sum", "iufc")
reduce_window_max_p = _reduce_window("reduce_window_max", "biuf")
reduce_window_min_p = _reduce_window("reduce_window_min", "biuf")


def _sum_transpose(cts, x, *, window_dimensions, window_strides, padding, base_dilation, window_dilation):
    """Each element gathers the windows that it was in: a sum over windows of the spread cotangent."""
    ct, shape = cts[0], x.aval.shape
    if 0 in shape or 0 in get_aval(ct).shape:
        return [full(shape, 0, x.aval.dtype)]
    pads = transposed_pads(shape, window_dimensions, window_strides, get_aval(ct).shape, padding, base_dilation, window_dilation)
    return [
        reduce_window_sum_p.bind(
            ct,
            window_dimensions=window_dimensions,
            window_strides=base_dilation,
            padding=pads,
            base_dilation=window_strides,
            window_dilation=window_dilation,
        )
    ]


reduce_window_sum_p.jvp = jvp_by_args(reduce_window_sum_p, lambda t, out, x, **params: reduce_window_sum_p.bind(t, **params))
reduce_window_sum_p.transpose = _sum_transpose


# --- selection ----------------------------------------------------------------------------------------------------------


def _check_select(name, a, x, select_prim):
    if select_prim not in (ge_p, le_p):
        raise TypeError(f"{name}: select_prim must be ge_p (the largest element) or le_p (the smallest), got {select_prim}")
    if a.dtype != x.dtype or not dtypes.is_float(x.dtype):
        raise TypeError(f"{name} takes two arrays of one floating dtype, got {a.dtype.name} and {x.dtype.name}")


def _gather_aval(tangents, operand, *, select_prim, **params):
    _check_select("select_and_gather_add", tangents, operand, select_prim)
    if tangents.shape != operand.shape:
        raise ShapeError(f"select_and_gather_add: tangents of shape {tangents.shape} for an operand of shape {operand.shape}")
    return ShapedArray(window_shape("select_and_gather_add", operand.shape, **params), tangents.dtype)


def _scatter_aval(source, operand, *, select_prim, **params):
    _check_select("select_and_scatter_add", source, operand, select_prim)
    windows = window_shape("select_and_scatter_add", operand.shape, **params)
    if source.shape != windows:
        raise ShapeError(
            f"select_and_scatter_add: source of shape {source.shape} for windows of shape {windows} over an operand of {operand.shape}"
        )
    return ShapedArray(operand.shape, source.dtype)


def _selection(name, abstract_eval, scatter):
    def lower(ctx, ins, params, out_avals):
        aval, (a, x) = out_avals[0], (ctx.f32(v) for v in ins)
        if not aval.shape:
            return ctx.cast(a, aval.dtype)
        largest = params["select_prim"] is ge_p
        shape, small = (aval.shape, a.shape) if scatter else (a.shape, aval.shape)
        windows = _axis_windows(shape, small, params)
        pairs = list(_pairs(windows, _side_by_side, shape, small)) if a.size else []
        if len(pairs) == 1 and len(pairs[0][0]) == len(windows):
            _, first, sizes = pairs[0]
            what = _SCATTER if scatter else _GATHER
            out = ctx.kernel("window_apart", [a, x], [ShapedArray(aval.shape, a.dtype)], ip=(what, largest, first, *sizes))[0]
            return ctx.cast(out, aval.dtype)
        ip = [scatter, largest]
        for w, s, (lo, _), bd, wd in zip(*(params[k] for k in _NAMES)):
            ip += [w, s, lo, bd, wd]
        return ctx.cast(ctx.kernel("window_select", [a, x], [ShapedArray(aval.shape, a.dtype)], ip=ip)[0], aval.dtype)

    prim = Primitive(name, abstract_eval=abstract_eval, lower=lower)

    def jvp(primals, tangents, **params):
        """Linear in the first operand; which elements are selected has no derivative."""
        out = prim.bind(*primals, **params)
        t = tangents[0]
        return out, zero_of(out) if type(t) is Zero else prim.bind(t, primals[1], **params)

    def batch(axis, args, dims, **params):
        args = [bdim_at_front(x, d, axis.size) for x, d in zip(args, dims)]
        return prim.bind(*args, **_with_axis(params, 0)), 0

    prim.jvp, prim.batch = jvp, batch
    return prim


select_and_gather_add_p = _selection("select_and_gather_add", _gather_aval, 0)
select_and_scatter_add_p = _selection("select_and_scatter_add", _scatter_aval, 1)
select_and_gather_add_p.transpose = lambda cts, t, x, **params: [select_and_scatter_add_p.bind(cts[0], x, **params), None]
select_and_scatter_add_p.transpose = lambda cts, s, x, **params: [select_and_gather_add_p.bind(cts[0], x, **params), None]

reduce_window_max_p.jvp = jvp_by_args(
    reduce_window_max_p, lambda t, out, x, **params: select_and_gather_add_p.bind(t, x, select_prim=ge_p, **params)
)
reduce_window_min_p.jvp = jvp_by_args(
    reduce_window_min_p, lambda t, out, x, **params: select_and_gather_add_p.bind(t, x, select_prim=le_p, **params)
)
