"""Control flow's options and errors, and what the compiler drops of it."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import ShapeDtypeStruct, lax
from fgrad.control.scan_rules import _unrolled
from fgrad.core import check_jaxpr
from fgrad.transforms.linearize import dce_jaxpr


def pruned(fun, used, *args):
    """The equations of fun's jaxpr that the used outputs need."""
    closed = fgrad.make_jaxpr(fun)(*args)
    jaxpr, ins = dce_jaxpr(closed.jaxpr, used)
    check_jaxpr(jaxpr)
    return jaxpr.eqns, ins


def body(c, x):
    a, b, n = c
    return (a + x, b * jnp.sin(x) + a, n + 1), (jnp.cos(x), b)


def test_dce_of_scan():
    args = (1.0, 2.0, 0, jnp.arange(3.0))
    f = lambda a, b, n, xs: lax.scan(body, (a, b, n), xs)  # noqa: E731
    for used, carries, prims, ins in (
        ([1, 0, 0, 0, 0], 1, {"add"}, [True, False, False, True]),
        ([0, 1, 0, 0, 0], 2, {"add", "mul", "sin"}, [True, True, False, True]),
        ([0, 0, 1, 0, 0], 1, {"add"}, [False, False, True, False]),
        ([0, 0, 0, 1, 0], 0, {"cos"}, [False, False, False, True]),
    ):
        (eqn,), used_ins = pruned(lambda *a: (lambda c, y: (*c, *y))(*f(*a)), list(map(bool, used)), *args)
        assert eqn.params["num_carry"] == carries and used_ins == ins
        assert {e.primitive.name for e in eqn.params["jaxpr"].eqns} == prims
    want = f(*args)
    got = fgrad.jit(lambda *a: f(*a)[0][1])(*args)
    np.testing.assert_allclose(got, want[0][1])
    np.testing.assert_allclose(fgrad.jit(lambda *a: f(*a)[1][0])(*args), want[1][0])


def test_dce_of_while_and_cond_and_nested_jit():
    def loop(x, y):
        return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.sin(c[1]), c[1] * c[2]), (0, x, y))

    (eqn,), ins = pruned(loop, [False, True, False], 1.0, 2.0)
    assert len(eqn.outvars) == 2 and ins == [True, False]
    np.testing.assert_allclose(fgrad.jit(lambda x, y: loop(x, y)[1])(1.0, 2.0), np.sin(np.sin(np.sin(1.0))), rtol=1e-6)

    def branch(p, x, y):
        return lax.cond(p, lambda x, y: (x + 1, jnp.sin(y)), lambda x, y: (x, y), x, y)

    eqns, ins = pruned(fgrad.jit(branch), [True, False], True, 1.0, 2.0)
    assert ins == [True, True, False] and "sin" not in str(eqns[0].params["jaxpr"])
    np.testing.assert_allclose(fgrad.jit(lambda *a: branch(*a)[0])(True, 1.0, 2.0), 2.0)


def test_dce_keeps_effects_and_drops_unused_loops():
    seen = []

    def note(x):
        seen.append(int(x))
        return np.int32(0)

    def step(c, x):
        fgrad.debug.callback(note, x)
        return c + 1, x

    fgrad.jit(lambda x: (lax.scan(step, 0, x), 1)[1])(jnp.arange(3))
    assert seen == [0, 1, 2]
    pure = fgrad.jit(lambda x: (lax.scan(lambda c, v: (fgrad.pure_callback(note, ShapeDtypeStruct((), np.int32), v), v), 0, x), x)[1])
    pure(jnp.arange(3))
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 2, 3, 5, 7, 9, True, False])
def test_unroll(unroll, reverse):
    xs = np.random.default_rng(0).standard_normal((7, 2)).astype(np.float32)
    w = jnp.array([0.5, 2.0])

    def f(w, xs, unroll):
        return lax.scan(lambda c, x: (c * w + x, jnp.sin(c) * x), jnp.zeros(2), xs, reverse=reverse, unroll=unroll)

    def loss(w, xs, unroll):
        c, ys = f(w, xs, unroll)
        return jnp.sum(c) + jnp.sum(ys * ys)

    for got, want in zip(fgrad.jit(lambda *a: f(*a, unroll))(w, xs), f(w, xs, 1)):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    for got, want in zip(
        fgrad.jit(fgrad.grad(lambda *a: loss(*a, unroll), (0, 1)))(w, xs), fgrad.grad(lambda *a: loss(*a, 1), (0, 1))(w, xs)
    ):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-5)


