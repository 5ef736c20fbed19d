"""jax.distributed: there is one process."""

_state = {"initialized": False}


def initialize(
    coordinator_address=None,
    num_processes=None,
    process_id=None,
    local_device_ids=None,
    cluster_detection_method=None,
    initialization_timeout=300,
    heartbeat_timeout_seconds=100,
    shutdown_timeout_seconds=300,
    coordinator_bind_address=None,
    slice_index=None,
    partition_index=None,
):
    """Note that the one process is all there are. Raises ValueError where more are asked for, RuntimeError if called twice.

    >>> from fgrad import distributed
    >>> distributed.initialize("localhost:1234", num_processes=1, process_id=0)
    >>> distributed.is_initialized()
    True
    >>> distributed.shutdown()
    """
    if num_processes not in (None, 1) or process_id not in (None, 0):
        raise ValueError(f"distributed.initialize: there is one process, got num_processes={num_processes}, process_id={process_id}")
    if _state["initialized"]:
        raise RuntimeError("distributed.initialize should only be called once.")
    _state["initialized"] = True


def is_initialized():
    """Whether `initialize` was called."""
    return _state["initialized"]


def shutdown():
    """Undo `initialize`."""
    _state["initialized"] = False


__all__ = ["initialize", "is_initialized", "shutdown"]
