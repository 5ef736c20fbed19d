"""Exported programs of symbolic shape: one program for each sizes they are called with, made when it is wanted.

In the process that exported it, it is traced again; as bytes it is one program in which the numbers that depend on the sizes are
expressions of them, found by tracing at several.
"""

import base64
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import api
from fgrad import array_tree as tree
from fgrad.api.staging import at_sizes
from fgrad.api.symbolic import Sizes, fitted
from fgrad.core import AbstractValue, ShapedArray, get_aval
from fgrad.core.dimensions import DimExpr, SymbolicScope, evaluate, is_symbolic, names_of, parse, parse_shape
from fgrad.export.encoding import decode_tree, dtype_of, encode_tree
from fgrad.export.program import Exported, inexact


def is_symbolic_dim(p):
    """Whether a dimension is symbolic.

    >>> from fgrad import export
    >>> export.is_symbolic_dim(3), export.is_symbolic_dim(export.symbolic_shape("n")[0])
    (False, True)
    """
    return isinstance(p, DimExpr)


def symbolic_shape(shape_spec, *, constraints=(), scope=None, like=None):
    """The shape that a text describes: numbers, names, +, -, *, ^ and floordiv, mod, max and min of them.

    `_` and `...` in it take the dimensions of `like`. constraints: texts such as "b >= 2"; scope: the SymbolicScope of the dimensions that
    these are used with. Raises ValueError for another text.

    >>> from fgrad import export
    >>> export.symbolic_shape("b, 2*b + 1, 3")
    (b, 2*b + 1, 3)
    """
    if constraints and scope is not None:
        raise ValueError("Cannot specify both a `scope` and `constraints`.")
    return tuple(like) if shape_spec is None else parse_shape(shape_spec, scope or SymbolicScope(constraints), like)


def symbolic_args_specs(args, shapes_specs, constraints=(), scope=None):
    """`args` as ShapeDtypeStructs, with the shapes that the tree of texts shapes_specs, a prefix of args, describes (None: as they are).

    >>> import fgrad.numpy as jnp
    >>> from fgrad import export
    >>> export.symbolic_args_specs((jnp.ones((2, 3)), jnp.ones(3)), ("b, ...", None))
    (ShapeDtypeStruct(shape=(b, 3), dtype=float32), ShapeDtypeStruct(shape=(3,), dtype=float32))
    """
    scope = scope or SymbolicScope(constraints)
    leaves, treedef = tree.flatten(args)
    specs = [shapes_specs] * len(leaves) if isinstance(shapes_specs, str) else tree.prefix_leaves(shapes_specs, treedef)
    structs = []
    for x, spec in zip(leaves, specs):
        aval = x if isinstance(x, api.ShapeDtypeStruct) else get_aval(x)
        structs.append(api.ShapeDtypeStruct(symbolic_shape(spec, scope=scope, like=aval.shape), aval.dtype, weak_type=aval.weak_type))
    return tree.unflatten(treedef, structs)


class SymbolicAval(AbstractValue):
    """The type of an array of symbolic shape."""

    __slots__ = ("shape", "dtype", "weak_type")

    def __init__(self, shape, dtype, weak_type=False):
        self.shape, self.dtype, self.weak_type = tuple(shape), dtype, weak_type

    def __eq__(self, other):
        return isinstance(other, AbstractValue) and (self.shape, self.dtype, self.weak_type) == (other.shape, other.dtype, other.weak_type)

    def __hash__(self):
        return hash((self.shape, self.dtype, self.weak_type))

    def str_short(self, short_dtypes=False):
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"

    __str__ = str_short

    def __repr__(self):
        return f"ShapedArray({self}{', weak_type=True' if self.weak_type else ''})"


