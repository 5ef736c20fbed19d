"""jit_p: a call of a compiled program, with the rules that make it transparent to every transformation."""

import math

from fgrad._kernels.operands import settled
from fgrad.compile.eager import check_values
from fgrad.compile.program import compile_jaxpr
from fgrad.config import config
from fgrad.core import Primitive, eval_jaxpr, to_array, using_trace
from fgrad.core.jaxpr import PLAIN_KINDS
from fgrad.core.tracing import may_refuse
from fgrad.ops.elementwise import copy_p
from fgrad.ops.rules import Zero, move_axis
from fgrad.transforms.jvp import jvp_jaxpr
from fgrad.transforms.linearize import keep, merge, partial_eval_jaxpr, pruned, split, split_residuals
from fgrad.transforms.transpose import transpose_by_call
from fgrad.transforms.vmap import batch_jaxpr


def run_closed(closed, args, donated=()):
    """Run a closed jaxpr on concrete arguments as one compiled program, which stays with the jaxpr."""
    arrays = [to_array(x) for x in args]
    arrays = [a if a.strides_or_none is None else settled(a) for a in arrays]
    key = ("program", donated, config.key())
    program = closed.cache.get(key)
    if program is None:
        program = closed.cache[key] = compile_jaxpr(closed, donated=donated)
    out = program.run(arrays)
    for i in donated:
        arrays[i].delete()
    if config.debug_nans or config.debug_infs:
        check_values(closed.jaxpr.debug_name, out)
    return out


def contiguous(a):
    """A row-major copy of a strided array."""
    return copy_p.bind(a)


def _impl(*args, jaxpr, name, donated):
    if config.disable_jit:
        return eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *args)
    return run_closed(jaxpr, args, donated)


def _jvp(primals, tangents, *, jaxpr, name, donated):
    nonzero = [type(t) is not Zero for t in tangents]
    out_jaxpr, out_nonzero = jvp_jaxpr(jaxpr, nonzero)
    outs = jit_p.bind(*primals, *[t for t in tangents if type(t) is not Zero], jaxpr=out_jaxpr, name=name, donated=())
    n = len(jaxpr.out_avals)
    rest = iter(outs[n:])
    return outs[:n], [next(rest) if nz else Zero(a.tangent_aval()) for nz, a in zip(out_nonzero, jaxpr.out_avals)]


def _partial_eval(trace, args, params):
    jaxpr, name = params["jaxpr"], params["name"]
    unknown = [trace.is_unknown(x) for x in args]
    known, staged, out_unknown, forwarded = partial_eval_jaxpr(jaxpr, unknown)
    unknown_args, known_args = split(unknown, args)
    with using_trace(trace.parent):
        known_outs = jit_p.bind(*known_args, jaxpr=known, name=name, donated=())
    known_outs, res = split_residuals(known_outs, out_unknown.count(False), known_args, forwarded)
    staged_outs = trace.stage_eqn(jit_p, (*res, *unknown_args), dict(jaxpr=staged, name=name, donated=()))
    return merge(out_unknown, staged_outs, known_outs)


def _transpose(cts, *args, jaxpr, name, donated):
    return transpose_by_call(cts, args, jaxpr, lambda t, known, live: jit_p.bind(*known, *live, jaxpr=t, name=name, donated=()))


def _batch(axis, args, dims, *, jaxpr, name, donated):
    from_front = [x if d is None else move_axis(x, d, 0) for x, d in zip(args, dims)]
    batched, out_batched = batch_jaxpr(jaxpr, axis, [d is not None for d in dims])
    return jit_p.bind(*from_front, jaxpr=batched, name=name, donated=()), [0 if b else None for b in out_batched]


jit_p = Primitive(
    "jit",
    multiple_results=True,
    abstract_eval=lambda *avals, jaxpr, name, donated: jaxpr.out_avals,
    impl=_impl,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    partial_eval=_partial_eval,
    kind="call",
    lower=lambda ctx, ins, params, out_avals: ctx.inline(params["jaxpr"], ins),
    effects=lambda params: params["jaxpr"].effects,
)


def _dce(eqn, used_outs):
    slim, used = pruned(eqn.params["jaxpr"], used_outs)
    return keep(eqn, used, used_outs, jaxpr=slim, donated=())


jit_p.dce = _dce

_FEW = 16  # operations
_SMALL = 1 << 18  # elements of all their results: here a program's launch costs as much as a pass over memory


def few_plain(closed):
    """Whether a jaxpr has only a few operations, all of them plain."""
    return _cached_work(closed)[0] <= _FEW


def _small_body(params):
    """The jaxpr of a call of a few plain operations, which an eager gradient records one by one; else None."""
    closed = params["jaxpr"]
    return closed if few_plain(closed) and _cached_work(closed)[1] <= _SMALL else None


def _cached_work(closed):
    work = closed.cache.get("work")
    if work is None:
        work = closed.cache["work"] = _work(closed)
    return work


def _work(closed):
    """(operations, elements of their results) of a jaxpr; infinitely many where one is not plain."""
    count = size = 0
    for e in closed.jaxpr.eqns:
        if e.primitive is jit_p:
            inner = _work(e.params["jaxpr"])
            count, size = count + inner[0], size + inner[1]
        elif (
            e.primitive.kind in PLAIN_KINDS
            and e.primitive.impl is None
            and e.primitive.effects is None
            and not may_refuse(e.primitive, e.params)
        ):
            count, size = count + 1, size + sum(v.aval.size for v in e.outvars)
        else:
            return math.inf, math.inf
    return count, size


jit_p.small_body = _small_body
