"""Transformations around another one."""

import functools
import inspect
import math
from typing import Any, NamedTuple

import numpy as np

import fgrad.numpy as jnp
from fgrad import core, tree
from fgrad.api import eval_shape
from fgrad.control.cond import cond
from fgrad.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    StatefulSchedule,
    leafwise,
    safe_increment,
    stored,
    with_extra_args_support,
    zero_count,
    zeros_like,
)
from fgrad.optim.tree_utils import tree_dtype


class InjectHyperparamsState(NamedTuple):
    """The number of steps, the hyperparameters of the next step (assign to them to change it) and the inner state."""

    count: Any
    hyperparams: dict
    inner_state: Any


class InjectStatefulHyperparamsState(NamedTuple):
    """What inject_hyperparams keeps: InjectHyperparamsState with the states of the schedules."""

    count: Any
    hyperparams: dict
    hyperparams_states: dict
    inner_state: Any


class WrappedScheduleState(NamedTuple):
    """The number of steps."""

    count: Any


class WrappedSchedule:
    """A function of the number of steps as a StatefulSchedule."""

    def __init__(self, schedule_fn):
        self.schedule_fn = schedule_fn

    def init(self):
        """The state at the start."""
        return WrappedScheduleState(zero_count())

    def update(self, state, **extra_args):
        """The state of the next step."""
        return WrappedScheduleState(safe_increment(state.count))

    def __call__(self, state, **extra_args):
        """The value."""
        return self.schedule_fn(state.count)


class MultiStepsState(NamedTuple):
    """The position within the k steps, the number of inner updates, their state, the gradients so far and what the last skip test said."""

    mini_step: Any
    gradient_step: Any
    inner_opt_state: Any
    acc_grads: Any
    skip_state: Any = ()


class ApplyIfFiniteState(NamedTuple):
    """Consecutive updates that were not finite, whether the last one was, how many were not in all, and the inner state."""

    notfinite_count: Any
    last_finite: Any
    total_notfinite: Any
    inner_state: Any


class LookaheadState(NamedTuple):
    """The fast optimizer's state and the steps since the last synchronisation."""

    fast_state: Any
    steps_since_sync: Any


class LookaheadParams(NamedTuple):
    """The parameters that the fast optimizer moves, and those that follow them at intervals."""

    fast: Any
    slow: Any

    @classmethod
    def init_synced(cls, params):
        """Both at `params`."""
        return cls(fast=params, slow=params)


class ConditionallyTransformState(NamedTuple):
    """The inner state and the number of steps."""

    inner_state: Any
    step: Any


class ConditionallyMaskState(NamedTuple):
    """The number of steps and the inner state."""

    step: Any
    inner_state: Any


def inject_hyperparams(inner_factory, static_args=(), hyperparam_dtype=None):
    """`inner_factory` with its numeric arguments kept in the state, where they can be read and changed between steps.

    Numbers, arrays and schedules (functions of the step, or a StatefulSchedule, which gets the update's extra arguments) become
    state.hyperparams: numbers in hyperparam_dtype, or the widest dtype of the parameters. Booleans, None, texts and the names in
    static_args stay arguments.

    >>> import fgrad
    >>> optimizer = fgrad.optim.inject_hyperparams(fgrad.optim.sgd)(learning_rate=0.5)
    >>> state = optimizer.init({"w": fgrad.numpy.ones(2)})
    >>> state.hyperparams["learning_rate"] = fgrad.numpy.asarray(0.1)
    >>> optimizer.update({"w": fgrad.numpy.ones(2)}, state)[0]
    {'w': Array([-0.1, -0.1], dtype=float32)}
    """
    static = {static_args} if isinstance(static_args, str) else set(static_args)
    signature = inspect.signature(inner_factory)
    unknown = sorted(static - set(signature.parameters))
    if unknown:
        raise ValueError(f"inject_hyperparams: static_args {unknown} are no arguments; there are {list(signature.parameters)}")

    @functools.wraps(inner_factory)
    def factory(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        scheduled, numeric, other = {}, {}, {}
        for name, value in bound.arguments.items():
            if name in static or isinstance(value, bool):
                other[name] = value
            elif callable(value):
                scheduled[name] = value if isinstance(value, StatefulSchedule) else WrappedSchedule(value)
            else:
                (numeric if isinstance(value, (int, float, np.ndarray, np.generic, core.Array, core.Tracer)) else other)[name] = value

        def cast(value, params):
            if isinstance(value, (core.Array, core.Tracer)) and not value.weak_type:
                return value
            value = jnp.asarray(value)
            dtype = hyperparam_dtype or tree_dtype(params, "highest")
            return jnp.asarray(value, dtype) if dtype is not None and jnp.issubdtype(value.dtype, jnp.floating) else value

        def values(stored_values, states, params, extra_args):
            new = dict(stored_values) | {name: schedule(states[name], **extra_args) for name, schedule in scheduled.items()}
            return {name: cast(value, params) for name, value in new.items()}

        def init(params):
            states = {name: schedule.init() for name, schedule in scheduled.items()}
            hyperparams = values(numeric, states, params, {})
            inner_state = inner_factory(**other, **hyperparams).init(params)
            return InjectStatefulHyperparamsState(zero_count(), hyperparams, states, inner_state)

        def update(updates, state, params=None, **extra_args):
            states = state.hyperparams_states
            hyperparams = values(state.hyperparams, states, updates if params is None else params, extra_args)
            inner = with_extra_args_support(inner_factory(**other, **hyperparams))
            updates, inner_state = inner.update(updates, state.inner_state, params, **extra_args)
            states = {name: schedule.update(states[name], **extra_args) for name, schedule in scheduled.items()}
            return updates, InjectStatefulHyperparamsState(safe_increment(state.count), hyperparams, states, inner_state)

        return GradientTransformationExtraArgs(init, update)

    return factory


inject_stateful_hyperparams = inject_hyperparams


def _update_if(pred, inner, updates, state, params, extra_args, otherwise=None):
    """inner.update where `pred`, which then alone is computed; else `otherwise` (zeros by default) and the same state."""

    def run():
        new, inner_state = inner.update(updates, state, params, **extra_args)
        return tree.map(lambda u: jnp.asarray(u, u.dtype), new), leafwise(stored, inner_state, state)

    def rest():
        shapes = eval_shape(run)[0]
        if otherwise is None:
            return tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes), state
        return leafwise(lambda u, s: jnp.asarray(u, s.dtype), otherwise, shapes), state

    if core.context.trace is core.eval_trace:  # the condition is known
        return run() if pred else rest()
    return cond(pred, run, rest)


