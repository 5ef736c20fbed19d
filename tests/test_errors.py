"""Errors have a named type, and say what failed, where, and with which argument."""

import inspect
import re
import warnings

import numpy as np
import pytest

import fgrad
import fgrad.ggml
import fgrad.numpy as jnp
import fgrad.scipy.linalg
import fgrad.scipy.special
from fgrad import errors, lax


def line_of(function, text):
    """The line number, in this file, of the line of `function` that has `text`."""
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def refuses(kind, *parts, fun=None):
    """Call fun(); it must raise `kind` with every one of `parts` in its message."""
    with pytest.raises(kind) as info:
        fun()
    message = str(info.value)
    for part in parts:
        assert part in message, message
    return message


# --- leaked tracers -------------------------------------------------------------------------------------------------

kept = []


def keeps_a_tracer(x):
    y = x * 2
    kept.append(y)
    return y


@pytest.mark.parametrize("use", [lambda t: t + 1, lambda t: float(t), lambda t: bool(t), lambda t: fgrad.jit(lambda y: y * t)(1.0)])
def test_leak_out_of_jit(use):
    kept.clear()
    fgrad.jit(lambda x: keeps_a_tracer(x))(1.0)
    line = line_of(keeps_a_tracer, "y = x * 2")
    refuses(errors.UnexpectedTracerError, f"test_errors.py:{line}", "keeps_a_tracer", "f32[]", fun=lambda: use(kept[0]))


@pytest.mark.parametrize("transform", [fgrad.grad, lambda f: lambda x: fgrad.vmap(f)(jnp.ones(3) * x)])
def test_leak_out_of_grad_and_vmap(transform):
    kept.clear()
    transform(keeps_a_tracer)(1.0)
    line = line_of(keeps_a_tracer, "def keeps_a_tracer")
    refuses(errors.UnexpectedTracerError, f"'keeps_a_tracer' ({__file__}:{line})", fun=lambda: kept[0] + 1)


# --- concrete values of traced ones ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "convert, kind",
    [
        (bool, errors.TracerBoolConversionError),
        (int, errors.ConcretizationTypeError),
        (float, errors.ConcretizationTypeError),
        (complex, errors.ConcretizationTypeError),
        (np.asarray, errors.TracerArrayConversionError),
        (np.sin, errors.TracerArrayConversionError),
        (range, errors.TracerIntegerConversionError),
        (lambda x: [1, 2][x], errors.TracerIntegerConversionError),
        (lambda x: x.item(), errors.ConcretizationTypeError),
        (lambda x: x.tolist(), errors.ConcretizationTypeError),
    ],
)
def test_conversion_names_the_origin(convert, kind):
    def of_result(x):
        y = x + 1
        return convert(y)

    def of_argument(a, x):
        return convert(x["k"])

    line = line_of(of_result, "y = x + 1")
    refuses(kind, f"test_errors.py:{line} (of_result)", fun=lambda: fgrad.jit(of_result)(1))
    refuses(kind, "argument x['k'] of 'of_argument'", fun=lambda: fgrad.jit(of_argument)(0, {"k": 1}))
    refuses(kind, "'of_result'", fun=lambda: fgrad.vmap(of_result)(jnp.ones(2)))
    assert issubclass(kind, TypeError)


def test_argument_names_skip_static_ones():
    f = fgrad.jit(lambda n, x, flag: x if flag else n, static_argnums=0)
    refuses(errors.TracerBoolConversionError, "argument flag", fun=lambda: f(3, 1.0, True))
    f = fgrad.jit(lambda *xs: bool(xs[1]))
    refuses(errors.TracerBoolConversionError, "argument args[1]", fun=lambda: f(3, 1.0))


def test_boolean_mask_in_jit():
    refuses(errors.NonConcreteBooleanIndexError, "bool[3]", "where", fun=lambda: fgrad.jit(lambda x: x[x > 0])(jnp.ones(3)))


def test_value_dependent_python_works_under_grad():
    assert float(fgrad.grad(lambda x: x * 2 if x > 0 else x)(1.0)) == 2


# --- derivatives ----------------------------------------------------------------------------------------------------


