"""Convolutions of bfloat16 and their gradients, on pairs of features or images where the processor has an instruction for them."""

import functools

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from tests.table.rows.conv import np_conv

CANONICAL = ("NCHW", "OIHW", "NCHW")
LAYOUTS = (CANONICAL, ("NHWC", "HWIO", "NHWC"), ("HNWC", "OHWI", "HNWC"), ("NCHW", "IOHW", "NHWC"), ("CWHN", "HOIW", "WCNH"))
# (batch, features, rows, columns), (output features, window), keywords
CASES = (
    ((2, 16, 9, 11), (33, 3, 3), {}),
    ((3, 5, 8, 7), (17, 3, 2), dict(strides=(2, 1), pads=((1, 1), (2, 0)))),
    ((1, 40, 6, 20), (2, 1, 4), dict(strides=(1, 2), rdil=(1, 2))),
    ((5, 2, 7, 9), (16, 5, 5), dict(pads=((2, 2), (2, 2)))),
    ((4, 3, 6, 5), (8, 2, 3), dict(ldil=(2, 3), pads=((1, 2), (2, 2)))),
    ((2, 18, 5, 5), (9, 1, 1), dict(strides=(2, 2))),
    ((2, 1, 12, 18), (3, 3, 3), {}),
)


def operands(rng, case):
    xs, (o, *window), kw = case
    x, w = (np.asarray(jnp.asarray(rng.standard_normal(s), "bfloat16")).astype(np.float64) for s in (xs, (o, xs[1], *window)))
    return x, w, {"strides": (1, 1), "pads": ((0, 0), (0, 0)), "ldil": (1, 1), "rdil": (1, 1), **kw}


def turned(x, order, canonical):
    return x.transpose([canonical.index(a) for a in order])


def function(kw, layout, preferred=None):
    pads = (kw["strides"], kw["pads"], kw["ldil"], kw["rdil"])
    return lambda x, w, groups=1: lax.conv_general_dilated(
        x, w, *pads, dimension_numbers=layout, preferred_element_type=preferred, feature_group_count=groups
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_values(layout):
    rng = np.random.default_rng(0)
    for case in CASES:
        x, w, kw = operands(rng, case)
        want, size = (turned(np_conv(*v, *kw.values()), layout[2], "NCHW") for v in ((x, w), (np.abs(x), np.abs(w))))
        args = [jnp.asarray(turned(v, order, c), "bfloat16") for v, order, c in zip((x, w), layout, CANONICAL)]
        for preferred, eps in ((None, 2.0**-8), (np.float32, 2.0**-22)):
            f = function(kw, layout, preferred)
            out = fgrad.jit(f)(*args)
            assert out.dtype == (preferred or jnp.bfloat16)
            assert (np.abs(np.asarray(out, np.float64) - want) <= eps * np.abs(want) + 2.0**-20 * size).all()
            np.testing.assert_array_equal(np.asarray(f(*args), np.float32), np.asarray(out, np.float32))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients(layout):
    """Convolutions are linear in each operand: a gradient times any change is the cotangent times the convolution of that change."""
    rng = np.random.default_rng(1)
    for case in CASES:
        x, w, kw = operands(rng, case)
        args = [jnp.asarray(turned(v, order, c), "bfloat16") for v, order, c in zip((x, w), layout, CANONICAL)]
        out, pullback = fgrad.jit(functools.partial(fgrad.vjp, function(kw, layout)))(*args)
        ct = np.asarray(jnp.asarray(rng.standard_normal(out.shape), "bfloat16"))
        gradients = pullback(jnp.asarray(ct))
        ct = ct.astype(np.float64).transpose([layout[2].index(a) for a in "NCHW"])
        for i, (g, order, c) in enumerate(zip(gradients, layout, CANONICAL)):
            assert g.dtype == jnp.bfloat16
            g = np.asarray(g, np.float64).transpose([order.index(a) for a in c])
            change = rng.standard_normal(g.shape)
            want = np.sum(ct * np_conv(*((change, w) if i == 0 else (x, change)), *kw.values()))
            assert abs(np.sum(g * change) - want) <= 2.0**-7 * np.sqrt(np.sum((g * change) ** 2)) + 1e-3


@pytest.mark.parametrize("layout", LAYOUTS)
def test_groups(layout):
    """Features of one group each, and a few: values and gradients of what float64 gives, rounded once."""
    rng = np.random.default_rng(3)
    for groups, inputs, outputs, size, kw in (
        (37, 1, 1, (9, 13), dict(pads=((1, 1), (1, 1)))),
        (16, 1, 2, (8, 7), dict(strides=(2, 1), pads=((2, 0), (1, 2)), rdil=(1, 2))),
        (8, 4, 4, (6, 10), dict(pads=((1, 1), (1, 1)))),
        (2, 3, 8, (7, 9), dict(strides=(2, 2))),
        (9, 1, 1, (5, 6), dict(ldil=(2, 3), pads=((3, 1), (2, 2)))),
        (2, 19, 16, (7, 8), dict(pads=((1, 1), (1, 1)))),
        (3, 16, 21, (6, 9), dict(strides=(2, 1), rdil=(1, 2), pads=((1, 1), (2, 1)))),
    ):
        x, w, kw = operands(rng, ((2, groups * inputs, *size), (groups * outputs, 3, 3), kw))
        w = w[:, :inputs]
        f = functools.partial(function(kw, layout), groups=groups)
        args = [turned(v, order, c) for v, order, c in zip((x, w), layout, CANONICAL)]
        halves = [jnp.asarray(v, "bfloat16") for v in args]
        pull = fgrad.jit(lambda x, w, ct, f=f: fgrad.vjp(f, x, w)[1](ct))
        out = fgrad.jit(f)(*halves)
        want, size = (turned(np_conv(*v, *kw.values(), None, groups), layout[2], "NCHW") for v in ((x, w), (np.abs(x), np.abs(w))))
        assert out.dtype == jnp.bfloat16
        assert (np.abs(np.asarray(out, np.float64) - want) <= 2.0**-8 * np.abs(want) + 2.0**-20 * size).all()
        ct = jnp.asarray(rng.standard_normal(out.shape), "bfloat16")
        for got, exact in zip(pull(*halves, ct), pull(*(v.astype(np.float32) for v in halves), ct.astype(np.float32))):
            assert got.dtype == jnp.bfloat16
            np.testing.assert_allclose(np.asarray(got, np.float32), np.asarray(exact), rtol=2.0**-7, atol=1e-4)


def test_a_value_stays_in_its_windows():
    """What fills up an odd number of features, images or taps meets no infinity."""
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal((3, 5, 7, 8)), rng.standard_normal((6, 5, 3, 3))
    x[1, 4, 3, 4] = np.inf
    x, w = jnp.asarray(x, "bfloat16"), jnp.asarray(w, "bfloat16")
    f = function(dict(strides=(1, 1), pads=((0, 0), (0, 0)), ldil=(1, 1), rdil=(1, 1)), CANONICAL)
    out = np.asarray(f(x, w), np.float32)
    reached = np.zeros(out.shape, bool)
    reached[1, :, 1:4, 2:5] = True
    assert np.isinf(out[reached]).all() and np.isfinite(out[~reached]).all()
    g = np.asarray(fgrad.grad(lambda w: f(x, w).sum())(w), np.float32)
    assert np.isinf(g[:, 4]).all() and np.isfinite(g[:, :4]).all()
