"""checkpoint changes memory, not values."""

import numpy as np
import pytest

import fgrad as api
import fgrad.numpy as jnp
from fgrad import checkpoint_policies as policies
from fgrad.ad_checkpoint import checkpoint_name, print_saved_residuals, saved_residuals
from fgrad.control.loops import scan
from fgrad.core import to_array
from fgrad.ops.elementwise import mul, sin
from fgrad.transforms.remat import checkpoint


def test_checkpoint_grad_vmap_and_in_scan():
    x = to_array(np.float32([0.3, 0.7]))
    f = checkpoint(lambda x: mul(sin(sin(x)), x))
    want = np.sin(np.sin(x)) + x * np.cos(np.sin(x)) * np.cos(x)
    np.testing.assert_allclose(api.vmap(api.grad(f))(x), want, rtol=1e-5)
    np.testing.assert_allclose(api.jit(api.grad(f))(to_array(np.float32(0.3))), np.asarray(want)[0], rtol=1e-5)

    def loop(body):
        return api.vmap(api.grad(lambda x: scan(lambda c, _: (body(c), None), x, None, length=3)[0]))(x)

    np.testing.assert_allclose(loop(f), loop(lambda x: mul(sin(sin(x)), x)), rtol=1e-5)


def test_second_derivative():
    f = checkpoint(lambda x: mul(sin(x), x))
    np.testing.assert_allclose(api.grad(api.grad(f))(to_array(np.float32(0.3))), 2 * np.cos(0.3) - 0.3 * np.sin(0.3), rtol=1e-5)


def layer(x, w1, w2):
    h = checkpoint_name(jnp.sin(x @ w1), "hidden")
    return checkpoint_name(jnp.sin(h), "second") @ w2


def total(f):
    return lambda *args: jnp.sum(jnp.sin(f(*args)))


def sources(f, *args):
    """Where each residual comes from, without the source line."""
    return sorted(where.split(" from /")[0] for _, where in saved_residuals(f, *args))


X, W1, W2 = (np.random.default_rng(i).standard_normal(s).astype(np.float32) for i, s in enumerate([(3, 4), (4, 5), (5, 2)]))
INPUTS = [f"from the argument {a}" for a in ("w1", "w2", "x")]
dot = "output of dot_general"
POLICIES = {
    "none": (None, INPUTS),
    "nothing": (policies.nothing_saveable, INPUTS),
    "dots": (policies.dots_saveable, [*INPUTS, dot]),
    "dots_no_batch": (policies.dots_with_no_batch_dims_saveable, [*INPUTS, dot]),
    "hidden": (policies.save_only_these_names("hidden"), [*INPUTS, "named 'hidden'"]),
    "all_names_but_hidden": (policies.save_any_names_but_these("hidden"), [*INPUTS, "named 'second'"]),
    "both": (
        policies.save_from_both_policies(policies.dots_saveable, policies.save_only_these_names("second")),
        [*INPUTS, "named 'second'", dot],
    ),
}


