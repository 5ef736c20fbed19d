"""Minimisation of functions by BFGS and L-BFGS."""

from typing import Any, NamedTuple

import numpy as np

import fgrad.numpy as jnp
from fgrad import lax
from fgrad.api import value_and_grad

__all__ = ["OptimizeResults", "minimize"]


class OptimizeResults(NamedTuple):
    """What minimize gives: the point x, its value fun and gradient jac, the last approximation hess_inv of the inverse Hessian.

    nit counts iterations, nfev and njev evaluations; success, and status: 0 converged, 1 out of iterations, 3 no step found (of
    L-BFGS: 2 and 3 out of evaluations of the value and of the gradient, 4 no progress, 5 no step found).
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


def _line_search(at, start, trials=_TRIALS):
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

    go_on = lambda s: ~s.found & (s.evaluations < trials)  # noqa: E731
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


def _size_by(norm):
    return lambda g: jnp.max(jnp.abs(g)) if norm == np.inf else jnp.sum(jnp.abs(g) ** norm) ** (1 / norm)


def _bfgs(fun, x0, gtol, norm, maxiter):
    both = value_and_grad(fun)
    identity = jnp.eye(x0.size, dtype=x0.dtype)
    size = _size_by(norm)

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
        failed = ~search.found  # the value is flat to rounding along the line: its best point is kept
        return _State(s.x + step, best.value, best.grad, inverse, s.iterations + 1, s.evaluations + search.evaluations, failed)

    value, grad = both(x0)
    start = _State(x0, value, grad, identity, 0, 1, False)
    end = lax.while_loop(lambda s: (size(s.grad) > gtol) & (s.iterations < maxiter) & ~s.failed, body, start)
    converged = size(end.grad) <= gtol
    status = jnp.where(converged, 0, jnp.where(end.failed, 3, 1))
    return OptimizeResults(end.x, converged, status, end.value, end.grad, end.inverse, end.evaluations, end.evaluations, end.iterations)


class _Memory(NamedTuple):
    """The last steps, the changes of the gradient along them, 1 / their products, and a scale of the inverse Hessian."""

    steps: Any
    changes: Any
    inverses: Any  # 0 where there is no pair, which then has no effect
    scale: Any

    def times(self, q):
        """The approximate inverse Hessian times q (Nocedal and Wright, algorithm 7.4)."""
        real = lambda a, b: jnp.real(a @ b)  # noqa: E731

        def back(q, pair):
            step, change, inverse = pair
            a = inverse * real(jnp.conj(step), q)
            return q - a * jnp.conj(change), a

        def forth(q, pair):
            step, change, inverse, a = pair
            return q + (a - inverse * real(change, q)) * step, None

        pairs = self.steps, self.changes, self.inverses
        q, a = lax.scan(back, q, pairs, reverse=True)
        return lax.scan(forth, self.scale * q, (*pairs, a))[0]

    def added(self, step, change):
        """With another pair in the place of the oldest, unless the function does not curve upwards along it."""
        curvature = jnp.real(change @ step)
        good = curvature > 0
        push = lambda old, new: jnp.where(good, jnp.concatenate([old[1:], new[None]]), old)  # noqa: E731
        inverse = 1 / jnp.where(good, curvature, 1)
        scale = jnp.where(good, curvature / jnp.where(good, jnp.real(jnp.conj(change) @ change), 1), self.scale)
        return _Memory(push(self.steps, step), push(self.changes, change), push(self.inverses, inverse), scale)


def _lbfgs(fun, x0, gtol, norm, maxiter, maxcor, ftol, maxfun, maxgrad, maxls):
    both = value_and_grad(fun)
    size = _size_by(norm)

    def body(s):
        direction = s.inverse.times(-jnp.conj(s.grad))

        def at(length):
            value, grad = both(s.x + length.astype(x0.dtype) * direction)
            return _Step(length, value, jnp.real(grad @ direction), grad)

        slope = jnp.real(s.grad @ direction)
        search = _line_search(at, _Step(jnp.zeros_like(s.value), s.value, slope, s.grad), maxls)
        best = search.low
        step = best.length.astype(x0.dtype) * direction
        k, evaluations = s.iterations + 1, s.evaluations + search.evaluations
        stopped = jnp.where(s.value - best.value < ftol, 4, 0)
        stopped = jnp.where(evaluations >= maxgrad, 3, stopped)
        stopped = jnp.where(evaluations >= maxfun, 2, stopped)
        stopped = jnp.where(k >= maxiter, 1, stopped)
        stopped = jnp.where(~search.found & (best.length == 0), 5, stopped)
        memory = s.inverse.added(step, best.grad - s.grad)
        return _State(s.x + step, best.value, best.grad, memory, k, evaluations, stopped)

    value, grad = both(x0)
    none = jnp.zeros((maxcor, x0.size), x0.dtype)
    memory = _Memory(none, none, jnp.zeros(maxcor, value.dtype), jnp.ones_like(value))
    start = _State(x0, value, grad, memory, 0, 1, 0)
    end = lax.while_loop(lambda s: (size(s.grad) >= gtol) & (s.failed == 0), body, start)
    converged = size(end.grad) < gtol
    status = jnp.where(converged, 0, end.failed)
    return OptimizeResults(end.x, converged, status, end.value, end.grad, None, end.evaluations, end.evaluations, end.iterations)


_LIMITED = "l-bfgs-experimental-do-not-rely-on-this"
_OPTIONS = {
    "bfgs": {"line_search_maxiter": None},
    _LIMITED: {"maxcor": 10, "ftol": 2.220446049250313e-09, "maxfun": np.inf, "maxgrad": np.inf, "maxls": 20},
}


def minimize(fun, x0, args=(), *, method, tol=None, options=None):
    """A local minimum of fun(x, *args), a scalar function of a vector, from x0, by method "BFGS", or
    "l-bfgs-experimental-do-not-rely-on-this", whose x may be complex: an OptimizeResults.

    tol: the largest component of the gradient at which to stop (1e-5). options: gtol, norm, maxiter (200 times the size of x);
    of L-BFGS also maxcor, the number of steps that it remembers (10), ftol, the least progress (2.2e-9), maxfun, maxgrad, maxls.
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
    kind = str(method).lower()
    if kind not in _OPTIONS:
        raise ValueError(f"minimize: method {method!r} is not there; the methods are 'BFGS' and {_LIMITED!r}")
    options = dict(options or {})
    x0 = jnp.promote_dtypes_inexact(jnp.asarray(x0))[0]
    if x0.ndim != 1:
        raise TypeError(f"minimize: x0 must be a vector, got shape {x0.shape}; see fgrad.flatten_util.ravel_pytree")
    known = {"gtol": 1e-5 if tol is None else tol, "norm": np.inf, "maxiter": None, **_OPTIONS[kind]}
    if unknown := sorted(set(options) - set(known)):
        raise ValueError(f"minimize: unknown options {unknown}; {method} takes {', '.join(known)}")
    gtol, norm, maxiter, *rest = {**known, **options}.values()
    maxiter = 200 * x0.size if maxiter is None else maxiter
    value = lambda x: fun(x, *args)  # noqa: E731
    return _bfgs(value, x0, gtol, norm, maxiter) if kind == "bfgs" else _lbfgs(value, x0, gtol, norm, maxiter, *rest)
