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
    "reshard",
    "set_mesh",
    "use_mesh",
]


def reshard(xs, out_shardings):
    """The leaves of xs with these shardings: one, or a pytree of them that is a prefix of xs. See device_put."""
    return device_put(xs, out_shardings)
