"""Names of JAX's that fgrad does not have, and why: what the AttributeError says."""

_REASONS = {
    "there is one device, the CPU. Meshes and shardings over it are in fgrad.sharding; vmap and jit use all cores": """
        Shard smap""",
    "memory is freed when arrays are. See fgrad.memory_stats()": "live_arrays",
    "foreign functions are called with pure_callback": "ffi",
}
_REASON_OF = {name: reason for reason, names in _REASONS.items() for name in names.split()}


def why(name):
    """The end of the message for a name that is absent."""
    return f": {_REASON_OF[name]} (docs/jax_names.md)" if name in _REASON_OF else ""
