"""Derivatives checked against finite differences, along random directions."""

import functools

import numpy as np

from fgrad import array_tree as tree
from fgrad import dtypes
from fgrad.api import jvp, vjp
from fgrad.core import get_aval

__all__ = ["check_grads", "check_jvp", "check_vjp"]

_EPS = 1e-4
_TOLERANCE = {"bfloat16": 1e-1, "float16": 1e-2, "float32": 2e-3, "float64": 1e-5, "complex64": 1e-3, "complex128": 1e-5}


def _is_inexact(x):
    return dtypes.is_inexact(get_aval(x).dtype)


def _direction(rng, x):
    """A random tangent of x: float0 zeros where x has none."""
    a = get_aval(x)
    if not dtypes.is_inexact(a.dtype):
        return np.zeros(a.shape, dtypes.float0)
    t = np.asarray(rng.randn(*a.shape))
    if dtypes.is_complex(a.dtype):
        t = t + 1j * np.asarray(rng.randn(*a.shape))
    return np.asarray(t, a.dtype)


def _moved(xs, ts, step):
    """xs + step * ts, in the leaves' own dtypes."""
    return tree.map(lambda x, t: np.asarray(np.asarray(x) + step * t, get_aval(x).dtype) if _is_inexact(x) else x, xs, ts)


def _numerical_jvp(f, primals, tangents, eps):
    ahead, behind = f(*_moved(primals, tangents, eps)), f(*_moved(primals, tangents, -eps))
    difference = lambda a, b: (_wide(a) - _wide(b)) / (2 * eps) if _is_inexact(a) else np.zeros(get_aval(a).shape)  # noqa: E731
    return tree.map(difference, ahead, behind)


def _wide(x):
    x = np.asarray(x)
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _inner(xs, ys):
    """The real part of the sum of products (a pullback is a transpose, not an adjoint); leaves without a derivative do not count."""
    pairs = [(np.asarray(x), np.asarray(y)) for x, y in zip(tree.leaves(xs), tree.leaves(ys))]
    return sum(np.real(np.sum(_wide(x) * _wide(y))) for x, y in pairs if dtypes.float0 not in (x.dtype, y.dtype))


def _tolerances(xs, atol, rtol):
    names = [np.dtype(get_aval(x).dtype).name for x in tree.leaves(xs) if _is_inexact(x)]
    default = max((_TOLERANCE[n] for n in names), default=0.0)
    pick = lambda tol: default if tol is None else max((tol.get(np.dtype(n), default) for n in names), default=0.0)  # noqa: E731
    return [pick(t) if t is None or isinstance(t, dict) else t for t in (atol, rtol)]


def _compare(got, want, atol, rtol, what):
    for x, y in zip(tree.leaves(got), tree.leaves(want)):
        x, y = np.asarray(x), np.asarray(y)
        if dtypes.float0 in (x.dtype, y.dtype):
            continue
        np.testing.assert_allclose(_wide(x), _wide(y), atol=atol * max(1, x.size), rtol=rtol * max(1, x.size), err_msg=what)


def check_jvp(f, f_jvp, args, atol=None, rtol=None, eps=_EPS, err_msg=""):
    """Compare f_jvp(primals, tangents), such as functools.partial(jvp, f), with f's values and their central differences.

    Raises AssertionError where they differ by more than atol + rtol * |x|, which are multiplied by the number of elements.
    """
    rng = np.random.RandomState(0)
    tangents = tree.map(functools.partial(_direction, rng), tuple(args))
    out, out_tangent = f_jvp(args, tangents)
    expected = f(*args)
    atol, rtol = _tolerances((args, expected), atol, rtol)
    what = f"{err_msg} JVP" if err_msg else "JVP"
    _compare(out, expected, atol, rtol, f"{what} primal")
    _compare(out_tangent, _numerical_jvp(f, args, tangents, eps), atol, rtol, f"{what} tangent")


def check_vjp(f, f_vjp, args, atol=None, rtol=None, eps=_EPS, err_msg=""):
    """Compare f_vjp(*primals) -> (value, pullback), such as functools.partial(vjp, f), with f's values and central differences.

    Raises AssertionError as check_jvp does.
    """
    rng = np.random.RandomState(0)
    out, pullback = f_vjp(*args)
    expected = f(*args)
    atol, rtol = _tolerances((args, expected), atol, rtol)
    what = f"{err_msg} VJP" if err_msg else "VJP"
    _compare(out, expected, atol, rtol, f"{what} primal")
    tangents = tree.map(functools.partial(_direction, rng), tuple(args))
    cotangent = tree.map(functools.partial(_direction, rng), expected)
    got = _inner(tangents, pullback(cotangent))
    want = _inner(cotangent, _numerical_jvp(f, args, tangents, eps))
    np.testing.assert_allclose(got, want, atol=atol, rtol=rtol, err_msg=f"{what} cotangent projection")


def check_grads(f, args, order, modes=("fwd", "rev"), atol=None, rtol=None, eps=None):
    """Compare f's derivatives up to `order` with finite differences, in forward ("fwd") and reverse ("rev") mode and their mixtures.

    Raises AssertionError, whose message says the mode of each order, where they differ.

    >>> import fgrad.numpy as jnp
    >>> from fgrad.test_util import check_grads
    >>> check_grads(lambda x: jnp.sin(x) * x, (1.5,), order=2)
    """
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    unknown = [m for m in modes if m not in ("fwd", "rev")]
    if unknown:
        raise ValueError(f'check_grads: modes are "fwd" and "rev", got {unknown[0]!r}')
    eps = _EPS if eps is None else eps
    args = tuple(args)
    if "fwd" in modes:
        check_jvp(f, functools.partial(jvp, f), args, atol, rtol, eps, f"fwd, {order} more orders")
        if order > 1:
            rng = np.random.RandomState(0)
            tangents = tree.map(functools.partial(_direction, rng), args)
            check_grads(lambda *xs: jvp(f, xs, tangents)[1], args, order - 1, modes, atol, rtol, eps)
    if "rev" in modes:
        check_vjp(f, functools.partial(vjp, f), args, atol, rtol, eps, f"rev, {order} more orders")
        if order > 1:
            rng = np.random.RandomState(0)
            cotangent = tree.map(functools.partial(_direction, rng), f(*args))
            check_grads(lambda *xs: vjp(f, *xs)[1](cotangent), args, order - 1, modes, atol, rtol, eps)
