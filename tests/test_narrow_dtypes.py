"""Arrays of floats of 8 bits and less and of integers of less than 8: ml_dtypes and NumPy are the oracles."""

import pickle

import ml_dtypes
import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import dtypes, lax, random
from fgrad.errors import TypePromotionError

FLOATS = [d for d in dtypes.NARROW_FLOATS if d.name != "float4_e2m1fn"]  # whose NaN ml_dtypes makes a zero of either sign
E4, E5 = jnp.float8_e4m3fn, jnp.float8_e5m2


def some():
    return jnp.array([1.76, 0.4, -0.98, 2.24])


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("dtype", dtypes.NARROW_FLOATS, ids=str)
def test_every_byte_reads_as_its_number(dtype):
    byte = np.arange(256 if dtypes.itemsize_bits(dtype) == 8 else 16, dtype=np.uint8).view(dtype)
    np.testing.assert_array_equal(jnp.asarray(byte).astype(jnp.float32), byte.astype(np.float32))
    np.testing.assert_array_equal(fgrad.jit(lambda x: x.astype(jnp.float32) / 2)(byte), byte.astype(np.float32) / 2)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_numbers_round_as_ml_dtypes_rounds_them(dtype):
    rng = np.random.default_rng(0)
    finite = np.sort(np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32))
    finite = finite[np.isfinite(finite)]
    with np.errstate(all="ignore"):
        half = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
        x = np.concatenate([
            np.arange(0, 2**32, 2**20, dtype=np.uint64).astype(np.uint32).view(np.float32),
            rng.integers(0, 2**32, 20000, dtype=np.uint64).astype(np.uint32).view(np.float32),
            (rng.standard_normal(20000) * np.exp(rng.uniform(-12, 7, 20000))).astype(np.float32),
            finite, half, np.nextafter(half, np.float32(np.inf)), np.nextafter(half, np.float32(-np.inf)),
        ])  # fmt: skip
        want = x.astype(dtype)
    if dtype.name == "float8_e8m0fnu":  # between 2**-127 and 1.5 times that; ml_dtypes before 0.7 rounds them up
        bits = x.view(np.uint32)
        want[(bits > 0x400000) & (bits < 0x600000)] = np.uint8(0).view(dtype)
    for got in (jnp.asarray(x).astype(dtype), fgrad.jit(lambda x: x.astype(dtype))(x)):
        got = np.asarray(got)
        assert got.dtype == dtype
        nan = np.isnan(want.astype(np.float32))
        np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), nan)
        np.testing.assert_array_equal(got.view(np.uint8)[~nan], want.view(np.uint8)[~nan])


@pytest.mark.parametrize("dtype", dtypes.NARROW_INTS, ids=str)
def test_integers_wrap_and_floats_saturate(dtype):
    x = np.arange(-20, 20, dtype=np.int32)
    got = jnp.asarray(x).astype(dtype)
    np.testing.assert_array_equal(np.asarray(got).astype(np.int32), x.astype(dtype).astype(np.int32))
    np.testing.assert_array_equal(got.astype(jnp.int32), x.astype(dtype).astype(np.int32))
    limits = dtypes.iinfo(dtype)
    edge = jnp.array([-1e9, 1e9, np.inf, 1.9]).astype(dtype)
    assert edge.tolist() == [limits.min, limits.max, limits.max, 1]


