"""lax functions that are compositions: values against NumPy, derivatives against finite differences."""

import operator

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from tests.derivatives import check_derivatives, check_vmap

RNG = np.random.default_rng(1)


def test_results_that_are_operands_are_arrays():
    x = np.ones((2, 2))
    for y in (lax.rev(x, ()), lax.concatenate([x], 0), lax.integer_pow(x, 1), lax.stop_gradient(x)):
        assert isinstance(y, fgrad.Array) and y.dtype == np.float32


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8, 13])
def test_associative_scan(n, reverse):
    x = RNG.standard_normal((2, n))
    got = lax.associative_scan(operator.add, x.astype(np.float32), reverse=reverse, axis=1)
    want = np.cumsum(x[:, ::-1], 1)[:, ::-1] if reverse else np.cumsum(x, 1)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    m = RNG.standard_normal((n, 2, 2))  # matrix products do not commute

    def products(m):
        return lax.associative_scan(lambda a, b: jnp.matmul(a, b), m, reverse=reverse)

    with fgrad.enable_x64():
        got = products(m)
        order = range(n - 1, -1, -1) if reverse else range(n)
        acc = np.eye(2)
        for i in order:
            acc = acc @ m[i]  # in reverse what has run is still the first argument, as in JAX
            np.testing.assert_allclose(got[i], acc, rtol=1e-10, atol=1e-10)
        if n == 5:
            check_derivatives(products, m)


def test_associative_scan_of_trees_and_its_errors():
    a, b = RNG.standard_normal((2, 6)).astype(np.float32)

    def fn(p, q):  # the linear recurrence x = a x + b
        return {"a": p["a"] * q["a"], "b": q["a"] * p["b"] + q["b"]}

    got = fgrad.jit(lambda t: lax.associative_scan(fn, t))({"a": a, "b": b})["b"]
    x, want = 0.0, []
    for i in range(6):
        x = a[i] * x + b[i]
        want.append(x)
    np.testing.assert_allclose(got, want, rtol=1e-4)
    with pytest.raises(TypeError, match="callable"):
        lax.associative_scan(3, a)
    with pytest.raises(ValueError, match="same first dimension"):
        lax.associative_scan(fn, (a, b[:3]))


