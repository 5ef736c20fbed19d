"""Mutable arrays under every transformation."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax


def test_reads_and_writes():
    r = fgrad.new_ref(jnp.arange(4.0))
    r[1] = 5.5
    r[2:] += jnp.ones(2)
    r[jnp.array([0])] = jnp.array([9.0])
    r.at[2:].at[0].ref[...] = r[2:].at[1].set(0.0)
    fgrad.ref.addupdate(r, 0, 1.0)
    assert r[...].tolist() == [10.0, 5.5, 3.0, 0.0] and fgrad.ref.swap(r, 0, 2.0) == 10 and fgrad.freeze(r)[0] == 2
    assert (r.shape, r.dtype, r.ndim, r.size, len(r), [float(v) for v in r][:2]) == ((4,), np.float32, 1, 4, 4, [2.0, 5.5])
    assert repr(fgrad.new_ref(jnp.zeros((2, 2)))) == "Ref([[0., 0.],\n     [0., 0.]], dtype=float32)"
    assert fgrad.tree.leaves({"a": r}) == [r] and not isinstance(r, fgrad.Array) and str(fgrad.typeof(r)) == "Ref{float32[4]}"
    key = fgrad.new_ref(fgrad.random.key(0))
    key[...] = fgrad.random.split(key[...])[0]
    assert (fgrad.random.key_data(key[...]) != fgrad.random.key_data(fgrad.random.key(0))).any()


@pytest.mark.parametrize(
    "index, value", [(0, 1), (slice(None), jnp.arange(3)), (..., 1.0), (slice(None), jnp.ones((2, 3))), (3, 1.0), (-4, 1.0)]
)
def test_refused_writes(index, value):
    r = fgrad.new_ref(jnp.zeros(3))
    with pytest.raises(ValueError, match=r"Invalid (dtype|shape)|Out of bound"):
        r[index] = value
    assert not r[...].any()


def test_refused_uses():
    r = fgrad.new_ref(jnp.zeros(3))
    for f in (lambda: jnp.sin(r), lambda: r + 1, lambda: np.asarray(r), lambda: fgrad.new_ref([1, 2]), lambda: fgrad.new_ref(r)):
        with pytest.raises(TypeError):
            f()
    with pytest.raises(ValueError, match="only one reference"):
        fgrad.jit(lambda a, b: a[0] + b[0])(r, r)
    with pytest.raises(ValueError, match="cannot be returned"):
        fgrad.jit(lambda x: fgrad.new_ref(x))(1.0)
    with pytest.raises(ValueError, match="vmapped value on an unbatched array reference"):
        fgrad.vmap(lambda x: r.at[0].set(x) if False else r.__setitem__(0, x))(jnp.ones(2))
    assert not r[...].any()


def test_jit_closed_over_and_as_argument():
    a, traces = fgrad.new_ref(jnp.zeros(2)), []

    @fgrad.jit
    def f(b, x, n=3):
        traces.append(1)
        a[0] += x
        b[...] = b[...] * 2 + a[0]
        return b[...].sum()

    bs = [fgrad.new_ref(jnp.ones(2)) for _ in range(3)]
    assert [float(f(b, 1.0)) for b in bs] == [6.0, 8.0, 10.0]
    assert a[0] == 3 and [float(b[0]) for b in bs] == [3, 4, 5] and len(traces) == 2

    @fgrad.jit
    def outer(x):
        f(bs[0], x)
        r = fgrad.new_ref(x)
        r[...] += a[0]
        return r[...]

    assert outer(1.0) == 5 and a[0] == 4 and bs[0][0] == 10 and outer(1.0) == 6
    g = fgrad.jit(lambda n, r: r.__setitem__(n, 7.0), static_argnums=0)
    g(1, a)
    assert a[...].tolist() == [5, 7]
    with fgrad.disable_jit():
        f(bs[1], 1.0)
    assert a[0] == 6


@pytest.mark.parametrize("jit", [lambda f: f, fgrad.jit])
def test_loops_and_branches(jit):
    r, n = fgrad.new_ref(jnp.zeros(4)), fgrad.new_ref(0)

    @jit
    def f(x):
        _, ys = lax.scan(lambda c, i: (r.__setitem__(i, r[i] + x), (c + 1, r[...].sum()))[1], 0, jnp.arange(4))
        lax.fori_loop(0, 3, lambda i, c: (n.__setitem__(..., n[...] + i), c)[1], None)
        lax.while_loop(lambda c: n[...] < 20, lambda c: (n.__setitem__(..., n[...] + c), c + 1)[1], 1)
        for p in (True, False):
            lax.cond(x < 0 if p else x > 0, lambda: r.__setitem__(0, -r[0]), lambda: None)
        lax.switch(jnp.int32(x), [lambda v: None, lambda v: None, lambda v: r.__setitem__(3, v)], 8.0)
        lax.map(lambda v: r.__setitem__(1, v), jnp.array([5.0, 6.0]))
        return ys

    assert f(2.0).tolist() == [2, 4, 6, 8]
    assert r[...].tolist() == [-2, 6, 2, 8] and n[...] == 24
    with pytest.raises(TypeError, match="carry input and carry output"):
        lax.scan(lambda c, i: (r.__setitem__(0, 0.0), ((c, c), i))[1], 0, jnp.arange(4))


@pytest.mark.parametrize("jit", [lambda f: f, fgrad.jit])
def test_derivatives(jit):
    seen = fgrad.new_ref(jnp.float32(0))

    def f(x):
        r = fgrad.new_ref(jnp.zeros(3))
        r[0] = jnp.sin(x)

        def step(i, c):
            r[0] = r[0] * r[0] + x
            return c

        lax.fori_loop(0, 2, step, None)
        seen[...] = lax.stop_gradient(r[0])
        return r[0] * seen[...]

    def pure(x):
        y = jnp.sin(x)
        for _ in range(2):
            y = y * y + x
        return y

    want = fgrad.grad(pure)(0.3) * pure(0.3)
    for g in (fgrad.grad(f), fgrad.jacfwd(f), fgrad.grad(fgrad.checkpoint(f)), lambda x: fgrad.vjp(f, x)[1](1.0)[0]):
        seen[...] = jnp.float32(0)
        assert jnp.allclose(jit(g)(0.3), want) and jnp.allclose(seen[...], pure(0.3))
    assert fgrad.eval_shape(f, 1.0).shape == ()
    assert jnp.allclose(seen[...], pure(0.3))  # eval_shape writes nothing


@pytest.mark.parametrize("jit", [lambda f: f, fgrad.jit])
def test_gradients_stashed_by_a_rule(jit):
    @fgrad.custom_vjp
    def tap(ref, x):
        return x

    tap.defvjp(lambda ref, x: (x, ref), lambda ref, g: (ref.__setitem__(..., g), (None, g))[1])
    r = fgrad.new_ref(jnp.float32(0))
    assert jnp.allclose(jit(fgrad.grad(lambda x: jnp.sin(tap(r, x * 2))))(1.0), 2 * jnp.cos(2.0))
    assert jnp.allclose(r[...], jnp.cos(2.0))


def test_jit_again_of_the_same_function():
    def f(r, x):
        r[...] += x

    r = fgrad.new_ref(jnp.zeros(2))
    for x in (1.0, jnp.ones(2), 2):
        fgrad.jit(f)(r, x)
    assert r[...].tolist() == [4, 4]


def test_vmap_maps_arguments():
    r, shared = fgrad.new_ref(jnp.zeros((2, 3))), fgrad.new_ref(0.0)

    def f(r, x):
        r[...] += x
        shared[...] = 4.0
        return x * shared[...]

    assert fgrad.vmap(f, in_axes=(1, 0))(r, jnp.arange(3.0)).tolist() == [0, 4, 8]
    assert r[...].tolist() == [[0, 1, 2]] * 2 and shared[...] == 4
    fgrad.jit(fgrad.vmap(f))(r, jnp.arange(2.0))
    assert r[...].tolist() == [[0, 1, 2], [1, 2, 3]]


def test_pullbacks_show_and_take_what_they_keep():
    f = lambda w, x: jnp.tanh(x @ w) + 0 * w[0, 0]  # noqa: E731
    w, x = jnp.eye(3), jnp.arange(6.0).reshape(2, 3)
    y, pullback = fgrad.jit(lambda w, x: fgrad.vjp(f, w, x))(w, x)
    want = pullback(y)
    assert [np.shape(a) for a in pullback.args_res] == [(3, 3), (2, 3)] and len(pullback.opaque_residuals) >= 1
    pullback.args_res[0] = None
    assert len(fgrad.tree.leaves(pullback)) == 1 + len(pullback.opaque_residuals)
    with pytest.raises(ValueError, match="args_res has 1 leaves"):
        pullback(y)
    pullback.args_res[0] = w
    for a, b in zip(pullback(y), want):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(TypeError, match="one argument"):
        pullback(y, y)
    shared, plain = (fgrad.vjp(*a)[1] for a in ((jnp.multiply, x, x), (lambda d: jnp.sin(d["a"]) + d["b"], {"a": x, "b": x})))
    assert [np.shape(a) for a in shared.args_res] == [(2, 3)] * 2 and repr(plain.args_res) == "[(NotNeeded(), NotNeeded())]"


@pytest.mark.parametrize("jit", [lambda f: f, fgrad.jit], ids=["eager", "jit"])
def test_pullbacks_add_to_references(jit):
    total = fgrad.new_ref(jnp.zeros(4))

    def pull(total, x, i):
        _, pullback = fgrad.vjp(lambda d, i: d["x"][i] ** 2 * d["y"], {"x": x, "y": jnp.float32(2)}, i)
        cts, rest = pullback.with_refs({"x": total, "y": fgrad.ad.GradValue()}, fgrad.ad.DontWant())(1.0)
        assert repr(rest) == "DidntWant()" and repr(cts["x"]) == "GradRef()"
        return cts["y"]

    for i in (3, 1, 3):
        assert jit(pull)(total, jnp.arange(4.0), i) == i**2
    assert total[...].tolist() == [0, 4, 0, 24]

    pullback = fgrad.vjp(jnp.sin, 1.0)[1]
    with pytest.raises(ValueError, match="an entry per argument"):
        pullback.with_refs(total, total)
    with pytest.raises(TypeError, match="Ref, ad.GradValue"):
        pullback.with_refs(1.0)
