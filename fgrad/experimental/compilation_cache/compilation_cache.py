"""The setting of a directory for compiled programs, which are not kept between processes."""

from fgrad.config import config

__all__ = ["reset_cache", "set_cache_dir"]


def set_cache_dir(path):
    """Set jax_compilation_cache_dir. Nothing is written there."""
    config.update("jax_compilation_cache_dir", path)


def reset_cache():
    """Nothing to do: the directory is not read."""
