"""Callbacks: values, order, and that they survive every transformation."""

import pdb
import traceback

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import ShapeDtypeStruct, lax
from fgrad.experimental import io_callback

F32 = ShapeDtypeStruct((), np.float32)


def host_sin(x):
    return np.sin(x)


def call_sin(x, **kw):
    return fgrad.pure_callback(host_sin, ShapeDtypeStruct(x.shape, x.dtype), x, **kw)


def test_pure_callback_eager_jit_and_trees():
    x = jnp.arange(3.0)
    for run in (lambda f: f, fgrad.jit):
        np.testing.assert_allclose(run(call_sin)(x), np.sin(np.arange(3.0)), rtol=1e-6)
        out = run(
            lambda x: fgrad.pure_callback(
                lambda d, *, scale: (d["a"] * scale, {"n": np.int32(d["a"].size)}),
                (ShapeDtypeStruct((3,), np.float32), {"n": ShapeDtypeStruct((), np.int32)}),
                {"a": x},
                scale=2.0,
            )
        )(x)
        np.testing.assert_array_equal(out[0], [0.0, 2.0, 4.0])
        assert int(out[1]["n"]) == 3


def test_pure_callback_in_control_flow():
    def body(c, _):
        return lax.cond(c > 0.5, call_sin, lambda v: v, c), c

    (last, ys), want = fgrad.jit(lambda x: lax.scan(body, x, None, length=4))(1.0), [1.0]
    for _ in range(4):
        want.append(np.sin(want[-1]) if want[-1] > 0.5 else want[-1])
    np.testing.assert_allclose([*ys, last], want, rtol=1e-6)
    got = fgrad.jit(lambda x: lax.while_loop(lambda v: v > 0.7, call_sin, x))(1.0)
    np.testing.assert_allclose(got, np.sin(np.sin(np.sin(1.0))), rtol=1e-6)


@pytest.mark.parametrize(
    "method, shapes",
    [
        ("sequential", [((), ()), ((), ()), ((), ())]),
        ("sequential_unrolled", [((), ()), ((), ()), ((), ())]),
        ("expand_dims", [((3,), (1,))]),
        ("broadcast_all", [((3,), (3,))]),
        ("legacy_vectorized", [((3,), ())]),
    ],
)
@pytest.mark.parametrize("jit", [False, True])
def test_vmap_methods(method, shapes, jit):
    seen = []

    def host(x, y):
        seen.append((x.shape, y.shape))
        return np.asarray(x) + np.asarray(y)

    f = fgrad.vmap(lambda x, y: fgrad.pure_callback(host, F32, x, y, vmap_method=method), in_axes=(0, None))
    got = (fgrad.jit(f) if jit else f)(jnp.arange(3.0), 10.0)
    np.testing.assert_array_equal(got, [10.0, 11.0, 12.0])
    assert seen == shapes


def test_vmap_needs_a_method():
    with pytest.raises(NotImplementedError, match="host_sin.*vmap_method"):
        fgrad.vmap(call_sin)(jnp.arange(3.0))
    with pytest.raises(ValueError, match="vmap_method must be one of"):
        call_sin(jnp.arange(3.0), vmap_method="all")


def test_derivatives_only_with_a_custom_rule():
    with pytest.raises(NotImplementedError, match="do not support JVP.*custom_jvp"):
        fgrad.grad(call_sin)(1.0)

    @fgrad.custom_jvp
    def sin(x):
        return call_sin(x, vmap_method="broadcast_all")

    sin.defjvps(lambda t, out, x: t * jnp.cos(x))
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(sin))(1.0), np.cos(1.0), rtol=1e-6)
    np.testing.assert_allclose(fgrad.vmap(fgrad.grad(sin))(jnp.arange(3.0)), np.cos(np.arange(3.0)), rtol=1e-6)