@dataclasses.dataclass(frozen=True)
class SymbolicExported(Exported):
    """An Exported whose types have symbolic dimensions. at(sizes) is the program of numbers."""

    at: Callable = dataclasses.field(repr=False, default=None)  # type: ignore[assignment]
    sizes: Any = dataclasses.field(repr=False, default=None)

    def _run(self, leaves, where):
        env = self._solved([get_aval(x).shape for x in leaves], where)
        return self.at(env)._run(leaves, where)

    def _solved(self, shapes, where):
        """The sizes of the names, of the shapes of the arguments."""
        env: dict = {}
        todo = []
        for at, shape, aval in zip(where, shapes, self.in_avals):
            if len(shape) != len(aval.shape):
                raise ValueError(f"Rank mismatch for {at}: expected {aval.shape} and called with {shape}")
            for i, (n, d) in enumerate(zip(shape, aval.shape)):
                if isinstance(d, DimExpr):
                    todo.append((f"{at}.shape[{i}]", n, d))
                elif n != d:
                    raise ValueError(
                        f"Shape mismatch for {at}.shape[{i}] (expected same constant): expected {aval.shape} and called with {shape}"
                    )
        count = -1
        while todo and count != len(env):
            count = len(env)
            todo = [t for t in todo if not _solve(*t, env)]
        if todo:
            raise ValueError(
                f"Cannot solve for values of dimension variables {sorted(set().union(*(names_of(d) for _, _, d in todo)) - set(env))}"
            )
        if not self.sizes.scope.holds(env):
            given = ", ".join(f"{k} = {v}" for k, v in env.items())
            raise ValueError(f"Input shapes do not match the symbolic shape constraints {list(self.sizes.scope.texts)}: {given}")
        return env

    def _data(self, vjp_order):
        template = fitted(lambda env: self.at(env)._data(vjp_order), _template, self.sizes)
        scope, avals = self.sizes.scope, (self.in_avals, self.out_avals)
        return {
            "name": self.fun_name,
            "trees": [encode_tree(self.in_tree), encode_tree(self.out_tree)],
            "avals": [[[[str(d) for d in a.shape], a.dtype.name, a.weak_type] for a in side] for side in avals],
            "symbolic": list(scope.texts),
            "template": template,
            "vjp": self.vjp()._data(vjp_order - 1) if vjp_order else None,
        }


def _solve(where, size, d, env):
    """Whether the equation d = size is used up: what it says is in env, or it was checked."""
    unknown = names_of(d) - set(env)
    if not unknown:
        if evaluate(d, env) != size:
            raise ValueError(
                "Input shapes do not match the polymorphic shapes specification. Found inconsistency between dimension size "
                f"{where} (= {size}) and the specification '{d}' (= {evaluate(d, env)})"
            )
        return True
    if len(unknown) > 1:
        return False
    (name,) = unknown
    at = [evaluate(d, {**env, name: n}) for n in (0, 1, 2)]
    slope = at[1] - at[0]
    if at[2] - at[1] != slope or slope == 0 or any(not isinstance(a, str) for m, _ in d.terms for a, _ in m):
        return False
    if (size - at[0]) % slope:
        raise ValueError(f"Input shapes do not match the polymorphic shapes specification. {where} = {size} is not '{d}' for any {name}")
    env[name] = (size - at[0]) // slope
    if env[name] < 1:
        raise ValueError(f"Expected value >= 1 for dimension variable '{name}': {where} = {size} is '{d}' for {name} = {env[name]}")
    return True


def symbolic_export(of, leaves, treedef):
    """The Exported of a function at types some of which are symbolic; of exports it at numbers."""
    sizes = Sizes([x.shape for x in leaves if isinstance(x, api.ShapeDtypeStruct)])
    made: dict = {}

    def at(env):
        key = tuple(env[n] for n in sizes.names)
        if key not in made:
            args, kwargs = tree.unflatten(treedef, at_sizes(leaves, env))
            made[key] = of(*args, **kwargs)
        return made[key]

    symbolic = [x.shape if isinstance(x, api.ShapeDtypeStruct) else get_aval(x).shape for x in leaves]
    return _of_family(at, sizes, symbolic)


def _of_family(at, sizes, in_shapes):
    """The SymbolicExported of programs at sizes, given the shapes of their arguments."""

    def merge(samples, fit):
        first = samples[0]
        kinds = [(s.out_tree, [(a.dtype, a.weak_type, a.ndim) for a in s.out_avals]) for s in samples]
        if any(kind != kinds[0] for kind in kinds[1:]):
            raise ValueError(f"export: the structure of {first.fun_name}'s result depends on the symbolic dimensions")
        return [[fit(list(ds)) for ds in zip(*[s.out_avals[i].shape for s in samples])] for i in range(len(first.out_avals))]

    out_shapes = fitted(at, merge, sizes)
    first = at(sizes.get(1)[0])
    ins, outs = (_avals(a, s) for a, s in ((first.in_avals, in_shapes), (first.out_avals, out_shapes)))
    get_vjp = None
    if first.has_vjp():
        shapes = [a.shape for a in ins] + [outs[i].shape for i in inexact(first.out_avals)]
        get_vjp = lambda: _of_family(lambda env: at(env).vjp(), sizes, shapes)  # noqa: E731
    return SymbolicExported(first.fun_name, first.in_tree, ins, first.out_tree, outs, None, get_vjp, at=at, sizes=sizes)


