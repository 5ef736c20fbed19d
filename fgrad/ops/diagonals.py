"""diagonals: arrays that are zero but for some diagonals, such as the basis that a Jacobian is a pushforward of.

The zeros are symbolic, as those of a derivative that does not depend on an argument: the compiler multiplies nothing by them
(compile/sparse.py), so that they stay zeros beside infinities and NaN.
"""

import numpy as np

from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.rules import Zero, bdim_at_front, full, instantiate, is_linear, zero_of
from fgrad.ops.shape import pad, reshape, slice_in_dim, transpose


def without(shape, axis):
    """A shape without one of its axes."""
    return (*shape[:axis], *shape[axis + 1 :])


def _aval(*avals, shape, axis, along, offsets):
    n = int(np.prod([shape[a] for a in along]))
    if axis in along or len(set(along)) != len(along) or not along or len(avals) != len(offsets) or not avals:
        raise ShapeError(f"diagonals: axis {axis} along axes {along} of {shape}, {len(avals)} operands, {len(offsets)} offsets")
    for a, off in zip(avals, offsets):
        if a.shape != without(shape, axis) or a.dtype != avals[0].dtype:
            raise ShapeError(f"diagonals: an operand is {a}, expected {avals[0].dtype} of shape {without(shape, axis)}")
        if len(along) > 1 and not 0 <= off <= shape[axis] - n and 0 not in shape:
            raise ShapeError(f"diagonals: {n} elements from {off} on do not fit into axis {axis} of {shape}")
    return ShapedArray(shape, avals[0].dtype)


def _lower(ctx, ins, params, out):
    ip = (params["axis"], len(params["along"]), *params["along"], *params["offsets"])
    return ctx.kernel("diagonals", ins, out, ip=ip, contiguous=False)[0]


def _extract(x, axis, along, off):
    """What an operand contributed to x: its diagonal, zero where that lies outside of x."""
    shape = get_aval(x).shape
    rest = [a for a in range(len(shape)) if a not in (axis, *along)]
    rows, columns = shape[axis], int(np.prod([shape[a] for a in along]))
    x = reshape(transpose(x, (*rest, axis, *along)), (*[shape[a] for a in rest], rows, columns))
    n = len(rest)
    zero = get_aval(x).dtype.type(0)
    if 0 in shape:
        x = full((*[shape[a] for a in rest], columns), 0, get_aval(x).dtype)
    else:  # rows off ... off + columns, then every (columns + 1)-th element
        x = pad(x, zero, (*[(0, 0, 0)] * n, (-off, off + columns - rows, 0), (0, 0, 0)))
        x = reshape(x, (*[shape[a] for a in rest], columns * columns))
        x = slice_in_dim(x, 0, None, columns + 1, axis=n)
    x = reshape(x, tuple(shape[a] for a in (*rest, *along)))
    kept = [a for a in range(len(shape)) if a != axis]
    return transpose(x, tuple([*rest, *along].index(a) for a in kept))


def _transpose(cts, *args, shape, axis, along, offsets):
    return [_extract(cts[0], axis, along, off) if is_linear(x) else None for x, off in zip(args, offsets)]


def _batch(size, args, dims, *, shape, axis, along, offsets):
    args = [bdim_at_front(x, d, size.size) for x, d in zip(args, dims)]
    return diagonals(args, (size.size, *shape), axis + 1, tuple(a + 1 for a in along), offsets), 0


diagonals_p = Primitive("diagonals", abstract_eval=_aval, transpose=_transpose, batch=_batch, lower=_lower)


def _jvp(primals, tangents, **params):
    out = diagonals_p.bind(*primals, **params)
    if all(type(t) is Zero for t in tangents):
        return out, zero_of(out)
    return out, diagonals_p.bind(*[instantiate(t) for t in tangents], **params)


diagonals_p.jvp = _jvp


def diagonals(operands, shape, axis, along, offsets):
    """Zeros of `shape`, and element j of operand k where the index of `axis` is offsets[k] + j.

    Operands have `shape` without `axis`; j counts the elements of the axes `along` in row-major order. Elements that fall
    outside of `axis` are left out, which only one axis along may do (else ShapeError).

    >>> import fgrad.numpy as jnp
    >>> diagonals([jnp.array([1.0, 2.0])], (2, 2), 0, (1,), (1,))
    Array([[0., 0.],
           [1., 0.]], dtype=float32)
    """
    return diagonals_p.bind(*operands, shape=tuple(shape), axis=axis, along=tuple(along), offsets=tuple(offsets))
