"""Ordinary differential equations: odeint, by an adaptive Runge-Kutta method, with derivatives by the adjoint equation."""

import numpy as np

import fgrad.numpy as jnp
from fgrad import lax
from fgrad.api import closure_convert, custom_vjp, vjp, vmap
from fgrad.flatten_util import ravel_pytree

__all__ = ["odeint"]

# Dormand and Prince's pair of orders 5 and 4 (J. Comp. Appl. Math. 6, 1980).
_NODES = np.array([0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
_STAGES = np.array(
    [
        [1 / 5, 0, 0, 0, 0, 0],
        [3 / 40, 9 / 40, 0, 0, 0, 0],
        [44 / 45, -56 / 15, 32 / 9, 0, 0, 0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    ]
)
_ERROR = np.array(
    [
        35 / 384 - 1951 / 21600,
        0,
        500 / 1113 - 22642 / 50085,
        125 / 192 - 451 / 720,
        -2187 / 6784 + 12231 / 42400,
        11 / 84 - 649 / 6300,
        -1 / 60,
    ]
)


def _step(f, y, t, h, slope):
    """(y after a step, its error, the slope there)."""
    slopes = [slope]
    for i, row in enumerate(_STAGES):
        stage = y + h * sum(c * k for c, k in zip(row, slopes) if c)
        slopes.append(f(stage, t + h * _NODES[i + 1]))
    return stage, h * sum(c * k for c, k in zip(_ERROR, slopes) if c), slopes[-1]


def _norm(x, scale):
    return jnp.sqrt(jnp.mean((x / scale) ** 2))


def _first_step(f, y, t, slope, rtol, atol):
    """Hairer, Norsett and Wanner, Solving Ordinary Differential Equations I, II.4."""
    scale = atol + jnp.abs(y) * rtol
    d0, d1 = _norm(y, scale), _norm(slope, scale)
    h0 = jnp.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / jnp.where(d1 == 0, 1, d1))
    d2 = _norm(f(y + h0 * slope, t + h0) - slope, scale) / h0
    largest = jnp.maximum(d1, d2)
    h1 = jnp.where(largest <= 1e-15, jnp.maximum(1e-6, h0 * 1e-3), (0.01 / jnp.where(largest == 0, 1, largest)) ** 0.2)
    return jnp.minimum(100 * h0, h1)


def _integrate(f, y0, ts, rtol, atol, mxstep, hmax):
    """y at all ts, which ascend: steps end exactly at each of them."""

    def to_next(carry, target):
        def body(s):
            y, slope, t, h, n = s
            h = jnp.minimum(h, hmax)
            last = t + h >= target
            used = jnp.where(last, target - t, h)
            new, error, new_slope = _step(f, y, t, used, slope)
            ratio = _norm(error, atol + rtol * jnp.maximum(jnp.abs(y), jnp.abs(new)))
            accept = ratio <= 1
            factor = jnp.clip(0.9 * jnp.where(ratio == 0, 1e-10, ratio) ** -0.2, 0.2, 10.0)
            # A step cut short at a target says little about the next one: it does not make it smaller.
            h = jnp.where(accept, jnp.where(last, jnp.maximum(h, used * factor), used * factor), used * factor)
            keep = lambda a, b: jnp.where(accept, a, b)  # noqa: E731
            t = keep(jnp.where(last, target, t + used), t)
            return keep(new, y), keep(new_slope, slope), t, h, n + 1

        y, slope, t, h, _ = lax.while_loop(lambda s: (s[2] < target) & (s[4] < mxstep), body, (*carry, 0))
        return (y, slope, t, h), y

    slope = f(y0, ts[0])
    h = _first_step(f, y0, ts[0], slope, rtol, atol)
    _, ys = lax.scan(to_next, (y0, slope, ts[0], h), ts[1:])
    return jnp.concatenate([y0[None], ys])


def odeint(func, y0, t, *args, rtol=1.4e-8, atol=1.4e-8, mxstep=np.inf, hmax=np.inf):
    """The solution of dy/dt = func(y, t, *args) from y0 at t[0], at all times t (ascending): a tree like y0 with a leading axis.

    y0, args: pytrees of floating-point arrays. rtol, atol: tolerances of a step's error; mxstep: most steps between two times; hmax: the
    longest step. Derivatives in reverse mode of any order, in y0, t, args and what func closes over, solve the adjoint equation backwards.

    >>> import fgrad.numpy as jnp
    >>> from fgrad.experimental.ode import odeint
    >>> y = odeint(lambda y, t: -y, 1.0, jnp.array([0.0, 1.0]), rtol=1e-5, atol=1e-5)
    >>> bool(jnp.abs(y[1] - jnp.exp(-1.0)) < 1e-5)
    True
    """
    t = jnp.promote_dtypes_inexact(jnp.asarray(t))[0]
    if t.ndim != 1:
        raise TypeError(f"odeint: t must be a vector of times, got shape {t.shape}")
    given, unravel = ravel_pytree(y0)
    flat = jnp.promote_dtypes_inexact(given)[0]

    def vector(y, t, *args):
        return ravel_pytree(func(unravel(y.astype(given.dtype)), t, *args))[0].astype(flat.dtype)

    pure, consts = closure_convert(vector, flat, t[0], *args)
    ys = _odeint(pure, rtol, atol, mxstep, hmax, flat, t, *args, *consts)
    return vmap(lambda y: unravel(y.astype(given.dtype)))(ys)


def _solve(func, rtol, atol, mxstep, hmax, y0, ts, *args):
    return _integrate(lambda y, t: func(y, t, *args), y0, ts, rtol, atol, mxstep, hmax)


_odeint = custom_vjp(_solve, nondiff_argnums=(0, 1, 2, 3, 4))


def _forward(func, rtol, atol, mxstep, hmax, y0, ts, *args):
    ys = _odeint(func, rtol, atol, mxstep, hmax, y0, ts, *args)
    return ys, (ys, ts, args)


def _backward(func, rtol, atol, mxstep, hmax, residuals, ct):
    """The adjoint equation, from each time back to the one before it: state (y, cotangent of y, cotangents of args)."""
    ys, ts, args = residuals
    flat_args, unravel = ravel_pytree(args)
    n = ys.shape[1]

    def reversed_dynamics(state, s, flat_args):
        y, adjoint = state[:n], state[n : 2 * n]
        slope, pullback = vjp(lambda y, a: func(y, -s, *unravel(a)), y, flat_args)
        return jnp.concatenate([-slope, *pullback(adjoint)])

    def back(carry, i):
        adjoint, ct_args = carry
        ct_time = func(ys[i], ts[i], *args) @ ct[i]
        state = jnp.concatenate([ys[i], adjoint, ct_args])
        times = jnp.stack([-ts[i], -ts[i - 1]])
        # By _odeint rather than _integrate, so that the backward pass has one of its own.
        state = _odeint(reversed_dynamics, rtol, atol, mxstep, hmax, state, times, flat_args)[1]
        return (state[n : 2 * n] + ct[i - 1], state[2 * n :]), ct_time

    start = (ct[-1], jnp.zeros_like(flat_args))
    (adjoint, ct_args), ct_times = lax.scan(back, start, jnp.arange(len(ts) - 1, 0, -1))
    first = -(func(ys[0], ts[0], *args) @ (adjoint - ct[0]))
    ct_ts = jnp.concatenate([first[None], ct_times[::-1]])
    return adjoint, ct_ts, *unravel(ct_args)


_odeint.defvjp(_forward, _backward)
