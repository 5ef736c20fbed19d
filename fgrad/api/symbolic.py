"""Functions of arrays of symbolic shape: they are traced at several sizes, and what differs between those traces is written as
expressions of the sizes. A function sees numbers in its shapes; what it does must not depend on them but by such expressions."""

import functools
import itertools
import math
import random
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from fgrad.core.dimensions import DimExpr, evaluate, names_of
from fgrad.errors import InconclusiveDimensionOperation

_SIZES = (67, 83, 101, 113, 131, 149, 163, 179)  # what sizes are first: such that few pairs fit by accident


class Sizes:
    """The names in symbolic shapes, and sizes of them that satisfy their constraints, as many as are asked for.

    Raises ValueError where shapes of several scopes meet.
    """

    def __init__(self, shapes):
        dims = [d for shape in shapes for d in shape if isinstance(d, DimExpr)]
        self.dims, self.scope = dims, dims[0].scope
        for d in dims:
            if d.scope is not self.scope:
                raise ValueError(f"Invalid mixing of symbolic scopes: {d} and {dims[0]} are of different symbolic_shape; give them scope=")
        self.names = sorted(set().union(*map(names_of, dims)))
        self.points: list[dict] = []
        self.found: dict = {}  # values at the points: their expression
        self._random = random.Random(0)

    def get(self, count):
        """The first `count` points."""
        while len(self.points) < count:
            self.points.append(self._another())
        return self.points[:count]

    def _another(self):
        first = dict(zip(self.names, _SIZES))
        if not self.points and len(self.names) <= len(_SIZES) and self._allowed(first):
            return first
        for attempt in range(20_000):
            span = 60 + attempt // 20
            env = {}
            for name in self.names:
                lo, hi = self.scope.bounds.get(name, (1, math.inf))
                low = int(max(lo, min(hi - span, 40)))
                env[name] = self._random.randint(low, int(min(hi, low + span)))
            # the first few of all remainders of 2, 3 and 4, for what is constant on some of them
            varied = len(self.points) in (0, *range(len(self.names) + 3, 999)) or all(
                (env[n] - self.points[-1][n]) % 12 in (5, 7) for n in self.names
            )
            if not varied and attempt < 10_000:
                continue
            if env not in self.points and self._allowed(env):
                return env
        raise InconclusiveDimensionOperation(f"found no further sizes of {', '.join(self.names)} that satisfy {self.scope}")

    def _allowed(self, env):
        return self.scope.holds(env) and all(evaluate(d, env) >= 0 for d in self.dims)


def fitted(sample: Callable, merge: Callable, sizes: Sizes):
    """merge(samples, fit) of as many samples as are needed: sample(sizes) is what is at a point, merge combines them and calls fit(values),
    the expression of ints that differ. Raises InconclusiveDimensionOperation where no expression fits."""
    k = len(sizes.names)
    samples: list = []
    for effort, count in enumerate((k + 3, (k + 1) * (k + 2) // 2 + 3, (k + 1) * (k + 2) // 2 + 9)):
        try:
            points = sizes.get(count)
        except InconclusiveDimensionOperation:
            if not samples:
                raise
            points = sizes.points
        for env in points[len(samples) :]:
            try:
                samples.append(sample(env))
            except Exception as err:
                err.add_note(f"(traced with {', '.join(f'{n} = {v}' for n, v in env.items())} for the symbolic dimensions)")
                raise
        try:
            return merge(samples, functools.partial(expression, points=points, sizes=sizes, effort=effort))
        except InconclusiveDimensionOperation:
            if effort == 2:
                raise
    raise AssertionError


def expression(values, points, sizes, effort=2):
    """The expression of the sizes that has these values at these points."""
    if len(set(values)) == 1:
        return values[0]
    key = (tuple(values), effort)
    if key not in sizes.found:
        sizes.found[key] = _expression(values, points, sizes, effort)
    return sizes.found[key]


def _expression(values, points, sizes, effort):
    names, scope = [DimExpr(((((n, 1),), 1),), sizes.scope) for n in sizes.names], sizes.scope
    for degree in (1, 2)[: effort + 1]:
        basis = [math.prod(c) for d in range(degree + 1) for c in itertools.combinations_with_replacement(names, d)]
        found = _polynomial(values, points, basis)
        if found is not None:
            return found
    if effort:
        for name in names:
            found = _quotient(values, points, name)
            if found is not None:
                return found
    at = "; ".join(f"{v} at {', '.join(f'{n} = {x}' for n, x in env.items())}" for v, env in list(zip(values, points))[:4])
    raise InconclusiveDimensionOperation(f"a size is no polynomial in {', '.join(sizes.names)} of degree 2 nor a quotient: {at} ({scope})")


def _polynomial(values, points, basis):
    if len(points) <= len(basis):
        return None
    rows = np.array([[evaluate(b, env) for b in basis] for env in points], float)
    scale = np.abs(rows).max(0)
    coefficients = np.linalg.lstsq(rows / scale, np.array(values, float), rcond=None)[0] / scale
    over = [Fraction(c).limit_denominator(8) for c in coefficients]
    whole = math.lcm(*[f.denominator for f in over])
    e = sum((int(f * whole) * b for f, b in zip(over, basis)), start=0)
    return None if _checked(e, [v * whole for v in values], points) is None else e // whole


def _quotient(values, points, name):
    """m * floordiv(s * name + c, p) + a * name + d: quotients, and remainders too."""
    (key,) = names_of(name)
    n, v = (np.array(x, float) for x in ([env[key] for env in points], values))
    for p, s in itertools.product((2, 3, 4, 5, 6, 7, 8, 16, 32), (1, 2, 3)):
        found = []
        for c in range(-p, p + 1):
            columns = np.stack([(s * n + c) // p, n, np.ones_like(n)], 1)
            m, a, d = (round(float(x)) for x in np.linalg.lstsq(columns, v, rcond=None)[0])
            if (columns @ (m, a, d) == v).all():
                found.append(((a != 0, abs(d) + abs(c)), m * ((s * name + c) // p) + a * name + d))
        if found:
            return _checked(min(found, key=lambda f: f[0])[1], values, points)
    return None


def _checked(e, values, points):
    return e if all(evaluate(e, env) == v for env, v in zip(points, values)) else None
