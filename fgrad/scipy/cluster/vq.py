"""Vector quantisation."""

import fgrad.numpy as jnp

__all__ = ["vq"]


def vq(obs, code_book, check_finite=True):
    """(the index of the nearest row of code_book (k, d) for each row of obs (n, d), its distance).

    Observations of one dimension are (n,) with codes (k,). Raises ValueError for other ranks or different d.

    >>> import fgrad.numpy as jnp
    >>> from fgrad.scipy.cluster.vq import vq
    >>> vq(jnp.array([[0.0, 1.0], [5.0, 4.0]]), jnp.array([[0.0, 0.0], [5.0, 5.0]]))
    (Array([0, 1], dtype=int32), Array([1., 1.], dtype=float32))
    """
    obs, code_book = jnp.promote_dtypes_inexact(jnp.asarray(obs), jnp.asarray(code_book))
    if obs.ndim != code_book.ndim or obs.ndim not in (1, 2):
        raise ValueError(f"vq: observations and codes must both be of 1 or 2 dimensions, got shapes {obs.shape} and {code_book.shape}")
    if obs.ndim == 1:
        obs, code_book = obs[:, None], code_book[:, None]
    if obs.shape[1] != code_book.shape[1]:
        raise ValueError(f"vq: observations have {obs.shape[1]} features, codes {code_book.shape[1]}")
    squares = jnp.sum((obs[:, None] - code_book[None]) ** 2, axis=-1)
    return jnp.argmin(squares, axis=-1), jnp.sqrt(jnp.min(squares, axis=-1))
