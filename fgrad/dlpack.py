"""Arrays shared with other libraries through DLPack, without a copy."""

from fgrad.numpy.io import from_dlpack

__all__ = ["from_dlpack"]
