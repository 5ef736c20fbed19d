"""jax.experimental.colocated_python: Python runs where the arrays are, in this process."""

import functools

from fgrad.api import device_put

__all__ = ["colocated_cpu_devices", "colocated_python", "colocated_python_class"]


def colocated_cpu_devices(devices_or_mesh):
    """The CPUs beside the devices: the devices themselves; of a mesh the mesh."""
    return devices_or_mesh if hasattr(devices_or_mesh, "axis_names") else list(devices_or_mesh)


def colocated_python(fun):
    """fun, called in Python with arrays, of which it gives arrays."""

    @functools.wraps(fun)
    def call(*args, **kwargs):
        return device_put(fun(*args, **kwargs))

    call.specialize = lambda **how: call
    return call


def colocated_python_class(cls):
    """The class, whose methods give arrays."""

    class Colocated(cls):
        def __getattribute__(self, name):
            value = super().__getattribute__(name)
            return value if name.startswith("_") or not callable(value) else colocated_python(value)

    functools.update_wrapper(Colocated, cls, updated=())
    return Colocated
