"""From nodes to a Program: fuse, plan buffers, write instructions."""

import struct

from fgrad._kernels import KERNELS
from fgrad._kernels import elementwise as vm
from fgrad._kernels.executor import KINDS, Program
from fgrad._kernels.parallel import most_threads
from fgrad.compile.fuse import fuse, in_register, live_nodes
from fgrad.compile.lower import LowerContext, compute_dtype
from fgrad.compile.passes import run_passes
from fgrad.compile.plan import plan
from fgrad.compile.tile import tile
from fgrad.compile.values import release, row_major
from fgrad.config import config
from fgrad.core import check_jaxpr
from fgrad.core.array import CODES
from fgrad.errors import LoweringError

_REDUCE = {"sum": 1, "prod": 2, "max": 3, "min": 4}
_SMALL_WORK = 20_000


def compile_jaxpr(closed, in_strides=None, donated=(), sub=False, carry=None):
    """A Program for a closed jaxpr. in_strides: per argument None (contiguous) or strides in elements.

    donated: positions of arguments whose memory outputs may take over. sub: a sub-program, which writes every output.
    carry: (k, n) for the body of a loop, whose output j < n is its argument k + j of the next turn; the program's `in_place`
    says which of them may share their memory.
    """
    if config.enable_checks:
        check_jaxpr(closed)
    avals, out_avals = closed.in_avals, closed.out_avals
    closed = run_passes(closed)
    ctx = LowerContext()
    in_strides = in_strides or [None] * len(avals)
    ins = [ctx.arg(i, a, s) for i, (a, s) in enumerate(zip(avals, in_strides))]
    outs = ctx.inline(closed, ins)
    return build(ctx, ins, outs, avals, in_strides, out_avals, donated, sub, carry)


def build(ctx, ins, outs, in_avals, in_strides, out_avals, donated=(), sub=False, carry=None):
    """The Program that computes the values `outs` from `ins`."""
    try:
        return _build(ctx, ins, outs, in_avals, in_strides, out_avals, donated, sub, carry)
    except ValueError as e:
        raise LoweringError(f"could not compile: {e}") from e


def _build(ctx, ins, outs, in_avals, in_strides, out_avals, donated, sub, carry, tiles=True):
    modes, taken = [], set()
    outs = list(outs)
    for j, (v, aval) in enumerate(zip(outs, out_avals)):
        mode = -1
        if (
            v.buf is not None
            and v.buf.kind == "arg"
            and v.whole()
            and in_strides[v.buf.index] is None
            and not sub
            and in_avals[v.buf.index] == aval
            and v.buf.index not in donated
            and v.shape == aval.shape
        ):
            mode = -2 - v.buf.index
        elif v.buf is None or v.buf.kind != "temp" or not v.whole() or id(v.buf) in taken:
            v = outs[j] = ctx.fresh_copy(v)
        if mode == -1:
            taken.add(id(v.buf))
            v.buf.base = ("out", j)
        modes.append(mode)
    units = fuse(live_nodes(ctx.nodes, outs))
    if tiles:
        units = tile(units, outs, _block_program)
    in_memory = _materialized(units, outs)
    units = [u for u in units if not u.fused or any(id(o.buf) in in_memory for n in u.nodes for o in n.outs)]
    arena_bytes, donors = plan(units, in_memory, outs, modes, donated, in_avals, carry)
    if carry is None:
        for j, k in donors.items():
            modes[j] = k
    writer = _Writer(len(in_avals), len(ctx.consts), in_memory)
    for unit in units:
        writer.unit(unit)
    work = sum(u.nodes[0].outs[0].size * len(u.nodes) for u in units if u.nodes[0].outs)
    small = work < _SMALL_WORK and all(u.nodes[0].kind in ("ew", "reduce", "kernel") for u in units)
    program = Program(
        slots=writer.slots,
        insts=writer.insts,
        in_avals=list(in_avals),
        in_strides=list(in_strides),
        in_codes=[CODES[a.dtype] for a in in_avals],
        consts=ctx.consts,
        outs=list(zip(out_avals, modes)),
        out_codes=[CODES[a.dtype] for a in out_avals],
        arena_bytes=arena_bytes,
        donated=tuple(donated),
        small=small,
        flat=config.pass_flat,
    )
    program.in_place = [j in donors for j in range(carry[1])] if carry else []
    program.alias_bytes = sum(out_avals[j].size * out_avals[j].dtype.itemsize for j in donors)
    program.labels = [_label(u) for u in units]
    release(ctx.nodes)
    for u in units:
        release(u.nodes)  # tiling has made some
    return program


def _block_program(nodes, ins, outs, in_avals, out_avals, n_acc):
    """The program of one block of rows, see tile: its first n_acc results may overwrite its last n_acc arguments."""
    ctx = LowerContext()
    ctx.nodes = nodes
    return _build(ctx, ins, outs, in_avals, [None] * len(ins), out_avals, (), True, (len(ins) - n_acc, n_acc), tiles=False)


def _label(unit):
    """What an instruction does, in short."""
    node = unit.nodes[0]
    if node.op == "tiles":
        return f"tiles of {'+'.join(node.obj[1][:12])} {' '.join(str(list(v.shape)) for v in node.outs)}"
    what = "+".join(n.op for n in unit.nodes[:12]) + ("+..." if len(unit.nodes) > 12 else "")
    shapes = " ".join(str(list(v.shape)) for v in (node.ins[:1] if unit.fused else (*node.ins, *node.outs)))
    return f"{what} {shapes}"