RUNNING = {
    "cumsum": (jnp.add, np.add.accumulate),
    "cumprod": (operator.mul, np.multiply.accumulate),
    "cummax": (lambda a, b: lax.max(b, a), np.maximum.accumulate),
    "cummin": (jnp.minimum, np.minimum.accumulate),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", RUNNING)
def test_associative_scans_that_are_running_reductions(name, reverse):
    fn, accumulate = RUNNING[name]

    def scan(x, axis=1):
        return lax.associative_scan(fn, x, reverse=reverse, axis=axis)

    for dtype in (np.float32, np.float16, jnp.bfloat16, np.int8, np.uint16, np.int32):
        x = RNG.integers(1, 5, (3, 5, 2)).astype(dtype)
        for axis in range(3):
            wide = x if np.dtype(dtype).kind in "iu" else x.astype(np.float32)
            want = (
                np.flip(accumulate(np.flip(wide, axis), axis, dtype=wide.dtype), axis)
                if reverse
                else accumulate(wide, axis, dtype=wide.dtype)
            )
            got = scan(x, axis)
            assert got.dtype == x.dtype
            np.testing.assert_array_equal(np.asarray(got).astype(want.dtype), want.astype(dtype).astype(want.dtype))
    x = RNG.standard_normal((3, 5, 2)).astype(np.float32)
    assert [e.primitive.name for e in fgrad.make_jaxpr(scan)(x).jaxpr.eqns] == [name]
    np.testing.assert_array_equal(fgrad.vmap(lambda v: scan(v, 0))(x), scan(x))
    with fgrad.enable_x64():
        check_derivatives(scan, RNG.standard_normal((3, 5, 2)))
    assert scan(np.ones((2, 3), bool)).dtype == (bool if name != "cumsum" else jnp.add(True, True).dtype)


def test_associative_scans_that_are_no_running_reductions():
    x = RNG.standard_normal(6).astype(np.float32)
    np.testing.assert_array_equal(lax.associative_scan(lambda a, b: b, x), x)
    np.testing.assert_array_equal(lax.associative_scan(lambda a, b: a if float(a.sum()) > 1e9 else b, x), x)  # by values, outside of jit
    np.testing.assert_allclose(lax.associative_scan(jnp.hypot, x)[1:], np.sqrt(np.cumsum(x * x))[1:], rtol=1e-5)
    same = np.full(300_000, 0.1, np.float32)  # a long sum goes by a tree, whose errors are small
    np.testing.assert_allclose(lax.associative_scan(jnp.add, same)[-1], 300_000 * float(same[0]), rtol=2e-6)
    z = np.array([1 + 2j, 3 - 1j, 3 + 1j, 0], np.complex64)
    np.testing.assert_array_equal(lax.associative_scan(lax.max, z), z[[0, 1, 2, 2]])
    np.testing.assert_allclose(lax.associative_scan(fgrad.checkpoint(jnp.add), x), np.cumsum(x), rtol=1e-4, atol=1e-5)


MONOIDS = {
    "add": (lax.add, 0.0, np.add.reduce),
    "mul": (lax.mul, 1.0, np.multiply.reduce),
    "max": (lax.max, -np.inf, np.maximum.reduce),
    "min": (jnp.minimum, np.inf, np.minimum.reduce),
    "logaddexp": (jnp.logaddexp, -np.inf, np.logaddexp.reduce),
}


@pytest.mark.parametrize("name", MONOIDS)
@pytest.mark.parametrize("axes", [(0,), (1,), (2, 0), (0, 1, 2), ()])
def test_reduce(name, axes):
    fn, init, reference = MONOIDS[name]
    x = RNG.standard_normal((3, 4, 5))
    with fgrad.enable_x64():
        np.testing.assert_allclose(lax.reduce(x, init, fn, axes), reference(x, axis=axes) if axes else x, rtol=1e-12)
        check_derivatives(lambda x: lax.reduce(x, init, fn, axes), x, order=1)


def test_reduce_detects_monoids_and_runs_others():
    names = [e.primitive.name for e in fgrad.make_jaxpr(lambda x: lax.reduce(x, 0.0, lax.add, (0,)))(jnp.ones(64)).eqns]
    assert "reduce_sum" in names and "slice" not in names
    x, i = jnp.array([3.0, 9.0, 1.0, 9.0, 2.0]), jnp.arange(5)

    def argmax(a, b):
        take = a[0] >= b[0]
        return jnp.where(take, a[0], b[0]), jnp.where(take, a[1], b[1])

    got = lax.reduce((x, i), (-jnp.inf, np.int32(-1)), argmax, (0,))
    assert float(got[0]) == 9.0 and int(got[1]) == 1
    assert float(lax.reduce(jnp.ones(3), 10.0, lax.add, (0,))) == 13.0
    np.testing.assert_array_equal(lax.reduce(jnp.ones((0, 2)), 7.0, jnp.hypot, (0,)), [7.0, 7.0])
    with pytest.raises(TypeError, match="computation must return"):
        lax.reduce(x, 0.0, lambda a, b: a > b, (0,))
    with pytest.raises(TypeError, match="axes"):
        lax.reduce(x, 0.0, lax.add, (3,))


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, bool])
@pytest.mark.parametrize("shape, axes", [((7,), (0,)), ((3, 4), (1,)), ((3, 4, 2), (0, 2)), ((0, 3), (0,))])
def test_bitwise_reductions(dtype, shape, axes):
    x = RNG.integers(0, 2 if dtype is bool else 250, shape).astype(dtype)
    for got, ufunc in ((lax.reduce_and, np.bitwise_and), (lax.reduce_or, np.bitwise_or), (lax.reduce_xor, np.bitwise_xor)):
        want = ufunc.reduce(x, axis=axes) if x.size else np.full((3,), ufunc.identity).astype(dtype)
        np.testing.assert_array_equal(got(x, axes), want)
    with pytest.raises(TypeError, match="float32"):
        lax.reduce_xor(jnp.ones(2), (0,))


