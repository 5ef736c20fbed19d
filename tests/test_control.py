"""Control flow against NumPy loops and finite differences."""

import numpy as np
import pytest

import fgrad as api
from fgrad.control.cond import cond, switch
from fgrad.control.loops import map as loop_map
from fgrad.control.loops import scan
from fgrad.control.while_loop import fori_loop, while_loop
from fgrad.core import to_array
from fgrad.errors import NotDifferentiableError
from fgrad.ops.elementwise import add, lt, mul, sin
from fgrad.ops.reduce import reduce_sum

XS = np.array([0.1, 0.2, 0.3])


def arr(x):
    return to_array(np.asarray(x, np.float32))


def loss(w, x):
    c, y = scan(lambda c, x: (sin(mul(mul(c, w), x)), mul(c, x)), arr(1.0), x)
    return add(c, reduce_sum(y, (0,)))


def loss_numpy(w, x):
    c, s = 1.0, 0.0
    for a in x:
        s += c * a
        c = np.sin(c * w * a)
    return c + s


def slope(f, x, e=1e-6):
    return (f(x + e) - f(x - e)) / (2 * e)


def test_scan_value_grad_and_vmap():
    np.testing.assert_allclose(loss(arr(0.7), arr(XS)), loss_numpy(0.7, XS), rtol=1e-5)
    gw, gx = api.grad(loss, (0, 1))(arr(0.7), arr(XS))
    np.testing.assert_allclose(gw, slope(lambda w: loss_numpy(w, XS), 0.7), rtol=1e-4)
    want = [slope(lambda t, v=v: loss_numpy(0.7, XS + t * v), 0.0) for v in np.eye(3)]
    np.testing.assert_allclose(gx, want, rtol=1e-4)
    batch = api.vmap(api.grad(loss), (0, None))(arr([0.7, 0.2]), arr(XS))
    np.testing.assert_allclose(batch, [slope(lambda w: loss_numpy(w, XS), w) for w in (0.7, 0.2)], rtol=1e-4)


def test_scan_reverse_and_map():
    c, y = scan(lambda c, x: (add(c, x), c), arr(0.0), arr([1, 2, 4]), reverse=True)
    np.testing.assert_array_equal(c, 7)
    np.testing.assert_array_equal(y, [6, 4, 0])
    np.testing.assert_allclose(loop_map(sin, arr(XS)), np.sin(XS), rtol=1e-6)


def test_cond_and_switch():
    def f(p, x):
        return cond(p, lambda x: mul(sin(x), x), lambda x: mul(x, x), x)

    preds = np.array([True, False])
    for p, want in zip(preds, (np.sin(0.7) + 0.7 * np.cos(0.7), 1.4)):
        np.testing.assert_allclose(api.grad(f, 1)(to_array(np.array(p)), arr(0.7)), want, rtol=1e-5)
    got = api.vmap(api.grad(f, 1))(to_array(preds), arr([0.7, 0.7]))
    np.testing.assert_allclose(got, [np.sin(0.7) + 0.7 * np.cos(0.7), 1.4], rtol=1e-5)
    np.testing.assert_allclose(switch(2, [sin, lambda x: x, lambda x: mul(x, x)], arr(0.7)), 0.49, rtol=1e-5)


def test_branches_close_over_arrays():
    a, b = arr([1.0, 2.0]), arr([3.0, 4.0])
    branches = [lambda x: mul(x, a), lambda x: x, lambda x: mul(mul(x, b), a)]

    def f(i, x, y):
        return mul(switch(i, [*branches, lambda x: mul(x, y), branches[0]], x), y)

    for i, factor in enumerate(([1, 2], [1, 1], [3, 8], [5, 6], [1, 2])):
        args = to_array(np.int32(i)), arr([0.5, 0.25]), arr([5.0, 6.0])
        for g in (f, api.jit(f)):
            np.testing.assert_allclose(g(*args), np.array([2.5, 1.5]) * factor)
            dy = api.vjp(g, *args)[1](arr([1.0, 1.0]))[2]
            np.testing.assert_allclose(dy, np.array([0.5, 0.25]) * factor * (2 if i == 3 else 1))


def test_while_and_fori():
    def f(x):
        return while_loop(lambda c: lt(c, arr(100.0)), lambda c: mul(c, c), x)

    np.testing.assert_allclose(f(arr(3.0)), 6561)
    np.testing.assert_allclose(api.vmap(f)(arr([3.0, 20.0, 200.0])), [6561, 400, 200])
    _, t = api.jvp(f, (arr(3.0),), (arr(1.0),))
    np.testing.assert_allclose(t, 8 * 3.0**7, rtol=1e-5)
    with pytest.raises(NotDifferentiableError, match="fori_loop"):
        api.grad(f)(arr(3.0))
    np.testing.assert_allclose(api.grad(lambda x: fori_loop(0, 4, lambda i, c: mul(c, x), x))(arr(1.5)), 5 * 1.5**4, rtol=1e-5)


def test_type_errors():
    with pytest.raises(TypeError, match="carry"):
        scan(lambda c, x: (x, None), arr([1.0, 2.0]), arr(XS))
    with pytest.raises(TypeError, match="branch"):
        cond(to_array(np.array(True)), lambda x: x, lambda x: (x, x), arr(1.0))
