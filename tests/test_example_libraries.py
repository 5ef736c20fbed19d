"""stax: shapes that init tells are those that apply makes. optimizers: each goes down a quadratic, by the rule of its first step."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import random
from fgrad.example_libraries import optimizers, stax


def network():
    s = stax
    return s.serial(
        *(s.Conv(4, (3, 3), padding="SAME"), s.BatchNorm(), s.Relu, s.MaxPool((2, 2), strides=(2, 2)), s.FanOut(2)),
        *(s.parallel(s.Conv(4, (3, 3), (1, 1), "SAME"), s.Identity), s.FanInSum, s.AvgPool((2, 2), padding="SAME")),
        *(s.ConvTranspose(3, (2, 2), (2, 2)), s.FanOut(2), s.FanInConcat(), s.Flatten, s.Dense(10), s.Dropout(0.9), s.LogSoftmax),
    )


def test_stax():
    init, apply = network()
    shape, params = init(random.key(0), (-1, 8, 8, 2))
    x = random.normal(random.key(1), (5, 8, 8, 2))
    out = fgrad.jit(lambda p: apply(p, x, rng=random.key(2)))(params)
    assert shape[1:] == (10,) and out.shape == (5, 10)
    np.testing.assert_allclose(jnp.exp(out).sum(1), np.ones(5), rtol=1e-5)
    with pytest.raises(ValueError, match="PRNG key"):
        apply(params, x)
    evaluating = stax.Dropout(0.5, mode="test")[1]
    assert np.array_equal(evaluating((), x, rng=random.key(0)), x)
    init, apply = stax.shape_dependent(lambda shape: stax.Dense(shape[-1]))
    assert init(random.key(0), (3, 7))[0] == (3, 7)
    ones = np.ones((1, 3, 3, 1), "f")
    assert np.array_equal(stax.AvgPool((2, 2), padding="SAME")[1]((), ones), ones)
    assert np.array_equal(stax.SumPool((2, 2))[1]((), ones), 4 * np.ones((1, 2, 2, 1)))
    z = stax.BatchNorm(axis=0)[1](stax.BatchNorm(axis=0)[0](random.key(0), (5, 2))[1], x[:, 0, 0, :])
    np.testing.assert_allclose(z.mean(0), np.zeros(2), atol=1e-6)


G = np.float32([2.0, -4.0])
RULES = {  # optimizer: its first step from gradient G
    "sgd": (optimizers.sgd(0.1), 0.1 * G),
    "momentum": (optimizers.momentum(0.1, 0.9), 0.1 * G),
    "nesterov": (optimizers.nesterov(0.1, 0.9), 0.19 * G),
    "adagrad": (optimizers.adagrad(0.1), 0.01 * np.sign(G)),
    "rmsprop": (optimizers.rmsprop(0.1), 0.1 / 0.1**0.5 * np.sign(G)),
    "rmsprop_momentum": (optimizers.rmsprop_momentum(0.1), 0.1 / 0.1**0.5 * np.sign(G)),
    "adam": (optimizers.adam(0.1), 0.1 * np.sign(G)),
    "adamax": (optimizers.adamax(0.1), 0.1 * np.sign(G)),
    "sm3": (optimizers.sm3(0.1), 0.01 * np.sign(G)),
}


@pytest.mark.parametrize("name", RULES)
def test_optimizers(name):
    (init, update, get_params), step = RULES[name]
    params = {"w": jnp.ones((2, 2)), "b": (jnp.array(3.0), jnp.zeros(2))}
    first = get_params(update(0, {"w": jnp.stack([G, G]), "b": (G[0], jnp.array(G))}, init(params)))
    np.testing.assert_allclose(first["b"][1], -step, rtol=1e-5)
    np.testing.assert_allclose(first["b"][0], 3 - step[0], rtol=1e-5)
    if name != "sm3":  # whose accumulators are shared by rows
        np.testing.assert_allclose(first["w"], 1 - np.stack([step, step]), rtol=1e-5)
    loss = lambda p: jnp.sum((p["w"] - 2) ** 2) + (p["b"][0] + 1) ** 2 + jnp.sum(p["b"][1] ** 2)

    @fgrad.jit
    def train(i, state):
        return update(i, fgrad.grad(loss)(get_params(state)), state)

    state = init(params)
    for i in range(100):
        state = train(i, state)
    again = optimizers.pack_optimizer_state(optimizers.unpack_optimizer_state(state))
    assert loss(get_params(again)) < 0.5 * loss(params)
    with pytest.raises(TypeError, match="did not match the parameter tree"):
        update(0, {"w": G}, state)


def test_schedules():
    np.testing.assert_allclose(optimizers.exponential_decay(2.0, 10, 0.5)(20), 0.5)
    np.testing.assert_allclose(optimizers.inverse_time_decay(2.0, 10, 1.0)(15), 0.8)
    np.testing.assert_allclose(optimizers.inverse_time_decay(2.0, 10, 1.0, staircase=True)(15), 1.0)
    np.testing.assert_allclose(optimizers.polynomial_decay(2.0, 10, 1.0, power=2)(5), 1.25)
    assert [float(optimizers.piecewise_constant([2, 4], [1.0, 2.0, 3.0])(i)) for i in (2, 3, 5)] == [1, 2, 3]
    with pytest.raises(TypeError):
        optimizers.make_schedule(np.ones(2))
    with pytest.raises(ValueError, match="one shorter"):
        optimizers.piecewise_constant([1], [1.0])
    clipped = optimizers.clip_grads({"a": jnp.full(4, 3.0)}, 1.0)
    np.testing.assert_allclose(optimizers.l2_norm(clipped), 1, rtol=1e-6)
