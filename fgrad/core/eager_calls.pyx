"""Eager and jitted functions while something is traced: a recording takes a call as one operation."""
import numpy as np

from fgrad.core.array import Array, to_array

from fgrad._kernels.array cimport ArrayBase
from fgrad._kernels.context cimport config_key, current_trace, set_trace
from fgrad.core.tracing cimport JVPBase, JVPTracerBase, PrimitiveBase

cdef object _ndarray = np.ndarray


def is_recorded(x):
    """True for a value of a recording that goes on."""
    return isinstance(x, JVPTracerBase) and (<JVPBase?>(<JVPTracerBase>x)._trace).recording is not None


def is_recording():
    """True while a function is recorded, and nothing else traces."""
    trace = current_trace()
    return isinstance(trace, JVPBase) and (<JVPBase>trace).recording is not None


def eager_while_tracing(function, tuple args, dict kwargs):
    """What an eager function gives while something is traced: its own operations are, unless a recording takes it as one."""
    if is_recording():
        return record_call(<JVPBase>current_trace(), function, args, kwargs)
    return function._slow(*args, **kwargs) if kwargs else function._slow(*args)


cdef object record_call(JVPBase trace, function, tuple args, dict kwargs):
    """Run an eager function of the recording's values, and write it down as one operation where it has a body."""
    cdef int n = function.n_arrays
    cdef tuple given
    cdef list plain = []
    cdef bint varies = False
    if not args or (n < 0 and type(args[0]) is not list and type(args[0]) is not tuple):
        return function._slow(*args, **kwargs)
    given = args[:n] if n >= 0 else tuple(args[0])
    for x in given:
        if trace.owns(x) and (<JVPTracerBase>x).number >= 0:
            x = (<JVPTracerBase>x).primal
            varies = True
        elif isinstance(x, _ndarray):
            x = to_array(x)
        elif type(x) is not Array and type(x) is not float and type(x) is not int:       # other tracers are not the recording's
            return function._slow(*args, **kwargs)
        plain.append(x)
    set_trace(None)                               # the default: to run
    try:
        found = function.with_body(tuple(plain) + args[n:] if n >= 0 else (plain, *args[1:]), kwargs)
    finally:
        set_trace(trace)
    if found is None:
        return function._slow(*args, **kwargs)
    out, body = found
    return write_call(trace, body, given, plain, out) if varies else out


cdef object write_call(JVPBase trace, tuple body, tuple given, list plain, out):
    """Write down a call that has run as the operation that is its body; its results."""
    cdef PrimitiveBase prim = body[0]
    cdef list operands = [], args = []
    cdef Py_ssize_t i
    for place, value in body[2]:
        i = place
        operands.append(plain[i] if i >= 0 else value)
        args.append(given[i] if i >= 0 else value)
    if type(out) is not tuple:
        results = trace.write_down(prim, args, operands, body[1], [out] if prim.multiple_results else out)
        return results[0] if prim.multiple_results else results
    return tuple(trace.write_down(prim, args, operands, body[1], list(out)) if prim.multiple_results else
                 [trace.write_down(prim, args, operands, body[1], out[0])])


def recorded_call(function, tuple args, dict kwargs, dict bodies):
    """What a jitted function gives where a recording takes the call as one operation; else None.

    `bodies` keeps what function._body(arrays) says of arrays of these avals: how a call is written down, or None.
    """
    cdef list plain = [], key = [config_key()]
    cdef bint varies = False
    cdef JVPBase trace
    if kwargs or not is_recording():
        return None
    trace = current_trace()
    for x in args:
        if trace.owns(x) and (<JVPTracerBase>x).number >= 0:
            x = (<JVPTracerBase>x).primal
            varies = True
        elif type(x) is not Array:
            return None
        plain.append(x)
        key.append(id((<ArrayBase>x).aval))
    if not varies:
        return None
    known = tuple(key)
    body = bodies.get(known, False)
    if body is False:
        body = bodies[known] = function._body(plain)
    if body is None:
        return None
    set_trace(None)                               # the default: to run
    try:
        out = function(*plain)
    finally:
        set_trace(trace)
    return write_call(trace, body[0], args, plain, out)


def recorded_leaves(run, traced, leaves):
    """What a jitted function gives of these leaves, by run(traced, arrays), written down as the operation traced.body(); None where it
    takes a value that is not the recording's, or where nothing varies."""
    cdef JVPBase trace = current_trace()
    cdef list plain = []
    cdef bint varies = False
    for x in leaves:
        if trace.owns(x) and (<JVPTracerBase>x).number >= 0:
            x = (<JVPTracerBase>x).primal
            varies = True
        elif type(x) is float or type(x) is int or type(x) is bool:
            x = to_array(x)
        elif type(x) is not Array:
            return None
        plain.append(x)
    if not varies:
        return None
    set_trace(None)                               # the default: to run
    try:
        out = run(traced, plain)
    finally:
        set_trace(trace)
    return write_call(trace, traced.body(), tuple(leaves), plain, tuple(out))


def recorded_view(x, view, tuple body):
    """A view of a value of a recording, which `body` gives of it, as its value."""
    return write_call((<JVPTracerBase>x)._trace, body, (x,), [(<JVPTracerBase>x).primal], view)
