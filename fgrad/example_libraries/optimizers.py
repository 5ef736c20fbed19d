"""Optimizers as triples of functions: init(params) -> state, update(step, gradients, state) -> state, get_params(state) -> params."""

import functools
import inspect
from typing import Any, NamedTuple

import fgrad.numpy as jnp
from fgrad import tree
from fgrad.tree_util import register_pytree_node, tree_leaves


class OptimizerState(NamedTuple):
    """The states of all leaves, flattened, and the structures that they are put together by."""

    packed_state: Any
    tree_def: Any
    subtree_defs: Any


register_pytree_node(
    OptimizerState,
    lambda s: ((s.packed_state,), (s.tree_def, s.subtree_defs)),
    lambda static, children: OptimizerState(children[0], *static),
)


class Optimizer(NamedTuple):
    """The triple of functions."""

    init_fn: Any
    update_fn: Any
    params_fn: Any


def _states(state):
    return [tree.unflatten(d, leaves) for d, leaves in zip(state.subtree_defs, state.packed_state)]


def _packed(states, structure):
    pairs = [tree.flatten(s) for s in states]
    return OptimizerState(tuple(tuple(leaves) for leaves, _ in pairs), structure, tuple(d for _, d in pairs))


def optimizer(opt_maker):
    """Decorator: an optimizer of one array, a maker of a triple, as one of pytrees."""

    @functools.wraps(opt_maker)
    def maker(*args, **kwargs):
        init, update, get_params = opt_maker(*args, **kwargs)

        def tree_init(params):
            leaves, structure = tree.flatten(params)
            return _packed([init(x) for x in leaves], structure)

        def tree_update(i, grads, state):
            leaves, structure = tree.flatten(grads)
            if structure != state.tree_def:
                raise TypeError(
                    "optimizer update function was passed a gradient tree that did not match the parameter tree structure with which it "
                    f"was initialized: parameter tree {state.tree_def} and grad tree {structure}."
                )
            out = _packed([update(i, g, s) for g, s in zip(leaves, _states(state))], structure)
            for before, after in zip(state.subtree_defs, out.subtree_defs):
                if before != after:
                    raise TypeError(
                        "optimizer update function produced an output structure that did not match its input structure: "
                        f"input {before} and output {after}."
                    )
            return out

        def tree_get_params(state):
            return tree.unflatten(state.tree_def, [get_params(s) for s in _states(state)])

        return Optimizer(tree_init, tree_update, tree_get_params)

    # the maker's own signature
    maker.__signature__ = inspect.signature(opt_maker)
    return maker


def _first(state):
    return state[0]


@optimizer
def sgd(step_size):
    """Gradient descent. step_size, here and below: a number or a function of the step.

    >>> import fgrad.numpy as jnp
    >>> from fgrad.example_libraries import optimizers
    >>> init, update, get_params = optimizers.sgd(0.5)
    >>> get_params(update(0, jnp.array([1.0]), init(jnp.array([2.0]))))
    Array([1.5], dtype=float32)
    """
    rate = make_schedule(step_size)
    return lambda x: x, lambda i, g, x: x - rate(i) * g, lambda x: x


@optimizer
def momentum(step_size, mass):
    """Gradient descent with momentum `mass`."""
    rate = make_schedule(step_size)

    def update(i, g, state):
        x, velocity = state
        velocity = mass * velocity + g
        return x - rate(i) * velocity, velocity

    return lambda x: (x, jnp.zeros_like(x)), update, _first


@optimizer
def nesterov(step_size, mass):
    """Gradient descent with Nesterov's momentum."""
    rate = make_schedule(step_size)

    def update(i, g, state):
        x, velocity = state
        velocity = mass * velocity + g
        return x - rate(i) * (mass * velocity + g), velocity

    return lambda x: (x, jnp.zeros_like(x)), update, _first


@optimizer
def adagrad(step_size, momentum=0.9):
    """Adagrad with momentum. Duchi, Hazan and Singer, JMLR 12 (2011)."""
    rate = make_schedule(step_size)

    def update(i, g, state):
        x, squares, m = state
        squares = squares + g * g
        scale = jnp.where(squares > 0, 1 / jnp.sqrt(jnp.where(squares > 0, squares, 1)), 0)
        m = (1 - momentum) * (g * scale) + momentum * m
        return x - rate(i) * m, squares, m

    return lambda x: (x, jnp.zeros_like(x), jnp.zeros_like(x)), update, _first


@optimizer
def rmsprop(step_size, gamma=0.9, eps=1e-8):
    """RMSProp: steps divided by the root of a running mean of squared gradients."""
    rate = make_schedule(step_size)

    def update(i, g, state):
        x, mean = state
        mean = mean * gamma + g * g * (1 - gamma)
        return x - rate(i) * g / jnp.sqrt(mean + eps), mean

    return lambda x: (x, jnp.zeros_like(x)), update, _first


@optimizer
def rmsprop_momentum(step_size, gamma=0.9, eps=1e-8, momentum=0.9):
    """RMSProp with momentum of its steps."""
    rate = make_schedule(step_size)

    def update(i, g, state):
        x, mean, step = state
        mean = mean * gamma + g * g * (1 - gamma)
        step = momentum * step + rate(i) * g / jnp.sqrt(mean + eps)
        return x - step, mean, step

    return lambda x: (x, jnp.zeros_like(x), jnp.zeros_like(x)), update, _first


