"""Symbolic dimensions: polynomials with integer coefficients in named sizes, quotients, remainders, maxima and minima of such."""

import math
import re

from fgrad.errors import InconclusiveDimensionOperation

_FUNCTIONS = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "max": lambda a, b: dim_max(a, b),
    "min": lambda a, b: dim_min(a, b),
}
_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|(\.\.\.|>=|<=|==|.))")


class SymbolicScope:
    """What symbolic dimensions that are used together share: constraints such as "a >= 2", "b <= 2*a", "mod(b, 4) == 0"."""

    def __init__(self, constraints_str=()):
        if isinstance(constraints_str, str):
            raise ValueError(f"The symbolic constraints should be a sequence of strings. Got {constraints_str!r}")
        self.constraints, self.bounds, self.texts = [], {}, tuple(constraints_str)  # constraints: expressions that are >= 0
        for text in self.texts:
            parts = re.split(r"(>=|<=|==)", text)
            if len(parts) != 3:
                raise ValueError(f"Unsupported parsing of constraint {text!r}: one of >=, <= and == between two expressions")
            left, right = (_Parser(p, self).whole() for p in (parts[0], parts[2]))
            difference = left - right if parts[1] != "<=" else right - left
            for e in (difference, -difference) if parts[1] == "==" else (difference,):
                if isinstance(e, int):
                    if e < 0:
                        raise ValueError(f"Unsatisfiable explicit constraint: {text}")
                    continue
                self.constraints.append(e)
                self._bound(e)

    def _bound(self, e):
        """What the constraint says of one size alone."""
        linear, constant = [t for t in e.terms if t[0]], dict(e.terms).get((), 0)
        if len(linear) == 1 and len(linear[0][0]) == 1 and linear[0][0][0][1] == 1:
            (((atom, _),), k) = linear[0]
            lo, hi = self.bounds.get(atom, (1 if isinstance(atom, str) else -math.inf, math.inf))
            self.bounds[atom] = (max(lo, -(constant // k)), hi) if k > 0 else (lo, min(hi, constant // -k))

    def holds(self, env):
        """Whether sizes satisfy the constraints of them."""
        return all(evaluate(c, env) >= 0 for c in self.constraints if names_of(c) <= env.keys())

    def __repr__(self):
        return f"SymbolicScope({list(self.texts)})"


class DimExpr:
    """A symbolic dimension. Arithmetic gives others or, where no name is left, ints.

    Comparisons that hold for some sizes only raise InconclusiveDimensionOperation; == is False there.
    """

    __slots__ = ("terms", "scope")  # terms: ((monomial, coefficient), ...), a monomial: ((atom, power), ...), an atom: a name or an _Op

    def __init__(self, terms, scope):
        self.terms, self.scope = terms, scope

    def __hash__(self):
        return hash(self.terms)

    def __eq__(self, other):
        return isinstance(other, DimExpr) and self.terms == other.terms

    def __add__(self, other):
        return _combine(self, other, 1)

    def __sub__(self, other):
        return _combine(self, other, -1)

    def __rsub__(self, other):
        return -self + other

    def __neg__(self):
        return self * -1

    __radd__ = __add__

    def __mul__(self, other):
        if not _is_dim(other):
            return NotImplemented
        total: dict = {}
        for m, k in self.terms:
            for n, j in _terms(other, self.scope):
                powers = dict(m)
                for atom, p in n:
                    powers[atom] = powers.get(atom, 0) + p
                key = tuple(sorted(powers.items(), key=lambda x: str(x[0])))
                total[key] = total.get(key, 0) + k * j
        return _make(total, self.scope)

    __rmul__ = __mul__

    def __pow__(self, power):
        return math.prod([self] * power, start=1)

    def __floordiv__(self, other):
        return _floordiv(self, other, self.scope)

    def __rfloordiv__(self, other):
        return _floordiv(other, self, self.scope)

    def __mod__(self, other):
        return _mod(self, other, self.scope)

    def __rmod__(self, other):
        return _mod(other, self, self.scope)

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    def __ge__(self, other):
        return _at_least(self - other, f"{self} >= {other}")

    def __gt__(self, other):
        return _at_least(self - other - 1, f"{self} > {other}")

    def __le__(self, other):
        return _at_least(other - self, f"{self} <= {other}")

    def __lt__(self, other):
        return _at_least(other - self - 1, f"{self} < {other}")

    def __bool__(self):
        lo, hi = _bounds(self)
        if lo > 0 or hi < 0:
            return True
        raise InconclusiveDimensionOperation(f"Symbolic dimension {self} may be 0 or not")

    def __int__(self):
        raise InconclusiveDimensionOperation(
            f"Symbolic dimension '{self}' used in a context that requires a constant: only eval_shape and export take it"
        )

    __index__ = __float__ = __int__

    def __repr__(self):
        text = ""
        for m, k in self.terms:
            factors = "*".join(f"{atom}^{p}" if p > 1 else str(atom) for atom, p in m)
            body = str(abs(k)) if not m else factors if abs(k) == 1 else f"{abs(k)}*{factors}"
            text += (" - " if k < 0 else " + ") + body if text else ("- " if k < 0 else "") + body
        return text


class _Op(tuple):
    """(name of the function, its two operands)."""

    __slots__ = ()

    def __repr__(self):
        return f"{self[0]}({self[1]}, {self[2]})"


def _is_dim(x):
    return isinstance(x, DimExpr) or (isinstance(x, int) and not isinstance(x, bool))


def _terms(x, scope):
    if isinstance(x, int):
        return (((), x),)
    if x.scope is not scope:
        raise ValueError(f"Invalid mixing of symbolic scopes: {x} is of another symbolic_shape; give it scope=")
    return x.terms


def _make(total, scope):
    terms = [(m, k) for m, k in total.items() if k]
    if not any(m for m, _ in terms):
        return terms[0][1] if terms else 0
    order = lambda t: (sum(p for _, p in t[0]), [(str(a), p) for a, p in t[0]])  # noqa: E731
    return DimExpr(tuple(sorted(terms, key=order, reverse=True)), scope)


def _combine(x, y, sign):
    if not _is_dim(y):
        return NotImplemented
    total = dict(x.terms)
    for m, k in _terms(y, x.scope):
        total[m] = total.get(m, 0) + sign * k
    return _make(total, x.scope)


def _atom(name, x, y, scope):
    monomial = ((_Op((name, x, y)), 1),)
    return DimExpr(((monomial, 1),), scope)


def _divided(x, y, scope):
    """(what of x is a multiple of y, divided by it, what is left)."""
    if isinstance(y, int):
        (m, k) = ((), y)
    elif len(y.terms) == 1:
        (m, k) = y.terms[0]
    else:
        return (1, 0) if x == y else (0, x)
    whole, rest = {}, {}
    for n, j in _terms(x, scope):
        powers = dict(n)
        if j % k == 0 and all(powers.get(atom, 0) >= p for atom, p in m):
            for atom, p in m:
                powers[atom] -= p
            whole[tuple((a, p) for a, p in powers.items() if p)] = j // k
        else:
            rest[n] = j
    return _make(whole, scope), _make(rest, scope)


def _floordiv(x, y, scope):
    if not (_is_dim(x) and _is_dim(y)):
        return NotImplemented
    if isinstance(y, int) and y == 0:
        raise ZeroDivisionError(f"{x} // 0")
    whole, rest = _divided(x, y, scope)
    if isinstance(rest, int):
        if isinstance(y, int):
            return whole + rest // y
        if rest == 0:
            return whole
    return whole + _atom("floordiv", rest, y, scope)


def _mod(x, y, scope):
    if not (_is_dim(x) and _is_dim(y)):
        return NotImplemented
    rest = _divided(x, y, scope)[1]
    if isinstance(rest, int) and (isinstance(y, int) or rest == 0):
        return rest % y if rest else 0
    return _atom("mod", rest, y, scope)


def _bounds(e, by_constraints=True):
    """(least, greatest) value that is known of it."""
    if isinstance(e, int):
        return e, e
    lo = hi = 0
    for m, k in e.terms:
        low = high = 1
        for atom, p in m:
            a, b = e.scope.bounds.get(atom, (1 if isinstance(atom, str) else -math.inf, math.inf))
            if not isinstance(atom, str):
                c, d = _op_bounds(atom)
                a, b = max(a, c), min(b, d)
            for _ in range(p):
                corners = [0 if 0 in (x, y) else x * y for x in (low, high) for y in (a, b)]
                low, high = min(corners), max(corners)
        lo, hi = lo + k * (low if k > 0 else high), hi + k * (high if k > 0 else low)
    if by_constraints:
        for c in e.scope.constraints:  # e = (e - c) + c and c >= 0; e = -(c - e) + ...
            lo = max(lo, _bounds(e - c, False)[0])
            hi = min(hi, _bounds(e + c, False)[1])
    return lo, hi


def _op_bounds(op):
    name, x, y = op
    (a, b), (c, d) = _bounds(x, False), _bounds(y, False)
    if name == "mod":
        return (0, d - 1) if c > 0 else (-math.inf, math.inf)
    if name == "max":
        return max(a, c), max(b, d)
    if name == "min":
        return min(a, c), min(b, d)
    if c > 0 and c == d:
        return (a // c if a > -math.inf else a), (b // c if b < math.inf else b)
    return (0 if a >= 0 < c else -math.inf), (b if c > 0 and b >= 0 else math.inf)


def _at_least(e, text):
    lo, hi = _bounds(e)
    if lo >= 0:
        return True
    if hi < 0:
        return False
    raise InconclusiveDimensionOperation(f"Symbolic dimension comparison '{text}' is inconclusive: it holds for some sizes only")


def dim_max(x, y):
    """The greater of two dimensions, symbolic where that depends on the sizes."""
    return _chosen("max", x, y, True)


def dim_min(x, y):
    """The smaller of two dimensions, symbolic where that depends on the sizes."""
    return _chosen("min", x, y, False)


def _chosen(name, x, y, greater):
    try:
        return x if (x >= y) is greater else y
    except InconclusiveDimensionOperation:
        return _atom(name, x, y, (x if isinstance(x, DimExpr) else y).scope)


def evaluate(e, env):
    """Its value at sizes {name: int}. Raises KeyError for a name that is not there."""
    if isinstance(e, int):
        return e
    value = lambda a: env[a] if isinstance(a, str) else int(_FUNCTIONS[a[0]](evaluate(a[1], env), evaluate(a[2], env)))  # noqa: E731
    return sum(k * math.prod(value(a) ** p for a, p in m) for m, k in e.terms)


def names_of(e):
    """The names in it."""
    if isinstance(e, int):
        return set()
    return {n for m, _ in e.terms for a, _ in m for n in ([a] if isinstance(a, str) else names_of(a[1]) | names_of(a[2]))}


def is_symbolic(shape):
    """Whether a dimension of the shape is symbolic."""
    return any(isinstance(d, DimExpr) for d in shape)


# --- their texts ----------------------------------------------------------------------------------------------------------


class _Parser:
    def __init__(self, text, scope):
        self.text, self.scope = text, scope
        self.tokens = [m.group(m.lastindex) for m in _TOKEN.finditer(text.strip())]
        self.at = 0

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, wanted=None):
        token = self.peek()
        if token is None or (wanted is not None and token != wanted):
            found = "its end" if token is None else repr(token)
            raise ValueError(f"syntax error in symbolic shape {self.text!r}: expected {wanted or 'a name or a number'} and found {found}")
        self.at += 1
        return token

    def whole(self):
        e = self.sum()
        if self.peek() is not None:
            raise ValueError(f"syntax error in symbolic shape {self.text!r} at {self.peek()!r}")
        return e

    def sum(self):
        total = 0
        sign = self.take() if self.peek() in ("-", "+") else "+"
        while True:
            total = total + self.product() if sign == "+" else total - self.product()
            if self.peek() not in ("+", "-"):
                return total
            sign = self.take()

    def product(self):
        e = self.power()
        while self.peek() == "*":
            self.take()
            e = e * self.power()
        return e

    def power(self):
        e = self.factor()
        if self.peek() == "^":
            self.take()
            e = e ** int(self.take())
        return e

    def factor(self):
        token = self.take()
        if token == "(":
            e = self.sum()
            self.take(")")
            return e
        if token == "-":
            return -self.factor()
        if token.isdigit():
            return int(token)
        if token in _FUNCTIONS and self.peek() == "(":
            self.take()
            e = self.sum()
            self.take(",")
            other = self.sum()
            self.take(")")
            return _FUNCTIONS[token](e, other)
        if not token.isidentifier():
            raise ValueError(f"syntax error in symbolic shape {self.text!r} at {token!r}")
        return DimExpr(((((token, 1),), 1),), self.scope)

    def shape(self, like):
        dims: list = []
        closing = self.peek() == "(" and _outer(self.tokens)
        if closing:
            self.take()
        while self.peek() not in (None, ")"):
            if self.peek() == "...":
                self.take()
                if like is None:
                    raise ValueError(f"syntax error in symbolic shape {self.text!r}: spec contains ... but no 'like' shape was given")
                dims += list(like[len(dims) :])
                break
            if self.peek() == "_":
                self.take()
                if like is None or len(dims) >= len(like):
                    what = "no 'like' shape was given" if like is None else f"'like' shape has only {len(like)} dimensions"
                    raise ValueError(f"syntax error in symbolic shape {self.text!r}: cannot resolve placeholder '_': {what}")
                dims.append(like[len(dims)])
            else:
                dims.append(self.sum())
            if self.peek() not in (None, ")"):
                self.take(",")
        if closing:
            self.take(")")
        if self.peek() is not None:
            raise ValueError(f"syntax error in symbolic shape {self.text!r} at {self.peek()!r}")
        if like is not None and len(dims) != len(like):
            raise ValueError(f"symbolic shape {self.text!r} has {len(dims)} dimensions, the 'like' shape {tuple(like)} has {len(like)}")
        return tuple(dims)


def _outer(tokens):
    """Whether the first parenthesis closes at the end."""
    depth = 0
    for i, t in enumerate(tokens):
        depth += (t == "(") - (t == ")")
        if depth == 0:
            return i == len(tokens) - 1
    return True


def parse_shape(text, scope, like=None):
    """The tuple of dimensions that a text such as "b, 2*n + 1" describes."""
    return _Parser(text, scope).shape(like)


def parse(text, scope):
    """The dimension that a text describes."""
    return _Parser(text, scope).whole()
