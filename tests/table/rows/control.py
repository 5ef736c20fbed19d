"""Higher-order primitives: calls, control flow, custom rules, checkpoints, barriers, collectives."""

import numpy as np

import fgrad
import fgrad.debug
import fgrad.experimental
import fgrad.numpy as jnp
from fgrad import lax
from fgrad.ad_checkpoint import checkpoint_name
from fgrad.control.callback import VMAP_METHODS
from fgrad.control.loops import scan
from fgrad.control.while_loop import while_loop
from fgrad.custom_derivatives import linear_call
from fgrad.experimental import checkify
from fgrad.ops import collective
from fgrad.ops.index_bounds import index_bounds_p
from fgrad.transforms.remat import optimization_barrier_p
from tests.table.case import Case, bools, ints, of_kinds, typed

LOOSE = dict(ulps=32)


def checked(x):
    checkify.debug_check(x[0] == x[0], "a NaN: {}", x)
    return jnp.sin(x)


def marked(x):
    index_bounds_p.bind(jnp.argmax(x), shape=x.shape, axes=(0,), limits=(x.shape[0] - 1,))
    return jnp.sin(x)


# --- calls ------------------------------------------------------------------------------------------------------------


@fgrad.jit
def called(x, y):
    return jnp.sin(x) * y, jnp.sum(x * y)


def np_called(x, y):
    return np.sin(x) * y, np.sum(x * y)


@fgrad.custom_jvp
def cube(x, y):
    return x**3 * y


cube.defjvp(lambda primals, tangents: (cube(*primals), 3 * primals[0] ** 2 * primals[1] * tangents[0] + primals[0] ** 3 * tangents[1]))


@fgrad.custom_batching.custom_vmap
def doubled(x, y):
    return 2 * x * y


@doubled.def_vmap
def _(size, batched, x, y):
    return 2 * x * y, batched[0] or batched[1]


@fgrad.custom_vjp
def wave(x, y):
    return jnp.sin(x) * y


wave.defvjp(lambda x, y: (jnp.sin(x) * y, (x, y)), lambda res, ct: (ct * jnp.cos(res[0]) * res[1], ct * jnp.sin(res[0])))


def wave_grad(x, y, ct):
    """What the backward pass of a custom_vjp function makes of a cotangent: the transpose of custom_lin."""
    return fgrad.vjp(wave, x, y)[1](ct)


def saved(x, y):
    return fgrad.checkpoint(lambda x, y: (jnp.sin(jnp.sin(x) * y), x + y))(x, y)


def called_back(callback, **kw):
    def fun(x):
        return callback(lambda v: np.asarray(v) * 2, fgrad.ShapeDtypeStruct(x.shape, x.dtype), x, **kw)

    return Case(fun, (typed(2, 3),), lambda x: x * 2, dtypes=of_kinds("fi"), modes=(), name=str(kw or ""))


def watched(x):
    fgrad.debug.callback(lambda v: None, x)
    return jnp.sin(x)


def solved(d, b):
    """The solution of [[d0, 1], [0, d1]] x = b."""

    def matvec(x):
        return d * x + jnp.stack([x[1], 0 * x[0]])

    def solve(_, r):
        x1 = r[1] / d[1]
        return jnp.stack([(r[0] - x1) / d[0], x1])

    def transpose_solve(_, r):
        y0 = r[0] / d[0]
        return jnp.stack([y0, (r[1] - y0) / d[1]])

    return lax.custom_linear_solve(matvec, b, solve, transpose_solve)


def np_solved(d, b):
    return np.linalg.solve(np.diag(d) + np.eye(2, k=1), b)


def thirds(x, y):
    return linear_call(lambda y, x: x / (3 * y), lambda y, ct: ct / (3 * y), y, x)


def scaled_solve(d, b):
    return lax.custom_linear_solve(lambda x: d * x, b, lambda mv, b: b / d, symmetric=True)


