"""Operators and methods of Array and of tracers."""

import numpy as np

from fgrad import dtypes
from fgrad._kernels.array import set_operators
from fgrad.compile.eager import eager
from fgrad.core import Array, Tracer
from fgrad.core.binding import operator_of
from fgrad.numpy import edit, indexing, manipulation, products, reductions, selection, sorting, updates
from fgrad.numpy import ufuncs as U
from fgrad.numpy.creation import astype
from fgrad.numpy.creation import copy as _copy
from fgrad.numpy.namespace import namespace_of
from fgrad.ops.casts import bitcast_convert_type
from fgrad.ops.elementwise import complex_ as lax_complex
from fgrad.ops.elementwise import div_p

_OPERANDS = (float, int, bool, Tracer, Array, np.ndarray, np.generic, complex)


_REFUSED = (list, tuple, set, dict)  # comparing with them would be False, whatever they hold


def _binary(fun):
    def op(self, other):
        if isinstance(other, _REFUSED):
            raise TypeError(f"unsupported operand type(s) for {fun.__name__}: {type(self).__name__!r} and {type(other).__name__!r}")
        if not isinstance(other, _OPERANDS) and not hasattr(other, "__jax_array__"):
            return NotImplemented
        return fun(self, other)

    return op


def _reflected(fun):
    def op(self, other):
        if not isinstance(other, _OPERANDS) and not hasattr(other, "__jax_array__"):
            return NotImplemented
        return fun(other, self)

    return op


def _setitem(self, i, x):
    raise TypeError(
        f"'{type(self).__name__}' object does not support item assignment. JAX arrays are immutable and do not support in-place item "
        "assignment. Instead of x[idx] = y, use x = x.at[idx].set(y) or another .at[] method."
    )


@eager(1)
def _reshape(self, *shape, order="C"):
    shape = shape[0] if len(shape) == 1 else shape
    return manipulation.reshape(self, shape) if order == "C" else manipulation.reshape(self, shape, order)


@eager(1)
def _transpose(self, *axes):
    return manipulation.transpose(self, (axes[0] if len(axes) == 1 and (axes[0] is None or np.iterable(axes[0])) else axes) or None)


def _round(self, ndigits=None):
    """round(x): an integer without `ndigits`, as Python's."""
    rounded = selection.round(self, ndigits or 0)
    return rounded if ndigits is not None or rounded.dtype.kind == "c" else astype(rounded, int)


