"""experimental.sparse: COO, CSR and CSC, random arrays, Jacobians, and sparse arrays in loops and under vmap, against dense ones."""

import numpy as np
import pytest
import scipy.sparse as ss

import fgrad as jax
import fgrad.numpy as jnp
from fgrad import lax
from fgrad.errors import ConcretizationTypeError
from fgrad.experimental import sparse

D = np.float32([[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, -1, 0]])
M = sparse.BCOO.fromdense(D)
V, B = np.float32([1, -2, 3, 0.5]), np.arange(8, dtype="f").reshape(4, 2)


@pytest.mark.parametrize("kind", ["COO", "CSR", "CSC"])
def test_matrices(kind):
    form, their = getattr(sparse, kind), getattr(ss, f"{kind.lower()}_matrix")(D)
    m = form.fromdense(D)
    for name in form._names:
        if kind != "CSC" or name != "data":
            np.testing.assert_array_equal(getattr(m, name), getattr(their, name))
    assert repr(m) == f"{kind}(float32[3, 4], nse=4)" and (m.ndim, m.size, len(m), m.dtype) == (2, 12, 3, np.float32)
    for got, want in ((m.todense(), D), (m.T.todense(), D.T), (m @ V, D @ V), (m @ B, D @ B), (m.T @ V[:3], D.T @ V[:3])):
        np.testing.assert_allclose(got, want)
    np.testing.assert_allclose(jax.jit(lambda x: form.fromdense(x, nse=6) @ V)(D), D @ V)
    np.testing.assert_allclose(jax.grad(lambda v: ((m @ v) ** 2).sum())(V), 2 * D.T @ (D @ V), rtol=1e-6)
    np.testing.assert_array_equal(sparse.eye(3, 4, 1, sparse_format=kind.lower()).todense(), np.eye(3, 4, 1))
    with pytest.raises(ConcretizationTypeError, match="nse"):
        jax.jit(form.fromdense)(D)
    for bad in (lambda: m @ m, lambda: m + m, lambda: V[:3] @ m, lambda: m @ np.ones((4, 2, 1))):
        with pytest.raises(NotImplementedError, match=kind):
            bad()


def test_every_format_is_a_sparse_array():
    for kind in ("bcoo", "bcsr", "coo", "csr", "csc"):
        m = sparse.eye(2, 3, sparse_format=kind)
        assert isinstance(m, sparse.JAXSparse) and (m.ndim, m.size, len(m), m.dtype) == (2, 6, 2, np.float32) and m.block_until_ready() is m
        np.testing.assert_array_equal(m.T.todense(), np.eye(3, 2))
    assert not isinstance(D, sparse.JAXSparse)


def test_products_of_coo_and_csr():
    for name in ("coo", "csr"):
        f = lambda what, name=name: getattr(sparse, f"{name}_{what}")
        m = f("fromdense")(D, nse=5)
        np.testing.assert_array_equal(f("todense")(m), D)
        np.testing.assert_allclose(f("matvec")(m, V[:3], transpose=True), D.T @ V[:3])
        np.testing.assert_allclose(f("matmat")(m, B), D @ B)
        with pytest.raises(ValueError, match="matvec"):
            f("matvec")(m, B)


def test_random_arrays():
    m = sparse.random_bcoo(jax.random.key(0), (2, 4, 5), nse=0.3, n_batch=1, sorted_indices=True)
    assert (m.shape, m.nse, m.n_batch, m.indices_sorted) == ((2, 4, 5), 6, 1, True)
    assert int((m.todense() != 0).sum()) == 12
    for wrong in (dict(nse=20), dict(n_batch=3)):
        with pytest.raises(ValueError, match="random_bcoo"):
            sparse.random_bcoo(jax.random.key(0), (4, 5), **wrong)


@pytest.mark.parametrize("jacobian", [sparse.jacfwd, sparse.jacrev])
def test_jacobians_in_the_stored_elements(jacobian):
    j, dense = jacobian(lambda m, v: m @ v, (0, 1))(M, V)
    assert (j.shape, j.n_batch) == ((3, 3, 4), 1)
    want = jax.jacrev(lambda m: m @ V)(D) * (D != 0)
    np.testing.assert_allclose(j.todense(), want)
    np.testing.assert_allclose(dense, D)


def test_sparse_arrays_in_loops_and_under_vmap():
    f = lambda m: lax.scan(lambda c, y: (c + m @ y, c), jnp.zeros(3), jnp.stack([V, V]))
    g = lambda m: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + m @ V), (0, jnp.zeros(3)))[1]
    h = lambda m: lax.cond(True, lambda x: x[0] @ V, lambda x: x[2] @ V, m)
    for fun in (f, g, h):
        for got, want in zip(jax.tree.leaves(sparse.sparsify(fun)(M)), jax.tree.leaves(fun(D))):
            np.testing.assert_allclose(got, want)
    both = np.stack([D, 2 * D[::-1]])
    batched = sparse.BCOO.fromdense(both, n_batch=1)
    np.testing.assert_allclose(jax.vmap(lambda m: m @ V)(batched), both @ V)
    out = jax.vmap(lambda m: m * 2)(batched)
    assert out.shape == (2, 3, 4) and out.n_batch == 1
    np.testing.assert_allclose(sparse.bcoo_dot_general_sampled(D, B, M.indices[:1], dimension_numbers=(((1,), (0,)), ((), ()))), [17])


def test_spsolve_and_abs():
    m = jnp.array([[2.0, 0, -1], [0, 3, 0], [0, 1, 4]])
    a, b = sparse.BCSR.fromdense(m), jnp.arange(3.0)
    solve = lambda d, b: sparse.linalg.spsolve(d, a.indices, a.indptr, b)  # noqa: E731
    np.testing.assert_allclose(jax.jit(solve)(a.data, b), np.linalg.solve(m, b), rtol=1e-6)
    ct = jax.grad(lambda b: solve(a.data, b).sum())(b)
    np.testing.assert_allclose(ct, np.linalg.solve(np.asarray(m).T, np.ones(3)), rtol=1e-6)
    np.testing.assert_array_equal(abs(sparse.BCOO.fromdense(m)).todense(), abs(m))
    for args in ((a.data, jnp.arange(3)), (a.data, jnp.ones(2))):
        with pytest.raises(ValueError, match="spsolve|data types"):
            solve(*args)
