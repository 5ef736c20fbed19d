"""Projections of pytrees, taken as one vector, onto simple sets, under optax's names."""

import fgrad.numpy as jnp
from fgrad import lax, nn
from fgrad import tree as pytree
from fgrad.flatten_util import ravel_pytree
from fgrad.optim.tree_utils import tree_add_scale, tree_full_like, tree_mul, tree_norm, tree_scale, tree_vdot

__all__ = """
    projection_box projection_halfspace projection_hypercube projection_hyperplane projection_l1_ball projection_l1_sphere
    projection_l2_ball projection_l2_sphere projection_linf_ball projection_non_negative projection_simplex projection_vector
""".split()


def projection_non_negative(tree):
    """max(x, 0), element by element."""
    return pytree.map(nn.relu, tree)


def projection_box(tree, lower, upper):
    """x between lower and upper: trees of the structure of x, or numbers."""
    structure = pytree.structure(tree)
    low, high = (b if pytree.structure(b) == structure else pytree.unflatten(structure, [b] * structure.num_leaves) for b in (lower, upper))
    return pytree.map(jnp.clip, tree, low, high)


def projection_hypercube(tree, scale=1):
    """x between 0 and scale, element by element."""
    return projection_box(tree, 0, scale)


def projection_linf_ball(tree, scale=1):
    """x between -scale and scale, element by element."""
    return projection_box(tree, tree_full_like(tree, -scale), tree_full_like(tree, scale))


def _unit_simplex(x):
    """max(x - t, 0) for the t that makes the sum 1: it is known from the k greatest elements, as soon as the next one is below it."""
    ordered = jnp.sort(x)[::-1]
    excess, k = jnp.cumsum(ordered) - 1, jnp.arange(1, x.size + 1)
    count = jnp.count_nonzero(ordered * k > excess)
    return nn.relu(x - excess[count - 1] / count)


def projection_simplex(tree, scale=1):
    """The nearest tree of non-negative elements whose sum is scale (Duchi et al., https://dl.acm.org/doi/10.1145/1390156.1390191)."""
    values, unravel = ravel_pytree(tree)
    return unravel(scale * _unit_simplex(values / scale))


def projection_l1_sphere(tree, scale=1):
    """The nearest tree whose absolute values sum to scale."""
    return tree_mul(pytree.map(jnp.sign, tree), projection_simplex(pytree.map(jnp.abs, tree), scale))


def projection_l1_ball(tree, scale=1):
    """The nearest tree whose absolute values sum to at most scale."""
    inside = tree_norm(tree, ord=1) <= scale
    return lax.cond(inside, lambda t: t, lambda t: projection_l1_sphere(t, scale), tree)


def projection_l2_sphere(tree, scale=1):
    """x scaled to the Euclidean norm `scale`."""
    return tree_scale(scale / tree_norm(tree), tree)


def projection_l2_ball(tree, scale=1):
    """x scaled down to the Euclidean norm `scale` where it is longer."""
    return tree_scale(scale / jnp.sqrt(jnp.maximum(tree_norm(tree, squared=True), scale**2)), tree)


def projection_vector(x, a):
    """The multiple of a that is nearest to x."""
    return tree_scale(tree_vdot(x, a) / tree_vdot(a, a), a)


def projection_hyperplane(x, a, b):
    """The nearest y with <y, a> = b."""
    return tree_add_scale(x, (b - tree_vdot(x, a)) / tree_vdot(a, a), a)


def projection_halfspace(x, a, b):
    """The nearest y with <y, a> <= b."""
    return tree_add_scale(x, jnp.minimum((b - tree_vdot(x, a)) / tree_vdot(a, a), 0), a)