def test_collectives():
    x = RNG.standard_normal((4, 4, 2)).astype(np.float32)
    run = lambda f: np.asarray(fgrad.vmap(f, axis_name="i")(x))  # noqa: E731
    np.testing.assert_allclose(run(lambda v: lax.all_to_all(v, "i", 0, 0)), x.swapaxes(0, 1))
    np.testing.assert_allclose(run(lambda v: lax.all_to_all(v, "i", 0, 1)), x.transpose(1, 2, 0))
    np.testing.assert_allclose(run(lambda v: lax.pswapaxes(v, "i", 0)), x.swapaxes(0, 1))
    tiled = run(lambda v: lax.all_to_all(v, "i", 0, 1, tiled=True))
    np.testing.assert_allclose(tiled, np.stack([np.concatenate([x[j, i : i + 1] for j in range(4)], 1) for i in range(4)]))
    np.testing.assert_allclose(run(lambda v: lax.ppermute(v, "i", [(0, 2), (3, 0)])), np.stack([x[3], 0 * x[0], x[0], 0 * x[0]]))
    np.testing.assert_allclose(run(lambda v: lax.pshuffle(v, "i", [2, 3, 0, 1])), x[[2, 3, 0, 1]])
    np.testing.assert_allclose(run(lambda v: lax.psum_scatter(v, "i")), x.sum(0), rtol=1e-5, atol=1e-6)
    scattered = run(lambda v: lax.psum_scatter(v, "i", tiled=True))
    np.testing.assert_allclose(scattered, x.sum(0)[:, None], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run(lambda v: lax.pbroadcast(v, "i", 2)), np.stack([x[2]] * 4))
    np.testing.assert_allclose(run(lambda v: lax.all_gather(v, "i", axis=1)), np.stack([x.swapaxes(0, 1)] * 4))
    gathered = run(lambda v: lax.all_gather(v, "i", axis=1, tiled=True))
    np.testing.assert_allclose(gathered, np.stack([np.concatenate(list(x), 1)] * 4))
    for bad in (
        lambda v: lax.ppermute(v, "i", [(0, 1), (0, 2)]),
        lambda v: lax.ppermute(v, "i", [(0, 9)]),
        lambda v: lax.all_to_all(v, "i", 1, 0),
        lambda v: lax.pshuffle(v, "i", [0, 0, 1, 2]),
    ):
        with pytest.raises(ValueError):
            run(bad)
    with pytest.raises(NameError, match="unbound axis name: j"):
        run(lambda v: lax.psum_scatter(v, "j"))


