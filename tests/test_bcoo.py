"""experimental.sparse: BCOO and BCSR arrays against dense ones."""

import numpy as np
import pytest

import fgrad as jax
import fgrad.numpy as jnp
from fgrad.errors import ConcretizationTypeError
from fgrad.experimental import sparse

rng = np.random.default_rng(0)
D = np.float32([[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, -1, 0]])
M = sparse.BCOO.fromdense(D)
V, W, B = (rng.normal(size=s).astype("f") for s in ((4,), (3,), (4, 5)))
T = (rng.normal(size=(2, 3, 4)) * (rng.random((2, 3, 4)) > 0.5)).astype("f")


def same(got, want, exact=True):
    got = got.todense() if hasattr(got, "todense") else got
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=0 if exact else 1e-5)


def test_layout():
    assert repr(M) == "BCOO(float32[3, 4], nse=4)" and (M.ndim, M.size, len(M), M.n_sparse) == (2, 12, 3, 2)
    assert M.indices.tolist() == [[0, 1], [0, 3], [2, 0], [2, 2]] and M.data.tolist() == [1, 2, 3, -1]
    spare = sparse.BCOO.fromdense(D, nse=6)
    assert spare.indices[4:].tolist() == [[3, 4]] * 2 and spare.data[4:].tolist() == [0, 0]
    same(spare, D)
    same(jax.jit(lambda x: sparse.BCOO.fromdense(x, nse=5) @ V)(D), D @ V, False)
    with pytest.raises(ConcretizationTypeError, match="nse"):
        jax.jit(sparse.BCOO.fromdense)(D)
    with pytest.raises(ValueError, match="do not make"):
        sparse.BCOO((jnp.ones(1), jnp.zeros((1, 2), int)), shape=(2,))


@pytest.mark.parametrize(("n_batch", "n_dense"), [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 3)])
def test_batch_and_dense_axes(n_batch, n_dense):
    m = sparse.BCOO.fromdense(T, n_batch=n_batch, n_dense=n_dense)
    assert (m.n_batch, m.n_dense, m.n_sparse) == (n_batch, n_dense, 3 - n_batch - n_dense)
    same(m, T)
    same(-2 * m, -2 * T)
    same(jax.jit(lambda m: m.todense())(m), T)


@pytest.mark.parametrize(
    ("f", "want"),
    [
        (lambda m: m @ V, D @ V),
        (lambda m: m @ B, D @ B),
        (lambda m: W @ m, W @ D),
        (lambda m: B.T @ m.T, B.T @ D.T),
        (lambda m: m @ m.T, D @ D.T),
        (lambda m: m * 2 - m / 4, 1.75 * D),
        (lambda m: m + m, 2 * D),
        (lambda m: m + D, 2 * D),
        (lambda m: m * D, D * D),
        (lambda m: m * m, D * D),
        (lambda m: m.sum(), D.sum()),
        (lambda m: m.sum(0), D.sum(0)),
        (lambda m: m[0], D[0]),
        (lambda m: m[2, 0], D[2, 0]),
        (lambda m: m[1:, ::2], D[1:, ::2]),
        (lambda m: m[None, ..., -1], D[None, ..., -1]),
        (lambda m: m.reshape(2, -1), D.reshape(2, -1)),
        (lambda m: m.astype("int32"), D.astype("int32")),
        (lambda m: sparse.bcoo_concatenate([m, m], dimension=1), np.concatenate([D, D], 1)),
        (lambda m: sparse.bcoo_broadcast_in_dim(m, shape=(2, 3, 4), broadcast_dimensions=(1, 2)), np.broadcast_to(D, (2, 3, 4))),
        (lambda m: sparse.bcoo_dynamic_slice(m, (1, 9), (2, 2)), D[1:, 2:]),
        (lambda m: sparse.bcoo_rev(m, (0, 1)), D[::-1, ::-1]),
        (lambda m: sparse.bcoo_squeeze(m.reshape(3, 1, 4), dimensions=(1,)), D),
        (lambda m: sparse.bcoo_extract(m, np.ones((3, 4), "f")), D != 0),
    ],
)
def test_operations(f, want):
    for m in (M, sparse.BCOO.fromdense(D, nse=7)):
        same(f(m), want, False)
        same(jax.jit(f)(m), want, False)


def test_batched_products():
    m = sparse.BCOO.fromdense(T, n_batch=1)
    x = rng.normal(size=(2, 4, 5)).astype("f")
    same(sparse.bcoo_dot_general(m, x, dimension_numbers=(((2,), (1,)), ((0,), (0,)))), T @ x, False)
    same(m @ x, T @ x, False)
    same(jax.vmap(lambda v: M @ v)(np.stack([V, 2 * V])), np.stack([D @ V, 2 * D @ V]), False)


