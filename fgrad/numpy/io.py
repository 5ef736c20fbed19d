"""Arrays from and to files, buffers, iterables and other libraries, and their printed form."""

import numpy as np

from fgrad import dtypes
from fgrad._kernels.array import recode_dlpack
from fgrad.core import Array, Tracer, from_numpy
from fgrad.numpy.creation import array
from fgrad.numpy.util import as_array, user_dtype

__all__ = [
    "from_dlpack", "frombuffer", "fromfile", "fromiter", "fromstring", "save", "savez", "load",
    "array_repr", "array_str", "get_printoptions", "set_printoptions", "printoptions",
]  # fmt: skip

get_printoptions, set_printoptions, printoptions, savez = np.get_printoptions, np.set_printoptions, np.printoptions, np.savez


class _Exporter:
    """What NumPy imports in place of x: bfloat16, which it does not know, as integers."""

    narrow = False

    def __init__(self, x):
        self._x = x
        self.__dlpack_device__ = x.__dlpack_device__

    def __dlpack__(self, **options):
        capsule = self._x.__dlpack__(**options)
        self.narrow = recode_dlpack(capsule, 4, 1)
        return capsule


def from_dlpack(x, /, *, device=None, copy=None):
    """An array that shares the memory of x, an object with __dlpack__ on the CPU (NumPy's or torch's arrays, for example).

    The other library must not write to that memory any more. copy=True copies; copy=False raises ValueError where sharing is impossible.
    Raises TypeError where x has no __dlpack__, BufferError where the memory is not the CPU's.
    """
    if isinstance(x, Tracer) or not hasattr(x, "__dlpack__"):
        raise TypeError(
            "from_dlpack takes an array object with __dlpack__ and __dlpack_device__ methods, "
            f"got {type(x).__name__} (capsules are not supported)"
        )
    if x.__dlpack_device__()[0] != 1:
        raise BufferError(f"from_dlpack: only CPU memory can be imported, got device {x.__dlpack_device__()}")
    if type(x) is Array:
        return array(x, copy=bool(copy))
    source = _Exporter(x)
    view = np.from_dlpack(source)
    if source.narrow:
        view = view.view(dtypes.BFLOAT16)
    dtype = dtypes.canonicalize_dtype(view.dtype)
    if dtype != view.dtype and copy is False:
        raise ValueError(f"from_dlpack: {view.dtype.name} becomes {dtype.name} unless 64-bit types are enabled, which takes a copy")
    return from_numpy(view, copy=bool(copy))


def frombuffer(buffer, dtype=float, count=-1, offset=0):
    """A 1-D array of `count` elements (-1: all) of a bytes-like object, from byte `offset` on; dtype is that of
    the bytes, so float (the default) takes eight of them for each element."""
    return array(np.frombuffer(buffer, np.dtype(dtype), count, offset))


def fromfile(*args, **kwargs):
    """NotImplementedError: reading a file is a side effect; use array(numpy.fromfile(...))."""
    raise NotImplementedError("fromfile is not implemented: it reads a file, which a pure function cannot; use array(numpy.fromfile(...))")


def fromiter(*args, **kwargs):
    """NotImplementedError: consuming an iterator is a side effect; use array(numpy.fromiter(...))."""
    raise NotImplementedError("fromiter is not implemented: it consumes an iterator, a side effect; use array(numpy.fromiter(...))")


def fromstring(string, dtype=float, count=-1, *, sep):
    """A 1-D array of the numbers in a text, separated by `sep`."""
    return array(np.fromstring(string, user_dtype(dtype), count, sep=sep))


def save(file, arr, allow_pickle=True):
    """An array written to a .npy file; bfloat16 as raw two-byte elements, which load reads back."""
    return np.save(file, np.asarray(arr), allow_pickle=allow_pickle)


def load(file, *args, **kwargs):
    """What save or savez wrote: an array, or NumPy's archive object of an .npz file."""
    out = np.load(file, *args, **kwargs)
    if isinstance(out, np.ndarray):
        if out.dtype == "V2":
            out = out.view(dtypes.bfloat16)
        out = array(out)
    return out


def array_repr(arr, max_line_width=None, precision=None, suppress_small=None):
    """The text by which repr shows an array."""
    with np.printoptions(**_options(max_line_width, precision, suppress_small)):
        return repr(as_array("array_repr", arr))


def array_str(a, max_line_width=None, precision=None, suppress_small=None):
    """The text by which str shows an array."""
    with np.printoptions(**_options(max_line_width, precision, suppress_small)):
        return str(as_array("array_str", a))


def _options(max_line_width, precision, suppress_small):
    given = {"linewidth": max_line_width, "precision": precision, "suppress": suppress_small}
    return {k: v for k, v in given.items() if v is not None}
