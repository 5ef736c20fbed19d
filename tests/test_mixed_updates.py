"""Indexed updates by values of other dtypes, an Ellipsis of no axes, and gradients of numbers that index beyond an array."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp

COMBINE = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}
PLACES = [np.s_[1:4], np.array([1, 2, 3])]


@pytest.mark.parametrize("place", PLACES, ids=["window", "rows"])
@pytest.mark.parametrize("given", ["uint8", "int8"])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_narrow_numbers_are_subtracted_in_the_dtype_of_the_array(dtype, given, place):
    """-x of an unsigned number, and of the least signed one, is another number in its own dtype."""
    x = np.array([5, 6, 7, 8, 9], dtype)
    u = np.array([3, 200, 128], np.uint8).view(given)
    want = x.copy()
    want[1:4] -= u.astype(dtype)
    np.testing.assert_array_equal(jnp.array(x).at[place].subtract(u), want)
    np.testing.assert_array_equal(fgrad.jit(lambda x, u: x.at[place].subtract(u))(x, u), want)


def test_bools_are_subtracted_as_numbers():
    mask = np.array([True, False, True])
    np.testing.assert_array_equal(jnp.zeros(4).at[:3].subtract(mask), [-1, 0, -1, 0])
    np.testing.assert_array_equal(jnp.zeros(2, "int8").at[0].subtract(True), [-1, 0])


@pytest.mark.filterwarnings("ignore:an indexed update casts")
@pytest.mark.parametrize("place", PLACES, ids=["window", "rows"])
@pytest.mark.parametrize("kind", COMBINE)
@pytest.mark.parametrize("dtype", ["int32", "int16", "uint8", "bool"])
def test_wider_values_are_combined_before_they_are_cast(dtype, kind, place):
    """As JAX: -3 + 0.7 is -2 in the end, not -3 + 0. What is not updated stays, though float32 does not hold it."""
    whole = np.array([5, 3, 0, 6, 2**24 + 1 if dtype == "int32" else 7])
    x, u = whole.astype(dtype), np.array([0.7, 0.6, 1.7], np.float32)
    want = x.copy()
    want[1:4] = COMBINE[kind](x[1:4].astype(np.float32), u).astype(dtype)
    got = getattr(jnp.array(x).at[place], kind)(u)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(fgrad.jit(lambda x, u: getattr(x.at[place], kind)(u))(x, u), want)


@pytest.mark.parametrize("index", [(None, np.array([1, 0, 1], bool), ..., -1), (0, ..., np.array([0, 2, 1])), (np.array([0, 2]), ..., 1)])
def test_an_ellipsis_of_no_axes_parts_index_arrays(index):
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    want = x[index]
    got = jnp.array(x)[index]
    np.testing.assert_array_equal(got, want)
    values = -want - 1
    there = x.copy()
    there[index] = values
    np.testing.assert_array_equal(jnp.array(x).at[index].set(values), there)
    np.testing.assert_array_equal(fgrad.jit(lambda x: x.at[index].set(values))(x), there)


@pytest.mark.parametrize("at", [-9, -4, 1, 4, 9])
@pytest.mark.parametrize(
    "reads",
    [
        lambda x, i: x[i],
        lambda x, i: x[:, i],
        lambda x, i: x[1:3, i],
        lambda x, i: x[i, i],
        lambda x, i: x[::-1, i],
        lambda x, i: x[1::2, i],
    ],
)
def test_gradients_of_numbers_that_index_beyond(reads, at):
    """Numbers and slices are a window that is moved inside, so the gradient goes where the value came from."""
    x = jnp.arange(16.0).reshape(4, 4)
    inside = min(max(at + 4 if at < 0 else at, 0), 3)
    i = jnp.int32(at)
    want = fgrad.grad(lambda x: reads(x, inside).sum())(x)
    assert reads(x, i).sum() == reads(x, inside).sum()
    np.testing.assert_array_equal(fgrad.grad(lambda x: reads(x, i).sum())(x), want)
    np.testing.assert_array_equal(fgrad.jit(fgrad.grad(lambda x, i: reads(x, i).sum()))(x, i), want)


PARTS = [np.s_[1:3, 0], np.s_[0, 0:-1], np.s_[1:, 0, :], np.s_[2, 0, 1:2], np.s_[-1, :2, 0], np.s_[:3, 1:4, 0]]


@pytest.mark.parametrize("kind", ["set", "add", "multiply", "min"])
@pytest.mark.parametrize("mode", [None, "drop", "clip", "wrap"])
@pytest.mark.parametrize("place", PARTS, ids=str)
def test_a_part_of_a_row_or_column_at_a_traced_place_is_one_window(place, mode, kind):
    x = jnp.arange(60.0).reshape(4, 5, 3)
    moved = [n for n, i in enumerate(place) if type(i) is int and i == 0][-1]

    def updated(x, u, k):
        return getattr(x.at[(*place[:moved], k, *place[moved + 1 :])], kind)(u, mode=mode)

    for k in (0, 1, 2, -1, -3, 4, 9):
        np.testing.assert_array_equal(fgrad.jit(updated)(x, 7.5, jnp.int32(k)), updated(x, 7.5, jnp.array([k])))


@pytest.mark.parametrize("update", [lambda x, k: x.at[1:3, k].set(x[0, 0]), lambda x, k: x.at[k, 1:3, 0].add(x[0, 0, 0])])
def test_gradients_of_such_windows(update):
    x = jnp.arange(60.0).reshape(4, 5, 3)
    weights = jnp.arange(60.0).reshape(4, 5, 3)
    gradient = fgrad.jit(fgrad.grad(lambda x, k: (update(x, k) * weights).sum()))(x, 1)
    np.testing.assert_allclose(gradient, fgrad.grad(lambda x: (update(x, 1) * weights).sum())(x))
    names = [e.primitive.name for e in fgrad.make_jaxpr(update)(x, 1).eqns]
    assert "iota" not in names and "scatter" in " ".join(names)
