"""What is moved out of loops: the same values, and less in the loop."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax, nn

rng = np.random.default_rng(0)
T, B, N = 7, 3, 4


def make(*shape):
    return jnp.asarray(rng.standard_normal(shape).astype(np.float32))


ARGS = {"w": make(N, N), "u": make(N, N), "b": make(N), "x": make(T, B, N), "h": make(B, N)}


def rnn(p, reverse=False, unroll=1):
    """Products with the inputs, with the state, and of the results."""

    def step(h, x):
        h = jnp.tanh(x @ p["u"] + h @ p["w"] + p["b"])
        return h, nn.softmax(h @ p["u"] + 1.0)

    return lax.scan(step, p["h"], p["x"], reverse=reverse, unroll=unroll)


def scaled(p):
    return lax.scan(lambda h, x: (jnp.sin(h @ (p["w"].T * 2.0 + p["u"])) + x, None), p["h"], p["x"])


def accumulated(p):
    """Sums over steps of a product, of a transposed product, of a reduction; read by nobody else."""

    def step(c, x):
        a, t, s, h = c
        h = jnp.cos(h + x)
        return (a + h.T @ x, (x.T @ h).T + t, s - h.sum(0), h), h[0]

    return lax.scan(step, (p["w"], p["u"], p["b"], p["h"]), p["x"])


def read(p):
    """A sum that each step reads stays in the loop."""
    return lax.scan(lambda a, x: (a + x.T @ x, a.sum()), p["w"], p["x"])


def nested(p):
    def outer(h, x):
        inner = lambda c, r: (jnp.tanh(c @ p["w"] + r @ p["u"]), c.sum())
        h, s = lax.scan(inner, h[0], jnp.stack([x[0], x[1], x[2]]))
        return jnp.stack([h, h * 2, h * 3]), s

    return lax.scan(outer, p["h"], p["x"])


def called(p):
    layer = fgrad.jit(lambda x: nn.relu(x @ p["u"]) + jnp.arange(4.0))
    return lax.scan(lambda h, x: (h @ p["w"] + layer(x), (layer(h), layer(h))), p["h"], p["x"])


def checkpointed(p):
    step = fgrad.checkpoint(lambda h, x: (jnp.tanh(h @ p["w"] + x @ p["u"]), h.sum()))
    return lax.scan(step, p["h"], p["x"])


def counted(p):
    return lax.fori_loop(0, 5, lambda i, h: jnp.sin(h @ p["w"]) * (p["b"] * p["b"] + i), p["h"])


def until(p):
    far = lambda c: c[0] < jnp.sum(p["b"] * p["b"]) + 5
    return lax.while_loop(far, lambda c: (c[0] + 1, jnp.sin(c[1] @ (p["w"] * p["w"])) + jnp.exp(p["b"])), (0.0, p["h"]))


def midpoint(p):
    """The weight's gradient is the sum of two products in each step, the bias's of two reductions."""

    def step(h, x):
        middle = h + jnp.tanh(h @ p["w"] + x + p["b"]) / 2
        return h - jnp.tanh(middle @ p["w"] + x + p["b"]), None

    return lax.scan(step, p["h"], p["x"])


def several(p):
    """Sums over steps of sums: of products and transposed ones, of one product twice, of a product and something else."""

    def step(c, x):
        a, s, t, u, h = c
        h = jnp.cos(h + x)
        y = x.T @ h
        return (a + (h.T @ x - (x.T @ h).T), s - (h.sum(0) + x.sum(0)), t + (y + y), u + (h.T @ h + p["u"] * x[0]), h), None

    return lax.scan(step, (p["w"], p["b"], p["u"], p["w"], p["h"]), p["x"])


def chosen(p):
    """Columns of a weight at scanned indices, some of them out of bounds."""
    k = jnp.asarray(np.random.default_rng(1).integers(-N, N + 2, (T, B)))
    return lax.scan(lambda h, i: (jnp.sin(h) + p["w"][:, i].T, p["u"][i, 0]), p["h"], k)


def constants(p):
    return lax.scan(lambda h, x: (h, (jnp.ones(3), 2.0, x @ p["w"])), p["h"], p["x"])


PROGRAMS = dict(
    rnn=rnn,
    reverse=lambda p: rnn(p, reverse=True),
    unrolled=lambda p: rnn(p, unroll=3),
    one=lambda p: rnn(p | {"x": p["x"][:1]}),
    two=lambda p: rnn(p | {"x": p["x"][:2]}),
    per_example=lambda p: fgrad.vmap(lambda h, x: rnn(p | {"h": h, "x": x}), (0, 1))(p["h"], p["x"]),
    **{f.__name__: f for f in (scaled, accumulated, read, nested, called, checkpointed, counted, midpoint, several, constants, chosen)},
)


def total(fun):
    return lambda p: sum(jnp.sum(jnp.sin(y)) for y in fgrad.tree.leaves(fun(p)))


def compare(fun, *args, rtol=2e-4):
    got = fgrad.jit(fun)(*args)
    with fgrad.config.override("pass_motion", False):
        want = fgrad.jit(fun)(*args)
    for a, b in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want)):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-5)


@pytest.mark.parametrize("name", [*PROGRAMS, "until"])
def test_values(name):
    compare(PROGRAMS.get(name, until), ARGS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name):
    compare(fgrad.grad(total(PROGRAMS[name])), ARGS, rtol=2e-3)


@pytest.mark.parametrize("name", ["rnn", "accumulated", "called"])
def test_second_derivatives(name):
    fun = total(PROGRAMS[name])
    compare(lambda p: fgrad.jvp(fgrad.grad(fun), (p,), (p,))[1], ARGS, rtol=5e-3)


def labels(fun, *args):
    return [label for _, label in fgrad.jit(fun).lower(*args).compile().profile(*args, repeat=1)]


def test_products_of_all_steps():
    got = labels(rnn, ARGS)
    assert sum(x.startswith("dot") and "21, 4" in x for x in got) == 2  # 7 steps of 3 rows: of the inputs, of the results


def test_gradients_of_weights_are_one_product():
    fun = fgrad.grad(total(lambda p: lax.scan(lambda h, x: (jnp.tanh(h @ p["w"] + x), None), p["h"], p["x"])[0]))
    assert any(x.startswith("dot [1, 4, 21] [1, 21, 4]") for x in labels(fun, ARGS))
    assert sum(x.startswith("dot [1, 4, 21] [1, 21, 4]") for x in labels(fgrad.grad(total(midpoint)), ARGS)) == 2


def test_gathers_at_scanned_indices_are_one_gather():
    assert [x for x in labels(chosen, ARGS) if x.startswith("gather")]


def test_columns_at_scanned_indices_are_one_gather():
    w, at = ARGS["w"], jnp.asarray([0, 3, -1, 9, -9, 2, 1])
    columns = lambda w, h, at: lax.scan(lambda c, i: (c * 0.5 + w[:, i], None), h, at)[0]
    assert [x for x in labels(columns, w, w[0], at) if x.startswith("gather")]
    want = np.asarray(w)[0]
    for i in (0, 3, 3, 3, 0, 2, 1):  # counted from the end, and bounded
        want = want * np.float32(0.5) + np.asarray(w)[:, i]
    np.testing.assert_allclose(fgrad.jit(columns)(w, w[0], at), want, rtol=1e-6)
    rows = lambda w, h, at: lax.scan(lambda c, i: (c * 0.5 + w[i], None), h, at)[0]
    assert not [x for x in labels(rows, w, w[0], at) if x.startswith("gather")]  # one piece, read in the loop


def test_effects_stay_in_the_loop():
    seen = []

    def step(h, x):
        y = x @ ARGS["w"]
        fgrad.debug.callback(lambda v: seen.append(float(v)), y[0, 0])
        return h + y, y @ ARGS["u"]

    fgrad.jit(lambda: lax.scan(step, ARGS["h"], ARGS["x"]))()
    np.testing.assert_allclose(seen, [(np.asarray(x) @ np.asarray(ARGS["w"]))[0, 0] for x in ARGS["x"]], rtol=1e-5)


def test_a_while_loop_keeps_what_changes():
    p = ARGS | {"h": ARGS["h"] / 4}
    ones = [label for label in labels(until, p) if "exp" in label]
    assert len(ones) == 1  # outside of the loop, whose own instructions are not listed


def far(n, m=3):
    return jnp.asarray(np.random.default_rng(n).standard_normal((n, m)).astype(np.float32))


SPREAD = dict(
    mapped=lambda x: lax.map(lambda v: jnp.sin(v) * v.sum(), x),
    inner=lambda x: lax.map(lambda v: lax.fori_loop(0, 9, lambda i, a: a * 0.5 + v[i % 3], v), x),
    counted=lambda x: lax.scan(lambda c, v: ((c[0] + 3, c[1] + v * c[0]), (v * c[0], c[0])), (5, jnp.zeros(3)), x),
    backward=lambda x: lax.scan(lambda c, v: ((c[0] - 2, c[1] + v * c[0]), (v * c[0], c[0])), (5, jnp.zeros(3)), x, reverse=True),
    wrapping=lambda x: lax.scan(lambda c, v: (c + jnp.int8(50), v * c), jnp.int8(3), x),
    summed=lambda x: lax.fori_loop(0, len(x), lambda i, s: s + jnp.cos(x[i]) / (i + 1.0), jnp.zeros(3)),
    whole=lambda x: lax.fori_loop(0, len(x), lambda i, s: s + (jnp.sum(x[i]) > 0), 0),
    fixed=lambda x: lax.scan(lambda c, v: (c, (v * 2, 1.0, x[0])), (), x),
    drawn=lambda x: lax.map(lambda k: fgrad.random.normal(fgrad.random.fold_in(fgrad.random.key(0), k), (3,)), jnp.arange(len(x))),
    chosen=lambda x: lax.map(lambda v: lax.cond(v[0] > 0, jnp.sin, jnp.cos, v), x),
    updated=lambda x: lax.map(lambda v: v.at[1].set(v[0]), x),
    carried=lambda x: lax.scan(lambda c, v: (c + v, c), jnp.zeros(3), x),
)


@pytest.mark.parametrize("n", [2, 7, 8, 31, 32, 100, 30_000])  # the last: in blocks, with a rest
@pytest.mark.parametrize("name", SPREAD)
def test_steps_at_once(name, n):
    compare(SPREAD[name], far(n) / n, rtol=1e-4)  # small numbers: sums in another order are alike


def drawn(x):
    keys = fgrad.random.split(fgrad.random.key(1), len(x))

    def step(c, row):
        k, v = row
        a, b = fgrad.random.split(k)
        y = c + fgrad.random.normal(a, c.shape) * jnp.exp(v)
        return jnp.where(fgrad.random.uniform(b) < 0.5, y, c), (y, jnp.sin(v), jnp.sin(v).sum() + c.sum())

    return lax.scan(step, jnp.zeros(3), (keys, x))


@pytest.mark.parametrize("n", [31, 32, 3000])
@pytest.mark.parametrize("reverse", [False, True])
def test_random_numbers_and_functions_of_inputs(n, reverse):
    compare(drawn, far(n), rtol=1e-4)
    decay = lambda x: lax.scan(lambda c, v: (c * nn.sigmoid(v) + jnp.tanh(v), (c, jnp.tanh(v))), jnp.ones(3), x, reverse=reverse)
    compare(decay, far(n))
    compare(fgrad.grad(lambda x: sum(jnp.sum(y) for y in decay(x)[1])), far(n), rtol=1e-3)
    outside = any("tanh" in label for label in labels(decay, far(n)))  # a loop's own instructions are not listed
    assert outside == (n >= 32)


def folded(x):
    key = fgrad.random.key(2)
    return lax.fori_loop(0, len(x), lambda i, c: c + fgrad.random.normal(fgrad.random.fold_in(key, i), c.shape) * c.sum(), jnp.ones(3) / 9)


def driven(x, reverse=False):
    """A counter that goes down, one that is indexed by, one that only results need."""

    def step(c, v):
        i, j, k, y = c
        y = y * 0.9 + jnp.cos(i * 0.1) * v + x[j]
        return (i - 2, j + 1, k + jnp.int8(7), y), (y.sum(), jnp.sin(k * 0.5), i)

    return lax.scan(step, (3, 0, jnp.int8(1), jnp.zeros(3)), x, reverse=reverse)


@pytest.mark.parametrize("n", [20, 50, 300])
def test_functions_of_counters(n):
    compare(folded, far(n) / n, rtol=1e-3)
    compare(driven, far(n))
    compare(lambda x: driven(x, reverse=True), far(n))
    compare(fgrad.grad(lambda x: driven(x)[1][0].sum()), far(n), rtol=1e-3)
    assert any(label.startswith(f"mul [{n}, 3]") for label in labels(driven, far(n))) == (n >= 32)


def test_loops_that_are_done_at_once():
    x = far(64)
    for name in ("mapped", "counted", "backward", "summed", "whole", "drawn"):
        assert not any(label.startswith("scan [64") for label in labels(SPREAD[name], x)), name
    for name in ("chosen", "updated", "carried"):
        assert any(label.startswith("scan") for label in labels(SPREAD[name], x)), name


@pytest.mark.parametrize("method", [None, "expand_dims"])
def test_callbacks_of_a_loop_are_called_step_by_step(method):
    shapes = []

    def host(v):
        shapes.append(np.shape(v))
        return np.asarray(v) * 3

    def call(v):
        return fgrad.pure_callback(host, fgrad.ShapeDtypeStruct(v.shape, v.dtype), v, vmap_method=method)

    x = far(64)
    for fun in (
        lambda x: lax.map(lambda v: jnp.sin(call(v)), x),
        lambda x: lax.scan(lambda c, v: (c * 0.5 + jnp.sin(call(v)), c), x[0], x)[1],
        lambda x: lax.fori_loop(0, 64, lambda i, c: c + call(jnp.cos(i * x[0])), x[0] * 0),
    ):
        shapes.clear()
        got = fgrad.jit(fun)(x)
        assert shapes == [x.shape[1:]] * 64
        with fgrad.disable_jit():
            np.testing.assert_allclose(got, fun(x), rtol=1e-5, atol=1e-5)


def differences(x):
    """Advantages: several cheap operations on the numbers of each step, and one on what is carried."""

    def step(a, v):
        a = v[0] + 0.99 * v[1] - v[2] + 0.95 * a
        return a, a

    return lax.scan(step, 0.0, tuple(x.T), reverse=True)[1]


@pytest.mark.parametrize("n", [2, 31, 32, 200])
def test_cheap_operations_on_inputs_together(n):
    x = far(n)
    compare(differences, x, rtol=1e-4)
    compare(fgrad.grad(total(differences)), x, rtol=1e-3)
    assert any("add" in label or "fma" in label for label in labels(differences, x)) == (n >= 32)


def test_one_cheap_operation_stays():
    x = far(200)
    assert not any("mul" in label for label in labels(lambda x: lax.scan(lambda a, v: (a + v[0] * 0.5, a), 0.0, x), x))
