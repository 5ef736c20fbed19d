"""custom_vmap and sequential_vmap."""

import functools
import inspect

from fgrad import array_tree as tree
from fgrad.api.common import as_arrays, check_args, flat_fun, fun_name
from fgrad.api.custom import _resolve
from fgrad.control.custom_vmap import custom_vmap_call_p
from fgrad.control.loops import map as lax_map
from fgrad.core import convert_constvars, get_aval, is_tracer, stage


class custom_vmap:
    """A function with a batching rule of its own, set by f.def_vmap(rule).

    rule(axis_size, in_batched, *args) -> (out, out_batched): args that are batched, as in_batched (a tree of bools for each)
    says, have the batch axis in front; so do those of the results that out_batched (a tree of bools like out) says are batched.
    The function may not close over traced values.

    >>> import fgrad, fgrad.numpy as jnp
    >>> f = fgrad.custom_batching.custom_vmap(lambda x: x + 1)
    >>> @f.def_vmap
    ... def rule(axis_size, in_batched, x):
    ...     return x + 100, in_batched[0]
    >>> f(jnp.ones(2)), fgrad.vmap(f)(jnp.ones(2))
    (Array([2., 2.], dtype=float32), Array([101., 101.], dtype=float32))
    """

    def __init__(self, fun):
        functools.update_wrapper(self, fun, updated=("__dict__",) if inspect.isfunction(fun) else ())
        self.fun, self.vmap_rule = fun, None

    def def_vmap(self, vmap_rule):
        """Set the rule, and give it back: a decorator."""
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args, **kwargs):
        if self.vmap_rule is None:
            raise AttributeError(f"No batching rule defined for custom_vmap function {fun_name(self.fun)} using def_vmap.")
        args = _resolve(self.fun, args, kwargs, "custom_vmap")
        leaves, treedef = tree.flatten((tuple(args), {}))
        check_args(leaves, treedef, self.fun, "custom_vmap")
        out_tree = [None]
        closed = stage(flat_fun(self.fun, treedef, out_tree), [get_aval(x) for x in leaves], fun_name(self.fun))
        if any(is_tracer(c) for c in closed.consts):
            raise TypeError(f"custom_vmap function {fun_name(self.fun)} closes over a traced value: pass it as an argument")
        consts, closed = convert_constvars(closed)
        rule = functools.partial(self._flat_rule, len(consts), treedef, out_tree[0])
        return tree.unflatten(out_tree[0], as_arrays(custom_vmap_call_p.bind(*consts, *leaves, call_jaxpr=closed, rule=rule)))

    def _flat_rule(self, n_consts, in_tree, out_tree, size, batched, args):
        in_batched = tree.unflatten(in_tree, batched[n_consts:])[0]
        out, out_batched = self.vmap_rule(size, list(in_batched), *tree.unflatten(in_tree, args[n_consts:])[0])
        outs, got = tree.flatten(out)
        flags, flags_tree = tree.flatten(out_batched)
        for what, t in (("output", got), ("batching specification", flags_tree)):
            if t != out_tree:
                raise ValueError(
                    f"structure of the {what} returned by the vmap rule of {fun_name(self.fun)}, {t}, does not match that of the "
                    f"function's output, {out_tree}"
                )
        return outs, flags


def sequential_vmap(f):
    """A function whose vmap runs the examples one after another, by lax.map, instead of together: it needs less memory.

    >>> import fgrad, fgrad.numpy as jnp
    >>> f = fgrad.custom_batching.sequential_vmap(lambda x, y: x * y)
    >>> fgrad.vmap(f, in_axes=(0, None))(jnp.arange(3.0), 2.0)
    Array([0., 2., 4.], dtype=float32)
    """
    mapped = custom_vmap(f)

    def rule(axis_size, in_batched, *args):
        leaves, treedef = tree.flatten(args)
        flags = tree.leaves(in_batched)

        def one(rows):
            given = iter(rows)
            return f(*tree.unflatten(treedef, [next(given) if b else x for x, b in zip(leaves, flags)]))

        out = lax_map(one, [x for x, b in zip(leaves, flags) if b])
        return out, tree.map(lambda _: True, out)

    mapped.def_vmap(rule)
    return mapped
