"""any and all of short rows of booleans, whose rows are put together by vectors."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp


@pytest.mark.parametrize("k", range(1, 18))
@pytest.mark.parametrize("share", [0.1, 0.9])
def test_rows_of_all_lengths(k, share):
    rng = np.random.RandomState(k)
    f = fgrad.jit(lambda x: (jnp.any(x, -1), jnp.all(x, -1), x.any(-1) & ~x.all(-1)))
    for rows in (1, 2, 7, 8, 9, 15, 16, 17, 31, 63, 100, 1000):
        x = rng.rand(rows, k) < share
        some, every, mixed = f(x)
        np.testing.assert_array_equal(some, x.any(-1))
        np.testing.assert_array_equal(every, x.all(-1))
        np.testing.assert_array_equal(mixed, x.any(-1) & ~x.all(-1))


@pytest.mark.parametrize("k", [2, 3, 5, 8])
def test_rows_of_what_is_compared(k):
    """Rows that a tile computes, under vmap and by columns of a larger array."""
    x = np.random.RandomState(k).randint(0, 3, (40, 50, k)).astype(np.int32)
    lines = fgrad.jit(fgrad.vmap(lambda x: (jnp.all(x == 1, -1), jnp.any(x == 2, -1), jnp.any(jnp.all(x > 0, -1)))))
    ones, twos, full = lines(x)
    np.testing.assert_array_equal(ones, (x == 1).all(-1))
    np.testing.assert_array_equal(twos, (x == 2).any(-1))
    np.testing.assert_array_equal(full, (x > 0).all(-1).any(-1))
