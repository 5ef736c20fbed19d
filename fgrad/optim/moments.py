"""The adaptive rules: each scales the updates by running moments of the gradients.

A rule is written for one leaf; its results are the update and the leaf's new moments, so that under jit each leaf is one pass over memory.
"""

from typing import Any, NamedTuple

import fgrad.numpy as jnp
from fgrad import tree
from fgrad.optim.base import (
    GradientTransformation,
    abs_sq,
    compiled,
    corrected,
    dtype_of,
    full_like,
    leafwise,
    moment,
    need_params,
    root,
    safe_increment,
    stored,
    zero_count,
    zeros_like,
)


class ScaleByAdamState(NamedTuple):
    """The number of steps, the first and the second moments."""

    count: Any
    mu: Any
    nu: Any


class ScaleByAmsgradState(NamedTuple):
    """Adam's state and the largest second moments so far."""

    count: Any
    mu: Any
    nu: Any
    nu_max: Any


class ScaleByBeliefState(NamedTuple):
    """The number of steps, the mean gradients and the variance about them."""

    count: Any
    mu: Any
    nu: Any


class ScaleByLionState(NamedTuple):
    """The number of steps and the momentum."""

    count: Any
    mu: Any


class ScaleByNovogradState(NamedTuple):
    """The number of steps, the momentum and one second moment a leaf."""

    count: Any
    mu: Any
    nu: Any


class ScaleByAdanState(NamedTuple):
    """Moments of the gradients (m), of their differences (v) and of both (n), the last gradients and the number of steps."""

    m: Any
    v: Any
    n: Any
    g: Any
    t: Any


class _Steps:
    """A number of steps, and the bias corrections that belong to it: all leaves share them."""

    def __init__(self, count):
        self.count, self._corrections = count, {}

    def correction(self, decay, ahead=False):
        """1 - decay^count, or that of the next step."""
        key = id(decay), ahead
        if key not in self._corrections:
            count = safe_increment(self.count) if ahead else self.count
            self._corrections[key] = 1 - decay**count, decay  # which keeps its id
        return self._corrections[key][0]


def _ahead(decay, mu, g, steps, nesterov):
    """The first moment without bias, with Nesterov's look-ahead as in NAdam (Dozat, 2016) if wanted."""
    if not nesterov:
        return corrected(mu, steps.correction(decay))
    return decay * corrected(mu, steps.correction(decay, ahead=True)) + (1 - decay) * corrected(g, steps.correction(decay))


def _adam_like(leaf, state_type=ScaleByAdamState, mu_dtype=None, init_value=0.0):
    """leaf(g, mu, nu, steps) -> (update, mu, nu), made a transformation with Adam's state."""

    def init(params):
        mu = full_like(params, init_value) if mu_dtype is None else zeros_like(params, mu_dtype)
        return state_type(zero_count(), mu, full_like(params, init_value))

    def update(updates, state, params=None):
        steps = _Steps(safe_increment(state.count))

        def step(g, mu, nu):
            u, new_mu, new_nu = leaf(g, mu, nu, steps)
            return u, stored(new_mu, mu), stored(new_nu, nu)

        updates, mu, nu = leafwise(step, updates, state.mu, state.nu, outs=3)
        return updates, state_type(steps.count, mu, nu)

    return GradientTransformation(init, compiled(update))


def scale_by_adam(b1=0.9, b2=0.999, eps=1e-8, eps_root=0.0, mu_dtype=None, *, nesterov=False):
    """Adam's rule (Kingma & Ba, 2015): mu^ / (sqrt(nu^ + eps_root) + eps), the moments without bias; NAdam's with nesterov.

    mu_dtype: the dtype in which the first moment is kept, that of the parameters by default.
    """

    def leaf(g, mu, nu, steps):
        mu, nu = moment(b1, g, mu), moment(b2, abs_sq(g), nu)
        return _ahead(b1, mu, g, steps, nesterov) / (root(corrected(nu, steps.correction(b2)), eps_root) + eps), mu, nu

    return _adam_like(leaf, mu_dtype=mu_dtype)


