"""What holds for all optimizers: dtypes of states, scan, donation, checkpoints, fusion, convergence and error messages."""

import pickle

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax, optim, tree

SCHEDULE = optim.warmup_cosine_decay_schedule(0.0, 0.1, 3, 50, 0.01)
OPTIMIZERS = {
    "sgd": lambda: optim.sgd(0.1, 0.9, nesterov=True),
    "adam": lambda: optim.adam(SCHEDULE),
    "adamw": lambda: optim.adamw(0.1, mask={"w": True, "b": False}),
    "adamax": lambda: optim.adamax(0.1),
    "amsgrad": lambda: optim.amsgrad(0.1),
    "radam": lambda: optim.radam(0.1),
    "adabelief": lambda: optim.adabelief(0.1),
    "yogi": lambda: optim.yogi(0.1),
    "adan": lambda: optim.adan(0.1),
    "adagrad": lambda: optim.adagrad(0.5),
    "adadelta": lambda: optim.adadelta(20.0),
    "rmsprop": lambda: optim.rmsprop(0.05, centered=True, momentum=0.5),
    "lion": lambda: optim.lion(SCHEDULE),
    "lamb": lambda: optim.lamb(SCHEDULE),
    "lars": lambda: optim.lars(1.0, trust_coefficient=0.1),
    "novograd": lambda: optim.novograd(0.1),
    "sm3": lambda: optim.sm3(0.5),
    "adafactor": lambda: optim.adafactor(SCHEDULE, min_dim_size_to_factor=2, momentum=0.5, multiply_by_parameter_scale=False),
    "muon": lambda: optim.muon(SCHEDULE),
    "rprop": lambda: optim.rprop(0.1),
    "MultiSteps": lambda: optim.MultiSteps(optim.adam(0.2), 2).gradient_transformation(),
    "apply_if_finite": lambda: optim.apply_if_finite(optim.adam(0.1), 3),
    "inject": lambda: optim.inject_hyperparams(optim.adamw)(SCHEDULE, weight_decay=0.01),
    "partition": lambda: optim.partition({"x": optim.adam(0.1), "y": optim.sgd(0.1)}, {"w": "x", "b": "y"}),
    "flatten": lambda: optim.flatten(optim.adam(0.1)),
    "clipped": lambda: optim.chain(optim.clip_by_global_norm(1.0), optim.zero_nans(), optim.ema(0.5), optim.sgd(0.1)),
    "noisy": lambda: optim.noisy_sgd(0.1, eta=1e-4, key=0),
}
TARGET = {"w": np.array([[0.7, -0.3, 0.2], [0.1, 0.5, -0.9]], np.float32), "b": np.array([0.4, -0.6], np.float32)}


def loss(params):
    return sum(jnp.sum((p - jnp.asarray(t, p.dtype)) ** 2) for p, t in zip(tree.leaves(params), tree.leaves(TARGET)))


def start(dtype=np.float32):
    return tree.map(lambda t: jnp.full(t.shape, 0.2, dtype), TARGET)


def signature(t):
    return [(x.shape, x.dtype) for x in tree.leaves(t)], tree.structure(t)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_is_the_body_of_a_scan_and_converges(name):
    opt = OPTIMIZERS[name]()

    def body(carry, _):
        params, state = carry
        value, grads = fgrad.value_and_grad(loss)(params)
        updates, state = opt.update(grads, state, params)
        return (optim.apply_updates(params, updates), state), value

    params = start()
    (params, _), values = fgrad.jit(lambda c: lax.scan(body, c, None, length=60))((params, opt.init(params)))
    assert float(loss(params)) < 0.25 * float(values[0])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_dtypes_of_states_do_not_change(name, dtype):
    opt, params = OPTIMIZERS[name](), start(dtype)
    state = opt.init(params)
    updates, new = opt.update(tree.map(jnp.ones_like, params), state, params)
    assert signature(new) == signature(state)
    assert signature(optim.apply_updates(params, updates)) == signature(params)


@pytest.mark.parametrize("name", ["adamw", "adafactor", "partition", "inject"])
def test_states_survive_pickle_and_arrays(name):
    """A checkpoint of the leaves as NumPy arrays goes on to the bit."""
    opt, params = OPTIMIZERS[name](), start()
    state = opt.init(params)
    step = fgrad.jit(lambda p, s: opt.update(fgrad.grad(loss)(p), s, p))
    state = step(params, state)[1]
    leaves = pickle.loads(pickle.dumps([np.asarray(x) for x in tree.leaves(state)]))
    again = tree.unflatten(tree.structure(opt.init(params)), [jnp.asarray(x) for x in leaves])
    for a, b in zip(tree.leaves(step(params, state)), tree.leaves(step(params, again))):
        np.testing.assert_array_equal(a, b)


