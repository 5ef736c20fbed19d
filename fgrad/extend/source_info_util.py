"""Where the equations of programs come from."""

from fgrad.core.ir import exclude_sources

__all__ = ["register_exclusion"]


def register_exclusion(path):
    """Files whose names start with `path` are a library's: equations are said to come from the lines that called it."""
    exclude_sources(path)
