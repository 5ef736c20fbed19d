"""The primitives under the names that jax.lax gives them, for code that matches on equations."""

from fgrad.control.cond import cond_p
from fgrad.control.linear_solve import linear_solve_p
from fgrad.control.scan_rules import scan_p
from fgrad.control.while_loop import while_p
from fgrad.ops.argreduce import argmax_p, argmin_p
from fgrad.ops.collective import all_gather_p, axis_index_p, pmax_p, psum_p
from fgrad.ops.cumulative import cumlogsumexp_p, cummax_p, cummin_p, cumprod_p, cumsum_p
from fgrad.ops.dot import dot_general_p
from fgrad.ops.gather import gather_p, scatter_add_p, scatter_max_p, scatter_min_p, scatter_mul_p, scatter_p
from fgrad.ops.index import dynamic_slice_p, dynamic_update_slice_p
from fgrad.ops.reduce import reduce_and_p, reduce_max_p, reduce_min_p, reduce_or_p, reduce_prod_p, reduce_sum_p
from fgrad.ops.shape import broadcast_in_dim_p, concatenate_p, iota_p, pad_p, reshape_p, rev_p, slice_p, transpose_p
from fgrad.ops.sort import sort_p, top_k_p
from fgrad.transforms.remat import optimization_barrier_p

__all__ = [
    "all_gather_p",
    "argmax_p",
    "argmin_p",
    "axis_index_p",
    "broadcast_in_dim_p",
    "concatenate_p",
    "cond_p",
    "cumlogsumexp_p",
    "cummax_p",
    "cummin_p",
    "cumprod_p",
    "cumsum_p",
    "dot_general_p",
    "dynamic_slice_p",
    "dynamic_update_slice_p",
    "gather_p",
    "iota_p",
    "linear_solve_p",
    "optimization_barrier_p",
    "pad_p",
    "pmax_p",
    "psum_p",
    "reduce_and_p",
    "reduce_max_p",
    "reduce_min_p",
    "reduce_or_p",
    "reduce_prod_p",
    "reduce_sum_p",
    "reshape_p",
    "rev_p",
    "scan_p",
    "scatter_add_p",
    "scatter_max_p",
    "scatter_min_p",
    "scatter_mul_p",
    "scatter_p",
    "slice_p",
    "sort_p",
    "top_k_p",
    "transpose_p",
    "while_p",
]