def test_unroll_leaves_fewer_or_no_iterations():
    closed = fgrad.make_jaxpr(lambda x: lax.scan(lambda c, v: (c + v, c), 0.0, x, unroll=3))(jnp.arange(7.0))
    (eqn,) = closed.eqns
    for unroll, loops in ((3, 1), (7, 0)):
        params = {**eqn.params, "unroll": unroll}
        inner = fgrad.make_jaxpr(lambda *a, p=params: _unrolled(a, **p))(0.0, jnp.arange(7.0))
        assert [e.params["length"] for e in inner.eqns if e.primitive.name == "scan"] == [2] * loops
    with pytest.raises(ValueError, match="unroll"):
        lax.scan(lambda c, x: (c, x), 0.0, jnp.arange(3.0), unroll=-1)
    with pytest.raises(ValueError, match="unroll"):
        fgrad.jit(lambda n: lax.fori_loop(0, n, lambda i, c: c, 0, unroll=2))(3)
    assert int(lax.fori_loop(0, 5, lambda i, c: c + i, 0, unroll=2)) == 10


@pytest.mark.parametrize("batch_size", [None, 1, 2, 3, 7, 10])
def test_map_in_batches(batch_size):
    xs = {"a": jnp.arange(14.0).reshape(7, 2), "b": jnp.arange(7)}
    f = lambda d: {"s": jnp.sum(d["a"]) * d["b"], "r": d["a"][::-1]}  # noqa: E731
    got = lax.map(f, xs, batch_size=batch_size)
    np.testing.assert_allclose(got["s"], np.arange(14.0).reshape(7, 2).sum(1) * np.arange(7))
    np.testing.assert_allclose(got["r"], np.arange(14.0).reshape(7, 2)[:, ::-1])
    with pytest.raises(ValueError, match="batch_size"):
        lax.map(f, xs, batch_size=0)


def test_branches_of_other_dtypes_are_refused():
    out = lax.cond(True, lambda: 1.0, lambda: jnp.float32(2))
    assert out.dtype == np.float32 and not out.weak_type
    for branches in ([lambda: 1, lambda: jnp.float32(2)], [lambda: 1, lambda: jnp.int8(2)], [lambda: 1.0, lambda: 1]):
        with pytest.raises(TypeError, match="the dtypes do not match"):
            lax.switch(0, branches)
        with pytest.raises(TypeError, match="the dtypes do not match"):
            lax.cond(True, *branches)


def test_operand_keyword():
    assert float(lax.cond(True, lambda x: x + 1, lambda x: x, operand=2.0)) == 3.0
    assert lax.switch(0, [lambda x: 1, lambda x: 2], operand=None) == 1
    with pytest.raises(TypeError, match="operand"):
        lax.cond(True, lambda x: x, lambda x: x, 1.0, operand=2.0)


def ident(x):
    return x