def test_collectives_over_several_axes():
    x = RNG.standard_normal((2, 3)).astype(np.float32)

    def both(f):
        return np.asarray(fgrad.vmap(fgrad.vmap(f, axis_name="j"), axis_name="i")(x))

    np.testing.assert_array_equal(both(lambda v: lax.axis_index(("i", "j"))), np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(both(lambda v: lax.axis_index(("j", "i"))), np.array([[0, 2, 4], [1, 3, 5]]))
    np.testing.assert_allclose(both(lambda v: lax.psum(v, ("i", "j")))[0, 0], x.sum(), rtol=1e-5)
    np.testing.assert_allclose(both(lambda v: lax.pmean(v, ("i", "j")))[1, 2], x.mean(), rtol=1e-5)
    np.testing.assert_allclose(both(lambda v: lax.all_gather(v, ("i", "j")))[1, 1], x.reshape(6))
    np.testing.assert_allclose(both(lambda v: lax.ppermute(v, ("i", "j"), [(0, 5)]))[1, 2], x[0, 0])
    assert fgrad.vmap(lambda v: v * lax.axis_size("i"), axis_name="i")(jnp.ones(3))[0] == 3.0


@pytest.mark.parametrize(
    "f",
    [
        lambda v: lax.all_to_all(v, "i", 0, 0) * v,
        lambda v: lax.ppermute(v, "i", [(0, 2), (2, 0)]) * v,
        lambda v: jnp.sin(lax.psum_scatter(v * v, "i")),
        lambda v: lax.pbroadcast(v, "i", 1) * v,
        lambda v: lax.all_gather(v * v, "i", axis=1) * v[:, None],
    ],
)
def test_collectives_differentiate(f):
    with fgrad.enable_x64():
        check_derivatives(fgrad.vmap(f, axis_name="i"), RNG.standard_normal((3, 3)))


def test_shapes():
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    assert lax.broadcast_shapes((3, 1), (4,), ()) == (3, 4)
    with pytest.raises(ValueError, match=r"\(3,\), \(4,\)"):
        lax.broadcast_shapes((3,), (4,))
    assert lax.broadcast_to_rank(x, 5).shape == (1, 1, 2, 3, 4)
    assert [lax.collapse(x, *a).shape for a in ((0,), (1, 3), (1, 1), (0, -1))] == [(24,), (2, 12), (2, 1, 3, 4), (6, 4)]
    np.testing.assert_array_equal(lax.broadcast_like(x[:, :1], x), np.broadcast_to(x[:, :1], x.shape))
    np.testing.assert_array_equal(lax.broadcast_like(x[0, 0], x), np.broadcast_to(x[0, 0], x.shape))
    np.testing.assert_array_equal(lax.tile(x, (2, 1, 3)), np.tile(x, (2, 1, 3)))
    np.testing.assert_array_equal(lax.stack([x, x + 1], 1), np.stack([x, x + 1], 1))
    np.testing.assert_array_equal(lax.stack([x, x + 1], -1), np.stack([x, x + 1], -1))
    for got, want in zip(lax.unstack(x, 2), np.moveaxis(x, 2, 0)):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(lax.index_take(x, (np.array([0, 1]), np.array([-1, 5])), (0, 2)), x[[0, 1], :, [3, 1]])
    assert [int(n) for n in lax.shape_as_value((2, 3))] == [2, 3]


def test_full():
    assert lax.full((2,), 1).weak_type and lax.full((2,), 1).dtype == np.int32
    assert not lax.full((2,), 1, np.int8).weak_type and lax.full((2,), 1.5, np.int8).dtype == np.int8
    like = lax.full_like(jnp.ones((2, 3), jnp.bfloat16), 7)
    assert like.dtype == jnp.bfloat16 and like.shape == (2, 3) and float(like[0, 0]) == 7.0
    assert lax.full_like(jnp.ones(2), 3, dtype=int, shape=(4,)).shape == (4,)
    assert not lax.full_like(jnp.ones(2), 3).weak_type
    assert lax.empty((2,), np.float32).shape == (2,)
    with pytest.raises(TypeError, match="scalar fill_value"):
        lax.full((2,), jnp.ones(2))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_mulhi(dtype):
    info = np.iinfo(dtype)
    edges = [info.min, info.max, 0, 1, info.max // 3, info.min // 5]
    values = [*edges, *RNG.integers(info.min, info.max, 20, dtype=dtype, endpoint=True).tolist()]
    x, y = np.array(values, dtype), np.array(values[::-1], dtype)
    with fgrad.enable_x64("64" in dtype):
        want = [(int(a) * int(b)) >> info.bits for a, b in zip(x, y)]
        np.testing.assert_array_equal(lax.mulhi(x, y), np.array(want, dtype))


def test_products():
    a, b = RNG.standard_normal((3, 2, 4)).astype(np.float32), RNG.standard_normal((3, 4, 5)).astype(np.float32)
    np.testing.assert_allclose(lax.batch_matmul(a, b), a @ b, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(lax.dot(a[0], b[0], precision=lax.Precision.HIGHEST), a[0] @ b[0], rtol=1e-5, atol=1e-6)
    got = lax.dot(a, b, dimension_numbers=(((2,), (1,)), ((0,), (0,))))
    np.testing.assert_allclose(got, a @ b, rtol=1e-5, atol=1e-6)
    assert lax.dot(jnp.ones(3, jnp.bfloat16), jnp.ones(3, jnp.bfloat16), preferred_element_type=jnp.float32).dtype == np.float32
    with pytest.raises(TypeError, match=r"\(2, 4\) and \(3, 4, 5\)"):
        lax.batch_matmul(a[0], b)
    with fgrad.enable_x64():
        lhs, rhs, sizes = RNG.standard_normal((6, 3)), RNG.standard_normal((3, 3, 2)), np.array([2, 0, 3])
        groups = [0, 0, 2, 2, 2]
        want = np.concatenate([np.stack([lhs[i] @ rhs[g] for i, g in enumerate(groups)]), np.zeros((1, 2))])
        np.testing.assert_allclose(lax.ragged_dot(lhs, rhs, sizes), want, rtol=1e-12)
        check_derivatives(lambda a, b: lax.ragged_dot(a, b, sizes), lhs, rhs)


def test_ragged_dot_general():
    with fgrad.enable_x64():
        a, b = RNG.standard_normal((6, 2, 3)), RNG.standard_normal((4, 2, 3, 5))
        sizes = np.array([[2, 1, 3, 0], [1, 1, 1, 1]])  # of each batch element
        rows = lax.RaggedDotDimensionNumbers((([2], [2]), ([1], [1])), [0], [0])
        groups = [[0, 0, 1, 2, 2, 2], [0, 1, 2, 3]]
        want = np.zeros((2, 6, 5))
        for e in range(2):
            for i, g in enumerate(groups[e]):
                want[e, i] = a[i, e] @ b[g, e]
        np.testing.assert_allclose(lax.ragged_dot_general(a, b, sizes, rows), want, rtol=1e-12)
        check_derivatives(lambda a, b: lax.ragged_dot_general(a, b, sizes, rows), a, b)
        c, d = RNG.standard_normal((2, 3, 6)), RNG.standard_normal((6, 2, 5))
        sums = lax.RaggedDotDimensionNumbers((([2], [0]), ([0], [1])), [2], [])
        ends = [[0, 2, 3, 6, 6], [0, 1, 2, 3, 4]]
        want = np.stack([[c[e, :, ends[e][g] : ends[e][g + 1]] @ d[ends[e][g] : ends[e][g + 1], e] for e in range(2)] for g in range(4)])
        np.testing.assert_allclose(lax.ragged_dot_general(c, d, sizes, sums), want, rtol=1e-12)
        batches = lax.RaggedDotDimensionNumbers((([2], [0]), ([0], [1])), [0], [])
        np.testing.assert_allclose(lax.ragged_dot_general(c, d, np.array([1, 1]), batches), np.einsum("emk,ken->emn", c, d), rtol=1e-12)
        for numbers, bad, text in ((rows, sizes[0, :3], "group dimension size"), (sums, sizes[:1], "to have shape"), (rows, 2, "rank")):
            with pytest.raises(TypeError, match=text):
                lax.ragged_dot_general(*((c, d) if numbers is sums else (a, b)), np.array(bad), numbers)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
def test_rng_bit_generator(dtype):
    key = np.array([1, 2, 3, 4], np.uint32)
    new, bits = lax.rng_bit_generator(key, (1000, 3), dtype)
    assert bits.dtype == dtype and bits.shape == (1000, 3) and new.shape == key.shape
    assert abs(np.asarray(bits).mean() / np.iinfo(dtype).max - 0.5) < 0.02
    again, more = lax.rng_bit_generator(new, (1000, 3), dtype)
    assert not np.array_equal(bits, more) and not np.array_equal(new, again)
    np.testing.assert_array_equal(lax.rng_bit_generator(key, (1000, 3), dtype)[1], bits)
    short = lax.rng_bit_generator(key[:2], (5,))
    assert short[0].shape == (2,) and not np.array_equal(short[0], key[:2])


def test_rng_uniform_differs_from_call_to_call():
    draw = fgrad.jit(lambda: lax.rng_uniform(2.0, 3.0, (100,)))
    a, b = np.asarray(draw()), np.asarray(draw())
    assert ((a >= 2) & (a < 3)).all() and not np.array_equal(a, b)
    assert set(np.asarray(lax.rng_uniform(0, 2, (50,))).tolist()) == {0, 1}


def test_top_k_of_both_ends():
    x = RNG.standard_normal((3, 8)).astype(np.float32)
    values, at = lax.approx_max_k(x, 3)
    np.testing.assert_array_equal(values, -np.sort(-x, 1)[:, :3])
    values, at = lax.approx_min_k(x, 2, reduction_dimension=0)
    np.testing.assert_array_equal(values, np.sort(x, 0)[:2])
    np.testing.assert_array_equal(np.take_along_axis(x, np.asarray(at), 0), values)


def test_small_things():
    assert lax.composite(lambda x, *, k: x * k, "my.scale")(2.0, k=3) == 6.0
    assert lax.platform_dependent(2.0, cpu=lambda x: x + 1, tpu=lambda x: x) == 3.0
    assert lax.platform_dependent(2.0, default=lambda x: x, tpu=lambda x: x + 1) == 2.0
    with pytest.raises(NotImplementedError, match="tpu"):
        lax.platform_dependent(2.0, tpu=lambda x: x)
    out = lax.optimization_barrier({"a": jnp.ones(2)})
    np.testing.assert_array_equal(out["a"], [1.0, 1.0])
    np.testing.assert_allclose(fgrad.grad(lax.reciprocal)(2.0), -0.25)
    assert lax.dtype(1.0) == np.float32 and lax.dtype("int8") == np.int8
    with pytest.raises(TypeError, match="int32"):
        lax.reciprocal(2)


def test_custom_linear_solve():
    a, b = RNG.standard_normal((4, 4)) + 4 * np.eye(4), RNG.standard_normal(4)

    def inverse(transposed):
        def solve(mv, b):
            columns = fgrad.vmap(mv, out_axes=1)(jnp.eye(4))
            return fgrad.pure_callback(lambda m, v: np.linalg.solve(m, v), b, columns, b, vmap_method="sequential")

        return solve

    def f(a, b):
        return lax.custom_linear_solve(lambda x: a @ x, b, inverse(False), inverse(True))

    with fgrad.enable_x64():
        np.testing.assert_allclose(f(a, b), np.linalg.solve(a, b), rtol=1e-10)
        check_derivatives(f, a, b)  # the callback inside has no derivative of its own
        check_derivatives(fgrad.jit(f), a, b, order=1)
        check_vmap(f, np.stack([a, a.T, a + 1]), np.stack([b, 2 * b, -b]), in_axes=(0, 0))
        check_vmap(f, np.stack([a, a.T]), b, in_axes=(0, None))


def test_custom_linear_solve_symmetric_aux_and_errors():
    d = jnp.array([2.0, 4.0])

    def f(d, b):
        return lax.custom_linear_solve(
            lambda t: {"x": d * t["x"]}, {"x": b}, lambda mv, t: ({"x": t["x"] / d}, 7), symmetric=True, has_aux=True
        )

    (x, aux) = f(d, jnp.ones(2))
    np.testing.assert_allclose(x["x"], [0.5, 0.25])
    assert int(aux) == 7
    np.testing.assert_allclose(fgrad.grad(lambda d: f(d, jnp.ones(2))[0]["x"].sum())(d), -1 / np.asarray(d) ** 2)
    one_way = lambda b: lax.custom_linear_solve(lambda x: d * x, b, lambda mv, b: b / d).sum()  # noqa: E731
    fgrad.jvp(one_way, (jnp.ones(2),), (jnp.ones(2),))
    with pytest.raises(TypeError, match="transpose_solve"):
        fgrad.grad(one_way)(jnp.ones(2))
    with pytest.raises(TypeError, match="matvec must return"):
        lax.custom_linear_solve(lambda x: x[:1], jnp.ones(2), lambda mv, b: b)


def newton(f, x):
    return lax.while_loop(lambda x: jnp.abs(f(x)) > 1e-10, lambda x: x - f(x) / fgrad.grad(f)(x), x)


def test_custom_root():
    def cube_root(a):
        return lax.custom_root(lambda x: x**3 - a, 1.0, newton, lambda g, y: y / g(1.0))

    with fgrad.enable_x64():
        np.testing.assert_allclose(cube_root(8.0), 2.0)
        check_derivatives(cube_root, np.float64(8.0))
        np.testing.assert_allclose(fgrad.vmap(fgrad.grad(cube_root))(np.array([1.0, 8.0])), [1 / 3, 1 / 12])
        np.testing.assert_allclose(fgrad.jit(fgrad.grad(cube_root))(8.0), 1 / 12)


def test_custom_root_of_a_system_with_aux():
    def solve(f, x):
        def step(i, x):
            return x - jnp.asarray(fgrad.pure_callback(np.linalg.solve, x, fgrad.jacfwd(f)(x), f(x)))

        return lax.fori_loop(0, 20, step, x), 20

    def tangent_solve(g, y):
        dense = lambda mv, b: fgrad.pure_callback(np.linalg.solve, b, fgrad.vmap(mv, out_axes=1)(jnp.eye(2)), b)  # noqa: E731
        return lax.custom_linear_solve(g, y, dense, dense)

    def roots(a):
        f = lambda x: jnp.stack([x[0] ** 2 + x[1] - a[0], x[0] - x[1] ** 3 - a[1]])  # noqa: E731
        x, steps = lax.custom_root(f, jnp.ones(2), solve, tangent_solve, has_aux=True)
        return x

    with fgrad.enable_x64():
        check_derivatives(roots, np.array([3.0, -0.5]), order=1)
    with pytest.raises(TypeError, match="f must return"):
        lax.custom_root(lambda x: x[:1], jnp.ones(2), solve, tangent_solve)


def test_bitcast_between_widths():
    x = np.array([[1.0, -2.5, 3e-9]], np.float32)
    narrow = lax.bitcast_convert_type(x, np.uint8)
    np.testing.assert_array_equal(narrow, x.view(np.uint8).reshape(1, 3, 4))
    np.testing.assert_array_equal(lax.bitcast_convert_type(narrow, np.float32), x)
    run = fgrad.jit(lambda v: lax.bitcast_convert_type(lax.bitcast_convert_type(v * 2, np.int16), np.float32) + 1)
    np.testing.assert_array_equal(run(x), x * 2 + 1)
    batched = fgrad.vmap(lambda v: lax.bitcast_convert_type(v, np.float32), in_axes=2, out_axes=1)(jnp.stack([narrow] * 2, 2))
    np.testing.assert_array_equal(batched, np.stack([x] * 2, 1))
    with pytest.raises(TypeError, match="last axis"):
        lax.bitcast_convert_type(narrow[..., :3], np.float32)
    with pytest.raises(TypeError, match="bool"):
        lax.bitcast_convert_type(x, bool)


def test_dynamic_slices_and_negative_indices():
    x = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    np.testing.assert_array_equal(lax.dynamic_slice(x, jnp.array([-2, 1]), (2, 2)), x[2:, 1:])
    np.testing.assert_array_equal(lax.dynamic_slice(x, (jnp.int32(-2), 0), (2, 3), allow_negative_indices=False), x[:2])
    np.testing.assert_array_equal(lax.dynamic_slice(x, (jnp.int32(-1), 0), (1, 3), allow_negative_indices=[True, False]), x[3:])
    with pytest.raises(ValueError, match="negative"):
        lax.dynamic_slice(x, (-1, 0), (1, 1), allow_negative_indices=False)
    with pytest.raises(TypeError, match="3 start indices"):
        lax.dynamic_slice(x, (0, 0, 0), (1, 1))
    with pytest.raises(ValueError, match="axis 2 is out of bounds"):
        lax.dynamic_slice_in_dim(x, 0, 1, axis=2)
    got = lax.dynamic_update_index_in_dim(x, np.zeros(4, np.float32), -1, 1)
    np.testing.assert_array_equal(got, np.where(np.arange(3) == 2, 0, x))


def test_accuracy_is_accepted():
    x = np.linspace(0.2, 0.9, 5, dtype=np.float32)
    for f in (
        lax.cbrt,
        lax.cos,
        lax.exp,
        lax.exp2,
        lax.expm1,
        lax.log,
        lax.log1p,
        lax.logistic,
        lax.rsqrt,
        lax.sin,
        lax.sqrt,
        lax.tan,
        lax.tanh,
    ):
        for accuracy in (None, lax.AccuracyMode.HIGHEST, lax.AccuracyMode.DEFAULT, lax.Tolerance(1e-5, 1e-5, 2)):
            np.testing.assert_array_equal(f(x, accuracy=accuracy), f(x))
        with pytest.raises(ValueError, match="accuracy"):
            f(x, accuracy="high")
    with pytest.raises(ValueError, match="non-negative"):
        lax.Tolerance(ulps=-1)


def test_complex_atan2():
    """tan of the angle is the quotient, and the derivatives are those of a holomorphic function."""
    with fgrad.enable_x64():
        x, y = np.array([1 + 2j, 0.3 - 1j, -0.5 + 0.2j]), np.array([0.5 - 1j, 2 + 0.1j, 1.5 + 1j])
        np.testing.assert_allclose(np.tan(np.asarray(lax.atan2(x, y))), x / y, rtol=1e-12)
        np.testing.assert_allclose(jnp.arctan2(x[:, None], y).shape, (3, 3))
        got = fgrad.vmap(fgrad.grad(lax.atan2, (0, 1), holomorphic=True))(x, y)
        np.testing.assert_allclose(got, [y / (x * x + y * y), -x / (x * x + y * y)], rtol=1e-12)


def test_numbers_alone_must_agree_in_type():
    for f in (lax.add, lax.max, lax.lt):
        with pytest.raises(TypeError, match="same dtypes, got int32, float32"):
            f(1, 1.0)
    assert float(lax.add(1.0, 1.5)) == 2.5 and float(lax.pow(2.0, 3)) == 8
    assert float(lax.add(jnp.float32(1), 1.0)) == 2
