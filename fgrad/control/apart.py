"""Loops that carry complex numbers carry their parts, where nothing in them takes numbers side by side."""

from fgrad import dtypes
from fgrad.control.common import run
from fgrad.control.scan_rules import scan_p
from fgrad.control.while_loop import while_p
from fgrad.core import Literal, get_aval, stage
from fgrad.ops.elementwise import complex_, imag, real

_BY_PARTS = frozenset("add sub mul neg conj square real imag abs eq ne is_finite select complex convert_element_type log copy".split())

LEAST = 300  # numbers of a carry: fewer are not computed in parts (see compile.planes)


def _is_complex(aval):
    return aval.dtype.kind == "c"


def _has_complex(avals):
    return any(_is_complex(a) and a.size >= LEAST for a in avals)


def _complex(v):
    return _is_complex(v.aval)


def _by_parts(jaxpr, start, stop, ends):
    """Is all that has to do with the complex ones of these inputs computed with their parts? ends: so many results are carries, which
    are not only passed on."""
    apart, made = {v for v in jaxpr.invars[start:stop] if _complex(v)}, set()
    for e in jaxpr.eqns:
        known = e.primitive.name in _BY_PARTS
        if any(v in apart for v in e.invars if type(v) is not Literal):
            if not known:
                return False
            apart.update(v for v in e.outvars if _complex(v))
        if known:
            made.update(e.outvars)
    return all(type(v) is not Literal and v in made for v in jaxpr.outvars[:ends] if _complex(v))


def _split(values):
    """[(re, im) or (x,)] as one list."""
    return [y for x in values for y in ((real(x), imag(x)) if _is_complex(get_aval(x)) else (x,))]


def _joined(values, avals):
    """The values of which `_split` made these."""
    it = iter(values)
    return [complex_(next(it), next(it)) if _is_complex(a) else next(it) for a in avals]


def _split_avals(avals):
    return [p for a in avals for p in ([a.update(dtype=dtypes.to_real(a.dtype))] * 2 if _is_complex(a) else [a])]


def _staged(closed, avals, after, name, ends=0):
    """A closed jaxpr on consts and carries in parts, as which it takes what comes after them, too; ends: so many results are carries."""
    parts = _split_avals(avals)
    n = len(parts)

    def fun(*args):
        out = run(closed, *_joined(args[:n], avals), *_joined(_split(args[n:]), after))
        return [*_split(out[:ends]), *out[ends:]]

    return stage(fun, [*parts, *after], name)


def moved(fun, avals, move):
    """The results of a loop in parts, without what need not be done in it."""
    loop = stage(fun, avals, "apart")
    less = move(loop.jaxpr.eqns[0]) if len(loop.jaxpr.eqns) == 1 else None
    return loop if less is None else less


def split_while(eqn, move):
    """The loop as a jaxpr with parts of complex numbers in its carry, or None."""
    p = eqn.params
    a, b = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    avals = [v.aval for v in eqn.invars]
    carry, n = avals[b:], len(avals)
    if not _has_complex(carry):
        return None
    if not (_by_parts(p["cond_jaxpr"].jaxpr, a, n, 0) and _by_parts(p["body_jaxpr"].jaxpr, b - a, n, n)):
        return None
    cond, body = _staged(p["cond_jaxpr"], [*avals[:a], *carry], [], "cond"), _staged(p["body_jaxpr"], avals[a:], [], "body", len(carry))
    counts = dict(cond_nconsts=len(_split_avals(avals[:a])), body_nconsts=len(_split_avals(avals[a:b])))
    loop = moved(lambda *args: while_p.bind(*args, cond_jaxpr=cond, body_jaxpr=body, **counts), _split_avals(avals), move)
    return stage(lambda *args: _joined(run(loop, *_split(args)), carry), avals, "while")


def split_scan(eqn, move):
    p = eqn.params
    a, b = p["num_consts"], p["num_consts"] + p["num_carry"]
    avals, given = [v.aval for v in eqn.invars], p["jaxpr"].in_avals
    carry = avals[a:b]
    if not _has_complex(carry) or not _by_parts(p["jaxpr"].jaxpr, a, b, b - a):
        return None
    body, parts = _staged(p["jaxpr"], given[:b], given[b:], "body", len(carry)), _split_avals(avals[:b])
    counts = dict(num_consts=len(_split_avals(avals[:a])), num_carry=len(_split_avals(carry)))
    loop = moved(lambda *args: scan_p.bind(*args, **{**p, "jaxpr": body, **counts}), [*parts, *avals[b:]], move)

    def fun(*args):
        out = run(loop, *_split(args[:b]), *args[b:])
        return [*_joined(out[: counts["num_carry"]], carry), *out[counts["num_carry"] :]]

    return stage(fun, avals, "scan")
