"""Whole optimizers: chains of the rules, with a learning rate (a number, a scalar array or a schedule) and a descent sign."""

import fgrad.numpy as jnp
from fgrad.optim.base import identity
from fgrad.optim.clipping import clip_by_block_rms
from fgrad.optim.combining import chain
from fgrad.optim.masking import masked
from fgrad.optim.moments import (
    scale_by_adam,
    scale_by_adamax,
    scale_by_adan,
    scale_by_amsgrad,
    scale_by_belief,
    scale_by_lion,
    scale_by_novograd,
    scale_by_radam,
    scale_by_yogi,
)
from fgrad.optim.scaling import (
    add_decayed_weights,
    add_noise,
    ema,
    scale,
    scale_by_learning_rate,
    scale_by_param_block_rms,
    scale_by_polyak,
    scale_by_sign,
    scale_by_trust_ratio,
    trace,
)
from fgrad.optim.squares import (
    scale_by_adadelta,
    scale_by_factored_rms,
    scale_by_rms,
    scale_by_rprop,
    scale_by_rss,
    scale_by_sm3,
    scale_by_stddev,
)


def sgd(learning_rate, momentum=None, nesterov=False, accumulator_dtype=None):
    """Stochastic gradient descent, with (Nesterov) momentum (Sutskever et al., 2013) kept in accumulator_dtype."""
    first = identity() if momentum is None else trace(momentum, nesterov, accumulator_dtype)
    return chain(first, scale_by_learning_rate(learning_rate))


def noisy_sgd(learning_rate, eta=0.01, gamma=0.55, key=None, *, seed=None):
    """Gradient descent with noise of variance eta / t^gamma (Neelakantan et al., 2015)."""
    return chain(add_noise(eta, gamma, key, seed=seed), scale_by_learning_rate(learning_rate))


def sign_sgd(learning_rate):
    """Steps of the gradient's sign (Bernstein et al., 2018)."""
    return chain(scale_by_sign(), scale_by_learning_rate(learning_rate))


def signum(learning_rate, beta=0.9, accumulator_dtype=None):
    """Steps of the sign of the gradients' moving average (Bernstein et al., 2018)."""
    return chain(ema(beta, debias=False, accumulator_dtype=accumulator_dtype), scale_by_sign(), scale_by_learning_rate(learning_rate))


def polyak_sgd(max_learning_rate=1.0, scaling=1.0, f_min=0.0, eps=0.0, variant="sps"):
    """Gradient descent with `scaling` times Polyak's step (Loizou et al., 2021). The update takes `value`, the loss, by keyword."""
    return chain(scale_by_polyak(f_min, max_learning_rate, eps, variant), scale_by_learning_rate(scaling))


def adam(learning_rate, b1=0.9, b2=0.999, eps=1e-8, eps_root=0.0, mu_dtype=None, *, nesterov=False):
    """Adam (Kingma & Ba, 2015)."""
    return chain(scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov), scale_by_learning_rate(learning_rate))


def nadam(learning_rate, b1=0.9, b2=0.999, eps=1e-8, eps_root=0.0, mu_dtype=None, *, nesterov=True):
    """Adam with Nesterov's momentum (Dozat, 2016)."""
    return adam(learning_rate, b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov)


def adamw(learning_rate, b1=0.9, b2=0.999, eps=1e-8, eps_root=0.0, mu_dtype=None, weight_decay=1e-4, mask=None, *, nesterov=False):
    """Adam with decoupled weight decay (Loshchilov & Hutter, 2019).

    mask: a tree of booleans (or a function of the parameters that gives one): which leaves decay. mu_dtype: of the first moment.

    >>> import fgrad
    >>> init, update = fgrad.optim.adamw(0.1)
    >>> params = {"w": 1.0}
    >>> updates, state = update({"w": 2.0}, init(params), params)
    >>> round(float(updates["w"]), 4)
    -0.1
    """
    rule = scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov)
    return chain(rule, add_decayed_weights(weight_decay, mask), scale_by_learning_rate(learning_rate))