@pytest.mark.parametrize("run", [lambda f: f, fgrad.jit], ids=["eager", "jit"])
def test_errors_reach_the_caller(run):
    def broken(x):
        raise KeyError("in the host function")

    with pytest.raises(KeyError, match="in the host function") as e:
        run(lambda x: fgrad.pure_callback(broken, F32, x))(1.0)
    assert "broken" in [f.name for f in traceback.extract_tb(e.value.__traceback__)]
    assert (
        isinstance(e.value, fgrad.errors.JaxRuntimeError)
        and type(e.value).__name__ == "KeyError"
        and e.value.args == ("in the host function",)
    )

    class Own(Exception):
        def __init__(self, a, b):
            self.sum = a + b

    def raises_own(x):
        raise Own(1, b=2) from ValueError("why")

    with pytest.raises(Own) as e:
        run(lambda x: fgrad.pure_callback(raises_own, F32, x))(1.0)
    assert e.value.sum == 3 and isinstance(e.value, fgrad.errors.JaxRuntimeError) and isinstance(e.value.__cause__, ValueError)
    with pytest.raises(RuntimeError, match=r"return value #0: it is f32\[2\], but f32\[\] was declared"):
        run(lambda x: fgrad.pure_callback(lambda x: np.zeros(2, np.float32), F32, x))(1.0)
    with pytest.raises(RuntimeError, match="structure"):
        run(lambda x: fgrad.pure_callback(lambda x: (x, x), F32, x))(1.0)
    with pytest.raises(ValueError, match="64-bit"):
        fgrad.pure_callback(np.sin, np.zeros(2, np.float64), 1.0)


def test_unused_pure_callback_is_dropped_and_io_callback_is_not():
    seen = []

    def note(x):
        seen.append(float(x))
        return np.float32(0)

    @fgrad.jit
    def f(x):
        fgrad.pure_callback(note, F32, x)
        io_callback(note, F32, x + 1)
        return x

    f(1.0)
    assert seen == [2.0]
    f(2.0)
    assert seen == [2.0, 3.0]


def test_effects_keep_their_order_through_control_flow():
    seen = []

    def note(x):
        seen.append(int(x))

    @fgrad.jit
    def f(n):
        io_callback(note, None, 100, ordered=True)
        lax.fori_loop(0, n, lambda i, c: io_callback(note, None, i, ordered=True) or c, 0)
        io_callback(note, None, 200, ordered=True)
        lax.cond(n > 2, lambda: io_callback(note, None, 300), lambda: io_callback(note, None, 400))
        lax.scan(lambda c, x: (c, io_callback(note, None, x)), 0, jnp.arange(2))
        return n

    f(3)
    assert seen == [100, 0, 1, 2, 200, 300, 0, 1]


def test_io_callback_vmap():
    seen = []
    fgrad.jit(fgrad.vmap(lambda x: io_callback(lambda v: seen.append(float(v)), None, x)))(jnp.arange(3.0))
    assert seen == [0.0, 1.0, 2.0]
    with pytest.raises(ValueError, match="ordered"):
        fgrad.vmap(lambda x: io_callback(lambda v: None, None, x, ordered=True))(jnp.arange(3.0))
    with pytest.raises(NotImplementedError, match="IO callbacks"):
        fgrad.grad(lambda x: io_callback(lambda v: np.float32(v), F32, x))(1.0)
    with pytest.raises(NotImplementedError, match="checkpoint"):
        fgrad.checkpoint(lambda x: io_callback(lambda v: np.float32(v), F32, x))(1.0)


def shown(x):
    fgrad.debug.print("x={x:.1f} {}", "y", x=x)
    return x * x


