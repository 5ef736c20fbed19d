"""While loops that count to a known end are scans."""

import numpy as np
import pytest

import fgrad as api
import fgrad.numpy as jnp
from fgrad import lax
from fgrad.config import config
from fgrad.control.counted import _steps

LOOPS = {
    "up": (0, lambda i: i < 10, lambda i: i + 1, 10),
    "up to and with": (1, lambda i: i <= 10, lambda i: i + 1, 10),
    "turned": (0, lambda i: 10 > i, lambda i: 1 + i, 10),
    "by threes": (-1, lambda i: i < 10, lambda i: i + 3, 4),
    "down": (7, lambda i: i > 0, lambda i: i - 1, 7),
    "down and with": (7, lambda i: -2 <= i, lambda i: i - 3, 4),
    "once": (9, lambda i: i < 10, lambda i: i + 1, 1),
    "never": (10, lambda i: i < 10, lambda i: i + 1, None),
    "wraps around": (np.int8(100), lambda i: i < 120, lambda i: i + np.int8(20), None),
    "doubles": (1, lambda i: i < 100, lambda i: i * 2, None),
    "something else": (0, lambda i: (i < 10) & (i != 5), lambda i: i + 1, None),
}


@pytest.mark.parametrize("name", LOOPS)
def test_values_and_steps(name):
    first, cond, step, want = LOOPS[name]

    def f(x):
        return lax.while_loop(lambda s: cond(s[0]), lambda s: (step(s[0]), s[1] * 0.9 + s[0], s[1]), (first, x, x))

    x = jnp.sin(jnp.arange(300.0))
    found = []

    def recorded(eqn):
        found.append(_steps(eqn))
        return None

    if name != "wraps around":
        i, a, b, n = first, np.asarray(x), np.asarray(x), 0
        while cond(i):
            i, a, b, n = step(i), a * np.float32(0.9) + np.float32(i), a, n + 1
        for got, v in zip(api.jit(f)(x), (i, a, b)):
            np.testing.assert_allclose(got, v, rtol=1e-5, atol=1e-6)
        assert want in (n, None)
    from fgrad.control.while_loop import while_p

    move, while_p.move = while_p.move, recorded
    try:
        api.jit(lambda x: f(x + 1)).lower(x).compile()
    finally:
        while_p.move = move
    assert found == [want]


def test_ends_that_are_not_known_and_effects():
    seen = []

    def body(s):
        api.debug.callback(lambda v: seen.append(int(v)), s[0])
        return s[0] + 1, s[1] * 2

    f = api.jit(lambda x: lax.while_loop(lambda s: s[0] < 4, body, (0, x)))
    assert [float(v) for v in f(1.0)] == [4, 16] and seen == [0, 1, 2, 3]
    g = api.jit(lambda n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2), (0, 1.0)))
    assert float(g(3)[1]) == 8 and float(g(0)[1]) == 1
    v = api.vmap(lambda n: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2), (0, n))[1])
    np.testing.assert_allclose(api.jit(v)(jnp.arange(3.0)), [0, 8, 16])
    h = api.jit(
        lambda k: lax.while_loop(lambda s: s[0] < 40, lambda s: (s[0] + 1, s[1] + api.random.normal(api.random.fold_in(k, s[0]))), (0, 0.0))
    )
    key = api.random.key(0)
    with config.override("pass_motion", False):
        want = h.lower(key).compile()(key)[1]
    np.testing.assert_allclose(h(key)[1], want, rtol=1e-5)
