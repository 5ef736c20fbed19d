"""Clipping, masks, wrappers, schedules and tree arithmetic of fgrad.optim."""

import functools

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import optim, tree
from fgrad.optim import tree_utils as tu

G = {"w": np.array([[3.0, -4.0], [0.0, 12.0]], np.float32), "b": np.array([0.5], np.float32)}
P = {"w": np.array([[1.0, 2.0], [2.0, 1.0]], np.float32), "b": np.array([2.0], np.float32)}


def apply(opt, grads=G, params=P):
    put = lambda t: tree.map(jnp.asarray, t)
    return tree.map(np.asarray, opt.update(put(grads), opt.init(put(params)), put(params))[0])


def test_clipping():
    norm = np.sqrt(9 + 16 + 144 + 0.25)
    np.testing.assert_allclose(optim.global_norm(G), norm, rtol=1e-6)
    np.testing.assert_allclose(apply(optim.clip_by_global_norm(1.0))["w"], G["w"] / norm, rtol=1e-6)
    np.testing.assert_array_equal(apply(optim.clip_by_global_norm(20.0))["w"], G["w"])
    np.testing.assert_array_equal(apply(optim.clip(2.0))["w"], [[2, -2], [0, 2]])
    np.testing.assert_allclose(apply(optim.clip_by_block_rms(1.0))["w"], G["w"] / 6.5, rtol=1e-6)
    np.testing.assert_allclose(apply(optim.normalize_by_update_norm())["w"], G["w"] / norm, rtol=1e-5)
    # Columns are units: their norms are 3 and sqrt(160), the weights' sqrt(5).
    want = G["w"] * np.minimum(1, 2 * np.sqrt(5) / np.array([3, np.sqrt(160)]))
    np.testing.assert_allclose(apply(optim.adaptive_grad_clip(2.0))["w"], want, rtol=1e-6)


def test_zero_nans_and_nonnegative():
    opt = optim.zero_nans()
    updates, state = opt.update({"w": jnp.asarray([1.0, np.nan]), "b": jnp.ones(1)}, opt.init(P))
    np.testing.assert_array_equal(updates["w"], [1, 0])
    assert bool(state.found_nan["w"]) and not bool(state.found_nan["b"])
    np.testing.assert_array_equal(apply(optim.keep_params_nonnegative())["w"], [[3, -2], [0, 12]])


def test_masks():
    mask = {"w": True, "b": False}
    for m in (mask, lambda params: mask):
        got = apply(optim.masked(optim.scale(2.0), m))
        np.testing.assert_array_equal(got["w"], 2 * G["w"])
        np.testing.assert_array_equal(got["b"], G["b"])
    assert len(tree.leaves(optim.masked(optim.trace(0.9), mask).init(P))) == 1  # no memory for what is masked
    np.testing.assert_array_equal(apply(optim.freeze(mask))["w"], 0)
    np.testing.assert_array_equal(apply(optim.selective_transform(optim.scale(3.0), freeze_mask=mask))["b"], 3 * G["b"])
    np.testing.assert_array_equal(apply(optim.masked(optim.scale(2.0), True))["b"], 2 * G["b"])


def test_partition_of_prefixes():
    params = {"net": {"w": jnp.ones(2), "b": jnp.ones(2)}, "head": jnp.ones(1)}
    opt = optim.multi_transform({"go": optim.sgd(1.0), "stay": optim.set_to_zero()}, {"net": "go", "head": "stay"})
    updates, _ = opt.update(params, opt.init(params), params)
    assert float(updates["net"]["b"][0]) == -1 and float(updates["head"][0]) == 0


def test_multi_steps_equals_the_mean_of_the_gradients():
    opt = optim.MultiSteps(optim.adam(0.1), 4)
    grads = [np.random.default_rng(i).standard_normal(3).astype(np.float32) for i in range(8)]
    x = y = jnp.zeros(3)
    state, plain = opt.init(x), optim.adam(0.1).init(y)
    step = fgrad.jit(opt.update)
    for i, g in enumerate(grads):
        updates, state = step(jnp.asarray(g), state, x)
        assert bool(opt.has_updated(state)) == (i % 4 == 3) == bool(np.any(np.asarray(updates)))
        x = optim.apply_updates(x, updates)
    for half in (grads[:4], grads[4:]):
        updates, plain = optim.adam(0.1).update(jnp.asarray(np.mean(half, 0)), plain, y)
        y = optim.apply_updates(y, updates)
    np.testing.assert_allclose(x, y, rtol=1e-4)


