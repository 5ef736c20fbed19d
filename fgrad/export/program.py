"""Exported: a program at given types."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import api, dtypes
from fgrad import array_tree as tree
from fgrad.core import ClosedJaxpr, ShapedArray, eval_jaxpr, get_aval, to_array
from fgrad.core.dimensions import is_symbolic
from fgrad.export.encoding import encode, encode_aval, encode_tree

HEADER = b"fgrad exported program 1\n"


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
        return bytearray(HEADER + json.dumps(self._data(vjp_order)).encode())

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
        where = [("args", "kwargs")[path[0]] + tree.keystr(path[1:]) for path in treedef.paths()]
        for at, x, want in zip(where, leaves, self.in_avals):
            got = get_aval(x)
            if got.shape != want.shape and not is_symbolic(want.shape):
                raise ValueError(f"Shape mismatch for {at}: expected {want.shape} and called with {got.shape}")
            if got.dtype != want.dtype:
                raise ValueError(f"Dtype mismatch for {at}: expected {want.dtype.name} and called with {got.dtype.name}")
        return tree.unflatten(self.out_tree, self._run(leaves, where))

    def _run(self, leaves, where):
        return _flat_call(self)(*leaves)


def inexact(avals):
    return [i for i, a in enumerate(avals) if dtypes.is_inexact(a.dtype)]


def _flat_call(exported):
    """The function of the leaves, with the derivative that the program has."""
    run = api.jit(lambda *xs: tuple(eval_jaxpr(exported.jaxpr.jaxpr, exported.jaxpr.consts, *xs)))
    fun = api.custom_vjp(run)

    def backward(xs, cts):
        given = iter(exported.vjp().call(*xs, *[cts[i] for i in inexact(exported.out_avals)]))
        wanted = inexact(exported.in_avals)
        return tuple(next(given) if i in wanted else np.zeros(a.shape, dtypes.float0) for i, a in enumerate(exported.in_avals))

    fun.defvjp(lambda *xs: (run(*xs), xs), backward)
    return fun


def _vjp_of(exported):
    """The Exported of the pullback."""
    ins, outs = inexact(exported.in_avals), inexact(exported.out_avals)
    n = len(exported.in_avals)

    def pullback(*xs):
        def floats(*fs):
            at = dict(zip(ins, fs))
            results = eval_jaxpr(exported.jaxpr.jaxpr, exported.jaxpr.consts, *[at.get(i, x) for i, x in enumerate(xs[:n])])
            return [results[i] for i in outs]

        return api.vjp(floats, *[xs[i] for i in ins])[1](list(xs[n:]))

    types = [*exported.in_avals, *[ShapedArray(exported.out_avals[i].shape, exported.out_avals[i].dtype) for i in outs]]
    pullback.__name__ = f"{exported.fun_name}_vjp"
    return program_of(api.jit(pullback), [api.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in types], {})


def with_vjp(exported):
    made: list = []

    def get():
        if not made:
            made.append(_vjp_of(exported))
        return made[0]

    return dataclasses.replace(exported, _get_vjp=get)


def program_of(fun_jit, args, kwargs):
    """The Exported of a jitted function at arguments or ShapeDtypeStructs of numbers."""
    traced = fun_jit.trace(*args, **kwargs)
    inner = traced._traced
    n = inner.n_consts
    jaxpr = inner.closed.jaxpr
    closed = ClosedJaxpr(jaxpr.replace(constvars=[*jaxpr.constvars, *jaxpr.invars[:n]], invars=jaxpr.invars[n:]), [
        *inner.closed.consts, *map(to_array, inner.consts)
    ])  # fmt: skip
    avals = (tuple(closed.in_avals), tuple(closed.out_avals))
    return with_vjp(Exported(inner.name, traced.in_tree, avals[0], traced.out_tree, avals[1], closed))
