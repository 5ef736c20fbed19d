"""Machine code of flat code where registers are few and masks are vectors (AVX2), as where they are not: every bit is the interpreter's."""

import platform
from pathlib import Path

import numpy as np
import pytest

import fgrad
import fgrad.lax as lax
import fgrad.numpy as jnp
from fgrad._kernels import isa
from tests.drawn_loops import drawn_loop
from tests.test_machine import check

REALS = [np.float32, np.float64]
SIZES = [2, 3, 5, 8, 11, 16, 17, 40]


def executable():
    """Bytes of this process's memory that are code and of no file."""
    fields = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    spans = [f[0].split("-") for f in fields if "x" in f[1] and len(f) == 5]
    return sum(int(end, 16) - int(begin, 16) for begin, end in spans)


def drawn(seed, shape, dtype):
    """Numbers of which some are equal, and where they may be, zeros of both signs, infinities and NaNs."""
    x = np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)
    if np.dtype(dtype).kind == "f":
        special = np.random.default_rng(seed + 1).choice(np.array([0.5, -0.0, np.inf, -np.inf, np.nan], dtype), shape)
        x = np.where(np.random.default_rng(seed + 2).random(shape) < 0.3, special, x)
    return x


@pytest.mark.skipif(platform.system() != "Linux" or platform.machine() != "x86_64", reason="looks at /proc")
def test_loops_become_machine_code():
    """None falls to the interpreter for want of registers."""
    if "x86-64-v3" not in isa.supported() or "x86-64-v2" in fgrad._kernels.__path__[0]:
        pytest.skip("AVX2 is missing, or not used")
    before, made = executable(), []
    for seed in range(40):
        fun, args = drawn_loop(seed)
        made.append(fgrad.jit(fun))
        made[-1](*fgrad.tree_util.tree_map(jnp.asarray, args))
        assert executable() > before, seed
        before = executable()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", [*REALS, np.int32])
def test_comparisons_and_selections_of_vectors(n, dtype):
    def step(c, x):
        a, kept = c
        less, same = a < x, a == x
        flags = (less | same) ^ kept
        b = jnp.where(flags, a + x, jnp.where(a >= x, x, a * x))
        return (jnp.where(a != x, b, jnp.maximum(a, x)), ~flags & kept), (flags, jnp.minimum(a, b))

    with fgrad.config.override("enable_x64", dtype is np.float64):
        args = drawn(n, n, dtype), np.arange(n) % 3 == 1, drawn(n + 7, (40, n), dtype)
        check(lambda c, kept, x: lax.scan(step, (c, kept), x), tuple(map(jnp.asarray, args)), ordinary=False)


@pytest.mark.parametrize("how", [jnp.less, jnp.less_equal, jnp.greater, jnp.greater_equal, jnp.equal, jnp.not_equal])
@pytest.mark.parametrize("selected", [*REALS, np.int32, np.int64])
@pytest.mark.parametrize("compared", [*REALS, np.int32, np.int64])
def test_single_numbers_by_comparisons_of_others(compared, selected, how):
    """What is compared may be shorter than what is selected, and so the mask."""

    def step(c, x):
        u, flag = c
        a, b, v = x
        by = how(a, b)
        return (jnp.where(by, u + v, v), by ^ flag), (jnp.where(flag, u, v), by)

    with fgrad.config.override("enable_x64", True):
        rows = drawn(1, 60, compared), drawn(2, 60, compared), drawn(3, 60, selected)
        args = (jnp.asarray(np.asarray(1, selected)), jnp.asarray(True), *map(jnp.asarray, rows))
        check(lambda u, flag, *rows: lax.scan(step, (u, flag), rows), args, ordinary=False)


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("n", [1, 3, 16, 40])
def test_more_values_in_a_turn_than_registers(n, dtype):
    def step(c, x):
        u = [v * x + w for v, w in zip(c, c[1:] + c[:1], strict=True)]
        s = [jnp.sqrt(jnp.abs(v)) - jnp.floor(w) / (1 + v * v) for v, w in zip(u, u[3:] + u[:3], strict=True)]
        return tuple(jnp.where(v < w, v - w, -v) for v, w in zip(s, s[5:] + s[:5], strict=True)), sum(u) * s[0]

    with fgrad.config.override("enable_x64", dtype is np.float64):
        shape = () if n == 1 else n
        c = tuple(jnp.asarray(np.random.default_rng(i).normal(size=shape).astype(dtype)) for i in range(12))
        x = jnp.asarray(np.random.default_rng(99).normal(size=(40, n) if n > 1 else 40).astype(dtype))
        check(lambda c, x: lax.scan(step, c, x), (c, x), ordinary=False)


