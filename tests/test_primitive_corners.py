"""What the table's cases do not draw: masked and tied values, derivatives there, and errors of the fused and sorting primitives."""

import numpy as np
import pytest

import fgrad
from fgrad.core import from_numpy
from fgrad.ops import (
    activation,
    along,
    argreduce,
    attention,
    cumulative,
    elementwise,
    gather,
    loss,
    movement_nn,
    norm,
    reduce,
    rope,
    softmax,
    sort,
)
from tests.derivatives import check_derivatives, check_vmap
from tests.table.rows.nn import np_attention

rng = np.random.default_rng(7)
X = rng.standard_normal((3, 4, 5))


@pytest.fixture(autouse=True)
def x64():
    with fgrad.enable_x64():
        yield


def arr(x, dtype=None):
    return from_numpy(np.asarray(x, dtype))


def slopes(f, *xs):
    """The derivatives of an elementwise function in each of its arguments."""
    xs = tuple(np.asarray(x, float) for x in xs)
    return [np.asarray(fgrad.vjp(f, *xs)[1](np.ones(xs[0].shape))[i]) for i in range(len(xs))]


# --- derivatives where a function has a kink --------------------------------------------------------------------------


def test_ties_share_the_derivative():
    for f in (elementwise.max, elementwise.min):
        a, b = slopes(f, [1.0, 2, 3], [1.0, 3, 2])
        assert a[0] == b[0] == 0.5 and set(a[1:]) == set(b[1:]) == {0, 1}
    x = np.array([2.0, 1, 2, 0])
    np.testing.assert_allclose(fgrad.grad(lambda x: reduce.reduce_max(x, (0,)))(x), [0.5, 0, 0.5, 0])
    np.testing.assert_allclose(fgrad.grad(lambda x: reduce.reduce_min(-x, (0,)))(x), [-0.5, 0, -0.5, 0])
    _, t = fgrad.jvp(lambda x: cumulative.cummax(x, 0), (np.array([1.0, 1, 0, 1, 2, 2]),), (np.array([1.0, 2, 5, 3, 4, 8]),))
    np.testing.assert_allclose(t, [1, 1.5, 1.5, 2, 4, 6])
    rows = np.array([0, 0, 1])
    x, u = np.array([1.0, 2]), np.array([1.0, 1, 3])
    gx, gu = fgrad.grad(lambda x, u: reduce.reduce_sum(gather.put_rows("min", x, rows, u), (0,)), (0, 1))(x, u)
    np.testing.assert_allclose(np.concatenate([gx, gu]), [1 / 3, 1, 1 / 3, 1 / 3, 0])


def test_kinks():
    np.testing.assert_array_equal(slopes(elementwise.abs, [-1, 0, 2])[0], [-1, 1, 1])
    np.testing.assert_array_equal(slopes(lambda x: elementwise.clamp(0.0, x, 1.0), [-1, 0, 0.5, 1, 2])[0], [0, 0, 1, 0, 0])
    x, y = [0.0, 0, 2, 0], [0.0, 2, 0, 1]
    dx, dy = slopes(elementwise.pow, x, y)
    np.testing.assert_array_equal(dx, [np.nan, 0, 0, 1])  # y x**(y - 1), as in JAX
    np.testing.assert_allclose(dy, [0, 0, np.log(2), 0])
    np.testing.assert_array_equal(slopes(elementwise.sqrt, [0.0, 4])[0], [np.inf, 0.25])
    np.testing.assert_allclose(slopes(elementwise.logistic, [-800.0, 0, 800])[0], [0, 0.25, 0])
    np.testing.assert_allclose(slopes(activation.softplus, [-800.0, 0, 800])[0], [0, 0.5, 1])
    np.testing.assert_array_equal(np.asarray(elementwise.div(arr(5), arr(0))), -1)
    np.testing.assert_array_equal(np.asarray(elementwise.rem(arr(5), arr(0))), 5)


def test_third_derivatives():
    check_derivatives(activation.softplus, np.array([-3.0, 0, 2]), order=3)
    check_derivatives(lambda x: softmax.log_softmax(x, 0), X[0, 0], order=3)
    check_derivatives(lambda x: norm.rms_norm(x), X[0, 0], order=3)


def test_products_with_zeros():
    x = X.copy()
    x[1] = 0
    x[0, 2] = 0
    check_derivatives(lambda x: cumulative.cumprod(x, 0), x)
    check_derivatives(lambda x: reduce.reduce_prod(x, (0, 1)), x)


