"""Minimisation of functions by BFGS."""

from typing import Any, NamedTuple

import numpy as np

import fgrad.numpy as jnp
from fgrad import lax
from fgrad.api import value_and_grad

__all__ = ["OptimizeResults", "minimize"]


class OptimizeResults(NamedTuple):
    """What minimize gives: the point x, its value fun and gradient jac, the last approximation hess_inv of the inverse Hessian.

    nit counts iterations, nfev and njev evaluations; success, and status: 0 converged, 1 out of iterations, 3 no step found.
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


class _Step(NamedTuple):
    """A point along the search line: step length, value, slope, position and gradient."""

    length: Any
    value: Any
    slope: Any
    grad: Any


class _Search(NamedTuple):
    low: _Step  # the best step so far
    high: _Step  # with `low`, a bracket of a minimum, once there is one
    bracketed: Any
    trial: Any
    found: Any
    evaluations: Any


_C1, _C2, _TRIALS = 1e-4, 0.9, 30


def _line_search(at, start):
    """A step that satisfies the strong Wolfe conditions: steps double until they bracket a minimum, which is then narrowed by
    cubic interpolation (Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6)."""

    def narrowed(low, high):
        """The minimum of the cubic through both ends, kept off them."""
        width = high.length - low.length
        d1 = low.slope + high.slope - 3 * (low.value - high.value) / jnp.where(width == 0, 1, low.length - high.length)
        root = d1**2 - low.slope * high.slope
        d2 = jnp.sign(width) * jnp.sqrt(jnp.maximum(root, 0))
        bottom = high.slope - low.slope + 2 * d2
        t = high.length - width * (high.slope + d2 - d1) / jnp.where(bottom == 0, 1, bottom)
        inside = (t - low.length) / jnp.where(width == 0, 1, width)
        good = (root >= 0) & (bottom != 0) & (inside > 0.1) & (inside < 0.9)
        return jnp.where(good, t, low.length + width / 2)

    def body(s):
        new = at(s.trial)
        worse = (new.value > start.value + _C1 * new.length * start.slope) | (new.value >= s.low.value) & (s.low.length > 0)
        worse = worse | ~jnp.isfinite(new.value)
        found = ~worse & (jnp.abs(new.slope) <= -_C2 * start.slope)
        turned = new.slope * jnp.where(s.bracketed, s.high.length - s.low.length, 1) >= 0
        pick = lambda c, a, b: _Step(*[jnp.where(c, x, y) for x, y in zip(a, b)])  # noqa: E731
        high = pick(worse, new, pick(turned, s.low, s.high))
        low = pick(worse, s.low, new)
        bracketed = s.bracketed | worse | turned
        trial = jnp.where(bracketed, narrowed(low, high), 2 * new.length)
        return _Search(low, high, bracketed, trial, found, s.evaluations + 1)

    go_on = lambda s: ~s.found & (s.evaluations < _TRIALS)  # noqa: E731
    first = jnp.ones_like(start.value)
    return lax.while_loop(go_on, body, _Search(start, start, False, first, False, 0))


class _State(NamedTuple):
    x: Any
    value: Any
    grad: Any
    inverse: Any
    iterations: Any
    evaluations: Any
    failed: Any


def _bfgs(fun, x0, gtol, norm, maxiter):
    both = value_and_grad(fun)
    identity = jnp.eye(x0.size, dtype=x0.dtype)
    size = lambda g: jnp.max(jnp.abs(g)) if norm == np.inf else jnp.sum(jnp.abs(g) ** norm) ** (1 / norm)  # noqa: E731

    def body(s):
        direction = -(s.inverse @ s.grad)

        def at(length):
            value, grad = both(s.x + length * direction)
            return _Step(length, value, grad @ direction, grad)

        search = _line_search(at, _Step(jnp.zeros_like(s.value), s.value, s.grad @ direction, s.grad))
        best = search.low
        step, change = best.length * direction, best.grad - s.grad
        curvature = step @ change
        rho = 1 / jnp.where(curvature > 0, curvature, 1)
        left = identity - rho * jnp.outer(step, change)
        inverse = jnp.where(curvature > 0, left @ s.inverse @ left.T + rho * jnp.outer(step, step), s.inverse)
        failed = ~search.found & (best.length == 0)
        return _State(s.x + step, best.value, best.grad, inverse, s.iterations + 1, s.evaluations + search.evaluations, failed)

    value, grad = both(x0)
    start = _State(x0, value, grad, identity, 0, 1, False)
    end = lax.while_loop(lambda s: (size(s.grad) > gtol) & (s.iterations < maxiter) & ~s.failed, body, start)
    converged = size(end.grad) <= gtol
    status = jnp.where(converged, 0, jnp.where(end.failed, 3, 1))
    return OptimizeResults(end.x, converged, status, end.value, end.grad, end.inverse, end.evaluations, end.evaluations, end.iterations)


def minimize(fun, x0, args=(), *, method, tol=None, options=None):
    """A local minimum of fun(x, *args), a scalar function of a vector, from x0, by method "BFGS": an OptimizeResults.

    tol: the largest component of the gradient at which to stop (1e-5). options: gtol, norm, maxiter (200 times the size of x).
    It can be jitted and vmapped; not differentiated in reverse mode, since it loops until it converges: see lax.custom_root.
    Raises ValueError for another method or an option it does not know, TypeError for an x0 that is no vector.

    >>> import fgrad.numpy as jnp
    >>> from fgrad.scipy.optimize import minimize
    >>> result = minimize(lambda x: jnp.sum((x - 3.0) ** 2), jnp.zeros(2), method="BFGS")
    >>> result.x, bool(result.success)
    (Array([3., 3.], dtype=float32), True)
    """
    if not isinstance(args, tuple):
        raise TypeError(f"minimize: args must be a tuple, got {args!r}")
    options = dict(options or {})
    if str(method).lower() != "bfgs":
        raise ValueError(f"minimize: method {method!r} is not there; the method is 'BFGS'")
    x0 = jnp.promote_dtypes_inexact(jnp.asarray(x0))[0]
    if x0.ndim != 1:
        raise TypeError(f"minimize: x0 must be a vector, got shape {x0.shape}; see fgrad.flatten_util.ravel_pytree")
    gtol = options.pop("gtol", 1e-5 if tol is None else tol)
    norm, maxiter = options.pop("norm", np.inf), options.pop("maxiter", None)
    options.pop("line_search_maxiter", None)
    if options:
        raise ValueError(f"minimize: unknown options {sorted(options)}; BFGS takes gtol, norm and maxiter")
    return _bfgs(lambda x: fun(x, *args), x0, gtol, norm, 200 * x0.size if maxiter is None else maxiter)
