"""What is put into zeros and added to a value is added where it belongs: the same values, and no whole array for one element."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from fgrad.compile.accumulate import accumulate

N = 50
U, W = np.array([2.0, 3.0, 5.0], np.float32), np.array([7.0, 11.0], np.float32)
AT = np.array([4, 49, 4])


def zeros(dtype=np.float32):
    return jnp.zeros(N, dtype)


def scattered(i, u):
    return zeros().at[i].add(u)


def put(u, k):
    return lax.dynamic_update_slice(zeros(), u, (k,))


SUMS = dict(
    scatter=lambda x, i, k: x + scattered(i, U),
    window=lambda x, i, k: put(W, k) + x,
    both=lambda x, i, k: x * 2 + (scattered(i, U) + (put(W, k) + put(W * 2, k + 1))),
    of_both=lambda x, i, k: (x + put(W, k)) + scattered(i, U),
    reshaped=lambda x, i, k: x.reshape(5, 10) + scattered(i, U).reshape(5, 10),
    reshaped_twice=lambda x, i, k: x.reshape(5, 10) + (scattered(i, U).reshape(5, 10) + put(W, k).reshape(5, 10)),
    spread=lambda x, i, k: x[:1] + put(W, k),
    bounded=lambda x, i, k: x + put(W, k + 1000),
)
KEPT = dict(
    used_twice=lambda x, i, k: (lambda y: (x + y) * y)(put(W, k)),
    not_zeros=lambda x, i, k: x + lax.dynamic_update_slice(jnp.ones(N), W, (k,)),
    of_16_bits=lambda x, i, k: x.astype(jnp.bfloat16) + zeros(jnp.bfloat16).at[i].add(U.astype(jnp.bfloat16)),
)


def sums(closed):
    return sum(e.primitive.name == "add" and e.outvars[0].aval.size == N for e in closed.eqns)


@pytest.mark.parametrize("name", [*SUMS, *KEPT])
def test_sums(name):
    fun, args = {**SUMS, **KEPT}[name], (np.linspace(-1, 1, N, dtype=np.float32), AT, np.int32(20))
    closed = fgrad.make_jaxpr(fun)(*args)
    assert sums(closed) > 0 and (sums(accumulate(closed)) == 0) == (name in SUMS)
    with fgrad.config.override("pass_accumulate", False):
        want = fgrad.jit(fun)(*args)
    np.testing.assert_allclose(np.asarray(fgrad.jit(fun)(*args), np.float64), np.asarray(want, np.float64), rtol=1e-6)


@pytest.mark.parametrize("shape", [(2, 2), (300, 3)])
def test_gradients_of_loops_that_look_up(shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)

    def fun(x):
        def step(i, c):
            k = (jnp.abs(c[0]) * 100).astype(jnp.int32) % len(x)
            window = lax.dynamic_slice(x, (k - 1, 0), (2, 2))
            return jnp.tanh(c + x[k, ::-1] + x[k] * window[1, 0] + x[jnp.array([0, 1, 0])].sum(0) + x[i % 2])

        return lax.fori_loop(0, 6, step, x[0]).sum()

    batched = lambda x: fgrad.vmap(fgrad.grad(fun))(jnp.stack([x, -x]))
    tangent = lambda x: fgrad.jvp(fgrad.grad(fun), (x,), (x,))[1]
    for f in (fgrad.grad(fun), batched, tangent):
        with fgrad.config.override("pass_accumulate", False):
            want = fgrad.jit(f)(x)
        np.testing.assert_allclose(fgrad.jit(f)(x), want, rtol=1e-4, atol=1e-5)


def test_gradients_of_parts_of_columns_add_to_one_array():
    """The cotangent of x[1:-1, j] is a column of zeros' rows inside zeros."""

    def total(x):
        return lax.fori_loop(0, 6, lambda j, c: c + (x[1:-1, j] * c).sum(), 1.0)

    x = np.random.default_rng(0).standard_normal((9, 6)).astype(np.float32) / 9
    with fgrad.config.override("pass_accumulate", False):
        want = fgrad.jit(fgrad.grad(total))(x)
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(total))(x), want, rtol=1e-5, atol=1e-6)
    scans = [e for e in accumulate(fgrad.make_jaxpr(fgrad.grad(total))(x)).eqns if e.primitive.name == "scan"]
    for scan in scans:
        assert not any(e.primitive.name == "pad" for e in accumulate(scan.params["jaxpr"]).eqns)
