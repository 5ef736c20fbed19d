"""Programs written for several devices, on the one: meshes of ones, shardings that are checked and change nothing, shard_map."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from fgrad.experimental.mesh_utils import create_device_mesh
from fgrad.sharding import Mesh, NamedSharding, SingleDeviceSharding
from fgrad.sharding import PartitionSpec as P

MESH = Mesh(np.array(fgrad.devices()).reshape(1, 1), ("data", "model"))
X = np.arange(12.0, dtype="f").reshape(4, 3)


def test_meshes():
    assert dict(MESH.shape) == {"data": 1, "model": 1} and MESH.size == 1 and not MESH.empty
    assert fgrad.make_mesh((1, 1), ("data", "model")) == MESH == Mesh(create_device_mesh((1, 1)), ("data", "model"))
    for wrong in (lambda: fgrad.make_mesh((2,), ("data",)), lambda: Mesh(np.array(fgrad.devices() * 2), ("data",))):
        with pytest.raises(ValueError, match="one device"):
            wrong()
    with pytest.raises(ValueError, match="ndim"):
        Mesh(np.array(fgrad.devices()), ("a", "b"))
    with pytest.raises(ValueError, match="unique"):
        Mesh(np.array(fgrad.devices()).reshape(1, 1), ("a", "a"))


def test_specs_and_shardings():
    assert P("data", None) == P("data", None) != P("data") and P(("data", "model"))[0] == ("data", "model")
    assert repr(P("data", None)) == "P('data', None)" and len({P("data"), P("data")}) == 1
    sharding = NamedSharding(MESH, P("data"))
    assert sharding.shard_shape((4, 3)) == (4, 3) and sharding.is_fully_replicated
    assert sharding.is_equivalent_to(jnp.ones(3).sharding, 1) and isinstance(jnp.ones(3).sharding, SingleDeviceSharding)
    for spec, error in ((P("other"), "not found in mesh"), (P("data", "data"), "at most one dimension")):
        with pytest.raises(ValueError, match=error):
            NamedSharding(MESH, spec)


def test_arrays_and_jit():
    sharding = NamedSharding(MESH, P("data", None))
    x = fgrad.device_put({"a": X, "b": X[0]}, {"a": sharding, "b": NamedSharding(MESH, P())})
    assert np.array_equal(x["a"], X)
    assert np.array_equal(fgrad.device_put(X, X.dtype and x["a"].sharding), X)
    with pytest.raises(ValueError, match="rank 1"):
        fgrad.device_put(X[0], sharding)
    step = fgrad.jit(lambda w, x: lax.with_sharding_constraint(x @ w, sharding), in_shardings=(None, sharding), out_shardings=sharding)
    np.testing.assert_allclose(step(np.ones((3, 2), "f"), X), X @ np.ones((3, 2), "f"))
    grad = fgrad.grad(lambda x: jnp.sum(lax.with_sharding_constraint(x, sharding) ** 2))
    assert np.array_equal(grad(X), 2 * X)
    with pytest.raises(RuntimeError, match="needs a mesh"):
        lax.with_sharding_constraint(X, P("data"))
    with MESH:
        assert np.array_equal(fgrad.jit(lambda x: lax.with_sharding_constraint(x, P("data")))(X), X)
    with fgrad.set_mesh(MESH):
        assert np.array_equal(fgrad.reshard(X, P(None, "model")), X)
    made = fgrad.make_array_from_callback((4, 3), sharding, lambda index: X[index])
    assert np.array_equal(made, X) and np.array_equal(fgrad.make_array_from_process_local_data(sharding, X), X)
    assert np.array_equal(fgrad.make_array_from_single_device_arrays((4, 3), sharding, [made]), X)


def test_shard_map():
    def f(x, w):
        i = lax.axis_index("data")
        gathered = lax.all_gather(x, "data", tiled=True)
        return lax.psum(x @ w, "model") + i, lax.pmean(jnp.sum(gathered), ("data", "model"))

    w = np.ones((3, 2), "f")
    mapped = fgrad.shard_map(f, mesh=MESH, in_specs=(P("data", "model"), P("model")), out_specs=(P("data"), P()))
    for g in (mapped, fgrad.jit(mapped)):
        y, total = g(X, w)
        np.testing.assert_allclose(y, X @ w)
        assert float(total) == X.sum()
    loss = lambda w: jnp.sum(mapped(X, w)[0] ** 2)
    np.testing.assert_allclose(fgrad.grad(loss)(w), 2 * X.T @ (X @ w), rtol=1e-6)
    trees = fgrad.shard_map(lambda p, x: {"y": p["a"] + x}, mesh=MESH, in_specs=(P(), P("data")), out_specs=P("data"))
    np.testing.assert_allclose(trees({"a": 1.0}, X)["y"], X + 1)
    with MESH:
        np.testing.assert_allclose(fgrad.shard_map(lambda x: lax.psum(x, "data"), in_specs=P("data"), out_specs=P())(X), X)
    with pytest.raises(ValueError, match="mesh"):
        fgrad.shard_map(lambda x: x, in_specs=P(), out_specs=P())(X)
    with pytest.raises(ValueError, match="rank"):
        fgrad.shard_map(lambda x: x, mesh=MESH, in_specs=P(None, None, "data"), out_specs=P())(X)


def test_one_process():
    from fgrad.experimental import multihost_utils as hosts
    from fgrad.experimental.compilation_cache import compilation_cache
    from fgrad.experimental.pjit import pjit

    assert pjit(lambda x: x + 1, in_shardings=NamedSharding(MESH, P("data")))(X).tolist() == (X + 1).tolist()
    assert repr(P("a")) == "P('a',)" and repr(P("a", None, unreduced={"b"})) == "P('a', None, unreduced={'b'})"
    assert hosts.process_allgather({"a": X})["a"].shape == (1, *X.shape) and hosts.process_allgather(X, tiled=True).shape == X.shape
    assert isinstance(hosts.broadcast_one_to_all(X), np.ndarray) and not hosts.reached_preemption_sync_point(1)
    there = hosts.host_local_array_to_global_array(X, MESH, P("data"))
    assert hosts.global_array_to_host_local_array(there, MESH, P("data")).tolist() == X.tolist()
    compilation_cache.set_cache_dir("nowhere")
    assert fgrad.config.jax_compilation_cache_dir == "nowhere"
    compilation_cache.set_cache_dir(None)


def test_small_names(caplog):
    from fgrad import core, dlpack, dtypes, nn, random

    assert random.key_dtype("threefry2x32") == random.key(0).dtype
    assert dtypes.result_type(np.float32, np.int32) == np.float32
    assert dlpack.is_supported_dtype(np.float32) and not dlpack.is_supported_dtype("U3")
    x = np.array([1e-6, 0.1, 0.6931, 0.7, 3.0, 60.0])
    with fgrad.enable_x64():
        np.testing.assert_allclose(nn.log1mexp(x), np.where(x < 1, np.log(-np.expm1(-x)), np.log1p(-np.exp(-x))), rtol=1e-13)
        np.testing.assert_allclose(fgrad.vmap(fgrad.grad(nn.log1mexp))(x), 1 / np.expm1(x), rtol=1e-13)
    with core.ensure_compile_time_eval():
        assert float(jnp.ones(2).sum()) == 2
    with caplog.at_level("INFO", "fgrad.debug"):
        fgrad.jit(lambda x: fgrad.debug.log("x is {} and {k}", x, k=x + 1))(3)
    assert "x is 3 and 4" in caplog.text


def test_arrays_know_the_sharding_they_were_given():
    mesh = fgrad.make_mesh((1,), ("x",))
    s = NamedSharding(mesh, P("x"))
    x = fgrad.device_put({"a": jnp.ones(4)}, s)["a"]
    assert (x.sharding, x.sharding.spec, x.committed) == (s, P("x"), True)
    assert not jnp.ones(4).committed and fgrad.device_put(jnp.ones(4), fgrad.devices()[0]).committed
    f = fgrad.jit(lambda x: (x, {"b": x + 1}), out_shardings=(s, None))
    out, rest = f(jnp.ones(4))
    assert out.sharding == s and not rest["b"].committed
    assert fgrad.grad(lambda x: fgrad.jit(lambda x: f(x)[0].sum())(x))(x).tolist() == [1] * 4
    assert fgrad.make_array_from_callback((4,), s, lambda index: jnp.ones(4)[index]).sharding == s
    f = fgrad.jit(lambda x: x + 1, in_shardings=P("x"), out_shardings=P("x"))
    with pytest.raises(RuntimeError, match="requires a non-empty mesh"):
        f(x)
    with fgrad.set_mesh(mesh):
        assert f(x).sharding == s
    assert fgrad.shard_map(lambda x: x * 2, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(x).sharding == s
