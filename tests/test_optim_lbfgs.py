"""L-BFGS and its line searches."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax, optim
from fgrad.optim.lbfgs import two_loop

SEARCHES = {
    "zoom": optim.scale_by_zoom_linesearch(20, initial_guess_strategy="one"),
    "zoom-keep": optim.scale_by_zoom_linesearch(20, curv_rtol=0.1),
    "backtracking": optim.scale_by_backtracking_linesearch(30, store_grad=True),
}


def rosenbrock(p):
    x = jnp.concatenate([p["a"], p["b"]])
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def minimise(opt, loss, params, steps):
    evaluate = optim.value_and_grad_from_state(loss)

    def body(carry, _):
        params, state = carry
        value, grad = evaluate(params, state=state)
        updates, state = opt.update(grad, state, params, value=value, grad=grad, value_fn=loss)
        return (optim.apply_updates(params, updates), state), value

    return fgrad.jit(lambda c: lax.scan(body, c, None, length=steps))((params, opt.init(params)))


@pytest.mark.parametrize("name", SEARCHES)
def test_rosenbrock(name):
    params = {"a": jnp.full(3, -1.2), "b": jnp.full(2, 0.5)}
    (params, _), values = minimise(optim.lbfgs(linesearch=SEARCHES[name]), rosenbrock, params, 100)
    assert (np.diff(np.asarray(values)) <= 1e-6).all()  # every step decreases
    np.testing.assert_allclose(np.concatenate([params["a"], params["b"]]), 1, atol=2e-3)


def test_gradient_descent_with_a_line_search():
    opt = optim.chain(optim.sgd(1.0), optim.scale_by_backtracking_linesearch(30, max_learning_rate=10.0, store_grad=True))
    (x, _), _ = minimise(opt, lambda x: jnp.sum(jnp.asarray([1.0, 5.0]) * (x - 2) ** 2), jnp.zeros(2), 60)
    np.testing.assert_allclose(x, [2, 2], atol=1e-3)


def test_two_loop_is_the_bfgs_matrix():
    """H <- (I - r s y^T) H (I - r y s^T) + r s s^T for the pairs from the oldest to the newest."""
    rng = np.random.default_rng(0)
    n, m = 6, 4
    a = rng.standard_normal((n, n))
    steps = rng.standard_normal((m, n))
    changes = steps @ (a @ a.T + np.eye(n))
    order, g = np.array([2, 3, 0, 1]), rng.standard_normal(n)
    h = 0.3 * np.eye(n)
    for i in order:
        s, y = steps[i], changes[i]
        r = 1 / (s @ y)
        left = np.eye(n) - r * np.outer(s, y)
        h = left @ h @ left.T + r * np.outer(s, s)
    weights = 1 / np.sum(steps * changes, 1)
    with fgrad.enable_x64():
        got = two_loop(*(jnp.asarray(x) for x in (g, steps, changes, weights, order)), jnp.asarray(0.3))
        np.testing.assert_allclose(got, h @ g, rtol=1e-9)


def test_pairs_of_negative_curvature_are_left_out():
    opt = optim.scale_by_lbfgs(3)
    x = jnp.asarray([1.0, 1.0])
    state = opt.init(x)
    _, state = opt.update(-x, state, x)  # the gradient of -|x|^2 / 2
    direction, state = opt.update(-2 * x, state, 2 * x)
    assert not np.any(np.asarray(state.weights_memory))
    np.testing.assert_allclose(direction, -2 * x)


def test_exact_in_as_many_steps_as_dimensions_with_memory():
    """On a parabola with nearly exact searches, L-BFGS is as good as conjugate gradients."""
    scales = jnp.asarray([1.0, 3.0, 10.0, 30.0])
    exact = optim.scale_by_zoom_linesearch(30, curv_rtol=1e-3, initial_guess_strategy="one")
    (x, _), _ = minimise(optim.lbfgs(linesearch=exact), lambda x: 0.5 * jnp.sum(scales * (x - 1) ** 2), jnp.zeros(4), 6)
    np.testing.assert_allclose(x, 1, atol=1e-3)


def test_wolfe_conditions_hold():
    loss = lambda x: jnp.sum(x**4 - 3 * x**2 + x)
    search = optim.scale_by_zoom_linesearch(30, slope_rtol=1e-3, curv_rtol=0.2, approx_dec_rtol=None)
    for start in (-2.0, 0.4, 3.0):
        x = jnp.asarray([start])
        value, grad = fgrad.value_and_grad(loss)(x)
        u = -0.01 * grad
        updates, state = search.update(u, search.init(x), x, value=value, grad=grad, value_fn=loss)
        after, slope = fgrad.value_and_grad(loss)(x + updates)
        t, slope0 = float(state.learning_rate), float(u @ grad)
        assert float(after) <= float(value) + 1e-3 * t * slope0 + 1e-6 and abs(float(u @ slope)) <= 0.2 * abs(slope0) + 1e-6
        assert float(state.info.decrease_error) == float(state.info.curvature_error) == 0
        np.testing.assert_allclose(updates, t * np.asarray(u), rtol=1e-6)


def test_a_search_survives_infinite_and_nan_losses():
    loss = lambda x: jnp.sum(x - jnp.log(x))  # NaN for x < 0
    for search in SEARCHES.values():
        x = jnp.asarray([0.5])
        value, grad = fgrad.value_and_grad(loss)(x)
        updates, _ = search.update(jnp.asarray([-8.0]), search.init(x), x, value=value, grad=grad, value_fn=loss)
        assert float(x[0] + updates[0]) > 0 and float(loss(x + updates)) <= float(value)
        ascent, state = search.update(grad, search.init(x), x, value=value, grad=grad, value_fn=loss)
        np.testing.assert_array_equal(ascent, 0)


def test_extra_arguments_reach_the_loss():
    loss = lambda x, target: jnp.sum((x - target) ** 2)
    opt, x = optim.lbfgs(), jnp.zeros(2)
    value, grad = fgrad.value_and_grad(loss)(x, 3.0)
    updates, _ = opt.update(grad, opt.init(x), x, value=value, grad=grad, value_fn=loss, target=3.0)
    assert float(loss(x + updates, 3.0)) < float(value)


def test_searches_under_vmap():
    loss, opt = lambda x: jnp.sum((x - 2.0) ** 4), optim.lbfgs()

    def solve(x):
        state = opt.init(x)
        for _ in range(3):
            value, grad = fgrad.value_and_grad(loss)(x)
            updates, state = opt.update(grad, state, x, value=value, grad=grad, value_fn=loss)
            x = x + updates
        return x

    starts = jnp.asarray([[0.0, 1.0], [3.0, 5.0]])
    np.testing.assert_allclose(fgrad.vmap(solve)(starts), [solve(x) for x in starts], rtol=1e-5)


def test_without_a_search():
    opt, x = optim.lbfgs(1.0, linesearch=None), jnp.asarray([5.0, -3.0])
    state, grad = opt.init(x), fgrad.grad(lambda x: jnp.sum(jnp.asarray([1.0, 2.0]) * (x - 1) ** 2))
    for _ in range(12):
        updates, state = opt.update(grad(x), state, x)
        x = optim.apply_updates(x, updates)
    np.testing.assert_allclose(x, [1, 1], atol=1e-3)


def test_errors():
    with pytest.raises(ValueError, match="memory_size"):
        optim.scale_by_lbfgs(0)
    with pytest.raises(ValueError, match="initial_guess_strategy"):
        optim.scale_by_zoom_linesearch(5, initial_guess_strategy="two")
    with pytest.raises(ValueError, match="must hold one line search"):
        optim.value_and_grad_from_state(jnp.sum)(jnp.ones(1), state=optim.adam(0.1).init(jnp.ones(1)))
    for tx in (optim.scale_by_lbfgs(),):
        with pytest.raises(ValueError, match="needs the parameters"):
            tx.update(jnp.ones(1), tx.init(jnp.ones(1)))
