"""The eager path: one primitive on concrete arrays is a cached one-equation program. Ops that only relabel memory return views."""

import functools

import numpy as np

from fgrad._kernels.apply import ApplyDispatch
from fgrad._kernels.dispatch import Entry
from fgrad._kernels.eager_dispatch import EagerDispatch, called_by_vector, install_traced
from fgrad._kernels.window import View
from fgrad.compile.bodies import body_of
from fgrad.compile.lower import LowerContext
from fgrad.compile.narrow import lower_narrow
from fgrad.compile.program import build, compile_jaxpr
from fgrad.config import config
from fgrad.core import Array, set_apply, stage
from fgrad.core.eager_calls import eager_while_tracing
from fgrad.dtypes import NARROW, float0, narrow_seen
from fgrad.errors import TracerError

_functions: list = []  # all that eager has made: functions of modules, which stay


class EagerFunction(EagerDispatch):
    """What eager makes."""

    def __init__(self, fun, n_arrays, keyed=None):
        super().__init__(n_arrays, keyed)
        functools.update_wrapper(self, fun)
        self._slow = fun
        _functions.append(self)

    def __reduce__(self):
        return self.__qualname__  # pickled by name, as functions are

    def _prepare(self, arrays, args, kwargs, names):
        """The program of the function at these arrays, of which the last are its arguments `names`; None where itself must run."""
        if config.debug_nans or config.debug_infs or config.disable_jit:
            return None
        sequence, single = self.n_arrays < 0, [True]
        first = len(arrays) - len(names)
        n = 1 if sequence else first

        def flat(*xs):
            out = self._slow(*([xs[:first]] if sequence else xs[:first]), *args[n:], **kwargs, **dict(zip(names, xs[first:])))
            single[0] = not isinstance(out, tuple)
            return [out] if single[0] else list(out)

        try:
            closed = stage(flat, [a.aval for a in arrays], self.__name__)
        except TracerError:
            return None
        except Exception:
            if names:  # which may have to be known: the function itself says
                return None
            raise
        if any(v.aval.dtype == float0 for v in closed.jaxpr.outvars) or not all(type(c) is Array for c in closed.consts):
            return None
        entry = _view_of(closed, arrays) if single[0] else None
        if entry is None:
            program = compile_jaxpr(closed, [a.strides_or_none for a in arrays])
            entry = Entry(program, [], (), None if single[0] else True, not single[0], [a.aval for a in arrays])
        entry.body = body_of(closed)
        return entry


called_by_vector(EagerFunction)


def eager(n_arrays, keyed=None):
    """Decorator: outside of tracing, the function runs as one cached program per avals and strides of its first n_arrays arguments
    (scalars count as arrays) and of those given by name, and per value of all others; n_arrays -1: the first argument is a list or tuple of
    arrays, -2: of arrays and scalars. While tracing it is the plain function. keyed: of a typed key as its first argument it "takes" the
    words, and "gives" keys again.

    The function must be pure, and give an array or a tuple of arrays.
    """
    return functools.partial(EagerFunction, n_arrays=n_arrays, keyed=keyed)


def clear_eager_caches():
    """Forget the programs of the eager path."""
    apply.clear_cache()
    for f in list(_functions):
        f.clear_cache()


def check_values(what, outs):
    """Raise FloatingPointError if an array has a NaN or an infinity, as far as the settings ask."""
    for x in outs:
        if x.dtype.kind not in "fcV":
            continue
        values = x.numpy_view()
        if config.debug_nans and (values != values).any():
            raise FloatingPointError(f"invalid value (nan) encountered in {what}")
        if config.debug_infs and np.isinf(values).any():
            raise FloatingPointError(f"invalid value (inf) encountered in {what}")


def _relabels(ctx, outs):
    """(i, strides, offset) if the one result is argument i's memory under another shape, otherwise None."""
    v = outs[0]
    if len(outs) == 1 and not ctx.nodes and v.buf is not None and v.buf.kind == "arg":
        return v.buf.index, None if v.contiguous else v.strides, v.offset
    return None


def _view_of(closed, arrays):
    """The View that a function's result is of its one argument, or None."""
    if len(arrays) != 1 or any(eqn.primitive.kind != "view" for eqn in closed.jaxpr.eqns):
        return None
    ctx = LowerContext()
    found = _relabels(ctx, ctx.inline(closed, [ctx.arg(0, arrays[0].aval, arrays[0].strides_or_none)]))
    return None if found is None else View(closed.out_avals[0], *found[1:], arrays[0].aval)


def _compile(prim, arrays, params):
    avals = [a.aval for a in arrays]
    strides = [a.strides_or_none for a in arrays]
    out_avals = prim.abstract_eval(*avals, **params)
    out_avals = out_avals if prim.multiple_results else [out_avals]
    ctx = LowerContext()
    ins = [ctx.arg(i, a, s) for i, (a, s) in enumerate(zip(avals, strides))]
    if prim.lower is None:
        raise NotImplementedError(f"no lowering for '{prim.name}'")
    if narrow_seen and any(a.dtype in NARROW for a in (*avals, *out_avals)):
        outs = lower_narrow(ctx, prim, ins, params, avals, list(out_avals))
    else:
        outs = prim.lower(ctx, ins, params, list(out_avals))
    outs = outs if prim.multiple_results else [outs]
    if not prim.multiple_results and (found := _relabels(ctx, outs)) is not None:
        return None, (found[0], out_avals[0], *found[1:])
    return build(ctx, ins, outs, avals, strides, out_avals), None


apply = ApplyDispatch(Array, _compile, check_values, lambda: config.debug_nans or config.debug_infs)
set_apply(apply)
install_traced(eager_while_tracing)
