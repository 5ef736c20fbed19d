"""From nodes to a Program: fuse, plan buffers, write instructions."""

from contextlib import nullcontext
from typing import Any

from fgrad._kernels.executor import Program
from fgrad.compile.affine import NORMS, weigh_norms
from fgrad.compile.again import merge_again
from fgrad.compile.attend import attend
from fgrad.compile.bounds import loop_bounds
from fgrad.compile.chained import CHAINED, chain
from fgrad.compile.columns import split_columns
from fgrad.compile.contracted import contract
from fgrad.compile.diagonal import Constants
from fgrad.compile.frames import frame_updates, lay_in_frames
from fgrad.compile.fuse import fuse, kernels_of, live_nodes
from fgrad.compile.gathered import take_first
from fgrad.compile.joined import write_joined
from fgrad.compile.laid import lay_products
from fgrad.compile.losses import LOSSES, join_losses
from fgrad.compile.lower import LowerContext
from fgrad.compile.margins import widen_pads
from fgrad.compile.means import share_means
from fgrad.compile.norms import join_norms
from fgrad.compile.padded import pad_after
from fgrad.compile.pairs import join_pairs
from fgrad.compile.parts import split_rows
from fgrad.compile.passes import run_passes
from fgrad.compile.plan import plan
from fgrad.compile.recompute import recompute
from fgrad.compile.regathered import take_at_once
from fgrad.compile.rotated import rotate
from fgrad.compile.shift import shift
from fgrad.compile.softmaxes import join_softmaxes
from fgrad.compile.squeezed import squeeze
from fgrad.compile.stacks import split_stacks
from fgrad.compile.straighten import straighten
from fgrad.compile.taken import take_items
from fgrad.compile.tile import tile
from fgrad.compile.turn import turn, turn_positions
from fgrad.compile.unjoined import unjoin
from fgrad.compile.unturned import unturn
from fgrad.compile.updated import write_updated
from fgrad.compile.values import release
from fgrad.compile.wrapped import wrap_indices
from fgrad.compile.writer import Writer, label, little_work, materialized, written
from fgrad.config import config
from fgrad.core import check_jaxpr
from fgrad.core.array import CODES
from fgrad.errors import FgradError, LoweringError

_AS_IS: Any = nullcontext()


def compile_jaxpr(closed, in_strides=None, donated=(), sub=False, takes=None, known=None, stored=(), outer=None):
    """A Program for a closed jaxpr. in_strides: per argument None (contiguous) or strides in elements.

    donated: positions of arguments whose memory outputs may take over. sub: a sub-program, which writes every output.
    takes: for a body or a branch, the argument whose memory the caller would give to an output (-1: none); the program's
    `in_place` says which of them may share it. known: per argument bounds of its integers, or None. stored: the arrays that the
    first arguments are in every call. outer: what is known of a body's arguments from the program around it, see diagonal.Constants.
    """
    if config.enable_checks:
        check_jaxpr(closed)
    avals, out_avals = closed.in_avals, closed.out_avals
    closed = run_passes(closed)
    ctx = LowerContext()
    ctx.stored = stored
    in_strides = in_strides or [None] * len(avals)
    ins = [ctx.arg(i, *a) for i, a in enumerate(zip(avals, in_strides, known or [None] * len(avals)))]
    outs = ctx.inline(closed, ins)
    return build(ctx, ins, outs, avals, in_strides, out_avals, donated, sub, takes, outer)


def build(ctx, ins, outs, in_avals, in_strides, out_avals, donated=(), sub=False, takes=None, outer=None):
    """The Program that computes the values `outs` from `ins`."""
    try:
        return _build(ctx, ins, outs, in_avals, in_strides, out_avals, donated, sub, takes, outer=outer)
    except FgradError:
        raise
    except ValueError as e:
        raise LoweringError(f"could not compile: {e}") from e


