"""Arithmetic of two arrays, reductions, and comparisons along rows (ne0 is the last axis, of size 1 after a reduction of rows)."""

import fgrad.numpy as jnp
from fgrad.ggml.util import array, elements, fit, floats, need, need_rank, unfit
from fgrad.ops import movement_nn
from fgrad.ops.cumulative import cumsum as cumsum_op
from fgrad.ops.shape import reshape

__all__ = [
    "acc",
    "add",
    "add1",
    "add_cast",
    "add_id",
    "argmax",
    "count_equal",
    "cumsum",
    "div",
    "dup",
    "mean",
    "mul",
    "repeat",
    "repeat_4d",
    "repeat_back",
    "set",
    "set_1d",
    "set_2d",
    "sub",
    "sum",
    "sum_rows",
]


def _pair(name, a, b):
    a, b = floats(name, a, b)
    return a, fit(name, b, a.shape)


def dup(a):
    """A copy of a."""
    return jnp.copy(array("dup", a))


def add(a, b):
    """a + b, b repeated to a's shape.

    >>> from fgrad import ggml
    >>> ggml.add([1., 2., 3., 4.], [10., 20.])
    Array([11., 22., 13., 24.], dtype=float32)
    """
    a, b = _pair("add", a, b)
    return a + b


def add_cast(a, b, type):
    """a + b, cast to a dtype."""
    return add(a, b).astype(type)


def sub(a, b):
    """a - b, b repeated to a's shape."""
    a, b = _pair("sub", a, b)
    return a - b


def mul(a, b):
    """a * b, b repeated to a's shape."""
    a, b = _pair("mul", a, b)
    return a * b


def div(a, b):
    """a / b, b repeated to a's shape."""
    a, b = _pair("div", a, b)
    return a / b


def add1(a, b):
    """a + b for b of one element."""
    a, b = floats("add1", a, b)
    need(b.size == 1, "add1", f"b must have one element, got shape {b.shape}")
    return a + reshape(b, ())


def add_id(a, b, ids):
    """a[t, u] + b[ids[t, u]]: a (tokens, used, n), b (experts, n), ids (tokens, used) integers."""
    a, b = floats("add_id", a, b)
    ids = array("add_id", ids)
    need_rank("add_id", "b", b, 2)
    need(a.shape == (*ids.shape, b.shape[1]), "add_id", f"a {a.shape} must have the shape of ids {ids.shape} and then {b.shape[1]}")
    return a + b[ids]


def _strides(name, a, shape, nbs, offset):
    """(strides, offset) in elements of a window of `shape`, whose byte strides nbs are for all its axes but the last, ne1 first."""
    strides = [elements(name, f"nb{i + 1}", n, a.dtype) for i, n in enumerate(nbs)]
    need(len(shape) <= len(strides) + 1, name, f"a window of shape {shape} needs {len(shape) - 1} strides, got {len(strides)}")
    return [*strides[: max(len(shape) - 1, 0)][::-1], *[1] * bool(shape)], elements(name, "offset", offset, a.dtype)


def acc(a, b, nb1, nb2, nb3, offset):
    """a with b added into the window of a's elements that starts at `offset` and has the byte strides nb1, nb2, nb3.

    Strides and offset count bytes of a contiguous a, as in ggml. Raises ShapeError where the window leaves a.
    """
    a, b = floats("acc", a, b)
    return movement_nn.acc(a, b, *_strides("acc", a, b.shape, (nb1, nb2, nb3), offset))


def set(a, b, nb1, nb2, nb3, offset):
    """a with b in place of the window that acc describes."""
    a, b = floats("set", a, b)
    strides, start = _strides("set", a, b.shape, (nb1, nb2, nb3), offset)
    return movement_nn.acc(a, b - movement_nn.view(a, b.shape, strides, start), strides, start)


def set_1d(a, b, offset):
    """set for b of one axis."""
    need_rank("set_1d", "b", array("set_1d", b), 1)
    return set(a, b, 0, 0, 0, offset)


def set_2d(a, b, nb1, offset):
    """set for b of two axes."""
    need_rank("set_2d", "b", array("set_2d", b), 1, 2)
    return set(a, b, nb1, 0, 0, offset)


# --- reductions -----------------------------------------------------------------------------------------------------------


def sum(a):
    """The sum of all elements, a scalar (ggml's one element)."""
    return jnp.sum(floats("sum", a))


def sum_rows(a):
    """The sums of the rows, (..., 1)."""
    return movement_nn.sum_rows(floats("sum_rows", a))


def mean(a):
    """The means of the rows, (..., 1)."""
    return jnp.mean(floats("mean", a), axis=-1, keepdims=True)


def cumsum(a):
    """The running sums along the rows."""
    a = floats("cumsum", a)
    return cumsum_op(a, a.ndim - 1)


def argmax(a):
    """The position of the largest element of each row, int32: (n, m) gives (n,)."""
    return jnp.argmax(floats("argmax", a), axis=-1).astype(jnp.int32)


def count_equal(a, b):
    """How many elements of two integer arrays are equal: an int64 scalar, int32 without 64-bit types."""
    a, b = array("count_equal", a), array("count_equal", b)
    need(a.shape == b.shape, "count_equal", f"the arrays must have one shape, got {a.shape} and {b.shape}")
    return jnp.sum(a == b, dtype=jnp.int_)


def repeat(a, b):
    """a repeated to b's shape; of b only the shape matters."""
    return fit("repeat", array("repeat", a), array("repeat", b).shape)


def repeat_4d(a, ne0, ne1, ne2, ne3):
    """a repeated to (ne3, ne2, ne1, ne0)."""
    return fit("repeat_4d", array("repeat_4d", a), (ne3, ne2, ne1, ne0))


def repeat_back(a, b):
    """The sum of a's repetitions into b's shape: the transpose of repeat."""
    return unfit("repeat_back", floats("repeat_back", a), array("repeat_back", b).shape)
