"""Shape primitives: moves of elements, all linear, of any dtype."""

import numpy as np

from fgrad.ops import shape as ops
from fgrad.ops.band import band_p
from fgrad.ops.diagonals import diagonals as ops_diagonals
from fgrad.ops.split import split_p
from fgrad.ops.surround import fold_p, surround_p
from tests.table.case import Case, of_kinds, typed

EVERY = of_kinds("fiubc")
NUMBERS = of_kinds("fiuc")


def moves(name, fun, ref, *shapes, **kw):
    kw = dict(dtypes=EVERY, linear=((0,),), ulps=0) | kw
    return Case(fun, tuple(typed(*s) for s in shapes), ref, name=name, **kw)


def broadcast(shape, out, dims):
    def ref(x):
        at = [1] * len(out)
        for n, d in zip(x.shape, dims):
            at[d] = n
        return np.broadcast_to(x.reshape(at), out)

    return moves(f"{shape} to {out}", lambda x: ops.broadcast_in_dim_p.bind(x, shape=out, broadcast_dimensions=dims), ref, shape)


def reshape(shape, out):
    fun = lambda x: ops.reshape_p.bind(x, new_sizes=out)
    return moves(f"{shape} to {out}", fun, lambda x: x.reshape(out), shape)


def transpose(shape, perm):
    return moves(f"{shape} by {perm}", lambda x: ops.transpose_p.bind(x, permutation=perm), lambda x: x.transpose(perm), shape)


def box(shape, lo, hi, step):
    index = tuple(map(slice, lo, hi, step))
    fun = lambda x: ops.slice_p.bind(x, start_indices=lo, limit_indices=hi, strides=step)
    return moves(f"{shape}[{lo}:{hi}:{step}]", fun, lambda x: x[index], shape)


def rev(shape, dims):
    return moves(f"{shape} along {dims}", lambda x: ops.rev_p.bind(x, dimensions=dims), lambda x: np.flip(x, dims), shape)


def concatenate(axis, *shapes):
    fun = lambda *xs: ops.concatenate_p.bind(*xs, dimension=axis)
    every = tuple(range(len(shapes)))
    return moves(f"{shapes} along {axis}", fun, lambda *xs: np.concatenate(xs, axis), *shapes, linear=(every,))


def split(shape, sizes, axis):
    cut = list(np.cumsum(sizes)[:-1])
    fun = lambda x: tuple(split_p.bind(x, sizes=sizes, axis=axis))
    return moves(f"{shape} in {sizes} along {axis}", fun, lambda x: tuple(np.split(x, cut, axis)), shape)


def np_pad(x, value, config):
    """Interior first, then edges; negative edges crop."""
    for axis, (lo, hi, inner) in enumerate(config):
        n = x.shape[axis]
        spread = list(x.shape)
        spread[axis] = n + max(n - 1, 0) * inner
        out = np.full(spread, value, x.dtype)
        out[(slice(None),) * axis + (slice(None, None, inner + 1),)] = x
        out = out[(slice(None),) * axis + (slice(max(-lo, 0), spread[axis] - max(-hi, 0)),)]
        edges = [(0, 0)] * x.ndim
        edges[axis] = (max(lo, 0), max(hi, 0))
        x = np.pad(out, edges, constant_values=value)
    return x


def pad(shape, *config):
    fun = lambda x, v: ops.pad_p.bind(x, v, padding_config=config)
    return moves(f"{shape} by {config}", fun, lambda x, v: np_pad(x, v, config), shape, (), linear=((0, 1),))


def diagonals(shape, axis, along, *offsets):
    """Element j over the axes along at offset + j of the axis, one operand per offset."""
    inner = shape[:axis] + shape[axis + 1 :]

    def ref(*xs):
        out = np.zeros(shape, xs[0].dtype)
        for x, off in zip(xs, offsets):
            for index in np.ndindex(inner):
                full = [*index[:axis], 0, *index[axis:]]
                j = 0
                for a in along:
                    j = j * shape[a] + full[a]
                full[axis] = off + j
                if 0 <= off + j < shape[axis]:
                    out[tuple(full)] = x[index]
        return out

    fun = lambda *xs: ops_diagonals(xs, shape, axis, along, offsets)
    every = tuple(range(len(offsets)))
    return moves(f"{shape} at {axis} along {along} {offsets}", fun, ref, *[inner] * len(offsets), linear=(every,))


def _iota(shape, axis, dtype):
    def ref():
        at = [1] * len(shape)
        at[axis] = shape[axis]
        return np.broadcast_to(np.arange(shape[axis]).reshape(at), shape).astype(dtype)

    fun = lambda: ops.broadcasted_iota(dtype, shape, axis)
    return Case(fun, (), ref, name=f"{np.dtype(dtype).name}{shape} along {axis}", dtypes=(np.dtype(dtype),), wrt=())


def surround(shape, *margins):
    def ref(x):
        for axis, before, after in margins:
            x = np.take(x, [*before, *range(shape[axis]), *after], axis)
        return x

    return moves(f"{shape} {margins}", lambda x: surround_p.bind(x, margins=margins), ref, shape)