def test_reductions_of_nothing_beside_others():
    """An empty reduction must not write over a temporary of the same program."""
    f = fgrad.jit(lambda x, e: elementwise.add(reduce.reduce_sum(x, (0, 1)), reduce.reduce_prod(e, (0, 1))))
    assert float(f(np.ones((2, 3)), np.zeros((0, 3)))) == 7


# --- masked values ----------------------------------------------------------------------------------------------------


def test_minus_infinity_in_softmax():
    y = np.asarray(softmax.softmax(arr([-np.inf, 0.0, 1.0]), 0))
    assert y[0] == 0 and np.asarray(softmax.logsumexp(arr([-np.inf, -np.inf]), 0)) == -np.inf
    x = np.array([-np.inf, 1.0, 2.0])
    _, t = fgrad.jvp(lambda x: cumulative.cumlogsumexp(x, 0), (x,), (np.ones(3),))
    np.testing.assert_allclose(t, [0, 1, 1])


def test_labels_of_any_integer_type():
    labels = rng.integers(-1, 7, (3, 4))
    for dtype in (np.int8, np.uint8, np.int64):
        given = np.abs(labels).astype(dtype)
        np.testing.assert_array_equal(loss.cross_entropy(arr(X), arr(given))[0], loss.cross_entropy(arr(X), arr(given, np.int32))[0])


def attention_args(h, hk, t, s, d, dv, bias):
    shapes = [(2, h, t, d), (2, hk, s, d), (2, hk, s, dv)] + [(2, h, t, s)] * bias
    return [rng.standard_normal(shape) for shape in shapes]


def test_attention_of_queries_that_see_nothing():
    args = attention_args(2, 1, 5, 3, 3, 3, False)
    for got, want in zip(attention.attention(*map(arr, args), causal=True, scale=0.5), np_attention(*args, causal=True, scale=0.5)):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
    check_derivatives(lambda *a: attention.attention(*a, causal=True)[0], *args)
    q, k, v, bias = attention_args(2, 2, 3, 4, 4, 4, True)
    bias[:, :, 0, 2:] = -np.inf
    bias[:, :, 1] = -np.inf
    for got, w in zip(attention.attention(*map(arr, (q, k, v, bias)), scale=0.5), np_attention(q, k, v, bias, scale=0.5)):
        np.testing.assert_allclose(got, w, rtol=1e-10, atol=1e-12)
    check_derivatives(lambda q, k, v: attention.attention(q, k, v, arr(bias))[0], q, k, v)  # a mask: no cotangent of the bias


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_with_nan(side):
    a = np.sort(rng.integers(0, 6, 7).astype(float))
    v = np.array([[0, 1, 2.5, np.nan], [3, 4, 5, 7]])
    np.testing.assert_array_equal(sort.searchsorted(arr(a), arr(v), side), np.searchsorted(a, v, side))
    holes = np.append(a, [np.nan, np.nan])
    check_vmap(lambda a, v: sort.searchsorted(a, v, side), np.stack([holes, 2 * holes]), v, in_axes=(0, 0))
    many = np.concatenate([np.linspace(-3, 9, 90), np.full(9, np.nan)])
    check_vmap(lambda a, v: sort.searchsorted(a, v, side), np.stack([many, 2 * many]), v, in_axes=(0, 0))


def test_searchsorted_under_two_vmaps():
    a, v = np.sort(rng.normal(size=(3, 50))), rng.normal(size=(4, 6))
    want = np.array([[np.searchsorted(x, y) for y in v] for x in a])
    find = lambda a, v: sort.searchsorted(a, v, "left")  # noqa: E731
    for jit in (fgrad.jit, lambda f: f):
        pairs = jit(fgrad.vmap(fgrad.vmap(find, (None, 0)), (0, None)))
        np.testing.assert_array_equal(pairs(arr(a), arr(v)), want)
        turned = jit(fgrad.vmap(fgrad.vmap(find, (0, None)), (None, 1)))
        np.testing.assert_array_equal(turned(arr(a), arr(v.T)), want.swapaxes(0, 1))
    got = fgrad.jit(fgrad.vmap(fgrad.vmap(find)))(arr(np.stack([a, a - 1])), arr(np.stack([v[:3], v[1:]])))
    np.testing.assert_array_equal(got, [[np.searchsorted(x, y) for x, y in zip(b, w)] for b, w in ((a, v[:3]), (a - 1, v[1:]))])


