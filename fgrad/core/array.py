"""Array: the concrete value.  Operators and NumPy-style methods are added by fgrad.numpy.methods."""

import sys
import weakref
from typing import Any

import numpy as np

from fgrad import dtypes
from fgrad._kernels import array as _array
from fgrad._kernels import creation
from fgrad._kernels.masks import install_masks
from fgrad._kernels.operands import from_ndarray, get_aval, install_avals
from fgrad.core.aval import HasAval, ShapedArray
from fgrad.core.device import CPU
from fgrad.core.ir import Linear
from fgrad.core.sharding import SingleDeviceSharding
from fgrad.errors import NotDifferentiableError, UnexpectedTracerError

CODES = _array.CODES


class ArrayMeta(type):
    """isinstance(x, Array) holds for tracers too, so that type checks work under transformations."""

    def __instancecheck__(cls, x):
        return type.__instancecheck__(cls, x) or getattr(type(x), "_stands_for_array", False)

    def __call__(cls, *args, **kwargs):
        raise TypeError("fgrad.Array cannot be instantiated: make arrays with fgrad.numpy's functions, as array, zeros or empty")


class Shard:
    """The part of an array that is on one device: here the whole array."""

    device, replica_id = CPU, 0

    def __init__(self, data):
        self.data = data

    @property
    def index(self):
        return (slice(None),) * self.data.ndim

    def __repr__(self):
        return f"Shard(device={self.device!r}, index={self.index}, replica_id=0, data={self.data})"


class Array(_array.ArrayBase, HasAval, metaclass=ArrayMeta):
    """An immutable n-dimensional array in pooled, 64-byte-aligned memory, or a strided view of such memory or of NumPy's.

    Made by fgrad.numpy functions and by transformed functions, not by calling the class.

    >>> import fgrad.numpy as jnp
    >>> jnp.arange(6.).reshape(2, 3).T
    Array([[0., 3.],
           [1., 4.],
           [2., 5.]], dtype=float32)
    """

    __slots__ = ()
    __array_priority__ = 100
    _is_concrete = True

    @property
    def device(self):
        return CPU

    @property
    def sharding(self):
        """Where it is: on the one device, by the sharding that device_put or jit's out_shardings were given."""
        return _placed.get(id(self), (SingleDeviceSharding(), None))[0]

    def devices(self):
        """The set of the one device."""
        return {CPU}

    is_fully_addressable = is_fully_replicated = True

    @property
    def committed(self):
        """Whether somebody said where it is to be."""
        return id(self) in _placed

    @property
    def addressable_shards(self):
        """The one shard: all of it."""
        return [Shard(self)]

    global_shards = addressable_shards

    def addressable_data(self, index):
        """The data of shard `index`, which can only be 0."""
        return self.addressable_shards[index].data

    def platform(self):
        return CPU.platform

    def on_device_size_in_bytes(self):
        return self.nbytes

    def copy_to_host_async(self):
        """Nothing to do: there is one memory."""
        self.check_alive()

    def is_ready(self):
        """True: programs have run by the time their results exist."""
        self.check_alive()
        return True

    def is_deleted(self):
        return self.deleted

    def block_until_ready(self):
        """Return self: programs have run by the time their results exist."""
        self.check_alive()
        return self

    def __array__(self, dtype=None, copy=None):
        view = self.numpy_view()
        if dtype is not None and np.dtype(dtype) != view.dtype:
            if copy is False:
                raise ValueError(f"cannot view {view.dtype} as {np.dtype(dtype)} without a copy")
            return view.astype(dtype)
        return view.copy() if copy else view

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        view, narrow = self.numpy_view(), self.dtype == dtypes.BFLOAT16
        if narrow:
            view = view.view(np.uint16)
        if max_version is not None and max_version[0] >= 1:
            capsule = view.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)
        else:  # An unversioned capsule has no read-only flag: hand out a copy, so that immutability holds.
            capsule = view.copy().__dlpack__()
        if narrow:
            _array.recode_dlpack(capsule, 1, 4)
        return capsule

    def __dlpack_device__(self):
        return (1, 0)

    def item(self, *args):
        """The value as a Python scalar; args index an array of more than one element."""
        value = None if args else self.as_scalar()
        return self.numpy_view().item(*args) if value is None else value

    def tolist(self):
        return self.numpy_view().tolist()

    def tobytes(self, order="C"):
        return self.numpy_view().tobytes(order)

    def unsafe_buffer_pointer(self):
        """The address of the elements, valid while the array lives."""
        return self.numpy_view().__array_interface__["data"][0]

    def __format__(self, spec):
        return format(self.numpy_view()[()], spec) if spec else str(self)

    def __repr__(self):
        if self.deleted:
            return f"Array<deleted {self.aval}>"
        dtype = f"dtype={self.dtype.name}" + (", weak_type=True" if self.weak_type else "")
        x = self.numpy_view()
        if x.size == 0:
            return f"Array([], shape={self.shape}, {dtype})"
        body = np.array2string(x, separator=", ", prefix="Array(", suffix=",")
        used = len(body) - body.rfind("\n") + 1 + len(dtype) + 2  # JAX's rule, to the letter: outputs of its programs compare equal
        sep = " " * len("Array(") if used > np.get_printoptions()["linewidth"] else " "
        return f"Array({body},{sep}{dtype})"

    def __str__(self):
        return f"Array<deleted {self.aval}>" if self.deleted else str(self.numpy_view())

    def __reduce__(self):
        return _rebuild, (np.array(self.numpy_view()), self.weak_type)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


