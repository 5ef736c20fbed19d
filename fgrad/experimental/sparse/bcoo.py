"""BCOO: arrays of which only some elements are stored, each with its index."""

import functools
import operator

import numpy as np

import fgrad.numpy as jnp
from fgrad import lax, tree
from fgrad.api import vmap
from fgrad.core import concrete_or_none
from fgrad.errors import ConcretizationTypeError
from fgrad.experimental.sparse.base import JAXSparse
from fgrad.experimental.sparse.movement import (
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_sort_indices,
    bcoo_sum_duplicates,
    bcoo_transpose,
    columns,
    getitem,
    inside,
    marked,
    plain,
)


@tree.register_pytree_node_class
class BCOO(JAXSparse):
    """An array of `shape` whose elements are zero but for `data` at `indices`; elements stored twice are added.

    data: (*batch, nse, *dense), indices: (*batch, nse, n_sparse) of integers, for a shape of (*batch, *sparse, *dense). Indices outside of
    the shape stand for nothing. A pytree of data and indices, differentiable in data. Raises ValueError where shapes do not fit.

    >>> import fgrad.numpy as jnp
    >>> from fgrad.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([[0.0, 2.0], [0.0, 3.0]]))
    >>> m, m @ jnp.ones(2)
    (BCOO(float32[2, 2], nse=2), Array([2., 3.], dtype=float32))
    """

    def __init__(self, args, *, shape, indices_sorted=False, unique_indices=False):
        self.data, self.indices = map(jnp.asarray, args)
        self.shape, self.indices_sorted, self.unique_indices = tuple(shape), bool(indices_sorted), bool(unique_indices)
        b, s = self.indices.ndim - 2, self.indices.shape[-1] if self.indices.ndim > 1 else -1
        if b < 0 or b + s > len(self.shape) or self.data.shape != (*self.indices.shape[:-1], *self.shape[b + s :]):
            raise ValueError(f"BCOO: data {self.data.shape} and indices {self.indices.shape} do not make an array of shape {self.shape}")

    def tree_flatten(self):
        return (self.data, self.indices), (self.shape, self.indices_sorted, self.unique_indices, getattr(self.indices, "ndim", 2) - 2)

    @classmethod
    def tree_unflatten(cls, aux, children):
        self = object.__new__(cls)
        (self.data, self.indices), (self.shape, self.indices_sorted, self.unique_indices, n_batch) = children, aux
        more = getattr(self.indices, "ndim", 2 + n_batch) - 2 - n_batch
        if more:  # vmap and scan took batch axes away, or brought some back
            self.shape = (*self.indices.shape[:more], *self.shape) if more > 0 else self.shape[-more:]
        return self

    nse = property(lambda self: self.indices.shape[-2])
    n_batch = property(lambda self: self.indices.ndim - 2)
    n_sparse = property(lambda self: self.indices.shape[-1])
    n_dense = property(lambda self: self.data.ndim - 1 - self.n_batch)

    def __repr__(self):
        counts = [f"{name}={getattr(self, name)}" for name in ("n_batch", "n_dense") if getattr(self, name)]
        return f"BCOO({self.dtype}{list(self.shape)}, {', '.join([f'nse={self.nse}', *counts])})"

    @classmethod
    def fromdense(cls, mat, *, nse=None, index_dtype=np.int32, n_dense=0, n_batch=0):
        """The sparse form of an array; see bcoo_fromdense."""
        return bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    def from_scipy_sparse(cls, mat, *, index_dtype=None, n_dense=0, n_batch=0):
        """The same as a matrix of scipy.sparse."""
        if n_dense or n_batch:
            raise NotImplementedError("BCOO.from_scipy_sparse with n_dense or n_batch")
        mat = mat.tocoo()
        return cls((mat.data, jnp.column_stack((mat.row, mat.col)).astype(index_dtype or np.int32)), shape=mat.shape)

    def todense(self):
        """The array in full."""
        return bcoo_todense(self)

    def transpose(self, axes=None):
        return bcoo_transpose(self, permutation=tuple(range(self.ndim))[::-1] if axes is None else tuple(axes))

    def astype(self, dtype):
        return _with(self, self.data.astype(dtype))

    def reshape(self, *new_sizes):
        return bcoo_reshape(self, new_sizes=new_sizes[0] if len(new_sizes) == 1 and np.iterable(new_sizes[0]) else new_sizes)

    def sum(self, axis=None):
        axes = tuple(range(self.ndim)) if axis is None else tuple(a % self.ndim for a in ((axis,) if isinstance(axis, int) else axis))
        out = bcoo_reduce_sum(self, axes=axes)
        return out if out.ndim else out.todense()

    def sort_indices(self):
        return bcoo_sort_indices(self)

    def sum_duplicates(self, nse=None, remove_zeros=True):
        return bcoo_sum_duplicates(self, nse, remove_zeros=remove_zeros)

    def __abs__(self):
        return _with(self, abs(self.data))

    def __neg__(self):
        return _with(self, -self.data)

    def __pos__(self):
        return self

    def __matmul__(self, other):
        return _matmul(self, other)

    def __rmatmul__(self, other):
        return _matmul(other, self)

    def __mul__(self, other):
        if isinstance(other, BCOO):
            return bcoo_multiply_sparse(self, other)
        return _with(self, self.data * other) if jnp.ndim(other) == 0 else _with(self, bcoo_multiply_dense(self, other))

    __rmul__ = __mul__

    def __truediv__(self, other):
        return self * (1 / jnp.asarray(other))

    def __add__(self, other):
        if not isinstance(other, BCOO):
            if jnp.shape(other) != self.shape:
                what = f"Addition of a sparse array {self} and a dense one of shape {jnp.shape(other)}"
                raise NotImplementedError(f"{what} would fill it in; use todense() if that is meant")
            return self.todense() + other
        if other.shape != self.shape or (other.n_batch, other.n_dense) != (self.n_batch, self.n_dense):
            raise ValueError(f"addition of {self} and {other}: one shape and layout expected")
        dtype = jnp.result_type(self.dtype, other.dtype)
        data = jnp.concatenate([self.data.astype(dtype), other.data.astype(dtype)], self.n_batch)
        return BCOO((data, jnp.concatenate([self.indices, other.indices], self.n_batch)), shape=self.shape)

    __radd__ = __add__

    def __sub__(self, other):
        return self + (-other)

    def __rsub__(self, other):
        return other + (-self)

    def __getitem__(self, index):
        return getitem(self, index if isinstance(index, tuple) else (index,))

    def __iter__(self):
        return (self[i] for i in range(len(self)))


