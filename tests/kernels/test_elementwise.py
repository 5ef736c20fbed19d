"""The elementwise VM: every opcode on every type it accepts, fused groups, broadcasts, aliasing, reductions, rejected programs."""

import ml_dtypes
import numpy as np
import pytest

from fgrad._kernels import elementwise as vm
from fgrad._kernels import parallel
from tests.kernels.harness import run_kernel
from tests.kernels.vm_builder import KERNEL, aliased, apply, code, encode, run, same

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTS = SIGNED + UNSIGNED
FLOATS = ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]
ALL = ["bool", *INTS, *FLOATS, *COMPLEX]
DTYPES = {code(d): d for d in ALL}
CODES = {str(np.dtype(d)): code(d) for d in [*ALL, "float16", ml_dtypes.bfloat16]}


def values(dtype, n=300, seed=0):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(n) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        edges = np.array([info.min, info.max, 0, 1, info.max - 1], dtype)
        return np.concatenate([edges, rng.integers(info.min, info.max, n, dtype=dtype), rng.integers(0, 9, n, dtype=dtype)])
    if dtype.kind == "c":
        return (rng.normal(size=n) + 1j * rng.normal(size=n)).astype(dtype)
    edges = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5, 2.5, -2.5, 8388607.5, 3e38]
    return np.concatenate([edges, rng.normal(size=n) * 3]).astype(dtype)


def trunc_div(a, b):
    out = []
    bits = a.dtype.itemsize * 8
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        q = -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        out.append(q & ((1 << bits) - 1))
    return np.array(out, f"u{a.dtype.itemsize}").view(a.dtype)


