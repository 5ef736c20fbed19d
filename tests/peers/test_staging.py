"""What one sees of staging: the text of jaxprs, eval_shape, when jit traces again; how arrays print."""

import re

import numpy as np
import pytest

import fgrad
from tests.peers.compare import assert_same

pytestmark = pytest.mark.peers
jax = pytest.importorskip("jax")

JAXPRS = {
    "arithmetic": (lambda j, x, y: j.lax.add(j.lax.mul(x, y), j.lax.sin(x)), (3,), (3,)),
    "literal": (lambda j, x: j.lax.mul(x, 2.0), ()),
    "reduction": (lambda j, x: j.lax.reduce_max(x, (0,)), (3, 2)),
    "shapes": (lambda j, x: j.lax.transpose(j.lax.reshape(x, (2, 3)), (1, 0)), (6,)),
    "broadcast": (lambda j, x: j.lax.broadcast_in_dim(x, (2, 3), (1,)), (3,)),
    "outputs": (lambda j, x, y: (y, x, j.lax.neg(x)), (), (2,)),
    "empty": (lambda j, x: x, (2,)),
    "integer_pow": (lambda j, x: j.lax.integer_pow(x, 3), (2,)),
    "slices": (lambda j, x: j.lax.rev(j.lax.slice(x, (1,), (3,)), (0,)), (4,)),
    "compare": (lambda j, x, y: j.lax.gt(x, y), (2,), (2,)),
    "cumsum": (lambda j, x: j.lax.cumsum(x, 0), (4,)),
    "unary_chain": (lambda j, x: j.lax.exp(j.lax.tanh(j.lax.log(x))), (2,)),
    "jvp": (lambda j, x: j.jvp(j.lax.cos, (x,), (x,)), ()),
    "vmap": (lambda j, x: j.vmap(j.lax.neg)(x), (3,)),
    "many_names": (lambda j, x: _sines(j, x, 30), ()),
}


def _sines(j, x, n):
    for _ in range(n):
        x = j.lax.sin(x)
    return x


@pytest.mark.parametrize("name", JAXPRS)
def test_jaxpr_text(name):
    fun, *shapes = JAXPRS[name]
    ours, theirs = (str(j.make_jaxpr(lambda *a, j=j: fun(j, *a))(*[j.numpy.ones(s) for s in shapes])) for j in (fgrad, jax))
    assert plain(ours) == plain(theirs), f"{ours}\nJAX prints\n{theirs}"


def plain(text):
    """Without line breaks and without parameters that say nothing about the value."""
    words = text.split()
    text = re.sub(r"\[ ", "[", " ".join(words))
    text = re.sub(r"\b(sharding|accuracy|dimensions|strides|out_sharding)=None *|strides=\(1,\) *| *\bshape=\([0-9, ]*\) *", "", text)
    return re.sub(r" *\]", "]", text).replace("[]", "")


ARRAYS = [
    np.float32(1.5),
    np.arange(3),
    np.arange(6.0, dtype=np.float32).reshape(2, 3),
    np.array([True, False]),
    np.array([1 + 2j], np.complex64),
    np.zeros((0, 3), np.float32),
    np.linspace(0, 1, 2000, dtype=np.float32),
    np.array([1e-10, 1e10, np.nan, np.inf], np.float32),
    np.arange(4, dtype=np.uint8),
    np.ones((2, 2, 2), np.float16),
    3,
    2.5,
    1j,
    True,
]


@pytest.mark.parametrize("i", range(len(ARRAYS)))
def test_repr(i):
    ours, theirs = fgrad.numpy.asarray(ARRAYS[i]), jax.numpy.asarray(ARRAYS[i])
    assert repr(ours) == repr(theirs)
    assert str(ours) == str(theirs)


def test_repr_of_bfloat16_and_shape_structs():
    assert repr(fgrad.numpy.ones(2, "bfloat16")) == repr(jax.numpy.ones(2, "bfloat16"))
    ours, theirs = (j.eval_shape(lambda x: x, j.ShapeDtypeStruct((2, 3), "int32")) for j in (fgrad, jax))
    assert repr(ours).replace("dtype=int32", "") == repr(theirs).replace("dtype=int32", "")


