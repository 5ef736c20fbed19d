"""A function that runs on concrete arrays first and is differentiated afterwards."""
from fgrad.core import get_aval
from fgrad.ops.rules import Zero, zero_of
from fgrad.transforms.jvp import JVPTrace
from fgrad.transforms.linearize import TangentTrace

from fgrad._kernels.array cimport ArrayBase
from fgrad._kernels.context cimport current_trace, set_trace
from fgrad.core.recording cimport Recording, inexact
from fgrad.core.tracing cimport JVPBase, JVPTracerBase


cdef class Recorded:
    """A flat function's results at concrete arrays, and what it takes to differentiate it there."""
    cdef readonly list arrays, outs
    cdef readonly object tangents
    cdef readonly JVPBase trace

    def __init__(self, fun, list arrays):
        before = current_trace()
        self.arrays = arrays
        self.tangents = TangentTrace("linearized", before, fun)
        self.trace = JVPTrace(self.tangents, fun)
        args = self.trace.start_recording(arrays)
        set_trace(self.trace)
        try:
            self.outs = fun(*args)
        finally:
            set_trace(before)
            self.trace.done = self.tangents.done = True

    def primals(self):
        """The results."""
        return [(<JVPTracerBase>o).primal if self.trace.owns(o) else o for o in self.outs]

    def linear(self):
        """(linear jaxpr closed over its residuals, avals of the results' tangents, nonzero), as linearize_flat gives them."""
        self.tangents.done = False
        before = current_trace()
        try:
            if self.trace.recording is not None:
                self.trace.settle()
            tangents = [(<JVPTracerBase>x).tangent if self.trace.owns(x) else zero_of(x) for x in self.outs]
            set_trace(self.tangents)
            linear = self.tangents.to_jaxpr([t for t in tangents if type(t) is not Zero])
        finally:
            set_trace(before)
            self.tangents.done = True
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
            if not inexact(x.aval):
                out.append(Zero(x.aval.tangent_aval()))
                continue
            out.append(Zero(x.aval.tangent_aval()) if zeros[i] else next(found))
            i += 1
        return out
