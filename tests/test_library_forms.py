"""What JAX's libraries do that programs seldom do: signatures of jitted functions, data that broadcasts to segments, checks in jit."""

import inspect

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad.experimental import checkify


def test_jitted_functions_have_the_signature_of_what_they_call():
    jitted = fgrad.jit(lambda x, *, scale=2.0: x * scale)
    for follow in (True, False):
        assert list(inspect.signature(jitted, follow_wrapped=follow).parameters) == ["x", "scale"]


def test_segments_of_data_that_broadcasts():
    ids = jnp.array([0, 2, 2, 0])
    np.testing.assert_array_equal(fgrad.ops.segment_sum(jnp.float32(1.5), ids, 3), [3.0, 0.0, 3.0])
    np.testing.assert_array_equal(fgrad.ops.segment_max(2, ids, 2), [2, np.iinfo(np.int32).min])
    np.testing.assert_array_equal(fgrad.ops.segment_sum(jnp.array([[1.0, 2.0]]), ids, 3), [[2, 4], [0, 0], [2, 4]])
    assert float(fgrad.grad(lambda x: fgrad.ops.segment_sum(x, ids, 3).sum())(1.0)) == 4.0
    with pytest.raises(ValueError, match="segment_ids"):
        fgrad.ops.segment_sum(jnp.ones(3), ids, 3)


def test_checks_inside_jit_leave_no_tracers_behind():
    @fgrad.jit
    def inner(x):
        checkify.check(jnp.all(x > 0), "got {x}", x=x)
        return x * 2

    with fgrad.checking_leaks():
        err, out = checkify.checkify(fgrad.jit(inner))(jnp.array(3.0))
        assert err.get() is None and float(out) == 6.0
        err, _ = checkify.checkify(fgrad.jit(inner))(jnp.array(-3.0))
    assert err.get().startswith("got -3.0")


def test_checks_speak_of_arrays():
    err, _ = checkify.checkify(lambda x: checkify.check(False, "{t!r}", t=x))(jnp.float32(2.0))
    assert err.get().startswith("Array(2., dtype=float32")


def test_the_primitive_of_stop_gradient():
    bind = fgrad.lax.stop_gradient_p.bind
    x = jnp.array([1.0, 2.0])
    f = lambda x: (x * bind(x)).sum()
    assert float(f(x)) == float(fgrad.jit(f)(x)) == 5.0
    for g in (fgrad.grad(f), fgrad.jit(fgrad.grad(f))):
        np.testing.assert_array_equal(g(x), x)
    np.testing.assert_array_equal(fgrad.vmap(fgrad.grad(lambda x: bind(x) * x))(x), x)


def test_shapes_of_shapes():
    struct = fgrad.ShapeDtypeStruct((2, 3), jnp.bfloat16)
    out = fgrad.eval_shape(lambda x: {"a": struct, "b": x}, fgrad.ShapeDtypeStruct((4,), jnp.int32))
    assert out == {"a": struct, "b": fgrad.ShapeDtypeStruct((4,), jnp.int32)}
    with pytest.raises(TypeError):
        fgrad.eval_shape(lambda: "text")
