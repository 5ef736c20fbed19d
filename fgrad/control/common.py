"""What the control-flow primitives share: staging of closures and error messages."""

import inspect

from fgrad import array_tree as tree
from fgrad.core import ClosedJaxpr, convert_constvars, eval_jaxpr, get_aval, stage, to_array
from fgrad.core.float0 import flatten_live
from fgrad.core.jaxpr import Var, interned
from fgrad.core.kept import keeps_arrays
from fgrad.ops.rules import Zero

INLINE = frozenset(
    "add sub mul div rem neg abs square sqrt max min floor ceil round_even round_away trunc sign copysign integer_pow fma clamp select "
    "and or xor not eq ne lt le gt ge shift_left shift_right_logical shift_right_arithmetic convert_element_type bitcast_convert_type "
    "is_finite real imag conj copy".split()
)  # operations that cost a step no more than to load their results


def leaf_avals(leaves):
    return [get_aval(x) for x in leaves]


def staged(fun, avals, name):
    """The jaxpr of a flat function. Outside of jit arrays that it closes over are arguments, single numbers too: a call that comes again
    with other ones runs the same program."""
    return stage(fun, avals, name, keeps_arrays=keeps_arrays())


def hoist(fun, avals, name):
    """(consts, a jaxpr without consts that takes them first) of a flat function."""
    consts, closed = convert_constvars(staged(fun, avals, name))
    return consts, interned(closed)


def share_consts(closeds):
    """(consts, jaxprs): several staged functions over one list of consts, each taking all of them first."""
    consts = [c for closed in closeds for c in closed.consts]
    avals, out, start = leaf_avals(consts), [], 0
    for closed in closeds:
        jaxpr, end = closed.jaxpr, start + len(closed.consts)
        before, behind = ([Var(a) for a in part] for part in (avals[:start], avals[end:]))
        invars = [*before, *jaxpr.constvars, *behind, *jaxpr.invars]
        out.append(interned(ClosedJaxpr(jaxpr.replace(constvars=[], invars=invars), [])))
        start = end
    return consts, out


def run(closed, *args):
    return eval_jaxpr(closed.jaxpr, closed.consts, *args)


def passed_on(closed, nk, n):
    """Which of the n carries behind nk consts a body gives back as they came: nothing keeps them from being consts."""
    return [a is b for a, b in zip(closed.jaxpr.invars[nk : nk + n], closed.jaxpr.outvars)]


def carries_as_consts(closed, nk, mask):
    """A body with the carries that `mask` marks, which it passes on, as consts behind its nk ones and not among its results."""
    key = ("carries_as_consts", nk, tuple(mask))
    if key not in closed.cache:
        j, n = closed.jaxpr, len(mask)
        carry = j.invars[nk : nk + n]
        moved, kept = ([v for v, m in zip(carry, mask) if m is want] for want in (True, False))
        outvars = [*[v for v, m in zip(j.outvars, mask) if not m], *j.outvars[n:]]
        jaxpr = j.replace(invars=[*j.invars[:nk], *moved, *kept, *j.invars[nk + n :]], outvars=outvars)
        closed.cache[key] = interned(ClosedJaxpr(jaxpr, closed.consts))
    return closed.cache[key]


def without_repeats(closed, same):
    """A body without the inputs that are others': same[i] is the first of those that equal input i."""
    key = ("without_repeats", tuple(same))
    if key not in closed.cache:
        j = closed.jaxpr
        first = {j.invars[i]: j.invars[k] for i, k in enumerate(same) if i != k}
        eqns = [e.replace(invars=[first.get(v, v) if type(v) is Var else v for v in e.invars]) for e in j.eqns]
        outvars = [first.get(v, v) if type(v) is Var else v for v in j.outvars]
        jaxpr = j.replace(invars=[v for v in j.invars if v not in first], eqns=eqns, outvars=outvars)
        closed.cache[key] = interned(ClosedJaxpr(jaxpr, closed.consts))
    return closed.cache[key]


def flat_fun(fun, treedef, out_tree):
    """fun over trees as a flat function; the structure of its result goes to out_tree[0]."""

    def flat(*leaves):
        outs, out_tree[0] = flatten_live(fun(*tree.unflatten(treedef, leaves)))
        return outs

    return flat


def nonzeros(tangents):
    return [type(t) is not Zero for t in tangents]


def live(tangents):
    return [t for t in tangents if type(t) is not Zero]


def strong_leaf(x):
    """Python scalars as arrays: operands of control flow have memory."""
    return to_array(x) if isinstance(x, (bool, int, float, complex)) else x


def tree_difference(a, b, what_a, what_b):
    """Where two tree structures differ, in words."""
    paths_a, paths_b = ([tree.keystr(p) or "(the value itself)" for p in tree.paths(t)] for t in (a, b))
    only_a, only_b = [p for p in paths_a if p not in paths_b], [p for p in paths_b if p not in paths_a]
    parts = [f"{what} alone has a leaf at {', '.join(ps)}" for what, ps in ((what_a, only_a), (what_b, only_b)) if ps]
    return "; ".join(parts) or f"{what_a} is {a}, {what_b} is {b}"


def type_text(aval):
    """A type as messages name it: float32[2,3]."""
    return f"{aval.dtype.name}[{','.join(map(str, aval.shape))}]"


class _Text(str):
    __repr__ = str.__str__


def types_text(treedef, avals):
    """The types of a tree of values, as messages name them: (float32[], int32[2])."""
    return repr(tree.unflatten(treedef, [_Text(type_text(a)) for a in avals]))


def first_parameter(fun):
    """How a function calls its first argument."""
    try:
        return next((n for n, p in inspect.signature(fun).parameters.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)), "")
    except (TypeError, ValueError):
        return ""


def mismatch(a, b):
    """What differs between two avals, in words: "dtypes", "shapes", or both."""
    return " and ".join([w for w, x, y in (("shapes", a.shape, b.shape), ("dtypes", a.dtype, b.dtype)) if x != y])
