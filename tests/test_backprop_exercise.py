"""The backpropagation exercise of makemore: an MLP over characters with batch norm, its gradients derived by hand.

Every intermediate's gradient by the chain rule in NumPy, the fused formulas of cross-entropy and batch norm, and fgrad's.
"""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import nn

N, BLOCK, VOCABULARY, EMBED, HIDDEN = 16, 3, 27, 5, 12
RATE = 0.5


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(2147483647)
    fan = BLOCK * EMBED
    p = dict(
        C=rng.standard_normal((VOCABULARY, EMBED)),
        W1=rng.standard_normal((fan, HIDDEN)) * (5 / 3) / fan**0.5,
        b1=rng.standard_normal(HIDDEN) * 0.1,
        W2=rng.standard_normal((HIDDEN, VOCABULARY)) * 0.1,
        b2=rng.standard_normal(VOCABULARY) * 0.1,
        bngain=rng.standard_normal((1, HIDDEN)) * 0.1 + 1,
        bnbias=rng.standard_normal((1, HIDDEN)) * 0.1,
    )
    return p, rng.integers(0, VOCABULARY, (N, BLOCK)), rng.integers(0, VOCABULARY, N)


ORDER = (
    *("emb", "embcat", "hprebn", "bnmeani", "bndiff", "bndiff2", "bnvar", "bnvar_inv", "bnraw", "hpreact", "h", "logits"),
    *("logit_maxes", "norm_logits", "counts", "counts_sum", "counts_sum_inv", "probs", "logprobs"),
)


def forward(p, probes, xb, yb):
    """(loss, intermediates): each intermediate has a probe, an array of zeros, added, whose gradient is the intermediate's."""
    values = {}

    def keep(name, value):
        values[name] = value + probes[name] if probes else value
        return values[name]

    emb = keep("emb", p["C"][xb])
    embcat = keep("embcat", emb.reshape(N, -1))
    hprebn = keep("hprebn", embcat @ p["W1"] + p["b1"])
    bnmeani = keep("bnmeani", jnp.sum(hprebn, 0, keepdims=True) / N)
    bndiff = keep("bndiff", hprebn - bnmeani)
    bndiff2 = keep("bndiff2", bndiff**2)
    bnvar = keep("bnvar", jnp.sum(bndiff2, 0, keepdims=True) / (N - 1))
    bnvar_inv = keep("bnvar_inv", (bnvar + 1e-5) ** -0.5)
    bnraw = keep("bnraw", bndiff * bnvar_inv)
    hpreact = keep("hpreact", p["bngain"] * bnraw + p["bnbias"])
    h = keep("h", jnp.tanh(hpreact))
    logits = keep("logits", h @ p["W2"] + p["b2"])
    logit_maxes = keep("logit_maxes", jnp.max(logits, 1, keepdims=True))
    norm_logits = keep("norm_logits", logits - logit_maxes)
    counts = keep("counts", jnp.exp(norm_logits))
    counts_sum = keep("counts_sum", jnp.sum(counts, 1, keepdims=True))
    counts_sum_inv = keep("counts_sum_inv", counts_sum**-1)
    probs = keep("probs", counts * counts_sum_inv)
    logprobs = keep("logprobs", jnp.log(probs))
    return -jnp.mean(logprobs[jnp.arange(N), yb]), values


def backward(p, v, xb, yb):
    """Each line is the chain rule through one line of forward, from the last to the first."""
    d = {}
    d["logprobs"] = np.zeros((N, VOCABULARY))
    d["logprobs"][np.arange(N), yb] = -1 / N
    d["probs"] = d["logprobs"] / v["probs"]
    d["counts_sum_inv"] = (v["counts"] * d["probs"]).sum(1, keepdims=True)
    d["counts_sum"] = -(v["counts_sum"] ** -2) * d["counts_sum_inv"]
    d["counts"] = v["counts_sum_inv"] * d["probs"] + d["counts_sum"]
    d["norm_logits"] = v["counts"] * d["counts"]
    d["logit_maxes"] = -d["norm_logits"].sum(1, keepdims=True)
    d["logits"] = d["norm_logits"] + np.eye(VOCABULARY)[v["logits"].argmax(1)] * d["logit_maxes"]
    d["h"] = d["logits"] @ p["W2"].T
    d["W2"] = v["h"].T @ d["logits"]
    d["b2"] = d["logits"].sum(0)
    d["hpreact"] = (1 - v["h"] ** 2) * d["h"]
    d["bngain"] = (v["bnraw"] * d["hpreact"]).sum(0, keepdims=True)
    d["bnbias"] = d["hpreact"].sum(0, keepdims=True)
    d["bnraw"] = p["bngain"] * d["hpreact"]
    d["bnvar_inv"] = (v["bndiff"] * d["bnraw"]).sum(0, keepdims=True)
    d["bnvar"] = -0.5 * (v["bnvar"] + 1e-5) ** -1.5 * d["bnvar_inv"]
    d["bndiff2"] = np.ones((N, HIDDEN)) / (N - 1) * d["bnvar"]
    d["bndiff"] = v["bnvar_inv"] * d["bnraw"] + 2 * v["bndiff"] * d["bndiff2"]
    d["bnmeani"] = -d["bndiff"].sum(0, keepdims=True)
    d["hprebn"] = d["bndiff"] + np.ones((N, HIDDEN)) / N * d["bnmeani"]
    d["embcat"] = d["hprebn"] @ p["W1"].T
    d["W1"] = v["embcat"].T @ d["hprebn"]
    d["b1"] = d["hprebn"].sum(0)
    d["emb"] = d["embcat"].reshape(N, BLOCK, EMBED)
    d["C"] = np.zeros((VOCABULARY, EMBED))
    np.add.at(d["C"], xb, d["emb"])
    return d