ERRORS = {
    "scan_dtype": (
        lambda: lax.scan(lambda c, x: ({"a": [c["a"][0].astype(int)]}, x), {"a": [jnp.ones(2)]}, jnp.arange(2)),
        TypeError,
        r"input carry component c\['a'\]\[0\] has type float32\[2\].*int32\[2\], so the dtypes do not match",
    ),
    "scan_shape": (lambda: lax.scan(lambda c, x: (c[:1], x), jnp.ones(2), jnp.arange(2)), TypeError, r"float32\[1\], so the shapes do not"),
    "scan_tree": (
        lambda: lax.scan(lambda c, x: ({"b": c["a"]}, x), {"a": 1.0}, jnp.arange(2)),
        TypeError,
        r"input carry alone has a leaf at \['a'\]; the output carry alone has a leaf at \['b'\]",
    ),
    "scan_pair": (lambda: lax.scan(lambda c, x: c, 0.0, jnp.arange(2)), TypeError, "must be a pair"),
    "scan_lengths": (
        lambda: lax.scan(ident, 0.0, {"a": jnp.ones(2), "b": jnp.ones(3)}),
        ValueError,
        r"xs\['a'\].*\(2,\).*xs\['b'\].*\(3,\)",
    ),
    "scan_length": (lambda: lax.scan(ident, 0.0, jnp.ones(2), length=3), ValueError, "`length` argument of 3 which disagrees"),
    "scan_scalar": (lambda: lax.scan(ident, 0.0, {"k": 1.0}), ValueError, r"no leading axis.*xs\['k'\]"),
    "scan_nothing": (lambda: lax.scan(ident, 0.0), ValueError, "neither|no values"),
    "while_body": (
        lambda: lax.while_loop(lambda c: True, lambda c: (c[0], c[1][None]), (0, 1.0)),
        TypeError,
        r"input carry component c\[1\] has type float32\[\].*float32\[1\], so the shapes",
    ),
    "while_cond": (lambda: lax.while_loop(lambda c: c, ident, 1.0), TypeError, r"boolean scalar.*float32\[\]"),
    "cond_types": (
        lambda: lax.cond(True, lambda: {"x": jnp.ones(2)}, lambda: {"x": jnp.ones(3, int)}),
        TypeError,
        r"output of true_fun at path \['x'\] has type float32\[2\] but .* of false_fun has type int32\[3\], so the shapes and dtypes",
    ),
    "cond_tree": (lambda: lax.cond(True, lambda: (1, 2), lambda: (1,)), TypeError, r"true_fun alone has a leaf at \[1\]"),
    "cond_pred": (lambda: lax.cond(jnp.ones(2), lambda: 1, lambda: 2), TypeError, r"scalar.*shape \(2,\)"),
    "cond_pred_str": (lambda: lax.cond("yes", lambda: 1, lambda: 2), TypeError, "scalar, got yes of type"),
    "switch_types": (lambda: lax.switch(1, [lambda: jnp.ones(2), lambda: jnp.ones(2), lambda: jnp.ones(3)]), TypeError, "branch 2"),
    "switch_index": (lambda: lax.switch(1.0, [lambda: 1, lambda: 2]), TypeError, "Index type must be an integer"),
    "fori_types": (lambda: lax.fori_loop(jnp.int8(0), jnp.int32(3), lambda i, c: c, 0), TypeError, "int8 and int32"),
    "fori_float": (lambda: lax.fori_loop(0, 3.0, lambda i, c: c, 0), TypeError, "int32 and float32"),
    "fori_shape": (lambda: lax.fori_loop(0, jnp.arange(3), lambda i, c: c, 0), TypeError, "upper must be a real scalar"),
    "fori_body": (lambda: lax.fori_loop(0, 3, 4, 0), TypeError, "body_fun"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_what_differs(name):
    call, error, words = ERRORS[name]
    with pytest.raises(error, match=words):
        call()


def test_loops_outside_of_jit_are_compiled_once(monkeypatch):
    from fgrad.compile import program

    compiled = []
    monkeypatch.setattr(program, "_build", lambda *args, build=program._build, **kw: compiled.append(1) or build(*args, **kw))

    def run(scale, x):
        y = lax.fori_loop(0, 3, lambda i, v: v * scale, x)
        y = lax.scan(lambda c, v: (c + v, c * scale), jnp.float32(0), y)[1]
        y = lax.while_loop(lambda v: v.sum() < 50, lambda v: v + 1, y)
        return lax.cond(y.sum() > 0, lambda v: v * scale, lambda v: v, y)

    want = {scale: fgrad.jit(lambda x, scale=scale: run(scale, x))(jnp.ones(4)) for scale in (2.0, 3.0)}
    for scale in (2.0, 3.0):
        np.testing.assert_array_equal(run(scale, jnp.ones(4)), want[scale])
    compiled.clear()
    for scale in (2.0, 3.0):
        np.testing.assert_array_equal(run(scale, jnp.ones(4)), want[scale])
    assert not compiled


def test_bodies_that_hold_functions_or_arrays_are_not_kept():
    from fgrad.control.common import hoist

    def staged(fun):
        return hoist(lambda x: [fun(x)], [fgrad.core.get_aval(1.0)], "body")[1]

    assert staged(lambda x: x * 2.0) is not staged(lambda x: x * 3.0)
    first, second = [staged(lambda x, n=n: x * 4.0) for n in (1, 2)]
    assert first is second
    first, second = [staged(lambda x: fgrad.pure_callback(np.sin, x, x)) for _ in range(2)]
    assert first is not second


def test_carries_passed_on_are_consts():
    def loop(x):
        return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1], c[2] * c[1]), (0, x, 1.0))

    (eqn,) = fgrad.make_jaxpr(loop)(2.0).eqns
    assert (len(eqn.outvars), eqn.params["body_nconsts"]) == (2, 1)
    assert [float(v) for v in loop(2.0)] == [3, 2, 8]
    # reverse mode goes around the loop where it leaves a value as it was
    assert float(fgrad.grad(lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1]), (0, x))[1])(2.0)) == 1
    used = lambda n: lax.while_loop(lambda c: c[0] < c[1], lambda c: (c[0] + 1, c[1]), (0, n))  # noqa: E731
    assert [int(v) for v in used(5)] == [5, 5]  # the condition reads it: it stays a carry
    np.testing.assert_array_equal(fgrad.vmap(used)(jnp.arange(3))[0], [0, 1, 2])

    def sums(x, xs):
        return lax.scan(lambda c, v: ((c[0], c[1] + c[0] * v), c[1]), (x, 0.0), xs)

    (eqn,) = fgrad.make_jaxpr(sums)(2.0, jnp.arange(4.0)).eqns
    assert (eqn.params["num_carry"], eqn.params["num_consts"]) == (1, 1)
    (x, total), rows = sums(2.0, jnp.arange(4.0))
    assert (float(x), float(total)) == (2, 12)
    np.testing.assert_array_equal(rows, [0, 0, 2, 6])
    assert float(fgrad.grad(lambda x: sums(x, jnp.arange(4.0))[0][1])(2.0)) == 6