def _materialized(units, outs):
    """ids of the buffers that live in memory: everything but what only its own fused group reads."""
    out = {id(v.buf) for v in outs if v.buf is not None}
    for u in units:
        for node in u.nodes:
            if node.kind != "ew":
                out.update(id(o.buf) for o in node.outs)
            for v in node.ins:
                if v.buf is not None and v.buf.node is not None and not (u.fused and v.buf.node.group is u and in_register(v, u.shape)):
                    out.add(id(v.buf))
    return out


_CARRY = {"scan": lambda ip: (ip[0], ip[1]), "while": lambda ip: (ip[1], ip[2])}


_TWO_WORDS = struct.Struct("=qq")


def _const_key(v):
    """(dtype of the register, bytes) of a scalar constant."""
    dtype = compute_dtype(v.dtype)
    return dtype, (v.scalar if dtype == v.dtype else v.scalar.astype(dtype)).tobytes()


class _Writer:
    """Slots and instructions of a program whose buffers are placed."""

    def __init__(self, n_args, n_consts, in_memory):
        self.slots, self.insts, self.slot_ids = [], [], {}
        self.n_args, self.n_consts, self.in_memory = n_args, n_consts, in_memory

    def slot(self, v, shape=None, strides=None):
        shape, strides = v.shape if shape is None else shape, v.strides if strides is None else strides
        key = (id(v.buf), shape, strides, v.offset, v.dtype)
        slot = self.slot_ids.get(key)
        if slot is None:
            buf = v.buf
            if buf.kind == "arg":
                base, start = 1 + buf.index, 0
            elif buf.kind == "const":
                base, start = 1 + self.n_args + buf.index, 0
            elif buf.base is not None and buf.base[0] == "out":
                base, start = 1 + self.n_args + self.n_consts + buf.base[1], 0
            else:
                base, start = 0, buf.offset
            slot = self.slot_ids[key] = len(self.slots)
            self.slots.append((CODES[v.dtype], shape, strides, base, start + v.offset * v.dtype.itemsize))
        return slot

    def unit(self, u):
        if u.fused:
            return self.group(u)
        node = u.nodes[0]
        ins, outs = [self.slot(v) for v in node.ins], [self.slot(v) for v in node.outs]
        if node.kind == "kernel":
            self.insts.append((0, KERNELS[node.op], ins, outs, node.ip, node.fp, [], None))
        elif node.op == "tiles":
            self.insts.append((KINDS["tiles"], None, ins, outs, node.ip, (), [node.obj[0]] * most_threads(), None))
        elif node.kind == "control":
            carry = _CARRY.get(node.op, lambda ip: None)(node.ip)  # of the last child, the body
            children = [compile_jaxpr(c, sub=True, carry=carry if c is node.children[-1] else None) for c in node.children]
            ip = [*node.ip, *children[-1].in_place] if carry else node.ip
            self.insts.append((KINDS[node.op], None, ins, outs, ip, (), children, None))
        else:
            self.insts.append((KINDS["callback"], None, ins, outs, (), (), [], node.obj))

    def group(self, u):
        shape, made = u.shape, {}  # id of a buffer -> which op of the group computes it
        inputs, consts, operands = {}, {}, []  # slot -> which input; constant -> which; (kind of register, which) of all ops in turn
        const_words = []
        for node in u.nodes:
            for v in node.ins:
                buf = v.buf
                if buf is None:
                    key = _const_key(v)
                    if key not in consts:
                        consts[key] = len(consts)
                        const_words += [CODES[key[0]], *_TWO_WORDS.unpack(key[1].ljust(16, b"\0"))]
                    operands.append((1, consts[key]))
                elif id(buf) in made and in_register(v, shape):
                    operands.append((2, made[id(buf)]))
                else:
                    operands.append((0, inputs.setdefault(self.slot(v), len(inputs))))
            if node.kind == "ew":
                made[id(node.outs[0].buf)] = len(made)
        first = (0, len(inputs), len(inputs) + len(consts))  # registers: inputs, constants, results
        regs = iter([first[kind] + which for kind, which in operands])
        ops, out_words, out_slots, n_regs = [], [], [], first[2]
        for node in u.nodes:
            out = node.outs[0]
            if node.kind == "ew":
                args = [next(regs) for _ in node.ins]
                ops += [vm.OPCODES[node.op], node.type_code, n_regs, *args, *[0] * (3 - len(args))]
                if id(out.buf) in self.in_memory:
                    out_slots.append(self.slot(out))
                    out_words += [n_regs, 0]
                n_regs += 1
            else:
                kept = iter(row_major(out.shape))
                strides = tuple([0 if i in node.axes else next(kept) for i in range(len(shape))])
                out_slots.append(self.slot(out, shape, strides))
                out_words += [next(regs), _REDUCE[node.op]]
        ip = [n_regs, len(consts), len(ops) // 6, *const_words, *ops, *out_words]
        self.insts.append((0, KERNELS["vm"], list(inputs), out_slots, ip, (), [], None))