def _with(mat, data):
    return BCOO((data, mat.indices), shape=mat.shape, indices_sorted=mat.indices_sorted, unique_indices=mat.unique_indices)


# --- to and from dense arrays ---------------------------------------------------------------------------------------------------


def bcoo_fromdense(mat, *, nse=None, n_batch=0, n_dense=0, index_dtype=np.int32):
    """The sparse form of an array, of nse elements (by default as many as are not zero, the most of any batch).

    nse must be given where mat is traced (ConcretizationTypeError); spare elements have indices outside of the shape and are zero.
    """
    mat = jnp.asarray(mat)
    n_sparse = mat.ndim - n_batch - n_dense
    if min(n_batch, n_dense, n_sparse) < 0:
        raise ValueError(f"bcoo_fromdense: n_batch={n_batch} and n_dense={n_dense} do not fit the shape {mat.shape}")
    mask = mat != 0
    mask = mask.any(tuple(range(n_batch + n_sparse, mat.ndim))) if n_dense else mask
    if nse is None:
        value = concrete_or_none(mask)
        if value is None:
            raise ConcretizationTypeError("The error arose for the nse argument of bcoo_fromdense: give it where the array is traced.")
        nse = int(np.asarray(value).sum(tuple(range(n_batch, mask.ndim))).max(initial=0))
    nse = operator.index(nse)

    def one(mask, mat):
        if not n_sparse:
            return jnp.zeros((nse, 0), index_dtype), jnp.where(jnp.arange(nse).reshape(-1, *[1] * n_dense) < mask, mat[None], 0)
        at = jnp.nonzero(mask, size=nse, fill_value=mask.shape)
        stored = jnp.arange(nse) < mask.sum()
        data = mat.at[at].get(mode="fill", fill_value=0)
        return jnp.stack(at, -1).astype(index_dtype), jnp.where(stored.reshape(-1, *[1] * n_dense), data, 0)

    for _ in range(n_batch):
        one = vmap(one)
    indices, data = one(mask, mat)
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)


