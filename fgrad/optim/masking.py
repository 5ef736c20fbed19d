"""Transformations of a part of the parameters."""

from typing import Any, NamedTuple

from fgrad import tree
from fgrad.optim.base import GradientTransformationExtraArgs, leafwise, set_to_zero, with_extra_args_support
from fgrad.optim.tree_state import ParamsPlaceholder


class MaskedNode(NamedTuple):
    """Stands, without leaves, in the place of a parameter that a mask takes away."""


class MaskedState(NamedTuple):
    """The state over the parameters that the mask lets through."""

    inner_state: Any


class PartitionState(NamedTuple):
    """One masked state a label."""

    inner_states: Any


def masked(inner, mask, *, mask_compatible_extra_args=False):
    """`inner` for the leaves where `mask` is true; the others pass unchanged and have no state.

    mask: a tree of booleans with the structure (or a prefix of it) of the parameters, or a function of the parameters (of the
    updates, in update) that gives one. With mask_compatible_extra_args, extra arguments of the updates' structure are masked too.
    """
    inner = with_extra_args_support(inner)

    def select(chosen, values):
        return leafwise(lambda m, x: x if m else MaskedNode(), chosen, values)

    def init(params):
        if not isinstance(params, ParamsPlaceholder):
            params = select(_resolve(mask, params), params)
        return MaskedState(inner.init(params))

    def update(updates, state, params=None, **extra_args):
        chosen = _resolve(mask, updates)
        if mask_compatible_extra_args:
            same = tree.structure(updates)
            extra_args = {k: select(chosen, v) if tree.structure(v) == same else v for k, v in extra_args.items()}
        inside, inner_state = inner.update(
            select(chosen, updates), state.inner_state, None if params is None else select(chosen, params), **extra_args
        )
        return leafwise(lambda m, new, old: new if m else old, chosen, inside, updates), MaskedState(inner_state)

    return GradientTransformationExtraArgs(init, update)


def _resolve(mask, params):
    """The tree of booleans. A mask that is a tree of a callable class (a module of parameters) counts as a tree."""
    return mask(params) if callable(mask) and all(x is mask for x in tree.leaves(mask)) else mask


def partition(transforms, param_labels, *, mask_compatible_extra_args=False):
    """transforms[label] for the leaves of that label.

    transforms: a dictionary of transformations. param_labels: a tree of its keys with the structure (or a prefix) of the parameters,
    or a function of the parameters that gives one. Raises ValueError for a label that no transformation has.

    >>> import fgrad
    >>> optimizer = fgrad.optim.partition({"fast": fgrad.optim.sgd(1.0), "slow": fgrad.optim.sgd(0.1)}, {"w": "fast", "b": "slow"})
    >>> params = {"w": fgrad.numpy.ones(2), "b": fgrad.numpy.ones(1)}
    >>> optimizer.update(params, optimizer.init(params))[0]
    {'b': Array([-0.1], dtype=float32), 'w': Array([-1., -1.], dtype=float32)}
    """

    def group(labels, label):
        mask = tree.map(lambda own: own == label, labels)
        return masked(transforms[label], mask, mask_compatible_extra_args=mask_compatible_extra_args)

    def resolve(params):
        labels = param_labels(params) if callable(param_labels) else param_labels
        unknown = sorted({str(x) for x in tree.leaves(labels) if x not in transforms})
        if unknown:
            raise ValueError(f"partition: the labels {unknown} have no transformation; there are {sorted(map(str, transforms))}")
        return labels

    def init(params):
        labels = resolve(params)
        return PartitionState({label: group(labels, label).init(params) for label in transforms})

    def update(updates, state, params=None, **extra_args):
        labels, new = resolve(updates), {}
        for label in transforms:
            updates, new[label] = group(labels, label).update(updates, state.inner_states[label], params, **extra_args)
        return updates, PartitionState(new)

    return GradientTransformationExtraArgs(init, update)


multi_transform = partition


def freeze(mask):
    """Zero updates where `mask` is true: those parameters stay."""
    return masked(set_to_zero(), mask)


def selective_transform(optimizer, *, freeze_mask):
    """`optimizer` where freeze_mask is false; the other parameters stay and have no state."""
    labels = tree.map(lambda frozen: "freeze" if frozen else "train", freeze_mask)
    return partition({"train": optimizer, "freeze": set_to_zero()}, labels)