def test_multi_steps_skips():
    for skip, bad in ((optim.skip_not_finite, np.nan), (functools.partial(optim.skip_large_updates, max_squared_norm=100.0), 50.0)):
        opt = optim.MultiSteps(optim.sgd(1.0), 2, should_skip_update_fn=skip)
        state, seen = opt.init(jnp.zeros(1)), []
        for g in (1.0, bad, 3.0):
            updates, state = opt.update(jnp.asarray([g]), state)
            seen.append(float(updates[0]))
        assert seen == [0, 0, -2] and int(state.gradient_step) == 1 and not bool(state.skip_state["should_skip"])


def test_apply_if_finite():
    opt, x = optim.apply_if_finite(optim.sgd(1.0, 0.5), 2), jnp.zeros(2)
    state, seen = opt.init(x), []
    for g in (1.0, np.inf, np.nan, 1.0, np.nan, np.nan, np.nan):
        updates, state = fgrad.jit(opt.update)(jnp.full(2, g), state)
        seen.append(float(updates[0]))
    assert seen[:6] == [-1, 0, 0, -1.5, 0, 0] and np.isnan(seen[6])
    assert int(state.notfinite_count) == 3 and int(state.total_notfinite) == 5 and not bool(state.last_finite)


def test_conditional():
    for wrap, between in ((optim.conditionally_transform, 1.0), (optim.conditionally_mask, 0.0)):
        opt = wrap(optim.scale(-2.0), lambda step: step % 2 == 0)
        state, seen = opt.init(jnp.zeros(1)), []
        for _ in range(3):
            updates, state = opt.update(jnp.ones(1), state)
            seen.append(float(updates[0]))
        assert seen == [-2, between, -2]


def test_inject_hyperparams():
    make = optim.inject_hyperparams(optim.adamw, static_args="eps")
    opt = make(learning_rate=optim.linear_schedule(1.0, 0.0, 10), b1=0.5)
    state = opt.init(jnp.ones(2, jnp.bfloat16))
    assert set(state.hyperparams) == {"learning_rate", "b1", "b2", "eps_root", "weight_decay"}
    assert state.hyperparams["b1"].dtype == jnp.bfloat16
    state = tu.tree_set(state, b1=jnp.asarray(0.75))
    _, state = opt.update(jnp.ones(2, jnp.bfloat16), state, jnp.ones(2, jnp.bfloat16))
    assert float(state.hyperparams["b1"]) == 0.75 and int(state.count) == 1


def test_lookahead():
    opt = optim.lookahead(optim.sgd(1.0), 2, 0.5)
    params = optim.LookaheadParams.init_synced(jnp.asarray(0.0))
    state, seen = opt.init(params), []
    for _ in range(4):
        updates, state = opt.update(jnp.asarray(-1.0), state, params)
        params = optim.apply_updates(params, updates)
        seen.append((float(params.fast), float(params.slow)))
    assert seen == [(1, 0), (1, 1), (2, 1), (2, 2)]


def test_chains_pass_extra_arguments():
    opt = optim.chain(optim.identity(), optim.scale_by_polyak())
    assert isinstance(opt, optim.GradientTransformationExtraArgs)
    assert not isinstance(optim.chain(optim.identity()), optim.GradientTransformationExtraArgs)
    updates, _ = optim.named_chain(("a", opt), ("b", optim.scale(-1.0))).update(
        jnp.asarray([2.0]), {"a": opt.init(None), "b": ()}, value=jnp.asarray(1.0)
    )
    np.testing.assert_allclose(updates, [-0.5])


def test_updates_of_parameters():
    np.testing.assert_allclose(optim.incremental_update(jnp.ones(1), jnp.zeros(1), 0.25), [0.25])
    assert [float(optim.periodic_update(jnp.ones(()), jnp.zeros(()), s, 3)) for s in range(4)] == [1, 0, 0, 1]
    top = np.iinfo(np.int32).max
    assert int(optim.safe_increment(jnp.asarray(top))) == top and int(optim.safe_increment(jnp.asarray(1))) == 2


