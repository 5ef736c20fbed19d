"""Random numbers as jax.random: explicit keys, threefry-2x32 with partitionable counters (or, by a setting, the older ones)."""

from fgrad.random.basic import bits, exponential, gumbel, laplace, logistic, normal, randint, truncated_normal, uniform
from fgrad.random.discrete import bernoulli, binomial, categorical, geometric, multinomial, poisson, rademacher
from fgrad.random.gamma import ball, beta, chisquare, dirichlet, f, gamma, generalized_normal, loggamma, t
from fgrad.random.keys import (
    KeyArray,
    PRNGKey,
    clone,
    default_prng_impl,
    fold_in,
    key,
    key_data,
    key_dtype,
    key_impl,
    split,
    wrap_key_data,
)
from fgrad.random.real import (
    cauchy,
    double_sided_maxwell,
    lognormal,
    maxwell,
    multivariate_normal,
    orthogonal,
    pareto,
    rayleigh,
    triangular,
    wald,
    weibull_min,
)
from fgrad.random.sampling import choice, permutation