def nadamw(learning_rate, b1=0.9, b2=0.999, eps=1e-8, eps_root=0.0, mu_dtype=None, weight_decay=1e-4, mask=None, *, nesterov=True):
    """AdamW with Nesterov's momentum."""
    return adamw(learning_rate, b1, b2, eps, eps_root, mu_dtype, weight_decay, mask, nesterov=nesterov)


def adamax(learning_rate, b1=0.9, b2=0.999, eps=1e-8):
    """Adam with the infinity norm (Kingma & Ba, 2015)."""
    return chain(scale_by_adamax(b1, b2, eps), scale_by_learning_rate(learning_rate))


def adamaxw(learning_rate, b1=0.9, b2=0.999, eps=1e-8, weight_decay=1e-4, mask=None):
    """Adamax with decoupled weight decay."""
    return chain(scale_by_adamax(b1, b2, eps), add_decayed_weights(weight_decay, mask), scale_by_learning_rate(learning_rate))


def amsgrad(learning_rate, b1=0.9, b2=0.999, eps=1e-8, eps_root=0.0, mu_dtype=None, bias_correction_mu=True, bias_correction_nu=True):
    """Adam with the largest second moment so far (Reddi et al., 2018)."""
    rule = scale_by_amsgrad(b1, b2, eps, eps_root, mu_dtype, bias_correction_mu, bias_correction_nu)
    return chain(rule, scale_by_learning_rate(learning_rate))


def radam(learning_rate, b1=0.9, b2=0.999, eps=1e-8, eps_root=0.0, threshold=5.0, *, nesterov=False):
    """Rectified Adam (Liu et al., 2020)."""
    return chain(scale_by_radam(b1, b2, eps, eps_root, threshold, nesterov=nesterov), scale_by_learning_rate(learning_rate))


def adabelief(learning_rate, b1=0.9, b2=0.999, eps=1e-16, eps_root=1e-16, *, nesterov=False):
    """AdaBelief (Zhuang et al., 2020)."""
    return chain(scale_by_belief(b1, b2, eps, eps_root, nesterov=nesterov), scale_by_learning_rate(learning_rate))


def yogi(learning_rate, b1=0.9, b2=0.999, eps=1e-3):
    """Yogi (Zaheer et al., 2018)."""
    return chain(scale_by_yogi(b1, b2, eps), scale_by_learning_rate(learning_rate))


def adan(learning_rate, b1=0.98, b2=0.92, b3=0.99, eps=1e-8, eps_root=1e-8, weight_decay=0.0, mask=None):
    """Adan (Xie et al., 2022)."""
    return chain(scale_by_adan(b1, b2, b3, eps, eps_root), add_decayed_weights(weight_decay, mask), scale_by_learning_rate(learning_rate))


def adagrad(learning_rate, initial_accumulator_value=0.1, eps=1e-7):
    """AdaGrad (Duchi et al., 2011)."""
    return chain(scale_by_rss(initial_accumulator_value, eps), scale_by_learning_rate(learning_rate))


def adadelta(learning_rate=None, rho=0.9, eps=1e-6, weight_decay=0.0, weight_decay_mask=None):
    """Adadelta (Zeiler, 2012), with decay added to the gradients. Pass 1.0 for the paper's rule: None does not descend."""
    return chain(add_decayed_weights(weight_decay, weight_decay_mask), scale_by_adadelta(rho, eps), scale_by_learning_rate(learning_rate))


def rmsprop(
    learning_rate,
    decay=0.9,
    eps=1e-8,
    initial_scale=0.0,
    eps_in_sqrt=True,
    centered=False,
    momentum=None,
    nesterov=False,
    bias_correction=False,
):
    """RMSProp (Hinton, 2012), centered (Graves, 2013) if wanted, with momentum on the steps."""
    rule = scale_by_stddev if centered else scale_by_rms
    last = identity() if momentum is None else trace(momentum, nesterov)
    return chain(rule(decay, eps, initial_scale, eps_in_sqrt, bias_correction), scale_by_learning_rate(learning_rate), last)


def rprop(learning_rate, eta_minus=0.5, eta_plus=1.2, min_step_size=1e-6, max_step_size=50.0):
    """Resilient propagation (Riedmiller & Braun, 1993), for whole batches; learning_rate is the first step of each element."""
    return chain(scale_by_rprop(learning_rate, eta_minus, eta_plus, min_step_size, max_step_size), scale(-1.0))


