"""The passes over a jaxpr that come before its lowering, each with its switch in the configuration."""

from fgrad.compile import sparse
from fgrad.compile.accumulate import accumulate
from fgrad.compile.masked import unmask
from fgrad.config import config
from fgrad.core import ClosedJaxpr, Literal
from fgrad.core.jaxpr import PLAIN_KINDS
from fgrad.transforms.backward import primitives_of
from fgrad.transforms.linearize import dce_jaxpr


def _drop_dead(closed):
    """What no output needs goes, inside loops and branches too."""
    return ClosedJaxpr(dce_jaxpr(closed.jaxpr, [True] * len(closed.out_avals))[0], closed.consts)


def _move(closed):
    """Loops without what can be done before or after them: the rules `move` of their primitives."""
    if all(p.kind in PLAIN_KINDS for p in primitives_of(closed.eqns)):
        return closed
    jaxpr, consts, constvars = closed.jaxpr, list(closed.consts), list(closed.jaxpr.constvars)
    eqns, same, changed = [], {}, False  # same: variable -> the atom that it is now

    def now(atoms, same):
        return [v if type(v) is Literal else same.get(v, v) for v in atoms]

    for eqn in jaxpr.eqns:
        if same:
            eqn = eqn.replace(invars=now(eqn.invars, same))
        if eqn.primitive.kind in PLAIN_KINDS:
            eqns.append(eqn)
            continue
        moved = eqn.primitive.move(eqn) if eqn.primitive.move is not None else None
        if moved is not None:
            given = dict(zip(moved.jaxpr.invars, eqn.invars))
            eqns += [e.replace(invars=now(e.invars, given)) for e in moved.eqns]
            same.update(zip(eqn.outvars, now(moved.jaxpr.outvars, given)))
            constvars += moved.jaxpr.constvars
            consts += moved.consts
            changed = True
            continue
        for name in ("jaxpr", "call_jaxpr"):
            inner = eqn.params.get(name)
            if eqn.primitive.move is None and isinstance(inner, ClosedJaxpr) and (new := _move(inner)) is not inner:
                eqn, changed = eqn.replace(params={**eqn.params, name: new}), True
        eqns.append(eqn)
    if not changed:
        return closed
    return ClosedJaxpr(jaxpr.replace(constvars=constvars, eqns=eqns, outvars=now(jaxpr.outvars, same)), consts)


PASSES = (
    ("pass_dce", _drop_dead),
    ("pass_sparse", sparse.propagate),
    ("pass_motion", _move),
    ("pass_accumulate", accumulate),
    ("pass_masked", unmask),
)


def run_passes(closed: ClosedJaxpr) -> ClosedJaxpr:
    """An equal jaxpr that is cheaper to run."""
    for switch, run in PASSES:
        if getattr(config, switch):
            closed = run(closed)
    return closed