def test_grad_refuses():
    refuses(TypeError, "scalar-output", "(3,)", fun=lambda: fgrad.grad(lambda x: x * 2)(jnp.ones(3)))
    refuses(TypeError, "scalar-output", "Output was (Array(1.", fun=lambda: fgrad.grad(lambda x: (x, x))(1.0))
    refuses(TypeError, "real-valued outputs", "int32", fun=lambda: fgrad.grad(lambda x: jnp.int32(x))(1.0))
    refuses(TypeError, "int32", "argument x['a']", "allow_int", fun=lambda: fgrad.grad(lambda x: x["a"] * 2.0)({"a": 1}))
    refuses(TypeError, "jacfwd requires real-valued inputs", "int32", fun=lambda: fgrad.jacfwd(lambda x: x)(1))
    refuses(TypeError, "jacrev", "bool", "argument x", fun=lambda: fgrad.jacrev(lambda x: x)(True))
    refuses(TypeError, "argnums 3", "1 positional", fun=lambda: fgrad.grad(lambda x: x, argnums=3)(1.0))
    refuses(TypeError, "has_aux=True", "pair", fun=lambda: fgrad.grad(lambda x: x, has_aux=True)(1.0))
    refuses(TypeError, "argument x", "str", fun=lambda: fgrad.grad(lambda x: x)("a"))


def _schur(x):
    return fgrad.lax.linalg.schur(x)


def _svd(x):
    return jnp.linalg.svd(x[:2])


def _betainc(x):
    return fgrad.scipy.special.betainc(x, x, x)


def _eig(x):
    return fgrad.lax.linalg.eig(x)


@pytest.mark.parametrize("grad", [fgrad.grad, lambda f: fgrad.jit(fgrad.grad(f)), fgrad.jacfwd], ids=["eager", "jit", "forward"])
@pytest.mark.parametrize("without", [_schur, _svd, _betainc, _eig, lambda x: fgrad.jit(_betainc)(x), lambda x: fgrad.jit(_svd)(x)])
def test_a_missing_derivative_is_told_of_where_it_is_missing(without, grad):
    """The function may go on: an eager gradient, which differentiates what it has written down later, does not put it off."""
    told = []

    def f(x):
        y = jnp.sin(x)
        try:
            without(y)
        except errors.NotDifferentiableError as e:
            told.append(e)
        return (y * 2).sum()

    x = jnp.eye(3) + 0.1
    np.testing.assert_allclose(grad(f)(x), 2 * np.cos(x), rtol=1e-5)
    assert told


def test_jvp_and_linearize_name_the_mismatch():
    x = jnp.ones(3)
    refuses(TypeError, "lacks ['a']", "excess ['b']", fun=lambda: fgrad.jvp(lambda x: x, ({"a": 1.0},), ({"b": 1.0},)))
    refuses(ValueError, "(3,)", "(2,)", "argument x['a'][0]", fun=lambda: fgrad.jvp(lambda x: x["a"][0], ({"a": [x]},), ({"a": [x[:2]]},)))
    refuses(TypeError, "float32", "int32", "argument x", fun=lambda: fgrad.jvp(lambda x: x, (x,), (jnp.ones(3, "int32"),)))
    refuses(TypeError, "tuples or lists", "float", fun=lambda: fgrad.jvp(lambda x: x, 1.0, 1.0))
    refuses(ValueError, "(3,)", "(2,)", "argument x", fun=lambda: fgrad.linearize(lambda x: x, x)[1](x[:2]))


def test_vjp_names_the_mismatch():
    _, pullback = fgrad.vjp(lambda x: {"a": x}, jnp.ones(3))
    refuses(ValueError, "lacks ['a']", "excess ['b']", fun=lambda: pullback({"b": jnp.ones(3)}))
    refuses(ValueError, "(3,)", "(2,)", "result['a']", fun=lambda: pullback({"a": jnp.ones(2)}))
    refuses(ValueError, "float32", "int32", "result['a']", fun=lambda: pullback({"a": jnp.ones(3, "int32")}))


def test_rules_that_are_missing():
    refuses(errors.NotDifferentiableError, "sin", "test_errors.py", fun=lambda: fgrad.linear_transpose(jnp.sin, 1.0)(1.0))
    refuses(errors.NotDifferentiableError, "not linear", fun=lambda: fgrad.linear_transpose(lambda x: x * x, 1.0)(1.0))
    loop = lambda x: lax.while_loop(lambda c: c < 3, lambda c: c * 2, x)
    refuses(errors.NotDifferentiableError, "while_loop", "scan", fun=lambda: fgrad.grad(loop)(1.0))
    assert issubclass(errors.NotDifferentiableError, NotImplementedError) and issubclass(errors.NotDifferentiableError, ValueError)


