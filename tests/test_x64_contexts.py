"""Settings of one thread: 64-bit arrays that outlive enable_x64, and programs that know which settings are in force."""

import threading

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp


@pytest.fixture
def wide():
    with fgrad.enable_x64(True):
        return jnp.arange(3.0) + 1


def test_derivatives_of_wide_arrays_stay_wide(wide):
    for g, want in (
        (fgrad.grad(lambda a: jnp.sum(a * a))(wide), [2, 4, 6]),
        (fgrad.grad(lambda a: jnp.sum(3 * a * a))(wide), [6, 12, 18]),
        (fgrad.grad(lambda a: a[0] * 1.0)(wide), [1, 0, 0]),
        (fgrad.grad(fgrad.checkpoint(lambda a: jnp.sum(jnp.sin(a))))(wide), np.cos([1, 2, 3])),
        (fgrad.jit(fgrad.grad(lambda a: jnp.sum(a**3)))(wide), [3, 12, 27]),
        (fgrad.hessian(lambda a: jnp.sum(a**3))(wide), np.diag([6, 12, 18])),
        (fgrad.jacfwd(lambda a: a**2)(wide), np.diag([2, 4, 6])),
    ):
        assert g.dtype == np.float64
        np.testing.assert_allclose(g, want, rtol=1e-6)


def test_wide_arrays_beside_numbers_are_narrowed(wide):
    with fgrad.enable_x64(True):
        whole = jnp.arange(3)
    for f in (lambda a: a + 1, fgrad.jit(lambda a: a + 1), fgrad.vmap(lambda a: a + 1)):
        assert f(wide).dtype == np.float32 and f(wide).tolist() == [2, 3, 4]
        assert f(whole).dtype == np.int32 and f(whole).tolist() == [1, 2, 3]


def test_what_is_made_like_wide_arrays_is_wide(wide):
    assert jnp.zeros_like(wide).dtype == np.float64
    changed = wide.at[0].set(3.0)
    assert changed.dtype == np.float64 and changed.tolist() == [3, 2, 3]


def test_a_program_sees_changes_of_settings_and_of_other_threads():
    f = fgrad.jit(lambda: jnp.zeros(()))
    seen, go, done = [], threading.Event(), threading.Event()

    def other():
        with fgrad.enable_x64(True):
            seen.append(f().dtype)
            done.set()
            go.wait(10)
            seen.append(f().dtype)
        seen.append(f().dtype)

    thread = threading.Thread(target=other)
    thread.start()
    done.wait(10)
    assert f().dtype == np.float32
    with fgrad.enable_x64(True):
        assert f().dtype == np.float64
        with fgrad.enable_x64(False):
            assert f().dtype == np.float32
        assert f().dtype == np.float64
    go.set()
    thread.join()
    assert f().dtype == np.float32
    assert seen == [np.float64, np.float64, np.float32]


def test_the_slope_of_a_power_is_undefined_at_zero_to_the_zero():
    assert np.isnan(fgrad.grad(lambda x: x**x)(0.0))
    assert np.isnan(fgrad.grad(jnp.power)(0.0, 0.0))
    assert [float(fgrad.grad(jnp.power)(0.0, y)) for y in (1.0, 2.0)] == [1, 0]
    assert float(fgrad.grad(lambda x: x**0)(0.0)) == 0
