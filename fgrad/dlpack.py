"""Arrays shared with other libraries through DLPack, without a copy."""

import numpy as np

from fgrad import dtypes
from fgrad.numpy.io import from_dlpack


def is_supported_dtype(dtype):
    """Whether arrays of this dtype go through DLPack: NumPy's numbers and booleans do, and bfloat16."""
    dtype = np.dtype(dtype)
    return dtype == dtypes.BFLOAT16 or (dtype.kind in "biufc" and dtype.isbuiltin == 1)


__all__ = ["from_dlpack", "is_supported_dtype"]
