"""Calls of Python from inside programs: pure_callback, io_callback and debug callbacks.

A pure callback may be run any number of times, or not at all; the others are run exactly once, in the order of the program.
"""

import functools

import numpy as np

from fgrad import array_tree as tree
from fgrad import dtypes
from fgrad.control.loops import scan
from fgrad.core import Primitive, ShapedArray, eval_trace, from_numpy, get_aval, to_array, using_trace
from fgrad.errors import JaxRuntimeError, NotDifferentiableError
from fgrad.ops.rules import bdim_at_front, move_axis, zero_of
from fgrad.ops.shape import concatenate, expand_dims, index_in_dim

VMAP_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")


@functools.cache
def _also_runtime(kind):
    """A class of errors that are both of `kind` and JaxRuntimeError, as which JAX raises them; `kind` where there can be none."""
    try:
        return kind if issubclass(kind, JaxRuntimeError) else type(kind.__name__, (kind, JaxRuntimeError), {"__module__": kind.__module__})
    except TypeError:
        return kind


def _reported(e):
    """The error of a callback, for `except` clauses of its own class as well as of JaxRuntimeError."""
    kind = _also_runtime(type(e))
    if kind is type(e):
        return e
    out = kind.__new__(kind, *e.args)
    out.args = e.args
    out.__dict__.update(e.__dict__)
    return out.with_traceback(e.__traceback__)


def _run(args, callback, result_avals):
    """Run a flat callback on concrete arrays, outside all traces, and check what it returns."""
    with using_trace(eval_trace):
        try:
            results = callback(*[to_array(x) for x in args])
        except Exception as e:
            raise _reported(e) from e.__cause__
    out = []
    for i, (x, want) in enumerate(zip(results, result_avals)):
        x = np.asarray(x)
        dtype = dtypes.canonicalize_dtype(x.dtype)
        if x.shape != want.shape or dtype != want.dtype:
            got = ShapedArray(x.shape, dtype).short()
            raise RuntimeError(f"Incorrect output shape or dtype for return value #{i}: it is {got}, but {want.short()} was declared")
        out.append(from_numpy(x, want.dtype))
    return out


def _impl(*args, callback, result_avals, **_):
    return _run(args, callback, result_avals)


def _lower(op):
    def lower(ctx, ins, params, out_avals):
        callback, result_avals = params["callback"], params["result_avals"]
        return ctx.callback(lambda args: _run(args, callback, result_avals), ins, [v.aval for v in ins], out_avals, op)

    return lower


def _aval(*avals, result_avals, **_):
    return list(result_avals)


def _one_by_one(prim, axis, args, dims, params, unrolled=False):
    """Batch rule: one call per example."""
    mapped = [move_axis(x, d, 0) for x, d in zip(args, dims) if d is not None]

    def call(xs):
        xs = iter(xs)
        return prim.bind(*[x if d is None else next(xs) for x, d in zip(args, dims)], **params)

    if not unrolled or axis.size == 0:
        return scan(lambda _, xs: ((), call(xs)), (), mapped)[1]
    rows = [call([index_in_dim(x, i, 0, keepdims=False) for x in mapped]) for i in range(axis.size)]
    return [_stack(col) for col in zip(*rows)]


def _stack(xs):
    return concatenate([expand_dims(x, (0,)) for x in xs], 0)


def _batched_avals(avals, n):
    return tuple(ShapedArray((n, *a.shape), a.dtype) for a in avals)


def _at_once(prim, axis, args, dims, params):
    """Batch rule: one call for the batch, with the batch axis in front of what the method gives one."""
    method, n = params["vmap_method"], axis.size
    if method == "broadcast_all":
        args = [bdim_at_front(x, d, n) for x, d in zip(args, dims)]
    elif method == "expand_dims":
        args = [expand_dims(x, (0,)) if d is None else move_axis(x, d, 0) for x, d in zip(args, dims)]
    else:
        args = [x if d is None else move_axis(x, d, 0) for x, d in zip(args, dims)]
    return prim.bind(*args, **{**params, "result_avals": _batched_avals(params["result_avals"], n)})


