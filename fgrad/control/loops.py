"""scan and the loops made of it."""

import operator

from fgrad import array_tree as tree
from fgrad.config import config
from fgrad.control import in_python
from fgrad.control.common import (
    carries_as_consts,
    first_parameter,
    flat_fun,
    hoist,
    leaf_avals,
    mismatch,
    passed_on,
    strong_leaf,
    tree_difference,
    type_text,
    types_text,
)
from fgrad.control.scan_rules import row_aval, scan_p
from fgrad.core import get_aval, typematch, wraps
from fgrad.core.float0 import flatten_live, flatten_live_with_entries, unflatten_stacked
from fgrad.core.kept import once
from fgrad.core.refs import bound, values_of, watching, write_back
from fgrad.dtypes import promote
from fgrad.errors import ConcretizationTypeError
from fgrad.ops.elementwise import convert_element_type
from fgrad.ops.shape import concatenate, reshape, slice_in_dim
from fgrad.transforms.linearize import merge, split
from fgrad.transforms.vmap import Axis, batch_flat_front


def _check_carry(what, fun, init_paths, avals, in_tree, out_avals, out_tree):
    """Raise TypeError where a body, of which `fun` names the carry, gives it another structure or other types than it takes."""
    if in_tree != out_tree:
        where = tree_difference(in_tree, out_tree, "the input carry", "the output carry")
        raise TypeError(
            f"{what} function carry input and carry output must have the same pytree structure, but they differ:\n\n{where}. "
            f"The input structure is {in_tree}, the output structure {out_tree}.\n\n"
            "Revise the function so that the carry output has the same pytree structure as the carry input."
        )
    unlike = [(p, a, b) for p, a, b in zip(init_paths, avals, out_avals) if not typematch(a, b)]
    if unlike:
        name = first_parameter(fun)
        bad = [
            f"the input carry {'component ' if p and name else ''}{name}{tree.keystr(p)} has type {type_text(a)} but the corresponding "
            f"output carry component has type {type_text(b)}, so the {mismatch(a, b)} do not match"
            for p, a, b in unlike
        ]
        differ = f"T{bad[0][1:]}." if len(bad) == 1 else "\n".join(f"  * {b}" for b in bad)
        raise TypeError(
            f"{what} function carry input and carry output must have equal types, but they differ:\n\n{differ}\n\n"
            "Revise the function so that all output types match the corresponding input types (astype)."
        )


def _settle(init, stage_body):
    """Stage a body, after converting weakly typed initial values to what the body makes of them."""
    staged = stage_body(init)
    outs = staged[1]
    new = [convert_element_type(x, o.dtype) if _widens(get_aval(x), o) else x for x, o in zip(init, outs)]
    if len(outs) >= len(init) and any(a is not b for a, b in zip(init, new)):
        return new, stage_body(new)
    return init, staged


def _widens(a, out):
    """Whether a weakly typed initial value of type `a` gives way to what the body makes of it: integers to floats, not the other way."""
    if not a.weak_type or a.shape != out.shape or a.dtype == out.dtype:
        return False
    return promote([(a.dtype, True), (out.dtype, out.weak_type)])[0] == out.dtype


def _length(x_paths, length):
    """The number of steps, from the leading axes of xs and the length argument."""
    sizes = {}
    for p, x in x_paths:
        shape = get_aval(x).shape
        if not shape:
            raise ValueError(f"scan got value with no leading axis to scan over: xs{tree.keystr(p)} is {get_aval(x)}")
        sizes.setdefault(shape[0], f"xs{tree.keystr(p)} of shape {shape}")
    if len(sizes) > 1:
        numbers = ", ".join([str(n) for n in sizes])
        raise ValueError(f"scan got values with different leading axis sizes: {numbers} ({', '.join(sizes.values())}).")
    if length is not None:
        try:
            length = operator.index(length)
        except ConcretizationTypeError as e:
            raise ConcretizationTypeError(
                "The `length` argument to `scan` expects a concrete `int` value. For scan-like iteration with a dynamic length, use "
                f"`while_loop` or `fori_loop`. {e}"
            ) from None
        if length < 0 or sizes and length not in sizes:
            raise ValueError(f"scan got `length` argument of {length} which disagrees with leading axis sizes {[*sizes]}.")
        return length
    if not sizes:
        raise ValueError("scan got no values to scan over and `length` not provided.")
    return next(iter(sizes))


def _unroll(unroll, length):
    """The number of steps to lay out in one iteration."""
    if isinstance(unroll, bool):
        return max(length, 1) if unroll else 1
    if not isinstance(unroll, int) or unroll < 0:
        raise ValueError(f"`unroll` must be a `bool` or a non-negative `int`, got {unroll!r}.")
    return max(unroll, 1)


def scan(f, init, xs=None, length=None, reverse=False, unroll=1, _split_transpose=False):
    """f(carry, x) -> (carry, y) over the leading axis of the leaves of `xs`; returns (last carry, stacked ys).

    unroll: how many steps are laid out in one iteration of the compiled loop; True lays out all of them.
    Raises TypeError where f changes the structure, shape or dtype of the carry, ValueError where lengths differ.

    >>> import fgrad.numpy as jnp
    >>> from fgrad.control.loops import scan
    >>> scan(lambda c, x: (c + x, c), 0.0, jnp.arange(3.0))[0]
    Array(3., dtype=float32)
    """
    if not callable(f):
        raise TypeError(f"lax.scan: f argument should be a callable, got {f!r:.80}.")
    return scan_of(f, f, "scan", init, xs, length, reverse, unroll)


