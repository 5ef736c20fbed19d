"""Padding by an array's own elements: its gradient is one sum of the margins into what they surround, at any number of threads."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad.ops.surround import fold, fold_p, surround_p
from tests.derivatives import check_derivatives

MODES = ("reflect", "symmetric", "edge", "wrap")
SHAPES = [
    ((40_000,), 3),
    ((7, 5), ((3, 1), (0, 2))),
    ((2, 3, 90, 70), ((0, 0), (0, 0), (2, 2), (1, 3))),
    ((4, 30, 20, 6), ((0, 0), (1, 2), (2, 0), (0, 0))),
    ((6, 1, 7), ((1, 1), (2, 3), (2, 2))),
    ((5,), ((12, 9),)),
    ((3000,), ((1500, 1100),)),
]


@pytest.fixture
def x64():
    with fgrad.config.override("enable_x64", True):
        yield


def pulled(shape, width, mode):
    """What is pulled back through a padding of that shape, and the same by NumPy, in float64."""
    rows = [np.pad(np.arange(n), w, mode=mode) for n, w in zip(shape, np.broadcast_to(width, (len(shape), 2)))]
    ct = np.random.default_rng(0).standard_normal([len(r) for r in rows])
    want = np.zeros(shape)
    np.add.at(want, np.ix_(*rows), ct)
    return ct, want


def instructions(fun, *args):
    return [name for _, name in fgrad.jit(fun).lower(*args).compile().profile(*args, repeat=1)]


@pytest.mark.parametrize("shape, width", SHAPES, ids=[str(s) for s, _ in SHAPES])
@pytest.mark.parametrize("mode", MODES)
def test_gradient(shape, width, mode):
    ct, want = pulled(shape, width, mode)
    pull = fgrad.jit(lambda c: fgrad.vjp(lambda x: jnp.pad(x, width, mode=mode), jnp.zeros(shape))[1](c)[0])
    got, threads = [], fgrad.get_num_threads()
    try:
        for n in (1, 2):
            fgrad.set_num_threads(n)
            got.append(np.asarray(pull(ct.astype("float32"))))
    finally:
        fgrad.set_num_threads(threads)
    np.testing.assert_allclose(got[0], want, rtol=1e-5, atol=1e-4)
    assert got[0].tobytes() == got[1].tobytes()
    ct[...] = 1.0
    ct.reshape(-1)[0] = np.inf
    assert np.isinf(np.asarray(pull(ct.astype("float32")))).sum() == 1


@pytest.mark.parametrize("mode", MODES)
def test_one_instruction(mode):
    x = jnp.ones((8, 3, 40, 40))
    names = instructions(fgrad.grad(lambda x: jnp.sum(jnp.sin(jnp.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2)), mode=mode)))), x)
    assert sum(["fold" in n for n in names]) == 1 and not any(["pad" in n for n in names])


@pytest.mark.parametrize("mode", MODES)
def test_derivatives(mode, x64):
    x = np.random.default_rng(1).standard_normal((3, 5, 4))
    check_derivatives(lambda x: jnp.sin(jnp.pad(x, ((2, 1), (0, 0), (1, 3)), mode=mode)), x)
    f = lambda x: jnp.pad(x, ((2, 1), (1, 3)), mode=mode)
    np.testing.assert_array_equal(fgrad.vmap(f, 1, 2)(x), np.stack([np.pad(x[:, i], ((2, 1), (1, 3)), mode=mode) for i in range(5)], 2))
    jac = fgrad.jit(fgrad.jacfwd(lambda x: jnp.pad(x, (2, 3), mode=mode)))(jnp.ones(4))
    np.testing.assert_array_equal(jac, np.eye(4)[np.pad(np.arange(4), (2, 3), mode=mode)])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_sums_are_rounded_once(dtype):
    ct = jnp.full(9, 1.0, dtype).at[0].set(256.0)
    got = fold(ct, ((0, (0, 0, 0, 0, 0, 0), ()),))
    assert got.dtype == dtype and got.tolist() == [262.0, 1.0, 1.0]


def test_what_is_refused():
    x = jnp.ones((3, 4))
    for margins in (((0, (3,), ()),), ((2, (0,), ()),), ((1, (0,), ()), (0, (0,), ())), ((0, (), (-1,)),)):
        with pytest.raises(fgrad.errors.ShapeError, match="surround"):
            surround_p.bind(x, margins=margins)
    with pytest.raises(fgrad.errors.ShapeError, match="smaller"):
        fold_p.bind(x, margins=((0, (0, 0), (0, 0)),))
    with pytest.raises(fgrad.errors.ShapeError, match="indices"):
        fold_p.bind(x, margins=((0, (2,), ()),))
