"""Flat code of gathers and scatters of several index vectors: machine code, the interpreter and the ordinary path give the same numbers."""

import numpy as np
import pytest

import fgrad
import fgrad.lax as lax
import fgrad.numpy as jnp
from tests.test_machine import check

MODES = ["clip", "fill", "promise_in_bounds", "wrap"]


def batched(body):
    """A loop over a batch: body(x, i, u) of one member gives (new x, number)."""

    def f(x, ii, us):
        step = lambda x, t: fgrad.vmap(body)(x, *t)  # noqa: E731
        return lax.scan(step, x, (ii, us))

    return f


@pytest.mark.parametrize("n", [2, 3, 16, 17, 48, 64, 65])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int16, np.uint8, np.float16, jnp.bfloat16])
@pytest.mark.parametrize("mode", MODES)
def test_numbers(n, dtype, mode):
    """Table look-ups and updates of each member, inside and beyond the bounds."""
    rng = np.random.default_rng(n)
    x = jnp.asarray(rng.integers(0, 100, (n, 37)).astype(dtype))
    beyond = 0 if mode == "promise_in_bounds" else 45
    ii = jnp.asarray(rng.integers(-beyond, 37 + beyond, (7, n)).astype(np.int32))
    us = jnp.asarray(rng.integers(1, 4, (7, n)).astype(dtype))

    def body(x, i, u):
        y = x.at[i].get(mode=mode, fill_value=7) * u + x.at[i + 1].get(mode=mode if beyond else "clip")
        return x.at[i].set(y, mode=mode).at[i - 1].add(u, mode=mode if beyond else "drop").at[i + 1].multiply(
            u, mode=mode if beyond else "drop"
        ), y

    check(batched(body), (x, ii, us))


@pytest.mark.parametrize("n", [2, 5, 16, 33])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8, jnp.bfloat16])
def test_rows_and_planes(n, dtype):
    """Runs of several numbers; indices of two components; indices from the table itself."""
    rng = np.random.default_rng(n)
    x = jnp.asarray(rng.integers(0, 50, (n, 9, 5)).astype(dtype))
    ii = jnp.asarray(rng.integers(-10, 12, (7, n)).astype(np.int32))
    us = jnp.asarray(rng.integers(1, 4, (7, n)).astype(dtype))

    def rows(x, i, u):
        return x.at[i].add(x[i + 2] * u).at[i - 1].set(x[-i], mode="drop"), x[i, 2]

    def cells(x, i, u):
        j = i % 5
        y = x[i, j] + x[j, i]
        return x.at[i, j].set(y).at[j, i].multiply(u).at[x[i, 0].astype(jnp.int32), 1].add(u), y

    check(batched(rows), (x, ii, us))
    check(batched(cells), (x, ii, us))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_of_one_table(dtype):
    """Several places of one table at once, some of them twice: later ones stay, sums take each."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.integers(0, 50, 23).astype(dtype))
    ii = jnp.asarray(rng.integers(-30, 30, (9, 20)).astype(np.int32))

    def body(x, i):
        y = x[i]
        return x.at[i].set(y + jnp.arange(20).astype(dtype)).at[i[::-1]].add(1).at[i + 3].multiply(2, mode="drop") % 97, y

    check(lambda x, ii: lax.scan(body, x, ii), (x, ii))


def test_wide_indices():
    with fgrad.enable_x64(True):
        rng = np.random.default_rng(0)
        x, u = jnp.asarray(rng.normal(size=(16, 30))), jnp.asarray(rng.normal(size=(7, 16)))
        ii = jnp.asarray(rng.integers(-40, 40, (7, 16)))
        assert ii.dtype == np.int64
        check(batched(lambda x, i, u: (x.at[i].add(u).at[i + 1].set(x[i] * u), x[i - 1] + x[i, ...])), (x, ii, u))
