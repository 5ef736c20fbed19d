"""Limited-memory BFGS."""

from typing import Any, NamedTuple

import fgrad.numpy as jnp
from fgrad import tree
from fgrad.api import eval_shape
from fgrad.control.loops import scan
from fgrad.optim.base import (
    GradientTransformation,
    dtype_of,
    identity,
    leafwise,
    need_params,
    safe_increment,
    stored,
    zero_count,
    zeros_like,
)
from fgrad.optim.combining import chain
from fgrad.optim.linesearch import scale_by_zoom_linesearch
from fgrad.optim.scaling import scale, scale_by_learning_rate
from fgrad.optim.tree_utils import tree_add_scale, tree_norm, tree_scale, tree_sub, tree_vdot


class ScaleByLBFGSState(NamedTuple):
    """The number of steps, the last parameters and gradients, and the last differences of both with their weights 1 / <s, y>."""

    count: Any
    params: Any
    updates: Any
    diff_params_memory: Any
    diff_updates_memory: Any
    weights_memory: Any


def _real_vdot(a, b):
    return jnp.real(jnp.asarray(tree_vdot(a, b)))


def two_loop(gradient, steps, changes, weights, order, scale0):
    """The inverse Hessian's approximation times `gradient` (Nocedal & Wright, 2006, algorithm 7.4).

    steps, changes: trees whose leaves have the pairs (s, y) along axis 0; weights: 1 / <s, y>, zero for a place that holds none;
    order: the places from the oldest to the newest; scale0: the multiple of the identity to start from.
    """
    at = lambda memory, i: tree.map(lambda x: x[i], memory)

    def newest_first(q, i):
        alpha = weights[i] * _real_vdot(at(steps, i), q)
        return leafwise(stored, tree_add_scale(q, -alpha, at(changes, i)), q), alpha

    def oldest_first(r, xs):
        i, alpha = xs
        beta = weights[i] * _real_vdot(at(changes, i), r)
        return leafwise(stored, tree_add_scale(r, alpha - beta, at(steps, i)), r), None

    q, alphas = scan(newest_first, gradient, order, reverse=True)
    start = leafwise(stored, tree_scale(scale0, q), q)
    return scan(oldest_first, start, (order, alphas))[0]


def scale_by_lbfgs(memory_size=10, scale_init_precond=True):
    """The gradients times L-BFGS's approximation of the inverse Hessian, from the last memory_size steps (Liu & Nocedal, 1989).

    scale_init_precond: start each approximation from <s, y> / <y, y> of the newest pair, and the first from min(1, 1 / |gradient|).
    Pairs of negative curvature, <s, y> <= 0, are left out: the approximation stays positive definite.
    """
    if memory_size < 1:
        raise ValueError(f"scale_by_lbfgs: memory_size must be at least 1, got {memory_size}")

    def init(params):
        memory = lambda: tree.map(lambda p: jnp.zeros((memory_size, *jnp.shape(p)), dtype_of(p)), params)
        weights = jnp.zeros(memory_size, eval_shape(lambda p: jnp.real(jnp.asarray(tree_vdot(p, p))), params).dtype)
        return ScaleByLBFGSState(zero_count(), zeros_like(params), zeros_like(params), memory(), memory(), weights)

    def update(updates, state, params=None):
        need_params("scale_by_lbfgs", params)
        oldest, newest = state.count % memory_size, (state.count - 1) % memory_size
        step, change = tree_sub(params, state.params), tree_sub(updates, state.updates)
        curvature = _real_vdot(step, change)
        use = (state.count > 0) & (curvature > 0)
        weight = jnp.where(use, 1 / jnp.where(use, curvature, 1), 0)
        put = lambda memory, x: memory.at[newest].set(stored(jnp.where(use, x, 0), memory))
        steps = leafwise(put, state.diff_params_memory, step)
        changes = leafwise(put, state.diff_updates_memory, change)
        weights = put(state.weights_memory, weight)
        scale0 = jnp.ones((), weights.dtype)
        if scale_init_precond:
            size = tree_norm(change, squared=True)
            later = jnp.where(use, curvature / jnp.where(use, size, 1), 1)
            norm = tree_norm(updates)
            scale0 = jnp.where(state.count > 0, later, jnp.where(norm > 1, 1 / jnp.maximum(norm, 1), 1))
        order = (oldest + jnp.arange(memory_size)) % memory_size
        direction = two_loop(updates, steps, changes, weights, order, scale0)
        kept = [leafwise(stored, new, old) for new, old in ((params, state.params), (updates, state.updates))]
        return direction, ScaleByLBFGSState(safe_increment(state.count), *kept, steps, changes, weights)

    return GradientTransformation(init, update)


def lbfgs(
    learning_rate=None,
    memory_size=10,
    scale_init_precond=True,
    linesearch=scale_by_zoom_linesearch(20, initial_guess_strategy="one"),  # noqa: B008 (a pair of pure functions)
):
    """L-BFGS (Liu & Nocedal, 1989) with a line search, for deterministic losses. linesearch=None leaves the step to learning_rate.

    The update of a line search takes value, grad and value_fn by keyword; value_and_grad_from_state reuses what the search computed.

    >>> import fgrad, fgrad.numpy as jnp
    >>> loss = lambda x: jnp.sum((x - 3.0) ** 4)
    >>> optimizer = fgrad.optim.lbfgs()
    >>> x = jnp.zeros(2)
    >>> state = optimizer.init(x)
    >>> for _ in range(20):
    ...     value, grad = fgrad.optim.value_and_grad_from_state(loss)(x, state=state)
    ...     updates, state = optimizer.update(grad, state, x, value=value, grad=grad, value_fn=loss)
    ...     x = fgrad.optim.apply_updates(x, updates)
    >>> bool(loss(x) < 1e-6)
    True
    """
    descent = scale(-1.0) if learning_rate is None else scale_by_learning_rate(learning_rate)
    return chain(scale_by_lbfgs(memory_size, scale_init_precond), descent, identity() if linesearch is None else linesearch)