TRANSFORMED = {
    "eager": (lambda: shown(2.0), "2.0"),
    "jit": (lambda: fgrad.jit(shown)(2.0), "2.0"),
    "grad": (lambda: fgrad.grad(shown)(2.0), "2.0"),
    "jit_of_grad": (lambda: fgrad.jit(fgrad.grad(shown))(2.0), "2.0"),
    "grad_of_jit": (lambda: fgrad.grad(fgrad.jit(shown))(2.0), "2.0"),
    "jvp": (lambda: fgrad.jvp(shown, (2.0,), (1.0,)), "2.0"),
    "vmap": (lambda: fgrad.vmap(shown)(jnp.arange(2.0)), "0.0 1.0"),
    "jit_of_vmap_of_grad": (lambda: fgrad.jit(fgrad.vmap(fgrad.grad(shown)))(jnp.arange(2.0)), "0.0 1.0"),
    "scan": (lambda: lax.scan(lambda c, _: (shown(c), None), 2.0, None, length=2), "2.0 4.0"),
    "grad_of_scan": (lambda: fgrad.grad(lambda x: lax.scan(lambda c, _: (shown(c), None), x, None, length=2)[0])(2.0), "2.0 4.0"),
    "while": (lambda: lax.while_loop(lambda c: c < 10, shown, 2.0), "2.0 4.0"),
    "jvp_of_while": (lambda: fgrad.jvp(lambda x: lax.while_loop(lambda c: c < 10, shown, x), (2.0,), (1.0,)), "2.0 4.0"),
    "cond": (lambda: lax.cond(True, shown, lambda x: x, 2.0), "2.0"),
    "grad_of_cond": (lambda: fgrad.grad(lambda x: lax.cond(x > 1, shown, lambda x: x, x))(2.0), "2.0"),
    "grad_of_checkpoint": (lambda: fgrad.grad(fgrad.checkpoint(shown))(2.0), "2.0 2.0"),  # the forward pass runs twice
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_debug_print(name, capsys):
    run, want = TRANSFORMED[name]
    run()
    assert capsys.readouterr().out == "".join(f"x={v} y\n" for v in want.split())


def test_print_inside_custom_rules(capsys):
    f = fgrad.custom_jvp(shown)
    f.defjvp(lambda p, t: (shown(p[0]), t[0]))
    fgrad.jit(lambda x: (f(x), None)[1])(1.0)
    assert capsys.readouterr().out == "x=1.0 y\n"
    g = fgrad.custom_vjp(lambda x: x)
    g.defvjp(lambda x: (x, None), lambda _, ct: (fgrad.debug.print("ct={}", ct) or ct,))
    fgrad.jit(fgrad.grad(lambda x: 3 * g(x)))(1.0)
    assert capsys.readouterr().out == "ct=3.0\n"


def test_print_formats(capsys):
    fgrad.debug.print("plain", jnp.arange(2), 1.5)
    fgrad.debug.print("{{}} {!r:>4}", "a")
    assert capsys.readouterr().out == "plain [0 1] 1.5\n{}  'a'\n"
    with pytest.raises(ValueError, match="Unused positional"):
        fgrad.debug.print("{}", 1, 2)
    with pytest.raises(ValueError, match="f-string"):
        fgrad.debug.print("{}", 1, x=2)
    fgrad.debug.print("{}", 1, 2, skip_format_check=True)


def test_debug_callback_takes_any_leaf():
    seen = []
    fgrad.jit(lambda x: fgrad.debug.callback(lambda *a, **kw: seen.append((*a, kw)), "tag", x, key=None))(1.0)
    assert seen[0][0] == "tag" and float(seen[0][1]) == 1.0 and seen[0][2] == {"key": None}
    fgrad.effects_barrier()


def test_breakpoint(monkeypatch):
    frames = []
    monkeypatch.setattr(pdb.Pdb, "set_trace", lambda self, frame: frames.append(frame.f_code.co_name))

    def here(x):
        fgrad.debug.breakpoint()
        return x

    fgrad.grad(here)(1.0)
    assert frames == ["here"]
    with pytest.raises(RuntimeError, match="disable_jit"):
        fgrad.jit(here)(1.0)


def test_programs_may_run_inside_a_callback():
    inner = fgrad.jit(lambda x: jnp.sum(jnp.sin(x)))
    out = fgrad.jit(lambda x: fgrad.pure_callback(lambda v: inner(v), F32, x) + 1)(jnp.arange(4.0))
    np.testing.assert_allclose(out, np.sin(np.arange(4.0)).sum() + 1, rtol=1e-6)