def test_duplicates():
    u = sparse.BCOO((jnp.array([1.0, 2, 3, 4]), jnp.array([[1, 1], [0, 2], [1, 1], [3, 3]])), shape=(2, 3))
    same(u, [[0, 0, 2], [0, 4, 0]])
    s = u.sum_duplicates()
    assert s.indices.tolist() == [[0, 2], [1, 1]] and s.data.tolist() == [2, 4] and s.unique_indices and s.indices_sorted
    assert jax.jit(lambda u: u.sum_duplicates(nse=2))(u).data.tolist() == [2, 4]
    assert u.sort_indices().indices.tolist() == [[0, 2], [1, 1], [1, 1], [3, 3]]
    assert (M - M).sum_duplicates().nse == 0 and (M - M).sum_duplicates(remove_zeros=False).nse == 4


def test_derivatives():
    loss = lambda m, v: jnp.sum((m @ v) ** 2)  # noqa: E731
    dense = 2 * np.outer(D @ V, V)
    g = sparse.grad(loss)(M, V)
    assert isinstance(g, sparse.BCOO)
    np.testing.assert_allclose(g.data, dense[tuple(M.indices.T)], rtol=1e-5)
    value, (gm, gv) = sparse.value_and_grad(loss, argnums=(0, 1))(M, V)
    np.testing.assert_allclose(value, np.sum((D @ V) ** 2), rtol=1e-5)
    np.testing.assert_allclose(gm.data, g.data)
    np.testing.assert_allclose(gv, 2 * D.T @ (D @ V), rtol=1e-5)
    np.testing.assert_allclose(jax.grad(lambda x: jnp.sum(sparse.BCOO.fromdense(x, nse=4) @ V))(D), (D != 0) * V, rtol=1e-6)
    grads, aux = sparse.grad(lambda m: (m.todense().sum(), 3), has_aux=True)(M)
    assert aux == 3 and grads.data.tolist() == [1] * 4


def test_sparsify():
    f = sparse.sparsify(lambda m, x: jnp.sin(m * 2.0).T @ x)
    np.testing.assert_allclose(f(M, W), np.sin(2 * D).T @ W, rtol=1e-5)
    same(sparse.sparsify(lambda m: jnp.concatenate([m, -m])[::-1].sum(1))(M), np.concatenate([D, -D])[::-1].sum(1))
    same(sparse.sparsify(jax.jit(lambda a, b: a @ b.T + a @ b.T))(M, M), 2 * D @ D.T)
    with pytest.raises(NotImplementedError, match="cos"):
        sparse.sparsify(jnp.cos)(M)


def test_compressed_rows():
    c = sparse.BCSR.fromdense(D)
    assert c.indptr.tolist() == [0, 2, 2, 4] and c.indices.tolist() == [1, 3, 0, 2]
    same(c, D)
    same(c @ V, D @ V, False)
    same(jax.jit(lambda c, x: c @ x)(c, B), D @ B, False)
    same(2 * c, 2 * D)
    same(sparse.BCSR.fromdense(D, nse=6), D)
    with pytest.raises(ValueError, match="BCSR"):
        sparse.BCSR((jnp.ones(2), jnp.zeros(2, int), jnp.zeros(2, int)), shape=(3, 3))


def test_makers():
    same(sparse.eye(3), np.eye(3))
    same(sparse.eye(2, 4, 1), np.eye(2, 4, 1))
    same(sparse.eye(4, 2, -1, sparse_format="bcsr"), np.eye(4, 2, -1))
    same(sparse.empty((2, 3)), np.zeros((2, 3)))
    same(sparse.todense(D), D)
    with pytest.raises(ValueError, match="sparse_format"):
        sparse.eye(2, sparse_format="dia")


def test_a_matrix_with_each_of_a_batch():
    dense = np.array([[1.0, 0, 2], [0, 3, 0]], np.float32)
    mat, batch = sparse.BCOO.fromdense(dense), np.arange(48, dtype=np.float32).reshape(2, 4, 3, 2)
    for rhs in (batch, batch[0]):
        np.testing.assert_allclose(mat @ rhs, dense @ rhs)
    np.testing.assert_allclose(jax.grad(lambda b: (mat @ b).sum())(batch[0]), np.broadcast_to(dense.sum(0)[:, None], (4, 3, 2)))
    with pytest.raises(TypeError, match="do not fit"):
        mat @ batch.swapaxes(-1, -2)
