"""The namespaces that implementations are written against, and how each moves arrays in, waits, and moves them out."""

import importlib
import importlib.util
from types import SimpleNamespace

import numpy as np

from benchmarks.plain import plain_functions
from benchmarks.workload import leaves, tree_map

MODULES = {"fgrad": "fgrad", "jax": "jax", "torch": "torch", "torch-compile": "torch", "numpy": "numpy", "numexpr": "numexpr"}
TRANSFORMS = ("jit", "grad", "value_and_grad", "vjp", "jvp", "vmap", "jacfwd", "jacrev", "hessian", "checkpoint")


def installed(peer):
    return importlib.util.find_spec(MODULES[peer]) is not None


def _jaxlike(name):
    root = importlib.import_module(name)
    part = lambda sub: importlib.import_module(f"{name}.{sub}")  # noqa: E731
    m = SimpleNamespace(name=name, np=part("numpy"), lax=part("lax"), random=part("random"), **{t: getattr(root, t) for t in TRANSFORMS})
    m.tree = part("tree")
    m.plain = plain_functions(m)
    if name == "fgrad":
        m.nn, m.optim = part("nn"), part("optim")
    else:  # what jax.nn lacks, and what optax would add, written out
        nn = part("nn")
        m.nn = SimpleNamespace(**{**vars(m.plain), **{k: getattr(nn, k) for k in dir(nn) if not k.startswith("_")}})
        m.optim = m.plain
    return m


def _torch(name, threads):
    torch = importlib.import_module("torch")
    torch.set_num_threads(threads)
    compiled = torch.compile if name == "torch-compile" else lambda f: f
    return SimpleNamespace(name=name, torch=torch, F=torch.nn.functional, compile=compiled)


class Backend:
    """One implementation in this process: `m` for workloads, array() in, wait(), numpy() out."""

    def __init__(self, name, threads):
        self.name = name
        if name in ("fgrad", "jax"):
            self.m = _jaxlike(name)
            self._array = self.m.np.asarray
        elif name in ("torch", "torch-compile"):
            self.m = _torch(name, threads)
            self._array = self.m.torch.from_numpy
        else:
            self.m = importlib.import_module(MODULES[name])
            self._array = lambda x: x
            if name == "numexpr":
                self.m.set_num_threads(threads)
        self.wait = importlib.import_module("jax").block_until_ready if name == "jax" else lambda x: x

    def arrays(self, inputs):
        return tree_map(self._array, inputs)

    def start(self):
        """Have the library start what it starts lazily, so that a first call measures the program and not the library."""
        if self.name in ("fgrad", "jax"):
            x = self.m.np.ones(8)
            self.wait(self.m.jit(lambda x: x + 1)(x))
        elif self.name in ("torch", "torch-compile"):
            (self.m.torch.ones(8) + 1).sum()

    def numpy(self, result):
        out = []
        for x in leaves(result):
            x = x.detach() if hasattr(x, "detach") else x
            out.append(np.asarray(x))
        return out
