"""jax.experimental.mesh_utils over the one device."""

from fgrad.api.sharding import make_mesh


def create_device_mesh(mesh_shape, devices=None, *, contiguous_submeshes=False, allow_split_physical_axes=False):
    """The array of devices for a Mesh: mesh_shape must be of ones. Raises ValueError otherwise."""
    return make_mesh(mesh_shape, tuple(map(str, range(len(mesh_shape)))), devices=devices).devices
