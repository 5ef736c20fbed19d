"""Pads of one array as parts of one wider pad (compile/margins), and results laid in the rows of their readers (compile/frames)."""

import itertools

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax

OFF = ("pass_margins", "pass_frames")


def instructions(fun, *args):
    return [name for _, name in fgrad.jit(fun).lower(*args).compile().profile(*args, repeat=1)]


def stencil(x, weights):
    """Of every place of x but those at the ends: the weighted sum of the elements around it, weights of all axes 3 long."""
    inner = [n - 2 for n in x.shape]
    total = 0
    for at in itertools.product(range(3), repeat=x.ndim):
        if weights[at]:
            total = total + weights[at] * x[tuple(slice(a, a + n) for a, n in zip(at, inner))]
    return total


def spread(t, weights):
    """The transpose of `stencil`, by NumPy."""
    out = np.zeros([n + 2 for n in t.shape])
    for at in itertools.product(range(3), repeat=t.ndim):
        out[tuple(slice(a, a + n) for a, n in zip(at, t.shape))] += weights[at] * t
    return out


def off(fun, *args):
    """What fun gives with both passes turned off."""
    with fgrad.config.override(OFF[0], False), fgrad.config.override(OFF[1], False):
        return fgrad.jit(lambda *a: fun(*a))(*args)


SHAPES = [(120, 110), (5, 2600), (33, 1023), (130, 256), (129, 257), (24, 25, 26), (3, 80, 90), (66, 64, 62), (8, 9, 20, 21), (4, 2000, 6)]


@pytest.mark.parametrize("kind", ["cross", "full", "one sign"])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_of_a_stencil(shape, kind):
    rng = np.random.default_rng(0)
    weights = rng.standard_normal([3] * len(shape))
    if kind != "full":
        centre = sum(np.abs(k - 1) for k in np.indices(weights.shape))
        weights = np.where(centre == 1, -1.0 if kind == "one sign" else 1.0, np.where(centre == 0, -2.0 * len(shape), 0.0))
    x = rng.standard_normal(shape).astype(np.float32)
    fun = fgrad.grad(lambda x: 0.5 * (stencil(x, weights) ** 2).sum())
    want = spread(stencil(x.astype(np.float64), weights), weights)
    np.testing.assert_allclose(fgrad.jit(fun)(x), want, rtol=1e-4, atol=2e-4)
    np.testing.assert_allclose(off(fun, x), want, rtol=1e-4, atol=2e-4)


def test_pads_of_one_array_are_one():
    x = np.ones((40, 50, 60), np.float32)
    cross = np.zeros((3, 3, 3))
    cross[1, 1] = cross[1, :, 1] = cross[:, 1, 1] = 1
    cross[1, 1, 1] = -6
    names = instructions(fgrad.grad(lambda x: (stencil(x, cross) ** 2).sum()), x)
    assert sum("pad" in name for name in names) == 1 and not any("window" in name for name in names), names


def test_multiples_far_apart_stay_finite():
    """1e30 times an array is not 1e60 times its 1e-30."""
    weights = np.zeros((3, 3))
    weights[1] = weights[:, 1] = 1e-30
    weights[1, 0] = 1e30
    t = np.ones((120, 110), np.float32)
    fun = fgrad.grad(lambda x, t: (stencil(x, weights) * t).sum())
    np.testing.assert_allclose(fgrad.jit(fun)(np.ones((122, 112), np.float32), t), spread(t.astype(np.float64), weights), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "int8", "complex64"])
@pytest.mark.parametrize("shape", [(126, 130), (30, 31, 32)])
def test_sums_of_pads(shape, dtype):
    """Pads by many margins, of an argument, of what is computed, of multiples of it; parts of them; and one that is a result."""
    with fgrad.enable_x64(dtype == "float64"):
        rng = np.random.default_rng(1)
        x = jnp.asarray(rng.integers(-3, 4, shape)).astype(dtype)
        sides = [(0, 4), (1, 3), (2, 2), (4, 0)]
        zero = jnp.zeros((), dtype)

        def fun(x):
            y = x * x
            pads = [lax.pad(k * y, zero, [(*sides[(i + d) % 4], 0) for d in range(len(shape))]) for i, k in enumerate([1, -1, 3, 1])]
            plain = [lax.pad(x, zero, [(*sides[(i + 2 * d) % 4], 0) for d in range(len(shape))]) for i in range(4)]
            return pads[0] + pads[1] + pads[2] - pads[3], plain[0] - plain[1] * plain[2] + plain[3], plain[1], pads[3][3:, 1:-2] * 2

        x64 = np.asarray(x).astype(np.complex128 if dtype == "complex64" else np.float64)
        y64 = x64 * x64
        pads = [k * np.pad(y64, [sides[(i + d) % 4] for d in range(len(shape))]) for i, k in enumerate([1, -1, 3, 1])]
        plain = [np.pad(x64, [sides[(i + 2 * d) % 4] for d in range(len(shape))]) for i in range(4)]
        want = pads[0] + pads[1] + pads[2] - pads[3], plain[0] - plain[1] * plain[2] + plain[3], plain[1], pads[3][3:, 1:-2] * 2
        for got, other, w in zip(fgrad.jit(fun)(x), off(fun, x), want):
            assert got.dtype == x.dtype
            np.testing.assert_array_equal(np.asarray(got).astype(w.dtype), w)  # small integers: exact in every dtype
            np.testing.assert_array_equal(np.asarray(other).astype(w.dtype), w)


