"""Parts of a plan of the elementwise VM: operations that no chain of registers joins are walked apart, so that few streams are open at a time."""
from libc.string cimport memcpy

from fgrad._kernels.abi cimport FG_OUT, FgInst, FgTensor
from fgrad._kernels.vm_plan cimport FG_VM_MATES, FgVmOp, FgVmPart, FgVmPlan, Reg, is_scalar


cdef int part_of(Reg *regs, int r) noexcept nogil:
    """The label of r's part, paths halved on the way; -1 for constants and scalars."""
    if regs[r].part < 0:
        return -1
    while regs[r].part != r:
        regs[r].part = regs[regs[r].part].part
        r = regs[r].part
    return r


cdef bint is_column(FgVmPlan *p, const FgTensor *t, int k) noexcept nogil:
    """True if output k leaves room for a few others between its elements."""
    cdef int d = t.ndim - 1
    while d >= 0 and t.shape[d] == 1:
        d -= 1
    return p.out[k].reduce == 0 and d >= 0 and 2 <= t.strides[d] <= FG_VM_MATES


cdef void label_parts(FgVmPlan *p, FgInst *inst, const FgTensor *slots, Reg *regs) noexcept nogil:
    """Give every register the number of its part: ops are in one part if a chain of registers, scalars apart, joins them."""
    cdef int i, k, j, r, column = -1
    cdef int arg[3]
    for r in range(p.n_regs):
        regs[r].part = r
    for r in range(p.n_in + p.n_const):
        if r >= p.n_in or (p.in_[r].guard < 0 and is_scalar(&slots[inst.args[r]])):
            regs[r].part = -1
    for k in range(p.n_ops):
        arg[0], arg[1], arg[2] = p.ops[k].a, p.ops[k].b, p.ops[k].c
        for j in range(3):
            r = part_of(regs, arg[j])
            if r >= 0:
                regs[r].part = part_of(regs, p.ops[k].dst)
    for k in range(p.n_out):                               # columns of narrow rows are written together
        r = part_of(regs, p.out[k].reg)
        if r < 0 or not is_column(p, FG_OUT(inst, slots, k), k):
            continue
        p.turns = 1
        if column >= 0:
            regs[r].part = part_of(regs, column)
        column = p.out[k].reg
    for r in range(p.n_regs):
        regs[r].last = part_of(regs, r)                    # `last` is set again below
    for r in range(p.n_regs):
        regs[r].first = -1                                 # of a label: its part's number
    for k in range(p.n_ops + p.n_out):
        r = regs[p.ops[k].dst if k < p.n_ops else p.out[k - p.n_ops].reg].last
        if r >= 0 and regs[r].first < 0:
            regs[r].first = p.n_parts
            p.n_parts += 1
    for r in range(p.n_regs):                              # scalars, and inputs that nobody reads, go with the first part
        regs[r].part = regs[regs[r].last].first if regs[r].last >= 0 and regs[regs[r].last].first >= 0 else 0
    if p.n_parts == 0:
        p.n_parts = 1


cdef void make_parts(FgVmPlan *p, FgInst *inst, const FgTensor *slots, Reg *regs, FgVmOp *ops) noexcept nogil:
    """Bring ops, inputs and outputs into the order of their parts (program order within each); `ops` is scratch for n_ops."""
    cdef int i, k, part, n_ops = 0, n_in = 0, n_out = 0
    cdef FgVmPart *all
    label_parts(p, inst, slots, regs)
    memcpy(ops, p.ops, p.n_ops * sizeof(FgVmOp))
    for part in range(p.n_parts):
        p.parts[part].op, p.parts[part].in_, p.parts[part].out = n_ops, n_in, n_out
        for k in range(p.n_ops):
            if regs[ops[k].dst].part == part:
                p.ops[n_ops] = ops[k]
                n_ops += 1
        for i in range(p.n_in):
            if regs[i].part == part:
                p.in_order[n_in] = i
                n_in += 1
        for k in range(p.n_out):
            if regs[p.out[k].reg].part == part:
                p.out_order[n_out] = k
                n_out += 1
        p.parts[part].op_end, p.parts[part].in_end, p.parts[part].out_end = n_ops, n_in, n_out
    if p.n_reduced:
        p.n_parts = 1
    all = &p.parts[p.n_parts]
    all.op, all.op_end, all.in_, all.in_end, all.out, all.out_end = 0, p.n_ops, 0, p.n_in, 0, p.n_out
    if p.n_parts == 1:
        p.parts[0] = all[0]
