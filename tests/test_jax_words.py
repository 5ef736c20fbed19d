"""Errors say what JAX's say in its words, by which programs and test suites recognise them."""

import re

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import grad, jit, lax, vmap

X, M, I = jnp.arange(3.0), jnp.ones((2, 3)), jnp.arange(3)


def custom_jvp(rule, fun=lambda x: x**2):
    def f(x):
        return fun(x)

    f = fgrad.custom_jvp(f)
    f.defjvp(rule)
    return f


def custom_vjp(fwd, bwd):
    def f(x):
        return x

    f = fgrad.custom_vjp(f)
    f.defvjp(fwd, bwd)
    return f


def scanned(f):
    return lambda x: lax.scan(lambda x, _: (f(x), None), x, None, length=1)[0]


def rule_of_pairs(p, t):
    return (p[0], p[0]), (t[0], t[0])


def rule_of_other_shape(p, t):
    return p[0], jnp.reshape(t[0], (1,))


def fwd_of_other_shape(x):
    return jnp.zeros(3), None


def fwd_of_no_pair(x):
    return x


def of_two(x, y, *, z=None):
    return x


def closure():
    pure, consts = fgrad.closure_convert(lambda x: x, 2.0)
    pure(2.0, consts)


def symbolic():
    f = fgrad.custom_vjp(lambda x, y, z: (x, y, z))
    f.defvjp(lambda x, y, z: ((x.value, y.value, z.value), None), lambda _, g: (g[1], g[0], g[2]), symbolic_zeros=True)
    grad(lambda x, y, z: f(x, y, z)[2].sum())(jnp.ones(1), jnp.ones(2), jnp.ones(3))


def strict():
    with fgrad.numpy_dtype_promotion("strict"):
        jnp.int32(1) + jnp.float32(1)


def leak():
    kept = []
    jit(lambda x: kept.append(x + 1))(1.0)
    kept[0] + 1


def registered():
    class Node:
        pass

    for _ in range(2):
        fgrad.tree_util.register_pytree_node(Node, lambda x: ((), None), lambda aux, children: Node())


