"""Cases of the table at drawn shapes, strides and dtypes."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fgrad.core import from_numpy
from tests.derivatives import check_derivatives
from tests.table import ROWS
from tests.table.case import F64
from tests.table.checks import check_jit, check_value, check_vmap
from tests.table.compare import precision, run
from tests.table.rows import shape as moves
from tests.table.rows.dot import contraction
from tests.table.rows.reduce import REDUCERS

drawn = settings(max_examples=100, deadline=None, derandomize=True, database=None)
fewer = settings(drawn, max_examples=40)
SIZES = st.integers(0, 4)
SHAPES = st.lists(SIZES, max_size=4).map(tuple)
SEEDS = st.integers(0, 2**32 - 1).map(np.random.default_rng)
FREE = sorted(name for name, cases in ROWS.items() if cases[0].free)


def strided(x, rng):
    """x in memory of random axis order, directions and gaps."""
    if not x.ndim:
        return from_numpy(np.asarray(x))
    order = rng.permutation(x.ndim)
    y = x.transpose(order)
    back = tuple(slice(None, None, int(s)) for s in rng.choice([-1, 1], x.ndim))
    gap = int(rng.integers(1, 4))
    y = np.repeat(np.ascontiguousarray(y[back]), gap, -1)[..., ::gap][back]
    return from_numpy(y.transpose(np.argsort(order)), copy=False)


@drawn
@given(st.sampled_from(FREE), SHAPES, st.data(), SEEDS)
def test_elementwise(name, shape, data, rng):
    case = ROWS[name][0].with_shape(shape)
    check_value(case, data.draw(st.sampled_from(case.dtypes)), rng, strided)


@drawn
@given(st.sampled_from(sorted(REDUCERS)), SHAPES, st.data(), SEEDS)
def test_reductions(name, shape, data, rng):
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1)) if shape else st.just(set()))
    case = REDUCERS[name](shape, tuple(sorted(axes)))
    dtype = data.draw(st.sampled_from(case.dtypes))
    check_value(case, dtype, rng, strided)
    check_jit(case, dtype, rng)
    check_vmap(case, dtype, rng)


@st.composite
def shape_cases(draw):
    """A case of a primitive that moves elements."""
    shape = draw(SHAPES)
    axes = range(len(shape))
    kind = draw(st.sampled_from(("broadcast", "reshape", "transpose", "box", "rev", "pad", "concatenate")))
    if kind == "broadcast":
        out = draw(st.lists(SIZES, max_size=2)) + [draw(st.sampled_from((n, 1))) if n else n for n in shape]
        operand = out[len(out) - len(shape) :]
        grown = [draw(st.integers(1, 3)) if n == 1 else n for n in operand]
        return moves.broadcast(tuple(operand), (*out[: len(out) - len(shape)], *grown), tuple(range(len(out) - len(shape), len(out))))
    if kind == "reshape":
        split = [(d, n // d) for n in shape for d in [draw(st.sampled_from([k for k in (1, 2, 3) if n % k == 0]))]]
        return moves.reshape(shape, tuple(k for pair in split for k in pair))
    if kind == "transpose":
        return moves.transpose(shape, tuple(draw(st.permutations(axes))))
    if kind == "box":
        lo = tuple(draw(st.integers(0, n)) for n in shape)
        hi = tuple(draw(st.integers(a, n)) for a, n in zip(lo, shape))
        return moves.box(shape, lo, hi, tuple(draw(st.integers(1, 3)) for _ in shape))
    if kind == "rev":
        return moves.rev(shape, tuple(draw(st.sets(st.sampled_from(axes)) if shape else st.just(()))))
    if kind == "pad":
        inner = [draw(st.integers(0, 2)) for _ in shape]
        full = [n + max(n - 1, 0) * i for n, i in zip(shape, inner)]
        lo = [draw(st.integers(-(f // 2), 2)) for f in full]
        hi = [draw(st.integers(-(f // 2), 2)) for f in full]
        return moves.pad(shape, *zip(lo, hi, inner))
    shape = shape or (2,)
    axis = draw(st.integers(0, len(shape) - 1))
    return moves.concatenate(axis, *[(*shape[:axis], draw(SIZES), *shape[axis + 1 :]) for _ in range(draw(st.integers(1, 4)))])


@drawn
@given(shape_cases(), st.data(), SEEDS)
def test_shape_operations(case, data, rng):
    dtype = data.draw(st.sampled_from(case.dtypes))
    check_value(case, dtype, rng, strided)
    check_jit(case, dtype, rng)
    check_vmap(case, dtype, rng)


@st.composite
def contractions(draw):
    """A dot_general of drawn batch, contracting and free axes, in any order."""
    batch, contract, left, right = (draw(st.lists(st.integers(0, 3), max_size=2)) for _ in range(4))
    nb, nc = len(batch), len(contract)

    def operand(free):
        sizes = [*batch, *contract, *free]
        order = draw(st.permutations(range(len(sizes))))
        where = [order.index(i) for i in range(len(sizes))]
        return tuple(sizes[i] for i in order), tuple(where[:nb]), tuple(where[nb : nb + nc])

    a, a_batch, a_contract = operand(left)
    b, b_batch, b_contract = operand(right)
    return contraction(a, b, ((a_contract, b_contract), (a_batch, b_batch)))


@drawn
@given(contractions(), st.data(), SEEDS)
def test_dot_general(case, data, rng):
    dtype = data.draw(st.sampled_from(case.dtypes))
    check_value(case, dtype, rng, strided)
    check_jit(case, dtype, rng)
    check_vmap(case, dtype, rng)


@fewer
@given(st.one_of(contractions(), shape_cases()), SEEDS)
def test_derivatives(case, rng):
    with precision(F64):
        check_derivatives(lambda *xs: run(case.fun, *xs), *case.sample(rng, F64), order=1)
