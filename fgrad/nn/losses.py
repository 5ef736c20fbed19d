"""Loss functions, with optax's names and meaning."""

import numpy as np

import fgrad.numpy as jnp
from fgrad.api import jit
from fgrad.errors import ShapeError
from fgrad.nn.activations import log_sigmoid
from fgrad.nn.functions import log_softmax, logsumexp
from fgrad.numpy.util import axis_tuple, unary
from fgrad.ops import loss as loss_ops
from fgrad.ops.shape import reshape, transpose


def softmax_cross_entropy(logits, labels, axis=-1, where=None):
    """-sum(labels * log_softmax(logits)) over `axis`.

    labels: probabilities (one-hot or soft) that broadcast against logits; where: mask of the classes that take part, or, without
    `axis`, of the rows (others give 0). The result has no `axis`.
    """
    where = _of_classes(where, logits, axis)
    logp = log_softmax(logits, axis, where)
    return -jnp.sum(labels * logp, axis=axis, where=where)


def _of_classes(where, logits, axis):
    """A mask of rows as one of classes."""
    return where if where is None or jnp.ndim(where) == jnp.ndim(logits) else jnp.expand_dims(where, axis)


def smooth_labels(labels, alpha, *, axis=-1, where=None):
    """(1 - alpha) * labels + alpha / classes: labels for softmax_cross_entropy that leave `alpha` to all classes alike.

    labels: one-hot or probabilities with the classes along `axis`, of a float dtype (https://arxiv.org/abs/1512.00567).
    where: the elements that are classes.

    >>> import fgrad.nn, fgrad.numpy as jnp
    >>> fgrad.nn.smooth_labels(jnp.array([1.0, 0.0]), 0.5)
    Array([0.75, 0.25], dtype=float32)
    """
    labels = unary("smooth_labels", labels)
    if not jnp.issubdtype(labels.dtype, jnp.floating):
        raise TypeError(f"smooth_labels takes labels of a float dtype (one_hot gives them), got {labels.dtype.name}")
    if not labels.ndim:
        raise ShapeError("smooth_labels: labels must have an axis of classes, got a single number")
    classes = labels.shape[axis] if where is None else jnp.sum(where, axis, keepdims=True)
    return (1 - alpha) * labels + alpha / classes


def softmax_cross_entropy_with_integer_labels(logits, labels, axis=-1, where=None):
    """-log_softmax(logits)[label] over `axis`, reading the logits once forward and once backward.

    logits: floats with the classes along `axis` (an int or a tuple of axes, whose elements count in row-major order); labels:
    integers of logits' shape without `axis`. A label outside [0, classes) ignores its row: loss 0 and no gradient.
    where: mask of the classes that the sum of exponentials takes, or, without `axis`, of the rows; a row without any gives 0.

    >>> import fgrad.nn, fgrad.numpy as jnp
    >>> fgrad.nn.softmax_cross_entropy_with_integer_labels(jnp.zeros((2, 4)), jnp.array([1, 3]))
    Array([1.3862944, 1.3862944], dtype=float32)
    """
    logits, labels = unary("softmax_cross_entropy_with_integer_labels", logits, inexact=True), jnp.asarray(labels)
    axes = axis_tuple(axis, logits.ndim)
    others = [i for i in range(logits.ndim) if i not in axes]
    lead = tuple(logits.shape[i] for i in others)
    if labels.shape != lead:
        raise ShapeError(f"labels must have the shape of logits {logits.shape} without axis {axis}, which is {lead}; got {labels.shape}")
    rows = reshape(transpose(logits, (*others, *axes)), (*lead, int(np.prod([logits.shape[i] for i in axes]))))
    if where is None:
        return loss_ops.cross_entropy(rows, labels)[0]
    where = jnp.broadcast_to(_of_classes(where, logits, axis), logits.shape)
    where = reshape(transpose(where, (*others, *axes)), rows.shape)
    label = jnp.take_along_axis(rows, labels[..., None], -1)[..., 0]
    return jnp.where(where.any(-1), logsumexp(rows, -1, where=where) - label, 0)


@jit
def sigmoid_binary_cross_entropy(logits, labels):
    """-labels * log(sigmoid(logits)) - (1 - labels) * log(1 - sigmoid(logits)), element by element; labels in [0, 1]."""
    logits = unary("sigmoid_binary_cross_entropy", logits, inexact=True)
    return -labels * log_sigmoid(logits) - (1 - labels) * log_sigmoid(-logits)


@jit
def squared_error(predictions, targets=None):
    """(predictions - targets)^2, element by element; targets are 0 if None."""
    predictions = unary("squared_error", predictions, inexact=True)
    if targets is not None and jnp.shape(targets) not in ((), predictions.shape):
        raise ShapeError(f"squared_error: targets must have the shape of predictions {predictions.shape}, got {jnp.shape(targets)}")
    return jnp.square(predictions if targets is None else predictions - targets)


@jit
def l2_loss(predictions, targets=None):
    """Half the squared error, element by element."""
    return 0.5 * squared_error(predictions, targets)


def mse(predictions, targets=None, axis=None):
    """The mean squared error over `axis` (over all elements by default)."""
    return jnp.mean(squared_error(predictions, targets), axis=axis)


@jit
def huber_loss(predictions, targets=None, delta=1.0):
    """Half the squared error up to an error of delta, linear beyond it (Huber, 1964), element by element."""
    predictions = unary("huber_loss", predictions, inexact=True)
    error = jnp.abs(predictions if targets is None else predictions - targets)
    near = jnp.minimum(error, delta)
    return 0.5 * jnp.square(near) + delta * (error - near)


huber = huber_loss
