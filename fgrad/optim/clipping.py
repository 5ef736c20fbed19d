"""Transformations that bound the updates."""

import math
from typing import Any, NamedTuple

import fgrad.numpy as jnp
from fgrad import tree
from fgrad.api import vmap
from fgrad.optim.base import GradientTransformation, abs_sq, compiled, init_empty_state, leafwise, need_params, stateless
from fgrad.optim.tree_utils import tree_clip, tree_norm


class ZeroNansState(NamedTuple):
    """Which leaves had a NaN in the last update."""

    found_nan: Any


def clip(max_delta):
    """Every element clipped to [-max_delta, max_delta]."""
    return stateless(lambda updates, params: tree_clip(updates, -max_delta, max_delta))


def clip_by_global_norm(max_norm):
    """Scale the updates down to a global norm of max_norm where theirs is larger (Pascanu et al., 2013)."""

    def update(updates, state, params=None):
        norm = tree_norm(updates)
        scale = jnp.where(norm < max_norm, 1.0, max_norm / norm)
        return leafwise(lambda u: u * jnp.asarray(scale, jnp.asarray(u).dtype), updates), state

    return GradientTransformation(init_empty_state, compiled(update))


def clip_by_block_rms(threshold):
    """Scale each leaf down to a root mean square of `threshold` where its own is larger (Shazeer & Stern, 2018)."""

    def leaf(u):
        return u / jnp.maximum(1.0, jnp.sqrt(jnp.mean(abs_sq(u))) / threshold)

    return stateless(lambda updates, params: leafwise(leaf, updates))


def unitwise_norm(x, axis=None):
    """The norm of each unit of a weight, at each of its elements.

    A unit is what feeds one output: the whole of a vector, axis 0 of ranks 2 and 3, all axes but the last of ranks 4 and 5; or `axis`.
    """
    if axis is None:
        rank = x.ndim
        if rank > 5:
            raise ValueError(f"adaptive_grad_clip: a parameter of shape {x.shape} has rank {rank} > 5: say with axis what a unit is")
        flat = sum(n != 1 for n in x.shape) <= 1
        axis = None if flat else 0 if rank <= 3 else tuple(range(rank - 1))
    return jnp.broadcast_to(jnp.sqrt(jnp.sum(abs_sq(x), axis=axis, keepdims=True)), jnp.shape(x))


def unitwise_clip(g_norm, max_norm, grad, div_eps=1e-6):
    """grad, scaled to the norms max_norm where its own, g_norm, are not less."""
    return jnp.where(g_norm < max_norm, grad, grad * (max_norm / jnp.maximum(g_norm, div_eps)))


def adaptive_grad_clip(clipping, eps=1e-3, axis=None):
    """Bound the norm of each unit's gradient by `clipping` times that of its weights, at least eps (Brock et al., 2021)."""

    def leaf(u, p):
        norm, most = unitwise_norm(jnp.asarray(u), axis), clipping * jnp.maximum(unitwise_norm(jnp.asarray(p), axis), eps)
        return unitwise_clip(norm, most, u)

    def update(updates, params):
        need_params("adaptive_grad_clip", params)
        return leafwise(leaf, updates, params)

    return stateless(update)


def zero_nans():
    """NaNs become zeros; the state says which leaves had one."""

    def init(params):
        return ZeroNansState(tree.map(lambda p: jnp.zeros((), bool), params))

    def update(updates, state, params=None):
        found = leafwise(lambda u: jnp.any(jnp.isnan(u)), updates)
        return leafwise(lambda u: jnp.where(jnp.isnan(u), jnp.zeros_like(u), u), updates), ZeroNansState(found)

    return GradientTransformation(init, update)


def keep_params_nonnegative():
    """No step takes a parameter below zero."""

    def update(updates, state, params=None):
        need_params("keep_params_nonnegative", params)
        return leafwise(lambda u, p: jnp.where(p + u < 0.0, -p, u), updates, params), state

    return GradientTransformation(init_empty_state, update)


def per_example_global_norm_clip(grads, l2_norm_clip):
    """(the sum over the first axis of gradients, each scaled down to a global norm of l2_norm_clip; how many were scaled).

    Raises ValueError where a leaf has no first axis or they differ.
    """
    leaves = tree.leaves(grads)
    if not leaves or any(not jnp.ndim(g) or jnp.shape(g)[0] != jnp.shape(leaves[0])[0] for g in leaves):
        raise ValueError(f"per_example_global_norm_clip: all leaves must have one batch axis 0, got {tree.map(jnp.shape, grads)}")
    factors = jnp.nan_to_num(jnp.minimum(l2_norm_clip / vmap(tree_norm)(grads), 1.0), nan=1.0)
    return leafwise(lambda g: jnp.tensordot(factors, g, axes=1), grads), jnp.sum(factors < 1.0)


def per_example_layer_norm_clip(grads, global_l2_norm_clip, uniform=True):
    """per_example_global_norm_clip of each leaf on its own: (the tree of sums, the tree of counts).

    The squared global_l2_norm_clip is shared equally among leaves (uniform) or by their numbers of elements.
    """
    leaves, treedef = tree.flatten(grads)
    if any(not jnp.ndim(g) for g in leaves):
        raise ValueError(f"per_example_layer_norm_clip: all leaves must have a batch axis 0, got {tree.map(jnp.shape, grads)}")
    sizes = [1 if uniform else math.prod(jnp.shape(g)[1:]) for g in leaves]
    parts = [per_example_global_norm_clip(g, global_l2_norm_clip * math.sqrt(n / sum(sizes))) for g, n in zip(leaves, sizes)]
    return tuple(tree.unflatten(treedef, [p[i] for p in parts]) for i in range(2))
