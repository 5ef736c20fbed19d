"""Second derivatives of losses loss(params, inputs, targets), under optax's names."""

import fgrad.numpy as jnp
from fgrad.api import grad, jvp, vmap
from fgrad.flatten_util import ravel_pytree

__all__ = ["fisher_diag", "hessian_diag", "hvp"]


def hvp(loss, v, params, inputs, targets):
    """The Hessian of the loss in params times the vector v, as a tree like params."""
    unravel = ravel_pytree(params)[1]
    return jvp(grad(lambda p: loss(p, inputs, targets)), [params], [unravel(v)])[1]


def hessian_diag(loss, params, inputs, targets):
    """The diagonal of the Hessian of the loss in params, as a vector: one product with the Hessian for each parameter."""
    rows = jnp.eye(ravel_pytree(params)[0].size)
    return vmap(lambda v: jnp.vdot(v, ravel_pytree(hvp(loss, v, params, inputs, targets))[0]))(rows)


def fisher_diag(negative_log_likelihood, params, inputs, targets):
    """The squared gradient of the loss in params, as a vector."""
    return jnp.square(ravel_pytree(grad(negative_log_likelihood)(params, inputs, targets))[0])