def _pure_batch(axis, args, dims, **params):
    method = params["vmap_method"]
    if method is None:
        raise NotImplementedError(
            f"vmap is only supported for the pure_callback primitive when vmap_method is one of {', '.join(map(repr, VMAP_METHODS))}, "
            f"and says how to call {params['name']} for a batch. Got vmap_method=None."
        )
    if method.startswith("sequential"):
        outs = _one_by_one(pure_callback_p, axis, args, dims, params, method == "sequential_unrolled")
    else:
        outs = _at_once(pure_callback_p, axis, args, dims, params)
    return outs, [0] * len(outs)


def _refuse_jvp(what, advice):
    def jvp(primals, tangents, **params):
        raise NotDifferentiableError(f"{what} callbacks do not support JVP. {advice} ({params['name']} has no derivative.)")

    return jvp


_ADVICE = "Please use `jax.custom_jvp` to use callbacks while taking gradients."

pure_callback_p = Primitive(
    "pure_callback",
    multiple_results=True,
    abstract_eval=_aval,
    impl=_impl,
    lower=_lower("pure_callback"),
    batch=_pure_batch,
    jvp=_refuse_jvp("Pure", _ADVICE),
    kind="custom",  # how it is called for a batch is the user's to say: no pass batches it
)


def _io_batch(axis, args, dims, **params):
    if params["ordered"]:
        raise ValueError(f"Cannot `vmap` ordered IO callback: {params['name']}. Use ordered=False, or lax.map.")
    outs = _one_by_one(io_callback_p, axis, args, dims, params)
    return outs, [0] * len(outs)


io_callback_p = Primitive(
    "io_callback",
    multiple_results=True,
    abstract_eval=_aval,
    impl=_impl,
    lower=_lower("callback"),
    batch=_io_batch,
    jvp=_refuse_jvp("IO", _ADVICE),
    effects=lambda params: frozenset({"io"}),
)


def _debug_jvp(primals, tangents, **params):
    outs = debug_callback_p.bind(*primals, **params)
    return outs, [zero_of(o) for o in outs]


def _debug_batch(axis, args, dims, **params):
    return _one_by_one(debug_callback_p, axis, args, dims, params), []


debug_callback_p = Primitive(
    "debug_callback",
    multiple_results=True,
    abstract_eval=_aval,
    impl=_impl,
    lower=_lower("callback"),
    batch=_debug_batch,
    jvp=_debug_jvp,
    transpose=lambda cts, *args, **params: [None] * len(args),
    effects=lambda params: frozenset({"debug"}),
)


# --- functions --------------------------------------------------------------------------------------------------------------


def _is_array(x):
    try:
        get_aval(x)
    except TypeError:
        return False
    return True


def _flat(what, callback, args, kwargs):
    """(array leaves, call): call(*arrays) is callback(*args, **kwargs) with the arrays put back beside the other leaves."""
    if not callable(callback):
        raise TypeError(f"{what}: the first argument must be a function, got {callback!r:.80}")
    leaves, treedef = tree.flatten((args, kwargs))
    dynamic = [_is_array(x) for x in leaves]
    static = [None if d else x for x, d in zip(leaves, dynamic)]  # `call` lives on in programs: it must not keep arrays

    def call(*arrays):
        given = iter(arrays)
        a, kw = tree.unflatten(treedef, [next(given) if d else x for x, d in zip(static, dynamic)])
        return callback(*a, **kw)

    return [x for x, d in zip(leaves, dynamic) if d], call


