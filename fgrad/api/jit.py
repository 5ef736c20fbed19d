"""jit: one traced and compiled program per shapes, dtypes and static values of the arguments."""

import functools
import inspect
import logging
import sys
import warnings
import weakref
from collections import Counter

from fgrad import array_tree as tree
from fgrad._kernels.creation import forget_made
from fgrad._kernels.dispatch import Entry, JitDispatch, install
from fgrad._kernels.operands import install_contiguous, settled
from fgrad._kernels.window import install_window
from fgrad.api.backward import clear_backward_cache
from fgrad.api.common import LEAF, ShapeDtypeStruct, abstractify, bind_static, check_args, flat_fun, fun_name
from fgrad.api.device import check_device, check_sharding, device_put
from fgrad.api.stages import Traced
from fgrad.api.staging import eval_shape
from fgrad.compile.bodies import body_of
from fgrad.compile.eager import clear_eager_caches
from fgrad.compile.program import compile_jaxpr
from fgrad.config import config
from fgrad.control.common import type_text
from fgrad.control.jit import contiguous, few_plain, jit_p
from fgrad.core import Array, ShapedArray, StageTrace, context, eval_jaxpr, eval_trace, get_aval, is_tracer, stage, to_array
from fgrad.core.context import paused_gc
from fgrad.core.eager_calls import is_recording, recorded_call, recorded_leaves
from fgrad.core.float0 import flatten_live, is_float0
from fgrad.core.jaxpr import clear_interned, wraps
from fgrad.core.kept import KEEPING, forget_staged, kept_with
from fgrad.core.refs import any_refs, bound, held, opened, refs_in, values_of, watching, write_back
from fgrad.core.sharding import PartitionSpec
from fgrad.core.trace import convert_constvars
from fgrad.monitoring import timed
from fgrad.transforms.backward import live_eqns
from fgrad.tree import array_walk

_LOG = logging.getLogger("fgrad")
_all_programs: weakref.WeakSet = weakref.WeakSet()  # for clear_caches
_MOST = 4096  # traced signatures of one function, as in JAX
install(array_walk, Array)
install_contiguous(contiguous)
install_window(Array, ShapedArray)


class _Traced:
    __slots__ = ("closed", "in_tree", "out_tree", "consts", "program", "donated", "n_consts", "name", "_body")

    def entry(self, leaves):
        """The compiled program and how to wrap its results, for leaves of the signature it was compiled for."""
        out_tree = self.out_tree
        flat_tuple = out_tree == tree.structure((0,) * out_tree.num_leaves)
        keep = [get_aval(x) for x in leaves]
        return Entry(self.program, self.consts, self.donated, None if out_tree == LEAF else out_tree, flat_tuple, keep)

    def body(self):
        """How a recording writes down a call as one operation, as body_of gives it, or None."""
        if self._body is False:
            whole = not self.consts and not self.donated and few_plain(self.closed)
            self._body = body_of(self.closed) if whole else None
        return self._body


class _Programs:
    """What was traced and compiled of one function under the same options."""

    def __init__(self):
        self.entries: dict = {}
        self.cache: dict = {}
        self.bodies: dict = {}  # see recorded_call
        self.refs: tuple = ()  # the mutable arrays of outside that the function was seen to touch
        self.of_values = None  # the jitted function that calls with mutable arrays go to
        _all_programs.add(self)

    def clear(self):
        self.entries.clear()
        self.cache.clear()
        self.bodies.clear()


def _programs_of(fun, options):
    """The programs that all jitted forms of a function share: jit(f)(x) in a loop traces once."""
    kept = kept_with(fun)
    if kept is None:
        return _Programs()
    found = kept.programs.get(options)
    if found is None:
        found = kept.programs[options] = _Programs()
    return found


