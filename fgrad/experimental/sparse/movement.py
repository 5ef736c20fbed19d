"""Movement and order of the elements of sparse arrays."""

import math
import operator

import numpy as np

import fgrad.numpy as jnp
from fgrad.api import vmap
from fgrad.core import concrete_or_none
from fgrad.errors import ConcretizationTypeError


def plain(name, *mats):
    """Raise NotImplementedError for batched or dense axes."""
    for m in mats:
        if m.n_batch or m.n_dense:
            raise NotImplementedError(f"{name} of {m}: n_batch and n_dense must be 0")


def columns(indices):
    return tuple(indices[..., i] for i in range(indices.shape[-1]))


def inside(mat):
    return (mat.indices < np.asarray(mat.shape, mat.indices.dtype)).all(-1)


def marked(like, data, kept, indices, shape):
    """A sparse array of like's type: elements that are not kept get indices outside of the shape."""
    return type(like)((data, jnp.where(kept[:, None], indices, np.asarray(shape, indices.dtype))), shape=shape)


def bcoo_transpose(mat, *, permutation):
    """The axes in another order; batch, sparse and dense axes stay among themselves (NotImplementedError)."""
    b, s, n = mat.n_batch, mat.n_sparse, mat.ndim
    perm = [operator.index(p) for p in permutation]
    parts = perm[:b], perm[b : b + s], perm[b + s :]
    if sorted(perm) != list(range(n)):
        raise ValueError(f"bcoo_transpose: {permutation} is no permutation of {n} axes")
    if any(sorted(p) != list(r) for p, r in zip(parts, (range(b), range(b, b + s), range(b + s, n)))):
        raise NotImplementedError(f"bcoo_transpose by {permutation} mixes batch, sparse and dense axes of {mat}")
    indices = jnp.transpose(mat.indices[..., np.array([p - b for p in parts[1]], int)], (*parts[0], b, b + 1))
    data = jnp.transpose(mat.data, (*parts[0], b, *[p - s + 1 for p in parts[2]]))
    return type(mat)((data, indices), shape=tuple(mat.shape[p] for p in perm), unique_indices=mat.unique_indices)


def bcoo_reduce_sum(mat, *, axes):
    """Sums over sparse axes: their indices are left out."""
    plain("bcoo_reduce_sum", mat)
    kept = [a for a in range(mat.ndim) if a not in axes]
    data = jnp.where(inside(mat), mat.data, 0)
    return type(mat)((data, mat.indices[:, np.array(kept, int)]), shape=tuple(mat.shape[a] for a in kept))


def bcoo_reshape(mat, *, new_sizes, dimensions=None, sharding=None):
    """Another shape of the same size; one entry may be -1."""
    plain("bcoo_reshape", mat)
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=dimensions)
    new = np.empty(mat.shape, np.bool_).reshape(tuple(new_sizes)).shape if mat.size else tuple(new_sizes)
    linear = 0
    for i, n in zip(columns(mat.indices), mat.shape):
        linear = linear * n + i
    found, rest = [], linear
    for n in new[::-1]:
        found.append(rest % n)
        rest = rest // n
    indices = jnp.stack(found[::-1], -1) if found else jnp.zeros((mat.nse, 0), mat.indices.dtype)
    return marked(mat, jnp.where(inside(mat), mat.data, 0), inside(mat), indices.astype(mat.indices.dtype), new)


def bcoo_squeeze(arr, *, dimensions):
    """Without axes of size 1."""
    return bcoo_reshape(arr, new_sizes=[n for a, n in enumerate(arr.shape) if a not in {d % arr.ndim for d in dimensions}])


def bcoo_broadcast_in_dim(mat, *, shape, broadcast_dimensions, sharding=None):
    """Repeated along new axes, and along axes of size 1."""
    plain("bcoo_broadcast_in_dim", mat)
    repeated = [a for a in range(len(shape)) if a not in broadcast_dimensions or mat.shape[broadcast_dimensions.index(a)] != shape[a]]
    count = math.prod(shape[a] for a in repeated)
    grid = np.indices([shape[a] for a in repeated]).reshape(len(repeated), -1)
    found = []
    for a in range(len(shape)):
        if a in repeated:
            i = jnp.asarray(grid[repeated.index(a)], mat.indices.dtype)[None]
        else:
            i = mat.indices[:, None, broadcast_dimensions.index(a)]
        found.append(jnp.broadcast_to(i, (mat.nse, count)).ravel())
    data = jnp.broadcast_to(mat.data[:, None], (mat.nse, count)).ravel()
    kept = jnp.broadcast_to(inside(mat)[:, None], (mat.nse, count)).ravel()
    return marked(mat, data, kept, jnp.stack(found, -1) if found else jnp.zeros((mat.nse, 0), mat.indices.dtype), tuple(shape))


def bcoo_concatenate(operands, *, dimension):
    """Sparse arrays one after the other along an axis."""
    plain("bcoo_concatenate", *operands)
    indices, start, first = [], 0, operands[0]
    total = sum(m.shape[dimension] for m in operands)
    shape = (*first.shape[:dimension], total, *first.shape[dimension + 1 :])
    for m in operands:
        moved = m.indices.at[:, dimension].add(start)
        indices.append(jnp.where(inside(m)[:, None], moved, np.asarray(shape, moved.dtype)))
        start += m.shape[dimension]
    return type(first)((jnp.concatenate([m.data for m in operands]), jnp.concatenate(indices)), shape=shape)


