"""Rows taken from and put into tables, dynamic slices, moves along an axis by positions."""

import numpy as np

from fgrad.ops import along
from fgrad.ops import gather as moves
from fgrad.ops import index as ops
from tests.table.case import Case, distinct, ints, of_kinds, typed

EVERY = of_kinds("fiubc")
NUMBERS = of_kinds("fiuc")


def _take(shape, rows, fill, lo=0, index=np.int32):
    n = shape[0]

    def ref(x, r):
        out = x[np.clip(r, 0, n - 1)] if n else np.zeros((*r.shape, *shape[1:]), x.dtype)
        outside = ((r < 0) | (r >= n)).reshape(r.shape + (1,) * (len(shape) - 1))
        return out if fill is None else np.where(outside, np.asarray(fill, x.dtype), out)

    args = (typed(*shape), ints(*rows, lo=lo, hi=max(n, 1) - lo, dtype=index))
    kw = dict(dtypes=EVERY, linear=((0,),) if not fill else (), ulps=0)
    return Case(lambda x, r: moves.take_rows(x, r, fill), args, ref, name=f"{shape} {rows} fill {fill}", **kw)


NP_PUT = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def np_put(kind):
    def ref(x, rows, u):
        out = x.copy()
        for i in np.ndindex(rows.shape):
            r = rows[i]
            if 0 <= r < len(x):
                out[r] = u[i] if kind == "set" else NP_PUT[kind](out[r], u[i])
        return out

    return ref


def _put(kind, shape, rows, lo=0, sample=typed, **kw):
    """Rows repeat and, with lo < 0, lie outside."""
    # the ranges differ: with distinct values, none of the updates equals one of x's
    args = (sample(*shape), ints(*rows, lo=lo, hi=shape[0] - lo), sample(*rows, *shape[1:], lo=-1.93, hi=1.87))
    ref, fun = np_put(kind), lambda x, r, u: moves.put_rows(kind, x, r, u)
    return Case(fun, args, ref, name=f"{shape} {rows} from {lo}", **dict(dtypes=NUMBERS, ulps=16) | kw)


PUTS = [((4, 3), (6,)), ((3,), (2, 3)), ((4, 2), (), 0), ((3, 2), (0,)), ((3, 0), (2,)), ((3, 2), (5,), -2)]


def _puts(kind, sample=typed, **kw):
    return [_put(kind, *put, sample=sample, **kw) for put in PUTS]


def _with_zeros(zero):
    """Repeated rows whose factors have zeros, at the positions that the mask `zero` marks."""
    keep = 1.0 - np.asarray(zero, float)
    rows = np.array([1, 1, 1, 0, 0, 2], np.int32)

    def fun(x, u):
        return moves.put_rows("mul", x, rows, u * keep.astype(u.dtype))

    ref = lambda x, u: np_put("mul")(x, rows, u * keep)
    return Case(fun, (typed(3), typed(6)), ref, name=f"zero factors {zero}", order=3, dtypes=of_kinds("f"))


# --- gather and scatter with dimension numbers --------------------------------------------------------------------------


def _windows(x_shape, indices, window_shape, d):
    """For each element of a gather's result or a scatter's updates: (its position, its index in x or None, the clipped one).

    d: the dimension numbers' five fields, the axes of the window first.
    """
    window_dims, left_out, index_map, batching, ibatching = d
    kept = [a for a in range(len(x_shape)) if a not in (*left_out, *batching)]
    sizes = dict.fromkeys((*left_out, *batching), 1) | {a: window_shape[w] for a, w in zip(kept, window_dims)}
    for at in np.ndindex(window_shape):
        batch = tuple(i for a, i in enumerate(at) if a not in window_dims)
        start, offset = dict.fromkeys(range(len(x_shape)), 0), dict.fromkeys(range(len(x_shape)), 0)
        start |= {a: int(indices[(*batch, k)]) for k, a in enumerate(index_map)}
        start |= {a: batch[i] for a, i in zip(batching, ibatching)}
        offset |= {a: at[w] for a, w in zip(kept, window_dims)}
        inside = all(0 <= start[a] <= n - sizes[a] for a, n in enumerate(x_shape))
        clipped = tuple(min(max(start[a], 0), n - sizes[a]) + offset[a] for a, n in enumerate(x_shape))
        yield at, clipped if inside else None, clipped


def _gather(shape, index_shape, numbers, sizes, out, mode):
    d = moves.GatherDimensionNumbers(*numbers)

    def ref(x, i):
        result = np.empty(out, x.dtype)
        for at, inside, clipped in _windows(x.shape, i, out, d):
            result[at] = x[clipped] if mode == "clip" else 7 if inside is None else x[inside]
        return result

    fun = lambda x, i: moves.gather(x, i, d, sizes, mode=mode, fill_value=None if mode == "clip" else 7)
    args = (typed(*shape), ints(*index_shape, lo=-1, hi=max(shape) + 1))
    title = f"{sizes} of {shape} {mode}"
    return Case(fun, args, ref, name=title, dtypes=of_kinds("fic"), linear=((0,),) if mode == "clip" else (), ulps=0)


def _scatter(kind, shape, index_shape, numbers, updates, mode):
    d = moves.ScatterDimensionNumbers(*numbers)

    def ref(x, i, u):
        out = x.copy()
        for at, inside, clipped in _windows(x.shape, i, u.shape, d):
            where = clipped if mode == "clip" else inside
            if where is not None:
                out[where] = u[at] if kind == "set" else NP_PUT[kind](out[where], u[at])
        return out

    function = moves.scatter if kind == "set" else getattr(moves, f"scatter_{kind}")
    fun = lambda x, i, u: function(x, i, u, d, mode=mode)
    sample = distinct if kind in ("min", "max") else typed
    args = (sample(*shape), ints(*index_shape, lo=-1, hi=max(shape) + 1), sample(*updates, lo=-1.93, hi=1.87))
    linear = {"set": ((0, 2),), "add": ((0, 2),), "mul": ((0,),)}.get(kind, ())
    return Case(fun, args, ref, name=f"{updates} into {shape} {mode}", dtypes=of_kinds("fi"), linear=linear, ulps=16)


