"""jax.sharding over the one device."""

from fgrad.api import device_put
from fgrad.api.sharding import get_mesh, set_mesh
from fgrad.api.sharding import get_mesh as get_abstract_mesh
from fgrad.api.sharding import set_mesh as use_mesh
from fgrad.core.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

__all__ = [
    "AbstractMesh",
    "AxisType",
    "Mesh",
    "NamedSharding",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "get_abstract_mesh",
    "get_mesh",
    "make_single_device_sharding",
    "reshard",
    "set_mesh",
    "use_abstract_mesh",
    "use_mesh",
]


class use_abstract_mesh:
    """A context in which an AbstractMesh is the current mesh. Raises ValueError for anything else."""

    def __init__(self, mesh):
        if not isinstance(mesh, AbstractMesh):
            raise ValueError(f"Expected mesh of type `jax.sharding.AbstractMesh`. Got type: {type(mesh)}")
        self._mesh = mesh

    def __enter__(self):
        self._inside = set_mesh(self._mesh)

    def __exit__(self, *exc):
        return self._inside.__exit__(*exc)


def make_single_device_sharding(device, *, memory_kind=None):
    """The sharding that puts all of an array on the device."""
    return SingleDeviceSharding(device)


def reshard(xs, out_shardings):
    """The leaves of xs with these shardings: one, or a pytree of them that is a prefix of xs. See device_put."""
    return device_put(xs, out_shardings)
