"""Types for annotations."""

from typing import Any

import numpy as np

from fgrad.core import Array

ArrayLike = Array | np.ndarray | np.generic | bool | int | float | complex
DTypeLike = str | type[Any] | np.dtype

__all__ = ["ArrayLike", "DTypeLike"]
