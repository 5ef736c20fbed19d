"""Projections, losses of classes, overlap and alignment, monitors and second derivatives of fgrad.optim."""

import functools
import itertools

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import nn, optim
from fgrad.optim import losses, projections, second_order

RNG = np.random.default_rng(0)
X = {"a": RNG.standard_normal((3, 2)).astype(np.float32), "b": RNG.standard_normal(4).astype(np.float32)}


def vector(t):
    return np.concatenate([np.ravel(x) for x in fgrad.tree.leaves(t)])


@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("name", ["simplex", "l1_ball", "l1_sphere", "l2_ball", "l2_sphere", "linf_ball", "hypercube"])
def test_projections_reach_their_set_and_no_point_of_it_is_nearer(name, scale):
    x, y = vector(X), vector(getattr(projections, "projection_" + name)(X, scale))
    norm = {"simplex": y.sum(), "hypercube": max(y.max(), 0)}.get(name)
    order = {"l1": 1, "l2": 2, "li": np.inf}.get(name[:2])
    norm = np.linalg.norm(y, order) if norm is None else norm
    assert norm <= scale * (1 + 1e-5) and (norm >= scale * (1 - 1e-5) or "ball" in name or name == "hypercube")
    if name in ("simplex", "hypercube"):
        assert y.min() >= 0
    for _ in range(200):  # the angle at a projection onto a convex set is not acute; other points of a sphere are not nearer
        z = getattr(projections, "projection_" + name)(fgrad.tree.map(lambda t: t + RNG.normal(size=t.shape).astype(np.float32), X), scale)
        assert np.linalg.norm(x - vector(z)) >= np.linalg.norm(x - y) - 1e-5


def test_projections_onto_planes():
    a = fgrad.tree.map(lambda t: t[::-1] + 1, X)
    n, x = vector(a), vector(X)
    np.testing.assert_allclose(vector(projections.projection_hyperplane(X, a, 0.7)) @ n, 0.7, rtol=1e-4)
    np.testing.assert_allclose(vector(projections.projection_halfspace(X, a, x @ n - 2)) @ n, x @ n - 2, rtol=1e-4)
    np.testing.assert_array_equal(vector(projections.projection_halfspace(X, a, x @ n + 2)), x)
    np.testing.assert_allclose(vector(projections.projection_vector(X, a)), x @ n / (n @ n) * n, rtol=1e-4)
    np.testing.assert_array_equal(vector(projections.projection_non_negative(X)), np.maximum(x, 0))


def test_gradients_of_margins_and_sparsemax():
    scores, labels = jnp.asarray(RNG.standard_normal((5, 4)), jnp.float32), jnp.array([0, 1, 2, 3, 1])
    s = np.asarray(scores)
    own = s[np.arange(5), labels]
    np.testing.assert_allclose(losses.multiclass_perceptron_loss(scores, labels), s.max(1) - own, rtol=1e-5)
    raised = s + 1 - np.eye(4)[np.asarray(labels)]
    np.testing.assert_allclose(losses.multiclass_hinge_loss(scores, labels), raised.max(1) - own, rtol=1e-5)
    g = fgrad.grad(lambda x: jnp.sum(losses.multiclass_sparsemax_loss(x, labels)))(scores)
    p = np.stack([projections.projection_simplex(row) for row in scores])
    np.testing.assert_allclose(g, p - np.eye(4)[np.asarray(labels)], atol=1e-5)
    soft = nn.softmax(scores[::-1])
    cross = losses.make_fenchel_young_loss(nn.logsumexp)(scores, soft)
    np.testing.assert_allclose(cross, losses.softmax_cross_entropy(scores, soft), rtol=1e-5)
    np.testing.assert_allclose(
        losses.poly_loss_cross_entropy(scores, soft, epsilon=3.0) - cross, 3 * np.sum(soft * (1 - nn.softmax(scores)), 1), rtol=1e-4
    )
    swapped = losses.kl_divergence_with_log_targets(jnp.log(soft), jnp.log(soft[::-1]))
    np.testing.assert_allclose(swapped, losses.kl_divergence(jnp.log(soft), soft[::-1]), atol=1e-5)
    with pytest.raises(ValueError, match="differ"):
        losses.perceptron_loss(scores, labels)


