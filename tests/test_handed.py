"""Loops that hand carries on: laid out over as many steps as bring each back to its place."""

import numpy as np
import pytest

import fgrad as api
import fgrad.numpy as jnp
from fgrad import lax
from fgrad.config import config
from fgrad.control.handed import steps_at_once, steps_until_back

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


LONG = jnp.sin(jnp.arange(400.0)).reshape(20, 20)
SHORT_STEPS = {
    "logistic": (lambda x: 3.7 * x * (1 - x), LONG, (5, 8)),
    "counts": (lambda x: jnp.where(x > 0.5, x * 0.9, x + 1), LONG, (8, 5)),
    "integers": (lambda x: x * 5 + 3 - (x >> 3), LONG.astype(jnp.int32), (5, 8)),
    "too short": (lambda x: x * 0.9 + 1, LONG[:12], (1, 1)),
    "reads neighbours": (lambda x: x * 0.9 + x[:, ::-1], LONG, (1, 1)),
    "sums": (lambda x: x - x.mean(), LONG, (1, 1)),
    "much to compute": (lambda x: x - 0.1 * x * x + 0.01 * x * x * x - 0.3, LONG, (1, 1)),
    "divides": (lambda x: x - (x * x * x - 2) / (3 * x * x + 1), LONG, (5, 7)),
    "half": (lambda x: x * 0.9 + 1, LONG.astype(jnp.bfloat16), (1, 1)),
    "dear": (lambda x: jnp.tanh(x), LONG, (1, 1)),
}


@pytest.mark.parametrize("name", SHORT_STEPS)
def test_elementwise_steps_are_one_group(name):
    f, x, want = SHORT_STEPS[name]
    body = api.make_jaxpr(f)(x)
    assert {steps_at_once(body, 0, 1, 10), steps_at_once(body, 0, 1, 13)} == set(want)
    for length in (1, 2, 10, 13):
        run = lambda x: lax.fori_loop(0, length, lambda i, x: f(x), x)  # noqa: E731, B023
        slow = x
        for _ in range(length):
            slow = f(slow)
        np.testing.assert_allclose(
            np.asarray(api.jit(run)(x), np.float32), np.asarray(slow, np.float32), rtol=5e-2 if name == "half" else 1e-3, atol=1e-5
        )


def test_elementwise_steps_with_inputs_counters_and_derivatives():
    xs = jnp.cos(jnp.arange(400.0 * 11)).reshape(11, 400)

    def end(x, xs):
        step = lambda c, a: ((c[0] + 1, c[1] - 0.1 * c[1] * c[1] + a / (1 + c[0])), None)  # noqa: E731
        return lax.scan(step, (0, x), xs)[0]

    x = jnp.sin(jnp.arange(400.0))
    n, want = 0, np.asarray(x, np.float64)
    slope = np.ones(400)
    for i in range(11):
        slope *= 1 - 0.2 * want
        want = want - 0.1 * want * want + np.asarray(xs[i]) / (1 + i)
    n, got = api.jit(end)(x, xs)
    assert n == 11
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(api.jit(api.grad(lambda x: jnp.sum(end(x, xs)[1])))(x), slope, rtol=1e-3, atol=1e-4)


def test_what_users_lay_out_gives_the_same():
    xs = jnp.cos(jnp.arange(2000.0 * 12)).reshape(12, 2000)

    def f(unroll):
        return lambda x: lax.scan(lambda c, a: (0.5 * c + a * c, c * a), x, xs, unroll=unroll)

    x = jnp.sin(jnp.arange(2000.0))
    want = api.jit(f(1))(x)
    for unroll in (2, 5, 12, True):
        for a, b in zip(api.tree.leaves(api.jit(f(unroll))(x)), api.tree.leaves(want)):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("given", [False, True])
def test_steps_that_call_back(given):
    """An equation without operands, or without results, is no elementwise operation."""
    seen = []

    def body(x, _):
        api.debug.callback(lambda *a: seen.append(len(a)), *[x] * given)
        return x * 2, None

    assert api.jit(lambda x: lax.scan(body, x, None, length=5)[0])(jnp.ones(300))[7] == 32
    assert seen == [given] * 5
