"""What an optimizer is: a pair of pure functions over pytrees, and the helpers all of them are written with."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import fgrad.numpy as jnp
from fgrad import tree
from fgrad.api import custom_jvp, jit
from fgrad.core import context, eval_trace

# For annotations, as optax names them.
Params = Updates = OptState = Any
ScalarOrSchedule = MaskOrFn = Any


class Schedule(Protocol):
    """A function of the number of steps."""

    def __call__(self, count):
        """The value at a step."""


@runtime_checkable
class StatefulSchedule(Protocol):
    """A schedule with a state: init() -> state; update(state, **extra_args) -> state; a call with the state gives the value."""

    def init(self):
        """The state at the start."""

    def update(self, state, **extra_args):
        """The state of the next step."""

    def __call__(self, state, **extra_args):
        """The value."""


class GradientTransformation(NamedTuple):
    """init(params) -> state; update(updates, state, params=None) -> (updates, state).

    Both are pure. `updates` are gradients that turn into the steps `apply_updates` adds to the parameters; a state is a pytree of arrays.
    """

    init: Callable
    update: Callable


class GradientTransformationExtraArgs(GradientTransformation):
    """A GradientTransformation whose update takes further keyword arguments, such as value and value_fn of a line search."""


class EmptyState(NamedTuple):
    """The state of a transformation that remembers nothing."""


def init_empty_state(params):
    """An init for transformations without a state."""
    return EmptyState()


def with_extra_args_support(tx):
    """`tx` with an update that takes extra keyword arguments, and drops them where `tx` knows none."""
    if isinstance(tx, GradientTransformationExtraArgs):
        return tx

    def update(updates, state, params=None, **extra_args):
        return tx.update(updates, state, params)

    return GradientTransformationExtraArgs(tx.init, update)


_EAGER_CALLS = 2


def compiled(update):
    """update(updates, state, params=None), which outside of transformations is one program from its third call on.

    Not before: wrappers that make an optimizer anew at every step call each once, and compiling takes as long as some hundred updates.
    """
    calls, program = 0, None

    def wrapped(updates, state, params=None):
        nonlocal calls, program
        if context.trace is not eval_trace:
            return update(updates, state, params)
        if calls < _EAGER_CALLS:
            calls += 1
            return update(updates, state, params)
        if program is None:
            program = jit(update)
        return program(updates, state, params)

    return wrapped


def identity():
    """Updates pass unchanged."""
    return GradientTransformation(init_empty_state, lambda updates, state, params=None: (updates, state))


def set_to_zero():
    """All updates become zero: the parameters stay as they are."""
    return stateless(lambda updates, params: tree.map(jnp.zeros_like, updates))


def stateless(f):
    """The transformation without a state whose updates are f(updates, params), on whole trees."""
    return GradientTransformation(init_empty_state, lambda updates, state, params=None: (f(updates, params), state))


def stateless_with_tree_map(f):
    """The transformation without a state whose updates are f(update, param), leaf by leaf (param is None without params)."""

    def update(updates, params):
        return leafwise(lambda u: f(u, None), updates) if params is None else leafwise(f, updates, params)

    return stateless(update)


def need_params(name, params):
    """Raises ValueError where an update that depends on the parameters was called without them."""
    if params is None:
        raise ValueError(f"{name}: the update needs the parameters: call update(updates, state, params)")


def leafwise(f, updates, *rest, outs=1):
    """f over the leaves of `updates` and what lies at their place in `rest`; a tuple of `outs` trees where f returns tuples.

    None in `updates` stays None, whatever lies there in `rest` (the gradient of what is no parameter).
    Raises ValueError, with the paths that differ, where the structures do not agree.
    """
    leaves, treedef = tree.flatten(updates)
    try:
        columns = [_up_to(treedef, other) for other in rest]
    except ValueError:
        leaves, treedef = tree.flatten(updates, lambda x: x is None)
        if all(x is not None for x in leaves):
            raise
        columns = [_up_to(treedef, other) for other in rest]
    nothing = None if outs == 1 else (None,) * outs
    results = [nothing if xs[0] is None else f(*xs) for xs in zip(leaves, *columns)]
    if outs == 1:
        return tree.unflatten(treedef, results)
    return tuple(tree.unflatten(treedef, [r[i] for r in results]) for i in range(outs))


def _up_to(treedef, other):
    try:
        return treedef.flatten_up_to(other)
    except (ValueError, TypeError):
        where = tree.difference(treedef, tree.structure(other))
        raise ValueError(
            "the updates and the optimizer's state or parameters have different structures"
            f"{where or f': {treedef} and {tree.structure(other)}'}; make the state with init(params) of the same parameters"
        ) from None


def dtype_of(x):
    """The dtype of an array, a number or a ShapeDtypeStruct."""
    return x.dtype if hasattr(x, "dtype") else jnp.asarray(x).dtype


def zeros_like(params, dtype=None):
    """A tree of zeros, in `dtype` or the dtypes of `params`."""
    return tree.map(lambda p: jnp.zeros_like(p, dtype=dtype), params)


def full_like(params, value):
    """A tree of `value`, in the dtypes of `params`."""
    return tree.map(lambda p: jnp.full_like(p, value), params)


def zero_count():
    """A step counter at its start: an int32 scalar."""
    return jnp.zeros((), jnp.int32)


def safe_increment(count):
    """count + 1, or count where it is the largest value of its dtype. Raises ValueError unless that is an integer or a float."""
    count = jnp.asarray(count)
    if not (jnp.issubdtype(count.dtype, jnp.integer) or jnp.issubdtype(count.dtype, jnp.floating)):
        raise ValueError(f"safe_increment: count must be an integer or a float, got {count.dtype.name}")
    info = jnp.iinfo if jnp.issubdtype(count.dtype, jnp.integer) else jnp.finfo
    return jnp.where(count < info(count.dtype).max, count + 1, count)


def abs_sq(x):
    """|x|^2, real also for complex x."""
    x = jnp.asarray(x)
    return jnp.square(x) if jnp.isrealobj(x) else jnp.square(jnp.real(x)) + jnp.square(jnp.imag(x))


def moment(decay, new, old):
    """decay * old + (1 - decay) * new: one step of an exponential moving average."""
    return decay * old + (1 - decay) * new


def corrected(x, correction):
    """x divided by a bias correction 1 - decay^t, in the dtype of x: times its inverse, one division for all elements."""
    return x * jnp.asarray(1 / correction, x.dtype)


def root(x, eps):
    """sqrt(x + eps) of x >= 0, without the sum where eps is the number 0."""
    return jnp.sqrt(x if isinstance(eps, (int, float)) and eps == 0 else x + eps)


def stored(x, like):
    """What a state keeps of x: its dtype never changes, so that a step can be the body of a scan and reuse donated memory."""
    return jnp.asarray(x, jnp.asarray(like).dtype)


def safe_norm(x, min_norm, ord=None, axis=None, keepdims=False):
    """The norm of x (as numpy.linalg.norm), at least min_norm, with a derivative of zero (not NaN) where it is not above min_norm."""
    if ord is None:
        return _root_above(jnp.sum(abs_sq(x), axis=axis, keepdims=keepdims), min_norm)
    small = jnp.linalg.norm(x, ord=ord, axis=axis, keepdims=True) <= min_norm
    norm = jnp.linalg.norm(jnp.where(small, jnp.ones_like(x), x), ord=ord, axis=axis, keepdims=keepdims)
    return jnp.where(jnp.reshape(small, norm.shape), min_norm, norm)


def safe_root_mean_squares(x, min_rms):
    """sqrt(mean(|x|^2)), at least min_rms, with a derivative of zero where it is not above min_rms."""
    return _root_above(jnp.mean(abs_sq(x)), min_rms)


def _root_above(square, least):
    """sqrt(square), or `least` where that is larger. The root is of 1 there: its derivative at 0 is infinite."""
    small = square <= least**2
    return jnp.where(small, least, jnp.sqrt(jnp.where(small, 1, square)))


def scale_gradient(inputs, scale):
    """The tree `inputs`, with a derivative that is `scale` times theirs.

    >>> import fgrad
    >>> fgrad.grad(lambda x: fgrad.optim.scale_gradient(x, 0.5) ** 2)(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return tree.map(lambda x: _scaled(x, scale), inputs)


@custom_jvp
def _scaled(x, scale):
    return jnp.asarray(x)


_scaled.defjvps(lambda t, out, x, scale: t * scale, None)
