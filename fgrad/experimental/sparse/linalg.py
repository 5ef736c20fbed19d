"""Linear systems of sparse matrices: jax.experimental.sparse.linalg."""

import fgrad.numpy as jnp
from fgrad.experimental.sparse.bcsr import BCSR


def spsolve(data, indices, indptr, b, tol=1e-6, reorder=1):
    """x with A @ x = b, of shape (n,), for the CSR matrix A of shape (n, n) whose parts are data, indices and indptr.

    A is factored as a dense matrix, in n * n memory: tol and reorder, which steer a sparse factorization, have no effect. It has
    derivatives by data and b. For large systems see fgrad.scipy.sparse.linalg.

    >>> import fgrad.numpy as jnp
    >>> spsolve(jnp.array([2.0, 4.0]), jnp.array([0, 1]), jnp.array([0, 1, 2]), jnp.ones(2))
    Array([0.5 , 0.25], dtype=float32)
    """
    data, b = jnp.asarray(data), jnp.asarray(b)
    if data.dtype != b.dtype:
        raise ValueError(f"data types do not match: data is {data.dtype}, b is {b.dtype}")
    if b.ndim != 1 or len(indptr) != b.size + 1:
        raise ValueError(f"spsolve: b must have shape (n,) and indptr shape (n + 1,), got {b.shape} and {jnp.shape(indptr)}")
    return jnp.linalg.solve(BCSR((data, jnp.asarray(indices), jnp.asarray(indptr)), shape=(b.size, b.size)).todense(), b)
