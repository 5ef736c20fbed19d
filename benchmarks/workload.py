"""What a workload is, and the registry of all of them."""

import importlib
import pkgutil

import numpy as np

WORKLOADS = {}


class Workload:
    """One computation at one size, in as many implementations as make sense.

    An implementation is a method that takes a namespace and the inputs as native arrays, and returns a function of no arguments that
    computes once and returns the results; what it calls may keep state (a training step keeps its parameters).

    jaxlike(m, *inputs): written once for fgrad and JAX. m has jit, grad, np, nn, lax, random, tree, optim and so on (see namespaces.py).
    torch(m, *inputs): m.torch, m.F, and m.compile, which is the identity or torch.compile.
    numpy(np, *inputs): with gradients derived by hand. numexpr(ne, *inputs).
    """

    name = ""
    sizes = ((),)
    quick = ()  # sizes that --quick runs
    kind = "time"  # "time": steady state; "first call": seconds to the first result in a fresh process
    core = False  # in the table of the workloads that matter most
    unchecked = ()  # implementations whose results may differ (other random streams)
    tol = 1e-4  # allowed error relative to the largest element of each result
    calls = 1  # calls before the results are compared: more than one where state goes from call to call
    x64 = False
    note = ""
    compiled = None  # a function that gives the compiled program whose arena the page tells; an implementation may set it
    torch = numpy = numexpr = None

    def __init__(self, *size):
        self.size = size

    @property
    def label(self):
        return "x".join(
            f"{n:.0e}".replace("e+0", "e") if isinstance(n, int) and n >= 10_000 and n % 10 ** (len(str(n)) - 1) == 0 else str(n)
            for n in self.size
        )

    def inputs(self, rng):
        return ()

    def jaxlike(self, m, *inputs):
        raise NotImplementedError

    def bytes(self):
        """Bytes that must move between memory and cores in one call, or None."""
        return None

    def flops(self):
        """Floating-point operations of the matrix products of one call, or None."""
        return None

    def implementation(self, peer):
        method = {"fgrad": "jaxlike", "jax": "jaxlike", "torch-compile": "torch"}.get(peer, peer)
        return getattr(self, method)


def workload(name, sizes=((),), quick=(), **attributes):
    """Register a Workload class under `name` ("family/what"). sizes, quick: what it is called with, tuples or scalars."""
    as_tuples = lambda values: tuple(v if isinstance(v, tuple) else (v,) for v in values)  # noqa: E731

    def wrap(cls):
        if name in WORKLOADS:
            raise ValueError(f"workload {name!r} is registered twice")
        values = {"name": name, "sizes": as_tuples(sizes), "quick": as_tuples(quick), "__doc__": cls.__doc__, **attributes}
        unknown = [k for k in attributes if not hasattr(Workload, k)]
        if unknown:
            raise TypeError(f"workload {name!r}: unknown attributes {unknown}")
        WORKLOADS[name] = type(cls.__name__, (cls,), values)
        return cls

    return wrap


def load_all():
    """Import every family; returns the registry."""
    package = importlib.import_module("benchmarks.workloads")
    for info in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{info.name}")
    return WORKLOADS


def normal(rng, *shape, scale=1.0):
    """Normal float32 numbers."""
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def integers(rng, high, *shape):
    """int32 in [0, high)."""
    return rng.integers(0, high, shape).astype(np.int32)


def leaves(x):
    """The leaves of nested dicts (by key), lists and tuples."""
    if isinstance(x, dict):
        return [v for k in sorted(x) for v in leaves(x[k])]
    if isinstance(x, (list, tuple)):
        return [v for y in x for v in leaves(y)]
    return [] if x is None else [x]


def tree_map(f, *xs):
    """f over the leaves of nested dicts, lists and tuples of the same structure."""
    x = xs[0]
    if isinstance(x, dict):
        return {k: tree_map(f, *(y[k] for y in xs)) for k in x}
    if isinstance(x, (list, tuple)):
        return [tree_map(f, *ys) for ys in zip(*xs)] if isinstance(x, list) else tuple(tree_map(f, *ys) for ys in zip(*xs))
    return None if x is None else f(*xs)