def lion(learning_rate, b1=0.9, b2=0.99, mu_dtype=None, weight_decay=1e-3, mask=None):
    """Lion (Chen et al., 2023), with decoupled weight decay."""
    return chain(scale_by_lion(b1, b2, mu_dtype), add_decayed_weights(weight_decay, mask), scale_by_learning_rate(learning_rate))


def lamb(learning_rate, b1=0.9, b2=0.999, eps=1e-6, eps_root=0.0, weight_decay=0.0, mask=None):
    """LAMB (You et al., 2020): AdamW with a trust ratio a leaf."""
    rule = scale_by_adam(b1, b2, eps, eps_root)
    return chain(rule, add_decayed_weights(weight_decay, mask), scale_by_trust_ratio(), scale_by_learning_rate(learning_rate))


def lars(
    learning_rate,
    weight_decay=0.0,
    weight_decay_mask=True,
    trust_coefficient=0.001,
    eps=0.0,
    trust_ratio_mask=True,
    momentum=0.9,
    nesterov=False,
):
    """LARS (You et al., 2017): momentum with a trust ratio a leaf. The masks say which leaves decay and which have a trust ratio."""
    return chain(
        add_decayed_weights(weight_decay, weight_decay_mask),
        masked(scale_by_trust_ratio(trust_coefficient=trust_coefficient, eps=eps), trust_ratio_mask),
        scale_by_learning_rate(learning_rate),
        trace(momentum, nesterov),
    )


def fromage(learning_rate, min_norm=1e-6):
    """Fromage (Bernstein et al., 2020): steps relative to the norm of each leaf, which do not let it grow."""
    if not callable(learning_rate):
        shrink = (1 + learning_rate**2) ** -0.5
        return chain(scale_by_trust_ratio(min_norm), scale_by_learning_rate(learning_rate * shrink), add_decayed_weights(shrink - 1))
    shrinks = lambda count: (1 + learning_rate(count) ** 2) ** -0.5
    rate = scale_by_learning_rate(lambda count: shrinks(count) * learning_rate(count))
    return chain(scale_by_trust_ratio(min_norm), rate, add_decayed_weights(lambda count: shrinks(count) - 1))


def novograd(learning_rate, b1=0.9, b2=0.25, eps=1e-6, eps_root=0.0, weight_decay=0.0):
    """NovoGrad (Ginsburg et al., 2019)."""
    return chain(scale_by_novograd(b1, b2, eps, eps_root, weight_decay), scale_by_learning_rate(learning_rate))


def sm3(learning_rate, momentum=0.9):
    """SM3 (Anil et al., 2019): AdaGrad with memory in the sum of a leaf's sides."""
    return chain(scale_by_sm3(momentum), scale_by_learning_rate(learning_rate))


def adafactor(
    learning_rate=None,
    min_dim_size_to_factor=128,
    decay_rate=0.8,
    decay_offset=0,
    multiply_by_parameter_scale=True,
    clipping_threshold=1.0,
    momentum=None,
    dtype_momentum=jnp.float32,
    weight_decay_rate=None,
    eps=1e-30,
    factored=True,
    weight_decay_mask=None,
):
    """Adafactor (Shazeer & Stern, 2018): factored second moments, steps relative to the parameters' scale and clipped a leaf."""
    steps = [scale_by_factored_rms(factored, decay_rate, decay_offset, min_dim_size_to_factor, eps)]
    if clipping_threshold is not None:
        steps.append(clip_by_block_rms(clipping_threshold))
    if learning_rate is not None:
        steps.append(scale_by_learning_rate(learning_rate, flip_sign=False))
    if multiply_by_parameter_scale:
        steps.append(scale_by_param_block_rms())
    if momentum is not None:
        steps.append(ema(momentum, debias=False, accumulator_dtype=dtype_momentum))
    if weight_decay_rate is not None:
        steps.append(add_decayed_weights(weight_decay_rate, weight_decay_mask))
    return chain(*steps, scale(-1))
