"""Rules of differentiation.

primitive_jvps[p] = rule(primals, tangents, **params) -> (result, its tangent); tangents may be Zero.
primitive_transposes[p] = rule(ct, *args, **params) -> a cotangent or None per argument; those that p is linear in arrive as
UndefinedPrimal, which has their aval. With multiple_results, ct is a list.
"""

from fgrad.interpreters.rules import Rules
from fgrad.ops.arithmetic import add
from fgrad.ops.rules import Linear as UndefinedPrimal
from fgrad.ops.rules import Zero, zero_of
from fgrad.ops.rules import instantiate as instantiate_zeros
from fgrad.transforms.jvp import JVPTrace, JVPTracer

__all__ = [
    "JVPTrace",
    "JVPTracer",
    "UndefinedPrimal",
    "Zero",
    "add_tangents",
    "defbilinear",
    "defjvp",
    "defjvp2",
    "deflinear",
    "deflinear2",
    "instantiate_zeros",
    "is_undefined_primal",
    "primitive_jvps",
    "primitive_transposes",
    "zeros_like_aval",
]


def _transposing(prim, rule):
    def transpose(cts, *args, **params):
        ct = list(cts) if prim.multiple_results else cts[0]
        return [None if type(x) is Zero else x for x in rule(ct, *args, **params)]

    return transpose


primitive_jvps = Rules("jvp", lambda prim, rule: rule)
primitive_transposes = Rules("transpose", _transposing)


def is_undefined_primal(x):
    """Whether x stands for an argument that a transposed equation is linear in."""
    return type(x) is UndefinedPrimal


def zeros_like_aval(aval):
    """Zeros of the type of an abstract value."""
    return instantiate_zeros(Zero(aval))


def add_tangents(x, y):
    """The sum of two tangents, of which either may be Zero."""
    if type(x) is Zero:
        return y
    return x if type(y) is Zero else add(x, y)


def defjvp2(prim, *rules):
    """Set the derivative as a sum over arguments: rule(tangent, result, *primals, **params), or None where it is zero."""

    def jvp(primals, tangents, **params):
        out = prim.bind(*primals, **params)
        total = zero_of(out)
        for rule, t in zip(rules, tangents):
            if rule is not None and type(t) is not Zero:
                total = add_tangents(total, rule(t, out, *primals, **params))
        return out, total

    primitive_jvps[prim] = jvp


def _without_result(rule):
    return rule and (lambda t, out, *primals, **params: rule(t, *primals, **params))


def defjvp(prim, *rules):
    """Set the derivative as a sum over arguments: rule(tangent, *primals, **params), or None where it is zero."""
    defjvp2(prim, *map(_without_result, rules))


def deflinear2(prim, transpose):
    """Say that `prim` is linear in all its arguments together, and set its transpose."""

    def jvp(primals, tangents, **params):
        out = prim.bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return out, [zero_of(o) for o in out] if prim.multiple_results else zero_of(out)
        return out, prim.bind(*map(instantiate_zeros, tangents), **params)

    primitive_jvps[prim] = jvp
    primitive_transposes[prim] = transpose


def deflinear(prim, transpose):
    """deflinear2 with a transpose that needs no arguments: rule(ct, **params)."""
    deflinear2(prim, lambda ct, *args, **params: transpose(ct, **params))


def defbilinear(prim, lhs_rule, rhs_rule):
    """Say that `prim` is linear in each of its two arguments: lhs_rule(ct, x, y, **params) and rhs_rule are its transposes in them."""
    defjvp(prim, lambda t, x, y, **params: prim.bind(t, y, **params), lambda t, x, y, **params: prim.bind(x, t, **params))

    def transpose(ct, x, y, **params):
        if is_undefined_primal(x):
            return lhs_rule(ct, x, y, **params), None
        return None, rhs_rule(ct, x, y, **params)

    primitive_transposes[prim] = transpose
