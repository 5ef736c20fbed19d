"""Line searches: last members of a chain, which scale a descent direction by a step that decreases the loss enough.

Their update takes, by keyword, the loss (value), its gradient (grad) and the function (value_fn) at params, and whatever arguments
value_fn takes besides params. They run inside one while_loop, so under jit too.
"""

import inspect
import math
from typing import Any, NamedTuple

import fgrad.numpy as jnp
from fgrad import debug, tree
from fgrad.api import value_and_grad
from fgrad.control.cond import cond
from fgrad.control.while_loop import while_loop
from fgrad.optim.base import GradientTransformationExtraArgs, leafwise, need_params, zeros_like
from fgrad.optim.tree_utils import tree_add_scale, tree_cast_like, tree_scale, tree_vdot, tree_where


class BacktrackingLinesearchInfo(NamedTuple):
    """How many steps were tried, and by how much the last one missed the sufficient decrease (0 if it did not)."""

    num_linesearch_steps: Any
    decrease_error: Any


class ScaleByBacktrackingLinesearchState(NamedTuple):
    """The last step, the loss (and the gradient, if stored) at the point it led to, and how the search went."""

    learning_rate: Any
    value: Any
    grad: Any
    info: Any


class ZoomLinesearchInfo(NamedTuple):
    """How many steps were tried, and by how much the last one misses each of Wolfe's conditions (0 if it does not)."""

    num_linesearch_steps: Any
    decrease_error: Any
    curvature_error: Any


class ScaleByZoomLinesearchState(NamedTuple):
    """The last step, the loss and its gradient at the point it led to, and how the search went."""

    learning_rate: Any
    value: Any
    grad: Any
    info: Any


class _Trial(NamedTuple):
    """A step, the loss there, its slope along the direction and its gradient."""

    step: Any
    value: Any
    slope: Any
    grad: Any


class _Search(NamedTuple):
    """The next trial step, the best point so far (low) and the other end of the interval (high) once it is bracketed."""

    count: Any
    step: Any
    low: _Trial
    high: tuple
    bracketed: Any
    done: Any


def _bind(value_fn, extra_args):
    """value_fn with those of the extra arguments that it names (all, if it takes any)."""
    parameters = inspect.signature(value_fn).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        extra_args = {k: v for k, v in extra_args.items() if k in parameters}
    return lambda params: value_fn(params, **extra_args)


def _report(failed, name, **values):
    """Print, where a search failed, what it came to."""
    text = f"{name}: no step meets the conditions; " + ", ".join(f"{key} {{{key}}}" for key in values)
    cond(failed, lambda: debug.print(text, **values), lambda: None)


def _slope(direction, grad):
    return jnp.real(jnp.asarray(tree_vdot(direction, grad)))


def _along(params, step, direction):
    return tree_cast_like(tree_add_scale(params, step, direction), params)


