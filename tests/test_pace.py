"""Turns are tried with ranges of two lengths and without threads: every value is that of one thread, bit for bit, whichever is kept."""

import itertools

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from fgrad._kernels import parallel

N = 160  # large enough for threads, so that turns are tried at all
TURNS = 120  # more than a trial takes


def edges(u):
    u = u.at[1:-1, 1:-1].set(0.25 * (u[1:-1, 2:] + u[1:-1, :-2] + u[2:, 1:-1] + u[:-2, 1:-1]) - 0.01 * jnp.tanh(u[1:-1, 1:-1]))
    return u.at[:, -1].set(u[:, -2]).at[0].set(u[1])


def mixed(u):
    u = edges(u)
    return u - u.mean() + 0.1 * jnp.exp(-jnp.abs(u)).sum(0) / N


def in_turn(u):
    return lax.fori_loop(0, 3, lambda i, u: edges(u), u) + 0.1 * jnp.sin(u)


def scanned(f):
    return lambda u: lax.scan(lambda u, _: (f(u), u[3, 3]), u, None, length=TURNS)


def while_looped(f):
    return lambda u: lax.while_loop(lambda c: c[0] < TURNS, lambda c: (c[0] + 1, f(c[1])), (0, u))


def derivative(f):
    return fgrad.grad(lambda u: (scanned(f)(u)[0] ** 2).sum())


@pytest.mark.parametrize("form", [scanned, while_looped, derivative])
@pytest.mark.parametrize("step", [edges, mixed, in_turn])
def test_values_do_not_depend_on_the_pace(form, step):
    u = jnp.asarray(np.random.default_rng(0).standard_normal((N, N)), "float32")
    threads = fgrad.get_num_threads()
    results = []
    try:
        for n in (1, 2):
            fgrad.set_num_threads(n)
            run = fgrad.jit(form(step))
            results += [fgrad.tree.leaves(run(u)) for _ in range(2)]
    finally:
        fgrad.set_num_threads(threads)
    for other in results[1:]:
        for a, b in zip(results[0], other):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("shape", [(100, 120), (12_000,)])
def test_short_steps_are_tried_with_threads(shape):
    """Loops of steps that a kernel by itself would not split are: by a trial, which keeps what is faster; no bit changes."""
    u = jnp.asarray(np.random.default_rng(0).standard_normal(shape), "float32")
    step = lambda i, u: u - 0.1 * (jnp.roll(u, -1, 0) - u) + 0.01 * jnp.tanh(u) * jnp.roll(u, 1)
    threads, results = fgrad.get_num_threads(), []
    try:
        for n in (1, 2):
            fgrad.set_num_threads(n)
            run = fgrad.jit(lambda u: lax.fori_loop(0, TURNS, step, u))
            before = parallel.loops_begun()
            results += [np.asarray(run(u)) for _ in range(2)]
            assert (parallel.loops_begun() > before) == (n == 2)
    finally:
        fgrad.set_num_threads(threads)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


def test_work_of_twenty_microseconds_is_shared():
    """Though its tiles are few: two threads take 3 and 2 of 5."""
    threads = fgrad.get_num_threads()
    try:
        fgrad.set_num_threads(2)
        with fgrad.enable_x64():
            for n, shared in ((10_000, True), (2_000, False)):
                x = jnp.asarray(np.linspace(-0.9, 0.9, n))
                for f in (lax.erf, lax.erf_inv):
                    run = fgrad.jit(f)
                    before = parallel.loops_begun()
                    run(x)
                    assert (parallel.loops_begun() > before) == shared
    finally:
        fgrad.set_num_threads(threads)


