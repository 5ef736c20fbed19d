"""BCSR: matrices by compressed rows."""

import numpy as np

import fgrad.numpy as jnp
from fgrad import tree
from fgrad.experimental.sparse.base import JAXSparse
from fgrad.experimental.sparse.bcoo import BCOO, bcoo_dot_general, bcoo_fromdense


@tree.register_pytree_node_class
class BCSR(JAXSparse):
    """A matrix of `shape` whose row i has data[indptr[i]:indptr[i + 1]] in the columns indices[indptr[i]:indptr[i + 1]].

    >>> import fgrad.numpy as jnp
    >>> from fgrad.experimental import sparse
    >>> m = sparse.BCSR.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> m, m.indptr.tolist(), (m @ jnp.ones(2)).tolist()
    (BCSR(float32[2, 2], nse=2), [0, 1, 2], [2.0, 3.0])
    """

    def __init__(self, args, *, shape, indices_sorted=False, unique_indices=False):
        self.data, self.indices, self.indptr = map(jnp.asarray, args)
        self.shape, self.indices_sorted, self.unique_indices = tuple(shape), bool(indices_sorted), bool(unique_indices)
        if len(self.shape) != 2 or self.data.shape != self.indices.shape or self.indptr.shape != (self.shape[0] + 1,):
            got = f"data {self.data.shape}, indices {self.indices.shape} and indptr {self.indptr.shape}"
            raise ValueError(f"BCSR: {got} do not make a matrix of shape {self.shape}")

    def tree_flatten(self):
        return (self.data, self.indices, self.indptr), (self.shape, self.indices_sorted, self.unique_indices)

    @classmethod
    def tree_unflatten(cls, aux, children):
        self = object.__new__(cls)
        (self.data, self.indices, self.indptr), (self.shape, self.indices_sorted, self.unique_indices) = children, aux
        return self

    n_batch = n_dense = 0
    n_sparse = 2
    nse = property(lambda self: self.indices.shape[-1])

    def __repr__(self):
        return f"BCSR({self.dtype}{list(self.shape)}, nse={self.nse})"

    @classmethod
    def fromdense(cls, mat, *, nse=None, index_dtype=np.int32, n_dense=0, n_batch=0):
        """The sparse form of a matrix, of nse elements."""
        return cls.from_bcoo(bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch))

    @classmethod
    def from_bcoo(cls, arr):
        """The same matrix as a BCOO."""
        if arr.ndim != 2 or arr.n_batch or arr.n_dense:
            raise NotImplementedError(f"BCSR of {arr}: a matrix with n_batch and n_dense of 0 expected")
        arr = arr if arr.indices_sorted else arr.sort_indices()
        rows, columns = arr.indices[:, 0], arr.indices[:, 1]
        indptr = jnp.searchsorted(rows, jnp.arange(arr.shape[0] + 1, dtype=rows.dtype)).astype(rows.dtype)
        return cls((arr.data, columns, indptr), shape=arr.shape, indices_sorted=True, unique_indices=arr.unique_indices)

    @classmethod
    def from_scipy_sparse(cls, mat, *, index_dtype=None, n_dense=0, n_batch=0):
        """The same as a matrix of scipy.sparse."""
        mat = mat.tocsr()
        kind = index_dtype or np.int32
        return cls((mat.data, mat.indices.astype(kind), mat.indptr.astype(kind)), shape=mat.shape)

    def to_bcoo(self):
        """The same matrix as a BCOO."""
        rows = jnp.searchsorted(self.indptr, jnp.arange(self.nse, dtype=self.indptr.dtype), side="right") - 1
        columns = jnp.where(rows < self.shape[0], self.indices, self.shape[1])
        indices = jnp.stack([rows.astype(self.indices.dtype), columns], -1)
        flags = dict(indices_sorted=self.indices_sorted, unique_indices=self.unique_indices)
        return BCOO((self.data, indices), shape=self.shape, **flags)

    def todense(self):
        return self.to_bcoo().todense()

    def transpose(self, axes=None):
        """The transpose, as a BCOO."""
        return self.to_bcoo().transpose(axes)

    def sum_duplicates(self, nse=None, remove_zeros=True):
        return BCSR.from_bcoo(self.to_bcoo().sum_duplicates(nse, remove_zeros))

    def __matmul__(self, other):
        return self.to_bcoo() @ (other.to_bcoo() if isinstance(other, BCSR) else other)

    def __rmatmul__(self, other):
        return other @ self.to_bcoo()

    def __neg__(self):
        return self * -1

    def __mul__(self, other):
        if jnp.ndim(other):
            return BCSR.from_bcoo(self.to_bcoo() * other)
        return BCSR((self.data * other, self.indices, self.indptr), shape=self.shape)

    __rmul__ = __mul__


def bcsr_fromdense(mat, *, nse=None, n_batch=0, n_dense=0, index_dtype=np.int32):
    """The sparse form of a matrix by compressed rows."""
    return BCSR.fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)


def bcsr_todense(mat):
    """The matrix in full."""
    return mat.todense()


def bcsr_dot_general(lhs, rhs, *, dimension_numbers, precision=None, preferred_element_type=None, out_sharding=None):
    """lax.dot_general of a BCSR matrix and a dense array: a dense array."""
    return bcoo_dot_general(lhs.to_bcoo(), rhs, dimension_numbers=dimension_numbers, preferred_element_type=preferred_element_type)


def bcsr_sum_duplicates(mat, nse=None):
    """The same matrix, with elements that were stored twice added."""
    return mat.sum_duplicates(nse, remove_zeros=False)
