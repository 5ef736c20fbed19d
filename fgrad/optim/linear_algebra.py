"""Eigenvalues, roots and least squares by iteration, under optax's names."""

import fgrad.numpy as jnp
from fgrad import random
from fgrad.control.loops import scan
from fgrad.control.while_loop import while_loop
from fgrad.optim.tree_utils import tree_norm, tree_scale, tree_sub, tree_vdot

_HIGHEST = "highest"


def _normalized(x):
    return tree_scale(1.0 / tree_norm(x), x)


def power_iteration(matrix, *, v0=None, num_iters=100, error_tolerance=1e-6, precision=_HIGHEST, key=None):
    """(the eigenvalue of largest size, its normalized eigenvector) of a matrix or of a linear function of a tree.

    v0: the start, needed for a function (ValueError without it); otherwise random from `key`. Ends after num_iters steps, or
    where |A v - eig v| / |eig| falls below error_tolerance.

    >>> import fgrad.numpy as jnp, fgrad.optim
    >>> fgrad.optim.power_iteration(jnp.diag(jnp.array([1.0, 3.0])))[0].round(4)
    Array(3., dtype=float32)
    """
    if callable(matrix):
        if v0 is None:
            raise ValueError("power_iteration: v0 must be provided when `matrix` is a function")
        product = matrix
    else:
        matrix = jnp.asarray(matrix)
        product = lambda v: jnp.matmul(matrix, v, precision=precision)
        if v0 is None:
            key = random.PRNGKey(0) if key is None else key
            v0 = random.uniform(key, matrix.shape[-1:], matrix.dtype, minval=-1.0, maxval=1.0)

    def unfinished(state):
        v, image, eig, i = state
        residual = tree_norm(tree_sub(image, tree_scale(eig, v)))
        return ~(jnp.abs(residual / eig) < error_tolerance) & (i < num_iters)

    def step(state):
        v = _normalized(state[1])
        image = product(v)
        return v, image, tree_vdot(v, image), state[3] + 1

    v0 = _normalized(v0)
    image = product(v0)
    eig = jnp.zeros_like(tree_vdot(v0, image))
    _, image, eig, _ = while_loop(unfinished, step, (v0, image, eig, jnp.zeros((), jnp.int32)))
    return eig, _normalized(image)


def _int_power(matrix, p, product):
    """matrix^p for an integer p >= 1, by squaring."""
    out = None
    while p:
        if p & 1:
            out = matrix if out is None else product(out, matrix)
        p >>= 1
        if p:
            matrix = product(matrix, matrix)
    return out


def matrix_inverse_pth_root(matrix, p, num_iters=100, ridge_epsilon=1e-6, error_tolerance=1e-6, precision=_HIGHEST):
    """(matrix^(-1/p), the largest error) of a symmetric positive semi-definite matrix, by the coupled Newton iteration
    (Higham, Functions of Matrices, 7.3). p is an integer; ridge_epsilon times the largest eigenvalue is added to the diagonal."""
    if not isinstance(p, int) or p < 1:
        raise ValueError(f"matrix_inverse_pth_root: p must be a positive integer, got {p!r}")
    matrix = jnp.asarray(matrix)
    size, alpha = matrix.shape[0], -1.0 / p
    product = lambda a, b: jnp.matmul(a, b, precision=precision)
    largest = power_iteration(matrix, precision=precision)[0]
    ridge = ridge_epsilon * jnp.maximum(largest, 1e-16)
    if size == 1:
        return (matrix + ridge) ** alpha, jnp.zeros((), matrix.dtype)
    eye = jnp.eye(size, dtype=matrix.dtype)
    error_of = lambda m: jnp.max(jnp.abs(m - eye))

    def unfinished(state):
        i, *_, error, goes_on = state
        return (i < num_iters) & (error > error_tolerance) & goes_on

    def step(state):
        i, m, h, _, error, _ = state
        factor = (1 - alpha) * eye + alpha * m
        new = product(_int_power(factor, p, product), m)
        new_error = error_of(new)
        return i + 1, new, product(h, factor), h, new_error, new_error < error * 1.2

    damped = matrix + ridge * eye
    z = (1 + p) / (2 * jnp.linalg.norm(damped))
    m, h = damped * z, eye * z ** (1.0 / p)
    start = (jnp.zeros((), jnp.int32), m, h, h, error_of(m), jnp.ones((), bool))
    _, m, h, before, _, goes_on = while_loop(unfinished, step, start)
    return jnp.where(goes_on, h, before), error_of(m)


def nnls(A, b, iters, unroll=1, L=None):
    """The x >= 0 that minimises |A x - b|, by `iters` steps of the accelerated projected gradient (Nesterov, 1983).

    A is [m, n], b [m] or [m, k]. L: a bound of A^T A's spectral radius, by default from its norms. Raises ValueError for other shapes.

    >>> import fgrad.numpy as jnp, fgrad.optim
    >>> fgrad.optim.nnls(jnp.eye(2), jnp.array([1.0, -1.0]), 20)
    Array([1., 0.], dtype=float32)
    """
    if A.ndim != 2 or b.ndim not in (1, 2) or b.shape[0] != A.shape[0]:
        raise ValueError(f"nnls: A must be [m, n] and b [m] or [m, k], got {A.shape} and {b.shape}")
    gram, image = A.mT @ A, A.mT @ b
    if L is None:
        columns = jnp.linalg.norm(gram, ord=1) if gram.size else 0
        L = jnp.minimum(jnp.linalg.norm(gram), columns)
    L = jnp.where(L == 0, 1, L)

    def step(state, _):
        x, ahead, c = state
        next_c = (1 + jnp.sqrt(1 + 4 * c**2)) / 2
        new = jnp.maximum(ahead - (gram @ ahead - image) / L, 0)
        return (new, new + (c - 1) / next_c * (new - x), next_c), None

    x = jnp.zeros_like(image)
    return scan(step, (x, x, jnp.zeros((), image.dtype)), length=iters, unroll=unroll)[0][0]
