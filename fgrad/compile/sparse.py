"""Sparse derivatives: what a Jacobian's basis is multiplied by is computed on its diagonals, not on a square of mostly zeros.

A value of shape S whose axis p enumerates basis vectors is kept as diagonals: element j (over the axes `along`) is at off + j of
axis p. Elementwise products, slices, paddings and sums become those operations on operands of shape S without p; a product of
matrices becomes a product with a diagonal. What has no rule here gets the array itself, by `diagonals`.
"""

import math

from fgrad import dtypes
from fgrad.core import ClosedJaxpr, ShapedArray, Trace, Tracer, context, eval_jaxpr, get_aval, stage, using_trace
from fgrad.core.jaxpr import PLAIN_KINDS, sub_jaxprs
from fgrad.ops.diagonals import diagonals, diagonals_p, without
from fgrad.ops.dot import dot_general, free_axes
from fgrad.ops.elementwise import add, convert_element_type_p, div, mul, neg, select, sub
from fgrad.ops.reduce import reduce_sum
from fgrad.ops.rules import broadcast_in_dim, full, move_axis, zeros
from fgrad.ops.shape import pad, reshape, transpose
from fgrad.ops.shape import slice as slice_
from fgrad.ops.surround import joined, surround_p
from fgrad.transforms.backward import primitives_of

MAX_TERMS = 16


