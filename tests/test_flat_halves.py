"""Flat code of 16-bit floats: machine code, the interpreter and the ordinary path give the same numbers."""

import numpy as np
import pytest

import fgrad
import fgrad.lax as lax
import fgrad.numpy as jnp
from tests.drawn_loops import drawn_loop
from tests.test_flat import flat_ops
from tests.test_machine import check, leaves, same

TYPES = [jnp.bfloat16, jnp.float16]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504.0, 3.4e38, 6e-8, 1e-40, -1e-40, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11, 2049.0]
OPERATIONS = {
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - b,
    "product": lambda a, b: a * b,
    "quotient": lambda a, b: a / b,
    "chain": lambda a, b: (a * b - b) * a + 1,
    "maximum": jnp.maximum,
    "sign": lambda a, b: -a,
    "abs": lambda a, b: jnp.abs(a),
    "copysign": jnp.copysign,
    "sqrt": lambda a, b: jnp.sqrt(jnp.abs(a)) - jnp.floor(b),
    "tanh": lambda a, b: jnp.tanh(a) + jnp.exp(-jnp.abs(b)),
    "where": lambda a, b: jnp.where(a < b, a, b + b),
    "mask": lambda a, b: jnp.where((a > b) & (a != 1), b, a).astype(a.dtype),
    "rounded": lambda a, b: (a.astype(jnp.float32) * b.astype(jnp.float32)).astype(a.dtype).astype(jnp.float32).astype(a.dtype) + b,
    "other": lambda a, b: (a.astype(jnp.float32) * 1.001).astype(jnp.float16).astype(jnp.bfloat16).astype(a.dtype),
    "whole": lambda a, b: a.astype(jnp.int32).astype(a.dtype) + (b > 0).astype(a.dtype),
    "moved": lambda a, b: jnp.concatenate([b[:1], a[:-1]]) + jnp.roll(a, -1) + b[::-1],
    "padded": lambda a, b: a.at[1:].add(b[:-1]).at[0].set(b[-1]),
    "put": lambda a, b: a.at[b[0].astype(jnp.int32) % a.shape[0]].add(a[-1]),
    "largest": lambda a, b: a * 0.5 + a.max() + b.min(),
    "first": lambda a, b: a + lax.argmax(b + a, 0, jnp.int32).astype(a.dtype),
    "number": lambda a, b: a * b[0] + a[-1],
}


@pytest.mark.parametrize("n", [1, 2, 5, 16, 17, 33, 64, 100, 300])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name, n):
    for dtype in TYPES:
        rng = np.random.default_rng(n)
        x, y = (jnp.asarray(rng.normal(size=n) * 2).astype(dtype) for _ in range(2))
        ys = jnp.asarray(rng.normal(size=(4, n))).astype(dtype)
        step = lambda c, v, y=y: ((new := OPERATIONS[name](c, y) + v), new * 2)  # noqa: E731
        exact(lambda x, ys, step=step: lax.scan(step, x, ys), (x, ys))
        exact(lambda x, y: lax.fori_loop(0, 5, lambda i, c: OPERATIONS[name](c, y), x), (x, y))
        if n == 1:
            exact(lambda x, y: lax.fori_loop(0, 5, lambda i, c: OPERATIONS[name](c[None], y)[0] + y[0], x[0]), (x, y))


def exact(fun, args):
    """fun's results as machine code, by the interpreter and without flat code: the same bits."""
    run = lambda: leaves(fgrad.jit(lambda *a: fun(*a))(*args))  # noqa: E731
    got = run()
    for option in ("pass_machine", "pass_flat"):
        with fgrad.config.override(option, False):
            assert all(same(a, b) for a, b in zip(got, run(), strict=True)), option


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("dtype", TYPES)
def test_special_values(dtype, n):
    """As vectors, as numbers and as rows: rounding of NaN, of what is too large, of subnormal numbers and of ties."""
    x = jnp.asarray(np.array(SPECIAL * (n or 1), np.float32))

    def vectors(c, v):
        return (x * v).astype(dtype), ((x + v).astype(dtype), (x - c).astype(dtype))

    def numbers(c, v):
        return v.astype(dtype), (v.astype(dtype) * c, -c, (v * 3).astype(dtype).astype(jnp.float32))

    exact(lambda x: lax.scan(vectors if n else numbers, (x if n else x[0]).astype(dtype), x), (x,))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shapes", [((3, 3), (3, 3)), ((2, 4), (4,)), ((4, 2), (2, 3)), ((9,), (9,)), ((50,), (50,)), ((16, 16), (16,))])
def test_products(dtype, shapes):
    rng = np.random.default_rng(0)
    a, b = (jnp.asarray(rng.integers(-3, 4, s)).astype(dtype) for s in shapes)  # sums are exact in any order
    exact(lambda a, b: lax.fori_loop(0, 3, lambda i, c: c * 0 + a @ (b + c.sum() * 0), a @ b), (a, b))
    wide = lambda a, b: jnp.matmul(a, b, preferred_element_type=jnp.float32)  # noqa: E731
    exact(lambda a, b: lax.fori_loop(0, 3, lambda i, c: c * 0 + wide(a, b + c.sum().astype(dtype) * 0), wide(a, b)), (a, b))


@pytest.mark.parametrize("first", range(0, 240, 24))
def test_drawn_loops(first):
    for seed in range(first, first + 24):
        fun, args = drawn_loop(seed, half=True)
        check(fun, fgrad.tree_util.tree_map(jnp.asarray, args), ordinary=False)


@pytest.mark.parametrize("shape", [(), (10,)])
def test_a_turn_widens_and_rounds_inline(shape):
    """A run of the VM would be one op, however much it computes."""

    def count(dtype):
        jitted, x = fgrad.jit(lambda x: lax.fori_loop(0, 9, lambda i, c: c * 0.9 + 0.1, x)), jnp.ones(shape, dtype)
        jitted(x)
        return flat_ops(jitted, x)

    assert [count(t) for t in TYPES] == [count(jnp.float32) + 2] * 2
