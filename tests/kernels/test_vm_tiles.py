"""How the elementwise VM walks its operands: outputs over inputs, single values, independent parts, results past the caches."""

import ml_dtypes
import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from tests.kernels.vm_builder import aliased, run, same


@pytest.mark.parametrize("n", [10, 5000])
def test_outputs_over_inputs(n):
    a, b = np.random.default_rng(0).normal(size=(2, n)).astype("f")
    same(aliased([a, b], [("add", "float32", 0, 1)], [(2, 0)])[0], a + b)
    swapped = aliased([a, b], [], [(1, 0), (0, 1)])
    same(swapped[0], b)
    same(swapped[1], a)
    # output 0 is written by the first op, while the input it replaces is still needed
    got = aliased([a, b], [("add", "float32", 0, 1), ("mul", "float32", 2, 0), ("sub", "float32", 3, 1)], [(2, 0), (4, 1)])
    same(got[0], a + b)
    np.testing.assert_allclose(got[1], (a + b) * a - b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "max", "min", "lt", "le", "gt", "ge"])
def test_one_value_a_tile(name, dtype):
    """A constant, a scalar and a column as either operand; rows shorter and longer than a tile."""
    reference = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum,
                 "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}[name]  # fmt: skip
    compute = "float32" if dtype == "float16" else dtype
    out = "bool" if name in ("lt", "le", "gt", "ge") else dtype
    rng = np.random.default_rng(0)
    for shape in ((3, 700), (5, 5000), (4, 3)):
        x, column, scalar = (rng.normal(size=s).astype(dtype) for s in (shape, (shape[0], 1), ()))
        for y in (column, scalar):
            got = run([x, y], [(name, compute, 0, 1), (name, compute, 1, 0)], [(2, out), (3, out)])
            same(got[0], reference(x, y))
            same(got[1], reference(y, x))
        got = run([x], [(name, compute, 0, 1), (name, compute, 1, 0)], [(2, out), (3, out)], consts=[(0.5, compute)])
        same(got[0], reference(x, np.asarray(0.5, dtype)))
        same(got[1], reference(np.asarray(0.5, dtype), x))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint32", "uint64", "int8", "float16"])
def test_comparisons_of_a_column_and_rows(dtype):
    """Either way around, of one row for all and of rows of their own, of less than a vector and of some; results that are read and kept."""
    rng = np.random.default_rng(0)
    for rows, cols in ((1000, 100), (40, 17), (70, 255), (500, 7), (1, 100), (300, 33), (3, 64)):
        x, y, z = (rng.integers(0, 9, n).astype(dtype) for n in (rows, cols, (rows, cols)))
        for a in (x, y, z):
            if a.dtype.kind == "f":
                a.flat[::5], a.flat[1::7], a.flat[2::11] = np.nan, -0.0, np.inf
            else:
                a.flat[::4], a.flat[1::7] = np.iinfo(dtype).max, np.iinfo(dtype).min
        for op in (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal):

            def fun(m, x, y, z):
                f = getattr(m, op.__name__)  # noqa: B023
                x = x[:, None]
                mask = f(x, y)
                return mask, f(y, x), f(x, z), f(z, x), m.where(mask, z, z.dtype.type(0)), f(x, y).sum(0)

            with fgrad.enable_x64():
                results = fgrad.jit(lambda *a: fun(jnp, *a))(x, y, z)  # noqa: B023
            for got, want in zip(results, fun(np, x, y, z)):
                same(np.asarray(got), want)


def test_one_value_read_in_two_ways():
    """A column that one op reads as a value a tile and another needs in full; two columns in one op; a column as an output."""
    x, c, d = (np.random.default_rng(0).normal(size=s).astype("f") for s in ((6, 900), (6, 1), (6, 1)))
    got = run([x, c, d], [("mul", "float32", 0, 1), ("exp", "float32", 1), ("add", "float32", 1, 2), ("mul", "float32", 1, 1)],
              [(3, "float32"), (4, "float32"), (5, "float32"), (6, "float32"), (2, "float32")])  # fmt: skip
    full = np.zeros_like(x)
    same(got[0], x * c)
    np.testing.assert_allclose(got[1], np.exp(c) + full, rtol=1e-6)
    same(got[2], c + d + full)
    same(got[3], c * c + full)
    same(got[4], d + full)


