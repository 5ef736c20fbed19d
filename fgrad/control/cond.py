"""cond and switch."""

from fgrad import array_tree as tree
from fgrad.compile.algebra import made_by
from fgrad.config import config
from fgrad.control import in_python
from fgrad.control.common import (
    flat_fun,
    leaf_avals,
    live,
    mismatch,
    nonzeros,
    run,
    share_consts,
    staged,
    strong_leaf,
    tree_difference,
    type_text,
)
from fgrad.core import Primitive, function_text, get_aval, stage, using_trace, wraps
from fgrad.core.binding import is_array
from fgrad.core.float0 import flatten_live
from fgrad.core.kept import once
from fgrad.core.refs import bound, values_of, watching, write_back
from fgrad.dtypes import BFLOAT16, BOOL
from fgrad.ops.elementwise import clamp, convert_element_type, eq, like, ne, select
from fgrad.ops.rules import Linear, Zero, broadcast_in_dim, move_axis, zeros
from fgrad.transforms.jvp import jvp_jaxpr
from fgrad.transforms.linearize import keep, merge, partial_eval_jaxpr, pruned, split
from fgrad.transforms.transpose import transpose_jaxpr
from fgrad.transforms.vmap import batch_jaxpr

CHEAP = frozenset(  # primitives that take about as long as a jump
    "add sub mul neg abs square max min and or xor not lt le gt ge eq ne select clamp convert_element_type broadcast_in_dim "
    "shift_left shift_right_logical shift_right_arithmetic".split()
)
JUMP = 3  # such operations take as long as a jump, of which some are mispredicted
MOST = 16  # results of all operations of both branches


def _aval(index, *avals, branches):
    """Outputs have the types of the first branch, weak ones too, as in JAX."""
    return branches[0].out_avals


def _lower(ctx, ins, params, out_avals):
    branches = params["branches"]
    if len(branches) == 2 and (flag := _flag(ins[0])) is not None:
        if config.pass_branches and _no_dearer(branches):
            cases = zip(ctx.inline(branches[1], ins[1:]), ctx.inline(branches[0], ins[1:]), out_avals)
            return [ctx.elementwise("select", [ctx.broadcast(flag, a.shape, ()) if a.shape else flag, x, y], a) for x, y, a in cases]
        ins = [flag, *ins[1:]]
    return ctx.control("cond", list(branches), ins, out_avals, (len(branches), len(out_avals)))


def _no_dearer(branches):
    """True if both branches, and selections among their results, take no longer than a jump that may be mispredicted and the longer one."""
    avals = [v.aval for b in branches for v in (*b.jaxpr.outvars, *[o for e in b.eqns for o in e.outvars])]
    if any(e.primitive.name not in CHEAP for b in branches for e in b.eqns) or len(avals) > MOST or any(b.effects for b in branches):
        return False
    if any(a.dtype.kind not in "biuf" or a.dtype == BFLOAT16 or a.size * a.dtype.itemsize > 64 for a in avals):
        return False
    return min(len(b.eqns) for b in branches) + len(branches[0].out_avals) <= JUMP


def _flag(index):
    """The boolean that an index of two branches is as a number, or None."""
    if (made := made_by(index, "cast")) is None and (made := made_by(index, "select")) is not None:
        made = made[:1] if [v.scalar for v in made[1:]] == [1, 0] else None
    return made[0] if made is not None and made[0].dtype == BOOL and made[0].buf is not None else None


def _agree(rule, branches, n):
    """Apply rule(branch, force) to all branches until their output masks agree: (results, mask)."""
    mask = [False] * n
    while True:
        outs = [rule(b, mask) for b in branches]
        grown = [any(m) for m in zip(mask, *[o[1] for o in outs])]
        if all(list(o[1]) == grown for o in outs):
            return [o[0] for o in outs], grown
        mask = grown


def _bind(index, operands, funs, name):
    """cond_p of flat functions of the operands."""
    consts, branches = share_consts([stage(f, leaf_avals(operands), name) for f in funs])
    return cond_p.bind(index, *consts, *operands, branches=tuple(branches))


