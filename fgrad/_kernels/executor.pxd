from libc.stdint cimport int32_t, int64_t

from fgrad._kernels.abi cimport FgInst
from fgrad._kernels.array cimport ArrayBase
from fgrad._kernels.instructions cimport FgProg, FgState


cdef class Program:
    cdef FgProg p
    cdef list keep               # arrays, children and callbacks that the C side points at
    cdef list consts
    cdef FgState *idle           # states that no run uses, linked
    cdef FgState *lent           # the state that has the program's slots
    cdef readonly list in_avals
    cdef readonly list in_strides
    cdef readonly list out_avals
    cdef list out_codes
    cdef int32_t *out_mode       # -1: fresh; k >= 0: takes over donated argument k; -2 - k: argument k itself
    cdef int64_t *out_size
    cdef readonly tuple donated
    cdef double *seconds         # times of the instructions, while a profile runs
    cdef public list in_place    # of a loop's body: for each carry, whether its new value may be written over the old one
    cdef public Py_ssize_t alias_bytes  # of results that take over the memory of donated arguments
    cdef public list labels      # what each instruction does, for people
    cdef bint roams              # its runs borrow their arena
    cdef bint small              # too little work to be worth giving up the GIL
    cdef bint machine            # often run instructions may become machine code
    cdef bint steady             # no loops, which find out for themselves how many threads their turns want
    cdef int check_mode(self, int i, int64_t *rooms) except -1
    cdef int add_inst(self, int i, tuple spec) except -1
    cdef int check_children(self, int i, FgInst *inst, children) except -1
    cdef readonly bint direct    # one output, in memory of its own, and nothing donated
    cdef readonly bint returns_args  # some output is an argument itself
    cdef FgState *take_state(self) except NULL
    cdef FgState *new_state(self) noexcept
    cdef void give_state(self, FgState *st) noexcept
    cdef list run_list(self, args)
    cdef ArrayBase run_one(self, char **data)
    cdef int call(self, FgState *st) except -1