CALLS = {
    "custom_linear_solve": [
        Case(solved, (typed(2, lo=1, hi=2), typed(2)), np_solved, name="triangular", linear=((1,),), **LOOSE),
        Case(scaled_solve, (typed(3, lo=1, hi=3), typed(3)), lambda d, b: b / d, linear=((1,),), **LOOSE),
        Case(
            lambda b: scaled_solve(np.float32(4), b),
            (typed(2, 3),),
            lambda b: b / 4,
            dtypes=(np.dtype(np.float32),),
            name="constant matvec",
        ),
    ],
    "pure_callback": [called_back(fgrad.pure_callback, vmap_method=m) for m in VMAP_METHODS],
    "io_callback": [called_back(fgrad.experimental.io_callback)],
    "check": [Case(checked, (typed(3),), np.sin)],
    "index_bounds": [Case(marked, (typed(3),), np.sin)],
    "debug_callback": [Case(watched, (typed(3),), np.sin)],
    "name": [
        Case(lambda x: checkpoint_name(x, "kept"), (typed(2, 3),), lambda x: x, dtypes=of_kinds("fiubc"), linear=((0,),), ulps=0),
    ],
    "jit": [
        Case(called, (typed(3), typed(3)), np_called, **LOOSE),
        Case(fgrad.jit(lambda x: 2 * x), (typed(2, 3),), lambda x: 2 * x, name="linear", linear=((0,),), dtypes=of_kinds("fiuc")),
        Case(fgrad.jit(lambda x: (x, x)), (typed(0, 2),), lambda x: (x, x), name="forwards its argument", dtypes=of_kinds("fb")),
    ],
    "custom_jvp_call": [Case(cube, (typed(3), typed(3)), lambda x, y: x**3 * y, linear=((1,),), **LOOSE)],
    "linear_call": [Case(thirds, (typed(3), typed(3, lo=1, hi=2)), lambda x, y: x / (3 * y), linear=((0,),), **LOOSE)],
    "custom_vmap_call": [Case(doubled, (typed(3), typed(3)), lambda x, y: 2 * x * y, linear=((0,), (1,)), **LOOSE)],
    "custom_vjp_call": [Case(wave, (typed(3), typed(3)), lambda x, y: np.sin(x) * y, modes=("rev",), **LOOSE)],
    "custom_lin": [
        Case(wave_grad, (typed(3),) * 3, lambda x, y, c: (c * np.cos(x) * y, c * np.sin(x)), linear=((2,),), **LOOSE),
    ],
    "checkpoint": [
        Case(saved, (typed(3), typed(3)), lambda x, y: (np.sin(np.sin(x) * y), x + y), **LOOSE),
        Case(fgrad.checkpoint(lambda x: 3 * x), (typed(2),), lambda x: 3 * x, name="linear", linear=((0,),), dtypes=of_kinds("fi")),
    ],
    "optimization_barrier": [
        Case(
            lambda x, y: tuple(optimization_barrier_p.bind(x, y)),
            (typed(2, 3), typed(3)),
            lambda x, y: (x, y),
            dtypes=of_kinds("fiubc"),
            linear=((0, 1),),
            ulps=0,
        )
    ],
}

# --- control flow -----------------------------------------------------------------------------------------------------


def branch(p, x, y):
    return lax.cond(p, lambda x, y: (jnp.sin(x) * y, x), lambda x, y: (x * x, y + 1), x, y)


def np_branch(p, x, y):
    return (np.sin(x) * y, x) if p else (x * x, y + 1)


def pick(i, x):
    return lax.switch(i, [lambda x: x, lambda x: 2 * x, lambda x: x[::-1]], x)


def np_pick(i, x):
    return [x, 2 * x, x[::-1]][min(max(int(i), 0), 2)]


def recur(w, c, xs):
    """A scan with a constant, a carry of two kinds (a counter and a value) and stacked results."""

    def body(carry, x):
        i, c = carry
        return (i + 1, jnp.sin(c * w + x) + i.astype(c.dtype)), (c * x, c)

    (_, c), (a, b) = scan(body, (np.int32(0), c), xs)
    return c, a, b


def np_recur(w, c, xs):
    a, b = [], []
    for i, x in enumerate(xs):
        a.append(c * x)
        b.append(c)
        c = np.sin(c * w + x) + i
    empty = np.zeros((0, *np.shape(c)))
    return c, np.stack(a) if a else empty, np.stack(b) if b else empty


