"""Quantiles, histograms, counts and covariance."""

import builtins
import math
import operator

import numpy as np

from fgrad import dtypes
from fgrad._kernels import masks
from fgrad.compile.eager import eager
from fgrad.core import Array, context, eval_trace
from fgrad.numpy import ufuncs as U
from fgrad.numpy.creation import array, asarray, linspace, ones_like, zeros
from fgrad.numpy.manipulation import atleast_2d, concatenate, diag, moveaxis, reshape
from fgrad.numpy.products import dot
from fgrad.numpy.reductions import any as _any
from fgrad.numpy.reductions import average, cumsum, ptp
from fgrad.numpy.reductions import sum as _sum
from fgrad.numpy.selection import clip, where
from fgrad.numpy.sorting import searchsorted
from fgrad.numpy.util import as_array, axis_tuple, concrete, promoted, spread
from fgrad.ops import elementwise as E
from fgrad.ops import sort as sort_ops
from fgrad.ops.along import take_along
from fgrad.ops.rules import full
from fgrad.ops.shape import expand_dims, transpose

__all__ = [
    "quantile", "percentile", "median", "nanquantile", "nanpercentile", "nanmedian",
    "histogram_bin_edges", "histogram", "histogram2d", "histogramdd", "digitize", "bincount", "cov", "corrcoef",
]  # fmt: skip

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def _inexact(name, *xs):
    return [as_array(name, x) for x in promoted(name, [as_array(name, x) for x in xs], inexact=True)]


def _last(x, axes):
    """x with `axes` behind the others, merged into one."""
    kept = tuple(i for i in range(x.ndim) if i not in axes)
    return reshape(transpose(x, (*kept, *axes)), (*[x.shape[i] for i in kept], math.prod(x.shape[i] for i in axes)))


def _quantile(name, a, q, axis, out, overwrite_input, method, keepdims, weights, skip_nan):
    """Quantiles of rows: x is (..., n), the positions in the sorted rows are (..., k) for k quantiles."""
    if out is not None or overwrite_input:
        raise ValueError(f"jax.numpy.{name} does not support overwrite_input=True or out != None")
    if method not in _METHODS:
        raise ValueError(f"method can only be one of {', '.join(_METHODS)}, got {method!r}")
    if weights is not None and method != "inverted_cdf":
        raise NotImplementedError(f"{name}: method {method!r} does not support weights, only 'inverted_cdf' does")
    a = as_array(name, a)
    axes = tuple(sorted(axis_tuple(axis, a.ndim)))
    if weights is not None:
        weights = as_array(name, weights)
        if weights.shape != a.shape:
            if axis is None or weights.shape != tuple(a.shape[i] for i in axes):
                raise ValueError(f"{name}: weights of shape {weights.shape} fit neither a's shape {a.shape} nor that of the reduced axes")
            weights = spread(reshape(weights, tuple(n if i in axes else 1 for i, n in enumerate(a.shape))), a.shape)
        a, weights = _inexact(name, a, weights)
    (x,), (q,) = _inexact(name, a), _inexact(name, q)
    if x.dtype.kind == "c":
        raise ValueError("quantile does not support complex input, as the operation is poorly defined.")
    if q.ndim > 1:
        raise ValueError(f"q must have rank <= 1, got shape {q.shape}")
    dtype = x.dtype
    rows = _last(x, axes)
    has_nan = None if skip_nan else _any(U.isnan(rows), -1, keepdims=True)
    qs = reshape(q, (q.size,))
    if method == "inverted_cdf":
        rows = rows if skip_nan else where(has_nan, E.like(rows, np.nan), rows)
        picked = _weighted(rows, None if weights is None else _last(weights, axes), qs)
    else:
        picked = _interpolated(rows, qs, method, skip_nan)
        picked = picked if skip_nan else where(has_nan, E.like(picked, np.nan), picked)
    result = E.convert_element_type(moveaxis(picked, -1, 0), dtype)
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape or (1,))) if keepdims else result.shape[1:]
    return reshape(result, (*q.shape, *kept))


_FEW_QUANTILES = 8  # of which each selects two elements of a row; more of them sort it


