"""A mark of what an index must stay within, for checks of indices (experimental.checkify): programs leave it out."""

from fgrad.core import Primitive


def _jvp(primals, tangents, **params):
    index_bounds_p.bind(*primals, **params)
    return [], []


def _batch(axis, args, dims, **params):
    index_bounds_p.bind(*args, **params)
    return [], []


index_bounds_p = Primitive(
    "index_bounds",
    multiple_results=True,
    abstract_eval=lambda index, *, shape, dim: [],
    impl=lambda index, *, shape, dim: [],
    jvp=_jvp,
    batch=_batch,
    lower=lambda ctx, ins, params, out_avals: [],
    transpose=lambda cts, index, **params: [None],
)
