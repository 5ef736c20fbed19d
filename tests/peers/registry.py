"""The table of programs: each is written once, as a function of the namespace `jax`, and called with fgrad's or JAX's."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

VALUE = ("value", "jit", "vmap", "jit_vmap")
FORWARD = ("jvp", "linearize")
REVERSE = ("grad", "jit_grad", "value_and_grad", "vjp", "vmap_grad", "jit_vmap_grad")
SECOND = ("jvp_grad", "grad_jvp", "hessian")
ALL = VALUE + FORWARD + REVERSE + SECOND


@dataclass
class Program:
    name: str
    fun: Callable  # (jax, *args) -> a pytree of arrays
    inputs: Callable  # rng -> a tuple of pytrees of NumPy arrays and scalars
    transforms: tuple
    diff: tuple = (0,)  # the arguments that are differentiated
    static: tuple = field(default=())  # arguments that are passed as they are and never traced
    rtol: float = 1e-4
    seed: int = 0

    def arguments(self):
        """The inputs in float32: JAX would round float64 itself, with a warning."""
        return tuple(single(x) for x in self.inputs(np.random.default_rng(self.seed)))


PROGRAMS: dict[str, Program] = {}


def single(x: Any) -> Any:
    """A pytree of inputs with float64 and complex128 leaves narrowed."""
    if isinstance(x, np.ndarray) and x.dtype in (np.float64, np.complex128):
        return x.astype(np.float32 if x.dtype == np.float64 else np.complex64)
    if isinstance(x, dict):
        return {k: single(v) for k, v in x.items()}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*map(single, x))
    if isinstance(x, (list, tuple)):
        return type(x)(map(single, x))
    return x


def program(inputs, transforms=ALL, without=(), **options):
    """Decorator: enter a program with its inputs (a function of a NumPy generator) in the table."""

    def enter(fun):
        name = fun.__name__
        if name in PROGRAMS:
            raise ValueError(f"two programs are called {name}")
        PROGRAMS[name] = Program(name, fun, inputs, tuple(t for t in transforms if t not in without), **options)
        return fun

    return enter


def normal(*shapes):
    """Inputs: one standard normal array per shape."""
    return lambda rng: tuple(rng.standard_normal(s) for s in shapes)


def positive(*shapes):
    """Inputs: arrays in [0.5, 2)."""
    return lambda rng: tuple(rng.random(s) * 1.5 + 0.5 for s in shapes)
