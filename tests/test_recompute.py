"""Rematerialisation: elementwise results that are cheap to compute again do not pass through memory between sums over all rows."""

import numpy as np
import pytest

import fgrad
import fgrad.compile.recompute
import fgrad.numpy as jnp
from fgrad import lax

SHAPE = (96, 64)


@pytest.fixture(autouse=True)
def small_arrays_count(monkeypatch):
    monkeypatch.setattr(fgrad.compile.recompute, "WORTH_BYTES", 1024)
    fgrad.clear_caches()  # of programs made without


def batch_norm(x):
    c = x - jnp.mean(x, 0)
    return jnp.sum(jnp.square(c * lax.rsqrt(jnp.mean(c * c, 0) + 1e-5)) * x)


def standardized(x):
    return jnp.sum(((x - jnp.mean(x)) / jnp.std(x)) ** 3)


def shares_of_columns(x):
    y = x * 0.1
    e = jnp.exp(y - jnp.max(y, 0))
    return jnp.sum(e / (1 + jnp.sum(e, 0)) * x)


def masked(x):
    y = jnp.where(x > 0, x, 0.5 * x)
    return jnp.sum(y / (1 + jnp.sum(jnp.abs(y), 0)))


def scaled(x):
    y = 2 * x + 1
    return (y - y.min(0)) / (y.max(0) - y.min(0))


PROGRAMS = [fgrad.grad(f) for f in (batch_norm, standardized, shares_of_columns, masked)] + [scaled]
NAMES = ["batch_norm", "standardized", "shares_of_columns", "masked", "scaled"]


def array(shape=SHAPE, dtype=np.float32):
    return jnp.asarray(np.random.default_rng(0).standard_normal(shape).astype(dtype))


def compiled(fun, *args):
    return fgrad.jit(lambda *args: fun(*args)).lower(*args).compile()


@pytest.mark.parametrize("fun", PROGRAMS, ids=NAMES)
def test_results_agree_with_and_without(fun):
    x = array()
    with fgrad.config.override("pass_recompute", False):
        want = compiled(fun, x)(x)
    np.testing.assert_allclose(compiled(fun, x)(x), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("fun", [scaled, fgrad.grad(shares_of_columns), fgrad.grad(batch_norm)])
def test_less_is_written(fun):
    x = array()
    with fgrad.config.override("pass_recompute", False):
        before = compiled(fun, x).memory_analysis()["temp_bytes"]
    assert before - compiled(fun, x).memory_analysis()["temp_bytes"] >= x.size * 3


def test_dear_results_are_kept():
    def fun(x):
        y = jnp.exp(jnp.sin(x))
        return y / jnp.sum(y, 0)

    x = array()
    with fgrad.config.override("pass_recompute", False):
        before = compiled(fun, x).memory_analysis()["temp_bytes"]
    assert compiled(fun, x).memory_analysis()["temp_bytes"] == before


def test_donated_memory_is_still_taken_over():
    step = fgrad.jit(lambda x: scaled(x) + 0 * jnp.sum(x), donate_argnums=0)
    with fgrad.config.override("pass_recompute", False):
        before = step.lower(array()).compile().memory_analysis()["alias_bytes"]
    again = fgrad.jit(lambda x: scaled(x) + 0 * jnp.sum(x), donate_argnums=0)
    assert again.lower(array()).compile().memory_analysis()["alias_bytes"] == before
    x = np.array(array())
    np.testing.assert_allclose(again(array()), (x - x.min(0)) / (x.max(0) - x.min(0)), rtol=1e-4, atol=1e-5)


def test_results_of_the_program_are_written_once():
    def fun(x):
        y = x * 2 - 1
        return y, y / jnp.sum(y * y, 0)

    x = array()
    y = np.asarray(x) * 2 - 1
    got = compiled(fun, x)(x)
    np.testing.assert_allclose(got[0], y, rtol=1e-6)
    np.testing.assert_allclose(got[1], y / (y * y).sum(0), rtol=1e-5)


def test_floats_of_16_bits_keep_their_rounding():
    def fun(x):
        y = x * x + x
        return y - jnp.mean(y, 0)

    x = array().astype(jnp.bfloat16)
    with fgrad.config.override("pass_recompute", False):
        want = compiled(fun, x)(x)
    np.testing.assert_array_equal(np.asarray(compiled(fun, x)(x), np.float32), np.asarray(want, np.float32))


def test_in_the_body_of_a_loop():
    def step(x, _):
        return scaled(x) * 0.5 + x, jnp.sum(x)

    x = array()
    want = x
    for _ in range(3):
        want = scaled(want) * 0.5 + want
    np.testing.assert_allclose(fgrad.jit(lambda x: lax.scan(step, x, None, length=3)[0])(x), want, rtol=1e-5, atol=1e-5)