def _rebuild(x, weak_type):
    return from_numpy(x, weak_type=weak_type)


_array.set_array_class(Array)
_placed: dict = {}  # id of an array that was placed -> (its sharding, a reference that removes the entry when the array goes)


def place(x, sharding):
    """Note the sharding that an array was given."""
    key = id(x)
    _placed[key] = sharding, weakref.ref(x, lambda _: _placed.pop(key, None))


_SCALARS = (bool, int, float, complex)


def from_numpy(x: np.ndarray, dtype=None, weak_type=False, copy=True) -> Array:
    """An Array with x's values: copied, or a view of x's memory with copy=False where dtype and layout allow."""
    if dtype is None and not weak_type and type(x) is np.ndarray:
        out = from_ndarray(x, copy)
        if out is not None:
            return out
    dtype = dtypes.canonicalize_dtype(x.dtype if dtype is None else dtype)
    if dtype == dtypes.float0:
        raise TypeError("float0 values have no data and cannot become an Array")
    if x.dtype != dtype:
        if x.dtype.kind == "c" and dtype.kind != "c":
            x = x.real
        x = x.astype(dtype)
        copy = False
    return creation.from_numpy(x, ShapedArray(x.shape, dtype, weak_type), copy)


_scalar_cache: dict = {}


def from_scalar(x, dtype=None, weak_type=True) -> Array:
    """A rank-0 Array of a Python scalar (weakly typed unless a dtype is given). Small cache: scalars repeat."""
    t = type(x)
    if dtype is None:
        dtype = dtypes.scalar_dtype(x)
        weak_type = weak_type and t is not bool
    key = (t, x, dtype, weak_type)
    cached = (t is float and x and x == x) or t is int or t is bool  # 0.0 and -0.0, also as parts, are one dictionary key
    out = _scalar_cache.get(key) if cached else None
    if out is None:
        if x and t is int and dtypes.is_integer(dtype) and not (limits := dtypes.iinfo(dtype)).min <= x <= limits.max:
            raise OverflowError(
                f"An overflow was encountered while parsing an argument: {x} does not fit {dtype}; "
                "enable 64-bit types (enable_x64) or use a float"
            )
        out = creation.from_numpy(np.asarray(x, dtype), ShapedArray((), dtype, weak_type), True)
        if cached:
            out.mark_kept()
            if len(_scalar_cache) > 4096:
                _scalar_cache.clear()
            _scalar_cache[key] = out
    return out


