"""Key concepts, the autodiff cookbook, custom rules, implicit derivatives, trees and state."""

import dataclasses
import functools
import importlib
from typing import NamedTuple

import numpy as np

from tests.peers.tutorials.registry import tutorial


@tutorial
def key_concepts(jax):
    jnp, random = jax.numpy, jax.random

    def selu(x, alpha=1.67, lmbda=1.05):
        return lmbda * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)

    x = jnp.arange(5.0)
    key = random.key(42)
    key, subkey = random.split(key)
    draws = random.normal(subkey, (3,))
    jitted = jax.jit(selu)
    slope = jax.grad(lambda x: selu(x).sum())(x)
    mat = random.normal(key, (15, 10))
    batched = random.normal(subkey, (4, 10))
    naive = jnp.stack([jnp.dot(mat, v) for v in batched])
    mapped = jax.jit(jax.vmap(functools.partial(jnp.dot, mat)))(batched)
    y = x.at[1].set(10.0).at[::2].add(0.5)
    shape = jax.eval_shape(selu, x).shape
    return selu(x), jitted(x), slope, draws, naive, mapped, y, np.array(shape), isinstance(x, jax.Array)


def _logistic(jax):
    jnp = jax.numpy
    inputs = jnp.array([[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30], [0.74, -2.49, 1.39]])
    targets = jnp.array([True, True, False, True])

    def loss(w, b):
        preds = 1 / (1 + jnp.exp(-(inputs @ w + b)))
        return -jnp.sum(jnp.log(preds * targets + (1 - preds) * (1 - targets)))

    return inputs, loss


@tutorial
def autodiff_cookbook(jax):
    jnp = jax.numpy
    inputs, loss = _logistic(jax)
    w, b = jax.random.normal(jax.random.key(0), (3,)), jnp.float32(0.3)
    both = jax.value_and_grad(loss, (0, 1))(w, b)
    tree = jax.grad(lambda p: loss(p["w"], p["b"]))({"w": w, "b": b})
    f = lambda w: jnp.tanh(inputs @ w + b)
    forward, reverse = jax.jacfwd(f)(w), jax.jacrev(f)(w)
    hess = jax.hessian(loss)(w, b)
    v = jnp.array([1.0, -1.0, 2.0])
    hvp = jax.jvp(lambda w: jax.grad(loss)(w, b), (w,), (v,))[1]
    hvp_reverse = jax.grad(lambda w: jnp.vdot(jax.grad(loss)(w, b), v))(w)
    y, pullback = jax.vjp(f, w)
    rows = jax.vmap(pullback)(jnp.eye(4))[0]
    y2, push = jax.linearize(f, w)
    columns = jax.vmap(push, out_axes=1)(jnp.eye(3))
    check = importlib.import_module(f"{jax.__name__}.test_util").check_grads
    check(lambda w: loss(w, b), (w,), order=2, atol=1e-1, rtol=1e-1)
    holomorphic = jax.grad(jnp.sin, holomorphic=True)(3.0 + 4j)
    return both, tree, forward, reverse, hess, hvp, hvp_reverse, y, rows, y2, columns, holomorphic


@tutorial
def vjp_of_matrices(jax):
    """Cotangent matrices pulled back in one go, and a Jacobian with the smaller number of passes."""
    jnp = jax.numpy
    a = jax.random.normal(jax.random.key(1), (4, 4))
    f = lambda x: jnp.dot(a, jnp.sin(x)) * jnp.cumsum(x)
    x = jnp.linspace(0.1, 1.0, 4)
    m = jax.random.normal(jax.random.key(2), (6, 4))
    y, pullback = jax.vjp(f, x)
    mjp = jax.jit(lambda m: jax.vmap(lambda u: pullback(u)[0])(m))
    jmp = jax.vmap(lambda t: jax.jvp(f, (x,), (t,))[1])(m)
    loop = jnp.vstack([pullback(row)[0] for row in m])
    return y, mjp(m), jmp, loop, jax.vmap(pullback)(m)


