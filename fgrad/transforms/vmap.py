"""Batching: BatchTrace carries a batch axis beside each value and applies each primitive's batch rule."""

from fgrad.core import (
    ClosedJaxpr,
    ShapedArray,
    Trace,
    Tracer,
    closed_as_fun,
    context,
    extended_axis_env,
    get_aval,
    stage,
    using_trace,
)
from fgrad.ops.reduce import reduce_sum
from fgrad.ops.rules import Zero, bdim_at_front, move_axis


class Axis:
    """The axis that a vmap maps over."""

    __slots__ = ("size", "name")

    def __init__(self, size, name=None):
        self.size, self.name = size, name

    def __eq__(self, other):
        return type(other) is Axis and (self.size, self.name) == (other.size, other.name)

    def __hash__(self):
        return hash((self.size, self.name))


class BatchTracer(Tracer):
    __slots__ = ("val", "dim")

    def __init__(self, trace, val, dim):
        self._trace, self.val, self.dim = trace, val, dim

    @property
    def aval(self):
        a = get_aval(self.val)
        return ShapedArray(a.shape[: self.dim] + a.shape[self.dim + 1 :], a.dtype, a.weak_type)

    def _describe(self):
        return f"traced array with shape {self.aval.short()} (one example of a vmapped batch)"

    def __repr__(self):
        return f"BatchTracer<{self.aval}>(val={self.val!r}, batch_dim={self.dim})"


class BatchTrace(Trace):
    __slots__ = ("parent", "axis")

    def __init__(self, parent, axis, fun=None):
        super().__init__(fun)
        self.parent, self.axis = parent, axis

    def unzip(self, args):
        vals, dims, batched = [], [], False
        for x in args:
            if type(x) is BatchTracer and x._trace is self:
                vals.append(x.val)
                dims.append(x.dim)
                batched = True
            else:
                vals.append(x)
                dims.append(None)
        return vals, dims, batched

    def wrap(self, out, dim):
        return out if dim is None else BatchTracer(self, out, dim)

    def process_primitive(self, prim, args, params):
        vals, dims, batched = self.unzip(args)
        before, context.trace = context.trace, self.parent
        try:
            if (
                not batched
                and not (prim.kind == "collective" and params.get("axis_name") == self.axis.name)
                and not (prim.kind == "call" and self.axis.name is not None)
            ):
                return self.parent.process_primitive(prim, vals, params)
            if prim.batch is None:
                raise NotImplementedError(f"Batching rule for '{prim.name}' not implemented")
            out, dim = prim.batch(self.axis, vals, dims, **params)
        finally:
            context.trace = before
        if prim.multiple_results:
            return [self.wrap(o, d) for o, d in zip(out, dim)]
        return out if dim is None else BatchTracer(self, out, dim)

    def process_custom_jvp(self, prim, fun, jvp, args, params):
        vals, dims, _ = self.unzip(args)
        axis = self.axis

        def batched_fun(*vals):
            return batch_flat_front(fun, axis, dims, vals)

        def batched_jvp(primals, tangents):
            n = [None]
            live = [i for i, t in enumerate(tangents) if type(t) is not Zero]

            def flat(*args):
                p, t = args[: len(primals)], list(map(_example_zero, tangents, dims))
                for i, x in zip(live, args[len(primals) :]):
                    t[i] = x
                outs, out_tangents = jvp(p, t)
                n[0] = [type(x) is Zero for x in out_tangents]
                return [*outs, *[x for x in out_tangents if type(x) is not Zero]]

            res = batch_flat_front(flat, axis, [*dims, *[dims[i] for i in live]], [*primals, *[tangents[i] for i in live]])
            outs, rest = res[: len(n[0])], iter(res[len(n[0]) :])
            return outs, [Zero(get_aval(o).tangent_aval()) if z else next(rest) for o, z in zip(outs, n[0])]

        with using_trace(self.parent):
            outs = self.parent.process_custom_jvp(prim, batched_fun, batched_jvp, vals, params)
        return [BatchTracer(self, o, 0) for o in outs]

    def process_custom_vjp(self, prim, fun, fwd, bwd, args, params):
        vals, dims, _ = self.unzip(args)
        axis = self.axis

        def batched_fun(*vals):
            return batch_flat_front(fun, axis, dims, vals)

        def batched_fwd(*vals):
            n = [0]

            def flat(*args):
                outs, res = fwd(*args)
                n[0] = len(outs)
                return [*outs, *res]

            both = batch_flat_front(flat, axis, dims, vals)
            return both[: n[0]], both[n[0] :]

        def batched_bwd(res, cts):
            which = []

            def flat(*args):
                out = bwd(args[: len(res)], args[len(res) :])
                which.extend(type(x) is Zero or x is None for x in out)
                return [x for x in out if not (type(x) is Zero or x is None)]

            rest = iter(batch_flat_front(flat, axis, [0] * (len(res) + len(cts)), [*res, *cts]))
            out = []
            for v, d, zero in zip(vals, dims, which):
                if zero:
                    out.append(Zero(get_aval(v).tangent_aval()))
                else:
                    ct = next(rest)
                    out.append(reduce_sum(ct, (0,)) if d is None else move_axis(ct, 0, d))
            return out

        with using_trace(self.parent):
            outs = self.parent.process_custom_vjp(prim, batched_fun, batched_fwd, batched_bwd, vals, params)
        return [BatchTracer(self, o, 0) for o in outs]


def _example_zero(t, d):
    """A symbolic zero without its batch axis."""
    if type(t) is Zero and d is not None:
        return Zero(ShapedArray(t.aval.shape[:d] + t.aval.shape[d + 1 :], t.aval.dtype))
    return t


def batch_flat(fun, axis, dims, vals):
    """(outs, out_dims) of a flat function mapped over `axis`; dims has None for what is not mapped."""
    trace = BatchTrace(context.trace, axis, fun)
    ins = [v if d is None else BatchTracer(trace, v, d) for v, d in zip(vals, dims)]
    try:
        with using_trace(trace), extended_axis_env(axis.name, axis.size):
            outs = fun(*ins)
        out_vals, out_dims, _ = trace.unzip(outs)
    finally:
        trace.done = True
    return out_vals, out_dims


def batch_flat_front(fun, axis, dims, vals):
    """Outs of a flat function mapped over `axis`, each with the batch axis in front."""
    outs, out_dims = batch_flat(fun, axis, dims, vals)
    return [bdim_at_front(o, d, axis.size) for o, d in zip(outs, out_dims)]


def batch_jaxpr(closed: ClosedJaxpr, axis, batched, force=False):
    """(jaxpr mapped over axis 0 of its batched inputs, mask of its batched outputs, all at axis 0).

    `force` is True, False or a list: outputs that must be batched.
    """
    batched = tuple(batched)
    forced = tuple([force] * len(closed.out_avals) if isinstance(force, bool) else force)
    key = ("batch", axis, batched, forced, context.axis_env)
    if key in closed.cache:
        return closed.cache[key]
    out_batched = []

    def fun(*args):
        outs, dims = batch_flat(closed_as_fun(closed), axis, [0 if b else None for b in batched], args)
        out_batched.extend(d is not None or f for d, f in zip(dims, forced))
        return [bdim_at_front(o, d, axis.size) if b else o for o, d, b in zip(outs, dims, out_batched)]

    avals = [ShapedArray((axis.size, *a.shape), a.dtype, a.weak_type) if b else a for a, b in zip(closed.in_avals, batched)]
    out = stage(fun, avals, closed.jaxpr.debug_name)
    closed.cache[key] = out, tuple(out_batched)
    return closed.cache[key]