def unmasked(x):
    """A NumPy array or scalar, as it is. Raises ValueError for masked arrays, whose mask would be lost."""
    masked = sys.modules.get("numpy.ma")  # np.ma would import it, in the first call on an array
    if masked is not None and isinstance(x, masked.MaskedArray):
        raise ValueError("numpy masked arrays are not supported as inputs: use x.filled() for an array without a mask")
    return x


def _canonical(x):
    return np.asarray(x, dtypes.canonicalize_dtype(x.dtype))


def _foreign_shape(x) -> ShapedArray:
    return ShapedArray(unmasked(x).shape, dtypes.canonicalize_dtype(x.dtype))


def _scalar_shape(kind: Any):
    return lambda x: ShapedArray((), dtypes.scalar_dtype(x if type(x) is kind else kind(x)), kind is not bool)


# What leaves that are neither arrays nor tracers are, by their types: the abstract value of one, and the NumPy array or Array it is.
# Types of one's own are added here: `jax.core.pytype_aval_mappings` and `jax.interpreters.xla.canonicalize_dtype_handlers`.
pytype_aval_mappings: dict[type, Any] = {np.ndarray: _foreign_shape, np.generic: _foreign_shape}
pytype_aval_mappings.update((kind, _scalar_shape(kind)) for kind in _SCALARS)
canonicalize_dtype_handlers: dict[type, Any] = {np.ndarray: _canonical, np.generic: _canonical, **{kind: kind for kind in _SCALARS}}


def _by_type(table, x):
    return next((table[kind] for kind in type(x).__mro__ if kind in table), None)


def stands_for(x):
    """The number, NumPy array or Array that a value stands for, by its type's or a base's of `canonicalize_dtype_handlers`; else None."""
    handler = _by_type(canonicalize_dtype_handlers, x)
    return None if handler is None else handler(x)


def to_array(x) -> Array:
    """Any concrete array-like leaf (Array, NumPy array or scalar, Python scalar) as an Array."""
    if type(x) is Array:
        return x
    if type(x) in _SCALARS:
        return from_scalar(x)
    if isinstance(x, (np.ndarray, np.generic)):
        return from_numpy(np.asarray(unmasked(x)))
    if hasattr(type(x), "_origin"):
        raise UnexpectedTracerError(leak_message(x))
    if hasattr(x, "__jax_array__"):
        return to_array(x.__jax_array__())
    if (value := stands_for(x)) is not None:
        return to_array(value)
    if isinstance(x, Linear):
        raise NotDifferentiableError("the function to transpose is not linear: it needs the value of an argument, as x * x does")
    raise TypeError(f"Argument {x!r:.80} of type {type(x)} is not a valid JAX type; it is not a valid array type")


def _foreign_aval(x) -> ShapedArray:
    """The abstract value of a leaf that is neither Array nor tracer."""
    if (rule := _by_type(pytype_aval_mappings, x)) is not None:
        return rule(x)
    if hasattr(x, "__jax_array__"):
        return get_aval(x.__jax_array__())
    raise TypeError(f"Value {x!r:.80} with type {type(x)} is not a valid JAX type: expected an array, a NumPy array or a number")


install_avals(Array, ShapedArray, _foreign_aval, to_array)
creation.install_shaped(ShapedArray)
install_masks(ShapedArray)


def leak_message(tracer):
    origin = tracer._origin()
    return (
        "Encountered an unexpected tracer. A function transformed by JAX had a side effect, allowing for a reference to an intermediate "
        f"value with type {tracer.aval.dtype}[{','.join(map(str, tracer.aval.shape))}] to escape the scope of the transformation: "
        f"{tracer._describe()}{origin}{',' if origin else ''} was used outside the transformation that made it, so it "
        "has no value here. Return it from the transformed function instead of storing it in a global, a list or an attribute."
    )