class JitFunction(JitDispatch):
    """What jit returns."""

    _inline = False
    _kept = None  # not the function's: see __init__

    def __init__(self, fun, static_argnums, static_argnames, donate_argnums, donate_argnames, programs):
        super().__init__(tuple(static_argnums), frozenset(static_argnames), programs.entries)
        functools.update_wrapper(self, fun, updated=())
        if inspect.isfunction(fun):
            # Not the attributes of a callable object, nor those a function has from one that it wraps: they would hide methods.
            self.__dict__.update({k: v for k, v in fun.__dict__.items() if not hasattr(type(self), k)})
        self._fun = fun
        self._static, self._names = static_argnums, frozenset(static_argnames)
        self._donate, self._donate_names = donate_argnums, frozenset(donate_argnames)
        self._programs, self._cache = programs, programs.cache
        self._specs: list = []  # (what, shardings) that name axes of the mesh in whose context the function is called

    @property
    def __signature__(self):
        return inspect.signature(self._fun)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self):
        """By name where a module has it, else the function and its options: programs stay behind."""
        name, module = getattr(self, "__qualname__", ""), sys.modules.get(getattr(self, "__module__", "__main__"))
        if module is not None and module.__name__ != "__main__" and getattr(module, name, None) is self:
            return name
        donate = self._donate, self._donate_names
        return _jitted, (type(self), self._fun, (self._static, tuple(sorted(self._names)), *donate), self._specs, self._out_shardings)

    def _prepare(self, args, kwargs, leaves):
        """Traced and compiled; None where settings ask for `_slow`."""
        if config.disable_jit or config.debug_nans or config.debug_infs:
            return None
        if any(map(is_float0, leaves)):  # they are no operands of a program
            return None
        with paused_gc():
            traced = None if self._takes_refs(args, kwargs) else self._lookup(args, kwargs)[1]
            if traced is None:
                return None
            self._program(traced)
        return traced.entry(leaves)

    def _slow(self, args, kwargs):
        """The call as one bind: while tracing, and with settings that look into the call."""
        if config.disable_jit:
            return self._fun(*args, **kwargs)
        out = recorded_call(self, args, kwargs, self._programs.bodies)
        if out is not None:
            return out
        leaves, traced = ((), None) if self._takes_refs(args, kwargs) else self._lookup(args, kwargs)
        if traced is None:
            return self._call_of_refs(args, kwargs)
        if is_recording() and traced.body() is not None:
            out = recorded_leaves(self._run, traced, leaves)
            if out is not None:
                return tree.unflatten(traced.out_tree, out)
        if self._inline and type(context.trace) is StageTrace:
            return tree.unflatten(traced.out_tree, eval_jaxpr(traced.closed.jaxpr, traced.closed.consts, *traced.consts, *leaves))
        donated = traced.donated if context.trace is eval_trace else ()
        out = jit_p.bind(*traced.consts, *leaves, jaxpr=traced.closed, name=traced.name, donated=donated)
        return tree.unflatten(traced.out_tree, out)

    def _body(self, arrays):
        """(how a recording writes down a call on these arrays as one operation, their avals), or None."""
        if self._static or self._names or self._donate:
            return None
        _, traced = ((), None) if self._programs.refs else self._lookup(tuple(arrays), {})
        if traced is None or traced.out_tree != LEAF or traced.body() is None:
            return None
        return traced.body(), traced.closed.in_avals

    def _run(self, traced, arrays):
        """The results of a traced call without constants on concrete arrays."""
        self._program(traced)
        return traced.program.run([a if a.strides_or_none is None else settled(a) for a in arrays])

    def _takes_refs(self, args, kwargs):
        return bool(self._programs.refs) or (any_refs() and bool(refs_in(self._dynamic(args, kwargs))))

    def _dynamic(self, args, kwargs):
        """The arguments that are not static."""
        if not self._static and not self._names:
            return args, kwargs
        static = {i % len(args) for i in self._static if -len(args) <= i < len(args)}
        return [a for i, a in enumerate(args) if i not in static], {k: v for k, v in kwargs.items() if k not in self._names}

    def _call_of_refs(self, args, kwargs):
        """The call of a function that reads and writes mutable arrays, as a call of one of their values that gives the new ones."""
        programs = self._programs
        refs, given = programs.refs, refs_in(self._dynamic(args, kwargs))
        for i, r in enumerate(given):
            if r in refs or r in given[:i]:
                also = "also closed over" if r in refs else "passed twice"
                raise ValueError(f"only one reference to a mutable array may be passed to jit of {fun_name(self._fun)}: {r.aval} is {also}")
        if programs.of_values is None:
            shift = lambda nums: [i + 1 if i >= 0 else i for i in nums]
            donate = frozenset(shift(self._donate)), self._donate_names
            programs.of_values = JitFunction(
                self._function_of_values(refs, programs), shift(self._static), self._names, *donate, _Programs()
            )
        out, values, new = programs.of_values(
            values_of(refs), *held(args, programs), **held(kwargs, programs)
        )  # another jit(fun) has them too
        write_back(refs, values)
        write_back(given, new)
        return out

    def _function_of_values(self, refs, opener):
        @wraps(self._fun)
        def fun(values, *args, **kwargs):
            with bound(refs, values) as frame:
                inside: list = []
                args, kwargs = opened(args, opener, inside), opened(kwargs, opener, inside)
                before = values_of(inside)
                out = self._fun(*args, **kwargs)
                return out, frame.results(), [v if v is not b else None for v, b in zip(values_of(inside), before)]

        return fun

    def _program(self, traced):
        if traced.program is None:
            # A captured view would stop to be one where another call settles it: the program takes contiguous arrays only.
            arrays = [to_array(c) for c in traced.consts]
            traced.consts = [c if c.strides_or_none is None else settled(c) for c in arrays]
            with timed("/jax/core/compile/backend_compile_duration", fun_name=f"jit({traced.name})"):
                traced.program = compile_jaxpr(traced.closed, donated=traced.donated, stored=traced.consts)

    def _lookup(self, args, kwargs):
        """(dynamic leaves, the traced function for them)."""
        fun, dynamic, static_key = self._fun, args, ()
        if self._static or self._names:
            fun = self._bind_static(args, kwargs)
            dynamic, kwargs, static_key = self._split(args, kwargs)
        leaves, treedef = flatten_live((dynamic, kwargs))
        try:
            key = (treedef, static_key, context.axis_env, config.key(), *[x.aval if type(x) is Array else get_aval(x) for x in leaves])
        except TypeError:
            check_args(leaves, treedef, fun, "jit")
            raise
        traced = self._cache.get(key)
        if traced is None:
            traced = self._trace(fun, dynamic, leaves, treedef)
            if len(self._cache) >= _MOST:
                self.clear_cache()
            if traced is not None and not any(is_tracer(c) for c in traced.consts):
                self._cache[key] = traced
        return leaves, traced

    def _split(self, args, kwargs):
        """(dynamic arguments, dynamic keyword arguments, the static values as a hashable key)."""
        n = len(args)
        static = {i % n for i in self._static if -n <= i < n}
        values = [(i, args[i]) for i in sorted(static)] + [(k, kwargs[k]) for k in sorted(self._names & kwargs.keys())]
        for where, v in values:
            try:
                hash(v)
            except TypeError:
                raise ValueError(
                    f"Non-hashable static arguments are not supported: argument {where!r} of {fun_name(self._fun)} is of type "
                    f"{type(v).__name__}. Static arguments must have a hash and ==."
                ) from None
        dynamic = tuple(a for i, a in enumerate(args) if i not in static)
        return dynamic, {k: v for k, v in kwargs.items() if k not in self._names}, tuple((w, type(v), v) for w, v in values)

    def _bind_static(self, args, kwargs):
        """The function of the dynamic arguments alone."""
        fun = bind_static(self._fun, args, self._static)[0]
        names = {k: kwargs[k] for k in self._names & kwargs.keys()}
        return functools.partial(fun, **names) if names else fun

    def _trace(self, fun, args, leaves, treedef):
        check_args(leaves, treedef, fun, "jit")
        for what, specs in self._specs:
            check_sharding(specs, f"jit {what}")
        if config.no_tracing:
            raise RuntimeError(f"re-tracing function {fun_name(self._fun)} for `jit`, but 'no_tracing' is set")
        if config.log_compiles:
            _LOG.warning("Compiling %s for %s", fun_name(self._fun), [str(get_aval(x)) for x in leaves])
        out_tree = [None]
        with timed("/jax/core/compile/jaxpr_trace_duration", fun_name=fun_name(self._fun)), watching() as frame:
            closed = stage(flat_fun(fun, treedef, out_tree), [get_aval(x) for x in leaves], fun_name(self._fun))
        if frame.touched:  # the caller does it anew with their values
            self._programs.refs, self._programs.of_values = (*self._programs.refs, *frame.touched), None
            return None
        out = _Traced()
        out.consts, out.closed = convert_constvars(closed)
        out.in_tree, out.out_tree, out.name, out.program = treedef, out_tree[0], fun_name(self._fun), None
        out.n_consts, out._body = len(out.consts), False
        donated, at = [], out.n_consts
        if self._donate_names or self._donate:
            static = {i % max(1, len(args) + len(self._static)) for i in self._static}
            position = 0
            for a in args:
                while position in static:
                    position += 1
                n = len(flatten_live(a)[0])
                if position in self._donate:
                    donated.extend(range(at, at + n))
                at, position = at + n, position + 1
            for name, a in sorted(tree.unflatten(treedef, leaves)[1].items()):
                n = len(flatten_live(a)[0])
                if name in self._donate_names:
                    donated.extend(range(at, at + n))
                at += n
        out.donated = _usable(donated, out.closed)
        return out

    def lower(self, *args, **kwargs):
        """The traced program at these arguments, which may be ShapeDtypeStructs: .as_text() and .compile()."""
        return self.trace(*args, **kwargs).lower()

    def trace(self, *args, **kwargs):
        """The function traced at these arguments, which may be ShapeDtypeStructs: .jaxpr, .out_info and .lower()."""
        args, kwargs = tree.map(lambda x: _Abstract(x) if isinstance(x, ShapeDtypeStruct) else x, (args, kwargs))
        with paused_gc():
            return Traced(self, self._lookup(args, kwargs)[1])

    def eval_shape(self, *args, **kwargs):
        return eval_shape(self._fun, *args, **kwargs)

    def clear_cache(self):
        """Forget all traced and compiled programs."""
        self._programs.clear()

    def _cache_size(self):
        return len(self._cache)