@pytest.mark.parametrize("turn", range(0, 72, 7))
def test_an_error_in_a_turn_of_a_trial(turn):
    """An error ends a turn with threads or without; the calls that follow are right."""

    def fails(i):
        if i == turn:
            raise ValueError("stop")
        return i

    def body(i, u):
        k = fgrad.pure_callback(fails, fgrad.ShapeDtypeStruct((), "int32"), i)
        return edges(u) + 0 * k

    u = jnp.ones((N, N))
    with pytest.raises(ValueError, match="stop"):
        fgrad.block_until_ready(fgrad.jit(lambda u: lax.fori_loop(0, 72, body, u))(u))
    np.testing.assert_array_equal(fgrad.jit(edges)(u), fgrad.jit(edges)(u + 0))


PROGRAMS = {
    "stencil": mixed,
    "least squares": lambda u: jnp.linalg.lstsq(jnp.concatenate([u, u * u]), jnp.concatenate([u[0], u[1]]))[0],
    "inverse": lambda u: jnp.linalg.inv(u + N * jnp.eye(N)) @ u,
    "branches": lambda u: lax.cond(u[0, 0] > 100, jnp.cumsum, lambda u: jnp.sort(u, 1).reshape(-1), u),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_calls_of_a_program_while_threads_change(name):
    """Calls through and beyond a trial, of numbers of threads that change within it."""
    u = jnp.asarray(np.random.default_rng(1).standard_normal((N, N)), "float32")
    threads, run, seen = fgrad.get_num_threads(), fgrad.jit(PROGRAMS[name]), set()
    try:
        for n, calls in ((1, 3), (2, 100), (3, 5), (2, 21), (1, 2), (2, 80)):
            fgrad.set_num_threads(n)
            seen |= {np.asarray(run(u)).tobytes() for _ in range(calls)}
    finally:
        fgrad.set_num_threads(threads)
    assert len(seen) == 1


def loss(u, aux=False):
    h = jnp.tanh(edges(u) @ u) @ u.T
    out = jnp.mean(h * h) + fgrad.nn.logsumexp(h[3])
    return (out, h[0]) if aux else out


@pytest.mark.parametrize("form", ["plain", "aux", "second", "raises"])
def test_gradients_outside_of_jit_through_a_trial(form):
    """Values stay, whichever number of threads is kept and whether calls of the trial fail; other programs keep their threads."""

    def fails(u):
        value = loss(u)
        if next(count) % 3 == 1:
            raise ValueError("stop")
        return value

    calls = {
        "plain": fgrad.value_and_grad(loss),
        "aux": fgrad.value_and_grad(lambda u: loss(u, True), has_aux=True),
        "second": fgrad.grad(lambda u: jnp.sum(fgrad.grad(loss)(u) ** 2)),
        "raises": fgrad.grad(fails),
    }
    u = jnp.asarray(np.random.default_rng(2).standard_normal((N, N)) / N, "float32")
    threads, seen, count = fgrad.get_num_threads(), set(), itertools.count()
    try:
        for n, times in ((2, 90), (1, 3), (2, 9)):
            fgrad.set_num_threads(n)
            for _ in range(times):
                try:
                    seen.add(tuple(np.asarray(x).tobytes() for x in fgrad.tree.leaves(calls[form](u))))
                except ValueError:
                    assert form == "raises"
        v = jnp.ones(1 << 22)
        before = parallel.loops_begun()
        fgrad.block_until_ready(jnp.exp(v))
        assert parallel.loops_begun() > before
    finally:
        fgrad.set_num_threads(threads)
    # the first calls, before the gradient is one program, may round otherwise
    assert 1 <= len(seen) <= 2


def test_gradients_whose_arrays_grow():
    """One code with larger and larger arrays, whatever its trials have found of smaller ones."""
    r = np.random.default_rng(4)
    grad = lambda x: fgrad.grad(lambda w: jnp.sum(jnp.tanh(x @ w) ** 2))
    for n in (8, 100, 300, 100):
        x, w = (jnp.asarray(r.standard_normal((n, n)) / n, "float32") for _ in range(2))
        want = fgrad.jit(grad(x))(w)
        for _ in range(70):
            np.testing.assert_allclose(grad(x)(w), want, rtol=1e-4, atol=1e-6)
