"""What a program costs: operations and bytes, counted over its equations."""

import math
from collections import Counter

from fgrad.core.jaxpr import ClosedJaxpr

_DEAR = frozenset(
    """exp exp2 expm1 log log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh pow sqrt rsqrt cbrt logistic erf erfc
    erf_inv lgamma digamma polygamma igamma igammac betainc zeta""".split()
)
_REDUCTIONS = ("reduce_", "cum", "arg")


def costs(closed):
    """Operations ("flops"), elementary functions ("transcendentals") and bytes read and written, each equation by itself.

    A loop counts its body as often as it runs (a while loop once), a branch as the dearest one.
    """
    total = Counter({"flops": 0.0, "transcendentals": 0.0, "bytes accessed": 0.0})
    for eqn in closed.jaxpr.eqns:
        inner = _inner(eqn)
        total.update(inner if inner is not None else _plain(eqn))
    return dict(total)


def _inner(eqn):
    """The cost of an equation that holds programs; None of one that holds none."""
    p = eqn.params
    if "branches" in p:
        return max(map(costs, p["branches"]), key=lambda c: c["flops"])
    held = [v for v in p.values() if isinstance(v, ClosedJaxpr)]
    if not held:
        return None
    if "cond_jaxpr" not in p:  # what else is held is a derivative of the first
        held = held[:1]
    total: Counter = Counter()
    for closed in held:
        total.update(costs(closed))
    return {k: v * p.get("length", 1) for k, v in total.items()}


def _plain(eqn):
    ins, outs = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
    size = sum(a.size for a in outs)
    out = {"bytes accessed": float(sum(a.size * a.dtype.itemsize for a in (*ins, *outs)))}
    name = eqn.primitive.name
    if name in _DEAR:
        out["transcendentals"] = float(size)
    elif eqn.primitive.kind == "elementwise":
        out["flops"] = float(size)
    elif name == "dot_general":
        axes = eqn.params["dimension_numbers"][0][0]
        out["flops"] = 2.0 * size * math.prod(ins[0].shape[i] for i in axes)
    elif name == "conv_general_dilated":
        features = outs[0].shape[eqn.params["dimension_numbers"].out_spec[1]]
        out["flops"] = 2.0 * size * ins[1].size / max(features, 1)
    elif name.startswith(_REDUCTIONS):
        out["flops"] = float(sum(a.size for a in ins))
    return out
