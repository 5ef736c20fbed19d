"""Loops that hand carries on: laid out over as many steps as bring each back to its place."""

import numpy as np
import pytest

import fgrad as api
import fgrad.numpy as jnp
from fgrad import lax
from fgrad.config import config
from fgrad.control.handed import steps_until_back

X = jnp.sin(jnp.arange(40.0))


def wave(s, x=0.0):
    u, before = s
    return 2 * u - before + 0.3 * jnp.pad(u[2:] - 2 * u[1:-1] + u[:-2], 1) + x, u


BODIES = {
    "wave": (wave, 2, 2),
    "turned sign": (lambda s: (wave(s)[0], -s[0]), 2, 2),
    "exchange": (lambda s: (s[1], 0.9 * s[0]), 2, 2),
    "three in a ring": (lambda s: (s[1], s[2], s[0] * 0.9), 3, 3),
    "last results": (lambda s: (s[0] + 0.1 * s[1] - 0.01 * s[3], jnp.sin(s[0]), s[1], s[2]), 4, 3),
    "two ways": (lambda s: (s[0] - 0.1 * s[1], s[0], s[2] + 0.1 * s[0], s[2], s[3]), 5, 3),
    "five in a ring": (lambda s: (*s[1:], s[0] * 0.9), 5, 1),
    "none": (lambda s: (s[0] * 0.9, s[1] + s[0]), 2, 1),
    "kept": (lambda s: (s[0] + s[1], s[1]), 2, 1),
    "a product": (lambda s: (jnp.outer(s[0], s[1]) @ s[0] * 0.01, s[0]), 2, 1),
}


def steps(f, n):
    body = api.make_jaxpr(lambda *s: f(s))(*[X] * n)
    return steps_until_back(body, 0, n)


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("length", [1, 5, 8, 13])
def test_values_and_steps(name, length):
    f, n, want = BODIES[name]
    assert steps(f, n) == want
    start = tuple(X + i for i in range(n))
    run = api.jit(lambda s: lax.scan(lambda s, _: (f(s), s[-1]), s, None, length=length))
    grad = api.jit(api.grad(lambda s: sum(jnp.sum(v * v) for v in lax.fori_loop(0, length, lambda i, s: f(s), s))))
    with config.override("pass_motion", False):
        want, slope = run.lower(start).compile()(start), grad.lower(start).compile()(start)
    for a, b in zip(api.tree.leaves((run(start), grad(start))), api.tree.leaves((want, slope))):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
def test_with_inputs_and_results_of_each_step(reverse):
    xs = jnp.cos(jnp.arange(280.0)).reshape(7, 40)

    def all_steps(s, xs):
        return lax.scan(lambda s, x: (wave(s, x), s[0] - s[1]), s, xs, reverse=reverse)

    s, rows = (X, 0.5 * X), [None] * 7
    for i in range(7)[:: -1 if reverse else 1]:
        rows[i], s = s[0] - s[1], wave(s, xs[i])
    got, ys = api.jit(all_steps)((X, 0.5 * X), xs)
    np.testing.assert_allclose(ys, np.stack(rows), rtol=1e-4, atol=1e-5)
    for a, b in zip(got, s):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
