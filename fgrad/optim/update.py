"""From updates to parameters."""

import fgrad.numpy as jnp
from fgrad import tree
from fgrad.control.cond import cond
from fgrad.optim.base import leafwise
from fgrad.optim.tree_utils import tree_norm


def apply_updates(params, updates):
    """params + updates, leaf by leaf, in the dtypes of params.

    >>> import fgrad
    >>> fgrad.optim.apply_updates({"w": fgrad.numpy.ones(2)}, {"w": fgrad.numpy.ones(2)})
    {'w': Array([2., 2.], dtype=float32)}
    """
    return leafwise(lambda p, u: jnp.asarray(p + u, jnp.asarray(p).dtype), params, updates)


def incremental_update(new_tensors, old_tensors, step_size):
    """step_size * new + (1 - step_size) * old: Polyak's average of parameters."""
    return tree.map(lambda new, old: step_size * new + (1.0 - step_size) * old, new_tensors, old_tensors)


def periodic_update(new_tensors, old_tensors, steps, update_period):
    """The new tensors at every update_period-th step, else the old ones."""
    return cond(jnp.mod(steps, update_period) == 0, lambda new, old: new, lambda new, old: old, new_tensors, old_tensors)


def global_norm(updates):
    """The Euclidean norm of all leaves together."""
    return tree_norm(updates)