@tutorial
def custom_derivative_rules(jax):
    jnp = jax.numpy

    @jax.custom_jvp
    def log1pexp(x):
        return jnp.log(1.0 + jnp.exp(x))

    log1pexp.defjvps(lambda t, ans, x: (1 - 1 / (1 + jnp.exp(x))) * t)

    @functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
    def clip_gradient(lo, hi, x):
        return x

    clip_gradient.defvjp(lambda lo, hi, x: (x, None), lambda lo, hi, _, g: (jnp.clip(g, lo, hi),))

    @functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
    def app(f, x):
        return f(x)

    app.defjvp(lambda f, primals, tangents: (f(*primals), 2.0 * tangents[0]))
    straight = lambda x: x + jax.lax.stop_gradient(jnp.round(x) - x)
    return (
        jax.vmap(jax.jit(jax.grad(jax.grad(log1pexp))))(jnp.array([0.0, 1.0, 100.0])),
        jax.grad(lambda x: clip_gradient(-0.75, 0.75, jnp.sin(x)))(jnp.float32(0.1)),
        jax.vmap(jax.grad(lambda x: clip_gradient(-0.5, 0.5, jnp.sin(x))))(jnp.linspace(0.0, 3.0, 4)),
        jax.grad(lambda x: app(lambda y: y**3, x))(4.0),
        jax.vmap(jax.grad(straight))(jnp.array([0.2, 1.7])),
    )


@tutorial
def implicit_fixed_point(jax):
    """The fixed point of a map and its derivative by the implicit function theorem."""
    jnp, lax = jax.numpy, jax.lax

    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def fixed_point(f, a, guess):
        def body(state):
            _, x = state
            return x, f(a, x)

        return lax.while_loop(lambda s: jnp.any(jnp.abs(s[0] - s[1]) > 1e-6), body, (guess, f(a, guess)))[1]

    def fwd(f, a, guess):
        x = fixed_point(f, a, guess)
        return x, (a, x)

    def bwd(f, res, ct):
        a, x = res
        _, pull_a = jax.vjp(lambda a: f(a, x), a)

        def rev(packed, u):
            a, x, ct = packed
            _, pull_x = jax.vjp(lambda x: f(a, x), x)
            return ct + pull_x(u)[0]

        (a_bar,) = pull_a(fixed_point(rev, (a, x, ct), ct))
        return a_bar, jnp.zeros_like(x)

    fixed_point.defvjp(fwd, bwd)
    newton = lambda a: fixed_point(lambda a, x: 0.5 * (x + a / x), a, a)
    layer = lambda w: jnp.sum(fixed_point(lambda w, x: jnp.tanh(w @ x * 0.3 + 1.0), w, jnp.zeros(3)) ** 2)
    w = jax.random.normal(jax.random.key(3), (3, 3))
    return newton(2.0), jax.grad(newton)(2.0), jax.grad(jax.grad(newton))(2.0), jax.jit(jax.value_and_grad(layer))(w)


@tutorial
def model_agnostic_meta_learning(jax):
    """MAML on sinusoids: the gradient through steps of gradient descent, over a batch of tasks."""
    jnp, random = jax.numpy, jax.random

    def net(params, x):
        for w, b in params[:-1]:
            x = jnp.tanh(x @ w + b)
        return x @ params[-1][0] + params[-1][1]

    keys = random.split(random.key(0), 3)
    sizes = [(1, 16), (16, 16), (16, 1)]
    params = [(random.normal(k, s) / jnp.sqrt(s[0]), jnp.zeros(s[1])) for k, s in zip(keys, sizes)]
    loss = lambda p, x, y: jnp.mean((net(p, x) - y) ** 2)

    def adapted(p, x, y):
        g = jax.grad(loss)(p, x, y)
        return jax.tree.map(lambda p, g: p - 0.1 * g, p, g)

    def maml(p, task):
        x1, y1, x2, y2 = task
        return loss(adapted(p, x1, y1), x2, y2)

    @jax.jit
    def step(p, key):
        k1, k2, k3 = random.split(key, 3)
        amplitude, phase = random.uniform(k1, (8, 1, 1), minval=0.5, maxval=2.0), random.uniform(k2, (8, 1, 1), maxval=3.0)
        x = random.uniform(k3, (8, 20, 1), minval=-3.0, maxval=3.0)
        y = amplitude * jnp.sin(x + phase)
        tasks = x[:, :10], y[:, :10], x[:, 10:], y[:, 10:]
        value, g = jax.value_and_grad(lambda p: jax.vmap(maml, (None, 0))(p, tasks).mean())(p)
        return jax.tree.map(lambda p, g: p - 0.01 * g, p, g), value

    values = []
    for key in random.split(random.key(7), 20):
        params, value = step(params, key)
        values.append(value)
    return jnp.stack(values), params