@pytest.mark.parametrize("jit", [False, True])
def test_arithmetic_rounds_after_each_operation(jit):
    run = fgrad.jit if jit else lambda f: f
    a = some().astype(E4)
    x = np.asarray(a)
    for f in (lambda a: a + a, lambda a: a * 2, lambda a: a - 1.5, lambda a: -a, lambda a: a / 3, abs):
        got, want = run(f)(a), f(x.astype(np.float32)).astype(E4.dtype)
        assert got.dtype == E4
        np.testing.assert_array_equal(np.asarray(got).view(np.uint8), want.view(np.uint8))
    chain = run(lambda a: (a * a) / 3)(a)
    want = ((x.astype(np.float32) ** 2).astype(x.dtype).astype(np.float32) / 3).astype(x.dtype)
    np.testing.assert_array_equal(np.asarray(chain).view(np.uint8), want.view(np.uint8))
    i = jnp.array([7, -5, -2, 3], jnp.int4)
    assert run(lambda i: i + i)(i).tolist() == [-2, 6, -4, 6] and run(lambda i: i // 3)(i).tolist() == [2, -2, -1, 1]
    assert run(lambda i: i >> 1)(i).tolist() == [3, -3, -1, 1] and run(lambda i: ~i)(i).tolist() == [-8, 4, 1, -4]
    assert run(lax.population_count)(i).tolist() == [3, 3, 3, 2] and run(lax.clz)(i).tolist() == [1, 0, 0, 2]
    assert run(lambda i: lax.shift_right_logical(i, jnp.int4(1)))(i).tolist() == [3, 5, 7, 1]


@pytest.mark.parametrize("dtype", [E4, E5, jnp.int4, jnp.uint4])
def test_what_moves_keeps_the_bytes(dtype):
    a = jnp.array([1, 2, 3, 5]).astype(dtype)
    x = np.asarray(a)
    p = jnp.array([True, False, True, False])
    for got, want in (
        (a[1:3], x[1:3]),
        (a[::-1], x[::-1]),
        (a[jnp.array([3, 0])], x[[3, 0]]),
        (a.reshape(2, 2).T, x.reshape(2, 2).T),
        (jnp.concatenate([a, a]), np.concatenate([x, x])),
        (jnp.where(p, a, a[::-1]), np.where(p, x, x[::-1])),
        (jnp.pad(a, 1), np.pad(x.astype(np.float32), 1)),
        (jnp.roll(a, 1), np.roll(x, 1)),
        (a.at[1].set(6), [1, 6, 3, 5]),
        (a.at[jnp.array([1, 1])].add(1), [1, 4, 3, 5]),
        (a[p], [1, 3]),
        (jnp.sort(a[::-1]), [1, 2, 3, 5]),
        (fgrad.jit(lambda a: lax.dynamic_update_slice(a, a[:2], (2,)))(a), [1, 2, 1, 2]),
        (fgrad.vmap(lambda a: a[::-1])(a.reshape(2, 2)), [[2, 1], [5, 3]]),
        (jnp.maximum(a, 3), [3, 3, 3, 5]),
    ):
        assert got.dtype == dtype
        np.testing.assert_array_equal(np.asarray(got).astype(np.float32), np.asarray(want).astype(np.float32))
    assert a.nbytes == 4 and a[2].item() == 3 and int(a[3]) == 5 and a.tolist() == [1, 2, 3, 5]
    back = pickle.loads(pickle.dumps(a))
    assert back.dtype == dtype and back.tolist() == a.tolist()
    with pytest.raises((BufferError, TypeError)):
        memoryview(a)


def test_reductions_products_and_comparisons():
    a, x = some().astype(E4), np.asarray(some().astype(E4)).astype(np.float32)
    assert float(a.sum()) == float(x.sum().astype(E4.dtype)) and a.sum().dtype == E4 and int(a.argmax()) == 3
    assert (a > 0).tolist() == (x > 0).tolist() and not jnp.isnan(a).any()
    m = jnp.asarray(np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)).astype(E4)
    y = np.asarray(m).astype(np.float32)
    np.testing.assert_allclose(jnp.dot(m, m.T, preferred_element_type=jnp.float32), y @ y.T, rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(m @ m.T), (y @ y.T).astype(E4.dtype))
    mixed = lax.dot_general(m, m.astype(E5), (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
    np.testing.assert_allclose(mixed, y @ np.asarray(m.astype(E5)).astype(np.float32).T, rtol=1e-6)
    w = jnp.asarray(np.random.default_rng(1).integers(-8, 8, (7, 3))).astype(jnp.int4)
    np.testing.assert_allclose(y @ w.astype(jnp.float32), y @ np.asarray(w).astype(np.float32), rtol=1e-6, atol=1e-6)
    assert jnp.arange(10.0)[jnp.array([3, -1], jnp.int4)].tolist() == [3.0, 9.0]


def test_promotion():
    a, i = some().astype(E4), jnp.ones(4, jnp.int4)
    assert (a * 2.5).dtype == (a * 2).dtype == (a + jnp.ones(4, jnp.int32)).dtype == (a * True).dtype == E4
    assert (i * 2).dtype == (i * True).dtype == jnp.int4 and not (i * 2).weak_type
    assert jnp.promote_types("int4", int) == "int4" and jnp.promote_types(E5, float) == E5
    for f in (lambda: a + some(), lambda: a + a.astype(E5), lambda: i + 1.5, lambda: i + jnp.ones(4, jnp.int8), lambda: a * 1j):
        with pytest.raises(TypePromotionError, match="no available implicit dtype promotion path"):
            f()


def test_derivatives_have_the_dtype():
    grad = fgrad.grad(lambda x: (x.astype(E4).astype(jnp.float32) ** 2).sum())
    want = (2 * np.asarray(some()).astype(E4.dtype).astype(np.float32)).astype(E4.dtype).astype(np.float32)
    np.testing.assert_array_equal(grad(some()), want)
    np.testing.assert_array_equal(fgrad.jit(grad)(some()), want)
    g = fgrad.grad(lambda x: (x * x).sum())(some().astype(E4))
    assert g.dtype == E4
    np.testing.assert_array_equal(np.asarray(g).astype(np.float32), want)
    out, tangent = fgrad.jvp(lambda x: x * x, (some().astype(E5),), (jnp.ones(4, E5),))
    assert out.dtype == tangent.dtype == E5
    with pytest.raises(TypeError):
        fgrad.grad(lambda i: i.sum())(jnp.ones(3, jnp.int4))


def test_control_flow_and_calls():
    a = some().astype(E4)
    total, seen = lax.scan(lambda c, x: (c + x, c), E4(0), a)
    assert total.dtype == seen.dtype == E4 and seen.shape == (4,)
    assert lax.fori_loop(0, 2, lambda i, x: x * 2, jnp.array([1, -1], jnp.int4)).tolist() == [4, -4]
    assert lax.cond(True, lambda x: x + 1, lambda x: x, jnp.int4(7)).tolist() == -8
    assert fgrad.eval_shape(lambda x: x * 2, fgrad.ShapeDtypeStruct((3,), E4)).dtype == E4
    assert fgrad.checkpoint(lambda x: x * 2)(a).dtype == E4
    kept = fgrad.jit(lambda x: x, donate_argnums=0)(jnp.array([1, 2], jnp.int4))
    assert kept.dtype == jnp.int4 and kept.tolist() == [1, 2]
    assert random.permutation(random.key(0), jnp.arange(6).astype(jnp.int4)).dtype == jnp.int4
    assert "f8_e4m3fn[4]" in str(fgrad.make_jaxpr(lambda x: x.astype(E4))(some()))


def test_bytes_and_words():
    assert lax.bitcast_convert_type(jnp.array([1, 127, 129], jnp.uint8), E4).dtype == E4
    a = some().astype(E4)
    np.testing.assert_array_equal(lax.bitcast_convert_type(a, jnp.uint8), np.asarray(a).view(np.uint8))
    assert some().view(E5).shape == (16,)
    with pytest.raises(RuntimeError, match="int4"):
        lax.bitcast_convert_type(jnp.array([1, 2], jnp.int4), jnp.uint8)


def test_creation():
    assert jnp.zeros(3, E4).dtype == E4 and jnp.full(3, 2, jnp.int4).tolist() == [2, 2, 2]
    assert jnp.arange(5, dtype=jnp.int4).tolist() == [0, 1, 2, 3, 4]
    assert jnp.array([1, 2.3, -7], E4).tolist() == [1.0, 2.25, -7.0] and jnp.ones_like(jnp.zeros(2, jnp.uint4)).dtype == jnp.uint4
    assert repr(jnp.array([1, -2], jnp.int4)) == "Array([1, -2], dtype=int4)" and str(jnp.array([1, 2.5], E5)) == "[1 2.5]"
    x = np.array([1, -3], ml_dtypes.int4)
    assert jnp.asarray(x).dtype == jnp.int4 and (np.asarray(jnp.asarray(x)) == x).all()
    assert jnp.isdtype(jnp.int4, "integral") and jnp.isdtype(E5, "real floating") and not jnp.isdtype(E5, "integral")


def test_callbacks_see_the_dtype():
    seen = []
    call = fgrad.jit(lambda x: fgrad.pure_callback(lambda x: np.asarray(x) * E5.dtype.type(2), fgrad.ShapeDtypeStruct((4,), E5), x))
    np.testing.assert_array_equal(np.asarray(call(some().astype(E5))), np.asarray(some().astype(E5) * 2))
    fgrad.jit(lambda x: fgrad.debug.callback(lambda x: seen.append(x.dtype), x))(jnp.ones(2, jnp.int4))
    fgrad.effects_barrier()
    assert seen == [jnp.int4]
