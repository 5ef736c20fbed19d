"""What a first call leaves alone and shares: generations of the garbage collector, parameters of equations, slots of programs."""

import gc
import subprocess
import sys

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp


def chain(x):
    for i in range(400):
        x = jnp.sin(x) + float(i)
    return x


def test_a_first_call_collects_what_it_made_alone():
    x, before, seen = jnp.ones(8), gc.get_threshold(), []
    fgrad.jit(lambda x: x + 1)(x)
    note = lambda phase, info: phase == "start" and seen.append(info["generation"])
    gc.set_threshold(700, 2, 2)
    for _ in range(4):  # the turn of an older generation has come
        gc.collect(0)
    gc.callbacks.append(note)
    try:
        fgrad.jit(chain)(x)
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)
    assert seen == [0]


def test_collections_that_are_off_stay_off():
    enabled, seen = gc.isenabled(), []
    note = lambda phase, info: seen.append(phase)
    gc.disable()
    gc.callbacks.append(note)
    try:
        fgrad.jit(lambda x: chain(x) * 2)(jnp.ones(8))
        assert not gc.isenabled()
    finally:
        gc.callbacks.remove(note)
        if enabled:
            gc.enable()
    assert not seen


def test_equations_that_are_alike_share_their_parameters():
    total = lambda x: fgrad.lax.reduce_sum_p.bind(x, axes=(0,))
    eqns = fgrad.make_jaxpr(lambda x: (total(x), total(x)))(jnp.ones((2, 3))).eqns
    assert eqns[0].params is eqns[1].params


def test_parameters_that_are_equal_but_differ_are_kept_apart():
    x, i = jnp.ones(3), jnp.array([7])
    take = lambda x, fill: jnp.take(x, i, mode="fill", fill_value=fill)
    plus, minus = fgrad.jit(lambda x: (take(x, 0.0), take(x, -0.0)))(x)
    assert not np.signbit(plus) and np.signbit(minus)


def test_runs_of_one_program_at_once_have_slots_of_their_own():
    @fgrad.jit
    def f(x, n):
        y = jnp.cumsum(x) * 2
        inner = fgrad.pure_callback(lambda x, n: np.asarray(f(x, n - 1)) if n > 0 else np.zeros(5, np.float32), x, x, n)
        return y + inner

    x = jnp.arange(5.0)
    for _ in range(2):
        for n in (3, 0, 2):
            assert np.allclose(f(x, jnp.int32(n)), (n + 1) * 2 * np.cumsum(np.arange(5.0)))


def test_labels_name_operations_and_shapes():
    x, w = jnp.ones((4, 8)), jnp.ones((8, 3))
    ran = fgrad.jit(lambda x, w: jnp.tanh(x @ w) + 1).lower(x, w).compile().profile(x, w)
    assert sorted(what for _, what in ran) == ["dot [1, 4, 8] [1, 8, 3] [1, 4, 3]", "tanh+add [4, 3]"]
    (_, what), *_ = fgrad.jit(chain).lower(x).compile().profile(x)
    assert what == "sin+add+sin+add+sin+add+sin+add+sin+add+sin+add+... [4, 8]"


def test_a_first_call_imports_nothing():
    """On arrays of NumPy, whose masked arrays are a module of 10 ms that NumPy imports when it is asked for."""
    code = """
import sys
import fgrad, fgrad.numpy as jnp
import numpy as np
x, before = np.ones((3, 3), np.float32), set(sys.modules)
fgrad.jit(fgrad.grad(lambda x: jnp.sum(jnp.tanh(x @ x))))(x)
jnp.array(x) * np.float32(2)
print(sorted(set(sys.modules) - before))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.stdout.strip(), run.returncode) == ("[]", 0), run.stderr


def test_masked_arrays_are_told_from_plain_ones():
    with pytest.raises(ValueError, match="masked"):
        fgrad.jit(lambda x: x + 1)(np.ma.masked_array(np.ones(3, np.float32), [True, False, True]))
