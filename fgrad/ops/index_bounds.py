"""A mark of what indices must stay within, for checks of indices (experimental.checkify): programs leave it out."""

from fgrad.core import Primitive
from fgrad.ops.rules import bdim_at_front


def _jvp(primals, tangents, **params):
    index_bounds_p.bind(*primals, **params)
    return [], []


def _batch(axis, args, dims, **params):
    index_bounds_p.bind(*[bdim_at_front(x, d, axis.size) for x, d in zip(args, dims)], **params)
    return [], []


# indices: arrays of one shape, one for each of `axes` of an array of `shape`; each must be in 0 .. its limit
index_bounds_p = Primitive(
    "index_bounds",
    multiple_results=True,
    abstract_eval=lambda *indices, shape, axes, limits: [],
    impl=lambda *indices, shape, axes, limits: [],
    jvp=_jvp,
    batch=_batch,
    lower=lambda ctx, ins, params, out_avals: [],
    transpose=lambda cts, *indices, **params: [None] * len(indices),
)


def mark_boxes(shape, starts, sizes, dims, axis):
    """Mark where boxes of `sizes`, one for each example (axis 0 of `shape`), may start; `dims` are the batch dimensions of `starts`."""
    starts = [bdim_at_front(s, d, axis.size) for s, d in zip(starts, dims)]
    limits = tuple(n - k for n, k in zip(shape[1:], sizes))
    index_bounds_p.bind(*starts, shape=shape, axes=tuple(range(1, len(shape))), limits=limits)
