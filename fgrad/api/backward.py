"""Backward passes of derivatives outside of jit: one that comes again runs as a compiled program."""

import functools

from fgrad.api.common import with_weak_type
from fgrad.compile.program import compile_jaxpr
from fgrad.config import config
from fgrad.core import Array, context, eval_trace, stage, to_array
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


def recorded_program(key, recording, number):
    """The program of the gradient of value `number` of a recording, as _compiled_recording gives it; None unless what was recorded,
    for which `key` stands, has come as often before as it takes to be compiled."""
    try:
        entry = _passes.get(key, 0)
    except TypeError:  # a parameter without a hash
        return None
    if type(entry) is not tuple:
        if len(_passes) > _LIMIT:
            _passes.clear()
        entry = _passes[key] = entry + 1 if entry < _TIMES - 1 else _compiled_recording(recording, number)
    return entry if type(entry) is tuple else None


@functools.cache
def one(dtype, settings):
    """The cotangent that a gradient starts from. It may be handed out: nothing takes over its memory."""
    x = to_array(dtype.type(1))
    x.mark_kept()
    return x


def _compiled_recording(recording, number):
    zeros, gradient = [], recorded_gradient(recording, number, one(recording.values[number].aval.dtype, context.settings))

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
    # `cts` tells it from the keys of recordings, which are in the same table
    key = ("cts", len(cts), config.key(), *[(id(x.aval), x.strides_or_none) for x in (*consts, *cts)], *structure(jaxpr))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def clear_backward_cache():
    """Forget the compiled passes."""
    _passes.clear()