def _all_finite(updates):
    finite = [jnp.all(jnp.isfinite(u)) for u in tree.leaves(updates)]
    return functools.reduce(jnp.logical_and, finite, jnp.ones((), bool))


def apply_if_finite(inner, max_consecutive_errors):
    """`inner`, but an update with an inf or NaN does nothing; after max_consecutive_errors of them in a row, they are applied."""
    inner = with_extra_args_support(inner)

    def init(params):
        return ApplyIfFiniteState(zero_count(), jnp.ones((), bool), zero_count(), inner.init(params))

    def update(updates, state, params=None, **extra_args):
        finite = _all_finite(updates)
        count = jnp.where(finite, 0, safe_increment(state.notfinite_count))
        pred = finite | (count > max_consecutive_errors)
        updates, inner_state = _update_if(pred, inner, updates, state.inner_state, params, extra_args)
        total = jnp.where(finite, state.total_notfinite, safe_increment(state.total_notfinite))
        return updates, ApplyIfFiniteState(count, finite, total, inner_state)

    return GradientTransformationExtraArgs(init, update)


def conditionally_transform(inner, should_transform_fn, forward_extra_args=False):
    """`inner` where should_transform_fn(step) (with the extra arguments if forward_extra_args); else updates pass unchanged."""
    inner = with_extra_args_support(inner)

    def update(updates, state, params=None, **extra_args):
        pred = should_transform_fn(state.step, **(extra_args if forward_extra_args else {}))
        new, inner_state = _update_if(pred, inner, updates, state.inner_state, params, extra_args, otherwise=updates)
        return new, ConditionallyTransformState(inner_state, safe_increment(state.step))

    return GradientTransformationExtraArgs(lambda params: ConditionallyTransformState(inner.init(params), zero_count()), update)


def conditionally_mask(inner, should_transform_fn, forward_extra_args=False):
    """`inner` where should_transform_fn(step) (with the extra arguments if forward_extra_args); else updates are zero."""
    inner = with_extra_args_support(inner)

    def update(updates, state, params=None, **extra_args):
        pred = should_transform_fn(state.step, **(extra_args if forward_extra_args else {}))
        new, inner_state = _update_if(pred, inner, updates, state.inner_state, params, extra_args)
        return new, ConditionallyMaskState(safe_increment(state.step), inner_state)

    return GradientTransformationExtraArgs(lambda params: ConditionallyMaskState(zero_count(), inner.init(params)), update)


def skip_not_finite(updates, gradient_step, params):
    """For MultiSteps: skip updates with an inf or NaN."""
    bad = [jnp.sum(~jnp.isfinite(u)) for u in tree.leaves(updates)]
    total = sum(bad, jnp.zeros((), jnp.int32))
    return total > 0, {"should_skip": total > 0, "num_not_finite": total}


def skip_large_updates(updates, gradient_step, params, max_squared_norm):
    """For MultiSteps, with max_squared_norm bound by functools.partial: skip updates whose squared norm is not below it (NaN too)."""
    total = sum([jnp.sum(jnp.square(u)) for u in tree.leaves(updates)], jnp.zeros(()))
    return ~(total < max_squared_norm), {"should_skip": ~(total < max_squared_norm), "norm_squared": total}


