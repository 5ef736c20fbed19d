"""Denormal numbers count as zeros in programs, as in XLA's, and nowhere else."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax

TINY = {np.float32: 1e-40, np.float64: 1e-310}


@pytest.fixture(params=[np.float32, np.float64])
def tiny(request):
    with fgrad.enable_x64(request.param is np.float64):
        yield request.param(TINY[request.param])


@pytest.mark.parametrize("jit", [lambda f: f, fgrad.jit])
@pytest.mark.parametrize("n", [1, 10, 1_000_000])
def test_operands_and_results(jit, n, tiny):
    x, normal = jnp.full(n, tiny), jnp.full(n, np.finfo(tiny.dtype).tiny)
    assert x.dtype == tiny.dtype
    assert not np.asarray(jit(lambda x: x + x)(x)).any()
    assert not np.asarray(jit(lambda x: x * 0.5)(normal)).any()
    assert not np.asarray(jit(lambda x: jnp.sqrt(x))(x)).any()
    assert np.asarray(jit(lambda x: x == 0)(x)).all() and not np.asarray(jit(jnp.sign)(x)).any()
    np.testing.assert_array_equal(np.asarray(jit(lambda x: x * 2)(normal)), 2 * np.finfo(tiny.dtype).tiny)


def test_loops_and_products(tiny):
    fade = fgrad.jit(lambda x: lax.fori_loop(0, 1200, lambda i, y: y * 0.5, x))
    assert not np.asarray(fade(jnp.ones(5, tiny.dtype))).any()
    a = jnp.full((64, 64), np.sqrt(np.finfo(tiny.dtype).tiny) / 100)
    assert not np.asarray(fgrad.jit(lambda a: a @ a)(a)).any()


def test_python_code_keeps_them(tiny):
    seen = []

    def host(x):
        seen.append(np.asarray(x) * np.ones((), tiny.dtype))
        return np.asarray(x)

    f = fgrad.jit(lambda x: fgrad.pure_callback(host, fgrad.ShapeDtypeStruct((), tiny.dtype), x))
    f(jnp.asarray(tiny))
    assert seen[-1] == tiny
    assert np.asarray(tiny) * np.ones((), tiny.dtype) == tiny  # the thread is as it was


def test_they_move_unchanged_and_steps_see_them():
    x = jnp.asarray(np.array([1e-40, -1e-41, 0], np.float32))
    np.testing.assert_array_equal(
        np.asarray(fgrad.jit(lambda x: jnp.concatenate([x[::-1], -x]))(x)), np.array([0, -1e-41, 1e-40, -1e-40, 1e-41, -0.0], np.float32)
    )
    np.testing.assert_array_equal(np.asarray(jnp.nextafter(x, np.float32(1))), np.nextafter(np.asarray(x), np.float32(1)))


def test_subnormal_halves_are_normal_float32():
    x = np.arange(1, 1024, dtype=np.uint16).view(np.float16)
    np.testing.assert_array_equal(np.asarray(fgrad.jit(lambda x: x + x)(x)), x + x)
    np.testing.assert_array_equal(np.asarray(fgrad.jit(lambda x: x.astype("float32"))(x)), x.astype(np.float32))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float16])
def test_the_next_of_16_bit_floats(dtype):
    """Subnormal ones too, from each of them either way: of bfloat16 they are subnormal float32."""
    x = np.arange(1 << 16).astype(np.uint16).view(dtype)
    for y in (np.full_like(x, 1), np.full_like(x, -1), x[::-1].copy()):
        got, want = np.asarray(fgrad.jit(jnp.nextafter)(x, y)), np.where(x == y, y, np.nextafter(x, y))
        numbers = ~np.isnan(want.astype(np.float32))
        assert np.isnan(got[~numbers].astype(np.float32)).all()
        np.testing.assert_array_equal(got[numbers].view(np.uint16), want[numbers].view(np.uint16))
