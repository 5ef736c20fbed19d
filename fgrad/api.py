"""The transformations as users call them: over pytrees, with JAX's names and signatures."""
import functools
import inspect
import operator

import numpy as np

from fgrad import dtypes, tree
from fgrad.compile.program import compile_jaxpr
from fgrad.config import config
from fgrad.control.jit import contiguous, jit_p
from fgrad.core import (
    Array,
    ShapedArray,
    Tracer,
    context,
    eval_jaxpr,
    eval_trace,
    get_aval,
    is_tracer,
    pp_jaxpr,
    stage,
    to_array,
    using_trace,
)
from fgrad.core.trace import convert_constvars
from fgrad.ops.elementwise import convert_element_type
from fgrad.ops.rules import Linear, Zero, bdim_at_front, full, instantiate, move_axis
from fgrad.ops.shape import reshape, slice_in_dim
from fgrad.transforms.custom import custom_jvp_call, custom_vjp_call
from fgrad.transforms.jvp import jvp_flat
from fgrad.transforms.linearize import linearize_flat
from fgrad.transforms.transpose import backward_pass
from fgrad.transforms.vmap import Axis, batch_flat


def _name(fun):
    return getattr(fun, "__name__", type(fun).__name__)


def _flat(fun, treedef, out_tree):
    """fun as a flat function; the structure of its result goes to out_tree[0]."""
    def flat(*leaves):
        args, kwargs = tree.unflatten(treedef, leaves)
        leaves_out, out_tree[0] = tree.flatten(fun(*args, **kwargs))
        return [_leaf(x, fun) for x in leaves_out]
    return flat


def _leaf(x, fun):
    try:
        get_aval(x)
    except TypeError as e:
        raise TypeError(f"{_name(fun)} returned a value that is not an array: {e}") from None
    return x


def _check_args(leaves, what):
    for x in leaves:
        try:
            get_aval(x)
        except TypeError as e:
            raise TypeError(f"{what}: {e}") from None


def _argnums_tuple(argnums, n, what):
    nums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for i in nums:
        if not -n <= i < n:
            raise ValueError(f"{what}: argnums {argnums} asks for argument {i}, but the function was called with {n} positional arguments")
    return tuple(i % n for i in nums)


# --- make_jaxpr, eval_shape ---------------------------------------------------------------------------------------------

class ShapeDtypeStruct:
    """Shape and dtype of an array, without its values."""

    __slots__ = ("shape", "dtype", "weak_type")

    def __init__(self, shape, dtype, *, weak_type=False, **_):
        self.shape, self.dtype, self.weak_type = tuple(shape), dtypes.canonicalize_dtype(dtype), weak_type

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: ShapedArray(self.shape, self.dtype).size)

    def __repr__(self):
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name})"

    def __eq__(self, other):
        return isinstance(other, ShapeDtypeStruct) and (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self):
        return hash((self.shape, self.dtype))


def _abstract(x):
    if isinstance(x, ShapeDtypeStruct) or (not hasattr(x, "aval") and hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, (np.ndarray, np.generic))):
        return ShapedArray(tuple(x.shape), dtypes.canonicalize_dtype(x.dtype), getattr(x, "weak_type", False))
    return get_aval(x)


def make_jaxpr(fun, static_argnums=(), return_shape=False):
    """A function that returns the jaxpr of `fun` at its arguments.

    >>> import fgrad, fgrad.numpy as jnp
    >>> print(fgrad.make_jaxpr(lambda x: jnp.sin(x) * 2)(1.0))
    { lambda ; a:f32[]. let
        b:f32[] = sin a
        c:f32[] = mul b 2.0:f32[]
      in (c,) }
    """
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    @functools.wraps(fun)
    def wrapped(*args, **kwargs):
        f, args = _bind_static(fun, args, static)
        leaves, treedef = tree.flatten((args, kwargs))
        out_tree = [None]
        closed = stage(_flat(f, treedef, out_tree), [_abstract(x) for x in leaves], _name(fun))
        if return_shape:
            return closed, tree.unflatten(out_tree[0], [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in closed.out_avals])
        return closed
    return wrapped


def _bind_static(fun, args, static):
    if not static:
        return fun, args
    static = {i % len(args) for i in static if -len(args) <= i < len(args)}

    def f(*dynamic, **kwargs):
        it = iter(dynamic)
        return fun(*[a if i in static else next(it) for i, a in enumerate(args)], **kwargs)
    return f, tuple(a for i, a in enumerate(args) if i not in static)


def eval_shape(fun, *args, **kwargs):
    """Shapes and dtypes of fun's result, without computing it: a tree of ShapeDtypeStruct."""
    return make_jaxpr(fun, return_shape=True)(*args, **kwargs)[1]


# --- jit ----------------------------------------------------------------------------------------------------------------

class _Traced:
    __slots__ = ("closed", "out_tree", "consts", "program", "donated", "n_consts", "name")


