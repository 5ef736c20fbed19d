"""Symbolic dimensions: their arithmetic, eval_shape of them, exported programs of all sizes."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import export, lax, nn
from fgrad.core.dimensions import dim_max, dim_min, evaluate, parse
from fgrad.errors import InconclusiveDimensionOperation


def struct(text, scope, dtype="float32"):
    return fgrad.ShapeDtypeStruct(export.symbolic_shape(text, scope=scope), dtype)


@pytest.mark.parametrize(
    "text, shape",
    [
        ("b,", "(b,)"),
        ("(b, 4)", "(b, 4)"),
        ("2*b + c, b", "(c + 2*b, b)"),
        ("b^2", "(b^2,)"),
        ("-b + 4", "(- b + 4,)"),
        ("(b + 1)*(b - 1)", "(b^2 - 1,)"),
        ("floordiv(b, 2), mod(b, 3), max(b, 2), min(b, 0)", "(floordiv(b, 2), mod(b, 3), max(b, 2), 0)"),
        ("floordiv(4*b + 3, 2), mod(4*b, 2), floordiv(b*b, b)", "(2*b + 1, 0, b)"),
        ("", "()"),
    ],
)
def test_texts(text, shape):
    got = export.symbolic_shape(text)
    assert str(got) == shape
    again = export.symbolic_shape(str(got).strip("()").rstrip(",") if text else "")
    assert again == got


@pytest.mark.parametrize("text", ["b +", "b c", "b**2", "foo(b)", "...", "_", "b, ...", "b)", "4b"])
def test_texts_that_are_none(text):
    with pytest.raises(ValueError, match="symbolic shape"):
        export.symbolic_shape(text)


def test_like():
    assert str(export.symbolic_shape("b, ...", like=(3, 4, 5))) == "(b, 4, 5)"
    assert str(export.symbolic_shape("_, b", like=(2, 5))) == "(2, b)"
    assert export.symbolic_shape(None, like=(2, 5)) == (2, 5)
    with pytest.raises(ValueError, match="1 dimensions"):
        export.symbolic_shape("b, _", like=(2,))


def test_arithmetic_is_that_of_numbers():
    """Whatever expressions become, their values are those of the same operations on numbers."""
    scope = export.SymbolicScope()
    b, c = export.symbolic_shape("b, c", scope=scope)
    forms = [
        lambda b, c: (3 * b + c * b - 4) // 3,
        lambda b, c: (6 * b * c + 3 * c) // (3 * c) + b % 4,
        lambda b, c: -((7 - b) // 2) + (2 * c + 5) % 2,
        lambda b, c: (b - c) ** 3 + divmod(b, 5)[1] + 9 // b + 9 % c,
        lambda b, c: dim_max(b, 2 * c) - dim_min(b // 2, c),
        lambda b, c: (b * b - b) // b,
    ]
    for f in forms:
        e = f(b, c)
        assert parse(str(e), scope) == e
        for x in range(1, 9):
            for y in range(1, 9):
                assert evaluate(e, {"b": x, "c": y}) == f(x, y)


def test_comparisons():
    a, b = export.symbolic_shape("a, b", constraints=["a >= b", "b <= 10", "mod(a, 4) == 0"])
    assert a >= b and a + 1 > b and b <= 10 and b < 11 and a >= 1 and b != a and 2 * b == b + b and hash(2 * b) == hash(b + b)
    assert not b > 10 and not a < b and b != 3
    for unknown in (lambda: b > 3, lambda: a > b, lambda: int(b), lambda: bool(b - 1), lambda: range(b)):
        with pytest.raises(InconclusiveDimensionOperation):
            unknown()
    with pytest.raises(ValueError, match="mixing"):
        a + export.symbolic_shape("n")[0]
    with pytest.raises(ValueError, match="constraint"):
        export.SymbolicScope(["a > 2"])
    with pytest.raises(ValueError, match="Unsatisfiable"):
        export.SymbolicScope(["1 >= 2"])


PROGRAMS = {
    "joined": (lambda x, w: jnp.concatenate([x, x]).reshape(-1), "6*b"),
    "sizes": (lambda x, w: x.mean(0) * x.shape[0] + jnp.var(x), "3"),
    "softmax": (lambda x, w: nn.softmax(x @ w), "b, n"),
    "every other": (lambda x, w: x[::2] * jnp.arange(x.shape[0])[::2, None], "floordiv(b + 1, 2), 3"),
    "windows": (lambda x, w: lax.reduce_window(w, 0.0, lax.add, (1, 3), (1, 2), "SAME"), "3, floordiv(n + 1, 2)"),
    "scan": (lambda x, w: lax.scan(lambda c, a: (c + a, c * a), x[0], x)[1], "b, 3"),
    "pairs": (lambda x, w: (x @ w)[jnp.triu_indices(3)], "6"),
    "all pairs": (lambda x, w: jnp.outer(x[:, 0], w[0]).reshape(-1), "b*n"),
    "sorted": (lambda x, w: fgrad.vmap(jnp.sort)(x)[:, -1], "b"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_eval_shape_and_export(name):
    fun, shape = PROGRAMS[name]
    scope = export.SymbolicScope(["b >= 3", "n >= 3"])
    types = struct("b, 3", scope), struct("3, n", scope)
    out = fgrad.eval_shape(fun, *types)
    assert out.shape == export.symbolic_shape(shape, scope=scope) and out.dtype == np.float32
    exported = export.export(fgrad.jit(fun))(*types)
    assert str(exported.in_avals[0]) == "float32[b,3]" and exported.out_avals[0].shape == out.shape
    if name == "pairs":
        read = exported
        with pytest.raises(ValueError, match="serialize"):  # triu_indices are constants
            export.export(fgrad.jit(lambda x: x[jnp.array(np.triu_indices(x.shape[0])[0])]))(types[0]).serialize()
    else:
        read = export.deserialize(exported.serialize(vjp_order=1))
        assert (read.in_avals, read.out_avals) == (exported.in_avals, exported.out_avals)
    for b, n in ((3, 4), (8, 5), (5, 8)):
        x, w = np.sin(np.arange(b * 3, dtype=np.float32)).reshape(b, 3), np.cos(np.arange(3 * n, dtype=np.float32)).reshape(3, n)
        want = fun(x, w)
        for e in (exported, read):
            np.testing.assert_allclose(e.call(x, w), want, rtol=1e-6, atol=1e-6)
            got = fgrad.grad(lambda *a, e=e: (e.call(*a) ** 2).sum(), (0, 1))(x, w)
            for g, h in zip(got, fgrad.grad(lambda *a: (fun(*a) ** 2).sum(), (0, 1))(x, w)):
                np.testing.assert_allclose(g, h, rtol=1e-4, atol=1e-5)
        assert fgrad.jit(read.call)(x, w).shape == want.shape


def test_what_call_refuses():
    scope = export.SymbolicScope(["b >= 2"])
    e = export.export(fgrad.jit(lambda x, y: x[:2] + y[:2]))(struct("b, 3", scope), struct("2*b, 3", scope))
    ones = lambda *shape: np.ones(shape, np.float32)  # noqa: E731
    assert e.call(ones(2, 3), ones(4, 3)).shape == (2, 3)
    for x, y, message in (
        (ones(2, 4), ones(4, 3), r"Shape mismatch for args\[0\].shape\[1\]"),
        (ones(2), ones(4, 3), "Rank mismatch"),
        (np.ones((2, 3), np.int32), ones(4, 3), "Dtype mismatch"),
        (ones(2, 3), ones(5, 3), r"args\[1\].shape\[0\] \(= 5\)"),
        (ones(1, 3), ones(2, 3), "constraints"),
    ):
        with pytest.raises(ValueError, match=message):
            e.call(x, y)
    with pytest.raises(ValueError, match="is not '2"):
        export.export(fgrad.jit(lambda y: y))(struct("2*b", scope)).call(ones(5))


def test_what_depends_on_sizes_otherwise():
    scope = export.SymbolicScope()
    with pytest.raises(InconclusiveDimensionOperation, match="no polynomial"):
        fgrad.eval_shape(lambda x: jnp.zeros(x.shape[0] ** 3), struct("b", scope))
    with pytest.raises(ValueError, match="structure"):
        fgrad.eval_shape(lambda x: (x,) * (x.shape[0] % 3), struct("b", scope))
    with pytest.raises((TypeError, ValueError), match="broadcast"):
        fgrad.eval_shape(lambda x, y: x + y, struct("b", scope), struct("c", scope))
    with pytest.raises(InconclusiveDimensionOperation, match="requires a constant"):
        fgrad.make_jaxpr(lambda x: x)(struct("b", scope))


def test_args_specs():
    args = (jnp.ones((2, 3)), {"a": jnp.ones(4)})
    x, tree = export.symbolic_args_specs(args, ("b, ...", {"a": "c"}))
    assert str((x.shape, tree["a"].shape)) == "((b, 3), (c,))"
    x, tree = export.symbolic_args_specs(args, "b, ...")
    assert x.shape[0] == tree["a"].shape[0]
    assert export.symbolic_args_specs(args, ("b, ...", None))[1]["a"].shape == (4,)
    assert fgrad.eval_shape(lambda x, d: x.sum(), x, tree).shape == ()
