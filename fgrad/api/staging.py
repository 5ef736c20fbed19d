"""make_jaxpr, eval_shape, closure_convert: functions as programs, without running them."""

from contextlib import ExitStack

from fgrad import array_tree as tree
from fgrad import dtypes
from fgrad.api.common import ShapeDtypeStruct, abstractify, bind_static, check_callable, flat_fun, fun_name
from fgrad.api.symbolic import Sizes, fitted
from fgrad.core import eval_jaxpr, extended_axis_env, is_tracer, stage, wraps
from fgrad.core.binding import is_array
from fgrad.core.dimensions import evaluate, is_symbolic
from fgrad.core.kept import once
from fgrad.core.refs import running
from fgrad.ops.rules import zeros


def make_jaxpr(fun, static_argnums=(), axis_env=None, return_shape=False):
    """A function that returns the jaxpr of `fun` at its arguments.

    static_argnums: arguments to keep as they are; axis_env: (name, size) of axes that collectives in `fun` may name; return_shape:
    give (jaxpr, tree of ShapeDtypeStructs of the result). Raises TypeError where fun is not callable.

    >>> import fgrad, fgrad.numpy as jnp
    >>> print(fgrad.make_jaxpr(lambda x: jnp.sin(x) * 2)(1.0))
    { lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = mul b 2.0:f32[] in (c,) }
    """
    check_callable(fun)
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    @wraps(fun)
    def wrapped(*args, **kwargs):
        with ExitStack() as axes:
            for name, size in axis_env or ():
                axes.enter_context(extended_axis_env(name, size))
            closed, out_tree, structs = _traced(fun, static, args, kwargs)
        if structs:
            raise TypeError(f"{fun_name(fun)} returned a value that is not an array: a ShapeDtypeStruct")
        return (closed, _shapes(closed, out_tree)) if return_shape else closed

    return wrapped


def _traced(fun, static, args, kwargs):
    """(jaxpr, structure of the result, whether it has ShapeDtypeStructs) of a function, traced once per types and static arguments."""
    given = tuple((i, type(args[i]), args[i]) for i in sorted(i % len(args) for i in static if -len(args) <= i < len(args)))
    f, args = bind_static(fun, args, static)
    leaves, treedef = tree.flatten((args, kwargs))
    avals = [abstractify(x) for x in leaves]

    def make():
        out_tree, structs = [None], []

        def array(x):
            if not isinstance(x, ShapeDtypeStruct):
                return x
            structs.append(x)
            return zeros(abstractify(x))

        @wraps(f)
        def arrays(*args, **kwargs):
            out = f(*args, **kwargs)
            return out if is_array(out) else tree.map(array, out)

        closed = stage(flat_fun(arrays, treedef, out_tree), avals, fun_name(fun), keeps_arrays=True)
        return closed.consts, closed, out_tree[0], bool(structs)

    with running(lambda ref, value: ref[...]) as run:  # nothing runs, nothing is written
        return once(fun, ("jaxpr", given, treedef, *avals), run.frame, make)[1:]


def _shapes(closed, out_tree):
    return tree.unflatten(out_tree, [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in closed.out_avals])


def typeof(x):
    """The abstract value of an array, a number or a ShapeDtypeStruct: its shape, dtype and weak type. Raises TypeError for anything else.

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.typeof(jnp.ones((2, 3)))
    ShapedArray(float32[2,3])
    """
    return x.typeof() if hasattr(x, "typeof") else abstractify(x)


def eval_shape(fun, *args, **kwargs):
    """Shapes and dtypes of fun's result, without computing it: a tree of ShapeDtypeStruct. The result may itself hold some.

    Shapes may have symbolic dimensions (export.symbolic_shape): fun is traced at several sizes, the result has expressions of them.

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.eval_shape(lambda x: x @ x.T, fgrad.ShapeDtypeStruct((3, 4), "float32"))
    ShapeDtypeStruct(shape=(3, 3), dtype=float32)
    """
    check_callable(fun)
    leaves, treedef = tree.flatten((args, kwargs))
    if any(isinstance(x, ShapeDtypeStruct) and is_symbolic(x.shape) for x in leaves):
        return _symbolic_shape(fun, leaves, treedef)

    closed, out_tree, _ = _traced(fun, (), args, kwargs)
    return _shapes(closed, out_tree)


def at_sizes(leaves, env):
    """The leaves with numbers in place of their symbolic dimensions."""
    return [
        x.update(shape=tuple(evaluate(d, env) for d in x.shape)) if isinstance(x, ShapeDtypeStruct) and is_symbolic(x.shape) else x
        for x in leaves
    ]


def _symbolic_shape(fun, leaves, treedef):
    def sample(env):
        args, kwargs = tree.unflatten(treedef, at_sizes(leaves, env))
        return tree.flatten(eval_shape(fun, *args, **kwargs))

    def merge(samples, fit):
        results, out_tree = samples[0]
        for others, other_tree in samples[1:]:
            if out_tree != other_tree or [(x.dtype, x.weak_type, x.ndim) for x in results] != [
                (x.dtype, x.weak_type, x.ndim) for x in others
            ]:
                raise ValueError(f"eval_shape: the structure of {fun_name(fun)}'s result depends on the symbolic dimensions")
        dims = [[fit(list(ds)) for ds in zip(*[xs[i].shape for xs, _ in samples])] for i in range(len(results))]
        return tree.unflatten(out_tree, [x.update(shape=tuple(d)) for x, d in zip(results, dims)])

    return fitted(sample, merge, Sizes([x.shape for x in leaves if isinstance(x, ShapeDtypeStruct)]))


def closure_convert(fun, *example_args):
    """(pure function, list of the inexact arrays that `fun` closes over): converted(*args, *consts) == fun(*args).

    >>> import fgrad
    >>> def f(x, y):
    ...     pure, consts = fgrad.closure_convert(lambda z: z * y, x)
    ...     return pure(x, *consts)
    >>> float(fgrad.grad(f, argnums=1)(2.0, 3.0))
    2.0
    """
    leaves, treedef = tree.flatten((example_args, {}))
    out_tree = [None]
    closed = stage(flat_fun(fun, treedef, out_tree), [abstractify(x) for x in leaves], fun_name(fun))
    hoist = [is_tracer(c) and dtypes.is_inexact(c.dtype) for c in closed.consts]
    hoisted = [c for c, h in zip(closed.consts, hoist) if h]

    def converted(*args_and_consts):
        n = len(args_and_consts) - len(hoisted)
        args, given = args_and_consts[:n], iter(args_and_consts[n:])
        consts = [next(given) if h else c for c, h in zip(closed.consts, hoist)]
        xs, given_tree = tree.flatten((args, {}))
        if given_tree != treedef:
            raise TypeError(
                "The inputs to the closure produced by closure_convert must have the same Pytree structure as the example arguments passed "
                f"when closure_convert was called. Expected {tree.structure(example_args)}, but got {tree.structure(args)}"
            )
        return tree.unflatten(out_tree[0], eval_jaxpr(closed.jaxpr, consts, *xs))

    return converted, hoisted