def bcoo_todense(mat):
    """The array in full."""

    def one(data, indices):
        if not mat.n_sparse:
            return data.sum(0)
        return jnp.zeros(mat.shape[mat.n_batch :], data.dtype).at[columns(indices)].add(data, mode="drop")

    for _ in range(mat.n_batch):
        one = vmap(one)
    return one(mat.data, mat.indices)


def todense(arr):
    """An array in full, sparse or not."""
    return arr.todense() if hasattr(arr, "todense") else jnp.asarray(arr)


def bcoo_extract(sparr, arr, *, assume_unique=None):
    """The elements of a dense array at the indices of a sparse one, as a sparse array."""
    return _with(sparr, _at(sparr.indices, jnp.asarray(arr)))


def _at(indices, arr):
    """The elements of a dense array at the indices of a BCOO array."""
    take = lambda indices, arr: arr.at[columns(indices)].get(mode="fill", fill_value=0)  # noqa: E731
    for _ in range(indices.ndim - 2):
        take = vmap(take)
    return take(indices, arr)


def bcoo_dot_general_sampled(A, B, indices, *, dimension_numbers):  # noqa: N803
    """The elements of lax.dot_general(A, B, dimension_numbers) at `indices` (of a BCOO array): its data."""
    return _at(indices, lax.dot_general(A, B, dimension_numbers))


# --- products ---------------------------------------------------------------------------------------------------------------------


def bcoo_dot_general(lhs, rhs, *, dimension_numbers, precision=None, preferred_element_type=None, out_sharding=None):
    """lax.dot_general with sparse operands. A product of a sparse and a dense array is dense, one of two sparse arrays sparse.

    Batch axes must be the leading ones, and those of the sparse operand its batch axes. Raises NotImplementedError for dense axes.
    """
    (lc, rc), (lb, rb) = (tuple(map(tuple, pair)) for pair in dimension_numbers)
    if not isinstance(lhs, BCOO) and not isinstance(rhs, BCOO):
        return lax.dot_general(lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type)
    if lb:
        n = len(lb)
        if lb != tuple(range(n)) or rb != lb:
            raise NotImplementedError("bcoo_dot_general: batch axes must be the leading ones")
        inner = (tuple(a - 1 for a in lc), tuple(a - 1 for a in rc)), (lb[:-1], rb[:-1])
        return vmap(functools.partial(bcoo_dot_general, dimension_numbers=inner))(_unbatched(lhs), _unbatched(rhs))
    for m in (lhs, rhs):
        if isinstance(m, BCOO):
            plain("bcoo_dot_general", m)
    if not isinstance(rhs, BCOO):
        out = _sparse_dense(lhs, jnp.asarray(rhs), lc, rc)
    elif not isinstance(lhs, BCOO):
        out = _sparse_dense(rhs, jnp.asarray(lhs), rc, lc)
        free = rhs.ndim - len(rc)
        out = jnp.transpose(out, (*range(free, out.ndim), *range(free)))
    else:
        out = _sparse_sparse(lhs, rhs, lc, rc)
    return out if preferred_element_type is None else out.astype(preferred_element_type)


def _unbatched(x):
    """x, which vmap can take over its first axis."""
    if isinstance(x, BCOO) and not x.n_batch:
        raise NotImplementedError("bcoo_dot_general: batch axes of the sparse operand must be its n_batch axes")
    return x


def _sparse_dense(mat, dense, mat_axes, dense_axes):
    """(*free axes of mat, *free axes of dense): rows of dense, times the elements, added where these stand."""
    free = [a for a in range(mat.ndim) if a not in mat_axes]
    rest = [a for a in range(dense.ndim) if a not in dense_axes]
    if [mat.shape[a] for a in mat_axes] != [dense.shape[a] for a in dense_axes]:
        raise TypeError(f"bcoo_dot_general: contracted axes of {mat.shape} and {dense.shape} must have one size")
    dense = jnp.transpose(dense, (*dense_axes, *rest))
    data = mat.data
    if mat_axes:
        rows = dense.at[tuple(mat.indices[:, a] for a in mat_axes)].get(mode="fill", fill_value=0)
        terms = rows * data.reshape(-1, *[1] * len(rest))
    else:
        terms = dense[None] * data.reshape(-1, *[1] * len(rest))
    if not free:
        return terms.sum(0)
    out = jnp.zeros((*[mat.shape[a] for a in free], *terms.shape[1:]), terms.dtype)
    return out.at[tuple(mat.indices[:, a] for a in free)].add(terms, mode="drop")