def _avals(avals, shapes):
    return tuple((SymbolicAval if is_symbolic(s) else ShapedArray)(s, a.dtype, a.weak_type) for a, s in zip(avals, shapes))


# --- one program for all sizes --------------------------------------------------------------------------------------------


def _template(trees, fit):
    """What several JSON values have in common, with {"dim": expression} where numbers depend on the sizes."""
    first = trees[0]
    if all(t == first for t in trees):
        return first
    kinds = {type(t) for t in trees}
    if kinds == {int}:
        return {"dim": str(fit(trees))}
    if kinds == {list} and len({len(t) for t in trees}) == 1:
        return [_template(list(ts), fit) for ts in zip(*trees)]
    if kinds == {dict} and all(t.keys() == first.keys() for t in trees):
        if first.keys() == {"float"}:
            return _number([np.float64(float.fromhex(t["float"])) for t in trees], fit, "dim float")
        if first.keys() == {"array"} and all(t["array"][1] == [] and t["array"][0] == first["array"][0] for t in trees):
            dtype = dtype_of(first["array"][0])
            return _number([np.frombuffer(base64.b64decode(t["array"][2]), dtype)[0] for t in trees], fit, "dim array")
        return {k: _template([t[k] for t in trees], fit) for k in first}
    raise ValueError("serialize: a constant or the structure of the program depends on the symbolic dimensions by more than their sizes")


def _number(values, fit, kind):
    """An expression of the sizes, or its inverse, as a number of a dtype."""
    dtype = values[0].dtype
    if all(float(v).is_integer() for v in values):
        return {kind: [dtype.name, str(fit([int(v) for v in values])), False]}
    inverses = [round(1 / float(v)) if v else 0 for v in values]
    if all(n and dtype.type(1 / n) == v for n, v in zip(inverses, values)):
        return {kind: [dtype.name, str(fit(inverses)), True]}
    raise ValueError("serialize: a number of the program is neither an expression of the symbolic dimensions nor its inverse")


def _at_point(t, value):
    """The JSON of the program, value(text) being an expression's."""
    if isinstance(t, list):
        return [_at_point(x, value) for x in t]
    if not isinstance(t, dict):
        return t
    if t.keys() == {"dim"}:
        return value(t["dim"])
    if t.keys() in ({"dim float"}, {"dim array"}):
        ((kind, (name, text, inverse)),) = t.items()
        n = value(text)
        x = dtype_of(name).type(1 / n if inverse else n)
        return {"float": float(x).hex()} if kind == "dim float" else {"array": [name, [], base64.b64encode(x.tobytes()).decode()]}
    return {k: _at_point(x, value) for k, x in t.items()}


def read_symbolic(data, read):
    """The SymbolicExported of serialize's data; read makes the program at numbers."""
    scope, made, parsed = SymbolicScope(data["symbolic"]), {}, {}
    shapes = [[tuple(parse(d, scope) for d in shape) for shape, _, _ in side] for side in data["avals"]]
    sizes = Sizes(shapes[0])

    def value(text, env):
        if text not in parsed:
            parsed[text] = parse(text, scope)
        return evaluate(parsed[text], env)

    def at(env):
        key = tuple(env[n] for n in sizes.names)
        if key not in made:
            made[key] = read(_at_point(data["template"], lambda text: value(text, env)))
        return made[key]

    ins, outs = (_avals([ShapedArray((), dtype_of(name), weak) for _, name, weak in side], ss) for ss, side in zip(shapes, data["avals"]))
    trees = [decode_tree(t) for t in data["trees"]]
    get_vjp = None if data["vjp"] is None else lambda: read_symbolic(data["vjp"], read)
    return SymbolicExported(data["name"], trees[0], ins, trees[1], outs, None, get_vjp, at=at, sizes=sizes)
