"""jax.export: a jitted function traced at given types, kept as bytes, and called again, in another process too.

Not in it: symbolic shapes, other platforms, StableHLO (a program is a jaxpr).
"""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import api, dtypes
from fgrad import array_tree as tree
from fgrad.api.jit import JitFunction
from fgrad.compile.eager import EagerFunction
from fgrad.core import ClosedJaxpr, ShapedArray, check_jaxpr, eval_jaxpr, get_aval, to_array
from fgrad.export.encoding import (
    decode,
    decode_aval,
    decode_tree,
    encode,
    encode_aval,
    encode_tree,
    register_namedtuple_serialization,
    register_pytree_node_serialization,
)

__all__ = [
    "Exported",
    "default_export_platform",
    "deserialize",
    "export",
    "is_symbolic_dim",
    "register_namedtuple_serialization",
    "register_pytree_node_serialization",
]

_HEADER = b"fgrad exported program 1\n"


def is_symbolic_dim(p):
    """False: a dimension is always a number here.

    >>> from fgrad import export
    >>> export.is_symbolic_dim(3)
    False
    """
    return False


def default_export_platform():
    """'cpu', the one there is."""
    return "cpu"


@dataclasses.dataclass(frozen=True)
class Exported:
    """A function at given types: `call` calls it, `serialize` gives it as bytes.

    in_tree is the structure of (args, kwargs), in_avals and out_avals are the leaves' types.
    """

    fun_name: str
    in_tree: Any
    in_avals: tuple
    out_tree: Any
    out_avals: tuple
    jaxpr: ClosedJaxpr = dataclasses.field(repr=False)
    _get_vjp: Callable | None = dataclasses.field(repr=False, default=None)
    platforms: tuple = ("cpu",)
    nr_devices: int = 1

    def has_vjp(self):
        """Whether there is a derivative: always before serialize, then as its vjp_order says."""
        return self._get_vjp is not None

    def vjp(self):
        """The pullback as an Exported: from the arguments' leaves and the cotangents of floating results to those of floating arguments.

        Raises ValueError where it was not serialized.
        """
        if self._get_vjp is None:
            raise ValueError(f"No VJP is available for {self.fun_name!r}: serialize it with vjp_order=1 or more")
        return self._get_vjp()

    def serialize(self, vjp_order=0):
        """The program as bytes, with its derivatives up to that order.

        Raises ValueError for programs with callbacks, primitives or pytree nodes of one's own (see register_pytree_node_serialization).
        """
        return bytearray(_HEADER + json.dumps(self._data(vjp_order)).encode())

    def _data(self, vjp_order):
        return {
            "name": self.fun_name,
            "trees": [encode_tree(self.in_tree), encode_tree(self.out_tree)],
            "avals": [[encode_aval(a) for a in avals] for avals in (self.in_avals, self.out_avals)],
            "jaxpr": encode(self.jaxpr),
            "vjp": self.vjp()._data(vjp_order - 1) if vjp_order else None,
        }

    def call(self, *args, **kwargs):
        """The function's result. Works within jit, vmap and grad (where there is a vjp).

        Raises ValueError where the arguments' structure, shapes or dtypes are not those that it was exported for.
        """
        leaves, treedef = tree.flatten((args, kwargs))
        if treedef != self.in_tree:
            raise ValueError(
                f"The invocation args and kwargs must have the same pytree structure as when the function '{self.fun_name}' was exported"
                f"{tree.difference(self.in_tree, treedef)}"
            )
        for path, x, want in zip(treedef.paths(), leaves, self.in_avals):
            got = get_aval(x)
            where = ("args", "kwargs")[path[0]] + tree.keystr(path[1:])
            if got.shape != want.shape:
                raise ValueError(f"Shape mismatch for {where}: expected {want.shape} and called with {got.shape}")
            if got.dtype != want.dtype:
                raise ValueError(f"Dtype mismatch for {where}: expected {want.dtype.name} and called with {got.dtype.name}")
        return tree.unflatten(self.out_tree, _flat_call(self)(*leaves))


def _inexact(avals):
    return [i for i, a in enumerate(avals) if dtypes.is_inexact(a.dtype)]