class Compiled:
    """A compiled program: call it with arguments of the shapes it was compiled for."""

    def __init__(self, jitted, traced):
        self._jitted, self._traced = jitted, traced

    def __call__(self, *args, **kwargs):
        return self._jitted(*args, **kwargs)

    def memory_analysis(self):
        """Bytes of temporaries, arguments and results."""
        program = self._traced.program
        size = lambda avals: sum(a.size * a.dtype.itemsize for a in avals)  # noqa: E731
        return {"temp_bytes": program.arena_bytes, "argument_bytes": size(program.in_avals), "output_bytes": size(program.out_avals)}


class Lowered:
    """A traced function, not yet compiled."""

    def __init__(self, jitted, traced):
        self._jitted, self._traced = jitted, traced

    def as_text(self):
        return pp_jaxpr(self._traced.closed)

    @property
    def jaxpr(self):
        return self._traced.closed

    def compile(self):
        self._jitted._program(self._traced)
        return Compiled(self._jitted, self._traced)


class JitFunction:
    """What jit returns."""

    def __init__(self, fun, static_argnums, static_argnames, donate_argnums, inline=False):
        functools.update_wrapper(self, fun)
        self._fun = fun
        self._static, self._names, self._donate = static_argnums, frozenset(static_argnames), donate_argnums
        self._cache = {}

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args, **kwargs):
        if config.disable_jit:
            return self._fun(*args, **kwargs)
        leaves, traced = self._lookup(args, kwargs)
        if context.trace is eval_trace and traced.program is not None:
            arrays = [x if type(x) is Array and x.strides_or_none is None else contiguous(a) if (a := to_array(x)).strides_or_none is not None else a
                      for x in leaves]
            out = traced.program.run([*traced.consts, *arrays] if traced.consts else arrays)
            if traced.donated:
                for i in traced.donated:
                    arrays[i - traced.n_consts].delete()
        elif context.trace is eval_trace:
            self._program(traced)
            return self(*args, **kwargs)
        else:
            out = jit_p.bind(*traced.consts, *leaves, jaxpr=traced.closed, name=traced.name, donated=())
        return tree.unflatten(traced.out_tree, out)

    def _program(self, traced):
        if traced.program is None:
            traced.consts = [to_array(c) for c in traced.consts]
            traced.program = compile_jaxpr(traced.closed, donated=traced.donated)

    def _lookup(self, args, kwargs):
        """(dynamic leaves, the traced function for them)."""
        static_key = ()
        if self._static or self._names:
            fun, dynamic, kwargs, static_key = self._split_static(args, kwargs)
        else:
            fun, dynamic = self._fun, args
        leaves, treedef = tree.flatten((dynamic, kwargs))
        try:
            key = (treedef, static_key, context.axis_env, config.key(), *[x.aval if type(x) is Array else _aval_key(x) for x in leaves])
        except TypeError:
            _check_args(leaves, f"jit of {_name(self._fun)}")
            raise
        traced = self._cache.get(key)
        if traced is None:
            traced = self._trace(fun, dynamic, leaves, treedef)
            if not any(is_tracer(c) for c in traced.consts):
                self._cache[key] = traced
        return leaves, traced

    def _split_static(self, args, kwargs):
        n = len(args)
        static = {i % n for i in self._static if -n <= i < n}
        values = [(i, args[i]) for i in sorted(static)] + [(k, kwargs[k]) for k in sorted(self._names & kwargs.keys())]
        for where, v in values:
            try:
                hash(v)
            except TypeError:
                raise ValueError(f"Non-hashable static arguments are not supported: argument {where!r} of {_name(self._fun)} is of type "
                                 f"{type(v).__name__}. Static arguments must have a hash and ==.") from None
        fun, dynamic = _bind_static(self._fun, args, tuple(static))
        names = {k: kwargs[k] for k in self._names & kwargs.keys()}
        if names:
            fun = functools.partial(fun, **names)
        return fun, dynamic, {k: v for k, v in kwargs.items() if k not in names}, tuple((w, type(v), v) for w, v in values)

    def _trace(self, fun, args, leaves, treedef):
        _check_args(leaves, f"jit of {_name(self._fun)}")
        out_tree = [None]
        closed = stage(_flat(fun, treedef, out_tree), [get_aval(x) for x in leaves], _name(self._fun))
        out = _Traced()
        out.consts, out.closed = convert_constvars(closed)
        out.out_tree, out.name, out.program = out_tree[0], _name(self._fun), None
        out.n_consts = len(out.consts)
        donated, at = [], out.n_consts
        if self._donate:
            static = {i % max(1, len(args) + len(self._static)) for i in self._static}
            position = 0
            for a in args:
                while position in static:
                    position += 1
                n = len(tree.leaves(a))
                if position in self._donate:
                    donated.extend(range(at, at + n))
                at, position = at + n, position + 1
        out.donated = tuple(donated)
        return out

    def lower(self, *args, **kwargs):
        """The traced program at these arguments, with .as_text() and .compile()."""
        return Lowered(self, self._lookup(args, kwargs)[1])

    def trace(self, *args, **kwargs):
        return self.lower(*args, **kwargs)

    def eval_shape(self, *args, **kwargs):
        return eval_shape(self._fun, *args, **kwargs)

    def clear_cache(self):
        self._cache.clear()

    def _cache_size(self):
        return len(self._cache)


