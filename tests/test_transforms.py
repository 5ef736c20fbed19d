"""Transformations compose and agree with finite differences and closed forms."""

import functools

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax


def f(x):
    return jnp.sum(jnp.tanh(x) * jnp.cos(x) + x**3)


def df(x):
    return (1 - np.tanh(x) ** 2) * np.cos(x) - np.tanh(x) * np.sin(x) + 3 * x**2


X = np.linspace(-1.5, 1.2, 7).astype(np.float32)


def test_grad_vjp_jvp_agree():
    np.testing.assert_allclose(fgrad.grad(f)(X), df(X), rtol=1e-5)
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(f))(X), df(X), rtol=1e-5)
    np.testing.assert_allclose(fgrad.grad(fgrad.jit(f))(X), df(X), rtol=1e-5)
    np.testing.assert_allclose(fgrad.vjp(f, X)[1](2.0)[0], 2 * df(X), rtol=1e-5)
    v = np.ones_like(X)
    np.testing.assert_allclose(fgrad.jvp(f, (X,), (v,))[1], df(X).sum(), rtol=1e-5)
    y, lin = fgrad.linearize(f, X)
    np.testing.assert_allclose(lin(v), df(X).sum(), rtol=1e-5)


def test_vmap_of_grad_and_jit_of_it():
    x = np.stack([X, 2 * X])
    want = np.stack([df(X), df(2 * X)])
    np.testing.assert_allclose(fgrad.vmap(fgrad.grad(f))(x), want, rtol=1e-5)
    np.testing.assert_allclose(fgrad.jit(fgrad.vmap(fgrad.grad(f)))(x), want, rtol=1e-5)
    np.testing.assert_allclose(fgrad.vmap(fgrad.jit(fgrad.grad(f)), in_axes=1, out_axes=1)(x.T), want.T, rtol=1e-5)


def test_second_order():
    def g(x):
        return jnp.sum(jnp.sin(x) * x[::-1])

    with fgrad.enable_x64():
        x = jnp.asarray(X.astype(np.float64))
        h = np.asarray(fgrad.hessian(g)(x))
        eps, eye = 1e-6, np.eye(7)
        numeric = np.stack([(np.asarray(fgrad.grad(g)(x + eps * e)) - np.asarray(fgrad.grad(g)(x - eps * e))) / (2 * eps) for e in eye])
        np.testing.assert_allclose(h, numeric, atol=1e-7)
        np.testing.assert_allclose(fgrad.jacrev(fgrad.jacrev(g))(x), h, atol=1e-12)
        hvp = fgrad.jvp(fgrad.grad(g), (x,), (jnp.ones(7),))[1]
        np.testing.assert_allclose(hvp, h.sum(1), atol=1e-12)


def test_mlp_step_jit_equals_eager_and_donation():
    rng = np.random.default_rng(0)
    params = {"w": jnp.asarray(rng.normal(size=(5, 4)).astype("f")), "b": jnp.zeros(4)}
    x, y = rng.normal(size=(16, 5)).astype("f"), rng.integers(0, 4, 16)

    def loss(p, x, y):
        logits = x @ p["w"] + p["b"]
        m = jnp.max(logits, axis=1, keepdims=True)
        logp = logits - m - jnp.log(jnp.sum(jnp.exp(logits - m), axis=1, keepdims=True))
        return -jnp.mean(jnp.take_along_axis(logp, y[:, None], 1))

    def step(p, x, y):
        value, g = fgrad.value_and_grad(loss)(p, x, y)
        return value, fgrad.tree.map(lambda p, g: p - 0.1 * g, p, g)

    v1, p1 = step(params, x, y)
    v2, p2 = fgrad.jit(step)(params, x, y)
    np.testing.assert_allclose(v1, v2, rtol=1e-5)
    np.testing.assert_allclose(p1["w"], p2["w"], rtol=1e-5, atol=1e-6)
    donated = fgrad.jit(step, donate_argnums=0)
    p = fgrad.tree.map(lambda a: a + 0, params)
    v3, p3 = donated(p, x, y)
    np.testing.assert_allclose(p3["w"], p2["w"], rtol=1e-6)
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(p["w"])


