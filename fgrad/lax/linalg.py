"""The jax.lax.linalg surface: factorizations of batches of matrices (..., m, n), by LAPACK.

All take float32, float64, complex64 and complex128. A matrix that LAPACK cannot factor (not positive definite, without convergence)
gives NaN, and the rest of its batch what it gives alone.
"""
