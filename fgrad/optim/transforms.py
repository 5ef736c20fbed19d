"""sgd, adam, adamw, clipping and chaining."""

from collections.abc import Callable
from typing import Any, NamedTuple

import fgrad.numpy as jnp
from fgrad import tree


class GradientTransformation(NamedTuple):
    """init(params) -> state; update(grads, state, params) -> (updates, state)."""

    init: Callable
    update: Callable


class ScheduleState(NamedTuple):
    count: Any


class MomentumState(NamedTuple):
    count: Any
    trace: Any


class AdamState(NamedTuple):
    count: Any
    mu: Any
    nu: Any


def _rate(learning_rate, count):
    return learning_rate(count) if callable(learning_rate) else learning_rate


def apply_updates(params, updates):
    """params + updates, leaf by leaf, in the dtypes of params.

    >>> import fgrad
    >>> fgrad.optim.apply_updates({"w": fgrad.numpy.ones(2)}, {"w": fgrad.numpy.ones(2)})
    {'w': Array([2., 2.], dtype=float32)}
    """
    return tree.map(lambda p, u: jnp.asarray(p + u, jnp.asarray(p).dtype), params, updates)


def global_norm(updates):
    """The Euclidean norm of all leaves together."""
    total = 0.0
    for x in tree.leaves(updates):
        total = total + jnp.sum(jnp.square(jnp.abs(x)))
    return jnp.sqrt(total)


def clip_by_global_norm(max_norm):
    """Scale the updates down to a global norm of max_norm where theirs is larger (Pascanu et al., 2012)."""

    def update(updates, state, params=None):
        norm = global_norm(updates)
        scale = jnp.where(norm < max_norm, 1.0, max_norm / norm)
        return tree.map(lambda u: u * scale.astype(u.dtype), updates), state

    return GradientTransformation(lambda params: (), update)


def chain(*transforms):
    """Transformations one after another."""

    def update(updates, state, params=None):
        if len(state) != len(transforms):
            raise ValueError(f"chain: the state has {len(state)} parts for {len(transforms)} transformations; make it with init(params)")
        new = []
        for t, s in zip(transforms, state):
            updates, s = t.update(updates, s, params)
            new.append(s)
        return updates, tuple(new)

    return GradientTransformation(lambda params: tuple(t.init(params) for t in transforms), update)


def sgd(learning_rate, momentum=None, nesterov=False):
    """Stochastic gradient descent, with (Nesterov) momentum (Sutskever et al., 2013)."""

    def init(params):
        count = jnp.zeros((), jnp.int32)
        return ScheduleState(count) if momentum is None else MomentumState(count, tree.map(jnp.zeros_like, params))

    def update(grads, state, params=None):
        lr = _rate(learning_rate, state.count)
        if momentum is None:
            return tree.map(lambda g: -lr * g, grads), ScheduleState(state.count + 1)
        trace = tree.map(lambda g, t: g + momentum * t, grads, state.trace)
        step = tree.map(lambda g, t: g + momentum * t, grads, trace) if nesterov else trace
        return tree.map(lambda s: -lr * s, step), MomentumState(state.count + 1, trace)

    return GradientTransformation(init, update)


def adam(learning_rate, b1=0.9, b2=0.999, eps=1e-8):
    """Adam (Kingma & Ba, 2015)."""
    return adamw(learning_rate, b1, b2, eps, weight_decay=0.0)


def adamw(learning_rate, b1=0.9, b2=0.999, eps=1e-8, weight_decay=1e-4, mask=None):
    """Adam with decoupled weight decay (Loshchilov & Hutter, 2019). mask: a tree of booleans (or a function of
    params): which leaves decay.

    >>> import fgrad
    >>> init, update = fgrad.optim.adamw(0.1)
    >>> params = {"w": 1.0}
    >>> updates, state = update({"w": 2.0}, init(params), params)
    >>> round(float(updates["w"]), 4)
    -0.1
    """

    def init(params):
        return AdamState(jnp.zeros((), jnp.int32), tree.map(jnp.zeros_like, params), tree.map(jnp.zeros_like, params))

    def update(grads, state, params=None):
        if params is None and weight_decay:
            raise ValueError("adamw: update needs params for weight decay: call update(grads, state, params)")
        count = state.count + 1
        mu = tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.mu, grads)
        nu = tree.map(lambda v, g: b2 * v + (1 - b2) * jnp.square(g), state.nu, grads)
        c1, c2 = 1 - b1 ** count.astype(jnp.float32), 1 - b2 ** count.astype(jnp.float32)
        step = tree.map(lambda m, v: (m / c1.astype(m.dtype)) / (jnp.sqrt(v / c2.astype(v.dtype)) + eps), mu, nu)
        if weight_decay:
            decays = tree.map(lambda p: True, params) if mask is None else mask(params) if callable(mask) else mask
            step = tree.map(lambda s, p, d: s + weight_decay * p if d else s, step, params, decays)
        lr = _rate(learning_rate, state.count)
        return tree.map(lambda s: jnp.asarray(-lr * s, s.dtype), step), AdamState(count, mu, nu)

    return GradientTransformation(init, update)
