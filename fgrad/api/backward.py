"""Backward passes of derivatives outside of jit: one that comes again runs as a compiled program."""

from fgrad.api.common import with_weak_type
from fgrad.compile.program import compile_jaxpr
from fgrad.config import config
from fgrad.core import Array, context, eval_trace, stage
from fgrad.core.jaxpr import PLAIN_KINDS, structure
from fgrad.ops.rules import Linear, Zero
from fgrad.transforms.linearize import pruned, recorded_gradient
from fgrad.transforms.transpose import backward_pass

_TIMES = 3  # a pass is compiled when it comes for the third time: compiling takes as long as some dozens of passes
_LIMIT = 1000
_passes: dict = {}  # key -> how often it has come, or (program, which results are zero, what the key's addresses belong to)


def cotangents(jaxpr, consts, cts):
    """Of the inputs of a linear jaxpr, given those of its outputs; Zero where there is none."""
    linear = [Linear(v.aval) for v in jaxpr.invars]
    if context.trace is eval_trace and all(type(x) is Array for x in consts) and all(type(x) is Array for x in cts):
        key = _key(jaxpr, consts, cts)
        entry = _passes.get(key, 0) if key is not None else 0
        if type(entry) is tuple or entry == _TIMES - 1:
            if type(entry) is not tuple:
                entry = _passes[key] = _compiled(jaxpr, consts, cts, linear)
            program, zeros, _ = entry
            out = iter(program.run([*consts, *cts]))
            return [Zero(v.aval) if z else next(out) for v, z in zip(jaxpr.invars, zeros)]
        if key is not None:
            if len(_passes) > _LIMIT:
                _passes.clear()
            _passes[key] = entry + 1
    return backward_pass(jaxpr, consts, linear, cts)


def may_record():
    """Whether a function may be run first and differentiated afterwards: outside of every transformation."""
    return context.trace is eval_trace and not (config.debug_nans or config.debug_infs or config.disable_jit)


def recorded_cotangents(run, one):
    """Of the float and complex arguments of a Recorded function, where its one result has the cotangent `one`.

    None unless what it recorded has come before as often as it takes to be compiled.
    """
    recording, number = run.trace.recording, run.trace.number(run.outs[0])
    if recording is None or number < 0:
        return None
    key = ("recorded", number, *recording.key)
    try:
        entry = _passes.get(key, 0)
    except TypeError:  # a parameter without a hash
        return None
    values = recording.values
    if type(entry) is not tuple:
        if len(_passes) > _LIMIT:
            _passes.clear()
        if entry < _TIMES - 1:
            _passes[key] = entry + 1
            return None
        entry = _passes[key] = _compiled_recording(recording, number, one)
    program, zeros, (used, strides, _) = entry
    arrays = [values[i] for i in used]
    if [x.strides_or_none for x in arrays] != strides:  # an array has been settled meanwhile
        return None
    run.trace.recording = None
    out = iter(program.run(arrays))
    return [Zero(x.aval.tangent_aval()) if z else next(out) for x, z in zip(values, zeros)]


def _compiled_recording(recording, number, one):
    zeros, gradient = [], recorded_gradient(recording, number, one)

    def fun(*values):
        out = [ct if type(ct) is Zero else with_weak_type(ct, x.weak_type) for ct, x in zip(gradient(*values), values)]
        zeros.extend(type(ct) is Zero for ct in out)
        return [ct for ct in out if type(ct) is not Zero]

    avals = [x.aval for x in recording.values]
    staged = stage(fun, avals, "gradient")
    closed, needed = pruned(staged, [True] * len(staged.out_avals))
    used = [i for i, n in enumerate(needed) if n]
    strides = [recording.values[i].strides_or_none for i in used]
    return compile_jaxpr(closed, strides), zeros, (used, strides, avals)


def _compiled(jaxpr, consts, cts, linear):
    zeros = []

    def fun(*args):
        out = backward_pass(jaxpr, args[: len(consts)], linear, list(args[len(consts) :]))
        zeros.extend(type(ct) is Zero for ct in out)
        return [ct for ct in out if type(ct) is not Zero]

    args = [*consts, *cts]
    closed = stage(fun, [x.aval for x in args], jaxpr.debug_name)
    return compile_jaxpr(closed, [x.strides_or_none for x in args]), zeros, (jaxpr, [x.aval for x in args])


def _key(jaxpr, consts, cts):
    """What the program of a pass depends on, hashable; None if it may not be compiled. Avals stand by their addresses."""
    if config.debug_nans or config.debug_infs or config.disable_jit:
        return None
    for e in jaxpr.eqns:
        prim = e.primitive
        if prim.kind not in PLAIN_KINDS or prim.effects is not None or prim.impl is not None:
            return None
    key = (config.key(), *[(id(x.aval), x.strides_or_none) for x in (*consts, *cts)], *structure(jaxpr))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def clear_backward_cache():
    """Forget the compiled passes."""
    _passes.clear()