def _aval_key(x):
    t = type(x)
    return t if t is float or t is int or t is bool or t is complex else get_aval(x)


def jit(fun=None, *, static_argnums=(), static_argnames=(), donate_argnums=(), donate_argnames=(), keep_unused=False, inline=False):
    """Compile `fun`: it is traced once per shapes, dtypes and static values of its arguments, and then runs as one program.

    static_argnums, static_argnames: arguments that are Python values, hashed and compared; each value compiles anew.
    donate_argnums: arguments whose memory the results may take over; they must not be used afterwards.

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.jit(lambda x: jnp.sum(x * 2))(jnp.ones(3))
    Array(6., dtype=float32)
    """
    if fun is None:
        return functools.partial(jit, static_argnums=static_argnums, static_argnames=static_argnames, donate_argnums=donate_argnums,
                                 donate_argnames=donate_argnames, keep_unused=keep_unused, inline=inline)
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun!r}")
    nums = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums or ())
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames or ())
    donate = {donate_argnums} if isinstance(donate_argnums, int) else set(donate_argnums or ())
    if nums or names or donate_argnames:
        try:
            params = list(inspect.signature(fun).parameters.values())
        except (TypeError, ValueError):
            params = []
        plain = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        nums = tuple(dict.fromkeys((*nums, *[plain.index(n) for n in names if n in plain])))
        names = tuple(dict.fromkeys((*names, *[plain[i] for i in nums if -len(plain) <= i < len(plain)])))
        for n in (donate_argnames,) if isinstance(donate_argnames, str) else donate_argnames:
            if n in plain:
                donate.add(plain.index(n))
    return JitFunction(fun, nums, names, frozenset(donate))


# --- forward and reverse mode -------------------------------------------------------------------------------------------

def _check_tangent(p, t, path):
    want, got = get_aval(p).tangent_aval(), None
    if isinstance(t, np.ndarray) and t.dtype == dtypes.float0:
        got = ShapedArray(t.shape, dtypes.float0)
    else:
        got = get_aval(t)
    if got.shape != want.shape:
        raise ValueError(f"jvp called with different primal and tangent shapes: got primal shape {want.shape} and tangent shape {got.shape} at {path}")
    if got.dtype != want.dtype and not (got.weak_type and want.dtype != dtypes.float0):
        raise TypeError(f"primal and tangent arguments to jvp do not match; dtypes must be equal, or in case of int/bool primal dtype the tangent "
                        f"dtype must be float0. Got primal dtype {get_aval(p).dtype.name}, so expected tangent dtype {want.dtype}, "
                        f"but got tangent dtype {got.dtype.name} instead, at {path}")
    if want.dtype == dtypes.float0:
        return Zero(want)
    return t if got.dtype == want.dtype and isinstance(t, (Array, Tracer)) else convert_element_type(t, want.dtype)


def _float0_zeros(aval):
    return np.zeros(aval.shape, dtypes.float0)


def _tangent_out(t):
    if type(t) is Zero:
        return _float0_zeros(t.aval) if t.aval.dtype == dtypes.float0 else instantiate(t)
    return t


