"""One primitive on concrete arguments, as the eager path runs it."""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uintptr_t
from libc.string cimport memset

from fgrad._kernels.array cimport ArrayBase
from fgrad._kernels.context cimport config_key
from fgrad._kernels.executor cimport Program
from fgrad._kernels.operands cimport Scalar, get_aval, is_numpy_scalar, loose_array, numpy_scalar_operand, read_scalar

cdef enum:
    APPLIED = 64

# A primitive without parameters on up to three contiguous arrays and floats. Pointers are borrowed: ApplyDispatch.entries holds all.
cdef struct Applied:
    PyObject *prim
    PyObject *avals[3]
    int64_t config
    PyObject *program


cdef class ApplyDispatch:
    """One primitive on concrete arguments: a cached program of one equation, or a view.

    `compile(prim, arrays, params)` gives (program, None), or (None, (i, aval, strides, offset)) for a view of argument i.
    `check(prim, results)` is called where the settings ask to look into results.
    """
    cdef dict entries
    cdef Applied[64] recent        # what has a direct program, lately
    cdef object array_class, compile, check, checks

    def __init__(self, array_class, compile, check, checks):
        self.entries = {}
        self.array_class, self.compile, self.check, self.checks = array_class, compile, check, checks

    def clear_cache(self):
        memset(self.recent, 0, sizeof(self.recent))
        self.entries.clear()

    cdef object apply_recent(self, prim, args, object learn):
        """The result of a primitive without parameters that came with such operands lately, or None. With `learn`, keep this program."""
        cdef char *data[3]
        cdef PyObject *avals[3]
        cdef Scalar[3] scalars
        cdef ArrayBase a
        cdef Py_ssize_t n = len(args), i
        cdef size_t h = <size_t><PyObject *>prim >> 4
        cdef int64_t config = config_key()
        cdef Applied *s
        if not 0 < n <= 3:
            return None
        avals[1] = avals[2] = NULL
        for i in range(n):
            x = args[i]
            if type(x) is self.array_class:
                a = <ArrayBase>x
                if a.strides_or_none is not None or a.deleted:
                    return None
                data[i], avals[i] = a.data, <PyObject *>a.aval
            else:
                if type(x) is float:
                    read_scalar(x, &scalars[i])
                elif not is_numpy_scalar(x) or not numpy_scalar_operand(x, &scalars[i]):
                    return None
                aval = get_aval(x)
                data[i], avals[i] = <char *>&scalars[i], <PyObject *>aval
            h = h * 31 + (<size_t>avals[i] >> 4)
        s = &self.recent[(h ^ h >> 7) % APPLIED]
        if learn is not None:
            s.prim, s.config, s.program = <PyObject *>prim, config, <PyObject *>learn
            s.avals[0], s.avals[1], s.avals[2] = avals[0], avals[1], avals[2]
        elif (
            s.prim == <PyObject *>prim and s.config == config
            and s.avals[0] == avals[0] and s.avals[1] == avals[1] and s.avals[2] == avals[2]
        ):
            return (<Program><object>s.program).run_one(data)
        return None

    def __call__(self, prim, args, dict params):
        cdef int64_t words[64]
        cdef char *data[8]
        cdef ArrayBase a
        cdef tuple entry
        cdef Program program
        cdef list arrays = []
        cdef int i = 1, n = 0
        cdef bint whole = True
        if not params and (recent := self.apply_recent(prim, args, None)) is not None:
            return recent
        words[0] = config_key()
        for x in args:
            a = <ArrayBase>x if type(x) is self.array_class else loose_array(x)
            arrays.append(a)
            whole = whole and n < 8 and not a.deleted
            if n < 8:
                data[n] = a.data
            n += 1
            if i < 48:
                words[i] = <int64_t><uintptr_t><PyObject *>a.aval
                if a.strides_or_none is not None:
                    words[i] |= 1
                    for s in a.strides_or_none:
                        i += 1
                        words[i] = s
            i += 1
        if i < 48:
            sig = PyBytes_FromStringAndSize(<char *>words, i * sizeof(int64_t))
        else:
            sig = tuple([(x.aval, x.strides_or_none) for x in arrays])
        if params:
            values = [v if type(v) is not float or v else repr(v) for v in params.values()]      # 0.0 and -0.0 are equal
            key = (prim, sig, tuple(params), tuple(values))
        else:
            key = (prim, sig)
        entry = self.entries.get(key)
        if entry is None:
            if len(self.entries) > 20_000:
                self.clear_cache()
            program, view = self.compile(prim, arrays, params)
            keep = [x.aval for x in arrays]
            entry = self.entries.setdefault(key, (program, view, bool(prim.multiple_results), self.checks(), keep))
        program, view, multiple, check, keep = entry
        if program is None:
            return (<ArrayBase>arrays[<int>view[0]]).make_view(view[1], view[2], view[3])
        if whole and program.direct and not check:
            out = program.run_one(data)
            if not params and not multiple:
                self.apply_recent(prim, args, program)
            return [out] if multiple else out
        outs = program.run_list(arrays)
        if check:
            self.check(prim.name, outs)
        return outs if multiple else outs[0]