def _jvp(primals, tangents, *, branches):
    nz = nonzeros(tangents[1:])
    jvps, out_nz = _agree(lambda b, force: jvp_jaxpr(b, nz, force), branches, len(branches[0].out_avals))
    outs = _bind(primals[0], [*primals[1:], *live(tangents[1:])], [lambda *a, j=j: run(j, *a) for j in jvps], "cond")
    n = len(out_nz)
    ts = iter(outs[n:])
    return outs[:n], [next(ts) if z else Zero(get_aval(o).tangent_aval()) for o, z in zip(outs, out_nz)]


def _partial_eval(trace, args, params):
    branches = params["branches"]
    index, operands = args[0], args[1:]
    if trace.is_unknown(index):
        return trace.stage_eqn(cond_p, args, params)
    unknown = [trace.is_unknown(x) for x in operands]
    parts = [partial_eval_jaxpr(b, unknown) for b in branches]
    out_uk = [any(u) for u in zip(*[p[2] for p in parts])]
    uk, kn = split(unknown, operands)
    # Each branch has its own residuals: all of them leave the known cond, zeros for the branches not taken. Outputs that
    # are known in one branch but not in another are residuals too.
    res_avals, starts = [], []
    for known, _, o_uk, _ in parts:
        starts.append(len(res_avals))
        late = [u and not o for u, o in zip(out_uk, o_uk)]
        kn_late = [lt for lt, o in zip(late, o_uk) if not o]
        avals = known.out_avals
        res_avals += [a for a, lt in zip(avals, kn_late) if lt] + avals[len(kn_late) :]

    def known_fun(b):
        known, _, o_uk, _ = parts[b]

        def fun(*xs):
            outs = run(known, *xs)
            n = o_uk.count(False)
            at = [i for i, o in enumerate(o_uk) if not o]
            keep = [o for o, i in zip(outs, at) if not out_uk[i]]
            own = [o for o, i in zip(outs, at) if out_uk[i]] + outs[n:]
            res = [zeros(a) for a in res_avals]
            res[starts[b] : starts[b] + len(own)] = own
            return [*keep, *res]

        return fun

    with using_trace(trace.parent):
        outs = _bind(index, kn, [known_fun(b) for b in range(len(parts))], "cond")
    n_known = out_uk.count(False)
    known_outs, res = outs[:n_known], outs[n_known:]
    nr, nkn = len(res), len(kn)

    def staged_fun(b):
        _, staged, o_uk, forwarded = parts[b]

        def fun(*xs):
            rs, ks, us = iter(xs[starts[b] : nr]), xs[nr : nr + nkn], xs[nr + nkn :]
            late = {i: next(rs) for i, (u, o) in enumerate(zip(out_uk, o_uk)) if u and not o}
            own = [ks[f] if f is not None else next(rs) for f in forwarded]
            got = iter(run(staged, *own, *us))
            return [next(got) if o_uk[i] else late[i] for i, u in enumerate(out_uk) if u]

        return fun

    ops = [*res, *kn, *uk]
    consts, staged = share_consts([stage(staged_fun(b), leaf_avals(ops), "cond") for b in range(len(parts))])
    staged_outs = trace.stage_eqn(cond_p, (index, *consts, *ops), dict(branches=tuple(staged)))
    return merge(out_uk, staged_outs, known_outs)


def _transpose(cts, index, *args, branches):
    lin = [type(x) is Linear for x in args]
    zero = [type(ct) is Zero for ct in cts]
    ts = [transpose_jaxpr(b, lin, zero) for b in branches]
    outs = iter(_bind(index, [*[x for x in args if type(x) is not Linear], *live(cts)], [lambda *a, t=t: run(t, *a) for t in ts], "cond"))
    return [None, *[next(outs) if ln else None for ln in lin]]


def _batch(axis, args, dims, *, branches):
    b = [d is not None for d in dims[1:]]
    front = [x if d is None else move_axis(x, d, 0) for x, d in zip(args, dims)]
    n = len(branches[0].out_avals)
    if dims[0] is None:
        batched, out_b = _agree(lambda br, force: batch_jaxpr(br, axis, b, force), branches, n)
        outs = _bind(front[0], front[1:], [lambda *a, j=j: run(j, *a) for j in batched], "cond")
        return outs, [0 if m else None for m in out_b]
    every = [run(batch_jaxpr(br, axis, b, True)[0], *front[1:]) for br in branches]
    index = clamp(like(front[0], 0), front[0], like(front[0], len(branches) - 1))
    outs = every[0]
    for k, other in enumerate(every[1:], 1):
        hit = eq(index, like(index, k))
        outs = [select(broadcast_in_dim(hit, get_aval(o).shape, (0,)), x, o) for x, o in zip(other, outs)]
    return outs, [0] * n


