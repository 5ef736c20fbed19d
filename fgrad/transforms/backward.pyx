"""The loops over a jaxpr's equations from last to first: the backward pass, and what outputs need."""
from fgrad.core.jaxpr import PLAIN_KINDS, source_text
from fgrad.errors import NotDifferentiableError
from fgrad.ops.arithmetic import add
from fgrad.ops.shape import slice_p
from fgrad.transforms.windows import Windows

from fgrad.core.ir cimport AvalBase, Eqn, Linear, Literal, Var, Zero, replayed_source, set_replayed_source
from fgrad.core.tracing cimport PrimitiveBase

cdef tuple _plain = PLAIN_KINDS


def backward_pass(jaxpr, consts, args, cts):
    """Cotangents of the Linear entries of `args` (None for the others), given those of the outputs (which may be Zero).

    Equations that do not depend on a Linear argument are evaluated first.
    """
    before = replayed_source()
    try:
        return _backward_pass(jaxpr, consts, args, cts)
    finally:
        set_replayed_source(before)


cdef object read(v, dict known):
    """The value of an atom; Linear where it depends on a linear argument."""
    if type(v) is Literal:
        return (<Literal>v).val
    value = known.get(v)
    return Linear((<Var>v).aval) if value is None else value


cdef int accumulate(dict cotangents, dict known, v, ct) except -1:
    """Add to the cotangent of a linear variable."""
    if ct is None or type(ct) is Zero or type(v) is Literal or v in known:
        return 0
    before = cotangents.get(v)
    if type(before) is Windows:
        before.add_whole(ct)
    else:
        cotangents[v] = ct if before is None else add(before, ct)
    return 0


cdef int accumulate_window(dict cotangents, Var v, dict params, ct) except -1:
    """Add the cotangent of a slice of a linear variable to the variable's."""
    before = cotangents.get(v)
    if type(before) is not Windows:
        cotangents[v] = before = Windows(before)
    before.add(params["start_indices"], params["strides"], ct)
    return 0


cdef list _backward_pass(jaxpr, consts, args, cts):
    cdef dict known = {}, cotangents = {}      # by variable; a variable that is not known is linear
    cdef list backward = [], outs, invars
    cdef Eqn eqn
    cdef PrimitiveBase prim
    cdef bint linear, any_ct
    cdef Py_ssize_t i
    known.update(zip(jaxpr.constvars, consts))
    for v, x in zip(jaxpr.invars, args):
        if type(x) is not Linear:
            known[v] = x
    for eqn in jaxpr.eqns:
        linear = False
        for v in eqn.invars:
            if type(v) is not Literal and v not in known:
                linear = True
                break
        if linear:
            backward.append(eqn)
            continue
        prim = eqn.primitive
        set_replayed_source(eqn.source if prim.kind in _plain else None)
        out = prim.bind_eqn(eqn, [read(v, known) for v in eqn.invars])
        if prim.multiple_results:
            known.update(zip(eqn.outvars, out))
        else:
            known[eqn.outvars[0]] = out
    for v, ct in zip(jaxpr.outvars, cts):
        accumulate(cotangents, known, v, ct)
    for eqn in reversed(backward):
        outs, any_ct = [], False
        for v in eqn.outvars:
            ct = cotangents.pop(v, None)
            any_ct = any_ct or ct is not None
            if type(ct) is Windows:
                ct = ct.joined((<AvalBase>(<Var>v).aval).shape)
            outs.append(Zero((<Var>v).aval) if ct is None else ct)
        if not any_ct:
            continue
        prim = eqn.primitive
        rule = prim.transpose
        if rule is None:
            raise NotDifferentiableError(
                f"Transpose rule (for reverse-mode differentiation) for '{prim.name}' not implemented "
                f"(asked at {source_text(eqn.source)})"
            )
        set_replayed_source(eqn.source if prim.kind in _plain else None)
        if prim is slice_p and type(outs[0]) is not Zero:
            accumulate_window(cotangents, eqn.invars[0], eqn.params, outs[0])
            continue
        invars = eqn.invars
        if not eqn.params and 0 < len(invars) < 3:
            x = read(invars[0], known)
            given = rule(outs, x) if len(invars) == 1 else rule(outs, x, read(invars[1], known))
        else:
            operands = (outs, *[read(v, known) for v in invars])
            given = rule(*operands, **eqn.params) if eqn.params else rule(*operands)
        i = 0
        for ct in given:
            accumulate(cotangents, known, invars[i], ct)
            i += 1
    outs = []
    for v, x in zip(jaxpr.invars, args):
        if type(x) is Linear:
            ct = cotangents.get(v)
            if type(ct) is Windows:
                cotangents[v] = ct = ct.joined((<AvalBase>(<Var>v).aval).shape)
            outs.append(Zero((<Var>v).aval) if ct is None else ct)
        else:
            outs.append(None)
    return outs


def primitives_of(list eqns):
    """The set of the equations' primitives."""
    cdef Eqn eqn
    cdef set out = set()
    for eqn in eqns:
        out.add(eqn.primitive)
    return out


def live_eqns(list eqns, list outvars):
    """(the equations that the outputs need and those with effects, the set of live variables).

    Of loops, branches and calls only the outputs that are needed stay: their primitives have dce rules.
    """
    cdef set live = set()
    cdef list out = [], used
    cdef Eqn eqn
    cdef PrimitiveBase prim
    cdef bint some, every
    for v in outvars:
        if type(v) is not Literal:
            live.add(v)
    for eqn in reversed(eqns):
        some, every = False, True
        for v in eqn.outvars:
            if v in live:
                some = True
            else:
                every = False
        prim = eqn.primitive
        if not some and (prim.effects is None or not prim.effects_of(eqn.params)):
            continue
        if not every and prim.dce is not None:
            eqn = prim.dce(eqn, [v in live for v in eqn.outvars])
        out.append(eqn)
        for v in eqn.invars:
            if type(v) is not Literal:
                live.add(v)
    out.reverse()
    return out, live
