"""Losses and optimizer steps."""

import math

import fgrad.numpy as jnp
from fgrad import nn
from fgrad.ggml.util import floats, need

__all__ = [
    "cross_entropy_loss",
    "cross_entropy_loss_back",
    "opt_step_adamw",
    "opt_step_sgd",
]


def cross_entropy_loss(a, b):
    """-sum(b * log_softmax(a)) / rows: a logits and b probabilities of one shape, classes along the last axis; a scalar."""
    a, b = floats("cross_entropy_loss", a, b)
    need(a.shape == b.shape and a.ndim > 0, "cross_entropy_loss", f"logits and labels must have one shape, got {a.shape} and {b.shape}")
    return jnp.sum(nn.softmax_cross_entropy(a, b)) / math.prod(a.shape[:-1])


def cross_entropy_loss_back(a, b, c):
    """(softmax(b) - c) * a / rows: the cotangent of the logits b with labels c for a cotangent a of the loss, of one element.

    This is exact for labels whose rows sum to 1; it is the formula that ggml has.
    """
    a, b, c = floats("cross_entropy_loss_back", a, b, c)
    need(a.size == 1, "cross_entropy_loss_back", f"the cotangent must have one element, got shape {a.shape}")
    need(
        b.shape == c.shape and b.ndim > 0, "cross_entropy_loss_back", f"logits and labels must have one shape, got {b.shape} and {c.shape}"
    )
    return (nn.softmax(b) - c) * (jnp.reshape(a, ()) / math.prod(b.shape[:-1]))


def opt_step_adamw(a, grad, m, v, adamw_params):
    """One step of AdamW (https://arxiv.org/abs/1711.05101): (parameters, first moments, second moments).

    adamw_params: (7,): rate, beta1, beta2, eps, decay, 1 / (1 - beta1^t), 1 / (1 - beta2^t).
    """
    a, grad, m, v, p = floats("opt_step_adamw", a, grad, m, v, adamw_params)
    need(a.shape == grad.shape == m.shape == v.shape, "opt_step_adamw", f"shapes differ: {a.shape}, {grad.shape}, {m.shape}, {v.shape}")
    need(p.shape == (7,), "opt_step_adamw", f"adamw_params must have 7 elements, got shape {p.shape}")
    rate, beta1, beta2, eps, decay, fix1, fix2 = (p[i] for i in range(7))
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * jnp.square(grad)
    return a * (1 - rate * decay) - rate * (m * fix1) / (jnp.sqrt(v * fix2) + eps), m, v


def opt_step_sgd(a, grad, sgd_params):
    """One step of gradient descent with weight decay; sgd_params: (2,): rate, decay."""
    a, grad, p = floats("opt_step_sgd", a, grad, sgd_params)
    need(a.shape == grad.shape, "opt_step_sgd", f"the parameters {a.shape} and their gradient {grad.shape} must have one shape")
    need(p.shape == (2,), "opt_step_sgd", f"sgd_params must have 2 elements, got shape {p.shape}")
    return a * (1 - p[0] * p[1]) - p[0] * grad
