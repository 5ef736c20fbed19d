"""Losses under optax's names: those of fgrad.nn, and some that are written out."""

import fgrad.numpy as jnp
from fgrad import nn
from fgrad.nn.losses import (
    huber_loss,
    l2_loss,
    sigmoid_binary_cross_entropy,
    smooth_labels,
    softmax_cross_entropy,
    softmax_cross_entropy_with_integer_labels,
    squared_error,
)
from fgrad.optim.classification import (
    kl_divergence_with_log_targets,
    make_fenchel_young_loss,
    multiclass_hinge_loss,
    multiclass_perceptron_loss,
    multiclass_sparsemax_loss,
    ntxent,
    perceptron_loss,
    poly_loss_cross_entropy,
    ranking_softmax_loss,
    sparsemax_loss,
    triplet_margin_loss,
)
from fgrad.optim.segmentation import (
    binary_dice_loss,
    ctc_loss,
    ctc_loss_with_forward_probs,
    dice_loss,
    multiclass_generalized_dice_loss,
)


def log_cosh(predictions, targets=None):
    """log(cosh(predictions - targets)), elementwise: the square near 0, the absolute value far from it."""
    errors = predictions if targets is None else predictions - targets
    return jnp.logaddexp(errors, -errors) - jnp.log(2.0).astype(errors.dtype)


def hinge_loss(predictor_outputs, targets):
    """max(0, 1 - predictor_outputs * targets), elementwise, for targets of -1 and 1."""
    return jnp.maximum(0, 1 - predictor_outputs * targets)


def cosine_similarity(predictions, targets, *, epsilon=0.0, axis=-1, where=None):
    """The cosine of the angle between vectors along `axis`, the squares of whose lengths count as at least `epsilon`."""

    def unit(x):
        squares = jnp.sum(jnp.square(x), axis=axis, keepdims=True, where=where)
        return x / jnp.sqrt(jnp.clip(squares, epsilon))

    return jnp.sum(unit(predictions) * unit(targets), axis=axis, where=where)


def cosine_distance(predictions, targets, *, epsilon=0.0, axis=-1, where=None):
    """1 - cosine_similarity."""
    return 1.0 - cosine_similarity(predictions, targets, epsilon=epsilon, axis=axis, where=where)


def kl_divergence(log_predictions, targets, axis=-1, where=None):
    """sum(targets * (log(targets) - log_predictions)) along `axis`; targets of 0 count as 0."""
    logs = jnp.log(jnp.where(targets == 0, 1, targets))
    return jnp.sum(targets * (logs - log_predictions), axis=axis, where=where)


def generalized_kl_divergence(log_predictions, targets, axis=-1, where=None):
    """kl_divergence + sum(exp(log_predictions) - targets): convex in both, also where they are not normalised."""
    return kl_divergence(log_predictions, targets, axis, where) + jnp.sum(jnp.exp(log_predictions) - targets, axis=axis, where=where)


convex_kl_divergence = generalized_kl_divergence


def safe_softmax_cross_entropy(logits, labels):
    """softmax_cross_entropy along the last axis, where labels of 0 count as 0 even for logits of -inf."""
    logs = nn.log_softmax(logits)
    return -jnp.sum(labels * jnp.where((labels == 0) & jnp.isinf(logs), 0, logs), axis=-1)


def sigmoid_focal_loss(logits, labels, *, alpha=None, gamma=2.0):
    """sigmoid_binary_cross_entropy times (1 - p)^gamma, p the probability of the label (https://arxiv.org/abs/1708.02002).

    alpha: weight of the positive labels, 1 - alpha that of the others.
    """
    labels = jnp.asarray(labels, jnp.asarray(logits).dtype)
    # log(1 - p) from logarithms: its exponential has a derivative where 1 - p is too small for a float
    sides, weights = [nn.log_sigmoid(logits), nn.log_sigmoid(-logits)], [1 - labels, labels]
    wrong = nn.logsumexp(jnp.stack(sides, -1), -1, jnp.stack(weights, -1))
    loss = sigmoid_binary_cross_entropy(logits, labels) * jnp.exp(gamma * wrong)
    return loss if alpha is None else (alpha * labels + (1 - alpha) * (1 - labels)) * loss


__all__ = [
    "kl_divergence_with_log_targets", "make_fenchel_young_loss", "multiclass_hinge_loss", "multiclass_perceptron_loss",
    "multiclass_sparsemax_loss", "ntxent", "perceptron_loss", "poly_loss_cross_entropy", "ranking_softmax_loss", "sparsemax_loss",
    "triplet_margin_loss", "binary_dice_loss", "ctc_loss", "ctc_loss_with_forward_probs", "dice_loss", "multiclass_generalized_dice_loss",
    "convex_kl_divergence",
    "generalized_kl_divergence", "cosine_distance", "cosine_similarity", "hinge_loss", "huber_loss", "kl_divergence", "l2_loss", "log_cosh",
    "safe_softmax_cross_entropy", "sigmoid_binary_cross_entropy", "sigmoid_focal_loss", "smooth_labels", "softmax_cross_entropy",
    "softmax_cross_entropy_with_integer_labels", "squared_error",
]  # fmt: skip
