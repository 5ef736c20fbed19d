"""COO, CSR and CSC: matrices in the layouts of scipy.sparse, computed as BCOO and BCSR arrays."""

import operator

import numpy as np

import fgrad.numpy as jnp
from fgrad import tree
from fgrad.core import concrete_or_none
from fgrad.errors import ConcretizationTypeError
from fgrad.experimental.sparse.base import JAXSparse
from fgrad.experimental.sparse.bcoo import BCOO
from fgrad.experimental.sparse.bcsr import BCSR


class _Matrix(JAXSparse):
    """A sparse matrix of three arrays, named by the class; it is transposed without a copy and multiplies dense arrays."""

    _names: tuple = ()
    nse = property(lambda self: self.data.size)

    def __init__(self, args, *, shape):
        self.shape = tuple(map(operator.index, shape))
        for name, x in zip(self._names, args, strict=True):
            setattr(self, name, jnp.asarray(x))

    def tree_flatten(self):
        return tuple(getattr(self, name) for name in self._names), self.shape

    @classmethod
    def tree_unflatten(cls, aux, children):
        self = object.__new__(cls)
        self.shape = aux
        self.__dict__.update(zip(cls._names, children))
        return self

    def __repr__(self):
        return f"{type(self).__name__}({self.dtype}{list(self.shape)}, nse={self.nse})"

    def _transposed(self, axes, form):
        if axes is not None:
            raise NotImplementedError(f"{type(self).__name__}.transpose: a matrix has two axes, and no argument says more")
        return form(self.tree_flatten()[0], shape=self.shape[::-1])

    def todense(self):
        """The matrix in full."""
        return self._bcoo().todense()

    def __matmul__(self, other):
        if isinstance(other, (_Matrix, BCOO, BCSR)):
            raise NotImplementedError(f"{type(self).__name__}: a product of two sparse matrices; BCOO has one")
        if jnp.ndim(other) not in (1, 2):
            raise NotImplementedError(f"{type(self).__name__}: a product with an array of shape {jnp.shape(other)}")
        return self._bcoo() @ other

    def _refused(self, other=None):
        raise NotImplementedError(f"{type(self).__name__} has products with dense arrays only; BCOO has the other operators")

    __rmatmul__ = __mul__ = __rmul__ = __add__ = __radd__ = __sub__ = __rsub__ = __neg__ = __getitem__ = _refused


@tree.register_pytree_node_class
class COO(_Matrix):
    """A matrix of `shape` that has data[i] at (row[i], col[i]) and zeros elsewhere; elements stored twice are added.

    >>> import fgrad.numpy as jnp
    >>> from fgrad.experimental import sparse
    >>> m = sparse.COO.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> m, m.row.tolist(), m.col.tolist(), (m @ jnp.ones(2)).tolist()
    (COO(float32[2, 2], nse=2), [0, 1], [1, 0], [2.0, 3.0])
    """

    _names = ("data", "row", "col")

    def __init__(self, args, *, shape, rows_sorted=False, cols_sorted=False):
        super().__init__(args, shape=shape)

    @classmethod
    def fromdense(cls, mat, *, nse=None, index_dtype=np.int32):
        """The sparse form of a matrix, of nse elements; see coo_fromdense."""
        return coo_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _from_bcoo(cls, mat):
        return cls((mat.data, mat.indices[:, 0], mat.indices[:, 1]), shape=mat.shape)

    def _bcoo(self):
        return BCOO((self.data, jnp.stack([self.row, self.col], -1)), shape=self.shape)

    def transpose(self, axes=None):
        out = self._transposed(axes, COO)
        out.row, out.col = self.col, self.row
        return out


@tree.register_pytree_node_class
class CSR(_Matrix):
    """A matrix of `shape` whose row i has data[indptr[i]:indptr[i + 1]] in the columns indices[indptr[i]:indptr[i + 1]].

    >>> import fgrad.numpy as jnp
    >>> from fgrad.experimental import sparse
    >>> m = sparse.CSR.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> m, m.T, m.indptr.tolist(), (m @ jnp.ones(2)).tolist()
    (CSR(float32[2, 2], nse=2), CSC(float32[2, 2], nse=2), [0, 1, 2], [2.0, 3.0])
    """

    _names = ("data", "indices", "indptr")

    @classmethod
    def fromdense(cls, mat, *, nse=None, index_dtype=np.int32):
        """The sparse form of a matrix, of nse elements; see csr_fromdense."""
        return csr_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _from_bcoo(cls, mat):
        return cls(BCSR.from_bcoo(mat).tree_flatten()[0], shape=mat.shape)

    def _bcoo(self):
        return BCSR(self.tree_flatten()[0], shape=self.shape).to_bcoo()

    def transpose(self, axes=None):
        return self._transposed(axes, CSC)