class _PlacedJit(JitFunction):
    """A jitted function with out_shardings."""

    def __call__(self, *args, **kwargs):
        return device_put(super().__call__(*args, **kwargs), self._out_shardings)


KEEPING |= {JitFunction, _PlacedJit}


def _usable(donated, closed):
    """The donated inputs that results of the same shape and dtype can take over; a UserWarning names the others, which are kept. So are
    those that no result depends on: to JAX they are no arguments of the program."""
    if not donated:
        return ()
    wanted = Counter((a.shape, a.dtype) for a in closed.out_avals)
    needed = live_eqns(closed.jaxpr.eqns, closed.jaxpr.outvars)[1]
    used, rest = [], []
    for i in donated:
        if closed.jaxpr.invars[i] not in needed:
            continue
        a = closed.in_avals[i]
        wanted[a.shape, a.dtype] -= 1
        (used if wanted[a.shape, a.dtype] >= 0 else rest).append(i)
    if rest:
        what = ", ".join(type_text(closed.in_avals[i]) for i in rest)
        warnings.warn(f"Some donated buffers were not usable: {what}. No result has their shape and dtype.", stacklevel=2)
    return tuple(used)


class _Abstract:
    """An argument of which only the abstract value is known."""

    __slots__ = ("aval",)

    def __init__(self, struct):
        self.aval = abstractify(struct)


