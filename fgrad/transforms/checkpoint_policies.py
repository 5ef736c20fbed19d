"""What `checkpoint` may store: a policy is policy(primitive, *input avals, **params) -> True where the outputs may be stored.

A jitted function inside a checkpointed one is looked into; loops, branches and custom rules are asked for as wholes.
"""

from fgrad.core import Primitive

name_p = Primitive(
    "name",
    abstract_eval=lambda x, *, name: x,
    impl=lambda x, *, name: x,
    batch=lambda axis, args, dims, *, name: (name_p.bind(args[0], name=name), dims[0]),
    transpose=lambda cts, x, *, name: [cts[0]],
    lower=lambda ctx, ins, params, out_avals: ins[0],
)
name_p.jvp = lambda primals, tangents, *, name: (name_p.bind(primals[0], name=name), tangents[0])  # tangents have no name
_PRODUCTS = ("dot_general", "conv_general_dilated")


def everything_saveable(*_, **__):
    """Store everything, as without checkpoint."""
    return True


def nothing_saveable(*_, **__):
    """Store nothing but the inputs: checkpoint without a policy."""
    return False


def dots_saveable(prim, *_, **__):
    """Store the results of matrix products and convolutions, recompute the rest."""
    return prim.name in _PRODUCTS


def dots_with_no_batch_dims_saveable(prim, *_, **params):
    """Store the results of matrix products without batch dimensions (those with weights), recompute the rest."""
    return prim.name == "dot_general" and params["dimension_numbers"][1] == ((), ())


checkpoint_dots = dots_saveable
checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


def _check_names(names):
    for n in names:
        if not isinstance(n, str):
            raise TypeError(f"checkpoint policies take names as strings, got {n!r}")
    return frozenset(names)


def save_anything_except_these_names(*names):
    """Store any value but those that checkpoint_name gave one of these names. (The value that was named may be stored as such.)"""
    names = _check_names(names)

    def policy(prim, *_, **params):
        return not (prim is name_p and params["name"] in names)

    return policy


def save_any_names_but_these(*names):
    """Store values named by checkpoint_name, except under these names; recompute the rest."""
    names = _check_names(names)

    def policy(prim, *_, **params):
        return prim is name_p and params["name"] not in names

    return policy


def save_only_these_names(*names):
    """Store values that checkpoint_name gave one of these names; recompute the rest."""
    names = _check_names(names)

    def policy(prim, *_, **params):
        return prim is name_p and params["name"] in names

    return policy


def save_from_both_policies(policy_1, policy_2):
    """Store what one of two policies, or both, would store."""

    def policy(prim, *args, **params):
        return policy_1(prim, *args, **params) or policy_2(prim, *args, **params)

    return policy


def save_and_offload_only_these_names(*, names_which_can_be_saved, names_which_can_be_offloaded, offload_src, offload_dst):
    """Store values that checkpoint_name gave one of the names of either list: there is one memory, so that none is moved to another."""
    return save_only_these_names(*names_which_can_be_saved, *names_which_can_be_offloaded)


def offload_dot_with_no_batch_dims(offload_src, offload_dst):
    """dots_with_no_batch_dims_saveable: there is one memory, so that nothing is moved to another."""
    return dots_with_no_batch_dims_saveable


__all__ = [
    "checkpoint_dots",
    "checkpoint_dots_with_no_batch_dims",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    "everything_saveable",
    "nothing_saveable",
    "offload_dot_with_no_batch_dims",
    "save_and_offload_only_these_names",
    "save_any_names_but_these",
    "save_anything_except_these_names",
    "save_from_both_policies",
    "save_only_these_names",
]
