"""Smoothing of functions without a useful derivative, under the names of optax.perturbations."""

import fgrad.numpy as jnp
from fgrad import lax, random, tree
from fgrad.api import vmap
from fgrad.optim.base import leafwise
from fgrad.optim.tree_utils import tree_add_scale, tree_random_like, tree_scale, tree_sum

__all__ = ["Gumbel", "Normal", "make_perturbed_fun"]


class Normal:
    """The standard normal distribution."""

    def sample(self, key, sample_shape=(), dtype=float):
        """Samples in the shape sample_shape."""
        return random.normal(key, sample_shape, dtype)

    def log_prob(self, inputs):
        """The logarithm of the density, up to a constant."""
        return -0.5 * inputs**2


class Gumbel:
    """The standard Gumbel distribution."""

    def sample(self, key, sample_shape=(), dtype=float):
        """Samples in the shape sample_shape."""
        return random.gumbel(key, sample_shape, dtype)

    def log_prob(self, inputs):
        """The logarithm of the density."""
        return -inputs - jnp.exp(-inputs)


_GUMBEL = Gumbel()


def make_perturbed_fun(fun, num_samples=1000, sigma=0.1, noise=_GUMBEL, use_baseline=True):
    """perturbed(key, x) = the mean of fun(x + sigma * noise) over num_samples samples, with the derivative of the expectation by the
    score function (Berthet et al., 2020): `fun`, of a tree, need not have one.

    noise: an object with `sample` and `log_prob`. use_baseline subtracts fun(x) within the derivative, for less variance.
    """

    def one(key, x, baseline):
        sample = tree_random_like(key, x, noise.sample)
        shifted = lax.stop_gradient(leafwise(lambda v, z: v + sigma * z, x, sample))
        # The sample as a function of x for a fixed point: its density is what depends on x.
        log_prob = tree_sum(leafwise(lambda v, s: noise.log_prob((s - v) / sigma), x, shifted))
        weight = jnp.exp(log_prob - lax.stop_gradient(log_prob))  # 1, with the derivative of log_prob
        out = tree_scale(weight, fun(shifted))
        return tree_add_scale(out, 1 - weight, baseline) if use_baseline else out

    def perturbed(key, x):
        baseline = fun(lax.stop_gradient(x)) if use_baseline else None
        outs = vmap(one, in_axes=(0, None, None))(random.split(key, num_samples), x, baseline)
        return tree.map(lambda y: jnp.mean(y, axis=0), outs)

    return perturbed