def trunc_rem(a, b):
    out = [x if y == 0 else abs(x) % abs(y) * (-1 if x < 0 else 1) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    return np.array(out, a.dtype)


def unsigned(a):
    return a.view(f"u{a.dtype.itemsize}")


ARITHMETIC = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "gcd": np.gcd,
    "neg": lambda a: (0 - a).astype(a.dtype) if a.dtype.kind in "iu" else -a,
    "square": lambda a: a * a,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "abs": np.abs,
    "not": lambda a: ~a,
    "sign": lambda a: np.where(a == 0, a, np.sign(a)),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round_even": np.rint,
    "round_away": lambda a: np.where(np.isfinite(a), np.copysign(np.trunc(np.abs(a).astype("longdouble") + 0.5), a), a).astype(a.dtype),
    "is_finite": np.isfinite,
    "nextafter": np.nextafter,
    "sqrt": np.sqrt,
    "popcount": lambda a: np.bitwise_count(unsigned(a)),
    "real": np.real,
    "imag": np.imag,
    "conj": np.conj,
    "clz": lambda a: np.array([a.dtype.itemsize * 8 - int(v).bit_length() for v in unsigned(a)], a.dtype),
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_exact_ops(name):
    """Ops whose results are exact: the same as NumPy's on every type."""
    for t in vm.SUPPORTED[name]:
        dtype = DTYPES[t]
        args = [values(dtype, seed=k) for k in range(vm.ARITY[name])]
        with np.errstate(all="ignore"):
            want = ARITHMETIC[name](*args)
        got = apply(name, dtype, *args)
        want = np.asarray(want).astype(got.dtype)
        if np.dtype(dtype).kind == "c" and name in ("mul", "square", "abs", "sign", "sqrt"):
            np.testing.assert_allclose(got, want, rtol=4 * np.finfo(dtype).eps)
        elif name == "max" or name == "min":
            np.testing.assert_array_equal(got, want)
        else:
            same(got, want)


@pytest.mark.parametrize("dtype", INTS)
def test_integer_division_power_and_shifts(dtype):
    a, b = values(dtype, seed=1), values(dtype, seed=2)
    b[5:25] = 0
    if dtype in SIGNED:
        a[25], b[25] = np.iinfo(dtype).min, -1
    same(apply("div", dtype, a, b), trunc_div(a, b))
    same(apply("rem", dtype, a, b), trunc_rem(a, b))
    bits = a.dtype.itemsize * 8
    e = np.random.default_rng(3).integers(0, 12, a.size).astype(dtype)
    want = np.array([pow(int(x), int(y)) & ((1 << bits) - 1) for x, y in zip(a, e, strict=True)], f"u{a.dtype.itemsize}").view(dtype)
    same(apply("pow", dtype, a, e), want)
    s = np.random.default_rng(4).integers(0, min(2 * bits, 127), a.size).astype(dtype)
    big = s.astype(int) >= bits
    left = [(int(x) << int(y)) & ((1 << bits) - 1) if y < bits else 0 for x, y in zip(unsigned(a), s, strict=True)]
    same(apply("shl", dtype, a, s), np.array(left, f"u{a.dtype.itemsize}").view(dtype))
    logical = np.where(big, 0, unsigned(a) >> np.where(big, 0, s).astype(unsigned(a).dtype)).astype(unsigned(a).dtype).view(dtype)
    same(apply("shr_logical", dtype, a, s), logical)
    as_signed = a.view(f"i{a.dtype.itemsize}")
    arith = (as_signed >> np.minimum(s, bits - 1).astype(as_signed.dtype)).view(dtype)
    same(apply("shr_arith", dtype, a, s), arith)
    if dtype in SIGNED:
        x = np.array([1, -1, -1, 2, 0, -3], dtype)
        same(apply("pow", dtype, x, np.array([-5, -2, -3, -1, -1, -2], dtype)), np.array([1, 1, -1, 0, 0, 0], dtype))


@pytest.mark.parametrize("dtype", INTS)
def test_shifts_by_one_value(dtype):
    a = values(dtype, seed=1)
    size = a.dtype.itemsize
    bits, signed = size * 8, a.view(f"i{size}")
    for y in (*range(bits + 2), 120):
        one, inside = np.asarray(y, dtype), min(y, bits - 1)
        left, right = unsigned(a) << np.asarray(inside, f"u{size}"), unsigned(a) >> np.asarray(inside, f"u{size}")
        for op, want in (("shl", left), ("shr_logical", right)):
            same(run([a, one], [(op, dtype, 0, 1)], [(2, dtype)])[0], (want if y < bits else 0 * want).view(dtype))
        arithmetic = run([a, one], [("shr_arith", dtype, 0, 1)], [(2, dtype)])[0]
        same(arithmetic, (signed >> np.asarray(inside, signed.dtype)).view(dtype))


def shifted(op, a, y):
    """Numbers a of Python's by y, which may be as large as it likes."""
    bits = a.dtype.itemsize * 8
    y = [min(int(v), bits) for v in unsigned(np.broadcast_to(y, a.shape).astype(a.dtype))]
    of = a.view(f"i{a.dtype.itemsize}") if op == "shr_arith" else unsigned(a)
    whole = [(int(x) << v if op == "shl" else int(x) >> v) & ((1 << bits) - 1) for x, v in zip(of, y, strict=True)]
    return np.array(whole, f"u{a.dtype.itemsize}").view(a.dtype)


@pytest.mark.parametrize("op", ["shl", "shr_logical", "shr_arith"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_shifts_of_narrow_numbers(dtype, op):
    """All bytes, or numbers that begin and end in any byte, by all shifts there are, negative ones as well; of one number by many."""
    few, ends = np.arange(256, dtype="u1"), np.arange(256)
    a = few.view(dtype) if dtype.endswith("8") else (ends << 8 | (ends * 37 & 255)).astype("u2").view(dtype)
    y = np.concatenate([np.arange(-3, 20), [127, 128 - 256 * (dtype == "int8")]]).astype(dtype)
    x, by = (np.ascontiguousarray(v.ravel()) for v in np.broadcast_arrays(a[:, None], y))
    same(apply(op, dtype, x, by), shifted(op, x, by))
    for n in (1, 5, 31, 33):
        same(apply(op, dtype, x[:n], by[:n]), shifted(op, x[:n], by[:n]))
    for one in a[::37]:
        same(run([one, by], [(op, dtype, 0, 1)], [(2, dtype)])[0], shifted(op, np.full(by.shape, one), by))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_division_by_one_number(dtype):
    """By every byte, or next to powers of two and by others: of all bytes, or of numbers next to multiples and at the ends."""
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    powers = [(1 << k) + d for k in range(info.bits) for d in (-1, 0, 1)]
    divisors = range(info.min, info.max + 1) if info.bits == 8 else [*powers, *rng.integers(2, info.max, 9, dtype=dtype)]
    for y in {y for v in divisors for y in (int(v), -int(v)) if info.min <= y <= info.max}:
        if info.bits == 8:
            x = np.arange(info.min, info.max + 1)
        else:
            whole = rng.integers(info.min // max(abs(y), 1), info.max // max(abs(y), 1) + 1, 61) * y
            x = np.concatenate([*(whole + d for d in (-1, 0, 1)), [info.min, info.min + 1, info.max - 1, info.max, 0, 1]])
        x = np.clip(x, info.min, info.max).astype(dtype)
        got = run([x, np.asarray(y, dtype)], [("div", dtype, 0, 1), ("rem", dtype, 0, 1)], [(2, dtype), (3, dtype)])
        same(got[0], trunc_div(x, np.full(x.shape, y, dtype)))
        same(got[1], trunc_rem(x, np.full(x.shape, y, dtype)))


WIDE = [0, 1, 2, 3, 7, 10, 641, 2**31, 2**32 - 1, 2**51 - 1, 2**51, 2**52 + 1, 2**53 - 1, 2**62 + 3, 2**63 - 1]


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_division_of_64_bits(dtype):
    """Numbers on both sides of 2^51, from which on blocks of 256 ask the machine; one divisor for all, of every size."""
    rng, signed = np.random.default_rng(0), dtype == "int64"
    edges = [*WIDE, *[-v for v in WIDE], -(2**63)] if signed else [*WIDE, 2**63, 2**64 - 1]
    small = rng.integers(1, 2**51, 700) >> rng.integers(0, 50, 700)
    x = np.concatenate([small * rng.choice([-1, 1] if signed else [1], 700), rng.integers(0, 2**63, 300)]).astype(dtype)
    y = np.concatenate([np.roll(small >> 20, 7), rng.integers(1, 2**63, 300)]).astype(dtype)
    x[:350] = (y[:350].astype(object) * (small[:350] >> 25) + rng.integers(-1, 2, 350) * signed).astype(dtype)  # next to whole quotients
    x = np.concatenate([x, np.asarray(edges, dtype)])
    y = np.concatenate([y, np.asarray(edges[::-1], dtype)])
    same(apply("div", dtype, x, y), trunc_div(x, y))
    same(apply("rem", dtype, x, y), trunc_rem(x, y))
    for one in edges:
        one = np.asarray(one, dtype)
        got = run([x, one], [("div", dtype, 0, 1), ("rem", dtype, 0, 1)], [(2, dtype), (3, dtype)])
        same(got[0], trunc_div(x, np.broadcast_to(one, x.shape)))
        same(got[1], trunc_rem(x, np.broadcast_to(one, x.shape)))


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("dtype", FLOATS)
def test_float_division_and_remainder(dtype):
    a, b = values(dtype, seed=1), values(dtype, seed=2)[::-1]
    with np.errstate(all="ignore"):
        same(apply("div", dtype, a, b), a / b)
        same(apply("rem", dtype, a, b), np.fmod(a, b))
        rng = np.random.default_rng(0)
        x, y = (rng.normal(size=4000) * 1e3).astype(dtype), rng.normal(size=4000).astype(dtype)
        x[:1000] = np.round(x[:1000]) * y[:1000]
        same(apply("rem", dtype, x, y), np.fmod(x, y))
        for far in (1, 20, 23, 24, 26, 60):  # quotients of up to so many bits, whole ones and their neighbours
            z = np.round(rng.uniform(-1, 1, 4000) * 2.0**far).astype(dtype) * y
            z[::3], z[1::3] = np.nextafter(z[::3], np.asarray(np.inf, dtype)), np.nextafter(z[1::3], np.asarray(-np.inf, dtype))
            same(apply("rem", dtype, z, y), np.fmod(z, y))


@pytest.mark.usefixtures("denormals")
def test_sizes_over_all_exponents():
    """|z| of complex64 and hypot beside float64: within 1.2 units in the last place, infinite where that is or a part is."""
    rng, exponents = np.random.default_rng(0), np.arange(256, dtype=np.uint32) << 23
    digits = rng.integers(0, 1 << 23, (2, 9, 256, 256)).astype(np.uint32)
    digits[:, 0], digits[:, 1], digits[0, 2], digits[1, 3] = 0, (1 << 23) - 1, 0, 0
    x, y = (d.reshape(-1).view("f") for d in (exponents[:, None] | digits[0], exponents | digits[1]))
    z = np.stack([-x, y], -1).view(np.complex64).ravel()
    with np.errstate(all="ignore"):
        want = np.hypot(x.astype("d"), y.astype("d"))
        whole = want.astype("f")
        ends = ~np.isfinite(whole)
        for got in (run([z], [("abs", "complex64", 0)], [(1, "float32")])[0], apply("hypot", "float32", x, y)):
            assert (np.isnan(got) == np.isnan(want)).all()
            assert (got[ends & ~np.isnan(want)] >= np.finfo("f").max).all()
            assert (np.abs(got[~ends] - want[~ends]) / np.spacing(whole[~ends])).max() < 1.2


def test_logits_at_the_ends():
    """0 and 1 among other numbers, which do not change for them, nor for what has no logit."""
    p = np.random.default_rng(0).uniform(0, 1, 1000).astype("f")
    alone = apply("logit", "float32", p)
    for step in (1, 3, 16, 100):
        for odd in ((0, 1), (0, 2), (1, np.nan)):
            mixed, want = p.copy(), alone.copy()
            for k, x in enumerate(odd):
                mixed[k::step], want[k::step] = x, {0: -np.inf, 1: np.inf}.get(x, np.nan)
            same(apply("logit", "float32", mixed), want)


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("y", [1, -2, 0.5, 3, 0.1, -7.3, 6.2831855, 1e-30, 1e-40, 3e38, 0, np.inf, np.nan])
@pytest.mark.parametrize("dtype", FLOATS)
def test_remainder_by_one_value(dtype, y):
    rng, y = np.random.default_rng(0), np.asarray(y, dtype)
    for scale in (1, 1e3, 1e7, 1e30):
        x = (rng.normal(size=3000) * scale).astype(dtype)
        with np.errstate(all="ignore"):
            x[:1000] = np.round(x[:1000]) * y
            x[1000:1006] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-44]
            for part in (x[:1000], x[1000:1002], x[1006:], x):
                part = part[np.isfinite(part)] if part is not x else x
                same(run([part, y], [("rem", dtype, 0, 1)], [(2, dtype)])[0], np.fmod(part, y))


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_quotients_of_any_size(dtype):
    """Near the ends of the range too, and with parts that are zero, infinite or NaN."""
    rng, top = np.random.default_rng(0), 37 if dtype == "complex64" else 300
    size = lambda: 10.0 ** rng.uniform(-top, top, 1000) * np.exp(2j * np.pi * rng.random(1000))
    x, y = size().astype(dtype), size().astype(dtype)
    want = x.astype("clongdouble") / y.astype("clongdouble")
    inside = (abs(want) < np.finfo(dtype).max / 4) & (abs(want) > np.finfo(dtype).tiny * 4)
    np.testing.assert_allclose(apply("div", dtype, x, y)[inside], want[inside], rtol=16 * np.finfo(dtype).eps)
    with np.errstate(all="ignore"):
        for z in (0, complex(0, -0.0), complex(np.inf, 1), complex(1, np.nan), complex(-np.inf, np.inf)):
            y[:] = z
            got = apply("div", dtype, x, y)
            assert not np.isfinite(got).any() or (np.isinf(abs(z)) and (got == 0).all()), z
    for part in (np.inf, -np.inf, np.nan, 89.0, 710.0, -1000.0):
        z = np.array([complex(part, 0), complex(part, 1), complex(0, part)], dtype)
        with np.errstate(all="ignore"):
            want = np.exp(z)
        np.testing.assert_allclose(apply("exp", dtype, z), want, rtol=1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
def test_select_clamp_fma_complex(dtype):
    x, y = values(dtype, seed=1), values(dtype, seed=2)
    p = np.random.default_rng(3).random(x.size) < 0.5
    same(apply("select", dtype, p, x, y), np.where(p, x, y))
    lo, hi = np.full_like(x, -1), np.full_like(x, 2)
    lo[3], hi[4] = -np.inf, np.inf
    same(apply("clamp", dtype, lo, x, hi), np.minimum(np.maximum(lo, x), hi))
    lo[5], hi[6] = np.nan, np.nan
    assert np.isnan(apply("clamp", dtype, lo, np.zeros_like(x), hi)[5:7]).all()
    finite = (np.abs(x) < 1e3) & (np.abs(y) < 1e3)
    np.testing.assert_allclose(apply("fma", dtype, x, y, x)[finite], x[finite] * y[finite] + x[finite], rtol=1e-5, atol=1e-5)
    same(apply("complex", dtype, x, y).view(dtype), np.stack([x, y], 1).ravel())


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_functions(dtype):
    x, y = values(dtype, seed=1), values(dtype, seed=2)
    tol = 64 * np.finfo(dtype).eps
    names = {
        "exp": np.exp,
        "log": np.log,
        "sqrt": np.sqrt,
        "sin": np.sin,
        "cos": np.cos,
        "tan": np.tan,
        "sinh": np.sinh,
        "cosh": np.cosh,
        "tanh": np.tanh,
        "expm1": np.expm1,
        "log1p": np.log1p,
        "recip": lambda z: 1 / z,
        "rsqrt": lambda z: 1 / np.sqrt(z),
        "logistic": lambda z: 1 / (1 + np.exp(-z)),
        "sign": lambda z: z / np.abs(z),
    }
    for name, f in names.items():
        np.testing.assert_allclose(apply(name, dtype, x), f(x.astype("complex128")), rtol=tol, err_msg=name)
    np.testing.assert_allclose(apply("div", dtype, x, y), x / y, rtol=tol)
    np.testing.assert_allclose(apply("pow", dtype, x, y), x.astype("complex128") ** y, rtol=tol)
    small = (x * 1e-6).astype(dtype)
    np.testing.assert_allclose(apply("expm1", dtype, small), small + small**2 / 2 + small**3 / 6, rtol=tol)
    np.testing.assert_allclose(apply("log1p", dtype, small), small - small**2 / 2 + small**3 / 3, rtol=tol)
    zero = np.zeros(2, dtype)
    same(apply("sign", dtype, zero), zero)
    same(apply("pow", dtype, zero, np.array([2, 0], dtype)), np.array([0, 1], dtype))


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("n", [40, 4099])
def test_logistic_functions_beside_exponentials_of_the_same_operand(n):
    """They share the exponential, whichever comes first and whatever lies between; of another operand they do not."""
    x, y = np.linspace(-104, 100, n).astype("f"), np.linspace(9, -9, n).astype("f")
    x[:5] = np.inf, -np.inf, np.nan, 0, 88.73
    ops = [("logistic", "f", 0), ("neg", "f", 2), ("logistic", "f", 1), ("exp", "f", 0), ("logistic", "f", 0), ("add", "f", 3, 6)]
    got = run([x, y], ops, [(k, "f") for k in range(2, 8)])
    with np.errstate(all="ignore"):
        want = 1 / (1 + np.exp(-x.astype("longdouble")))
    for shared in (got[0], got[4]):
        np.testing.assert_array_max_ulp(shared[np.isfinite(x)], want[np.isfinite(x)].astype("f"), 2)
        np.testing.assert_array_equal(shared[:3], np.array([1, 0, np.nan], "f"))
    same(got[1], -got[0])
    same(got[2], apply("logistic", "f", y))
    same(got[3], apply("exp", "f", x))
    same(got[5], got[1] + got[4])


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("n", [40, 256, 4099])
def test_products_of_logistic_functions_and_inputs(n):
    """One loop (gates), with the bits of two: of two inputs, of one with itself, on either side; not where somebody else reads the logistic
    function, and not of what is made, of itself, or of one value."""
    x, y, one = np.linspace(-104, 100, n).astype("f"), np.linspace(9, -9, n).astype("f"), np.full(1, 0.5, "f")
    x[:4] = np.inf, -np.inf, np.nan, 0
    ops = [("logistic", "f", i) for i in (0, 0, 1, 1, 0, 0, 0)]
    ops += [
        ("mul", "f", 3, 1),
        ("mul", "f", 0, 4),
        ("mul", "f", 5, 0),
        ("add", "f", 5, 0),
        ("mul", "f", 6, 13),
        ("mul", "f", 7, 7),
        ("mul", "f", 8, 2),
    ]
    got = run([x, y, np.broadcast_to(one, n)], ops, [(k, "f") for k in range(10, 17)])
    sx, sy = apply("logistic", "f", x), apply("logistic", "f", y)
    with np.errstate(all="ignore"):
        for have, want in zip(got, (sx * y, x * sx, sy * x, sy + x, sy * (sy + x), sx * sx, sx * one)):
            same(have, want)


@pytest.mark.parametrize("source", ALL)
@pytest.mark.parametrize("target", ALL)
def test_cast(source, target):
    x = values(source)
    s, t = np.dtype(source), np.dtype(target)
    got = run([x], [("cast", target, 0)], [(1, target)])[0]
    if t.kind == "b":
        want = x != 0
    elif s.kind in "fc" and t.kind in "iu":
        info = np.iinfo(t)
        want = np.array([0 if v != v else info.max if v >= info.max else info.min if v <= info.min else int(v) for v in x.real.tolist()], t)
    elif s.kind == "c" and t.kind != "c":
        want = x.real.astype(t)
    else:
        with np.errstate(all="ignore"):
            want = x.astype(t)
    same(got, want)


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("half", ["float16", ml_dtypes.bfloat16])
def test_half_floats(half):
    half = np.dtype(half)
    every = np.arange(65536).astype(np.uint16).view(half)
    wide = run([every], [], [(0, "float32")])[0]
    np.testing.assert_array_equal(wide, every.astype(np.float32))
    edges = [1e-8, 6e-8, 65519.0, 65520.0, 3e38, -3e38, 3.4e38, np.inf, np.nan, 3e-45, -0.0]
    x = np.concatenate([np.random.default_rng(0).normal(size=5000), edges]).astype("f")
    x[100:900:7] = np.resize(
        np.array([1e-40, -9e-39, 1.17549e-38, 0, np.inf, np.nan, -1e-45], "f"), 115
    )  # within whole vectors, subnormal ones apart
    x[1000:2000:9] = np.resize(np.array([0, -np.inf, -np.nan, -0.0], "f"), 112)
    with np.errstate(all="ignore"):
        want = x.astype(half)
    np.testing.assert_array_equal(run([x], [], [(0, half)])[0].astype("f"), want.astype("f"))
    name = "round_f16" if half == np.float16 else "round_bf16"
    np.testing.assert_array_equal(apply(name, "float32", x), want.astype("f"))
    y = every[np.isfinite(every.astype("f"))][::7][:6000].reshape(60, -1)
    got = run([y, y.T.copy().T, y[:, :1]], [("add", "float32", 0, 1), ("mul", "float32", 3, 2)], [(4, half), (3, half, "max", (1,))])
    with np.errstate(all="ignore"):
        total = y.astype("f") + y.astype("f")
        np.testing.assert_array_equal(got[0], (total * y[:, :1].astype("f")).astype(half))
        np.testing.assert_array_equal(got[1], total.max(1).astype(half))
    ones = np.ones((3, 5000), half)  # a 16-bit accumulator would stop at 2048 or 256
    np.testing.assert_array_equal(run([ones], [], [(0, half, "sum", (1,))])[0].astype("f"), np.full(3, 5000, "f").astype(half).astype("f"))


SHAPES = [
    (),
    (1,),
    (10,),
    (4097,),
    (3, 7),
    (100, 64),
    (5, 3000),
    (300, 10),
    (2, 3, 4, 5),
    (7, 1, 300),
    (16, 100, 9),
    (2, 2500, 3),
    (0,),
    (3, 0),
    (0, 4),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_broadcast_and_strided_operands(shape):
    rng = np.random.default_rng(len(shape))
    x = rng.normal(size=shape)
    scalar = rng.normal(size=(1,) * len(shape))
    row = rng.normal(size=(1,) * (len(shape) - 1) + shape[-1:]) if shape else scalar
    column = rng.normal(size=shape[:-1] + (1,)) if shape else scalar
    turned = rng.normal(size=shape[::-1]).transpose()
    backward = rng.normal(size=tuple(2 * n for n in shape))[tuple(slice(None, None, -2) for _ in shape)]
    operands = [x, scalar, row, column, turned, backward]
    ops = [("add", "float64", 0, 1), ("mul", "float64", 6, 2), ("sub", "float64", 7, 3), ("mul", "float64", 8, 4), ("add", "float64", 9, 5)]
    got = run(operands, ops, [(10, "float64"), (7, "float64")], shape=shape)
    first = (x + scalar) * row
    np.testing.assert_array_equal(got[1], first)
    np.testing.assert_allclose(got[0], (first - column) * turned + backward, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [s for s in SHAPES if s], ids=str)
@pytest.mark.parametrize("reduce", ["sum", "prod", "max", "min"])
def test_reductions(shape, reduce):
    f = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}[reduce]
    rng = np.random.default_rng(1)
    for bits in range(2 ** len(shape)):
        axes = tuple(d for d in range(len(shape)) if bits >> d & 1)
        for dtype in ("float64", "int8"):
            x = rng.integers(1, 3, shape).astype(dtype) if reduce == "prod" else (rng.normal(size=shape) * 50).astype(dtype)
            if reduce == "prod" and dtype == "float64":
                x = rng.uniform(0.99, 1.01, shape)
            got, plain = run([x], [("add", dtype, 0, 0), ("sub", dtype, 1, 0)], [(2, dtype, reduce, axes), (1, dtype)], shape=shape)
            info = np.iinfo(dtype) if dtype == "int8" else None
            start = {"sum": 0, "prod": 1, "max": info.min if info else -np.inf, "min": info.max if info else np.inf}[reduce]
            want = f(x, axis=axes, initial=start) if reduce in ("max", "min") else f(x, axis=axes, dtype=dtype)
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-9)
            np.testing.assert_array_equal(plain, x + x)


WALKS = [((300,), (0,)), ((40, 3000), (1,)), ((3000, 4), (0,)), ((2000, 30), (1,)), ((20, 30, 5), (1,)), ((700, 3), (1,)),
         ((11, 9000), (0,)), ((600, 500), (0,)), ((70000, 7), (0,)), ((5, 40000), (1,))]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("share", [0.002, 0.5, 1])
def test_reductions_that_pass_nan_over(dtype, share):
    reg, rng = "float64" if dtype == "float64" else "float32", np.random.default_rng(1)
    for shape, axes in WALKS:
        x = rng.uniform(0.999, 1.001, shape).astype(dtype)
        x[rng.random(shape) < share] = np.nan
        # registers: x, the constants 0 and 1, x != x, and x with either for NaN
        ops = [("ne", reg, 0, 0), ("select", reg, 3, 1, 0), ("select", reg, 3, 2, 0)]
        wide = x.astype("float64")
        half = dtype == "float16"  # whose 1 +- 1/1024 multiply up
        got = run(
            [x],
            ops,
            [(4, dtype, "sum", axes)] if half else [(4, dtype, "sum", axes), (5, dtype, "prod", axes)],
            consts=[(0, reg), (1, reg)],
        )
        np.testing.assert_allclose(got[0], np.nansum(wide, axes).astype(dtype), rtol=2e-3 if half else 2e-5)
        if not half:
            np.testing.assert_allclose(got[1], np.nanprod(wide, axes), rtol=2e-3)
        got = run([x], [], [(0, dtype, "fmax", axes), (0, dtype, "fmin", axes)])
        np.testing.assert_array_equal(got[0], np.fmax.reduce(x, axes[0]))
        np.testing.assert_array_equal(got[1], np.fmin.reduce(x, axes[0]))


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_counts_of_booleans(dtype):
    rng = np.random.default_rng(1)
    for shape, axes in [*WALKS, ((1000, 900), (0,)), ((3, 20000, 6), (1,))]:
        for share in (0.3, 1):
            b = rng.random(shape) < share
            got = run([b], [("cast", dtype, 0), ("select", dtype, 0, 2, 1)], [(3, dtype, "sum", axes), (4, dtype, "sum", axes)],
                      consts=[(0, dtype), (1, dtype)])  # fmt: skip
            for g in got:
                np.testing.assert_array_equal(g, b.sum(axes, dtype=dtype))
    x = rng.normal(size=(50, 4000)).astype("f")
    got = run(
        [x],
        [("gt", "float32", 0, 1), ("cast", dtype, 2)],
        [(3, dtype, "sum", (0,)), (2, "bool", "max", (0,)), (2, "bool")],
        consts=[(1, "float32")],
    )
    np.testing.assert_array_equal(got[0], (x > 1).sum(0))
    np.testing.assert_array_equal(got[1], (x > 1).any(0))
    np.testing.assert_array_equal(np.broadcast_to(got[2], x.shape), x > 1)


def test_reductions_of_bool_nan_and_complex():
    b = np.random.default_rng(0).random((50, 70)) < 0.98
    got = run([b], [], [(0, "bool", "min", (1,)), (0, "bool", "max", (1,))])
    np.testing.assert_array_equal(got[0], b.all(1))
    np.testing.assert_array_equal(got[1], b.any(1))
    for shape, axes in (((40, 3000), (1,)), ((3000, 4), (0,)), ((2000, 30), (1,)), ((20, 30, 5), (1,))):
        x = np.random.default_rng(1).normal(size=shape).astype("f")
        x[np.random.default_rng(2).random(shape) < 2e-3] = np.nan
        for name, f in (("max", np.max), ("min", np.min)):
            np.testing.assert_array_equal(run([x], [], [(0, "float32", name, axes)])[0], f(x, axis=axes))
    z = values("complex64", 6000).reshape(60, 100)
    for axes in ((0,), (1,), (0, 1)):
        np.testing.assert_allclose(run([z], [], [(0, "complex64", "sum", axes)])[0], z.astype("complex128").sum(axes), rtol=1e-4, atol=1e-4)
    got = run([np.empty((0,), bool)], [], [(0, "bool", "max", (0,)), (0, "bool", "min", (0,))])
    assert not got[0] and got[1]


LONG = [((3_000_000,), (0,)), ((1_000_000, 3), (0,)), ((3, 1_000_000), (1,)), ((200_000, 10), (1,)), ((2, 200_000, 6), (1,))]


@pytest.mark.parametrize("shape,axes", LONG)
def test_float32_sums_are_accurate(shape, axes):
    x = np.random.default_rng(0).random(shape, "f") + np.float32(0.1)
    got = run([x], [], [(0, "float32", "sum", axes)])[0]
    np.testing.assert_allclose(got, x.sum(axes, dtype=np.float64), rtol=1e-6)


def test_threads_do_not_change_results():
    before = parallel.get_num_threads()
    x = np.random.default_rng(0).normal(size=(700, 900)).astype("f")
    ops = [("exp", "float32", 0)]
    try:
        results = []
        for n in (1, 2, 3):
            parallel.set_num_threads(n)
            results.append([run([x], ops, [(1, "float32"), (1, "float32", "sum", axes)]) for axes in ((0,), (1,), (0, 1))])
        for other in results[1:]:
            for a, b in zip(results[0], other, strict=True):
                np.testing.assert_array_equal(a[0], b[0])
                np.testing.assert_array_equal(a[1], b[1])
    finally:
        parallel.set_num_threads(before)


def test_constants_and_no_inputs():
    ops = [("add", "float32", 0, 1), ("complex", "float32", 0, 2)]
    got = run(
        [],
        ops,
        [(2, "float32"), (3, "complex64"), (2, "float32", "sum", (0, 1))],
        consts=[(1.5, "float32"), (2.0, "float32")],
        shape=(30, 100),
    )
    np.testing.assert_array_equal(got[0], np.full((30, 100), 3.5, "f"))
    np.testing.assert_array_equal(got[1], np.full((30, 100), 1.5 + 3.5j, "complex64"))
    assert got[2] == 10500
    for dtype, value in (("complex64", 1 - 2j), ("complex128", 3 + 4j), ("int8", -5), ("bool", True), ("uint64", 2**64 - 1)):
        x = np.zeros(5, dtype)
        got = run([x], [("select", dtype, 2, 1, 0)], [(3, dtype)], consts=[(value, dtype), (True, "bool")])[0]
        same(got, np.full(5, value, dtype))


def check_rejected(message, ip, inputs=((4,),), outputs=(((4,), "float32"),), dtype="float32"):
    with pytest.raises(Exception, match=message):
        run_kernel(KERNEL, [np.zeros(s, dtype) for s in inputs], list(outputs), ip)


def test_rejected_programs():
    add, exp, f32 = vm.OPCODES["add"], vm.OPCODES["exp"], code("float32")
    check_rejected("must start", [1])
    check_rejected("registers", [9, 0, 0, 0, 0])
    check_rejected("registers", [1, -1, 0, 0, 0])
    check_rejected("registers", [2**40 + 1, 2**40, 0, 0, 0])
    check_rejected("integer parameters", [2, 0, 1, add, f32, 1, 0, 0, 0, 1])
    check_rejected("opcode 999", [2, 0, 1, 999, f32, 1, 0, 0, 0, 1, 0])
    check_rejected("does not accept", [2, 0, 1, exp, code("int32"), 1, 0, 0, 0, 1, 0])
    check_rejected("does not accept", [2, 0, 1, exp, code("float16"), 1, 0, 0, 0, 1, 0])
    check_rejected("sets register 0", [2, 0, 1, add, f32, 0, 0, 0, 0, 0, 0])
    check_rejected("sets register 1", [3, 0, 2, add, f32, 1, 0, 0, 0, add, f32, 1, 0, 0, 0, 1, 0])
    check_rejected("reads register 1", [2, 0, 1, add, f32, 1, 0, 1, 0, 1, 0])
    check_rejected("reads register -3", [2, 0, 1, add, f32, 1, -3, 0, 0, 1, 0])
    check_rejected("has type", [2, 0, 1, add, code("float64"), 1, 0, 0, 0, 1, 0])
    check_rejected("output 0 is register 7", [1, 0, 0, 7, 0])
    check_rejected("output 0 has dtype", [1, 0, 0, 0, 0], outputs=[((4,), "float64")])
    check_rejected("reduction 9", [1, 0, 0, 0, 9])
    check_rejected("reduction 1", [1, 0, 0, 0, 1], outputs=[((), "bool", (4,), (0,))], dtype="bool")
    check_rejected("constant 0", [2, 1, 0, 99, 0, 0, 0, 0])
    check_rejected("shape of output 0", [1, 0, 0, 0, 0], inputs=[(5,)])
    check_rejected("stride 0 on axis 0", [1, 0, 0, 0, 0], outputs=[((4,), "float32", (4,), (0,))])
    check_rejected("contiguous over its kept", [1, 0, 0, 0, 1], inputs=[(4, 3)], outputs=[((8,), "float32", (4, 3), (2, 0))])
    check_rejected(
        "differ on whether axis",
        [1, 0, 0, 0, 1, 0, 1],
        inputs=[(4, 3)],
        outputs=[((4,), "float32", (4, 3), (1, 0)), ((3,), "float32", (4, 3), (0, 1))],
    )


def test_tables():
    assert set(vm.OPCODES) == set(vm.ARITY) == set(vm.SUPPORTED) == set(vm.RESULT)
    assert vm.ARITY["select"] == 3 and vm.RESULT["abs"] == "real" and vm.RESULT["lt"] == "bool"
    assert code("float16") not in vm.SUPPORTED["add"] and code("complex64") in vm.SUPPORTED["tanh"]
    assert vm.SUPPORTED["cast"] == frozenset(DTYPES)
    assert len(CODES) == 15


@pytest.mark.parametrize("shape", [(3, 4), (70, 50), (40, 3000)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_strided_outputs(shape, dtype):
    """An output may be written through any view with non-zero strides: here transposed, beside a reduced one."""
    x = (np.random.default_rng(0).normal(size=shape) * 20).astype(dtype)
    reg = "float32" if dtype == "float16" else dtype
    rows, cols = shape
    ip = encode(1, [], [("add", reg, 0, 0)], [(1, "none"), (1, "max"), (1, "none")])
    got = run_kernel(KERNEL, [x], [((cols, rows), dtype, shape, (1, rows)), ((cols,), dtype, shape, (0, 1)), (shape, dtype)], ip)
    same(got[0], (x + x).T)
    same(got[1], (x + x).max(0))
    same(got[2], x + x)


def test_random_programs_never_crash():
    """Mutated parameters are either rejected by check or run; nothing reads out of bounds."""
    rng = np.random.default_rng(0)
    x = np.ones((3, 5), "f")
    good = encode(2, [(2.0, "float32")], [("add", "float32", 0, 1), ("mul", "float32", 3, 2)], [(4, "none"), (3, "sum")])
    outputs = [((3, 5), "float32"), ((3,), "float32", (3, 5), (1, 0))]
    ran = 0
    for _ in range(3000):
        ip = list(good)
        for _ in range(rng.integers(1, 4)):
            ip[rng.integers(len(ip))] = int(rng.choice([-1, 0, 1, 2, 3, 4, 5, 11, 12, 60, 2**31, -(2**63)]))
        try:
            run_kernel(KERNEL, [x, x], outputs, ip)
            ran += 1
        except Exception as e:
            assert "vm" in str(e)
    assert ran > 100


@pytest.mark.parametrize("seed", range(12))
def test_reductions_of_products_with_broadcasts(seed):
    """Kept and reduced axes in any order, operands broadcast and permuted, a plain result beside; all exact."""
    rng = np.random.default_rng(seed)
    for _ in range(12):
        shape = tuple(int(n) for n in rng.integers(1, (400, 60, 40, 12, 9)[: rng.integers(1, 6)])[::-1])
        axes = tuple(int(d) for d in np.flatnonzero(rng.random(len(shape)) < 0.5))
        x, y = (rng.integers(-4, 5, shape).astype("f") for _ in range(2))
        w = rng.integers(-4, 5, tuple(n if rng.random() < 0.5 else 1 for n in shape)).astype("f")
        order = rng.permutation(len(shape))
        y = np.ascontiguousarray(y.transpose(order)).transpose(np.argsort(order))
        ops = [("mul", "float32", 0, 1), ("mul", "float32", 3, 2), ("add", "float32", 4, 0)]
        got, plain = run([x, y, np.broadcast_to(w, shape)], ops, [(4, "float32", "sum", axes), (5, "float32")], shape=shape)
        np.testing.assert_array_equal(got, (x * y * w).astype("float64").sum(axes), err_msg=f"{shape} {axes} {w.shape}")
        np.testing.assert_array_equal(plain, x * y * w + x)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32", "int64"])
@pytest.mark.parametrize("n", [32768, 65537, 140003])
def test_long_tiles_of_one_loop(dtype, n):
    """One light operation in place has longer tiles in long runs; over an operand too, and where one is a single value."""
    rng = np.random.default_rng(0)
    x, y = (rng.integers(1, 100, n).astype(dtype) for _ in range(2))
    for name, fun in dict(add=np.add, mul=np.multiply, lt=np.less).items():
        same(apply(name, dtype, x, y), fun(x, y))
        same(apply(name, dtype, x, x), fun(x, x))
        same(apply(name, dtype, x, y[:1].reshape(())), fun(x, y[0]))
    for target in (0, 1):
        same(aliased([x, y], [("sub", dtype, 0, 1)], [(2, target)])[0], x - y)


def test_greatest_common_divisors():
    """Zeros, the least number, equal ones and those whose steps are many (neighbours in Fibonacci's sequence, powers of two)."""
    fibonacci = [1, 2]
    while fibonacci[-1] < 2**61:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    values = [*fibonacci, *[2**k for k in range(62)], *[-(2**k) for k in range(64)], 0, 0, -1, 2**63 - 1, 6, -6]
    x = np.asarray(values, "i8")
    y = np.concatenate([x[1:], x[:1]])
    for a, b in [
        (x, y),
        (x[::-1].copy(), y),
        (x, x),
        (x, 0 * x),
        (x.view("u8"), y.view("u8")),
        (x.astype("i4"), y.astype("i4")),
        (x.astype("i1"), y.astype("i1")),
    ]:
        same(apply("gcd", str(a.dtype), a, b), np.gcd(a, b))


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("n", [1, 63, 64, 65, 500])
def test_complex_square_roots(n):
    rng = np.random.default_rng(0)
    x = (rng.normal(size=n) + 1j * rng.normal(size=n)).astype("c8") * np.float32(10.0) ** rng.integers(-37, 37, n).astype("f")
    special = [
        0,
        -0.0,
        complex(-1, 0),
        complex(-1, -0.0),
        complex(0, -2),
        complex(np.inf, np.nan),
        complex(np.nan, -np.inf),
        complex(1e-45, 1e-45),
    ]
    x[: min(n, 8)] = np.asarray(special, "c8")[: min(n, 8)]
    got, want = apply("sqrt", "complex64", x), np.sqrt(x.astype("c16"))
    for g, w in ((got.real, want.real), (got.imag, want.imag)):
        np.testing.assert_allclose(g, w.astype("f"), rtol=2e-7)
        np.testing.assert_array_equal(np.signbit(g)[~np.isnan(g)], np.signbit(w)[~np.isnan(g)])


@pytest.mark.parametrize("source", ["int64", "uint64"])
def test_casts_of_64_bits_round_once(source):
    """Numbers around halves of float32's and float64's last places, of every size and with any low bits behind them."""
    rng = np.random.default_rng(0)
    shifts = rng.integers(0, 40, 4000)
    near = ((2**24 + rng.integers(0, 5, 4000)) << shifts) + (1 << rng.integers(0, 40, 4000)) + rng.integers(-1, 2, 4000)
    any_size = rng.integers(0, 2**63, 4000) >> rng.integers(0, 63, 4000)
    ends = np.array([0, 1, 2**53 - 1, 2**53, 2**53 + 1, 2**62, 2**63 - 1])
    x = np.concatenate([near, -near, any_size, -any_size, ends, ~ends]).astype(source)
    for target in FLOATS:
        (got,) = run([x], [("cast", target, 0)], [(1, target)])
        same(got, x.astype(target))


@pytest.mark.parametrize("dtype", INTS)
def test_integer_powers_of_mixed_exponents(dtype):
    """More than a block, exponents from none to all bits within one."""
    rng = np.random.default_rng(1)
    info, bits = np.iinfo(dtype), np.iinfo(dtype).bits
    x = np.concatenate([rng.integers(info.min, info.max, 500, dtype), rng.integers(0, 4, 137).astype(dtype)])
    y = rng.integers(info.min, info.max, x.size, dtype) >> rng.integers(0, bits, x.size).astype(dtype)
    whole = [
        pow(int(a), int(b), 1 << bits) if b >= 0 else {1: 1, -1: 1 - 2 * (int(b) & 1)}.get(int(a), 0) for a, b in zip(x, y, strict=True)
    ]
    want = np.array([v & ((1 << bits) - 1) for v in whole], f"u{bits // 8}").view(dtype)
    same(apply("pow", dtype, x, y), want)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_every_count_of_bits(dtype):
    x = np.arange(np.iinfo(dtype).max + 1).astype(dtype)
    same(apply("popcount", dtype, x), np.bitwise_count(x).astype(dtype))


@pytest.mark.parametrize("name", ["erf", "erfc", "erf_inv", "ndtr", "ndtri", "gelu_exact", "gelu_exact_slope"])
def test_error_functions_of_any_length(name):
    """A number has one value wherever it stands: alone, in whole vectors, at their end."""
    x = np.random.default_rng(2).uniform(-1.5, 1.5, 41)
    x[[3, 7, 12, 30]] = np.nan, np.inf, -0.0, 1
    whole = apply(name, np.float64, x)
    for n in range(1, 14):
        same(apply(name, np.float64, x[:n]), whole[:n])
    same(np.concatenate([apply(name, np.float64, x[k : k + 1]) for k in range(x.size)]), whole)
