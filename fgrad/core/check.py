"""The checker: types every equation of a jaxpr.  The compiler and executor trust only what passed."""

from fgrad.core.aval import typematch
from fgrad.core.jaxpr import ClosedJaxpr, Literal, source_text, sub_jaxprs
from fgrad.errors import JaxprTypeError


def check_jaxpr(jaxpr):
    """Raise JaxprTypeError where a variable is unbound or bound twice, or an equation's types are not its primitive's."""
    if isinstance(jaxpr, ClosedJaxpr):
        for v, c in zip(jaxpr.jaxpr.constvars, jaxpr.consts):
            if not typematch(v.aval, c.aval):
                raise JaxprTypeError(f"const of type {c.aval} for a constvar of type {v.aval}")
        jaxpr = jaxpr.jaxpr
    bound = set()

    def bind(v, where):
        if v in bound:
            raise JaxprTypeError(f"variable {v!r} is bound twice, again {where}")
        bound.add(v)

    for v in (*jaxpr.constvars, *jaxpr.invars):
        bind(v, "as an argument")
    for i, eqn in enumerate(jaxpr.eqns):
        where = f"in equation {i} ({eqn.primitive.name}, from {source_text(eqn.source)})"
        for v in eqn.invars:
            if type(v) is not Literal and v not in bound:
                raise JaxprTypeError(f"variable {v!r} is read before it is bound {where}")
        for sub in sub_jaxprs(eqn.params):
            check_jaxpr(sub)
        try:
            out = eqn.primitive.abstract_eval(*[v.aval for v in eqn.invars], **eqn.params)
        except (TypeError, ValueError, IndexError) as e:
            raise JaxprTypeError(f"the primitive refuses its operands {where}: {e}") from e
        out = out if eqn.primitive.multiple_results else [out]
        if len(out) != len(eqn.outvars):
            raise JaxprTypeError(f"{len(eqn.outvars)} outputs, the primitive gives {len(out)} {where}")
        for v, a in zip(eqn.outvars, out):
            if not typematch(v.aval, a):
                raise JaxprTypeError(f"output typed {v.aval}, the primitive gives {a} {where}")
            bind(v, where)
    for v in jaxpr.outvars:
        if type(v) is not Literal and v not in bound:
            raise JaxprTypeError(f"output {v!r} is never bound")