@pytest.mark.parametrize("shape", [(70, 71), (9, 300), (64, 64, 64), (20, 21, 255), (6, 7, 8, 40)])
def test_results_in_the_rows_of_their_readers(shape):
    """The gradient of a total variation: its cotangents lie in rows of the array's."""
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    inner = tuple(slice(None, -1) for _ in shape)
    ahead = [tuple(slice(1, None) if d == k else slice(None, -1) for d in range(len(shape))) for k in range(len(shape))]

    def variation(x):
        return jnp.sqrt(sum((x[a] - x[inner]) ** 2 for a in ahead) + 1e-2).sum()

    x64 = x.astype(np.float64)
    d = [x64[a] - x64[inner] for a in ahead]
    size, want = np.sqrt(sum(k * k for k in d) + 1e-2), np.zeros(shape)
    for a, k in zip(ahead, d):
        want[a] += k / size
        want[inner] -= k / size
    fun = fgrad.grad(variation)
    np.testing.assert_allclose(fgrad.jit(fun)(x), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(off(fun, x), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_of_slices(seed):
    """Slices, pads, updates and sums over random shapes: values and gradients as without the passes."""
    rng = np.random.default_rng(seed)
    ndim = int(rng.integers(2, 4))
    shape = tuple(int(k) for k in rng.integers(*((90, 150) if ndim == 2 else (22, 34)), ndim))
    x = rng.standard_normal(shape).astype(np.float32)
    plan = [(int(rng.integers(4)), [int(k) for k in rng.integers(0, 3, ndim)], float(rng.choice([-2, -1, 0.5, 1, 1]))) for _ in range(6)]
    inner = [n - 2 for n in shape]

    def fun(x):
        y = x * 0.5 + jnp.roll(x, 1, ndim - 1) if seed % 2 else x
        total, inside = 0, 0
        for kind, at, c in plan:
            part = y[tuple(slice(a, a + n) for a, n in zip(at, inner))]
            if kind == 0:
                inside = inside + c * part
            elif kind == 1:
                inside = inside + jnp.sin(part) * c
            elif kind == 2:
                total = total + jnp.pad(c * part, [(2 - a, a) for a in at])
            else:
                y = y.at[tuple(slice(1, -1) for _ in shape)].add(c * part)
        return y + total + jnp.pad(inside * jnp.ones(inner, x.dtype), 1)

    grad = fgrad.grad(lambda x: (fun(x) ** 2).sum())
    for f in (fun, grad):
        got, want = np.asarray(fgrad.jit(f)(x)), np.asarray(off(f, x))
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * max(1, np.abs(want).max()))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "complex64", "bool"])
@pytest.mark.parametrize(
    "shape, margins", [((70, 80), (1, 2)), ((20, 30, 33), (0, 3)), ((5000,), (7, 0)), ((64, 64), (0, 0)), ((64, 70), (-1, 2))]
)
def test_what_is_padded_is_computed_between_its_margins(shape, margins, dtype):
    x = jnp.asarray(np.random.default_rng(3).integers(0, 5, shape)).astype(dtype)
    value = jnp.asarray(1, dtype)

    def fun(x):
        y = lax.pad(x * x if dtype != "bool" else ~x, value, [(*margins, 0)] * len(shape))
        return y, jnp.flip(y) if dtype == "bool" else y[::-1] + y

    with fgrad.config.override("pass_shift", False):
        got, turned = fgrad.jit(fun)(x)
    want = np.asarray(x).astype(np.complex64 if dtype == "complex64" else np.float32)
    want = want * want if dtype != "bool" else 1 - want
    want = np.pad(want, [tuple(max(m, 0) for m in margins)] * len(shape), constant_values=1)
    want = want[tuple(slice(max(-margins[0], 0), n - max(-margins[1], 0)) for n in want.shape)]
    np.testing.assert_array_equal(np.asarray(got).astype(want.dtype), want)
    np.testing.assert_array_equal(np.asarray(turned).astype(want.dtype), np.flip(want) if dtype == "bool" else want[::-1] + want)


