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
        a = get_aval(val)
        self.aval = ShapedArray(a.shape[:dim] + a.shape[dim + 1 :], a.dtype, a.weak_type)

    def _describe(self):
        return f"traced array with shape {self.aval.short()} (one example of a vmapped batch)"

    def __repr__(self):
        return f"BatchTracer<{self.aval}>(val={self.val!r}, batch_dim={self.dim})"


class BatchTrace(Trace):
    __slots__ = ("parent", "axis", "tag")

    def __init__(self, parent, axis, fun=None, tag=None):
        super().__init__(fun)
        self.parent, self.axis = parent, axis
        self.tag = object() if tag is None else tag  # shared by the traces of one mapped function and its custom rules

    def unzip(self, args):
        vals, dims, batched = [], [], False
        for x in args:
            if type(x) is BatchTracer and x._trace.tag is self.tag:
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
        vals, dims, batched = self.unzip(args)
        axis, layout = self.axis, _Layout(self.axis, batched)

        def batched_fun(*vals):
            outs, out_dims = batch_flat(fun, axis, dims, vals, self.tag)
            return layout.place(outs, out_dims)

        def batched_jvp(primals, tangents):
            zero = []
            live = [i for i, t in enumerate(tangents) if type(t) is not Zero]

            def flat(*args):
                p, t = args[: len(primals)], list(map(_example_zero, tangents, dims))
                for i, x in zip(live, args[len(primals) :]):
                    t[i] = x
                outs, out_tangents = jvp(p, t)
                zero.extend(type(x) is Zero for x in out_tangents)
                return [*outs, *[x for x in out_tangents if type(x) is not Zero]]

            in_dims = [*dims, *[dims[i] for i in live]]
            res, res_dims = batch_flat(flat, axis, in_dims, [*primals, *[tangents[i] for i in live]], self.tag)
            n = len(zero)
            rest = iter(zip(res[n:], res_dims[n:]))
            pairs = [(None, None) if z else next(rest) for z in zero]
            outs = layout.place(res[:n], res_dims[:n], [d for _, d in pairs])
            placed = layout.place([t for t, _ in pairs], [d for _, d in pairs])
            return outs, [Zero(get_aval(o).tangent_aval()) if t is None else t for o, t in zip(outs, placed)]

        with using_trace(self.parent):
            outs = self.parent.process_custom_jvp(prim, batched_fun, batched_jvp, vals, params)
        return [self.wrap(o, 0 if m else None) for o, m in zip(outs, layout.mapped)]

    def process_custom_vjp(self, prim, fun, fwd, bwd, args, params):
        vals, dims, batched = self.unzip(args)
        axis, layout, res_mapped = self.axis, _Layout(self.axis, batched, together=True), []

        def batched_fun(*vals):
            outs, out_dims = batch_flat(fun, axis, dims, vals, self.tag)
            return layout.place(outs, out_dims)

        def batched_fwd(perturbed, *vals):
            n = [0]

            def flat(*args):
                outs, res = fwd(perturbed, *args)
                n[0] = len(outs)
                return [*outs, *res]

            both, both_dims = batch_flat(flat, axis, dims, vals, self.tag)
            res, res_dims = both[n[0] :], both_dims[n[0] :]
            res_mapped[:] = [d is not None for d in res_dims]
            outs = layout.place(both[: n[0]], both_dims[: n[0]], [0] if any(res_mapped) else [])
            return outs, [x if d is None else bdim_at_front(x, d, axis.size) for x, d in zip(res, res_dims)]

        def batched_bwd(res, cts):
            which = []

            def flat(*args):
                out = bwd(args[: len(res)], args[len(res) :])
                which.extend(type(x) is Zero or x is None for x in out)
                return [x for x in out if not (type(x) is Zero or x is None)]

            front = [*res_mapped, *layout.mapped]
            in_dims = [0 if m and type(x) is not Zero else None for m, x in zip(front, [*res, *cts])]
            ins = [_example_zero(x, 0 if m else None) for m, x in zip(front, [*res, *cts])]
            some, some_dims = batch_flat(flat, axis, in_dims, ins, self.tag)
            rest = iter(zip(some, some_dims))
            out = []
            for v, d, zero in zip(vals, dims, which):
                if zero:
                    out.append(Zero(get_aval(v).tangent_aval()))
                    continue
                ct, ct_dim = next(rest)
                if any(front):
                    ct = bdim_at_front(ct, ct_dim, axis.size)
                    ct = reduce_sum(ct, (0,)) if d is None else move_axis(ct, 0, d)
                out.append(ct)
            return out

        with using_trace(self.parent):
            outs = self.parent.process_custom_vjp(prim, batched_fun, batched_fwd, batched_bwd, vals, params)
        return [self.wrap(o, 0 if m else None) for o, m in zip(outs, layout.mapped)]


class _Layout:
    """Which results of a custom rule's functions are mapped, at axis 0: the first of them to run decides, the others follow.

    With a mapped argument all are; without one, those that are made of mapped values which the functions close over.
    """

    def __init__(self, axis, always, together=False):
        self.axis, self.always, self.together, self.mapped = axis, always, together, None

    def place(self, outs, dims, more_dims=()):
        """outs with their mapped axes in front; more_dims tells of values that must be mapped alike."""
        if self.mapped is None:
            if self.together:
                self.mapped = [self.always or any(d is not None for d in (*dims, *more_dims))] * len(dims)
            else:
                pairs = zip(dims, more_dims or [None] * len(dims))
                self.mapped = [self.always or d is not None or e is not None for d, e in pairs]
        return [o if o is None or not m else bdim_at_front(o, d, self.axis.size) for o, d, m in zip(outs, dims, self.mapped)]


def _example_zero(t, d):
    """A symbolic zero without its batch axis."""
    if type(t) is Zero and d is not None:
        return Zero(ShapedArray(t.aval.shape[:d] + t.aval.shape[d + 1 :], t.aval.dtype))
    return t


def batch_flat(fun, axis, dims, vals, tag=None):
    """(outs, out_dims) of a flat function mapped over `axis`; dims has None for what is not mapped.

    tag: that of the trace whose tracers `fun` may close over, where it is a part of the function which that trace maps.
    """
    trace = BatchTrace(context.trace, axis, fun, tag)
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