def test_rankings_contrasts_and_triplets():
    s, y = RNG.standard_normal((3, 4)).astype(np.float32), np.abs(RNG.standard_normal((3, 4))).astype(np.float32)
    kept = np.array([[1, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 1]], bool)
    want = [-sum(y[i, j] * (s[i, j] - np.log(np.exp(s[i][kept[i]]).sum())) for j in range(4) if kept[i, j]) for i in (0, 2)]
    np.testing.assert_allclose(losses.ranking_softmax_loss(jnp.asarray(s), jnp.asarray(y), where=kept), np.mean(want), rtol=1e-5)
    e, labels = RNG.standard_normal((5, 3)).astype(np.float32), np.array([0, 0, 1, 1, 0])
    c = (e @ e.T) / np.linalg.norm(e, axis=1) / np.linalg.norm(e, axis=1)[:, None] / 0.5
    pairs = [(i, j) for i, j in itertools.permutations(range(5), 2) if labels[i] == labels[j]]
    logs = [c[i, j] - np.log(np.exp(c[i, j]) + np.exp(c[i][labels != labels[i]]).sum()) for i, j in pairs]
    np.testing.assert_allclose(losses.ntxent(jnp.asarray(e), jnp.asarray(labels), 0.5), -np.mean(logs), rtol=1e-5)
    a, p, n = RNG.standard_normal((3, 5, 2)).astype(np.float32)
    gap = np.linalg.norm(a - p, axis=1) - np.linalg.norm(a - n, axis=1)
    np.testing.assert_allclose(losses.triplet_margin_loss(*map(jnp.asarray, (a, p, n))), np.maximum(gap + 1, 0), atol=1e-5)


def test_dice():
    p, t = RNG.standard_normal((2, 6, 3)).astype(np.float32), np.eye(3, dtype=np.float32)[RNG.integers(0, 3, (2, 6))]
    q = np.exp(p) / np.exp(p).sum(-1, keepdims=True)
    both = (q * t).sum(1)
    want = 1 - (both + 1) / (0.5 * (q.sum(1) + t.sum(1)) + 1)
    dice = functools.partial(losses.dice_loss, jnp.asarray(p), jnp.asarray(t))
    np.testing.assert_allclose(dice(), want.mean(-1), rtol=1e-5)
    np.testing.assert_allclose(dice(reduction="none", ignore_background=True), want[:, 1:], rtol=1e-5)
    np.testing.assert_allclose(losses.dice_loss(jnp.asarray(q), jnp.asarray(t), apply_softmax=False), want.mean(-1), rtol=1e-5)
    w = 1 / t.sum((0, 1)) ** 2
    np.testing.assert_allclose(
        losses.multiclass_generalized_dice_loss(jnp.asarray(p), jnp.asarray(t)), (want * w / w.sum() * 3).mean(), rtol=1e-4
    )
    mask = (RNG.random((2, 4, 4)) < 0.5).astype(np.float32)
    x = jnp.asarray(RNG.standard_normal((2, 4, 4)), jnp.float32)
    b = np.asarray(nn.sigmoid(x))
    one = 1 - ((b * mask).sum((1, 2)) + 1) / (0.5 * (b.sum((1, 2)) + mask.sum((1, 2))) + 1)
    np.testing.assert_allclose(losses.binary_dice_loss(x, jnp.asarray(mask)), one, rtol=1e-5)
    with pytest.raises(ValueError, match="reduction"):
        dice(reduction="foo")
    with pytest.raises(ValueError, match="probabilities"):
        dice(apply_softmax=False)


def test_ctc_sums_all_alignments():
    times, classes, labels = 5, 3, np.array([[1, 1], [2, 0]])
    logits = jnp.asarray(RNG.standard_normal((2, times, classes)), jnp.float32)
    pad_t, pad_l = np.zeros((2, times), np.float32), np.array([[0, 0], [0, 1]], np.float32)
    pad_t[1, 4:] = 1
    probs, want = np.asarray(nn.softmax(logits), np.float64), []
    for b, (length, target) in enumerate([(5, [1, 1]), (4, [2])]):
        paths = itertools.product(range(classes), repeat=length)
        fits = [w for w in paths if [k for k, _ in itertools.groupby(w) if k] == target]
        want.append(-np.log(sum(np.prod([probs[b, i, c] for i, c in enumerate(w)]) for w in fits)))
    args = jnp.asarray(pad_t), jnp.asarray(labels), jnp.asarray(pad_l)
    np.testing.assert_allclose(optim.ctc_loss(logits, *args), want, rtol=1e-5)
    loss, blanks, emissions = optim.ctc_loss_with_forward_probs(logits, *args)
    assert blanks.shape == (times, 2, 3) and emissions.shape == (times, 2, 2)
    np.testing.assert_allclose(-blanks[-1, 0, 2], loss[0], rtol=1e-6)
    g = fgrad.grad(lambda x: jnp.sum(optim.ctc_loss(x, *args)))(logits)
    assert np.isfinite(g).all() and np.all(g[1, 4] == 0)
    with pytest.raises(ValueError, match="logits"):
        optim.ctc_loss(logits[0], *args)