def scale_by_backtracking_linesearch(
    max_backtracking_steps,
    slope_rtol=1e-4,
    decrease_factor=0.8,
    increase_factor=1.5,
    max_learning_rate=1.0,
    atol=0.0,
    rtol=0.0,
    store_grad=False,
    verbose=False,
):
    """Armijo's backtracking (Nocedal & Wright, 2006, section 3.1): the step shrinks by decrease_factor until
    f(x + t u) <= (1 + rtol) f(x) + slope_rtol t <u, grad f(x)> + atol.

    The first trial is increase_factor times the last step, at most max_learning_rate. Where no trial decreases the loss, the step is zero.
    store_grad: keep the gradient at the new point for value_and_grad_from_state. verbose: print where no step decreases enough.
    """

    def init(params):
        info = BacktrackingLinesearchInfo(jnp.zeros((), jnp.int32), jnp.asarray(math.inf))
        grad = zeros_like(params) if store_grad else None
        return ScaleByBacktrackingLinesearchState(jnp.asarray(1.0), jnp.asarray(math.inf), grad, info)

    def update(updates, state, params=None, *, value, grad, value_fn, **extra_args):
        need_params("scale_by_backtracking_linesearch", params)
        fun = _bind(value_fn, extra_args)
        start = jnp.asarray(value)
        scalar = lambda x: jnp.asarray(x, start.dtype)
        slope = _slope(updates, grad)

        def trial(step):
            at = scalar(fun(_along(params, step, updates)))
            excess = at - ((1 + rtol) * start + slope_rtol * step * slope + atol)
            return at, scalar(jnp.where(jnp.isnan(excess), math.inf, jnp.maximum(excess, 0)))

        def body(carry):
            count, step, _, _ = carry
            step = scalar(decrease_factor * step)
            return (count + 1, step, *trial(step))

        first = max_learning_rate if math.isinf(increase_factor) else jnp.minimum(increase_factor * state.learning_rate, max_learning_rate)
        count, step, at, error = while_loop(
            lambda carry: (carry[3] > 0) & (carry[0] < max_backtracking_steps),
            body,
            (jnp.zeros((), jnp.int32), scalar(first), *trial(scalar(first))),
        )
        if verbose:
            _report(error > 0, "scale_by_backtracking_linesearch", value=start, slope=slope, stepsize=step, decrease_error=error)
        failed = (error > 0) & ~(at < start)
        step, at = jnp.where(failed, scalar(0), step), jnp.where(failed, start, at)
        new_grad = tree_cast_like(value_and_grad(fun)(_along(params, step, updates))[1], grad) if store_grad else None
        # A next search that starts from zero could not grow, so a failed one starts anew.
        kept = jnp.asarray(jnp.where(failed, scalar(1), step), state.learning_rate.dtype)
        info = BacktrackingLinesearchInfo(count, jnp.asarray(error, state.info.decrease_error.dtype))
        new = ScaleByBacktrackingLinesearchState(kept, jnp.asarray(at, state.value.dtype), new_grad, info)
        return tree_cast_like(tree_scale(step, updates), updates), new

    return GradientTransformationExtraArgs(init, update)


def _interpolate(low, high):
    """The minimum of the cubic through two points and their slopes, or the middle where it is not well inside."""
    (a, fa, sa), (b, fb, sb) = low, high
    width = b - a
    d1 = sa + sb - 3 * (fb - fa) / width
    d2 = jnp.sign(width) * jnp.sqrt(d1 * d1 - sa * sb)
    cubic = b - width * (sb + d2 - d1) / (sb - sa + 2 * d2)
    along = (cubic - a) / width
    return jnp.where((along > 0.1) & (along < 0.9), cubic, a + 0.5 * width)  # a NaN is not inside


