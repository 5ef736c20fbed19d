"""Primitives that a program declares itself, and loops run by Python."""

import functools

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import api_util, lax
from fgrad.core import registry
from fgrad.extend import linear_util
from fgrad.extend.core import Primitive
from fgrad.interpreters import ad, batching, mlir, xla


def product_sum():
    """x * y + z as a primitive with all its rules, and its function."""
    prim = Primitive("product_sum")
    fun = lambda x, y, z: prim.bind(x, y, z)  # noqa: E731
    prim.def_impl(lambda x, y, z: np.add(np.multiply(x, y), z))
    prim.def_abstract_eval(lambda x, y, z: fgrad.core.ShapedArray(x.shape, x.dtype))

    def jvp(primals, tangents):
        (x, y, z), zero = primals, lax.full_like(primals[0], 0)
        tx, ty, tz = [zero if type(t) is ad.Zero else t for t in tangents]
        return fun(x, y, z), fun(tx, y, fun(x, ty, tz))

    def transpose(ct, x, y, z):
        if ad.is_undefined_primal(x):
            return (ad.Zero(x.aval) if type(ct) is ad.Zero else fun(ct, y, lax.full_like(y, 0))), None, ct
        return None, fun(x, ct, lax.full_like(x, 0)), ct

    ad.primitive_jvps[prim] = jvp
    ad.primitive_transposes[prim] = transpose
    batching.primitive_batchers[prim] = lambda args, dims: (fun(*args), dims[0])
    mlir.register_lowering(prim, mlir.lower_fun(lambda x, y, z: x * y + z, multiple_results=False))
    return prim, fun


def test_a_primitive_with_all_rules_goes_through_every_transformation():
    prim, fun = product_sum()
    f = lambda x, z: fun(x, x, z)  # noqa: E731
    assert prim.name == str(prim) == "product_sum" and "product_sum" not in registry
    assert float(f(2.0, 10.0)) == float(fgrad.jit(f)(2.0, 10.0)) == 14
    out, tangent = fgrad.jvp(f, (2.0, 10.0), (1.0, 1.0))
    assert (float(out), float(tangent)) == (14, 5)
    assert [float(g) for g in fgrad.grad(f, (0, 1))(2.0, 10.0)] == [float(g) for g in fgrad.jit(fgrad.grad(f, (0, 1)))(2.0, 10.0)] == [4, 1]
    np.testing.assert_array_equal(fgrad.vmap(f)(jnp.arange(3.0), jnp.ones(3)), [1, 2, 5])
    np.testing.assert_array_equal(fgrad.jit(fgrad.vmap(fgrad.grad(f)))(jnp.arange(3.0), jnp.ones(3)), [0, 2, 4])
    assert "product_sum" in str(fgrad.make_jaxpr(f)(1.0, 2.0))
    assert prim in ad.primitive_jvps and lax.sin_p in ad.primitive_jvps and prim not in {}


def test_rules_by_their_makers():
    twice, times = Primitive("twice"), Primitive("times")
    for prim, f in ((twice, lambda x: x * 2), (times, lambda x, y: x * y)):
        prim.def_abstract_eval(lambda x, *_: x)
        prim.def_impl(functools.partial(xla.apply_primitive, prim))
        mlir.register_lowering(prim, mlir.lower_fun(f, multiple_results=False))
    ad.deflinear(twice, lambda ct: [twice.bind(ct)])
    ad.defbilinear(times, lambda ct, x, y: times.bind(ct, y), lambda ct, x, y: times.bind(x, ct))
    batching.defvectorized(twice)
    batching.defbroadcasting(times)
    assert float(fgrad.grad(twice.bind)(3.0)) == 2 and fgrad.linear_transpose(twice.bind, 1.0)(4.0) == (8,)
    assert [float(g) for g in fgrad.grad(times.bind, (0, 1))(3.0, 4.0)] == [4, 3]
    np.testing.assert_array_equal(fgrad.vmap(twice.bind)(jnp.arange(3.0)), [0, 2, 4])
    np.testing.assert_array_equal(fgrad.vmap(times.bind, (0, None))(jnp.arange(3.0), 2.0), [0, 2, 4])
    cube = Primitive("cube")
    cube.def_impl(lambda x: x * x * x)
    cube.def_abstract_eval(lambda x: x)
    ad.defjvp(cube, lambda t, x: 3 * x * x * t)
    assert float(fgrad.grad(cube.bind)(2.0)) == 12
    ad.defjvp2(cube, lambda t, out, x: 3 * t * out / x)
    assert float(fgrad.grad(cube.bind)(2.0)) == 12