def mixed(w, x):
    """Linear in x: its carry mixes a counter, a product of counters (not linear) and a vector (linear)."""

    def body(carry, a):
        i, p, v = carry
        return (i + 1, p * w + i.astype(w.dtype), v * p + a), v * i.astype(w.dtype)

    (_, p, v), ys = scan(body, (np.int32(1), w, 2 * x[0]), x, reverse=True)
    return v, ys


def np_mixed(w, x):
    i, p, v, ys = 1, w, 2 * x[0], []
    for a in x[::-1]:
        ys.append(v * i)
        i, p, v = i + 1, p * w + i, v * p + a
    return v, np.stack(ys[::-1])


def power(n, x):
    return (
        lax.fori_loop(0, 3, lambda i, c: c * x + i, x)
        if n is None
        else while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, jnp.sin(c[1]) * x), (np.int32(0), x))[1]
    )


def np_power(n, x):
    c = x
    for _ in range(n):
        c = np.sin(c) * x
    return c


def np_fori(x):
    c = x
    for i in range(3):
        c = c * x + i
    return c


def doubled(x):
    return lax.fori_loop(0, 3, lambda i, c: c * (i + 1), x)


def grow(x):
    return while_loop(lambda c: jnp.sum(jnp.abs(c)) < 50.0, lambda c: c * 2, x)


def np_grow(x):
    while np.abs(x).sum() < 50.0:
        x = x * 2
    return x


CONTROL = {
    "cond": [
        Case(branch, (bools(), typed(3), typed(3)), np_branch, **LOOSE),
        Case(pick, (ints(lo=-1, hi=4), typed(3)), np_pick, name="switch", linear=((1,),), dtypes=of_kinds("fi")),
    ],
    "scan": [
        Case(recur, (typed(2), typed(2), typed(3, 2)), np_recur, **LOOSE),
        Case(recur, (typed(2), typed(2), typed(0, 2)), np_recur, name="no steps", **LOOSE),
        Case(mixed, (typed(), typed(3, 2)), np_mixed, name="a carry of linear and other parts", linear=((1,),), **LOOSE),
        Case(lambda x: power(None, x), (typed(3),), np_fori, name="fori_loop", **LOOSE),
        Case(doubled, (typed(3),), lambda x: 6 * x, name="a linear fori_loop", linear=((0,),)),
    ],
    "while": [
        Case(power, (ints(lo=0, hi=4), typed(3)), np_power, name="a counted loop", modes=("fwd",), **LOOSE),
        Case(grow, (typed(3, lo=0.5, hi=1.0),), np_grow, name="until it is large", modes=("fwd",)),
    ],
}

# --- collectives ------------------------------------------------------------------------------------------------------


def _collective(fun, ref, shape=(3, 2), in_axes=0, **kw):
    kw = dict(dtypes=of_kinds("fiu"), ulps=16) | kw
    return Case(fgrad.vmap(fun, in_axes=in_axes, axis_name="i"), (typed(*shape),), ref, **kw)


def np_axis_index(x):
    return np.arange(len(x), dtype=np.int32)


COLLECTIVES = {
    "psum": [
        _collective(lambda x: collective.psum_leaf(x, "i"), lambda x: np.broadcast_to(x.sum(0, dtype=x.dtype), x.shape), linear=((0,),)),
        _collective(
            lambda x: jnp.sin(x) * collective.psum_leaf(x * x, "i"), lambda x: np.sin(x) * (x * x).sum(0), dtypes=of_kinds("f"), name="used"
        ),
    ],
    "pmax": [_collective(lambda x: collective.pmax_leaf(x, "i"), lambda x: np.broadcast_to(x.max(0), x.shape), ulps=0)],
    "all_gather": [
        _collective(
            lambda x: collective.all_gather_leaf(x, "i"),
            lambda x: np.broadcast_to(x, (len(x), *x.shape)),
            linear=((0,),),
            dtypes=of_kinds("fiub"),
            ulps=0,
        )
    ],
    "axis_index": [
        _collective(lambda x: collective.axis_index("i"), np_axis_index, out=np.int32, wrt=(), ulps=0),
        _collective(
            lambda x: jnp.sin(x) * collective.axis_index("i").astype(x.dtype),
            lambda x: np.sin(x) * np.arange(3)[:, None],
            name="used",
            dtypes=of_kinds("f"),
        ),
    ],
}

ROWS = {**CALLS, **CONTROL, **COLLECTIVES}
