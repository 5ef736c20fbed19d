"""Conventions of JAX that programs rely on and that are easily lost: weak types, ties, names."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax


def test_gradient_of_clamp_at_its_bounds():
    x = jnp.array([-2.0, -1.0, 0.5, 1.0, 2.0])
    g = fgrad.grad(lambda x: lax.clamp(-1.0, x, 1.0).sum())(x)
    np.testing.assert_array_equal(g, [0, 0, 1, 0, 0])


def test_methods_of_traced_arrays_are_those_of_arrays():
    x = jnp.arange(6.0).reshape(2, 3)
    for name in ("var", "std", "mean", "sum", "max", "ravel", "trace", "argmax"):
        np.testing.assert_allclose(fgrad.jit(lambda x, name=name: getattr(x, name)())(x), getattr(x, name)(), rtol=1e-6)


def test_remainder_by_a_python_integer_under_jit():
    x = jnp.array([-7, 0, 5])
    np.testing.assert_array_equal(fgrad.jit(lambda x: x % 3)(x), [2, 0, 2])
    np.testing.assert_array_equal(fgrad.jit(lambda x: x % 0)(x), [0, 0, 0])
    np.testing.assert_array_equal(x % np.int32(3), [2, 0, 2])


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32"])
def test_floored_quotients_by_integers_that_are_known(dtype):
    info = np.iinfo(dtype)
    x = np.concatenate([np.arange(-20, 21), [info.min, info.min + 1, info.max - 1, info.max]]).clip(info.min, info.max).astype(dtype)
    for y in (7, 8, 1, 2, 3, 100, 64):  # outside of jit the divisor is an argument: each has its own result
        for wrap in (lambda f: f, fgrad.jit):
            np.testing.assert_array_equal(wrap(lambda x, y=y: x // y)(jnp.asarray(x)), x // np.dtype(dtype).type(y))
            narrow = np.int8(y)
            np.testing.assert_array_equal(wrap(lambda x, y=narrow: x % y)(jnp.asarray(x.astype("i4"))), x.astype("i4") % y)
            np.testing.assert_array_equal(wrap(lambda x, y=y: x % y)(jnp.asarray(x)), x % np.dtype(dtype).type(y))


def test_vmap_of_gradient_of_sort():
    xs = jnp.array([[3.0, 1.0, 2.0], [1.0, 2.0, 0.0]])
    w = jnp.array([1.0, 10.0, 100.0])
    g = fgrad.vmap(fgrad.grad(lambda x: (jnp.sort(x) * w).sum()))(xs)
    np.testing.assert_array_equal(g, [[100, 1, 10], [10, 100, 1]])


@pytest.mark.parametrize("wrap", [lambda f: f, fgrad.jit], ids=["eager", "jit"])
def test_weak_types_survive_loops_and_branches(wrap):
    assert wrap(lambda: lax.while_loop(lambda c: c < 3, lambda c: c + 1, 0))().weak_type
    assert wrap(lambda: lax.scan(lambda c, x: (c * 2, c), 1.0, None, length=2)[1])().weak_type
    assert wrap(lambda p: lax.cond(p, lambda: 1.0, lambda: 2.0))(True).weak_type
    assert not wrap(lambda p: lax.cond(p, lambda: 1.0, lambda: jnp.float32(2)))(True).weak_type
    assert wrap(lambda: jnp.full(3, 2.0))().weak_type and not wrap(lambda: jnp.full(3, 2.0, jnp.float32))().weak_type


def test_derivatives_are_weakly_typed_where_their_primals_are():
    half = jnp.ones(2, jnp.bfloat16)
    f = lambda x: jnp.sin(x) * 2
    assert (fgrad.grad(f)(1.0) * half).dtype == jnp.bfloat16
    assert (fgrad.jvp(f, (1.0,), (jnp.float32(1),))[1] * half).dtype == jnp.bfloat16
    assert (fgrad.linearize(f, 1.0)[1](jnp.float32(1)) * half).dtype == jnp.bfloat16
    assert not fgrad.grad(f)(jnp.float32(1)).weak_type


def test_stop_gradient_stops_derivatives_of_every_order():
    f = lambda x: lax.stop_gradient(x**2) * x**2
    np.testing.assert_allclose(fgrad.grad(fgrad.grad(f))(3.0), 2 * 9.0)
    np.testing.assert_allclose(fgrad.hessian(f)(3.0), 2 * 9.0)
    np.testing.assert_allclose(fgrad.jvp(fgrad.grad(f), (3.0,), (1.0,))[1], 2 * 9.0)


def test_derivatives_of_abs_and_cbrt_at_zero():
    x = jnp.array([-2.0, 0.0, -0.0, 3.0])
    np.testing.assert_array_equal(fgrad.vmap(fgrad.grad(jnp.abs))(x), [-1, 1, 1, 1])
    assert fgrad.grad(jnp.cbrt)(0.0) == np.inf


def test_vmap_over_trees_that_hold_none():
    x = jnp.ones(2)
    a, b = fgrad.vmap(lambda x: ({"a": 3.0, "b": None}, x), out_axes=(None, -1))(x)
    assert a["a"] == 3 and b.shape == (2,)
    h = fgrad.hessian(lambda p: jnp.sum(p["a"][0] * p["b"] ** 2))({"a": [x, None], "b": x})
    np.testing.assert_array_equal(h["b"]["b"], 2 * np.eye(2))


def test_float0_passes_through_transformations():
    g = fgrad.grad(lambda x, i: jnp.sum(x * i), (0, 1), allow_int=True)
    x, i = jnp.ones((2, 3)), jnp.arange(3)
    for got, shape in [
        (fgrad.jit(g)(x[0], i), (3,)),
        (fgrad.vmap(g, (0, None))(x, i), (2, 3)),
        (fgrad.jvp(g, (x[0], i), (x[0], _zeros(i)))[1], (3,)),
    ]:
        assert got[1].dtype == fgrad.float0 and got[1].shape == shape
    out, pull = fgrad.vjp(g, x[0], i)
    assert pull(out)[0].shape == (3,)


def _zeros(i):
    return np.zeros(i.shape, fgrad.float0)


def test_empty_slices_under_jit():
    assert fgrad.jit(lambda x: x[:, 1:1])(jnp.ones((3, 4, 5))).shape == (3, 0, 5)


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_custom_rules_that_close_over_mapped_values(kind):
    def f(x, y):
        g = getattr(fgrad, kind)(lambda v: jnp.sin(v) * x)
        if kind == "custom_jvp":
            g.defjvp(lambda p, t: (g(*p), 3 * t[0] * x))
        else:
            g.defvjp(lambda v: (jnp.sin(v) * x, None), lambda _, ct: (3 * ct * x,))
        return g(y)

    xs = jnp.arange(3.0)
    np.testing.assert_allclose(fgrad.vmap(f, (0, None))(xs, 1.0), np.sin(1) * np.arange(3), rtol=1e-6)
    np.testing.assert_allclose(fgrad.vmap(fgrad.grad(f, 1), (0, None))(xs, 1.0), [0, 3, 6])
    np.testing.assert_allclose(fgrad.jit(fgrad.vmap(fgrad.grad(f, 1)))(xs, xs), [0, 3, 6])
    np.testing.assert_allclose(fgrad.grad(lambda y: fgrad.vmap(f, (0, None))(xs, y).sum())(1.0), 9)


def test_custom_vjp_of_unmapped_values_under_vmap():
    f = fgrad.custom_vjp(lambda x: x * 1.0)
    f.defvjp(lambda x: (x, None), lambda _, ct: (5 * ct,))
    np.testing.assert_array_equal(fgrad.grad(lambda w: fgrad.vmap(lambda x: f(w) * x)(jnp.ones(3)).sum())(2.0), 15)
    assert fgrad.vmap(lambda x: (f(2.0), x), out_axes=(None, 0))(jnp.ones(3))[0] == 2


def test_weak_types_of_binary_functions_and_reductions():
    weak = jnp.asarray(2)
    for out in (True + weak, weak % 3, weak // 2, jnp.arange(3) // 2.0, jnp.reciprocal(2.0), jnp.ones_like(weak), jnp.imag(1.5)):
        assert out.weak_type
    for out in (jnp.sum(weak), jnp.max(2.0), jnp.cumsum(weak), jnp.power(2.0, jnp.arange(3)), jnp.ones_like(jnp.arange(2))):
        assert not out.weak_type
    assert jnp.cumsum(jnp.ones(3, jnp.int8)).dtype == jnp.int8


def test_names_in_jaxprs_after_z():
    def f(x):
        for _ in range(26):
            x = lax.sin(x)
        return x

    assert "ba:f32[] = sin z" in str(fgrad.make_jaxpr(f)(1.0))


def test_jaxprs_break_their_lines_where_80_columns_end():
    assert str(fgrad.make_jaxpr(lambda x: jnp.sin(x) * 2)(1.0)) == (
        "{ lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = mul b 2.0:f32[] in (c,) }"
    )
    assert str(fgrad.make_jaxpr(lambda x, y: x + fgrad.jit(jnp.cumsum)(y))(1.0, jnp.ones(3))) == (
        """{ lambda ; a:f32[] b:f32[3]. let
    c:f32[3] = jit[
      name=cumsum
      jaxpr={ lambda ; b:f32[3]. let
          c:f32[3] = cumsum[axis=0 reverse=False] b
        in (c,) }
    ] b
    d:f32[3] = add a c
  in (d,) }"""
    )


def test_where_and_select_promote_ranks_whatever_the_option_says():
    with fgrad.numpy_rank_promotion("raise"):
        out = jnp.where(jnp.array([True, False]), jnp.ones((2, 2)), 0.0)
        assert out.sum() == 2 and jnp.select([jnp.array([True, False])], [jnp.ones((2, 2))]).sum() == 2
        with pytest.raises(ValueError, match="numpy_rank_promotion"):
            jnp.ones(2) + jnp.ones((2, 2))


@pytest.mark.parametrize(
    "use",
    [
        jnp.sum,
        jnp.array,
        fgrad.jit(lambda x: x),
        fgrad.vmap(lambda x: x),
        fgrad.device_put,
        lambda x: jnp.arange(2) + x,
        lambda x: x + jnp.arange(2),
        lambda x: jnp.arange(3)[x],
        lambda x: lax.scan(lambda c, y: (c, y), 0.0, x),
    ],
)
def test_masked_arrays_are_refused(use):
    with pytest.raises(ValueError, match="masked arrays"):
        use(np.ma.array([1, 2], mask=[False, True]))


def test_arrays_are_not_made_by_their_class():
    with pytest.raises(TypeError, match="cannot be instantiated"):
        jnp.ndarray((2, 3))


def test_fold_in_refuses_numbers_that_would_wrap():
    key = fgrad.random.key(0)
    for data in (-1, 2**32):
        with pytest.raises(OverflowError):
            fgrad.random.fold_in(key, data)
    assert fgrad.random.fold_in(key, 2**32 - 1) != fgrad.random.fold_in(key, 0)


def test_float0_is_carried_and_stacked_by_loops():
    zero = lambda *shape: np.zeros(shape, fgrad.float0)
    grads = lambda i: fgrad.grad(lambda x, i: x * i, (0, 1), allow_int=True)(3.0, i)
    for wrap in (lambda f: f, fgrad.jit, fgrad.disable_jit):
        off = wrap is fgrad.disable_jit
        wrap = (lambda f: f) if off else wrap
        with fgrad.disable_jit(off):
            carry, (y, t) = wrap(lambda xs: lax.scan(lambda kept, i: (kept, grads(i)), zero(2), xs))(jnp.arange(3))
            assert carry.dtype == t.dtype == fgrad.float0 and carry.shape == (2,) and t.shape == (3,)
            np.testing.assert_array_equal(y, [0, 1, 2])
            assert wrap(lambda xs: lax.map(grads, xs))(jnp.arange(3))[1].shape == (3,)
            assert lax.fori_loop(0, 3, lambda i, c: (c[0] + i, c[1]), (0, zero(2)))[1].shape == (2,)
            assert lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1]), (0, zero(2)))[1].shape == (2,)
            assert fgrad.checkpoint(lambda x: (x, zero(2)))(1.0)[1].shape == (2,)


def test_reverse_mode_through_while_says_what_to_do():
    loop = lambda x: lax.while_loop(lambda c: c < 3, lambda c: c * 2, x)
    for f in (loop, fgrad.jit(loop), lambda x: lax.cond(x > 0, loop, lambda x: x, x), fgrad.checkpoint(loop)):
        with pytest.raises(ValueError, match="does not work for lax.while_loop or lax.fori_loop with dynamic start/stop"):
            fgrad.grad(f)(1.0)


def test_weak_types_of_updates():
    x = jnp.full(3, 2.0)
    for wrap in (lambda f: f, fgrad.jit):
        out = wrap(lambda x: (lax.dynamic_update_slice(x, x[:1], (0,)), lax.dynamic_update_index_in_dim(x, 1.0, 0, 0)))(x)
        assert not any(y.weak_type for y in out)
        assert wrap(lambda x: x.at[0].set(1.0))(x).weak_type and wrap(lambda x: x.at[1:].set(1.0))(x).weak_type
