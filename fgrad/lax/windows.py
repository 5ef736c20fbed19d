"""Reductions over windows in jax.lax's signatures."""

import numpy as np

from fgrad import array_tree as tree
from fgrad import dtypes
from fgrad.core import Tracer, get_aval, to_array
from fgrad.errors import ShapeError
from fgrad.ops.conv import dilate, explicit_pads, padtype_to_pads, strided
from fgrad.ops.elementwise import add, max, min
from fgrad.ops.rules import broadcast_in_dim
from fgrad.ops.shape import pad, slice_in_dim
from fgrad.ops.window import (
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
    select_and_gather_add_p,
    select_and_scatter_add_p,
    window_shape,
)

__all__ = [
    "reduce_window",
    "reduce_window_max_p",
    "reduce_window_min_p",
    "reduce_window_shape_tuple",
    "reduce_window_sum_p",
    "select_and_gather_add_p",
    "select_and_scatter_add_p",
]


def _parameters(shape, window_dimensions, window_strides, padding, base_dilation, window_dilation):
    """The five parameters of windows over `shape`, explicit and as tuples of ints."""
    ones = (1,) * len(window_dimensions)
    window = tuple(map(int, window_dimensions))
    strides, base, dilation = (ones if v is None else tuple(map(int, v)) for v in (window_strides, base_dilation, window_dilation))
    if isinstance(padding, str) or hasattr(padding, "name"):
        if len(window) != len(shape):
            raise ShapeError(f"reduce_window: window_dimensions {window} must have one entry for each axis of the operand, shape {shape}")
        padding = padtype_to_pads(shape, [dilate(w, d) for w, d in zip(window, dilation)], strides, padding)
    return {
        "window_dimensions": window,
        "window_strides": strides,
        "padding": explicit_pads("reduce_window", padding),
        "base_dilation": base,
        "window_dilation": dilation,
    }


def _identity(computation, dtype):
    """(primitive, identity) of a computation that has a kernel."""
    if computation is add and dtype != dtypes.BOOL:
        return reduce_window_sum_p, dtype.type(0)
    if computation not in (max, min) or dtype.kind == "c":
        return None, None
    low, high = (-np.inf, np.inf) if dtypes.is_float(dtype) else (False, True) if dtype == dtypes.BOOL else _limits(dtype)
    return (reduce_window_max_p, dtype.type(low)) if computation is max else (reduce_window_min_p, dtype.type(high))


def _limits(dtype):
    info = dtypes.iinfo(dtype)
    return info.min, info.max


def _fold_slices(computation, xs, inits, params):
    """Any associative computation on lists of arrays: shifted slices folded along one axis after the other."""
    config = [(lo, hi, bd - 1) for (lo, hi), bd in zip(params["padding"], params["base_dilation"])]
    xs = [pad(x, v, config) for x, v in zip(xs, inits)]
    axes = zip(params["window_dimensions"], params["window_strides"], params["window_dilation"])
    shape = get_aval(xs[0]).shape
    for axis, (w, s, d) in enumerate(axes):
        count = strided(shape[axis], dilate(w, d), s)
        ends = (count - 1) * s + 1 if count else 0
        shifted = [[slice_in_dim(x, r * d if count else 0, r * d + ends if count else 0, s, axis) for x in xs] for r in range(w)]
        xs = shifted[0]
        for more in shifted[1:]:
            xs = computation(xs, more)
    return computation([broadcast_in_dim(v, get_aval(x).shape, ()) for x, v in zip(xs, inits)], xs)


def reduce_window(
    operand,
    init_value,
    computation,
    window_dimensions,
    window_strides=None,
    padding="VALID",
    base_dilation=None,
    window_dilation=None,
):
    """computation over windows of operand, each padded with, and begun from, init_value.

    operand: an array, or a pytree of arrays of one shape (then init_value has its structure, and computation takes and gives such
    trees); computation: an associative function of two values. window_dimensions, window_strides and the dilations have an entry for each
    axis (1 by default); padding: "VALID", "SAME", "SAME_LOWER" or a (low, high) pair for each axis. lax.add, lax.max and lax.min from
    their identities have kernels; other computations are composed of slices.

    >>> import fgrad.numpy as jnp
    >>> reduce_window(jnp.arange(5.0), 0.0, add, (2,), (2,), "SAME")
    Array([1., 5., 4.], dtype=float32)
    """
    xs, structure = tree.flatten(operand)
    inits, init_structure = tree.flatten(init_value)
    if not xs or structure != init_structure:
        raise ValueError(f"reduce_window: operand and init_value must have one structure, got {structure} and {init_structure}")
    shape = get_aval(xs[0]).shape
    params = _parameters(shape, window_dimensions, window_strides, padding, base_dilation, window_dilation)
    for x, v in zip(xs, inits):
        if get_aval(x).shape != shape or get_aval(v).shape != ():
            raise ShapeError(f"reduce_window: operands of one shape and scalar init_values expected, got {get_aval(x)} and {get_aval(v)}")
        if get_aval(v).dtype != get_aval(x).dtype and type(v) not in (bool, int, float, complex):
            raise TypeError(f"reduce_window: operand of dtype {get_aval(x).dtype.name}, init_value of {get_aval(v).dtype.name}")
    window_shape("reduce_window", shape, **params)
    inits = [get_aval(x).dtype.type(v) if type(v) in (bool, int, float, complex) else v for x, v in zip(xs, inits)]
    if len(xs) == 1 and structure == tree.structure(0) and not isinstance(inits[0], Tracer):
        prim, identity = _identity(computation, get_aval(xs[0]).dtype)
        if prim is not None and np.asarray(to_array(inits[0])) == identity:
            return prim.bind(xs[0], **params)

    def on_leaves(a, b):
        out, out_structure = tree.flatten(computation(structure.unflatten(a), structure.unflatten(b)))
        if out_structure != structure:
            raise ValueError(f"reduce_window: computation must give the structure of operand, {structure}, got {out_structure}")
        return out

    return structure.unflatten(_fold_slices(on_leaves, xs, inits, params))


def reduce_window_shape_tuple(operand_shape, window_dimensions, window_strides, padding, base_dilation=None, window_dilation=None):
    """Shape of reduce_window's result."""
    params = _parameters(tuple(operand_shape), window_dimensions, window_strides, padding, base_dilation, window_dilation)
    return window_shape("reduce_window", tuple(operand_shape), **params)
