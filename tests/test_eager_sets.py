"""Set functions, choose, select and block on concrete arrays: one program each, with NumPy's results."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp

RNG = np.random.default_rng(0)
PAIRS = [
    (RNG.integers(0, 6, m).astype(a), RNG.integers(0, 6, n).astype(b))
    for m, n in ((0, 3), (1, 0), (5, 8), (9, 2))
    for a, b in (("i", "i"), ("f", "i"))
]


@pytest.mark.parametrize("name", ["intersect1d", "setxor1d", "setdiff1d", "union1d"])
def test_sets_are_numpys(name):
    for a, b in PAIRS:
        got, want = getattr(jnp, name)(jnp.asarray(a), jnp.asarray(b)), getattr(np, name)(a, b)
        np.testing.assert_array_equal(got, want)
        sized = getattr(jnp, name)(jnp.asarray(a), jnp.asarray(b), size=len(want) + 2, fill_value=9) if a.size and b.size else None
        assert sized is None or sized.tolist() == [*want.tolist(), 9, 9]


def test_positions_of_an_intersection():
    for a, b in PAIRS:
        for got, want in zip(jnp.intersect1d(a, b, return_indices=True), np.intersect1d(a, b, return_indices=True)):
            np.testing.assert_array_equal(got, want)


def test_choose():
    cases = [np.arange(4.0, dtype="f"), 5.0, np.full((3, 1), 2.0, "f")]
    for mode, at in (("raise", [0, 2, 1, 1]), ("wrap", [0, 4, -1, 1]), ("clip", [0, 7, -1, 1])):
        np.testing.assert_array_equal(jnp.choose(jnp.asarray(at), cases, mode=mode), np.choose(at, cases, mode=mode))
    at = [0, 4, -1, 1]
    np.testing.assert_array_equal(
        fgrad.jit(lambda i: jnp.choose(i, cases, mode="wrap"))(jnp.asarray(at)), np.choose(at, cases, mode="wrap")
    )
    with pytest.raises(ValueError, match="invalid entry"):
        jnp.choose(jnp.array([0, 3]), cases)
    assert fgrad.jit(lambda x: jnp.choose(jnp.array([0, 1]), [x, x + 1]))(jnp.ones(2)).tolist() == [1, 2]  # known while tracing


def test_select_and_block_keep_their_derivatives():
    x = jnp.array([0.0, 1.0, -2.0])
    f = lambda x: jnp.select([x > 0, x < 0], [x * 3, -x], 5)
    assert f(x).tolist() == fgrad.jit(f)(x).tolist() == [5, 3, 2]
    assert fgrad.grad(lambda x: f(x).sum())(x).tolist() == [0, 3, -1]
    h = lambda x: jnp.block([[x[None], x[None] * 2], [np.zeros((1, 6), "f")]])
    np.testing.assert_array_equal(h(x), np.block([[x[None], x[None] * 2], [np.zeros((1, 6), "f")]]))
    assert fgrad.grad(lambda x: h(x).sum())(x).tolist() == [3, 3, 3]


def test_softmax_outside_of_jit_takes_its_axis_as_it_comes():
    x = jnp.asarray(RNG.normal(size=(2, 3)).astype("f"))
    for axis in (-1, 0, (0, 1), None):
        for f in (fgrad.nn.softmax, fgrad.nn.log_softmax, fgrad.nn.logsumexp):
            np.testing.assert_array_equal(f(x, axis), fgrad.jit(f, static_argnums=1)(x, axis))
    np.testing.assert_array_equal(fgrad.nn.softmax(x, where=x > 0), fgrad.jit(lambda x: fgrad.nn.softmax(x, where=x > 0))(x))
