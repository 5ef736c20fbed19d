"""fgrad.ggml: every op against NumPy, finite differences and stacking, the vocabulary, and ggml's own gradient checks."""

from pathlib import Path

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import ggml
from tests.derivatives import as_tuple, check_derivatives
from tests.ggml_rows import CASES
from tests.ggml_rows.basic import REVERSE_ONLY, ZERO
from tests.ggml_rows.case import numbers
from tests.ggml_table import OPS, table

each_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)


def with_floats(case, change):
    return [change(i, a) if np.asarray(a).dtype.kind == "f" else a for i, a in enumerate(case.args)]


@each_case
def test_forward(case):
    with np.errstate(all="ignore"):
        want = as_tuple(case.ref(*case.args))
    with fgrad.enable_x64():
        got = as_tuple(case.fun(*map(jnp.asarray, case.args)))
        assert len(got) == len(want)
        for g, w in zip(got, want):
            assert g.shape == np.shape(w), (g.shape, np.shape(w))
            np.testing.assert_allclose(np.asarray(g), w, rtol=1e-9, atol=1e-10)
    single = as_tuple(case.fun(*with_floats(case, lambda _, a: np.asarray(a, np.float32))))
    for g, w in zip(single, want):
        assert g.dtype.itemsize == 4
        np.testing.assert_allclose(np.asarray(g), w, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("case", [c for c in CASES if c.wrt], ids=lambda c: c.id)
def test_derivatives(case):
    def of_floats(*xs):
        args = list(case.args)
        for i, x in zip(case.wrt, xs):
            args[i] = x
        return case.fun(*args)

    custom = case.op in REVERSE_ONLY
    with fgrad.enable_x64():
        modes = ("rev",) if custom else ("fwd", "rev")
        check_derivatives(of_floats, *[case.args[i] for i in case.wrt], order=1 if custom else case.order, label=case.id, modes=modes)


@pytest.mark.parametrize("case", [c for c in CASES if c.args], ids=lambda c: c.id)
def test_vmap_is_stacking(case):
    floats = [np.asarray(a).dtype.kind == "f" for a in case.args]
    if any(floats):
        axes = [0 if f else None for f in floats]
        args = [np.stack([a, a * 0.9]) if f else a for a, f in zip(case.args, floats)]
    else:
        axes, args = [0] * len(floats), [np.stack([a, a[::-1]]) for a in case.args]
    with fgrad.enable_x64():
        out = as_tuple(fgrad.vmap(case.fun, in_axes=tuple(axes))(*args))
        for i in range(2):
            want = as_tuple(case.fun(*[jnp.asarray(a[i] if x == 0 else a) for a, x in zip(args, axes)]))
            for g, w in zip(out, want):
                np.testing.assert_allclose(np.asarray(g[i]), np.asarray(w), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", [c for c in CASES if c.args], ids=lambda c: c.id)
def test_jit_is_the_same(case):
    args = with_floats(case, lambda _, a: np.asarray(a, np.float32))
    for g, w in zip(as_tuple(fgrad.jit(case.fun)(*args)), as_tuple(case.fun(*args))):
        assert g.dtype == w.dtype and g.shape == w.shape
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("case", [c for c in CASES if c.args and c.wrt], ids=lambda c: c.id)
def test_16_bits(case, dtype):
    """Results and gradients keep the dtype, and are those of float32 up to its precision."""
    narrow = with_floats(case, lambda _, a: jnp.asarray(a, dtype))
    wide = [a.astype(jnp.float32) if np.asarray(b).dtype.kind == "f" else a for a, b in zip(narrow, case.args)]
    got, want = as_tuple(case.fun(*narrow)), as_tuple(case.fun(*wide))
    tolerance = 0.02 if dtype == jnp.float16 else 0.15
    for g, w in zip(got, want):
        assert g.dtype == dtype
        w = np.asarray(w, float)
        np.testing.assert_allclose(np.asarray(g, float), w, atol=tolerance * max(1, np.abs(w[np.isfinite(w)]).max(initial=0)))
    grads = fgrad.grad(lambda *a: sum(ggml.sum(o.astype(jnp.float32)) for o in as_tuple(case.fun(*a))), case.wrt)(*narrow)
    assert all(g.dtype == dtype for g in grads)


def test_the_vocabulary_is_complete():
    assert len(OPS) == 126 and {kind: sum(o.kind == kind for o in OPS) for kind in ("op", "unary", "glu")} == {
        "op": 98,
        "unary": 22,
        "glu": 6,
    }
    missing = [o.name for o in OPS if not callable(getattr(ggml, o.name, None)) or not getattr(ggml, o.name).__doc__]
    assert not missing
    assert {o.name for o in OPS} == {c.op for c in CASES}


def test_the_document_is_the_table():
    document = Path(__file__).parent.parent / "docs" / "ggml.md"
    assert document.read_text() == table(), "write it again: python -m tests.ggml_table > docs/ggml.md"


# What ggml's test-grad0 draws and tolerates: (arguments, low, high, step, absolute, relative, slopes that finite differences can trust).
INF = np.inf
OWN_CHECKS = {
    "add": (2, -1, 1, 1e-3, 2e-3, 2e-3, ()),
    "sub": (2, -1, 1, 1e-3, 1e-3, 1e-3, ()),
    "mul": (2, -1, 1, 1e-3, 1e-3, INF, ()),
    "div": (2, 0.5, 1, 1e-3, 1e-1, 1e-1, ()),
    "sqr": (1, -1, 1, 1e-3, 1e-3, INF, ()),
    "sqrt": (1, 2e-3, 1, 1e-3, 2e-2, 1e-1, ()),
    "log": (1, 2e-3, 1, 1e-3, INF, 1e-1, ()),
    "sum": (1, -1, 1, 1e-3, 1e-3, 1e-3, ()),
    "sum_rows": (1, -1, 1, 1e-3, 1e-2, INF, ()),
    "mean": (1, -1, 1, 1e-3, 1e-3, 1e-3, ()),
    "abs": (1, -1, 1, 1e-3, INF, 1e-3, (-1, 1)),
    "sgn": (1, -1, 1, 1e-3, 1e-3, 1e-3, (0,)),
    "neg": (1, -1, 1, 1e-3, 1e-3, 1e-3, ()),
    "step": (1, -1, 1, 1e-3, 1e-3, 1e-3, (0,)),
    "tanh": (1, -1, 1, 1e-3, 1e-3, 1e-3, ()),
    "elu": (1, -1, 1, 1e-3, 1e-3, 1e-3, ()),
    "relu": (1, -1, 1, 1e-3, 1e-3, INF, (0, 1)),
    "gelu": (1, -1, 1, 1e-3, 1e-3, 1e-3, ()),
    "silu": (1, -1, 1, 1e-3, 0.5, INF, ()),
    "soft_max": (1, -1, 1, 1e-3, 2e-1, INF, ()),
}


@pytest.mark.parametrize("name", OWN_CHECKS)
def test_ggmls_own_gradient_checks_in_float32(name):
    """The central difference of each element of sum(op(...)) in float32, in ggml's ranges and with its tolerances.

    ggml takes errors up to either bound; quotients of a float32 sum of 12 elements carry an error of about 1e-3 themselves.
    """
    count, low, high, step, absolute, relative, slopes = OWN_CHECKS[name]
    op = getattr(ggml, name)
    xs = [numbers(i, 3, 4, low=low, high=high).astype(np.float32) for i in range(count)]

    def total(*args):
        return ggml.sum(op(*args))

    grads = fgrad.grad(total, tuple(range(count)))(*xs)
    for k, x in enumerate(xs):
        for i in np.ndindex(x.shape):
            sides = []
            for sign in (1, -1):
                moved = [a.copy() for a in xs]
                moved[k][i] += np.float32(sign * step)
                sides.append(float(np.sum(np.asarray(op(*moved)), dtype=np.float64)))
            slope = (sides[0] - sides[1]) / (2 * step)
            if slopes and min(abs(slope - s) for s in slopes) > 1e-2:
                continue  # the difference straddles a kink
            error = abs(slope - float(grads[k][i]))
            assert error <= absolute or error <= relative * abs(slope), (i, slope, grads[k][i])


@pytest.mark.parametrize("name", ZERO)
def test_steps_have_zero_derivatives(name):
    x = jnp.array([-1.5, -0.2, 0.3, 2.6])
    assert np.all(np.asarray(fgrad.grad(lambda x: ggml.sum(getattr(ggml, name)(x)))(x)) == 0)


def test_back_ops_are_the_cotangents():
    """Each _back op gives what fgrad.vjp of its op gives."""
    x, y, g = (jnp.asarray(numbers(i, 2, 3, 4)) for i in range(3))
    rows = jnp.array([[0, 2], [1, 1]])
    pairs = [
        (ggml.silu, x, ggml.silu_back),
        (lambda a: ggml.rms_norm(a, 1e-5), x, lambda g, a: ggml.rms_norm_back(g, a, 1e-5)),
        (lambda a: ggml.soft_max(a, scale=0.5), x, lambda g, a: ggml.soft_max_back(g, ggml.soft_max(a, scale=0.5), 0.5)),
        (lambda a: ggml.repeat(a, x), x[:1, :, :2], lambda g, a: ggml.repeat_back(g, a)),
        (
            lambda a: ggml.rope(a[None], rows[0], 4, 0),
            y,
            lambda g, a: ggml.rope_back(g, rows[0], None, 4, 0, 0, 1e4, 1.0, 0.0, 1.0, 0.0, 0.0)[0],
        ),
        (lambda a: ggml.cross_entropy_loss(a, ggml.soft_max(y)), x, lambda g, a: ggml.cross_entropy_loss_back(g, a, ggml.soft_max(y))),
        (lambda a: ggml.get_rows(a, rows), x, lambda g, a: ggml.get_rows_back(g, rows, a)),
    ]
    for op, arg, back in pairs:
        out, pull = fgrad.vjp(op, arg)
        ct = jnp.broadcast_to(g.reshape(-1)[: out.size].reshape(out.shape) if out.size <= g.size else 1.0, out.shape)
        np.testing.assert_allclose(np.asarray(back(ct, arg)), np.asarray(pull(ct)[0]), rtol=1e-5, atol=1e-6)


ERRORS = {
    "shapes that do not repeat": (lambda: ggml.add(np.ones((2, 3)), np.ones(2)), "does not repeat"),
    "a window outside": (lambda: ggml.view_1d(np.ones(4, np.float32), 3, 8), "window"),
    "half an element": (lambda: ggml.view_1d(np.ones(4, np.float32), 1, 3), "multiple"),
    "rows of other lengths": (lambda: ggml.mul_mat(np.ones((2, 3)), np.ones((2, 4))), "equally long"),
    "odd halves": (lambda: ggml.swiglu(np.ones(3)), "even size"),
    "an unknown op": (lambda: ggml.unary(np.ones(3), "nope"), "no op"),
    "positions": (lambda: ggml.rope(np.ones((1, 3, 1, 4)), np.arange(2), 4, 0), "position"),
    "channels": (lambda: ggml.conv_2d(np.ones((1, 2, 1, 1)), np.ones((1, 3, 4, 4)), 1, 1, 0, 0, 1, 1), "channels"),
    "a kernel too large": (lambda: ggml.conv_2d(np.ones((1, 1, 5, 5)), np.ones((1, 1, 4, 4)), 1, 1, 0, 0, 1, 1), "does not fit"),
    "a stride of 0": (lambda: ggml.pool_1d(np.ones(4), 0, 2, 0, 0), "strides"),
    "heads": (lambda: ggml.flash_attn_ext(np.ones((1, 3, 2, 4)), np.ones((1, 2, 2, 4)), np.ones((1, 2, 2, 4)), None, 1.0), "multiple"),
    "complex": (lambda: ggml.silu(np.ones(2, complex)), "real"),
    "experts": (lambda: ggml.mul_mat_id(np.ones((2, 3, 4)), np.ones((2, 1, 5)), np.zeros((2, 1), int)), "tokens"),
    "a sequence cut": (lambda: ggml.gated_linear_attn(*[np.ones((3, 1, 2))] * 4, np.ones((2, 4)), 1.0), "sequences"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_say_what_is_wrong(name):
    call, text = ERRORS[name]
    with pytest.raises((ValueError, TypeError), match=text):
        call()


def test_custom_without_a_rule_says_so():
    f = lambda x: ggml.sum(ggml.map_custom1(x, np.sinh))
    np.testing.assert_allclose(np.asarray(fgrad.jit(f)(jnp.ones(2))), 2 * np.sinh(1), rtol=1e-6)
    with pytest.raises(fgrad.errors.NotDifferentiableError, match="sinh has no derivative rule"):
        fgrad.grad(f)(jnp.ones(2))


@pytest.mark.parametrize("sinks", [None, np.zeros(1)], ids=["plain", "sinks"])
def test_a_query_that_sees_no_key_gives_zero(sinks):
    q = jnp.ones((1, 1, 2, 4))
    mask = np.zeros((1, 1, 2, 2))
    mask[0, 0, 1] = -np.inf
    f = lambda q: ggml.flash_attn_ext(q, q, q, mask, 0.5, 0.0, 0.0, sinks)
    assert np.all(np.asarray(f(q))[0, 1] == 0)
    assert np.all(np.isfinite(np.asarray(fgrad.grad(lambda q: ggml.sum(f(q)))(q))))
