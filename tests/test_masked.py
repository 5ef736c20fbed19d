"""An update that a predicate takes or leaves is made with selected values: the same results, and no selection among all elements."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from fgrad.compile.masked import unmask

N = 40
X = np.linspace(-1, 1, N, dtype=np.float32)
X[3] = -0.0
V = np.array([2.0, 3.0], np.float32)

MASKED = dict(
    put=lambda x, p, i: jnp.where(p, x.at[i].set(5.0), x),
    sum=lambda x, p, i: jnp.where(p, x.at[i].add(5.0), x),
    left=lambda x, p, i: jnp.where(p, x, x.at[i + N].set(5.0, mode="drop")),
    twice=lambda x, p, i: jnp.where(p, x.at[jnp.array([3, 3]) + i].add(V), x),
    window=lambda x, p, i: jnp.where(p, lax.dynamic_update_slice(x, V, (i + N,)), x),
    swap=lambda x, p, i: jnp.where(p, x.at[i].set(x[i + 1]).at[i + 1].set(x[i]), x),
    nested=lambda x, p, i: jnp.where(i > 1, jnp.where(p, x.at[i].set(5.0), x).at[0].set(7.0), x),
    cell=lambda x, p, i: (lambda t: jnp.where(p, t.at[i, 2].set(t[i, 1]), t))(x.reshape(8, 5) * 2),
    cell_left=lambda x, p, i: (lambda t: jnp.where(p, t, t.at[i, i + 9].add(5.0, mode="drop")))(x.reshape(8, 5) * 2),
    integers=lambda x, p, i: (lambda k: jnp.where(p, k.at[i].add(2), k))((x * 9).astype(jnp.int32)),
)
KEPT = dict(
    another=lambda x, p, i: jnp.where(p, x.at[i].set(5.0), x * 2),
    read_too=lambda x, p, i: (lambda y: jnp.where(p, y, x) + y)(x.at[i].set(5.0)),
    elements=lambda x, p, i: jnp.where(x > 0, x.at[i].set(5.0), x),
    another_cell=lambda x, p, i: (lambda t: jnp.where(p, t.at[i, 2].set(5.0), t.T.reshape(8, 5)))(x.reshape(8, 5) * 2),
    cell_of_elements=lambda x, p, i: (lambda t: jnp.where(t > 0, t.at[i, 2].set(5.0), t))(x.reshape(8, 5) * 2),
    most=lambda x, p, i: jnp.where(p, x.at[1:].set(5.0), x),
)


def selections(closed):
    return sum(e.primitive.name == "select" and e.outvars[0].aval.size >= N for e in closed.eqns)


@pytest.mark.parametrize("name", [*MASKED, *KEPT])
def test_where(name):
    fun = {**MASKED, **KEPT}[name]
    closed = fgrad.make_jaxpr(fun)(X, True, 3)
    assert (selections(unmask(closed)) < selections(closed)) == (name in MASKED)
    for p in (True, False):
        got = fgrad.jit(fun)(X, p, 3)
        with fgrad.config.override("pass_masked", False):
            want = fgrad.jit(lambda *a: fun(*a))(X, p, 3)  # noqa: B023
        assert got.tobytes() == want.tobytes()


def test_batches():
    """A buffer that each member of a batched loop fills for as long as its own condition holds."""

    def fill(n):
        return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1].at[s[0]].set(s[0] * 2)), (0, jnp.zeros(N, int)))[1]

    lengths = np.array([3, 0, 40, 7])
    want = np.where(np.arange(N) < lengths[:, None], 2 * np.arange(N), 0)
    np.testing.assert_array_equal(fgrad.jit(fgrad.vmap(fill))(lengths), want)
    closed = fgrad.make_jaxpr(fgrad.vmap(MASKED["put"]))(np.tile(X, (4, 1)), lengths > 5, lengths)
    assert selections(closed) == 1 and selections(unmask(closed)) == 0
    cells = fgrad.vmap(lambda t, p, i: jnp.where(p, t.at[i, i + 1].set(5.0), t))
    t, p, i = np.tile(X.reshape(8, 5), (4, 1, 1)), lengths > 5, lengths % 4
    closed = fgrad.make_jaxpr(cells)(t, p, i)
    assert selections(closed) == 1 and selections(unmask(closed)) == 0
    want = t.copy()
    want[np.arange(4)[p], i[p], i[p] + 1] = 5
    np.testing.assert_array_equal(fgrad.jit(cells)(t, p, i), want)
