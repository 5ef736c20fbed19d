"""Settings of one thread: 64-bit arrays that outlive enable_x64, and programs that know which settings are in force."""

import threading

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax


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


_DOT_TYPES = "bool int8 uint8 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()


@pytest.mark.parametrize("dtype", _DOT_TYPES)
def test_products_have_the_type_asked_for(dtype):
    with fgrad.enable_x64():
        for preferred in _DOT_TYPES:
            for shape in ((2, 3), (2, 1), (5, 2, 3)):
                a = jnp.ones(shape, dtype)
                out = jnp.matmul(a, jnp.swapaxes(a, -1, -2), preferred_element_type=preferred)
                assert out.dtype == jnp.dtype(preferred)
                np.testing.assert_array_equal(out.astype(np.complex128), True if preferred == "bool" else shape[-1])
        a = np.linspace(-3, 3, 12).reshape(3, 4)
        for preferred in ("float32", "float16", "complex64"):
            np.testing.assert_allclose(lax.dot(a, a.T, preferred_element_type=preferred), (a @ a.T).astype(preferred), rtol=1e-3)
        tangent = fgrad.jvp(lambda x: lax.dot(x, x.T, preferred_element_type="float32"), (a,), (a,))[1]
        assert tangent.dtype == np.float32
        np.testing.assert_allclose(tangent, 2 * a @ a.T, rtol=1e-5)
        gradient = fgrad.grad(lambda x: lax.dot(x, x.T, preferred_element_type="float32").sum())(a)
        assert gradient.dtype == np.float64
        np.testing.assert_allclose(gradient, np.broadcast_to(2 * a.sum(0), a.shape), rtol=1e-5, atol=1e-5)


def test_types_that_stay_narrow_with_64_bits():
    with fgrad.enable_x64():
        assert jnp.tri(3).dtype == np.float32 and jnp.argpartition(jnp.arange(3.0), 1).dtype == np.int32
