"""jax.experimental.shard_map, by its older place."""

from fgrad.api.sharding import shard_map as _shard_map


def shard_map(f, mesh, in_specs, out_specs, check_rep=True, auto=frozenset()):
    """fgrad.shard_map with positional arguments."""
    return _shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
