"""What libraries that rewrite jaxprs, declare types or wrap transformations ask for (flax.nnx, kfac-jax and others were run on fgrad)."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import extend


def test_jaxprs_are_built_with_jaxs_arguments():
    closed = fgrad.make_jaxpr(lambda x: (jnp.sin(x) * 2, x + 1))(3.0)
    j = closed.jaxpr
    info = extend.core.DebugInfo("jit", "mine at here.py:3", j.debug_info.arg_names, None)
    first = extend.core.Jaxpr(j.constvars, j.invars, j.outvars[:1], j.eqns, j.effects, info)
    assert first.debug_info.func_src_info == "mine" and first.effects == frozenset()
    assert first.replace(debug_info=j.debug_info).debug_info == j.debug_info
    (out,) = extend.core.jaxpr_as_fun(extend.core.ClosedJaxpr(first, closed.consts))(3.0)
    assert float(out) == pytest.approx(2 * np.sin(3.0))


def test_names_that_jax_keeps_under_core():
    with pytest.warns(DeprecationWarning, match="fgrad.extend.core.Effects"):
        assert fgrad.core.Effects is extend.core.Effects
    with pytest.warns(DeprecationWarning):
        assert fgrad.core.no_effects == frozenset()
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        fgrad.core.nothing_of_the_kind  # noqa: B018


def test_all_primitives_are_instances_of_the_class_of_ones_own():
    class Mine(extend.core.Primitive):
        pass

    for closed in (fgrad.make_jaxpr(jnp.sin)(1.0), fgrad.make_jaxpr(fgrad.jit(jnp.sin))(1.0)):
        primitive = closed.eqns[0].primitive
        assert isinstance(primitive, extend.core.Primitive) and not isinstance(primitive, Mine)
    assert isinstance(Mine("mine"), Mine) and not isinstance(1, extend.core.Primitive)


def test_branches_under_a_trace_of_ones_own():
    class Mine(fgrad.core.Trace):
        def process_primitive(self, prim, args, params):
            seen.append(prim.name)
            with extend.core.set_current_trace(outer):
                return prim.bind(*args, **params)

    seen, outer = [], fgrad.core.eval_trace
    assert Mine().full_raise(1.0) == 1.0
    with extend.core.set_current_trace(Mine()):
        out = fgrad.lax.cond(True, lambda x: x * 2, lambda x: x, jnp.ones(2))
    assert "cond" in seen
    np.testing.assert_array_equal(out, [2.0, 2.0])


def test_uniform_between_bounds_of_one_number():
    key = fgrad.random.key(0)
    out = fgrad.random.uniform(key, (), jnp.float32, jnp.zeros(1), jnp.ones((1, 1)))
    assert out.shape == (1,) and float(out[0]) == float(fgrad.random.uniform(key))
    keys, low, high = fgrad.random.split(key, 3), jnp.arange(3.0)[:, None], jnp.arange(1.0, 4.0)[:, None]
    out = fgrad.vmap(fgrad.random.uniform, in_axes=(0, None, None, 0, 0))(keys, (), jnp.float32, low, high)
    assert out.shape == (3, 1) and bool(((out >= low) & (out < high)).all())
    with pytest.raises(ValueError, match="broadcast"):
        fgrad.random.uniform(key, (), jnp.float32, jnp.zeros(2), 1.0)


def test_hijax_is_declared_and_refused():
    from fgrad.experimental import hijax

    class Op(hijax.HiPrimitive):
        pass

    class Box(hijax.MutableHiType):
        value = hijax.aval_method(lambda self: 1)

    assert isinstance(fgrad.typeof(fgrad.new_ref(jnp.ones(2))), hijax.AbstractRef)
    hijax.register_hitype(Box, lambda box: box)
    hijax.control_flow_allowed_effects.add_type(extend.core.Effect)
    with pytest.raises(NotImplementedError, match="new_ref"):
        Op("op").bind(1.0)
    with pytest.raises(NotImplementedError, match="custom_vjp"):
        hijax.VJPHiPrimitive()(1.0)
