"""What the array API standard asks of a namespace besides functions: its version and what it can do."""

import sys

import numpy as np

from fgrad import dtypes
from fgrad.config import config
from fgrad.core.device import CPU

__array_api_version__ = "2024.12"
_KINDS = {
    "bool": "bool",
    "signed integer": "int8 int16 int32 int64",
    "unsigned integer": "uint8 uint16 uint32 uint64",
    "real floating": "float32 float64",
    "complex floating": "complex64 complex128",
}
_KINDS["integral"] = f"{_KINDS['signed integer']} {_KINDS['unsigned integer']}"
_KINDS["numeric"] = f"{_KINDS['integral']} {_KINDS['real floating']} {_KINDS['complex floating']}"


def namespace_of(self, *, api_version=None):
    """The module of array functions. Raises ValueError for a version of the standard other than __array_api_version__."""
    if api_version not in (None, __array_api_version__):
        raise ValueError(f"array API version {api_version!r} is not available; available is {__array_api_version__!r}")
    return sys.modules["fgrad.numpy"]


def __array_namespace_info__():
    """What the namespace can do: capabilities(), default_device(), default_dtypes(), devices() and dtypes(kind=).

    >>> import fgrad.numpy as jnp
    >>> sorted(jnp.__array_namespace_info__().dtypes(kind="real floating"))
    ['float32']
    """
    return _Info()


class _Info:
    def capabilities(self):
        """Boolean masks and sizes that depend on data work outside of transformations."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self):
        """None: arrays are not tied to a device."""
        return None

    def devices(self):
        """What device= takes."""
        return [None, CPU]

    def default_dtypes(self, *, device=None):
        """The dtypes that Python's numbers and positions have."""
        real = dtypes.float_dtype()
        integer = dtypes.int_dtype()
        return {"real floating": real, "complex floating": np.result_type(real, np.complex64), "integral": integer, "indexing": integer}

    def dtypes(self, *, device=None, kind=None):
        """name -> dtype for a kind, several kinds (a tuple) or all; those of 64 bits with x64 only. Raises KeyError for an unknown kind."""
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        given = [np.dtype(name) for k in kinds for name in _KINDS[k].split()]
        return {d.name: d for d in given if config.enable_x64 or dtypes.canonicalize_dtype(d) == d}


__all__ = ["__array_api_version__", "__array_namespace_info__", "namespace_of"]
