"""Meshes and shardings over the one device: programs written for several run where every axis of the mesh has size 1."""

import enum
from collections import OrderedDict

import numpy as np

from fgrad.core.device import CPU


class AxisType(enum.Enum):
    """How a mesh axis is handled in JAX; on one device they do not differ."""

    Auto = "auto"
    Explicit = "explicit"
    Manual = "manual"


class _Unconstrained:
    """Of a dimension that may be split in any way."""

    def __repr__(self):
        return "UNCONSTRAINED"

    def __reduce__(self):
        return "PartitionSpec.UNCONSTRAINED"


def _partition(names):
    """A tuple of one name is that name, of none None."""
    if not isinstance(names, (tuple, list)):
        return names
    return tuple(names) if len(names) > 1 else names[0] if names else None


class _Axes:
    """What meshes share: named axes and their types; a context too."""

    axis_names: tuple
    axis_sizes: tuple
    axis_types: tuple

    def _set_types(self, axis_types):
        self.axis_types = tuple(axis_types) if axis_types is not None else (AxisType.Auto,) * len(self.axis_names)

    def _are_all(self, kind):
        return bool(self.axis_types) and all(t is kind for t in self.axis_types)

    are_all_axes_auto = property(lambda self: self._are_all(AxisType.Auto))
    are_all_axes_explicit = property(lambda self: self._are_all(AxisType.Explicit))
    are_all_axes_manual = property(lambda self: self._are_all(AxisType.Manual))

    @property
    def shape(self):
        """Sizes by name."""
        return OrderedDict(zip(self.axis_names, self.axis_sizes))

    @property
    def empty(self):
        """Whether there is no device in it."""
        return self.size == 0

    @property
    def abstract_mesh(self):
        """The mesh itself."""
        return self

    def __enter__(self):
        Mesh._entered.append(self)
        return self

    def __exit__(self, *exc):
        Mesh._entered.remove(self)
        return False

    def __eq__(self, other):
        return isinstance(other, type(self)) and (self.axis_names, self.axis_sizes) == (other.axis_names, other.axis_sizes)

    def __hash__(self):
        return hash((self.axis_names, self.axis_sizes))

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{n!r}: {s}' for n, s in self.shape.items())})"


class PartitionSpec:
    """For each dimension of an array the mesh axis that it is split over: a name, a tuple of names, or None.

    >>> from fgrad.sharding import PartitionSpec as P
    >>> P("data", None)
    P('data', None)
    """

    UNCONSTRAINED = _Unconstrained()

    def __init__(self, *partitions, unreduced=frozenset(), reduced=frozenset()):
        self._partitions = tuple(map(_partition, partitions))
        self.unreduced, self.reduced = frozenset(unreduced), frozenset(reduced)

    def __iter__(self):
        return iter(self._partitions)

    def __len__(self):
        return len(self._partitions)

    def __getitem__(self, i):
        return self._partitions[i]

    def __eq__(self, other):
        return isinstance(other, PartitionSpec) and self._partitions == other._partitions

    def __add__(self, other):
        return PartitionSpec(*self, *other) if isinstance(other, (PartitionSpec, tuple)) else NotImplemented

    def __radd__(self, other):
        return PartitionSpec(*other, *self) if isinstance(other, tuple) else NotImplemented

    def index(self, partition):
        """The first dimension that is split this way. Raises ValueError where none is."""
        return self._partitions.index(_partition(partition))

    def count(self, partition):
        """How many dimensions are split this way."""
        return self._partitions.count(_partition(partition))

    def __hash__(self):
        return hash(self._partitions)

    def __repr__(self):
        more = [f"{kind}={set(axes)!r}" for kind in ("unreduced", "reduced") if (axes := getattr(self, kind))]
        return f"P({', '.join([*map(repr, self._partitions), *more])}{',' if len(self) == 1 and not more else ''})"

    def __reduce__(self):
        return PartitionSpec, self._partitions

    @property
    def names(self):
        """The mesh axes it speaks of, in order."""
        parts = [p if isinstance(p, tuple) else (p,) for p in self._partitions if p is not None and p is not self.UNCONSTRAINED]
        return tuple(name for p in parts for name in p)


class Mesh(_Axes):
    """Devices with named axes, each of size 1. A context too. Raises ValueError where names and axes do not match.

    >>> import numpy as np, fgrad
    >>> from fgrad.sharding import Mesh
    >>> Mesh(np.array(fgrad.devices()), ("data",)).shape
    OrderedDict(...)
    """

    _entered: "list[Mesh]" = []

    def __init__(self, devices, axis_names, axis_types=None):
        devices = np.asarray(devices, dtype=object)
        axis_names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        if devices.ndim != len(axis_names):
            raise ValueError(
                f"Mesh requires the ndim of its first argument (`devices`) to equal the length of its second argument (`axis_names`), "
                f"but got devices.ndim == {devices.ndim} and len(axis_names) == {len(axis_names)}."
            )
        if len(set(axis_names)) != len(axis_names):
            raise ValueError(f"mesh axis names must be unique, got {axis_names}")
        if any(d is not CPU for d in devices.flat) or devices.size > 1:
            raise ValueError(f"there is one device, fgrad.devices()[0], so a mesh has one; got {devices.tolist()}")
        self.devices, self.axis_names = devices, axis_names
        self._set_types(axis_types)

    @property
    def axis_sizes(self):
        """The size of each axis."""
        return self.devices.shape

    @property
    def size(self):
        """The number of devices."""
        return self.devices.size

    is_multi_process = False

    @property
    def local_mesh(self):
        """The mesh itself."""
        return self


