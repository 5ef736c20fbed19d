"""How an eager gradient writes down an eager function of several operations: as one, differentiated through its jaxpr afterwards."""

from fgrad.core import closed_as_fun
from fgrad.core.jaxpr import Literal
from fgrad.core.primitive import Primitive
from fgrad.core.tracing import may_refuse
from fgrad.transforms.jvp import jvp_flat

# Derivatives compute the operations again, inside of their own passes: these kernels cost about one pass over memory too.
# Those that move are linear and need nothing again.
_PASSES = frozenset({"gather", "log_softmax", "logsumexp", "moments", "softmax"})
_MOVES = frozenset({"concatenate", "dynamic_slice", "dynamic_update_slice", "pad"})
_KINDS = ("elementwise", "reduce", "view")


def _jvp(primals, tangents, *, jaxpr):
    return jvp_flat(closed_as_fun(jaxpr), primals, tangents)


composite_p = Primitive("composite", multiple_results=True, jvp=_jvp, listed=False)  # only ever written down, never bound


def body_of(closed):
    """(primitive, params, operands) that stand for a jaxpr in a recording. Operands: (number of an argument, None) or (-1, a scalar).

    None where the jaxpr is to be written down operation by operation: it does what should not be done twice.
    """
    jaxpr = closed.jaxpr
    if len(jaxpr.eqns) == 1 and not closed.consts and list(jaxpr.eqns[0].outvars) == list(jaxpr.outvars):
        return _single(jaxpr)
    if not jaxpr.eqns or not _of_passes(jaxpr):
        return None
    return composite_p, {"jaxpr": closed}, tuple((i, None) for i in range(len(jaxpr.invars)))


def _of_passes(jaxpr):
    """Whether a jaxpr has only operations that cost about a pass over memory, those of its jitted calls among them."""
    return all(
        (e.primitive.kind in _KINDS or e.primitive.name in _PASSES or e.primitive.name in _MOVES)
        and not may_refuse(e.primitive, e.params)
        or (e.primitive.name == "jit" and _of_passes(e.params["jaxpr"].jaxpr))
        for e in jaxpr.eqns
    )


def _single(jaxpr):
    (eqn,) = jaxpr.eqns
    prim = eqn.primitive
    if prim.kind not in (*_KINDS, "kernel") or prim.impl is not None or prim.effects is not None or may_refuse(prim, eqn.params):
        return None
    return prim, eqn.params, tuple((-1, v.val) if type(v) is Literal else (jaxpr.invars.index(v), None) for v in eqn.invars)
