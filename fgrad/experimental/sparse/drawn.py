"""Random sparse arrays."""

import math
import operator

import numpy as np

import fgrad.numpy as jnp
from fgrad import random
from fgrad.api import vmap
from fgrad.experimental.sparse.bcoo import BCOO


def random_bcoo(
    key,
    shape,
    *,
    dtype=float,
    indices_dtype=None,
    nse=0.2,
    n_batch=0,
    n_dense=0,
    unique_indices=True,
    sorted_indices=False,
    generator=random.uniform,
    **kwds,
):
    """A BCOO array whose elements are generator(key, shape, dtype, **kwds) at random places.

    nse: how many elements of each batch are stored, or (below 1) which part of them. Raises ValueError where nse or the numbers
    of axes do not fit the shape.

    >>> import fgrad
    >>> random_bcoo(fgrad.random.key(0), (4, 5), nse=0.3)
    BCOO(float32[4, 5], nse=6)
    """
    shape = tuple(map(operator.index, shape))
    n_batch, n_dense = operator.index(n_batch), operator.index(n_dense)
    n_sparse = len(shape) - n_batch - n_dense
    if min(n_batch, n_dense, n_sparse) < 0:
        raise ValueError(f"random_bcoo: n_batch={n_batch} and n_dense={n_dense} do not fit the shape {shape}")
    batch, places, dense = shape[:n_batch], shape[n_batch : n_batch + n_sparse], shape[n_batch + n_sparse :]
    n = math.prod(places)
    if not 0 <= nse < n:
        raise ValueError(f"random_bcoo: nse must be at least 0 and less than {n}, got {nse}")
    nse = math.ceil(nse * n) if 0 < nse < 1 else operator.index(nse)
    kind = np.dtype(indices_dtype or jnp.asarray(0).dtype)
    if n > np.iinfo(kind).max:
        raise ValueError(f"random_bcoo: indices of {n} places do not fit {kind.name}")

    def positions(key):
        if not places:
            return jnp.zeros((nse, 0), kind)
        flat = random.choice(key, n, (nse,), replace=not unique_indices).astype(kind)
        return jnp.stack(jnp.unravel_index(flat, places), -1)

    keys = random.split(key, math.prod(batch) + 1)
    data = generator(keys[0], shape=(*batch, nse, *dense), dtype=dtype, **kwds)
    indices = vmap(positions)(keys[1:]).reshape(*batch, nse, n_sparse)
    mat = BCOO((data, indices), shape=shape)
    return mat.sort_indices() if sorted_indices else mat
