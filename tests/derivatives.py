"""Checks of derivatives: forward mode against central differences, reverse mode against forward mode, then again one order up."""

import numpy as np

import fgrad


def _tuple(out):
    return tuple(out) if isinstance(out, (tuple, list)) else (out,)


def _dot(xs, ys):
    return sum(float(np.sum(np.asarray(x, np.float64) * np.asarray(y, np.float64))) for x, y in zip(xs, ys))


def check_derivatives(fun, *xs, order=2, eps=1e-5, tol=1e-5, seed=0, label="f"):
    """fun: float64 arrays -> array or tuple of arrays, checked at xs (run it under enable_x64)."""
    rng = np.random.default_rng(seed)

    def flat(*args):
        return _tuple(fun(*args))

    ts = tuple(rng.standard_normal(np.shape(x)) for x in xs)
    outs, out_ts = fgrad.jvp(flat, tuple(xs), ts)
    plus, minus = ([np.asarray(o) for o in flat(*[np.asarray(x) + s * eps * t for x, t in zip(xs, ts)])] for s in (1, -1))
    for got, a, b in zip(out_ts, plus, minus):
        want = (a - b) / (2 * eps)
        atol = tol * max(1.0, np.abs(want).max(initial=0))
        np.testing.assert_allclose(np.asarray(got), want, rtol=tol, atol=atol, err_msg=f"jvp of {label}")
    cts = tuple(rng.standard_normal(np.shape(o)) for o in outs)
    grads = fgrad.vjp(flat, *xs)[1](cts)
    left, right = _dot(grads, ts), _dot(cts, out_ts)
    assert abs(left - right) <= 1e-8 * max(1.0, abs(left)), f"vjp of {label}: {left} against the jvp's {right}"
    if order > 1:
        kw = dict(order=order - 1, eps=eps, tol=tol, seed=seed + 1)
        check_derivatives(lambda *a: fgrad.vjp(flat, *a)[1](cts), *xs, label=f"vjp of {label}", **kw)
        check_derivatives(lambda *a: fgrad.jvp(flat, tuple(a), ts)[1], *xs, label=f"jvp of {label}", **kw)


def check_vmap(fun, *xs, in_axes, rtol=1e-10):
    """vmap(fun) against fun on every example."""
    n = next(np.shape(x)[a] for x, a in zip(xs, in_axes) if a is not None)
    outs = _tuple(fgrad.vmap(fun, in_axes=in_axes)(*xs))
    for i in range(n):
        each = _tuple(fun(*[x if a is None else np.take(x, i, a) for x, a in zip(xs, in_axes)]))
        for got, want in zip(outs, each):
            np.testing.assert_allclose(np.asarray(got)[i], np.asarray(want), rtol=rtol, atol=rtol)
