"""Kernel density estimates."""

import math

import fgrad.numpy as jnp
from fgrad import lax, random
from fgrad.scipy.special import logsumexp, ndtr
from fgrad.tree_util import register_pytree_node_class


@register_pytree_node_class
class gaussian_kde:
    """The density of points (d, n) or (n,), by a normal kernel around each of them.

    bw_method: "scott" (the default), "silverman", a number or a function of the estimate gives the factor of the points' standard
    deviation. weights: (n,) or None. Raises ValueError for fewer than two points and weights of another length.

    >>> import fgrad.scipy.stats, fgrad.numpy as jnp
    >>> fgrad.scipy.stats.gaussian_kde(jnp.array([0.0, 1.0, 2.0]))(jnp.array([1.0])).shape
    (1,)
    """

    def __init__(self, dataset, bw_method=None, weights=None):
        dataset = jnp.atleast_2d(jnp.asarray(dataset))
        if dataset.dtype.kind == "c":
            raise NotImplementedError("gaussian_kde does not support complex data")
        if dataset.size < 2:
            raise ValueError("`dataset` input should have multiple elements.")
        if weights is None:
            (self.dataset,) = jnp.promote_dtypes_inexact(dataset)
            self.weights = jnp.full(self.n, 1 / self.n, self.dataset.dtype)
        else:
            self.dataset, weights = jnp.promote_dtypes_inexact(dataset, weights)
            if weights.shape != (self.n,):
                raise ValueError(f"`weights` input should be one-dimensional, of length n = {self.n}; got shape {weights.shape}")
            self.weights = weights / jnp.sum(weights)
        self.neff = 1 / jnp.sum(self.weights**2)
        factor = self._factor(bw_method)
        covariance = jnp.atleast_2d(jnp.cov(self.dataset, rowvar=True, bias=False, aweights=self.weights))
        self.covariance = covariance * factor**2
        self.inv_cov = jnp.linalg.inv(covariance) / factor**2

    def _factor(self, bw_method):
        if bw_method is None or isinstance(bw_method, str) and bw_method == "scott":
            return self.neff ** (-1 / (self.d + 4))
        if isinstance(bw_method, str) and bw_method == "silverman":
            return (self.neff * (self.d + 2) / 4) ** (-1 / (self.d + 4))
        if callable(bw_method):
            return bw_method(self)
        if isinstance(bw_method, str) or jnp.ndim(bw_method):
            raise ValueError("`bw_method` should be 'scott', 'silverman', a scalar, or a callable.")
        return bw_method

    def tree_flatten(self):
        """(arrays, None)."""
        return (self.neff, self.dataset, self.weights, self.covariance, self.inv_cov), None

    @classmethod
    def tree_unflatten(cls, _, arrays):
        """The estimate of these arrays."""
        kde = cls.__new__(cls)
        kde.neff, kde.dataset, kde.weights, kde.covariance, kde.inv_cov = arrays
        return kde

    @property
    def d(self):
        """How many numbers a point has."""
        return self.dataset.shape[0]

    @property
    def n(self):
        """How many points there are."""
        return self.dataset.shape[1]

    def logpdf(self, x):
        """The logarithm of the density at points (d, m), or (m,) where d is 1."""
        x, data, low = jnp.promote_dtypes_inexact(self._points(x), self.dataset, jnp.linalg.cholesky(self.inv_cov))
        distance = jnp.sum(jnp.square((low.T @ x)[:, :, None] - (low.T @ data)[:, None, :]), 0)
        norm = jnp.sum(jnp.log(jnp.diagonal(low))) - 0.5 * self.d * math.log(2 * math.pi)
        return logsumexp(jnp.log(self.weights) - 0.5 * distance, axis=1) + norm

    def evaluate(self, points):
        """The density at points (d, m), or (m,) where d is 1."""
        return jnp.exp(self.logpdf(points))

    __call__ = pdf = evaluate

    def _points(self, x):
        x = jnp.atleast_2d(jnp.asarray(x))
        if x.dtype.kind == "c":
            raise NotImplementedError("gaussian_kde does not support complex coordinates")
        if x.shape[0] != self.d:
            if x.shape != (1, self.d):
                raise ValueError(f"points have dimension {x.shape[0]}, dataset has dimension {self.d}")
            x = x.reshape(self.d, 1)
        return x

    def integrate_gaussian(self, mean, cov):
        """The integral of the density times that of a normal distribution."""
        mean, cov = jnp.atleast_1d(jnp.squeeze(jnp.asarray(mean))), jnp.atleast_2d(jnp.asarray(cov))
        if mean.shape != (self.d,):
            raise ValueError(f"mean does not have dimension {self.d}")
        if cov.shape != (self.d, self.d):
            raise ValueError(f"covariance does not have dimension {self.d}")
        return self._against(mean[:, None], self.covariance + cov) @ jnp.ones(1, self.weights.dtype)

    def _against(self, means, cov):
        """For each column of means, the sum over the points of their weights times the normal density of covariance cov."""
        low = jnp.linalg.cholesky(cov)
        spread = (self.dataset[:, None, :] - means[:, :, None]).reshape(self.d, -1)
        z = lax.linalg.triangular_solve(low, spread, left_side=True, lower=True)
        squares = jnp.sum(jnp.square(z), 0).reshape(means.shape[1], self.n)
        norm = jnp.prod(jnp.diagonal(low)) * math.sqrt(2 * math.pi) ** self.d
        return jnp.exp(-0.5 * squares) @ self.weights / norm

    def integrate_box_1d(self, low, high):
        """The probability between two numbers, for d = 1."""
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        if jnp.ndim(low) or jnp.ndim(high):
            raise ValueError("the limits of integration in integrate_box_1d must be scalars")
        sigma, data = jnp.sqrt(self.covariance[0, 0]), self.dataset[0]
        return jnp.sum(self.weights * (ndtr((high - data) / sigma) - ndtr((low - data) / sigma)))

    def integrate_kde(self, other):
        """The integral of the product of two densities."""
        if other.d != self.d:
            raise ValueError("KDEs are not the same dimensionality")
        return self._against(other.dataset, self.covariance + other.covariance) @ other.weights

    def resample(self, key, shape=()):
        """Points (d, *shape) drawn from the density."""
        which, noise = random.split(key)
        chosen = random.choice(which, self.n, shape=shape, p=self.weights)
        zero = jnp.zeros(self.d, self.covariance.dtype)
        eps = random.multivariate_normal(noise, zero, self.covariance, shape=shape, dtype=self.dataset.dtype)
        return self.dataset[:, chosen] + eps.T

    def integrate_box(self, low_bounds, high_bounds, maxpts=None):
        """Not supported; integrate_box_1d is."""
        raise NotImplementedError("only 1D box integrations are supported; use `integrate_box_1d`")

    def set_bandwidth(self, bw_method=None):
        """Not supported: an estimate does not change."""
        raise NotImplementedError("dynamically changing the bandwidth method is not supported")


__all__ = ["gaussian_kde"]
