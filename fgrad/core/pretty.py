"""Jaxprs as text, in JAX's notation."""

from fgrad.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, Literal


class _Names:
    def __init__(self):
        self.names = {}

    def __getitem__(self, v):
        if v not in self.names:
            n, text = len(self.names), ""
            while n or not text:  # digits to base 26: z is followed by ba
                n, digit = divmod(n, 26)
                text = chr(ord("a") + digit) + text
            self.names[v] = text
        return self.names[v]


def _atom(v, names):
    if type(v) is Literal:
        return f"{v.val}:{v.aval.short()}"
    return names[v]


def _typed(vs, names):
    return " ".join("_:" + v.aval.short() if type(v) is DropVar else f"{names[v]}:{v.aval.short()}" for v in vs)


def _indent(text, n=2):
    return "\n".join(" " * n + line for line in text.splitlines())


def _param(k, v, names):
    if isinstance(v, ClosedJaxpr):
        v = v.jaxpr
    if isinstance(v, Jaxpr):
        return f"{k}={_jaxpr(v, names)}"
    if isinstance(v, (tuple, list)) and v and all(isinstance(b, (ClosedJaxpr, Jaxpr)) for b in v):
        inner = "\n".join(_jaxpr(b.jaxpr if isinstance(b, ClosedJaxpr) else b, names) for b in v)
        return f"{k}=(\n{_indent(inner)}\n)"
    if callable(v) and not isinstance(v, type):
        v = getattr(v, "__name__", type(v).__name__)
    return f"{k}={v}"


def _eqn(e, names):
    args = " ".join(_atom(v, names) for v in e.invars)
    params = [_param(k, v, names) for k, v in sorted(e.params.items())]
    if not params:
        inner = ""
    elif len(params) == 1 and "\n" not in params[0]:
        inner = f"[{params[0]}]"
    else:
        inner = "[\n" + _indent("\n".join(params)) + "\n]"
    outs = _typed(e.outvars, names)
    return f"{outs} = {e.primitive.name}{inner} {args}".rstrip() if outs else f"{e.primitive.name}{inner} {args}".rstrip()


def _jaxpr(jaxpr, names):
    consts, ins = _typed(jaxpr.constvars, names), _typed(jaxpr.invars, names)
    head = f"{{ lambda {consts} ; {ins}. let" if consts else f"{{ lambda ; {ins}. let"
    body = "\n".join(_eqn(e, names) for e in jaxpr.eqns)  # before the outputs: names go by first appearance
    outs = ", ".join(_atom(v, names) for v in jaxpr.outvars) + ("," if len(jaxpr.outvars) == 1 else "")
    if not jaxpr.eqns:
        return f"{head}  in ({outs}) }}"
    if len(jaxpr.eqns) == 1 and "\n" not in body and len(body) + len(head) < 70:
        return f"{head} {body} in ({outs}) }}"
    return f"{head}\n{_indent(body, 4)}\n  in ({outs}) }}"


def pp_jaxpr(jaxpr) -> str:
    return _jaxpr(jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr, _Names())


for _cls in (Jaxpr, ClosedJaxpr):
    _cls.__repr__ = _cls.__str__ = pp_jaxpr  # type: ignore[method-assign, assignment]