def test_first_nan_is_the_extremum():
    for f in (argreduce.argmax, argreduce.argmin):
        assert np.asarray(f(arr([1.0, np.nan, 3.0, np.nan]), 0)) == 1
    x = np.round(X * 2)  # of ties the first
    np.testing.assert_array_equal(argreduce.argmax(arr(x), 1), np.argmax(x, 1))


# --- errors -----------------------------------------------------------------------------------------------------------

ERRORS = [
    (TypeError, "floating", lambda: softmax.softmax(arr(np.arange(3)), 0)),
    (ValueError, "out of bounds", lambda: softmax.logsumexp(arr(X), 3)),
    (ValueError, "eps", lambda: norm.rms_norm(arr(X), eps=-1.0)),
    (ValueError, "labels", lambda: loss.cross_entropy(arr(X), arr(np.zeros((3, 5), int)))),
    (TypeError, "labels", lambda: loss.cross_entropy(arr(X), arr(X[..., 0]))),
    (ValueError, "broadcast", lambda: rope.rope(arr(X), arr(np.ones((3, 1))), arr(np.ones((3, 1))))),
    (ValueError, "half", lambda: rope.rope(arr(X), arr(np.ones((4, 3))), arr(np.ones((4, 3))))),
    (ValueError, "multiple", lambda: attention.attention(*map(arr, attention_args(3, 2, 2, 2, 2, 2, False)))),
    (ValueError, "4 axes", lambda: attention.attention(arr(X), arr(X), arr(X))),
    (ValueError, "window", lambda: movement_nn.view(arr(X), (3, 2), (4, 60), 1)),
    (ValueError, "window", lambda: movement_nn.view(arr(X), (2,), (-1,), 0)),
    (ValueError, "window", lambda: movement_nn.view(arr(X), (2,), (1,), -1)),
    (ValueError, "multiples", lambda: movement_nn.repeat_back(arr(X), (2, 1, 1))),
    (TypeError, "at least one", lambda: sort.sort(())),
    (ValueError, "num_keys", lambda: sort.sort((arr(X),), num_keys=2)),
    (ValueError, "k must be", lambda: sort.top_k(arr(X), 6)),
    (ValueError, "one shape", lambda: sort.sort((arr(X), arr(X[0])))),
    (ValueError, "side", lambda: sort.searchsorted(arr([1.0]), arr([1.0]), "middle")),
    (ValueError, "empty", lambda: argreduce.argmax(arr(np.zeros((0, 2))), 0)),
    (ValueError, "axis", lambda: cumulative.cumsum(arr(X), 3)),
    (ValueError, "along axis", lambda: along.take_along(arr(X), arr(np.zeros((3, 3, 3), int)), 1)),
    (TypeError, "one dtype", lambda: attention.attention(*[arr(x, d) for x, d in zip(attention_args(2, 2, 2, 2, 2, 2, False), "dfd")])),
    (fgrad.errors.NotDifferentiableError, "keys", lambda: fgrad.linear_transpose(lambda x: sort.sort(x), X)(X)),
]


@pytest.mark.parametrize("error, words, call", ERRORS, ids=[f"{i}-{e[1]}" for i, e in enumerate(ERRORS)])
def test_errors(error, words, call):
    with pytest.raises(error, match=words):
        call()


def test_cotangents_of_real_and_imaginary_parts():
    """The other part of the cotangent is zero, also of an infinite one."""
    for part, want in ((fgrad.numpy.real, complex(np.inf, 0)), (fgrad.numpy.imag, complex(0, -np.inf))):
        got = fgrad.grad(lambda z, part=part: part(z) / 0.0)(3.0 + 4j)
        assert complex(got) == want


def test_derivatives_of_cumlogsumexp_at_infinity():
    slopes = fgrad.grad(lambda x: elementwise.add(*[cumulative.cumlogsumexp(x, 0)[i : i + 1].sum() for i in (0, 2)]))
    np.testing.assert_array_equal(slopes(np.array([1.0, np.inf, 2.0], np.float32)), [1, 1, 0])
    np.testing.assert_array_equal(slopes(np.array([-np.inf, -np.inf, 1.0], np.float32)), [0, 0, 1])