def _check_argnums(fun, params, plain, kind, nums, names):
    """What is static or donated (`kind`) must be arguments that `fun` takes."""
    kinds = {p.kind for p in params}
    if params and inspect.Parameter.VAR_POSITIONAL not in kinds:
        for i in nums:
            if not -len(plain) <= i < len(plain):
                raise ValueError(
                    f"Jitted function has {kind}_argnums={nums}, but only accepts {len(plain)} positional arguments: {fun_name(fun)}."
                )
    if params and inspect.Parameter.VAR_KEYWORD not in kinds:
        unknown = [n for n in names if n not in {p.name for p in params}]
        if unknown:
            raise ValueError(
                f"Jitted function has invalid argnames {{{str(unknown)[1:-1]}}} in {kind}_argnames. {fun_name(fun)} does not take "
                "these args."
            )


def clear_caches():
    """Forget all traced and compiled programs."""
    for programs in list(_all_programs):
        programs.clear()
    forget_staged()
    clear_eager_caches()
    clear_backward_cache()
    clear_interned()
    forget_made()


def jit(
    fun=None,
    /,
    *,
    in_shardings=None,
    out_shardings=None,
    static_argnums=None,
    static_argnames=None,
    donate_argnums=(),
    donate_argnames=(),
    keep_unused=False,
    device=None,
    backend=None,
    inline=False,
    compiler_options=None,
):
    """Compile `fun`: it is traced once per shapes, dtypes and static values of its arguments, and then runs as one program.

    static_argnums, static_argnames: arguments that are Python values, hashed and compared; each value compiles anew.
    donate_argnums, donate_argnames: arguments whose memory the results may take over; they must not be used afterwards. Those that
    no result of the same shape and dtype can take over are kept, with a warning.
    inline: jaxprs that the function is traced into have its operations, not a call.
    keep_unused, compiler_options: JAX's hints to its compiler; nothing depends on them. device and backend can only be
    the CPU, and shardings None: anything else raises ValueError or NotImplementedError.

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.jit(lambda x: jnp.sum(x * 2))(jnp.ones(3))
    Array(6., dtype=float32)
    """
    if fun is None:
        return functools.partial(
            jit,
            in_shardings=in_shardings,
            out_shardings=out_shardings,
            device=device,
            backend=backend,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            keep_unused=keep_unused,
            inline=inline,
        )
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun!r}")
    check_device(device, "jit")
    check_device(backend, "jit")
    shardings = [(what, s) for what, s in (("in_shardings", in_shardings), ("out_shardings", out_shardings)) if s is not None]
    by_context = [pair for pair in shardings if any(isinstance(x, PartitionSpec) for x in tree.leaves(pair[1]))]
    for what, given in shardings:
        if not by_context:
            check_sharding(given, f"jit {what}")
    given_nums, given_names = static_argnums is not None, static_argnames is not None
    nums = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums or ())
    donate_argnames = (donate_argnames,) if isinstance(donate_argnames, str) else tuple(donate_argnames or ())
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames or ())
    donate = {donate_argnums} if isinstance(donate_argnums, int) else set(donate_argnums or ())
    if nums or names or donate or donate_argnames:
        try:
            params = list(inspect.signature(fun).parameters.values())
        except (TypeError, ValueError):
            params = []
        plain = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        _check_argnums(fun, params, plain, "static", nums, names)
        _check_argnums(fun, params, plain, "donate", tuple(donate), donate_argnames)
        donate = {i % len(plain) if plain and i < 0 else i for i in donate}
        # Positions and names stand for each other. Both given are taken as they are: wrappers have others' signatures.
        if not given_nums:
            nums = tuple(plain.index(n) for n in names if n in plain)
        elif not given_names:
            names = tuple(plain[i] for i in nums if -len(plain) <= i < len(plain))
        if not donate:
            donate = {plain.index(n) for n in donate_argnames if n in plain}
        elif not donate_argnames:
            donate_argnames = tuple(plain[i] for i in donate if i < len(plain))
    both = donate & set(nums)
    if both:
        raise ValueError(f"jit of {fun_name(fun)}: static_argnums and donate_argnums cannot intersect, got {sorted(both)} in both")
    kind = JitFunction if out_shardings is None else _PlacedJit
    out = _jitted(kind, fun, (nums, names, frozenset(donate), donate_argnames), by_context, out_shardings)
    out._inline = bool(inline)
    return out


def _jitted(kind, fun, options, specs, out_shardings):
    out = kind(fun, *options, _Programs() if specs else _programs_of(fun, options))
    out._specs, out._out_shardings = specs, out_shardings
    return out