def scale_by_adamax(b1=0.9, b2=0.999, eps=1e-8):
    """Adam's rule with the infinity norm (Kingma & Ba, 2015, section 7.1)."""

    def leaf(g, mu, nu, steps):
        mu, nu = moment(b1, g, mu), jnp.maximum(jnp.abs(g) + eps, b2 * nu)
        return corrected(mu, steps.correction(b1)) / nu, mu, nu

    return _adam_like(leaf)


def scale_by_belief(b1=0.9, b2=0.999, eps=1e-16, eps_root=1e-16, *, nesterov=False):
    """AdaBelief (Zhuang et al., 2020): Adam's rule with the variance of the gradients about their running mean."""

    def leaf(g, mu, nu, steps):
        mu = moment(b1, g, mu)
        nu = moment(b2, abs_sq(g - mu), nu) + eps_root
        return _ahead(b1, mu, g, steps, nesterov) / (jnp.sqrt(corrected(nu, steps.correction(b2))) + eps), mu, nu

    return _adam_like(leaf, ScaleByBeliefState)


def scale_by_yogi(b1=0.9, b2=0.999, eps=1e-3, eps_root=0.0, initial_accumulator_value=1e-6):
    """Yogi (Zaheer et al., 2018): the second moment moves by an amount that depends on the gradient alone."""

    def leaf(g, mu, nu, steps):
        square = abs_sq(g)
        mu, nu = moment(b1, g, mu), nu - (1 - b2) * jnp.sign(nu - square) * square
        return corrected(mu, steps.correction(b1)) / (root(corrected(nu, steps.correction(b2)), eps_root) + eps), mu, nu

    return _adam_like(leaf, init_value=initial_accumulator_value)


def scale_by_radam(b1=0.9, b2=0.999, eps=1e-8, eps_root=0.0, threshold=5.0, *, nesterov=False):
    """RAdam (Liu et al., 2020): Adam's rule rectified for the variance of its early steps; plain momentum below `threshold`."""
    rho_inf = 2.0 / (1.0 - b2) - 1.0

    def leaf(g, mu, nu, steps):
        mu, nu = moment(b1, g, mu), moment(b2, abs_sq(g), nu)
        power = b2**steps.count
        rho = rho_inf - 2 * steps.count * power / (1 - power)
        rectified = (rho - 4.0) * (rho - 2.0) * rho_inf / ((rho_inf - 4.0) * (rho_inf - 2.0) * rho)
        mean = _ahead(b1, mu, g, steps, nesterov)
        # Below rho = 4 the factor is not real; it is then not used unless the threshold is as low.
        r = jnp.asarray(jnp.sqrt(rectified), mean.dtype)
        adapted = r * mean / (root(corrected(nu, 1 - power), eps_root) + eps)
        return jnp.where(rho >= threshold, adapted, mean), mu, nu

    return _adam_like(leaf)


def scale_by_amsgrad(b1=0.9, b2=0.999, eps=1e-8, eps_root=0.0, mu_dtype=None, bias_correction_mu=True, bias_correction_nu=True):
    """AMSGrad (Reddi et al., 2018): Adam's rule with the largest second moment so far."""

    def init(params):
        return ScaleByAmsgradState(zero_count(), zeros_like(params, mu_dtype), zeros_like(params), zeros_like(params))

    def update(updates, state, params=None):
        steps = _Steps(safe_increment(state.count))

        def leaf(g, mu, nu, most):
            new_mu, new_nu = moment(b1, g, mu), moment(b2, abs_sq(g), nu)
            mean = corrected(new_mu, steps.correction(b1)) if bias_correction_mu else new_mu
            new_most = jnp.maximum(most, corrected(new_nu, steps.correction(b2)) if bias_correction_nu else new_nu)
            return mean / (root(new_most, eps_root) + eps), stored(new_mu, mu), stored(new_nu, nu), stored(new_most, most)

        updates, mu, nu, nu_max = leafwise(leaf, updates, state.mu, state.nu, state.nu_max, outs=4)
        return updates, ScaleByAmsgradState(steps.count, mu, nu, nu_max)

    return GradientTransformation(init, compiled(update))