def _bias(decay, i, dtype):
    return 1 - jnp.asarray(decay, dtype) ** (i + 1)


@optimizer
def adam(step_size, b1=0.9, b2=0.999, eps=1e-8):
    """Adam. Kingma and Ba, ICLR 2015."""
    rate = make_schedule(step_size)

    def update(i, g, state):
        x, m, v = state
        m, v = (1 - b1) * g + b1 * m, (1 - b2) * g * g + b2 * v
        mean, square = m / _bias(b1, i, m.dtype), v / _bias(b2, i, m.dtype)
        return x - rate(i) * mean / (jnp.sqrt(square) + eps), m, v

    return lambda x: (x, jnp.zeros_like(x), jnp.zeros_like(x)), update, _first


@optimizer
def adamax(step_size, b1=0.9, b2=0.999, eps=1e-8):
    """AdaMax: Adam with the infinity norm."""
    rate = make_schedule(step_size)

    def update(i, g, state):
        x, m, u = state
        m, u = (1 - b1) * g + b1 * m, jnp.maximum(b2 * u, abs(g))
        return x - rate(i) / _bias(b1, i, m.dtype) * m / (u + eps), m, u

    return lambda x: (x, jnp.zeros_like(x), jnp.zeros_like(x)), update, _first


@optimizer
def sm3(step_size, momentum=0.9):
    """SM3: one accumulator per row and per column in place of one per element. Anil, Gupta, Koren and Singer (2019)."""
    rate = make_schedule(step_size)

    def init(x):
        return x, jnp.zeros_like(x), [jnp.zeros(n, x.dtype) for n in x.shape or (1,)]

    def update(i, g, state):
        x, m, rows = state
        square, axes = jnp.atleast_1d(g * g), range(len(rows))
        spread = [v.reshape([-1 if j == k else 1 for j in axes]) for k, v in enumerate(rows)]
        total = functools.reduce(jnp.minimum, spread) + square
        scale = jnp.where(total > 0, 1 / jnp.sqrt(jnp.where(total > 0, total, 1)), 0).reshape(x.shape)
        m = (1 - momentum) * (g * scale) + momentum * m
        return x - rate(i) * m, m, [jnp.max(total, axis=tuple(j for j in axes if j != k)) for k in axes]

    return init, update, _first


# --- schedules ------------------------------------------------------------------------------------------------------------


def constant(step_size):
    """The schedule that is step_size at every step."""
    return lambda i: step_size


def exponential_decay(step_size, decay_steps, decay_rate):
    """step_size * decay_rate ** (i / decay_steps)."""
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(step_size, decay_steps, decay_rate, staircase=False):
    """step_size / (1 + decay_rate * i / decay_steps); staircase rounds the quotient of steps down."""
    if staircase:
        return lambda i: step_size / (1 + decay_rate * jnp.floor(i / decay_steps))
    return lambda i: step_size / (1 + decay_rate * i / decay_steps)


def polynomial_decay(step_size, decay_steps, final_step_size, power=1.0):
    """From step_size to final_step_size, by a power of what is left of decay_steps."""
    left = lambda i: 1 - jnp.minimum(i, decay_steps) / decay_steps
    return lambda i: left(i) ** power * (step_size - final_step_size) + final_step_size


def piecewise_constant(boundaries, values):
    """values[k] for steps beyond k of the boundaries."""
    boundaries, values = jnp.array(boundaries), jnp.array(values)
    if boundaries.ndim != 1 or values.ndim != 1:
        raise ValueError("boundaries and values must be sequences")
    if boundaries.shape[0] != values.shape[0] - 1:
        raise ValueError("boundaries length must be one shorter than values length")
    return lambda i: values[jnp.sum(i > boundaries)]


def make_schedule(scalar_or_schedule):
    """A function of the step from such a function or a number. Raises TypeError for arrays."""
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if jnp.ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise TypeError(type(scalar_or_schedule))


# --- utilities ------------------------------------------------------------------------------------------------------------


def l2_norm(tree):
    """The Euclidean norm of all elements of a pytree."""
    return jnp.sqrt(sum(jnp.vdot(x, x) for x in tree_leaves(tree)))


def clip_grads(grad_tree, max_norm):
    """The pytree, scaled down to the norm max_norm where it is larger."""
    norm = l2_norm(grad_tree)
    return tree.map(lambda g: jnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


class JoinPoint:
    """Marks where a pytree ends and the pytree of a leaf's state begins."""

    def __init__(self, subtree):
        self.subtree = subtree

    def __iter__(self):
        yield self.subtree


def unpack_optimizer_state(opt_state):
    """A pytree like the parameters, with each leaf's state in a JoinPoint: for writing to files."""
    return tree.unflatten(opt_state.tree_def, [JoinPoint(s) for s in _states(opt_state)])


def pack_optimizer_state(marked_pytree):
    """The inverse of unpack_optimizer_state. Raises TypeError where a leaf is no JoinPoint."""
    leaves, structure = tree.flatten(marked_pytree)
    if not all(isinstance(s, JoinPoint) for s in leaves):
        raise TypeError(f"pack_optimizer_state expects a pytree of JoinPoints, got leaves {[type(s).__name__ for s in leaves]}")
    return _packed([s.subtree for s in leaves], structure)
