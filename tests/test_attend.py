"""Attention written out runs on the kernels of attention (pass_attention), and gives what it gives without them."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import nn
from fgrad.compile import attend
from fgrad.ops import attention

B, T, H, D = 2, 64, 3, 8
TRIANGLE = np.tril(np.ones((T, T), np.float32))


def scores(q, k, scale=D**-0.5):
    return jnp.einsum("bthd,bshd->bhts", q, k) * scale


def weighted(s, v):
    return jnp.einsum("bhts,bshd->bthd", nn.softmax(s), v)


def selected(q, k, v):
    return weighted(jnp.where(jnp.tril(jnp.ones((T, T), bool)), scores(q, k), -1e30), v)


def heads_first(q, k, v):
    q, k, v = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    s = jnp.where(jnp.tril(jnp.ones((T, T))) == 0, -jnp.inf, q @ k.swapaxes(-1, -2) / jnp.sqrt(D))
    return (nn.softmax(s) @ v).transpose(0, 2, 1, 3)


def by_positions(q, k, v):
    at = jnp.broadcast_to(jnp.arange(T), (B, T))
    mask = (at[:, :, None] >= at[:, None, :])[:, None]
    return weighted(jnp.where(mask, scores(q / jnp.sqrt(D), k, 1), jnp.finfo(jnp.float32).min), v)


def added(q, k, v):
    i = jnp.arange(T)
    return weighted(scores(q, k) + jnp.where(i[:, None] < i, -1e9, 0.0), v)


def subtracted(q, k, v):
    return weighted(scores(q, k) - (1 - jnp.tril(jnp.ones((T, T)))) * 1e9, v)


def upper_triangle(q, k, v):
    return weighted(scores(q, k) + jnp.triu(jnp.full((T, T), -jnp.inf), 1), v)


def stored(q, k, v):
    return weighted(jnp.where(TRIANGLE[None, None] == 0, -1e9, scores(q, k)), v)


def sloped(q, k, v):
    i = jnp.arange(T)
    s = scores(q, k) - 2.0 ** -jnp.arange(1, H + 1)[:, None, None] * jnp.abs(i[:, None] - i)
    return weighted(jnp.where(i[:, None] >= i, s, -1e10), v)


def mapped(q, k, v):
    def one(q, k, v):
        s = jnp.where(jnp.arange(T)[:, None] < jnp.arange(T), -jnp.inf, q @ k.T / 3)
        return nn.softmax(s) @ v

    return fgrad.vmap(fgrad.vmap(one, 1, 1))(q, k, v)


def one_head(q, k, v):
    q, k, v = (x[0, :, 0] for x in (q, k, v))
    return nn.softmax(jnp.where(jnp.tril(jnp.ones((T, T), bool)), q @ k.T, -1e9)) @ v


def grouped(q, k, v):
    q = jnp.concatenate([q, q], 2).reshape(B, T, H, 2, D).transpose(0, 2, 3, 1, 4)
    k, v = (x.transpose(0, 2, 1, 3) for x in (k, v))
    s = jnp.where(jnp.tril(jnp.ones((T, T), bool)), jnp.einsum("bkgtd,bksd->bkgts", q, k), -1e30)
    return jnp.einsum("bkgts,bksd->bkgtd", nn.softmax(s), v).sum(2)


def repeated_keys(q, k, v):
    return selected(q, *(jnp.repeat(x[:, :, :1], H, 2) for x in (k, v)))


def last_queries(q, k, v):
    s = scores(q[:, T // 4 :], k)
    return weighted(jnp.where(jnp.arange(T // 4, T)[:, None] >= jnp.arange(T), s, -1e9), v)


def recomputed(q, k, v):
    return fgrad.checkpoint(selected)(q, k, v)


def layers(q, k, v):
    x = selected(q, k, v)
    return heads_first(x, jnp.tanh(x), x * 2)


def of_itself(q, k, v):
    return selected(q, q, q)


CAUSAL = [
    *[selected, heads_first, by_positions, added, subtracted, upper_triangle, stored, sloped, mapped, one_head, grouped, repeated_keys],
    *[last_queries, recomputed, layers, of_itself],
]


def whole(q, k, v):
    return weighted(scores(q, k), v)


def padded(q, k, v):
    return weighted(scores(q, k) + jnp.where(jnp.arange(T) < T - 9, 0.0, -1e9)[None, None, None], v)


def hidden_keys(q, k, v):
    return weighted(jnp.where((jnp.arange(T) < T - 9)[None, None, None], scores(q, k), -1e9), v)


def rows_that_see_nothing(q, k, v):
    return weighted(jnp.where((jnp.arange(T) % 7 > 2)[:, None] & (jnp.arange(T) % 5 > 2), scores(q, k), -1e9), v)


def strictly_before(q, k, v):
    return weighted(jnp.where(jnp.tril(jnp.ones((T, T), bool), -1), scores(q, k), -1e9), v)


def little_weight(q, k, v):
    return weighted(jnp.where(jnp.tril(jnp.ones((T, T), bool)), scores(q, k), -3.0), v)


def weights_too(q, k, v):
    p = nn.softmax(scores(q, k))
    return jnp.einsum("bhts,bshd->bthd", p, v) + p.mean()


def two_values(q, k, v):
    p = nn.softmax(scores(q, k))
    return jnp.einsum("bhts,bshd->bthd", p, v) + jnp.einsum("bhts,bshd->bthd", p, k)


def learned_bias(q, k, v):
    return weighted(scores(q, k) + v[:, :, :, 0].transpose(0, 2, 1)[..., None], v)


def over_queries(q, k, v):
    return jnp.einsum("bhst,bshd->bthd", nn.softmax(jnp.einsum("bthd,bshd->bhst", q, k), -2), v)


# (function, whether its value runs on the kernel, whether its gradient does)
OTHERS = [
    *[(whole, True, True), (padded, True, True), (hidden_keys, True, False), (rows_that_see_nothing, True, False)],
    *[(strictly_before, True, False), (little_weight, False, False), (weights_too, False, False), (two_values, False, False)],
    *[(learned_bias, True, False), (over_queries, False, False)],
]


def arrays(dtype=np.float32):
    return [jnp.asarray(np.random.default_rng(i).standard_normal((B, T, H, D)).astype(dtype)) for i in range(3)]


def compiled(fun, *args):
    """(results, names of the instructions)"""
    program = fgrad.jit(fun).lower(*args).compile()
    return fgrad.tree.leaves(program(*args)), " ".join(label for _, label in program.profile(*args, repeat=1))


def agree(fun, args, tol=3e-6):
    """The names of the instructions of what gives the same as without the pass."""
    got, labels = compiled(fun, *args)
    with fgrad.config.override("pass_attention", False):
        want, _ = compiled(lambda *a: fun(*a), *args)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tol * max(1.0, float(jnp.abs(b).max())))
    return labels


def loss(fun):
    return lambda *args: jnp.sum(jnp.sin(fun(*args)) * 0.7)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(attend, "LEAST", 1)


@pytest.mark.parametrize("fun", CAUSAL)
def test_causal(fun):
    labels = agree(fun, arrays())
    assert "attention_fwd" in labels and "softmax" not in labels
    for argnums in (0, 1, (0, 1, 2)):
        labels = agree(fgrad.value_and_grad(loss(fun), argnums), arrays())
        assert "softmax" not in labels


@pytest.mark.parametrize(("fun", "forward", "backward"), OTHERS)
def test_other_masks(fun, forward, backward, monkeypatch):
    monkeypatch.setattr(attend, "LEAST_WHOLE", 1)
    assert ("attention_fwd" in agree(fun, arrays())) == forward
    assert ("attention_bwd" in agree(fgrad.grad(loss(fun), (0, 1, 2)), arrays())) == backward


@pytest.mark.parametrize("fun", [selected, stored, sloped])
def test_float64(fun):
    with fgrad.enable_x64():
        args = arrays(np.float64)
        assert "attention_bwd" in agree(fgrad.grad(loss(fun), (0, 1, 2)), args, 1e-13)


def test_tangents_and_second_order():
    args = arrays()
    f = loss(selected)
    agree(lambda *a: fgrad.jvp(f, a, a), args)
    agree(lambda *a: fgrad.jvp(fgrad.grad(f), a, a), args, 1e-5)
    agree(fgrad.grad(lambda *a: jnp.sum(fgrad.grad(f, 1)(*a) ** 2)), args, 1e-5)


def test_gradients_of_turned_keys_reach_what_reads_whole_arrays():
    q, k, v = (x.transpose(0, 2, 1, 3) for x in arrays())
    turned = k.swapaxes(-1, -2)

    def f(q, kt, v):
        s = jnp.where(jnp.tril(jnp.ones((T, T), bool)), q @ kt, -1e9)
        return jnp.sum(jnp.sin(nn.softmax(s) @ v))

    gradient = fgrad.grad(f, (0, 1, 2))
    assert "attention_bwd" in agree(gradient, (q, turned, v))
    for read in (jnp.cumsum, jnp.sort, lambda x: x.at[1].set(0), lambda x: jnp.pad(x, ((0, 0), (0, 0), (1, 1), (0, 2)))):
        assert "attention_bwd" in agree(lambda *a, read=read: [read(g) for g in gradient(*a)], (q, turned, v), 1e-5)
    step = lambda *a: fgrad.lax.fori_loop(0, 3, lambda i, g: g * 0.5, gradient(*a)[1])
    assert "attention_bwd" in agree(step, (q, turned, v))


def test_values_of_another_dtype():
    q, k, v = arrays()
    p = lambda q, k: nn.softmax(jnp.where(jnp.tril(jnp.ones((T, T), bool)), scores(q, k), -1e9))
    agree(lambda q, k, v: jnp.einsum("bhts,bshd->bthd", p(q, k), v), (q, k, v.astype(jnp.bfloat16)))
    agree(lambda q, k, v: jnp.einsum("bhts,bshd->bthd", p(q, k).astype(jnp.bfloat16), v), (q, k, v.astype(jnp.bfloat16)), 1e-2)


def test_scores_are_not_stored():
    def peak(t):
        x = jnp.ones((1, t, 1, 16))
        f = lambda q, k, v: jnp.sum(weighted(jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores(q, k), -1e9), v) ** 2)
        return fgrad.jit(fgrad.grad(f, (0, 1, 2))).lower(x, x, x).compile().memory_analysis().temp_size_in_bytes

    assert peak(4096) < 4.5 * peak(1024) < 4096 * 1024


def test_stored_masks_may_differ_between_calls_of_one_function():
    """A closed-over array is part of one program alone."""
    q, k, v = arrays()

    def with_mask(mask):
        return fgrad.jit(lambda q, k, v: weighted(jnp.where(mask, scores(q, k), -1e9), v))(q, k, v)

    causal, none = with_mask(TRIANGLE > 0), with_mask(np.ones((T, T), bool))
    np.testing.assert_allclose(none, whole(q, k, v), atol=1e-5)
    np.testing.assert_allclose(causal, selected(q, k, v), atol=1e-5)


def attention_of_bodies(fun, args, monkeypatch):
    """The operations of attention in bodies of loops, of what agrees with the program without the pass."""
    seen = set()
    found = attend.attend

    def watch(nodes, outs, constants):
        new = found(nodes, outs, constants)
        if constants.outer:
            seen.update(n.op for n in new if n.op.startswith(("attention", "softmax")))
        return new

    monkeypatch.setattr("fgrad.compile.program.attend", watch)
    agree(fun, args, 1e-5)
    return seen


INSIDE = np.tril(np.ones((T, T), bool))
MASKS = [
    lambda: INSIDE,
    lambda: jnp.tril(jnp.ones((T, T), bool)),
    lambda: jnp.arange(T)[:, None] >= jnp.arange(T),
    lambda: fgrad.jit(lambda n: jnp.tri(n, dtype=bool), static_argnums=0)(T),
]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("outside", [False, True])
def test_masks_of_loops_are_known_inside(mask, outside, monkeypatch):
    given = mask()

    def one(q, k, v):
        return weighted(jnp.where(given if outside else mask(), scores(q, k), -1e9), v)

    def trained(q, k, v):
        step = lambda p, x: (fgrad.tree.map(lambda a, b: a - x * b, p, fgrad.grad(loss(one), (0, 1, 2))(*p)), None)
        return fgrad.lax.scan(step, (q, k, v), jnp.arange(0.1, 0.4, 0.1))[0]

    def layers(q, k, v):
        body = fgrad.checkpoint(lambda x, w: (x + one(x * w, k, v), None))
        return jnp.sum(jnp.sin(fgrad.lax.scan(body, q, jnp.arange(1.0, 4.0))[0]))

    def counted(q, k, v):
        return fgrad.lax.fori_loop(0, 3, lambda i, q: q - fgrad.grad(loss(one))(q, k, v), q)

    def nested(q, k, v):
        return fgrad.lax.fori_loop(0, 2, lambda i, q: fgrad.lax.cond(i > 0, lambda q: counted(q, k, v), lambda q: q, q), q)

    for fun in (trained, counted, nested, fgrad.grad(layers, (0, 1, 2))):
        assert attention_of_bodies(fun, arrays(), monkeypatch) == {"attention_fwd", "attention_bwd"}


def test_masks_that_loops_change_or_are_given(monkeypatch):
    """What looks like a triangle where a loop begins is none in what it carries, and none where it is an argument."""

    def carried(q, k, v):
        def step(i, c):
            q, mask = c
            return weighted(jnp.where(mask, scores(q, k), -1e9), v), jnp.logical_xor(mask, jnp.arange(T) == i)

        return fgrad.lax.fori_loop(0, 3, step, (q, jnp.tril(jnp.ones((T, T), bool))))[0]

    def scanned(q, k, v):
        masks = jnp.stack([jnp.tril(jnp.ones((T, T), bool)), jnp.ones((T, T), bool)])
        return fgrad.lax.scan(lambda q, m: (weighted(jnp.where(m, scores(q, k), -1e9), v), None), q, masks)[0]

    def given(q, k, v, mask):
        return fgrad.lax.fori_loop(0, 3, lambda i, q: weighted(jnp.where(mask, scores(q, k), -1e9), v), q)

    for fun in (carried, scanned):
        agree(fun, arrays(), 1e-5)
    agree(given, [*arrays(), jnp.asarray(INSIDE)], 1e-5)
    agree(given, [*arrays(), jnp.ones((T, T), bool)], 1e-5)


@pytest.mark.parametrize(("heads", "t", "s"), [(8, 4, 4), (8, 8, 8), (4, 1, 1), (8, 2, 8), (8, 1, 64)])
def test_few_queries_of_two_batch_axes(heads, t, s):
    """Products of (batch, heads), as few queries of several sequences are, are not taken for those of one batch axis."""
    q, k, v = (np.random.default_rng(n).standard_normal((2, n, heads, 32)).astype(np.float32) for n in (t, s, s))
    f = lambda q, k, v: weighted(scores(q, k), v)
    np.testing.assert_allclose(fgrad.jit(f)(q, k, v), f(*map(jnp.asarray, (q, k, v))), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(
    "b, t, s, heads, kv_heads, d",
    [
        (2, 33, 65, 4, 2, 16),
        (1, 32, 32, 1, 1, 17),
        (1, 31, 64, 2, 2, 16),
        (2, 64, 48, 6, 1, 64),
        (1, 600, 600, 2, 2, 16),
        (1, 64, 40, 2, 2, 8),
    ],
)
def test_attention_of_bfloat16_by_products_or_by_tiles(paired, b, t, s, heads, kv_heads, d, monkeypatch):
    monkeypatch.setattr(attention, "PAIRS", paired)
    fgrad.clear_caches()
    rng, keys = np.random.default_rng(t), (b, s, kv_heads, d)
    q, k, v, g = (jnp.asarray(rng.standard_normal(shape), jnp.bfloat16) for shape in ((b, t, heads, d), keys, keys, (b, t, heads, d)))
    wide = [x.astype(jnp.float32) for x in (q, k, v)]

    def reference(q, k, v):
        k, v = (jnp.repeat(x, heads // kv_heads, 2) for x in (k, v))
        return weighted(scores(q, k, d**-0.5), v)

    def loss(q, k, v):
        out, lse = nn.dot_product_attention(q, k, v, return_residual=True)
        return (out * g).astype(jnp.float32).sum() + lse.astype(jnp.float32).sum()

    by_hand = fgrad.grad(lambda *a: (reference(*a) * g.astype(jnp.float32)).sum(), (0, 1, 2))(*wide)
    for got, want in zip(fgrad.jit(fgrad.grad(loss, (0, 1, 2)))(q, k, v), by_hand):
        assert got.dtype == jnp.bfloat16 and got.shape == want.shape
        np.testing.assert_allclose(got.astype(jnp.float32), want, rtol=5e-2, atol=2e-2 * float(jnp.abs(want).max()))
    out = nn.dot_product_attention(q, k, v)
    np.testing.assert_allclose(out.astype(jnp.float32), reference(*wide), rtol=4e-2, atol=2e-2)
    batched = fgrad.vmap(lambda q: nn.dot_product_attention(q, k, v))(jnp.stack([q, q]))
    np.testing.assert_allclose(batched[1].astype(jnp.float32), out.astype(jnp.float32), rtol=2e-2, atol=1e-2)


def test_heads_whose_scores_leave_the_caches():
    """Where all is seen it is all heads' scores that count, unless each head's are few."""

    def fun(q, k, v):
        return jnp.einsum("hts,hsd->htd", fgrad.nn.softmax(jnp.einsum("htd,hsd->hts", q, k)), v)

    for heads, t, kernel in ((4, 128, False), (128, 128, True), (160, 120, False)):
        args = [jnp.ones((heads, t, 4)) for _ in range(3)]
        assert ("attention_fwd" in str(fgrad.jit(fun).lower(*args).compile().profile(*args, repeat=1))) == kernel
