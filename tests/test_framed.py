"""Small grids run at once but for a frame: the same bits as with rolls, pads and updates written to memory."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax

SHAPES = [(49, 50), (64, 64), (61, 77), (100, 100), (150, 130), (20, 100), (44, 47), (3, 1200), (1200, 3), (6, 40, 33)]


def data(shape, dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if dtype == "int32":
        return (x * 10).astype(dtype)
    x = x.astype(dtype)
    for value in (np.nan, np.inf, -np.inf, -0.0):
        x.flat[rng.integers(x.size, size=3)] = value
    x.flat[0], x.flat[-1] = -0.0, np.inf
    return x


def plainly(fun, *args):
    """fun(*args) with all that moves written to memory."""
    before = fgrad.config.pass_shift
    fgrad.config.update("pass_shift", False)
    try:
        return fgrad.jit(lambda *a: fun(*a))(*args)
    finally:
        fgrad.config.update("pass_shift", before)


def same_bits(got, want):
    for a, b in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        np.testing.assert_array_equal(a, b)
        if a.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(a) | np.isnan(a), np.signbit(b) | np.isnan(b))


def instructions(fun, *args):
    return [name for _, name in fgrad.jit(fun).lower(*args).compile().profile(*args, repeat=1)]


def heat(u):
    return u + 0.1 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u)


def term(rng, x, others):
    """A random part of a stencil of x, of its shape."""
    axis, by = int(rng.integers(x.ndim)), int(rng.choice([-2, -1, 1, 2]))
    inner = tuple(slice(1, -1) if n > 2 else slice(None) for n in x.shape)
    match rng.integers(8):
        case 0 | 1:
            return jnp.roll(x, by, axis)
        case 2:
            return jnp.roll(x, (1, by), (0, x.ndim - 1))
        case 3:
            return x.at[inner].set(2 * x[inner] + others[0][inner])
        case 4:
            return jnp.pad(x[inner] - 3 * others[0][inner], [(1, 1) if n > 2 else (0, 0) for n in x.shape])
        case 5:
            return jnp.roll(-3 * x, by, axis) - jnp.roll(x * others[0], -by, axis)
        case 6:
            return jnp.where(others[0] > 0, x - jnp.roll(x, by, axis), jnp.roll(x, -by, axis) - x)
        case _:
            first, rest = lax.slice_in_dim(others[0], 0, 1, axis=axis), lax.slice_in_dim(x, 0, x.shape[axis] - 1, axis=axis)
            return jnp.concatenate([first, rest], axis)


def stencil(seed):
    def fun(x, y):
        rng = np.random.default_rng(seed)
        z = term(rng, x, [y]) + y
        for _ in range(int(rng.integers(1, 4))):
            z = z - term(rng, x, [y]) if rng.random() < 0.6 else z * term(rng, y, [x])
        return z, y + term(rng, z, [x])

    return fun


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("shape", SHAPES)
def test_random_stencils(shape, dtype):
    with fgrad.enable_x64(dtype == "float64"):
        x, y = jnp.asarray(data(shape, dtype)), jnp.asarray(data(shape, dtype, 1))
        for seed in range(6):
            fun = stencil(seed)
            same_bits(fgrad.jit(lambda *a, fun=fun: fun(*a))(x, y), plainly(fun, x, y))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", SHAPES[:5])
def test_stencils_in_loops(shape, threads):
    x, y = jnp.asarray(data(shape)), jnp.asarray(data(shape, seed=1))
    before = fgrad.get_num_threads()
    fgrad.set_num_threads(threads)
    try:
        for seed in range(4):
            step = stencil(seed)

            def fun(x, y, step=step):
                def half(x, y):
                    a, b = step(x, y)
                    return jnp.clip(a, -4, 4), jnp.clip(b, -4, 4)

                return lax.fori_loop(0, 7, lambda i, s: half(*s), (x, y))

            same_bits(fgrad.jit(fun)(x, y), plainly(fun, x, y))
    finally:
        fgrad.set_num_threads(before)


@pytest.mark.parametrize("shape", [(64, 64), (61, 77), (100, 100), (128, 128)])
def test_shallow_water_with_its_gradient(shape):
    def step(s):
        h, u, v = s
        u = u - 0.1 * (jnp.roll(h, -1, 1) - h)
        v = v - 0.1 * (jnp.roll(h, -1, 0) - h)
        return h - 0.1 * (u - jnp.roll(u, 1, 1) + v - jnp.roll(v, 1, 0)), u, v

    def loss(*s):
        return sum((x * x).sum() for x in lax.scan(lambda s, _: (step(s), None), s, None, length=9)[0])

    state = tuple(jnp.asarray(np.random.default_rng(k).standard_normal(shape).astype(np.float32)) for k in range(3))
    same_bits(fgrad.jit(step)(state), plainly(step, state))
    for a, b in zip(fgrad.jit(fgrad.grad(loss, (0, 1, 2)))(*state), plainly(fgrad.grad(loss, (0, 1, 2)), *state), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-4)
    assert len(instructions(step, state)) == 2  # both velocities, then the height


def test_what_becomes_one_instruction():
    def dear(u):
        return jnp.exp(jnp.roll(u, 1, 0) + jnp.roll(u, 1, 1))

    def wave(u):
        return u + 0.1 * jnp.pad(u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1], 1)

    shapes = {(32, 32): False, (44, 44): True, (64, 64): True, (100, 100): True, (10, 14, 14): False, (24, 20, 24): True}
    for shape, one in shapes.items():
        u = jnp.asarray(data(shape))
        assert (len(instructions(heat, u)) == 1) == one
    for n, one in ((50, False), (64, True)):  # a frame for one copy
        assert (len(instructions(wave, jnp.asarray(data((n, n))))) == 1) == one
    u, column = jnp.asarray(data((64, 64))), jnp.asarray(data((64, 1)))
    assert len(instructions(dear, u)) > 1  # the exponential is no stage
    assert len(instructions(lambda u, c: heat(u) * c, u, column)) > 1  # nor lies a column as the grid does
    same_bits(fgrad.jit(lambda u, c: heat(u) * c)(u, column), plainly(lambda u, c: heat(u) * c, u, column))


@pytest.mark.parametrize("shape", [(44, 47), (64, 64), (100, 100), (128, 128)])
def test_reductions_beside_a_stencil_stay_out_of_it(shape):
    """What a step says of its state costs no copies of what the step moves."""

    def said(u):
        v = heat(u)
        return v, v.mean(), jnp.max(jnp.abs(v)), v.sum(0)

    def varied(u):  # each sum is of something of its own
        return [jnp.sum((jnp.roll(u, 1, axis) - u) ** 2) for axis in (0, 1)] + [jnp.sum(jnp.abs(u - 1))]

    u = jnp.asarray(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    for fun in (said, varied, lambda u: (u * heat(u)).sum(1), lambda u: heat(u) - heat(u).max(1, keepdims=True)):
        for a, b in zip(fgrad.jit(fun)(u), plainly(fun, u), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    assert not any("concatenate" in name for name in instructions(said, u))
    assert any("concatenate" in name for name in instructions(varied, u)) == (u.size < 12000)
    step = lambda u, _: (heat(u), (u.mean(), jnp.sum(u * u)))  # noqa: E731
    for a, b in zip(
        *[run(lambda u: lax.scan(step, u, None, length=9)[1], u) for run in (lambda f, u: fgrad.jit(f)(u), plainly)], strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-4)


def test_a_result_over_what_is_read():
    """A carry that the step reads at other places is not written over before."""
    u = jnp.asarray(np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32))

    def run(u):
        return lax.fori_loop(0, 20, lambda i, u: jnp.roll(u, 1, 0) * 0.5 + jnp.roll(u, -1, 1) * 0.5, u)

    want = np.asarray(u)
    for _ in range(20):
        want = np.roll(want, 1, 0) * np.float32(0.5) + np.roll(want, -1, 1) * np.float32(0.5)
    np.testing.assert_array_equal(fgrad.jit(run)(u), want)