@pytest.mark.parametrize("wrap", [lambda f: f, api.jit], ids=["plain", "jit_inside"])
@pytest.mark.parametrize("name", POLICIES)
def test_policies_store_what_they_say(name, wrap):
    """The product with w2 comes last: its value is needed outside only, where total's sine has it."""
    policy, want = POLICIES[name]
    f = checkpoint(wrap(layer), policy=policy)
    got = [s for s in sources(f, X, W1, W2) if s != "from a constant"]
    assert got == sorted(want)
    grads = api.grad(total(f), (0, 1, 2))(X, W1, W2)
    for a, b in zip(grads, api.grad(total(layer), (0, 1, 2))(X, W1, W2)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    for a, b in zip(grads, api.jit(api.grad(total(f), (0, 1, 2)))(X, W1, W2)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_everything_saveable_recomputes_nothing():
    f = checkpoint(layer, policy=policies.everything_saveable)
    linear = api.linearize(total(f), X, W1, W2)[1]
    assert len(saved_residuals(f, X, W1, W2)) >= len(saved_residuals(layer, X, W1, W2))
    text = str(api.make_jaxpr(linear)(X, W1, W2))
    assert " sin " not in text
    assert " sin " in str(api.make_jaxpr(api.linearize(total(checkpoint(layer)), X, W1, W2)[1])(X, W1, W2))


def test_policy_in_scan_stacks_what_it_stores():
    ws = np.stack([W1[:, :4]] * 3)

    def run(body):
        return lambda x, ws: scan(lambda c, w: (body(c, w), None), x, ws)[0].sum()

    def body(c, w):
        return jnp.sin(jnp.sin(c @ w))

    dots = run(checkpoint(body, policy=policies.dots_saveable))
    avals = [a.shape for a, _ in saved_residuals(dots, X, ws)]
    assert avals.count((3, 3, 4)) == 2  # the carry of each step and its product; without checkpoint also the inner cosines
    plain = [a.shape for a, _ in saved_residuals(run(body), X, ws)]
    assert plain.count((3, 3, 4)) > 2
    for a, b in zip(api.grad(dots, (0, 1))(X, ws), api.grad(run(body), (0, 1))(X, ws)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_static_arguments_keywords_and_decorator():
    @checkpoint(static_argnums=(1,))
    def f(x, flag, *, scale):
        return jnp.sin(x) * scale if flag else x

    assert api.grad(f)(2.0, False, scale=3.0) == 1.0
    np.testing.assert_allclose(api.grad(f)(2.0, True, scale=3.0), 3 * np.cos(2.0), rtol=1e-6)
    with pytest.raises(ValueError, match="static_argnums"):
        checkpoint(lambda x: x, static_argnums=(3,))(1.0)
    with pytest.raises(TypeError, match="policy"):
        checkpoint(lambda x: x, policy="dots")
    with pytest.raises(NotImplementedError, match="concrete"):
        checkpoint(lambda x: x, concrete=True)


def test_values_to_be_offloaded_are_stored():
    def f(x):
        return jnp.sum(checkpoint_name(jnp.sin(checkpoint_name(jnp.sin(checkpoint_name(jnp.sin(x), "a")), "b")), "c"))

    names = dict(names_which_can_be_saved=["a"], names_which_can_be_offloaded=["b"], offload_src="device", offload_dst="pinned_host")
    offloading = checkpoint(f, policy=policies.save_and_offload_only_these_names(**names))
    storing = checkpoint(f, policy=policies.save_only_these_names("a", "b"))
    none = checkpoint(f)
    count = [len(saved_residuals(g, X)) for g in (offloading, storing, none)]
    assert count[0] == count[1] > count[2]
    np.testing.assert_allclose(api.grad(offloading)(X), api.grad(f)(X), rtol=1e-6)
    assert policies.offload_dot_with_no_batch_dims("device", "pinned_host") is policies.dots_with_no_batch_dims_saveable


def test_prevent_cse_keeps_the_recomputation():
    def count(**kw):
        f = checkpoint(lambda x: jnp.sin(jnp.sin(x)), **kw)
        return str(api.make_jaxpr(api.grad(f))(1.0)).count("optimization_barrier")

    assert count() == 1 and count(prevent_cse=False) == 0


def test_names_are_transparent():
    f = lambda x: checkpoint_name({"a": jnp.sin(x)}, "s")["a"]  # noqa: E731
    np.testing.assert_allclose(api.vmap(api.grad(f))(np.float32([0.0, 1.0])), np.cos([0.0, 1.0]), rtol=1e-6)
    np.testing.assert_allclose(api.jit(f)(1.0), np.sin(1.0), rtol=1e-6)


def test_print_saved_residuals(capsys):
    print_saved_residuals(lambda x, p: jnp.sin(x) * p["w"][0], 1.0, {"w": [2.0]})
    out = capsys.readouterr().out
    assert "f32[] from the argument p['w'][0]" in out and "f32[] output of cos from" in out


def test_static_argument_names():
    f = api.checkpoint(lambda x, n=2: x**n if n > 1 else x, static_argnames="n")
    assert float(api.grad(f)(3.0, n=3)) == 27 and float(api.grad(f)(3.0)) == 6


def products(f, *args):
    return sum("dot" in label for _, label in api.jit(f).lower(*args).compile().profile(*args, repeat=1))


def layers(wrap, activation, n=3):
    def loss(ws, x):
        layer = wrap(lambda w, x: activation(x @ w))
        for w in ws:
            x = layer(w, x)
        return jnp.sum(x * x)

    return (
        api.grad(loss),
        [0.1 * jnp.sin(jnp.arange(1024.0) + i).reshape(32, 32) for i in range(n)],
        jnp.cos(jnp.arange(640.0)).reshape(20, 32),
    )


def test_what_is_few_bytes_is_not_computed_again():
    plain, ws, x = layers(lambda f: f, jnp.tanh)
    f, _, _ = layers(checkpoint, jnp.tanh)
    assert products(f, ws, x) == products(plain, ws, x)
    for a, b in zip(api.jit(f)(ws, x), plain(ws, x)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("activation, again", [(jnp.tanh, 1), (jnp.cos, 3)])
def test_what_is_many_bytes_is_computed_again_unless_it_is_stored_anyway(activation, again, monkeypatch):
    monkeypatch.setattr("fgrad.compile.again.LITTLE", 100)
    plain, ws, x = layers(lambda f: f, activation)
    f, _, _ = layers(checkpoint, activation)
    assert products(f, ws, x) == products(plain, ws, x) + again
    for a, b in zip(api.jit(f)(ws, x), plain(ws, x)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_barriers_of_users_stay():
    from fgrad import lax

    def twice(x, w):
        return x @ w + lax.optimization_barrier(x) @ w

    _, ws, x = layers(checkpoint, jnp.tanh)
    assert products(twice, x, ws[0]) == 2
