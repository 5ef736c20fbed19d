"""Loops and branches run by Python, step by step, as disable_jit asks: values in them can be printed and debugged."""

import numpy as np

from fgrad import array_tree as tree
from fgrad.config import config
from fgrad.control.common import strong_leaf
from fgrad.core.float0 import is_float0
from fgrad.errors import ConcretizationTypeError
from fgrad.ops.shape import concatenate, expand_dims, index_in_dim


def concrete(convert, x):
    """convert(x) of a value that decides what runs, where disable_jit is on and the value is known; else None."""
    if not config.disable_jit:
        return None
    try:
        return convert(x)
    except ConcretizationTypeError:
        return None


def scan(f, carry, xs, x_tree, length, reverse):
    """lax.scan over the leaves xs, of at least one step."""
    rows = []
    for i in reversed(range(length)) if reverse else range(length):
        carry, y = f(carry, tree.unflatten(x_tree, [index_in_dim(x, i, keepdims=False) for x in xs]))
        rows.append(y)
    if reverse:
        rows.reverse()
    return carry, tree.map(_stacked, *rows)


def _stacked(*ys):
    if is_float0(ys[0]):
        return np.stack(ys)
    return concatenate([expand_dims(strong_leaf(y), (0,)) for y in ys], 0)


def while_loop(cond_fun, body_fun, val):
    """(True, lax.while_loop's result), or (False, None) where its condition is not known."""
    go_on = concrete(bool, cond_fun(val))
    while go_on:
        val = body_fun(val)
        go_on = concrete(bool, cond_fun(val))
    return (False, None) if go_on is None else (True, val)
