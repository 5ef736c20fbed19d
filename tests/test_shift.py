"""Pads, concatenations and slices of computed arrays inside fused groups: the same values as NumPy's, in fewer instructions."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from tests.kernels.harness import run_kernel
from tests.kernels.vm_builder import KERNEL, encode


def laplacian(u):
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]


def data(*shape, dtype="float32", seed=0):
    x = np.random.default_rng(seed).standard_normal(shape)
    return (x * 3 if dtype.startswith("int") else x > 0 if dtype == "bool" else x).astype(dtype)


def instructions(fun, *args):
    return [name for _, name in fgrad.jit(fun).lower(*args).compile().profile(*args, repeat=1)]


SHAPES_1D = [(128,), (4097,), (4224,), (6273,), (12_001,), (20_011,)]
SHAPES_2D = [(2, 200), (2, 6500), (3001, 7), (17, 1500), (65, 257), (128, 128)]


@pytest.mark.parametrize("shape", SHAPES_1D)
def test_gradient_of_differences(shape):
    x = data(*shape)
    grad = fgrad.grad(lambda x: ((x[1:] - x[:-1]) ** 2).sum())
    d = 2 * np.diff(x)
    np.testing.assert_allclose(fgrad.jit(grad)(x), np.pad(d, (1, 0)) - np.pad(d, (0, 1)), rtol=1e-5, atol=1e-5)
    assert (len(instructions(grad, x)) == 1) == (len(x) > 4096)  # shorter ones gain nothing


@pytest.mark.parametrize("shape", SHAPES_2D)
def test_gradient_of_a_laplacian(shape):
    if min(shape) < 3:
        shape = (3, *shape[1:])
    u = data(*shape)
    got = fgrad.jit(fgrad.grad(lambda u: (laplacian(u) ** 2).sum()))(u)
    t, want = 2 * laplacian(u.astype(np.float64)), np.zeros(shape)
    for c, rows, cols in ((1, 0, 1), (1, 2, 1), (1, 1, 0), (1, 1, 2), (-4, 1, 1)):
        want[rows : rows + t.shape[0], cols : cols + t.shape[1]] += c * t
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8", "bool", "bfloat16", "float16"])
@pytest.mark.parametrize("shape", SHAPES_1D[1:] + SHAPES_2D)
def test_rolls_pads_and_updates(shape, dtype):
    with fgrad.enable_x64(dtype == "float64"):
        x = jnp.asarray(data(*shape, dtype="bool" if dtype == "bool" else "int32" if dtype[0] == "i" else "float64")).astype(dtype)
        inner = tuple(slice(1, -1) if n > 2 else slice(None) for n in shape)
        one = jnp.asarray(1, dtype)

        def fun(x):
            y = x | one if dtype == "bool" else x + one
            rolled = [jnp.roll(y, s, a) for a in range(x.ndim) for s in (1, -2)]
            padded = lax.pad(y, jnp.asarray(1, dtype), [(2, -1 if n > 1 else 0, 0) for n in shape])
            return (*rolled, padded, x.at[inner].set(y[inner]), jnp.concatenate([y, x], -1), lax.pad(y, one, [(0, 1, 1)] * x.ndim))

        wants, gots = fun(x), fgrad.jit(lambda x: tuple(v ^ one if dtype == "bool" else v + one for v in fun(x)))(x)
        for got, want in zip(gots, wants):
            want = want ^ one if dtype == "bool" else want + one
            assert got.dtype == want.dtype
            np.testing.assert_allclose(np.asarray(got, float), np.asarray(want, float), rtol=1e-2 if "16" in dtype else 1e-6)


@pytest.mark.parametrize("value", [0.0, -0.0, np.inf, -np.inf, np.nan, 2.5])
@pytest.mark.parametrize("low, high", [(0, 3), (3, 0), (2, 2), (-1, 4), (-3, -2), (200, 1)])
def test_pad_values(value, low, high):
    x = data(500)
    got = fgrad.jit(lambda x, v: lax.pad(x * 2, v, [(low, high, 0)]) * -1)(x, np.float32(value))
    x = (x * 2)[max(-low, 0) : 500 + min(high, 0)]
    want = -np.pad(x, (max(low, 0), max(high, 0)), constant_values=value)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def test_infinite_operands_stay_outside():
    """What lies outside of an operand is not computed with: no NaN comes from it."""
    x = data(1000)
    x[0] = x[-1] = np.inf
    got = fgrad.jit(lambda x: lax.pad(x[1:-1] * 2, 0.0, [(1, 1, 0)]) + 1)(x)
    np.testing.assert_array_equal(got, np.pad(x[1:-1] * 2, 1) + 1)


@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
def test_sums_of_padded_arrays(axis):
    x = data(130, 70)
    got = fgrad.jit(lambda x: (lax.pad(jnp.exp(x), 0.0, [(1, 2, 0), (3, 0, 0)]) * 2).sum(axis))(x)
    np.testing.assert_allclose(got, (np.pad(np.exp(x), ((1, 2), (3, 0))) * 2).sum(axis), rtol=1e-5)


def test_a_heat_equation_in_a_loop():
    u = data(60, 70)
    got = fgrad.jit(lambda u: lax.fori_loop(0, 9, lambda i, u: u.at[1:-1, 1:-1].add(0.1 * laplacian(u)), u))(u)
    for _ in range(9):
        u = u + 0.1 * np.pad(laplacian(u), 1)
    np.testing.assert_allclose(got, u, rtol=1e-4, atol=1e-5)


def test_dear_operations_are_not_repeated():
    x = data(100_000)
    names = instructions(lambda x: (lambda y: y[1:] - y[:-1])(jnp.exp(x)), x)
    assert sorted([n.split()[0] for n in names]) == ["exp", "sub"]
    names = instructions(lambda x: (lambda y: y[1:] * y[:-1])(x * 2), x)
    assert [n.split()[0] for n in names] == ["mul+mul+mul"]


def test_results_that_others_need_are_written():
    x = data(2000)

    def fun(x):
        y = lax.pad(x * 2, 0.0, [(1, 1, 0)])
        return y, jnp.sort(y), y[2:] - y[:-2], y * 3

    got, y = fgrad.jit(fun)(x), np.pad(x * 2, 1)
    for a, b in zip(got, (y, np.sort(y), y[2:] - y[:-2], y * 3)):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def boxed(ip, guards, boxes):
    return [*ip, len(boxes), *[i for k, g in enumerate(guards) for i in (g, k)], *[i for box in boxes for i in box]]


def test_boxes_are_checked():
    ip = encode(2, [], [("window", "float32", 0, 1, 0)], [(2, "none")])

    def run(guards, boxes, shapes=((2, 3), (4, 5)), ip=ip):
        inputs = [np.arange(np.prod(s), dtype=np.float32).reshape(s) + 1 for s in shapes]
        return run_kernel(KERNEL, inputs, [((4, 5), "float32")], boxed(ip, guards, boxes))[0]

    want = np.arange(20, dtype=np.float32).reshape(4, 5) + 1
    want[1:3, 2:5] = np.arange(6, dtype=np.float32).reshape(2, 3) + 1
    np.testing.assert_array_equal(run([0, -1], [(1, 3, 2, 5)]), want)
    for message, guards, boxes, shapes in (
        ("shape of output 0", [0, -1], [(1, 3, 2, 5)], ((2, 4), (4, 5))),
        ("shape of output 0", [-1, -1], [(1, 3, 2, 5)], ((2, 3), (4, 5))),
        ("input 0 has box 1", [1, -1], [(1, 3, 2, 5)], ((2, 3), (4, 5))),
        ("input 1 has box -2", [0, -2], [(1, 3, 2, 5)], ((2, 3), (4, 5))),
        ("along axis 1", [0, -1], [(1, 3, 2, 6)], ((2, 4), (4, 5))),
        ("along axis 0", [0, -1], [(-1, 1, 2, 5)], ((2, 3), (4, 5))),
        ("along axis 0", [0, -1], [(2, 2, 2, 5)], ((0, 3), (4, 5))),
        ("integer parameters", [0], [(1, 3, 2, 5)], ((2, 3), (4, 5))),
    ):
        with pytest.raises(Exception, match=message):
            run(guards, boxes, shapes)
    bad = encode(2, [], [("window", "float32", 0, 1, 1)], [(2, "none")])
    with pytest.raises(Exception, match="box 1 of 1"):
        run([0, -1], [(1, 3, 2, 5)], ip=bad)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_keep_every_bit(dtype):
    """Sums of many shifted arrays are one operation, rounded as they are one after the other."""
    x = np.random.default_rng(0).standard_normal(1037).astype(dtype)
    x[5] = -0.0
    parts = [x[i : 1030 + i] for i in range(7)]
    c = [dtype(v) for v in (0.1, -3, 1.5, 0.7, -1e-3, 2, 0.3)]

    def weighted(p):
        out = p[0] * c[0]
        for k in range(1, len(p)):
            out = out + p[k] * c[k]
        return out

    def mixed(p):
        return (((p[3] - (p[0] + p[1] * c[1])) - p[2] * c[2]) + -p[4]) - (p[5] + p[6]) + c[3]

    def turned(p):
        return p[6] + (p[5] * c[5] + (p[4] - (p[3] + (p[2] - p[1] - p[0]))))

    with fgrad.enable_x64(dtype is np.float64):
        for fun in (weighted, mixed, turned):
            for n in (3, 4, 5, 7) if fun is weighted else (7,):
                got = np.asarray(fgrad.jit(lambda x, fun=fun, n=n: fun([x[i : 1030 + i] for i in range(n)]))(x))
                want = fun(parts[:n])
                np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("shape", [(300,), (2049,), (5003,), (40_000,), (3, 700), (37, 11), (9, 3, 130)], ids=str)
def test_windows_of_computed_values_are_stages(shape, dtype):
    """Chains of cheap operations with windows between them, against NumPy bit for bit: tiles inside, outside and across the boxes."""
    rng = np.random.default_rng(len(shape) + shape[-1])
    apply = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "neg": np.negative, "square": np.square}
    for _ in range(6):
        inputs = [data(*shape, dtype=dtype, seed=k) for k in range(3)]
        consts = [(v, dtype) for v in (0, 3)]
        lows = [[int(rng.integers(0, n)) for n in shape] for _ in range(3)]
        boxes = [[(lo, int(rng.integers(lo + 1, n + 1))) for lo, n in zip(low, shape)] for low in lows]
        boxes[0] = [(0, n - 1) for n in shape]
        values, ops = [*inputs, *(np.full(shape, v, dtype) for v, _ in consts)], []
        for _ in range(14):
            a, b = (int(k) for k in rng.integers(max(0, len(values) - 6), len(values), 2))
            name = str(rng.choice([*apply, "window", "window"]))
            if name == "window":
                box = int(rng.integers(3))
                inside = tuple(slice(lo, hi) for lo, hi in boxes[box])
                made = values[b].copy()
                made[inside] = values[a][inside]
                ops.append((name, dtype, a, b, box))
            else:
                args = (a, b)[: 1 if name in ("neg", "square") else 2]
                with np.errstate(all="ignore"):
                    made = apply[name](*(values[k] for k in args))
                ops.append((name, dtype, *args))
            values.append(made)
        outs = [len(values) - 1, len(values) - 4]
        ip = boxed(encode(3, consts, ops, [(r, "none") for r in outs]), [-1] * 3, [sum(map(list, box), []) for box in boxes])
        got = run_kernel(KERNEL, inputs, [(shape, dtype)] * 2, ip)
        for r, x in zip(outs, got):
            np.testing.assert_array_equal(x, values[r])


def test_what_lies_in_buffers_does_not_reach_results():
    """Outside of their boxes guarded operands leave their tiles as they were: NaN of rows and runs before."""
    f = fgrad.jit(lambda x: sum(g * g for g in jnp.gradient(x)))
    x = np.random.default_rng(0).normal(size=(30, 1000)).astype("f")
    f(jnp.full(x.shape, jnp.nan))
    x[10] = np.nan
    np.testing.assert_allclose(np.asarray(f(jnp.asarray(x))), sum(g * g for g in np.gradient(x)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap", "symmetric"])
@pytest.mark.parametrize("shape", [(20, 30), (130, 140), (128, 512)])
def test_rows_of_pieces_that_are_read_often_are_put_together(shape, mode):
    x, taps = data(*shape), np.array([1, 4, 6, 4, 1], np.float32) / 16

    def blurred(np, x):
        p = np.pad(x, 2, mode=mode)
        rows = sum(taps[k] * p[k : k + x.shape[0]] for k in range(5))
        return sum(taps[k] * rows[:, k : k + x.shape[1]] for k in range(5))

    fun = fgrad.jit(lambda x: blurred(jnp, x))
    np.testing.assert_allclose(fun(x), blurred(np, x), rtol=1e-5, atol=1e-5)
    names = instructions(lambda x: blurred(jnp, x), x)
    assert not any(name.startswith("window") and "[128, 516]" in name for name in names), names
    t = data(*shape, seed=1)
    grad = fgrad.jit(fgrad.grad(lambda x: (blurred(jnp, x) * t).sum()))(x)
    np.testing.assert_allclose((grad * t).sum(), (blurred(np, t) * t).sum(), rtol=1e-3)


@pytest.mark.parametrize("n", [300, 1000, 1001, 5000])
@pytest.mark.parametrize("row", [0, 5, 64])
def test_reversed_ends_of_one_row(n, row):
    """A walk along one axis is cut where windows begin: what is read backwards is read from there."""
    x = np.random.default_rng(0).standard_normal((65, n)).astype(np.float32)

    def f(m, x):
        ends = m.concatenate([x[:, :2][:, ::-1], m.zeros((65, n - 5), np.float32), x[:, -9:][:, ::-1]], 1)
        return ends[row : row + 1] * 2

    np.testing.assert_array_equal(np.asarray(fgrad.jit(lambda x: f(jnp, x))(x)), f(np, x))
