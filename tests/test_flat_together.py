"""Functions of single numbers of which none waits for another are one call in flat code: the bits of the ordinary path."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax, nn
from tests.test_flat import flat_ops, same_bits

FUNCTIONS = [jnp.exp, jnp.log1p, jnp.tanh, nn.sigmoid, jnp.sin, jnp.cos, lax.erf, jnp.expm1, jnp.exp2, lambda x: jnp.log(jnp.abs(x) + 0.5)]


def steps(step, *carry):
    return lax.fori_loop(0, 20, lambda i, c: step(i, *c), carry)


@pytest.mark.parametrize("count", [2, 3, 7, 8, 9, 17, 33])
@pytest.mark.parametrize("which", range(len(FUNCTIONS)))
def test_functions_of_many_numbers(which, count):
    f, by = FUNCTIONS[which], np.linspace(0.1, 1.3, count, dtype=np.float32)

    def step(i, x, y):
        each = [f(x * b + y * 0.1) for b in by]
        return sum(e * (b - 0.5) for e, b in zip(each, by)) * 0.1, each[-1] - 0.2 * each[0]

    for start in (0.3, 1e-30, np.nan, 1e9):
        same_bits(lambda x: steps(step, x, x * 0.5), jnp.float32(start))


@pytest.mark.parametrize("seed", range(20))
def test_drawn_programs(seed):
    """Several functions, each of what some before have given; results and carries among them."""
    rng = np.random.default_rng(seed)
    chosen = [FUNCTIONS[k] for k in rng.choice(len(FUNCTIONS), 3)]
    draws = [(rng.integers(3), *rng.integers(0, 6, 2), rng.random()) for _ in range(30)]

    def step(c, _):
        values = list(c)
        for which, a, b, by in draws:
            values.append(chosen[which](jnp.float32(by) * values[-1 - a] + 0.3 * values[-1 - b % len(values)]))
        return tuple(0.5 * v for v in values[-6:]), tuple(values[6:12])

    same_bits(lambda *c: lax.scan(step, c, None, length=20), *[jnp.float32(v) for v in rng.standard_normal(6)])


def test_they_are_one_call():
    def cell(v, m, h, n):
        gates = [jnp.exp(-(v + a) / b) for a, b in ((40, 10), (65, 18), (65, 20), (35, 10), (55, 80))]
        return v + 0.01 * (10 - m * h * v - n), m + 0.01 * gates[0] * (1 - m), h + 0.01 * gates[1] - gates[2], n + gates[3] * gates[4]

    start = [jnp.float32(v) for v in (-65, 0.05, 0.6, 0.32)]
    same_bits(lambda *c: lax.fori_loop(0, 50, lambda i, c: cell(*c), c), *start)

    def ops(count):
        step = lambda i, x: sum(jnp.exp(x * b) for b in range(2, 2 + count)) * 0.1
        return flat_ops(fgrad.jit(lambda x: lax.fori_loop(0, 50, step, x)), start[1])

    assert ops(8) - ops(2) <= 6 * 3  # a product, a copy and a sum for each, and no call