class _Linear(NamedTuple):
    weight: object
    bias: object


@tutorial
def trees_and_state(jax):
    """Pytrees of one's own classes, key paths, and a stateful class made pure."""
    jnp = jax.numpy

    @jax.tree_util.register_pytree_node_class
    class Counter:
        def __init__(self, n, name):
            self.n, self.name = n, name

        def count(self):
            return self.n, Counter(self.n + 1, self.name)

        def tree_flatten(self):
            return (self.n,), self.name

        @classmethod
        def tree_unflatten(cls, name, children):
            return cls(*children, name)

    @functools.partial(jax.tree_util.register_dataclass, data_fields=["params", "step"], meta_fields=["rate"])
    @dataclasses.dataclass
    class State:
        params: object
        step: object
        rate: float

    @jax.jit
    def update(state, counter, x):
        n, counter = counter.count()
        g = jax.grad(lambda p: jnp.sum((p["lin"].weight @ x + p["lin"].bias) ** 2))(state.params)
        params = jax.tree.map(lambda p, g: p - state.rate * g, state.params, g)
        return dataclasses.replace(state, params=params, step=state.step + n), counter

    state = State({"lin": _Linear(jnp.eye(2), jnp.ones(2)), "unused": None}, jnp.int32(0), 0.1)
    counter = Counter(jnp.int32(5), "main")
    for _ in range(3):
        state, counter = update(state, counter, jnp.array([1.0, -2.0]))
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(state)]
    stacked = jax.tree.map(lambda *xs: jnp.stack(xs), state.params, state.params)
    outer, inner = jax.tree.structure([0, 0]), jax.tree.structure((0, 0))
    turned = jax.tree.transpose(outer, inner, [(1, 2), (3, 4)])
    flat, unravel = importlib.import_module(f"{jax.__name__}.flatten_util").ravel_pytree(state.params)
    assert names == [".params['lin'].weight", ".params['lin'].bias", ".step"] and counter.name == "main"
    return state.params, state.step, counter.n, stacked, turned, flat, unravel(flat * 2)


@tutorial
def per_example_gradients_and_ggn(jax):
    """Norms of per-example gradients, and a Gauss-Newton product by jvp and vjp."""
    jnp, random = jax.numpy, jax.random
    x, y = random.normal(random.key(0), (8, 5)), random.randint(random.key(1), (8,), 0, 3)
    params = {"w": random.normal(random.key(2), (5, 3)) * 0.5, "b": jnp.zeros(3)}
    logits = lambda p, x: jnp.tanh(x) @ p["w"] + p["b"]
    ce = lambda z, y: -jax.nn.log_softmax(z)[y]
    grads = jax.vmap(jax.grad(lambda p, x, y: ce(logits(p, x), y)), (None, 0, 0))(params, x, y)
    norms = jnp.sqrt(sum(jnp.sum(g**2, axis=tuple(range(1, g.ndim))) for g in jax.tree.leaves(grads)))
    clipped = jax.tree.map(lambda g: jnp.mean(g * jnp.minimum(1.0, 1.0 / norms).reshape(-1, *[1] * (g.ndim - 1)), 0), grads)

    def ggn_vp(v):
        f = lambda p: logits(p, x)
        z, jv = jax.jvp(f, (params,), (v,))
        hjv = jax.jvp(jax.grad(lambda z: jax.vmap(ce)(z, y).sum()), (z,), (jv,))[1]
        return jax.vjp(f, params)[1](hjv)[0]

    return grads, norms, clipped, jax.jit(ggn_vp)({"w": params["w"] ** 2, "b": jnp.arange(3.0)})