TWO = fgrad.custom_jvp(of_two)
TWO.defjvp(lambda p, t: (p[0], t[0]))
f32 = jnp.float32(1)
WORDS = [  # (class, words, call)
    (
        TypeError,
        "Expected float32[] (tangent type of float32[]) but got float32[1].",
        lambda: fgrad.jvp(custom_jvp(rule_of_other_shape), (f32,), (f32,)),
    ),
    (TypeError, "representing primal and tangent outputs, but got 1.0", lambda: fgrad.jvp(custom_jvp(lambda p, t: t[0]), (2.0,), (1.0,))),
    (
        TypeError,
        "and in particular of the same container/pytree structure), but instead the JVP rule output's first element had container/pytree "
        "structure:\n    (float32[], float32[])\nwhile the custom_jvp-decorated function f had output container/pytree structure:\n    "
        "float32[].",
        lambda: fgrad.jvp(scanned(custom_jvp(rule_of_pairs, lambda x: x)), (f32,), (f32,)),
    ),
    (
        TypeError,
        "but instead the fwd rule output's first element had shapes/dtypes of:\n    float32[3]\nwhile the custom_vjp-decorated function f "
        "had output shapes/dtypes of:\n    float32[]",
        lambda: grad(scanned(custom_vjp(fwd_of_other_shape, lambda _, g: (g,))))(f32),
    ),
    (
        TypeError,
        "but instead of a pair the fwd rule fwd_of_no_pair produced 1.0",
        lambda: grad(custom_vjp(fwd_of_no_pair, lambda _, g: (g,)))(1.0),
    ),
    (
        TypeError,
        "could not be resolved to positional-only arguments. Binding failed with the error:\nmissing a required argument: 'y'",
        lambda: TWO(0.5),
    ),
    (TypeError, "The following keyword arguments could not be resolved to positions: z", lambda: TWO(0.5, 0.1, z=1.0)),
    (TypeError, "The inputs to the closure produced by closure_convert must have the same Pytree structure", closure),
    (ValueError, "Consider just returning a None here", symbolic),
    (
        TypeError,
        "cond_fun must return a boolean scalar, but got output type(s) [ShapedArray(float32[])].",
        lambda: lax.while_loop(lambda c: f32, lambda c: c, f32),
    ),
    (
        TypeError,
        "scan body function carry input and carry output must have the same pytree structure, but they differ:\n\n",
        lambda: lax.scan(lambda c, x: ((0, x), None), (1, (2, 3)), I),
    ),
    (
        TypeError,
        "scan body function carry input and carry output must have equal types, but they differ:\n\nThe input carry component c[1] has "
        "type float32[] but the corresponding output carry component has type float16[], so the dtypes do not match.\n\nRevise",
        lambda: lax.scan(lambda c, x: ((c[0], c[1].astype("float16")), x), (f32, f32), X),
    ),
    (
        TypeError,
        "  * the input carry component c[0] has",
        lambda: lax.while_loop(lambda c: True, lambda c: (c[0] > 0, c[1] > 0), (f32, f32)),
    ),
    (TypeError, "scan body output must be a pair, got float32[]", lambda: lax.scan(lambda c, x: f32, f32, I)),
    (
        ValueError,
        "scan got `length` argument of 2 which disagrees with leading axis sizes [3].",
        lambda: lax.scan(lambda c, x: (c, x), 0, I, length=2),
    ),
    (ValueError, "scan got values with different leading axis sizes: 3, 2", lambda: lax.scan(lambda c, x: (c, x), 0, (I, jnp.arange(2)))),
    (ValueError, "scan got no values to scan over and `length` not provided.", lambda: lax.scan(lambda c, x: (c, x), 0)),
    (
        fgrad.errors.ConcretizationTypeError,
        "The `length` argument to `scan` expects a concrete `int` value",
        lambda: jit(lambda n: lax.scan(lambda c, x: (c, x), 0, None, length=n))(3),
    ),
    (TypeError, "lax.scan: f argument should be a callable", lambda: lax.scan(42, 0, 1)),
    (TypeError, "lax.fori_loop: body_fun argument should be callable", lambda: lax.fori_loop(0, 1, 42, 0)),
    (TypeError, "lax.while_loop: body_fun and cond_fun arguments should be callable.", lambda: lax.while_loop(42, 42, 0)),
    (TypeError, "lax.switch: branches argument should be a sequence of callables.", lambda: lax.switch(0, [42])),
    (TypeError, "lax.cond: true_fun and false_fun arguments should be callable.", lambda: lax.cond(0, 42, 42)),
    (ValueError, "if the loop bounds are statically known", lambda: jit(lambda n: lax.fori_loop(0, n, lambda i, c: c, 0.0, unroll=3))(2)),
    (
        TypeError,
        "Pred type must be either boolean or number, got <function",
        lambda: lax.cond(lambda x: True, lambda t: 2.0, lambda f: 1.0, 1.0),
    ),
    (
        TypeError,
        "Pred must be a scalar, got (1.0, 1.0) of type <class 'tuple'>",
        lambda: lax.cond((1.0, 1.0), lambda t: 2.0, lambda f: 1.0, 1.0),
    ),
    (TypeError, "Pred must be a scalar, got [1. 1.] of shape (2,).", lambda: lax.cond(jnp.ones(2), lambda t: 2.0, lambda f: 1.0, 1.0)),
    (
        TypeError,
        "The output of true_fun has type float32[] but the corresponding output of false_fun has type int32[], so the dtypes do not match.",
        lambda: lax.cond(True, lambda: f32, lambda: jnp.int32(1)),
    ),
    (
        TypeError,
        "switch branches must have equal output types but they differ.",
        lambda: lax.switch(1, [lambda: 1.0, lambda: jnp.float16(1)]),
    ),
    (TypeError, "Index type must be an integer, got 0.0 as float32", lambda: lax.switch(0.0, [lambda: 1.0] * 2)),
    (TypeError, "Branch index must be scalar, got [0 1] of shape (2,).", lambda: lax.switch(jnp.arange(2), [lambda: 1.0] * 2)),
    (ValueError, "Empty branch sequence", lambda: lax.switch(0, [])),
    (
        ValueError,
        "Array inputs to associative_scan must have the same first dimension",
        lambda: lax.associative_scan(lambda a, b: a, (X, jnp.ones(2))),
    ),
    (TypeError, "Error interpreting argument to <function", lambda: jit(lambda x: x)("foo")),
    (
        TypeError,
        "The problematic value is of type <class 'str'> and was passed to the function at path x.",
        lambda: jit(lambda x: x)("foo"),
    ),
    (TypeError, "Gradient only defined for scalar-output functions. Output was ().", lambda: grad(lambda x: ())(X)),
    (TypeError, "add got incompatible shapes for broadcasting: (3,), (4,).", lambda: X + jnp.zeros(4)),
    (ValueError, "Incompatible shapes for broadcasting: shapes=[(2, 3), (4,)]", lambda: jnp.power(M, jnp.zeros(4))),
    (TypeError, "dot_general requires contracting dimensions to have the same shape, got (3,) and (4,).", lambda: jnp.dot(X, jnp.zeros(4))),
    (
        fgrad.errors.TracerIntegerConversionError,
        "The __index__() method was called on traced array with shape",
        lambda: jit(lambda n: sum(range(n)))(5),
    ),
    (
        fgrad.errors.ConcretizationTypeError,
        "Abstract tracer value encountered where concrete value is expected",
        lambda: jit(lambda x: float(x))(5),
    ),
    (fgrad.errors.UnexpectedTracerError, "an intermediate value with type float32[]", leak),
    (TypeError, "primal and tangent arguments to jax.jvp must have the same tree structure", lambda: fgrad.jvp(lambda x, y: x, (2.0,), ())),
    (TypeError, "Expected a callable value, got 3", lambda: fgrad.jvp(3, (1.0,), (1.0,))),
    (ValueError, "unexpected JAX type (e.g. shape/dtype) for argument to", lambda: fgrad.vjp(lambda x: x, X)[1](I)),
    (
        ValueError,
        "linearized function called on tangent values inconsistent with the original primal values",
        lambda: fgrad.linearize(lambda x: x, X)[1](jnp.ones(4)),
    ),
    (
        TypeError,
        "jacfwd requires real-valued inputs (input dtype that is a sub-dtype of np.floating), but got int32",
        lambda: fgrad.jacfwd(lambda x: x)(3),
    ),
    (
        TypeError,
        "entries corresponding to the positional arguments passed to the function, but got {}.",
        lambda: vmap(lambda x: x, in_axes={})(X),
    ),
    (ValueError, "vmap must have at least one non-None value in in_axes", lambda: vmap(lambda x: x, in_axes=None)(X)),
    (
        ValueError,
        "vmap was requested to map its argument along axis 0, which implies that its rank should be at least 1",
        lambda: vmap(lambda x: x)(1.0),
    ),
    (ValueError, "itted function has invalid argnames {'bar'} in static_argnames.", lambda: jit(lambda x: x, static_argnames="bar")),
    (
        ValueError,
        "itted function has static_argnums=(3,), but only accepts 1 positional arguments",
        lambda: jit(lambda x: x, static_argnums=3),
    ),
    (TypeError, "returned a value of type <class 'str'>, which is not a valid JAX type", lambda: jit(lambda x: "s")(1)),
    (TypeError, "of type <class 'str'> is not a valid JAX type", lambda: fgrad.device_put("s")),
    (
        TypeError,
        "JAX arrays are immutable and do not support in-place item assignment. Instead of x[idx] = y, use x = x.at[idx].set(y)",
        lambda: X.__setitem__(0, 1),
    ),
    (fgrad.errors.TypePromotionError, "no available implicit dtype promotion path when jax_numpy_dtype_promotion=strict", strict),
    (
        TypeError,
        "lax.add requires arguments to have the same dtypes, got float32, int32. (Tip: jnp.add is a similar function",
        lambda: lax.add(X, I),
    ),
    (
        TypeError,
        "select `which` must be scalar or have the same shape as cases, got `which` shape (2,) but case shape (3,).",
        lambda: lax.select(jnp.ones(2) > 0, X, X),
    ),
    (TypeError, "Cannot concatenate arrays with different numbers of dimensions: got (2, 3), (3,)", lambda: lax.concatenate([M, X], 0)),
    (TypeError, "concatenating along dimension 0 for shapes (2, 3), (2, 2).", lambda: lax.concatenate([M, jnp.ones((2, 2))], 0)),
    (TypeError, "Shapes must be 1D sequences of concrete values of integer type, got", lambda: jit(lambda n: jnp.zeros(n))(3)),
    (fgrad.errors.ConcretizationTypeError, "It arose in the jnp.arange argument 'stop'", lambda: jit(lambda n: jnp.arange(n))(3)),
    (
        fgrad.errors.ConcretizationTypeError,
        "The size argument of jnp.nonzero must be statically specified to use jnp.nonzero within JAX transformations.",
        lambda: jit(jnp.nonzero)(X),
    ),
    (
        TypeError,
        "dynamic_update_slice update shape must be smaller than operand shape",
        lambda: lax.dynamic_update_slice(X, jnp.ones(5), (0,)),
    ),
    (ValueError, "Dimension size after padding is not at least 0", lambda: lax.pad(X, 0.0, ((-5, 0, 0),))),
    (TypeError, "JAX does not support string indexing; got idx='a'", lambda: X["a"]),
    (TypeError, "Indexer must have integer or boolean type, got indexer with type float", lambda: X[1.0]),
    (ValueError, "All input arrays must have the same shape.", lambda: jnp.stack([X, jnp.ones(2)])),
    (ValueError, "matmul input operand 1 must have ndim at least 1, but it has ndim 0", lambda: jnp.matmul(X, 2.0)),
    (RuntimeError, "Array has been deleted with shape=float32[3].", lambda: (lambda x: (x.delete(), np.asarray(x)))(jnp.arange(3.0))),
    (TypeError, "Cannot apply JAX transformations to a function lowered and compiled", lambda: jit(jit(lambda x: x).lower(X).compile())(X)),
    (
        NotImplementedError,
        "vmap is only supported for the pure_callback primitive when",
        lambda: vmap(lambda x: fgrad.pure_callback(abs, x, x))(X),
    ),
    (
        ValueError,
        "Pure callbacks do not support JVP. Please use `jax.custom_jvp`",
        lambda: grad(lambda x: fgrad.pure_callback(abs, x, x))(f32),
    ),
    (ValueError, "Duplicate custom PyTreeDef type registration for", registered),
]


@pytest.mark.parametrize("at", range(len(WORDS)))
def test_words(at):
    kind, words, call = WORDS[at]
    with pytest.raises(kind, match=re.escape(words)):
        call()
