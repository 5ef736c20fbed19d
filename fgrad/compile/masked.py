"""An update that a predicate takes or leaves as a whole is made with values of which the predicate selects.

where(p, x.at[i].set(v), x), and what vmap makes of a while loop whose members end one after the other, would copy x and select each of its
elements for an update of a few. The update is made in any case, with what lies there already where p does not hold.
"""

from collections import Counter
from math import prod

import numpy as np

from fgrad import dtypes
from fgrad.core import ClosedJaxpr, Eqn, Literal, ShapedArray, Var
from fgrad.ops.gather import GatherDimensionNumbers, GatherScatterMode, gather_p, scatter_add_p, scatter_p, window_sizes
from fgrad.ops.index import dynamic_slice_p, dynamic_update_slice_p
from fgrad.ops.logic import select_p
from fgrad.ops.shape import broadcast_in_dim_p, reshape_p
from fgrad.transforms.backward import primitives_of

PUTS = (scatter_p, scatter_add_p, dynamic_update_slice_p)
SMALL = 2  # an update has at most one element for so many of what it is put into


def unmask(closed):
    """closed with select(p, put(x, u), x) as put(x, select(p, u, x's window)), for one put or several in a row, and either case."""
    primitives = primitives_of(closed.eqns)
    if select_p not in primitives or not any(p in primitives for p in PUTS):
        return closed
    put = set()  # what updates make, under any shape
    for e in closed.eqns:
        if e.primitive in PUTS or (e.primitive is reshape_p and e.invars[0] in put):
            put.add(e.outvars[0])
    if not any(v in put for e in closed.eqns if e.primitive is select_p for v in e.invars):
        return closed
    uses = Counter([v for e in closed.eqns for v in e.invars if type(v) is not Literal])
    uses.update([v for v in closed.jaxpr.outvars if type(v) is not Literal])
    made = {v: e for e in closed.eqns for v in e.outvars}
    gone, eqns = set(), []
    for eqn in closed.eqns:
        new = [eqn]
        if eqn.primitive is select_p:
            pred, x, y = eqn.invars
            for to, base, holds in ((x, y, True), (y, x, False)):
                puts, shaped = _puts(to, base, made, uses), None
                if not puts:
                    puts, base, shaped = _puts_in_another_shape(to, base, pred, made, uses)
                masks = [_mask(pred, put, made) for put in puts]
                if puts and None not in masks and SMALL * sum(prod(p.invars[_update(p)].aval.shape) for p in puts) <= prod(base.aval.shape):
                    gone.update(puts)
                    out = eqn.outvars[0] if shaped is None else Var(base.aval)
                    new = _masked(base, puts, masks, holds, out)
                    made[out] = new[-1]
                    if shaped is not None:
                        gone.add(shaped)
                        uses[out] = 1
                        new.append(shaped.replace(invars=[out], outvars=eqn.outvars))
                        made[eqn.outvars[0]] = new[-1]
                    break
        eqns += new
    return ClosedJaxpr(closed.jaxpr.replace(eqns=[e for e in eqns if e not in gone]), closed.consts) if gone else closed


def _update(put):
    return 1 if put.primitive is dynamic_update_slice_p else 2


def _puts(to, base, made, uses):
    """The equations that put one update after the other into `base` and make `to`, which nothing else reads; [] if others do."""
    puts = []
    while to is not base:
        eqn = None if type(to) is Literal else made.get(to)
        if eqn is None or eqn.primitive not in PUTS or uses[to] != 1:
            return []
        if eqn.primitive is scatter_add_p and not np.issubdtype(eqn.outvars[0].aval.dtype, np.number):
            return []
        puts.append(eqn)
        to = eqn.invars[0]
    return puts[::-1]


def _puts_in_another_shape(to, base, pred, made, uses):
    """(puts, what they are put into, the reshape that makes `to` of them), where that is a reshape of `base`, as it is for x.at[i, j].set,
    and the axes of the predicate are the same in both; ([], base, None) elsewhere."""
    shaped = None if type(to) is Literal else made.get(to)
    if shaped is None or shaped.primitive is not reshape_p or uses[to] != 1:
        return [], base, None
    inner = start = shaped.invars[0]
    while (put := made.get(start)) is not None and put.primitive in PUTS:
        start = put.invars[0]
    spread = None if type(pred) is Literal else made.get(pred)
    kept = (
        1 + max(spread.params["broadcast_dimensions"], default=-1) if spread is not None and spread.primitive is broadcast_in_dim_p else 0
    )
    if put is None or put.primitive is not reshape_p or put.invars[0] is not base or base.aval.shape[:kept] != start.aval.shape[:kept]:
        return [], base, None
    return _puts(inner, start, made, uses), start, shaped


def _mask(pred, put, made):
    """(p, the axes of the put's update that those of p are), where `pred` is p for all of each element's update; else None."""
    if type(pred) is Literal or not pred.aval.shape:
        return pred, ()
    eqn = made.get(pred)
    if eqn is None or eqn.primitive is not broadcast_in_dim_p:
        return None
    p, axes = eqn.invars[0], []
    shape, u_shape = put.invars[0].aval.shape, put.invars[_update(put)].aval.shape
    numbers = put.params.get("dimension_numbers")
    for n, d in zip(p.aval.shape, eqn.params["broadcast_dimensions"]):
        if n != shape[d]:
            return None
        if numbers is None:
            if u_shape[d] != n:
                return None
            axes.append(d)
            continue
        if d not in numbers.operand_batching_dims:
            return None
        batch = [a for a in range(len(u_shape)) if a not in numbers.update_window_dims]
        axes.append(batch[numbers.scatter_indices_batching_dims[numbers.operand_batching_dims.index(d)]])
    return (p, tuple(axes)) if axes == sorted(axes) else None


def _masked(x, puts, masks, holds, out):
    """The equations of `puts` into x where the masks hold (or do not); the last one makes `out`."""
    eqns = []
    for i, (put, (p, axes)) in enumerate(zip(puts, masks)):
        u = put.invars[_update(put)]
        value, old = Var(u.aval), Var(u.aval)
        if put.primitive is scatter_add_p:
            zero = u.aval.dtype.type(0)
            old = Literal(zero if np.issubdtype(u.aval.dtype, np.integer) else -zero, ShapedArray((), u.aval.dtype))
        elif put.primitive is scatter_p:
            numbers, mode = put.params["dimension_numbers"], put.params["mode"]
            params = {
                "dimension_numbers": GatherDimensionNumbers(*numbers),
                "slice_sizes": window_sizes(x.aval.shape, u.aval.shape, numbers),
                "mode": GatherScatterMode.CLIP if mode is GatherScatterMode.FILL_OR_DROP else mode,  # what is dropped is not put
                "fill_value": None,
            }
            eqns.append(Eqn(gather_p, [x, put.invars[1]], [old], params, put.source))
        else:
            eqns.append(Eqn(dynamic_slice_p, [x, *put.invars[2:]], [old], {"slice_sizes": u.aval.shape}, put.source))
        if u.aval.shape:
            mask = Var(ShapedArray(u.aval.shape, dtypes.BOOL))
            eqns.append(Eqn(broadcast_in_dim_p, [p], [mask], {"shape": u.aval.shape, "broadcast_dimensions": axes}, put.source))
            p = mask
        eqns.append(Eqn(select_p, [p, u, old] if holds else [p, old, u], [value], {}, put.source))
        to = out if i == len(puts) - 1 else Var(put.outvars[0].aval)
        invars = list(put.invars)
        invars[0], invars[_update(put)] = x, value
        eqns.append(put.replace(invars=invars, outvars=[to]))
        x = to
    return eqns
