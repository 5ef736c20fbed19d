"""Optimizers of fgrad.optim.contrib: first steps by hand, and minima reached."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import optim
from fgrad.optim import contrib

FIRST = {"w": np.array([[1.0, -2.0], [0.5, 3.0]], np.float32), "b": np.array([0.3, -0.1], np.float32)}
OPTIMIZERS = {
    "schedule_free_sgd": lambda: contrib.schedule_free_sgd(0.2, warmup_steps=5),
    "schedule_free_adamw": lambda: contrib.schedule_free_adamw(0.1),
    "dog": lambda: contrib.dog(init_step=("distance", 0.1)),
    "dowg": lambda: contrib.dowg(),
    "dadapt_adamw": lambda: contrib.dadapt_adamw(estim_lr0=1e-2),
    "prodigy": lambda: contrib.prodigy(estim_lr0=1e-2),
    "sam": lambda: contrib.sam(optim.sgd(0.2), optim.chain(contrib.normalize(), optim.sgd(0.05))),
}


def loss(params):
    return jnp.sum(jnp.square(params["w"] - 1)) + jnp.sum(jnp.square(params["b"] + 2))


def steps(tx, params, n):
    @fgrad.jit
    def step(params, state):
        updates, state = tx.update(fgrad.grad(loss)(params), state, params)
        return optim.apply_updates(params, updates), state

    state = tx.init(params)
    for _ in range(n):
        params, state = step(params, state)
    return params, state


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_reduces_a_quadratic_and_keeps_its_state_alike(name):
    tx = OPTIMIZERS[name]()
    params = fgrad.tree.map(jnp.asarray, FIRST)
    kinds = lambda t: [(x.shape, x.dtype) for x in fgrad.tree.leaves(t)]
    end, state = steps(tx, params, 200)
    assert kinds(state) == kinds(tx.init(params))
    if name.startswith("schedule_free"):
        end = contrib.schedule_free_eval_params(state, end)
    assert loss(end) < 0.05 * loss(params)


def test_schedule_free_averages_the_iterates_of_gradient_descent():
    tx = contrib.schedule_free_sgd(0.1, b1=0.5)
    y, z, x = np.float32(1), 1.0, 1.0
    state = tx.init(y)
    for t in range(1, 6):
        updates, state = tx.update(2 * y, state, y)
        z -= 0.1 * 2 * float(y)
        x += (z - x) / t
        y = y + updates
        np.testing.assert_allclose(y, 0.5 * x + 0.5 * z, rtol=1e-5)
    np.testing.assert_allclose(contrib.schedule_free_eval_params(state, y), x, rtol=1e-5)
    with pytest.raises(ValueError, match="ScheduleFreeState"):
        contrib.schedule_free_eval_params(optim.sgd(1.0).init(y), y)


def test_distance_over_gradients_by_hand():
    x0 = np.array([1.0, 2.0])
    tx, x, far, squares = contrib.dog(init_step=("distance", 0.1), eps=0.0), x0, 0.1, 0.0
    state = tx.init(jnp.asarray(x0, np.float32))
    for _ in range(4):
        g = 2 * x
        updates, state = tx.update(jnp.asarray(g, np.float32), state, jnp.asarray(x, np.float32))
        far, squares = max(far, np.linalg.norm(x - x0)), squares + g @ g
        np.testing.assert_allclose(updates, -far / np.sqrt(squares) * g, rtol=1e-4)
        x = x - far / np.sqrt(squares) * g
    with pytest.raises(ValueError, match="init_step"):
        contrib.dog(init_step=("size", 1.0))


def test_opaque_sam_takes_the_gradient_uphill():
    tx = contrib.sam(optim.sgd(0.1), optim.chain(contrib.normalize(), optim.sgd(0.5)), opaque_mode=True)
    x, gradient = jnp.array([3.0, 4.0]), lambda p, i: p**3
    updates, _ = tx.update(gradient(x, 0), tx.init(x), x, grad_fn=gradient)
    g = np.array([27.0, 64.0])
    np.testing.assert_allclose(updates, -0.1 * (np.array([3.0, 4.0]) + 0.5 * g / np.linalg.norm(g)) ** 3, rtol=1e-5)
    with pytest.raises(ValueError, match="grad_fn"):
        tx.update(g, tx.init(x), x)
    with pytest.raises(ValueError, match="sync_period"):
        contrib.sam(optim.sgd(0.1), optim.sgd(0.1), sync_period=0)