def scale_by_zoom_linesearch(
    max_linesearch_steps,
    max_learning_rate=None,
    tol=0.0,
    increase_factor=2.0,
    slope_rtol=1e-4,
    curv_rtol=0.9,
    approx_dec_rtol=1e-6,
    stepsize_precision=1e-5,
    initial_guess_strategy="keep",
    verbose=False,
):
    """A step that meets Wolfe's strong conditions (Nocedal & Wright, 2006, algorithms 3.5 and 3.6), by bracketing and cubic interpolation.

    slope_rtol, curv_rtol: the constants of the decrease and the curvature condition, tol what both may miss. approx_dec_rtol: near a
    minimum, where rounding hides the decrease, that of Hager & Zhang (2005) with this relative error, or None. The search ends when the
    interval is shorter than stepsize_precision of its end, with the best step seen. initial_guess_strategy: "keep" starts from the last
    step, "one" from 1. verbose: print where the conditions are not met.
    """
    if initial_guess_strategy not in ("keep", "one"):
        raise ValueError(f'scale_by_zoom_linesearch: initial_guess_strategy must be "keep" or "one", got {initial_guess_strategy!r}')
    longest = math.inf if max_learning_rate is None else max_learning_rate

    def init(params):
        info = ZoomLinesearchInfo(jnp.zeros((), jnp.int32), jnp.asarray(math.inf), jnp.asarray(math.inf))
        return ScaleByZoomLinesearchState(jnp.asarray(1.0), jnp.asarray(math.inf), zeros_like(params), info)

    def update(updates, state, params=None, *, value, grad, value_fn, **extra_args):
        need_params("scale_by_zoom_linesearch", params)
        fun = value_and_grad(_bind(value_fn, extra_args))
        value = jnp.asarray(value)
        scalar = lambda x: jnp.asarray(x, value.dtype)
        start = _Trial(scalar(0), value, scalar(_slope(updates, grad)), grad)

        def errors(t):
            """By how much a trial misses the decrease and the curvature condition."""
            decrease = t.value - start.value - slope_rtol * t.step * start.slope
            if approx_dec_rtol is not None:
                rise = t.value - start.value - approx_dec_rtol * jnp.abs(start.value)
                decrease = jnp.minimum(decrease, jnp.maximum(rise, t.slope - (2 * slope_rtol - 1) * start.slope))
            return jnp.maximum(decrease, 0), jnp.maximum(jnp.abs(t.slope) - curv_rtol * jnp.abs(start.slope), 0)

        def body(s):
            at, gradient = fun(_along(params, s.step, updates))
            t = _Trial(s.step, scalar(at), scalar(_slope(updates, gradient)), tree_cast_like(gradient, grad))
            decrease, curvature = errors(t)
            fits = (decrease <= tol) & jnp.isfinite(t.value)
            good = fits & (curvature <= tol)
            fits = good | (fits & ((t.value < s.low.value) | (s.low.step == 0)))
            # The minimum lies between the new low end and the old one if the slope at the new one points back.
            back = jnp.where(s.bracketed, t.slope * (s.high[0] - s.low.step) >= 0, t.slope >= 0)
            high = tree_where(fits, tree_where(back, s.low[:3], s.high), t[:3])
            low = tree_where(fits, t, s.low)
            bracketed = s.bracketed | ~fits | back
            longer = jnp.minimum(s.step * increase_factor, longest)
            step = scalar(jnp.where(bracketed, _interpolate(low[:3], high), longer))
            narrow = jnp.abs(high[0] - low.step) <= stepsize_precision * jnp.maximum(jnp.abs(high[0]), jnp.abs(low.step))
            stop = good | (bracketed & narrow) | (~bracketed & (longer <= s.step))
            return _Search(s.count + 1, step, low, high, bracketed, stop)

        first = scalar(jnp.minimum(state.learning_rate if initial_guess_strategy == "keep" else 1.0, longest))
        no = jnp.zeros((), bool)
        s = while_loop(
            lambda s: ~s.done & (s.count < max_linesearch_steps),
            body,
            _Search(jnp.zeros((), jnp.int32), first, start, start[:3], no, no),
        )
        found = s.low
        cast = lambda x, like: jnp.asarray(x, like.dtype)
        info = ZoomLinesearchInfo(s.count, *(cast(e, i) for e, i in zip(errors(found), state.info[1:])))
        if verbose:
            misses = {"decrease_error": info.decrease_error, "curvature_error": info.curvature_error}
            failed = (info.decrease_error > tol) | (info.curvature_error > tol)
            _report(failed, "scale_by_zoom_linesearch", value=start.value, slope=start.slope, stepsize=found.step, **misses)
        # A next search that starts from zero could not grow, so a failed one starts anew.
        kept = cast(jnp.where(found.step > 0, found.step, 1), state.learning_rate)
        new = ScaleByZoomLinesearchState(kept, cast(found.value, state.value), leafwise(cast, found.grad, state.grad), info)
        return tree_cast_like(tree_scale(found.step, updates), updates), new

    return GradientTransformationExtraArgs(init, update)


def value_and_grad_from_state(value_fn):
    """value_and_grad of value_fn that takes state=, and reuses the value and gradient which a line search left there, if it did.

    Only for a deterministic value_fn: the result is that of the last call's arguments.
    """
    states = (ScaleByZoomLinesearchState, ScaleByBacktrackingLinesearchState)
    is_search = lambda x: isinstance(x, states)

    def fun(params, *args, state, **kwargs):
        found = [s for s in tree.leaves(state, is_leaf=is_search) if is_search(s)]
        if len(found) != 1 or found[0].grad is None:
            raise ValueError(
                "value_and_grad_from_state: the state must hold one line search that stores gradients (store_grad=True); "
                f"it holds {len(found)} line searches"
            )
        (search,) = found

        def compute():
            value, grad = value_and_grad(value_fn)(params, *args, **kwargs)
            return jnp.asarray(value, search.value.dtype), tree_cast_like(grad, search.grad)

        return cond(jnp.isfinite(search.value), lambda: (search.value, search.grad), compute)

    return fun
