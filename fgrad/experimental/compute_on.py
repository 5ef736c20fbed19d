"""jax.experimental.compute_on: everything is computed on the CPU, which is the host."""

import contextlib
import functools

__all__ = ["compute_on", "compute_on2"]


def _check(compute_type):
    if not isinstance(compute_type, str):
        raise TypeError("`compute_on`'s compute_type argument must be a string.")
    if compute_type not in ("device_host", "device", "tpu_sparsecore") and not compute_type.startswith("gpu_stream:"):
        raise ValueError(
            f"Invalid compute type {compute_type}. Current supported values are `device_host`, `device`, `tpu_sparsecore`, and "
            "`gpu_stream:#`."
        )


@contextlib.contextmanager
def compute_on(compute_type):
    """A context and a decorator without an effect. Raises ValueError for a type that JAX does not have."""
    _check(compute_type)
    yield


def compute_on2(f=None, *, compute_type, out_memory_spaces, compiler_options=None):
    """f itself. Raises ValueError for a type that JAX does not have."""
    _check(compute_type)
    return f if f is not None else functools.partial(compute_on2, compute_type=compute_type, out_memory_spaces=out_memory_spaces)