def test_custom_rules():
    f = fgrad.custom_vjp(lambda x: x)
    refuses(AttributeError, "defvjp", fun=lambda: fgrad.grad(f)(1.0))
    f.defvjp(lambda x: (x, None), lambda res, ct: (ct, ct))
    refuses(TypeError, "tuple of 1", "length 2", fun=lambda: fgrad.grad(f)(1.0))
    f.defvjp(lambda x: (x, None), lambda res, ct: (jnp.ones(3),))
    refuses(ValueError, "(3,)", "argument 0", "()", fun=lambda: fgrad.grad(f)(1.0))
    g = fgrad.custom_jvp(lambda x: x)
    g.defjvp(lambda primals, tangents: (primals[0], jnp.ones(3)))
    refuses(TypeError, "float32[]", "float32[3]", fun=lambda: fgrad.grad(g)(1.0))


# --- vmap -----------------------------------------------------------------------------------------------------------


def test_rules_whose_value_differs_from_the_function():
    """Seen where the function was staged: the rule's outputs take the place of the call's."""

    def staged(f):
        return lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0]

    for outs in ((1.0, 1.0), jnp.zeros(3)):
        tangents = fgrad.tree.map(jnp.zeros_like, outs)
        f = fgrad.custom_jvp(lambda x: x)
        f.defjvp(lambda p, t, o=outs, d=tangents: (o, d))
        with pytest.raises(TypeError, match="Custom JVP rule .* must produce a pair"):
            fgrad.jvp(staged(f), (1.0,), (1.0,))
        f = fgrad.custom_vjp(lambda x: x)
        f.defvjp(lambda x, o=outs: (o, None), lambda _, ct: (ct,))
        with pytest.raises(TypeError, match="Custom VJP fwd rule .* must produce a pair"):
            fgrad.grad(staged(f))(1.0)


def test_vmap_names_axes_and_sizes():
    f = lambda x, y: x
    refuses(
        ValueError,
        "2 axes had size 3: axis 0 of argument x['a'] of type float32[3], axis 1 of argument x['b'] of type float32[1,3]",
        "one axis had size 4: axis 0 of argument y[0] of type float32[4]",
        fun=lambda: fgrad.vmap(f, in_axes=({"a": 0, "b": 1}, 0))({"a": jnp.ones(3), "b": jnp.ones((1, 3))}, [jnp.ones(4)]),
    )
    refuses(ValueError, "the axis_size argument", "size 5", "argument x", fun=lambda: fgrad.vmap(lambda x: x, axis_size=5)(jnp.ones(3)))
    refuses(ValueError, "argument x", "axis 2", "(2, 3)", fun=lambda: fgrad.vmap(lambda x: x, in_axes=2)(jnp.ones((2, 3))))
    refuses(ValueError, "argument x", "axis 0", "()", fun=lambda: fgrad.vmap(lambda x: x)(1.0))
    refuses(ValueError, "non-None", fun=lambda: fgrad.vmap(lambda x: x, in_axes=None)(1.0))


def test_vmap_axis_trees():
    x = jnp.ones(3)
    message = refuses(ValueError, "in_axes", "prefix", "['a']", "['b']", fun=lambda: fgrad.vmap(lambda x: x, ({"a": 0},))({"b": x}))
    assert "Array" not in message
    refuses(ValueError, "len(in_axes)=2", "len(args)=1", fun=lambda: fgrad.vmap(lambda x: x, (0, 0))(x))
    refuses(ValueError, "out_axes", "prefix", "(*, *)", fun=lambda: fgrad.vmap(lambda x: (x, x), out_axes=(0, 0, 0))(x))
    refuses(ValueError, "at vmap out_axes", "axis spec None but output was batched", fun=lambda: fgrad.vmap(lambda x: x, out_axes=None)(x))
    refuses(ValueError, "axis 3", "dimension 1", fun=lambda: fgrad.vmap(lambda x: x, out_axes=3)(x))
    refuses(TypeError, "in_axes", "'a'", fun=lambda: fgrad.vmap(lambda x: x, in_axes="a")(x))
    refuses(NameError, "unbound axis name: i", fun=lambda: lax.psum(1.0, "i"))


# --- jit ------------------------------------------------------------------------------------------------------------