def test_mu_dtype():
    params = start()
    for opt in (optim.adam(0.1, mu_dtype="bfloat16"), optim.lion(0.1, mu_dtype="bfloat16")):
        state = opt.init(params)
        for _ in range(2):
            updates, state = opt.update(params, state, params)
        assert {x.dtype for x in tree.leaves(state[0].mu)} == {jnp.dtype(jnp.bfloat16)} and updates["w"].dtype == np.float32
    low = tree.map(lambda p: p.astype("bfloat16"), params)
    state = optim.sgd(0.1, 0.9, accumulator_dtype="float32").init(low)
    assert {x.dtype for x in tree.leaves(state)} == {np.dtype(np.float32)}


def test_traced_learning_rate():
    @fgrad.jit
    def step(rate, p):
        opt = optim.adamw(rate)
        return opt.update(p, opt.init(p), p)[0]

    for rate in (0.1, 0.2):
        np.testing.assert_allclose(step(rate, jnp.ones(3)), np.full(3, -rate * 1.0001), rtol=1e-5)


@pytest.mark.parametrize("make", [optim.adamw, lambda rate: optim.sgd(rate, 0.9), lambda rate: optim.lamb(rate, eps_root=1e-8)])
def test_derivative_by_the_learning_rate(make):
    """eps_root keeps the root's derivative finite where a gradient is zero."""

    def trained(rate):
        opt, params = make(rate), start()
        state = opt.init(params)
        for _ in range(3):
            updates, state = opt.update(fgrad.grad(loss)(params), state, params)
            params = optim.apply_updates(params, updates)
        return loss(params)

    with fgrad.enable_x64():
        numeric = (float(trained(0.0501)) - float(trained(0.0499))) / 0.0002
    np.testing.assert_allclose(fgrad.grad(trained)(0.05), numeric, rtol=2e-2)


def instructions(opt, leaves=12):
    params = {f"p{i:02}": jnp.ones((40, 33)) for i in range(leaves)}

    def step(params, state, grads):
        updates, state = opt.update(grads, state, params)
        return optim.apply_updates(params, updates), state

    state = opt.init(params)
    program = fgrad.jit(step, donate_argnums=(0, 1)).lower(params, state, params).compile()
    return program._traced.program.num_instructions, program.memory_analysis()["temp_bytes"]


@pytest.mark.parametrize("name", ["sgd", "adam", "adamax", "amsgrad", "radam", "yogi", "adan", "adagrad", "adadelta", "rmsprop", "lion"])
def test_an_update_is_one_pass_over_each_leaf(name):
    """At most one instruction a leaf, three for scalars, and no temporary of a leaf's size."""
    count, temporaries = instructions(OPTIMIZERS[name]())
    assert count <= 12 + 3 and temporaries < 40 * 33 * 4


def test_clipping_reads_the_gradients_once_more():
    count, temporaries = instructions(optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(SCHEDULE, weight_decay=0.1)))
    assert count <= 2 * 12 + 6 and temporaries < 40 * 33 * 4


