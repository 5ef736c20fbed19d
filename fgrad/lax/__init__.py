"""The jax.lax surface: primitives' functions, which do not promote or broadcast (rank-0 operands apart), and stop_gradient."""

from fgrad import tree
from fgrad.control.cond import cond, switch
from fgrad.control.linear_solve import custom_linear_solve, custom_root
from fgrad.control.loops import map, scan
from fgrad.control.while_loop import fori_loop, while_loop
from fgrad.core import get_aval
from fgrad.dtypes import is_inexact
from fgrad.lax.collectives import *  # noqa: F403
from fgrad.lax.indexing import *  # noqa: F403
from fgrad.lax.misc import *  # noqa: F403
from fgrad.lax.primitives import *  # noqa: F403
from fgrad.lax.reductions import *  # noqa: F403
from fgrad.lax.shapes import *  # noqa: F403
from fgrad.ops.argreduce import argmax, argmin
from fgrad.ops.cumulative import cumlogsumexp, cummax, cummin, cumprod, cumsum
from fgrad.ops.elementwise import *  # noqa: F403
from fgrad.ops.elementwise import complex_ as complex
from fgrad.ops.index import (
    dynamic_index_in_dim,
    dynamic_slice,
    dynamic_slice_in_dim,
    dynamic_update_index_in_dim,
    dynamic_update_slice,
    dynamic_update_slice_in_dim,
)
from fgrad.ops.reduce import reduce_max, reduce_min, reduce_prod, reduce_sum
from fgrad.ops.rules import Zero
from fgrad.ops.shape import (
    broadcast,
    broadcast_in_dim,
    broadcasted_iota,
    concatenate,
    expand_dims,
    index_in_dim,
    iota,
    pad,
    reshape,
    rev,
    slice,
    slice_in_dim,
    split,
    squeeze,
    transpose,
)
from fgrad.ops.sort import sort, sort_key_val, top_k
from fgrad.transforms.custom import custom_jvp_call


def _stop(x):
    """A leaf without derivatives of any order: its rule stops the derivatives of the primal that it returns, too."""
    if not hasattr(x, "aval") or not is_inexact(x.dtype):
        return x
    return custom_jvp_call(lambda v: [v], lambda p, t: ([_stop(p[0])], [Zero(get_aval(p[0]).tangent_aval())]), [x], "stop_gradient")[0]


def stop_gradient(x):
    """x, seen by differentiation as a constant.

    >>> import fgrad
    >>> float(fgrad.grad(lambda x: x * fgrad.lax.stop_gradient(x))(3.0))
    3.0
    """
    return tree.map(_stop, x)