def bcoo_slice(mat, *, start_indices, limit_indices, strides=None):
    """lax.slice of a sparse array, of the same nse."""
    plain("bcoo_slice", mat)
    start, stop = np.asarray(start_indices, mat.indices.dtype), np.asarray(limit_indices, mat.indices.dtype)
    step = np.ones_like(start) if strides is None else np.asarray(strides, mat.indices.dtype)
    shape = tuple(int(-(-(b - a) // s)) for a, b, s in zip(start, stop, step))
    offset = mat.indices - start
    kept = ((mat.indices >= start) & (mat.indices < stop) & (offset % step == 0)).all(-1)
    return marked(mat, jnp.where(kept, mat.data, 0), kept, offset // step, shape)


def bcoo_dynamic_slice(mat, start_indices, slice_sizes):
    """lax.dynamic_slice of a sparse array, of the same nse."""
    plain("bcoo_dynamic_slice", mat)
    sizes = np.asarray(slice_sizes, mat.indices.dtype)
    start = jnp.clip(jnp.stack([jnp.asarray(s) for s in start_indices]), 0, np.asarray(mat.shape) - sizes).astype(mat.indices.dtype)
    offset = mat.indices - start
    kept = ((offset >= 0) & (offset < sizes)).all(-1)
    return marked(mat, jnp.where(kept, mat.data, 0), kept, offset, tuple(slice_sizes))


def bcoo_rev(operand, dimensions):
    """lax.rev of a sparse array."""
    plain("bcoo_rev", operand)
    indices = operand.indices
    for d in dimensions:
        indices = indices.at[:, d].set(operand.shape[d] - 1 - indices[:, d])
    return marked(operand, operand.data, inside(operand), indices, operand.shape)


def getitem(mat, index):
    """Basic indexing by ints, slices, None and Ellipsis."""
    if any(not (i is None or i is Ellipsis or isinstance(i, (int, np.integer, slice))) for i in index):
        raise NotImplementedError("sparse arrays take ints, slices, None and Ellipsis as indices")
    used = sum(i is not None and i is not Ellipsis for i in index)
    if used > mat.ndim:
        raise IndexError(f"Too many indices: {mat.ndim}-dimensional array indexed with {used}")
    at = next((k for k, i in enumerate(index) if i is Ellipsis), len(index))
    index = (*index[:at], *[slice(None)] * (mat.ndim - used), *index[at + 1 :])
    ranges, sizes = [], []
    for i in index:
        if i is None:
            sizes.append(1)
            continue
        n = mat.shape[len(ranges)]
        if isinstance(i, slice):
            ranges.append(range(*i.indices(n)))
            sizes.append(len(ranges[-1]))
        elif -n <= i < n:
            ranges.append(range(i % n, i % n + 1))
        else:
            raise IndexError(f"index {i} is out of bounds for axis {len(ranges)} with size {n}")
    if any(r.step < 0 for r in ranges):
        raise NotImplementedError("sparse arrays take slices of positive steps")
    stops = [max(r.start, r.stop) for r in ranges]
    out = bcoo_slice(mat, start_indices=[r.start for r in ranges], limit_indices=stops, strides=[r.step for r in ranges])
    return out if out.shape == tuple(sizes) else bcoo_reshape(out, new_sizes=sizes)


# --- order --------------------------------------------------------------------------------------------------------------------------


def bcoo_sort_indices(mat):
    """The same with indices in lexicographic order."""
    if mat.n_batch:
        return vmap(bcoo_sort_indices)(mat)
    order = jnp.lexsort(columns(mat.indices)[::-1]) if mat.n_sparse else jnp.arange(mat.nse)
    flags = dict(indices_sorted=True, unique_indices=mat.unique_indices)
    return type(mat)((mat.data[order], mat.indices[order]), shape=mat.shape, **flags)


def bcoo_sum_duplicates(mat, nse=None, *, remove_zeros=True):
    """The same with sorted indices of which each is there once. nse: the number of elements, which must be given where mat is traced."""
    plain("bcoo_sum_duplicates", mat)
    mat = bcoo_sort_indices(mat)
    stored, shape = inside(mat), np.asarray(mat.shape, mat.indices.dtype)
    data, indices = jnp.where(stored, mat.data, 0), mat.indices
    first = jnp.concatenate([jnp.ones(min(mat.nse, 1), bool), (indices[1:] != indices[:-1]).any(-1)]) & stored
    group = jnp.cumsum(first) - 1
    sums = jnp.zeros(mat.nse, data.dtype).at[jnp.where(stored, group, mat.nse)].add(data, mode="drop")
    kept = first & (sums[jnp.maximum(group, 0)] != 0) if remove_zeros and mat.nse else first
    if nse is None:
        value = concrete_or_none(kept)
        if value is None:
            raise ConcretizationTypeError("The error arose for the nse argument of bcoo_sum_duplicates: give it where the array is traced.")
        nse = int(np.asarray(value).sum())
    flags = dict(shape=mat.shape, indices_sorted=True, unique_indices=True)
    if not mat.nse:
        return type(mat)((jnp.zeros(nse, data.dtype), jnp.broadcast_to(shape, (nse, mat.ndim))), **flags)
    at = jnp.nonzero(kept, size=nse, fill_value=mat.nse)[0]
    there, at = at < mat.nse, jnp.minimum(at, mat.nse - 1)
    return type(mat)((jnp.where(there, sums[group[at]], 0), jnp.where(there[:, None], indices[at], shape)), **flags)