def test_jit_names_the_argument():
    refuses(TypeError, "argument x['w']", "object", fun=lambda: fgrad.jit(lambda x: x)({"w": object()}))
    refuses(TypeError, "argument args[0]['w']", "str", fun=lambda: fgrad.jit(lambda *args: args)({"w": "text"}))
    refuses(TypeError, "argument key", "str", fun=lambda: fgrad.jit(lambda x, *, key: x)(1.0, key="text"))
    refuses(TypeError, "<lambda> returned", "str", fun=lambda: fgrad.jit(lambda x: "text")(1.0))
    refuses(TypeError, "callable", "3", fun=lambda: fgrad.jit(3))


def test_jit_static_arguments():
    f = fgrad.jit(lambda x, n: x, static_argnums=1)
    refuses(ValueError, "Non-hashable", "argument 1", "list", fun=lambda: f(1.0, [1]))
    refuses(ValueError, "Non-hashable", "Array", fun=lambda: f(1.0, jnp.ones(3)))
    refuses(ValueError, "static_argnums=(5,)", "2 positional", fun=lambda: fgrad.jit(lambda x, n: x, static_argnums=5))
    refuses(ValueError, "static_argnames", "z", fun=lambda: fgrad.jit(lambda x, n: x, static_argnames="z"))


@pytest.mark.parametrize("make", [lambda: jnp.ones(3), lambda: jnp.arange(6.0).reshape(2, 3).T, lambda: jnp.arange(4.0)[::2]])
def test_donated_buffer(make):
    f = fgrad.jit(lambda x: x + 1, donate_argnums=0)
    for _ in range(2):
        x = make()
        want = np.array(x) + 1
        np.testing.assert_array_equal(f(x), want)
        assert x.is_deleted()
        for use in (lambda x=x: x + 1, lambda x=x: np.asarray(x), lambda x=x: f(x), lambda x=x: float(x.sum()), lambda x=x: memoryview(x)):
            refuses(RuntimeError, "deleted", "donated", fun=use)
        assert "deleted" in repr(x)


# --- control flow ---------------------------------------------------------------------------------------------------


def test_control_flow():
    x = jnp.ones(3)
    refuses(ValueError, "(3,)", "(4,)", fun=lambda: lax.scan(lambda c, x: (c, x), 0.0, (jnp.ones(3), jnp.ones(4))))
    refuses(TypeError, "float32[]", "float32[2]", fun=lambda: lax.scan(lambda c, x: (jnp.ones(2), x), 0.0, x))
    refuses(TypeError, "pair", fun=lambda: lax.scan(lambda c, x: c, 0.0, x))
    refuses(TypeError, "structure", "(*, *)", fun=lambda: lax.while_loop(lambda c: c < 3, lambda c: (c, c), 0))
    refuses(TypeError, "boolean scalar", "int32", fun=lambda: lax.while_loop(lambda c: c, lambda c: c, 0))
    refuses(TypeError, "structure", fun=lambda: lax.cond(True, lambda x: x, lambda x: (x, x), 1.0))
    refuses(TypeError, "float32[2]", "float32[]", fun=lambda: lax.cond(True, lambda x: x, lambda x: jnp.ones(2), 1.0))
    refuses(TypeError, "scalar", "shape (2,)", fun=lambda: lax.cond(jnp.ones(2) > 0, lambda x: x, lambda x: x, 1.0))


# --- shapes, dtypes, keywords, settings -----------------------------------------------------------------------------


def test_shapes_are_named():
    a, b = jnp.ones((2, 3)), jnp.ones((2, 4))
    refuses(errors.ShapeError, "(2, 3)", "(2, 4)", fun=lambda: a + b)
    refuses(errors.ShapeError, "(2, 3)", "(2, 4)", "broadcast", fun=lambda: lax.add(a, b))
    refuses(TypeError, "float32", "int32", fun=lambda: lax.add(jnp.ones(3), jnp.ones(3, "int32")))
    refuses(TypeError, "(2, 3)", "contracting", fun=lambda: jnp.dot(a, a))
    refuses(TypeError, "(2, 3)", "contracting", fun=lambda: a @ a)
    refuses(TypeError, "(2, 3)", "(2, 4)", fun=lambda: jnp.concat([a, b]))
    refuses(ValueError, "(2, 3)", "(2, 4)", fun=lambda: jnp.stack([a, b]))
    refuses(TypeError, "(2, 3)", "(4, 2)", fun=lambda: a.reshape(4, 2))
    refuses(ValueError, "axis 2", "dimension 2", fun=lambda: jnp.sum(a, axis=2))
    refuses(ValueError, "(2, 3)", "(2, 4)", fun=lambda: jnp.where(a > 0, a, b))
    refuses(ValueError, "(2, 3)", "(3, 3)", fun=lambda: jnp.broadcast_to(a, (3, 3)))
    refuses(ValueError, "'j'", "3", "2", fun=lambda: jnp.einsum("ij,jk->ik", a, a))
    refuses(ValueError, "'z'", fun=lambda: jnp.einsum("ij,kj->iz", a, a))
    refuses(ValueError, "'i'", "one operand", fun=lambda: jnp.einsum("ii->i", a))
    refuses(ValueError, "'i'", "one operand", fun=lambda: jnp.einsum("ii,i->", a, a[:, 0]))
    refuses(ValueError, "'i'", fun=lambda: jnp.einsum("ij,kj->ii", a, a))
    refuses(ValueError, "operands", fun=lambda: jnp.einsum("ij->ij", a, a))
    refuses(IndexError, "2-dimensional", "3", fun=lambda: a[0, 0, 0])