def jvp(fun, primals, tangents, has_aux=False):
    """(fun(*primals), directional derivative along tangents), with primals and tangents tuples of matching pytrees.

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.jvp(jnp.sin, (0.0,), (1.0,))
    (Array(0., dtype=float32, weak_type=True), Array(1., dtype=float32, weak_type=True))
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(f"primal and tangent arguments to jvp must be tuples or lists; found {type(primals).__name__} and {type(tangents).__name__}.")
    p_leaves, treedef = tree.flatten((tuple(primals), {}))
    t_leaves, t_def = tree.flatten((tuple(tangents), {}))
    if treedef != t_def:
        raise TypeError(f"primal and tangent arguments to jvp must have the same tree structure; primals have {treedef} whereas tangents have {t_def}")
    _check_args(p_leaves, f"jvp of {_name(fun)}")
    paths = [tree.keystr(path[1:]) for path, _ in tree.leaves_with_path((tuple(primals), {}))]
    t_leaves = [_check_tangent(p, t, path) for p, t, path in zip(p_leaves, t_leaves, paths)]
    out_tree, aux = [None], [None]
    outs, out_tangents = jvp_flat(_with_aux(fun, treedef, out_tree, aux, has_aux), p_leaves, t_leaves)
    result = tree.unflatten(out_tree[0], _arrays(outs)), tree.unflatten(out_tree[0], [_tangent_out(t) for t in out_tangents])
    return (*result, _strip_aux(aux[0])) if has_aux else result


def _arrays(outs):
    return [x if isinstance(x, (Array, Tracer)) else to_array(x) for x in outs]


def _with_aux(fun, treedef, out_tree, aux, has_aux):
    if not has_aux:
        return _flat(fun, treedef, out_tree)

    def main(*args, **kwargs):
        pair = fun(*args, **kwargs)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"expected {_name(fun)} with has_aux=True to return a pair (output, auxiliary data), got {type(pair).__name__}")
        aux[0] = pair[1]
        return pair[0]
    return _flat(main, treedef, out_tree)


def _strip_aux(aux):
    """Auxiliary output holds tracers of the transformation: give their primals."""
    def strip(x):
        while isinstance(x, Tracer) and x._trace.done and hasattr(x, "primal"):
            x = x.primal
        return x
    return tree.map(strip, aux)


def _linearize(fun, primals, has_aux=False):
    leaves, treedef = tree.flatten((tuple(primals), {}))
    _check_args(leaves, f"derivative of {_name(fun)}")
    out_tree, aux = [None], [None]
    outs, linear, out_avals, nonzero = linearize_flat(_with_aux(fun, treedef, out_tree, aux, has_aux), leaves)
    return leaves, treedef, outs, out_tree[0], linear, out_avals, nonzero, _strip_aux(aux[0])


def linearize(fun, *primals, has_aux=False):
    """(fun(*primals), a function of tangents): the derivative at a point, computed once and applied many times."""
    leaves, treedef, outs, out_tree, linear, out_avals, nonzero, aux = _linearize(fun, primals, has_aux)
    cell = [linear]

    def f_jvp(*tangents):
        t_leaves, t_def = tree.flatten((tuple(tangents), {}))
        if t_def != treedef:
            raise TypeError(f"linearized function called with tangents of structure {t_def}, expected {treedef}")
        t_leaves = [_check_tangent(p, t, "") for p, t in zip(leaves, t_leaves)]
        given = [instantiate(t) for p, t in zip(leaves, t_leaves) if dtypes.is_inexact(get_aval(p).dtype)]
        live = iter(_call_linear(cell, given))
        return tree.unflatten(out_tree, [next(live) if nz else _tangent_out(Zero(a)) for nz, a in zip(nonzero, out_avals)])

    result = tree.unflatten(out_tree, _arrays(outs)), f_jvp
    return (*result, aux) if has_aux else result


def _call_linear(cell, args):
    """Apply a linear jaxpr as one program."""
    consts, closed = convert_constvars(cell[0])
    if not closed.jaxpr.outvars:
        return []
    return jit_p.bind(*consts, *args, jaxpr=closed, name="linearized", donated=())


def _pullback(leaves, linear, nonzero, out_avals, cts):
    """Cotangent of each leaf (Zero where there is none)."""
    live = [ct for ct, nz in zip(cts, nonzero) if nz]
    jaxpr = linear.jaxpr
    got = iter(backward_pass(jaxpr, linear.consts, [Linear(v.aval) for v in jaxpr.invars], live))
    return [next(got) if dtypes.is_inexact(get_aval(p).dtype) else Zero(get_aval(p).tangent_aval()) for p in leaves]


def vjp(fun, *primals, has_aux=False, reduce_axes=()):
    """(fun(*primals), pullback): pullback(ct) gives a tuple of cotangents, one per primal; float0 for integer primals.

    >>> import fgrad, fgrad.numpy as jnp
    >>> y, pullback = fgrad.vjp(lambda x: x ** 2, 3.0)
    >>> float(pullback(1.0)[0])
    6.0
    """
    leaves, treedef, outs, out_tree, linear, out_avals, nonzero, aux = _linearize(fun, primals, has_aux)

    def pullback(ct):
        ct_leaves, ct_def = tree.flatten(ct)
        if ct_def != out_tree:
            raise ValueError(f"unexpected tree structure of argument to vjp function: got {ct_def}, but expected to match {out_tree}")
        cts = []
        for x, a in zip(ct_leaves, out_avals):
            if a.dtype == dtypes.float0:
                cts.append(Zero(a))
                continue
            got = get_aval(x)
            if got.shape != a.shape:
                raise ValueError(f"Shape of cotangent input to vjp pullback function {got.shape} must be the same as the shape of "
                                 f"corresponding primal output {a.shape}.")
            if got.dtype != a.dtype and not got.weak_type:
                raise TypeError(f"Type of cotangent input to vjp pullback function ({got.dtype.name}) is not the expected tangent type ({a.dtype.name}) "
                                "of corresponding primal output.")
            cts.append(x if got.dtype == a.dtype and isinstance(x, (Array, Tracer)) else convert_element_type(x, a.dtype))
        return tree.unflatten(treedef, [_tangent_out(t) for t in _pullback(leaves, linear, nonzero, out_avals, cts)])[0]

    result = tree.unflatten(out_tree, _arrays(outs)), pullback
    return (*result, aux) if has_aux else result


def value_and_grad(fun, argnums=0, has_aux=False, holomorphic=False, allow_int=False):
    """A function that gives (fun's value, its gradient in the arguments `argnums`). fun must return a real scalar.

    Raises TypeError for a non-scalar result or an integer argument (unless allow_int).
    """
    @functools.wraps(fun)
    def wrapped(*args, **kwargs):
        nums = _argnums_tuple(argnums, len(args), f"grad of {_name(fun)}")
        chosen = [args[i] for i in nums]
        for i, a in zip(nums, chosen):
            for path, x in tree.leaves_with_path(a):
                _check_grad_input(x, f"argument {i}{tree.keystr(path)}", holomorphic, allow_int)

        def partial(*dynamic):
            full_args = list(args)
            for i, d in zip(nums, dynamic):
                full_args[i] = d
            return fun(*full_args, **kwargs)
        functools.update_wrapper(partial, fun, updated=())

        leaves, treedef, outs, out_tree, linear, out_avals, nonzero, aux = _linearize(partial, chosen, has_aux)
        _check_scalar(outs, out_tree, fun, holomorphic)
        ct = full((), 1, get_aval(outs[0]).dtype)
        grads = tree.unflatten(treedef, [_tangent_out(t) for t in _pullback(leaves, linear, nonzero, out_avals, [ct])])[0]
        value = tree.unflatten(out_tree, _arrays(outs))
        grads = grads[0] if isinstance(argnums, int) else grads
        return ((value, aux) if has_aux else value), grads
    return wrapped


def _check_grad_input(x, where, holomorphic, allow_int):
    try:
        dtype = get_aval(x).dtype
    except TypeError as e:
        raise TypeError(f"grad: {where}: {e}") from None
    if holomorphic and not dtypes.is_complex(dtype):
        raise TypeError(f"grad with holomorphic=True requires inputs with complex dtype, but got {dtype.name} ({where}).")
    if not holomorphic and dtypes.is_complex(dtype):
        return
    if not dtypes.is_inexact(dtype) and not allow_int:
        raise TypeError(f"grad requires real- or complex-valued inputs (input dtype that is a sub-dtype of np.inexact), but got {dtype.name} ({where}). "
                        "If you want to use Boolean- or integer-valued inputs, use vjp or set allow_int to True.")


def _check_scalar(outs, out_tree, fun, holomorphic):
    if len(outs) != 1 or out_tree != tree.structure(0):
        raise TypeError(f"Gradient only defined for scalar-output functions. Output of {_name(fun)} has structure {out_tree}.")
    aval = get_aval(outs[0])
    if aval.shape != ():
        raise TypeError(f"Gradient only defined for scalar-output functions. Output had shape: {aval.shape}.")
    if holomorphic:
        if not dtypes.is_complex(aval.dtype):
            raise TypeError(f"grad with holomorphic=True requires outputs with a dtype that is a sub-dtype of np.complexfloating, but got {aval.dtype.name}.")
    elif not dtypes.is_float(aval.dtype):
        raise TypeError(f"grad requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got {aval.dtype.name}. "
                        "For holomorphic differentiation, pass holomorphic=True.")


def grad(fun, argnums=0, has_aux=False, holomorphic=False, allow_int=False):
    """The gradient of a scalar function, in the arguments `argnums`; (gradient, aux) with has_aux.

    >>> import fgrad
    >>> float(fgrad.grad(lambda x: x ** 3)(2.0))
    12.0
    """
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)

    @functools.wraps(fun)
    def wrapped(*args, **kwargs):
        value, g = both(*args, **kwargs)
        return (g, value[1]) if has_aux else g
    return wrapped


def linear_transpose(fun, *primals):
    """The transpose of a function that is linear: takes a cotangent of its result, gives cotangents of its arguments."""
    leaves, treedef = tree.flatten((tuple(primals), {}))
    out_tree = [None]
    closed = stage(_flat(fun, treedef, out_tree), [_abstract(x) for x in leaves], _name(fun))

    def transposed(ct):
        cts, ct_def = tree.flatten(ct)
        if ct_def != out_tree[0]:
            raise TypeError(f"cotangent tree does not match function output, expected {out_tree[0]} but got {ct_def}")
        out = backward_pass(closed.jaxpr, closed.consts, [Linear(a) for a in closed.in_avals], cts)
        return tree.unflatten(treedef, [_tangent_out(t) for t in out])[0]
    return transposed


# --- vmap ---------------------------------------------------------------------------------------------------------------

def _axes_leaves(axes, value, what):
    """The axis of each leaf of `value`, from a tree prefix of ints and None."""
    try:
        return tree.broadcast_prefix(_Axes.wrap(axes), value, is_leaf=lambda x: isinstance(x, _Axes) or x is None)
    except ValueError as e:
        raise ValueError(f"vmap {what} specification must be a tree prefix of the corresponding value, got specification {axes} "
                         f"for value tree structure {tree.structure(value)}: {e}") from None


class _Axes:
    """A leaf that stands for an int or None, so that None is a leaf in axis specifications."""

    __slots__ = ("axis",)

    def __init__(self, axis):
        self.axis = axis

    @staticmethod
    def wrap(axes):
        return tree.map(_Axes, axes, is_leaf=lambda x: x is None)


def vmap(fun, in_axes=0, out_axes=0, axis_name=None, axis_size=None, spmd_axis_name=None):
    """`fun` mapped over an axis of its arguments. in_axes, out_axes: ints or None, or pytrees of them (prefixes).

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.vmap(jnp.dot, in_axes=(0, None))(jnp.ones((3, 2)), jnp.ones(2))
    Array([2., 2., 2.], dtype=float32)
    """
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)

    @functools.wraps(fun)
    def wrapped(*args, **kwargs):
        leaves, treedef = tree.flatten((args, kwargs))
        _check_args(leaves, f"vmap of {_name(fun)}")
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(f"vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments passed to the function, "
                             f"but got len(in_axes)={len(in_axes)}, len(args)={len(args)}")
        axes = [a.axis for a in _axes_leaves(in_axes, args, "in_axes")] + [0] * len(tree.leaves(kwargs))
        dims, size = _map_sizes(leaves, axes, axis_size, fun)
        out_tree = [None]
        outs, out_dims = batch_flat(_flat(fun, treedef, out_tree), Axis(size, axis_name), dims, leaves)
        result = tree.unflatten(out_tree[0], [_Slot(i) for i in range(len(outs))])
        want = [a.axis for a in _axes_leaves(out_axes, result, "out_axes")]
        final = []
        for o, d, w in zip(outs, out_dims, want):
            if w is None:
                if d is not None:
                    raise ValueError("vmap has mapped output but out_axes is None")
                final.append(o)
            else:
                front = bdim_at_front(o, d, size)
                final.append(move_axis(front, 0, w))
        return tree.unflatten(out_tree[0], _arrays(final))
    return wrapped


class _Slot:
    __slots__ = ("i",)

    def __init__(self, i):
        self.i = i


def _map_sizes(leaves, axes, axis_size, fun):
    dims, sizes = [], {}
    for x, a in zip(leaves, axes):
        if a is None:
            dims.append(None)
            continue
        shape = get_aval(x).shape
        a = operator.index(a)
        if not -len(shape) <= a < len(shape):
            raise ValueError(f"vmap was requested to map its argument along axis {a}, which implies that its rank should be at least "
                             f"{a + 1 if a >= 0 else -a}, but is only {len(shape)} (its shape is {shape})")
        dims.append(a % len(shape))
        sizes.setdefault(shape[a], shape)
    if axis_size is not None:
        sizes.setdefault(axis_size, None)
    if not sizes:
        raise ValueError(f"vmap of {_name(fun)} must have at least one non-None value in in_axes, or axis_size")
    if len(sizes) > 1:
        raise ValueError(f"vmap got inconsistent sizes for array axes to be mapped: {sorted(sizes)} (argument shapes {[get_aval(x).shape for x in leaves]})")
    return dims, next(iter(sizes))


# --- Jacobians ----------------------------------------------------------------------------------------------------------

def _basis(leaves):
    """One-hot rows over all elements of the leaves: a list of arrays (total, *shape)."""
    total = sum(get_aval(x).size for x in leaves)
    out, at = [], 0
    for x in leaves:
        a = get_aval(x)
        eye = np.zeros((total, a.size), a.dtype)
        eye[range(at, at + a.size), range(a.size)] = 1
        out.append(to_array(eye.reshape(total, *a.shape)))
        at += a.size
    return out


def _split_rows(x, shapes, axis, treedef):
    """Cut axis `axis` of x into the leaves it enumerates, each with its own shape there."""
    out, at, shape = [], 0, get_aval(x).shape
    axis %= len(shape)
    for s in shapes:
        n = int(np.prod(s))
        piece = slice_in_dim(x, at, at + n, axis=axis)
        out.append(reshape(piece, (*shape[:axis], *s, *shape[axis + 1:])))
        at += n
    return tree.unflatten(treedef, out)


def _partial_args(fun, args, kwargs, argnums):
    nums = _argnums_tuple(argnums, len(args), f"jacobian of {_name(fun)}")

    def f(*dynamic):
        full_args = list(args)
        for i, d in zip(nums, dynamic):
            full_args[i] = d
        return fun(*full_args, **kwargs)
    return f, tuple(args[i] for i in nums)


def jacfwd(fun, argnums=0, has_aux=False, holomorphic=False):
    """The Jacobian by forward mode, one column per input element: leaf shape is output shape + input shape."""
    @functools.wraps(fun)
    def wrapped(*args, **kwargs):
        f, dynamic = _partial_args(fun, args, kwargs, argnums)
        leaves, treedef = tree.flatten(dynamic)
        for x in leaves:
            _check_grad_input(x, "an argument of jacfwd", holomorphic, False)
        push = lambda *t: jvp(f, dynamic, tree.unflatten(treedef, t), has_aux=has_aux)  # noqa: E731
        if has_aux:
            y, jac, aux = vmap(push, out_axes=(None, -1, None))(*_basis(leaves))
        else:
            y, jac = vmap(push, out_axes=(None, -1))(*_basis(leaves))
        shapes = [get_aval(x).shape for x in leaves]
        out = tree.map(lambda x: _split_rows(x, shapes, -1, treedef), jac)
        out = tree.map(lambda j: j[0], out, is_leaf=lambda j: isinstance(j, tuple) and len(j) == len(dynamic) and tree.structure(j) == treedef) \
            if isinstance(argnums, int) else out
        return (out, aux) if has_aux else out
    return wrapped


def jacrev(fun, argnums=0, has_aux=False, holomorphic=False, allow_int=False):
    """The Jacobian by reverse mode, one row per output element: leaf shape is output shape + input shape."""
    @functools.wraps(fun)
    def wrapped(*args, **kwargs):
        f, dynamic = _partial_args(fun, args, kwargs, argnums)
        for x in tree.leaves(dynamic):
            _check_grad_input(x, "an argument of jacrev", holomorphic, allow_int)
        res = vjp(f, *dynamic, has_aux=has_aux)
        y, pullback = res[:2]
        leaves, treedef = tree.flatten(y)
        shapes = [get_aval(x).shape for x in leaves]
        rows = vmap(lambda *ct: pullback(tree.unflatten(treedef, ct)))(*_basis(leaves))
        rows = rows[0] if isinstance(argnums, int) else rows
        in_leaves, in_def = tree.flatten(rows)
        columns = [tree.leaves(_split_rows(x, shapes, 0, treedef)) for x in in_leaves]
        out = tree.unflatten(treedef, [_Slot(i) for i in range(len(leaves))])
        out = tree.map(lambda s: tree.unflatten(in_def, [c[s.i] for c in columns]), out)
        return (out, res[2]) if has_aux else out
    return wrapped


jacobian = jacrev


def hessian(fun, argnums=0, has_aux=False, holomorphic=False):
    """The Hessian: forward mode over reverse mode."""
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)


# --- custom rules -------------------------------------------------------------------------------------------------------

def _resolve(fun, args, kwargs):
    """Positional arguments from a call with keywords and defaults."""
    try:
        bound = inspect.signature(fun).bind(*args, **kwargs)
    except (TypeError, ValueError):
        if kwargs:
            raise
        return args
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(f"keyword arguments {sorted(bound.kwargs)} of {_name(fun)} could not be resolved to positions")
    return bound.args


class custom_jvp:
    """A function with a derivative rule of its own: f.defjvp(rule), rule(primals, tangents) -> (out, tangent_out).

    >>> import fgrad, fgrad.numpy as jnp
    >>> @fgrad.custom_jvp
    ... def f(x):
    ...     return jnp.sin(x)
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return f(x), 3.0 * t
    >>> float(fgrad.grad(f)(1.0))
    3.0
    """

    def __init__(self, fun, nondiff_argnums=(), nondiff_argnames=()):
        functools.update_wrapper(self, fun)
        self.fun, self.nondiff_argnums, self.jvp = fun, tuple(nondiff_argnums), None

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def defjvp(self, jvp, symbolic_zeros=False):
        """Set the rule; with nondiff_argnums it is called rule(*nondiff, primals, tangents)."""
        self.jvp = jvp
        return jvp

    def defjvps(self, *jvps):
        """One rule per argument: rule(tangent, out, *primals), or None for zero."""
        def rule(primals, tangents):
            out = self(*primals)
            terms = [r(t, out, *primals) for r, t in zip(jvps, tangents) if r is not None]
            total = terms[0] if terms else tree.map(lambda o: instantiate(Zero(get_aval(o).tangent_aval())), out)
            for t in terms[1:]:
                total = tree.map(operator.add, total, t)
            return out, total
        self.defjvp(rule)

    def __call__(self, *args, **kwargs):
        if self.jvp is None:
            raise AttributeError(f"No JVP defined for custom_jvp function {_name(self.fun)} using defjvp.")
        args = _resolve(self.fun, args, kwargs)
        nondiff = tuple(i % len(args) for i in self.nondiff_argnums)
        fixed = [args[i] for i in nondiff]
        dynamic = tuple(a for i, a in enumerate(args) if i not in nondiff)
        leaves, treedef = tree.flatten((dynamic, {}))
        out_tree = [None]

        def base(*dyn):
            it = iter(dyn)
            fx = dict(zip(nondiff, fixed))
            return self.fun(*[fx[i] if i in fx else next(it) for i in range(len(args))])

        def flat_jvp(primals, tangents):
            p = tree.unflatten(treedef, primals)[0]
            t = tree.unflatten(treedef, [_tangent_out(x) for x in tangents])[0]
            out, t_out = self.jvp(*fixed, p, t)
            outs, tree_out = tree.flatten(out)
            ts, t_tree = tree.flatten(t_out)
            if t_tree != tree_out:
                raise TypeError(f"Custom JVP rule {_name(self.jvp)} for function {_name(self.fun)} must produce primal and tangent outputs with equal "
                                f"container (pytree) structures, but got {tree_out} and {t_tree} respectively.")
            out_tree[0] = tree_out
            return outs, [_rule_tangent(o, x, self) for o, x in zip(outs, ts)]

        outs = custom_jvp_call(_flat(lambda *a: base(*a), treedef, out_tree), flat_jvp, leaves, _name(self.fun))
        return tree.unflatten(out_tree[0], outs)


def _rule_tangent(out, t, rule):
    want = get_aval(out).tangent_aval()
    if want.dtype == dtypes.float0:
        return Zero(want)
    got = get_aval(t)
    if got.shape != want.shape:
        raise TypeError(f"Custom JVP rule for function {_name(rule.fun)} must produce primal and tangent outputs with corresponding shapes, "
                        f"but got {want.short()} and {got.short()}.")
    return convert_element_type(t, want.dtype)


class custom_vjp:
    """A function with a reverse rule of its own: f.defvjp(fwd, bwd); fwd(*args) -> (out, residuals),
    bwd(residuals, ct) -> a tuple of cotangents. With nondiff_argnums, bwd takes those arguments first."""

    def __init__(self, fun, nondiff_argnums=(), nondiff_argnames=()):
        functools.update_wrapper(self, fun)
        self.fun, self.nondiff_argnums, self.fwd, self.bwd = fun, tuple(nondiff_argnums), None, None

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def defvjp(self, fwd, bwd, symbolic_zeros=False, optimize_remat=False):
        self.fwd, self.bwd = fwd, bwd

    def __call__(self, *args, **kwargs):
        if self.fwd is None:
            raise AttributeError(f"No VJP defined for custom_vjp function {_name(self.fun)} using defvjp.")
        args = _resolve(self.fun, args, kwargs)
        nondiff = tuple(i % len(args) for i in self.nondiff_argnums)
        fixed = [args[i] for i in nondiff]
        dynamic = tuple(a for i, a in enumerate(args) if i not in nondiff)
        leaves, treedef = tree.flatten((dynamic, {}))
        in_avals = [get_aval(x) for x in leaves]
        out_tree, res_tree = [None], [None]

        def call(f, dyn):
            it, fx = iter(dyn), dict(zip(nondiff, fixed))
            return f(*[fx[i] if i in fx else next(it) for i in range(len(args))])

        def flat_fwd(*xs):
            pair = call(self.fwd, tree.unflatten(treedef, xs)[0])
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(f"Custom VJP fwd rule {_name(self.fwd)} for function {_name(self.fun)} must produce a pair (out, residuals), got {type(pair).__name__}.")
            outs, out_tree[0] = tree.flatten(pair[0])
            res, res_tree[0] = tree.flatten(pair[1])
            return outs, res

        def flat_bwd(res, cts):
            cts = [_float0_zeros(ct.aval) if type(ct) is Zero else ct for ct in cts]
            out = self.bwd(*fixed, tree.unflatten(res_tree[0], res), tree.unflatten(out_tree[0], cts))
            return self._cotangents(out, dynamic, treedef, in_avals)

        outs = custom_vjp_call(_flat(lambda *a: call(self.fun, a), treedef, out_tree), flat_fwd, flat_bwd, leaves, _name(self.fun))
        return tree.unflatten(out_tree[0], outs)

    def _cotangents(self, out, dynamic, treedef, in_avals):
        """The rule's cotangents as leaves: None stands for zeros of a whole argument."""
        if isinstance(out, list):
            out = tuple(out)
        if not isinstance(out, tuple) or len(out) != len(dynamic):
            raise TypeError(f"Custom VJP bwd rule {_name(self.bwd)} for {_name(self.fun)} must produce a tuple of {len(dynamic)} cotangents, one per "
                            f"differentiable argument, got {type(out).__name__}" + (f" of length {len(out)}" if isinstance(out, tuple) else ""))
        cts, avals = [], iter(in_avals)
        for i, (ct, arg) in enumerate(zip(out, dynamic)):
            n = tree.structure(arg).num_leaves
            if ct is None:
                cts += [Zero(next(avals).tangent_aval()) for _ in range(n)]
                continue
            leaves, got = tree.flatten(ct, is_leaf=lambda x: x is None)
            if len(leaves) != n:
                raise TypeError(f"Custom VJP bwd rule {_name(self.bwd)}: the cotangent of argument {i} has structure {got}, expected {tree.structure(arg)}")
            for x in leaves:
                want = next(avals).tangent_aval()
                if x is None or want.dtype == dtypes.float0:
                    cts.append(Zero(want))
                    continue
                if get_aval(x).shape != want.shape:
                    raise ValueError(f"Custom VJP bwd rule {_name(self.bwd)} produced a cotangent of shape {get_aval(x).shape} for argument {i} of shape {want.shape}")
                cts.append(convert_element_type(x, want.dtype))
        return cts


def closure_convert(fun, *example_args):
    """(pure function, list of the inexact arrays that `fun` closes over): converted(*args, *consts) == fun(*args)."""
    leaves, treedef = tree.flatten((example_args, {}))
    out_tree = [None]
    closed = stage(_flat(fun, treedef, out_tree), [_abstract(x) for x in leaves], _name(fun))
    hoist = [is_tracer(c) and dtypes.is_inexact(c.dtype) for c in closed.consts]
    hoisted = [c for c, h in zip(closed.consts, hoist) if h]

    def converted(*args_and_consts):
        n = len(args_and_consts) - len(hoisted)
        args, given = args_and_consts[:n], iter(args_and_consts[n:])
        consts = [next(given) if h else c for c, h in zip(closed.consts, hoist)]
        xs = tree.flatten((args, {}))[0]
        return tree.unflatten(out_tree[0], eval_jaxpr(closed.jaxpr, consts, *xs))
    return converted, hoisted


def block_until_ready(x):
    """x: programs have run by the time their results exist."""
    return x


def device_get(x):
    """A pytree's arrays as NumPy arrays."""
    return tree.map(np.asarray, x)


def device_put(x, device=None):
    """A pytree's leaves as arrays."""
    return tree.map(lambda v: v if isinstance(v, Array) else to_array(v), x)


def ensure_compile_time_eval():
    """A context in which operations on concrete values run at once, even while tracing."""
    return using_trace(eval_trace)