# shape, indices, (window axes, axes left out, index map, batching, batching of the indices), slice sizes, result
GEOMETRIES = [
    ((4, 5), (3, 2), ((1, 2), (), (0, 1)), (2, 2), (3, 2, 2)),
    ((4, 3), (2, 1), ((0,), (1,), (1,)), (4, 1), (4, 2)),
    ((2, 4, 3), (2, 2, 1), ((2,), (1,), (1,), (0,), (0,)), (1, 1, 3), (2, 2, 3)),
    ((3, 4), (0, 1), ((1,), (0,), (0,)), (1, 4), (0, 4)),
]
GATHERS = [_gather(*g, mode) for g in GEOMETRIES for mode in ("clip", "fill")]


def _scatters(kind):
    return [_scatter(kind, shape, i, d, out, mode) for shape, i, d, _, out in GEOMETRIES for mode in ("clip", "drop")]


# --- dynamic slices, moves along an axis ----------------------------------------------------------------------------------


def _clip(starts, shape, sizes):
    return tuple(slice(s, s + k) for s, k in ((min(max(int(s), 0), n - k), k) for s, n, k in zip(starts, shape, sizes)))


def _dynamic_slice(shape, sizes):
    """Starts are raw (the wrapper's negative ones count from the end): the primitive clamps them."""
    fun = lambda x, *s: ops.dynamic_slice_p.bind(x, *s, slice_sizes=sizes)
    args = (typed(*shape), *[ints(lo=-2, hi=n + 2) for n in shape])
    return Case(
        fun, args, lambda x, *s: x[_clip(s, x.shape, sizes)], name=f"{sizes} of {shape}", dtypes=EVERY, wrt=(0,), linear=((0,),), ulps=0
    )


def _dynamic_update_slice(shape, sizes):
    def ref(x, u, *starts):
        out = np.array(x)
        out[_clip(starts, x.shape, u.shape)] = u
        return out

    args = (typed(*shape), typed(*sizes), *[ints(lo=-2, hi=n + 2) for n in shape])
    fun = lambda x, u, *s: ops.dynamic_update_slice_p.bind(x, u, *s)
    return Case(fun, args, ref, name=f"{sizes} in {shape}", dtypes=EVERY, wrt=(0, 1), linear=((0, 1),), ulps=0)


BOXES = [((4, 5), (2, 3)), ((6,), (6,)), ((3, 4), (1, 0)), ((2, 3, 4), (1, 2, 2)), ((), ())]


def _take_along(shape, positions, axis):
    """Positions outside are clamped."""
    n = shape[axis]
    ref = lambda x, p: np.take_along_axis(x, np.clip(p, 0, n - 1), axis)
    args = (typed(*shape), ints(*positions, lo=-1, hi=n + 1))
    title = f"{positions} of {shape} along {axis}"
    return Case(lambda x, p: along.take_along(x, p, axis), args, ref, name=title, dtypes=EVERY, linear=((0,),), ulps=0)


def _put_along(shape, axis, size):
    """Positions outside are dropped."""

    def ref(x, p):
        out = np.zeros((*shape[:axis], size, *shape[axis + 1 :]), x.dtype)
        for i in np.ndindex(shape):
            if 0 <= p[i] < size:
                out[(*i[:axis], p[i], *i[axis + 1 :])] += x[i]
        return out

    args = (typed(*shape), ints(*shape, lo=-1, hi=size + 1))
    title = f"{shape} into {size} along {axis}"
    return Case(lambda x, p: along.put_along(x, p, axis, size), args, ref, name=title, dtypes=NUMBERS, linear=((0,),), ulps=16)


ROWS = {
    "gather": [
        _take((5, 3), (4,), None, lo=-2),
        _take((5, 2), (2, 3), 0, lo=-3, index=np.int64),
        _take((5,), (), None),
        _take((4,), (3,), 1, lo=-2),
        _take((1, 2), (3,), 0, lo=-1),
        _take((3, 2), (0,), None),
        _take((5, 2), (3,), None, index=np.uint8),
        *GATHERS,
    ],
    "scatter": [*_puts("set", linear=((0, 2),), dtypes=EVERY), *_scatters("set")],
    "scatter_add": [*_puts("add", linear=((0, 2),)), *_scatters("add")],
    "scatter_mul": [
        *_puts("mul", linear=((0,),)),
        *_scatters("mul"),
        *map(_with_zeros, ((1, 0, 0, 0, 0, 0), (1, 1, 0, 0, 1, 1), (1, 1, 1, 1, 1, 0))),
    ],
    "scatter_min": [*_puts("min", distinct, ulps=0, dtypes=of_kinds("fiu")), *_scatters("min")],
    "scatter_max": [*_puts("max", distinct, ulps=0, dtypes=of_kinds("fiu")), *_scatters("max")],
    "dynamic_slice": [_dynamic_slice(*b) for b in BOXES],
    "dynamic_update_slice": [_dynamic_update_slice(*b) for b in BOXES],
    "take_along": [_take_along(*c) for c in (((3, 4), (5, 4), 0), ((2, 3, 2), (2, 4, 2), 1), ((1,), (1,), 0), ((3, 2), (0, 2), 0))],
    "put_along": [_put_along(*c) for c in (((5, 4), 0, 3), ((2, 3, 2), 1, 4), ((1,), 0, 1), ((0, 2), 0, 3))],
}
