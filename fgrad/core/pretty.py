"""Jaxprs as text, in JAX's notation."""

from fgrad.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, Literal

_WIDTH = 80


class _Names:
    def __init__(self):
        self.names, self.made = {}, 0

    def __getitem__(self, v):
        if v not in self.names:
            n, text = self.made, ""
            self.made += 1
            while n or not text:  # digits to base 26: z is followed by ba
                n, digit = divmod(n, 26)
                text = chr(ord("a") + digit) + text
            self.names[v] = text
        return self.names[v]

    def same(self, inner, outer):
        """Names for the variables of an inner jaxpr: those of what they stand for, one variable each."""
        taken = set()
        for v, like in zip(inner, outer):
            if type(v) not in (Literal, DropVar) and type(like) not in (Literal, DropVar) and like not in taken and v not in self.names:
                taken.add(like)
                self.names[v] = self[like]


def _atom(v, names):
    if type(v) is Literal:
        return f"{v.val}:{v.aval.short()}"
    return names[v]


def _typed(vs, names):
    return " ".join("_:" + v.aval.short() if type(v) is DropVar else f"{names[v]}:{v.aval.short()}" for v in vs)


class _Break:
    """Its text where the group around it is printed on one line, else a new line `indent` columns in (relative to the enclosing one)."""

    def __init__(self, text=" "):
        self.text = text


class _Nest:
    def __init__(self, indent, *parts):
        self.indent, self.parts = indent, parts


class _Group:
    """Parts of a document: printed on one line if that fits, else with all of its own breaks as new lines."""

    def __init__(self, *parts):
        self.parts = parts


def _flat(part):
    if isinstance(part, str):
        return part
    return part.text if isinstance(part, _Break) else "".join(map(_flat, part.parts))


def _layout(part, indent, column, one_line):
    """The text of a part that starts in `column` (Wadler, "A prettier printer"), and the column behind it."""
    if isinstance(part, (str, _Break)):
        if isinstance(part, _Break) and not one_line:
            return "\n" + " " * indent, indent
        text = _flat(part)
        return text, column + len(text)
    if isinstance(part, _Nest):
        indent += part.indent
    elif not one_line:
        one_line = column + len(_flat(part)) <= _WIDTH
    texts = []
    for p in part.parts:
        text, column = _layout(p, indent, column, one_line)
        texts.append(text)
    return "".join(texts), column


def _joined(separator, parts):
    return [x for p in parts for x in (_Break(separator), p)][1:]


def _block(left, parts, right):
    return _Group(_Nest(2, left, _Break(""), *_joined(" ", parts)), _Break(""), right)


def _param(k, v, names):
    if isinstance(v, (Jaxpr, ClosedJaxpr)):
        return _Group(f"{k}=", _jaxpr(v, names))
    if isinstance(v, (tuple, list)) and v and all(isinstance(b, (ClosedJaxpr, Jaxpr)) for b in v):
        return _Group(f"{k}=", _block("(", [_jaxpr(b, names) for b in v], ")"))
    if callable(v) and not isinstance(v, type):
        v = getattr(v, "__name__", type(v).__name__)
    return f"{k}={v}"


def _eqn(e, names):
    outs = _typed(e.outvars, names)
    params = sorted(e.params.items())
    if e.primitive.name == "jit":  # its name first, and its variables called as those of the call are
        params = [("name", e.params["name"]), *((k, v) for k, v in params if k != "name" and (v or k != "donated"))]
        inner = e.params["jaxpr"].jaxpr
        names.same(inner.invars, e.invars)
        names.same(inner.outvars, e.outvars)
    shown = [_block("[", [_param(k, v, names) for k, v in params], "]")] if params else []
    args = "".join(" " + _atom(v, names) for v in e.invars)
    return _Group(f"{outs} = " if outs else "", e.primitive.name, *shown, args)


def _jaxpr(jaxpr, names):
    if isinstance(jaxpr, ClosedJaxpr):
        jaxpr = jaxpr.jaxpr
    consts, ins = _typed(jaxpr.constvars, names), _typed(jaxpr.invars, names)
    head = f"{{ lambda {consts} ; {ins}. let" if consts else f"{{ lambda ; {ins}. let"
    eqns = _joined("; ", [_eqn(e, names) for e in jaxpr.eqns])  # before the outputs: names go by first appearance
    outs = ", ".join(_atom(v, names) for v in jaxpr.outvars) + ("," if len(jaxpr.outvars) == 1 else "")
    return _Group(_Nest(2, head, _Nest(2, _Break(), *eqns), _Break(), f"in ({outs})"), " }")


def pp_jaxpr(jaxpr) -> str:
    return _layout(_jaxpr(jaxpr, _Names()), 0, 0, False)[0]


for _cls in (Jaxpr, ClosedJaxpr):
    _cls.__repr__ = _cls.__str__ = pp_jaxpr  # type: ignore[method-assign, assignment]
