"""Programs as the executor runs them, the state of one run, and the kinds of instructions."""
from libc.stdint cimport int32_t, int64_t

from fgrad._kernels.abi cimport FgInst, FgTensor

cdef enum:
    KIND_KERNEL = 0
    KIND_WHILE = 1
    KIND_SCAN = 2
    KIND_COND = 3
    KIND_CALLBACK = 4
    KIND_TILES = 5

cdef struct FgProg:
    int32_t n_slots, n_inst, n_args, n_consts, n_outs, n_children
    FgTensor *slots              # templates; data unset
    int32_t *slot_base           # 0: arena, then args, consts, outs
    int64_t *slot_offset         # bytes
    FgInst *insts
    int64_t arena_bytes
    char **const_data
    FgProg **children
    int32_t *inst_child          # first child of each instruction

cdef struct FgState:
    FgProg *prog
    FgState *next                # among the idle states of a program
    FgTensor *slots
    char **bases
    char *arena
    FgState **children
    void *error                  # owned PyObject of an exception raised in a callback


cdef FgState *state_new(FgProg *p) noexcept nogil
cdef void state_free(FgState *st) noexcept nogil
cdef int run_state(FgState *st) noexcept nogil
cdef int run_timed(FgState *st, double *seconds) noexcept nogil