def _view(self, dtype=None, type=None):
    """The same bytes read as another dtype: the last axis is as much shorter or longer as the items are wider or narrower."""
    if type is not None:
        raise NotImplementedError("view: there is one type of arrays; `type` must be None")
    if dtype is None or (dtype := dtypes.canonicalize_dtype(dtype)) == self.dtype:
        return self
    old, new = self.dtype.itemsize, dtype.itemsize
    if self.ndim == 0:
        if old != new:
            raise ValueError("view() of a 0d array is only supported if the itemsize is unchanged.")
        return _view(manipulation.expand_dims(self, 0), dtype)[0]
    if new > old and self.shape[-1] % (new // old):
        raise ValueError(
            f"view of {self.dtype.name} as {dtype.name}: when changing to a larger dtype, its size must be a divisor of the total size in "
            f"bytes of the last axis of the array, got shape {self.shape}"
        )
    if dtypes.BOOL in (self.dtype, dtype):  # a bool is a byte that is 0 or 1
        return astype(_view(self, np.uint8), bool) if dtype == dtypes.BOOL else _view(astype(self, np.uint8), dtype)
    if self.dtype.kind == "c":
        pairs = manipulation.stack([U.real(self), U.imag(self)], -1)
        return _view(manipulation.reshape(pairs, (*self.shape[:-1], 2 * self.shape[-1])), dtype)
    if dtype.kind == "c":
        parts = _view(self, np.float32 if new == 8 else np.float64)
        return lax_complex(parts[..., ::2], parts[..., 1::2])
    if new > old:
        self = manipulation.reshape(self, (*self.shape[:-1], -1, new // old))
    out = bitcast_convert_type(self, dtype)
    return manipulation.reshape(out, (*out.shape[:-2], out.shape[-2] * out.shape[-1])) if new < old else out


def _byteswap(self):
    """The bytes of every item in reverse order."""
    if self.dtype.kind == "c":
        return lax_complex(_byteswap(U.real(self)), _byteswap(U.imag(self)))
    if self.dtype.itemsize == 1:
        return self
    return bitcast_convert_type(manipulation.flip(bitcast_convert_type(self, np.uint8), -1), self.dtype)


def _contains(self, x):
    return bool(reductions.any(U.equal(self, x)))


def _flat(self):
    raise NotImplementedError("arrays do not implement the arr.flat property: use arr.ravel(), or np.asarray(arr).flat")


def _to_device(self, device, *, stream=None):
    """self: there is one device, the CPU."""
    if getattr(device, "platform", device) != "cpu":
        raise ValueError(f"unknown device {device!r}: arrays live on 'cpu'")
    return self


_BINARY = {
    "add": U.add,
    "sub": U.subtract,
    "mul": U.multiply,
    "truediv": U.true_divide,
    "floordiv": U.floor_divide,
    "mod": U.remainder,
    "pow": U.power,
    "matmul": products.matmul,
    "and": U.bitwise_and,
    "or": U.bitwise_or,
    "xor": U.bitwise_xor,
    "lshift": U.left_shift,
    "rshift": U.right_shift,
    "divmod": U.divmod,
}
_COMPARE = {"eq": U.equal, "ne": U.not_equal, "lt": U.less, "le": U.less_equal, "gt": U.greater, "ge": U.greater_equal}
_UNARY = {"__neg__": U.negative, "__pos__": U.positive, "__abs__": U.absolute, "__invert__": U.bitwise_not}
_METHODS = {
    "__round__": _round,
    "__setitem__": _setitem,
    "__iter__": indexing.iterate,
    "reshape": _reshape,
    "transpose": _transpose,
    "ravel": manipulation.ravel,
    "flatten": manipulation.ravel,
    "swapaxes": manipulation.swapaxes,
    "squeeze": manipulation.squeeze,
    "repeat": edit.repeat,
    "diagonal": manipulation.diagonal,
    "trace": manipulation.trace,
    "astype": astype,
    "view": _view,
    "byteswap": _byteswap,
    "copy": _copy,
    "dot": products.dot,
    "conj": U.conjugate,
    "conjugate": U.conjugate,
    "clip": selection.clip,
    "round": selection.round,
    "take": indexing.take,
    "compress": lambda self, condition, axis=None, *, out=None, size=None, fill_value=0: edit.compress(
        condition, self, axis, size=size, fill_value=fill_value, out=out
    ),
    "choose": edit.choose,
    "__array_namespace__": namespace_of,
    "to_device": _to_device,
    "nonzero": selection.nonzero,
    "__contains__": _contains,
    **{n: getattr(sorting, n) for n in ("sort", "argsort", "argpartition", "searchsorted")},
    **{
        n: getattr(reductions, n)
        for n in ("sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "ptp", "cumsum", "cumprod", "argmax", "argmin")
    },
}
_PROPERTIES = {
    "T": manipulation.transpose,
    "mT": manipulation.matrix_transpose,
    "at": updates.updates_of,
    "real": U.real,
    "imag": U.imag,
    "flat": _flat,
}


def _operators():
    """name -> function, for the operators that both kinds of arrays have."""
    out = {f"__{name}__": _binary(fun) for name, fun in (_BINARY | _COMPARE).items()}
    out |= {f"__r{name}__": _reflected(fun) for name, fun in _BINARY.items()}
    return out | _UNARY


def _install():
    operators = _operators()
    for name, fun in operators.items():
        setattr(Tracer, name, fun)
    for name, fun in _BINARY.items():
        quotient = name == "truediv"
        if (prim := div_p if quotient else getattr(fun, "primitive", None)) is not None:
            for method, reflected in ((f"__{name}__", False), (f"__r{name}__", True)):
                setattr(Tracer, method, operator_of(prim, operators[method], inexact=quotient, reflected=reflected))
    fast = {name: eager(1 if name in _UNARY else 2)(fun) for name, fun in operators.items() if name != "__rpow__"}
    fast["__getitem__"] = indexing.index
    Tracer.__getitem__ = indexing.traced_index
    fast["pow_static"], fast["__rpow__"] = eager(1)(operators["__pow__"]), operators["__rpow__"]  # x ** 2 is a multiplication
    set_operators(fast)
    for cls in (Array, Tracer):
        for name, fun in _METHODS.items():
            setattr(cls, name, fun)
        for name, fun in _PROPERTIES.items():
            setattr(cls, name, property(fun))


_install()
