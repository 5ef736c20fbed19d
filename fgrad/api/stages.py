"""The stages of a jitted function before its call: traced, lowered, compiled."""

from fgrad import array_tree as tree
from fgrad._kernels.dispatch import JitDispatch
from fgrad.api.common import ShapeDtypeStruct, arg_paths
from fgrad.api.cost import costs
from fgrad.compile.writer import label_text
from fgrad.config import config
from fgrad.control.jit import contiguous, jit_p
from fgrad.core import context, eval_trace, get_aval, is_tracer, pp_jaxpr, to_array
from fgrad.core.context import paused_gc
from fgrad.core.sharding import SingleDeviceSharding


class ArgInfo:
    """Shape and dtype of an argument's leaf, and whether it is donated."""

    __slots__ = ("donated", "dtype", "shape")

    def __init__(self, aval, donated):
        self.shape, self.dtype, self.donated = aval.shape, aval.dtype, donated

    def __repr__(self):
        return f"ArgInfo(shape={self.shape}, dtype={self.dtype.name}, donated={self.donated})"


class Stage:
    """What all stages know of the function: its arguments and its result, as pytrees of types."""

    def __init__(self, jitted, traced):
        self._jitted, self._traced = jitted, traced

    @property
    def in_tree(self):
        """The structure of (args, kwargs), without static arguments."""
        return self._traced.in_tree

    @property
    def out_tree(self):
        return self._traced.out_tree

    @property
    def in_avals(self):
        return tree.unflatten(self.in_tree, self._traced.closed.in_avals[self._traced.n_consts :])

    @property
    def args_info(self):
        """An ArgInfo for each leaf of (args, kwargs)."""
        first, donated = self._traced.n_consts, self._traced.donated
        infos = [ArgInfo(a, i in donated) for i, a in enumerate(self._traced.closed.in_avals) if i >= first]
        return tree.unflatten(self.in_tree, infos)

    @property
    def out_info(self):
        """A ShapeDtypeStruct for each leaf of the result."""
        outs = [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in self._traced.closed.out_avals]
        return tree.unflatten(self.out_tree, outs)

    @property
    def donate_argnums(self):
        return tuple(sorted(self._jitted._donate))

    @property
    def fun_name(self):
        return self._traced.name

    @property
    def out_avals(self):
        return tree.unflatten(self.out_tree, self._traced.closed.out_avals)

    def as_text(self, dialect=None, *, debug_info=False):
        """The traced program: its jaxpr as text, whatever the dialect."""
        return pp_jaxpr(self._traced.closed)

    def cost_analysis(self):
        """{"flops", "transcendentals", "bytes accessed"}: estimates from the traced program, equation by equation."""
        return costs(self._traced.closed)


class MemoryStats(dict):
    """Bytes by kind, which are attributes under JAX's names as well."""

    temp_size_in_bytes = property(lambda self: self["temp_bytes"])
    argument_size_in_bytes = property(lambda self: self["argument_bytes"])
    output_size_in_bytes = property(lambda self: self["output_bytes"])
    alias_size_in_bytes = property(lambda self: self["alias_bytes"])
    peak_memory_in_bytes = property(lambda self: self["peak_bytes"])
    generated_code_size_in_bytes = 0


class Compiled(JitDispatch, Stage):
    """A compiled program: call it with arguments of the shapes and dtypes it was compiled for, without the static ones."""

    def __init__(self, jitted, traced):
        JitDispatch.__init__(self, (), frozenset())
        Stage.__init__(self, jitted, traced)

    def _prepare(self, args, kwargs, leaves):
        self._check(args, kwargs)
        return None if config.disable_jit or config.debug_nans or config.debug_infs else self._traced.entry(leaves)

    def _slow(self, args, kwargs):
        leaves, traced = self._check(args, kwargs), self._traced
        if (tracer := next((x for x in leaves if is_tracer(x)), None)) is not None:
            raise TypeError(
                "Cannot apply JAX transformations to a function lowered and compiled for a particular signature. Detected argument of "
                f"Tracer type {type(tracer)}."
            )
        donated = traced.donated if context.trace is eval_trace else ()
        out = jit_p.bind(*traced.consts, *leaves, jaxpr=traced.closed, name=traced.name, donated=donated)
        return tree.unflatten(traced.out_tree, out)

    def _check(self, args, kwargs):
        """The leaves of arguments that this was compiled for; TypeError for others."""
        traced = self._traced
        leaves, treedef = tree.flatten((args, kwargs))
        if treedef != traced.in_tree:
            raise TypeError(
                "Function compiled with input pytree does not match the input pytree it was called with: "
                f"compiled for {traced.in_tree}, called with {treedef}{tree.difference(traced.in_tree, treedef, 1)}"
            )
        want = traced.closed.in_avals[traced.n_consts :]
        avals = [get_aval(x) for x in leaves]
        bad = [i for i, (w, a) in enumerate(zip(want, avals)) if (w.shape, w.dtype) != (a.shape, a.dtype)]
        if bad:
            paths = arg_paths(self._jitted, treedef)
            differ = "; ".join(f"{paths[i]} compiled with {want[i].short()} and called with {avals[i].short()}" for i in bad)
            raise TypeError(f"Argument types differ from the types for which this computation was compiled: {differ}")
        return leaves

    @property
    def input_shardings(self):
        return tree.map(lambda _: SingleDeviceSharding(), self.args_info)

    @property
    def output_shardings(self):
        return tree.map(lambda _: SingleDeviceSharding(), self.out_info)

    def profile(self, *args, repeat=10):
        """Where the time goes: [(seconds, what the instruction does)], the median of `repeat` runs, the slowest first.

        The arguments must be arrays; those that the function donates are copied first.
        """
        leaves, traced = self._jitted._lookup(args, {})
        runs = []
        for _ in range(repeat):
            arrays = [contiguous(to_array(x)) for x in leaves]
            runs.append(traced.program.profile([*traced.consts, *arrays])[1])
        medians = [sorted(times)[repeat // 2] for times in zip(*runs)]
        return sorted(zip(medians, map(label_text, traced.program.labels)), reverse=True)

    def call(self, *args, **kwargs):
        return self(*args, **kwargs)

    def memory_analysis(self):
        """Bytes of temporaries (the arena), arguments, results, results in donated memory, and of all; known before it runs."""
        program = self._traced.program
        size = lambda avals: sum(a.size * a.dtype.itemsize for a in avals)  # noqa: E731
        parts = {"temp_bytes": program.arena_bytes, "argument_bytes": size(program.in_avals), "output_bytes": size(program.out_avals)}
        return MemoryStats({**parts, "alias_bytes": program.alias_bytes, "peak_bytes": sum(parts.values()) - program.alias_bytes})


class Lowered(Stage):
    """A traced function, not yet compiled."""

    def compiler_ir(self, dialect=None):
        """The program as what compiles it takes it: a jaxpr, whatever the dialect."""
        return self._traced.closed

    def compile(self, compiler_options=None):
        """The program, compiled; compiler_options are hints to JAX's compiler."""
        with paused_gc():
            self._jitted._program(self._traced)
        return Compiled(self._jitted, self._traced)


class Traced(Stage):
    """A function traced for arguments of some shapes and dtypes."""

    @property
    def jaxpr(self):
        return self._traced.closed

    def lower(self, *, lowering_platforms=None):
        """The next stage: the program is lowered when it is compiled."""
        return Lowered(self._jitted, self._traced)
