"""Wrappers and aggregations: a scale that falls on plateaus, complex parameters as pairs, differential privacy, Sophia."""

from typing import Any, NamedTuple

import fgrad.numpy as jnp
from fgrad import debug, random, tree
from fgrad.api import grad, jvp
from fgrad.control.cond import cond
from fgrad.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    corrected,
    identity,
    leafwise,
    moment,
    need_params,
    safe_increment,
    stored,
    with_extra_args_support,
    zero_count,
    zeros_like,
)
from fgrad.optim.clipping import per_example_global_norm_clip
from fgrad.optim.combining import chain
from fgrad.optim.scaling import add_decayed_weights, noise_key, scale_by_learning_rate, trace
from fgrad.optim.tree_utils import tree_cast, tree_dtype, tree_random_like, tree_size


class ReduceLROnPlateauState(NamedTuple):
    """The scale, the best value, values without improvement and left of the cooldown, and the mean of the `count` latest values."""

    scale: Any
    best_value: Any
    plateau_count: Any
    cooldown_count: Any
    count: Any
    avg_value: Any


class SplitRealAndImaginaryState(NamedTuple):
    """The wrapped transformation's state."""

    inner_state: Any


class SplitRealAndImaginaryArrays(NamedTuple):
    """A complex array in two real ones."""

    real: Any
    imaginary: Any


class DifferentiallyPrivateAggregateState(NamedTuple):
    """The key of the next noise."""

    rng_key: Any


class HutchinsonState(NamedTuple):
    """The key of the next sample."""

    key: Any


class SophiaState(NamedTuple):
    """The step count, the averages of the gradients and of the Hessian's diagonal, and the state of its estimator."""

    count: Any
    mu: Any
    nu: Any
    hessian_fn_state: Any


def reduce_on_plateau(factor=0.1, patience=10, rtol=1e-4, atol=0.0, cooldown=0, accumulation_size=1, min_scale=0.0):
    """updates * scale, where scale is multiplied by `factor` when `value` has not improved for `patience` times.

    The update takes `value` by keyword. Improved: below (1 - rtol) * best - atol. cooldown: times without counting after a
    reduction. accumulation_size: values that are averaged into one. Raises ValueError for a factor or tolerances out of range.
    """
    if not 0.0 < factor < 1.0:
        raise ValueError(f"reduce_on_plateau: factor must be in the range (0, 1), got {factor}")
    if rtol < 0.0 or atol < 0.0 or rtol == atol == 0.0 or rtol > 1.0:
        raise ValueError(f"reduce_on_plateau: rtol must be in [0, 1], atol non-negative and one of them positive, got {rtol} and {atol}")

    def init(params):
        high = tree_dtype(params, "highest")
        return ReduceLROnPlateauState(
            scale=jnp.ones((), tree_dtype(params, "lowest")),
            best_value=jnp.full((), jnp.inf, high),
            plateau_count=zero_count(),
            cooldown_count=zero_count(),
            count=zero_count(),
            avg_value=jnp.zeros((), high),
        )

    def judged(state):
        """The state after a mean is complete."""
        better = state.avg_value < (1 - rtol) * state.best_value - atol
        waited = jnp.where(better, 0, safe_increment(state.plateau_count))
        cooling = state.cooldown_count > 0
        reduce = ~cooling & (waited == patience)
        scale = jnp.maximum(jnp.where(reduce, state.scale * factor, state.scale), min_scale)
        new = ReduceLROnPlateauState(
            scale=jnp.where(cooling, state.scale, scale),
            best_value=jnp.where(better, state.avg_value, state.best_value),
            plateau_count=jnp.where(cooling | reduce, 0, waited),
            cooldown_count=jnp.where(cooling, state.cooldown_count - 1, jnp.where(reduce, cooldown, 0)),
            count=jnp.zeros_like(state.count),
            avg_value=jnp.zeros_like(state.avg_value),
        )
        return tree.map(stored, new, state)

    def update(updates, state, params=None, *, value, **extra_args):
        count = safe_increment(state.count)
        mean = (state.count * state.avg_value + jnp.asarray(value, state.avg_value.dtype)) / count
        state = state._replace(count=count, avg_value=stored(mean, state.avg_value))
        complete = count == accumulation_size
        state = tree.map(lambda new, old: jnp.where(complete, new, old), judged(state), state)
        return leafwise(lambda u: state.scale * u, updates), state

    return GradientTransformationExtraArgs(init, update)


def split_real_and_imaginary(inner):
    """`inner` on complex parameters as pairs of real ones."""
    pair = lambda x: SplitRealAndImaginaryArrays(jnp.real(x), jnp.imag(x)) if jnp.iscomplexobj(x) else x
    is_pair = lambda x: isinstance(x, SplitRealAndImaginaryArrays)
    joined = lambda x: x.real + 1j * x.imaginary if is_pair(x) else x

    def update(updates, state, params=None):
        params = None if params is None else tree.map(pair, params)
        updates, inner_state = inner.update(tree.map(pair, updates), state.inner_state, params)
        return tree.map(joined, updates, is_leaf=is_pair), SplitRealAndImaginaryState(inner_state)

    return GradientTransformation(lambda params: SplitRealAndImaginaryState(inner.init(tree.map(pair, params))), update)