def test_wrong_types():
    x = jnp.ones(3)
    refuses(TypeError, "list", "position 1", fun=lambda: jnp.add(x, [1, 2, 3]))
    refuses(TypeError, "str", fun=lambda: x + "a")
    refuses(TypeError, "a", fun=lambda: x["a"])
    refuses(TypeError, "1.5", fun=lambda: x[1.5])
    refuses(TypeError, ".at[", fun=lambda: x.__setitem__(0, 1))
    refuses(TypeError, "unhashable", fun=lambda: hash(x))
    refuses(ValueError, "ambiguous", fun=lambda: bool(x))
    refuses(TypeError, "scalar", fun=lambda: float(x))
    refuses(TypeError, "0-d", fun=lambda: list(jnp.float32(1)))
    refuses(TypeError, "<U1", fun=lambda: jnp.array(["a"]))
    refuses(ValueError, "inhomogeneous", fun=lambda: jnp.array([[1, 2], [3]]))


@pytest.mark.parametrize(
    "make", [lambda: jnp.array(1.0, dtype="float64"), lambda: jnp.zeros(3, np.int64), lambda: jnp.ones(2).astype("f8")]
)
def test_x64_truncation_warns(make):
    with pytest.warns(UserWarning, match=r"dtype (float64|int64).*truncated to dtype (float32|int32)"):
        assert make().dtype.itemsize == 4
    with fgrad.enable_x64(), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make().dtype.itemsize == 8


def test_python_types_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jnp.zeros(3, float), jnp.zeros(3, int), jnp.asarray(np.ones(3)), jnp.arange(3, dtype=float)


def test_unknown_keywords_and_settings():
    refuses(TypeError, "foo", fun=lambda: jnp.sum(jnp.ones(3), foo=1))
    refuses(TypeError, "foo", fun=lambda: jnp.sin(jnp.ones(3), foo=1))
    refuses(AttributeError, "jax_foo", "enable_x64", fun=lambda: fgrad.config.update("jax_foo", 1))
    refuses(TypeError, "bool", "'yes'", fun=lambda: fgrad.config.update("jax_enable_x64", "yes"))
    refuses(ValueError, "at least 1", fun=lambda: fgrad.set_num_threads(0))


def test_trees():
    message = refuses(ValueError, "list arity", fun=lambda: fgrad.tree.map(lambda x, y: x, {"a": 1, "b": [1]}, {"a": 1, "b": [1, 2]}))
    assert re.search("expected: 1, got: 2", message)
    refuses(ValueError, "Too few", fun=lambda: fgrad.tree.unflatten(fgrad.tree.structure([1, 2]), [1]))


def test_equations_of_the_backward_pass_name_the_forward_line():
    def loss(x):
        y = jnp.sin(x)
        return y.sum()

    closed = fgrad.make_jaxpr(fgrad.grad(loss))(jnp.ones(3))
    lines = {e.primitive.name: e.source[1] for e in closed.eqns}  # the cotangent of 1 is the first broadcast, and not the last
    assert lines["cos"] == lines["mul"] == line_of(loss, "jnp.sin")
    assert lines["broadcast_in_dim"] == line_of(loss, "y.sum")


def test_each_call_of_a_line_names_it():
    def twice(f, x):
        for _ in range(2):
            x = f(x)
        x = x * 2
        return x

    sources = [e.source[1:] for e in fgrad.make_jaxpr(lambda x: twice(jnp.sin, twice(jnp.cos, x)))(1.0).eqns]
    called, scaled = [(line_of(twice, text), "twice") for text in ("f(x)", "x * 2")]
    assert sources == [called, called, scaled] * 2