@pytest.mark.parametrize("n", [257, 258, 1000, 4000, 13_000])
def test_steps_along_a_line(n):
    """A string's and a heated rod's step: an update by neighbours, whose cotangent is an update by what it read there, and pads."""
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal((2, n)).astype(np.float32)

    def rod(u):
        return u.at[1:-1].add(0.2 * (u[2:] - 2 * u[1:-1] + u[:-2]))

    def string(u, v):
        v = v + 0.1 * jnp.zeros_like(u).at[1:-1].set(u[2:] - 2 * u[1:-1] + u[:-2])
        return u + 0.1 * v, v

    a = np.eye(n, k=1)[1:-1] - 2 * np.eye(n)[1:-1] + np.eye(n, k=-1)[1:-1] if n < 2000 else None
    grads = fgrad.jit(fgrad.grad(lambda u: (rod(u) ** 2).sum()))(u), fgrad.jit(fgrad.grad(lambda u: (string(u, v)[0] ** 2).sum()))(u)
    plain = [off(fgrad.grad(f), u) for f in (lambda u: (rod(u) ** 2).sum(), lambda u: (string(u, v)[0] ** 2).sum())]
    for got, other in zip(grads, plain):
        np.testing.assert_allclose(got, other, rtol=1e-5, atol=1e-5)
    if a is None:
        return
    step = np.eye(n) + 0.2 * np.pad(a, ((1, 1), (0, 0)))
    np.testing.assert_allclose(grads[0], 2 * step.T @ (step @ u), rtol=1e-4, atol=1e-4)
    step = np.eye(n) + 0.01 * np.pad(a, ((1, 1), (0, 0)))
    np.testing.assert_allclose(grads[1], 2 * step.T @ (step @ u + 0.1 * v), rtol=1e-4, atol=1e-4)


def test_what_an_update_replaced_and_read():
    """Cotangents of elements that an update replaced (none) and of what it read there: one update."""
    x = np.full((30, 40), -0.0, np.float32)
    names = instructions(lambda t: t.at[1:-1, 1:-1].set(0) + jnp.pad(3 * t[1:-1, 1:-1], 1), x)
    assert not any("pad" in name for name in names), names
    got = fgrad.jit(lambda t: t.at[1:-1, 1:-1].set(0) + jnp.pad(3 * t[1:-1, 1:-1], 1))(x)
    np.testing.assert_array_equal(np.signbit(got), np.zeros(x.shape, bool))  # a sum with +0
    x = np.random.default_rng(0).standard_normal((30, 40)).astype(np.float32)
    want = x.copy()
    want[1:-1, 1:-1] *= 3
    for more in (0, x[::-1].copy()):
        got = fgrad.jit(lambda t, more=more: (t.at[1:-1, 1:-1].set(0) + more) + jnp.pad(3 * t[1:-1, 1:-1], 1))(x)
        np.testing.assert_allclose(got, want + more, rtol=1e-6)
    moved = fgrad.jit(lambda t: t.at[1:-1, 1:-1].set(0) + jnp.pad(t[2:, 1:-1], ((0, 2), (1, 1))))(x)
    want[1:-1, 1:-1] = 0
    np.testing.assert_allclose(moved, want + np.pad(x[2:, 1:-1], ((0, 2), (1, 1))), rtol=1e-6)


def test_pads_of_pads_are_one():
    """The cotangents of corners of differences are padded twice: of four choices for each element, not eight, nothing is written first."""
    x = np.random.default_rng(3).standard_normal((130, 140)).astype(np.float32)

    def variation(x):
        return jnp.sqrt(jnp.diff(x, axis=0)[:, :-1] ** 2 + jnp.diff(x, axis=1)[:-1] ** 2 + 1e-3).sum()

    fun = fgrad.grad(variation)
    names = instructions(fun, x)
    assert len(names) == 2 and sum(name.count("window") for name in names) <= 4, names
    wide = x.astype(np.float64)
    down, right = np.diff(wide, axis=0)[:, :-1], np.diff(wide, axis=1)[:-1]
    length = np.sqrt(down**2 + right**2 + 1e-3)
    want = np.zeros(x.shape)
    want[1:, :-1] += down / length
    want[:-1, :-1] -= down / length + right / length
    want[:-1, 1:] += right / length
    np.testing.assert_allclose(fgrad.jit(fun)(x), want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(off(fun, x), want, rtol=1e-4, atol=1e-4)