def differentially_private_aggregate(l2_norm_clip, noise_multiplier, key=None, *, seed=None):
    """The mean of per-example gradients (along the first axis), each clipped to norm l2_norm_clip, with normal noise of deviation
    l2_norm_clip * noise_multiplier on their sum (Abadi et al., 2016).

    key: a key or an integer seed (`seed` is an older name for it).
    """
    key = noise_key("differentially_private_aggregate", key, seed)
    deviation = l2_norm_clip * noise_multiplier

    def update(updates, state, params=None):
        leaves, treedef = tree.flatten(updates)
        clipped, _ = per_example_global_norm_clip(leaves, l2_norm_clip)
        size = jnp.shape(leaves[0])[0]
        new_key, *keys = random.split(state.rng_key, len(leaves) + 1)
        noisy = [(g + deviation * random.normal(k, g.shape, g.dtype)) / size for g, k in zip(clipped, keys)]
        return tree.unflatten(treedef, noisy), DifferentiallyPrivateAggregateState(new_key)

    return GradientTransformation(lambda params: DifferentiallyPrivateAggregateState(key), update)


def dpsgd(learning_rate, l2_norm_clip, noise_multiplier, seed, momentum=None, nesterov=False):
    """DP-SGD (Abadi et al., 2016) on per-example gradients. The privacy it gives has to be accounted for separately."""
    return chain(
        differentially_private_aggregate(l2_norm_clip, noise_multiplier, seed),
        identity() if momentum is None else trace(momentum, nesterov),
        scale_by_learning_rate(learning_rate),
    )


def hutchinson_estimator_diag_hessian(random_seed=None):
    """An estimate of the Hessian's diagonal by a random sign vector (Hutchinson, 1989): the update takes `obj_fn`, the loss of params.

    random_seed: a key.
    """

    def init(params):
        return HutchinsonState(random.PRNGKey(0) if random_seed is None else random_seed)

    def update(updates, state, params=None, obj_fn=None, **extra_args):
        need_params("hutchinson_estimator_diag_hessian", params)
        if obj_fn is None:
            raise ValueError("hutchinson_estimator_diag_hessian: obj_fn must be given to the update")
        key, sample_key = random.split(state.key)
        signs = tree_random_like(sample_key, params, random.rademacher, jnp.float32)
        signs = tree_cast(signs, tree_dtype(params, "lowest"))
        product = jvp(grad(obj_fn), (params,), (signs,))[1]
        return leafwise(lambda h, s: h * s, product, signs), HutchinsonState(key)

    return GradientTransformationExtraArgs(init, update)


_HUTCHINSON = hutchinson_estimator_diag_hessian()


def scale_by_sophia(
    b1=0.965,
    b2=0.99,
    eps=1e-8,
    gamma=0.01,
    clip_threshold=1.0,
    update_interval=10,
    hessian_diagonal_fn=_HUTCHINSON,
    mu_dtype=None,
    verbose=False,
    print_win_rate_every_n_steps=0,
):
    """Momentum over max(gamma * Hessian's diagonal, eps), clipped to +-clip_threshold (Liu et al., 2023).

    The diagonal is estimated at every update_interval-th step by hessian_diagonal_fn, which gets the update's keyword arguments.
    """
    estimator = with_extra_args_support(hessian_diagonal_fn)

    def init(params):
        return SophiaState(zero_count(), zeros_like(params, mu_dtype), zeros_like(params), estimator.init(params))

    def report(updates, count):
        inside = sum(jnp.sum(jnp.abs(u) < clip_threshold) for u in tree.leaves(updates)) / tree_size(updates)
        show = lambda: debug.print("Sophia optimizer win rate: {}", inside)
        cond(count % print_win_rate_every_n_steps == 0, show, lambda: None)

    def update(updates, state, params=None, **extra_args):
        need_params("sophia", params)
        count = safe_increment(state.count)
        mu = leafwise(lambda g, m: moment(b1, g, m), updates, state.mu)
        correction = 1 - b1**count
        out = leafwise(lambda m, h: corrected(m, correction) / jnp.maximum(gamma * h, eps), mu, state.nu)
        if clip_threshold is not None:
            if verbose:
                report(out, count)
            out = leafwise(lambda u: jnp.clip(u, -clip_threshold, clip_threshold), out)

        def estimated():
            diagonal, new = estimator.update(updates, state.hessian_fn_state, params=params, **extra_args)
            return tree.map(stored, new, state.hessian_fn_state), leafwise(lambda h, v: stored(moment(b2, h, v), v), diagonal, state.nu)

        hessian_state, nu = cond(state.count % update_interval == 0, estimated, lambda: (state.hessian_fn_state, state.nu))
        return out, SophiaState(count, leafwise(stored, mu, state.mu), nu, hessian_state)

    return GradientTransformationExtraArgs(init, update)


def sophia(
    learning_rate,
    b1=0.965,
    b2=0.99,
    eps=1e-8,
    weight_decay=1e-4,
    weight_decay_mask=None,
    gamma=0.01,
    clip_threshold=1.0,
    update_interval=10,
    hessian_diagonal_fn=_HUTCHINSON,
    mu_dtype=None,
    verbose=False,
    print_win_rate_every_n_steps=0,
):
    """Sophia (Liu et al., 2023): momentum with a light estimate of the Hessian's diagonal. The update takes obj_fn, the loss of params.

    >>> import fgrad, fgrad.numpy as jnp
    >>> loss = lambda x: jnp.sum(x**2)
    >>> optimizer, x = fgrad.optim.contrib.sophia(0.1), jnp.array([1.0, -2.0])
    >>> updates, state = optimizer.update(fgrad.grad(loss)(x), optimizer.init(x), x, obj_fn=loss)
    >>> updates.round(3)
    Array([-0.1,  0.1], dtype=float32)
    """
    scaling = scale_by_sophia(
        b1, b2, eps, gamma, clip_threshold, update_interval, hessian_diagonal_fn, mu_dtype, verbose, print_win_rate_every_n_steps
    )
    return chain(scaling, add_decayed_weights(weight_decay, weight_decay_mask), scale_by_learning_rate(learning_rate))