@pytest.mark.parametrize("n", [10, 300_000])
def test_independent_parts(n):
    """Chains that share only scalars, their ops in turn; then with outputs over inputs of the same and of other chains."""
    leaves = np.random.default_rng(0).normal(size=(6, n)).astype("f")
    scale = np.float32(0.5)
    ops = [("mul", "float32", i, 6) for i in range(6)] + [("add", "float32", 8 + i, 7) for i in range(6)]
    got = run([*leaves, scale], ops, [(14 + i, "float32") for i in range(6)], consts=[(1.5, "float32")])
    for x, y in zip(leaves, got):
        same(y, x * scale + np.float32(1.5))
    ops = [("add", "float32", i, 4) for i in range(4)] + [("mul", "float32", 5 + i, i) for i in range(4)]
    for targets in ([0, 1, 2, 3], [1, 2, 3, 0], [3, 2, 1, 0]):
        got = aliased(leaves[:4], ops, [(9 + i, t) for i, t in enumerate(targets)], consts=[(2.5, "float32")])
        for x, y in zip(leaves, got):
            same(y, (x + np.float32(2.5)) * x)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_results_larger_than_the_caches(dtype):
    """32 MB and more are written past the caches, with heads and tails that do not fill a line."""
    dtype = np.dtype(dtype) if dtype == "float32" else np.dtype(ml_dtypes.bfloat16)
    rows, n = (32 << 20) // dtype.itemsize // 1001 + 1, 1001
    x = np.arange(rows * n, dtype="f").reshape(rows, n).astype(dtype)
    column = np.arange(rows, dtype="f").reshape(rows, 1).astype(dtype)
    ops = [("mul", "float32", 0, 2), ("add", "float32", 3, 1)]
    got = run([x, column], ops, [(4, dtype), (3, dtype), (0, dtype)], consts=[(0.5, "float32")])
    want = x.astype("f") * np.float32(0.5)
    same(got[1], want.astype(dtype))
    same(got[2], x)
    want += column.astype("f")
    same(got[0], want.astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_sums_of_products_that_nobody_else_reads(dtype):
    """The factors are summed without a tile for the product: every way to walk, broadcast and permuted factors, squares; all exact."""
    rng = np.random.default_rng(0)
    compute, dtype = ("float32" if dtype == "bfloat16" else dtype), np.dtype(dtype if dtype != "bfloat16" else ml_dtypes.bfloat16)
    for shape, axes in [((70_000,), (0,)), ((7, 5000), (1,)), ((7, 30), (1,)), ((300, 700), (0,)), ((90, 20), (0,)), ((40, 33, 20), (0, 2)),
                        ((5, 40, 33, 20), (0, 2)), ((9, 20, 7), (1,)), ((9, 300, 70), (1,)), ((3, 4), ())]:  # fmt: skip
        x, y = (rng.integers(-2, 3, shape).astype(dtype) for _ in range(2))
        row, column = rng.integers(-2, 3, shape[-1:]).astype(dtype), rng.integers(-2, 3, (*shape[:-1], 1)).astype(dtype)
        turned = np.ascontiguousarray(x.T).T
        factors = [(x, y), (x, row), (row, turned), (column, x), (turned, turned)]
        for a, b in factors:
            a, b = (np.broadcast_to(v, shape) for v in (a, b))
            want = (a.astype("d") * b.astype("d")).sum(axes).astype(dtype).astype("d")
            ops = [("mul", compute, 0, 1), ("square", compute, 0), ("mul", compute, 2, 2)]
            got, squares, twice = run([a, b], ops, [(r, dtype, "sum", axes) for r in (2, 3, 4)][:2] + [(4, dtype)], shape=shape)
            np.testing.assert_array_equal(got.astype("d"), want)
            np.testing.assert_array_equal(squares.astype("d"), (a.astype("d") ** 2).sum(axes).astype(dtype).astype("d"))
            np.testing.assert_array_equal(twice.astype("d"), (a.astype("d") * b.astype("d")) ** 2)
            alone, largest = run(
                [a, b], ops[:1] + [("add", compute, 0, 1)], [(2, dtype, "sum", axes), (3, dtype, "max", axes)], shape=shape
            )
            np.testing.assert_array_equal(alone.astype("d"), want)
            np.testing.assert_array_equal(largest, np.max(a.astype(compute) + b.astype(compute), axes).astype(dtype))


@pytest.mark.parametrize("special", [None, np.nan, np.inf])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("shape", [(33, 129), (2, 5001), (5001, 2), (300, 70), (40, 7, 50), (300, 17, 65), (1, 300)])
def test_reductions_widen_halves_as_they_read(shape, dtype, special):
    """Sums, products, extrema and sums of products of 16-bit floats, over short and long rows and columns, alone and together."""
    rng = np.random.default_rng(0)
    x, y = ((1 + 0.05 * rng.normal(size=shape)).astype(dtype) for _ in range(2))
    if special is not None:
        x.reshape(-1)[rng.integers(0, x.size, 2)] = special
    wide, other = x.astype("d"), y.astype("d")
    for axes in [(0,), (1,), tuple(range(len(shape))), (0, len(shape) - 1)]:
        for reduce, reference, rtol in (("max", np.max, 0), ("min", np.min, 0), ("sum", np.sum, 2e-6), ("prod", np.prod, 1e-3)):
            if reduce == "prod" and x.size > 30_000:  # partial products of so many would underflow
                continue
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                want = reference(wide, axes).astype("f")
            got = run([x], [("mul", "float32", 0, 1)], [(2, "float32", reduce, axes)], consts=[(1.0, "float32")])[0]
            np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-37)
        square, product, total = run([x, y], [("square", "float32", 0), ("mul", "float32", 0, 1)],
                                     [(2, "float32", "sum", axes), (3, "float32", "sum", axes), (0, dtype, "sum", axes)])  # fmt: skip
        np.testing.assert_allclose(square, np.sum(wide * wide, axes), rtol=2e-6)
        np.testing.assert_allclose(product, np.sum(wide * other, axes), rtol=2e-6)
        np.testing.assert_allclose(total.astype("d"), np.sum(wide, axes).astype(dtype).astype("d"), rtol=2**-7)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
