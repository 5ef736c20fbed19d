"""Programs of stages give the bits of their operations one by one."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from tests.kernels.vm_builder import aliased, apply, run

UNARY = {"square": 1, "neg": 1, "abs": 1, "sqrt": 1, "not": 1}
FLOAT = ["add", "sub", "mul", "div", "max", "min", "square", "neg", "abs", "sqrt"]
INT = ["add", "sub", "mul", "and", "or", "xor", "square", "neg", "not"]
SHAPE = (3, 347)  # tiles that end inside of a vector


def operands(dtype, rng):
    """Three arrays, three columns, three scalars."""
    shapes = [SHAPE] * 3 + [(SHAPE[0], 1)] * 3 + [()] * 3
    if dtype.startswith("float"):
        values = [rng.normal(size=s).astype(dtype) for s in shapes]
        for x in values[:3]:
            x.flat[rng.integers(0, x.size, 60)] = np.repeat([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30], 10)
        values[7] = np.asarray(-0.0, dtype)
        return values
    return [rng.integers(-1000 if dtype.startswith("i") else 0, 1000, s).astype(dtype) for s in shapes]


def same_bits(a, b):
    assert a.dtype == b.dtype
    if a.dtype.kind == "f":
        ok = np.isnan(a) & np.isnan(b)
        a, b = (np.where(ok, 0, x).astype(a.dtype).view(f"u{a.itemsize}") for x in (a, b))
    np.testing.assert_array_equal(a, b)


def one_by_one(inputs, ops, consts=()):
    """All registers, each operation in a program of its own."""
    shape = np.broadcast_shapes(*[x.shape for x in inputs])
    values = [*inputs, *[np.asarray(v, t) for v, t in consts]]
    for name, dtype, *args in ops:
        out = dtype if name == "cast" else None
        values.append(apply(name, dtype, *[np.broadcast_to(values[a], shape) for a in args], out=out))
    return values


def check(inputs, ops, outs, consts=()):
    """The outputs of one program, after comparing them with those of its operations one by one."""
    want = one_by_one(inputs, ops, consts)
    got = run(inputs, ops, [(r, want[r].dtype) for r in outs], consts=consts)
    for r, x in zip(outs, got):
        same_bits(x, want[r])
    return got


def both_ways(dtype, inputs, ops, between, result):
    check(inputs, ops, [result, between])
    return check(inputs, ops, [result])[0]


COMPARISONS = ["lt", "le", "gt", "ge", "eq", "ne"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint64"])
def test_pairs(dtype):
    """Every first and second operation, with the first result on either side, over arrays, columns and scalars."""
    rng, names = np.random.default_rng(0), FLOAT if dtype.startswith("float") else INT
    for first, second in itertools.product(names, names):
        inputs = operands(dtype, rng)
        for a, b, c, turned in [(0, 1, 2, 0), (0, 1, 2, 1), (0, 3, 6, 1), (4, 0, 1, 0), (7, 0, 8, 0), (0, 8, 7, 1), (0, 0, 0, 1)]:
            one = (first, dtype, a) if first in UNARY else (first, dtype, a, b)
            two = (second, dtype, 9) if second in UNARY else (second, dtype, *((c, 9) if turned else (9, c)))
            both_ways(dtype, inputs, [one, two], 9, 10)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint32"])
@pytest.mark.parametrize("name", COMPARISONS)
def test_choices(name, dtype):
    """A comparison that only selections read, over arrays, columns and scalars; two selections of one comparison."""
    inputs = operands(dtype, np.random.default_rng(0))
    for x, y, u, v in itertools.product([0, 3, 7], [1, 4, 7, 8], [0, 2, 6], [0, 1, 7]):
        got = both_ways(dtype, inputs, [(name, dtype, x, y), ("select", dtype, 9, u, v)], 9, 10)
        compare = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal}[name]
        full = [np.broadcast_to(i, SHAPE) for i in inputs]
        same_bits(got, np.where(compare(full[x], full[y]), full[u], full[v]))
    ops = [(name, dtype, 0, 8), ("select", dtype, 9, 1, 7), ("select", dtype, 9, 7, 2), ("add", dtype, 10, 11)]
    both_ways(dtype, inputs, ops, 9, 12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_triples(dtype):
    """Every sequence of three sums and products, over arrays, columns, scalars and constants."""
    names = ["add", "sub", "mul", "square", "neg"]
    rng = np.random.default_rng(0)
    inputs = [x for k, x in enumerate(operands(dtype, rng)) if k in (0, 1, 2, 3, 6)]  # three arrays, a column, a scalar; then a constant
    for i, (first, second, third) in enumerate(itertools.product(names, names, names)):
        a, b, c, d = rng.permutation([0, 1, int(rng.integers(0, 6)), int(rng.integers(0, 6))]).tolist()
        ops = [(first, dtype, a) if first in UNARY else (first, dtype, a, b)]
        for k, (name, x) in enumerate([(second, c), (third, d)]):
            ops.append((name, dtype, 6 + k) if name in UNARY else (name, dtype, *((x, 6 + k) if i % 3 == k else (6 + k, x))))
        check(inputs, ops, [8], consts=[(-0.0, dtype)])
        check(inputs, ops, [8, 6, 7], consts=[(-0.0, dtype)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("steps", range(1, 13))
def test_polynomials(steps, dtype):
    """Horner's rule with constants and single values in either order, from arrays, columns and single values; an array term ends it."""
    rng = np.random.default_rng(0)
    inputs = operands(dtype, rng)
    for start, x, whole in [(1, 0, None), (6, 0, None), (9, 0, None), (4, 3, None), (0, 0, None), (6, 2, steps // 2)]:
        ops, at = [], start
        for k in range(steps):
            term = 1 if k == whole else [7, 8, 9, 10][k % 4]
            ops += [
                ("mul", dtype, *((at, x) if k % 2 else (x, at))),
                ("add", dtype, *((11 + 2 * k, term) if k % 3 else (term, 11 + 2 * k))),
            ]
            at = 12 + 2 * k
        consts = [(0.75, dtype), (-2.0, dtype)]
        check(inputs, ops, [at], consts=consts)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ranges(dtype):
    """Two choices against constants, one of them a case of the other, on one array and on two, between arrays and constants."""
    inputs = operands(dtype, np.random.default_rng(0))[:3]
    consts = [(0.0, dtype), (-0.5, dtype), (1.0, dtype)]
    for outer, inner in itertools.product(COMPARISONS, repeat=2):
        for x, z, p, q, turned, first in [
            (0, 0, 4, 0, 0, 0),
            (0, 1, 2, 0, 1, 0),
            (1, 1, 5, 3, 1, 1),
            (0, 1, 2, 4, 0, 1),
            (1, 0, 0, 2, 0, 1),
        ]:
            one = (outer, dtype, *((3, x) if turned else (x, 3)))
            two = (inner, dtype, *((4, z) if turned else (z, 4)))
            ops = [one, two, ("select", dtype, 7, p, q), ("select", dtype, 6, *((8, 5) if first else (5, 8)))]
            check(inputs, ops, [9], consts=consts)
            check(inputs, ops, [9, 8, 6, 7], consts=consts)


@pytest.mark.parametrize("compared, chosen", [("int32", "float32"), ("float32", "uint32"), ("float64", "int64"), ("float64", "complex64")])
def test_choices_of_another_type(compared, chosen):
    """A comparison selects what has its size, also as single values: their bits."""
    x, y = operands(compared, np.random.default_rng(0))[:2]
    word = f"u{np.dtype(chosen).itemsize}"
    u, v = np.random.default_rng(1).integers(0, 2**63, (2, *SHAPE)).astype(word)
    signalling = np.asarray(0x7FA00001, word)
    for w in (v, signalling):
        got = run([x, y, u.view(chosen), w.view(chosen)], [("lt", compared, 0, 1), ("select", chosen, 4, 2, 3)], [(5, chosen)])[0]
        np.testing.assert_array_equal(got.view(word), np.where(x < y, u, w))


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_division_by_one_value(dtype):
    """Truncated quotients and remainders by single divisors of every size, 0 and -1 included."""
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    edges = [0, 1, 2, 3, 5, 7, 10, 641, 65535, 65536, 2**30, info.max, info.max - 1, info.min, info.min + 1]
    if info.min:
        edges += [-1, -2, -3, -7, -65536]
    wide = rng.integers(0, 2**32, 2000, dtype="u4").astype(dtype) >> rng.integers(0, 31, 2000).astype(dtype)
    for y in [*edges, *wide[:40].tolist()]:
        near = (np.arange(-50, 50) * y + rng.integers(-1, 2, 100)).astype("u8").astype(dtype)
        x = np.concatenate([np.asarray(edges, dtype), near, wide])
        div, rem = run([x, np.asarray(y, dtype)], [("div", dtype, 0, 1), ("rem", dtype, 0, 1)], [(2, dtype), (3, dtype)])
        exact = x.astype(object)
        quotient = [-1 if y == 0 else abs(v) // abs(y) * (1 if (v < 0) == (y < 0) else -1) for v in exact]
        np.testing.assert_array_equal(div, np.asarray([q % 2**32 for q in quotient], "u8").astype("u4").view(dtype))
        np.testing.assert_array_equal(rem, np.asarray([v if y == 0 else v - q * y for v, q in zip(exact, quotient)], "i8").astype(dtype))


def test_chains_and_shared_results():
    """A result that is read twice; a comparison of one type that selects another."""
    x, y = np.random.default_rng(0).normal(size=(2, 5000)).astype("f")
    ops = [("mul", "float32", 0, 1), ("add", "float32", 2, 0), ("sub", "float32", 3, 1), ("abs", "float32", 4), ("mul", "float32", 3, 5)]
    t = x * y + x
    same_bits(run([x, y], ops, [(6, "float32")])[0], t * np.abs(t - y))
    ops = [("lt", "float32", 0, 1), ("select", "int32", 3, 2, 2), ("not", "bool", 3)]
    n = np.arange(5000, dtype="i")
    got = run([x, y, n], ops, [(4, "int32"), (5, "bool")])
    np.testing.assert_array_equal(got[0], n)
    np.testing.assert_array_equal(got[1], ~(x < y))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bounds(dtype):
    """Choices that are maxima and minima by constants, alone and one after the other, in every order of operands, -0 and NaN included."""
    inputs = operands(dtype, np.random.default_rng(0))[:1]
    for low, high in [(-0.5, 1.0), (0.0, 1.0), (-1.0, 0.0), (-0.0, 0.5), (1.0, -1.0), (np.nan, 1.0)]:
        consts = [(low, dtype), (high, dtype)]
        for outer, inner in itertools.product(["lt", "le", "gt", "ge"], repeat=2):
            for turned, last in itertools.product([0, 1, 2, 3], [0, 1]):
                one = (inner, dtype, *((1, 0) if turned & 1 else (0, 1)))
                two = (outer, dtype, *((2, 0) if turned & 2 else (0, 2)))
                first = ("select", dtype, 3, *((0, 1) if last else (1, 0)))
                check(inputs, [one, two, first, ("select", dtype, 4, 2, 5)], [6], consts=consts)
                check(inputs, [one, two, first, ("select", dtype, 4, 5, 2)], [6, 5], consts=consts)


FLOATS = "add sub mul div max min copysign".split(), "square neg abs sqrt rsqrt recip sign floor ceil trunc round_even exp".split()
INTS = "add sub mul max min and or xor shl shr_logical shr_arith div".split(), "square neg not".split()


def random_program(rng, dtype, n_in, n_const, n_ops):
    """Operations on registers of dtype and of bool."""
    types, ops = [dtype] * (n_in + n_const), []
    two, one = FLOATS if dtype.startswith("float") else INTS

    def of(t, recent=6):
        found = [k for k, x in enumerate(types) if x == t]
        return int(rng.choice(found[-recent:] if rng.random() < 0.7 else found))

    for _ in range(n_ops):
        kind, made = rng.random(), dtype
        if kind < 0.45:
            op = (str(rng.choice(two)), dtype, of(dtype), of(dtype))
        elif kind < 0.6:
            op = (str(rng.choice(one)), dtype, of(dtype))
        elif kind < 0.75 or "bool" not in types:
            op, made = (str(rng.choice(COMPARISONS)), dtype, of(dtype), of(dtype)), "bool"
        elif kind < 0.85:
            op = ("select", dtype, of("bool"), of(dtype), of(dtype))
        elif kind < 0.95:
            op, made = (str(rng.choice(["and", "or", "xor"])), "bool", of("bool"), of("bool")), "bool"
        else:
            op = ("cast", dtype, of("bool"))
        ops.append(op)
        types.append(made)
    return ops, types


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("seed", range(8))
def test_random_programs(dtype, seed):
    """Many operations and outputs, over arrays, columns, single values, constants and masks in memory, of sizes around whole strips."""
    rng = np.random.default_rng(seed)
    for n_ops in [2, 3, 5, 8, 13, 21, 40, 90]:
        inputs, consts = operands(dtype, rng)[: int(rng.integers(2, 9))], [(v, dtype) for v in rng.choice([0, 1, 2, 3, 7], 2)]
        if rng.random() < 0.5:
            n = int(rng.choice([256, 257, 300, 511, 512, 1000, 4103]))
            inputs = [np.resize(x, n) if x.ndim == 2 and x.shape[1] > 1 else x.flat[0].reshape(()) for x in inputs]
        ops, types = random_program(rng, dtype, len(inputs), 2, n_ops)
        first = len(inputs) + 2
        outs = sorted({len(types) - 1, *rng.integers(first, len(types), 3).tolist()})
        with np.errstate(all="ignore"):
            check(inputs, ops, outs, consts=consts)


@pytest.mark.parametrize("y", [1, 2, 3, 5, 7, 10, 641, 65536, 2**30, 2**31 - 1, -1, -2, -7, -(2**31)])
def test_quotients_by_constants(y):
    """Of extreme and random integers, within a longer program."""
    info, rng = np.iinfo("int32"), np.random.default_rng(0)
    x = np.concatenate([[info.min, info.min + 1, -1, 0, 1, info.max - 1, info.max], rng.integers(info.min, info.max, 1000)]).astype("i")
    check([x], [("xor", "int32", 0, 2), ("div", "int32", 3, 1), ("add", "int32", 4, 0)], [5, 4], consts=[(y, "int32"), (0, "int32")])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_results_over_operands(dtype):
    """Outputs that take over inputs which are read later, earlier, or in a later strip."""
    rng = np.random.default_rng(0)
    inputs = [x[0] for x in operands(dtype, rng)[:3]] * 2
    inputs = [np.resize(x, 1031) for x in inputs]
    for _ in range(60):
        ops, types = random_program(rng, dtype, 6, 0, 10)
        made = [k for k in range(6, len(types)) if types[k] == dtype]
        regs = rng.permutation(made)[:4].tolist()
        targets = [(r, int(t)) for r, t in zip(regs, rng.permutation(6))]
        want = one_by_one(inputs, ops)
        for (r, _), got in zip(targets, aliased(inputs, ops, targets)):
            same_bits(got, want[r])


@pytest.mark.parametrize("shape", [(16, 16, 21), (20, 16, 21), (9, 32, 17), (40, 8, 33), (3, 7, 100)])
def test_choices_between_what_is_compared_leave_kept_operands_alone(shape):
    """Where tiles end in the middle of a strip: what only the strip holds has no tile to be written to."""
    a, b, c = shape
    rng = np.random.default_rng(0)
    m, e = rng.standard_normal((b, 1)).astype(np.float32), rng.standard_normal((a, 1, c)).astype(np.float32)

    def fun(m, e):
        v = m - 2 * e
        return jnp.where(v > e, v, 3 * e)

    v = m - 2 * e
    np.testing.assert_array_equal(fgrad.jit(fun)(m, e), np.where(v > e, v, 3 * e))


@pytest.mark.parametrize("source", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("target", ["float32", "int32", "uint32"])
def test_casts_of_narrow_integers(source, target):
    """Bytes and half words become lanes where a strip loads them: arrays, columns and scalars, read once or twice."""
    rng, info = np.random.default_rng(0), np.iinfo(source)
    for shapes in itertools.product([SHAPE, (SHAPE[0], 1), ()], [SHAPE]):
        inputs = [rng.integers(info.min, info.max + 1, shapes[0]).astype(source), rng.integers(0, 9, shapes[1]).astype(target)]
        check(inputs, [("cast", target, 0), ("mul", target, 2, 1), ("add", target, 3, 2)], [4])
        check(inputs, [("cast", target, 0), ("add", target, 2, 1), ("cast", target, 0), ("sub", target, 3, 4)], [3, 5])


@pytest.mark.parametrize("n", [256, 1031])
def test_casts_to_integers_saturate(n):
    """Within a strip: NaN to 0, what is out of bounds to the nearest bound; results kept, read twice and cast back."""
    edge = np.float32([np.nan, np.inf, -np.inf, 2**31, -(2**31), 2**31 - 128, -(2**31) - 256, 3e38, -3e38, 0.9, -0.9, -0.0, 1e-45])
    x = np.concatenate([edge, np.random.default_rng(0).standard_normal(n - len(edge)).astype(np.float32) * 2e9])
    back = x.astype(np.float64).clip(-(2.0**31), 2**31 - 1)
    want = np.where(np.isnan(back), 0, back).astype(np.int32)
    ops = [("add", "float32", 0, 1), ("cast", "int32", 3), ("xor", "int32", 4, 2), ("sub", "int32", 4, 5), ("cast", "float32", 4)]
    ops += [("mul", "float32", 7, 0)]
    got = check([x], ops, [4, 6, 8], consts=[(-0.0, "float32"), (5, "int32")])
    same_bits(got[0], want)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_choices_between_booleans(dtype):
    """Selections of comparisons and of booleans from memory are part of a strip."""
    inputs = operands(dtype, np.random.default_rng(0))
    flags = np.random.default_rng(1).integers(0, 2, SHAPE).astype(bool)
    for a, b in [(0, 1), (0, 3), (6, 0)]:
        ops = [("lt", dtype, a, b), ("eq", dtype, a, b), ("ge", dtype, 1, 2), ("select", "bool", 10, 11, 12), ("select", "bool", 9, 13, 10)]
        check([*inputs, flags], [*ops, ("select", "bool", 12, 9, 14), ("select", dtype, 15, 0, 1)], [13, 15, 16])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("shape", [(9, 14, 1260), (2, 300), (64, 1000), (5, 3000)])
def test_columns_outlive_the_first_strip(shape, dtype):
    """A column of 16 bits is widened into a buffer of its own: one value, which each strip of the row reads."""
    rng = np.random.default_rng(3)
    row, column = (jnp.asarray(rng.uniform(-2, 2, s)).astype(dtype) for s in (shape[-1:], (*shape[:-1], 1)))
    for f in (
        lambda a, b: (a + b) * (a + b),
        lambda a, b: jnp.log1p((b - a) * (a - b) + 40) * b,
        lambda a, b: a * b + jnp.where(a > b, a, b),
    ):
        want = f(row.astype("float32"), column.astype("float32"))
        np.testing.assert_allclose(fgrad.jit(f)(row, column).astype("float32"), want, rtol=2e-2, atol=6e-2)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("flags", [(3, 1), ()])
def test_one_mask_for_several_selections(dtype, flags):
    """A mask of one value a row, or of all, that waits in scratch for another selection, whose case is in the strip."""
    inputs = operands(dtype, np.random.default_rng(0))[:3]
    mask = np.random.default_rng(1).integers(0, 2, flags).astype(bool)
    ops = [("add", dtype, 0, 1), ("sub", dtype, 1, 2), ("select", dtype, 3, 4, 5), ("mul", dtype, 0, 2), ("select", dtype, 3, 7, 1)]
    check([*inputs, mask], ops, [6, 8])
    check([*inputs, mask], [*ops, ("select", dtype, 3, 2, 7)], [6, 8, 9])


HALVES = ["float16", ml_dtypes.bfloat16]


def half_operands(half, shape):
    """Two arrays of 16-bit floats with special, subnormal and, in sums, halfway values."""
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=shape) * 4.0 ** rng.integers(-8, 8, shape) for _ in range(2))
    for z in (x, y):
        special = rng.permutation([0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -9e-39, 6e-8, 3e38, -65504, 1 + 1 / 128])
        at = rng.integers(0, z.size, 2 * special.size)
        z.flat[at] = np.resize(special, at.size)
    with np.errstate(over="ignore"):
        return x.astype(half), y.astype(half)


def rounded(x, half):
    with np.errstate(over="ignore"):
        return x.astype(half) if x.dtype == np.float32 else x


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("n", [1, 64, 128, 255, 256, 257, 300, 384, 1041, 9000])
def test_sixteen_bit_floats_in_registers(half, n):
    """Every stage of float32 between inputs and results of 16 bits, alone: the bits of the operation on widened operands, rounded."""
    x, y = half_operands(half, n)
    wide = x.astype("f"), y.astype("f")
    for name in [*FLOAT, "copysign", "sign", "is_finite", "lt", "ge", "eq", "ne", "round_bf16", "round_f16", "floor", "exp"]:
        args = range(1 if name in UNARY or name in ("sign", "is_finite", "round_bf16", "round_f16", "floor", "exp") else 2)
        want = apply(name, "float32", *[wide[k] for k in args])
        out = "bool" if want.dtype == bool else half
        got = run([x, y][: len(args)], [(name, "float32", *args)], [(len(args), out)])[0]
        np.testing.assert_array_equal(got.astype("f"), rounded(want, half).astype("f"))
        nan = got != got
        np.testing.assert_array_equal(np.signbit(got)[~nan], np.signbit(want)[~nan])


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", [(3, 347), (700,), (4, 256), (2, 300, 9)])
def test_programs_of_sixteen_bit_floats(half, shape):
    """Results read again, several results of different types, columns and scalars, views, and reductions of what a strip makes."""
    x, y = half_operands(half, shape)
    column, one = half_operands(half, (*shape[:-1], 1))[0], np.asarray(1.5, half)
    inputs = [x, y, column, one]
    ops = [("mul", "float32", 0, 1), ("add", "float32", 4, 2), ("lt", "float32", 5, 0)]
    ops += [("select", "float32", 6, 5, 3), ("copysign", "float32", 7, 1)]
    want = one_by_one([np.broadcast_to(v, shape).astype("f") for v in inputs], ops)
    for outs in ([8], [5, 8], [4, 5, 6, 7, 8], [8, 8]):
        for turned in (False, True):
            given = [v.T.copy().T if turned and v.ndim > 1 else v for v in inputs]
            got = run(given, ops, [(r, half if want[r].dtype == np.float32 else "bool") for r in outs], shape=shape)
            for r, v in zip(outs, got):
                np.testing.assert_array_equal(v.astype("f"), rounded(want[r], half).astype("f"))
    got = run(inputs, ops, [(8, "float32"), (8, half), (6, "float32", "max", (0,))][:2], shape=shape)
    same_bits(got[0], want[8])
    np.testing.assert_array_equal(got[1].astype("f"), rounded(want[8], half).astype("f"))
    some = [np.where(np.isfinite(v.astype("f")), v, 0).astype(half) for v in (x, y)]
    top = run(some, [("sub", "float32", 0, 1)], [(2, half, "max", (0,))])[0]
    np.testing.assert_array_equal(top.astype("f"), rounded((some[0].astype("f") - some[1].astype("f")).max(0), half).astype("f"))
    views = x[..., :-1:2], y[..., 1::2]
    views = views[0], views[1][..., : views[0].shape[-1]]
    strided = run(views, [("sub", "float32", 0, 1)], [(2, half)])[0]
    with np.errstate(all="ignore"):
        plain = views[0].astype("f") - views[1].astype("f")
    np.testing.assert_array_equal(strided.astype("f"), rounded(plain, half).astype("f"))


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("n", [300, 9001])
def test_sixteen_bit_results_over_operands(half, n):
    x, y = half_operands(half, n)
    for ops in ([("sub", "float32", 0, 1)], [("sub", "float32", 0, 1), ("mul", "float32", 2, 0)], [("abs", "float32", 0)]):
        want = rounded(one_by_one([x.astype("f"), y.astype("f")], ops)[-1], half)
        for target in (0, 1):
            got = aliased([x, y], ops, [(1 + len(ops), target)])[0]
            np.testing.assert_array_equal(got.astype("f"), want.astype("f"))


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_selections_of_bools_by_one_mask(dtype):
    """A constant or a row that waits to become a mask does not take the place of the case that the strip holds."""
    rng = np.random.default_rng(0)
    row, column = (jnp.asarray(rng.integers(-5, 30, shape).astype(dtype)) for shape in ((1, 60), (60, 1)))
    mask, other = column > 20, ~(row > 3)
    cases = {"row": other, "true": True, "false": False, "column": column < 9}
    for first, a in cases.items():
        for second, b in cases.items():

            def fun(row, column, mask, other, a=a, b=b):
                low, high = row < column, ~(column < row)
                return jnp.where(mask, a, low), jnp.where(mask, b, high), jnp.where(mask, low, b), jnp.where(mask, high, a)

            got = fgrad.jit(fun)(row, column, mask, other)
            for x, y in zip(got, fun(row, column, mask, other), strict=True):
                np.testing.assert_array_equal(x, y, err_msg=f"{first} {second}")