@pytest.mark.parametrize("n", range(1, 18))
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float64])
def test_rows_and_windows_of_every_length(n, dtype):
    """Of vectors that are loaded in part, what is behind stays out."""

    def step(c, x):
        i, total = c
        window = lax.dynamic_slice(total, (i % 5,), (n,)) + x
        total = lax.dynamic_update_slice(total, window * 2 - total[:n], (i % 3,))
        return (i + 1, total), (window, window[::-1], jnp.roll(total, 1)[:n])

    with fgrad.config.override("enable_x64", dtype is np.float64):
        x = jnp.asarray(np.random.default_rng(n).integers(-9, 9, (12, n)).astype(dtype))
        total = jnp.asarray(np.arange(n + 6).astype(dtype))
        check(lambda total, x: lax.scan(step, (jnp.int32(0), total), x), (total, x))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("n", [1, 5, 16, 20, 33])
def test_16_bit_floats(n, dtype):
    def step(c, x):
        y = (c * x + c).astype(dtype)
        y = jnp.where(y > x, y - x, y * jnp.asarray(0.5, dtype))
        return y, (y.astype(jnp.float32) + 1, jnp.maximum(x, y))

    shape = (30, n) if n > 1 else (30,)
    x = jnp.asarray(drawn(n, shape, np.float32)).astype(dtype)
    check(lambda c, x: lax.scan(step, c, x), (x[0], x), ordinary=False)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
@pytest.mark.parametrize("n", [20, 32, 64, 100])
def test_vectors_of_small_integers(n, dtype):
    """Shifts and comparisons, which AVX2 has for no such numbers, between what it has."""

    def step(c, x):
        y = jnp.where(c < x, c + x, c - x) ^ (c << (x & 3))
        y = jnp.where(y == c, ~y, jnp.maximum(y, x) * c)
        return y >> (x & 1), (y > x, y)

    x = jnp.asarray(np.random.default_rng(n).integers(0, 100, (20, n)).astype(dtype))
    check(lambda c, x: lax.scan(step, c, x), (x[3], x))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
@pytest.mark.parametrize("n", [1, 4, 16, 30])
def test_generators_of_random_numbers(n, dtype):
    """Shifts by 32 and more leave nothing, or the sign."""

    def step(i, c):
        x, by = c
        x = x ^ (x << 13)
        x = x ^ lax.shift_right_logical(x, jnp.asarray(17, x.dtype))
        return x ^ (x << 5) ^ lax.shift_left(x, by) ^ lax.shift_right_arithmetic(x, by + 3), (by + 1) % 41

    x = np.random.default_rng(n).integers(1, 1 << 30, n).astype(dtype)
    check(lambda x, by: lax.fori_loop(0, 100, step, (x, by)), (jnp.asarray(x), jnp.asarray(np.arange(n).astype(dtype))))


@pytest.mark.parametrize("dtype", [*REALS, np.int32, np.int64])
@pytest.mark.parametrize("how", [jnp.equal, jnp.not_equal, jnp.less, jnp.greater_equal])
def test_comparisons_that_decide(how, dtype):
    """A loop's condition and a branch, which no bool comes between."""

    def turn(c):
        i, x = c
        return lax.cond(how(x, i * 2), lambda: (i + 1, x + 3), lambda: (i + 1, x - 1))

    with fgrad.config.override("enable_x64", True):
        one = jnp.asarray(np.asarray(1, dtype))
        until = {jnp.equal: lambda c: ~(c[0] == 40), jnp.not_equal: lambda c: c[0] != 40}.get(how, lambda c: c[0] < 40)
        check(lambda i, x: lax.while_loop(until, turn, (i, x)), (one, one * 4))