@pytest.mark.parametrize("k", [9, 16, 31, 32, 33, 64, 100, 128, 200, 256])
def test_rows_of_a_few_vectors(k, dtype):
    """Each row's last vector is masked: what follows in memory must not count, special values at a row's ends must."""
    rng = np.random.default_rng(k)
    x = (rng.standard_normal((70, k)) * 2).astype(dtype)
    if x.dtype.kind == "f":
        x[3, -1], x[4, 0], x[5, k // 2], x[7, -1], x[9, 0] = np.nan, np.nan, np.nan, np.inf, -np.inf
    y = jnp.asarray(x)
    for name in ("sum", "max", "min", "prod", "nansum", "nanmax"):
        want = getattr(np, name)(x.astype(np.float64) if x.dtype.kind == "f" else x.astype(np.int64), 1)
        if name == "prod" and x.dtype.kind == "i":
            want = want.astype(np.int32)
        got = fgrad.jit(lambda y, name=name: getattr(jnp, name)(y, axis=1))(y)
        np.testing.assert_allclose(np.asarray(got).astype(np.float64), want, rtol=1e-3 if name == "prod" else 1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint32", "int64"])
@pytest.mark.parametrize(
    "shape",
    [(3, 2), (5, 7, 3), (40, 20, 16), (9, 30, 17), (4, 60, 100), (2, 3, 511), (7, 1, 33), (2, 5, 6, 9), (3, 70, 2), (2, 33, 4), (5, 40, 8)],
)
def test_columns_and_rows(shape, dtype):
    """An operation of a column and rows that lie in memory as they are: one for all, one after the other, or apart."""
    with fgrad.config.override("jax_enable_x64", True):
        rng = np.random.default_rng(0)
        column = rng.integers(-9, 9, (*shape[:-1], 1)).astype(dtype)
        rows = [rng.integers(1, 9, (*shape[:-2], 1, shape[-1])), rng.integers(1, 9, (1, *shape[1:])), rng.integers(1, 9, shape[-1:])]
        rows = [r.astype(dtype) for r in rows]
        apart = np.concatenate([rows[1], rows[1] + 1], -1).astype(dtype)
        column.flat[0] = 0
        operations = [lambda x, y: x * y, lambda x, y: y - x, lambda x, y: x - y, lambda x, y: x + y]
        if dtype.startswith("float"):
            column.flat[0] = -0.0
            operations += [lambda x, y: x / y, lambda x, y: y / x]
        for y in rows:
            for f in operations:
                with np.errstate(divide="ignore"):
                    np.testing.assert_array_equal(fgrad.jit(f)(column, y), f(column, y))
                    want = np.asarray(f(column, y)) + 1
                np.testing.assert_array_equal(np.asarray(fgrad.jit(lambda x, y: f(x, y) + 1)(column, y)), want.astype(dtype))  # noqa: B023
            np.testing.assert_array_equal(fgrad.jit(lambda x, y: (x * y).max(-2))(column, y), (column * y).max(-2))
            np.testing.assert_array_equal(fgrad.jit(lambda x, y: (x - y).sum(-1))(column, y), (column - y).sum(-1))
        got = fgrad.jit(lambda x, y: x + y[..., shape[-1] :])(column, apart)
        np.testing.assert_array_equal(got, column + apart[..., shape[-1] :])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
@pytest.mark.parametrize("shape", [(16, 10, 10), (1, 9, 3), (5, 2, 15), (3, 128, 5), (3, 129, 5), (4, 33, 17), (2, 5, 40), (20, 8, 1, 7)])
def test_short_middle_axes(shape, dtype):
    """Rows of columns are reduced in registers, at the end of memory as well."""
    with fgrad.config.override("jax_enable_x64", True):
        x = np.random.default_rng(0).integers(-4, 5, shape).astype(dtype)
        if dtype.startswith("float"):
            x.flat[[0, -1]] = np.nan, np.inf
        if dtype != "bool":
            for name in ("sum", "prod", "max", "min", "nansum", "nanmax"):
                got = np.asarray(fgrad.jit(lambda x: getattr(jnp, name)(x * 1, 1))(x))  # noqa: B023
                np.testing.assert_array_equal(got, getattr(np, name)(x, 1).astype(got.dtype), name)
            got = np.asarray(fgrad.jit(lambda x: (x * (x + 1)).sum(1))(x))
            np.testing.assert_array_equal(got, (x * (x + 1)).sum(1).astype(got.dtype))
        for name in ("any", "all", "argmax", "argmin"):
            np.testing.assert_array_equal(fgrad.jit(lambda x: getattr(jnp, name)(x, 1))(x), getattr(np, name)(x, 1), name)  # noqa: B023


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint32", "int64"])
@pytest.mark.parametrize(
    "shape", [(3, 5, 4, 16), (2, 9, 3, 17), (4, 40, 6, 64), (3, 7, 5, 100), (2, 3, 33, 129), (1, 30, 2, 255), (6, 300, 40)]
)
def test_numbers_and_rows_that_lie_apart(shape, dtype):
    """An operation of a number and rows of a turned array, which are read where they lie; alone, before others and reduced."""
    with fgrad.config.override("jax_enable_x64", True):
        x = np.random.default_rng(0).integers(0, 9, shape).astype(dtype)
        x.flat[-1] = 0
        operations = [
            lambda x: x * 3,
            lambda x: 7 - x,
            lambda x: x - 2,
            lambda x: x + 1,
            lambda x: x + 0,
            lambda x: x < 5,
            lambda x: 5 <= x,
            lambda x: x == 4,
        ]
        if dtype.startswith("float"):
            x.flat[0] = -0.0
            operations += [lambda x: x / 4, lambda x: 3 / x, lambda x: x * np.nan]
        turned = np.swapaxes(x, -2, -3)
        for f in operations:
            with np.errstate(all="ignore"):
                want = f(turned)
                np.testing.assert_array_equal(np.asarray(fgrad.jit(lambda x: f(jnp.swapaxes(x, -2, -3)))(x)), want)  # noqa: B023
                np.testing.assert_array_equal(np.asarray(f(jnp.swapaxes(jnp.asarray(x), -2, -3))), want)
                got = fgrad.jit(lambda x: f(jnp.swapaxes(x, -2, -3)).max(-1))(x)  # noqa: B023
                np.testing.assert_array_equal(np.asarray(got), want.max(-1))
        got = fgrad.jit(lambda x: (jnp.swapaxes(x, -2, -3) * 2 + 1, jnp.swapaxes(x, -2, -3)[..., 1:, :-1] * 2))(x)
        np.testing.assert_array_equal(np.asarray(got[0]), turned * 2 + 1)
        np.testing.assert_array_equal(np.asarray(got[1]), turned[..., 1:, :-1] * 2)