def test_optimism_looks_a_step_ahead():
    grads = [jnp.array([1.0, 2.0]), jnp.array([3.0, 1.0])]
    opt = optim.optimistic_gradient_descent(0.1, alpha=2.0, beta=0.5)
    state = opt.init(grads[0])
    first, state = opt.update(grads[0], state)
    second, state = opt.update(grads[1], state)
    np.testing.assert_allclose(first, -0.2 * grads[0], rtol=1e-6)
    np.testing.assert_allclose(second, -0.1 * (2.5 * grads[1] - 0.5 * grads[0]), rtol=1e-6)
    with pytest.warns(DeprecationWarning), pytest.raises(ValueError, match="schedule"):
        optim.optimistic_adam(optim.constant_schedule(0.1))


def test_distance_over_gradients():
    params = jnp.array([3.0, 4.0])
    opt = optim.scale_by_distance_over_gradients(reps_rel=0.1)
    state = opt.init(params)
    g = jnp.array([1.0, 0.0])
    out, state = opt.update(g, state, params)
    np.testing.assert_allclose(out, 0.6 * g, rtol=1e-5)
    out, state = opt.update(g, state, params + 2.0)
    np.testing.assert_allclose(out, np.sqrt(8) / np.sqrt(2) * g, rtol=1e-5)


def test_measurements_stay_in_the_state():
    params = {"w": jnp.array([3.0, 4.0])}
    norm = optim.tree.norm
    opt = optim.chain(
        optim.monitor({"norm": norm, "mean": optim.measure_with_ema(norm, 0.5)}), optim.snapshot("last", norm), optim.sgd(1.0)
    )
    state = opt.init(params)
    assert float(state[1].measurement["last"]) == 5
    for scale in (1.0, 2.0):
        updates, state = fgrad.jit(opt.update)(fgrad.tree.map(lambda x, scale=scale: scale * x, params), state)
    assert float(state[1].measurement["last"]) == 10 == float(state[0].measurements["norm"])
    np.testing.assert_allclose(state[0].measurements["mean"], (0.25 * 5 + 0.5 * 10) / 0.75, rtol=1e-6)
    np.testing.assert_allclose(updates["w"], [-6, -8])


def test_maps_over_the_parts_of_a_state_that_are_like_parameters():
    opt = optim.chain(optim.adam(0.1), optim.trace(0.9))
    state = opt.init(X)
    moved = optim.tree_map_params(opt, lambda v, p: v + p, state, X, transform_non_params=lambda v: v + 5)
    np.testing.assert_array_equal(moved[0][0].mu["a"], X["a"])
    np.testing.assert_array_equal(moved[1].trace["b"], X["b"])
    assert int(moved[0][0].count) == 5
    key = fgrad.random.key(0)
    assert optim.tree.unwrap_random_key_data({"k": key, "n": 1})["k"].tolist() == fgrad.random.key_data(key).tolist()
    assert optim.tree.batch_shape(X, (2,))["b"].shape == (2, 4)


def test_second_order():
    params, x, t = {"w": jnp.array([[1.0, -2.0]]), "b": jnp.array([0.5])}, jnp.array([[2.0], [1.0]]), jnp.ones((2, 2))
    loss = lambda p, x, t: jnp.sum((x @ p["w"] - t) ** 2 * p["b"] ** 2)
    flat, unravel = fgrad.flatten_util.ravel_pytree(params)
    h = fgrad.hessian(lambda v: loss(unravel(v), x, t))(flat)
    v = jnp.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(vector(second_order.hvp(loss, v, params, x, t)), h @ v, rtol=1e-5)
    np.testing.assert_allclose(second_order.hessian_diag(loss, params, x, t), np.diag(h), rtol=1e-5)
    np.testing.assert_allclose(second_order.fisher_diag(loss, params, x, t), vector(fgrad.grad(loss)(params, x, t)) ** 2, rtol=1e-5)