def test_safe_norms_have_derivatives_at_zero():
    for f in (lambda x: optim.safe_norm(x, 0.1), lambda x: optim.safe_norm(x, 0.0, ord=1), lambda x: optim.safe_root_mean_squares(x, 0.0)):
        np.testing.assert_array_equal(fgrad.grad(f)(jnp.zeros(3)), 0)
    x = jnp.asarray([3.0, -4.0])
    np.testing.assert_allclose([optim.safe_norm(x, 0.0), optim.safe_norm(x, 6.0), optim.safe_norm(x, 0.0, ord=1)], [5, 6, 7], rtol=1e-6)
    np.testing.assert_allclose(fgrad.grad(lambda x: optim.safe_norm(x, 0.0))(x), [0.6, -0.8], rtol=1e-6)


def values(schedule, steps):
    return [float(schedule(jnp.asarray(k))) for k in steps]


def test_schedules():
    s = optim.warmup_cosine_decay_schedule(0.0, 1.0, 10, 110, 0.1)
    np.testing.assert_allclose(values(s, (0, 5, 10, 60, 110, 200)), [0, 0.5, 1, 0.55, 0.1, 0.1], rtol=1e-5, atol=1e-6)
    cases = [
        (optim.constant_schedule(0.5), (0, 9), [0.5, 0.5]),
        (optim.polynomial_schedule(1.0, 0.0, 2, 10, 5), (0, 5, 10, 15, 99), [1, 1, 0.25, 0, 0]),
        (optim.exponential_decay(1.0, 2, 0.25, 1), (0, 1, 2, 3), [1, 1, 0.5, 0.25]),
        (optim.exponential_decay(1.0, 2, 0.25, staircase=True, end_value=0.1), (1, 2, 3, 4), [1, 0.25, 0.25, 0.1]),
        (optim.piecewise_constant_schedule(1.0, {2: 0.5, 4: 0.5}), (1, 2, 3, 4), [1, 0.5, 0.5, 0.25]),
        (optim.piecewise_interpolate_schedule("linear", 1.0, {4: 0.5}), (0, 2, 4, 9), [1, 0.75, 0.5, 0.5]),
        (optim.piecewise_interpolate_schedule("cosine", 1.0, {4: 0.0}), (0, 1, 2, 4), [1, 0.5 + np.sqrt(0.125), 0.5, 0]),
        (optim.linear_onecycle_schedule(100, 1.0), (0, 30, 85, 100), [0.04, 1, 0.04, 4e-6]),
        (optim.cosine_onecycle_schedule(100, 1.0), (0, 15, 30, 100), [0.04, 0.52, 1, 4e-6]),
        (optim.join_schedules([optim.constant_schedule(1.0), lambda c: 2.0 * c], [3]), (2, 3, 5), [1, 0, 4]),
        (optim.warmup_exponential_decay_schedule(0.0, 1.0, 2, 1, 0.5), (0, 1, 2, 3), [0, 0.5, 1, 0.5]),
        (optim.sgdr_schedule([dict(init_value=0.0, peak_value=1.0, warmup_steps=2, decay_steps=4)] * 2), (0, 2, 4, 6, 8), [0, 1, 0, 1, 0]),
    ]
    for schedule, steps, want in cases:
        np.testing.assert_allclose(values(schedule, steps), want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose([float(schedule(k)) for k in steps], want, rtol=1e-5, atol=1e-6)


def test_schedules_refuse():
    for make in (
        lambda: optim.cosine_decay_schedule(1.0, 0),
        lambda: optim.warmup_cosine_decay_schedule(0.0, 1.0, 5, 5),
        lambda: optim.linear_onecycle_schedule(0, 1.0),
        lambda: optim.cosine_onecycle_schedule(-1, 1.0),
        lambda: optim.piecewise_constant_schedule(1.0, {1: -1.0}),
        lambda: optim.piecewise_interpolate_schedule("cubic", 1.0),
        lambda: optim.join_schedules([optim.constant_schedule(1.0)], [1]),
    ):
        with pytest.raises(ValueError, match="_schedule"):
            make()


def test_tree_arithmetic():
    a, b = {"x": jnp.asarray([1.0, -2.0]), "y": jnp.asarray(3.0)}, {"x": jnp.asarray([4.0, 5.0]), "y": jnp.asarray(-1.0)}
    for got, want in (
        (tu.tree_add(a, b, a), [6, 1, 5]),
        (tu.tree_sub(a, b), [-3, -7, 4]),
        (tu.tree_mul(a, b), [4, -10, -3]),
        (tu.tree_div(a, b), [0.25, -0.4, -3]),
        (tu.tree_scale(2, a), [2, -4, 6]),
        (tu.tree_add_scale(a, 2, b), [9, 8, 1]),
        (tu.tree_clip(a, -1, 1), [1, -1, 1]),
        (tu.tree_where(False, a, b), [4, 5, -1]),
        (tu.tree_update_moment(a, b, 0.5, 1), [2.5, 1.5, 1]),
        (tu.tree_update_moment_per_elem_norm(a, b, 0.5, 2), [2.5, 4.5, 4]),
        (tu.tree_update_infinity_moment(a, b, 0.5, 0.0), [2, 2.5, 3]),
        (tu.tree_bias_correction(a, 0.5, jnp.asarray(1)), [2, -4, 6]),
        (tu.tree_full_like(a, 7), [7, 7, 7]),
        (tu.tree_ones_like(a), [1, 1, 1]),
    ):
        np.testing.assert_allclose(np.concatenate([np.ravel(x) for x in tree.leaves(got)]), want, rtol=1e-6)
    scalars = [tu.tree_vdot(a, b), tu.tree_sum(a), tu.tree_max(a), tu.tree_min(a), tu.tree_size(a)]
    np.testing.assert_allclose(np.asarray(scalars, np.float64), [-9, 2, 3, -2, 3])
    norms = [tu.tree_norm(a), tu.tree_norm(a, squared=True), tu.tree_norm(a, ord=1), tu.tree_norm(a, ord="inf")]
    np.testing.assert_allclose(np.asarray(norms, np.float64), [np.sqrt(14), 14, 6, 3], rtol=1e-6)
    assert bool(tu.tree_allclose(a, a)) and not bool(tu.tree_allclose(a, b))
    assert float(tu.tree_vdot(jnp.asarray([1j]), jnp.asarray([1j])).real) == 1
    with pytest.raises(ValueError, match="ord must be"):
        tu.tree_norm(a, ord=3)


def test_tree_dtypes_and_keys():
    t = {"x": jnp.ones(2), "y": jnp.ones(2, jnp.bfloat16)}
    assert tu.tree_dtype(t, "lowest") == jnp.bfloat16 and tu.tree_dtype(t, "highest") == tu.tree_dtype(t, "promote") == np.float32
    with pytest.raises(ValueError, match="several dtypes"):
        tu.tree_dtype(t)
    assert tu.tree_dtype(tu.tree_cast(t, "float16")) == np.float16
    assert tu.tree_cast_like(t, tu.tree_zeros_like(t, "float16"))["x"].dtype == np.float16
    noise = tu.tree_random_like(fgrad.random.key(0), {"a": jnp.zeros(3), "b": jnp.zeros(3)})
    assert not np.array_equal(noise["a"], noise["b"])


def test_tree_get_and_set():
    state = optim.chain(optim.adam(0.1), optim.ema(0.5)).init({"w": jnp.ones(1)})
    assert tu.tree_get(state, "mu")["w"].shape == (1,) and tu.tree_get(state, "nothing", 5) == 5
    with pytest.raises(KeyError, match="2 times"):
        tu.tree_get(state, "count")
    assert int(tu.tree_get(state, "count", filtering=lambda path, value: path[0].idx == 1)) == 0
    new = tu.tree_set(state, count=jnp.asarray(7))
    assert int(new[0][0].count) == int(new[1].count) == 7 and tree.structure(new) == tree.structure(state)
    with pytest.raises(KeyError, match="nothing in the tree"):
        tu.tree_set(state, rate=1)
