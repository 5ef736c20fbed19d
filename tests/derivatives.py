"""Checks of derivatives: forward mode against central differences, reverse mode against forward mode, then again one order up."""

import numpy as np

import fgrad


def as_tuple(out):
    return tuple(out) if isinstance(out, (tuple, list)) else (out,)


def _dot(xs, ys):
    """The real part of the bilinear pairing of cotangents and tangents, which for real arrays is the inner product."""
    return sum(float(np.sum(_wide(x) * _wide(y)).real) for x, y in zip(xs, ys))


def _wide(x):
    x = np.asarray(x)
    return x.astype(complex if x.dtype.kind == "c" else float)


def random_like(rng, x):
    """Normal numbers of x's shape, complex where x is."""
    shape, dtype = np.shape(x), np.asarray(x).dtype
    out = rng.standard_normal(shape)
    return np.asarray((out + 1j * rng.standard_normal(shape) if dtype.kind == "c" else out).astype(dtype if dtype.kind in "cfV" else float))


def check_derivatives(fun, *xs, order=2, eps=1e-5, tol=1e-5, seed=0, label="f", modes=("fwd", "rev")):
    """fun: float64 (or complex128) arrays -> array or tuple of arrays, checked at xs (run it under enable_x64)."""
    rng = np.random.default_rng(seed)

    def flat(*args):
        return as_tuple(fun(*args))

    ts = tuple(random_like(rng, x) for x in xs)
    plus, minus = ([np.asarray(o) for o in flat(*[np.asarray(x) + s * eps * t for x, t in zip(xs, ts)])] for s in (1, -1))
    numeric = [(a - b) / (2 * eps) for a, b in zip(plus, minus)]
    cts = tuple(random_like(rng, o) for o in plus)
    want, close = _dot(cts, numeric), tol
    if "fwd" in modes:
        _, out_ts = fgrad.jvp(flat, tuple(xs), ts)
        for got, n in zip(out_ts, numeric):
            atol = tol * max(1.0, np.abs(n).max(initial=0))
            np.testing.assert_allclose(np.asarray(got), n, rtol=tol, atol=atol, err_msg=f"jvp of {label}")
        want, close = _dot(cts, out_ts), 1e-8
    if "rev" in modes:
        got = _dot(fgrad.vjp(flat, *xs)[1](cts), ts)
        scale = max(1.0, abs(want), *[float(np.sum(np.abs(c * n))) for c, n in zip(cts, numeric)])
        assert abs(got - want) <= close * scale, f"vjp of {label}: {got} against {want}"
    if order > 1:
        kw = dict(order=order - 1, eps=eps, tol=tol, seed=seed + 1, modes=modes)
        if "rev" in modes:
            check_derivatives(lambda *a: fgrad.vjp(flat, *a)[1](cts), *xs, label=f"vjp of {label}", **kw)
        if "fwd" in modes:
            check_derivatives(lambda *a: fgrad.jvp(flat, tuple(a), ts)[1], *xs, label=f"jvp of {label}", **kw)


def check_transpose(fun, *xs, seed=0, tol=1e-9):
    """<fun(t), ct> = <t, transpose(ct)> for a linear function of arrays like xs."""
    rng = np.random.default_rng(seed)

    def flat(*args):
        return as_tuple(fun(*args))

    ts = tuple(random_like(rng, x) for x in xs)
    outs = flat(*ts)
    cts = tuple(random_like(rng, o) for o in outs)
    back = fgrad.linear_transpose(flat, *ts)(cts)
    for x, b in zip(ts, back):
        assert np.shape(b) == np.shape(x) and np.asarray(b).dtype == np.asarray(x).dtype
    left, right = _dot(outs, cts), _dot(ts, back)
    scale = max(1.0, *[float(np.sum(np.abs(np.asarray(o) * c))) for o, c in zip(outs, cts)])
    assert abs(left - right) <= tol * scale, f"<A t, ct> = {left} but <t, A^T ct> = {right}"


def check_vmap(fun, *xs, in_axes, rtol=1e-10):
    """vmap(fun) against fun on every example."""
    n = next(np.shape(x)[a] for x, a in zip(xs, in_axes) if a is not None)
    outs = as_tuple(fgrad.vmap(fun, in_axes=in_axes)(*xs))
    for i in range(n):
        each = as_tuple(fun(*[x if a is None else np.take(x, i, a) for x, a in zip(xs, in_axes)]))
        for got, want in zip(outs, each):
            np.testing.assert_allclose(np.asarray(got)[i], np.asarray(want), rtol=rtol, atol=rtol)
