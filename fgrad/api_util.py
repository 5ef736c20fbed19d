"""Functions of trees as functions of leaves, for libraries that build on transformations (jax.api_util).

They take and give what fgrad.extend.linear_util.wrap_init makes.
"""

import inspect

from fgrad import array_tree as tree
from fgrad.api import common
from fgrad.core import DebugInfo, function_text
from fgrad.extend.linear_util import WrappedFun

__all__ = [
    "DebugInfo",
    "argnums_partial",
    "debug_info",
    "donation_vector",
    "flatten_axes",
    "flatten_fun",
    "flatten_fun_nokwargs",
    "rebase_donate_argnums",
    "safe_map",
    "shaped_abstractify",
]


def debug_info(traced_for, fun, args, kwargs, *, static_argnums=(), static_argnames=(), sourceinfo=None, signature=None, **_):
    """What wrap_init takes as its debug_info, for messages.

    >>> debug_info("jit", lambda x: x, ({"a": 1},), {}).arg_names
    ("x['a']",)
    """
    try:
        bound = (signature or inspect.signature(fun)).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        names = None
    else:
        static = {*static_argnames, *[n for i, n in enumerate(bound) if i in static_argnums]}
        paths, _ = tree.flatten_with_entries({n: x for n, x in bound.items() if n not in static})
        names = tuple(f"{path[0]}{tree.keystr(path[1:])}" for path, _ in paths)
    return DebugInfo(traced_for, sourceinfo or function_text(fun), names)


def _flattened(call, in_tree):
    box = []

    def flat(*leaves):
        outs, treedef = tree.flatten(call(tree.unflatten(in_tree, leaves)))
        box[:] = [treedef]
        return outs

    def out_tree():
        if not box:
            raise RuntimeError("the structure of the result is known only after the function was called")
        return box[0]

    return WrappedFun(flat), out_tree


def flatten_fun(f, in_tree):
    """(f as a function of the leaves of (args, kwargs), a function that gives its result's structure after a call).

    >>> from fgrad import tree
    >>> from fgrad.extend.linear_util import wrap_init
    >>> leaves, in_tree = tree.flatten((({"a": 1, "b": 2},), {"k": 3}))
    >>> flat, out_tree = flatten_fun(wrap_init(lambda x, k: {"sum": x["a"] + x["b"] + k}), in_tree)
    >>> outs = flat.call_wrapped(*leaves)
    >>> tree.unflatten(out_tree(), outs)
    {'sum': 6}
    """
    return _flattened(lambda both: f.call_wrapped(*both[0], **both[1]), in_tree)


def flatten_fun_nokwargs(f, in_tree):
    """flatten_fun of a function that takes no keyword arguments: in_tree is the structure of args."""
    return _flattened(lambda args: f.call_wrapped(*args), in_tree)


def argnums_partial(f, dyn_argnums, args, require_static_args_hashable=True):
    """(f of the arguments `dyn_argnums` alone, those arguments): the others are bound.

    Raises ValueError where a bound argument has no hash and require_static_args_hashable is set.
    """
    nums = (dyn_argnums,) if isinstance(dyn_argnums, int) else tuple(dyn_argnums)
    nums = tuple(i % len(args) for i in nums)
    for i, x in enumerate(args):
        if require_static_args_hashable and i not in nums:
            try:
                hash(x)
            except TypeError:
                raise ValueError(f"Non-hashable static arguments are not supported: argument {i} is of type {type(x).__name__}") from None

    def partial(*dynamic, **kwargs):
        full = list(args)
        for i, x in zip(nums, dynamic):
            full[i] = x
        return f.call_wrapped(*full, **kwargs)

    return WrappedFun(partial), [args[i] for i in nums]


def flatten_axes(name, treedef, axis_tree, *, kws=False, tupled_args=False):
    """axis_tree, a prefix of the tree `treedef` whose leaves are axes or None, as a list with one axis per leaf of that tree.

    Raises ValueError where it is no prefix.
    """
    try:
        return tree.prefix_leaves(axis_tree, treedef)
    except ValueError as e:
        raise ValueError(
            f"{name} specification must be a tree prefix of the corresponding value, got {axis_tree} for {treedef}: {e}"
        ) from None


def donation_vector(donate_argnums, donate_argnames, in_tree, kws=True):
    """For each leaf of (args, kwargs) (of args, without kws), whether its argument is donated."""
    args, kwargs = tree.unflatten(in_tree, range(in_tree.num_leaves)) if kws else (tree.unflatten(in_tree, range(in_tree.num_leaves)), {})
    out = [i in donate_argnums for i, x in enumerate(args) for _ in tree.leaves(x)]
    return tuple(out + [k in donate_argnames for k in sorted(kwargs) for _ in tree.leaves(kwargs[k])])


def rebase_donate_argnums(donate_argnums, static_argnums):
    """Positions of donated arguments among those that are not static. Raises ValueError where an argument is both."""
    donated, static = set(donate_argnums), sorted(static_argnums)
    if donated & set(static):
        raise ValueError(f"static_argnums {static_argnums} and donate_argnums {donate_argnums} cannot intersect")
    return tuple(sorted(d - sum(s < d for s in static) for d in donated))


def shaped_abstractify(x):
    """The abstract value of an array, a number or anything with a shape and a dtype. Raises TypeError for others."""
    return common.abstractify(x)


def safe_map(f, *args):
    """list(map(f, *args)) of sequences of one length; AssertionError for others."""
    args = [list(a) for a in args]
    assert len({len(a) for a in args}) <= 1, f"length mismatch: {[len(a) for a in args]}"
    return list(map(f, *args))
