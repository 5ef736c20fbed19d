# Called by vm_plan.
from fgrad._kernels.abi cimport FgInst, FgTensor
from fgrad._kernels.vm_plan cimport FgVmOp, FgVmPlan, Reg

cdef void make_parts(FgVmPlan *p, FgInst *inst, const FgTensor *slots, Reg *regs, FgVmOp *ops) noexcept nogil
