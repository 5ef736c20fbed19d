"""Muon: momentum orthogonalised by Newton-Schulz iterations, for the matrices of a model."""

from typing import Any, NamedTuple

import fgrad.numpy as jnp
from fgrad import tree
from fgrad.optim.base import (
    GradientTransformation,
    corrected,
    leafwise,
    moment,
    safe_increment,
    stateless_with_tree_map,
    stored,
    zero_count,
    zeros_like,
)
from fgrad.optim.combining import chain
from fgrad.optim.masking import partition
from fgrad.optim.optimizers import adamw
from fgrad.optim.scaling import add_decayed_weights, scale_by_learning_rate


class MuonState(NamedTuple):
    """The number of steps and the momentum."""

    count: Any
    mu: Any


_COEFFICIENTS = {
    "standard": (3.4445, -4.7750, 2.0315),
    "dion": (
        (4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037),
        (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012),
    ),
}  # fmt: skip


def _steps(ns_coeffs, ns_steps):
    """(a, b, c) of each of ns_steps iterations: the same for all, or the rows of a table. Raises ValueError if those are too many."""
    if isinstance(ns_coeffs, str):
        if ns_coeffs not in _COEFFICIENTS:
            raise ValueError(f"ns_coeffs: {ns_coeffs!r} is not one of {', '.join(_COEFFICIENTS)}")
        ns_coeffs = _COEFFICIENTS[ns_coeffs]
    shape = jnp.shape(jnp.asarray(ns_coeffs))
    if len(shape) not in (1, 2) or shape[-1] != 3:
        raise ValueError(f"ns_coeffs must have shape (3,) or (n, 3), got {shape}")
    if len(shape) == 2 and shape[0] > ns_steps:
        raise ValueError(f"ns_coeffs: {shape[0]} rows for {ns_steps} steps")
    return [ns_coeffs] * ns_steps if len(shape) == 1 else list(ns_coeffs)


def orthogonalize(x, ns_coeffs=(3.4445, -4.7750, 2.0315), ns_steps=5, eps=1e-8, preconditioning="frobenius"):
    """A matrix of about the singular vectors of x (any leading batch axes), its singular values brought near 1.

    Each of ns_steps iterations is x <- a x + (b A + c A^2) x with A = x x^T (Jordan et al., 2024). ns_coeffs: (a, b, c), a row of them per
    step, "standard" or "dion". preconditioning: x is first divided by its frobenius or spectral norm, its rows by sums over A (aol), or it
    by the root of A's norm (schatten). Raises ValueError for others.
    """
    if preconditioning not in ("frobenius", "spectral", "aol", "schatten"):
        raise ValueError(f"preconditioning: {preconditioning!r} is not one of frobenius, spectral, aol, schatten")
    wide = x.shape[-2] <= x.shape[-1]
    x = x if wide else jnp.swapaxes(x, -1, -2)
    if preconditioning in ("frobenius", "spectral"):
        order = "fro" if preconditioning == "frobenius" else 2
        x = x / (jnp.linalg.norm(x, order, axis=(-2, -1), keepdims=True) + eps)
    else:
        gram = x @ jnp.swapaxes(x, -1, -2)
        size = (
            jnp.sum(jnp.abs(gram), -1, keepdims=True) if preconditioning == "aol" else jnp.linalg.norm(gram, axis=(-2, -1), keepdims=True)
        )
        x = x / jnp.sqrt(jnp.maximum(size, eps))
    for a, b, c in _steps(ns_coeffs, ns_steps):
        gram = x @ jnp.swapaxes(x, -1, -2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x if wide else jnp.swapaxes(x, -1, -2)


def scale_by_muon(
    ns_coeffs=(3.4445, -4.7750, 2.0315),
    ns_steps=5,
    beta=0.95,
    eps=1e-8,
    mu_dtype=None,
    *,
    nesterov=True,
    adaptive=False,
    preconditioning="frobenius",
):
    """The orthogonalised momentum of matrices (Jordan et al., 2024); axes before the last two are batches.

    adaptive: scaled by its inner product with the momentum (Bernstein & Newhouse, 2024). ns_coeffs, preconditioning: as orthogonalize has
    them. Raises ValueError for leaves of lower rank.
    """

    def update(updates, state, params=None):
        count = safe_increment(state.count)

        def leaf(g, mu):
            if jnp.ndim(g) < 2:
                raise ValueError(f"scale_by_muon: a leaf of shape {jnp.shape(g)} is no matrix: use muon, or mask it")
            new = moment(beta, g, mu)
            mean = corrected(new, 1 - beta**count)
            if nesterov:
                ahead = corrected(new, 1 - beta ** safe_increment(count))
                mean = beta * ahead + (1 - beta) * corrected(g, 1 - beta**count)
            step = orthogonalize(mean, ns_coeffs, ns_steps, eps, preconditioning)
            return (jnp.sum(mean * step, axis=(-2, -1), keepdims=True) * step if adaptive else step), stored(new, mu)

        updates, mu = leafwise(leaf, updates, state.mu, outs=2)
        return updates, MuonState(count, mu)

    return GradientTransformation(lambda params: MuonState(zero_count(), zeros_like(params, mu_dtype)), update)


def muon(
    learning_rate,
    ns_coeffs=(3.4445, -4.7750, 2.0315),
    ns_steps=5,
    beta=0.95,
    eps=1e-8,
    weight_decay=0.0,
    weight_decay_mask=None,
    mu_dtype=None,
    *,
    nesterov=True,
    adaptive=False,
    preconditioning="frobenius",
    adam_b1=0.9,
    adam_b2=0.999,
    adam_eps_root=0.0,
    adam_weight_decay=0.0,
    adam_learning_rate=None,
    consistent_rms=None,
):
    """Muon (Jordan et al., 2024) for the leaves of rank 2, AdamW for the others. A step of an (m, n) matrix, which maps m to n, is
    scaled by sqrt(max(1, n / m)), or by consistent_rms sqrt(max(m, n)). ns_coeffs, preconditioning: as orthogonalize has them."""

    def by_shape(u, p):
        m, n = u.shape[-2:]
        return u * (max(1.0, n / m) ** 0.5 if consistent_rms is None else consistent_rms * max(m, n) ** 0.5)

    matrices = chain(
        scale_by_muon(ns_coeffs, ns_steps, beta, eps, mu_dtype, nesterov=nesterov, adaptive=adaptive, preconditioning=preconditioning),
        stateless_with_tree_map(by_shape),
        add_decayed_weights(weight_decay, weight_decay_mask),
        scale_by_learning_rate(learning_rate),
    )
    rate = learning_rate if adam_learning_rate is None else adam_learning_rate
    others = adamw(rate, adam_b1, adam_b2, eps, adam_eps_root, mu_dtype, adam_weight_decay, nesterov=nesterov)
    return partition({"muon": matrices, "adam": others}, lambda ps: tree.map(lambda p: "muon" if jnp.ndim(p) == 2 else "adam", ps))
