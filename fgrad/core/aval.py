"""Abstract values: what tracing knows of an array."""

import math

import numpy as np

from fgrad import dtypes
from fgrad.core.ir import AvalBase
from fgrad.core.sharding import AbstractMesh, NamedSharding, PartitionSpec
from fgrad.dtypes import SHORT_NAMES, float0

_interned: dict = {}
_NO_MESH = AbstractMesh((), ())


class AbstractValue:
    """Base of what tracing knows of values."""

    __slots__ = ()
    shape: tuple
    dtype: object
    weak_type: bool

    @property
    def ndim(self):
        return len(self.shape)

    def update(self, *, shape=None, dtype=None, weak_type=None, sharding=None):
        return ShapedArray(
            self.shape if shape is None else shape,
            self.dtype if dtype is None else dtype,
            self.weak_type if weak_type is None else weak_type,
        )

    @property
    def sharding(self):
        """Over no mesh: None for each dimension."""
        return NamedSharding(_NO_MESH, PartitionSpec(*[None] * len(self.shape)))


class OverlayType:
    """Base of dtypes beyond NumPy's, whose arrays are kept as words."""

    def aval(self, shape):
        """The OverlayAval of an array of this shape."""
        raise NotImplementedError


class OverlayAval(AbstractValue):
    """An array of a dtype beyond NumPy's: `words` is the ShapedArray of its words, whose last axis is each element's."""

    __slots__ = ("shape", "dtype", "words")
    weak_type = False

    def __init__(self, shape, dtype, words):
        self.shape, self.dtype, self.words = shape, dtype, words

    def __eq__(self, other):
        return type(other) is OverlayAval and (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self):
        return hash((self.shape, self.dtype))

    size = property(lambda self: math.prod(self.shape))

    def str_short(self, short_dtypes=False):
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    def __str__(self):
        return self.str_short()

    def __repr__(self):
        return f"ShapedArray({self})"


class ShapedArray(AvalBase, AbstractValue):
    """Shape, dtype and weak type.  Instances are shared: equal ones are nearly always the same object.

    `sharding` is checked by nobody and not kept: there is one device.

    >>> import fgrad
    >>> fgrad.core.ShapedArray((2, 3), "float32")
    ShapedArray(float32[2,3])
    """

    __slots__ = ()

    def __new__(cls, shape, dtype, weak_type=False, *, sharding=None):
        key = (shape, dtype, weak_type)
        try:
            return _interned[key]
        except (KeyError, TypeError):
            pass
        shape = tuple(int(d) for d in shape)
        if isinstance(dtype, OverlayType):
            return dtype.aval(shape)
        dtype = np.dtype(dtype)
        if dtype in dtypes.NARROW:
            dtypes.narrow_seen.add(dtype)
        self = AvalBase.__new__(cls)
        self.set_fields(shape, dtype, bool(weak_type))
        if len(_interned) > 100_000:
            _interned.clear()
        return _interned.setdefault((shape, dtype, self.weak_type), self)

    def __reduce__(self):
        return ShapedArray, (self.shape, self.dtype, self.weak_type)

    def strong(self):
        return ShapedArray(self.shape, self.dtype) if self.weak_type else self

    def str_short(self, short_dtypes=False):
        return self.short() if short_dtypes else str(self).lstrip("~")

    def short(self):
        return f"{SHORT_NAMES.get(self.dtype, self.dtype.name)}[{','.join(map(str, self.shape))}]"

    def __str__(self):
        return (
            "~" if self.weak_type else ""
        ) + f"{self.dtype.name if self.dtype != float0 else 'float0'}[{','.join(map(str, self.shape))}]"

    def __repr__(self):
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({str(self).lstrip('~')}{weak})"

    def tangent_aval(self):
        """Tangents of inexact arrays have their dtype; of all others float0."""
        return self.strong() if dtypes.is_inexact(self.dtype) else ShapedArray(self.shape, float0)

    to_tangent_aval = to_ct_aval = at_least_vspace = tangent_aval  # JAX's names: one device has one kind of both


class HasAval:
    """What arrays and tracers read off their aval."""

    __slots__ = ()
    aval: ShapedArray

    @property
    def shape(self):
        return self.aval.shape

    @property
    def dtype(self):
        return self.aval.dtype

    @property
    def weak_type(self):
        return self.aval.weak_type

    @property
    def ndim(self):
        return len(self.aval.shape)

    @property
    def itemsize(self):
        return self.aval.dtype.itemsize

    @property
    def nbytes(self):
        return self.aval.size * self.aval.dtype.itemsize


def typematch(a: ShapedArray, b: ShapedArray) -> bool:
    """Equal up to weak type."""
    return a is b or (a.shape == b.shape and a.dtype == b.dtype)