def _interpolated(rows, qs, method, skip_nan):
    """Quantiles of rows, between neighbours of their order as the method says."""
    lead, n = rows.shape[:-1], rows.shape[-1]
    if skip_nan:
        count = _sum(E.bitwise_not(U.isnan(rows)), -1, dtype=qs.dtype, keepdims=True)
        top = count - 1
    else:
        top = E.broadcast_to(E.like(qs, n - 1), (*lead, 1))
    at = spread(qs, (*lead, qs.size)) * top
    low, high = E.floor(at), E.ceil(at)
    share = at - low
    ranks = [E.convert_element_type(U.maximum(0, U.minimum(v, top)), np.int32) for v in (low, high)]
    if qs.size <= _FEW_QUANTILES and n:
        pair = sort_ops.ranked(rows, concatenate(ranks, -1))
        low, high = pair[..., : qs.size], pair[..., qs.size :]
    else:
        rows = sort_ops.sort(rows, rows.ndim - 1)
        low, high = (take_along(rows, v, rows.ndim - 1) for v in ranks)
    if method == "lower":
        return low
    if method == "higher":
        return high
    if method == "nearest":
        return where(share <= 0.5, low, high)
    if method == "midpoint":
        return (low + high) * 0.5
    low, high = (E.convert_element_type(v, qs.dtype) if v.dtype.itemsize < qs.dtype.itemsize else v for v in (low, high))
    share = E.convert_element_type(share, low.dtype)
    return low * (1 - share) + high * share


def _weighted(rows, weights, qs):
    """The first element at which the running share of weight reaches q; NaN where a weight is negative or NaN."""
    weights = ones_like(rows) if weights is None else weights
    rows, weights = sort_ops.sort((rows, weights), rows.ndim - 1, num_keys=1)
    bad, missing = (weights < 0) | U.isnan(weights), U.isnan(rows)
    running = cumsum(where(bad | missing, 0, weights), -1)
    target = running[..., -1:] * qs.astype(running.dtype)
    below = running[..., None, :] < target[..., :, None]
    valid = _sum(E.bitwise_not(missing), -1, dtype=np.int32, keepdims=True)
    at = U.maximum(U.minimum(_sum(below, -1, dtype=np.int32), valid - 1), 0)
    out = take_along(rows, at, rows.ndim - 1)
    return where(_any(bad, -1, keepdims=True) | (valid == 0), E.like(out, np.nan), out)


@eager(2)
def quantile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None):
    """The values below which shares q (a number in [0, 1], or a 1-D array of them) of the elements over `axis` lie; NaN if one is NaN.

    method: linear, lower, higher, midpoint, nearest, or inverted_cdf, which alone takes weights.

    >>> import fgrad.numpy as jnp
    >>> jnp.quantile(jnp.array([1., 2., 4.]), jnp.array([0.5, 0.75]))
    Array([2., 3.], dtype=float32)
    """
    return _quantile("quantile", a, q, axis, out, overwrite_input, method, keepdims, weights, False)


@eager(2)
def nanquantile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None):
    """As quantile, with NaN left out."""
    return _quantile("nanquantile", a, q, axis, out, overwrite_input, method, keepdims, weights, True)


@eager(2)
def percentile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None, out_sharding=None):
    """quantile with q in percent."""
    (q,) = _inexact("percentile", q)
    return quantile(a, q / 100, axis, out, overwrite_input, method, keepdims, weights=weights)


@eager(2)
def nanpercentile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None):
    """nanquantile with q in percent."""
    (q,) = _inexact("nanpercentile", q)
    return nanquantile(a, q / 100, axis, out, overwrite_input, method, keepdims, weights=weights)


