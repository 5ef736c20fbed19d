"""While loops of which one knows how often they run, `while i < 100: i = i + 1`, are scans."""

import numpy as np

from fgrad.control.scan_rules import scan_p
from fgrad.core import ClosedJaxpr, Literal, stage
from fgrad.core.jaxpr import Var

TURNED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def as_scan(eqn):
    """The while loop as a scan, less what that need not do step by step; None where its steps are not known."""
    params = eqn.params
    steps = _steps(eqn)
    if steps is None:
        return None
    a, b = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    how = dict(length=steps, reverse=False, num_consts=b - a, num_carry=len(eqn.invars) - b, unroll=1)
    closed = stage(lambda *args: scan_p.bind(*args, jaxpr=params["body_jaxpr"], **how), [v.aval for v in eqn.invars[a:]], "while")
    (scan,) = closed.jaxpr.eqns
    moved = scan_p.move(scan)
    jaxpr, consts = (closed.jaxpr, closed.consts) if moved is None else (moved.jaxpr, moved.consts)
    return ClosedJaxpr(jaxpr.replace(invars=[*[Var(v.aval) for v in eqn.invars[:a]], *jaxpr.invars]), consts)


def _steps(eqn):
    """How often the loop runs, if that is once or more and its condition only asks for a counter that begins with a literal; else None."""
    cond, body, a = eqn.params["cond_jaxpr"].jaxpr, eqn.params["body_jaxpr"].jaxpr, eqn.params["cond_nconsts"]
    nb = eqn.params["body_nconsts"]
    carry = eqn.invars[a + nb :]
    if len(cond.eqns) != 1 or cond.eqns[0].outvars != cond.outvars or cond.eqns[0].primitive.name not in TURNED:
        return None
    given = dict(zip(cond.invars[:a], eqn.invars[:a]))
    name, (x, y) = cond.eqns[0].primitive.name, [v if type(v) is Literal else given.get(v, v) for v in cond.eqns[0].invars]
    if type(x) is Literal:
        name, x, y = TURNED[name], y, x
    if type(y) is not Literal or x not in cond.invars[a:] or x.aval.shape != () or x.aval.dtype.kind not in "iu":
        return None
    i = cond.invars[a:].index(x)
    by = _added(body, nb, i)
    if type(carry[i]) is not Literal or by is None:
        return None
    first, limit, info = int(carry[i].val), int(y.val), np.iinfo(x.aval.dtype)
    if name in ("gt", "ge"):
        first, limit, by = -first, -limit, -by
    limit += name in ("le", "ge")
    if by <= 0 or first >= limit or not info.min <= -limit - by or not limit + by <= info.max:
        return None
    return -((first - limit) // by)


def _added(body, nb, i):
    """The literal that a body adds to carry i; None if it does anything else with it."""
    start, end = body.invars[nb + i], body.outvars[i]
    made = [e for e in body.eqns if end in e.outvars]
    if len(made) != 1 or made[0].primitive.name not in ("add", "sub"):
        return None
    x, y = made[0].invars
    if made[0].primitive.name == "add" and type(x) is Literal:
        x, y = y, x
    if x is not start or type(y) is not Literal:
        return None
    return -int(y.val) if made[0].primitive.name == "sub" else int(y.val)
