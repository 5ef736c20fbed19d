"""What is scattered or put into zeros and added to a value is added to the value where it belongs.

The cotangent of an indexed element is a whole array with one element that is not zero: a loop that reads one element a step would make
such an array, and add it up, in each step. Elements to which nothing is added keep their zeros' signs.
"""

from collections import Counter

from fgrad.core import ClosedJaxpr, Eqn, Literal, Var
from fgrad.ops.arithmetic import add_p
from fgrad.ops.gather import scatter_add_p
from fgrad.ops.index import dynamic_slice_p, dynamic_update_slice_p
from fgrad.ops.shape import broadcast_in_dim_p
from fgrad.transforms.backward import primitives_of

PUTS = (scatter_add_p, dynamic_update_slice_p)


def accumulate(closed):
    """closed with x + scatter_add(zeros, i, u) as scatter_add(x, i, u), and the same of dynamic_update_slice, on x's window."""
    primitives = primitives_of(closed.eqns)
    if add_p not in primitives or not any(p in primitives for p in PUTS):
        return closed
    made = {e.outvars[0] for e in closed.eqns if e.primitive in PUTS}
    if not any(v in made for e in closed.eqns if e.primitive is add_p for v in e.invars):
        return closed
    uses = Counter([v for e in closed.eqns for v in e.invars if type(v) is not Literal])
    uses.update([v for v in closed.jaxpr.outvars if type(v) is not Literal])
    zeros, puts = set(), {}  # puts: variable -> [(what is put into zeros to make it, the equations that do)]
    gone, eqns = set(), []
    for eqn in closed.eqns:
        out, new = eqn.outvars[0] if eqn.outvars else None, [eqn]
        if eqn.primitive is broadcast_in_dim_p and type(eqn.invars[0]) is Literal and eqn.invars[0].val == 0:
            zeros.add(out)
        elif eqn.primitive in PUTS and eqn.invars[0] in zeros and _keeps_sums(eqn):
            puts[out] = [(eqn, [eqn])]
        elif eqn.primitive is add_p:
            for x, y in (eqn.invars, eqn.invars[::-1]):
                if type(y) is not Literal and y in puts and uses[y] == 1 and type(x) is not Literal and x.aval.shape == y.aval.shape:
                    gone.update([e for _, made in puts[y] for e in made])
                    links = _onto(x, [put for put, _ in puts[y]], out)
                    new = [e for _, made in links for e in made]
                    if x in puts and uses[x] == 1:
                        puts[out] = puts[x] + links
                    break
        eqns += new
    return ClosedJaxpr(closed.jaxpr.replace(eqns=[e for e in eqns if e not in gone]), closed.consts) if gone else closed


def _keeps_sums(put):
    """False where what falls on one element would be rounded to 16 bits together with the value it is added to."""
    return put.primitive is dynamic_update_slice_p or put.outvars[0].aval.dtype.itemsize != 2


def _onto(x, puts, out):
    """[(put, equations)] that put one after the other onto x; the last one makes `out`."""
    links = []
    for i, put in enumerate(puts):
        to = out if i == len(puts) - 1 else Var(out.aval)
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
        links.append((put, made))
        x = to
    return links
