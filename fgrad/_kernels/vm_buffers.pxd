# Called by vm_plan, in this order.
from libc.stdint cimport int64_t

from fgrad._kernels.vm_plan cimport FgVmPlan, Reg

cdef void plan_times(FgVmPlan *p, Reg *regs) noexcept nogil
cdef int64_t plan_slots(FgVmPlan *p, Reg *regs, int64_t *busy, int64_t *counts) noexcept nogil
cdef void write_rows(FgVmPlan *p, Reg *regs) noexcept nogil
cdef void plan_memory(FgVmPlan *p, Reg *regs, int64_t *scratch) noexcept nogil