def by_fgrad(problem):
    p, xb, yb = problem
    values = {k: np.asarray(v) for k, v in forward(p, None, xb, yb)[1].items()}
    probes = {k: np.zeros(v.shape) for k, v in values.items()}
    grads, of_probes = fgrad.jit(fgrad.grad(lambda p, probes: forward(p, probes, xb, yb)[0], (0, 1)))(p, probes)
    return values, {k: np.asarray(g) for k, g in (*grads.items(), *of_probes.items())}


def test_every_gradient_by_hand(problem):
    p, xb, yb = problem
    with fgrad.enable_x64():
        values, grads = by_fgrad(problem)
    hand = backward(p, values, xb, yb)
    assert set(values) == set(ORDER) and set(hand) == set(grads) == {*ORDER, *p}
    for name in hand:
        np.testing.assert_allclose(grads[name], hand[name], rtol=1e-9, atol=1e-13, err_msg=name)


def test_cross_entropy_in_one_step(problem):
    _, _, yb = problem
    with fgrad.enable_x64():
        values, grads = by_fgrad(problem)
        loss = lambda z: jnp.mean(nn.softmax_cross_entropy_with_integer_labels(z, yb))
        fused = fgrad.grad(loss)(values["logits"])
    dlogits = values["probs"].copy()
    dlogits[np.arange(N), yb] -= 1
    np.testing.assert_allclose(grads["logits"], dlogits / N, rtol=1e-8, atol=1e-13)
    np.testing.assert_allclose(fused, dlogits / N, rtol=1e-9, atol=1e-13)


def test_batch_norm_in_one_step(problem):
    p, _, _ = problem
    with fgrad.enable_x64():
        v, grads = by_fgrad(problem)
        d = grads["hpreact"]
        by_hand = p["bngain"] * v["bnvar_inv"] / N * (N * d - d.sum(0) - N / (N - 1) * v["bnraw"] * (d * v["bnraw"]).sum(0))
        np.testing.assert_allclose(grads["hprebn"], by_hand, rtol=1e-9, atol=1e-13)

        def layer(x, gain, bias):
            return nn.batch_norm(x, nn.batch_norm_state(HIDDEN), gain, bias, training=True, unbiased=True)[0]

        out, pull = fgrad.vjp(layer, v["hprebn"], p["bngain"][0], p["bnbias"][0])
        np.testing.assert_allclose(out, v["hpreact"], rtol=1e-9, atol=1e-12)
        for got, name in zip(pull(jnp.asarray(d)), ("hprebn", "bngain", "bnbias")):
            np.testing.assert_allclose(np.asarray(got).reshape(grads[name].shape), grads[name], rtol=1e-8, atol=1e-12, err_msg=name)


def test_training_with_the_gradients_by_hand_is_training_with_fgrads(problem):
    """Steps of gradient descent by either give the same parameters, and the loss falls."""
    p, xb, yb = problem
    with fgrad.enable_x64():
        step = fgrad.jit(fgrad.value_and_grad(lambda q: forward(q, None, xb, yb)[0]))
        ours = mine = p
        losses = []
        for _ in range(20):
            loss, grads = step(ours)
            values = {k: np.asarray(v) for k, v in forward(mine, None, xb, yb)[1].items()}
            hand = backward(mine, values, xb, yb)
            ours = {k: np.asarray(w - RATE * grads[k]) for k, w in ours.items()}
            mine = {k: w - RATE * hand[k] for k, w in mine.items()}
            losses.append(float(loss))
    assert losses[-1] < 0.7 * losses[0]
    for name in p:
        np.testing.assert_allclose(ours[name], mine[name], rtol=1e-8, atol=1e-11, err_msg=name)
