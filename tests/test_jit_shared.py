"""Jitted forms of one function share what was traced."""

import functools
import gc
import pickle
import weakref

import numpy as np

import fgrad
import fgrad.numpy as jnp


def counted():
    count = [0]

    def f(x, n=1):
        count[0] += 1
        return x * n

    return f, count


def test_jit_of_the_same_function_traces_once_per_signature_and_options():
    f, count = counted()
    x = jnp.ones(2)
    for _ in range(3):
        assert float(fgrad.jit(f)(x)[0]) == 1
    assert count[0] == 1 == fgrad.jit(f)._cache_size()
    fgrad.jit(f)(jnp.ones(3))
    fgrad.grad(lambda x: fgrad.jit(f)(x).sum())(x)
    assert count[0] == 2
    for n in (2, 3, 2):
        assert float(fgrad.jit(f, static_argnums=1)(x, n)[1]) == n
    assert count[0] == 4
    fgrad.jit(f).clear_cache()
    fgrad.jit(f)(x)
    fgrad.jit(f, static_argnums=1)(x, 2)
    assert count[0] == 5
    fgrad.clear_caches()
    fgrad.jit(f)(x)
    assert count[0] == 6


def test_partials_and_jitted_functions_too():
    f, count = counted()
    for g in (functools.partial(f, n=2), fgrad.jit(f, static_argnums=1)):
        before = count[0]
        assert [fgrad.jit(g)(3.0) == g(3.0) for _ in range(3)] == [True] * 3
        assert pickle.dumps(g.__dict__["_kept"])
    assert count[0] == before + 1


def test_wrappers_that_copy_a_functions_attributes_are_other_functions():
    f, _ = counted()
    assert float(fgrad.jit(f)(2.0)) == 2
    wrapped = functools.wraps(f)(lambda x: f(x) + 1)
    assert float(fgrad.jit(wrapped)(2.0)) == 3
    assert float(fgrad.jit(f)(2.0)) == 2
    assert float(fgrad.jit(fgrad.jit(wrapped))(2.0)) == 3
    assert pickle.loads(pickle.dumps(f.__dict__)).keys() == f.__dict__.keys()


def test_programs_go_with_the_function():
    def use():
        big = np.ones(1000)
        f = lambda x: x + big
        fgrad.jit(f)(jnp.ones(1000))
        return weakref.ref(f), weakref.ref(fgrad.jit(f)._programs)

    refs = use()
    gc.collect()
    assert [r() for r in refs] == [None, None]


def test_mutable_arrays_that_shared_programs_touch():
    ref = fgrad.new_ref(jnp.zeros(()))

    def f(x):
        ref[...] += x
        return ref[...]

    assert [float(fgrad.jit(f)(2.0)) for _ in range(3)] == [2, 4, 6]
    assert float(ref[...]) == 6