def _pairs(lhs, rhs, lhs_axes, rhs_axes):
    """(data, which pairs meet, indices of both) of all pairs of elements."""
    hit = inside(lhs)[:, None] & inside(rhs)[None]
    for a, b in zip(lhs_axes, rhs_axes):
        hit &= lhs.indices[:, None, a] == rhs.indices[None, :, b]
    data = jnp.where(hit, lhs.data[:, None] * rhs.data[None], 0).ravel()
    n = (lhs.nse, rhs.nse)
    left = jnp.broadcast_to(lhs.indices[:, None], (*n, lhs.ndim)).reshape(-1, lhs.ndim)
    right = jnp.broadcast_to(rhs.indices[None], (*n, rhs.ndim)).reshape(-1, rhs.ndim)
    return data, hit.ravel(), left, right


def _sparse_sparse(lhs, rhs, lc, rc):
    data, hit, left, right = _pairs(lhs, rhs, lc, rc)
    lf, rf = [a for a in range(lhs.ndim) if a not in lc], [a for a in range(rhs.ndim) if a not in rc]
    shape = (*[lhs.shape[a] for a in lf], *[rhs.shape[a] for a in rf])
    indices = jnp.concatenate([left[:, np.array(lf, int)], right[:, np.array(rf, int)]], -1)
    return marked(lhs, data, hit, indices, shape)


def bcoo_multiply_sparse(lhs, rhs):
    """The elementwise product of two sparse arrays of one shape, of lhs.nse * rhs.nse elements."""
    plain("bcoo_multiply_sparse", lhs, rhs)
    if lhs.shape != rhs.shape:
        raise NotImplementedError(f"bcoo_multiply_sparse of shapes {lhs.shape} and {rhs.shape}: they must be equal")
    axes = range(lhs.ndim)
    data, hit, left, _ = _pairs(lhs, rhs, axes, axes)
    return marked(lhs, data, hit, left, lhs.shape)


def bcoo_multiply_dense(sp_mat, v):
    """The data of the elementwise product with a dense array that broadcasts to its shape."""
    v = jnp.broadcast_to(v, sp_mat.shape)
    return sp_mat.data * bcoo_extract(sp_mat, v).data


def _matmul(a, b):
    if not isinstance(a, BCOO):
        a = jnp.asarray(a)
    if not isinstance(b, BCOO):
        b = jnp.asarray(b)
    if not a.ndim or not b.ndim:
        raise ValueError("matmul of a scalar: use *")
    if b.ndim > 2 and isinstance(a, BCOO) and a.ndim == 2 and not isinstance(b, BCOO):  # one sparse matrix with each of a batch
        if a.shape[1] != b.shape[-2]:
            raise TypeError(f"matmul: shapes {a.shape} and {b.shape} do not fit")
        out = bcoo_dot_general(a, b, dimension_numbers=(((1,), (b.ndim - 2,)), ((), ())))
        return jnp.moveaxis(out, 0, -2)
    n = min(x.n_batch if isinstance(x, BCOO) else x.ndim - 2 for x in (a, b)) if min(a.ndim, b.ndim) > 2 else 0
    if (b.ndim if b.ndim < 3 else b.ndim - n) > 2 or (isinstance(a, BCOO) and a.ndim - n > 2):
        raise NotImplementedError(f"matmul of shapes {a.shape} and {b.shape} with a sparse operand")
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise TypeError(f"matmul: shapes {a.shape} and {b.shape} do not fit")
    batch = tuple(range(n))
    return bcoo_dot_general(a, b, dimension_numbers=(((a.ndim - 1,), (max(b.ndim - 2, 0),)), (batch, batch)))
