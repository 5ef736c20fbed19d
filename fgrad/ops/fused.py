"""What the fused primitives share: float32 kernels under 16-bit dtypes, and jvp rules taken from a reference composition."""

import numpy as np

from fgrad import dtypes
from fgrad.core import Literal, get_aval, stage
from fgrad.errors import ShapeError
from fgrad.ops.elementwise import add, convert_element_type, like
from fgrad.ops.reduce import reduce_sum, spread_back
from fgrad.ops.rules import Zero, instantiate, zero_of


def wide_dtype(dtype):
    """The dtype that sums and kernels use: float32 for 16-bit floats, else the dtype itself."""
    return dtypes.FLOAT32 if dtype.itemsize == 2 and dtypes.is_float(dtype) else dtype


def widen(x):
    """x in the dtype that a kernel computes in."""
    dtype = get_aval(x).dtype
    wide = wide_dtype(dtype)
    return x if wide == dtype else convert_element_type(x, wide)


def narrow(x, dtype):
    """x back in `dtype`."""
    return x if get_aval(x).dtype == dtype else convert_element_type(x, dtype)


def wide_kernel(ctx, name, ins, out_avals, stored=(), **kw):
    """Run a float32/float64 kernel: 16-bit inputs but `stored` are cast before and 16-bit outputs after it."""
    avals = [a.update(dtype=wide_dtype(a.dtype)) for a in out_avals]
    outs = ctx.kernel(name, [v if i in stored else ctx.f32(v) for i, v in enumerate(ins)], avals, **kw)
    return [v if a.dtype == w.dtype else ctx.cast(v, a.dtype) for v, a, w in zip(outs, out_avals, avals)]


def need_float(name, *avals):
    for a in avals:
        if not dtypes.is_float(a.dtype):
            raise TypeError(f"{name} takes real floating-point arrays, got {a.dtype.name}{list(a.shape)}. Convert it with astype(float).")


def need_shape(name, what, aval, shape, dtype=None):
    """`aval` must have this shape (and dtype)."""
    if aval.shape != tuple(shape):
        raise ShapeError(f"{name}: {what} must have shape {tuple(shape)}, got {aval.shape}")
    if dtype is not None and aval.dtype != dtype:
        raise TypeError(f"{name}: {what} must have dtype {np.dtype(dtype).name}, got {aval.dtype.name}. Convert it with astype.")


def last_sum(x):
    """The sum over the last axis, spread back over it."""
    shape = get_aval(x).shape
    last = len(shape) - 1
    return spread_back(reduce_sum(x, (last,)), shape, (last,))


def spread_last(x, shape):
    """x of shape[:-1] spread over shape."""
    return spread_back(x, shape, (len(shape) - 1,))


def jvp_of(fun, primals, tangents):
    """(outs, tangents) of a flat function written with ops: it is staged, and each equation's own jvp rule is applied."""
    closed = stage(fun, [get_aval(p) for p in primals], "reference")
    env = {v: (c, zero_of(c)) for v, c in zip(closed.jaxpr.constvars, closed.consts)}
    env.update(zip(closed.jaxpr.invars, zip(primals, tangents)))

    def read(v):
        return (v.val, Zero(v.aval.tangent_aval())) if type(v) is Literal else env[v]

    for eqn in closed.jaxpr.eqns:
        xs, ts = zip(*map(read, eqn.invars)) if eqn.invars else ((), ())
        prim = eqn.primitive
        if all(type(t) is Zero for t in ts):
            out = prim.bind(*xs, **eqn.params)
            outs = out if prim.multiple_results else [out]
            env.update((v, (o, zero_of(o))) for v, o in zip(eqn.outvars, outs))
        elif prim.multiple_results:
            env.update(zip(eqn.outvars, zip(*prim.jvp(list(xs), list(ts), **eqn.params))))
        else:
            env[eqn.outvars[0]] = prim.jvp(list(xs), list(ts), **eqn.params)
    outs = [read(v) for v in closed.jaxpr.outvars]
    return [o for o, _ in outs], [t for _, t in outs]


def jvp_by_reference(prim, reference, linear):
    """jvp of a primitive that is jointly linear in the arguments `linear` (positions).

    Their tangents go through the primitive itself; those of the others through `reference`, the same function as a composition
    of plain ops that returns a list, so that every order of derivative is exact.
    """

    def jvp(primals, tangents, **params):
        out = prim.bind(*primals, **params)
        outs = out if prim.multiple_results else [out]
        totals = [zero_of(o) for o in outs]
        if any(type(tangents[i]) is not Zero for i in linear):
            args = [instantiate(tangents[i]) if i in linear else x for i, x in enumerate(primals)]
            t = prim.bind(*args, **params)
            totals = list(t) if prim.multiple_results else [t]
        rest = [zero_of(x) if i in linear else t for i, (x, t) in enumerate(zip(primals, tangents))]
        if any(type(t) is not Zero for t in rest):
            _, extra = jvp_of(lambda *xs: reference(*xs, **params), primals, rest)
            totals = [a if type(b) is Zero else b if type(a) is Zero else add(a, b) for a, b in zip(totals, extra)]
        return (out, totals) if prim.multiple_results else (out, totals[0])

    return jvp


def mean_scale(x):
    """1 / (length of the last axis), as a constant of x's dtype; 0 where it is empty."""
    n = get_aval(x).shape[-1]
    return like(x, 1 / n if n else 0)