def propagate(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with its diagonals propagated; itself where it has none."""
    if not _mentions(closed.jaxpr):
        return closed

    def fun(*args):
        trace = SparseTrace(context.trace)
        try:
            with using_trace(trace):
                outs = eval_jaxpr(closed.jaxpr, closed.consts, *args)
            return [dense(x) for x in outs]
        finally:
            trace.done = True

    return stage(fun, closed.in_avals, closed.jaxpr.debug_name)


def _mentions(jaxpr):
    """True if there are diagonals here or in a function that is called."""
    primitives = primitives_of(jaxpr.eqns)
    if diagonals_p in primitives or all(p.kind in PLAIN_KINDS for p in primitives):
        return diagonals_p in primitives
    return any([any(map(_mentions, sub_jaxprs(e.params))) for e in jaxpr.eqns if e.primitive.kind not in PLAIN_KINDS])


class SparseTracer(Tracer):
    """Diagonals: terms {offset: operand}, along axis p."""

    __slots__ = ("p", "along", "terms", "full")

    def __init__(self, trace, aval, p, along, terms):
        self._trace, self.aval, self.p, self.along, self.terms, self.full = trace, aval, p, along, terms, None


def dense(x):
    """The array that a value stands for."""
    if type(x) is not SparseTracer:
        return x
    if x.full is None:
        with using_trace(x._trace.parent):
            terms = sorted(x.terms.items())
            x.full = diagonals([d for _, d in terms], x.aval.shape, x.p, x.along, [o for o, _ in terms]) if terms else zeros(x.aval)
    return x.full


class SparseTrace(Trace):
    """Applies the rules below where an operand has diagonals; `spread` tells of what other values are broadcasts."""

    __slots__ = ("parent", "spread")

    def __init__(self, parent):
        super().__init__()
        self.parent, self.spread = parent, {}

    def process_primitive(self, prim, args, params):
        inner = params.get("jaxpr") if prim.name in ("jit", "checkpoint") else params.get("call_jaxpr")
        if isinstance(inner, ClosedJaxpr) and (_mentions(inner.jaxpr) or any(type(x) is SparseTracer for x in args)):
            return eval_jaxpr(inner.jaxpr, inner.consts, *args)
        if prim is surround_p and type(args[0]) is SparseTracer:
            return joined(args[0], **params)
        with using_trace(self.parent):
            if prim is diagonals_p:
                return self.start([dense(x) for x in args], **params)
            if any(type(x) is SparseTracer for x in args):
                rule = RULES.get(prim.name)
                out = None if rule is None else rule(self, *args, **params)
                if out is not None:
                    return out
            args = [dense(x) for x in args]
            out = self.parent.process_primitive(prim, args, params)
            if prim.name == "broadcast_in_dim":
                self.spread[id(out)] = (out, args[0], params["broadcast_dimensions"])
            return out

    def start(self, args, shape, axis, along, offsets):
        aval = ShapedArray(shape, get_aval(args[0]).dtype)
        if shape[axis] < 2 or math.prod(shape[a] for a in along) < 2 or len(set(offsets)) < len(offsets):
            return diagonals(args, shape, axis, along, offsets)
        return SparseTracer(self, aval, axis, along, dict(zip(offsets, args)))

    def like(self, x, terms, shape=None, p=None, along=None):
        """x with other terms, and perhaps another layout."""
        p, along = x.p if p is None else p, x.along if along is None else along
        return SparseTracer(self, x.aval.update(shape=x.aval.shape if shape is None else tuple(shape), weak_type=False), p, along, terms)

    def each(self, x, fun, **layout):
        return self.like(x, {off: fun(d) for off, d in x.terms.items()}, **layout)

    def known(self, x):
        """The scalar of which x consists, or None."""
        if isinstance(x, Tracer):
            return self.known(self.spread[id(x)][1]) if id(x) in self.spread else None
        return x if get_aval(x).shape == () else None

    def without_axis(self, x, p):
        """A plain value without its axis p, along which it must not vary; or None. Rank-0 values stay as they are."""
        shape = get_aval(x).shape
        if shape == ():
            return x
        if id(x) not in self.spread:
            return None
        _, inner, dims = self.spread[id(x)]
        if p in dims:
            at = dims.index(p)
            if get_aval(inner).shape[at] != 1:
                return None
            inner = reshape(inner, without(get_aval(inner).shape, at))
            dims = without(dims, at)
        return broadcast_in_dim(inner, without(shape, p), tuple(d - (d > p) for d in dims))


def _same_layout(x, y):
    return x.p == y.p and x.along == y.along and x.aval.shape == y.aval.shape


def _fits(x, off, n):
    """True if all elements of a diagonal lie within an axis p of n elements."""
    return 0 <= off <= n - math.prod(x.aval.shape[a] for a in x.along)


def _scaling(bind):
    """bind(x, y), linear in x, where y does not depend on the basis; two sets of diagonals multiply pairwise."""

    def rule(trace, x, y, **params):
        if type(x) is not SparseTracer:
            return None if bind is not mul else rule(trace, y, x)
        if type(y) is SparseTracer:
            if bind is not mul or not _same_layout(x, y):
                return None
            return trace.like(x, {off: mul(d, y.terms[off]) for off, d in x.terms.items() if off in y.terms})
        y = trace.without_axis(y, x.p)
        return None if y is None else trace.each(x, lambda d: bind(d, y))

    return rule


def _sum(sign):
    """The sum, or difference, of two sets of diagonals."""

    def rule(trace, x, y):
        if type(x) is not SparseTracer or type(y) is not SparseTracer or not _same_layout(x, y):
            return None
        terms = dict(x.terms)
        for off, d in y.terms.items():
            terms[off] = sign(terms[off], d) if off in terms else d if sign is add else neg(d)
        return trace.like(x, terms) if len(terms) <= MAX_TERMS else None

    return rule


def _select(trace, which, x, y):
    """where(which, x, y) of diagonals and zeros, where `which` does not depend on the basis."""
    shape = x if type(x) is SparseTracer else y
    if type(which) is SparseTracer or type(shape) is not SparseTracer:
        return None
    both = type(x) is SparseTracer and type(y) is SparseTracer
    if both and not _same_layout(x, y) or not both and trace.known(y if shape is x else x) != 0:
        return None
    which = trace.without_axis(which, shape.p)
    if which is None:
        return None
    a, b = (v.terms if type(v) is SparseTracer else {} for v in (x, y))
    none = full(without(shape.aval.shape, shape.p), 0, shape.aval.dtype)
    return trace.like(shape, {off: select(which, a.get(off, none), b.get(off, none)) for off in {**a, **b}})


def _broadcast(trace, x, *, shape, broadcast_dimensions):
    dims = broadcast_dimensions
    p = dims[x.p]
    kept = tuple(d - (d > p) for i, d in enumerate(dims) if i != x.p)
    if shape[p] != x.aval.shape[x.p] or any(shape[dims[a]] != x.aval.shape[a] for a in x.along):
        return None
    along = tuple(dims[a] for a in x.along)
    return trace.each(x, lambda d: broadcast_in_dim(d, without(shape, p), kept), shape=shape, p=p, along=along)


def _groups(old, new):
    """Axes of two shapes of one size, none empty, in the least groups that a reshape does not mix: [(old axes, new axes)], 1s left out."""
    old, new = ([(i, n) for i, n in enumerate(s) if n != 1] for s in (old, new))
    out, i, j = [], 0, 0
    while i < len(old):
        a, b, m, n = [old[i][0]], [new[j][0]], old[i][1], new[j][1]
        i, j = i + 1, j + 1
        while m != n:
            if m < n:
                a, m, i = [*a, old[i][0]], m * old[i][1], i + 1
            else:
                b, n, j = [*b, new[j][0]], n * new[j][1], j + 1
        out.append((a, b))
    return out


def _reshape(trace, x, *, new_sizes):
    shape = x.aval.shape
    if 0 in shape or any(shape[a] == 1 for a in (x.p, *x.along)):
        return None
    p, along = None, []
    for old, new in _groups(shape, new_sizes):
        if x.p in old:
            if len(old) != 1 or len(new) != 1:
                return None
            p = new[0]
        elif any(a in x.along for a in old):
            at = x.along.index(old[0]) if old[0] in x.along else -1
            if at < 0 or tuple(old) != x.along[at : at + len(old)]:
                return None
            along.append((at, new))
    along = tuple(a for _, new in sorted(along) for a in new)
    if len(along) > 1 and not all(_fits(x, off, shape[x.p]) for off in x.terms):
        return None
    return trace.each(x, lambda d: reshape(d, without(new_sizes, p)), shape=new_sizes, p=p, along=along)


def _transpose(trace, x, *, permutation):
    p, along = permutation.index(x.p), tuple(permutation.index(a) for a in x.along)
    kept = tuple(a - (a > x.p) for a in permutation if a != x.p)
    shape = [x.aval.shape[a] for a in permutation]
    return trace.each(x, lambda d: transpose(d, kept), shape=shape, p=p, along=along)


def _slice(trace, x, *, start_indices, limit_indices, strides):
    shape, (first, *more) = x.aval.shape, x.along
    if any(strides[a] != 1 for a in (x.p, *x.along)) or any(limit_indices[a] - start_indices[a] != shape[a] for a in more):
        return None
    if more and limit_indices[first] - start_indices[first] != shape[first]:
        return None
    new = [-(-(hi - lo) // st) for lo, hi, st in zip(start_indices, limit_indices, strides)]
    lo, hi, st = (without(t, x.p) for t in (start_indices, limit_indices, strides))
    count, terms = math.prod(shape[a] for a in x.along), {}
    for off, d in x.terms.items():
        at = off - start_indices[x.p]
        if at >= new[x.p] or at + count <= 0:
            continue
        if more and not _fits(x, at, new[x.p]):
            return None
        terms[at + start_indices[first]] = slice_(d, lo, hi, st)
    if min(new[x.p], new[first]) < 1:
        return None
    return trace.like(x, terms, shape=new)


def _pad(trace, x, value, *, padding_config):
    if type(x) is not SparseTracer or trace.known(value) != 0:
        return None
    fixed = padding_config[x.p], *[padding_config[a] for a in x.along]
    if any(c[2] for c in fixed) or len(x.along) > 1 and any(map(any, fixed)):
        return None
    shape = [n + lo + hi + max(n - 1, 0) * inner for n, (lo, hi, inner) in zip(x.aval.shape, padding_config)]
    by = fixed[0][0] - fixed[1][0]
    zero = x.aval.dtype.type(0)
    return trace.like(x, {off + by: pad(d, zero, without(padding_config, x.p)) for off, d in x.terms.items()}, shape=shape)


def _shifted(d, axis, off, n):
    """Elements of an axis moved by off, onto an axis of n; zero where none arrives."""
    shape = get_aval(d).shape
    config = [(0, 0, 0)] * len(shape)
    config[axis] = (off, n - off - shape[axis], 0)
    return pad(d, get_aval(d).dtype.type(0), tuple(config))


def _total(values, aval):
    out = None
    for v in values:
        out = v if out is None else add(out, v)
    return zeros(aval) if out is None else out


def _reduce_sum(trace, x, *, axes):
    plain = tuple(a for a in axes if a != x.p and a not in x.along)
    left = [a for a in range(len(x.aval.shape)) if a not in plain]
    if plain:
        shape, p, along = [x.aval.shape[a] for a in left], left.index(x.p), tuple(left.index(a) for a in x.along)
        x = trace.each(x, lambda d: reduce_sum(d, tuple(a - (a > x.p) for a in plain)), shape=shape, p=p, along=along)
    rest = tuple(left.index(a) for a in axes if a not in plain)
    if not rest:
        return x
    if len(rest) > 1 or len(x.along) > 1:
        return reduce_sum(dense(x), rest)
    (q,), n, aval = x.along, x.aval.shape[x.p], x.aval.update(shape=without(x.aval.shape, rest[0]))
    at = q - (q > x.p)
    if rest == (q,):
        place = x.p - (x.p > q)
        return _total((move_axis(_shifted(d, at, off, n), at, place) for off, d in x.terms.items()), aval)
    if not all(_fits(x, off, n) for off in x.terms):
        return reduce_sum(dense(x), rest)
    return _total(x.terms.values(), aval)


def _dot(trace, a, b, *, dimension_numbers, preferred_element_type):
    on_left = type(a) is SparseTracer
    x, y = (a, b) if on_left else (b, a)
    if type(y) is SparseTracer or preferred_element_type not in (None, x.aval.dtype):
        return None
    (lc, rc), (lb, rb) = dimension_numbers
    (xc, yc), (xb, yb) = ((lc, rc), (lb, rb)) if on_left else ((rc, lc), (rb, lb))
    y_shape = get_aval(y).shape
    x_free, y_free = free_axes(len(x.aval.shape), xc, xb), free_axes(len(y_shape), yc, yb)
    if x.p not in x_free:
        return None
    nb = len(xb)
    x_at, y_at = (nb, nb + len(x_free)) if on_left else (nb + len(y_free), nb)
    place = {**{axis: i for i, axis in enumerate(xb)}, **{axis: x_at + i for i, axis in enumerate(x_free)}}  # x's axes in the result
    y_place = {**{axis: i for i, axis in enumerate(yb)}, **{axis: y_at + i for i, axis in enumerate(y_free)}}
    shape = [0] * (nb + len(x_free) + len(y_free))
    for axis, i in place.items():
        shape[i] = x.aval.shape[axis]
    for axis, i in y_place.items():
        shape[i] = y_shape[axis]
    if not any(q in xc for q in x.along):
        drop = tuple(i - (i > x.p) for i in xc), tuple(i - (i > x.p) for i in xb)
        numbers = ((drop[0], yc), (drop[1], yb)) if on_left else ((yc, drop[0]), (yb, drop[1]))
        fun = lambda d: dot_general(d, y, numbers) if on_left else dot_general(y, d, numbers)  # noqa: E731
        return trace.each(x, fun, shape=shape, p=place[x.p], along=tuple(place[q] for q in x.along))
    if len(xc) != 1 or len(x.along) != 1:
        return None
    # Row off + j of the result is the diagonal's element j times row j of y.
    (q,), at = xc, place[x.p]
    rows = (*shape[:at], x.aval.shape[q], *shape[at + 1 :])
    x_axes = [at if axis == q else place[axis] for axis in range(len(x.aval.shape)) if axis != x.p]
    y_rows = _placed(y, [at if axis == yc[0] else y_place[axis] for axis in range(len(y_shape))], rows)
    aval = x.aval.update(shape=tuple(shape), weak_type=False)
    return _total((_shifted(mul(_placed(d, x_axes, rows), y_rows), at, off, shape[at]) for off, d in x.terms.items()), aval)


def _placed(x, axes, shape):
    """x over `shape`, its axis i at axes[i]."""
    order = sorted(range(len(axes)), key=axes.__getitem__)
    return broadcast_in_dim(transpose(x, tuple(order)), shape, tuple(axes[i] for i in order))


def _concatenate(trace, *args, dimension):
    x = next(a for a in args if type(a) is SparseTracer)
    like = [a for a in args if type(a) is SparseTracer]
    if any(a.p != x.p or a.along != x.along for a in like) or any(type(a) is not SparseTracer and trace.known(a) != 0 for a in args):
        return None
    if dimension == x.p or dimension in x.along and len(x.along) > 1:
        return None
    sizes = [get_aval(a).shape[dimension] for a in args]
    shape = (*x.aval.shape[:dimension], sum(sizes), *x.aval.shape[dimension + 1 :])
    terms, at = {}, 0
    for a, n in zip(args, sizes):
        if type(a) is SparseTracer:
            for off, d in a.terms.items():
                d = _shifted(d, dimension - (dimension > x.p), at, shape[dimension])
                off = off - at if dimension in x.along else off
                terms[off] = add(terms[off], d) if off in terms else d
        at += n
    return trace.like(x, terms, shape=shape) if len(terms) <= MAX_TERMS else None


def _cast(trace, x, *, new_dtype, weak_type):
    if not (dtypes.is_float(x.aval.dtype) and dtypes.is_float(new_dtype)):
        return None
    out = trace.each(x, lambda d: convert_element_type_p.bind(d, new_dtype=new_dtype, weak_type=weak_type))
    out.aval = out.aval.update(dtype=new_dtype)
    return out


RULES = {
    "neg": lambda trace, x: trace.each(x, neg),
    "copy": lambda trace, x: x,
    "convert_element_type": _cast,
    "mul": _scaling(mul),
    "div": _scaling(div),
    "add": _sum(add),
    "sub": _sum(sub),
    "select": _select,
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "pad": _pad,
    "reduce_sum": _reduce_sum,
    "dot_general": _dot,
    "concatenate": _concatenate,
}
