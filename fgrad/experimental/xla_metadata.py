"""jax.experimental.xla_metadata: notes for XLA, which nothing reads here."""

import contextlib

__all__ = ["set_xla_metadata"]


def set_xla_metadata(x=None, **kwargs):
    """x; without x a context and a decorator without an effect."""
    return _nothing() if x is None else x


@contextlib.contextmanager
def _nothing():
    yield
