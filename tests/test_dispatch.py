"""The native call path: signatures, settings, donation, scalars, strided and foreign arguments."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp


def test_one_trace_per_signature():
    traced = []

    @fgrad.jit
    def f(x, y):
        traced.append(1)
        return x + y

    a = jnp.asarray(np.ones(3, np.float32))
    for _ in range(3):
        f(a, a)
        f(a, 1.0)
        f(a, np.ones(3, np.float32))
        f(a, y=a)
    assert len(traced) == 3  # (a, a) and a NumPy array are one signature, a weak scalar another, a keyword a third
    f(a, 2)
    assert len(traced) == 4
    with fgrad.enable_x64():
        f(a, 1.0)
        assert len(traced) == 5
    f(a, 1.0)
    assert len(traced) == 5


def test_results_keep_their_tree():
    x = jnp.ones(2)
    assert type(fgrad.jit(lambda x: (x,))(x)) is tuple
    assert type(fgrad.jit(lambda x: [x, x])(x)) is list
    assert set(fgrad.jit(lambda x: {"a": x, "b": None})(x)) == {"a", "b"}
    assert fgrad.jit(lambda x: ())(x) == ()
    assert fgrad.jit(lambda x: x)(x).shape == (2,)


def test_strided_arguments():
    x = jnp.arange(12.0).reshape(3, 4)
    f = fgrad.jit(lambda x: x * 2)
    np.testing.assert_array_equal(f(x.T), np.asarray(x).T * 2)
    np.testing.assert_array_equal(f(x[:, ::-1]), np.asarray(x)[:, ::-1] * 2)
    np.testing.assert_array_equal(x.T + x.T, np.asarray(x).T * 2)
    np.testing.assert_array_equal(x[::2] * x[1:2], np.asarray(x)[::2] * np.asarray(x)[1:2])


@pytest.mark.parametrize("value", [3, -3, 2.5, True, 1j, 2**40])
def test_python_scalars(value):
    x = jnp.arange(3.0) if value != 2**40 else None
    if x is None:
        with pytest.raises(OverflowError):
            jnp.arange(3) * value
        return
    got = x * value
    np.testing.assert_allclose(got, np.arange(3, dtype=np.float32) * value)
    assert got.dtype == (np.complex64 if value == 1j else np.float32) and not got.weak_type


def test_narrow_integers_check_scalars():
    x = jnp.arange(3, dtype=jnp.uint8)
    assert (x + 3).dtype == np.uint8
    np.testing.assert_array_equal(x + 100, [100, 101, 102])


def test_donated_array_passed_twice_is_not_overwritten():
    f = fgrad.jit(lambda x, y: (x + 1, y * 2), donate_argnums=0)
    x = jnp.asarray(np.arange(4.0, dtype=np.float32))
    a, b = f(x, x)
    np.testing.assert_array_equal(a, [1, 2, 3, 4])
    np.testing.assert_array_equal(b, [0, 2, 4, 6])


def test_many_leaves():
    xs = [jnp.full((2,), float(i)) for i in range(700)]
    f = fgrad.jit(lambda xs: sum(x.sum() for x in xs))
    assert float(f(xs)) == float(f(xs)) == 2 * sum(range(700))


def test_operators_return_not_implemented_for_strangers():
    class Other:
        def __rmul__(self, x):
            return "other"

    assert jnp.ones(2) * Other() == "other"
    with pytest.raises(TypeError):
        jnp.ones(2) * "text"
    with pytest.raises(TypeError):
        jnp.ones(2) + [1, 2]
    with pytest.raises(TypeError, match="unhashable"):
        hash(jnp.ones(2))


def test_reflected_and_inplace_operators():
    x = jnp.asarray(np.array([2.0, 4.0], np.float32))
    np.testing.assert_array_equal(8 / x, [4, 2])
    np.testing.assert_array_equal(1 - x, [-1, -3])
    np.testing.assert_array_equal(2**x, [4, 16])
    np.testing.assert_array_equal(x ** np.float32(2), [4, 16])
    np.testing.assert_array_equal(7 // x, [3, 1])
    np.testing.assert_array_equal(7 % x, [1, 3])
    q, r = divmod(x, 3)
    np.testing.assert_array_equal(q, [0, 1])
    np.testing.assert_array_equal(r, [2, 1])
    x += 1
    np.testing.assert_array_equal(x, [3, 5])
    assert isinstance(np.ones(2, np.float32) * x, fgrad.Array)


def test_settings_reach_eager_operations():
    x = jnp.asarray(np.array([0.0], np.float32))
    assert np.isnan(np.asarray(x / x)).all()
    fgrad.config.update("jax_debug_nans", True)
    try:
        with pytest.raises(FloatingPointError):
            x / x
        with pytest.raises(FloatingPointError):
            fgrad.jit(lambda x: x / x)(x)
    finally:
        fgrad.config.update("jax_debug_nans", False)


def test_views_are_copied_once():
    x = jnp.zeros((3, 4))
    f = fgrad.jit(lambda x: x + 1)
    view = np.asarray(jnp.broadcast_to(jnp.arange(4.0), (3, 4)))
    for _ in range(2):
        np.testing.assert_array_equal(f(x), np.ones((3, 4)))
        assert x.strides_or_none is None
    y = jnp.arange(12.0).reshape(3, 4).T
    held = np.asarray(y)  # somebody looks into it: it stays the view it is
    np.testing.assert_array_equal(f(y), held + 1)
    np.testing.assert_array_equal(held, np.arange(12.0).reshape(3, 4).T)
    assert y.strides_or_none is not None
    base = jnp.arange(6.0)
    tail = base[::2]
    np.testing.assert_array_equal(f(tail), [1, 3, 5])
    np.testing.assert_array_equal(tail[1:], [2, 4])
    np.testing.assert_array_equal(base, np.arange(6.0))
    assert view.shape == (3, 4)


def test_a_donated_view_leaves_its_base_alone():
    base = jnp.arange(6.0)
    f = fgrad.jit(lambda x: x * 2, donate_argnums=0)
    part = base[::2]
    np.testing.assert_array_equal(f(part), [0, 4, 8])
    assert part.is_deleted()
    np.testing.assert_array_equal(base, np.arange(6.0))
