"""Iterative solvers, stax and the example optimizers beside JAX's."""

import numpy as np
import pytest

import fgrad

pytestmark = pytest.mark.peers
jax = pytest.importorskip("jax")

rng = np.random.default_rng(0)
A = (rng.normal(size=(20, 20)) + 8 * np.eye(20)).astype("f")
B = rng.normal(size=20).astype("f")
X = rng.normal(size=(5, 8, 8, 2)).astype("f")
Y = np.eye(10, dtype="f")[rng.integers(0, 10, 5)]


@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres"])
def test_krylov(name):
    import jax.scipy.sparse.linalg

    import fgrad.scipy.sparse.linalg

    a = A @ A.T if name == "cg" else A

    def loss(m):
        solver = getattr(m.scipy.sparse.linalg, name)
        return lambda a, b: m.numpy.sum(solver(lambda v: a @ v, b, tol=1e-6)[0] ** 2)

    got, want = (m.value_and_grad(loss(m), (0, 1))(a, B) for m in (fgrad, jax))
    np.testing.assert_allclose(got[0], want[0], rtol=1e-4)
    for g, w in zip(got[1], want[1]):
        np.testing.assert_allclose(g, w, atol=1e-4 * np.abs(w).max())


def test_training():
    from jax.example_libraries import optimizers as jax_optimizers
    from jax.example_libraries import stax as jax_stax

    from fgrad.example_libraries import optimizers, stax

    def trained(m, s, o):
        init, apply = s.serial(
            *(s.Conv(4, (3, 3), padding="SAME"), s.Relu, s.BatchNorm(), s.MaxPool((2, 2), strides=(2, 2)), s.FanOut(2)),
            *(s.parallel(s.Conv(4, (3, 3), (1, 1), "SAME"), s.Identity), s.FanInSum, s.AvgPool((2, 2), padding="SAME")),
            *(s.ConvTranspose(3, (2, 2), (2, 2)), s.Flatten, s.Dense(10), s.Dropout(0.9), s.Gelu, s.LogSoftmax),
        )
        params = init(m.random.key(0), (5, 8, 8, 2))[1]
        loss = lambda p: -m.numpy.mean(m.numpy.sum(apply(p, X, rng=m.random.key(1)) * Y, 1))
        out = []
        for opt in (
            *(o.sgd(0.1), o.momentum(0.1, 0.9), o.nesterov(0.1, 0.9), o.adagrad(o.exponential_decay(0.1, 10, 0.9)), o.rmsprop(0.01)),
            *(o.rmsprop_momentum(0.01), o.adam(o.polynomial_decay(0.1, 10, 0.01)), o.adamax(0.05), o.sm3(0.1)),
        ):
            state = opt.init_fn(params)
            for i in range(3):
                state = opt.update_fn(i, m.grad(loss)(opt.params_fn(state)), state)
            out.append(m.tree.leaves(opt.params_fn(state)))
        return out

    for got, want in zip(trained(fgrad, stax, optimizers), trained(jax, jax_stax, jax_optimizers)):
        for g, w in zip(got, want):
            np.testing.assert_allclose(g, w, atol=2e-3 * max(1, np.abs(w).max()))
