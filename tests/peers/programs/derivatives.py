"""Custom rules, checkpoint, derivatives inside programs."""

import functools

import numpy as np

from tests.peers.registry import REVERSE, VALUE, normal, positive, program

ONE_ORDER = ("hessian", "jvp_grad", "grad_jvp")
REVERSE_ONLY = VALUE + REVERSE


@program(normal((3,)))
def custom_jvp_rule(jax, x):
    jnp = jax.numpy

    @jax.custom_jvp
    def log1pexp(x):
        return jnp.log(1.0 + jnp.exp(x))

    @log1pexp.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return log1pexp(x), (1 - 1 / (1 + jnp.exp(x))) * t

    return log1pexp(x) + jax.jit(log1pexp)(2 * x)


@program(normal((3,), (3,)), diff=(0, 1))
def custom_jvp_by_argument(jax, x, y):
    @jax.custom_jvp
    def f(x, y):
        return x * jax.numpy.sin(y)

    f.defjvps(lambda t, out, x, y: 2 * t * jax.numpy.sin(y), lambda t, out, x, y: t * x)
    return f(x, y), f(x, 2.0)


@program(normal((3,)))
def custom_jvp_with_trees_and_nondiff(jax, x):
    @functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
    def apply(g, p):
        return {"y": g(p["a"]), "s": p["a"].sum()}

    @apply.defjvp
    def rule(g, primals, tangents):
        (p,), (t,) = primals, tangents
        return apply(g, p), {"y": 3 * t["a"], "s": t["a"].sum()}

    return apply(jax.numpy.sin, {"a": x})


@program(normal((3,)), transforms=REVERSE_ONLY)
def custom_vjp_rule(jax, x):
    jnp = jax.numpy

    @jax.custom_vjp
    def clip_gradient(x):
        return x * 1.0

    clip_gradient.defvjp(lambda x: (x * 1.0, None), lambda _, g: (jnp.clip(g, -0.5, 0.5),))
    return clip_gradient(x) * 3 + jax.jit(clip_gradient)(x * x)


@program(normal((3,), (2,)), diff=(0, 1), transforms=REVERSE_ONLY)
def custom_vjp_with_trees_and_nondiff(jax, x, y):
    @functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
    def f(p, n, q):
        return {"a": p["x"] ** n, "b": q * p["x"][0]}

    def fwd(p, n, q):
        return f(p, n, q), (p, q)

    def bwd(n, res, ct):
        p, q = res
        dx = n * p["x"] ** (n - 1) * ct["a"] * 2
        return {"x": dx}, q * 0 + ct["b"]

    f.defvjp(fwd, bwd)
    return f({"x": x}, 3, y)


@program(lambda r: (r.standard_normal(3), np.array([1, 0, 2])), transforms=REVERSE_ONLY)
def custom_vjp_with_integers(jax, x, i):
    @jax.custom_vjp
    def gather(x, i):
        return x[i]

    gather.defvjp(lambda x, i: (x[i], (x.shape, i)), lambda r, g: (jax.numpy.zeros(r[0]).at[r[1]].add(2 * g), None))
    return gather(x, i)


@program(positive((3,)), transforms=VALUE + REVERSE)
def implicit_fixed_point(jax, a):
    jnp, lax = jax.numpy, jax.lax

    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def fixed_point(f, a, x):
        return lax.while_loop(lambda s: jnp.sum(jnp.abs(s[0] - s[1])) > 1e-6, lambda s: (s[1], f(a, s[1])), (x, f(a, x)))[1]

    def fwd(f, a, x):
        x = fixed_point(f, a, x)
        return x, (a, x)

    def bwd(f, res, ct):
        a, x = res
        _, pull_a = jax.vjp(lambda a: f(a, x), a)
        _, pull_x = jax.vjp(lambda x: f(a, x), x)
        u = lax.fori_loop(0, 30, lambda i, u: ct + pull_x(u)[0], ct)
        return pull_a(u)[0], jnp.zeros_like(x)

    fixed_point.defvjp(fwd, bwd)
    return fixed_point(lambda a, x: 0.5 * (x + a / x), a, jnp.ones(3))


@program(normal((3, 3), (3,)), diff=(0, 1), without=("hessian",))
def checkpointed_layers(jax, w, x):
    jnp = jax.numpy
    layer = jax.checkpoint(lambda w, x: jnp.sin(w @ jnp.tanh(x)))
    return jax.checkpoint(lambda x: layer(w, layer(w, x)))(x)


