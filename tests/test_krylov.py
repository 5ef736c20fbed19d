"""Iterative solvers against numpy.linalg.solve, in all their forms, and their implicit derivatives."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad.scipy.sparse.linalg import bicgstab, cg, gmres
from tests.derivatives import check_derivatives

rng = np.random.default_rng(0)
N = 24
ANY = rng.normal(size=(N, N)) + 8 * np.eye(N)
SPD = ANY @ ANY.T + N * np.eye(N)
B = rng.normal(size=N)
SOLVERS = [(cg, SPD), (bicgstab, ANY), (gmres, ANY)]


@pytest.fixture(autouse=True)
def x64():
    with fgrad.enable_x64():
        yield


@pytest.mark.parametrize("solver,a", SOLVERS)
def test_solutions(solver, a):
    want = np.linalg.solve(a, B)
    options = {"tol": 1e-12, "maxiter": 500}
    np.testing.assert_allclose(solver(a, B, **options)[0], want, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(
        solver(lambda v: a @ v, B, x0=want + 1, M=np.diag(1 / np.diag(a)), **options)[0], want, rtol=1e-8, atol=1e-10
    )
    loose = np.asarray(solver(a, B, tol=1e-2, maxiter=500)[0])
    residual = np.linalg.norm(a @ loose - B)
    assert 1e-8 < residual <= 1.0001e-2 * np.linalg.norm(B)
    assert float(jnp.sum(abs(solver(a, 0 * B)[0]))) == 0
    many = fgrad.vmap(lambda b: solver(a, b, **options)[0])(np.stack([B, 3 * B]))
    np.testing.assert_allclose(many, np.stack([want, 3 * want]), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("solver,a", SOLVERS)
def test_trees_and_complex(solver, a):
    def apply(t):
        y = a @ jnp.concatenate([t["a"], t["b"].ravel()])
        return {"a": y[:4], "b": y[4:].reshape(4, 5)}

    x = fgrad.jit(lambda t: solver(apply, t, tol=1e-12)[0])({"a": B[:4], "b": B[4:].reshape(4, 5)})
    np.testing.assert_allclose(np.concatenate([x["a"], x["b"].ravel()]), np.linalg.solve(a, B), rtol=1e-8, atol=1e-10)
    c = a + 1j * (rng.normal(size=(N, N)) if solver is not cg else 0)
    c = c if solver is not cg else c + 1j * (ANY - ANY.T)
    np.testing.assert_allclose(solver(c, B + 1j * B[::-1], tol=1e-12)[0], np.linalg.solve(c, B + 1j * B[::-1]), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("solver,a", SOLVERS)
def test_derivatives(solver, a):
    check_derivatives(lambda a, b: solver(a + a.T if solver is cg else a, b, tol=1e-13)[0], a / (2 if solver is cg else 1), B, order=1)


def test_gmres_restarts_and_ends():
    x, info = gmres(ANY, B, tol=1e-12, restart=5)
    np.testing.assert_allclose(x, np.linalg.solve(ANY, B), rtol=1e-8, atol=1e-10)
    assert int(info) == 0 and int(gmres(ANY, B, x0=B * np.nan, maxiter=2)[1]) == -1
    np.testing.assert_allclose(gmres(lambda v: v, B, tol=1e-12, solve_method="incremental")[0], B, rtol=1e-14)
    assert np.isfinite(gmres(np.zeros((3, 3)), np.ones(3), maxiter=2)[0]).all()


def test_operands():
    np.testing.assert_allclose(cg(2 * np.eye(3), np.arange(3))[0], [0, 0.5, 1])
    for bad, error in ((np.ones((2, 3)), ValueError), ("a", TypeError)):
        with pytest.raises(error):
            cg(bad, np.ones(3))
    with pytest.raises(ValueError, match="tree structure"):
        cg(np.eye(3), np.ones(3), x0=(np.ones(3),))
    with pytest.raises(ValueError, match="matching shapes"):
        cg(np.eye(3), np.ones(3), x0=np.ones(2))
    with pytest.raises(ValueError, match="solve_method"):
        gmres(np.eye(3), np.ones(3), solve_method="x")


def test_gmres_ends_where_a_cycle_gains_nothing():
    calls = []

    def product(v):
        fgrad.debug.callback(lambda: calls.append(1))
        return ANY @ v

    x, info = gmres(product, jnp.asarray(B), tol=1e-30, restart=8, maxiter=500)  # below the precision
    fgrad.effects_barrier()
    assert len(calls) < 500 and info == 0 and abs(ANY @ x - B).max() < 1e-12