def _flat_call(exported):
    """The function of the leaves, with the derivative that the program has."""
    run = api.jit(lambda *xs: tuple(eval_jaxpr(exported.jaxpr.jaxpr, exported.jaxpr.consts, *xs)))
    fun = api.custom_vjp(run)

    def backward(xs, cts):
        given = iter(exported.vjp().call(*xs, *[cts[i] for i in _inexact(exported.out_avals)]))
        wanted = _inexact(exported.in_avals)
        return tuple(next(given) if i in wanted else np.zeros(a.shape, dtypes.float0) for i, a in enumerate(exported.in_avals))

    fun.defvjp(lambda *xs: (run(*xs), xs), backward)
    return fun


def _vjp_of(exported):
    """The Exported of the pullback."""
    ins, outs = _inexact(exported.in_avals), _inexact(exported.out_avals)
    n = len(exported.in_avals)

    def pullback(*xs):
        def floats(*fs):
            at = dict(zip(ins, fs))
            results = eval_jaxpr(exported.jaxpr.jaxpr, exported.jaxpr.consts, *[at.get(i, x) for i, x in enumerate(xs[:n])])
            return [results[i] for i in outs]

        return api.vjp(floats, *[xs[i] for i in ins])[1](list(xs[n:]))

    types = [*exported.in_avals, *[ShapedArray(exported.out_avals[i].shape, exported.out_avals[i].dtype) for i in outs]]
    pullback.__name__ = f"{exported.fun_name}_vjp"
    return export(api.jit(pullback))(*[api.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in types])


def _with_vjp(exported):
    made: list = []

    def get():
        if not made:
            made.append(_vjp_of(exported))
        return made[0]

    return dataclasses.replace(exported, _get_vjp=get)


def export(fun_jit, *, platforms=None, disabled_checks=()):
    """A function that takes arguments, or ShapeDtypeStructs in their place, and gives the Exported of what jit returned for them.

    disabled_checks: taken for JAX's sake. Raises ValueError for a function that is not jitted and for platforms other than the CPU.

    >>> import fgrad, fgrad.numpy as jnp
    >>> from fgrad import export
    >>> exported = export.export(fgrad.jit(lambda x: 2 * jnp.sin(x)))(fgrad.ShapeDtypeStruct((3,), "float32"))
    >>> blob = exported.serialize()
    >>> export.deserialize(blob).call(jnp.zeros(3))
    Array([0., 0., 0.], dtype=float32)
    """
    if isinstance(fun_jit, EagerFunction):  # jnp.sin and its like are jitted functions in JAX
        fun_jit = api.jit(fun_jit)
    if not isinstance(fun_jit, JitFunction):
        raise ValueError(f"Function to be exported must be the result of `jit` but is: {fun_jit!r}")
    if platforms is not None and tuple(platforms) != ("cpu",):
        raise ValueError(f"export: programs run on the CPU; got platforms={tuple(platforms)}")

    def of(*args, **kwargs):
        traced = fun_jit.trace(*args, **kwargs)
        inner = traced._traced
        n = inner.n_consts
        jaxpr = inner.closed.jaxpr
        closed = ClosedJaxpr(jaxpr.replace(constvars=[*jaxpr.constvars, *jaxpr.invars[:n]], invars=jaxpr.invars[n:]), [
            *inner.closed.consts, *map(to_array, inner.consts)
        ])  # fmt: skip
        avals = (tuple(closed.in_avals), tuple(closed.out_avals))
        return _with_vjp(Exported(inner.name, traced.in_tree, avals[0], traced.out_tree, avals[1], closed))

    return of


def deserialize(blob):
    """The Exported of serialize's bytes. Nothing of them is run, and the program is checked. Raises ValueError for other bytes."""
    if not bytes(blob[: len(_HEADER)]) == _HEADER:
        raise ValueError("deserialize: these bytes are not a program that Exported.serialize gave, or one of another version")
    try:
        return _read(json.loads(bytes(blob[len(_HEADER) :])))
    except (KeyError, IndexError, AttributeError) as err:
        raise ValueError(f"deserialize: these bytes are damaged: {err!r}") from err


def _read(data):
    closed = decode(data["jaxpr"])
    check_jaxpr(closed)
    ins, outs = (tuple(map(decode_aval, avals)) for avals in data["avals"])
    if list(ins) != list(closed.in_avals) or list(outs) != list(closed.out_avals):
        raise ValueError("deserialize: the program's types are not those of its jaxpr")
    pullback = None if data["vjp"] is None else _read(data["vjp"])
    in_tree, out_tree = map(decode_tree, data["trees"])
    return Exported(data["name"], in_tree, ins, out_tree, outs, closed, None if pullback is None else lambda: pullback)