class AbstractMesh(_Axes):
    """Named axes of size 1 without their devices. Raises ValueError where sizes and names do not match."""

    def __init__(self, axis_sizes, axis_names, axis_types=None):
        self.axis_sizes, self.axis_names = tuple(axis_sizes), tuple(axis_names)
        if len(self.axis_sizes) != len(self.axis_names):
            raise ValueError(f"`axis_sizes` and `axis_names` should have the same length, got {axis_sizes} and {axis_names}")
        if any(n != 1 for n in self.axis_sizes):
            raise ValueError(f"there is one device, so the axes of a mesh have size 1, got {axis_sizes}")
        self._set_types(axis_types)

    @property
    def size(self):
        """The number of devices; 0 without axes."""
        return 1 if self.axis_names else 0


def current_mesh():
    """The mesh whose context was entered last, or None."""
    return Mesh._entered[-1] if Mesh._entered else None


class Sharding:
    """Where an array's parts are: all of it on the one device."""

    memory_kind = None
    num_devices = 1
    is_fully_replicated = is_fully_addressable = True
    device_set = addressable_devices = frozenset([CPU])

    def shard_shape(self, global_shape):
        """The shape of a part: the whole."""
        return tuple(global_shape)

    def devices_indices_map(self, global_shape):
        """Which indices are on a device: all of them."""
        return {CPU: (slice(None),) * len(global_shape)}

    addressable_devices_indices_map = devices_indices_map

    def is_equivalent_to(self, other, ndim):
        """True for all shardings: there is one device."""
        return isinstance(other, Sharding)

    def check(self, ndim, what):
        """Raises ValueError for an array of this rank that it does not fit."""


class SingleDeviceSharding(Sharding):
    """All of an array on one device."""

    def __init__(self, device=CPU, *, memory_kind=None):
        if device is not CPU:
            raise ValueError(f"SingleDeviceSharding: the only device is fgrad.devices()[0], got {device!r}")
        self._device = device

    def __eq__(self, other):
        return isinstance(other, SingleDeviceSharding)

    def __hash__(self):
        return hash(SingleDeviceSharding)

    def __repr__(self):
        return f"SingleDeviceSharding(device={self._device!r})"


class NamedSharding(Sharding):
    """A mesh and a spec. Raises ValueError for axes that the mesh does not have or that occur twice."""

    def __init__(self, mesh, spec, *, memory_kind=None):
        if not isinstance(mesh, (Mesh, AbstractMesh)):
            raise TypeError(f"NamedSharding takes a Mesh, got {type(mesh).__name__}")
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"NamedSharding takes a PartitionSpec, got {type(spec).__name__}: {spec!r}")
        for i, name in enumerate(spec.names):
            if name not in mesh.axis_names:
                raise ValueError(f"Resource axis: {name} of {spec!r} is not found in mesh: {mesh.axis_names}.")
            if name in spec.names[:i]:
                raise ValueError(
                    f"A single NamedSharding spec specification can map every mesh axis to at most one dimension, got {spec!r}"
                )
        self.mesh, self.spec = mesh, spec

    def update(self, *, mesh=None, spec=None, memory_kind=None):
        """The same with another mesh or spec."""
        return NamedSharding(self.mesh if mesh is None else mesh, self.spec if spec is None else spec)

    def check(self, ndim, what):
        if len(self.spec) > ndim:
            raise ValueError(f"{what}: {self.spec!r} is for arrays of rank {len(self.spec)} at least, got one of rank {ndim}")

    def __eq__(self, other):
        return isinstance(other, NamedSharding) and (self.mesh, self.spec) == (other.mesh, other.spec)

    def __hash__(self):
        return hash((self.mesh, self.spec))

    def __repr__(self):
        return f"NamedSharding(mesh={self.mesh!r}, spec={self.spec!r})"


class Layout:
    """The order of an array's axes in memory, major first. A hint without an effect: arrays are in row-major order."""

    AUTO: "Layout"

    def __init__(self, major_to_minor=None):
        self.major_to_minor = None if major_to_minor is None else tuple(major_to_minor)

    def __eq__(self, other):
        return isinstance(other, Layout) and self.major_to_minor == other.major_to_minor

    def __hash__(self):
        return hash(self.major_to_minor)

    def __repr__(self):
        return "Layout.AUTO" if self.major_to_minor is None else f"Layout(major_to_minor={self.major_to_minor})"


Layout.AUTO = Layout()


class Format:
    """A layout and a sharding; stands for the sharding."""

    def __init__(self, layout=None, sharding=None):
        self.layout, self.sharding = layout, sharding

    def __eq__(self, other):
        return isinstance(other, Format) and (self.layout, self.sharding) == (other.layout, other.sharding)

    def __hash__(self):
        return hash((self.layout, self.sharding))

    def __repr__(self):
        return f"Format({self.layout!r}, {self.sharding!r})"


class Space(enum.Enum):
    """Memories, of which there is one."""

    Device = "device"
    Host = "host"
    Any = "any"


def as_sharding(x, what):
    """A Sharding, or None, from what functions take: these, the device, a Format, or a spec where a mesh was entered."""
    if isinstance(x, Format):
        x = x.sharding
    if x is None or isinstance(x, Sharding):
        return x
    if isinstance(x, Space):
        return None
    if x is CPU or x == "cpu":
        return SingleDeviceSharding()
    if isinstance(x, PartitionSpec):
        mesh = current_mesh()
        if mesh is None:
            raise RuntimeError(
                f"{what} requires a non-empty mesh in context: a PartitionSpec needs a mesh: "
                f"give a NamedSharding, or enter `with mesh:`; got {x!r}"
            )
        return NamedSharding(mesh, x)
    raise ValueError(f"{what}: expected a sharding, a device or None, got {x!r}; the only device is 'cpu' (see fgrad.devices())")
