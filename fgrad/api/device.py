"""Names that JAX programs use and that mean little on one CPU."""

import os
import platform

import numpy as np

from fgrad import array_tree as tree
from fgrad.core import Array, is_tracer, to_array
from fgrad.core.array import place as note_place
from fgrad.core.device import CPU
from fgrad.core.sharding import as_sharding


def check_device(device, what):
    """Raises ValueError unless `device` is None, "cpu" or the CPU device."""
    if device is not None and getattr(device, "platform", device) != "cpu":
        raise ValueError(f"{what}: unknown device or backend {device!r}; the only one is 'cpu' (see fgrad.devices())")


def check_sharding(shardings, what):
    """Raises ValueError unless the leaves of `shardings` are shardings of the one device, None or the CPU device."""
    for x in tree.leaves(shardings):
        as_sharding(x, what)


def devices(backend=None):
    """A list of the one device, the CPU. Raises RuntimeError for another backend than "cpu"."""
    if getattr(backend, "platform", backend) not in (None, "cpu"):
        raise RuntimeError(f"Unknown backend: {backend!r} requested, but the only platform is cpu (see fgrad.devices())")
    return [CPU]


def local_devices(process_index=None, backend=None, host_id=None):
    """A list of the one device, the CPU."""
    return devices(backend)


def device_count(backend=None):
    """1: the CPU is one device, however many threads it has (see set_num_threads)."""
    return len(devices(backend))


def local_device_count(backend=None):
    """1."""
    return device_count(backend)


def default_backend():
    """The string "cpu"."""
    return "cpu"


def process_index(backend=None):
    """0: there is one process."""
    check_device(backend, "process_index")
    return 0


def process_count(backend=None):
    """1: there is one process."""
    check_device(backend, "process_count")
    return 1


def process_indices(backend=None):
    """[0]."""
    return [process_index(backend)]


def print_environment_info(return_string=False):
    """Print what a bug report needs: versions and the CPU; give it as a string instead with return_string."""
    uname = platform.uname()
    lines = [
        f"numpy:  {np.__version__}",
        f"python: {platform.python_version()}",
        f"device: {CPU!r}, {os.cpu_count()} logical cores",
        f"system: {uname.system} {uname.release} {uname.machine}",
    ]
    if return_string:
        return "\n".join(lines)
    print("\n".join(lines))
    return None


def block_until_ready(x):
    """x: programs have run by the time their results exist."""
    return x


def copy_to_host_async(x):
    """x: arrays are in the host's memory."""
    return x


def device_get(x):
    """A pytree's arrays as NumPy arrays; traced values and leaves of other kinds stay as they are.

    >>> import fgrad, fgrad.numpy as jnp
    >>> type(fgrad.device_get({"a": jnp.ones(2)})["a"]).__name__
    'ndarray'
    """
    return tree.map(lambda v: np.asarray(v) if hasattr(v, "__array__") and not is_tracer(v) else v, x)


def device_put(x, device=None, *, src=None, donate=False, may_alias=None):
    """A pytree's leaves as arrays. device: the CPU, a sharding over it, or a pytree of these that is a prefix of x.

    Raises ValueError for another device, and for a sharding of more dimensions than the array has.

    >>> import fgrad
    >>> fgrad.device_put({"a": [1.0, 2]})["a"][1]
    Array(2, dtype=int32...)
    """

    def put(place, part):
        place = as_sharding(place, "device_put")

        def leaf(v):
            out = v if isinstance(v, Array) or is_tracer(v) else to_array(v)
            if type(v) in (bool, int, float, complex):
                out = out.fresh()  # not the one that stands for this number
            if place is not None:
                place.check(out.ndim, "device_put")
                if type(out) is Array:
                    note_place(out, place)
            return out

        return tree.map(leaf, part)

    return tree.map(put, device, x, is_leaf=lambda d: d is None)
