"""Shapes, indexing, updates, sorting, cumulative functions, products."""

import numpy as np

from tests.peers.registry import VALUE, normal, program


@program(normal((2, 3), (3, 4), (4,)), diff=(0, 1, 2))
def matmul_variants(jax, a, b, v):
    jnp = jax.numpy
    return a @ b, (a @ b) @ v, v @ b.T, jnp.dot(v, v), jnp.outer(v, v), jnp.inner(b, v), jnp.vdot(b[0], v), jnp.tensordot(a, b, 1), v.dot(v)


@program(normal((2, 1, 3, 4), (5, 4, 2)), diff=(0, 1))
def batched_matmul(jax, a, b):
    jnp = jax.numpy
    return jnp.matmul(a, b), jnp.einsum("abij,bjk->abik", jnp.broadcast_to(a, (2, 5, 3, 4)), b)


@program(normal((2, 3, 4), (4, 3), (3,)), diff=(0, 1, 2))
def einsums(jax, a, b, c):
    jnp = jax.numpy
    e = jnp.einsum
    return e("ijk,kl->ijl", a, b), e("ijk,kj,j->i", a, b, c), e("ijk->kji", a), e("ijk->", a), e("...k,kj->...j", a, b), e("ii->i", b @ b.T)


@program(normal((3, 4)))
def shape_operations(jax, x):
    jnp = jax.numpy
    y = jnp.concatenate([x.reshape(4, 3).T, x[:, ::-1]], axis=1)
    z = jnp.stack([y, jnp.roll(y, 1, axis=1), jnp.flip(y, 0)])
    parts = jnp.split(z, [1, 2], axis=0)
    return (
        jnp.tile(x, (2, 1)),
        jnp.repeat(x, 2, axis=1),
        jnp.moveaxis(z, 0, -1),
        parts,
        jnp.squeeze(parts[0], 0),
        x[None, :, None].swapaxes(0, 1),
    )


@program(normal((3, 4)))
def padding_and_triangles(jax, x):
    jnp = jax.numpy
    return (
        jnp.pad(x, ((1, 0), (2, 1))),
        jnp.pad(x, 1, constant_values=2.0),
        jnp.pad(x, 1, mode="edge"),
        jnp.tril(x),
        jnp.triu(x, 1),
        jnp.diag(x[0]),
        jnp.diagonal(x),
        jnp.trace(x),
        jnp.eye(3) @ x,
    )


@program(normal((4, 5)))
def basic_indexing(jax, x):
    return x[1], x[-1, 2], x[1:3, ::2], x[::-1, None, 3], x[..., 0], x[:, -2:], x[1:1]


@program(lambda r: (r.standard_normal((4, 5)), np.array([0, 2, 2, -1]), np.array([[1, 0], [3, 4]])))
def array_indexing(jax, x, i, j):
    return (
        x[i],
        x[:, j],
        x[i, i],
        x[i[:, None], j[0]],
        x[1, j],
        x[j[0], :, None],
        x.take(i, axis=1),
        x[np.array([True, False, True, False])],
    )


@program(lambda r: (r.standard_normal(5), np.array([0, 3, 3, -1, 9])))
def updates_at(jax, x, i):
    v = x[:1] * np.arange(1.0, 6.0, dtype=np.float32)
    a = x.at
    return (
        a[i].add(v),
        a[1:3].set(v[:2]),
        a[i].max(v),
        a[i].min(v),
        a[0].mul(3.0),
        a[2].multiply(v[2]),
        a[1].divide(2.0),
        a[::2].add(1.0),
        a[4].power(2),
    )


@program(lambda r: (r.standard_normal((4, 3)), np.array([0, 2, 7, -9])))
def modes_of_indexing(jax, x, i):
    get = x.at[i].get
    values = x[:1] * 2
    return (
        get(mode="fill", fill_value=-1.0),
        get(mode="clip"),
        x.at[i].add(values, mode="drop"),
        x.at[i].add(values, mode="clip"),
        jax.numpy.take(x, i, axis=0, mode="clip"),
    )


@program(lambda r: (r.standard_normal((3, 4)), r.standard_normal((2, 2))), diff=(0, 1))
def updates_of_blocks(jax, x, v):
    lax = jax.lax
    y = lax.dynamic_update_slice(x, v, (1, 2))
    return y, lax.dynamic_slice(x, (1, 1), (2, 2)), x.at[1:3, jax.numpy.array([0, 3])].set(v), x.at[:, 0].add(v[0, 0]), x.at[1].set(0.0)


@program(lambda r: (r.standard_normal((3, 4)), np.array([2, 0, 1])))
def gather_along_axis(jax, x, i):
    jnp = jax.numpy
    return jnp.take_along_axis(x, i[:, None], axis=1), jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1)


@program(lambda r: (r.permutation(12).reshape(3, 4) / 3.0,))
def sorting(jax, x):
    jnp, lax = jax.numpy, jax.lax
    values, where = lax.top_k(x, 2)
    return (
        jnp.sort(x),
        jnp.sort(x, axis=0),
        jnp.argsort(x),
        jnp.argsort(-x, axis=0),
        values,
        where,
        jnp.sort(x, descending=True),
        jnp.median(x),
    )