@tree.register_pytree_node_class
class CSC(_Matrix):
    """A matrix by compressed columns: the transpose of a CSR of the same arrays."""

    _names = ("data", "indices", "indptr")

    @classmethod
    def fromdense(cls, mat, *, nse=None, index_dtype=np.int32):
        """The sparse form of a matrix, of nse elements."""
        return csr_fromdense(jnp.asarray(mat).T, nse=nse, index_dtype=index_dtype).T

    @classmethod
    def _from_bcoo(cls, mat):
        return CSR._from_bcoo(mat.T.sort_indices()).T

    def _bcoo(self):
        return self.T._bcoo().T

    def transpose(self, axes=None):
        return self._transposed(axes, CSR)


def _stored(mat, nse, name):
    """(matrix, rows, columns, which of nse elements are stored, their values)."""
    mat = jnp.asarray(mat)
    if mat.ndim != 2:
        raise ValueError(f"{name}: a matrix expected, got an array of shape {mat.shape}")
    if nse is None:
        value = concrete_or_none(mat)
        if value is None:
            raise ConcretizationTypeError(f"The error arose for the nse argument of {name}: give it where the array is traced.")
        nse = np.count_nonzero(np.asarray(value))
    nse = operator.index(nse)
    row, col = jnp.nonzero(mat, size=nse)
    stored = jnp.arange(nse) < (mat != 0).sum()
    return mat, row, col, stored, jnp.where(stored, mat[row, col], 0)


def coo_fromdense(mat, *, nse=None, index_dtype=np.int32):
    """The sparse form of a matrix by coordinates, of nse elements (as many as are not zero; to be given where mat is traced)."""
    mat, row, col, _, data = _stored(mat, nse, "coo_fromdense")
    return COO((data, row.astype(index_dtype), col.astype(index_dtype)), shape=mat.shape)


def csr_fromdense(mat, *, nse=None, index_dtype=np.int32):
    """The sparse form of a matrix by compressed rows, of nse elements (as many as are not zero; to be given where mat is traced)."""
    mat, row, col, stored, data = _stored(mat, nse, "csr_fromdense")
    counts = jnp.bincount(jnp.where(stored, row, mat.shape[0]), length=mat.shape[0])
    indptr = jnp.concatenate([jnp.zeros(1, index_dtype), jnp.cumsum(counts.astype(index_dtype))])
    return CSR((data, col.astype(index_dtype), indptr), shape=mat.shape)


def coo_todense(mat):
    """A COO matrix in full."""
    return mat.todense()


def csr_todense(mat):
    """A CSR matrix in full."""
    return mat.todense()


def _product(mat, other, transpose, ndim, name):
    if jnp.ndim(other) != ndim:
        raise ValueError(f"{name}: expected an array of {ndim} axes, got shape {jnp.shape(other)}")
    return (mat.T if transpose else mat) @ other


def coo_matvec(mat, v, transpose=False):
    """mat @ v, or mat.T @ v, of a COO matrix and a vector."""
    return _product(mat, v, transpose, 1, "coo_matvec")


def coo_matmat(mat, B, *, transpose=False):  # noqa: N803
    """mat @ B, or mat.T @ B, of a COO matrix and a dense one."""
    return _product(mat, B, transpose, 2, "coo_matmat")


def csr_matvec(mat, v, transpose=False):
    """mat @ v, or mat.T @ v, of a CSR matrix and a vector."""
    return _product(mat, v, transpose, 1, "csr_matvec")


def csr_matmat(mat, B, *, transpose=False):  # noqa: N803
    """mat @ B, or mat.T @ B, of a CSR matrix and a dense one."""
    return _product(mat, B, transpose, 2, "csr_matmat")
