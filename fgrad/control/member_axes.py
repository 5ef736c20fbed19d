"""Along which axes operands are cut for a result that is cut along one: the rules of the operations in scans that run in parts (members).

A rule takes an equation, the axis of its result and the size that this axis has in a part, and gives the axes of the operands (None: whole)
and the parameters; it raises Refused where an element of the result needs others along that axis.
"""

import math

from fgrad.core import Literal
from fgrad.ops.dot import free_axes

SUM = "sum"  # beside axes: the parts' values add up to the whole one
ALONG = frozenset(
    "take_along put_along argmax argmin nanargmax nanargmin cumsum cumprod cummax cummin cumlogsumexp linear_recurrence other_products "
    "softmax softmax_tangent log_softmax log_softmax_tangent log_softmax_cotangent logsumexp softmax_logsumexp moments top_k sort".split()
)
LAST = frozenset("rms_norm rms_norm_tangent layer_norm layer_norm_tangent".split())
REMOVED = frozenset("argmax argmin nanargmax nanargmin logsumexp moments".split())  # of ALONG: the axis is not in the result


class Refused(Exception):
    """Some operation mixes members."""


def swapped(values, i, n):
    return (*values[:i], n, *values[i + 1 :])


def _elementwise(e, a, n):
    return [a if v.aval.shape else None for v in e.invars], e.params


def _broadcast(e, a, n):
    dims, shape = e.params["broadcast_dimensions"], e.params["shape"]
    at = None
    if a in dims and e.invars[0].aval.shape[dims.index(a)] == shape[a]:
        at = dims.index(a)
    return [at], dict(e.params, shape=swapped(shape, a, n))


def _reshape(e, a, n):
    old, new = e.invars[0].aval.shape, e.params["new_sizes"]
    before = math.prod(new[:a])
    at = [i for i, k in enumerate(old) if k == new[a] and math.prod(old[:i]) == before]
    if len(at) != 1:
        raise Refused
    return at, dict(e.params, new_sizes=swapped(new, a, n))


def _transpose(e, a, n):
    return [e.params["permutation"][a]], e.params


def _slice(e, a, n):
    p, size = e.params, e.invars[0].aval.shape[a]
    if p["start_indices"][a] or p["limit_indices"][a] != size or p["strides"] and p["strides"][a] != 1:
        raise Refused
    return [a], dict(p, limit_indices=swapped(p["limit_indices"], a, n))


def _other_axes(name):
    def rule(e, a, n):
        at = e.params[name]
        if a in (at if isinstance(at, tuple) else (at,)):
            raise Refused
        return [a] * len(e.invars), e.params

    return rule


def _margins(e, a, n):
    if a in [axis for axis, _, _ in e.params["margins"]]:
        raise Refused
    return [a], e.params


def _along(e, a, n):
    at = e.params["dimension" if e.primitive.name == "sort" else "axis"]
    if e.primitive.name in REMOVED:
        a += a >= at
    if a == at:
        raise Refused
    return [a] * len(e.invars), e.params


def _along_last(e, a, n):
    if a == len(e.invars[0].aval.shape) - 1:
        raise Refused
    return [a] * len(e.invars), e.params


def _reduce(e, a, n):
    kept = [i for i in range(len(e.invars[0].aval.shape)) if i not in e.params["axes"]]
    return [kept[a]], e.params


def _pad(e, a, n):
    if tuple(e.params["padding_config"][a]) != (0, 0, 0):
        raise Refused
    return [a, None], e.params


def _iota(e, a, n):
    if a == e.params["dimension"]:
        raise Refused
    return [], dict(e.params, shape=swapped(e.params["shape"], a, n))


def _dot(e, a, n):
    (lc, rc), (lb, rb) = e.params["dimension_numbers"]
    if a < len(lb):
        return [lb[a], rb[a]], e.params
    a -= len(lb)
    left, right = (free_axes(len(v.aval.shape), c, b) for v, c, b in zip(e.invars, (lc, rc), (lb, rb)))
    return ([left[a], None] if a < len(left) else [None, right[a - len(left)]]), e.params


def _dynamic_slice(e, a, n):
    sizes, start = e.params["slice_sizes"], e.invars[1 + a]
    if sizes[a] != e.invars[0].aval.shape[a] or type(start) is not Literal or start.val != 0:
        raise Refused
    return [a, *[None] * len(sizes)], dict(e.params, slice_sizes=swapped(sizes, a, n))


def _dynamic_update_slice(e, a, n):
    x, update, start = e.invars[0].aval, e.invars[1].aval, e.invars[2 + a]
    if update.shape[a] != x.shape[a] or type(start) is not Literal or start.val != 0:
        raise Refused
    return [a, a, *[None] * len(x.shape)], e.params


