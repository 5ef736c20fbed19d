"""Optimism (a step ahead along the change of the gradient) and step sizes from distances, under optax's names."""

import warnings
from typing import Any, NamedTuple

import fgrad.numpy as jnp
from fgrad import tree
from fgrad.optim.base import GradientTransformation, leafwise, need_params
from fgrad.optim.combining import chain
from fgrad.optim.moments import scale_by_adam
from fgrad.optim.scaling import scale_by_learning_rate
from fgrad.optim.tree_utils import tree_cast, tree_zeros_like


class ScaleByOptimisticGradientState(NamedTuple):
    """Whether no step was made yet, and the gradients of the last one."""

    is_initial_step: Any
    previous_gradient: Any


class ScaleByDistanceOverGradientsState(NamedTuple):
    """Of each leaf: the greatest distance from the start, the sum of squared gradients, the parameters at the start."""

    max_dist: Any
    grad_sum_of_squares: Any
    init_params: Any


def scale_by_optimistic_gradient(alpha=1.0, beta=1.0):
    """alpha g + beta (g - the last g) (https://arxiv.org/abs/1711.00141)."""

    def init(params):
        return ScaleByOptimisticGradientState(jnp.array(True), tree_zeros_like(params))

    def update(updates, state, params=None):
        def ahead(g, last):
            return (alpha + beta) * g - beta * jnp.where(state.is_initial_step, g, last)

        return leafwise(ahead, updates, state.previous_gradient), ScaleByOptimisticGradientState(jnp.array(False), updates)

    return GradientTransformation(init, update)


def optimistic_gradient_descent(learning_rate, alpha=1.0, beta=1.0):
    """Gradient descent by scale_by_optimistic_gradient."""
    return chain(scale_by_optimistic_gradient(alpha, beta), scale_by_learning_rate(learning_rate))


def optimistic_adam_v2(
    learning_rate, *, alpha=1.0, beta=1.0, b1=0.9, b2=0.999, eps=1e-8, eps_root=0.0, mu_dtype=None, nesterov=True
):  # fmt: skip
    """Adam whose steps are made by scale_by_optimistic_gradient."""
    moments = scale_by_adam(b1=b1, b2=b2, eps=eps, eps_root=eps_root, mu_dtype=mu_dtype, nesterov=nesterov)
    return chain(moments, scale_by_optimistic_gradient(alpha, beta), scale_by_learning_rate(learning_rate))


def optimistic_adam(learning_rate, optimism=None, b1=0.9, b2=0.999, eps=1e-8, eps_root=0.0, mu_dtype=None, *, nesterov=True):
    """optimistic_adam_v2 with alpha = learning_rate, beta = optimism (learning_rate by default) and a rate of 1. Deprecated in optax."""
    warnings.warn("optimistic_adam is deprecated, use optimistic_adam_v2", DeprecationWarning, stacklevel=2)
    if callable(learning_rate):
        raise ValueError("optimistic_adam takes no schedule: optimistic_adam_v2 does")
    beta = learning_rate if optimism is None else optimism
    return optimistic_adam_v2(
        1.0, alpha=learning_rate, beta=beta, b1=b1, b2=b2, eps=eps, eps_root=eps_root, mu_dtype=mu_dtype, nesterov=nesterov
    )


def scale_by_distance_over_gradients(reps_rel=1e-6, eps=1e-8, param_dtype=jnp.float32, global_scale=1.0):
    """Updates times (the greatest distance from the start) / sqrt(sum of squared gradients), leaf by leaf: no learning rate to choose
    (https://arxiv.org/abs/2302.12022).

    reps_rel: the first distance, relative to 1 + the norm of the parameters; param_dtype: of the parameters that are kept.
    """

    def norm(x):
        return jnp.sqrt(jnp.sum(jnp.square(x)))

    def init(params):
        first = tree.map(lambda x: reps_rel * (1 + norm(x)), params)
        return ScaleByDistanceOverGradientsState(first, tree.map(lambda x: jnp.zeros(1), params), tree_cast(params, param_dtype))

    def update(updates, state, params=None):
        need_params("scale_by_distance_over_gradients", params)
        far = leafwise(lambda d, x, x0: jnp.maximum(d, norm(x - x0)), state.max_dist, params, state.init_params)
        squares = leafwise(lambda s, g: s + jnp.sum(jnp.square(g)), state.grad_sum_of_squares, updates)
        out = leafwise(lambda g, d, s: global_scale * (d / jnp.sqrt(s + eps)) * g, updates, far, squares)
        return out, ScaleByDistanceOverGradientsState(far, squares, state.init_params)

    return GradientTransformation(init, update)