def scale_by_lion(b1=0.9, b2=0.99, mu_dtype=None, *, mode="hard", smooth_beta=1.0):
    """Lion (Chen et al., 2023): the sign of the interpolated momentum.

    mode: "hard" for the sign, "smooth" for tanh(smooth_beta * x), "refined" for x itself where |x| < 1.
    """
    bounds = {
        "hard": jnp.sign,
        "smooth": lambda x: jnp.tanh(smooth_beta * x),
        "refined": lambda x: jnp.where(jnp.abs(x) < 1.0, x, jnp.sign(x)),
    }
    if mode not in bounds:
        raise ValueError(f"scale_by_lion: mode must be one of {sorted(bounds)}, got {mode!r}")

    def leaf(g, mu):
        return bounds[mode](moment(b1, g, mu)), stored(moment(b2, g, mu), mu)

    def update(updates, state, params=None):
        updates, mu = leafwise(leaf, updates, state.mu, outs=2)
        return updates, ScaleByLionState(safe_increment(state.count), mu)

    return GradientTransformation(lambda params: ScaleByLionState(zero_count(), zeros_like(params, mu_dtype)), compiled(update))


def scale_by_novograd(b1=0.9, b2=0.25, eps=1e-8, eps_root=0.0, weight_decay=0.0, mu_dtype=None):
    """NovoGrad (Ginsburg et al., 2019): momentum of gradients normalised by one second moment a leaf, with decay inside it."""

    def init(params):
        norms = tree.map(lambda p: jnp.zeros((), jnp.finfo(dtype_of(p)).dtype), params)
        return ScaleByNovogradState(zero_count(), zeros_like(params, mu_dtype), norms)

    def update(updates, state, params=None):
        need_params("scale_by_novograd", params)
        first = state.count == 0

        def leaf(g, p, mu, nu):
            square = jnp.sum(abs_sq(g))
            new_nu = jnp.where(first, square, moment(b2, square, nu))
            step = g / (root(new_nu, eps_root) + eps) + weight_decay * p
            new_mu = stored(jnp.where(first, step, b1 * mu + step), mu)
            return new_mu, new_mu, stored(new_nu, nu)

        updates, mu, nu = leafwise(leaf, updates, params, state.mu, state.nu, outs=3)
        return updates, ScaleByNovogradState(safe_increment(state.count), mu, nu)

    return GradientTransformation(init, compiled(update))


def scale_by_adan(b1=0.98, b2=0.92, b3=0.99, eps=1e-8, eps_root=0.0):
    """Adan (Xie et al., 2022): Nesterov's momentum through the differences of successive gradients."""

    def init(params):
        return ScaleByAdanState(*(zeros_like(params) for _ in range(4)), zero_count())

    def update(updates, state, params=None):
        t = safe_increment(state.t)

        def leaf(g, m, v, n, last):
            difference = jnp.where(state.t == 0, jnp.zeros_like(g), g - last)
            new_m, new_v = moment(b1, g, m), moment(b2, difference, v)
            new_n = moment(b3, abs_sq(g + (1 - b2) * difference), n)
            step = corrected(new_m, 1 - b1**t) + (1 - b2) * corrected(new_v, 1 - b2**t)
            step = step / (root(corrected(new_n, 1 - b3**t), eps_root) + eps)
            return step, stored(new_m, m), stored(new_v, v), stored(new_n, n), stored(g, last)

        updates, *moments = leafwise(leaf, updates, *state[:4], outs=5)
        return updates, ScaleByAdanState(*moments, t)

    return GradientTransformation(init, compiled(update))