def _gather(e, a, n):
    d, sizes, shape = e.params["dimension_numbers"], e.params["slice_sizes"], e.invars[0].aval.shape
    if a in d.offset_dims:  # an axis of the slices, all of which is taken
        window = [i for i in range(len(shape)) if i not in d.collapsed_slice_dims and i not in d.operand_batching_dims]
        at = window[d.offset_dims.index(a)]
        if at in d.start_index_map or sizes[at] != shape[at]:
            raise Refused
        return [at, None], dict(e.params, slice_sizes=swapped(sizes, at, n))
    at = a - sum(o < a for o in d.offset_dims)
    if at in d.start_indices_batching_dims:
        return [d.operand_batching_dims[d.start_indices_batching_dims.index(at)], at], e.params
    return [None, at], e.params


def _scatter(e, a, n):
    d, x, updates = e.params["dimension_numbers"], e.invars[0].aval, e.invars[2].aval
    batch = [i for i in range(len(updates.shape)) if i not in d.update_window_dims]
    if a in d.operand_batching_dims:
        at = d.scatter_indices_batching_dims[d.operand_batching_dims.index(a)]
        return [a, at, batch[at]], e.params
    window = [i for i in range(len(x.shape)) if i not in d.inserted_window_dims and i not in d.operand_batching_dims]
    if a not in window or a in d.scatter_dims_to_operand_dims:
        raise Refused
    at = d.update_window_dims[window.index(a)]
    if updates.shape[at] != x.shape[a]:
        raise Refused
    return [a, None, at], e.params


def _bitcast(e, a, n):
    if e.invars[0].aval.shape != e.outvars[0].aval.shape:
        raise Refused
    return [a], e.params


def _matrices(e, a, n):
    if a >= len(e.invars[0].aval.shape) - 2:
        raise Refused
    return [a] * len(e.invars), e.params


def _conv(e, a, n):
    dn = e.params["dimension_numbers"]
    if a != dn.out_spec[0] or e.params["batch_group_count"] != 1:
        raise Refused
    return [dn.lhs_spec[0], None], e.params


def _keys(e, a, n):
    if a >= len(e.invars[0].aval.shape) - 1:
        raise Refused
    return [a], e.params


RULES = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "rev": _other_axes("dimensions"),
    "concatenate": _other_axes("dimension"),
    "split": _other_axes("axis"),
    "band": _other_axes("axis"),
    "pad": _pad,
    "surround": _margins,
    "fold": _margins,
    "iota": _iota,
    "dot_general": _dot,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "bitcast_convert_type": _bitcast,
    "cholesky": _matrices,
    "triangular_solve": _matrices,
    "conv_general_dilated": _conv,
    "threefry_bits": _keys,
    "threefry_split": _keys,
    **dict.fromkeys(("scatter", "scatter_add", "scatter_mul", "scatter_min", "scatter_max"), _scatter),
    **dict.fromkeys(ALONG, _along),
    **dict.fromkeys(LAST, _along_last),
}
KINDS = {"elementwise": _elementwise, "reduce": _reduce}


def rule_of(e):
    return RULES.get(e.primitive.name) or KINDS.get(e.primitive.kind)


def shares_of(e, n, part, mixed):
    """How the operands are read where the parts' results are to add up to the whole one; mixed: which depend on members."""
    name, p = e.primitive.name, e.params
    shares = [SUM if m else None for m in mixed]
    if name == "broadcast_in_dim" and type(e.invars[0]) is Literal and e.invars[0].val == 0:  # the sum of nothing
        return [None], p
    if not any(mixed):
        raise Refused
    if name in ("add", "sub") and all(mixed) or name in ("neg", "transpose", "reshape", "broadcast_in_dim"):
        return shares, p
    if name == "mul" and not all(mixed) or name == "div" and not mixed[1] and e.invars[0].aval.dtype.kind not in "iu":
        return shares, p
    if name == "convert_element_type" and e.invars[0].aval.dtype.kind == e.outvars[0].aval.dtype.kind:
        return shares, p
    if name == "reduce_sum":
        at = [a for a in p["axes"] if e.invars[0].aval.shape[a] == n]
        return (at[:1] if at else shares), p
    if name == "dot_general":
        (lc, rc), _ = p["dimension_numbers"]
        at = [[a, b] for a, b in zip(lc, rc) if e.invars[0].aval.shape[a] == n]
        if at or not all(mixed):
            return (at[0] if at else shares), p
    raise Refused
