"""Parameters as pytrees; vmap over trees and named axes; jit's arguments."""

import collections
import dataclasses
import functools

import numpy as np

from tests.peers.registry import REVERSE, VALUE, normal, program

Layer = collections.namedtuple("Layer", "w b")


@program(lambda r: ({"b": [r.standard_normal(2), None], "a": (Layer(r.standard_normal((2, 2)), None), ())},))
def tree_of_parameters(jax, p):
    jnp = jax.numpy
    out = jnp.tanh(p["a"][0].w @ p["b"][0])
    return {"out": Layer(out, None), "again": jax.tree.map(lambda x: x * 2, p), "empty": []}


@program(lambda r: (r.standard_normal((3, 2)), r.standard_normal(2)), diff=(0, 1), without=("hessian",))
def registered_dataclass(jax, w, b):
    @dataclasses.dataclass
    class Model:
        w: object
        b: object
        power: int

        def __call__(self, x):
            return (x @ self.w + self.b) ** self.power

    jax.tree_util.register_dataclass(Model, data_fields=["w", "b"], meta_fields=["power"])
    model = Model(w, b, 2)
    g = jax.grad(lambda m: m(jax.numpy.ones(3)).sum())(model)
    return model(jax.numpy.ones(3)), g.w, g.b, g.power, jax.jit(lambda m: m(jax.numpy.ones(3)))(model)


@program(lambda r: (r.standard_normal(3),), without=("hessian",))
def registered_node_class(jax, x):
    @jax.tree_util.register_pytree_node_class
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

        def tree_flatten(self):
            return (self.a, self.b), None

        @classmethod
        def tree_unflatten(cls, aux, children):
            return cls(*children)

    out = jax.vmap(lambda p: Pair(p.a * p.b, p.a))(Pair(x, 2 * x))
    return out.a, out.b, jax.grad(lambda p: (p.a * p.b**2).sum())(Pair(x, x)).b


@program(lambda r: (r.standard_normal((3, 4)), r.standard_normal((4, 2)), r.standard_normal((2, 3))), diff=(0, 1, 2), without=("hessian",))
def vmap_axes(jax, x, y, z):
    jnp, vmap = jax.numpy, jax.vmap
    a = vmap(jnp.dot, in_axes=(0, None))(x, y)
    b = vmap(jnp.dot, in_axes=(1, 0))(x[:2], y)
    c = vmap(vmap(lambda u, v: u * v, (None, 0)), (0, None), out_axes=1)(x[:, 0], y[:, 0])
    d = vmap(lambda t: t["u"] + t["v"][0], in_axes=({"u": 0, "v": (None,)},), out_axes=-1)({"u": x, "v": (y[:, 0],)})
    e = vmap(lambda u, v: {"s": u.sum(), "k": v}, in_axes=(0, None), out_axes={"s": 0, "k": None})(x, z)
    f = vmap(lambda u: (u, 3.0), out_axes=(1, None))(x)
    return a, b, c, d, e, f


@program(normal((3, 4)), without=("hessian",))
def collectives(jax, x):
    lax = jax.lax

    def f(v):
        centred = v - lax.pmean(v, "i")
        return (
            centred / lax.psum(v**2, "i"),
            lax.axis_index("i"),
            lax.pmax(lax.stop_gradient(v), "i"),
            lax.all_gather(v[0], "i"),
            lax.psum(1, "i"),
            lax.pmin(lax.stop_gradient(v), "i"),
        )

    return jax.vmap(f, axis_name="i")(x)


@program(normal((2, 3)), without=("hessian",))
def nested_named_axes(jax, x):
    lax = jax.lax
    inner = lambda v: v * lax.psum(v, ("i", "j")) + lax.axis_index("j") - lax.psum(v, "i")
    return jax.vmap(jax.vmap(inner, axis_name="j"), axis_name="i")(x)


@program(lambda r: (r.standard_normal((2, 3)), r.standard_normal((3, 4)), r.standard_normal((2, 4))), without=("hessian",))
def per_example_gradients(jax, w, x, y):
    jnp = jax.numpy
    loss = lambda w, x, y: jnp.mean((jnp.tanh(w @ x) - y) ** 2)
    per_example = jax.vmap(jax.grad(loss), in_axes=(None, 1, -1))(w, x, y)
    return per_example, jnp.sqrt(jnp.sum(per_example**2, axis=(1, 2)))


@program(normal((3,)), transforms=VALUE + REVERSE)
def jit_with_static_arguments(jax, x):
    @functools.partial(jax.jit, static_argnums=(1,), static_argnames=("scale",))
    def f(x, n, *, scale=1.0):
        for _ in range(n):
            x = x * scale + 1
        return x

    @functools.partial(jax.jit, static_argnames="mode")
    def g(x, mode="a"):
        return x if mode == "a" else -x

    return f(x, 2), f(x, 3, scale=2.0), g(x), g(x, mode="b"), g(x, "b")


@program(normal((3,)))
def nested_jit(jax, x):
    inner = jax.jit(lambda a, *, k: {"y": a * k, "z": a[0]})
    outer = jax.jit(lambda a: inner(a, k=2.0)["y"] + inner(a, k=a)["z"])
    return outer(x), inner(x, k=3)


@program(lambda r: (r.standard_normal(3),), without=("hessian",))
def closures_over_traced_values(jax, x):
    jnp = jax.numpy

    def outer(x):
        scale = jnp.sum(x)
        f = lambda y: y * scale + x
        return jax.vmap(f)(jnp.stack([x, x])) + jax.jit(f)(x) + jax.grad(lambda s: jnp.sum(f(x) * s))(2.0)

    return outer(x)


@program(lambda r: ({"w": r.standard_normal(3), "step": np.int32(4)}, r.standard_normal(3)), without=("hessian", "jvp_grad", "grad_jvp"))
def tree_functions(jax, p, x):
    leaves, treedef = jax.tree.flatten(p)
    back = jax.tree.unflatten(treedef, [leaf * 2 for leaf in leaves])
    total = jax.tree.reduce(lambda a, b: a + b, jax.tree.map(lambda v: v.sum(), back))
    named = jax.tree_util.tree_map_with_path(lambda path, v: v if "step" in jax.tree_util.keystr(path) else v * x, p)
    return back, total, named, len(leaves)


@program(lambda r: (r.standard_normal(3), r.standard_normal(3)), diff=(0, 1))
def has_aux(jax, x, y):
    jnp = jax.numpy
    f = lambda x, y: (jnp.sum(x * y**2), {"x": x, "n": 3})
    (value, aux), grads = jax.value_and_grad(f, argnums=(0, 1), has_aux=True)(x, y)
    g, aux2 = jax.grad(f, has_aux=True)(x, y)
    out, pull, aux3 = jax.vjp(f, x, y, has_aux=True)
    primal, tangent, aux4 = jax.jvp(f, (x, y), (y, x), has_aux=True)
    return value, aux, grads, g, aux2["x"], pull(out), aux3, primal, tangent, aux4
