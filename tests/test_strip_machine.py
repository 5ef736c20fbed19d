"""Strips of elementwise operations as machine code: bit for bit what their stages compute, of drawn programs and of each kind of stage."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from fgrad._kernels import vm_plan

leaves = fgrad.tree_util.tree_leaves


@pytest.fixture(autouse=True)
def at_once():
    """Machine code from the first run on."""
    before = vm_plan.stages_before_code(0)
    yield
    vm_plan.stages_before_code(before)


def same(a, b):
    """Equal bit by bit, but for which NaN it is."""
    if jnp.issubdtype(a.dtype, jnp.floating):
        a, b = (np.where(np.isnan(x), np.asarray(7, x.dtype), x) for x in (a, b))
    return a.tobytes() == b.tobytes()


def both(fun, *args):
    """fun's results as machine code, which are the stages'."""
    run = lambda: leaves(fgrad.jit(lambda *a: fun(*a))(*args))  # noqa: E731
    got = run()
    with fgrad.config.override("pass_machine", False):
        want = run()
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert same(np.asarray(a), np.asarray(b))
    return got


REAL1 = [
    jnp.abs,
    jnp.negative,
    jnp.sign,
    jnp.floor,
    jnp.ceil,
    jnp.trunc,
    jnp.round,
    jnp.square,
    jnp.reciprocal,
    lambda x: jnp.sqrt(jnp.abs(x)),
    lambda x: lax.rsqrt(jnp.abs(x)),
    jnp.tanh,
    jnp.exp,
    lambda x: jnp.clip(x, -0.5, 0.75),
    lambda x: jnp.maximum(x, 0),
    lambda x: jnp.minimum(0.25, x),
    lambda x: jnp.where(x > 0.5, 0.5, x),
    lambda x: jnp.where(x < -1, -1.0, jnp.where(x > 1, 1.0, 0.0)),
    lambda x: ((x * 0.5 + 1) * x - 2) * x + 3,
]
REAL2 = [
    jnp.add,
    jnp.subtract,
    jnp.multiply,
    jnp.divide,
    jnp.maximum,
    jnp.minimum,
    lambda x, y: jnp.copysign(x, jnp.where(y == y, y, 1.0)),  # which NaN it is, and so its sign, is not promised
    lambda x, y: jnp.where(x < y, x, y * 2),
    lambda x, y: jnp.where(x >= y, 1.5, x),
    lambda x, y: jnp.where((x > 0) & (y < 0.5) | ~jnp.isfinite(x), x - y, y),
    lambda x, y: x * y + x - 0.3 * y,
    lambda x, y: jnp.where(x == y, x + 1, y),
    lambda x, y: (x > y).astype(x.dtype) * x,
    lambda x, y: y - x * x,
]
WHOLE1 = [
    jnp.abs,
    jnp.negative,
    lambda x: x ^ 3,
    jnp.invert,
    lambda x: x << 3,
    lambda x: x >> 2,
    lambda x: x * 1664525 + 7,
    lambda x: jnp.clip(x, 3, 1000),
    lambda x: jnp.where(x > 5, x, 5 - x),
    lambda x: lax.shift_right_logical(x, jnp.asarray(5, x.dtype)),
]
WHOLE2 = [
    jnp.add,
    jnp.subtract,
    jnp.multiply,
    jnp.maximum,
    jnp.minimum,
    jnp.bitwise_and,
    jnp.bitwise_or,
    jnp.bitwise_xor,
    lambda x, y: x << (y & 7),
    lambda x, y: lax.shift_right_logical(x, y),
    lambda x, y: lax.shift_left(x, y),
    lambda x, y: lax.shift_right_arithmetic(x, y),
    lambda x, y: jnp.where(x < y, x, y + 1),
    lambda x, y: jnp.where((x == y) | (x > 9), x, y),
]
MOVES = [
    lambda x: jnp.roll(x, 1, -1),
    lambda x: jnp.roll(x, -3, 0),
    lambda x: jnp.pad(x[..., 1:], [(0, 0)] * (x.ndim - 1) + [(0, 1)]),
    lambda x: jnp.concatenate([x[:1], x[:-1]], 0),
    lambda x: x.at[..., 2:-1].add(1),
    lambda x: x + x[..., :1],
    lambda x: x - x[:1],
]
SHAPES = [(512,), (1000,), (131,), (4096,), (7, 200), (33, 48), (16, 512), (5, 6, 70), (3000,)]


def draw(rng, dtype, shape):
    if dtype == "bool":
        return jnp.asarray(rng.random(shape) < 0.5)
    if np.issubdtype(np.dtype(dtype) if dtype not in ("bfloat16",) else np.float32, np.floating):
        x = rng.normal(size=shape)
        for special in (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 0.5):
            x[rng.random(shape) < 0.01] = special
        return jnp.asarray(x, dtype)
    info = np.iinfo(dtype)
    return jnp.asarray(rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True) >> (0 if rng.random() < 0.5 else 20))


def program(rng, dtype, shape):
    """A drawn function of three arrays."""
    real = dtype.startswith("float") or dtype == "bfloat16"
    ones, twos = (REAL1, REAL2) if real else (WHOLE1, WHOLE2)
    steps = []
    for _ in range(int(rng.integers(3, 24))):
        kind = rng.random()
        pool = ones if kind < 0.35 else MOVES if kind > 0.93 else twos
        steps.append((pool[rng.integers(len(pool))], pool is twos, rng.random(2)))
    results = int(rng.integers(1, 4))

    def fun(x, y, z):
        have = [x, y, z]
        for f, two, at in steps:
            a, b = (have[int(v * len(have))] for v in at)
            have.append(f(a, b) if two else f(a))
        return [have[-1 - k] for k in range(results)]

    return fun


@pytest.mark.parametrize("seed", range(80))
def test_drawn_programs(seed):
    rng = np.random.default_rng(seed)
    dtype = ["float32", "float64", "int32", "uint32", "int64", "float32", "float16", "bfloat16"][seed % 8]
    with fgrad.config.override("enable_x64", "64" in dtype):
        for _ in range(3):
            shape = SHAPES[rng.integers(len(SHAPES))]
            fun = program(rng, dtype, shape)
            with np.errstate(all="ignore"):
                both(fun, *[draw(rng, dtype, shape) for _ in range(3)])


@pytest.mark.skipif(not vm_plan.makes_code(), reason="needs AVX2 or AVX-512, and a system that lets code be written and run")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint32", "int64", "float16", "bfloat16"])
def test_each_operation_has_code(dtype):
    real = dtype.startswith("float") or dtype == "bfloat16"
    rng = np.random.default_rng(5)
    with fgrad.config.override("enable_x64", "64" in dtype), fgrad.config.override("pass_machine", True):
        x, y = draw(rng, dtype, (1283,)), draw(rng, dtype, (1283,))
        seen, made = vm_plan.strips_with_code()
        for f in REAL1 if real else WHOLE1:
            both(lambda x, y, f=f: f(x) + y, x, y)
        for f in REAL2 if real else WHOLE2:
            both(lambda x, y, f=f: f(x, y) - x, x, y)
        now = vm_plan.strips_with_code()
    assert now[0] > seen and now[0] - seen == now[1] - made


@pytest.mark.parametrize("y", [2, 3, 7, 641, 65536, 2**31 - 1, -2, -7, -(2**31)])
def test_quotients_by_numbers(y):
    x = draw(np.random.default_rng(5), "int32", (1283,))
    got = both(lambda x: (x * 3 + lax.div(x, jnp.int32(y)), (x * 3 + 7) // y - x % y), x)
    wide = np.asarray(x).astype("int64")
    quotients, others = np.floor_divide((wide * 3 + 7).astype("int32").astype("int64"), y), wide % y
    np.testing.assert_array_equal(got[1], (quotients - others).astype("int32"))
    np.testing.assert_array_equal(got[0], (wide * 3 + abs(wide) // abs(y) * np.sign(wide) * np.sign(y)).astype("int32"))


@pytest.mark.parametrize("n", [33, 46, 48, 64, 65, 126, 128, 200, 300, 513])
def test_rows_of_parts_and_boxes(n):
    rng = np.random.default_rng(n)
    u, v = draw(rng, "float32", (n - 3, n)), draw(rng, "float32", (n - 3, n))

    def stencil(u, v):
        inner = u[1:-1, 1:-1] + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
        p = jnp.pad((v > 0.25).astype(v.dtype), 1)
        fell = v - 4 * (v > 0.25) + p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2]
        around = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u
        return inner, jnp.pad(inner, 1), fell, u.at[1:-1, 1:-1].set(inner), around, (u[:, 1:] < v[:, :-1]) & (u[:, 1:] > 0)

    both(stencil, u, v)
    both(lambda u, v: lax.fori_loop(0, 4, lambda i, c: (c[1] * 0.5 + stencil(*c)[3], c[0] - 0.25 * stencil(*c)[4]), (u, v)), u, v)


@pytest.mark.parametrize("n", [9, 13, 19, 22, 31, *range(32, 50), 63, 79, 80, 129, 150, 255])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_rows_by_code_of_their_own(n, dtype):
    """Padded grids in loops that write over what they read, columns, chosen rows, logic, grids of grids."""
    rng, dtype = np.random.RandomState(n), jnp.dtype(dtype)
    with fgrad.enable_x64():
        x, column = jnp.asarray(rng.randn(n, n) * 4, dtype), jnp.asarray(rng.randn(n, 1) * 4, dtype)
        mask = jnp.asarray(rng.rand(n, n) < 0.5)

        def around(x):
            p = jnp.pad(x, [(0, 0)] * (x.ndim - 2) + [(1, 1)] * 2)
            return p[..., 2:, 1:-1] + p[..., :-2, 1:-1] + p[..., 1:-1, 2:] - p[..., 1:-1, :-2]

        def life(x):
            s = around(x)
            return jnp.where(((s > 1) & (x < 2)) | ~(s < 3), s - x, x + 1).astype(dtype)

        both(lambda x: lax.fori_loop(0, 5, lambda i, x: x + 2 * around(x), x), x)
        both(lambda x, c: around(x) * c - x, x, column)
        both(lambda x, m: jnp.where(m, around(x), x), x, mask)
        both(lambda x: lax.fori_loop(0, 5, lambda i, x: life(x), x), x)
        both(lambda x: around(x) + x, jnp.stack([x, -x, 2 * x]))
        both(lambda x: x[1:, :-1] - x[:-1, 1:] + (x * 2)[1:, 1:], x)


@pytest.mark.parametrize("n", [32, 64, 128, 130, 200, 256, 384, 511, 1000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_that_are_folded(n, dtype):
    rng = np.random.default_rng(n)
    with fgrad.config.override("enable_x64", dtype == "float64"):
        for special in (False, True):
            x, y = draw(rng, dtype, (37, n)), draw(rng, dtype, (20, n))
            if not special:  # no NaN, no infinity: sums are compared
                x, y = jnp.clip(jnp.nan_to_num(x), -3, 3), jnp.clip(jnp.nan_to_num(y), -3, 3)

            def rows(x, y):
                d = x[:, None] - y
                both_ways = jnp.sum(jnp.abs(x * 2 - 1), -1), jnp.max(x * y[:1] + 1, -1), jnp.min(x * 0.5 - y[0], -1)
                return jnp.sum(d * d, -1), jnp.max(jnp.abs(d), -1), *both_ways, jnp.sum((x - 0.25) * (x + y[2]), -1)

            both(rows, x, y)
            both(lambda x, y: jnp.sum(jnp.where(x > y[0], x - y[0], 0.5 * x), -1), x, y)
            both(lambda x, y: jnp.max(jnp.abs(x[:, None] - y), -1), x, y)


def test_many_threads_at_once():
    fun = fgrad.jit(lambda x, y: (x * y + 0.25) * (x - y) - jnp.where(x < y, x, 2.0))
    xs = [draw(np.random.default_rng(k), "float32", (30000 + k,)) for k in range(8)]
    with fgrad.config.override("pass_machine", False):
        want = [np.asarray(fun(x, x[::-1])) for x in xs]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for a, b in zip(pool.map(lambda x: np.asarray(fun(x, x[::-1])), xs), want, strict=True):
                assert same(a, b)


@pytest.mark.skipif(not vm_plan.makes_code(), reason="needs AVX2 or AVX-512, and a system that lets code be written and run")
def test_threads_that_meet_a_busy_maker_ask_again():
    """Sixteen programs of different stages, which all want code at the same time."""
    steps = (jnp.square, jnp.negative, lambda x: x + 1.5, lambda x: jnp.maximum(x, 0.5))

    def program(k):
        def fun(x):
            for i in range(12):
                x = steps[(k >> (i % 5)) & 1 | (i + k) % 2 * 2](x) * 0.5
            return x

        return fgrad.jit(fun)

    funs, x = [program(k) for k in range(16)], jnp.linspace(-1, 1, 2000)
    for f in funs:
        f.lower(x).compile()
    before = vm_plan.strips_with_code()
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda f: [f(x) for _ in range(40)], funs))
    for f in funs:  # those that met a busy maker each time
        f(x)
    made = vm_plan.strips_with_code()
    for k in range(16):
        program(k)(x)
    assert vm_plan.strips_with_code() == made != before


def test_code_is_kept_for_the_same_stages():
    x = jnp.arange(1000.0)
    make = lambda: fgrad.jit(lambda x: (x * 3.5 - 1) * x + 0.125)  # noqa: E731
    make()(x).block_until_ready()
    before = vm_plan.strips_with_code()
    for _ in range(3):
        make()(x).block_until_ready()
    assert vm_plan.strips_with_code() == before


def test_long_programs():
    """More values than registers, and more masks, across a group's first half and its gradient; of sizes that no vector divides."""

    def chain(x, y):
        for k in range(9):
            x, y = jnp.where(x > y * (1 + k / 7), x - y * 0.5, y - x * 0.25) + 0.1, jnp.where((y < k - 4.0) & (x != 2), y * x, y + 0.01 * k)
        return x * y

    def orbit(x, y):
        a, b = x, y
        for _ in range(12):
            a, b = a * a - b * b + 0.1 * x, 2 * a * b + 0.1 * y
        return a + b

    rng = np.random.default_rng(0)
    for n in (257, 1000, 5003):
        x, y = (jnp.asarray(rng.uniform(-2, 2, n).astype(np.float32)) for _ in range(2))
        for fun in (chain, orbit):
            both(fun, x, y)
            both(lambda x, y, fun=fun: fgrad.grad(lambda x, y: jnp.sum(fun(x, y)), (0, 1))(x, y), x, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_strips_that_fetch(dtype):
    """What lies in memory far larger than the caches is fetched by the code itself, up to its last elements."""
    n = (6 << 20) + 13
    x = jnp.asarray((np.arange(n) % 1013).astype(dtype))
    y, z = x[::-1] + jnp.asarray(1, dtype), x * jnp.asarray(0, dtype)
    both(lambda x, y, z: sum(((x - k * z) * (y + k) for k in range(20)), z), x, y, z)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int64"])
def test_ends_of_all_lengths(dtype):
    """Whole vectors, what is none at the end, bools and narrow integers beside it."""
    rng = np.random.default_rng(3)
    with fgrad.config.override("enable_x64", "64" in dtype):
        for n in (*range(256, 290), 511, 513, 1023, 1031):
            x, y, m = draw(rng, dtype, (n,)), draw(rng, dtype, (n,)), draw(rng, "bool", (n,))
            s = jnp.asarray(rng.integers(0, 200, n).astype([np.uint8, np.int8, np.uint16, np.int16][n % 4]))
            both(lambda x, y, m: (x * y + x, (x > y) & m | (y != y), jnp.where(m, x - y, y)), x, y, m)
            both(lambda x, s: s.astype(x.dtype) * 3 + x, x, s)
            both(lambda x, y: [x := x * y + y if k % 2 else x - y for k in range(30)][-1], x, y)


def test_results_that_lie_on_operands():
    rng = np.random.default_rng(4)

    def step(x, y):
        return (x * 1.5 + y) * x - jnp.maximum(x, y), y + 0.5 * x

    for n in (256, 300, 519, 4099):
        x, y = (np.asarray(draw(rng, "float32", (n,))) for _ in range(2))
        want = None
        for machine in (False, True):
            with fgrad.config.override("pass_machine", machine):
                f, c = fgrad.jit(lambda *a: step(*a), donate_argnums=(0, 1)), (jnp.array(x), jnp.array(y))
                for _ in range(3):
                    c = f(*c)
            want = want or [np.asarray(a) for a in c]
            assert all(same(np.asarray(a), b) for a, b in zip(c, want, strict=True))