class MultiSteps:
    """`opt` on the mean (or, without use_grad_mean, the sum) of k gradients: zero updates but at every k-th call.

    every_k_schedule: k, or a function of the number of inner updates. should_skip_update_fn(updates, gradient_step, params) ->
    (skip, info): gradients that do not count. accumulator_dtype: what the sum is kept in. Between the k-th calls `opt` does not run.
    """

    def __init__(self, opt, every_k_schedule, use_grad_mean=True, should_skip_update_fn=None, accumulator_dtype=jnp.float32):
        if isinstance(every_k_schedule, int) and every_k_schedule < 1:
            raise ValueError(f"MultiSteps: every_k_schedule must be at least 1, got {every_k_schedule}")
        self._opt = with_extra_args_support(opt)
        self._k = every_k_schedule if callable(every_k_schedule) else lambda step: every_k_schedule
        self._mean, self._dtype = use_grad_mean, accumulator_dtype
        self._skip = should_skip_update_fn or (lambda updates, step, params: (jnp.zeros((), bool), ()))

    @property
    def inner_opt(self):
        """The wrapped transformation."""
        return self._opt

    def init(self, params):
        """The state with nothing accumulated."""
        step = zero_count()
        skip_state = self._skip(zeros_like(params), step, params)[1]
        return MultiStepsState(zero_count(), step, self._opt.init(params), zeros_like(params, self._dtype), skip_state)

    def update(self, updates, state, params=None, **extra_args):
        """One gradient more; the inner update at every k-th."""
        skip, skip_state = self._skip(updates, state.gradient_step, params)
        skip = jnp.asarray(skip)
        if skip.shape != () or skip.dtype != jnp.bool_:
            raise ValueError(f"MultiSteps: should_skip_update_fn must give a boolean scalar, got {skip.dtype}{list(skip.shape)}")
        emit = ~skip & (state.mini_step == self._k(state.gradient_step) - 1)

        def add(g, total):
            new = total + (g - total) / (state.mini_step + 1) if self._mean else total + g
            return stored(jnp.where(skip, total, new), total)

        total = leafwise(add, updates, state.acc_grads)
        seen = leafwise(stored, total, updates)
        new, inner_state = _update_if(emit, self._opt, seen, state.inner_opt_state, params, extra_args)
        return new, MultiStepsState(
            jnp.where(emit, 0, jnp.where(skip, state.mini_step, state.mini_step + 1)),
            jnp.where(emit, safe_increment(state.gradient_step), state.gradient_step),
            inner_state,
            tree.map(lambda t: jnp.where(emit, jnp.zeros_like(t), t), total),
            skip_state,
        )

    def has_updated(self, state):
        """Whether the last call was a k-th one."""
        return (state.mini_step == 0) & (state.gradient_step > 0)

    def gradient_transformation(self):
        """The same as a GradientTransformationExtraArgs."""
        return GradientTransformationExtraArgs(self.init, self.update)


def lookahead(fast_optimizer, sync_period, slow_step_size, reset_state=False):
    """Lookahead (Zhang et al., 2019): every sync_period steps the slow parameters go slow_step_size of the way to the fast ones,
    which then start again there. Parameters and updates are LookaheadParams; evaluate with params.slow.

    reset_state: the fast optimizer forgets its state then.
    """
    if sync_period < 1:
        raise ValueError(f"lookahead: sync_period must be at least 1, got {sync_period}")

    def init(params):
        return LookaheadState(fast_optimizer.init(getattr(params, "fast", params)), zero_count())

    def update(updates, state, params=None):
        if not isinstance(params, LookaheadParams):
            raise ValueError("lookahead: the update needs params as LookaheadParams: make them with LookaheadParams.init_synced(params)")
        updates, fast_state = fast_optimizer.update(updates, state.fast_state, params.fast)
        sync = state.steps_since_sync == sync_period - 1

        def leaf(u, fast, slow):
            gap = fast + u - slow
            zero = jnp.zeros_like(gap)
            return jnp.where(sync, u - (1 - slow_step_size) * gap, u), jnp.where(sync, slow_step_size * gap, zero)

        fast, slow = leafwise(leaf, updates, params.fast, params.slow, outs=2)
        if reset_state:
            fresh = fast_optimizer.init(params.fast)
            fast_state = leafwise(lambda old, new: jnp.where(sync, new, old), fast_state, fresh)
        return LookaheadParams(fast, slow), LookaheadState(fast_state, (state.steps_since_sync + 1) % sync_period)

    return GradientTransformation(init, update)


def flatten(inner):
    """`inner` on all parameters as one vector: fewer, longer operations for many small leaves."""
    inner = with_extra_args_support(inner)

    def join(values):
        leaves = [jnp.ravel(x) for x in tree.leaves(values)]
        return jnp.concatenate(leaves) if leaves else jnp.zeros(0)

    def update(updates, state, params=None, **extra_args):
        flat, state = inner.update(join(updates), state, None if params is None else join(params), **extra_args)
        leaves, treedef = tree.flatten(updates)
        ends = np.cumsum([0] + [math.prod(jnp.shape(x)) for x in leaves])
        parts = [jnp.asarray(flat[a:b], x.dtype).reshape(x.shape) for a, b, x in zip(ends, ends[1:], leaves)]
        return tree.unflatten(treedef, parts), state

    return GradientTransformationExtraArgs(lambda params: inner.init(join(params)), update)