def test_python_control_flow_under_grad():
    def g(x):
        return x * x if x > 0 else -x

    assert float(fgrad.grad(g)(3.0)) == 6.0 and float(fgrad.grad(g)(-3.0)) == -1.0
    with pytest.raises(fgrad.errors.TracerBoolConversionError, match="boolean"):
        fgrad.jit(g)(3.0)


def test_custom_rules():
    @fgrad.custom_vjp
    def clip_grad(x):
        return x

    clip_grad.defvjp(lambda x: (x, ()), lambda res, ct: (jnp.clip(ct, -1, 1),))
    for t in (lambda h: h, fgrad.jit):
        np.testing.assert_allclose(t(fgrad.grad(lambda x: jnp.sum(clip_grad(x) * 5)))(X), np.ones(7))
        np.testing.assert_allclose(t(fgrad.vmap(fgrad.grad(lambda x: clip_grad(x) * 5)))(X), np.ones(7))
    with pytest.raises(fgrad.errors.NotDifferentiableError, match="custom_vjp"):
        fgrad.jvp(clip_grad, (1.0,), (1.0,))

    @fgrad.custom_jvp
    def h(x, y):
        return x * y

    h.defjvps(lambda t, out, x, y: 10 * t, None)
    assert float(fgrad.grad(h)(2.0, 3.0)) == 10.0 and float(fgrad.jit(fgrad.grad(h))(2.0, 3.0)) == 10.0
    np.testing.assert_allclose(fgrad.vmap(fgrad.grad(h))(X, X), np.full(7, 10.0))


def test_collectives():
    out = fgrad.vmap(lambda x: x / lax.psum(x, "i"), axis_name="i")(jnp.arange(1.0, 5.0))
    np.testing.assert_allclose(out, np.arange(1, 5) / 10)
    out = fgrad.vmap(lambda x: lax.axis_index("i") + 0 * x, axis_name="i")(jnp.arange(3))
    np.testing.assert_array_equal(out, np.arange(3))
    with pytest.raises(NameError, match="unbound axis name"):
        lax.psum(jnp.ones(2), "nowhere")


def test_integer_arguments():
    assert fgrad.vjp(lambda n, x: n * x, 3, 2.0)[1](1.0)[0].dtype == fgrad.float0
    with pytest.raises(TypeError, match="allow_int"):
        fgrad.grad(lambda n: n * 1.0)(3)
    with pytest.raises(TypeError, match="scalar-output"):
        fgrad.grad(lambda x: x)(X)


def test_leaked_tracer():
    kept = []
    fgrad.jit(lambda x: kept.append(x) or x)(1.0)
    with pytest.raises(fgrad.errors.UnexpectedTracerError):
        kept[0] + 1


def test_indexing_gradients():
    rows = np.array([[0, 2], [2, 1]])
    g = fgrad.grad(lambda x: jnp.sum(x[rows] ** 2))(jnp.arange(3.0))
    np.testing.assert_allclose(g, 2 * np.arange(3.0) * np.array([1, 1, 2]))
    g = fgrad.grad(lambda x: jnp.sum(x.at[1].set(0.0) ** 2))(jnp.arange(3.0))
    np.testing.assert_allclose(g, [0, 0, 4])
    y = fgrad.vmap(lambda x, i: x[i])(jnp.arange(6.0).reshape(2, 3), jnp.array([2, 0]))
    np.testing.assert_allclose(y, [2, 3])


@pytest.mark.parametrize("switch", ["pass_cse", "pass_fuse", "pass_simplify", "pass_dce"])
def test_results_do_not_depend_on_passes(switch):
    want = fgrad.jit(fgrad.value_and_grad(f))(X)
    with fgrad.config.override(switch, False):
        got = fgrad.jit(fgrad.value_and_grad(f))(X)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-6)


