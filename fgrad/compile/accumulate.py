"""What is scattered or put into zeros and added to a value is added to the value where it belongs.

The cotangent of an indexed element is a whole array with one element that is not zero: a loop that reads one element a step would make
such an array, and add it up, in each step. Elements to which nothing is added keep their zeros' signs.
"""

from collections import Counter

from fgrad.core import ClosedJaxpr, Eqn, Literal, ShapedArray, Var
from fgrad.ops.arithmetic import add_p
from fgrad.ops.gather import ScatterDimensionNumbers, scatter_add_p
from fgrad.ops.index import dynamic_slice_p, dynamic_update_slice_p
from fgrad.ops.shape import broadcast_in_dim_p, concatenate_p, pad_p, reshape_p
from fgrad.transforms.backward import primitives_of

PUTS = (scatter_add_p, dynamic_update_slice_p)


def accumulate(closed):
    """closed with x + scatter_add(zeros, i, u) as scatter_add(x, i, u), and the same of dynamic_update_slice, on x's window."""
    primitives = primitives_of(closed.eqns)
    if add_p not in primitives or not any(p in primitives for p in PUTS):
        return closed
    made = {e.outvars[0] for e in closed.eqns if e.primitive in PUTS or e.primitive in (reshape_p, pad_p)}
    if not any(v in made for e in closed.eqns if e.primitive is add_p for v in e.invars):
        return closed
    uses = Counter([v for e in closed.eqns for v in e.invars if type(v) is not Literal])
    uses.update([v for v in closed.jaxpr.outvars if type(v) is not Literal])
    zeros, puts = set(), {}  # puts: variable -> [(what is put into zeros to make it, the reshape of that or None, the equations that do)]
    gone, eqns = set(), []
    for eqn in closed.eqns:
        out, new = eqn.outvars[0] if eqn.outvars else None, [eqn]
        if eqn.primitive is broadcast_in_dim_p and type(eqn.invars[0]) is Literal and eqn.invars[0].val == 0:
            zeros.add(out)
        elif eqn.primitive in PUTS and eqn.invars[0] in zeros and _keeps_sums(eqn):
            puts[out] = [(eqn, None, [eqn])]
        elif eqn.primitive is reshape_p and eqn.invars[0] in puts and uses[eqn.invars[0]] == len(puts[eqn.invars[0]]) == 1:
            ((put, shaped, made),) = puts[eqn.invars[0]]
            if shaped is None:
                puts[out] = [(put, eqn, [*made, eqn])]
        elif eqn.primitive is pad_p and eqn.invars[0] in puts and uses[eqn.invars[0]] == len(puts[eqn.invars[0]]) == 1:
            ((put, shaped, made),) = puts[eqn.invars[0]]
            if shaped is None and (padded := _padded(put, eqn)) is not None:
                *before, put = padded
                puts[out] = [(put, None, [*made, eqn])]
                new += before
        elif eqn.primitive is add_p:
            for x, y in (eqn.invars, eqn.invars[::-1]):
                if type(y) is not Literal and y in puts and uses[y] == 1 and type(x) is not Literal and x.aval.shape == y.aval.shape:
                    gone.update([e for *_, made in puts[y] for e in made])
                    links = _onto(x, [link[:2] for link in puts[y]], out)
                    new = [e for *_, made in links for e in made]
                    if x in puts and uses[x] == 1:
                        puts[out] = puts[x] + links
                    break
        eqns += new
    return ClosedJaxpr(closed.jaxpr.replace(eqns=[e for e in eqns if e not in gone]), closed.consts) if gone else closed


def _keeps_sums(put):
    """False where what falls on one element would be rounded to 16 bits together with the value it is added to."""
    return put.primitive is dynamic_update_slice_p or put.outvars[0].aval.dtype.itemsize != 2


def _padded(put, pad):
    """Equations that put into the padded zeros what `put` puts into those inside, itself last; None where a padded axis is indexed."""
    numbers, config = put.params.get("dimension_numbers"), pad.params["padding_config"]
    zero = type(pad.invars[1]) is Literal and pad.invars[1].val == 0
    if put.primitive is not scatter_add_p or not zero or any(lo < 0 or hi < 0 or inner for lo, hi, inner in config):
        return None
    axes = [axis for axis, (lo, hi, _) in enumerate(config) if lo or hi]
    taken = (*numbers.scatter_dims_to_operand_dims, *numbers.operand_batching_dims)
    if not axes or any(axis in taken for axis in axes):
        return None
    indices = put.invars[1]
    if type(indices) is Literal:
        return None
    shape, dtype, eqns = (*indices.aval.shape[:-1], 1), indices.aval.dtype, []
    for axis in axes:
        low, params = Literal(dtype.type(config[axis][0]), ShapedArray((), dtype)), {"broadcast_dimensions": (), "shape": shape}
        eqns.append(Eqn(broadcast_in_dim_p, [low], [Var(ShapedArray(shape, dtype))], params, put.source))
    moved = Var(ShapedArray((*shape[:-1], indices.aval.shape[-1] + len(axes)), dtype))
    eqns.append(Eqn(concatenate_p, [indices, *[e.outvars[0] for e in eqns]], [moved], {"dimension": len(shape) - 1}, put.source))
    numbers = ScatterDimensionNumbers(
        numbers.update_window_dims,
        numbers.inserted_window_dims,
        (*numbers.scatter_dims_to_operand_dims, *axes),
        numbers.operand_batching_dims,
        numbers.scatter_indices_batching_dims,
    )
    params = {**put.params, "dimension_numbers": numbers}
    return *eqns, put.replace(invars=[put.invars[0], moved, put.invars[2]], outvars=pad.outvars, params=params)


def _onto(x, puts, out):
    """[(put, reshape, equations)] that put one after the other onto x; the last one makes `out`."""
    links = []
    for i, (put, shaped) in enumerate(puts):
        to = end = out if i == len(puts) - 1 else Var(out.aval)
        before, after = [], []
        if shaped is not None:
            flat, to = Var(put.outvars[0].aval), Var(put.outvars[0].aval)
            before = [Eqn(reshape_p, [x], [flat], {"new_sizes": flat.aval.shape}, shaped.source)]
            after = [shaped.replace(invars=[to], outvars=[end])]
            x = flat
        if put.primitive is scatter_add_p:
            made = [put.replace(invars=[x, *put.invars[1:]], outvars=[to])]
        else:
            u, *starts = put.invars[1:]
            window, total = Var(u.aval), Var(u.aval)
            made = [
                Eqn(dynamic_slice_p, [x, *starts], [window], {"slice_sizes": u.aval.shape}, put.source),
                Eqn(add_p, [window, u], [total], {}, put.source),
                put.replace(invars=[x, total, *starts], outvars=[to]),
            ]
        links.append((put, shaped, [*before, *made, *after]))
        x = end
    return links