def test_what_is_not_set_is_named():
    foo = Primitive("foo")
    for f in (foo.bind, fgrad.jit(foo.bind), fgrad.grad(foo.bind)):
        with pytest.raises(NotImplementedError, match="'foo' not implemented"):
            f(1.0)
    with pytest.raises(NotImplementedError, match="Batching rule for 'foo' not implemented"):
        fgrad.vmap(foo.bind)(jnp.ones(2))
    foo.def_abstract_eval(lambda x: x)
    foo.def_impl(lambda x: x)
    with pytest.raises(NotImplementedError, match="MLIR translation rule for primitive 'foo' not found"):
        fgrad.jit(foo.bind)(1.0)
    mlir.register_lowering(foo, lambda ctx, x: [x])
    with pytest.raises(TypeError, match="lower_fun"):
        fgrad.jit(foo.bind)(1.0)


def test_functions_of_leaves():
    args = ((1, (2, 4)), {"a": 3})
    leaves, treedef = fgrad.tree.flatten(args)
    f = linear_util.wrap_init(lambda x, y, a, k: (x + y[0], {"r": a * k}), {"k": 5})
    flat, out_tree = api_util.flatten_fun(f, treedef)
    with pytest.raises(RuntimeError, match="after the function was called"):
        out_tree()
    outs = flat.call_wrapped(*leaves)
    assert fgrad.tree.unflatten(out_tree(), outs) == (3, {"r": 15})
    one, dynamic = api_util.argnums_partial(linear_util.wrap_init(lambda x, y, z: x - y * z), (2,), (10, 2, 3))
    assert one.call_wrapped(4) == 2 and list(dynamic) == [3]
    assert api_util.donation_vector((1,), (), treedef) == (False, True, True, False)
    assert api_util.donation_vector((), ("a",), treedef) == (False, False, False, True)
    assert api_util.flatten_axes("in_axes", fgrad.tree.structure((1, (2, 4))), (0, None)) == [0, None, None]
    with pytest.raises(ValueError, match="prefix"):
        api_util.flatten_axes("in_axes", fgrad.tree.structure((1, (2, 4))), (0, (1, 2, 3)))
    assert api_util.rebase_donate_argnums((1, 3), (0, 2)) == (0, 1)
    assert api_util.shaped_abstractify(np.ones(2, np.float32)) == fgrad.core.ShapedArray((2,), np.dtype(np.float32))


def test_disable_jit_runs_control_flow_in_python():
    with fgrad.disable_jit():
        total, rows = lax.scan(lambda c, x: (c + float(x), {"r": c}), 0.0, jnp.arange(4.0), reverse=True)
        assert float(total) == 6 and rows["r"].tolist() == [6, 5, 3, 0]
        assert int(lax.while_loop(lambda x: bool(x < 3), lambda x: int(x) + 1, 0)) == 3
        assert int(lax.fori_loop(0, 4, lambda i, x: x + int(i), 0)) == 6
        assert lax.map(lambda x: float(x) * 2.0, jnp.arange(2.0)).tolist() == [0, 2]
        taken = []
        lax.cond(jnp.asarray(True), lambda: taken.append("true"), lambda: taken.append("false"))
        lax.switch(jnp.asarray(7), [lambda: taken.append(0), lambda: taken.append(1)])
        assert taken == ["true", 1]
        assert float(fgrad.grad(lambda x: lax.scan(lambda c, _: (c * x, None), 1.0, None, length=3)[0])(2.0)) == 12
        assert fgrad.vmap(lambda x: lax.cond(x > 0, lambda: x, lambda: -x))(jnp.arange(-1.0, 2)).tolist() == [1, 0, 1]
        assert fgrad.vmap(lambda n: lax.while_loop(lambda x: x < n, lambda x: x + 1, 0))(jnp.arange(3)).tolist() == [0, 1, 2]