EVAL_SHAPE = {
    "matmul": (lambda j, x: x @ x.T, (2, 3)),
    "tree": (lambda j, x: {"a": x.sum(0), "b": (x > 0, None), "c": 3, "d": 2.0}, (2, 3)),
    "scan": (lambda j, x: j.lax.scan(lambda c, v: (c + v.sum(), v * 2), 0.0, x), (4, 2)),
    "grad": (lambda j, x: j.value_and_grad(lambda x: (x**2).sum())(x), (4, 2)),
    "vmap": (lambda j, x: j.vmap(lambda v: v[None] * 2, out_axes=1)(x), (4, 2)),
    "top_k": (lambda j, x: j.lax.top_k(x, 2), (4, 3)),
    "random": (lambda j, x: j.random.uniform(j.random.key(0), x.shape), (4, 3)),
}


@pytest.mark.parametrize("name", EVAL_SHAPE)
def test_eval_shape(name):
    fun, shape = EVAL_SHAPE[name]
    ours, theirs = (j.eval_shape(lambda x, j=j: fun(j, x), j.ShapeDtypeStruct(shape, "float32")) for j in (fgrad, jax))
    kinds = [[(x.shape, str(x.dtype), x.weak_type) for x in j.tree.leaves(t)] for j, t in ((fgrad, ours), (jax, theirs))]
    assert kinds[0] == kinds[1]
    assert_same(fgrad.tree.map(lambda x: 0, ours), jax.tree.map(lambda x: 0, theirs), name)


def _calls(j):
    """Arguments for one jitted function, in turn: each may need a new trace."""
    jnp = j.numpy
    return [
        ((jnp.ones(3),), {}),
        ((jnp.zeros(3),), {}),
        ((np.ones(3, np.float32),), {}),
        ((jnp.ones(4),), {}),
        ((jnp.arange(3),), {}),
        ((1.0,), {}),
        ((2.0,), {}),
        ((jnp.float32(1),), {}),
        ((1,), {}),
        ((True,), {}),
        (({"a": jnp.ones(3)},), {}),
        (({"a": jnp.ones(3), "b": None},), {}),
        (([jnp.ones(3)],), {}),
        (((jnp.ones(3),),), {}),
        ((), {"x": jnp.ones(3)}),
        ((jnp.ones(3), 2.0), {}),
        ((jnp.ones(3),), {"k": 2.0}),
        ((jnp.ones(3),), {"k": 3.0}),
        ((jnp.ones(3), 5.0), {}),
        ((jnp.ones(3),), {}),
        ((np.float32(1),), {}),
        ((np.float64(1),), {}),
        ((np.arange(3),), {}),
    ]


def _trace_counts(j, **options):
    count = [0]

    def f(x, k=1.0):
        count[0] += 1
        return j.tree.map(lambda v: v * 2, x)

    jitted, seen = j.jit(f, **options), []
    for args, kwargs in _calls(j):
        jitted(*args, **kwargs)
        seen.append(count[0])
    return seen


def test_jit_traces_again_when_jax_does():
    assert _trace_counts(fgrad) == _trace_counts(jax)


def test_static_arguments_trace_again_when_they_differ():
    def counts(j):
        count = [0]

        def f(x, n, mode="a"):
            count[0] += 1
            return x * n

        jitted, x, seen = j.jit(f, static_argnums=1, static_argnames="mode"), j.numpy.ones(2), []
        for args, kw in [
            ((x, 2), {}),
            ((x, 2), {}),
            ((x, 3), {}),
            ((x, 2.0), {}),
            ((x, True), {}),
            ((x, 1), {}),
            ((x, 2), {"mode": "b"}),
            ((x, 2), {"mode": "b"}),
        ]:
            jitted(*args, **kw)
            seen.append(count[0])
        return seen

    assert counts(fgrad) == counts(jax)


def test_two_jits_of_one_function_and_clear_cache():
    def counts(j):
        count = [0]

        def f(x):
            count[0] += 1
            return x

        a, x = j.jit(f), j.numpy.ones(2)
        a(x)
        a(x)
        first = count[0]
        a.clear_cache()
        a(x)
        return first, count[0]

    assert counts(fgrad)[0] == counts(jax)[0] == 1
    assert counts(fgrad)[1] >= 1
