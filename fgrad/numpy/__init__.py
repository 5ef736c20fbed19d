"""The jax.numpy surface."""

import numpy as _np
from numpy.exceptions import ComplexWarning

from fgrad.core import Array as ndarray
from fgrad.dtypes import finfo, iinfo, promote_types
from fgrad.numpy import fft, linalg
from fgrad.numpy import methods as _methods
from fgrad.numpy.arithmetic import *
from fgrad.numpy.calculus import *
from fgrad.numpy.creation import *
from fgrad.numpy.edit import *
from fgrad.numpy.floats import *
from fgrad.numpy.functional import *
from fgrad.numpy.functional import UFUNCS as _UFUNCS
from fgrad.numpy.grids import *
from fgrad.numpy.indexing import take, take_along_axis
from fgrad.numpy.io import *
from fgrad.numpy.logic import *
from fgrad.numpy.manipulation import *
from fgrad.numpy.namespace import __array_api_version__, __array_namespace_info__
from fgrad.numpy.nan import *
from fgrad.numpy.padding import *
from fgrad.numpy.polynomial import *
from fgrad.numpy.products import *
from fgrad.numpy.reductions import *
from fgrad.numpy.scalars import *
from fgrad.numpy.selection import *
from fgrad.numpy.sets import *
from fgrad.numpy.sorting import *
from fgrad.numpy.statistics import *
from fgrad.numpy.transcendental import *
from fgrad.numpy.util import promote_dtypes_inexact

globals().update(_UFUNCS)
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
character, flexible, object_ = _np.character, _np.flexible, _np.object_
del _methods
