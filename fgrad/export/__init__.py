"""jax.export: a jitted function traced at given types, kept as bytes, and called again, in another process too.

Shapes may have symbolic dimensions. Not in it: other platforms, StableHLO (a program is a jaxpr).
"""

import json

from fgrad import api
from fgrad import array_tree as tree
from fgrad.api.jit import JitFunction
from fgrad.compile.eager import EagerFunction
from fgrad.core import check_jaxpr
from fgrad.core.dimensions import SymbolicScope, is_symbolic
from fgrad.export.encoding import decode, decode_aval, decode_tree, register_namedtuple_serialization, register_pytree_node_serialization
from fgrad.export.program import HEADER, Exported, program_of
from fgrad.export.symbolic import is_symbolic_dim, read_symbolic, symbolic_args_specs, symbolic_export, symbolic_shape

__all__ = [
    "Exported",
    "SymbolicScope",
    "default_export_platform",
    "deserialize",
    "export",
    "is_symbolic_dim",
    "register_namedtuple_serialization",
    "register_pytree_node_serialization",
    "symbolic_args_specs",
    "symbolic_shape",
]


def default_export_platform():
    """'cpu', the one there is."""
    return "cpu"


def export(fun_jit, *, platforms=None, disabled_checks=()):
    """A function that takes arguments, or ShapeDtypeStructs in their place, and gives the Exported of what jit returned for them.

    Shapes may have symbolic dimensions (symbolic_shape): the program is called at any sizes then.

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
        leaves, treedef = tree.flatten((args, kwargs))
        if any(isinstance(x, api.ShapeDtypeStruct) and is_symbolic(x.shape) for x in leaves):
            return symbolic_export(of, leaves, treedef)
        return program_of(fun_jit, args, kwargs)

    return of


def deserialize(blob):
    """The Exported of serialize's bytes. Nothing of them is run, and the program is checked. Raises ValueError for other bytes."""
    if not bytes(blob[: len(HEADER)]) == HEADER:
        raise ValueError("deserialize: these bytes are not a program that Exported.serialize gave, or one of another version")
    try:
        return _read(json.loads(bytes(blob[len(HEADER) :])))
    except (KeyError, IndexError, AttributeError) as err:
        raise ValueError(f"deserialize: these bytes are damaged: {err!r}") from err


def _read(data):
    if "symbolic" in data:
        return read_symbolic(data, _read)
    closed = decode(data["jaxpr"])
    check_jaxpr(closed)
    ins, outs = (tuple(map(decode_aval, avals)) for avals in data["avals"])
    if list(ins) != list(closed.in_avals) or list(outs) != list(closed.out_avals):
        raise ValueError("deserialize: the program's types are not those of its jaxpr")
    pullback = None if data["vjp"] is None else _read(data["vjp"])
    in_tree, out_tree = map(decode_tree, data["trees"])
    return Exported(data["name"], in_tree, ins, out_tree, outs, closed, None if pullback is None else lambda: pullback)
