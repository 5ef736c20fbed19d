"""Slices of gathered rows and of concatenations read no more than they show; their cotangents are added to no more. The same elements."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax

RNG = np.random.default_rng(0)
T = RNG.standard_normal((50, 48)).astype(np.float32)
I = RNG.integers(-50, 50, 600).astype(np.int32)  # noqa: E741
I[::37] = 200  # outside
W = RNG.standard_normal((30, 6, 8)).astype(np.float32)
J = RNG.integers(-40, 40, (20, 30)).astype(np.int32)
STARTS = RNG.integers(-2, 50, (600, 2)).astype(np.int32)


def boxes(x, starts):
    return lax.gather(x, starts, lax.GatherDimensionNumbers((1, 2), (), (0, 1)), (4, 16))


def strips(x, starts):
    """Windows of rows that begin where indices say, of some columns of all."""
    return lax.gather(x, starts[:, :1], lax.GatherDimensionNumbers((1, 2), (), (0,)), (3, 16))


PARTS = {
    "a column": (lambda x, i: x[i][:, 3], T, I),
    "the last column": (lambda x, i: x[i][:, -1] * 2, T, I),
    "two columns": (lambda x, i: jnp.sqrt(1 + x[i][:, 0] ** 2 + x[i][:, 5] ** 2), T, I),
    "a block of columns": (lambda x, i: x[i][:, 4:9], T, I),
    "every eighth column": (lambda x, i: x[i][:, 1::8], T, I),
    "some rows": (lambda x, i: x[i][20:60], T, I),
    "every seventh row": (lambda x, i: jnp.tanh(x[i][::7]), T, I),
    "a block": (lambda x, i: x[i][3:200:3, 5:30], T, I),
    "one row": (lambda x, i: x[i][17], T, I),
    "an element": (lambda x, i: x[i][17, 2], T, I),
    "of what is computed of it": (lambda x, i: (jnp.exp(x[i]) * 2)[:, :3], T, I),
    "transposed": (lambda x, i: x[i].T[2:7], T, I),
    "reshaped": (lambda x, i: x[i].reshape(-1, 6, 8)[:, 2], T, I),
    "reshaped, of each": (lambda x, i: x[i].reshape(-1, 6, 8)[:, :, 2], T, I),
    "backwards": (lambda x, i: x[i][::-5, :4], T, I),
    "beside its whole": (lambda x, i: jnp.sum(x[i] ** 2, 1) + x[i][:, 0], T, I),
    "summed": (lambda x, i: x[i][:, :8].sum(1), T, I),
    "of planes": (lambda x, i: x[i][..., 2, :], W, J),
    "a line of planes": (lambda x, i: x[i][:, 4, :, 3], W, J),
    "planes of some": (lambda x, i: x[i][5:9, ::10], W, J),
    "clipped": (lambda x, i: jnp.take(x, i, 0, mode="clip")[:, 7], T, I),
    "filled": (lambda x, i: jnp.take(x, i, 0, mode="fill", fill_value=3)[:, 7:9], T, I),
    "of columns": (lambda x, i: x[:, i][:3], T, I % 48),
    "of a transpose": (lambda x, i: x.T[i % 48][:, ::9], T, I),
    "windows": (lambda x, i: boxes(x, i)[::5], T, STARTS),
    "inside of windows": (lambda x, i: boxes(x, i)[:, 1, 2:5], T, STARTS),
    "inside of strips": (lambda x, i: strips(x, i)[:, :, 2:5], T, STARTS),
    "rows of strips": (lambda x, i: strips(x, i)[:, 1], T, STARTS),
    "of every row": (lambda x, i: jnp.take_along_axis(x, i[:, None] % 48, 1)[::4], T.repeat(200, 0), np.resize(I, 10_000)),
    "of items along an axis": (
        lambda x, i: jnp.take_along_axis(x, i % 6, 1)[:, 0] + x[:, 1],
        W,
        J[:, :, None].repeat(8, 2).transpose(1, 0, 2),
    ),
    "some of a batch's rows": (lambda x, i: fgrad.vmap(lambda x, i: x[i % 6])(x, i)[::5, 2:4], W, J.T),
    "a batch's columns": (lambda x, i: fgrad.vmap(lambda x, i: x[i % 6])(x, i)[..., 3] * 2, W, np.resize(J, (30, 50))),
    "an element of each of a batch": (lambda x, i: fgrad.vmap(lambda x, i: x[i % 6])(x, i)[:, 7, 5], W, np.resize(J, (30, 50))),
    "more than half of the columns": (lambda x, i: x[i][:, 4:40], T, I),
    "a concatenation's columns": (lambda x, i: jnp.concatenate([x, x * 2] * 3)[:, :5], T, I),
    "one of those concatenated": (lambda x, i: jnp.concatenate([x, jnp.sin(x), x * 3] * 2)[60:90], T, I),
    "of two of those concatenated": (lambda x, i: jnp.concatenate([x, jnp.sin(x), x * 3] * 2)[90:110, ::2], T, I),
    "steps over those concatenated": (lambda x, i: jnp.concatenate([x[:3], jnp.sin(x), x * 3, x[:1], x] * 2)[1::9], T, I),
    "of what is rolled": (lambda x, i: jnp.roll(x.repeat(9, 0), 3, 1)[:, :8], T, I),
    "of repeated ends": (lambda x, i: jnp.pad(x.repeat(9, 0), 2, mode="edge")[:5, 3:9], T, I),
    "of numbers beside": (lambda x, i: jnp.concatenate([jnp.zeros((200, 48)), x, jnp.ones((200, 48))])[198:260, 1], T, I),
}


def _all(f, x, i):
    """f's value, and the gradient of a sum of it, compiled."""
    real = lambda y: y.real if jnp.iscomplexobj(y) else y  # noqa: E731
    weighed = lambda x, i: jnp.sum(real(f(x, i)).astype("float32") * 0.5)  # noqa: E731
    results = fgrad.jit(lambda *a: (f(*a), fgrad.grad(weighed)(*a)))(x, i)
    return [np.asarray(y.astype("float32") if y.dtype == jnp.bfloat16 else y) for y in results]


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64"])
def test_parts(name, dtype):
    f, x, i = PARTS[name]
    with fgrad.enable_x64(dtype == "float64"):
        x, i = jnp.asarray(x).astype(dtype), jnp.asarray(i)
        got = _all(f, x, i)
        with fgrad.config.override("pass_simplify", False):
            want = _all(f, x, i)
        np.testing.assert_array_equal(got[0], want[0])
        np.testing.assert_allclose(got[1], want[1], rtol=2e-2 if dtype == "bfloat16" else 1e-5, atol=1e-6)