def _build(ctx, ins, outs, in_avals, in_strides, out_avals, donated, sub, takes, tiles=True, outer=None):
    modes, taken = [], set()
    outs, constants = list(outs), Constants(ctx.consts, ctx.stored, outer)
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
            is_part, before = v.buf is not None and v.buf.kind == "arg" and v.size < v.buf.size, len(ctx.nodes)
            v = outs[j] = ctx.fresh_copy(v)
            if is_part and len(ctx.nodes) == before + 1:  # taken first, it is not in the way of an update in place
                ctx.nodes.insert(0, ctx.nodes.pop())
        if mode == -1:
            taken.add(id(v.buf))
            v.buf.base = ("out", j)
        modes.append(mode)
    nodes = live_nodes(ctx.nodes, outs)
    if ctx.checkpoints and config.pass_cse:
        nodes = live_nodes(merge_again(nodes, outs), outs)
    kernels = kernels_of(nodes)
    if tiles and config.pass_simplify and config.pass_fuse and "concatenate" in kernels:
        nodes = live_nodes(unjoin(nodes, outs), outs)
        kernels = kernels_of(nodes)
    if config.pass_fuse:
        nodes = squeeze(nodes)
    if config.pass_simplify and "sum" in kernels:
        nodes = _after(contract(nodes, outs), nodes, outs)
        nodes = _after(join_pairs(nodes, outs), nodes, outs)
        kernels = kernels_of(nodes)
    if tiles and config.pass_simplify and "max" in kernels and "sum" in kernels:
        nodes = join_softmaxes(nodes, outs, 64 if sub else 1)  # small loops run in one instruction
        kernels = kernels_of(nodes)
    if tiles and config.pass_simplify and not kernels.isdisjoint(LOSSES):
        nodes = join_losses(nodes, outs, ctx, constants, sub)
        kernels = kernels_of(nodes)
    if tiles and config.pass_attention and "softmax" in kernels and "dot" in kernels:
        nodes = attend(nodes, outs, constants)
    if tiles and config.pass_norms and not kernels.isdisjoint(("sum", "moments")):
        nodes = join_norms(nodes, outs, constants)
        kernels = kernels_of(nodes)
    if config.pass_simplify and "gather" in kernels:
        nodes = live_nodes(take_at_once(wrap_indices(nodes), outs), outs)
    if config.pass_simplify and "scatter" in kernels and "pad" in kernels:
        nodes = live_nodes(pad_after(nodes, outs), outs)
    if config.pass_simplify:
        nodes = _after(take_first(nodes, outs), nodes, outs)
    if config.pass_fuse and "copy" in kernels:
        nodes = _after(unturn(nodes, outs), nodes, outs)
    if config.pass_simplify and "moments" in kernels:
        nodes = live_nodes(share_means(nodes, outs), outs)
    if tiles and config.pass_fuse and "concatenate" in kernels:
        nodes = _after(rotate(nodes, outs), nodes, outs)
        nodes = _after(split_rows(nodes, outs), nodes, outs)
    if tiles and config.pass_stacks and "concatenate" in kernels:
        nodes = _after(split_stacks(nodes, outs), nodes, outs)
    if tiles and config.pass_fuse:
        nodes = split_columns(nodes, outs, sub)
        if not kernels.isdisjoint(CHAINED):
            nodes = chain(nodes, outs)
        if "pad" in kernels:
            nodes = widen_pads(nodes, outs)
        nodes = shift(nodes, outs, donated if takes is None else takes)
    if config.pass_fuse and not kernels.isdisjoint(NORMS):
        nodes = weigh_norms(nodes, outs)
    if config.pass_fuse and "gather" in kernels:
        nodes = take_items(nodes, outs)
    ctx.forget()
    units = straighten(fuse(nodes), outs) if config.pass_fuse else fuse(nodes)
    if tiles:
        units = recompute(units, outs, donated if takes is None else [k for k in takes if k >= 0])
        if config.pass_fuse:
            units = turn(units, outs)
        units = tile(units, outs, _block_program)
    if config.pass_fuse:
        units = turn_positions(units, outs)
        if config.pass_frames:
            lay_in_frames(units, outs)
        units = write_updated(write_joined(units, outs), outs)
        if config.pass_frames:
            frame_updates(units, outs)
        units = lay_products(units, outs)
    in_memory = materialized(units, outs)
    units = written(units, in_memory)
    for unit in units:
        if unit.nodes[0].op in ("scan", "members", "while", "cond"):
            unit.nodes[0].obj = _sub_programs(unit.nodes[0], Constants(ctx.consts, ctx.stored, outer))
    arena_bytes, donors = plan(units, in_memory, outs, modes, donated, in_avals, takes)
    if takes is None:
        for j, k in donors.items():
            modes[j] = k
    writer = Writer(len(in_avals), len(ctx.consts), in_memory)
    for unit in units:
        writer.unit(unit)
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
        small=little_work(units),
        flat=config.pass_flat + (config.pass_flat and config.pass_machine),
        machine=config.pass_machine,
    )
    program.in_place = [j in donors for j in range(len(takes or ()))]
    program.alias_bytes = sum(out_avals[j].size * out_avals[j].dtype.itemsize for j in donors)
    program.labels = [label(u) for u in units]
    release(ctx.nodes)
    release(nodes)  # passes have made some
    for u in units:
        release(u.nodes)  # tiling has made some
    return program


