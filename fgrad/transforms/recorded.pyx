"""A function that runs on concrete arrays first and is differentiated afterwards."""
from fgrad.core import get_aval, using_trace
from fgrad.core.tracing import Lookup
from fgrad.ops.rules import Zero, zero_of
from fgrad.transforms.jvp import JVPTrace, replay
from fgrad.transforms.linearize import TangentTrace

from fgrad._kernels.array cimport ArrayBase
from fgrad._kernels.context cimport current_trace, set_trace
from fgrad.core.recording cimport Recording, inexact
from fgrad.core.tracing cimport JVPBase, JVPTracerBase


class RecordingTrace(JVPTrace):
    """Writes operations down while it can; then its parent is a TangentTrace."""

    __slots__ = ()

    def settle(self):
        """Differentiate what was recorded, and from now on each primitive as it comes."""
        recording, bottom = self.recording, self.parent
        tangents = self.parent = TangentTrace("linearized", bottom, self.fun)
        self.recording = None
        lookup = tangents.parent = Lookup(bottom)
        found = {i: tangents.new_arg(x.aval.tangent_aval()) for i, x in enumerate(recording.values[: recording.n_args])}
        try:
            with using_trace(tangents):
                replay(recording.records, recording.values, found, lookup)
        finally:
            tangents.parent = bottom
        for tracer in recording.tracers:
            n = self.number(tracer)
            tracer.tangent = found[n] if n in found else zero_of(tracer)


cdef class Recorded:
    """A flat function's results at concrete arrays, and what it takes to differentiate it there."""
    cdef readonly list arrays, outs
    cdef readonly JVPBase trace

    def __init__(self, fun, list arrays):
        before = current_trace()
        self.arrays = arrays
        self.trace = RecordingTrace(before, fun)
        args = self.trace.start_recording(arrays)
        set_trace(self.trace)
        try:
            self.outs = fun(*args)
        finally:
            set_trace(before)
            self.trace.done = True
            if self.trace.recording is None:
                self.trace.parent.done = True

    def primals(self):
        """The results."""
        return [(<JVPTracerBase>o).primal if self.trace.owns(o) else o for o in self.outs]

    def linear(self):
        """(linear jaxpr closed over its residuals, avals of the results' tangents, nonzero), as linearize_flat gives them."""
        before = current_trace()
        if self.trace.recording is not None:
            self.trace.settle()
        staging = self.trace.parent
        staging.done = False
        try:
            tangents = [(<JVPTracerBase>x).tangent if self.trace.owns(x) else zero_of(x) for x in self.outs]
            set_trace(staging)
            linear = staging.to_jaxpr([t for t in tangents if type(t) is not Zero])
        finally:
            set_trace(before)
            staging.done = True
        return linear, [t.aval if type(t) is Zero else get_aval(t) for t in tangents], [type(t) is not Zero for t in tangents]

    def cotangents(self, known):
        """Of all arguments (Zero where there is none), by the program that `known(key, recording, number)` gives for what the function
        did to get its one result, value `number`: (program, which results are zero, (values it takes, their strides, ...)) or None.

        None as well where an array has been settled since.
        """
        cdef Recording recording = self.trace.recording
        cdef ArrayBase x
        cdef Py_ssize_t number = (<JVPTracerBase>self.outs[0]).number if self.trace.owns(self.outs[0]) else -1
        cdef Py_ssize_t i
        cdef list arrays = [], used, strides, zeros, out = []
        if recording is None or number < 0:
            return None
        entry = known((number, *recording.key), recording, number)
        if entry is None:
            return None
        program, zeros, (used, strides, _) = entry
        for i in range(len(used)):
            x = recording.values[<Py_ssize_t>used[i]]
            if x.strides_or_none != strides[i]:
                return None
            arrays.append(x)
        self.trace.recording = None
        found = iter(program.run(arrays))
        i = 0
        for x in self.arrays:
            if not inexact(x):
                out.append(Zero(x.aval.tangent_aval()))
                continue
            out.append(Zero(x.aval.tangent_aval()) if zeros[i] else next(found))
            i += 1
        return out
