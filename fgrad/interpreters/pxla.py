"""jax.interpreters.pxla, of which JAX has one name left: XLA's options, which a program here does not have."""

__all__ = ["create_compile_options"]


def create_compile_options(*args, **kwargs):
    """Raises NotImplementedError: programs are not compiled by XLA."""
    raise NotImplementedError("programs are not compiled by XLA: there are no options of its compiler")