@program(normal((3, 3), (3,)), diff=(0, 1), without=("hessian",))
def checkpoint_inside_scan(jax, w, x):
    body = jax.checkpoint(lambda h, _: (jax.numpy.tanh(w @ h), h.sum()))
    return jax.lax.scan(body, x, None, length=3)


@program(normal((3,)))
def stop_gradient_tricks(jax, x):
    lax, jnp = jax.lax, jax.numpy
    hard = (x > 0).astype(jnp.float32)
    soft = jax.nn.sigmoid(x)
    straight_through = soft + lax.stop_gradient(hard - soft)
    return straight_through, lax.stop_gradient({"a": x})["a"] * x


@program(normal((3,), (3,)), diff=(0, 1), without=("hessian",))
def hessian_vector_product(jax, x, v):
    jnp = jax.numpy
    f = lambda x: jnp.sum(jnp.sin(x) * x[::-1] ** 2)
    forward_over_reverse = jax.jvp(jax.grad(f), (x,), (v,))[1]
    reverse_over_reverse = jax.grad(lambda x: jnp.vdot(jax.grad(f)(x), v))(x)
    return forward_over_reverse, reverse_over_reverse, jax.hessian(f)(x) @ v


@program(normal((3,), (4, 3)), without=("hessian",))
def gauss_newton(jax, w, x):
    jnp = jax.numpy
    residual = lambda w: jnp.tanh(x @ w) - 0.3
    j = jax.jacfwd(residual)(w)
    out, push = jax.linearize(residual, w)
    _, pull = jax.vjp(residual, w)
    return j.T @ j @ w, pull(push(w))[0], jax.jacrev(residual)(w), out


@program(lambda r: ({"w": r.standard_normal((2, 2))}, r.standard_normal((3, 2)), r.standard_normal((3, 2))), without=("hessian",))
def maml(jax, p, x, y):
    jnp = jax.numpy
    loss = lambda p, x, y: jnp.mean((jnp.tanh(x @ p["w"]) - y) ** 2)

    def adapted(p):
        for _ in range(2):
            p = jax.tree.map(lambda a, g: a - 0.1 * g, p, jax.grad(loss)(p, x, y))
        return loss(p, y, x)

    return adapted(p), jax.grad(adapted)(p)


@program(normal((3,)), without=("hessian",))
def jacobians_of_trees(jax, x):
    f = lambda p: {"y": p["a"] * p["b"].sum(), "z": p["b"][0] ** 2}
    p = {"a": x, "b": x[:2]}
    return jax.jacfwd(f)(p), jax.jacrev(f)(p), jax.jacobian(lambda a, b: a * b, argnums=(0, 1))(x, x + 1)


@program(normal(()), without=("hessian",))
def high_order_grads(jax, x):
    f = lambda x: jax.numpy.sin(x) * x**3
    return jax.grad(f)(x), jax.grad(jax.grad(f))(x), jax.grad(jax.grad(jax.grad(f)))(x), jax.vmap(jax.grad(f))(jax.numpy.arange(3.0) * x)


@program(normal((5,), (2,)), diff=(0, 1))
def transpose_of_convolution_sum(jax, x, k):
    jnp = jax.numpy
    conv = lambda x: sum(k[i] * x[i : i + 4] for i in range(2))
    back = jax.linear_transpose(conv, x)
    return conv(x), back(jnp.arange(4.0))[0], jax.linear_transpose(lambda t: (t["a"] * 2, t["b"].sum()), {"a": x, "b": k})((x, 1.0))


@program(normal((3,)), without=("hessian",))
def linearize_reuse(jax, x):
    y, push = jax.linearize(lambda x: {"s": jax.numpy.sin(x), "n": jax.numpy.sum(x**3)}, x)
    basis = jax.numpy.eye(3)
    return y, jax.vmap(push)(basis), jax.jit(push)(x), push(2 * x)


@program(normal((3,)), without=("hessian",))
def vjp_reuse(jax, x):
    y, pull = jax.vjp(lambda x: jax.numpy.cumsum(x) ** 2, x)
    return y, pull(y), jax.vmap(pull)(jax.numpy.eye(3))[0], jax.jit(lambda c: pull(c)[0])(x)


@program(normal((3,)))
def python_control_under_grad(jax, x):
    f = lambda v: v * 2 if v.shape == () else v
    total = 0.0
    for i, v in enumerate(x):
        total = total + f(v) ** (i + 1)
    return total
