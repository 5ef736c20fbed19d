"""Meshes over the one device, and functions of shards: what programs for several devices call."""

import functools
import math

import numpy as np

from fgrad import array_tree as tree
from fgrad.api.device import device_put
from fgrad.api.vmap import vmap
from fgrad.core import Array, get_aval, wraps
from fgrad.core.array import place
from fgrad.core.device import CPU
from fgrad.core.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, current_mesh
from fgrad.ops.shape import squeeze


def make_mesh(axis_shapes, axis_names, axis_types=None, *, devices=None):
    """A mesh of these sizes, which must all be 1: raises ValueError where there are more places than the one device fills.

    >>> import fgrad
    >>> fgrad.make_mesh((1, 1), ("data", "model"))
    Mesh('data': 1, 'model': 1)
    """
    if math.prod(axis_shapes) != 1:
        raise ValueError(f"make_mesh: the product of {tuple(axis_shapes)} must be 1: there is one device, whose cores jit and vmap use")
    device = CPU if devices is None else list(devices)[0]
    out = np.empty(tuple(axis_shapes), object)
    out[...] = device
    return Mesh(out, axis_names, axis_types)


class set_mesh:
    """Make `mesh` the current one, from now on or, as a context, within it."""

    def __init__(self, mesh):
        if not isinstance(mesh, (Mesh, AbstractMesh)):
            raise ValueError(f"Expected mesh of type `jax.sharding.Mesh`. Got {type(mesh)}")
        self._mesh = mesh.__enter__()

    def __enter__(self):
        return self._mesh

    def __exit__(self, *exc):
        return self._mesh.__exit__(*exc)


def get_mesh():
    """The current mesh; an empty one where none is set."""
    return current_mesh() or Mesh(np.empty((0,), object), ("",))


def with_sharding_constraint(x, shardings):
    """x. Raises ValueError for a spec of more dimensions than an array has."""
    return device_put(x, shardings)


def _prefix(specs, args, what):
    """The specs of the leaves of `args`, of which `specs` is a pytree prefix."""
    out = []

    def spread(spec, part):
        if spec is not None and not isinstance(spec, PartitionSpec):
            raise TypeError(f"shard_map {what}: expected PartitionSpecs, got {spec!r}")
        out.extend((spec, x) for x in tree.leaves(part))

    tree.map(spread, specs, args, is_leaf=lambda s: s is None or isinstance(s, PartitionSpec))
    return out


def shard_map(
    f=None, /, *, mesh=None, in_specs=None, out_specs=None, axis_names=frozenset(), check_vma=True, check_rep=True, auto=frozenset()
):
    """f of each device's shards: with one device, of the whole arrays. Collectives over the mesh's axes work, as over axes of size 1.

    Raises ValueError without a mesh, for specs with axes that it does not have, and for arrays of fewer dimensions than their specs.

    >>> import fgrad, fgrad.numpy as jnp
    >>> from fgrad.sharding import PartitionSpec as P
    >>> mesh = fgrad.make_mesh((1,), ("i",))
    >>> fgrad.shard_map(lambda x: fgrad.lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())(jnp.arange(3.0))
    Array([0., 1., 2.], dtype=float32)
    """
    if f is None:
        return functools.partial(shard_map, mesh=mesh, in_specs=in_specs, out_specs=out_specs, axis_names=axis_names)

    @wraps(f)
    def sharded(*args):
        over = mesh if mesh is not None else current_mesh()
        if over is None:
            raise ValueError("The context mesh cannot be empty: pass mesh= to shard_map or enter `with mesh:`")
        if in_specs is not None:
            specs = tuple(in_specs) if isinstance(in_specs, list) else in_specs
            for spec, x in _prefix(specs, args, "in_specs"):
                if spec is not None:
                    NamedSharding(over, spec).check(get_aval(x).ndim, "shard_map")
        names = over.axis_names
        body = f
        for name in reversed(names):
            body = vmap(body, in_axes=None, out_axes=0, axis_name=name, axis_size=1)
        out = tree.map(lambda y: squeeze(y, tuple(range(len(names)))), body(*args))
        for spec, y in _prefix(out_specs, out, "out_specs"):
            if spec is not None:
                sharding = NamedSharding(over, spec)
                sharding.check(get_aval(y).ndim, "shard_map out_specs")
                if type(y) is Array:
                    place(y, sharding)
        return out

    return sharded


def make_array_from_callback(shape, sharding, data_callback, *, dtype=None):
    """The array whose part at an index is data_callback(index): called once, for all of it."""
    return device_put(np.asarray(data_callback((slice(None),) * len(shape)), dtype).reshape(shape), sharding)


def make_array_from_process_local_data(sharding, local_data, global_shape=None):
    """local_data as an array: there is one process."""
    return device_put(np.asarray(local_data), sharding)


def make_array_from_single_device_arrays(shape, sharding, arrays, *, dtype=None):
    """The one array of `arrays`. Raises ValueError for several, or for another shape."""
    (array,) = arrays if len(arrays) == 1 else (None,)
    if array is None or tuple(array.shape) != tuple(shape):
        raise ValueError(f"expected one array of shape {tuple(shape)} for the one device, got shapes {[a.shape for a in arrays]}")
    return device_put(array, sharding)