def _units(f, *args):
    return [label for _, label in fgrad.jit(f).lower(*args).compile().profile(*args, repeat=1)]


@pytest.mark.parametrize("name", ["a column", "two columns", "a block of columns", "some rows", "every seventh row"])
def test_nothing_is_made_whole(name):
    f, x, i = PARTS[name]
    for g in (f, fgrad.grad(lambda x, i: jnp.sum(f(x, i) ** 2))):
        assert not [u for u in _units(g, x, i) if "[600, 48]" in u]


def test_added_to_what_there_is():
    f = lambda y, u, i: y.at[i].add(jnp.pad(u, ((0, 0), (3, 41)))) * 2  # noqa: E731
    u = T[:, :4].repeat(12, 0)
    want = T.copy()
    inside = (I >= -50) & (I < 50)
    np.add.at(want[:, 3:7], I[inside], u[inside])
    np.testing.assert_allclose(np.asarray(fgrad.jit(f)(T, u, I)), want * 2, rtol=1e-5, atol=1e-5)


def test_what_is_read_whole_is_gathered_once():
    f, x, i = PARTS["beside its whole"]
    assert sum(["gather" in u or "take" in u for u in _units(f, x, i)]) == 1


def test_few_rows_of_many_are_padded_as_they_are():
    f = lambda x, i: jnp.sum(x[i][:, :4] ** 2)  # noqa: E731
    x, i = jnp.asarray(T.repeat(200, 0)), jnp.asarray(np.arange(200))
    assert [u for u in _units(fgrad.grad(f), x, i) if u.startswith("scatter [10000, 48]")]
