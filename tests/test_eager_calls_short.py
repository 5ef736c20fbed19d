"""Eager calls that take no detour: random functions of both kinds of keys, what a recording writes down as one operation, long lists."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import random
from fgrad.transforms.recorded import Recorded

DRAWS = {
    "normal": lambda k: random.normal(k, (2, 3)),
    "normal of no shape": lambda k: random.normal(k),
    "normal by name": lambda k: random.normal(key=k, shape=(4,), dtype=jnp.float16),
    "complex": lambda k: random.normal(k, [3], complex),
    "uniform": lambda k: random.uniform(k, (3,)),
    "uniform between": lambda k: random.uniform(k, (3,), minval=-2.0, maxval=5.0),
    "uniform between ints": lambda k: random.uniform(k, (3,), minval=-2, maxval=5),
    "bits": lambda k: random.bits(k, (3,)),
    "exponential": lambda k: random.exponential(k, 3),
    "gumbel": lambda k: random.gumbel(k, (3,), mode="high"),
    "laplace": lambda k: random.laplace(k, (3,)),
    "logistic": lambda k: random.logistic(k, (3,)),
    "randint": lambda k: random.randint(k, (5,), 0, 10),
    "randint of large bounds": lambda k: random.randint(k, (5,), -(2**31), 2**31 - 1),
    "randint of bytes": lambda k: random.randint(k, (5,), 0, 255, jnp.uint8),
    "bernoulli": lambda k: random.bernoulli(k, 0.3, (9,)),
    "permutation": lambda k: random.permutation(k, 12),
    "split": lambda k: random.key_data(random.split(k)),
    "split thrice": lambda k: random.key_data(random.split(k, 3)),
    "split to a shape": lambda k: random.key_data(random.split(k, (2, 2))),
    "fold_in": lambda k: random.key_data(random.fold_in(k, 2**31 + 5)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_do_not_depend_on_how_they_are_called(name):
    """With keys of both kinds, called again, jitted and mapped."""
    draw = DRAWS[name]
    want = np.asarray(fgrad.jit(draw)(random.PRNGKey(3)))
    for _ in range(3):
        for key in (random.key(3), random.PRNGKey(3), np.array([0, 3], np.uint32)):
            out = draw(key)
            assert out.dtype == want.dtype and np.asarray(out).tobytes() == want.tobytes()
    mapped = fgrad.vmap(draw)(random.split(random.key(0), 2))
    assert mapped.shape == (2, *want.shape)


def test_keys_stay_typed_and_errors_name_the_function():
    for _ in range(3):
        a, b = random.split(random.key(0))
        assert a.dtype == random.key(0).dtype and isinstance(b, random.KeyArray)
        assert type(random.split(random.PRNGKey(0))) is type(jnp.zeros(1))
    several = random.split(random.key(0), 3)
    for bad, error in ((jnp.zeros(2), TypeError), (several, ValueError), (random.key_data(several), ValueError)):
        for call in (random.normal, random.uniform, random.split, random.bits, lambda k: random.permutation(k, 3)):
            with pytest.raises(error, match="normal|uniform|split|bits|permutation"):
                call(bad)
    with pytest.raises(ValueError, match="float dtype"):
        random.uniform(random.key(0), (3,), int)
    with pytest.raises(ValueError, match="non-negative"):
        random.normal(random.key(0), (-1,))


RECORDED = {
    "an element": (lambda x: x[1] * x[2] ** 2, 4),
    "a part": (lambda x: (x[1:] * x[:-1]).sum(), 4),
    "a row": (lambda x: x.reshape(2, 3)[1, ::2].sum(), 3),
    "elements together": (lambda x: jnp.array([x[0] * x[1], jnp.sin(x[2]), 2.0]).sum(), 7),
    "an update": (lambda x: (x.at[0].set(2.0) ** 2).sum(), 3),
    "an update by itself": (lambda x: (x.at[1:3].add(x[3:5]) ** 2).sum(), 4),
    "what comes apart": (lambda x: (lambda a, b, c: a * b + c)(*x[:3]), 6),
}


@pytest.mark.parametrize("name", RECORDED)
def test_moves_are_one_operation_of_a_recording(name):
    f, operations = RECORDED[name]
    x = jnp.linspace(0.5, 2.0, 6)
    want = np.asarray(fgrad.jit(fgrad.grad(f))(x))
    for _ in range(5):
        np.testing.assert_allclose(fgrad.grad(f)(x), want, rtol=1e-6)
    records = Recorded(lambda x: [f(x)], [x]).trace.recording.records
    assert len(records) == operations
    np.testing.assert_allclose(fgrad.hessian(f)(x), fgrad.jit(fgrad.hessian(f))(x), rtol=1e-5, atol=1e-6)


def test_long_lists_are_read_as_short_ones():
    r = np.random.default_rng(0)
    for dtype in ("float32", "int32", "bool"):
        x = (5 * r.standard_normal((700, 3))).astype(dtype)
        out = jnp.array(x.tolist())
        assert out.dtype == dtype and out.tolist() == x.tolist() and jnp.asarray(x.tolist(), dtype).tolist() == x.tolist()
    mixed = [1, 2.5] * 1000
    assert jnp.array(mixed).dtype == "float32" and jnp.array(mixed).tolist() == mixed
    with pytest.raises(ValueError, match="rectangular"):
        jnp.array([[1.0] * 3] * 500 + [[1.0]])
    with pytest.raises(OverflowError):
        jnp.array([1] * 2000 + [2**40])
