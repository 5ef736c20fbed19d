"""Programs as the executor runs them, the state of one run, and the kinds of instructions."""
from libc.stdint cimport int32_t, int64_t

from fgrad._kernels.abi cimport FgInst, FgTensor

cdef extern from "program.h" nogil:
    enum:
        KIND_KERNEL, KIND_WHILE, KIND_SCAN, KIND_COND, KIND_CALLBACK, KIND_TILES, KIND_MEMBERS
    struct FgFlat:
        pass
    struct FgProg:
        int32_t n_slots, n_inst, n_args, n_consts, n_outs, n_children, flat
        FgTensor *slots
        int32_t *slot_base
        int64_t *slot_offset
        FgInst *insts
        int64_t arena_bytes
        char **const_data
        FgProg **children
        int32_t *inst_child
    struct FgState:
        FgProg *prog
        FgState *next
        FgTensor *slots
        char **bases
        char *arena
        FgState **children
        FgFlat **flat
        void *error
    void fg_bind_slots(FgState *st)
    int fg_flat_count(const FgFlat *f)


cdef FgState *state_new(FgProg *p, bint roams) noexcept nogil
cdef void state_free(FgState *st) noexcept nogil
cdef int run_state(FgState *st) noexcept nogil
cdef int run_paced(FgState *st) noexcept nogil
cdef int run_timed(FgState *st, double *seconds) noexcept nogil
