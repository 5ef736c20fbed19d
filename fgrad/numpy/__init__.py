"""The jax.numpy surface."""

import numpy as _np

from fgrad.core import Array as ndarray
from fgrad.dtypes import finfo, iinfo, issubdtype, promote_types
from fgrad.numpy import methods as _methods
from fgrad.numpy.creation import *  # noqa: F403
from fgrad.numpy.indexing import take, take_along_axis
from fgrad.numpy.manipulation import *  # noqa: F403
from fgrad.numpy.products import cross, dot, einsum, inner, kron, matmul, outer, tensordot, vdot
from fgrad.numpy.reductions import *  # noqa: F403
from fgrad.numpy.scalars import (
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    result_type,
    uint8,
    uint16,
    uint32,
    uint64,
)
from fgrad.numpy.ufuncs import *  # noqa: F403
from fgrad.numpy.util import promote_dtypes_inexact

pi, e, inf, nan, euler_gamma, newaxis = _np.pi, _np.e, _np.inf, _np.nan, _np.euler_gamma, None
integer, floating, inexact, number, complexfloating, generic = (
    _np.integer,
    _np.floating,
    _np.inexact,
    _np.number,
    _np.complexfloating,
    _np.generic,
)
signedinteger, unsignedinteger, dtype = _np.signedinteger, _np.unsignedinteger, _np.dtype
del _methods
