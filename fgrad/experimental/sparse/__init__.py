"""Sparse arrays: jax.experimental.sparse's BCOO, BCSR, COO, CSR and CSC, composed of gathers and scatters."""

import numpy as np

import fgrad.numpy as jnp
from fgrad.experimental.sparse import linalg
from fgrad.experimental.sparse.base import JAXSparse
from fgrad.experimental.sparse.bcoo import (
    BCOO,
    bcoo_dot_general,
    bcoo_dot_general_sampled,
    bcoo_extract,
    bcoo_fromdense,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
    bcoo_todense,
    todense,
)
from fgrad.experimental.sparse.bcsr import BCSR, bcsr_dot_general, bcsr_fromdense, bcsr_sum_duplicates, bcsr_todense
from fgrad.experimental.sparse.drawn import random_bcoo
from fgrad.experimental.sparse.matrices import (
    COO,
    CSC,
    CSR,
    coo_fromdense,
    coo_matmat,
    coo_matvec,
    coo_todense,
    csr_fromdense,
    csr_matmat,
    csr_matvec,
    csr_todense,
)
from fgrad.experimental.sparse.movement import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_dynamic_slice,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_sort_indices,
    bcoo_squeeze,
    bcoo_sum_duplicates,
    bcoo_transpose,
)
from fgrad.experimental.sparse.transform import grad, jacfwd, jacobian, jacrev, sparsify, value_and_grad

_FORMATS = {"bcoo": lambda m: m, "bcsr": BCSR.from_bcoo, "coo": COO._from_bcoo, "csr": CSR._from_bcoo, "csc": CSC._from_bcoo}


def _formatted(mat, sparse_format):
    if sparse_format not in _FORMATS:
        raise ValueError(f"sparse_format={sparse_format!r} not recognized; must be one of {list(_FORMATS)}")
    return _FORMATS[sparse_format](mat)


def empty(shape, dtype=None, index_dtype="int32", sparse_format="bcoo", *, nse=0):
    """An array of zeros, with room for nse elements."""
    indices = jnp.broadcast_to(np.asarray(shape, index_dtype), (nse, len(shape)))
    mat = BCOO((jnp.zeros(nse, dtype), indices), shape=shape, indices_sorted=True, unique_indices=True)
    return _formatted(mat, sparse_format)


def eye(N, M=None, k=0, dtype=None, index_dtype="int32", sparse_format="bcoo"):  # noqa: N803
    """Ones on the diagonal k of an N x M matrix (M: N).

    >>> from fgrad.experimental import sparse
    >>> sparse.eye(3)
    BCOO(float32[3, 3], nse=3)
    """
    M = N if M is None else M  # noqa: N806
    n = max(0, min(N, M - k) if k > 0 else min(N + k, M))
    at = np.arange(n)
    indices = np.stack([at + max(-k, 0), at + max(k, 0)], -1).astype(index_dtype)
    mat = BCOO((jnp.ones(n, dtype), indices), shape=(N, M), indices_sorted=True, unique_indices=True)
    return _formatted(mat, sparse_format)


__all__ = [
    "BCOO",
    "BCSR",
    "COO",
    "CSC",
    "CSR",
    "JAXSparse",
    "bcoo_broadcast_in_dim",
    "bcoo_concatenate",
    "bcoo_dot_general",
    "bcoo_dot_general_sampled",
    "bcoo_dynamic_slice",
    "bcoo_extract",
    "bcoo_fromdense",
    "bcoo_multiply_dense",
    "bcoo_multiply_sparse",
    "bcoo_reduce_sum",
    "bcoo_reshape",
    "bcoo_rev",
    "bcoo_slice",
    "bcoo_sort_indices",
    "bcoo_squeeze",
    "bcoo_sum_duplicates",
    "bcoo_todense",
    "bcoo_transpose",
    "bcsr_dot_general",
    "bcsr_fromdense",
    "bcsr_sum_duplicates",
    "bcsr_todense",
    "coo_fromdense",
    "coo_matmat",
    "coo_matvec",
    "coo_todense",
    "csr_fromdense",
    "csr_matmat",
    "csr_matvec",
    "csr_todense",
    "empty",
    "eye",
    "grad",
    "jacfwd",
    "jacobian",
    "jacrev",
    "linalg",
    "random_bcoo",
    "sparsify",
    "todense",
    "value_and_grad",
]