@eager(1)
def median(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    """The middle value over axes, or the mean of the two middle ones; NaN if one element is."""
    return quantile(a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)


@eager(1)
def nanmedian(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    """As median, with NaN left out."""
    return nanquantile(a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)


# --- histograms ---------------------------------------------------------------------------------------------------------


def histogram_bin_edges(a, bins=10, range=None, weights=None):
    """The edges of `bins` bins of one width from a's least to its greatest value (or over `range`); given edges as they are.

    bins: a number, known while tracing, or a 1-D array of edges. NumPy's names of rules are not supported (NotImplementedError).
    """
    if isinstance(bins, str):
        raise NotImplementedError("string values for `bins` not implemented.")
    x = as_array("histogram_bin_edges", a)
    dtype = dtypes.to_inexact(x.dtype)
    if np.ndim(bins) == 1:
        return asarray(bins, dtype)
    if range is None:
        lo, hi = (x.min(), x.max()) if x.size else (array(0), array(1))
        range = [lo, hi]
    limits = asarray(range, dtype)
    if limits.shape != (2,):
        raise ValueError(f"`range` must be either None or a sequence of scalars, got {range}")
    flat = ptp(limits) == 0
    lo, hi = where(flat, limits[0] - 0.5, limits[0]), where(flat, limits[1] + 0.5, limits[1])
    return linspace(lo, hi, operator.index(bins) + 1, dtype=dtype)


def _sample(name, x, weights):
    if weights is None:
        (x,) = _inexact(name, x)
        return x, None
    x, weights = _inexact(name, x, weights)
    return x, weights


@eager(1)
def histogram(a, bins=10, range=None, weights=None, density=None):
    """(counts, edges): how many elements (or what sum of weights) each bin holds; the last bin includes its right edge.

    bins, range: as in histogram_bin_edges. density: divide by the total and the bins' widths.

    >>> import fgrad.numpy as jnp
    >>> jnp.histogram(jnp.array([1., 2., 2., 5.]), bins=2)
    (Array([3., 1.], dtype=float32), Array([1., 3., 5.], dtype=float32))
    """
    x, w = _sample("histogram", a, weights)
    if w is not None and w.shape != x.shape:
        raise ValueError("weights should have the same shape as a.")
    w = ones_like(x) if w is None else w
    edges = histogram_bin_edges(x, bins, range)
    at = where(x == edges[-1], edges.size - 1, searchsorted(edges, x, side="right"))
    counts = zeros(edges.size, w.dtype).at[at].add(w, wrap_negative_indices=False)[1:]
    return (counts / (edges[1:] - edges[:-1]) / counts.sum() if density else counts), edges


def histogramdd(sample, bins=10, range=None, weights=None, density=None):
    """(counts, list of edges) of points, the rows of sample (n, d), in a d-dimensional grid of bins.

    bins: a number for all dimensions, or one number or array of edges per dimension; range: None or one pair (or None) per dimension.
    """
    x, w = _sample("histogramdd", sample, weights)
    if x.ndim != 2:
        raise ValueError(f"histogramdd: sample must have shape (points, dimensions), got {x.shape}")
    n, d = x.shape
    if w is not None and w.shape != (n,):
        raise ValueError("should have one weight for each sample.")
    if range is not None and (len(range) != d or any(r is not None and np.shape(r)[0] != 2 for r in range)):
        raise ValueError(f"For sample.shape={(n, d)}, range must be a sequence of {d} pairs or Nones; got range={range!r}")
    per_axis = list(bins) if np.iterable(bins) else [bins] * d
    if len(per_axis) != d:
        raise ValueError("should be a bin for each dimension.")
    cell, sizes, all_edges = None, [], []
    for i, b in enumerate(per_axis):
        column = x[:, i]
        edges = histogram_bin_edges(column, b, None if range is None else range[i])
        at = searchsorted(edges, column, side="right")
        at = where(column == edges[-1], at - 1, at)
        cell = at if cell is None else cell * (edges.size + 1) + at
        sizes.append(edges.size + 1)
        all_edges.append(edges)
    counts = reshape(bincount(cell, w, length=math.prod(sizes)), tuple(sizes))[(slice(1, -1),) * d]
    if density:
        counts = counts.astype(x.dtype)
        counts = counts / counts.sum()
        for i, edges in enumerate(all_edges):
            width = edges[1:] - edges[:-1]
            counts = counts / reshape(width, tuple(width.size if j == i else 1 for j in builtins.range(d)))
    return counts, all_edges


def histogram2d(x, y, bins=10, range=None, weights=None, density=None):
    """(counts, x edges, y edges) of the points (x, y). bins: as in histogramdd, or one array of edges for both axes."""
    x, y = as_array("histogram2d", x), as_array("histogram2d", y, 1)
    if np.iterable(bins) and len(bins) not in (1, 2):
        bins = [asarray(bins)] * 2
    x, y = (as_array("histogram2d", v) for v in promoted("histogram2d", [x, y]))
    points = concatenate([expand_dims(x, (1,)), expand_dims(y, (1,))], 1)
    counts, edges = histogramdd(points, bins, range, weights, density)
    return counts, edges[0], edges[1]


@eager(2)
def digitize(x, bins, right=False, *, method=None):
    """The number of the bin of each element: how many of the monotonic edges `bins` lie before it (up to it unless `right`)."""
    x, b = as_array("digitize", x), as_array("digitize", bins, 1)
    if b.ndim != 1:
        raise ValueError(f"digitize: bins must be a 1-dimensional array; got bins={bins!r}")
    if not b.size:
        return zeros(x.shape, np.int32)
    side = "left" if right else "right"
    rising = b[-1] >= b[0]
    before = searchsorted(where(rising, b, b[::-1]), x, side)
    return where(rising, before, b.size - before)


def bincount(x, weights=None, minlength=0, *, length=None, out_sharding=None):
    """How often (or with what sum of weights) each of 0, 1, 2, ... occurs in the 1-D integer array x; negative values count as 0.

    The result has max(x) + 1 entries, at least minlength, which needs a concrete x; or `length` entries, larger values dropped.
    """
    x = as_array("bincount", x)
    if x.dtype is dtypes.BOOL:
        x = E.convert_element_type(x, np.int32)
    if x.dtype.kind not in "iu" and not dtypes.is_integer(x.dtype):
        raise TypeError(f"x argument to bincount must have an integer type; got {x.dtype.name}")
    if x.ndim != 1:
        raise ValueError("only 1-dimensional input supported.")
    if length is None:
        if weights is None and (out := masks.counts(x, operator.index(minlength))) is not None:
            return out
        if type(x) is Array and x.size and context.trace is eval_trace:
            greatest = max(0, int(x.max()))
        else:
            value = concrete("bincount", x, "The result's size depends on values: pass a static `length`.")
            greatest = max(0, int(value.max())) if value.size else -1
        length = max(operator.index(minlength), greatest + 1)
    if weights is None:
        return _counts(x, operator.index(length))
    w = as_array("bincount", weights, 1)
    if w.shape != x.shape:
        raise ValueError(f"shape of weights must match shape of x, got {w.shape} and {x.shape}")
    return _counted(x, w, operator.index(length))


@eager(1)
def _counts(x, length):
    return _counted(x, full(x.shape, 1, dtypes.int_dtype()), length)


@eager(2)
def _counted(x, w, length):
    return zeros(length, w.dtype).at[clip(x, 0)].add(w, mode="drop", wrap_negative_indices=False)


# --- covariance ---------------------------------------------------------------------------------------------------------


def _variables(name, x, rowvar):
    if x.ndim > 2:
        raise ValueError(f"{name} has more than 2 dimensions")
    rows = atleast_2d(x)
    return rows.T if not rowvar and x.ndim == 2 else rows


def _weights(name, w, n):
    w = as_array("cov", w)
    if w.ndim > 1:
        raise RuntimeError(f"cannot handle multidimensional {name}")
    if w.shape != (n,):
        raise RuntimeError(f"incompatible numbers of samples and {name}")
    return U.absolute(w)


@eager(1)
def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, dtype=None):
    """Covariance matrix of variables, the rows of m (columns with rowvar=False), and those of y.

    The divisor is n - ddof, by default n - 1 (n with bias). fweights: how often each observation counts (integers); aweights: its weight.
    """
    if dtype is not None and not dtypes.is_inexact(dtypes.canonicalize_dtype(dtype)):
        raise ValueError(f"cov: dtype must be a subclass of float or complex; got dtype={dtype!r}")
    parts = _inexact("cov", m) if y is None else _inexact("cov", m, y)
    axis = 0 if not rowvar and all(p.ndim == 2 for p in parts) else 1  # along which the observations lie, as they are given if they can
    sides = [_variables(name, p, rowvar or axis == 0) for name, p in zip("my", parts, strict=False)]
    x = concatenate(sides, 1 - axis) if len(sides) > 1 else sides[0]
    n, variables = x.shape[axis], x.shape[1 - axis]
    if not variables:
        return reshape(array([]), (0, 0))
    if not n:
        return full(() if variables == 1 else (variables,) * 2, np.nan, x.dtype)
    ddof = (0 if bias else 1) if ddof is None else ddof
    w = None
    if fweights is not None:
        w = _weights("fweights", fweights, n)
        if not dtypes.is_integer(w.dtype):
            raise TypeError("fweights must be integer.")
    if aweights is not None:
        aweights = _weights("aweights", aweights, n)
        w = aweights if w is None else w * aweights
    if dtype is not None:
        x, w = x.astype(dtype), w if w is None else w.astype(dtype)
    centre, total = average(x, axis, w, returned=True)
    if w is None:
        divisor = n - ddof
    elif aweights is None or ddof == 0:
        divisor = total[0] - ddof
    else:
        divisor = total[0] - ddof * _sum(w * aweights) / total[0]
    x = x - (centre if axis == 0 else centre[:, None])
    other = U.conj(x if w is None else x * (w[:, None] if axis == 0 else w))
    return U.true_divide(dot(x.T, other) if axis == 0 else dot(x, other.T), divisor).squeeze()


@eager(1)
def corrcoef(x, y=None, rowvar=True, dtype=None):
    """Correlation coefficients: cov scaled to ones on the diagonal, with parts limited to [-1, 1]."""
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    scale = U.sqrt(U.real(diag(c))).astype(c.dtype)
    c = c / scale[:, None] / scale[None, :]
    if c.dtype.kind == "c":
        return E.complex_(clip(U.real(c), -1, 1), clip(U.imag(c), -1, 1))
    return clip(c, -1, 1)