@program(lambda r: (np.array([3.0, 1.0, 3.0, 1.0, 2.0]),))
def sorting_with_ties(jax, x):
    jnp = jax.numpy
    return (
        jnp.argsort(x),
        jnp.sort(x),
        jax.lax.sort_key_val(x, jnp.arange(5.0) * x),
        jnp.argmax(x),
        jnp.argmin(x),
        jnp.max(x),
        jax.lax.top_k(x, 3),
    )


@program(normal((3, 4)))
def cumulative(jax, x):
    jnp, lax = jax.numpy, jax.lax
    return (
        jnp.cumsum(x, 1),
        jnp.cumprod(x, 0),
        lax.cummax(x, 1),
        lax.cummin(x, 0, reverse=True),
        lax.cumlogsumexp(x, 1),
        jnp.cumsum(x),
        jnp.diff(x),
    )


@program(normal((3, 4)))
def reductions(jax, x):
    jnp = jax.numpy
    m = x > 0
    return (
        jnp.sum(x, axis=(0, 1)),
        jnp.mean(x, axis=0),
        jnp.var(x, axis=1, ddof=1),
        jnp.std(x),
        jnp.prod(x, axis=1),
        jnp.sum(x, where=m),
        jnp.mean(x, axis=1, keepdims=True, where=jnp.ones_like(m)),
        jnp.max(x, axis=0, initial=-1.0, where=m),
        jax.nn.logsumexp(x, axis=1),
        jnp.any(m, axis=0),
        jnp.all(m),
        jnp.count_nonzero(m),
        jnp.ptp(x),
    )


@program(lambda r: (np.array([[1.0, 2.0, 2.0], [5.0, 5.0, -1.0]]),))
def reductions_with_ties(jax, x):
    jnp = jax.numpy
    return (
        jnp.max(x, 1),
        jnp.min(x),
        jnp.argmax(x, 1),
        jnp.argmin(x, 0),
        jnp.amax(x, 0, keepdims=True),
        jnp.prod(x * jnp.array([0.0, 1.0, 1.0]), 1),
    )


@program(lambda r: (np.array([1.0, np.nan, -np.inf, np.inf]),), transforms=VALUE + ("jvp", "vjp"))
def nan_and_inf(jax, x):
    jnp = jax.numpy
    return (
        jnp.nansum(x),
        jnp.nan_to_num(x),
        jnp.isnan(x),
        jnp.isfinite(x),
        jnp.maximum(x, 0.0),
        jnp.sum(jnp.where(jnp.isnan(x), 0.0, x)),
    )


@program(normal((0, 3)), without=("hessian",))
def zero_sized(jax, x):
    jnp = jax.numpy
    return (
        jnp.sum(x),
        jnp.sum(x, 0),
        x @ jnp.ones((3, 2)),
        jnp.concatenate([x, jnp.ones((1, 3))]),
        jnp.prod(x, axis=0),
        x.T @ x,
        jnp.cumsum(x, 0),
    )


@program(lambda r: (r.standard_normal((5, 3)), np.array([1, 1, 4])))
def embedding_lookup(jax, table, tokens):
    jnp = jax.numpy
    onehot = jax.nn.one_hot(tokens, 5)
    return table[tokens], onehot @ table, jnp.take(table, tokens, axis=0), onehot


@program(lambda r: (r.standard_normal(6), np.array([0, 2, 0, 1, 2, 2])))
def segment_sums(jax, x, ids):
    jnp = jax.numpy
    sums = jnp.zeros(3).at[ids].add(x)
    counts = jnp.zeros(3).at[ids].add(1.0)
    return sums / counts, jnp.full(3, -jnp.inf).at[ids].max(x), counts


@program(normal((4, 3)))
def selections(jax, x):
    jnp, lax = jax.numpy, jax.lax
    return (
        jnp.where(x > 0, x, x**2),
        jnp.select([x > 1, x > 0], [x, 2 * x], -x),
        lax.select(x > 0, x, -x),
        jnp.nonzero(x[:, 0] > 0, size=3, fill_value=-1)[0],
        jnp.where(x[:, 0] > 0, size=2)[0],
        jnp.searchsorted(jnp.sort(x[:, 0]), x[:, 1]),
    )


@program(normal((3, 3)))
def iteration_and_methods(jax, x):
    rows = [r.sum() for r in x]
    a, b, c = x
    return (
        rows,
        a + b * c,
        x.mean(0),
        x.max(),
        x.std(axis=1),
        x.ravel()[:4],
        x.flatten(),
        x.transpose(1, 0),
        x.astype(int),
        x.dot(a),
        len(x),
    )


@program(normal((4, 4), (2, 3)), diff=(0, 1))
def lax_shapes(jax, x, y):
    lax = jax.lax
    return (
        lax.broadcast_in_dim(y, (4, 2, 3), (1, 2)),
        lax.reshape(x, (2, 8)),
        lax.transpose(y, (1, 0)),
        lax.rev(x, (0,)),
        lax.pad(y, 0.0, ((1, 0, 1), (-1, 2, 0))),
        lax.slice(x, (0, 1), (4, 4), (2, 1)),
        lax.concatenate([x, x * 2], 0),
        lax.dynamic_index_in_dim(x, 2, 1, keepdims=False),
        lax.dot_general(x, x, (((0,), (1,)), ((), ()))),
        lax.expand_dims(y, (0,)),
        lax.squeeze(x[:1], (0,)),
        lax.iota("int32", 3),
        lax.reduce_max(x, (0,)),
    )
