"""More losses of scores against labels, under optax's names: margins, sparsemax, contrasts, rankings."""

import numpy as np

import fgrad.numpy as jnp
from fgrad import lax, nn
from fgrad.errors import ShapeError
from fgrad.nn.losses import softmax_cross_entropy
from fgrad.optim.projections import projection_simplex

__all__ = """
    kl_divergence_with_log_targets make_fenchel_young_loss multiclass_hinge_loss multiclass_perceptron_loss multiclass_sparsemax_loss
    ntxent perceptron_loss poly_loss_cross_entropy ranking_softmax_loss sparsemax_loss triplet_margin_loss
""".split()


def perceptron_loss(predictor_outputs, targets):
    """max(0, -predictor_outputs * targets), elementwise, for targets of -1 and 1."""
    if jnp.shape(predictor_outputs) != jnp.shape(targets):
        raise ShapeError(f"perceptron_loss: shapes {jnp.shape(predictor_outputs)} and {jnp.shape(targets)} differ")
    return jnp.maximum(0, -predictor_outputs * targets)


def sparsemax_loss(logits, labels):
    """sparse_plus of the logits, negated where the label is true (https://arxiv.org/abs/1602.02068)."""
    return nn.sparse_plus(jnp.where(labels, -logits, logits))


def _margin(scores, labels, margin):
    hot = nn.one_hot(labels, scores.shape[-1])
    return jnp.max(scores + margin * (1 - hot), axis=-1) - jnp.sum(scores * hot, axis=-1)


def multiclass_hinge_loss(scores, labels):
    """How far the greatest score, others than the label's raised by 1, is above the label's."""
    return _margin(scores, labels, 1)


def multiclass_perceptron_loss(scores, labels):
    """How far the greatest score is above the label's."""
    return _margin(scores, labels, 0)


def multiclass_sparsemax_loss(scores, labels):
    """The Fenchel-Young loss of the projection p of scores (n, classes) onto the simplex: its gradient is p - one_hot(labels)."""

    def loss(s, label):
        s = s - s[label]
        p = projection_simplex(s)
        return jnp.dot(p, s) + 0.5 * (1 - jnp.dot(p, p))

    return jnp.vectorize(loss, signature="(n),()->()")(scores, labels)


def make_fenchel_young_loss(max_fun):
    """The loss max_fun(scores) - <targets, scores> over the last axis (https://arxiv.org/abs/1901.02324).

    max_fun: takes a vector, and further arguments of the loss, to a number.
    """

    def fenchel_young_loss(scores, targets, *args, **kwargs):
        value = jnp.vectorize(lambda s: max_fun(s, *args, **kwargs), signature="(n)->()")(scores)
        return value - jnp.vectorize(jnp.vdot, signature="(n),(n)->()")(targets, scores)

    return fenchel_young_loss


def poly_loss_cross_entropy(logits, labels, *, epsilon=2.0, axis=-1, where=None):
    """softmax_cross_entropy + epsilon * (1 - the labels' probability) (https://arxiv.org/abs/2204.12511)."""
    missed = jnp.sum(labels * (1 - nn.softmax(logits, axis, where)), axis=axis, where=where)
    return softmax_cross_entropy(logits, labels, axis, where) + epsilon * missed


def kl_divergence_with_log_targets(log_predictions, log_targets, axis=-1, where=None):
    """sum(exp(log_targets) * (log_targets - log_predictions)) along `axis`."""
    return jnp.sum(jnp.exp(log_targets) * (log_targets - log_predictions), axis=axis, where=where)


def ranking_softmax_loss(logits, labels, *, where=None, weights=None, reduce_fn=jnp.mean):
    """-sum(labels * log_softmax(logits)) over the last axis, the items of a list (https://dl.acm.org/doi/10.1145/3341981.3344221).

    where: which items count; weights: factors of the labels; reduce_fn: what becomes of the lists' losses (None: they are returned).
    A list without items counts neither in a mean nor as more than 0.
    """
    labels, kept = labels.astype(logits.dtype), None
    if where is not None:
        labels, logits, kept = jnp.where(where, labels, 0), jnp.where(where, logits, -np.inf), jnp.any(where, axis=-1)
    if weights is not None:
        labels = labels * weights
    loss = -jnp.sum(labels * nn.log_softmax(logits, axis=-1), axis=-1, where=where)
    if reduce_fn is None:
        return loss if kept is None else jnp.where(kept, loss, 0)
    out = reduce_fn(loss, where=kept)
    return jnp.where(jnp.isnan(out) & ~jnp.any(jnp.isnan(loss)), 0, out) if reduce_fn is jnp.mean else out


def ntxent(embeddings, labels, temperature=0.07):
    """The contrast of pairs of one label with the pairs of different labels (normalised temperature-scaled cross entropy,
    https://arxiv.org/abs/2002.05709), of embeddings (n, features), by their cosines over temperature; a mean over the pairs."""
    n = embeddings.shape[0]
    if labels.shape[0] != n:
        raise ValueError(f"ntxent: labels {labels.shape} and embeddings {embeddings.shape} must have the same leading dimension")
    squares = jnp.sum(jnp.square(embeddings), axis=-1, keepdims=True)
    unit = embeddings / jnp.sqrt(jnp.maximum(squares, jnp.finfo(embeddings.dtype).eps))
    cosines = unit @ unit.T / temperature
    same = labels[:, None] == labels[None, :]
    pairs = same & ~jnp.eye(n, dtype=bool)
    shifted = cosines - lax.stop_gradient(jnp.max(jnp.where(same & ~pairs, -np.inf, cosines), axis=1, keepdims=True))
    others = jnp.sum(jnp.where(same, 0, jnp.exp(shifted)), axis=1, keepdims=True)
    logs = jnp.where(pairs, shifted - jnp.log(others + jnp.exp(shifted)), 0)
    return -jnp.sum(logs) / jnp.sum(pairs)


def triplet_margin_loss(anchors, positives, negatives, axis=-1, norm_degree=2, margin=1.0, eps=1e-6):
    """max(distance(anchors, positives) - distance(anchors, negatives) + margin, 0), by norms of degree norm_degree along `axis`."""

    def distance(x):
        return (jnp.sum((anchors - x) ** norm_degree, axis) + eps) ** (1 / norm_degree)

    return jnp.maximum(distance(positives) - distance(negatives) + margin, 0)
