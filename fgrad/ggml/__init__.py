"""ggml's operations (github.com/ggml-org/ggml) under their names, with its argument order and semantics, over fgrad's primitives.

Every op that has a derivative is differentiable, to any order, and all run under jit and vmap. Arrays are ordinary row-major arrays:
ggml lists sizes from the fastest dimension, so its ne is the shape reversed, ne0 the last axis and a "row" runs along the last axis;
the shapes in the docstrings here are row-major. What ggml calls dimension i is axis -1 - i. Sizes, strides and offsets that are
arguments keep ggml's order and units: ne0 first, bytes of a contiguous array. The context argument is left out, in-place variants and
enums too (their values are constants of this module, such as SORT_ORDER_ASC). Leading axes of size 1 need not be there.

docs/ggml.md lists all ops with what has a derivative here and in ggml.

>>> import fgrad, fgrad.numpy as jnp
>>> from fgrad import ggml
>>> w, x = jnp.ones((3, 2)), jnp.ones((4, 2))
>>> fgrad.grad(lambda w: ggml.sum(ggml.silu(ggml.mul_mat(w, x))))(w).shape
(3, 2)
"""

from fgrad.ggml.attention import *  # noqa: F403
from fgrad.ggml.binary import *  # noqa: F403
from fgrad.ggml.conv import *  # noqa: F403
from fgrad.ggml.custom import *  # noqa: F403
from fgrad.ggml.glu import *  # noqa: F403
from fgrad.ggml.loss import *  # noqa: F403
from fgrad.ggml.matmul import *  # noqa: F403
from fgrad.ggml.movement import *  # noqa: F403
from fgrad.ggml.norm import *  # noqa: F403
from fgrad.ggml.pool import *  # noqa: F403
from fgrad.ggml.recurrent import *  # noqa: F403
from fgrad.ggml.unary import *  # noqa: F403