def fold(shape, *margins):
    """shape: of the result."""

    def ref(x):
        for axis, before, after in margins:
            rows = [*before, *range(shape[axis]), *after]
            x = np.moveaxis(x, axis, 0)
            out = np.zeros((shape[axis], *x.shape[1:]), x.dtype)
            np.add.at(out, rows, x)
            x = np.moveaxis(out, 0, axis)
        return x

    wide = list(shape)
    for axis, before, after in margins:
        wide[axis] += len(before) + len(after)
    fun = lambda x: fold_p.bind(x, margins=margins)
    return moves(f"{shape} {margins}", fun, ref, tuple(wide), dtypes=NUMBERS, ulps=16)


SURROUNDED = [
    ((5,), (0, (2, 1), (3,))),
    ((3, 4), (0, (0,), (2, 2)), (1, (3,), (0, 1))),
    ((2, 3, 4, 2), (1, (1,), (1,)), (2, (), (0, 0, 3))),
    ((2, 3, 1, 2), (0, (1,), (0,)), (1, (2, 1), (1, 0)), (2, (0,), (0, 0))),
    ((1, 3), (0, (0, 0), ())),
    ((2, 0, 3), (2, (1,), (2,))),
    ((3, 2),),
]


def band(shape, axis, first, weights):
    matrix = np.zeros((len(first), shape[axis]))
    for j, (k, w) in enumerate(zip(first, weights)):
        matrix[j, k : k + len(w)] = w
    ref = lambda x: np.moveaxis(np.tensordot(matrix, x.astype(np.float64), ((1,), (axis,))), 0, axis).astype(x.dtype)
    fun = lambda x: band_p.bind(x, axis=axis, first=first, weights=weights)
    return moves(f"{shape} along {axis} {first}", fun, ref, shape, dtypes=of_kinds("f"), ulps=16)


ROWS = {
    "broadcast_in_dim": [
        broadcast((3,), (2, 3), (1,)),
        broadcast((3, 1), (3, 2, 4), (0, 2)),
        broadcast((), (2, 3), ()),
        broadcast((1, 3), (0, 3), (0, 1)),
    ],
    "reshape": [reshape((2, 6), (3, 4)), reshape((), (1, 1)), reshape((0, 3), (2, 0)), reshape((4, 1, 3), (4, 3))],
    "transpose": [transpose((2, 3, 4), (2, 0, 1)), transpose((3, 4), (1, 0)), transpose((0, 2), (1, 0)), transpose((), ())],
    "slice": [
        box((4, 5), (1, 0), (4, 5), (1, 2)),
        box((5,), (1,), (5,), (3,)),
        box((4, 2), (2, 0), (2, 2), (1, 1)),
        box((), (), (), ()),
    ],
    "rev": [rev((3, 4), (1,)), rev((2, 3, 2), (0, 2)), rev((0, 2), (0,)), rev((1,), (0,))],
    "concatenate": [
        concatenate(0, (2, 3), (1, 3), (3, 3)),
        concatenate(1, (2, 3), (2, 1)),
        concatenate(0, (0, 2), (2, 2)),
        concatenate(0, (3,)),
    ],
    "split": [split((4, 3), (1, 3), 0), split((2, 6), (1, 2, 3), 1), split((3, 2), (0, 3), 0), split((0, 4), (2, 2), 1)],
    "pad": [
        pad((2, 3), (1, 2, 0), (0, 1, 2)),
        pad((4,), (-1, 2, 1)),
        pad((3, 2), (-1, -1, 0), (2, 0, 0)),
        pad((0, 2), (1, 1, 3), (0, 0, 1)),
        pad((), *()),
        pad((1,), (0, 0, 5)),
    ],
    "band": [
        band((5,), 0, (0, 1, 3), ((0.5, 1.5), (2.0, -1.0, 0.25), (1.0,))),
        band((2, 4, 3), 1, (0, 0, 1, 2, 0), ((1.0,), (0.5, 0.5), (0.25, 0.5), (1.5, -0.5), ())),
        band((4, 21), 0, (2, 0), ((0.5, 1.5), (2.0, -1.0, 0.25, 0.5))),
        band((3, 4), 1, (), ()),
        band((0, 4), 1, (1, 2), ((0.5, 1.5), (2.0,))),
    ],
    "surround": [surround(*s) for s in SURROUNDED],
    "fold": [fold(*s) for s in SURROUNDED],
    "diagonals": [
        diagonals((3, 3), 0, (1,), 0),
        diagonals((2, 3, 4), 2, (1,), -1, 0, 2),
        diagonals((3, 2, 5), 0, (2,), 1, -3, -9, 7),
        diagonals((2, 7, 3), 1, (0, 2), 1),
        diagonals((2, 7, 3), 1, (2, 0), 0),
        diagonals((0, 2, 3), 1, (2,), 0),
        diagonals((2, 0, 3), 1, (2,), 0),
        diagonals((2, 0, 3), 1, (0, 2), 0),
    ],
    "iota": [_iota((3, 4), 1, np.int32), _iota((5,), 0, np.float32), _iota((2, 0), 0, np.uint8), _iota((3, 1), 0, np.complex64)],
}