@pytest.mark.parametrize(
    ("error", "parts", "fun"),
    [
        (TypeError, ["'x'"], lambda: fgrad.scipy.special.erf()),
        (TypeError, ["argument"], lambda: fgrad.scipy.special.beta(1.0, 2.0, 3.0)),
        (TypeError, ["'y'"], lambda: fgrad.scipy.special.erf(1.0, y=1.0)),
        (ValueError, ["multigammaln", "0"], lambda: fgrad.scipy.special.multigammaln(1.0, 0)),
        (ValueError, ["axis 1", "dimension 1"], lambda: jnp.fft.fftshift(jnp.ones(3), axes=(0, 1))),
        (ValueError, ["axis 0", "dimension 0"], lambda: jnp.vsplit(1.0, 2)),
        (ValueError, ["axis 5", "dimension 1"], lambda: fgrad.nn.glu(jnp.ones(4), 5)),
        (ValueError, ["axis -1", "dimension 0"], lambda: fgrad.random.categorical(fgrad.random.key(0), 1.0)),
        (ValueError, ["axis -1", "dimension 0"], lambda: jnp.linalg.cross(1.0, jnp.ones(3))),
        (ValueError, ["polyval"], lambda: jnp.polyval(1.0, 2.0)),
        (ValueError, ["trim"], lambda: jnp.trim_zeros(jnp.ones(3), 1)),
        (TypeError, ["einsum", "tuple"], lambda: jnp.einsum((0, 1))),
        (ValueError, ["lu_solve", "(2,)"], lambda: fgrad.scipy.linalg.lu_solve((jnp.ones(2), jnp.zeros(2, int)), jnp.ones(2))),
        (ValueError, ["cho_solve", "()"], lambda: fgrad.scipy.linalg.cho_solve((1.0, True), jnp.ones(2))),
        (ValueError, ["qr_multiply"], lambda: fgrad.scipy.linalg.qr_multiply(jnp.ones((2, 2)), 1.0)),
        (ValueError, ["smooth_labels"], lambda: fgrad.nn.smooth_labels(1.0, 0.1)),
        (ValueError, ["conv_1d_ph", "kernel"], lambda: fgrad.ggml.conv_1d_ph(1.0, jnp.ones((1, 1, 4)), 1, 1)),
        (ValueError, ["conv_2d_dw", "axes"], lambda: fgrad.ggml.conv_2d_dw(jnp.ones((2, 1, 3, 3)), 1.0, 1, 1, 0, 0, 1, 1)),
        (ValueError, ["no op", "3"], lambda: fgrad.ggml.unary(jnp.ones(2), 3)),
    ],
)
def test_arguments_of_another_rank_or_kind(error, parts, fun):
    refuses(error, *parts, fun=fun)


def test_special_functions_take_keywords():
    special = fgrad.scipy.special
    assert special.betainc(x=0.5, a=1.0, b=1.0) == special.betainc(1.0, 1.0, 0.5)
    assert special.log_ndtr(x=-1.0, series_order=5) == special.log_ndtr(-1.0)
    refuses(ValueError, "series_order", fun=lambda: special.log_ndtr(1.0, -1))


@pytest.mark.parametrize(
    "make",
    [
        lambda: jnp.eye(1 << 40),
        lambda: jnp.zeros((1 << 40, 1 << 40)),
        lambda: fgrad.jit(lambda x: x + 1)(jnp.zeros((1 << 32, 1 << 32))),
        lambda: fgrad.random.normal(fgrad.random.key(0), (1 << 40, 1 << 20)),
        lambda: jnp.broadcast_to(jnp.ones(3), (1 << 60, 3)) + 1,
        lambda: fgrad.eval_shape(lambda x: x[:, None] * x, fgrad.ShapeDtypeStruct((1 << 33,), jnp.float32)),
    ],
)
def test_sizes_that_no_machine_has(make):
    with pytest.raises(errors.ShapeError, match=r"at most 2\*\*56"):
        make()


def test_sizes_beyond_the_memory():
    with pytest.raises(MemoryError, match="no memory"):
        jnp.eye(1 << 25)
    with pytest.raises(MemoryError, match="no memory"):
        fgrad.random.normal(fgrad.random.key(0), (1 << 40, 1 << 14))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_complex_numbers_have_no_16_bit_parts(dtype):
    x = jnp.ones(3, dtype)
    with pytest.raises(TypeError, match=f"complex does not accept dtype {dtype}. Accepted dtypes are float32 and float64"):
        lax.complex(x, x)