def _result_avals(what, result_shape_dtypes):
    structs, out_tree = tree.flatten(result_shape_dtypes)
    avals = []
    for s in structs:
        if not hasattr(s, "shape") or not hasattr(s, "dtype"):
            raise TypeError(f"{what}: result_shape_dtypes must be a tree of values with .shape and .dtype, got {s!r:.80}")
        dtype = np.dtype(s.dtype)
        if dtypes.canonicalize_dtype(dtype) != dtype:
            raise ValueError(f"{what}: result_shape_dtypes cannot specify {dtype.name} while 64-bit types are off (enable_x64)")
        avals.append(ShapedArray(tuple(s.shape), dtype))
    return tuple(avals), out_tree


def _with_results(what, callback, args, kwargs, result_shape_dtypes):
    leaves, call = _flat(what, callback, args, kwargs)
    avals, out_tree = _result_avals(what, result_shape_dtypes)
    name = getattr(callback, "__name__", type(callback).__name__)

    def flat(*arrays):
        outs, got = tree.flatten(call(*arrays))
        if got != out_tree:
            raise RuntimeError(f"{what}: {name} returned the structure {got}, but result_shape_dtypes has {out_tree}")
        return outs

    return leaves, flat, avals, out_tree, name


def pure_callback(callback, result_shape_dtypes, *args, sharding=None, vmap_method=None, **kwargs):
    """callback(*args, **kwargs), a Python function of arrays without side effects, called when the program runs.

    result_shape_dtypes: a tree of what has .shape and .dtype (ShapeDtypeStruct), one for each result, which may be NumPy arrays.
    vmap_method: what vmap does. "sequential" calls once per example; "broadcast_all" once, with a batch axis in front of every
    argument; "expand_dims" likewise, with a batch axis of size 1 for arguments that are not mapped; "legacy_vectorized" gives
    those none. `sharding` is accepted and ignored. Raises RuntimeError where results are not as declared; what the callback
    raises reaches the caller. It has no derivative: wrap it in custom_jvp or custom_vjp.

    >>> import numpy as np
    >>> import fgrad, fgrad.numpy as jnp
    >>> f = fgrad.jit(lambda x: fgrad.pure_callback(np.sort, fgrad.ShapeDtypeStruct(x.shape, x.dtype), x))
    >>> f(jnp.array([3., 1., 2.]))
    Array([1., 2., 3.], dtype=float32)
    """
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        raise ValueError(f"vmap_method must be one of {', '.join(map(repr, VMAP_METHODS))} or None, got {vmap_method!r}")
    leaves, flat, avals, out_tree, name = _with_results("pure_callback", callback, args, kwargs, result_shape_dtypes)
    outs = pure_callback_p.bind(*leaves, callback=flat, result_avals=avals, vmap_method=vmap_method, name=name)
    return tree.unflatten(out_tree, outs)


def io_callback(callback, result_shape_dtypes, *args, sharding=None, ordered=False, **kwargs):
    """callback(*args, **kwargs), a Python function that may have side effects: called exactly once each time the program gets there.

    Programs call their callbacks in the order they were traced, ordered or not; an ordered one refuses vmap, an unordered one is
    called once per example. Otherwise as pure_callback.
    """
    leaves, flat, avals, out_tree, name = _with_results("io_callback", callback, args, kwargs, result_shape_dtypes)
    outs = io_callback_p.bind(*leaves, callback=flat, result_avals=avals, ordered=bool(ordered), name=name)
    return tree.unflatten(out_tree, outs)


def debug_callback(callback, *args, ordered=False, **kwargs):
    """callback(*args, **kwargs) for its side effects; its result is ignored. Derivatives pass it by, vmap calls it per example."""
    leaves, call = _flat("debug.callback", callback, args, kwargs)

    def flat(*arrays):
        call(*arrays)
        return ()

    name = getattr(callback, "__name__", type(callback).__name__)
    debug_callback_p.bind(*leaves, callback=flat, result_avals=(), ordered=bool(ordered), name=name)


def effects_barrier():
    """Return when all callbacks have run. They have when their program returns, so there is nothing to wait for."""


__all__ = ["VMAP_METHODS", "debug_callback", "debug_callback_p", "effects_barrier", "io_callback", "pure_callback", "pure_callback_p"]
