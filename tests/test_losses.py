"""Losses of softmaxes written out become kernels (pass_simplify), and give what they give without them."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax, nn
from fgrad.compile import losses

ROWS, CLASSES = 40, 300
X = np.random.default_rng(0).standard_normal((ROWS, CLASSES)).astype(np.float32) * 3
LABELS = np.random.default_rng(1).integers(0, CLASSES, ROWS).astype(np.int32)
AT = np.arange(ROWS)


def pick(x, y):
    return jnp.take_along_axis(x, y[:, None], -1)[:, 0]


def difference(x, y):
    return nn.logsumexp(x, -1) - x[jnp.arange(len(x)), y]


def along(x, y):
    return -pick(nn.log_softmax(x), y)


def indexed(x, y):
    return -nn.log_softmax(x)[jnp.arange(len(x)), y]


def mapped(x, y):
    return fgrad.vmap(lambda x, y: -nn.log_softmax(x)[y])(x, y)


def mapped_difference(x, y):
    return fgrad.vmap(lambda x, y: nn.logsumexp(x) - x[y])(x, y)


def held(x, y):
    m = lax.stop_gradient(x.max(-1, keepdims=True))
    return jnp.log(jnp.sum(jnp.exp(x - m), -1)) + m[:, 0] - x[jnp.arange(len(x)), y]


def by_hand(x, y):
    m = x.max(-1, keepdims=True)
    return (jnp.log(jnp.sum(jnp.exp(x - m), -1, keepdims=True)) + m)[:, 0] - pick(x, y)


def shifted(x, y):
    z = x - lax.stop_gradient(x.max(-1, keepdims=True))
    return jnp.log(jnp.sum(jnp.exp(z), -1)) - pick(z, y)


def logarithm(x, y):
    z = x - x.max(-1, keepdims=True)
    return -pick(z - jnp.log(jnp.exp(z).sum(-1, keepdims=True)), y)


def twice(x, y):
    at = pick(nn.log_softmax(x), y)
    return -at + jnp.exp(at) ** 2


def squared(x, y):
    lse = nn.logsumexp(x, -1)
    return lse - pick(x, y) + 0.1 * lse**2


def weighted(x, y):
    return difference(x, y) * jnp.linspace(0, 1, len(x))


FOUND = [difference, along, indexed, mapped, mapped_difference, held, by_hand, shifted, logarithm, twice, squared, weighted]


def other_reader(x, y):
    logs = nn.log_softmax(x)
    return -pick(logs, y) + jnp.sin(logs).sum(-1)


def two_picks(x, y):
    logs = nn.log_softmax(x)
    return -pick(logs, y) + jnp.exp(pick(logs, y)) ** 2


def two_labels(x, y):
    logs = nn.log_softmax(x)
    return pick(logs, y) + pick(logs, (y + 1) % CLASSES)


def smoothed(x, y):
    return -((nn.one_hot(y, x.shape[-1]) * 0.9 + 0.1 / x.shape[-1]) * nn.log_softmax(x)).sum(-1)


def other_maximum(x, y):
    z = x - lax.stop_gradient((2 * x).max(-1, keepdims=True))
    return jnp.log(jnp.sum(jnp.exp(z), -1)) - pick(z, y)


def maximum_too(x, y):
    m = x.max(-1, keepdims=True)
    return jnp.log(jnp.sum(jnp.exp(x - m), -1)) + 3 * m[:, 0] - pick(x, y)


def exponentials_too(x, y):
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return jnp.log(e.sum(-1)) + jnp.sqrt(e).sum(-1)


def other_rows(x, y):
    return nn.logsumexp(x, -1) - x[jnp.arange(len(x))[::-1], y]


def over_columns(x, y):
    return nn.logsumexp(x.T, 0) - x.T[y, jnp.arange(len(x))]


def probabilities_too(x, y):
    p = nn.softmax(x)
    return -jnp.log(pick(p, y)) + (p * p).sum(-1)


OTHERS = [
    other_reader,
    two_picks,
    two_labels,
    smoothed,
    other_maximum,
    maximum_too,
    exponentials_too,
    other_rows,
    over_columns,
    probabilities_too,
]


def agree(fun, *args, tol=3e-6):
    """The names of the instructions of what gives the same as without the pass."""
    program = fgrad.jit(fun).lower(*args).compile()
    got = fgrad.tree.leaves(program(*args))
    with fgrad.config.override("pass_simplify", False):
        want = fgrad.tree.leaves(fgrad.jit(lambda *a: fun(*a))(*args))
    for a, b in zip(got, want, strict=True):
        finite = np.abs(np.asarray(b)[np.isfinite(b)])
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol * (finite.max() if finite.size else 1))
    return " ".join(label for _, label in program.profile(*args, repeat=1))


def mean(loss):
    return lambda x, y: loss(x, y).mean()


@pytest.mark.parametrize("loss", FOUND)
def test_value_and_gradient(loss):
    x, y = jnp.asarray(X), jnp.asarray(LABELS)
    agree(loss, x, y)
    for fun in (fgrad.value_and_grad(mean(loss)), fgrad.grad(lambda x, y: jnp.sin(loss(x, y)).sum())):
        labels = agree(fun, x, y)
        assert "cotangent" in labels and "scatter" not in labels
        assert "log_softmax" not in labels and "softmax_logsumexp" not in labels and "sub+exp" not in labels


@pytest.mark.parametrize("loss", OTHERS)
def test_what_else_is_read_stays(loss):
    x, y = jnp.asarray(X), jnp.asarray(LABELS)
    agree(loss, x, y)
    agree(fgrad.value_and_grad(mean(loss)), x, y, tol=1e-5)


@pytest.mark.parametrize("loss", FOUND + OTHERS)
def test_special_rows_and_labels(loss):
    x = X.copy()
    x[1, 5], x[2], x[3, 7], x[4, 9], x[5, LABELS[5]], x[6, LABELS[6]] = np.nan, -np.inf, np.inf, -np.inf, np.inf, -np.inf
    x[7] *= 1e4
    y = LABELS.copy()
    y[8:12] = -1, -CLASSES - 5, CLASSES, 2**31 - 1
    agree(loss, jnp.asarray(x), jnp.asarray(y))
    rows = fgrad.vmap(fgrad.grad(lambda x, y: loss(x[None], y[None])[0]))
    if loss not in (twice, other_rows, maximum_too, exponentials_too, weighted):  # their own NaN differ by rows
        agree(rows, jnp.asarray(x), jnp.asarray(y), tol=1e-5)


@pytest.mark.parametrize("loss", FOUND)
@pytest.mark.parametrize("shape", [(1, 300), (5, 63), (5, 64), (5, 65), (33, 1000), (2, 1)])
def test_sizes(loss, shape):
    rng = np.random.default_rng(2)
    x, y = jnp.asarray(rng.standard_normal(shape).astype(np.float32)), jnp.asarray(rng.integers(0, shape[1], shape[0]))
    agree(fgrad.value_and_grad(mean(loss)), x, y)


@pytest.mark.parametrize("loss", FOUND)
def test_float64_and_second_order(loss):
    with fgrad.enable_x64():
        x, y = jnp.asarray(X[:7, :70].astype(np.float64)), jnp.asarray(LABELS[:7].astype(np.int64) % 70)
        agree(fgrad.value_and_grad(mean(loss)), x, y, tol=1e-13)
        agree(lambda x, y: fgrad.jvp(fgrad.grad(lambda x: mean(loss)(x, y)), (x,), (jnp.cos(x),)), x, y, tol=1e-12)


def test_three_axes_and_half():
    x, y = jnp.asarray(X.reshape(4, 10, CLASSES)), jnp.asarray(LABELS.reshape(4, 10))
    for loss in (
        lambda x, y: -jnp.take_along_axis(nn.log_softmax(x), y[..., None], -1).mean(),
        lambda x, y: (nn.logsumexp(x, -1) - jnp.take_along_axis(x, y[..., None], -1)[..., 0]).mean(),
        lambda x, y: fgrad.vmap(fgrad.vmap(lambda x, y: -nn.log_softmax(x)[y]))(x, y).mean(),
    ):
        labels = agree(fgrad.value_and_grad(loss), x, y)
        assert "cotangent" in labels and "log_softmax" not in labels and "softmax_logsumexp" not in labels
        half = lambda x, y, loss=loss: loss(x.astype(jnp.float32), y)
        assert "cotangent" in agree(fgrad.value_and_grad(half), x.astype(jnp.bfloat16), y, tol=1e-2)


def test_no_rows():
    x, y = jnp.zeros((0, 300)), jnp.zeros((0,), jnp.int32)
    for loss in FOUND:
        agree(fgrad.grad(lambda x, y, loss=loss: loss(x, y).sum()), x, y)


def test_classes_across_rows_are_not_those_of_rows():
    """A square matrix has as many columns as rows: what is taken of its transpose is no element of a row."""
    x, y = jnp.asarray(X.reshape(-1)[: 64 * 64].reshape(64, 64)), jnp.arange(64) * 7 % 64
    for loss in (
        lambda x, y: -pick(nn.log_softmax(x).T, y).mean(),
        lambda x, y: -nn.log_softmax(x).reshape(8, 8, 64).transpose(1, 0, 2).reshape(64, 64)[jnp.arange(64), y].mean(),
        lambda x, y: -jnp.take_along_axis(nn.log_softmax(x.reshape(8, 8, 64)).transpose(1, 0, 2), y.reshape(8, 8, 1), -1).mean(),
        lambda x, y: -jnp.take_along_axis(nn.log_softmax(x.reshape(8, 8, 64)), y.reshape(8, 8, 1) * 0, 1).mean(),
    ):
        agree(fgrad.value_and_grad(loss), x, y)


@pytest.mark.parametrize("loss", FOUND)
def test_inside_loops(loss):
    x, y = jnp.asarray(X), jnp.asarray(LABELS)

    def steps(x, y):
        step = lambda x, _: (x - fgrad.grad(mean(loss))(x, y), loss(x, y))
        return lax.scan(step, x, None, length=3)

    def labels_of_steps(x, ys):
        return lax.fori_loop(0, 3, lambda i, x: x - fgrad.grad(mean(loss))(x, ys[i]), x)

    def remat(x, ys):
        body = fgrad.checkpoint(lambda s, y: (s + mean(loss)(jnp.sin(x), y), None))
        return lax.scan(body, 0.0, ys)[0]

    agree(steps, x, y, tol=1e-5)
    ys = jnp.stack([y, (y + 1) % CLASSES, y[::-1]])
    agree(labels_of_steps, x, ys, tol=1e-5)
    agree(fgrad.value_and_grad(remat), x, ys, tol=1e-5)
    agree(lambda x, y: lax.cond(y[0] > 3, lambda x: fgrad.grad(mean(loss))(x, y), jnp.cos, x), x, y)


def test_losses_of_loops_are_kernels(monkeypatch):
    seen, joined = [], losses.join_losses

    def watch(nodes, outs, ctx, known, sub):
        new = joined(nodes, outs, ctx, known, sub)
        seen.append((sub, {n.op for n in new}))
        return new

    monkeypatch.setattr("fgrad.compile.program.join_losses", watch)
    x, y = jnp.asarray(X), jnp.asarray(LABELS)
    step = lambda x, y: (x - fgrad.grad(mean(along))(x, y), None)
    fgrad.jit(lambda x, ys: lax.scan(step, x, ys)[0]).lower(x, jnp.stack([y, y])).compile()
    assert any(sub and "cross_entropy_cotangent" in ops for sub, ops in seen)


@pytest.mark.parametrize("shape", [(40, 300), (300, 300), (1, 64), (70, 65)])
def test_labels_known_by_now(shape):
    """Contrastive losses take the diagonal; labels outside of a row are no labels of it."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for labels in (np.arange(shape[0]), np.arange(shape[0])[::-1] % shape[1], np.full(shape[0], shape[1] - 1), np.arange(shape[0]) - 3):
        f = lambda x, y=labels: -jnp.mean(nn.log_softmax(x)[jnp.arange(len(x)), y])  # noqa: E731
        got = fgrad.jit(fgrad.value_and_grad(f))(x)
        with fgrad.config.override("pass_simplify", False):
            want = fgrad.jit(fgrad.value_and_grad(f))(x)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-7)


def test_known_labels_are_found():
    f = lambda x: -jnp.mean(nn.log_softmax(x)[jnp.arange(300), jnp.arange(300)])  # noqa: E731
    x = np.ones((300, 300), np.float32)
    did = [unit for _, unit in fgrad.jit(fgrad.grad(f)).lower(x).compile().profile(x, repeat=1)]
    assert any(["cross_entropy" in unit for unit in did]) and not any(["scatter" in unit for unit in did])