@pytest.mark.parametrize("name", ["sgd", "adam", "rmsprop", "lion"])
def test_donated_states_are_reused(name):
    """A step allocates nothing of a leaf's size, though the old arrays are still there (dead)."""
    n = 200_000
    opt, grads = OPTIMIZERS[name](), {"w": jnp.ones((4, n // 4)), "b": jnp.ones(n)}
    step = fgrad.jit(lambda p, s, g: (lambda u, s: (optim.apply_updates(p, u), s))(*opt.update(g, s, p)), donate_argnums=(0, 1))
    params = tree.map(lambda g: g * 2, grads)
    params, state = step(params, opt.init(params), grads)
    before = fgrad.memory_stats()["live"]
    new = step(params, state, grads)
    assert fgrad.memory_stats()["live"] - before < 4 * n and len(tree.leaves(new)) == len(tree.leaves((params, state)))


def test_complex_parameters():
    """|g|^2 is the second moment: a rotation of the gradient rotates the step."""
    opt, g = optim.adam(0.1, eps=0.0), jnp.asarray([3 + 4j, 1j], jnp.complex64)
    updates, _ = opt.update(g, opt.init(g))
    np.testing.assert_allclose(updates, -0.1 * np.array([0.6 + 0.8j, 1j]), rtol=1e-4)


def test_errors():
    params, grads = start(), start()
    for make in (optim.adamw, optim.lamb, optim.lion, optim.novograd):
        opt = make(0.1, weight_decay=0.1)
        with pytest.raises(ValueError, match=r"needs the parameters: call update\(updates, state, params\)"):
            opt.update(grads, opt.init(params))
    for opt in (
        optim.adaptive_grad_clip(0.1),
        optim.scale_by_trust_ratio(),
        optim.scale_by_factored_rms(),
        optim.keep_params_nonnegative(),
    ):
        with pytest.raises(ValueError, match="needs the parameters"):
            opt.update(grads, opt.init(params))
    opt = optim.adam(0.1)
    with pytest.raises(ValueError, match=r"different structures.*it lacks \['w'\]"):
        opt.update(grads, opt.init({"b": params["b"]}))
    with pytest.raises(ValueError, match="different structures"):
        optim.apply_updates(params, (1, 2))
    with pytest.raises(ValueError, match="2 parts for 3 transformations"):
        optim.chain(opt, opt, opt).update(grads, (1, 2))
    with pytest.raises(ValueError, match="names must differ"):
        optim.named_chain(("a", opt), ("a", opt))
    with pytest.raises(ValueError, match=r"labels \['q'\] have no transformation"):
        optim.partition({"a": opt}, {"w": "a", "b": "q"}).init(params)
    with pytest.raises(ValueError, match="no arguments"):
        optim.inject_hyperparams(optim.sgd, static_args=("lr",))
    with pytest.raises(ValueError, match="sync_period"):
        optim.lookahead(opt, 0, 0.5)
    with pytest.raises(ValueError, match="LookaheadParams"):
        look = optim.lookahead(opt, 2, 0.5)
        look.update(grads, look.init(params), params)
    with pytest.raises(ValueError, match="at least 1"):
        optim.MultiSteps(opt, 0)
    with pytest.raises(ValueError, match="boolean scalar"):
        optim.MultiSteps(opt, 2, should_skip_update_fn=lambda *a: (jnp.ones(2), ())).update(
            grads, optim.MultiSteps(opt, 2).init(params), params
        )
    with pytest.raises(ValueError, match="mode must be"):
        optim.scale_by_lion(mode="soft")
    with pytest.raises(ValueError, match="rank 6"):
        optim.adaptive_grad_clip(0.1).update(jnp.ones([2] * 6), (), jnp.ones([2] * 6))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_outside_of_jit_are_those_inside(name):
    """From the third step on an update is a compiled program of its own."""
    plain, jitted = OPTIMIZERS[name](), OPTIMIZERS[name]()
    step = fgrad.jit(jitted.update)
    ours, ours_state = start(), plain.init(start())
    theirs, their_state = start(), jitted.init(start())
    for _ in range(6):
        updates, ours_state = plain.update(fgrad.grad(loss)(ours), ours_state, ours)
        ours = optim.apply_updates(ours, updates)
        updates, their_state = step(fgrad.grad(loss)(theirs), their_state, theirs)
        theirs = optim.apply_updates(theirs, updates)
        assert signature(ours_state) == signature(their_state) and signature(ours) == signature(theirs)
    for a, b in zip(tree.leaves(ours), tree.leaves(theirs)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_steps_outside_of_jit_are_not_compiled_again(monkeypatch):
    from fgrad.compile import program

    opt, params = optim.adamw(1e-2), start()
    state = opt.init(params)
    gradient = tree.map(jnp.ones_like, params)
    for _ in range(6):
        updates, state = opt.update(gradient, state, params)
    monkeypatch.setattr(program, "_build", None)
    for _ in range(5):
        updates, state = opt.update(gradient, state, params)
    for _ in range(4):  # a new optimizer at every step runs as its operations
        opt = optim.adamw(1e-2)
        opt.update(gradient, opt.init(params), params)


def test_learning_rates_are_differentiated_through_steps_outside_of_jit():
    params, gradient = start(), tree.map(jnp.ones_like, start())
    opt = optim.trace(0.9)
    state = opt.init(params)
    for _ in range(3):
        _, state = opt.update(gradient, state)

    def after(scale):
        updates, _ = opt.update(tree.map(lambda g: g * scale, gradient), state)
        return sum(jnp.sum(u**2) for u in tree.leaves(updates))

    np.testing.assert_allclose(fgrad.grad(after)(2.0), fgrad.jit(fgrad.grad(after))(2.0), rtol=1e-6)
