"""Arrays stacked from a few columns are computed column by column (compile/stacks)."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax


def lines(fun, *args):
    return [line for _, line in fgrad.jit(fun).lower(*args).compile().profile(*args, repeat=1)]


def both(fun, *args):
    """The results with the pass and without it."""
    got = fgrad.tree.leaves(fgrad.jit(lambda *a: fun(*a))(*args))
    with fgrad.config.override("pass_stacks", False):
        return got, fgrad.tree.leaves(fgrad.jit(lambda *a: fun(*a))(*args))


def same(fun, *args):
    for a, b in zip(*both(fun, *args)):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def lorenz(y):
    a, b, c = y[..., 0], y[..., 1], y[..., 2]
    return jnp.stack([10 * (b - a), a * (28 - c) - b, a * b - 2.5 * c], -1)


def turning(y):
    return jnp.stack([y[..., 1], -y[..., 0]], -1)


def cross(y):
    return jnp.stack([y[..., (k + 1) % 4] * y[..., k] - y[..., 3] for k in range(4)], -1)


def runge(f, h=0.01):
    def step(y):
        k1 = f(y)
        k2 = f(y + h / 2 * k1)
        k3 = f(y + h / 2 * k2)
        k4 = f(y + h * k3)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return step


SYSTEMS = {"lorenz": (lorenz, 3), "turning": (turning, 2), "cross": (cross, 4)}


def start(rows, columns, dtype=np.float32):
    return np.random.default_rng(rows).standard_normal((*np.atleast_1d(rows), columns)).astype(dtype)


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 64, 79, 80, 81, 100, 127, 128, 129, 255, 256, 300, 1000, (4, 30), (1, 40), (40, 1)])
@pytest.mark.parametrize("name", SYSTEMS)
def test_steps_of_runge_and_kutta(name, rows):
    f, k = SYSTEMS[name]
    y, step = start(rows, k), runge(f)
    want = y.astype(np.float64)
    for _ in range(5):
        want = np.asarray(runge(lambda v: np.asarray(_reference(name, v)))(want))
    loop = lambda y: lax.scan(lambda y, _: (step(y), y), y, None, length=5)  # noqa: E731
    for fun in (lambda y: step(step(step(step(step(y))))), lambda y: loop(y)[0]):
        same(fun, y)
        np.testing.assert_allclose(fgrad.jit(fun)(y), want, rtol=1e-4, atol=1e-5)
    same(loop, y)


def _reference(name, v):
    a = [v[..., i] for i in range(v.shape[-1])]
    if name == "lorenz":
        return np.stack([10 * (a[1] - a[0]), a[0] * (28 - a[2]) - a[1], a[0] * a[1] - 2.5 * a[2]], -1)
    if name == "turning":
        return np.stack([a[1], -a[0]], -1)
    return np.stack([a[(k + 1) % 4] * a[k] - a[3] for k in range(4)], -1)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [33, 100, 700])
@pytest.mark.parametrize("name", SYSTEMS)
def test_gradients_and_members(name, rows, dtype, threads):
    f, k = SYSTEMS[name]
    step = runge(f)
    loss = lambda y: (lax.scan(lambda y, _: (step(y), None), y, None, length=4)[0] ** 2).sum()  # noqa: E731
    before = fgrad.get_num_threads()
    fgrad.set_num_threads(threads)
    try:
        with fgrad.enable_x64():
            y = start(rows, k, dtype)
            for fun in (fgrad.grad(loss), fgrad.vmap(fgrad.grad(loss)), fgrad.vmap(loss)):
                near = dict(rtol=2e-5, atol=1e-5) if dtype == np.float32 else dict(rtol=1e-12, atol=1e-12)
                for a, b in zip(*both(fun, y)):
                    np.testing.assert_allclose(a, b, **near)
    finally:
        fgrad.set_num_threads(before)


def test_one_group_computes_a_step():
    y = start(100, 2)
    assert sum("concatenate" in line for line in lines(runge(turning), y)) <= 1
    with fgrad.config.override("pass_stacks", False):
        assert sum("concatenate" in line for line in lines(runge(turning), y)) > 1


Y, Z = start(60, 3), start(61, 3)[:60]
S = lambda *c: jnp.stack(c, -1)  # noqa: E731
CASES = {
    "a constant column": lambda y: S(y[:, 0], jnp.ones(60), y[:, 1] * 2) * 3 + y,
    "a repeated column": lambda y: (lambda s: s[:, 0] * s[:, 1] + (s * 2)[:, 2])(S(y[:, 0], y[:, 0], y[:, 0]) + y),
    "a weight for each column": lambda y: (lambda s: s[:, 0] - s[:, 2])(S(y[:, 2], y[:, 1], y[:, 0]) * np.float32([1, 2, 3])),
    "a weight for each row": lambda y: (lambda s: s[:, 0] - s[:, 2])(S(y[:, 2], y[:, 1], y[:, 0]) * y[:, :1]),
    "rows turned round": lambda y: (lambda s: s[::-1, 0] + s[:, 1])(S(y[:, 0], y[:, 1] + 1) * 2),
    "every second row": lambda y: (lambda s: (s[::2, 0] + 1, s[:, 1] * 2))(S(y[:, 0], y[:, 1] + 1) * 2),
    "a part of a column": lambda y: (lambda s: (s[3:, 0] + 1, s[:, 1] * 2))(S(y[:, 0], y[:, 1] + 1) * 2),
    "rows as another shape": lambda y: (lambda s: s[:, 0].reshape(6, 10) * s[:, 1].reshape(6, 10).T[:6, :6].sum())(
        S(y[:, 0], y[:, 1] + 1) * 2
    ),
    "columns reversed": lambda y: (lambda s: (s[:, ::-1] * s)[:, 0])(S(y[:, 0], y[:, 1] + 1, y[:, 2]) * 2),
    "columns shifted": lambda y: (lambda s: (s[:, 1:] - s[:, :-1])[:, 1] * s[:, 0])(S(y[:, 0], y[:, 1] + 1, y[:, 2]) * 2),
    "a column and a row of the transposed": lambda y: (lambda s: s.T[0] + s[:, 1] + s.reshape(2, 90)[0, :60])(
        S(y[:, 0], y[:, 1] + 1, y[:, 2]) * 2
    ),
    "the stack too": lambda y: (lambda s: (s, (s * 2 + y)[:, 1]))(S(y[:, 0], y[:, 1] + 1, y[:, 2])),
    "a sum of columns": lambda y: (lambda s: (s * s).sum(-1) + s[:, 0])(S(y[:, 0], y[:, 1] + 1, y[:, 2]) - y),
    "a product": lambda y: (lambda s: (s @ np.float32(np.eye(3)[::-1].copy())) + s[:, :1])(S(y[:, 0], y[:, 1] + 1, y[:, 2]) - y),
    "comparisons and selections": lambda y: (lambda s: jnp.where(s > 0, s, y * 2)[:, 1])(S(y[:, 0], y[:, 1] + 1, y[:, 2]) - y),
    "casts": lambda y: (lambda s: (s.astype(jnp.int32) * 2)[:, 1] + s[:, 0])(S(y[:, 0] * 9, y[:, 1] + 1, y[:, 2])),
    "columns of its own": lambda y: (lambda s: S(s[:, 1], s[:, 0], s[:, 2] * 2) + s)(S(y[:, 0], y[:, 1] + 1, y[:, 2]) - y),
    "two of the pieces one": lambda y: (lambda s: (s * 2)[:, 1] + s[:, 0])(jnp.concatenate([y[:, :2], y[:, 1:2]], -1)),
    "a stack of rows": lambda y: (lambda s: (s * 2)[0] + s[1])(jnp.stack([y[:, 0], y[:, 1]])),
    "over another axis": lambda y: (lambda s: (s * 2)[:, 0] + s[:, 1])(jnp.stack([y, y * 2], 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_what_else_reads_a_stack(name):
    same(CASES[name], Y)
    got = fgrad.tree.leaves(fgrad.jit(CASES[name])(Y))
    for a, b in zip(got, fgrad.tree.leaves(CASES[name](jnp.asarray(Y)))):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_members_of_a_while_loop():
    def solve(y):
        def step(c):
            y, n = c
            return runge(lorenz)(y), n + 1

        return lax.while_loop(lambda c: (jnp.abs(c[0][0]) < 12) & (c[1] < 40), step, (y, 0))

    y = np.random.default_rng(0).uniform(0.5, 5, (90, 3)).astype(np.float32)
    same(fgrad.vmap(solve), y)
    (ends, counts), one = fgrad.jit(fgrad.vmap(solve))(y), fgrad.jit(solve)
    for k in (0, 41, 89):
        end, count = one(y[k])
        assert int(count) == int(counts[k])
        np.testing.assert_allclose(ends[k], end, rtol=1e-4)


def test_special_values_stay():
    y = np.float32([[np.nan, 1, -0.0], [np.inf, -np.inf, 0.0], [1e-45, 1e38, -1e38]] * 10)
    same(lambda y: (lambda s: jnp.where(s > 0, s / y, s)[:, 1] + (s * 0)[:, 0])(S(y[:, 2], y[:, 0], y[:, 1]) * 2), y)