def test_fori_loop_takes_float_bounds_and_counts_in_ints():
    assert int(lax.fori_loop(0.0, 3.0, lambda i, n: n + 1, 0)) == 3
    assert float(fgrad.grad(lambda x: lax.fori_loop(x, x + 2.0, lambda i, c: c * 1.0, x))(1.0)) == 1
    index = lax.fori_loop(np.int16(0), np.int16(3), lambda i, c: i, 0)
    assert (int(index), index.dtype, index.weak_type) == (2, jnp.int32, True)
    traced = fgrad.jit(lambda n: lax.fori_loop(jnp.int16(0), n, lambda i, c: i, jnp.int16(0)))(jnp.int16(3))
    assert (int(traced), traced.dtype) == (2, jnp.int16)


def test_branches_give_the_types_of_the_first():
    branches = [lambda: 1.0, lambda: jnp.float32(2)]
    assert lax.switch(1, branches).weak_type and not lax.switch(0, branches[::-1]).weak_type


def test_weak_carries_widen_and_do_not_narrow():
    assert lax.scan(lambda c, x: (c + x, None), 0, jnp.ones(3))[0] == 3
    for loop in (
        lambda: lax.scan(lambda c, x: (c.astype("int32"), x), 0.0, jnp.ones(3)),
        lambda: lax.while_loop(lambda c: c < 3, lambda c: (c + 1).astype("int32"), 0.0),
    ):
        with pytest.raises(TypeError, match="must have equal types"):
            loop()


NUMBERS = {
    "scan": lambda s, v: lax.scan(lambda c, x: (c + x * s, c), 0.0, v),
    "cond": lambda s, v: lax.cond(s > 3, lambda: v * s, lambda: v - s),
    "fori": lambda s, v: lax.fori_loop(0, 10, lambda i, c: c + s, 0.0),
    "while": lambda s, v: lax.while_loop(lambda c: c < s, lambda c: c + s, 0.0),
    "nested": lambda s, v: lax.fori_loop(0, 3, lambda i, c: lax.fori_loop(0, 3, lambda j, d: d + s, c), 0.0),
    "grad": lambda s, v: fgrad.grad(lambda x: lax.scan(lambda c, y: (c * y * s, c), x, v)[0])(1.0),
    "grad of cond": lambda s, v: fgrad.grad(lambda x: lax.cond(s > 3, lambda y: y * s, lambda y: y - s, x))(1.0),
    "vmap": lambda s, v: fgrad.vmap(lambda x: lax.scan(lambda c, y: (c + y * s * x, c), x, v)[0])(v),
    "jvp": lambda s, v: fgrad.jvp(lambda x: lax.fori_loop(0, 3, lambda i, c: c * s, x), (1.0,), (1.0,)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_control_flow_closes_over_are_arguments_outside_of_jit(name, monkeypatch):
    from fgrad.compile import program

    fun, v = NUMBERS[name], jnp.linspace(0.1, 1.2, 5)
    for s in range(1, 5):
        fun(jnp.float32(s), v)
    monkeypatch.setattr(program, "_build", None)
    got = [fun(jnp.float32(s), v) for s in (5, 6, 0.25)]
    monkeypatch.undo()
    for a, s in zip(got, (5, 6, 0.25)):
        for x, y in zip(fgrad.tree.leaves(a), fgrad.tree.leaves(fgrad.jit(fun)(jnp.float32(s), v))):
            np.testing.assert_allclose(x, y, rtol=1e-5)