def test_index_mixing_an_integer_and_an_array():
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    i = np.array([2, 0])
    np.testing.assert_array_equal(jnp.asarray(x)[1, i], x[1, i])
    np.testing.assert_array_equal(jnp.asarray(x)[0, :, i], x[0, :, i])
    np.testing.assert_array_equal(jnp.asarray(x)[0, jnp.asarray(2)], x[0, 2])


def test_custom_rules_see_python_floats_as_arrays():
    """x.dtype is there whatever the function is called with; arguments without derivatives may be named."""

    @fgrad.custom_jvp
    def f(x):
        return x.astype(x.dtype) ** 2

    f.defjvps(lambda t, out, x: t * x.astype(x.dtype) * 5)

    @functools.partial(fgrad.custom_vjp, nondiff_argnames=("n",))
    def g(x, n):
        return x.astype(x.dtype) ** n

    g.defvjp(lambda x, n: (g(x, n), x), lambda n, x, ct: (ct * n * x.astype(x.dtype),))
    assert float(f(1.5)) == 2.25 and float(fgrad.grad(f)(1.5)) == 7.5
    assert float(g(1.5, 2)) == 2.25 and float(fgrad.grad(g)(1.5, n=3)) == 4.5
    with pytest.raises(ValueError, match="not parameters"):
        fgrad.custom_jvp(lambda x: x, nondiff_argnames="y")


@pytest.mark.parametrize(
    "spec, shape", [("bd,kd->bk", (5, 4)), ("bd,dk->bk", (4, 5)), ("bd,bkd->bk", (3, 5, 4)), ("bd,bdk->bk", (3, 4, 5))]
)
def test_cotangents_of_products_come_in_the_order_of_the_operand(spec, shape):
    x, w = jnp.linspace(-1, 1, 12).reshape(3, 4), jnp.ones(shape)
    grad = fgrad.grad(lambda w: jnp.sum(jnp.sin(jnp.einsum(spec, x, w))))
    assert "transpose" not in str(fgrad.make_jaxpr(grad)(w))
    fgrad.test_util.check_grads(lambda w: jnp.einsum(spec, x, w), (w,), 1, modes=["rev"], eps=1.0)


def test_jit_of_a_function_that_wraps_an_eager_one_while_tracing():
    x = jnp.array([0.5, 1.0])
    mapped = fgrad.jit(fgrad.vmap(jnp.sin))
    np.testing.assert_allclose(fgrad.grad(lambda x: mapped(x).sum())(x), np.cos(x), rtol=1e-6)
    np.testing.assert_allclose(fgrad.jit(lambda x: mapped(x) + 1)(x), np.sin(x) + 1, rtol=1e-6)
    with fgrad.disable_jit():
        np.testing.assert_allclose(mapped(x), np.sin(x), rtol=1e-6)
    with fgrad.debug_nans(True), pytest.raises(FloatingPointError):
        mapped(x / 0)

    def named(x):
        return x

    named.note, named.lower = "kept", "hidden"
    assert fgrad.jit(named).note == "kept" and fgrad.jit(named).lower(x).compile()(x).shape == (2,)


def over_batch(fun, x):
    return fgrad.vmap(fun, axis_name="i")(x)


@pytest.mark.parametrize("name", ["sum", "max", "min", "mean", "var", "std", "ptp", "count_nonzero"])
@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_reductions_over_named_axes(name, dtype):
    x = np.arange(-3, 3, dtype=dtype).reshape(2, 3)
    fun, oracle = getattr(jnp, name), getattr(np, name)
    for axis, axes in (("i", 0), (("i",), 0), (("i", 0), (0, 1)), ((0, "i"), (0, 1))):
        for keepdims in (False, True):
            got = over_batch(lambda v, axis=axis, keepdims=keepdims: fun(v, axis=axis, keepdims=keepdims), x)
            assert got.shape == (2, 3) if axes == 0 else got.shape == ((2, 1) if keepdims else (2,))
            want = oracle(x, axis=axes)
            np.testing.assert_allclose(got, np.broadcast_to(want, (2, 3)) if axes == 0 else np.full(got.shape, want), rtol=1e-6)


