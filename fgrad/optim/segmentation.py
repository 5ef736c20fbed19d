"""Losses of overlap (Dice, Tversky) and of alignment (CTC), under optax's names."""

import fgrad.numpy as jnp
from fgrad import lax, nn
from fgrad.errors import ShapeError

__all__ = ["binary_dice_loss", "ctc_loss", "ctc_loss_with_forward_probs", "dice_loss", "multiclass_generalized_dice_loss"]


def dice_loss(
    predictions, targets, *, class_weights=None, smooth=1.0, alpha=0.5, beta=0.5, apply_softmax=True, reduction="mean",
    ignore_background=False, axis=None,
):  # fmt: skip
    """1 - overlap / (overlap + alpha * false positives + beta * false negatives), of (batch, ..., classes), by default over the axes
    between (https://arxiv.org/abs/1606.04797, https://arxiv.org/abs/1706.05721).

    smooth: added to numerator and denominator; apply_softmax: predictions are logits (a sigmoid where there is one class); reduction
    over classes: "mean", "sum" or "none"; ignore_background: class 0 does not count.
    """
    if predictions.ndim == targets.ndim - 1:
        predictions = predictions[..., None]
    if targets.ndim == predictions.ndim - 1:
        targets = targets[..., None]
    if predictions.shape != targets.shape:
        raise ShapeError(f"dice_loss: shapes {predictions.shape} and {targets.shape} differ")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f'dice_loss: reduction must be "mean", "sum" or "none", got {reduction!r}')
    if apply_softmax:
        predictions = nn.sigmoid(predictions) if predictions.shape[-1] == 1 else nn.softmax(predictions, axis=-1)
    elif not jnp.allclose(jnp.sum(predictions, axis=-1), 1.0, rtol=1e-5):
        raise ValueError("dice_loss: without apply_softmax, predictions must be probabilities that sum to 1 over the classes")
    axes = tuple(range(1, predictions.ndim - 1)) if axis is None else axis
    overlap, predicted, wanted = (jnp.sum(x, axis=axes) for x in (predictions * targets, predictions, targets))
    loss = 1 - (overlap + smooth) / (overlap + alpha * (predicted - overlap) + beta * (wanted - overlap) + smooth)
    if class_weights is not None:
        loss = loss * class_weights
    if ignore_background and predictions.shape[-1] > 1:
        loss = loss[..., 1:]
    return loss if reduction == "none" else getattr(jnp, reduction)(loss, axis=-1)


def multiclass_generalized_dice_loss(predictions, targets, *, smooth=1.0, apply_softmax=True, ignore_background=False):
    """The mean dice_loss with classes weighted by their inverse squared frequency (https://arxiv.org/abs/1707.03237)."""
    weights = 1 / (jnp.sum(targets, axis=tuple(range(targets.ndim - 1))) ** 2 + 1e-7)
    weights = weights / jnp.sum(weights) * weights.size
    return jnp.mean(
        dice_loss(
            predictions, targets, class_weights=weights, smooth=smooth, apply_softmax=apply_softmax, reduction="none",
            ignore_background=ignore_background,
        )
    )  # fmt: skip


def binary_dice_loss(predictions, targets, *, smooth=1.0, apply_sigmoid=True):
    """dice_loss of one class; a last axis of another size than 1 counts as positions."""
    if predictions.ndim == targets.ndim and predictions.shape[-1] != 1:
        predictions, targets = predictions[..., None], targets[..., None]
    return dice_loss(predictions, targets, smooth=smooth, apply_softmax=apply_sigmoid)


def ctc_loss_with_forward_probs(logits, logit_paddings, labels, label_paddings, *, blank_id=0, log_epsilon=-1e5):
    """(loss, blanks, emissions) of connectionist temporal classification (https://dl.acm.org/doi/10.1145/1143844.1143891).

    logits (batch, times, classes); labels (batch, n); paddings are 1 where there is nothing, at the end. loss (batch,): minus the
    log probability of the labels with any repetitions and blanks between. blanks (times, batch, n + 1) and emissions
    (times, batch, n): log probabilities of the beginnings that end in a blank after so many labels, or in that label.
    log_epsilon: the logarithm that stands for a probability of 0.
    """
    if logits.ndim != 3 or labels.ndim != 2 or logits.shape[0] != labels.shape[0]:
        raise ValueError(f"ctc_loss: expected logits (batch, times, classes) and labels (batch, n), got {logits.shape}, {labels.shape}")
    if labels.shape != label_paddings.shape or logits.shape[:2] != logit_paddings.shape:
        raise ValueError("ctc_loss: paddings must have the shapes of labels and of logits without classes")
    batch, n = labels.shape
    logs = nn.log_softmax(logits)
    of_label = jnp.take_along_axis(logs, jnp.clip(labels, 0, logits.shape[-1] - 1)[:, None, :], axis=2).transpose(1, 0, 2)
    of_label = jnp.where((labels >= 0) & (labels < logits.shape[-1]), of_label, 0)
    of_blank = logs[:, :, blank_id].T[:, :, None]
    # From one label to the next without a blank between: not to the same label again.
    barrier = log_epsilon * jnp.pad((labels[:, :-1] == labels[:, 1:]).astype(logs.dtype), ((0, 0), (0, 1)))

    def after(blank, label):
        return jnp.concatenate([blank[:, :1], jnp.logaddexp(blank[:, 1:], label)], axis=1)

    def step(carry, x):
        blank, label = carry
        p_label, p_blank, pad = x
        next_label = p_label + jnp.logaddexp(after(blank, label + barrier)[:, :-1], label)
        next_blank = p_blank + after(blank, label)
        pad = pad[:, None] != 0
        carry = jnp.where(pad, blank, next_blank), jnp.where(pad, label, next_label)
        return carry, carry

    start = jnp.full((batch, n + 1), log_epsilon, logs.dtype).at[:, 0].set(0), jnp.full((batch, n), log_epsilon, logs.dtype)
    _, (blanks, emissions) = lax.scan(step, start, (of_label, of_blank, logit_paddings.T))
    last = after(blanks[-1], emissions[-1])
    count = n - jnp.sum(label_paddings, axis=1).astype(int)
    loss = -jnp.take_along_axis(last, count[:, None], axis=1)[:, 0]
    return loss, blanks.at[-1].set(last), emissions


def ctc_loss(logits, logit_paddings, labels, label_paddings, *, blank_id=0, log_epsilon=-1e5):
    """The loss of ctc_loss_with_forward_probs, (batch,)."""
    return ctc_loss_with_forward_probs(logits, logit_paddings, labels, label_paddings, blank_id=blank_id, log_epsilon=log_epsilon)[0]
