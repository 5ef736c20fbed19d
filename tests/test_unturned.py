"""What is turned, computed with and turned back is computed where it lies, with the same results."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp


def shuffled(np, x):
    return x.reshape(*x.shape[:-1], 4, -1).swapaxes(-1, -2).reshape(x.shape)


GRADS = {
    "rot90": lambda np, x: np.tanh(np.rot90(x, axes=(0, 1))),
    "transposed": lambda np, x: np.exp(x.transpose(2, 0, 1)) * 2,
    "mirrored": lambda np, x: np.sin(x[:, ::-1, ::-1]),
    "shuffled": lambda np, x: shuffled(np, x) ** 2,
    "shuffled twice": lambda np, x: np.tanh(shuffled(np, np.sin(shuffled(np, x)))),
    "joined axes": lambda np, x: x.transpose(1, 0, 2).reshape(-1, x.shape[2]) ** 3,
    "by a row": lambda np, x: x.transpose(1, 0, 2) * np.arange(x.shape[2], dtype="float32"),
    "a part": lambda np, x: np.tanh(x.transpose(1, 0, 2)[1:]),
    "with itself": lambda np, x: x.swapaxes(0, 1) * x[: x.shape[1], : x.shape[0]].reshape(x.shape[1], x.shape[0], -1),
}


@pytest.mark.parametrize("name", GRADS)
@pytest.mark.parametrize("shape", [(24, 24, 12), (30, 30, 8), (8, 8, 128)])
def test_gradients(name, shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    both = lambda x: (fgrad.grad(lambda x: jnp.sum(GRADS[name](jnp, x) ** 2))(x), jnp.sin(x.T).T)  # noqa: E731
    got = fgrad.jit(both)(x)
    with fgrad.config.override("pass_fuse", False):
        want = fgrad.jit(lambda x: both(x))(x)
    for a, b in zip(got, want):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("name", ["rot90", "transposed", "mirrored", "shuffled", "shuffled twice", "by a row"])
def test_nothing_is_copied(name):
    x = jnp.ones((32, 32, 16))
    run = fgrad.jit(fgrad.grad(lambda x: jnp.sum(GRADS[name](jnp, x) ** 2))).lower(x).compile()
    names = [label for _, label in run.profile(x, repeat=1)]
    assert not any([n.startswith("copy") for n in names]), names


def test_forward():
    x = np.random.default_rng(0).standard_normal((60, 80, 3)).astype(np.float32)
    run = lambda f: [np.asarray(a) for a in fgrad.jit(f)(x)]  # noqa: E731
    y, z = run(lambda x: (jnp.abs(x.T).T, jnp.abs(x[::-1].transpose(1, 0, 2)).swapaxes(0, 1)[::-1]))
    np.testing.assert_array_equal(y, np.abs(x))
    np.testing.assert_array_equal(z, np.abs(x))
    first, back = run(lambda x: (lambda t: (t, t.T))(jnp.abs(x.T)))
    np.testing.assert_array_equal(first, np.abs(x.T))
    np.testing.assert_array_equal(back, np.abs(x))
    mixed, wide = run(lambda x: ((x.T + jnp.flip(x).T).T, jnp.broadcast_to(jnp.abs(x.T)[:, None], (3, 5, 80, 60)).T))
    np.testing.assert_array_equal(mixed, x + np.flip(x))
    np.testing.assert_array_equal(wide, np.broadcast_to(np.abs(x.T)[:, None], (3, 5, 80, 60)).T)
