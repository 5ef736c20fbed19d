"""The assignment problem, under the names of optax.assignment."""

import fgrad.numpy as jnp
from fgrad.control.while_loop import fori_loop, while_loop

__all__ = ["base_hungarian_algorithm", "hungarian_algorithm"]


def _augmented(cost, row, u, v, row_of):
    """One row more is assigned: a shortest augmenting path from `row` over reduced costs, and the potentials after it."""
    n, m = cost.shape
    columns = jnp.arange(m)

    def searching(state):
        return state[-1] < 0

    def search(state):
        least, current, distance, before, done, sink = state
        through = least + cost[current] - u[current] - v
        shorter = ~done & (through < distance)
        distance = jnp.where(shorter, through, distance)
        before = jnp.where(shorter, current, before)
        open_distance = jnp.where(done, jnp.inf, distance)
        least = jnp.min(open_distance)
        # Of equally near columns a free one ends the search at once.
        column = jnp.argmax((open_distance == least) * (1 + (row_of < 0)) * ~done).astype(jnp.int32)
        free = row_of[column] < 0
        # No finite path (infinite or NaN costs) ends it too.
        sink = jnp.where(free, column, jnp.where(least < jnp.inf, -1, jnp.argmax(row_of < 0).astype(jnp.int32)))
        return least, jnp.where(free, current, row_of[column]), distance, before, done | (columns == column), sink

    start = (
        jnp.zeros((), cost.dtype),
        row,
        jnp.full(m, jnp.inf, cost.dtype),
        jnp.full(m, row, jnp.int32),
        jnp.zeros(m, bool),
        jnp.full((), -1, jnp.int32),
    )
    least, _, distance, before, done, sink = while_loop(searching, search, start)
    change = jnp.where(done, least - distance, 0)
    u = u.at[row].add(least).at[jnp.where(done & (row_of >= 0), row_of, n)].add(change, mode="drop")
    v = v - change

    def walk(state):
        row_of, column_of, column, _ = state
        previous = before[column]
        left = column_of[previous]
        return row_of.at[column].set(previous), column_of.at[previous].set(column), left, previous == row

    column_of = jnp.full(n + 1, -1, jnp.int32).at[jnp.where(row_of >= 0, row_of, n)].set(columns.astype(jnp.int32))
    row_of, *_ = while_loop(lambda s: ~s[-1], walk, (row_of, column_of, sink, jnp.zeros((), bool)))
    return u, v, row_of


def _solve(cost):
    """The column of each row of a cost matrix that is not higher than wide."""
    n, m = cost.shape
    start = (jnp.zeros(n, cost.dtype), jnp.zeros(m, cost.dtype), jnp.full(m, -1, jnp.int32))
    _, _, row_of = fori_loop(0, n, lambda row, s: _augmented(cost, jnp.asarray(row, jnp.int32), *s), start)
    return jnp.zeros(n + 1, int).at[jnp.where(row_of >= 0, row_of, n)].set(jnp.arange(m))[:n]


def hungarian_algorithm(cost_matrix):
    """(i, j) such that the sum of cost_matrix[i, j] is least, each row and column being taken at most once: min(n, m) pairs.

    Shortest augmenting paths (Jonker & Volgenant, 1987; Crouse, 2016): O(n^2 m). Works under jit and vmap.

    >>> import fgrad.numpy as jnp
    >>> from fgrad.optim.assignment import hungarian_algorithm
    >>> cost = jnp.array([[8, 4, 7], [5, 2, 3], [9, 4, 8]])
    >>> i, j = hungarian_algorithm(cost)
    >>> int(cost[i, j].sum())
    15
    """
    cost = jnp.asarray(cost_matrix)
    if cost.ndim != 2:
        raise ValueError(f"hungarian_algorithm: the cost matrix must have rank 2, got shape {cost.shape}")
    if 0 in cost.shape:
        return jnp.zeros(0, int), jnp.zeros(0, int)
    cost = cost.astype(jnp.promote_types(cost.dtype, float) if jnp.issubdtype(cost.dtype, jnp.floating) else float)
    if cost.shape[0] <= cost.shape[1]:
        return jnp.arange(cost.shape[0]), _solve(cost)
    rows = _solve(cost.T)
    order = jnp.argsort(rows)
    return rows[order], order


def base_hungarian_algorithm(cost_matrix):
    """hungarian_algorithm, under the name that optax has for its first version."""
    return hungarian_algorithm(cost_matrix)
