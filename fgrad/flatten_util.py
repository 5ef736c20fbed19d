"""Pytrees as vectors."""

import fgrad.numpy as jnp
from fgrad import array_tree as tree
from fgrad import dtypes
from fgrad.core import get_aval

__all__ = ["ravel_pytree"]


def ravel_pytree(pytree):
    """(a vector of all leaves' elements, unravel): unravel takes such a vector back to a tree of the leaves' shapes and dtypes.

    The vector has the dtype that the leaves' dtypes promote to, a Python scalar's counted as an array's. unravel raises ValueError for a
    vector of another shape. Leaves of one dtype get the dtype of the vector that unravel is given; where they have several it raises
    TypeError for another dtype.

    >>> import fgrad.numpy as jnp, fgrad
    >>> vector, unravel = fgrad.flatten_util.ravel_pytree({"b": jnp.zeros(2), "a": 1.0})
    >>> vector, unravel(vector + 1)["b"]
    (Array([1., 0., 0.], dtype=float32), Array([1., 1.], dtype=float32))
    """
    leaves, treedef = tree.flatten(pytree)
    avals = [get_aval(x) for x in leaves]
    dtype = dtypes.promote([(a.dtype, False) for a in avals])[0] if avals else dtypes.float_dtype()
    parts = [jnp.ravel(x).astype(dtype) for x in leaves]
    vector = jnp.concatenate(parts) if parts else jnp.zeros(0, dtype)
    mixed = any(a.dtype != dtype for a in avals)

    def unravel(vector):
        got = get_aval(vector)
        if got.shape != (sum(a.size for a in avals),):
            raise ValueError(f"The unravel function expected an array of shape {(sum(a.size for a in avals),)}, got shape {got.shape}.")
        if mixed and got.dtype != dtype:
            raise TypeError(f"unravel function given array of dtype {got.dtype.name}, but expected dtype {dtype.name}")
        out, at = [], 0
        for a in avals:
            part = jnp.asarray(vector[at : at + a.size]).reshape(a.shape)
            out.append(part.astype(a.dtype) if mixed else part)
            at += a.size
        return tree.unflatten(treedef, out)

    return vector, unravel