def scan_of(owner, f, what, init, xs, length, reverse, unroll):
    """scan of `f`, made in the way `what` of the function `owner`, by which its stagings are found again."""
    paths, in_tree = flatten_live_with_entries(init)
    leaves = [strong_leaf(x) for _, x in paths]
    x_paths, x_tree = tree.flatten_with_entries(xs)
    x_leaves = [x for _, x in x_paths]
    n = _length(x_paths, length)
    if config.disable_jit and n:
        return in_python.scan(f, init, x_leaves, x_tree, n, reverse)
    nc = len(leaves)
    name = getattr(f, "__name__", "scan")

    def stage_body(carry):
        avals = [*[a.update() for a in leaf_avals(carry)], *[row_aval(get_aval(x)) for x in x_leaves]]
        made = once(owner, (what, in_tree, x_tree, *avals), frame, lambda: stage_at(avals))
        return made, made[1].out_avals[: made[2]["carry"].num_leaves]

    def stage_at(avals):
        info = {}

        def flat(*args):
            out = f(tree.unflatten(in_tree, args[:nc]), tree.unflatten(x_tree, args[nc:]))
            if not (isinstance(out, (tuple, list)) and len(out) == 2):
                raise TypeError(f"scan body output must be a pair, got {_types(out)}: {name} must give (carry, y).")
            c, info["carry"] = flatten_live(out[0])
            y, info["ys"] = flatten_live(out[1])
            return [*c, *y]

        return *hoist(flat, avals, name), info

    with watching() as frame:
        leaves, ((more, jaxpr, info), outs) = _settle(leaves, stage_body)
    if frame.touched:
        return _scan_of_refs([*frame.touched], f, init, xs, n, reverse, unroll)
    _check_carry("scan body", owner, [p for p, _ in paths], leaf_avals(leaves), in_tree, outs, info["carry"])
    same = passed_on(jaxpr, len(more), nc)
    if any(same):
        jaxpr = carries_as_consts(jaxpr, len(more), same)
    moved, varying = split(same, leaves)
    out = scan_p.bind(
        *more,
        *moved,
        *varying,
        *x_leaves,
        jaxpr=jaxpr,
        length=n,
        reverse=bool(reverse),
        num_consts=len(more) + len(moved),
        num_carry=len(varying),
        unroll=_unroll(unroll, n),
    )
    carry = merge(same, moved, out[: len(varying)])
    return tree.unflatten(in_tree, carry), unflatten_stacked(info["ys"], out[len(varying) :], n)


def _scan_of_refs(refs, f, init, xs, length, reverse, unroll):
    """scan of a body that reads and writes mutable arrays: their values are further carries."""

    @wraps(f)
    def body(carry, x):
        with bound(refs, carry[1]) as frame:
            out = f(carry[0], x)
        written.update(frame.written)
        return ((out[0], [frame.values[r] for r in refs]), out[1]) if isinstance(out, (tuple, list)) and len(out) == 2 else out

    written: dict = {}
    (carry, values), ys = scan(body, (init, values_of(refs)), xs, length, reverse, unroll)
    write_back(refs, [v if r in written else None for r, v in zip(refs, values)])
    return carry, ys


def _types(x):
    leaves, treedef = tree.flatten(x)
    return types_text(treedef, leaf_avals(leaves))


def map(f, xs, *, batch_size=None):  # noqa: A001
    """f applied to each row of the leaves of `xs`, one after another; the results stacked.

    With batch_size rows are taken that many at a time, by a vmap of f.

    >>> from fgrad import lax
    >>> import fgrad.numpy as jnp
    >>> lax.map(lambda x: x ** 2, jnp.arange(3.0))
    Array([0., 1., 4.], dtype=float32)
    """
    if batch_size is None:
        return scan(lambda _, x: ((), f(x)), (), xs)[1]
    leaves, treedef = tree.flatten(xs)
    n, size, out_tree = _length(tree.flatten_with_entries(xs)[0], None), operator.index(batch_size), [None]
    if size < 1:
        raise ValueError(f"map: batch_size must be at least 1, got {batch_size}")

    def batched(rows):
        args_tree = tree.structure((xs,))
        return batch_flat_front(flat_fun(f, args_tree, out_tree), Axis(get_aval(rows[0]).shape[0]), [0] * len(rows), rows)

    whole = n // size * size
    blocks = [reshape(slice_in_dim(x, 0, whole), (n // size, size, *get_aval(x).shape[1:])) for x in leaves]
    out = [reshape(y, (whole, *get_aval(y).shape[2:])) for y in scan(lambda _, x: ((), batched(x)), (), blocks)[1]]
    if whole < n:
        rest = batched([slice_in_dim(x, whole, n) for x in leaves])
        out = [concatenate([a, b], 0) for a, b in zip(out, rest)]
    return tree.unflatten(out_tree[0], out)


__all__ = ["map", "scan"]