def test_named_axes_with_masks_logsumexp_and_gradients():
    x = np.float32([[0, 1, 2], [3, 4, 5]])
    np.testing.assert_allclose(over_batch(lambda v: jnp.mean(v, axis=("i", 0), where=v > 1), x), [3.5, 3.5])
    want = np.log(np.exp(x).sum(0))
    np.testing.assert_allclose(over_batch(lambda v: fgrad.nn.logsumexp(v, axis="i"), x)[0], want, rtol=1e-6)
    loss = lambda x: over_batch(lambda v: (v - jnp.mean(v, axis="i")) ** 2, x).sum()  # noqa: E731
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(loss))(x), 2 * (x - x.mean(0)), rtol=1e-6)
    with pytest.raises(NotImplementedError, match="prod"):
        over_batch(lambda v: jnp.prod(v, axis="i"), x)


def test_pmin_of_integers_and_psum_of_booleans():
    for x in (np.uint8([0, 5]), np.int8([-128, 3]), np.array([False, True]), np.array([True, True])):
        assert over_batch(lambda v: fgrad.lax.pmin(v, "i"), x).tolist() == [x.min()] * 2
    out = over_batch(lambda v: fgrad.lax.psum(v, "i"), np.array([False, True]))
    assert out.tolist() == [1, 1] and out.dtype == np.int32


@pytest.mark.parametrize("axes", [(1.0,), 1.0, "a", ({"a": 1.5},)])
def test_vmap_refuses_axes_that_are_no_ints_before_the_call(axes):
    with pytest.raises(TypeError, match="in_axes"):
        fgrad.vmap(lambda x: x, in_axes=axes)
    with pytest.raises(TypeError, match="out_axes"):
        fgrad.vmap(lambda x: x, out_axes=axes)


def test_partials_of_partials_that_hold_arrays_are_arguments_of_jit():
    f = fgrad.jit(lambda p, y: p(y))
    whole = lambda a: fgrad.tree_util.Partial(functools.partial(lambda a, y: a * y, a))  # noqa: E731
    np.testing.assert_array_equal(f(whole(jnp.ones(3)), 2.0), [2, 2, 2])
    np.testing.assert_array_equal(f(whole(jnp.full(3, 2.0)), 2.0), [4, 4, 4])
    assert whole(3).func != whole(np.ones(2)).func


def test_float0_arrays_are_arguments_and_results_of_jit_and_cond():
    """Tangents and cotangents of integers have a shape and no data; they are part of the structure."""
    f = lambda x: (jnp.sum(x * x), jnp.argmax(x), jnp.floor(x).astype("int32"))
    none = fgrad.dtypes.float0
    x = np.array([1.0, 2.0, 3.0], np.float32)
    cts = np.float32(1), np.zeros((), none), np.zeros(3, none)
    pull = fgrad.jit(lambda x, cts: fgrad.vjp(f, x)[1](cts)[0])
    for _ in range(2):
        np.testing.assert_array_equal(pull(x, cts), 2 * x)
    out, same = fgrad.jit(lambda x, c: (x * 2, c), donate_argnums=1)(x, cts[2])
    assert same.dtype == none and same.shape == (3,) and out[2] == 6
    push = lambda x, c: (fgrad.jvp(f, (x,), (x,))[1], c)
    for t, c in (
        fgrad.lax.cond(True, push, push, x, cts[2]),
        fgrad.jit(lambda x, c: fgrad.lax.cond(x[0] > 0, push, push, x, c))(x, cts[2]),
    ):
        assert [v.dtype for v in (*t[1:], c)] == [none] * 3 and t[2].shape == c.shape == (3,)
        assert t[0] == 28