cond_p = Primitive(
    "cond",
    multiple_results=True,
    abstract_eval=_aval,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    partial_eval=_partial_eval,
    lower=_lower,
    kind="call",
    effects=lambda p: frozenset().union(*(b.effects for b in p["branches"])),
)


def _dce(eqn, used_outs):
    branches = eqn.params["branches"]
    needed = [any(m) for m in zip(*[pruned(b, used_outs)[1] for b in branches])]
    slim = tuple(pruned(b, used_outs, needed)[0] for b in branches)
    return keep(eqn, [True, *needed], used_outs, branches=slim)


cond_p.dce = _dce


def _check_branches(what, names, branches, outs, trees):
    """Raise TypeError where branches return other structures or types."""
    if what == "cond":  # messages speak of true_fun first
        names, branches, outs, trees = (x[::-1] for x in (names, branches, outs, trees))
    where = "\n".join(f"{name} is {function_text(f)}" for name, f in zip(names, branches))
    for name, t in zip(names[1:], trees[1:]):
        if t != trees[0]:
            difference = tree_difference(trees[0], t, names[0], name)
            raise TypeError(f"{what} branch outputs must have the same pytree structure, but they differ:\n\n{where}\n\n{difference}")
    for name, avals in zip(names[1:], outs[1:]):
        bad = [
            f"the output of {names[0]}{tree.keystr(p) and f' at path {tree.keystr(p)}'} has type {type_text(a)} but the corresponding "
            f"output of {name} has type {type_text(b)}, so the {mismatch(a, b)} do not match"
            for p, a, b in zip(tree.paths(trees[0]), outs[0], avals)
            if (a.shape, a.dtype) != (b.shape, b.dtype)
        ]
        if bad:
            differ = f"T{bad[0][1:]}." if len(bad) == 1 else "\n".join(f"  * {b}" for b in bad)
            raise TypeError(
                f"{what} branches must have equal output types but they differ.\n\n{where}\n\n{differ}\n\n"
                f"Revise {names[0]} and/or {name} so that all output types match (astype)."
            )


_NO_OPERAND = object()


def _operands(operands, operand):
    """The operands of cond and switch: `operand` is their old name for a single one."""
    if operand is _NO_OPERAND:
        return operands
    if operands:
        raise TypeError(
            "if 'operand' keyword is passed then no positional operands can be passed, got "
            f"operand={operand!r:.80} and positional operands {operands!r:.80}"
        )
    return (operand,)


def switch(index, branches, *operands, operand=_NO_OPERAND):
    """branches[index](*operands), index clamped to the range. Raises TypeError where branches return different types.

    >>> from fgrad import lax
    >>> float(lax.switch(1, [lambda x: x, lambda x: 2 * x, lambda x: 3 * x], 5.0))
    10.0
    """
    operands = _operands(operands, operand)
    branches = tuple(branches)
    if not branches:
        raise ValueError("Empty branch sequence: switch needs at least one branch")
    if not all(map(callable, branches)):
        raise TypeError("lax.switch: branches argument should be a sequence of callables.")
    try:
        aval = get_aval(index)
    except TypeError:
        raise TypeError(f"Index type must be an integer, got {index!r:.80}.") from None
    if aval.shape:
        raise TypeError(f"Branch index must be scalar, got {index} of shape {aval.shape}.")
    if aval.dtype.kind not in "iu":
        raise TypeError(f"Index type must be an integer, got {index} as {aval.dtype.name}")
    if len(branches) == 1:
        return branches[0](*operands)
    chosen = in_python.concrete(int, index)
    if chosen is not None:
        return branches[max(0, min(chosen, len(branches) - 1))](*operands)
    if isinstance(index, int):
        index = max(0, min(index, len(branches) - 1))
    else:
        index = clamp(like(index, 0), index, like(index, len(branches) - 1))
    names = [f"branch {i} ({getattr(f, '__name__', 'function')})" for i, f in enumerate(branches)]
    return _cond("switch", convert_element_type(index, "int32"), branches, names, operands)


