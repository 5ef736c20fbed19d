"""A signal's handler may end a running loop, flat code or not, jitted or not; the program runs again afterwards."""

import signal
from contextlib import contextmanager

import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax


class Alarm(Exception):
    pass


@contextmanager
def alarm(seconds):
    def ring(number, frame):
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def forever(x, limit):
    return lax.while_loop(lambda c: c.sum() < limit, lambda c: c * 1.0, x)


@pytest.mark.parametrize("shape", [(), (3,), (5000,)])
@pytest.mark.parametrize("wrap", [fgrad.jit, lambda f: f])
def test_a_loop_without_end(wrap, shape):
    f, x = wrap(forever), jnp.ones(shape)
    with pytest.raises(Alarm), alarm(0.2):
        f(x, jnp.inf)
    assert f(x, 0.0).shape == shape


@pytest.mark.parametrize("n", [1, 2000])
def test_loops_with_many_turns(n):
    def inner(c):
        return lax.fori_loop(0, 3, lambda j, d: jnp.cos(d), c)

    f = fgrad.jit(lambda x, turns: lax.fori_loop(0, turns, lambda i, c: inner(c), x))
    with pytest.raises(Alarm), alarm(0.2):
        f(jnp.ones(n), 2_000_000_000)
    assert jnp.allclose(f(jnp.ones(n), 100), 0.7390851)


def test_a_long_scan():
    f = fgrad.jit(lambda x: lax.scan(lambda c, _: (jnp.sin(c) + 1, c[0]), x, length=20_000_000)[0])
    with pytest.raises(Alarm), alarm(0.2):
        f(jnp.ones(1000))