def _after(new, nodes, outs):
    """What a pass over live nodes leaves alive; one that has found nothing gives them back."""
    return nodes if new is nodes else live_nodes(new, outs)


def _block_program(nodes, ins, outs, in_avals, out_avals, n_acc):
    """The program of one block of rows, see tile: its first n_acc results may overwrite its last n_acc arguments."""
    ctx = LowerContext()
    ctx.nodes = nodes
    return _build(ctx, ins, outs, in_avals, [None] * len(ins), out_avals, (), True, range(len(ins) - n_acc, len(ins)), tiles=False)


def _sub_programs(node, constants):
    """(programs of a loop's or of branches' jaxprs, {output: the input whose memory it may take over, where nobody reads that later}).

    A loop updates in place what its body does; branches, what all of them do to an operand of the result's type. constants: the Constants
    of the program that the node is of.
    """
    known = loop_bounds(node)
    if node.op == "cond":
        takes, first = _operands_for_results(node.children), 1
        outer = _given(constants, node.ins[1:])
        children = [compile_jaxpr(c, sub=True, takes=takes, known=k, outer=outer) for c, k in zip(node.children, known)]
        in_place = [all(flags) for flags in zip(*[c.in_place for c in children])]
    else:
        before, nk, nc = node.ip if node.op == "while" else (0, *node.ip[:2])
        takes, first = list(range(nk, nk + nc)), before
        children = [compile_jaxpr(c, sub=True, known=k) for c, k in zip(node.children[:-1], known)]
        outer = _given(constants, node.ins[before : before + nk])
        with config.override("pass_members", False) if node.op == "members" else _AS_IS:  # the loops in a part are on its thread
            children.append(compile_jaxpr(node.children[-1], sub=True, takes=takes, known=known[-1], outer=outer))
        in_place = children[-1].in_place
    return children, {j: first + takes[j] for j, ok in enumerate(in_place) if ok}


def _given(constants, values):
    """By position, what Constants of a body take for its first arguments."""
    return {i: (constants, v) for i, v in enumerate(values) if v.buf is not None and v.whole()}


def _operands_for_results(branches):
    """Of each result of branches: an operand of its type, if possible one that a branch returns as it is; -1 if there is none."""
    takes = []
    in_avals = branches[0].in_avals
    for j, aval in enumerate(branches[0].out_avals):
        like = [k for k, a in enumerate(in_avals) if a.shape == aval.shape and a.dtype == aval.dtype and k not in takes]
        returned = [k for k in like for b in branches if b.jaxpr.outvars[j] is b.jaxpr.invars[k]]
        takes.append((returned or like or [-1])[0])
    return takes