def _cond(what, index, branches, names, operands):
    leaves, treedef = flatten_live(operands)
    leaves = [strong_leaf(x) for x in leaves]
    avals, traced = leaf_avals(leaves), {}  # a function that is several branches is traced once

    def make(f):
        out = [None]
        closed = staged(flat_fun(f, treedef, out), avals, getattr(f, "__name__", "branch"))
        return closed.consts, closed, out[0]

    with watching() as frame:
        for f in branches:
            if id(f) not in traced:
                traced[id(f)] = once(f, ("branch", treedef, *avals), frame, lambda f=f: make(f))[1:]
    if frame.touched:
        return _cond_of_refs([*frame.touched], what, index, branches, names, operands)
    closed, trees = zip(*[traced[id(f)] for f in branches])
    if any(c.out_avals != closed[0].out_avals or t != trees[0] for c, t in zip(closed, trees)):
        _check_branches(what, names, branches, [c.out_avals for c in closed], trees)
    consts, jaxprs = share_consts(closed)
    operands = [*consts, *leaves]
    passed = [_passed_on(vs, jaxprs, operands) for vs in zip(*[c.jaxpr.outvars for c in jaxprs])]
    if any(p is not None for p in passed):  # such an operand is no output: vmap over the index leaves it as it is
        jaxprs = [pruned(c, [p is None for p in passed], [True] * len(operands))[0] for c in jaxprs]
    outs = iter(cond_p.bind(strong_leaf(index), *operands, branches=tuple(jaxprs)))
    return tree.unflatten(trees[0], [next(outs) if p is None else p for p in passed])


def _cond_of_refs(refs, what, index, branches, names, operands):
    """Branches that read and write mutable arrays: their values are further operands and results."""

    def with_refs(f):
        @wraps(f)
        def branch(values, *operands):
            with bound(refs, values) as frame:
                out = f(*operands)
            written.update(frame.written)
            return out, [frame.values[r] for r in refs]

        return branch

    written: dict = {}
    out, values = _cond(what, index, [with_refs(f) for f in branches], names, (values_of(refs), *operands))
    write_back(refs, [v if r in written else None for r, v in zip(refs, values)])
    return out


def _passed_on(outvars, branches, operands):
    """The operand that all branches return as this output, or None."""
    at = {b.jaxpr.invars.index(v) if v in b.jaxpr.invars else None for v, b in zip(outvars, branches)}
    i = at.pop() if len(at) == 1 else None
    return operands[i] if i is not None and is_array(operands[i]) else None


def cond(pred, true_fun, false_fun, *operands, operand=_NO_OPERAND):
    """true_fun(*operands) if pred else false_fun(*operands); only the taken branch runs (under vmap over pred, both).

    pred: a scalar; a number stands for whether it is not zero. Raises TypeError where pred is no scalar or the branches return
    different structures or types, naming the output that differs.

    >>> from fgrad import lax
    >>> float(lax.cond(True, lambda x: x + 1, lambda x: x - 1, 5.0))
    6.0
    """
    if not (callable(true_fun) and callable(false_fun)):
        if operand is _NO_OPERAND and len(operands) == 2 and callable(false_fun) and callable(operands[1]):
            # the old form, with an operand for each branch: cond(pred, true_operand, true_fun, false_operand, false_fun)
            true_operand, (false_operand, false_fun), true_fun = true_fun, operands, false_fun
            return cond(pred, lambda t, f: true_fun(t), lambda t, f: false_fun(f), true_operand, false_operand)
        raise TypeError("lax.cond: true_fun and false_fun arguments should be callable.")
    try:
        aval = get_aval(pred)
    except TypeError:
        if isinstance(pred, (str, tuple, list, dict)):
            raise TypeError(f"Pred must be a scalar, got {pred!s:.80} of type {type(pred)}") from None
        raise TypeError(f"Pred type must be either boolean or number, got {pred!r:.80}.") from None
    if aval.shape:
        raise TypeError(f"Pred must be a scalar, got {pred} of shape {aval.shape}.")
    if aval.dtype.kind != "b":
        if aval.dtype.kind not in "iufV":
            raise TypeError(f"Pred type must be either boolean or number, got {aval}.")
        pred = ne(pred, like(pred, 0))
    names, operands = ("false_fun", "true_fun"), _operands(operands, operand)
    chosen = in_python.concrete(bool, pred)
    if chosen is not None:
        return (true_fun if chosen else false_fun)(*operands)
    return _cond("cond", convert_element_type(pred, "int32"), (false_fun, true_fun), names, operands)


__all__ = ["cond", "cond_p", "switch"]
