"""How often loops, branches and their like trace their functions: once per function object and types, as in JAX."""

import functools
import gc
import weakref

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax

X = jnp.arange(3.0)
ZERO = jnp.float32(0)


def counted(f):
    def g(*args):
        g.n += 1
        return f(*args)

    g.n = 0
    return g


BODY = lambda c, x: (c + x, c)
EACH = {
    "scan": (BODY, lambda f: lax.scan(f, ZERO, X)),
    "scan_unrolled": (BODY, lambda f: lax.scan(f, ZERO, X, unroll=2)),
    "while_body": (lambda s: s + 1, lambda f: lax.while_loop(lambda s: s < 3, f, ZERO)),
    "while_cond": (lambda s: s < 3, lambda f: lax.while_loop(f, lambda s: s + 1, ZERO)),
    "fori": (lambda i, s: s + i, lambda f: lax.fori_loop(0, 3, f, ZERO)),
    "fori_traced": (lambda i, s: s + i, lambda f: lax.fori_loop(0, jnp.int32(3), f, ZERO)),
    "cond": (lambda s: s + 1, lambda f: lax.cond(True, f, lambda s: s, ZERO)),
    "switch": (lambda s: s + 1, lambda f: lax.switch(1, [f, f, lambda s: s], ZERO)),
    "checkpoint": (lambda s: s + 1, lambda f: fgrad.checkpoint(f)(ZERO)),
    "eval_shape": (lambda s: s + 1, lambda f: fgrad.eval_shape(f, ZERO)),
    "make_jaxpr": (lambda s: s + 1, lambda f: fgrad.make_jaxpr(f)(ZERO)),
}


@pytest.mark.parametrize("name", EACH)
def test_one_trace_of_a_function(name):
    body, call = EACH[name]
    f = counted(body)
    for _ in range(3):
        call(f)
    assert f.n == 1
    if name not in ("eval_shape", "make_jaxpr"):
        fgrad.jit(lambda: call(f))()
        assert f.n == 1
    fgrad.clear_caches()
    call(f)
    assert f.n == 2


def test_other_types_are_traced_anew():
    f, seen = counted(BODY), []
    for n in (3, 4, 3, 4):
        lax.scan(f, jnp.zeros(n), jnp.ones((2, n)))
        seen.append(f.n)
    for init in (0, 0, ZERO):
        lax.scan(f, init, X)
        seen.append(f.n)
    assert seen == [1, 2, 2, 2, 4, 4, 4]  # an integer becomes a float32


def test_under_transformations():
    f = counted(lambda c, x: (c + jnp.sin(x), c))
    loss = lambda x: lax.scan(f, ZERO, x)[0]
    for transform in (fgrad.grad, fgrad.jit, fgrad.hessian, fgrad.make_jaxpr, lambda g: lambda x: fgrad.vmap(g)(jnp.stack([x, x]))):
        transform(loss)(X)
    assert f.n == 1


def test_axis_sizes_and_settings_are_told_apart():
    f, seen = counted(lambda c, x: (c + lax.psum(1, "i"), c)), []
    for n in (2, 3, 2):
        seen.append(fgrad.vmap(lambda x: lax.scan(f, 0, x)[0], axis_name="i")(jnp.ones((n, 3)))[0])
    assert [int(x) for x in seen] == [6, 9, 6] and f.n == 2
    g = lambda c, x: (c, jnp.arange(2.0))
    with fgrad.enable_x64():
        assert lax.scan(g, 0, None, length=2)[1].dtype == "float64"
    assert lax.scan(g, 0, None, length=2)[1].dtype == "float32"


def test_what_a_function_closes_over():
    for k in (1.0, 2.0, 3.0):  # another function each time
        assert float(lax.scan(lambda c, x, k=k: (c + x * k, None), 0.0, X)[0]) == 3 * k
    state = {}
    f = counted(lambda c, x: (c * state["w"] + x, c))

    def loss(w):
        state["w"] = w
        return lax.scan(f, jnp.float32(1), X)[0]

    for transform in (fgrad.grad, fgrad.jit, fgrad.grad):  # a tracer whose trace has ended is not used again
        assert float(transform(lambda w: loss(w))(2.0)) == (13 if transform is fgrad.grad else 12)

    @fgrad.jit
    def twice(y, x):
        g = counted(lambda c, x: (c + x * y, None))
        out = lax.scan(g, lax.scan(g, ZERO, x)[0], x)[0]
        assert g.n == 1
        return out

    assert float(twice(2.0, X)) == 12


def test_an_error_is_raised_again_and_not_kept():
    @counted
    def f(c, x):
        if f.n < 3:
            raise ValueError("not yet")
        return c + x, c

    for _ in range(2):
        with pytest.raises(ValueError, match="not yet"):
            lax.scan(f, ZERO, X)
    assert float(lax.scan(f, ZERO, X)[0]) == 3
    for _ in range(2):
        with pytest.raises(TypeError, match="equal types"):
            lax.scan(lambda c, x: (c > 0, None), ZERO, X)


def test_functions_go_when_they_are_dropped():
    big = jnp.ones(10)
    f = lambda c, x: (c + big, c)
    dead = weakref.ref(f)
    gc.disable()
    try:
        lax.scan(f, jnp.zeros(10), X)
        lax.cond(True, f, f, big, 2.0)
        fgrad.eval_shape(f, big, 1.0)
        lax.fori_loop(0, 3, g := lambda i, c: c + big, big)
        dead_too = weakref.ref(g)
        del f, g
        assert dead() is None and dead_too() is None
    finally:
        gc.enable()


def test_partials_and_wrapped_functions():
    f = counted(lambda a, c, x: (c + x * a, c))
    p = functools.partial(f, 2.0)
    assert [float(lax.scan(p, 0.0, X)[0]) for _ in range(2)] == [6, 6] and f.n == 1
    assert float(lax.scan(functools.partial(f, 3.0), 0.0, X)[0]) == 9

    def inner(c, x):
        return c + x, None

    lax.scan(inner, 0.0, X)
    wrapped = functools.wraps(inner)(lambda c, x: (c - x, None))
    assert float(lax.scan(wrapped, 0.0, X)[0]) == -3


def test_static_arguments_of_checkpoint():
    f = counted(lambda x, k: x * k)
    g = fgrad.checkpoint(f, static_argnums=1)
    assert [float(g(2.0, k)) for k in (3, 4, 3, 4.0)] == [6, 8, 6, 8] and f.n == 3
    np.testing.assert_array_equal(fgrad.checkpoint(lambda x, k: x * len(k), static_argnums=1)(2.0, [1, 2]), 4.0)


def test_mutable_arrays_of_a_body():
    r = fgrad.new_ref(ZERO)

    def body(c, x):
        r[...] += x
        return c, None

    for n in (1, 2):
        lax.scan(body, None, X)
        assert float(r[...]) == 3 * n
    fgrad.jit(lambda: lax.scan(body, None, X))()
    assert float(r[...]) == 9


def test_eval_shape_of_structs_is_no_jaxpr():
    f = lambda x: fgrad.ShapeDtypeStruct((2,), "int32")
    assert fgrad.eval_shape(f, 1.0).dtype == "int32"
    with pytest.raises(TypeError, match="not an array"):
        fgrad.make_jaxpr(f)(1.0)
